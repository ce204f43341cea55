//! Blocks of a table in persistent memory as a segment: a page and a zone for each block. So the one scan reads them, and
//! a row has a number, as in other segments. Slots without a row count as deleted rows.
//!
//! A page is made when a scan asks for it, and cached while no row is written to its block. Rows are removed without that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use super::hot::{HotColumns, Parts};
use super::reader::{CachedPage, MadePages, Segment};
use super::zones::{Bounds, BytesBounds, IntBounds, ZoneMap};
use crate::column::number_of_prefix;
use crate::error::{Result, StoreError};
use crate::media::{Buffer, MediumError, Pending, ReadFile, ReadRequest};
use crate::persistent::{BlockVersion, PTable, Place};
use crate::schema::kind;
use freestone_codec::Kind;

/// The blocks of a segment, at most.
pub const SEGMENT_BLOCKS: usize = 64;

/// Some blocks of a table, as some snapshots see them. A block keeps its position while its rows keep their slots.
#[derive(Debug)]
pub struct Blocks {
    shared: Arc<SharedBlocks>,
    positions: Vec<Option<Arc<BlockVersion>>>,
    /// Changes with every change.
    stamp: u32,
    /// When a page was used last.
    used: Arc<AtomicU64>,
}

/// The time by which uses are told apart: it passes with every change.
static NOW: AtomicU64 = AtomicU64::new(0);

/// What all segments of a table in persistent memory share.
#[derive(Debug)]
pub struct SharedBlocks {
    table: Arc<PTable>,
    columns: HotColumns,
    /// By unit: the segments and positions that its block has or had.
    places: RwLock<HashMap<u64, Vec<(u64, u32)>>>,
}

impl SharedBlocks {
    pub fn new(table: Arc<PTable>) -> SharedBlocks {
        let columns = HotColumns::new(table.schema());
        SharedBlocks { table, columns, places: RwLock::default() }
    }

    /// The table in the pool.
    pub fn table(&self) -> &Arc<PTable> {
        &self.table
    }

    /// The rows that each block has in its segment: more than it has slots.
    pub fn block_rows(&self) -> usize {
        (self.table.slots() + 1).next_power_of_two().max(64)
    }

    /// Gives a block a position in a segment.
    pub fn put(&self, unit: u64, segment: u64, position: u32) {
        self.places.write().entry(unit).or_default().push((segment, position));
    }

    /// Forgets the positions of a unit, except one in this segment.
    pub fn forget(&self, is_known: impl Fn(u64) -> bool) {
        self.places.write().retain(|_, places| {
            places.retain(|(segment, _)| is_known(*segment));
            !places.is_empty()
        });
    }

    /// The rows that may have a key with a prefix from `low` to `high`, each with its segment.
    ///
    /// # Errors
    /// Something is damaged.
    pub fn candidates(&self, low: u64, high: u64, out: &mut Vec<(u64, u32)>) -> Result<()> {
        let mut found: Vec<Place> = vec![];
        self.table.candidates(low, high, &mut found)?;
        let (rows, places) = (self.block_rows() as u32, self.places.read());
        for at in found {
            let (unit, slot) = (at >> 16, (at & 0xffff) as u32);
            let known = places.get(&unit).into_iter().flatten();
            out.extend(known.map(|(segment, position)| (*segment, position * rows + slot)));
        }
        Ok(())
    }
}

