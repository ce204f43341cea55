//! Morsels: how a scan is divided, and how threads share it.
//!
//! Threads take morsels from one queue, so a slow thread delays no other: this is work stealing without a deque per
//! thread. Where a plan needs the order of the table, each partition has contiguous morsels of its own instead.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::index::{IndexMatches, index_matches};
use super::pool::pool_matches;
use super::pruning::{is_ruled_out_whole, leaves, ruled_out_unread, survives};
use super::{ScanMetrics, ScanRequest};
use crate::error::Result;
use crate::limits::GRANULE_ROWS;
use crate::table::Table;

/// A morsel: zones of one segment, which one thread processes at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Morsel {
    /// The position of the segment in the table.
    pub segment: usize,
    /// The rows in the segment.
    pub rows: Range<u32>,
    /// Index matches: if set, only these rows of the segment are tested.
    pub named: Option<Arc<IndexMatches>>,
}

impl Morsel {
    /// A morsel of all rows of the range.
    pub fn new(segment: usize, rows: Range<u32>) -> Self {
        Morsel { segment, rows, named: None }
    }
}

/// The morsels of a table, in order, of at most about `morsel_rows` rows. Those of one segment have equal lengths, so
/// that no thread is left with a large one at the end.
pub fn morsels(table: &Table, morsel_rows: usize) -> Vec<Morsel> {
    let mut morsels = vec![];
    for (segment, entry) in table.segments.iter().enumerate() {
        let most = morsel_rows.next_multiple_of(GRANULE_ROWS).max(GRANULE_ROWS);
        let count = (entry.rows as usize).div_ceil(most).max(1);
        let step = (entry.rows as usize).div_ceil(count).next_multiple_of(GRANULE_ROWS).max(GRANULE_ROWS);
        let starts = (0..entry.rows as usize).step_by(step);
        morsels.extend(starts.map(|s| Morsel::new(segment, s as u32..(s + step).min(entry.rows as usize) as u32)));
    }
    morsels
}

/// The morsels of a scan of which zone pruning, or an index, leaves any row. Also sets the totals with which a scan's
/// work is compared.
///
/// # Errors
/// A footer or an index cannot be read.
pub fn surviving_morsels(
    table: &Table,
    request: &ScanRequest,
    morsel_rows: usize,
    metrics: &ScanMetrics,
) -> Result<Vec<Morsel>> {
    surviving_morsels_of(table, request, morsel_rows, metrics, |_| true)
}

/// The same for some segments, by their positions in the table. The footers of others are not read.
///
/// # Errors
/// A footer or an index cannot be read.
pub fn surviving_morsels_of(
    table: &Table,
    request: &ScanRequest,
    morsel_rows: usize,
    metrics: &ScanMetrics,
    is_wanted: impl Fn(usize) -> bool,
) -> Result<Vec<Morsel>> {
    table.check_available()?;
    let all = morsels(table, morsel_rows);
    let mut in_pool = pool_matches(table, request)?;
    let mut left = Vec::with_capacity(all.len());
    let mut all = all.into_iter().peekable();
    let columns = table.schema.with_fields(&request.touched());
    for at in 0..table.segments.len() {
        if !is_wanted(at) {
            while all.next_if(|morsel| morsel.segment == at).is_some() {}
            continue;
        }
        ScanMetrics::add(&metrics.segments, 1);
        let by_key = match in_pool.as_mut().filter(|_| table.segments[at].is_in_pool()) {
            None => None,
            Some(found) => match found.remove(&at) {
                Some(rows) => {
                    ScanMetrics::add(&metrics.index_segments, 1);
                    ScanMetrics::add(&metrics.index_rows, rows.len());
                    Some(IndexMatches::of_rows(rows))
                }
                None => {
                    while all.next_if(|morsel| morsel.segment == at).is_some() {}
                    ScanMetrics::add(&metrics.segments_pruned, 1);
                    continue;
                }
            },
        };
        if by_key.is_none() && is_passed_unread(table, at, request, &columns, metrics) {
            while all.next_if(|morsel| morsel.segment == at).is_some() {}
            continue;
        }
        let segment = table.open_segment(at)?;
        for group in segment.groups_of(&columns) {
            ScanMetrics::add(&metrics.pages_total, segment.page_count(group));
            ScanMetrics::add(&metrics.bytes_total, segment.group_bytes(group));
        }
        let before = left.len();
        let is_ruled_out = is_ruled_out_whole(&segment, request);
        let named = if is_ruled_out {
            None
        } else if by_key.is_some() {
            by_key.map(Arc::new)
        } else {
            let leaves = |least| leaves(&segment, request, least);
            index_matches(table, &segment, request.wanted(), leaves, metrics)?.map(Arc::new)
        };
        while let Some(morsel) = all.next_if(|morsel| morsel.segment == at) {
            let morsel = Morsel { named: named.clone(), ..morsel };
            if !is_ruled_out && survives(&segment, &morsel, request) {
                left.push(morsel);
            } else {
                count_pruned(metrics, morsel.rows.len().div_ceil(segment.zone_rows()));
            }
        }
        if left.len() == before {
            ScanMetrics::add(&metrics.segments_pruned, 1);
        } else if table.segments[at].is_hot() {
            ScanMetrics::add(&metrics.hot_rows, segment.rows());
        }
    }
    Ok(left)
}

