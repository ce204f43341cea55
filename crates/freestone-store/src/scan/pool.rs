//! Rows in persistent memory by their key: the tree of their table finds them, if that costs less than reading the blocks
//! that keys and bounds leave (Götze, Baumann and Sattler 2018, sections IV.F and V.C: the block and the index iterator).

use std::collections::HashMap;
use std::sync::Arc;

use freestone_codec::Kind;

use super::{ColumnPredicate, ScanRequest};
use crate::error::{Result, StoreError};
use crate::persistent::{Costs, IteratorKind, PTable, Request, key_prefixes};
use crate::schema::kind;
use crate::segment::{SharedBlocks, asked};
use crate::table::Table;

/// Values that are looked up one by one, at most.
const KEYS: usize = 256;
/// So few entries of the tree are followed whatever the blocks would cost, which is not computed then.
const FEW_ENTRIES: u64 = 64;

/// What the steps of scans cost in nanoseconds: a block becomes a page, and a row of the tree is read from such a page.
const COSTS: Costs = Costs { key_test: 3.0, block: 2000.0, slot: 1.0, entry: 150.0 };

/// Rows by the position of their segment.
pub type PoolMatches = HashMap<usize, Vec<u32>>;

/// How a scan finds its rows in persistent memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolChoice {
    /// By the tree, and not by blocks.
    pub by_index: bool,
    /// What blocks cost, in nanoseconds.
    pub block_ns: f64,
    /// What the tree costs; infinite if it cannot find the rows.
    pub index_ns: f64,
}

/// The tables of the pool that have rows of a table.
fn pools(table: &Table) -> Vec<&Arc<SharedBlocks>> {
    let mut pools: Vec<&Arc<SharedBlocks>> = vec![];
    for blocks in table.segments.iter().filter_map(|entry| entry.blocks.as_ref()) {
        if !pools.iter().any(|known| Arc::ptr_eq(known, blocks.shared())) {
            pools.push(blocks.shared());
        }
    }
    pools
}

/// The rows in persistent memory that may satisfy the predicates, ascending. `None` if blocks are to be read.
///
/// # Errors
/// Something is damaged.
pub(super) fn pool_matches(table: &Table, request: &ScanRequest) -> Result<Option<PoolMatches>> {
    let pools = pools(table);
    let predicates = &request.predicates;
    if predicates.is_empty() || pools.is_empty() || request.iterator == Some(IteratorKind::Block) {
        return Ok(None);
    }
    let mut found = vec![];
    for shared in pools {
        let on = OfPool::new(table, shared, predicates)?;
        let is_few = || request.iterator.is_some() || on.entries() <= FEW_ENTRIES;
        if on.ranges.is_none() || !is_few() && !on.choice(None)?.by_index {
            return Ok(None);
        }
        let ranges = on.ranges.iter().flatten();
        ranges.into_iter().try_for_each(|(low, high)| shared.candidates(*low, *high, &mut found))?;
    }
    let in_pool = table.segments.iter().enumerate().filter(|(_, entry)| entry.is_in_pool());
    let segments: HashMap<u64, usize> = in_pool.map(|(at, entry)| (entry.id, at)).collect();
    let mut matches = PoolMatches::new();
    for (segment, row) in found {
        if let Some(at) = segments.get(&segment) {
            matches.entry(*at).or_default().push(row);
        }
    }
    for rows in matches.values_mut() {
        rows.sort_unstable();
        rows.dedup();
    }
    Ok(Some(matches))
}

/// How a scan finds its rows in persistent memory, with the costs of both ways. `None` if the table has none there.
///
/// # Errors
/// Something is damaged.
pub fn pool_choice(table: &Table, request: &ScanRequest) -> Result<Option<PoolChoice>> {
    let mut all: Option<PoolChoice> = None;
    for shared in pools(table) {
        let choice = OfPool::new(table, shared, &request.predicates)?.choice(request.iterator)?;
        all = Some(all.map_or(choice, |all| PoolChoice {
            by_index: all.by_index && choice.by_index,
            block_ns: all.block_ns + choice.block_ns,
            index_ns: all.index_ns + choice.index_ns,
        }));
    }
    Ok(all)
}

