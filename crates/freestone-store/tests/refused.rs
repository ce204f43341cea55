//! System calls that are refused, as by a sandbox, a broken disk or a limit: each call that a database makes, with each
//! error, in each phase of its use. The outcome is the right answer by another way, or one error; never a panic or a wait.
//! Afterwards the database is sound and has what was acknowledged.
//!
//! A filter of the kernel (seccomp) refuses the calls of one thread and of those that it starts. It cannot be taken back,
//! so every case has a thread of its own.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use common::*;
use freestone_store::scan::ScanRequest;
use freestone_store::{Store, StoreError, StoreOptions};

/// The calls, by name, that a store makes itself. Those of the allocator and of locks within the process are not among them.
const CALLS: [(&str, libc::c_long); 27] = [
    ("openat", libc::SYS_openat),
    ("read", libc::SYS_read),
    ("pread64", libc::SYS_pread64),
    ("preadv2", libc::SYS_preadv2),
    ("write", libc::SYS_write),
    ("pwrite64", libc::SYS_pwrite64),
    ("fsync", libc::SYS_fsync),
    ("fdatasync", libc::SYS_fdatasync),
    ("ftruncate", libc::SYS_ftruncate),
    ("fallocate", libc::SYS_fallocate),
    ("sync_file_range", libc::SYS_sync_file_range),
    ("unlinkat", libc::SYS_unlinkat),
    ("renameat", libc::SYS_renameat),
    ("renameat2", libc::SYS_renameat2),
    ("mkdirat", libc::SYS_mkdirat),
    ("statx", libc::SYS_statx),
    ("newfstatat", libc::SYS_newfstatat),
    ("fstat", libc::SYS_fstat),
    ("getdents64", libc::SYS_getdents64),
    ("flock", libc::SYS_flock),
    ("fcntl", libc::SYS_fcntl),
    ("eventfd2", libc::SYS_eventfd2),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("cachestat", 451),
    ("clone3", libc::SYS_clone3),
    ("getrandom", libc::SYS_getrandom),
];
const ERRORS: [(&str, i32); 5] = [
    ("EPERM", libc::EPERM),
    ("EIO", libc::EIO),
    ("ENOSPC", libc::ENOSPC),
    ("EMFILE", libc::EMFILE),
    ("ENOSYS", libc::ENOSYS),
];

/// A step of the use of a database. It tells which keys it has added.
type Step = fn(&Path, &mut Option<Store>) -> Result<Vec<i64>, StoreError>;

const STEPS: [(&str, Step); 7] = [
    ("open", |path, store| {
        *store = Some(Store::open(path, options())?);
        Ok(vec![])
    }),
    ("insert", |_, store| insert(store, 100_000..100_020)),
    ("load", |_, store| insert(store, 200_000..217_000)),
    ("read", |_, store| {
        let Some(store) = store else { return Ok(vec![]) };
        digests(&*store.snapshot()?).map(|_| vec![])
    }),
    ("vacuum", |_, store| store.as_ref().map_or(Ok(vec![]), |store| store.vacuum(None).map(|_| vec![]))),
    ("backup", |path, store| {
        let Some(store) = store else { return Ok(vec![]) };
        store.backup(&path.with_extension("backup"), &|_| true).map(|_| vec![])
    }),
    ("close", |_, store| {
        *store = None;
        Ok(vec![])
    }),
];

fn insert(store: &mut Option<Store>, keys: std::ops::Range<i64>) -> Result<Vec<i64>, StoreError> {
    let Some(store) = store else { return Ok(vec![]) };
    let mut transaction = store.write()?;
    append(&mut transaction, "t", &batch(keys.clone()))?;
    transaction.commit()?;
    Ok(keys.collect())
}

/// From now on, a call of this thread and of those that it starts gives an error.
fn refuse(call: libc::c_long, error: i32) {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel reads the program, which lives until both calls have returned.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    assert!(installed, "the kernel has no filters of system calls: {}", std::io::Error::last_os_error());
}

fn keys(store: &Store) -> BTreeSet<i64> {
    let table = store.snapshot().expect("a snapshot").table("t").expect("the table").clone();
    let batches = scan(&table, ScanRequest::columns(vec![0])).expect("reads");
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// A database with rows in a file and in the log.
fn template(path: &Path) {
    let store = Store::open(path, options()).expect("opens");
    let mut transaction = store.write().expect("writes");
    transaction.create_table("t", table_schema(), design(DESIGNS[0])).expect("creates");
    append(&mut transaction, "t", &batch(0..17_000)).expect("appends");
    transaction.commit().expect("commits");
    insert(&mut Some(store), 17_000..17_010).expect("commits");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("listed").map(|entry| entry.expect("an entry")) {
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).expect("copied")),
        }
    }
}

