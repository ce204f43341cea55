use std::collections::{BTreeMap, HashMap};

use freestone_store::media::{FaultPlan, Faulty, Medium, Memory};
use proptest::prelude::*;

use super::*;
use crate::experiments::{self, ScanSettings};

const SETTINGS: ScanSettings = ScanSettings { io_depth: 3, io_unit: 256, block_rows: 7 };

/// A join of tuples of some width, whose first columns are a number and the key.
#[derive(Debug, Clone)]
struct Input {
    inner: Vec<i32>,
    outer: Vec<i32>,
    widths: [usize; 2],
    page_bytes: usize,
    memory_pages: usize,
    /// What the join is told of the inner side, which need not be true.
    expected: u64,
}

impl Input {
    fn shape(&self, side: usize) -> Shape {
        Shape { width: 4 * self.widths[side], key_at: KEY_AT, page_bytes: self.page_bytes }
    }

    fn tuples(&self, side: usize) -> Vec<u8> {
        let keys = if side == 0 { &self.inner } else { &self.outer };
        let tuple = |(number, key): (usize, &i32)| {
            let further = std::iter::repeat_n(number as i32 * 3, self.widths[side] - 2);
            [number as i32, *key].into_iter().chain(further).flat_map(i32::to_le_bytes).collect::<Vec<u8>>()
        };
        keys.iter().enumerate().flat_map(tuple).collect()
    }

    /// The results, sorted, and the bytes in files.
    fn join(&self, medium: Arc<dyn Medium>) -> Result<(Vec<Vec<u8>>, u64)> {
        let [inner, outer] = [self.shape(0), self.shape(1)];
        let memory = self.memory_pages * self.page_bytes;
        let join = HybridJoin::new(inner, outer, memory, SpillFolder::new(medium, SETTINGS))?;
        let mut results = vec![];
        let mut take = |block: &[u8]| {
            assert!(block.len() <= SETTINGS.block_rows * (inner.width + outer.width));
            results.extend(block.chunks_exact(inner.width + outer.width).map(<[u8]>::to_vec));
        };
        let mut output = Output::new(SETTINGS.block_rows, &mut take);
        let mut build = join.build(self.expected);
        for block in self.tuples(0).chunks(SETTINGS.block_rows * inner.width) {
            build.insert(block)?;
            assert!(build.used <= memory, "{} of {memory} bytes are used", build.used);
        }
        let mut probe = build.probe()?;
        for block in self.tuples(1).chunks(SETTINGS.block_rows * outer.width) {
            probe.probe(block, &mut output)?;
        }
        probe.finish(&mut output)?;
        let count = output.end();
        assert_eq!(count, results.len() as u64);
        results.sort_unstable();
        Ok((results, join.spilled_bytes()))
    }

    fn plain(&self) -> Vec<Vec<u8>> {
        let (inner, outer) = (self.tuples(0), self.tuples(1));
        let mut by_key: HashMap<i32, Vec<&[u8]>> = HashMap::new();
        for (key, tuple) in self.inner.iter().zip(inner.chunks_exact(4 * self.widths[0])) {
            by_key.entry(*key).or_default().push(tuple);
        }
        let partners =
            |(key, tuple)| by_key.get(key).into_iter().flatten().map(move |partner| [tuple, *partner].concat());
        let mut results: Vec<Vec<u8>> =
            self.outer.iter().zip(outer.chunks_exact(4 * self.widths[1])).flat_map(partners).collect();
        results.sort_unstable();
        results
    }

    /// Checks the results, and that nothing is left behind. Returns the bytes in files.
    fn check(&self) -> u64 {
        let memory = Memory::new();
        let (results, spilled) = self.join(Arc::new(memory.clone())).expect("the medium has room");
        assert!(results == self.plain(), "{} results of {self:?}", results.len());
        assert_eq!(memory.files(), BTreeMap::new(), "names are removed when files are created");
        spilled
    }
}

