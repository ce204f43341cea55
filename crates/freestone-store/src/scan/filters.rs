//! The order of conjuncts: cheap and selective ones first, by what was observed so far.

use std::time::Duration;

/// How a conjunct did so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observed {
    /// Rows of the pages that it was tested on: what its cost is of. A page is tested as a whole, however few of its rows
    /// are still wanted.
    tested: u64,
    rows_in: u64,
    rows_out: u64,
    nanos: u64,
}

impl Observed {
    /// `tested`: rows of the pages visited, of which `rows_in` qualified before and `rows_out` after.
    pub fn record(&mut self, tested: usize, (rows_in, rows_out): (usize, usize), time: Duration) {
        // Old observations fade, so that a change along the table is noticed.
        if self.tested > 1 << 22 {
            self.tested /= 2;
            self.rows_in /= 2;
            self.rows_out /= 2;
            self.nanos /= 2;
        }
        self.tested += tested as u64;
        self.rows_in += rows_in as u64;
        self.rows_out += rows_out as u64;
        self.nanos += time.as_nanos() as u64;
    }

    /// Whether it was tried on many rows and dropped few of them.
    pub fn keeps_most(&self) -> bool {
        self.rows_in > 50_000 && self.rows_out * 10 > self.rows_in * 7
    }

    /// Cost of a row, divided by the share of rows dropped: the order that is optimal for independent conjuncts. What was
    /// never tried comes first.
    fn rank(&self) -> f64 {
        if self.rows_in == 0 {
            return 0.0;
        }
        let dropped = (self.rows_in - self.rows_out) as f64 / self.rows_in as f64;
        let cost = (self.nanos as f64 + 1.0) / self.tested as f64;
        cost / dropped.max(1e-6)
    }
}

/// The order in which to evaluate conjuncts.
pub fn order(observed: &[Observed]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..observed.len()).collect();
    order.sort_by(|a, b| observed[*a].rank().total_cmp(&observed[*b].rank()));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selective_and_cheap_conjuncts_come_first() {
        let mut observed = [Observed::default(); 3];
        observed[0].record(1000, (1000, 900), Duration::from_micros(1));
        observed[1].record(1000, (1000, 10), Duration::from_micros(1));
        observed[2].record(1000, (1000, 10), Duration::from_micros(50));
        assert_eq!(order(&observed), [1, 0, 2]);
        assert_eq!(order(&[observed[0], Observed::default()]), [1, 0]);
    }

    #[test]
    fn what_ran_behind_a_selective_conjunct_is_not_taken_for_dear() {
        let mut observed = [Observed::default(); 2];
        // Texts, of which a tenth is left; then numbers, whose pages are unpacked for that tenth.
        observed[0].record(8192, (8192, 819), Duration::from_micros(160));
        observed[1].record(8192, (819, 0), Duration::from_micros(20));
        assert_eq!(order(&observed), [1, 0]);
    }
}
