//! The gain of the advised design over the best preset, predicted and measured.

use std::time::Instant;

use freestone::Advice;
use freestone_advisor::advice::Proposal;
use freestone_store::design::{Design, Preset};

use super::{Experiment, RunOptions, Workspace, quoted, ssb};
use crate::Notify;
use crate::error::{LabError, Result};
use freestone_data::queries::ssb_queries;
use freestone_data::wide;
use freestone_demo::engine::{Answer, Engine, median};
use freestone_report::findings::{Cell, Check, Part, Table, megabytes, milliseconds, significant};

pub const EXPERIMENT: Experiment = Experiment {
    name: "advice",
    title: "Where layout pays",
    shows: "Fetches of few and many columns, whole rows and narrow scans, a star schema: what advice promises over the best \
            preset, and what it brings.",
    source: "this project's; after Holloway and DeWitt 2008, section 6, and the storage selection wizard of Halverson et al. 2006",
    size: "--rows 1000000, --scale 0.5 of SSB",
    run,
};

const ROWS: usize = 1_000_000;
const SCALE: f64 = 0.5;
/// The number of runs of the workload that are logged, and of runs of its queries in each design after one warm-up run.
const RUNS: usize = 7;
const PRESETS: [(&str, Preset); 4] =
    [("auto", Preset::Auto), ("row", Preset::Row), ("column", Preset::Column), ("pax", Preset::Pax)];
/// The tolerated difference of a gain, as a share of the predicted one.
const TOLERANCE: f64 = 0.25;

/// Weighted queries of one table.
struct Work {
    title: &'static str,
    table: &'static str,
    queries: Vec<(usize, String)>,
}

type WorkSource = fn(&RunOptions, &Workspace, Notify<'_>) -> Result<(Work, Engine)>;

/// A design that was tried on the whole table.
struct MeasuredDesign<'a> {
    name: &'static str,
    proposal: &'a Proposal,
    /// Predicted milliseconds of the workload.
    promised_ms: f64,
    measured_ms: f64,
    bytes: u64,
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let workspace = options.workspace("advice")?;
    let mut parts = vec![Part::section(
        "What is promised, and what comes",
        "Each workload runs on a table as `auto` stores it, once that does not count and seven times that are logged; advice is by \
         the log. Then the whole table is converted to each preset and at last to what is advised, as conversions keep the order of \
         rows that they find, and queries run in turns in each: medians from text to last batch, weighted. \
         What is promised is the time of whole statements that the advice predicts of each design.",
    )];
    for made in [crossover as WorkSource, mixed, star] {
        let (work, engine) = made(options, &workspace, notify)?;
        parts.extend(claims(&engine, &work, notify)?);
    }
    Ok(parts)
}

/// The queries of Holloway and DeWitt 2008: few or many columns of the rows that a predicate selects.
fn crossover(options: &RunOptions, workspace: &Workspace, notify: Notify<'_>) -> Result<(Work, Engine)> {
    let engine = wide_table(options, workspace, "crossover", wide::COLUMNS, notify)?;
    let list = |first: usize, count: usize| {
        (0..count).map(|at| format!("c{}", (first + at) % wide::COLUMNS + 1)).collect::<Vec<_>>().join(", ")
    };
    let query = |(weight, count, thousandths): (usize, usize, u32)| {
        let columns = list(count * 7 + thousandths as usize, count);
        (weight, format!("SELECT {columns} FROM t WHERE c1 < {}", wide::VALUES / 1000 * thousandths))
    };
    let queries = [(10, 2, 100), (3, 10, 10), (3, 25, 10), (10, 50, 1), (3, 50, 10), (1, 50, 100)].map(query).to_vec();
    Ok((Work { title: "Few and many columns of the rows of one predicate", table: "t", queries }, engine))
}

