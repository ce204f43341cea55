//! The Star Schema Benchmark's 13 queries on designs of its fact table: equal answers, sizes, times, and the work of
//! the scans.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Experiment, RunOptions, quoted};
use crate::Notify;
use crate::error::{LabError, Result};
use freestone_data::queries::{SSB_SCHEMA, ssb_queries};
use freestone_data::ssb;
use freestone_demo::engine::{Answer, Engine, Repeat};
use freestone_report::findings::{Cell, Check, Part, Table, megabytes, milliseconds, significant, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ssb",
    title: "The Star Schema Benchmark on designs of its fact table",
    shows: "All 13 queries give the same answers on every design; sizes, times, and the rows, zones and bytes read.",
    source: "O'Neil, O'Neil and Chen, Star Schema Benchmark, revision 3, 2009; synthetic data after its specification",
    size: "--scale 0.1, --design \"sort = 'lo_orderdate'\" for further designs",
    run,
};

const SCALE: f64 = 0.1;
const REPEAT: Repeat = Repeat { least: 3, most: 7, budget: Duration::from_secs(1) };

/// Clustered by the four dimensions that the queries restrict.
pub(super) const CLUSTERED: &str = "design = 'column', sort = '', \
    cluster = 'lo_orderdate.d_year:7, lo_custkey.c_region:3, lo_suppkey.s_region:3, lo_partkey.p_category:3'";

/// The names and options of lineorder's designs, to which a run may add. The others must give the answers of the first.
const DESIGNS: [(&str, &str); 6] = [
    ("auto", "design = 'auto'"),
    ("row", "design = 'row'"),
    ("pax", "design = 'pax'"),
    ("sorted by date", "design = 'column', sort = 'lo_orderdate'"),
    ("sorted by part", "design = 'column', sort = 'lo_partkey'"),
    ("clustered", CLUSTERED),
];

/// The size and load time of one design; for each query its answer, time and counters.
struct OfDesign {
    name: String,
    options: String,
    bytes: u64,
    convert_seconds: f64,
    answers: Vec<Answer>,
    times: Vec<f64>,
    read: Vec<Counters>,
}

/// The counters of lineorder's scan, from EXPLAIN ANALYZE.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counters {
    zones: f64,
    zones_pruned: f64,
    rows_scanned: f64,
    rows_selected: f64,
    bytes_used: f64,
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let scale = options.scale.unwrap_or(SCALE);
    let data = data(options, scale, notify)?;
    let workspace = options.workspace("ssb")?;
    let engine = Engine::open(&workspace.path("db"), options.engine_options())?;
    notify("loading five tables");
    let start = Instant::now();
    load(&engine, &data)?;
    let load_seconds = start.elapsed().as_secs_f64();
    let mut results = vec![];
    let given = options.designs.iter().enumerate();
    let given = given.map(|(at, design)| (format!("given {}", at + 1), design.clone()));
    for (name, design) in DESIGNS.map(|(name, design)| (name.to_owned(), design.to_owned())).into_iter().chain(given) {
        notify(&format!("converting lineorder to {name}, and querying"));
        results.push(measure(&engine, name, design)?);
    }
    let checks = results.iter().skip(1).map(|result| compare(result, &results[0])).collect();
    let text = format!(
        "Synthetic data, seed {}; loading all five tables took {load_seconds:.1} s. Times are medians, hot, from text to \
         last batch.",
        ssb::SEED
    );
    let mut parts = vec![Part::section(format!("Scale factor {scale}"), text), Part::checks(checks)];
    parts.push(sizes(&results));
    parts.push(times(&results));
    parts.extend(results.iter().map(read));
    Ok(parts)
}

/// The folder of the five Parquet files, which remain for the next run.
pub(super) fn data(options: &RunOptions, scale: f64, notify: Notify<'_>) -> Result<PathBuf> {
    let folder = options.output.join(format!("ssb-data-sf{scale}-seed{}", ssb::SEED));
    if ssb::tables().iter().any(|table| !folder.join(format!("{table}.parquet")).exists()) {
        notify(&format!("generating data, scale factor {scale}"));
        ssb::write_parquet(&folder, scale, ssb::SEED)?;
    }
    Ok(folder)
}

/// Creates the tables with their keys and loads them from Parquet.
pub(super) fn load(engine: &Engine, data: &Path) -> Result<()> {
    engine.run_script(SSB_SCHEMA)?;
    for table in ssb::tables() {
        let file = quoted(&data.join(format!("{table}.parquet")));
        engine.run(&format!("COPY {table} FROM '{file}' (FORMAT parquet)"))?;
    }
    Ok(())
}

fn measure(engine: &Engine, name: String, options: String) -> Result<OfDesign> {
    let start = Instant::now();
    engine.run(&format!("ALTER TABLE lineorder SET DESIGN ({options})"))?;
    let convert_seconds = start.elapsed().as_secs_f64();
    let queries = ssb_queries();
    let answers: Result<_> = queries.iter().map(|(_, sql)| Ok(engine.answer(sql)?)).collect();
    let times: Result<_> = queries.iter().map(|(_, sql)| Ok(engine.median_ms(sql, REPEAT)?)).collect();
    let read: Result<_> = queries.iter().map(|(_, sql)| explain(engine, sql)).collect();
    let bytes = engine.table_bytes("lineorder")?;
    Ok(OfDesign { name, options, bytes, convert_seconds, answers: answers?, times: times?, read: read? })
}

