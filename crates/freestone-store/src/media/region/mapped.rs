//! A file that is mapped into memory: persistent memory where its file system maps it directly (DAX), otherwise an
//! emulation. All mapping, and all instructions that flush, are here.
//!
//! Addresses for the largest size are reserved first, and parts of the file are mapped into them as it grows, so words
//! never move. The file's space is allocated before it is mapped: a store to a hole of a full file system would end
//! the process. The file is locked, since the same would happen if another process cut it short.

use std::arch::asm;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{LINE_BYTES, Line, Persistence, Region, Site, store_word};
use crate::media::{MediumError, PRIVATE, Result};

/// Lengths of mapped files are multiples of this.
const PAGE_BYTES: u64 = 4096;

/// How a file is mapped.
#[derive(Debug, Clone)]
pub struct MapOptions {
    /// The addresses to reserve, in bytes: the region cannot grow further.
    pub reserve: u64,
    /// Whether a file that is not on persistent memory is used, too.
    pub emulated: bool,
    /// The permissions that a new file does not have, besides those of the process's umask.
    pub umask: u32,
}

impl Default for MapOptions {
    fn default() -> Self {
        MapOptions { reserve: 1 << 40, emulated: true, umask: PRIVATE }
    }
}

/// Who else may map the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Nobody: it is locked.
    Alone,
    /// Other processes, which also store words.
    Shared,
    /// Other processes. This one only loads.
    ReadOnly,
}

/// A mapped file.
#[derive(Debug)]
pub struct MappedRegion {
    path: PathBuf,
    file: File,
    access: Access,
    start: NonNull<Line>,
    reserved: usize,
    /// The lines that are mapped.
    mapped: AtomicUsize,
    flush: Flush,
    is_direct: bool,
}

// SAFETY: the mapping is owned by the value and lives as long as it; all access is by atomic words.
unsafe impl Send for MappedRegion {}
// SAFETY: shared references load and store atomic words only, and `grow` maps addresses that no slice covers yet.
unsafe impl Sync for MappedRegion {}

