//! What experiments need of the machine, looked at before they begin. Before a report one message says what is missing, and what that
//! leaves out; a single experiment does not begin without the disk and memory that its tables need at least.

use std::path::Path;
use std::process::{Command, Stdio};

use super::RunOptions;
use crate::error::{LabError, Result};

/// The bytes of disk that the report's experiments need at most at the same time: servers of peers with their data.
const DISK: u64 = 4 << 30;
/// The bytes of memory: results of 500 MB in a server, in a client, and as messages of both.
const MEMORY: u64 = 4 << 30;

/// What decides how much an experiment needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// The rows of a table; its designs are there at the same time, and other tables are not.
    Rows,
    /// The rows of each table that was chosen.
    RowsOfTables,
    /// The scale factor of TPC-H or SSB.
    Scale,
    /// Every run needs the same.
    Run,
}

/// Bytes on the disk and of memory per unit, from the widths of tables. They are rounded down, so that no run is refused that would
/// end well.
struct PerUnit {
    /// The name of the experiment, or its beginning.
    experiment: &'static str,
    unit: Unit,
    /// The number of units by default.
    default: f64,
    disk: f64,
    memory: f64,
}

const fn per(experiment: &'static str, unit: Unit, default: f64, disk: f64, memory: f64) -> PerUnit {
    PerUnit { experiment, unit, default, disk, memory }
}

/// The first line that fits a name counts. Experiments with tenants look at the memory themselves, tenant by tenant, and those of
/// protocols have their tables outside of the folder of results.
const PER_UNIT: [PerUnit; 19] = [
    per("codecs", Unit::Rows, 1e6, 0.0, 16.0),
    per("holloway-size", Unit::Rows, 1e6, 40.0, 40.0),
    per("holloway-scans", Unit::RowsOfTables, 1e6, 60.0, 8.0),
    per("holloway-views", Unit::Rows, 1e6, 80.0, 40.0),
    per("holloway-joins", Unit::Rows, 1.4e6, 30.0, 40.0),
    per("holloway-pages", Unit::Rows, 1e6, 60.0, 40.0),
    per("halverson-scans", Unit::Rows, 1e6, 800.0, 100.0),
    per("calibrator", Unit::Run, 1.0, 192e6, 128e6),
    per("memory-layouts", Unit::Rows, 5e5, 40.0, 128.0),
    per("memory-layouter", Unit::Rows, 2e5, 16.0, 1000.0),
    per("tenants-", Unit::Scale, 1.0, 4e8, 0.0),
    per("ptable-", Unit::Rows, 1e6, 80.0, 80.0),
    per("crossover", Unit::Rows, 1e6, 500.0, 0.0),
    per("advice", Unit::Rows, 1e6, 200.0, 0.0),
    per("tpch", Unit::Scale, 0.1, 5e8, 0.0),
    // The data may be there from another run, so that only the database counts.
    per("ssb", Unit::Scale, 0.1, 2e8, 0.0),
    per("scaling", Unit::Scale, 1.0, 2e8, 0.0),
    // A result of 500 MB in a server, and a part of it as messages.
    per("protocol-design", Unit::Run, 1.0, 0.0, 1e9),
    per("protocol-", Unit::Run, 1.0, 0.0, 2e8),
];

/// Bytes on the disk of the results, and of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Need {
    disk: u64,
    memory: u64,
}

/// What a run of these options needs at least, and the option that makes it smaller.
fn need(name: &str, options: &RunOptions) -> (Need, Option<&'static str>) {
    let Some(per) = PER_UNIT.iter().find(|per| name.starts_with(per.experiment)) else { return Default::default() };
    let rows = options.rows.map_or(per.default, |rows| rows as f64);
    let (units, option) = match per.unit {
        Unit::Rows => (rows, Some("--rows")),
        Unit::RowsOfTables => (rows * options.tables().len() as f64, Some("--rows")),
        // The short variant with tenants has a tenth of the rows.
        Unit::Scale if options.tenants.short => (options.scale.unwrap_or(0.1 * per.default), Some("--scale")),
        Unit::Scale => (options.scale.unwrap_or(per.default), Some("--scale")),
        Unit::Run => (1.0, None),
    };
    // Experiments with tenants keep their databases.
    let is_stored = name.starts_with("tenants-") && options.output.join(format!("tenants-sf{units}")).is_dir();
    let disk = if is_stored { 0.0 } else { per.disk * units };
    (Need { disk: disk as u64, memory: (per.memory * units) as u64 }, option)
}

