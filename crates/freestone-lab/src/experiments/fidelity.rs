//! What is faithful to the papers and what differs, line by line: the tables of docs/papers.md, of which each paper's page shows
//! its own.

use super::EXPERIMENTS;
use freestone_report::Host;
use freestone_report::findings::{Findings, Part, Table};

/// The page of the documentation, whose tables and lists this module reads.
const DOCUMENT: &str = include_str!("../../../../docs/papers.md");
/// How the list of a paper begins.
const OBJECTIONS: &str = "**The authors would object:**";
/// The states of a line.
const STATES: [&str; 3] = ["faithful", "differs", "not measured"];

/// A structure, figure or statement of a paper.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    item: String,
    /// One of [`STATES`].
    state: String,
    /// What differs, why, and what that does to the result.
    note: String,
    /// Where it is measured or tested.
    command: String,
    /// Where the code of that is, in the repository.
    code: String,
}

/// The code of experiments, by the beginning of their names: the first that fits.
const CODE: [(&str, &str); 13] = [
    ("holloway-size", "crates/freestone-lab/src/experiments/holloway_size.rs"),
    ("holloway-pages", "crates/freestone-lab/src/experiments/holloway/pages"),
    ("holloway-joins", "crates/freestone-lab/src/experiments/holloway/joins"),
    ("holloway-", "crates/freestone-lab/src/experiments/holloway"),
    ("halverson-", "crates/freestone-lab/src/experiments/halverson"),
    ("calibrator", "crates/freestone-lab/src/experiments/calibrator.rs"),
    ("memory-", "crates/freestone-lab/src/experiments/memory_layouts"),
    ("tenants-", "crates/freestone-lab/src/experiments/tenants"),
    ("ptable-peers", "bench/pmem"),
    ("ptable-", "crates/freestone-lab/src/experiments/ptable"),
    ("protocol-", "bench/protocol.py"),
    ("codecs", "crates/freestone-lab/src/experiments/codecs.rs"),
    ("advice", "crates/freestone-lab/src/experiments/advice.rs"),
];

/// The lines of a paper, and what its authors would object to.
fn section(heading: &str) -> Option<(Vec<Line>, Vec<String>)> {
    let text = DOCUMENT.split("\n## ").find(|section| section.lines().next() == Some(heading))?;
    let lines = text.lines().filter_map(line).collect();
    let objections = text.split(OBJECTIONS).nth(1).unwrap_or("");
    let items = objections.split("\n- ").skip(1).map(|item| item.split_whitespace().collect::<Vec<_>>().join(" "));
    Some((lines, items.collect()))
}

/// A row of a table.
fn line(text: &str) -> Option<Line> {
    let cells: Vec<&str> = text.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let [item, state, note, command] = cells[..] else { return None };
    // The names of columns, and the line below them.
    if state == "state" || item.starts_with("---") {
        return None;
    }
    let code = code(command);
    let [item, state, note, command] = [item, state, note, &whole_commands(command)].map(plain);
    Some(Line { item, state, note, command, code })
}

/// The places of the code of a cell's commands.
fn code(cell: &str) -> String {
    let mut places: Vec<String> = vec![];
    for command in cell.split('`').skip(1).step_by(2) {
        let place = match command.split(' ').collect::<Vec<_>>()[..] {
            ["cargo", "test", "-p", of, _] => Some(format!("crates/{of}")),
            _ => CODE.iter().find(|(name, _)| command.starts_with(name)).map(|(_, place)| (*place).to_owned()),
        };
        places.extend(place.filter(|place| !places.contains(place)));
    }
    places.join(", ")
}

/// The commands of a cell, the names of experiments with the command that runs them.
fn whole_commands(cell: &str) -> String {
    let pieces = cell.split('`').enumerate().map(|(at, piece)| match at % 2 == 1 && is_experiment(piece) {
        true => format!("freestone-lab run {piece}"),
        false => piece.to_owned(),
    });
    pieces.collect()
}

/// Whether a command is the name of an experiment, with its options.
fn is_experiment(command: &str) -> bool {
    let name = command.split(' ').next().unwrap_or(command);
    EXPERIMENTS.iter().any(|experiment| experiment.name == name)
}

/// Markdown without its marks: of a link, the text and the file.
fn plain(text: &str) -> String {
    let text = text.replace(['`', '*'], "");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, (label, after))) = rest.split_once('[').and_then(|(b, a)| Some((b, a.split_once("](")?))) {
        let Some((file, behind)) = after.split_once(')') else { break };
        out.push_str(&format!("{before}{label} (docs/{file})"));
        rest = behind;
    }
    out + rest
}

/// The lines of a paper as findings for its page. `heading` is that of docs/papers.md.
pub(super) fn findings(heading: &str) -> Option<Findings> {
    let (lines, objections) = section(heading)?;
    let count = |state: &str| lines.iter().filter(|line| line.state == state).count();
    let text = format!(
        "{} lines are faithful, {} differ with a reason, {} are not measured with a reason. The last columns say where: an experiment, \
         or what tests it, and its code.",
        count(STATES[0]),
        count(STATES[1]),
        count(STATES[2])
    );
    let mut table = Table::new("", 5, &["in the paper", "state", "difference, reason and effect", "where", "code"]);
    for line in lines {
        table.push([line.item, line.state, line.note, line.command, line.code]);
    }
    let mut list = Table::new("The authors would object", 1, &["objection, and why it stands"]);
    objections.into_iter().for_each(|objection| list.push([objection]));
    Some(Findings {
        name: "fidelity".into(),
        title: "Line by line".into(),
        question: "Every structure, figure and statement of the paper: is it here as it is there?".into(),
        source: heading.into(),
        command: String::new(),
        host: Host::default(),
        seconds: 0.0,
        parts: vec![Part::section("", text), Part::Table(table), Part::Table(list)],
    })
}

