//! A function that computes an operation exactly or fails.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::compute::{cast, try_binary};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, UInt64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_expr_common::datum::apply;

use super::{casts, decimals, postgres_texts};
use crate::error::{Error, ErrorKind};
use crate::type_names::type_name;

/// The operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// `+`, `-`, `*` and shifts of integers of one type; `+`, `-`, `*` and `%` of decimals.
    Binary(Operator),
    /// The quotient of decimals or integers: the nearest DOUBLE.
    Quotient,
    /// The quotient of whole numbers without its fraction, one of which is a DECIMAL(38,0).
    WholeQuotient,
    /// The product of decimals whose scales add up to more than 38, rounded to the larger of them.
    RoundedProduct,
    /// Unary minus of an integer.
    Negative,
    /// A cast; with `or_null`, TRY_CAST.
    Cast { to: DataType, or_null: bool },
    /// A float, a list or bytes as the text that PostgreSQL has for it.
    PostgresText(DataType),
}

/// An operation as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exact {
    operation: Operation,
    signature: Signature,
}

impl Exact {
    pub fn new(operation: Operation) -> Self {
        let is_unary = matches!(operation, Operation::Negative | Operation::Cast { .. } | Operation::PostgresText(_));
        let operands = if is_unary { 1 } else { 2 };
        Exact { operation, signature: Signature::any(operands, Volatility::Immutable) }
    }

    /// The type of a cast, and whether values outside of it become NULL.
    pub fn cast_to(&self) -> Option<(&DataType, bool)> {
        match &self.operation {
            Operation::Cast { to, or_null } => Some((to, *or_null)),
            _ => None,
        }
    }

    /// Whether this is a quotient, which fails only for a division by zero.
    pub fn is_quotient(&self) -> bool {
        self.operation == Operation::Quotient
    }

    /// The operator, if it is one of `+`, `-`, `*`.
    pub fn operator(&self) -> Option<Operator> {
        match &self.operation {
            Operation::Binary(op @ (Operator::Plus | Operator::Minus | Operator::Multiply)) => Some(*op),
            _ => None,
        }
    }

    /// The call with these operands, or its result if they are literals.
    pub fn call(self, operands: Vec<Expr>) -> Expr {
        let values: Option<Vec<ScalarValue>> = operands
            .iter()
            .map(|operand| match operand {
                Expr::Literal(value, _) => Some(value.clone()),
                _ => None,
            })
            .collect();
        if let Some(values) = values {
            let types: Vec<DataType> = values.iter().map(ScalarValue::data_type).collect();
            let arguments = values.into_iter().map(ColumnarValue::Scalar).collect::<Vec<_>>();
            // An error must occur when the statement runs, and only for rows that are evaluated.
            if let Ok(data_type) = self.return_type(&types)
                && let Ok(ColumnarValue::Scalar(value)) = self.compute(&arguments, &data_type)
                && value.data_type() == data_type
            {
                return Expr::Literal(value, None);
            }
        }
        self.of(operands)
    }

    /// The call with these operands under this name, evaluated later.
    pub fn of(self, operands: Vec<Expr>) -> Expr {
        ScalarUDF::new_from_impl(self).call(operands)
    }

    fn compute(&self, operands: &[ColumnarValue], result: &DataType) -> Result<ColumnarValue> {
        match (&self.operation, operands) {
            (Operation::Binary(op), [left, right]) => match result {
                DataType::Decimal128(_, scale) => decimals::binary(*op, left, right, *scale),
                _ => integers(*op, left, right),
            },
            (Operation::RoundedProduct, [left, right]) => match result {
                DataType::Decimal128(_, scale) => decimals::binary(Operator::Multiply, left, right, *scale),
                other => internal_err!("a product of type {other}"),
            },
            (Operation::Quotient, [left, right]) => decimals::quotients(left, right),
            (Operation::WholeQuotient, [left, right]) => decimals::whole_quotients(left, right),
            (Operation::Negative, [operand]) => unary(operand, negative),
            (Operation::Cast { to, or_null }, [operand]) => unary(operand, |array| casts::cast(array, to, *or_null)),
            (Operation::PostgresText(to), [operand]) => unary(operand, |array| postgres_texts::texts(array, to)),
            (operation, operands) => internal_err!("{operation:?} of {} operands", operands.len()),
        }
    }
}

