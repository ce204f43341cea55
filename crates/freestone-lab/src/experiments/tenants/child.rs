//! Processes that an experiment starts: they end with it, whatever ends it, and their time and memory are read from
//! `/proc`.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::interrupt;
use crate::error::{LabError, Result};

/// The time in which a process must end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(5);
/// The greatest number of lines of output that are kept: enough for the figures of a calibrator.
const LINES_KEPT: usize = 20_000;

/// Where a process runs.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// Its cores; empty means all.
    pub cpus: Vec<usize>,
    /// The files `cgroup.procs` of its control groups.
    pub groups: Vec<CString>,
}

/// A line that a process wrote: whether to standard output, and the text.
type Line = (bool, String);

/// A process that is killed with this value, and by the kernel if this program is killed.
pub struct Process {
    child: Child,
    name: String,
    output: Arc<Mutex<Vec<Line>>>,
}

/// What processes have used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub user_seconds: f64,
    pub kernel_seconds: f64,
    /// Of a virtual machine: the time of its processors, which is part of `user_seconds`.
    pub guest_seconds: f64,
    pub resident_bytes: u64,
    pub switches: u64,
}

impl Process {
    /// Starts `command`, whose standard error and output are read line by line. Standard input is a pipe that ends with
    /// this program.
    ///
    /// Linux kills the process when the *thread* that started it ends, so this is called on the main thread only.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(name: &str, mut command: Command, place: Place) -> Result<Process> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let parent = std::process::id();
        // SAFETY: between fork and exec only system calls are made: no memory is allocated and no lock is taken.
        unsafe { command.pre_exec(move || enter(&place, parent)) };
        let program = command.get_program().to_owned();
        let mut child = command.spawn().map_err(|source| not_started(name, &program, &source))?;
        let output = Arc::new(Mutex::new(vec![]));
        let pipes: [Option<Box<dyn Read + Send>>; 2] =
            [child.stderr.take().map(|pipe| Box::new(pipe) as _), child.stdout.take().map(|pipe| Box::new(pipe) as _)];
        for (number, pipe) in pipes.into_iter().enumerate() {
            let (output, pipe) = (Arc::clone(&output), pipe.into_iter());
            std::thread::spawn(move || pipe.for_each(|pipe| keep_lines(pipe, number == 1, &output)));
        }
        Ok(Process { child, name: name.to_owned(), output })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the first line with this prefix, and returns what follows it.
    ///
    /// # Errors
    /// The process ends first, takes too long, or the run is interrupted.
    pub fn wait_for(&mut self, prefix: &str, patience: Duration) -> Result<String> {
        let start = Instant::now();
        loop {
            let found = self.lines().iter().find_map(|(_, line)| line.strip_prefix(prefix).map(str::to_owned));
            if let Some(rest) = found {
                return Ok(rest);
            }
            self.check()?;
            if start.elapsed() > patience {
                return Err(self.broken(&format!("did not start within {} s", patience.as_secs())));
            }
            interrupt::pause(Duration::from_millis(5))?;
        }
    }

    /// The newest line of output with this prefix.
    pub fn newest(&self, prefix: &str) -> Option<String> {
        self.lines().iter().rev().find_map(|(_, line)| line.strip_prefix(prefix).map(str::to_owned))
    }

