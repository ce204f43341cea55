//! A command in a process of its own, which is ended with all that it started when its time is over. Its messages are shown.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::error::{LabError, Result};

/// The time between two looks at the process.
const PAUSE: Duration = Duration::from_millis(100);
/// The time that a process has to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(10);
/// The lines of its messages that say why it failed.
const LAST_WORDS: usize = 2;

/// Runs a command for at most `time`. Returns why it was ended or failed: its last messages.
///
/// # Errors
/// The program does not start, or this one was interrupted.
pub(super) fn run(command: &mut Command, time: Duration) -> Result<Option<String>> {
    let program = command.get_program().to_owned();
    let failed = LabError::file(program.as_ref());
    let until = Instant::now() + time;
    own_group(command);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let lines = lines_of(&mut child);
    let mut words = VecDeque::new();
    loop {
        listen(&lines, &mut words, PAUSE);
        if is_interrupted() {
            end(&mut child);
            return Err(LabError::Interrupted);
        }
        if let Some(status) = child.try_wait().map_err(LabError::file(program.as_ref()))? {
            listen(&lines, &mut words, PAUSE);
            let words: Vec<String> = words.into();
            return Ok(if status.success() { None } else { Some(format!("{} ({status})", words.join(" / "))) });
        }
        if Instant::now() >= until {
            end(&mut child);
            return Ok(Some(format!("it was ended after {} seconds, with which the time was over", time.as_secs())));
        }
    }
}

/// The lines of a process's messages. A process that it leaves behind may hold its end, so that nobody waits for the last line.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    if let Some(stderr) = child.stderr.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(|line| line.ok()) {
                if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    break;
                }
            }
        });
    }
    lines
}

/// Shows messages until none comes for the time of `pause`, and keeps the last ones.
fn listen(lines: &Receiver<String>, words: &mut VecDeque<String>, pause: Duration) {
    loop {
        match lines.recv_timeout(pause) {
            Ok(line) => {
                // If nobody reads it, that is no reason to stop.
                let _ = writeln!(std::io::stderr(), "{line}");
                if !line.trim().is_empty() {
                    words.push_back(line);
                    words.drain(..words.len().saturating_sub(LAST_WORDS));
                }
            }
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(pause);
                return;
            }
        }
    }
}

/// Ends a process and those of its group: they may remove what they made, and are killed if they do not end.
fn end(child: &mut Child) {
    stop(child, false);
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(PAUSE);
    }
    stop(child, true);
    // A process that cannot be waited for has ended.
    let _ = child.wait();
}

#[cfg(target_os = "linux")]
fn own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // Ctrl-C reaches this program's group only, which passes it on.
    super::tenants::interrupt::watch();
    command.process_group(0);
}

#[cfg(target_os = "linux")]
fn is_interrupted() -> bool {
    super::tenants::interrupt::arrived()
}

#[cfg(target_os = "linux")]
fn stop(child: &mut Child, is_final: bool) {
    let signal = if is_final { libc::SIGKILL } else { libc::SIGTERM };
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: the group is that of a process which this program started; a group that is gone is an error without effect.
        unsafe { libc::kill(-group, signal) };
    }
}

#[cfg(not(target_os = "linux"))]
fn own_group(_: &mut Command) {}

#[cfg(not(target_os = "linux"))]
fn is_interrupted() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn stop(child: &mut Child, _: bool) {
    // It may have ended by itself.
    let _ = child.kill();
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_ends_with_its_last_words_or_with_its_time() {
        let long = Duration::from_secs(600);
        assert_eq!(run(&mut shell("echo fine >&2"), long).expect("runs"), None);
        let failed =
            run(&mut shell("for n in 1 2 3; do echo $n >&2; done; exit 3"), long).expect("runs").expect("failed");
        assert!(failed.starts_with("2 / 3 (") && failed.contains('3'), "{failed}");
        let ended = run(&mut shell("sleep 600"), Duration::from_millis(200)).expect("ended").expect("not whole");
        assert!(ended.contains("the time was over"), "{ended}");
        assert!(matches!(run(&mut Command::new("no-such-program"), long), Err(LabError::File { .. })));
    }

    #[test]
    fn what_a_command_has_started_ends_with_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        run(&mut shell(&script), Duration::from_secs(1)).expect("ended").expect("not whole");
        let pid: i32 = std::fs::read_to_string(&file).expect("it wrote its number").trim().parse().expect("a number");
        let until = Instant::now() + PATIENCE;
        // A process that nobody has waited for yet is a zombie, which has no memory map.
        let lives = || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| !words.is_empty());
        while lives() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        assert!(!lives(), "process {pid} goes on");
    }
}
