//! Moments: the number of values of each group, their mean, and the sum of their squared deviations from it, of which variances are
//! made. Those of parts are merged as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
//! variances", 1979, equation 2.1.

use arrow_buffer::NullBuffer;

use crate::accumulators::{Accumulator, Finish, PARTIAL_GROUPS, add_each};
use crate::error::Result;
use crate::vector::{Values, Vector};

/// The moments of floats.
pub struct Moments {
    groups: Vec<Part>,
    /// Those of a batch.
    batch: Vec<Part>,
    finish: Finish,
}

/// The moments of some values.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    count: i64,
    mean: f64,
    squares: f64,
}

/// Batches of fewer rows per group are added row by row.
const ROWS_PER_GROUP: usize = 32;

impl Part {
    fn add(&mut self, other: Part) {
        if self.count == 0 || other.count == 0 {
            *self = if self.count == 0 { other } else { *self };
            return;
        }
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        let distance = other.mean - self.mean;
        // From an infinite value there is no distance: that of finite ones may exceed the range.
        let are_finite = self.mean.is_finite() && other.mean.is_finite();
        let between = if are_finite { distance * distance * (self.count as f64 * share) } else { f64::NAN };
        self.mean += distance * share;
        self.squares += other.squares + between;
        self.count = count;
    }
}

impl Moments {
    /// The moments of values that may be NULL. `finish` makes the results from the numbers, the means and the sums of squares.
    pub fn new(finish: Finish) -> Moments {
        Moments { groups: vec![], batch: vec![], finish }
    }

    /// Adds rows in two passes without a division per row. `false`: a sum is not finite, and nothing was added.
    fn add_batch(&mut self, values: &[f64], valid: Option<&NullBuffer>, groups: &[u32]) -> bool {
        let Moments { groups: all, batch, .. } = self;
        batch.clear();
        batch.resize(all.len(), Part::default());
        add_each(batch, values, valid, groups, |part, value| {
            part.count += 1;
            part.mean += value;
        });
        batch.iter_mut().filter(|part| part.count > 0).for_each(|part| part.mean /= part.count as f64);
        if !batch.iter().all(|part| part.mean.is_finite()) {
            return false;
        }
        add_each(batch, values, valid, groups, |part, value| part.squares += (value - part.mean) * (value - part.mean));
        all.iter_mut().zip(batch).for_each(|(all, part)| all.add(*part));
        true
    }
}

impl Accumulator for Moments {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.groups.resize(total, Part::default());
        let (values, valid) = (inputs[0].as_floats(), inputs[0].valid.as_ref());
        let has_few_groups = total <= PARTIAL_GROUPS && groups.len() >= total * ROWS_PER_GROUP;
        if !has_few_groups || !self.add_batch(values, valid, groups) {
            add_each(&mut self.groups, values, valid, groups, |part, value| {
                part.add(Part { count: 1, mean: value, squares: 0.0 });
            });
        }
        Ok(())
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        self.groups.resize(total, Part::default());
        let parts = std::mem::take(&mut self.groups);
        let floats = |of: fn(&Part) -> f64| Vector::new(Values::Float(parts.iter().map(of).collect()));
        let counts = Vector::ints(parts.iter().map(|part| part.count).collect());
        Ok(vec![counts, floats(|part| part.mean), floats(|part| part.squares)])
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.groups.resize(total, Part::default());
        let (counts, means, squares) = (states[0].as_ints(), states[1].as_floats(), states[2].as_floats());
        for (row, group) in groups.iter().enumerate() {
            self.groups[*group as usize].add(Part { count: counts[row], mean: means[row], squares: squares[row] });
        }
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        let states = self.states(rows.len())?;
        Ok(vec![(self.finish)(&states, rows.len())?])
    }

    fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Part>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The moments of each group of batches, which are merged.
    fn of_batches(batches: &[(Vec<Option<f64>>, Vec<u32>)], total: usize) -> Vec<Part> {
        let finish = || -> Finish { Arc::new(|states, _| Ok(states[0].clone())) };
        let mut merged = Moments::new(finish());
        for (values, groups) in batches {
            let valid: Vec<bool> = values.iter().map(Option::is_some).collect();
            let values: Vec<f64> = values.iter().map(|value| value.unwrap_or(77.0)).collect();
            let mut one = Moments::new(finish());
            let input = Vector::with_nulls(Values::Float(values.into()), Some(valid.into()));
            one.update(&[input], groups, total).expect("added");
            let states = one.states(total).expect("states");
            merged.merge(&states, &(0..total as u32).collect::<Vec<_>>(), total).expect("merged");
        }
        merged.groups
    }

    fn expected(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, values.iter().map(|value| (value - mean) * (value - mean)).sum())
    }

    #[test]
    fn moments_are_those_of_two_passes() {
        for (rows, total) in [(0usize, 2usize), (1, 1), (40, 1), (1000, 3), (1000, 900), (2048, 700)] {
            let value = |row: usize| 1e6 + (row * 7919 % 1009) as f64 / 8.0;
            let batch = |from: usize| {
                let values = (from..from + rows).map(|row| (row % 11 > 0).then(|| value(row))).collect();
                (values, (from..from + rows).map(|row| (row % total) as u32).collect())
            };
            let found = of_batches(&[batch(0), batch(rows)], total);
            for (group, part) in found.iter().enumerate() {
                let of_group = |row: &usize| row % total == group && !row.is_multiple_of(11);
                let values: Vec<f64> = (0..2 * rows).filter(of_group).map(value).collect();
                assert_eq!(part.count, values.len() as i64);
                if part.count > 0 {
                    let (mean, squares) = expected(&values);
                    assert!((part.mean - mean).abs() <= 1e-9 * mean, "{part:?} and {mean}");
                    assert!((part.squares - squares).abs() <= 1e-6 * squares.max(1.0), "{part:?} and {squares}");
                }
            }
        }
    }

    #[test]
    fn infinite_sums_are_those_of_single_rows() {
        for one in [f64::INFINITY, f64::NAN, f64::MAX] {
            let values: Vec<Option<f64>> = (0..100).map(|row| (row % 2 == 0 || row == 1).then_some(one)).collect();
            let groups: Vec<u32> = (0..100).map(|row| row % 2).collect();
            let found = of_batches(&[(values, groups)], 2);
            let mut expected = Part::default();
            (0..50).for_each(|_| expected.add(Part { count: 1, mean: one, squares: 0.0 }));
            let bits = |part: &Part| (part.count, part.mean.is_nan(), part.squares.is_nan(), part.mean.max(0.0));
            assert_eq!(bits(&found[0]), bits(&expected));
            assert_eq!((found[1].count, found[1].squares), (1, 0.0));
        }
        let found = of_batches(&[(vec![Some(1.0), Some(f64::INFINITY), Some(2.0)], vec![0; 3])], 1);
        assert!(found[0].count == 3 && found[0].squares.is_nan());
    }
}
