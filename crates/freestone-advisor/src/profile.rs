//! The measurements of a machine: its memory, its disk, and the costs of Freestone's own scans. A profile is a value:
//! [`crate::calibrate`] creates it, it is stored as JSON, and it is passed to the model. Without one there is
//! [`Profile::assumed`], which is marked as not measured.

mod defaults;
mod table;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{AdvisorError, Result};
pub use table::Row;

/// The version of the JSON. A profile of another version must be measured again.
pub const VERSION: u32 = 7;

/// The measurements, with their origin and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The version of the format.
    pub version: u32,
    /// `measured`, or `assumed`. In the latter case, every prediction should carry the warning "not calibrated".
    pub source: Source,
    /// The machine.
    pub host: Host,
    /// Time in seconds since 1970.
    pub measured_at: u64,
    /// The duration of the calibration in seconds.
    pub seconds: f64,
    /// What was measured of memory and disk.
    pub hardware: Hardware,
    /// What was measured of scans.
    pub engine: EngineCosts,
    /// Warnings for the reader: a noisy machine, a virtual one, a folder without direct I/O.
    pub warnings: Vec<String>,
}

/// The slowdown of a machine at a moment: the time of the reference scan ([`Reference`](crate::calibrate::Reference))
/// at that moment, divided by its time at another. 1 means no slowdown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown(f64);

impl Slowdown {
    /// No slowdown.
    pub const SAME: Slowdown = Slowdown(1.0);
    /// Slowdowns are clamped to this range. Values outside it mean another machine or a transient stall.
    const LIMITS: (f64, f64) = (0.4, 2.5);
    /// The exponent by which scans slow down relative to the reference scan, for scans in the caches and for those
    /// beyond. Medians of regressions over 80 kinds of scans, with about 120 runs each in a hundred seconds, gave 0.9
    /// and 0.5, on a machine on which the reference scan took between 0.37 and 0.7 ms. With 0.9, the errors of
    /// predictions of 3,000 other scans (while the reference scan took 0.45 to 1.2 ms) grew with the slowdown by a
    /// power of 0.25. With a smaller exponent they do not depend on the slowdown.
    const SENSITIVITY: f64 = 0.7;
    const BEYOND_CACHES: f64 = 0.5;
    /// The logarithm of the smallest change that counts.
    const STEADY: f64 = 0.15;

    /// The slowdown from two times of the reference scan. 1 if either is unknown (0).
    pub fn of(reference_ns: f64, then_ns: f64) -> Slowdown {
        let known = reference_ns > 0.0 && then_ns > 0.0;
        Slowdown(if known { reference_ns / then_ns } else { 1.0 })
    }

    /// The absolute logarithm of the ratio of two slowdowns.
    pub fn change(self, other: Slowdown) -> f64 {
        (self.0 / other.0).ln().abs()
    }

    /// Whether the two hardly differ.
    pub fn is_near(self, other: Slowdown) -> bool {
        self.change(other) < Slowdown::STEADY
    }

    /// The mean of two slowdowns.
    pub fn between(self, other: Slowdown) -> Slowdown {
        Slowdown((self.0 + other.0) / 2.0)
    }

    /// The ratio of the reference scan's times, without limits.
    pub fn ratio(self) -> f64 {
        self.0
    }

    /// The slowdown of a scan whose values are in the caches.
    pub fn cached(self) -> f64 {
        self.within_limits().powf(Slowdown::SENSITIVITY)
    }

    /// The slowdown of a scan that waits for memory.
    pub fn beyond_caches(self) -> f64 {
        self.within_limits().powf(Slowdown::BEYOND_CACHES)
    }

    fn within_limits(self) -> f64 {
        self.0.clamp(Slowdown::LIMITS.0, Slowdown::LIMITS.1)
    }
}

/// The origin of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// By calibration.
    Measured,
    /// Rounded figures of a typical machine.
    Assumed,
}

/// The description of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The name of the machine.
    pub name: String,
    /// The name of the processor.
    pub cpu: String,
    /// The number of cores.
    pub cores: usize,
    /// The version of the operating system's kernel.
    pub kernel: String,
    /// The bytes of memory.
    pub memory_bytes: u64,
    /// The bytes of a memory page, according to the system.
    #[serde(default)]
    pub page_bytes: u64,
    /// The hypervisor's name, or `yes`. `None` if the processor reports none.
    pub hypervisor: Option<String>,
}

