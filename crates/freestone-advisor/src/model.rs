//! The cost of a scan in a design, from the statistics of the table and the profile of the machine.
//!
//! The model follows the scan as the store runs it. A zone that predicates prune costs one test of its aggregates
//! ([`prune`](self)). In the other zones, predicates run in order on the pages of their columns, cheap and selective
//! ones first. The qualifying rows are listed, and the output columns are decoded there. A visit of a page has a cost,
//! and so has each value, by its form, its encoding and the share of neighbouring values that are wanted. Data that
//! exceeds the caches is read at the speed of memory. Cold pages are read past the system's cache: what a morsel needs
//! first while the previous one is decoded, and its output while it is filtered. The equations of Halverson et al.
//! 2006, section 4, are the case of one group, one page format, and no zones.

mod classify;
mod geometry;
mod index;
mod io;
mod processor;
mod prune;
mod wanted;

use std::sync::{Arc, Mutex, PoisonError};

use freestone_store::design::{Design, MediumKind};
use freestone_store::limits::{self, GRANULE_ROWS, ZONE_ROWS};

use crate::cost::{Cost, CostModel};
use crate::profile::{Profile, Slowdown};
use crate::statistics::TableStatistics;
use crate::workload::{Output, Query};
use geometry::KnownGroups;
pub use geometry::{GroupGeometry, IndexGeometry, Layout, StoredColumn};
pub use prune::Pruned;

/// Rows per morsel, which a thread takes at a time.
const MORSEL_ROWS: f64 = limits::MORSEL_ROWS as f64;
const GRANULE: f64 = GRANULE_ROWS as f64;
/// Rows per zone, of segments and of indexes.
const ZONE: f64 = ZONE_ROWS as f64;

/// The conditions under which queries run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// The threads of a query.
    pub threads: usize,
    /// The number of scans that run at the same time and share the machine, including this one.
    pub concurrent: usize,
    /// The share of the pages that are in the page cache when the query begins: 0 is cold, 1 is hot. (F in Halverson et
    /// al. 2006.)
    pub cached: f64,
    /// The bytes of the page cache. Larger data does not stay in it.
    pub cache_bytes: f64,
}

impl Setting {
    /// All pages are cached.
    pub fn hot(threads: usize) -> Self {
        Setting { threads, concurrent: 1, cached: 1.0, cache_bytes: (2u64 << 30) as f64 }
    }

    /// No page is cached.
    pub fn cold(threads: usize) -> Self {
        Setting { cached: 0.0, ..Setting::hot(threads) }
    }
}

/// Predicts scans of one table on one machine. Clones share the computed layouts.
#[derive(Debug, Clone)]
pub struct ScanModel {
    /// The statistics of the table.
    pub statistics: Arc<TableStatistics>,
    /// The profile of the machine.
    pub profile: Arc<Profile>,
    /// The conditions under which queries run.
    pub setting: Setting,
    /// The current slowdown of the machine, relative to the time of the profile.
    slowdown: Slowdown,
    groups: Arc<KnownGroups>,
    /// The last layouts, since queries are predicted design by design.
    layouts: Arc<Mutex<Vec<KnownLayout>>>,
}

type KnownLayout = (Design, Arc<Layout>);

/// The number of cached layouts.
const LAYOUTS: usize = 16;

/// The parts of a prediction, for reports and for finding errors: nanoseconds of one thread that does all of the work,
/// without slowdown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    /// Waking other threads and waiting for them, which does not shrink with more threads.
    pub begin_ns: f64,
    /// Reads of indexes before that.
    pub begin_read_ns: f64,
    /// Opening, and the fixed costs of morsels, granules and zones.
    pub frame_ns: f64,
    /// Nanoseconds for testing predicates.
    pub filter_ns: f64,
    /// Nanoseconds for listing the rows that pass.
    pub select_ns: f64,
    /// Nanoseconds for decoding the output.
    pub decode_ns: f64,
    /// Visits of pages, for filters and for decoding.
    pub page_ns: f64,
    /// Access to data beyond the nearest caches.
    pub memory_ns: f64,
    /// Nanoseconds for building batches.
    pub output_ns: f64,
    /// Verifying pages that were read.
    pub admit_ns: f64,
    /// The processor time of reads, on the reading thread.
    pub reading_ns: f64,
    /// Nanoseconds that each thread waits for the first pages of its first morsel.
    pub first_ns: f64,
    /// Nanoseconds of waiting for reads that nothing overlaps.
    pub wait_ns: f64,
    /// Nanoseconds during which the disk is busy.
    pub ahead_ns: f64,
    /// The bytes that are read.
    pub bytes_read: f64,
    /// The number of visited pages.
    pub pages_visited: f64,
    /// The number of rows that pruning leaves.
    pub rows_left: f64,
    /// The number of morsels.
    pub morsels: f64,
}

