//! Page formats: the same rows as slotted tuples, as dense super tuples, or as mini pages. The differences end in this
//! module, and scans do not depend on them.
//!
//! A page holds as many rows as fit when they are encoded, and one chunk per column. So it depends on no other page but
//! the segment's dictionary, one checksum covers one decode, and a lookup reads one page per column group. The price is
//! that pages of different groups end at different rows; the cursor of a scan aligns them. A column store's page is a PAX
//! page of one column. Dense groups of one column have it, too: both would be a sequence of bit-packed values.

pub mod dense;
mod field;
pub mod pax;
pub mod slotted;

use arrow_schema::DataType;
use freestone_codec::{Chunk, Kind, Predicate, Rows, Scratch, Shared, Transform};

use self::dense::{DenseLayout, SelectedTuples};
use self::field::FieldSource;
use self::pax::PaxLayout;
use self::slotted::{SlottedLayout, SlottedSchema};
use crate::column::{ColumnBuffer, Decoded};
use crate::design::PageFormat;
use crate::schema::kind;

/// The bytes of a value of a type in its natural width, and of a string the bytes of its end or length.
pub fn whole_bytes(data_type: &DataType) -> usize {
    match kind(data_type) {
        Kind::Bytes | Kind::F32 => 4,
        Kind::F64 => 8,
        Kind::Wide => 16,
        Kind::Int => data_type.primitive_width().unwrap_or(1).min(8),
    }
}

/// The properties of a segment and a column group that decoding a page needs.
#[derive(Debug)]
pub struct GroupContext {
    /// The page format.
    pub format: PageFormat,
    /// The types of the columns.
    pub types: Vec<DataType>,
    /// One per column of the group.
    pub shared: Vec<Option<Shared>>,
    slotted: SlottedSchema,
}

impl GroupContext {
    /// The context of a group, from its format, types and shared state.
    pub fn new(format: PageFormat, types: Vec<DataType>, shared: Vec<Option<Shared>>) -> Self {
        let slotted = SlottedSchema::new(&types);
        GroupContext { format, types, shared, slotted }
    }

    /// Whether the pages contain each column as a chunk of its own.
    pub fn ships_columns(&self) -> bool {
        self.format == PageFormat::Pax
    }
}

/// A parsed page of any format. It borrows nothing from the page.
#[derive(Debug)]
pub enum Layout {
    /// A slotted page.
    Slotted(SlottedLayout),
    /// A dense page.
    Dense(DenseLayout),
    /// A PAX page.
    Pax(PaxLayout),
}

impl Layout {
    /// Parses a page.
    ///
    /// # Errors
    /// The reason why the payload is not valid.
    pub fn parse(payload: &[u8], rows: usize, group: &GroupContext) -> Result<Self, String> {
        let columns = group.types.len();
        Ok(match group.format {
            PageFormat::Slotted => Layout::Slotted(SlottedLayout::parse(payload, rows, &group.slotted)?),
            PageFormat::Dense => Layout::Dense(DenseLayout::parse(payload, rows, columns)?),
            PageFormat::Pax => Layout::Pax(PaxLayout::parse(payload, rows, columns)?),
        })
    }

    /// The approximate bytes of memory that the layout has allocated.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Layout::Slotted(page) => page.heap_bytes(),
            Layout::Dense(page) => page.heap_bytes(),
            Layout::Pax(page) => page.heap_bytes(),
        }
    }

    /// The number of rows of the page.
    pub fn rows(&self) -> usize {
        match self {
            Layout::Slotted(page) => page.rows(),
            Layout::Dense(page) => page.rows(),
            Layout::Pax(page) => page.rows(),
        }
    }
}

/// A page together with everything needed to read it.
#[derive(Debug, Clone, Copy)]
pub struct PageView<'a> {
    /// The group of the page.
    pub group: &'a GroupContext,
    /// Where the values are in the payload.
    pub layout: &'a Layout,
    /// The payload of the page.
    pub payload: &'a [u8],
    /// Identifies the page in the scratch's cache of decompressed blocks.
    pub key: u64,
}

