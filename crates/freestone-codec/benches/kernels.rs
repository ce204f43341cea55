//! Decode, filter, gather and encode rates of every codec on one core, compared with a plain read of the same bytes.
//!
//! `cargo bench -p freestone-codec`. The tests run it with few rows.

use fastrand::Rng;
use freestone_codec::*;
use std::hint::black_box;
use std::time::Instant;

const CHUNK_BYTES: usize = 32 * 1024 - 64;

/// Rows of each column: few, unless `cargo bench` runs this.
fn rows() -> usize {
    if std::env::args().any(|argument| argument == "--bench") { 1 << 20 } else { 1 << 14 }
}

/// A column to measure, its plan, and a predicate that about 1 % to 10 % of the rows satisfy.
struct Case {
    name: &'static str,
    column: Column,
    plan: ColumnPlan,
    predicate: Predicate,
}

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
            Column::Bytes(_, data) => data.len() + 16 * rows(),
        }
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

fn main() {
    let memory: Vec<u64> = (0..rows() as u64 * 8).collect();
    let read = best(|| _ = black_box(memory.iter().fold(0u64, |a, b| a.wrapping_add(*b))));
    println!("{} values per column", rows());
    println!("plain read of {} MiB of memory: {:.1} GB/s", (memory.len() * 8) >> 20, memory.len() as f64 * 8e-9 / read);
    let cached = &memory[..32 * 1024];
    let read =
        best(|| (0..100).for_each(|_| _ = black_box(black_box(cached).iter().fold(0u64, |a, b| a.wrapping_add(*b)))));
    println!("plain read of 256 KiB of cache: {:.1} GB/s\n", cached.len() as f64 * 800e-9 / read);
    println!(
        "{:<34}{:>8}{:>9}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "codec (32 KiB chunks)", "B/value", "passing", "GB/s out", "decode", "read", "filter", "1 % pos.", "encode"
    );
    println!("{:>70}", "Mvalues/s, but B/value, passing and GB/s:");
    cases().iter().for_each(measure);
}

fn measure(case: &Case) {
    let values = case.column.values();
    let options =
        ChooseOptions { chunk_bytes: CHUNK_BYTES, bytes_per_ns: 0.05, allow_block: true, wanted: Some(case.plan) };
    let choice = choose(&values, None, &options).expect("the plan fits the column");
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    let encode_s = best(|| {
        chunks.clear();
        let column = prepare(values, None, case.plan, choice.shared.as_ref()).expect("the plan fits the column");
        let mut start = 0;
        while start < rows() {
            let n = fit(&column, start, rows() - start, CHUNK_BYTES);
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            encode(&column, start, n, &mut chunk).expect("fit says that it fits");
            chunks.push(chunk);
            start += n;
        }
    });
    let shared = choice.shared.as_ref();
    let kind = values.kind();
    let parse = || chunks.iter().map(|bytes| Chunk::parse(bytes, kind, shared).expect("encode wrote it"));
    let stored: usize = chunks.iter().map(Vec::len).sum();
    let raw: usize = case.column.bytes();
    let mut outputs = Outputs::default();
    let decode_s = best(|| {
        parse()
            .enumerate()
            .for_each(|(i, chunk)| outputs.decode(&chunk, Rows::Range { start: 0, len: chunk.rows() }, i))
    });
    let positions: Vec<Vec<u32>> =
        parse().map(|chunk| (0..chunk.rows() as u32).skip(17).step_by(100).collect()).collect();
    let gather_s =
        best(|| parse().enumerate().for_each(|(i, chunk)| outputs.decode(&chunk, Rows::Positions(&positions[i]), i)));
    let mut passing = 0;
    let filter_s = best(|| {
        passing = 0;
        parse().enumerate().for_each(|(i, chunk)| {
            let mut selection = vec![u64::MAX; chunk.rows().div_ceil(64)];
            let mut scratch = Scratch::default();
            chunk
                .filter(&case.predicate, 0, chunk.rows(), &mut selection, &mut scratch, i as u64)
                .expect("valid chunk");
            if chunk.rows() % 64 != 0 {
                *selection.last_mut().expect("rows") &= u64::MAX >> (64 - chunk.rows() % 64);
            }
            passing += selection.iter().map(|w| w.count_ones() as usize).sum::<usize>();
        })
    });
    // The time of a plain read of the decoded bytes, from a buffer of the same size.
    let plain = vec![1u64; raw / chunks.len() / 8 + 1];
    let read_s = best(|| {
        chunks.iter().for_each(|_| _ = black_box(black_box(&plain).iter().fold(0u64, |a, b| a.wrapping_add(*b))))
    });
    let rate = |s: f64| rows() as f64 / s / 1e6;
    println!(
        "{:<34}{:>8.2}{:>8.2}%{:>9.2}{:>10.0}{:>10.0}{:>10.0}{:>10.0}{:>10.0}",
        case.name,
        stored as f64 / rows() as f64,
        passing as f64 * 100.0 / rows() as f64,
        raw as f64 / decode_s / 1e9,
        rate(decode_s),
        rate(read_s),
        rate(filter_s),
        rate(gather_s) / 100.0,
        rate(encode_s),
    );
}

