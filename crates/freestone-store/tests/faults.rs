//! Full disks, failed operations and power losses at every point: acknowledged commits are found, others are found
//! completely or not at all, and writing works after the database is opened again.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{RecordBatch, StringViewArray};
use common::*;
use freestone_store::media::{FaultPlan, Faulty, Medium, Memory};
use freestone_store::scan::ScanRequest;
use freestone_store::{Definition, MaterializedView, Store, StoreError, WriteTransaction};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type State = BTreeMap<String, Digest>;
type Step = fn(&Store) -> Result<(), StoreError>;

/// Every operation that changes a database, in an order in which each has something to do.
const STEPS: [(&str, Step); 22] = [
    ("create", |store| create(store, "t", DESIGNS[1])),
    ("load", |store| insert(store, "t", &batch(0..17_000))),
    ("insert", |store| insert(store, "t", &batch(20_000..20_050))),
    ("delete", |store| remove(store, "t", 100, 4_000)),
    ("convert", |store| convert(store, "t", DESIGNS[2])),
    ("copy", copy),
    ("insert into both", |store| insert(store, "t", &batch(40_000..40_020))),
    ("create another", |store| create(store, "u", DESIGNS[0])),
    ("update", update),
    ("view", make_view),
    ("insert into what it reads", |store| insert(store, "t", &batch(50_000..50_300))),
    ("refresh", refresh),
    ("many inserts", many_inserts),
    ("delete all of a pending segment", |store| remove(store, "t", 20_000, 20_049)),
    ("vacuum", |store| store.vacuum(None).map(|_| ())),
    ("big inserts, which make the log be folded", big_inserts),
    ("convert again", |store| convert(store, "t", DESIGNS[4])),
    ("clustered loads", clustered_loads),
    ("drop copy", drop_copy),
    ("merge", |store| store.merge_runs(64 << 20, || true).map(|_| ())),
    ("drop", drop_table),
    ("vacuum again", |store| store.vacuum(None).map(|_| ())),
];

fn create(store: &Store, name: &str, options: Options) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    transaction.create_table(name, table_schema(), design(options))?;
    transaction.commit().map(|_| ())
}

fn insert(store: &Store, name: &str, batch: &RecordBatch) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    append(&mut transaction, name, batch)?;
    transaction.commit().map(|_| ())
}

fn remove(store: &Store, name: &str, low: i64, high: i64) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    delete(&mut transaction, name, keys_between(low, high))?;
    transaction.commit().map(|_| ())
}

fn convert(store: &Store, name: &str, options: Options) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    transaction.convert(name, design(options))?;
    transaction.commit().map(|_| ())
}

/// Delete and insert in one commit.
fn update(store: &Store) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    delete(&mut transaction, "t", keys_between(5_000, 5_999))?;
    append(&mut transaction, "t", &batch(30_000..31_000))?;
    transaction.commit().map(|_| ())
}

/// A materialized view of all rows of a table.
fn make_view(store: &Store) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    transaction.create_table("v", table_schema(), design(DESIGNS[5]))?;
    let owner = transaction.table("v")?.id;
    let view = MaterializedView { query: "SELECT * FROM t".into(), on_commit: false, is_populated: true };
    transaction.create_owned(owner, "", Definition::MaterializedView(view))?;
    fill_view(&mut transaction)?;
    transaction.commit().map(|_| ())
}

fn refresh(store: &Store) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    fill_view(&mut transaction)?;
    transaction.commit().map(|_| ())
}

fn fill_view(transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    let table = transaction.table("t")?;
    let rows = scan(&table, ScanRequest::columns(vec![0, 1, 2, 3, 4]))?;
    transaction.rewrite_view("v", |transaction| {
        rows.iter().filter(|rows| rows.num_rows() > 0).try_for_each(|rows| append(transaction, "v", rows))
    })?;
    transaction.set_current("v", &BTreeSet::from([table.id]))
}

/// Enough segments in the log that the last insert merges them. One commit, for one outcome.
fn many_inserts(store: &Store) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    for start in 0..35 {
        append(&mut transaction, "u", &batch(start * 10..start * 10 + 10))?;
    }
    transaction.commit().map(|_| ())
}

/// Each small enough for the log, and together so large that the log is folded.
fn big_inserts(store: &Store) -> Result<(), StoreError> {
    static BATCH: LazyLock<RecordBatch> = LazyLock::new(big_batch);
    let mut transaction = store.write()?;
    for _ in 0..6 {
        append(&mut transaction, "u", &BATCH)?;
    }
    transaction.commit().map(|_| ())
}

