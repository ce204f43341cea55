//! A table in persistent memory (Götze, Baumann and Sattler 2018): blocks in the order of a clustering key, rows inside as
//! they come, and a [`Tree`] from the table's key to the places of rows.
//!
//! A row is in its block, and a bit of the block's validity bitmap says so. The tree's entry of a row is in the tree
//! exactly if that bit is set. A change of one word of the bitmap is committed by storing it, a larger one by the redo slot
//! (`journal`). Opening finishes what was under way: it compares the tree with the bits of the few places that the last
//! change touched, and reads no rows. So it takes as long after a crash as after an orderly end.
//!
//! **Readers and the writer.** A reader sees each committed transaction wholly or not at all within a block, and within
//! the rows of one key. A scan reads one block after the other, each as it is then, and every row once. It has no
//! snapshot: of a transaction that changes several blocks while it runs it may see a part. A row whose clustering key
//! changes meanwhile may be seen twice or not at all.

mod block;
mod check;
mod checksums;
mod clusters;
#[cfg(test)]
pub(super) mod crash_tests;
mod description;
mod geometry;
mod journal;
#[cfg(all(test, target_os = "linux"))]
mod kill_tests;
mod open;
mod read;
mod scan;
mod select;
mod split;
#[cfg(test)]
mod tests;
mod version;
mod view;
mod write;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::directory::{Directory, Key};
use super::link::seal;
use super::pool::{NEXT, Pool, UnitKind};
use super::tree::{Move, Tree};
use crate::cluster::BitOrder;
use crate::error::{Result, StoreError};
use crate::media::region::Region;
use crate::page::checksum;
use crate::schema::TableSchema;
use block::Block;
use clusters::Clusters;
use geometry::Geometry;
use journal::{Change, Journal};
use version::{Graves, Versions};

pub use clusters::{Dimension, sampled_bins};
pub use scan::{Costs, IteratorKind, Plan, Request, ScanReport};
pub(crate) use select::key_prefixes;
pub(crate) use version::slots_of;
pub use version::{BlockVersion, Published};
pub use write::Transaction;

/// The place of a row: the number of its block's unit, times 65536, and its slot.
pub type Place = u64;

/// Offsets in the unit of a table.
const FIRST_BLOCK: u64 = 64;
const ROOT: u64 = 72;
const INTENTS: u64 = 88;
const STATE: u64 = 104;
const DESCRIPTION_LEN: u64 = 112;
const DESCRIPTION_CHECK: u64 = 120;
const REDO: u64 = 128;

/// The properties of a new table.
#[derive(Debug, Clone)]
pub struct PTableOptions {
    /// Columns and constraints.
    pub schema: TableSchema,
    /// The columns of the key, by which rows are found. Nothing enforces that it is unique. Without columns, the tree
    /// stays empty.
    pub key: Vec<String>,
    /// The dimensions of the clustering key.
    pub clusters: Vec<Dimension>,
    /// The order of their bits.
    pub order: BitOrder,
    /// Bytes of a leaf of the tree.
    pub node_bytes: u64,
}

/// A table in a pool.
#[derive(Debug)]
pub struct PTable {
    pool: Arc<Pool>,
    id: u64,
    /// The table of the store whose rows these are; 0 if there is none.
    of: u64,
    /// The offset of the table's unit.
    head: u64,
    schema: TableSchema,
    key: Vec<usize>,
    clusters: Clusters,
    geometry: Geometry,
    tree: Tree,
    structure: RwLock<Structure>,
    writer: Mutex<Writer>,
    rows: AtomicU64,
    graves: Graves,
    /// The blocks of which snapshots of other processes may have any slot: those that were there when this process opened
    /// the table. `None` if there are no such snapshots.
    foreign: RwLock<Option<HashSet<u64>>>,
    /// Whether the units are free when nobody reads the table any more.
    is_dropped: AtomicBool,
}

/// The blocks that readers may look at. It changes only when blocks are split, replaced or removed.
#[derive(Debug, Default)]
struct Structure {
    /// From the smallest key of a block, with a number that orders blocks of equal keys, to the block's unit.
    blocks: Directory,
    /// By unit: 0 if it is no block of the table. Otherwise at least 2, and odd while a slot is overwritten that
    /// readers may look at; with [`VERIFIED`](checksums::VERIFIED).
    versions: Vec<AtomicU64>,
}

