//! The log under power losses, failures, flipped bytes, and other readers and writers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use proptest::prelude::*;

use crate::media::{Disk, DiskOptions, FaultPlan, Faulty, Medium, Memory, Operation};

use super::*;

fn shared(medium: impl Medium + 'static) -> Arc<dyn Medium> {
    Arc::new(medium)
}

fn body(sequence: u64) -> Vec<u8> {
    // Lengths near the paddings and near a sector.
    let len = [0, 1, 7, 8, 9, 100, 600, 5000][sequence as usize % 8];
    (0..len).map(|index| (index as u64 ^ sequence.wrapping_mul(31)) as u8).collect()
}

/// The test's folded state of all commits up to a sequence.
fn folded(sequence: u64) -> Vec<u8> {
    format!("everything up to {sequence}").into_bytes()
}

/// Checks that records are a contiguous sequence of the expected bodies, and returns the last sequence.
fn check(records: &[Record]) -> u64 {
    let mut last = None;
    for record in records {
        let expected = if record.is_base { folded(record.sequence) } else { body(record.sequence) };
        assert_eq!(record.body, expected, "body of {}", record.sequence);
        assert_eq!(record.is_base, last.is_none() && record.is_base, "a base comes first");
        assert!(record.is_base || record.sequence == last.unwrap_or(0) + 1, "{} after {last:?}", record.sequence);
        last = Some(record.sequence);
    }
    last.unwrap_or(0)
}

/// What a writer and then a reader find. Both must agree.
fn reopen(medium: &Arc<dyn Medium>) -> Result<u64, LogError> {
    let before = match Log::open_reader(medium.clone()) {
        Ok(mut reader) => Some(check(&reader.refresh()?.records)),
        Err(LogError::NoDatabase { .. }) => None,
        Err(error) => return Err(error),
    };
    let (writer, records) = Log::open_writer(medium.clone())?;
    let found = check(&records);
    assert_eq!(writer.last_sequence(), found);
    let log = medium.open(&manifest_name(writer.generation()))?;
    assert_eq!(writer.len(), log.len()?, "nothing is left of what was torn");
    assert_eq!(before.unwrap_or(0), found, "a reader sees the same without a writer");
    let mut reader = Log::open_reader(medium.clone())?;
    assert_eq!(check(&reader.refresh()?.records), found, "and with one");
    Ok(found)
}

/// A database with commits 1 to `count`, and a checkpoint after `checkpoint`.
fn database(count: u64, checkpoint: Option<u64>) -> Memory {
    let memory = Memory::new();
    let (mut writer, _) = Log::open_writer(shared(memory.clone())).expect("a new database");
    for sequence in 1..=count {
        assert_eq!(writer.append(&body(sequence)).expect("no faults"), sequence);
        if checkpoint == Some(sequence) {
            writer.checkpoint(&folded(sequence)).expect("no faults");
        }
    }
    memory
}

#[test]
fn commits_are_there_after_reopening() {
    for checkpoint in [None, Some(1), Some(5), Some(20)] {
        assert_eq!(reopen(&shared(database(20, checkpoint))).expect("sound"), 20);
    }
    assert_eq!(reopen(&shared(database(0, None))).expect("sound"), 0);
}

#[test]
fn a_reader_of_nothing_says_so() {
    let error = Log::open_reader(shared(Memory::new())).expect_err("nothing there");
    assert!(matches!(error, LogError::NoDatabase { .. }), "{error}");
}

