//! Zone pruning: what the aggregates of zones say about a scan's predicates, before any page is read.

use std::ops::Range;

use super::morsels::Morsel;
use super::{ColumnPredicate, IndexMatches, ScanRequest};
use crate::bitmap;
use crate::limits::GRANULE_ROWS;
use crate::segment::zones::Verdict;
use crate::segment::{CodeFilter, Segment, SegmentSummary};
use crate::table::Table;

/// A granule during a scan.
pub(super) struct Granule<'a> {
    pub(super) segment: &'a Segment,
    /// The position of the segment in the table.
    pub(super) ordinal: usize,
    pub(super) start: usize,
    pub(super) len: usize,
    /// Index matches: if set, only these rows are tested.
    pub(super) named: Option<&'a IndexMatches>,
}

impl<'a> Granule<'a> {
    /// The granules of a morsel.
    pub(super) fn of(segment: &'a Segment, morsel: &'a Morsel) -> impl Iterator<Item = Granule<'a>> {
        let end = (morsel.rows.end as usize).min(segment.rows());
        (morsel.rows.start as usize..end).step_by(GRANULE_ROWS).map(move |start| Granule {
            segment,
            ordinal: morsel.segment,
            start,
            len: GRANULE_ROWS.min(end - start),
            named: morsel.named.as_deref(),
        })
    }
}

/// The pruning result of a granule for some predicates.
#[derive(Debug)]
pub(super) struct ZonePruning {
    /// The rows of zones that are not pruned.
    pub(super) selection: Vec<u64>,
    /// Predicates that at least one zone leaves open.
    pub(super) open: Vec<usize>,
    /// For each zone, whether it is pruned.
    pub(super) pruned: Vec<bool>,
    /// For each zone, whether its aggregates prove that all its rows satisfy the predicates. Arbitrary for pruned
    /// zones.
    pub(super) whole: Vec<bool>,
}

impl ZonePruning {
    /// Deselects rows that are no index matches, and closes the predicates that the index answered.
    pub(super) fn narrow(&mut self, granule: &Granule<'_>, named: &IndexMatches) {
        let rows = named.bits(granule.start, granule.len);
        self.selection.iter_mut().zip(&rows).for_each(|(word, named)| *word &= named);
        self.open.retain(|at| !named.passed.contains(at));
        let zones = self.selection.chunks(granule.segment.zone_rows() / 64);
        self.pruned = zones.map(|words| words.iter().all(|word| *word == 0)).collect();
    }
}

/// The pruning result for a request, from zones and index matches.
pub(super) fn prune_all(granule: &Granule<'_>, request: &ScanRequest) -> ZonePruning {
    let Some(named) = granule.named else { return prune(granule, &request.predicates, &request.codes) };
    if named.within(granule.start..granule.start + granule.len).is_empty() {
        let zones = granule.len.div_ceil(granule.segment.zone_rows());
        let selection = vec![0; bitmap::words(granule.len)];
        return ZonePruning { selection, open: vec![], pruned: vec![true; zones], whole: vec![false; zones] };
    }
    let mut pruning = prune(granule, &request.predicates, &request.codes);
    pruning.narrow(granule, named);
    pruning
}

pub(super) fn prune(granule: &Granule<'_>, predicates: &[ColumnPredicate], codes: &[CodeFilter]) -> ZonePruning {
    let mut pruning = ZonePruning { selection: bitmap::ones(granule.len), open: vec![], pruned: vec![], whole: vec![] };
    let mut verdicts = Vec::with_capacity(predicates.len());
    let end = granule.start + granule.len;
    for (zone, rows) in zones(granule.segment, granule.start..end) {
        verdicts.clear();
        verdicts.extend(predicates.iter().map(|p| granule.segment.verdict(zone, p.column, &p.predicate)));
        let pruned = verdicts.contains(&Verdict::None) || codes.iter().any(|c| outside(granule.segment, zone, c));
        pruning.pruned.push(pruned);
        pruning.whole.push(verdicts.iter().all(|verdict| *verdict == Verdict::All));
        if pruned {
            // Granules and zones start at word boundaries. A zone that does not end at one is the last of the granule.
            let (from, to) = (rows.start - granule.start, rows.end - granule.start);
            bitmap::clear_words(&mut pruning.selection, from, to);
            continue;
        }
        for (at, verdict) in verdicts.iter().enumerate() {
            if *verdict == Verdict::Some && !pruning.open.contains(&at) {
                pruning.open.push(at);
            }
        }
    }
    pruning
}

