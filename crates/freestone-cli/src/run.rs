//! Runs statements one by one and prints what they give.
//!
//! A statement runs as a task on the workers; the calling thread formats its batches as they come, draws
//! progress and watches for Ctrl-C, which aborts the task. The statement in progress holds at most a few batches.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use freestone::Statement;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::backend::{Answer, Backend};
use crate::failure::{Failure, note};
use crate::interrupt::Interrupt;
use crate::output::{self, Format, ResultWriter, Sink, TableLayout};
use crate::progress::{Meter, Progress};
use crate::split::{Piece, Splitter};
use crate::threads::Threads;

/// Scripts that run scripts.
const MAX_SCRIPT_DEPTH: usize = 16;

/// How long a cancelled statement may take to stop before the shell goes on without it.
const CANCEL_PATIENCE: Duration = Duration::from_secs(2);

/// Batches on the way from the engine to the printer.
const BATCHES_IN_FLIGHT: usize = 2;

/// What a session prints, and how; commands of the shell change it.
#[derive(Debug, Clone)]
pub struct Settings {
    pub format: Format,
    pub timing: bool,
    /// Prints `INSERT 3` and the like on standard error.
    pub statuses: bool,
    /// What a table on a terminal is limited to.
    pub layout: TableLayout,
}

/// Where a statement comes from, for messages.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// The command line or the shell: the user sees the text.
    Inline,
    Named(&'a str),
}