/// The median of repetitions, and the interval that contains nine of ten of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The median.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Measured {
    /// A value without spread.
    pub fn exact(value: f64) -> Self {
        Measured { value, low: value, high: value }
    }

    /// From repetitions of a measurement. Zero without any.
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get(((sorted.len().max(1) - 1) as f64 * share).round() as usize).copied();
        let quantile = |share| at(share).unwrap_or(0.0);
        Measured { value: quantile(0.5), low: quantile(0.05), high: quantile(0.95) }
    }

    /// The measurement multiplied by a factor.
    pub fn scaled(self, factor: f64) -> Self {
        Measured { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// The measurement without values below `least`, for what cannot be free.
    pub fn at_least(self, least: f64) -> Self {
        Measured { value: self.value.max(least), low: self.low.max(least), high: self.high.max(least) }
    }

    /// The difference to another measurement, at least zero: the cost of one step without the rest.
    pub fn minus(self, other: Measured) -> Self {
        let value = (self.value - other.value).max(0.0);
        Measured { value, low: (self.low - other.high).clamp(0.0, value), high: (self.high - other.low).max(value) }
    }
}

/// A quantity that depends on another: linear between points in the logarithm of `x`, constant beyond the ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Ascending by x, which is positive.
    pub points: Vec<(f64, Measured)>,
}

impl Curve {
    /// A curve through points, in any order.
    pub fn new(mut points: Vec<(f64, Measured)>) -> Self {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve { points }
    }

    /// The same value everywhere.
    pub fn constant(value: f64) -> Self {
        Curve { points: vec![(1.0, Measured::exact(value))] }
    }

    /// A curve of exact points.
    pub fn of(points: &[(f64, f64)]) -> Self {
        Curve::new(points.iter().map(|(x, y)| (*x, Measured::exact(*y))).collect())
    }

    /// The value at `x`; 0 without points.
    pub fn at(&self, x: f64) -> f64 {
        self.measured(x).value
    }

    /// The interpolated measurement at `x`.
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

    /// The point with the largest x.
    pub fn last(&self) -> Option<(f64, Measured)> {
        self.points.last().copied()
    }
}

/// The hardware, whatever runs on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    /// The levels of caches, the smallest first.
    pub caches: Vec<CacheLevel>,
    /// Nanoseconds per load of a chain through a random cycle (Grund et al. 2010, section 3.2), by bytes of the region:
    /// dependent loads with work between them.
    pub miss: Curve,
    /// The same for dependent loads without work between them.
    pub replace: Curve,
    /// Address translation, by page size.
    pub translation: Vec<Translation>,
    /// Nanoseconds per load in a region larger than all caches, by the number of simultaneous chains.
    pub parallelism: Curve,
    /// Bytes per nanosecond (GB/s) of reading memory, by threads.
    pub bandwidth: Curve,
    /// Nanoseconds per byte of a sequential read by one thread, by bytes of the region.
    pub stream: Curve,
    /// The disk. `None`: it was not measured.
    pub disk: Option<DiskCosts>,
    /// Bytes per nanosecond over TCP to this machine.
    pub loopback: Measured,
    /// (95 % − 5 %) ÷ usual time, of the reference scan.
    pub spread: Measured,
}

/// A cache level; 1 is the nearest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheLevel {
    /// The number of the level, from 1.
    pub level: u32,
    /// The size in bytes, by times alone (Grund et al. 2010, section 3.2). `None`: times do not show it.
    pub bytes: Option<Measured>,
    /// The bytes of a cache line, by times alone.
    pub line_bytes: Option<Measured>,
    /// The additional nanoseconds of a load that misses this level and hits the next one.
    pub miss_ns: Option<Measured>,
    /// The same without work between the loads.
    pub replace_ns: Option<Measured>,
    /// The size that the operating system reports.
    pub reported_bytes: Option<u64>,
    /// The line size that the operating system reports.
    pub reported_line: Option<u64>,
    /// Why the level was not found; empty if it was.
    pub missing: String,
}