/// The column by which the tree finds the rows, if it does.
///
/// # Errors
/// Something is damaged.
pub(super) fn key_asked(table: &Table, request: &ScanRequest) -> Result<Option<usize>> {
    let pools = pools(table);
    let Some(shared) = pools.first() else { return Ok(None) };
    let by_index = pool_choice(table, request)?.is_some_and(|choice| choice.by_index);
    Ok(OfPool::new(table, shared, &request.predicates)?.column.filter(|_| by_index))
}

/// A scan of one table of the pool.
struct OfPool<'a> {
    table: &'a PTable,
    /// The predicates, with the table's columns in the pool.
    predicates: Vec<ColumnPredicate>,
    /// The first column of the key, as the table of the database has it.
    column: Option<usize>,
    /// The prefixes of keys that the predicates leave; `None` if they say nothing about the key.
    ranges: Option<Vec<(u64, u64)>>,
}

impl<'a> OfPool<'a> {
    fn new(table: &Table, shared: &'a SharedBlocks, predicates: &[ColumnPredicate]) -> Result<OfPool<'a>> {
        let of_pool = shared.table();
        let wrong = |reason| StoreError::Corrupt { file: of_pool.pool().region().place(), reason };
        let places = table.schema.places_in(of_pool.schema()).map_err(wrong)?;
        // Types may have become wider. Then integers are still those of the pool.
        let is_same = |column: usize, place: usize| {
            let (stored, now) = (&of_pool.schema().columns[place].data_type, &table.schema.columns[column].data_type);
            stored == now || kind(stored) == Kind::Int && kind(now) == Kind::Int
        };
        let stored = |predicate: &ColumnPredicate| {
            let column = places[predicate.column].filter(|place| is_same(predicate.column, *place))?;
            Some(ColumnPredicate { column, predicate: predicate.predicate.clone() })
        };
        let predicates: Vec<ColumnPredicate> = predicates.iter().filter_map(stored).collect();
        let key = of_pool.key().first().copied();
        let ranges = key.and_then(|key| ranges(&predicates, key, kind(&of_pool.schema().columns[key].data_type)));
        let column = places.iter().position(|place| place.is_some() && *place == key);
        Ok(OfPool { table: of_pool, predicates, column, ranges })
    }

    /// About how many entries of the tree are in the ranges.
    fn entries(&self) -> u64 {
        self.ranges.iter().flatten().map(|(low, high)| self.table.tree().estimate(*low, *high)).sum()
    }

    fn choice(&self, iterator: Option<IteratorKind>) -> Result<PoolChoice> {
        let request = Request { predicates: self.predicates.clone(), ..Request::default() };
        let block_ns = self.table.plan(&request, &COSTS)?.block_ns;
        let has_ranges = self.ranges.is_some();
        let index_ns = if has_ranges { self.entries() as f64 * COSTS.entry } else { f64::INFINITY };
        let is_cheaper = || index_ns < block_ns || self.entries() <= FEW_ENTRIES;
        let by_index = has_ranges && iterator.map_or_else(is_cheaper, |wanted| wanted == IteratorKind::Index);
        Ok(PoolChoice { by_index, block_ns, index_ns })
    }
}

/// The prefixes of the keys whose first column passes the predicates.
fn ranges(predicates: &[ColumnPredicate], key: usize, kind: Kind) -> Option<Vec<(u64, u64)>> {
    let of_predicate = |predicate: &ColumnPredicate| {
        let (low, high) = key_prefixes(&predicate.predicate, kind)?;
        let few = asked(&predicate.predicate).filter(|values| values.len() <= KEYS);
        let Some(values) = few else { return Some(vec![(low, high)]) };
        let mut ranges: Vec<(u64, u64)> =
            values.iter().filter_map(|value| value.prefix(kind)).map(|prefix| (prefix, prefix)).collect();
        ranges.sort_unstable();
        ranges.dedup();
        Some(ranges)
    };
    let on_key = predicates.iter().filter(|predicate| predicate.column == key);
    // One predicate is enough; all are tested later. Several bounds of a range are one predicate.
    on_key.filter_map(of_predicate).min_by_key(|ranges| {
        let widths = ranges.iter().map(|(low, high)| u128::from(high.saturating_sub(*low)) + 1);
        widths.sum::<u128>()
    })
}
