//! The tour in the README, as a test: its commands are executed as written, and must print what the README shows.
//! Numbers may differ, because they change with every better encoding.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A command of a console block, and its expected output.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    output: String,
}

#[test]
fn the_tour_of_the_readme_runs() {
    let readme = Path::new("../../README.md");
    let steps = steps(&fs::read_to_string(readme).expect("the README is there"));
    assert!(steps.len() >= 8, "only {} commands were found", steps.len());
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The output of `make demo`.
    let data = folder.path().join("freestone-demo/data");
    freestone_data::tpch::write_parquet(&data, 0.1).expect("data is written");
    for step in steps {
        let printed = run(&step.command, folder.path());
        // An ellipsis stands for output that the README leaves out.
        let mut rest = masked(&printed);
        for piece in step.output.split('…').map(masked).filter(|piece| !piece.is_empty()) {
            let found = rest.find(&piece);
            let (command, expected) = (&step.command, &step.output);
            assert!(found.is_some(), "{command}\nprinted\n{printed}\nand not, numbers apart,\n{expected}");
            rest = rest.split_off(found.unwrap_or(0) + piece.len());
        }
        assert!(step.output.contains('…') || rest.is_empty(), "{} also printed\n{rest}", step.command);
    }
}

/// The standard output of a command, run in a folder where `freestone` is this build's.
fn run(command: &str, folder: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_freestone"));
    let own = binary.parent().expect("a program is in a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env("PATH", format!("{own}:{path}"));
    let output = shell.output().expect("a shell is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}\n{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The commands of all console blocks. A command ends when its double quotes are closed.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = vec![];
    let mut inside = false;
    for line in text.lines() {
        let open = steps.last().is_some_and(|step| step.command.replace("\\\"", "").matches('"').count() % 2 == 1);
        match (inside, line.strip_prefix("$ "), steps.last_mut()) {
            _ if line.starts_with("```") => inside = line == "```console",
            (true, Some(command), _) => steps.push(Step { command: command.to_owned(), output: String::new() }),
            (true, None, Some(step)) if open => step.command.extend(["\n", line]),
            (true, None, Some(step)) => step.output.extend([line, "\n"]),
            _ => {}
        }
    }
    steps
}

/// The text without layout, with every number as `#`.
fn masked(text: &str) -> String {
    let text = text.replace("\\n", " ");
    let kept = text.chars().filter(|c| !c.is_whitespace() && !"─│┌┐└┘├┤┬┴┼↵".contains(*c));
    let mut out = String::new();
    for c in kept {
        let in_number = out.ends_with('#');
        match c {
            '0'..='9' if in_number => {}
            '0'..='9' => out.push('#'),
            // Part of a number: a point between digits, or the unit of a count.
            '.' | 'K' | 'M' if in_number => {}
            _ => out.push(c),
        }
    }
    out
}

#[test]
fn blocks_are_read_as_commands_and_outputs() {
    let text = "```sh\n$ no\n```\n```console\n$ a \"x\n y\"\n1\n2\n$ b\n```\n$ c";
    let step = |command: &str, output: &str| Step { command: command.into(), output: output.into() };
    assert_eq!(steps(text), [step("a \"x\n y\"", "1\n2\n"), step("b", "")]);
    assert_eq!(masked("│ rows=16.38 K, 7 │\\n── by_day"), "rows=#,#by_day");
}
