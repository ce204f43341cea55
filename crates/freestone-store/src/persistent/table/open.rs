//! Opening a table: finishing what a crash interrupted, and making the directory of blocks.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::{Mutex, RwLock};

use super::super::damaged;
use super::super::directory::Key;
use super::super::link::{seal, unseal};
use super::super::pool::{NEXT, Pool, UnitKind, UnitState};
use super::super::tree::{Tree, TreeOptions};
use super::clusters::Clusters;
use super::geometry::Geometry;
use super::journal::{Change, Journal, Phase};
use super::version::Graves;
use super::{
    DESCRIPTION_CHECK, DESCRIPTION_LEN, FIRST_BLOCK, INTENTS, PTable, PTableOptions, Place, REDO, ROOT, STATE,
    Structure, Writer, description, slot_of, unit_of,
};
use crate::error::{Result, StoreError};
use crate::media::region::Words;

/// What a table's own units say, but for its rows.
pub struct Parts {
    pub units: Vec<UnitState>,
    pub of: u64,
    pub head: u64,
    pub options: PTableOptions,
    pub key: Vec<usize>,
    pub clusters: Clusters,
    pub geometry: Geometry,
    pub journal: Journal,
}

impl Parts {
    pub fn read(pool: &Arc<Pool>, id: u64) -> Result<Parts> {
        let units = pool.take_units(id);
        let heads: Vec<&UnitState> = units.iter().filter(|unit| unit.kind == UnitKind::Table).collect();
        let [head] = heads[..] else {
            let place = pool.region().place();
            return Err(StoreError::invalid(format!("{place} has {} tables with the number {id}", heads.len())));
        };
        let words = pool.region().words();
        let (unit, of, head) = (head.unit, head.values.0, pool.offset(head.unit));
        let (len, check) = (words.load(head + DESCRIPTION_LEN), words.load(head + DESCRIPTION_CHECK));
        let (options, key, clusters) = description::load(pool, head, &units, len, check)?;
        let geometry = Geometry::new(&options.schema, pool.unit_bytes())?;
        let own = head + REDO..pool.offset(unit + 1);
        let mut redo: Vec<&UnitState> = units.iter().filter(|unit| unit.kind == UnitKind::Redo).collect();
        redo.sort_unstable_by_key(|unit| unit.values.0);
        let further = redo.iter().map(|unit| pool.content(unit.unit));
        let journal = Journal::new(head + STATE, std::iter::once(own).chain(further).collect());
        Ok(Parts { units, of, head, options, key, clusters, geometry, journal })
    }

    /// The change that a crash interrupted, and whether it is committed.
    pub fn interrupted(&self, pool: &Pool, has_commit: &dyn Fn(u64) -> bool) -> Result<Option<(bool, Change)>> {
        let found = self.journal.read(pool.region().as_ref())?;
        Ok(found.map(|(phase, change)| {
            let is_committed = match phase {
                Phase::Prepared => false,
                Phase::Committed => true,
                Phase::Waiting => change.sequence.is_some_and(has_commit),
            };
            (is_committed, change)
        }))
    }
}

/// Offset of a block's smallest key: two words of its header.
const LOW: u64 = 40;

/// The smallest key of a block.
pub fn low_key(words: Words<'_>, start: u64) -> Key {
    (words.load(start + LOW), words.load(start + LOW + 8))
}

impl PTable {
    /// Opens a table, and finishes the change that a crash interrupted.
    ///
    /// # Errors
    /// The pool has no such table, or something is damaged.
    pub fn open(pool: Arc<Pool>, id: u64) -> Result<PTable> {
        PTable::open_with(pool, id, &|_| false)
    }