/// Warm buffers, as in a scan.
#[derive(Default)]
struct Outputs {
    ints: Vec<i64>,
    floats: Vec<f64>,
    views: Views,
    scratch: Scratch,
}

impl Outputs {
    fn decode(&mut self, chunk: &Chunk<'_>, rows: Rows<'_>, key: usize) {
        self.ints.clear();
        self.floats.clear();
        self.views.views.clear();
        self.views.buffers.clear();
        self.views.open.clear();
        let scratch = &mut self.scratch;
        _ = chunk.ints(rows, &mut self.ints, scratch);
        _ = chunk.f64s(rows, &mut self.floats, scratch);
        _ = chunk.bytes(rows, &mut self.views, scratch, key as u64);
        black_box((&self.ints, &self.floats, &self.views));
    }
}

fn cases() -> Vec<Case> {
    use Encoding::*;
    let own = |encoding| ColumnPlan { transform: Transform::None, encoding };
    let dictionary = |encoding| ColumnPlan { transform: Transform::Dictionary, encoding };
    let range = |low: i128, high: i128| Predicate::Int(IntPredicate::Range { low, high });
    let mut random = Rng::with_seed(42);
    let mut column =
        |each: &mut dyn FnMut(usize, &mut Rng) -> i64| Column::Int((0..rows()).map(|i| each(i, &mut random)).collect());
    let mut cases = Vec::new();
    for (name, width) in [
        ("bitpack 3 bits", 3),
        ("bitpack 7 bits", 7),
        ("bitpack 12 bits", 12),
        ("bitpack 20 bits", 20),
        ("bitpack 40 bits", 40),
    ] {
        let column = column(&mut |_, r| 1000 + r.u64(..1 << width) as i64);
        cases.push(Case { name, column, plan: own(BitPack), predicate: range(1000, 1000 + (1 << width) / 10) });
    }
    let mut case = |name, plan, predicate, each: &mut dyn FnMut(usize, &mut Rng) -> i64| {
        cases.push(Case { name, column: column(each), plan, predicate });
    };
    let list = Predicate::Int(IntPredicate::In((0..100).map(|i| i * 9973).collect()));
    case("bitpack 20 bits, IN of 100", own(BitPack), list, &mut |_, r| r.u64(..1 << 20) as i64);
    case("plain 4 bytes", own(Plain), range(0, 1 << 24), &mut |_, r| r.u64(..1 << 28) as i64);
    case("plain 8 bytes", own(Plain), range(0, 1 << 40), &mut |_, r| r.u64(..1 << 44) as i64);
    case("constant", own(Constant), range(0, 1), &mut |_, _| 7);
    case("rle, runs of 20", own(Rle), range(0, 10), &mut |i, _| (i as i64 / 20 * 7919) % 100);
    case("page dictionary of 200", own(Dictionary), range(0, 1_000_000_000), &mut |_, r| {
        r.u64(..200) as i64 * 987_654_321
    });
    case("segment dictionary of 200", dictionary(BitPack), range(0, 1_000_000_000), &mut |_, r| {
        r.u64(..200) as i64 * 987_654_321
    });
    let mut sum = 0;
    case("delta, steps below 32", own(Delta), range(0, 1 << 18), &mut |_, r| {
        sum += r.u64(..32) as i64;
        sum
    });
    let mut sum = 0;
    case("delta-lz, steps below 32", own(DeltaLz), range(0, 1 << 18), &mut |_, r| {
        sum += r.u64(..32) as i64;
        sum
    });
    let prices = Column::F64((0..rows()).map(|_| random.u64(..1_000_000) as f64 / 100.0).collect());
    let keys = range(f64_key(10.0).into(), f64_key(110.0).into());
    cases.push(Case { name: "alp, prices", column: prices, plan: own(Alp), predicate: keys.clone() });
    let noise = Column::F64((0..rows()).map(|_| random.u64(..1 << 53) as f64 / 1e13).collect());
    cases.push(Case { name: "plain doubles", column: noise, plan: own(Plain), predicate: keys });
    let modes = strings(&mut random, |r| {
        ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"][r.u64(..7) as usize].to_owned()
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
    let comments = strings(&mut random, comment);
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

impl Clone for Column {
    fn clone(&self) -> Self {
        match self {
            Column::Int(v) => Column::Int(v.clone()),
            Column::F64(v) => Column::F64(v.clone()),
            Column::Bytes(offsets, data) => Column::Bytes(offsets.clone(), data.clone()),
        }
    }
}

fn strings(random: &mut Rng, mut each: impl FnMut(&mut Rng) -> String) -> Column {
    let (mut offsets, mut data) = (vec![0], Vec::new());
    for _ in 0..rows() {
        data.extend_from_slice(each(random).as_bytes());
        offsets.push(data.len() as u32);
    }
    Column::Bytes(offsets, data)
}

/// Text from a small vocabulary, about 27 bytes, like the comments of order lines.
fn comment(random: &mut Rng) -> String {
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
    for _ in 0..2 + random.u64(..4) {
        text.push_str(WORDS[random.u64(..WORDS.len() as u64) as usize]);
        text.push(' ');
    }
    text.truncate(text.len() - 1);
    text
}
