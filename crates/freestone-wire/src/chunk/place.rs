//! Writing rows as a chunk in memory that the receiver has mapped, in Arrow's layout. Stored columns are decoded into
//! it, so the receiver decodes nothing.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ByteArrayType, DataType, ToByteSlice};
use freestone_codec::OffsetStrings;
use freestone_store::plain::Strings;

use super::{HEAD_BYTES, Job, PIECE_BYTES, Piece, put_head};
use crate::batch::{Column, StoredColumn};
use crate::column::{self, ALIGNMENT, Body, ByteCodec, Form, Nulls, Plan, Span, raw};
use crate::error::{Result, encode_error};
use crate::frame::HEADER_BYTES;
use crate::memory::arena::{FilledChunk, Region};
use crate::origin::Origin;
use crate::types::{is_native, is_text};

/// The bytes of numbers that are decoded and written at a time, which fit a core's own caches.
const CACHED_BYTES: usize = 128 << 10;

/// The result of placing a job's rows.
pub(crate) enum Placing {
    Done(FilledChunk),
    /// They have too many bytes for one chunk, but fit in this many parts.
    Large {
        parts: usize,
    },
    /// There is no room, or a row may be too large.
    Not,
}

/// The data to be written for a column.
enum ColumnBytes<'a> {
    /// Strings with offsets, or numbers.
    Array(ArrayRef),
    /// Strings that were stored, and which are NULL.
    Strings(OffsetStrings, Option<NullBuffer>),
    /// The body of another type, in its form for the wire.
    Bytes(Body, Vec<u8>),
    /// Numbers that are decoded just before they are written, so that they are still in the cache.
    Stored(&'a StoredColumn),
}

impl Job {
    /// The origin of a chunk of at most `bytes_max` with the job's rows. `None` if not all columns are stored.
    pub fn origin(&self, bytes_max: usize) -> Option<Origin> {
        Origin::of(&self.batch, &self.rows, self.first_row + self.rows.start as u64, [bytes_max, self.row.agreed])
    }

    /// Writes the job's rows, if they have at most `bytes_max` bytes, to a region of that size from `take`.
    pub fn place(
        &self,
        bytes_max: usize,
        origin: Option<Origin>,
        take: impl FnOnce(usize) -> Option<Region>,
    ) -> Result<Placing> {
        let columns = self.batch.columns();
        let laid = columns.iter().enumerate().map(|(at, column)| self.lay_out(column).map_err(encode_error(at)));
        let laid = laid.collect::<Result<Vec<_>>>()?;
        let head = HEAD_BYTES + columns.len() * PIECE_BYTES;
        let sizes = || laid.iter().map(|laid| laid.size(self.rows.len()));
        let bytes = head + sizes().map(|size| size.bytes + ALIGNMENT).sum::<usize>();
        let row_bytes = head + sizes().map(|size| size.row_bytes).sum::<usize>();
        // For other types the size of a row is unknown, except that it is less than the sum.
        let others =
            laid.iter().map(|laid| if let ColumnBytes::Bytes(_, bytes) = laid { bytes.len() } else { 0 }).max();
        let parts = (bytes / bytes_max).max(others.unwrap_or(0) / self.row.agreed) + 1;
        if parts > 1 && self.rows.len() > 1 {
            return Ok(Placing::Large { parts });
        }
        let region = if row_bytes > self.row.agreed || bytes > bytes_max { None } else { take(bytes) };
        let Some(region) = region else { return Ok(Placing::Not) };
        let mut out = Writer { region, at: head };
        let mut directory = vec![0; HEADER_BYTES + head];
        put_head(&mut directory, self.rows.len(), columns.len(), self.first_row + self.rows.start as u64);
        let mut entry = 0;
        for (at, laid) in laid.into_iter().enumerate() {
            out.align();
            let offset = out.at;
            let body = self.write(laid, &mut out).map_err(encode_error(at))?;
            let length = out.at - offset;
            let span = Span { skip: 0, rows: self.rows.len() };
            let piece =
                Piece { body, codec: ByteCodec::None, continues: false, span, raw_bytes: length, offset, length };
            piece.put(at, &mut entry, &mut directory);
        }
        out.region.write(0, &directory[HEADER_BYTES..]);
        Ok(Placing::Done(out.region.fill(out.at, origin)))
    }

    /// The same job with its rows as arrays.
    pub fn decoded(&self) -> Result<Self> {
        let batch = Arc::new(self.batch.decoded_rows(self.rows.clone())?);
        Ok(Self { rows: 0..batch.rows(), first_row: self.first_row + self.rows.start as u64, batch, ..self.clone() })
    }