/// 800 KiB of incompressible data in few rows.
fn big_batch() -> RecordBatch {
    let mut random = StdRng::seed_from_u64(1);
    let text = |_| (0..20_000).map(|_| char::from(random.random_range(33..127u8))).collect::<String>();
    let texts: Vec<String> = (0..40).map(text).collect();
    let narrow = batch(100_000..100_000 + texts.len() as i64);
    let mut columns = narrow.columns().to_vec();
    columns[4] = Arc::new(StringViewArray::from_iter_values(&texts));
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

/// Two columns, in another order.
fn copy(store: &Store) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    transaction.create_copy("t", "by_s", vec![0, 4], design_of(&[0, 4], &[("sort", "s"), ("page_size", "4KiB")]))?;
    transaction.commit().map(|_| ())
}

fn drop_copy(store: &Store) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    transaction.drop_copy("t", "by_s")?;
    transaction.commit().map(|_| ())
}

/// Loads of a file each, in one commit.
fn clustered_loads(store: &Store) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    transaction.create_table("c", table_schema(), design(&[("cluster", "g, k"), ("page_size", "4KiB")]))?;
    for start in 0..4 {
        append(&mut transaction, "c", &batch(start * 17_000..(start + 1) * 17_000))?;
    }
    transaction.commit().map(|_| ())
}

fn drop_table(store: &Store) -> Result<(), StoreError> {
    let mut transaction = store.write()?;
    transaction.drop_table("u")?;
    transaction.commit().map(|_| ())
}

/// Checks that the log was folded, because otherwise folding was not tested.
fn check_folded(memory: &Memory) {
    assert!(memory.files().contains_key("manifest-0000000002.log"), "{:?}", memory.files().keys());
}

/// The states after each step, starting with the empty database.
fn states() -> Vec<State> {
    let memory = Memory::new();
    let store = open(memory.clone()).expect("memory does not fail");
    let mut states = vec![State::new()];
    for (name, step) in STEPS {
        step(&store).unwrap_or_else(|e| panic!("{name}: {e}"));
        states.push(now(&store));
    }
    check_folded(&memory);
    let snapshot = store.snapshot().expect("a snapshot");
    assert_eq!(snapshot.table("c").expect("it was made").segments.len(), 1, "the loads were to be merged");
    states
}

fn now(store: &Store) -> State {
    let snapshot = store.snapshot().expect("a snapshot");
    let state = digests(&snapshot).expect("sound data");
    if let Some(view) = snapshot.table("v").filter(|view| snapshot.has_rows_of_its_query(view)) {
        assert_eq!(state["v"], state["t"], "{}", view.name);
    }
    state
}

/// Whether a failed commit may have been stored nevertheless.
fn is_open(error: &StoreError) -> bool {
    error.to_string().contains("may or may not be stored")
}

/// Runs the steps until one fails. Returns the number of acknowledged steps, and the failure.
fn run(store: &Store, from: usize) -> (usize, Option<StoreError>) {
    for (at, (_, step)) in STEPS.iter().enumerate().skip(from) {
        if let Err(error) = step(store) {
            return (at, Some(error));
        }
    }
    (STEPS.len(), None)
}

/// Checks that `found` is the state after `done` steps, or after one more if that one may have been stored. Returns the
/// number of steps done.
fn check_state(found: &State, states: &[State], done: usize, open: bool, context: &str) -> usize {
    // Steps that change no rows have the state of the step before, so either may be meant. The later one has nothing to
    // repeat.
    if *found == states[done] {
        return done;
    }
    let next = states.get(done + 1).filter(|_| open);
    assert!(next == Some(found), "{context}: {done} steps were acknowledged, but {found:?} is there");
    done + 1
}

/// After a power loss: opens the remaining files and finishes the steps there.
fn check_crash(faulty: &Faulty, seed: u64, states: &[State], done: usize, context: &str) {
    let context = format!("{context}, power loss {seed}");
    let store = open(faulty.crash(seed)).unwrap_or_else(|e| panic!("{context}: cannot open: {e}"));
    // The machine stopped, so no client learned the outcome of the current step.
    check_state(&now(&store), states, done, true, &context);
    let report = store.check(None).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(report.problems, Vec::<String>::new(), "{context}");
    insert_and_find(&store, &context);
}

/// Writing works: a table is created, filled and found.
fn insert_and_find(store: &Store, context: &str) {
    create(store, "after", DESIGNS[3]).unwrap_or_else(|e| panic!("{context}: create afterwards: {e}"));
    insert(store, "after", &batch(0..17_000)).unwrap_or_else(|e| panic!("{context}: load afterwards: {e}"));
    let mut expected = Digest::default();
    expected.add(&batch(0..17_000));
    assert_eq!(now(store)["after"], expected, "{context}");
    store.vacuum(None).unwrap_or_else(|e| panic!("{context}: vacuum afterwards: {e}"));
    assert_eq!(now(store)["after"], expected, "{context}");
}

