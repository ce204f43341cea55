//! Measures this machine: its memory as the Calibrator of Grund et al. 2010 (section 3.2) does, its disk, its own
//! loopback network, and the costs of the store's scans, each with repetitions and their spread.

mod concurrency;
mod disk;
mod engine;
mod host;
mod levels;
mod memory;
mod network;
mod pages;
mod passes;
mod scans;
mod slowdown;
mod tables;
mod timing;
mod translation;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::Result;
use crate::profile::{Hardware, Measured, Profile, Source, VERSION};
pub use slowdown::Reference;
use slowdown::SlowdownWatch;
use timing::Timing;

/// How much time calibration may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// One or two seconds: for tests, and to see that it works. The figures are rough.
    Quick,
    /// Up to a minute.
    Normal,
}

/// Options of a calibration.
#[derive(Debug, Clone)]
pub struct CalibrateOptions {
    /// How much time the calibration may take.
    pub effort: Effort,
    /// A folder on the disk to measure, in which a temporary file is created. `None` measures no disk.
    pub folder: Option<PathBuf>,
    /// The maximum number of threads for measuring bandwidth.
    pub threads: usize,
}

impl Default for CalibrateOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        CalibrateOptions { effort: Effort::Normal, folder: None, threads }
    }
}

/// If the reference scan has more spread than this, the machine has other load.
const NOISY_SPREAD: f64 = 0.3;

/// Measures the machine. `progress` receives the name of the next measurement, and the share of the work that is done.
///
/// # Errors
/// The folder cannot be written, or an in-memory table cannot be created.
pub fn calibrate(options: &CalibrateOptions, progress: &mut dyn FnMut(&str, f64)) -> Result<Profile> {
    let timing = Timing::new(options.effort);
    let host = host::host();
    let mut warnings = vec![];
    progress("memory", 0.0);
    let mut hardware = Hardware::default();
    memory::measure(&mut hardware, options, &timing, &mut warnings);
    progress("network", 0.3);
    hardware.loopback = network::loopback(&timing);
    if let Some(folder) = &options.folder {
        progress("disk", 0.32);
        hardware.disk = Some(disk::measure(folder, &timing, &mut warnings)?);
    }
    progress("scans", 0.4);
    let watch = Arc::new(SlowdownWatch::new(options.effort)?);
    let source = watch.clone();
    let timing = timing.relative_to(Arc::new(move || source.slowdown()));
    let mut engine = engine::measure(&timing, options.threads, &mut |share| progress("scans", 0.4 + 0.6 * share))?;
    engine.reference = watch.level();
    hardware.spread = Measured::exact((engine.reference.high - engine.reference.low) / engine.reference.value);
    if hardware.spread.value > NOISY_SPREAD {
        let percent = hardware.spread.value * 100.0;
        warnings.push(format!(
            "the machine is noisy: a scan that is always the same varied by {percent:.0} %; calibrate when it is idle"
        ));
    }
    if let Some(name) = &host.hypervisor {
        warnings.push(format!("a virtual machine ({name}): what its neighbours do changes its figures"));
    }
    let measured_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let seconds = timing.begin.elapsed().as_secs_f64();
    let (version, source) = (VERSION, Source::Measured);
    Ok(Profile { version, source, host, measured_at, seconds, hardware, engine, warnings })
}

#[cfg(test)]
mod tests;
