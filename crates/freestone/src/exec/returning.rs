//! RETURNING: expressions over the rows that a statement has written or deleted.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast;
use freestone_store::Snapshot;
use freestone_store::schema::TableSchema;

use crate::catalog::{Scope, TARGET};
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::write::WriteContext;
use crate::inputs::ArrowTable;
use crate::planning;
use crate::sql::names::identifier;
use crate::sql::parameters::Parameters;
use crate::sql::statement::{parse_query, quote};
use crate::sql::{names, visitor};
use crate::times;

/// The expressions of a RETURNING, and the name by which they refer to the table.
pub(crate) struct Returning {
    items: Vec<ast::SelectItem>,
    alias: String,
    /// The order of a query that locks its rows.
    order: Option<ast::OrderBy>,
}

impl Returning {
    /// Removes the clause from a statement.
    pub fn take(items: &mut Option<Vec<ast::SelectItem>>, alias: &str) -> Option<Returning> {
        items.take().map(|items| Returning { items, alias: alias.to_owned(), order: None })
    }

    /// The same in an order.
    pub fn ordered(mut self, order: Option<ast::OrderBy>) -> Returning {
        self.order = order;
        self
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
        let mut query = parse_query(&format!("SELECT {items} FROM {} AS {}", quote(TARGET), quote(&self.alias)))?;
        query.order_by = self.order;
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
        let Returned { schema, batches } = self.batches(context, snapshot, parameters, schema, written)?;
        Ok(outcome(context, schema, batches))
    }

    /// The rows that a MERGE gives, by what it has done with them. `merge_action` and `merge_action()` say that.
    pub fn rows_of_merge(
        self,
        context: &WriteContext,
        snapshot: &Arc<Snapshot>,
        parameters: &Parameters,
        schema: &TableSchema,
        groups: [(&str, Vec<RecordBatch>); 3],
    ) -> Result<Outcome> {
        let mut all: Option<Returned> = None;
        for (action, rows) in groups {
            let items = self.items.iter().map(|item| with_action(item.clone(), action)).collect();
            let returning = Returning { items, alias: self.alias.clone(), order: None };
            let Returned { schema, batches } =
                returning.batches(context, snapshot.clone(), parameters, schema, rows)?;
            all.get_or_insert_with(|| Returned { schema, batches: vec![] }).batches.extend(batches);
        }
        let rows = all.ok_or_else(|| Error::new(ErrorKind::Internal, "internal error: a MERGE without clauses"))?;
        Ok(outcome(context, rows.schema, rows.batches))
    }

    fn batches(
        self,
        context: &WriteContext,
        snapshot: Arc<Snapshot>,
        parameters: &Parameters,
        schema: &TableSchema,
        written: Vec<RecordBatch>,
    ) -> Result<Returned> {
        let (scope, query) = self.query(Scope::new(snapshot), schema, written)?;
        let (mut state, plan) = context.plan(&scope, query, parameters)?;
        planning::keep_order_of_rows(&mut state);
        let schema = context.schema_of(&state, &plan)?;
        let batches = context.run(&state, &plan)?.collect::<Result<Vec<_>>>()?;
        Ok(Returned { schema: batches.first().map_or(schema, RecordBatch::schema), batches })
    }

    /// The same list for an action of MERGE.
    pub fn with_action(mut self, action: &str) -> Returning {
        self.items = self.items.into_iter().map(|item| with_action(item, action)).collect();
        self
    }
}

struct Returned {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

/// Rows that a statement returns, under the names and in the time zone of users.
pub(crate) fn outcome(context: &WriteContext, schema: SchemaRef, batches: Vec<RecordBatch>) -> Outcome {
    let batches = futures::stream::iter(batches.into_iter().map(Ok));
    let rows: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
    let stream = times::in_zone_of_session(names::shown_rows(rows), context.planner().settings().config_options());
    Outcome::Rows { schema: stream.schema(), stream }
}

/// An item in which `merge_action` and `merge_action()` are a text.
fn with_action(mut item: ast::SelectItem, action: &str) -> ast::SelectItem {
    const NAME: &str = "merge_action";
    let is_action = |expr: &ast::Expr| match expr {
        ast::Expr::Identifier(name) => identifier(name) == NAME,
        ast::Expr::Function(call) => call.name.to_string().eq_ignore_ascii_case(NAME),
        _ => false,
    };
    let text = || ast::Expr::value(ast::Value::SingleQuotedString(action.to_owned()));
    if let ast::SelectItem::UnnamedExpr(expr) = &item
        && is_action(expr)
    {
        return ast::SelectItem::ExprWithAlias { expr: text(), alias: ast::Ident::with_quote('"', NAME) };
    }
    if let ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } = &mut item {
        visitor::own_expressions_mut(expr, &mut |part| {
            if is_action(part) {
                *part = text();
            }
        });
    }
    item
}
