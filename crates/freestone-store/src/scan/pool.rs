//! Lookups by key of rows in persistent memory: the tree of their table finds them, and no other block is looked at.

use std::collections::HashMap;
use std::sync::Arc;

use freestone_codec::Kind;

use super::ColumnPredicate;
use crate::error::{Result, StoreError};
use crate::schema::kind;
use crate::segment::{Asked, SharedBlocks, asked};
use crate::table::Table;

/// The keys that are looked up, at most. For more, blocks are scanned.
const KEYS: usize = 256;

/// Rows by the position of their segment.
pub type PoolMatches = HashMap<usize, Vec<u32>>;

/// The rows in persistent memory that may satisfy the predicates, ascending. `None` if these ask for no key, or for many.
///
/// # Errors
/// Something is damaged.
pub(super) fn pool_matches(table: &Table, predicates: &[ColumnPredicate]) -> Result<Option<PoolMatches>> {
    if predicates.is_empty() {
        return Ok(None);
    }
    let mut segments: HashMap<u64, usize> = HashMap::new();
    let mut tables: HashMap<u64, &Arc<SharedBlocks>> = HashMap::new();
    for (at, entry) in table.segments.iter().enumerate() {
        if let Some(blocks) = &entry.blocks {
            segments.insert(entry.id, at);
            tables.insert(blocks.shared().table().id(), blocks.shared());
        }
    }
    let mut found = vec![];
    for shared in tables.values() {
        let Some(prefixes) = prefixes(table, shared, predicates)? else { return Ok(None) };
        prefixes.into_iter().try_for_each(|prefix| shared.candidates(prefix, &mut found))?;
    }
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
    Ok((!tables.is_empty()).then_some(matches))
}

/// The prefixes of the keys for which the predicates ask.
fn prefixes(table: &Table, shared: &SharedBlocks, predicates: &[ColumnPredicate]) -> Result<Option<Vec<u64>>> {
    let of_pool = shared.table();
    let Some(key) = of_pool.key().first() else { return Ok(None) };
    let wrong = |reason| StoreError::Corrupt { file: of_pool.pool().region().place(), reason };
    let places = table.schema.places_in(of_pool.schema()).map_err(wrong)?;
    let Some(column) = places.iter().position(|place| *place == Some(*key)) else { return Ok(None) };
    let (stored, now) = (&of_pool.schema().columns[*key].data_type, &table.schema.columns[column].data_type);
    let kind = kind(stored);
    if stored != now && kind != Kind::Int {
        return Ok(None);
    }
    let on_key = predicates.iter().filter(|predicate| predicate.column == column);
    let Some(values) = on_key.filter_map(|predicate| asked(&predicate.predicate)).min_by_key(Vec::len) else {
        return Ok(None);
    };
    if values.len() > KEYS {
        return Ok(None);
    }
    let mut prefixes: Vec<u64> = values.iter().filter_map(|value| prefix(value, kind)).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    Ok(Some(prefixes))
}

/// The order prefix of a value; `None` if no value of the kind is equal.
fn prefix(value: &Asked<'_>, kind: Kind) -> Option<u64> {
    let number = |value: i64| value as u64 ^ 1 << 63;
    match (value, kind) {
        (Asked::Int(value), Kind::Wide) => Some(number((value >> 64) as i64)),
        (Asked::Int(value), _) => i64::try_from(*value).ok().map(number),
        (Asked::Bytes(bytes), _) => {
            let mut prefix = [0; 8];
            let len = bytes.len().min(8);
            prefix[..len].copy_from_slice(&bytes[..len]);
            Some(u64::from_be_bytes(prefix))
        }
    }
}
