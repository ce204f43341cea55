//! A process that is killed while it changes a table on a mapped file, again and again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::tests::{columns, create, place_of};
use super::*;
use crate::media::region::{MapOptions, MappedRegion};

const CHILD_POOL: &str = "FREESTONE_TEST_CHILD_POOL";

fn child(path: &std::path::Path) -> Child {
    let test = format!("{}::child_that_changes", module_path!().split_once("::").map_or("", |(_, path)| path));
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &test, "--nocapture", "--ignored"])
        .env(CHILD_POOL, path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts")
}

fn open(path: &std::path::Path) -> PTable {
    let region: Arc<dyn Region> = Arc::new(MappedRegion::open(path, &MapOptions::default()).expect("a pool"));
    PTable::open(Arc::new(Pool::open(region, Some(1)).expect("a pool")), 9).expect("sound")
}

/// Transaction `number` adds three rows and removes one of the transaction 40 before.
fn change(table: &PTable, number: i64) {
    let row = |at: i64| (number * 3 + at, Some((number * 7 + at) % 50), Some("abc".repeat(at as usize * 5)), Some(at));
    let data = columns(&[row(0), row(1), row(2)]);
    let removed = (number >= 40).then(|| place_of(table, (number - 40) * 3 + 1));
    let mut transaction = table.begin();
    removed.into_iter().for_each(|at| transaction.delete(at).expect("there"));
    (0..3).for_each(|row| transaction.insert(&data, row).expect("room"));
    transaction.commit().expect("room");
}

/// The number of transactions that a table has, all of them whole.
fn transactions(table: &PTable) -> i64 {
    table.check().expect("sound");
    let rows = table.len() as i64;
    // Of the first 40 none is removed, of later ones one row for each.
    let count = if rows <= 120 { rows / 3 } else { 40 + (rows - 120) / 2 };
    let expected = count * 3 - (count - 40).max(0);
    assert_eq!(rows, expected, "a part of a transaction");
    count
}

#[test]
#[ignore = "run by kill_9_loses_no_transaction"]
fn child_that_changes() {
    let Some(path) = std::env::var_os(CHILD_POOL) else { return };
    let table = open(std::path::Path::new(&path));
    let mut number = transactions(&table);
    println!();
    loop {
        change(&table, number);
        number += 1;
        println!("committed {number}");
    }
}

#[test]
fn kill_9_loses_no_transaction() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let region = MappedRegion::create(&path, 64 * 4096, &MapOptions::default()).expect("created");
    drop(create(Arc::new(region), 4096, Some(5)));
    let mut acknowledged = 0;
    for round in 0..12 {
        let mut child = child(&path);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut read = |wanted: usize| {
            let numbers = lines.by_ref().map_while(std::io::Result::ok);
            let numbers = numbers.filter_map(|line| line.split_once("committed ").and_then(|(_, n)| n.parse().ok()));
            numbers.take(wanted).last()
        };
        acknowledged = read(20 + round * 7).unwrap_or(acknowledged);
        child.kill().expect("kills");
        child.wait().expect("ends");
        acknowledged = read(usize::MAX).unwrap_or(acknowledged);
        let found = transactions(&open(&path));
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{acknowledged} acknowledged, {found} found");
    }
    assert!(acknowledged > 500, "{acknowledged}");
}
