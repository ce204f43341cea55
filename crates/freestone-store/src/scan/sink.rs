//! Rows in stored form, one granule at a time: the input of an aggregation, without Arrow arrays.

use crate::column::ColumnBuffer;
use crate::error::Result;
use crate::segment::Segment;

/// Takes the rows of a scan instead of batches.
pub trait Sink {
    /// Takes a zone whose `rows` rows all qualify from its aggregates, or returns `false` if these do not suffice.
    /// Zones may come earlier than preceding rows that wait for their pages.
    fn take_zone(&mut self, segment: &Segment, zone: usize, rows: usize) -> bool;

    /// Whether it would take such a zone, so that its pages need not be read.
    fn would_take(&self, segment: &Segment, zone: usize, rows: usize) -> bool;

    /// Whether it takes all rows of a granule with a selection, where most are selected: decoding them all is then
    /// cheaper than picking those.
    fn takes_unselected(&self) -> bool {
        false
    }

    /// Takes `rows` rows of the segment at position `ordinal` of the table. The columns are the request's projection,
    /// decoded as described at [`ColumnBuffer::stored`], and may be taken out of their buffers. With a selection, which is
    /// only given if [`Sink::takes_unselected`], rows whose bit is not set do not qualify.
    ///
    /// # Errors
    /// The error that ends the scan.
    fn take_rows(
        &mut self,
        ordinal: usize,
        columns: &mut [ColumnBuffer],
        rows: usize,
        selection: Option<&[u64]>,
    ) -> Result<()>;
}
