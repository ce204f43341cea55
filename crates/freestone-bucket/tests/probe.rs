//! Stores that are fit for a database, and stores that are not.

mod common;

use std::sync::Arc;

use common::faults::{Faults, Plan};
use common::*;
use freestone_bucket::Location;
use freestone_store::log::shared::{Probe, probe};
use freestone_store::{Store, StoreOptions};

fn refused(plan: Plan, reason: &str) {
    let bucket = Faults::new(plan, 1);
    let error = Store::in_bucket(objects(bucket), options(), RETENTION).expect_err("not fit").to_string();
    assert!(error.contains("cannot hold a database that is written") && error.contains(reason), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn stores_that_are_not_fit_are_refused_with_the_reason() {
    refused(Plan { ignores_condition: true, ..Plan::default() }, "were told that they did");
    refused(Plan { two_winners: true, ..Plan::default() }, "of 3 that created an object, 3 were told that they did");
    refused(Plan { knows_no_condition: true, ..Plan::default() }, "does not know how to create an object only if");
}

#[test]
fn a_database_can_still_be_read_from_one() {
    let bucket = Faults::new(Plan::default(), 1);
    create(&open(bucket.clone()), "t", false);
    bucket.set(Plan { two_winners: true, ..Plan::default() });
    let read_only = StoreOptions { read_only: true, ..options() };
    let reader = Store::in_bucket(objects(bucket.clone()), read_only, RETENTION).expect("opens");
    assert!(keys(&reader, "t").is_empty());
    // Others read, too, and are refused at their first write.
    let store = open(bucket);
    assert!(keys(&store, "t").is_empty());
    let error = change(&store, |t| append(t, "t", &[1])).expect_err("not fit").to_string();
    assert!(error.contains("cannot hold a database that is written"), "{error}");
}

#[test]
fn lost_answers_and_busy_stores_are_no_reason() {
    let plan = Plan { lost: 20, unavailable: 10, conflict: 10, slow: 30, ..Plan::default() };
    for seed in 0..5 {
        let bucket = Faults::new(plan, seed);
        let report = probe(objects(bucket).as_ref(), Probe { rounds: 3, contenders: 4 });
        match report {
            Ok(report) => assert_eq!((report.rounds, report.attempts), (3, 12)),
            // Attempts may all have failed.
            Err(error) => assert!(!error.to_string().contains("cannot hold"), "{error}"),
        }
    }
}

#[test]
fn memory_and_folders_are_fit() {
    let long = Probe { rounds: 20, contenders: 8 };
    let report = probe(objects(Faults::new(Plan::default(), 1)).as_ref(), long).expect("fit");
    assert_eq!((report.rounds, report.attempts, report.failed), (20, 160, 0));
    let folder = tempfile::tempdir().expect("a folder");
    let location = Location::parse(&format!("file://{}", folder.path().display())).expect("a URL");
    let objects: Arc<_> = Arc::new(location.connect(true).expect("connects"));
    probe(objects.as_ref(), long).expect("fit");
    let left = std::fs::read_dir(folder.path().join("probe")).expect("lists").count();
    assert_eq!(left, 0, "nothing remains");
}
