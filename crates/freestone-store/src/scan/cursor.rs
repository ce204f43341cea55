//! A cursor: one thread's progress through the morsels of a scan.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use freestone_codec::{Rows, Scratch};

use super::filters::{Observed, SelectedRows, order};
use super::index::index_matches;
use super::metrics::ScanMetrics;
use super::pruning::{Granule, ZonePruning, prune, prune_all, reaches};
use super::{ColumnPredicate, DynamicState, IndexMatches, Morsel, ROW_ID_TYPE, RowFilter, ScanRequest, Sink, row_id};
use crate::bitmap;
use crate::column::{self, ColumnBuffer};
use crate::error::{Result, StoreError};
use crate::limits::GRANULE_ROWS;
use crate::segment::{CodeFilter, Segment};
use crate::struct_fields::Reading;
use crate::table::Table;

mod reads;

use reads::{Ahead, PinnedPages, Read};

/// The rows of the first batch for dynamic filters.
const FIRST_ROWS: usize = 32;
/// The assumed number of threads that search an index for a dynamic filter. Each thread searches separately, so the
/// search must pay off for each.
const ASKING_THREADS: usize = 4;

/// So many selected rows are searched among the deleted ones, and more are removed by visiting all of these.
const FEW_ROWS: usize = 64;

/// One thread's progress through the morsels of a scan. Rows are returned in the order of the morsels.
#[derive(Debug)]
pub struct Cursor {
    table: Arc<Table>,
    request: Arc<ScanRequest>,
    metrics: Arc<ScanMetrics>,
    schema: SchemaRef,
    /// The stored columns of the projection.
    reading: Reading,
    output: Vec<ColumnBuffer>,
    row_ids: Vec<u64>,
    rows: usize,
    ready: VecDeque<RecordBatch>,
    scratch: Scratch,
    observed: Vec<Observed>,
    dynamic: Vec<(u64, DynamicState)>,
    /// The rows of the next batch. The first batches of a scan with dynamic filters are small, because an operator that
    /// wants few rows may know from them which others it does not want.
    batch_rows: usize,
    /// The predicates and codes of all dynamic filters, and the observations of the predicates.
    dynamic_predicates: Vec<ColumnPredicate>,
    dynamic_codes: Vec<CodeFilter>,
    /// The segment of the last morsel, and the index matches of these predicates in it.
    dynamic_named: Option<(u64, Option<IndexMatches>)>,
    dynamic_order: Vec<Observed>,
    /// The observations of the row filters of dynamic filters, by filter and position.
    dynamic_observed: HashMap<(usize, usize), Observed>,
    /// The next morsel.
    ahead: Option<Ahead>,
}

