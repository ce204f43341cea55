//! SQL cursors: DECLARE, FETCH, MOVE and CLOSE. Those with SCROLL keep the rows that were read; others only move forward,
//! and compute no further ahead of their client than other statements. Portals of the protocol are cursors, too.

use std::sync::Arc;
use std::time::SystemTime;

use arrow::datatypes::SchemaRef;
use freestone::{Description, Inputs, Statement};

use super::describe::{Portal, columns, format_of};
use super::execute::Cursor;
use super::failure::Failure;
use super::scroll::Scroll;
use super::work::Work;
use super::{Connection, SEND_BYTES};
use crate::execution::Answer;
use crate::pg::catalog::CursorRow;
use crate::pg::error::PgError;
use crate::pg::utility::{Declare, Fetch, Movement};
use crate::sqlstate;

/// The maximum number of cursors of a client.
const CURSORS_MAX: usize = 1000;

/// A cursor, from its DECLARE to its CLOSE or the end of its transaction.
pub struct Declared {
    rows: CursorRows,
    pub schema: SchemaRef,
    /// Whether the transaction that declared it has not ended.
    pub pending: bool,
    /// Its place among the cursors and portals of that transaction.
    pub number: u64,
    /// The statement that declared it, and when.
    text: String,
    since: SystemTime,
    /// Whether it exists beyond its transaction.
    pub hold: bool,
    /// Whether FETCH of a simple query gives rows in binary format.
    is_binary: bool,
}

enum CursorRows {
    Forward(Cursor),
    Scroll(Scroll),
}

/// The rows that a FETCH gives, or that a MOVE passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passage {
    /// The first one; further ones follow upwards or downwards.
    first: u64,
    /// Their number, if there are enough rows; `None` for all.
    count: Option<u64>,
    backward: bool,
}

impl Connection {
    pub async fn declare(&mut self, declare: &Declare, query: &Arc<Statement>, inputs: Inputs) -> Result<(), Failure> {
        if !declare.hold && !self.is_in_block() {
            let error = PgError::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "a cursor lives as long as its transaction, and there is none",
            );
            return Err(error.with_hint("BEGIN first, or DECLARE … CURSOR WITH HOLD").into());
        }
        if self.cursors.contains_key(&declare.name) || self.portals.contains_key(&declare.name) {
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
        let schema = self.named(&query.text, rows.schema.clone());
        let styles = self.settings.styles();
        let rows = match declare.scroll {
            true => CursorRows::Scroll(Scroll::new(rows, schema.clone(), styles, self.counted("cursors", 0)?)),
            false => CursorRows::Forward(Cursor::new(rows, schema.clone(), vec![], styles, "FETCH")),
        };
        let (pending, number) = (self.has_transaction(), self.next_opened());
        let declared = Declared {
            rows,
            schema,
            hold: declare.hold,
            pending,
            number,
            text: declare.text.clone(),
            since: SystemTime::now(),
            is_binary: declare.binary,
        };
        self.cursors.insert(declare.name.clone(), declared);
        self.replies.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Sends rows of a cursor. `formats` are those of a portal. Without a portal, a description of the columns is sent
    /// before the rows.
    pub async fn fetch(&mut self, fetch: &Fetch, formats: Option<&[i16]>) -> Result<(), Failure> {
        if let Some(mut declared) = self.cursors.remove(&fetch.name) {
            // After an error there are no more rows, and the cursor is closed.
            let count = self.fetch_from(&mut declared, fetch, formats).await?;
            self.cursors.insert(fetch.name.clone(), declared);
            self.replies.complete(&format!("{} {count}", fetch.tag));
            return Ok(());
        }
        let portal = self.portals.remove(&fetch.name).filter(|_| !fetch.name.is_empty());
        let Some(mut portal) = portal else { return Err(no_cursor(&fetch.name).into()) };
        let count = self.fetch_from_portal(&mut portal, fetch, formats).await?;
        self.portals.insert(fetch.name.clone(), portal);
        self.replies.complete(&format!("{} {count}", fetch.tag));
        Ok(())
    }

    /// Gives rows of a portal of the protocol, which only moves forward.
    async fn fetch_from_portal(
        &mut self,
        portal: &mut Portal,
        fetch: &Fetch,
        formats: Option<&[i16]>,
    ) -> Result<u64, Failure> {
        let Work::Statement(statement) = portal.work.clone() else {
            return Err(PgError::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "the portal has no rows").into());
        };
        self.open_portal(portal, &statement).await?;
        let Some(cursor) = portal.cursor.take() else {
            return Ok(0);
        };
        let schema = cursor.schema();
        let rows = CursorRows::Forward(cursor);
        let mut declared = Declared {
            rows,
            schema,
            hold: false,
            pending: true,
            number: portal.number,
            text: String::new(),
            since: SystemTime::now(),
            is_binary: false,
        };
        let fetched = self.fetch_from(&mut declared, fetch, formats).await;
        if let CursorRows::Forward(mut cursor) = declared.rows {
            // Further rows are sent in the formats of the portal again.
            cursor.change_formats(&portal.formats)?;
            portal.cursor = Some(cursor);
        }
        fetched
    }