impl Parts {
    /// The whole processor time.
    pub fn processor_ns(&self) -> f64 {
        self.frame_ns
            + self.filter_ns
            + self.select_ns
            + self.decode_ns
            + self.page_ns
            + self.memory_ns
            + self.output_ns
            + self.admit_ns
    }
}

/// The part of the shorter of processor and disk time that does not overlap with the longer one: at the begin and the
/// end of a scan, and of each morsel, whose output is read after its filters. Also, the disk of a virtual machine uses
/// the processor and memory of its host. From the validation, for tables of 1 to 11 morsels.
const OVERLAP_LOSS: f64 = 0.8;
/// The share of a morsel's first pages for which a thread waits before it begins.
const FIRST_BATCH: f64 = 0.15;
/// The additional nanoseconds of the first read of a scan: a file is opened past the system's cache, sleeping threads
/// are woken, and their data is not in the processor's caches. From the validation.
const FIRST_READ_NS: f64 = 250_000.0;
/// If fewer bytes than this are expected, only some scans read at all.
const FIRST_READ_BYTES: f64 = 32768.0;
/// Nanoseconds for taking one column's aggregates of a zone instead of its rows.
const TAKE_NS: f64 = 20.0;
/// The interval of a measured time relative to its prediction, as factors: from nine in ten cases of the validation.
const HOT_INTERVAL: (f64, f64) = (0.4, 2.3);
const COLD_INTERVAL: (f64, f64) = (0.6, 4.0);
/// The same with a profile that was not measured.
const ASSUMED_INTERVAL: (f64, f64) = (0.25, 6.0);

impl ScanModel {
    /// A model without slowdown.
    pub fn new(statistics: Arc<TableStatistics>, profile: Arc<Profile>, setting: Setting) -> Self {
        ScanModel {
            statistics,
            profile,
            setting,
            slowdown: Slowdown::SAME,
            groups: Arc::default(),
            layouts: Arc::default(),
        }
    }

    /// The same model with the slowdown of a moment ([`Profile::slowdown`]).
    pub fn with_slowdown(self, slowdown: Slowdown) -> Self {
        ScanModel { slowdown, ..self }
    }

    /// The layout of the table in a design.
    pub fn layout(&self, design: &Design) -> Arc<Layout> {
        let layouts = || self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = layouts().iter().rev().find(|(of, _)| of == design) {
            return known.clone();
        }
        let layout = Arc::new(Layout::of(design, &self.statistics, &self.groups, self.setting.threads));
        let mut kept = layouts();
        if kept.len() >= LAYOUTS {
            kept.remove(0);
        }
        kept.push((design.clone(), layout.clone()));
        layout
    }

    /// The parts of a query's predicted time.
    pub fn parts(&self, design: &Design, query: &Query) -> Parts {
        self.parts_of(&self.layout(design), query)
    }

    /// The parts of a query's predicted time on a known layout.
    pub fn parts_of(&self, layout: &Layout, query: &Query) -> Parts {
        let mut pruned = Pruned::of(layout, query, &self.statistics);
        let mut parts = Parts::default();
        self.name_rows(layout, query, &mut pruned, &mut parts);
        if query.output == Output::ZoneAggregate && pruned.named.is_none() {
            let zones = self.statistics.rows as f64 / ZONE * pruned.zones * pruned.whole;
            parts.frame_ns += zones * query.columns.len() as f64 * TAKE_NS;
            pruned.take_whole();
        }
        self.processor(layout, query, &pruned, &mut parts);
        self.reads(layout, query, &pruned, &mut parts);
        parts
    }

