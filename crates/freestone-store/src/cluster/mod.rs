//! Bitwise dimensional co-clustering (paper 004, sections II.B and IV, extended over foreign keys): rows lie in the order of
//! a key that interleaves the bin numbers of several dimensions, each an attribute of the table itself or of one that its
//! foreign keys lead to.
//!
//! A dimension's values are numbered once, in order, level by level of its hierarchy (`bins`). A row's numbers, its *codes*,
//! are joined bit by bit into its key (`key`). The footer of a segment keeps the numbering and, per zone, the least and the
//! greatest code of each dimension; a predicate on a dimension becomes ranges of codes, and zones outside them are not
//! read. Which rows of other tables a path leads to, `resolve` finds out, when rows are written and when they are read.

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

/// A dimension as a segment was clustered by it.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentDimension {
    pub description: DimensionDescription,
    pub bins: Arc<Bins>,
    /// Per zone, the least and the greatest code.
    pub zones: ZoneMap,
    /// Tells apart dimensions of different paths, numberings and tables.
    pub fingerprint: u64,
}

/// What the footer says of a dimension in words.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DimensionDescription {
    pub path: DimensionPath,
    /// The attribute that is numbered: the one of the path, or the finest that refines it.
    pub attribute: String,
    /// The attribute's levels, coarsest first, itself last.
    pub levels: Vec<String>,
    /// The tables on the way, and the last change to rows that each had: id and commit. The codes hold while neither changes.
    pub tables: Vec<(u64, u64)>,
}

impl SegmentDimension {
    pub fn new(description: DimensionDescription, bins: Arc<Bins>, zones: ZoneMap) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        (&description, bins.as_ref()).hash(&mut hasher);
        SegmentDimension { description, bins, zones, fingerprint: hasher.finish() }
    }
}

/// What a segment is clustered by.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SegmentClustering {
    pub dimensions: Vec<SegmentDimension>,
    /// The least and the greatest key of its rows.
    pub keys: Option<(u64, u64)>,
}

/// Codes of one dimension that rows may have: a necessary condition, for zones only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFilter {
    /// Of the [`SegmentDimension`] whose codes they are.
    pub fingerprint: u64,
    /// Ascending, apart from each other.
    pub ranges: Vec<RangeInclusive<u32>>,
}

impl CodeFilter {
    /// The codes given, and those of rows whose place in the dimension is unknown.
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

    /// Whether a zone may hold rows with one of the codes.
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
