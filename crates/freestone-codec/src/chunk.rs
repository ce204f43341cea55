//! Decoding chunks: all values, a range, a list of positions, or the selection of a predicate.

use crate::bitpack::VECTOR;
use crate::encodings::alp::{Alp, Float, PlainFloats};
use crate::encodings::block::{BlockCache, BlockStrings};
use crate::encodings::dictionary::{BytesDictionary, check_codes, codes_test, decode_codes};
use crate::encodings::ints::IntBody;
use crate::encodings::packed::{Test, filter_packed};
use crate::encodings::strings::{Lengths, PlainStrings};
use crate::fsst_table::SymbolTable;
use crate::layout::{Header, Reader};
use crate::rows::{IntTarget, Rows};
use crate::string_sink::StringSink;
use crate::{BytesPredicate, CodecError, Encoding, IntPredicate, Kind, Predicate, Shared, Transform, select};

/// Buffers that decoding reuses. `block` caches the last decompressed blocks by the caller's `key`.
#[derive(Debug, Default)]
pub struct Scratch {
    block: BlockCache,
    codes: Vec<u32>,
    keys: Vec<i64>,
    bytes: Vec<u8>,
}

/// A validated view of one chunk.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    header: Header<'a>,
    kind: Kind,
    /// The segment's dictionary or symbol table, if the body depends on it.
    shared: Option<&'a Shared>,
    body: Body<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Body<'a> {
    AllNull,
    /// Integers, float keys, or codes of the shared dictionary, of any kind.
    Ints(IntBody<'a>),
    PlainFloats(PlainFloats<'a>),
    Alp(Alp<'a>),
    ConstantString(&'a [u8]),
    PlainStrings(PlainStrings<'a>),
    Strings(BytesDictionary<'a>),
    Block(BlockStrings<'a>),
}

impl<'a> Chunk<'a> {
    /// Checks the header and every offset and width, so that decoding cannot read out of bounds.
    ///
    /// # Errors
    /// `Corrupt` with the reason if a check fails.
    pub fn parse(bytes: &'a [u8], kind: Kind, shared: Option<&'a Shared>) -> Result<Self, CodecError> {
        let (header, reader) = Header::parse(bytes)?;
        let body = parse_body(&header, reader, kind, shared)?;
        Ok(Self { header, kind, shared, body })
    }

    /// The number of rows of the chunk.
    pub fn rows(&self) -> usize {
        self.header.rows
    }

    /// The encoding of the chunk's body.
    pub fn encoding(&self) -> Encoding {
        self.header.encoding
    }

    /// Bytes of text that are decompressed to read any of the chunk's strings: 0 except for [`Encoding::Block`].
    pub fn block_bytes(&self) -> usize {
        match &self.body {
            Body::Block(block) => block.lengths.total,
            _ => 0,
        }
    }

    /// Whether any row is NULL.
    pub fn has_nulls(&self) -> bool {
        self.header.all_null || self.header.validity.is_some()
    }

    /// Sets bit `at + i` of `out` if the `i`-th of `rows` is not NULL. The bits of `out` must be zero before.
    pub fn validity(&self, rows: Rows<'_>, out: &mut [u64], at: usize) {
        if self.header.all_null {
            return;
        }
        let Some(bitmap) = self.header.validity else { return select::set(out, at, rows.len()) };
        match rows {
            Rows::Range { start, len } => {
                let words = bitmap_words(bitmap, start, len);
                select::or(out, at, &words, start % 64, len);
            }
            Rows::Positions(positions) => {
                for (i, row) in positions.iter().enumerate() {
                    let valid = bitmap.get(*row as usize / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1);
                    if let Some(word) = out.get_mut((at + i) / 64) {
                        *word |= u64::from(valid) << ((at + i) % 64);
                    }
                }
            }
        }
    }

    /// Appends the integers of `rows` (kinds `Int` and `Wide`).
    ///
    /// # Errors
    /// `Corrupt` if codes, data or `rows` are invalid; `Unsupported` for a chunk of another kind.
    pub fn ints<T: IntTarget>(
        &self,
        rows: Rows<'_>,
        out: &mut Vec<T>,
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        self.check_rows(rows)?;
        if !matches!(self.kind, Kind::Int | Kind::Wide) {
            return Err(self.unsupported("integers"));
        }
        self.decode_ints(rows, out, scratch)
    }

    /// Appends the floats of `rows` (kinds `F64` and `F32`, the latter exactly).
    ///
    /// # Errors
    /// `Corrupt` if codes, data or `rows` are invalid; `Unsupported` for a chunk of another kind.
    pub fn f64s(&self, rows: Rows<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), CodecError> {
        self.check_rows(rows)?;
        match self.kind {
            Kind::F64 => self.decode_floats(rows, out, scratch),
            Kind::F32 => {
                let mut narrow: Vec<f32> = Vec::new();
                self.decode_floats(rows, &mut narrow, scratch)?;
                out.extend(narrow.iter().map(|value| f64::from(*value)));
                Ok(())
            }
            _ => Err(self.unsupported("floats")),
        }
    }

    /// Appends the floats of `rows` (kind `F32`).
    ///
    /// # Errors
    /// `Corrupt` if codes, data or `rows` are invalid; `Unsupported` for a chunk of another kind.
    pub fn f32s(&self, rows: Rows<'_>, out: &mut Vec<f32>, scratch: &mut Scratch) -> Result<(), CodecError> {
        self.check_rows(rows)?;
        match self.kind {
            Kind::F32 => self.decode_floats(rows, out, scratch),
            _ => Err(self.unsupported("32-bit floats")),
        }
    }

    /// Appends the strings of `rows`. `key` identifies this chunk in the block cache of `scratch`.
    ///
    /// # Errors
    /// `Corrupt` if codes, data or `rows` are invalid; `Unsupported` for a chunk of another kind; or the error of `out`.
    pub fn bytes<T: StringSink>(
        &self,
        rows: Rows<'_>,
        out: &mut T,
        scratch: &mut Scratch,
        key: u64,
    ) -> Result<(), CodecError> {
        self.check_rows(rows)?;
        if self.kind != Kind::Bytes {
            return Err(self.unsupported("strings"));
        }
        match &self.body {
            Body::AllNull => out.repeat(&[], rows.len())?,
            Body::Ints(_) => {
                let mut codes = std::mem::take(&mut scratch.codes);
                codes.clear();
                let done = self.codes(rows, &mut codes).map(|()| out.shared_entries(self.dictionary()?, &codes));
                scratch.codes = codes;
                done??;
            }
            Body::ConstantString(value) => {
                let value = self.plain_value(value)?;
                out.repeat(&value, rows.len())?;
            }
            Body::Strings(dictionary) => {
                let codes = decode_codes(&dictionary.codes, dictionary.entries.len, rows)?;
                let entries: Vec<_> = (0..dictionary.entries.len).map(|code| dictionary.entries.get(code)).collect();
                out.entries(&entries, &codes)?;
            }
            Body::PlainStrings(strings) => match self.symbols() {
                Some(table) => {
                    strings.lengths.visit(rows, |offsets| out.compressed(table, strings.data, offsets))?;
                }
                None => strings.lengths.visit(rows, |offsets| out.run(strings.data, offsets))?,
            },
            Body::Block(block) => {
                let text = block.text(&mut scratch.block, self.shared, key)?;
                // A few rows must not keep a whole block in memory.
                if rows.len() * 4 < self.rows() {
                    block.lengths.visit(rows, |offsets| out.run(&text, offsets))?;
                } else {
                    block.lengths.visit(rows, |offsets| out.shared_run(&text, offsets))?;
                }
            }
            Body::PlainFloats(_) | Body::Alp(_) => return Err(self.unsupported("strings")),
        }
        Ok(())
    }

    /// Appends the codes of `rows` in the segment's dictionary, each smaller than its length, for chunks of any kind
    /// under [`Transform::Dictionary`]. The codes of NULL rows are arbitrary.
    ///
    /// # Errors
    /// `Corrupt` if a code or `rows` are out of range; `Unsupported` if the column has no dictionary.
    pub fn codes(&self, rows: Rows<'_>, out: &mut Vec<u32>) -> Result<(), CodecError> {
        self.check_rows(rows)?;
        let dictionary = self.dictionary()?;
        let start = out.len();
        match &self.body {
            Body::AllNull => out.resize(start + rows.len(), 0),
            Body::Ints(body) => body.decode(rows, false, out)?,
            _ => return Err(self.unsupported("codes")),
        }
        if !matches!(self.body, Body::AllNull) {
            check_codes(&out[start..], dictionary.dictionary_len())?;
        }
        Ok(())
    }

    /// Clears bit `i` of `selection` if row `start + i` does not satisfy the predicate, for `i < len`. Bits that are
    /// already clear may be skipped.
    ///
    /// # Errors
    /// `Corrupt` if the data is invalid; `Unsupported` if the predicate is of another kind than the chunk.
    pub fn filter(
        &self,
        predicate: &Predicate,
        start: usize,
        len: usize,
        selection: &mut [u64],
        scratch: &mut Scratch,
        key: u64,
    ) -> Result<(), CodecError> {
        self.check_rows(Rows::Range { start, len })?;
        if selection.len() < len.div_ceil(64) {
            return Err(CodecError::corrupt(format!("a selection of {} words for {len} rows", selection.len())));
        }
        match predicate {
            Predicate::IsNull => self.clear_valid(start, len, selection),
            Predicate::IsNotNull => self.clear_nulls(start, len, selection),
            Predicate::Int(_) if self.kind == Kind::Bytes => return Err(self.unsupported("numeric predicates")),
            Predicate::Bytes(_) if self.kind != Kind::Bytes => return Err(self.unsupported("string predicates")),
            Predicate::Int(test) => {
                self.clear_nulls(start, len, selection);
                self.filter_numbers(predicate, test, start, len, selection)?;
            }
            Predicate::Bytes(test) => {
                self.clear_nulls(start, len, selection);
                self.filter_strings(predicate, test, start, len, selection, scratch, key)?;
            }
        }
        Ok(())
    }

    fn clear_nulls(&self, start: usize, len: usize, selection: &mut [u64]) {
        if self.header.all_null {
            select::clear(selection, 0, len);
        } else if let Some(bitmap) = self.header.validity {
            select::and(selection, 0, &bitmap_words(bitmap, start, len), start % 64, len);
        }
    }

    fn clear_valid(&self, start: usize, len: usize, selection: &mut [u64]) {
        match self.header.validity {
            Some(bitmap) => {
                let mut words = bitmap_words(bitmap, start, len);
                words.iter_mut().for_each(|word| *word = !*word);
                select::and(selection, 0, &words, start % 64, len);
            }
            None if self.header.all_null => {}
            None => select::clear(selection, 0, len),
        }
    }

    fn filter_numbers(
        &self,
        predicate: &Predicate,
        test: &IntPredicate,
        start: usize,
        len: usize,
        selection: &mut [u64],
    ) -> Result<(), CodecError> {
        match &self.body {
            Body::Ints(body) => self.filter_ints(body, predicate, Some(test), start, len, selection)?,
            Body::PlainFloats(floats) if self.kind == Kind::F64 => floats.filter::<f64>(test, start, len, selection),
            Body::PlainFloats(floats) => floats.filter::<f32>(test, start, len, selection),
            Body::Alp(alp) if self.kind == Kind::F64 => alp.filter::<f64>(test, start, len, selection),
            Body::Alp(alp) => alp.filter::<f32>(test, start, len, selection),
            _ => {}
        }
        Ok(())
    }

    /// Tests values, or codes if the body contains codes.
    fn filter_ints(
        &self,
        body: &IntBody<'_>,
        predicate: &Predicate,
        test: Option<&IntPredicate>,
        start: usize,
        len: usize,
        selection: &mut [u64],
    ) -> Result<(), CodecError> {
        match (self.transform(), test) {
            (Transform::Dictionary, _) => {
                let test = self.dictionary()?.translate(predicate)?;
                body.filter(Test::Codes(&test), self.rows(), start, len, selection)
            }
            (_, Some(test)) => body.filter(Test::Values(test), self.rows(), start, len, selection),
            (_, None) => Err(self.unsupported("codes")),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn filter_strings(
        &self,
        predicate: &Predicate,
        test: &BytesPredicate,
        start: usize,
        len: usize,
        selection: &mut [u64],
        scratch: &mut Scratch,
        key: u64,
    ) -> Result<(), CodecError> {
        let lengths = match &self.body {
            Body::PlainStrings(strings) => Some(&strings.lengths),
            Body::Block(block) => Some(&block.lengths),
            _ => None,
        };
        if let (Some(lengths), Some(wanted)) = (lengths, emptiness(test)) {
            return filter_empty(lengths, wanted, start, len, selection);
        }
        match &self.body {
            Body::Ints(body) => self.filter_ints(body, predicate, None, start, len, selection)?,
            Body::ConstantString(value) => {
                if !test.test(&self.plain_value(value)?) {
                    select::clear(selection, 0, len);
                }
            }
            Body::Strings(dictionary) => {
                let test = codes_test(dictionary.entries.len, |code| test.test(dictionary.entries.get(code)));
                filter_packed(&dictionary.codes, &test, start, len, selection);
            }
            Body::PlainStrings(strings) => match self.symbols() {
                Some(table) => {
                    let compressed = CompressedTest { table, test, buffer: &mut scratch.bytes };
                    let mut compressed = compressed;
                    filter_lengths(&strings.lengths, strings.data, start, len, selection, |s| compressed.pass(s))?;
                }
                None => filter_plain(&strings.lengths, strings.data, test, start, len, selection)?,
            },
            Body::Block(block) => {
                let text = block.text(&mut scratch.block, self.shared, key)?;
                filter_plain(&block.lengths, &text, test, start, len, selection)?;
            }
            Body::AllNull | Body::PlainFloats(_) | Body::Alp(_) => {}
        }
        Ok(())
    }

    fn decode_ints<T: IntTarget>(
        &self,
        rows: Rows<'_>,
        out: &mut Vec<T>,
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        match &self.body {
            Body::AllNull => out.resize(out.len() + rows.len(), T::default()),
            Body::Ints(_) if self.transform() == Transform::Dictionary => {
                let mut codes = std::mem::take(&mut scratch.codes);
                codes.clear();
                let done = self.codes(rows, &mut codes).and_then(|()| look_up(self.dictionary()?, &codes, out));
                scratch.codes = codes;
                done?;
            }
            Body::Ints(body) => body.decode(rows, self.kind == Kind::Wide, out)?,
            _ => return Err(self.unsupported("integers")),
        }
        Ok(())
    }

    fn decode_floats<F: Float>(
        &self,
        rows: Rows<'_>,
        out: &mut Vec<F>,
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        match &self.body {
            Body::PlainFloats(floats) => floats.decode(rows, out),
            Body::Alp(alp) => alp.decode(rows, out),
            Body::AllNull => out.resize(out.len() + rows.len(), F::default()),
            _ => {
                let mut keys = std::mem::take(&mut scratch.keys);
                keys.clear();
                let done = self.decode_ints(rows, &mut keys, scratch);
                out.extend(keys.iter().map(|key| F::from_key(*key)));
                scratch.keys = keys;
                done?;
            }
        }
        Ok(())
    }

    fn transform(&self) -> Transform {
        self.shared.map_or(Transform::None, Shared::transform)
    }

    fn dictionary(&self) -> Result<&'a Shared, CodecError> {
        match self.shared {
            Some(shared) if shared.transform() == Transform::Dictionary => Ok(shared),
            _ => Err(self.unsupported("codes without the segment's dictionary")),
        }
    }

    fn symbols(&self) -> Option<&'a SymbolTable> {
        self.shared.and_then(Shared::symbols)
    }

    fn plain_value(&self, value: &'a [u8]) -> Result<std::borrow::Cow<'a, [u8]>, CodecError> {
        match self.symbols() {
            None => Ok(value.into()),
            Some(table) => {
                let mut out = Vec::new();
                table.decompress(value, &mut out)?;
                Ok(out.into())
            }
        }
    }

    fn check_rows(&self, rows: Rows<'_>) -> Result<(), CodecError> {
        let end = match rows {
            Rows::Range { start, len } => start.checked_add(len),
            Rows::Positions(positions) => {
                let ascending = positions.windows(2).fold(true, |ok, pair| ok & (pair[0] <= pair[1]));
                let last = positions.last().map_or(0, |last| *last as usize + 1);
                ascending.then_some(last)
            }
        };
        match end {
            Some(end) if end <= self.rows() => Ok(()),
            _ => Err(CodecError::corrupt(format!("the requested rows are not within the chunk's {}", self.rows()))),
        }
    }

    fn unsupported(&self, what: &'static str) -> CodecError {
        CodecError::Unsupported { encoding: what, kind: self.kind.name() }
    }
}

fn parse_body<'a>(
    header: &Header<'a>,
    mut reader: Reader<'a>,
    kind: Kind,
    shared: Option<&'a Shared>,
) -> Result<Body<'a>, CodecError> {
    if header.all_null {
        return Ok(Body::AllNull);
    }
    let transform = shared.map_or(Transform::None, Shared::transform);
    if transform == Transform::Dictionary {
        let matching = shared.is_some_and(|s| s.dictionary_bytes().is_some() == (kind == Kind::Bytes));
        let body = IntBody::parse(header, reader, false)?;
        return if matching { Ok(Body::Ints(body)) } else { Err(CodecError::corrupt("dictionary of another kind")) };
    }
    let (rows, param) = (header.rows, header.param);
    let float_bytes = if kind == Kind::F64 { 8 } else { 4 };
    Ok(match (kind, header.encoding) {
        (Kind::Int | Kind::Wide, _) => Body::Ints(IntBody::parse(header, reader, kind == Kind::Wide)?),
        (Kind::F64 | Kind::F32, Encoding::Plain) => {
            Body::PlainFloats(PlainFloats { bytes: reader.take(rows * float_bytes)? })
        }
        (Kind::F64 | Kind::F32, Encoding::Alp) => Body::Alp(Alp::parse(reader, param, rows, float_bytes)?),
        (Kind::F64 | Kind::F32, _) => Body::Ints(IntBody::parse(header, reader, false)?),
        (Kind::Bytes, Encoding::Constant) => {
            let len = reader.u32()? as usize;
            Body::ConstantString(reader.take(len)?)
        }
        (Kind::Bytes, Encoding::Plain) => Body::PlainStrings(PlainStrings::parse(reader, param, rows)?),
        (Kind::Bytes, Encoding::Dictionary) if transform != Transform::Fsst => {
            Body::Strings(BytesDictionary::parse(reader, param, rows)?)
        }
        (Kind::Bytes, Encoding::Block) if transform != Transform::Fsst => {
            Body::Block(BlockStrings::parse(reader, param, rows)?)
        }
        (Kind::Bytes, other) => return Err(CodecError::corrupt(format!("{other:?} chunk of strings"))),
    })
}

/// The words of a bitmap with rows `start .. start + len`. Row `start` is bit `start % 64` of the first word.
fn bitmap_words(bitmap: &[u8], start: usize, len: usize) -> Vec<u64> {
    let words = bitmap.as_chunks::<8>().0;
    let (from, to) = (start / 64, (start + len).div_ceil(64).min(words.len()));
    words.get(from..to).unwrap_or(&[]).iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn look_up<T: IntTarget>(dictionary: &Shared, codes: &[u32], out: &mut Vec<T>) -> Result<(), CodecError> {
    match (dictionary.dictionary_narrow(), dictionary.dictionary_ints()) {
        (Some(entries), _) => out.extend(codes.iter().map(|code| T::from_i64(entries[*code as usize]))),
        (None, Some(entries)) => out.extend(codes.iter().map(|code| T::from_i128(entries[*code as usize]))),
        (None, None) => return Err(CodecError::corrupt("a dictionary of strings for numbers")),
    }
    Ok(())
}

/// Calls `test(offsets, selection, row)` for the rows of each vector of which some are selected: the offsets of their strings,
/// and the place of the first in the selection.
fn visit_selected(
    lengths: &Lengths<'_>,
    start: usize,
    len: usize,
    selection: &mut [u64],
    mut test: impl FnMut(&[u32], &mut [u64], usize) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    let mut offsets = [0u32; VECTOR + 1];
    let mut row = start;
    while row < start + len {
        let vector = row / VECTOR;
        let next = ((vector + 1) * VECTOR).min(start + len);
        if select::any_set(selection, row - start, next - row) {
            lengths.offsets(vector, &mut offsets)?;
            test(&offsets[row % VECTOR..][..=next - row], selection, row - start)?;
        }
        row = next;
    }
    Ok(())
}

/// Clears the rows of strings that do not satisfy `pass`.
fn filter_lengths(
    lengths: &Lengths<'_>,
    data: &[u8],
    start: usize,
    len: usize,
    selection: &mut [u64],
    mut pass: impl FnMut(&[u8]) -> Result<bool, CodecError>,
) -> Result<(), CodecError> {
    visit_selected(lengths, start, len, selection, |offsets, selection, first| {
        for (row, ends) in offsets.windows(2).enumerate() {
            let (word, bit) = ((first + row) / 64, 1u64 << ((first + row) % 64));
            if selection[word] & bit != 0 && !pass(&data[ends[0] as usize..ends[1] as usize])? {
                selection[word] &= !bit;
            }
        }
        Ok(())
    })
}

/// Whether a predicate only asks for empty strings (`true`), or for all others (`false`).
fn emptiness(test: &BytesPredicate) -> Option<bool> {
    let is_empty = |list: &Vec<Vec<u8>>| matches!(&list[..], [value] if value.is_empty());
    match test {
        BytesPredicate::In(list) if is_empty(list) => Some(true),
        BytesPredicate::NotIn(list) if is_empty(list) => Some(false),
        BytesPredicate::NotEqual(value) if value.is_empty() => Some(false),
        _ => None,
    }
}

/// Clears the rows of strings that are not empty, or of those that are.
fn filter_empty(
    lengths: &Lengths<'_>,
    wanted: bool,
    start: usize,
    len: usize,
    selection: &mut [u64],
) -> Result<(), CodecError> {
    visit_selected(lengths, start, len, selection, |offsets, selection, first| {
        let mut passed = [0u64; VECTOR / 64];
        for (row, ends) in offsets.windows(2).enumerate() {
            passed[row / 64] |= u64::from((ends[0] == ends[1]) == wanted) << (row % 64);
        }
        select::and(selection, first, &passed, 0, offsets.len() - 1);
        Ok(())
    })
}

fn filter_plain(
    lengths: &Lengths<'_>,
    data: &[u8],
    test: &BytesPredicate,
    start: usize,
    len: usize,
    selection: &mut [u64],
) -> Result<(), CodecError> {
    match test {
        BytesPredicate::In(list) if list.len() == 1 => {
            filter_lengths(lengths, data, start, len, selection, |s| Ok(s == &list[0][..]))
        }
        BytesPredicate::Prefix(prefix) => {
            filter_lengths(lengths, data, start, len, selection, |s| Ok(s.starts_with(prefix)))
        }
        _ => filter_lengths(lengths, data, start, len, selection, |s| Ok(test.test(s))),
    }
}

/// A predicate on FSST-compressed strings.
struct CompressedTest<'t> {
    table: &'t SymbolTable,
    test: &'t BytesPredicate,
    buffer: &'t mut Vec<u8>,
}

impl CompressedTest<'_> {
    fn pass(&mut self, compressed: &[u8]) -> Result<bool, CodecError> {
        let equal = |value: &[u8]| self.table.starts_with(compressed, value) == (true, true);
        Ok(match self.test {
            BytesPredicate::Prefix(prefix) => self.table.starts_with(compressed, prefix).0,
            BytesPredicate::NotPrefix(prefix) => !self.table.starts_with(compressed, prefix).0,
            BytesPredicate::NotEqual(value) => !equal(value),
            BytesPredicate::In(list) if list.len() <= 4 => list.iter().any(|value| equal(value)),
            BytesPredicate::NotIn(list) if list.len() <= 4 => !list.iter().any(|value| equal(value)),
            test => {
                self.buffer.clear();
                self.table.decompress(compressed, self.buffer)?;
                test.test(self.buffer)
            }
        })
    }
}