    async fn fetch_from(
        &mut self,
        declared: &mut Declared,
        fetch: &Fetch,
        formats: Option<&[i16]>,
    ) -> Result<u64, Failure> {
        let passage = declared.passage(fetch.movement).await?;
        let is_sent = fetch.tag == "FETCH";
        let own = [i16::from(declared.is_binary)];
        if is_sent && formats.is_none() {
            self.replies.columns(&columns(&declared.schema), |at| format_of(&own, at));
        }
        let formats = formats.unwrap_or(&own);
        match &mut declared.rows {
            CursorRows::Forward(cursor) => {
                cursor.change_formats(formats)?;
                self.pass_forward(cursor, passage, is_sent).await
            }
            CursorRows::Scroll(scroll) => {
                scroll.change_formats(formats);
                self.pass(scroll, passage, is_sent).await
            }
        }
    }

    async fn pass_forward(&mut self, cursor: &mut Cursor, passage: Passage, is_sent: bool) -> Result<u64, Failure> {
        let (gone, mut count) = (self.gone(), 0u64);
        while passage.count.is_none_or(|most| count < most) {
            let is_before = cursor.position + 1 < passage.first;
            let Some((columns, row)) = Connection::while_there(&gone, cursor.row()).await?? else { break };
            if is_before {
                continue;
            }
            count += 1;
            if is_sent {
                self.replies.row(columns, row);
                self.flush_rows_if_full(cursor).await?;
            }
        }
        Ok(count)
    }

    async fn pass(&mut self, scroll: &mut Scroll, passage: Passage, is_sent: bool) -> Result<u64, Failure> {
        let (gone, mut count, mut at) = (self.gone(), 0u64, passage.first);
        while passage.count.is_none_or(|most| count < most) {
            let Some((columns, row)) = Connection::while_there(&gone, scroll.row(at)).await?? else { break };
            count += 1;
            if is_sent {
                self.replies.row(columns, row);
                if self.replies.bytes.len() >= SEND_BYTES {
                    scroll.within(self.flush()).await??;
                }
            }
            if passage.count != Some(count) {
                at = if passage.backward { at - 1 } else { at + 1 };
            }
        }
        scroll.move_to(at);
        Ok(count)
    }

    /// The cursors of SQL as `pg_cursors` shows them.
    pub fn shown_cursors(&self) -> Vec<CursorRow> {
        let row = |(name, declared): (&String, &Declared)| CursorRow {
            name: name.clone(),
            text: declared.text.clone(),
            since: declared.since,
            is_holdable: declared.hold,
            is_binary: declared.is_binary,
            is_scrollable: matches!(declared.rows, CursorRows::Scroll(_)),
        };
        self.cursors.iter().map(row).collect()
    }

    /// The columns of FETCH are those of the cursor. MOVE has none.
    pub fn describe_fetch(&self, fetch: &Fetch) -> Result<Description, Failure> {
        let of_portal = || {
            let portal = self.portals.get(&fetch.name).filter(|_| !fetch.name.is_empty())?;
            portal.described.as_ref()?.schema.clone()
        };
        let schema = self.cursors.get(&fetch.name).map(|declared| declared.schema.clone()).or_else(of_portal);
        let schema = schema.ok_or_else(|| no_cursor(&fetch.name))?;
        Ok(Description { parameters: vec![], schema: (fetch.tag == "FETCH").then_some(schema) })
    }

