//! Parameters of statements. Each has the type that the caller declared, or the type of its value.
//!
//! A value is never narrowed to the type of the other operand: `i = $1` with 1.5 compares fractional numbers, as with a
//! literal. Strings and NULLs without a declared type are like literals in quotes and NULL, whose type depends on the
//! context. So they are bound as literals. All other parameters are planned with their types.

mod inference;
pub(crate) mod places;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use freestone_sql::tree;

pub(crate) use inference::inferred;

use crate::error::{Error, ErrorKind, Result};
use crate::inputs::{ArrowTable, Inputs};
use crate::sql::written::Written;

/// The maximum number of parameters of a statement, as in PostgreSQL's protocol.
const NUMBER_MAX: usize = 65_535;

/// Values of `$1`, `$2`, …, their declared types, and the tables of the statement's caller.
#[derive(Clone, Default)]
pub(crate) struct Parameters {
    pub types: Vec<Option<DataType>>,
    pub values: Vec<ScalarValue>,
    pub tables: Arc<HashMap<String, ArrowTable>>,
    /// The statement as it was written, for the binder.
    pub written: Option<Arc<Written>>,
}

impl Parameters {
    /// The statement as it was written.
    ///
    /// # Errors
    /// It is not known.
    pub fn written(&self) -> Result<&Arc<Written>> {
        let unknown = || Error::new(ErrorKind::Internal, "internal error: the text of a statement is missing");
        self.written.as_ref().ok_or_else(unknown)
    }

    /// Those of a query of the engine's own.
    pub fn of_text(sql: &str) -> Parameters {
        Parameters::default().of_part(Written::new(sql))
    }

    /// The same for a statement within this one.
    pub fn of_part(&self, written: Written) -> Parameters {
        Parameters { written: Some(Arc::new(written)), ..self.clone() }
    }
}

impl From<Inputs> for Parameters {
    fn from(inputs: Inputs) -> Self {
        Parameters { types: inputs.types, values: inputs.values, tables: inputs.tables, written: None }
    }
}

/// Whether the type of a value depends on the context.
fn is_untyped(value: &ScalarValue) -> bool {
    matches!(value, ScalarValue::Null | ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_))
}

/// The values in their declared types.
///
/// # Errors
/// A value is not one of its declared type.
pub(crate) fn converted(values: &[ScalarValue], types: &[Option<DataType>]) -> Result<Vec<ScalarValue>> {
    let convert = |(at, value): (usize, &ScalarValue)| match types.get(at) {
        Some(Some(declared)) => exactly(value, declared).map_err(|error| error.at(&format!("parameter ${}", at + 1))),
        _ => Ok(value.clone()),
    };
    values.iter().enumerate().map(convert).collect()
}

/// The value of a literal that has the same type in every context: an integer, text, a truth value or NULL.
pub(crate) fn literal(written: &tree::Expr) -> Option<ScalarValue> {
    let tree::ExprKind::Literal(literal) = &written.kind else { return None };
    match literal {
        tree::Literal::Number(digits) => digits.parse().ok().map(|number| ScalarValue::Int64(Some(number))),
        tree::Literal::Text(text) => Some(ScalarValue::Utf8(Some(text.clone()))),
        tree::Literal::Boolean(value) => Some(ScalarValue::Boolean(Some(*value))),
        tree::Literal::Null => Some(ScalarValue::Null),
        _ => None,
    }
}

/// The error of a wrong number of values.
pub(crate) fn count(expected: usize, given: usize) -> Error {
    Error::invalid(format!("the statement has {expected} parameters and was given {given}"))
}

/// Converts a value to another type, if the conversion is exact.
///
/// # Errors
/// The conversion would lose information.
pub(crate) fn exactly(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    let from = value.data_type();
    if from == *to {
        return Ok(value.clone());
    }
    let lost = || Error::new(ErrorKind::Type, format!("{value} is no value of its declared type"));
    let cast = value.cast_to(to).map_err(|error| lost().with_hint(error.strip_backtrace()))?;
    // Text is parsed as the type. Any other value must be equal to the result of the conversion back.
    if is_untyped(value) || cast.cast_to(&from).is_ok_and(|back| back == *value) { Ok(cast) } else { Err(lost()) }
}

/// A statement to be described. Parameters of unknown types have the type NULL, and those in ANY and ALL are lists of
/// NULL.
pub(crate) struct Described {
    pub types: Vec<DataType>,
    /// Whether all types are known.
    pub complete: bool,
}

/// Whether a type is completely known.
pub(crate) fn is_known(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => false,
        DataType::List(field) => *field.data_type() != DataType::Null,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_declared_types_exactly_or_not_at_all() {
        let check = |value: ScalarValue, to: DataType, expected: Option<ScalarValue>| {
            assert_eq!(exactly(&value, &to).ok(), expected, "{value} to {to}");
        };
        check(ScalarValue::Int64(Some(7)), DataType::Int16, Some(ScalarValue::Int16(Some(7))));
        check(ScalarValue::Int64(Some(70_000)), DataType::Int16, None);
        check(ScalarValue::Float64(Some(1.5)), DataType::Int64, None);
        check(ScalarValue::Float64(Some(2.0)), DataType::Int64, Some(ScalarValue::Int64(Some(2))));
        check(ScalarValue::Decimal128(Some(15), 2, 1), DataType::Int32, None);
        check(ScalarValue::Utf8(Some("12".into())), DataType::Int32, Some(ScalarValue::Int32(Some(12))));
        check(ScalarValue::Utf8(Some("x".into())), DataType::Int32, None);
    }
}
