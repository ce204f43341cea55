//! What a scan reads where its pages are not cached, and for how much of that it waits.

use super::geometry::{GroupGeometry, Layout};
use super::processor::Wanted;
use super::prune::Pruned;
use super::{GRANULE, Parts, ScanModel, UNIT_ROWS};
use crate::profile::{DiskCosts, Form};
use crate::workload::Query;

/// Bytes of the longest single read.
const IO_UNIT: f64 = 131_072.0;
const IO_DEPTH: f64 = 48.0;
/// Zones are contiguous runs of rows; what is read of a group in one of them.
const ZONE: f64 = 2048.0;

impl ScanModel {
    /// Adds reading, and checking what was read.
    pub(super) fn reads(&self, layout: &Layout, query: &Query, pruned: &Pruned, parts: &mut Parts) {
        let uncached = self.uncached(layout, query);
        if uncached <= 0.0 {
            return;
        }
        let (named, answered) = match &pruned.named {
            Some((named, answered)) => (*named, &answered[..]),
            None => (Wanted::ALL, &[][..]),
        };
        let tests = query.predicates.iter().enumerate().filter(|(at, _)| !answered.contains(at));
        let filters: Vec<usize> = tests.map(|(_, p)| p.column).collect();
        let ahead = layout.groups_of(if filters.is_empty() { &query.columns } else { &filters });
        let later: Vec<usize> = layout.groups_of(&query.columns).into_iter().filter(|g| !ahead.contains(g)).collect();
        let rows = self.statistics.rows as f64;
        let left = self.left(layout, query, pruned);
        for (groups, wanted, is_ahead) in [(ahead, named, true), (later, left, false)] {
            let pages: Vec<(&GroupGeometry, f64)> = groups
                .iter()
                .map(|g| {
                    let group = &layout.groups[*g];
                    (group, uncached * pages_read(group, pruned, wanted))
                })
                .collect();
            for (group, count) in &pages {
                parts.bytes_read += count * group.page_bytes;
                parts.admit_ns += self.admit(group, *count);
                parts.fresh_ns += count * group.page_bytes * self.profile.hardware.fresh.value;
            }
            let Some(disk) = &self.profile.hardware.disk else { continue };
            let spans = if is_ahead { rows * pruned.units / UNIT_ROWS } else { rows * pruned.granules / GRANULE };
            let (busy, waited) = read_time(disk, &pages, spans.max(1.0), self.setting.threads);
            parts.ahead_ns += busy;
            if is_ahead {
                // Nobody read ahead for the first unit of a thread: it waits for each of its granules.
                parts.wait_ns += waited * (self.setting.threads as f64 / parts.units.max(1.0)).min(1.0);
            } else {
                parts.wait_ns += waited;
            }
        }
    }

    fn left(&self, layout: &Layout, query: &Query, pruned: &Pruned) -> Wanted {
        let runs = query.predicates.iter().map(|p| self.statistics.run_rows(p.column, &layout.order));
        Wanted { density: pruned.density, run_rows: runs.fold(f64::INFINITY, f64::min).clamp(1.0, GRANULE) }
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
}

/// Pages of a group that have a row wanted.
fn pages_read(group: &GroupGeometry, pruned: &Pruned, wanted: Wanted) -> f64 {
    // Pages that stick out of the zones left are read whole.
    let overhang = if pruned.zones < 0.999 { group.page_rows.min(ZONE * 4.0) / (ZONE * 8.0) } else { 0.0 };
    let share = (pruned.zones * (1.0 + overhang)).min(1.0);
    (group.pages * share * wanted.touched(group.page_rows)).max(1.0).min(group.pages)
}

/// Nanoseconds that the disk is busy with reads in `spans` spans, and that a thread waits which asks for each span's at
/// once.
fn read_time(disk: &DiskCosts, pages: &[(&GroupGeometry, f64)], spans: f64, threads: usize) -> (f64, f64) {
    let (mut runs, mut bytes) = (0.0, 0.0);
    for (group, count) in pages {
        // Neighbouring pages are read together, up to the longest read.
        let own = count * group.page_bytes;
        bytes += own;
        let in_span = (own / spans).max(group.page_bytes.min(own));
        let run = in_span.clamp(1.0, IO_UNIT);
        runs += own / run;
    }
    if bytes < 1.0 {
        return (0.0, 0.0);
    }
    let run_bytes = bytes / runs;
    let runs_a_span = (runs / spans).max(1.0);
    let depth = (runs_a_span * threads as f64).clamp(1.0, IO_DEPTH);
    let busy = runs * disk.read_ns(run_bytes, depth);
    let waits = runs / runs_a_span;
    let alone = disk.read_ns(run_bytes, 1.0);
    let rest = (runs_a_span - 1.0) * disk.read_ns(run_bytes, runs_a_span.clamp(1.0, IO_DEPTH));
    (busy, waits * (alone + rest))
}
