//! The clustering of a segment: the numbering of each dimension, the codes of each zone, and filters on codes.

use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bins::Bins;
use super::zones::{Bounds, Verdict, ZoneMap};
use crate::design::DimensionPath;

/// A dimension by which a segment is clustered.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentDimension {
    /// The description in the footer.
    pub description: DimensionDescription,
    /// The numbering of the values.
    pub bins: Arc<Bins>,
    /// The smallest and largest code of each zone.
    pub zones: ZoneMap,
    /// Identifies the dimension's path, numbering and tables.
    pub fingerprint: u64,
}

/// The description of a dimension in the footer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DimensionDescription {
    /// The path to the attribute.
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
    /// The dimensions in the order of their bits in the key.
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
