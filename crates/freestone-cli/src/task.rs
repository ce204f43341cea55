//! The sub-commands.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use freestone_demo::DemoOptions;

use crate::args::{CheckArgs, Cli, Command, DemoArgs, EngineArgs};
use crate::failure::{Failure, note};
use crate::{advise, cluster, serve, store, ui, user, worker};

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo(&args),
        Command::Check(args) => check(&args),
        Command::Upgrade { db } => upgrade(&db),
        Command::Calibrate(args) => advise::calibrate(&args),
        Command::Advise(args) => advise::advise(&args),
        Command::Ui(args) => ui::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::Worker(args) => worker::run(*args),
        Command::Cluster(args) => cluster::run(args.command),
        Command::User(args) => user::run(args.command),
        Command::Completions { shell } => completions(shell),
        Command::ManPages { folder } => man_pages(&folder),
        Command::Store(args) => store::run(&args.command),
    }
}

/// Prints what a shell needs to complete commands and options.
fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut text = vec![];
    clap_complete::generate(shell, &mut Cli::command(), "freestone", &mut text);
    print(String::from_utf8_lossy(&text).trim_end())
}

/// Writes a page for the program and for each of its commands: `freestone.1`, `freestone-serve.1` and so on.
fn man_pages(folder: &Path) -> Result<(), Failure> {
    clap_mangen::generate_to(Cli::command(), folder)
        .map_err(|error| Failure::error(format!("cannot write manual pages to {}: {error}", folder.display())))
}

fn demo(args: &DemoArgs) -> Result<(), Failure> {
    let options = DemoOptions { directory: args.output.clone(), scale: args.scale, threads: 0, versions: versions() };
    let demo = freestone_demo::run(&options, &|step| note(step))?;
    print(freestone_demo::summary(&demo).trim_end())
}

/// One line with the versions of this program and its main libraries.
pub fn versions() -> String {
    format!("freestone {}", crate::args::LONG_VERSION.replace('\n', ", "))
}

/// Opens the database for reading, so that a running writer does not interfere, and reads every byte.
fn check(args: &CheckArgs) -> Result<(), Failure> {
    if args.repair {
        repair(&args.db)?;
    }
    let read_only = EngineArgs { read_only: true, ..args.engine.clone() };
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

/// Lets a database have the present format version.
fn upgrade(db: &Path) -> Result<(), Failure> {
    let (found, version) = (freestone::Database::upgrade(db)?, freestone::FORMAT_VERSION);
    let outcome = match found == version {
        true => format!("has format version {version}, the one that this program writes: nothing to do"),
        false => format!("had format version {found}, and has version {version} now"),
    };
    print(&format!("{} {outcome}", db.display()))
}

/// Repairs the commit log, and prints all changes.
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

/// Writes a line to standard output.
pub fn print(line: &str) -> Result<(), Failure> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => Err(Failure::error(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}
