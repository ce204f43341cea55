//! Repeated measurements.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Effort;
use crate::profile::{Measured, Slowdown};

/// The number of attempts of a measurement. The one during which the machine's speed changed least counts.
const ATTEMPTS: usize = 3;

/// After this time measurements take the minimum number of repetitions, so that a calibration ends within a minute on
/// noisy machines, too.
const LATE: Duration = Duration::from_secs(45);

/// Measures the current slowdown of the machine.
pub type SlowdownSource = Arc<dyn Fn() -> Slowdown + Send + Sync>;

/// The number and duration of repetitions.
#[derive(Clone)]
pub struct Timing {
    pub effort: Effort,
    /// The start of the calibration.
    pub begin: Instant,
    /// The minimum and maximum number of repetitions of a measurement.
    pub least: usize,
    pub most: usize,
    /// The time after which no further repetition begins.
    pub budget: Duration,
    /// The source of slowdowns by which times are divided, to get the times that the machine would usually have.
    pub slowdown: Option<SlowdownSource>,
    /// Whether the measured work waits for memory. Then the processor's slowdown counts less.
    pub beyond_caches: bool,
}

impl Timing {
    pub fn new(effort: Effort) -> Timing {
        let (least, most, budget) = match effort {
            Effort::Quick => (2, 3, Duration::from_micros(300)),
            Effort::Normal => (7, 25, Duration::from_millis(25)),
        };
        Timing { effort, begin: Instant::now(), least, most, budget, slowdown: None, beyond_caches: false }
    }

    /// Whether the calibration has little time left.
    pub fn is_late(&self) -> bool {
        self.begin.elapsed() > LATE
    }

    /// The same with times divided by the machine's slowdown, and in passes, each of which may be short. Quick
    /// measurements are unchanged, because measuring the slowdown would take longer than they do.
    pub fn relative_to(&self, slowdown: SlowdownSource) -> Timing {
        if self.is_quick() {
            return self.clone();
        }
        Timing { least: 3, most: 15, budget: Duration::from_millis(8), slowdown: Some(slowdown), ..self.clone() }
    }

    /// The same for work that waits for memory.
    pub fn beyond_caches(&self) -> Timing {
        Timing { beyond_caches: true, ..self.clone() }
    }

    /// Whether the figures may be rough.
    pub fn is_quick(&self) -> bool {
        self.effort == Effort::Quick
    }

    /// Nanoseconds that `work` takes, after one run that does not count.
    pub fn measure(&self, mut work: impl FnMut()) -> Measured {
        let Ok(found) = self.measure_each(|| {
            work();
            Ok::<f64, Infallible>(1.0)
        });
        found
    }

    /// The number of times that a whole series of measurements is repeated, so that disturbed ones are noticed.
    pub fn sweeps(&self) -> usize {
        if self.is_quick() { 3 } else { 5 }
    }

    /// Nanoseconds of the fastest of three runs of `work`: what interrupts a run only makes it slower.
    pub fn fastest(&self, mut work: impl FnMut()) -> f64 {
        work();
        let mut run = || {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos() as f64
        };
        run().min(run()).min(run())
    }

    /// As [`Timing::measure`], for work that can fail and returns the amount of work done: nanoseconds per unit of that amount. If the
    /// machine's slowdown changed meanwhile, it is measured again, a few times.
    ///
    /// # Errors
    /// The error of `work`.
    pub fn measure_each<E>(&self, mut work: impl FnMut() -> Result<f64, E>) -> Result<Measured, E> {
        work()?;
        let Some(current) = &self.slowdown else { return self.once(&mut work) };
        let attempts = if self.is_late() { 1 } else { ATTEMPTS };
        let (found, slowdown) = steadiest(attempts, || current(), || self.once(&mut work))?;
        Ok(found.scaled(1.0 / self.factor(slowdown)))
    }

    fn once<E>(&self, work: &mut impl FnMut() -> Result<f64, E>) -> Result<Measured, E> {
        let begin = Instant::now();
        let mut samples = Vec::with_capacity(self.most);
        while samples.len() < self.most && (samples.len() < self.least || begin.elapsed() < self.budget) {
            let start = Instant::now();
            let done = work()?;
            samples.push(start.elapsed().as_nanos() as f64 / done.max(1e-9));
        }
        // The median, as users see it, for scans and for the reference scan.
        Ok(Measured::of(&samples))
    }

    fn factor(&self, slowdown: Slowdown) -> f64 {
        if self.beyond_caches { slowdown.beyond_caches() } else { slowdown.cached() }
    }
}

/// The result of the attempt during which the machine's slowdown changed least, and the slowdown. No further attempt is
/// made after one in which it was nearly constant.
fn steadiest<E>(
    attempts: usize,
    mut slowdown: impl FnMut() -> Slowdown,
    mut work: impl FnMut() -> Result<Measured, E>,
) -> Result<(Measured, Slowdown), E> {
    let mut least: Option<(f64, Measured, Slowdown)> = None;
    for _ in 0..attempts {
        let (before, found, after) = (slowdown(), work()?, slowdown());
        let change = before.change(after);
        if least.is_none_or(|(least, ..)| change < least) {
            least = Some((change, found, before.between(after)));
        }
        if before.is_near(after) {
            break;
        }
    }
    let (_, found, slowdown) = least.expect("one attempt at least");
    Ok((found, slowdown))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The attempt that counts, given the slowdowns before and after each, and the slowdown to use for it.
    fn attempt(paces: &[(f64, f64)]) -> (f64, f64) {
        let mut looks = paces.iter().flat_map(|(before, after)| [*before, *after]);
        let mut attempts = 0.0;
        let slowdown = || Slowdown::of(looks.next().expect("no more looks than these"), 1.0);
        let work = || {
            attempts += 1.0;
            Ok::<_, Infallible>(Measured::exact(attempts))
        };
        let Ok((found, slowdown)) = steadiest(ATTEMPTS, slowdown, work);
        assert_eq!(looks.next(), None, "all attempts were needed");
        (found.value, slowdown.ratio())
    }

    #[test]
    fn the_steadiest_attempt_counts() {
        assert_eq!(attempt(&[(1.5, 1.5)]), (1.0, 1.5));
        assert_eq!(attempt(&[(1.0, 2.0), (2.0, 2.0)]), (2.0, 2.0));
        assert_eq!(attempt(&[(1.0, 2.0), (2.0, 3.0), (3.0, 1.0)]), (2.0, 2.5));
        assert_eq!(attempt(&[(1.0, 2.0), (3.0, 9.0), (9.0, 3.0)]), (1.0, 1.5));
        let error: Result<(Measured, Slowdown), &str> = steadiest(1, || Slowdown::SAME, || Err("no table"));
        assert_eq!(error.err(), Some("no table"));
    }
}
