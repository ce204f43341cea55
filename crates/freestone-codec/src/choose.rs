//! The choice of an encoding: statistics of a sample, estimated size and decode cost, and the reasons.
//!
//! A few contiguous pieces of the column are encoded under every promising plan, with the size of a page, so a plan's
//! size is measured and not modelled. Decode costs are constants, measured by `benches/kernels.rs`. A plan's score is
//! `bytes_per_value + decode_ns_per_value * bytes_per_ns`, and the lowest score wins, with two exceptions: a segment
//! dictionary of integers must save a fifth of the size; and Zstandard must save 40 % of the size, and then wins
//! whatever its decode cost.

use crate::hash::{Distinct, distinct_bytes, distinct_ints};
use crate::{
    BytesSlice, CodecError, ColumnPlan, Encoding, Kind, Shared, Transform, Values, encode, f32_key, f64_key, fit,
    prepare, select,
};

/// Statistics of a column, from a sample.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Rows of the whole column; `nulls` and `bytes_total` also refer to the whole column.
    pub rows: usize,
    /// The number of NULLs.
    pub nulls: usize,
    /// Distinct values: exact if a segment dictionary was built, otherwise those of the sample.
    pub distinct: usize,
    /// Runs of equal values, extrapolated from the sample.
    pub runs: usize,
    /// Whether the sample's values never decrease.
    pub sorted: bool,
    /// The minimum in the sample; floats as keys.
    pub min: Option<i128>,
    /// The largest value, as for `min`.
    pub max: Option<i128>,
    /// Bytes of the values before encoding.
    pub bytes_total: usize,
}

impl Stats {
    /// The rows of a run of equal values, on average and rounded down.
    fn run(&self) -> usize {
        self.rows.max(1) / self.runs.max(1)
    }

    /// Adds the values of a piece, and returns its number of runs of equal values.
    fn look_at<T: Copy + Ord + Into<i128>>(&mut self, mut values: impl Iterator<Item = T>) -> usize {
        let Some(first) = values.next() else { return 0 };
        let (mut runs, mut last, mut min, mut max) = (1, first, first, first);
        for value in values {
            runs += usize::from(value != last);
            self.sorted &= last <= value;
            (min, max) = (min.min(value), max.max(value));
            last = value;
        }
        let (min, max) = (min.into(), max.into());
        self.min = Some(self.min.map_or(min, |known| known.min(min)));
        self.max = Some(self.max.map_or(max, |known| known.max(max)));
        runs
    }
}

/// Parameters of [`choose()`].
#[derive(Debug, Clone)]
pub struct ChooseOptions {
    /// The largest size of a chunk in bytes, which is a page's payload.
    pub chunk_bytes: usize,
    /// How many bytes of size one nanosecond of decode time per value is worth. A larger number favours speed.
    pub bytes_per_ns: f64,
    /// Whether Zstandard may be chosen for long strings.
    pub allow_block: bool,
    /// The plan that the user set; `None` lets [`choose()`] decide.
    pub wanted: Option<ColumnPlan>,
}

/// A plan with its measured size and its decode cost.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The plan.
    pub plan: ColumnPlan,
    /// The encoded bytes per value.
    pub bytes_per_value: f64,
    /// The estimated nanoseconds for decoding a value.
    pub decode_ns_per_value: f64,
}

/// The chosen plan, with its shared state, the statistics and all candidates.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The chosen plan.
    pub plan: ColumnPlan,
    /// The shared state of the plan, if it has any.
    pub shared: Option<Shared>,
    /// The statistics of the sample.
    pub stats: Stats,
    /// Every candidate plan, best first.
    pub considered: Vec<Candidate>,
}