/// Looks whether the machine has what an experiment needs at least.
///
/// # Errors
/// It has not: the message says what is needed, what is there, and what to do.
pub(super) fn check(name: &str, options: &RunOptions) -> Result<()> {
    let (need, option) = need(name, options);
    match shortage(name, need, option, [free_disk(&options.output), free_memory()], &options.output) {
        Some(text) => Err(LabError::Lacks(text)),
        None => Ok(()),
    }
}

/// What is missing of the disk and of memory, of which `free` is there. `None`: unknown here.
fn shortage(name: &str, need: Need, option: Option<&str>, free: [Option<u64>; 2], output: &Path) -> Option<String> {
    let [disk, memory] = free;
    let smaller = option.map_or(String::new(), |option| format!(", or a smaller {option}"));
    let mut lacks = vec![];
    if let Some(free) = disk.filter(|free| *free < need.disk) {
        let (needed, free, folder) = (gib(need.disk), gib(free), output.display());
        let advice = format!("make room, name another folder with --output{smaller}");
        lacks.push(format!("at least {needed} of disk, and {free} are free in {folder} ({advice})"));
    }
    if let Some(free) = memory.filter(|free| *free < need.memory) {
        let (needed, free) = (gib(need.memory), gib(free));
        lacks.push(format!("at least {needed} of memory, and {free} are free (end other programs{smaller})"));
    }
    (!lacks.is_empty()).then(|| format!("{name} needs {}", lacks.join("; and ")))
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// What a machine has of it. `None`: unknown here.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Machine {
    disk: Option<u64>,
    memory: Option<u64>,
    is_root: bool,
    has_python: bool,
    has_program: bool,
}

/// What is missing, in one message; `None` if the report can be whole.
pub(super) fn missing(output: &Path) -> Option<String> {
    let program = std::env::current_exe().ok().map(|here| here.with_file_name("freestone"));
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let machine = Machine {
        disk: free_disk(output),
        memory: free_memory(),
        is_root: is_root(),
        has_python: python.is_ok_and(|status| status.success()),
        has_program: program.is_some_and(|program| program.exists()),
    };
    message(machine, output)
}

fn message(machine: Machine, output: &Path) -> Option<String> {
    let mut lacks = vec![];
    if let Some(free) = machine.disk.filter(|free| *free < DISK) {
        let what = "large tables and servers of peers may fail; make room, or name another folder with --output";
        lacks.push(format!("{} of {} are free on the disk of {} ({what})", gib(free), gib(DISK), output.display()));
    }
    if let Some(free) = machine.memory.filter(|free| *free < MEMORY) {
        lacks.push(format!("{} of {} of memory are free (protocol-design may fail)", gib(free), gib(MEMORY)));
    }
    let wanted = [
        (machine.is_root, "no root (no slow links, control groups and containers)"),
        (machine.has_python, "no python3 (no protocol-*)"),
        (machine.has_program, "no program freestone next to this one (no tenants-* and protocol-*; make build)"),
    ];
    lacks.extend(wanted.into_iter().filter(|(is_there, _)| !is_there).map(|(_, what)| what.to_owned()));
    (!lacks.is_empty()).then(|| format!("this machine cannot measure everything: {}", lacks.join("; ")))
}

/// The bytes that may still be written to the disk of a folder.
#[cfg(unix)]
#[allow(clippy::unnecessary_cast)] // The fields have other widths on other systems.
fn free_disk(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the kernel fills the whole structure if it returns 0.
    let found = unsafe { (libc::statvfs(path.as_ptr(), found.as_mut_ptr()) == 0).then(|| found.assume_init()) }?;
    Some(found.f_bavail as u64 * found.f_frsize as u64)
}

#[cfg(not(unix))]
fn free_disk(_: &Path) -> Option<u64> {
    None
}

