//! Strings with their lengths, each with a terminating byte, or all of one length.
//!
//! ```text
//! If NULLs are a bitmask, it is first, as in `raw`. NULLs are empty strings in the forms below.
//! Fixed           rows x width bytes; a NULL is zeros, or, as a sentinel, bytes 0xFF
//! Lengths         rows lengths of width 1, 2 or 4 bytes | the strings
//! NulTerminated   the strings, each followed by a byte 0; a NULL as a sentinel is the byte 0xFF
//! ```
//! The sentinels are not valid UTF-8, so they are used for text only.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, StringArray, StringViewArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use freestone_codec::Views;
use freestone_store::memory::room;
use freestone_store::plain::Strings;

use super::raw::{put_mask, take_mask};
use super::{Body, Form, Nulls};

/// The column's NULLs, if there are any.
fn some_nulls(array: &ArrayRef) -> Option<&NullBuffer> {
    array.nulls().filter(|nulls| nulls.null_count() > 0)
}

/// Calls `f` with each row's string, or an empty one for NULL.
fn for_each<'a>(array: &'a ArrayRef, mut f: impl FnMut(usize, &'a [u8])) {
    let (views, buffers) = parts(array);
    let nulls = some_nulls(array);
    for (row, view) in views.iter().enumerate() {
        match nulls.is_some_and(|nulls| nulls.is_null(row)) {
            true => f(row, &[]),
            false => f(row, text(view, buffers)),
        }
    }
}

/// Appends all strings, `total` bytes, NULLs as empty ones. Adjacent ones are copied together, and short ones with a
/// constant length: the next string overwrites the surplus.
fn put_texts(array: &ArrayRef, total: usize, out: &mut Vec<u8>) {
    let (views, buffers) = parts(array);
    let nulls = some_nulls(array);
    let mut to = out.len();
    out.resize(to + total + AT_ONCE, 0);
    let (mut buffer, mut run) = (0, 0..0);
    for (row, view) in views.iter().enumerate() {
        let len = *view as u32 as usize;
        if len == 0 || nulls.is_some_and(|nulls| nulls.is_null(row)) {
            continue;
        }
        let (own, at) = place(*view);
        if len > INLINE_MAX && own == buffer && at == run.end {
            run.end += len;
            continue;
        }
        to = put_run(buffers, buffer, &run, out, to);
        if len > INLINE_MAX {
            (buffer, run) = (own, at..at + len);
            continue;
        }
        (buffer, run) = (0, 0..0);
        out[to..to + 16].copy_from_slice(&(*view >> 32).to_le_bytes());
        to += len;
    }
    to = put_run(buffers, buffer, &run, out, to);
    out.truncate(to);
}

/// The bytes that are copied at once.
const AT_ONCE: usize = 32;

/// Copies a part of one buffer to `out[to..]`, which has [`AT_ONCE`] additional bytes. Returns the end of the copy.
#[inline]
fn put_run(buffers: &[Buffer], buffer: usize, run: &Range<usize>, out: &mut [u8], to: usize) -> usize {
    if run.is_empty() {
        return to;
    }
    let from = &buffers[buffer][run.start..];
    match from.first_chunk::<AT_ONCE>().filter(|_| run.len() <= AT_ONCE) {
        Some(bytes) => out[to..to + AT_ONCE].copy_from_slice(bytes),
        None => out[to..to + run.len()].copy_from_slice(&from[..run.len()]),
    }
    to + run.len()
}

/// The longest string that is inlined in a view. Strings of one length up to this are sent without lengths.
const INLINE_MAX: usize = 12;

/// The buffer and offset of a string that is not inlined in its view.
fn place(view: u128) -> (usize, usize) {
    ((view >> 64) as u32 as usize, (view >> 96) as usize)
}

fn text<'a>(view: &'a u128, buffers: &'a [Buffer]) -> &'a [u8] {
    let len = *view as u32 as usize;
    if len <= INLINE_MAX {
        return &as_bytes(view)[4..4 + len];
    }
    let (buffer, at) = place(*view);
    &buffers[buffer][at..at + len]
}

