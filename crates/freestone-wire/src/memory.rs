//! Memory that client and server of one machine share: a ring of slots, a chunk each.
//!
//! The server makes it, and gives its descriptor away over an abstract Unix socket, to whoever shows the session's key.
//!
//! ```text
//! bytes 0 .. 4096   a u32 for each slot: 0 = free, 1 = holds a chunk
//! then              the slots, as many bytes each as the largest chunk, rounded up to 4096
//! ```
//! The server fills a free slot, marks it and names it in a `MappedChunk` message; the client copies the chunk out, frees the
//! slot, and only then looks at what it copied, by a checksum first. Neither trusts what the other may write meanwhile. The
//! memory's size is sealed, so that no access can go behind its end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Result, WireError};
use crate::message::MappedChunk;

/// Slots of a ring: more than that only makes the ring colder.
pub(crate) const SLOTS: usize = 6;
const HEAD_BYTES: usize = 4096;
const SLOT_BYTES_MAX: usize = 1 << 30;
/// How long either side waits for the other when the descriptor is handed over.
pub(crate) const HANDOVER: Duration = Duration::from_secs(5);
/// Seals that a receiver insists on.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// A mapped ring.
#[derive(Debug)]
pub(crate) struct Ring {
    pointer: NonNull<u8>,
    bytes: usize,
    slots: usize,
    slot_bytes: usize,
    /// The slot to fill next; whoever fills it holds the lock.
    next: Mutex<usize>,
    file: File,
}

// SAFETY: the mapping belongs to no thread; all access to it is by atomics, or by copies that `put` and `take` guard.
unsafe impl Send for Ring {}
// SAFETY: as above; `put` fills slots under a lock, and what `take` copies is not trusted before its checksum.
unsafe impl Sync for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: pointer and length are those that mmap gave, and nothing refers to them any more.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.bytes) };
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Ring {
    /// New memory for chunks of at most `chunk_bytes_max`.
    pub fn create(chunk_bytes_max: usize) -> io::Result<Self> {
        // SAFETY: the name ends in NUL; the descriptor is new and nobody else's.
        let file = unsafe {
            let fd = libc::memfd_create(c"freestone".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            File::from_raw_fd(check(fd)?)
        };
        let slot_bytes = chunk_bytes_max.next_multiple_of(4096);
        file.set_len((HEAD_BYTES + SLOTS * slot_bytes) as u64)?;
        // SAFETY: fcntl on a descriptor that is ours.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS | libc::F_SEAL_SEAL) })?;
        Self::map(file, SLOTS, slot_bytes)
    }

    /// Maps memory that another process made.
    fn open(file: File, slots: usize, slot_bytes: usize) -> Result<Self> {
        let malformed = |reason: &str| WireError::malformed("shared memory", reason);
        if slots == 0 || slots > HEAD_BYTES / 4 || !slot_bytes.is_multiple_of(4096) || slot_bytes > SLOT_BYTES_MAX {
            return Err(malformed("slots that are not possible"));
        }
        let bytes = file.metadata().map_err(WireError::io("shared memory"))?.len();
        // SAFETY: fcntl on a descriptor that is ours.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SEALS != SEALS || bytes != (HEAD_BYTES + slots * slot_bytes) as u64 {
            return Err(malformed("memory whose size is wrong or can change"));
        }
        Self::map(file, slots, slot_bytes).map_err(WireError::io("shared memory"))
    }

    fn map(file: File, slots: usize, slot_bytes: usize) -> io::Result<Self> {
        let bytes = HEAD_BYTES + slots * slot_bytes;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of a file of this size, which is sealed.
        let pointer = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, file.as_raw_fd(), 0) };
        let pointer = NonNull::new(pointer.cast()).filter(|_| pointer != libc::MAP_FAILED);
        let pointer = pointer.ok_or_else(io::Error::last_os_error)?;
        Ok(Self { pointer, bytes, slots, slot_bytes, next: Mutex::new(0), file })
    }

    fn flag(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: slots are fewer than the head has numbers; the mapping is aligned to pages and lives as long as `self`;
        // both processes use these bytes as atomics only.
        unsafe { &*self.pointer.as_ptr().cast::<AtomicU32>().add(slot) }
    }

    fn slot(&self, slot: usize) -> *mut u8 {
        // SAFETY: callers have checked that the slot is one of the ring's.
        unsafe { self.pointer.as_ptr().add(HEAD_BYTES + slot * self.slot_bytes) }
    }

    /// Copies a chunk, or a part of one, into the next slot; `None` if that is not free, or too small.
    pub fn put(&self, chunk: &[u8], more: bool) -> Option<MappedChunk> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = *next;
        if chunk.len() > self.slot_bytes || self.flag(slot).load(Ordering::Acquire) != 0 {
            return None;
        }
        // SAFETY: the slot is the ring's, large enough, and free, so that only the holder of the lock writes to it; it is not
        // part of `chunk`, which is memory of this process alone.
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
        // SAFETY: the slot is the ring's and has `length` bytes; `out` has room for them. Should the other process write
        // there meanwhile, against the protocol, the copy holds arbitrary bytes, which are valid as bytes and which the
        // checksum below refuses.
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

    /// Sends slots, bytes of a slot, and the descriptor, and waits until the other side has mapped them.
    pub fn hand_over(&self, socket: &mut UnixStream) -> io::Result<()> {
        let sizes = [(self.slots as u32).to_le_bytes(), (self.slot_bytes as u32).to_le_bytes()].concat();
        send_descriptor(socket.as_raw_fd(), &sizes, self.file.as_raw_fd())?;
        socket.read_exact(&mut [0])
    }

    /// The client's side of [`Ring::hand_over`]. `address`: the name of an abstract Unix socket.
    pub fn receive(address: &str, session: u64, key: &[u8; 32], chunk_bytes_max: usize) -> Result<Self> {
        let io = || WireError::io("shared memory");
        let address = SocketAddr::from_abstract_name(address).map_err(io())?;
        let mut socket = UnixStream::connect_addr(&address).map_err(io())?;
        socket.set_read_timeout(Some(HANDOVER)).map_err(io())?;
        socket.write_all(&session.to_le_bytes()).map_err(io())?;
        socket.write_all(key).map_err(io())?;
        let (sizes, fd) = receive_descriptor(socket.as_raw_fd()).map_err(io())?;
        let number = |at: usize| u32::from_le_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]]) as usize;
        if number(4) < chunk_bytes_max {
            return Err(WireError::malformed("shared memory", "its slots are smaller than a chunk"));
        }
        let ring = Self::open(fd.into(), number(0), number(4))?;
        socket.write_all(&[1]).map_err(io())?;
        // The server says when it uses the ring from here on.
        socket.read_exact(&mut [0]).map_err(io())?;
        Ok(ring)
    }
}

