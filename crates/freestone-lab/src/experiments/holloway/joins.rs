//! Hybrid hash join of Narrow-E with itself, from rows and from columns, with early materialization: the tables' scans
//! produce whole tuples, which the join then reads. The inner table fits in memory, as in the paper, so no bucket is
//! spilled.

use std::hint::black_box;
use std::time::Instant;

use freestone_store::scan::{TupleBlock, TupleLayout};

use super::{Generated, ROWS, form, store, table_name};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::scanner::{Pick, Query, ScanSettings, Scanner, Source};
use crate::experiments::{Experiment, RunOptions};
use freestone_demo::engine::{Engine, median};
use freestone_report::findings::{Bar, BarGroup, Bars, Cell, Check, Part, TIE, Table, significant, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "holloway-joins",
    title: "Hash joins from rows and from columns",
    shows: "A hybrid hash join of Narrow-E with itself at four pairs of selectivities: the join costs the same, the scans differ.",
    source: "Holloway and DeWitt 2008, section 6.9, Figure 10",
    size: "--rows 1000000",
    run,
};

const PLACE: &str = "Holloway and DeWitt 2008, 6.9, Figure 10";
const DESIGNS: [&str; 2] = ["row", "column"];
/// The percentage of rows that each scan selects.
const PAIRS: [(u32, u32); 4] = [(100, 100), (100, 10), (10, 100), (10, 10)];
/// The rows per value of the join's column in the paper: 60 million over 20,655,176 values.
const DUPLICATES: f64 = 2.9;
const RUNS: usize = 3;
const BLOCK_ROWS: usize = 100;

/// A join: its columns, by position in the table, and its shares of rows.
#[derive(Clone)]
struct Case {
    key: usize,
    columns: usize,
    percents: (u32, u32),
}

/// Milliseconds from disk, as medians.
#[derive(Clone, Copy, Default)]
struct Times {
    scans: f64,
    whole: f64,
    rows: u64,
}

impl Times {
    fn join(&self) -> f64 {
        self.whole - self.scans
    }
}

impl Case {
    fn title(&self) -> String {
        format!("{} columns each, {}/{}", self.columns, self.percents.0, self.percents.1)
    }

    /// The scans of both tables: the column with the predicate first, then the key, then the additional columns of the
    /// wide case.
    fn queries(&self) -> [Query; 2] {
        let query = |first: usize, others: [usize; 2], percent: u32| {
            let more = others.into_iter().filter(|column| *column != self.key).chain([8]);
            let columns = [first, self.key].into_iter().chain(more).take(self.columns).collect();
            let selectivity = f64::from(percent) / 100.0;
            Query { columns, pick: if percent == 100 { Pick::All } else { Pick::Calls { predicates: 1, selectivity } } }
        };
        [query(1, [0, 2], self.percents.0), query(4, [6, 9], self.percents.1)]
    }
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let workspace = options.workspace("holloway-joins")?;
    let table = Generated::NarrowE;
    let forms = DESIGNS.map(|design| (design, form(table, design)));
    store(&workspace, options, table, &forms, notify)?;
    let key = key_column(rows);
    let scanner = Scanner::open(&workspace.path("database"), ScanSettings::default())?;
    let bandwidth = scanner.bandwidth(&table_name(table, "row"))?;
    let mut measured = vec![];
    for columns in [2, 4] {
        for percents in PAIRS {
            let case = Case { key, columns, percents };
            notify(&format!("joining {}", case.title()));
            measured.push((case.clone(), measure(&scanner, &case)?));
        }
    }
    check_answer(options, &workspace.path("database"), key, measured[0].1[0].rows)?;
    let text = format!(
        "SELECT … FROM Narrow-E a, Narrow-E b WHERE a.c{0} = b.c{0}, and every tenth call of a predicate on a.c2 or b.c5 passes \
         where 10 % are wanted. c{0} is the column whose values have nearest to the {DUPLICATES} rows each that the paper's \
         c9 has at 60 million rows. One thread, cold at {bandwidth:.0} MB/s, medians of {RUNS}. The inner table is the one of \
         which fewer rows pass; the scans alone are timed as well, and what is left is the join.",
        key + 1
    );
    Ok(vec![
        Part::section("Joins", text),
        Part::checks(claims(&measured)),
        Part::Bars(bars(&measured)),
        Part::Table(in_numbers(&measured)),
    ])
}

/// The column whose number of rows per value is nearest to the paper's.
fn key_column(rows: usize) -> usize {
    let distance = |range: &u32| (rows as f64 / f64::from(*range) / DUPLICATES).ln().abs();
    let ranges = Generated::NarrowE.ranges();
    let nearest = ranges.iter().enumerate().min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    // The predicates are on c2 and c5.
    nearest.map_or(6, |(column, _)| if [1, 4].contains(&column) { column + 1 } else { column })
}