#[test]
fn a_reader_follows_without_reopening() {
    let medium = shared(Memory::new());
    let (mut writer, _) = Log::open_writer(medium.clone()).expect("new");
    let mut reader = Log::open_reader(medium).expect("there");
    assert_eq!(reader.refresh().expect("sound"), Refresh { restart: true, records: vec![] });
    assert_eq!(reader.refresh().expect("sound"), Refresh::default());
    writer.append(&body(1)).expect("commits");
    writer.append(&body(2)).expect("commits");
    let refresh = reader.refresh().expect("sound");
    assert_eq!((refresh.restart, refresh.records.len(), check(&refresh.records)), (false, 2, 2));
    writer.append(&body(3)).expect("commits");
    writer.checkpoint(&folded(3)).expect("folds");
    writer.append(&body(4)).expect("commits");
    let refresh = reader.refresh().expect("sound");
    assert_eq!((refresh.restart, refresh.records.len(), check(&refresh.records)), (true, 2, 4));
    assert_eq!(reader.last_sequence(), 4);
    assert_eq!(writer.len_since_base(), writer.len() - HEADER_LEN as u64 - 24 - 24, "header, base record");
}

/// The sync of a commit fails, and so does removing it: its bytes remain after the part that CURRENT covers, some of
/// them only in the operating system's memory. Nobody sees them until the log is opened again. Then they are committed.
#[test]
fn a_reader_does_not_see_a_commit_under_way() {
    for seed in 0..12 {
        let faulty = Faulty::on_memory(database(3, None), FaultPlan::default());
        let medium = shared(faulty.clone());
        let (mut writer, _) = Log::open_writer(medium.clone()).expect("sound");
        let fail_kinds = vec![(Operation::Sync, 0), (Operation::SetLen, 0)];
        faulty.set_plan(relative(&faulty, FaultPlan { seed, fail_kinds, ..FaultPlan::default() }));
        writer.append(&body(4)).expect_err("the sync fails");
        let mut reader = Log::open_reader(medium.clone()).expect("there");
        assert_eq!(check(&reader.refresh().expect("sound").records), 3);
        drop(writer);
        assert_eq!(reader.refresh().expect("sound"), Refresh::default(), "nothing new");
        assert_eq!(reopen(&medium).expect("sound"), 4);
        let refresh = reader.refresh().expect("sound");
        assert_eq!((refresh.restart, refresh.records.len(), reader.last_sequence()), (false, 1, 4));
        for crash in 0..50 {
            let found = reopen(&shared(faulty.crash(crash))).expect("sound");
            assert_eq!(found, 4, "seed {seed}, crash {crash}");
        }
    }
}

#[test]
fn records_out_of_sequence_are_damage() {
    let files = database(4, None).files();
    let log = &files[&manifest_name(1)];
    let end = |count: u64| {
        HEADER_LEN + (1..=count).map(|number| (24 + body(number).len()).next_multiple_of(8)).sum::<usize>()
    };
    let known = Current::decode(files[CURRENT][..].try_into().expect("64 bytes")).expect("sound");
    // Commit 2 is missing; commit 2 occurs twice.
    for bytes in [[&log[..end(1)], &log[end(2)..]].concat(), [&log[..end(2)], &log[end(1)..]].concat()] {
        let current = Current { generation: 1, committed_len: bytes.len() as u64, last_sequence: 4, ..known };
        let files = [(manifest_name(1), bytes), (CURRENT.to_string(), current.encode().to_vec())];
        let error = reopen_quickly(files.into()).expect_err("damaged");
        assert!(error.to_string().contains("does not follow"), "{error}");
    }
}

#[test]
fn a_failed_checkpoint_leaves_the_old_log_in_use() {
    for kind in [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename, Operation::SyncFolder] {
        let faulty = Faulty::on_memory(database(3, None), FaultPlan::default());
        let medium = shared(faulty.clone());
        let (mut writer, _) = Log::open_writer(medium.clone()).expect("sound");
        faulty.set_plan(relative(&faulty, FaultPlan { fail_kinds: vec![(kind, 0)], ..FaultPlan::default() }));
        writer.checkpoint(&folded(3)).expect_err("fails");
        assert_eq!(generations(&medium).expect("works"), [1], "{kind:?}");
        assert_eq!(writer.append(&body(4)).expect("commits"), 4, "{kind:?}");
        writer.checkpoint(&folded(4)).expect("works again");
        assert_eq!(generations(&medium).expect("works"), [2], "{kind:?}");
        drop(writer);
        assert_eq!(reopen(&medium).expect("sound"), 4);
    }
}

