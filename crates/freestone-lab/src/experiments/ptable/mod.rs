//! Götze, Baumann and Sattler 2018: their table in persistent memory, with their tuple `<int, int, string, double>`.
//!
//! The pool is a file in the folder of results. Unless the file system maps it directly, its memory is emulated, and
//! every figure says so. Put the folder on tmpfs (`--output /dev/shm/…`) to measure memory and not a disk.

mod blocks;
mod nodes;
mod peers;
mod points;
mod recovery;
mod scans;
mod writes;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use blocks::EXPERIMENT as BLOCKS;
pub use nodes::EXPERIMENT as NODES;
pub use peers::EXPERIMENT as PEERS;
pub use points::EXPERIMENT as POINTS;
pub use recovery::EXPERIMENT as RECOVERY;
pub use scans::EXPERIMENT as SCANS;
pub use writes::EXPERIMENT as WRITES;

use super::RunOptions;
use crate::error::{LabError, Result};
use freestone_codec::{IntPredicate, Kind, Predicate, f64_key};
use freestone_data::Random;
use freestone_report::findings::{Part, thousands};
use freestone_store::StoreError;
use freestone_store::cluster::BitOrder;
use freestone_store::column::{ColumnData, Physical};
use freestone_store::media::region::{DelayedRegion, MemoryRegion, Persistence, Region};
use freestone_store::persistent::{
    Costs, Dimension, IteratorKind, PTable, PTableOptions, Pool, PoolOptions, Request, sampled_bins,
};
use freestone_store::scan::ColumnPredicate;
use freestone_store::schema::TableSchema;

const PAPER: &str = "Götze, Baumann and Sattler 2018";
const ROWS: usize = 1_000_000;
/// Sizes in bytes that the paper decided for.
const NODE_BYTES: u64 = 1024;
const BLOCK_BYTES: u64 = 32 << 10;
/// The number of the table in its pool.
const TABLE: u64 = 1;
/// The rows from which bins are made.
const SAMPLE: usize = 20_000;

impl From<StoreError> for LabError {
    fn from(error: StoreError) -> Self {
        LabError::Engine(error.into())
    }
}

/// Where a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// A file that is mapped.
    Pool,
    /// Memory of the process, without flushes and fences.
    Memory,
}

/// The sizes of a table.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    rows: usize,
    node_bytes: u64,
    block_bytes: u64,
}

impl Sizes {
    fn of(rows: usize) -> Sizes {
        Sizes { rows, node_bytes: NODE_BYTES, block_bytes: BLOCK_BYTES }
    }
}

/// The paper's tuples. Keys are 0 to rows - 1 in random order; the doubles are in another random order.
struct Tuples {
    columns: Vec<ColumnData>,
}

impl Tuples {
    fn generate(rows: usize) -> Tuples {
        let mut random = Random::new(7);
        let mut shuffled = || {
            let mut values: Vec<i64> = (0..rows as i64).collect();
            for at in (1..rows).rev() {
                values.swap(at, random.below(at as u32 + 1) as usize);
            }
            values
        };
        let (keys, doubles) = (shuffled(), shuffled());
        let mut columns = [Kind::Int, Kind::Int, Kind::Bytes, Kind::F64].map(ColumnData::new).to_vec();
        let (mut offsets, mut data) = (vec![0], vec![]);
        for key in &keys {
            data.extend_from_slice(format!("tuple {key:08}").as_bytes());
            offsets.push(data.len() as u32);
        }
        columns[1].values = Physical::Int(keys.iter().map(|key| key % 1000).collect());
        columns[2].values = Physical::Bytes { offsets, data };
        columns[3].values = Physical::F64(doubles.iter().map(|value| *value as f64 / 2.0).collect());
        columns[0].values = Physical::Int(keys);
        Tuples { columns }
    }

    fn rows(&self) -> usize {
        self.columns[0].len()
    }

    fn ints(&self, column: usize) -> &[i64] {
        match &self.columns[column].values {
            Physical::Int(values) => values,
            _ => &[],
        }
    }

