//! Bitwise dimensional co-clustering (Götze, Baumann and Sattler 2018, sections II.B and IV, extended over foreign
//! keys): rows are in the order of a key that interleaves the bin numbers of several dimensions. Each dimension is an
//! attribute of the table or of one that its foreign keys lead to.
//!
//! A dimension's values are numbered once, in order, level by level of its hierarchy (`segment/bins`). A row's numbers, its
//! *codes*, are interleaved bit by bit into its key (`key`). A segment's footer
//! (`segment/clustering`) contains the numbering and, per zone,
//! the smallest and largest code of each dimension. A predicate on a dimension becomes ranges of codes, and zones
//! outside of them are not read. `resolve` follows the path to rows of other tables, when rows are written and when
//! they are read.

mod integrity;
mod key;
mod resolve;

pub use integrity::{is_unique, references};
pub use key::{BitOrder, Interleave, KEY_BITS};
pub use resolve::{Clustering, DimensionCodes, Hop, Route, Tables, codes_of_path, key_bits};
pub(crate) use resolve::{is_clustered, value_at};

pub use crate::design::{DimensionPath, keys_of};
pub use crate::segment::bins::{Bins, MAX_DISTINCT, Value};
pub use crate::segment::clustering::{CodeFilter, DimensionDescription, SegmentClustering, SegmentDimension};
pub use crate::table::KeyMap;
