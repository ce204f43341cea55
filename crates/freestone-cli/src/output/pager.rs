//! A pager, such as `less`, for results that are longer than the screen.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use crate::terminal::{self, Lent};

/// The pager, unless the environment names another one in PAGER. Long lines are not wrapped.
const PAGER: &str = "if command -v less > /dev/null; then exec less -S; else exec more; fi";

/// Holds output back until it is longer than the screen. Then the pager starts.
pub struct Pager {
    screen_rows: usize,
    held: Vec<u8>,
    held_rows: usize,
    running: Option<Running>,
    /// The pager could not be started: everything goes to the screen.
    failed: bool,
}

struct Running {
    child: Child,
    /// The pager reads keys from the terminal.
    _lent: Lent,
}

impl Pager {
    pub fn new(screen_rows: usize) -> Self {
        Pager { screen_rows, held: vec![], held_rows: 0, running: None, failed: false }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.running.is_none() {
            self.held.extend_from_slice(bytes);
            self.held_rows += bytes.iter().filter(|byte| **byte == b'\n').count();
            if self.held_rows < self.screen_rows || self.failed {
                return Ok(bytes.len());
            }
            self.start();
            let held = std::mem::take(&mut self.held);
            if self.failed {
                self.held = held;
            } else {
                self.send(&held)?;
            }
            return Ok(bytes.len());
        }
        self.send(bytes).map(|()| bytes.len())
    }

    fn start(&mut self) {
        let command = std::env::var("PAGER").ok().filter(|text| !text.trim().is_empty());
        let command = command.unwrap_or_else(|| PAGER.into());
        let lent = terminal::lend();
        match Command::new("sh").args(["-c", &command]).stdin(Stdio::piped()).spawn() {
            Ok(child) => self.running = Some(Running { child, _lent: lent }),
            Err(_) => self.failed = true,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.running.as_mut().and_then(|running| running.child.stdin.as_mut()) {
            Some(input) => input.write_all(bytes),
            None => Ok(()),
        }
    }

    /// Waits for the pager; without one, returns what is to be shown.
    pub fn finish(mut self) -> Vec<u8> {
        if let Some(mut running) = self.running.take() {
            drop(running.child.stdin.take());
            // How the pager ends is of no interest.
            let _ = running.child.wait();
        }
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_held_back() {
        let mut pager = Pager::new(3);
        assert_eq!(pager.write(b"one\n").ok(), Some(4));
        assert_eq!(pager.write(b"two\n").ok(), Some(4));
        assert!(pager.running.is_none());
        assert_eq!(pager.finish(), b"one\ntwo\n");
    }
}
