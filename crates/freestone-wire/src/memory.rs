//! Memory that client and server of one machine share: a [`ring`] through which chunks are copied, and an [`arena`] in
//! which they stay as the result.
//!
//! The server creates both, and passes their descriptors over an abstract Unix socket to any client that has the
//! session's key. The arena is the server's memory, and the client's arrays rely on the server not to change it. So
//! clients accept an arena only from a server that runs as their own operating-system user or as root, either of which
//! could change a client's memory anyway. Other clients copy.

pub(crate) mod arena;
mod descriptors;
pub(crate) mod ring;
mod uncached_copy;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use arrow::buffer::Buffer;

use crate::error::{Result, WireError};
use crate::message::{MappedChunk, PlacedChunk};
use crate::origin::Origin;
use arena::{Arena, FilledChunk, Peer, Region, UNIT_BYTES};
use ring::Ring;

/// The time that either side waits for the other when the descriptors are passed.
pub(crate) const HANDOVER: Duration = Duration::from_secs(5);
/// The seals that a receiver requires.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
/// The client's answer: which memory it has mapped.
const TAKES_RING: u8 = 1;
const TAKES_ARENA: u8 = 2;

/// A file that is mapped into memory.
#[derive(Debug)]
struct Mapping {
    pointer: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread. Those who use its address are responsible for accesses to its bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: pointer and length are those from mmap, and nothing refers to them any more.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.bytes) };
    }
}

enum Access {
    Read,
    Write,
}

