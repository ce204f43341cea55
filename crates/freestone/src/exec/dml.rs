//! Statements that change rows: DELETE, UPDATE, TRUNCATE, and the appending that all loading shares.
//!
//! DELETE and UPDATE plan a query for the row ids of the rows they meet; UPDATE is delete and insert. All of it reads
//! the transaction's snapshot, which includes what it has changed before.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, BooleanArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use freestone_sql::tree::{Delete, Query, Truncate, Update, Write};
use freestone_store::schema::TableSchema;
use freestone_store::{Appended, Appender, LockMode, Snapshot, Table, WriteTransaction};

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::returning::Returning;
use crate::exec::row_queries::{Target, positions};
use crate::exec::stored_values::Places;
use crate::exec::write::{Batches, WriteContext};
use crate::ingest::{Assignment, ColumnMatch, Location, conform};
use crate::planning;
use crate::sql::names::kept_name;
use crate::sql::parameters::Parameters;
use crate::sql::written::Written;
use crate::text_types;

/// `DELETE FROM table [USING …] [WHERE …]`.
pub(super) fn delete(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    (write, delete): (&Write, &Delete),
    parameters: &Parameters,
) -> Result<Outcome> {
    let target = Target::of(context.planner(), &transaction.snapshot(), write)?;
    let returning = Returning::of(&target);
    let all = delete.condition.is_none() && delete.using.is_empty() && returning.is_none();
    let table = find(transaction, &target.name, context.row_lock)?;
    if all && transaction.copies(&table).is_empty() {
        return Ok(Outcome::Affected { verb: "DELETE", rows: transaction.delete_all(&target.name)? });
    }
    if all {
        // Its copies have no rows then, either.
        let table = find(transaction, &target.name, LockMode::Exclusive)?;
        transaction.truncate(&target.name)?;
        return Ok(Outcome::Affected { verb: "DELETE", rows: table.rows() });
    }
    let snapshot = transaction.snapshot();
    let returned = returning.is_some().then_some(&table.schema);
    let query = target.query_of_rows(delete.condition.as_ref(), &delete.using, returned);
    let (row_ids, removed) = meet(context, &snapshot, &query, &target.name, returning.is_some(), parameters)?;
    let rows = transaction.delete(&target.name, row_ids)?;
    match returning {
        Some(returning) => returning.rows(context, snapshot, parameters, &table.schema, removed),
        None => Ok(Outcome::Affected { verb: "DELETE", rows }),
    }
}

/// The ids of the rows that a query of row ids meets, and their columns if the query has them.
pub(super) fn meet(
    context: &WriteContext,
    snapshot: &Arc<Snapshot>,
    query: &Query,
    target: &str,
    has_columns: bool,
    parameters: &Parameters,
) -> Result<(HashSet<u64>, Vec<RecordBatch>)> {
    let scope = Scope::new(snapshot.clone()).with_target_rows(target);
    let (state, plan) = context.plan_made(&scope, query, parameters)?;
    let (mut row_ids, mut rows) = (HashSet::new(), vec![]);
    for batch in context.run(&state, &plan)? {
        match has_columns {
            true => rows.push(first_of_each_row(&batch?, &mut row_ids)?),
            false => row_ids.extend(row_id_column(&batch?)?.values()),
        }
    }
    Ok((row_ids, rows))
}

/// `UPDATE table SET column = expression, … [FROM …] [WHERE …]`. Where several rows of FROM meet a row, one of them
/// gives its values.
pub(super) fn update(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    (write, update): (&Write, &Update),
    parameters: &Parameters,
) -> Result<Outcome> {
    let target = Target::of(context.planner(), &transaction.snapshot(), write)?;
    let returning = Returning::of(&target);
    let table = find(transaction, &target.name, context.row_lock)?;
    let assigned = update.set.iter().map(|assignment| positions(&table.schema, assignment));
    let assigned: HashSet<usize> = assigned.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    let snapshot = transaction.snapshot();
    let scope = Scope::new(snapshot.clone()).with_target_rows(&target.name);
    let rows = target.query_of_update(update, &table.schema)?;
    let (mut state, plan) = context.plan_made(&scope, &rows.query, parameters)?;
    let plan = rows.finished(plan)?;
    check_constants(context, &plan, &table.schema, &assigned)?;
    keep_order(&mut state, &plan);
    context.prepare_append(transaction, None)?;
    let mut row_ids = HashSet::new();
    let places = Places::all(&table.schema);
    let mut appender = Appending::new(context, transaction.replacing_appender(&target.name)?, &table.schema, places);
    if returning.is_some() {
        appender = appender.keeping();
    }
    for batch in context.run(&state, &plan)? {
        context.check_cancelled()?;
        let batch = first_of_each_row(&batch?, &mut row_ids)?;
        appender.push(&batch)?;
    }
    let (appended, written) = appender.finish_kept()?;
    transaction.delete_changed(&target.name, row_ids, &|column| assigned.contains(&column))?;
    let rows = transaction.append_changed(appended, &|column| assigned.contains(&column))?;
    match returning {
        Some(returning) => returning.rows(context, snapshot, parameters, &table.schema, written),
        None => Ok(Outcome::Affected { verb: "UPDATE", rows }),
    }
}

