//! `INSERT … ON CONFLICT`, and DuckDB's `INSERT OR REPLACE | OR IGNORE`.
//!
//! The new rows are collected, and joined with the rows of the table that have the same key. Of each new row there is at
//! most one such row, because keys are enforced. Rows without one are inserted. A row that another transaction has added
//! since is found when keys are checked, and makes the statement begin again.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema, SchemaRef, UInt64Type};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::sql::sqlparser::ast;
use freestone_store::schema::TableSchema;
use freestone_store::{LockMode, Snapshot, StoreError, Table, WriteTransaction};

use crate::catalog::{Scope, TARGET};
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::dml::{Appending, column_name, row_id_column, set_values, stored_rows};
use crate::exec::returning::Returning;
use crate::exec::stored_values::Places;
use crate::exec::write::WriteContext;
use crate::inputs::ArrowTable;
use crate::internal_names::ROW_ID_COLUMN;
use crate::sql::assignments;
use crate::sql::names::identifier;
use crate::sql::parameters::Parameters;
use crate::sql::statement::{parse_query, quote};
use crate::sql::visitor;
use crate::text_types;

/// The name under which new rows are planned.
pub(crate) const SOURCE: &str = "freestone$source";
/// The column of the new rows' numbers.
const ROW: &str = "freestone$row";
/// The name by which expressions know the new row.
const EXCLUDED: &str = "excluded";
/// What an error says of a row that a statement would change twice.
pub(crate) const CHANGED_TWICE: &str = "would change a row a second time";
/// What an error says of an ON CONFLICT without a key.
pub(crate) const NO_KEY: &str = "ON CONFLICT names no key";

/// What to do with rows whose key is there already.
pub(crate) struct Conflict {
    /// The keys that are meant, by the positions of their columns.
    pub keys: Vec<Vec<usize>>,
    pub update: Option<ast::DoUpdate>,
}

impl Conflict {
    /// Takes it out of a statement on a table.
    ///
    /// # Errors
    /// The table has no such key.
    pub fn take(insert: &mut ast::Insert, schema: &TableSchema) -> Result<Option<Conflict>> {
        let on = match (insert.on.take(), insert.or.take()) {
            (Some(ast::OnInsert::OnConflict(on)), None) => on,
            (None, Some(ast::SqliteOnConflict::Ignore)) => {
                ast::OnConflict { conflict_target: None, action: ast::OnConflictAction::DoNothing }
            }
            (None, Some(ast::SqliteOnConflict::Replace)) => replacing(insert, schema)?,
            (None, None) => return Ok(None),
            _ => return Err(Error::unsupported("this form of ON CONFLICT is not available")),
        };
        let keys = keys(schema, on.conflict_target.as_ref())?;
        let update = match on.action {
            ast::OnConflictAction::DoNothing => None,
            ast::OnConflictAction::DoUpdate(_) if keys.len() != 1 => {
                let which = "name the key: ON CONFLICT (columns) DO UPDATE …";
                return Err(Error::invalid(format!("{NO_KEY}, and the table has {} keys", keys.len())).with_hint(which));
            }
            ast::OnConflictAction::DoUpdate(update) => Some(update),
        };
        Ok(Some(Conflict { keys, update }))
    }
}

/// `INSERT OR REPLACE` gives the columns that it names new values.
fn replacing(insert: &ast::Insert, schema: &TableSchema) -> Result<ast::OnConflict> {
    let places = Places::named(schema, &insert.columns)?;
    let assigned = |column: usize| {
        let name = ast::Ident::with_quote('"', &schema.columns[column].name);
        ast::Assignment {
            target: ast::AssignmentTarget::ColumnName(column_name(&name.value)),
            value: ast::Expr::CompoundIdentifier(vec![ast::Ident::new(EXCLUDED), name]),
        }
    };
    let assignments = places.targets().into_iter().map(assigned).collect();
    let action = ast::OnConflictAction::DoUpdate(ast::DoUpdate { assignments, selection: None });
    Ok(ast::OnConflict { conflict_target: None, action })
}

