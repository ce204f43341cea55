//! Statements that change rows: INSERT, DELETE, UPDATE, TRUNCATE, and the appending that all loading shares.
//!
//! DELETE and UPDATE plan a query for the row ids of the rows they meet; UPDATE is delete and insert. All of it reads
//! the transaction's snapshot, which includes what it has changed before.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array, BooleanArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast;
use freestone_store::schema::TableSchema;
use freestone_store::{Appended, Appender, LockMode, Snapshot, StoreError, Table, Waiting, WriteTransaction};

use crate::catalog::{Scope, TARGET};
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::defaults;
use crate::exec::defaults::Defaults;
use crate::exec::merge::{self, MergeQuery};
use crate::exec::returning::Returning;
use crate::exec::stored_values::{Places, check_count, prepare_values};
use crate::exec::upsert::{self, Conflict, Upsert};
use crate::exec::write::{Batches, WriteContext};
use crate::ingest::{ColumnMatch, Location, conform};
use crate::internal_names::ROW_ID_COLUMN;
use crate::planning;
use crate::sql::locking::LockingQuery;
use crate::sql::names::{identifier, object_name};
use crate::sql::parameters::Parameters;
use crate::sql::spellings::{BY_NAME, OVERRIDING};
use crate::sql::statement::{Command, parse_query, parse_script};
use crate::sql::{assignments, names, visitor};
use crate::text_types;

/// `INSERT INTO table [(columns)] [BY NAME] VALUES … | SELECT … | DEFAULT VALUES`. Columns that are not named have
/// their DEFAULT or NULL.
pub(super) fn insert(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    mut insert: ast::Insert,
    parameters: &Parameters,
) -> Result<Outcome> {
    let name = insert_target(&insert)?;
    let overrides = take_overriding(&mut insert);
    let table = find(transaction, &name, upsert::lock_mode(&insert, context))?;
    let by_name = insert.table_alias.take_if(|alias| alias.alias.value == BY_NAME).is_some();
    let alias = insert_alias(&insert, &name);
    insert.table_alias = None;
    let returning = Returning::take(&mut insert.returning, &alias);
    let mut source = match insert.source.take() {
        Some(source) => source,
        // DEFAULT VALUES.
        None => {
            insert.columns = table.schema.columns.first().map(|column| column_name(&column.name)).into_iter().collect();
            parse_query("VALUES (DEFAULT)")?
        }
    };
    if by_name {
        let query = ast::Statement::Query(source.clone());
        let (_, plan) = context.plan(&Scope::new(transaction.snapshot()), query, parameters)?;
        let fields = names::shown(Arc::new(plan.schema().as_arrow().clone()));
        insert.columns = fields.fields().iter().map(|field| column_name(field.name())).collect();
    }
    let places = Places::named(&table.schema, &insert.columns)?;
    let conflict = Conflict::take(&mut insert, &table.schema)?;
    if !overrides {
        check_generated(&source, &places, &table.schema)?;
    }
    defaults::fill(&mut source, &places, &table.schema)?;
    prepare_values(&mut source, &places, &table.schema)?;
    let snapshot = transaction.snapshot();
    let scope = Scope::new(snapshot.clone()).with_target_columns(&table.schema);
    let is_as_written = !matches!(source.body.as_ref(), ast::SetExpr::Values(_));
    let (state, plan) = context.planned(&scope, ast::Statement::Query(source), parameters, is_as_written)?;
    check_count(places.given(), plan.schema().fields().len())?;
    context.prepare_append(transaction, plan.max_rows())?;
    let arrow = table.schema.to_arrow();
    let defaults = Defaults::of(context, &scope, &table.schema, &places)?;
    let batches = run_in_order(context, state, &plan)?.map(|batch| {
        let batch = batch?;
        places.arranged(&batch, &arrow, &defaults.values(batch.num_rows())?)
    });
    if let Some(conflict) = conflict {
        let upsert = Upsert { transaction, context, table, snapshot, parameters, alias };
        return upsert.run(conflict, batches, returning);
    }
    let all = Places::all(&table.schema);
    let Some(returning) = returning else {
        let rows = append(transaction, context, &name, &table.schema, all, batches)?;
        return Ok(Outcome::Affected { verb: "INSERT", rows });
    };
    let mut appender = Appending::new(transaction.appender(&name)?, &table.schema, all).keeping();
    for batch in batches {
        context.check_cancelled()?;
        appender.push(&batch?)?;
    }
    let (appended, written) = appender.finish_kept()?;
    transaction.append(appended)?;
    returning.rows(context, snapshot, parameters, &table.schema, written)
}

