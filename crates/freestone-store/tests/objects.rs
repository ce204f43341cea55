//! Objects of the catalog that are no tables: conflicts of transactions, what goes with what, versions, recovery.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_schema::DataType;
use common::*;
use freestone_store::media::Memory;
use freestone_store::schema::{Column, ForeignKey, StoredValue, TableSchema, UniqueKey};
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
        create(transaction, "app", Definition::Schema);
        create_view(transaction, "v");
        transaction.create_owned(table_id(&store), "", Definition::Comments(Comments::default()))?;
        append(transaction, "t", &batch(0..10))?;
        transaction.create_table("p", parent_schema(), design(DESIGNS[0]))?;
        append(transaction, "p", &batch(0..5))
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

fn since(message: &str) -> Option<String> {
    Some(format!("{message} since this transaction began"))
}

/// A view on table t and view v.
fn reader(store: &Store, transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    let definition = Definition::View { query: "SELECT k, s FROM t, v".into() };
    let uses = BTreeSet::from([table_id(store), id(store, ObjectKind::View, "v")]);
    transaction.create_object("reads", uses, definition).map(drop)
}

/// The texts of views name tables, views and columns.
#[test]
fn nothing_depends_on_what_others_alter() {
    let altered: [(&str, Work); 6] = [
        ("table t", |_, transaction| transaction.rename_table("t", "u")),
        ("table t", |_, transaction| transaction.rename_column("t", "s", "z")),
        ("table t", |_, transaction| transaction.drop_column("t", "s")),
        ("table t", |_, transaction| transaction.change_type("t", "g", DataType::Int64, |array| Ok(array.clone()))),
        ("view v", |store, transaction| {
            transaction.change_object(id(store, ObjectKind::View, "v"), |view| view.name = "w".into())
        }),
        ("view v", |store, transaction| {
            transaction.change_object(id(store, ObjectKind::View, "v"), |view| {
                view.definition = Definition::View { query: "SELECT 2".into() };
            })
        }),
    ];
    for (what, alter) in altered {
        assert_eq!(conflict(alter, reader), since(&format!("{what} was altered")));
        assert_eq!(conflict(reader, alter), since("view reads was created or changed"));
    }
    let renamed: Work = |store, transaction| {
        transaction.change_object(id(store, ObjectKind::Sequence, "s"), |sequence| sequence.name = "r".into())
    };
    let default: Work =
        |store, transaction| transaction.set_uses("t", BTreeSet::from([id(store, ObjectKind::Sequence, "s")]));
    assert_eq!(conflict(renamed, default), since("sequence s was altered"));
    assert_eq!(conflict(default, renamed), since("table t was created or changed"));
}

/// A view that was there, and that another transaction lets depend on other columns.
#[test]
fn a_changed_view_is_a_new_dependency() {
    let replace: Work = |store, transaction| {
        let uses = BTreeSet::from([table_id(store)]);
        transaction.change_object(id(store, ObjectKind::View, "v"), |view| {
            (view.uses, view.definition) = (uses, Definition::View { query: "SELECT s FROM t".into() });
        })
    };
    let remove: Work = |_, transaction| transaction.drop_column("t", "s");
    assert_eq!(conflict(remove, replace), since("table t was altered"));
    assert_eq!(conflict(replace, remove), since("view v was created or changed"));
}

#[test]
fn generated_columns_are_columns_on_which_views_depend() {
    let column = |name: &str| freestone_store::GeneratedColumn {
        name: name.into(),
        at: 5,
        data_type: None,
        declared: "k + 1".into(),
        expression: "k + 1".into(),
    };
    let run = |columns: Vec<freestone_store::GeneratedColumn>, view_first: bool| {
        let store = store();
        let mut made = 0;
        change(&store, |transaction| {
            create_view(transaction, "v");
            let definition = Definition::GeneratedColumns { columns: vec![column("a")] };
            made = transaction.create_owned(table_id(&store), "", definition)?;
            Ok(())
        });
        let (mut alters, mut reads) = (store.write().expect("writes"), store.write().expect("writes"));
        let definition = Definition::GeneratedColumns { columns };
        alters.change_object(made, |object| object.definition = definition).expect("changes");
        reader(&store, &mut reads).expect("creates");
        let (first, second) = if view_first { (reads, alters) } else { (alters, reads) };
        first.commit().expect("commits");
        second.commit()
    };
    for view_first in [false, true] {
        assert!(matches!(run(vec![column("b")], view_first), Err(StoreError::Conflict(_))));
        run(vec![column("a"), column("b")], view_first).expect("a column more is in nobody's way");
    }
}

