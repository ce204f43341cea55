//! The lines of the shell: whether they are a statement so far, a command, or not yet complete.

use crate::command;
use crate::split::Splitter;

/// The lines of a statement that has not ended.
#[derive(Debug, Default)]
pub struct Input {
    pending: String,
}

/// What a line leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// The statement goes on in the next line.
    Nothing,
    Statements(String),
    /// A command of the shell. An unfinished statement stays as it is.
    Command(String),
    /// A text to be edited: what was begun, or the file.
    Edit {
        file: String,
        begun: String,
    },
    /// Something to print.
    Shown(String),
}

impl Input {
    /// Whether no statement is unfinished.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Lines of an unfinished statement.
    pub fn of(pending: String) -> Input {
        Input { pending }
    }

    /// Forgets the unfinished statement.
    pub fn clear(&mut self) {
        self.pending.clear();
    }

    /// The prompt: on further lines of a statement as wide as on the first, with a mark for open quotes and comments.
    pub fn prompt(&self, name: &str, transaction_mark: &str) -> String {
        if self.is_empty() {
            return format!("{name}{transaction_mark}> ");
        }
        let mark = scanned(&self.pending).mark();
        format!("{:>width$}> ", mark, width = name.chars().count() + transaction_mark.chars().count())
    }

    /// Takes the next line.
    pub fn take(&mut self, line: &str) -> Taken {
        let line = line.trim_end_matches('\r');
        let line = if self.is_empty() { line.trim_start_matches('\u{feff}') } else { line };
        let word = line.trim();
        if self.is_empty() && word.is_empty() {
            return Taken::Nothing;
        }
        if self.is_empty()
            && let Some(command) = bare_command(word)
        {
            return Taken::Command(command.into());
        }
        let is_in_text = !self.is_empty() && scanned(&self.pending).mark() != '-';
        if !is_in_text && let Some(taken) = self.command_between(word) {
            return taken;
        }
        self.pending.push_str(line);
        self.pending.push('\n');
        if scanned(&self.pending).is_pending() {
            Taken::Nothing
        } else {
            Taken::Statements(std::mem::take(&mut self.pending))
        }
    }

    /// A command that needs the statement that was begun, or one on a line after its first ones.
    fn command_between(&mut self, word: &str) -> Option<Taken> {
        if !command::is_command(word) {
            return None;
        }
        if let Some(file) = command::edit_argument(word) {
            return Some(Taken::Edit { file, begun: std::mem::take(&mut self.pending) });
        }
        if self.is_empty() {
            return None;
        }
        match &word[1..] {
            "r" | "reset" => {
                self.clear();
                Some(Taken::Shown("the statement is discarded".into()))
            }
            "p" | "print" => Some(Taken::Shown(self.pending.trim_end().into())),
            "g" => {
                self.pending.push(';');
                Some(Taken::Statements(std::mem::take(&mut self.pending)))
            }
            _ => Some(Taken::Command(word.into())),
        }
    }
}

/// The command that people of other shells type as a word.
fn bare_command(word: &str) -> Option<&'static str> {
    match word.trim_end_matches(';').trim_end().to_ascii_lowercase().as_str() {
        "exit" | "quit" => Some("\\q"),
        "help" => Some("\\?"),
        _ => None,
    }
}

/// The splitter behind a text.
fn scanned(text: &str) -> Splitter {
    let mut splitter = Splitter::default();
    splitter.push(text.as_bytes());
    while splitter.next_piece().is_some() {}
    splitter
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(text: &str) -> Taken {
        Taken::Statements(text.into())
    }

    #[test]
    fn statements_end_at_semicolons_and_commands_with_their_line() {
        for (line, expected) in [
            ("", Taken::Nothing),
            ("select 1", Taken::Nothing),
            ("select 1;", statements("select 1;\n")),
            ("select ';", Taken::Nothing),
            ("select 1; select 2", Taken::Nothing),
            ("select 1; -- done", statements("select 1; -- done\n")),
            ("\\d t", statements("\\d t\n")),
            (".mode csv", statements(".mode csv\n")),
            ("/* open", Taken::Nothing),
            ("exit", Taken::Command("\\q".into())),
            ("QUIT;", Taken::Command("\\q".into())),
            ("help", Taken::Command("\\?".into())),
            ("\u{feff}select 1;\r", statements("select 1;\n")),
            ("\u{feff}\\d", statements("\\d\n")),
            ("\\e", Taken::Edit { file: String::new(), begun: String::new() }),
            (".edit 'a b.sql'", Taken::Edit { file: "a b.sql".into(), begun: String::new() }),
        ] {
            assert_eq!(Input::default().take(line), expected, "{line}");
        }
    }

    #[test]
    fn commands_between_the_lines_of_a_statement_leave_it_as_it_is() {
        let mut input = Input::default();
        assert_eq!(input.take("select"), Taken::Nothing);
        assert_eq!(input.prompt("shop", "*"), "    -> ");
        assert_eq!(input.take("\\timing on"), Taken::Command("\\timing on".into()));
        assert_eq!(input.take(".dt"), Taken::Command(".dt".into()));
        // A number, and a word that is only a command at the start.
        assert_eq!(input.take(".5,"), Taken::Nothing);
        assert_eq!(input.take("exit"), Taken::Nothing);
        assert_eq!(input.take("\\p"), Taken::Shown("select\n.5,\nexit".into()));
        assert_eq!(input.take("'"), Taken::Nothing);
        assert_eq!(input.prompt("shop", ""), "   '> ");
        assert_eq!(input.take("\\q';"), statements("select\n.5,\nexit\n'\n\\q';\n"));
        assert_eq!(input.prompt("shop", "!"), "shop!> ");
    }

    #[test]
    fn an_unfinished_statement_is_discarded_or_run() {
        let mut input = Input::default();
        input.take("select 1");
        assert!(matches!(input.take("\\r"), Taken::Shown(_)));
        assert!(input.is_empty());
        input.take("select 2");
        assert_eq!(input.take("\\g"), statements("select 2\n;"));
    }
}
