//! A trial of a design: a sample that is stored in the design and scanned like the workload.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use freestone_advisor::Output;
use freestone_codec::{IntPredicate, Predicate};
use freestone_store::cluster::CodeFilter;
use freestone_store::column::ColumnBuffer;
use freestone_store::design::Design;
use freestone_store::limits::MORSEL_ROWS;
use freestone_store::scan::{Cursor, MorselQueue, Morsels, ScanMetrics, ScanRequest, Sink, surviving_morsels};
use freestone_store::schema::TableSchema;
use freestone_store::segment::Segment;
use freestone_store::{Store, StoreError, StoreOptions, Table};

use super::sample::Sample;
use crate::error::{Error, ErrorKind, Result};

const TABLE: &str = "trial";
/// The number of timed runs of a scan, and their maximum total time.
const RUNS: usize = 11;
const RUNS_MIN: usize = 3;
const BUDGET: Duration = Duration::from_millis(150);

/// A cache with almost no capacity, so that every scan reads its pages again.
const COLD_CACHE: usize = 1 << 20;

/// A sample, stored in a design.
pub(crate) struct Trial {
    table: Arc<Table>,
    threads: usize,
    _store: Store,
    _folder: Option<Folder>,
}

/// The median of some runs, and half the interquartile range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    pub ms: f64,
    pub noise_ms: f64,
}

/// A temporary folder, which is removed when this is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // If this fails, files remain in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Folder(std::env::temp_dir().join(format!("freestone-trial-{}-{number}", std::process::id())))
    }
}

impl Trial {
    /// Stores the sample in memory, or on disk for cold scans.
    ///
    /// # Errors
    ///
    /// The sample cannot be written in this design.
    pub fn build(
        sample: &Sample,
        schema: &TableSchema,
        design: &Design,
        threads: usize,
        is_cold: bool,
    ) -> Result<Trial> {
        let options = StoreOptions { threads, ..StoreOptions::default() };
        let folder = is_cold.then(Folder::new);
        let store = match &folder {
            Some(folder) => Store::open(&folder.0, StoreOptions { cache_bytes: COLD_CACHE, ..options })?,
            None => Store::in_memory(options)?,
        };
        let mut transaction = store.write()?;
        // The referenced tables do not exist here.
        let schema = TableSchema { foreign_keys: vec![], ..schema.clone() };
        transaction.create_table(TABLE, schema, design.clone())?;
        let mut appender = transaction.appender(TABLE)?;
        for batch in &sample.batches {
            appender.push(batch)?;
        }
        let appended = appender.finish()?;
        transaction.append(appended)?;
        transaction.commit()?;
        let snapshot = store.snapshot()?;
        let table = snapshot.table(TABLE).ok_or_else(|| internal("the trial's table is gone"))?.clone();
        Ok(Trial { table, threads, _store: store, _folder: folder })
    }

    /// The zones with one of these values in a column by which the trial is clustered; `None` if it is not clustered by
    /// it.
    ///
    /// # Errors
    ///
    /// A segment cannot be opened.
    pub fn code_filter(&self, column: &str, values: Vec<i128>) -> Result<Option<CodeFilter>> {
        for at in 0..self.table.segments.len() {
            let segment = self.table.open_segment(at)?;
            let dimension = segment.footer.dimensions.iter().find(|d| d.description.path.names == [column]);
            let predicate = Predicate::Int(IntPredicate::In(values.clone()));
            if let Some(dimension) = dimension
                && let Some(codes) = dimension.bins.codes_of(&predicate)
            {
                return Ok(Some(CodeFilter::new(dimension, codes)));
            }
        }
        Ok(None)
    }

    /// Scans the trial, processes the rows like the query's output, and returns the number of qualifying rows.
    ///
    /// # Errors
    ///
    /// A page cannot be read.
    pub fn scan(&self, request: &Arc<ScanRequest>, output: Output) -> Result<usize> {
        let metrics = Arc::new(ScanMetrics::default());
        let morsels = surviving_morsels(&self.table, request, MORSEL_ROWS, &metrics)?;
        let threads = self.threads.clamp(1, morsels.len().max(1));
        let queue = Arc::new(MorselQueue::new(morsels, threads));
        let work = || -> Result<usize> {
            let mut cursor = Cursor::new(self.table.clone(), request.clone(), metrics.clone());
            let (mut morsels, mut rows) = (Morsels::new(queue.clone()), 0);
            let mut counter = Counter { rows: 0, takes_zones: output == Output::ZoneAggregate };
            while let Some((morsel, next)) = morsels.take() {
                if output.is_aggregate() {
                    cursor.scan_into(&morsel, next.as_ref(), &mut counter)?;
                    continue;
                }
                cursor.scan(&morsel, next.as_ref())?;
                while let Some(batch) = cursor.next_ready() {
                    rows += batch.num_rows();
                }
            }
            Ok(counter.rows + rows + cursor.finish()?.map_or(0, |batch| batch.num_rows()))
        };
        let counts: Vec<Result<usize>> =
            std::thread::scope(|scope| {
                let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
                let mut counts = vec![work()];
                counts.extend(others.into_iter().map(|thread| {
                    thread.join().unwrap_or_else(|_| Err(internal("a thread of the trial ended early")))
                }));
                counts
            });
        counts.into_iter().sum()
    }
}

