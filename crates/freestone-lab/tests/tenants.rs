//! The experiments with tenants from end to end, at a tiny scale: servers, users, points, a run that is interrupted, and
//! one that is killed.
//!
//! They need the program `freestone` next to `freestone-lab`, as every build of the whole workspace has it.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use freestone_report::findings::{Findings, Part};

const LAB: &str = env!("CARGO_BIN_EXE_freestone-lab");

/// The program of the product; `FREESTONE` names another one.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("FREESTONE").map(PathBuf::from);
    let path = named.unwrap_or_else(|| Path::new(LAB).with_file_name("freestone"));
    if path.is_file() {
        return Some(path);
    }
    eprintln!("not run: there is no {}; build the command line first", path.display());
    None
}

fn lab(folder: &Path, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(LAB);
    command.args(["run", "tenants-interference", "--scale", "0.01", "--short", "--users", "1"]);
    command.args(arguments).arg("--output").arg(folder).arg("--program").arg(program);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The processes whose command line has this text.
fn processes(text: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    let line = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    entries.map(line).filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines_of(folder: &Path) -> usize {
    fs::read_to_string(folder.join("tenants-interference.unfinished")).map_or(0, |text| text.lines().count())
}

fn end(child: &Child, signal: i32) {
    // SAFETY: a signal to our own child, which was not waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

#[test]
fn a_run_is_interrupted_killed_continued_and_complete() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let servers = folder.path().join("tenants-sf0.01").display().to_string();
    let arguments = ["--isolation", "shared,process", "--burn", "arithmetic,pages", "--seconds", "0.6"];

    let mut run = lab(folder.path(), &program, &arguments).spawn().expect("it starts");
    wait_until("a first point", || lines_of(folder.path()) > 2);
    end(&run, libc::SIGINT);
    let output = run.wait_with_output().expect("it ends");
    assert!(text(&output.stderr).contains("the same command continues"), "{}", text(&output.stderr));
    assert_eq!(processes(&servers), 0, "no server is left");
    let kept = lines_of(folder.path());

    run = lab(folder.path(), &program, &arguments).spawn().expect("it starts");
    wait_until("another point", || lines_of(folder.path()) > kept);
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    wait_until("the kernel ends its servers", || processes(&servers) == 0);

    let other = lab(folder.path(), &program, &["--seconds", "0.4"]).output().expect("it runs");
    assert!(text(&other.stderr).contains("finish that, or delete the file"), "{}", text(&other.stderr));

    let output = lab(folder.path(), &program, &arguments).output().expect("it runs");
    assert!(text(&output.stderr).contains("continuing an interrupted run"), "{}", text(&output.stderr));
    let json = fs::read(folder.path().join("tenants-interference.json"));
    let json = json.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let findings: Findings = serde_json::from_slice(&json).expect("findings");
    let tables = findings.parts.iter().filter(|part| matches!(part, Part::Table(_))).count();
    assert!(tables >= 4 && findings.checks().count() >= 5, "{findings:?}");
    let csv = fs::read_to_string(folder.path().join("tenants-interference.csv")).expect("points");
    // Next to nothing, two neighbours and a tenant: compressed at two levels, and plain.
    assert_eq!(csv.lines().count(), 1 + 3 * 4, "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.ends_with(',')), "none is broken: {csv}");
    assert!(!folder.path().join("tenants-interference.unfinished").exists());
    assert_eq!(processes(&servers), 0);
}

#[test]
fn groups_and_containers_are_measured_where_there_are_any() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--isolation", "process,cgroup,container,vm", "--burn", "arithmetic", "--seconds", "1"];
    let output = lab(folder.path(), &program, &arguments).output().expect("it runs");
    let csv = fs::read_to_string(folder.path().join("tenants-interference.csv"));
    let csv = csv.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let said = text(&output.stderr);
    for level in ["process", "cgroup", "container", "vm"] {
        let points = csv.lines().filter(|line| line.starts_with(&format!("\"{level}, compressed"))).collect::<Vec<_>>();
        let is_missing = said.contains(&format!("not measured: {level}: "));
        assert_eq!(points.len(), if is_missing { 0 } else { 3 }, "{level}: {csv}{said}");
        assert!(points.iter().all(|line| line.ends_with(',')), "none is broken: {csv}");
    }
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |arguments: &[&str]| {
        let mut command = Command::new(LAB);
        command.args(["run", "tenants-consolidation", "--output"]).arg(folder.path()).args(arguments);
        let output = command.arg("--program").arg(&program).output().expect("it runs");
        assert!(!output.status.success());
        let text = text(&output.stderr);
        text.lines().rfind(|line| line.starts_with("error")).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let error = refused(&["--scale", "1000", "--isolation", "process"]);
    // There is no room for them, on the disk or in memory.
    assert!(error.contains("smaller --scale"), "{error}");
    assert!(refused(&["--isolation", "jail"]).contains("jail"));
    assert!(refused(&["--tenants", "0"]).contains("--tenants"));
    let output = Command::new(LAB)
        .args(["run", "tenants-overhead", "--program", "/nowhere/freestone", "--output"])
        .arg(folder.path())
        .output()
        .expect("it runs");
    assert!(text(&output.stderr).contains("there is no program /nowhere/freestone"), "{}", text(&output.stderr));
}