/// The memory that can be used without swapping, within the limit of a control group.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().split(' ').next()?.parse().ok()?;
    let limit = freestone_store::memory::limit().map_or(u64::MAX, |bytes| bytes as u64);
    Some((kib << 10).min(limit))
}

#[cfg(unix)]
fn is_root() -> bool {
    // SAFETY: it only returns a number.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::super::EXPERIMENTS;
    use super::*;

    #[test]
    fn every_experiment_has_its_needs_which_grow_with_its_size() {
        for experiment in &EXPERIMENTS {
            let known = PER_UNIT.iter().filter(|per| experiment.name.starts_with(per.experiment)).count();
            assert!(known > 0, "{} has no line in PER_UNIT", experiment.name);
        }
        let of = |name: &str, options: &RunOptions| need(name, options).0;
        let all = RunOptions { rows: Some(60_000_000), ..RunOptions::default() };
        let one = RunOptions { tables: vec![freestone_data::holloway::Table::NarrowE], ..all.clone() };
        assert_eq!(of("holloway-scans", &all).disk, 5 * of("holloway-scans", &one).disk);
        assert_eq!(of("holloway-pages", &one), Need { disk: 3_600_000_000, memory: 2_400_000_000 });
        assert!(of("tpch", &RunOptions::default()).disk < of("scaling", &RunOptions::default()).disk);
        assert_eq!(of("protocol-design", &all), of("protocol-design", &RunOptions::default()));
        assert_eq!(need("no-experiment", &all), (Need::default(), None));
    }

    #[test]
    fn a_shortage_says_what_is_needed_what_is_there_and_what_to_do() {
        let need = Need { disk: 3 << 30, memory: 5 << 30 };
        let of = |disk, memory| shortage("holloway-pages", need, Some("--rows"), [disk, memory], Path::new("/results"));
        assert_eq!(of(Some(3 << 30), Some(5 << 30)), None);
        assert_eq!(of(None, None), None);
        let disk = "at least 3.0 GiB of disk, and 1.0 GiB are free in /results (make room, name another folder with --output, or a \
                    smaller --rows)";
        assert_eq!(of(Some(1 << 30), None), Some(format!("holloway-pages needs {disk}")));
        let memory = "at least 5.0 GiB of memory, and 2.0 GiB are free (end other programs, or a smaller --rows)";
        let both = format!("holloway-pages needs {disk}; and {memory}");
        assert_eq!(of(Some(1 << 30), Some(2 << 30)), Some(both));
        let fixed = shortage("calibrator", need, None, [None, Some(0)], Path::new("/results"));
        assert!(fixed.is_some_and(|text| text.ends_with("0.0 GiB are free (end other programs)")));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_run_that_the_machine_cannot_hold_does_not_begin() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = RunOptions { rows: Some(1 << 50), output: folder.path().to_owned(), ..RunOptions::default() };
        let heard = std::cell::Cell::new(false);
        let error = super::super::run("holloway-size", &options, &|_| heard.set(true)).expect_err("too large");
        assert!(
            matches!(&error, LabError::Lacks(text) if text.contains("of disk") && text.contains("--rows")),
            "{error}"
        );
        assert!(!heard.get(), "it began");
    }

    #[test]
    fn one_message_names_all_that_is_missing() {
        let whole =
            Machine { disk: Some(DISK), memory: Some(MEMORY), is_root: true, has_python: true, has_program: true };
        let folder = Path::new("/results");
        assert_eq!(message(whole, folder), None);
        assert_eq!(message(Machine { disk: None, memory: None, ..whole }, folder), None);
        let none = Machine { disk: Some(1 << 30), memory: Some(1 << 29), ..Machine::default() };
        let text = message(none, folder).expect("much is missing");
        for part in
            ["1.0 GiB of 4.0 GiB", "/results", "0.5 GiB of 4.0 GiB", "no root", "no python3", "no program freestone"]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_a_disk_and_memory() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(free_disk(folder.path()).is_some_and(|bytes| bytes > 0));
        assert!(free_memory().is_some_and(|bytes| bytes > 0));
        assert_eq!(free_disk(Path::new("/no/such/folder")), None);
    }
}
