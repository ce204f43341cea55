//! The rows of the step before, as a table that a recursive term reads.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{ReplaceChildrenOptions, SchedulingType};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use parking_lot::Mutex;

use super::one_partition;

/// The table in a plan. Which query's it is, its name says.
#[derive(Debug)]
pub(crate) struct WorkingTable {
    pub name: String,
    schema: SchemaRef,
}

impl WorkingTable {
    pub fn new(name: &str, schema: SchemaRef) -> WorkingTable {
        WorkingTable { name: name.to_owned(), schema }
    }
}

#[async_trait]
impl TableProvider for WorkingTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let properties = Arc::new(one_partition(schema.clone()).with_scheduling_type(SchedulingType::Cooperative));
        Ok(Arc::new(WorkingScanExec { name: self.name.clone(), rows: None, columns, schema, properties }))
    }
}

/// The rows of the step before.
#[derive(Debug, Default)]
pub(crate) struct WorkingRows(pub Mutex<Vec<RecordBatch>>);

/// A scan of them.
#[derive(Debug, Clone)]
pub(crate) struct WorkingScanExec {
    name: String,
    /// `None` before it is known which recursive query's they are.
    rows: Option<Arc<WorkingRows>>,
    columns: Vec<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl WorkingScanExec {
    /// The positions of the columns that are read.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether these are the rows.
    pub fn reads(&self, rows: &Arc<WorkingRows>) -> bool {
        self.rows.as_ref().is_some_and(|own| Arc::ptr_eq(own, rows))
    }

    /// The same scan of these rows, if it is one of the query of this name and nobody's yet.
    pub fn of(&self, name: &str, rows: &Arc<WorkingRows>) -> Option<WorkingScanExec> {
        let is_of = self.rows.is_none() && self.name == name;
        is_of.then(|| WorkingScanExec { rows: Some(rows.clone()), ..self.clone() })
    }
}

impl DisplayAs for WorkingScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkingScanExec: name={}", self.name)
    }
}

impl ExecutionPlan for WorkingScanExec {
    fn name(&self) -> &str {
        "WorkingScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(rows) = self.rows.as_ref().filter(|_| partition == 0) else {
            return internal_err!("the rows of {} are read outside of their recursive query", self.name);
        };
        let rows = rows.0.lock().clone();
        let rows = rows.iter().map(|batch| Ok(batch.project(&self.columns)?)).collect::<Result<Vec<_>>>()?;
        Ok(Box::pin(cooperative(MemoryStream::try_new(rows, self.schema.clone(), None)?)))
    }
}