/// What changes nothing on which a view, a foreign key or something in a schema depends.
#[test]
fn other_changes_are_in_no_ones_way() {
    let harmless: [Work; 6] = [
        |_, transaction| append(transaction, "t", &batch(100..110)),
        |_, transaction| {
            let column = Column { name: "more".into(), data_type: DataType::Int64, nullable: true };
            transaction.add_column("t", column, StoredValue::Null, None)
        },
        |_, transaction| transaction.convert("t", design(DESIGNS[2])),
        |_, transaction| transaction.create_copy("t", "c", vec![0], design_of(&[0], &[])),
        |_, transaction| delete(transaction, "t", keys_between(0, 5)).map(drop),
        |store, transaction| {
            transaction.change_object(id(store, ObjectKind::Sequence, "s"), |object| {
                object.definition = sequence(Position::Next(33));
            })
        },
    ];
    for (at, work) in harmless.into_iter().enumerate() {
        for other in [reader as Work, create_within] {
            assert_eq!(conflict(work, other), None, "{at}");
            assert_eq!(conflict(other, work), None, "{at}");
        }
    }
    let inserts: Work = |_, transaction| append(transaction, "p", &batch(100..110));
    assert_eq!(conflict(inserts, refer), None);
    assert_eq!(conflict(refer, inserts), None);
    assert_eq!(conflict(refer, reader), None);
    // VACUUM and compaction.
    let store = store();
    for key in 0..70 {
        change(&store, |transaction| append(transaction, "t", &batch(key..key + 1)));
    }
    change(&store, |transaction| {
        create_view(transaction, "v");
        delete(transaction, "t", keys_between(10, 20)).map(drop)
    });
    let mut reads = store.write().expect("writes");
    reader(&store, &mut reads).expect("creates");
    store.vacuum(None).expect("vacuums");
    reads.commit().expect("commits");
}

fn parent_schema() -> TableSchema {
    let key = |name: &str, column: &str| UniqueKey { name: name.into(), columns: vec![column.into()] };
    TableSchema { unique_keys: vec![key("key", "k"), key("other", "s")], ..table_schema() }
}

fn reference() -> ForeignKey {
    let (name, columns) = (String::from("refers"), vec![String::from("k")]);
    ForeignKey { name, columns: columns.clone(), table: "p".into(), referenced: columns, enforced: true }
}

/// A new table that refers to p.
fn refer(_: &Store, transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    let schema = TableSchema { foreign_keys: vec![reference()], ..table_schema() };
    transaction.create_table("c", schema, design(DESIGNS[0]))
}

/// The same for a table that there was, and a key that is declared alone.
fn refer_later(_: &Store, transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    let key = ForeignKey { enforced: false, ..reference() };
    transaction.change_constraints("t", |schema| schema.foreign_keys.push(key))
}

