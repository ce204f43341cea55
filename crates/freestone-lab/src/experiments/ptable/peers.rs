//! The table next to engines of other makers, which the program of `bench/pmem` measures: they are no dependencies of this one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::{
    Attribute, PAPER, ROWS, Sizes, Tuples, Where, build, range, recovery, setup, time_points, time_scan, writes,
};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::{Experiment, RunOptions, apart};
use freestone_data::Random;
use freestone_demo::engine::median;
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, significant, thousands};
use freestone_store::persistent::Costs;

pub const EXPERIMENT: Experiment = Experiment {
    name: "ptable-peers",
    title: "Persistent memory: engines of other makers",
    shows: "Point queries, ranges, durable changes and the first row after the process was killed, next to PMDK's trees, RocksDB, LMDB, redb and SQLite.",
    source: "Götze, Baumann and Sattler 2018, sections V.B and V.C, Figures 4 and 5",
    size: "--rows 1000000 (and a tenth and a hundredth of them), --queries 20000 changes of each kind; needs cargo, and the peers' libraries",
    run,
};

const CHANGES: usize = 20_000;
const OURS: &str = "Freestone";
/// As in the program.
const REPEATS: usize = 5;
const POINTS: usize = 100_000;
const SHARES: [f64; 4] = [0.001, 0.01, 0.1, 1.0];
/// The time that compiling the peers may take.
const COMPILING: Duration = Duration::from_secs(600);
/// The folder of the peers' program in the repository.
const SOURCES: &str = "bench/pmem";
const TREES: &str = "/usr/share/doc/libpmemobj-dev/examples/tree_map/ctree_map.c";

/// An engine of another maker.
struct Peer {
    name: &'static str,
    /// The feature of the program that has it, a file that its library's package installs, and the package. `None` if it is
    /// compiled with the program.
    needs: Option<[&'static str; 3]>,
}

const PEERS: [Peer; 6] = [
    Peer { name: "PMDK ctree", needs: Some(["pmdk", TREES, "libpmemobj-dev"]) },
    Peer { name: "PMDK btree", needs: Some(["pmdk", TREES, "libpmemobj-dev"]) },
    Peer { name: "RocksDB", needs: Some(["rocksdb", "/usr/include/rocksdb/c.h", "librocksdb-dev"]) },
    Peer { name: "LMDB", needs: None },
    Peer { name: "redb", needs: None },
    Peer { name: "SQLite", needs: None },
];

/// Those of the paper's Figure 4 that can be had; and the one that cannot.
const OF_THE_PAPER: [&str; 2] = ["RocksDB", "PMDK ctree"];
const NO_PMEMKV: &str = "pmemkv's library is no longer maintained, and no package registry has it";

/// A line of the program's output.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Figure {
    figure: String,
    of: String,
    engine: String,
    unit: String,
    value: f64,
}