    /// The same, where `has_commit` says whether a log has the commit for which a change was prepared.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_with(pool: Arc<Pool>, id: u64, has_commit: &dyn Fn(u64) -> bool) -> Result<PTable> {
        let parts = Parts::read(&pool, id)?;
        let interrupted = parts.interrupted(&pool, has_commit)?;
        let region = pool.region().clone();
        if let Some((true, change)) = &interrupted {
            for (word, value) in &change.words {
                region.store(*word, *value);
                region.flush(*word, 8);
            }
        }
        let Parts { units, of, head, options, key, clusters, geometry, journal } = parts;
        let (structure, rows) = read_blocks(&pool, id, head, &geometry)?;
        let tree_options = TreeOptions { node_bytes: options.node_bytes };
        let tree = Tree::open(pool.clone(), id, head + ROOT, tree_options, &units)?;
        let writer = Writer::new(journal);
        let table = PTable {
            pool,
            id,
            of,
            head,
            schema: options.schema,
            key,
            clusters,
            geometry,
            tree,
            structure: RwLock::new(structure),
            writer: Mutex::new(writer),
            rows: AtomicU64::new(rows),
            graves: Graves::default(),
            foreign: RwLock::default(),
            is_dropped: AtomicBool::new(false),
        };
        table.finish(interrupted.map(|(_, change)| change.places))?;
        table.release_unreached(&units);
        Ok(table)
    }

    /// Lets the tree agree with the validity bits of the places that the last change touched. Each step ends with a fence.
    /// So do the words of a committed change, and what the tree repaired, become durable before anything else changes.
    fn finish(&self, changed: Option<Vec<Place>>) -> Result<()> {
        let words = self.region().words();
        for at in [INTENTS, INTENTS + 8] {
            let intent = unseal(words.load(self.head + at));
            let intent = intent.ok_or_else(|| damaged(self.region(), self.head + at, "a damaged place of a row"))?;
            // A block that is gone since was left by changes that came to their end.
            if self.structure.read().version(unit_of(intent)).is_some() {
                // What was written of a row may not be a row yet. Then it has no entry either.
                if let Ok(prefix) = self.prefix_of(intent) {
                    self.reconcile(intent, prefix)?;
                }
            }
        }
        let Some(changed) = changed else { return Ok(()) };
        let units = self.pool.usage().0;
        for at in changed {
            if unit_of(at) == 0 || unit_of(at) >= units {
                return Err(damaged(self.region(), self.head + STATE, "the redo slot has a place outside the pool"));
            }
            self.reconcile(at, self.prefix_of(at)?)?;
        }
        self.writer.lock().journal.clear(self.region());
        Ok(())
    }

    /// The order prefix of the key at a place that comes from the pool.
    fn prefix_of(&self, at: Place) -> Result<u64> {
        if slot_of(at) >= self.geometry.slots {
            return Err(damaged(self.region(), self.head + INTENTS, format!("a row's place {at:#x} without a slot")));
        }
        self.prefix_at(at)
    }

    /// Adds the entry of a row, or removes that of a slot without one, durably.
    fn reconcile(&self, at: Place, prefix: u64) -> Result<()> {
        if self.key.is_empty() {
            // Nothing else changes before the words are durable.
            self.region().fence();
            return Ok(());
        }
        let is_block = self.structure.read().version(unit_of(at)).is_some();
        if is_block && self.block(unit_of(at)).is_valid(slot_of(at)) {
            return self.tree.insert((prefix, at));
        }
        self.tree.remove((prefix, at)).map(|_| ())
    }

    fn release_unreached(&self, units: &[UnitState]) {
        let structure = self.structure.read();
        let is_free = |unit: &&UnitState| unit.kind == UnitKind::Block && structure.version(unit.unit).is_none();
        let free: Vec<u64> = units.iter().filter(is_free).map(|unit| unit.unit).collect();
        drop(structure);
        self.pool.release(&free);
    }

    /// Checks the list of blocks against the directory.
    pub(super) fn check_list(&self) -> Result<()> {
        let (found, _) = read_blocks(&self.pool, self.id, self.head, &self.geometry)?;
        if !found.blocks.iter().eq(self.structure.read().blocks.iter()) {
            return Err(damaged(self.region(), self.head, "the list of blocks is not what the directory has"));
        }
        Ok(())
    }
}

/// Follows the list of blocks, and counts their rows.
pub fn read_blocks(pool: &Pool, id: u64, head: u64, geometry: &Geometry) -> Result<(Structure, u64)> {
    let region = pool.region();
    let words = region.words();
    let (mut structure, mut rows) = (Structure::default(), 0u64);
    let mut seen = HashSet::new();
    let (mut link, mut before) = (head + FIRST_BLOCK, None);
    loop {
        let wrong = |reason: &str| Err(damaged(region.as_ref(), link, reason));
        let Some(unit) = unseal(words.load(link)) else { return wrong("a damaged link to a block") };
        if unit == 0 {
            return if before.is_some() { Ok((structure, rows)) } else { wrong("a table without a block") };
        }
        let low = pool.expect(unit, UnitKind::Block, id)?.values;
        if !seen.insert(unit) || before.map_or(low != (0, 0), |before| low <= before) {
            return wrong("a link to a block whose smallest key is not above that of the block before it");
        }
        let start = pool.offset(unit);
        region.touch(start, super::super::pool::HEADER_BYTES);
        let (first, _) = geometry.bit(0);
        let counts = (0..geometry.words as u64).map(|at| words.load(start + first + at * 8).count_ones());
        rows += u64::from(counts.sum::<u32>());
        structure.show_found(low, unit);
        debug_assert_eq!(seal(unit), words.load(link));
        (link, before) = (start + NEXT, Some(low));
    }
}
