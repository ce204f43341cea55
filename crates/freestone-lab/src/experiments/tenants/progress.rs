//! The bar that says how far a run has come: one line that changes on a terminal, and a line per point elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const WIDTH: usize = 24;

pub struct Progress {
    all: usize,
    done: usize,
    /// Points that this process measured, and when it began: the rest is estimated from them.
    measured: usize,
    begin: Instant,
    on_terminal: bool,
}

impl Progress {
    /// `kept` of `all` points are there from an interrupted run.
    pub fn new(all: usize, kept: usize) -> Progress {
        let on_terminal = std::io::stderr().is_terminal();
        Progress { all, done: kept.min(all), measured: 0, begin: Instant::now(), on_terminal }
    }

    /// Shows what is measured now.
    pub fn show(&self, what: &str) {
        let line = line(self.done, self.all, self.left(), what);
        let mut out = std::io::stderr();
        // If nobody reads it, that is no reason to stop.
        let _ = if self.on_terminal { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }

    /// Another point is there.
    pub fn step(&mut self) {
        self.done += 1;
        self.measured += 1;
    }

    /// Ends the line.
    pub fn end(&self) {
        if self.on_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn left(&self) -> Option<Duration> {
        let each = self.begin.elapsed().checked_div(u32::try_from(self.measured).ok()?)?;
        Some(each * u32::try_from(self.all.saturating_sub(self.done)).ok()?)
    }
}

fn line(done: usize, all: usize, left: Option<Duration>, what: &str) -> String {
    let filled = (done * WIDTH).checked_div(all).unwrap_or(WIDTH).min(WIDTH);
    let bar: String = (0..WIDTH).map(|at| if at < filled { '#' } else { '.' }).collect();
    let left = left.map_or(String::new(), |left| {
        let seconds = left.as_secs();
        format!(", {}:{:02} left", seconds / 60, seconds % 60)
    });
    format!("[{bar}] {done} of {all}{left}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        assert_eq!(line(0, 4, None, "x"), format!("[{}] 0 of 4: x", ".".repeat(24)));
        let half = line(2, 4, Some(Duration::from_secs(65)), "y");
        assert_eq!(half, format!("[{}{}] 2 of 4, 1:05 left: y", "#".repeat(12), ".".repeat(12)));
        assert!(line(0, 0, None, "").starts_with("[####"));
        let mut progress = Progress::new(4, 9);
        progress.step();
        assert!(progress.left().is_some());
    }
}
