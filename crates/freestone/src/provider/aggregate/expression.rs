//! Arithmetic on stored integers for the arguments of aggregates: numbers, dates and decimals that are stored as 64-bit
//! integers. Bounds of the columns, from the zones, prove in advance that nothing overflows.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use freestone_codec::Kind;
use freestone_store::Table;
use freestone_store::column::{ColumnBuffer, Decoded};
use freestone_store::schema::kind;

use crate::exact;
use crate::provider::statistics::{int_bounds, nulls_and_bounds};

/// The maximum magnitude of results, with a margin to 64 bits.
const LARGEST: i128 = 1 << 62;

/// An expression over the columns of a scan, by their positions in its projection.
#[derive(Debug, Clone, PartialEq)]
pub enum IntExpression {
    Column(usize),
    Literal(i64),
    Add(Box<IntExpression>, Box<IntExpression>),
    Subtract(Box<IntExpression>, Box<IntExpression>),
    Multiply(Box<IntExpression>, Box<IntExpression>),
}

/// An expression with the bounds of its values.
#[derive(Debug, Clone)]
pub struct Compiled {
    pub expression: IntExpression,
    pub low: i128,
    pub high: i128,
    pub data_type: DataType,
}

/// The origin of an expression's columns: expressions of projections, one below the other, and finally a scan.
#[derive(Debug)]
pub struct InputColumns<'a> {
    pub table: &'a Arc<Table>,
    /// The columns of the table that the scan returns.
    pub scanned: &'a [usize],
    /// Expressions and the schema of their input, outermost first.
    pub projections: Vec<(Vec<Arc<dyn PhysicalExpr>>, SchemaRef)>,
    /// The schema of the aggregates' arguments.
    pub schema: SchemaRef,
}

impl InputColumns<'_> {
    /// Whether a column of the table has NULLs. Zones count them.
    pub fn has_nulls(&self, column: usize) -> bool {
        self.table.schema.stored_nullable(column) && nulls_and_bounds(self.table, column).0
    }

    fn schema(&self, depth: usize) -> &SchemaRef {
        depth.checked_sub(1).map_or(&self.schema, |above| &self.projections[above].1)
    }

    /// The position in the scan's projection of a plain column.
    pub fn place(&self, e: &dyn PhysicalExpr, depth: usize) -> Option<usize> {
        let at = e.downcast_ref::<Column>()?.index();
        match self.projections.get(depth) {
            Some((expressions, _)) => self.place(expressions.get(at)?.as_ref(), depth + 1),
            None => Some(at),
        }
    }

    /// The expression over stored integers; `None` if it is not supported or might overflow.
    pub fn compile(&self, e: &dyn PhysicalExpr, depth: usize) -> Option<Compiled> {
        let compiled = self.compile_unchecked(e, depth)?;
        let (least, greatest) = range(&compiled.data_type)?;
        let is_safe = compiled.low >= least.max(-LARGEST) && compiled.high <= greatest.min(LARGEST);
        is_safe.then_some(compiled)
    }

    fn compile_unchecked(&self, e: &dyn PhysicalExpr, depth: usize) -> Option<Compiled> {
        if let Some(column) = e.downcast_ref::<Column>() {
            return match self.projections.get(depth) {
                Some((expressions, _)) => self.compile(expressions.get(column.index())?.as_ref(), depth + 1),
                None => self.column(column.index()),
            };
        }
        if let Some(literal) = e.downcast_ref::<Literal>() {
            let value = exact::integer(literal.value())?;
            let expression = IntExpression::Literal(i64::try_from(value).ok()?);
            return Some(Compiled { expression, low: value, high: value, data_type: literal.value().data_type() });
        }
        if let Some(cast) = e.downcast_ref::<CastExpr>() {
            let inner = self.compile(cast.expr().as_ref(), depth)?;
            let target = cast.target_field().data_type();
            return is_number(&inner.data_type).then(|| inner.rescaled(target)).flatten();
        }
        // Overflow is excluded by the bounds, so checked operations can be replaced by unchecked ones.
        let (left, op, right) = exact::arithmetic(e)?;
        let result = e.data_type(self.schema(depth)).ok()?;
        let (left, right) = (self.compile(left.as_ref(), depth)?, self.compile(right.as_ref(), depth)?);
        if !is_number(&left.data_type) || !is_number(&right.data_type) {
            return None;
        }
        left.combined(op, right, result)
    }

    fn column(&self, place: usize) -> Option<Compiled> {
        let column = *self.scanned.get(place)?;
        if column >= self.table.schema.stored_count() {
            return None;
        }
        let data_type = self.table.schema.stored_type(column).clone();
        if kind(&data_type) != Kind::Int || range(&data_type).is_none() {
            return None;
        }
        // A column without values has no bounds, and nothing to compute.
        let (low, high) = int_bounds(self.table, column).unwrap_or((0, 0));
        Some(Compiled { expression: IntExpression::Column(place), low, high, data_type })
    }
}

impl Compiled {
    /// The same values in a type of the same or a larger scale.
    fn rescaled(self, target: &DataType) -> Option<Compiled> {
        let factor = 10i128.checked_pow(u32::try_from(scale(target)? - scale(&self.data_type)?).ok()?)?;
        let (low, high) = (self.low.checked_mul(factor)?, self.high.checked_mul(factor)?);
        let expression = match (factor, self.expression) {
            (1, expression) => expression,
            (_, IntExpression::Literal(value)) => {
                IntExpression::Literal(i64::try_from(i128::from(value) * factor).ok()?)
            }
            (_, expression) => {
                let factor = IntExpression::Literal(i64::try_from(factor).ok()?);
                IntExpression::Multiply(Box::new(expression), Box::new(factor))
            }
        };
        Some(Compiled { expression, low, high, data_type: target.clone() })
    }

