//! Ordered indexes in a layout: their size, and the queries for which they are used.

use freestone_store::limits;

use super::geometry::{IndexGeometry, Layout};
use super::prune::Pruned;
use super::wanted::WantedRows;
use super::{GRANULE, MORSEL_ROWS, Parts, ScanModel, ZONE};
use crate::profile::{Family, Form};
use crate::statistics::TableStatistics;
use crate::workload::{PredicateForm, Query, QueryPredicate};

/// The costs by which the store decides whether to use an index, in rows that a scan tests in the same time.
const MATCH_ROWS: f64 = limits::INDEX_MATCH_ROWS as f64;
const STRING_MATCH_ROWS: f64 = limits::INDEX_STRING_MATCH_ROWS as f64;
const TEST_ROWS: f64 = limits::INDEX_TEST_ROWS as f64;
/// The fixed cost of a search in an index, in nanoseconds.
const ASK_NS: f64 = 10_000.0;
/// Nanoseconds for testing an entry and taking its row.
const ENTRY_NS: f64 = 3.0;
/// The bytes at the end of an index that are read before its footer.
const END_BYTES: f64 = 4096.0;
/// The depth of reads when the pages of an index are requested at once.
const DEPTH: f64 = limits::IO_DEPTH as f64;

impl IndexGeometry {
    /// The entries that remain for a query, and the predicates that they answer, by position. `None` if the query does
    /// not test the first column of the key.
    fn named(&self, query: &Query, statistics: &TableStatistics) -> Option<Named> {
        let asked =
            |column: usize| query.predicates.iter().position(|p| p.column == column && p.form != PredicateForm::Other);
        let (mut share, mut runs, mut is_open) = (1.0, 1.0f64, true);
        for place in self.columns.iter().map_while(|column| asked(*column)) {
            let predicate = &query.predicates[place];
            let selectivity = predicate.selectivity.clamp(0.0, 1.0);
            if is_open {
                share *= selectivity;
                let values = selectivity * statistics.columns[predicate.column].distinct;
                runs *= if predicate.form == PredicateForm::In { values.max(1.0) } else { 1.0 };
            }
            // After a range, entries of later columns are in no order.
            is_open &= predicate.form == PredicateForm::Equal;
        }
        asked(*self.columns.first()?)?;
        let is_answered = |p: &QueryPredicate| p.form != PredicateForm::Other && self.columns.contains(&p.column);
        let answered = (0..query.predicates.len()).filter(|at| is_answered(&query.predicates[*at]));
        let segments = (statistics.rows as f64 / statistics.segment_rows()).ceil().max(1.0);
        let rows = statistics.rows as f64;
        let (named, open) = (rows * share, (runs * ZONE * segments).min(rows));
        let pages = ((named + open) / self.page_rows).clamp(segments, (rows / self.page_rows).max(segments));
        Some(Named { named, open, pages, answered: answered.collect() })
    }
}

/// The result of searching an index.
struct Named {
    /// Entries that pass, and those of zones that also have entries that do not.
    named: f64,
    open: f64,
    pages: f64,
    answered: Vec<usize>,
}

impl ScanModel {
    /// Uses the best index for a query, if the store would: of the rows that pruning leaves, only index matches are
    /// tested, and answered predicates are not tested again.
    pub(super) fn name_rows(&self, layout: &Layout, query: &Query, pruned: &mut Pruned, parts: &mut Parts) {
        let rows = self.statistics.rows as f64;
        let named = layout.indexes.iter().filter_map(|index| Some((index, index.named(query, &self.statistics)?)));
        let candidates: Vec<_> = named.collect();
        let engine = &self.profile.engine;
        let uncached = self.uncached(layout, query);
        let disk = self.profile.hardware.disk.as_ref().filter(|_| uncached > 0.0);
        if let Some(disk) = disk {
            // The end of each segment's index points to its footer. Segments that are pruned as a whole are not
            // searched.
            let segments = ((rows / self.statistics.segment_rows()).ceil() * pruned.morsels).ceil().max(1.0);
            let open = |(index, _): &(&IndexGeometry, Named)| {
                disk.read_ns(END_BYTES, 1.0) + disk.read_ns(index.page_bytes, 1.0)
            };
            parts.begin_read_ns += uncached * segments * candidates.iter().map(open).sum::<f64>();
        }
        let best = candidates.into_iter().min_by(|(_, a), (_, b)| (a.named + a.open).total_cmp(&(b.named + b.open)));
        let Some((index, named)) = best else { return };
        // The index's zones are pruned before anything else. Of the segment's zones, only few have to be tested to see
        // that enough rows are left.
        parts.begin_ns += rows / GRANULE * named.answered.len() as f64 * engine.rule_out.value;
        if !self.asks(layout, query, &named, pruned) {
            return;
        }
        let page_ns = engine.page(Form::Chunk).map_or(400.0, |p| p.filter_ns(1.0, 1.0) + p.decode_ns(1.0, 1.0));
        parts.begin_ns += ASK_NS + (named.named + named.open) * ENTRY_NS + named.pages * page_ns;
        if let Some(disk) = disk {
            let read = disk.read_ns(index.page_bytes, 1.0)
                + (named.pages - 1.0).max(0.0) * disk.read_ns(index.page_bytes, named.pages.clamp(1.0, DEPTH));
            parts.begin_read_ns += uncached * read;
            parts.bytes_read += uncached * named.pages * index.page_bytes;
        }
        let runs =
            named.answered.iter().map(|at| self.statistics.run_rows(query.predicates[*at].column, &layout.order));
        let density = named.answered.iter().map(|at| pruned.open[*at].1).product::<f64>();
        pruned.keep(WantedRows { density, run_rows: runs.fold(f64::INFINITY, f64::min).max(1.0) }, named.answered);
    }

    /// Whether the store would use an index.
    fn asks(&self, layout: &Layout, query: &Query, named: &Named, pruned: &Pruned) -> bool {
        let is_expensive = |at: &usize| {
            let column = query.predicates[*at].column;
            let is_coded = matches!(layout.columns[column].family, Family::TextDictionary | Family::TextDictionaryRle);
            self.statistics.columns[column].is_text() && !is_coded
        };
        let each = if named.answered.iter().any(is_expensive) { STRING_MATCH_ROWS } else { MATCH_ROWS };
        named.named * each + named.open * TEST_ROWS <= self.statistics.rows as f64 * pruned.zones
    }
}

impl Pruned {
    /// Leaves only zones with a wanted row.
    fn keep(&mut self, wanted: WantedRows, answered: Vec<usize>) {
        let touched = wanted.touched(ZONE).max(1e-9);
        // The zones left of a granule or morsel of which at least one is left.
        let of = |rows: f64, left: f64| wanted.touched(rows * (self.zones / left.max(1e-9)).min(1.0));
        let (granules, morsels) = (of(GRANULE, self.granules), of(MORSEL_ROWS, self.morsels));
        self.granules *= granules;
        self.morsels *= morsels;
        self.zones *= touched;
        self.density = (self.density / touched).min(1.0);
        answered.iter().for_each(|at| self.open[*at] = (0.0, 1.0));
        self.named = Some((WantedRows { density: (wanted.density / touched).min(1.0), ..wanted }, answered));
    }
}
