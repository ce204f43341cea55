//! A table of which another process may change the rows, for reading. It has the blocks but not the tree: leaves change while
//! they are read, and their inner nodes are in the memory of the process that writes.
//!
//! The caller keeps the other process from changing anything while a view is opened or refreshed, and afterwards from
//! overwriting what the view has seen.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::super::pool::Pool;
use super::super::tree::{Tree, TreeOptions};
use super::open::{Parts, read_blocks};
use super::version::Graves;
use super::{PTable, ROOT, Structure, Writer};
use crate::error::Result;

impl PTable {
    /// Opens a table for reading. `None` if a crash has interrupted a change of it that must be finished first: `has_commit`
    /// says whether a log has the commit for which one was prepared.
    ///
    /// # Errors
    /// The pool has no such table, or something is damaged.
    pub fn view(pool: Arc<Pool>, id: u64, has_commit: &dyn Fn(u64) -> bool) -> Result<Option<PTable>> {
        let parts = Parts::read(&pool, id)?;
        if parts.interrupted(&pool, has_commit)?.is_some_and(|(is_committed, _)| is_committed) {
            return Ok(None);
        }
        let Parts { of, head, options, clusters, geometry, journal, .. } = parts;
        let (structure, rows) = read_blocks(&pool, id, head, &geometry)?;
        let tree = Tree::none(pool.clone(), id, head + ROOT, TreeOptions { node_bytes: options.node_bytes })?;
        Ok(Some(PTable {
            pool,
            id,
            of,
            head,
            schema: options.schema,
            // The tree finds nothing.
            key: vec![],
            clusters,
            geometry,
            tree,
            structure: RwLock::new(structure),
            writer: Mutex::new(Writer::new(journal)),
            rows: AtomicU64::new(rows),
            graves: Graves::default(),
            foreign: RwLock::default(),
            is_dropped: AtomicBool::new(false),
        }))
    }

    /// Looks which blocks there are now, of a view. The next [`publish`](Self::publish) shows them. `has_changed` says of a
    /// unit whether it may have changed since the last time.
    ///
    /// # Errors
    /// Something is damaged.
    pub fn look_again(&self, has_changed: impl Fn(u64) -> bool) -> Result<()> {
        let (now, rows) = read_blocks(&self.pool, self.id, self.head, &self.geometry)?;
        let mut writer = self.writer.lock();
        let mut structure = self.structure.write();
        let units = |structure: &Structure| -> HashSet<u64> { structure.blocks.iter().map(|(_, unit)| unit).collect() };
        let (before, after) = (units(&structure), units(&now));
        let changed = after.iter().filter(|unit| !before.contains(unit) || has_changed(**unit));
        changed.chain(before.difference(&after)).for_each(|unit| writer.versions.touch(*unit, true));
        *structure = now;
        self.rows.store(rows, Ordering::Relaxed);
        Ok(())
    }

    /// Checks the blocks that were published last, of a view: their checksums and strings.
    ///
    /// # Errors
    /// Names what is damaged.
    pub fn check_blocks(&self) -> Result<()> {
        let blocks = self.writer.lock().versions.current();
        blocks.iter().try_for_each(|block| self.page(block, self.slots()).map(drop))
    }

    /// From now on no slot of a block that the table has is written, since snapshots of other processes may have its row.
    pub fn hold_back(&self) {
        let units = self.structure.read().blocks.iter().map(|(_, unit)| unit).collect();
        *self.foreign.write() = Some(units);
        self.writer.lock().blocks.clear();
    }

    /// Ends that.
    pub fn let_go(&self) {
        let mut writer = self.writer.lock();
        *self.foreign.write() = None;
        writer.blocks.clear();
    }

    /// Whether snapshots of other processes may have any row of a block.
    pub(super) fn is_foreign(&self, unit: u64) -> bool {
        self.foreign.read().as_ref().is_some_and(|units| units.contains(&unit))
    }
}
