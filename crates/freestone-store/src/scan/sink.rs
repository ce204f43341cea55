//! Rows as they are stored, a granule at a time: what an aggregation reads, with no Arrow arrays in between.

use crate::column::ColumnBuffer;
use crate::error::Result;
use crate::segment::Segment;

/// Takes the rows of a scan in place of batches.
pub trait Sink {
    /// Takes a zone, of which all `rows` rows qualify, from its aggregates; `false` if they do not say enough. Zones may come
    /// before rows that lie before them, which wait for their pages.
    fn take_zone(&mut self, segment: &Segment, zone: usize, rows: usize) -> bool;

    /// Whether it would take such a zone: then its pages need not be read.
    fn would_take(&self, segment: &Segment, zone: usize, rows: usize) -> bool;

    /// Takes rows of the segment that is `ordinal` in the table. The columns are those of the request's projection, decoded as
    /// [`ColumnBuffer::stored`] says.
    fn take_rows(&mut self, ordinal: usize, columns: &[ColumnBuffer], rows: usize) -> Result<()>;
}
