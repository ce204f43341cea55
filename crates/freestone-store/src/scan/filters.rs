//! The order of conjuncts: cheap and selective ones first, from observations of the scan so far.

use std::time::Duration;

use freestone_codec::Predicate;

use crate::bitmap;

/// The words of a selection that kernels process together, and skip if no row of them is selected.
const VECTOR_WORDS: usize = 1024 / u64::BITS as usize;

/// The selected rows of a granule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectedRows {
    pub rows: usize,
    /// Vectors with at least one selected row.
    pub vectors: usize,
}

impl SelectedRows {
    /// Counts the selected rows and vectors.
    pub fn of(selection: &[u64]) -> SelectedRows {
        let vectors = selection.chunks(VECTOR_WORDS).filter(|words| words.iter().any(|word| *word != 0));
        SelectedRows { rows: bitmap::count(selection), vectors: vectors.count() }
    }
}

/// The assumed nanoseconds per row of a test on numbers, and on strings, before the first observation.
const NUMBERS_NS: f64 = 0.3;
const TEXTS_NS: f64 = 3.0;

/// The observations of a conjunct.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observed {
    is_text: bool,
    /// The rows of the tested pages, to which the cost refers. A page is tested as a whole, however few of its rows are
    /// selected.
    tested: u64,
    rows_in: u64,
    rows_out: u64,
    vectors_in: u64,
    vectors_out: u64,
    nanos: u64,
}

impl Observed {
    /// The observations of a conjunct that was not tested yet.
    pub fn new(predicate: &Predicate) -> Observed {
        Observed { is_text: matches!(predicate, Predicate::Bytes(_)), ..Observed::default() }
    }

    /// Adds an observation. `tested`: the rows of the visited pages; `before` and `after`: their selected rows.
    pub fn record(&mut self, tested: usize, before: SelectedRows, after: SelectedRows, time: Duration) {
        // Old observations lose weight, so that changes along the table are noticed.
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
        // If few rows of the vectors are left, any conjunct empties vectors.
        if 2 * before.rows >= before.vectors * VECTOR_WORDS * u64::BITS as usize {
            self.vectors_in += before.vectors as u64;
            self.vectors_out += after.vectors as u64;
        }
        self.nanos += time.as_nanos() as u64;
    }

    /// Whether it was tested on many rows and rejected few of them.
    pub fn keeps_most(&self) -> bool {
        self.rows_in > 50_000 && self.rows_out * 10 > self.rows_in * 7
    }

    /// The cost per row divided by the share of rejected rows: the optimal order for independent conjuncts. Later work
    /// is assumed to be proportional to rows for one half, and to vectors with a selected row for the other half,
    /// because most tests get cheaper only when a vector is empty. A conjunct without observations is assumed to reject
    /// every row at a default cost: so cheap ones are tried soon, and expensive ones last.
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

    fn left(rows: usize, vectors: usize) -> SelectedRows {
        SelectedRows { rows, vectors }
    }

    #[test]
    fn selective_and_cheap_conjuncts_come_first() {
        let mut observed = [Observed::default(); 3];
        observed[0].record(1000, left(1000, 1), left(900, 1), Duration::from_micros(1));
        observed[1].record(1000, left(1000, 1), left(10, 1), Duration::from_micros(1));
        observed[2].record(1000, left(1000, 1), left(10, 1), Duration::from_micros(50));
        assert_eq!(order(&observed), [1, 0, 2]);
        // Numbers are tried before conjuncts with a higher cost per rejected row, and strings before those with a much
        // higher cost.
        let (number, text) = (Observed::default(), Observed { is_text: true, ..Observed::default() });
        assert_eq!(order(&[observed[0], text, number]), [2, 1, 0]);
        assert_eq!(order(&[observed[1], text, number]), [2, 0, 1]);
    }

    #[test]
    fn what_ran_behind_a_selective_conjunct_is_not_taken_for_dear() {
        let mut observed = [Observed::default(); 2];
        // Strings first, of which a tenth qualifies. Then numbers, whose pages are unpacked for that tenth.
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
        assert_eq!(SelectedRows::of(&words), left(2, 1));
    }
}
