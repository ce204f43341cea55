//! The reads of a cursor, and how they overlap with decoding: the next morsel is read while the current one is decoded
//! (column prefetch, Halverson et al. 2006, section 3.1), and the output's pages of a granule while the next granule is
//! filtered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::{Cursor, Selected, any_selected, whole_zones};
use crate::bitmap;
use crate::error::Result;
use crate::media::Pending;
use crate::scan::metrics::ScanMetrics;
use crate::scan::pruning::{Granule, ZonePruning, prune_all};
use crate::scan::{Morsel, Sink};
use crate::segment::{CachedPage, Segment};
use crate::table::Table;

/// Pages that are being read, by group and position in the group.
pub(super) struct Read {
    segment: Arc<Segment>,
    pages: Vec<(usize, usize)>,
    pending: Pending,
    /// The first row that needs them.
    from: usize,
}

/// Reads, in the order in which they are needed.
pub(super) type Reads = VecDeque<Read>;

/// A morsel whose processing has begun: the pruning results of its granules, and its reads.
#[derive(Debug)]
pub(super) struct Ahead {
    segment: usize,
    rows: Range<u32>,
    pub(super) pruning: VecDeque<ZonePruning>,
    pub(super) reads: Reads,
}

/// Pages of a segment, by group and position in the group.
type Pages = HashSet<(usize, usize)>;

/// The pages of one segment that the cursor has pinned.
pub(super) struct PinnedPages {
    /// For each group, the pages that it used last, in order.
    groups: Vec<Vec<(usize, Arc<CachedPage>)>>,
    /// Pages that were read ahead and not used yet.
    arrived: HashMap<(usize, usize), Arc<CachedPage>>,
}

impl PinnedPages {
    pub(super) fn new(groups: usize) -> Self {
        PinnedPages { groups: vec![vec![]; groups], arrived: HashMap::new() }
    }

    fn has(&self, group: usize, page: usize) -> bool {
        self.groups[group].binary_search_by_key(&page, |(p, _)| *p).is_ok() || self.arrived.contains_key(&(group, page))
    }

    /// A page that [`Cursor::hold`] has pinned.
    pub(super) fn page(&self, group: usize, page: usize) -> Arc<CachedPage> {
        let found = self.groups[group].binary_search_by_key(&page, |(p, _)| *p);
        self.groups[group][found.expect("the pages of a granule are held before they are used")].1.clone()
    }
}

impl Read {
    /// Whether the read is complete.
    pub(super) fn is_ready(&self) -> bool {
        self.pending.is_ready()
    }
}

impl std::fmt::Debug for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pages of {}", self.pages.len(), self.segment.name())
    }
}

impl Cursor {
    /// The morsel that was begun ahead. If the caller scans another morsel than it announced, that one is begun now.
    pub(super) fn take_ahead(&mut self, segment: &Arc<Segment>, morsel: &Morsel, sink: Option<&dyn Sink>) -> Ahead {
        let begun = self.ahead.take().filter(|ahead| (ahead.segment, &ahead.rows) == (morsel.segment, &morsel.rows));
        begun.unwrap_or_else(|| self.begin(segment, morsel, sink, Pages::default()))
    }

    /// Begins the next morsel: prunes its zones, and starts the reads that it needs first, except pages in `under_way`.
    pub(super) fn begin_next(
        &mut self,
        table: &Table,
        morsel: &Morsel,
        sink: Option<&dyn Sink>,
        under_way: &Reads,
    ) -> Result<()> {
        let segment = table.open_segment(morsel.segment)?;
        let known = pages_of(&segment, under_way);
        self.ahead = Some(self.begin(&segment, morsel, sink, known));
        Ok(())
    }

