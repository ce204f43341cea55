//! A folder of the file system.
//!
//! There are three ways to read. Bytes in the operating system's cache (for example of a table that was just loaded)
//! are copied. Other bytes are read past that cache (`O_DIRECT`) and asynchronously, since our own page cache stores
//! them: by one io_uring, or by a few threads if that is not available. Headers and other small reads use plain
//! `pread`.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::FallocateFlags;

use super::aligned::AlignedBytes;
use super::batch::{self, Batch, Limits, Run};
use super::byte_locks::{self, Lock};
use super::folder::{Folder, Opening};
use super::system::{self, Direct};
use super::threads::Threads;
use super::{
    Buffer, BufferPool, ByteLocks, Identity, LockFile, LockMode, Medium, MediumError, Pending, ReadFile, ReadRequest,
    Result, WriteFile, check_name, check_range, folder_of,
};
use crate::limits::{IO_DEPTH, IO_UNIT_BYTES};

/// How to read a disk.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// Whether reads bypass the operating system's cache.
    pub direct: DirectMode,
    /// The longest single read in bytes, a multiple of 4 KiB.
    pub io_unit: usize,
    /// The maximum number of reads in flight.
    pub io_depth: usize,
    /// The number of reading threads without io_uring.
    pub fallback_threads: usize,
    /// Whether to read with threads even if io_uring is available.
    pub force_threads: bool,
    /// The maximum memory of recycled buffers, in bytes.
    pub pool_bytes: usize,
    /// The permissions that new files and folders do not have, besides those of the process's umask.
    pub umask: u32,
}

/// Only the user of the process may read and write new files and folders.
pub const PRIVATE: u32 = 0o077;

impl Default for DiskOptions {
    fn default() -> DiskOptions {
        DiskOptions {
            direct: DirectMode::Auto,
            io_unit: IO_UNIT_BYTES,
            io_depth: IO_DEPTH,
            fallback_threads: 4,
            force_threads: false,
            pool_bytes: 64 << 20,
            umask: PRIVATE,
        }
    }
}

/// Whether reads bypass the operating system's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectMode {
    /// Cached bytes from the operating system's cache, others directly, if the file system supports that.
    Auto,
    /// Directly even if the bytes are cached, for measurements. An error if the file system does not support it. Runs
    /// that are not aligned, such as the end of a page of less than 512 bytes, still use the cache.
    On,
    /// Always through the operating system's cache.
    Off,
}

/// A database folder on a disk.
#[derive(Debug)]
pub struct Disk {
    folder: Folder,
    io: Arc<Io>,
}

impl Disk {
    /// Opens a folder. If it does not exist, creates it if `create` is set.
    ///
    /// # Errors
    /// The folder does not exist or cannot be created.
    pub fn open(root: impl AsRef<Path>, create: bool, options: DiskOptions) -> Result<Disk> {
        let root = root.as_ref();
        let folder = Folder::open(root, create, options.umask)
            .map_err(|error| MediumError::io("open folder", root.display().to_string(), error))?;
        Ok(Disk { folder, io: Arc::new(Io::new(options)) })
    }

    /// The pool of this disk's buffers.
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.io.pool
    }

    /// The reader of bytes that are not cached: `io_uring` or `threads`. Starts it if it does not run yet.
    pub fn engine_name(&self) -> &'static str {
        match self.io.engine() {
            #[cfg(target_os = "linux")]
            Engine::Ring(_) => "io_uring",
            Engine::Threads(_) => "threads",
        }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    fn open_file(&self, action: &'static str, name: &str, opening: Opening) -> Result<File> {
        check_name(name)?;
        self.folder.open_file(name, opening).map_err(self.error(action, name))
    }

    fn label(&self, name: &str) -> String {
        self.root().join(name).display().to_string()
    }

    fn error(&self, action: &'static str, name: &str) -> impl FnOnce(io::Error) -> MediumError {
        let label = self.label(name);
        move |error| MediumError::io(action, label, error)
    }
}

