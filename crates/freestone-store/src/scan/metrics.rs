//! Counters of a scan for `EXPLAIN ANALYZE`, shared by all of its cursors.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use roaring::RoaringBitmap;

use crate::segment::Segment;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The shared counters of one scan. `docs/sql.md` describes them.
        #[allow(missing_docs)]
        #[derive(Debug, Default)]
        pub struct ScanMetrics {
            $($(#[$doc])* pub $name: AtomicU64,)+
            /// The pages counted as used, by segment and group, because threads and conjuncts use the same pages.
            used: Mutex<HashMap<(u64, usize), RoaringBitmap>>,
            has_begun: AtomicBool,
        }

        /// The counters at one moment.
        #[allow(missing_docs)]
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct ScanTotals { $($(#[$doc])* pub $name: u64),+ }

        impl ScanMetrics {
            /// The current counters.
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
    /// Segments of which pruning left no zone.
    segments_pruned,
    /// Segments in which an index was used, the number of rows that it found, and its pages that were read.
    index_segments,
    index_rows,
    index_pages,
    zones,
    /// Zones that their aggregates pruned.
    zones_pruned,
    /// Zones whose aggregates prove that all rows qualify.
    zones_whole,
    /// Whole zones that were answered from their aggregates, without reading a page.
    zones_aggregated,
    /// Pages of the groups with the requested columns.
    pages_total,
    /// Pages of which something was decoded, each counted once.
    pages_used,
    /// Pages that were read from the medium, counted each time.
    pages_read,
    /// Bytes of all these pages, of those used, and of those read.
    bytes_total,
    bytes_used,
    bytes_read,
    /// Hot rows in runs of which pruning left something, deleted ones included.
    hot_rows,
    /// Rows of zones that were not pruned.
    rows_scanned,
    /// Deleted rows, or earlier versions of rows, among these.
    rows_deleted,
    /// Rows that satisfied all filters.
    rows_selected,
    /// Values that were decoded for the output and for row filters.
    values_decoded,
}

impl ScanMetrics {
    /// True for the first caller: the totals of a scan are counted once, whoever opens it.
    pub fn begin(&self) -> bool {
        !self.has_begun.swap(true, Relaxed)
    }

    /// Counts a page as used, once.
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
