use fastrand::Rng;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::crashes::{Explorer, Outcome, Uses, words_of};
use super::super::pool::{PoolOptions, UnitKind};
use super::*;
use crate::media::region::{MemoryRegion, Site};

const OWNER: u64 = 5;
const CAPACITY: u64 = 4 << 20;
const SMALL: TreeOptions = TreeOptions { node_bytes: 256 };

/// A tree in a pool of units of `unit_bytes`. Its root is in a unit of its own.
fn create(region: Arc<dyn Region>, unit_bytes: u64, options: TreeOptions) -> Tree {
    let pool = Arc::new(Pool::create(region, PoolOptions { unit_bytes, database: 1 }).expect("a pool"));
    let unit = pool.claim(UnitKind::Table, OWNER, (0, 0)).expect("room");
    let root = pool.content(unit).start;
    Tree::create(pool, OWNER, root, options).expect("a tree")
}

fn memory(len: u64) -> Arc<dyn Region> {
    Arc::new(MemoryRegion::new(len, CAPACITY))
}

fn open(region: Arc<dyn Region>, options: TreeOptions) -> Result<Tree> {
    let pool = Arc::new(Pool::open(region, None)?);
    let units = pool.take_units(OWNER);
    let root = units.iter().find(|unit| unit.kind == UnitKind::Table);
    let root = root.ok_or_else(|| super::super::damaged(pool.region().as_ref(), 0, "no unit with the root"))?;
    let root = pool.content(root.unit).start;
    Tree::open(pool, OWNER, root, options, &units)
}

