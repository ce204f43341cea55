//! One column's rows ↔ the body of a piece.
//!
//! A column of a chunk consists of pieces. Each has a body in one of the [`Form`]s, to which a [`ByteCodec`] may be
//! applied. Stored chunks are sent unchanged in the form [`Form::Chunk`]. It is also used for values that are encoded
//! for the wire: frames of reference, runs, deltas, constants and FSST are those of the codecs.

pub(crate) mod bytes;
pub(crate) mod dictionary;
pub(crate) mod ipc;
pub(crate) mod raw;
pub(crate) mod strings;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, NullArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::{filter, is_not_null, take};
use arrow::datatypes::DataType;
use freestone_codec::{Chunk, ColumnPlan, Rows, Scratch, Shared, Transform, Values};
use freestone_store::column::{ColumnBuffer, ColumnData, Decoded};
use freestone_store::plain::Strings;
use freestone_store::schema::kind;

use crate::types::{is_native, is_text};
use bytes::Compression;

/// Bodies begin at multiples of this, so that values of every width are aligned for Arrow.
pub(crate) const ALIGNMENT: usize = 16;

/// Pads with zeros to a multiple of [`ALIGNMENT`].
pub(crate) fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
}

/// The form of the values in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Form {
    /// No body: all rows are of the type `Null`.
    Null = 1,
    /// As in memory.
    Raw = 2,
    /// Strings of one length.
    Fixed = 3,
    /// Strings, preceded by their lengths.
    Lengths = 4,
    /// Strings, each followed by a zero.
    NulTerminated = 5,
    /// A chunk of `docs/format/chunks.md`: stored, or encoded for the wire.
    Chunk = 6,
    /// Codes of a dictionary of the result.
    Dictionary = 7,
    /// An Arrow IPC stream.
    Arrow = 8,
    /// Strings, preceded by their offsets, in Arrow's layout.
    Offsets = 9,
}

/// The compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ByteCodec {
    /// Not compressed.
    None = 1,
    /// LZ4, as a block.
    Lz4 = 2,
    /// Zstandard.
    Zstd = 3,
    /// Snappy.
    Snappy = 4,
}

/// The representation of NULLs in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Nulls {
    /// There are no NULLs, or the form represents them itself.
    Absent = 1,
    /// A bit per row.
    Bitmask = 2,
    /// A value that no row has stands for NULL.
    Sentinel = 3,
    /// A bit per row, and values only of the rows that have one.
    Packed = 4,
}

pub(crate) fn form_of(id: u8) -> Option<Form> {
    use Form::*;
    [Null, Raw, Fixed, Lengths, NulTerminated, Chunk, Dictionary, Arrow, Offsets]
        .into_iter()
        .find(|form| *form as u8 == id)
}

pub(crate) fn codec_of(id: u8) -> Option<ByteCodec> {
    use ByteCodec::*;
    [None, Lz4, Zstd, Snappy].into_iter().find(|codec| *codec as u8 == id)
}

pub(crate) fn nulls_of(id: u8) -> Option<Nulls> {
    use Nulls::*;
    [Absent, Bitmask, Sentinel, Packed].into_iter().find(|nulls| *nulls as u8 == id)
}

/// The encoding of a column. `nulls` says how NULLs are represented if there are any: by a bitmask, unless a sentinel or
/// packed values are wanted and possible.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// As in memory, or strings preceded by their lengths. Always possible.
    Plain { nulls: Nulls },
    /// One of the other forms of strings.
    Strings { form: Form, nulls: Nulls },
    /// As a chunk, with the symbol table of that number, if any.
    Chunk { plan: ColumnPlan, shared: Option<(u32, Shared)> },
    /// By the result's dictionary of that number. The codes are computed when rows arrive; see [`encode_codes`].
    Dictionary { shared: u32 },
}

/// A column's plan and its byte codec.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub plan: Plan,
    pub codec: Compression,
}

impl Default for Choice {
    fn default() -> Self {
        Self { plan: Plan::Plain { nulls: Nulls::Bitmask }, codec: ByteCodec::None.into() }
    }
}

/// The properties of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Body {
    pub form: Form,
    pub nulls: Nulls,
    pub width: u8,
    pub shared: u32,
}

impl Body {
    pub(crate) fn of(form: Form) -> Self {
        Self { form, nulls: Nulls::Absent, width: 0, shared: 0 }
    }
}

