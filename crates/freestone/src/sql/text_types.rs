//! ENUM and JSON in SQL: the functions by which their casts and the CHECKs of their columns are computed, and the types
//! that such a CHECK stands for.

use datafusion::sql::sqlparser::ast::{self, Expr};
use datafusion::sql::sqlparser::parser::Parser;
use freestone_store::schema::CheckConstraint;

use super::dialect::SqlDialect;
use super::fragments::{call, quoted, text};
use super::names::identifier;
use crate::error::{Error, ErrorKind};
use crate::json_text::start_of;

/// Whether a text is NULL or a label: the first argument of the others.
pub(crate) const CHECK: &str = "freestone_enum";
/// Whether a text is NULL or JSON.
pub(crate) const CHECK_JSON: &str = "freestone_is_json";
/// A text as a value of an ENUM.
pub(crate) const CAST: &str = "freestone_as_enum";
pub(crate) const CAST_OR_NULL: &str = "freestone_as_enum_or_null";
/// A value of an ENUM as a text. It stands in casts to VARCHAR, which change no type that Arrow has.
pub(crate) const TEXT: &str = "freestone_enum_text";

/// `ENUM('a', 'b')`.
pub(crate) fn type_text(labels: &[String]) -> String {
    let labels: Vec<String> = labels.iter().map(|label| text(label).to_string()).collect();
    format!("ENUM({})", labels.join(", "))
}

/// The type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextType {
    /// With its labels.
    Enum(Vec<String>),
    Json,
}

impl TextType {
    /// The CHECK of a column of this type.
    pub fn check(&self, column: &str) -> Expr {
        let column = Expr::Identifier(quoted(column));
        match self {
            TextType::Enum(labels) => called(CHECK, column, labels),
            TextType::Json => call(CHECK_JSON, vec![column]),
        }
    }

    /// The name in SQL.
    pub fn name(&self) -> String {
        match self {
            TextType::Enum(labels) => type_text(labels),
            TextType::Json => "JSON".to_owned(),
        }
    }

    /// The error of a text in a column that is no value of this type.
    pub fn refused(&self, column: &str, text: &str) -> Error {
        match self {
            TextType::Enum(labels) => Error::new(
                ErrorKind::Constraint,
                format!("column {column}: '{text}' is no label of {}", type_text(labels)),
            ),
            TextType::Json => {
                Error::new(ErrorKind::Constraint, format!("column {column}: malformed JSON: {}", start_of(text)))
            }
        }
    }
}

/// A function of a value and the labels.
pub(crate) fn called(function: &str, value: Expr, labels: &[String]) -> Expr {
    call(function, std::iter::once(value).chain(labels.iter().map(|label| text(label))).collect())
}

/// The column and its type, if a CHECK stands for one.
pub(crate) fn of_check(check: &CheckConstraint) -> Option<(String, TextType)> {
    // Most do not, and need not be parsed.
    (check.condition.starts_with(CHECK) || check.condition.starts_with(CHECK_JSON)).then_some(())?;
    let mut parser = Parser::new(&SqlDialect).try_with_sql(&check.condition).ok()?;
    let Ok(Expr::Function(function)) = parser.parse_expr() else { return None };
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let mut values = list.args.iter().map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    });
    let Some(Some(Expr::Identifier(column))) = values.next() else { return None };
    let labels = values.map(|value| match value {
        Some(Expr::Value(value)) => value.value.clone().into_string(),
        _ => None,
    });
    let labels: Vec<String> = labels.collect::<Option<_>>()?;
    let kind = match function.name.to_string().as_str() {
        CHECK => TextType::Enum(labels),
        CHECK_JSON if labels.is_empty() => TextType::Json,
        _ => return None,
    };
    Some((identifier(column), kind))
}
