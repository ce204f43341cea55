//! Tables in persistent memory: the same rows as other tables, snapshots while others write, commits with disk tables,
//! full pools, changed columns, and reopening after the end of a process.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use common::*;
use freestone_store::design::Design;
use freestone_store::media::region::{CrashPoint, MemoryRegion, Region, TrackedRegion};
use freestone_store::media::{FaultPlan, Faulty, Medium, Memory};
use freestone_store::scan::{ColumnPredicate, ScanMetrics, ScanRequest, lookup, pool_choice};
use freestone_store::schema::{Column, StoredValue, TableSchema, UniqueKey};
use freestone_store::{Emulation, PmemOptions, Snapshot, Store, StoreError, StoreOptions, WriteTransaction};

const PMEM: Options = &[("medium", "pmem")];
const CLUSTERED: Options = &[("medium", "pmem"), ("cluster", "g:4, k:4")];

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
        let pmem =
            PmemOptions { emulated: Some(Emulation::default()), bytes: self.bytes, region: Some(self.region.clone()) };
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
    let between = |snapshot: &Snapshot, low: i64, high: i64| {
        let table = snapshot.table("t").expect("the table");
        let mut request = ScanRequest::columns(vec![0]);
        request.predicates = vec![ColumnPredicate { column: 0, predicate: keys_between(low, high) }];
        let by_index = pool_choice(table, &request).expect("a choice").expect("it is in the pool").by_index;
        let metrics = Arc::new(ScanMetrics::default());
        let batches = lookup(table, &Arc::new(request), &metrics).expect("found");
        (by_index, batches.iter().map(|batch| batch.num_rows()).sum::<usize>())
    };
    assert_eq!((between(&before, 5, 30), between(&after, 5, 30)), ((true, 26), (true, 16)));
    assert_eq!((between(&before, -9, 50_000), between(&after, -9, 50_000)), ((false, 20_000), (false, 22_990)));
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
    let used = |store: &Store| store.pool_state().map(|pool| pool.units.0 - pool.units.1).expect("a pool");
    drop(snapshot);
    assert!(store.merge_is_due());
    while store.merge_runs(16 << 20, || true).expect("merges") {}
    assert!(used(&store) < 30, "the coldest blocks are in files: {} of 32 are used", used(&store));
    assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(0..60_000));
    change(&store, |transaction| delete(transaction, "t", keys_between(0, 49_999)).map(drop));
    store.vacuum(None).expect("vacuums");
    assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(50_000..60_000));
    drop(store);
    let store = world.open();
    assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(50_000..60_000));
    is_sound(&store);
}

/// The rows of both media, read in both orders after reopening: their pages must not take each other's places in the cache.
#[test]
fn tables_of_both_media_are_apart_after_reopening() {
    const BOTH: [&str; 2] = ["disk", "t"];
    let world = World::new(64 << 20);
    let store = world.open();
    create(&store, "disk", keyed_schema(), &[]);
    create(&store, "t", keyed_schema(), CLUSTERED);
    let mut expected: BTreeSet<i64> = (0..40_000).collect();
    for table in BOTH {
        change(&store, |transaction| append(transaction, table, &batch(0..40_000)));
    }
    drop(store);
    for round in 0..6 {
        let store = world.open();
        let order = if round % 2 == 0 { BOTH } else { [BOTH[1], BOTH[0]] };
        let segments: Vec<u64> = {
            let snapshot = store.snapshot().expect("a snapshot");
            for table in order {
                assert_eq!(digest(&snapshot, table), digest_of(expected.iter().copied()), "round {round}, {table}");
                for key in (0..45_000).step_by(997) {
                    let is_there = usize::from(expected.contains(&key));
                    assert_eq!(found(&snapshot, table, key).0, is_there, "round {round}, {table}, {key}");
                }
            }
            snapshot.tables().flat_map(|table| table.segments.iter().map(|entry| entry.id)).collect()
        };
        let distinct: BTreeSet<u64> = segments.iter().copied().collect();
        assert_eq!(distinct.len(), segments.len(), "round {round}: {segments:?}");
        let low = round * 5000;
        for table in order {
            change(&store, |transaction| delete(transaction, table, keys_between(low, low + 999)).map(drop));
            change(&store, |transaction| append(transaction, table, &batch(40_000 + low..40_100 + low)));
        }
        expected.retain(|key| !(low..low + 1000).contains(key));
        expected.extend(40_000 + low..40_100 + low);
        if round == 3 {
            change(&store, |transaction| transaction.convert("t", design(&[("design", "row")])));
            change(&store, |transaction| transaction.convert("disk", design(PMEM)));
        }
        for table in order {
            assert_eq!(digest(&store.snapshot().expect("a snapshot"), table), digest_of(expected.iter().copied()));
        }
        is_sound(&store);
    }
}

