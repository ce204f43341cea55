//! Queries that are whole columns of one table: their rows as they are stored, for whoever ships them on.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::ProjectionExec;
use freestone_store::Snapshot;
use freestone_store::scan::{StoredRows, StoredScan};

use crate::error::Result;
use crate::names;
use crate::provider::FreestoneSource;
use crate::session::{Cancellation, Outcome, guarded_now};
use crate::workload::Watch;

/// What a statement gives back to whoever takes rows as they are stored.
pub enum Answer {
    Stored(Box<StoredQuery>),
    Outcome(Outcome),
}

/// The rows of a query, in the order of the table.
pub struct StoredQuery {
    schema: SchemaRef,
    scan: StoredScan,
    cancellation: Cancellation,
    watch: Option<Watch>,
    /// Keeps the table's files.
    _snapshot: Arc<Snapshot>,
}

impl StoredQuery {
    /// The query that a plan is, if it takes whole columns of a native table, each once, and nothing else.
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
        if !source.is_whole() || once.len() != columns.len() || columns.is_empty() {
            return None;
        }
        let scan = StoredScan::new(source.table().clone(), columns);
        Some(StoredQuery {
            schema: names::shown(plan.schema()),
            scan,
            cancellation,
            watch: None,
            _snapshot: snapshot.clone(),
        })
    }

    /// Logged, once its last row is given.
    pub(crate) fn watched(self, watch: Option<Watch>) -> Self {
        StoredQuery { watch, ..self }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` behind the last. Reads pages, so call it on a thread that may block.
    pub fn next_rows(&mut self) -> Result<Option<StoredRows>> {
        self.cancellation.check()?;
        let scan = &mut self.scan;
        let rows = guarded_now(|| Ok(scan.next_rows()?))?;
        if rows.is_none()
            && let Some(watch) = self.watch.take()
        {
            watch.end();
        }
        Ok(rows)
    }
}

/// The input of an operator that only chooses columns, whose places become those in the input.
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
