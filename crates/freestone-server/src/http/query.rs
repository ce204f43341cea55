//! A list of statements of a tab: executed one after the other, with the rows sent as fast as the browser reads.
//!
//! The statements run in a task of their own, which gives frames to the answer's body through a channel of one frame. A browser
//! that pauses lets the channel fill, so the task waits, and with it the statement. A browser that goes drops the body, which ends the
//! task and its statement.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use freestone::{Error, ErrorKind, Statement, TransactionStatus};
use futures::{FutureExt, Stream};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::frames::{self, ArrowFrames};
use super::login::Login;
use super::parameters::Given;
use super::readable;
use super::refusal::Refusal;
use super::tabs::{LOST, Tab, Turn};
use crate::execution::{self, Answer, Clock, Rows};
use crate::metrics::Metrics;
use crate::shared::Shared;
use crate::sqlstate;
use crate::text_place;

/// How often a page hears of a statement that runs.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// The time for the error of a statement whose session ends.
const GRACE: Duration = Duration::from_millis(500);

/// The body of a request for statements.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    /// The name of the tab, which the page chooses.
    tab: String,
    /// The statements.
    sql: String,
    /// Values for their parameters.
    #[serde(default)]
    parameters: Option<serde_json::Value>,
    /// The maximum number of rows of each statement.
    #[serde(default)]
    max_rows: Option<u64>,
}

/// Begins to execute statements. The answer's body has their frames.
///
/// # Errors
/// The parameters or the tab are wrong, or the tab is busy.
pub(crate) async fn answer(shared: &Arc<Shared>, login: &Login, query: Query) -> Result<Response, Refusal> {
    let Query { tab, sql, parameters, max_rows } = query;
    let given = Given::of(parameters)?;
    let make = || {
        let session = shared.session(login.role);
        let registered = shared.register_new(&session, (&login.user, login.role));
        Tab::new(session, registered)
    };
    let (tab, was_lost) = login.tabs.tab(&tab, make)?;
    let Some(turn) = tab.begin().await else {
        return Err(Refusal::new(StatusCode::CONFLICT, "statements of this tab still run")
            .with_hint("wait for them, cancel them, or use another tab")
            .with_sqlstate(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE));
    };
    let (sender, receiver) = mpsc::channel(1);
    let mut ticks = tokio::time::interval_at(Instant::now() + PROGRESS_EVERY, PROGRESS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let run = Run {
        shared: shared.clone(),
        turn,
        sender,
        given,
        max_rows,
        ticks,
        blocked: Duration::ZERO,
        is_cancelled: false,
    };
    tokio::spawn(run.run(sql, was_lost));
    let mut response = Response::new(Body::from_stream(body(receiver)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(frames::MEDIA_TYPE));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// What the task gives to the body.
enum Part {
    Frame(Bytes),
    /// All frames were given.
    End,
}

/// The frames. If the task ends before it has given all, the body fails, so that a part is not taken for the whole.
fn body(receiver: mpsc::Receiver<Part>) -> impl Stream<Item = io::Result<Bytes>> {
    futures::stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Part::Frame(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(Part::End) => None,
            None => Some((Err(io::Error::other("the session has ended")), None)),
        }
    })
}

/// Why a list of statements ends early.
enum Stop {
    /// The browser has gone.
    Gone,
    /// A statement has failed: with its place in the text, lines and columns counted from 1.
    Failed { error: Error, place: Option<(usize, usize)> },
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed { error, place: None }
    }
}

/// The execution of a list of statements.
struct Run {
    shared: Arc<Shared>,
    turn: Turn,
    sender: mpsc::Sender<Part>,
    given: Given,
    max_rows: Option<u64>,
    ticks: Interval,
    /// The time in which the current statement waited for the browser.
    blocked: Duration,
    is_cancelled: bool,
}

impl Run {
    async fn run(mut self, sql: String, was_lost: bool) {
        let (browser, tab) = (self.sender.clone(), self.turn.tab.clone());
        let ended = tab.registered.ended();
        tokio::select! {
            () = self.run_all(sql, was_lost) => {}
            () = browser.closed() => tab.session.cancel_handle().cancel(),
            () = async { ended.await; tokio::time::sleep(GRACE).await } => {}
        }
    }