/// Whether the commit that added a segment proves that no row qualifies, so that its footer is not read. Counts its zones, and
/// the pages of the columns that are wanted, as for other segments.
fn is_passed_unread(table: &Table, at: usize, request: &ScanRequest, columns: &[usize], metrics: &ScanMetrics) -> bool {
    // A field of a struct, or a column that was added later, is known to the opened segment only.
    let known = columns.iter().all(|column| *column < table.schema.columns.len());
    let Some(summary) = ruled_out_unread(table, at, request).filter(|_| known) else { return false };
    let ids = columns.iter().map(|column| table.schema.id(*column));
    let Some(pages) = summary.pages_of(ids) else { return false };
    ScanMetrics::add(&metrics.pages_total, pages.pages as usize);
    ScanMetrics::add(&metrics.bytes_total, pages.bytes as usize);
    ScanMetrics::add(&metrics.segments_pruned, 1);
    // Morsels begin at zones.
    count_pruned(metrics, (table.segments[at].rows as usize).div_ceil(summary.zone_rows as usize));
    true
}

fn count_pruned(metrics: &ScanMetrics, zones: usize) {
    ScanMetrics::add(&metrics.zones, zones);
    ScanMetrics::add(&metrics.zones_pruned, zones);
}

/// Morsels that several threads take: from one shared queue, or from one range each if order matters.
#[derive(Debug)]
pub struct MorselQueue {
    morsels: Vec<Morsel>,
    /// Of the morsels that nobody has taken: the first one, and in the upper half the end.
    left: AtomicU64,
    threads: usize,
}

impl MorselQueue {
    /// A queue shared by `threads` threads.
    pub fn new(morsels: Vec<Morsel>, threads: usize) -> Self {
        let left = AtomicU64::new((morsels.len() as u64) << 32);
        MorselQueue { morsels, left, threads }
    }

    /// All morsels, also those that were taken.
    pub fn morsels(&self) -> &[Morsel] {
        &self.morsels
    }

    /// Takes the next morsel, if at least `least` are left.
    fn take(&self, least: usize) -> Option<&Morsel> {
        let claim = |left: u64| {
            let range = range(left);
            (range.len() >= least).then_some(left + 1)
        };
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
        self.morsels.get(range(left).start)
    }

