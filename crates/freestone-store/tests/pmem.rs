//! Tables in persistent memory: the same rows as other tables, snapshots beside the writer, commits with disk tables,
//! full pools, changed columns, and reopening after the end of a process.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use common::*;
use freestone_store::design::Design;
use freestone_store::media::region::{MemoryRegion, Region};
use freestone_store::media::{Medium, Memory};
use freestone_store::scan::{ColumnPredicate, ScanMetrics, ScanRequest, lookup};
use freestone_store::schema::{Column, StoredValue, TableSchema, UniqueKey};
use freestone_store::{PmemOptions, Snapshot, Store, StoreError, StoreOptions, WriteTransaction};

const PMEM: Options = &[("medium", "pmem")];
const CLUSTERED: Options = &[("medium", "pmem"), ("cluster", "g(4), k(4)")];

/// A database whose log and pool survive the store.
struct World {
    medium: Arc<dyn Medium>,
    region: Arc<dyn Region>,
    bytes: u64,
}

impl World {
    fn new(bytes: u64) -> World {
        World { medium: Arc::new(Memory::new()), region: Arc::new(MemoryRegion::new(0, bytes)), bytes }
    }

    fn open(&self) -> Store {
        let pmem = PmemOptions { emulated: true, bytes: self.bytes, region: Some(self.region.clone()) };
        Store::on_medium(self.medium.clone(), StoreOptions { pmem, ..options() }).expect("opens")
    }
}

fn keyed_schema() -> TableSchema {
    let mut schema = table_schema();
    schema.primary_key = vec!["k".into()];
    schema.unique_keys = vec![UniqueKey { name: "t_pkey".into(), columns: vec!["k".into()] }];
    schema.validated().expect("a key")
}

fn create(store: &Store, name: &str, schema: TableSchema, options: Options) {
    let design = Design::default().with_options(options.iter().copied(), &schema).expect("a design");
    change(store, |transaction| transaction.create_table(name, schema, design));
}

fn change(store: &Store, work: impl FnOnce(&mut WriteTransaction) -> Result<(), StoreError>) {
    let mut transaction = store.write().expect("writes");
    work(&mut transaction).expect("changes");
    transaction.commit().expect("commits");
}

fn keys(snapshot: &Snapshot, table: &str) -> Vec<i64> {
    let table = snapshot.table(table).expect("the table");
    let batches = scan(table, ScanRequest::columns(vec![0])).expect("scans");
    let mut keys: Vec<i64> =
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    keys.sort_unstable();
    keys
}

fn digest(snapshot: &Snapshot, table: &str) -> Digest {
    let table = snapshot.table(table).expect("the table");
    let mut digest = Digest::default();
    let columns = (0..table.schema.columns.len()).collect();
    scan(table, ScanRequest::columns(columns)).expect("scans").iter().for_each(|batch| digest.add(batch));
    digest
}

/// The rows of `batch` with these keys.
fn digest_of(keys: impl IntoIterator<Item = i64>) -> Digest {
    let mut digest = Digest::default();
    keys.into_iter().for_each(|key| digest.add(&batch(key..key + 1)));
    digest
}

fn found(snapshot: &Snapshot, table: &str, key: i64) -> (usize, u64) {
    let table = snapshot.table(table).expect("the table");
    let mut request = ScanRequest::columns(vec![0]);
    request.predicates = vec![ColumnPredicate { column: 0, predicate: keys_between(key, key) }];
    let metrics = Arc::new(ScanMetrics::default());
    let batches = lookup(table, &Arc::new(request), &metrics).expect("found");
    (batches.iter().map(|batch| batch.num_rows()).sum(), metrics.totals().rows_scanned)
}

fn is_sound(store: &Store) {
    let report = store.check(None).expect("checks");
    assert_eq!(report.problems, [""; 0]);
}

#[test]
fn rows_are_in_the_pool_and_survive_the_process() {
    for (schema, options) in [(table_schema(), PMEM), (keyed_schema(), PMEM), (keyed_schema(), CLUSTERED)] {
        let world = World::new(64 << 20);
        let store = world.open();
        create(&store, "t", schema, options);
        change(&store, |transaction| append(transaction, "t", &batch(0..5000)));
        let snapshot = store.snapshot().expect("a snapshot");
        assert!(snapshot.table("t").expect("the table").segments.iter().all(|entry| entry.is_in_pool()));
        assert_eq!(digest(&snapshot, "t"), digest_of(0..5000));
        change(&store, |transaction| {
            delete(transaction, "t", keys_between(100, 199)).map(|rows| assert_eq!(rows, 100))
        });
        change(&store, |transaction| append(transaction, "t", &batch(7000..7001)));
        let expected: Vec<i64> = (0..100).chain(200..5000).chain(7000..7001).collect();
        assert_eq!(digest(&snapshot, "t"), digest_of(0..5000), "a snapshot does not change");
        assert_eq!(keys(&store.snapshot().expect("a snapshot"), "t"), expected);
        is_sound(&store);
        drop((snapshot, store));
        let store = world.open();
        assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(expected));
        is_sound(&store);
    }
}

