//! The scan of a native table as a DataFusion `DataSource`.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, LambdaVariable};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, Gauge, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, SortOrderPushdownResult};
use freestone_advisor::Output;
use freestone_exec::convert::form_of;
use freestone_exec::scan::Scan;
use freestone_exec::vector::Form;
use freestone_store::cluster::CodeFilter;
use freestone_store::limits::{MORSEL_ROWS, ZONE_ROWS};
use freestone_store::scan::{
    ColumnPredicate, Cursor, IteratorKind, Morsel, MorselQueue, Morsels, Pieces, RowFilter, ScanMetrics, ScanRequest,
    expected_bytes, index_asked, morsels, pool_choice, surviving_morsels_of,
};
use freestone_store::segment::zones::Bounds;
use freestone_store::{Snapshot, Table};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::claims::Claims;
use super::fields::{stored_column, with_fields};
use super::filter::{Conjuncts, Renumbered, Scanned};
use super::in_keys::InKeys;
use super::keys::code_filters;
use super::paths::PathFilter;
use super::statistics::{NullsAndBounds, distinct, has_int_bounds, nulls_and_bounds, of_partition, statistics};
use super::stream::ScanStream;
use crate::context::ScanWork;
use crate::expressions::physical::remap;
use crate::internal_names::ROW_ID_COLUMN;
use crate::memory::ROWS_OF_PLENTY;
use crate::text_types;
use crate::workload::{AskedPath, TableReads};

/// A part of a table: rows of one segment, of which a scan's morsels are either all or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The position of the segment in the table.
    pub segment: usize,
    /// The rows in the segment.
    pub rows: Range<u32>,
}

impl Piece {
    pub(super) fn has(&self, morsel: &Morsel) -> bool {
        self.segment == morsel.segment && self.rows.start <= morsel.rows.start && morsel.rows.end <= self.rows.end
    }
}

/// A scan: table, snapshot, morsels, projection, filters, order.
#[derive(Debug, Clone)]
pub struct FreestoneSource {
    scanned: Scanned,
    /// The table that the query names, if a copy of it is scanned.
    copied: Option<Arc<Table>>,
    /// The table's stored columns, followed by the row id if it is requested.
    table_schema: SchemaRef,
    projection: Vec<usize>,
    schema: SchemaRef,
    conjuncts: Conjuncts,
    /// The filters on the table's columns as DataFusion passed them, for display and because dynamic filters must stay
    /// alive.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The codes that predicates on referenced tables leave in the table's dimensions.
    path_filters: Vec<PathFilter>,
    /// The codes that predicates on foreign keys leave in the dimensions.
    key_codes: Vec<CodeFilter>,
    partitions: usize,
    fetch: Option<usize>,
    /// How the session wants rows to be found.
    iterator: Option<IteratorKind>,
    /// Whether rows come in the order of the table's sort.
    ordered: bool,
    /// Whether this is a scan of an earlier version, whose snapshot it keeps.
    is_past: bool,
    /// The parts of the table that this scan reads, if others read the rest.
    pieces: Option<Arc<[Piece]>>,
    /// What others may claim of it while it runs.
    claims: Option<Arc<Claims>>,
    metrics: ExecutionPlanMetricsSet,
    scan_metrics: Arc<ScanMetrics>,
    gauges: Arc<Mutex<Vec<(&'static str, Gauge)>>>,
}

/// The work of the native scans of a plan.
pub(crate) fn scan_work(plan: &Arc<dyn ExecutionPlan>) -> Vec<ScanWork> {
    let own = FreestoneSource::of(plan).map(FreestoneSource::work);
    own.into_iter().chain(plan.children().into_iter().flat_map(scan_work)).collect()
}

impl FreestoneSource {
    /// How the scan finds its rows in persistent memory, and what both ways cost.
    fn write_pool_choice(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A read error is reported by the scan, not by its description.
        let Ok(Some(choice)) = pool_choice(&self.scanned.table, &self.request(0)) else { return Ok(()) };
        let chosen = if choice.by_index { "index" } else { "block" };
        write!(f, ", iterator={chosen} (block {:.3} ms", choice.block_ns / 1e6)?;
        if choice.index_ns.is_finite() {
            write!(f, ", index {:.3} ms", choice.index_ns / 1e6)?;
        }
        write!(f, ")")
    }

