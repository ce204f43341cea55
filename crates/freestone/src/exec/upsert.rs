//! `INSERT … ON CONFLICT`, and DuckDB's `INSERT OR REPLACE | OR IGNORE`.
//!
//! The new rows are collected, and joined with the rows of the table that have the same key. Of each new row there is at
//! most one such row, because keys are enforced. Rows without one are inserted. A row that another transaction has added
//! since is found when keys are checked, and makes the statement begin again.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema, SchemaRef, UInt64Type};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use freestone_sql::Span;
use freestone_sql::tree::{
    Assignment, ConflictKey, Expr, ExprKind, Insert, Join, JoinCondition, JoinKind, OnConflict, Select,
    Table as TableOf, TableKind, each_part_mut,
};
use freestone_store::schema::TableSchema;
use freestone_store::{LockMode, Snapshot, StoreError, Table, WriteTransaction};

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::dml::{Appending, row_id_column, stored_rows};
use crate::exec::returning::Returning;
use crate::exec::row_queries::{NewValue, RowQuery, Target};
use crate::exec::stored_values::Places;
use crate::exec::write::WriteContext;
use crate::inputs::ArrowTable;
use crate::internal_names::ROW_ID_COLUMN;
use crate::sql::parameters::Parameters;
use crate::sql::trees;

/// The name under which new rows are planned.
pub(crate) const SOURCE: &str = "freestone$source";
/// The column of the new rows' numbers.
const ROW: &str = "__row";
/// The name by which expressions know the new row.
const EXCLUDED: &str = "excluded";
/// What an error says of a row that a statement would change twice.
pub(crate) const CHANGED_TWICE: &str = "would change a row a second time";
/// What an error says of an ON CONFLICT without a key.
pub(crate) const NO_KEY: &str = "ON CONFLICT names no key";

/// What to do with rows whose key is there already.
pub(crate) struct Conflict<'w> {
    /// The keys that are meant, by the positions of their columns.
    pub keys: Vec<Vec<usize>>,
    pub update: Option<DoUpdate<'w>>,
}

/// The changes of rows that are there.
pub(crate) struct DoUpdate<'w> {
    set: Cow<'w, [Assignment]>,
    pub condition: Option<&'w Expr>,
}

impl<'w> Conflict<'w> {
    /// That of a statement on a table, whose rows are for some of its columns.
    ///
    /// # Errors
    /// The table has no such key.
    pub fn of(insert: &'w Insert, schema: &TableSchema, places: &Places) -> Result<Option<Conflict<'w>>> {
        let (key, update) = match &insert.on_conflict {
            None => return Ok(None),
            Some(OnConflict::Ignore) => (None, None),
            Some(OnConflict::Nothing(key)) => (key.as_ref(), None),
            Some(OnConflict::Replace) => {
                let set = Cow::Owned(replacing(places, schema, insert.table.span));
                (None, Some(DoUpdate { set, condition: None }))
            }
            Some(OnConflict::Update { key, set, condition }) => {
                let set = Cow::Borrowed(set.as_slice());
                (key.as_ref(), Some(DoUpdate { set, condition: condition.as_ref() }))
            }
        };
        let keys = keys(schema, key)?;
        if update.is_some() && keys.len() != 1 {
            let which = "name the key: ON CONFLICT (columns) DO UPDATE …";
            return Err(Error::invalid(format!("{NO_KEY}, and the table has {} keys", keys.len())).with_hint(which));
        }
        Ok(Some(Conflict { keys, update }))
    }
}

impl DoUpdate<'_> {
    /// The changes, in which columns of the table that are named alone are those of the row that is there, as in DuckDB
    /// and SQLite. Those within subqueries remain as they are.
    fn set(&self, target: &Target, schema: &TableSchema) -> Vec<Assignment> {
        let mut set = self.set.to_vec();
        set.iter_mut().for_each(|assignment| qualify(&mut assignment.value, schema, target.alias));
        set
    }

    /// The condition, in the same way.
    fn condition(&self, target: &Target, schema: &TableSchema) -> Option<Expr> {
        self.condition.cloned().map(|mut condition| {
            qualify(&mut condition, schema, target.alias);
            condition
        })
    }

    /// The query of the values of all columns of a row of [`TARGET`](crate::catalog::TARGET), from it and the new row in
    /// [`SOURCE`].
    ///
    /// # Errors
    /// As for [`Target::query_of_update`].
    pub fn new_values(&self, target: &Target, schema: &TableSchema) -> Result<RowQuery> {
        let select = target.select();
        let from = vec![target.table(), trees::table(SOURCE, EXCLUDED, select.span)];
        let values = target.values_of_set(schema, &self.set(target, schema))?;
        Ok(RowQuery::of(target, Select { from, ..select }, values))
    }
}

/// `INSERT OR REPLACE` gives the columns that it names new values.
fn replacing(places: &Places, schema: &TableSchema, span: Span) -> Vec<Assignment> {
    let assigned = |column: usize| {
        let name = schema.columns[column].name.as_str();
        let value = trees::column(&[EXCLUDED, name], span);
        Assignment { columns: vec![trees::name(name, span)], is_row: false, value }
    };
    places.targets().into_iter().map(assigned).collect()
}