impl Medium for Disk {
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        let file = self.open_file("create", name, Opening::Create)?;
        Ok(Box::new(DiskWriter { label: self.label(name), file, len: 0, on_its_way: 0 }))
    }

    /// Past the operating system's cache where possible: this is several times as fast, and segments are read past it,
    /// too.
    fn write_whole(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        let file = self.open_file("create", name, Opening::Create)?;
        let direct = if self.io.options.direct == DirectMode::Off { None } else { system::open_direct_writer(&file) };
        let written = match direct {
            None => 0,
            // If the file system refuses direct writes, the file is written through the cache, from the start.
            Some(file) => write_direct(&file, parts).unwrap_or(0),
        };
        let mut writer = Box::new(DiskWriter { label: self.label(name), file, len: 0, on_its_way: 0 });
        let mut at = 0;
        for part in parts {
            let rest = &part[written.saturating_sub(at).min(part.len())..];
            at += part.len();
            if !rest.is_empty() {
                writer.write_at((at - rest.len()) as u64, rest)?;
            }
        }
        writer.finish()
    }

    fn edit(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        let file = self.open_file("open for writing", name, Opening::Edit)?;
        let len = file.metadata().map_err(self.error("stat", name))?.len();
        Ok(Box::new(DiskWriter { label: self.label(name), file, len, on_its_way: len }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let file = OpenFile {
            file: self.open_file("open", name, Opening::Read)?,
            label: self.label(name),
            direct: OnceLock::new(),
            direct_failed: false.into(),
            io: self.io.clone(),
        };
        Ok(Arc::new(DiskFile(Arc::new(file))))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.folder.rename(from, to).map_err(self.error("rename", from))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.folder.remove(name).map_err(self.error("remove", name))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        Ok(self.folder.identity(name).map_err(self.error("look for", name))?.is_some())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let folder = folder_of(prefix);
        let mut names = self.folder.files(folder).map_err(self.error("list", folder))?;
        if !folder.is_empty() {
            names.iter_mut().for_each(|name| *name = format!("{folder}/{name}"));
        }
        names.retain(|name| name.starts_with(prefix));
        names.sort_unstable();
        Ok(names)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.folder.sync(folder).map_err(self.error("sync folder", folder))
    }

    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<Box<dyn LockFile>>> {
        let opening = match mode {
            LockMode::Create => Opening::EditOrCreate,
            LockMode::Existing => Opening::Edit,
            LockMode::Shared => Opening::Read,
        };
        loop {
            let file = match self.open_file("open for locking", name, opening) {
                Err(error) if error.is_not_found() && mode != LockMode::Create => return Ok(None),
                file => file?,
            };
            match retry(|| if mode == LockMode::Shared { file.try_lock_shared() } else { file.try_lock() }) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(self.error("lock", name)(error)),
            }
            // The previous holder of the lock may have removed the file before we got the lock. Then nobody else can
            // see our lock, and we try again.
            let ours = identity_of(&file).map_err(self.error("stat", name))?;
            if self.folder.identity(name).map_err(self.error("stat", name))? == Some(ours) {
                return Ok(Some(Box::new(DiskLock { label: self.label(name), file })));
            }
        }
    }

    fn byte_locks(&self, name: &str, create: bool) -> Result<Option<Box<dyn ByteLocks>>> {
        let file = match self.open_file("open for locking", name, Opening::Read) {
            Err(error) if error.is_not_found() => match create {
                true => self.open_file("create", name, Opening::EditOrCreate)?,
                false => return Ok(None),
            },
            file => file?,
        };
        Ok(Some(Box::new(DiskBytes { label: self.label(name), file })))
    }

    fn place(&self) -> String {
        self.root().display().to_string()
    }

    fn identity(&self, name: &str) -> Result<Option<Identity>> {
        check_name(name)?;
        self.folder.identity_by_path(name).map_err(self.error("look for", name))
    }

    fn check_place(&self) -> Result<()> {
        match self.folder.is_in_place() {
            Ok(true) => Ok(()),
            Ok(false) => Err(MediumError::Moved { place: self.place() }),
            Err(error) => Err(MediumError::io("look for", self.place(), error)),
        }
    }
}