/// Appends the body of an array of a wire type. If a plan does not suit the values, the plain one is used.
pub(crate) fn encode(array: &ArrayRef, plan: &Plan, out: &mut Vec<u8>) -> Result<Body, String> {
    let data_type = array.data_type();
    match data_type {
        DataType::Null => return Ok(Body::of(Form::Null)),
        other if !is_native(other) => {
            ipc::encode(array, out)?;
            return Ok(Body::of(Form::Arrow));
        }
        _ => {}
    }
    if array.null_count() > 0
        && let Some(dense) = plan.of_packed()
    {
        return encode_packed(array, &dense, out);
    }
    let is_text = is_text(data_type);
    match plan {
        Plan::Strings { form, nulls } if is_text => {
            if let Some((nulls, width)) = strings::encode(array, *form, *nulls == Nulls::Sentinel, out) {
                return Ok(Body { nulls, width, ..Body::of(*form) });
            }
        }
        Plan::Chunk { plan, shared } if !array.is_empty() => {
            let column = ColumnData::from_arrays([array], data_type);
            let id = shared.as_ref().map_or(0, |(id, _)| *id);
            let shared = shared.as_ref().map(|(_, shared)| shared);
            if encode_chunk(column.values(), column.validity.as_deref(), *plan, shared, out) {
                return Ok(Body { shared: id, ..Body::of(Form::Chunk) });
            }
        }
        _ => {}
    }
    if is_text {
        let (nulls, width) = strings::encode(array, Form::Lengths, false, out).ok_or("a string of over 4 GiB")?;
        return Ok(Body { nulls, width, ..Body::of(Form::Lengths) });
    }
    let sentinel =
        matches!(plan, Plan::Plain { nulls: Nulls::Sentinel } | Plan::Strings { nulls: Nulls::Sentinel, .. });
    Ok(Body { nulls: raw::encode(array, sentinel, out), ..Body::of(Form::Raw) })
}

impl Plan {
    /// The plan for the values without the NULL rows, if those are not to be sent.
    fn of_packed(&self) -> Option<Self> {
        match self {
            Plan::Plain { nulls: Nulls::Packed } => Some(Plan::Plain { nulls: Nulls::Bitmask }),
            Plan::Strings { form, nulls: Nulls::Packed } => Some(Plan::Strings { form: *form, nulls: Nulls::Bitmask }),
            _ => None,
        }
    }
}

/// Appends a bitmask, and the values of the rows that have one (Raasveldt and Mühleisen 2017, section 4.2).
fn encode_packed(array: &ArrayRef, dense: &Plan, out: &mut Vec<u8>) -> Result<Body, String> {
    raw::put_mask(array.nulls(), out);
    let values = filter(array, &is_not_null(array).map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    Ok(Body { nulls: Nulls::Packed, ..encode(&values, dense, out)? })
}

/// The rows of a body that [`encode_packed`] wrote.
fn decode_packed(
    body: &Buffer,
    about: Body,
    rows: usize,
    data_type: &DataType,
    strings: Strings,
    decoder: &mut Decoder<'_>,
) -> Result<ArrayRef, String> {
    if !matches!(about.form, Form::Raw | Form::Fixed | Form::Lengths | Form::NulTerminated) {
        return Err(format!("{:?} has no packed values", about.form));
    }
    let (mask, rest) = raw::take_mask(body, Nulls::Bitmask, rows)?;
    let mask = mask.ok_or("packed values without a bitmask")?;
    let about = Body { nulls: Nulls::Absent, ..about };
    let span = Span { skip: 0, rows: rows - mask.null_count() };
    let values = decode(&rest, about, span, data_type, strings, decoder)?;
    let mut next = 0u32..;
    let places = UInt32Array::from_iter(mask.iter().map(|is_valid| if is_valid { next.next() } else { None }));
    take(&values, &places, None).map_err(|e| e.to_string())
}

/// Appends a chunk. Returns false, with nothing appended, if the plan does not suit the values.
fn encode_chunk(
    values: Values<'_>,
    validity: Option<&[u64]>,
    plan: ColumnPlan,
    shared: Option<&Shared>,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    let rows = values.len();
    let prepared = freestone_codec::prepare(values, validity, plan, shared);
    let done = prepared.is_ok_and(|prepared| freestone_codec::encode(&prepared, 0, rows, out).is_ok());
    if !done {
        out.truncate(start);
    }
    done
}

/// Appends the body of codes of the result's dictionary `shared`. `None` if no chunk can contain them.
pub(crate) fn encode_codes(codes: &[i64], nulls: Option<&NullBuffer>, shared: u32, out: &mut Vec<u8>) -> Option<Body> {
    let validity = nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| {
        let mut words = vec![0u64; codes.len().div_ceil(64)];
        nulls.valid_indices().for_each(|row| words[row / 64] |= 1 << (row % 64));
        words
    });
    let plan = ColumnPlan { transform: Transform::None, encoding: freestone_codec::Encoding::BitPack };
    encode_chunk(Values::Int(codes), validity.as_deref(), plan, None, out)
        .then_some(Body { shared, ..Body::of(Form::Dictionary) })
}

/// The states of `Shared` messages, by the number that pieces use.
pub(crate) type SharedStates = HashMap<u32, SharedState>;

#[derive(Debug, Clone)]
pub(crate) enum SharedState {
    Codec(Shared),
    Entries(dictionary::Entries),
}

