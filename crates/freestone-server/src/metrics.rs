//! Counters, and their text in the format of Prometheus.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Gives more metrics in the same format, such as those of workers.
pub type MetricsSource = Box<dyn Fn() -> String + Send + Sync>;

/// The source of metrics that follow the server's own.
#[derive(Default)]
pub struct More(pub Option<MetricsSource>);

impl fmt::Debug for More {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("More(…)")
    }
}

#[derive(Debug, Default)]
pub struct Metrics {
    pub connections: AtomicU64,
    pub refused: AtomicU64,
    pub open: AtomicI64,
    pub failed_logins: AtomicU64,
    pub statements: AtomicU64,
    pub failed: AtomicU64,
    pub cancelled: AtomicU64,
    pub running: AtomicI64,
    pub rows: AtomicU64,
    pub bytes: AtomicU64,
    pub busy_micros: AtomicU64,
    pub more: More,
}

impl Metrics {
    pub fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    /// The text of all counters.
    pub fn text(&self) -> String {
        let counter = |value: &AtomicU64| value.load(Ordering::Relaxed) as f64;
        let gauge = |value: &AtomicI64| value.load(Ordering::Relaxed) as f64;
        let all = [
            ("connections_total", "counter", "Connections accepted", counter(&self.connections)),
            ("connections_refused_total", "counter", "Connections over the limit", counter(&self.refused)),
            ("connections", "gauge", "Connections open now", gauge(&self.open)),
            ("logins_failed_total", "counter", "Failed authentications", counter(&self.failed_logins)),
            ("statements_total", "counter", "Statements begun", counter(&self.statements)),
            ("statements_failed_total", "counter", "Statements that failed", counter(&self.failed)),
            ("statements_cancelled_total", "counter", "Statements cancelled or timed out", counter(&self.cancelled)),
            ("statements_running", "gauge", "Statements running now", gauge(&self.running)),
            ("rows_sent_total", "counter", "Rows sent to clients", counter(&self.rows)),
            ("bytes_sent_total", "counter", "Bytes of results sent to clients", counter(&self.bytes)),
            ("statement_seconds_total", "counter", "Time of all statements", counter(&self.busy_micros) / 1e6),
        ];
        let own = all.iter().fold(String::new(), |mut text, (name, kind, help, value)| {
            let _ = writeln!(text, "# HELP freestone_{name} {help}.\n# TYPE freestone_{name} {kind}");
            let _ = writeln!(text, "freestone_{name} {value}");
            text
        });
        own + &self.more.0.as_ref().map(|more| more()).unwrap_or_default()
    }
}
