//! Commands of the shell: lines that begin with `\`, as in psql, or with `.`, as in sqlite and duckdb. They are also
//! commands in scripts.

use std::io;
use std::path::Path;

use clap::ValueEnum;
use rustyline::completion::unescape;

use crate::failure::{Failure, note};
use crate::output::{Format, Sink};
use crate::run::{Flow, Origin, Runner, binary_on_terminal};

/// Names, arguments and descriptions, for the help and for completion.
pub const COMMANDS: &[(&str, &[&str], &str, &str)] = &[
    ("\\d", &[".schema", ".describe"], "[NAME]", "lists tables and views, or describes one"),
    ("\\dt", &[".tables"], "", "lists the tables"),
    ("\\dc", &[".copies"], "", "lists the copies of tables"),
    ("\\dv", &[".views"], "", "lists the views"),
    ("\\mode", &[".mode"], "[FORMAT]", "shows or sets how results are printed"),
    ("\\maxrows", &[".maxrows"], "[N|all]", "shows or sets how many rows a table on the terminal has"),
    ("\\x", &[".expanded"], "[on|off]", "prints each row as lines of names and values"),
    ("\\pager", &[".pager"], "[on|off]", "shows results that are longer than the screen in a pager"),
    ("\\timing", &[".timing", ".timer"], "[on|off]", "prints the time of each statement"),
    ("\\i", &[".read"], "FILE", "runs the statements of a file"),
    ("\\o", &[".output"], "[FILE]", "writes results to a file, or to the terminal again"),
    ("\\g", &[], "", "runs the statement that was begun, without its `;`"),
    ("\\p", &[".print"], "", "shows the statement that was begun"),
    ("\\r", &[".reset"], "", "discards the statement that was begun (so does Ctrl-C)"),
    ("\\?", &[".help", "\\h", "help"], "", "shows this help"),
    ("\\q", &[".quit", ".exit", "quit", "exit"], "", "leaves (so does Ctrl-D)"),
];

const TABLES: &str = "SELECT name, rows, bytes, design FROM freestone_tables() ORDER BY name";

const COPIES: &str = "SELECT \"table\", name, columns, current, bytes, design FROM freestone_copies() ORDER BY 1, 2";

const VIEWS: &str = "SELECT table_name AS name FROM information_schema.tables WHERE table_type = 'VIEW' \
                     AND table_schema <> 'information_schema' ORDER BY name";

impl Runner {
    /// Runs one line that begins with `\` or `.`.
    pub(crate) fn run_command(&mut self, line: &str) -> Result<Flow, Failure> {
        let line = line.trim_end_matches(|last: char| last == ';' || last.is_whitespace());
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        match (canonical(name), argument) {
            (Some("\\d"), "") => self.run_text("SHOW TABLES", Origin::Inline),
            (Some("\\d"), name) => self.describe(name),
            (Some("\\dt"), _) => self.run_text(TABLES, Origin::Inline),
            (Some("\\dc"), _) => self.run_text(COPIES, Origin::Inline),
            (Some("\\dv"), _) => self.run_text(VIEWS, Origin::Inline),
            (Some("\\mode"), format) => self.set_format(format),
            (Some("\\maxrows"), limit) => self.set_max_rows(limit),
            (Some("\\x"), switch) => self.set_expanded(switch),
            (Some("\\pager"), switch) => self.set_pager(switch),
            (Some("\\g" | "\\p" | "\\r"), _) => {
                note("no statement was begun");
                Ok(Flow::Continue)
            }
            (Some("\\timing"), switch) => self.set_timing(switch),
            (Some("\\i"), "") => Err(Failure::error(format!("{name} needs the name of a file"))),
            (Some("\\i"), file) => self.run_file(Path::new(&file_name(file))),
            (Some("\\o"), "") => self.set_output(Sink::stdout()),
            (Some("\\o"), file) => self.set_output(Sink::file(file_name(file))),
            (Some("\\?"), _) => {
                note(help().trim_end());
                Ok(Flow::Continue)
            }
            (Some("\\q"), _) => Ok(Flow::Quit),
            (Some("\\pset"), _) => self.set_option(argument),
            _ => Err(Failure::with_hint(format!("there is no command {name}"), "\\? lists the commands")),
        }
    }

    fn describe(&mut self, name: &str) -> Result<Flow, Failure> {
        self.run_text(&format!("DESCRIBE {name}"), Origin::Inline)
    }

    fn set_format(&mut self, name: &str) -> Result<Flow, Failure> {
        if name.is_empty() {
            note(format_args!("mode {}", self.settings.format.name()));
            return Ok(Flow::Continue);
        }
        let format = Format::from_str(name, true).map_err(|_| {
            let names: Vec<_> = Format::value_variants().iter().map(|format| format.name()).collect();
            Failure::with_hint(format!("there is no mode {name}"), format!("modes are {}", names.join(", ")))
        })?;
        if format.is_binary() && self.sink().is_terminal() {
            return Err(binary_on_terminal(format));
        }
        self.settings.format = format;
        Ok(Flow::Continue)
    }

