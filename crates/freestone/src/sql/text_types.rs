//! ENUM, JSON and collations in SQL: the functions by which their casts and the CHECKs of their columns are computed, and the types
//! that such a CHECK stands for.

use freestone_binder::SqlType;
use freestone_sql::tree::{Expr, ExprKind, Literal, TypeKind};
use freestone_store::schema::CheckConstraint;

use super::statement::{literal, quote};
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

/// Always true: its arguments are a column and its collation.
pub(crate) const CHECK_COLLATION: &str = "freestone_has_collation";

/// A time of day, rounded to a number of digits behind the second.
pub(crate) const ROUNDED_TIME: &str = "freestone_rounded_time";
/// An interval, rounded to a number of digits behind the second.
pub(crate) const ROUNDED_INTERVAL: &str = "freestone_rounded_interval";

/// `ENUM('a', 'b')`.
pub(crate) fn type_text(labels: &[String]) -> String {
    format!("ENUM({})", literals(labels))
}

fn literals(texts: &[String]) -> String {
    texts.iter().map(|text| literal(text)).collect::<Vec<_>>().join(", ")
}

/// The labels of a type that a text names, if it is an ENUM.
pub(crate) fn labels_of(text: &str) -> Option<Vec<String>> {
    match freestone_sql::parse_type(text).ok()?.kind {
        TypeKind::Enum(labels) => Some(labels.into_iter().map(|label| label.value).collect()),
        _ => None,
    }
}

/// The type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextType {
    /// With its labels.
    Enum(Vec<String>),
    Json,
    Normal(NormalText),
    /// Any texts, which are compared by the collation of this name.
    Collated(String),
}

impl TextType {
    /// That of the values of a type, or of the items of lists of them. `None` if they are not texts of which only some are
    /// allowed. Lists of JSON are lists of any texts.
    pub fn of(known: &SqlType) -> Option<TextType> {
        match known {
            SqlType::Json => Some(TextType::Json),
            SqlType::Enum(labels) => Some(TextType::Enum(labels.clone())),
            SqlType::Normal(name) => NormalText::of_name(name).map(TextType::Normal),
            SqlType::Texts(item, _) => TextType::of(item),
            SqlType::Plain(_) | SqlType::Blob | SqlType::Rounded(..) => None,
        }
    }

    /// The condition of the CHECK of a column of this type.
    pub fn check(&self, column: &str) -> String {
        let column = quote(column);
        match self {
            TextType::Enum(labels) => format!("{CHECK}({column}, {})", literals(labels)),
            TextType::Json => format!("{CHECK_JSON}({column})"),
            TextType::Normal(kind) => format!("{CHECK_NORMAL}({column}, {})", literal(&kind.name())),
            TextType::Collated(collation) => format!("{CHECK_COLLATION}({column}, {})", literal(collation)),
        }
    }

    /// The name in SQL.
    pub fn name(&self) -> String {
        match self {
            TextType::Enum(labels) => type_text(labels),
            TextType::Json => "JSON".to_owned(),
            TextType::Normal(kind) => kind.name(),
            TextType::Collated(_) => "VARCHAR".to_owned(),
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
            TextType::Collated(_) => Error::new(ErrorKind::Internal, format!("column {column} takes any text")),
        }
    }
}

/// The column and its type, if a CHECK stands for one.
pub(crate) fn of_check(check: &CheckConstraint) -> Option<(String, TextType)> {
    // Most do not, and need not be parsed.
    if ![CHECK, CHECK_JSON, CHECK_NORMAL, CHECK_COLLATION].iter().any(|own| check.condition.starts_with(own)) {
        return None;
    }
    let Expr { kind: ExprKind::Call(call), .. } = freestone_sql::parse_expression(&check.condition).ok()? else {
        return None;
    };
    let [function] = call.name.parts.as_slice() else { return None };
    let mut values = call.arguments.into_iter().map(|argument| argument.value.kind);
    let Some(ExprKind::Column(column)) = values.next() else { return None };
    let [column] = column.parts.as_slice() else { return None };
    let labels = values.map(|value| match value {
        ExprKind::Literal(Literal::Text(label)) => Some(label),
        _ => None,
    });
    let labels: Vec<String> = labels.collect::<Option<_>>()?;
    let kind = match function.text.as_str() {
        CHECK => TextType::Enum(labels),
        CHECK_JSON if labels.is_empty() => TextType::Json,
        CHECK_COLLATION => TextType::Collated(labels.into_iter().next()?),
        CHECK_NORMAL => TextType::Normal(NormalText::of_name(labels.first()?)?),
        _ => return None,
    };
    Some((column.text.clone(), kind))
}
