//! A scan that decodes nothing: whole columns as they are on the pages, to be sent elsewhere. If a segment has deleted
//! rows, or page formats that store several columns together, its rows are decoded.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use freestone_codec::Shared;

use super::{Cursor, Morsel, ScanMetrics, ScanRequest, morsels};
use crate::error::Result;
use crate::limits::MORSEL_ROWS;
use crate::media::Pending;
use crate::segment::{CachedPage, Segment};
use crate::table::Table;

/// Some rows of a table.
#[derive(Debug)]
pub enum StoredRows {
    /// Columns in the requested order, in stored form.
    Stored {
        /// The number of rows.
        rows: usize,
        /// The columns.
        columns: Vec<StoredColumn>,
    },
    /// Rows of a segment with deletions, or of pages with several columns.
    Decoded(RecordBatch),
}

impl StoredRows {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        match self {
            StoredRows::Stored { rows, .. } => *rows,
            StoredRows::Decoded(batch) => batch.num_rows(),
        }
    }
}

/// Rows of a column, as they are on its pages.
#[derive(Debug, Clone)]
pub struct StoredColumn {
    /// The shared state to which the chunks refer, with a number that is unique in the scan.
    pub shared: Option<(u64, Shared)>,
    /// The rows, chunk by chunk.
    pub pieces: Vec<StoredPiece>,
}

/// Rows of one chunk.
#[derive(Debug, Clone)]
pub struct StoredPiece {
    /// The page, and the range of the chunk in its bytes.
    pub page: Arc<CachedPage>,
    /// The bytes of the chunk in its page.
    pub range: Range<usize>,
    /// The number of rows of the chunk to skip, and the number of rows after them.
    pub skip: usize,
    /// The number of rows.
    pub rows: usize,
}

/// A page of a segment: its group, and its position in the group.
type Place = (usize, usize);

/// Reads all rows of a table, in order.
#[derive(Debug)]
pub struct StoredScan {
    table: Arc<Table>,
    columns: Vec<usize>,
    morsels: VecDeque<Morsel>,
    /// Decodes the rows that are not returned in stored form.
    cursor: Cursor,
    /// The pages of the last step, and their segment; the next step may begin on them.
    pinned: HashMap<Place, Arc<CachedPage>>,
    pinned_segment: u64,
    /// The reads for the next step.
    ahead: Option<(Arc<Segment>, Vec<Place>, PendingPages)>,
}

struct PendingPages(Pending);

impl std::fmt::Debug for PendingPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PendingPages")
    }
}

impl StoredScan {
    /// A scan of `columns` of a table, by their positions.
    pub fn new(table: Arc<Table>, columns: Vec<usize>) -> Self {
        let request = Arc::new(ScanRequest { batch_rows: MORSEL_ROWS, ..ScanRequest::columns(columns.clone()) });
        let cursor = Cursor::new(table.clone(), request, Arc::new(ScanMetrics::default()));
        let morsels = morsels(&table, MORSEL_ROWS).into();
        StoredScan { table, columns, morsels, cursor, pinned: HashMap::new(), pinned_segment: 0, ahead: None }
    }

    /// The next rows; `None` after the last.
    ///
    /// # Errors
    /// A page cannot be read or is damaged.
    pub fn next_rows(&mut self) -> Result<Option<StoredRows>> {
        loop {
            if let Some(batch) = self.cursor.next_ready() {
                return Ok(Some(StoredRows::Decoded(batch)));
            }
            let Some(morsel) = self.morsels.front().cloned() else {
                return Ok(self.cursor.finish()?.map(StoredRows::Decoded));
            };
            let segment = self.table.open_segment(morsel.segment)?;
            if self.ships(&segment, &morsel) {
                // Rows stay in order, so rows that were decoded before come first.
                if let Some(batch) = self.cursor.finish()? {
                    return Ok(Some(StoredRows::Decoded(batch)));
                }
                self.morsels.pop_front();
                return self.stored(&segment, &morsel).map(Some);
            }
            self.morsels.pop_front();
            // The cursor does not read what is returned in stored form.
            let mut next = self.morsels.front();
            if let Some(morsel) = next {
                let segment = self.table.open_segment(morsel.segment)?;
                next = next.filter(|morsel| !self.ships(&segment, morsel));
            }
            self.cursor.scan(&morsel, next)?;
        }
    }