/// The keys that an ON CONFLICT means: without a target all of them.
fn keys(schema: &TableSchema, target: Option<&ast::ConflictTarget>) -> Result<Vec<Vec<usize>>> {
    let found = match target {
        None => schema.unique_keys.iter().collect(),
        Some(ast::ConflictTarget::Columns(columns)) => {
            let columns: Vec<String> = columns.iter().map(identifier).collect();
            schema.positions(&columns)?;
            let key = schema.enforced_key(&columns);
            let list = columns.join(", ");
            let hint = format!("PRIMARY KEY ({list}) or UNIQUE ({list}) makes it one");
            vec![key.ok_or_else(|| Error::invalid(format!("{NO_KEY}: ({list}) is none of the table")).with_hint(hint))?]
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let name = name.0.last().and_then(|part| part.as_ident()).map(identifier).unwrap_or_default();
            let key = schema.unique_keys.iter().find(|key| key.name == name);
            let names = schema.unique_keys.iter().map(|key| key.name.as_str());
            vec![key.ok_or_else(|| Error::not_found("constraint", &name, names))?]
        }
    };
    Ok(found.into_iter().map(|key| schema.positions(&key.columns)).collect::<Result<_, _>>()?)
}

/// An INSERT with a clause for conflicts, once its rows are planned.
pub(crate) struct Upsert<'a> {
    pub transaction: &'a mut WriteTransaction,
    pub context: &'a WriteContext,
    pub table: Arc<Table>,
    pub snapshot: Arc<Snapshot>,
    pub parameters: &'a Parameters,
    /// The name by which expressions know the table.
    pub alias: String,
}