impl Mapping {
    /// Maps a file of that size, which cannot change.
    fn of(file: &File, bytes: usize, access: Access) -> io::Result<Self> {
        let access = match access {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping of a file of this size, which is sealed.
        let pointer = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, file.as_raw_fd(), 0) };
        let start = NonNull::new(pointer.cast()).filter(|_| pointer != libc::MAP_FAILED);
        let mapping = Self { pointer: start.ok_or_else(io::Error::last_os_error)?, bytes };
        // SAFETY: the mapping is ours. The call changes no byte: it excludes the range from core dumps.
        unsafe { libc::madvise(pointer, bytes, libc::MADV_DONTDUMP) };
        Ok(mapping)
    }

    fn start(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A file in memory, filled with zeros, whose size cannot change.
fn sealed_file(bytes: usize) -> io::Result<File> {
    // SAFETY: the name ends in NUL. The descriptor is new and has no other owner.
    let file = unsafe {
        let fd = libc::memfd_create(c"freestone".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        File::from_raw_fd(check(fd)?)
    };
    file.set_len(bytes as u64)?;
    // SAFETY: fcntl on a descriptor that is ours.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS | libc::F_SEAL_SEAL) })?;
    Ok(file)
}

/// Whether a file has that size and cannot change it.
fn is_sealed(file: &File, bytes: usize) -> io::Result<bool> {
    let found = file.metadata()?.len();
    // SAFETY: fcntl on a descriptor that is ours.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    Ok(seals >= 0 && seals & SEALS == SEALS && found == bytes as u64)
}

/// The operating-system user of this process.
pub(crate) fn own_user() -> libc::uid_t {
    // SAFETY: the call has no preconditions.
    unsafe { libc::geteuid() }
}

/// The server's side of the memory that it shares with one client.
#[derive(Debug)]
pub(crate) struct ServerMemory {
    pub peer: Arc<Peer>,
    arena: Option<Arc<Arena>>,
}

impl ServerMemory {
    /// Whether chunks can be placed.
    pub fn has_arena(&self) -> bool {
        self.arena.is_some()
    }

    /// A region for a chunk; `None` if there is no room.
    pub fn region(&self, bytes: usize) -> Option<Region> {
        self.arena.as_ref()?.take(bytes, &self.peer)
    }

    /// An existing chunk of the same rows.
    pub fn find(&self, origin: &Origin) -> Option<FilledChunk> {
        self.arena.as_ref()?.find(origin, &self.peer)
    }

    /// Creates a ring for chunks of that size, and passes it on together with the arena, which the client may decline.
    pub fn hand_over(chunk_bytes_max: usize, arena: Option<Arc<Arena>>, socket: &mut UnixStream) -> io::Result<Self> {
        let units = arena.as_ref().map_or(0, |arena| arena.units());
        let ring = Ring::create(chunk_bytes_max, units)?;
        let sizes = [ring.slots, ring.slot_bytes, units, UNIT_BYTES].map(|size| (size as u32).to_le_bytes());
        let descriptors: Vec<_> =
            [ring.file.as_raw_fd()].into_iter().chain(arena.as_ref().map(|arena| arena.reader())).collect();
        descriptors::send(socket.as_raw_fd(), &sizes.concat(), &descriptors)?;
        let mut taken = [0];
        socket.read_exact(&mut taken)?;
        let arena = arena.filter(|_| taken[0] == TAKES_ARENA);
        Ok(Self { peer: Arc::new(Peer { ring, has_left: AtomicBool::new(false) }), arena })
    }

    /// The client no longer uses the memory, so its regions can be reused.
    pub fn leave(&self) {
        self.peer.has_left.store(true, Ordering::Release);
    }

    pub fn has_left(&self) -> bool {
        self.peer.has_left.load(Ordering::Acquire)
    }
}

/// The client's side of the memory that the server shares with it.
#[derive(Debug)]
pub(crate) struct ClientMemory {
    ring: Ring,
    arena: Option<Mapping>,
    /// When it closes, the server knows that this client no longer uses the memory.
    _socket: UnixStream,
}

impl ClientMemory {
    /// The client's side of [`ServerMemory::hand_over`]. `address`: the name of an abstract Unix socket.
    pub fn receive(address: &str, session: u64, key: &[u8; 32], chunk_bytes_max: usize) -> Result<Self> {
        let io = || WireError::io("shared memory");
        let address = SocketAddr::from_abstract_name(address).map_err(io())?;
        let mut socket = UnixStream::connect_addr(&address).map_err(io())?;
        socket.set_read_timeout(Some(HANDOVER)).map_err(io())?;
        socket.write_all(&session.to_le_bytes()).map_err(io())?;
        socket.write_all(key).map_err(io())?;
        Self::take_over(socket, chunk_bytes_max)
    }

    fn take_over(mut socket: UnixStream, chunk_bytes_max: usize) -> Result<Self> {
        let io = || WireError::io("shared memory");
        let (ring, arena) = Self::map(&socket, chunk_bytes_max)?;
        socket.write_all(&[if arena.is_some() { TAKES_ARENA } else { TAKES_RING }]).map_err(io())?;
        // The server confirms that it uses the memory from here on.
        socket.read_exact(&mut [0]).map_err(io())?;
        forks();
        Ok(Self { ring, arena, _socket: socket })
    }

    fn map(socket: &UnixStream, chunk_bytes_max: usize) -> Result<(Ring, Option<Mapping>)> {
        let malformed = |reason: &str| WireError::malformed("shared memory", reason);
        let (sizes, descriptors) =
            descriptors::receive::<16>(socket.as_raw_fd()).map_err(WireError::io("shared memory"))?;
        let number = |i: usize| {
            u32::from_le_bytes([sizes[4 * i], sizes[4 * i + 1], sizes[4 * i + 2], sizes[4 * i + 3]]) as usize
        };
        let mut files = descriptors.into_iter().map(File::from);
        if number(1) < chunk_bytes_max {
            return Err(malformed("its slots are smaller than a chunk"));
        }
        let ring = files.next().ok_or_else(|| malformed("no ring came"))?;
        let ring = Ring::open(ring, number(0), number(1), number(2))?;
        let Some(arena) = files.next() else { return Ok((ring, None)) };
        let bytes = number(2) * UNIT_BYTES;
        let is_trusted = descriptors::peer_user(socket.as_raw_fd()).is_ok_and(|user| user == 0 || user == own_user());
        if !is_trusted || number(3) != UNIT_BYTES || bytes == 0 || !is_sealed(&arena, bytes).unwrap_or(false) {
            return Ok((ring, None));
        }
        // If the process may not have this much address space, chunks are copied.
        Ok((ring, Mapping::of(&arena, bytes, Access::Read).ok()))
    }

    /// Copies a chunk from the ring to the end of `out`.
    pub fn take(&self, mapped: &MappedChunk, out: &mut Vec<u8>) -> Result<()> {
        self.ring.take(mapped, out)
    }

    /// A chunk in the arena, without a copy. The server gets the memory back when nobody has a slice of it any more.
    pub fn placed(self: &Arc<Self>, chunk: &PlacedChunk) -> Result<Buffer> {
        let (unit, length) = (chunk.unit as usize, chunk.length as usize);
        let place = self.arena.as_ref().and_then(|arena| {
            let start = unit.checked_mul(UNIT_BYTES)?;
            let is_inside = start.checked_add(length).is_some_and(|end| end <= arena.bytes) && start < arena.bytes;
            (is_inside && self.ring.is_held(unit)).then(|| arena.start().wrapping_add(start))
        });
        let Some(pointer) = place.and_then(NonNull::new) else {
            return Err(WireError::malformed("chunk", format!("no {length} bytes are placed at unit {unit}")));
        };
        let in_use = Arc::new(ChunkInUse { memory: self.clone(), unit, forks: forks() });
        // SAFETY: the bytes are in the mapping, which `in_use` keeps as long as anybody has the buffer. They were written
        // before the mark of their unit, which was read with acquire. The server, which is trusted with this (see the
        // module), writes to them again only after `in_use` has cleared the mark.
        Ok(unsafe { Buffer::from_custom_allocation(pointer, length, in_use) })
    }
}

/// A placed chunk in use.
struct ChunkInUse {
    memory: Arc<ClientMemory>,
    unit: usize,
    forks: usize,
}

impl Drop for ChunkInUse {
    fn drop(&mut self) {
        // A forked process may continue to read the chunk. Then the server waits until both processes have closed the
        // socket.
        if self.forks == forks() {
            self.memory.ring.hold(self.unit, false);
        }
    }
}

/// The number of forks of this process since the first call.
fn forks() -> usize {
    static FORKS: AtomicUsize = AtomicUsize::new(0);
    static WATCH: Once = Once::new();
    extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::SeqCst);
    }
    WATCH.call_once(|| {
        // Counts before the fork, since other threads may be releasing chunks; and after it on both sides, since others
        // may have begun to use some.
        // SAFETY: the function only adds to an atomic number, which is allowed around a fork.
        unsafe { libc::pthread_atfork(Some(count), Some(count), Some(count)) };
    });
    FORKS.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests;