/// Address translation (TLB) with pages of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Translation {
    /// The bytes of a memory page.
    pub page_bytes: u64,
    /// The levels of translation buffers that times show, the nearest first.
    pub levels: Vec<TranslationLevel>,
    /// Whether the system provided pages of this size.
    pub granted: bool,
}

impl Translation {
    /// The additional nanoseconds of a load that misses all levels. `None` if no level was found.
    pub fn miss_ns(&self) -> Option<f64> {
        (!self.levels.is_empty()).then(|| self.levels.iter().map(|level| level.miss_ns.value).sum())
    }
}

/// A level of translation buffers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TranslationLevel {
    /// The bytes of pages that it covers.
    pub reach_bytes: Measured,
    /// The additional nanoseconds of a load that misses it, compared with a load of as many lines on few pages.
    pub miss_ns: Measured,
}

/// The disk of one folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskCosts {
    /// The folder in which the disk was measured.
    pub folder: String,
    /// Whether reads bypassed the system's cache.
    pub direct: bool,
    /// Sequential reads, by unit and depth. A quick calibration lacks long reads of which many are in flight.
    pub sequential: Vec<DiskPoint>,
    /// Random reads, likewise.
    pub random: Vec<DiskPoint>,
    /// Nanoseconds per byte of durable writes.
    pub write: Measured,
}

/// Reads of `unit` bytes with `depth` of them in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskPoint {
    /// The bytes of a read.
    pub unit: u64,
    /// The number of reads in flight.
    pub depth: u32,
    /// Nanoseconds between the ends of two reads.
    pub ns: Measured,
    /// Nanoseconds of this machine's processors per read; 0 in profiles without it.
    #[serde(default)]
    pub cpu_ns: f64,
}

impl DiskCosts {
    /// Nanoseconds of a read of `bytes` with `depth` reads in flight, at a random position, interpolated by size and
    /// depth.
    pub fn read_ns(&self, bytes: f64, depth: f64) -> f64 {
        let points = if self.random.is_empty() { &self.sequential } else { &self.random };
        Self::between(points, bytes, depth, |p| p.ns.value)
    }

    /// The same for a read that continues the previous one.
    pub fn next_ns(&self, bytes: f64, depth: f64) -> f64 {
        let points = if self.sequential.is_empty() { &self.random } else { &self.sequential };
        Self::between(points, bytes, depth, |p| p.ns.value)
    }

    /// The processor time of either.
    pub fn cpu_ns(&self, bytes: f64, depth: f64) -> f64 {
        Self::between(&self.random, bytes, depth, |p| p.cpu_ns)
    }

    fn between(points: &[DiskPoint], bytes: f64, depth: f64, of: fn(&DiskPoint) -> f64) -> f64 {
        let mut depths: Vec<u32> = points.iter().map(|p| p.depth).collect();
        depths.sort_unstable();
        depths.dedup();
        // A depth at which only shorter reads were measured says nothing of this one.
        let longest = |of: &dyn Fn(u32) -> bool| points.iter().filter(|p| of(p.depth)).map(|p| p.unit).max();
        let needed = bytes.min(longest(&|_| true).unwrap_or(0) as f64);
        depths.retain(|depth| longest(&|own| own == *depth).is_some_and(|unit| unit as f64 >= needed));
        let of_depth = |depth: u32| {
            let own = points.iter().filter(|p| p.depth == depth);
            let mut own: Vec<(f64, f64)> = own.map(|p| (p.unit as f64, of(p))).collect();
            own.sort_by(|a, b| a.0.total_cmp(&b.0));
            affine(&own, bytes)
        };
        Curve::of(&depths.iter().map(|d| (f64::from(*d), of_depth(*d))).collect::<Vec<_>>()).at(depth)
    }
}

/// Linear between points, and beyond them along the line through the outer two.
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

/// The page form of a value.
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

