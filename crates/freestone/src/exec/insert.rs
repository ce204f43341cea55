//! `INSERT INTO table [(columns)] [BY NAME] VALUES … | SELECT … | DEFAULT VALUES`. Columns that are not named have their
//! DEFAULT or NULL.

use freestone_sql::tree::{Expr, ExprKind, Insert, Query, QueryBody, Write};
use freestone_store::WriteTransaction;
use freestone_store::schema::TableSchema;

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::error::Result;
use crate::exec::defaults::{self, Defaults};
use crate::exec::dml::{Appending, append, find, run_in_order};
use crate::exec::returning::Returning;
use crate::exec::row_queries::Target;
use crate::exec::stored_values::{Places, check_count, prepare_values};
use crate::exec::upsert::{self, Conflict, Upsert};
use crate::exec::write::WriteContext;
use crate::sql::parameters::Parameters;
use crate::sql::trees;

/// The rows of an INSERT, and the columns that they are for.
pub(crate) struct Source {
    pub query: Box<Query>,
    pub places: Places,
}

impl Source {
    /// Those of a statement on a table. Without columns of its own, it gives values for `columns`.
    ///
    /// # Errors
    /// It names columns that the table does not have, or gives values that it cannot give.
    pub fn of(insert: &Insert, schema: &TableSchema, columns: Option<Vec<String>>) -> Result<Source> {
        let named = || insert.columns.iter().map(|name| name.text.clone()).collect();
        let (mut query, columns) = match &insert.rows {
            Some(rows) => (rows.clone(), columns.unwrap_or_else(named)),
            // DEFAULT VALUES.
            None => {
                (one_default(insert), schema.columns.first().map(|column| column.name.clone()).into_iter().collect())
            }
        };
        let places = Places::named(schema, &columns)?;
        if insert.overriding_system != Some(true) {
            check_generated(&mut query, &places, schema)?;
        }
        if let Some(rows) = values_of(&mut query) {
            defaults::fill(rows, &places, schema)?;
        }
        Ok(Source { query: trees::behind(insert.with.clone(), query), places })
    }
}

/// `VALUES (DEFAULT)`
fn one_default(insert: &Insert) -> Box<Query> {
    let span = insert.table.span;
    let body = QueryBody::Values(vec![vec![Expr { kind: ExprKind::Default, span }]]);
    Box::new(Query::of(body, span))
}

/// The rows of VALUES, which may stand in parentheses.
pub(crate) fn values_of(query: &mut Query) -> Option<&mut Vec<Vec<Expr>>> {
    match &mut query.body {
        QueryBody::Values(rows) => Some(rows),
        QueryBody::Nested(query) => values_of(query),
        _ => None,
    }
}

/// Refuses other values than DEFAULT for columns that are GENERATED ALWAYS.
fn check_generated(query: &mut Query, places: &Places, schema: &TableSchema) -> Result<()> {
    let targets = places.targets();
    let Some(rows) = values_of(query) else {
        return defaults::check_given(schema, targets.into_iter().map(|column| (column, None)));
    };
    for row in rows.iter() {
        let cells = targets.iter().copied().zip(row.iter().map(Some));
        defaults::check_given(schema, cells)?;
    }
    Ok(())
}

/// Performs an INSERT.
pub(super) fn insert(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    (write, insert): (&Write, &Insert),
    parameters: &Parameters,
) -> Result<Outcome> {
    let target = Target::of(context.planner(), &transaction.snapshot(), write)?;
    let table = find(transaction, &target.name, upsert::lock_mode(insert, context))?;
    let (name, schema) = (&target.name, &table.schema);
    let returning = Returning::of(&target);
    let columns = columns_by_name(transaction, context, insert, parameters)?;
    let Source { mut query, places } = Source::of(insert, schema, columns)?;
    let conflict = Conflict::of(insert, schema, &places)?;
    if let Some(rows) = values_of(&mut query) {
        prepare_values(rows, &places, schema)?;
    }
    let snapshot = transaction.snapshot();
    let scope = Scope::new(snapshot.clone()).with_target_columns(schema);
    let (state, plan) = context.plan_made(&scope, &query, parameters)?;
    check_count(places.given(), plan.schema().fields().len())?;
    context.prepare_append(transaction, plan.max_rows())?;
    let arrow = schema.to_arrow();
    let defaults = Defaults::of(context, &scope, schema, &places)?;
    let batches = run_in_order(context, state, &plan)?.map(|batch| {
        let batch = batch?;
        places.arranged(&batch, &arrow, &defaults.values(batch.num_rows())?)
    });
    if let Some(conflict) = conflict {
        let upsert = Upsert { transaction, context, table: table.clone(), snapshot, parameters, target: &target };
        return upsert.run(&conflict, batches, returning);
    }
    let all = Places::all(schema);
    let Some(returning) = returning else {
        let rows = append(transaction, context, name, schema, all, batches)?;
        return Ok(Outcome::Affected { verb: "INSERT", rows });
    };
    let mut appender = Appending::new(context, transaction.appender(name)?, schema, all).keeping();
    for batch in batches {
        context.check_cancelled()?;
        appender.push(&batch?)?;
    }
    let (appended, written) = appender.finish_kept()?;
    transaction.append(appended)?;
    returning.rows(context, snapshot, parameters, schema, written)
}

/// The columns of the rows of an INSERT BY NAME.
fn columns_by_name(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    insert: &Insert,
    parameters: &Parameters,
) -> Result<Option<Vec<String>>> {
    let Some(rows) = insert.rows.as_ref().filter(|_| insert.by_name) else { return Ok(None) };
    let query = trees::behind(insert.with.clone(), rows.clone());
    context.names_of_columns(&Scope::new(transaction.snapshot()), &query, parameters).map(Some)
}