fn identity_of(file: &File) -> io::Result<Identity> {
    file.metadata().map(|metadata| Identity::new(metadata.dev(), metadata.ino()))
}

/// Repeats a try to lock as long as signals interrupt it.
fn retry(attempt: impl Fn() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    loop {
        match attempt() {
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Writes through an aligned buffer. The length of `bytes` must be a multiple of the alignment.
/// Writes the parts from the start of the file, and returns how many bytes that were: all but the last ones, which do
/// not fill a block.
fn write_direct(file: &File, parts: &[&[u8]]) -> io::Result<usize> {
    const STEP: usize = 4 << 20;
    let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
    let whole = bytes / AlignedBytes::ALIGNMENT * AlignedBytes::ALIGNMENT;
    let mut buffer = AlignedBytes::zeroed(STEP.min(whole));
    let (mut written, mut filled) = (0, 0);
    for part in parts {
        let mut rest = &part[..];
        while !rest.is_empty() && written < whole {
            let room = &mut buffer.as_mut_slice()[filled..(whole - written).min(STEP)];
            let (next, behind) = rest.split_at(room.len().min(rest.len()));
            room[..next.len()].copy_from_slice(next);
            (filled, rest) = (filled + next.len(), behind);
            if filled == (whole - written).min(STEP) {
                file.write_all_at(&buffer.as_slice()[..filled], written as u64)?;
                (written, filled) = (written + filled, 0);
            }
        }
    }
    Ok(written)
}

#[derive(Debug)]
struct DiskLock {
    label: String,
    file: File,
}

impl LockFile for DiskLock {
    fn write(&self, bytes: &[u8]) -> Result<()> {
        let write = self.file.write_all_at(bytes, 0).and_then(|()| self.file.set_len(bytes.len() as u64));
        write.map_err(|error| MediumError::io("write", &self.label, error))
    }

    fn identity(&self) -> Result<Identity> {
        identity_of(&self.file).map_err(|error| MediumError::io("stat", &self.label, error))
    }
}

#[derive(Debug)]
struct DiskBytes {
    label: String,
    file: File,
}

impl DiskBytes {
    fn error(&self, error: io::Error) -> MediumError {
        MediumError::io("lock", &self.label, error)
    }
}

impl ByteLocks for DiskBytes {
    fn share(&self, at: u64) -> Result<()> {
        match byte_locks::try_lock(&self.file, Lock::Shared, at) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.error(ErrorKind::ResourceBusy.into())),
            Err(error) => Err(self.error(error)),
        }
    }

    fn release(&self, at: u64) -> Result<()> {
        byte_locks::unlock(&self.file, at).map_err(|error| self.error(error))
    }

    fn first_of_others(&self) -> Result<Option<u64>> {
        byte_locks::first_locked(&self.file, 0, u64::MAX).map_err(|error| self.error(error))
    }

    fn identity(&self) -> Result<Identity> {
        identity_of(&self.file).map_err(|error| MediumError::io("stat", &self.label, error))
    }
}

#[derive(Debug)]
struct DiskWriter {
    label: String,
    file: File,
    len: u64,
    /// The operating system was asked to start writing up to this offset.
    on_its_way: u64,
}

/// The number of appended bytes after which the operating system is asked to start writing them, so that the final sync
/// is short.
const WRITE_BACK_STEP: u64 = 8 << 20;

impl DiskWriter {
    fn error(&self, action: &'static str) -> impl FnOnce(io::Error) -> MediumError {
        let label = self.label.clone();
        move |error| MediumError::io(action, label, error)
    }
}

impl WriteFile for DiskWriter {
    fn len(&self) -> u64 {
        self.len
    }

    fn stat(&self) -> Result<(Identity, u64)> {
        let metadata = self.file.metadata().map_err(self.error("stat"))?;
        Ok((Identity::new(metadata.dev(), metadata.ino()), metadata.len()))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_at(self.len, bytes)?;
        if self.len - self.on_its_way.min(self.len) >= WRITE_BACK_STEP {
            system::start_write_back(&self.file, self.on_its_way, self.len - self.on_its_way);
            self.on_its_way = self.len;
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(self.error("write"))?;
        self.len = self.len.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn allocate(&mut self, len: u64) -> Result<()> {
        let missing = len.saturating_sub(self.len);
        if rustix::fs::fallocate(&self.file, FallocateFlags::empty(), self.len, missing).is_ok() {
            self.len = len.max(self.len);
            return Ok(());
        }
        // Not every file system can do it, and a full one says so again.
        self.append(&vec![0; missing as usize])
    }

    fn set_len(&mut self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(self.error("set length of"))?;
        self.len = len;
        self.on_its_way = self.on_its_way.min(len);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(self.error("sync"))
    }
}

/// The file behind a handle, shared with reads in progress.
pub(super) struct OpenFile {
    label: String,
    file: File,
    /// Opened at the first read that misses the operating system's cache.
    direct: OnceLock<Option<Direct>>,
    direct_failed: AtomicBool,
    io: Arc<Io>,
}

#[derive(Debug)]
struct DiskFile(Arc<OpenFile>);

impl ReadFile for DiskFile {
    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        match self.0.file.read_exact_at(into, offset) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                check_range(&self.0.label, self.0.len()?, offset, into.len())?;
                Err(self.0.error("read", error))
            }
            result => result.map_err(|error| self.0.error("read", error)),
        }
    }

    fn start(&self, requests: &[ReadRequest]) -> Pending {
        let (pending, batch) = match self.0.plan(requests) {
            Ok(planned) => planned,
            Err(results) => return Pending::ready(results),
        };
        self.0.io.read(batch);
        pending
    }

    fn read_many(&self, requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        let (pending, mut batch) = match self.0.plan(requests) {
            Ok(planned) => planned,
            Err(results) => return results,
        };
        if batch.runs.len() > 1 {
            self.0.io.read(batch);
        } else {
            // With a single read to wait for, waking another thread gains nothing.
            read_runs(&mut batch);
            batch.deliver();
        }
        pending.wait()
    }
}