/// What only the writer knows. It can be found out by reading blocks.
#[derive(Debug)]
struct Writer {
    /// By unit.
    blocks: Vec<Option<BlockState>>,
    journal: Journal,
    /// Rows that the transaction under way has written, and those that it will remove: places and key prefixes.
    inserted: BTreeMap<Place, u64>,
    deleted: BTreeMap<Place, u64>,
    /// What waits for the commit of a log.
    prepared: Option<Prepared>,
    versions: Versions,
}

impl Writer {
    fn new(journal: Journal) -> Writer {
        Writer {
            blocks: vec![],
            journal,
            inserted: BTreeMap::new(),
            deleted: BTreeMap::new(),
            prepared: None,
            versions: Versions::default(),
        }
    }

    /// Forgets the transaction under way.
    fn clear(&mut self) {
        self.inserted.clear();
        self.deleted.clear();
    }

    fn block(&mut self, unit: u64) -> Option<&mut BlockState> {
        self.blocks.get_mut(unit as usize).and_then(Option::as_mut)
    }

    fn set_block(&mut self, unit: u64, state: Option<BlockState>) {
        let at = unit as usize;
        if at >= self.blocks.len() {
            self.blocks.resize_with(at + 1, Option::default);
        }
        self.blocks[at] = state;
    }
}

/// A transaction that becomes one if the log has its commit.
#[derive(Debug)]
struct Prepared {
    change: Change,
    inserted: Vec<(Place, u64)>,
    deleted: Vec<(Place, u64)>,
    entries: Entries,
}

/// What a change does to the tree: places of rows with the prefixes of their keys.
#[derive(Debug, Default)]
struct Entries {
    added: Vec<(Place, u64)>,
    removed: Vec<(Place, u64)>,
    /// Prefixes with the places before and after: entries that stay where they are in their leaf.
    moved: Vec<Move>,
}

/// The free space of a block.
#[derive(Debug)]
struct BlockState {
    /// Where the strings of its rows begin.
    heap_top: u64,
    /// A bit for each slot that is taken: by a row, by one of the transaction under way, or by one that a snapshot sees.
    /// Slots that have become free since may be missing.
    taken: Vec<u64>,
    /// Whether rows may have been removed that readers may look at.
    has_freed: bool,
    /// Whether the block has a checksum, which must go before a slot is written.
    is_checked: bool,
}

fn place(unit: u64, slot: usize) -> Place {
    unit << 16 | slot as u64
}

fn unit_of(place: Place) -> u64 {
    place >> 16
}

fn slot_of(place: Place) -> usize {
    (place & 0xffff) as usize
}

/// The places of a block.
fn places_of(unit: u64) -> std::ops::Range<Place> {
    unit << 16..(unit + 1) << 16
}

fn names_to_columns(schema: &TableSchema, names: &[String]) -> Result<Vec<usize>> {
    names.iter().map(|name| schema.index_of(name)).collect()
}

impl PTable {
    /// Creates a table. `id` is new in the pool.
    ///
    /// # Errors
    /// The options are not valid, or the pool is full.
    pub fn create(pool: Arc<Pool>, id: u64, options: &PTableOptions) -> Result<PTable> {
        PTable::create_for(pool, id, 0, options)
    }

