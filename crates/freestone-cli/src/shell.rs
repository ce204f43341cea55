//! The interactive shell: line editing with history and completion, and statements of several lines.

mod complete;
mod edit;
mod input;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::command::is_command;
use crate::failure::{Failure, note};
use crate::run::{Flow, Origin, Runner};
use crate::terminal::{self, Held};
use complete::Assistant;
use input::{Input, Taken};

/// The number of statements in the history, over all sessions.
const HISTORY_LENGTH: usize = 10_000;

/// The rows of a result that the terminal shows, unless `\maxrows` sets another number.
pub const MAX_ROWS: usize = 40;

/// Reads and runs statements until `\q` or Ctrl-D.
pub fn run(runner: &mut Runner) -> Result<(), Failure> {
    note(format_args!("freestone {}, database {}; \\? for help", env!("CARGO_PKG_VERSION"), runner.name()));
    let _held = Held::start();
    let mut shell = Shell::new(runner).map_err(terminal_failure)?;
    loop {
        match shell.read() {
            Ok(text) => {
                if shell.take(&text) == Flow::Quit {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => shell.input.clear(),
            // The window has another size, of which the editor takes note when it reads again.
            Err(ReadlineError::Signal(_)) => {}
            Err(ReadlineError::Eof) => {
                if !shell.input.is_empty() {
                    note("the last statement has no `;` and did not run");
                }
                break;
            }
            Err(error) => return Err(terminal_failure(error)),
        }
    }
    Ok(())
}

struct Shell<'a> {
    runner: &'a mut Runner,
    editor: Editor<Assistant, FileHistory>,
    history: Option<PathBuf>,
    input: Input,
    /// The statements that ran last, which `\e` edits.
    last: String,
}

impl<'a> Shell<'a> {
    fn new(runner: &'a mut Runner) -> rustyline::Result<Self> {
        let history = history_file();
        let editor = editor(runner, history.as_deref())?;
        Ok(Shell { runner, editor, history, input: Input::default(), last: String::new() })
    }

    /// Reads a line, or several if they were pasted or come from the history.
    fn read(&mut self) -> rustyline::Result<String> {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.begin_line();
        }
        let prompt = self.input.prompt(self.runner.name(), self.runner.backend().transaction_mark());
        let read = self.editor.readline(&prompt);
        // A terminal that edits lines itself has discarded its line, and the statement goes with it.
        if self.runner.interrupt().take_between() && terminal::is_plain() {
            self.input.clear();
        }
        read
    }

    /// Takes lines, and runs what they complete. An interrupt discards the lines behind the statement that it ends.
    fn take(&mut self, text: &str) -> Flow {
        for line in text.split('\n') {
            let done = match self.input.take(line) {
                Taken::Nothing => Ok(Flow::Continue),
                Taken::Command(command) => self.run(&command),
                Taken::Statements(text) => {
                    self.keep_as_last(&text);
                    self.run(&text)
                }
                Taken::Edit { file, begun } => self.edit(&file, begun),
                Taken::Shown(text) => {
                    note(text);
                    Ok(Flow::Continue)
                }
            };
            match done {
                Ok(Flow::Continue) => {}
                Ok(Flow::Quit) => return Flow::Quit,
                Err(failure) => {
                    failure.print();
                    if matches!(failure, Failure::Interrupted) {
                        self.discard_input();
                        break;
                    }
                }
            }
        }
        Flow::Continue
    }

    fn keep_as_last(&mut self, text: &str) {
        if !is_command(text) {
            self.last = text.into();
        }
    }

    /// Runs statements or a command, and keeps the text in the history.
    fn run(&mut self, text: &str) -> Result<Flow, Failure> {
        // Added to the history before it runs. Errors of the history are ignored.
        // What is secret is not kept in a file.
        if freestone::without_secrets(text) == text {
            let _ = self.editor.add_history_entry(text.trim_end());
        }
        let _ = self.history.as_ref().map(|history| self.editor.append_history(history));
        let result = self.runner.run_text(text, Origin::Inline);
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.use_backend(self.runner.backend().clone());
        }
        result
    }

    /// Edits a file, the statement that was begun, or the last one, and takes the lines of the changed text.
    fn edit(&mut self, file: &str, begun: String) -> Result<Flow, Failure> {
        let text = if begun.is_empty() { self.last.as_str() } else { begun.as_str() };
        match edit::edit(file, text) {
            Ok(Some(text)) => {
                note(text.trim_end());
                Ok(self.take(text.trim_end()))
            }
            unchanged => {
                self.input = Input::of(begun);
                unchanged.map(|_| note("nothing was changed, and nothing runs"))?;
                Ok(Flow::Continue)
            }
        }
    }

    /// Discards what was typed or pasted ahead.
    fn discard_input(&mut self) {
        terminal::discard_input();
        // Some of it may be in the editor.
        let history = std::mem::take(self.editor.history_mut());
        if let Ok(mut editor) = config().and_then(|config| Editor::with_history(config, history)) {
            editor.set_helper(Some(Assistant::new(self.runner.backend().clone())));
            self.editor = editor;
        }
    }
}

fn editor(runner: &Runner, history: Option<&Path>) -> rustyline::Result<Editor<Assistant, FileHistory>> {
    let mut editor = Editor::with_config(config()?)?;
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

fn config() -> rustyline::Result<Config> {
    let config = Config::builder().max_history_size(HISTORY_LENGTH)?.history_ignore_dups(true)?;
    Ok(config.history_ignore_space(true).completion_type(CompletionType::List).build())
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
