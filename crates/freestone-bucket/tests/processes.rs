//! Real processes over one folder: killed at each step of what they do, and killed while they write at the same time.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use common::gate::{At, Watched};
use common::*;
use freestone_bucket::Location;
use freestone_store::Store;
use freestone_store::media::objects::Objects;

const FOLDER: &str = "FREESTONE_TEST_FOLDER";
const ARGUMENT: &str = "FREESTONE_TEST_ARGUMENT";

fn folder_objects(folder: &Path) -> Arc<dyn Objects> {
    let location = Location::parse(&format!("file://{}", folder.display())).expect("a URL");
    Arc::new(location.connect(true).expect("connects"))
}

fn open_folder(folder: &Path) -> Store {
    Store::in_bucket(folder_objects(folder), options(), RETENTION).expect("opens")
}

/// Runs a test of this program in a process of its own.
fn child(test: &str, folder: &Path, argument: &str) -> Child {
    Command::new(std::env::current_exe().expect("a program"))
        .args(["--exact", test, "--nocapture", "--ignored"])
        .env(FOLDER, folder)
        .env(ARGUMENT, argument)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program starts")
}

fn of_child() -> Option<(std::path::PathBuf, String)> {
    Some((std::env::var_os(FOLDER)?.into(), std::env::var(ARGUMENT).ok()?))
}

fn committed(lines: impl Iterator<Item = std::io::Result<String>>) -> BTreeSet<i64> {
    let key = |line: String| line.trim().rsplit_once("committed ")?.1.parse().ok();
    lines.map_while(Result::ok).filter_map(key).collect()
}

/// One transaction on two tables, of which one gets a file.
fn add_pair(store: &Store, key: i64) -> Result<u64, freestone_store::StoreError> {
    change(store, |t| {
        append(t, "t", &[key])?;
        append(t, "u", &[key])?;
        append(t, "files", &(key * 20_000..key * 20_000 + 17_000).collect::<Vec<i64>>())
    })
}

fn check_pairs(store: &Store, acknowledged: &BTreeSet<i64>, may_be_more: usize) {
    let (t, u) = (keys(store, "t"), keys(store, "u"));
    assert_eq!(t, u, "half a transaction");
    let found = set(&t);
    assert_eq!(found.len(), t.len(), "a commit is there twice");
    assert!(acknowledged.is_subset(&found), "{acknowledged:?} were acknowledged, {found:?} are there");
    assert!(found.len() <= acknowledged.len() + may_be_more, "{found:?}, of which {acknowledged:?}");
    check_sound(store);
}

#[test]
#[ignore = "run by a_process_that_ends_at_any_step"]
fn child_that_ends() {
    let Some((folder, argument)) = of_child() else { return };
    let (number, after) = argument.split_once(' ').expect("two arguments");
    let (number, after) = (number.parse().expect("a number"), after == "after");
    let at = At::Abort { number, after, so_far: AtomicUsize::new(0) };
    let watched = Watched { inner: folder_objects(&folder), at };
    let store = Store::in_bucket(Arc::new(watched), options(), RETENTION).expect("opens");
    let key = 2 * number as i64 + i64::from(after);
    add_pair(&store, key).expect("commits");
    println!("\ncommitted {key}");
}

#[test]
fn a_process_that_ends_at_any_step_leaves_all_or_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open_folder(folder.path());
    ["t", "u", "files"].into_iter().for_each(|table| create(&store, table, false));
    let (mut acknowledged, mut ended) = (BTreeSet::new(), 0);
    for number in 0.. {
        let before = acknowledged.len();
        for when in ["before", "after"] {
            let mut child = child("child_that_ends", folder.path(), &format!("{number} {when}"));
            let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
            acknowledged.extend(committed(lines));
            ended += usize::from(!child.wait().expect("ends").success());
            check_pairs(&store, &acknowledged, ended);
        }
        if acknowledged.len() == before + 2 {
            break;
        }
        assert!(number < 60, "a commit takes {number} steps");
    }
    assert!(ended > 10, "{ended} processes were ended");
    check_pairs(&open_folder(folder.path()), &acknowledged, ended);
}

#[test]
#[ignore = "run by killed_writers_lose_no_commit"]
fn child_that_writes() {
    let Some((folder, argument)) = of_child() else { return };
    let store = open_folder(&folder);
    println!();
    for key in argument.parse::<i64>().expect("a number").. {
        match add_pair(&store, key) {
            Ok(_) => println!("committed {key}"),
            Err(error) => assert!(is_conflict(&error), "{error}"),
        }
    }
}

#[test]
fn killed_writers_lose_no_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open_folder(folder.path());
    ["t", "u", "files"].into_iter().for_each(|table| create(&store, table, false));
    let mut acknowledged = BTreeSet::new();
    for round in 0..4 {
        let mut children: Vec<Child> = (0..2)
            .map(|writer| child("child_that_writes", folder.path(), &((round * 2 + writer) * 1000).to_string()))
            .collect();
        let outputs = children.iter_mut().map(|child| BufReader::new(child.stdout.take().expect("piped")).lines());
        let mut outputs: Vec<_> = outputs.collect();
        for lines in &mut outputs {
            let first = lines.filter(|line| line.as_ref().is_ok_and(|line| line.contains("committed")));
            acknowledged.extend(committed(first.take(2 + round as usize)));
        }
        children.iter_mut().for_each(|child| child.kill().expect("kills"));
        for child in &mut children {
            child.wait().expect("ends");
        }
        acknowledged.extend(outputs.into_iter().flat_map(committed));
        check_pairs(&store, &acknowledged, 2 * (round as usize + 1));
    }
    assert!(acknowledged.len() >= 2 * (2 + 3 + 4 + 5), "{acknowledged:?}");
    check_pairs(&open_folder(folder.path()), &acknowledged, 8);
}