/// How a value is stored in its form. Each form has some of the families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// One value for all rows.
    Constant,
    /// Numbers in their natural width, or bit-packed relative to a reference; dense: a field of at most 56 bits.
    Plain,
    /// Packed integers.
    BitPack,
    /// Dense: fields with general decoding: wider than 56 bits, levels, prefixes.
    General,
    /// Differences, packed.
    Delta,
    /// Differences in variable bits.
    DeltaLz,
    /// Runs.
    Rle,
    /// Floats as decimals.
    Alp,
    /// A dictionary of the segment, of numbers or of strings.
    Dictionary,
    /// Codes of a segment dictionary, in runs.
    DictionaryRle,
    /// Codes of a segment dictionary of strings.
    TextDictionary,
    /// Codes of a segment dictionary of strings, in runs.
    TextDictionaryRle,
    /// A dictionary of the page.
    PageDictionary,
    /// Codes of a page dictionary of strings.
    TextPageDictionary,
    /// Strings as they are.
    Text,
    /// Strings compressed by FSST.
    Fsst,
    /// Strings compressed by Zstandard.
    Block,
    /// Floats that are stored as order keys.
    FloatKey,
    /// Floats as they are.
    Float,
    /// Integers of 128 bits.
    Wide,
    /// The additional cost of a column with NULLs.
    Nulls,
}

/// An operation on values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Decoding: nanoseconds per decoded value, by the share of the visited pages' rows that are decoded.
    Decode,
    /// A predicate (for strings: a prefix): nanoseconds per row of the visited pages, by the share of their rows that
    /// still qualify before it.
    Filter,
    /// Equality of strings, likewise.
    Equal,
}

/// The cost of one operation on one kind of value. SEQIO, RDMIO, FC and IC of Halverson et al. 2006, section 4, are
/// extreme cases of these costs: all rows, few rows, a predicate's test, and the fixed cost per row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The form of the pages.
    pub form: Form,
    /// The family of kernels.
    pub family: Family,
    /// The measured operation.
    pub operation: Operation,
    /// The parameter that distinguishes kernels of a family: bytes of a string, bits of a number, rows of a run.
    pub parameter: f64,
    /// Nanoseconds per value.
    pub ns: Curve,
    /// The cost of a visit of one of its pages, as a multiple of that for bit-packed numbers.
    #[serde(default = "one")]
    pub visit: f64,
}

fn one() -> f64 {
    1.0
}

/// The costs of Freestone's scans on this machine: processor time only, with values in the caches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineCosts {
    /// The kernels of every family.
    pub kernels: Vec<Kernel>,
    /// Nanoseconds until another thread works on a scan, and has ended.
    pub scan: Measured,
    /// Nanoseconds per granule of 8,192 rows.
    pub granule: Measured,
    /// Nanoseconds per morsel of 65,536 rows.
    #[serde(alias = "unit")]
    pub morsel: Measured,
    /// Nanoseconds per predicate for testing the zones of a granule.
    #[serde(alias = "judge")]
    pub zone_test: Measured,
    /// Nanoseconds for pruning the zones of a granule by a predicate, before its morsel is begun.
    pub rule_out: Measured,
    /// Nanoseconds of the reference scan ([`Reference`](crate::calibrate::Reference)); 0 if it was not measured.
    pub reference: Measured,
    /// The slowdown of a thread by concurrent scans, by the number of threads; 1 for one.
    pub crowd: Curve,
    /// Nanoseconds per row of a granule for listing the qualifying rows, by their share.
    pub select: Curve,
    /// Nanoseconds per visit of a page by a granule, by form and by the pages of its group in a granule.
    pub pages: Vec<PageCost>,
    /// Nanoseconds per batch.
    pub batch: Measured,
    /// Nanoseconds per scan and output column.
    pub batch_column: Measured,
    /// Nanoseconds per byte of values beyond the nearest caches, by the bytes that the scan accesses.
    pub stream: Curve,
    /// Nanoseconds per cache line for scattered values, as in tuples, by the bytes that the scan accesses.
    pub line: Curve,
    /// The same for tuples of four lines, of which one is read, so that the next one is not prefetched.
    pub line_apart: Curve,
    /// The same for slotted tuples of about four lines. Their lengths differ, so the processor cannot predict them; the
    /// store prefetches them.
    pub line_slotted: Curve,
    /// Nanoseconds per byte of decoded values, by bytes of a batch, for values that do not stay in the nearest caches.
    pub spill: Curve,
    /// Nanoseconds per byte for verifying a page that was read and inserting it into the cache, by form.
    /// `pages` has the costs per row for forms whose rows are checked.
    pub admit_byte: Measured,
    /// Nanoseconds per page for the same.
    pub admit_page: Measured,
    /// Nanoseconds per row of a slotted page that was read.
    pub admit_slotted_row: Measured,
    /// Nanoseconds per row of a page with run-length levels that was read.
    pub admit_prefix_row: Measured,
    /// The additional nanoseconds per value for filtering, if a page's tuples have a prefix.
    pub prefix_filter: Measured,
    /// The additional nanoseconds per value for decoding, if a page's tuples have a prefix.
    pub prefix_decode: Measured,
    /// Nanoseconds per value for making tuples of a batch's columns, by bytes of the batch.
    pub tuple_value: Curve,
    /// The additional nanoseconds per nullable value.
    pub tuple_null: Measured,
    /// The additional nanoseconds per byte of a string.
    pub tuple_byte: Measured,
    /// Nanoseconds per page of a scan that returns columns in stored form.
    pub ship_page: Measured,
    /// Nanoseconds per byte of a scan that returns columns in stored form.
    pub ship_byte: Measured,
    /// Nanoseconds per value for encoding.
    pub encode_value: Measured,
    /// Nanoseconds per byte of a string for encoding.
    pub encode_byte: Measured,
    /// Nanoseconds per row and column for sorting.
    pub sort_value: Measured,
}