    fn double(&self, row: usize) -> f64 {
        match &self.columns[3].values {
            Physical::F64(values) => values[row],
            _ => f64::NAN,
        }
    }

    /// The same tuples in a B+-tree of the standard library, which is in memory.
    fn in_memory(&self) -> BTreeMap<i64, (i64, Vec<u8>, f64)> {
        let tuple = |row: usize| (self.ints(1)[row], self.columns[2].bytes(row).to_vec(), self.double(row));
        self.ints(0).iter().enumerate().map(|(row, key)| (*key, tuple(row))).collect()
    }

    /// The key columns of a lookup.
    fn keys(&self) -> [ColumnData; 1] {
        [self.columns[0].clone()]
    }
}

fn schema() -> Result<TableSchema> {
    use freestone_store::schema::{Column, parse_type};
    let column = |(name, data_type): (&str, &str)| {
        let data_type = parse_type(data_type);
        data_type.map(|data_type| Column { name: name.into(), data_type, nullable: false })
    };
    let columns = [("k", "int32"), ("n", "int32"), ("s", "varchar"), ("d", "double")].into_iter().filter_map(column);
    Ok(TableSchema { columns: columns.collect(), ..TableSchema::default() }.validated()?)
}

/// A region of `len` bytes with room to grow, with the latencies of the options added.
fn region(options: &RunOptions, place: Where, path: &Path, len: u64) -> Result<Arc<dyn Region>> {
    let inner: Arc<dyn Region> = match place {
        Where::Memory => return Ok(Arc::new(MemoryRegion::new(len, len * 2))),
        Where::Pool => mapped(path, len)?,
    };
    let [read, write] = options.latencies.map(Duration::from_nanos);
    if read.is_zero() && write.is_zero() { Ok(inner) } else { Ok(Arc::new(DelayedRegion::new(inner, read, write))) }
}

#[cfg(target_os = "linux")]
fn mapped(path: &Path, len: u64) -> Result<Arc<dyn Region>> {
    use freestone_store::media::region::{MapOptions, MappedRegion};
    let mapped = if path.exists() {
        MappedRegion::open(path, &MapOptions::default())
    } else {
        MappedRegion::create(path, len, &MapOptions::default())
    };
    Ok(Arc::new(mapped.map_err(StoreError::from)?))
}

#[cfg(not(target_os = "linux"))]
fn mapped(_: &Path, _: u64) -> Result<Arc<dyn Region>> {
    Err(LabError::Usage("persistent memory is mapped on Linux only".into()))
}

/// A table of the tuples, inserted one by one, each durably. Clustered by the first and the fourth column.
fn build(options: &RunOptions, place: Where, path: &Path, tuples: &Tuples, sizes: Sizes) -> Result<PTable> {
    // About 90 bytes of blocks and leaves per row, half of which splits leave free.
    let len = (sizes.rows as u64 * 100).max(sizes.block_bytes * 64).next_multiple_of(sizes.block_bytes);
    let region = region(options, place, path, len)?;
    let pool = Arc::new(Pool::create(region, PoolOptions { unit_bytes: sizes.block_bytes, database: 1 })?);
    let table = PTable::create(pool, TABLE, &table_options(tuples, sizes)?)?;
    for row in 0..sizes.rows.min(tuples.rows()) {
        table.insert(&tuples.columns, row)?;
    }
    Ok(table)
}

fn table_options(tuples: &Tuples, sizes: Sizes) -> Result<PTableOptions> {
    // Twice as many cells as blocks: two dimensions with half of the bits each.
    let blocks = (sizes.rows as u64 * 60 / sizes.block_bytes).max(4);
    let bits = (blocks.ilog2() + 2).div_ceil(2).clamp(2, 12);
    let step = tuples.rows().div_ceil(SAMPLE).max(1);
    let rows: Vec<u32> = (0..tuples.rows() as u32).step_by(step).collect();
    let dimension = |column: usize| {
        let sample = tuples.columns[column].permute(&rows);
        Dimension { column, bins: sampled_bins(&sample, bits) }
    };
    Ok(PTableOptions {
        schema: schema()?,
        key: vec!["k".into()],
        clusters: vec![dimension(0), dimension(3)],
        order: BitOrder::RoundRobin,
        node_bytes: sizes.node_bytes,
    })
}

