//! The table in persistent memory next to engines of other makers, in one run on one file system, each with its full
//! durability: point queries, ranges, durable changes, and the first answer after the process was killed. Prints one line
//! of JSON per figure. `freestone-lab run ptable-peers` runs it and judges; `bench/pmem.py` adds DuckDB.
//!
//!     pmem-peers FOLDER ROWS CHANGES [ENGINE,ENGINE]
//!     pmem-peers FOLDER ROWS CHANGES points           (the point queries only)
//!     pmem-peers child ENGINE FOLDER ROWS CHANGES     (a process that is to be killed)

mod engine;
#[cfg(feature = "freestone")]
mod freestone;
mod lmdb;
#[cfg(feature = "pmdk")]
mod pmdk;
#[allow(dead_code)]
#[path = "../../../crates/freestone-data/src/random.rs"]
mod random;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;
mod tuples;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use random::Random;
use serde_json::json;

use engine::{ENGINES, Engine, Result, open};
use tuples::Tuples;

const REPEATS: usize = 5;
const POINTS: usize = 100_000;
/// Shares of the rows that ranges have.
const SHARES: [f64; 4] = [0.001, 0.01, 0.1, 1.0];
const OPENINGS: usize = 7;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["child", engine, folder, rows, changes] => child(engine, Path::new(folder), rows.parse()?, changes.parse()?),
        [folder, rows, changes] => run(Path::new(folder), rows.parse()?, changes.parse()?, ENGINES),
        [folder, rows, changes, "points"] => {
            let tuples = Tuples::generate(rows.parse::<usize>()? + changes.parse::<usize>()?);
            points(&mut loaded(Path::new(folder), &tuples, rows.parse()?, ENGINES)?, &tuples, rows.parse()?)
        }
        [folder, rows, changes, engines] => {
            let engines: Vec<&str> = engines.split(',').collect();
            run(Path::new(folder), rows.parse()?, changes.parse()?, &engines)
        }
        _ => Err("usage: pmem-peers FOLDER ROWS CHANGES [ENGINE,ENGINE]".into()),
    }
}

fn run(folder: &Path, rows: usize, changes: usize, names: &[&str]) -> Result<()> {
    let tuples = Tuples::generate(rows + changes);
    std::fs::write(folder.join("tuples.csv"), tuples_of(&tuples, rows))?;
    let mut engines = loaded(folder, &tuples, rows, names)?;
    points(&mut engines, &tuples, rows)?;
    ranges(&mut engines, rows)?;
    writes(&mut engines, &tuples, rows, changes)?;
    drop(engines);
    for name in names {
        for changes in [0, changes] {
            recovery(name, &folder.join(name), rows, changes, &tuples)?;
        }
    }
    Ok(())
}

/// The engines with the first rows of the tuples.
fn loaded<'n>(
    folder: &Path,
    tuples: &Tuples,
    rows: usize,
    names: &[&'n str],
) -> Result<Vec<(&'n str, Box<dyn Engine>)>> {
    let mut engines: Vec<(&str, Box<dyn Engine>)> = vec![];
    for name in names {
        eprintln!("loading {name}");
        let mut engine = open(name, &folder.join(name), tuples)?;
        engine.load(tuples, rows)?;
        engines.push((name, engine));
    }
    Ok(engines)
}

fn tuples_of(tuples: &Tuples, rows: usize) -> String {
    tuples.csv().lines().take(rows + 1).collect::<Vec<_>>().join("\n") + "\n"
}