/// Runs the steps under a plan. Checks the state in the same process, after power losses, and after opening again.
fn check(plan: FaultPlan, states: &[State], context: &str) -> bool {
    let memory = Memory::new();
    let faulty = Faulty::on_memory(memory.clone(), plan.clone());
    let (mut done, mut failed) = (0, false);
    let mut store = open(faulty.clone()).ok();
    if let Some(store) = &store {
        let (acknowledged, error) = run(store, 0);
        done = acknowledged;
        failed = error.is_some();
        let open = error.as_ref().is_some_and(is_open);
        let context = match &error {
            Some(error) => format!("{context}: step {} failed with {error}", STEPS[done].0),
            None => context.to_owned(),
        };
        check_crash(&faulty, plan.seed, states, done, &context);
        faulty.set_plan(FaultPlan::default());
        // The same process continues: it sees one of the two states, and can finish.
        done = check_state(&now(store), states, done, open, &context);
        if failed {
            store.write().map(drop).unwrap_or_else(|e| panic!("{context}: cannot write again: {e}"));
            done = check_state(&now(store), states, done, open, &format!("{context}, after recovery"));
        }
    }
    faulty.set_plan(FaultPlan::default());
    let context = format!("{context}, {done} steps before");
    if failed {
        store = None;
    }
    let store = store.map_or_else(|| open(faulty.clone()), Ok).unwrap_or_else(|e| panic!("{context}: open again: {e}"));
    done = check_state(&now(&store), states, done, false, &format!("{context}, opened again"));
    // The failed step is repeated. If the rows before and after are the same, it is the next one.
    let (finished, error) = run(&store, done);
    assert!(error.is_none(), "{context}: {} fails once more: {error:?}", STEPS[finished].0);
    assert_eq!(now(&store), states[STEPS.len()], "{context}, at the end");
    check_crash(&faulty, plan.seed + 1, &[now(&store)], 0, &format!("{context}, at the end"));
    failed
}

#[test]
fn every_operation_may_fail() {
    let states = states();
    let counted = Faulty::on_memory(Memory::new(), FaultPlan::default());
    run(&open(counted.clone()).expect("opens"), 0);
    let operations = counted.operations();
    let mut failures = 0;
    // In a sample, every second failure is permanent. If all operations are tested, each fails both ways.
    let sample = stride(53) as u64;
    for at in (0..operations).filter(|at| [3, 9, 14].contains(at) || at % sample == 0) {
        for stay_dead in
            [false, true].into_iter().filter(|dead| sample == 1 || *dead == (at / sample).is_multiple_of(2))
        {
            let plan = FaultPlan { seed: at, fail_operation: Some(at), stay_dead, ..FaultPlan::default() };
            failures += usize::from(check(plan, &states, &format!("operation {at} fails, dead: {stay_dead}")));
        }
    }
    println!("{operations} operations, {failures} failed steps");
    assert!(failures > 10, "{failures} of {operations}");
}

#[test]
fn the_disk_may_be_full_at_any_byte() {
    let states = states();
    let mut random = StdRng::seed_from_u64(7);
    let mut failures = 0;
    let mut capacity = 0;
    let stride = if stride(2) == 1 { 20_000 } else { 1_200_000 };
    while capacity < 9_000_000 {
        let plan = FaultPlan { seed: capacity, capacity: Some(capacity), ..FaultPlan::default() };
        failures += usize::from(check(plan, &states, &format!("{capacity} bytes of disk")));
        capacity += random.random_range(1..stride);
    }
    println!("{failures} failed steps");
    assert!(failures > 5, "{failures}");
}

/// One row in a commit of its own, for which the caller waits or not.
fn insert_row(store: &Store, key: i64, syncs: bool) {
    let mut transaction = store.write().expect("writes");
    transaction.set_syncs(syncs);
    append(&mut transaction, "t", &batch(key..key + 1)).expect("appends");
    transaction.commit().expect("commits");
}

/// The number of rows, which must be the first ones that were inserted.
fn first_rows(store: &Store, rows: i64, context: &str) -> i64 {
    let found = now(store)["t"];
    let mut expected = Digest::default();
    for key in 0..=rows {
        if found == expected {
            return key;
        }
        expected.add(&batch(key..key + 1));
    }
    panic!("{context}: {found:?} are not the first rows");
}

