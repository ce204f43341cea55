//! Backups of a database in use, later ones into the same folder, and their restoration.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::*;
use freestone_store::{BackupReport, Store, StoreError, StoreOptions, Waiting};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, name: &str) -> Store {
        Store::open(&self.path(name), options()).expect("opens")
    }

    fn backup(&self, store: &Store) -> Result<BackupReport, StoreError> {
        store.backup(&self.path("backup"), &|name| !name.starts_with("temp"))
    }

    fn restore(&self, store: &Store) -> Result<BackupReport, StoreError> {
        store.restore(&self.path("backup"), Waiting::default(), &|name| !name.starts_with("temp"))
    }

    fn backed_up(&self) -> BTreeMap<String, Digest> {
        let options = StoreOptions { read_only: true, ..options() };
        let store = Store::open(&self.path("backup"), options).expect("a backup is a database");
        assert_eq!(store.check(None).expect("checks").problems, Vec::<String>::new());
        state(&store)
    }
}

fn state(store: &Store) -> BTreeMap<String, Digest> {
    let mut state = digests(&store.snapshot().expect("a snapshot")).expect("reads");
    state.retain(|name, _| !name.starts_with("temp"));
    state
}

fn change(store: &Store, work: impl FnOnce(&mut freestone_store::WriteTransaction) -> Result<(), StoreError>) {
    let mut transaction = store.write().expect("writes");
    work(&mut transaction).expect("works");
    transaction.commit().expect("commits");
}

/// Tables with segments in files, with hot rows, with deleted rows, with a copy, and a view.
fn fill(store: &Store) {
    for (name, design_of) in [("a", DESIGNS[0]), ("b", DESIGNS[2]), ("temp", DESIGNS[0])] {
        change(store, |transaction| {
            transaction.create_table(name, table_schema(), design(design_of))?;
            append(transaction, name, &batch(0..20_000))
        });
    }
    change(store, |transaction| append(transaction, "a", &batch(20_000..20_100)));
    change(store, |transaction| delete(transaction, "b", keys_between(5, 700)).map(drop));
    change(store, |transaction| {
        transaction.create_copy("a", "by_s", vec![0, 4], design_of(&[0, 4], &[("sort", "s")]))?;
        create_view(transaction, "v");
        Ok(())
    });
}

fn segments(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder.join("segments")).expect("listed");
    let mut names: Vec<String> = names.map(|name| name.expect("one").file_name().to_string_lossy().into()).collect();
    names.sort();
    names
}

#[test]
fn later_backups_copy_what_is_new() {
    let place = Place::new();
    let store = place.open("db");
    fill(&store);
    let first = place.backup(&store).expect("backed up");
    assert_eq!((first.tables, first.files_copied, first.files_kept), (2, 3, 0));
    assert_eq!(place.backed_up(), state(&store));
    let again = place.backup(&store).expect("backed up");
    assert_eq!((again.files_copied, again.bytes_copied, again.files_kept), (0, 0, 3));
    let open = Store::open(&place.path("backup"), StoreOptions { read_only: true, ..options() }).expect("opens");
    let before = state(&open);
    change(&store, |transaction| append(transaction, "b", &batch(30_000..50_000)));
    change(&store, |transaction| transaction.drop_table("a"));
    // A file that an interrupted backup has left, and one whose bytes were lost.
    let kept = segments(&place.path("backup"));
    std::fs::write(place.path("backup/segments/00000000000000ff.seg.part"), "x").expect("written");
    let third = place.backup(&store).expect("backed up");
    assert_eq!((third.tables, third.files_copied, third.files_kept), (1, 1, 1));
    assert_eq!(place.backed_up(), state(&store));
    assert_ne!(before, state(&store));
    assert_eq!(state(&open), state(&store), "a reader of the backup sees the new one");
    assert_eq!(segments(&place.path("backup")).len(), 2, "of {kept:?}");
}

#[test]
fn a_backup_is_restored_while_others_read() {
    let place = Place::new();
    let store = place.open("db");
    fill(&store);
    let expected = state(&store);
    place.backup(&store).expect("backed up");
    change(&store, |transaction| transaction.drop_table("a"));
    change(&store, |transaction| delete(transaction, "b", keys_between(0, 9_000)).map(drop));
    let view = |store: &Store| store.snapshot().expect("one").view("v").map(|view| view.id);
    let id = view(&store).expect("there");
    change(&store, |transaction| transaction.drop_object(id));
    store.vacuum(None).expect("removes files");
    let (reader, changed) = (store.snapshot().expect("a snapshot"), state(&store));
    let restored = place.restore(&store).expect("restored");
    assert!(restored.files_copied > 0, "{restored:?}");
    assert_eq!(state(&store), expected);
    assert_eq!(digests(&reader).expect("reads")["b"], changed["b"], "an older snapshot stays as it was");
    drop(reader);
    store.vacuum(None).expect("keeps what was restored");
    assert!(store.snapshot().expect("one").table("temp").is_some() && view(&store) == Some(id));
    change(&store, |transaction| append(transaction, "a", &batch(50_000..50_010)));
    assert_eq!(store.check(None).expect("checks").problems, Vec::<String>::new());
    drop(store);
    let store = place.open("db");
    assert_eq!(state(&store)["a"].rows, expected["a"].rows + 10);
    // Also what is still there need not be copied.
    let again = place.restore(&store).expect("restored");
    assert!(again.files_kept > 0, "{again:?}");
    assert_eq!(state(&store), expected);
}

#[test]
fn only_a_new_database_takes_the_backup_of_another() {
    let place = Place::new();
    let store = place.open("db");
    fill(&store);
    place.backup(&store).expect("backed up");
    let new = place.open("new");
    place.restore(&new).expect("restored");
    assert_eq!(state(&new), state(&store));
    let other = place.open("other");
    change(&other, |transaction| transaction.create_table("x", table_schema(), design(DESIGNS[0])));
    let error = place.restore(&other).expect_err("another database").to_string();
    assert!(error.contains("backup of another database"), "{error}");
    assert!(place.backup(&other).expect_err("another one").to_string().contains("another database"));
    assert!(store.backup(&place.path("db"), &|_| true).expect_err("itself").to_string().contains("another folder"));
    std::fs::create_dir(place.path("full")).expect("made");
    std::fs::write(place.path("full/file"), "x").expect("written");
    assert!(store.backup(&place.path("full"), &|_| true).expect_err("not empty").to_string().contains("not empty"));
    assert!(store.backup(&place.path("backup"), &|_| true).is_ok());
}

#[test]
fn a_damaged_segment_leaves_the_earlier_backup() {
    let place = Place::new();
    let store = place.open("db");
    fill(&store);
    place.backup(&store).expect("backed up");
    let earlier = place.backed_up();
    let known = segments(&place.path("db"));
    change(&store, |transaction| append(transaction, "b", &batch(30_000..50_000)));
    let new = segments(&place.path("db")).into_iter().find(|name| !known.contains(name)).expect("a new one");
    let path = place.path("db/segments").join(&new);
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[5000] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    let error = place.backup(&store).expect_err("damaged").to_string();
    assert!(error.contains(&new), "{error}");
    assert_eq!(place.backed_up(), earlier);
}
