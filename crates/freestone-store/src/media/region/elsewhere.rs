//! Mapped files on systems other than Linux: there are none.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::{Line, Persistence, Region, Site};
use crate::media::{MediumError, Result};

/// How a file is mapped.
#[derive(Debug, Clone, Default)]
pub struct MapOptions {
    /// The addresses to reserve, in bytes.
    pub reserve: u64,
    /// Whether a file that is not on persistent memory is used, too.
    pub emulated: bool,
    pub umask: u32,
}

/// A mapped file: none.
#[derive(Debug)]
pub enum MappedRegion {}

fn refused<T>(path: &Path) -> Result<T> {
    let error = io::Error::new(io::ErrorKind::Unsupported, "persistent memory needs Linux");
    Err(MediumError::io("map", path.display().to_string(), error))
}

#[allow(missing_docs, clippy::missing_errors_doc)]
impl MappedRegion {
    pub fn create(path: &Path, _: u64, _: &MapOptions) -> Result<MappedRegion> {
        refused(path)
    }

    pub fn open(path: &Path, _: &MapOptions) -> Result<MappedRegion> {
        refused(path)
    }

    pub fn shared(path: &Path, _: u64, _: &MapOptions) -> Result<MappedRegion> {
        refused(path)
    }

    pub fn read_only(path: &Path, _: u64) -> Result<MappedRegion> {
        refused(path)
    }

    pub fn follow(&self) -> Result<()> {
        match *self {}
    }

    pub fn try_lock_byte(&self, _: u64) -> Result<bool> {
        match *self {}
    }

    pub fn lock_byte(&self, _: u64) -> Result<()> {
        match *self {}
    }

    pub fn unlock_byte(&self, _: u64) -> Result<()> {
        match *self {}
    }

    pub fn is_byte_locked(&self, _: u64) -> Result<bool> {
        match *self {}
    }
}

impl Region for MappedRegion {
    fn lines(&self) -> &[Line] {
        match *self {}
    }

    fn store(&self, _: u64, _: u64) {
        match *self {}
    }

    fn write_back(&self, _: Range<u64>, _: Site) {
        match *self {}
    }

    fn order(&self, _: Site) {
        match *self {}
    }

    fn grow(&self, _: u64) -> Result<()> {
        match *self {}
    }

    fn persistence(&self) -> Persistence {
        match *self {}
    }

    fn place(&self) -> String {
        match *self {}
    }
}
