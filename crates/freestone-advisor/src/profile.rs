//! What calibration measured of a machine: its memory, its disk, and what Freestone's own scans cost on it. A profile is a
//! value: made by [`crate::calibrate`], kept as JSON, and given to the model. Without one there is [`Profile::assumed`],
//! which says of itself that nothing was measured.

mod assumed;
mod table;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::calibrate::Reference;
use crate::error::{AdvisorError, Result};
pub use table::Row;

/// The version of the JSON; a profile of another must be measured anew.
pub const VERSION: u32 = 6;

/// What was measured, by whom, when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    pub version: u32,
    /// `measured`, or `assumed`: then every prediction deserves the warning "not calibrated".
    pub source: Source,
    pub host: Host,
    /// Seconds since 1970.
    pub measured_at: u64,
    /// Seconds that calibration took.
    pub seconds: f64,
    pub hardware: Hardware,
    pub engine: EngineCosts,
    /// What the reader should know: a noisy machine, a virtual one, a folder without direct I/O.
    pub warnings: Vec<String>,
}

/// How slow a machine is at a moment: what the reference scan ([`Reference`](crate::calibrate::Reference)) takes then, over what
/// it takes at another time. 1 is as fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace(f64);

impl Pace {
    pub const SAME: Pace = Pace(1.0);
    /// What of a pace counts for figures: beyond, they are of another machine, or of a moment's hitch.
    const LIMITS: (f64, f64) = (0.4, 2.5);
    /// Logarithms of what scans take longer over that of what the reference scan does, of scans in the caches and of those
    /// beyond them: medians of regressions over 80 kinds of scans, each some 120 times in a hundred seconds, on a machine on
    /// which the reference scan took between 0.37 and 0.7 ms, said 0.9 and 0.5. By 0.9 predictions of 3,000 other scans, while it
    /// took 0.45 to 1.2 ms, rose with it by a power of 0.25: by less they are as far off at every pace.
    const SENSITIVITY: f64 = 0.7;
    const BEYOND_CACHES: f64 = 0.5;
    /// The logarithm of a change that counts.
    const STEADY: f64 = 0.15;

    /// The same where either is not known (0).
    pub fn of(reference_ns: f64, then_ns: f64) -> Pace {
        let known = reference_ns > 0.0 && then_ns > 0.0;
        Pace(if known { reference_ns / then_ns } else { 1.0 })
    }

    /// The logarithm of how much it changed.
    pub fn change(self, other: Pace) -> f64 {
        (self.0 / other.0).ln().abs()
    }

    /// Whether it is as good as the same.
    pub fn is_near(self, other: Pace) -> bool {
        self.change(other) < Pace::STEADY
    }

    pub fn between(self, other: Pace) -> Pace {
        Pace((self.0 + other.0) / 2.0)
    }

    /// What the reference scan takes, as a multiple of what it took.
    pub fn ratio(self) -> f64 {
        self.0
    }

    /// How much longer a scan takes whose values are in the caches; and one that waits for memory.
    pub fn cached(self) -> f64 {
        self.within_limits().powf(Pace::SENSITIVITY)
    }

    pub fn beyond_caches(self) -> f64 {
        self.within_limits().powf(Pace::BEYOND_CACHES)
    }

    fn within_limits(self) -> f64 {
        self.0.clamp(Pace::LIMITS.0, Pace::LIMITS.1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Measured,
    Assumed,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub cpu: String,
    pub cores: usize,
    pub kernel: String,
    pub memory_bytes: u64,
    /// Bytes of a page of memory, as the system says.
    #[serde(default)]
    pub page_bytes: u64,
    /// The hypervisor's name, or `yes`; `None` where the processor reports none.
    pub hypervisor: Option<String>,
}

/// A median of repeats, and the interval in which nine of ten of them lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Measured {
    pub fn exact(value: f64) -> Self {
        Measured { value, low: value, high: value }
    }

    /// Of repeats of the same measurement; of none, zero.
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get(((sorted.len().max(1) - 1) as f64 * share).round() as usize).copied();
        let quantile = |share| at(share).unwrap_or(0.0);
        Measured { value: quantile(0.5), low: quantile(0.05), high: quantile(0.95) }
    }

