//! What zones say about a scan's predicates, before any page is looked at.

use std::ops::Range;

use super::units::{GRANULE_ROWS, Unit};
use super::{ColumnPredicate, NamedRows, ScanRequest};
use crate::bitmap;
use crate::cluster::CodeFilter;
use crate::segment::Segment;
use crate::segment::zones::Verdict;

/// A granule while it is scanned.
pub(super) struct Granule<'a> {
    pub(super) segment: &'a Segment,
    /// Position of the segment in the table.
    pub(super) ordinal: usize,
    pub(super) start: usize,
    pub(super) len: usize,
    /// The only rows to look at, where an index named them.
    pub(super) named: Option<&'a NamedRows>,
}

impl<'a> Granule<'a> {
    /// The granules of a unit.
    pub(super) fn of(segment: &'a Segment, unit: &'a Unit) -> impl Iterator<Item = Granule<'a>> {
        let end = (unit.rows.end as usize).min(segment.rows());
        (unit.rows.start as usize..end).step_by(GRANULE_ROWS).map(move |start| Granule {
            segment,
            ordinal: unit.segment,
            start,
            len: GRANULE_ROWS.min(end - start),
            named: unit.named.as_deref(),
        })
    }
}

/// What the zones of a granule say about some predicates.
pub(super) struct Judged {
    /// Rows of zones that are not ruled out.
    pub(super) selection: Vec<u64>,
    /// Predicates that some zone leaves open.
    pub(super) open: Vec<usize>,
    /// For each zone, whether it is ruled out.
    pub(super) pruned: Vec<bool>,
    /// For each zone, whether all its rows pass.
    pub(super) whole: Vec<bool>,
}

impl Judged {
    /// Leaves only rows that an index named, which pass what it answered.
    pub(super) fn narrow(&mut self, granule: &Granule<'_>, named: &NamedRows) {
        let rows = named.bits(granule.start, granule.len);
        self.selection.iter_mut().zip(&rows).for_each(|(word, named)| *word &= named);
        self.open.retain(|at| !named.passed.contains(at));
        let zones = self.selection.chunks(granule.segment.zone_rows() / 64);
        self.pruned = zones.map(|words| words.iter().all(|word| *word == 0)).collect();
    }
}

/// What zones, and the rows that an index named, say about all that a scan asks for.
pub(super) fn judge_all(granule: &Granule<'_>, request: &ScanRequest) -> Judged {
    let Some(named) = granule.named else { return judge(granule, &request.predicates, &request.codes) };
    if named.within(granule.start..granule.start + granule.len).is_empty() {
        let zones = granule.len.div_ceil(granule.segment.zone_rows());
        let selection = vec![0; bitmap::words(granule.len)];
        return Judged { selection, open: vec![], pruned: vec![true; zones], whole: vec![false; zones] };
    }
    let mut judged = judge(granule, &request.predicates, &request.codes);
    judged.narrow(granule, named);
    judged
}

pub(super) fn judge(granule: &Granule<'_>, predicates: &[ColumnPredicate], codes: &[CodeFilter]) -> Judged {
    let mut judged = Judged { selection: bitmap::ones(granule.len), open: vec![], pruned: vec![], whole: vec![] };
    let mut verdicts = Vec::with_capacity(predicates.len());
    let end = granule.start + granule.len;
    for (zone, rows) in zones(granule.segment, granule.start..end) {
        verdicts.clear();
        verdicts.extend(predicates.iter().map(|p| verdict(granule.segment, zone, p)));
        let pruned = verdicts.contains(&Verdict::None) || codes.iter().any(|c| outside(granule.segment, zone, c));
        judged.pruned.push(pruned);
        judged.whole.push(verdicts.iter().all(|verdict| *verdict == Verdict::All));
        if pruned {
            // Granules and zones start at whole words, and a zone that does not end at one ends the granule.
            let (from, to) = (rows.start - granule.start, rows.end - granule.start);
            judged.selection[from / 64..to.div_ceil(64)].fill(0);
            continue;
        }
        for (at, verdict) in verdicts.iter().enumerate() {
            if *verdict == Verdict::Some && !judged.open.contains(&at) {
                judged.open.push(at);
            }
        }
    }
    judged
}