/// The attribute that a range restricts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attribute {
    /// The first, which is the key.
    Key,
    /// The fourth.
    Double,
}

/// A range of `share` of all rows that begins at `from`, a share of the values.
fn range(attribute: Attribute, rows: usize, share: f64, from: f64) -> ColumnPredicate {
    let low = (rows as f64 * from * (1.0 - share)) as i64;
    let high = low + ((rows as f64 * share) as i64 - 1).max(0);
    let (column, low, high) = match attribute {
        Attribute::Key => (0, low.into(), high.into()),
        Attribute::Double => (3, f64_key(low as f64 / 2.0).into(), f64_key(high as f64 / 2.0).into()),
    };
    ColumnPredicate { column, predicate: Predicate::Int(IntPredicate::Range { low, high }) }
}

/// Runs a scan of all columns, and returns the milliseconds and the number of rows.
fn time_scan(
    table: &PTable,
    predicate: &ColumnPredicate,
    iterator: Option<IteratorKind>,
    costs: &Costs,
) -> Result<(f64, u64)> {
    let request = Request { columns: vec![0, 1, 2, 3], predicates: vec![predicate.clone()], iterator };
    let start = Instant::now();
    let report = table.scan(&request, costs, |columns, _| {
        black_box(columns);
        Ok(())
    })?;
    Ok((start.elapsed().as_secs_f64() * 1e3, report.rows))
}

/// Nanoseconds per point query of a table, by its key, for all columns.
fn time_points(table: &PTable, tuples: &Tuples, queries: usize) -> Result<f64> {
    let keys = tuples.keys();
    let columns = [0, 1, 2, 3];
    let mut random = Random::new(3);
    let mut out = [Kind::Int, Kind::Int, Kind::Bytes, Kind::F64].map(ColumnData::new);
    let mut places = vec![];
    let start = Instant::now();
    for _ in 0..queries {
        let row = random.below(tuples.rows() as u32) as usize;
        table.lookup(&keys, row, &columns, &mut out, &mut places)?;
        if places.len() >= 1024 {
            if places.len() != 1024 {
                return Err(LabError::Answers(format!("1024 keys have {} rows", places.len())));
            }
            out = [Kind::Int, Kind::Int, Kind::Bytes, Kind::F64].map(ColumnData::new);
            places.clear();
        }
    }
    black_box(&out);
    Ok(start.elapsed().as_nanos() as f64 / queries as f64)
}

/// Nanoseconds per lookup in the tree alone.
fn time_tree(table: &PTable, tuples: &Tuples, queries: usize) -> Result<f64> {
    let mut random = Random::new(3);
    let mut found = vec![];
    let start = Instant::now();
    for _ in 0..queries {
        let row = random.below(tuples.rows() as u32) as usize;
        found.clear();
        table.tree().lookup(tuples.columns[0].order_prefix(row), &mut found)?;
        if found.len() != 1 {
            return Err(LabError::Answers(format!("a key has {} entries in the tree", found.len())));
        }
    }
    black_box(&found);
    Ok(start.elapsed().as_nanos() as f64 / queries as f64)
}

/// Whole tuples one behind the other, by the places that a table's tree has for them: what a tree whose leaves hold tuples finds
/// at the end of its search.
struct Leaves {
    tuples: Vec<Tuple>,
    /// The greatest slot of a block, and one.
    slots: usize,
}

/// A tuple as it lies in a leaf: the key, the second integer, the double, and 24 bytes of text.
type Tuple = [u8; 48];