/// The number of sampled pieces of a column, and the maximum rows and string bytes of a piece.
const PIECES: usize = 5;
const PIECE_ROWS: usize = 8192;
const PIECE_BYTES: usize = 128 << 10;
/// Maximum entries and string bytes of a segment dictionary. A larger one is not worth its memory.
const DICTIONARY_ENTRIES_MAX: usize = 1 << 16;
const DICTIONARY_BYTES_MAX: usize = 1 << 20;
/// The maximum entries if the user sets a dictionary.
const WANTED_ENTRIES_MAX: usize = 1 << 24;
/// A segment dictionary of integers must reduce the codes to at most this fraction of the size without it.
const DICTIONARY_GAIN: f64 = 0.8;
/// Zstandard must reduce the size to at most this fraction of any other plan's: its texts take twice as long to decode as those
/// of FSST, in every scan.
const BLOCK_GAIN: f64 = 0.6;
/// And to this fraction if the best other plan is a dictionary, whose codes are grouped, compared and joined in place of texts.
const BLOCK_GAIN_OF_CODES: f64 = 0.25;
/// Bytes of strings on which an FSST symbol table is trained.
const FSST_SAMPLE_BYTES: usize = 256 << 10;
/// The size of a Zstandard dictionary, and the conditions under which its training, which takes a quarter of a second,
/// can be worthwhile. On pages of 32 KiB, which hold 100 KiB of text, it saved at most 1 %.
const ZSTD_DICTIONARY_BYTES: usize = 16 << 10;
const ZSTD_SAMPLE_BYTES: usize = 512 << 10;
const ZSTD_TEXT_MIN: usize = 4 << 20;
const ZSTD_CHUNK_MAX: usize = 12 << 10;

/// Chooses how to store one segment's column. `validity`: bit `i` of word `i / 64` is set if row `i` is not NULL.
///
/// # Errors
/// `Unsupported` if the user's plan cannot store the kind, or the column has too many distinct values for it.
pub fn choose(values: &Values<'_>, validity: Option<&[u64]>, options: &ChooseOptions) -> Result<Choice, CodecError> {
    let sample = Sample::of(values, validity);
    let mut stats = sample.stats(values, validity);
    if let Some(plan) = options.wanted {
        encode::check_plan(values.kind(), plan)?;
        let shared = shared_for(plan.transform, values, validity, &sample)?;
        return Ok(Choice { plan, shared, stats, considered: Vec::new() });
    }
    let mut weigh = Weigh { sample: &sample, options, rows: values.len().max(1), weighed: Vec::new() };
    match values.kind() {
        Kind::Bytes => weigh_strings(&mut weigh, values, validity, &mut stats),
        _ => weigh_numbers(&mut weigh, values, validity, &mut stats),
    }
    let mut weighed = weigh.weighed;
    weighed.sort_by(|(_, a), (_, b)| score(a, options).total_cmp(&score(b, options)));
    // Reading one row of a block decodes the whole block, so blocks must save much to be chosen.
    if let Some(first) = block_that_pays(&weighed).or_else(|| weighed.iter().position(|(_, c)| !is_block(c))) {
        weighed[..=first].rotate_right(1);
    }
    let Some((shared, best)) = weighed.first() else {
        return Ok(Choice {
            plan: plan(Transform::None, Encoding::Plain),
            shared: None,
            stats,
            considered: Vec::new(),
        });
    };
    Ok(Choice {
        plan: best.plan,
        shared: shared.clone(),
        stats,
        considered: weighed.iter().map(|(_, candidate)| candidate.clone()).collect(),
    })
}

fn plan(transform: Transform, encoding: Encoding) -> ColumnPlan {
    ColumnPlan { transform, encoding }
}

fn score(candidate: &Candidate, options: &ChooseOptions) -> f64 {
    candidate.bytes_per_value + candidate.decode_ns_per_value * options.bytes_per_ns
}

fn is_block(candidate: &Candidate) -> bool {
    candidate.plan.encoding == Encoding::Block
}

/// The Zstandard plan to prefer: the smallest one, if it is small enough in comparison with all other plans, of which the best
/// comes first.
fn block_that_pays(weighed: &[(Option<Shared>, Candidate)]) -> Option<usize> {
    let bytes = |i: &usize| weighed[*i].1.bytes_per_value;
    let (blocks, others): (Vec<usize>, Vec<usize>) = (0..weighed.len()).partition(|i| is_block(&weighed[*i].1));
    let best = *others.first()?;
    let smallest = |list: Vec<usize>| list.into_iter().min_by(|a, b| bytes(a).total_cmp(&bytes(b)));
    let has_codes = weighed[best].1.plan.transform == Transform::Dictionary;
    let most = if has_codes { bytes(&best) * BLOCK_GAIN_OF_CODES } else { f64::INFINITY };
    let (block, other) = (smallest(blocks)?, smallest(others)?);
    (bytes(&block) <= most.min(bytes(&other) * BLOCK_GAIN)).then_some(block)
}

