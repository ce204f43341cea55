//! The shared state of a column, stored once per segment: a dictionary, an FSST symbol table or a Zstandard dictionary.
//!
//! ```text
//! Dictionary of integers   entries u32 | size u8 (1, 2, 4, 8, 16) | 0 u8 x 3 | reference i128
//!                          | entries, ascending: difference from the reference, or at size 16 the value
//! Dictionary of strings    entries u32 | size u8 (1, 2, 4) of an end | 0 u8 x 3 | ends | data, ascending
//! FSST                     see `fsst_table`
//! BlockDictionary          a Zstandard dictionary as its library trains it
//! ```
//! Dictionaries contain floats as their keys ([`crate::f64_key`]).

use crate::encodings::block::LEVEL;
use crate::encodings::dictionary::{BytesEntries, IntEntries, codes_test};
use crate::fsst_table::SymbolTable;
use crate::layout::{Reader, byte_width};
use crate::{BytesSlice, CodecError, IntPredicate, IntTest, Kind, Predicate, Transform, Views};
use std::sync::Arc;
use zstd::zstd_safe::{CDict, DDict};

/// The largest number of entries of a segment dictionary.
const ENTRIES_MAX: usize = 1 << 24;

/// Shared state of one column of one segment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shared {
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Ints(Arc<IntTable>),
    Bytes(Arc<BytesTable>),
    Fsst(Arc<SymbolTable>),
    Block(Arc<BlockTable>),
}

#[derive(Debug)]
struct IntTable {
    entries: Vec<i128>,
    /// The same in 64 bits, from which all kinds except `Wide` are decoded.
    narrow: Vec<i64>,
    wide: bool,
}

#[derive(Debug)]
struct BytesTable {
    offsets: Vec<u32>,
    data: Arc<Vec<u8>>,
    /// Each entry's Arrow view, with buffer index 0 for `data`.
    views: Vec<u128>,
}

struct BlockTable {
    bytes: Vec<u8>,
    encoder: CDict<'static>,
    decoder: DDict<'static>,
}

impl std::fmt::Debug for BlockTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockTable").field("bytes", &self.bytes.len()).finish()
    }
}

impl Shared {
    /// A dictionary of strictly ascending integers (floats as keys) for a column of `kind`.
    ///
    /// # Errors
    /// `Corrupt` if the entries do not ascend, do not fit the kind, or are too many.
    pub fn int_dictionary(entries: Vec<i128>, kind: Kind) -> Result<Self, CodecError> {
        if entries.len() > ENTRIES_MAX || !entries.is_sorted_by(|a, b| a < b) {
            return Err(CodecError::corrupt("dictionary entries do not ascend"));
        }
        let wide = kind == Kind::Wide;
        if !wide && entries.iter().any(|e| i64::try_from(*e).is_err()) {
            return Err(CodecError::corrupt("dictionary entries exceed 64 bits"));
        }
        let narrow = if wide { Vec::new() } else { entries.iter().map(|e| *e as i64).collect() };
        Ok(Self { state: State::Ints(Arc::new(IntTable { entries, narrow, wide })) })
    }

    /// A dictionary of strictly ascending strings.
    ///
    /// # Errors
    /// `Corrupt` if the entries do not ascend or are too many.
    pub fn bytes_dictionary(entries: &[&[u8]]) -> Result<Self, CodecError> {
        let bytes: usize = entries.iter().map(|e| e.len()).sum();
        if entries.len() > ENTRIES_MAX || bytes > u32::MAX as usize || !entries.is_sorted_by(|a, b| a < b) {
            return Err(CodecError::corrupt("dictionary entries do not ascend"));
        }
        let mut offsets = Vec::with_capacity(entries.len() + 1);
        let mut data = Vec::with_capacity(bytes);
        let mut views = Vec::with_capacity(entries.len());
        offsets.push(0);
        for entry in entries {
            views.push(Views::view(entry, 0, data.len() as u32));
            data.extend_from_slice(entry);
            offsets.push(data.len() as u32);
        }
        Ok(Self { state: State::Bytes(Arc::new(BytesTable { offsets, data: Arc::new(data), views })) })
    }