/// Uses a database, with a call refused from a step on, and looks at it afterwards.
fn check(template: &Path, what: &str, from: usize, call: libc::c_long, error: i32) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    copy(template, &path);
    let (tell, told) = channel();
    let at = path.clone();
    let work = move || {
        let (mut store, mut acknowledged) = (None, vec![]);
        for (number, (_, step)) in STEPS.iter().enumerate() {
            if number == from {
                refuse(call, error);
            }
            // Any error will do; that it says something is all that is asked of it.
            match step(&at, &mut store) {
                Ok(keys) => acknowledged.extend(keys),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        let _ = tell.send(acknowledged);
    };
    let used = thread::spawn(work);
    let acknowledged = match told.recv_timeout(Duration::from_secs(60)) {
        Ok(acknowledged) => acknowledged,
        Err(_) if used.is_finished() => panic!("{what}: panicked: {:?}", used.join().err()),
        Err(_) => panic!("{what}: it waits for something"),
    };
    used.join().expect("it has ended");
    let store = Store::open(&path, options()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(store.check(None).expect("checks").problems, Vec::<String>::new(), "{what}");
    let found = keys(&store);
    let lost = (0..17_010).chain(acknowledged).find(|key| !found.contains(key));
    assert_eq!(lost, None, "{what}: an acknowledged row is lost");
    insert(&mut Some(store), 300_000..300_001).unwrap_or_else(|error| panic!("{what}: {error}"));
    let reader = Store::open(&path, StoreOptions { read_only: true, ..options() }).expect("opens");
    assert!(keys(&reader).contains(&300_000), "{what}");
}

/// Whether a kernel or a sandbox refuses a call with this error. It refuses getrandom as missing or forbidden: the standard
/// library, whose hash tables call it once a thread, reads a file then, and panics on other errors.
fn may_give(call: libc::c_long, error: i32) -> bool {
    call != libc::SYS_getrandom || [libc::ENOSYS, libc::EPERM].contains(&error)
}

#[test]
fn refused_calls_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let template_path = folder.path().join("template");
    template(&template_path);
    let mut cases = vec![];
    for (from, (phase, _)) in STEPS.iter().enumerate() {
        for (call_name, call) in CALLS {
            for (error_name, error) in ERRORS.into_iter().filter(|(_, error)| may_give(call, *error)) {
                cases.push((format!("{call_name} gives {error_name} from {phase} on"), from, call, error));
            }
        }
    }
    // The standard library remembers for the whole process that getrandom is refused, and reads a file instead, which
    // other cases refuse.
    cases.sort_by_key(|(_, _, call, _)| *call == libc::SYS_getrandom);
    for (what, from, call, error) in cases.iter().step_by(stride(29)) {
        check(&template_path, what, *from, *call, *error);
    }
}

extern "C" fn handle(_: libc::c_int) {}

/// Signals whose handler does not restart what it interrupts: a call that waits may give EINTR, and is
/// repeated. Nothing fails, since nothing has been refused.
#[test]
fn interrupted_calls_are_repeated() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    template(&path);
    // SAFETY: the handler does nothing, so it can run at any moment; the structure without flags has no SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()), 0);
    }
    // SAFETY: it has no precondition.
    let worker = unsafe { libc::pthread_self() };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                // SAFETY: the thread outlives this one, which the scope joins, and the handler is set above.
                unsafe { libc::pthread_kill(worker, libc::SIGURG) };
                thread::sleep(Duration::from_micros(100));
            }
        });
        let (mut store, mut acknowledged) = (None, vec![]);
        let outcomes: Vec<_> = STEPS.iter().map(|(name, step)| (name, step(&path, &mut store))).collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        for (name, outcome) in outcomes {
            acknowledged.extend(outcome.unwrap_or_else(|error| panic!("{name}: {error}")));
        }
        let found = keys(&Store::open(&path, options()).expect("opens"));
        assert!((0..17_010).chain(acknowledged).all(|key| found.contains(&key)));
    });
}
