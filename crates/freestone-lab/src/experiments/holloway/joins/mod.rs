//! The hybrid hash join of Narrow-E with itself, on the paper's pages and by its scanners (Holloway and DeWitt 2008, 6.9): the
//! scans materialize whole tuples, which the join then takes. With the memory of the report, the inner table of two columns fits
//! and that of four does not, as on the paper's machine.

mod bucket;
mod figures;
mod hybrid;
mod spill;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use freestone_store::media::{DirectMode, Disk};

use super::Generated;
use super::pages::{Design, Scan, Stores};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::page_file::PAGE_BYTES;
use crate::experiments::scanner::{Pick, Query};
use crate::experiments::{Experiment, RunOptions, Workspace, quoted};
use bucket::Shape;
use freestone_demo::engine::{Engine, hash, median};
use freestone_report::findings::Part;
use hybrid::{HybridJoin, Output};
use spill::SpillFolder;

pub const EXPERIMENT: Experiment = Experiment {
    name: "holloway-joins",
    title: "Hash joins from rows and from columns",
    shows: "A hybrid hash join of Narrow-E with itself at four pairs of selectivities: the join costs the same, the scans differ.",
    source: "Holloway and DeWitt 2008, section 6.9, Figure 10",
    size: "--rows 1421000",
    run,
};

/// The rows by default: as many as give c7 the rows per value that c9 has in the paper.
const ROWS: usize = 1_421_000;
const DESIGNS: [Design; 2] = ["row", "column"];
/// The percentages of rows that the scans select, and the millions of results in the paper.
const PAIRS: [((u32, u32), f64); 4] = [((100, 100), 234.0), ((100, 10), 22.0), ((10, 100), 28.0), ((10, 10), 2.6)];
/// The rows of the paper's table, in millions.
const PAPER_ROWS: f64 = 60.0;
/// The rows per value of the join's column in the paper: 60 million over 20,655,176 values.
const DUPLICATES: f64 = 2.9;
/// The predicates c2 >= 38 and c5 >= 10,500. The paper does not print their values. With these, of which 5/42 and 1,086/11,585 of
/// the rows pass, its numbers of results follow from the ranges of its columns, to the digit.
const LEAST: [i32; 2] = [38, 10_500];
const SHARES: [f64; 2] = [5.0 / 42.0, 1_086.0 / 11_585.0];
/// The bytes of the join's memory per row of the table. Tuples of two columns need 16 with their links, and those of four 24.
const MEMORY_PER_ROW: usize = 20;
/// The memory of further runs, in percent of what the inner table needs.
const MEMORY_PERCENTS: [u32; 5] = [10, 25, 50, 75, 100];
const RUNS: usize = 3;
/// The position of the key in the tuples, in bytes: it is the second column.
const KEY_AT: usize = 4;

/// A join: its columns, by position in the table, and its shares of rows.
#[derive(Clone)]
struct Case {
    key: usize,
    columns: usize,
    percents: (u32, u32),
    /// Of the whole table.
    rows: usize,
    /// The bytes of the join.
    memory: usize,
}

/// Milliseconds from disk, as medians, for one design.
#[derive(Clone, Copy, Default)]
struct Times {
    scans: f64,
    whole: f64,
}

/// The times of rows and of columns, and the join's results and bytes in files.
struct Measured {
    case: Case,
    times: [Times; 2],
    rows: u64,
    spilled_bytes: u64,
}

/// What a join gave, as far as designs and SQL can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcome {
    rows: u64,
    /// Of hashes of results, in any order.
    checksum: u64,
    /// Of all values of all results.
    sum: i64,
    spilled_bytes: u64,
}

impl Times {
    fn join(&self) -> f64 {
        self.whole - self.scans
    }
}

impl Case {
    fn title(&self) -> String {
        format!("{}/{}", self.percents.0, self.percents.1)
    }

    /// The scans of Temp1 and Temp2: the column with the predicate first, then the key, then what the wide case adds.
    fn queries(&self) -> [Query; 2] {
        let query = |first: usize, others: [usize; 2], least: i32| {
            let more = others.into_iter().filter(|column| *column != self.key).chain([8]);
            let columns = [first, self.key].into_iter().chain(more).take(self.columns).collect();
            Query { columns, pick: Pick::AtLeast(least) }
        };
        let least = |percent: u32, least: i32| if percent == 100 { 1 } else { least };
        [query(1, [0, 2], least(self.percents.0, LEAST[0])), query(4, [6, 9], least(self.percents.1, LEAST[1]))]
    }