/// The views of a string column, and their buffers.
fn parts(array: &ArrayRef) -> (&[u128], &[Buffer]) {
    match array.data_type() {
        DataType::BinaryView => (array.as_binary_view().views(), array.as_binary_view().data_buffers()),
        _ => (array.as_string_view().views(), array.as_string_view().data_buffers()),
    }
}

/// The bytes of a view. Arrow's layout in memory is little-endian on the platforms of this code.
fn as_bytes(view: &u128) -> &[u8; 16] {
    const { assert!(cfg!(target_endian = "little"), "views are read as they lie in memory") };
    // SAFETY: a u128 is 16 initialized bytes, and bytes need no alignment.
    unsafe { &*std::ptr::from_ref(view).cast() }
}

/// The bytes of all strings, and the lengths of the shortest and longest that are not NULL.
pub fn lengths(array: &ArrayRef) -> (usize, usize, usize) {
    let (views, _) = parts(array);
    let nulls = some_nulls(array);
    let valid = views.iter().enumerate().filter(|(row, _)| nulls.is_none_or(|nulls| nulls.is_valid(*row)));
    let (total, least, most) = valid
        .map(|(_, view)| *view as u32 as usize)
        .fold((0, usize::MAX, 0), |(t, a, b), n| (t + n, a.min(n), b.max(n)));
    (total, least.min(most), most)
}

/// Appends strings in a form, and returns the piece's nulls and width. `None`, with nothing appended, if the strings
/// cannot have this form.
pub fn encode(array: &ArrayRef, form: Form, sentinel: bool, out: &mut Vec<u8>) -> Option<(Nulls, u8)> {
    let (total, least, most) = lengths(array);
    let sentinel = sentinel && array.null_count() > 0 && *array.data_type() == DataType::Utf8View;
    let start = out.len();
    match form {
        Form::Fixed if least != most || !(1..=INLINE_MAX).contains(&most) => None,
        Form::Fixed => {
            let nulls = if sentinel { Nulls::Sentinel } else { put_mask(array.nulls(), out) };
            let null = [if sentinel { 0xFF } else { 0 }; INLINE_MAX];
            out.reserve(array.len() * most);
            for_each(array, |_, text| out.extend_from_slice(if text.is_empty() { &null[..most] } else { text }));
            Some((nulls, most as u8))
        }
        Form::NulTerminated => {
            let nulls = if sentinel { Nulls::Sentinel } else { put_mask(array.nulls(), out) };
            let values = out.len();
            out.reserve(total + array.len());
            for_each(array, |row, text| {
                out.extend_from_slice(if sentinel && array.is_null(row) { &[0xFF] } else { text });
                out.push(0);
            });
            let zeros = out[values..].iter().filter(|byte| **byte == 0).count();
            if zeros != array.len() {
                out.truncate(start);
                return None;
            }
            Some((nulls, 0))
        }
        _ => {
            let nulls = put_mask(array.nulls(), out);
            let width = [1u8, 2, 4].into_iter().find(|width| most < 1 << (8 * usize::from(*width)))?;
            let at = out.len();
            out.resize(at + array.len() * usize::from(width), 0);
            match width {
                1 => for_each(array, |row, text| out[at + row] = text.len() as u8),
                _ => for_each(array, |row, text| {
                    let (at, bytes) = (at + row * usize::from(width), (text.len() as u32).to_le_bytes());
                    out[at..at + usize::from(width)].copy_from_slice(&bytes[..usize::from(width)]);
                }),
            }
            put_texts(array, total, out);
            Some((nulls, width))
        }
    }
}

