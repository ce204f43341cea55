//! A database whose folder is handled from outside while it is open: every change is noticed or made good, nothing that
//! was acknowledged is lost, and nothing is created elsewhere.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::*;
use freestone_store::media::{Disk, DiskOptions, FaultPlan, Faulty};
use freestone_store::{Store, StoreError, StoreOptions};

struct Folder {
    outer: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        Folder { outer: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> PathBuf {
        self.outer.path().join("db")
    }

    fn elsewhere(&self) -> PathBuf {
        self.outer.path().join("elsewhere")
    }

    fn open(&self, read_only: bool) -> Result<Store, StoreError> {
        Store::open(&self.path(), StoreOptions { read_only, ..options() })
    }

    fn made(&self) -> Store {
        let store = self.open(false).expect("opens");
        let mut transaction = store.write().expect("writes");
        transaction.create_table("t", table_schema(), design(DESIGNS[0])).expect("creates");
        transaction.commit().expect("commits");
        store
    }
}

fn insert(store: &Store, keys: std::ops::Range<i64>) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    append(&mut transaction, "t", &batch(keys))?;
    transaction.commit().map(|_| ())
}

fn rows(store: &Store) -> Result<u64, StoreError> {
    Ok(digests(&*store.snapshot()?)?["t"].rows)
}

#[track_caller]
fn error<T>(result: Result<T, StoreError>) -> String {
    result.err().expect("an error").to_string()
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_all(&entry.path(), &to)
        } else {
            copy(&entry.path(), &to)
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).expect("copied");
}

/// More than the time for which the writer relies on its lock.
fn wait() {
    std::thread::sleep(std::time::Duration::from_millis(5));
}

#[test]
fn a_folder_that_moves_is_noticed_until_it_is_back() {
    let folder = Folder::new();
    let (writer, reader) = (folder.made(), folder.open(true).expect("opens"));
    insert(&writer, 0..20_000).expect("commits");
    fs::rename(folder.path(), folder.elsewhere()).expect("moved");
    wait();
    for store in [&writer, &reader] {
        assert!(error(rows(store)).contains("not the folder any more"), "{}", error(rows(store)));
    }
    assert!(error(insert(&writer, 20_000..20_010)).contains("not the folder any more"));
    // Another database in its place is not written either.
    fs::create_dir(folder.path()).expect("made");
    assert!(error(insert(&writer, 20_000..40_000)).contains("not the folder any more"));
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0);
    fs::remove_dir(folder.path()).expect("removed");
    fs::rename(folder.elsewhere(), folder.path()).expect("back");
    insert(&writer, 20_000..20_010).expect("commits again");
    assert_eq!((rows(&writer).expect("reads"), rows(&reader).expect("reads")), (20_010, 20_010));
}

#[test]
fn a_removed_folder_is_an_error_and_not_made_again() {
    let folder = Folder::new();
    let (writer, reader) = (folder.made(), folder.open(true).expect("opens"));
    fs::remove_dir_all(folder.path()).expect("removed");
    wait();
    for store in [&writer, &reader] {
        assert!(error(rows(store)).contains("not the folder any more"));
    }
    assert!(error(insert(&writer, 0..5)).contains("not the folder any more"));
    drop((writer, reader));
    assert!(!folder.path().exists());
}

#[test]
fn an_emptied_folder_is_no_new_database() {
    let folder = Folder::new();
    let writer = folder.made();
    insert(&writer, 0..5).expect("commits");
    for entry in fs::read_dir(folder.path()).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { fs::remove_dir_all(path).expect("removed") } else { fs::remove_file(path).expect("removed") }
    }
    wait();
    assert!(rows(&writer).is_err());
    assert!(error(insert(&writer, 0..5)).contains("holds no database"), "{}", error(insert(&writer, 0..5)));
    assert!(!folder.path().join("CURRENT").exists());
}

#[test]
fn a_removed_lock_lets_nobody_else_write() {
    let folder = Folder::new();
    let first = folder.made();
    insert(&first, 0..10).expect("commits");
    fs::remove_file(folder.path().join("LOCK")).expect("removed");
    let second = folder.open(false).expect("opens for reading");
    assert!(error(insert(&second, 10..20)).contains("is being written by"));
    assert!(error(insert(&first, 10..20)).contains("LOCK is not the file any more"));
    insert(&first, 10..20).expect("the log was opened again");
    assert_eq!((rows(&first).expect("reads"), rows(&second).expect("reads")), (20, 20));
    fs::remove_file(folder.path().join("LOCK")).expect("removed");
    wait();
    assert!(error(rows(&first)).contains("LOCK"), "a snapshot notices it, too");
    assert_eq!(rows(&first).expect("reads"), 20);
    insert(&second, 20..30).expect("the other one writes now");
    assert_eq!((rows(&first).expect("reads"), rows(&second).expect("reads")), (30, 30));
}

