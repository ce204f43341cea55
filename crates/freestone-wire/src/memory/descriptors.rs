//! Passing descriptors between processes over a Unix socket, and the user at its other end.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The maximum number of descriptors of one message.
const DESCRIPTORS_MAX: usize = 2;

/// A buffer for the descriptors of a control message, aligned for its header.
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

/// Sends bytes and one to [`DESCRIPTORS_MAX`] descriptors.
pub(crate) fn send(socket: RawFd, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    assert!((1..=DESCRIPTORS_MAX).contains(&descriptors.len()), "{} descriptors", descriptors.len());
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    let mut message = message(&mut vector, &mut control);
    let length = size_of_val(descriptors) as u32;
    // SAFETY: the control buffer has room for two descriptors (24 of 64 bytes), so the first header is in it. The
    // vector and the buffer outlive the call, which only reads them.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(length) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(length) as _;
        let place = libc::CMSG_DATA(header).cast::<RawFd>();
        descriptors.iter().enumerate().for_each(|(at, fd)| place.add(at).write_unaligned(*fd));
        let sent = libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL);
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        if sent as usize == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Receives `N` bytes, and the descriptors that came with them.
pub(crate) fn receive<const N: usize>(socket: RawFd) -> io::Result<([u8; N], Vec<OwnedFd>)> {
    let mut bytes = [0u8; N];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    let mut message = message(&mut vector, &mut control);
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    // SAFETY: vector and control buffer outlive the call and have the lengths that the message says. The header is read
    // only if the system says that it is complete; then it lies in the buffer with all its descriptors, which are new
    // and have no other owner.
    let (received, descriptors) = unsafe {
        let received = loop {
            let received = libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC | libc::MSG_WAITALL);
            match received {
                0.. => break received,
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        };
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null() || (*header).cmsg_level != libc::SOL_SOCKET || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(invalid("no descriptor came"));
        }
        let count = ((*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
        let place = libc::CMSG_DATA(header).cast::<RawFd>();
        let descriptors: Vec<OwnedFd> =
            (0..count).map(|at| OwnedFd::from_raw_fd(place.add(at).read_unaligned())).collect();
        (received as usize, descriptors)
    };
    if received != N || descriptors.len() > DESCRIPTORS_MAX {
        return Err(invalid("the sizes of shared memory did not come"));
    }
    Ok((bytes, descriptors))
}

/// The operating-system user of the process that listens at the other end, or connected from it.
pub(crate) fn peer_user(socket: RawFd) -> io::Result<libc::uid_t> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the call writes at most `length` bytes to its argument, which is a variable of this function.
    let result = unsafe {
        let place = (&raw mut found).cast();
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &mut length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(found.uid) }
}
