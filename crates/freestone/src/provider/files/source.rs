//! The scan of files as a DataFusion `DataSource`.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

use super::ahead::Ahead;
use super::assembly::Assembly;
use super::counts::{few_values, rows};
use super::filters::Filters;
use super::forms::executed;
use super::morsels::{self, Cut, Queue};
use super::progress::ReadProgress;
use super::pruning::Pruning;
use super::reader::Reader;
use super::scan::{Counters, Scan};
use super::set::FileSet;
use super::statistics::statistics;
use super::stream::{FilesStream, ordered};
use crate::expressions::physical::remap;
use crate::provider::filter::int_key;
use crate::provider::statistics::{NullsAndBounds, has_int_bounds, of_partition};

/// The bytes of files that a single thread reads, in the order of their rows.
const SMALL_BYTES: u64 = 1 << 20;

/// A scan: files, projection, filters, limit, order.
#[derive(Debug, Clone)]
pub(crate) struct FilesSource {
    set: Arc<FileSet>,
    progress: Arc<ReadProgress>,
    projection: Vec<usize>,
    schema: SchemaRef,
    /// The columns of the table with the types in which they are read.
    read: SchemaRef,
    /// The filters on the table's columns.
    filters: Filters,
    /// The maximum number of threads.
    target: usize,
    partitions: usize,
    fetch: Option<usize>,
    /// Whether rows are returned in the order of the files, in one partition.
    ordered: bool,
    metrics: ExecutionPlanMetricsSet,
}

impl FilesSource {
    pub(super) fn new(set: Arc<FileSet>, progress: Arc<ReadProgress>, projection: Vec<usize>, target: usize) -> Self {
        let bytes: u64 = set.files.iter().map(|file| file.bytes).sum();
        let partitions = if bytes <= SMALL_BYTES { 1 } else { morsels::count(&set).clamp(1, target.max(1)) };
        let schema = projected(&set.schema, &projection);
        let (filters, metrics) = (Filters::default(), ExecutionPlanMetricsSet::new());
        let read = set.schema.clone();
        Self {
            set,
            progress,
            projection,
            schema,
            read,
            filters,
            target,
            partitions,
            fetch: None,
            ordered: false,
            metrics,
        }
    }

    /// The scan of a plan's node, if it is a scan of files.
    pub fn of(node: &Arc<dyn ExecutionPlan>) -> Option<&Self> {
        node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref()
    }

    /// Adds a filter on the table's columns. Filters of the query are applied exactly.
    pub fn add_filter(&mut self, filter: &Arc<dyn PhysicalExpr>) {
        self.filters.add(filter);
    }

    pub fn set_fetch(&mut self, fetch: Option<usize>) {
        self.fetch = fetch;
    }

    /// The same scan in the order of the files; `None` if it is ordered already.
    pub fn ordered(&self) -> Option<Self> {
        (self.partitions > 1).then(|| Self { partitions: 1, ordered: true, ..self.clone() })
    }

    /// The same scan in the forms that the executor takes, for the types of its plan.
    pub fn executed(&self) -> Arc<dyn ExecutionPlan> {
        let read = self.set.executed.get_or_init(|| executed(&self.set)).clone();
        let schema = projected(&read, &self.projection);
        DataSourceExec::from_data_source(Self { read, schema, ..self.clone() })
    }

    /// The number of rows without filters, if the files say so.
    pub fn all_rows(&self) -> Option<usize> {
        rows(&self.set).get_value().copied()
    }

    /// About how many values an output column has at most, if they are few.
    pub fn few_values(&self, column: usize) -> Option<usize> {
        few_values(&self.set, self.projection[column])
    }

    /// Whether each output column may be NULL, and its least and greatest integer, as the files say. Nothing may rely on
    /// them unless it has looked at the values.
    pub fn nulls_and_bounds(&self) -> Result<Vec<NullsAndBounds>> {
        let known = |(known, field): (&ColumnStatistics, &FieldRef)| {
            let end = |value: &Precision<ScalarValue>| value.get_value().and_then(int_key);
            let bounds = end(&known.min_value).zip(end(&known.max_value)).filter(|(low, high)| low <= high);
            (known.null_count.get_value() != Some(&0), bounds.filter(|_| has_int_bounds(field.data_type())))
        };
        let all = statistics(&self.set, &self.filters, &self.projection)?;
        Ok(all.column_statistics.iter().zip(self.schema.fields()).map(known).collect())
    }

