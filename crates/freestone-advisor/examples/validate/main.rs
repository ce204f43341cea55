//! Compares the model with measurements: random tables, designs and queries that were not used to fit it.
//!
//! `cargo run --release -p freestone-advisor --example validate -- PROFILE [--tables N] [--seed N] [--threads N]
//! [--cold FOLDER] [--csv] [--plot FILE.svg] [--measured FILE] [--no-slowdown]`
//!
//! Prints the median and quantiles of |predicted − measured| ÷ measured; Kendall's τ of all cases, and within each
//! table and query (how well designs are ranked for one query); and the worst cases with the parts of their
//! predictions. The machine's slowdown, from the reference scan before and after each query, is part of the prediction;
//! `--no-slowdown` excludes it. The parts are without slowdown. With `--cold`, pages are read from a disk past the system's
//! cache by a store that was just opened, into memory that the process already has, as with a full cache. With
//! `--measured`, the times are those that an earlier run with the same seed, tables, threads and medium printed with
//! `--csv`, so that two models are compared with the same measurements.

mod cases;
mod measure;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;

use freestone_advisor::model::{ScanModel, Setting};
use freestone_advisor::profile::Slowdown;
use freestone_advisor::{Profile, Reference, TableStatistics};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use cases::RandomTable;
use summary::Case;

/// As in the `freestone` command, because the kind of memory pages determines their cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Arguments {
    profile: PathBuf,
    tables: u64,
    seed: u64,
    cold: Option<PathBuf>,
    csv: bool,
    plot: Option<PathBuf>,
    measured: Option<PathBuf>,
    no_slowdown: bool,
    /// The number of threads; 1 or 2 at random by default.
    threads: Option<usize>,
}

type Failure = Box<dyn std::error::Error>;

fn arguments() -> Result<Arguments, Failure> {
    let mut found = Arguments {
        profile: PathBuf::new(),
        tables: 12,
        seed: 1,
        cold: None,
        csv: false,
        plot: None,
        measured: None,
        no_slowdown: false,
        threads: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--tables" => found.tables = value()?.parse()?,
            "--seed" => found.seed = value()?.parse()?,
            "--cold" => found.cold = Some(value()?.into()),
            "--csv" => found.csv = true,
            "--plot" => found.plot = Some(value()?.into()),
            "--measured" => found.measured = Some(value()?.into()),
            "--no-slowdown" => found.no_slowdown = true,
            "--threads" => found.threads = Some(value()?.parse()?),
            other => found.profile = other.into(),
        }
    }
    Ok(found)
}

fn main() -> Result<(), Failure> {
    let arguments = arguments()?;
    measure::keep_memory();
    let profile = Arc::new(if arguments.profile.as_os_str().is_empty() {
        Profile::assumed()
    } else {
        Profile::load(&arguments.profile)?
    });
    let earlier = arguments.measured.as_ref().map(std::fs::read_to_string).transpose()?;
    let mut earlier = earlier.as_deref().map(measure::earlier);
    let reference = Reference::new()?;
    let mut cases = vec![];
    for number in 0..arguments.tables {
        let mut random = StdRng::seed_from_u64(arguments.seed * 1000 + number);
        let table = RandomTable::new(&mut random);
        cases.extend(table_cases(&table, number, &profile, &arguments, &mut random, earlier.as_mut(), &reference)?);
        eprintln!("table {number}: {} columns, {} rows, {} cases", table.kinds.len(), table.rows, cases.len());
    }
    if arguments.csv {
        summary::print_csv(&cases);
    }
    if let Some(file) = &arguments.plot {
        let kind = if arguments.cold.is_some() { "cold" } else { "hot" };
        let title = format!("{} random scans, {kind}: model against measurement", cases.len());
        std::fs::write(file, summary::plot(&cases, &title))?;
    }
    summary::print(&cases);
    Ok(())
}

fn table_cases(
    table: &RandomTable,
    number: u64,
    profile: &Arc<Profile>,
    arguments: &Arguments,
    random: &mut StdRng,
    mut earlier: Option<&mut measure::Earlier<'_>>,
    reference: &Reference,
) -> Result<Vec<Case>, Failure> {
    let designs = cases::designs(table, random);
    // Statistics come from the first design, as from an existing table. The others are hypothetical.
    let needed = if earlier.is_some() { 1 } else { designs.len() };
    let stored = designs[..needed].iter().enumerate().map(|(at, design)| {
        let folder = arguments.cold.as_ref().map(|f| f.join(format!("table-{number}-{at}")));
        measure::Stored::new(table, design, folder)
    });
    let stored: Vec<measure::Stored> = stored.collect::<Result<_, _>>()?;
    let statistics = Arc::new(TableStatistics::of_table(&stored[0].table()?)?);
    let queries = cases::queries(table, &statistics, random);
    let mut found = vec![];
    for (at, query) in queries.iter().enumerate() {
        let any = random.random_range(1..=2);
        let threads = arguments.threads.unwrap_or(any);
        let setting = if arguments.cold.is_some() { Setting::cold(threads) } else { Setting::hot(threads) };
        let model = ScanModel::new(statistics.clone(), profile.clone(), setting);
        for (at_design, design) in designs.iter().enumerate() {
            let measured = match &mut earlier {
                Some(earlier) => {
                    let (place, found) = earlier.next().ok_or("the earlier run had fewer cases")?;
                    if place != [number as usize, at, threads] {
                        return Err(format!("the earlier run had table, query and threads {place:?} here").into());
                    }
                    found
                }
                None => stored[at_design].measure(query, threads, reference)?,
            };
            let slowdown =
                if arguments.no_slowdown { Slowdown::SAME } else { profile.slowdown(measured.reference_ns, threads) };
            let model = model.clone().with_slowdown(slowdown);
            let layout = model.layout(design);
            let cost = model.query_on(&layout, &query.query);
            found.push(Case {
                table: number,
                query: at,
                design: design.to_string(),
                threads,
                text: query.query.name.clone(),
                measured_ms: measured.ms,
                rows: measured.rows,
                reference_ns: measured.reference_ns,
                cost,
                parts: model.parts_of(&layout, &query.query),
                bytes_predicted: layout.bytes,
                bytes_stored: measured.bytes,
            });
        }
    }
    Ok(found)
}