impl Upsert<'_> {
    pub fn run(
        mut self,
        conflict: Conflict,
        batches: impl Iterator<Item = Result<RecordBatch>>,
        returning: Option<Returning>,
    ) -> Result<Outcome> {
        let source = self.collected(batches)?;
        let rows = numbered(&source)?;
        let (mut met, mut changed) = (HashSet::new(), Changed::default());
        match conflict.update {
            Some(update) => {
                let repeated = repeated(&source, &conflict.keys, &met)?;
                if let Some(row) = repeated.iter().min() {
                    return Err(changed_twice(&format!("row {} has the key of an earlier row, and", row + 1)));
                }
                let key = conflict.keys.first().map_or(&[][..], Vec::as_slice);
                changed = self.changed(&rows, key, update, &mut met)?;
            }
            None => {
                for key in &conflict.keys {
                    met.extend(self.met(&rows, key)?);
                }
                // Of the others with the same key, the first one is inserted.
                met.extend(repeated(&source, &conflict.keys, &met)?);
            }
        }
        let new: Vec<u64> = (0..source.num_rows() as u64).filter(|row| !met.contains(row)).collect();
        let inserted = take_record_batch(&source, &UInt64Array::from(new.clone()))?;
        let written = self.write(changed, inserted, new)?;
        let affected = written.num_rows() as u64;
        match returning {
            Some(returning) => {
                returning.rows(self.context, self.snapshot, self.parameters, &self.table.schema, vec![written])
            }
            None => Ok(Outcome::Affected { verb: "INSERT", rows: affected }),
        }
    }

    /// The new rows as they are stored.
    fn collected(&self, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<RecordBatch> {
        let (schema, places) = (text_types::written_schema(&self.table.schema), Places::all(&self.table.schema));
        let mut rows = vec![];
        let mut count = 0;
        for batch in batches {
            self.context.check_cancelled()?;
            let batch = batch?;
            if batch.num_rows() > 0 {
                rows.push(stored_rows(&batch, &places, &schema, count)?);
                count += batch.num_rows() as u64;
                self.context.hold(batch.get_array_memory_size())?;
            }
        }
        Ok(concat_batches(&self.table.schema.to_arrow(), &rows)?)
    }

    /// `SELECT row id, number of the new row … FROM table JOIN new rows`.
    fn join(&self, key: &[usize]) -> Result<Box<ast::Query>> {
        let alias = quote(&self.alias);
        let equal = |column: &usize| {
            let name = quote(&self.table.schema.columns[*column].name);
            format!("{alias}.{name} = {EXCLUDED}.{name}")
        };
        let equal = key.iter().map(equal).collect::<Vec<_>>().join(" AND ");
        parse_query(&format!(
            "SELECT {alias}.{ROW_ID_COLUMN}, {EXCLUDED}.{} FROM {} AS {alias} JOIN {} AS {EXCLUDED} ON {equal}",
            quote(ROW),
            quote(TARGET),
            quote(SOURCE)
        ))
    }

    fn joined(&self, rows: &ArrowTable, query: Box<ast::Query>) -> Result<Vec<RecordBatch>> {
        let mut parameters = self.parameters.clone();
        let mut tables = parameters.tables.as_ref().clone();
        tables.insert(SOURCE.to_owned(), rows.clone());
        parameters.tables = Arc::new(tables);
        let scope = Scope::new(self.snapshot.clone()).with_target_rows(&self.table.name);
        let (state, plan) = self.context.plan(&scope, ast::Statement::Query(query), &parameters)?;
        self.context.run(&state, &plan)?.collect()
    }

    /// The numbers of the new rows whose key is there, and stays there: waits for transactions that may remove such a row.
    fn met(&self, rows: &ArrowTable, key: &[usize]) -> Result<Vec<u64>> {
        let (mut row_ids, mut met) = (vec![], vec![]);
        for batch in self.joined(rows, self.join(key)?)? {
            row_ids.extend(row_id_column(&batch)?.values());
            met.extend(numbers(&batch, 1)?.values());
        }
        let gone: HashSet<u64> =
            self.transaction.gone(&self.table.name, row_ids.iter().copied())?.into_iter().collect();
        let stays = row_ids.into_iter().zip(met).filter(|(row, _)| !gone.contains(row));
        Ok(stays.map(|(_, number)| number).collect())
    }

    /// The new versions of rows that are there. Adds the numbers of all new rows that meet one to `met`.
    fn changed(
        &self,
        rows: &ArrowTable,
        key: &[usize],
        mut update: ast::DoUpdate,
        met: &mut HashSet<u64>,
    ) -> Result<Changed> {
        let schema = &self.table.schema;
        let alias = ast::Ident::with_quote('"', &self.alias);
        qualify_values(&mut update, schema, &alias);
        let mut query = self.join(key)?;
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            select.projection.extend(set_values(schema, update.assignments, &alias)?);
            select.selection = update.selection.map(|mut condition| {
                qualify(&mut condition, schema, &alias);
                condition
            });
            if select.selection.is_some() {
                // Rows that do not satisfy the condition are met as well.
                met.extend(self.met(rows, key)?);
            }
        }
        assignments::evaluate_once(&mut query)?;
        let mut changed = Changed::default();
        let stored = text_types::written_schema(schema);
        let places = Places::all(schema);
        for batch in self.joined(rows, query)? {
            changed.row_ids.extend(row_id_column(&batch)?.values());
            let numbers = numbers(&batch, 1)?;
            changed.numbers.extend(numbers.values());
            met.extend(numbers.values());
            let values = batch.project(&(2..batch.num_columns()).collect::<Vec<_>>())?;
            changed.rows.push(stored_rows(&values, &places, &stored, 0)?);
        }
        Ok(changed)
    }

    /// Writes changed and new rows, and returns them in the order of the statement's rows.
    fn write(&mut self, changed: Changed, inserted: RecordBatch, numbers_of_new: Vec<u64>) -> Result<RecordBatch> {
        let table = self.table.clone();
        let (name, schema) = (&table.name, &table.schema);
        let appender = match changed.row_ids.is_empty() {
            true => self.transaction.appender(name)?,
            false => self.transaction.replacing_appender(name)?,
        };
        let mut appender = Appending::new(appender, schema, Places::all(schema));
        for rows in changed.rows.iter().chain([&inserted]) {
            appender.push(rows)?;
        }
        let appended = appender.finish()?;
        if !changed.row_ids.is_empty() {
            self.transaction.delete_changed(name, changed.row_ids, &|_| true)?;
        }
        self.transaction.append(appended)?;
        check_keys(self.transaction)?;
        let written = concat_batches(&schema.to_arrow(), changed.rows.iter().chain([&inserted]))?;
        let numbers = [changed.numbers, numbers_of_new].concat();
        let mut order: Vec<u64> = (0..numbers.len() as u64).collect();
        order.sort_by_key(|at| numbers[*at as usize]);
        Ok(take_record_batch(&written, &UInt64Array::from(order))?)
    }
}

/// A key that was free before and is not now was added by another transaction since: the statement begins again.
pub(crate) fn check_keys(transaction: &mut WriteTransaction) -> Result<()> {
    match transaction.check_keys() {
        Err(StoreError::DuplicateKey { table, .. }) if !transaction.is_current()? => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "could not serialize: a row with the same key was added to table {table} since this transaction began"
            ),
        )
        .with_hint("roll the transaction back and repeat it")),
        checked => Ok(checked?),
    }
}