    /// Executes a cursor of SQL as a portal, which gives text even if the cursor is BINARY.
    pub async fn execute_cursor(&mut self, name: &str, rows_max: usize) -> Result<(), Failure> {
        let Some(mut declared) = self.cursors.remove(name) else { return Err(no_cursor(name).into()) };
        let rows_max = (rows_max > 0).then_some(rows_max as u64);
        let fetch = Fetch { name: name.to_owned(), movement: Movement::Forward(rows_max), tag: "FETCH" };
        let count = self.fetch_from(&mut declared, &fetch, Some(&[])).await?;
        self.cursors.insert(name.to_owned(), declared);
        match rows_max == Some(count) {
            true => self.replies.bare(b's'),
            false => self.replies.complete(&format!("SELECT {count}")),
        }
        Ok(())
    }

    pub fn close_cursor(&mut self, name: Option<&str>) -> Result<(), PgError> {
        match name {
            None => {
                self.cursors.clear();
                self.portals.clear();
            }
            Some(name) => {
                let cursor = self.cursors.remove(name).is_some();
                let portal = !name.is_empty() && self.portals.remove(name).is_some();
                if !cursor && !portal {
                    return Err(no_cursor(name));
                }
            }
        }
        self.replies.complete(if name.is_some() { "CLOSE CURSOR" } else { "CLOSE CURSOR ALL" });
        Ok(())
    }
}

impl Declared {
    /// The rows of a movement.
    async fn passage(&mut self, movement: Movement) -> Result<Passage, Failure> {
        match &mut self.rows {
            CursorRows::Forward(cursor) => forward(cursor.position, movement).ok_or_else(|| only_forward().into()),
            CursorRows::Scroll(scroll) => {
                let count = match movement {
                    // Only these need to know how many rows there are.
                    Movement::Absolute(..0) | Movement::Backward(_) => scroll.count().await?,
                    _ => u64::MAX - 1,
                };
                Ok(scrolled(scroll.position(), count, movement))
            }
        }
    }
}

/// The passage of a cursor that moves forward from row `at`; `None` if it would have to go back.
fn forward(at: u64, movement: Movement) -> Option<Passage> {
    let passage = |first, count| Some(Passage { first, count, backward: false });
    match movement {
        Movement::Forward(Some(0)) | Movement::Backward(_) => None,
        Movement::Forward(count) => passage(at.saturating_add(1), count),
        Movement::Relative(by) if by > 0 => passage(at.saturating_add(by.unsigned_abs()), Some(1)),
        Movement::Absolute(0) if at == 0 => passage(1, Some(0)),
        Movement::Absolute(to) if to > 0 && to.unsigned_abs() > at => passage(to.unsigned_abs(), Some(1)),
        Movement::Relative(_) | Movement::Absolute(_) => None,
    }
}

/// The passage of a cursor on row `at` of `count` rows that can move in both directions.
fn scrolled(at: u64, count: u64, movement: Movement) -> Passage {
    let one = |first| Passage { first, count: Some(1), backward: false };
    match movement {
        Movement::Forward(Some(0)) | Movement::Backward(Some(0)) | Movement::Relative(0) => one(at),
        Movement::Forward(count) => Passage { first: at.saturating_add(1), count, backward: false },
        Movement::Backward(wanted) => {
            Passage { first: at.min(count + 1).saturating_sub(1), count: wanted, backward: true }
        }
        Movement::Absolute(to) if to < 0 => one((count + 1).saturating_sub(to.unsigned_abs())),
        Movement::Absolute(to) => one(to.unsigned_abs()),
        Movement::Relative(by) => one(at.saturating_add_signed(by)),
    }
}

fn only_forward() -> PgError {
    PgError::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .with_hint("Declare it with SCROLL option to enable backward scan.")
}

fn no_cursor(name: &str) -> PgError {
    PgError::new(sqlstate::INVALID_CURSOR_NAME, format!("there is no cursor {name}"))
}