/// Contiguous, evenly spaced pieces. Each starts at a multiple of 64 rows, so that its bitmap is a slice, too.
struct Sample<'a> {
    pieces: Vec<Piece<'a>>,
}

type Piece<'a> = (Values<'a>, Option<&'a [u64]>);

impl<'a> Sample<'a> {
    fn of(values: &Values<'a>, validity: Option<&'a [u64]>) -> Self {
        let rows = values.len();
        let mut pieces = Vec::new();
        let mut end = 0usize;
        for i in 0..PIECES {
            let start = (rows / PIECES * i / 64 * 64).max(end.div_ceil(64) * 64).min(rows);
            let len = piece_rows(values, start);
            if len == 0 {
                continue;
            }
            end = start + len;
            let words = validity.map(|v| &v[start / 64..end.div_ceil(64).min(v.len())]);
            pieces.push((slice(values, start, len), words));
        }
        Self { pieces }
    }

    fn rows(&self) -> usize {
        self.pieces.iter().map(|(values, _)| values.len()).sum()
    }

    fn strings(&self, bytes_max: usize) -> Vec<&'a [u8]> {
        let total: usize = self.pieces.iter().map(|(values, _)| bytes_of(values)).sum();
        let step = (total / bytes_max.max(1)).max(1);
        let mut out = Vec::new();
        for (values, validity) in &self.pieces {
            if let Values::Bytes(v) = values {
                let rows = (0..v.len()).step_by(step).filter(|row| validity.is_none_or(|w| select::get(w, *row)));
                out.extend(rows.map(|row| v.get(row)));
            }
        }
        out
    }

    fn stats(&self, values: &Values<'_>, validity: Option<&[u64]>) -> Stats {
        let rows = values.len();
        let words = validity.map_or(0, |v| {
            (0..rows).step_by(64).map(|at| select::read(v, at, (rows - at).min(64)).count_zeros() as usize).sum()
        });
        // `read` zeroes the bits after the last row.
        let nulls = if validity.is_some() { words - (rows.div_ceil(64) * 64 - rows) } else { 0 };
        let mut stats = Stats { rows, nulls, sorted: true, bytes_total: bytes_of(values), ..Stats::default() };
        let mut runs = 0;
        for (piece, validity) in &self.pieces {
            match piece {
                Values::Bytes(v) => {
                    let rows: Vec<&[u8]> = valid_rows(v.len(), *validity).map(|row| v.get(row)).collect();
                    runs += rows.chunk_by(|a, b| a == b).count();
                    stats.sorted &= rows.is_sorted();
                }
                Values::Int(v) => runs += stats.look_at(valid_rows(v.len(), *validity).map(|row| v[row])),
                numbers => runs += stats.look_at(valid_rows(numbers.len(), *validity).map(|row| number(numbers, row))),
            }
        }
        stats.runs = (runs as f64 * rows as f64 / self.rows().max(1) as f64) as usize;
        stats.distinct = self.distinct();
        stats
    }

    fn distinct(&self) -> usize {
        let (mut strings, mut ints, mut others) = (Distinct::new(), Distinct::new(), Distinct::new());
        for (piece, validity) in &self.pieces {
            match piece {
                Values::Bytes(v) => valid_rows(v.len(), *validity).for_each(|row| _ = strings.insert(v.get(row))),
                Values::Int(v) => valid_rows(v.len(), *validity).for_each(|row| _ = ints.insert(v[row])),
                other => valid_rows(other.len(), *validity).for_each(|row| _ = others.insert(number(other, row))),
            }
        }
        strings.values.len() + ints.values.len() + others.values.len()
    }
}

fn valid_rows(rows: usize, validity: Option<&[u64]>) -> impl Iterator<Item = usize> {
    (0..rows).filter(move |row| validity.is_none_or(|words| select::get(words, *row)))
}

fn number(values: &Values<'_>, row: usize) -> i128 {
    match values {
        Values::Int(v) => i128::from(v[row]),
        Values::Wide(v) => v[row],
        Values::F64(v) => i128::from(f64_key(v[row])),
        Values::F32(v) => i128::from(f32_key(v[row])),
        Values::Bytes(_) => 0,
    }
}