/// Keys of few or many values, of which one may be more frequent than all others.
fn keys() -> impl Strategy<Value = Vec<i32>> {
    let range = prop_oneof![Just(1), Just(3), Just(40), Just(2000), Just(i32::MAX)];
    (range, 0..100u32, 0..400usize).prop_flat_map(|(range, skew, count)| {
        let key = prop_oneof![skew => Just(range / 2), 100 - skew => -range..=range];
        prop::collection::vec(key, count)
    })
}

fn input() -> impl Strategy<Value = Input> {
    let sizes = ([2..6usize, 2..6usize], 24..200usize, 4..60usize, prop_oneof![Just(0), 0..1000u64, Just(u64::MAX)]);
    (keys(), keys(), sizes).prop_map(|(inner, outer, (widths, page_bytes, memory_pages, expected))| Input {
        inner,
        outer,
        widths,
        page_bytes,
        memory_pages,
        expected,
    })
}

fn example(inner: Vec<i32>, outer: Vec<i32>, memory_pages: usize) -> Input {
    let expected = inner.len() as u64;
    Input { inner, outer, widths: [2, 3], page_bytes: 64, memory_pages, expected }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_are_those_of_a_plain_join(input in input()) {
        input.check();
    }
}

#[test]
fn what_fits_is_not_written() {
    let keys: Vec<i32> = (0..500).collect();
    // 63 pages of 8 tuples with their links, and one partly empty in each of 8 buckets.
    assert_eq!(example(keys.clone(), keys.clone(), 2 * 63 + 16).check(), 0);
    assert!(example(keys.clone(), keys, 100).check() > 0);
}

#[test]
fn tuples_are_partitioned_again_until_they_fit() {
    let keys: Vec<i32> = (0..5000).map(|at| at % 2500).collect();
    let input = example(keys.clone(), keys, 4);
    let all = (input.tuples(0).len() + input.tuples(1).len()) as u64;
    let spilled = input.check();
    assert!(spilled > 3 * all, "{spilled} bytes are written of {all}");
}

#[test]
fn equal_keys_are_joined_in_pieces() {
    for others in [0, 300] {
        let mut keys = vec![7; 300];
        keys.extend(0..others);
        let input = example(keys, vec![7, 7, 8, -1], 4);
        let all = (input.tuples(0).len() + input.tuples(1).len()) as u64;
        // Without the guard against files that no hash divides, they would be written at every level.
        assert!(input.check() < 8 * all);
    }
}

#[test]
fn empty_sides_have_no_results() {
    for (inner, outer) in [(vec![], vec![1, 2]), ((0..900).collect(), vec![]), (vec![], vec![])] {
        let input = example(inner, outer, 4);
        input.check();
        assert!(input.plain().is_empty());
    }
}

#[test]
fn outer_tuples_of_empty_buckets_are_not_written() {
    let mut input = example(vec![1; 400], (0..9000).collect(), 40);
    input.expected = 10_000;
    let inner_bytes = input.tuples(0).len() as u64;
    let written = input.check();
    assert!(written < 2 * inner_bytes + 9000 * 12 / 4, "{written} bytes");
}

#[test]
fn every_failure_is_one_error_that_says_what_to_do() {
    let keys: Vec<i32> = (0..600).collect();
    let input = example(keys.clone(), keys, 8);
    let expected = input.plain();
    let mut failures = 0;
    loop {
        let memory = Memory::new();
        let plan = FaultPlan { fail_operation: Some(failures), ..FaultPlan::default() };
        match input.join(Arc::new(Faulty::new(Arc::new(memory.clone()), plan))) {
            Ok((results, _)) => {
                assert!(results == expected);
                break;
            }
            Err(error) => {
                assert!(matches!(error, LabError::Spill { .. }), "{error}");
                assert!(error.to_string().contains("injected failure"), "{error}");
            }
        }
        failures += 1;
    }
    assert!(failures > 100, "{failures} operations were failed in turn");
}

