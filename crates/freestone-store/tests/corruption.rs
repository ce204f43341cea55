//! Every byte of a small database is flipped in turn, and files are cut, emptied or exchanged. The result must be an
//! error that names file and page or offset, or the original rows. Never a panic, never a wrong row.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use common::*;
use freestone_codec::{IntPredicate, Predicate};
use freestone_store::media::Memory;
use freestone_store::scan::{ColumnPredicate, Cursor, ScanMetrics, ScanRequest, surviving_morsels};
use freestone_store::{Store, StoreError, StoreOptions};

type Files = BTreeMap<String, Vec<u8>>;
type State = BTreeMap<String, Digest>;

/// A database of every page format, with deletion bitmaps, segments in the log, and several segments per table.
fn small_database() -> (Files, State) {
    let memory = Memory::new();
    let store = open(memory.clone()).expect("opens");
    for (at, options) in DESIGNS[..5].iter().enumerate() {
        let name = format!("t{at}");
        let mut transaction = store.write().expect("writes");
        transaction.create_table(&name, table_schema(), design(options)).expect("creates");
        append(&mut transaction, &name, &batch(0..150 + 10 * at as i64)).expect("appends");
        transaction.commit().expect("commits");
        let mut transaction = store.write().expect("writes");
        transaction.convert(&name, design(options)).expect("converts");
        transaction.commit().expect("commits");
    }
    let mut transaction = store.write().expect("writes");
    delete(&mut transaction, "t0", keys_between(20, 50)).expect("deletes");
    delete(&mut transaction, "t2", keys_between(0, 9)).expect("deletes");
    append(&mut transaction, "t1", &batch(1000..1020)).expect("appends");
    append(&mut transaction, "t3", &batch(1000..1020)).expect("appends");
    create_view(&mut transaction, "v");
    transaction.commit().expect("commits");
    let mut transaction = store.write().expect("writes");
    delete(&mut transaction, "t1", keys_between(1005, 1006)).expect("deletes");
    transaction.commit().expect("commits");
    let state = digests(&store.snapshot().expect("a snapshot")).expect("sound");
    drop(store);
    let mut files = memory.files();
    ["PINS", "RESERVE"].iter().for_each(|name| drop(files.remove(*name)));
    (files, state)
}

fn reader_options() -> StoreOptions {
    StoreOptions { read_only: true, ..options() }
}

fn open_reader(files: &Files) -> Result<Store, StoreError> {
    Store::on_medium(std::sync::Arc::new(Memory::with_files(files.clone())), reader_options())
}

fn read_all(files: &Files) -> Result<State, StoreError> {
    digests(&*open_reader(files)?.snapshot()?)
}

/// Whether a message names the place of the damage: a file, and a page or an offset in it.
fn tells_where(message: &str, file: &str) -> bool {
    let named = message.contains(file) || message.contains("hot rows") || message.contains("commit ");
    named && (message.contains(", page ") || message.contains("byte ") || message.contains("bytes"))
}

/// Reads and checks everything. The rows are `state`, or there is an error. Returns whether the check found a problem.
fn check(files: &Files, state: &State, file: &str, what: &str) -> bool {
    match read_all(files) {
        Ok(found) => assert_eq!(&found, state, "{what}: other rows, and no error"),
        Err(error) => assert!(tells_where(&error.to_string(), file), "{what}: {error}"),
    }
    match open_reader(files).and_then(|store| store.check(None)) {
        Err(error) => {
            assert!(tells_where(&error.to_string(), file), "{what}: {error}");
            true
        }
        Ok(report) => {
            assert!(report.problems.len() <= 1, "{what}: reported more than once: {:?}", report.problems);
            report.problems.iter().for_each(|p| assert!(tells_where(p, file), "{what}: {p}"));
            !report.problems.is_empty()
        }
    }
}

