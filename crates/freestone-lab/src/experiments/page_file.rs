//! Files of pages that the laboratory writes itself, read in order: ahead from the disk in I/O units, or from memory.

use std::collections::VecDeque;
use std::sync::Arc;

use freestone_store::media::{Buffer, Disk, Medium, MediumError, Pending, ReadFile, ReadRequest};

use super::ScanSettings;
use super::scanner::store_error;
use crate::error::Result;

/// The bytes of a page.
pub const PAGE_BYTES: usize = 32 << 10;

/// A file of pages.
pub struct PageFile {
    file: Arc<dyn ReadFile>,
    bytes: u64,
    settings: ScanSettings,
    /// All units, for runs from memory.
    units: Vec<Arc<Buffer>>,
}

impl PageFile {
    /// Opens a file of the folder, and keeps it in memory as well.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(disk: &Disk, name: &str, settings: ScanSettings) -> Result<PageFile> {
        let file = disk.open(name).map_err(store_error)?;
        let bytes = file.len().map_err(store_error)?;
        let requests: Vec<ReadRequest> = requests(bytes, settings.io_unit).collect();
        let units = file.read_many(&requests).into_iter().map(|unit| unit.map(Arc::new).map_err(store_error));
        let units = units.collect::<Result<_>>()?;
        Ok(PageFile { file, bytes, settings, units })
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The pages from the first, from the disk or from memory.
    pub fn pages(&self, is_cold: bool) -> Pages<'_> {
        let ahead = is_cold.then(|| Ahead::new(self.file.clone(), self.bytes, self.settings));
        let next_unit = if is_cold { self.units.len() } else { 0 };
        Pages { of: self, ahead, next_unit, unit: None, at: 0 }
    }
}

fn requests(bytes: u64, unit: usize) -> impl Iterator<Item = ReadRequest> {
    let units = bytes.div_ceil(unit as u64);
    (0..units).map(move |at| {
        let offset = at * unit as u64;
        ReadRequest { offset, len: (bytes - offset).min(unit as u64) as usize }
    })
}

/// The I/O units of a file in order, of which up to `io_depth` are being read.
pub struct Ahead {
    file: Arc<dyn ReadFile>,
    left: VecDeque<ReadRequest>,
    started: VecDeque<Pending>,
    io_depth: usize,
}

impl Ahead {
    /// The first `bytes` bytes of a file.
    pub fn new(file: Arc<dyn ReadFile>, bytes: u64, settings: ScanSettings) -> Ahead {
        let left = requests(bytes, settings.io_unit).collect();
        Ahead { file, left, started: VecDeque::new(), io_depth: settings.io_depth }
    }

    /// The next unit. `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next(&mut self) -> Result<Option<Buffer>, MediumError> {
        while self.started.len() < self.io_depth
            && let Some(request) = self.left.pop_front()
        {
            self.started.push_back(self.file.start(&[request]));
        }
        let Some(pending) = self.started.pop_front() else { return Ok(None) };
        pending.wait().pop().transpose()
    }
}

/// The pages of a file in order, which are read ahead from the disk in I/O units, or are in memory.
pub struct Pages<'f> {
    of: &'f PageFile,
    /// `None` if the pages are in memory.
    ahead: Option<Ahead>,
    next_unit: usize,
    unit: Option<Arc<Buffer>>,
    /// The byte of the unit behind the current page.
    at: usize,
}

impl Pages<'_> {
    /// Goes to the next page. False at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn advance(&mut self) -> Result<bool> {
        if self.unit.as_ref().is_some_and(|unit| self.at + PAGE_BYTES <= unit.len()) {
            self.at += PAGE_BYTES;
            return Ok(true);
        }
        self.unit = self.next()?;
        self.at = PAGE_BYTES;
        Ok(self.unit.is_some())
    }

    fn next(&mut self) -> Result<Option<Arc<Buffer>>> {
        if let Some(unit) = self.of.units.get(self.next_unit) {
            self.next_unit += 1;
            return Ok(Some(unit.clone()));
        }
        let Some(ahead) = &mut self.ahead else { return Ok(None) };
        Ok(ahead.next().map_err(store_error)?.map(Arc::new))
    }

    /// The current page.
    pub fn page(&self) -> &[u8] {
        self.unit.as_ref().map_or(&[], |unit| &unit[self.at - PAGE_BYTES..self.at])
    }
}