fn explain(engine: &Engine, sql: &str) -> Result<Counters> {
    let plan = engine.text(&format!("EXPLAIN (ANALYZE, FORMAT traditional) {sql}"))?;
    fact_scan(&plan).ok_or_else(|| LabError::Answers(format!("EXPLAIN ANALYZE tells of no scan: {plan}")))
}

/// The counters of lineorder's scan in a plan.
fn fact_scan(plan: &str) -> Option<Counters> {
    let line = plan.lines().find(|line| line.contains("table=lineorder,"))?;
    Some(Counters {
        zones: counter(line, "zones")?,
        zones_pruned: counter(line, "zones_pruned")?,
        rows_scanned: counter(line, "rows_scanned")?,
        rows_selected: counter(line, "rows_selected")?,
        bytes_used: counter(line, "bytes_used")?,
    })
}

/// The value after `name=`, which may be abbreviated, as in `1.23 M`.
pub(super) fn counter(line: &str, name: &str) -> Option<f64> {
    let at = line.match_indices(&format!("{name}=")).find(|(at, _)| line[..*at].ends_with([' ', '[']))?.0;
    let value = line[at + name.len() + 1..].split([',', ']']).next()?;
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    let factor = match unit {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "B" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

fn compare(result: &OfDesign, expected: &OfDesign) -> Check {
    let names = ssb_queries().map(|(name, _)| name);
    let pairs = names.iter().zip(result.answers.iter().zip(&expected.answers));
    let different: Vec<&str> = pairs.filter(|(_, (a, b))| a != b).map(|(name, _)| *name).collect();
    let detail =
        if different.is_empty() { "13 of 13 equal".into() } else { format!("different: {}", different.join(", ")) };
    Check::new(format!("{} answers as {}", result.name, expected.name), different.is_empty(), detail)
}

fn sizes(results: &[OfDesign]) -> Part {
    let header = ["design", "options", "size", "conversion, s", "13 queries, ms", "geometric mean, ms"];
    let mut table = Table::new("lineorder", 2, &header);
    for result in results {
        let logarithms: f64 = result.times.iter().map(|time| time.ln()).sum();
        table.push([
            result.name.clone(),
            result.options.clone(),
            megabytes(result.bytes),
            format!("{:.2}", result.convert_seconds),
            significant(result.times.iter().sum()),
            significant((logarithms / result.times.len() as f64).exp()),
        ]);
    }
    Part::Table(table)
}

fn times(results: &[OfDesign]) -> Part {
    let header: Vec<&str> = std::iter::once("query").chain(results.iter().map(|result| result.name.as_str())).collect();
    let mut table = Table::new("Milliseconds", 1, &header);
    for (at, (name, _)) in ssb_queries().iter().enumerate() {
        let values: Vec<f64> = results.iter().map(|result| result.times[at]).collect();
        table.push(std::iter::once(Cell::from(*name)).chain(milliseconds(&values)));
    }
    Part::Table(table)
}

fn read(result: &OfDesign) -> Part {
    let header = ["query", "rows scanned", "rows selected", "zones", "zones pruned", "bytes", "answer"];
    let mut table = Table::new(format!("Read of lineorder, {}", result.name), 1, &header);
    for (at, (query, _)) in ssb_queries().iter().enumerate() {
        let read = result.read[at];
        let count = |value: f64| thousands(value.round() as i128);
        table.push([
            (*query).to_owned(),
            count(read.rows_scanned),
            count(read.rows_selected),
            count(read.zones),
            count(read.zones_pruned),
            megabytes(read.bytes_used as u64),
            result.answers[at].to_string(),
        ]);
    }
    Part::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn every_design_answers_alike_and_data_is_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options =
            experiments::RunOptions { scale: Some(0.01), output: folder.path().to_owned(), ..Default::default() };
        let options = experiments::RunOptions { designs: vec!["page_size = '8KiB'".into()], ..options };
        let findings = experiments::run("ssb", &options, &|_| {}).expect("the run succeeds");
        assert_eq!(findings.checks().count(), DESIGNS.len());
        let wrong: Vec<_> = findings.checks().filter(|check| !check.holds).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let told = std::cell::RefCell::new(vec![]);
        data(&options, 0.01, &|text| told.borrow_mut().push(text.to_owned())).expect("the data is there");
        assert!(told.borrow().is_empty(), "{told:?}");
    }

    #[test]
    fn counters_are_read_from_plans() {
        let line = |table: &str, zones: &str| {
            format!(
                "  DataSourceExec: freestone table={table}, metrics=[bytes_used=2.00 K, rows_scanned=1.50 M, \
                 rows_selected=12, zones={zones}, zones_pruned=7, zones_whole=0]"
            )
        };
        let plan = format!("x\n{}\n{}\n", line("date", "12"), line("lineorder", "3.00 K"));
        let expected =
            Counters { zones: 3e3, zones_pruned: 7.0, rows_scanned: 1.5e6, rows_selected: 12.0, bytes_used: 2e3 };
        assert_eq!(fact_scan(&plan), Some(expected));
        assert_eq!(fact_scan("nothing"), None);
    }
}