/// Commits that do not wait: a power loss takes the last ones, but none for which somebody waited, and a crash of the
/// process takes none.
#[test]
fn commits_without_a_sync_are_lost_from_the_end_only() {
    let (rows, waited_for) = (45, 17);
    let mut lost = 0;
    for seed in 0..40 {
        let memory = Memory::new();
        let faulty = Faulty::on_memory(memory.clone(), FaultPlan::default());
        let store = open(faulty.clone()).expect("opens");
        create(&store, "t", DESIGNS[0]).expect("creates");
        for key in 0..rows {
            insert_row(&store, key, key == waited_for);
        }
        let context = format!("power loss {seed}");
        assert_eq!(first_rows(&store, rows, &context), rows, "they are visible at once");
        let after = open(faulty.crash(seed)).unwrap_or_else(|error| panic!("{context}: cannot open: {error}"));
        let left = first_rows(&after, rows, &context);
        assert!(left > waited_for, "{context}: {left} rows");
        lost += rows - left;
        assert_eq!(after.check(None).expect("checks").problems, Vec::<String>::new(), "{context}");
        insert_and_find(&after, &context);
        // As if the process were killed here.
        let killed = open(Memory::with_files(memory.files())).expect("opens");
        assert_eq!(first_rows(&killed, rows, "killed"), rows);
        drop(store);
        let ended = open(faulty.crash(seed)).expect("opens");
        assert_eq!(first_rows(&ended, rows, "ended"), rows, "the end of the process waits");
    }
    assert!(lost > 0, "the test loses nothing");
}

