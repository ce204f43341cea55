//! Rates of the codecs: decode, filter, gather and encode, compared with a plain read of the same bytes.

use std::hint::black_box;
use std::time::Instant;

use freestone_codec::*;

use super::{Experiment, RunOptions};
use crate::Notify;
use crate::error::{LabError, Result};
use freestone_report::findings::{Cell, Check, Part, Table, significant, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "codecs",
    title: "What codecs cost",
    shows: "Bytes per value, and rates of decoding, filtering, gathering and encoding, compared with a plain read of the decoded bytes.",
    source: "Holloway and DeWitt 2008, sections 3.2 and 4.2, and the later codecs that the code names",
    size: "--rows 1048576",
    run,
};

const ROWS: usize = 1 << 20;
const CHUNK_BYTES: usize = 32 * 1024 - 64;

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let header = [
        "codec",
        "B/value",
        "ratio",
        "GB/s out",
        "decode",
        "plain read",
        "filter",
        "passing, %",
        "gather 1 %",
        "encode",
    ];
    let title =
        format!("{} values in chunks of 32 KiB, one thread; millions of values a second", thousands(rows as i64));
    let mut table = Table::new(title, 1, &header);
    let mut checks = vec![];
    for case in cases(rows) {
        notify(&format!("measuring {}", case.name));
        let rates = measure(&case, rows)?;
        table.push(rates.cells(case.name));
        let detail = format!("{} chunks", thousands(rates.chunks as i64));
        checks.push(Check::new(format!("{} decodes to what was encoded", case.name), rates.is_exact, detail));
    }
    let text = "GB/s out counts decoded bytes: 8 a number, 16 and the text a string. Plain read sums as many bytes from a \
                buffer of a chunk's decoded size: what any decoder could reach at best. Gather decodes every hundredth value.";
    let is_exact = checks.iter().all(|check| check.holds);
    let exact = Check::new("every codec decodes to what was encoded", is_exact, format!("{} codecs", checks.len()));
    let wrong = checks.into_iter().filter(|check| !check.holds);
    let checks = std::iter::once(exact).chain(wrong).collect();
    Ok(vec![Part::section("Rates", text), memory(), Part::Table(table), Part::checks(checks)])
}

/// The machine's read rate, from memory and from cache.
fn memory() -> Part {
    let memory: Vec<u64> = (0..(8 << 20)).collect();
    let sum = |words: &[u64]| black_box(black_box(words).iter().fold(0u64, |a, b| a.wrapping_add(*b)));
    let all = best(|| _ = sum(&memory));
    let cached = best(|| (0..100).for_each(|_| _ = sum(&memory[..32 * 1024])));
    let mut table = Table::new("A plain read, one thread", 1, &["of", "GB/s"]);
    table.push(["64 MiB of memory".to_owned(), significant(memory.len() as f64 * 8e-9 / all)]);
    table.push(["256 KiB of cache".to_owned(), significant(32.0 * 1024.0 * 800e-9 / cached)]);
    Part::Table(table)
}

/// The measurements of one case: bytes, and values per second.
struct Rates {
    chunks: usize,
    bytes_a_value: f64,
    ratio: f64,
    gigabytes: f64,
    decode: f64,
    read: f64,
    filter: f64,
    passing: f64,
    gather: f64,
    encode: f64,
    is_exact: bool,
}

impl Rates {
    fn cells(&self, name: &str) -> Vec<Cell> {
        let rate = |values: f64| Cell::from(thousands((values / 1e6).round() as i128));
        vec![
            name.into(),
            format!("{:.2}", self.bytes_a_value).into(),
            format!("{:.1}", self.ratio).into(),
            format!("{:.2}", self.gigabytes).into(),
            rate(self.decode),
            rate(self.read),
            rate(self.filter),
            format!("{:.1}", self.passing).into(),
            rate(self.gather),
            rate(self.encode),
        ]
    }
}

/// A column to measure, its plan, and a predicate that about 1 % to 10 % of the rows satisfy.
struct Case {
    name: &'static str,
    column: Column,
    plan: ColumnPlan,
    predicate: Predicate,
}

#[derive(Clone)]
enum Column {
    Int(Vec<i64>),
    F64(Vec<f64>),
    Bytes(Vec<u32>, Vec<u8>),
}

impl Column {
    fn values(&self) -> Values<'_> {
        match self {
            Column::Int(v) => Values::Int(v),
            Column::F64(v) => Values::F64(v),
            Column::Bytes(offsets, data) => Values::Bytes(BytesSlice { offsets, data }),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Column::Int(v) => v.len() * 8,
            Column::F64(v) => v.len() * 8,
            Column::Bytes(offsets, data) => data.len() + 16 * (offsets.len() - 1),
        }
    }
}

