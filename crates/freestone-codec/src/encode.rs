//! Encoding values into chunks.

use crate::bitpack::{self, Number, VECTOR, packed_bytes};
use crate::encodings::alp::{Decimals, Float};
use crate::encodings::delta::{self, DeltaSizer};
use crate::encodings::delta_lz::{self, DeltaLzSizer};
use crate::encodings::dictionary;
use crate::encodings::ints::plain_size;
use crate::encodings::rle::{self, RleSizer};
use crate::encodings::{block, strings};
use crate::hash::{Distinct, Key};
use crate::layout::{ROWS_MAX, header_bytes, put_header};
use crate::{
    BytesSlice, CodecError, ColumnPlan, Encoding, Kind, Shared, Transform, Values, bits, f32_key, f64_key, select,
};
use std::borrow::Cow;
use std::sync::Mutex;
use zstd::zstd_safe::CCtx;

/// The column of a segment after its transform.
pub struct Prepared<'a> {
    data: Data<'a>,
    validity: Option<&'a [u64]>,
    plan: ColumnPlan,
    shared: Option<Shared>,
    /// The bytes of an integer that is stored as it is, whatever its value; see [`Prepared::uncompressed`].
    whole_bytes: Option<usize>,
    block: Mutex<BlockState>,
}

impl std::fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("plan", &self.plan).field("rows", &self.len()).finish()
    }
}