    /// Takes the last half of the morsels that are left out of the queue, if at least `least` are left.
    pub fn give_back(&self, least: usize) -> Vec<Morsel> {
        let half = |left: u64| range(left).len() / 2;
        let given = |left: u64| {
            let is_worth_it = range(left).len() >= least && half(left) > 0;
            is_worth_it.then(|| left - ((half(left) as u64) << 32))
        };
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, given) {
            Ok(left) => self.morsels[range(left).end - half(left)..range(left).end].to_vec(),
            Err(_) => vec![],
        }
    }
}

fn range(left: u64) -> Range<usize> {
    (left & u64::from(u32::MAX)) as usize..(left >> 32) as usize
}

/// One thread's access to a queue. It takes its next morsel in advance, to read it ahead, as long as there is one for
/// each of the other threads, too.
#[derive(Debug)]
pub struct Morsels {
    queue: Arc<MorselQueue>,
    next: Option<Morsel>,
}

impl Morsels {
    /// The access of one thread.
    pub fn new(queue: Arc<MorselQueue>) -> Self {
        Morsels { queue, next: None }
    }

    /// A morsel, and the next one if it is known already.
    pub fn take(&mut self) -> Option<(Morsel, Option<Morsel>)> {
        let morsel = self.next.take().or_else(|| self.queue.take(1).cloned())?;
        self.next = self.queue.take(self.queue.threads).cloned();
        Some((morsel, self.next.clone()))
    }
}

/// The maximum bytes of rows that a thread holds before its consumer takes them.
const PIECE_BYTES: usize = 8 << 20;
/// The same per row of a batch, for smaller batches, which are used if memory is scarce.
const PIECE_BYTES_PER_BATCH_ROW: usize = 1 << 10;

/// Divides the morsels of one thread into pieces whose rows take a few megabytes, because strings can make rows large.
/// The number of rows per piece is estimated from the earlier pieces.
#[derive(Debug)]
pub struct Pieces {
    morsels: Morsels,
    /// The remaining rows of a morsel.
    rest: Option<Morsel>,
    /// The following morsel.
    next: Option<Morsel>,
    /// The piece that was announced as the next one.
    announced: Option<Morsel>,
    /// The number of rows per piece.
    rows: usize,
    bytes_max: usize,
}

impl Pieces {
    /// `has_texts`: whether rows have strings, so that their size varies.
    pub fn new(morsels: Morsels, has_texts: bool, batch_rows: usize) -> Self {
        let rows = if has_texts { GRANULE_ROWS } else { usize::MAX };
        let bytes_max = PIECE_BYTES.min(batch_rows.saturating_mul(PIECE_BYTES_PER_BATCH_ROW));
        Pieces { morsels, rest: None, next: None, announced: None, rows, bytes_max }
    }

    /// The next piece, and the one after it if it is known. Pieces begin at a zone.
    pub fn take(&mut self, zone_rows: impl Fn(&Morsel) -> usize) -> Option<(Morsel, Option<Morsel>)> {
        let whole = match self.rest.take() {
            Some(rest) => rest,
            None => {
                let (morsel, next) = self.morsels.take()?;
                self.next = next;
                morsel
            }
        };
        let cut = |morsel: Morsel, rows: usize| {
            let step_rows = if rows < GRANULE_ROWS { zone_rows(&morsel).max(1) } else { GRANULE_ROWS };
            let rows = (rows / step_rows).max(1).saturating_mul(step_rows);
            let end = u32::try_from(rows).unwrap_or(u32::MAX).saturating_add(morsel.rows.start).min(morsel.rows.end);
            let rest = (end < morsel.rows.end).then(|| Morsel { rows: end..morsel.rows.end, ..morsel.clone() });
            (Morsel { rows: morsel.rows.start..end, ..morsel }, rest)
        };
        let is_announced = |piece: &Morsel| (piece.segment, piece.rows.start) == (whole.segment, whole.rows.start);
        let rows = self.announced.take().filter(is_announced).map_or(self.rows, |piece| piece.rows.len());
        let (piece, rest) = cut(whole, rows);
        self.announced = rest.as_ref().or(self.next.as_ref()).map(|morsel| cut(morsel.clone(), self.rows).0);
        self.rest = rest;
        Some((piece, self.announced.clone()))
    }