impl Cursor {
    /// A cursor over the morsels of a table that are given to it.
    pub fn new(table: Arc<Table>, request: Arc<ScanRequest>, metrics: Arc<ScanMetrics>) -> Self {
        let schema = output_schema(&table, &request);
        let observed = request.predicates.iter().map(|p| Observed::new(&p.predicate)).collect();
        let dynamic = request.dynamic.iter().map(|_| (u64::MAX, DynamicState::default())).collect();
        let reading = Reading::of(&table.schema, &request.projection);
        let first_rows = if request.dynamic.is_empty() { usize::MAX } else { FIRST_ROWS };
        let batch_rows = request.batch_rows.min(first_rows);
        let mut cursor = Cursor {
            reading,
            table,
            request,
            metrics,
            schema,
            output: vec![],
            row_ids: vec![],
            rows: 0,
            ready: VecDeque::new(),
            scratch: Scratch::default(),
            observed,
            batch_rows,
            dynamic,
            dynamic_predicates: vec![],
            dynamic_codes: vec![],
            dynamic_named: None,
            dynamic_order: vec![],
            dynamic_observed: HashMap::new(),
            ahead: None,
        };
        cursor.output = cursor.new_output(0);
        cursor
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next full batch, if there is one.
    pub fn next_ready(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front()
    }

    /// The number of rows in a zone of a morsel's segment.
    pub fn zone_rows(&self, morsel: &Morsel) -> usize {
        self.table.open_segment(morsel.segment).map_or(GRANULE_ROWS, |segment| segment.zone_rows())
    }

    /// The bytes of the complete batches. For strings these are the bytes of their rows, not of the buffers to which
    /// the views refer.
    pub fn ready_bytes(&self) -> usize {
        self.ready.iter().map(column::shown_bytes).sum()
    }

    /// The number of selected rows that were not returned yet.
    pub fn buffered_rows(&self) -> usize {
        self.rows + self.ready.iter().map(RecordBatch::num_rows).sum::<usize>()
    }

    /// The remaining rows, after the last morsel.
    ///
    /// # Errors
    /// String data is not UTF-8.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows > 0 {
            self.flush()?;
        }
        Ok(self.ready.pop_front())
    }

    /// Scans one morsel. Full batches become ready. `next` is read ahead while this one is decoded.
    ///
    /// # Errors
    /// A page cannot be read or is damaged, or a filter fails.
    pub fn scan(&mut self, morsel: &Morsel, next: Option<&Morsel>) -> Result<()> {
        self.scan_to(morsel, next, None)
    }

    /// Scans one morsel for a sink, which takes its rows instead of batches.
    ///
    /// # Errors
    /// As for [`Cursor::scan`], or the sink's error.
    pub fn scan_into(&mut self, morsel: &Morsel, next: Option<&Morsel>, sink: &mut dyn Sink) -> Result<()> {
        self.scan_to(morsel, next, Some(sink))
    }

    fn scan_to(&mut self, morsel: &Morsel, next: Option<&Morsel>, mut sink: Option<&mut dyn Sink>) -> Result<()> {
        let table = self.table.clone();
        let segment = table.open_segment(morsel.segment)?;
        self.refresh_dynamic()?;
        self.name_dynamic(&table, &segment, morsel)?;
        let Ahead { pruning, mut reads, .. } = self.take_ahead(&segment, morsel, sink.as_deref());
        if let Some(next) = next {
            self.begin_next(&table, next, sink.as_deref(), &reads)?;
        }
        let mut pinned = PinnedPages::new(segment.group_count());
        let mut waiting = VecDeque::new();
        let is_here = |(.., read): &mut (_, _, Option<Read>)| read.as_ref().is_none_or(Read::is_ready);
        for (granule, pruning) in Granule::of(&segment, morsel).zip(pruning) {
            self.admit_to(granule.start, &mut reads, &mut pinned)?;
            let selection = self.select(&granule, pruning, &mut pinned, borrow(&mut sink))?;
            let takes_all = sink.as_deref().is_some_and(Sink::takes_unselected);
            let selected =
                if takes_all { Selected::most(selection, granule.len) } else { Selected::of(&selection, granule.len) };
            let read = self.read_selected(&segment, &granule, &selected, &pinned, &waiting);
            waiting.push_back((granule, selected, read));
            // Rows are returned in order: rows after pages that are still being read wait together with these.
            while let Some((granule, selected, read)) = waiting.pop_front_if(is_here) {
                self.take(&granule, &selected, read, &mut pinned, borrow(&mut sink))?;
            }
        }
        for (granule, selected, read) in waiting {
            self.take(&granule, &selected, read, &mut pinned, borrow(&mut sink))?;
        }
        Ok(())
    }

    /// Decodes the selected rows, for a sink or for batches, when their pages have arrived.
    fn take(
        &mut self,
        granule: &Granule<'_>,
        selected: &Selected,
        read: Option<Read>,
        pinned: &mut PinnedPages,
        sink: Option<&mut dyn Sink>,
    ) -> Result<()> {
        if let Some(read) = read {
            self.take_read(read, pinned)?;
        }
        ScanMetrics::add(&self.metrics.rows_selected, selected.count);
        if selected.count == 0 {
            return Ok(());
        }
        if let Some(sink) = sink {
            return self.hand_over(granule, pinned, selected, sink);
        }
        self.emit(granule, pinned, selected)?;
        if self.rows >= self.batch_rows { self.flush() } else { Ok(()) }
    }

    /// Of the rows that zone pruning leaves, those that also satisfy the codes of dynamic filters and are index matches
    /// for them.
    fn narrowed<'a>(
        &self,
        granule: &Granule<'_>,
        selection: &'a [u64],
        named: Option<&IndexMatches>,
    ) -> Cow<'a, [u64]> {
        if self.dynamic_predicates.is_empty() && self.dynamic_codes.is_empty() && named.is_none() {
            return selection.into();
        }
        let mut by_dynamic = prune(granule, &self.dynamic_predicates, &self.dynamic_codes);
        if let Some(named) = named {
            by_dynamic.narrow(granule, named);
        }
        selection.iter().zip(&by_dynamic.selection).map(|(a, b)| a & b).collect()
    }

    fn refresh_dynamic(&mut self) -> Result<()> {
        // Threads that start together share the work: each translates a filter that no other is translating.
        self.request.dynamic.iter().for_each(|filter| filter.prepare());
        let mut changed = false;
        for (filter, (generation, state)) in self.request.dynamic.iter().zip(&mut self.dynamic) {
            let now = filter.generation();
            if now != *generation {
                *state = filter.current().map_err(StoreError::Invalid)?;
                *generation = now;
                self.dynamic_observed.clear();
                changed = true;
            }
        }
        if changed {
            self.dynamic_predicates = self.dynamic.iter().flat_map(|(_, d)| d.predicates.clone()).collect();
            self.dynamic_codes = self.dynamic.iter().flat_map(|(_, d)| d.codes.clone()).collect();
            self.dynamic_order = self.dynamic_predicates.iter().map(|p| Observed::new(&p.predicate)).collect();
            self.dynamic_named = None;
        }
        Ok(())
    }

    /// Searches an index for the rows of the morsel's segment that satisfy the dynamic filters. Each thread does so
    /// separately, whenever it reaches another segment or the filters change.
    fn name_dynamic(&mut self, table: &Table, segment: &Segment, morsel: &Morsel) -> Result<()> {
        let is_known = self.dynamic_named.as_ref().is_some_and(|(of, _)| *of == segment.id);
        if !is_known {
            let whole = Morsel::new(morsel.segment, 0..segment.rows() as u32);
            let left = |granule: Granule<'_>| {
                let pruning = prune_all(&granule, &self.request);
                bitmap::count(&self.narrowed(&granule, &pruning.selection, None))
            };
            let leaves = |least: usize| {
                reaches(Granule::of(segment, &whole).map(left), least.saturating_mul(ASKING_THREADS), segment.rows())
            };
            let named = match morsel.named {
                Some(_) => None,
                None => index_matches(
                    table,
                    segment,
                    (&self.dynamic_predicates, self.request.iterator),
                    leaves,
                    &self.metrics,
                )?,
            };
            self.dynamic_named = Some((segment.id, named));
        }
        Ok(())
    }

    /// The qualifying rows of a granule, without those of zones that the sink took.
    fn select(
        &mut self,
        granule: &Granule<'_>,
        mut pruning: ZonePruning,
        pinned: &mut PinnedPages,
        sink: Option<&mut dyn Sink>,
    ) -> Result<Vec<u64>> {
        let request = self.request.clone();
        let mut by_dynamic = prune(granule, &self.dynamic_predicates, &self.dynamic_codes);
        if let Some((_, Some(named))) = &self.dynamic_named {
            by_dynamic.narrow(granule, named);
        }
        pruning.selection.iter_mut().zip(&by_dynamic.selection).for_each(|(a, b)| *a &= b);
        let pruned = pruning.pruned.iter().zip(&by_dynamic.pruned).filter(|(here, there)| **here || **there).count();
        ScanMetrics::add(&self.metrics.zones, pruning.pruned.len());
        ScanMetrics::add(&self.metrics.zones_pruned, pruned);
        let mut selection = pruning.selection;
        ScanMetrics::add(&self.metrics.rows_scanned, bitmap::count(&selection));
        if pruned == pruning.pruned.len() {
            return Ok(selection);
        }
        self.drop_deleted(granule, &mut selection);
        if let Some(sink) = sink {
            self.offer_zones(granule, &pruning.whole, sink, &mut selection);
        }
        for at in order(&self.observed).into_iter().filter(|at| pruning.open.contains(at)) {
            let before = SelectedRows::of(&selection);
            if before.rows == 0 {
                return Ok(selection);
            }
            let begin = Instant::now();
            let tested = self.filter_column(granule, &request.predicates[at], pinned, &mut selection)?;
            self.observed[at].record(tested, before, SelectedRows::of(&selection), begin.elapsed());
        }
        for at in order(&self.dynamic_order).into_iter().filter(|at| by_dynamic.open.contains(at)) {
            let before = SelectedRows::of(&selection);
            if before.rows == 0 {
                return Ok(selection);
            }
            let begin = Instant::now();
            let filter = self.dynamic_predicates[at].clone();
            let tested = self.filter_column(granule, &filter, pinned, &mut selection)?;
            self.dynamic_order[at].record(tested, before, SelectedRows::of(&selection), begin.elapsed());
        }
        for filter in &request.row_filters {
            self.filter_rows(granule, filter.as_ref(), pinned, &mut selection)?;
        }
        self.apply_dynamic_row_filters(granule, pinned, &mut selection)?;
        if pruning.open.is_empty() && pruned == 0 && bitmap::count(&selection) == granule.len {
            ScanMetrics::add(&self.metrics.zones_whole, pruning.pruned.len());
        }
        Ok(selection)
    }

    /// Whether a zone's aggregates alone decide that its rows qualify, because nothing else filters.
    fn zones_decide(&self) -> bool {
        let filters = !self.request.row_filters.is_empty() || !self.dynamic_predicates.is_empty();
        !filters && self.dynamic.iter().all(|(_, state)| state.row_filters.is_empty())
    }

    /// Offers the sink the zones in which every row qualifies. The rows of those that it takes are deselected.
    fn offer_zones(&self, granule: &Granule<'_>, whole: &[bool], sink: &mut dyn Sink, selection: &mut [u64]) {
        if !self.zones_decide() {
            return;
        }
        for (zone, from, rows) in whole_zones(granule, whole, selection) {
            if sink.take_zone(granule.segment, zone, rows) {
                bitmap::clear_words(selection, from, from + rows);
                ScanMetrics::add(&self.metrics.zones_aggregated, 1);
                ScanMetrics::add(&self.metrics.rows_selected, rows);
            }
        }
    }

    /// Decodes the selected rows in stored form for the sink.
    fn hand_over(
        &mut self,
        granule: &Granule<'_>,
        pinned: &mut PinnedPages,
        selected: &Selected,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let request = self.request.clone();
        let mut buffers = std::mem::take(&mut self.output);
        for (column, buffer) in request.projection.iter().zip(&mut buffers) {
            let data_type = self.table.schema.stored_type(*column);
            let is_text = matches!(data_type, DataType::Utf8 | DataType::Utf8View);
            let has_dictionary = is_text && granule.segment.dictionary(*column).is_some();
            if !buffer.recycle(data_type, has_dictionary) {
                *buffer = ColumnBuffer::stored(data_type, has_dictionary);
            }
        }
        self.decode_selected(granule, pinned, selected, &mut buffers)?;
        self.output = buffers;
        match &selected.rows {
            Chosen::Most(selection) => sink.take_rows(granule.ordinal, &mut self.output, granule.len, Some(selection)),
            _ => sink.take_rows(granule.ordinal, &mut self.output, selected.count, None),
        }
    }

    /// Decodes the selected rows of the projected columns.
    fn decode_selected(
        &mut self,
        granule: &Granule<'_>,
        pinned: &mut PinnedPages,
        selected: &Selected,
        buffers: &mut [ColumnBuffer],
    ) -> Result<()> {
        let mut by_group: Vec<Vec<(usize, usize)>> = vec![vec![]; granule.segment.group_count()];
        for (at, column) in self.reading.stored.iter().enumerate() {
            let (group, place) = granule.segment.place(*column);
            by_group[group].push((at, place));
        }
        for (group, columns) in by_group.iter().enumerate().filter(|(_, columns)| !columns.is_empty()) {
            self.decode_group(granule, group, columns, selected, pinned, buffers)?;
        }
        Ok(())
    }

    /// Applies the row filters of dynamic filters. They only save work above the scan, so one that keeps most rows is
    /// not used again.
    fn apply_dynamic_row_filters(
        &mut self,
        granule: &Granule<'_>,
        pinned: &mut PinnedPages,
        selection: &mut [u64],
    ) -> Result<()> {
        for at in 0..self.dynamic.len() {
            for which in 0..self.dynamic[at].1.row_filters.len() {
                let observed = self.dynamic_observed.entry((at, which)).or_default();
                let before = SelectedRows::of(selection);
                if before.rows == 0 || observed.keeps_most() {
                    continue;
                }
                let filter = self.dynamic[at].1.row_filters[which].clone();
                let begin = Instant::now();
                self.filter_rows(granule, filter.as_ref(), pinned, selection)?;
                let observed = self.dynamic_observed.entry((at, which)).or_default();
                observed.record(before.rows, before, SelectedRows::of(selection), begin.elapsed());
            }
        }
        Ok(())
    }

    fn drop_deleted(&self, granule: &Granule<'_>, selection: &mut [u64]) {
        let Some(deleted) = &self.table.segments[granule.ordinal].deleted else { return };
        let (start, end) = (granule.start as u32, (granule.start + granule.len) as u32);
        let before = bitmap::count(selection);
        if before <= FEW_ROWS {
            let mut selected = vec![];
            bitmap::positions(selection, 0, &mut selected);
            let is_deleted = |row: &&u32| deleted.contains(start + **row);
            selected.iter().filter(is_deleted).for_each(|row| bitmap::clear(selection, *row as usize));
        } else {
            deleted.range(start..end).for_each(|row| bitmap::clear(selection, (row - start) as usize));
        }
        ScanMetrics::add(&self.metrics.rows_deleted, before - bitmap::count(selection));
    }

    /// Deselects rows that do not satisfy `filter`, and returns the number of rows of the visited pages.
    fn filter_column(
        &mut self,
        granule: &Granule<'_>,
        filter: &ColumnPredicate,
        pinned: &mut PinnedPages,
        selection: &mut [u64],
    ) -> Result<usize> {
        let (group, place) = granule.segment.place(filter.column);
        let run = granule.segment.pages_of(group, granule.start..granule.start + granule.len);
        let wanted: Vec<usize> =
            (run.first..=run.last).filter(|page| any_selected(granule, group, *page, selection)).collect();
        self.pin_pages(granule.segment, group, &wanted, pinned)?;
        let mut tested = 0;
        for page in wanted {
            let (first, rows) = overlap(granule, group, page);
            tested += rows;
            let cached = pinned.page(group, page);
            let view = granule.segment.view(group, &cached);
            let in_page = granule.start + first - granule.segment.page_rows(group, page).start;
            let wrong = |e: String| granule.segment.page_error(group, page, e);
            if first.is_multiple_of(64) {
                // The page starts at a word boundary here. The rows of the next page in the last word are not tested.
                let words = &mut selection[first / 64..bitmap::words(first + rows)];
                let last = words.last().copied().unwrap_or(0);
                bitmap::trim(words, rows);
                view.filter(place, &filter.predicate, in_page, rows, words, &mut self.scratch).map_err(wrong)?;
                if !rows.is_multiple_of(64)
                    && let Some(word) = words.last_mut()
                {
                    *word |= last & !((1 << (rows % 64)) - 1);
                }
            } else {
                let mut part = bitmap::extract(selection, first, rows);
                view.filter(place, &filter.predicate, in_page, rows, &mut part, &mut self.scratch).map_err(wrong)?;
                bitmap::write(selection, first, &part, rows);
            }
        }
        Ok(tested)
    }

    fn filter_rows(
        &mut self,
        granule: &Granule<'_>,
        filter: &dyn RowFilter,
        pinned: &mut PinnedPages,
        selection: &mut [u64],
    ) -> Result<()> {
        let positions = Selected::of(selection, granule.len);
        if positions.count == 0 {
            return Ok(());
        }
        let reading = Reading::of(&self.table.schema, filter.columns());
        let mut buffers: Vec<ColumnBuffer> =
            reading.stored.iter().map(|c| ColumnBuffer::new(self.table.schema.stored_type(*c))).collect();
        for (column, buffer) in reading.stored.iter().zip(&mut buffers) {
            let (group, place) = granule.segment.place(*column);
            self.decode_group(granule, group, &[(0, place)], &positions, pinned, std::slice::from_mut(buffer))?;
        }
        let arrays = reading.finish(buffers).map_err(|e| self.granule_error(granule, e))?;
        let passed = filter.evaluate(&arrays, positions.count).map_err(StoreError::Filter)?;
        match positions.list() {
            None => selection.iter_mut().zip(&passed).for_each(|(s, p)| *s &= p),
            Some(list) => {
                for (at, row) in list.iter().enumerate() {
                    if !bitmap::get(&passed, at) {
                        bitmap::clear(selection, *row as usize);
                    }
                }
            }
        }
        Ok(())
    }

    fn emit(&mut self, granule: &Granule<'_>, pinned: &mut PinnedPages, selected: &Selected) -> Result<()> {
        if self.rows > 0 && self.rows + selected.count > 2 * self.batch_rows {
            self.flush()?;
        }
        let mut output = std::mem::take(&mut self.output);
        self.decode_selected(granule, pinned, selected, &mut output)?;
        self.output = output;
        if self.request.row_ids {
            let id = |row: usize| row_id(granule.ordinal, granule.start + row);
            match selected.list() {
                None => self.row_ids.extend((0..granule.len).map(id)),
                Some(list) => self.row_ids.extend(list.iter().map(|row| id(*row as usize))),
            }
        }
        self.rows += selected.count;
        Ok(())
    }

    /// Appends the selected rows of some columns of a group, page by page, so that a page of rows is in the processor's
    /// cache for all of them. Columns are pairs (position in `buffers`, position in the group).
    fn decode_group(
        &mut self,
        granule: &Granule<'_>,
        group: usize,
        columns: &[(usize, usize)],
        selected: &Selected,
        pinned: &mut PinnedPages,
        buffers: &mut [ColumnBuffer],
    ) -> Result<()> {
        ScanMetrics::add(&self.metrics.values_decoded, selected.decoded(granule) * columns.len());
        let run = granule.segment.pages_of(group, granule.start..granule.start + granule.len);
        let wanted: Vec<usize> = (run.first..=run.last).filter(|page| selected.any(granule, group, *page)).collect();
        self.pin_pages(granule.segment, group, &wanted, pinned)?;
        let mut in_page = vec![];
        for page in wanted {
            let rows = selected.in_page(granule, group, page, &mut in_page);
            let cached = pinned.page(group, page);
            let view = granule.segment.view(group, &cached);
            let decoded = view.decode(columns, rows, buffers, &mut self.scratch);
            decoded.map_err(|e| granule.segment.page_error(group, page, e))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let output = self.new_output(self.rows);
        let output = std::mem::replace(&mut self.output, output);
        let mut arrays = self
            .reading
            .finish(output)
            .map_err(|reason| StoreError::Corrupt { file: self.table.name.clone(), reason })?;
        if self.request.row_ids {
            arrays.push(Arc::new(UInt64Array::from(std::mem::take(&mut self.row_ids))));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|e| StoreError::Corrupt { file: self.table.name.clone(), reason: e.to_string() })?;
        self.ready.push_back(batch);
        self.batch_rows = self.request.batch_rows.min(self.batch_rows.saturating_mul(2));
        Ok(())
    }

    fn new_output(&self, rows: usize) -> Vec<ColumnBuffer> {
        let column = |c: &usize| ColumnBuffer::with_capacity(self.table.schema.stored_type(*c), rows);
        self.reading.stored.iter().map(column).collect()
    }

    fn granule_error(&self, granule: &Granule<'_>, reason: String) -> StoreError {
        StoreError::Corrupt { file: granule.segment.name().to_owned(), reason }
    }
}

