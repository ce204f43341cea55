//! Queries of whole columns of one table. Their rows are returned as they are stored, for sending without decoding.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::ProjectionExec;
use freestone_store::Snapshot;
use freestone_store::nested::is_flat;
use freestone_store::scan::{StoredRows, StoredScan};

use crate::context::{Cancellation, Outcome, Running, guarded_now};
use crate::error::Result;
use crate::provider::FreestoneSource;
use crate::sql::names;
use crate::workload::Watch;

/// The result of a statement for a caller that accepts stored rows.
pub enum Answer {
    /// Rows in stored form.
    Stored(Box<StoredQuery>),
    /// Any other outcome.
    Outcome(Outcome),
}

/// The rows of a query, in the order of the table.
pub struct StoredQuery {
    schema: SchemaRef,
    scan: StoredScan,
    cancellation: Cancellation,
    watch: Option<Watch>,
    running: Option<Running>,
    /// Pins the files of the table.
    _snapshot: Arc<Snapshot>,
}

impl StoredQuery {
    /// The query of a plan, if it returns whole columns of a native table, each once, and does nothing else.
    pub(crate) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        snapshot: &Arc<Snapshot>,
        cancellation: Cancellation,
    ) -> Option<StoredQuery> {
        let mut node = plan;
        let mut places: Vec<usize> = (0..plan.schema().fields().len()).collect();
        while let Some(inner) = passed_on(node, &mut places) {
            node = inner;
        }
        let source = FreestoneSource::of(node)?;
        let columns: Vec<usize> = places.iter().map(|at| source.projection()[*at]).collect();
        let mut once = columns.clone();
        once.sort_unstable();
        once.dedup();
        let is_flat = |column: &usize| is_flat(source.table().schema.stored_type(*column));
        if !columns.iter().all(is_flat) || !source.is_whole() || once.len() != columns.len() || columns.is_empty() {
            return None;
        }
        let scan = StoredScan::new(source.table().clone(), columns);
        Some(StoredQuery {
            schema: names::shown(plan.schema()),
            scan,
            cancellation,
            watch: None,
            running: None,
            _snapshot: source.shared_snapshot().unwrap_or_else(|| snapshot.clone()),
        })
    }

    /// Logs the query after its last row.
    pub(crate) fn watched(self, watch: Option<Watch>) -> Self {
        StoredQuery { watch, ..self }
    }

    /// The query of a statement that runs until the rows are read.
    pub(crate) fn of_running(self, running: Running) -> Self {
        StoredQuery { running: Some(running), ..self }
    }

    /// The columns of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` at the end. This reads pages, so call it on a thread that may block.
    ///
    /// # Errors
    ///
    /// A page cannot be read, or the statement was cancelled.
    pub fn next_rows(&mut self) -> Result<Option<StoredRows>> {
        self.cancellation.check()?;
        let scan = &mut self.scan;
        let rows = guarded_now(|| Ok(scan.next_rows()?))?;
        match (&rows, &self.running) {
            (Some(rows), Some(running)) => running.returned(rows.rows()),
            (None, _) => self.running = None,
            _ => {}
        }
        if rows.is_none()
            && let Some(watch) = self.watch.take()
        {
            watch.end();
        }
        Ok(rows)
    }
}

/// The input of an operator that only selects columns. Its `places` are changed to those of the input.
fn passed_on<'a>(node: &'a Arc<dyn ExecutionPlan>, places: &mut [usize]) -> Option<&'a Arc<dyn ExecutionPlan>> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let columns: Option<Vec<usize>> =
            projection.expr().iter().map(|p| Some(p.expr.downcast_ref::<Column>()?.index())).collect();
        let columns = columns?;
        places.iter_mut().for_each(|at| *at = columns[*at]);
        return Some(projection.input());
    }
    node.downcast_ref::<CooperativeExec>()?;
    node.children().first().copied()
}