    /// A symbol table trained on a sample of strings.
    pub fn train_fsst(sample: &Vec<&[u8]>) -> Self {
        Self { state: State::Fsst(Arc::new(SymbolTable::train(sample))) }
    }

    /// A Zstandard dictionary, as the library's training returns it.
    ///
    /// # Errors
    /// `Corrupt` if the library does not accept it.
    pub fn block_dictionary(bytes: Vec<u8>) -> Result<Self, CodecError> {
        match (CDict::try_create(&bytes, LEVEL), DDict::try_create(&bytes)) {
            (Some(encoder), Some(decoder)) => {
                Ok(Self { state: State::Block(Arc::new(BlockTable { bytes, encoder, decoder })) })
            }
            _ => Err(CodecError::corrupt(format!("{} bytes are no Zstandard dictionary", bytes.len()))),
        }
    }

    /// The transform to which this state belongs.
    pub fn transform(&self) -> Transform {
        match self.state {
            State::Ints(_) | State::Bytes(_) => Transform::Dictionary,
            State::Fsst(_) => Transform::Fsst,
            State::Block(_) => Transform::BlockDictionary,
        }
    }

    /// The bytes that [`Shared::parse`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put_head = |len: usize, size: usize| {
            out.extend_from_slice(&(len as u32).to_le_bytes());
            out.extend_from_slice(&[size as u8, 0, 0, 0]);
        };
        match &self.state {
            State::Ints(table) => {
                let first = table.entries.first().copied().unwrap_or(0);
                let size = IntEntries::size_for(first, table.entries.last().copied().unwrap_or(0));
                put_head(table.entries.len(), size);
                out.extend_from_slice(&first.to_le_bytes());
                IntEntries::put(&table.entries, size, &mut out);
            }
            State::Bytes(table) => {
                let size = byte_width(table.data.len() as u64);
                put_head(table.views.len(), size);
                let slice = table.slice();
                let entries: Vec<&[u8]> = (0..slice.len()).map(|i| slice.get(i)).collect();
                BytesEntries::put(&entries, size, &mut out);
            }
            State::Fsst(table) => out = table.to_bytes(),
            State::Block(table) => out.clone_from(&table.bytes),
        }
        out
    }

    /// Reads shared state. Everything is checked here, so that decoding chunks needs no further checks of it.
    ///
    /// # Errors
    /// `Corrupt` with the reason if a check fails.
    pub fn parse(bytes: &[u8], kind: Kind, transform: Transform) -> Result<Self, CodecError> {
        match transform {
            Transform::Dictionary => Self::parse_dictionary(bytes, kind),
            Transform::Fsst if kind == Kind::Bytes => {
                Ok(Self { state: State::Fsst(Arc::new(SymbolTable::parse(bytes)?)) })
            }
            Transform::BlockDictionary if kind == Kind::Bytes => Self::block_dictionary(bytes.to_vec()),
            other => Err(CodecError::corrupt(format!("{other:?} has no shared state for {kind:?}"))),
        }
    }

    fn parse_dictionary(bytes: &[u8], kind: Kind) -> Result<Self, CodecError> {
        let mut reader = Reader::new(bytes);
        let len = reader.u32()? as usize;
        let size = usize::from(reader.u8()?);
        reader.take(3)?;
        if len > ENTRIES_MAX {
            return Err(CodecError::corrupt(format!("a dictionary of {len} entries")));
        }
        if kind == Kind::Bytes {
            let entries = BytesEntries::parse(&mut reader, size, len)?;
            let entries: Vec<&[u8]> = (0..len).map(|i| entries.get(i)).collect();
            Self::bytes_dictionary(&entries)
        } else {
            let reference = reader.i128()?;
            let entries = IntEntries::parse(&mut reader, size, reference, len, true)?;
            Self::int_dictionary((0..len).map(|i| entries.get(i)).collect(), kind)
        }
    }

    /// The number of entries of the dictionary; 0 without one.
    pub fn dictionary_len(&self) -> usize {
        match &self.state {
            State::Ints(table) => table.entries.len(),
            State::Bytes(table) => table.views.len(),
            _ => 0,
        }
    }

    /// The dictionary's strings, for `Kind::Bytes` with `Transform::Dictionary`.
    pub fn dictionary_bytes(&self) -> Option<BytesSlice<'_>> {
        match &self.state {
            State::Bytes(table) => Some(table.slice()),
            _ => None,
        }
    }

    /// The dictionary's integers (floats as [`crate::f64_key`]), for the other kinds with `Transform::Dictionary`.
    pub fn dictionary_ints(&self) -> Option<&[i128]> {
        match &self.state {
            State::Ints(table) => Some(&table.entries),
            _ => None,
        }
    }

    /// The dictionary's integers in 64 bits, for the kinds `Int`, `F64` and `F32`.
    pub fn dictionary_narrow(&self) -> Option<&[i64]> {
        match &self.state {
            State::Ints(table) if !table.wide => Some(&table.narrow),
            _ => None,
        }
    }

    /// The buffer to which [`Shared::view`]s with index 0 point.
    pub fn dictionary_buffer(&self) -> Option<&Arc<Vec<u8>>> {
        match &self.state {
            State::Bytes(table) => Some(&table.data),
            _ => None,
        }
    }

    /// The Arrow view of every entry (buffer index 0). Empty except for string dictionaries.
    pub fn views(&self) -> &[u128] {
        match &self.state {
            State::Bytes(table) => &table.views,
            _ => &[],
        }
    }

    /// The Arrow view of one entry (buffer index 0).
    pub fn view(&self, code: u32) -> Option<u128> {
        self.views().get(code as usize).copied()
    }

    /// The code of an integer, or of a float's key.
    pub fn code_of_int(&self, value: i128) -> Option<u32> {
        self.dictionary_ints()?.binary_search(&value).ok().map(|code| code as u32)
    }

    /// The code of a string.
    pub fn code_of_bytes(&self, value: &[u8]) -> Option<u32> {
        let entries = self.dictionary_bytes()?;
        let at = partition_point(entries.len(), |i| entries.get(i) < value);
        (at < entries.len() && entries.get(at) == value).then_some(at as u32)
    }

    /// Appends the codes of integers (floats as keys). NULL rows (`validity` bit clear) get code 0.
    ///
    /// # Errors
    /// `Unsupported` if a value is not in the dictionary, or there is no dictionary of this kind.
    pub fn encode_ints(&self, values: &[i64], validity: Option<&[u64]>, out: &mut Vec<u32>) -> Result<(), CodecError> {
        let codes = crate::encode::int_codes(values, validity, self)?;
        out.extend(codes.iter().map(|code| *code as u32));
        Ok(())
    }

    /// As [`Shared::encode_ints`], for strings.
    ///
    /// # Errors
    /// As for [`Shared::encode_ints`].
    pub fn encode_bytes(
        &self,
        values: BytesSlice<'_>,
        validity: Option<&[u64]>,
        out: &mut Vec<u32>,
    ) -> Result<(), CodecError> {
        let codes = crate::encode::bytes_codes(values, validity, self)?;
        out.extend(codes.iter().map(|code| *code as u32));
        Ok(())
    }

    /// Appends `value`, compressed with the symbol table.
    ///
    /// # Errors
    /// `Unsupported` without a symbol table; `Corrupt` if the table cannot compress.
    pub fn fsst_compress(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let State::Fsst(table) = &self.state else {
            return Err(CodecError::Unsupported { encoding: "a shared state without symbol table", kind: "string" });
        };
        let compressor = table.compressor().ok_or_else(|| CodecError::corrupt("FSST symbols out of order"))?;
        out.extend_from_slice(&compressor.compress(value));
        Ok(())
    }

    /// Appends the decompressed bytes.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are invalid; `Unsupported` without a symbol table.
    pub fn fsst_decompress(&self, compressed: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        match &self.state {
            State::Fsst(table) => table.decompress(compressed, out),
            _ => Err(CodecError::Unsupported { encoding: "a shared state without symbol table", kind: "string" }),
        }
    }

    pub(crate) fn symbols(&self) -> Option<&SymbolTable> {
        match &self.state {
            State::Fsst(table) => Some(table),
            _ => None,
        }
    }

    pub(crate) fn block_encoder(&self) -> Option<&CDict<'static>> {
        match &self.state {
            State::Block(table) => Some(&table.encoder),
            _ => None,
        }
    }

    pub(crate) fn block_decoder(&self) -> Option<&DDict<'static>> {
        match &self.state {
            State::Block(table) => Some(&table.decoder),
            _ => None,
        }
    }

    /// The test of codes that is equivalent to a predicate on values that are not NULL. Entries are sorted, so ranges
    /// and prefixes become ranges of codes.
    ///
    /// # Errors
    /// `Unsupported` if the predicate is of another kind than the dictionary.
    pub fn translate(&self, predicate: &Predicate) -> Result<IntTest, CodecError> {
        match (predicate, &self.state) {
            (Predicate::IsNull, _) => Ok(IntTest::Never),
            (Predicate::IsNotNull, _) => Ok(IntTest::Always),
            (Predicate::Int(predicate), State::Ints(table)) => Ok(translate_ints(predicate, &table.entries)),
            (Predicate::Bytes(predicate), State::Bytes(table)) => Ok(translate_bytes(predicate, table.slice())),
            _ => Err(CodecError::Unsupported { encoding: "a shared dictionary of another kind", kind: "predicate's" }),
        }
    }
}

