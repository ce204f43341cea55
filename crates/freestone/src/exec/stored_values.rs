//! Conversion of the values that a statement stores: exact, or an error with row and column.
//!
//! DataFusion casts inserted values to the types of the columns, so that 1.5 becomes 1 in an INT column. Here, rows
//! keep the types of their query, and [`conform`] converts them exactly to the table's types. This applies to INSERT,
//! UPDATE, CREATE TABLE with columns, parameters, and rows that clients send.
//!
//! `VALUES` has one type per column. In a DOUBLE column, 9007199254740993 would lose its last digit. So if the cells of
//! a column have different types, each cell is converted to the column's type separately, by the function [`Stored`](crate::ingest::Stored).

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use freestone_sql::tree::{Expr, ExprKind, Literal, UnaryOperator};
use freestone_store::schema::TableSchema;

use crate::error::{Error, Result};
use crate::exec::row_queries::position;
use crate::ingest::STORED;
use crate::sql::trees;

/// Digits of a number that a DOUBLE holds as they are written.
const DOUBLE_DIGITS: usize = 15;

/// Which column of the rows is which of the table: for each of the table, its place; those that are not given have
/// their DEFAULT or NULL.
#[derive(Debug, Clone)]
pub(crate) struct Places(Vec<Option<usize>>);

impl Places {
    /// All columns of a table, in their order.
    pub fn all(schema: &TableSchema) -> Self {
        Places((0..schema.columns.len()).map(Some).collect())
    }

    /// The columns that an INSERT names.
    ///
    /// # Errors
    /// A column that the table does not have, or one that is named twice.
    pub fn named(schema: &TableSchema, columns: &[String]) -> Result<Self> {
        if columns.is_empty() {
            return Ok(Self::all(schema));
        }
        let mut places = vec![None; schema.columns.len()];
        for (place, name) in columns.iter().enumerate() {
            let at = position(schema, name)?;
            if places[at].replace(place).is_some() {
                return Err(Error::invalid(format!("column {name} appears twice")).with_hint("name each column once"));
            }
        }
        Ok(Places(places))
    }

    /// How many columns are given.
    pub fn given(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// The table's columns that are not given.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().filter(|(_, place)| place.is_none()).map(|(at, _)| at)
    }

    /// Gives a column, after the others.
    pub fn give(&mut self, column: usize) {
        let place = self.given();
        if let Some(at) = self.0.get_mut(column) {
            at.get_or_insert(place);
        }
    }

    /// The table's columns in the order in which they are given.
    pub fn targets(&self) -> Vec<usize> {
        let mut targets: Vec<(usize, usize)> =
            self.0.iter().enumerate().filter_map(|(at, place)| place.map(|place| (place, at))).collect();
        targets.sort_unstable();
        targets.into_iter().map(|(_, at)| at).collect()
    }

    /// The rows with all columns of the table, of whatever types they come in. `others` are columns that are not given,
    /// by their positions in the table.
    ///
    /// # Errors
    /// Rows of another number of columns.
    pub fn arranged(
        &self,
        batch: &RecordBatch,
        schema: &SchemaRef,
        others: &[(usize, ArrayRef)],
    ) -> Result<RecordBatch> {
        check_count(self.given(), batch.num_columns())?;
        let columns = self.0.iter().zip(schema.fields()).enumerate().map(|(column, (place, field))| match place {
            Some(at) => batch.column(*at).clone(),
            None => match others.iter().find(|(other, _)| *other == column) {
                Some((_, values)) => values.clone(),
                None => new_null_array(field.data_type(), batch.num_rows()),
            },
        });
        let columns: Vec<_> = columns.collect();
        let fields: Vec<Field> = schema
            .fields()
            .iter()
            .zip(&columns)
            .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
    }
}

/// Refuses rows of another number of columns than are stored.
pub(crate) fn check_count(expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::invalid(format!("the rows have {found} columns, expected {expected}"))
        .with_hint("name the columns that they are for: INSERT INTO t (a, b) …"))
}

/// Puts [`STORED`] around the cells of `VALUES` that cannot be of one type with the others of their column.
///
/// # Errors
/// A row of another number of cells.
pub(crate) fn prepare_values(rows: &mut [Vec<Expr>], places: &Places, schema: &TableSchema) -> Result<()> {
    let expected = places.given();
    if let Some((at, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != expected) {
        let found = row.len();
        return Err(Error::invalid(format!("row {} has {found} values, expected {expected}", at + 1)));
    }
    for (place, at) in places.targets().into_iter().enumerate() {
        let data_type = &schema.columns[at].data_type;
        let cells = || rows.iter().filter_map(|row| row.get(place));
        if cells().all(|cell| is_plain(cell, data_type)) || cells().all(is_text) {
            continue;
        }
        for (row, cells) in rows.iter_mut().enumerate() {
            if let Some(cell) = cells.get_mut(place) {
                let span = cell.span;
                let known = std::mem::replace(cell, trees::literal(Literal::Null, span));
                *cell = trees::call(STORED, vec![known, trees::number(at, span), trees::number(row + 1, span)], span);
            }
        }
    }
    Ok(())
}

/// Texts and NULLs alone are read as the column's type when they are stored.
fn is_text(cell: &Expr) -> bool {
    matches!(cell.kind, ExprKind::Literal(Literal::Text(_) | Literal::Null))
}

/// A literal that stays exact with any other such literal of its column.
fn is_plain(cell: &Expr, data_type: &DataType) -> bool {
    let value = match &cell.kind {
        ExprKind::Literal(value) => value,
        ExprKind::Unary { operator: UnaryOperator::Minus, operand } => match &operand.kind {
            ExprKind::Literal(value @ Literal::Number(_)) => value,
            _ => return false,
        },
        _ => return false,
    };
    match value {
        Literal::Null => true,
        Literal::Text(_) => data_type.is_string(),
        Literal::Number(digits) => {
            let length = digits.len();
            let is_short = !digits.contains(['e', 'E']) && length <= DOUBLE_DIGITS;
            let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit()) && length <= 18;
            is_short && data_type.is_numeric() || is_integer && (data_type.is_integer() || data_type.is_decimal())
        }
        Literal::Boolean(_) => *data_type == DataType::Boolean,
        Literal::Hexadecimal(_) | Literal::Bits(_) => false,
    }
}
