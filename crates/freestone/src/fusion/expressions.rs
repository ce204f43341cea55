//! Physical expressions → programs of the executor.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Operator, Volatility};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use freestone_exec::arithmetic::{Comparison, Operation};
use freestone_exec::convert::form_of;
use freestone_exec::division::Rounding;
use freestone_exec::program::{Foreign, Node, Program, Register, Scalar};
use freestone_exec::vector::Form;

use super::foreign::Expression;
use super::tabulated::Tabulated;
use crate::exact::{Canonical, Exact, arithmetic};
use crate::hosted::scalar;

/// What is known of a column of a batch.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub data_type: DataType,
    pub form: Form,
    pub nullable: bool,
    /// The least and greatest value, in the integers of its form.
    pub bounds: Option<(i128, i128)>,
    /// About how many values there are at most, if dictionaries tell.
    pub texts: Option<usize>,
    /// About how many rows are read of its table, which is estimated when it is asked for.
    pub rows: Option<Arc<EstimatedRows>>,
}

/// An estimate that takes longer than many statements do.
pub(super) type EstimatedRows = LazyLock<usize, Box<dyn FnOnce() -> usize + Send>>;

impl Known {
    /// Nothing but the type.
    pub fn of(data_type: &DataType, nullable: bool) -> Known {
        Known {
            data_type: data_type.clone(),
            form: form_of(data_type),
            nullable,
            bounds: None,
            texts: None,
            rows: None,
        }
    }

    /// The bounds of 64-bit integers.
    pub fn int_bounds(&self) -> Option<(i64, i64)> {
        let (low, high) = self.bounds.filter(|_| self.form == Form::Int)?;
        Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))
    }

    /// How many values there may be, if few are known.
    pub fn values(&self) -> Option<usize> {
        let of_ints = || {
            let (low, high) = self.int_bounds()?;
            usize::try_from(high.checked_sub(low)?).ok()?.checked_add(1)
        };
        if self.form == Form::Bits { Some(2) } else { self.texts.or_else(of_ints) }
    }

    /// The least and greatest value that the type or the data allows.
    pub fn range(&self) -> Option<(i128, i128)> {
        let of_type = match &self.data_type {
            DataType::Decimal128(precision, _) => {
                let most = 10i128.checked_pow(u32::from(*precision))? - 1;
                Some((-most, most))
            }
            DataType::UInt8 => Some((0, u8::MAX.into())),
            DataType::UInt16 => Some((0, u16::MAX.into())),
            DataType::UInt32 => Some((0, u32::MAX.into())),
            DataType::Int8 => Some((i8::MIN.into(), i8::MAX.into())),
            DataType::Int16 => Some((i16::MIN.into(), i16::MAX.into())),
            DataType::Int32 | DataType::Date32 => Some((i32::MIN.into(), i32::MAX.into())),
            DataType::Int64 => Some((i64::MIN.into(), i64::MAX.into())),
            _ => None,
        };
        match (self.bounds, of_type) {
            (Some((a, b)), Some((c, d))) => Some((a.max(c), b.min(d))),
            (one, other) => one.or(other),
        }
    }
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    pub register: Register,
    pub known: Known,
    /// Whether a function of DataFusion computes a part of it, which may fail.
    pub is_foreign: bool,
}

/// Compiles expressions over the columns of a batch into one program.
pub(super) struct Expressions<'a> {
    pub program: Program,
    schema: &'a SchemaRef,
    columns: &'a [Known],
}

/// The range of 64-bit integers.
pub(super) const INT: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);

impl<'a> Expressions<'a> {
    /// For batches with these columns, which DataFusion knows by `schema`.
    pub fn new(schema: &'a SchemaRef, columns: &'a [Known]) -> Self {
        Expressions { program: Program::default(), schema, columns }
    }

    /// What DataFusion knows the columns by.
    pub fn schema(&self) -> &SchemaRef {
        self.schema
    }

    /// The column at a position.
    pub fn column(&mut self, index: usize) -> Compiled {
        let register = self.program.add(Node::Column(index));
        Compiled { register, known: self.columns[index].clone(), is_foreign: false }
    }