impl<'a> PageView<'a> {
    fn chunk(&self, page: &PaxLayout, column: usize) -> Result<Chunk<'a>, String> {
        let shared = self.group.shared[column].as_ref();
        let bytes = page.chunk_bytes(self.payload, column);
        let chunk = Chunk::parse(bytes, kind(&self.group.types[column]), shared).map_err(|e| e.to_string())?;
        page.check_rows(&chunk)?;
        Ok(chunk)
    }

    /// Appends the values and validity of `rows` of some columns to `buffers`. Columns are pairs (position in
    /// `buffers`, position in the group).
    ///
    /// # Errors
    /// The reason why the page's data is not valid.
    pub fn decode(
        &self,
        columns: &[(usize, usize)],
        rows: Rows<'_>,
        buffers: &mut [ColumnBuffer],
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        let mut picked = None;
        for (at, column) in columns {
            match self.layout {
                Layout::Pax(page) => {
                    let chunk = self.chunk(page, *column)?;
                    append_chunk(&chunk, rows, &mut buffers[*at], scratch, self.key_of(*column))?;
                }
                Layout::Dense(page) => {
                    let fill = |words: &mut [u64], at| page.validity(self.payload, *column, rows, words, at);
                    let nulls = page.has_nulls(*column).then_some(fill);
                    let picked = picked.get_or_insert_with(|| page.pick(self.payload, rows));
                    let decode = |out: &mut ColumnBuffer| decode_dense(page, self, *column, picked, out);
                    append(&mut buffers[*at], rows.len(), nulls, decode)?;
                }
                Layout::Slotted(page) => {
                    let fill = |words: &mut [u64], at| page.validity(self.payload, *column, rows, words, at);
                    let nulls = page.has_nulls(*column).then_some(fill);
                    let decode = |out: &mut ColumnBuffer| decode_slotted(page, self.payload, *column, rows, out);
                    append(&mut buffers[*at], rows.len(), nulls, decode)?;
                }
            }
        }
        Ok(())
    }

    /// Clears the bits of rows that do not satisfy `predicate`. Bit 0 of `selection` is row `start` of the page.
    ///
    /// # Errors
    /// The reason why the page's data is not valid.
    pub fn filter(
        &self,
        column: usize,
        predicate: &Predicate,
        start: usize,
        len: usize,
        selection: &mut [u64],
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        match self.layout {
            Layout::Pax(page) => self
                .chunk(page, column)?
                .filter(predicate, start, len, selection, scratch, self.key_of(column))
                .map_err(|e| e.to_string()),
            Layout::Dense(page) => {
                let shared = self.group.shared[column].as_ref();
                page.filter(self.payload, column, shared, predicate, (start, len), selection)
            }
            Layout::Slotted(page) => page.filter(self.payload, column, predicate, (start, len), selection),
        }
    }

    fn key_of(&self, column: usize) -> u64 {
        self.key << 12 | column as u64
    }
}

/// Appends the values and validity of `rows` of one chunk. `key` identifies the chunk in the block cache of `scratch`.
///
/// # Errors
/// The reason why the chunk is not valid.
pub fn append_chunk(
    chunk: &Chunk<'_>,
    rows: Rows<'_>,
    out: &mut ColumnBuffer,
    scratch: &mut Scratch,
    key: u64,
) -> Result<(), String> {
    let nulls = chunk.has_nulls().then_some(|words: &mut [u64], at| chunk.validity(rows, words, at));
    append(out, rows.len(), nulls, |out| decode_chunk(chunk, rows, out, scratch, key).map_err(|e| e.to_string()))
}

/// Appends `count` values with `decode`, and their validity with `nulls` if there may be NULLs.
#[inline]
fn append(
    out: &mut ColumnBuffer,
    count: usize,
    nulls: Option<impl FnOnce(&mut [u64], usize)>,
    decode: impl FnOnce(&mut ColumnBuffer) -> Result<(), String>,
) -> Result<(), String> {
    let at = out.len();
    decode(out)?;
    match nulls {
        Some(fill) => out.validity(at, count, fill),
        None => out.valid(at, count),
    }
    match out.len() - at {
        found if found == count => Ok(()),
        found => Err(format!("{found} values in {count} rows: the field is not of the column's type")),
    }
}

