//! The guarantees of every medium, and all ways to read a disk.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// Content without repetitions.
fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn write(medium: &dyn Medium, name: &str, bytes: &[u8]) {
    let mut file = medium.create(name).expect("a new name");
    file.append(bytes).expect("writes");
    file.finish().expect("syncs");
}

fn read(medium: &dyn Medium, name: &str) -> Vec<u8> {
    let file = medium.open(name).expect("opens");
    let len = file.len().expect("has a length") as usize;
    file.read_many(&[ReadRequest { offset: 0, len }]).remove(0).expect("reads").to_vec()
}

/// Each kind of medium, in a fresh folder.
fn each_medium(check: impl Fn(&dyn Medium)) {
    let folder = tempfile::tempdir().expect("a folder");
    check(&Disk::open(folder.path().join("a/b"), true, DiskOptions::default()).expect("opens"));
    check(&Memory::new());
    check(&Faulty::on_memory(Memory::new(), FaultPlan::default()));
}

#[test]
fn files_have_names_lengths_and_bytes() {
    each_medium(|medium| {
        write(medium, "one", b"first");
        write(medium, "t/two", b"second");
        assert!(medium.create("one").is_err(), "create does not replace");
        assert!(medium.open("three").unwrap_err().is_not_found());
        assert!(medium.edit("three").unwrap_err().is_not_found());
        assert!(medium.remove("three").unwrap_err().is_not_found());
        assert_eq!(medium.list("").unwrap(), ["one"]);
        assert_eq!(medium.list("t/").unwrap(), ["t/two"]);
        assert_eq!(medium.list("t/tx").unwrap(), [""; 0]);
        assert_eq!(medium.list("nowhere/").unwrap(), [""; 0]);
        let open = medium.open("one").unwrap();
        medium.rename("t/two", "one").unwrap();
        medium.sync_dir().unwrap();
        medium.sync_folder("t").unwrap();
        assert_eq!(read(medium, "one"), b"second");
        assert_eq!((medium.exists("t/two").unwrap(), medium.exists("one").unwrap()), (false, true));
        medium.remove("one").unwrap();
        let mut old = [0; 5];
        open.read_at(0, &mut old).unwrap();
        assert_eq!(&old, b"first", "an open file outlives its name");
    });
}

#[test]
fn parts_of_any_length_become_one_file() {
    let bytes = content((9 << 20) + 4097);
    // Parts that end within blocks and within the memory for direct writes, and longer ones than that.
    for cuts in [&[][..], &[0, 0, 1], &[4096, 8192, (4 << 20) - 1, (4 << 20) + 1], &[3, (8 << 20) + 5, 9 << 20]] {
        let ends: Vec<usize> = [0].into_iter().chain(cuts.iter().copied()).chain([bytes.len()]).collect();
        let parts: Vec<&[u8]> = ends.windows(2).map(|two| &bytes[two[0]..two[1]]).collect();
        each_medium(|medium| {
            medium.write_whole("t/whole", &parts).expect("writes");
            assert!(read(medium, "t/whole") == bytes, "{cuts:?}");
            assert!(medium.write_whole("t/whole", &parts).is_err(), "it does not replace");
            medium.write_whole("t/few", &[&bytes[..5], &[], &bytes[5..7]]).expect("writes");
            assert_eq!(read(medium, "t/few"), bytes[..7]);
            medium.write_whole("t/none", &[]).expect("writes");
            assert_eq!(medium.open("t/none").unwrap().len().unwrap(), 0);
            medium.remove("t/whole").unwrap();
            ["t/few", "t/none"].iter().for_each(|name| medium.remove(name).unwrap());
        });
    }
}

#[test]
fn files_are_edited_in_place() {
    each_medium(|medium| {
        write(medium, "f", b"0123456789");
        let reader = medium.open("f").unwrap();
        let mut file = medium.edit("f").unwrap();
        assert_eq!(file.len(), 10);
        file.write_at(2, b"xy").unwrap();
        file.append(b"ab").unwrap();
        assert_eq!((file.len(), reader.len().unwrap()), (12, 12));
        assert_eq!(read(medium, "f"), b"01xy456789ab");
        file.write_at(14, b"z").unwrap();
        assert_eq!(read(medium, "f"), b"01xy456789ab\0\0z");
        file.set_len(3).unwrap();
        file.append(b"!").unwrap();
        file.finish().unwrap();
        assert_eq!(read(medium, "f"), b"01x!");
        let mut bytes = [0; 5];
        assert!(matches!(reader.read_at(0, &mut bytes), Err(MediumError::PastEnd { file_len: 4, .. })));
        let results = reader.read_many(&[ReadRequest { offset: 3, len: 2 }, ReadRequest { offset: 3, len: 1 }]);
        assert!(matches!(results[0], Err(MediumError::PastEnd { .. })));
        assert_eq!(&results[1].as_ref().unwrap()[..], b"!");
    });
}

