//! TPC-H's 22 queries on every design, and after random conversions. The answers must not change.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Experiment, RunOptions, quoted};
use crate::Notify;
use crate::error::{LabError, Result};
use freestone_data::queries::{TPCH_SCHEMA, tpch_queries};
use freestone_data::tpch_schema;
use freestone_demo::engine::{Answer, Engine, Repeat};
use freestone_report::findings::{Cell, Check, Part, Table, megabytes, milliseconds, significant, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "tpch",
    title: "TPC-H's queries on every design",
    shows: "All 22 queries give the same answers on every design and after conversions at random; sizes, loads and times.",
    source: "the rules of TPC-H for data and queries; not a TPC-H result, and not comparable with one",
    size: "--scale 0.1",
    run,
};

const SCALE: f64 = 0.1;
const REPEAT: Repeat = Repeat { least: 3, most: 5, budget: Duration::from_millis(500) };
const CONVERSIONS: usize = 2;
const DESIGNS: [&str; 7] = ["auto", "column", "row", "slotted", "pax", "groups", "sorted"];

/// The size and times of one design.
struct OfDesign {
    bytes: u64,
    load_seconds: f64,
    answers: Vec<Answer>,
    times: Vec<f64>,
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let scale = options.scale.unwrap_or(SCALE);
    let workspace = options.workspace("tpch")?;
    let data = workspace.path("data");
    notify(&format!("generating data, scale factor {scale}"));
    freestone_data::tpch::write_parquet(&data, scale)?;
    let mut results = vec![];
    for design in DESIGNS {
        notify(&format!("loading and querying {design}"));
        let database = workspace.path(design);
        let engine = Engine::open(&database, options.engine_options())?;
        results.push(measure(&engine, design, &data)?);
        drop(engine);
        // Only one design's database is on disk at a time.
        std::fs::remove_dir_all(&database).map_err(LabError::file(&database))?;
    }
    let expected = &results[0].answers;
    let engine = Engine::open(&workspace.path("converted"), options.engine_options())?;
    load(&engine, "auto", &data)?;
    let mut checks = vec![];
    for (design, result) in DESIGNS.iter().zip(&results).skip(1) {
        checks.push(compare(&format!("{design} answers as {}", DESIGNS[0]), &result.answers, expected));
    }
    let mut random = StdRng::seed_from_u64(22);
    for round in 1..=CONVERSIONS {
        notify(&format!("converting every table at random, round {round}"));
        let forms = convert(&engine, &mut random)?;
        let answers = answers(&engine)?;
        checks.push(compare(&format!("round {round} of conversions ({forms})"), &answers, expected));
    }
    let mut parts = vec![Part::section(
        format!("Scale factor {scale}"),
        "Every table is stored in the design; groups are three a table, sorted is columns sorted by a date or foreign key \
         with that column abstracted. Times are medians, hot, from text to last batch.",
    )];
    parts.push(Part::checks(checks));
    parts.push(loads(&results));
    parts.push(times(&results));
    parts.push(checksums(expected));
    Ok(parts)
}

fn measure(engine: &Engine, design: &str, data: &Path) -> Result<OfDesign> {
    let start = Instant::now();
    load(engine, design, data)?;
    let load_seconds = start.elapsed().as_secs_f64();
    let bytes: Result<Vec<u64>> = freestone_data::tables().iter().map(|table| Ok(engine.table_bytes(table)?)).collect();
    let answers = answers(engine)?;
    let times: Result<Vec<f64>> = tpch_queries().iter().map(|(_, sql)| Ok(engine.median_ms(sql, REPEAT)?)).collect();
    Ok(OfDesign { bytes: bytes?.iter().sum(), load_seconds, answers, times: times? })
}

/// Creates the tables with their keys, each in `design`, and loads them from Parquet.
fn load(engine: &Engine, design: &str, data: &Path) -> Result<()> {
    for statement in TPCH_SCHEMA.split_inclusive(";\n") {
        let Some((head, rest)) = statement.split_once("CREATE TABLE ") else { continue };
        let Some((table, _)) = rest.split_once(' ') else { continue };
        let body = statement[head.len()..].trim_end().trim_end_matches(';');
        engine.run(&format!("{body} WITH ({})", form(table, design)))?;
    }
    for table in freestone_data::tables() {
        let file = quoted(&data.join(format!("{table}.parquet")));
        engine.run(&format!("COPY {table} FROM '{file}' (FORMAT parquet)"))?;
    }
    Ok(())
}