    /// Creates a table for the rows of one of a store.
    ///
    /// # Errors
    /// Those of [`create`](Self::create).
    pub fn create_for(pool: Arc<Pool>, id: u64, of: u64, options: &PTableOptions) -> Result<PTable> {
        let schema = options.schema.clone().validated()?;
        let key = names_to_columns(&schema, &options.key)?;
        if let Some(wrong) = options.clusters.iter().find(|dimension| dimension.column >= schema.columns.len()) {
            return Err(StoreError::invalid(format!("the table has no column {} to cluster by", wrong.column)));
        }
        let clusters = Clusters::new(options.clusters.clone(), options.order.clone())?;
        let geometry = Geometry::new(&schema, pool.unit_bytes())?;
        let region = pool.region().clone();
        let unit = pool.prepare(UnitKind::Table, id, (of, 0))?;
        let head = pool.offset(unit);
        let description = description::write(options, &key);
        description::store(&pool, id, &description)?;
        let first = pool.claim(UnitKind::Block, id, (0, 0))?;
        Block::new(region.as_ref(), &geometry, pool.offset(first)).clear();
        let tree_options = super::tree::TreeOptions { node_bytes: options.node_bytes };
        let tree = Tree::create(pool.clone(), id, head + ROOT, tree_options)?;
        let words = [(FIRST_BLOCK, seal(first)), (INTENTS, 0), (INTENTS + 8, 0), (STATE, 0)];
        words.iter().for_each(|(offset, value)| region.store(head + offset, *value));
        region.store(head + DESCRIPTION_LEN, description.len() as u64);
        region.store(head + DESCRIPTION_CHECK, checksum(&description).into());
        region.flush(head + FIRST_BLOCK, REDO - FIRST_BLOCK);
        region.fence();
        // From here on there is a table. Before, its units belonged to nobody.
        pool.publish(unit, UnitKind::Table);
        region.fence();
        let mut structure = Structure::default();
        structure.show((0, 0), first);
        let own = head + REDO..pool.offset(unit + 1);
        let writer = Writer::new(Journal::new(head + STATE, [own].into()));
        Ok(PTable {
            pool,
            id,
            of,
            head,
            schema,
            key,
            clusters,
            geometry,
            tree,
            structure: RwLock::new(structure),
            writer: Mutex::new(writer),
            rows: AtomicU64::new(0),
            graves: Graves::default(),
            foreign: RwLock::default(),
            is_dropped: AtomicBool::new(false),
        })
    }

    /// The number of the table in the pool.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The table of the store whose rows these are; 0 if there is none.
    pub fn of(&self) -> u64 {
        self.of
    }

    /// Drops the table: from now on a crash leaves none. Its units are free when the value is dropped, with all snapshots
    /// that have its blocks.
    pub fn discard(&self) {
        self.region().store(self.head, 0);
        self.region().flush(self.head, 8);
        self.region().fence();
        self.is_dropped.store(true, Ordering::Release);
    }

    /// Columns and constraints.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// The clustering dimensions.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.clusters.dimensions
    }

    /// The order of their bits in a row's clustering key.
    pub fn bit_order(&self) -> &BitOrder {
        &self.clusters.order
    }

    /// The positions of the key's columns.
    pub fn key(&self) -> &[usize] {
        &self.key
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The index from the key to the places of rows.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of blocks and of slots per block.
    pub fn block_counts(&self) -> (usize, usize) {
        (self.structure.read().blocks.len(), self.geometry.slots)
    }

    fn region(&self) -> &dyn Region {
        self.pool.region().as_ref()
    }

    fn block(&self, unit: u64) -> Block<'_> {
        Block::new(self.region(), &self.geometry, self.pool.offset(unit))
    }

    /// The offset of the word that links the block behind `before`; of the first block, if that is `None`.
    fn link_word(&self, before: Option<u64>) -> u64 {
        before.map_or(self.head + FIRST_BLOCK, |unit| self.pool.offset(unit) + NEXT)
    }
}

impl Drop for PTable {
    fn drop(&mut self) {
        if self.is_dropped.load(Ordering::Acquire) {
            self.pool.release_owner(self.id);
        }
    }
}

impl Structure {
    /// Adds a block that this process has written.
    fn show(&mut self, low: Key, unit: u64) {
        self.show_found(low, unit);
        *self.versions[unit as usize].get_mut() |= checksums::VERIFIED;
    }

    /// Adds a block that is in the pool already.
    fn show_found(&mut self, low: Key, unit: u64) {
        self.blocks.insert(low, unit);
        let at = unit as usize;
        if at >= self.versions.len() {
            self.versions.resize_with(at + 1, AtomicU64::default);
        }
        *self.versions[at].get_mut() = 2;
    }

    /// Takes a block away.
    fn hide(&mut self, low: Key) -> Option<u64> {
        let at = self.blocks.floor(low)?;
        let (_, unit) = self.blocks.get(at);
        self.blocks.remove(at);
        *self.versions[unit as usize].get_mut() = 0;
        Some(unit)
    }

    /// The version of a unit, if it is a block of the table.
    fn version(&self, unit: u64) -> Option<&AtomicU64> {
        self.versions.get(unit as usize).filter(|version| version.load(Ordering::Relaxed) != 0)
    }
}