impl Blocks {
    pub fn new(
        shared: Arc<SharedBlocks>,
        positions: Vec<Option<Arc<BlockVersion>>>,
        stamp: u32,
        used: Arc<AtomicU64>,
    ) -> Blocks {
        used.store(NOW.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Blocks { shared, positions, stamp, used }
    }

    /// When a page was used last, or the blocks were changed.
    pub fn last_used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// What it shares with others.
    pub fn shared(&self) -> &Arc<SharedBlocks> {
        &self.shared
    }

    /// A number that changes with every change of the blocks.
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    /// The rows, including those that count as deleted.
    pub fn rows(&self) -> u32 {
        (self.positions.len() * self.shared.block_rows()) as u32
    }

    /// The bytes of the blocks.
    pub fn bytes(&self) -> u64 {
        self.positions.iter().flatten().count() as u64 * self.shared.table.pool().unit_bytes()
    }

    /// The place of a row in the pool.
    pub fn place(&self, row: u32) -> Option<Place> {
        let rows = self.shared.block_rows() as u32;
        let version = self.positions.get((row / rows) as usize)?.as_ref()?;
        Some(version.unit << 16 | Place::from(row % rows))
    }

    /// The page of a block.
    fn page(&self, at: usize) -> Result<CachedPage> {
        let rows = self.shared.block_rows();
        let columns = match &self.positions[at] {
            Some(version) => self.shared.table.page(version, rows)?,
            None => self.shared.columns.empty(rows),
        };
        let damaged = |reason| StoreError::Corrupt { file: self.shared.table.pool().region().place(), reason };
        self.shared.columns.encoded(&columns, 0, rows).map_err(damaged)
    }

    fn zones(&self) -> Vec<ZoneMap> {
        let rows = self.shared.block_rows() as u32;
        let bounds: Vec<Option<Vec<(u64, u64, u32)>>> = self
            .positions
            .iter()
            .map(|version| version.as_ref().map(|version| self.shared.table.bounds(version)))
            .collect();
        let zone = |column: usize, at: usize| bounds[at].as_ref().map(|bounds| bounds[column]);
        let columns = self.shared.columns.schema().columns.iter().enumerate();
        let map = |(at, column): (usize, &crate::schema::Column)| {
            let zones = || (0..bounds.len()).map(move |block| zone(at, block));
            let nulls = zones().map(|zone| zone.map_or(rows, |(.., nulls)| nulls)).collect();
            let values = zones().map(|zone| zone.map(|(low, high, _)| (low, high)).filter(|(low, high)| low <= high));
            ZoneMap::new(nulls, bounds_of(kind(&column.data_type), values))
        };
        columns.map(map).collect()
    }

    /// The blocks as a segment with this id.
    pub(crate) fn segment(self: &Arc<Self>, id: u64) -> Segment {
        let rows = self.shared.block_rows();
        let words = self.positions.iter().flatten().flat_map(|version| &version.live);
        let live = words.map(|word| u64::from(word.count_ones())).sum();
        let columns = &self.shared.columns;
        let content = |version: &Option<Arc<BlockVersion>>| version.as_ref().map_or(0, |version| version.content);
        let parts = Parts {
            id,
            name: format!("{}, table {}", self.shared.table.pool().region().place(), self.shared.table.id()),
            rows: self.rows(),
            zone_rows: rows as u32,
            pages: self.positions.iter().enumerate().map(|(at, v)| ((at * rows) as u32, content(v))).collect(),
            end: u32::MAX,
            zones: self.zones(),
            distinct: vec![live; columns.schema().columns.len()],
            bytes: self.bytes(),
        };
        let mut segment = columns.segment(parts);
        segment.file = self.clone();
        segment.blocks = Some(self.clone());
        segment.texts = segment.places.iter().map(|_| OnceLock::new()).collect();
        segment
    }
}

/// The bounds of zones from order prefixes. They may be wider than the values, which no zone shows: none is without
/// deleted rows.
fn bounds_of(kind: Kind, zones: impl Iterator<Item = Option<(u64, u64)>>) -> Bounds {
    let number = |prefix: u64| i128::from(number_of_prefix(prefix));
    match kind {
        Kind::Bytes => Bounds::Bytes(
            zones
                .map(|zone| {
                    let (low, high) = zone?;
                    let mut min = low.to_be_bytes().to_vec();
                    min.truncate(min.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
                    let max = high.checked_add(1).map(|next| next.to_be_bytes().to_vec());
                    Some(BytesBounds { min, max, exact: false })
                })
                .collect(),
        ),
        Kind::Wide => {
            let wide = |(low, high)| IntBounds {
                min: number(low) << 64,
                max: number(high) << 64 | i128::from(u64::MAX),
                sum: None,
            };
            Bounds::Int(zones.map(|zone| zone.map(wide)).collect())
        }
        _ => {
            let narrow = |(low, high)| IntBounds { min: number(low), max: number(high), sum: None };
            Bounds::Int(zones.map(|zone| zone.map(narrow)).collect())
        }
    }
}

impl MadePages for Blocks {
    fn made(&self, page: usize) -> Option<CachedPage> {
        self.page(page).ok()
    }

    fn bytes(&self) -> u64 {
        Blocks::bytes(self)
    }

    fn touch(&self) {
        self.used.store(NOW.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Pages come from the pool. Who reads this file could not get one, and is told the reason.
impl ReadFile for Blocks {
    fn len(&self) -> Result<u64, MediumError> {
        Ok(0)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        Err(MediumError::PastEnd { file: self.name(), file_len: 0, offset, len: into.len() as u64 })
    }

    fn start(&self, requests: &[ReadRequest]) -> Pending {
        let failed = |request: &ReadRequest| -> Result<Buffer, MediumError> {
            let reason = match self.page(request.offset as usize) {
                Ok(_) => "a block that was damaged is not any more".to_owned(),
                Err(error) => error.to_string(),
            };
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, reason);
            Err(MediumError::io("read", self.name(), error))
        };
        Pending::ready(requests.iter().map(failed).collect())
    }
}

impl Blocks {
    fn name(&self) -> String {
        self.shared.table.pool().region().place()
    }
}