/// Decodes strings as `Utf8` or `Binary`, without a copy, if they are concatenated. `None` if they are not.
pub fn decode_plain(body: &Buffer, about: Body, data_type: &DataType, rows: usize) -> Result<Option<ArrayRef>, String> {
    let Body { form, nulls, width, .. } = about;
    if form == Form::NulTerminated || nulls == Nulls::Sentinel {
        return Ok(None);
    }
    let (mask, rest) = take_mask(body, nulls, rows)?;
    let width = usize::from(width);
    let mut offsets: Vec<i32> = room(rows + 1);
    offsets.push(0);
    let data = if form == Form::Fixed {
        check_fixed(&rest, width, rows)?;
        offsets.extend((1..=rows).map(|row| (row * width) as i32));
        rest
    } else {
        let (lengths, data) = split_lengths(&rest, width, rows)?;
        let mut at = 0u32;
        // An offset that overflows was out of order, or does not end at the end of the data.
        let mut end = |len: u32| {
            at = at.wrapping_add(len);
            at as i32
        };
        match width {
            1 => offsets.extend(lengths.iter().map(|len| end(u32::from(*len)))),
            2 => offsets.extend(lengths.as_chunks::<2>().0.iter().map(|len| end(u32::from(u16::from_le_bytes(*len))))),
            _ => offsets.extend(lengths.as_chunks::<4>().0.iter().map(|len| end(u32::from_le_bytes(*len)))),
        }
        if at as usize != data.len() || !offsets.is_sorted() {
            return Err(format!("strings of {} bytes whose lengths add up to {at}", data.len()));
        }
        data
    };
    with_offsets(OffsetBuffer::new(ScalarBuffer::from(offsets)), data, mask, data_type).map(Some)
}

/// Decodes strings with offsets, without a copy, as views or not. `are_trusted`: a trusted process wrote them, and text
/// is UTF-8.
pub fn decode_offsets(
    body: &Buffer,
    nulls: Nulls,
    data_type: &DataType,
    layout: Strings,
    rows: usize,
    are_trusted: bool,
) -> Result<ArrayRef, String> {
    let (mask, rest) = take_mask(body, nulls, rows)?;
    let bytes = (rows + 1) * size_of::<i32>();
    if rest.len() < bytes || nulls == Nulls::Sentinel {
        return Err(format!("{} bytes for the offsets of {rows} strings", rest.len()));
    }
    let (offsets, data) = (super::raw::aligned(rest.slice_with_length(0, bytes), size_of::<i32>()), rest.slice(bytes));
    let offsets = ScalarBuffer::<i32>::new(offsets, 0, rows + 1);
    if offsets[0] != 0 || offsets[rows] as usize != data.len() || !offsets.is_sorted() {
        return Err(format!("offsets from {} to {} for strings of {} bytes", offsets[0], offsets[rows], data.len()));
    }
    if layout == Strings::Views {
        let mut views = room(rows);
        views.extend(offsets.windows(2).map(|ends| {
            let (from, to) = (ends[0] as usize, ends[1] as usize);
            Views::view(&data[from..to], 0, from as u32)
        }));
        let is_text = are_trusted || data.is_ascii();
        return string_array(views, vec![data], mask, data_type, is_text);
    }
    let offsets = OffsetBuffer::new(offsets);
    if are_trusted && *data_type == DataType::Utf8View {
        // SAFETY: the offsets ascend to the end of the strings, as was checked. That each string is UTF-8 is as certain
        // as that the memory does not change: a trusted process is responsible for both, and it copied them from a
        // string array or checked them.
        return Ok(Arc::new(unsafe { StringArray::new_unchecked(offsets, data, mask) }));
    }
    with_offsets(offsets, data, mask, data_type)
}

