//! Segments: ranges of rows that are written once, immutable and self-describing.

mod adapted;
pub(crate) mod bins;
mod blocks;
pub(crate) mod bytes;
mod candidates;
pub(crate) mod clustering;
mod distinct;
pub mod footer;
mod hot;
mod hot_keys;
mod index;
mod parts;
mod reader;
mod summary;
mod writer;
pub mod zones;

pub(crate) use blocks::{Blocks, SEGMENT_BLOCKS, SharedBlocks};
pub use candidates::WeighedPlan;
pub use clustering::CodeFilter;
pub(crate) use hot::HotRows;
pub(crate) use hot_keys::{Asked, HotKeys, asked};
pub use index::SegmentIndex;
pub use parts::{PartKind, SegmentPart};
pub use reader::{CachedPage, PageRun, Segment};
pub use summary::{ColumnSummary, GroupSummary, SegmentSummary};
pub use writer::parallel;
pub(crate) use writer::{SegmentFile, each_taken, write_segment};
