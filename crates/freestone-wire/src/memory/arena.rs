//! The arena: memory in which the server writes chunks in Arrow's layout, and which clients only read. A placed chunk
//! is the memory of a result, which is neither copied nor decoded afterwards.
//!
//! All sessions of one database user, from processes of one operating-system user, share an arena. It is divided into
//! units. A chunk takes consecutive ones, first fit, so that memory that the system has allocated is reused. A chunk
//! belongs to the client from the message that names it until the client clears the mark of its first unit, or
//! disconnects.
//!
//! Chunks of stored rows are cached afterwards, as long as there is other memory. The next request for the same rows
//! gets the same chunk, even while others use it.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::slice::SliceIndex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ring::{Ring, UNITS_MAX};
use super::{Access, Mapping, sealed_file, uncached_copy};
use crate::message::PlacedChunk;
use crate::origin::Origin;

/// Placed chunks begin at multiples of this.
pub(crate) const UNIT_BYTES: usize = 64 << 10;

/// The number of units that are freed at once when memory is returned to the system. This takes so long that others
/// should not wait for all of it.
const TRIM_UNITS: usize = 1024;
/// The number of regions that are checked for release before more memory is allocated: all regions of a client that
/// reads a result and drops it, and few of one that keeps thousands.
const LOOKED_AT: usize = 32;

/// Smaller chunks may be read while they are still in the caches.
const LARGE_BYTES: usize = 2 << 20;

/// The number of units that all arenas of a server may still allocate.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicUsize,
    pub units: usize,
}

impl Budget {
    pub fn new(bytes: usize) -> Arc<Self> {
        let units = (bytes / UNIT_BYTES).min(UNITS_MAX);
        Arc::new(Self { left: AtomicUsize::new(units), units })
    }

    fn take(&self, units: usize) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(units)).is_ok()
    }

    fn give(&self, units: usize) {
        self.left.fetch_add(units, Ordering::Relaxed);
    }
}

/// A client that receives chunks.
#[derive(Debug)]
pub(crate) struct Peer {
    pub ring: Ring,
    /// Whether no process there has the memory mapped any more.
    pub has_left: AtomicBool,
}