/// The medians, over the repeats, of what each engine takes; the engines take turns.
fn in_turn(
    engines: &mut [(&str, Box<dyn Engine>)],
    repeats: usize,
    mut once: impl FnMut(&mut dyn Engine, usize) -> Result<String>,
) -> Result<Vec<(String, f64)>> {
    let mut seconds: Vec<Vec<f64>> = vec![vec![]; engines.len()];
    for repeat in 0..repeats {
        let mut answers = vec![];
        for (at, (name, engine)) in engines.iter_mut().enumerate() {
            let start = Instant::now();
            let answer = once(engine.as_mut(), repeat)?;
            seconds[at].push(start.elapsed().as_secs_f64());
            answers.push((*name, answer));
        }
        if let Some((name, answer)) = answers.iter().find(|(_, answer)| *answer != answers[0].1) {
            return Err(format!("{name} answers {answer}, {} {}", answers[0].0, answers[0].1).into());
        }
    }
    Ok(engines.iter().zip(seconds).map(|((name, _), times)| (name.to_string(), median(times))).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(figure: &str, of: &str, unit: &str, values: impl IntoIterator<Item = (String, f64)>) {
    for (engine, value) in values {
        println!("{}", json!({"figure": figure, "of": of, "engine": engine, "unit": unit, "value": value}));
    }
}

fn points(engines: &mut [(&str, Box<dyn Engine>)], tuples: &Tuples, rows: usize) -> Result<()> {
    let found = in_turn(engines, REPEATS, |engine, repeat| {
        let mut random = Random::new(repeat as u64);
        let wanted: Vec<usize> = (0..POINTS).map(|_| random.below(rows as u32) as usize).collect();
        Ok(format!("{:.1}", engine.points(tuples, &wanted)?))
    })?;
    report("points", "whole row by its key", "ns", found.into_iter().map(|(name, s)| (name, s / POINTS as f64 * 1e9)));
    Ok(())
}

fn ranges(engines: &mut [(&str, Box<dyn Engine>)], rows: usize) -> Result<()> {
    for share in SHARES {
        for by_key in [true, false] {
            let found = in_turn(engines, REPEATS, |engine, repeat| {
                let from = Random::new(repeat as u64).below(1000) as f64 / 1000.0;
                let low = (rows as f64 * from * (1.0 - share)) as i64;
                let high = low + ((rows as f64 * share) as i64 - 1).max(0);
                let (count, sum) = match by_key {
                    true => engine.by_key(low, high)?,
                    false => engine.by_double(low as f64 / 2.0, high as f64 / 2.0)?,
                };
                Ok(format!("{count} rows, {sum:.0}"))
            })?;
            let of = format!("{} %, by {}", share * 100.0, if by_key { "key" } else { "the double" });
            report("ranges", &of, "ms", found.into_iter().map(|(name, s)| (name, s * 1e3)));
        }
    }
    Ok(())
}

fn writes(engines: &mut [(&str, Box<dyn Engine>)], tuples: &Tuples, rows: usize, changes: usize) -> Result<()> {
    let each = changes / REPEATS;
    let per_second = |found: Vec<(String, f64)>| found.into_iter().map(move |(name, s)| (name, each as f64 / s));
    type Change = fn(&mut dyn Engine, &Tuples, usize) -> Result<()>;
    let kinds: [(&str, Change); 3] = [
        ("insert", |engine, tuples, row| engine.insert(tuples, row)),
        ("update", |engine, tuples, row| engine.update(tuples, row)),
        ("delete", |engine, tuples, row| engine.delete(tuples, row)),
    ];
    for (kind, change) in kinds {
        let found = in_turn(engines, REPEATS, |engine, repeat| {
            let added = rows + repeat * each..rows + (repeat + 1) * each;
            added.into_iter().try_for_each(|row| change(engine, tuples, row))?;
            Ok(String::new())
        })?;
        report("changes", kind, "per second", per_second(found));
    }
    Ok(())
}

/// Opens, changes rows, says so, and waits to be killed.
fn child(name: &str, folder: &Path, rows: usize, changes: usize) -> Result<()> {
    let tuples = Tuples::generate(rows + changes);
    let mut engine = open(name, folder, &tuples)?;
    for row in 0..changes {
        engine.update(&tuples, row % rows)?;
    }
    println!("ready");
    std::io::stdout().flush()?;
    loop {
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

/// Milliseconds from opening to the first row, after the process that had the table open was killed.
fn recovery(name: &str, folder: &Path, rows: usize, changes: usize, tuples: &Tuples) -> Result<()> {
    let mut times = vec![];
    for repeat in 0..OPENINGS {
        let arguments =
            ["child", name, &folder.to_string_lossy(), &rows.to_string(), &changes.to_string()].map(str::to_owned);
        let mut process = Command::new(std::env::current_exe()?).args(arguments).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        process.kill()?;
        process.wait()?;
        if line != "ready\n" {
            return Err(format!("the process with {name} ended early").into());
        }
        let start = Instant::now();
        let mut engine = open(name, folder, tuples)?;
        let sum = engine.points(tuples, &[repeat % rows])?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        if sum != tuples.double(repeat % rows) {
            return Err(format!("{name} lost a row").into());
        }
    }
    report("recovery", &format!("after {changes} changes and kill -9"), "ms", [(name.to_owned(), median(times))]);
    Ok(())
}
