//! Point statements that change rows.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::logical_expr::Operator;
use datafusion::scalar::ScalarValue;
use freestone_store::scan::ColumnPredicate;
use freestone_store::schema::TableSchema;
use freestone_store::{Appender, LockMode, Table, WriteTransaction};

use super::rows::{Tests, found, tests};
use super::{Action, NewValue, OnConflict, Operand, Point, Returned};
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::dml::{self, Appending};
use crate::exec::stored_values::Places;
use crate::exec::write::WriteContext;
use crate::exec::{returning, upsert};
use crate::ingest::stored_cell;
use crate::provider::comparison;

impl Point {
    /// Performs the statement for some values; `None`, without having changed anything, if they do not fit it.
    ///
    /// # Errors
    /// As for every statement that writes.
    pub fn write(
        &self,
        transaction: &mut WriteTransaction,
        context: &WriteContext,
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        self.perform(transaction, context, values).map_err(|error| error.in_table(&self.name))
    }

    fn perform(
        &self,
        transaction: &mut WriteTransaction,
        context: &WriteContext,
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        match &self.action {
            Action::Select(_) => Ok(None),
            Action::Insert { cells, conflict } => self.insert(transaction, context, cells, conflict.as_ref(), values),
            Action::Update { conditions, values: new, assigned } => {
                let is_assigned = |column: usize| assigned[column];
                let Some(old) = self.rows(transaction, context, conditions, values, true)? else { return Ok(None) };
                self.update(transaction, context, old, new, &is_assigned, values).map(Some)
            }
            Action::Delete(conditions) => {
                let returns = self.returning.is_some();
                let Some(old) = self.rows(transaction, context, conditions, values, returns)? else { return Ok(None) };
                let rows = transaction.delete(&self.name, ids(&old)?)?;
                self.outcome(context, "DELETE", rows, old).map(Some)
            }
        }
    }

    fn insert(
        &self,
        transaction: &mut WriteTransaction,
        context: &WriteContext,
        cells: &[Operand],
        conflict: Option<&OnConflict>,
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        let lock = if conflict.is_some() { context.row_lock } else { LockMode::Shared };
        dml::find(transaction, &self.name, lock)?;
        let snapshot = transaction.snapshot();
        let Some(table) = self.table(&snapshot) else { return Ok(None) };
        let schema = context.written_schema(&table.schema);
        let mut columns = Vec::with_capacity(cells.len());
        for (cell, field) in cells.iter().zip(schema.fields()) {
            let Some(value) = cell.value(values) else { return Ok(None) };
            columns.push(stored_cell(&array(value, 1)?, field, 1)?);
        }
        context.prepare_append(transaction, Some(1))?;
        let row = nullable_batch(schema.fields(), columns, 1)?;
        if let Some(conflict) = conflict {
            return self.upsert(transaction, context, table, row, conflict, values);
        }
        let mut appending = self.appending(context, transaction.appender(&self.name)?, &table.schema);
        appending.push(&row)?;
        let (appended, written) = appending.finish_kept()?;
        let rows = transaction.append(appended)?;
        self.outcome(context, "INSERT", rows, written).map(Some)
    }

