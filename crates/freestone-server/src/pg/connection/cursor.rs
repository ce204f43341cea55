//! SQL cursors: DECLARE, FETCH, MOVE and CLOSE. They only move forward, and compute no further ahead of their client
//! than other statements.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use freestone::{Description, Inputs, Statement};

use super::Connection;
use super::describe::columns;
use super::execute::{Cursor, Failure};
use crate::execution::Answer;
use crate::pg::error::PgError;
use crate::pg::names::as_named;
use crate::pg::reply::Status;
use crate::pg::utility::{Declare, Fetch};
use crate::sqlstate;

/// The maximum number of cursors of a client.
const CURSORS_MAX: usize = 1000;

/// A cursor, from its DECLARE to its CLOSE or the end of its transaction.
pub struct Declared {
    rows: Cursor,
    pub schema: SchemaRef,
    /// Whether the transaction that declared it has not ended.
    pub pending: bool,
    /// Whether it exists beyond its transaction.
    pub hold: bool,
}

impl Connection {
    pub async fn declare(&mut self, declare: &Declare, query: &Arc<Statement>, inputs: Inputs) -> Result<(), Failure> {
        if !declare.hold && self.status == Status::Idle {
            let error = PgError::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "a cursor lives as long as its transaction, and there is none",
            );
            return Err(error.with_hint("BEGIN first, or DECLARE … CURSOR WITH HOLD").into());
        }
        if self.cursors.contains_key(&declare.name) {
            return Err(PgError::new(sqlstate::DUPLICATE_CURSOR, format!("cursor {} exists", declare.name)).into());
        }
        if self.cursors.len() >= CURSORS_MAX {
            return Err(
                PgError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, format!("there are {CURSORS_MAX} cursors")).into()
            );
        }
        let Answer::Rows(rows) = self.start(query, inputs).await? else {
            return Err(PgError::syntax("a cursor is of a query that gives rows").into());
        };
        let schema = as_named(&query.text, rows.schema.clone());
        let rows = Cursor::new(rows, vec![], "FETCH");
        let pending = self.status != Status::Idle;
        self.cursors.insert(declare.name.clone(), Declared { rows, schema, hold: declare.hold, pending });
        self.replies.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Sends the next rows of a cursor. `formats` are those of a portal. Without a portal, a description of the columns
    /// is sent before the rows.
    pub async fn fetch(&mut self, fetch: &Fetch, formats: Option<&[i16]>) -> Result<(), Failure> {
        let Some(mut declared) = self.cursors.remove(&fetch.name) else { return Err(no_cursor(&fetch.name).into()) };
        // After an error there are no more rows, and the cursor is closed.
        self.fetch_from(&mut declared, fetch, formats).await?;
        self.cursors.insert(fetch.name.clone(), declared);
        Ok(())
    }

    async fn fetch_from(
        &mut self,
        declared: &mut Declared,
        fetch: &Fetch,
        formats: Option<&[i16]>,
    ) -> Result<(), Failure> {
        let is_sent = fetch.tag == "FETCH";
        if is_sent && formats.is_none() {
            self.replies.columns(&columns(&declared.schema), |_| 0);
        }
        declared.rows.change_formats(formats.unwrap_or_default())?;
        let (gone, mut count) = (self.gone(), 0u64);
        while fetch.rows_max.is_none_or(|most| count < most) {
            let Some((columns, row)) = Connection::while_there(&gone, declared.rows.row()).await?? else { break };
            if is_sent {
                self.replies.row(columns, row);
            }
            count += 1;
            self.flush_rows_if_full(&declared.rows).await?;
        }
        self.replies.complete(&format!("{} {count}", fetch.tag));
        Ok(())
    }

    /// The columns of FETCH are those of the cursor. MOVE has none.
    pub fn describe_fetch(&self, fetch: &Fetch) -> Result<Description, Failure> {
        let declared = self.cursors.get(&fetch.name).ok_or_else(|| no_cursor(&fetch.name))?;
        let schema = (fetch.tag == "FETCH").then(|| declared.schema.clone());
        Ok(Description { parameters: vec![], schema })
    }

    pub fn close_cursor(&mut self, name: Option<&str>) -> Result<(), PgError> {
        match name {
            None => self.cursors.clear(),
            Some(name) => drop(self.cursors.remove(name).ok_or_else(|| no_cursor(name))?),
        }
        self.replies.complete(if name.is_some() { "CLOSE CURSOR" } else { "CLOSE CURSOR ALL" });
        Ok(())
    }
}

fn no_cursor(name: &str) -> PgError {
    PgError::new(sqlstate::INVALID_CURSOR_NAME, format!("there is no cursor {name}"))
}