/// A small generator with a fixed seed, so that the same code gives the same figures.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((u128::from(self.0.rotate_left(29)) * u128::from(n)) >> 64) as u64
    }
}

/// The shortest of several runs, in seconds.
fn best(mut run: impl FnMut()) -> f64 {
    (0..7)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn measure(case: &Case, rows: usize) -> Result<Rates> {
    let wrong = |source| LabError::Codec { case: case.name, source };
    let values = case.column.values();
    let options =
        ChooseOptions { chunk_bytes: CHUNK_BYTES, bytes_per_ns: 0.05, allow_block: true, wanted: Some(case.plan) };
    let choice = choose(&values, None, &options).map_err(wrong)?;
    let shared = choice.shared.as_ref();
    let chunks = encode_chunks(case, shared, rows).map_err(wrong)?;
    let encode_s = best(|| _ = black_box(encode_chunks(case, shared, rows)));
    let parsed: std::result::Result<Vec<Chunk<'_>>, _> =
        chunks.iter().map(|bytes| Chunk::parse(bytes, values.kind(), shared)).collect();
    let parsed = parsed.map_err(wrong)?;
    let mut outputs = Outputs::new(values.kind());
    let is_exact = outputs.equal(&parsed, &case.column).map_err(wrong)?;
    let all = |chunk: &Chunk<'_>| Rows::Range { start: 0, len: chunk.rows() };
    let decode_s = best(|| parsed.iter().enumerate().for_each(|(i, chunk)| outputs.decode(chunk, all(chunk), i)));
    let hundredth = |chunk: &Chunk<'_>| (0..chunk.rows() as u32).skip(17).step_by(100).collect();
    let positions: Vec<Vec<u32>> = parsed.iter().map(hundredth).collect();
    let gathered = positions.iter().zip(&parsed).enumerate();
    let gather_s =
        best(|| gathered.clone().for_each(|(i, (list, chunk))| outputs.decode(chunk, Rows::Positions(list), i)));
    let mut passing = Ok(0);
    let filter_s = best(|| passing = filter_chunks(&parsed, &case.predicate));
    // The time of a plain read of the decoded bytes, from a buffer of the same size.
    let raw = case.column.bytes();
    let plain = vec![1u64; raw / chunks.len().max(1) / 8 + 1];
    let sum = || black_box(black_box(&plain).iter().fold(0u64, |a, b| a.wrapping_add(*b)));
    let read_s = best(|| chunks.iter().for_each(|_| _ = sum()));
    let (stored, rows) = (chunks.iter().map(Vec::len).sum::<usize>() as f64, rows as f64);
    Ok(Rates {
        chunks: chunks.len(),
        bytes_a_value: stored / rows,
        ratio: raw as f64 / stored,
        gigabytes: raw as f64 / decode_s / 1e9,
        decode: rows / decode_s,
        read: rows / read_s,
        filter: rows / filter_s,
        passing: passing.map_err(wrong)? as f64 * 100.0 / rows,
        gather: positions.iter().map(Vec::len).sum::<usize>() as f64 / gather_s,
        encode: rows / encode_s,
        is_exact,
    })
}

fn encode_chunks(case: &Case, shared: Option<&Shared>, rows: usize) -> std::result::Result<Vec<Vec<u8>>, CodecError> {
    let column = prepare(case.column.values(), None, case.plan, shared)?;
    let (mut chunks, mut start) = (vec![], 0);
    while start < rows {
        let count = fit(&column, start, rows - start, CHUNK_BYTES);
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        encode(&column, start, count, &mut chunk)?;
        chunks.push(chunk);
        start += count;
    }
    Ok(chunks)
}

/// The number of values that pass.
fn filter_chunks(chunks: &[Chunk<'_>], predicate: &Predicate) -> std::result::Result<usize, CodecError> {
    let (mut scratch, mut passing) = (Scratch::default(), 0);
    for (at, chunk) in chunks.iter().enumerate() {
        let mut selection = vec![u64::MAX; chunk.rows().div_ceil(64)];
        chunk.filter(predicate, 0, chunk.rows(), &mut selection, &mut scratch, at as u64)?;
        if let (Some(last), rest @ 1..) = (selection.last_mut(), chunk.rows() % 64) {
            *last &= u64::MAX >> (64 - rest);
        }
        passing += selection.iter().map(|word| word.count_ones() as usize).sum::<usize>();
    }
    Ok(passing)
}

/// Warm buffers, as in a scan.
struct Outputs {
    kind: Kind,
    ints: Vec<i64>,
    floats: Vec<f64>,
    views: Views,
    scratch: Scratch,
}

impl Outputs {
    fn new(kind: Kind) -> Self {
        Outputs { kind, ints: vec![], floats: vec![], views: Views::default(), scratch: Scratch::default() }
    }

    fn decode(&mut self, chunk: &Chunk<'_>, rows: Rows<'_>, key: usize) {
        black_box(self.try_decode(chunk, rows, key)).ok();
    }

    fn try_decode(&mut self, chunk: &Chunk<'_>, rows: Rows<'_>, key: usize) -> std::result::Result<(), CodecError> {
        let scratch = &mut self.scratch;
        match self.kind {
            Kind::F64 => {
                self.floats.clear();
                chunk.f64s(rows, &mut self.floats, scratch)
            }
            Kind::Bytes => {
                self.views.views.clear();
                self.views.buffers.clear();
                self.views.open.clear();
                chunk.bytes(rows, &mut self.views, scratch, key as u64)
            }
            _ => {
                self.ints.clear();
                chunk.ints(rows, &mut self.ints, scratch)
            }
        }
    }

    /// Whether the chunks decode to the column.
    fn equal(&mut self, chunks: &[Chunk<'_>], column: &Column) -> std::result::Result<bool, CodecError> {
        let mut start = 0;
        for (at, chunk) in chunks.iter().enumerate() {
            let rows = chunk.rows();
            self.try_decode(chunk, Rows::Range { start: 0, len: rows }, at)?;
            let is_equal = match column {
                Column::Int(values) => values[start..start + rows] == self.ints,
                Column::F64(values) => {
                    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                    bits(&values[start..start + rows]) == bits(&self.floats)
                }
                Column::Bytes(offsets, data) => (0..rows).all(|row| {
                    let (from, to) = (offsets[start + row] as usize, offsets[start + row + 1] as usize);
                    *self.string(row) == data[from..to]
                }),
            };
            if !is_equal {
                return Ok(false);
            }
            start += rows;
        }
        Ok(true)
    }

    /// The string of view `row`: up to 12 bytes are inlined in the view, longer ones are in a buffer (Arrow's layout).
    fn string(&self, row: usize) -> Vec<u8> {
        let view = self.views.views[row];
        let len = view as u32 as usize;
        if len <= 12 {
            return view.to_le_bytes()[4..4 + len].to_vec();
        }
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
        let bytes = self.views.buffers.get(buffer).map_or(self.views.open.as_slice(), |buffer| buffer.as_slice());
        bytes[offset..offset + len].to_vec()
    }
}

fn cases(rows: usize) -> Vec<Case> {
    use Encoding::*;
    let own = |encoding| ColumnPlan { transform: Transform::None, encoding };
    let dictionary = |encoding| ColumnPlan { transform: Transform::Dictionary, encoding };
    let range = |low: i128, high: i128| Predicate::Int(IntPredicate::Range { low, high });
    let mut random = Random(42);
    let mut column = |each: &mut dyn FnMut(usize, &mut Random) -> i64| {
        Column::Int((0..rows).map(|i| each(i, &mut random)).collect())
    };
    let mut cases = Vec::new();
    for (name, width) in [
        ("bitpack 3 bits", 3),
        ("bitpack 7 bits", 7),
        ("bitpack 12 bits", 12),
        ("bitpack 20 bits", 20),
        ("bitpack 40 bits", 40),
    ] {
        let column = column(&mut |_, r| 1000 + r.below(1 << width) as i64);
        cases.push(Case { name, column, plan: own(BitPack), predicate: range(1000, 1000 + (1 << width) / 10) });
    }
    let mut case = |name, plan, predicate, each: &mut dyn FnMut(usize, &mut Random) -> i64| {
        cases.push(Case { name, column: column(each), plan, predicate });
    };
    let list = Predicate::Int(IntPredicate::In((0..100).map(|i| i * 9973).collect()));
    case("bitpack 20 bits, IN of 100", own(BitPack), list, &mut |_, r| r.below(1 << 20) as i64);
    case("plain 4 bytes", own(Plain), range(0, 1 << 24), &mut |_, r| r.below(1 << 28) as i64);
    case("plain 8 bytes", own(Plain), range(0, 1 << 40), &mut |_, r| r.below(1 << 44) as i64);
    case("constant", own(Constant), range(0, 1), &mut |_, _| 7);
    case("rle, runs of 20", own(Rle), range(0, 10), &mut |i, _| (i as i64 / 20 * 7919) % 100);
    case("page dictionary of 200", own(Dictionary), range(0, 1_000_000_000), &mut |_, r| {
        r.below(200) as i64 * 987_654_321
    });
    case("segment dictionary of 200", dictionary(BitPack), range(0, 1_000_000_000), &mut |_, r| {
        r.below(200) as i64 * 987_654_321
    });
    let mut sum = 0;
    case("delta, steps below 32", own(Delta), range(0, 1 << 18), &mut |_, r| {
        sum += r.below(32) as i64;
        sum
    });
    let mut sum = 0;
    case("delta-lz, steps below 32", own(DeltaLz), range(0, 1 << 18), &mut |_, r| {
        sum += r.below(32) as i64;
        sum
    });
    let prices = Column::F64((0..rows).map(|_| random.below(1_000_000) as f64 / 100.0).collect());
    let keys = range(f64_key(10.0).into(), f64_key(110.0).into());
    cases.push(Case { name: "alp, prices", column: prices, plan: own(Alp), predicate: keys.clone() });
    let noise = Column::F64((0..rows).map(|_| random.below(1 << 53) as f64 / 1e13).collect());
    cases.push(Case { name: "plain doubles", column: noise, plan: own(Plain), predicate: keys });
    let modes = strings(rows, &mut random, |r| {
        ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"][r.below(7) as usize].to_owned()
    });
    let equal = |value: &str| Predicate::Bytes(BytesPredicate::In(vec![value.as_bytes().to_vec()]));
    cases.push(Case {
        name: "strings: page dictionary of 7",
        column: modes.clone(),
        plan: own(Dictionary),
        predicate: equal("MAIL"),
    });
    cases.push(Case {
        name: "strings: segment dictionary of 7",
        column: modes.clone(),
        plan: dictionary(BitPack),
        predicate: equal("MAIL"),
    });
    cases.push(Case { name: "strings: plain, modes", column: modes, plan: own(Plain), predicate: equal("MAIL") });
    let comments = strings(rows, &mut random, comment);
    let prefix = Predicate::Bytes(BytesPredicate::Prefix(b"carefully".to_vec()));
    let fsst = ColumnPlan { transform: Transform::Fsst, encoding: Plain };
    let trained = ColumnPlan { transform: Transform::BlockDictionary, encoding: Block };
    for (name, plan) in [
        ("comments: plain", own(Plain)),
        ("comments: fsst", fsst),
        ("comments: block (zstd)", own(Block)),
        ("comments: block with dictionary", trained),
    ] {
        cases.push(Case { name, column: comments.clone(), plan, predicate: prefix.clone() });
    }
    cases
}

fn strings(rows: usize, random: &mut Random, mut each: impl FnMut(&mut Random) -> String) -> Column {
    let (mut offsets, mut data) = (vec![0], Vec::new());
    for _ in 0..rows {
        data.extend_from_slice(each(random).as_bytes());
        offsets.push(data.len() as u32);
    }
    Column::Bytes(offsets, data)
}

/// Text from a small vocabulary, about 27 bytes, like the comments of order lines.
fn comment(random: &mut Random) -> String {
    const WORDS: [&str; 24] = [
        "carefully",
        "final",
        "packages",
        "sleep",
        "quickly",
        "among",
        "the",
        "ironic",
        "requests",
        "furiously",
        "bold",
        "deposits",
        "haggle",
        "above",
        "regular",
        "accounts",
        "against",
        "silent",
        "theodolites",
        "even",
        "pending",
        "instructions",
        "blithely",
        "express",
    ];
    let mut text = String::new();
    for _ in 0..2 + random.below(4) {
        text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
        text.push(' ');
    }
    text.truncate(text.len() - 1);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn every_codec_gives_back_what_it_was_given_in_fewer_bytes_than_its_bound() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options =
            experiments::RunOptions { rows: Some(20_000), output: folder.path().to_owned(), ..Default::default() };
        let findings = experiments::run("codecs", &options, &|_| {}).expect("the run succeeds");
        assert!(findings.checks().all(|check| check.holds), "{:?}", findings.checks().collect::<Vec<_>>());
        let table = findings.parts.iter().rev().find_map(|part| match part {
            Part::Table(table) => Some(table),
            _ => None,
        });
        let bytes = |name: &str| -> f64 {
            let row = table.expect("there is a table").rows.iter().find(|row| row[0].text == name).expect(name);
            row[1].text.parse().expect("a number")
        };
        for (name, bits) in [("bitpack 3 bits", 3.0), ("bitpack 12 bits", 12.0), ("bitpack 40 bits", 40.0)] {
            assert!((bits / 8.0..bits / 8.0 + 0.1).contains(&(bytes(name) + 0.005)), "{name}: {}", bytes(name));
        }
        assert!(bytes("constant") < 0.01 && bytes("rle, runs of 20") < 0.2);
        assert!(bytes("strings: segment dictionary of 7") < 0.5);
    }
}