impl Leaves {
    fn of(table: &PTable) -> Result<Leaves> {
        let (columns, places) = table.rows()?;
        let slots = places.iter().map(|place| (place & 0xffff) as usize + 1).max().unwrap_or(1);
        let mut leaves = Leaves { tuples: vec![], slots };
        let ints = |column: usize, row: usize| match &columns[column].values {
            Physical::Int(values) => values[row],
            _ => 0,
        };
        for (row, place) in places.iter().enumerate() {
            let at = leaves.index(*place);
            if at >= leaves.tuples.len() {
                leaves.tuples.resize(at + 1, [0; 48]);
            }
            let double = match &columns[3].values {
                Physical::F64(values) => values[row],
                _ => f64::NAN,
            };
            let numbers = [ints(0, row).to_le_bytes(), ints(1, row).to_le_bytes(), double.to_le_bytes()];
            let bytes = numbers.iter().flatten().chain(columns[2].bytes(row));
            leaves.tuples[at].iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        }
        Ok(leaves)
    }

    fn index(&self, place: u64) -> usize {
        (place >> 16) as usize * self.slots + (place & 0xffff) as usize
    }
}

/// Nanoseconds per lookup in the tree alone, with the tuple that it leads to.
fn time_leaves(table: &PTable, leaves: &Leaves, tuples: &Tuples, queries: usize) -> Result<f64> {
    let mut random = Random::new(3);
    let mut found = vec![];
    let start = Instant::now();
    for _ in 0..queries {
        let row = random.below(tuples.rows() as u32) as usize;
        found.clear();
        table.tree().lookup(tuples.columns[0].order_prefix(row), &mut found)?;
        let tuple = found.first().and_then(|place| leaves.tuples.get(leaves.index(*place))).copied();
        let key = tuples.ints(0)[row].to_le_bytes();
        if black_box(tuple).is_none_or(|tuple| tuple[..8] != key) {
            return Err(LabError::Answers(format!("the tree has another tuple than that of row {row}")));
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / queries as f64)
}

/// The section that begins every page of results: what the memory is.
fn setup(options: &RunOptions, rows: usize, table: Option<&PTable>, text: &str) -> Part {
    let memory = match table.map(|table| table.pool().region().persistence()) {
        Some(Persistence::Persistent) => "The pool is on persistent memory.",
        _ => {
            "EMULATED: the pool is an ordinary file that is mapped, with the flushes and fences that persistent memory needs. \
             These are figures of this machine's memory, not of persistent memory."
        }
    };
    let [read, write] = options.latencies;
    let added = match (read, write) {
        (0, 0) => String::new(),
        _ => format!(" ADDED LATENCIES: {read} ns per line read and {write} ns per line flushed, by busy waiting."),
    };
    Part::section(
        "Setup",
        format!("{memory}{added} {} tuples <int, int, string, double>. {text}", thousands(rows as i64)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{EXPERIMENTS, run};
    use super::*;

    #[test]
    fn every_experiment_has_a_verdict_and_says_that_it_is_emulated() {
        // The peers are another program, which is not compiled for a test.
        let of_table = |name: &str| name.starts_with("ptable-") && name != PEERS.name;
        for experiment in EXPERIMENTS.iter().filter(|experiment| of_table(experiment.name)) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let output = folder.path().to_owned();
            let options = RunOptions { rows: Some(6000), queries: Some(200), output, ..RunOptions::default() };
            let findings = run(experiment.name, &options, &|_| {}).expect("the run succeeds");
            assert!(findings.checks().count() >= 1, "{} has no verdict", experiment.name);
            let Part::Section(section) = &findings.parts[0] else { panic!("a section comes first") };
            assert!(section.text.contains("EMULATED"), "{}", section.text);
        }
    }

    #[test]
    fn ranges_have_their_share_of_the_rows() {
        let tuples = Tuples::generate(5000);
        let sizes = Sizes { block_bytes: 4096, ..Sizes::of(5000) };
        let table = build(&RunOptions::default(), Where::Memory, Path::new(""), &tuples, sizes).expect("built");
        for attribute in [Attribute::Key, Attribute::Double] {
            for iterator in [IteratorKind::Block, IteratorKind::Index] {
                let predicate = range(attribute, 5000, 0.1, 0.5);
                let (_, rows) = time_scan(&table, &predicate, Some(iterator), &Costs::default()).expect("a scan");
                assert_eq!(rows, 500);
            }
        }
    }
}
