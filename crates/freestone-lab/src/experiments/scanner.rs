//! Scans without SQL, on one thread, as in the papers' programs: direct I/O, rows materialized as blocks of 100 decoded
//! tuples that are discarded, and predicates that pass every k-th call.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int32Type};
use freestone_store::media::{DirectMode, Disk, DiskOptions, Medium, ReadRequest};
use freestone_store::scan::{
    Cursor, FilterError, RowFilter, ScanMetrics, ScanRequest, TupleBlock, TupleLayout, morsels,
};
use freestone_store::{Snapshot, Store, StoreError, StoreOptions, Table};

use crate::error::{LabError, Result};
use freestone_data::Random;
use freestone_demo::engine::{Answer, hash};

/// The rows that are scanned while the same number is read ahead.
pub const MORSEL_ROWS: usize = 1 << 16;
const CACHE_BYTES: usize = 4 << 30;
/// The reads of which a mean is taken.
const SINGLE_READS: u32 = 512;
/// The bytes of buffers that a scan leaves for the next one, because fresh memory would cost more than the disk.
const POOL_BYTES: usize = 1 << 30;

/// The variables that users set (Holloway and DeWitt 2008, section 5.4); the size of pages is that of a design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanSettings {
    /// The maximum number of reads in flight.
    pub io_depth: usize,
    /// The bytes of a read, a multiple of the page's 32 KiB.
    pub io_unit: usize,
    /// The tuples of a block of output.
    pub block_rows: usize,
}

impl Default for ScanSettings {
    /// The paper's values.
    fn default() -> Self {
        ScanSettings { io_depth: 48, io_unit: 128 << 10, block_rows: 100 }
    }
}

impl ScanSettings {
    /// A folder whose files are read with these settings.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn disk(self, path: &Path, direct: DirectMode) -> Result<Disk> {
        let options = DiskOptions {
            direct,
            io_unit: self.io_unit,
            io_depth: self.io_depth,
            pool_bytes: POOL_BYTES,
            ..DiskOptions::default()
        };
        Disk::open(path, false, options).map_err(store_error)
    }
}

/// The parameters of a scan of any table with these columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The columns of the output, by position in the table.
    pub columns: Vec<usize>,
    pub pick: Pick,
}

/// The rows that a query selects.
#[derive(Debug, Clone, PartialEq)]
pub enum Pick {
    All,
    /// The query's first columns, as many as this says, have a predicate each. With p predicates, each has selectivity
    /// `selectivity`^(1/p). A predicate decodes the column, compares, and passes every k-th call whatever the value
    /// (Holloway and DeWitt 2008, section 4.4).
    Calls {
        predicates: usize,
        selectivity: f64,
    },
    /// The first column, an integer, is at least this.
    AtLeast(i32),
    /// Rows at random positions, each with this probability, chosen without reading anything.
    Positions {
        share: f64,
        seed: u64,
    },
}

/// The source of the pages of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// The memory in which earlier runs left them.
    Memory,
    /// The disk, with an empty page cache. Opening the database and reading its segments' footers is not counted.
    Disk,
}

/// The times of one run of a query.
#[derive(Debug, Clone, Copy, Default)]
pub struct Run {
    pub ms: f64,
    /// Processor time of the process, in which nothing else runs.
    pub cpu_ms: f64,
    pub bytes_read: u64,
}

/// The runs of one query in one design: the faster of two from memory, and one from disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    pub hot: Run,
    pub cold: Run,
}

/// Means over several queries, in one design.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// With the pages in memory.
    pub hot_ms: f64,
    /// Processor time of the hot run.
    pub cpu_ms: f64,
    /// From disk, with an empty cache.
    pub cold_ms: f64,
    /// The standard deviation of `cold_ms` over the queries.
    pub cold_deviation: f64,
    /// Processor time of the run from disk.
    pub cold_cpu_ms: f64,
    pub bytes: f64,
}

impl Point {
    /// The means of the runs of equivalent queries (Holloway and DeWitt 2008, section 5.4).
    pub fn of(samples: &[Sample]) -> Point {
        let count = samples.len().max(1) as f64;
        let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
        let cold_ms = mean(&|sample| sample.cold.ms);
        Point {
            hot_ms: mean(&|sample| sample.hot.ms),
            cpu_ms: mean(&|sample| sample.hot.cpu_ms),
            cold_ms,
            cold_deviation: mean(&|sample| (sample.cold.ms - cold_ms).powi(2)).sqrt(),
            cold_cpu_ms: mean(&|sample| sample.cold.cpu_ms),
            bytes: mean(&|sample| sample.cold.bytes_read as f64),
        }
    }
}