/// Memory for placed chunks: address space as large as the budget, of which only the used part is allocated.
#[derive(Debug)]
pub(crate) struct Arena {
    file: File,
    /// The same memory for those who may only read.
    reader: File,
    mapping: Mapping,
    budget: Arc<Budget>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    units: Vec<Unit>,
    /// No unit before this one is free.
    free_from: usize,
    /// No unit from this one on has ever had memory.
    end: usize,
    /// In the order of the last check.
    lent: VecDeque<LentRegion>,
    /// The number of holders of the region that begins at a unit: the one who fills or sends it, clients, and `kept`.
    holders: HashMap<usize, usize>,
    kept: HashMap<Origin, CachedChunk>,
    /// The number of times that a chunk was cached or found again.
    uses: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Unit {
    /// Whether it is part of a region.
    is_taken: bool,
    /// Whether the system has allocated memory for it, which counts in the budget.
    is_resident: bool,
    was_used: bool,
}

/// A region that a client holds.
#[derive(Debug)]
struct LentRegion {
    units: Range<usize>,
    to: Arc<Peer>,
}

/// A chunk that is cached for later requests.
#[derive(Debug)]
struct CachedChunk {
    units: Range<usize>,
    length: usize,
    last_use: u64,
}

impl Drop for Arena {
    fn drop(&mut self) {
        let resident = self.lock().resident(..);
        self.budget.give(resident);
    }
}

impl Arena {
    /// An arena that allocates memory as the budget allows.
    pub fn create(budget: Arc<Budget>) -> io::Result<Arc<Self>> {
        let bytes = budget.units * UNIT_BYTES;
        let file = sealed_file(bytes)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        let reader = OpenOptions::new().read(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let mapping = Mapping::of(&file, bytes, Access::Write)?;
        let state = State { units: vec![Unit::default(); budget.units], ..State::default() };
        Ok(Arc::new(Self { file, reader, mapping, budget, state: Mutex::new(state) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn units(&self) -> usize {
        self.budget.units
    }

    /// The descriptor for clients.
    pub fn reader(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// A region of `bytes`; `None` if there is no room.
    pub fn take(self: &Arc<Self>, bytes: usize, to: &Arc<Peer>) -> Option<Region> {
        let wanted = bytes.div_ceil(UNIT_BYTES).max(1);
        let mut state = self.lock();
        let mut units = state.find_resident(wanted);
        for most in [LOOKED_AT, usize::MAX] {
            if units.is_none() {
                state.take_back(most);
                units = state.find_resident(wanted).or_else(|| self.find_new(&state, wanted));
            }
        }
        while units.is_none() && state.forget_oldest() {
            units = state.find_resident(wanted).or_else(|| self.find_new(&state, wanted));
        }
        let units = units?;
        let new = wanted - state.resident(units.clone());
        state.holders.insert(units.start, 1);
        state.units[units.clone()].fill(Unit { is_taken: true, is_resident: true, was_used: true });
        state.end = state.end.max(units.end);
        if units.start == state.free_from {
            state.free_from = units.end;
        }
        drop(state);
        let mut region = Region { arena: self.clone(), to: to.clone(), units };
        if new > 0 && !region.populate() {
            self.give_back(std::mem::take(&mut region.units));
            return None;
        }
        Some(region)
    }

    /// The chunk that was made of the same rows, unless that client has it already or nobody does.
    pub fn find(self: &Arc<Self>, origin: &Origin, to: &Arc<Peer>) -> Option<FilledChunk> {
        let mut state = self.lock();
        let State { kept, uses, units: all, holders, .. } = &mut *state;
        let found = kept.get_mut(origin).filter(|kept| !to.ring.is_held(kept.units.start))?;
        *uses += 1;
        found.last_use = *uses;
        let (units, length) = (found.units.clone(), found.length);
        all[units.clone()].iter_mut().for_each(|unit| unit.was_used = true);
        *holders.entry(units.start).or_default() += 1;
        to.ring.hold(units.start, true);
        Some(FilledChunk { arena: self.clone(), to: to.clone(), units, length })
    }

    /// Free units within the budget.
    fn find_new(&self, state: &State, wanted: usize) -> Option<Range<usize>> {
        let units = state.find(wanted, state.units.len(), |unit| !unit.is_taken)?;
        self.budget.take(wanted - state.resident(units.clone())).then_some(units)
    }

    /// Frees regions that clients have released, and cached chunks without a request since the last call. Returns free
    /// memory that was not used since then to the system. Returns whether any is in use or was used recently.
    pub fn trim(&self) -> bool {
        {
            let mut state = self.lock();
            state.take_back(usize::MAX);
            state.forget_idle();
        }
        let mut at = 0;
        // The lock is not held while memory is returned.
        while let Some(units) = { self.lock().take_idle(at) } {
            at = units.end;
            self.give_back(units);
        }
        let mut state = self.lock();
        let is_used = state.units.iter().any(|unit| unit.is_taken || unit.was_used);
        state.units.iter_mut().for_each(|unit| unit.was_used = false);
        is_used
    }

    /// Returns the memory of units that only the caller holds to the system, and frees the units.
    fn give_back(&self, units: Range<usize>) {
        let (from, bytes) = (units.start * UNIT_BYTES, units.len() * UNIT_BYTES);
        // SAFETY: fallocate on a descriptor that is ours. Nobody else has the units, so nobody reads them.
        let freed = unsafe {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            libc::fallocate(self.file.as_raw_fd(), mode, from as libc::off_t, bytes as libc::off_t) == 0
        };
        let mut state = self.lock();
        // If it failed, the memory stays and can be reused.
        if freed {
            self.budget.give(state.resident(units.clone()));
            state.units[units.clone()].iter_mut().for_each(|unit| unit.is_resident = false);
        }
        state.release(&units);
    }
}

impl State {
    /// Removes one holder. The last one frees the region.
    fn release(&mut self, units: &Range<usize>) {
        match self.holders.get_mut(&units.start) {
            Some(holders) if *holders > 1 => *holders -= 1,
            _ => {
                self.holders.remove(&units.start);
                self.free(units);
            }
        }
    }

    /// Frees the cached chunk whose last request is the oldest. False if clients hold all cached chunks.
    fn forget_oldest(&mut self) -> bool {
        let idle = self.kept.values().filter(|kept| self.holders.get(&kept.units.start) == Some(&1));
        let Some(oldest) = idle.map(|kept| kept.last_use).min() else { return false };
        self.forget(|_, kept, _| kept.last_use == oldest);
        true
    }

    /// Frees cached chunks that were not requested recently, or cannot be requested any more.
    fn forget_idle(&mut self) {
        self.forget(|origin, _, unit| !unit.was_used || !origin.is_alive());
    }

    /// Frees the cached chunks for which `is_meant` is true, given their origin and first unit.
    fn forget(&mut self, is_meant: impl Fn(&Origin, &CachedChunk, &Unit) -> bool) {
        let State { kept, units, .. } = self;
        let meant = kept.extract_if(|origin, kept| is_meant(origin, kept, &units[kept.units.start]));
        let forgotten: Vec<CachedChunk> = meant.map(|(_, kept)| kept).collect();
        forgotten.iter().for_each(|kept| self.release(&kept.units));
    }

    /// The first sequence of `wanted` units before `end` that fit.
    fn find(&self, wanted: usize, end: usize, fits: impl Fn(&Unit) -> bool) -> Option<Range<usize>> {
        let mut run = 0;
        let last = (self.free_from..end).find(|at| {
            run = if fits(&self.units[*at]) { run + 1 } else { 0 };
            run == wanted
        })?;
        Some(last + 1 - wanted..last + 1)
    }

    /// The first sequence of free units with memory.
    fn find_resident(&self, wanted: usize) -> Option<Range<usize>> {
        self.find(wanted, self.end, |unit| !unit.is_taken && unit.is_resident)
    }

    /// The number of units with memory.
    fn resident(&self, units: impl SliceIndex<[Unit], Output = [Unit]>) -> usize {
        self.units[units].iter().filter(|unit| unit.is_resident).count()
    }

    /// Takes a sequence of free units that were not used recently, from unit `at` on. It includes units without memory,
    /// since reading them makes the system allocate some.
    fn take_idle(&mut self, at: usize) -> Option<Range<usize>> {
        let is_idle = |unit: &Unit| !unit.is_taken && !unit.was_used;
        let start = at + self.units[at..].iter().position(is_idle)?;
        let length = self.units[start..].iter().take(TRIM_UNITS).take_while(|unit| is_idle(unit)).count();
        self.units[start..start + length].iter_mut().for_each(|unit| unit.is_taken = true);
        Some(start..start + length)
    }

    fn free(&mut self, units: &Range<usize>) {
        self.units[units.clone()].iter_mut().for_each(|unit| unit.is_taken = false);
        self.free_from = self.free_from.min(units.start);
    }

    /// Frees those of the next `most` regions that clients no longer hold.
    fn take_back(&mut self, most: usize) {
        for _ in 0..most.min(self.lent.len()) {
            let Some(lent) = self.lent.pop_front() else { return };
            if lent.is_held() {
                self.lent.push_back(lent);
            } else {
                self.release(&lent.units);
            }
        }
    }
}

impl LentRegion {
    fn is_held(&self) -> bool {
        !self.to.has_left.load(Ordering::Acquire) && self.to.ring.is_held(self.units.start)
    }
}

/// Units that are being filled. They are freed if this is dropped before it is sent.
#[derive(Debug)]
pub(crate) struct Region {
    arena: Arc<Arena>,
    to: Arc<Peer>,
    units: Range<usize>,
}

impl Drop for Region {
    fn drop(&mut self) {
        if !self.units.is_empty() {
            self.arena.lock().release(&self.units);
        }
    }
}

impl Region {
    fn bytes(&self) -> usize {
        self.units.len() * UNIT_BYTES
    }

    /// Copies bytes to an offset in the region; past the caches if the region is large.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(
            at.checked_add(bytes.len()).is_some_and(|end| end <= self.bytes()),
            "a region of {} bytes",
            self.bytes()
        );
        // SAFETY: the arena's mapping has these units, and the region has this many bytes left, as was just checked.
        // The units belong to it alone: no client and no other region has them. `bytes` is memory of this process.
        unsafe {
            let to = self.arena.mapping.start().add(self.units.start * UNIT_BYTES + at);
            match self.bytes() < LARGE_BYTES {
                true => std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()),
                false => uncached_copy::copy(bytes, to),
            }
        }
    }

    /// Lets the system allocate the region's memory at once, which costs half as much as one page at a time. False if
    /// the system has no more memory, in which case writing would end the process.
    fn populate(&self) -> bool {
        // SAFETY: the range lies in the arena's mapping, in units of this region. The call changes no byte.
        let result = unsafe {
            let start = self.arena.mapping.start().add(self.units.start * UNIT_BYTES);
            libc::madvise(start.cast(), self.bytes(), libc::MADV_POPULATE_WRITE)
        };
        // Systems before Linux 5.14 do not support the advice. There, pages are allocated when they are written.
        result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
    }

    /// A chunk of the first `length` bytes, which is cached for requests of rows with the same origin.
    pub fn fill(mut self, length: usize, origin: Option<Origin>) -> FilledChunk {
        let units = std::mem::take(&mut self.units);
        self.to.ring.hold(units.start, true);
        if let Some(origin) = origin {
            let mut state = self.arena.lock();
            state.uses += 1;
            let kept = CachedChunk { units: units.clone(), length, last_use: state.uses };
            *state.holders.entry(units.start).or_default() += 1;
            // If two threads made the same chunk, the later one is cached.
            if let Some(before) = state.kept.insert(origin, kept) {
                state.release(&before.units);
            }
        }
        FilledChunk { arena: self.arena.clone(), to: self.to.clone(), units, length }
    }
}

/// A complete chunk for a client, which nobody writes any more. It is released if this is dropped before it is sent.
#[derive(Debug)]
pub(crate) struct FilledChunk {
    arena: Arc<Arena>,
    to: Arc<Peer>,
    units: Range<usize>,
    length: usize,
}

impl Drop for FilledChunk {
    fn drop(&mut self) {
        if !self.units.is_empty() {
            self.to.ring.hold(self.units.start, false);
            self.arena.lock().release(&self.units);
        }
    }
}

impl FilledChunk {
    /// Passes the chunk to the client. The message that names it must follow.
    pub fn send(mut self) -> PlacedChunk {
        let units = std::mem::take(&mut self.units);
        let placed = PlacedChunk { unit: units.start as u32, length: self.length as u32 };
        self.arena.lock().lent.push_back(LentRegion { units, to: self.to.clone() });
        placed
    }
}