enum Data<'a> {
    /// Integers, float keys, or codes of the shared dictionary. A NULL row repeats the previous value.
    Int(Cow<'a, [i64]>),
    Wide(Cow<'a, [i128]>),
    F64(&'a [f64]),
    F32(&'a [f32]),
    Alp64(&'a [f64], Decimals),
    Alp32(&'a [f32], Decimals),
    /// Strings, raw or FSST-compressed. A NULL row is an empty string.
    Bytes {
        offsets: Cow<'a, [u32]>,
        data: Cow<'a, [u8]>,
    },
}

/// Results of fitting a block that encoding reuses.
#[derive(Default)]
struct BlockState {
    context: Option<CCtx<'static>>,
    /// Compressed bytes divided by raw bytes, of the last block.
    ratio: Option<f64>,
    /// Start, rows and frame of the last fitted block.
    fitted: Option<(usize, usize, Vec<u8>)>,
}

impl Prepared<'_> {
    /// The same column with every value in its natural width: integers in `bytes` each even if fewer would do (and more
    /// only if they have to), and no chunk as a constant. Only of plans with [`Encoding::Plain`] and without a transform.
    #[must_use]
    pub fn uncompressed(self, bytes: usize) -> Self {
        let is_plain = self.plan == ColumnPlan { transform: Transform::None, encoding: Encoding::Plain };
        Self { whole_bytes: is_plain.then_some(bytes), ..self }
    }

    /// The bytes of a value that is not compressed; see [`Prepared::uncompressed`]. `None`: values may be compressed.
    pub fn whole_bytes(&self) -> Option<usize> {
        self.whole_bytes
    }

    /// The number of rows of the column.
    pub fn len(&self) -> usize {
        match &self.data {
            Data::Int(v) => v.len(),
            Data::Wide(v) => v.len(),
            Data::F64(v) | Data::Alp64(v, _) => v.len(),
            Data::F32(v) | Data::Alp32(v, _) => v.len(),
            Data::Bytes { offsets, .. } => offsets.len() - 1,
        }
    }

    /// Whether the column has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values after the transform: dictionary codes and float keys as integers, compressed strings. For page
    /// formats that lay out values themselves.
    pub fn transformed(&self) -> Values<'_> {
        match &self.data {
            Data::Int(v) => Values::Int(v),
            Data::Wide(v) => Values::Wide(v),
            Data::F64(v) | Data::Alp64(v, _) => Values::F64(v),
            Data::F32(v) | Data::Alp32(v, _) => Values::F32(v),
            Data::Bytes { offsets, data } => Values::Bytes(BytesSlice { offsets, data }),
        }
    }

    /// Bit `i` of word `i / 64` is set if row `i` is not NULL. `None` if no row is NULL.
    pub fn validity(&self) -> Option<&[u64]> {
        self.validity
    }

    fn nulls(&self, start: usize, rows: usize) -> Nulls {
        let Some(words) = self.validity else { return Nulls::None };
        let valid: usize = (0..rows)
            .step_by(64)
            .map(|at| select::read(words, start + at, (rows - at).min(64)).count_ones() as usize)
            .sum();
        match valid {
            0 => Nulls::All,
            n if n == rows => Nulls::None,
            _ => Nulls::Some,
        }
    }
}

#[derive(PartialEq, Eq)]
enum Nulls {
    None,
    Some,
    All,
}

/// Applies the segment-level transform of `plan` (dictionary codes, FSST) to all values.
///
/// # Errors
/// `Unsupported` if the plan is not valid for this kind or for these values (unsorted under `DeltaLz`, unequal under
/// `Constant`).
pub fn prepare<'a>(
    values: Values<'a>,
    validity: Option<&'a [u64]>,
    plan: ColumnPlan,
    shared: Option<&Shared>,
) -> Result<Prepared<'a>, CodecError> {
    check_plan(values.kind(), plan)?;
    let validity = validity.filter(|words| {
        (0..values.len()).step_by(64).any(|at| {
            let n = (values.len() - at).min(64);
            select::read(words, at, n) != select::low_bits(n)
        })
    });
    let shared = match plan.transform {
        Transform::None => None,
        _ => match shared {
            Some(shared) if shared.transform() == plan.transform => Some(shared.clone()),
            _ => {
                return Err(CodecError::Unsupported {
                    encoding: "a plan without its shared state",
                    kind: values.kind().name(),
                });
            }
        },
    };
    let data = transform(values, validity, plan, shared.as_ref())?;
    let prepared = Prepared { data, validity, plan, shared, whole_bytes: None, block: Mutex::default() };
    check_values(&prepared, values.kind())?;
    Ok(prepared)
}

/// The plans that can store a kind.
pub fn plans(kind: Kind) -> Vec<ColumnPlan> {
    use Encoding::*;
    let plan = |transform, encoding| ColumnPlan { transform, encoding };
    let own: &[Encoding] = match kind {
        Kind::Int => &[Plain, Constant, BitPack, Dictionary, Delta, DeltaLz, Rle],
        Kind::Wide => &[Plain, Constant, BitPack, Dictionary, Rle],
        Kind::F64 | Kind::F32 => &[Plain, Constant, BitPack, Dictionary, Delta, DeltaLz, Rle, Alp],
        Kind::Bytes => &[Plain, Constant, Dictionary, Block],
    };
    let mut plans: Vec<ColumnPlan> = own.iter().map(|e| plan(Transform::None, *e)).collect();
    plans.extend([BitPack, Rle, Constant, Plain, Delta, DeltaLz, Dictionary].map(|e| plan(Transform::Dictionary, e)));
    if kind == Kind::Bytes {
        plans.extend([
            plan(Transform::Fsst, Plain),
            plan(Transform::Fsst, Constant),
            plan(Transform::BlockDictionary, Block),
        ]);
    }
    plans
}

/// Checks that `plan` is valid for `kind`.
///
/// # Errors
/// `Unsupported`, with a list of the valid plans.
pub(crate) fn check_plan(kind: Kind, plan: ColumnPlan) -> Result<(), CodecError> {
    if plans(kind).contains(&plan) {
        return Ok(());
    }
    let kind = match kind {
        Kind::Int => "integer (plain, constant, bitpack, dictionary, delta, delta-lz, rle)",
        Kind::Wide => "wide decimal (plain, constant, bitpack, dictionary, rle)",
        Kind::F64 | Kind::F32 => "float (plain, constant, bitpack, dictionary, delta, delta-lz, rle, alp)",
        Kind::Bytes => {
            "string (plain, constant, dictionary, fsst, block; rle, bitpack and delta of a segment's dictionary)"
        }
    };
    Err(CodecError::Unsupported { encoding: plan.name(), kind })
}

fn check_values(column: &Prepared<'_>, kind: Kind) -> Result<(), CodecError> {
    let unsupported = |encoding, what| Err(CodecError::Unsupported { encoding, kind: what });
    match (column.plan.encoding, &column.data) {
        (Encoding::DeltaLz, Data::Int(values)) if !values.is_sorted() => {
            unsupported("delta-lz", "unsorted (it takes values that do not decrease)")
        }
        (Encoding::Constant, _) if !column.is_empty() && constant_rows(column, 0, column.len()) < column.len() => {
            unsupported("constant", "different")
        }
        (Encoding::Alp, Data::Int(_)) => unsupported("alp", kind.name()),
        _ => Ok(()),
    }
}

fn transform<'a>(
    values: Values<'a>,
    validity: Option<&'a [u64]>,
    plan: ColumnPlan,
    shared: Option<&Shared>,
) -> Result<Data<'a>, CodecError> {
    let keys = |values: Values<'_>| -> Vec<i64> {
        match values {
            Values::F64(v) => v.iter().map(|x| f64_key(*x)).collect(),
            Values::F32(v) => v.iter().map(|x| f32_key(*x)).collect(),
            _ => Vec::new(),
        }
    };
    if let Some(dictionary) = shared.filter(|_| plan.transform == Transform::Dictionary) {
        let codes = match values {
            Values::Int(v) => int_codes(v, validity, dictionary)?,
            Values::Wide(v) => wide_codes(v, validity, dictionary)?,
            Values::Bytes(v) => bytes_codes(v, validity, dictionary)?,
            floats => int_codes(&keys(floats), validity, dictionary)?,
        };
        return Ok(Data::Int(fill_nulls(Cow::Owned(codes), validity)));
    }
    Ok(match (values, plan.encoding) {
        (Values::Int(v), _) => Data::Int(fill_nulls(Cow::Borrowed(v), validity)),
        (Values::Wide(v), _) => Data::Wide(fill_nulls(Cow::Borrowed(v), validity)),
        (Values::F64(v), Encoding::Plain) => Data::F64(v),
        (Values::F32(v), Encoding::Plain) => Data::F32(v),
        (Values::F64(v), Encoding::Alp) => Data::Alp64(v, decimals(v, validity)),
        (Values::F32(v), Encoding::Alp) => Data::Alp32(v, decimals(v, validity)),
        (Values::F64(_) | Values::F32(_), _) => Data::Int(fill_nulls(Cow::Owned(keys(values)), validity)),
        (Values::Bytes(v), _) => {
            let (offsets, data) = empty_nulls(v, validity);
            match shared.filter(|_| plan.transform == Transform::Fsst) {
                Some(table) => fsst_compress(BytesSlice { offsets: &offsets, data: &data }, table)?,
                None => Data::Bytes { offsets, data },
            }
        }
    })
}