/// Makes the counts of a plan relative to now.
fn relative(faulty: &Faulty, mut plan: FaultPlan) -> FaultPlan {
    plan.fail_operation = plan.fail_operation.map(|number| number + faulty.operations());
    for (kind, number) in &mut plan.fail_kinds {
        *number += faulty.operations_of(*kind);
    }
    plan
}

#[test]
fn a_failed_sync_poisons_and_takes_back() {
    let faulty = Faulty::on_memory(database(3, None), FaultPlan::default());
    let medium = shared(faulty.clone());
    let (mut writer, _) = Log::open_writer(medium.clone()).expect("sound");
    faulty.set_plan(relative(&faulty, FaultPlan { fail_kinds: vec![(Operation::Sync, 0)], ..FaultPlan::default() }));
    let error = writer.append(&body(4)).expect_err("the sync fails");
    assert!(matches!(error, LogError::CommitFailed { sequence: 4, outcome: Outcome::TakenBack, .. }), "{error}");
    assert!(matches!(writer.append(&body(4)), Err(LogError::Poisoned { .. })));
    assert!(matches!(writer.checkpoint(&folded(3)), Err(LogError::Poisoned { .. })));
    drop(writer);
    assert_eq!(reopen(&medium).expect("sound"), 3);
    let (mut writer, _) = Log::open_writer(medium.clone()).expect("sound");
    assert_eq!(writer.append(&body(4)).expect("works again"), 4);
    drop(writer);
    for seed in 0..200 {
        assert_eq!(reopen(&shared(faulty.crash(seed))).expect("sound"), 4, "seed {seed}");
    }
}

#[test]
fn a_full_disk_fails_one_commit_and_loses_none() {
    for capacity in 0..4000 {
        let faulty = Faulty::on_memory(Memory::new(), FaultPlan { capacity: Some(capacity), ..FaultPlan::default() });
        let medium = shared(faulty.clone());
        let acknowledged = commit_until_failure(&medium, 12, None);
        faulty.set_plan(FaultPlan::default());
        let found = reopen(&medium).unwrap_or_else(|error| panic!("capacity {capacity}: {error}"));
        assert!(acknowledged.holds(found), "capacity {capacity}: {acknowledged:?}, found {found}");
    }
}

/// What a client was told.
#[derive(Debug, Clone, Copy, Default)]
struct ClientView {
    acknowledged: u64,
    /// One more than acknowledged, if a commit failed with unknown outcome.
    possible: u64,
}

impl ClientView {
    fn holds(self, found: u64) -> bool {
        (self.acknowledged..=self.possible).contains(&found)
    }
}

fn commit_until_failure(medium: &Arc<dyn Medium>, count: u64, checkpoint_every: Option<u64>) -> ClientView {
    let Ok((mut writer, records)) = Log::open_writer(medium.clone()) else { return ClientView::default() };
    let first = check(&records);
    let mut told = ClientView { acknowledged: first, possible: first };
    for sequence in first + 1..=first + count {
        match writer.append(&body(sequence)) {
            Ok(given) => {
                assert_eq!(given, sequence);
                told = ClientView { acknowledged: sequence, possible: sequence };
            }
            // A commit that was removed can only return if the power fails before the removal is durable.
            Err(LogError::CommitFailed { outcome: Outcome::TakenBack, .. }) => return told,
            Err(_) => {
                told.possible = sequence;
                return told;
            }
        }
        if checkpoint_every.is_some_and(|every| sequence % every == 0) && writer.checkpoint(&folded(sequence)).is_err()
        {
            // The old generation stays in use, or the next append reports that the writer is poisoned.
            continue;
        }
    }
    told
}