    /// Inserts a row, or does what ON CONFLICT says if its key is there.
    fn upsert(
        &self,
        transaction: &mut WriteTransaction,
        context: &WriteContext,
        table: &Arc<Table>,
        row: RecordBatch,
        conflict: &OnConflict,
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        let schema = &table.schema;
        let row = dml::stored_rows(&row, &Places::all(schema), &context.written_schema(schema), 0)
            .map_err(|error| error.in_table(&table.name))?;
        let mut old = None;
        for key in &conflict.keys {
            let Some(tests) = tests_of_row(table, &row, key)? else { return Ok(None) };
            let columns = if conflict.update.is_some() { (0..schema.columns.len()).collect() } else { vec![] };
            let met = found(table, tests, columns, true, &Arc::default())?;
            let Some(met) = met.into_iter().find(|rows| rows.num_rows() > 0) else { continue };
            // A row that another transaction removes leaves room for the new one.
            if conflict.update.is_some() || transaction.gone(&self.name, ids(std::slice::from_ref(&met))?)?.is_empty() {
                old = old.or(Some(met));
            }
        }
        let (changed, appender) = match (&old, &conflict.update) {
            (None, _) => (row, transaction.appender(&self.name)?),
            (Some(_), None) => return self.outcome(context, "INSERT", 0, vec![]).map(Some),
            (Some(old), Some(update)) => {
                let inputs = [&old.columns()[..schema.columns.len()], row.columns()].concat();
                let new = update.iter().map(|value| self.new_value(value, &inputs, 1, values));
                let new = new.collect::<Result<Vec<_>>>()?;
                (nullable_batch(schema.to_arrow().fields(), new, 1)?, transaction.replacing_appender(&self.name)?)
            }
        };
        let mut appending = self.appending(context, appender, schema);
        appending.push(&changed)?;
        let (appended, written) = appending.finish_kept()?;
        // Columns that keep their values are neither locked nor checked as keys.
        let keeps = |column: usize, value: &NewValue| matches!(value, NewValue::Column(of) if *of == column);
        let update = old.as_ref().and(conflict.update.as_ref());
        let is_assigned = |column: usize| update.is_none_or(|update| !keeps(column, &update[column]));
        if let Some(old) = &old {
            transaction.delete_changed(&self.name, ids(std::slice::from_ref(old))?, &is_assigned)?;
        }
        transaction.append_changed(appended, &is_assigned)?;
        upsert::check_keys(transaction)?;
        self.outcome(context, "INSERT", 1, written).map(Some)
    }

    fn appending(&self, context: &WriteContext, appender: Appender, schema: &TableSchema) -> Appending {
        let appending = Appending::new(context, appender, schema, Places::all(schema));
        if self.returning.is_some() { appending.keeping() } else { appending }
    }

    /// The result of a change of rows, whose columns are the first of `rows`.
    fn outcome(
        &self,
        context: &WriteContext,
        verb: &'static str,
        count: u64,
        rows: Vec<RecordBatch>,
    ) -> Result<Outcome> {
        let Some(Returned { places, schema }) = &self.returning else {
            return Ok(Outcome::Affected { verb, rows: count });
        };
        let arranged = |batch: &RecordBatch| {
            let columns = places.iter().map(|place| batch.column(*place).clone()).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        };
        let batches = rows.iter().map(arranged).collect::<Result<_, _>>()?;
        Ok(returning::outcome(context, schema.clone(), batches))
    }

    /// The rows that an UPDATE or DELETE meets, with their ids in the last column.
    fn rows(
        &self,
        transaction: &mut WriteTransaction,
        context: &WriteContext,
        conditions: &[super::Condition],
        values: &[ScalarValue],
        with_columns: bool,
    ) -> Result<Option<Vec<RecordBatch>>> {
        dml::find(transaction, &self.name, context.row_lock)?;
        let snapshot = transaction.snapshot();
        let Some(table) = self.table(&snapshot) else { return Ok(None) };
        let Some(tests) = tests(table, conditions, values) else { return Ok(None) };
        let columns = if with_columns { (0..table.schema.columns.len()).collect() } else { vec![] };
        found(table, tests, columns, true, &Arc::default()).map(Some)
    }

