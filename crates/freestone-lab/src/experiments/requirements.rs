//! What the report needs of the machine, looked at before it begins: one message says what is missing, and what that leaves out.

use std::path::Path;
use std::process::{Command, Stdio};

/// The bytes of disk that the report's experiments need at most at the same time: servers of peers with their data.
const DISK: u64 = 4 << 30;
/// The bytes of memory: results of 500 MB in a server, in a client, and as messages of both.
const MEMORY: u64 = 4 << 30;

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
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
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
    use super::*;

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
