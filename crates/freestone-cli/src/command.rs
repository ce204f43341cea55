//! Commands of the shell: lines that begin with `\`, as in psql, or with `.`, as in sqlite and duckdb. They are also
//! commands in scripts.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use rustyline::completion::unescape;

use crate::failure::{Failure, note};
use crate::output::{Format, Sink};
use crate::run::{Flow, Origin, Runner, binary_on_terminal};
use crate::terminal;

/// Names, arguments and descriptions, for the help and for completion.
pub const COMMANDS: &[(&str, &[&str], &str, &str)] = &[
    ("\\d", &[".schema", ".describe"], "[NAME]", "lists tables and views, or describes one"),
    ("\\dt", &[".tables"], "", "lists the tables"),
    ("\\dc", &[".copies"], "", "lists the copies of tables"),
    ("\\dv", &[".views"], "", "lists the views"),
    ("\\c", &[".open", "\\connect"], "[FOLDER|URL]", "opens another database, or shows which one is open"),
    (
        "\\mode",
        &[".mode"],
        "[FORMAT|auto]",
        "shows or sets how results are printed; auto: as the output file's name says",
    ),
    ("\\maxrows", &[".maxrows"], "[N|all]", "shows or sets how many rows a table on the terminal has"),
    ("\\x", &[".expanded"], "[on|off]", "prints each row as lines of names and values"),
    ("\\pager", &[".pager"], "[on|off]", "shows all rows of results that are longer than the screen in a pager"),
    ("\\timing", &[".timing", ".timer"], "[on|off]", "prints the time of each statement"),
    ("\\i", &[".read"], "FILE", "runs the statements of a file"),
    ("\\e", &[".edit", "\\edit"], "[FILE]", "edits a file, or the last statement, in $VISUAL or $EDITOR, and runs it"),
    ("\\o", &[".output"], "[FILE]", "writes results to a file, such as x.csv or x.parquet, or to the terminal again"),
    ("\\copy", &[".copy"], "ROWS from|to FILE", "copies a table, or a (query), from or to a file of this machine"),
    ("\\import", &[".import"], "FILE TABLE", "loads a file of this machine into a table, which is created if needed"),
    ("\\!", &[".shell", ".system"], "[COMMAND]", "runs a command of the system"),
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
        let (name, argument) = name_and_argument(line);
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
            (Some("\\c"), "") => self.tell_name(),
            (Some("\\c"), database) => self.reopen(Path::new(&file_name(database))).and_then(|()| self.tell_name()),
            (Some("\\copy"), argument) => self.copy(argument),
            (Some("\\import"), argument) => self.import(argument),
            (Some("\\!"), command) => self.run_program(command),
            (Some("\\e"), _) => Err(Failure::error(format!("{name} is a command of the interactive shell"))),
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

    fn tell_name(&self) -> Result<Flow, Failure> {
        note(format_args!("database {}", self.name()));
        Ok(Flow::Continue)
    }

    /// Runs a command of the system, or its shell. How it ends is told and is no failure.
    fn run_program(&mut self, command: &str) -> Result<Flow, Failure> {
        self.flush()?;
        let shell = std::env::var("SHELL").unwrap_or_else(|_| "sh".into());
        let mut program = Command::new(if command.is_empty() { &shell } else { "sh" });
        if !command.is_empty() {
            program.args(["-c", command]);
        }
        // A script on standard input is not the input of its commands.
        if !io::stdin().is_terminal() {
            program.stdin(Stdio::null());
        }
        let lent = terminal::lend();
        let status = program.status();
        drop(lent);
        match status {
            Err(error) => return Err(Failure::error(format!("cannot start a shell: {error}"))),
            Ok(status) if !status.success() => note(status),
            Ok(_) => {}
        }
        Ok(Flow::Continue)
    }

    fn describe(&mut self, name: &str) -> Result<Flow, Failure> {
        self.run_text(&format!("DESCRIBE {name}"), Origin::Inline)
    }

    fn set_format(&mut self, name: &str) -> Result<Flow, Failure> {
        if name.is_empty() {
            note(format_args!("mode {}", self.format().name()));
            return Ok(Flow::Continue);
        }
        if name.eq_ignore_ascii_case("auto") {
            self.settings.format = None;
            return Ok(Flow::Continue);
        }
        let format = Format::from_str(name, true).map_err(|_| {
            let names: Vec<_> = Format::value_variants().iter().map(|format| format.name()).collect();
            Failure::with_hint(format!("there is no mode {name}"), format!("modes are {}, auto", names.join(", ")))
        })?;
        if format.is_binary() && self.sink().is_terminal() {
            return Err(binary_on_terminal(format));
        }
        self.settings.format = Some(format);
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
        let is_on = switched("expanded", argument, self.format() == Format::Expanded)?;
        self.settings.format = is_on.then_some(Format::Expanded);
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

/// The name of a command, and what follows it. `\!` needs no space.
fn name_and_argument(line: &str) -> (&str, &str) {
    let end = if line.starts_with("\\!") { 2 } else { line.find(char::is_whitespace).unwrap_or(line.len()) };
    (&line[..end], line[end..].trim())
}

/// The file that `\e` names, or nothing; `None` if a line has another command.
pub(crate) fn edit_argument(line: &str) -> Option<String> {
    let (name, argument) = name_and_argument(line);
    (canonical(name) == Some("\\e")).then(|| file_name(argument))
}

/// The psql name of a command, from any of its names.
pub(crate) fn canonical(name: &str) -> Option<&'static str> {
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

/// The name of a file, which may be in quotes or have escaped spaces.
pub(crate) fn file_name(argument: &str) -> String {
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
        text.push_str(&format!("  {call:<40} {meaning}\n"));
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
            (".open", Some("\\c")),
            ("\\!", Some("\\!")),
            (".Import", Some("\\import")),
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
