//! The limit of file descriptors. Each connection needs one and the database needs some, but the default limit is low.

use std::mem::MaybeUninit;

/// The maximum number of descriptors for files of the database, listeners and the process.
const OTHERS: u64 = 512;

/// Raises the soft limit of the process as far as the hard limit allows, if `connections` connections need it. Logs a
/// warning if that is too low.
pub fn provide(connections: usize) {
    let needed = connections as u64 + OTHERS;
    let Some(limits) = limits() else { return };
    let most = limits.rlim_max;
    if limits.rlim_cur < needed && limits.rlim_cur < most {
        raise(libc::rlimit { rlim_cur: needed.min(most), rlim_max: most });
    }
    if most < needed {
        tracing::warn!(
            connections,
            needed,
            allowed = most,
            "the system allows fewer open files than the maximum number of connections may need: raise `ulimit -n`, or lower --max-connections"
        );
    }
}

fn limits() -> Option<libc::rlimit> {
    let mut limits = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the pointer is to memory of the type that the call writes.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limits.as_mut_ptr()) };
    // SAFETY: a successful call has written all of it.
    (got == 0).then(|| unsafe { limits.assume_init() })
}

fn raise(limits: libc::rlimit) {
    // SAFETY: the pointer is to an initialized value, which is only read.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limits) } != 0 {
        let error = std::io::Error::last_os_error();
        tracing::warn!(%error, "the number of open files could not be raised");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_and_never_lowered() {
        let before = limits().expect("limits").rlim_cur;
        provide(10);
        assert!(limits().expect("limits").rlim_cur >= before);
        provide(10_000);
        let after = limits().expect("limits");
        assert!(after.rlim_cur >= after.rlim_max.min(10_000 + OTHERS));
    }
}