    /// All columns of the input, which are the first outputs.
    pub fn all_columns(&mut self) -> Vec<Compiled> {
        let columns: Vec<Compiled> = (0..self.columns.len()).map(|index| self.column(index)).collect();
        columns.iter().for_each(|column| drop(self.output(column)));
        columns
    }

    /// Compiles an expression; `None` if it must not be evaluated here.
    pub fn compile(&mut self, e: &Arc<dyn PhysicalExpr>) -> Result<Option<Compiled>> {
        if is_volatile(e) {
            return Ok(None);
        }
        match self.known(e)? {
            Some(compiled) => Ok(Some(compiled)),
            None => self.foreign(e).map(Some),
        }
    }

    /// Adds an output in the form of its type, or in a smaller one.
    pub fn output(&mut self, compiled: &Compiled) -> Known {
        self.program.output(compiled.register, compiled.known.form);
        compiled.known.clone()
    }

    /// The same value with 128 bits.
    pub fn widened(&mut self, compiled: Compiled) -> Compiled {
        if compiled.known.form != Form::Int {
            return compiled;
        }
        let register = match self.program.literal(compiled.register) {
            Some(Scalar::Int(value)) => {
                let value = i128::from(*value);
                self.program.add(Node::Literal(Scalar::Wide(value)))
            }
            _ => self.program.add(Node::ToWide(compiled.register)),
        };
        Compiled { register, known: Known { form: Form::Wide, ..compiled.known }, ..compiled }
    }

    fn known(&mut self, e: &Arc<dyn PhysicalExpr>) -> Result<Option<Compiled>> {
        if let Some(column) = e.downcast_ref::<Column>() {
            return Ok(Some(self.column(column.index())));
        }
        if let Some(literal) = e.downcast_ref::<Literal>() {
            return Ok(self.literal(literal.value()));
        }
        if let Some(call) = ScalarFunctionExpr::try_downcast_func::<Canonical>(e.as_ref()) {
            let keeps_zeros = canonical(call).is_some_and(|canonical| !canonical.changes_zeros());
            return match call.args() {
                // Floats have one NaN here.
                [operand] if keeps_zeros && !is_column(operand) => self.known(operand),
                _ => Ok(None),
            };
        }
        if let Some(is_null) = e.downcast_ref::<IsNullExpr>() {
            return self.null_test(is_null.arg(), false);
        }
        if let Some(is_not_null) = e.downcast_ref::<IsNotNullExpr>() {
            return self.null_test(is_not_null.arg(), true);
        }
        if let Some(not) = e.downcast_ref::<NotExpr>() {
            let Some(operand) = self.part(not.arg(), Form::Bits)? else { return Ok(None) };
            return Ok(Some(self.boolean(Node::Not(operand.register), &[&operand])));
        }
        if let Some(case) = e.downcast_ref::<CaseExpr>() {
            return self.case(case);
        }
        if let Some(cast) = e.downcast_ref::<CastExpr>() {
            return self.cast(cast.expr(), cast.target_field().data_type());
        }
        if let Some(call) = e.downcast_ref::<ScalarFunctionExpr>()
            && let Some(exact) = call.fun().inner().downcast_ref::<Exact>()
            && let (Some((to, false)), [operand]) = (exact.cast_to(), call.args())
        {
            return self.cast(operand, to);
        }
        if let Some((left, op, right)) = arithmetic(e.as_ref()) {
            return self.binary(e, left, op, right);
        }
        match e.downcast_ref::<ScalarFunctionExpr>() {
            Some(call) => match self.call(call)? {
                Some(compiled) => Ok(Some(compiled)),
                None => self.of_floats(e, call),
            },
            None => Ok(None),
        }
    }

    /// An operand, which may be foreign, if it has this form.
    fn part(&mut self, e: &Arc<dyn PhysicalExpr>, form: Form) -> Result<Option<Compiled>> {
        Ok(self.compile(e)?.filter(|compiled| compiled.known.form == form))
    }

