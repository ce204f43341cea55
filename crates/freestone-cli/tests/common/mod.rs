//! What tests of several commands share.

use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Sends a signal to a process, which ends by it within a time, and returns its exit status.
pub fn end(child: &mut Child, signal: &str, within: Duration) -> Option<i32> {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().expect("kill runs").success());
    status(child, within)
}

/// The exit status of a process that ends within a time.
pub fn status(child: &mut Child, within: Duration) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < within {
        if let Some(status) = child.try_wait().expect("a status") {
            return status.code();
        }
        sleep(Duration::from_millis(20));
    }
    panic!("the process does not end");
}