/// Takes OVERRIDING SYSTEM VALUE out of an INSERT.
fn take_overriding(insert: &mut ast::Insert) -> bool {
    let is_clause = |name: &mut ast::ObjectName| *name == column_name(OVERRIDING);
    insert.columns.pop_if(is_clause).is_some()
}

/// Refuses other values than DEFAULT for columns that are GENERATED ALWAYS.
fn check_generated(source: &ast::Query, places: &Places, schema: &TableSchema) -> Result<()> {
    let targets = places.targets();
    let ast::SetExpr::Values(values) = source.body.as_ref() else {
        return defaults::check_given(schema, targets.into_iter().map(|column| (column, None)));
    };
    for row in &values.rows {
        let cells = targets.iter().copied().zip(row.content.iter().map(Some));
        defaults::check_given(schema, cells)?;
    }
    Ok(())
}

pub(crate) fn column_name(name: &str) -> ast::ObjectName {
    ast::ObjectName::from(vec![ast::Ident::with_quote('"', name)])
}

/// `DELETE FROM table [USING …] [WHERE …]`.
pub(super) fn delete(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    mut delete: ast::Delete,
    parameters: &Parameters,
) -> Result<Outcome> {
    let target = delete_target(&delete)?;
    let alias = delete_alias(&delete, &target);
    let returning = Returning::take(&mut delete.returning, &alias);
    let all = delete.selection.is_none() && delete.using.is_none() && returning.is_none();
    let table = find(transaction, &target, context.row_lock)?;
    if all && transaction.copies(&table).is_empty() {
        return Ok(Outcome::Affected { verb: "DELETE", rows: transaction.delete_all(&target)? });
    }
    if all {
        // Its copies have no rows then, either.
        let table = find(transaction, &target, LockMode::Exclusive)?;
        transaction.truncate(&target)?;
        return Ok(Outcome::Affected { verb: "DELETE", rows: table.rows() });
    }
    let snapshot = transaction.snapshot();
    let returned = returning.is_some().then_some(&table.schema);
    let (row_ids, removed) = meet(context, &snapshot, delete, &target, returned, parameters)?;
    let rows = transaction.delete(&target, row_ids)?;
    match returning {
        Some(returning) => returning.rows(context, snapshot, parameters, &table.schema, removed),
        None => Ok(Outcome::Affected { verb: "DELETE", rows }),
    }
}

/// `SELECT … FROM table [WHERE …] FOR UPDATE`, as a DELETE that returns its rows: they are locked, and stay.
pub(crate) fn lock_rows(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    query: &LockingQuery,
    parameters: &Parameters,
) -> Result<Outcome> {
    let mut delete = query.rows.clone();
    let target = delete_target(&delete)?;
    let alias = delete_alias(&delete, &target);
    let returning = Returning::take(&mut delete.returning, &alias);
    let returning = returning.ok_or_else(|| Error::syntax("a query without columns"))?.ordered(query.order.clone());
    // They do not wait for rows, so they must not wait for the whole table because of some.
    let is_immediate = query.no_wait || query.skips_locked;
    let table = find(transaction, &target, if is_immediate { LockMode::Shared } else { context.row_lock })?;
    if is_immediate {
        transaction.set_waiting(Waiting { timeout: Some(Duration::ZERO), ..context.waiting.clone() });
    }
    let snapshot = transaction.snapshot();
    if !query.skips_locked && query.limit.is_none() {
        let (row_ids, rows) = meet(context, &snapshot, delete, &target, Some(&table.schema), parameters)?;
        transaction.lock_row_ids(&target, row_ids)?;
        return returning.rows(context, snapshot, parameters, &table.schema, rows);
    }
    let scope = Scope::new(snapshot.clone()).with_target_rows(&target);
    let mut ordered = delete_query(delete, &target, Some(&table.schema))?;
    ordered.order_by = query.order.clone().filter(|_| query.limit.is_some());
    let (state, plan) = context.plan(&scope, ast::Statement::Query(ordered), parameters)?;
    let (mut left, mut rows) = (query.limit.unwrap_or(u64::MAX), vec![]);
    for batch in context.run(&state, &plan)? {
        let batch = batch?;
        let mut locks = |id: &u64| -> Result<bool> {
            let is_locked = left > 0 && locks_row(transaction, &target, *id, query.skips_locked)?;
            left -= u64::from(is_locked);
            Ok(is_locked)
        };
        let ids = row_id_column(&batch)?.values();
        let locked: BooleanArray = ids.iter().map(|id| locks(id).map(Some)).collect::<Result<Vec<_>>>()?.into();
        let columns: Vec<usize> = (1..batch.num_columns()).collect();
        rows.push(filter_record_batch(&batch.project(&columns)?, &locked)?);
        if left == 0 {
            break;
        }
    }
    returning.rows(context, snapshot, parameters, &table.schema, rows)
}

