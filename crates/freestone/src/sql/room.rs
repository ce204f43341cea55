//! How large a statement may get where names in it stand for expressions: macros, aliases that are used again, generated
//! columns. Each use of a name is a copy, so a chain of a few definitions, each of which uses the one before it twice, would
//! be a statement of any size.

use std::cell::Cell;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::Visit;

use super::visitor;
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

    /// Takes the room of a part, before it is copied.
    ///
    /// # Errors
    /// There is no room for it, or the statement was cancelled.
    pub fn take(&self, part: &impl Visit) -> Result<()> {
        context::check()?;
        let mut left = self.0.get();
        let mut count = |_: &_| match left.checked_sub(1) {
            Some(fewer) => {
                left = fewer;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        };
        if visitor::expressions(part, &mut count).is_break() {
            return Err(too_large());
        }
        self.0.set(left);
        Ok(())
    }
}

fn too_large() -> Error {
    let message =
        format!("the statement is too complex: names in it stand for more than {EXPRESSIONS_MAX} expressions");
    let hint = "compute what is used again in a subquery or a table, and use its column";
    Error::new(ErrorKind::Resource, message).with_hint(hint)
}