/// The number of rows of the piece that begins at `start`.
fn piece_rows(values: &Values<'_>, start: usize) -> usize {
    let rows = (values.len() - start).min(PIECE_ROWS);
    match values {
        Values::Bytes(v) => {
            let limit = u64::from(v.offsets[start]) + PIECE_BYTES as u64;
            // The byte limit applies to long strings. More rows are only needed to fill a block with short strings.
            v.offsets[start + 1..=start + rows]
                .partition_point(|end| u64::from(*end) <= limit)
                .max(usize::from(rows > 0))
        }
        _ => rows,
    }
}

fn slice<'a>(values: &Values<'a>, start: usize, len: usize) -> Values<'a> {
    match values {
        Values::Int(v) => Values::Int(&v[start..start + len]),
        Values::Wide(v) => Values::Wide(&v[start..start + len]),
        Values::F64(v) => Values::F64(&v[start..start + len]),
        Values::F32(v) => Values::F32(&v[start..start + len]),
        Values::Bytes(v) => Values::Bytes(BytesSlice { offsets: &v.offsets[start..=start + len], data: v.data }),
    }
}

fn bytes_of(values: &Values<'_>) -> usize {
    match values {
        Values::Int(v) => v.len() * 8,
        Values::Wide(v) => v.len() * 16,
        Values::F64(v) => v.len() * 8,
        Values::F32(v) => v.len() * 4,
        Values::Bytes(v) => (v.offsets[v.len()] - v.offsets[0]) as usize,
    }
}

/// Encodes the sample under candidate plans and records their sizes.
struct Weigh<'w> {
    sample: &'w Sample<'w>,
    options: &'w ChooseOptions,
    rows: usize,
    weighed: Vec<(Option<Shared>, Candidate)>,
}

impl Weigh<'_> {
    /// Measures a plan and returns its bytes per value. A plan that cannot store the sample is omitted.
    fn add(
        &mut self,
        transform: Transform,
        encoding: Encoding,
        shared: Option<&Shared>,
        decode_ns: f64,
    ) -> Option<f64> {
        let plan = plan(transform, encoding);
        let own = shared.map_or(0, |s| if s.dictionary_len() > 0 { dictionary_bytes(s) } else { s.to_bytes().len() });
        let bytes = self.measure(plan, shared)? + own as f64 / self.rows as f64;
        let candidate = Candidate { plan, bytes_per_value: bytes, decode_ns_per_value: decode_ns };
        self.weighed.push((shared.cloned(), candidate));
        Some(bytes)
    }

    /// Measures a dictionary in each page. A page may have more rows than a piece of the sample, and every further row
    /// may add a distinct value, as in a column whose order another column has shuffled. In that case a page's number
    /// of rows is measured.
    fn add_page_dictionary(&mut self, values: &Values<'_>, validity: Option<&[u64]>) {
        let plan = plan(Transform::None, Encoding::Dictionary);
        let Some(of_pieces) = self.measure(plan, None) else { return };
        let page_rows = ((self.options.chunk_bytes as f64 / of_pieces.max(0.1)) as usize).min(self.rows);
        let start = (self.rows - page_rows) / 2 / 64 * 64;
        let words = validity.map(|v| &v[start / 64..(start + page_rows).div_ceil(64).min(v.len())]);
        let page = (slice(values, start, page_rows), words);
        let of_page = if page_rows > PIECE_ROWS { self.measure_pieces(&[page], plan, None) } else { None };
        let bytes_per_value = of_page.unwrap_or(of_pieces);
        self.weighed.push((None, Candidate { plan, bytes_per_value, decode_ns_per_value: cost::PAGE_DICTIONARY }));
    }

    fn measure(&self, plan: ColumnPlan, shared: Option<&Shared>) -> Option<f64> {
        self.measure_pieces(&self.sample.pieces, plan, shared)
    }

    fn measure_pieces(&self, pieces: &[Piece<'_>], plan: ColumnPlan, shared: Option<&Shared>) -> Option<f64> {
        let (mut rows, mut bytes) = (0, 0);
        let mut chunk = Vec::new();
        for (values, validity) in pieces {
            let column = prepare(*values, *validity, plan, shared).ok()?;
            let n = fit(&column, 0, values.len(), self.options.chunk_bytes);
            if n == 0 {
                return None;
            }
            chunk.clear();
            encode(&column, 0, n, &mut chunk).ok()?;
            rows += n;
            bytes += chunk.len();
        }
        (rows > 0).then(|| bytes as f64 / rows as f64)
    }

    fn least(&self) -> f64 {
        self.weighed.iter().map(|(_, c)| c.bytes_per_value).fold(f64::INFINITY, f64::min)
    }
}