/// The range of a piece's rows in its chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub skip: usize,
    pub rows: usize,
}

/// What decoding needs in addition to bodies, and its reused memory.
pub(crate) struct Decoder<'s> {
    states: &'s SharedStates,
    /// The maximum bytes of text to which a body may decompress.
    text_bytes_max: usize,
    /// Whether strings in the form of offsets are known to be UTF-8 if their type is text.
    pub trusts_texts: bool,
    scratch: Scratch,
    /// The number of bodies so far, which distinguishes their texts in the scratch.
    bodies: u64,
}

impl<'s> Decoder<'s> {
    pub fn new(states: &'s SharedStates, text_bytes_max: usize) -> Self {
        Self { states, text_bytes_max, trusts_texts: false, scratch: Scratch::default(), bodies: 0 }
    }
}

/// An empty column for `rows` rows, in pages of its own.
pub(crate) fn room_for(data_type: &DataType, rows: usize) -> ColumnBuffer {
    let mut column = ColumnBuffer::with_capacity(data_type, rows);
    column.populate();
    column
}

/// Decodes rows of a body; chunks in the layout of `strings`.
pub(crate) fn decode(
    body: &Buffer,
    about: Body,
    span: Span,
    data_type: &DataType,
    strings: Strings,
    decoder: &mut Decoder<'_>,
) -> Result<ArrayRef, String> {
    let rows = span.rows;
    let is_text = is_text(data_type);
    match about.form {
        Form::Null if *data_type == DataType::Null => Ok(Arc::new(NullArray::new(rows))),
        Form::Arrow if *data_type != DataType::Null => ipc::decode(body.clone(), data_type, rows),
        _ if !is_native(data_type) => Err(format!("{:?} cannot hold {data_type}", about.form)),
        _ if about.nulls == Nulls::Packed => decode_packed(body, about, rows, data_type, strings, decoder),
        Form::Raw if !is_text => raw::decode(body, data_type, about.nulls, rows),
        Form::Fixed | Form::Lengths | Form::NulTerminated if is_text => {
            if strings == Strings::Plain
                && let Some(array) = strings::decode_plain(body, about, data_type, rows)?
            {
                return Ok(array);
            }
            strings::decode(body, about, data_type, rows)
        }
        Form::Offsets if is_text => {
            strings::decode_offsets(body, about.nulls, data_type, strings, rows, decoder.trusts_texts)
        }
        Form::Chunk => {
            let mut column = room_for(&strings.data_type(data_type), rows);
            append_chunk(body, about.shared, span, data_type, decoder, &mut column)?;
            finish(column)
        }
        Form::Dictionary if is_text => {
            let Some(SharedState::Entries(entries)) = decoder.states.get(&about.shared) else {
                return Err(format!("dictionary {} has not been sent", about.shared));
            };
            let chunk = Chunk::parse(body, freestone_codec::Kind::Int, None).map_err(|e| e.to_string())?;
            let mut codes: Vec<u32> = Vec::with_capacity(rows);
            let range = Rows::Range { start: span.skip, len: rows };
            chunk.ints(range, &mut codes, &mut decoder.scratch).map_err(|e| e.to_string())?;
            entries.decode(&codes, validity(&chunk, range), data_type)
        }
        form => Err(format!("{form:?} cannot hold {data_type}")),
    }
}

fn validity(chunk: &Chunk<'_>, rows: Rows<'_>) -> Option<NullBuffer> {
    chunk.has_nulls().then(|| {
        let mut words = vec![0u64; rows.len().div_ceil(64)];
        chunk.validity(rows, &mut words, 0);
        NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(words), 0, rows.len()))
    })
}

/// Appends rows of a chunk to a column.
pub(crate) fn append_chunk(
    body: &[u8],
    shared: u32,
    span: Span,
    data_type: &DataType,
    decoder: &mut Decoder<'_>,
    column: &mut ColumnBuffer,
) -> Result<(), String> {
    let shared = match decoder.states.get(&shared) {
        Some(SharedState::Codec(shared)) => Some(shared),
        None if shared == 0 => None,
        _ => return Err(format!("shared state {shared} has not been sent, or is of another kind")),
    };
    let chunk = Chunk::parse(body, kind(data_type), shared).map_err(|e| e.to_string())?;
    if chunk.block_bytes() > decoder.text_bytes_max {
        return Err(format!("{} bytes of text where {} are allowed", chunk.block_bytes(), decoder.text_bytes_max));
    }
    let range = Rows::Range { start: span.skip, len: span.rows };
    decoder.bodies += 1;
    freestone_store::format::append_chunk(&chunk, range, column, &mut decoder.scratch, decoder.bodies)
}

/// The array of a column that was decoded from chunks.
pub(crate) fn finish(column: ColumnBuffer) -> Result<ArrayRef, String> {
    debug_assert!(!matches!(column.decoded, Decoded::Codes(_)), "buffers are made for values");
    column.finish()
}