#[test]
fn foreign_keys_name_what_is_there() {
    let altered: [Work; 4] = [
        |_, transaction| transaction.rename_table("p", "q"),
        |_, transaction| transaction.rename_column("p", "k", "z"),
        |_, transaction| {
            let narrow = |array: &ArrayRef| array.as_primitive::<Int64Type>().unary::<_, Int32Type>(|key| key as i32);
            transaction.change_type("p", "k", DataType::Int32, |array| Ok(Arc::new(narrow(array))))
        },
        |_, transaction| transaction.change_schema("p", |schema| schema.unique_keys.clear()),
    ];
    let dropped: Work = |_, transaction| transaction.drop_table("p");
    for alter in altered {
        assert_eq!(conflict(alter, refer), since("table p was altered"));
        assert_eq!(conflict(refer, alter), since("table c was created or changed"));
    }
    for alter in &altered[..3] {
        assert_eq!(conflict(*alter, refer_later), since("table p was altered"));
        assert_eq!(conflict(refer_later, *alter), since("table t was created or changed"));
    }
    assert_eq!(conflict(dropped, refer), since("table p was dropped"));
    assert_eq!(conflict(refer, dropped), since("table c was created or changed"));
    assert_eq!(conflict(dropped, refer_later), since("table p was dropped"));
    // Columns and keys to which it does not refer.
    let others: [Work; 3] = [
        |_, transaction| transaction.rename_column("p", "g", "z"),
        |_, transaction| transaction.drop_column("p", "g"),
        |_, transaction| transaction.change_schema("p", |schema| schema.unique_keys.truncate(1)),
    ];
    for alter in others {
        assert_eq!(conflict(alter, refer), None);
        assert_eq!(conflict(refer, alter), None);
    }
    let replaced: Work = |_, transaction| {
        transaction.drop_table("p")?;
        transaction.create_table("p", parent_schema(), design(DESIGNS[0]))
    };
    assert_eq!(conflict(replaced, refer), since("table p was dropped"));
    assert_eq!(conflict(refer, replaced), since("table c was created or changed"));
}

/// A transaction that knows the key renames what it refers to.
#[test]
fn known_foreign_keys_follow_new_names() {
    let store = store();
    change(&store, |transaction| transaction.create_table("p", parent_schema(), design(DESIGNS[0])));
    change(&store, |transaction| refer(&store, transaction));
    let (mut renames, mut deletes) = (store.write().expect("writes"), store.write().expect("writes"));
    renames.rename_table("p", "q").expect("renames");
    renames.rename_column("q", "k", "z").expect("renames");
    append(&mut deletes, "t", &batch(0..3)).expect("appends");
    deletes.commit().expect("commits");
    renames.commit().expect("commits");
    let snapshot = store.snapshot().expect("one");
    let key = &snapshot.table("c").expect("there").schema.foreign_keys[0];
    assert_eq!((key.table.as_str(), key.referenced.as_slice()), ("q", &[String::from("z")][..]));
    // Both are made in one transaction.
    change(&store, |transaction| {
        transaction.create_table("p", parent_schema(), design(DESIGNS[0]))?;
        let schema = TableSchema { foreign_keys: vec![reference()], ..table_schema() };
        transaction.create_table("d", schema, design(DESIGNS[0]))?;
        transaction.rename_table("p", "r")
    });
    assert_eq!(store.snapshot().expect("one").table("d").expect("there").schema.foreign_keys[0].table, "r");
}

/// Who removes rows does not know of the new key, and locks no keys against references.
#[test]
fn rows_to_which_a_new_key_refers_stay() {
    let fills: Work = |store, transaction| {
        refer(store, transaction)?;
        append(transaction, "c", &batch(0..2))?;
        transaction.check_keys()
    };
    let removes: Work = |_, transaction| delete(transaction, "p", keys_between(1, 1)).map(drop);
    assert_eq!(conflict(removes, fills), since("a row of table p was changed"));
    assert_eq!(conflict(fills, removes), since("table c was created or changed"));
    // Without rows, nothing refers to what is gone.
    assert_eq!(conflict(removes, refer), None);
}

/// A table in schema app.
fn create_within(_: &Store, transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    transaction.create_table("app.new", table_schema(), design(DESIGNS[0]))
}

