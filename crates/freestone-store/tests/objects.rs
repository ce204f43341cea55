//! Objects of the catalog that are no tables: conflicts of transactions, what goes with what, versions, recovery.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::*;
use freestone_store::media::Memory;
use freestone_store::{Comments, Definition, ObjectKind, Position, Sequence, Store, StoreError, WriteTransaction};

fn store() -> Store {
    let store = open(Memory::new()).expect("opens");
    change(&store, |transaction| transaction.create_table("t", table_schema(), design(DESIGNS[0])));
    store
}

fn change(store: &Store, work: impl FnOnce(&mut WriteTransaction) -> Result<(), StoreError>) {
    let mut transaction = store.write().expect("writes");
    work(&mut transaction).expect("changes");
    transaction.commit().expect("commits");
}

fn id(store: &Store, kind: ObjectKind, name: &str) -> u64 {
    store.snapshot().expect("one").object(kind, name).expect("there").id
}

fn table_id(store: &Store) -> u64 {
    store.snapshot().expect("one").table("t").expect("there").id
}

fn macro_of(body: &str) -> Definition {
    Definition::Macro { parameters: vec![], body: body.into(), is_query: false }
}

fn sequence(position: Position) -> Definition {
    Definition::Sequence(Sequence { start: 1, increment: 1, min: 1, max: 100, cycle: false, position })
}

fn create(transaction: &mut WriteTransaction, name: &str, definition: Definition) -> u64 {
    transaction.create_object(name, BTreeSet::new(), definition).expect("creates")
}

type Work = fn(&Store, &mut WriteTransaction) -> Result<(), StoreError>;

