//! Runs statements one by one and prints their results.
//!
//! A statement runs as a task on the workers. The calling thread formats its batches as they arrive, shows progress,
//! and waits for Ctrl-C, which aborts the task. Only a few batches of the running statement are in memory.

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

use crate::args::EngineArgs;
use crate::backend::{Answer, Backend};
use crate::connect::{self, Connected};
use crate::failure::{Failure, note};
use crate::interrupt::Interrupt;
use crate::new_database::NewDatabase;
use crate::output::{self, Format, ResultWriter, Sink, TableLayout};
use crate::progress::{Meter, Progress};
use crate::split::{Piece, Splitter};
use crate::threads::Threads;

/// The maximum depth of scripts that run scripts.
const MAX_SCRIPT_DEPTH: usize = 16;

/// The time for a cancelled statement to stop, before the shell continues without it.
const CANCEL_PATIENCE: Duration = Duration::from_secs(2);

/// The time for cancelled statements to stop, before their database is closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// The number of batches between the engine and the printer.
const BATCHES_IN_FLIGHT: usize = 2;

/// What a session prints and in which form. Commands of the shell change it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The format that the user has chosen. Without one, the name of the output file says it.
    pub format: Option<Format>,
    pub timing: bool,
    /// Shows results that are longer than the screen in a pager.
    pub pager: bool,
    /// Prints `INSERT 3` and other command tags on standard error.
    pub statuses: bool,
    /// The limits of a table on a terminal, whose size is measured for each result.
    pub layout: TableLayout,
}

/// The source of a statement, for messages.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// The command line or the shell: the user sees the text.
    Inline,
    Named(&'a str),
}

impl Origin<'_> {
    /// The prefix `FILE:LINE: `.
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

/// A database, with the threads that execute its statements.
pub struct Connection {
    database: Connected,
    threads: Threads,
    args: EngineArgs,
}

impl Connection {
    pub fn open(db: Option<&Path>, args: EngineArgs) -> Result<Connection, Failure> {
        let database = connect::connect(db, &args)?;
        let threads = Threads::new(database.threads).map_err(no_threads)?;
        Ok(Connection { database, threads, args })
    }

    /// Waits a moment for cancelled work, and closes the database. Its folder is removed if it is new and empty.
    fn close(self) {
        let unused = self.database.new.and_then(NewDatabase::unused);
        drop(self.database.backend);
        self.threads.shut_down(CLOSE_PATIENCE);
        if let Some(unused) = unused {
            unused.remove();
        }
    }
}

pub struct Runner {
    connection: Connection,
    pub settings: Settings,
    interrupt: Arc<Interrupt>,
    meter: Arc<Meter>,
    sink: Sink,
    /// The number of results in the sink.
    results: usize,
    depth: usize,
}

impl Runner {
    pub fn new(connection: Connection, interrupt: Arc<Interrupt>, sink: Sink, settings: Settings) -> Self {
        let meter = Arc::new(Meter::default());
        connection.database.backend.report_to(meter.clone());
        Runner { connection, settings, interrupt, meter, sink, results: 0, depth: 0 }
    }

    pub fn shut_down(self) {
        self.connection.close();
    }

