//! Repeating a measurement.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Effort;
use super::pace::Steady;
use crate::profile::{Measured, Pace};

/// Times that something is measured before the result counts during which the machine's pace changed least.
const ATTEMPTS: usize = 3;

/// From then on measurements take what they need at least: a calibration is to end within a minute, on a noisy machine too.
const LATE: Duration = Duration::from_secs(45);

/// How often, and how long.
#[derive(Clone)]
pub struct Timing {
    pub effort: Effort,
    /// When the calibration began.
    pub begin: Instant,
    /// Repeats of a measurement: at least, and at most.
    pub least: usize,
    pub most: usize,
    /// Time after which no further repeat begins.
    pub budget: Duration,
    /// What times are held against: they are those that the machine would have had most of the time.
    pub steady: Option<Arc<Steady>>,
    /// Whether what is measured waits for memory: then the pace of the processor counts less.
    pub beyond_caches: bool,
}

impl Timing {
    pub fn new(effort: Effort) -> Timing {
        let (least, most, budget) = match effort {
            Effort::Quick => (2, 3, Duration::from_micros(300)),
            Effort::Normal => (7, 25, Duration::from_millis(25)),
        };
        Timing { effort, begin: Instant::now(), least, most, budget, steady: None, beyond_caches: false }
    }

    pub fn is_late(&self) -> bool {
        self.begin.elapsed() > LATE
    }

    /// The same for times held against the machine's pace, and in passes, each of which may be short.
    /// Quick ones stay as they are: looks at the pace would take longer than they do.
    pub fn held_against(&self, steady: Arc<Steady>) -> Timing {
        if self.is_quick() {
            return self.clone();
        }
        Timing { least: 3, most: 15, budget: Duration::from_millis(8), steady: Some(steady), ..self.clone() }
    }

    /// The same for what waits for memory.
    pub fn beyond_caches(&self) -> Timing {
        Timing { beyond_caches: true, ..self.clone() }
    }

    pub fn is_quick(&self) -> bool {
        self.effort == Effort::Quick
    }

    /// Nanoseconds that `work` takes, after one time that does not count.
    pub fn measure(&self, mut work: impl FnMut()) -> Measured {
        let Ok(found) = self.measure_each(|| {
            work();
            Ok::<f64, Infallible>(1.0)
        });
        found
    }

    /// The same of work that can fail, and says how much it did: nanoseconds of one. Where the machine's pace changed meanwhile
    /// it is measured again, a few times.
    pub fn measure_each<E>(&self, mut work: impl FnMut() -> Result<f64, E>) -> Result<Measured, E> {
        work()?;
        let Some(steady) = &self.steady else { return self.once(&mut work) };
        let attempts = if self.is_late() { 1 } else { ATTEMPTS };
        let (found, pace) = steadiest(attempts, || steady.pace(), || self.once(&mut work))?;
        Ok(found.scaled(1.0 / self.factor(pace)))
    }

    fn once<E>(&self, work: &mut impl FnMut() -> Result<f64, E>) -> Result<Measured, E> {
        let begin = Instant::now();
        let mut samples = Vec::with_capacity(self.most);
        while samples.len() < self.most && (samples.len() < self.least || begin.elapsed() < self.budget) {
            let start = Instant::now();
            let done = work()?;
            samples.push(start.elapsed().as_nanos() as f64 / done.max(1e-9));
        }
        // The middle, as it is what users see: of scans, as of the reference scan beside them.
        Ok(Measured::of(&samples))
    }

    fn factor(&self, pace: Pace) -> f64 {
        if self.beyond_caches { pace.beyond_caches() } else { pace.cached() }
    }
}

/// What was found while the machine's pace changed least, and the pace: of a few attempts, none behind one in which it stayed
/// as good as the same.
fn steadiest<E>(
    attempts: usize,
    mut pace: impl FnMut() -> Pace,
    mut work: impl FnMut() -> Result<Measured, E>,
) -> Result<(Measured, Pace), E> {
    let mut least: Option<(f64, Measured, Pace)> = None;
    for _ in 0..attempts {
        let (before, found, after) = (pace(), work()?, pace());
        let change = before.change(after);
        if least.is_none_or(|(least, ..)| change < least) {
            least = Some((change, found, before.between(after)));
        }
        if before.is_near(after) {
            break;
        }
    }
    let (_, found, pace) = least.expect("one attempt at least");
    Ok((found, pace))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which attempt counts, where the machine has these paces before and after each, and the pace that it is held against.
    fn attempt(paces: &[(f64, f64)]) -> (f64, f64) {
        let mut looks = paces.iter().flat_map(|(before, after)| [*before, *after]);
        let mut attempts = 0.0;
        let pace = || Pace::of(looks.next().expect("no more looks than these"), 1.0);
        let work = || {
            attempts += 1.0;
            Ok::<_, Infallible>(Measured::exact(attempts))
        };
        let Ok((found, pace)) = steadiest(ATTEMPTS, pace, work);
        assert_eq!(looks.next(), None, "all attempts were needed");
        (found.value, pace.ratio())
    }

    #[test]
    fn the_steadiest_attempt_counts() {
        assert_eq!(attempt(&[(1.5, 1.5)]), (1.0, 1.5));
        assert_eq!(attempt(&[(1.0, 2.0), (2.0, 2.0)]), (2.0, 2.0));
        assert_eq!(attempt(&[(1.0, 2.0), (2.0, 3.0), (3.0, 1.0)]), (2.0, 2.5));
        assert_eq!(attempt(&[(1.0, 2.0), (3.0, 9.0), (9.0, 3.0)]), (1.0, 1.5));
        let error: Result<(Measured, Pace), &str> = steadiest(1, || Pace::SAME, || Err("no table"));
        assert_eq!(error.err(), Some("no table"));
    }
}