/// Room for one descriptor in a control message, aligned as its header must be.
#[repr(C, align(8))]
struct Control([u8; 64]);

fn message(bytes: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all fields are numbers or pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    message
}

fn send_descriptor(socket: RawFd, bytes: &[u8], fd: RawFd) -> io::Result<()> {
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    let mut message = message(&mut vector, &mut control);
    // SAFETY: the control buffer has room for one descriptor (24 of 64 bytes), so the first header is in it; the vector and
    // the buffer outlive the call, which only reads them.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
        let sent = libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL);
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        if sent as usize == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

fn receive_descriptor(socket: RawFd) -> io::Result<([u8; 8], OwnedFd)> {
    let mut bytes = [0u8; 8];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    let mut message = message(&mut vector, &mut control);
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    // SAFETY: vector and control buffer outlive the call and have the lengths that the message says. The header is looked
    // at only if the system says that there is a whole one; a descriptor that came is new and nobody else's.
    let fd = unsafe {
        let received = libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC | libc::MSG_WAITALL);
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        let header = libc::CMSG_FIRSTHDR(&message);
        let expected = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_SOCKET
            || (*header).cmsg_type != libc::SCM_RIGHTS
            || (*header).cmsg_len as usize != expected
        {
            return Err(invalid("no descriptor came"));
        }
        let fd = OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned());
        if received as usize != 8 {
            return Err(invalid("the sizes of shared memory did not come"));
        }
        fd
    };
    Ok((bytes, fd))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Ring, Ring) {
        let server = Ring::create(5000).unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let client = std::thread::spawn(move || {
            let (sizes, fd) = receive_descriptor(theirs.as_raw_fd()).unwrap();
            assert_eq!(sizes, [[SLOTS as u8, 0, 0, 0], [0, 32, 0, 0]].concat()[..]);
            (&theirs).write_all(&[1]).unwrap();
            Ring::open(fd.into(), SLOTS, 8192).unwrap()
        });
        server.hand_over(&mut ours).unwrap();
        (server, client.join().unwrap())
    }

    #[test]
    fn chunks_pass_and_full_rings_are_not_overwritten() {
        let (server, client) = pair();
        let mut out = vec![];
        for round in 0..3 * SLOTS as u8 {
            let mapped = server.put(&[round; 5000], false).unwrap();
            out.clear();
            client.take(&mapped, &mut out).unwrap();
            assert_eq!(out, [round; 5000]);
            assert!(client.take(&mapped, &mut out).is_err(), "the slot is free");
        }
        assert!(server.put(&[0; 8193], false).is_none());
        assert!((0..SLOTS).all(|_| server.put(b"x", true).is_some()));
        assert!(server.put(b"x", false).is_none());
    }

    #[test]
    fn hostile_slots_and_files_are_refused() {
        let (server, client) = pair();
        let good = server.put(b"chunk", false).unwrap();
        let mut out = vec![];
        for wrong in [
            MappedChunk { slot: SLOTS as u32, ..good.clone() },
            MappedChunk { slot: u32::MAX, ..good.clone() },
            MappedChunk { length: 8193, ..good.clone() },
            MappedChunk { checksum: 1, ..good.clone() },
        ] {
            assert!(client.take(&wrong, &mut out).is_err(), "{wrong:?}");
        }
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096 * 3).unwrap();
        assert!(Ring::open(file, 1, 8192).is_err(), "a file that can shrink");
        assert!(Ring::open(client.file.try_clone().unwrap(), SLOTS, 12288).is_err());
    }
}