/// By design.
fn measure(scanner: &Scanner, case: &Case) -> Result<[Times; 2]> {
    let tables = DESIGNS.map(|design| table_name(Generated::NarrowE, design));
    let mut runs: [Vec<(f64, f64)>; 2] = [vec![], vec![]];
    let mut rows = [0; 2];
    for _ in 0..RUNS {
        for (design, table) in tables.iter().enumerate() {
            let [first, second] = case.queries();
            let scans = scanner.time(table, &first, Source::Disk)?.ms + scanner.time(table, &second, Source::Disk)?.ms;
            let start = Instant::now();
            rows[design] = join(scanner, table, case)?;
            runs[design].push((scans, start.elapsed().as_secs_f64() * 1e3));
        }
    }
    if rows[0] != rows[1] {
        return Err(LabError::Answers(format!(
            "{}: rows join to {} tuples, columns to {}",
            case.title(),
            rows[0],
            rows[1]
        )));
    }
    let times = |design: usize| Times {
        scans: median(runs[design].iter().map(|run| run.0).collect()),
        whole: median(runs[design].iter().map(|run| run.1).collect()),
        rows: rows[design],
    };
    Ok([times(0), times(1)])
}

/// Joins, with the result tuples in blocks that are discarded. Returns their number.
fn join(scanner: &Scanner, table: &str, case: &Case) -> Result<u64> {
    let [first, second] = case.queries();
    let (inner, outer) = if case.percents.0 < case.percents.1 { (first, second) } else { (second, first) };
    let mut buckets = Inner::default();
    scanner.run(table, &inner, Source::Disk, |layout, block| buckets.insert(layout, block))?;
    buckets.link();
    let mut output = Output { tuples: vec![], count: 0 };
    scanner.run(table, &outer, Source::Disk, |layout, block| buckets.probe(layout, block, &mut output))?;
    Ok(output.count)
}

/// The inner table's tuples by key: chains of tuples with equal key hashes.
#[derive(Default)]
struct Inner {
    width: usize,
    tuples: Vec<u8>,
    keys: Vec<i32>,
    /// By hash, the number of the first tuple plus 1; 0 is none.
    heads: Vec<u32>,
    /// By tuple, the number of the next one plus 1.
    next: Vec<u32>,
}

/// A block of result tuples, and their number.
struct Output {
    tuples: Vec<u8>,
    count: u64,
}

/// The key's position in the queries' columns.
const KEY: usize = 1;

fn key(layout: &TupleLayout, block: &TupleBlock, row: usize) -> i32 {
    let bytes = layout.value(block, row, KEY).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, i32::from_le_bytes)
}

impl Inner {
    fn insert(&mut self, layout: &TupleLayout, block: &TupleBlock) {
        self.width = layout.width();
        self.tuples.extend_from_slice(block.tuples());
        self.keys.extend((0..block.rows()).map(|row| key(layout, block, row)));
    }

    fn link(&mut self) {
        self.heads = vec![0; (self.keys.len() * 2).next_power_of_two()];
        self.next = vec![0; self.keys.len()];
        for (at, key) in self.keys.iter().enumerate() {
            let slot = self.slot(*key);
            self.next[at] = std::mem::replace(&mut self.heads[slot], at as u32 + 1);
        }
    }

    fn slot(&self, key: i32) -> usize {
        let hash = (key as u32).wrapping_mul(0x9E37_79B1);
        ((u64::from(hash) * self.heads.len() as u64) >> 32) as usize
    }

    fn probe(&self, layout: &TupleLayout, block: &TupleBlock, output: &mut Output) {
        for (row, tuple) in block.tuples().chunks_exact(layout.width()).enumerate() {
            let key = key(layout, block, row);
            let mut at = self.heads[self.slot(key)] as usize;
            while at > 0 {
                if self.keys[at - 1] == key {
                    output.push(tuple, &self.tuples[(at - 1) * self.width..at * self.width]);
                }
                at = self.next[at - 1] as usize;
            }
        }
    }
}

impl Output {
    fn push(&mut self, outer: &[u8], inner: &[u8]) {
        if self.count.is_multiple_of(BLOCK_ROWS as u64) {
            black_box(&self.tuples);
            self.tuples.clear();
        }
        self.tuples.extend_from_slice(outer);
        self.tuples.extend_from_slice(inner);
        self.count += 1;
    }
}