/// Whatever a commit lacks room for, blocks, leaves, or its redo slot: it succeeds.
#[test]
fn no_insertion_fails_because_the_pool_is_full() {
    for seed in 0..6 {
        let mut numbers = fastrand::Rng::with_seed(seed);
        let world = World::new((1 + seed) << 19);
        let store = world.open();
        create(&store, "t", keyed_schema(), if seed % 2 == 0 { PMEM } else { CLUSTERED });
        let mut next = 0;
        while next < 40_000 {
            let count = [1, 30, 700, 2500, 9000][numbers.usize(..5)];
            change(&store, |transaction| append(transaction, "t", &batch(next..next + count)));
            next += count;
        }
        assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(0..next), "seed {seed}");
        is_sound(&store);
        drop(store);
        assert_eq!(digest(&world.open().snapshot().expect("a snapshot"), "t"), digest_of(0..next), "seed {seed}");
    }
}

/// The pool is a file in the folder of the database.
#[cfg(target_os = "linux")]
#[test]
fn a_pool_that_cannot_be_used_is_named_and_others_can() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let options = |read_only| {
        let pmem = PmemOptions { emulated: Some(Emulation::default()), bytes: 16 << 20, region: None };
        StoreOptions { pmem, read_only, ..options() }
    };
    let store = Store::open(&path, options(false)).expect("opens");
    create(&store, "t", keyed_schema(), PMEM);
    create(&store, "disk", table_schema(), &[]);
    ["t", "disk"].iter().for_each(|table| change(&store, |transaction| append(transaction, table, &batch(0..2000))));
    let reason = |store: &Store| {
        let snapshot = store.snapshot().expect("a snapshot");
        assert_eq!(keys(&snapshot, "disk").len(), 2000);
        let available = snapshot.table("t").expect("the table").check_available();
        available.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(reason(&store), "");
    let file = path.join("pool.pmem");
    drop(store);
    let sound = std::fs::read(&file).expect("the pool");
    let with = |content: Option<&[u8]>, expected: &str| {
        std::fs::remove_file(&file).expect("removed");
        content.into_iter().for_each(|content| std::fs::write(&file, content).expect("written"));
        for read_only in [false, true] {
            let reason = reason(&Store::open(&path, options(read_only)).expect("opens"));
            assert!(reason.contains("table t") && reason.contains("pool.pmem"), "{reason}");
            assert!(reason.contains(expected), "{expected}: {reason}");
        }
    };
    let mut other = sound.clone();
    other[16] ^= 1;
    let check = u64::from(freestone_store::page::checksum(&other[..32]));
    other[32..40].copy_from_slice(&check.to_le_bytes());
    let mut damaged = sound.clone();
    damaged[8] ^= 1;
    with(Some(&sound[..sound.len() / 4096 * 2048]), "cut short");
    with(Some(&other), "belongs to database");
    with(Some(&damaged), "checksum");
    with(None, "o such file");
    std::fs::write(&file, &sound).expect("written");
    let store = Store::open(&path, options(false)).expect("opens");
    change(&store, |transaction| append(transaction, "t", &batch(2000..2010)));
    drop(store);
    let newer = std::fs::read(&file).expect("the pool");
    with(Some(&sound), "older than the commit log");
    std::fs::write(&file, &newer).expect("written");
    let store = Store::open(&path, options(false)).expect("opens");
    change(&store, |transaction| delete(transaction, "t", keys_between(2000, 2009)).map(drop));
    // Under the process that writes it.
    std::fs::rename(&file, path.join("moved")).expect("moved");
    let mut transaction = store.write().expect("writes");
    append(&mut transaction, "t", &batch(2000..2010)).expect("appends");
    assert!(transaction.commit().expect_err("it is gone").to_string().contains("pool.pmem is not the file"));
    std::fs::rename(path.join("moved"), &file).expect("moved");
    drop(store);
    let store = Store::open(&path, options(false)).expect("opens");
    assert_eq!(digest(&store.snapshot().expect("a snapshot"), "t"), digest_of(0..2000), "nothing was deleted");
    is_sound(&store);
}

