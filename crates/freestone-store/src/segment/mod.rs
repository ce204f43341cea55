//! Segments: ranges of rows that are written once, immutable and self-describing.

pub(crate) mod bytes;
pub mod footer;
mod index;
mod reader;
mod writer;
pub mod zones;

pub use index::SegmentIndex;
pub use reader::{CachedPage, PageRun, Segment};
pub use writer::{ZONE_ROWS, parallel, write_segment};