/// Replaces each NULL by the previous value (at the front: by the next one).
fn fill_nulls<'a, T: Copy>(mut values: Cow<'a, [T]>, validity: Option<&[u64]>) -> Cow<'a, [T]>
where
    [T]: ToOwned<Owned = Vec<T>>,
{
    let Some(words) = validity else { return values };
    let Some(first) = (0..values.len()).find(|row| select::get(words, *row)) else { return values };
    let mut last = values[first];
    for (row, value) in values.to_mut().iter_mut().enumerate() {
        if select::get(words, row) { last = *value } else { *value = last }
    }
    values
}

/// Replaces each NULL by an empty string.
fn empty_nulls<'a>(values: BytesSlice<'a>, validity: Option<&[u64]>) -> (Cow<'a, [u32]>, Cow<'a, [u8]>) {
    let null = |row: usize| validity.is_some_and(|words| !select::get(words, row));
    if validity.is_none() || (0..values.len()).all(|row| !null(row) || values.get(row).is_empty()) {
        return (Cow::Borrowed(values.offsets), Cow::Borrowed(values.data));
    }
    let mut offsets = Vec::with_capacity(values.offsets.len());
    let mut data = Vec::with_capacity(values.data.len());
    offsets.push(0);
    for row in 0..values.len() {
        if !null(row) {
            data.extend_from_slice(values.get(row));
        }
        offsets.push(data.len() as u32);
    }
    (Cow::Owned(offsets), Cow::Owned(data))
}

/// Floats as decimals. NULLs are not exceptions.
fn decimals<F: Float>(values: &[F], validity: Option<&[u64]>) -> Decimals {
    let Some(words) = validity else { return Decimals::of(values) };
    let first = values.iter().enumerate().find(|(row, _)| select::get(words, *row)).map_or(F::default(), |(_, v)| *v);
    let filled = values.iter().enumerate().scan(first, |last, (row, value)| {
        if select::get(words, row) {
            *last = *value;
        }
        Some(*last)
    });
    let mut decimals = Decimals::of(&filled.collect::<Vec<F>>());
    decimals.exceptions.retain(|row| select::get(words, *row as usize));
    decimals
}