    /// Starts the reads that a morsel needs first, except known pages, in batches of one, one, two and four granules.
    fn begin(&self, segment: &Arc<Segment>, morsel: &Morsel, sink: Option<&dyn Sink>, mut known: Pages) -> Ahead {
        let pruning: VecDeque<ZonePruning> =
            Granule::of(segment, morsel).map(|g| prune_all(&g, &self.request)).collect();
        let begun = |reads, pruning| Ahead { segment: morsel.segment, rows: morsel.rows.clone(), pruning, reads };
        let mut reads = Reads::default();
        let named = match &self.dynamic_named {
            Some((of, named)) if *of == segment.id => named.as_ref(),
            // For another segment, the index matches become known when it is reached.
            _ if !self.dynamic_predicates.is_empty() && !segment.indexes().is_empty() => {
                return begun(reads, pruning);
            }
            _ => None,
        };
        let (mut pages, mut from) = (vec![], morsel.rows.start as usize);
        for (granule, pruning) in Granule::of(segment, morsel).zip(&pruning) {
            let selection = self.narrowed(&granule, &pruning.selection, named);
            let is_wanted = |group, page| any_selected(&granule, group, page, &selection);
            let mut missing = self.missing(&granule, &self.first_columns(pruning), is_wanted, &known);
            // The sink is asked only if there is something to read. Hot scans ask it once per zone.
            if let Some(sink) = sink.filter(|_| !missing.is_empty() && self.zones_decide()) {
                let left = not_taken(&granule, pruning, sink);
                missing.retain(|(group, page)| any_selected(&granule, *group, *page, &left));
            }
            known.extend(&missing);
            pages.append(&mut missing);
            let end = granule.start + granule.len;
            // Each batch has as many granules as all before. One is decoded while the next is read, and reads far ahead
            // are long.
            if end - from >= from - morsel.rows.start as usize {
                reads.extend(start(segment, std::mem::take(&mut pages), from));
                from = end;
            }
        }
        reads.extend(start(segment, pages, from));
        begun(reads, pruning)
    }

    /// The columns that a granule needs first: those of its filters, or the projected ones if nothing filters.
    fn first_columns(&self, pruning: &ZonePruning) -> Vec<usize> {
        let request = &self.request;
        let filtered: Vec<usize> = match pruning.open.is_empty() {
            true => self.dynamic_predicates.iter().map(|p| p.column).collect(),
            false => pruning.open.iter().map(|at| request.predicates[*at].column).collect(),
        };
        match request.row_filters.first() {
            _ if !filtered.is_empty() => filtered,
            Some(_) => {
                let columns: Vec<usize> =
                    request.row_filters.iter().flat_map(|filter| filter.columns().to_vec()).collect();
                self.table.schema.with_fields(&columns)
            }
            None => self.reading.stored.clone(),
        }
    }

