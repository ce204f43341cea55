//! The order of conjuncts: cheap and selective ones first, by what was observed so far.

use std::time::Duration;

/// How a conjunct did so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observed {
    rows_in: u64,
    rows_out: u64,
    nanos: u64,
}

impl Observed {
    pub fn record(&mut self, rows_in: usize, rows_out: usize, time: Duration) {
        // Old observations fade, so that a change along the table is noticed.
        if self.rows_in > 1 << 22 {
            self.rows_in /= 2;
            self.rows_out /= 2;
            self.nanos /= 2;
        }
        self.rows_in += rows_in as u64;
        self.rows_out += rows_out as u64;
        self.nanos += time.as_nanos() as u64;
    }

    /// Whether it was tried on many rows and dropped few of them.
    pub fn keeps_most(&self) -> bool {
        self.rows_in > 50_000 && self.rows_out * 10 > self.rows_in * 7
    }

    /// Cost per row dropped: the order that is optimal for independent conjuncts. What was never tried comes first.
    fn rank(&self) -> f64 {
        if self.rows_in == 0 {
            return 0.0;
        }
        let dropped = (self.rows_in - self.rows_out) as f64 / self.rows_in as f64;
        let cost = (self.nanos as f64 + 1.0) / self.rows_in as f64;
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
        observed[0].record(1000, 900, Duration::from_micros(1));
        observed[1].record(1000, 10, Duration::from_micros(1));
        observed[2].record(1000, 10, Duration::from_micros(50));
        assert_eq!(order(&observed), [1, 0, 2]);
        assert_eq!(order(&[observed[0], Observed::default()]), [1, 0]);
    }
}