/// Every operation fails in turn, alone or with all later ones. Then the power fails, or not.
#[test]
fn every_failure_at_every_step() {
    for stay_dead in [false, true] {
        for operation in 0.. {
            let plan =
                FaultPlan { seed: operation, fail_operation: Some(operation), stay_dead, ..FaultPlan::default() };
            let faulty = Faulty::on_memory(Memory::new(), plan);
            let medium = shared(faulty.clone());
            let told = commit_until_failure(&medium, 7, Some(3));
            let operations = faulty.operations();
            for seed in 0..20 {
                let found = reopen(&shared(faulty.crash(seed)));
                let found = found.unwrap_or_else(|error| panic!("operation {operation}, seed {seed}: {error}"));
                assert!(told.holds(found), "operation {operation}, seed {seed}: {told:?}, found {found}");
            }
            faulty.set_plan(FaultPlan::default());
            let found = reopen(&medium).unwrap_or_else(|error| panic!("operation {operation}: {error}"));
            assert!(told.holds(found), "operation {operation}: {told:?}, found {found}");
            if operation > operations {
                break;
            }
        }
    }
}

/// A step in the life of a log.
#[derive(Debug, Clone)]
enum Action {
    Append(u8),
    Checkpoint,
    Reopen,
    Crash(u64),
    FailedSync,
    FailedWrite(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (1u8..4).prop_map(Action::Append),
        2 => Just(Action::Checkpoint),
        1 => Just(Action::Reopen),
        3 => any::<u64>().prop_map(Action::Crash),
        1 => Just(Action::FailedSync),
        1 => any::<u64>().prop_map(Action::FailedWrite),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens in whatever order: exactly the acknowledged commits are found, in sequence.
    #[test]
    fn any_life_of_a_log(actions in proptest::collection::vec(action(), 1..40)) {
        let mut faulty = Faulty::on_memory(Memory::new(), FaultPlan::default());
        let mut writer = None;
        let mut told = ClientView::default();
        for action in actions {
            let medium = shared(faulty.clone());
            let mut log = match writer.take() {
                Some(log) => log,
                None => {
                    let (log, records) = Log::open_writer(medium.clone()).expect("sound");
                    let found = check(&records);
                    prop_assert!(told.holds(found), "{:?}, found {}", told, found);
                    told = ClientView { acknowledged: found, possible: found };
                    log
                }
            };
            let next = told.acknowledged + 1;
            match action {
                Action::Append(count) => {
                    for sequence in next..next + u64::from(count) {
                        prop_assert_eq!(log.append(&body(sequence)).expect("no fault"), sequence);
                        told = ClientView { acknowledged: sequence, possible: sequence };
                    }
                    writer = Some(log);
                }
                Action::Checkpoint => {
                    log.checkpoint(&folded(told.acknowledged)).expect("no fault");
                    writer = Some(log);
                }
                Action::Reopen => drop(log),
                Action::Crash(seed) => {
                    drop(log);
                    faulty = Faulty::on_memory(faulty.crash(seed), FaultPlan::default());
                }
                Action::FailedSync | Action::FailedWrite(_) => {
                    let kind = if matches!(action, Action::FailedSync) { Operation::Sync } else { Operation::Write };
                    let seed = if let Action::FailedWrite(seed) = action { seed } else { 0 };
                    let plan = FaultPlan { seed, fail_kinds: vec![(kind, 0)], ..FaultPlan::default() };
                    faulty.set_plan(relative(&faulty, plan));
                    let failed = log.append(&body(next)).is_err();
                    prop_assert!(failed);
                    prop_assert!(log.is_poisoned());
                }
            }
        }
        let found = reopen(&shared(faulty.crash(1))).expect("sound");
        prop_assert!(told.holds(found), "{:?}, found {}", told, found);
    }
}

/// Every byte of every file is changed in turn: the result is an error, or all commits.
#[test]
fn flipped_bytes_lose_no_commit() {
    for checkpoint in [None, Some(4)] {
        let files = database(9, checkpoint).files();
        for (name, content) in &files {
            for at in (0..content.len()).filter(|_| name != "LOCK") {
                for mask in [0x01, 0x80, 0xff] {
                    let mut damaged = files.clone();
                    damaged.get_mut(name).expect("there")[at] ^= mask;
                    match reopen_quickly(damaged) {
                        Ok(found) => assert_eq!(found, 9, "{name} byte {at}"),
                        Err(error) => assert!(error.is_damage(), "{name} byte {at}: {error}"),
                    }
                }
            }
        }
    }
}

/// A file that is cut anywhere is an error, because CURRENT covers the whole log.
#[test]
fn files_cut_short_lose_no_commit() {
    let files = database(9, Some(4)).files();
    for (name, content) in files.iter().filter(|(name, _)| ![LOCK, "PINS", "RESERVE"].contains(&name.as_str())) {
        for len in 0..content.len() {
            let mut damaged = files.clone();
            damaged.get_mut(name).expect("there").truncate(len);
            let error = reopen_quickly(damaged).expect_err("cut");
            assert!(error.is_damage(), "{name} cut to {len}: {error}");
        }
        let mut missing = files.clone();
        missing.remove(name);
        let error = reopen_quickly(missing).expect_err("missing");
        assert!(error.is_damage(), "{name} missing: {error}");
    }
}

fn reopen_quickly(files: BTreeMap<String, Vec<u8>>) -> Result<u64, LogError> {
    let (writer, records) = Log::open_writer(shared(Memory::with_files(files)))?;
    assert_eq!(writer.last_sequence(), check(&records));
    Ok(writer.last_sequence())
}

/// After a power loss CURRENT may be old. Damage before the following commits is still noticed.
#[test]
fn damage_behind_an_old_current_is_noticed() {
    let memory = database(2, None);
    let old = memory.files();
    let (mut writer, _) = Log::open_writer(shared(memory.clone())).expect("sound");
    (3..=9).for_each(|sequence| assert_eq!(writer.append(&body(sequence)).expect("no faults"), sequence));
    drop(writer);
    let mut files = memory.files();
    files.insert("CURRENT".to_string(), old["CURRENT"].clone());
    assert_eq!(reopen_quickly(files.clone()).expect("a lower bound"), 9);
    let log = manifest_name(1);
    let last_record = files[&log].len() - (24 + body(9).len()).next_multiple_of(8);
    for at in old[&log].len()..last_record {
        let mut damaged = files.clone();
        damaged.get_mut(&log).expect("there")[at] ^= 0x10;
        match reopen_quickly(damaged) {
            Ok(found) => assert_eq!(found, 9, "byte {at}"),
            Err(error) => assert!(error.is_damage(), "byte {at}: {error}"),
        }
    }
}

#[test]
fn a_read_that_flips_a_bit_is_noticed() {
    let memory = database(9, None);
    for read in 0..6 {
        let plan = FaultPlan { seed: read, flip_read: Some(read), ..FaultPlan::default() };
        let faulty = Faulty::on_memory(Memory::with_files(memory.files()), plan);
        match Log::open_writer(shared(faulty)) {
            Ok((_, records)) => assert_eq!(check(&records), 9, "read {read}"),
            Err(error) => assert!(error.is_damage(), "read {read}: {error}"),
        }
    }
}

fn repaired(medium: Arc<dyn Medium>) -> Result<RepairReport, LogError> {
    Log::repair(medium, |_| Ok(()))
}

#[test]
fn repair_keeps_what_is_sound_and_says_what_is_not() {
    let medium = shared(database(9, Some(4)));
    let files = database(9, Some(4)).files();
    let report = repaired(medium.clone()).expect("nothing to do");
    assert_eq!((report.last_sequence, report.cut_bytes, report.expected_sequence), (9, 0, Some(9)));
    assert_eq!(reopen(&medium).expect("sound"), 9);

    let mut damaged = files.clone();
    damaged.remove("CURRENT");
    let medium = shared(Memory::with_files(damaged));
    assert!(matches!(Log::open_writer(medium.clone()), Err(LogError::CurrentMissing { .. })));
    assert_eq!(repaired(medium.clone()).expect("rebuilds").last_sequence, 9);
    assert_eq!(reopen(&medium).expect("sound"), 9);

    let mut damaged = files.clone();
    let log = damaged.get_mut(&manifest_name(2)).expect("there");
    // In the body of commit 6, after header, base and commit 5.
    let at =
        HEADER_LEN + (24 + folded(4).len()).next_multiple_of(8) + (24 + body(5).len()).next_multiple_of(8) + 24 + 3;
    log[at] ^= 1;
    let medium = shared(Memory::with_files(damaged));
    let error = Log::open_writer(medium.clone()).expect_err("damaged").to_string();
    assert!(error.contains("manifest-0000000002.log is damaged at byte") && error.contains("--repair"), "{error}");
    let report = repaired(medium.clone()).expect("cuts");
    assert_eq!((report.last_sequence, report.expected_sequence, report.sound_commits_cut), (5, Some(9), true));
    let saved = report.saved_as.expect("what was cut is kept");
    assert_eq!(medium.open(&saved).and_then(|file| file.len()).expect("there"), report.cut_bytes);
    assert_eq!(reopen(&medium).expect("sound"), 5);
    assert!(medium.exists(&saved).expect("works"), "opening keeps what was saved");

    let nothing = Memory::with_files([(manifest_name(3), vec![1; 100])]);
    assert!(matches!(repaired(shared(nothing)), Err(LogError::NothingToRepair { .. })));
}

#[test]
fn a_second_writer_is_told_who_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    for medium in [shared(Memory::new()), shared(disk(folder.path()))] {
        let first = Log::open_writer(medium.clone()).expect("free");
        let error = Log::open_writer(medium.clone()).expect_err("taken").to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        Log::open_writer(medium).expect("free again");
    }
}

