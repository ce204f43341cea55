//! Ranges of a file elsewhere that are fetched at once, and read from memory.

use std::any::Any;
use std::fmt;
use std::io;
use std::ops::Range;

use bytes::Bytes;
use freestone_bucket::{Pending, RemoteFile};

/// Ranges that are closer than this are fetched by one request: a request takes about as long as these bytes.
const GAP_BYTES: u64 = 256 << 10;
/// A request has at most this many bytes, so that several work at once.
const REQUEST_BYTES: u64 = 16 << 20;

/// Parts of a file that are fetched, or on their way.
#[derive(Default)]
pub(crate) struct Fetched {
    /// The end of the file, which came with its metadata.
    tail: Option<(u64, Bytes)>,
    ranges: Vec<(Range<u64>, Pending)>,
    /// The memory of the ranges, which is claimed as long as this lives.
    _claim: Option<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

impl Fetched {
    /// The end of a file from a position on.
    pub fn of_tail(from: u64, bytes: Bytes) -> Fetched {
        Fetched { tail: Some((from, bytes)), ..Fetched::default() }
    }

    /// The ranges that are not in the end of the file.
    pub fn missing(&self, mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        if let Some((from, _)) = &self.tail {
            ranges.retain(|range| range.start < *from);
        }
        ranges
    }

    /// Begins to fetch ranges of a file, whose end is known already. The claim is on their [`requested`] bytes.
    pub fn begin(
        &self,
        file: &RemoteFile,
        ranges: Vec<Range<u64>>,
        claim: Option<Box<dyn Any + Send + Sync>>,
    ) -> Fetched {
        let ranges = requests(ranges).into_iter().map(|range| (range.clone(), file.begin(range))).collect();
        Fetched { tail: self.tail.clone(), ranges, _claim: claim }
    }

    /// The bytes from a position on, as far as they were fetched together; `None` if they were not.
    ///
    /// # Errors
    /// They could not be fetched.
    pub fn from(&self, start: u64) -> io::Result<Option<Bytes>> {
        if let Some((from, bytes)) = &self.tail
            && let Some(at) = start.checked_sub(*from).and_then(|at| usize::try_from(at).ok())
            && at < bytes.len()
        {
            return Ok(Some(bytes.slice(at..)));
        }
        let last = self.ranges.partition_point(|(range, _)| range.start <= start);
        match last.checked_sub(1).map(|at| &self.ranges[at]) {
            Some((range, pending)) if range.contains(&start) => {
                let at = usize::try_from(start - range.start).map_err(io::Error::other)?;
                Ok(Some(pending.wait()?.slice(at..)))
            }
            _ => Ok(None),
        }
    }
}

/// The bytes that requests for some ranges fetch.
pub(crate) fn requested(ranges: &[Range<u64>]) -> u64 {
    requests(ranges.to_vec()).iter().map(|range| range.end - range.start).sum()
}

/// Ranges that are fetched one by one: sorted, without overlaps, close ones together. A range is never split, so that each read
/// within one is of one piece.
fn requests(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = vec![];
    for range in ranges {
        match merged.last_mut() {
            Some(last)
                if range.start < last.end
                    || range.start - last.end <= GAP_BYTES && range.end - last.start <= REQUEST_BYTES =>
            {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_ranges_are_one_request() {
        const MIB: u64 = 1 << 20;
        let check = |ranges: &[(u64, u64)], expected: &[(u64, u64)]| {
            let found = requests(ranges.iter().map(|(start, end)| *start..*end).collect());
            let found: Vec<(u64, u64)> = found.iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected, "{ranges:?}");
        };
        check(&[(10, 20), (0, 5), (5, 5), (18, 30)], &[(0, 30)]);
        check(&[(0, MIB), (2 * MIB, 3 * MIB)], &[(0, MIB), (2 * MIB, 3 * MIB)]);
        check(&[(0, 10 * MIB), (10 * MIB, 20 * MIB)], &[(0, 10 * MIB), (10 * MIB, 20 * MIB)]);
        check(&[(0, 10 * MIB), (9 * MIB, 20 * MIB)], &[(0, 20 * MIB)]);
        assert_eq!(requested(&[0..10, 20..30]), 30);
    }

    #[test]
    fn the_end_of_a_file_is_read_from_memory() {
        let fetched = Fetched::of_tail(100, Bytes::from_static(b"0123"));
        assert_eq!(fetched.from(102).unwrap(), Some(Bytes::from_static(b"23")));
        assert_eq!((fetched.from(99).unwrap(), fetched.from(104).unwrap()), (None, None));
        assert_eq!(fetched.missing(vec![0..10, 90..101, 100..104]), [0..10, 90..101]);
    }
}