    fn combined(self, op: Operator, right: Compiled, result: DataType) -> Option<Compiled> {
        let scales = (scale(&self.data_type)?, scale(&right.data_type)?);
        let (left, right) = match op {
            Operator::Multiply if scale(&result)? == scales.0 + scales.1 => (self, right),
            Operator::Plus | Operator::Minus => (self.rescaled(&result)?, right.rescaled(&result)?),
            _ => return None,
        };
        let (low, high) = exact::result_range(op, (left.low, left.high), (right.low, right.high))?;
        let (left, right) = (Box::new(left.expression), Box::new(right.expression));
        let expression = match op {
            Operator::Plus => IntExpression::Add(left, right),
            Operator::Minus => IntExpression::Subtract(left, right),
            _ => IntExpression::Multiply(left, right),
        };
        Some(Compiled { expression, low, high, data_type: result })
    }

    /// The maximum magnitude of a value.
    pub fn magnitude(&self) -> u64 {
        self.low.unsigned_abs().max(self.high.unsigned_abs()) as u64
    }
}

/// The minimum and maximum of a type whose values are stored as equal 64-bit integers.
fn range(data_type: &DataType) -> Option<(i128, i128)> {
    use DataType::*;
    let signed = |bits: u32| Some((-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1));
    match data_type {
        Int8 => signed(8),
        Int16 => signed(16),
        Int32 | Date32 => signed(32),
        Int64 | Timestamp(_, _) => signed(64),
        UInt8 => Some((0, (1 << 8) - 1)),
        UInt16 => Some((0, (1 << 16) - 1)),
        UInt32 => Some((0, (1 << 32) - 1)),
        Decimal128(precision, scale) if *scale >= 0 => {
            let end = 10i128.checked_pow(u32::from(*precision))?;
            Some((1 - end, end - 1))
        }
        _ => None,
    }
}

/// Whether arithmetic is possible with values of the type.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(_, _))
}

/// The number of decimal digits after the point.
fn scale(data_type: &DataType) -> Option<i32> {
    match data_type {
        DataType::Decimal128(_, scale) => Some((*scale).into()),
        other => other.is_integer().then_some(0),
    }
}

/// The values of an expression for some rows.
pub enum IntValues<'a> {
    Constant(i64),
    Stored(&'a [i64]),
    Computed(Vec<i64>),
}

impl IntValues<'_> {
    /// The value of each row; `None` for a constant.
    pub fn of_rows(&self) -> Option<&[i64]> {
        match self {
            IntValues::Constant(_) => None,
            IntValues::Stored(values) => Some(values),
            IntValues::Computed(values) => Some(values),
        }
    }
}

impl IntExpression {
    /// Adds the positions of the columns that it reads.
    pub fn places(&self, out: &mut Vec<usize>) {
        match self {
            IntExpression::Column(place) => out.push(*place),
            IntExpression::Literal(_) => {}
            IntExpression::Add(a, b) | IntExpression::Subtract(a, b) | IntExpression::Multiply(a, b) => {
                a.places(out);
                b.places(out);
            }
        }
    }

    /// The values for the rows of `columns`. If a column is NULL, the value is undefined.
    pub fn evaluate<'a>(&self, columns: &'a [ColumnBuffer]) -> Result<IntValues<'a>, String> {
        match self {
            IntExpression::Column(place) => match columns.get(*place).map(|column| &column.decoded) {
                Some(Decoded::I64(values)) => Ok(IntValues::Stored(values)),
                _ => Err("a column of numbers is not stored as integers".into()),
            },
            IntExpression::Literal(value) => Ok(IntValues::Constant(*value)),
            IntExpression::Add(a, b) => Ok(combine(a.evaluate(columns)?, b.evaluate(columns)?, i64::wrapping_add)),
            IntExpression::Subtract(a, b) => Ok(combine(a.evaluate(columns)?, b.evaluate(columns)?, i64::wrapping_sub)),
            IntExpression::Multiply(a, b) => Ok(combine(a.evaluate(columns)?, b.evaluate(columns)?, i64::wrapping_mul)),
        }
    }
}

#[inline]
fn combine<'a>(a: IntValues<'a>, b: IntValues<'a>, f: impl Fn(i64, i64) -> i64) -> IntValues<'a> {
    use IntValues::*;
    fn in_place(mut values: Vec<i64>, f: impl Fn(usize, i64) -> i64) -> Vec<i64> {
        values.iter_mut().enumerate().for_each(|(row, v)| *v = f(row, *v));
        values
    }
    match (a, b) {
        (Constant(a), Constant(b)) => Constant(f(a, b)),
        (Constant(a), Stored(b)) => Computed(b.iter().map(|b| f(a, *b)).collect()),
        (Constant(a), Computed(b)) => Computed(in_place(b, |_, b| f(a, b))),
        (Stored(a), Constant(b)) => Computed(a.iter().map(|a| f(*a, b)).collect()),
        (Computed(a), Constant(b)) => Computed(in_place(a, |_, a| f(a, b))),
        (Stored(a), Stored(b)) => Computed(a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect()),
        (Computed(a), Stored(b)) => Computed(in_place(a, |row, a| f(a, b[row]))),
        (Stored(a), Computed(b)) => Computed(in_place(b, |row, b| f(a[row], b))),
        (Computed(a), Computed(b)) => Computed(in_place(a, |row, a| f(a, b[row]))),
    }
}