/// The zones of a granule that are whole and whose rows are all selected: number, first row in the granule, and rows.
fn whole_zones(granule: &Granule<'_>, whole: &[bool], selection: &[u64]) -> Vec<(usize, usize, usize)> {
    let zone_rows = granule.segment.zone_rows();
    let zones = whole.iter().enumerate().filter(|(_, is_whole)| **is_whole).map(|(at, _)| {
        let zone = granule.start / zone_rows + at;
        let rows = zone_rows.min(granule.segment.rows() - zone * zone_rows);
        (zone, zone * zone_rows - granule.start, rows)
    });
    // Granules begin with a zone. A zone that ends early, or has lost rows, is scanned.
    let is_here = |&(_, from, rows): &(usize, usize, usize)| {
        from + rows <= granule.len && bitmap::count(&bitmap::extract(selection, from, rows)) == rows
    };
    zones.filter(is_here).collect()
}

/// Reborrows the sink for one call.
fn borrow<'a>(sink: &'a mut Option<&mut dyn Sink>) -> Option<&'a mut dyn Sink> {
    match sink {
        Some(sink) => Some(&mut **sink),
        None => None,
    }
}

fn output_schema(table: &Table, request: &ScanRequest) -> SchemaRef {
    let schema = &table.schema;
    let field = |at: &usize| match schema.columns.get(*at) {
        Some(column) => Field::new(&column.name, column.data_type.clone(), column.nullable),
        None => Field::new(schema.stored_name(*at), read_type(schema.stored_type(*at)), true),
    };
    let mut fields: Vec<Field> = request.projection.iter().map(field).collect();
    if request.row_ids {
        fields.push(Field::new("__row_id", ROW_ID_TYPE, false));
    }
    Arc::new(Schema::new(fields))
}