/// The zones that rows are in, each with those of its rows that are among them.
fn zones(segment: &Segment, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let zone_rows = segment.zone_rows();
    (rows.start / zone_rows..rows.end.div_ceil(zone_rows))
        .map(move |zone| (zone, (zone * zone_rows).max(rows.start)..((zone + 1) * zone_rows).min(rows.end)))
}

fn verdict(segment: &Segment, zone: usize, p: &ColumnPredicate) -> Verdict {
    let zone_rows = segment.zone_rows();
    let rows = zone_rows.min(segment.rows() - zone * zone_rows);
    segment.footer.zones[p.column].verdict(zone, rows, &p.predicate)
}

/// Whether a zone holds no row with the codes asked for. Codes of another numbering than the segment's say nothing of it.
fn outside(segment: &Segment, zone: usize, filter: &CodeFilter) -> bool {
    let own = segment.footer.dimensions.iter().find(|d| d.fingerprint == filter.fingerprint);
    own.is_some_and(|dimension| filter.verdict(dimension, zone) == Verdict::None)
}

/// Whether the aggregates of a zone say that no row of it qualifies.
fn is_ruled_out(segment: &Segment, zone: usize, request: &ScanRequest) -> bool {
    request.predicates.iter().any(|p| verdict(segment, zone, p) == Verdict::None)
        || request.codes.iter().any(|filter| outside(segment, zone, filter))
}

/// Whether the aggregates of a whole segment say so.
fn is_ruled_out_whole(segment: &Segment, request: &ScanRequest) -> bool {
    request.predicates.iter().any(|p| segment.footer.zones[p.column].excludes(&p.predicate))
}

/// Whether the zones of a unit, and what an index named, leave any row.
pub(super) fn survives(segment: &Segment, unit: &Unit, request: &ScanRequest) -> bool {
    if request.predicates.is_empty() && request.codes.is_empty() {
        return true;
    }
    if is_ruled_out_whole(segment, request) {
        return false;
    }
    let rows = unit.rows.start as usize..(unit.rows.end as usize).min(segment.rows());
    match &unit.named {
        None => zones(segment, rows).any(|(zone, _)| !is_ruled_out(segment, zone, request)),
        Some(named) => {
            let zone_of = |row: &u32| *row as usize / segment.zone_rows();
            let mut zones = named.within(rows).chunk_by(|a, b| zone_of(a) == zone_of(b));
            zones.any(|rows| !is_ruled_out(segment, zone_of(&rows[0]), request))
        }
    }
}

/// Rows that the zones of a segment leave, zone by zone, in every `step`-th granule.
fn left<'a>(
    segment: &'a Segment,
    request: &'a ScanRequest,
    step: usize,
) -> impl Iterator<Item = (Range<usize>, bool)> + 'a {
    let end = if is_ruled_out_whole(segment, request) { 0 } else { segment.rows() };
    (0..end)
        .step_by(GRANULE_ROWS * step)
        .flat_map(move |start| zones(segment, start..(start + GRANULE_ROWS).min(end)))
        .map(|(zone, rows)| (rows, !is_ruled_out(segment, zone, request)))
}

/// Rows of a segment that its zones leave: as every `step`-th granule says.
pub(super) fn rows_left(segment: &Segment, request: &ScanRequest, step: usize) -> f64 {
    let (mut seen, mut kept) = (0, 0);
    for (rows, is_left) in left(segment, request, step) {
        seen += rows.len();
        kept += if is_left { rows.len() } else { 0 };
    }
    segment.rows() as f64 * kept as f64 / seen.max(1) as f64
}

/// Whether the zones of a segment leave at least so many rows.
pub(super) fn leaves(segment: &Segment, request: &ScanRequest, least: usize) -> bool {
    let mut kept = 0;
    least <= segment.rows()
        && left(segment, request, 1).any(|(rows, is_left)| {
            kept += if is_left { rows.len() } else { 0 };
            kept >= least
        })
}