#[test]
fn locks_exclude_and_share() {
    each_medium(|medium| {
        assert!(medium.try_lock("l", LockMode::Existing).unwrap().is_none());
        assert!(medium.try_lock("l", LockMode::Shared).unwrap().is_none());
        let lock = medium.try_lock("l", LockMode::Create).unwrap().expect("free");
        lock.write(b"longer").unwrap();
        lock.write(b"me").unwrap();
        assert_eq!(read(medium, "l"), b"me");
        for mode in [LockMode::Create, LockMode::Existing, LockMode::Shared] {
            assert!(medium.try_lock("l", mode).unwrap().is_none(), "{mode:?}");
        }
        drop(lock);
        let shared = medium.try_lock("l", LockMode::Shared).unwrap().expect("free");
        let also = medium.try_lock("l", LockMode::Shared).unwrap().expect("shared");
        drop(shared);
        assert!(medium.try_lock("l", LockMode::Existing).unwrap().is_none());
        drop(also);
        let lock = medium.try_lock("l", LockMode::Existing).unwrap().expect("free");
        medium.remove("l").unwrap();
        assert!(medium.try_lock("l", LockMode::Create).unwrap().is_some(), "another file of that name");
        drop(lock);
    });
}

#[test]
fn a_folder_that_is_not_there_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nowhere");
    let error = Disk::open(&path, false, DiskOptions::default()).unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("nowhere"), "{error}");
}

/// The ways to read a disk. `On` only if the file system supports it.
fn ways() -> Vec<DiskOptions> {
    let mut ways = Vec::new();
    for direct in [DirectMode::Auto, DirectMode::On, DirectMode::Off] {
        for (force_threads, fallback_threads) in [(false, 0), (true, 2), (true, 0)] {
            let (io_unit, io_depth) = (16 << 10, 3);
            ways.push(DiskOptions {
                direct,
                io_unit,
                io_depth,
                fallback_threads,
                force_threads,
                pool_bytes: 1 << 20,
                ..DiskOptions::default()
            });
        }
    }
    ways
}

/// Reads the requests in each way, checks every byte of every answer, and that all memory returns to the pool.
fn check(folder: &std::path::Path, content: &[u8], requests: &[ReadRequest]) {
    for options in ways() {
        let disk = Disk::open(folder, false, options.clone()).expect("there");
        let file = disk.open("f").expect("there");
        forget_cached(folder);
        for (request, result) in requests.iter().zip(file.start(requests).wait()) {
            let start = request.offset as usize;
            match (content.get(start..start + request.len), result) {
                (Some(expected), Ok(bytes)) => assert!(bytes[..] == *expected, "{request:?} {options:?}"),
                (None, Err(MediumError::PastEnd { .. })) => {}
                (_, Err(error))
                    if options.direct == DirectMode::On && error.kind() == Some(std::io::ErrorKind::Other) => {}
                (expected, result) => panic!("{request:?} {options:?}: {:?} {result:?}", expected.is_some()),
            }
        }
    }
}

/// Drops a file from the operating system's cache, so that reading it is real I/O.
fn forget_cached(folder: &std::path::Path) {
    system::forget_cached(&std::fs::File::open(folder.join("f")).expect("there"));
}