fn dictionary_bytes(shared: &Shared) -> usize {
    match (shared.dictionary_bytes(), shared.dictionary_ints()) {
        (Some(strings), _) => strings.data.len() + 4 * strings.len(),
        (None, Some(ints)) => ints.len() * 8,
        (None, None) => 0,
    }
}

/// Nanoseconds for decoding one value, measured by `benches/kernels.rs`.
mod cost {
    pub const CONSTANT: f64 = 0.1;
    pub const PLAIN: f64 = 0.4;
    pub const BITPACK: f64 = 0.4;
    pub const ALP: f64 = 0.5;
    pub const RLE: f64 = 0.5;
    pub const DICTIONARY: f64 = 1.0;
    pub const PAGE_DICTIONARY: f64 = 1.2;
    pub const DELTA: f64 = 1.2;
    pub const DELTA_LZ: f64 = 6.0;
    pub const STRING: f64 = 3.0;
    /// Per byte of a string.
    pub const FSST_BYTE: f64 = 0.8;
    pub const BLOCK_BYTE: f64 = 0.9;

    /// Codes by runs of this length. A run costs about as much as a dozen codes that are packed.
    pub fn rle_of_codes(run: usize) -> f64 {
        RLE + 5.0 / run as f64
    }
}

fn weigh_numbers(weigh: &mut Weigh<'_>, values: &Values<'_>, validity: Option<&[u64]>, stats: &mut Stats) {
    let kind = values.kind();
    let none = Transform::None;
    if stats.min.is_none() || stats.min == stats.max {
        // For columns whose values are all equal. Their chunks become constant whatever the plan.
        weigh.add(none, Encoding::BitPack, None, cost::CONSTANT);
        return;
    }
    let floats = matches!(kind, Kind::F64 | Kind::F32);
    weigh.add(none, Encoding::Plain, None, cost::PLAIN);
    if floats {
        weigh.add(none, Encoding::Alp, None, cost::ALP);
    }
    weigh.add(none, Encoding::BitPack, None, cost::BITPACK);
    let run = stats.run();
    if run >= 2 {
        weigh.add(none, Encoding::Rle, None, cost::RLE);
    }
    if kind != Kind::Wide {
        weigh.add(none, Encoding::Delta, None, cost::DELTA);
        if stats.sorted && !floats {
            weigh_sorted(weigh, values, validity);
        }
    }
    let sample_rows = weigh.sample.rows();
    if stats.distinct * 4 > sample_rows {
        return;
    }
    // The size that the segment dictionary must beat. A dictionary per page is not compared here.
    let limit = weigh.least() * DICTIONARY_GAIN;
    weigh.add_page_dictionary(values, validity);
    let codes = f64::from(crate::bits::width(stats.distinct as u64)) / 8.0;
    if codes > limit && run < 2 {
        return;
    }
    let Some(shared) = dictionary_of(values, validity, DICTIONARY_ENTRIES_MAX) else { return };
    stats.distinct = shared.dictionary_len();
    let before = weigh.weighed.len();
    weigh.add(Transform::Dictionary, Encoding::BitPack, Some(&shared), cost::DICTIONARY);
    if run >= 2 {
        weigh.add(Transform::Dictionary, Encoding::Rle, Some(&shared), cost::rle_of_codes(run));
    }
    let dictionaries = weigh.weighed.split_off(before);
    weigh.weighed.extend(dictionaries.into_iter().filter(|(_, c)| c.bytes_per_value <= limit));
}

/// The sample is sorted. This checks whether the whole column is.
fn weigh_sorted(weigh: &mut Weigh<'_>, values: &Values<'_>, validity: Option<&[u64]>) {
    let Values::Int(v) = values else { return };
    let mut last = i64::MIN;
    let sorted = valid_rows(v.len(), validity).all(|row| std::mem::replace(&mut last, v[row]) <= v[row]);
    if sorted {
        weigh.add(Transform::None, Encoding::DeltaLz, None, cost::DELTA_LZ);
    }
}