impl ScalarUDFImpl for Exact {
    fn name(&self) -> &str {
        match &self.operation {
            Operation::Binary(Operator::Plus) => "+",
            Operation::Binary(Operator::Minus) | Operation::Negative => "-",
            Operation::Binary(Operator::Multiply) | Operation::RoundedProduct => "*",
            Operation::Binary(Operator::BitwiseShiftLeft) => "<<",
            Operation::Binary(Operator::BitwiseShiftRight) => ">>",
            Operation::Binary(_) => "%",
            Operation::Quotient => "/",
            Operation::WholeQuotient => "//",
            Operation::Cast { or_null: false, .. } | Operation::PostgresText(_) => "cast",
            Operation::Cast { or_null: true, .. } => "try_cast",
        }
    }

    /// The name of the replaced expression, so that columns keep their names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (&self.operation, args) {
            (Operation::Cast { .. } | Operation::PostgresText(_), [operand]) => operand.schema_name().to_string(),
            (Operation::Negative, [operand]) => format!("(- {})", operand.schema_name()),
            (_, [left, right]) => format!("{} {} {}", left.schema_name(), self.name(), right.schema_name()),
            _ => self.name().to_owned(),
        })
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (&self.operation, args) {
            (Operation::Cast { to, or_null }, [operand]) => {
                let word = if *or_null { "TRY_CAST" } else { "CAST" };
                format!("{word}({operand} AS {to})")
            }
            (Operation::PostgresText(to), [operand]) => format!("CAST({operand} AS {to})"),
            (Operation::Negative, [operand]) => format!("(- {operand})"),
            (_, [left, right]) => format!("({left} {} {right})", self.name()),
            _ => self.name().to_owned(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (&self.operation, types) {
            (Operation::Binary(op), [left, right]) => BinaryTypeCoercer::new(left, op, right).get_result_type(),
            (Operation::Quotient, _) => Ok(DataType::Float64),
            (Operation::WholeQuotient, _) => Ok(DataType::Decimal128(38, 0)),
            (Operation::RoundedProduct, [left, right]) => {
                let scale = decimals::scale(left).unwrap_or(0).max(decimals::scale(right).unwrap_or(0));
                Ok(DataType::Decimal128(38, scale))
            }
            (Operation::Negative, [operand]) => Ok(operand.clone()),
            (Operation::Cast { to, .. } | Operation::PostgresText(to), _) => Ok(to.clone()),
            (operation, types) => internal_err!("{operation:?} of {} operands", types.len()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let may_be_null = matches!(self.operation, Operation::Cast { or_null: true, .. })
            || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, may_be_null)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.compute(&args.args, args.return_field.data_type())
    }

    /// Since nothing wraps around, sums and casts preserve the order of their operands.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (&self.operation, inputs) {
            (Operation::Binary(Operator::Plus), [left, right]) => left.sort_properties.add(&right.sort_properties),
            (Operation::Binary(Operator::Minus), [left, right]) => left.sort_properties.sub(&right.sort_properties),
            (Operation::Negative, [operand]) => -operand.sort_properties,
            (Operation::Cast { to, or_null: false }, [operand]) => {
                let from = operand.range.data_type();
                let keeps = from.is_numeric() && to.is_numeric() || from.is_temporal() && to.is_temporal();
                if keeps { operand.sort_properties } else { SortProperties::Unordered }
            }
            _ => SortProperties::Unordered,
        })
    }
}

/// The operands and operator of a sum, difference or product in a physical plan, checked or not.
pub(crate) fn arithmetic(e: &dyn PhysicalExpr) -> Option<(&PhysicalExprRef, Operator, &PhysicalExprRef)> {
    if let Some(binary) = e.downcast_ref::<BinaryExpr>() {
        return Some((binary.left(), *binary.op(), binary.right()));
    }
    let call = e.downcast_ref::<ScalarFunctionExpr>()?;
    let op = call.fun().inner().downcast_ref::<Exact>()?.operator()?;
    match call.args() {
        [left, right] => Some((left, op, right)),
        _ => None,
    }
}

