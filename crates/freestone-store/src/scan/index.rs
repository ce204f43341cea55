//! Index matches: the rows that an ordered index finds, for scans that select few rows.

use std::ops::Range;
use std::sync::Arc;

use freestone_codec::{Kind, Predicate, Rows, Scratch};

use super::pool::key_asked;
use super::pruning::{is_ruled_out_whole, leaves};
use super::{ColumnPredicate, IteratorKind, ScanMetrics, ScanRequest, Wanted};
use crate::bitmap;
use crate::cache::PageCache;
use crate::column::{ColumnBuffer, Decoded};
use crate::error::{Result, StoreError};
use crate::limits::{INDEX_MATCH_ROWS, INDEX_STRING_MATCH_ROWS, INDEX_TEST_ROWS};
use crate::schema::kind;
use crate::segment::zones::Verdict;
use crate::segment::{Asked, CachedPage, HotKeys, Segment, SegmentIndex, asked};
use crate::table::Table;

/// From this number of rows on, they are sorted through a bitmap of all rows of the segment.
const BITMAP_ROWS: usize = 4096;

/// With fewer hot rows, all are tested.
const HOT_KEY_ROWS: usize = 64;
/// The maximum number of keys for which hot rows are searched.
const HOT_KEYS: usize = 256;

/// Rows that satisfy some predicates of a scan, found by an index.
#[derive(Debug, PartialEq)]
pub struct IndexMatches {
    /// Ascending.
    rows: Vec<u32>,
    /// The predicates that they satisfy, by position among those given to the index.
    pub(super) passed: Vec<usize>,
}

impl IndexMatches {
    /// Rows, ascending, that may satisfy predicates.
    pub(super) fn of_rows(rows: Vec<u32>) -> Self {
        IndexMatches { rows, passed: vec![] }
    }

    #[cfg(test)]
    pub(super) fn new(rows: Vec<u32>, passed: Vec<usize>) -> Self {
        IndexMatches { rows, passed }
    }

    /// The matches among the `len` rows from `start`, as bits.
    pub(super) fn bits(&self, start: usize, len: usize) -> Vec<u64> {
        let mut bits = vec![0; bitmap::words(len)];
        self.within(start..start + len).iter().for_each(|row| bitmap::set(&mut bits, *row as usize - start));
        bits
    }

    /// The matches in the range `rows`.
    pub(super) fn within(&self, rows: Range<usize>) -> &[u32] {
        let place = |row: usize| self.rows.partition_point(|named| (*named as usize) < row);
        &self.rows[place(rows.start)..place(rows.end)]
    }
}

/// An index that may be used for a scan.
pub(super) struct Candidate<'a> {
    index: &'a SegmentIndex,
    entries: Arc<Segment>,
    /// For each predicate that it answers: its position, and the column among the columns of the entries.
    tests: Vec<(usize, usize)>,
    /// The zones of entries that remain, and the number of their entries.
    zones: Vec<usize>,
    pub(super) left: usize,
}

impl Candidate<'_> {
    /// The bytes of the index that a search reads.
    pub(super) fn bytes(&self) -> f64 {
        self.index.bytes() as f64 * self.left as f64 / self.entries.rows().max(1) as f64
    }

    /// The cost of a search, in rows that a scan of `segment` tests in the same time.
    fn cost(&self, segment: &Segment, predicates: &[ColumnPredicate]) -> usize {
        let is_expensive = |(at, _): &(usize, usize)| {
            let column = predicates[*at].column;
            let data_type = segment.footer.description.schema.stored_type(column);
            kind(data_type) == Kind::Bytes && segment.dictionary(column).is_none()
        };
        let named = if self.tests.iter().any(is_expensive) { INDEX_STRING_MATCH_ROWS } else { INDEX_MATCH_ROWS };
        let ranges = self.zones.chunk_by(|a, b| a + 1 == *b).count();
        let ends = self.left.min(2 * ranges * self.entries.zone_rows());
        ends * INDEX_TEST_ROWS + (self.left - ends) * named
    }

    /// Whether the index answers the predicate at a position.
    pub(super) fn answers(&self, place: usize) -> bool {
        self.tests.iter().any(|(test, _)| *test == place)
    }
}

/// The rows that an index of the segment finds for some predicates, if its use is worthwhile. `leaves` says whether
/// zone pruning leaves at least a given number of rows.
pub(super) fn index_matches(
    table: &Table,
    segment: &Segment,
    (predicates, iterator): Wanted<'_>,
    leaves: impl FnOnce(usize) -> bool,
    metrics: &ScanMetrics,
) -> Result<Option<IndexMatches>> {
    if predicates.is_empty() || iterator == Some(IteratorKind::Block) {
        return Ok(None);
    }
    if let Some(keys) = segment.hot_keys() {
        return hot_matches(table, segment, keys, predicates);
    }
    if segment.indexes().is_empty() {
        return Ok(None);
    }
    let candidate = candidate(segment, (predicates, iterator), leaves)?;
    candidate.map(|found| look_up(&found, predicates, table.cache(), metrics)).transpose()
}