    fn set_max_rows(&mut self, limit: &str) -> Result<Flow, Failure> {
        let limit = match limit {
            "" => {
                let limit = self.settings.layout.max_rows.map_or("all".into(), |rows| rows.to_string());
                note(format_args!("maxrows {limit}"));
                return Ok(Flow::Continue);
            }
            "all" | "0" | "-1" => None,
            digits => Some(digits.parse::<usize>().map_err(|_| {
                Failure::with_hint(format!("`{digits}` is not a number of rows"), "write a number, or `all`")
            })?),
        };
        self.settings.layout.max_rows = limit;
        Ok(Flow::Continue)
    }

    fn set_timing(&mut self, argument: &str) -> Result<Flow, Failure> {
        self.settings.timing = switched("timing", argument, self.settings.timing)?;
        Ok(Flow::Continue)
    }

    fn set_pager(&mut self, argument: &str) -> Result<Flow, Failure> {
        self.settings.pager = switched("pager", argument, self.settings.pager)?;
        Ok(Flow::Continue)
    }

    fn set_expanded(&mut self, argument: &str) -> Result<Flow, Failure> {
        let is_on = switched("expanded", argument, self.settings.format == Format::Expanded)?;
        self.settings.format = if is_on { Format::Expanded } else { Format::Table };
        Ok(Flow::Continue)
    }

    /// psql's `\pset NAME VALUE`, for the options that exist here.
    fn set_option(&mut self, argument: &str) -> Result<Flow, Failure> {
        match argument.split_once(char::is_whitespace).unwrap_or((argument, "")) {
            ("format", format) => self.set_format(format.trim()),
            ("maxrows", limit) => self.set_max_rows(limit.trim()),
            ("pager", switch) => self.set_pager(switch.trim()),
            ("expanded" | "x", switch) => self.set_expanded(switch.trim()),
            (name, _) => {
                let hint = "options are expanded, format, maxrows, pager";
                Err(Failure::with_hint(format!("there is no option `{name}`"), hint))
            }
        }
    }

    fn set_output(&mut self, sink: Sink) -> Result<Flow, Failure> {
        self.replace_sink(sink).map_err(|error: io::Error| Failure::error(format!("cannot write: {error}")))?;
        Ok(Flow::Continue)
    }
}

/// The new state of a switch, which is also printed. Without an argument it changes.
fn switched(name: &str, argument: &str, is_on: bool) -> Result<bool, Failure> {
    let is_on = match argument.to_ascii_lowercase().as_str() {
        "on" => true,
        "off" => false,
        "" => !is_on,
        _ => return Err(Failure::error(format!("{name} is on or off, not `{argument}`"))),
    };
    note(format_args!("{name} {}", if is_on { "on" } else { "off" }));
    Ok(is_on)
}

/// Whether a line begins with a command.
pub(crate) fn is_command(line: &str) -> bool {
    let name = line.split(char::is_whitespace).next().unwrap_or("");
    // A line of a statement may begin with `.5`. Nothing in SQL begins with a backslash.
    line.starts_with('\\') || line.starts_with('.') && canonical(name).is_some()
}

/// The psql name of a command, from any of its names.
fn canonical(name: &str) -> Option<&'static str> {
    if name == "\\pset" {
        return Some("\\pset");
    }
    // Every name may have either mark: \tables and .dt are accepted like .tables and \dt.
    let bare = name.get(1..)?;
    let found = COMMANDS.iter().find(|(first, others, ..)| {
        let marked = std::iter::once(first).chain(others.iter()).filter(|known| known.starts_with(['\\', '.']));
        marked.map(|known| &known[1..]).any(|known| known.eq_ignore_ascii_case(bare))
    });
    found.map(|(first, ..)| *first)
}

fn file_name(argument: &str) -> String {
    let quoted = |quote| argument.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    match quoted('\'').or_else(|| quoted('"')) {
        Some(name) => name.to_string(),
        None => unescape(argument, Some('\\')).into_owned(),
    }
}

fn help() -> String {
    let mut text = String::from("Statements end with `;` and may take several lines. Ctrl-C cancels, Tab completes.\n");
    for (name, others, arguments, meaning) in COMMANDS {
        let names = [&[*name], *others].concat().join(" ");
        let call = format!("{names} {arguments}");
        text.push_str(&format!("  {call:<32} {meaning}\n"));
    }
    let formats: Vec<_> = Format::value_variants().iter().map(|format| format.name()).collect();
    text.push_str(&format!("Formats: {}", formats.join(", ")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_command() {
        for (name, expected) in [
            ("\\d", Some("\\d")),
            (".d", Some("\\d")),
            (".tables", Some("\\dt")),
            ("\\quit", Some("\\q")),
            (".HELP", Some("\\?")),
            ("\\nonsense", None),
            (".", None),
            (".é", None),
        ] {
            assert_eq!(canonical(name), expected, "{name}");
        }
    }

    #[test]
    fn file_names_may_be_quoted() {
        for (argument, expected) in [("a.sql", "a.sql"), ("'a b.sql'", "a b.sql"), ("a\\ b.sql", "a b.sql"), ("'", "'")]
        {
            assert_eq!(file_name(argument), expected);
        }
    }
}
