//! COPY's binary format, as clients send it.
//!
//! ```text
//! signature 11 bytes, flags i32, length of an extension i32, the extension
//! each row: number of fields i16, then for each its length i32 (-1 = NULL) and its bytes
//! end: -1 as i16
//! ```

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::scalar::ScalarValue;

use super::error::PgError;
use super::frame::FRAME_BYTES_MAX;
use super::parameters;
use crate::sqlstate;

/// The header of binary data: signature, flags, and the length 0 of the extension.
pub const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// A flag of the header: each row begins with an OID of PostgreSQL.
const FLAG_OIDS: u32 = 1 << 16;

/// Rows per inserted batch.
const BATCH_ROWS: usize = 8192;

/// Converts binary data to batches of a table's columns.
pub struct BinaryRows {
    schema: SchemaRef,
    /// The bytes of an incomplete row.
    rest: Vec<u8>,
    columns: Vec<Vec<ScalarValue>>,
    rows: usize,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Rows,
    End,
}

impl BinaryRows {
    pub fn new(schema: SchemaRef) -> BinaryRows {
        let columns = schema.fields().iter().map(|_| vec![]).collect();
        BinaryRows { schema, rest: vec![], columns, rows: 0, place: Place::Header }
    }

    /// Parses bytes, which may be split anywhere.
    ///
    /// # Errors
    ///
    /// The data is malformed, or a value does not fit its column.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), PgError> {
        let mut all = std::mem::take(&mut self.rest);
        all.extend(bytes);
        let mut rest = all.as_slice();
        while self.place != Place::End {
            let Some(after) = self.read(rest)? else { break };
            rest = after;
        }
        if self.place != Place::End {
            if rest.len() > FRAME_BYTES_MAX {
                return Err(PgError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "a row of COPY's data is too long"));
            }
            self.rest = rest.to_vec();
        }
        Ok(())
    }

    /// Parses the header or a row if it is complete, and returns the rest of the bytes.
    fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, PgError> {
        if self.place == Place::Header {
            let after = header(bytes)?;
            self.place = if after.is_some() { Place::Rows } else { Place::Header };
            return Ok(after);
        }
        let Some((count, after)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
        match i16::from_be_bytes(*count) {
            -1 => {
                self.place = Place::End;
                Ok(Some(after))
            }
            count if usize::try_from(count) == Ok(self.columns.len()) => self.row(after),
            count => Err(malformed(format!("a row has {count} fields instead of {}", self.columns.len()))),
        }
    }

    fn row<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, PgError> {
        let (mut rest, mut values) = (bytes, Vec::with_capacity(self.columns.len()));
        for field in self.schema.fields() {
            let Some((length, after)) = rest.split_first_chunk::<4>() else { return Ok(None) };
            let value = match i32::from_be_bytes(*length) {
                -1 => {
                    rest = after;
                    None
                }
                length => {
                    let length = usize::try_from(length).map_err(|_| malformed("a field has no length"))?;
                    let Some((value, after)) = after.split_at_checked(length) else { return Ok(None) };
                    rest = after;
                    Some(value)
                }
            };
            let wrong = |reason: String| {
                PgError::new(
                    sqlstate::INVALID_BINARY_REPRESENTATION,
                    format!("column {}, row {}: {reason}", field.name(), self.rows + 1),
                )
            };
            values.push(parameters::field(value, field).map_err(wrong)?);
        }
        self.rows += 1;
        self.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        Ok(Some(rest))
    }

    /// A full batch of rows, if there are enough.
    ///
    /// # Errors
    ///
    /// An array cannot be built.
    pub fn full_batch(&mut self) -> Result<Option<RecordBatch>, PgError> {
        let is_full = self.columns.first().is_some_and(|column| column.len() >= BATCH_ROWS);
        if is_full { self.batch().map(Some) } else { Ok(None) }
    }

    /// The last rows.
    ///
    /// # Errors
    ///
    /// The data is incomplete.
    pub fn finish(&mut self) -> Result<RecordBatch, PgError> {
        if self.place == Place::End || self.place == Place::Rows && self.rest.is_empty() {
            return self.batch();
        }
        Err(malformed("it ends early"))
    }

    fn batch(&mut self) -> Result<RecordBatch, PgError> {
        let columns = self.columns.iter_mut().zip(self.schema.fields()).map(|(values, field)| -> Result<ArrayRef, _> {
            let values = std::mem::take(values);
            if values.is_empty() {
                return Ok(arrow::array::new_empty_array(field.data_type()));
            }
            ScalarValue::iter_to_array(values)
        });
        let columns = columns.collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|error| malformed(error.strip_backtrace()))?;
        // NULL in a NOT NULL column is refused by the table, so the batch allows it.
        let fields = self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
        RecordBatch::try_new(schema.into(), columns).map_err(|error| malformed(error.to_string()))
    }
}