    pub fn scaled(self, factor: f64) -> Self {
        Measured { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// The difference to another measurement, at least zero: what one step costs beside the rest.
    pub fn minus(self, other: Measured) -> Self {
        let value = (self.value - other.value).max(0.0);
        Measured { value, low: (self.low - other.high).clamp(0.0, value), high: (self.high - other.low).max(value) }
    }
}

/// A quantity that depends on another: linear between points in the logarithm of `x`, constant beyond the ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Ascending, positive x.
    pub points: Vec<(f64, Measured)>,
}

impl Curve {
    pub fn new(mut points: Vec<(f64, Measured)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve { points }
    }

    pub fn constant(value: f64) -> Self {
        Curve { points: vec![(1.0, Measured::exact(value))] }
    }

    /// A curve of exact points.
    pub fn of(points: &[(f64, f64)]) -> Self {
        Curve::new(points.iter().map(|(x, y)| (*x, Measured::exact(*y))).collect())
    }

    /// The value at `x`; 0 of a curve without points.
    pub fn at(&self, x: f64) -> f64 {
        self.measured(x).value
    }

    pub fn measured(&self, x: f64) -> Measured {
        let behind = self.points.partition_point(|(point, _)| *point <= x);
        match (behind.checked_sub(1).and_then(|at| self.points.get(at)), self.points.get(behind)) {
            (None, None) => Measured::default(),
            (Some((_, only)), None) | (None, Some((_, only))) => *only,
            (Some((left, a)), Some((right, b))) => {
                let share = (x / left).ln() / (right / left).ln();
                let mix = |a: f64, b: f64| a + (b - a) * share;
                Measured { value: mix(a.value, b.value), low: mix(a.low, b.low), high: mix(a.high, b.high) }
            }
        }
    }

    /// The greatest x that was measured.
    pub fn last(&self) -> Option<(f64, Measured)> {
        self.points.last().copied()
    }
}

/// What the machine can do, whatever runs on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    pub caches: Vec<CacheLevel>,
    /// Nanoseconds of one load of a chain through a random cycle (paper 003, section 3.2), by bytes of the region: loads
    /// that wait for each other with work between them (miss), and back to back (replace).
    pub miss: Curve,
    pub replace: Curve,
    pub translation: Vec<Translation>,
    /// Nanoseconds a load in a region larger than all caches, by the number of chains that run at once.
    pub parallelism: Curve,
    /// Bytes a nanosecond (GB/s) of reading memory, by threads.
    pub bandwidth: Curve,
    /// Nanoseconds a byte that one thread reads in order, by bytes of the region.
    pub stream: Curve,
    pub disk: Option<DiskCosts>,
    /// Bytes a nanosecond over TCP to this machine itself.
    pub loopback: Measured,
    /// (95 % − 5 %) ÷ what is usual, of a scan that is always the same.
    pub spread: Measured,
}

/// A level of cache, 1 the nearest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheLevel {
    pub level: u32,
    pub bytes: Measured,
    pub line_bytes: Measured,
    /// What a load costs that is not here but in the next level, above one that is here.
    pub miss_ns: Measured,
    pub replace_ns: Measured,
    pub reported_bytes: Option<u64>,
    pub reported_line: Option<u64>,
}

/// Address translation with pages of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Translation {
    pub page_bytes: u64,
    /// Bytes of pages that the translation buffers cover.
    pub reach_bytes: Measured,
    /// What a load costs beyond the reach, above the same loads on few pages.
    pub miss_ns: Measured,
    /// Whether the system gave pages of this size.
    pub granted: bool,
}

