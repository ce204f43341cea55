//! The sample in another order: as the rows would lie if a design sorted or clustered them.

use std::cmp::Ordering;
use std::sync::OnceLock;

use freestone_codec::Values;
use freestone_store::cluster::{Interleave, key_bits};
use freestone_store::column::{ColumnData, Physical};
use freestone_store::design::Design;
use freestone_store::segment::ZONE_ROWS;

use super::TableStatistics;

/// An order of rows: as they lie now where both are empty. Dimensions are columns, or attributes of other tables that were made
/// known by [`TableStatistics::add_path`]; for those that were not, their foreign key stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Order {
    pub cluster: Vec<(usize, Option<u32>)>,
    pub sort: Vec<usize>,
}

/// Fewest sample rows whose span is taken for a zone's.
const ZONE_SAMPLE_ROWS: usize = 32;
/// Zones of the sample in another order whose spans are looked at, and stretches of rows whose runs are counted first.
const ZONES_LOOKED_AT: usize = 128;
/// Places of a run of values among a column's that are tried.
const PLACES_LOOKED_AT: usize = 32;
const STRETCHES: usize = 16;
const STRETCH_ROWS: usize = 512;
/// Runs of at least this many sample rows are runs of the table too, longer as it has more rows.
const RUN_ROWS: f64 = 3.0;

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

    pub(super) fn of_design(design: &Design, statistics: &TableStatistics) -> Order {
        let schema = &statistics.schema;
        let dimension = |path: &freestone_store::cluster::DimensionPath| {
            let own = || schema.index_of(path.names.first()?).ok();
            Some((statistics.path_column(&path.names).or_else(own)?, path.bits))
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
    zones: Vec<OnceLock<Vec<(f32, f32)>>>,
    runs: Vec<OnceLock<f64>>,
}

impl Ordered {
    pub fn new(order: &Order, statistics: &TableStatistics) -> Ordered {
        let columns = statistics.ranked_columns();
        fn cells<T>(n: usize) -> Vec<OnceLock<T>> {
            (0..n).map(|_| OnceLock::new()).collect()
        }
        let permutation = (!order.is_current()).then(|| permutation(order, statistics));
        Ordered { permutation, gathered: cells(columns), zones: cells(columns), runs: cells(columns) }
    }

    /// How many rows of the table one of the sample stands for, where the sample was sorted, or thinned out: neighbours of the
    /// sample are then that far apart. 1 where its rows are neighbours.
    fn thinning(&self, statistics: &TableStatistics) -> f64 {
        match self.permutation {
            None if !statistics.is_thinned => 1.0,
            _ => (statistics.rows as f64 / statistics.sample.rows().max(1) as f64).max(1.0),
        }
    }

    /// The least and the greatest place among a column's values in some zones, 0 to 1.
    fn zones(&self, column: usize, statistics: &TableStatistics) -> &[(f32, f32)] {
        self.zones[column].get_or_init(|| {
            let ranks = statistics.ranks(column);
            let rows = ((ZONE_ROWS as f64 / self.thinning(statistics)) as usize).max(ZONE_SAMPLE_ROWS);
            match &self.permutation {
                Some(order) => {
                    // A search asks this of every column in every order: some zones from all over say enough.
                    let step = order.len().div_ceil(rows).div_ceil(ZONES_LOOKED_AT).max(1);
                    let zones = order.chunks(rows).step_by(step);
                    zones.map(|zone| bounds(zone.iter().map(|row| ranks[*row as usize]))).collect()
                }
                None => {
                    let blocks = statistics.sample.blocks.iter();
                    let zones = blocks.flat_map(|b| ranks[b.clone()].chunks(rows));
                    zones.map(|zone| bounds(zone.iter().copied())).collect()
                }
            }
        })
    }

    pub fn zone_span(&self, column: usize, statistics: &TableStatistics) -> f64 {
        let zones = self.zones(column, statistics);
        zones.iter().map(|(low, high)| f64::from(high - low)).sum::<f64>() / zones.len().max(1) as f64
    }

    /// Share of the zones that have one of a column's values, of those that one of `share` of the rows has: values that lie
    /// beside each other, and others of as many rows before and behind them, as a hierarchy has them.
    pub fn zones_met(&self, column: usize, share: f64, statistics: &TableStatistics) -> f64 {
        let zones = self.zones(column, statistics);
        let places = (1.0 / share.clamp(1e-9, 1.0)).floor().max(1.0);
        let looked_at = places.min(PLACES_LOOKED_AT as f64) as usize;
        let met = (0..looked_at).map(|at| {
            let from = (at as f64 * places / looked_at as f64).floor() * share;
            let meets = |(low, high): &&(f32, f32)| f64::from(*low) < from + share && f64::from(*high) > from;
            zones.iter().filter(meets).count()
        });
        met.sum::<usize>() as f64 / (looked_at * zones.len()).max(1) as f64
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

fn bounds(ranks: impl Iterator<Item = f32>) -> (f32, f32) {
    ranks.fold((f32::MAX, f32::MIN), |(low, high), rank| (low.min(rank), high.max(rank)))
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

/// Each row's clustering key: the dimensions' codes, their bits in turn, as many as the store takes for so many rows.
fn cluster_keys(order: &Order, statistics: &TableStatistics) -> Option<Vec<u64>> {
    if order.cluster.is_empty() {
        return None;
    }
    let dimensions = order.cluster.iter().map(|(column, bits)| statistics.dimension_codes(*column, *bits));
    let (codes, widths): (Vec<Vec<u32>>, Vec<u32>) = dimensions.unzip();
    let interleave = Interleave::new(&widths, key_bits(statistics.rows));
    Some((0..statistics.sample.rows()).map(|row| interleave.key(|dimension| codes[dimension][row])).collect())
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
