//! What the zones of a stored table say about its columns in the current order. For columns in order, or nearly so,
//! they are more exact than a sample of blocks, which has gaps of values between blocks.

use std::sync::{Arc, OnceLock};

use freestone_codec::{IntPredicate, Predicate};
use freestone_store::Table;
use freestone_store::segment::Segment;
use freestone_store::segment::zones::{Bounds, BytesBounds, Verdict};

use crate::error::Result;

/// The maximum number of zones, spread evenly over the table.
const ZONES: usize = 2048;
/// The number of these that are compared with all others.
const COMPARED: usize = 128;
/// The zones of a column in order span less of its values than this.
const IN_ORDER: f64 = 0.5;

/// Some zones of a table.
#[derive(Debug)]
pub struct Zones {
    segments: Vec<Arc<Segment>>,
    /// The segment, the position in it, and the number of rows.
    places: Vec<(usize, usize, usize)>,
    /// The possible difference between a share that was counted on these zones and that of all zones.
    slack: f64,
    spans: Vec<OnceLock<f64>>,
}

/// The minimum and maximum of a zone. For strings, the first bytes as a number.
type Range = Option<(f64, f64)>;

impl Zones {
    /// Reads the zones of a table.
    ///
    /// # Errors
    /// A footer cannot be read.
    pub fn of(table: &Arc<Table>) -> Result<Zones> {
        let segments = (0..table.segments.len()).map(|at| table.open_segment(at)).collect::<Result<Vec<_>, _>>()?;
        let mut places = vec![];
        for (at, segment) in segments.iter().enumerate() {
            let (rows, zone_rows) = (segment.rows(), segment.zone_rows());
            places.extend((0..rows.div_ceil(zone_rows)).map(|z| (at, z, zone_rows.min(rows - z * zone_rows))));
        }
        let count = places.len().min(ZONES);
        let slack = if count < places.len() { 1.0 / count as f64 } else { 0.0 };
        let places = (0..count).map(|at| places[at * places.len() / count]).collect();
        let spans = table.schema.columns.iter().map(|_| OnceLock::new()).collect();
        Ok(Zones { segments, places, slack, spans })
    }

    fn ranges(&self, column: usize) -> Vec<Range> {
        let range =
            |(segment, zone, _): &(usize, usize, usize)| match &self.segments[*segment].footer.zones[column].bounds {
                Bounds::Int(bounds) => bounds[*zone].map(|b| (b.min as f64, b.max as f64)),
                Bounds::Bytes(bounds) => bounds[*zone].as_ref().map(text_range),
            };
        self.places.iter().map(range).collect()
    }

    /// The mean share of rows whose values are between the minimum and maximum of a zone.
    pub fn span(&self, column: usize) -> f64 {
        *self.spans[column].get_or_init(|| {
            let ranges = self.ranges(column);
            let step = ranges.len().div_ceil(COMPARED).max(1);
            let spans = ranges.iter().step_by(step).map(|zone| {
                let shares = ranges.iter().map(|other| part(*other, *zone));
                shares.sum::<f64>() / ranges.len() as f64
            });
            let spans: Vec<f64> = spans.collect();
            spans.iter().sum::<f64>() / spans.len().max(1) as f64
        })
    }

    /// The share of rows that satisfy a predicate: `sampled` as far as zones do not decide; and for a column in order,
    /// the parts of its zones that a range covers.
    pub fn selectivity(&self, column: usize, predicate: &Predicate, sampled: f64) -> f64 {
        let all: usize = self.places.iter().map(|(.., rows)| rows).sum();
        let (mut surely, mut perhaps) = (0, 0);
        for (segment, zone, rows) in &self.places {
            match self.segments[*segment].footer.zones[column].verdict(*zone, *rows, predicate) {
                Verdict::None => {}
                Verdict::Some => perhaps += rows,
                Verdict::All => surely += rows,
            }
        }
        let share = |rows: usize| rows as f64 / all.max(1) as f64;
        let (least, most) = (share(surely) - self.slack, share(surely + perhaps) + self.slack);
        let range = match predicate {
            Predicate::Int(IntPredicate::Range { low, high }) if low < high => Some((*low as f64, *high as f64)),
            _ => None,
        };
        let range = range.filter(|_| self.span(column) < IN_ORDER);
        let found = range.map_or(sampled, |range| self.covered(column, range));
        found.clamp(least, most).clamp(0.5 / all.max(1) as f64, 1.0)
    }

    /// The share of rows in a range, if the values of a zone are distributed evenly.
    fn covered(&self, column: usize, range: (f64, f64)) -> f64 {
        let parts = self.ranges(column).into_iter().zip(&self.places).map(|(zone, (segment, at, rows))| {
            let nulls = self.segments[*segment].footer.zones[column].nulls[*at] as usize;
            part(zone, Some(range)) * rows.saturating_sub(nulls) as f64
        });
        parts.sum::<f64>() / self.places.iter().map(|(.., rows)| *rows as f64).sum::<f64>().max(1.0)
    }
}

/// The part of `zone` that is in `other`.
fn part(zone: Range, other: Range) -> f64 {
    let (Some((low, high)), Some((from, to))) = (zone, other) else { return 0.0 };
    if high <= low {
        return f64::from(u8::from(from <= low && low <= to));
    }
    ((high.min(to) - low.max(from)) / (high - low)).clamp(0.0, 1.0)
}

fn text_range(bounds: &BytesBounds) -> (f64, f64) {
    let number = |bytes: &[u8], fill: u8| {
        let mut first = [fill; 16];
        let len = bytes.len().min(16);
        first[..len].copy_from_slice(&bytes[..len]);
        u128::from_be_bytes(first) as f64
    };
    (number(&bounds.min, 0), bounds.max.as_ref().map_or(u128::MAX as f64, |max| number(max, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_zones() {
        let check = |zone: (f64, f64), other: (f64, f64), expected: f64| {
            assert_eq!(part(Some(zone), Some(other)), expected, "{zone:?} in {other:?}");
        };
        check((0.0, 10.0), (0.0, 10.0), 1.0);
        check((0.0, 10.0), (5.0, 20.0), 0.5);
        check((0.0, 10.0), (11.0, 20.0), 0.0);
        check((3.0, 3.0), (3.0, 4.0), 1.0);
        check((3.0, 3.0), (4.0, 4.0), 0.0);
        assert_eq!(part(None, Some((0.0, 1.0))), 0.0);
    }
}
