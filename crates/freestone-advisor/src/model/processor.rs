//! The processor time of a scan, computed as if one thread did all of it.

use super::classify::instead;
use super::geometry::{GroupGeometry, Layout, StoredColumn};
use super::prune::Pruned;
use super::wanted::{MOST_LISTED, WantedRows};
use super::{GRANULE, MORSEL_ROWS, Parts, ScanModel, ZONE};
use crate::profile::{Family, Form, Operation, Slowdown};
use crate::statistics::ColumnStatistics;
use crate::workload::{Output, PredicateForm, Query, QueryPredicate};

/// The bytes that memory transfers at a time.
const LINE: f64 = 64.0;
/// The rows that a filter's kernel skips together if none of them is wanted.
const VECTOR: f64 = 1024.0;
/// The bytes of a string view. The string itself is not copied.
const VIEW_BYTES: f64 = 16.0;
/// The additional nanoseconds of a scan of which pruning leaves nothing, and of a scan's first morsel: calibration
/// repeats these steps, but a scan does them for the first time. From the validation, for scans of less than 50 µs,
/// where the reference scan took about as long.
const SETUP_NS: f64 = 1000.0;
const FIRST_UNIT_NS: f64 = 18_000.0;
const SETUP_REFERENCE_NS: f64 = 0.7e6;
/// Nanoseconds per row for a test of decoded values by the caller.
const OTHER_TEST_NS: f64 = 1.0;
/// Nanoseconds per byte for unpacking a page's dictionary.
const PAGE_DICTIONARY_NS: f64 = 1.0;

/// A scan whose cost is being computed.
struct Count<'a> {
    model: &'a ScanModel,
    layout: &'a Layout,
    /// The rows of the remaining zones.
    rows: f64,
    /// The bytes that the scan accesses. They have to stay in a cache to be found there again.
    working_set: f64,
    /// Groups whose tuples a filter has accessed before.
    met: Vec<usize>,
    parts: &'a mut Parts,
}

impl ScanModel {
    pub(super) fn processor(&self, layout: &Layout, query: &Query, pruned: &Pruned, parts: &mut Parts) {
        let rows = self.statistics.rows as f64;
        let mut count = Count {
            model: self,
            layout,
            rows: rows * pruned.zones,
            working_set: self.working_set(layout, query, pruned),
            met: vec![],
            parts,
        };
        count.frame(query, pruned);
        let wanted = count.filters(query, pruned);
        count.parts.rows_left = count.rows * pruned.density;
        count.parts.select_ns = if wanted.density > 0.999 {
            0.0
        } else {
            // Granules without a remaining row have no list.
            let lists = count.rows * wanted.touched(GRANULE);
            lists * self.profile.engine.select.at(wanted.density.max(1e-5))
        };
        count.output(query, wanted);
    }

    /// The bytes that the query accesses.
    fn working_set(&self, layout: &Layout, query: &Query, pruned: &Pruned) -> f64 {
        let rows = self.statistics.rows as f64 * pruned.zones;
        let of = |column: &usize| match layout.groups[layout.columns[*column].group].form {
            Form::Chunk => layout.columns[*column].bytes,
            _ => 0.0,
        };
        let touched = query.touched();
        let tuples = layout.groups_of(&touched);
        let tuples = tuples.iter().map(|g| &layout.groups[*g]).filter(|g| g.form != Form::Chunk);
        rows * (touched.iter().map(of).sum::<f64>() + tuples.map(GroupGeometry::row_bytes).sum::<f64>())
    }

    fn kernel(&self, form: Form, column: &StoredColumn, operation: Operation, x: f64) -> f64 {
        let engine = &self.profile.engine;
        let of = |family| {
            let found = engine.kernel(form, family, operation, column.parameter, x);
            let like = || engine.kernel(form, family, Operation::Filter, column.parameter, x);
            if operation == Operation::Equal { found.or_else(like) } else { found }
        };
        let other = || instead(column.family).iter().find_map(|family| of(*family));
        of(column.family).or_else(other).unwrap_or(2.0)
    }