    /// All kept lines of output.
    pub fn text(&self) -> String {
        self.lines().iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// All kept lines of standard output.
    fn standard_output(&self) -> String {
        let lines = self.lines();
        let lines = lines.iter().filter(|(is_output, _)| *is_output);
        lines.map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// # Errors
    /// The process has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                // The last lines may still be on their way.
                std::thread::sleep(Duration::from_millis(20));
                Err(self.broken(&format!("has ended ({status})")))
            }
            Err(error) => Err(self.broken(&error.to_string())),
        }
    }

    /// Waits for the end of the process, and returns its standard output.
    ///
    /// # Errors
    /// It fails, takes too long, or the run is interrupted.
    pub fn finish(&mut self, patience: Duration) -> Result<String> {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => {
                    std::thread::sleep(Duration::from_millis(20));
                    return Ok(self.standard_output());
                }
                Ok(Some(_)) | Err(_) => self.check()?,
                Ok(None) => {}
            }
            if start.elapsed() > patience {
                return Err(self.broken(&format!("took longer than {} s", patience.as_secs())));
            }
            interrupt::pause(Duration::from_millis(10))?;
        }
    }

    /// The time and memory of the process and of those that it started.
    pub fn usage(&self) -> Usage {
        usage_of(self.pid())
    }

    /// An error with the last line that the process wrote.
    fn broken(&self, what: &str) -> LabError {
        let lines = self.lines();
        let said = lines
            .iter()
            .rev()
            .find(|(_, line)| line.contains("error"))
            .or_else(|| lines.last().filter(|(_, line)| !line.contains(" INFO ")));
        LabError::Broken(format!("{} {what}{}", self.name, said.map_or(String::new(), |(_, line)| format!(": {line}"))))
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process by SIGTERM, or SIGKILL if it does not end.
    pub fn stop(&mut self) {
        let group = -(self.pid() as libc::pid_t);
        // The end of its input tells a wrapper to end what it wraps.
        drop(self.child.stdin.take());
        // SAFETY: kill has no memory effects; the group is that of our child, which was not waited for if it runs.
        let signal = |number| unsafe { libc::kill(group, number) };
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        signal(libc::SIGTERM);
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(libc::SIGKILL);
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

fn not_started(name: &str, program: &OsStr, source: &std::io::Error) -> LabError {
    let program = Path::new(program).display();
    LabError::Broken(format!("{name}: cannot start {program}: {source}; check that it exists and may be executed"))
}

fn keep_lines(pipe: impl Read, is_output: bool, output: &Mutex<Vec<Line>>) {
    for line in BufReader::new(pipe).lines() {
        let Ok(line) = line else { return };
        let mut kept = output.lock().unwrap_or_else(PoisonError::into_inner);
        // The first lines have addresses, the last ones errors and rates.
        if kept.len() >= LINES_KEPT {
            kept.remove(LINES_KEPT / 2);
        }
        kept.push((is_output, line));
    }
}

/// Moves a process that was just forked to its place, and ties its life to that of `parent`.
fn enter(place: &Place, parent: u32) -> std::io::Result<()> {
    // SAFETY: system calls on values that outlive them.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // The parent may have died before the call.
        if libc::getppid() as u32 != parent {
            libc::_exit(1);
        }
        for group in &place.groups {
            let file = libc::open(group.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if file < 0 || libc::write(file, c"0".as_ptr().cast(), 1) != 1 {
                return Err(std::io::Error::last_os_error());
            }
            libc::close(file);
        }
    }
    pin(&place.cpus)
}

/// Restricts the calling thread, and what it starts, to some cores.
pub fn pin(cpus: &[usize]) -> std::io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    // SAFETY: a set of zero bits is a valid, empty set, and the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in cpus {
            libc::CPU_SET(*cpu, &mut set);
        }
        if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The cores that this process may use, in ascending order.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: the call writes a set that is as large as it is told.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: the numbers are below the size of the set.
    let all: Vec<usize> =
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect();
    if all.is_empty() { vec![0] } else { all }
}

/// The seconds in which the processors of this machine were busy, or taken away by a hypervisor, since it started.
pub fn busy_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    // cpu user nice system idle iowait irq softirq steal guest …; guests are part of user.
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
    let busy = ticks.iter().take(8).enumerate().filter(|(at, _)| *at != 3 && *at != 4).map(|(_, ticks)| ticks);
    busy.sum::<u64>() as f64 / ticks_per_second()
}

fn ticks_per_second() -> f64 {
    // SAFETY: sysconf has no memory effects.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64
}

/// The process `root` and everything that it started.
fn tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| Some((pid, stat(pid)?.parent)))
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found
}