/// Calls `$f(vector)` with the vector into which a column of integers is decoded. `$floats` and `$views` handle the
/// other kinds.
macro_rules! with_ints {
    ($decoded:expr, $v:ident => $ints:expr, $($pattern:pat => $other:expr),+ $(,)?) => {
        match $decoded {
            Decoded::Boolean($v) | Decoded::U8($v) => $ints,
            Decoded::I8($v) => $ints,
            Decoded::I16($v) => $ints,
            Decoded::I32($v) => $ints,
            Decoded::I64($v) => $ints,
            Decoded::U16($v) => $ints,
            Decoded::U32($v) => $ints,
            Decoded::U64($v) => $ints,
            Decoded::I128($v) => $ints,
            $($pattern => $other),+
        }
    };
}

fn decode_chunk(
    chunk: &Chunk<'_>,
    rows: Rows<'_>,
    out: &mut ColumnBuffer,
    scratch: &mut Scratch,
    key: u64,
) -> Result<(), freestone_codec::CodecError> {
    with_ints!(
        &mut out.decoded,
        v => chunk.ints(rows, v, scratch),
        Decoded::F64(v) => chunk.f64s(rows, v, scratch),
        Decoded::F32(v) => chunk.f32s(rows, v, scratch),
        Decoded::Codes(v) => chunk.codes(rows, v),
        Decoded::Views(views) => chunk.bytes(rows, views, scratch, key),
        Decoded::Strings(texts) => chunk.bytes(rows, texts, scratch, key),
    )
}

fn decode_dense(
    page: &DenseLayout,
    view: &PageView<'_>,
    column: usize,
    picked: &SelectedTuples<'_>,
    out: &mut ColumnBuffer,
) -> Result<(), String> {
    let shared = view.group.shared[column].as_ref();
    let dictionary = shared.filter(|s| s.transform() == Transform::Dictionary);
    match &mut out.decoded {
        Decoded::Views(views) => return decode_dense_bytes(page, view, column, picked, views),
        Decoded::Codes(codes) => return decode_dense_codes(page, view, column, picked, codes),
        _ => {}
    }
    let Some(dictionary) = dictionary else {
        with_ints!(
            &mut out.decoded,
            v => page.ints(view.payload, column, picked, v),
            Decoded::F64(v) => {
                let mut keys: Vec<i64> = vec![];
                page.ints(view.payload, column, picked, &mut keys);
                v.extend(keys.into_iter().map(f64_of_key));
            },
            Decoded::F32(v) => {
                let mut keys: Vec<i64> = vec![];
                page.ints(view.payload, column, picked, &mut keys);
                v.extend(keys.into_iter().map(f32_of_key));
            },
            Decoded::Codes(_) | Decoded::Views(_) | Decoded::Strings(_) => {},
        );
        return Ok(());
    };
    let entries = dictionary.dictionary_ints().ok_or("a dictionary of strings for a column of numbers")?;
    let mut codes: Vec<u32> = vec![];
    page.ints(view.payload, column, picked, &mut codes);
    let entry = |code: &u32| {
        // A column that is NULL in all rows has an empty dictionary.
        let nothing = entries.is_empty().then_some(0);
        entries.get(*code as usize).copied().or(nothing).ok_or_else(|| format!("code {code} is not in the dictionary"))
    };
    fn extend<T: freestone_codec::IntTarget>(
        out: &mut Vec<T>,
        codes: &[u32],
        entry: impl Fn(&u32) -> Result<i128, String>,
    ) -> Result<(), String> {
        for code in codes {
            out.push(T::from_i128(entry(code)?));
        }
        Ok(())
    }
    with_ints!(
        &mut out.decoded,
        v => extend(v, &codes, entry)?,
        Decoded::F64(v) => {
            for code in &codes {
                v.push(f64_of_key(entry(code)? as i64));
            }
        },
        Decoded::F32(v) => {
            for code in &codes {
                v.push(f32_of_key(entry(code)? as i64));
            }
        },
        Decoded::Codes(_) | Decoded::Views(_) | Decoded::Strings(_) => {},
    );
    Ok(())
}