    fn null_cost(&self, form: Form, operation: Operation, x: f64) -> f64 {
        self.profile.engine.kernel(form, Family::Nulls, operation, 0.0, x).unwrap_or(0.0)
    }
}

/// The bytes of a decoded value.
fn decoded_bytes(column: &ColumnStatistics) -> f64 {
    if column.is_text() { VIEW_BYTES } else { column.width }
}

impl Count<'_> {
    fn frame(&mut self, query: &Query, pruned: &Pruned) {
        let engine = &self.model.profile.engine;
        let rows = self.model.statistics.rows as f64;
        let (morsels, granules) = ((rows / MORSEL_ROWS).ceil(), (rows / GRANULE).ceil());
        // If hardly any row satisfies the tests, pruning probably leaves nothing.
        let any = (rows / ZONE * pruned.zones).min(1.0);
        self.parts.morsels = (morsels * pruned.morsels).max(any);
        let entered = (granules * pruned.morsels).max(any);
        let left = (granules * pruned.granules).max(any);
        // A morsel's zones are tested until one is left. The first predicate that prunes a zone is enough.
        let tests = query.predicates.len() as f64;
        let ruled_out = (granules - entered) * (0.5 + 0.5 * tests).min(tests) * engine.rule_out.value;
        let zone_tests = ruled_out + entered * tests * engine.zone_test.value;
        // Whole threads: the more probable number of them.
        let others = (self.model.setting.threads as f64).min(self.parts.morsels.round()) - 1.0;
        self.parts.begin_ns += engine.scan.value * others.max(0.0);
        let machine = Slowdown::of(engine.reference.value, SETUP_REFERENCE_NS).cached();
        let begin = (SETUP_NS + FIRST_UNIT_NS * any) * machine;
        self.parts.frame_ns +=
            begin + self.parts.morsels * engine.morsel.value + left * engine.granule.value + zone_tests;
    }

    /// The predicates, in the order that their cost and selectivity give them.
    fn filters(&mut self, query: &Query, pruned: &Pruned) -> WantedRows {
        let mut order: Vec<usize> = (0..query.predicates.len()).collect();
        let rank = |at: &usize| {
            let (_, passing) = pruned.open[*at];
            let predicate = &query.predicates[*at];
            let (cost, page) = self.filter_cost(predicate, 1.0);
            let runs = self.model.statistics.run_rows(predicate.column, &self.layout.order);
            let vectors = WantedRows { density: passing, run_rows: runs.max(1.0) }.touched(VECTOR);
            // As in the store: one half by rows, one half by vectors without a remaining row.
            (cost + page) / (1.0 - (passing + vectors) / 2.0).max(1e-6)
        };
        let ranks: Vec<f64> = order.iter().map(rank).collect();
        order.sort_by(|a, b| ranks[*a].total_cmp(&ranks[*b]));
        let mut wanted = pruned.named.as_ref().map_or(WantedRows::ALL, |(named, _)| *named);
        for at in order {
            let column = query.predicates[at].column;
            let (evaluated, passing) = pruned.open[at];
            self.filter(&query.predicates[at], evaluated, wanted);
            let runs = self.model.statistics.run_rows(column, &self.layout.order);
            if passing < 0.999 {
                // Of independent conditions, the one with the shorter runs divides those of the others.
                wanted.run_rows = if wanted.density < 0.999 { wanted.run_rows.min(runs) } else { runs.max(1.0) };
            }
            wanted.density *= passing;
        }
        wanted
    }

    /// Nanoseconds per row for the test, and for the visits of its pages, at a density.
    fn filter_cost(&self, predicate: &QueryPredicate, density: f64) -> (f64, f64) {
        let column = predicate.column;
        let stored = &self.layout.columns[column];
        let group = &self.layout.groups[stored.group];
        let engine = &self.model.profile.engine;
        let is_text = self.model.statistics.columns[column].is_text();
        let operation = match predicate.form {
            PredicateForm::Equal | PredicateForm::In if is_text => Operation::Equal,
            PredicateForm::Other => Operation::Decode,
            _ => Operation::Filter,
        };
        let mut cost = self.model.kernel(group.form, stored, operation, density.max(1e-5));
        if operation == Operation::Decode {
            // The caller's test receives values and returns bits.
            cost = cost * density + OTHER_TEST_NS;
        }
        if self.model.statistics.columns[column].nulls > 0.0 {
            cost += self.model.null_cost(group.form, Operation::Filter, density.max(1e-5));
        }
        if group.has_prefix {
            cost += engine.prefix_filter.value;
        }
        let pages = group.pages_a_granule();
        let page = engine.page(group.form).map_or(400.0, |p| p.filter_ns(pages, density));
        let page = page * engine.visit(group.form, stored.family, operation);
        (cost, (page + stored.page_dictionary_bytes * PAGE_DICTIONARY_NS) * pages / GRANULE)
    }

    fn filter(&mut self, predicate: &QueryPredicate, evaluated: f64, before: WantedRows) {
        let column = predicate.column;
        let stored = &self.layout.columns[column];
        let group = &self.layout.groups[stored.group];
        let touched = before.touched(group.page_rows.min(GRANULE));
        let rows = self.rows * evaluated * touched;
        // Within the accessed pages, the qualifying rows are denser.
        let density = (before.density / touched.max(1e-9)).min(1.0);
        let (cost, page) = self.filter_cost(predicate, density);
        self.parts.filter_ns += rows * cost;
        self.parts.page_ns += rows * page;
        self.parts.pages_visited += rows * group.pages_a_granule() / GRANULE;
        let wanted = WantedRows { density, ..before };
        self.memory(stored.group, &[column], rows, wanted, false);
    }

    fn output(&mut self, query: &Query, wanted: WantedRows) {
        let engine = &self.model.profile.engine;
        if query.output == Output::Shipped && query.predicates.is_empty() && self.ships(query) {
            return self.ship(query);
        }
        for group in self.layout.groups_of(&query.columns) {
            self.decode(group, query, wanted);
        }
        let rows = self.parts.rows_left;
        if query.output.is_aggregate() || rows < 0.5 {
            return;
        }
        let columns = query.columns.len() as f64;
        let statistics = &self.model.statistics.columns;
        let bytes: f64 = query.columns.iter().map(|c| decoded_bytes(&statistics[*c])).sum();
        // Batches are filled across granules.
        let batch_bytes = bytes * rows.clamp(1.0, GRANULE);
        self.parts.memory_ns += rows * bytes * engine.spill.at(batch_bytes);
        let batches = (rows / GRANULE).max(1.0);
        // The cost of a column of a full batch is part of its kernel, which was measured with full batches.
        self.parts.output_ns += batches * engine.batch.value + columns * engine.batch_column.value;
        if query.output == Output::Rows {
            let values = query.columns.iter().map(|c| {
                let column = &statistics[*c];
                let nulls = if column.nulls > 0.0 { engine.tuple_null.value } else { 0.0 };
                let text = if column.is_text() { column.width * engine.tuple_byte.value } else { 0.0 };
                engine.tuple_value.at(batch_bytes) + nulls + text
            });
            self.parts.output_ns += rows * values.sum::<f64>();
        }
    }

    fn decode(&mut self, at: usize, query: &Query, wanted: WantedRows) {
        let engine = &self.model.profile.engine;
        let group = &self.layout.groups[at];
        let columns: Vec<usize> =
            query.columns.iter().copied().filter(|c| self.layout.columns[*c].group == at).collect();
        let touched = wanted.touched(group.page_rows.min(GRANULE));
        let pages = group.pages_a_granule();
        let visits = self.rows / GRANULE * pages * touched;
        self.parts.pages_visited += visits;
        let rows = self.rows * wanted.density;
        let density = (wanted.effective() / touched.max(1e-9)).clamp(1e-5, 1.0);
        let density = if wanted.density < 1.0 { density.min(MOST_LISTED) } else { 1.0 };
        let page = engine.page(group.form);
        let (first, further) = page.map_or((400.0, 60.0), |p| (p.decode_ns(pages, density), p.column.value));
        self.parts.page_ns += visits * (first - further).max(0.0);
        for column in &columns {
            let stored = &self.layout.columns[*column];
            let behind = if group.has_prefix { engine.prefix_decode.value } else { 0.0 };
            self.parts.decode_ns += rows * (behind + self.model.kernel(group.form, stored, Operation::Decode, density));
            let visit = further * engine.visit(group.form, stored.family, Operation::Decode);
            self.parts.page_ns += visits * (visit + stored.page_dictionary_bytes * PAGE_DICTIONARY_NS);
            if self.model.statistics.columns[*column].nulls > 0.0 {
                self.parts.decode_ns += rows * self.model.null_cost(group.form, Operation::Decode, density);
            }
        }
        self.memory(at, &columns, self.rows * touched, WantedRows { density: density.min(1.0), ..wanted }, true);
    }

    /// The cost of accessing values of some columns of a group beyond the nearest caches, over `rows` rows of which
    /// some are wanted.
    fn memory(&mut self, at: usize, columns: &[usize], rows: f64, wanted: WantedRows, fetched: bool) {
        let engine = &self.model.profile.engine;
        let group = &self.layout.groups[at];
        if group.form == Form::Chunk {
            let bytes = columns.iter().map(|c| {
                let bytes = self.layout.columns[*c].bytes;
                let lines = if fetched { wanted.touched(LINE / bytes.max(0.01)) } else { 1.0 };
                bytes * lines
            });
            self.parts.memory_ns += rows * bytes.sum::<f64>() * engine.stream.at(self.working_set);
            return;
        }
        let row_bytes = group.row_bytes();
        // A granule that a filter accessed is in a nearer cache when its rows are decoded.
        let met = self.met.contains(&at);
        let region = if met { (GRANULE * row_bytes).min(self.working_set) } else { self.working_set };
        let near = engine.line.at(region);
        // Slotted tuples have NULL bits in the header, on another line than the field. It is read only if the page has
        // NULLs.
        let has_nulls = columns.iter().any(|c| self.model.statistics.columns[*c].nulls > 0.0);
        let (apart, headers) = match group.form {
            Form::Slotted => (&engine.line_slotted, f64::from(u8::from(has_nulls))),
            _ => (&engine.line_apart, 0.0),
        };
        let lines = (columns.len() as f64 + headers).min(row_bytes / LINE);
        let picked = lines * wanted.touched((LINE / row_bytes).max(1.0)) * apart.at(region);
        // If most lines are accessed in order, the processor prefetches all of them; measured with tuples of two lines.
        // It does not for long slotted tuples, whose lengths differ.
        let is_foreseen = group.form != Form::Slotted || row_bytes <= 2.0 * LINE;
        let streamed = if is_foreseen { row_bytes / (2.0 * LINE) * near } else { f64::INFINITY };
        self.parts.memory_ns += rows * picked.min(streamed);
        if !met {
            self.met.push(at);
        }
    }

    fn ships(&self, query: &Query) -> bool {
        query.columns.iter().all(|c| self.layout.groups[self.layout.columns[*c].group].form == Form::Chunk)
    }

    fn ship(&mut self, query: &Query) {
        let engine = &self.model.profile.engine;
        for column in &query.columns {
            let stored = &self.layout.columns[*column];
            let visits = self.rows / self.layout.groups[stored.group].page_rows;
            self.parts.pages_visited += visits;
            self.parts.output_ns += visits * engine.ship_page.value + self.rows * stored.bytes * engine.ship_byte.value;
        }
    }
}