    /// Executes the statements, and gives the error of one that fails.
    async fn run_all(&mut self, sql: String, was_lost: bool) {
        let failure = match self.statements(sql, was_lost).await {
            Ok(()) => None,
            Err(Stop::Gone) => return,
            Err(Stop::Failed { error, place }) => Some(self.failure(&error, place)),
        };
        if let Some(frame) = failure
            && self.give(frame).await.is_err()
        {
            return;
        }
        let _ = self.sender.send(Part::End).await;
    }

    fn failure(&self, error: &Error, place: Option<(usize, usize)>) -> Bytes {
        let ending = self.turn.tab.registered.ended().now_or_never().filter(|_| error.kind() == ErrorKind::Cancelled);
        let (message, sqlstate) = match ending {
            Some(why) => (why.message().to_owned(), sqlstate::ADMIN_SHUTDOWN),
            None => (error.to_string(), error.sqlstate()),
        };
        let place = text_place::of_syntax_error(&message).or(place);
        let mut failure = json!({ "message": message, "sqlstate": sqlstate });
        if let Some(hint) = error.hint() {
            failure["hint"] = hint.into();
        }
        if let Some((line, column)) = place {
            failure["line"] = line.into();
            failure["column"] = column.into();
        }
        frames::json(frames::ERROR, &failure)
    }

    async fn statements(&mut self, sql: String, was_lost: bool) -> Result<(), Stop> {
        if was_lost {
            self.give(frames::json(frames::NOTICE, &json!({ "message": LOST }))).await?;
        }
        let (shared, session, limit) =
            (self.shared.clone(), self.turn.tab.session.clone(), self.shared.limits.statement);
        let parsing = async move { execution::parse(&shared, &session, limit, sql).await };
        let statements = self.attend(Instant::now(), 0, parsing).await??;
        if statements.is_empty() {
            return Err(Error::new(ErrorKind::Syntax, "there is no statement in the text").into());
        }
        self.given.check_used(&statements)?;
        for (index, statement) in statements.iter().enumerate() {
            let place = (statement.line, statement.column());
            self.statement(index, statement).await.map_err(|stop| match stop {
                Stop::Failed { error, place: None } => {
                    let offset = error.offset_in(&statement.text);
                    let place = offset.map_or(place, |offset| text_place::of_offset(&statement.text, offset, place));
                    Stop::Failed { error, place: Some(place) }
                }
                other => other,
            })?;
        }
        Ok(())
    }

    async fn statement(&mut self, index: usize, statement: &Statement) -> Result<(), Stop> {
        let (line, column) = (statement.line, statement.column());
        let begins = json!({ "index": index, "line": line, "column": column, "text": statement.text });
        self.send(frames::json(frames::STATEMENT, &begins)).await?;
        let inputs = self.given.inputs(statement)?;
        self.blocked = Duration::ZERO;
        let began = Instant::now();
        let clock = Clock::start(self.shared.limits.statement);
        let (shared, session) = (self.shared.clone(), self.turn.tab.session.clone());
        let executing = execution::execute(&shared, &session, statement, inputs, clock);
        let (tag, rows, is_truncated) = match self.attend(began, 0, executing).await?? {
            Answer::Rows(rows) => {
                let (count, is_truncated) = self.rows(rows, began).await?;
                ("SELECT", count, is_truncated)
            }
            Answer::Affected { verb, rows } => (verb, rows, false),
            Answer::Done { verb } => (verb, 0, false),
        };
        if let Some(notice) = statement.notice() {
            self.send(frames::json(frames::NOTICE, &json!({ "message": notice }))).await?;
        }
        let mut done = json!({ "ms": self.ms(began), "rows": rows, "tag": tag });
        if is_truncated {
            done["truncated"] = true.into();
        }
        match session.transaction_status() {
            TransactionStatus::Idle => {}
            TransactionStatus::Open => done["transaction"] = "open".into(),
            TransactionStatus::Failed => done["transaction"] = "failed".into(),
        }
        self.send(frames::json(frames::DONE, &done)).await
    }

