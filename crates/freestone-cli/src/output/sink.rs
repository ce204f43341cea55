//! The destination of results: standard output, or a file that the first result creates.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

/// A buffered destination of results.
///
/// Writers of some formats convert I/O errors to their own, so the sink records whether the reader of a pipe has closed
/// it.
pub struct Sink {
    target: Target,
    broken_pipe: bool,
}

enum Target {
    Stdout(BufWriter<io::Stdout>),
    Planned(PathBuf),
    File(PathBuf, BufWriter<File>),
}

const BUFFER_BYTES: usize = 64 << 10;

impl Sink {
    pub fn stdout() -> Self {
        Sink { target: Target::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())), broken_pipe: false }
    }

    /// The first result creates or truncates the file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Sink { target: Target::Planned(path.into()), broken_pipe: false }
    }

    pub fn is_terminal(&self) -> bool {
        matches!(&self.target, Target::Stdout(stdout) if stdout.get_ref().is_terminal())
    }

    pub fn broken_pipe(&self) -> bool {
        self.broken_pipe
    }

    /// A description of the destination, for messages.
    pub fn describe(&self) -> String {
        match &self.target {
            Target::Stdout(_) => "standard output".into(),
            Target::Planned(path) | Target::File(path, _) => path.display().to_string(),
        }
    }

    /// Creates the file if it does not exist yet. Called before the first byte of a result.
    pub fn open(&mut self) -> io::Result<()> {
        if let Target::Planned(path) = &self.target {
            let file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
            self.target = Target::File(path.clone(), file);
        }
        Ok(())
    }

    fn remember<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.broken_pipe |= error.kind() == io::ErrorKind::BrokenPipe;
        }
        result
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?;
        let result = match &mut self.target {
            Target::Stdout(stdout) => stdout.write(bytes),
            Target::File(_, file) => file.write(bytes),
            Target::Planned(_) => unreachable!("open() has created the file"),
        };
        self.remember(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = match &mut self.target {
            Target::Stdout(stdout) => stdout.flush(),
            Target::File(_, file) => file.flush(),
            Target::Planned(_) => Ok(()),
        };
        self.remember(result)
    }
}
