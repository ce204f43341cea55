//! What a scan did: counters for `EXPLAIN ANALYZE`, shared by all cursors of a scan.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use roaring::RoaringBitmap;

use crate::segment::Segment;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Shared counters of one scan.
        #[derive(Debug, Default)]
        pub struct ScanMetrics {
            $($(#[$doc])* pub $name: AtomicU64,)+
            /// The pages that count as used, by segment and group: threads and conjuncts meet on the same ones.
            used: Mutex<HashMap<(u64, usize), RoaringBitmap>>,
            has_begun: AtomicBool,
        }

        /// The counters at one moment.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct ScanTotals { $($(#[$doc])* pub $name: u64),+ }

        impl ScanMetrics {
            pub fn totals(&self) -> ScanTotals {
                ScanTotals { $($name: self.$name.load(Relaxed)),+ }
            }
        }

        impl ScanTotals {
            /// Names and values, in a fixed order.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

counters! {
    /// Segments of the table.
    segments,
    /// Segments of which no zone was left.
    segments_pruned,
    /// Segments of which an index named the rows to look at, how many rows these were, and its pages that were looked at.
    index_segments,
    index_rows,
    index_pages,
    zones,
    /// Zones skipped by their aggregates.
    zones_pruned,
    /// Zones of which the aggregates say that all rows qualify.
    zones_whole,
    /// Whole zones whose aggregates were the answer: nothing of them was read.
    zones_aggregated,
    /// Pages of the groups that hold the columns asked for.
    pages_total,
    /// Pages that were decoded from, each once.
    pages_used,
    /// Pages that came from the medium, each time they did.
    pages_read,
    /// Bytes of all those pages, of those used, of those read.
    bytes_total,
    bytes_used,
    bytes_read,
    /// Rows of zones that were not pruned.
    rows_scanned,
    /// Rows that passed all filters.
    rows_selected,
    /// Values decoded for the output and for row filters.
    values_decoded,
}

impl ScanMetrics {
    /// True for the first that asks: what there is to scan is counted once, whoever opens the scan.
    pub fn begin(&self) -> bool {
        !self.has_begun.swap(true, Relaxed)
    }

    /// Counts a page as used, unless it is counted.
    pub(super) fn use_page(&self, segment: &Segment, group: usize, page: usize) {
        let is_new = self.used.lock().entry((segment.id, group)).or_default().insert(page as u32);
        if is_new {
            Self::add(&self.pages_used, 1);
            Self::add(&self.bytes_used, segment.page_bytes(group, page));
        }
    }

    pub(super) fn add(counter: &AtomicU64, amount: usize) {
        counter.fetch_add(amount as u64, Relaxed);
    }
}
