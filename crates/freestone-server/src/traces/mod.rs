//! Traces of statements for OpenTelemetry. Each statement is a trace of spans: the statement, how it was planned, and how it ran. They
//! say how long that took, what kind of statement it was, how many rows it returned, and the SQLSTATE of its error, but no texts of
//! statements, no messages and no values.
//!
//! [`Settings`] are read from OpenTelemetry's environment variables. [`Traces`] takes the spans of statements that have ended, and a task
//! of the server sends them to a collector by OTLP over HTTP ([`export`]).

mod export;
mod messages;
mod settings;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) use export::export;
pub(crate) use settings::Settings;

/// Takes the spans of statements for the task that sends them.
#[derive(Debug)]
pub(crate) struct Traces {
    /// `None` once no more are taken.
    waiting: Mutex<Option<mpsc::Sender<Statement>>>,
    /// The share of statements that are traced, from 0 to 1.
    share: f64,
    /// Statements whose spans did not fit in the queue.
    lost: AtomicU64,
}

/// A statement that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    /// Its first word in upper case, such as `SELECT`.
    pub operation: String,
    /// When it began, since 1970.
    pub began: Duration,
    /// How long it was planned, if it returned rows.
    pub planned: Option<Duration>,
    /// How long it took.
    pub took: Duration,
    /// The rows that were sent.
    pub rows: u64,
    /// The SQLSTATE of its error.
    pub failure: Option<&'static str>,
}

/// A statement that is being executed, and is traced.
#[derive(Debug)]
pub(crate) struct Trace {
    operation: String,
    began: Instant,
    planned: Option<Duration>,
    rows: u64,
    failure: Option<&'static str>,
}

impl Traces {
    /// Takes spans, up to a number that waits to be sent. The receiver is that of [`export`].
    pub fn new(settings: &Settings) -> (Traces, mpsc::Receiver<Statement>) {
        let (sender, receiver) = mpsc::channel(settings.queue);
        let waiting = Mutex::new(Some(sender));
        (Traces { waiting, share: settings.share, lost: AtomicU64::new(0) }, receiver)
    }

    /// Begins the trace of a statement with a text, which began at a moment; `None` if it is not traced.
    pub fn begin(&self, text: &str, began: Instant) -> Option<Box<Trace>> {
        // The 53 bits that a fraction has.
        let chance = (u64::from_le_bytes(freestone_wire::auth::random()) >> 11) as f64 / (1u64 << 53) as f64;
        (self.share >= 1.0 || chance < self.share).then(|| {
            let operation = freestone_sql::first_words(text, 1).pop().unwrap_or_default();
            Box::new(Trace { operation, began, planned: None, rows: 0, failure: None })
        })
    }

    /// Takes the spans of a statement that has ended. It does not wait: if too many are there, these are lost.
    pub fn end(&self, trace: Trace) {
        let took = trace.began.elapsed();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Trace { operation, planned, rows, failure, .. } = trace;
        let statement = Statement { operation, began: now.saturating_sub(took), planned, took, rows, failure };
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.as_ref().is_none_or(|waiting| waiting.try_send(statement).is_err()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes no more spans, so that the task that sends them ends.
    pub fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The number of statements whose spans were lost since the last call.
    fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl Trace {
    /// The statement was planned, and returns rows from now on.
    pub fn planned(&mut self) {
        self.planned = Some(self.began.elapsed());
    }

    /// Rows were sent.
    pub fn sent(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// The statement has failed.
    pub fn failed(&mut self, sqlstate: &'static str) {
        self.failure = Some(sqlstate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traces(share: f64, queue: usize) -> (Traces, mpsc::Receiver<Statement>) {
        Traces::new(&Settings { share, queue, ..Settings::for_tests("http://127.0.0.1:1/") })
    }

    #[test]
    fn statements_are_traced_with_what_they_did() {
        let (traces, mut receiver) = traces(1.0, 4);
        let mut trace = traces.begin("/* a */ select 'secret'", Instant::now()).expect("traced");
        trace.planned();
        trace.sent(3);
        trace.sent(4);
        trace.failed("57014");
        traces.end(*trace);
        let ended = receiver.try_recv().expect("a statement");
        assert_eq!((ended.operation.as_str(), ended.rows, ended.failure), ("SELECT", 7, Some("57014")));
        assert!(ended.planned.is_some_and(|planned| planned <= ended.took));
        assert!(!format!("{ended:?}").contains("secret"));
    }

    #[test]
    fn a_share_of_statements_is_traced() {
        let count = |share| {
            let (traces, _receiver) = traces(share, 1);
            (0..2000).filter(|_| traces.begin("SELECT 1", Instant::now()).is_some()).count()
        };
        assert_eq!((count(0.0), count(1.0)), (0, 2000));
        assert!((100..1900).contains(&count(0.5)));
    }

    #[test]
    fn spans_without_place_are_counted_and_lost() {
        let (traces, mut receiver) = traces(1.0, 1);
        let end = || traces.end(*traces.begin("SELECT 1", Instant::now()).expect("traced"));
        end();
        end();
        assert_eq!((traces.take_lost(), traces.take_lost()), (1, 0));
        assert!(receiver.try_recv().is_ok());
        traces.close();
        end();
        assert_eq!(traces.take_lost(), 1);
        assert_eq!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}
