//! What is run at each level next to the servers: the calibrator (Table 1), and results kept with three allocators
//! (Figure 3).

use std::path::Path;
use std::process::Command;

use freestone_advisor::profile::Profile;
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::experiments::{RunOptions, memory_layouts};

/// A program whose output is one JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// `freestone calibrate`.
    Calibrator { quick: bool },
    /// `freestone-lab probe-allocators`.
    Allocators { rows: usize },
    /// `freestone-lab probe-layouts`.
    Layouts { rows: usize },
}

/// The rows of Table 1, and the bandwidth of memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// For each cache: its level, bytes, and nanoseconds of a miss and of a replacement.
    pub caches: Vec<[f64; 4]>,
    /// The nanoseconds of a miss of the translation of pages of 4 KiB.
    pub translation_ns: f64,
    /// Bytes per second of reading, by threads from 1.
    pub bandwidth: Vec<f64>,
}

/// Milliseconds of all points of Figure 3 together, with the system's allocator, jemalloc and mimalloc.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocated {
    pub alone: [f64; 3],
    pub together: [f64; 3],
    pub threads: usize,
}

/// Milliseconds of rows and of columns: by the attributes that are read, and by the share of tuples (Figures 1 and 2).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LaidOut {
    pub projectivity: Vec<[f64; 2]>,
    pub selectivity: Vec<[f64; 2]>,
}

impl Probe {
    pub fn name(self) -> &'static str {
        match self {
            Probe::Calibrator { .. } => "the calibrator",
            Probe::Allocators { .. } => "allocators",
            Probe::Layouts { .. } => "rows and columns",
        }
    }

    /// The program's name, `freestone` or `freestone-lab`, and its arguments.
    pub fn arguments(self) -> Vec<String> {
        match self {
            Probe::Calibrator { quick: true } => {
                ["freestone", "calibrate", "--json", "--quick"].map(String::from).to_vec()
            }
            Probe::Calibrator { quick: false } => ["freestone", "calibrate", "--json"].map(String::from).to_vec(),
            Probe::Allocators { rows } => {
                ["freestone-lab", "probe-allocators", "--rows", &rows.to_string()].map(String::from).to_vec()
            }
            Probe::Layouts { rows } => {
                ["freestone-lab", "probe-layouts", "--rows", &rows.to_string()].map(String::from).to_vec()
            }
        }
    }

    /// The command on this machine. The user's own profile stays as it is.
    pub fn command(self, freestone: &Path, lab: &Path) -> Command {
        let arguments = self.arguments();
        let mut command = Command::new(if arguments[0] == "freestone" { freestone } else { lab });
        let profile = std::env::temp_dir().join(format!("freestone-lab-profile-{}.json", std::process::id()));
        command.args(&arguments[1..]).env("FREESTONE_PROFILE", profile).current_dir(std::env::temp_dir());
        command
    }
}

/// The JSON value in a program's output, which may also have lines of notes.
pub(super) fn json<T: for<'a> Deserialize<'a>>(text: &str, what: &str) -> Result<T> {
    let value = text.find('{').and_then(|start| {
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<T>();
        stream.next()?.ok()
    });
    let first = text.lines().next().unwrap_or("nothing");
    value.ok_or_else(|| LabError::Broken(format!("{what} gave no figures; its first line: {first}")))
}

/// # Errors
/// The output is not a profile of this version.
pub fn calibrated(output: &str) -> Result<Calibrated> {
    let profile: Profile = json(output, "the calibrator")?;
    let hardware = &profile.hardware;
    // Levels that times show: what the system reports in their place is no measurement.
    let cache = |cache: &freestone_advisor::profile::CacheLevel| {
        let [bytes, miss, replace] = [cache.bytes?, cache.miss_ns?, cache.replace_ns?].map(|found| found.value);
        Some([f64::from(cache.level), bytes, miss, replace])
    };
    let small = hardware.translation.iter().find(|found| found.page_bytes <= 4096 && found.granted);
    Ok(Calibrated {
        caches: hardware.caches.iter().filter_map(cache).collect(),
        translation_ns: small.and_then(|found| found.miss_ns()).unwrap_or(0.0),
        bandwidth: hardware.bandwidth.points.iter().map(|(_, measured)| measured.value * 1e9).collect(),
    })
}

/// # Errors
/// The output is not that of the probe.
pub fn allocated(output: &str) -> Result<Allocated> {
    json(output, "the probe of allocators")
}

/// # Errors
/// The output is not that of the probe.
pub fn laid_out(output: &str) -> Result<LaidOut> {
    json(output, "the probe of rows and columns")
}

/// What `freestone-lab probe-layouts` prints.
///
/// # Errors
/// The tables cannot be stored, or there is no memory.
pub fn layouts(rows: usize, folder: &Path) -> Result<String> {
    let options = RunOptions { output: folder.to_owned(), ..RunOptions::default() };
    let [projectivity, selectivity] = memory_layouts::rows_and_columns(&options, rows)?;
    let json = serde_json::to_string(&LaidOut { projectivity, selectivity });
    json.map_err(|source| LabError::Result { path: folder.to_owned(), source })
}

/// What `freestone-lab probe-allocators` prints.
///
/// # Errors
/// The table cannot be stored, or there is no memory.
pub fn allocators(rows: usize, folder: &Path) -> Result<String> {
    let options = RunOptions { output: folder.to_owned(), ..RunOptions::default() };
    let [alone, together] = memory_layouts::allocator_totals(&options, rows)?;
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let json = serde_json::to_string(&Allocated { alone, together, threads });
    json.map_err(|source| LabError::Result { path: folder.to_owned(), source })
}

impl Calibrated {
    /// Bytes per second of all cores together.
    pub fn most(&self) -> f64 {
        self.bandwidth.iter().copied().fold(0.0, f64::max)
    }

    /// Bytes per second of one core.
    pub fn one(&self) -> f64 {
        self.bandwidth.first().copied().unwrap_or(0.0)
    }
}

impl Allocated {
    /// The gain of the better of jemalloc and mimalloc over the system's allocator: alone, and on all threads.
    pub fn gains(&self) -> [f64; 2] {
        [self.alone, self.together].map(|[system, jemalloc, mimalloc]| {
            let best = jemalloc.min(mimalloc);
            if best > 0.0 { system / best } else { 0.0 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_notes() {
        let text = format!(
            "warning: a virtual machine\n{}\nkept as /x\n",
            serde_json::to_string_pretty(&Profile::assumed()).expect("JSON")
        );
        let found = calibrated(&text).expect("a profile");
        assert!(!found.caches.is_empty() && found.most() > 0.0 && found.most() >= found.one());
        assert!(calibrated("error: no memory").expect_err("no profile").to_string().contains("no memory"));
    }

    #[test]
    fn rows_and_columns_are_probed_at_every_point() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let found = laid_out(&layouts(500, folder.path()).expect("stored and read")).expect("its own output");
        assert_eq!(found.projectivity.len(), memory_layouts::COUNTS.len());
        assert_eq!(found.selectivity.len(), memory_layouts::SHARES.len());
        assert!(found.projectivity.iter().chain(&found.selectivity).flatten().all(|ms| *ms > 0.0), "{found:?}");
    }

    #[test]
    fn the_better_allocator_counts() {
        let of = Allocated { alone: [10.0, 5.0, 8.0], together: [9.0, 9.0, 6.0], threads: 2 };
        assert_eq!(of.gains(), [2.0, 1.5]);
        assert_eq!(Allocated::default().gains(), [0.0, 0.0]);
    }
}
