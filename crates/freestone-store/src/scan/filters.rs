//! The order of conjuncts: cheap and selective ones first, by what was observed so far.

use std::time::Duration;

use freestone_codec::Predicate;

use crate::bitmap;

/// Words of a selection that kernels go through together, and pass by where no row of them is wanted.
const VECTOR_WORDS: usize = 1024 / u64::BITS as usize;

/// What of some rows is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    pub rows: usize,
    /// Vectors with at least one of the rows.
    pub vectors: usize,
}

impl Left {
    pub fn of(selection: &[u64]) -> Left {
        let vectors = selection.chunks(VECTOR_WORDS).filter(|words| words.iter().any(|word| *word != 0));
        Left { rows: bitmap::count(selection), vectors: vectors.count() }
    }
}

/// Nanoseconds that a row of numbers, and of texts, is taken to cost where nothing was tried.
const NUMBERS_NS: f64 = 0.3;
const TEXTS_NS: f64 = 3.0;

/// How a conjunct did so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observed {
    is_text: bool,
    /// Rows of the pages that it was tested on: what its cost is of. A page is tested as a whole, however few of its rows
    /// are still wanted.
    tested: u64,
    rows_in: u64,
    rows_out: u64,
    vectors_in: u64,
    vectors_out: u64,
    nanos: u64,
}

impl Observed {
    /// Of a conjunct that was not tried yet.
    pub fn new(predicate: &Predicate) -> Observed {
        Observed { is_text: matches!(predicate, Predicate::Bytes(_)), ..Observed::default() }
    }

    /// `tested`: rows of the pages visited, and what of them qualified before and after.
    pub fn record(&mut self, tested: usize, before: Left, after: Left, time: Duration) {
        // Old observations fade, so that a change along the table is noticed.
        if self.tested > 1 << 22 {
            self.tested /= 2;
            self.rows_in /= 2;
            self.rows_out /= 2;
            self.vectors_in /= 2;
            self.vectors_out /= 2;
            self.nanos /= 2;
        }
        self.tested += tested as u64;
        self.rows_in += before.rows as u64;
        self.rows_out += after.rows as u64;
        // Where few rows are left of vectors, any conjunct empties them.
        if 2 * before.rows >= before.vectors * VECTOR_WORDS * u64::BITS as usize {
            self.vectors_in += before.vectors as u64;
            self.vectors_out += after.vectors as u64;
        }
        self.nanos += time.as_nanos() as u64;
    }

    /// Whether it was tried on many rows and dropped few of them.
    pub fn keeps_most(&self) -> bool {
        self.rows_in > 50_000 && self.rows_out * 10 > self.rows_in * 7
    }

    /// Cost of a row, divided by the share of what is dropped: the order that is optimal for independent conjuncts. Half of
    /// what comes after is taken to cost by rows, half by vectors that have a row left: most tests do not get cheaper before
    /// a vector is empty. What was never tried is taken to drop everything, at a usual cost: what is cheap is tried soon,
    /// what is dear behind the rest.
    fn rank(&self) -> f64 {
        if self.rows_in == 0 {
            return if self.is_text { TEXTS_NS } else { NUMBERS_NS };
        }
        let dropped = |before: u64, after: u64| (before - after) as f64 / before as f64;
        let rows = dropped(self.rows_in, self.rows_out);
        let vectors = if self.vectors_in > 0 { dropped(self.vectors_in, self.vectors_out) } else { rows };
        let dropped = (rows + vectors) / 2.0;
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

    fn left(rows: usize, vectors: usize) -> Left {
        Left { rows, vectors }
    }

    #[test]
    fn selective_and_cheap_conjuncts_come_first() {
        let mut observed = [Observed::default(); 3];
        observed[0].record(1000, left(1000, 1), left(900, 1), Duration::from_micros(1));
        observed[1].record(1000, left(1000, 1), left(10, 1), Duration::from_micros(1));
        observed[2].record(1000, left(1000, 1), left(10, 1), Duration::from_micros(50));
        assert_eq!(order(&observed), [1, 0, 2]);
        // Numbers are tried before what costs more for each row that it drops, and texts before what costs much more.
        let (number, text) = (Observed::default(), Observed { is_text: true, ..Observed::default() });
        assert_eq!(order(&[observed[0], text, number]), [2, 1, 0]);
        assert_eq!(order(&[observed[1], text, number]), [2, 0, 1]);
    }

    #[test]
    fn what_ran_behind_a_selective_conjunct_is_not_taken_for_dear() {
        let mut observed = [Observed::default(); 2];
        // Texts, of which a tenth is left; then numbers, whose pages are unpacked for that tenth.
        observed[0].record(8192, left(8192, 8), left(819, 8), Duration::from_micros(160));
        observed[1].record(8192, left(819, 8), left(0, 0), Duration::from_micros(20));
        assert_eq!(order(&observed), [1, 0]);
    }

    #[test]
    fn what_empties_vectors_comes_before_what_is_a_little_cheaper() {
        let mut observed = [Observed::default(); 2];
        observed[0].record(8192, left(8192, 8), left(650, 8), Duration::from_micros(8));
        observed[1].record(8192, left(8192, 8), left(1, 1), Duration::from_micros(9));
        assert_eq!(order(&observed), [1, 0]);
        let mut words = vec![0; 32];
        words[20] = 5;
        assert_eq!(Left::of(&words), left(2, 1));
    }
}