    fn lay_out<'a>(&self, column: &'a Column) -> Result<ColumnBytes<'a>, String> {
        let plain = Plan::Plain { nulls: Nulls::Bitmask };
        Ok(match column {
            Column::Stored(stored) if !is_text(&stored.data_type) => ColumnBytes::Stored(stored),
            Column::Stored(stored) => {
                let (texts, nulls) = stored.decode_strings(self.rows.clone())?;
                ColumnBytes::Strings(texts, nulls)
            }
            Column::Arrow(array) => {
                let array = array.slice(self.rows.start, self.rows.len());
                match array.data_type() {
                    text if is_text(text) => {
                        ColumnBytes::Array(Strings::Plain.array(array).map_err(|e| e.to_string())?)
                    }
                    other if is_native(other) && *other != DataType::Null => ColumnBytes::Array(array),
                    _ => {
                        let mut bytes = vec![];
                        let body = column::encode(&array, &plain, &mut bytes)?;
                        ColumnBytes::Bytes(body, bytes)
                    }
                }
            }
        })
    }

    /// Writes numbers without NULLs, in steps that fit a core's own caches. `None` if there may be NULLs, whose bitmask
    /// has to be first.
    fn write_numbers(&self, stored: &StoredColumn, out: &mut Writer) -> Result<Option<Body>, String> {
        let Some(width) = stored.data_type.primitive_width().filter(|_| !stored.may_be_null(&self.rows)) else {
            return Ok(None);
        };
        let step = CACHED_BYTES / width;
        for from in self.rows.clone().step_by(step) {
            let array = stored.decode(from..(from + step).min(self.rows.end), Strings::Plain)?;
            out.put(raw::values(&array.to_data()));
        }
        Ok(Some(Body::of(Form::Raw)))
    }

    fn write(&self, laid: ColumnBytes<'_>, out: &mut Writer) -> Result<Body, String> {
        let array = match laid {
            ColumnBytes::Bytes(body, bytes) => {
                out.put(&bytes);
                return Ok(body);
            }
            ColumnBytes::Strings(texts, nulls) => {
                let nulls = out.put_mask(nulls.as_ref());
                out.put_texts(&texts.offsets, &texts.data);
                return Ok(Body { nulls, ..Body::of(Form::Offsets) });
            }
            ColumnBytes::Stored(stored) => match self.write_numbers(stored, out)? {
                Some(body) => return Ok(body),
                None => stored.decode(self.rows.clone(), Strings::Plain)?,
            },
            ColumnBytes::Array(array) => array,
        };
        let nulls = out.put_mask(array.nulls());
        let form = match array.data_type() {
            DataType::Utf8 => out.put_strings(array.as_string::<i32>()),
            DataType::Binary => out.put_strings(array.as_binary::<i32>()),
            DataType::Boolean => {
                let mut bits = vec![];
                raw::put_bits(array.as_boolean().values(), &mut bits);
                out.put(&bits);
                Form::Raw
            }
            _ => {
                out.put(raw::values(&array.to_data()));
                Form::Raw
            }
        };
        Ok(Body { nulls, ..Body::of(form) })
    }
}

/// The maximum bytes of a body, and of a row of it.
struct Size {
    bytes: usize,
    row_bytes: usize,
}

impl ColumnBytes<'_> {
    fn size(&self, rows: usize) -> Size {
        let mask = rows.div_ceil(8).next_multiple_of(ALIGNMENT);
        let of_type = |data_type: &DataType| match data_type.primitive_width() {
            Some(width) => Size { bytes: mask + width * rows, row_bytes: width },
            None => Size { bytes: 2 * mask, row_bytes: 1 },
        };
        let of_texts = |offsets: &[i32]| {
            let longest = offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0) as usize;
            let bytes = (offsets[offsets.len() - 1] - offsets[0]) as usize;
            Size { bytes: mask + size_of_val(offsets) + bytes, row_bytes: 4 + longest }
        };
        match self {
            ColumnBytes::Bytes(_, bytes) => Size { bytes: bytes.len(), row_bytes: bytes.len() },
            ColumnBytes::Stored(stored) => of_type(&stored.data_type),
            ColumnBytes::Strings(texts, _) => of_texts(&texts.offsets),
            ColumnBytes::Array(array) => match array.data_type() {
                DataType::Utf8 => of_texts(array.as_string::<i32>().value_offsets()),
                DataType::Binary => of_texts(array.as_binary::<i32>().value_offsets()),
                other => of_type(other),
            },
        }
    }
}

/// Writes sequentially to a region.
struct Writer {
    region: Region,
    at: usize,
}

impl Writer {
    fn align(&mut self) {
        self.at = self.at.next_multiple_of(ALIGNMENT);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.region.write(self.at, bytes);
        self.at += bytes.len();
    }

    fn put_mask(&mut self, nulls: Option<&NullBuffer>) -> Nulls {
        let mut mask = vec![];
        let form = raw::put_mask(nulls, &mut mask);
        self.put(&mask);
        form
    }

    fn put_strings<T: ByteArrayType<Offset = i32>>(&mut self, array: &GenericByteArray<T>) -> Form {
        self.put_texts(array.value_offsets(), array.value_data());
        Form::Offsets
    }

    /// Writes strings of `data`, the first from `offsets[0]` to `offsets[1]`.
    fn put_texts(&mut self, offsets: &[i32], data: &[u8]) {
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        match first {
            0 => self.put(offsets.to_byte_slice()),
            _ => {
                let rebased: Vec<i32> = offsets.iter().map(|offset| offset - first).collect();
                self.put(rebased.to_byte_slice());
            }
        }
        self.put(&data[first as usize..last as usize]);
    }
}
