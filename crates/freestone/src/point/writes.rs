//! Point statements that change rows.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::scalar::ScalarValue;
use freestone_store::{LockMode, WriteTransaction};

use super::rows::{found, tests};
use super::{Action, NewValue, Operand, Point};
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::dml::{self, Appending};
use crate::exec::stored_values::Places;
use crate::exec::write::WriteContext;
use crate::ingest::stored_cell;

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
        match &self.action {
            Action::Select(_) => Ok(None),
            Action::Insert(cells) => self.insert(transaction, context, cells, values),
            Action::Update { conditions, values: new, assigned } => {
                let is_assigned = |column: usize| assigned[column];
                let Some(old) = self.rows(transaction, context, conditions, values, true)? else { return Ok(None) };
                self.update(transaction, context, old, new, &is_assigned, values).map(Some)
            }
            Action::Delete(conditions) => {
                let Some(old) = self.rows(transaction, context, conditions, values, false)? else { return Ok(None) };
                let rows = transaction.delete(&self.name, ids(&old)?)?;
                Ok(Some(Outcome::Affected { verb: "DELETE", rows }))
            }
        }
    }

    fn insert(
        &self,
        transaction: &mut WriteTransaction,
        context: &WriteContext,
        cells: &[Operand],
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        dml::find(transaction, &self.name, LockMode::Shared)?;
        let snapshot = transaction.snapshot();
        let Some(table) = self.table(&snapshot) else { return Ok(None) };
        let schema = table.schema.to_arrow();
        let mut columns = Vec::with_capacity(cells.len());
        for (cell, field) in cells.iter().zip(schema.fields()) {
            let Some(value) = cell.value(values) else { return Ok(None) };
            columns.push(stored_cell(&array(value, 1)?, field, 1)?);
        }
        context.prepare_append(transaction, Some(1))?;
        let mut appending =
            Appending::new(transaction.appender(&self.name)?, &table.schema, Places::all(&table.schema));
        appending.push(&nullable_batch(schema.fields(), columns, 1)?)?;
        let appended = appending.finish()?;
        Ok(Some(Outcome::Affected { verb: "INSERT", rows: transaction.append(appended)? }))
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
        if old.is_empty() {
            return Ok(Outcome::Affected { verb: "UPDATE", rows: 0 });
        }
        let table = transaction.table(&self.name)?;
        context.prepare_append(transaction, None)?;
        let appender = transaction.replacing_appender(&self.name)?;
        let mut appending = Appending::new(appender, &table.schema, Places::all(&table.schema));
        for batch in &old {
            let computed = new.iter().map(|value| self.new_value(value, batch, values)).collect::<Result<Vec<_>>>()?;
            appending.push(&nullable_batch(table.schema.to_arrow().fields(), computed, batch.num_rows())?)?;
        }
        let appended = appending.finish()?;
        transaction.delete_changed(&self.name, ids(&old)?, is_assigned)?;
        let rows = transaction.append_changed(appended, is_assigned)?;
        Ok(Outcome::Affected { verb: "UPDATE", rows })
    }

    fn new_value(&self, value: &NewValue, old: &RecordBatch, values: &[ScalarValue]) -> Result<ArrayRef> {
        let rows = old.num_rows();
        match value {
            NewValue::Column(column) => Ok(old.column(*column).clone()),
            NewValue::Given(operand) => array(operand.value(values).unwrap_or(&ScalarValue::Null), rows),
            NewValue::Computed(expression) => {
                // Without the row ids, but with the parameters.
                let of_row = old.num_columns() - 1;
                let given = values.iter().map(|value| array(value, rows)).collect::<Result<Vec<_>>>()?;
                let columns = old.columns()[..of_row].iter().cloned().chain(given).collect();
                let types: Vec<DataType> = self.types.clone();
                let schema = old.schema();
                let fields = schema.fields()[..of_row].iter().map(|field| field.as_ref().clone());
                let given = types.into_iter().enumerate().map(|(at, of)| Field::new(at.to_string(), of, true));
                let schema = Schema::new(fields.chain(given).collect::<Vec<_>>());
                let batch = RecordBatch::try_new(Arc::new(schema), columns)?;
                Ok(expression.evaluate(&batch)?.into_array(rows)?)
            }
        }
    }
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