fn weigh_strings(weigh: &mut Weigh<'_>, values: &Values<'_>, validity: Option<&[u64]>, stats: &mut Stats) {
    let none = Transform::None;
    let length = stats.bytes_total as f64 / stats.rows.max(1) as f64;
    weigh.add(none, Encoding::Plain, None, cost::STRING);
    let sample_rows = weigh.sample.rows();
    if stats.distinct * 2 <= sample_rows || stats.distinct < 256 {
        if let Some(shared) = dictionary_of(values, validity, DICTIONARY_ENTRIES_MAX) {
            stats.distinct = shared.dictionary_len();
            weigh.add(Transform::Dictionary, Encoding::BitPack, Some(&shared), cost::DICTIONARY);
            let run = stats.run();
            if run >= 2 {
                weigh.add(Transform::Dictionary, Encoding::Rle, Some(&shared), cost::rle_of_codes(run));
            }
        }
        weigh.add_page_dictionary(values, validity);
    }
    // If a dictionary makes the strings this small, compression cannot save more.
    if length < 2.0 || weigh.least() < length / 8.0 || weigh.least() <= 1.0 {
        return;
    }
    let symbols = Shared::train_fsst(&weigh.sample.strings(FSST_SAMPLE_BYTES));
    weigh.add(Transform::Fsst, Encoding::Plain, Some(&symbols), cost::STRING + length * cost::FSST_BYTE);
    if !weigh.options.allow_block || length < 4.0 {
        return;
    }
    let ns = cost::STRING + length * cost::BLOCK_BYTE;
    let before = weigh.least();
    let plain = weigh.add(none, Encoding::Block, None, ns);
    let pays = plain.is_some_and(|bytes| bytes <= before * (BLOCK_GAIN + 0.1));
    if stats.bytes_total >= ZSTD_TEXT_MIN
        && weigh.options.chunk_bytes <= ZSTD_CHUNK_MAX
        && pays
        && let Some(shared) = train_block(weigh.sample)
    {
        weigh.add(Transform::BlockDictionary, Encoding::Block, Some(&shared), ns);
    }
}

fn dictionary_of(values: &Values<'_>, validity: Option<&[u64]>, entries_max: usize) -> Option<Shared> {
    let ints = |entries: Vec<i128>| {
        let mut entries = entries;
        entries.sort_unstable();
        Shared::int_dictionary(entries, values.kind()).ok()
    };
    let keys = |keys: &[i64]| {
        let distinct = distinct_ints(keys, validity, entries_max)?;
        ints(distinct.values.iter().map(|v| i128::from(*v)).collect())
    };
    match values {
        Values::Int(v) => keys(v),
        Values::Wide(v) => ints(distinct_ints(v, validity, entries_max)?.values),
        Values::F64(v) => keys(&v.iter().map(|x| f64_key(*x)).collect::<Vec<_>>()),
        Values::F32(v) => keys(&v.iter().map(|x| f32_key(*x)).collect::<Vec<_>>()),
        Values::Bytes(v) => {
            let bytes_max = if entries_max > DICTIONARY_ENTRIES_MAX { usize::MAX } else { DICTIONARY_BYTES_MAX };
            let mut entries = distinct_bytes(*v, validity, entries_max, bytes_max)?.values;
            entries.sort_unstable();
            Shared::bytes_dictionary(&entries).ok()
        }
    }
}

fn train_block(sample: &Sample<'_>) -> Option<Shared> {
    let strings = sample.strings(ZSTD_SAMPLE_BYTES);
    zstd::dict::from_samples(&strings, ZSTD_DICTIONARY_BYTES)
        .ok()
        .and_then(|bytes| Shared::block_dictionary(bytes).ok())
}

/// The shared state of a plan that the user set.
fn shared_for(
    transform: Transform,
    values: &Values<'_>,
    validity: Option<&[u64]>,
    sample: &Sample<'_>,
) -> Result<Option<Shared>, CodecError> {
    let shared = match transform {
        Transform::None => return Ok(None),
        Transform::Dictionary => dictionary_of(values, validity, WANTED_ENTRIES_MAX),
        Transform::Fsst => Some(Shared::train_fsst(&sample.strings(FSST_SAMPLE_BYTES))),
        Transform::BlockDictionary => train_block(sample),
    };
    let kind = values.kind().name();
    let error = CodecError::Unsupported { encoding: "a dictionary (too many different or too few values)", kind };
    shared.map(Some).ok_or(error)
}
