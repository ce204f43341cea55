//! What was measured, point by point, in a file that an interrupted run leaves behind and its next start continues.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::probe::{Allocated, Calibrated, LaidOut};
use crate::error::{LabError, Result};

/// The version of the file. Another one is refused.
const VERSION: u32 = 1;

/// One measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The name of the case, without its repetition.
    pub key: String,
    pub repetition: usize,
    /// The length of the window.
    pub seconds: f64,
    pub queries: u64,
    /// Queries per second of all users of all tenants.
    pub throughput: f64,
    /// Response times in milliseconds.
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub max_ms: f64,
    /// The processor time of all servers in user mode and in the kernel.
    pub user_seconds: f64,
    pub kernel_seconds: f64,
    /// Of virtual machines: the seconds of the server in the machine's own kernel.
    pub guest_kernel_seconds: Option<f64>,
    /// The processor time of the clients.
    pub client_seconds: f64,
    /// The memory of all servers.
    pub resident_bytes: u64,
    /// Changes from one thread to another.
    pub switches: u64,
    /// Bytes per second that the queries used, by the engine's counters.
    pub moved: f64,
    /// Bytes per second that the neighbours moved.
    pub neighbour_moved: f64,
    /// The share of all processor time that other programs took meanwhile, or that the hypervisor gave to others.
    #[serde(default)]
    pub other_share: f64,
    /// Why the figures do not count: a server died, a client got no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// A figure over repetitions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Entry {
    Run { version: u32, command: String, program: String, hardware: String },
    Point(Point),
    Calibrated { level: String, figures: Calibrated },
    Allocated { level: String, figures: Allocated },
    LaidOut { level: String, figures: LaidOut },
}

/// The file and what it holds.
pub struct Journal {
    path: PathBuf,
    entries: Vec<Entry>,
}

impl Journal {
    /// Opens the file of a run, which continues if it is of the same command, program and machine.
    ///
    /// # Errors
    /// The file is of another run, cannot be read, or not be written.
    pub fn open(path: &Path, command: &str, program: &str, hardware: &str) -> Result<Journal> {
        let expected = Entry::Run {
            version: VERSION,
            command: command.to_owned(),
            program: program.to_owned(),
            hardware: hardware.to_owned(),
        };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(LabError::file(path)(error)),
        };
        let mut journal = Journal { path: path.to_owned(), entries: vec![] };
        let mut lines = text.lines();
        match lines.next() {
            None => {
                journal.write(&expected)?;
                return Ok(journal);
            }
            Some(first) if serde_json::from_str(first).ok().as_ref() == Some(&expected) => {}
            Some(first) => return Err(other(path, serde_json::from_str(first).ok().as_ref(), &expected)),
        }
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        for line in lines {
            match serde_json::from_str(line) {
                Ok(entry) => journal.entries.push(entry),
                // The last line of a run that was killed while it wrote.
                Err(_) if !text.ends_with('\n') => {
                    let file = fs::OpenOptions::new().write(true).open(path).map_err(LabError::file(path))?;
                    file.set_len(whole as u64).map_err(LabError::file(path))?;
                }
                Err(source) => return Err(LabError::Result { path: path.to_owned(), source }),
            }
        }
        Ok(journal)
    }

    /// The number of points that count.
    pub fn count(&self) -> usize {
        self.points().filter(|point| point.broken.is_none()).count()
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Point(point) => Some(point),
            _ => None,
        })
    }

    /// A point that was measured. A broken one is measured again.
    pub fn point(&self, key: &str, repetition: usize) -> Option<&Point> {
        self.points().find(|point| point.key == key && point.repetition == repetition && point.broken.is_none())
    }

    pub fn calibrated(&self, at: &str) -> Option<&Calibrated> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Calibrated { level, figures } if level == at => Some(figures),
            _ => None,
        })
    }

    pub fn allocated(&self, at: &str) -> Option<&Allocated> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Allocated { level, figures } if level == at => Some(figures),
            _ => None,
        })
    }

    pub fn laid_out(&self, at: &str) -> Option<&LaidOut> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::LaidOut { level, figures } if level == at => Some(figures),
            _ => None,
        })
    }

    /// # Errors
    /// The file cannot be written.
    pub fn add_point(&mut self, point: &Point) -> Result<()> {
        self.add(Entry::Point(point.clone()))
    }

    /// # Errors
    /// The file cannot be written.
    pub fn add_calibrated(&mut self, level: &str, figures: &Calibrated) -> Result<()> {
        self.add(Entry::Calibrated { level: level.to_owned(), figures: figures.clone() })
    }

    /// # Errors
    /// The file cannot be written.
    pub fn add_allocated(&mut self, level: &str, figures: &Allocated) -> Result<()> {
        self.add(Entry::Allocated { level: level.to_owned(), figures: figures.clone() })
    }

    /// # Errors
    /// The file cannot be written.
    pub fn add_laid_out(&mut self, level: &str, figures: &LaidOut) -> Result<()> {
        self.add(Entry::LaidOut { level: level.to_owned(), figures: figures.clone() })
    }

    fn add(&mut self, entry: Entry) -> Result<()> {
        self.write(&entry)?;
        self.entries.push(entry);
        Ok(())
    }

    fn write(&self, entry: &Entry) -> Result<()> {
        let result = |source| LabError::Result { path: self.path.clone(), source };
        let line = serde_json::to_string(entry).map_err(result)? + "\n";
        let file = fs::OpenOptions::new().create(true).append(true).open(&self.path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(LabError::file(&self.path))
    }

    /// Removes the file of a run that is complete.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn finish(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(LabError::file(&self.path))
    }
}

