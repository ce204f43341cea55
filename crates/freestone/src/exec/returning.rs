//! RETURNING: expressions over the rows that a statement has written or deleted.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast;
use freestone_store::Snapshot;
use freestone_store::schema::TableSchema;

use crate::catalog::{Scope, TARGET};
use crate::context::Outcome;
use crate::error::Result;
use crate::exec::write::WriteContext;
use crate::inputs::ArrowTable;
use crate::sql::names;
use crate::sql::parameters::Parameters;
use crate::sql::statement::{parse_query, quote};
use crate::times;

/// The expressions of a RETURNING, and the name by which they refer to the table.
pub(crate) struct Returning {
    items: Vec<ast::SelectItem>,
    alias: String,
}

impl Returning {
    /// Removes the clause from a statement.
    pub fn take(items: &mut Option<Vec<ast::SelectItem>>, alias: &str) -> Option<Returning> {
        items.take().map(|items| Returning { items, alias: alias.to_owned() })
    }

    /// The query over rows with the columns of a table.
    pub fn query(self, scope: Scope, schema: &TableSchema, rows: Vec<RecordBatch>) -> Result<(Scope, ast::Statement)> {
        let columns =
            schema.columns.iter().map(|column| Field::new(&column.name, column.data_type.clone(), column.nullable));
        let schema = Arc::new(Schema::new(columns.collect::<Vec<_>>()));
        // Batches of a query can have other column names.
        let named = rows.into_iter().map(|batch| RecordBatch::try_new(schema.clone(), batch.columns().to_vec()));
        let rows = ArrowTable::of_batches(&schema, named.collect::<Result<Vec<_>, _>>()?)?;
        let items = self.items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let query = parse_query(&format!("SELECT {items} FROM {} AS {}", quote(TARGET), quote(&self.alias)))?;
        Ok((scope.with_target_written(rows), ast::Statement::Query(query)))
    }

    /// The result rows of the statement.
    pub fn rows(
        self,
        context: &WriteContext,
        snapshot: Arc<Snapshot>,
        parameters: &Parameters,
        schema: &TableSchema,
        written: Vec<RecordBatch>,
    ) -> Result<Outcome> {
        let (scope, query) = self.query(Scope::new(snapshot), schema, written)?;
        let (mut state, plan) = context.plan(&scope, query, parameters)?;
        // One partition preserves the order of the rows.
        state.config_mut().options_mut().execution.target_partitions = 1;
        let schema = Arc::new(plan.schema().as_arrow().clone());
        let mut rows = vec![];
        for batch in context.run(&state, &plan)? {
            rows.push(batch?);
        }
        let schema = rows.first().map_or(schema, RecordBatch::schema);
        let rows = futures::stream::iter(rows.into_iter().map(Ok));
        let rows: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        let stream = times::in_zone_of_session(names::shown_rows(rows), state.config_options());
        Ok(Outcome::Rows { schema: stream.schema(), stream })
    }
}