/// The hot rows that have one of a few keys, if the predicates ask for keys of the table.
fn hot_matches(
    table: &Table,
    segment: &Segment,
    keys: &HotKeys,
    predicates: &[ColumnPredicate],
) -> Result<Option<IndexMatches>> {
    if segment.rows() < HOT_KEY_ROWS {
        return Ok(None);
    }
    let schema = &table.schema;
    let unique = schema.unique_keys.iter().map(|key| &key.columns);
    for names in unique.chain(schema.foreign_keys.iter().map(|key| &key.columns)) {
        let columns = schema.positions(names)?;
        if let Some(wanted) = wanted_keys(&columns, predicates) {
            let rows = segment.hot_rows(keys, &columns, &wanted);
            let rows = rows.map_err(|reason| StoreError::Corrupt { file: segment.name().to_owned(), reason })?;
            return Ok(Some(IndexMatches { rows, passed: vec![] }));
        }
    }
    Ok(None)
}

/// The keys for which the predicates ask, if they are few: all combinations of the values of the columns.
fn wanted_keys<'p>(columns: &[usize], predicates: &'p [ColumnPredicate]) -> Option<Vec<Vec<Asked<'p>>>> {
    let mut keys: Vec<Vec<Asked<'_>>> = vec![vec![]];
    for column in columns {
        let values = predicates.iter().filter(|p| p.column == *column).find_map(|p| asked(&p.predicate))?;
        if keys.len() * values.len() > HOT_KEYS {
            return None;
        }
        let longer = |key: &Vec<Asked<'p>>| {
            let key = key.clone();
            values.iter().map(move |value| [key.as_slice(), &[*value]].concat()).collect::<Vec<_>>()
        };
        keys = keys.iter().flat_map(longer).collect();
    }
    Some(keys)
}

/// The index of a segment that leaves the fewest entries, if these are few in comparison with the rows that zone
/// pruning leaves.
pub(super) fn candidate<'a>(
    segment: &'a Segment,
    (predicates, iterator): Wanted<'_>,
    leaves: impl FnOnce(usize) -> bool,
) -> Result<Option<Candidate<'a>>> {
    let mut best: Option<Candidate<'_>> = None;
    for index in segment.indexes() {
        if let Some(found) = tested(segment, index, predicates)?
            && best.as_ref().is_none_or(|best| found.left < best.left)
        {
            best = Some(found);
        }
    }
    Ok(match iterator {
        None => best.filter(|best| leaves(best.cost(segment, predicates))),
        Some(IteratorKind::Index) => best,
        Some(IteratorKind::Block) => None,
    })
}

/// The key of the index that a scan will use, as positions of its columns in the table, pruned by the first segment
/// with indexes that is not pruned.
///
/// # Errors
/// A footer or an index cannot be read.
pub fn index_asked(table: &Table, request: &ScanRequest) -> Result<Option<Vec<usize>>> {
    if request.predicates.is_empty() {
        return Ok(None);
    }
    if let Some(column) = key_asked(table, request)? {
        return Ok(Some(vec![column]));
    }
    for at in 0..table.segments.len() {
        let segment = table.open_segment(at)?;
        if !segment.indexes().is_empty() && !is_ruled_out_whole(&segment, request) {
            let found = candidate(&segment, request.wanted(), |least| leaves(&segment, request, least))?;
            return Ok(found.map(|found| found.index.columns().to_vec()));
        }
    }
    Ok(None)
}

/// What zone pruning leaves of an index. `None` if no predicate is on the first column of its key.
fn tested<'a>(
    segment: &Segment,
    index: &'a SegmentIndex,
    predicates: &[ColumnPredicate],
) -> Result<Option<Candidate<'a>>> {
    let asked = |column: &usize| predicates.iter().any(|p| p.column == *column);
    if !index.columns().first().is_some_and(asked) {
        return Ok(None);
    }
    let entries = index.entries(segment)?;
    let place = |p: &ColumnPredicate| index.columns().iter().position(|c| *c == p.column);
    let tests: Vec<(usize, usize)> =
        predicates.iter().enumerate().filter_map(|(at, p)| Some((at, place(p)?))).collect();
    let (mut zones, mut left) = (vec![], 0);
    for zone in 0..entries.rows().div_ceil(entries.zone_rows()) {
        let rows = entries.zone_rows().min(entries.rows() - zone * entries.zone_rows());
        let rules_out =
            |(at, column): &(usize, usize)| entries.verdict(zone, *column, &predicates[*at].predicate) == Verdict::None;
        if !tests.iter().any(rules_out) {
            zones.push(zone);
            left += rows;
        }
    }
    Ok(Some(Candidate { index, entries, tests, zones, left }))
}