    /// Whether Temp1 is the inner table: the one of which fewer rows pass.
    fn is_first_inner(&self) -> bool {
        self.percents.0 < self.percents.1
    }

    /// The inner table's tuples that are expected.
    fn inner_tuples(&self) -> u64 {
        let (percent, share) =
            if self.is_first_inner() { (self.percents.0, SHARES[0]) } else { (self.percents.1, SHARES[1]) };
        if percent == 100 { self.rows as u64 } else { (self.rows as f64 * share) as u64 }
    }

    fn shape(&self) -> Shape {
        Shape { width: 4 * self.columns, key_at: KEY_AT, page_bytes: PAGE_BYTES }
    }

    fn sql(&self, file: &Path) -> String {
        let [first, second] = self.queries();
        let values = |table: &str, query: &Query| {
            let names = query.columns.iter().map(|column| format!("CAST({table}.c{} AS BIGINT)", column + 1));
            names.collect::<Vec<_>>().join(" + ")
        };
        let least = |table: &str, query: &Query| match query.pick {
            Pick::AtLeast(least) => format!("{table}.c{} >= {least}", query.columns[0] + 1),
            _ => "true".to_owned(),
        };
        format!(
            "SELECT CAST(count(*) AS VARCHAR) || ' ' || CAST(coalesce(sum({} + {}), 0) AS VARCHAR) FROM '{file}' a JOIN '{file}' b \
             ON a.c{key} = b.c{key} WHERE {} AND {}",
            values("a", &first),
            values("b", &second),
            least("a", &first),
            least("b", &second),
            file = quoted(file),
            key = self.key + 1
        )
    }
}

/// The pages, and the folder for what a join's memory does not hold.
struct Bench {
    stores: Stores,
    spill: Arc<Disk>,
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let workspace = options.workspace("holloway-joins")?;
    notify("storing Narrow-E");
    let stores = Stores::new(&workspace.path("pages"), Generated::NarrowE, rows, &DESIGNS, options.scan)?;
    let folder = workspace.path("spill");
    std::fs::create_dir_all(&folder).map_err(LabError::file(&folder))?;
    let bench = Bench { stores, spill: Arc::new(options.scan.disk(&folder, DirectMode::Auto)?) };
    let answers = Answers::new(options, &workspace, rows)?;
    let key = key_column(rows);
    let memory = (MEMORY_PER_ROW * rows).max(8 * PAGE_BYTES);
    let mut measured = vec![];
    for columns in [2, 4] {
        for (percents, _) in PAIRS {
            let case = Case { key, columns, percents, rows, memory };
            notify(&format!("joining {columns} columns each, {}", case.title()));
            measured.push(bench.measure(case, Some(&answers))?);
        }
    }
    let mut with_memory = vec![];
    for percent in MEMORY_PERCENTS {
        notify(&format!("joining with memory for {percent} % of the inner table"));
        let whole = measured[0].case.clone();
        // A page of each bucket is partly empty.
        let needed = whole.shape().memory(whole.inner_tuples()) as usize + 8 * whole.shape().page_memory();
        let memory = (needed * percent as usize / 100).max(4 * PAGE_BYTES);
        with_memory.push((percent, bench.measure(Case { memory, ..whole }, None)?));
    }
    Ok(figures::parts(&measured, &with_memory, bench.stores.bandwidth()?))
}

/// The column whose number of rows per value is nearest to the paper's.
fn key_column(rows: usize) -> usize {
    let distance = |range: &u32| (rows as f64 / f64::from(*range) / DUPLICATES).ln().abs();
    let ranges = Generated::NarrowE.ranges();
    let nearest = ranges.iter().enumerate().min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    // The predicates are on c2 and c5.
    nearest.map_or(6, |(column, _)| if [1, 4].contains(&column) { column + 1 } else { column })
}

