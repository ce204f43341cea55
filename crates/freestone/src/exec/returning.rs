//! RETURNING: expressions over the rows that a statement has written or deleted.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::execution::SessionState;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use freestone_sql::tree::{Expr, ExprKind, Literal, ObjectName, OrderBy, Query, SelectItem, each_part, each_part_mut};
use freestone_store::Snapshot;
use freestone_store::schema::TableSchema;

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::row_queries::Target;
use crate::exec::write::WriteContext;
use crate::inputs::ArrowTable;
use crate::planning;
use crate::sql::function_macros::{RENAMED, definitions};
use crate::sql::names;
use crate::sql::parameters::Parameters;
use crate::sql::trees;
use crate::times;

/// The word in RETURNING of MERGE for what was done with a row.
const ACTION: &str = "merge_action";

/// The expressions of a RETURNING, and the name by which they refer to the table.
pub(crate) struct Returning<'t> {
    target: &'t Target<'t>,
    items: Vec<SelectItem>,
    /// The order of a query that locks its rows.
    order: Option<OrderBy>,
}

impl<'t> Returning<'t> {
    /// That of a statement, if it has one.
    pub fn of(target: &'t Target<'t>) -> Option<Returning<'t>> {
        (!target.returning.is_empty()).then(|| Returning { target, items: target.returning.to_vec(), order: None })
    }

    /// The items of a query that locks its rows, and its order.
    pub fn of_items(target: &'t Target<'t>, items: Vec<SelectItem>, order: Option<OrderBy>) -> Returning<'t> {
        Returning { target, items, order }
    }

    /// The query over rows with the columns of a table.
    pub fn query(self, scope: Scope, schema: &TableSchema, rows: Vec<RecordBatch>) -> Result<(Scope, Box<Query>)> {
        let columns =
            schema.columns.iter().map(|column| Field::new(&column.name, column.data_type.clone(), column.nullable));
        let schema = Arc::new(Schema::new(columns.collect::<Vec<_>>()));
        // Batches of a query can have other column names.
        let named = rows.into_iter().map(|batch| RecordBatch::try_new(schema.clone(), batch.columns().to_vec()));
        let rows = ArrowTable::of_batches(&schema, named.collect::<Result<Vec<_>, _>>()?)?;
        let table = self.target.name.clone();
        let mut query = self.target.query_of_returning(self.items);
        query.order_by = self.order;
        Ok((scope.with_target_written(rows, &table), query))
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
            let items = self.items.iter().cloned().map(|item| with_action(item, action)).collect();
            let returning = Returning { target: self.target, items, order: None };
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
        let calls = calls_over_groups(self.target.returning);
        let (scope, query) = self.query(Scope::new(snapshot), schema, written)?;
        let (mut state, plan) = context.plan_made(&scope, &query, parameters)?;
        if let Some(name) = calls.iter().find(|name| is_aggregate(name, &state)) {
            return Err(Error::invalid(format!("RETURNING gives a row for each row, and {name} is an aggregate"))
                .with_hint("WITH w AS (INSERT … RETURNING *) SELECT sum(a) FROM w"));
        }
        planning::keep_order_of_rows(&mut state);
        let schema = context.schema_of(&state, &plan)?;
        let batches = context.run(&state, &plan)?.collect::<Result<Vec<_>>>()?;
        Ok(Returned { schema: batches.first().map_or(schema, RecordBatch::schema), batches })
    }

    /// The same list for an action of MERGE.
    pub fn with_action(mut self, action: &str) -> Returning<'t> {
        self.items = self.items.into_iter().map(|item| with_action(item, action)).collect();
        self
    }
}

/// The names of functions that are called without OVER, outside of subqueries.
fn calls_over_groups(items: &[SelectItem]) -> Vec<String> {
    let mut names = vec![];
    for item in items {
        each_part(&item.value, &mut |part| {
            if let ExprKind::Call(call) = &part.kind
                && call.over.is_none()
            {
                names.extend(call.name.parts.last().map(|name| name.text.clone()));
            }
        });
    }
    names
}

/// Whether a function is an aggregate, or another name for one.
fn is_aggregate(name: &str, state: &SessionState) -> bool {
    let known = state.aggregate_functions();
    let renamed = RENAMED.iter().find(|(other, _)| *other == name).map_or(name, |(_, own)| own);
    let is_plain = known.contains_key(renamed) && !state.scalar_functions().contains_key(renamed);
    is_plain || definitions().any(|(other, _, _, aggregates)| other == name && !aggregates.is_empty())
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

/// An item in which `merge_action` and `merge_action()` are a text. Its column is called as it would be without that.
fn with_action(mut item: SelectItem, action: &str) -> SelectItem {
    let heading = match &item.value.kind {
        _ if is_action(&item.value) => ACTION.to_owned(),
        ExprKind::Column(name) => name.parts.last().map(|part| part.text.clone()).unwrap_or_default(),
        _ => item.value.bare_text(),
    };
    let mut is_changed = false;
    each_part_mut(&mut item.value, &mut |part| {
        if is_action(part) {
            *part = trees::literal(Literal::Text(action.to_owned()), part.span);
            is_changed = true;
        }
    });
    if is_changed && item.alias.is_none() {
        item.alias = Some(trees::name(&heading, item.value.span));
    }
    item
}

fn is_action(value: &Expr) -> bool {
    let is_it = |name: &ObjectName| matches!(name.parts.as_slice(), [only] if only.text == ACTION);
    match &value.kind {
        ExprKind::Column(name) => is_it(name),
        ExprKind::Call(call) => is_it(&call.name) && call.arguments.is_empty(),
        _ => false,
    }
}