#[test]
fn a_full_disk_is_one_error_that_says_what_to_do() {
    let keys: Vec<i32> = (0..600).collect();
    let input = example(keys.clone(), keys, 8);
    let (_, needed) = input.join(Arc::new(Memory::new())).expect("there is room");
    for capacity in [0, 100, needed / 2, needed - 1] {
        let plan = FaultPlan { capacity: Some(capacity), ..FaultPlan::default() };
        let error = input.join(Arc::new(Faulty::new(Arc::new(Memory::new()), plan))).expect_err("no room");
        let message = error.to_string();
        assert!(message.contains("make room, or name another folder with --output"), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn files_have_no_name_while_a_join_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk: Arc<dyn Medium> = Arc::new(SETTINGS.disk(folder.path(), DirectMode::Auto).expect("a folder"));
    let keys: Vec<i32> = (0..5000).collect();
    let mut input = example(keys.clone(), keys, 8);
    input.page_bytes = 512;
    let join = HybridJoin::new(input.shape(0), input.shape(1), 4096, SpillFolder::new(disk.clone(), SETTINGS));
    let join = join.expect("enough memory");
    let mut build = join.build(5000);
    build.insert(&input.tuples(0)).expect("the disk has room");
    assert!(join.spilled_bytes() > 0);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    drop(build);
    let (results, _) = input.join(disk).expect("the disk has room");
    assert!(results == input.plain());
}

#[test]
fn memory_and_tuples_must_fit() {
    let small = example(vec![1], vec![1], 3).join(Arc::new(Memory::new())).expect_err("three pages");
    assert!(small.to_string().contains("256 bytes of memory at least"), "{small}");
    let mut wide = example(vec![1], vec![1], 4);
    wide.widths = [2, 17];
    let wide = wide.join(Arc::new(Memory::new())).expect_err("wider than a page");
    assert!(wide.to_string().contains("68 bytes"), "{wide}");
}

#[test]
fn the_key_has_the_papers_duplicates() {
    assert_eq!(key_column(60_000_000), 8, "c9, as in the paper");
    assert_eq!(key_column(ROWS), 6);
    let range = f64::from(Generated::NarrowE.ranges()[6]);
    assert!((ROWS as f64 / range - 60_000_000.0 / 20_655_176.0).abs() < 0.001);
    for rows in [100, 20_000, 1_000_000, 1 << 40] {
        let case = Case { key: key_column(rows), columns: 4, percents: (100, 10), rows, memory: 0 };
        for query in case.queries() {
            let mut columns = query.columns.clone();
            columns.sort_unstable();
            columns.dedup();
            assert_eq!(columns.len(), 4, "{rows}: {query:?}");
        }
    }
}

#[test]
fn the_predicates_give_the_papers_numbers_of_results() {
    let [c2, c5] = [Generated::NarrowE.ranges()[1], Generated::NarrowE.ranges()[4]].map(f64::from);
    let shares = [(c2 - f64::from(LEAST[0]) + 1.0) / c2, (c5 - f64::from(LEAST[1]) + 1.0) / c5];
    assert_eq!(shares, SHARES);
    let all = PAPER_ROWS * (PAPER_ROWS / 20.655_176 + 1.0);
    for ((first, second), millions) in PAIRS {
        let share = |percent: u32, share: f64| if percent == 100 { 1.0 } else { share };
        let expected = all * share(first, shares[0]) * share(second, shares[1]);
        let digits = if millions < 10.0 { 10.0 } else { 1.0 };
        assert_eq!((expected * digits).round() / digits, millions, "{first}/{second}");
    }
}

#[test]
fn a_tiny_run_joins_as_sql_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().to_owned();
    let options = experiments::RunOptions { rows: Some(20_000), output, ..Default::default() };
    let findings = experiments::run("holloway-joins", &options, &|_| {}).expect("the run succeeds");
    assert_eq!(findings.checks().count(), 1 + 8 + 1 + 2 + 1);
    let written = findings.parts.iter().find_map(|part| match part {
        Part::Table(table) => Some(table.rows.iter().map(|row| row[4].text.clone()).collect::<Vec<_>>()),
        _ => None,
    });
    let written = written.expect("a table of the cases");
    assert!(written[..4].iter().chain(&written[5..]).all(|bytes| bytes == "0 MB"), "{written:?}");
    assert_ne!(written[4], "0 MB", "four columns of all rows do not fit");
}
