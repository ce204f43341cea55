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
use crate::normal_texts::NormalText;

/// Whether a text is NULL or a label: the first argument of the others.
pub(crate) const CHECK: &str = "freestone_enum";
/// Whether a text is NULL or JSON.
pub(crate) const CHECK_JSON: &str = "freestone_is_json";
/// A text as a value of an ENUM.
pub(crate) const CAST: &str = "freestone_as_enum";
pub(crate) const CAST_OR_NULL: &str = "freestone_as_enum_or_null";
/// A value of an ENUM as a text. It stands in casts to VARCHAR, which change no type that Arrow has.
pub(crate) const TEXT: &str = "freestone_enum_text";

/// Whether a text is NULL or in the normal form of the type that the second argument names.
pub(crate) const CHECK_NORMAL: &str = "freestone_is_normal";
/// A value as a text in a normal form.
pub(crate) const CAST_NORMAL: &str = "freestone_as_normal";
pub(crate) const CAST_NORMAL_OR_NULL: &str = "freestone_as_normal_or_null";

/// A time of day, rounded to a number of digits behind the second.
pub(crate) const ROUNDED_TIME: &str = "freestone_rounded_time";
/// An interval, rounded to a number of digits behind the second.
pub(crate) const ROUNDED_INTERVAL: &str = "freestone_rounded_interval";

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
    Normal(NormalText),
}

impl TextType {
    /// The CHECK of a column of this type.
    pub fn check(&self, column: &str) -> Expr {
        let column = Expr::Identifier(quoted(column));
        match self {
            TextType::Enum(labels) => called(CHECK, column, labels),
            TextType::Json => call(CHECK_JSON, vec![column]),
            TextType::Normal(kind) => call(CHECK_NORMAL, vec![column, text(&kind.name())]),
        }
    }

    /// The name in SQL.
    pub fn name(&self) -> String {
        match self {
            TextType::Enum(labels) => type_text(labels),
            TextType::Json => "JSON".to_owned(),
            TextType::Normal(kind) => kind.name(),
        }
    }

    /// The error of a text in a column that is no value of this type.
    pub fn refused(&self, column: &str, text: &str) -> Error {
        match self {
            TextType::Normal(kind) => {
                Error::new(ErrorKind::Constraint, format!("column {column}: '{text}' is no {}", kind.name()))
            }
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
    if ![CHECK, CHECK_JSON, CHECK_NORMAL].iter().any(|own| check.condition.starts_with(own)) {
        return None;
    }
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
        CHECK_NORMAL => TextType::Normal(NormalText::of_name(labels.first()?)?),
        _ => return None,
    };
    Some((identifier(column), kind))
}