fn disk(folder: &std::path::Path) -> Disk {
    Disk::open(folder, true, DiskOptions::default()).expect("a folder")
}

/// Readers that start and refresh while the writer commits and checkpoints.
#[test]
fn readers_beside_a_writer_see_a_growing_run() {
    let folder = tempfile::tempdir().expect("a folder");
    for medium in [shared(Memory::new()), shared(disk(folder.path()))] {
        let (mut writer, _) = Log::open_writer(medium.clone()).expect("new");
        let done = &std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for fresh in [true, false] {
                let medium = medium.clone();
                scope.spawn(move || follow(medium, fresh, done));
            }
            for sequence in 1..=150 {
                writer.append(&body(sequence)).expect("commits");
                if sequence % 10 == 0 {
                    writer.checkpoint(&folded(sequence)).expect("folds");
                }
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
    }
}

/// Refreshes until the writer is done, with a new reader each time or always the same one.
fn follow(medium: Arc<dyn Medium>, fresh: bool, done: &std::sync::atomic::AtomicBool) {
    let mut reader = Log::open_reader(medium.clone()).expect("there");
    let mut seen = 0;
    loop {
        let last_round = done.load(std::sync::atomic::Ordering::Acquire);
        if fresh {
            reader = Log::open_reader(medium.clone()).expect("there");
        }
        let refresh = reader.refresh().expect("sound");
        if refresh.restart {
            assert!(check(&refresh.records) >= seen);
        } else {
            for (record, expected) in refresh.records.iter().zip(seen + 1..) {
                assert_eq!((record.sequence, &record.body), (expected, &body(expected)));
            }
        }
        assert!(reader.last_sequence() >= seen);
        seen = reader.last_sequence();
        if last_round {
            assert_eq!(seen, 150);
            return;
        }
    }
}

const CHILD_FOLDER: &str = "FREESTONE_TEST_CHILD_FOLDER";

/// Starts this test binary again to run one test, which gets a folder through its environment.
fn child(test: &str, folder: &std::path::Path) -> Child {
    let test = format!("{}::{test}", module_path!().split_once("::").map_or("", |(_, path)| path));
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &test, "--nocapture", "--ignored"])
        .env(CHILD_FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts")
}