/// The query of the values that DO UPDATE gives a row of [`TARGET`], from it and the new row in [`SOURCE`].
pub(crate) fn new_values(mut update: ast::DoUpdate, schema: &TableSchema, alias: &str) -> Result<Box<ast::Query>> {
    let ident = ast::Ident::with_quote('"', alias);
    qualify_values(&mut update, schema, &ident);
    let (target, source) = (quote(TARGET), quote(SOURCE));
    let mut query =
        parse_query(&format!("SELECT 1 FROM {target} AS {} CROSS JOIN {source} AS {EXCLUDED}", quote(alias)))?;
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        select.projection = set_values(schema, update.assignments, &ident)?;
    }
    Ok(query)
}

fn qualify_values(update: &mut ast::DoUpdate, schema: &TableSchema, alias: &ast::Ident) {
    for assignment in &mut update.assignments {
        qualify(&mut assignment.value, schema, alias);
    }
}

/// Rows that replace others.
#[derive(Default)]
struct Changed {
    row_ids: Vec<u64>,
    numbers: Vec<u64>,
    rows: Vec<RecordBatch>,
}

/// The lock that an INSERT takes on its table.
pub(crate) fn lock_mode(insert: &ast::Insert, context: &WriteContext) -> LockMode {
    if insert.on.is_some() || insert.or.is_some() { context.row_lock } else { LockMode::Shared }
}

/// Gives the columns of a table that an expression names by their names alone the table's name, as in DuckDB and
/// SQLite. Those within subqueries remain as they are.
fn qualify(expression: &mut ast::Expr, schema: &TableSchema, alias: &ast::Ident) {
    visitor::own_expressions_mut(expression, &mut |part| {
        if let ast::Expr::Identifier(name) = part
            && schema.columns.iter().any(|column| column.name == identifier(name))
        {
            *part = ast::Expr::CompoundIdentifier(vec![alias.clone(), name.clone()]);
        }
    });
}

/// The numbers of the rows with a key of an earlier row, without regard to the rows in `except`.
fn repeated(rows: &RecordBatch, keys: &[Vec<usize>], except: &HashSet<u64>) -> Result<Vec<u64>> {
    let encoded = keys.iter().map(|key| encoded(rows, key)).collect::<Result<Vec<_>>>()?;
    let mut seen: Vec<HashSet<&[u8]>> = vec![HashSet::new(); keys.len()];
    let mut repeated = vec![];
    for row in (0..rows.num_rows()).filter(|row| !except.contains(&(*row as u64))) {
        let is_null = |key: &Vec<usize>| key.iter().any(|column| rows.column(*column).is_null(row));
        let bytes = encoded.iter().zip(keys).map(|(rows, key)| (!is_null(key)).then(|| rows.row(row).data()));
        let bytes: Vec<Option<&[u8]>> = bytes.collect();
        if bytes.iter().zip(&seen).any(|(bytes, seen)| bytes.is_some_and(|bytes| seen.contains(bytes))) {
            repeated.push(row as u64);
        } else {
            bytes.into_iter().zip(&mut seen).for_each(|(bytes, seen)| seen.extend(bytes));
        }
    }
    Ok(repeated)
}

/// The error of a statement that would change a row twice.
pub(crate) fn changed_twice(why: &str) -> Error {
    Error::invalid(format!("{why} {CHANGED_TWICE}")).with_hint("make the new rows distinct, for example with GROUP BY")
}

/// The values of some columns as bytes that are equal where the values are.
fn encoded(rows: &RecordBatch, columns: &[usize]) -> Result<Rows> {
    let columns: Vec<ArrayRef> = columns.iter().map(|column| one_zero(rows.column(*column))).collect();
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    Ok(RowConverter::new(fields)?.convert_columns(&columns)?)
}

/// Floats with one zero and one NaN.
fn one_zero(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(one)) as ArrayRef
        }
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(one)) as ArrayRef
        }
        _ => array.clone(),
    }
}

/// The rows as a table, with their numbers.
fn numbered(rows: &RecordBatch) -> Result<ArrowTable> {
    let mut fields: Vec<_> = rows.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(ROW, DataType::UInt64, false)));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(UInt64Array::from_iter_values(0..rows.num_rows() as u64)));
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    ArrowTable::of_batches(&schema, [batch])
}

/// A column of numbers.
pub(crate) fn numbers(batch: &RecordBatch, column: usize) -> Result<&UInt64Array> {
    let column = batch.columns().get(column).and_then(|column| column.as_primitive_opt::<UInt64Type>());
    column.ok_or_else(|| Error::new(ErrorKind::Internal, "internal error: the numbers of rows are missing"))
}
