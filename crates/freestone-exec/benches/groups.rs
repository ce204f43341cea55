//! The time and the processor time of aggregations, for each of several kinds of keys, with one thread and with two.
//!
//!   cargo bench -p freestone-exec --bench groups [KIND]...

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arrow_array::StringViewArray;
use arrow_schema::DataType;
use freestone_exec::accumulators::RowCount;
use freestone_exec::aggregate::{Aggregation, Call};
use freestone_exec::direct::KeyDomain;
use freestone_exec::error::Result;
use freestone_exec::pipeline::{
    Branch, Context, Feed, Inputs, Progress, Sink, Source, SourceWorker, Stage, Take, Unlimited,
};
use freestone_exec::rows::Field;
use freestone_exec::run::{Output, run};
use freestone_exec::vector::{Batch, Form, Texts, Values, Vector};

const ROWS: usize = 2_000_000;
const BATCH_ROWS: usize = 2048;
const RUNS: usize = 7;

/// Batches in memory, as units of 16.
struct Memory {
    batches: Arc<Vec<Batch>>,
    next: Arc<AtomicUsize>,
    unit: usize,
}

const UNIT: usize = 16;

impl Source for Memory {
    fn worker(&self) -> Box<dyn SourceWorker> {
        Box::new(Memory { batches: self.batches.clone(), next: self.next.clone(), unit: 0 })
    }

    fn units(&self) -> usize {
        self.batches.len().div_ceil(UNIT)
    }
}

impl SourceWorker for Memory {
    fn claim(&mut self) -> Option<Progress> {
        self.unit = self.next.fetch_add(1, Ordering::Relaxed);
        (self.unit < self.units()).then_some(Progress::whole(self.unit))
    }

    fn read(&mut self, take: Take<'_>) -> Result<()> {
        self.batches[self.unit * UNIT..].iter().take(UNIT).try_for_each(|batch| take(batch.clone()))
    }
}

struct NoInputs;

impl Inputs for NoInputs {
    fn next(&self, _: usize) -> Result<Option<(usize, Batch)>> {
        Ok(None)
    }
}

/// Counts the groups.
struct Groups(AtomicUsize);

impl Output for Groups {
    fn begin(&self) {}

    fn push(&self, _: usize, batch: Batch) -> Result<()> {
        self.0.fetch_add(batch.rows, Ordering::Relaxed);
        Ok(())
    }

    fn end(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn stop(&self) {}
}

/// A number of row `row`, of about `distinct`, of which the small ones are more frequent if `is_skewed`.
fn number(row: usize, distinct: usize, is_skewed: bool) -> usize {
    let random = (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let unit = (random >> 11) as f64 / (1u64 << 53) as f64;
    (if is_skewed { unit * unit * unit } else { unit } * distinct as f64) as usize
}

fn texts(of: impl Fn(usize) -> String) -> Vec<Vector> {
    let batch = |from: usize| {
        let array: StringViewArray = (from..(from + BATCH_ROWS).min(ROWS)).map(|row| Some(of(row))).collect();
        Vector::new(Values::Text(Texts::of(&array)))
    };
    (0..ROWS).step_by(BATCH_ROWS).map(batch).collect()
}

fn ints(of: impl Fn(usize) -> i64) -> Vec<Vector> {
    let batch = |from: usize| Vector::ints((from..(from + BATCH_ROWS).min(ROWS)).map(&of).collect());
    (0..ROWS).step_by(BATCH_ROWS).map(batch).collect()
}

/// The key columns of each kind.
fn kinds() -> Vec<(&'static str, Vec<Vec<Vector>>)> {
    let url = |number: usize| format!("http://example.org/{}/{number}/page.html", number % 97);
    vec![
        ("texts-unique", vec![texts(|row| url(row * 7919 % ROWS))]),
        ("texts-200k-skewed", vec![texts(|row| url(number(row, 200_000, true)))]),
        ("texts-20k", vec![texts(|row| url(number(row, 20_000, false)))]),
        ("texts-short-40k", vec![texts(|row| format!("w{}", number(row, 40_000, true)))]),
        ("ints-unique", vec![ints(|row| (row * 7919 % ROWS) as i64)]),
        ("ints-200k", vec![ints(|row| number(row, 200_000, false) as i64 * 1_000_003)]),
        (
            "ints-and-texts",
            vec![ints(|row| number(row, 150_000, true) as i64), texts(|row| format!("w{}", number(row, 40_000, true)))],
        ),
    ]
}

fn aggregated(columns: &[Vec<Vector>], threads: usize) -> usize {
    let field = |vector: &Vector| {
        let (form, data_type) = match &vector.values {
            Values::Text(_) => (Form::Text, DataType::Utf8View),
            _ => (Form::Int, DataType::Int64),
        };
        Field { form, data_type, nullable: false, is_key: true }
    };
    let keys = columns.iter().map(|column| KeyDomain { field: field(&column[0]), bounds: None }).collect();
    let batch =
        |at: usize| Batch { rows: columns[0][at].len(), columns: columns.iter().map(|c| c[at].clone()).collect() };
    let batches = Arc::new((0..columns[0].len()).map(batch).collect());
    let context: Arc<dyn Context> = Arc::new(Unlimited(threads));
    let call =
        Call { inputs: vec![], filter: None, accumulator: Arc::new(|| Ok(Box::new(RowCount))), is_ordered: false };
    let aggregation = Aggregation::new(keys, vec![call], context.clone());
    let feed = |source: Arc<dyn Source>| Branch { feed: Feed::Source(source), steps: vec![] };
    let results = feed(aggregation.results());
    let sink: Arc<dyn Sink> = Arc::new(aggregation);
    let source = feed(Arc::new(Memory { batches, next: Arc::default(), unit: 0 }));
    let stages = [Stage { branches: vec![source], sink: Some(sink) }, Stage { branches: vec![results], sink: None }];
    let groups = Arc::new(Groups(AtomicUsize::new(0)));
    let output: Arc<dyn Output> = groups.clone();
    run(&stages, &(Arc::new(NoInputs) as Arc<dyn Inputs>), &context, &output).expect("aggregated");
    groups.0.load(Ordering::Relaxed)
}

/// The processor time of this process so far in milliseconds, to about ten.
fn processor_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) * 10.0
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    for (kind, columns) in kinds() {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == kind) {
            continue;
        }
        for threads in [1, 2] {
            let (mut groups, before) = (0, processor_ms());
            let mut times: Vec<f64> = (0..RUNS)
                .map(|_| {
                    let began = Instant::now();
                    groups = aggregated(&columns, threads);
                    began.elapsed().as_secs_f64() * 1000.0
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let (median, least, processor) = (times[RUNS / 2], times[0], (processor_ms() - before) / RUNS as f64);
            println!(
                "{kind:<20} {groups:>8} groups, {threads} threads: {median:7.1} ms (least {least:.1}), {processor:.0} ms of processors"
            );
        }
    }
}