    fn boolean(&mut self, node: Node, of: &[&Compiled]) -> Compiled {
        let register = self.program.add(node);
        let nullable = of.iter().any(|operand| operand.known.nullable);
        let is_foreign = of.iter().any(|operand| operand.is_foreign);
        Compiled { register, known: Known::of(&DataType::Boolean, nullable), is_foreign }
    }

    fn null_test(&mut self, e: &Arc<dyn PhysicalExpr>, negated: bool) -> Result<Option<Compiled>> {
        let Some(operand) = self.compile(e)? else { return Ok(None) };
        let mut test = self.boolean(Node::IsNull(operand.register), &[&operand]);
        test.known.nullable = false;
        if negated {
            test = self.boolean(Node::Not(test.register), &[&test]);
        }
        Ok(Some(test))
    }

    fn literal(&mut self, value: &ScalarValue) -> Option<Compiled> {
        let data_type = value.data_type();
        let int = |v: i128| match i64::try_from(v) {
            Ok(small) if INT.0 <= v => (Scalar::Int(small), Form::Int, Some((v, v))),
            _ => (Scalar::Wide(v), Form::Wide, Some((v, v))),
        };
        use ScalarValue::*;
        let (scalar, form, bounds) = match value {
            Boolean(Some(v)) => (Scalar::Bits(*v), Form::Bits, None),
            Int8(Some(v)) => int((*v).into()),
            Int16(Some(v)) => int((*v).into()),
            Int32(Some(v)) | Date32(Some(v)) => int((*v).into()),
            Int64(Some(v)) => int((*v).into()),
            UInt8(Some(v)) => int((*v).into()),
            UInt16(Some(v)) => int((*v).into()),
            UInt32(Some(v)) => int((*v).into()),
            TimestampSecond(Some(v), _)
            | TimestampMillisecond(Some(v), _)
            | TimestampMicrosecond(Some(v), _)
            | TimestampNanosecond(Some(v), _) => int((*v).into()),
            Decimal128(Some(v), _, _) => int(*v),
            Float64(Some(v)) => (Scalar::Float(*v), Form::Float, None),
            Utf8View(Some(v)) | Utf8(Some(v)) => (Scalar::Text(v.clone().into_bytes()), Form::Text, None),
            null if null.is_null() && form_of(&data_type) != Form::Arrow => (Scalar::Null, form_of(&data_type), None),
            _ => return None,
        };
        let register = self.program.add(Node::Literal(scalar));
        let known = Known { form, bounds, ..Known::of(&data_type, value.is_null()) };
        Some(Compiled { register, known, is_foreign: false })
    }

