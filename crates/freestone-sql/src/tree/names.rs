//! Names, and options with names.

use super::Expr;
use crate::span::Span;

/// A name: in lower case, unless it was in quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Whether it was in quotes.
    pub quoted: bool,
    /// Where it stands.
    pub span: Span,
}

/// A name with the names of what it is in before it: `catalog.schema.table`. It has one part at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// Its parts, from the outermost.
    pub parts: Vec<Name>,
    /// Where it stands.
    pub span: Span,
}

/// A text in quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The text without its quotes and escapes.
    pub value: String,
    /// Where it stands.
    pub span: Span,
}

/// `name = value` or `name value` in a list of options, or a name alone.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionItem {
    /// The name.
    pub name: Name,
    /// The value. A word is a column, `zstd(3)` a call, and a list in parentheses a row.
    pub value: Option<Expr>,
    /// Where it stands.
    pub span: Span,
}