impl Origin<'_> {
    /// `FILE:LINE: `
    fn place(self, line: usize) -> String {
        match self {
            Origin::Inline => String::new(),
            Origin::Named(name) => format!("{name}:{line}: "),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Quit,
}

pub struct Runner {
    backend: Backend,
    pub settings: Settings,
    threads: Threads,
    interrupt: Arc<Interrupt>,
    meter: Arc<Meter>,
    sink: Sink,
    /// Results that the sink holds.
    results: usize,
    depth: usize,
}

impl Runner {
    pub fn new(threads: Threads, backend: Backend, interrupt: Arc<Interrupt>, sink: Sink, settings: Settings) -> Self {
        let meter = Arc::new(Meter::default());
        backend.report_to(meter.clone());
        Runner { backend, settings, threads, interrupt, meter, sink, results: 0, depth: 0 }
    }

    /// Waits a little for work that was cancelled.
    pub fn shut_down(self, patience: Duration) {
        drop(self.backend);
        self.threads.shut_down(patience);
    }

    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// Later results go to `sink`.
    pub fn replace_sink(&mut self, sink: Sink) -> io::Result<()> {
        self.sink.flush()?;
        self.sink = sink;
        self.results = 0;
        Ok(())
    }

    /// Statements and commands of a text, up to the first that fails.
    pub fn run_text(&mut self, text: &str, origin: Origin<'_>) -> Result<Flow, Failure> {
        self.run_reader(text.as_bytes(), origin)
    }

    pub fn run_file(&mut self, path: &Path) -> Result<Flow, Failure> {
        if path.as_os_str() == "-" {
            return self.run_reader(io::stdin().lock(), Origin::Named("stdin"));
        }
        let name = path.display().to_string();
        if self.depth == MAX_SCRIPT_DEPTH {
            return Err(Failure::error(format!("{name}: scripts are nested more than {MAX_SCRIPT_DEPTH} deep")));
        }
        let file = File::open(path).map_err(|error| Failure::error(format!("cannot open {name}: {error}")))?;
        self.depth += 1;
        let result = self.run_reader(file, Origin::Named(&name));
        self.depth -= 1;
        result
    }

    /// Runs each statement as soon as it has come, so that another process can wait for its result before it sends
    /// the next one.
    pub fn run_reader(&mut self, mut reader: impl Read, origin: Origin<'_>) -> Result<Flow, Failure> {
        let mut splitter = Splitter::default();
        let mut bytes = vec![0; 64 << 10];
        loop {
            let length = match reader.read(&mut bytes) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::error(format!("cannot read: {error}")).at(&origin.place(1))),
            };
            if length == 0 {
                splitter.end();
            }
            splitter.push(&bytes[..length]);
            while let Some(piece) = splitter.next_piece() {
                if self.run_piece(&piece, origin)? == Flow::Quit {
                    return Ok(Flow::Quit);
                }
            }
            if length == 0 {
                return Ok(Flow::Continue);
            }
        }
    }

    fn run_piece(&mut self, piece: &Piece, origin: Origin<'_>) -> Result<Flow, Failure> {
        let text = std::str::from_utf8(&piece.text).map_err(|error| {
            Failure::error(format!("the statement is not UTF-8: {error}")).at(&origin.place(piece.line))
        })?;
        if piece.is_command {
            return self.run_command(text).map_err(|failure| failure.at(&origin.place(piece.line)));
        }
        self.run_statements(text, piece.line, origin).map(|()| Flow::Continue)
    }

    /// Runs a text without commands; usually one statement, since the splitter has cut it.
    fn run_statements(&mut self, text: &str, first_line: usize, origin: Origin<'_>) -> Result<(), Failure> {
        let mut start = Instant::now();
        for statement in freestone::parse_script(text) {
            let line = first_line + statement.line.saturating_sub(1);
            let above = first_line - 1 + self.backend.first_line_of(&statement);
            let result = self.run_statement(statement, start).map_err(|failure| failure.below(above));
            result.map_err(|failure| failure.at(&origin.place(line)))?;
            start = Instant::now();
        }
        Ok(())
    }

    fn run_statement(&mut self, statement: Statement, start: Instant) -> Result<(), Failure> {
        self.interrupt.begin();
        let notice = statement.notice();
        let executed = self.execute(statement, start);
        self.interrupt.end();
        if matches!(executed, Err(Stop::Abandoned)) {
            self.threads.abandon().map_err(|error| Failure::error(format!("cannot start threads: {error}")))?;
        }
        // What a failed statement gave before it failed comes out too, ahead of its error.
        let flushed = self.sink.flush().map_err(Stop::Write);
        let elapsed = executed.and_then(|elapsed| flushed.map(|()| elapsed));
        let elapsed = elapsed.map_err(|stop| stop.into_failure(&self.sink))?;
        if let Some(notice) = notice {
            note(format_args!("notice: {notice}"));
        }
        if self.settings.timing {
            note(format_args!("time: {:.3} ms", elapsed.as_secs_f64() * 1e3));
        }
        Ok(())
    }

    /// Returns the time from `start` to the last batch.
    fn execute(&mut self, statement: Statement, start: Instant) -> Result<Duration, Stop> {
        let (sender, receiver) = mpsc::channel(BATCHES_IN_FLIGHT);
        let backend = self.backend.clone();
        let task = self.threads.spawn(async move { produce(&backend, &statement, sender).await });
        let (interrupt, meter, backend) = (self.interrupt.clone(), self.meter.clone(), &self.backend);
        let (settings, sink) = (&self.settings, &mut self.sink);
        self.threads.wait_for(async {
            let drained = tokio::select! {
                drained = drain(receiver, Progress::new(meter), settings, sink, &mut self.results) => drained,
                () = interrupt.requested() => Err(Stop::Interrupted),
            };
            if drained.is_err() {
                backend.cancel();
            }
            let ended = wait(task, drained.is_err()).await;
            let (writer, end) = match (drained, ended) {
                (Ok(writer), Some(ended)) => (writer, ended?),
                // The interrupt came too late: the change is committed, and saying otherwise would be wrong.
                (Err(Stop::Interrupted), Some(Ok(end))) if !matches!(end, End::Rows) => (None, end),
                (Ok(_) | Err(Stop::Interrupted), None) => return Err(Stop::Abandoned),
                (Err(stop), _) => return Err(stop),
            };
            let elapsed = start.elapsed();
            if let Some(mut writer) = writer {
                writer.finish().map_err(Stop::Write)?;
            }
            if settings.statuses {
                end.print();
            }
            Ok(elapsed)
        })
    }
}

/// What a statement's task sends ahead of its end.
enum Event {
    Schema(SchemaRef),
    Batch(RecordBatch),
}

enum End {
    Rows,
    Affected { verb: String, rows: u64 },
    Done { verb: String },
}

impl End {
    fn print(&self) {
        match self {
            End::Rows => {}
            End::Affected { verb, rows } => note(format_args!("{verb} {rows}")),
            End::Done { verb } => note(verb),
        }
    }
}