#[test]
fn a_disk_is_read_alike_in_every_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let content = content(1_000_003);
    write(&Disk::open(folder.path(), true, DiskOptions::default()).unwrap(), "f", &content);
    let pages = |page: usize| -> Vec<ReadRequest> {
        (0..content.len() / page).map(|index| ReadRequest { offset: (index * page) as u64, len: page }).collect()
    };
    check(folder.path(), &content, &pages(4096));
    check(folder.path(), &content, &pages(32 << 10));
    check(folder.path(), &content, &pages(1000));
    check(folder.path(), &content, &[ReadRequest { offset: 0, len: content.len() }]);
    check(folder.path(), &content, &[ReadRequest { offset: 999_424, len: 579 }, ReadRequest { offset: 0, len: 0 }]);
    check(folder.path(), &content, &[ReadRequest { offset: 999_424, len: 580 }]);
    check(folder.path(), &content, &[]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_requests_are_answered(
        requests in proptest::collection::vec((0u64..40, 0usize..20, any::<bool>()), 0..60)
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let content = content(150_000);
        write(&Disk::open(folder.path(), true, DiskOptions::default()).unwrap(), "f", &content);
        let request = |(page, len, aligned): (u64, usize, bool)| match aligned {
            true => ReadRequest { offset: page * 4096, len: len * 4096 },
            false => ReadRequest { offset: page * 3777, len: len * 999 },
        };
        check(folder.path(), &content, &requests.into_iter().map(request).collect::<Vec<_>>());
    }
}

/// Reads in progress are abandoned at every stage, by several threads at once. The memory returns, and later reads are
/// correct.
#[test]
fn abandoned_reads_do_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let content = &content(4 << 20);
    write(&Disk::open(folder.path(), true, DiskOptions::default()).unwrap(), "f", content);
    for options in ways() {
        let disk = Arc::new(Disk::open(folder.path(), false, options).expect("there"));
        std::thread::scope(|scope| {
            for thread in 0..3usize {
                let disk = disk.clone();
                scope.spawn(move || {
                    for round in 0..8 {
                        forget_cached(disk.root());
                        let file = disk.open("f").expect("there");
                        let offset = (((thread * 8 + round) * 37) % 64 * 4096) as u64;
                        let requests: Vec<_> =
                            (0..40).map(|page| ReadRequest { offset: offset + page * 65536, len: 65536 }).collect();
                        let abandoned = file.start(&requests);
                        let kept = file.start(&requests[..3]);
                        drop((abandoned, file));
                        for (request, result) in requests.iter().zip(kept.wait()) {
                            let start = request.offset as usize;
                            assert!(result.expect("reads")[..] == content[start..start + 65536]);
                        }
                    }
                });
            }
        });
        let pool = disk.pool().clone();
        drop(disk);
        // The last reads may still be in progress. Their memory returns only when they are done.
        while Arc::strong_count(&pool) > 1 {
            std::thread::yield_now();
        }
        assert!(pool.free_bytes() > 0);
    }
}

#[test]
fn a_crash_keeps_what_was_synced() {
    for seed in 0..300 {
        let faulty = Faulty::on_memory(Memory::new(), FaultPlan::default());
        write(&faulty, "durable", b"synced");
        faulty.sync_dir().unwrap();
        write(&faulty, "nameless", b"synced");
        let mut file = faulty.edit("durable").unwrap();
        file.append(&content(2000)).unwrap();
        let after = faulty.crash(seed).files();
        assert!(after["durable"].starts_with(b"synced"), "seed {seed}");
        assert!(after.get("nameless").is_none_or(|bytes| bytes == b"synced"));
        assert_eq!(read(&faulty, "durable").len(), 2006, "without a crash all is there");
    }
}

/// Every possible effect of a power loss happens for some seed.
#[test]
fn crashes_differ() {
    let faulty = Faulty::on_memory(Memory::new(), FaultPlan::default());
    write(&faulty, "old", b"1");
    faulty.sync_dir().unwrap();
    let mut file = faulty.create("f").unwrap();
    faulty.sync_dir().unwrap();
    file.append(&vec![1; 2048]).unwrap();
    faulty.rename("old", "new").unwrap();
    let outcomes: Vec<_> = (0..300).map(|seed| faulty.crash(seed).files()).collect();
    type Files = std::collections::BTreeMap<String, Vec<u8>>;
    let some = |test: &dyn Fn(&Files) -> bool| assert!(outcomes.iter().any(test));
    some(&|files| files["f"].is_empty());
    some(&|files| files["f"] == vec![1; 2048]);
    some(&|files| files["f"].len() == 2048 && files["f"][..512] == [0; 512]);
    some(&|files| files.contains_key("old"));
    some(&|files| files.contains_key("new"));
    assert!(outcomes.iter().all(|files| files.contains_key("old") != files.contains_key("new")));
}