/// A database in a folder, which several stores open as if they were processes.
#[cfg(target_os = "linux")]
struct Folder(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn open(&self, read_only: bool, bytes: u64) -> Store {
        let pmem = PmemOptions { emulated: Some(Emulation::default()), bytes, region: None };
        Store::open(&self.0.path().join("db"), StoreOptions { pmem, read_only, ..options() }).expect("opens")
    }
}

#[cfg(target_os = "linux")]
#[test]
fn other_processes_read_what_one_writes() {
    let folder = Folder::new();
    let writer = folder.open(false, 64 << 20);
    let early = folder.open(true, 64 << 20);
    assert!(early.snapshot().expect("a snapshot").table("t").is_none());
    create(&writer, "t", keyed_schema(), CLUSTERED);
    change(&writer, |transaction| append(transaction, "t", &batch(0..3000)));
    let readers = [early, folder.open(true, 64 << 20), folder.open(false, 64 << 20)];
    let mut kept = vec![];
    let mut expected: BTreeSet<i64> = (0..3000).collect();
    for round in 0..12 {
        for reader in &readers {
            let snapshot = reader.snapshot().expect("a snapshot");
            assert_eq!(digest(&snapshot, "t"), digest_of(expected.iter().copied()), "round {round}");
            assert_eq!(found(&snapshot, "t", 2999 - round).0, usize::from(expected.contains(&(2999 - round))));
            kept.push((snapshot, expected.clone()));
        }
        // Slots become free and are written again, blocks are divided and removed, and a transaction has both media.
        change(&writer, |transaction| {
            delete(transaction, "t", keys_between(round * 200, round * 200 + 250))?;
            append(transaction, "t", &batch(4000 + round * 300..4000 + round * 300 + 300))
        });
        expected.retain(|key| !(round * 200..=round * 200 + 250).contains(key));
        expected.extend(4000 + round * 300..4000 + round * 300 + 300);
        for (snapshot, expected) in &kept {
            assert_eq!(digest(snapshot, "t"), digest_of(expected.iter().copied()), "round {round}: an old snapshot");
        }
        if round % 4 == 3 {
            kept.drain(..6);
        }
    }
    // Another process takes over, while snapshots are kept.
    let [first, second, third] = readers;
    drop(writer);
    assert_eq!(digest(&first.snapshot().expect("a snapshot"), "t"), digest_of(expected.iter().copied()));
    for round in 0..6 {
        change(&third, |transaction| {
            delete(transaction, "t", keys_between(2500 + round * 300, 2500 + round * 300 + 280))?;
            append(transaction, "t", &batch(9000 + round * 400..9000 + round * 400 + 400))
        });
        expected.retain(|key| !(2500 + round * 300..=2500 + round * 300 + 280).contains(key));
        expected.extend(9000 + round * 400..9000 + round * 400 + 400);
        for reader in [&first, &second, &third] {
            assert_eq!(digest(&reader.snapshot().expect("one"), "t"), digest_of(expected.iter().copied()), "{round}");
        }
        for (snapshot, expected) in &kept {
            assert_eq!(digest(snapshot, "t"), digest_of(expected.iter().copied()), "{round}: a snapshot of before");
        }
    }
    is_sound(&third);
    is_sound(&first);
    kept.clear();
    change(&third, |transaction| append(transaction, "t", &batch(20_000..20_001)));
    let state = third.pool_state().expect("a pool");
    assert!(state.units.1 > 0, "units that nobody has are free");
    // A table that is dropped remains for who has it.
    let last = first.snapshot().expect("a snapshot");
    let before = digest(&last, "t");
    change(&third, |transaction| transaction.drop_table("t"));
    create(&third, "u", table_schema(), PMEM);
    change(&third, |transaction| append(transaction, "u", &batch(0..9000)));
    assert_eq!(digest(&last, "t"), before);
    let now = second.snapshot().expect("a snapshot");
    assert!(now.table("t").is_none());
    assert_eq!(digest(&now, "u"), digest_of(0..9000));
    drop((third, first));
    let again = folder.open(false, 64 << 20);
    is_sound(&again);
    assert_eq!(digest(&last, "t"), before, "also when another process begins");
}