#[test]
fn every_flipped_byte_is_an_error_or_harmless() {
    let (files, state) = small_database();
    let bytes: usize = files.values().map(Vec::len).sum();
    assert!(bytes < 256_000, "{bytes} bytes");
    assert!(!check(&files, &state, "", "untouched"));
    // One flip per byte if all bytes are tried, two in a sample.
    let flips = stride(2);
    let (mut noticed, mut flipped) = (0, 0);
    for (name, content) in &files {
        for at in (0..content.len()).step_by(stride(97)) {
            for flip in [1u8 << (at % 8), 0xff].into_iter().take(flips) {
                let mut files = files.clone();
                files.get_mut(name).expect("a file")[at] ^= flip;
                let what = format!("byte {at} of {name} flipped by {flip:02x}");
                let complained = check(&files, &state, name, &what);
                assert!(complained || !name.starts_with("segments/"), "{what}: the check did not notice");
                noticed += usize::from(complained);
                flipped += 1;
            }
        }
    }
    println!("{} files, {bytes} bytes, {flipped} flips, {noticed} noticed by the check", files.len());
}

#[test]
fn files_cut_short_emptied_or_gone() {
    let (files, state) = small_database();
    for (name, content) in files.iter().filter(|(name, _)| *name != "LOCK") {
        for len in
            (0..content.len()).step_by(if content.len() > 4000 { stride(977).max(11) } else { stride(97).max(3) })
        {
            let mut files = files.clone();
            files.get_mut(name).expect("a file").truncate(len);
            check(&files, &state, name, &format!("{name} cut to {len} bytes"));
        }
        for more in [1, 8, 4096] {
            let mut files = files.clone();
            files.get_mut(name).expect("a file").extend(vec![0; more]);
            check(&files, &state, name, &format!("{more} zeros behind {name}"));
        }
        let mut files = files.clone();
        files.remove(name);
        let error = read_all(&files).expect_err("a file is missing").to_string();
        assert!(error.contains(&name[..4]), "{name} removed: {error}");
    }
}

/// Flipped bytes of a segment with an index: rows that are found by it are correct, or there is an error.
#[test]
fn flipped_bytes_of_indexes() {
    let memory = Memory::new();
    let store = open(memory.clone()).expect("opens");
    let mut transaction = store.write().expect("writes");
    let options = &[("design", "column"), ("page_size", "4KiB"), ("index", "(w), (s, f)")];
    transaction.create_table("t", table_schema(), design(options)).expect("creates");
    append(&mut transaction, "t", &batch(0..20_000)).expect("appends");
    transaction.commit().expect("commits");
    let state = digests(&store.snapshot().expect("a snapshot")).expect("sound");
    let key = 12_346i128 << (12_346 % 70);
    let find = |store: &Store| -> Result<(u64, RecordBatch), StoreError> {
        let table = store.snapshot()?.table("t").expect("a table").clone();
        let mut request = ScanRequest::columns(vec![0, 4]);
        let predicate = Predicate::Int(IntPredicate::Range { low: key, high: key });
        request.predicates = vec![ColumnPredicate { column: 3, predicate }];
        let metrics = Arc::new(ScanMetrics::default());
        let morsels = surviving_morsels(&table, &request, 1 << 16, &metrics)?;
        let mut cursor = Cursor::new(table, Arc::new(request), metrics.clone());
        morsels.iter().try_for_each(|morsel| cursor.scan(morsel, None))?;
        Ok((metrics.totals().index_segments, cursor.finish()?.expect("a row")))
    };
    let (asked, expected) = find(&store).expect("sound");
    assert_eq!((asked, expected.num_rows()), (1, 1), "the index names a row");
    drop(store);
    let mut files = memory.files();
    ["PINS", "RESERVE"].iter().for_each(|name| drop(files.remove(*name)));
    let (name, content) = files.iter().find(|(name, _)| name.ends_with(".seg")).expect("a segment");
    for at in (0..content.len()).step_by(stride(1999).max(97)) {
        let mut files = files.clone();
        files.get_mut(name).expect("a file")[at] ^= 1 << (at % 8);
        let what = format!("byte {at} of {} flipped", content.len());
        assert!(check(&files, &state, name, &what), "{what}: the check did not notice");
        match open_reader(&files).and_then(|store| find(&store)) {
            Ok((_, found)) => assert_eq!(found, expected, "{what}: another row"),
            Err(error) => assert!(tells_where(&error.to_string(), name), "{what}: {error}"),
        }
    }
}