/// `Utf8`, or `Binary` if it is not text.
fn with_offsets(
    offsets: OffsetBuffer<i32>,
    data: Buffer,
    mask: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef, String> {
    Ok(match data_type {
        DataType::BinaryView => Arc::new(BinaryArray::try_new(offsets, data, mask).map_err(|e| e.to_string())?),
        _ => Arc::new(StringArray::try_new(offsets, data, mask).map_err(|e| e.to_string())?),
    })
}

fn check_fixed(rest: &Buffer, width: usize, rows: usize) -> Result<(), String> {
    match (1..=INLINE_MAX).contains(&width) && rest.len() == rows * width {
        true => Ok(()),
        false => Err(format!("{} bytes for {rows} strings of {width}", rest.len())),
    }
}

/// The lengths, and the strings after them.
fn split_lengths(rest: &Buffer, width: usize, rows: usize) -> Result<(Buffer, Buffer), String> {
    if !matches!(width, 1 | 2 | 4) || rest.len() < rows * width {
        return Err(format!("{} bytes for {rows} lengths of {width} bytes", rest.len()));
    }
    Ok((rest.slice_with_length(0, rows * width), rest.slice(rows * width)))
}

/// Decodes strings. Those that are too long for their views are not copied.
pub fn decode(body: &Buffer, about: Body, data_type: &DataType, rows: usize) -> Result<ArrayRef, String> {
    let Body { form, nulls, width, .. } = about;
    let (mask, rest) = take_mask(body, nulls, rows)?;
    let sentinel = nulls == Nulls::Sentinel;
    let (views, data, mask) = match form {
        Form::Fixed => {
            let width = usize::from(width);
            check_fixed(&rest, width, rows)?;
            let is_null = |text: &[u8]| sentinel && text[0] == 0xFF;
            let texts = || rest.chunks_exact(width);
            let mut views = room(rows);
            views.extend(texts().map(|text| Views::view(if is_null(text) { &[] } else { text }, 0, 0)));
            let found = sentinel.then(|| mask_of(texts().map(|text| !is_null(text))));
            let is_ascii = !sentinel && rest.is_ascii();
            return string_array(views, vec![], mask.or(found), data_type, is_ascii);
        }
        Form::NulTerminated => {
            let mut found = Vec::with_capacity(if sentinel { rows } else { 0 });
            let views = terminated_views(&rest, rows, sentinel.then_some(&mut found))?;
            (views, rest, mask.or(sentinel.then(|| mask_of(found.into_iter()))))
        }
        _ => {
            let width = usize::from(width);
            let (lengths, data) = split_lengths(&rest, width, rows)?;
            (views_by_length(&lengths, width, &data)?, data, mask)
        }
    };
    let is_ascii = data.is_ascii();
    string_array(views, vec![data], mask, data_type, is_ascii)
}

fn mask_of(valid: impl Iterator<Item = bool>) -> NullBuffer {
    NullBuffer::new(BooleanBuffer::from_iter(valid))
}

fn views_by_length(lengths: &[u8], width: usize, data: &[u8]) -> Result<Vec<u128>, String> {
    let mut views = room(lengths.len() / width);
    let mut at = 0usize;
    let mut push = |len: usize| {
        let text = data.get(at..at + len).ok_or("strings end behind their data")?;
        views.push(Views::view(text, 0, at as u32));
        at += len;
        Ok::<(), String>(())
    };
    match width {
        1 => lengths.iter().try_for_each(|len| push(usize::from(*len)))?,
        2 => lengths.as_chunks::<2>().0.iter().try_for_each(|len| push(usize::from(u16::from_le_bytes(*len))))?,
        _ => lengths.as_chunks::<4>().0.iter().try_for_each(|len| push(u32::from_le_bytes(*len) as usize))?,
    }
    if at != data.len() {
        return Err(format!("{} bytes follow the last string", data.len() - at));
    }
    Ok(views)
}

fn terminated_views(data: &[u8], rows: usize, mut valid: Option<&mut Vec<bool>>) -> Result<Vec<u128>, String> {
    let mut views = room(rows.min(data.len()));
    let mut at = 0;
    for text in data.split_inclusive(|byte| *byte == 0) {
        let text = text.strip_suffix(&[0]).ok_or("the last string has no end")?;
        let is_null = valid.is_some() && text == [0xFF];
        views.push(if is_null { 0 } else { Views::view(text, 0, at as u32) });
        valid.iter_mut().for_each(|valid| valid.push(!is_null));
        at += text.len() + 1;
    }
    if views.len() != rows {
        return Err(format!("{} strings for {rows} rows", views.len()));
    }
    Ok(views)
}

/// An array of views of these buffers. `is_text`: the bytes of every view are known to be UTF-8.
pub fn string_array(
    views: Vec<u128>,
    buffers: Vec<Buffer>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
    is_text: bool,
) -> Result<ArrayRef, String> {
    let views = ScalarBuffer::from(views);
    match data_type {
        DataType::BinaryView => {
            Ok(Arc::new(BinaryViewArray::try_new(views, buffers, nulls).map_err(|e| e.to_string())?))
        }
        // SAFETY: every caller makes its views by `Views::view` of a slice of the one buffer that they name, so
        // lengths, prefixes and offsets are correct. It sets `is_text` only if they are UTF-8: ASCII, however it is
        // sliced, or known to be UTF-8.
        _ if is_text => Ok(Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })),
        _ => Ok(Arc::new(StringViewArray::try_new(views, buffers, nulls).map_err(|e| e.to_string())?)),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::UInt32Array;
    use arrow::compute::{concat, take};
    use arrow::datatypes::ToByteSlice;
    use proptest::prelude::*;

    use super::*;

    /// Offsets and strings in the form that [`decode_offsets`] reads.
    fn with_offsets(offsets: &[i32], data: &[u8]) -> Buffer {
        Buffer::from([offsets.to_byte_slice(), data].concat())
    }

    #[test]
    fn hostile_offsets_are_refused() {
        for layout in [Strings::Views, Strings::Plain] {
            let read = |offsets: &[i32], data: &[u8], rows: usize, data_type: &DataType| {
                decode_offsets(&with_offsets(offsets, data), Nulls::Absent, data_type, layout, rows, false)
            };
            let text = DataType::Utf8View;
            assert_eq!(read(&[0, 1, 3], b"abc", 2, &text).unwrap().len(), 2);
            for offsets in [[0, 1, 4], [0, 1, 2], [1, 1, 3], [0, 4, 3], [0, -1, 3], [0, 1, -1], [-1, 1, 3]] {
                assert!(read(&offsets, b"abc", 2, &text).is_err(), "{offsets:?}");
            }
            assert!(read(&[0, 1], b"abc", 4, &text).is_err(), "too few");
            assert!(read(&[], b"", 0, &text).is_err(), "not even one");
            assert!(read(&[0, 1, 3], b"a\xffb", 2, &text).is_err(), "no UTF-8");
            assert!(read(&[0, 1, 2], "ß".as_bytes(), 2, &text).is_err(), "a letter in two rows");
            assert!(read(&[0, 1, 3], b"a\xffb", 2, &DataType::BinaryView).is_ok());
            let body = with_offsets(&[0, 1, 3], b"abc");
            assert!(decode_offsets(&body, Nulls::Sentinel, &text, layout, 2, true).is_err());
        }
    }

    proptest! {
        #[test]
        fn offsets_are_read_back(
            texts in prop::collection::vec(prop::option::of("[a-zäß]{0,30}"), 0..40),
            shift in 0usize..4,
            are_trusted: bool,
        ) {
            let plain = StringArray::from(texts.clone());
            let views: ArrayRef = Arc::new(StringViewArray::from(texts.clone()));
            // As at an unaligned address.
            let (mut body, mut mask) = (vec![0; shift], vec![]);
            let nulls = put_mask(plain.nulls(), &mut mask);
            body.append(&mut mask);
            body.extend_from_slice(plain.value_offsets().to_byte_slice());
            body.extend_from_slice(plain.value_data());
            let body = Buffer::from_vec(body).slice(shift);
            let read = |layout| {
                decode_offsets(&body, nulls, &DataType::Utf8View, layout, texts.len(), are_trusted).unwrap()
            };
            prop_assert_eq!(&read(Strings::Views), &views);
            let found = read(Strings::Plain);
            prop_assert_eq!(found.as_string::<i32>(), &plain);
        }

        /// Adjacent views, repeated views, inlined strings, several buffers, and NULLs.
        #[test]
        fn strings_are_read_back(
            texts in prop::collection::vec(prop::option::of("[a-zäß]{0,30}"), 1..40),
            jumps in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6), 0..30),
            form in prop::sample::select(vec![Form::Lengths, Form::NulTerminated]),
            sentinel: bool,
        ) {
            let one: ArrayRef = Arc::new(StringViewArray::from(texts.clone()));
            let two: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().rev().cloned()));
            let both = concat(&[&one, &two]).unwrap();
            let rows = jumps.iter().flat_map(|(at, len)| {
                let from = at.index(both.len());
                (from..(from + len).min(both.len())).map(|row| row as u32)
            });
            let array = take(&both, &UInt32Array::from_iter_values(rows), None).unwrap();
            let mut out = vec![];
            let (nulls, width) = encode(&array, form, sentinel, &mut out).unwrap();
            let about = Body { nulls, width, ..Body::of(form) };
            let read = decode(&Buffer::from_vec(out), about, &DataType::Utf8View, array.len()).unwrap();
            prop_assert_eq!(&read, &array);
        }
    }
}