    /// The parameters of one run.
    fn run(&self, context: &TaskContext) -> Arc<Scan> {
        let counter = |name: &'static str| MetricBuilder::new(&self.metrics).global_counter(name);
        let counters = Counters {
            pruned_groups: counter("row_groups_pruned"),
            pruned_rows: counter("page_rows_pruned"),
            late_groups: counter("row_groups_read_late"),
        };
        let is_elsewhere = self.set.files.iter().any(|file| file.traffic.is_some());
        let ahead = Ahead {
            set: self.set.clone(),
            pool: context.runtime_env().memory_pool.clone(),
            reads_ahead: self.fetch.is_none(),
            columns: vec![],
            counters: is_elsewhere.then(|| (counter("requests"), counter("bytes_requested"))),
            waiting: Default::default(),
        };
        let mut scan = Scan {
            set: self.set.clone(),
            progress: self.progress.clone(),
            filters: self.filters.clone(),
            pruning: Pruning::new(&self.filters.own, &self.set.schema),
            projection: self.projection.clone(),
            schema: self.schema.clone(),
            read: self.read.clone(),
            tested: self.filters.columns(),
            batch_rows: context.session_config().batch_size(),
            measured: Arc::default(),
            counters,
            ahead,
            indexed: self.set.files.iter().map(|_| OnceLock::new()).collect(),
            formed: self.set.files.iter().map(|_| OnceLock::new()).collect(),
            rejects: self.set.reject_sinks(),
        };
        if is_elsewhere {
            let needed = scan.needed();
            let stored = self.set.files.iter().map(|file| Assembly::new(&self.read, file, &needed).stored);
            scan.ahead.columns = stored.collect();
        }
        Arc::new(scan)
    }

    fn stream(&self, partition: usize, shared: &Shared) -> Result<SendableRecordBatchStream> {
        let queue = shared.queue.clone();
        Ok(Box::pin(FilesStream {
            reader: Reader::new(shared.scan.clone(), queue.pool())?,
            queue,
            schema: self.schema.clone(),
            rows_left: self.fetch,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            done: false,
        }))
    }
}

/// The state that the partitions of one run share.
struct Shared {
    scan: Arc<Scan>,
    queue: Arc<Queue>,
}

impl Shared {
    fn new(scan: Arc<Scan>, part: (usize, usize)) -> Self {
        Self { queue: Arc::new(Queue::new(Cut::new(&scan, part))), scan }
    }
}

fn projected(schema: &Schema, projection: &[usize]) -> SchemaRef {
    Arc::new(Schema::new(projection.iter().map(|column| schema.fields()[*column].clone()).collect::<Vec<_>>()))
}

impl DataSource for FilesSource {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = self.run(&context);
        if self.ordered {
            return ordered(&scan, self.target, self.fetch, BaselineMetrics::new(&self.metrics, partition));
        }
        self.stream(partition, &Shared::new(scan, (partition, self.partitions)))
    }

    fn create_sibling_state(&self, _: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        (!self.ordered && self.partitions > 1).then(|| Arc::new(OnceLock::<Shared>::new()) as _)
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        match args.sibling_state.and_then(|state| state.downcast::<OnceLock<Shared>>().ok()) {
            Some(shared) => {
                let shared = shared.get_or_init(|| Shared::new(self.run(&args.context), (0, 1)));
                self.stream(args.partition, shared)
            }
            None => self.open(args.partition, args.context),
        }
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let filters: Vec<_> = self.filters.all().map(crate::display::condition).collect();
        if t == DisplayFormatType::TreeRender {
            writeln!(f, "files={}", self.set.name)?;
            return if filters.is_empty() { Ok(()) } else { writeln!(f, "filter={}", filters.join(" AND ")) };
        }
        write!(f, "{} files={}, count={}", self.set.format.name(), self.set.name, self.set.files.len())?;
        write!(f, ", columns=[{}], partitions={}", columns.join(", "), self.partitions)?;
        if !filters.is_empty() {
            write!(f, ", filter={}", filters.join(" AND "))?;
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
        EquivalenceProperties::new(self.schema.clone())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let all = statistics(&self.set, &self.filters, &self.projection)?;
        of_partition(all, partition, self.partitions, self.fetch)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self { fetch: limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        let mut columns = vec![];
        for e in projection.iter() {
            match e.expr.downcast_ref::<Column>() {
                Some(column) if column.name() == e.alias => columns.push(self.projection[column.index()]),
                _ => return Ok(None),
            }
        }
        let schema = projected(&self.set.schema, &columns);
        Ok(Some(Arc::new(Self { schema, projection: columns, ..self.clone() })))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        // A filter cannot be pushed below a limit, because it would change the limited rows.
        if self.fetch.is_some() {
            let refused = vec![PushedDown::No; filters.len()];
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(refused));
        }
        let mut source = self.clone();
        for filter in &filters {
            source.add_filter(&remap(filter, |column| self.projection[column])?);
        }
        let taken = vec![PushedDown::Yes; filters.len()];
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(taken).with_updated_node(Arc::new(source) as _))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in self.filters.all() {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