/// Locks a row; `false` if another transaction has locked it, and such rows are left out.
fn locks_row(transaction: &mut WriteTransaction, table: &str, row: u64, skips_locked: bool) -> Result<bool> {
    match transaction.lock_row_ids(table, [row]) {
        Err(StoreError::LockTimeout(_)) if skips_locked => Ok(false),
        locked => Ok(locked.map(|()| true)?),
    }
}

/// The ids of the rows that a DELETE meets, and their columns if they are to be returned.
fn meet(
    context: &WriteContext,
    snapshot: &Arc<Snapshot>,
    delete: ast::Delete,
    target: &str,
    returned: Option<&TableSchema>,
    parameters: &Parameters,
) -> Result<(HashSet<u64>, Vec<RecordBatch>)> {
    let scope = Scope::new(snapshot.clone()).with_target_rows(target);
    let query = delete_query(delete, target, returned)?;
    let (state, plan) = context.plan(&scope, ast::Statement::Query(query), parameters)?;
    let (mut row_ids, mut rows) = (HashSet::new(), vec![]);
    for batch in context.run(&state, &plan)? {
        match returned {
            Some(_) => rows.push(first_of_each_row(&batch?, &mut row_ids)?),
            None => row_ids.extend(row_id_column(&batch?)?.values()),
        }
    }
    Ok((row_ids, rows))
}

/// `UPDATE table SET column = expression, … [FROM …] [WHERE …]`. Where several rows of FROM meet a row, one of them
/// gives its values.
pub(super) fn update(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    mut update: ast::Update,
    parameters: &Parameters,
) -> Result<Outcome> {
    let target = update_target(&update)?;
    let returning = Returning::take(&mut update.returning, &alias_of(&update.table.relation, &target));
    let table = find(transaction, &target, context.row_lock)?;
    let assigned = update.assignments.iter().map(|assignment| assigned_column(&table.schema, assignment));
    let assigned = assigned.collect::<Result<HashSet<usize>>>()?;
    let snapshot = transaction.snapshot();
    let scope = Scope::new(snapshot.clone()).with_target_rows(&target);
    let query = ast::Statement::Query(update_query(update, &target, &table.schema)?);
    let (mut state, plan) = context.plan(&scope, query, parameters)?;
    check_constants(&plan, &table.schema, &assigned)?;
    keep_order(&mut state, &plan);
    context.prepare_append(transaction, None)?;
    let mut row_ids = HashSet::new();
    let places = Places::all(&table.schema);
    let mut appender = Appending::new(transaction.replacing_appender(&target)?, &table.schema, places);
    if returning.is_some() {
        appender = appender.keeping();
    }
    for batch in context.run(&state, &plan)? {
        context.check_cancelled()?;
        let batch = first_of_each_row(&batch?, &mut row_ids)?;
        appender.push(&batch)?;
    }
    let (appended, written) = appender.finish_kept()?;
    transaction.delete_changed(&target, row_ids, &|column| assigned.contains(&column))?;
    let rows = transaction.append_changed(appended, &|column| assigned.contains(&column))?;
    match returning {
        Some(returning) => returning.rows(context, snapshot, parameters, &table.schema, written),
        None => Ok(Outcome::Affected { verb: "UPDATE", rows }),
    }
}

