//! The columns of the table from those of a file.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::scalar::ScalarValue;

use super::set::{ColumnSource, SetFile};
use crate::error::Result;
use crate::ingest::{Location, as_declared, conform_columns};

/// The mapping of a file's columns to some columns of the table.
#[derive(Debug, Clone)]
pub(super) struct Assembly {
    pub schema: SchemaRef,
    /// The columns of the file to read, in order.
    pub stored: Vec<usize>,
    pieces: Vec<Piece>,
    name: String,
}

#[derive(Debug, Clone)]
enum Piece {
    /// The column at this position among the read ones.
    Read(usize),
    Value(ScalarValue),
    Missing(DataType),
}

impl Assembly {
    /// Of the columns `columns` of the table, for a file that is read with the types of `read`.
    pub fn new(read: &Schema, file: &SetFile, columns: &[usize]) -> Self {
        let stored = columns.iter().filter_map(|column| match file.columns[*column] {
            ColumnSource::Stored(place) => Some(place),
            _ => None,
        });
        let mut stored: Vec<usize> = stored.collect();
        stored.sort_unstable();
        stored.dedup();
        let piece = |column: &usize| match &file.columns[*column] {
            ColumnSource::Stored(place) => Piece::Read(stored.partition_point(|other| other < place)),
            ColumnSource::Value(value) => Piece::Value(value.clone()),
            ColumnSource::Missing => Piece::Missing(read.field(*column).data_type().clone()),
        };
        let pieces = columns.iter().map(piece).collect();
        let fields: Vec<Arc<Field>> = columns.iter().map(|column| read.fields()[*column].clone()).collect();
        Self { schema: Arc::new(Schema::new(fields)), stored, pieces, name: file.name.clone() }
    }

    /// The table's columns for rows that were read. `first_row` is the number of the first row in the file, counted
    /// from 1, if known.
    pub fn assemble(&self, read: &RecordBatch, first_row: Option<u64>) -> Result<RecordBatch> {
        let rows = read.num_rows();
        let column = |(piece, field): (&Piece, &Arc<Field>)| -> Result<ArrayRef> {
            Ok(match piece {
                Piece::Read(place) => as_declared(read.column(*place), field.data_type()),
                Piece::Value(value) => value.to_array_of_size(rows)?,
                Piece::Missing(data_type) => new_null_array(data_type, rows),
            })
        };
        let columns = self.pieces.iter().zip(self.schema.fields()).map(column).collect::<Result<Vec<_>>>()?;
        let is_conform = columns.iter().zip(self.schema.fields()).all(|(c, f)| c.data_type() == f.data_type());
        if is_conform {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            return Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?);
        }
        let at = Location { source: self.name.clone(), first_row: first_row.unwrap_or(0) };
        let conformed = conform_columns(&columns, rows, &self.schema, &at);
        Ok(conformed.map_err(|error| if first_row.is_some() { error } else { error.without_row() })?)
    }

    /// Like [`Assembly::new`], for rows whose columns are in the order `parsed` of the table's columns.
    pub fn of_parsed(read: &Schema, file: &SetFile, columns: &[usize], parsed: &[usize]) -> Self {
        let mut assembly = Self::new(read, file, columns);
        for (piece, column) in assembly.pieces.iter_mut().zip(columns) {
            if let (Piece::Read(place), Some(at)) = (&mut *piece, parsed.iter().position(|parsed| parsed == column)) {
                *place = at;
            }
        }
        assembly
    }
}
