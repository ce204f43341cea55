//! The sample in another order: as the rows would lie if a design sorted or clustered them.

use std::cmp::Ordering;
use std::sync::OnceLock;

use freestone_codec::Values;
use freestone_store::column::{ColumnData, Physical};
use freestone_store::design::Design;
use freestone_store::segment::ZONE_ROWS;

use super::TableStatistics;

/// An order of rows: as they lie now where both are empty. Dimensions of other tables order by columns that only a join
/// shows; their foreign key stands for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Order {
    pub cluster: Vec<(usize, Option<u32>)>,
    pub sort: Vec<usize>,
}

/// Fewest sample rows whose span is taken for a zone's.
const ZONE_SAMPLE_ROWS: usize = 32;
/// Zones of the sample in another order whose spans are looked at, and stretches of rows whose runs are counted first.
const ZONES_LOOKED_AT: usize = 128;
const STRETCHES: usize = 16;
const STRETCH_ROWS: usize = 512;
/// Runs of at least this many sample rows are runs of the table too, longer as it has more rows.
const RUN_ROWS: f64 = 3.0;
/// Bits a dimension has where the user chose none.
const DIMENSION_BITS: u32 = 6;

impl Order {
    /// The order of a design, for a table that now lies as `statistics` says: sorting as it is sorted already, or not at all,
    /// keeps what is there.
    pub fn of(design: &Design, statistics: &TableStatistics) -> Order {
        let order = Order::of_design(design, statistics);
        let current = Order::of_design(&statistics.current, statistics);
        if order == current
            || (current.cluster.is_empty() && current.sort.starts_with(&order.sort) && order.cluster.is_empty())
        {
            return Order::default();
        }
        order
    }

    fn of_design(design: &Design, statistics: &TableStatistics) -> Order {
        let schema = &statistics.schema;
        let dimension = |path: &freestone_store::cluster::DimensionPath| {
            let column = schema.index_of(path.names.first()?).ok()?;
            Some((column, path.bits))
        };
        Order { cluster: design.cluster.iter().filter_map(dimension).collect(), sort: design.sort_columns(schema) }
    }

    pub fn is_current(&self) -> bool {
        self.cluster.is_empty() && self.sort.is_empty()
    }
}

/// The sample in an order, and what was found out of it.
#[derive(Debug)]
pub struct Ordered {
    /// Sample rows in order; `None`: as they are.
    permutation: Option<Vec<u32>>,
    gathered: Vec<OnceLock<ColumnData>>,
    spans: Vec<OnceLock<f64>>,
    runs: Vec<OnceLock<f64>>,
}

impl Ordered {
    pub fn new(order: &Order, statistics: &TableStatistics) -> Ordered {
        let columns = statistics.schema.columns.len();
        fn cells<T>(n: usize) -> Vec<OnceLock<T>> {
            (0..n).map(|_| OnceLock::new()).collect()
        }
        let permutation = (!order.is_current()).then(|| permutation(order, statistics));
        Ordered { permutation, gathered: cells(columns), spans: cells(columns), runs: cells(columns) }
    }

    /// How many rows of the table one of the sample stands for, where the sample was sorted: neighbours of the sample are
    /// then that far apart. 1 where its rows are neighbours.
    fn thinning(&self, statistics: &TableStatistics) -> f64 {
        match self.permutation {
            None => 1.0,
            Some(_) => (statistics.rows as f64 / statistics.sample.rows().max(1) as f64).max(1.0),
        }
    }

    pub fn zone_span(&self, column: usize, statistics: &TableStatistics) -> f64 {
        *self.spans[column].get_or_init(|| {
            let ranks = statistics.sample.ranks(column);
            let rows = ((ZONE_ROWS as f64 / self.thinning(statistics)) as usize).max(ZONE_SAMPLE_ROWS);
            let spans: Vec<f64> = match &self.permutation {
                Some(order) => {
                    // A search asks this of every column in every order: some zones from all over say enough.
                    let step = order.len().div_ceil(rows).div_ceil(ZONES_LOOKED_AT).max(1);
                    let zones = order.chunks(rows).step_by(step);
                    zones.map(|zone| span(zone.iter().map(|row| ranks[*row as usize]))).collect()
                }
                None => {
                    let blocks = statistics.sample.blocks.iter();
                    let zones = blocks.flat_map(|b| ranks[b.clone()].chunks(rows));
                    zones.map(|zone| span(zone.iter().copied())).collect()
                }
            };
            spans.iter().sum::<f64>() / spans.len().max(1) as f64
        })
    }

    pub fn run_rows(&self, column: usize, statistics: &TableStatistics) -> f64 {
        *self.runs[column].get_or_init(|| match &self.permutation {
            None => statistics.columns[column].run_rows,
            Some(order) => {
                let rows = mean_run(statistics.sample.ranks(column), order);
                if rows >= RUN_ROWS { rows * self.thinning(statistics) } else { rows }
            }
        })
    }

    /// A column's values in order, as encoders should meet them: where it has runs that the sample cut short, they are as
    /// long as the table's again.
    pub fn column<'a>(&'a self, column: usize, statistics: &'a TableStatistics) -> &'a ColumnData {
        let data = &statistics.sample.columns[column];
        let Some(order) = &self.permutation else { return data };
        self.gathered[column].get_or_init(|| {
            let thinning = self.thinning(statistics).round() as usize;
            if thinning > 1 && mean_run(statistics.sample.ranks(column), order) >= RUN_ROWS {
                return gather(data, &stretched(order, thinning));
            }
            gather(data, order)
        })
    }

