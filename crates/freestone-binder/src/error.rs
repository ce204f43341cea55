//! Why a query was not bound, and where.

use std::fmt;

use datafusion_common::DataFusionError;
use freestone_sql::Span;

/// What a rule of the binder returns. The error is boxed because it is larger than most results.
pub(crate) type Result<T> = std::result::Result<T, Box<BindError>>;

/// The class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A name is of nothing that can stand there.
    UnknownName,
    /// A name is of several things.
    Ambiguous,
    /// The query contradicts itself or a rule of SQL.
    Invalid,
    /// The binder does not make this form yet.
    Unsupported {
        /// The form, by which such errors are counted.
        form: &'static str,
    },
    /// The query would become too large or too deep.
    TooComplex,
    /// The plan was refused where it was made; the cause says why.
    Planning,
}

/// Why a query was not bound, and where.
#[derive(Debug)]
pub struct BindError {
    /// The class of the error.
    pub kind: ErrorKind,
    /// What of the text is wrong.
    pub span: Span,
    /// Why, in words, without the place.
    pub message: String,
    /// What to write instead, if that is known.
    pub hint: Option<String>,
    /// The error of the library that made the plan, for [`ErrorKind::Planning`].
    pub cause: Option<DataFusionError>,
}

impl BindError {
    pub(crate) fn new(kind: ErrorKind, span: Span, message: impl Into<String>) -> Box<BindError> {
        Box::new(BindError { kind, span, message: message.into(), hint: None, cause: None })
    }

    pub(crate) fn with_hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<BindError> {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BindError {}

/// The query contradicts itself or a rule of SQL.
pub(crate) fn invalid(span: Span, message: impl Into<String>) -> Box<BindError> {
    BindError::new(ErrorKind::Invalid, span, message)
}

/// A form that the binder does not make yet.
pub(crate) fn unsupported(span: Span, form: &'static str) -> Box<BindError> {
    BindError::new(ErrorKind::Unsupported { form }, span, format!("{form} is not bound yet"))
}

/// The query would become too large.
pub(crate) fn too_complex(span: Span, message: impl Into<String>) -> Box<BindError> {
    BindError::new(ErrorKind::TooComplex, span, message)
}

/// An unknown name, with the known names that are near.
pub(crate) fn unknown<'a>(
    span: Span,
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Box<BindError> {
    let error = BindError::new(ErrorKind::UnknownName, span, format!("no {what} {name}"));
    let mut all: Vec<&str> = vec![];
    known.into_iter().for_each(|name| {
        if !all.contains(&name) {
            all.push(name);
        }
    });
    match nearest(name, &all) {
        Some(near) => error.with_hint(format!("did you mean {near}?")),
        None if (1..=SHOWN_MAX).contains(&all.len()) => error.with_hint(format!("there are: {}", all.join(", "))),
        None => error,
    }
}

/// The names that an error lists at most.
const SHOWN_MAX: usize = 20;

/// The most similar name.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let limit = match lower.chars().count() {
        0 | 1 => 0,
        several => several.div_ceil(3).min(3),
    };
    let measured = known.iter().map(|candidate| {
        let own = candidate.to_lowercase();
        (if own == lower { 0 } else { distance(&lower, &own, limit) }, *candidate)
    });
    measured.filter(|(distance, _)| *distance <= limit).min().map(|(_, name)| name)
}

/// The number of changed characters between two words, or more than `limit`.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(&b) {
            let next = (diagonal + usize::from(left != right)).min(before + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = next;
            before = next;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(limit + 1)
}

/// Gives the errors of the library that makes plans a place.
pub(crate) trait At<T> {
    /// The result, or its error at this place.
    fn at(self, span: Span) -> Result<T>;
}

impl<T> At<T> for std::result::Result<T, DataFusionError> {
    fn at(self, span: Span) -> Result<T> {
        self.map_err(|cause| {
            let message = cause.strip_backtrace();
            Box::new(BindError { kind: ErrorKind::Planning, span, message, hint: None, cause: Some(cause) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let known = ["orders", "order", "lineitem", "o_orderkey", "Orders"];
        assert_eq!(nearest("oders", &known), Some("Orders"));
        assert_eq!(nearest("xyz", &known), None);
        assert_eq!((distance("a", "a", 3), distance("ab", "ba", 3), distance("abc", "", 1)), (0, 2, 2));
    }
}
