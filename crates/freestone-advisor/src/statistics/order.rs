//! The sample in another order, as a design would sort or cluster the rows.

use std::cmp::Ordering;
use std::sync::OnceLock;

use freestone_codec::Values;
use freestone_store::cluster::{Interleave, key_bits};
use freestone_store::column::{ColumnData, Physical};
use freestone_store::design::Design;
use freestone_store::limits::ZONE_ROWS;

use super::TableStatistics;

/// An order of rows, or the current order if both lists are empty. Dimensions are columns, or attributes of other
/// tables that were added by [`TableStatistics::add_path`]. An attribute that was not added is represented by its
/// foreign key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Order {
    /// The clustering dimensions as columns, with the bits that the user set.
    pub cluster: Vec<(usize, Option<u32>)>,
    /// The sort columns.
    pub sort: Vec<usize>,
}

/// The minimum number of sample rows whose span counts as that of a zone.
const ZONE_SAMPLE_ROWS: usize = 32;
/// The number of zones of the reordered sample whose spans are computed, and of ranges of rows whose runs are counted
/// first.
const ZONES_LOOKED_AT: usize = 128;
/// The number of positions of a run of values among a column's values that are tried.
const PLACES_LOOKED_AT: usize = 32;
const STRETCHES: usize = 16;
const STRETCH_ROWS: usize = 512;
/// Runs of at least this many sample rows are runs of the table, too, which are longer in proportion to its rows.
const RUN_ROWS: f64 = 3.0;

impl Order {
    /// The order of a design, for a table with the current order of `statistics`: sorting by the current order, or not
    /// at all, preserves the order.
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

    /// Whether this is the current order.
    pub fn is_current(&self) -> bool {
        self.cluster.is_empty() && self.sort.is_empty()
    }
}

/// The sample in an order, with cached results.
#[derive(Debug)]
pub struct Ordered {
    /// The sample rows in order. `None`: the current order.
    permutation: Option<Vec<u32>>,
    gathered: Vec<OnceLock<ColumnData>>,
    zones: Vec<OnceLock<Vec<(f32, f32)>>>,
    runs: Vec<OnceLock<f64>>,
}

impl Ordered {
    /// Sorts the sample.
    pub fn new(order: &Order, statistics: &TableStatistics) -> Ordered {
        let columns = statistics.ranked_columns();
        fn cells<T>(n: usize) -> Vec<OnceLock<T>> {
            (0..n).map(|_| OnceLock::new()).collect()
        }
        let permutation = (!order.is_current()).then(|| permutation(order, statistics));
        Ordered { permutation, gathered: cells(columns), zones: cells(columns), runs: cells(columns) }
    }

    /// The number of rows of the table per row of the sample, if the sample was sorted or thinned: adjacent rows of the
    /// sample have this distance. 1 if they are adjacent in the table.
    fn thinning(&self, statistics: &TableStatistics) -> f64 {
        match self.permutation {
            None if !statistics.is_thinned => 1.0,
            _ => (statistics.rows as f64 / statistics.sample.rows().max(1) as f64).max(1.0),
        }
    }

    /// The smallest and largest position among a column's values of some zones, 0 to 1.
    fn zones(&self, column: usize, statistics: &TableStatistics) -> &[(f32, f32)] {
        self.zones[column].get_or_init(|| {
            let ranks = statistics.ranks(column);
            let rows = ((ZONE_ROWS as f64 / self.thinning(statistics)) as usize).max(ZONE_SAMPLE_ROWS);
            match &self.permutation {
                Some(order) => {
                    // A search requests this for every column in every order, so a sample of the zones has to be
                    // enough.
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

    /// The mean share of a column's values that a zone spans.
    pub fn zone_span(&self, column: usize, statistics: &TableStatistics) -> f64 {
        let zones = self.zones(column, statistics);
        zones.iter().map(|(low, high)| f64::from(high - low)).sum::<f64>() / zones.len().max(1) as f64
    }

    /// The share of zones with a value of a test that `share` of the rows satisfy, averaged over the possible positions
    /// of these values. The values are assumed to be adjacent and aligned to multiples of `share`, as in a hierarchy.
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

    /// The mean number of rows in a run of equal values.
    pub fn run_rows(&self, column: usize, statistics: &TableStatistics) -> f64 {
        *self.runs[column].get_or_init(|| match &self.permutation {
            None => statistics.columns[column].run_rows,
            Some(order) => {
                let rows = mean_run(statistics.sample.ranks(column), order);
                if rows >= RUN_ROWS { rows * self.thinning(statistics) } else { rows }
            }
        })
    }

    /// A column's values in order, for encoders. Runs that the sample shortened have the table's length again.
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

    /// The bits by which a difference between adjacent sample rows is too large, because adjacent rows of the sample
    /// are further apart than those of the table.
    pub fn excess_delta_bits(&self, statistics: &TableStatistics) -> f64 {
        self.thinning(statistics).log2()
    }
}

/// Parts of an order with each row repeated, together as many rows as the order has.
fn stretched(order: &[u32], times: usize) -> Vec<u32> {
    const PARTS: usize = 10;
    let part = order.len() / PARTS;
    let own = (part / times).max(1);
    let parts = (0..PARTS).flat_map(|at| order[at * part..].iter().take(own));
    parts.flat_map(|row| std::iter::repeat_n(*row, times)).collect()
}

/// The mean number of rows in a run of equal values. If a few ranges show short runs, the others are not counted.
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
    // NULLs, whose rank is 0, are last, as in the store.
    let place = |ranks: &[f32], row: u32| Some(ranks[row as usize]).filter(|rank| *rank > 0.0).unwrap_or(f32::MAX);
    let sorted: Vec<&[f32]> = order.sort.iter().map(|column| sample.ranks(*column)).collect();
    rows.sort_by(|a, b| {
        let clustered = keys.as_ref().map_or(Ordering::Equal, |keys| keys[*a as usize].cmp(&keys[*b as usize]));
        let by_column = || sorted.iter().map(|ranks| place(ranks, *a).total_cmp(&place(ranks, *b))).find(|o| o.is_ne());
        if clustered.is_ne() { clustered } else { by_column().unwrap_or(Ordering::Equal) }
    });
    rows
}

/// Each row's clustering key: the bits of the dimensions' codes in turn, as many as the store uses for this number of
/// rows.
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