    pub fn new(
        snapshot: Arc<Snapshot>,
        table: Arc<Table>,
        row_ids: bool,
        projection: Vec<usize>,
        target: usize,
    ) -> Self {
        let stored = text_types::annotated(table.schema.to_arrow(), &table.schema);
        let mut fields: Vec<Arc<Field>> = stored.fields().iter().cloned().collect();
        fields.extend(super::fields::fields(&table.schema));
        if row_ids {
            fields.push(Arc::new(Field::new(ROW_ID_COLUMN, freestone_store::scan::ROW_ID_TYPE, false)));
        }
        let table_schema = Arc::new(Schema::new(fields));
        let partitions = morsels(&table, MORSEL_ROWS).len().clamp(1, target.max(1));
        let schema = project(&table_schema, &projection);
        FreestoneSource {
            scanned: Scanned { snapshot: Some(snapshot), table },
            copied: None,
            table_schema,
            projection,
            schema,
            iterator: None,
            conjuncts: Conjuncts::default(),
            filters: vec![],
            path_filters: vec![],
            key_codes: vec![],
            partitions,
            fetch: None,
            ordered: false,
            is_past: false,
            pieces: None,
            claims: None,
            metrics: ExecutionPlanMetricsSet::new(),
            scan_metrics: Arc::default(),
            gauges: Arc::default(),
        }
    }

    /// The native scan of a plan's node, if it is one.
    pub fn of(node: &Arc<dyn ExecutionPlan>) -> Option<&Self> {
        node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref()
    }

    /// The work of the scan, in zones that it reads or prunes.
    fn work(&self) -> ScanWork {
        let metrics = self.scan_metrics.clone();
        let zones = |rows: u32| u64::from(rows).div_ceil(ZONE_ROWS as u64);
        let total = match &self.pieces {
            Some(pieces) => pieces.iter().map(|piece| zones(piece.rows.end - piece.rows.start)).sum(),
            None => self.scanned.table.segments.iter().map(|segment| zones(segment.rows)).sum(),
        };
        ScanWork { total, done: Box::new(move || metrics.totals().zones) }
    }

    /// The scanned table, which is the table that the query names or a copy of it.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.scanned.table
    }

    /// The table that the query names.
    pub(crate) fn named_table(&self) -> &Arc<Table> {
        self.copied.as_ref().unwrap_or(&self.scanned.table)
    }

    /// The name of the copy that is scanned instead of the table.
    pub(crate) fn copy_name(&self) -> Option<&str> {
        self.copied.as_ref().map(|_| self.scanned.table.name.as_str())
    }

    /// The names of the columns that the scan gives.
    pub(crate) fn column_names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The scan's filters as a condition.
    pub(crate) fn condition(&self) -> Option<String> {
        let filters: Vec<_> = self.filters.iter().map(crate::display::condition).collect();
        (!filters.is_empty()).then(|| filters.join(" AND "))
    }

    /// The position of a scanned column in the table that the query names.
    pub(super) fn named_column(&self, column: usize) -> usize {
        self.scanned.table.copy_of.as_ref().map_or(column, |of| of.columns[column])
    }

    /// The position of a column of the named table in the scanned table, if the latter has the column.
    pub(super) fn scanned_column(&self, column: usize) -> Option<usize> {
        match &self.scanned.table.copy_of {
            Some(of) => of.columns.binary_search(&column).ok(),
            None => Some(column),
        }
    }

    fn named_filter(&self, filter: &Arc<dyn RowFilter>) -> Arc<dyn RowFilter> {
        match &self.scanned.table.copy_of {
            Some(of) => Arc::new(Renumbered::new(filter.clone(), &of.columns)),
            None => filter.clone(),
        }
    }

