//! Stored tables, and the time of queries on them.

use std::ffi::{c_int, c_long};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use freestone_advisor::Reference;
use freestone_advisor::profile::Slowdown;
use freestone_advisor::workload::Output;
use freestone_store::design::Design;
use freestone_store::limits::MORSEL_ROWS;
use freestone_store::media::{DirectMode, DiskOptions};
use freestone_store::scan::{
    Cursor, MorselQueue, Morsels, ScanMetrics, ScanRequest, TupleBlock, TupleLayout, surviving_morsels,
};
use freestone_store::{Store, StoreError, StoreOptions, Table};

use crate::Failure;
use crate::cases::{RandomQuery, RandomTable};

/// The minimum and maximum number of samples of a query, and the time after which no further one begins; and the runs
/// of each hot sample.
const LEAST: usize = 3;
const MOST: usize = 9;
const BUDGET: Duration = Duration::from_millis(40);
const RUNS: usize = 8;
/// The same for cold ones, each of which has to open a store.
const COLD_BUDGET: Duration = Duration::from_millis(150);

/// A table in one design: in memory, or in a folder on a disk.
pub struct Stored {
    folder: Option<PathBuf>,
    hot: Option<Store>,
    bytes: u64,
}

/// Milliseconds of a query, its rows, the table's bytes, and the machine's slowdown meanwhile.
pub struct Measured {
    pub ms: f64,
    pub rows: u64,
    pub bytes: f64,
    /// The mean nanoseconds of the reference scan before and after it; 0 for an earlier run without it.
    pub reference_ns: f64,
    /// Whether the two times were nearly equal.
    is_steady: bool,
}

/// For each case of an earlier run: its table, query and threads, and its measurement.
pub type Earlier<'a> = Box<dyn Iterator<Item = ([usize; 3], Measured)> + 'a>;

/// Reads the output of `--csv`, by the names of its columns.
pub fn earlier(csv: &str) -> Earlier<'_> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |name: &str| names.iter().position(|n| *n == name).unwrap_or(usize::MAX);
    let places = ["table", "query", "threads", "measured_ms", "rows", "bytes_stored", "reference_ns"].map(place);
    Box::new(lines.filter_map(move |line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields.get(places[at])?.parse::<f64>().ok();
        let case = [number(0)? as usize, number(1)? as usize, number(2)? as usize];
        Some((
            case,
            Measured {
                ms: number(3)?,
                rows: number(4)? as u64,
                bytes: number(5)?,
                reference_ns: number(6).unwrap_or(0.0),
                is_steady: true,
            },
        ))
    }))
}

fn options() -> StoreOptions {
    let disk = DiskOptions { direct: DirectMode::On, ..DiskOptions::default() };
    StoreOptions { cache_bytes: 2 << 30, disk, ..StoreOptions::default() }
}

/// mimalloc's `mi_option_purge_delay`, in milliseconds; -1 is never.
const PURGE_DELAY: c_int = 15;

unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
}

/// Free memory stays with the process, like the pages of a full cache.
pub fn keep_memory() {
    // SAFETY: mimalloc is linked, because it is the allocator, and the call sets a number in a table of options.
    unsafe { mi_option_set(PURGE_DELAY, -1) };
}

impl Stored {
    pub fn new(table: &RandomTable, design: &Design, folder: Option<PathBuf>) -> Result<Stored, StoreError> {
        let store = match &folder {
            None => Store::in_memory(options())?,
            Some(folder) => Store::open(folder, options())?,
        };
        let mut write = store.write()?;
        write.create_table("t", table.schema.clone(), design.clone())?;
        write.create_table("other", table.schema.clone(), Design::default())?;
        for (name, rows) in [("t", table.rows), ("other", 10)] {
            let mut appender = write.appender(name)?;
            for start in (0..rows).step_by(MORSEL_ROWS) {
                appender.push(&table.batch.slice(start, MORSEL_ROWS.min(rows - start)))?;
            }
            write.append(appender.finish()?)?;
        }
        write.commit()?;
        let bytes = store.snapshot()?.table("t").map_or(0, |t| t.bytes());
        let hot = folder.is_none().then_some(store);
        Ok(Stored { folder, hot, bytes })
    }

    fn open(&self) -> Result<(Option<Store>, Arc<Table>), StoreError> {
        let opened = match &self.folder {
            Some(folder) if self.hot.is_none() => Some(Store::open(folder, options())?),
            _ => None,
        };
        let store = opened.as_ref().or(self.hot.as_ref());
        let snapshot = store.map(Store::snapshot).transpose()?;
        let table = |name| snapshot.as_ref().and_then(|s| s.table(name).cloned());
        let missing = || StoreError::Invalid("the table was not stored".into());
        if opened.is_some() {
            // Another table was read before, so that the reader is initialized.
            run(&table("other").ok_or_else(missing)?, ScanRequest::columns(vec![0]), 1, false)?;
        }
        Ok((opened, table("t").ok_or_else(missing)?))
    }