/// Refuses assigned constants that are no values of their columns' types, also if no row is changed.
fn check_constants(
    context: &WriteContext,
    plan: &LogicalPlan,
    schema: &TableSchema,
    assigned: &HashSet<usize>,
) -> Result<()> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(()) };
    assigned.iter().try_for_each(|column| {
        // Behind the number of the row.
        match projection.expr.get(column + 1).and_then(constant) {
            Some(value) => check_constant(context, schema, *column, &value),
            None => Ok(()),
        }
    })
}

/// Refuses a value, which is not NULL, that is none of a column's type.
pub(crate) fn check_constant(
    context: &WriteContext,
    schema: &TableSchema,
    column: usize,
    value: &ScalarValue,
) -> Result<()> {
    let field = context.written_schema(schema).field(column).clone().with_nullable(true);
    let given = Field::new(field.name(), value.data_type(), true);
    let row = RecordBatch::try_new(Arc::new(Schema::new(vec![given])), vec![value.to_array()?])?;
    let at = Location { source: String::new(), first_row: 1 };
    let row = conform(&row, &Arc::new(Schema::new(vec![field])), ColumnMatch::Position, &at)?;
    text_types::in_normal_form(row, Assignment::reading).map(drop)
}

/// The value of a literal that is not NULL.
fn constant(value: &Expr) -> Option<ScalarValue> {
    match value {
        Expr::Alias(alias) => constant(&alias.expr),
        Expr::Literal(value, _) if !value.is_null() => Some(value.clone()),
        Expr::Negative(value) => constant(value)?.arithmetic_negate().ok(),
        _ => None,
    }
}

/// An UPDATE of the engine's own.
pub(crate) fn update_by_text(transaction: &mut WriteTransaction, context: &WriteContext, sql: &str) -> Result<()> {
    let written = Written::new(sql);
    super::perform_write(transaction, context, &Parameters::default().of_part(written)).map(|_| ())
}

/// `TRUNCATE table, …`.
pub(super) fn truncate(transaction: &mut WriteTransaction, truncate: &Truncate) -> Result<Outcome> {
    let mut rows = 0;
    for name in &truncate.tables {
        let name = kept_name(name)?;
        if truncate.if_exists && transaction.table(&name).is_err() {
            continue;
        }
        let table = find(transaction, &name, LockMode::Exclusive)?;
        rows += table.rows();
        transaction.truncate(&name)?;
        if truncate.restart_identity {
            let owned = table.schema.sequences();
            owned.iter().try_for_each(|sequence| crate::sequences::restart(transaction, sequence))?;
        }
    }
    Ok(Outcome::Affected { verb: "TRUNCATE", rows })
}

/// The table of a write, locked, or an error that knows views and similar names.
pub(crate) fn find(transaction: &mut WriteTransaction, name: &str, mode: LockMode) -> Result<Arc<Table>> {
    transaction.lock(name, mode)?;
    let snapshot = transaction.snapshot();
    snapshot.table(name).cloned().ok_or_else(|| no_table(&snapshot, name))
}

/// The error of a table that is not there.
pub(crate) fn no_table(snapshot: &Snapshot, name: &str) -> Error {
    if snapshot.view(name).is_some() {
        return Error::invalid(format!("{name} is a view")).with_hint("change the tables that it reads");
    }
    Error::not_found("table", name, snapshot.tables().map(|table| table.name.as_str()))
}