fn fsst_compress<'a>(values: BytesSlice<'_>, shared: &Shared) -> Result<Data<'a>, CodecError> {
    let compressor = shared.symbols().and_then(|table| table.compressor());
    let compressor = compressor.ok_or_else(|| CodecError::corrupt("FSST symbols out of order"))?;
    let (mut offsets, mut ends) = (Vec::with_capacity(values.len() + 1), Vec::new());
    offsets.push(0u32);
    // Symbols of two bytes and more usually halve strings. A vector that grows instead is copied in new memory.
    let mut data = Vec::with_capacity(values.data.len() / 2);
    let mut batch: Vec<&[u8]> = Vec::with_capacity(VECTOR * 16);
    for from in (0..values.len()).step_by(VECTOR * 16) {
        batch.clear();
        batch.extend((from..(from + VECTOR * 16).min(values.len())).map(|row| values.get(row)));
        ends.clear();
        compressor.compress_bulk_into::<4>(&batch, &mut data, &mut ends);
        offsets.extend(ends.iter().map(|end| *end as u32));
        if data.len() > u32::MAX as usize {
            return Err(CodecError::Unsupported { encoding: "fsst", kind: "segments of strings over 4 GiB" });
        }
    }
    Ok(Data::Bytes { offsets: Cow::Owned(offsets), data: Cow::Owned(data) })
}

fn codes_of<K: Key>(
    entries: impl Iterator<Item = K>,
    values: impl ExactSizeIterator<Item = K>,
    validity: Option<&[u64]>,
) -> Result<Vec<i64>, CodecError> {
    let mut numbers = Distinct::new();
    entries.for_each(|entry| _ = numbers.insert(entry));
    let mut codes = Vec::with_capacity(values.len());
    for (row, value) in values.enumerate() {
        codes.push(match numbers.get(value) {
            Some(code) => i64::from(code),
            None if validity.is_some_and(|words| !select::get(words, row)) => 0,
            None => return Err(CodecError::Unsupported { encoding: "the segment's dictionary", kind: "unlisted" }),
        });
    }
    Ok(codes)
}

/// The dictionary codes of integers or keys.
pub(crate) fn int_codes(values: &[i64], validity: Option<&[u64]>, dictionary: &Shared) -> Result<Vec<i64>, CodecError> {
    codes_of(dictionary.dictionary_narrow().unwrap_or(&[]).iter().copied(), values.iter().copied(), validity)
}

fn wide_codes(values: &[i128], validity: Option<&[u64]>, dictionary: &Shared) -> Result<Vec<i64>, CodecError> {
    codes_of(dictionary.dictionary_ints().unwrap_or(&[]).iter().copied(), values.iter().copied(), validity)
}

pub(crate) fn bytes_codes(
    values: BytesSlice<'_>,
    validity: Option<&[u64]>,
    dictionary: &Shared,
) -> Result<Vec<i64>, CodecError> {
    let Some(entries) = dictionary.dictionary_bytes() else {
        return Err(CodecError::Unsupported { encoding: "a dictionary of numbers", kind: "string" });
    };
    codes_of((0..entries.len()).map(|i| entries.get(i)), (0..values.len()).map(|row| values.get(row)), validity)
}

/// The largest number of rows from `start`, up to `max_rows`, that encode into at most `budget` bytes. It is at least
/// 1, unless a single value does not fit; then it is 0.
pub fn fit(column: &Prepared<'_>, start: usize, max_rows: usize, budget: usize) -> usize {
    let max_rows = max_rows.min(column.len().saturating_sub(start)).min(ROWS_MAX);
    if max_rows == 0 {
        return 0;
    }
    let limit = Limit { column, start, max_rows, budget };
    let constant = if column.whole_bytes.is_some() { 0 } else { fit_constant(&limit) };
    if constant == max_rows {
        return constant;
    }
    let fitted = match &column.data {
        Data::Int(values) => fit_ints(&limit, values),
        Data::Wide(values) => fit_numbers(&limit, values),
        Data::F64(_) => limit.grow((), |_, _, _| {}, |_, rows| rows * 8),
        Data::F32(_) => limit.grow((), |_, _, _| {}, |_, rows| rows * 4),
        Data::Alp64(_, decimals) => fit_decimals::<f64>(&limit, decimals),
        Data::Alp32(_, decimals) => fit_decimals::<f32>(&limit, decimals),
        Data::Bytes { offsets, data } => match column.plan.encoding {
            Encoding::Dictionary => fit_bytes_dictionary(&limit, offsets, data),
            Encoding::Block => fit_block(&limit, offsets, data),
            _ => fit_strings(&limit, offsets),
        },
    };
    fitted.max(constant)
}