/// The type of the array of a stored column: of a struct in another one, only which rows are not NULL.
fn read_type(data_type: &DataType) -> DataType {
    if matches!(data_type, DataType::Struct(_)) { DataType::Boolean } else { data_type.clone() }
}

/// The selected rows of a granule.
struct Selected {
    count: usize,
    rows: Chosen,
}

/// Which rows of a granule are decoded.
enum Chosen {
    All,
    /// All, of which some are not selected.
    Most(Vec<u64>),
    /// Those at these positions from the granule's start.
    List(Vec<u32>),
}

/// One of this number of rows may be decoded although it is not selected.
const DECODED_PER_UNSELECTED: usize = 6;

impl Selected {
    fn of(selection: &[u64], len: usize) -> Self {
        let count = bitmap::count(selection);
        if count == len {
            return Selected { count, rows: Chosen::All };
        }
        let mut list = Vec::with_capacity(count);
        bitmap::positions(selection, 0, &mut list);
        Selected { count, rows: Chosen::List(list) }
    }

    /// The same, which decodes all rows if most are selected.
    fn most(selection: Vec<u64>, len: usize) -> Self {
        let count = bitmap::count(&selection);
        let unselected = len - count;
        if unselected == 0 || unselected * DECODED_PER_UNSELECTED > len {
            return Selected::of(&selection, len);
        }
        Selected { count, rows: Chosen::Most(selection) }
    }

