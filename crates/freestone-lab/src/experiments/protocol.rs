//! The experiments with client protocols. They measure many servers with Python clients, so each is a script of
//! `bench/`. This program contains the scripts, runs them with `python3`, and reads their findings.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::{Experiment, RunOptions, published};
use crate::Notify;
use crate::error::{LabError, Result};
use freestone_report::findings::Part;

pub const SURVEY: Experiment = Experiment {
    name: "protocol-survey",
    title: "How long clients wait for a whole table",
    shows: "lineitem to a complete Arrow table in Python from every server that can be had; the same as delay grows and the rate falls.",
    source: "Raasveldt and Mühleisen, Don't Hold My Data Hostage, VLDB 2017, sections 2.1 and 2.2, Table 1, Figures 3 and 4",
    size: "--scale 0.02 of TPC-H; needs root for network namespaces, and Python with its packages' registry",
    run: |options, notify| script("survey", options, notify),
};

pub const DESIGN: Experiment = Experiment {
    name: "protocol-design",
    title: "The design of a result set",
    shows: "Sizes and times of chunks, of columns and rows, of codecs, of packed integers, of protobuf and of the forms of texts.",
    source: "Raasveldt and Mühleisen, Don't Hold My Data Hostage, VLDB 2017, section 3, Tables 3 to 9",
    size: "--scale 0.02; needs root for network namespaces, and Python with its packages' registry",
    run: |options, notify| script("design", options, notify),
};

pub const NETWORKS: Experiment = Experiment {
    name: "protocol-networks",
    title: "Client protocols on four networks",
    shows: "lineitem, and tables of the shapes of ACS and ontime, on one machine, over LAN and WAN, without and with lost packets.",
    source: "Raasveldt and Mühleisen, Don't Hold My Data Hostage, VLDB 2017, section 4.3, Tables 10 to 12; synthetic data",
    size: "--scale 0.02, --short for one machine and the LAN; needs root for network namespaces, and Python with its packages' registry",
    run: |options, notify| script("networks", options, notify),
};

pub const ADAPTATION: Experiment = Experiment {
    name: "protocol-adaptation",
    title: "A link that changes in the middle of a transfer",
    shows: "The choice of codecs by the rate, and forms that stay as they are, over a link that gets slower or faster when half of the rows are there.",
    source: "Raasveldt and Mühleisen, Don't Hold My Data Hostage, VLDB 2017, section 5.1, future work",
    size: "--scale 0.1; needs root for network namespaces, and Python with its packages' registry",
    run: |options, notify| script("adaptation", options, notify),
};

const SCALE: f64 = 0.02;
/// Enough chunks before and after the change.
const ADAPTATION_SCALE: f64 = 0.1;
/// The lines of a script's messages that say why it failed.
const LAST_WORDS: usize = 3;

/// The scripts and the files that they import.
const FILES: [(&str, &str); 11] = [
    ("environment.py", include_str!("../../../../bench/environment.py")),
    ("export.py", include_str!("../../../../bench/export.py")),
    ("export_client.py", include_str!("../../../../bench/export_client.py")),
    ("export_data.py", include_str!("../../../../bench/export_data.py")),
    ("export_duckdb.py", include_str!("../../../../bench/export_duckdb.py")),
    ("export_peers.py", include_str!("../../../../bench/export_peers.py")),
    ("export_servers.py", include_str!("../../../../bench/export_servers.py")),
    ("protocol.py", include_str!("../../../../bench/protocol.py")),
    ("protocol_design.py", include_str!("../../../../bench/protocol_design.py")),
    ("protocol_verdicts.py", include_str!("../../../../bench/protocol_verdicts.py")),
    ("requirements-export.txt", include_str!("../../../../bench/requirements-export.txt")),
];

fn script(experiment: &str, options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let workspace = options.workspace(&format!("protocol-{experiment}"))?;
    for (name, text) in FILES {
        let path = workspace.path(name);
        std::fs::write(&path, text).map_err(LabError::file(&path))?;
    }
    let parts = workspace.path("parts.json");
    let mut command = command(&workspace.path("protocol.py"), experiment, options, &parts)?;
    notify(&format!("bench/protocol.py {experiment}; it says what it does"));
    let (status, words) = run(&mut command)?;
    if !status.success() {
        return Err(LabError::Network(format!("bench/protocol.py {experiment} failed ({status}): {words}")));
    }
    Ok(published::with_printed(read(&parts)?))
}