struct Stat {
    parent: u32,
    user_ticks: u64,
    kernel_ticks: u64,
    guest_ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&text)
}

/// The fields after the name in parentheses, which may contain spaces and parentheses itself (proc(5)).
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // The first field here is the third of the file.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: field(4)? as u32,
        user_ticks: field(14)?,
        kernel_ticks: field(15)?,
        guest_ticks: field(43).unwrap_or(0),
    })
}

/// The time and memory of a process and of those that it started.
pub fn usage_of(root: u32) -> Usage {
    let ticks = ticks_per_second();
    let mut sum = Usage::default();
    for pid in tree(root) {
        if let Some(stat) = stat(pid) {
            sum.user_seconds += stat.user_ticks as f64 / ticks;
            sum.kernel_seconds += stat.kernel_ticks as f64 / ticks;
            sum.guest_seconds += stat.guest_ticks as f64 / ticks;
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        sum.resident_bytes += status_field(&status, "VmRSS:").unwrap_or(0) * 1024;
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            sum.switches += status_field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            sum.switches += status_field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        }
    }
    sum
}

fn status_field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Usage {
    /// What was used since `before`; memory is that of now.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            user_seconds: self.user_seconds - before.user_seconds,
            kernel_seconds: self.kernel_seconds - before.kernel_seconds,
            guest_seconds: self.guest_seconds - before.guest_seconds,
            resident_bytes: self.resident_bytes,
            switches: self.switches.saturating_sub(before.switches),
        }
    }

    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            user_seconds: self.user_seconds + other.user_seconds,
            kernel_seconds: self.kernel_seconds + other.kernel_seconds,
            guest_seconds: self.guest_seconds + other.guest_seconds,
            resident_bytes: self.resident_bytes + other.resident_bytes,
            switches: self.switches + other.switches,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeping(seconds: &str) -> Process {
        let mut command = Command::new("sleep");
        command.arg(seconds);
        Process::start("sleep", command, Place { cpus: vec![allowed_cpus()[0]], groups: vec![] }).expect("it starts")
    }

    #[test]
    fn a_process_ends_with_its_value() {
        let process = sleeping("60");
        let pid = process.pid();
        assert!(stat(pid).is_some());
        drop(process);
        assert!(stat(pid).is_none(), "it was waited for");
    }

    #[test]
    fn what_a_process_says_is_in_its_error() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready: 7; echo 'error: no such thing' >&2; exit 3"]);
        let mut process = Process::start("the server", command, Place::default()).expect("it starts");
        let error = process.wait_for("never: ", Duration::from_secs(10)).expect_err("it ended").to_string();
        assert!(error.contains("the server has ended") && error.contains("no such thing"), "{error}");
        assert_eq!(process.wait_for("ready: ", Duration::from_secs(1)).expect("it was said"), "7");
        let missing =
            Process::start("x", Command::new("/nowhere/program"), Place::default()).err().expect("no program");
        assert!(missing.to_string().contains("/nowhere/program"), "{missing}");
    }

    #[test]
    fn times_are_read_from_lines_with_odd_names() {
        let mut fields = vec!["0"; 50];
        for (number, value) in [(3, "S"), (4, "3"), (14, "150"), (15, "50"), (43, "11")] {
            fields[number - 3] = value;
        }
        let text = format!("7 (a b) c) {}", fields.join(" "));
        let stat = parse_stat(&text).expect("a line");
        assert_eq!((stat.parent, stat.user_ticks, stat.kernel_ticks, stat.guest_ticks), (3, 150, 50, 11));
        assert!(parse_stat("7 (x").is_none());
        assert_eq!(status_field("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12));
    }

    #[test]
    fn children_of_children_count() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo ready; wait"]);
        let mut process = Process::start("sh", command, Place::default()).expect("it starts");
        process.wait_for("ready", Duration::from_secs(10)).expect("it is ready");
        assert_eq!(tree(process.pid()).len(), 2);
        assert!(process.usage().resident_bytes > 0);
    }
}
