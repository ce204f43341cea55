//! The `freestone` command: a shell for the engine, and its sub-commands. See `--help`.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod advise;
mod allocator;
mod args;
mod backend;
mod cluster;
mod command;
mod connect;
mod failure;
mod interrupt;
mod new_database;
mod output;
mod progress;
mod run;
mod serve;
mod shell;
mod split;
mod store;
mod task;
mod terminal;
mod threads;
mod transfer;
mod ui;
mod user;
mod worker;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;
use clap::error::ErrorKind;
use freestone::{Database, Options};

use args::{Cli, EngineArgs, OutputArgs, Script};
use failure::Failure;
use interrupt::{EXIT_INTERRUPTED, Interrupt};
use output::{Sink, TableLayout};
use run::{Connection, Flow, Origin, Runner, Settings};

fn main() -> ExitCode {
    // The system may give this thread a small stack (ulimit -s).
    let thread = std::thread::Builder::new().name("main".into()).stack_size(freestone::THREAD_STACK_BYTES);
    match thread.spawn(run_command) {
        Ok(running) => running.join().unwrap_or(ExitCode::from(EXIT_PANICKED)),
        Err(error) => {
            Failure::error(format!("cannot start a thread: {error}; raise ulimit -u or ulimit -v")).print();
            ExitCode::FAILURE
        }
    }
}

/// The status of a process whose main thread has panicked, as Rust gives it.
const EXIT_PANICKED: u8 = 101;

fn run_command() -> ExitCode {
    ignore_file_limit_signal();
    let (cli, scripts) = args::parse();
    let result = match cli.command {
        Some(command) => task::run(command),
        None => run_session(&cli, &scripts),
    };
    match result {
        Ok(()) | Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(if matches!(failure, Failure::Interrupted) { EXIT_INTERRUPTED } else { 1 })
        }
    }
}

/// A write beyond the limit of file sizes (`ulimit -f`) is an error of that write, and does not end the process.
fn ignore_file_limit_signal() {
    // SAFETY: no handler of this process is replaced; SIG_IGN has no code that could run.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Runs the scripts of the command line; without any, the shell, or statements from standard input.
fn run_session(cli: &Cli, scripts: &[Script]) -> Result<(), Failure> {
    let is_shell = scripts.is_empty() && io::stdin().is_terminal();
    let sink = match &cli.output.output {
        Some(path) => Sink::file(path),
        None => Sink::stdout(),
    };
    refuse_binary_on_terminal(&cli.output, &sink);
    connect::check_usage(cli.db.as_deref(), &cli.engine);
    let connection = Connection::open(cli.db.as_deref(), cli.engine.clone())?;
    let interrupt =
        Interrupt::watch(is_shell).map_err(|error| Failure::error(format!("cannot watch for Ctrl-C: {error}")))?;
    let settings = settings(&cli.output, is_shell);
    let mut runner = Runner::new(connection, interrupt, sink, settings);
    let result = if is_shell {
        shell::run(&mut runner)
    } else if scripts.is_empty() {
        runner.run_reader(io::stdin().lock(), Origin::Named("stdin")).map(drop)
    } else {
        run_scripts(&mut runner, scripts)
    };
    runner.shut_down();
    result
}

fn run_scripts(runner: &mut Runner, scripts: &[Script]) -> Result<(), Failure> {
    for script in scripts {
        let flow = match script {
            Script::Text(text) => runner.run_text(text, Origin::Inline)?,
            Script::File(path) => runner.run_file(path)?,
        };
        if flow == Flow::Quit {
            break;
        }
    }
    Ok(())
}

fn settings(args: &OutputArgs, is_shell: bool) -> Settings {
    let max_rows = is_shell.then_some(shell::MAX_ROWS);
    let layout = TableLayout { max_rows, footer: is_shell, ..TableLayout::default() };
    // A user at a terminal wants to see `INSERT 3`. A program that reads standard error does not.
    let statuses = is_shell || io::stderr().is_terminal();
    Settings { format: args.format, timing: args.timing, pager: false, statuses, layout }
}

/// Ends the process with a usage error.
fn refuse_binary_on_terminal(args: &OutputArgs, sink: &Sink) {
    if let Some(format) = args.format.filter(|format| format.is_binary() && sink.is_terminal()) {
        let message = format!(
            "--format {} is not for a terminal: name a file with --output, or redirect standard output",
            format.name()
        );
        Cli::command().error(ErrorKind::ArgumentConflict, message).exit();
    }
}

/// The name of a database in memory, as in other databases.
const MEMORY: &str = ":memory:";

/// Opens a database; without a path, in memory.
fn open(path: Option<&Path>, args: &EngineArgs) -> Result<Arc<Database>, Failure> {
    let path = path.filter(|path| *path != Path::new(MEMORY));
    if let Some(address) = path.and_then(connect::address_text) {
        let hint = "name the database's folder: this works where the database is, not over a connection";
        return Err(Failure::with_hint(format!("{address} is an address, not a folder"), hint));
    }
    let defaults = Options::default();
    let options = Options {
        threads: args.threads.unwrap_or(defaults.threads),
        memory_limit: args.memory_limit.or(defaults.memory_limit),
        read_only: args.read_only,
        pmem_emulated: args.pmem,
        pmem_bytes: args.pmem_size.map_or(defaults.pmem_bytes, |bytes| bytes as u64),
        umask: args.umask.unwrap_or(defaults.umask),
        disk_cache: args.cache.disk_cache(),
        ..defaults
    };
    allocator::keep_within(options.memory_limit.unwrap_or(usize::MAX));
    let database = match path {
        Some(path) => Database::open(path, options),
        None => Database::in_memory(options),
    };
    Ok(database?)
}