    /// Whether the columns of a segment are stored separately, and none of its rows is deleted.
    fn ships(&self, segment: &Segment, morsel: &Morsel) -> bool {
        let apart = |column: &usize| segment.group(segment.place(*column).0).ships_columns();
        self.table.segments[morsel.segment].deleted.is_none() && self.columns.iter().all(apart)
    }

    fn stored(&mut self, segment: &Arc<Segment>, morsel: &Morsel) -> Result<StoredRows> {
        let rows = morsel.rows.start as usize..morsel.rows.end as usize;
        self.pin_pages(segment, &rows)?;
        if let Some(next) = self.morsels.front().cloned() {
            let following = self.table.open_segment(next.segment)?;
            if self.ships(&following, &next) {
                self.read_ahead(following, next.rows.start as usize..next.rows.end as usize);
            }
        }
        let columns = self.columns.iter().map(|column| self.column(segment, *column, &rows)).collect();
        Ok(StoredRows::Stored { rows: rows.len(), columns })
    }

    fn column(&self, segment: &Segment, column: usize, rows: &Range<usize>) -> StoredColumn {
        let (group, place) = segment.place(column);
        let piece = |page: usize| {
            let of_page = segment.page_rows(group, page);
            let (start, end) = (rows.start.max(of_page.start), rows.end.min(of_page.end));
            let page = self.pinned[&(group, page)].clone();
            let range = page.chunk_range(place);
            StoredPiece { page, range, skip: start - of_page.start, rows: end - start }
        };
        let run = segment.pages_of(group, rows.clone());
        let shared = segment.shared(column).map(|shared| (segment.shared_key(column), shared.clone()));
        StoredColumn { shared, pieces: (run.first..=run.last).map(piece).collect() }
    }

    /// The pages with some rows of all columns, each once.
    fn places(&self, segment: &Segment, rows: &Range<usize>) -> Vec<Place> {
        let runs = segment.groups_of(&self.columns).into_iter().map(|group| segment.pages_of(group, rows.clone()));
        runs.flat_map(|run| (run.first..=run.last).map(move |page| (run.group, page))).collect()
    }

    /// Pins the pages of some rows and releases others.
    fn pin_pages(&mut self, segment: &Arc<Segment>, rows: &Range<usize>) -> Result<()> {
        let mut before = std::mem::take(&mut self.pinned);
        if std::mem::replace(&mut self.pinned_segment, segment.id) != segment.id {
            before.clear();
        }
        if let Some((of, places, pending)) = self.ahead.take() {
            let read = admit(&of, &self.table, &places, pending.0)?;
            if of.id == segment.id {
                before.extend(places.into_iter().zip(read));
            }
        }
        let mut missing = vec![];
        for place in self.places(segment, rows) {
            let known = before.remove(&place).or_else(|| segment.cached(self.table.cache(), place.0, place.1));
            match known {
                Some(page) => drop(self.pinned.insert(place, page)),
                None => missing.push(place),
            }
        }
        if !missing.is_empty() {
            let pending = segment.start(&missing);
            let read = admit(segment, &self.table, &missing, pending)?;
            self.pinned.extend(missing.into_iter().zip(read));
        }
        Ok(())
    }

    fn read_ahead(&mut self, segment: Arc<Segment>, rows: Range<usize>) {
        let is_missing = |place: &Place| {
            let pinned = self.pinned_segment == segment.id && self.pinned.contains_key(place);
            !pinned && !segment.is_cached(self.table.cache(), place.0, place.1)
        };
        let missing: Vec<Place> = self.places(&segment, &rows).into_iter().filter(is_missing).collect();
        if !missing.is_empty() {
            let pending = PendingPages(segment.start(&missing));
            self.ahead = Some((segment, missing, pending));
        }
    }
}

fn admit(segment: &Segment, table: &Table, places: &[Place], pending: Pending) -> Result<Vec<Arc<CachedPage>>> {
    places.iter().zip(pending.wait()).map(|(place, bytes)| segment.admit(table.cache(), *place, bytes?)).collect()
}