    /// The same scan on a copy of its table; `None` if the copy lacks a column, or the scan needs the table itself.
    pub(super) fn on_copy(&self, copy: &Arc<Table>) -> Result<Option<Self>> {
        let (Some(of), Some(snapshot)) = (&copy.copy_of, &self.scanned.snapshot) else { return Ok(None) };
        if self.ordered || self.copied.is_some() || !self.conjuncts.dynamic.is_empty() {
            return Ok(None);
        }
        let place = |column: usize| of.columns.binary_search(&column).ok();
        let tested = self.filters.iter().flat_map(collect_columns).map(|column| column.index());
        let projection: Option<Vec<usize>> = self.projection.iter().map(|column| place(*column)).collect();
        let (Some(projection), true) = (projection, tested.map(place).all(|place| place.is_some())) else {
            return Ok(None);
        };
        let mut source = FreestoneSource::new(snapshot.clone(), copy.clone(), false, projection, 1);
        (source.copied, source.partitions, source.fetch) = (Some(self.table().clone()), self.partitions, self.fetch);
        (source.is_past, source.iterator) = (self.is_past, self.iterator);
        // A copy has no CHECKs, which say what types its texts are of.
        source.table_schema = text_types::annotated(source.table_schema, &self.table().schema);
        source.schema = text_types::annotated(source.schema, &self.table().schema);
        for filter in &self.filters {
            source
                .add_table_filter(remap(filter, |column| place(column).expect("the copy has all that is tested"))?)?;
        }
        source.find_key_codes()?;
        Ok(Some(source))
    }