    /// Bits of a difference between neighbours that the sample shows too many, as its neighbours are further apart.
    pub fn excess_delta_bits(&self, statistics: &TableStatistics) -> f64 {
        self.thinning(statistics).log2()
    }
}

/// Parts of an order, each row repeated, of as many rows as the order has.
fn stretched(order: &[u32], times: usize) -> Vec<u32> {
    const PARTS: usize = 10;
    let part = order.len() / PARTS;
    let own = (part / times).max(1);
    let parts = (0..PARTS).flat_map(|at| order[at * part..].iter().take(own));
    parts.flat_map(|row| std::iter::repeat_n(*row, times)).collect()
}

/// Rows of a run of equal values, on average. Where a few stretches show short runs, they speak for all.
fn mean_run(ranks: &[f32], order: &[u32]) -> f64 {
    let count = |places: std::ops::Range<usize>| {
        let differ = |pair: &&[u32]| ranks[pair[0] as usize] != ranks[pair[1] as usize];
        order[places].windows(2).filter(differ).count() + 1
    };
    if order.len() > 4 * STRETCHES * STRETCH_ROWS {
        let starts = (0..STRETCHES).map(|at| at * (order.len() - STRETCH_ROWS) / (STRETCHES - 1));
        let found: usize = starts.map(|start| count(start..start + STRETCH_ROWS)).sum();
        let rows = (STRETCHES * STRETCH_ROWS) as f64 / found.max(1) as f64;
        if rows < RUN_ROWS / 2.0 {
            return rows;
        }
    }
    order.len().max(1) as f64 / count(0..order.len()).max(1) as f64
}

fn span(ranks: impl Iterator<Item = f32>) -> f64 {
    let (low, high) = ranks.fold((f32::MAX, f32::MIN), |(low, high), rank| (low.min(rank), high.max(rank)));
    f64::from((high - low).max(0.0))
}

fn permutation(order: &Order, statistics: &TableStatistics) -> Vec<u32> {
    let sample = &statistics.sample;
    let mut rows: Vec<u32> = (0..sample.rows() as u32).collect();
    let keys = cluster_keys(order, statistics);
    // NULLs, whose rank is 0, last, as the store sorts them.
    let place = |ranks: &[f32], row: u32| Some(ranks[row as usize]).filter(|rank| *rank > 0.0).unwrap_or(f32::MAX);
    let sorted: Vec<&[f32]> = order.sort.iter().map(|column| sample.ranks(*column)).collect();
    rows.sort_by(|a, b| {
        let clustered = keys.as_ref().map_or(Ordering::Equal, |keys| keys[*a as usize].cmp(&keys[*b as usize]));
        let by_column = || sorted.iter().map(|ranks| place(ranks, *a).total_cmp(&place(ranks, *b))).find(|o| o.is_ne());
        if clustered.is_ne() { clustered } else { by_column().unwrap_or(Ordering::Equal) }
    });
    rows
}

/// Each row's clustering key: the dimensions' bins of equal frequency, their bits in turn, most significant first.
fn cluster_keys(order: &Order, statistics: &TableStatistics) -> Option<Vec<u64>> {
    if order.cluster.is_empty() {
        return None;
    }
    let sample = &statistics.sample;
    let bits: Vec<u32> = order.cluster.iter().map(|(_, bits)| bits.unwrap_or(DIMENSION_BITS).min(20)).collect();
    let most = bits.iter().copied().max().unwrap_or(0);
    let mut keys = vec![0u64; sample.rows()];
    for level in 0..most {
        for ((column, _), own) in order.cluster.iter().zip(&bits).filter(|(_, own)| level < **own) {
            let ranks = sample.ranks(*column);
            for (key, rank) in keys.iter_mut().zip(ranks) {
                let bin = ((f64::from(*rank) * f64::from(1u32 << own)) as u64).min((1 << own) - 1);
                *key = *key << 1 | bin >> (own - 1 - level) & 1;
            }
        }
    }
    Some(keys)
}

fn gather(data: &ColumnData, rows: &[u32]) -> ColumnData {
    let pick = |row: &u32| *row as usize;
    let values = match &data.values {
        Physical::Int(v) => Physical::Int(rows.iter().map(|r| v[pick(r)]).collect()),
        Physical::Wide(v) => Physical::Wide(rows.iter().map(|r| v[pick(r)]).collect()),
        Physical::F64(v) => Physical::F64(rows.iter().map(|r| v[pick(r)]).collect()),
        Physical::F32(v) => Physical::F32(rows.iter().map(|r| v[pick(r)]).collect()),
        Physical::Bytes { .. } => {
            let Values::Bytes(texts) = data.values() else { return data.clone() };
            let (mut offsets, mut bytes) = (vec![0], vec![]);
            for row in rows {
                bytes.extend_from_slice(texts.get(pick(row)));
                offsets.push(bytes.len() as u32);
            }
            Physical::Bytes { offsets, data: bytes }
        }
    };
    let validity = data.validity.as_ref().map(|_| {
        let mut bits = vec![0u64; rows.len().div_ceil(64)];
        let valid = rows.iter().enumerate().filter(|(_, row)| data.is_valid(pick(row)));
        valid.for_each(|(at, _)| bits[at / 64] |= 1 << (at % 64));
        bits
    });
    ColumnData { values, validity }
}
