//! Functions and operators that programs compute themselves: rounding, division, differences of dates, and choices of texts.

use std::sync::Arc;

use datafusion::arrow::array::StringViewArray;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use freestone_exec::arithmetic::{Comparison, Operation};
use freestone_exec::division::Rounding;
use freestone_exec::error::Result as ExecResult;
use freestone_exec::program::{Foreign, Node, Scalar};
use freestone_exec::vector::{Dictionary, Form, Values, Vector};

use super::expressions::{Compiled, Expressions, INT, Known, scale_of};
use super::foreign::Expression;
use crate::exact::Exact;
use crate::times::Part;

/// Integers up to this magnitude are exact as floats.
const EXACT: i128 = 1 << 53;

impl Expressions<'_> {
    /// A call of a function; `None` if DataFusion computes it.
    pub fn call(&mut self, call: &ScalarFunctionExpr) -> Result<Option<Compiled>> {
        let is_quotient = call.fun().inner().downcast_ref::<Exact>().is_some_and(Exact::is_quotient);
        let to = call.return_type();
        match (call.name(), call.args()) {
            (_, [a, b]) if is_quotient => self.quotient(a, b),
            ("abs", [a]) => self.absolute(a, to),
            ("floor", [a]) => self.whole(a, Rounding::Down, None, to),
            ("ceil", [a]) => self.whole(a, Rounding::Up, None, to),
            ("round", [a]) => self.whole(a, Rounding::Nearest, None, to),
            ("round", [a, digits]) => self.whole(a, Rounding::Nearest, Some(digits), to),
            ("trunc", [a]) => self.whole(a, Rounding::TowardsZero, None, to),
            ("trunc", [a, digits]) => self.whole(a, Rounding::TowardsZero, Some(digits), to),
            ("time_minus", [a, b]) => self.days_between(b, a),
            ("date_diff", [part, a, b]) if is_day(part) => self.days_between(a, b),
            _ => Ok(None),
        }
    }

    /// A function of floats that are computed here. DataFusion would compute them, too, from decimals of 128 bits.
    pub fn of_floats(&mut self, e: &Arc<dyn PhysicalExpr>, call: &ScalarFunctionExpr) -> Result<Option<Compiled>> {
        let is_computed = |argument: &&Arc<dyn PhysicalExpr>| !argument.is::<Column>() && !argument.is::<Literal>();
        if !call.args().iter().any(|argument| is_computed(&argument)) || call.fun().inner().short_circuits() {
            return Ok(None);
        }
        let (mut arguments, mut fields, mut inputs) = (vec![], vec![], vec![]);
        for argument in call.args() {
            if argument.is::<Literal>() {
                arguments.push(argument.clone());
                continue;
            }
            if argument.data_type(self.schema())? != DataType::Float64 {
                return Ok(None);
            }
            let Some(compiled) = self.compile(argument)?.filter(|compiled| !compiled.is_foreign) else {
                return Ok(None);
            };
            let name = format!("a{}", fields.len());
            arguments.push(Arc::new(Column::new(&name, fields.len())));
            fields.push(Field::new(name, DataType::Float64, compiled.known.nullable));
            inputs.push(compiled.register);
        }
        let schema = Arc::new(Schema::new(fields));
        let expression = Expression::new(&e.clone().with_new_children(arguments)?, &schema)?;
        let known = Known::of(expression.data_type(), e.nullable(self.schema())?);
        Ok(Some(self.called(Arc::new(expression), inputs, known)))
    }

    /// `/` and `%` of integers by a positive constant.
    pub fn division(
        &mut self,
        e: &Arc<dyn PhysicalExpr>,
        left: &Arc<dyn PhysicalExpr>,
        op: Operator,
        right: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<Compiled>> {
        let to = e.data_type(self.schema())?;
        if !to.is_integer() || scale_of(&to).is_none() || left.data_type(self.schema())? != to {
            return Ok(None);
        }
        let (Some(a), Some(b)) = (self.compile(left)?, self.compile(right)?) else { return Ok(None) };
        let (Some(Scalar::Int(divisor @ 1..)), Some((low, high))) = (self.program.literal(b.register), range(&a))
        else {
            return Ok(None);
        };
        let divisor = *divisor;
        let (node, bounds) = match op {
            Operator::Divide => {
                let quotient = |value: i64| Rounding::TowardsZero.quotient(value, divisor).into();
                (Node::Divide(a.register, divisor, Rounding::TowardsZero), (quotient(low), quotient(high)))
            }
            _ => {
                let most = i128::from(divisor) - 1;
                let (low, high) = (i128::from(low), i128::from(high));
                (Node::Remainder(a.register, divisor), (low.clamp(-most, 0), high.clamp(0, most)))
            }
        };
        Ok(Some(self.integer(node, a, to, bounds)))
    }

    /// A node that computes an integer from another one.
    fn integer(&mut self, node: Node, of: Compiled, to: DataType, bounds: (i128, i128)) -> Compiled {
        let register = self.program.add(node);
        let known = Known { form: Form::Int, bounds: Some(bounds), ..Known::of(&to, of.known.nullable) };
        Compiled { register, known, is_foreign: of.is_foreign }
    }

    /// The quotient of integers or decimals, of which no divisor is zero.
    fn quotient(&mut self, a: &Arc<dyn PhysicalExpr>, b: &Arc<dyn PhysicalExpr>) -> Result<Option<Compiled>> {
        let (Some(a), Some(b)) = (self.compile(a)?, self.compile(b)?) else { return Ok(None) };
        let scales = (scale_of(&a.known.data_type), scale_of(&b.known.data_type));
        let (Some(from), Some(to)) = scales else { return Ok(None) };
        let scale = from.max(to);
        let (Some(a), Some(b)) = (self.rescaled(a, scale), self.rescaled(b, scale)) else { return Ok(None) };
        let (Some(values), Some(divisors)) = (range(&a), range(&b)) else { return Ok(None) };
        let is_exact = |(low, high): (i64, i64)| i128::from(low) >= -EXACT && i128::from(high) <= EXACT;
        if !is_exact(values) || !is_exact(divisors) || divisors.0 <= 0 && divisors.1 >= 0 {
            return Ok(None);
        }
        let register = self.program.add(Node::Quotient(a.register, b.register));
        let known = Known::of(&DataType::Float64, a.known.nullable || b.known.nullable);
        Ok(Some(Compiled { register, known, is_foreign: a.is_foreign || b.is_foreign }))
    }

    fn absolute(&mut self, a: &Arc<dyn PhysicalExpr>, to: &DataType) -> Result<Option<Compiled>> {
        let Some(a) = self.compile(a)?.filter(|a| a.known.data_type == *to && scale_of(to).is_some()) else {
            return Ok(None);
        };
        let Some((low, high)) = range(&a).filter(|(low, _)| *low > i64::MIN) else { return Ok(None) };
        if low >= 0 {
            return Ok(Some(a));
        }
        let most = i128::from(low.unsigned_abs().max(high.unsigned_abs()));
        if Known::of(to, true).range().is_none_or(|(_, greatest)| most > greatest) {
            return Ok(None);
        }
        let zero = self.program.add(Node::Literal(Scalar::Int(0)));
        let is_negative = self.program.add(Node::Compare(Comparison::Less, a.register, zero));
        let negated = self.program.add(Node::Arithmetic(Operation::Subtract, zero, a.register));
        let node = Node::Choose(Form::Int, is_negative, negated, a.register);
        Ok(Some(self.integer(node, a, to.clone(), (0, most))))
    }

    /// An integer or decimal without the digits behind these.
    fn whole(
        &mut self,
        a: &Arc<dyn PhysicalExpr>,
        rounding: Rounding,
        digits: Option<&Arc<dyn PhysicalExpr>>,
        to: &DataType,
    ) -> Result<Option<Compiled>> {
        let digits = match digits.map(|digits| digits.downcast_ref::<Literal>().map(Literal::value)) {
            None => Some(0),
            Some(Some(ScalarValue::Int64(Some(digits)))) => i8::try_from(*digits).ok(),
            Some(Some(ScalarValue::Int32(Some(digits)))) => i8::try_from(*digits).ok(),
            _ => None,
        };
        let (Some(digits), Some(_)) = (digits, scale_of(to)) else { return Ok(None) };
        let Some(a) = self.compile(a)? else { return Ok(None) };
        Ok(self.rounded(a, rounding, digits, to))
    }

    /// An integer or decimal rounded to fewer digits behind the point than it has, as another type that has them.
    pub fn rounded(&mut self, a: Compiled, rounding: Rounding, digits: i8, to: &DataType) -> Option<Compiled> {
        let lost = scale_of(&a.known.data_type)?.checked_sub(digits)?;
        let divisor = 10i64.checked_pow(u32::try_from(lost).ok()?)?;
        let (low, high) = range(&a).filter(|_| self.program.literal(a.register).is_none())?;
        if lost == 0 || scale_of(to)? < digits {
            return None;
        }
        let quotient = |value: i64| i128::from(rounding.quotient(value, divisor));
        let node = Node::Divide(a.register, divisor, rounding);
        // In units of the last digit that is left, which a type with this scale has.
        let unit = DataType::Decimal128(38, digits);
        let rounded = self.integer(node, a, unit, (quotient(low), quotient(high)));
        let rounded = self.rescaled(rounded, scale_of(to)?)?;
        let (bounds, of_type) = (rounded.known.bounds?, Known::of(to, true).range()?);
        let fits = of_type.0 <= bounds.0 && bounds.1 <= of_type.1;
        fits.then(|| Compiled { known: Known { data_type: to.clone(), ..rounded.known }, ..rounded })
    }

    /// The days from one date to another.
    fn days_between(&mut self, from: &Arc<dyn PhysicalExpr>, to: &Arc<dyn PhysicalExpr>) -> Result<Option<Compiled>> {
        let (Some(from), Some(to)) = (self.compile(from)?, self.compile(to)?) else { return Ok(None) };
        let (Some(first), Some(second)) = (finite_days(&from), finite_days(&to)) else { return Ok(None) };
        let register = self.program.add(Node::Arithmetic(Operation::Subtract, to.register, from.register));
        let bounds = Some((i128::from(second.0 - first.1), i128::from(second.1 - first.0)));
        let known = Known { bounds, ..Known::of(&DataType::Int64, from.known.nullable || to.known.nullable) };
        Ok(Some(Compiled { register, known, is_foreign: from.is_foreign || to.is_foreign }))
    }

    /// A choice of constant texts, as codes of a dictionary.
    pub fn chosen_texts(&mut self, branches: &[(Compiled, Compiled)], otherwise: &Compiled) -> Option<Compiled> {
        let data_type = otherwise.known.data_type.clone();
        let values = || branches.iter().map(|(_, then)| then).chain([otherwise]);
        if !values().all(|value| value.known.data_type == data_type && value.known.form == Form::Text) {
            return None;
        }
        let (mut texts, mut codes) = (Vec::<String>::new(), vec![]);
        for value in values() {
            codes.push(match self.program.literal(value.register)? {
                Scalar::Text(text) => {
                    let text = String::from_utf8(text.clone()).ok()?;
                    let code = texts.iter().position(|known| *known == text).unwrap_or_else(|| {
                        texts.push(text);
                        texts.len() - 1
                    });
                    Scalar::Int(code as i64)
                }
                Scalar::Null => Scalar::Null,
                _ => return None,
            });
        }
        if texts.is_empty() {
            return None;
        }
        let nullable = codes.contains(&Scalar::Null);
        let mut codes: Vec<usize> = codes.into_iter().map(|code| self.program.add(Node::Literal(code))).collect();
        let mut chosen = codes.pop()?;
        for ((when, _), code) in branches.iter().zip(codes).rev() {
            chosen = self.program.add(Node::Choose(Form::Int, when.register, code, chosen));
        }
        let known = Known { texts: Some(texts.len()), ..Known::of(&data_type, nullable) };
        let texts = Arc::new(Dictionary::new(StringViewArray::from_iter_values(texts)));
        let is_foreign = branches.iter().any(|(when, _)| when.is_foreign);
        Some(Compiled { is_foreign, ..self.called(Arc::new(Chosen(texts)), vec![chosen], known) })
    }
}

