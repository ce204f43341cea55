//! System calls: whether the operating system has bytes in its cache, and reads and writes that bypass it.

use std::fs::File;

pub(super) use calls::*;

/// A second handle for the file, which reads past the operating system's cache.
pub(super) struct Direct {
    pub file: File,
    /// Offsets, lengths and addresses must be multiples of this number of bytes.
    pub alignment: usize,
}

/// System calls that exist only on Linux.
#[cfg(target_os = "linux")]
mod calls {
    use std::fs::{File, OpenOptions};
    use std::io::{self, IoSliceMut};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    use super::Direct;
    use crate::media::aligned::AlignedBytes;

    /// Drops the cached bytes of a file, as far as the kernel can.
    #[cfg(test)]
    pub fn forget_cached(file: &File) {
        // SAFETY: the call takes no pointers.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }

    /// Asks the kernel to start writing a range. This is a hint, so errors are ignored: the following sync reports
    /// them.
    pub fn start_write_back(file: &File, offset: u64, len: u64) {
        // SAFETY: the call takes no pointers.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset as i64, len as i64, libc::SYNC_FILE_RANGE_WRITE);
        }
    }

    /// Whether a range is in the kernel's cache. `None` if the kernel cannot say (before 6.5, or not our file).
    ///
    /// A read with RWF_NOWAIT would also tell, but on a miss it starts reading ahead into the cache, so the bytes would
    /// be read twice.
    pub fn is_cached(file: &File, offset: u64, len: usize) -> Option<bool> {
        const CACHESTAT: libc::c_long = 451;
        const PAGE: u64 = 4096;
        let range = [offset, len as u64];
        let mut counts = [0u64; 5];
        // SAFETY: cachestat(fd, struct { u64 offset, length } *, struct { u64 cached, dirty, writeback, evicted,
        // recently_evicted } *, flags) reads the first and writes the second struct, which these arrays have the layout of.
        let result = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0u32) };
        let pages = (offset + len as u64).div_ceil(PAGE) - offset / PAGE;
        (result == 0).then_some(counts[0] >= pages)
    }

    /// Reads bytes from the kernel's cache, and returns their number; `None` if none are cached.
    pub fn read_without_waiting(file: &File, memory: &mut [IoSliceMut<'_>], offset: u64) -> Option<usize> {
        read_with_flags(file, memory, offset, libc::RWF_NOWAIT).ok()
    }

    /// Reads into several buffers at once, and returns the number of bytes.
    pub fn read_vectored(file: &File, memory: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        read_with_flags(file, memory, offset, 0)
    }

    fn read_with_flags(file: &File, memory: &mut [IoSliceMut<'_>], offset: u64, flags: i32) -> io::Result<usize> {
        let count = memory.len().min(libc::UIO_MAXIOV as usize) as i32;
        // SAFETY: IoSliceMut is guaranteed to have the layout of iovec; each describes memory that we borrow exclusively
        // until the call returns.
        let read = unsafe { libc::preadv2(file.as_raw_fd(), memory.as_mut_ptr().cast(), count, offset as i64, flags) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    /// A second handle for direct reads of the same file, if its file system supports them.
    pub fn open_direct(file: &File) -> Option<Direct> {
        let alignment = direct_alignment(file)?;
        // Through its descriptor and not its name, since the name may belong to another file by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).ok()?;
        Some(Direct { file, alignment })
    }

    /// A second handle for direct writes to the same file, if its file system supports them.
    pub fn open_direct_writer(file: &File) -> Option<File> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).ok()?;
        direct_alignment(&file).map(|_| file)
    }

    /// The number of which offsets, lengths and addresses must be multiples. `None` if direct reads are not possible.
    fn direct_alignment(file: &File) -> Option<usize> {
        // SAFETY: statx is plain integers, for which zeros are valid.
        let mut stat: libc::statx = unsafe { std::mem::zeroed() };
        // SAFETY: the path is an empty C string, and stat is a statx to be written.
        let result = unsafe {
            libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &mut stat)
        };
        if result != 0 || stat.stx_mask & libc::STATX_DIOALIGN == 0 {
            return Some(AlignedBytes::ALIGNMENT);
        }
        let alignment = stat.stx_dio_mem_align.max(stat.stx_dio_offset_align) as usize;
        (1..=AlignedBytes::ALIGNMENT).contains(&alignment).then_some(alignment)
    }
}

/// On other systems everything goes through the operating system's cache.
#[cfg(not(target_os = "linux"))]
mod calls {
    use std::fs::File;
    use std::io::{self, ErrorKind, IoSliceMut};

    use super::Direct;

    #[cfg(test)]
    pub fn forget_cached(_: &File) {}

    pub fn start_write_back(_: &File, _: u64, _: u64) {}

    pub fn is_cached(_: &File, _: u64, _: usize) -> Option<bool> {
        Some(false)
    }

    pub fn read_without_waiting(_: &File, _: &mut [IoSliceMut<'_>], _: u64) -> Option<usize> {
        None
    }

    pub fn read_vectored(_: &File, _: &mut [IoSliceMut<'_>], _: u64) -> io::Result<usize> {
        Err(ErrorKind::Unsupported.into())
    }

    pub fn open_direct_writer(_: &File) -> Option<File> {
        None
    }

    pub fn open_direct(_: &File) -> Option<Direct> {
        None
    }
}