    /// Starts reading the pages that the selected rows of a granule need, except those that the cursor has pinned or
    /// waits for.
    pub(super) fn read_selected(
        &self,
        segment: &Arc<Segment>,
        granule: &Granule<'_>,
        selected: &Selected,
        pinned: &PinnedPages,
        waiting: &VecDeque<(Granule<'_>, Selected, Option<Read>)>,
    ) -> Option<Read> {
        if selected.count == 0 {
            return None;
        }
        let known = pages_of(segment, waiting.iter().filter_map(|(.., read)| read.as_ref()));
        let is_wanted = |group: usize, page| selected.any(granule, group, page) && !pinned.has(group, page);
        let pages = self.missing(granule, &self.reading.stored, is_wanted, &known);
        start(segment, pages, granule.start)
    }

    /// The wanted pages of some columns that are neither cached nor known.
    fn missing(
        &self,
        granule: &Granule<'_>,
        columns: &[usize],
        is_wanted: impl Fn(usize, usize) -> bool,
        known: &Pages,
    ) -> Vec<(usize, usize)> {
        let segment = granule.segment;
        let mut pages = vec![];
        for group in segment.groups_of(columns) {
            let run = segment.pages_of(group, granule.start..granule.start + granule.len);
            for page in (run.first..=run.last).filter(|page| is_wanted(group, *page)) {
                if !segment.is_cached(self.table.cache(), group, page) && !known.contains(&(group, page)) {
                    pages.push((group, page));
                }
            }
        }
        pages
    }

    /// Waits for the reads that rows up to `start` need, and verifies the pages.
    pub(super) fn admit_to(&self, start: usize, reads: &mut Reads, pinned: &mut PinnedPages) -> Result<()> {
        while let Some(read) = reads.pop_front_if(|read| read.from <= start) {
            self.take_read(read, pinned)?;
        }
        Ok(())
    }

    /// Waits for a read, verifies its pages, and pins them until they are used.
    pub(super) fn take_read(&self, read: Read, pinned: &mut PinnedPages) -> Result<()> {
        let admitted = self.admit(&read.segment, &read.pages, read.pending)?;
        pinned.arrived.extend(read.pages.into_iter().zip(admitted));
        Ok(())
    }

    /// Pins the `wanted` pages of a group and releases others.
    pub(super) fn pin_pages(
        &self,
        segment: &Segment,
        group: usize,
        wanted: &[usize],
        pinned: &mut PinnedPages,
    ) -> Result<()> {
        let (mut found, mut missing) = (vec![], vec![]);
        for page in wanted {
            if pinned.groups[group].binary_search_by_key(page, |(p, _)| *p).is_ok() {
                continue;
            }
            self.metrics.use_page(segment, group, *page);
            let arrived = pinned.arrived.remove(&(group, *page));
            match arrived.or_else(|| segment.cached(self.table.cache(), group, *page)) {
                Some(cached) => found.push((*page, cached)),
                None => missing.push((group, *page)),
            }
        }
        let read = self.read(segment, &missing)?;
        let pages = &mut pinned.groups[group];
        if let Some(first) = wanted.first() {
            pages.retain(|(page, _)| page >= first);
        }
        pages.extend(found);
        pages.extend(missing.iter().map(|(_, page)| *page).zip(read));
        pages.sort_unstable_by_key(|(page, _)| *page);
        Ok(())
    }

    fn read(&self, segment: &Segment, missing: &[(usize, usize)]) -> Result<Vec<Arc<CachedPage>>> {
        if missing.is_empty() {
            return Ok(vec![]);
        }
        let pending = segment.start(missing);
        self.admit(segment, missing, pending)
    }

    fn admit(&self, segment: &Segment, pages: &[(usize, usize)], pending: Pending) -> Result<Vec<Arc<CachedPage>>> {
        let mut admitted = Vec::with_capacity(pages.len());
        for (page, bytes) in pages.iter().zip(pending.wait()) {
            let bytes = bytes?;
            ScanMetrics::add(&self.metrics.pages_read, 1);
            ScanMetrics::add(&self.metrics.bytes_read, bytes.len());
            admitted.push(segment.admit(self.table.cache(), *page, bytes)?);
        }
        Ok(admitted)
    }
}

/// The rows that zone pruning leaves, except zones that the sink would take.
fn not_taken(granule: &Granule<'_>, pruning: &ZonePruning, sink: &dyn Sink) -> Vec<u64> {
    let mut left = pruning.selection.clone();
    for (zone, from, rows) in whole_zones(granule, &pruning.whole, &pruning.selection) {
        if sink.would_take(granule.segment, zone, rows) {
            bitmap::clear_words(&mut left, from, from + rows);
        }
    }
    left
}

fn start(segment: &Arc<Segment>, pages: Vec<(usize, usize)>, from: usize) -> Option<Read> {
    let pending = (!pages.is_empty()).then(|| segment.start(&pages))?;
    Some(Read { segment: segment.clone(), pages, pending, from })
}

/// The pages of a segment that are being read.
fn pages_of<'a>(segment: &Segment, reads: impl IntoIterator<Item = &'a Read>) -> Pages {
    let own = reads.into_iter().filter(|read| read.segment.id == segment.id);
    own.flat_map(|read| read.pages.iter().copied()).collect()
}