/// The limits of a chunk.
struct Limit<'l> {
    column: &'l Prepared<'l>,
    start: usize,
    max_rows: usize,
    budget: usize,
}

impl Limit<'_> {
    /// Grows a chunk in steps that halve as it gets full. `push(state, from, to)` adds rows, counted from the start of
    /// the column. `size(state, rows)` is the size of the body in bytes.
    fn grow<S: Clone>(
        &self,
        mut state: S,
        push: impl Fn(&mut S, usize, usize),
        size: impl Fn(&S, usize) -> usize,
    ) -> usize {
        let nulls = self.column.validity.is_some();
        let (mut rows, mut step) = (0, VECTOR);
        while rows < self.max_rows {
            let next = (rows + step).min(self.max_rows);
            let mut grown = state.clone();
            push(&mut grown, self.start + rows, self.start + next);
            if header_bytes(next, nulls) + size(&grown, next) <= self.budget {
                (state, rows) = (grown, next);
            } else if step == 1 {
                break;
            } else {
                step = if step == VECTOR { 128 } else { step / 4 }.max(1);
            }
        }
        rows
    }
}

/// The number of equal rows from `start`, at most `max_rows`. A NULL equals every value.
fn constant_rows(column: &Prepared<'_>, start: usize, max_rows: usize) -> usize {
    fn equal<T: PartialEq>(values: &[T]) -> usize {
        values.iter().take_while(|v| **v == values[0]).count()
    }
    fn equal_floats<F: Float>(values: &[F], start: usize, max_rows: usize, valid: impl Fn(usize) -> bool) -> usize {
        let rows = start..start + max_rows;
        let Some(first) = rows.clone().find(|row| valid(*row)) else { return max_rows };
        rows.take_while(|row| !valid(*row) || values[*row].same_bits(values[first])).count()
    }
    let valid = |row: usize| column.validity.is_none_or(|words| select::get(words, row));
    match &column.data {
        Data::Int(values) => equal(&values[start..start + max_rows]),
        Data::Wide(values) => equal(&values[start..start + max_rows]),
        Data::F64(values) | Data::Alp64(values, _) => equal_floats(values, start, max_rows, valid),
        Data::F32(values) | Data::Alp32(values, _) => equal_floats(values, start, max_rows, valid),
        Data::Bytes { offsets, data } => {
            let slice = BytesSlice { offsets, data };
            let rows = start..start + max_rows;
            let Some(first) = rows.clone().find(|row| valid(*row)) else { return max_rows };
            rows.take_while(|row| !valid(*row) || slice.get(*row) == slice.get(first)).count()
        }
    }
}

fn fit_constant(limit: &Limit<'_>) -> usize {
    let mut rows = constant_rows(limit.column, limit.start, limit.max_rows);
    let body = match &limit.column.data {
        Data::Wide(_) => 16,
        Data::Bytes { offsets, .. } => {
            let longest = |row: usize| (offsets[row + 1] - offsets[row]) as usize;
            4 + (limit.start..limit.start + rows).map(longest).max().unwrap_or(0)
        }
        _ => 8,
    };
    let nulls = limit.column.validity.is_some();
    if header_bytes(rows, nulls) + body > limit.budget {
        // Only the bitmap grows with the number of rows.
        let words = limit.budget.saturating_sub(header_bytes(0, false) + body) / 8;
        rows = if nulls { rows.min(words * 64) } else { 0 };
    }
    rows
}

/// The running minimum and maximum.
#[derive(Clone, Copy)]
struct Range<N>(Option<(N, N)>);

impl<N: Number> Range<N> {
    fn push(&mut self, values: &[N]) {
        let (min, max) = bitpack::min_max(values);
        let (a, b) = self.0.unwrap_or((min, max));
        self.0 = Some((a.min(min), b.max(max)));
    }

    fn get(&self) -> (N, N) {
        self.0.unwrap_or_default()
    }
}