/// The zones that overlap `rows`, each with the overlapping rows.
fn zones(segment: &Segment, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let zone_rows = segment.zone_rows();
    (rows.start / zone_rows..rows.end.div_ceil(zone_rows))
        .map(move |zone| (zone, (zone * zone_rows).max(rows.start)..((zone + 1) * zone_rows).min(rows.end)))
}

/// Whether a zone contains no row with the requested codes. Codes of another numbering than the segment's prune
/// nothing.
fn outside(segment: &Segment, zone: usize, filter: &CodeFilter) -> bool {
    let own = segment.footer.dimensions.iter().find(|d| d.fingerprint == filter.fingerprint);
    own.is_some_and(|dimension| filter.verdict(dimension, zone) == Verdict::None)
}

/// Whether the aggregates of a zone prove that no row of it qualifies.
fn is_ruled_out(segment: &Segment, zone: usize, request: &ScanRequest) -> bool {
    request.predicates.iter().any(|p| segment.verdict(zone, p.column, &p.predicate) == Verdict::None)
        || request.codes.iter().any(|filter| outside(segment, zone, filter))
}

/// Whether the minimum and maximum of a whole segment prove that no row qualifies.
pub(super) fn is_ruled_out_whole(segment: &Segment, request: &ScanRequest) -> bool {
    request.predicates.iter().any(|p| segment.footer.zones[p.column].excludes(&p.predicate))
}

/// What the commit says of a segment, if that proves that no row qualifies. Then its footer need not be read.
pub(super) fn ruled_out_unread<'a>(table: &'a Table, at: usize, request: &ScanRequest) -> Option<&'a SegmentSummary> {
    let entry = &table.segments[at];
    let excludes = |p: &ColumnPredicate| {
        table.column_summary(at, p.column).is_some_and(|column| column.excludes(entry.rows, &p.predicate))
    };
    entry.summary().filter(|_| request.predicates.iter().any(excludes)).map(AsRef::as_ref)
}

/// Whether zone pruning and index matches leave any row of a morsel.
pub(super) fn survives(segment: &Segment, morsel: &Morsel, request: &ScanRequest) -> bool {
    if request.predicates.is_empty() && request.codes.is_empty() {
        return true;
    }
    let rows = morsel.rows.start as usize..(morsel.rows.end as usize).min(segment.rows());
    match &morsel.named {
        None => zones(segment, rows).any(|(zone, _)| !is_ruled_out(segment, zone, request)),
        Some(named) => {
            let zone_of = |row: &u32| *row as usize / segment.zone_rows();
            let mut zones = named.within(rows).chunk_by(|a, b| zone_of(a) == zone_of(b));
            zones.any(|rows| !is_ruled_out(segment, zone_of(&rows[0]), request))
        }
    }
}

/// The rows that zone pruning leaves of a segment, by zone, in every `step`-th granule.
fn left<'a>(
    segment: &'a Segment,
    request: &'a ScanRequest,
    step: usize,
) -> impl Iterator<Item = (Range<usize>, bool)> + 'a {
    let end = segment.rows();
    (0..end)
        .step_by(GRANULE_ROWS * step)
        .flat_map(move |start| zones(segment, start..(start + GRANULE_ROWS).min(end)))
        .map(|(zone, rows)| (rows, !is_ruled_out(segment, zone, request)))
}

/// The number of rows that zone pruning leaves of a segment, extrapolated from every `step`-th granule.
pub(super) fn rows_left(segment: &Segment, request: &ScanRequest, step: usize) -> f64 {
    if request.predicates.is_empty() && request.codes.is_empty() {
        return segment.rows() as f64;
    }
    if is_ruled_out_whole(segment, request) {
        return 0.0;
    }
    let (mut seen, mut kept) = (0, 0);
    for (rows, is_left) in left(segment, request, step) {
        seen += rows.len();
        kept += if is_left { rows.len() } else { 0 };
    }
    segment.rows() as f64 * kept as f64 / seen.max(1) as f64
}

/// Whether zone pruning leaves at least `least` rows of a segment.
pub(super) fn leaves(segment: &Segment, request: &ScanRequest, least: usize) -> bool {
    let kept = left(segment, request, 1).filter(|(_, is_left)| *is_left).map(|(rows, _)| rows.len());
    reaches(kept, least, segment.rows())
}