fn child_folder() -> Option<std::path::PathBuf> {
    std::env::var_os(CHILD_FOLDER).map(Into::into)
}

/// Reads the output of a child up to a line that starts with a word, and returns the rest of that line.
fn await_line(lines: &mut impl Iterator<Item = std::io::Result<String>>, word: &str) -> String {
    lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once(word).map(|(_, rest)| rest.trim().to_string()))
        .expect("the child says it")
}

#[test]
#[ignore = "run by kill_9_loses_no_commit"]
fn child_that_commits() {
    let Some(folder) = child_folder() else { return };
    let (mut writer, records) = Log::open_writer(shared(disk(&folder))).expect("sound");
    let mut sequence = check(&records);
    println!();
    loop {
        sequence += 1;
        assert_eq!(writer.append(&body(sequence)).expect("commits"), sequence);
        println!("committed {sequence}");
        if sequence.is_multiple_of(7) {
            writer.checkpoint(&folded(sequence)).expect("folds");
        }
    }
}

#[test]
fn kill_9_loses_no_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut acknowledged = 0;
    for round in 0..12u64 {
        let mut child = child("child_that_commits", folder.path());
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        for _ in 0..=round * 3 {
            acknowledged = await_line(&mut lines, "committed").parse().expect("a number");
        }
        child.kill().expect("kills");
        child.wait().expect("ends");
        for line in lines.map_while(Result::ok) {
            if let Some(sequence) = line.strip_prefix("committed ").and_then(|text| text.parse().ok()) {
                acknowledged = sequence;
            }
        }
        let found = reopen(&shared(disk(folder.path()))).expect("sound");
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{acknowledged} acknowledged, {found} found");
    }
    assert!(acknowledged > 100);
}