fn fit_ints(limit: &Limit<'_>, values: &[i64]) -> usize {
    match limit.column.plan.encoding {
        Encoding::Delta => limit.grow(DeltaSizer::default(), |s, from, to| s.push(&values[from..to]), |s, _| s.bytes()),
        Encoding::DeltaLz => {
            limit.grow(DeltaLzSizer::default(), |s, from, to| s.push(&values[from..to]), |s, _| s.bytes())
        }
        Encoding::Plain => limit.grow(
            Range(None),
            |s, from, to| s.push(&values[from..to]),
            |s, rows| {
                let (min, max) = s.get();
                rows * plain_size(min, max).max(limit.column.whole_bytes.unwrap_or(0))
            },
        ),
        _ => fit_numbers(limit, values),
    }
}

/// The encodings that `Int` and `Wide` have in common.
fn fit_numbers<N: Number + Key>(limit: &Limit<'_>, values: &[N]) -> usize {
    match limit.column.plan.encoding {
        Encoding::Rle => limit.grow(
            RleSizer::new(),
            |s, from, to| s.push(&values[from..to]),
            |s, rows| s.bytes().unwrap_or(rows * N::BYTES),
        ),
        Encoding::Dictionary => fit_dictionary(limit, values),
        Encoding::Plain => limit.grow((), |_, _, _| {}, |_, rows| rows * N::BYTES),
        _ => limit.grow(
            Range(None),
            |s, from, to| s.push(&values[from..to]),
            |s, rows| {
                let (min, max) = s.get();
                bitpack_bytes(rows, min, max)
            },
        ),
    }
}

/// Bytes of a BitPack body, or of the Plain body that replaces it if the values span more than 64 bits.
fn bitpack_bytes<N: Number>(rows: usize, min: N, max: N) -> usize {
    N::span(min, max).map_or(rows * N::BYTES, |span| N::BYTES + packed_bytes(bits::width(span), rows))
}

fn fit_dictionary<N: Number + Key>(limit: &Limit<'_>, values: &[N]) -> usize {
    let mut distinct = Distinct::new();
    let mut range = Range(None);
    let nulls = limit.column.validity.is_some();
    for rows in 1..=limit.max_rows {
        let value = values[limit.start + rows - 1];
        if distinct.insert(value).1 {
            range.push(&[value]);
        }
        let (min, max) = range.get();
        if header_bytes(rows, nulls) + dictionary::int_bytes(rows, distinct.values.len(), min, max) > limit.budget {
            return rows - 1;
        }
    }
    limit.max_rows
}

fn fit_bytes_dictionary(limit: &Limit<'_>, offsets: &[u32], data: &[u8]) -> usize {
    let slice = BytesSlice { offsets, data };
    let mut distinct: Distinct<&[u8]> = Distinct::new();
    let mut bytes = 0;
    let nulls = limit.column.validity.is_some();
    for rows in 1..=limit.max_rows {
        let value = slice.get(limit.start + rows - 1);
        if distinct.insert(value).1 {
            bytes += value.len();
        }
        if header_bytes(rows, nulls) + dictionary::bytes_bytes(rows, distinct.values.len(), bytes) > limit.budget {
            return rows - 1;
        }
    }
    limit.max_rows
}

fn fit_decimals<F: Float>(limit: &Limit<'_>, decimals: &Decimals) -> usize {
    limit.grow(
        Range(None),
        |s, from, to| s.push(&decimals.decimals[from..to]),
        |s, rows| {
            let (min, max) = s.get();
            decimals.bytes::<F>(limit.start, rows, min, max)
        },
    )
}

fn fit_strings(limit: &Limit<'_>, offsets: &[u32]) -> usize {
    limit.grow(
        (u32::MAX, 0),
        |(least, greatest), from, to| {
            let (a, b) = strings::length_range(&offsets[from..=to]);
            (*least, *greatest) = ((*least).min(a), (*greatest).max(b));
        },
        |(least, greatest), rows| {
            let data = (offsets[limit.start + rows] - offsets[limit.start]) as usize;
            strings::plain_bytes(rows, data, *least, *greatest)
        },
    )
}

/// Attempts to fill a page with a Zstandard block before the best one so far is taken.
const BLOCK_ATTEMPTS: usize = 4;
/// A block that fills this fraction of its page is good enough.
const BLOCK_FILL: f64 = 0.95;