    fn update(
        &self,
        transaction: &mut WriteTransaction,
        context: &WriteContext,
        old: Vec<RecordBatch>,
        new: &[NewValue],
        is_assigned: &dyn Fn(usize) -> bool,
        values: &[ScalarValue],
    ) -> Result<Outcome> {
        let table = transaction.table(&self.name)?;
        if old.is_empty() {
            // As planned statements do, which refuse such a constant before they look for rows.
            for (column, value) in new.iter().enumerate().filter(|(column, _)| is_assigned(*column)) {
                if let NewValue::Given(operand) = value
                    && let Some(value) = operand.value(values).filter(|value| !value.is_null())
                {
                    dml::check_constant(context, &table.schema, column, value)
                        .map_err(|error| error.in_table(&table.name))?;
                }
            }
            return self.outcome(context, "UPDATE", 0, old);
        }
        context.prepare_append(transaction, None)?;
        let appender = transaction.replacing_appender(&self.name)?;
        let mut appending = self.appending(context, appender, &table.schema);
        for batch in &old {
            let (inputs, rows) = (&batch.columns()[..table.schema.columns.len()], batch.num_rows());
            let computed = new.iter().map(|value| self.new_value(value, inputs, rows, values));
            let computed = computed.collect::<Result<Vec<_>>>()?;
            appending.push(&nullable_batch(table.schema.to_arrow().fields(), computed, batch.num_rows())?)?;
        }
        let (appended, written) = appending.finish_kept()?;
        transaction.delete_changed(&self.name, ids(&old)?, is_assigned)?;
        let rows = transaction.append_changed(appended, is_assigned)?;
        self.outcome(context, "UPDATE", rows, written)
    }

    fn new_value(
        &self,
        value: &NewValue,
        inputs: &[ArrayRef],
        rows: usize,
        values: &[ScalarValue],
    ) -> Result<ArrayRef> {
        match value {
            NewValue::Column(column) => Ok(inputs[*column].clone()),
            NewValue::Given(operand) => array(operand.value(values).unwrap_or(&ScalarValue::Null), rows),
            NewValue::Computed(expression) => {
                let given = values.iter().map(|value| array(value, rows)).collect::<Result<Vec<_>>>()?;
                let columns: Vec<ArrayRef> = inputs.iter().cloned().chain(given).collect();
                // The expression finds its columns by their positions.
                let field =
                    |(at, column): (usize, &ArrayRef)| Field::new(at.to_string(), column.data_type().clone(), true);
                let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
                let batch = RecordBatch::try_new(Arc::new(schema), columns)?;
                Ok(expression.evaluate(&batch)?.into_array(rows)?)
            }
        }
    }
}

/// What the rows with the key of a new row satisfy; `None` if the store cannot test it.
fn tests_of_row(table: &Table, row: &RecordBatch, key: &[usize]) -> Result<Option<Tests>> {
    let mut predicates = Vec::with_capacity(key.len());
    for column in key {
        let value = ScalarValue::try_from_array(row.column(*column), 0)?;
        if value.is_null() {
            return Ok(Some(Tests::Nothing));
        }
        let data_type = &table.schema.columns[*column].data_type;
        let Some(predicate) = comparison(Operator::Eq, &value, data_type) else { return Ok(None) };
        predicates.push(ColumnPredicate { column: *column, predicate });
    }
    Ok(Some(Tests::Predicates(predicates)))
}

fn array(value: &ScalarValue, rows: usize) -> Result<ArrayRef> {
    Ok(value.to_array_of_size(rows)?)
}

/// A batch of values that were not checked for NULL.
fn nullable_batch(
    fields: &datafusion::arrow::datatypes::Fields,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let field = |(field, column): (&Arc<Field>, &ArrayRef)| Field::new(field.name(), column.data_type().clone(), true);
    let schema = Schema::new(fields.iter().zip(&columns).map(field).collect::<Vec<_>>());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?)
}

/// The ids of rows, which are the last column.
fn ids(batches: &[RecordBatch]) -> Result<HashSet<u64>> {
    let mut all = HashSet::new();
    for batch in batches {
        let ids = batch.columns().last().and_then(|column| column.as_any().downcast_ref::<UInt64Array>());
        let ids = ids.ok_or_else(|| Error::new(ErrorKind::Internal, "internal error: the row ids are missing"))?;
        all.extend(ids.values());
    }
    Ok(all)
}