/// Whole rows by a key, ranges of another column, and reports on few columns.
fn mixed(options: &RunOptions, workspace: &Workspace, notify: Notify<'_>) -> Result<(Work, Engine)> {
    let engine = wide_table(options, workspace, "mixed", 16, notify)?;
    let queries = [
        (20, "SELECT * FROM t WHERE c1 BETWEEN 5000 AND 5100"),
        (20, "SELECT * FROM t WHERE c1 BETWEEN 700000 AND 700100"),
        (5, "SELECT c2, c3, c1 FROM t WHERE c1 BETWEEN 100000 AND 120000"),
        (2, "SELECT c7 % 10, count(*), sum(c2) FROM t GROUP BY 1"),
        (2, "SELECT sum(c5 + c6) FROM t WHERE c8 < 500000"),
    ];
    let queries = queries.map(|(weight, sql)| (weight, sql.to_owned())).to_vec();
    Ok((Work { title: "Whole rows and narrow scans", table: "t", queries }, engine))
}

/// The 13 queries of the Star Schema Benchmark. Its fact table may be clustered over foreign keys.
fn star(options: &RunOptions, workspace: &Workspace, notify: Notify<'_>) -> Result<(Work, Engine)> {
    let data = ssb::data(options, options.scale.unwrap_or(SCALE), notify)?;
    let engine = Engine::open(&workspace.path("star"), options.engine_options())?;
    notify("loading a star schema");
    ssb::load(&engine, &data)?;
    let queries = ssb_queries().map(|(_, sql)| (1, sql.to_owned())).to_vec();
    Ok((Work { title: "The Star Schema Benchmark", table: "lineorder", queries }, engine))
}

/// A database with a table `t` of random integers.
fn wide_table(
    options: &RunOptions,
    workspace: &Workspace,
    name: &str,
    columns: usize,
    notify: Notify<'_>,
) -> Result<Engine> {
    notify(&format!("storing a table of {columns} columns"));
    let file = workspace.path(&format!("{name}.parquet"));
    let rows = options.rows.unwrap_or(ROWS);
    freestone_data::write_parquet(&file, wide::schema_of(columns), wide::table_of(columns, rows, 1))?;
    let engine = Engine::open(&workspace.path(name), options.engine_options())?;
    engine.run(&format!("CREATE TABLE t AS SELECT * FROM '{}'", quoted(&file)))?;
    Ok(engine)
}

/// Runs the workload, gets advice, and tries the advised design and the presets.
fn claims(engine: &Engine, work: &Work, notify: Notify<'_>) -> Result<Vec<Part>> {
    notify(&format!("{}: running the workload", work.title));
    // Planning a query for the first time and reading its pages are not part of the comparison.
    engine.run("SET workload = 'off'")?;
    work.queries.iter().try_for_each(|(_, sql)| engine.run(sql).map(drop))?;
    engine.run("SET workload = 'on'")?;
    // Alternating: a query of twice the weight runs twice as often.
    let most = work.queries.iter().map(|(weight, _)| *weight).max().unwrap_or(0);
    for turn in (0..RUNS).flat_map(|_| 0..most) {
        let due = work.queries.iter().filter(|(weight, _)| turn < *weight);
        due.map(|(_, sql)| engine.run(sql)).try_for_each(|rows| rows.map(drop))?;
    }
    notify(&format!("{}: asking for advice", work.title));
    let advice = engine.advice(work.table)?;
    let mut tried = designs(&advice);
    let mut expected = vec![];
    for design in &mut tried {
        notify(&format!("{}: {}", work.title, design.name));
        engine.run(&design.proposal.apply)?;
        design.bytes = engine.table_bytes(work.table)?;
        compare(engine, work, design.name, &mut expected)?;
        design.measured_ms = time(engine, work)?;
    }
    Ok(report(work, &advice, &tried))
}

/// Milliseconds of the workload: the median of each query times its weight. Queries alternate, as those of users do,
/// because a repeated query finds its data in the processor's caches.
fn time(engine: &Engine, work: &Work) -> Result<f64> {
    let mut times = vec![vec![]; work.queries.len()];
    for run in 0..=RUNS {
        for ((_, sql), times) in work.queries.iter().zip(&mut times) {
            let start = Instant::now();
            engine.run(sql)?;
            times.extend((run > 0).then(|| start.elapsed().as_secs_f64() * 1e3));
        }
    }
    Ok(work.queries.iter().zip(times).map(|((weight, _), times)| *weight as f64 * median(times)).sum())
}

