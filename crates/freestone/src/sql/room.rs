//! How large a statement may get where names in it stand for expressions: macros, aliases that are used again, generated
//! columns. Each use of a name is a copy, so a chain of a few definitions, each of which uses the one before it twice, would
//! be a statement of any size.

use std::cell::Cell;

use freestone_sql::tree::{self, each_part};

use crate::context;
use crate::error::{Error, ErrorKind, Result};

/// The maximum number of expressions that names stand for.
const EXPRESSIONS_MAX: usize = 100_000;

/// The expressions that names may still stand for.
pub(crate) struct Room(Cell<usize>);

impl Room {
    pub fn new() -> Room {
        Room(Cell::new(EXPRESSIONS_MAX))
    }

    /// Takes the room of an expression, before it is copied.
    ///
    /// # Errors
    /// There is no room for it, or the statement was cancelled.
    pub fn take_expression(&self, part: &tree::Expr) -> Result<()> {
        context::check()?;
        let mut count = 0;
        each_part(part, &mut |_| count += 1);
        self.0.set(self.0.get().checked_sub(count).ok_or_else(too_large)?);
        Ok(())
    }
}

fn too_large() -> Error {
    let message =
        format!("the statement is too complex: names in it stand for more than {EXPRESSIONS_MAX} expressions");
    let hint = "compute what is used again in a subquery or a table, and use its column";
    Error::new(ErrorKind::Resource, message).with_hint(hint)
}
