//! The destination of results: standard output, or a file that the first result creates.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use super::Format;
use super::pager::Pager;

/// A buffered destination of results.
///
/// Writers of some formats convert I/O errors to their own, so the sink records whether the reader of a pipe has closed
/// it.
pub struct Sink {
    target: Target,
    broken_pipe: bool,
    pager: Option<Pager>,
}

enum Target {
    Stdout(BufWriter<io::Stdout>),
    Planned(PathBuf),
    File(PathBuf, BufWriter<File>),
}

const BUFFER_BYTES: usize = 64 << 10;

impl Sink {
    pub fn stdout() -> Self {
        let stdout = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
        Sink { target: Target::Stdout(stdout), broken_pipe: false, pager: None }
    }

    /// The first result creates or truncates the file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Sink { target: Target::Planned(path.into()), broken_pipe: false, pager: None }
    }

    pub fn is_terminal(&self) -> bool {
        matches!(&self.target, Target::Stdout(stdout) if stdout.get_ref().is_terminal())
    }

    /// The format that the name of the file stands for.
    pub fn named_format(&self) -> Option<Format> {
        match &self.target {
            Target::Stdout(_) => None,
            Target::Planned(path) | Target::File(path, _) => Format::of_file(path),
        }
    }

    /// Whether output that is longer than the screen goes to a pager.
    pub fn is_paged(&self) -> bool {
        self.pager.is_some()
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

    /// From here on, output that is longer than the screen goes to a pager, until [`Sink::end_page`].
    pub fn begin_page(&mut self, screen_rows: usize) {
        if self.is_terminal() {
            self.broken_pipe = false;
            self.pager = Some(Pager::new(screen_rows));
        }
    }

    /// Shows what is shorter than the screen, or waits until the user has left the pager.
    pub fn end_page(&mut self) -> io::Result<()> {
        let Some(pager) = self.pager.take() else { return Ok(()) };
        let short = pager.finish();
        self.write_all(&short)?;
        self.flush()
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
        if let Some(pager) = &mut self.pager {
            let written = pager.write(bytes);
            return self.remember(written);
        }
        let result = match &mut self.target {
            Target::Stdout(stdout) => stdout.write(bytes),
            Target::File(_, file) => file.write(bytes),
            Target::Planned(_) => unreachable!("open() has created the file"),
        };
        self.remember(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pager.is_some() {
            return Ok(());
        }
        let result = match &mut self.target {
            Target::Stdout(stdout) => stdout.flush(),
            Target::File(_, file) => file.flush(),
            Target::Planned(_) => Ok(()),
        };
        self.remember(result)
    }
}