#[test]
fn a_failed_sync_loses_bytes_for_ever() {
    let plan = FaultPlan { fail_kinds: vec![(Operation::Sync, 0)], ..FaultPlan::default() };
    let lost = (0..50).filter(|seed| {
        let faulty = Faulty::on_memory(Memory::new(), FaultPlan { seed: *seed, ..plan.clone() });
        let mut file = faulty.create("f").unwrap();
        faulty.sync_dir().unwrap();
        file.append(&content(3000)).unwrap();
        file.sync().unwrap_err();
        file.sync().expect("the next one says that all is well");
        faulty.crash(*seed).files()["f"] != content(3000)
    });
    assert!(lost.count() > 10);
}

#[test]
fn planned_faults_happen() {
    let plan = FaultPlan { capacity: Some(10), flip_read: Some(1), ..FaultPlan::default() };
    let faulty = Faulty::on_memory(Memory::new(), plan);
    let mut file = faulty.create("f").unwrap();
    file.append(&[1; 6]).unwrap();
    assert_eq!(file.append(&[2; 6]).unwrap_err().kind(), Some(std::io::ErrorKind::StorageFull));
    file.write_at(0, &[3; 6]).expect("no more room is needed");
    assert_eq!(read(&faulty, "f"), [3, 3, 3, 3, 3, 3, 2, 2, 2, 2]);
    let flipped = read(&faulty, "f");
    let bits: u32 = flipped.iter().zip(read(&faulty, "f")).map(|(one, other)| (one ^ other).count_ones()).sum();
    assert_eq!(bits, 1);
    let dead = FaultPlan { fail_operation: Some(faulty.operations()), stay_dead: true, ..FaultPlan::default() };
    faulty.set_plan(dead);
    assert!(faulty.open("f").is_err() && faulty.list("").is_err() && file.append(&[1]).is_err());
}

/// Run with `cargo test --release -- --ignored --nocapture read_rates`; needs 1 GiB of disk in the temporary folder.
#[test]
#[ignore = "prints a measurement"]
fn read_rates() {
    let folder = tempfile::tempdir_in(std::env::var_os("FREESTONE_TEST_FOLDER").unwrap_or(".".into())).unwrap();
    let disk = Disk::open(folder.path(), true, DiskOptions::default()).unwrap();
    let mut file = disk.create("f").unwrap();
    let piece = content(1 << 20);
    let start = std::time::Instant::now();
    (0..1024).for_each(|_| file.append(&piece).unwrap());
    file.finish().unwrap();
    println!("write and sync: {:.0} MB/s", 1073.7 / start.elapsed().as_secs_f64());
    let options = DiskOptions::default();
    let ways = [
        ("io_uring direct", false, DiskOptions { direct: DirectMode::On, ..options.clone() }),
        ("io_uring auto, cold", false, options.clone()),
        ("4 threads direct", false, DiskOptions { direct: DirectMode::On, force_threads: true, ..options.clone() }),
        (
            "no thread direct",
            false,
            DiskOptions { direct: DirectMode::On, force_threads: true, fallback_threads: 0, ..options.clone() },
        ),
        (
            "no thread cached, cold",
            false,
            DiskOptions { direct: DirectMode::Off, force_threads: true, fallback_threads: 0, ..options.clone() },
        ),
        ("auto, warm", true, options),
    ];
    for (name, warm, options) in ways {
        let disk = Disk::open(folder.path(), false, options).unwrap();
        let mut rates = Vec::new();
        for _ in 0..3 {
            if !warm {
                forget_cached(folder.path());
            } else {
                let _ = std::fs::read(folder.path().join("f")).unwrap();
            }
            rates.push(scan_rate(disk.open("f").unwrap().as_ref()));
        }
        println!("{name}: {rates:.0?} MB/s");
    }
}

/// Reads a file in 32 KiB pages, 8 MiB at a time, one batch ahead.
fn scan_rate(file: &dyn ReadFile) -> f64 {
    let start = std::time::Instant::now();
    let batch = |index: u64| -> Vec<ReadRequest> {
        (0..256).map(|page| ReadRequest { offset: (index * 256 + page) << 15, len: 32 << 10 }).collect()
    };
    let mut ahead = file.start(&batch(0));
    for index in 0..128u64 {
        let next = if index < 127 { file.start(&batch(index + 1)) } else { Pending::ready(Vec::new()) };
        for result in std::mem::replace(&mut ahead, next).wait() {
            assert_eq!(result.unwrap().len(), 32 << 10);
        }
    }
    1073.7 / start.elapsed().as_secs_f64()
}
