//! Freestone's SQL: from a text to a syntax tree, and back.
//!
//! The dialect is that of DuckDB and PostgreSQL, with Freestone's own statements. [`parse_statements`] makes the tree of a
//! text, whose nodes know their [`Span`] in it. The tree can only say what the engine executes. What it cannot say is an
//! error at its place, with what was expected there, or with the name of what is not available. Every node prints itself
//! as SQL, and what it prints is parsed to the same tree.
//!
//! This crate knows no tables, no types of columns and no functions: it does not say what a name means.
//!
//! ```
//! use freestone_sql::parse_statement;
//!
//! let statement = parse_statement("FROM t where a=1 AND (b OR c)").unwrap();
//! assert_eq!(statement.to_string(), "SELECT * FROM t WHERE a = 1 AND (b OR c)");
//! assert!(statement.is_query());
//!
//! let text = "SELECT a FRM t";
//! let error = parse_statement(text).unwrap_err();
//! assert_eq!(error.hint.as_deref(), Some("did you mean FROM?"));
//! ```
//!
//! A text takes linear time and memory. Nesting is limited, see [`NESTED_MAX`], and long chains of operators, joins and
//! set operations are flat lists in the tree, so no tree is deep.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]
#![forbid(unsafe_code)]

mod error;
mod keyword;
mod lexer;
mod lifted;
mod numbers;
mod parser;
mod printer;
mod script;
mod span;
mod tokens;
pub mod tree;

pub use error::{ErrorCode, SyntaxError};
pub use keyword::{Class, Keyword};
pub use lifted::{Lifted, lift_literals, without_literals};
pub use numbers::{MixedParameters, ParameterNumbers};
pub use parser::{LEVELS_MAX, NESTED_MAX, parse_expression, parse_statement, parse_statements, parse_type};
pub use script::{first_words, is_complete, names_in, split_statements, without_secrets};
pub use span::{Location, Span};
pub use tokens::{Lexeme, LexemeKind, tokens};
pub use tree::Statement;

/// The stack that one level of a tree takes at most, with its operators, and what is added when less is left: the deepest
/// statement is parsed, and its tree visited, on the stack of any thread.
const STACK_BYTES_LEFT: usize = 128 << 10;
const STACK_BYTES: usize = 1 << 20;

/// Does something for one level of a tree, with enough of the stack.
fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_BYTES_LEFT, STACK_BYTES, work)
}
