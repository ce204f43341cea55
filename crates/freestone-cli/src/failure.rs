//! The errors that end a run before its last statement, and their texts.

use std::fmt::Display;
use std::io::{self, Write};

#[derive(Debug)]
pub enum Failure {
    /// What is wrong and where; the line that has it with a caret below; and what to do about it, if that is known.
    Error { message: String, excerpt: Option<String>, hint: Option<String> },
    /// Ctrl-C.
    Interrupted,
    /// The reader of the results has closed the pipe.
    BrokenPipe,
}

impl Failure {
    pub fn error(message: impl Into<String>) -> Self {
        Failure::Error { message: message.into(), excerpt: None, hint: None }
    }

    pub fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Error { message: message.into(), excerpt: None, hint: Some(hint.into()) }
    }

    /// Puts `FILE:LINE: ` before the message.
    pub fn at(self, place: &str) -> Self {
        match self {
            Failure::Error { message, excerpt, hint } => {
                Failure::Error { message: format!("{place}{message}"), excerpt, hint }
            }
            other => other,
        }
    }

    /// Changes the line of a syntax error to count from the start of the script, which is `lines` above the parsed
    /// text.
    pub fn below(self, lines: usize) -> Self {
        match self {
            Failure::Error { message, excerpt, hint } => {
                Failure::Error { message: moved_down(&message, lines), excerpt, hint }
            }
            other => other,
        }
    }

    pub fn print(&self) {
        match self {
            Failure::Error { message, excerpt, hint } => {
                note(format_args!("error: {message}"));
                if let Some(excerpt) = excerpt {
                    note(excerpt);
                }
                if let Some(hint) = hint {
                    note(format_args!("hint: {hint}"));
                }
            }
            Failure::Interrupted => note("error: cancelled"),
            Failure::BrokenPipe => {}
        }
    }
}

impl From<freestone::Error> for Failure {
    fn from(error: freestone::Error) -> Self {
        let (excerpt, hint) = (error.excerpt().map(str::to_owned), error.hint().map(str::to_owned));
        Failure::Error { message: error.to_string(), excerpt, hint }
    }
}

impl From<freestone_wire::WireError> for Failure {
    fn from(error: freestone_wire::WireError) -> Self {
        use freestone_wire::WireError;
        let hint = match &error {
            WireError::Sql(error) => error.hint.clone(),
            WireError::Io { .. } | WireError::Timeout(_) => Some(
                "is `freestone serve` running there, and does it serve Freestone's own protocol (--listen)?".into(),
            ),
            WireError::Authentication(_) => {
                Some("check the user and the password; `freestone user list` names users".into())
            }
            _ => None,
        };
        Failure::Error { message: error.to_string(), excerpt: None, hint }
    }
}

impl From<freestone_demo::DemoError> for Failure {
    fn from(error: freestone_demo::DemoError) -> Self {
        match error {
            freestone_demo::DemoError::Engine(error) => Failure::from(error),
            other => Failure::error(other.to_string()),
        }
    }
}

fn moved_down(message: &str, lines: usize) -> String {
    const START: &str = "syntax error at line ";
    let moved = message.strip_prefix(START).and_then(|rest| {
        let (line, rest) = rest.split_once(',')?;
        Some(format!("{START}{},{rest}", line.parse::<usize>().ok()?.checked_add(lines)?))
    });
    moved.unwrap_or_else(|| message.to_string())
}

/// Writes a line to standard error. Errors are ignored, since a closed standard error is no reason to stop.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_line_of_a_syntax_error_moves() {
        for (message, expected) in [
            ("syntax error at line 2, column 5: line 3", "syntax error at line 12, column 5: line 3"),
            ("syntax error: line 2, column 5", "syntax error: line 2, column 5"),
            ("no table t", "no table t"),
        ] {
            assert_eq!(moved_down(message, 10), expected);
        }
    }
}