#[test]
fn a_key_is_looked_up_in_the_tree_by_every_snapshot() {
    let world = World::new(64 << 20);
    let store = world.open();
    create(&store, "t", keyed_schema(), PMEM);
    change(&store, |transaction| append(transaction, "t", &batch(0..20_000)));
    let before = store.snapshot().expect("a snapshot");
    assert_eq!(found(&before, "t", 17), (1, 1), "no other row is looked at");
    assert_eq!(found(&before, "t", 20_017).0, 0);
    change(&store, |transaction| delete(transaction, "t", keys_between(10, 19)).map(drop));
    (20_000..23_000).for_each(|key| change(&store, |transaction| append(transaction, "t", &batch(key..key + 1))));
    let after = store.snapshot().expect("a snapshot");
    assert_eq!((found(&before, "t", 17).0, found(&after, "t", 17).0), (1, 0));
    assert_eq!((found(&before, "t", 21_000).0, found(&after, "t", 21_000).0), (0, 1));
    for key in (0..20_000).step_by(501).filter(|key| !(10..20).contains(key)) {
        assert_eq!((found(&before, "t", key).0, found(&after, "t", key).0), (1, 1), "{key}");
    }
}

#[test]
fn a_medium_that_is_not_there_is_refused() {
    let store = open(Memory::new()).expect("opens");
    let design = design(PMEM);
    let mut transaction = store.write().expect("writes");
    let error = transaction.create_table("t", table_schema(), design.clone()).expect_err("no pool").to_string();
    assert!(error.contains("--pmem emulated"), "{error}");
    drop(transaction);
    let world = World::new(64 << 20);
    let store = world.open();
    create(&store, "t", table_schema(), PMEM);
    create(&store, "disk", table_schema(), &[]);
    change(&store, |transaction| append(transaction, "t", &batch(0..10)));
    change(&store, |transaction| append(transaction, "disk", &batch(0..10)));
    drop(store);
    let store = Store::on_medium(world.medium.clone(), options()).expect("opens without its pool");
    let snapshot = store.snapshot().expect("a snapshot");
    assert_eq!(keys(&snapshot, "disk").len(), 10);
    let error = snapshot.table("t").expect("the table").check_available().expect_err("no pool").to_string();
    assert!(error.contains("table t is in persistent memory"), "{error}");
    let mut transaction = store.write().expect("writes");
    assert!(append(&mut transaction, "t", &batch(0..1)).is_err());
    drop(transaction);
    change(&store, |transaction| transaction.drop_table("t"));
    drop((snapshot, store));
    let store = world.open();
    assert_eq!(store.pool_state().expect("a pool").tables, []);
    assert_eq!(keys(&store.snapshot().expect("a snapshot"), "disk").len(), 10);
}

#[test]
fn tables_move_between_media_and_columns_change() {
    let world = World::new(64 << 20);
    let store = world.open();
    create(&store, "t", keyed_schema(), &[]);
    change(&store, |transaction| append(transaction, "t", &batch(0..3000)));
    change(&store, |transaction| transaction.convert("t", design(PMEM)));
    let table = |store: &Store| store.snapshot().expect("a snapshot").table("t").expect("the table").clone();
    assert!(table(&store).segments.iter().all(|entry| entry.is_in_pool()));
    assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(0..3000));
    change(&store, |transaction| {
        let column = Column { name: "n".into(), data_type: arrow_schema::DataType::Int64, nullable: true };
        transaction.change_schema("t", |schema| schema.add_column(column, StoredValue::Int(7)))
    });
    change(&store, |transaction| delete(transaction, "t", keys_between(0, 9)).map(drop));
    assert_eq!(keys(&store.snapshot().expect("a snapshot"), "t"), (10..3000).collect::<Vec<_>>());
    change(&store, |transaction| transaction.change_schema("t", |schema| schema.drop_column(5)));
    change(&store, |transaction| append(transaction, "t", &batch(0..10)));
    drop(store);
    let store = world.open();
    assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(0..3000));
    is_sound(&store);
    change(&store, |transaction| transaction.convert("t", Design::default()));
    assert!(table(&store).segments.iter().all(|entry| entry.is_in_file()));
    assert_eq!(store.pool_state().expect("a pool").tables, []);
    drop(store);
    let store = world.open();
    assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(0..3000));
    let pool = store.pool_state().expect("a pool");
    assert_eq!((pool.tables, pool.units.0 - pool.units.1), (vec![], 1), "all is free but the superblock");
}