/// What was measured: the figures of all rows, and the point queries by rows, the fewest first.
#[derive(Debug, Default)]
struct Measured {
    figures: Vec<Figure>,
    points: Vec<(usize, Vec<Figure>)>,
    /// Engines that did not take part, with the reason.
    missing: Vec<(&'static str, String)>,
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    if options.latencies != [0, 0] {
        let text = "ptable-peers has no --latencies: the memory of other engines cannot be made slower";
        return Err(LabError::Usage(text.into()));
    }
    let rows = options.rows.unwrap_or(ROWS);
    let changes = options.queries.unwrap_or(CHANGES);
    let text = "Medians of five, one thread, each engine with its full durability, all in one folder: first this table, then the peers in \
                turn. PMDK's trees are those of its examples, in a pool of libpmemobj that flushes lines of the cache as this table does.";
    let mut parts = vec![setup(options, rows, None, text)];
    let mut measured = Measured { missing: missing(), ..Measured::default() };
    notify("compiling the peers of bench/pmem");
    match compiled(&measured.missing)? {
        Ok(program) => {
            measure(options, &program, [rows, changes], &mut measured, notify)?;
            parts.push(Part::checks(claims(&measured)));
            parts.extend(figures(&measured, changes));
        }
        Err(reason) => {
            measured.missing = PEERS.iter().map(|peer| (peer.name, reason.clone())).collect();
            parts.push(Part::checks(claims(&measured)));
        }
    }
    Ok(parts)
}

/// The peers whose libraries this machine does not have.
fn missing() -> Vec<(&'static str, String)> {
    let lacks = |peer: &Peer| {
        let [_, file, package] = peer.needs?;
        let reason = || format!("{file} is missing; `apt install {package}` brings it");
        (!Path::new(file).exists()).then(|| (peer.name, reason()))
    };
    PEERS.iter().filter_map(lacks).collect()
}

/// The program with the peers that this machine has, or the reason why there is none.
fn compiled(missing: &[(&str, String)]) -> Result<Result<PathBuf, String>> {
    let here = Path::new(SOURCES);
    let sources = match here.exists() {
        true => here.to_owned(),
        false => Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(SOURCES),
    };
    let Some(home) = std::env::var_os("HOME").filter(|_| sources.join("Cargo.toml").exists()) else {
        return Ok(Err(format!(
            "the sources of the peers, {SOURCES}, are not here; run this in the folder of the repository"
        )));
    };
    let target = Path::new(&home).join(".cache/freestone/pmem-target");
    let mut features: Vec<&str> = PEERS
        .iter()
        .filter(|peer| missing.iter().all(|(name, _)| *name != peer.name))
        .filter_map(|peer| Some(peer.needs?[0]))
        .collect();
    features.dedup();
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--quiet", "--features", &features.join(",")]).current_dir(&sources);
    command.env("CARGO_TARGET_DIR", &target).env_remove("CARGO_BUILD_BUILD_DIR");
    let program = target.join("release/pmem-peers");
    Ok(match apart::run(&mut command, COMPILING) {
        Ok(None) => Ok(program),
        Ok(Some(reason)) => Err(format!("the peers cannot be compiled: {reason}")),
        Err(LabError::Interrupted) => return Err(LabError::Interrupted),
        Err(error) => Err(format!("the peers cannot be compiled: {error}; install Rust with cargo")),
    })
}

/// All figures at all rows, and the point queries at fewer rows.
fn measure(
    options: &RunOptions,
    program: &Path,
    [rows, changes]: [usize; 2],
    measured: &mut Measured,
    notify: Notify<'_>,
) -> Result<()> {
    for part in [100, 10] {
        let few = (rows / part).max(100);
        notify(&format!("point queries of {few} rows"));
        let mut figures = ours(options, few, 0)?;
        figures.retain(|figure| figure.figure == "points");
        figures.extend(run_program(options, program, &[few, 0], Some("points"))?);
        measured.points.push((few, figures));
    }
    notify(&format!("all figures of {rows} rows"));
    measured.figures = ours(options, rows, changes)?;
    measured.figures.extend(run_program(options, program, &[rows, changes], None)?);
    let points = measured.figures.iter().filter(|figure| figure.figure == "points").cloned().collect();
    measured.points.push((rows, points));
    Ok(())
}

/// The figures of this table, as the program has those of the others.
fn ours(options: &RunOptions, rows: usize, changes: usize) -> Result<Vec<Figure>> {
    let workspace = options.workspace("ptable-peers")?;
    let figure = |figure: &str, of: String, unit: &str, value: f64| {
        let [figure, engine, unit] = [figure, OURS, unit].map(str::to_owned);
        Figure { figure, of, engine, unit, value }
    };
    let (path, tuples) = (workspace.path("pool"), Tuples::generate(rows));
    let table = build(options, Where::Pool, &path, &tuples, Sizes::of(rows))?;
    let points = (0..REPEATS).map(|_| time_points(&table, &tuples, POINTS)).collect::<Result<Vec<f64>>>()?;
    let mut figures = vec![figure("points", "whole row by its key".into(), "ns", median(points))];
    for share in SHARES {
        for (attribute, by) in [(Attribute::Key, "key"), (Attribute::Double, "the double")] {
            let once = |repeat: u64| -> Result<f64> {
                let from = f64::from(Random::new(repeat).below(1000)) / 1000.0;
                Ok(time_scan(&table, &range(attribute, rows, share, from), None, &Costs::default())?.0)
            };
            let times = (0..REPEATS as u64).map(once).collect::<Result<Vec<f64>>>()?;
            figures.push(figure("ranges", format!("{} %, by {by}", share * 100.0), "ms", median(times)));
        }
    }
    drop(table);
    let opening = recovery::time_opening(&path, &tuples)?;
    figures.push(figure("recovery", "after 0 changes and kill -9".into(), "ms", opening));
    if changes > 0 {
        let (path, tuples) = (workspace.path("changed"), Tuples::generate(rows + changes));
        let table = build(options, Where::Pool, &path, &tuples, Sizes::of(rows))?;
        let rates = writes::measure(&table, &tuples, rows, changes)?;
        let kinds = ["insert", "update", "delete"].map(str::to_owned);
        figures.extend(kinds.into_iter().zip(rates).map(|(kind, rate)| figure("changes", kind, "per second", rate)));
    }
    Ok(figures)
}

fn run_program(options: &RunOptions, program: &Path, sizes: &[usize], only: Option<&str>) -> Result<Vec<Figure>> {
    let workspace = options.workspace("ptable-peers")?;
    let mut command = Command::new(program);
    command.arg(&workspace.0).args(sizes.iter().map(usize::to_string)).args(only);
    // Of libpmemobj: flush lines of the cache, as this table does, and not pages of the file.
    command.env("PMEM_IS_PMEM_FORCE", "1").stderr(Stdio::inherit());
    let output = command.output().map_err(LabError::file(program))?;
    if !output.status.success() {
        let text =
            format!("the peers' program {} failed ({}); its messages are above", program.display(), output.status);
        return Err(LabError::Answers(text));
    }
    parse(&output.stdout).map_err(|source| LabError::Result { path: program.to_owned(), source })
}

fn parse(output: &[u8]) -> std::result::Result<Vec<Figure>, serde_json::Error> {
    output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(serde_json::from_slice).collect()
}

fn value(figures: &[Figure], figure: &str, of: &str, engine: &str) -> Option<f64> {
    let found = figures.iter().find(|f| f.figure == figure && f.of == of && f.engine == engine);
    found.map(|found| found.value)
}

/// The engines that have taken part, ours first.
fn engines(figures: &[Figure]) -> Vec<&str> {
    let mut names: Vec<&str> = vec![];
    for figure in figures {
        if !names.contains(&figure.engine.as_str()) {
            names.push(&figure.engine);
        }
    }
    names
}

fn claims(measured: &Measured) -> Vec<Check> {
    let mut checks = vec![];
    for peer in OF_THE_PAPER {
        checks.push(outperforms(measured, peer));
    }
    let place = || format!("{PAPER}, V.B, Figure 4");
    checks.push(Check::unmeasured("point queries: the table outperforms pmemkv", NO_PMEMKV).claimed(place()));
    checks.push(scales_better(measured, "RocksDB"));
    let unmeasured = "point queries: with more rows, pmemkv gets slower than the table does";
    checks.push(Check::unmeasured(unmeasured, NO_PMEMKV).claimed(place()));
    checks.extend(OF_THE_PAPER.iter().flat_map(|peer| scans_are_slower(measured, peer)));
    let others = PEERS.iter().filter(|peer| !OF_THE_PAPER.contains(&peer.name));
    checks.extend(others.map(|peer| Check { place: String::new(), ..outperforms(measured, peer.name) }));
    checks
}

/// The check of a statement about an engine, if that has taken part.
fn about(measured: &Measured, peer: &str, statement: String, check: impl FnOnce() -> Option<(bool, String)>) -> Check {
    let missing = measured.missing.iter().find(|(name, _)| *name == peer);
    match (missing, check()) {
        (Some((_, reason)), _) => Check::unmeasured(statement, reason),
        (None, Some((holds, detail))) => Check::new(statement, holds, detail),
        (None, None) => Check::unmeasured(statement, format!("{peer} has not taken part")),
    }
}

/// The nanoseconds of a point query by rows.
fn points(measured: &Measured, engine: &str) -> Option<Vec<f64>> {
    let of = |(_, figures): &(usize, Vec<Figure>)| value(figures, "points", "whole row by its key", engine);
    let found: Option<Vec<f64>> = measured.points.iter().map(of).collect();
    found.filter(|values| !values.is_empty())
}

fn outperforms(measured: &Measured, peer: &str) -> Check {
    let statement = format!("point queries: the table outperforms {peer} at each size");
    let check = about(measured, peer, statement, || {
        let (ours, theirs) = (points(measured, OURS)?, points(measured, peer)?);
        let list = measured.points.iter().zip(ours.iter().zip(&theirs)).map(|((rows, _), (ours, theirs))| {
            format!("{} rows {} against {} ns", thousands(*rows as i64), significant(*ours), significant(*theirs))
        });
        Some((ours.iter().zip(&theirs).all(|(ours, theirs)| ours < theirs), list.collect::<Vec<_>>().join(", ")))
    });
    check.claimed(format!("{PAPER}, V.B, Figure 4")).or_because(
        "a row of the table costs a cache miss for each of its columns, since mini pages are apart; the peer has the whole value in \
         one place",
    )
}

fn scales_better(measured: &Measured, peer: &str) -> Check {
    let statement = format!("point queries: with more rows, {peer} gets slower than the table does");
    let growth = |values: &[f64]| values.last().unwrap_or(&0.0) / values.first().unwrap_or(&0.0).max(1e-9);
    let check = about(measured, peer, statement, || {
        let (ours, theirs) = (growth(&points(measured, OURS)?), growth(&points(measured, peer)?));
        let detail =
            format!("from the fewest rows to all, {peer} takes {theirs:.2} times as long, the table {ours:.2} times");
        Some((theirs > ours, detail))
    });
    check.claimed(format!("{PAPER}, V.B, Figure 4")).or_because(
        "a small table fits the processor's caches, of which this one makes more than a key-value store does",
    )
}

fn scans_are_slower(measured: &Measured, peer: &str) -> [Check; 2] {
    ["key", "the double"].map(|by| {
        let of = format!("0.1 %, by {by}");
        let statement = format!("scans of {of}: {peer} is a magnitude slower than the table (ten times)");
        let check = about(measured, peer, statement, || {
            let time = |engine: &str| value(&measured.figures, "ranges", &of, engine);
            let (ours, theirs) = (time(OURS)?, time(peer)?);
            let detail = format!("{} against {} ms, {:.1} times", significant(theirs), significant(ours), theirs / ours);
            Some((theirs >= 10.0 * ours, detail))
        });
        check.claimed(format!("{PAPER}, V.C, Figures 5(b) and 5(c)")).or_because(
            "the engine seeks to the first key of the range, and its rows are sorted by the key, where the table's are clustered by \
             two attributes",
        )
    })
}

fn figures(measured: &Measured, changes: usize) -> Vec<Part> {
    let names = engines(&measured.figures);
    let line = |name: &&str, values: Option<Vec<f64>>| Some(Series::new(*name, values?));
    let mut parts = vec![Part::Lines(Lines {
        title: "Nanoseconds per point query, whole row by its key".into(),
        x_label: "rows".into(),
        y_label: "ns".into(),
        x: measured.points.iter().map(|(rows, _)| *rows as f64).collect(),
        series: names.iter().filter_map(|name| line(name, points(measured, name))).collect(),
        mark: None,
    })];
    for by in ["key", "the double"] {
        let suffix = format!(" %, by {by}");
        let of_ranges = measured.figures.iter().filter(|f| f.figure == "ranges" && f.engine == OURS);
        let shares: Vec<&str> = of_ranges.filter_map(|f| f.of.strip_suffix(&suffix)).collect();
        let times = |name: &str| {
            shares.iter().map(|share| value(&measured.figures, "ranges", &format!("{share}{suffix}"), name)).collect()
        };
        parts.push(Part::Lines(Lines {
            title: format!("Milliseconds of a range, by {by}"),
            x_label: "% of the rows".into(),
            y_label: "ms".into(),
            x: shares.iter().filter_map(|share| share.parse().ok()).collect(),
            series: names.iter().filter_map(|name| line(name, times(name))).collect(),
            mark: None,
        }));
    }
    parts.push(table(measured, "changes", "Durable changes of single rows per second"));
    parts.push(table(measured, "recovery", "Milliseconds to the first row after the process was killed"));
    let list = measured.missing.iter().map(|(name, reason)| format!("{name} ({reason})"));
    let list = list.chain([format!("pmemkv ({NO_PMEMKV})")]).collect::<Vec<_>>().join("; ");
    let text = format!(
        "Not measured: {list}. {} changes of each kind. This table's process is not killed, but its pool is closed without telling it, \
         and opened again. PMDK's trees cannot begin a scan at a key, so that ranges by key visit the \
         tree from its start, and write the value of a key that is there in its place.",
        thousands(changes as i64)
    );
    parts.push(Part::section("Engines", text));
    parts
}

/// Figures that have a value per engine and case.
fn table(measured: &Measured, figure: &str, title: &str) -> Part {
    let of_figure = || measured.figures.iter().filter(|f| f.figure == figure);
    let mut cases: Vec<&str> = vec![];
    for found in of_figure() {
        if !cases.contains(&found.of.as_str()) {
            cases.push(&found.of);
        }
    }
    let header: Vec<&str> = std::iter::once("engine").chain(cases.iter().copied()).collect();
    let mut table = Table::new(title, 1, &header);
    for name in engines(&measured.figures) {
        let text = |case: &&str| value(&measured.figures, figure, case, name).map_or("–".to_owned(), significant);
        table.push(std::iter::once(Cell::from(name)).chain(cases.iter().map(|case| Cell::from(text(case)))));
    }
    Part::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program prints of two engines.
    fn output(engine: &str, scale: f64) -> String {
        let line = |figure: &str, of: &str, value: f64| {
            format!(r#"{{"figure":"{figure}","of":"{of}","engine":"{engine}","unit":"x","value":{}}}"#, value * scale)
        };
        let lines = [
            line("points", "whole row by its key", 1000.0),
            line("ranges", "0.1 %, by key", 0.5),
            line("ranges", "0.1 %, by the double", 0.5),
            line("changes", "insert", 100.0),
            line("recovery", "after 0 changes and kill -9", 3.0),
        ];
        lines.join("\n") + "\n"
    }

    fn measured(missing: Vec<(&'static str, String)>) -> Measured {
        let text = [output(OURS, 1.0), output("RocksDB", 20.0), output("LMDB", 0.5)].concat();
        let figures = parse(text.as_bytes()).expect("lines of JSON");
        let few = parse([output(OURS, 0.5), output("RocksDB", 1.0), output("LMDB", 0.4)].concat().as_bytes());
        let points = vec![(10, few.expect("lines of JSON")), (1000, figures.clone())];
        Measured { figures, points, missing }
    }

    #[test]
    fn peers_are_judged_and_missing_ones_are_named() {
        let measured = measured(vec![("PMDK ctree", "no library".into())]);
        let checks = claims(&measured);
        let of = |words: &str| checks.iter().find(|check| check.statement.contains(words)).expect(words);
        assert!(of("outperforms RocksDB").holds && !of("outperforms RocksDB").place.is_empty());
        assert!(of("RocksDB gets slower").holds && of("0.1 %, by the double: RocksDB").holds);
        assert!(of("outperforms PMDK ctree").is_unmeasured && of("outperforms PMDK ctree").detail == "no library");
        assert!(of("outperforms pmemkv").is_unmeasured);
        // Not of the paper, and slower here.
        assert!(of("outperforms LMDB").is_refuted() && of("outperforms LMDB").place.is_empty());
        assert!(of("outperforms SQLite").is_unmeasured);
        assert!(checks.iter().all(|check| check.is_refuted() != check.why.is_empty()), "{checks:?}");
    }

    #[test]
    fn every_engine_has_its_line_and_its_row() {
        let parts = figures(&measured(vec![]), 5);
        let [Part::Lines(points), Part::Lines(by_key), Part::Lines(_), Part::Table(changes), ..] = &parts[..] else {
            panic!("{parts:?}")
        };
        let labels: Vec<&str> = points.series.iter().map(|series| series.label.as_str()).collect();
        assert_eq!((labels, points.x.clone()), (vec![OURS, "RocksDB", "LMDB"], vec![10.0, 1000.0]));
        assert_eq!((by_key.x.clone(), by_key.series[1].values.clone()), (vec![0.1], vec![10.0]));
        assert_eq!((changes.header.len(), changes.rows.len(), changes.rows[1][1].text.as_str()), (2, 3, "2,000"));
    }

    #[test]
    fn without_the_peers_every_claim_is_unmeasured() {
        let missing = PEERS.iter().map(|peer| (peer.name, "no cargo".to_owned())).collect();
        let checks = claims(&Measured { missing, ..Measured::default() });
        assert!(checks.iter().all(|check| check.is_unmeasured), "{checks:?}");
    }

    #[test]
    fn latencies_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = RunOptions { latencies: [60, 400], output: folder.path().to_owned(), ..Default::default() };
        let refused = run(&options, &|_| {}).expect_err("refused");
        assert!(refused.to_string().contains("--latencies"), "{refused}");
    }
}
