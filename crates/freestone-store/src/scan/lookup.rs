//! Lookups: scans for few rows, on the thread of the caller.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::{Cursor, ScanMetrics, ScanRequest, surviving_morsels};
use crate::error::Result;
use crate::limits::MORSEL_ROWS;
use crate::table::Table;

/// The rows that satisfy the filters of a scan, in batches.
///
/// # Errors
/// A page cannot be read or is damaged, or a filter fails.
pub fn lookup(table: &Arc<Table>, request: &Arc<ScanRequest>, metrics: &Arc<ScanMetrics>) -> Result<Vec<RecordBatch>> {
    let morsels = surviving_morsels(table, request, MORSEL_ROWS, metrics)?;
    let mut batches = vec![];
    if morsels.is_empty() {
        return Ok(batches);
    }
    let mut cursor = Cursor::new(table.clone(), request.clone(), metrics.clone());
    for (at, morsel) in morsels.iter().enumerate() {
        cursor.scan(morsel, morsels.get(at + 1))?;
        while let Some(batch) = cursor.next_ready() {
            batches.push(batch);
        }
    }
    batches.extend(cursor.finish()?);
    Ok(batches)
}