/// The texts with these numbers.
#[derive(Debug)]
struct Chosen(Arc<Dictionary>);

impl Foreign for Chosen {
    fn evaluate(&self, inputs: &[Vector], _: usize) -> ExecResult<Vector> {
        let codes: Vec<u32> = inputs[0].as_ints().iter().map(|code| *code as u32).collect();
        Ok(Vector::with_nulls(Values::Codes(codes.into(), self.0.clone()), inputs[0].valid.clone()))
    }

    fn is_pure(&self) -> bool {
        true
    }
}

/// The least and greatest value of integers of 64 bits, as far as the type or the data tell.
fn range(of: &Compiled) -> Option<(i64, i64)> {
    let (low, high) = of.known.range().filter(|_| of.known.form == Form::Int)?;
    (low >= INT.0 && high <= INT.1).then_some((low as i64, high as i64))
}

/// The first and the last of dates, none of which is infinite.
fn finite_days(of: &Compiled) -> Option<(i64, i64)> {
    let is_date = of.known.data_type == DataType::Date32;
    let is_finite = |(low, high): &(i64, i64)| *low > -i64::from(i32::MAX) && *high < i64::from(i32::MAX);
    of.known.int_bounds().filter(|bounds| is_date && is_finite(bounds))
}

fn is_day(part: &Arc<dyn PhysicalExpr>) -> bool {
    let name = part.downcast_ref::<Literal>().and_then(|part| part.value().try_as_str().flatten());
    name.is_some_and(|name| Part::named(name) == Some(Part::Day))
}