fn range(tree: &Tree, first: u64, last: u64) -> Vec<Entry> {
    let (mut from, mut all, mut batch) = (Some((first, 0)), vec![], vec![]);
    while let Some(start) = from {
        from = tree.batch(start, last, &mut batch).expect("sound");
        all.extend_from_slice(&batch);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_tree_is_a_sorted_set(
        size in 8u32..=14, changes in prop::collection::vec((0u64..400, 0u64..4, any::<bool>()), 1..2500),
    ) {
        let options = TreeOptions { node_bytes: 1 << size };
        let tree = create(memory(16 * 32_768), 32_768, options);
        let mut model = BTreeSet::new();
        for (first, second, adds) in changes {
            let entry = (first << 32, second);
            if adds {
                model.insert(entry);
                tree.insert(entry).expect("room");
            } else {
                prop_assert_eq!(tree.remove(entry).expect("sound"), model.remove(&entry));
            }
        }
        let expected: Vec<Entry> = model.iter().copied().collect();
        prop_assert_eq!(&tree.check().expect("sound"), &expected);
        prop_assert_eq!(tree.len(), expected.len() as u64);
        let (low, high) = (50 << 32, 200 << 32);
        let within = |entry: &Entry| (low..=high).contains(&entry.0);
        prop_assert_eq!(range(&tree, low, high), expected.iter().copied().filter(within).collect::<Vec<_>>());
        for first in [0, 7, 399, 500] {
            let mut found = vec![];
            tree.lookup(first << 32, &mut found).expect("sound");
            found.sort_unstable();
            let seconds = expected.iter().filter(|entry| entry.0 == first << 32).map(|entry| entry.1);
            prop_assert_eq!(found, seconds.collect::<Vec<_>>());
        }
        let words = words_of(tree.region());
        let again = open(Arc::new(MemoryRegion::of_words(&words, CAPACITY)), options).expect("sound");
        prop_assert_eq!(again.check().expect("sound"), expected);
    }
}

#[test]
fn leaves_have_as_many_slots_as_fit() {
    for (bytes, slots) in [(256, 12), (512, 27), (1024, 57), (4096, 237), (16_384, 954)] {
        let geometry = Geometry::new(bytes);
        assert_eq!(geometry.slots, slots, "{bytes}");
        assert!(geometry.entry(0, slots) <= bytes && geometry.fingerprint(0, slots - 1) < geometry.entry(0, 0));
    }
}

#[test]
fn ascending_keys_fill_leaves_and_empty_leaves_are_used_again() {
    let tree = create(memory(16 * 4096), 4096, SMALL);
    let fill = || (0..1000).for_each(|key| tree.insert((key, 0)).expect("room"));
    fill();
    let leaves = tree.inner.read().leaves.len();
    assert_eq!(leaves, 1000usize.div_ceil(12));
    let used = |tree: &Tree| tree.pool.usage().0 - tree.pool.usage().1;
    let before = used(&tree);
    (0..1000).for_each(|key| assert!(tree.remove((key, 0)).expect("sound")));
    assert_eq!((tree.inner.read().leaves.len(), tree.check().expect("sound")), (1, vec![]));
    fill();
    assert_eq!(used(&tree), before);
    (0..1000).for_each(|key| assert!(tree.remove((key, 0)).expect("sound")));
    // Opening frees units without a leaf of the list.
    let words = words_of(tree.region());
    let again = open(Arc::new(MemoryRegion::of_words(&words, CAPACITY)), SMALL).expect("sound");
    assert_eq!(used(&again), 3, "the superblock, the root's unit, and one of leaves");
}

#[test]
fn estimates_follow_the_number_of_leaves() {
    let tree = create(memory(16 * 32_768), 32_768, TreeOptions::default());
    (0..20_000).for_each(|key| tree.insert((key * 1000, 0)).expect("room"));
    for (first, last, expected) in [(0, u64::MAX, 20_000.0), (0, 4_999_999, 5000.0), (7_000_000, 7_999_999, 1000.0)] {
        let estimate = tree.estimate(first, last) as f64;
        assert!((0.8..=1.2).contains(&(estimate / expected)), "{estimate} for {expected}");
    }
    assert_eq!(tree.estimate(5, 4), 0);
}

#[test]
fn sizes_that_are_not_possible_are_refused() {
    let pool = Pool::create(memory(8 * 4096), PoolOptions { unit_bytes: 4096, database: 1 }).expect("a pool");
    let pool = Arc::new(pool);
    for node_bytes in [0, 128, 300, 4096, 32_768] {
        let refused = Tree::create(pool.clone(), 1, 64, TreeOptions { node_bytes }).expect_err("refused");
        assert!(refused.to_string().contains("power of two"), "{refused}");
    }
}

/// Changes bits of a tree's leaves and links: opening or checking names the damage, or the content is as it was.
#[test]
fn damage_is_named_and_never_followed() {
    let tree = create(memory(8 * 4096), 4096, SMALL);
    (0..40).for_each(|key| tree.insert((key * 3, key)).expect("room"));
    let expected = tree.check().expect("sound");
    let sound = words_of(tree.region());
    let mut unnoticed = 0;
    for bit in (0..3 * 4096 * 8).step_by(5) {
        let mut words = sound.clone();
        words[bit / 64] ^= 1 << (bit % 64);
        let opened = open(Arc::new(MemoryRegion::of_words(&words, CAPACITY)), SMALL);
        match opened.and_then(|tree| tree.check()) {
            Ok(found) if found == expected => {}
            Ok(_) => unnoticed += 1,
            Err(error) => assert!(error.to_string().contains(":memory:"), "{error}"),
        }
    }
    // Leaves have no checksum of their entries: a bit of the bitmap, or of a place, can be wrong alone.
    assert!(unnoticed <= (40 * 128 + 5 * 64) / 5, "{unnoticed}");
}

/// How a tree with leaves of one size is opened and changed after a crash.
fn uses(node_bytes: u64) -> Uses<Vec<Entry>> {
    match node_bytes {
        256 => Uses { open: opened::<256>, change: changed::<256> },
        512 => Uses { open: opened::<512>, change: changed::<512> },
        _ => Uses { open: opened::<8192>, change: changed::<8192> },
    }
}

fn opened<const NODE: u64>(region: Arc<dyn Region>) -> Result<Vec<Entry>, String> {
    open(region, TreeOptions { node_bytes: NODE }).and_then(|tree| tree.check()).map_err(|error| error.to_string())
}

fn changed<const NODE: u64>(region: Arc<dyn Region>) -> Result<(), String> {
    let change = || -> Result<bool> {
        let tree = open(region, TreeOptions { node_bytes: NODE })?;
        let before = tree.check()?;
        tree.insert((77, 7_777_777))?;
        tree.remove((77, 7_777_777))?;
        Ok(tree.check()? == before)
    };
    match change() {
        Ok(true) => Ok(()),
        Ok(false) => Err("other entries changed".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Insertions and removals, splits and leaves that become empty, from a tree with a number of entries.
pub fn crashes(node_bytes: u64, entries: u64, steps: usize, omitted: Option<Site>) -> Outcome {
    let options = TreeOptions { node_bytes };
    let unit_bytes = (node_bytes * 2).max(4096);
    let start = create(memory(8 * unit_bytes), unit_bytes, options);
    let mut model: BTreeSet<Entry> = (0..entries).map(|key| (key * 10, key)).collect();
    model.iter().for_each(|entry| start.insert(*entry).expect("room"));
    let content = |model: &BTreeSet<Entry>| model.iter().copied().collect::<Vec<_>>();
    let words = words_of(start.region());
    let explorer = Explorer::new(words, 24 * unit_bytes, content(&model), uses(node_bytes), omitted);
    let tree = open(explorer.region.clone(), options).expect("sound");
    let mut change = |entry: Entry, adds: bool| {
        if adds {
            model.insert(entry);
            explorer.step(content(&model), || tree.insert(entry).expect("room"));
        } else if model.remove(&entry) {
            explorer.step(content(&model), || assert!(tree.remove(entry).expect("sound")));
        }
    };
    let mut numbers = Rng::with_seed(11);
    let end = 60.max(entries * 10);
    for step in 0..steps {
        change((numbers.u64(..end), numbers.u64(..2)), step % 100 < 55);
    }
    // Leaves that become empty are used again, while nothing else changes in the leaf before them.
    if entries < 10 {
        (1000..1048).for_each(|key| change((key * 10, 0), true));
        (1008..1036).for_each(|key| change((key * 10, 0), false));
        (0..14).for_each(|at| change((10_470, at), true));
    }
    explorer.outcome()
}

#[test]
fn readers_beside_the_writer_see_whole_entries() {
    let tree = create(memory(64 * 4096), 4096, SMALL);
    // The second number follows from the first; a mixture of two entries would not.
    let entry = |key: u64| (key, key * 31 + 7);
    (0..200).step_by(2).for_each(|key| tree.insert(entry(key)).expect("room"));
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut numbers = Rng::with_seed(3);
            for _ in 0..20_000 {
                let key = numbers.u64(..100) * 2 + 1;
                tree.insert(entry(key)).expect("room");
                tree.remove(entry(numbers.u64(..100) * 2 + 1)).expect("sound");
            }
            is_done.store(true, Ordering::Relaxed);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut found = vec![];
                while !is_done.load(Ordering::Relaxed) {
                    let all = range(&tree, 0, u64::MAX);
                    assert!(all.iter().all(|found| *found == entry(found.0)), "{all:?}");
                    assert!(all.is_sorted());
                    assert_eq!(all.iter().filter(|found| found.0 % 2 == 0).count(), 100);
                    found.clear();
                    tree.lookup(42, &mut found).expect("sound");
                    assert_eq!(found, [entry(42).1]);
                }
            });
        }
    });
    tree.check().expect("sound");
}