/// Refuses assigned constants that are no values of their columns' types, also if no row is changed.
fn check_constants(plan: &LogicalPlan, schema: &TableSchema, assigned: &HashSet<usize>) -> Result<()> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(()) };
    assigned.iter().try_for_each(|column| {
        // Behind the number of the row.
        match projection.expr.get(column + 1).and_then(constant) {
            Some(value) => check_constant(schema, *column, &value),
            None => Ok(()),
        }
    })
}

/// Refuses a value, which is not NULL, that is none of a column's type.
pub(crate) fn check_constant(schema: &TableSchema, column: usize, value: &ScalarValue) -> Result<()> {
    let field = text_types::written_schema(schema).field(column).clone().with_nullable(true);
    let given = Field::new(field.name(), value.data_type(), true);
    let row = RecordBatch::try_new(Arc::new(Schema::new(vec![given])), vec![value.to_array()?])?;
    let at = Location { source: String::new(), first_row: 1 };
    let row = conform(&row, &Arc::new(Schema::new(vec![field])), ColumnMatch::Position, &at)?;
    text_types::in_normal_form(row).map(drop)
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

/// An UPDATE of the engine's own, in our form.
pub(crate) fn update_by_text(transaction: &mut WriteTransaction, context: &WriteContext, sql: &str) -> Result<()> {
    let mut statements = parse_script(sql);
    match statements.pop().map(|statement| statement.command()).transpose()? {
        Some(Command::Sql(sql)) => match *sql {
            ast::Statement::Update(statement) => {
                update(transaction, context, statement, &Parameters::default()).map(|_| ())
            }
            _ => Err(Error::new(ErrorKind::Internal, "internal error: not an UPDATE")),
        },
        _ => Err(Error::new(ErrorKind::Internal, "internal error: not an UPDATE")),
    }
}

/// `TRUNCATE table, …`.
pub(super) fn truncate(transaction: &mut WriteTransaction, truncate: &ast::Truncate) -> Result<Outcome> {
    let mut rows = 0;
    for target in &truncate.table_names {
        let name = object_name(&target.name)?;
        if truncate.if_exists && transaction.table(&name).is_err() {
            continue;
        }
        let table = find(transaction, &name, LockMode::Exclusive)?;
        rows += table.rows();
        transaction.truncate(&name)?;
        if matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart)) {
            let owned = table.schema.sequences();
            owned.iter().try_for_each(|sequence| crate::sequences::restart(transaction, sequence))?;
        }
    }
    Ok(Outcome::Affected { verb: "TRUNCATE", rows })
}

/// The query of a write's RETURNING over no rows: what its columns are.
pub(crate) fn returned(statement: &ast::Statement, snapshot: Arc<Snapshot>) -> Result<Option<(Scope, ast::Statement)>> {
    let (name, returning) = match statement.clone() {
        ast::Statement::Insert(mut insert) => {
            let name = insert_target(&insert)?;
            let alias = insert_alias(&insert, &name);
            (name, Returning::take(&mut insert.returning, &alias))
        }
        ast::Statement::Update(mut update) => {
            let name = update_target(&update)?;
            let alias = alias_of(&update.table.relation, &name);
            (name, Returning::take(&mut update.returning, &alias))
        }
        ast::Statement::Delete(mut delete) => {
            let name = delete_target(&delete)?;
            let alias = delete_alias(&delete, &name);
            (name, Returning::take(&mut delete.returning, &alias))
        }
        ast::Statement::Merge(mut merge) => {
            let name = merge::merge_target(&merge)?;
            let mut items = merge::returning_items(&mut merge)?;
            let returning = Returning::take(&mut items, &merge::merge_alias(&merge, &name));
            (name, returning.map(|returning| returning.with_action("")))
        }
        _ => return Ok(None),
    };
    let Some(returning) = returning else { return Ok(None) };
    let table = snapshot.table(&name).cloned().ok_or_else(|| no_table(&snapshot, &name))?;
    returning.query(Scope::new(snapshot), &table.schema, vec![]).map(Some)
}