/// Without anybody who waits, a commit is durable after a while.
#[test]
fn commits_without_a_sync_are_synced_soon() {
    let faulty = Faulty::on_memory(Memory::new(), FaultPlan::default());
    let store = open(faulty.clone()).expect("opens");
    create(&store, "t", DESIGNS[0]).expect("creates");
    (0..5).for_each(|key| insert_row(&store, key, false));
    let begin = std::time::Instant::now();
    while first_rows(&open(faulty.crash(3)).expect("opens"), 5, "later") < 5 {
        assert!(begin.elapsed().as_secs() < 60, "nobody syncs");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Files that a killed or failed load leaves must not prevent the next one.
#[test]
fn files_of_a_load_that_was_never_committed_are_in_nobodys_way() {
    let memory = Memory::new();
    let store = open(memory.clone()).expect("opens");
    create(&store, "t", DESIGNS[0]).expect("creates");
    let mut transaction = store.write().expect("writes");
    let mut appender = transaction.appender("t").expect("appends");
    appender.push(&batch(0..20_000)).expect("takes rows");
    transaction.append(appender.finish().expect("finishes")).expect("appends");
    // As if the process were killed here: the files remain, the transaction does not.
    let left = Memory::with_files(memory.files());
    drop(transaction);
    assert!(left.files().keys().any(|name| name.starts_with("segments/")), "the load had written a file");
    let store = open(left.clone()).expect("opens");
    insert(&store, "t", &batch(0..17_000)).expect("the next load works");
    let files = left.files().keys().filter(|name| name.starts_with("segments/")).count();
    assert_eq!(files, 1, "what was left behind is gone");
}

/// Pages of a transaction that was rolled back must not be taken for pages of a later one.
#[test]
fn ids_of_a_rolled_back_transaction_are_not_used_again() {
    let store = open(Memory::new()).expect("opens");
    create(&store, "t", DESIGNS[0]).expect("creates");
    let mut transaction = store.write().expect("writes");
    append(&mut transaction, "t", &batch(500..600)).expect("appends");
    let table = transaction.table("t").expect("the table");
    let request = freestone_store::scan::ScanRequest::columns(vec![0, 1, 2, 3, 4]);
    assert_eq!(scan(&table, request).expect("reads its own rows")[0].num_rows(), 100);
    drop(transaction);
    insert(&store, "t", &batch(0..100)).expect("inserts");
    let mut expected = Digest::default();
    expected.add(&batch(0..100));
    drop(table);
    assert_eq!(now(&store)["t"], expected);
}

#[test]
fn rows_may_be_deleted_in_several_steps_of_one_transaction() {
    let store = open(Memory::new()).expect("opens");
    create(&store, "t", DESIGNS[0]).expect("creates");
    insert(&store, "t", &batch(0..100)).expect("inserts");
    let mut transaction = store.write().expect("writes");
    assert_eq!(delete(&mut transaction, "t", keys_between(0, 9)).expect("deletes"), 10);
    assert_eq!(delete(&mut transaction, "t", keys_between(5, 19)).expect("deletes"), 10);
    transaction.commit().expect("commits");
    let mut expected = Digest::default();
    expected.add(&batch(20..100));
    assert_eq!(now(&store)["t"], expected);
    let mut transaction = store.write().expect("writes");
    assert_eq!(delete(&mut transaction, "t", keys_between(0, 60)).expect("deletes"), 41);
    assert_eq!(delete(&mut transaction, "t", keys_between(0, 99)).expect("deletes"), 39);
    assert_eq!(delete(&mut transaction, "t", keys_between(0, 99)).expect("deletes"), 0);
    transaction.commit().expect("commits");
    assert_eq!(now(&store)["t"], Digest::default());
}

/// With little memory, a load writes smaller segments instead of holding a million rows.
#[test]
fn a_load_holds_no_more_than_it_may() {
    let options = freestone_store::StoreOptions { write_bytes: 5 << 20, ..options() };
    let store = Store::on_medium(Arc::new(Memory::new()), options).expect("opens");
    create(&store, "t", DESIGNS[0]).expect("creates");
    let mut transaction = store.write().expect("writes");
    let mut appender = transaction.appender("t").expect("appends");
    let mut expected = Digest::default();
    for start in 0..12 {
        let part = batch(start * 5_000..start * 5_000 + 5_000);
        expected.add(&part);
        appender.push(&part).expect("takes rows");
    }
    transaction.append(appender.finish().expect("finishes")).expect("appends");
    transaction.commit().expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    assert!(snapshot.table("t").expect("the table").segments.len() > 3);
    assert_eq!(now(&store)["t"], expected);
}

/// Keys in no sorted order, in a number that is no multiple of the batches' length.
fn shuffled(rows: i64) -> impl Iterator<Item = i64> {
    (0..rows).map(move |row| row * 7_919 % rows)
}

/// Rows that do not fit the memory of a write are sorted nevertheless, in a load and in a conversion.
#[test]
fn a_sorted_table_is_sorted_however_little_memory_there_is() {
    let rows = 60_000;
    let options = freestone_store::StoreOptions { write_bytes: 1, ..options() };
    let medium = Arc::new(Memory::new());
    let store = Store::on_medium(medium.clone(), options).expect("opens");
    create(&store, "t", DESIGNS[5]).expect("creates");
    create(&store, "u", DESIGNS[0]).expect("creates");
    let mut expected = Digest::default();
    expected.add(&batch(0..rows));
    for table in ["t", "u"] {
        let mut transaction = store.write().expect("writes");
        let mut appender = transaction.appender(table).expect("appends");
        let keys: Vec<i64> = shuffled(rows / 10).collect();
        for key in keys {
            appender.push(&batch(key * 10..key * 10 + 10)).expect("takes rows");
        }
        transaction.append(appender.finish().expect("finishes")).expect("appends");
        transaction.commit().expect("commits");
    }
    convert(&store, "u", DESIGNS[5]).expect("converts");
    for table in ["t", "u"] {
        assert_eq!(now(&store)[table], expected);
        let snapshot = store.snapshot().expect("a snapshot");
        let found = snapshot.table(table).expect("the table");
        assert!(found.segments.len() > 3, "{} segments", found.segments.len());
        let scanned = scan(found, ScanRequest::columns(vec![0])).expect("scans");
        let keys = scanned.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(keys.eq(0..rows), "{table} is sorted as a whole");
    }
    assert_eq!(medium.list("temporary/").expect("lists"), Vec::<String>::new());
}

/// A load that fails, is abandoned or is killed while it sorts leaves nothing.
#[test]
fn runs_of_a_sort_leave_nothing() {
    let options = || freestone_store::StoreOptions { write_bytes: 1, ..options() };
    let medium = Arc::new(Memory::new());
    let store = Store::on_medium(medium.clone(), options()).expect("opens");
    create(&store, "t", DESIGNS[5]).expect("creates");
    let mut transaction = store.write().expect("writes");
    let mut appender = transaction.appender("t").expect("appends");
    for start in 0..12 {
        appender.push(&batch(start * 5_000..start * 5_000 + 5_000)).expect("takes rows");
    }
    drop(appender);
    drop(transaction);
    assert_eq!(medium.list("temporary/").expect("lists"), Vec::<String>::new());
    assert_eq!(medium.list("segments/").expect("lists"), Vec::<String>::new());
    drop(store);
    // As a killed process leaves it.
    medium.create("temporary/0000000000000007.run").and_then(|mut file| file.append(b"rows")).expect("creates");
    let store = Store::on_medium(medium.clone(), options()).expect("opens");
    insert(&store, "t", &batch(0..10)).expect("inserts");
    assert_eq!(medium.list("temporary/").expect("lists"), Vec::<String>::new());
}