/// One folder's disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskCosts {
    pub folder: String,
    /// Whether reads went around the system's cache.
    pub direct: bool,
    pub sequential: Vec<DiskPoint>,
    pub random: Vec<DiskPoint>,
    /// Nanoseconds a byte of writing durably.
    pub write: Measured,
}

/// Reads of `unit` bytes with `depth` of them in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskPoint {
    pub unit: u64,
    pub depth: u32,
    /// Nanoseconds from one read's end to the next one's.
    pub ns: Measured,
    /// Nanoseconds that this machine's processors work for it; 0 of a profile that has none.
    #[serde(default)]
    pub cpu_ns: f64,
}

impl DiskCosts {
    /// Nanoseconds a read of `bytes` takes where `depth` are in flight, between the measured points by size and depth: of a
    /// place far from the last one.
    pub fn read_ns(&self, bytes: f64, depth: f64) -> f64 {
        let points = if self.random.is_empty() { &self.sequential } else { &self.random };
        Self::between(points, bytes, depth, |p| p.ns.value)
    }

    /// The same, of what lies behind the last read.
    pub fn next_ns(&self, bytes: f64, depth: f64) -> f64 {
        let points = if self.sequential.is_empty() { &self.random } else { &self.sequential };
        Self::between(points, bytes, depth, |p| p.ns.value)
    }

    /// What processors do for either.
    pub fn cpu_ns(&self, bytes: f64, depth: f64) -> f64 {
        Self::between(&self.random, bytes, depth, |p| p.cpu_ns)
    }

    fn between(points: &[DiskPoint], bytes: f64, depth: f64, of: fn(&DiskPoint) -> f64) -> f64 {
        let mut depths: Vec<u32> = points.iter().map(|p| p.depth).collect();
        depths.sort_unstable();
        depths.dedup();
        let of_depth = |depth: u32| {
            let own = points.iter().filter(|p| p.depth == depth);
            let mut own: Vec<(f64, f64)> = own.map(|p| (p.unit as f64, of(p))).collect();
            own.sort_by(|a, b| a.0.total_cmp(&b.0));
            affine(&own, bytes)
        };
        Curve::of(&depths.iter().map(|d| (f64::from(*d), of_depth(*d))).collect::<Vec<_>>()).at(depth)
    }
}

/// Linear between points, and on beyond them along the line through the outer two.
fn affine(points: &[(f64, f64)], x: f64) -> f64 {
    match points {
        [] => 0.0,
        [only] => only.1,
        _ => {
            let right = points.partition_point(|p| p.0 < x).clamp(1, points.len() - 1);
            let (a, b) = (points[right - 1], points[right]);
            (a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0)).max(0.25 * points[0].1)
        }
    }
}

/// The page form in which values are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A chunk of one column: pages of one column, and PAX mini pages.
    Chunk,
    /// A field of a super tuple.
    Dense,
    /// A field of a slotted tuple.
    Slotted,
}

/// How a value is stored in its form; what of it there is depends on the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    Constant,
    /// Numbers in their natural width, or bit-packed against a reference; dense: a field of at most 56 bits.
    Plain,
    BitPack,
    /// Dense: fields that go the general way: wider than 56 bits, levels, prefixes.
    General,
    Delta,
    DeltaLz,
    Rle,
    Alp,
    /// A dictionary of the segment, of numbers or of texts.
    Dictionary,
    DictionaryRle,
    TextDictionary,
    TextDictionaryRle,
    /// A dictionary of the page.
    PageDictionary,
    TextPageDictionary,
    Text,
    Fsst,
    Block,
    /// Floats that are stored as order keys.
    FloatKey,
    Float,
    Wide,
    /// What a column with NULLs costs more.
    Nulls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Values come out: nanoseconds a value that is taken, by the share of the rows of pages looked at that are.
    Decode,
    /// A predicate (of texts: a prefix): nanoseconds a row of the pages looked at, by the share of rows there that still
    /// qualify before it.
    Filter,
    /// Equality of texts, likewise.
    Equal,
}