/// A write as it is planned against a snapshot, and what its [`TARGET`] stands for.
pub(crate) fn planned(statement: ast::Statement, snapshot: Arc<Snapshot>) -> Result<(Scope, ast::Statement)> {
    if let ast::Statement::Insert(mut insert) = statement {
        let name = insert_target(&insert)?;
        let table = snapshot.table(&name).cloned().ok_or_else(|| no_table(&snapshot, &name))?;
        (insert.returning, insert.on, insert.or, insert.table_alias) = (None, None, None, None);
        take_overriding(&mut insert);
        if let Some(source) = &mut insert.source {
            defaults::fill(source, &Places::named(&table.schema, &insert.columns)?, &table.schema)?;
        }
        insert.table = ast::TableObject::TableName(target_name());
        return Ok((Scope::new(snapshot).with_target_columns(&table.schema), ast::Statement::Insert(insert)));
    }
    let (target, query) = row_query(statement, &snapshot)?;
    let scope = Scope::new(snapshot);
    Ok((target.iter().fold(scope, |scope, target| scope.with_target_rows(target)), query))
}

/// Parameters that UPDATE assigns to columns as they are, and those of ON CONFLICT: their numbers, from 1, and the
/// columns' types.
pub(crate) fn assigned(statement: &ast::Statement, snapshot: &Snapshot) -> Vec<(usize, DataType)> {
    let (target, assignments) = match statement {
        ast::Statement::Update(update) => (update_target(update), &update.assignments),
        ast::Statement::Insert(insert) => match &insert.on {
            Some(ast::OnInsert::OnConflict(ast::OnConflict {
                action: ast::OnConflictAction::DoUpdate(update),
                ..
            })) => (insert_target(insert), &update.assignments),
            _ => return vec![],
        },
        _ => return vec![],
    };
    let Some(table) = target.ok().and_then(|target| snapshot.table(&target).cloned()) else { return vec![] };
    let is_insert = matches!(statement, ast::Statement::Insert(_));
    let mut found = vec![];
    for assignment in assignments {
        let Ok(column) = assigned_column(&table.schema, assignment) else { continue };
        let data_type = &table.schema.columns[column].data_type;
        match &assignment.value {
            ast::Expr::Value(_) => found.extend(placeholder(&assignment.value).map(|n| (n, data_type.clone()))),
            // Of ON CONFLICT nothing else is planned before it is executed.
            expression if is_insert => {
                let _ = visitor::expressions(expression, &mut |part| {
                    found.extend(placeholder(part).map(|number| (number, data_type.clone())));
                    ControlFlow::Continue(())
                });
            }
            _ => {}
        }
    }
    found
}

/// The number of a parameter, from 1.
fn placeholder(expression: &ast::Expr) -> Option<usize> {
    let ast::Expr::Value(value) = expression else { return None };
    let ast::Value::Placeholder(placeholder) = &value.value else { return None };
    placeholder.strip_prefix('$')?.parse().ok().filter(|number| (1..=65_535).contains(number))
}

/// The name by which the expressions of an INSERT know its table.
pub(crate) fn insert_alias(insert: &ast::Insert, target: &str) -> String {
    let own = || target.rsplit_once('.').map_or(target, |(_, own)| own).to_owned();
    let alias = insert.table_alias.as_ref().filter(|alias| alias.alias.value != BY_NAME);
    alias.map_or_else(own, |alias| identifier(&alias.alias))
}

pub(crate) fn insert_target(insert: &ast::Insert) -> Result<String> {
    match &insert.table {
        ast::TableObject::TableName(name) => object_name(name),
        _ => Err(Error::unsupported("INSERT takes a table's name")),
    }
}