/// The rows that an index finds.
fn look_up(
    candidate: &Candidate<'_>,
    predicates: &[ColumnPredicate],
    cache: &PageCache<CachedPage>,
    metrics: &ScanMetrics,
) -> Result<IndexMatches> {
    let entries = &candidate.entries;
    let zone_rows = entries.zone_rows();
    let ranges = candidate.zones.chunk_by(|a, b| a + 1 == *b);
    let ranges: Vec<_> = ranges
        .map(|zones| zones[0] * zone_rows..((zones[zones.len() - 1] + 1) * zone_rows).min(entries.rows()))
        .collect();
    let runs = ranges.iter().map(|range| entries.pages_of(0, range.clone()));
    let mut pages: Vec<usize> = runs.flat_map(|run| run.first..=run.last).collect();
    pages.dedup();
    let mut found = vec![];
    for (page, pinned) in pages.iter().zip(pin_pages(entries, &pages, cache, metrics)?) {
        let on_page = entries.page_rows(0, *page);
        for range in &ranges {
            let (start, end) = (range.start.max(on_page.start), range.end.min(on_page.end));
            if start < end {
                let tests = candidate.tests.iter().map(|(at, column)| (*column, &predicates[*at].predicate));
                let rows = rows_of(entries, *page, &pinned, (start - on_page.start, end - start), tests);
                found.extend(rows.map_err(|reason| entries.page_error(0, *page, reason))?);
            }
        }
    }
    ScanMetrics::add(&metrics.index_segments, 1);
    ScanMetrics::add(&metrics.index_rows, found.len());
    Ok(IndexMatches {
        rows: ascending(found, entries.rows()),
        passed: candidate.tests.iter().map(|(at, _)| *at).collect(),
    })
}

/// Sorts rows of a segment of `all` rows, and removes duplicates.
fn ascending(mut rows: Vec<u32>, all: usize) -> Vec<u32> {
    if rows.len() < BITMAP_ROWS {
        rows.sort_unstable();
        return rows;
    }
    let mut bits = vec![0; bitmap::words(all)];
    rows.iter().for_each(|row| bitmap::set(&mut bits, *row as usize));
    rows.clear();
    bitmap::positions(&bits, 0, &mut rows);
    rows
}

fn pin_pages(
    entries: &Segment,
    pages: &[usize],
    cache: &PageCache<CachedPage>,
    metrics: &ScanMetrics,
) -> Result<Vec<Arc<CachedPage>>> {
    let mut pinned: Vec<Option<Arc<CachedPage>>> = pages.iter().map(|page| entries.cached(cache, 0, *page)).collect();
    let missing: Vec<usize> = (0..pages.len()).filter(|at| pinned[*at].is_none()).collect();
    ScanMetrics::add(&metrics.index_pages, pages.len());
    let pending = entries.start(&missing.iter().map(|at| (0, pages[*at])).collect::<Vec<_>>());
    for (at, bytes) in missing.into_iter().zip(pending.wait()) {
        let bytes = bytes?;
        ScanMetrics::add(&metrics.pages_read, 1);
        ScanMetrics::add(&metrics.bytes_read, bytes.len());
        pinned[at] = Some(entries.admit(cache, (0, pages[at]), bytes)?);
    }
    Ok(pinned.into_iter().flatten().collect())
}

/// The rows of entries `start`, …, `start + len - 1` of a page that satisfy the tests.
fn rows_of<'a>(
    entries: &Segment,
    page: usize,
    pinned: &CachedPage,
    (start, len): (usize, usize),
    tests: impl Iterator<Item = (usize, &'a Predicate)>,
) -> Result<Vec<u32>, String> {
    let view = entries.view(0, pinned);
    let mut scratch = Scratch::default();
    let mut selection = bitmap::ones(len);
    for (column, predicate) in tests {
        let (_, place) = entries.place(column);
        view.filter(place, predicate, start, len, &mut selection, &mut scratch)?;
    }
    let mut passing = vec![];
    bitmap::positions(&selection, start as u32, &mut passing);
    let columns = &entries.footer.description.schema.columns;
    let row = columns.len() - 1;
    let mut buffers = [ColumnBuffer::new(&columns[row].data_type)];
    view.decode(&[(0, entries.place(row).1)], Rows::Positions(&passing), &mut buffers, &mut scratch)?;
    let [buffer] = buffers;
    let Decoded::U32(rows) = buffer.decoded else { return Err("its rows are not numbers".into()) };
    match rows.iter().find(|row| **row as usize >= entries.rows()) {
        Some(row) => Err(format!("page {page} of the index names row {row} of {}", entries.rows())),
        None => Ok(rows),
    }
}
