//! The costs of each form of a column, measured on the first rows of the current chunk with a given clock.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use freestone_codec::{ChooseOptions, Shared, Transform};
use freestone_store::column::ColumnData;
use freestone_store::plain::Strings;

use crate::adapt::{Candidate, Cost};
use crate::batch::StoredColumn;
use crate::column::bytes::{Compression, ZSTD_LEVELS};
use crate::column::{self, ByteCodec, Choice, Decoder, Form, Nulls, Plan, SharedState, SharedStates, Span, bytes};
use crate::types::{is_native, is_text};

/// The number of rows of a sample.
const ROWS: usize = 4096;
/// The maximum number of distinct strings in a sample for which a dictionary is tried.
const DICTIONARY_DISTINCT_MAX: usize = ROWS / 8;

/// Nanoseconds since some moment.
pub(crate) type Clock = dyn Fn() -> u64 + Send + Sync;

/// A form that was tried.
pub(crate) struct SampledForm {
    pub choice: Choice,
    /// The symbol table of the choice, which has no number yet.
    pub table: Option<Shared>,
    /// Whether the choice is a dictionary, which has no number yet.
    pub wants_dictionary: bool,
    pub candidate: Candidate,
}

/// Byte codecs in the order of their classes.
const CODECS: [ByteCodec; 4] = [ByteCodec::None, ByteCodec::Lz4, ByteCodec::Zstd, ByteCodec::Snappy];

/// Tries the forms of an array, the plain one first.
pub(crate) fn array(array: &ArrayRef, codecs: &[Compression], clock: &Clock) -> Vec<SampledForm> {
    let rows = array.len().min(ROWS);
    let start = (array.len() - rows) / 2;
    let sample = array.slice(start, rows);
    let is_text = is_text(sample.data_type());
    let mut tried = vec![];
    let mut attempt = |plan: &Plan, codecs: &[Compression], class: u8, table: Option<&Shared>| {
        tried.extend(measure(&sample, plan, codecs, class, table, clock));
    };
    let without =
        |unwanted| codecs.iter().copied().filter(move |of| of.codec != unwanted).collect::<Vec<Compression>>();
    let compressed = without(ByteCodec::None);
    attempt(&Plan::Plain { nulls: Nulls::Bitmask }, codecs, 0, None);
    if !is_native(sample.data_type()) {
        return tried;
    }
    let has_nulls = sample.null_count() > 0;
    if has_nulls && !is_text {
        attempt(&Plan::Plain { nulls: Nulls::Sentinel }, &compressed, 10, None);
    }
    if is_text {
        let nulls = if has_nulls { Nulls::Sentinel } else { Nulls::Bitmask };
        attempt(&Plan::Strings { form: Form::Fixed, nulls }, codecs, 20, None);
        attempt(&Plan::Strings { form: Form::NulTerminated, nulls }, &compressed, 30, None);
    }
    if has_nulls {
        attempt(&Plan::Plain { nulls: Nulls::Packed }, codecs, 60, None);
    }
    if let Some((plan, table)) = chunk_plan(&sample) {
        let codecs = without(ByteCodec::Snappy);
        let shared = table.clone().map(|table| (1, table));
        attempt(&Plan::Chunk { plan, shared }, &codecs, 40, table.as_ref());
    }
    if is_text {
        tried.extend(dictionary(&sample, clock));
    }
    tried
}

/// Tries the byte codecs for a stored column, beginning with none.
pub(crate) fn stored(stored: &StoredColumn, codecs: &[Compression], clock: &Clock) -> Vec<SampledForm> {
    let Some(piece) = stored.pieces.first() else { return vec![] };
    let mut states = SharedStates::new();
    let id = u32::from(stored.shared.is_some());
    states.extend(stored.shared.iter().map(|s| (1, SharedState::Codec(s.shared.clone()))));
    let about = column::Body { shared: id, ..column::Body::of(Form::Chunk) };
    let span = Span { skip: piece.skip, rows: piece.rows };
    let body = Buffer::from(piece.bytes());
    let scale = ROWS as f64 / piece.rows as f64;
    codecs
        .iter()
        .filter_map(|codec| squeezed(&body, 0.0, *codec, about, span, &stored.data_type, &states, clock))
        .map(|(codec, cost)| SampledForm {
            choice: Choice { plan: Plan::Plain { nulls: Nulls::Bitmask }, codec },
            table: None,
            wants_dictionary: false,
            candidate: Candidate { class: class_of(0, codec), cost: scaled(cost, scale) },
        })
        .collect()
}