fn other(path: &Path, found: Option<&Entry>, expected: &Entry) -> LabError {
    let reason = match (found, expected) {
        (
            Some(Entry::Run { version: VERSION, command, program, hardware }),
            Entry::Run { command: own_command, program: own_program, hardware: own_hardware, .. },
        ) => {
            if command != own_command {
                format!("is of the command `{command}`; finish that")
            } else if program != own_program {
                format!("was measured with {program}, not {own_program}; use that program")
            } else {
                format!("was measured on {hardware}, not {own_hardware}; use another --output")
            }
        }
        _ => "is of another version; use another --output".into(),
    };
    LabError::Usage(format!("the interrupted run {} {reason}, or delete the file", path.display()))
}

/// One figure of all points that count.
pub fn spread(points: &[&Point], figure: impl Fn(&Point) -> f64) -> Spread {
    let mut values: Vec<f64> =
        points.iter().filter(|point| point.broken.is_none()).map(|point| figure(point)).collect();
    values.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first().copied(), values.last().copied()) else { return Spread::default() };
    Spread { median: freestone_demo::engine::median(values), low, high }
}

impl Point {
    /// The share of the servers' processor time that was spent in the kernel.
    pub fn kernel_share(&self) -> f64 {
        let all = self.user_seconds + self.kernel_seconds;
        if all > 0.0 { self.kernel_seconds / all } else { 0.0 }
    }

    /// Of virtual machines: the share spent in the machine's own kernel.
    pub fn guest_kernel_share(&self) -> Option<f64> {
        let all = self.user_seconds + self.kernel_seconds;
        self.guest_kernel_seconds.filter(|_| all > 0.0).map(|seconds| seconds / all)
    }

    /// Milliseconds of processor time per query.
    pub fn cpu_ms(&self) -> f64 {
        (self.user_seconds + self.kernel_seconds) * 1e3 / self.queries.max(1) as f64
    }
}

/// All points as CSV, with a header.
pub fn csv(points: &[&Point]) -> String {
    let mut text = String::from(
        "case,repetition,seconds,queries,queries_per_second,mean_ms,p50_ms,p95_ms,max_ms,user_seconds,kernel_seconds,\
         guest_kernel_seconds,client_seconds,resident_bytes,switches,moved_bytes_per_second,neighbour_bytes_per_second,\
         other_share,broken\n",
    );
    for point in points {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let numbers = [
            point.seconds,
            point.queries as f64,
            point.throughput,
            point.mean_ms,
            point.p50_ms,
            point.p95_ms,
            point.max_ms,
            point.user_seconds,
            point.kernel_seconds,
        ];
        let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
        let guest = point.guest_kernel_seconds.map_or(String::new(), |seconds| seconds.to_string());
        text += &format!(
            "{},{},{},{guest},{},{},{},{},{},{},{}\n",
            quoted(&point.key),
            point.repetition,
            numbers.join(","),
            point.client_seconds,
            point.resident_bytes,
            point.switches,
            point.moved,
            point.neighbour_moved,
            point.other_share,
            point.broken.as_deref().map_or(String::new(), quoted)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(key: &str, throughput: f64, broken: bool) -> Point {
        let broken = broken.then(|| "a \"server\" died".to_owned());
        Point { key: key.into(), throughput, broken, ..Point::default() }
    }

    #[test]
    fn an_interrupted_run_goes_on_and_broken_points_are_measured_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run");
        let open = || Journal::open(&path, "run x", "freestone 1", "a machine");
        let mut journal = open().expect("new");
        journal.add_point(&point("a", 1.0, false)).expect("written");
        journal.add_point(&point("b", 2.0, true)).expect("written");
        journal.add_calibrated("process", &Calibrated::default()).expect("written");
        drop(journal);
        let mut torn = fs::OpenOptions::new().append(true).open(&path).expect("the file");
        torn.write_all(b"{\"point\":{\"key\":\"c").expect("written");
        let mut journal = open().expect("it goes on");
        assert_eq!((journal.count(), journal.point("a", 0).map(|point| point.throughput)), (1, Some(1.0)));
        assert!(journal.point("b", 0).is_none() && journal.point("a", 1).is_none());
        assert!(journal.calibrated("process").is_some() && journal.calibrated("vm").is_none());
        journal.add_point(&point("c", 3.0, false)).expect("written");
        assert_eq!(open().expect("the torn line is gone").count(), 2);
        journal.finish().expect("removed");
        assert!(!path.exists());
    }

    #[test]
    fn files_of_other_runs_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run");
        Journal::open(&path, "run x", "freestone 1", "a machine").expect("new");
        let refused = |command: &str, program: &str, machine: &str| {
            Journal::open(&path, command, program, machine).err().expect("refused").to_string()
        };
        assert!(refused("run y", "freestone 1", "a machine").contains("of the command `run x`"));
        assert!(refused("run x", "freestone 2", "a machine").contains("with freestone 1, not freestone 2"));
        assert!(refused("run x", "freestone 1", "another").contains("on a machine, not another"));
        fs::write(&path, "{\"run\":{\"version\":99}}\n").expect("written");
        assert!(refused("run x", "freestone 1", "a machine").contains("another version"));
    }

    #[test]
    fn broken_points_are_not_averaged() {
        let points = [point("a", 1.0, false), point("a", 3.0, false), point("a", 99.0, true)];
        let points: Vec<&Point> = points.iter().collect();
        assert_eq!(spread(&points, |point| point.throughput), Spread { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(spread(&[], |point| point.throughput), Spread::default());
        let csv = csv(&points);
        assert_eq!(csv.lines().count(), 4);
        assert!(csv.contains("\"a \"\"server\"\" died\""), "{csv}");
        let columns = |line: &str| line.matches(',').count();
        assert!(csv.lines().take(3).all(|line| columns(line) == 18), "{csv}");
    }
}