/// The engine's own join must find the same number of rows.
fn check_answer(options: &RunOptions, database: &std::path::Path, key: usize, rows: u64) -> Result<()> {
    let engine = Engine::open(database, options.engine_options())?;
    let name = table_name(Generated::NarrowE, "column");
    let counted = engine.text(&format!("SELECT count(*) FROM {name} a JOIN {name} b ON a.c{0} = b.c{0}", key + 1))?;
    if counted.trim() != rows.to_string() {
        return Err(LabError::Answers(format!("the join has {rows} rows, SQL counts {}", counted.trim())));
    }
    Ok(())
}

fn claims(measured: &[(Case, [Times; 2])]) -> Vec<Check> {
    let mut checks = vec![];
    for (case, [row, column]) in measured {
        let ratio = row.join().max(column.join()) / row.join().min(column.join()).max(1e-9);
        let check = Check::new(
            format!("{}: the join itself costs as much from rows as from columns (within a quarter)", case.title()),
            ratio <= 1.25,
            format!("rows {} ms, columns {} ms", significant(row.join()), significant(column.join())),
        );
        let why = format!(
            "the join is what is left of the whole ({} and {} ms) without the scans ({} and {} ms): a difference of two times, and \
             scans that share a cache with a hash table find less of the cache",
            significant(row.whole),
            significant(column.whole),
            significant(row.scans),
            significant(column.scans)
        );
        checks.push(check.claimed(PLACE).or_because(why));
    }
    let agrees = |times: &[Times; 2]| (times[0].scans < times[1].scans) == (times[0].whole < times[1].whole);
    let count = measured.iter().filter(|(_, times)| agrees(times)).count();
    let check = Check::new(
        "the design with the faster scans has the faster join",
        count == measured.len(),
        format!("in {count} of {} cases", measured.len()),
    );
    let other = measured.iter().filter(|(_, times)| !agrees(times));
    let other = other.map(|(case, [row, column])| {
        let [row_scans, row, column_scans, column] =
            [row.scans, row.whole, column.scans, column.whole].map(significant);
        format!("{}: {row_scans} of {row} ms from rows, {column_scans} of {column} ms from columns", case.title())
    });
    let why = format!(
        "where they disagree, the scans are the lesser part of the join, and its own time varies by more than they differ: {}",
        other.collect::<Vec<_>>().join("; ")
    );
    checks.push(check.claimed(PLACE).or_because(why));
    checks
}

fn bars(measured: &[(Case, [Times; 2])]) -> Bars {
    let group = |(case, times): &(Case, [Times; 2])| BarGroup {
        label: case.title(),
        note: format!("{} result tuples", thousands(times[0].rows)),
        bars: DESIGNS
            .iter()
            .zip(times)
            .flat_map(|(design, times)| {
                [("join", times.whole, false), ("scans alone", times.scans, true)]
                    .map(|(what, value, is_reference)| Bar { label: format!("{design}, {what}"), value, is_reference })
            })
            .collect(),
    };
    Bars {
        title: "Joins, and their scans alone".into(),
        unit: "ms".into(),
        tie: TIE,
        groups: measured.iter().map(group).collect(),
    }
}

fn in_numbers(measured: &[(Case, [Times; 2])]) -> Table {
    let header = ["join", "tuples", "row", "its scans", "its join", "column", "its scans", "its join"];
    let mut table = Table::new("Milliseconds, cold", 1, &header);
    for (case, times) in measured {
        let cells = [Cell::from(case.title()), Cell::from(thousands(times[0].rows))].into_iter();
        let of_design = times.iter().flat_map(|t| [t.whole, t.scans, t.join()].map(|ms| Cell::from(significant(ms))));
        table.push(cells.chain(of_design.collect::<Vec<_>>()));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn the_key_has_the_papers_duplicates() {
        assert_eq!(key_column(60_000_000), 8, "c9, as in the paper");
        assert_eq!(key_column(1_000_000), 6);
        for rows in [100, 20_000, 1_000_000, 1 << 40] {
            let case = Case { key: key_column(rows), columns: 4, percents: (100, 10) };
            for query in case.queries() {
                let mut columns = query.columns.clone();
                columns.sort_unstable();
                columns.dedup();
                assert_eq!(columns.len(), 4, "{rows}: {query:?}");
            }
        }
    }

    #[test]
    fn a_tiny_run_joins_as_sql_does() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options =
            experiments::RunOptions { rows: Some(20_000), output: folder.path().to_owned(), ..Default::default() };
        let findings = experiments::run("holloway-joins", &options, &|_| {}).expect("the run succeeds");
        assert_eq!(findings.checks().count(), 9);
    }
}
