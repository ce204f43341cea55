//! Materialized views: tables whose rows are those of a query. The engine computes the rows; the store keeps them, refuses other
//! changes of them, and knows whether the query would still give them.

use std::collections::BTreeSet;

use super::commit::Operation;
use super::locks::Mode;
use super::write::WriteTransaction;
use crate::error::{Result, StoreError};
use crate::table::Table;

impl WriteTransaction {
    /// Refuses changes of the rows of a materialized view that is not being computed.
    pub(super) fn check_own_rows(&self, table: &Table) -> Result<()> {
        match self.state().objects.materialized(table.id) {
            Some(_) if self.refreshed != Some(table.id) => Err(StoreError::invalid(format!(
                "{} is a materialized view, whose rows come from its query: change the tables that it reads, and REFRESH it",
                table.name
            ))),
            _ => Ok(()),
        }
    }

    /// Whether there are materialized views.
    pub fn has_materialized_views(&self) -> bool {
        !self.state().objects.materialized_views().is_empty()
    }

    /// Locks a materialized view, removes its rows, and computes others by `fill`.
    ///
    /// # Errors
    /// There is no such table, `fill` fails, or as for [`WriteTransaction::lock`].
    pub fn rewrite_view<E: From<StoreError>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut WriteTransaction) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let table = self.table(name)?;
        self.lock_table(&table, Mode::Exclusive)?;
        self.refreshed = Some(table.id);
        let filled = self.truncate(name).map_err(E::from).and_then(|()| fill(self));
        self.refreshed = None;
        filled
    }

    /// Notes that a materialized view has the rows that its query gives over the tables as this transaction sees them, which are
    /// all that the query depends on.
    ///
    /// # Errors
    /// One of the tables does not exist.
    pub fn set_current(&mut self, view: &str, tables: &BTreeSet<u64>) -> Result<()> {
        let view = self.table(view)?;
        let mut of = vec![];
        for id in tables {
            let table = self.table_by_id(*id)?;
            if table.is_persistent() {
                return Ok(());
            }
            of.push((table.id, table.rows()));
        }
        match view.is_persistent() {
            true => Ok(()),
            false => self.perform(&Operation::ViewIsCurrent { table: view.id, of }),
        }
    }
}
