//! About how many distinct values a column of a segment has, from those of the sample that was taken when it was written.

use freestone_codec::Transform;

use super::footer::Footer;

/// The number of rows from which codecs estimate the number of distinct values of a segment.
const SAMPLE_ROWS: u64 = 40_960;
/// The pieces of adjacent rows that it has.
const SAMPLE_PIECES: f64 = 5.0;
/// The rows of a column are clustered by its values if a value is in no more zones than these, on average.
const CLUSTERED_OVERLAP: f64 = 2.0;

impl Footer {
    /// About how many distinct values a column has in all rows.
    pub fn distinct(&self, column: usize) -> u64 {
        let (described, zones) = (&self.description.columns[column], &self.zones[column]);
        if described.plan().is_ok_and(|plan| plan.transform == Transform::Dictionary) {
            return described.distinct;
        }
        let is_clustered = zones.overlap().is_some_and(|overlap| overlap <= CLUSTERED_OVERLAP);
        of_sample(described.distinct, self.description.rows.into(), zones.range().filter(|_| is_clustered))
    }
}

/// The number of distinct values among `rows` rows, of which a sample had `counted`. If D values are equally frequent,
/// a sample of n rows is expected to have D · (1 − exp(−n / D)) of them. The sample has a few pieces of adjacent rows, so where
/// equal values are adjacent, in a column with the range `clustered`, other pieces have other values, but for the last of each.
fn of_sample(counted: u64, rows: u64, clustered: Option<(i128, i128)>) -> u64 {
    let (sample, seen) = (SAMPLE_ROWS as f64, counted as f64);
    if let Some((low, high)) = clustered.filter(|_| rows > SAMPLE_ROWS) {
        let others = (seen - SAMPLE_PIECES).max(0.0) * (rows as f64 / sample);
        return (others + 1.0).max(seen).min(high.saturating_sub(low) as f64 + 1.0) as u64;
    }
    // The sample has all rows, or nearly all values.
    if rows <= SAMPLE_ROWS || seen < 0.7 * sample || seen > sample {
        return counted.min(rows);
    }
    let (mut low, mut high) = (seen, rows as f64);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if middle * (1.0 - (-sample / middle).exp()) < seen { low = middle } else { high = middle }
    }
    high as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_behind_a_sample_are_guessed() {
        // Unique, from a million, few, all seen, and more than the sample has.
        assert_eq!(of_sample(40_960, 1_000_000, None), 1_000_000);
        assert!((900_000..1_050_000).contains(&of_sample(40_140, 4_000_000, None)));
        assert_eq!(of_sample(25, 1_000_000, None), 25);
        assert_eq!(of_sample(30_000, 30_000, None), 30_000);
        assert_eq!(of_sample(54_000, 1_000_000, None), 54_000);
        // Four rows per value, one after the other.
        assert_eq!(of_sample(10_245, 800_000, Some((1, 300_000))), 200_001);
        assert_eq!(of_sample(5, 800_000, Some((1, 1 << 40))), 5);
        assert_eq!(of_sample(10_240, 800_000, Some((1, 150_000))), 150_000);
        assert_eq!(of_sample(7_500, 30_000, Some((1, 7_500))), 7_500);
    }
}