impl Bench {
    /// Both designs, which take turns. Their results must be the same, and those of SQL.
    fn measure(&self, case: Case, answers: Option<&Answers>) -> Result<Measured> {
        let mut outcome = None;
        for design in DESIGNS {
            let found = self.outcome(design, &case)?;
            if *outcome.get_or_insert(found) != found {
                let title = case.title();
                return Err(LabError::Answers(format!("{title}: rows join to {outcome:?}, columns to {found:?}")));
            }
            if let Some(answers) = answers {
                answers.check(&case, &found)?;
            }
        }
        let mut runs: [Vec<(f64, f64)>; 2] = [vec![], vec![]];
        for _ in 0..RUNS {
            for (design, runs) in DESIGNS.into_iter().zip(&mut runs) {
                let stored = self.stores.of(design)?;
                let scan = |query: &Query| self.stores.time(stored, query, true).map(|run| run.ms);
                let [first, second] = case.queries();
                let scans = scan(&first)? + scan(&second)?;
                let start = Instant::now();
                self.join(design, &case, &mut |_| ())?;
                runs.push((scans, start.elapsed().as_secs_f64() * 1e3));
            }
        }
        let times = runs.map(|runs| Times {
            scans: median(runs.iter().map(|run| run.0).collect()),
            whole: median(runs.iter().map(|run| run.1).collect()),
        });
        let (rows, spilled_bytes) = outcome.map_or((0, 0), |outcome| (outcome.rows, outcome.spilled_bytes));
        Ok(Measured { case, times, rows, spilled_bytes })
    }

    fn outcome(&self, design: Design, case: &Case) -> Result<Outcome> {
        let (mut checksum, mut sum) = (0u64, 0i64);
        let width = 2 * case.shape().width;
        let mut take = |block: &[u8]| {
            for result in block.chunks_exact(width) {
                checksum = checksum.wrapping_add(hash(result));
                let values = result.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok());
                sum += values.map(|bytes| i64::from(i32::from_le_bytes(bytes))).sum::<i64>();
            }
        };
        let (rows, spilled_bytes) = self.join(design, case, &mut take)?;
        Ok(Outcome { rows, checksum, sum, spilled_bytes })
    }

    /// Joins from disk. Returns the number of results, and the bytes that were written to files.
    fn join(&self, design: Design, case: &Case, take: &mut dyn FnMut(&[u8])) -> Result<(u64, u64)> {
        let [first, second] = case.queries();
        let (inner, outer) = if case.is_first_inner() { (first, second) } else { (second, first) };
        let (stored, settings) = (self.stores.of(design)?, self.stores.settings());
        let folder = SpillFolder::new(self.spill.clone(), settings);
        let join = HybridJoin::new(case.shape(), case.shape(), case.memory, folder)?;
        let mut output = Output::new(settings.block_rows, take);
        let mut build = join.build(case.inner_tuples());
        stored.scan(&inner, Scan { is_cold: true, settings, take: &mut |block| build.insert(block) })?;
        let mut probe = build.probe()?;
        stored.scan(&outer, Scan { is_cold: true, settings, take: &mut |block| probe.probe(block, &mut output) })?;
        probe.finish(&mut output)?;
        Ok((output.end(), join.spilled_bytes()))
    }
}

/// The engine, which joins the same rows by SQL.
struct Answers {
    engine: Engine,
    file: std::path::PathBuf,
}

impl Answers {
    fn new(options: &RunOptions, workspace: &Workspace, rows: usize) -> Result<Answers> {
        let file = workspace.path("table.parquet");
        let table = Generated::NarrowE;
        freestone_data::write_parquet(&file, table.schema(), table.batches(rows, 1))?;
        let engine = Engine::open(&workspace.path("database"), options.engine_options())?;
        Ok(Answers { engine, file })
    }

    fn check(&self, case: &Case, found: &Outcome) -> Result<()> {
        let (expected, found) = (self.engine.text(&case.sql(&self.file))?, format!("{} {}", found.rows, found.sum));
        if expected.trim() == found {
            return Ok(());
        }
        let (title, expected) = (case.title(), expected.trim());
        Err(LabError::Answers(format!("{title}: the join has {found} (results, sum of values), SQL has {expected}")))
    }
}
