use std::sync::Arc;
use std::time::Duration;

use super::*;

fn memory() -> Arc<dyn Region> {
    Arc::new(MemoryRegion::new(4096, 8192))
}

/// Bytes written at any offset are read back, and their neighbours stay.
fn check_bytes(region: &dyn Region) {
    let bytes: Vec<u8> = (1..=40).collect();
    for offset in [0, 1, 7, 8, 63, 4096 - 40] {
        let around = |at: u64| region.words().load_narrow(at, 1);
        let (before, after) =
            ((offset > 0).then(|| around(offset - 1)), (offset + 40 < 4096).then(|| around(offset + 40)));
        region.write(offset, &bytes);
        let mut read = vec![0; 40];
        region.words().read(offset, &mut read);
        assert_eq!(read, bytes, "at {offset}");
        assert_eq!((offset > 0).then(|| around(offset - 1)), before);
        assert_eq!((offset + 40 < 4096).then(|| around(offset + 40)), after);
    }
    region.store(16, 0x0807_0605_0403_0201);
    let narrow = |offset, width| region.words().load_narrow(offset, width);
    assert_eq!((narrow(16, 8), narrow(20, 4)), (0x0807_0605_0403_0201, 0x0807_0605));
    assert_eq!((narrow(18, 2), narrow(23, 1)), (0x0403, 8));
}

#[test]
fn bytes_are_read_back() {
    check_bytes(memory().as_ref());
    let words = vec![0; 512];
    check_bytes(&TrackedRegion::of_words(words, 4096) as &dyn Region);
    check_bytes(&DelayedRegion::new(memory(), Duration::from_nanos(50), Duration::from_nanos(50)) as &dyn Region);
}

#[test]
fn memory_grows_up_to_its_capacity() {
    let region = memory();
    region.grow(8192).expect("room");
    assert_eq!((region.len(), region.words().load(8184)), (8192, 0));
    assert!(region.grow(12_288).expect_err("no room").to_string().contains("extend"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_mapped_file_keeps_its_bytes_and_grows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let options = MapOptions { reserve: 1 << 20, ..MapOptions::default() };
    {
        let region: Arc<dyn Region> = Arc::new(MappedRegion::create(&path, 4096, &options).expect("created"));
        check_bytes(region.as_ref());
        region.grow(16_384).expect("there is room");
        region.store(16_376, 7);
        region.flush(0, 16_384);
        region.fence();
        assert!(MappedRegion::create(&path, 4096, &options).is_err(), "it exists");
        let locked = MappedRegion::open(&path, &options).expect_err("locked").to_string();
        assert!(locked.contains("pool"), "{locked}");
        assert!(region.grow(2 << 20).is_err(), "beyond the reserved addresses");
    }
    let region: Arc<dyn Region> = Arc::new(MappedRegion::open(&path, &options).expect("opened"));
    assert_eq!((region.len(), region.words().load(16_376)), (16_384, 7));
    assert_ne!(region.persistence(), Persistence::Volatile);
    drop(region);
    std::fs::write(&path, [1; 100]).expect("written");
    assert!(MappedRegion::open(&path, &options).expect_err("no whole pages").to_string().contains("4096"));
}

/// The contents that a crash could leave in the first words of a region, sorted.
fn contents(region: &TrackedRegion, words: &[usize]) -> Vec<Vec<u64>> {
    let images = region.crash_point();
    let pick = |image: Vec<u64>| words.iter().map(|at| image[*at]).collect::<Vec<_>>();
    let mut found: Vec<_> = images.images(1000, 1).map(pick).collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn a_crash_keeps_a_prefix_of_each_line() {
    let tracked = TrackedRegion::of_words(vec![0; 512], 4096);
    let region: &dyn Region = &tracked;
    region.store(0, 1);
    region.store(8, 2);
    region.store(64, 3);
    let prefixes = [[0, 0], [1, 0], [1, 2]];
    let all: Vec<Vec<u64>> = prefixes.iter().flat_map(|[a, b]| [0, 3].map(|c| vec![*a, *b, c])).collect();
    assert_eq!(contents(&tracked, &[0, 1, 8]), all);
    // A flush without a fence changes nothing, and a fence without a flush neither.
    region.fence();
    region.flush(0, 16);
    assert_eq!(contents(&tracked, &[0, 1, 8]), all);
    region.store(0, 4);
    region.fence();
    assert_eq!(contents(&tracked, &[0, 1, 8]), [[1, 2, 0], [1, 2, 3], [4, 2, 0], [4, 2, 3]]);
    assert_eq!(tracked.counts(), (1, 2));
}

#[test]
fn a_fence_covers_its_own_threads_flushes() {
    let tracked = TrackedRegion::of_words(vec![0; 512], 4096);
    let region: &dyn Region = &tracked;
    region.store(0, 1);
    region.flush(0, 8);
    std::thread::scope(|scope| {
        scope.spawn(|| region.fence());
    });
    assert_eq!(contents(&tracked, &[0]), [[0], [1]]);
    region.fence();
    assert_eq!(contents(&tracked, &[0]), [[1]]);
}

#[test]
fn an_omitted_flush_does_nothing() {
    let tracked = TrackedRegion::of_words(vec![0; 512], 4096);
    let region: &dyn Region = &tracked;
    let step = |value| {
        region.store(0, value);
        region.flush(0, 8);
        region.fence();
    };
    step(1);
    let sites = tracked.sites();
    assert_eq!(sites.len(), 2);
    tracked.omit(sites[0]);
    step(2);
    assert_eq!(contents(&tracked, &[0]), [[1], [2]]);
}

#[test]
fn samples_begin_with_the_extremes() {
    let tracked = TrackedRegion::of_words(vec![0; 512], 4096);
    for word in 0..512 {
        tracked.store(word * 8, 1);
    }
    let point = tracked.crash_point();
    assert_eq!(point.count(), None);
    let images: Vec<Vec<u64>> = point.images(50, 9).collect();
    assert_eq!(images.len(), 50);
    let ones = |image: &Vec<u64>| image.iter().sum::<u64>();
    assert_eq!((ones(&images[0]), ones(&images[1])), (0, 512));
    assert!(images[2..].iter().all(|image| (1..512).contains(&ones(image))));
}