/// Reads all runs of a batch sequentially on this thread.
pub(super) fn read_runs(batch: &mut Batch<Arc<OpenFile>>) {
    for run in std::mem::take(&mut batch.runs) {
        read_run(batch, &run);
    }
}

/// Reads one run on this thread: directly if possible, otherwise through the operating system's cache.
pub(super) fn read_run(batch: &mut Batch<Arc<OpenFile>>, run: &Run) {
    let file = batch.file.clone();
    if let Some(direct) = file.direct_for(run)
        && let Some(mut memory) = batch.memory(run, direct.alignment)
        && system::read_vectored(&direct.file, &mut memory, run.offset).is_ok_and(|len| len >= run.len)
    {
        return;
    }
    read_run_cached(batch, run);
}

/// Reads one run on this thread through the operating system's cache.
pub(super) fn read_run_cached(batch: &mut Batch<Arc<OpenFile>>, run: &Run) {
    let file = batch.file.clone();
    if let Err(error) = file.fill(batch, run) {
        batch.fail(run, || file.error("read", repeat(&error)));
    }
}

/// A copy of the error, since several requests may fail for one reason.
fn repeat(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

impl OpenFile {
    fn error(&self, action: &'static str, error: io::Error) -> MediumError {
        MediumError::io(action, &self.label, error)
    }

    fn len(&self) -> Result<u64> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(|error| self.error("stat", error))
    }

    /// Plans a read and copies what is in the operating system's cache. The remaining runs need I/O. If nothing can be
    /// read at all, returns the error once per request.
    #[allow(clippy::type_complexity)]
    fn plan(
        self: &Arc<Self>,
        requests: &[ReadRequest],
    ) -> std::result::Result<(Pending, Batch<Arc<OpenFile>>), Vec<Result<Buffer>>> {
        let fail_all = |error: MediumError| {
            let text = error.to_string();
            let again = || Err(MediumError::io("read", &self.label, io::Error::other(text.clone())));
            requests.iter().map(|_| again()).collect::<Vec<_>>()
        };
        let file_len = self.len().map_err(fail_all)?;
        if self.io.options.direct == DirectMode::On && self.direct().is_none() {
            let reason = "this file system cannot read directly; use direct = auto";
            return Err(fail_all(self.error("read", io::Error::new(ErrorKind::Unsupported, reason))));
        }
        let limits = Limits { name: &self.label, file_len, unit: self.io.unit() };
        let (pending, mut batch) = batch::plan(self.clone(), requests, limits, &self.io.pool);
        if self.io.options.direct == DirectMode::Auto {
            let runs = std::mem::take(&mut batch.runs);
            batch.runs = runs.into_iter().filter(|run| !self.read_if_cached(&mut batch, run)).collect();
        }
        Ok((pending, batch))
    }

    /// Reads a run if that takes no I/O, and returns whether it did.
    fn read_if_cached(&self, batch: &mut Batch<Arc<OpenFile>>, run: &Run) -> bool {
        match system::is_cached(&self.file, run.offset, run.len) {
            Some(cached) => cached && self.fill(batch, run).is_ok(),
            None => batch
                .memory(run, 1)
                .and_then(|mut memory| system::read_without_waiting(&self.file, &mut memory, run.offset))
                .is_some_and(|len| len >= run.len),
        }
    }

    fn fill(&self, batch: &mut Batch<Arc<OpenFile>>, run: &Run) -> io::Result<()> {
        let mut offset = run.offset;
        for memory in &mut batch.memory(run, 1).expect("every length is a multiple of 1") {
            self.file.read_exact_at(memory, offset)?;
            offset += memory.len() as u64;
        }
        Ok(())
    }

    fn direct_for(&self, run: &Run) -> Option<&Direct> {
        let wanted = self.io.options.direct != DirectMode::Off && !self.direct_failed.load(Ordering::Relaxed);
        let direct = if wanted { self.direct() } else { None };
        direct.filter(|direct| run.offset.is_multiple_of(direct.alignment as u64))
    }

    fn direct(&self) -> Option<&Direct> {
        self.direct.get_or_init(|| system::open_direct(&self.file)).as_ref()
    }

    /// The handle for reading a run, and the multiple to which its memory must be rounded.
    #[cfg(target_os = "linux")]
    pub(super) fn handle_for(&self, run: &Run) -> (&File, usize) {
        self.direct_for(run).map_or((&self.file, 1), |direct| (&direct.file, direct.alignment))
    }

    #[cfg(target_os = "linux")]
    pub(super) fn cached_handle(&self) -> &File {
        &self.file
    }

    /// Direct reads were refused: do not try them again with this handle.
    #[cfg(target_os = "linux")]
    pub(super) fn give_up_direct(&self) {
        self.direct_failed.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenFile({})", self.label)
    }
}

