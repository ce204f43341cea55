//! Regions of persistent memory: bytes that are loaded and stored directly, and made durable line by line.
//!
//! A store reaches the processor's cache. It becomes durable when its line of 64 bytes is flushed and a fence of the same
//! thread follows, or at any earlier time, because caches evict lines when they like. What a crash leaves is therefore,
//! for each line independently, the result of some prefix of the stores since the line was last made durable.
//!
//! [`MemoryRegion`] is memory of the process. [`MappedRegion`] is a file: persistent memory if its file system maps it
//! directly, otherwise an emulation that survives the end of a process but no power loss. [`TrackedRegion`] records
//! stores, flushes and fences, and knows every content that a crash could leave. [`DelayedRegion`] adds latencies.
//!
//! All access is by atomic words, so threads that read while another writes read old or new words, never undefined ones.

#[cfg(target_os = "linux")]
mod byte_locks;
mod delayed;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod mapped;
mod memory;
mod prefetch;
mod tracked;

use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

pub use delayed::DelayedRegion;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{MapOptions, MappedRegion};
#[cfg(target_os = "linux")]
pub use mapped::{MapOptions, MappedRegion};
pub use memory::MemoryRegion;
pub use tracked::{CrashPoint, TrackedRegion};

use super::Result;

/// Bytes of a line, the unit of flushing.
pub const LINE_BYTES: u64 = 64;
/// Bytes of a word, the unit of atomic stores.
pub const WORD_BYTES: u64 = 8;
/// Words per line.
const LINE_WORDS: usize = 8;

/// A place in the source code that flushes or fences.
pub type Site = &'static Location<'static>;

/// A line of a region. [`Words`] reads it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line([AtomicU64; LINE_WORDS]);

/// What becomes of flushed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// They are gone when the process ends.
    Volatile,
    /// They survive the end of the process, but no power loss: an ordinary file, or tmpfs.
    Emulated,
    /// They survive a power loss.
    Persistent,
}

impl Persistence {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Persistence::Volatile => "volatile",
            Persistence::Emulated => "emulated",
            Persistence::Persistent => "persistent",
        }
    }
}

/// A region of persistent memory. One thread stores at a time, others may load. See `impl dyn Region` for its use.
///
/// # Errors
/// `grow` returns the error of the medium.
pub trait Region: Send + Sync + fmt::Debug {
    /// All lines. Lines that `grow` adds are in the next call's result.
    fn lines(&self) -> &[Line];

    /// Stores a word atomically. `offset` is a multiple of 8 inside the region.
    fn store(&self, offset: u64, value: u64);

    /// Starts to write lines to the medium; the next `order` of this thread waits for them. `site` asks for it.
    fn write_back(&self, lines: Range<u64>, site: Site);

    /// Makes the lines durable that this thread has written back, before any later store.
    fn order(&self, site: Site);

    /// Extends the region to `len` bytes, a multiple of 4096. The new bytes are zero, and their space is allocated.
    #[allow(clippy::missing_errors_doc)]
    fn grow(&self, len: u64) -> Result<()>;

    /// Tells that a reader is about to load these bytes. For latencies that are added.
    fn touch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// What becomes of flushed bytes.
    fn persistence(&self) -> Persistence;

    /// The location of the region, for messages.
    fn place(&self) -> String;

    /// Checks that the location still leads to this region.
    #[allow(clippy::missing_errors_doc)]
    fn check_place(&self) -> Result<()> {
        Ok(())
    }
}

impl dyn Region + '_ {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.lines().len() as u64 * LINE_BYTES
    }

    /// Whether the region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.lines().is_empty()
    }

    /// The words, for loading.
    pub fn words(&self) -> Words<'_> {
        Words { lines: self.lines() }
    }

    /// Stores bytes, word by word. At both ends the rest of the word stays as it is.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let inside = (at % WORD_BYTES) as usize;
            let (head, tail) = rest.split_at((WORD_BYTES as usize - inside).min(rest.len()));
            let word = at - inside as u64;
            let mut value = if head.len() == 8 { [0; 8] } else { self.words().load(word).to_le_bytes() };
            value[inside..inside + head.len()].copy_from_slice(head);
            self.store(word, u64::from_le_bytes(value));
            at += head.len() as u64;
            rest = tail;
        }
    }

    /// Starts to write the lines of these bytes to the medium. The next [`fence`](Self::fence) waits for them.
    #[track_caller]
    pub fn flush(&self, offset: u64, len: u64) {
        if len > 0 {
            self.write_back(offset / LINE_BYTES..(offset + len).div_ceil(LINE_BYTES), Location::caller());
        }
    }

    /// Makes what this thread has flushed durable, before any later store.
    #[track_caller]
    pub fn fence(&self) {
        self.order(Location::caller());
    }
}

/// The words of a region, for loading. Offsets are in bytes; beyond the region's end they panic, so those that come
/// from the region itself must be checked first.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    lines: &'a [Line],
}

impl<'a> Words<'a> {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.lines.len() as u64 * LINE_BYTES
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A word, with everything that was stored before it. `offset` is a multiple of 8.
    #[inline]
    pub fn load(&self, offset: u64) -> u64 {
        debug_assert!(offset.is_multiple_of(WORD_BYTES));
        self.lines[(offset / LINE_BYTES) as usize].0[(offset / WORD_BYTES) as usize % LINE_WORDS]
            .load(Ordering::Acquire)
    }

    /// Begins to load the line with this byte, if there is one, into the cache.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        if let Some(line) = self.lines.get((offset / LINE_BYTES) as usize) {
            prefetch::prefetch(line);
        }
    }

    /// The low `width` bytes at any offset that does not cross a word. `width` is 1, 2, 4 or 8.
    #[inline]
    pub fn load_narrow(&self, offset: u64, width: u32) -> u64 {
        let shift = offset % WORD_BYTES * 8;
        let word = self.load(offset - offset % WORD_BYTES) >> shift;
        if width == 8 { word } else { word & ((1 << (width * 8)) - 1) }
    }

    /// Fills `into` from any offset.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let inside = (at % WORD_BYTES) as usize;
            let count = (WORD_BYTES as usize - inside).min(rest.len());
            let word = self.load(at - inside as u64).to_le_bytes();
            rest[..count].copy_from_slice(&word[inside..inside + count]);
            rest = &mut rest[count..];
            at += count as u64;
        }
    }

    /// Appends `len` bytes from any offset.
    pub fn append_to(&self, offset: u64, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + len, 0);
        self.read(offset, &mut out[start..]);
    }

    /// Whole words from `offset`, as many as `into` has.
    pub fn load_words(&self, offset: u64, into: &mut [u64]) {
        for (at, word) in into.iter_mut().enumerate() {
            *word = self.load(offset + at as u64 * WORD_BYTES);
        }
    }
}

/// Stores a word, after everything that was stored before it.
fn store_word(lines: &[Line], offset: u64, value: u64) {
    debug_assert!(offset.is_multiple_of(WORD_BYTES));
    lines[(offset / LINE_BYTES) as usize].0[(offset / WORD_BYTES) as usize % LINE_WORDS]
        .store(value, Ordering::Release);
}

#[cfg(test)]
mod tests;
