//! Counters of tasks, on both sides, and their text in the format of Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use freestone::cluster::TaskError;

/// Why tasks fail, as the label `reason` of their counters.
const REASONS: [&str; 4] = ["lost", "declined", "differs", "failed"];

/// What is counted of tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskCounters {
    begun: AtomicU64,
    running: AtomicI64,
    rows: AtomicU64,
    bytes: AtomicU64,
    micros: AtomicU64,
    failed: [AtomicU64; REASONS.len()],
}

impl TaskCounters {
    pub fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn add_failure(&self, error: &TaskError) {
        let reason = match error {
            TaskError::Lost(_) => 0,
            TaskError::Declined(_) => 1,
            TaskError::Differs(_) => 2,
            TaskError::Failed(_) => 3,
        };
        if let Some(counter) = self.failed.get(reason) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The tasks that run now.
    pub fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst).max(0) as u64
    }

    /// Writes all counters, with names that begin with `prefix`.
    pub fn write(&self, text: &mut MetricsText, prefix: &str, moved: &str) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        text.one(&format!("{prefix}_tasks_total"), "counter", "Tasks begun", value(&self.begun));
        text.one(&format!("{prefix}_tasks_running"), "gauge", "Tasks running now", self.running() as f64);
        let failed = REASONS.iter().zip(&self.failed).map(|(reason, counter)| (*reason, value(counter)));
        let name = format!("{prefix}_tasks_failed_total");
        text.labelled(&name, "counter", "Tasks that gave no rows or not all of them", "reason", failed);
        text.one(&format!("{prefix}_rows_{moved}_total"), "counter", "Rows of tasks", value(&self.rows));
        text.one(&format!("{prefix}_bytes_{moved}_total"), "counter", "Bytes of these rows", value(&self.bytes));
        let seconds = value(&self.micros) / 1e6;
        text.one(&format!("{prefix}_task_seconds_total"), "counter", "Time of all tasks", seconds);
    }
}

/// A task that runs: it is counted until this is dropped.
pub(crate) struct Counted {
    counters: Arc<TaskCounters>,
    began: Instant,
}

impl Counted {
    pub fn new(counters: &Arc<TaskCounters>) -> Counted {
        counters.begun.fetch_add(1, Ordering::Relaxed);
        counters.running.fetch_add(1, Ordering::SeqCst);
        Counted { counters: counters.clone(), began: Instant::now() }
    }

    pub fn counters(&self) -> &TaskCounters {
        &self.counters
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counters.micros.fetch_add(self.began.elapsed().as_micros() as u64, Ordering::Relaxed);
        self.counters.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A text in the format of Prometheus.
#[derive(Debug, Default)]
pub(crate) struct MetricsText(String);

impl MetricsText {
    /// A metric with one value.
    pub fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    /// A metric with a value per label. Labels are names of this program.
    pub fn labelled<'a>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'a str, f64)>,
    ) {
        self.head(name, kind, help);
        for (of, value) in values {
            let _ = writeln!(self.0, "{name}{{{label}=\"{of}\"}} {value}");
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}.\n# TYPE {name} {kind}");
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_counted_until_they_end() {
        let counters = Arc::new(TaskCounters::default());
        let (first, second) = (Counted::new(&counters), Counted::new(&counters));
        first.counters().add_rows(3);
        second.counters().add_bytes(70);
        counters.add_failure(&TaskError::Differs("other rows".to_owned()));
        drop(first);
        assert_eq!(counters.running(), 1);
        let mut text = MetricsText::default();
        counters.write(&mut text, "freestone_worker", "sent");
        let text = text.into_string();
        for line in [
            "freestone_worker_tasks_total 2",
            "freestone_worker_tasks_running 1",
            "freestone_worker_tasks_failed_total{reason=\"lost\"} 0",
            "freestone_worker_tasks_failed_total{reason=\"differs\"} 1",
            "freestone_worker_rows_sent_total 3",
            "freestone_worker_bytes_sent_total 70",
            "# TYPE freestone_worker_task_seconds_total counter",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let samples = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples, 5 + REASONS.len());
    }
}
