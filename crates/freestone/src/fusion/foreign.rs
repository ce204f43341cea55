//! Expressions that DataFusion evaluates, as functions of a program.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use freestone_exec::convert::{from_arrow, to_arrow};
use freestone_exec::error::ExecError;
use freestone_exec::program::Foreign;
use freestone_exec::vector::Vector;

use crate::expressions::physical::remap;
use crate::expressions::pieces::searched;

/// An expression over some columns of a batch.
#[derive(Debug)]
pub(super) struct Expression {
    expression: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    schema: SchemaRef,
    data_type: DataType,
}

impl Expression {
    /// `e` is over the columns of `schema`.
    pub fn new(e: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<Self> {
        let mut found = BTreeSet::new();
        e.apply(|part| {
            found.extend(part.downcast_ref::<Column>().map(Column::index));
            Ok(TreeNodeRecursion::Continue)
        })?;
        let columns: Vec<usize> = found.into_iter().collect();
        let place = |index| columns.iter().position(|column| *column == index).unwrap_or(index);
        let expression = searched(remap(e, place)?)?;
        let data_type = e.data_type(schema)?;
        let schema = Arc::new(Schema::new(schema.project(&columns)?.fields().clone()));
        Ok(Expression { expression, columns, schema, data_type })
    }

    /// The columns that it needs.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The type of its values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn values(&self, inputs: &[Vector], rows: usize) -> Result<Vector> {
        let fields = self.schema.fields().iter();
        let arrays = inputs.iter().zip(fields).map(|(input, field)| to_arrow(input, field.data_type()));
        let arrays = arrays.collect::<Result<Vec<_>, ExecError>>().map_err(external)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        Ok(from_arrow(&self.expression.evaluate(&batch)?.into_array(rows)?))
    }
}

impl Foreign for Expression {
    fn evaluate(&self, inputs: &[Vector], rows: usize) -> Result<Vector, ExecError> {
        self.values(inputs, rows).map_err(ExecError::foreign)
    }

    fn is_pure(&self) -> bool {
        true
    }
}

/// An error of the executor as one of DataFusion's.
pub(super) fn external(error: ExecError) -> DataFusionError {
    match error {
        ExecError::Foreign(error) => match error.downcast::<DataFusionError>() {
            Ok(error) => *error,
            Err(error) => DataFusionError::External(error),
        },
        ExecError::Store(error) => DataFusionError::External(Box::new(error)),
        ExecError::Cancelled => crate::error::Error::cancelled().into(),
    }
}