/// The query that finds a statement's rows, and the table that it plans as [`TARGET`]: what EXPLAIN explains.
pub(crate) fn row_query(statement: ast::Statement, snapshot: &Snapshot) -> Result<(Option<String>, ast::Statement)> {
    match statement {
        ast::Statement::Delete(delete) => {
            let target = delete_target(&delete)?;
            let query = delete_query(delete, &target, None)?;
            Ok((Some(target), ast::Statement::Query(query)))
        }
        ast::Statement::Update(update) => {
            let target = update_target(&update)?;
            let table = snapshot.table(&target).ok_or_else(|| no_table(snapshot, &target))?;
            let query = update_query(update, &target, &table.schema)?;
            Ok((Some(target), ast::Statement::Query(query)))
        }
        ast::Statement::Merge(mut merge) => {
            merge.output = None;
            let target = merge::merge_target(&merge)?;
            let table = snapshot.table(&target).ok_or_else(|| no_table(snapshot, &target))?;
            let query = MergeQuery::of(merge, &target, &table.schema)?.query;
            Ok((Some(target), ast::Statement::Query(query)))
        }
        ast::Statement::Insert(ast::Insert { source: Some(query), .. })
        | ast::Statement::CreateTable(ast::CreateTable { query: Some(query), .. }) => {
            Ok((None, ast::Statement::Query(query)))
        }
        other => Ok((None, other)),
    }
}

/// The table of a write, locked, or an error that knows views and similar names.
pub(crate) fn find(transaction: &mut WriteTransaction, name: &str, mode: LockMode) -> Result<Arc<Table>> {
    transaction.lock(name, mode)?;
    let snapshot = transaction.snapshot();
    snapshot.table(name).cloned().ok_or_else(|| no_table(&snapshot, name))
}

