//! `freestone-lab`: the papers' experiments, and the data, network and peers of the benchmarks. See `--help`.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod args;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use freestone_data::{acs, ontime, ssb};
use freestone_lab::LabError;
use freestone_lab::compare;
#[cfg(target_os = "linux")]
use freestone_lab::experiments::tenants;
use freestone_lab::experiments::{self, RunOptions};

use args::{Cli, Command, Control, LinkArgs};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The message for the user when a command fails.
#[derive(Debug)]
struct Failure {
    message: String,
    hint: Option<String>,
}

impl Failure {
    fn error(message: impl Into<String>) -> Self {
        Failure { message: message.into(), hint: None }
    }

    fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure { message: message.into(), hint: Some(hint.into()) }
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let hint = match &error {
            LabError::Engine(error) | LabError::Query(freestone_demo::DemoError::Engine(error)) => error.hint(),
            _ => None,
        };
        Failure { message: error.to_string(), hint: hint.map(str::to_owned) }
    }
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if tenants::levels::guest::is_here() {
        tenants::levels::guest::init();
    }
    let Err(failure) = run(&Cli::parse().command) else { return ExitCode::SUCCESS };
    note(format_args!("error: {}", failure.message));
    if let Some(hint) = failure.hint {
        note(format_args!("hint: {hint}"));
    }
    ExitCode::FAILURE
}

/// Writes a line to standard error. If nobody reads it, that is no reason to stop.
fn note(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes a line to standard output.
fn print(line: &str) -> Result<(), Failure> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::error(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List => list(),
        Command::Run { names, rows, scale, queries, latencies, designs, scan, tenants, time, output } => {
            let (rows, scale, queries, latencies) = (*rows, *scale, *queries, *latencies);
            let (designs, tenants, output) = (designs.clone(), tenants.options(), output.clone());
            let options = RunOptions {
                rows,
                scale,
                queries,
                latencies,
                designs,
                scan: scan.settings(),
                tables: scan.tables.clone(),
                tenants,
                time: time.map(|seconds| Duration::from_secs(seconds.into())),
                output,
                threads: 0,
                versions: versions(),
                kept: None,
            };
            run_experiments(names, &options)
        }
        Command::Compare { base, other, output } => compare(base, other, output.as_deref()),
        Command::Report { run: false, kept, output, .. } => {
            print(&experiments::report(output, &versions(), kept.as_deref())?.display().to_string())
        }
        Command::Report { minutes, kept, output, .. } => {
            let (output, kept) = (output.clone(), kept.clone());
            let options = RunOptions { output, kept, versions: versions(), ..RunOptions::default() };
            let time = Duration::from_secs(60 * minutes);
            print(&experiments::report_papers(&options, time, &|step| note(step))?.display().to_string())
        }
        Command::Generate { name, scale, output } => generate(name, *scale, output),
        Command::Link(args) => link(args),
        Command::FlightServer { listen, files } => {
            Ok(freestone_lab::flight::serve(listen, files, |address| println!("listening: flight://{address}"))?)
        }
        #[cfg(target_os = "linux")]
        Command::Burn { kind, threads } => Ok(tenants::burn::run(*kind, *threads)?),
        #[cfg(target_os = "linux")]
        Command::Keep { command } => match tenants::levels::keep::keep(command) {
            Ok(0) => Ok(()),
            Ok(status) => std::process::exit(status),
            Err(error) => Err(Failure::error(format!("cannot start the program: {error}"))),
        },
        #[cfg(target_os = "linux")]
        Command::ProbeAllocators { rows } => probe(|folder| tenants::probe::allocators(*rows, folder)),
        #[cfg(target_os = "linux")]
        Command::ProbeLayouts { rows } => probe(|folder| tenants::probe::layouts(*rows, folder)),
        #[cfg(target_os = "linux")]
        Command::TryMachine { program, database } => print(&tenants::levels::machine::try_emulated(program, database)?),
    }
}

/// Prints what a probe finds with a folder of its own, which is removed.
#[cfg(target_os = "linux")]
fn probe(run: impl FnOnce(&Path) -> Result<String, LabError>) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("freestone-lab-{}", std::process::id()));
    let found = run(&folder);
    let _ = std::fs::remove_dir_all(&folder);
    print(&found?)
}

fn list() -> Result<(), Failure> {
    for experiment in &experiments::EXPERIMENTS {
        print(&format!("{}  ({})\n    {}", experiment.name, experiment.size, experiment.shows))?;
        print(&format!("    {}", experiment.source))?;
    }
    Ok(())
}

