//! BACKUP and RESTORE: a state of the database in another folder, and back.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt64Array};
use freestone_store::{BackupReport, Store, Waiting};

use crate::context::Outcome;
use crate::error::Result;
use crate::internal_names::is_temporary;
use crate::provider::columns;

/// `BACKUP TO 'folder'`.
pub(crate) fn backup(store: &Store, folder: &str) -> Result<Outcome> {
    rows(store.backup(Path::new(folder), &|name| !is_temporary(name))?)
}

/// `RESTORE FROM 'folder'`.
pub(crate) fn restore(store: &Store, folder: &str, waiting: Waiting) -> Result<Outcome> {
    rows(store.restore(Path::new(folder), waiting, &|name| !is_temporary(name))?)
}

fn rows(report: BackupReport) -> Result<Outcome> {
    let number = |number: u64| Arc::new(UInt64Array::from(vec![number])) as ArrayRef;
    let columns = vec![
        ("tables", false, number(report.tables as u64)),
        ("files_copied", false, number(report.files_copied as u64)),
        ("bytes_copied", false, number(report.bytes_copied)),
        ("files_kept", false, number(report.files_kept as u64)),
    ];
    Ok(Outcome::batch(columns::batch(columns)?))
}
