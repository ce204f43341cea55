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

fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let (year, month, day) = civil_date(since.map_or(0, |time| time.as_secs() / 86_400));
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day of a day counted from 1970-01-01: the inverse of the day count in the Gregorian calendar, with
/// years that begin in March, so that the leap day is the last day of a year.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        for (days, date) in
            [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (11_017, (2000, 3, 1)), (20_453, (2025, 12, 31))]
        {
            assert_eq!(civil_date(days), date);
        }
    }
}