/// Estimates the number of rows from the ratio of the last block, compresses, and corrects the estimate. `encode`
/// reuses the frame.
fn fit_block(limit: &Limit<'_>, offsets: &[u32], data: &[u8]) -> usize {
    let mut state = limit.column.block.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let state = &mut *state;
    let context = state.context.get_or_insert_with(CCtx::create);
    let nulls = limit.column.validity.is_some();
    let mut best: Option<(usize, Vec<u8>)> = None;
    let (mut too_many, mut ratio) = (limit.max_rows + 1, state.ratio.unwrap_or(0.3));
    let mut attempts = 0;
    // It is possible that not even one row fits. Then the caller makes the page larger.
    while best.as_ref().map_or(0, |(rows, _)| *rows) + 1 < too_many {
        let low = best.as_ref().map_or(0, |(rows, _)| *rows);
        // After `BLOCK_ATTEMPTS` estimates, halve the rows until they fit.
        let rows = if attempts < BLOCK_ATTEMPTS {
            rows_for(limit, offsets, ratio).clamp(low + 1, too_many - 1)
        } else if best.is_some() {
            break;
        } else {
            (too_many / 2).max(1)
        };
        attempts += 1;
        let offsets = &offsets[limit.start..=limit.start + rows];
        let text = &data[offsets[0] as usize..offsets[rows] as usize];
        let Ok(frame) = block::compress(context, text, limit.column.shared.as_ref()) else { return 0 };
        let (least, greatest) = strings::length_range(offsets);
        let bytes = header_bytes(rows, nulls) + block::block_bytes(rows, least, greatest, frame.len());
        ratio = frame.len() as f64 / text.len().max(1) as f64;
        if bytes > limit.budget {
            too_many = rows;
            ratio *= 1.02;
        } else {
            best = Some((rows, frame));
            if bytes as f64 >= limit.budget as f64 * BLOCK_FILL {
                break;
            }
        }
    }
    state.ratio = Some(ratio.max(1e-4));
    best.map_or(0, |(rows, frame)| {
        state.fitted = Some((limit.start, rows, frame));
        rows
    })
}

/// The number of rows that fit a page if their text compresses by `ratio`, including lengths and header, with 1 % left
/// free.
fn rows_for(limit: &Limit<'_>, offsets: &[u32], ratio: f64) -> usize {
    let first = offsets[limit.start];
    let nulls = limit.column.validity.is_some();
    let fits = |rows: usize| {
        let text = f64::from(offsets[limit.start + rows] - first);
        // The bits of a length of twice the mean.
        let width = bits::width(2 * (text / rows as f64) as u64);
        let fixed = header_bytes(rows, nulls) + 12 + rows.div_ceil(VECTOR) * 4 + packed_bytes(width, rows);
        fixed as f64 + text * ratio <= limit.budget as f64 * 0.99
    };
    let (mut low, mut high) = (1, limit.max_rows);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Appends the chunk of rows `start .. start + rows` to `out`. A chunk whose values are all equal is stored as
/// `Encoding::Constant`, whatever the plan.
///
/// # Errors
/// `Unsupported` if the plan cannot store the values.
pub fn encode(column: &Prepared<'_>, start: usize, rows: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    if rows == 0 || rows > ROWS_MAX || start.checked_add(rows).is_none_or(|end| end > column.len()) {
        return Err(CodecError::corrupt(format!("rows {start} + {rows} of a column of {}", column.len())));
    }
    let nulls = column.nulls(start, rows);
    if nulls == Nulls::All {
        put_header(Encoding::Constant, 0, rows, None, true, out);
        return Ok(());
    }
    let header_at = out.len();
    let validity = column.validity.filter(|_| nulls == Nulls::Some).map(|words| (words, start));
    put_header(column.plan.encoding, 0, rows, validity, false, out);
    let may_be_constant = column.whole_bytes.is_none();
    let (encoding, param) = if may_be_constant && constant_rows(column, start, rows) == rows {
        encode_constant(column, start, rows, out);
        (Encoding::Constant, 0)
    } else {
        encode_body(column, start, rows, out)?
    };
    out[header_at] = encoding as u8;
    out[header_at + 2..header_at + 4].copy_from_slice(&param.to_le_bytes());
    Ok(())
}