/// The classes of a form: its codecs, then the higher levels of Zstandard.
fn class_of(base: u8, compression: Compression) -> u8 {
    let codec = CODECS.iter().position(|codec| *codec == compression.codec).unwrap_or(0);
    let level = ZSTD_LEVELS.iter().position(|level| *level == compression.level).unwrap_or(0);
    base + if level == 0 { codec as u8 } else { (CODECS.len() + level - 1) as u8 }
}

fn scaled(cost: Cost, by: f64) -> Cost {
    Cost { bytes: cost.bytes * by, encode_ns: cost.encode_ns * by, decode_ns: cost.decode_ns * by }
}

fn measure(
    sample: &ArrayRef,
    plan: &Plan,
    codecs: &[Compression],
    class: u8,
    table: Option<&Shared>,
    clock: &Clock,
) -> Vec<SampledForm> {
    let (mut body, before) = (vec![], clock());
    let Ok(about) = column::encode(sample, plan, &mut body) else { return vec![] };
    let encode_ns = (clock() - before) as f64;
    if let Plan::Strings { form, .. } = plan
        && about.form != *form
    {
        return vec![];
    }
    let mut states = SharedStates::new();
    states.extend(table.map(|table| (1, SharedState::Codec(table.clone()))));
    let span = Span { skip: 0, rows: sample.len() };
    let body = Buffer::from(body);
    let scale = ROWS as f64 / sample.len().max(1) as f64;
    let tried = codecs.iter().filter_map(|codec| {
        let (codec, cost) = squeezed(&body, encode_ns, *codec, about, span, sample.data_type(), &states, clock)?;
        Some(SampledForm {
            choice: Choice { plan: plan.clone(), codec },
            table: table.cloned(),
            wants_dictionary: false,
            candidate: Candidate { class: class_of(class, codec), cost: scaled(cost, scale) },
        })
    });
    tried.collect()
}

#[allow(clippy::too_many_arguments)]
fn squeezed(
    body: &Buffer,
    encode_ns: f64,
    codec: Compression,
    about: column::Body,
    span: Span,
    data_type: &DataType,
    states: &SharedStates,
    clock: &Clock,
) -> Option<(Compression, Cost)> {
    let (mut small, before) = (vec![], clock());
    bytes::compress(codec, body, &mut small).ok()?;
    let compress_ns = (clock() - before) as f64;
    let small = Buffer::from(small);
    let before = clock();
    let raw = bytes::decompress(codec.codec, &small, body.len()).ok()?;
    column::decode(&raw, about, span, data_type, Strings::Views, &mut Decoder::new(states, usize::MAX)).ok()?;
    let decode_ns = (clock() - before) as f64;
    Some((codec, Cost { bytes: small.len() as f64, encode_ns: encode_ns + compress_ns, decode_ns }))
}

/// The codecs' own choice for a sample, among plans that also work for other values.
fn chunk_plan(sample: &ArrayRef) -> Option<(freestone_codec::ColumnPlan, Option<Shared>)> {
    let column = ColumnData::from_arrays([sample], sample.data_type());
    let options = ChooseOptions { chunk_bytes: 1 << 20, bytes_per_ns: 0.1, allow_block: false, wanted: None };
    let choice = freestone_codec::choose(&column.values(), column.validity.as_deref(), &options).ok()?;
    if choice.plan.transform == Transform::Fsst {
        return Some((choice.plan, choice.shared));
    }
    let own = choice.considered.iter().find(|candidate| candidate.plan.transform == Transform::None);
    own.map(|candidate| (candidate.plan, None))
}