#[test]
fn rows_for_which_the_pool_has_no_room_are_kept_elsewhere() {
    let world = World::new(1 << 20);
    let store = world.open();
    create(&store, "t", keyed_schema(), PMEM);
    for start in (0..60_000).step_by(3000) {
        change(&store, |transaction| append(transaction, "t", &batch(start..start + 3000)));
    }
    let snapshot = store.snapshot().expect("a snapshot");
    let table = snapshot.table("t").expect("the table");
    assert!(table.segments.iter().any(|entry| entry.is_in_pool()));
    assert!(!table.segments.iter().all(|entry| entry.is_in_pool()));
    assert_eq!(digest(&snapshot, "t"), digest_of(0..60_000));
    change(&store, |transaction| delete(transaction, "t", keys_between(0, 49_999)).map(drop));
    store.vacuum(None).expect("vacuums");
    assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(50_000..60_000));
    drop((snapshot, store));
    let store = world.open();
    assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(50_000..60_000));
    is_sound(&store);
}

/// Random transactions on a table in persistent memory and one on disk, with old snapshots and open transactions beside.
fn random(seed: u64, schema: TableSchema, options: Options) {
    let mut numbers = fastrand::Rng::with_seed(seed);
    let world = World::new(256 << 20);
    let mut store = world.open();
    create(&store, "t", schema.clone(), options);
    create(&store, "disk", schema, &[]);
    let mut model: BTreeMap<i64, ()> = BTreeMap::new();
    let mut past: Vec<(Arc<Snapshot>, Digest)> = vec![];
    let mut next = 0;
    for step in 0..120 {
        let disk = numbers.u8(..3) == 0;
        let mut transaction = store.write().expect("writes");
        // Another transaction with the same base changes other rows, and commits first.
        let beside = numbers.bool().then(|| store.write().expect("writes"));
        let count = [1, 1, 3, 700][numbers.usize(..4)];
        let mut changed = model.clone();
        let low = numbers.i64(0..next.max(1));
        let width = [0, 0, 5, 300][numbers.usize(..4)];
        for table in ["t", "disk"].iter().take(if disk { 2 } else { 1 }) {
            delete(&mut transaction, table, keys_between(low, low + width)).expect("deletes");
            append(&mut transaction, table, &batch(next..next + count)).expect("appends");
        }
        if !disk {
            // Both tables have the same rows.
            delete(&mut transaction, "disk", keys_between(low, low + width)).expect("deletes");
            append(&mut transaction, "disk", &batch(next..next + count)).expect("appends");
        }
        (low..=low + width).for_each(|key| {
            changed.remove(&key);
        });
        (next..next + count).for_each(|key| {
            changed.insert(key, ());
        });
        next += count;
        if let Some(mut beside) = beside {
            let added = [1, 400][numbers.usize(..2)];
            ["t", "disk"]
                .iter()
                .for_each(|table| append(&mut beside, table, &batch(next..next + added)).expect("adds"));
            beside.commit().expect("commits");
            (next..next + added).for_each(|key| {
                changed.insert(key, ());
            });
            next += added;
        }
        if numbers.u8(..8) == 0 {
            drop(transaction);
            let snapshot = store.snapshot().expect("a snapshot");
            model = keys(&snapshot, "t").into_iter().map(|key| (key, ())).collect();
        } else {
            transaction.commit().expect("commits");
            model = changed;
        }
        let snapshot = store.snapshot().expect("a snapshot");
        let expected: Vec<i64> = model.keys().copied().collect();
        assert_eq!(keys(&snapshot, "t"), expected, "seed {seed}, step {step}");
        assert_eq!(keys(&snapshot, "disk"), expected, "seed {seed}, step {step}");
        let digest_now = digest(&snapshot, "t");
        past.push((snapshot, digest_now));
        let at = numbers.usize(..past.len());
        assert_eq!(digest(&past[at].0, "t"), past[at].1, "seed {seed}, step {step}: an old snapshot");
        if past.len() > 6 {
            past.remove(numbers.usize(..6));
        }
        if numbers.u8(..20) == 0 {
            past.clear();
            is_sound(&store);
            drop(store);
            store = world.open();
        }
    }
    past.clear();
    is_sound(&store);
    drop(store);
    let store = world.open();
    let snapshot = store.snapshot().expect("a snapshot");
    assert_eq!(digest(&snapshot, "t"), digest_of(model.keys().copied()));
    assert_eq!(digest(&snapshot, "disk"), digest_of(model.keys().copied()));
    is_sound(&store);
}

#[test]
fn random_transactions_leave_what_they_should() {
    for seed in 0..4 {
        random(seed, table_schema(), PMEM);
        random(seed + 10, keyed_schema(), CLUSTERED);
    }
}