/// What all files of a disk share.
pub(super) struct Io {
    options: DiskOptions,
    pool: Arc<BufferPool>,
    engine: OnceLock<Engine>,
}

/// The reader of bytes that the operating system has not cached.
enum Engine {
    #[cfg(target_os = "linux")]
    Ring(super::uring::Ring),
    Threads(Threads),
}

impl Io {
    fn new(options: DiskOptions) -> Io {
        Io { pool: BufferPool::new(options.pool_bytes), options, engine: OnceLock::new() }
    }

    fn unit(&self) -> usize {
        self.options.io_unit.max(4096) / 4096 * 4096
    }

    /// Reads the remaining runs of a batch, then delivers it.
    fn read(&self, batch: Batch<Arc<OpenFile>>) {
        if batch.runs.is_empty() {
            return batch.deliver();
        }
        match self.engine() {
            #[cfg(target_os = "linux")]
            Engine::Ring(ring) => ring.read(batch),
            Engine::Threads(threads) => threads.read(batch),
        }
    }

    fn engine(&self) -> &Engine {
        self.engine.get_or_init(|| {
            #[cfg(target_os = "linux")]
            if !self.options.force_threads
                && let Ok(ring) = super::uring::Ring::start(self.options.io_depth)
            {
                return Engine::Ring(ring);
            }
            Engine::Threads(Threads::start(self.options.fallback_threads))
        })
    }
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Io({:?})", self.options)
    }
}
