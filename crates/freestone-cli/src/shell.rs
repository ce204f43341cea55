//! The interactive shell: line editing with history and completion, and statements of several lines.

mod complete;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::failure::{Failure, note};
use crate::run::{Flow, Origin, Runner};
use complete::Assistant;

/// The number of statements in the history, over all sessions.
const HISTORY_LENGTH: usize = 10_000;

/// The rows of a result that the terminal shows, unless `\maxrows` sets another number.
pub const MAX_ROWS: usize = 40;

/// Reads and runs statements until `\q` or Ctrl-D. `name` is the name of the database, for the prompt.
pub fn run(runner: &mut Runner, name: &str) -> Result<(), Failure> {
    note(format_args!("freestone {}, database {name}; \\? for help", env!("CARGO_PKG_VERSION")));
    let history = history_file();
    let mut editor = editor(runner, history.as_deref()).map_err(terminal_failure)?;
    loop {
        let mark = runner.backend().transaction_mark();
        match editor.readline(&format!("{name}{mark}> ")) {
            Ok(input) => {
                if read_on(runner, &mut editor, history.as_deref(), &input) == Flow::Quit {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal_failure(error)),
        }
    }
    Ok(())
}

/// Runs the input. Errors are printed, and the shell continues.
fn read_on(
    runner: &mut Runner,
    editor: &mut Editor<Assistant, FileHistory>,
    history: Option<&Path>,
    input: &str,
) -> Flow {
    if input.trim().is_empty() {
        return Flow::Continue;
    }
    // Added to the history before it runs. Errors of the history are ignored.
    let _ = editor.add_history_entry(input.trim_end());
    let _ = history.map(|history| editor.append_history(history));
    runner.settings.layout.max_width = editor.dimensions().map(|(columns, _)| columns.into());
    let result = runner.run_text(input, Origin::Inline);
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