#[test]
#[ignore = "run by pins_of_other_processes_hold"]
fn child_that_pins() {
    let Some(folder) = child_folder() else { return };
    let pins = ReaderPins::register(shared(disk(&folder)), false).expect("registers");
    let _pin = pins.pin(17).expect("pins");
    println!("\npinned");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn pins_of_other_processes_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let medium = shared(disk(folder.path()));
    let writer = ReaderPins::register(medium.clone(), false).expect("registers");
    let oldest = || writer.oldest().expect("works");
    let mut child = child("child_that_pins", folder.path());
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    await_line(&mut lines, "pinned");
    assert_eq!(oldest(), Some(17));
    let pins = ReaderPins::register(medium.clone(), false).expect("registers");
    let own = pins.pin(12).expect("pins");
    assert_eq!(oldest(), Some(12));
    drop(own);
    child.kill().expect("kills");
    child.wait().expect("ends");
    assert_eq!(oldest(), None);
}

/// A log in a folder, with its writer and three commits.
fn written_folder() -> (tempfile::TempDir, std::path::PathBuf, Arc<dyn Medium>, LogWriter) {
    let outer = tempfile::tempdir().expect("a folder");
    let folder = outer.path().join("db");
    let medium = shared(disk(&folder));
    let (mut writer, _) = Log::open_writer(medium.clone()).expect("new");
    (1..=3).for_each(|sequence| assert_eq!(writer.append(&body(sequence)).expect("commits"), sequence));
    (outer, folder, medium, writer)
}

#[test]
fn a_folder_that_moves_under_its_writer_is_noticed() {
    let (outer, folder, medium, mut writer) = written_folder();
    let elsewhere = outer.path().join("elsewhere");
    std::fs::rename(&folder, &elsewhere).expect("moved");
    let is_moved = |error: &LogError| matches!(error, LogError::Medium(MediumError::Moved { .. }));
    assert!(is_moved(&writer.append(&body(4)).expect_err("moved")));
    drop(writer);
    assert!(is_moved(&Log::open_writer(medium.clone()).map(drop).expect_err("still moved")));
    // A folder that takes its place is another one.
    std::fs::create_dir(&folder).expect("made");
    assert!(is_moved(&Log::open_writer(medium.clone()).map(drop).expect_err("replaced")));
    assert_eq!(std::fs::read_dir(&folder).expect("listed").count(), 0, "nothing was created there");
    std::fs::remove_dir(&folder).expect("removed");
    std::fs::rename(&elsewhere, &folder).expect("moved back");
    assert_eq!(reopen(&medium).expect("sound"), 3);
}