impl MappedRegion {
    /// Creates a file of `len` zeros, whose space is allocated.
    ///
    /// # Errors
    /// It exists, there is no room, or it cannot be mapped as the options ask.
    pub fn create(path: &Path, len: u64, options: &MapOptions) -> Result<MappedRegion> {
        let file = Self::creating(options.umask).create_new(true).open(path);
        let file = file.map_err(|error| MediumError::io("create", path.display().to_string(), error))?;
        let made =
            Self::map(path, file, 0, options, Access::Alone).and_then(|region| region.grow(len).map(|()| region));
        if made.is_err() {
            // The error that is returned says why; an empty file that remains says nothing more.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// Opens a file.
    ///
    /// # Errors
    /// It does not exist, is locked by another process, or cannot be mapped as the options ask.
    pub fn open(path: &Path, options: &MapOptions) -> Result<MappedRegion> {
        let failed = |error| MediumError::io("open", path.display().to_string(), error);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        if len == 0 || !len.is_multiple_of(PAGE_BYTES) {
            let reason = format!("its length of {len} bytes is no multiple of {PAGE_BYTES}: it was cut short");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        Self::map(path, file, len, options, Access::Alone)
    }

    /// Opens a file of which other processes store words, too, and creates it with `len` zeros unless it exists. It is
    /// always an ordinary file.
    ///
    /// # Errors
    /// It cannot be opened for writing, or cannot be mapped.
    pub fn shared(path: &Path, len: u64, options: &MapOptions) -> Result<MappedRegion> {
        let failed = |error| MediumError::io("open", path.display().to_string(), error);
        let file = Self::creating(options.umask).create(true).truncate(false).open(path);
        let file = file.map_err(failed)?;
        let now = file.metadata().map_err(failed)?.len() / PAGE_BYTES * PAGE_BYTES;
        let region = Self::map(path, file, now, options, Access::Shared)?;
        region.grow(len)?;
        Ok(region)
    }

    /// Opens a file that another process may change, for loading only.
    ///
    /// # Errors
    /// It does not exist, or cannot be mapped.
    pub fn read_only(path: &Path, reserve: u64) -> Result<MappedRegion> {
        let failed = |error| MediumError::io("open", path.display().to_string(), error);
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len() / PAGE_BYTES * PAGE_BYTES;
        Self::map(path, file, len, &MapOptions { reserve, ..MapOptions::default() }, Access::ReadOnly)
    }

    /// Maps what other processes have added to the file.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn follow(&self) -> Result<()> {
        let failed = |error| MediumError::io("map", self.path.display().to_string(), error);
        let len = self.file.metadata().map_err(failed)?.len() / PAGE_BYTES * PAGE_BYTES;
        self.extend(len.min(self.reserved as u64)).map_err(failed)
    }

    fn creating(umask: u32) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o666 & !umask);
        options
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn map(path: &Path, file: File, len: u64, options: &MapOptions, access: Access) -> Result<MappedRegion> {
        let failed = |error| MediumError::io("map", path.display().to_string(), error);
        if access == Access::Alone {
            file.try_lock().map_err(|error| match error {
                TryLockError::Error(error) => failed(error),
                TryLockError::WouldBlock => {
                    failed(io::Error::new(io::ErrorKind::ResourceBusy, "another process, or this one, has it open"))
                }
            })?;
        }
        let reserved = usize::try_from(options.reserve.max(len).next_multiple_of(PAGE_BYTES));
        let reserved = reserved.map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        let is_direct = access != Access::Shared && is_direct(&file).map_err(failed)?;
        if !is_direct && !options.emulated {
            let reason = "its file system does not map it directly (no DAX); put it on persistent memory, or open the \
                          database with --pmem emulated, which survives the end of a process but no power loss";
            return Err(failed(io::Error::new(io::ErrorKind::Unsupported, reason)));
        }
        let start = reserve(reserved).map_err(failed)?;
        let flush = if is_direct && caches_are_persistent(&file) { Flush::None } else { Flush::here() };
        let mapped = AtomicUsize::new(0);
        let region = MappedRegion { path: path.to_owned(), file, access, start, reserved, mapped, flush, is_direct };
        region.extend(len).map_err(failed)?;
        Ok(region)
    }

    /// Maps the file up to `len`, which it has.
    fn extend(&self, len: u64) -> io::Result<()> {
        let (from, to) = (self.mapped.load(Ordering::Acquire) * LINE_BYTES as usize, len as usize);
        if to <= from {
            return Ok(());
        }
        let kind = if self.is_direct { libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC } else { libc::MAP_SHARED };
        let address = self.start.as_ptr().cast::<u8>().wrapping_add(from).cast();
        // SAFETY: `from .. to` lies inside the reserved addresses (checked by the caller), begins and ends at pages,
        // and nothing refers to it yet, since slices end at `mapped`. So replacing the reservation there is sound.
        let mapped = unsafe {
            let protection =
                if self.access == Access::ReadOnly { libc::PROT_READ } else { libc::PROT_READ | libc::PROT_WRITE };
            libc::mmap(address, to - from, protection, kind | libc::MAP_FIXED, self.file.as_raw_fd(), from as i64)
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.mapped.store(to / LINE_BYTES as usize, Ordering::Release);
        Ok(())
    }
}

impl Region for MappedRegion {
    fn lines(&self) -> &[Line] {
        // SAFETY: this many lines are mapped readable, at the alignment of pages, until the value is dropped; `extend`
        // stored the number after mapping them. A line is eight atomic words, for which every bit pattern is valid, so
        // other processes that map the file cannot make it invalid, and their stores are no data races. Only `store`
        // writes, and only to mappings that are writable. The file is as long: its space was allocated, nothing in this
        // program cuts it short, and its lock keeps programs that respect it from that.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.mapped.load(Ordering::Acquire)) }
    }

    fn store(&self, offset: u64, value: u64) {
        assert!(self.access != Access::ReadOnly, "{} is mapped for reading", self.path.display());
        store_word(self.lines(), offset, value);
    }

    fn write_back(&self, lines: Range<u64>, _: Site) {
        let lines = &self.lines()[lines.start as usize..lines.end as usize];
        self.flush.lines(lines);
    }

    fn order(&self, _: Site) {
        self.flush.fence();
    }

    fn grow(&self, len: u64) -> Result<()> {
        let place = || self.path.display().to_string();
        if len > self.reserved as u64 {
            let reason = format!("{len} bytes are more than the {} that were reserved for it", self.reserved);
            return Err(MediumError::io("extend", place(), io::Error::new(io::ErrorKind::StorageFull, reason)));
        }
        let len = len.next_multiple_of(PAGE_BYTES);
        let from = self.mapped.load(Ordering::Acquire) as u64 * LINE_BYTES;
        if len > from && self.access == Access::ReadOnly {
            let error = io::Error::new(io::ErrorKind::PermissionDenied, "it is mapped for reading");
            return Err(MediumError::io("extend", place(), error));
        }
        if len > from {
            allocate(&self.file, from, len - from).map_err(|error| MediumError::io("extend", place(), error))?;
            if self.access == Access::Alone {
                self.file.sync_all().map_err(|error| MediumError::io("sync", place(), error))?;
            }
            self.extend(len).map_err(|error| MediumError::io("map", place(), error))?;
        }
        Ok(())
    }

    fn persistence(&self) -> Persistence {
        if self.is_direct { Persistence::Persistent } else { Persistence::Emulated }
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn check_place(&self) -> Result<()> {
        let failed = |error| MediumError::io("look for", self.path.display().to_string(), error);
        let own = self.file.metadata().map_err(failed)?;
        match std::fs::metadata(&self.path) {
            Ok(now) if (now.st_dev(), now.st_ino()) == (own.st_dev(), own.st_ino()) => Ok(()),
            Ok(_) => Err(MediumError::Replaced { file: self.path.display().to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(MediumError::Replaced { file: self.path.display().to_string() })
            }
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for MappedRegion {
    fn drop(&mut self) {
        // SAFETY: `start` is the start of `reserved` bytes that `reserve` mapped for this value alone; every slice of
        // them borrowed the value, so none is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.reserved) };
    }
}

/// Allocates the space of a range, which fails without it and not at a later store.
fn allocate(file: &File, from: u64, len: u64) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), from as i64, len as i64) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Addresses that nothing else in the process gets. They cannot be read or written, and take no memory.
fn reserve(len: usize) -> io::Result<NonNull<Line>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a mapping at an address that the system chooses replaces nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Whether the file is on persistent memory: exactly then it can be mapped with MAP_SYNC.
fn is_direct(file: &File) -> io::Result<bool> {
    let flags = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
    let len = PAGE_BYTES as usize;
    // SAFETY: a mapping at an address that the system chooses replaces nothing. Its bytes are not accessed.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
    if start != libc::MAP_FAILED {
        // SAFETY: the mapping was made above and nothing refers to it.
        unsafe { libc::munmap(start, len) };
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => Ok(false),
        error => Err(error),
    }
}

/// Whether the platform writes caches back when it loses power, so that stores are durable without a flush.
fn caches_are_persistent(file: &File) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let device = metadata.st_dev();
    let path = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    let Ok(path) = std::fs::canonicalize(path) else { return false };
    // The domain is a property of the memory's region, which is a parent of its block device.
    let domain = path.ancestors().find_map(|parent| std::fs::read_to_string(parent.join("persistence_domain")).ok());
    domain.is_some_and(|domain| domain.trim() == "cpu_cache")
}

/// The instruction that writes a line to the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// None: caches are persistent.
    None,
    /// `clwb`: the line stays in the cache.
    #[cfg(target_arch = "x86_64")]
    WriteBack,
    /// `clflushopt`: the line leaves the cache.
    #[cfg(target_arch = "x86_64")]
    Optimized,
    /// `clflush`: one line after the other.
    #[cfg(target_arch = "x86_64")]
    Ordered,
    /// `dc cvap`: to the point of persistence.
    #[cfg(target_arch = "aarch64")]
    Persistence,
    /// `dc cvac`: to the point of coherency, which is persistent where the former is missing.
    #[cfg(target_arch = "aarch64")]
    Coherency,
}

impl Flush {
    /// The best that this processor has.
    #[cfg(target_arch = "x86_64")]
    fn here() -> Flush {
        let leaf = std::arch::x86_64::__cpuid_count(7, 0).ebx;
        match (leaf >> 24 & 1, leaf >> 23 & 1) {
            (1, _) => Flush::WriteBack,
            (_, 1) => Flush::Optimized,
            _ => Flush::Ordered,
        }
    }

    /// The best that this processor has.
    #[cfg(target_arch = "aarch64")]
    fn here() -> Flush {
        const DCPOP: libc::c_ulong = 1 << 16;
        // SAFETY: the call takes no pointers.
        let has = unsafe { libc::getauxval(libc::AT_HWCAP) } & DCPOP != 0;
        if has { Flush::Persistence } else { Flush::Coherency }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn here() -> Flush {
        Flush::None
    }

    fn lines(self, lines: &[Line]) {
        for line in lines {
            let address: *const Line = line;
            // SAFETY: every arm writes the line of a valid address back, which changes no byte and needs no privilege.
            // The instruction exists: `here` asked the processor, and `clflush` and `dc cvac` are in every one.
            unsafe {
                match self {
                    Flush::None => {}
                    #[cfg(target_arch = "x86_64")]
                    Flush::WriteBack => asm!("clwb [{}]", in(reg) address, options(nostack, preserves_flags)),
                    #[cfg(target_arch = "x86_64")]
                    Flush::Optimized => asm!("clflushopt [{}]", in(reg) address, options(nostack, preserves_flags)),
                    #[cfg(target_arch = "x86_64")]
                    Flush::Ordered => asm!("clflush [{}]", in(reg) address, options(nostack, preserves_flags)),
                    // `dc cvap`, spelled so that assemblers for older processors know it.
                    #[cfg(target_arch = "aarch64")]
                    Flush::Persistence => {
                        asm!("sys #3, c7, c12, #1, {}", in(reg) address, options(nostack, preserves_flags))
                    }
                    #[cfg(target_arch = "aarch64")]
                    Flush::Coherency => asm!("dc cvac, {}", in(reg) address, options(nostack, preserves_flags)),
                }
            }
        }
    }

    fn fence(self) {
        // SAFETY: fences access no memory of their own and exist in every processor of the architecture. The compiler
        // moves no access to memory across them, since they are not declared to leave memory alone.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!("sfence", options(nostack, preserves_flags));
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!("dsb osh", options(nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}
