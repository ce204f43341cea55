//! Files for the tuples that a join's memory does not hold. A file's name is removed when it is created, so that nothing is left
//! behind, however the run ends.

use std::cell::Cell;
use std::sync::Arc;

use freestone_store::media::{Buffer, Medium, MediumError, ReadFile, WriteFile};

use super::bucket::Shape;
use crate::error::{LabError, Result};
use crate::experiments::ScanSettings;
use crate::experiments::page_file::Ahead;

/// The folder in which files are created.
pub struct SpillFolder {
    medium: Arc<dyn Medium>,
    settings: ScanSettings,
    files: Cell<u64>,
    bytes: Cell<u64>,
}

fn spill_error(source: MediumError) -> LabError {
    LabError::Spill { source }
}

impl SpillFolder {
    /// Files are read ahead as `settings` say.
    pub fn new(medium: Arc<dyn Medium>, settings: ScanSettings) -> SpillFolder {
        SpillFolder { medium, settings, files: Cell::new(0), bytes: Cell::new(0) }
    }

    /// The bytes written so far, in all files.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    fn create(&self) -> Result<(Box<dyn WriteFile>, Arc<dyn ReadFile>)> {
        let name = format!("join-{}", self.files.replace(self.files.get() + 1));
        let create = || {
            let writer = self.medium.create(&name)?;
            let reader = self.medium.open(&name);
            // The name goes, whether the file could be opened or not.
            self.medium.remove(&name)?;
            Ok((writer, reader?))
        };
        create().map_err(spill_error)
    }
}

/// Tuples that are written to a file page by page. The page being filled is in memory.
pub struct Spilled<'j> {
    folder: &'j SpillFolder,
    shape: Shape,
    /// `None` until the first page is full.
    file: Option<(Box<dyn WriteFile>, Arc<dyn ReadFile>)>,
    page: Vec<u8>,
    tuples: u64,
    pages: u64,
}

impl<'j> Spilled<'j> {
    pub fn new(folder: &'j SpillFolder, shape: Shape) -> Spilled<'j> {
        Spilled { folder, shape, file: None, page: vec![], tuples: 0, pages: 0 }
    }

    /// The number of tuples.
    pub fn tuples(&self) -> u64 {
        self.tuples
    }

    /// Appends a tuple, and writes the page before it if that is full.
    ///
    /// # Errors
    /// The page cannot be written.
    pub fn push(&mut self, tuple: &[u8]) -> Result<()> {
        if self.page.len() + tuple.len() > self.shape.page_bytes {
            self.write_page()?;
        }
        if self.page.capacity() == 0 {
            self.page.reserve_exact(self.shape.page_bytes);
        }
        self.page.extend_from_slice(tuple);
        self.tuples += 1;
        Ok(())
    }

    /// Writes the last page, and gives up its memory.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(&mut self) -> Result<()> {
        if !self.page.is_empty() {
            self.write_page()?;
        }
        self.page = vec![];
        Ok(())
    }

    fn write_page(&mut self) -> Result<()> {
        self.page.resize(self.shape.page_bytes, 0);
        let file = match &mut self.file {
            Some(file) => file,
            file => file.insert(self.folder.create()?),
        };
        file.0.append(&self.page).map_err(spill_error)?;
        self.folder.bytes.set(self.folder.bytes.get() + self.page.len() as u64);
        self.pages += 1;
        self.page.clear();
        Ok(())
    }

    /// The tuples from the first. [`Spilled::end`] must have been called.
    pub fn pages(&self) -> SpilledPages {
        debug_assert!(self.page.is_empty(), "the last page is written");
        let (bytes, settings) = (self.pages * self.shape.page_bytes as u64, self.folder.settings);
        let settings = ScanSettings { io_unit: settings.io_unit.next_multiple_of(self.shape.page_bytes), ..settings };
        let ahead = self.file.as_ref().map(|(_, reader)| Ahead::new(reader.clone(), bytes, settings));
        SpilledPages { ahead, unit: None, at: 0, left: self.tuples as usize, shape: self.shape }
    }
}

/// The pages of a file in order.
pub struct SpilledPages {
    ahead: Option<Ahead>,
    unit: Option<Buffer>,
    /// The byte of the unit at which the next page begins.
    at: usize,
    /// The number of tuples on further pages.
    left: usize,
    shape: Shape,
}

impl SpilledPages {
    /// The tuples of the next page. `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.unit.as_ref().is_none_or(|unit| self.at >= unit.len()) {
            self.unit = match &mut self.ahead {
                Some(ahead) => ahead.next().map_err(spill_error)?,
                None => None,
            };
            self.at = 0;
        }
        let count = self.left.min(self.shape.per_page());
        let from = self.at;
        self.left -= count;
        self.at += self.shape.page_bytes;
        let page = self.unit.as_ref().and_then(|unit| unit.get(from..from + count * self.shape.width));
        page.map(Some).ok_or_else(|| LabError::Answers("a file of a join ended before its last page".into()))
    }
}