    /// The bytes of the pages that the scan is expected to read if `selected` rows pass its filters.
    pub(super) fn expected_bytes(&self, selected: f64) -> Result<f64> {
        expected_bytes(&self.scanned.table, &self.request(0), selected)
            .map_err(|error| DataFusionError::External(Box::new(error)))
    }

    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.scanned.snapshot.as_deref()
    }

    /// The output columns by position among the stored columns; the row id follows the last one.
    pub(crate) fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// The predicates that every returned row satisfies, in addition to the row filters.
    pub(super) fn predicates(&self) -> &[ColumnPredicate] {
        &self.conjuncts.predicates
    }

    /// The parameters of the scan for the workload log.
    pub(crate) fn asked(&self, output: Output) -> TableReads {
        let row_id = self.row_id_column();
        let all = &self.scanned.table.schema;
        let named = |columns: &[usize]| -> Vec<usize> { columns.iter().map(|c| self.named_column(*c)).collect() };
        // Fields of structs count as their columns, and tests of them as none.
        let is_column = |column: &usize| *column < all.columns.len();
        let read = self.projection.iter().filter(|c| **c != row_id).map(|c| all.column_of(*c));
        let mut columns: Vec<usize> = read.collect();
        let mut seen = std::collections::HashSet::new();
        columns.retain(|column| seen.insert(*column));
        let predicates = self.conjuncts.predicates.iter().filter(|p| is_column(&p.column)).cloned();
        let row_filters = self.conjuncts.row_filters.iter().filter(|filter| filter.columns().iter().all(is_column));
        let order = if self.ordered { self.scanned.table.design.sort_columns(all) } else { vec![] };
        TableReads {
            table: self.named_table().clone(),
            scanned: self.scanned.table.clone(),
            columns: named(&columns),
            predicates: predicates.map(|p| ColumnPredicate { column: self.named_column(p.column), ..p }).collect(),
            row_filters: row_filters.map(|filter| self.named_filter(filter)).collect(),
            is_partial: self.fetch.is_some() || !self.conjuncts.dynamic.is_empty(),
            paths: InKeys::path_tests(&self.scanned.table, &self.filters).into_iter().map(AskedPath::known).collect(),
            order: named(&order),
            output,
            metrics: self.scan_metrics.clone(),
        }
    }

    /// The same scan with zones pruned by codes of dimensions.
    pub(super) fn with_path_filters(&self, path_filters: Vec<PathFilter>) -> Self {
        FreestoneSource { path_filters, ..self.clone() }
    }

    /// The same scan without the state of one run: it pins no files.
    pub fn detached(&self) -> Self {
        let mut source = self.clone();
        if !self.is_past {
            source.scanned.snapshot = None;
        }
        source
    }

    /// The same scan of some parts of its table, which do not overlap.
    pub(crate) fn of_pieces(&self, mut pieces: Vec<Piece>, claims: Option<Arc<Claims>>) -> Self {
        pieces.sort_unstable_by_key(|piece| (piece.segment, piece.rows.start));
        FreestoneSource { pieces: Some(pieces.into()), claims, ..self.clone() }
    }

    /// The parts into which several processes may divide the table: its segments, or their morsels if `is_fine`.
    pub(crate) fn parts(&self, is_fine: bool) -> Vec<Piece> {
        let table = self.table();
        let rows = if is_fine { MORSEL_ROWS } else { u32::MAX as usize };
        morsels(table, rows).into_iter().map(|morsel| Piece { segment: morsel.segment, rows: morsel.rows }).collect()
    }

    /// Whether the rows of parts of the table, taken together, are those of the scan.
    pub(crate) fn is_divisible(&self) -> bool {
        self.is_plain() && !self.is_past && self.pieces.is_none()
    }

    /// The scan of one run, on its snapshot, from a scan made by [`FreestoneSource::detached`].
    pub fn attached(&self, snapshot: &Arc<Snapshot>) -> Self {
        let mut source = self.clone();
        if !self.is_past {
            source.scanned.snapshot = Some(snapshot.clone());
        }
        source.metrics = ExecutionPlanMetricsSet::new();
        source.scan_metrics = Arc::default();
        source.gauges = Arc::default();
        source
    }

    /// The same scan with fields of structs as columns, and the expressions above it on these columns; `None` if they
    /// name no fields.
    pub(super) fn reading_fields(&self, expressions: &[Arc<dyn PhysicalExpr>]) -> Result<Option<ReadingFields>> {
        let schema = &self.scanned.table.schema;
        let mut places: Vec<usize> = vec![];
        let mut fields: Vec<Field> = vec![];
        let mut any = false;
        let mut place = |at: usize, field: Field| {
            places.iter().position(|known| *known == at).unwrap_or_else(|| {
                places.push(at);
                fields.push(field);
                places.len() - 1
            })
        };
        let mut replaced = |expression: Arc<dyn PhysicalExpr>| {
            let on_table = remap(&expression, |index| self.projection[index])?;
            let column = expression.downcast_ref::<Column>();
            let (at, field) = match (column, stored_column(&on_table, schema)) {
                (Some(column), _) => (self.projection[column.index()], self.schema.field(column.index()).clone()),
                (None, Some(at)) => {
                    any = true;
                    (at, self.table_schema.field(at).clone())
                }
                (None, None) => return Ok(Transformed::no(expression)),
            };
            let name = field.name().clone();
            let new = Arc::new(Column::new(&name, place(at, field))) as Arc<dyn PhysicalExpr>;
            Ok(Transformed::new(new, true, TreeNodeRecursion::Jump))
        };
        let expressions = expressions
            .iter()
            .map(|expression| Ok(expression.clone().transform_down(&mut replaced)?.data))
            .collect::<Result<Vec<_>>>()?;
        if !any || places.contains(&self.row_id_column()) {
            return Ok(None);
        }
        let more = places.len().saturating_sub(self.projection.len());
        let expressions = expressions.into_iter().map(|expression| behind(expression, more)).collect::<Result<_>>()?;
        let source = FreestoneSource { projection: places, schema: Arc::new(Schema::new(fields)), ..self.clone() };
        Ok(Some((source, expressions)))
    }

    /// Adds a filter on the table's columns, which is applied exactly.
    pub fn add_table_filter(&mut self, filter: Arc<dyn PhysicalExpr>) -> Result<()> {
        let of_fields = with_fields(&filter, &self.scanned.table.schema)?;
        self.conjuncts.add(&of_fields, &self.table_schema, &self.scanned)?;
        self.filters.push(filter);
        Ok(())
    }

    /// Prunes by the foreign keys in the filters so far, if the table is clustered by attributes of the referenced
    /// tables.
    pub fn find_key_codes(&mut self) -> Result<()> {
        if let Some(snapshot) = &self.scanned.snapshot {
            self.key_codes = code_filters(snapshot, &self.scanned.table, &self.conjuncts.predicates)?;
        }
        Ok(())
    }

    /// Pins the table's files while a run reads them.
    pub(crate) fn shared_snapshot(&self) -> Option<Arc<Snapshot>> {
        self.scanned.snapshot.clone()
    }

    /// Whether the scan returns all rows that satisfy its filters, in any order, without row ids.
    pub(super) fn is_plain(&self) -> bool {
        !self.ordered && self.fetch.is_none() && !self.projection.contains(&self.row_id_column())
    }

    /// Whether this is a scan of an earlier version than the statement's snapshot.
    pub(crate) fn is_past(&self) -> bool {
        self.is_past
    }

    /// Sets how the session wants rows to be found.
    pub(super) fn set_iterator(&mut self, iterator: Option<IteratorKind>) {
        self.iterator = iterator;
    }

    pub(super) fn set_past(&mut self, is_past: bool) {
        self.is_past = is_past;
    }

    /// Whether rows come in the order of the table's sort.
    pub(super) fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Whether the scan returns all rows of the table.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_plain() && self.filters.is_empty() && self.path_filters.is_empty()
    }

    /// Whether the executor can run the scan: it returns all rows that satisfy its filters, or the first ones of them.
    pub(crate) fn is_fusable(&self) -> bool {
        !self.ordered && !self.projection.contains(&self.row_id_column())
    }

    /// The rows that are wanted, if not all.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.fetch
    }

    /// Whether a stored column has a NULL, and its least and greatest integer.
    pub(crate) fn nulls_and_bounds(&self, column: usize) -> NullsAndBounds {
        let (nulls, bounds) = nulls_and_bounds(self.table(), column);
        (nulls, bounds.filter(|_| has_int_bounds(self.table().schema.stored_type(column))))
    }

    /// About how many distinct values an output column has without filters.
    pub(crate) fn distinct(&self, column: usize) -> Option<u64> {
        distinct(self.table(), *self.projection.get(column)?)
    }

    /// The most texts of a dictionary of a column, if all its values are in dictionaries.
    pub(crate) fn dictionary_texts(&self, column: usize) -> Option<usize> {
        let table = self.table();
        if form_of(table.schema.stored_type(column)) != Form::Text {
            return None;
        }
        let of_segment = |at| Some(table.open_segment(at).ok()?.dictionary(column)?.dictionary_len());
        (0..table.segments.len()).map(of_segment).try_fold(0, |most, texts| Some(most.max(texts?)))
    }

    pub(crate) fn output_schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The scan as a source of the executor.
    pub(crate) fn executed(&self, threads: usize) -> Result<Scan> {
        self.register_gauges();
        let (table, request) = (self.scanned.table.clone(), Arc::new(self.request(0)));
        Ok(Scan::new(table, request, self.queue(threads)?, self.scan_metrics.clone()))
    }

    /// How many columns the predicates look at.
    pub(crate) fn tested_columns(&self) -> usize {
        let of_filters = self.conjuncts.row_filters.iter().map(|filter| filter.columns().len());
        self.conjuncts.predicates.len() + of_filters.sum::<usize>()
    }

    /// The estimated number of rows that satisfy the filters.
    pub(crate) fn estimated_rows(&self) -> usize {
        let (projection, row_filters) = (&self.projection[..0], self.conjuncts.row_filters.len());
        let all = statistics(&self.scanned.table, projection, &self.conjuncts.predicates, row_filters);
        all.num_rows.get_value().copied().unwrap_or(0)
    }

    /// A cursor for one partition.
    pub(super) fn cursor(&self, batch_rows: usize) -> Cursor {
        self.register_gauges();
        Cursor::new(self.scanned.table.clone(), Arc::new(self.request(batch_rows)), self.scan_metrics.clone())
    }

    pub fn set_fetch(&mut self, fetch: Option<usize>) {
        self.fetch = fetch;
    }

    fn row_id_column(&self) -> usize {
        self.scanned.table.schema.stored_count()
    }

    fn request(&self, batch_rows: usize) -> ScanRequest {
        let row_id = self.row_id_column();
        ScanRequest {
            projection: self.projection.iter().copied().filter(|c| *c != row_id).collect(),
            row_ids: self.projection.contains(&row_id),
            predicates: self.conjuncts.predicates.clone(),
            codes: self.path_filters.iter().map(|f| &f.codes).chain(&self.key_codes).cloned().collect(),
            row_filters: self.conjuncts.row_filters.clone(),
            dynamic: self.conjuncts.dynamic.clone(),
            batch_rows,
            iterator: self.iterator,
        }
    }

    /// The morsels that are left after zone pruning. The first call sets the counters of the table's zones and pages.
    pub(super) fn surviving_morsels(&self) -> Result<Vec<Morsel>> {
        let ignored = ScanMetrics::default();
        let metrics = if self.scan_metrics.begin() { self.scan_metrics.as_ref() } else { &ignored };
        let is_wanted = |segment: usize| {
            let pieces = self.pieces.as_ref();
            pieces.is_none_or(|pieces| pieces.binary_search_by_key(&segment, |piece| piece.segment).is_ok())
        };
        let mut morsels = surviving_morsels_of(&self.scanned.table, &self.request(0), MORSEL_ROWS, metrics, is_wanted)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        if let Some(pieces) = &self.pieces {
            // They are in the order of the table.
            morsels.retain(|morsel| {
                let end = (morsel.segment, morsel.rows.end);
                let at = pieces.partition_point(|piece| (piece.segment, piece.rows.end) < end);
                pieces.get(at).is_some_and(|piece| piece.has(morsel))
            });
        }
        Ok(morsels)
    }

    /// The morsels that are left, for threads that share them in any order.
    pub(super) fn queue(&self, threads: usize) -> Result<Arc<MorselQueue>> {
        let morsels = self.surviving_morsels()?;
        Ok(match &self.claims {
            Some(claims) => claims.queue(morsels, threads),
            None => Arc::new(MorselQueue::new(morsels, threads)),
        })
    }

    /// The morsels of one partition if the order matters: a contiguous share.
    fn share(&self, partition: usize) -> Result<Vec<Morsel>> {
        let morsels = self.surviving_morsels()?;
        let morsels = match &self.claims {
            Some(claims) => claims.closed(morsels),
            None => morsels,
        };
        let (from, to) =
            (morsels.len() * partition / self.partitions, morsels.len() * (partition + 1) / self.partitions);
        Ok(morsels[from..to].to_vec())
    }

    fn stream(&self, partition: usize, queue: Arc<MorselQueue>, context: &TaskContext) -> SendableRecordBatchStream {
        let in_order = self
            .projection
            .iter()
            .position(|c| *c == self.row_id_column())
            .is_none_or(|at| at + 1 == self.projection.len());
        debug_assert!(in_order, "the row id is the last column of a projection");
        let batch_rows = context.session_config().batch_size();
        let is_of_one_length = |kind: &DataType| kind.is_primitive() || *kind == DataType::Boolean;
        let has_texts = self.schema.fields().iter().any(|field| !is_of_one_length(field.data_type()));
        Box::pin(ScanStream {
            _snapshot: self.scanned.snapshot.clone(),
            pieces: Pieces::new(Morsels::new(queue), has_texts, batch_rows),
            has_texts,
            cursor: self.cursor(batch_rows),
            schema: self.schema.clone(),
            rows_left: self.fetch,
            compacts: batch_rows < ROWS_OF_PLENTY,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            done: false,
        })
    }

    /// Registers the counters of the store's scan as metrics of the plan.
    fn register_gauges(&self) {
        let mut gauges = self.gauges.lock();
        if gauges.is_empty() {
            let names = self.scan_metrics.totals().list();
            gauges.extend(
                names.into_iter().map(|(name, _)| (name, MetricBuilder::new(&self.metrics).global_gauge(name))),
            );
        }
    }

    /// The projected prefix of the table's sort columns, if all rows are in this order.
    fn sorted_output(&self) -> Option<Vec<PhysicalSortExpr>> {
        let sort = self.scanned.table.design.sort_columns(&self.scanned.table.schema);
        // A clustered table is sorted only within the groups of equal keys.
        let clustered = !self.scanned.table.design.cluster.is_empty();
        if sort.is_empty() || clustered || !globally_sorted(&self.scanned.table, &sort) {
            return None;
        }
        let expression = |column: &usize| {
            let at = self.projection.iter().position(|c| c == column)?;
            let column = Arc::new(Column::new(self.schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
            let options = datafusion::arrow::compute::SortOptions { descending: false, nulls_first: false };
            Some(PhysicalSortExpr::new(column, options))
        };
        Some(sort.iter().map_while(expression).collect::<Vec<_>>()).filter(|s| !s.is_empty())
    }
}

/// A scan with fields of structs as columns, and the expressions on its columns.
pub(super) type ReadingFields = (FreestoneSource, Vec<Arc<dyn PhysicalExpr>>);

/// Whether each segment is sorted, and its first sort column starts after the end of the previous segment.
fn globally_sorted(table: &Table, sort: &[usize]) -> bool {
    let mut last: Option<i128> = None;
    for at in 0..table.segments.len() {
        let Some(first) = first_sort_column(table, at, sort) else { return false };
        if table.segments.len() == 1 {
            return true;
        }
        if !first.has_numbers || first.has_nulls {
            return false;
        }
        let Some((low, high)) = first.range else { continue };
        if last.is_some_and(|last| low <= last) {
            return false;
        }
        last = Some(high);
    }
    true
}

/// The first sort column of a segment.
struct FirstSortColumn {
    has_numbers: bool,
    has_nulls: bool,
    range: Option<(i128, i128)>,
}

/// The first of the columns by which a segment is sorted, if it is sorted by these: by the commit, or else by the footer.
fn first_sort_column(table: &Table, at: usize, sort: &[usize]) -> Option<FirstSortColumn> {
    let entry = table.segments.get(at).filter(|entry| entry.is_in_file())?;
    if let (Some(summary), Some(column)) = (entry.summary(), table.column_summary(at, sort[0])) {
        let is_sorted = summary.sort.iter().copied().eq(sort.iter().map(|column| table.schema.id(*column)));
        let (has_numbers, has_nulls, range) = (column.has_numbers(), column.nulls() > 0, column.range());
        return is_sorted.then_some(FirstSortColumn { has_numbers, has_nulls, range });
    }
    let segment = table.open_segment(at).ok()?;
    let description = &segment.footer.description;
    let is_sorted = description.design.sort_columns(&description.schema) == sort;
    let zones = &segment.footer.zones[sort[0]];
    let (has_numbers, has_nulls) = (matches!(zones.bounds, Bounds::Int(_)), zones.nulls.iter().any(|n| *n > 0));
    let first = FirstSortColumn { has_numbers, has_nulls, range: zones.range() };
    Some(first).filter(|_| is_sorted && description.design.cluster.is_empty())
}

/// The plan with its native scans replaced, from left to right, if `change` returns another one.
pub(crate) fn with_sources(
    plan: Arc<dyn ExecutionPlan>,
    mut change: impl FnMut(&FreestoneSource) -> Option<FreestoneSource>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_up(|node| {
        Ok(match FreestoneSource::of(&node).and_then(&mut change) {
            Some(source) => Transformed::yes(DataSourceExec::from_data_source(source) as _),
            None => Transformed::no(node),
        })
    })?;
    Ok(changed.data)
}

/// The native scans of a plan, from left to right.
pub(crate) fn sources(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<FreestoneSource>> {
    let mut found = vec![];
    // Scans have no inputs, so this visits them in the same order as `with_sources`.
    plan.apply(|node| {
        found.extend(FreestoneSource::of(node).cloned());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The plan with another scan in the place of one of its native scans.
pub(crate) fn with_source(
    plan: Arc<dyn ExecutionPlan>,
    scan: usize,
    source: FreestoneSource,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (mut places, mut source) = (0.., Some(source));
    with_sources(plan, |_| source.take_if(|_| places.next() == Some(scan)))
}

fn project(schema: &Schema, projection: &[usize]) -> SchemaRef {
    Arc::new(Schema::new(projection.iter().map(|c| schema.fields()[*c].clone()).collect::<Vec<_>>()))
}

impl DataSource for FreestoneSource {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let queue = Arc::new(MorselQueue::new(self.share(partition)?, 1));
        Ok(self.stream(partition, queue, &context))
    }

    fn create_sibling_state(&self, _: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        if self.ordered {
            return None;
        }
        // An error occurs again, and is reported, when the partitions are opened.
        Some(self.queue(self.partitions).ok()?)
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let queue = args.sibling_state.and_then(|state| state.downcast::<MorselQueue>().ok());
        match queue {
            Some(queue) => Ok(self.stream(args.partition, queue, &args.context)),
            None => self.open(args.partition, args.context),
        }
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let condition = self.condition();
        if t == DisplayFormatType::TreeRender {
            writeln!(f, "table={}", self.named_table().name)?;
            return condition.map_or(Ok(()), |condition| writeln!(f, "filter={condition}"));
        }
        write!(f, "freestone table={}", self.named_table().name)?;
        if let Some(copy) = self.copy_name() {
            write!(f, ", copy={copy}")?;
        }
        if let Some(persistence) = self.scanned.table.persistence() {
            write!(f, ", medium=pmem ({})", persistence.name())?;
            self.write_pool_choice(f)?;
        }
        write!(f, ", columns=[{}]", self.column_names().join(", "))?;
        write!(f, ", segments={}, partitions={}", self.scanned.table.segments.len(), self.partitions)?;
        if let Some(condition) = condition {
            write!(f, ", filter={condition}")?;
        }
        if !self.path_filters.is_empty() {
            let words: Vec<_> = self.path_filters.iter().map(|f| f.words.as_str()).collect();
            write!(f, ", clustered={}", words.join(" AND "))?;
        }
        // A read error is reported by the scan, not by its description.
        if let Ok(Some(key)) = index_asked(&self.scanned.table, &self.request(0)) {
            let names: Vec<_> = key.iter().map(|c| self.scanned.table.schema.columns[*c].name.as_str()).collect();
            write!(f, ", index=[{}]", names.join(", "))?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        if self.ordered { write!(f, ", ordered") } else { Ok(()) }
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let ordering = self.sorted_output().filter(|_| self.ordered).and_then(LexOrdering::new);
        EquivalenceProperties::new_with_orderings(self.schema.clone(), ordering)
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let row_filters = self.conjuncts.row_filters.len();
        let mut all = statistics(&self.scanned.table, &self.projection, &self.conjuncts.predicates, row_filters);
        if !self.path_filters.is_empty() {
            all = all.to_inexact();
        }
        of_partition(all, partition, self.partitions, self.fetch)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let mut source = self.clone();
        source.fetch = limit;
        Some(Arc::new(source))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        let totals = self.scan_metrics.totals().list();
        for ((_, gauge), (_, value)) in self.gauges.lock().iter().zip(totals) {
            gauge.set(value as usize);
        }
        self.metrics.clone()
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        let (mut columns, mut fields) = (vec![], vec![]);
        for e in projection.iter() {
            match e.expr.downcast_ref::<Column>() {
                Some(c) if c.name() == e.alias => {
                    columns.push(self.projection[c.index()]);
                    fields.push(self.schema.field(c.index()).clone());
                }
                Some(_) => return Ok(None),
                None => {
                    let on_table = remap(&e.expr, |index| self.projection[index])?;
                    let Some(at) = stored_column(&on_table, &self.scanned.table.schema) else { return Ok(None) };
                    columns.push(at);
                    fields.push(self.table_schema.field(at).clone().with_name(&e.alias));
                }
            }
        }
        // The store returns each column once, and the row id last.
        let mut once = columns.clone();
        once.sort_unstable();
        once.dedup();
        let row_id = columns.iter().position(|c| *c == self.row_id_column());
        if once.len() != columns.len() || row_id.is_some_and(|at| at + 1 != columns.len()) {
            return Ok(None);
        }
        let mut source = self.clone();
        source.schema = Arc::new(Schema::new(fields));
        source.projection = columns;
        Ok(Some(Arc::new(source)))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let mut source = self.clone();
        let mut pushed = vec![];
        for filter in &filters {
            let on_table = remap(filter, |index| self.projection[index])?;
            let on_row_id = collect_columns(&on_table).iter().any(|c| c.index() == self.row_id_column());
            // A filter above a limit would see other rows than one below it.
            if on_row_id || self.fetch.is_some() {
                pushed.push(PushedDown::No);
            } else {
                source.add_table_filter(on_table)?;
                pushed.push(PushedDown::Yes);
            }
        }
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(pushed).with_updated_node(Arc::new(source) as _))
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        match self.sorted_output() {
            Some(sorted)
                if sorted.len() >= order.len() && sorted.iter().zip(order).all(|(have, want)| have == want) =>
            {
                let mut source = self.clone();
                source.ordered = true;
                Ok(SortOrderPushdownResult::Exact { inner: Arc::new(source) })
            }
            _ => Ok(SortOrderPushdownResult::Unsupported),
        }
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in &self.filters {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// An expression over rows with more columns than before. The parameters of lambdas are behind all columns.
fn behind(expression: Arc<dyn PhysicalExpr>, more: usize) -> Result<Arc<dyn PhysicalExpr>> {
    if more == 0 {
        return Ok(expression);
    }
    let moved = expression.transform_up(|part| match part.downcast_ref::<LambdaVariable>() {
        Some(variable) => {
            let variable = LambdaVariable::new(variable.index() + more, variable.field().clone());
            Ok(Transformed::yes(Arc::new(variable) as _))
        }
        None => Ok(Transformed::no(part)),
    })?;
    Ok(moved.data)
}