/// The faster of two runs, with the less processor time of either.
pub fn faster(first: Run, second: Run) -> Run {
    Run { ms: first.ms.min(second.ms), cpu_ms: first.cpu_ms.min(second.cpu_ms), ..first }
}

/// A database folder, open for scans.
pub struct Scanner {
    disk: Arc<Disk>,
    hot: Opened,
    settings: ScanSettings,
}

struct Opened {
    snapshot: Arc<Snapshot>,
    _store: Store,
}

impl Scanner {
    /// Opens the folder for reading, past the operating system's cache if the file system supports that.
    ///
    /// # Errors
    /// The folder is no database or cannot be read.
    pub fn open(path: &Path, settings: ScanSettings) -> Result<Scanner> {
        let disk = |mode| settings.disk(path, mode).map(Arc::new);
        let direct = disk(DirectMode::On)?;
        if let Ok(hot) = Opened::new(&direct).and_then(|opened| opened.try_reading().map(|()| opened)) {
            return Ok(Scanner { disk: direct, hot, settings });
        }
        // On a file system without direct I/O, for example in memory, cold runs are only as cold as possible.
        let disk = disk(DirectMode::Auto)?;
        let hot = Opened::new(&disk)?;
        Ok(Scanner { disk, hot, settings })
    }

    /// One run that passes each block of tuples to `take`.
    pub fn run(
        &self,
        table: &str,
        query: &Query,
        source: Source,
        take: impl FnMut(&TupleLayout, &TupleBlock),
    ) -> Result<Run> {
        match source {
            Source::Memory => time(&self.hot.table(table)?, query, self.settings.block_rows, take),
            Source::Disk => {
                let opened = Opened::new(&self.disk)?;
                time(&opened.table(table)?, query, self.settings.block_rows, take)
            }
        }
    }

    /// One run whose tuples are discarded.
    pub fn time(&self, table: &str, query: &Query, source: Source) -> Result<Run> {
        self.run(table, query, source, |_, _| ())
    }

    /// The rows of an answer.
    pub fn answer(&self, table: &str, query: &Query) -> Result<Answer> {
        let mut answer = Answer { rows: 0, checksum: 0 };
        let mut row_bytes = vec![];
        let schema = &self.hot.table(table)?.schema;
        let is_text = |column: &usize| schema.columns[*column].data_type == DataType::Utf8View;
        let texts: Vec<bool> = query.columns.iter().map(is_text).collect();
        self.run(table, query, Source::Memory, |layout, block| {
            for row in 0..block.rows() {
                row_bytes.clear();
                for (column, is_text) in texts.iter().enumerate() {
                    let value =
                        if *is_text { layout.bytes(block, row, column) } else { layout.value(block, row, column) };
                    row_bytes.extend_from_slice(value.unwrap_or(&[]));
                }
                answer.checksum = answer.checksum.wrapping_add(hash(&row_bytes));
            }
            answer.rows += block.rows() as u64;
        })?;
        Ok(answer)
    }

    /// The mean over `queries` for each of the tables, which have the same rows in different designs.
    ///
    /// # Errors
    /// Two tables give different answers, which is a defect.
    pub fn measure(&self, tables: &[&str], queries: &[Query]) -> Result<Vec<Point>> {
        let mut samples: Vec<Vec<Sample>> = vec![vec![]; tables.len()];
        for (at, query) in queries.iter().enumerate() {
            // A repeated query gives the same answer as before.
            let is_new = at == 0 || queries[at - 1] != *query;
            let mut expected = None;
            // Designs alternate, so that other load on the machine affects all alike.
            for (table, samples) in tables.iter().zip(&mut samples) {
                let answer = if is_new { Some(self.answer(table, query)?) } else { None };
                if let Some(answer) = answer
                    && *expected.get_or_insert(answer) != answer
                {
                    let first = tables.first().copied().unwrap_or("");
                    let text = format!("{table} answers {query:?} with rows {answer}, unlike {first}");
                    return Err(LabError::Answers(text));
                }
                let hot = || self.time(table, query, Source::Memory);
                let hot = faster(hot()?, hot()?);
                samples.push(Sample { hot, cold: self.time(table, query, Source::Disk)? });
            }
        }
        Ok(samples.iter().map(|samples| Point::of(samples)).collect())
    }