/// Takes the place of an aggregation: values are decoded for it, except those of zones that qualify as a whole.
struct Counter {
    rows: usize,
    takes_zones: bool,
}

impl Sink for Counter {
    fn take_zone(&mut self, segment: &Segment, zone: usize, rows: usize) -> bool {
        let takes = self.would_take(segment, zone, rows);
        self.rows += if takes { rows } else { 0 };
        takes
    }

    fn would_take(&self, _: &Segment, _: usize, _: usize) -> bool {
        self.takes_zones
    }

    fn take_rows(
        &mut self,
        _: usize,
        _: &mut [ColumnBuffer],
        rows: usize,
        _: Option<&[u64]>,
    ) -> Result<(), StoreError> {
        self.rows += rows;
        Ok(())
    }
}

/// The time of a scan in each trial, with the trial's own request, over several runs after a first one. The trials take
/// turns, so that other load of the machine affects all of them.
///
/// # Errors
///
/// A page cannot be read.
pub(crate) fn times(trials: &[Trial], requests: &[Arc<ScanRequest>], output: Output) -> Result<Vec<Time>> {
    let mut times = vec![vec![]; trials.len()];
    let begin = Instant::now();
    for (trial, request) in trials.iter().zip(requests) {
        trial.scan(request, output)?;
    }
    for run in 0..RUNS {
        if run >= RUNS_MIN && begin.elapsed() > BUDGET * trials.len() as u32 {
            break;
        }
        for ((trial, request), times) in trials.iter().zip(requests).zip(&mut times) {
            let start = Instant::now();
            trial.scan(request, output)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(times.into_iter().map(Time::of).collect())
}

impl Time {
    fn of(mut times: Vec<f64>) -> Time {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times.get((times.len().saturating_sub(1) as f64 * share).round() as usize).copied();
        let quartile = |share| at(share).unwrap_or(0.0);
        // Disturbances only add time, so the faster half of the runs is the better estimate.
        Time { ms: quartile(0.25), noise_ms: (quartile(0.5) - quartile(0.0)) / 2.0 }
    }
}

fn internal(text: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("internal error: {text}"))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use freestone_store::design::Preset;
    use freestone_store::scan::ColumnPredicate;

    use super::*;

    #[test]
    fn disturbed_runs_are_no_noise_while_they_are_the_fewer() {
        let time = Time::of(vec![2.0, 40.0, 1.0, 1.2, 30.0, 1.1, 1.4]);
        assert_eq!(time.ms, 1.2);
        assert!((time.noise_ms - 0.2).abs() < 1e-9, "{}", time.noise_ms);
        assert_eq!(Time::of(vec![]).ms, 0.0);
    }

    #[test]
    fn trials_give_the_rows_that_pass_from_memory_and_from_disk() {
        let column = |step: i64| Arc::new((0..100_000).map(|at| at * step).collect::<Int64Array>()) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("a", column(1)), ("b", column(7))]).expect("a batch");
        let sample = Sample { schema: batch.schema(), rows: batch.num_rows(), batches: vec![batch] };
        let schema = TableSchema::from_arrow(&sample.schema).expect("types that tables have");
        let predicate = Predicate::Int(IntPredicate::Range { low: 10, high: 19 });
        let request =
            ScanRequest { predicates: vec![ColumnPredicate { column: 0, predicate }], ..ScanRequest::columns(vec![1]) };
        let request = Arc::new(request);
        for (preset, is_cold) in [(Preset::Row, false), (Preset::Column, true)] {
            let design = Design::preset(preset);
            let trial = Trial::build(&sample, &schema, &design, 2, is_cold).expect("the sample is stored");
            let all = Arc::new(ScanRequest::columns(vec![1]));
            for output in [Output::Columns, Output::Aggregate, Output::ZoneAggregate] {
                assert_eq!(trial.scan(&request, output).expect("it is scanned"), 10);
                assert_eq!(trial.scan(&all, output).expect("it is scanned"), 100_000);
            }
            let trials = [trial];
            let time = times(&trials, std::slice::from_ref(&request), Output::Columns).expect("it is timed")[0];
            assert!(time.ms > 0.0 && time.noise_ms >= 0.0);
            let [trial] = trials;
            let folder = trial._folder.as_ref().map(|folder| folder.0.clone());
            drop(trial);
            assert!(folder.is_none_or(|folder| !folder.exists()));
        }
    }
}