#[test]
fn there_is_one_writer_without_the_lock_file() {
    let (_outer, folder, medium, mut writer) = written_folder();
    std::fs::remove_file(folder.join("LOCK")).expect("removed");
    let second = Log::open_writer(shared(disk(&folder))).map(drop).expect_err("the log is locked");
    assert!(matches!(second, LogError::Busy { .. }), "{second}");
    let error = writer.append(&body(4)).expect_err("the lock is gone").to_string();
    assert!(error.contains("LOCK is not the file any more"), "{error}");
    drop(writer);
    assert_eq!(reopen(&medium).expect("sound"), 3);
}

#[test]
fn a_removed_log_is_made_again_by_its_writer() {
    for name in [manifest_name(1), CURRENT.to_string()] {
        let (_outer, folder, medium, mut writer) = written_folder();
        std::fs::remove_file(folder.join(name)).expect("removed");
        assert!(writer.lacks_files().expect("works"));
        writer.checkpoint(&folded(3)).expect("folds");
        assert!(!writer.lacks_files().expect("works"));
        assert_eq!(writer.append(&body(4)).expect("commits"), 4);
        drop(writer);
        assert_eq!(reopen(&medium).expect("sound"), 4);
    }
}

#[test]
fn a_log_that_others_change_or_replace_is_noticed() {
    let changes: [fn(&std::path::Path); 2] = [
        |log| std::fs::write(log, &std::fs::read(log).expect("read")[..64]).expect("cut short"),
        |log| {
            std::fs::copy(log, log.with_extension("copy")).expect("copied");
            std::fs::rename(log.with_extension("copy"), log).expect("replaced");
        },
    ];
    for change in changes {
        let (_outer, folder, _, mut writer) = written_folder();
        change(&folder.join(manifest_name(1)));
        let error = writer.append(&body(4)).expect_err("changed");
        let noticed = matches!(error, LogError::Changed { .. } | LogError::Medium(MediumError::Replaced { .. }));
        assert!(noticed, "{error}");
    }
}

#[test]
fn a_reader_notices_another_database_and_an_older_state() {
    let (_outer, folder, medium, mut writer) = written_folder();
    let names = [CURRENT.to_string(), manifest_name(1)];
    let read = |name: &String| std::fs::read(folder.join(name)).expect("read");
    let older: Vec<Vec<u8>> = names.iter().map(read).collect();
    writer.append(&body(4)).expect("commits");
    drop(writer);
    let put = |files: &[Vec<u8>]| {
        names.iter().zip(files).for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).expect("written"));
    };
    let mut reader = Log::open_reader(medium.clone()).expect("there");
    assert_eq!(check(&reader.refresh().expect("sound").records), 4);
    let newest: Vec<Vec<u8>> = names.iter().map(read).collect();
    put(&older);
    assert!(matches!(reader.refresh(), Err(LogError::OtherState { .. })));
    put(&newest);
    assert!(reader.refresh().expect("as it was").records.is_empty());
    let (_other_outer, other, _, mut other_writer) = written_folder();
    other_writer.append(&body(4)).expect("commits");
    drop(other_writer);
    put(&names.iter().map(|name| std::fs::read(other.join(name)).expect("read")).collect::<Vec<_>>());
    assert!(matches!(reader.refresh(), Err(LogError::OtherState { .. })));
    let database = reader.database();
    assert!(matches!(Log::open_known_writer(medium, database), Err(LogError::OtherState { .. })));
}