    /// Records the bytes of the last piece, to estimate the size of the next ones.
    pub fn gave(&mut self, bytes: usize) {
        if bytes > self.bytes_max {
            self.rows = (self.rows.min(1 << 30) / (bytes / self.bytes_max + 1)).max(1);
        } else if bytes <= self.bytes_max / 2 {
            self.rows = self.rows.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_of_the_units_and_as_large_as_their_rows_let_them() {
        let morsels: Vec<Morsel> = (0..3).map(|segment| Morsel::new(segment, 0..65_536)).collect();
        for (has_texts, row_bytes, expected) in [(false, 1 << 20, 3), (true, 10, 6), (true, 20_000, 160)] {
            let queue = Arc::new(MorselQueue::new(morsels.clone(), 1));
            let mut pieces = Pieces::new(Morsels::new(queue), has_texts, 8192);
            let (mut count, mut at, mut announced) = (0, (0, 0), None);
            while let Some((piece, next)) = pieces.take(|_| 1024) {
                assert!(announced.is_none_or(|announced| announced == piece));
                let start = if piece.segment == at.0 { at.1 } else { 0 };
                assert!(piece.rows.start == start && start % 1024 == 0 && !piece.rows.is_empty());
                at = (piece.segment, piece.rows.end);
                count += 1;
                announced = next;
                pieces.gave(piece.rows.len() * row_bytes);
            }
            assert_eq!(at, (2, 65_536));
            assert!((expected..=expected + expected / 4).contains(&count), "{row_bytes}: {count}");
        }
    }

    #[test]
    fn morsels_are_either_taken_or_given_back() {
        let morsels: Vec<Morsel> = (0..1000).map(|segment| Morsel::new(segment, 0..1)).collect();
        let queue = Arc::new(MorselQueue::new(morsels, 2));
        let mut all: Vec<usize> = std::thread::scope(|scope| {
            let take = || {
                let mut own = Morsels::new(queue.clone());
                std::iter::from_fn(move || own.take().map(|(morsel, _)| morsel.segment)).collect::<Vec<_>>()
            };
            let takes: Vec<_> = (0..2).map(|_| scope.spawn(take)).collect();
            let given: Vec<usize> = (0..5).flat_map(|_| queue.give_back(2)).map(|morsel| morsel.segment).collect();
            takes.into_iter().flat_map(|take| take.join().unwrap()).chain(given).collect()
        });
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        let queue = MorselQueue::new((0..5).map(|segment| Morsel::new(segment, 0..1)).collect(), 1);
        assert!(queue.give_back(6).is_empty());
        let given = |least| queue.give_back(least).iter().map(|morsel| morsel.segment).collect::<Vec<_>>();
        assert_eq!((given(2), given(2), given(2)), (vec![3, 4], vec![2], vec![1]));
        assert!(given(1).is_empty() && queue.take(1).is_some() && queue.take(1).is_none());
    }

    #[test]
    fn every_unit_is_taken_once_and_nobody_takes_the_last_ones_alone() {
        let morsels: Vec<Morsel> = (0..7).map(|segment| Morsel::new(segment, 0..1)).collect();
        let queue = Arc::new(MorselQueue::new(morsels, 3));
        let mut threads: Vec<Morsels> = (0..3).map(|_| Morsels::new(queue.clone())).collect();
        let mut taken = vec![];
        while let Some((morsel, next)) = threads[taken.len() % 3].take() {
            taken.push((morsel.segment, next.map(|next| next.segment)));
        }
        let expected = [(0, Some(1)), (2, Some(3)), (4, None), (1, None), (3, None), (5, None), (6, None)];
        assert_eq!(taken, expected);
        assert!(threads.iter_mut().all(|thread| thread.take().is_none()));
    }
}
