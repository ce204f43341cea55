//! The slowdown of a scan's thread by other scanning threads, which may share a core, its caches, and the memory.

use super::slowdown::Reference;
use super::timing::Timing;
use crate::error::Result;
use crate::profile::{Curve, Measured};

/// By number of threads: the time of each, divided by the time of a single one just before, because the machine's speed
/// varies.
pub fn measure(threads: usize, timing: &Timing) -> Result<Curve> {
    let rounds = if timing.is_quick() { 3 } else { 50 };
    let reference = Reference::new()?;
    let mut points = vec![(1.0, Measured::exact(1.0))];
    for count in counts(threads) {
        let mut ratios = vec![];
        for round in 0..=rounds {
            let alone = reference.ns(1)?;
            let ratio = (reference.ns(count)? / alone).max(1.0);
            // The first one does not count, because the memory of its batches is new.
            ratios.extend((round > 0).then_some(ratio));
        }
        points.push((count as f64, Measured::of(&ratios)));
    }
    Ok(Curve::new(points))
}

/// 2, 4, 8 and so on, and the number of threads. Between them the curve is nearly linear.
fn counts(threads: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(2), |count| Some(count * 2)).take_while(|count| *count < threads);
    doubled.chain((threads > 1).then_some(threads)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_double_up_to_all_threads() {
        assert!(counts(1).is_empty());
        assert_eq!(counts(2), [2]);
        assert_eq!(counts(6), [2, 4, 6]);
        assert_eq!(counts(8), [2, 4, 8]);
    }
}
