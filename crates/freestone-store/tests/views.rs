//! Materialized views: whether they are current, what transactions may do at the same time, and what is refused.

mod common;

use std::collections::BTreeSet;

use common::*;
use freestone_store::media::Memory;
use freestone_store::scan::ScanRequest;
use freestone_store::{Definition, MaterializedView, Store, StoreError, WriteTransaction};

/// A table `t` with rows, and a view `v` with the same ones.
fn store(medium: &Memory, on_commit: bool) -> Store {
    let store = open(medium.clone()).expect("opens");
    change(&store, |transaction| {
        transaction.create_table("t", table_schema(), design(DESIGNS[0]))?;
        append(transaction, "t", &batch(0..500))?;
        transaction.create_table("v", table_schema(), design(DESIGNS[5]))?;
        let owner = transaction.table("v")?.id;
        let view = MaterializedView { query: "SELECT * FROM t".into(), on_commit, is_populated: true };
        transaction.create_owned(owner, "", Definition::MaterializedView(view))?;
        compute(transaction)
    });
    store
}

fn change(store: &Store, work: impl FnOnce(&mut WriteTransaction) -> Result<(), StoreError>) {
    let mut transaction = store.write().expect("writes");
    work(&mut transaction).expect("changes");
    transaction.commit().expect("commits");
}

fn compute(transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    let table = transaction.snapshot().table("t").cloned().expect("there");
    let rows = scan(&table, ScanRequest::columns(vec![0, 1, 2, 3, 4]))?;
    transaction.rewrite_view("v", |transaction| {
        rows.iter().filter(|rows| rows.num_rows() > 0).try_for_each(|rows| append(transaction, "v", rows))
    })?;
    transaction.set_current("v", &BTreeSet::from([table.id]))
}

/// Whether the view is current. Then it has the rows of the table.
fn is_current(store: &Store) -> bool {
    let snapshot = store.snapshot().expect("a snapshot");
    let is_current = snapshot.has_rows_of_its_query(snapshot.table("v").expect("there"));
    if is_current {
        let found = digests(&snapshot).expect("sound data");
        assert_eq!(found["v"], found["t"]);
    }
    is_current
}

fn remove(transaction: &mut WriteTransaction, low: i64, high: i64) -> Result<(), StoreError> {
    delete(transaction, "t", keys_between(low, high)).map(|_| ())
}

#[test]
fn changes_of_rows_and_columns_make_it_stale_and_others_do_not() {
    let memory = Memory::new();
    let store = store(&memory, false);
    assert!(is_current(&store));
    let store = {
        change(&store, |transaction| transaction.convert("t", design(DESIGNS[3])));
        change(&store, |transaction| transaction.convert("v", design(DESIGNS[0])));
        store.vacuum(None).expect("vacuums");
        assert!(is_current(&store));
        drop(store);
        open(memory.clone()).expect("opens")
    };
    assert!(is_current(&store));
    type Change = fn(&mut WriteTransaction) -> Result<(), StoreError>;
    let changes: [Change; 6] = [
        |transaction| append(transaction, "t", &batch(1000..1001)),
        |transaction| remove(transaction, 3, 3),
        // As many rows as before.
        |transaction| remove(transaction, 4, 4).and_then(|()| append(transaction, "t", &batch(2000..2001))),
        |transaction| append(transaction, "t", &batch(2001..2002)).and_then(|()| remove(transaction, 5, 5)),
        |transaction| transaction.change_schema("t", |schema| schema.columns[0].nullable = true),
        |transaction| transaction.truncate("t"),
    ];
    for (at, made) in changes.into_iter().enumerate() {
        change(&store, made);
        assert!(!is_current(&store), "change {at}");
        store.vacuum(None).expect("vacuums");
        assert!(!is_current(&store), "change {at}, and VACUUM");
        change(&store, compute);
        assert!(is_current(&store), "change {at}, computed");
    }
    change(&store, |transaction| transaction.drop_table("t"));
    assert!(!{
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.has_rows_of_its_query(snapshot.table("v").expect("there"))
    });
}

#[test]
fn a_transaction_sees_its_own_changes() {
    let store = store(&Memory::new(), false);
    let mut transaction = store.write().expect("writes");
    let is_current = |transaction: &mut WriteTransaction| {
        let snapshot = transaction.snapshot();
        snapshot.has_rows_of_its_query(snapshot.table("v").expect("there"))
    };
    assert!(is_current(&mut transaction));
    remove(&mut transaction, 7, 9).expect("deletes");
    assert!(!is_current(&mut transaction));
    let savepoint = transaction.savepoint();
    compute(&mut transaction).expect("computes");
    assert!(is_current(&mut transaction));
    transaction.roll_back_to(&savepoint).expect("rolls back");
    assert!(!is_current(&mut transaction));
    compute(&mut transaction).expect("computes");
    append(&mut transaction, "t", &batch(3000..3001)).expect("appends");
    assert!(!is_current(&mut transaction));
    transaction.commit().expect("commits");
    assert!(!self::is_current(&store));
}

#[test]
fn what_others_commit_meanwhile_makes_it_stale() {
    type Work = fn(&mut WriteTransaction) -> Result<(), StoreError>;
    let own: [Work; 3] = [
        |_| Ok(()),
        |transaction| append(transaction, "t", &batch(4000..4003)),
        |transaction| remove(transaction, 1, 2),
    ];
    let others: [Work; 3] = [
        |transaction| append(transaction, "t", &batch(5000..5003)),
        |transaction| remove(transaction, 11, 12),
        |transaction| remove(transaction, 13, 13).and_then(|()| append(transaction, "t", &batch(6000..6001))),
    ];
    for own in own {
        for other in others {
            for on_commit in [false, true] {
                let store = store(&Memory::new(), on_commit);
                let mut transaction = store.write().expect("writes");
                own(&mut transaction).expect("changes");
                compute(&mut transaction).expect("computes");
                change(&store, other);
                match transaction.commit() {
                    Ok(_) => assert!(!on_commit),
                    Err(error) => {
                        assert!(on_commit && error.to_string().contains("which materialized view v reads"), "{error}");
                    }
                }
                assert!(!is_current(&store));
                change(&store, compute);
                assert!(is_current(&store));
            }
        }
    }
}

#[test]
fn changes_of_tables_do_not_conflict_because_of_a_view() {
    let store = store(&Memory::new(), false);
    let mut transaction = store.write().expect("writes");
    remove(&mut transaction, 1, 2).expect("deletes");
    let mut dropping = store.write().expect("writes");
    dropping.drop_table("v").expect("drops");
    change(&store, |transaction| remove(transaction, 20, 30));
    change(&store, |transaction| append(transaction, "t", &batch(7000..7001)));
    dropping.commit().expect("commits");
    transaction.commit().expect("commits");
    assert!(store.snapshot().expect("a snapshot").materialized_views().is_empty());
}

#[test]
fn its_rows_change_only_as_a_whole() {
    let store = store(&Memory::new(), false);
    let mut transaction = store.write().expect("writes");
    let results = [
        append(&mut transaction, "v", &batch(1..2)),
        transaction.truncate("v"),
        transaction.delete_all("v").map(|_| ()),
        delete(&mut transaction, "v", keys_between(1, 2)).map(|_| ()),
        transaction.replacing_appender("v").map(|_| ()),
        transaction.delete_changed("v", [0], &|_| true).map(|_| ()),
    ];
    for (at, result) in results.into_iter().enumerate() {
        let error = result.expect_err("refused").to_string();
        assert!(error.contains("v is a materialized view"), "{at}: {error}");
    }
    assert!(is_current(&store));
}