/// Segments that are sound but in the wrong place: of another table, or of the same table and size.
#[test]
fn segments_in_each_others_place() {
    let memory = Memory::new();
    let store = open(memory.clone()).expect("opens");
    for (name, start) in [("a", 0), ("b", 50_000)] {
        let mut transaction = store.write().expect("writes");
        transaction.create_table(name, table_schema(), design(DESIGNS[0])).expect("creates");
        append(&mut transaction, name, &batch(start..start + 17_000)).expect("appends");
        append(&mut transaction, name, &batch(start + 17_000..start + 34_000)).expect("appends");
        transaction.commit().expect("commits");
    }
    let state = digests(&store.snapshot().expect("a snapshot")).expect("sound");
    drop(store);
    let mut files = memory.files();
    ["PINS", "RESERVE"].iter().for_each(|name| drop(files.remove(*name)));
    let segments: Vec<String> = files.keys().filter(|name| name.ends_with(".seg")).cloned().collect();
    assert_eq!(segments.len(), 4);
    for one in &segments {
        for other in segments.iter().filter(|other| *other != one) {
            let mut files = files.clone();
            let content = files[other].clone();
            files.insert(one.clone(), content);
            let what = format!("{other} in the place of {one}");
            let error = read_all(&files).expect_err(&what).to_string();
            assert!(error.contains(one.as_str()), "{what}: {error}");
            assert!(check(&files, &state, one, &what), "{what}: the check did not notice");
        }
    }
}

/// What commits say of segments suffices to pass over them: the files of those are not there.
#[test]
fn segments_that_commits_rule_out_are_not_opened() {
    let memory = Memory::new();
    let store = open(memory.clone()).expect("opens");
    let mut transaction = store.write().expect("writes");
    transaction.create_table("t", table_schema(), design(DESIGNS[0])).expect("creates");
    for start in [0, 100_000, 200_000] {
        append(&mut transaction, "t", &batch(start..start + 20_000)).expect("appends");
    }
    transaction.commit().expect("commits");
    let find = |files: &Files, low: i64, high: i64| -> Result<(u64, u64, u64), StoreError> {
        let table = open_reader(files)?.snapshot()?.table("t").expect("a table").clone();
        let mut request = ScanRequest::columns(vec![0]);
        request.predicates = vec![ColumnPredicate { column: 0, predicate: keys_between(low, high) }];
        let metrics = Arc::new(ScanMetrics::default());
        let morsels = surviving_morsels(&table, &request, 1 << 16, &metrics)?;
        let totals = metrics.totals();
        let mut cursor = Cursor::new(table, Arc::new(request), metrics);
        let mut rows = 0;
        for morsel in &morsels {
            cursor.scan(morsel, None)?;
            while let Some(batch) = cursor.next_ready() {
                rows += batch.num_rows() as u64;
            }
        }
        rows += cursor.finish()?.map_or(0, |batch| batch.num_rows() as u64);
        Ok((rows, totals.segments_pruned, totals.pages_total))
    };
    let pages = find(&memory.files(), 0, 300_000).expect("sound").2;
    drop(store);
    let mut files = memory.files();
    let segments: Vec<String> = files.keys().filter(|name| name.ends_with(".seg")).cloned().collect();
    assert_eq!(segments.len(), 3, "{segments:?}");
    files.remove(&segments[0]);
    files.remove(&segments[2]);
    assert_eq!(find(&files, 100_010, 100_019).expect("one segment is read"), (10, 2, pages));
    assert_eq!(find(&files, 50_000, 60_000).expect("none is read"), (0, 3, pages));
    let error = find(&files, 10, 19).expect_err("the file is missing").to_string();
    assert!(error.contains(&segments[0]), "{error}");
}