/// A table's options for a design by name.
fn form(table: &str, design: &str) -> String {
    match design {
        "groups" => {
            let schema = tpch_schema(table).expect("the schema script names the generator's tables");
            let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let groups: Vec<String> =
                columns.chunks(columns.len().div_ceil(3)).map(|group| format!("({})", group.join(", "))).collect();
            format!("design = 'row', groups = '{}'", groups.join(", "))
        }
        "sorted" => format!("design = 'column', sort = '{}', levels = 1", sort_column(table)),
        preset => format!("design = '{preset}'"),
    }
}

fn sort_column(table: &str) -> &'static str {
    match table {
        "region" => "r_regionkey",
        "nation" => "n_regionkey",
        "part" => "p_size",
        "supplier" => "s_nationkey",
        "partsupp" => "ps_suppkey",
        "customer" => "c_nationkey",
        "orders" => "o_orderdate",
        _ => "l_shipdate",
    }
}

fn answers(engine: &Engine) -> Result<Vec<Answer>> {
    tpch_queries().iter().map(|(_, sql)| Ok(engine.answer(sql)?)).collect()
}

/// Converts every table to another design, and returns that of lineitem.
fn convert(engine: &Engine, random: &mut StdRng) -> Result<String> {
    let mut last = String::new();
    for table in freestone_data::tables() {
        let design = DESIGNS[random.random_range(0..DESIGNS.len())];
        engine.run(&format!("ALTER TABLE {table} SET DESIGN ({})", form(table, design)))?;
        last = format!("lineitem is {design}");
    }
    Ok(last)
}

fn compare(statement: &str, answers: &[Answer], expected: &[Answer]) -> Check {
    let names = tpch_queries().map(|(name, _)| name);
    let pairs = names.iter().zip(answers.iter().zip(expected));
    let different: Vec<&str> = pairs.filter(|(_, (a, b))| a != b).map(|(name, _)| *name).collect();
    let detail =
        if different.is_empty() { "22 of 22 equal".into() } else { format!("different: {}", different.join(", ")) };
    Check::new(statement, different.is_empty(), detail)
}

fn loads(results: &[OfDesign]) -> Part {
    let mut table =
        Table::new("Eight tables", 1, &["design", "size", "load, s", "22 queries, ms", "geometric mean, ms"]);
    for (design, result) in DESIGNS.iter().zip(results) {
        let logarithms: f64 = result.times.iter().map(|time| time.ln()).sum();
        table.push([
            (*design).to_owned(),
            megabytes(result.bytes),
            format!("{:.2}", result.load_seconds),
            significant(result.times.iter().sum()),
            significant((logarithms / result.times.len() as f64).exp()),
        ]);
    }
    Part::Table(table)
}

fn times(results: &[OfDesign]) -> Part {
    let header: Vec<&str> = std::iter::once("query").chain(DESIGNS).collect();
    let mut table = Table::new("Milliseconds", 1, &header);
    for (at, (name, _)) in tpch_queries().iter().enumerate() {
        let values: Vec<f64> = results.iter().map(|result| result.times[at]).collect();
        table.push(std::iter::once(Cell::from(*name)).chain(milliseconds(&values)));
    }
    Part::Table(table)
}

fn checksums(answers: &[Answer]) -> Part {
    let mut table = Table::new("Answers: multisets of rows", 2, &["query", "checksum", "rows"]);
    for ((name, _), answer) in tpch_queries().iter().zip(answers) {
        table.push([(*name).to_owned(), format!("{:016x}", answer.checksum), thousands(answer.rows)]);
    }
    Part::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn every_design_answers_alike() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options =
            experiments::RunOptions { scale: Some(0.003), output: folder.path().to_owned(), ..Default::default() };
        let findings = experiments::run("tpch", &options, &|_| {}).expect("the run succeeds");
        assert_eq!(findings.checks().count(), DESIGNS.len() - 1 + CONVERSIONS);
        let wrong: Vec<_> = findings.checks().filter(|check| !check.holds).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn different_answers_are_named() {
        let answers = vec![Answer { rows: 1, checksum: 1 }; 22];
        let mut others = answers.clone();
        others[4].checksum = 2;
        assert_eq!(compare("x", &others, &answers).detail, "different: q05");
    }
}