/// The cost of one operation on one kind of value. The model's SEQIO, RDMIO, FC and IC (paper 002, section 4) are these at
/// their ends: all rows, few rows, a predicate's test, and what every row costs beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    pub form: Form,
    pub family: Family,
    pub operation: Operation,
    /// What tells kernels of a family apart: bytes of a text, bits of a number, rows of a run.
    pub parameter: f64,
    pub ns: Curve,
    /// What a visit of one of its pages costs, as a multiple of one of bit-packed numbers.
    #[serde(default = "one")]
    pub visit: f64,
}

fn one() -> f64 {
    1.0
}

/// What Freestone's scans cost on the machine, processor only, on values in its caches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineCosts {
    pub kernels: Vec<Kernel>,
    /// Nanoseconds until another thread works on a scan, and has ended.
    pub scan: Measured,
    /// Nanoseconds a granule of 8,192 rows, a unit of 65,536, and the zones of a granule for each predicate.
    pub granule: Measured,
    pub unit: Measured,
    pub judge: Measured,
    /// Nanoseconds to rule out the zones of a granule by a predicate, before anything of its unit is looked at.
    pub rule_out: Measured,
    /// Nanoseconds of a scan that is always the same ([`Reference`](crate::calibrate::Reference)); 0 where it was not measured.
    pub reference: Measured,
    /// How much longer a thread takes while others scan as well, by how many all of them are; 1 for one.
    pub crowd: Curve,
    /// Nanoseconds a row of a granule to list those that qualify, by their share.
    pub select: Curve,
    /// Nanoseconds a visit of a page by a granule, by form and by the pages of its group in a granule.
    pub pages: Vec<PageCost>,
    /// Nanoseconds a batch, and of a scan for each column whose values come out.
    pub batch: Measured,
    pub batch_column: Measured,
    /// Nanoseconds a byte that values of a scan come from beyond the nearest caches, by bytes that the scan goes through;
    /// and a cache line of those that lie apart, as tuples do.
    pub stream: Curve,
    pub line: Curve,
    /// The same for tuples of four lines, of which one is read: where the next is not fetched ahead.
    pub line_apart: Curve,
    /// The same for slotted tuples of some four lines, whose lengths differ, so that no step is foreseen; they are asked for ahead.
    pub line_slotted: Curve,
    /// Nanoseconds a byte of decoded values, by bytes of a batch: what does not stay in the nearest caches.
    pub spill: Curve,
    /// Nanoseconds a byte, and a page, to check a page that was read and put it into the cache, by form: `pages` per row for
    /// forms whose rows are looked at.
    pub admit_byte: Measured,
    pub admit_page: Measured,
    pub admit_slotted_row: Measured,
    pub admit_prefix_row: Measured,
    /// Nanoseconds that a value takes more, to filter by it and to decode it, where a page's tuples are found through a prefix.
    pub prefix_filter: Measured,
    pub prefix_decode: Measured,
    /// Nanoseconds to make tuples of a batch's columns: a value, by bytes of the batch; more for one that may be NULL, and for a
    /// byte of text.
    pub tuple_value: Curve,
    pub tuple_null: Measured,
    pub tuple_byte: Measured,
    /// Nanoseconds a page, and a byte, of a scan that ships columns as they are stored.
    pub ship_page: Measured,
    pub ship_byte: Measured,
    /// Nanoseconds a value, and a byte of text, to encode; a row and a column to sort.
    pub encode_value: Measured,
    pub encode_byte: Measured,
    pub sort_value: Measured,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageCost {
    pub form: Form,
    /// A visit that takes values of one column; of each column more; and one that filters by a column.
    pub decode: Curve,
    pub column: Measured,
    pub filter: Curve,
    /// A visit for a row or two: with less to overlap, and less of the page to touch.
    pub sparse: Measured,
}