    /// The cost of one query on a known layout, which a search over queries calls.
    pub fn query_on(&self, layout: &Layout, query: &Query) -> Cost {
        let parts = self.parts_of(layout, query);
        let uncached = self.uncached(layout, query);
        let threads = self.setting.threads.max(1) as f64;
        let share = longest_share(parts.morsels.max(1.0), threads, self.last_morsel(parts.morsels));
        let scans = self.setting.concurrent.max(1) as f64;
        let near = parts.processor_ns() - parts.memory_ns;
        let processor = near * self.slowdown.cached() + parts.memory_ns * self.slowdown.beyond_caches();
        let begin = parts.begin_ns * self.slowdown.cached() + parts.begin_read_ns;
        let cpu = begin + processor * share * self.crowd() + parts.reading_ns * self.reading_share();
        // A thread waits for reads that were not done ahead. Others work meanwhile, and all share the disk.
        let waits = (parts.first_ns * FIRST_BATCH + parts.wait_ns * share) * scans;
        let (thread, busy) = (cpu + waits, parts.ahead_ns * scans);
        let first = FIRST_READ_NS * (parts.bytes_read / FIRST_READ_BYTES).min(1.0);
        let total = thread.max(busy) + OVERLAP_LOSS * thread.min(busy) + first;
        let (low, high) = self.interval(uncached);
        let ms = total / 1e6;
        Cost {
            ms,
            low_ms: ms * low,
            high_ms: ms * high,
            io_ms: busy.max(waits) / 1e6,
            cpu_ms: cpu / 1e6,
            bytes: parts.bytes_read,
        }
    }

    /// The rows of the last of `morsels` morsels, divided by those of the others: a segment is divided at granules, as
    /// evenly as possible.
    fn last_morsel(&self, morsels: f64) -> f64 {
        let rows = self.statistics.rows as f64;
        let all = (rows / MORSEL_ROWS).ceil();
        // In large tables, or where zone pruning removes morsels, any morsel may be the last.
        if morsels < all || rows > self.statistics.segment_rows() {
            return 1.0;
        }
        let step = (rows / all / GRANULE).ceil() * GRANULE;
        ((rows - (all - 1.0) * step) / step).clamp(0.01, 1.0)
    }

    fn interval(&self, uncached: f64) -> (f64, f64) {
        match (self.profile.is_measured(), uncached > 0.01) {
            (false, _) => ASSUMED_INTERVAL,
            (true, false) => HOT_INTERVAL,
            (true, true) => COLD_INTERVAL,
        }
    }

    /// The threads of all scans that run at the same time.
    fn all_threads(&self) -> f64 {
        (self.setting.threads.max(1) * self.setting.concurrent.max(1)) as f64
    }

    /// The part of the reading thread's time that other threads lose, because it needs a core, too.
    fn reading_share(&self) -> f64 {
        let threads = self.all_threads();
        let beyond = threads + 1.0 - self.profile.host.cores.max(1) as f64;
        beyond.clamp(0.0, 1.0) / threads
    }

    /// The slowdown of a thread by others: concurrent ones, and alternating ones if there are more threads than cores.
    fn crowd(&self) -> f64 {
        let wanted = self.all_threads();
        let cores = self.profile.host.cores.max(1) as f64;
        self.profile.engine.concurrency_factor(wanted.min(cores)) * (wanted / cores).max(1.0)
    }

    /// The share of a query's pages that are read from the medium.
    pub(crate) fn uncached(&self, layout: &Layout, query: &Query) -> f64 {
        if layout.medium == MediumKind::Memory {
            return 0.0;
        }
        let groups = layout.groups_of(&query.touched());
        let bytes: f64 = groups.iter().map(|g| layout.groups[*g].bytes).sum();
        // Data that does not fit is evicted before it is used again.
        let fits = (self.setting.cache_bytes / bytes.max(1.0)).min(1.0);
        1.0 - self.setting.cached.clamp(0.0, 1.0) * if fits < 1.0 { fits * 0.5 } else { 1.0 }
    }
}

