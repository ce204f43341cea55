//! The sub-commands.

use std::io::{self, Write};
use std::path::Path;

use freestone_lab::demo::DemoOptions;
use freestone_lab::experiments::{self, RunOptions};
use freestone_lab::generate::{acs, ontime, ssb};

use crate::args::{CheckArgs, Command, Control, DemoArgs, EngineArgs, LabCommand, LinkArgs};
use crate::failure::{Failure, note};
use crate::{advise, serve, user};

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo(&args),
        Command::Check(args) => check(&args),
        Command::Lab(args) => lab(&args.command),
        Command::Calibrate(args) => advise::calibrate(&args),
        Command::Advise(args) => advise::advise(&args),
        Command::Serve(args) => serve::run(*args),
        Command::User(args) => user::run(args.command),
    }
}

fn demo(args: &DemoArgs) -> Result<(), Failure> {
    let options = DemoOptions { directory: args.output.clone(), scale: args.scale, threads: 0, versions: versions() };
    let demo = freestone_lab::demo::run(&options, &|step| note(step))?;
    print(freestone_lab::demo::summary(&demo).trim_end())
}

fn lab(command: &LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::List => lab_list(),
        LabCommand::Run { names, rows, scale, queries, designs, output } => {
            let (rows, scale, queries) = (*rows, *scale, *queries);
            let (designs, output) = (designs.clone(), output.clone());
            lab_run(names, &RunOptions { rows, scale, queries, designs, output, threads: 0, versions: versions() })
        }
        LabCommand::Report { output } => print(&experiments::report(output)?.display().to_string()),
        LabCommand::Generate { name, scale, output } => generate(name, *scale, output),
        LabCommand::Link(args) => link(args),
        LabCommand::FlightServer { listen, files } => {
            Ok(freestone_lab::flight::serve(listen, files, |address| println!("listening: flight://{address}"))?)
        }
    }
}

fn lab_list() -> Result<(), Failure> {
    for experiment in &experiments::EXPERIMENTS {
        print(&format!("{}  ({})\n    {}", experiment.name, experiment.size, experiment.shows))?;
        print(&format!("    {}", experiment.source))?;
    }
    Ok(())
}

/// Runs experiments one after the other, all of them, and fails if a check of any does not hold.
fn lab_run(names: &[String], options: &RunOptions) -> Result<(), Failure> {
    let all = experiments::EXPERIMENTS.iter().map(|experiment| experiment.name.to_owned());
    let names: Vec<String> = if names == ["all"] { all.collect() } else { names.to_vec() };
    let mut refuted = vec![];
    for name in names {
        let findings = experiments::run(&name, options, &|step| note(step))?;
        print(&freestone_lab::terminal::text(&findings))?;
        let failed = findings.checks().filter(|check| !check.holds);
        refuted.extend(failed.map(|check| format!("{name}: {}", check.statement)));
    }
    refutation(&refuted)
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

/// One line of what this program is made of.
pub fn versions() -> String {
    format!("freestone {}", crate::args::LONG_VERSION.replace('\n', ", "))
}

fn generate(name: &str, scale: f64, output: &Path) -> Result<(), Failure> {
    match name {
        "tpch" => freestone_lab::generate::tpch::write_parquet(output, scale),
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

/// Opens for reading, so that a running writer does not matter, and reads every byte.
fn check(args: &CheckArgs) -> Result<(), Failure> {
    if args.repair {
        repair(&args.db)?;
    }
    let read_only = EngineArgs { read_only: true, ..args.engine };
    let database = crate::open(Some(&args.db), &read_only)?;
    let report = database.store().check(None).map_err(freestone::Error::from)?;
    if report.problems.is_empty() {
        let (tables, segments, pages, rows) = (report.tables, report.segments, report.pages, report.rows);
        return print(&format!("sound: tables {tables}, segments {segments}, pages {pages}, rows {rows}"));
    }
    for problem in &report.problems {
        note(format_args!("error: {problem}"));
    }
    Err(Failure::with_hint(
        format!("{} is damaged, problems: {}", args.db.display(), report.problems.len()),
        "restore the named files from a copy, or drop the tables that own them",
    ))
}

/// Repairs the commit log and tells everything that this did.
fn repair(db: &Path) -> Result<(), Failure> {
    let repaired = freestone::Database::repair(db)?;
    let log = &repaired.log;
    if repaired.found_nothing() {
        return print(&format!("commit log: sound, {} commits", log.last_sequence));
    }
    print(&format!("commit log: repaired, {} commits are kept", log.last_sequence))?;
    if log.expected_sequence.is_none() {
        print("CURRENT was missing or damaged, and is written again")?;
    }
    for reason in &log.unusable {
        print(&format!("not usable and set aside: {reason}"))?;
    }
    if let Some(saved) = &log.saved_as {
        print(&format!("cut off behind the last sound commit: {} bytes, saved as {saved}", log.cut_bytes))?;
    }
    for line in &repaired.lost {
        print(&format!("lost: {line}"))?;
    }
    if !log.loses_commits() {
        print("no acknowledged commit is lost")?;
    }
    for file in &repaired.set_aside {
        print(&format!("kept, of no commit now: {file}"))?;
    }
    Ok(())
}

/// A line on standard output.
pub fn print(line: &str) -> Result<(), Failure> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => Err(Failure::error(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_does_not_hold_fails_the_run() {
        assert!(refutation(&[]).is_ok());
        let failure = refutation(&["crossover: rows win".into(), "tpch: answers agree".into()]).expect_err("refuted");
        let Failure::Error { message, .. } = failure else { panic!("not an error") };
        assert_eq!(message, "checks that do not hold: crossover: rows win; tpch: answers agree");
    }
}
