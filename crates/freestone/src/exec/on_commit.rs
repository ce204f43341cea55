//! What becomes of temporary tables at the end of a transaction.

use freestone_store::WriteTransaction;

use crate::definitions;
use crate::error::Result;
use crate::exec::dropping::Dropping;
use crate::temp_schema::TempSchema;

/// Drops or empties the tables that were declared ON COMMIT DROP or DELETE ROWS, as a part of the transaction that commits.
/// What depends on a table that is dropped goes as with CASCADE.
///
/// # Errors
/// A CHECK that stays names a sequence of such a table.
pub(crate) fn before_commit(temp: &TempSchema, transaction: &mut WriteTransaction) -> Result<()> {
    if !temp.is_used() || !transaction.is_changed() {
        return Ok(());
    }
    let (snapshot, mut dropped) = (transaction.snapshot(), vec![]);
    for table in snapshot.tables().filter(|table| temp.has(&table.name)) {
        match definitions::on_commit(&snapshot, table.id) {
            Some(true) => dropped.push(table.id),
            Some(false) if table.rows() > 0 => transaction.truncate(&table.name)?,
            Some(false) | None => {}
        }
    }
    match dropped.is_empty() {
        true => Ok(()),
        false => Dropping::of(&snapshot, temp, dropped, true)?.perform(transaction),
    }
}