/// The presets, and the advised design last.
fn designs(advice: &Advice) -> Vec<MeasuredDesign<'_>> {
    let now_ms = advice.designs.first().and_then(|p| p.statements).map_or(0.0, |statements| statements.now_ms);
    let all = || std::iter::once(&advice.current).chain(&advice.designs);
    let preset = |(name, preset): (&'static str, Preset)| {
        let plain = Design::preset(preset);
        all().find(|proposal| proposal.design == plain).map(|proposal| MeasuredDesign::new(name, proposal, now_ms))
    };
    let mut found: Vec<MeasuredDesign<'_>> = PRESETS.into_iter().filter_map(preset).collect();
    let best = if advice.keep { &advice.current } else { advice.designs.first().unwrap_or(&advice.current) };
    found.push(MeasuredDesign::new("advised", best, now_ms));
    found
}

/// Compares the answers with those of the first design.
fn compare(engine: &Engine, work: &Work, name: &str, expected: &mut Vec<Answer>) -> Result<()> {
    let answers: Vec<Answer> = work.queries.iter().map(|(_, sql)| Ok(engine.answer(sql)?)).collect::<Result<_>>()?;
    if expected.is_empty() {
        *expected = answers;
    } else if *expected != answers {
        return Err(LabError::Answers(format!("{} answers otherwise as {name} than before", work.table)));
    }
    Ok(())
}

impl<'a> MeasuredDesign<'a> {
    /// `now_ms`: the time of the logged statements with the current design.
    fn new(name: &'static str, proposal: &'a Proposal, now_ms: f64) -> MeasuredDesign<'a> {
        let promised_ms = proposal.statements.map_or(now_ms, |statements| statements.then_ms) / RUNS as f64;
        MeasuredDesign { name, proposal, promised_ms, measured_ms: 0.0, bytes: 0 }
    }
}

fn report(work: &Work, advice: &Advice, tried: &[MeasuredDesign<'_>]) -> Vec<Part> {
    let mut table = Table::new(work.title, 1, &["design", "size", "promised, ms", "measured, ms"]);
    let measured: Vec<f64> = tried.iter().map(|design| design.measured_ms).collect();
    for (design, time) in tried.iter().zip(milliseconds(&measured)) {
        let cells = [design.name.to_owned(), megabytes(design.bytes), significant(design.promised_ms)];
        table.push(cells.map(Cell::from).into_iter().chain([time]));
    }
    let advised = tried.last().map_or("", |advised| &advised.proposal.apply);
    vec![Part::Table(table), Part::code("recommended statements", advised), Part::checks(verdicts(work, advice, tried))]
}

fn verdicts(work: &Work, advice: &Advice, tried: &[MeasuredDesign<'_>]) -> Vec<Check> {
    let Some((advised, presets)) = tried.split_last() else { return vec![] };
    let least = |times: Vec<f64>| times.into_iter().fold(f64::INFINITY, f64::min);
    let promised = least(presets.iter().map(|preset| preset.promised_ms).collect()) / advised.promised_ms;
    let brought = least(presets.iter().map(|preset| preset.measured_ms).collect()) / advised.measured_ms;
    let figures = format!("promised {promised:.2} times as fast, measured {brought:.2} times");
    let because = format!("the advice was: {}", advice.reason);
    vec![
        Check::new(
            format!("{}: the recommended design beats the best preset", work.title),
            brought > 1.0,
            figures.clone(),
        )
        .or_because(because.clone()),
        Check::new(
            format!("{}: by the margin that was promised, within a quarter", work.title),
            (promised / brought - 1.0).abs() <= TOLERANCE,
            figures,
        )
        .or_because(because),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn every_workload_is_advised_on_and_tried() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().to_owned();
        let options = experiments::RunOptions { rows: Some(20_000), scale: Some(0.01), output, ..Default::default() };
        let findings = experiments::run("advice", &options, &|_| {}).expect("the run succeeds");
        assert_eq!(findings.checks().count(), 6);
        for part in &findings.parts {
            let Part::Table(table) = part else { continue };
            assert!(table.rows.len() >= 4, "presets and what is advised: {table:?}");
            assert!(table.rows.iter().all(|row| row[2].text != "0"), "{table:?}");
        }
    }
}