fn encode_constant(column: &Prepared<'_>, start: usize, rows: usize, out: &mut Vec<u8>) {
    let valid = |row: &usize| column.validity.is_none_or(|words| select::get(words, *row));
    let row = (start..start + rows).find(valid).unwrap_or(start);
    match &column.data {
        Data::Int(values) => values[row].put(out),
        Data::Wide(values) => values[row].put(out),
        Data::F64(values) | Data::Alp64(values, _) => f64_key(values[row]).put(out),
        Data::F32(values) | Data::Alp32(values, _) => f32_key(values[row]).put(out),
        Data::Bytes { offsets, data } => {
            let value = BytesSlice { offsets, data }.get(row);
            out.extend_from_slice(&(value.len() as u32).to_le_bytes());
            out.extend_from_slice(value);
        }
    }
}

/// Appends the body, and returns its encoding and the header's param.
fn encode_body(
    column: &Prepared<'_>,
    start: usize,
    rows: usize,
    out: &mut Vec<u8>,
) -> Result<(Encoding, u16), CodecError> {
    let encoding = column.plan.encoding;
    let end = start + rows;
    Ok(match &column.data {
        Data::Int(values) => encode_ints(&values[start..end], encoding, column.whole_bytes, out),
        Data::Wide(values) => encode_numbers(&values[start..end], encoding, out),
        Data::F64(values) => {
            values[start..end].iter().for_each(|v| Float::put(*v, out));
            (Encoding::Plain, 0)
        }
        Data::F32(values) => {
            values[start..end].iter().for_each(|v| Float::put(*v, out));
            (Encoding::Plain, 0)
        }
        Data::Alp64(values, decimals) => (Encoding::Alp, decimals.encode(values, start, rows, out)),
        Data::Alp32(values, decimals) => (Encoding::Alp, decimals.encode(values, start, rows, out)),
        Data::Bytes { offsets, data } => match encoding {
            Encoding::Dictionary => {
                let slice = BytesSlice { offsets, data };
                let values: Vec<&[u8]> = (start..end).map(|row| slice.get(row)).collect();
                (encoding, dictionary::encode_bytes(&values, out))
            }
            Encoding::Block => (encoding, encode_block(column, offsets, data, start, rows, out)?),
            _ => (Encoding::Plain, strings::encode_plain(&offsets[start..=end], data, out)),
        },
    })
}

fn encode_ints(values: &[i64], encoding: Encoding, whole_bytes: Option<usize>, out: &mut Vec<u8>) -> (Encoding, u16) {
    match encoding {
        Encoding::Delta => {
            delta::encode(values, out);
            (encoding, 0)
        }
        Encoding::DeltaLz => (encoding, delta_lz::encode(values, out)),
        Encoding::Plain => {
            let (min, max) = bitpack::min_max(values);
            let size = plain_size(min, max).max(whole_bytes.unwrap_or(0));
            values.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()[..size]));
            (encoding, size as u16)
        }
        _ => encode_numbers(values, encoding, out),
    }
}

fn encode_numbers<N: Number + Key>(values: &[N], encoding: Encoding, out: &mut Vec<u8>) -> (Encoding, u16) {
    let packed = match encoding {
        Encoding::Rle => rle::encode(values, out).map(|param| (encoding, param)),
        Encoding::Dictionary => Some((encoding, dictionary::encode_ints(values, out))),
        Encoding::Plain => None,
        _ => encode_bitpack(values, out).map(|param| (Encoding::BitPack, param)),
    };
    packed.unwrap_or_else(|| {
        values.iter().for_each(|v| v.put(out));
        (Encoding::Plain, N::BYTES as u16)
    })
}

fn encode_bitpack<N: Number>(values: &[N], out: &mut Vec<u8>) -> Option<u16> {
    let (min, max) = bitpack::min_max(values);
    let width = bits::width(N::span(min, max)?);
    min.put(out);
    bitpack::pack(values, min, width, out);
    Some(width as u16)
}

fn encode_block(
    column: &Prepared<'_>,
    offsets: &[u32],
    data: &[u8],
    start: usize,
    rows: usize,
    out: &mut Vec<u8>,
) -> Result<u16, CodecError> {
    let mut state = column.block.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let fitted = state.fitted.take().filter(|(s, r, _)| (*s, *r) == (start, rows));
    let offsets = &offsets[start..=start + rows];
    let frame = match fitted {
        Some((_, _, frame)) => frame,
        None => {
            let text = &data[offsets[0] as usize..offsets[rows] as usize];
            block::compress(state.context.get_or_insert_with(CCtx::create), text, column.shared.as_ref())?
        }
    };
    Ok(block::put(offsets, &frame, out))
}