#[test]
fn a_removed_log_is_written_again() {
    for name in ["manifest-0000000001.log", "CURRENT"] {
        for commits_again in [true, false] {
            let folder = Folder::new();
            let writer = folder.made();
            insert(&writer, 0..10).expect("commits");
            insert(&writer, 10..20_000).expect("commits");
            fs::remove_file(folder.path().join(name)).expect("removed");
            if commits_again {
                insert(&writer, 20_000..20_010).expect("commits");
            }
            drop(writer);
            let expected = if commits_again { 20_010 } else { 20_000 };
            assert_eq!(rows(&folder.open(true).expect("opens")).expect("reads"), expected, "{name}");
        }
    }
}

#[test]
fn an_older_copy_in_the_place_of_the_database_is_noticed() {
    let folder = Folder::new();
    let writer = folder.made();
    insert(&writer, 0..10).expect("commits");
    drop(writer);
    copy_all(&folder.path(), &folder.elsewhere());
    let (writer, reader) = (folder.open(false).expect("opens"), folder.open(true).expect("opens"));
    insert(&writer, 10..20).expect("commits");
    assert_eq!(rows(&reader).expect("reads"), 20);
    // Into the files that are open.
    copy_all(&folder.elsewhere(), &folder.path());
    assert!(error(rows(&reader)).contains("older state"), "{}", error(rows(&reader)));
    assert!(error(insert(&writer, 20..30)).contains("changed by somebody else"));
    assert!(error(insert(&writer, 20..30)).contains("older state"), "and it stays so");
    drop((writer, reader));
    let restored = folder.open(false).expect("opens");
    insert(&restored, 20..25).expect("commits");
    assert_eq!(rows(&restored).expect("reads"), 15);
}

#[test]
fn files_are_for_their_user_only_unless_asked() {
    use std::os::unix::fs::PermissionsExt;
    let modes = |umask: u32| {
        let folder = Folder::new();
        let disk = DiskOptions { umask, ..DiskOptions::default() };
        let store = Store::open(&folder.path(), StoreOptions { disk, ..options() }).expect("opens");
        let mut transaction = store.write().expect("writes");
        transaction.create_table("t", table_schema(), design(DESIGNS[0])).expect("creates");
        append(&mut transaction, "t", &batch(0..20_000)).expect("appends");
        transaction.commit().expect("commits");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let names = ["LOCK", "PINS", "CURRENT", "manifest-0000000001.log"];
        let mut files: Vec<u32> = names.iter().map(|name| mode(&folder.path().join(name))).collect();
        let segments = folder.path().join("segments");
        files.extend(fs::read_dir(&segments).expect("listed").map(|entry| mode(&entry.expect("an entry").path())));
        files.dedup();
        (mode(&folder.path()), mode(&segments), files)
    };
    assert_eq!(modes(0o077), (0o700, 0o700, vec![0o600]));
    let (folder, segments, files) = modes(0o027);
    assert_eq!((folder | 0o050, segments | 0o050), (0o750, 0o750));
    assert_eq!(files.iter().map(|mode| mode | 0o040).collect::<Vec<_>>(), [0o640]);
}

/// Reading and removing work without any space, and give it back.
#[test]
fn a_full_disk_can_be_read_and_emptied() {
    let folder = Folder::new();
    let disk = Disk::open(folder.path(), true, DiskOptions::default()).expect("opens");
    let medium = Faulty::new(std::sync::Arc::new(disk), FaultPlan { capacity: Some(CAPACITY), ..FaultPlan::default() });
    let store = open(medium.clone()).expect("opens");
    let create = |store: &Store, name: &str| {
        let mut transaction = store.write()?;
        transaction.create_table(name, table_schema(), design(DESIGNS[0]))?;
        append(&mut transaction, name, &batch(0..20_000))?;
        transaction.commit().map(|_| ())
    };
    let mut made = vec![];
    let full = loop {
        let name = format!("t{}", made.len());
        match create(&store, &name) {
            Ok(()) => made.push(name),
            Err(error) => break error,
        }
    };
    assert!(full.is_full(), "{full}");
    fill(&store, &made[0]);
    drop(store);
    medium.set_plan(FaultPlan { capacity: Some(0), ..FaultPlan::default() });
    let reader = Store::on_medium(std::sync::Arc::new(medium.clone()), StoreOptions { read_only: true, ..options() });
    let reader = reader.expect("opens");
    assert_eq!(digests(&reader.snapshot().expect("a snapshot")).expect("reads").len(), made.len());
    drop(reader);
    medium.set_plan(FaultPlan { capacity: Some(CAPACITY), ..FaultPlan::default() });
    let store = open(medium).expect("opens");
    fill(&store, &made[0]);
    let mut transaction = store.write().expect("writes");
    for name in &made[1..] {
        transaction.drop_table(name).expect("drops");
    }
    transaction.commit().expect("in the space of the reserve");
    store.vacuum(None).expect("removes files");
    create(&store, "again").expect("there is space");
}

/// Until not even one row can be inserted.
fn fill(store: &Store, name: &str) {
    for rows in [2000, 100, 5, 1] {
        while insert_into(store, name, rows).is_ok() {}
    }
}

const CAPACITY: u64 = 3 << 20;

fn insert_into(store: &Store, name: &str, rows: i64) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    append(&mut transaction, name, &batch(0..rows))?;
    transaction.commit().map(|_| ())
}