fn decode_dense_codes(
    page: &DenseLayout,
    view: &PageView<'_>,
    column: usize,
    picked: &SelectedTuples<'_>,
    codes: &mut Vec<u32>,
) -> Result<(), String> {
    let FieldSource::Dictionary(dictionary) = field::source(view.group.shared[column].as_ref()) else {
        return Err("a column without a dictionary has no codes".into());
    };
    let start = codes.len();
    page.ints(view.payload, column, picked, codes);
    // A column that is NULL in all rows has an empty dictionary.
    let end = dictionary.dictionary_len().max(1) as u32;
    match codes[start..].iter().find(|code| **code >= end) {
        Some(code) => Err(format!("code {code} is not in the dictionary")),
        None => Ok(()),
    }
}

fn decode_dense_bytes(
    page: &DenseLayout,
    view: &PageView<'_>,
    column: usize,
    picked: &SelectedTuples<'_>,
    views: &mut freestone_codec::Views,
) -> Result<(), String> {
    let shared = view.group.shared[column].as_ref();
    match field::source(shared) {
        FieldSource::Dictionary(dictionary) => {
            let mut codes: Vec<u32> = vec![];
            page.ints(view.payload, column, picked, &mut codes);
            extend_views(dictionary, &codes, views)
        }
        FieldSource::Fsst(table) => {
            let mut buffer = vec![];
            page.for_bytes(view.payload, column, picked.rows, |_, bytes| {
                buffer.clear();
                table.fsst_decompress(bytes, &mut buffer).map_err(|e| e.to_string())?;
                views.push(&buffer);
                Ok(())
            })
        }
        FieldSource::Value => page.for_bytes(view.payload, column, picked.rows, |_, bytes| {
            views.push(bytes);
            Ok(())
        }),
    }
}

fn extend_views(dictionary: &Shared, codes: &[u32], views: &mut freestone_codec::Views) -> Result<(), String> {
    let buffer = dictionary.dictionary_buffer().ok_or("a dictionary of numbers for a column of strings")?;
    // Views of long entries point to buffer 0. Here the dictionary may have another index.
    let index = u128::from(views.share(buffer));
    let long = |view: u128| view as u32 > 12;
    for code in codes {
        let view = match dictionary.view(*code) {
            Some(view) => view,
            // A column that is NULL in all rows has an empty dictionary.
            None if dictionary.dictionary_len() == 0 => 0,
            None => return Err(format!("code {code} is not in the dictionary")),
        };
        views.views.push(if long(view) { view | index << 64 } else { view });
    }
    Ok(())
}

fn decode_slotted(
    page: &SlottedLayout,
    payload: &[u8],
    column: usize,
    rows: Rows<'_>,
    out: &mut ColumnBuffer,
) -> Result<(), String> {
    with_ints!(
        &mut out.decoded,
        v => page.ints(payload, column, rows, v),
        Decoded::F64(v) => page.for_float_bits(payload, column, rows, |bits| v.push(f64::from_bits(bits))),
        Decoded::F32(v) => page.for_float_bits(payload, column, rows, |bits| v.push(f32::from_bits(bits as u32))),
        Decoded::Codes(_) => return Err("slotted pages have no dictionaries".into()),
        Decoded::Strings(_) => return Err("slotted pages are read as views".into()),
        Decoded::Views(views) => return page.for_bytes(payload, column, rows, |_, bytes| {
            views.push(bytes);
            Ok(())
        }),
    );
    Ok(())
}

/// The inverse of [`freestone_codec::f64_key`]. On bits, the function is its own inverse.
pub fn f64_of_key(key: i64) -> f64 {
    f64::from_bits(freestone_codec::f64_key(f64::from_bits(key as u64)) as u64)
}

/// The inverse of [`freestone_codec::f32_key`].
pub fn f32_of_key(key: i64) -> f32 {
    f32::from_bits(freestone_codec::f32_key(f32::from_bits(key as u32)) as u32)
}

/// Whether row-wise formats store values of this kind in the fixed part.
pub fn is_fixed(kind: Kind) -> bool {
    kind != Kind::Bytes
}