    pub fn table(&self) -> Result<Arc<Table>, StoreError> {
        Ok(self.open()?.1)
    }

    /// Measures a query: the median of several samples, each relative to the machine's slowdown meanwhile. (The fastest
    /// would be the sample whose slowdown was overestimated most.) Each cold sample uses a store that was just opened.
    pub fn measure(&self, query: &RandomQuery, threads: usize, reference: &Reference) -> Result<Measured, Failure> {
        let mut samples = vec![];
        let mut request = ScanRequest::columns(query.query.columns.clone());
        request.predicates = query.predicates.clone();
        let as_rows = query.query.output == Output::Rows;
        let run = |table: &Arc<Table>| run(table, request.clone(), threads, as_rows);
        if self.hot.is_some() {
            let (_, table) = self.open()?;
            run(&table)?;
            let begin = Instant::now();
            while samples.len() < LEAST || (samples.len() < MOST && begin.elapsed() < BUDGET) {
                samples.push(self.sample(reference, threads, RUNS, || run(&table))?);
            }
        } else {
            let begin = Instant::now();
            // The first sample uses memory that is new to the process.
            for round in 0..=MOST {
                let (_store, table) = self.open()?;
                // Footers are read when a table is opened, whatever the query.
                (0..table.segments.len()).try_for_each(|at| table.open_segment(at).map(|_| ()))?;
                let sample = self.sample(reference, threads, 1, || run(&table))?;
                samples.extend((round > 0).then_some(sample));
                if samples.len() >= LEAST && begin.elapsed() >= COLD_BUDGET {
                    break;
                }
            }
        }
        // Samples during which the machine's slowdown changed count only if there are no others.
        if samples.iter().any(|sample| sample.is_steady) {
            samples.retain(|sample| sample.is_steady);
        }
        samples.sort_by(|a, b| a.ms.total_cmp(&b.ms));
        let middle = (samples.len() - 1) / 2;
        Ok(samples.swap_remove(middle))
    }

    /// The median of some runs, between two runs of the reference scan.
    fn sample(
        &self,
        reference: &Reference,
        threads: usize,
        runs: usize,
        run: impl Fn() -> Result<(f64, u64), StoreError>,
    ) -> Result<Measured, Failure> {
        let before = reference.ns(threads)?;
        let mut taken = (0..runs).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
        taken.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ms, rows) = taken[(runs - 1) / 2];
        let after = reference.ns(threads)?;
        let (reference_ns, is_steady) = ((before + after) / 2.0, Slowdown::of(before, after).is_near(Slowdown::SAME));
        Ok(Measured { ms, rows, bytes: self.bytes as f64, reference_ns, is_steady })
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.hot = None;
        if let Some(folder) = &self.folder {
            // Leftovers only take disk space.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn run(table: &Arc<Table>, request: ScanRequest, threads: usize, as_rows: bool) -> Result<(f64, u64), StoreError> {
    let request = Arc::new(request);
    let begin = Instant::now();
    let metrics = Arc::new(ScanMetrics::default());
    let morsels = surviving_morsels(table, &request, MORSEL_ROWS, &metrics)?;
    let threads = threads.min(morsels.len()).max(1);
    let queue = Arc::new(MorselQueue::new(morsels, threads));
    let work = || -> Result<(), StoreError> {
        let mut cursor = Cursor::new(table.clone(), request.clone(), metrics.clone());
        let layout = TupleLayout::new(cursor.schema());
        let mut block = TupleBlock::default();
        let mut take = |batch: arrow_array::RecordBatch| {
            if as_rows {
                layout.for_each_block(&batch, 100, &mut block, |block| _ = std::hint::black_box(block.tuples().len()));
            }
        };
        let mut morsels = Morsels::new(queue.clone());
        while let Some((morsel, next)) = morsels.take() {
            cursor.scan(&morsel, next.as_ref())?;
            while let Some(batch) = cursor.next_ready() {
                take(batch);
            }
        }
        if let Some(batch) = cursor.finish()? {
            take(batch);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        work()?;
        workers.into_iter().try_for_each(|w| w.join().expect("no worker panics"))
    })?;
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    Ok((ms, metrics.rows_selected.load(Ordering::Relaxed)))
}