fn header(bytes: &[u8]) -> Result<Option<&[u8]>, PgError> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(malformed("it does not begin as PostgreSQL's binary format does"));
    }
    let Some(after) = bytes.get(SIGNATURE.len()..) else { return Ok(None) };
    let Some((flags, after)) = after.split_first_chunk::<4>() else { return Ok(None) };
    if u32::from_be_bytes(*flags) & FLAG_OIDS != 0 {
        return Err(malformed("rows with numbers of their own (OIDs) are not read"));
    }
    let Some((length, after)) = after.split_first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| malformed("its header has no length"))?;
    Ok(after.get(length..))
}

fn malformed(reason: impl std::fmt::Display) -> PgError {
    PgError::new(sqlstate::BAD_COPY_FILE_FORMAT, format!("the binary data of COPY is malformed: {reason}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, Field, Int32Type, Schema};

    use super::*;

    fn schema() -> SchemaRef {
        let fields = [("a", DataType::Int32), ("b", DataType::Utf8View)];
        Arc::new(Schema::new(fields.map(|(name, kind)| Field::new(name, kind, true)).to_vec()))
    }

    fn data() -> Vec<u8> {
        let row = |a: i32, b: Option<&[u8]>| {
            let b = b.map_or((-1i32).to_be_bytes().to_vec(), |b| [&(b.len() as i32).to_be_bytes(), b].concat());
            [&2i16.to_be_bytes()[..], &4i32.to_be_bytes(), &a.to_be_bytes(), &b].concat()
        };
        [BINARY_HEADER, &row(7, Some(b"x")), &row(-1, None), &(-1i16).to_be_bytes()].concat()
    }

    #[test]
    fn rows_are_read_however_they_are_cut() {
        let data = data();
        for cut in 0..=data.len() {
            let mut rows = BinaryRows::new(schema());
            rows.push(&data[..cut]).expect("rows");
            rows.push(&data[cut..]).expect("rows");
            let batch = rows.finish().expect("a batch");
            assert_eq!(batch.column(0).as_primitive::<Int32Type>().values(), &[7, -1], "cut at {cut}");
            assert_eq!(batch.column(1).as_string_view().iter().collect::<Vec<_>>(), [Some("x"), None]);
        }
    }

    #[test]
    fn what_is_malformed_is_an_error() {
        let data = data();
        for end in 0..data.len() - 2 {
            let mut rows = BinaryRows::new(schema());
            let read = rows.push(&data[..end]).and_then(|()| rows.finish());
            // The end may be missing between two rows.
            assert!(read.is_err() || [19, 34, 48].contains(&end), "{end}");
        }
        for (at, byte) in [(0, b'X'), (12, 1), (15, 255), (20, 3), (21, 255), (24, 9)] {
            let mut wrong = data.clone();
            wrong[at] = byte;
            let mut rows = BinaryRows::new(schema());
            assert!(rows.push(&wrong).and_then(|()| rows.finish()).is_err(), "{at}");
        }
    }
}
