//! The machine and the build on which figures were measured.

use std::fs;
use std::thread::available_parallelism;

use serde::{Deserialize, Serialize};

/// What a reader must know to compare figures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Processor, threads, memory, operating system.
    pub hardware: String,
    /// The versions of the program and of its main libraries.
    pub versions: String,
    /// The day of the run, UTC.
    pub date: String,
}

impl Host {
    /// This machine at this time, with the caller's `versions`.
    pub fn here(versions: &str) -> Host {
        Host { hardware: hardware(), versions: versions.to_owned(), date: today() }
    }
}

fn hardware() -> String {
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let threads = available_parallelism().map_or(1, |count| count.get());
    let kibibytes = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let memory = kibibytes.map_or(String::new(), |size| format!(", {:.0} GiB of memory", size as f64 / 1048576.0));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{processor}, {threads} threads{memory}, {} {}", std::env::consts::OS, release.trim()).trim_end().to_owned()
}

/// The value of the first line `name: value` in a file of the kernel.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The date in UTC.
fn today() -> String {
    chrono::DateTime::<chrono::Utc>::from(std::time::SystemTime::now()).format("%Y-%m-%d").to_string()
}
