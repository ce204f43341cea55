//! The reads of a scan whose pages are not cached, and the part of them for which it waits.

use freestone_store::limits;

use super::geometry::{GroupGeometry, Layout};
use super::prune::Pruned;
use super::wanted::WantedRows;
use super::{GRANULE, MORSEL_ROWS, Parts, ScanModel, ZONE};
use crate::profile::{DiskCosts, Form};
use crate::workload::Query;

/// The bytes of the longest single read, and the number of reads in flight.
const IO_UNIT: f64 = limits::IO_UNIT_BYTES as f64;
const IO_DEPTH: f64 = limits::IO_DEPTH as f64;
/// The effective number of batches in which a morsel's first pages are read, by bytes: the last two have most of them.
const FIRST_BATCHES: f64 = 3.0;

impl ScanModel {
    /// Adds the costs of reading, and of verifying pages that were read.
    pub(super) fn reads(&self, layout: &Layout, query: &Query, pruned: &Pruned, parts: &mut Parts) {
        let uncached = self.uncached(layout, query);
        if uncached <= 0.0 {
            return;
        }
        let first = self.first_reads(layout, query, pruned);
        let left = self.left(layout, query, pruned);
        let morsels = (self.statistics.rows as f64 * pruned.morsels / MORSEL_ROWS).max(1.0);
        let named = pruned.named.as_ref().map_or(WantedRows::ALL, |(named, _)| *named);
        let later = layout.groups_of(&query.columns);
        let (mut now, mut then) = (vec![], vec![]);
        for (at, group) in layout.groups.iter().enumerate() {
            let of = |wanted| uncached * self.pages_read(group, pruned, wanted);
            let (all, share) = (of(named), first[at]);
            let output = if later.contains(&at) { of(left) * (1.0 - share) } else { 0.0 };
            for (pages, list) in [(all * share, &mut now), (output, &mut then)] {
                if pages > 0.0 {
                    list.push((group, pages));
                    parts.bytes_read += pages * group.page_bytes;
                    parts.admit_ns += self.admit(group, pages);
                }
            }
        }
        let Some(disk) = &self.profile.hardware.disk else { return };
        let threads = self.setting.threads;
        let now = Reading::of(disk, &now, morsels, FIRST_BATCHES, threads);
        // The pages of a morsel's output are requested while the morsel is filtered. A thread waits for them after
        // that.
        let then = Reading::of(disk, &then, morsels, MORSEL_ROWS / GRANULE, threads);
        // Nobody reads ahead for the first morsel of a thread.
        parts.first_ns += now.waited_ns / morsels;
        parts.wait_ns += then.waited_ns;
        parts.ahead_ns += now.busy_ns + then.busy_ns;
        parts.reading_ns += now.cpu_ns + then.cpu_ns;
    }

    /// For each group, the share of the remaining granules whose pages are read first, before their morsel is
    /// processed: those with open predicates, and those of the output if no predicate is open.
    fn first_reads(&self, layout: &Layout, query: &Query, pruned: &Pruned) -> Vec<f64> {
        let answered = pruned.named.as_ref().map_or(&[][..], |(_, answered)| &answered[..]);
        let mut shares = vec![0.0; layout.groups.len()];
        let mut open: f64 = 0.0;
        for (at, predicate) in query.predicates.iter().enumerate().filter(|(at, _)| !answered.contains(at)) {
            let group = layout.columns[predicate.column].group;
            let (evaluated, _) = pruned.open[at];
            shares[group] = f64::max(shares[group], evaluated);
            open = open.max(evaluated);
        }
        for group in layout.groups_of(&query.columns) {
            shares[group] = f64::max(shares[group], 1.0 - open);
        }
        shares
    }

    fn left(&self, layout: &Layout, query: &Query, pruned: &Pruned) -> WantedRows {
        let runs = query.predicates.iter().map(|p| self.statistics.run_rows(p.column, &layout.order));
        WantedRows { density: pruned.density, run_rows: runs.fold(f64::INFINITY, f64::min).clamp(1.0, GRANULE) }
    }

    fn admit(&self, group: &GroupGeometry, pages: f64) -> f64 {
        let engine = &self.profile.engine;
        let row = match group.form {
            Form::Slotted => engine.admit_slotted_row.value,
            Form::Dense if group.has_prefix => engine.admit_prefix_row.value,
            _ => 0.0,
        };
        pages * (engine.admit_page.value + group.page_bytes * engine.admit_byte.value + group.page_rows * row)
    }

    /// The pages of a group with a wanted row.
    fn pages_read(&self, group: &GroupGeometry, pruned: &Pruned, wanted: WantedRows) -> f64 {
        // Pages that extend beyond the remaining zones are read as a whole.
        let overhang = if pruned.zones < 0.999 { group.page_rows.min(ZONE * 4.0) / (ZONE * 8.0) } else { 0.0 };
        let share = (pruned.zones * (1.0 + overhang)).min(1.0);
        // Each remaining zone has at least one page.
        let zones = self.statistics.rows as f64 * pruned.zones / ZONE;
        (group.pages * share * wanted.touched(group.page_rows)).max(zones.min(1.0)).min(group.pages)
    }
}

/// The cost of reading some pages.
#[derive(Default)]
struct Reading {
    /// Nanoseconds during which the disk is busy.
    busy_ns: f64,
    /// Nanoseconds that a thread waits if it requests all pages of a morsel at once.
    waited_ns: f64,
    /// Nanoseconds of processor time.
    cpu_ns: f64,
}

impl Reading {
    /// The cost for `morsels` morsels, each requested in `batches` batches without waiting in between.
    fn of(disk: &DiskCosts, pages: &[(&GroupGeometry, f64)], morsels: f64, batches: f64, threads: usize) -> Reading {
        let (mut runs, mut bytes, mut following) = (0.0, 0.0, 0.0);
        for (group, count) in pages {
            // Adjacent pages of a batch are read together, up to the longest read.
            let own = count * group.page_bytes;
            bytes += own;
            let in_batch = (own / morsels / batches).max(group.page_bytes.min(own));
            let run = in_batch.clamp(1.0, IO_UNIT);
            runs += own / run;
            following += own / run * (1.0 - run / in_batch.max(run));
        }
        if bytes < 1.0 {
            return Reading::default();
        }
        let run_bytes = bytes / runs;
        let runs_per_morsel = (runs / morsels).max(1.0);
        let depth = (runs_per_morsel * threads as f64).clamp(1.0, IO_DEPTH);
        let busy_ns = following * disk.next_ns(run_bytes, depth) + (runs - following) * disk.read_ns(run_bytes, depth);
        let waits = runs / runs_per_morsel;
        let alone = disk.read_ns(run_bytes, 1.0);
        let rest = (runs_per_morsel - 1.0) * disk.read_ns(run_bytes, runs_per_morsel.clamp(1.0, IO_DEPTH));
        Reading { busy_ns, waited_ns: waits * (alone + rest), cpu_ns: runs * disk.cpu_ns(run_bytes, depth) }
    }
}