/// What the authors of a paper would object to, and the lines that differ or are not measured, for the page of a critical reader.
pub(super) fn objections(heading: &str, page: &str, title: &str) -> Option<Findings> {
    let (lines, objections) = section(heading)?;
    let mut list = Table::new("The authors would object", 1, &["objection, and why it stands"]);
    objections.into_iter().for_each(|objection| list.push([objection]));
    let mut table =
        Table::new("What is not as in the paper", 3, &["in the paper", "state", "difference, reason and effect"]);
    let open = lines.into_iter().filter(|line| line.state != STATES[0]);
    open.for_each(|line| table.push([line.item, line.state, line.note]));
    Some(Findings {
        name: page.to_owned(),
        title: title.to_owned(),
        question: "What would a reader who knows the paper object to?".into(),
        source: heading.into(),
        command: String::new(),
        host: Host::default(),
        seconds: 0.0,
        parts: vec![Part::Table(list), Part::Table(table)],
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    const HEADINGS: [(&str, usize); 5] = [
        ("Holloway and DeWitt 2008", 30),
        ("Raasveldt and Mühleisen 2017", 25),
        ("Halverson et al. 2006", 20),
        ("Grund et al. 2010", 20),
        ("Götze, Baumann and Sattler 2018", 20),
    ];

    #[test]
    fn every_line_has_a_state_a_reason_and_a_place() {
        for (heading, least) in HEADINGS {
            let (lines, objections) = section(heading).expect(heading);
            assert!(lines.len() >= least, "{heading} has {} lines", lines.len());
            assert!(objections.len() >= 2, "{heading}: {objections:?}");
            for line in lines {
                assert!(STATES.contains(&line.state.as_str()), "{line:?}");
                assert!(line.state == "faithful" || line.note.len() >= 20, "{line:?} has no reason");
                assert!(!line.command.is_empty(), "{line:?}");
            }
        }
    }

    /// The sources of a folder, as text.
    fn sources(folder: &Path, out: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => sources(&path, out),
                false if path.extension().is_some_and(|name| name == "rs") => {
                    out.extend(std::fs::read_to_string(&path))
                }
                false => {}
            }
        }
    }

    #[test]
    fn every_line_has_a_command_that_exists() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let rows = DOCUMENT.lines().filter(|text| line(text).is_some());
        for text in rows {
            let [.., state, _, place, _] = text.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
                panic!("{text}")
            };
            let commands: Vec<&str> = place.split('`').skip(1).step_by(2).collect();
            assert!(!commands.is_empty() || (state, place) == ("not measured", "none"), "no command: {text}");
            for command in commands {
                match command.split(' ').collect::<Vec<_>>()[..] {
                    ["cargo", "test", "-p", of, test] => {
                        let mut found = vec![];
                        ["src", "tests"]
                            .iter()
                            .for_each(|part| sources(&root.join("crates").join(of).join(part), &mut found));
                        let name = format!("fn {test}(");
                        assert!(found.iter().any(|source| source.contains(&name)), "no test of {of}: {command}");
                    }
                    ["python", file] => assert!(root.join(file).exists(), "no file {file}"),
                    _ => assert!(is_experiment(command), "no experiment: {command}"),
                }
            }
        }
        assert_eq!(
            plain(&whole_commands("`ptable-points --rows 5`, [a](b.md)")),
            "freestone-lab run ptable-points --rows 5, a (docs/b.md)"
        );
    }

    #[test]
    fn every_line_has_code_that_exists() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lines: Vec<Line> = DOCUMENT.lines().filter_map(line).collect();
        for line in &lines {
            assert!(!line.code.is_empty() || line.state == STATES[2] || line.command.contains("docs/"), "{line:?}");
            line.code.split(", ").for_each(|place| assert!(root.join(place).exists(), "no {place}: {line:?}"));
        }
        assert_eq!(
            code("`holloway-pages --rows 5`, `cargo test -p freestone once`, `codecs`"),
            "crates/freestone-lab/src/experiments/holloway/pages, crates/freestone, crates/freestone-lab/src/experiments/codecs.rs"
        );
    }

    #[test]
    fn rows_of_tables_are_lines() {
        let rows = DOCUMENT.lines().filter(|text| text.starts_with("| ") && !text.starts_with("| item"));
        assert_eq!(plain("see [a](b.md#c), `d` [e](f.md)"), "see a (docs/b.md#c), d e (docs/f.md)");
        let broken: Vec<&str> = rows.filter(|text| line(text).is_none()).collect();
        assert!(broken.is_empty(), "these rows have not four cells: {broken:?}");
    }

    #[test]
    fn experiments_that_lines_name_exist() {
        let prefixes = ["holloway-", "halverson-", "protocol-", "tenants-", "ptable-", "memory-"];
        let words = DOCUMENT.split('`').skip(1).step_by(2);
        let named: Vec<&str> = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))).collect();
        assert!(named.len() > 50, "{}", named.len());
        for name in named {
            let name = name.split(' ').next().unwrap_or(name);
            assert!(EXPERIMENTS.iter().any(|experiment| experiment.name == name), "no experiment {name}");
        }
    }
}