    /// Opens another database in place of the present one, which stays open if that fails.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn reopen(&mut self, db: &Path) -> Result<(), Failure> {
        if self.connection.database.folder.as_deref().is_some_and(|folder| is_same_folder(folder, db)) {
            return Ok(());
        }
        let opened = Connection::open(Some(db), self.connection.args.clone())?;
        opened.database.backend.report_to(self.meter.clone());
        if !self.backend().transaction_mark().is_empty() {
            note("the open transaction is rolled back");
        }
        std::mem::replace(&mut self.connection, opened).close();
        Ok(())
    }

    pub fn backend(&self) -> &Backend {
        &self.connection.database.backend
    }

    /// The name of the database.
    pub fn name(&self) -> &str {
        &self.connection.database.name
    }

    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The format of the next result.
    pub fn format(&self) -> Format {
        self.settings.format.or_else(|| self.sink.named_format()).unwrap_or(Format::Table)
    }

    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// Writes buffered results, before another program writes to the same place.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.sink.flush().map_err(|error| Stop::Write(error).into_failure(&self.sink))
    }

    /// Writes later results to `sink`.
    ///
    /// # Errors
    ///
    /// The buffered results cannot be written.
    pub fn replace_sink(&mut self, sink: Sink) -> io::Result<()> {
        self.sink.flush()?;
        self.sink = sink;
        self.results = 0;
        Ok(())
    }

    /// Runs the statements and commands of a text, up to the first that fails.
    ///
    /// # Errors
    ///
    /// The failure of that statement or command.
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

    /// Runs each statement as soon as it has arrived, so that another process can wait for its result before it sends
    /// the next one.
    ///
    /// # Errors
    ///
    /// The first failure of a statement or command, or of reading.
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
            let message = format!("the statement is not UTF-8: {error}");
            let is_utf_16 = piece.text.starts_with(b"\xff\xfe") || piece.text.starts_with(b"\xfe\xff");
            let failure = match is_utf_16 {
                true => Failure::with_hint(message, "the text is UTF-16: save it as UTF-8"),
                false => Failure::error(message),
            };
            failure.at(&origin.place(piece.line))
        })?;
        if piece.is_command {
            return self.run_command(text).map_err(|failure| failure.at(&origin.place(piece.line)));
        }
        self.run_statements(text, piece.line, origin).map(|()| Flow::Continue)
    }

    /// Runs a text without commands: usually one statement, because the splitter has separated it.
    fn run_statements(&mut self, text: &str, first_line: usize, origin: Origin<'_>) -> Result<(), Failure> {
        let mut start = Instant::now();
        for statement in freestone::parse_script(text) {
            let line = first_line + statement.line.saturating_sub(1);
            let above = first_line - 1 + self.backend().first_line_of(&statement);
            let result = self.run_statement(statement, start).map_err(|failure| failure.below(above));
            result.map_err(|failure| failure.at(&origin.place(line)))?;
            start = Instant::now();
        }
        Ok(())
    }

    fn run_statement(&mut self, statement: Statement, start: Instant) -> Result<(), Failure> {
        let notice = statement.notice();
        let backend = self.backend().clone();
        self.run_work(async move { backend.execute(&statement).await }, start)?;
        if let Some(notice) = notice {
            note(format_args!("notice: {notice}"));
        }
        Ok(())
    }

    /// Runs the work of a statement that began at `start`, and prints its answer.
    pub(crate) fn run_work(
        &mut self,
        work: impl Future<Output = Result<Answer, Failure>> + Send + 'static,
        start: Instant,
    ) -> Result<(), Failure> {
        self.interrupt.begin();
        if self.settings.pager
            && let Some(rows) = TableLayout::default().measured().screen_rows
        {
            self.sink.begin_page(rows);
        }
        let executed = self.execute(work, start);
        let paged = self.sink.end_page();
        self.interrupt.end();
        if matches!(executed, Err(Stop::Abandoned)) {
            self.connection.threads.abandon().map_err(no_threads)?;
        }
        // The rows of a statement that were returned before it failed are printed before its error.
        let flushed = paged.and_then(|()| self.sink.flush()).map_err(Stop::Write);
        let elapsed = executed.and_then(|elapsed| flushed.map(|()| elapsed));
        let elapsed = elapsed.map_err(|stop| stop.into_failure(&self.sink))?;
        if self.settings.timing {
            note(format_args!("time: {:.3} ms", elapsed.as_secs_f64() * 1e3));
        }
        Ok(())
    }

    /// Executes a statement, and returns the time from `start` to the last batch.
    fn execute(
        &mut self,
        work: impl Future<Output = Result<Answer, Failure>> + Send + 'static,
        start: Instant,
    ) -> Result<Duration, Stop> {
        let (sender, receiver) = mpsc::channel(BATCHES_IN_FLIGHT);
        let format = self.format();
        let Connection { database, threads, .. } = &self.connection;
        let task = threads.spawn(produce(work, sender));
        let (interrupt, progress) = (self.interrupt.clone(), Progress::new(self.meter.clone()));
        let (settings, sink) = (&self.settings, &mut self.sink);
        threads.wait_for(async {
            let drained = tokio::select! {
                drained = drain(receiver, progress, (format, settings), sink, &mut self.results) => drained,
                () = interrupt.requested() => Err(Stop::Interrupted),
            };
            if drained.is_err() {
                database.backend.cancel();
            }
            let ended = wait(task, drained.is_err()).await;
            let (writer, end) = match (drained, ended) {
                (Ok(writer), Some(ended)) => (writer, ended?),
                // The interrupt came too late: the change is committed, and any other message would be wrong.
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

/// The messages of a statement's task before its end.
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

/// The result of a task; `None` if it was cancelled, does not stop in time, and is abandoned.
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

/// The task of a statement. If the receiver was dropped, the rest is not needed.
async fn produce(
    work: impl Future<Output = Result<Answer, Failure>>,
    sender: mpsc::Sender<Event>,
) -> Result<End, Failure> {
    let (schema, mut stream) = match work.await? {
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

/// Prints the messages of the task until it ends. Returns the writer, which is to be finished if the task was
/// successful.
async fn drain<'a>(
    mut receiver: mpsc::Receiver<Event>,
    mut progress: Progress,
    (format, settings): (Format, &Settings),
    sink: &'a mut Sink,
    results: &mut usize,
) -> Result<Option<Box<dyn ResultWriter + 'a>>, Stop> {
    // A table on a terminal is printed as a whole at the end. Other formats are written while the statement runs.
    let is_whole = format == Format::Table && settings.layout.max_rows.is_some() && !sink.is_paged();
    let may_interleave = sink.is_terminal() && !is_whole;
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
    check_target(format, sink, *results)?;
    *results += 1;
    let mut layout = if sink.is_terminal() { settings.layout.measured() } else { TableLayout::default() };
    if sink.is_paged() {
        layout.max_rows = None;
    }
    sink.open().map_err(Stop::Write)?;
    let mut writer = output::writer(format, &schema, sink, &layout).map_err(Stop::Write)?;
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

/// The reasons for an early end of printing.
enum Stop {
    Interrupted,
    /// Interrupted, while the statement is still running.
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

fn no_threads(error: io::Error) -> Failure {
    Failure::error(format!("cannot start threads: {error}"))
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