/// How the task ended; nothing if it was cancelled and does not stop in time, and is left to itself.
async fn wait(mut task: JoinHandle<Result<End, Failure>>, is_cancelled: bool) -> Option<Result<End, Failure>> {
    let joined = if is_cancelled {
        match tokio::time::timeout(CANCEL_PATIENCE, &mut task).await {
            Ok(joined) => joined,
            Err(_) => {
                task.abort();
                return None;
            }
        }
    } else {
        task.await
    };
    Some(match joined {
        Ok(ended) => ended,
        Err(error) => Err(Failure::error(format!("internal error: {error}"))),
    })
}

/// The statement's task. That the receiver has gone means that nobody wants the rest.
async fn produce(backend: &Backend, statement: &Statement, sender: mpsc::Sender<Event>) -> Result<End, Failure> {
    let (schema, mut stream) = match backend.execute(statement).await? {
        Answer::Rows { schema, stream } => (schema, stream),
        Answer::Affected { verb, rows } => return Ok(End::Affected { verb: verb.into(), rows }),
        Answer::Done { verb } => return Ok(End::Done { verb: verb.into() }),
    };
    let mut is_wanted = sender.send(Event::Schema(schema)).await.is_ok();
    while is_wanted && let Some(batch) = stream.next().await {
        is_wanted = sender.send(Event::Batch(batch?)).await.is_ok();
    }
    Ok(End::Rows)
}

/// Prints what the task sends until it ends; returns the writer, to be finished if the task ended well.
async fn drain<'a>(
    mut receiver: mpsc::Receiver<Event>,
    mut progress: Progress,
    settings: &Settings,
    sink: &'a mut Sink,
    results: &mut usize,
) -> Result<Option<Box<dyn ResultWriter + 'a>>, Stop> {
    // A table on a terminal comes as a whole at the end; other formats write while the statement runs.
    let may_interleave =
        sink.is_terminal() && !(settings.format == Format::Table && settings.layout.max_rows.is_some());
    let mut ticks = tokio::time::interval(Progress::INTERVAL);
    let schema = loop {
        tokio::select! {
            event = receiver.recv() => match event {
                None => return Ok(None),
                Some(Event::Schema(schema)) => break schema,
                Some(Event::Batch(_)) => {}
            },
            _ = ticks.tick(), if progress.is_enabled() => progress.tick(),
        }
    };
    check_target(settings.format, sink, *results)?;
    *results += 1;
    let layout = if sink.is_terminal() { settings.layout.clone() } else { TableLayout::default() };
    sink.open().map_err(Stop::Write)?;
    let mut writer = output::writer(settings.format, &schema, sink, &layout).map_err(Stop::Write)?;
    loop {
        tokio::select! {
            event = receiver.recv() => match event {
                None => return Ok(Some(writer)),
                Some(Event::Schema(_)) => {}
                Some(Event::Batch(batch)) => {
                    if may_interleave {
                        progress.stop();
                    }
                    writer.write(&batch).map_err(Stop::Write)?;
                }
            },
            _ = ticks.tick(), if progress.is_enabled() => progress.tick(),
        }
    }
}

/// Why printing stopped early.
enum Stop {
    Interrupted,
    /// Interrupted, and the statement still runs.
    Abandoned,
    Write(io::Error),
    Failure(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(failure)
    }
}

impl Stop {
    fn into_failure(self, sink: &Sink) -> Failure {
        match self {
            Stop::Interrupted | Stop::Abandoned => Failure::Interrupted,
            Stop::Failure(failure) => failure,
            Stop::Write(_) if sink.broken_pipe() => Failure::BrokenPipe,
            Stop::Write(error) => Failure::error(format!("cannot write to {}: {error}", sink.describe())),
        }
    }
}

fn check_target(format: Format, sink: &Sink, results: usize) -> Result<(), Failure> {
    if format.is_binary() && sink.is_terminal() {
        return Err(binary_on_terminal(format));
    }
    if format.is_binary() && results > 0 {
        return Err(Failure::with_hint(
            format!("{} already holds a result, and {} has no place for a second", sink.describe(), format.name()),
            "run one statement that gives rows for each output",
        ));
    }
    Ok(())
}

pub fn binary_on_terminal(format: Format) -> Failure {
    Failure::with_hint(
        format!("{} is not for a terminal", format.name()),
        "name a file with --output (or \\o in the shell), or redirect standard output",
    )
}
