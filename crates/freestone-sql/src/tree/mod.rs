//! The syntax tree of a statement: what is written, without what it means.
//!
//! A tree prints itself as SQL with as few parentheses as possible, and is equal to what is parsed from that. Names are
//! folded to lower case unless they were in quotes. Two spellings of one thing are one node: `FROM t` is `SELECT * FROM t`,
//! and `x::INT[3]` is the same type as `x::INT ARRAY[3]`.

mod expressions;
mod names;
mod objects;
mod parts;
mod queries;
mod session;
mod statements;
mod tables;
mod types;
mod writes;

pub use expressions::*;
pub use names::*;
pub use objects::*;
pub use parts::*;
pub use queries::*;
pub use session::*;
pub use statements::*;
pub use tables::*;
pub use types::*;
pub use writes::*;