/// The conflict of two transactions that began at the same time.
fn conflict(first: Work, second: Work) -> Option<String> {
    let store = store();
    change(&store, |transaction| {
        create(transaction, "f", macro_of("1"));
        create(transaction, "s", sequence(Position::Start));
        create_view(transaction, "v");
        transaction.create_owned(table_id(&store), "", Definition::Comments(Comments::default())).map(drop)
    });
    let (mut a, mut b) = (store.write().expect("writes"), store.write().expect("writes"));
    first(&store, &mut a).expect("works");
    second(&store, &mut b).expect("works");
    a.commit().expect("commits");
    match b.commit() {
        Ok(_) => None,
        Err(StoreError::Conflict(message)) => Some(message.replace("could not serialize: ", "")),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn conflicts_name_the_object() {
    let replace: Work = |store, transaction| {
        transaction.change_object(id(store, ObjectKind::Macro, "f"), |object| object.definition = macro_of("2"))
    };
    let remove: Work = |store, transaction| transaction.drop_object(id(store, ObjectKind::Macro, "f"));
    let since = |message: &str| Some(format!("{message} since this transaction began"));
    assert_eq!(conflict(replace, replace), since("macro f was changed"));
    assert_eq!(conflict(remove, replace), since("macro f was dropped"));
    assert_eq!(conflict(replace, remove), since("macro f was changed"));
    let new: Work = |_, transaction| {
        create(transaction, "g", macro_of("1"));
        Ok(())
    };
    assert_eq!(conflict(new, new), since("macro g was created"));
    // Another kind has names of its own.
    let other: Work = |_, transaction| {
        create(transaction, "g", Definition::Type { text: "INT".into() });
        Ok(())
    };
    assert_eq!(conflict(new, other), None);
    let view: Work = |_, transaction| {
        create_view(transaction, "g");
        Ok(())
    };
    let table: Work = |_, transaction| transaction.create_table("g", table_schema(), design(DESIGNS[0]));
    assert_eq!(conflict(view, table), since("a table or view g was created"));
    let renamed: Work =
        |store, transaction| transaction.change_object(id(store, ObjectKind::View, "v"), |v| v.name = "g".into());
    assert_eq!(conflict(renamed, view), since("a table or view g was created"));
    assert_eq!(conflict(view, renamed), since("a table or view g was created"));
    let comment: Work = |store, transaction| {
        let snapshot = store.snapshot()?;
        let found = snapshot.owned(table_id(store), ObjectKind::Comments).next().expect("there").id;
        transaction.change_object(found, |object| {
            object.definition = Definition::Comments(Comments { own: Some("x".into()), ..Comments::default() });
        })
    };
    assert_eq!(conflict(comment, comment), since("the comment on table t was changed"));
    let on_commit: Work = |store, transaction| {
        transaction.create_owned(table_id(store), "", Definition::OnCommit { drops: true }).map(drop)
    };
    assert_eq!(conflict(on_commit, on_commit), since("the ON COMMIT of table t was changed"));
}

/// Numbers of a sequence are given independently of transactions.
#[test]
fn a_sequence_that_gives_numbers_can_be_dropped() {
    let moves: Work = |store, transaction| {
        transaction.change_object(id(store, ObjectKind::Sequence, "s"), |object| {
            object.definition = sequence(Position::Next(33));
        })
    };
    let remove: Work = |store, transaction| transaction.drop_object(id(store, ObjectKind::Sequence, "s"));
    assert_eq!(conflict(moves, remove), None);
    assert!(conflict(moves, moves).is_some());
    assert!(conflict(remove, moves).is_some());
}

#[test]
fn nothing_depends_on_what_others_drop() {
    let reads: Work = |store, transaction| {
        let definition = Definition::View { query: "SELECT f() FROM t".into() };
        let uses = BTreeSet::from([table_id(store), id(store, ObjectKind::Macro, "f")]);
        transaction.create_object("reads", uses, definition).map(drop)
    };
    let no_table: Work = |_, transaction| transaction.drop_table("t");
    let no_macro: Work = |store, transaction| transaction.drop_object(id(store, ObjectKind::Macro, "f"));
    let since = |message: &str| Some(format!("{message} since this transaction began"));
    assert_eq!(conflict(no_table, reads), since("table t was dropped"));
    assert_eq!(conflict(no_macro, reads), since("macro f was dropped"));
    assert_eq!(conflict(reads, no_table), since("view reads was created or changed"));
    assert_eq!(conflict(reads, no_macro), since("view reads was created or changed"));
    let uses: Work = |store, transaction| {
        let sequence = id(store, ObjectKind::Sequence, "s");
        transaction.set_uses("t", BTreeSet::from([sequence]))
    };
    let no_sequence: Work = |store, transaction| transaction.drop_object(id(store, ObjectKind::Sequence, "s"));
    assert_eq!(conflict(no_sequence, uses), since("sequence s was dropped"));
    assert_eq!(conflict(uses, no_sequence), since("table t was created or changed"));
    let nothing: Work = |_, transaction| transaction.set_uses("t", BTreeSet::from([77]));
    assert_eq!(conflict(uses, nothing), since("table t was altered"));
}

#[test]
fn what_belongs_to_a_table_follows_it() {
    let store = store();
    let table = table_id(&store);
    change(&store, |transaction| {
        transaction.create_owned(table, "i", Definition::Index { columns: vec![0] })?;
        transaction.create_owned(table, "", Definition::Comments(Comments::default())).map(drop)
    });
    change(&store, |transaction| transaction.rename_table("t", "u"));
    let snapshot = store.snapshot().expect("one");
    assert_eq!(snapshot.owned(table, ObjectKind::Comments).count(), 1);
    assert_eq!(snapshot.object(ObjectKind::Index, "i").and_then(|index| index.owner), Some(table));
    // The transaction that drops the table does not know of the comment that another has made.
    let mut drops = store.write().expect("writes");
    drops.drop_table("u").expect("drops");
    drops.commit().expect("commits");
    assert_eq!(store.snapshot().expect("one").all_objects().count(), 0);
    assert_eq!(snapshot.all_objects().count(), 2, "an older snapshot stays as it was");
}

#[test]
fn one_object_takes_the_place_of_another() {
    let store = store();
    let (mut old, mut new, mut view) = (0, 0, 0);
    change(&store, |transaction| {
        (old, new) = (create(transaction, "f", macro_of("1")), create(transaction, "g", macro_of("2")));
        let definition = Definition::View { query: "SELECT f()".into() };
        view = transaction.create_object("v", BTreeSet::from([old, 7]), definition)?;
        transaction.set_uses("t", BTreeSet::from([old]))
    });
    change(&store, |transaction| transaction.use_instead(old, new));
    let snapshot = store.snapshot().expect("one");
    assert_eq!(snapshot.object_by_id(view).expect("there").uses, BTreeSet::from([new, 7]));
    assert_eq!(snapshot.table("t").expect("there").uses, BTreeSet::from([new]));
    assert_eq!(snapshot.users(&[old]).count(), 0);
    assert_eq!(snapshot.users(&[new]).map(|user| user.id()).collect::<Vec<_>>(), [view, table_id(&store)]);
}

#[test]
fn transactions_and_versions_see_their_own_catalog() {
    let store = store();
    store.set_retention(Duration::from_secs(1000)).expect("keeps");
    change(&store, |transaction| {
        create(transaction, "f", macro_of("1"));
        Ok(())
    });
    let first = store.snapshot().expect("one").sequence();
    let found = id(&store, ObjectKind::Macro, "f");
    // A transaction sees what it has changed, and others do not.
    let mut open = store.write().expect("writes");
    let before = open.savepoint();
    open.change_object(found, |object| object.definition = macro_of("2")).expect("changes");
    assert_eq!(open.snapshot().object_by_id(found).expect("there").definition, macro_of("2"));
    assert_eq!(store.snapshot().expect("one").object_by_id(found).expect("there").definition, macro_of("1"));
    open.roll_back_to(&before).expect("goes back");
    assert_eq!(open.snapshot().object_by_id(found).expect("there").definition, macro_of("1"));
    drop(open);
    change(&store, |transaction| transaction.change_object(found, |object| object.name = "g".into()));
    change(&store, |transaction| transaction.drop_object(found));
    let now = store.snapshot().expect("one");
    let at = |version: u64| now.at_version(version).expect("kept");
    assert!(at(first).object(ObjectKind::Macro, "f").is_some());
    let renamed = at(first + 1);
    assert!(renamed.object(ObjectKind::Macro, "f").is_none() && renamed.object(ObjectKind::Macro, "g").is_some());
    assert!(now.object_by_id(found).is_none());
}

#[test]
fn objects_are_there_after_the_log_is_read_again() {
    let memory = Memory::new();
    let store = open(memory.clone()).expect("opens");
    change(&store, |transaction| {
        transaction.create_table("t", table_schema(), design(DESIGNS[0]))?;
        let used = create(transaction, "s", sequence(Position::Next(5)));
        transaction.set_uses("t", BTreeSet::from([used]))?;
        create(transaction, "app", Definition::Schema);
        create_view(transaction, "v");
        Ok(())
    });
    let expected: Vec<_> = store.snapshot().expect("one").all_objects().cloned().collect();
    let uses = store.snapshot().expect("one").table("t").expect("there").uses.clone();
    drop(store);
    let store = open(memory).expect("opens");
    let snapshot = store.snapshot().expect("one");
    assert_eq!(snapshot.all_objects().cloned().collect::<Vec<_>>(), expected);
    assert_eq!(snapshot.table("t").expect("there").uses, uses);
    // No id is given twice.
    let mut next = 0;
    change(&store, |transaction| {
        next = create(transaction, "next", Definition::Schema);
        Ok(())
    });
    assert!(expected.iter().all(|object| object.id < next));
}