/// Runs experiments in order, all of them, and fails if a check of any does not hold.
fn run_experiments(names: &[String], options: &RunOptions) -> Result<(), Failure> {
    let all = experiments::EXPERIMENTS.iter().map(|experiment| experiment.name.to_owned());
    let names: Vec<String> = if names == ["all"] { all.collect() } else { names.to_vec() };
    let mut refuted = vec![];
    for name in names {
        let findings = experiments::run(&name, options, &|step| note(step))?;
        print(&freestone_report::terminal::text(&findings))?;
        let failed = findings.checks().filter(|check| check.is_refuted());
        refuted.extend(failed.map(|check| format!("{name}: {}", check.statement)));
    }
    refutation(&refuted)
}

/// Prints a comparison, and writes it as a page if a file is named.
fn compare(base: &Path, other: &Path, output: Option<&Path>) -> Result<(), Failure> {
    let found = compare::findings(base, other, &versions())?;
    print(&freestone_report::terminal::text(&found))?;
    match output {
        Some(path) => {
            compare::write_page(&found, path)?;
            print(&path.display().to_string())
        }
        None => Ok(()),
    }
}

/// The failure of a run with checks that do not hold.
fn refutation(refuted: &[String]) -> Result<(), Failure> {
    if refuted.is_empty() {
        return Ok(());
    }
    Err(Failure::with_hint(
        format!("checks that do not hold: {}", refuted.join("; ")),
        "the lines marked NO show the figures; a busy machine, or few rows, may be the reason",
    ))
}

/// One line with the version of this program, and the identity of its build, by which results of another build are told apart.
fn versions() -> String {
    format!("freestone-lab {} (build {})", env!("CARGO_PKG_VERSION"), env!("FREESTONE_LAB_BUILD"))
}

fn generate(name: &str, scale: f64, output: &Path) -> Result<(), Failure> {
    match name {
        "tpch" => freestone_data::tpch::write_parquet(output, scale),
        "ssb" => ssb::write_parquet(output, scale, ssb::SEED),
        "acs" => acs::TABLE.write_parquet(output, scale, acs::SEED),
        "ontime" => ontime::TABLE.write_parquet(output, scale, ontime::SEED),
        other => return Err(Failure::error(format!("there is no generator {other}"))),
    }
    .map_err(|error| Failure::error(error.to_string()))?;
    note(format_args!("{name} at scale {scale} is in {}", output.display()));
    Ok(())
}

/// Ends the process with the status of the command.
#[cfg(target_os = "linux")]
fn link(args: &LinkArgs) -> Result<(), Failure> {
    use freestone_lab::link::{self, Congestion, Link};
    let link = Link {
        bits_per_second: args.rate,
        delay: args.delay,
        loss: args.loss,
        queue_bytes: args.queue,
        seed: args.seed,
        congestion: args.congestion.map(|control| match control {
            Control::Reno => Congestion::Reno,
            Control::Cubic => Congestion::Cubic,
            Control::Bbr => Congestion::Bbr,
        }),
    };
    let ended = link::run(&link, &args.command, |measured| {
        let mbit = link.bits_per_second as f64 / 1e6;
        let round_trip = 2000.0 * link.delay.as_secs_f64();
        note(format_args!(
            "link: round trip {:.2} ms (asked {round_trip:.2}), {:.1} Mbit/s (asked {mbit:.1}), {:.2} % lost (asked {:.2}), \
             one TCP stream {:.1} Mbit/s",
            measured.ping_ms,
            measured.rate_mbit,
            measured.loss_percent,
            100.0 * link.loss,
            measured.tcp_mbit
        ));
    })?;
    for (way, traffic) in [("server", ended.to_server), ("client", ended.to_client)] {
        let (delivered, lost, full) = (traffic.delivered, traffic.lost, traffic.overflowed);
        note(format_args!("link: to the {way} {delivered} packets, {lost} lost, {full} dropped by a full queue"));
    }
    match ended.status.code() {
        Some(0) => Ok(()),
        code => std::process::exit(code.unwrap_or(1)),
    }
}

#[cfg(not(target_os = "linux"))]
fn link(_: &LinkArgs) -> Result<(), Failure> {
    Err(Failure::error("a link is made of Linux' network namespaces; this is another system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_name_the_build() {
        let (_, build) = versions().split_once(" (build ").map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a build");
        let build = build.trim_end_matches(')');
        assert!(build.len() == 16 && build.chars().all(|digit| digit.is_ascii_hexdigit()), "{build}");
    }

    #[test]
    fn a_check_that_does_not_hold_fails_the_run() {
        assert!(refutation(&[]).is_ok());
        let failure = refutation(&["crossover: rows win".into(), "tpch: answers agree".into()]).expect_err("refuted");
        assert_eq!(failure.message, "checks that do not hold: crossover: rows win; tpch: answers agree");
    }
}
