//! The interactive shell: line editing with history and completion, and statements of several lines.

mod complete;
mod input;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::failure::{Failure, note};
use crate::run::{Flow, Origin, Runner};
use complete::Assistant;
use input::{Input, Taken};

/// The number of statements in the history, over all sessions.
const HISTORY_LENGTH: usize = 10_000;

/// The rows of a result that the terminal shows, unless `\maxrows` sets another number.
pub const MAX_ROWS: usize = 40;

/// Reads and runs statements until `\q` or Ctrl-D. `name` is the name of the database, for the prompt.
pub fn run(runner: &mut Runner, name: &str) -> Result<(), Failure> {
    note(format_args!("freestone {}, database {name}; \\? for help", env!("CARGO_PKG_VERSION")));
    let history = history_file();
    let mut editor = editor(runner, history.as_deref()).map_err(terminal_failure)?;
    let mut input = Input::default();
    loop {
        match editor.readline(&input.prompt(name, runner.backend().transaction_mark())) {
            Ok(line) => {
                let flow = match input.take(line) {
                    Taken::Nothing => Flow::Continue,
                    Taken::Command(command) => run_kept(runner, &mut editor, history.as_deref(), &command),
                    Taken::Statements(text) => run_kept(runner, &mut editor, history.as_deref(), &text),
                    Taken::Shown(text) => {
                        note(text);
                        Flow::Continue
                    }
                };
                if flow == Flow::Quit {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => input.clear(),
            Err(ReadlineError::Eof) => {
                if !input.is_empty() {
                    note("the last statement has no `;` and did not run");
                }
                break;
            }
            Err(error) => return Err(terminal_failure(error)),
        }
    }
    Ok(())
}

/// Runs statements or a command, and keeps the text in the history. Errors are printed, and the shell continues.
fn run_kept(
    runner: &mut Runner,
    editor: &mut Editor<Assistant, FileHistory>,
    history: Option<&Path>,
    text: &str,
) -> Flow {
    // Added to the history before it runs. Errors of the history are ignored.
    let _ = editor.add_history_entry(text.trim_end());
    let _ = history.map(|history| editor.append_history(history));
    let size = editor.dimensions();
    runner.settings.layout.max_width = size.map(|(columns, _)| columns.into());
    runner.settings.layout.screen_rows = size.map(|(_, rows)| rows.into());
    let result = runner.run_text(text, Origin::Inline);
    if let Some(assistant) = editor.helper_mut() {
        assistant.forget_names();
    }
    result.unwrap_or_else(|failure| {
        failure.print();
        Flow::Continue
    })
}

fn editor(runner: &Runner, history: Option<&Path>) -> rustyline::Result<Editor<Assistant, FileHistory>> {
    let config = Config::builder()
        .max_history_size(HISTORY_LENGTH)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Assistant::new(runner.backend().clone())));
    if let Some(history) = history {
        match editor.load_history(history) {
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => note(format_args!("history: cannot read {}: {error}", history.display())),
            Ok(()) => {}
        }
    }
    Ok(editor)
}

fn terminal_failure(error: ReadlineError) -> Failure {
    Failure::error(format!("terminal: {error}"))
}

/// `freestone/history` in the user's state folder, which is created if needed.
fn history_file() -> Option<PathBuf> {
    let folder = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")))?.join("freestone");
    fs::create_dir_all(&state).ok()?;
    Some(state.join("history"))
}