/// The result's dictionary, if a sample has few distinct strings.
fn dictionary(sample: &ArrayRef, clock: &Clock) -> Option<SampledForm> {
    let mut codes = column::dictionary::Codes::default();
    let before = clock();
    let numbers = codes.encode(sample).filter(|_| codes.len() <= DICTIONARY_DISTINCT_MAX)?;
    let mut body = vec![];
    let about = column::encode_codes(&numbers, sample.nulls(), 1, &mut body)?;
    let encode_ns = (clock() - before) as f64;
    let mut entries = vec![];
    codes.put(0, codes.len(), &mut entries);
    let mut received = column::dictionary::Entries::default();
    received.add(&entries).ok()?;
    let states = SharedStates::from([(1, SharedState::Entries(received))]);
    let before = clock();
    let span = Span { skip: 0, rows: sample.len() };
    column::decode(
        &Buffer::from(&body[..]),
        about,
        span,
        sample.data_type(),
        Strings::Views,
        &mut Decoder::new(&states, usize::MAX),
    )
    .ok()?;
    let decode_ns = (clock() - before) as f64;
    let cost =
        scaled(Cost { bytes: body.len() as f64, encode_ns, decode_ns }, ROWS as f64 / sample.len().max(1) as f64);
    Some(SampledForm {
        choice: Choice { plan: Plan::Dictionary { shared: 0 }, codec: ByteCodec::None.into() },
        table: None,
        wants_dictionary: true,
        candidate: Candidate { class: 50, cost },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::{Link, choose};
    use arrow::array::StringArray;

    /// Words of which repetitions are far apart, so that a higher level finds more of them.
    fn comments() -> ArrayRef {
        let words = ["carefully", "final", "deposits", "sleep", "furiously", "ironic", "requests", "haggle", "quickly"];
        let word = |at: u64| words[(at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize % words.len()];
        let comment = |row: u64| (0..6).map(|at| word(row * 6 + at)).collect::<Vec<_>>().join(" ");
        std::sync::Arc::new(StringArray::from_iter_values((0..4096).map(comment)))
    }

    #[test]
    fn the_slower_the_link_the_higher_the_level() {
        // Clocks of busy machines may find anything: the work grows with the degree here, and the bytes are real.
        let clock = || 0;
        let codecs = [ByteCodec::None, ByteCodec::Lz4, ByteCodec::Zstd];
        let degrees: Vec<Compression> = codecs.into_iter().flat_map(Compression::degrees).collect();
        let mut forms = array(&comments(), &degrees, &clock);
        for form in &mut forms {
            let degree = degrees.iter().position(|degree| *degree == form.choice.codec).expect("one of those tried");
            form.candidate.cost.encode_ns = 1000.0 * (1 + degree) as f64;
            form.candidate.cost.decode_ns = 500.0 * (1 + degree) as f64;
        }
        let bytes_at = |level: i32| {
            let plain = forms.iter().filter(|form| form.candidate.class < 10);
            let of = plain.filter(|form| form.choice.codec == Compression { codec: ByteCodec::Zstd, level });
            of.map(|form| form.candidate.cost.bytes).fold(f64::NAN, f64::min)
        };
        assert!(bytes_at(ZSTD_LEVELS[2]) < bytes_at(ZSTD_LEVELS[0]), "levels differ in bytes");
        let candidates = [forms.iter().map(|form| form.candidate).collect::<Vec<_>>()];
        let chosen = |rate: f64| {
            let at = choose(&candidates, Link { rate, threads: 1.0, is_local: false })[0];
            (forms[at].choice.codec, forms[at].candidate.cost)
        };
        // A byte in a second: only bytes count. Then a link that is faster than any processor.
        let (slowest, cost) = chosen(1e-9);
        assert!(forms.iter().all(|form| form.candidate.cost.bytes >= cost.bytes));
        assert!(slowest.codec == ByteCodec::Zstd && slowest.level > ZSTD_LEVELS[0], "{slowest:?}");
        assert_eq!(chosen(1e9).0.codec, ByteCodec::None);
    }

    #[test]
    fn each_degree_is_a_class_of_its_own() {
        let degrees = CODECS.into_iter().flat_map(Compression::degrees);
        let mut classes: Vec<u8> = degrees.map(|compression| class_of(40, compression)).collect();
        classes.sort_unstable();
        assert_eq!(classes, [40, 41, 42, 43, 44, 45]);
    }
}