fn no_table(snapshot: &Snapshot, name: &str) -> Error {
    if snapshot.views().contains_key(name) {
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
    let mut appender = Appending::new(transaction.appender(table)?, schema, places);
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
    pub fn new(appender: Appender, schema: &TableSchema, places: Places) -> Self {
        Appending { appender, schema: text_types::written_schema(schema), places, rows: 0, kept: None }
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
/// [`text_types::written_schema`].
pub(crate) fn stored_rows(
    batch: &RecordBatch,
    places: &Places,
    schema: &SchemaRef,
    rows_before: u64,
) -> Result<RecordBatch> {
    let batch = places.arranged(batch, schema, &[])?;
    check_not_null(schema, &batch, rows_before)?;
    let at = Location { source: String::new(), first_row: rows_before + 1 };
    text_types::in_normal_form(conform(&batch, schema, ColumnMatch::Position, &at)?)
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
        .with_hint("give the column a value in every row"));
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

fn delete_target(delete: &ast::Delete) -> Result<String> {
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
    match from.as_slice() {
        [ast::TableWithJoins { relation: ast::TableFactor::Table { name, .. }, joins }] if joins.is_empty() => {
            object_name(name)
        }
        _ => Err(Error::unsupported("DELETE takes one table").with_hint("name the tables it depends on in USING")),
    }
}

/// `returned`: the columns of the removed rows are asked for, too.
fn delete_query(delete: ast::Delete, target: &str, returned: Option<&TableSchema>) -> Result<Box<ast::Query>> {
    let (ast::FromTable::WithFromKeyword(mut from) | ast::FromTable::WithoutKeyword(mut from)) = delete.from;
    let mut items = vec![];
    for table in &mut from {
        let alias = retarget(&mut table.relation, target);
        let columns = returned.iter().flat_map(|schema| &schema.columns);
        items.extend(columns.map(|column| returned_column(&alias, &column.name)));
    }
    from.extend(delete.using.unwrap_or_default());
    row_id_query(from, delete.selection, items)
}

fn returned_column(alias: &ast::Ident, name: &str) -> ast::SelectItem {
    let quoted = ast::Ident::with_quote('"', name);
    let alias_of_item = ast::Ident::with_quote('"', format!("new {name}"));
    ast::SelectItem::ExprWithAlias {
        expr: ast::Expr::CompoundIdentifier(vec![alias.clone(), quoted]),
        alias: alias_of_item,
    }
}

/// The name by which the expressions of a DELETE know its table.
fn delete_alias(delete: &ast::Delete, target: &str) -> String {
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
    from.first().map_or_else(|| target.to_owned(), |table| alias_of(&table.relation, target))
}

fn alias_of(relation: &ast::TableFactor, target: &str) -> String {
    match relation {
        ast::TableFactor::Table { alias: Some(alias), .. } => identifier(&alias.name),
        _ => target.to_owned(),
    }
}

fn update_target(update: &ast::Update) -> Result<String> {
    match &update.table {
        ast::TableWithJoins { relation: ast::TableFactor::Table { name, .. }, joins } if joins.is_empty() => {
            object_name(name)
        }
        _ => Err(Error::unsupported("UPDATE takes one table").with_hint("name the tables it depends on in FROM")),
    }
}

fn update_query(mut update: ast::Update, target: &str, schema: &TableSchema) -> Result<Box<ast::Query>> {
    let alias = retarget(&mut update.table.relation, target);
    let items = set_values(schema, update.assignments, &alias)?;
    let mut from = vec![update.table];
    match update.from {
        Some(ast::UpdateTableFromKind::BeforeSet(tables) | ast::UpdateTableFromKind::AfterSet(tables)) => {
            from.extend(tables);
        }
        None => {}
    }
    row_id_query(from, update.selection, items)
}

/// The values of all columns of a row after `SET column = expression, …`. Columns that are not assigned keep theirs.
pub(crate) fn set_values(
    schema: &TableSchema,
    assignments: Vec<ast::Assignment>,
    alias: &ast::Ident,
) -> Result<Vec<ast::SelectItem>> {
    let mut values: Vec<Option<ast::Expr>> = vec![None; schema.columns.len()];
    for assignment in assignments {
        let position = assigned_column(schema, &assignment)?;
        defaults::check_given(schema, [(position, Some(&assignment.value))].into_iter())?;
        let value = match defaults::is_default(&assignment.value) {
            true => defaults::expression(schema, position)?,
            false => assignment.value,
        };
        if values[position].replace(value).is_some() {
            let name = &schema.columns[position].name;
            return Err(Error::invalid(format!("column {name} is assigned twice")));
        }
    }
    let quoted = |name: &str| ast::Ident::with_quote('"', name);
    let items = schema.columns.iter().zip(values).map(|(column, value)| ast::SelectItem::ExprWithAlias {
        expr: value.unwrap_or_else(|| ast::Expr::CompoundIdentifier(vec![alias.clone(), quoted(&column.name)])),
        alias: quoted(&format!("new {}", column.name)),
    });
    Ok(items.collect())
}

/// The column to which an assignment gives a value.
pub(crate) fn assigned_column(schema: &TableSchema, assignment: &ast::Assignment) -> Result<usize> {
    let ast::AssignmentTarget::ColumnName(name) = &assignment.target else {
        return Err(Error::unsupported("UPDATE assigns to one column at a time"));
    };
    let last = name.0.last().and_then(|part| part.as_ident()).map(identifier).unwrap_or_default();
    let names = schema.columns.iter().map(|column| column.name.as_str());
    schema.columns.iter().position(|column| column.name == last).ok_or_else(|| Error::not_found("column", &last, names))
}

/// Makes a table of the statement stand for [`TARGET`], under the name that the statement's expressions use.
fn retarget(relation: &mut ast::TableFactor, target: &str) -> ast::Ident {
    let ast::TableFactor::Table { name, alias, .. } = relation else { return ast::Ident::with_quote('"', target) };
    // Without its schema.
    let last = name.0.last().and_then(|part| part.as_ident()).map_or_else(|| target.to_owned(), identifier);
    *name = target_name();
    let own = ast::TableAlias { explicit: true, name: ast::Ident::with_quote('"', last), columns: vec![], at: None };
    alias.get_or_insert(own).name.clone()
}

fn target_name() -> ast::ObjectName {
    ast::ObjectName::from(vec![ast::Ident::with_quote('"', TARGET)])
}

fn row_id_query(
    from: Vec<ast::TableWithJoins>,
    selection: Option<ast::Expr>,
    items: Vec<ast::SelectItem>,
) -> Result<Box<ast::Query>> {
    let mut query = parse_query(&format!("SELECT \"{ROW_ID_COLUMN}\" FROM \"{TARGET}\""))?;
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        select.projection.extend(items);
        select.from = from;
        select.selection = selection;
    }
    assignments::evaluate_once(&mut query)?;
    Ok(query)
}