/// Whether counts of rows add up to at least `least`, in a segment of `rows` rows. Consumes only as many counts as it
/// needs.
pub(super) fn reaches(mut counts: impl Iterator<Item = usize>, least: usize, rows: usize) -> bool {
    let mut sum = 0;
    let reached = |count| {
        sum += count;
        sum >= least
    };
    least == 0 || least <= rows && counts.any(reached)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use freestone_codec::{IntPredicate, Predicate};

    use super::*;
    use crate::design::Design;
    use crate::schema::TableSchema;
    use crate::store::{Store, StoreOptions};
    use crate::table::Table;

    const ROWS: usize = 3 * GRANULE_ROWS + 5000;

    /// A column that mostly ascends, with occasional steps back, and a column of a few values with NULLs.
    fn table() -> Arc<Table> {
        let rising = Int64Array::from_iter_values((0..ROWS as i64).map(|row| row + row % 7 * 300));
        let few = Int64Array::from_iter((0..ROWS as i64).map(|row| (row % 3 > 0).then_some(row / 9000 * 10)));
        let columns = [("rising", Arc::new(rising) as ArrayRef), ("few", Arc::new(few) as ArrayRef)];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
        let batch = batch.expect("columns of the same length");
        let schema = TableSchema::from_arrow(&batch.schema()).expect("a schema");
        let store = Store::in_memory(StoreOptions::default()).expect("a store");
        let mut write = store.write().expect("a transaction");
        write.create_table("t", schema, Design::default()).expect("a table");
        let mut appender = write.appender("t").expect("an appender");
        appender.push(&batch).expect("rows");
        write.append(appender.finish().expect("rows")).expect("rows");
        write.commit().expect("a commit");
        store.snapshot().expect("a snapshot").table("t").expect("it was made").clone()
    }

    fn request(tests: &[(usize, i128, i128)]) -> ScanRequest {
        let predicate = |&(column, low, high): &(usize, i128, i128)| ColumnPredicate {
            column,
            predicate: Predicate::Int(IntPredicate::Range { low, high }),
        };
        ScanRequest { predicates: tests.iter().map(predicate).collect(), ..ScanRequest::columns(vec![]) }
    }

    #[test]
    fn all_looks_at_zones_agree() {
        let table = table();
        let segment = table.open_segment(0).expect("a segment");
        let all = Morsel::new(0, 0..ROWS as u32);
        let cases: [&[(usize, i128, i128)]; 7] = [
            &[],
            &[(0, 9000, 9100)],
            &[(0, ROWS as i128 - 10, i128::MAX)],
            &[(0, -10, -1)],
            &[(0, 10, 20_000), (1, 10, 10)],
            &[(1, 5, 6)],
            &[(1, 40, 90), (0, 0, i128::MAX)],
        ];
        for tests in cases {
            let request = request(tests);
            let selected = |morsel: &Morsel| -> usize {
                let pruning = Granule::of(&segment, morsel).map(|granule| prune_all(&granule, &request));
                pruning.map(|pruning| bitmap::count(&pruning.selection)).sum()
            };
            let left = selected(&all);
            assert_eq!(rows_left(&segment, &request, 1), left as f64, "{tests:?}");
            for least in [0, 1, left, left + 1, ROWS, ROWS + 1] {
                assert_eq!(leaves(&segment, &request, least), least <= left, "{tests:?}: {least} of {left}");
            }
            assert!(!is_ruled_out_whole(&segment, &request) || left == 0, "{tests:?}");
            for start in (0..ROWS).step_by(GRANULE_ROWS) {
                let rows = start as u32..(start + GRANULE_ROWS).min(ROWS) as u32;
                let named = |rows: &[u32]| Some(Arc::new(IndexMatches::new(rows.to_vec(), vec![])));
                let ends = [rows.start, rows.end - 1];
                for named in [None, named(&[]), named(&ends), named(&[rows.start + 2047, rows.start + 2048])] {
                    let morsel = Morsel { named, ..Morsel::new(0, rows.clone()) };
                    let has_tests = !request.predicates.is_empty();
                    let expected = selected(&morsel) > 0 || !has_tests;
                    assert_eq!(survives(&segment, &morsel, &request), expected, "{tests:?}: {morsel:?}");
                }
            }
        }
    }

    #[test]
    fn sums_stop_where_they_are_enough() {
        let mut taken = 0;
        let counts = (0..100).map(|_| 10).inspect(|_| taken += 1);
        assert!(reaches(counts, 25, 1000) && taken == 3, "{taken}");
        assert!(reaches([].into_iter(), 0, 1000) && !reaches([5].into_iter(), 6, 1000));
        assert!(!reaches([2000].into_iter(), 1001, 1000), "more than there are");
    }
}
