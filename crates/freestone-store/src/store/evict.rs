//! When the pool runs short, the blocks that were used longest ago become segments in files, in the design of their table.
//! Nobody waits for that.

use std::sync::Arc;

use super::merge::Compaction;
use super::{Snapshot, Store};
use crate::error::Result;
use crate::table::Table;

/// Segments that are moved at a time, at most.
const SEGMENTS: usize = 4;

impl Store {
    /// Whether blocks are to be moved to files.
    pub(super) fn pool_is_short(&self) -> bool {
        self.pmem.excess().is_some()
    }

    /// Moves the blocks to files that were used longest ago, if the pool runs short. Returns whether some were.
    pub(super) fn relieve_pool(&self, write_bytes: usize, goes_on: &dyn Fn() -> bool) -> Result<bool> {
        let Some(excess) = self.pmem.excess() else { return Ok(false) };
        let snapshot = self.snapshot()?;
        let Some((table, which)) = coldest(&snapshot, excess) else { return Ok(false) };
        self.compact(&table, &Compaction { which: &which, write_bytes, threads: 1, goes_on })
    }
}

/// The segments of one table that were used longest ago.
fn coldest(snapshot: &Snapshot, excess: u64) -> Option<(Arc<Table>, Vec<usize>)> {
    let mut all: Vec<(u64, &Arc<Table>, usize)> = vec![];
    for table in snapshot.tables() {
        let used = |at: &usize| table.segments[*at].blocks.as_ref().map(|blocks| blocks.last_used());
        all.extend((0..table.segments.len()).filter_map(|at| Some((used(&at)?, table, at))));
    }
    all.sort_by_key(|(used, _, at)| (*used, *at));
    let table = all.first()?.1;
    let mut bytes = 0;
    let of_table = all.iter().filter(|(_, of, _)| of.id == table.id);
    let enough = |at: &usize| {
        let is_enough = bytes >= excess;
        bytes += table.segments[*at].bytes;
        !is_enough
    };
    let mut which: Vec<usize> = of_table.map(|(.., at)| *at).take(SEGMENTS).take_while(enough).collect();
    which.sort_unstable();
    Some((table.clone(), which))
}
