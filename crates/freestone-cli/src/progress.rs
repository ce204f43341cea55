//! Shows on a terminal that a long statement is running, with its progress if the engine reports it.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::note;
use crate::terminal;

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last progress report. The threads of the engine write it, and the printing thread reads it.
#[derive(Debug, Default)]
pub struct Meter {
    work: Mutex<Option<Work>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Work {
    task: String,
    total: Option<u64>,
    done: u64,
}

impl Meter {
    /// Sets the progress of a server's statement; 0 if unknown.
    pub fn show(&self, done: u64, total: u64) {
        *self.work() = Some(Work { task: String::new(), total: Some(total).filter(|total| *total > 0), done });
    }

    fn work(&self) -> MutexGuard<'_, Option<Work>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl freestone::Progress for Meter {
    fn begin(&self, task: &str, total: Option<u64>) {
        *self.work() = Some(Work { task: task.into(), total, done: 0 });
    }

    fn advance(&self, done: u64) {
        if let Some(work) = self.work().as_mut() {
            work.done = done;
        }
    }

    fn end(&self) {
        *self.work() = None;
    }

    fn notice(&self, text: &str) {
        note(format_args!("notice: {text}"));
    }
}

/// A line on standard error, which is shown while a statement runs and removed when it ends.
pub struct Progress {
    start: Instant,
    is_enabled: bool,
    meter: Arc<Meter>,
    line: Option<ProgressBar>,
    /// The form of the line: whether there is a task, and whether its total is known.
    form: Option<(bool, bool)>,
}

impl Progress {
    pub const INTERVAL: Duration = Duration::from_millis(100);

    pub fn new(meter: Arc<Meter>) -> Self {
        let is_enabled = io::stderr().is_terminal() && !terminal::is_plain();
        Progress { start: Instant::now(), is_enabled, meter, line: None, form: None }
    }

    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    pub fn tick(&mut self) {
        if self.start.elapsed() < PATIENCE {
            return;
        }
        let work = self.meter.work().clone();
        let line = self.line.get_or_insert_with(|| ProgressBar::new(0).with_elapsed(self.start.elapsed()));
        let form = (work.is_some(), work.as_ref().is_some_and(|work| work.total.is_some()));
        if self.form.replace(form) != Some(form) {
            line.set_style(style(work.as_ref()));
        }
        if let Some(work) = &work {
            line.set_message(work.task.clone());
            line.set_length(work.total.unwrap_or(0));
            line.set_position(work.done);
        }
        line.tick();
    }

    /// Removes the line and stops showing it, because the terminal shows results now.
    pub fn stop(&mut self) {
        self.is_enabled = false;
        if let Some(line) = self.line.take() {
            line.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop();
        // The last report of a server's statement, which has ended.
        *self.meter.work() = None;
    }
}

fn style(work: Option<&Work>) -> ProgressStyle {
    let template = match work {
        None => "{spinner} {elapsed}",
        Some(Work { total: None, .. }) => "{spinner} {elapsed} {msg}",
        Some(Work { total: Some(_), .. }) => "{spinner} {elapsed} {msg} [{bar:30}] {percent}% {eta} left",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use freestone::Progress as _;

    use super::*;

    #[test]
    fn a_meter_keeps_what_was_said_last() {
        let meter = Meter::default();
        meter.advance(7);
        assert_eq!(*meter.work(), None);
        meter.begin("t", Some(10));
        meter.advance(3);
        assert_eq!(*meter.work(), Some(Work { task: "t".into(), total: Some(10), done: 3 }));
        meter.end();
        assert_eq!(*meter.work(), None);
    }
}