/// The costs of visiting pages, at one number of pages per granule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageCost {
    /// The form of the pages.
    pub form: Form,
    /// Nanoseconds per visit that decodes values of one column.
    pub decode: Curve,
    /// The additional nanoseconds per further column.
    pub column: Measured,
    /// Nanoseconds per visit that filters by a column.
    pub filter: Curve,
    /// A visit for one or two rows, with less to overlap, and less of the page to access.
    pub sparse: Measured,
}

/// Visits are sparse below this share of rows.
const SPARSE: f64 = 0.02;

impl PageCost {
    /// Nanoseconds of a visit that decodes values of one column, at a share of the page's rows.
    pub fn decode_ns(&self, pages_a_granule: f64, share: f64) -> f64 {
        let dense = self.decode.at(pages_a_granule);
        if share < SPARSE && self.sparse.value > 0.0 { dense.min(self.sparse.value) } else { dense }
    }

    /// The same for a visit that filters.
    pub fn filter_ns(&self, pages_a_granule: f64, share: f64) -> f64 {
        let dense = self.filter.at(pages_a_granule);
        if share < SPARSE && self.sparse.value > 0.0 { dense.min(self.sparse.value) } else { dense }
    }
}

impl EngineCosts {
    /// The slowdown of a thread if `threads` threads scan, including itself.
    pub fn concurrency_factor(&self, threads: f64) -> f64 {
        self.crowd.at(threads).max(1.0)
    }

    /// The kernel's value at `x`, interpolated between the kernels of the family with the nearest parameters. `None` if
    /// the family was not measured in this form.
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

    /// The cost of visiting a page of such values, as a multiple of that for bit-packed numbers.
    pub fn visit(&self, form: Form, family: Family, operation: Operation) -> f64 {
        let own = |k: &&Kernel| (k.form, k.family, k.operation) == (form, family, operation);
        let (sum, count) = self.kernels.iter().filter(own).fold((0.0, 0.0), |(sum, n), k| (sum + k.visit, n + 1.0));
        if count > 0.0 { sum / count } else { 1.0 }
    }

    /// The costs of page visits of a form.
    pub fn page(&self, form: Form) -> Option<&PageCost> {
        self.pages.iter().find(|p| p.form == form)
    }
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// The file cannot be read, or has another version and must be measured again.
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

    /// Writes the profile. Concurrent readers find the old one or the new one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("a profile has only strings as keys");
        let file = |source| AdvisorError::File { path: path.into(), source };
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::write(&temporary, text).map_err(file)?;
        std::fs::rename(&temporary, path).map_err(file)
    }

    /// Whether the profile was measured.
    pub fn is_measured(&self) -> bool {
        self.source == Source::Measured
    }

    /// The machine's slowdown if the reference scan takes `reference_ns` nanoseconds on `threads` threads at the same
    /// time, relative to the time of the profile.
    pub fn slowdown(&self, reference_ns: f64, threads: usize) -> Slowdown {
        Slowdown::of(reference_ns, self.engine.reference.value * self.engine.concurrency_factor(threads.max(1) as f64))
    }
}

#[cfg(test)]
mod tests;
