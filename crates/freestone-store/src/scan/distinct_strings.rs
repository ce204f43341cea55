//! The distinct strings of a segment's column, if they are few: from its dictionary, from its zones, or by reading it
//! once.

use std::sync::Arc;

use hashbrown::HashSet;

use super::{Cursor, ScanMetrics, ScanRequest, Sink, morsels};
use crate::column::{ColumnBuffer, Decoded};
use crate::error::Result;
use crate::limits::MORSEL_ROWS;
use crate::segment::Segment;
use crate::segment::zones::Bounds;
use crate::table::Table;

/// If there are more distinct strings than this, the search stops.
const FEW: usize = 4096;

/// All strings of a column in the segment at a position of the table, including those of deleted rows. `None` if they
/// are many.
///
/// # Errors
/// A page cannot be read or is damaged.
pub fn few_distinct_strings(table: &Arc<Table>, at: usize, column: usize) -> Result<Option<Arc<Vec<Vec<u8>>>>> {
    let segment = table.open_segment(at)?;
    segment.texts(column, || {
        if let Some(known) = of_dictionary(&segment, column).or_else(|| of_zones(&segment, column)) {
            return Ok(Some(known));
        }
        if segment.footer.description.columns[column].distinct > FEW as u64 {
            return Ok(None);
        }
        read(table, at, column)
    })
}

fn of_dictionary(segment: &Segment, column: usize) -> Option<Vec<Vec<u8>>> {
    let shared = segment.dictionary(column)?;
    let entries = shared.dictionary_bytes()?;
    Some((0..shared.dictionary_len()).map(|code| entries.get(code).to_vec()).collect())
}

/// The strings of zones that have one distinct string each.
fn of_zones(segment: &Segment, column: usize) -> Option<Vec<Vec<u8>>> {
    let Bounds::Bytes(bounds) = &segment.footer.zones[column].bounds else { return None };
    let mut texts: Vec<Vec<u8>> = bounds.iter().flatten().map(|b| b.only().cloned()).collect::<Option<_>>()?;
    texts.sort_unstable();
    texts.dedup();
    Some(texts)
}

fn read(table: &Arc<Table>, at: usize, column: usize) -> Result<Option<Vec<Vec<u8>>>> {
    // An older snapshot may see rows that this one does not.
    let mut whole = Table::clone(table);
    whole.segments[at].deleted = None;
    let request = Arc::new(ScanRequest::columns(vec![column]));
    let morsels = morsels(&whole, MORSEL_ROWS);
    let mut cursor = Cursor::new(Arc::new(whole), request, Arc::new(ScanMetrics::default()));
    let mut texts = DistinctStrings::default();
    for morsel in morsels.iter().filter(|morsel| morsel.segment == at) {
        // Reading stops soon after there are too many.
        if texts.found.len() > FEW {
            break;
        }
        cursor.scan_into(morsel, None, &mut texts)?;
    }
    Ok((texts.found.len() <= FEW).then(|| texts.found.into_iter().collect()))
}

/// Collects distinct strings, up to a maximum.
#[derive(Default)]
struct DistinctStrings {
    found: HashSet<Vec<u8>>,
}

impl Sink for DistinctStrings {
    fn take_zone(&mut self, segment: &Segment, zone: usize, rows: usize) -> bool {
        self.would_take(segment, zone, rows)
    }

    fn would_take(&self, _: &Segment, _: usize, _: usize) -> bool {
        self.found.len() > FEW
    }

    fn take_rows(&mut self, _: usize, columns: &mut [ColumnBuffer], rows: usize, _: Option<&[u64]>) -> Result<()> {
        let [ColumnBuffer { decoded: Decoded::Views(views), .. }] = columns else { return Ok(()) };
        // Adjacent strings are often equal, and a short string is equal to its view.
        let (mut last, mut short) = (None, HashSet::new());
        for row in 0..rows {
            let view = views.views[row];
            if last == Some(view) || (view as u32 <= 12 && !short.insert(view)) {
                continue;
            }
            last = Some(view);
            views.read(row, |text| {
                if !self.found.contains(text) {
                    self.found.insert(text.to_vec());
                }
            });
        }
        Ok(())
    }
}