/// Shares of rows below which visits are sparse.
const SPARSE: f64 = 0.02;

impl PageCost {
    /// Nanoseconds of a visit that decodes values of one column, of which a share of the page's rows is wanted.
    pub fn decode_ns(&self, pages_a_granule: f64, share: f64) -> f64 {
        let dense = self.decode.at(pages_a_granule);
        if share < SPARSE && self.sparse.value > 0.0 { dense.min(self.sparse.value) } else { dense }
    }

    /// The same of one that filters.
    pub fn filter_ns(&self, pages_a_granule: f64, share: f64) -> f64 {
        let dense = self.filter.at(pages_a_granule);
        if share < SPARSE && self.sparse.value > 0.0 { dense.min(self.sparse.value) } else { dense }
    }
}

impl EngineCosts {
    /// How much longer a thread takes while so many scan, itself included.
    pub fn beside(&self, threads: f64) -> f64 {
        self.crowd.at(threads).max(1.0)
    }

    /// The kernel's value at `x`, between those of the family with the nearest parameters. `None` if the family was not
    /// measured in this form.
    pub fn kernel(&self, form: Form, family: Family, operation: Operation, parameter: f64, x: f64) -> Option<f64> {
        let own = |k: &&Kernel| (k.form, k.family, k.operation) == (form, family, operation);
        let mut points: Vec<(f64, f64)> = self.kernels.iter().filter(own).map(|k| (k.parameter, k.ns.at(x))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        match &points[..] {
            [] => None,
            [only] => Some(only.1),
            _ => Some(affine(&points, parameter).max(0.0)),
        }
    }

    /// What a visit of a page costs for such values, as a multiple of one for bit-packed numbers.
    pub fn visit(&self, form: Form, family: Family, operation: Operation) -> f64 {
        let own = |k: &&Kernel| (k.form, k.family, k.operation) == (form, family, operation);
        let (sum, count) = self.kernels.iter().filter(own).fold((0.0, 0.0), |(sum, n), k| (sum + k.visit, n + 1.0));
        if count > 0.0 { sum / count } else { 1.0 }
    }

    pub fn page(&self, form: Form) -> Option<&PageCost> {
        self.pages.iter().find(|p| p.form == form)
    }
}

impl Profile {
    /// Reads a profile. An error for one of another version: it has to be measured anew.
    pub fn load(path: &Path) -> Result<Profile> {
        let text = std::fs::read(path).map_err(|source| AdvisorError::File { path: path.into(), source })?;
        let format = |source| AdvisorError::Format { path: path.into(), what: "profile", source };
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(format)?;
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if version.is_some_and(|version| version != u64::from(VERSION)) {
            return Err(AdvisorError::Outdated { path: path.into() });
        }
        serde_json::from_value(value).map_err(format)
    }

    /// Writes the profile; whoever reads meanwhile finds the old one or the new one.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("a profile has only strings as keys");
        let file = |source| AdvisorError::File { path: path.into(), source };
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::write(&beside, text).map_err(file)?;
        std::fs::rename(&beside, path).map_err(file)
    }

    pub fn is_measured(&self) -> bool {
        self.source == Source::Measured
    }

    /// The machine's pace where the reference scan takes so many nanoseconds in so many threads at the same time, held against
    /// what it took when the profile was measured.
    pub fn pace(&self, reference_ns: f64, threads: usize) -> Pace {
        Pace::of(reference_ns, self.engine.reference.value * self.engine.beside(threads.max(1) as f64))
    }

    /// The machine's pace at this moment, for scans in so many threads, of which those beyond its cores say nothing. Errors where
    /// a table in memory cannot be scanned.
    pub fn pace_now(&self, reference: &Reference, threads: usize) -> Result<Pace> {
        let threads = threads.clamp(1, self.host.cores.max(1));
        Ok(self.pace(reference.ns(threads)?, threads))
    }
}

#[cfg(test)]
mod tests;