#[test]
fn nothing_is_created_in_a_schema_that_others_drop() {
    let remove: Work = |store, transaction| transaction.drop_object(id(store, ObjectKind::Schema, "app"));
    let within: [(&str, Work); 5] = [
        ("table", create_within),
        ("table", |_, transaction| transaction.rename_table("t", "app.new")),
        ("view", |_, transaction| {
            create_view(transaction, "app.new");
            Ok(())
        }),
        ("macro", |_, transaction| {
            create(transaction, "app.new", macro_of("1"));
            Ok(())
        }),
        ("sequence", |store, transaction| {
            transaction.change_object(id(store, ObjectKind::Sequence, "s"), |object| object.name = "app.new".into())
        }),
    ];
    for (kind, make) in within {
        assert_eq!(conflict(remove, make), since("schema app was dropped"));
        assert_eq!(conflict(make, remove), since(&format!("{kind} app.new was created or changed")));
    }
    let again: Work = |store, transaction| {
        transaction.drop_object(id(store, ObjectKind::Schema, "app"))?;
        create(transaction, "app", Definition::Schema);
        Ok(())
    };
    assert_eq!(conflict(again, create_within), since("schema app was dropped"));
    // Other schemas, and those without an object.
    let elsewhere: [Work; 3] = [
        |_, transaction| transaction.create_table("application.new", table_schema(), design(DESIGNS[0])),
        |_, transaction| transaction.create_table("pg_temp_1.new", table_schema(), design(DESIGNS[0])),
        |_, transaction| {
            create(transaction, "own", Definition::Schema);
            transaction.create_table("own.new", table_schema(), design(DESIGNS[0]))
        },
    ];
    for make in elsewhere {
        assert_eq!(conflict(remove, make), None);
        assert_eq!(conflict(make, remove), None);
    }
}

#[test]
fn a_schema_goes_with_what_its_dropper_has_seen() {
    let store = store();
    change(&store, |transaction| {
        create(transaction, "app", Definition::Schema);
        create_within(&store, transaction)
    });
    let mut drops = store.write().expect("writes");
    drops.drop_table("app.new").expect("drops");
    drops.drop_object(id(&store, ObjectKind::Schema, "app")).expect("drops");
    change(&store, |transaction| append(transaction, "t", &batch(0..3)));
    drops.commit().expect("commits");
    assert_eq!(store.snapshot().expect("one").tables().count(), 1);
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

/// Two tables that one view reads are replaced at the same time.
#[test]
fn what_an_object_uses_is_replaced_by_several() {
    let store = store();
    let (mut olds, mut news, mut view) = ([0; 2], [0; 2], 0);
    change(&store, |transaction| {
        olds = ["f", "g"].map(|name| create(transaction, name, macro_of("1")));
        let definition = Definition::View { query: "SELECT f() + g()".into() };
        view = transaction.create_object("v", olds.into(), definition)?;
        Ok(())
    });
    let mut open = [store.write().expect("writes"), store.write().expect("writes")];
    for (at, transaction) in open.iter_mut().enumerate() {
        news[at] = create(transaction, &format!("new {at}"), macro_of("2"));
        transaction.use_instead(olds[at], news[at]).expect("uses");
        transaction.drop_object(olds[at]).expect("drops");
    }
    for transaction in open {
        transaction.commit().expect("commits");
    }
    let snapshot = store.snapshot().expect("one");
    assert_eq!(snapshot.object_by_id(view).expect("there").uses, news.into());
    assert_eq!(snapshot.users(&olds).count(), 0);
    // What is changed besides conflicts, and so does a view that begins to use what is dropped.
    let text = |object: &mut freestone_store::Object| object.definition = Definition::View { query: "SELECT 2".into() };
    let (mut first, mut second) = (store.write().expect("writes"), store.write().expect("writes"));
    first.use_instead(news[0], 7).expect("uses");
    second.change_object(view, text).expect("changes");
    first.commit().expect("commits");
    assert!(second.commit().unwrap_err().to_string().contains("view v was changed"));
    let (mut first, mut second) = (store.write().expect("writes"), store.write().expect("writes"));
    first
        .change_object(view, |object| {
            object.uses.insert(news[0]);
        })
        .expect("changes");
    second.drop_object(news[0]).expect("drops");
    first.commit().expect("commits");
    assert!(second.commit().unwrap_err().to_string().contains("view v was created or changed"));
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