    /// Sends rows, and returns their number, and whether there are more than the page wants.
    async fn rows(&mut self, mut rows: Rows, began: Instant) -> Result<(u64, bool), Stop> {
        let schema = readable::schema(&rows.schema);
        let (mut stream, first) = ArrowFrames::begin(&schema).map_err(Error::from)?;
        self.send_rows(&rows, first).await?;
        let (mut sent, most) = (0, self.max_rows.unwrap_or(u64::MAX));
        let is_truncated = loop {
            let Some(batch) = self.attend(began, sent, rows.next()).await? else { break false };
            let batch = batch?;
            let wanted = usize::try_from(most - sent).unwrap_or(usize::MAX).min(batch.num_rows());
            let is_cut = wanted < batch.num_rows();
            for piece in readable::pieces(batch.slice(0, wanted)) {
                let piece = readable::converted(&piece, &schema).map_err(Error::from)?;
                let frame = stream.rows(&piece).map_err(Error::from)?;
                self.send_rows(&rows, frame).await?;
                sent += piece.num_rows() as u64;
            }
            if is_cut {
                break true;
            }
        };
        let last = stream.end().map_err(Error::from)?;
        self.send_rows(&rows, last).await?;
        Ok((sent, is_truncated))
    }

    /// Sends a part of a statement's rows, within the statement's time.
    async fn send_rows(&mut self, rows: &Rows, frame: Bytes) -> Result<(), Stop> {
        let bytes = frame.len() as u64;
        rows.within(self.send(frame)).await??;
        Metrics::add(&self.shared.metrics.bytes, bytes);
        Ok(())
    }

    /// Waits for work of a statement that has begun and sent rows. Meanwhile the page hears of it, and may cancel it.
    async fn attend<T>(&mut self, began: Instant, rows: u64, work: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::pin!(work);
        loop {
            let cancelled = self.turn.cancelled();
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = cancelled, if !self.is_cancelled => {
                    // The statement ends with its own error.
                    self.is_cancelled = true;
                    self.turn.tab.session.cancel_handle().cancel();
                }
                _ = self.ticks.tick() => self.give_progress(began, rows),
            }
        }
    }

    /// Tells the page how far a statement has come, unless it still has to read what was sent before.
    fn give_progress(&self, began: Instant, rows: u64) {
        let mut progress = json!({ "ms": self.ms(began), "rows": rows });
        if let Some(work) = self.turn.tab.work.now() {
            progress["task"] = work.task.into();
            progress["done"] = work.done.into();
            progress["total"] = work.total.into();
        }
        if let Some(share) = self.turn.tab.session.share_read() {
            progress["share"] = share.into();
        }
        let _ = self.sender.try_send(Part::Frame(frames::json(frames::PROGRESS, &progress)));
    }

    /// The milliseconds of a statement, without those in which it waited for the browser.
    fn ms(&self, began: Instant) -> f64 {
        let micros = began.elapsed().saturating_sub(self.blocked).as_micros() as f64;
        micros / 1000.0
    }

    /// Sends a frame when the browser has read those before, unless the page cancels.
    async fn send(&mut self, frame: Bytes) -> Result<(), Stop> {
        if self.is_cancelled {
            return Err(Error::cancelled().into());
        }
        let began = Instant::now();
        let sent = tokio::select! {
            sent = self.sender.send(Part::Frame(frame)) => sent.map_err(|_| Stop::Gone),
            () = self.turn.cancelled() => {
                self.is_cancelled = true;
                self.turn.tab.session.cancel_handle().cancel();
                Err(Error::cancelled().into())
            }
        };
        self.blocked += began.elapsed();
        sent
    }

    /// Sends a frame that does not belong to what can be cancelled.
    async fn give(&self, frame: Bytes) -> Result<(), Stop> {
        self.sender.send(Part::Frame(frame)).await.map_err(|_| Stop::Gone)
    }
}
