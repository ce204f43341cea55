//! A ring of slots for one chunk each, which both sides read and write, and the marks of placed chunks.
//!
//! ```text
//! bytes 0 .. 4096   a u32 for each slot: 0 = free, 1 = contains a chunk
//! then              a byte for each unit of the arena: 1 = a placed chunk that the client uses begins there; up to a page's end
//! then              the slots, as many bytes each as the largest chunk, rounded up to 4096
//! ```
//! The server fills a free slot, marks it, and names it in a `MappedChunk` message. The client copies the chunk, frees
//! the slot, and only then reads its copy, beginning with the checksum. Neither trusts what the other may write
//! meanwhile. The memory's size is sealed, so that no access can exceed its end.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Access, Mapping, is_sealed, sealed_file};
use crate::error::{Result, WireError};
use crate::message::MappedChunk;

/// The number of slots of a ring. More slots would only be less likely to be in the caches.
pub(crate) const SLOTS: usize = 6;
const PAGE_BYTES: usize = 4096;
const SLOT_BYTES_MAX: usize = 1 << 30;
/// A terabyte of units.
pub(crate) const UNITS_MAX: usize = 1 << 24;

/// A mapped ring.
#[derive(Debug)]
pub(crate) struct Ring {
    mapping: Mapping,
    pub slots: usize,
    pub slot_bytes: usize,
    units: usize,
    /// The slot to fill next. Whoever fills it holds the lock.
    next: Mutex<usize>,
    pub file: File,
}

fn head_bytes(units: usize) -> usize {
    PAGE_BYTES + units.next_multiple_of(PAGE_BYTES)
}

impl Ring {
    /// New memory for chunks of at most `chunk_bytes_max`, with marks for `units` units.
    pub fn create(chunk_bytes_max: usize, units: usize) -> io::Result<Self> {
        let slot_bytes = chunk_bytes_max.next_multiple_of(PAGE_BYTES);
        let file = sealed_file(head_bytes(units) + SLOTS * slot_bytes)?;
        Self::map(file, SLOTS, slot_bytes, units)
    }

    /// Maps memory that another process created.
    pub fn open(file: File, slots: usize, slot_bytes: usize, units: usize) -> Result<Self> {
        let malformed = |reason: &str| WireError::malformed("shared memory", reason);
        let are_slots = slots > 0 && slots <= PAGE_BYTES / 4;
        let has_size = slot_bytes.is_multiple_of(PAGE_BYTES) && slot_bytes <= SLOT_BYTES_MAX;
        if !are_slots || !has_size || units > UNITS_MAX {
            return Err(malformed("slots that are not possible"));
        }
        if !is_sealed(&file, head_bytes(units) + slots * slot_bytes).map_err(WireError::io("shared memory"))? {
            return Err(malformed("memory whose size is wrong or can change"));
        }
        Self::map(file, slots, slot_bytes, units).map_err(WireError::io("shared memory"))
    }

    fn map(file: File, slots: usize, slot_bytes: usize, units: usize) -> io::Result<Self> {
        let mapping = Mapping::of(&file, head_bytes(units) + slots * slot_bytes, Access::Write)?;
        Ok(Self { mapping, slots, slot_bytes, units, next: Mutex::new(0), file })
    }

    fn flag(&self, slot: usize) -> &AtomicU32 {
        assert!(slot < self.slots);
        // SAFETY: there are at most as many slots as the first page has numbers. The mapping is aligned to pages and
        // lives as long as `self`. Both processes use these bytes only as atomics.
        unsafe { &*self.mapping.start().cast::<AtomicU32>().add(slot) }
    }

    fn mark(&self, unit: usize) -> &AtomicU8 {
        assert!(unit < self.units);
        // SAFETY: the head has a byte for each unit after its first page. Otherwise as for `flag`.
        unsafe { &*self.mapping.start().add(PAGE_BYTES + unit).cast::<AtomicU8>() }
    }

    /// Sets whether the client uses a placed chunk that begins at a unit. Earlier reads and writes there are complete.
    pub fn hold(&self, unit: usize, is_held: bool) {
        self.mark(unit).store(is_held.into(), Ordering::Release);
    }

    /// Whether the client uses a placed chunk that begins at a unit.
    pub fn is_held(&self, unit: usize) -> bool {
        self.mark(unit).load(Ordering::Acquire) != 0
    }

    fn slot(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.slots);
        // SAFETY: the mapping has that many slots after its head.
        unsafe { self.mapping.start().add(head_bytes(self.units) + slot * self.slot_bytes) }
    }

    /// Copies a chunk, or a part of one, into the next slot. `None` if that slot is not free or too small.
    pub fn put(&self, chunk: &[u8], more: bool) -> Option<MappedChunk> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = *next;
        if chunk.len() > self.slot_bytes || self.flag(slot).load(Ordering::Acquire) != 0 {
            return None;
        }
        // SAFETY: the slot belongs to the ring, is large enough, and is free, so that only the holder of the lock
        // writes to it. It does not overlap `chunk`, which is memory of this process only.
        unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), self.slot(slot), chunk.len()) };
        self.flag(slot).store(1, Ordering::Release);
        *next = (slot + 1) % self.slots;
        let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, chunk) as u32;
        Some(MappedChunk { slot: slot as u32, length: chunk.len() as u32, checksum, more })
    }

    /// Appends a chunk that a message names to `out`, and frees its slot.
    pub fn take(&self, mapped: &MappedChunk, out: &mut Vec<u8>) -> Result<()> {
        let (slot, length) = (mapped.slot as usize, mapped.length as usize);
        if slot >= self.slots || length > self.slot_bytes || self.flag(slot).load(Ordering::Acquire) != 1 {
            return Err(WireError::malformed("chunk", format!("no {length} bytes are in slot {slot}")));
        }
        out.reserve(length);
        let start = out.len();
        // SAFETY: the slot belongs to the ring and has `length` bytes, and `out` has room for them. If the other
        // process writes there meanwhile, against the protocol, the copy contains arbitrary bytes. These are valid as
        // bytes, and the checksum below rejects them.
        unsafe {
            std::ptr::copy_nonoverlapping(self.slot(slot), out.as_mut_ptr().add(start), length);
            out.set_len(start + length);
        }
        self.flag(slot).store(0, Ordering::Release);
        let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &out[start..]) as u32;
        if checksum != mapped.checksum {
            return Err(WireError::malformed("chunk", "the checksum of the shared memory's chunk is wrong"));
        }
        Ok(())
    }
}