/// The share of the morsels of the thread with the most. Morsels are indivisible, so with few of them some threads wait
/// for the last one, which is `last` times as long as the others. The number of morsels is an expectation; between
/// whole numbers the share is interpolated.
fn longest_share(morsels: f64, threads: f64, last: f64) -> f64 {
    let of_whole = |morsels: f64| {
        let rounds = (morsels / threads).ceil();
        // The thread that takes the last morsel has no other one, or has less work than another thread.
        let is_alone = morsels - (rounds - 1.0) * threads < 1.5;
        let longest = if is_alone { rounds - 1.0 + last } else { rounds };
        (longest / (morsels - 1.0 + last)).clamp(1.0 / threads, 1.0)
    };
    let (few, part) = (morsels.floor(), morsels.fract());
    of_whole(few) * (1.0 - part) + of_whole(few + 1.0) * part
}

impl CostModel for ScanModel {
    fn columns(&self) -> usize {
        self.statistics.columns.len()
    }

    fn column_name(&self, column: usize) -> &str {
        &self.statistics.columns[column].name
    }

    fn query(&self, design: &Design, query: &Query) -> Cost {
        self.query_on(&self.layout(design), query)
    }

    fn joined(&self, design: &Design, query: &Query) -> f64 {
        if query.paths.is_empty() {
            return 1.0;
        }
        Pruned::of(&self.layout(design), query, &self.statistics).zones
    }

    fn bytes(&self, design: &Design) -> f64 {
        self.layout(design).bytes
    }

    fn bytes_of(&self, design: &Design, columns: &[usize]) -> f64 {
        let layout = self.layout(design);
        let rows = self.statistics.rows as f64;
        let of_columns = columns.iter().map(|c| rows * layout.columns[*c].bytes + layout.columns[*c].shared_bytes);
        let indexes = layout.indexes.iter().filter(|index| index.columns.iter().all(|c| columns.contains(c)));
        of_columns.sum::<f64>() + indexes.map(|index| index.bytes).sum::<f64>()
    }

    fn arrival(&self) -> Vec<usize> {
        self.statistics.arrival()
    }

    fn conversion(&self, design: &Design) -> Cost {
        let engine = &self.profile.engine;
        let statistics = &self.statistics;
        let rows = statistics.rows as f64;
        let all = Query {
            name: "convert".into(),
            weight: 1.0,
            columns: (0..statistics.columns.len()).collect(),
            predicates: vec![],
            output: Output::Columns,
            order: vec![],
            paths: vec![],
            statement_ms: None,
        };
        let (now, then) = (self.layout(&statistics.current), self.layout(design));
        let one = ScanModel { setting: Setting { threads: 1, ..self.setting }, ..self.clone() };
        let read = one.query_on(&now, &all);
        let texts: f64 = statistics.columns.iter().filter(|c| c.is_text()).map(|c| c.width).sum();
        let values = statistics.columns.len() as f64;
        let threads = self.setting.threads.clamp(1, self.profile.host.cores.max(1)) as f64;
        let encode = rows * (values * engine.encode_value.value + texts * engine.encode_byte.value) / threads;
        let sorted = if then.order.is_current() { 0.0 } else { values };
        let indexed: usize = then.indexes.iter().map(|index| index.columns.len() + 1).sum();
        let sort = rows * (sorted + indexed as f64) * engine.sort_value.value / threads;
        let on_disk = then.medium == MediumKind::Disk;
        let write = self.profile.hardware.disk.as_ref().filter(|_| on_disk).map_or(0.0, |d| d.write.value * then.bytes);
        let cpu_ms = read.cpu_ms + (encode + sort) / 1e6;
        let io_ms = read.io_ms + write / 1e6;
        // The appender encodes while rows arrive, and then writes.
        let ms = read.ms.max(encode / 1e6) + sort / 1e6 + write / 1e6;
        Cost { ms, low_ms: ms * 0.5, high_ms: ms * 2.0, io_ms, cpu_ms, bytes: read.bytes + then.bytes }
    }
}

#[cfg(test)]
mod tests;