/// Runs a script, whose messages are shown, and returns its last ones: the reason, if it fails.
fn run(command: &mut Command) -> Result<(ExitStatus, String)> {
    let missing = |error: std::io::Error| {
        LabError::Network(format!("python3 does not start: {error}; install Python 3.11 or later with its venv module"))
    };
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(missing)?;
    let mut words: VecDeque<String> = VecDeque::new();
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).split(b'\n')) {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        // If nobody reads it, that is no reason to stop.
        let _ = writeln!(std::io::stderr(), "{line}");
        if !line.trim().is_empty() {
            words.push_back(line);
            if words.len() > LAST_WORDS {
                words.pop_front();
            }
        }
    }
    let status = child.wait().map_err(missing)?;
    Ok((status, words.into_iter().collect::<Vec<_>>().join(" / ")))
}

fn command(script: &Path, experiment: &str, options: &RunOptions, parts: &Path) -> Result<Command> {
    let here = std::env::current_exe().map_err(LabError::file("this program".as_ref()))?;
    let program = here.with_file_name("freestone");
    let scale = if experiment == "adaptation" { ADAPTATION_SCALE } else { SCALE };
    let scale = options.scale.unwrap_or(scale).to_string();
    let mut command = Command::new("python3");
    command.arg(script).arg(experiment).args(["--scale", &scale]).arg("--freestone").arg(program);
    command.arg("--parts").arg(absolute(parts)?);
    if options.tenants.short {
        command.arg("--short");
    }
    if let Some(time) = options.time {
        command.arg("--seconds").arg(time.as_secs().to_string());
    }
    if let Some(package) = std::env::var_os("FREESTONE_PYTHON_PACKAGE") {
        command.arg("--package").arg(package);
    }
    Ok(command)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(LabError::file(path))
}

fn read(path: &Path) -> Result<Vec<Part>> {
    let json = std::fs::read(path).map_err(LabError::file(path))?;
    serde_json::from_slice(&json).map_err(|source| LabError::Result { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_scripts_bring_all_that_they_import() {
        let brought: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        for (name, text) in FILES.iter().filter(|(name, _)| name.ends_with(".py")) {
            for word in [
                "environment",
                "export",
                "export_client",
                "export_data",
                "export_duckdb",
                "export_peers",
                "export_servers",
                "protocol_verdicts",
            ] {
                let imports = text.lines().any(|line| {
                    let line = line.trim();
                    line == format!("import {word}")
                        || line.starts_with(&format!("import {word} as"))
                        || line.starts_with(&format!("from {word} import"))
                });
                assert!(!imports || brought.contains(&format!("{word}.py").as_str()), "{name} imports {word}");
            }
        }
    }

    #[test]
    fn scripts_are_told_their_size_and_their_time() {
        let words = |options: &RunOptions| {
            let command =
                command(Path::new("protocol.py"), "networks", options, Path::new("/parts.json")).expect("made");
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let plain = words(&RunOptions::default());
        assert!(plain.contains("networks --scale 0.02") && !plain.contains("--short") && !plain.contains("--seconds"));
        let mut options = RunOptions { time: Some(Duration::from_secs(90)), ..Default::default() };
        options.tenants.short = true;
        let short = words(&options);
        assert!(short.contains("--short") && short.contains("--seconds 90"), "{short}");
        assert_eq!(options.command("protocol-networks"), "freestone-lab run protocol-networks --short");
    }

    #[test]
    fn a_script_that_fails_says_why() {
        let mut command = Command::new("python3");
        command.args(["-c", "import sys; [print(n, file=sys.stderr) for n in range(9)]; sys.exit('error: no root')"]);
        let (status, words) = run(&mut command).expect("python3 starts");
        assert_eq!((status.code(), words.as_str()), (Some(1), "7 / 8 / error: no root"));
        assert!(run(&mut Command::new("no-such-program")).is_err());
    }

    #[test]
    fn findings_of_scripts_are_parts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("parts.json");
        let json = r#"[{"kind": "section", "title": "t", "text": "x"},
            {"kind": "table", "title": "t", "header": ["", "s"], "text_columns": 1, "rows": [[{"text": "a"}, {"text": "1"}]]},
            {"kind": "lines", "title": "t", "x_label": "x", "y_label": "s", "x": [1, 2], "mark": null,
             "series": [{"label": "a", "values": [1.5, 2]}]},
            {"kind": "code", "caption": "c", "text": "t"},
            {"kind": "checks", "checks": [{"statement": "s", "holds": true, "detail": "d"}]}]"#;
        std::fs::write(&path, json).expect("the folder is writable");
        assert_eq!(read(&path).expect("the file is right").len(), 5);
        std::fs::write(&path, "[{}]").expect("the folder is writable");
        assert!(matches!(read(&path), Err(LabError::Result { .. })));
    }
}