/// Applies a kernel to an operand, which is a scalar or an array.
pub(crate) fn unary(operand: &ColumnarValue, f: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    match operand {
        ColumnarValue::Array(array) => Ok(ColumnarValue::Array(f(array)?)),
        ColumnarValue::Scalar(value) => {
            let array = f(&value.to_array()?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
        }
    }
}

fn negative(array: &ArrayRef) -> Result<ArrayRef> {
    if array.data_type().is_unsigned_integer() {
        let zero = ScalarValue::new_zero(array.data_type())?.to_scalar()?;
        return numeric::sub(&zero, &array.as_ref()).map_err(|error| out_of_range(error, array.data_type()));
    }
    numeric::neg(array).map_err(|error| out_of_range(error, array.data_type()))
}

fn integers(op: Operator, left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    let data_type = left.data_type();
    let kernel = match op {
        Operator::Plus => numeric::add,
        Operator::Minus => numeric::sub,
        Operator::Multiply => numeric::mul,
        Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight => {
            let rows = [left, right].into_iter().find_map(|value| match value {
                ColumnarValue::Array(array) => Some(array.len()),
                ColumnarValue::Scalar(_) => None,
            });
            let shifted = shifts(op, &left.to_array(rows.unwrap_or(1))?, &right.to_array(rows.unwrap_or(1))?)?;
            return Ok(match rows {
                Some(_) => ColumnarValue::Array(shifted),
                None => ColumnarValue::Scalar(ScalarValue::try_from_array(&shifted, 0)?),
            });
        }
        other => return internal_err!("{other} of integers"),
    };
    apply(left, right, kernel).map_err(|error| match error {
        DataFusionError::ArrowError(error, _) => out_of_range(*error, &data_type),
        other => other,
    })
}

/// `value << by` is the value times a power of two. `value >> by` is the value divided by it, rounded down.
fn shifts(op: Operator, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let data_type = left.data_type().clone();
    let by = cast(right, &DataType::Int64)?;
    let by = by.as_primitive::<Int64Type>();
    let fail = |value: String, by: i64| {
        let sign = if op == Operator::BitwiseShiftLeft { "<<" } else { ">>" };
        ArrowError::ArithmeticOverflow(format!("{value} {sign} {by}"))
    };
    // The computation is wider than any integer type, so that an overflow is detected in the conversion back.
    let shift = |value: i128, by: i64| match (op, u32::try_from(by)) {
        (_, Err(_)) => None,
        (Operator::BitwiseShiftLeft, Ok(0..=64)) => Some(value << by),
        (Operator::BitwiseShiftLeft, Ok(_)) => (value == 0).then_some(0),
        (_, Ok(by)) => Some(value >> by.min(127)),
    };
    let shifted: Result<ArrayRef, ArrowError> = if data_type == DataType::UInt64 {
        let values = left.as_primitive::<UInt64Type>();
        let f = |value: u64, by: i64| {
            let shifted = shift(value.into(), by).and_then(|value| u64::try_from(value).ok());
            shifted.ok_or_else(|| fail(value.to_string(), by))
        };
        try_binary::<_, _, _, UInt64Type>(values, by, f).map(|array| Arc::new(array) as ArrayRef)
    } else {
        let values = cast(left, &DataType::Int64)?;
        let f = |value: i64, by: i64| {
            let shifted = shift(value.into(), by).and_then(|value| i64::try_from(value).ok());
            shifted.ok_or_else(|| fail(value.to_string(), by))
        };
        try_binary::<_, _, _, Int64Type>(values.as_primitive::<Int64Type>(), by, f)
            .map(|array| Arc::new(array) as ArrayRef)
    };
    let shifted = shifted.map_err(|error| out_of_range(error, &data_type))?;
    casts::cast(&shifted, &data_type, false)
}

/// Converts an overflow error of Arrow to an SQL error.
pub(super) fn out_of_range(error: ArrowError, data_type: &DataType) -> DataFusionError {
    match error {
        ArrowError::ArithmeticOverflow(what) => {
            let what = what.rsplit_once(": ").map_or(what.as_str(), |(_, what)| what);
            overflow(what, data_type)
        }
        other => other.into(),
    }
}

/// The error of a value outside of the range of its type.
pub(super) fn overflow(what: impl std::fmt::Display, data_type: &DataType) -> DataFusionError {
    let message = format!("{what} is out of range for {}", type_name(data_type));
    let error = Error::new(ErrorKind::Type, message);
    let hint = match data_type {
        DataType::Decimal128(..) => "cast an operand to DOUBLE, or to a DECIMAL of fewer digits behind the point",
        data_type if data_type.is_integer() => "cast an operand to a wider type, such as DECIMAL(38, 0)",
        _ => return error.into(),
    };
    error.with_hint(hint).into()
}

/// The values of a decimal or integer operand in units of its last digit, and its scale.
pub(super) fn as_decimal(value: &ColumnarValue) -> Result<ColumnarValue> {
    let data_type = value.data_type();
    let wanted = match &data_type {
        DataType::Decimal128(..) => return Ok(value.clone()),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        _ => DataType::Decimal128(20, 0),
    };
    unary(value, |array| Ok(cast(array, &wanted)?))
}