    /// The positions of the selected rows; `None` if all rows are decoded.
    fn list(&self) -> Option<&[u32]> {
        match &self.rows {
            Chosen::All | Chosen::Most(_) => None,
            Chosen::List(list) => Some(list),
        }
    }

    /// The number of rows of the granule that are decoded.
    fn decoded(&self, granule: &Granule<'_>) -> usize {
        if matches!(self.rows, Chosen::Most(_)) { granule.len } else { self.count }
    }

    /// The selected rows on a page, as rows of the page. `buffer` stores positions.
    fn in_page<'b>(&self, granule: &Granule<'_>, group: usize, page: usize, buffer: &'b mut Vec<u32>) -> Rows<'b> {
        let (first, len) = overlap(granule, group, page);
        let page_start = granule.segment.page_rows(group, page).start;
        let Some(list) = self.list() else {
            return Rows::Range { start: granule.start + first - page_start, len };
        };
        let from = list.partition_point(|row| (*row as usize) < first);
        let to = list.partition_point(|row| (*row as usize) < first + len);
        // Positions are relative to the granule, and the page may have started before it.
        let shift = granule.start.wrapping_sub(page_start) as u32;
        buffer.clear();
        buffer.extend(list[from..to].iter().map(|row| row.wrapping_add(shift)));
        Rows::Positions(buffer)
    }

    fn any(&self, granule: &Granule<'_>, group: usize, page: usize) -> bool {
        let Some(list) = self.list() else { return true };
        let (first, len) = overlap(granule, group, page);
        let from = list.partition_point(|row| (*row as usize) < first);
        list.get(from).is_some_and(|row| (*row as usize) < first + len)
    }
}

/// The rows that a page shares with a granule: the first, relative to the granule's start, and their number.
fn overlap(granule: &Granule<'_>, group: usize, page: usize) -> (usize, usize) {
    let rows = granule.segment.page_rows(group, page);
    let (start, end) = (rows.start.max(granule.start), rows.end.min(granule.start + granule.len));
    (start - granule.start, end - start)
}

fn any_selected(granule: &Granule<'_>, group: usize, page: usize, selection: &[u64]) -> bool {
    let (first, len) = overlap(granule, group, page);
    bitmap::extract(selection, first, len).iter().any(|word| *word != 0)
}