impl BytesTable {
    fn slice(&self) -> BytesSlice<'_> {
        BytesSlice { offsets: &self.offsets, data: &self.data }
    }
}

fn partition_point(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = (low + high) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

fn range(from: usize, to: usize, len: usize) -> IntTest {
    if from >= to {
        IntTest::Never
    } else if from == 0 && to == len {
        IntTest::Always
    } else {
        IntTest::Range { low: from as u64, high: to as u64 - 1 }
    }
}

/// The test for membership in a sorted list of codes, or for absence from it.
fn listed(codes: &[usize], len: usize, negated: bool) -> IntTest {
    let mut member = vec![negated; len];
    codes.iter().for_each(|code| member[*code] = !negated);
    codes_test(len, |code| member[code])
}

fn translate_ints(predicate: &IntPredicate, entries: &[i128]) -> IntTest {
    let len = entries.len();
    let find = |list: &[i128]| list.iter().filter_map(|v| entries.binary_search(v).ok()).collect::<Vec<_>>();
    match predicate {
        IntPredicate::Range { low, high } => {
            range(entries.partition_point(|e| e < low), entries.partition_point(|e| e <= high), len)
        }
        IntPredicate::NotEqual(value) => {
            entries.binary_search(value).map_or(IntTest::Always, |code| IntTest::NotEqual(code as u64))
        }
        IntPredicate::In(list) => listed(&find(list), len, false),
        IntPredicate::NotIn(list) => listed(&find(list), len, true),
        IntPredicate::Keys(keys) => codes_test(len, |code| keys.contains(entries[code])),
    }
}

fn translate_bytes(predicate: &crate::BytesPredicate, entries: BytesSlice<'_>) -> IntTest {
    use crate::BytesPredicate::*;
    let len = entries.len();
    let below = |value: &[u8]| partition_point(len, |i| entries.get(i) < value);
    let up_to = |value: &[u8]| partition_point(len, |i| entries.get(i) <= value);
    let prefixed = |prefix: &[u8]| {
        let from = below(prefix);
        (from, from + partition_point(len - from, |i| entries.get(from + i).starts_with(prefix)))
    };
    let find = |list: &[Vec<u8>]| {
        let codes = list.iter().map(|v| (below(v), up_to(v)));
        codes.filter(|(from, to)| from < to).map(|(from, _)| from).collect::<Vec<_>>()
    };
    match predicate {
        Range { low, high } => {
            let from = low.as_ref().map_or(0, |b| if b.inclusive { below(&b.value) } else { up_to(&b.value) });
            let to = high.as_ref().map_or(len, |b| if b.inclusive { up_to(&b.value) } else { below(&b.value) });
            range(from, to, len)
        }
        NotEqual(value) => {
            find(std::slice::from_ref(value)).first().map_or(IntTest::Always, |c| IntTest::NotEqual(*c as u64))
        }
        In(list) => listed(&find(list), len, false),
        NotIn(list) => listed(&find(list), len, true),
        Prefix(prefix) => {
            let (from, to) = prefixed(prefix);
            range(from, to, len)
        }
        NotPrefix(prefix) => {
            let (from, to) = prefixed(prefix);
            codes_test(len, |code| code < from || code >= to)
        }
    }
}