/// A committed change that the process which made it did not finish, as a crash leaves it: row 0 of the first block is removed.
/// Returns the pool's bytes with it.
#[cfg(target_os = "linux")]
fn with_interrupted_change(pool: &[u8]) -> Vec<u8> {
    const UNIT: usize = 32 << 10;
    let word = |at: usize| u64::from_le_bytes(pool[at..at + 8].try_into().expect("8 bytes"));
    let seal = |value: u64| value | ((value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) | 1) << 48;
    let unit =
        |kind: u8| (1..pool.len() / UNIT).find(|unit| pool[unit * UNIT..][..5] == [b'F', b'P', b'U', b'1', kind]);
    let (table, block) = (unit(1).expect("a table") * UNIT, unit(2).expect("a block"));
    let validity = block * UNIT + 64;
    let content = [validity as u64, word(validity) & !1, (block << 16) as u64];
    let bytes: Vec<u8> = content.iter().flat_map(|word| word.to_le_bytes()).collect();
    let check = u64::from(freestone_store::page::checksum(&bytes));
    let mut pool = pool.to_vec();
    pool[table + 104..][..8].copy_from_slice(&seal(2 << 46 | 1 << 23 | 1).to_le_bytes());
    pool[table + 128..][..8].copy_from_slice(&check.to_le_bytes());
    pool[table + 136..][..24].copy_from_slice(&bytes);
    pool
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_finishes_an_interrupted_change_in_a_copy() {
    let folder = Folder::new();
    let writer = folder.open(false, 16 << 20);
    create(&writer, "t", keyed_schema(), PMEM);
    change(&writer, |transaction| append(transaction, "t", &batch(0..3)));
    drop(writer);
    let path = folder.0.path().join("db/pool.pmem");
    let pool = with_interrupted_change(&std::fs::read(&path).expect("the pool"));
    std::fs::write(&path, &pool).expect("written");
    let reader = folder.open(true, 16 << 20);
    let copy = reader.snapshot().expect("a snapshot");
    assert_eq!(keys(&copy, "t"), [1, 2]);
    assert_eq!(std::fs::read(&path).expect("the pool"), pool, "a reader changes nothing");
    let writer = folder.open(false, 16 << 20);
    change(&writer, |transaction| append(transaction, "t", &batch(7..9)));
    assert_eq!(keys(&reader.snapshot().expect("a snapshot"), "t"), [1, 2, 7, 8]);
    assert_eq!(keys(&copy, "t"), [1, 2]);
    is_sound(&writer);
}

/// Old snapshots of readers, while the pool is short and blocks are moved to files.
#[cfg(target_os = "linux")]
#[test]
fn readers_keep_what_leaves_the_pool() {
    let folder = Folder::new();
    let writer = folder.open(false, 3 << 20);
    create(&writer, "t", keyed_schema(), PMEM);
    let reader = folder.open(true, 3 << 20);
    let mut kept = vec![];
    for round in 0..20 {
        change(&writer, |transaction| append(transaction, "t", &batch(round * 2000..round * 2000 + 2000)));
        let snapshot = reader.snapshot().expect("a snapshot");
        assert_eq!(digest(&snapshot, "t"), digest_of(0..round * 2000 + 2000));
        if round % 3 == 0 {
            kept.push((snapshot, round));
        }
        // While snapshots keep blocks, there may be no room even for moving others.
        while writer.merge_runs(16 << 20, || true).unwrap_or(false) {}
        for (snapshot, round) in &kept {
            assert_eq!(digest(snapshot, "t"), digest_of(0..round * 2000 + 2000));
        }
    }
    is_sound(&writer);
    kept.clear();
    drop(reader);
    while writer.merge_runs(16 << 20, || true).expect("merges") {}
    let used = writer.pool_state().map(|pool| pool.units.0 - pool.units.1).expect("a pool");
    assert!(used <= 90, "the coldest blocks are in files: {used} of 96 are used");
    assert_eq!(digest(&writer.snapshot().expect("a snapshot"), "t"), digest_of(0..40_000));
}

/// Random transactions on a table in persistent memory and one on disk, with old snapshots and open transactions
/// at the same time.
fn random(seed: u64, schema: TableSchema, options: Options) {
    let mut numbers = fastrand::Rng::with_seed(seed);
    let world = World::new(256 << 20);
    let mut store = world.open();
    create(&store, "t", schema.clone(), options);
    create(&store, "disk", schema, &[]);
    let mut model: BTreeSet<i64> = BTreeSet::new();
    let mut past: Vec<(Arc<Snapshot>, Digest)> = vec![];
    let mut next = 0;
    for step in 0..120 {
        let mut transaction = store.write().expect("writes");
        // Another transaction with the same base changes other rows, and commits first.
        let other = numbers.bool().then(|| store.write().expect("writes"));
        let count = [1, 1, 3, 700][numbers.usize(..4)];
        let mut changed = model.clone();
        let low = numbers.i64(0..next.max(1));
        let width = [0, 0, 5, 300][numbers.usize(..4)];
        // Both tables have the same rows.
        for table in ["t", "disk"] {
            delete(&mut transaction, table, keys_between(low, low + width)).expect("deletes");
            append(&mut transaction, table, &batch(next..next + count)).expect("appends");
        }
        changed.retain(|key| !(low..=low + width).contains(key));
        changed.extend(next..next + count);
        next += count;
        if let Some(mut other) = other {
            let added = [1, 400][numbers.usize(..2)];
            ["t", "disk"].iter().for_each(|table| append(&mut other, table, &batch(next..next + added)).expect("adds"));
            other.commit().expect("commits");
            changed.extend(next..next + added);
            next += added;
        }
        if numbers.u8(..8) == 0 {
            drop(transaction);
            let snapshot = store.snapshot().expect("a snapshot");
            model = keys(&snapshot, "t").into_iter().collect();
        } else {
            transaction.commit().expect("commits");
            model = changed;
        }
        let snapshot = store.snapshot().expect("a snapshot");
        let expected: Vec<i64> = model.iter().copied().collect();
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
    assert_eq!(digest(&snapshot, "t"), digest_of(model.iter().copied()));
    assert_eq!(digest(&snapshot, "disk"), digest_of(model.iter().copied()));
    is_sound(&store);
}

#[test]
fn random_transactions_leave_what_they_should() {
    for seed in 0..4 {
        random(seed, table_schema(), PMEM);
        random(seed + 10, keyed_schema(), CLUSTERED);
    }
}

/// Bytes of the pool in the tests of crashes.
const CRASH_BYTES: u64 = 48 * (32 << 10);

/// What a database has: the keys of two tables in persistent memory and of one on disk.
type Content = [Vec<i64>; 3];

const TABLES: [&str; 3] = ["t", "u", "disk"];

fn content(store: &Store) -> Content {
    let snapshot = store.snapshot().expect("a snapshot");
    TABLES.map(|table| keys(&snapshot, table))
}

/// Opens what a crash left, and changes it.
fn survivor(medium: Memory, words: &[u64]) -> Content {
    let region = MemoryRegion::of_words(words, CRASH_BYTES);
    let world = World { medium: Arc::new(medium), region: Arc::new(region), bytes: CRASH_BYTES };
    let store = world.open();
    let found = content(&store);
    is_sound(&store);
    let mut expected = found.clone();
    change(&store, |transaction| TABLES.iter().try_for_each(|table| append(transaction, table, &batch(9999..10_000))));
    expected.iter_mut().for_each(|keys| keys.push(9999));
    assert_eq!(content(&store), expected, "a change after the crash");
    found
}

/// Every crash leaves a transaction as a whole or not at all, in the pool and in the log together.
#[test]
fn crashes_leave_whole_transactions_on_both_media() {
    let faulty = Faulty::on_memory(Memory::new(), FaultPlan::default());
    let region = Arc::new(TrackedRegion::of_words(vec![], CRASH_BYTES));
    let world = World { medium: Arc::new(faulty.clone()), region: region.clone(), bytes: CRASH_BYTES };
    let store = world.open();
    create(&store, "t", keyed_schema(), PMEM);
    create(&store, "u", table_schema(), PMEM);
    create(&store, "disk", table_schema(), &[]);
    change(&store, |transaction| TABLES.iter().try_for_each(|table| append(transaction, table, &batch(0..600))));
    let mut model = content(&store);
    let expected = Arc::new(Mutex::new((model.clone(), model.clone())));
    let (images, both) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (seen, counted, before_and_after, medium) = (expected.clone(), images.clone(), both.clone(), faulty.clone());
    region.observe(Some(Arc::new(move |point: CrashPoint| {
        let seed = counted.load(Ordering::Relaxed);
        for words in point.images(3, seed) {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let found = survivor(medium.crash(number), &words);
            let (before, after) = seen.lock().expect("no panic").clone();
            assert!(found == before || found == after, "content {number}: neither before nor after");
            before_and_after.fetch_add(u64::from(before != after && found == after), Ordering::Relaxed);
        }
    })));
    let mut numbers = fastrand::Rng::with_seed(7);
    for step in 0..40 {
        let which: Vec<usize> = match numbers.u8(..5) {
            0 => vec![0],
            1 => vec![1],
            2 => vec![0, 2],
            3 => vec![0, 1],
            _ => vec![0, 1, 2],
        };
        let (low, first) = (numbers.i64(0..700), 1000 + step * 10);
        let (width, count) = ([0, 3, 40][numbers.usize(..3)], [0, 1, 1, 5][numbers.usize(..4)]);
        let mut next = model.clone();
        for at in &which {
            next[*at].retain(|key| !(low..=low + width).contains(key));
            next[*at].extend(first..first + count);
        }
        *expected.lock().expect("no panic") = (model.clone(), next.clone());
        change(&store, |transaction| {
            for at in &which {
                delete(transaction, TABLES[*at], keys_between(low, low + width))?;
                append(transaction, TABLES[*at], &batch(first..first + count))?;
            }
            Ok(())
        });
        assert_eq!(content(&store), next, "step {step}");
        *expected.lock().expect("no panic") = (next.clone(), next.clone());
        model = next;
    }
    region.observe(None);
    let (images, after) = (images.load(Ordering::Relaxed), both.load(Ordering::Relaxed));
    assert!(images > 300 && after > 20, "{images} contents, {after} of them with the transaction under way");
}