    /// The read rate of a table's file in megabytes per second: the better of two runs.
    pub fn bandwidth(&self, table: &str) -> Result<f64> {
        let segment = self.hot.table(table)?.open_segment(0).map_err(store_error)?;
        let file = self.disk.open(segment.name()).map_err(store_error)?;
        let unit = self.settings.io_unit;
        let len = file.len().map_err(store_error)? as usize / unit * unit;
        let requests: Vec<ReadRequest> =
            (0..len).step_by(unit).map(|at| ReadRequest { offset: at as u64, len: unit }).collect();
        let mut best = f64::INFINITY;
        for _ in 0..2 {
            let start = Instant::now();
            for buffer in file.read_many(&requests) {
                black_box(buffer.map_err(store_error)?);
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(len as f64 / 1e6 / best)
    }

    /// Nanoseconds of a read of `len` bytes of a table's file with no other in flight: of reads one behind the other, and of
    /// reads at random places. Means.
    pub fn single_reads(&self, table: &str, len: usize) -> Result<[f64; 2]> {
        let segment = self.hot.table(table)?.open_segment(0).map_err(store_error)?;
        let file = self.disk.open(segment.name()).map_err(store_error)?;
        let places = (file.len().map_err(store_error)? / len as u64).clamp(1, u32::MAX.into()) as u32;
        let count = places.min(SINGLE_READS);
        let mut random = Random::new(1);
        let anywhere: Vec<u32> = (0..count).map(|_| random.below(places)).collect();
        let time = |places: &[u32]| -> Result<f64> {
            let start = Instant::now();
            for place in places {
                for buffer in file.read_many(&[ReadRequest { offset: u64::from(*place) * len as u64, len }]) {
                    black_box(buffer.map_err(store_error)?);
                }
            }
            Ok(start.elapsed().as_nanos() as f64 / places.len().max(1) as f64)
        };
        Ok([time(&(0..count).collect::<Vec<_>>())?, time(&anywhere)?])
    }

    /// The bytes of a table's files.
    pub fn bytes(&self, table: &str) -> Result<u64> {
        Ok(self.hot.table(table)?.bytes())
    }
}

impl Opened {
    fn new(disk: &Arc<Disk>) -> Result<Opened> {
        disk.engine_name();
        let options = StoreOptions { read_only: true, threads: 1, cache_bytes: CACHE_BYTES, ..StoreOptions::default() };
        let store = Store::on_medium(disk.clone(), options).map_err(engine_error)?;
        let snapshot = store.snapshot().map_err(engine_error)?;
        Ok(Opened { snapshot, _store: store })
    }

    /// The table, after reading its segments' footers.
    fn table(&self, name: &str) -> Result<Arc<Table>> {
        let missing = || LabError::Usage(format!("the experiment stored no table {name}"));
        let table = self.snapshot.table(name).ok_or_else(missing)?.clone();
        (0..table.segments.len()).try_for_each(|at| table.open_segment(at).map(drop)).map_err(engine_error)?;
        Ok(table)
    }

    /// Reads a page of some table.
    fn try_reading(&self) -> Result<()> {
        let Some(name) = self.snapshot.tables().next().map(|table| table.name.clone()) else { return Ok(()) };
        let query = Query { columns: vec![0], pick: Pick::Positions { share: 0.0001, seed: 1 } };
        time(&self.table(&name)?, &query, ScanSettings::default().block_rows, |_, _| ()).map(drop)
    }
}

/// Scans `table` once, and passes each block of tuples to `take`.
fn time(
    table: &Arc<Table>,
    query: &Query,
    block_rows: usize,
    mut take: impl FnMut(&TupleLayout, &TupleBlock),
) -> Result<Run> {
    let metrics = Arc::new(ScanMetrics::default());
    let mut cursor = Cursor::new(table.clone(), Arc::new(query.request()), metrics.clone());
    let layout = TupleLayout::new(cursor.schema());
    let mut block = TupleBlock::default();
    let morsels = morsels(table, MORSEL_ROWS);
    let (start, cpu_start) = (Instant::now(), cpu_ms());
    let mut blocks = |batch: Option<arrow::array::RecordBatch>| {
        let Some(batch) = batch else { return false };
        layout.for_each_block(&batch, block_rows, &mut block, |block| take(&layout, black_box(block)));
        true
    };
    for (at, morsel) in morsels.iter().enumerate() {
        cursor.scan(morsel, morsels.get(at + 1)).map_err(engine_error)?;
        while blocks(cursor.next_ready()) {}
    }
    blocks(cursor.finish().map_err(engine_error)?);
    let (ms, cpu_ms) = (start.elapsed().as_secs_f64() * 1e3, cpu_ms() - cpu_start);
    Ok(Run { ms, cpu_ms, bytes_read: metrics.totals().bytes_read })
}

impl Query {
    fn request(&self) -> ScanRequest {
        let mut request = ScanRequest::columns(self.columns.clone());
        match &self.pick {
            Pick::All => {}
            Pick::Calls { predicates, selectivity } => {
                let share = selectivity.powf(1.0 / (*predicates).max(1) as f64);
                let filter = |column: &usize| Arc::new(Calls::new(*column, share)) as Arc<dyn RowFilter>;
                request.row_filters = self.columns.iter().take(*predicates).map(filter).collect();
            }
            Pick::AtLeast(least) => {
                let column = self.columns.first().copied().unwrap_or(0);
                request.row_filters = vec![Arc::new(AtLeast { column: [column], least: *least })];
            }
            Pick::Positions { share, seed } => request.row_filters = vec![Arc::new(Positions::new(*share, *seed))],
        }
        request
    }
}

/// A predicate `column >= value` that passes a share of its calls at equal distances, whatever the value.
#[derive(Debug)]
struct Calls {
    column: [usize; 1],
    share: f64,
    /// The position of the next call in the cycle, in units of 2^-32.
    phase: AtomicU32,
}

impl Calls {
    fn new(column: usize, share: f64) -> Calls {
        Calls { column: [column], share, phase: AtomicU32::new(1 << 31) }
    }
}

impl RowFilter for Calls {
    fn columns(&self) -> &[usize] {
        &self.column
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>, FilterError> {
        // The comparison is made, and its result is not used, as in the paper's generator.
        match columns.first().map(|column| (column.data_type(), column)) {
            Some((DataType::Int32, column)) => {
                let least = black_box(0);
                let values = column.as_primitive::<Int32Type>().values();
                black_box(values.iter().filter(|value| **value >= least).count());
            }
            Some((DataType::Utf8View, column)) => {
                let least = black_box("m");
                let values = column.as_string_view();
                black_box((0..values.len()).filter(|row| values.value(*row) >= least).count());
            }
            _ => return Err("a predicate by calls is on an integer or a text column".into()),
        }
        if self.share >= 1.0 {
            return Ok(vec![u64::MAX; rows.div_ceil(64)]);
        }
        let step = (self.share * f64::from(u32::MAX)) as u32;
        let mut phase = self.phase.load(Relaxed);
        let passed = bits(rows, || {
            let (next, passes) = phase.overflowing_add(step);
            phase = next;
            passes
        });
        self.phase.store(phase, Relaxed);
        Ok(passed)
    }
}

/// A predicate `column >= value` on an integer column.
#[derive(Debug)]
struct AtLeast {
    column: [usize; 1],
    least: i32,
}

impl RowFilter for AtLeast {
    fn columns(&self) -> &[usize] {
        &self.column
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>, FilterError> {
        let Some(column) = columns.first().and_then(|column| column.as_primitive_opt::<Int32Type>()) else {
            return Err("this predicate is on an integer column".into());
        };
        let mut passes = column.values().iter().map(|value| *value >= self.least);
        Ok(bits(rows, || passes.next().unwrap_or(false)))
    }
}

/// Random rows, without reading any column.
#[derive(Debug)]
struct Positions {
    share: f64,
    state: AtomicU64,
}

impl Positions {
    fn new(share: f64, seed: u64) -> Positions {
        Positions { share, state: AtomicU64::new(seed) }
    }
}

impl RowFilter for Positions {
    fn columns(&self) -> &[usize] {
        &[]
    }

    fn evaluate(&self, _: &[ArrayRef], rows: usize) -> Result<Vec<u64>, FilterError> {
        let mut random = Random::new(self.state.fetch_add(0x9E37_79B9, Relaxed));
        Ok(bits(rows, || random.fraction() < self.share))
    }
}

/// A bit for each of `rows` rows.
fn bits(rows: usize, mut bit: impl FnMut() -> bool) -> Vec<u64> {
    let mut words = vec![0u64; rows.div_ceil(64)];
    for row in 0..rows {
        words[row / 64] |= u64::from(bit()) << (row % 64);
    }
    words
}

/// Processor time of this process so far, in milliseconds; 0 if the system does not report it.
pub fn cpu_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `clock_gettime` writes one `timespec` to a pointer that is valid and exclusive for the call.
    match unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } {
        0 => time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6,
        _ => 0.0,
    }
}

pub fn store_error(error: impl Into<StoreError>) -> LabError {
    engine_error(error.into())
}

fn engine_error(error: StoreError) -> LabError {
    LabError::Engine(error.into())
}

/// The largest `x` up to which the first of two ascending lines is below the second, with linear interpolation between
/// measured points. 0 if it never is; the last `x` if it always is.
pub fn ahead_up_to(x: &[f64], first: &[f64], second: &[f64]) -> f64 {
    let lead: Vec<f64> = first.iter().zip(second).map(|(first, second)| second - first).collect();
    let Some(at) = lead.iter().position(|lead| *lead <= 0.0) else { return x.last().copied().unwrap_or(0.0) };
    if at == 0 {
        return 0.0;
    }
    x[at - 1] + (x[at] - x[at - 1]) * lead[at - 1] / (lead[at - 1] - lead[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use freestone_demo::engine::Engine;

    #[test]
    fn a_share_of_the_calls_passes_evenly() {
        let filter = Calls::new(0, 0.1);
        let column: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![7; 1000]));
        let passed = filter.evaluate(std::slice::from_ref(&column), 1000).expect("an integer column");
        assert_eq!(passed.iter().map(|word| word.count_ones()).sum::<u32>(), 100);
        let places: Vec<usize> = (0..1000).filter(|row| passed[row / 64] >> (row % 64) & 1 == 1).collect();
        assert!(places.windows(2).all(|pair| (9..=11).contains(&(pair[1] - pair[0]))), "{places:?}");
        assert_eq!(Calls::new(0, 1.0).evaluate(&[column], 64).expect("an integer column"), [u64::MAX]);
    }

    #[test]
    fn lines_cross_between_points() {
        let x = [1.0, 2.0, 4.0];
        for (first, second, expected) in [
            ([1.0, 2.0, 4.0], [3.0, 3.0, 3.0], 3.0),
            ([1.0, 2.0, 2.5], [3.0, 3.0, 3.0], 4.0),
            ([4.0, 4.0, 4.0], [3.0, 3.0, 3.0], 0.0),
        ] {
            assert!((ahead_up_to(&x, &first, &second) - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn designs_answer_alike_cold_and_hot() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("db");
        {
            let engine = Engine::open(&path, freestone::Options::default()).expect("a new database");
            for design in ["row", "column", "slotted", "pax"] {
                let sql = format!(
                    "CREATE TABLE t_{design} WITH (design = '{design}') AS SELECT CAST(value AS INT) AS a, \
                     CAST(value % 7 AS INT) AS b, 'text ' || value AS c FROM generate_series(1, 50000)"
                );
                engine.run(&sql).expect("valid SQL");
            }
        }
        let scanner = Scanner::open(&path, ScanSettings::default()).expect("the database opens");
        let tables = ["t_row", "t_column", "t_slotted", "t_pax"];
        for pick in [
            Pick::All,
            Pick::AtLeast(5),
            Pick::Calls { predicates: 3, selectivity: 0.01 },
            Pick::Positions { share: 0.5, seed: 3 },
        ] {
            let query = Query { columns: vec![1, 2, 0], pick };
            let points = scanner.measure(&tables, std::slice::from_ref(&query)).expect("all answer alike");
            assert!(points.iter().all(|point| point.hot_ms > 0.0 && point.bytes > 0.0), "{points:?}");
        }
        let query = Query { columns: vec![0], pick: Pick::Calls { predicates: 1, selectivity: 0.1 } };
        assert_eq!(scanner.answer("t_row", &query).expect("it scans").rows, 5000);
        let query = Query { columns: vec![1], pick: Pick::AtLeast(5) };
        assert_eq!(
            scanner.answer("t_pax", &query).expect("it scans").rows,
            50_000 / 7 * 2 + 2,
            "5 or 6, and 50,000 % 7 is 6"
        );
        let query = Query { columns: vec![0], pick: Pick::Calls { predicates: 1, selectivity: 0.1 } };
        assert_eq!(
            scanner.time("t_row", &query, Source::Memory).expect("it scans").bytes_read,
            0,
            "the pages are in memory"
        );
        assert!(scanner.bandwidth("t_slotted").expect("a file") > 0.0);
        assert!(scanner.single_reads("t_slotted", 32 << 10).expect("a file").iter().all(|ns| *ns > 0.0));
    }
}