/// The keys that an ON CONFLICT means: without a target all of them.
fn keys(schema: &TableSchema, target: Option<&ConflictKey>) -> Result<Vec<Vec<usize>>> {
    let found = match target {
        None => schema.unique_keys.iter().collect(),
        Some(ConflictKey::Columns(columns)) => {
            let columns: Vec<String> = columns.iter().map(|column| column.text.clone()).collect();
            schema.positions(&columns)?;
            let key = schema.enforced_key(&columns);
            let list = columns.join(", ");
            let hint = format!("PRIMARY KEY ({list}) or UNIQUE ({list}) makes it one");
            vec![key.ok_or_else(|| Error::invalid(format!("{NO_KEY}: ({list}) is none of the table")).with_hint(hint))?]
        }
        Some(ConflictKey::Constraint(name)) => {
            let key = schema.unique_keys.iter().find(|key| key.name == name.text);
            let names = schema.unique_keys.iter().map(|key| key.name.as_str());
            vec![key.ok_or_else(|| Error::not_found("constraint", &name.text, names))?]
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
    pub target: &'a Target<'a>,
}

impl Upsert<'_> {
    pub fn run(
        mut self,
        conflict: &Conflict,
        batches: impl Iterator<Item = Result<RecordBatch>>,
        returning: Option<Returning>,
    ) -> Result<Outcome> {
        let source = self.collected(batches)?;
        let rows = numbered(&source)?;
        let (mut met, mut changed) = (HashSet::new(), Changed::default());
        match &conflict.update {
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
        let (schema, places) = (self.context.written_schema(&self.table.schema), Places::all(&self.table.schema));
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

    /// `SELECT FROM table JOIN new rows`.
    fn join(&self, key: &[usize]) -> Select {
        let select = self.target.select();
        let span = select.span;
        let equal = |column: &usize| {
            let name = &self.table.schema.columns[*column].name;
            trees::equal(self.target.column(name), trees::column(&[EXCLUDED, name], span))
        };
        let condition = trees::conjunction(key.iter().map(equal));
        let join = Join {
            kind: if condition.is_some() { JoinKind::Inner } else { JoinKind::Cross },
            asof: false,
            table: trees::table(SOURCE, EXCLUDED, span),
            condition: condition.map_or(JoinCondition::None, |condition| JoinCondition::On(Box::new(condition))),
            span,
        };
        let kind = TableKind::Join { first: Box::new(self.target.table()), rest: vec![join] };
        Select { from: vec![TableOf { kind, alias: None, sample: None, span }], ..select }
    }

    /// The row id, and the number of the new row.
    fn numbers(&self) -> [(NewValue, String); 2] {
        let row = self.target.column(ROW_ID_COLUMN);
        let number = trees::column(&[EXCLUDED, ROW], row.span);
        [(NewValue::Value(row), ROW_ID_COLUMN.to_owned()), (NewValue::Value(number), ROW.to_owned())]
    }

    fn joined(&self, rows: &ArrowTable, query: &RowQuery) -> Result<Vec<RecordBatch>> {
        let mut parameters = self.parameters.clone();
        let mut tables = parameters.tables.as_ref().clone();
        tables.insert(SOURCE.to_owned(), rows.clone());
        parameters.tables = Arc::new(tables);
        let scope = Scope::new(self.snapshot.clone()).with_target_rows(&self.table.name);
        let (state, plan) = self.context.plan_made(&scope, &query.query, &parameters)?;
        self.context.run(&state, &query.finished(plan)?)?.collect()
    }

    /// The numbers of the new rows whose key is there, and stays there: waits for transactions that may remove such a row.
    fn met(&self, rows: &ArrowTable, key: &[usize]) -> Result<Vec<u64>> {
        let (mut row_ids, mut met) = (vec![], vec![]);
        let query = RowQuery::of(self.target, self.join(key), self.numbers());
        for batch in self.joined(rows, &query)? {
            row_ids.extend(row_id_column(&batch)?.values());
            met.extend(numbers(&batch, 1)?.values());
        }
        let gone: HashSet<u64> =
            self.transaction.gone(&self.table.name, row_ids.iter().copied())?.into_iter().collect();
        let stays = row_ids.into_iter().zip(met).filter(|(row, _)| !gone.contains(row));
        Ok(stays.map(|(_, number)| number).collect())
    }

    /// The new versions of rows that are there. Adds the numbers of all new rows that meet one to `met`.
    fn changed(&self, rows: &ArrowTable, key: &[usize], update: &DoUpdate, met: &mut HashSet<u64>) -> Result<Changed> {
        let schema = &self.table.schema;
        let mut join = self.join(key);
        join.condition = update.condition(self.target, schema);
        if join.condition.is_some() {
            // Rows that do not satisfy the condition are met as well.
            met.extend(self.met(rows, key)?);
        }
        let values = self.target.values_of_set(schema, &update.set(self.target, schema))?;
        let query = RowQuery::of(self.target, join, self.numbers().into_iter().chain(values));
        let mut changed = Changed::default();
        let stored = self.context.written_schema(schema);
        let places = Places::all(schema);
        for batch in self.joined(rows, &query)? {
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
        let mut appender = Appending::new(self.context, appender, schema, Places::all(schema));
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

/// Rows that replace others.
#[derive(Default)]
struct Changed {
    row_ids: Vec<u64>,
    numbers: Vec<u64>,
    rows: Vec<RecordBatch>,
}

/// The lock that an INSERT takes on its table.
pub(crate) fn lock_mode(insert: &Insert, context: &WriteContext) -> LockMode {
    if insert.on_conflict.is_some() { context.row_lock } else { LockMode::Shared }
}

/// Gives the columns of a table that an expression names by their names alone the name of one side of a join. Those within
/// subqueries remain as they are.
pub(crate) fn qualify(expression: &mut Expr, schema: &TableSchema, side: &str) {
    each_part_mut(expression, &mut |part| {
        if let ExprKind::Column(name) = &mut part.kind
            && let [only] = name.parts.as_slice()
            && schema.columns.iter().any(|column| column.name == only.text)
        {
            name.parts.insert(0, trees::name(side, name.span));
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
