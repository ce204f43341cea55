//! Bitwise dimensional co-clustering (Götze, Baumann and Sattler 2018, sections II.B and IV, extended over foreign
//! keys): rows are in the order of a key that interleaves the bin numbers of several dimensions. Each dimension is an
//! attribute of the table or of one that its foreign keys lead to.
//!
//! A dimension's values are numbered once, in order, level by level of its hierarchy (`bins`). A row's numbers, its
//! *codes*, are interleaved bit by bit into its key (`key`). A segment's footer contains the numbering and, per zone,
//! the smallest and largest code of each dimension. A predicate on a dimension becomes ranges of codes, and zones
//! outside of them are not read. `resolve` follows the path to rows of other tables, when rows are written and when
//! they are read.

mod bins;
mod integrity;
mod key;
mod path;
mod resolve;

pub use bins::{Bins, MAX_DISTINCT, Value};
pub use integrity::{is_unique, references};
pub use key::{Interleave, KEY_BITS};
pub use path::{DimensionPath, keys_of};
pub(crate) use resolve::is_clustered;
pub use resolve::{Clustering, DimensionCodes, Hop, KeyMap, Route, Tables, codes_of_path, key_bits};

use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::segment::zones::{Bounds, Verdict, ZoneMap};

/// A dimension by which a segment is clustered.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentDimension {
    pub description: DimensionDescription,
    pub bins: Arc<Bins>,
    /// The smallest and largest code of each zone.
    pub zones: ZoneMap,
    /// Identifies the dimension's path, numbering and tables.
    pub fingerprint: u64,
}

/// The description of a dimension in the footer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DimensionDescription {
    pub path: DimensionPath,
    /// The numbered attribute: the one of the path, or the finest column that refines it.
    pub attribute: String,
    /// The attribute's levels, coarsest first; the attribute is the last.
    pub levels: Vec<String>,
    /// The tables on the path, by id, and the last commit that changed rows of each. The codes are valid until one
    /// changes.
    pub tables: Vec<(u64, u64)>,
}

impl SegmentDimension {
    /// A dimension with its fingerprint.
    pub fn new(description: DimensionDescription, bins: Arc<Bins>, zones: ZoneMap) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        (&description, bins.as_ref()).hash(&mut hasher);
        SegmentDimension { description, bins, zones, fingerprint: hasher.finish() }
    }
}

/// The clustering of a segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SegmentClustering {
    pub dimensions: Vec<SegmentDimension>,
    /// The smallest and largest key of its rows.
    pub keys: Option<(u64, u64)>,
}

/// Codes of one dimension that qualifying rows may have: a necessary condition, used for zones only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFilter {
    /// The fingerprint of the [`SegmentDimension`] to which the codes belong.
    pub fingerprint: u64,
    /// Ascending and disjoint.
    pub ranges: Vec<RangeInclusive<u32>>,
}

impl CodeFilter {
    /// The given codes, and the code of rows without a value in the dimension.
    pub fn new(dimension: &SegmentDimension, codes: impl IntoIterator<Item = u32>) -> Self {
        let mut codes: Vec<u32> = codes.into_iter().chain([dimension.bins.null_code()]).collect();
        codes.sort_unstable();
        let mut ranges: Vec<RangeInclusive<u32>> = vec![];
        for code in codes {
            match ranges.last_mut() {
                Some(last) if code <= *last.end() + 1 => *last = *last.start()..=code,
                _ => ranges.push(code..=code),
            }
        }
        CodeFilter { fingerprint: dimension.fingerprint, ranges }
    }

    /// Whether a zone may contain rows with one of the codes.
    pub fn verdict(&self, dimension: &SegmentDimension, zone: usize) -> Verdict {
        let Bounds::Int(bounds) = &dimension.zones.bounds else { return Verdict::Some };
        let Some(bounds) = bounds.get(zone).and_then(Option::as_ref) else { return Verdict::Some };
        let at = self.ranges.partition_point(|r| i128::from(*r.end()) < bounds.min);
        match self.ranges.get(at) {
            Some(range) if i128::from(*range.start()) <= bounds.max => Verdict::Some,
            _ => Verdict::None,
        }
    }
}