    fn binary(
        &mut self,
        e: &Arc<dyn PhysicalExpr>,
        left: &Arc<dyn PhysicalExpr>,
        op: Operator,
        right: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<Compiled>> {
        let operation = match op {
            Operator::Plus => Operation::Add,
            Operator::Minus => Operation::Subtract,
            Operator::Multiply => Operation::Multiply,
            Operator::Divide | Operator::Modulo => return self.division(e, left, op, right),
            Operator::And | Operator::Or => {
                let (Some(a), Some(b)) = (self.part(left, Form::Bits)?, self.part(right, Form::Bits)?) else {
                    return Ok(None);
                };
                let (x, y) = (a.register, b.register);
                let node = if op == Operator::And { Node::And(x, y) } else { Node::Or(x, y) };
                return Ok(Some(self.boolean(node, &[&a, &b])));
            }
            _ => return self.comparison(left, op, right),
        };
        let (Some(a), Some(b)) = (self.compile(left)?, self.compile(right)?) else { return Ok(None) };
        let result = e.data_type(self.schema)?;
        Ok(self.arithmetic(operation, a, b, &result))
    }

    fn comparison(
        &mut self,
        left: &Arc<dyn PhysicalExpr>,
        op: Operator,
        right: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<Compiled>> {
        let comparison = match op {
            Operator::Eq => Comparison::Equal,
            Operator::NotEq => Comparison::NotEqual,
            Operator::Lt => Comparison::Less,
            Operator::LtEq => Comparison::LessOrEqual,
            Operator::Gt => Comparison::Greater,
            Operator::GtEq => Comparison::GreaterOrEqual,
            _ => return Ok(None),
        };
        let (Some(a), Some(b)) = (self.compile(left)?, self.compile(right)?) else { return Ok(None) };
        if a.known.data_type != b.known.data_type || a.known.form == Form::Arrow {
            return Ok(None);
        }
        let is_constant = |of: &Self, x: &Compiled| of.program.literal(x.register).is_some();
        if is_constant(self, &a) && is_constant(self, &b) {
            return Ok(None);
        }
        let (a, b) = if a.known.form == b.known.form { (a, b) } else { (self.widened(a), self.widened(b)) };
        // A constant boolean is compared on the right only.
        let (a, b, comparison) = match self.program.literal(a.register) {
            Some(Scalar::Bits(_)) => (b, a, comparison.swapped()),
            _ => (a, b, comparison),
        };
        Ok(Some(self.boolean(Node::Compare(comparison, a.register, b.register), &[&a, &b])))
    }

    /// Arithmetic of numbers, if its result is known to fit.
    fn arithmetic(&mut self, op: Operation, a: Compiled, b: Compiled, result: &DataType) -> Option<Compiled> {
        let nullable = a.known.nullable || b.known.nullable;
        let is_foreign = a.is_foreign || b.is_foreign;
        if self.program.literal(a.register) == Some(&Scalar::Null)
            || self.program.literal(b.register) == Some(&Scalar::Null)
        {
            return None;
        }
        if *result == DataType::Float64 {
            if a.known.data_type != DataType::Float64 || b.known.data_type != DataType::Float64 {
                return None;
            }
            let register = self.program.add(Node::Arithmetic(op, a.register, b.register));
            return Some(Compiled { register, known: Known::of(result, nullable), is_foreign });
        }
        let scale = scale_of(result)?;
        let (from, to) = (scale_of(&a.known.data_type)?, scale_of(&b.known.data_type)?);
        let (a, b) = match op {
            Operation::Multiply if i16::from(from) + i16::from(to) == i16::from(scale) => (a, b),
            Operation::Add | Operation::Subtract => (self.rescaled(a, scale)?, self.rescaled(b, scale)?),
            _ => return None,
        };
        let bounds = result_bounds(op, a.known.range()?, b.known.range()?)?;
        let of_type = Known::of(result, nullable).range()?;
        if bounds.0 < of_type.0 || bounds.1 > of_type.1 {
            return None;
        }
        let fits = INT.0 <= bounds.0 && bounds.1 <= INT.1;
        let (node, form) = if fits && a.known.form == Form::Int && b.known.form == Form::Int {
            (Node::Arithmetic(op, a.register, b.register), Form::Int)
        } else {
            (Node::WideArithmetic(op, a.register, b.register), Form::Wide)
        };
        let register = self.program.add(node);
        let known = Known { form, bounds: Some(bounds), ..Known::of(result, nullable) };
        Some(Compiled { register, known, is_foreign })
    }

    /// An integer or decimal in units of another scale, which is not smaller.
    pub fn rescaled(&mut self, a: Compiled, scale: i8) -> Option<Compiled> {
        let from = scale_of(&a.known.data_type)?;
        if from == scale {
            return Some(a);
        }
        let factor = 10i128.checked_pow(u32::try_from(scale.checked_sub(from)?).ok()?)?;
        let bounds = result_bounds(Operation::Multiply, a.known.range()?, (factor, factor))?;
        let fits = INT.0 <= bounds.0 && bounds.1 <= INT.1;
        if let Some(Scalar::Int(value)) = self.program.literal(a.register)
            && fits
        {
            let value = Scalar::Int(value * factor as i64);
            let register = self.program.add(Node::Literal(value));
            return Some(Compiled { register, known: Known { bounds: Some(bounds), ..a.known }, ..a });
        }
        let (factor, node): (_, fn(Operation, Register, Register) -> Node) = match i64::try_from(factor) {
            Ok(factor) if fits && a.known.form == Form::Int => (Scalar::Int(factor), Node::Arithmetic),
            _ => (Scalar::Wide(factor), Node::WideArithmetic),
        };
        let form = if matches!(factor, Scalar::Int(_)) { Form::Int } else { Form::Wide };
        let factor = self.program.add(Node::Literal(factor));
        let register = self.program.add(node(Operation::Multiply, a.register, factor));
        Some(Compiled { register, known: Known { bounds: Some(bounds), form, ..a.known }, ..a })
    }

    /// A cast that cannot fail and needs no rounding.
    fn cast(&mut self, operand: &Arc<dyn PhysicalExpr>, to: &DataType) -> Result<Option<Compiled>> {
        let Some(a) = self.compile(operand)? else { return Ok(None) };
        if self.program.literal(a.register) == Some(&Scalar::Null) {
            return Ok(None);
        }
        if a.known.data_type == *to {
            return Ok(Some(a));
        }
        if *to == DataType::Float64 {
            return Ok(self.as_float(a));
        }
        let (Some(from), Some(scale)) = (scale_of(&a.known.data_type), scale_of(to)) else { return Ok(None) };
        if from > scale {
            return Ok(self.rounded(a, Rounding::Nearest, scale, to));
        }
        let Some(a) = self.rescaled(a, scale) else { return Ok(None) };
        let (Some(bounds), Some(of_type)) = (a.known.range(), Known::of(to, true).range()) else { return Ok(None) };
        if bounds.0 < of_type.0 || bounds.1 > of_type.1 {
            return Ok(None);
        }
        let known = Known { data_type: to.clone(), bounds: Some(bounds), ..a.known };
        Ok(Some(Compiled { known, ..a }))
    }

    fn as_float(&mut self, a: Compiled) -> Option<Compiled> {
        /// Integers up to this magnitude, and powers of ten up to this one, are exact as floats, so that the quotient
        /// is rounded once.
        const EXACT: i128 = 1 << 53;
        const EXACT_POWER: i8 = 22;
        if self.program.literal(a.register).is_some() || a.known.form != Form::Int {
            return None;
        }
        let scale = scale_of(&a.known.data_type).filter(|scale| (0..=EXACT_POWER).contains(scale))?;
        let range = a.known.range()?;
        let is_exact = -EXACT <= range.0 && range.1 <= EXACT;
        if scale > 0 && !is_exact {
            return None;
        }
        let register = self.program.add(Node::ToFloat(a.register, 10f64.powi(scale.into())));
        Some(Compiled { register, known: Known::of(&DataType::Float64, a.known.nullable), ..a })
    }

    /// A CASE with conditions whose parts cannot fail: all of them are evaluated for all rows.
    fn case(&mut self, case: &CaseExpr) -> Result<Option<Compiled>> {
        if case.expr().is_some() {
            return Ok(None);
        }
        let mut branches = vec![];
        for (when, then) in case.when_then_expr() {
            let (Some(when), Some(then)) = (self.part(when, Form::Bits)?, self.compile(then)?) else {
                return Ok(None);
            };
            branches.push((when, then));
        }
        let data_type = branches[0].1.known.data_type.clone();
        let otherwise = match case.else_expr() {
            Some(e) => self.compile(e)?,
            None => ScalarValue::try_from(&data_type).ok().and_then(|null| self.literal(&null)),
        };
        let Some(otherwise) = otherwise else { return Ok(None) };
        if branches.iter().any(|(when, _)| when.is_foreign) && !is_infallible(case) {
            return Ok(None);
        }
        if let Some(texts) = self.chosen_texts(&branches, &otherwise) {
            return Ok(Some(texts));
        }
        let values = || branches.iter().map(|(_, then)| then).chain([&otherwise]);
        let is_known = |c: &Compiled| !c.is_foreign && c.known.data_type == data_type && c.known.form != Form::Arrow;
        if !values().all(is_known) {
            return Ok(None);
        }
        let is_wide = values().any(|c| c.known.form == Form::Wide);
        let bounds = values().map(|c| if c.known.nullable && self.is_null(c) { Some((0, 0)) } else { c.known.bounds });
        let bounds = bounds.reduce(|a, b| Some((a?.0.min(b?.0), a?.1.max(b?.1)))).flatten();
        let nullable = values().any(|c| c.known.nullable);
        let is_foreign = branches.iter().any(|(when, _)| when.is_foreign);
        let mut result = if is_wide { self.widened(otherwise.clone()) } else { otherwise.clone() };
        let form = if is_wide { Form::Wide } else { branches[0].1.known.form };
        for (when, then) in branches.into_iter().rev() {
            let then = if is_wide { self.widened(then) } else { then };
            let node = Node::Choose(form, when.register, then.register, result.register);
            result.register = self.program.add(node);
        }
        Ok(Some(Compiled {
            register: result.register,
            known: Known { form, bounds, ..Known::of(&data_type, nullable) },
            is_foreign,
        }))
    }

    fn is_null(&self, compiled: &Compiled) -> bool {
        self.program.literal(compiled.register) == Some(&Scalar::Null)
    }

    /// An expression that DataFusion evaluates, over the columns that it names.
    fn foreign(&mut self, e: &Arc<dyn PhysicalExpr>) -> Result<Compiled> {
        let expression = Expression::new(e, self.schema)?;
        let inputs = expression.columns().iter().map(|column| self.column(*column).register).collect();
        let known = Known::of(expression.data_type(), e.nullable(self.schema)?);
        let column = match expression.columns() {
            [column] if !scalar::calls_hosted(e) => &self.columns[*column],
            _ => return Ok(self.called(Arc::new(expression), inputs, known)),
        };
        Ok(match Tabulated::of(expression, column, &known) {
            Ok((tabulated, known)) => self.called(Arc::new(tabulated), inputs, known),
            Err(expression) => self.called(Arc::new(expression), inputs, known),
        })
    }

    pub fn called(&mut self, function: Arc<dyn Foreign>, inputs: Vec<Register>, known: Known) -> Compiled {
        Compiled { register: self.program.add(Node::Foreign(function, inputs)), known, is_foreign: true }
    }
}

fn canonical(call: &ScalarFunctionExpr) -> Option<&Canonical> {
    call.fun().inner().downcast_ref::<Canonical>()
}

fn is_column(e: &Arc<dyn PhysicalExpr>) -> bool {
    e.is::<Column>()
}

/// Whether conditions of a CASE that DataFusion evaluates cannot fail: they test texts.
fn is_infallible(case: &CaseExpr) -> bool {
    use datafusion::physical_expr::expressions::{InListExpr, LikeExpr};
    let mut infallible = true;
    for (when, _) in case.when_then_expr() {
        let _ = when.apply(|e| {
            infallible &= e.is::<LikeExpr>()
                || e.is::<InListExpr>()
                || e.is::<BinaryExpr>()
                || e.is::<Column>()
                || e.is::<Literal>()
                || e.is::<NotExpr>();
            Ok(TreeNodeRecursion::Continue)
        });
    }
    infallible
}

/// Whether an expression has another value each time.
fn is_volatile(e: &Arc<dyn PhysicalExpr>) -> bool {
    let is_one = |e: &Arc<dyn PhysicalExpr>| {
        let call = e.downcast_ref::<ScalarFunctionExpr>();
        Ok(e.is_volatile_node() || call.is_some_and(|call| call.fun().signature().volatility == Volatility::Volatile))
    };
    e.exists(is_one).unwrap_or(true)
}

/// The digits behind the point of an exact number whose vectors are its values.
pub(super) fn scale_of(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal128(_, scale) => Some(*scale),
        DataType::UInt64 => None,
        other => other.is_integer().then_some(0),
    }
}

/// The bounds of a result; `None` if they exceed 128 bits.
fn result_bounds(op: Operation, a: (i128, i128), b: (i128, i128)) -> Option<(i128, i128)> {
    match op {
        Operation::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
        Operation::Subtract => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
        Operation::Multiply => {
            let ends = [a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?];
            Some((ends.into_iter().min()?, ends.into_iter().max()?))
        }
    }
}