/// Appends batches to a table: values brought to the table's types without loss, NOT NULL checked. Returns the rows.
pub(crate) fn append(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    table: &str,
    schema: &TableSchema,
    places: Places,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<u64> {
    let mut appender = Appending::new(context, transaction.appender(table)?, schema, places);
    for batch in batches {
        context.check_cancelled()?;
        appender.push(&batch?)?;
    }
    let appended = appender.finish()?;
    Ok(transaction.append(appended)?)
}

/// An appender of the store behind the checks of the engine.
pub(crate) struct Appending {
    appender: Appender,
    schema: SchemaRef,
    places: Places,
    rows: u64,
    /// The rows as they are stored, for RETURNING.
    kept: Option<Vec<RecordBatch>>,
}

impl Appending {
    pub fn new(context: &WriteContext, appender: Appender, schema: &TableSchema, places: Places) -> Self {
        Appending { appender, schema: context.written_schema(schema), places, rows: 0, kept: None }
    }

    /// Keeps the rows as they are stored.
    pub fn keeping(mut self) -> Self {
        self.kept = Some(vec![]);
        self
    }

    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let stored = stored_rows(batch, &self.places, &self.schema, self.rows)?;
        self.appender.push(&stored)?;
        if let Some(kept) = &mut self.kept {
            kept.push(stored);
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    pub fn finish(self) -> Result<Appended> {
        Ok(self.appender.finish()?)
    }

    pub fn finish_kept(self) -> Result<(Appended, Vec<RecordBatch>)> {
        Ok((self.appender.finish()?, self.kept.unwrap_or_default()))
    }
}

/// Rows of a statement in the form in which a table stores them, behind `rows_before` others. The schema is that of
/// [`WriteContext::written_schema`].
pub(crate) fn stored_rows(
    batch: &RecordBatch,
    places: &Places,
    schema: &SchemaRef,
    rows_before: u64,
) -> Result<RecordBatch> {
    let batch = places.arranged(batch, schema, &[])?;
    check_not_null(schema, &batch, rows_before)?;
    let at = Location { source: String::new(), first_row: rows_before + 1 };
    text_types::in_normal_form(conform(&batch, schema, ColumnMatch::Position, &at)?, Assignment::reading)
}

fn check_not_null(schema: &SchemaRef, batch: &RecordBatch, rows_before: u64) -> Result<()> {
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if field.is_nullable() || column.logical_null_count() == 0 {
            continue;
        }
        let nulls = column.logical_nulls();
        let row = (0..column.len()).find(|row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row))).unwrap_or(0);
        let row = rows_before + row as u64 + 1;
        return Err(Error::new(
            ErrorKind::Constraint,
            format!("column {} is NOT NULL, row {row} has NULL", field.name()),
        )
        .with_hint("give the column a value in every row")
        .concerning(|subject| subject.column = Some(field.name().clone())));
    }
    Ok(())
}

/// Runs the query of an INSERT or CREATE TABLE AS. A query that only reads, filters and computes delivers its rows in
/// the order of what it reads, so that loading a sorted file gives a sorted table.
pub(crate) fn run_in_order(context: &WriteContext, mut state: SessionState, plan: &LogicalPlan) -> Result<Batches> {
    keep_order(&mut state, plan);
    context.run(&state, plan)
}

fn keep_order(state: &mut SessionState, plan: &LogicalPlan) {
    if only_reads(plan) {
        planning::keep_order_of_rows(state);
    }
}

fn only_reads(plan: &LogicalPlan) -> bool {
    let mut simple = true;
    let _ = plan.apply_with_subqueries(|node| {
        simple &= matches!(
            node,
            LogicalPlan::TableScan(_)
                | LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Values(_)
                | LogicalPlan::EmptyRelation(_)
        );
        Ok(if simple { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    simple
}

pub(crate) fn row_id_column(batch: &RecordBatch) -> Result<&UInt64Array> {
    let column = batch.columns().first().and_then(|column| column.as_any().downcast_ref::<UInt64Array>());
    column.ok_or_else(|| Error::new(ErrorKind::Internal, "internal error: the row ids are missing"))
}

/// The new rows without their ids, those left out whose row has new values already.
fn first_of_each_row(batch: &RecordBatch, row_ids: &mut HashSet<u64>) -> Result<RecordBatch> {
    let ids = row_id_column(batch)?;
    let first: BooleanArray = ids.values().iter().map(|id| Some(row_ids.insert(*id))).collect();
    let columns: Vec<usize> = (1..batch.num_columns()).collect();
    let rows = batch.project(&columns)?;
    if first.true_count() == first.len() { Ok(rows) } else { Ok(filter_record_batch(&rows, &first)?) }
}
