//! Repeating a measurement.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::Effort;
use crate::profile::Measured;

/// How often, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub effort: Effort,
    /// Repeats of a measurement: at least, and at most.
    pub least: usize,
    pub most: usize,
    /// Time after which no further repeat begins.
    pub budget: Duration,
}

impl Timing {
    pub fn new(effort: Effort) -> Timing {
        match effort {
            Effort::Quick => Timing { effort, least: 2, most: 3, budget: Duration::from_micros(300) },
            Effort::Normal => Timing { effort, least: 7, most: 25, budget: Duration::from_millis(25) },
        }
    }

    pub fn is_quick(&self) -> bool {
        self.effort == Effort::Quick
    }

    /// Nanoseconds that `work` takes, after one time that does not count.
    pub fn measure(&self, mut work: impl FnMut()) -> Measured {
        work();
        let begin = Instant::now();
        let mut samples = Vec::with_capacity(self.most);
        while samples.len() < self.most && (samples.len() < self.least || begin.elapsed() < self.budget) {
            let start = Instant::now();
            work();
            samples.push(start.elapsed().as_nanos() as f64);
        }
        quicker_half(samples)
    }

    /// The same of work that can fail, and says how much it did: nanoseconds of one.
    pub fn measure_each<E>(&self, mut work: impl FnMut() -> Result<f64, E>) -> Result<Measured, E> {
        work()?;
        let begin = Instant::now();
        let mut samples = Vec::with_capacity(self.most);
        while samples.len() < self.most && (samples.len() < self.least || begin.elapsed() < self.budget) {
            let start = Instant::now();
            let done = work()?;
            samples.push(start.elapsed().as_nanos() as f64 / done.max(1e-9));
        }
        Ok(quicker_half(samples))
    }
}

/// The median and spread of the quicker half: what else runs on the machine only adds, and would be taken for what is measured.
pub fn quicker_half(mut samples: Vec<f64>) -> Measured {
    samples.sort_by(f64::total_cmp);
    samples.truncate(samples.len().div_ceil(2));
    Measured::of(&samples)
}

/// (95 % − 5 %) ÷ median of a loop that always does the same: what else runs here.
pub fn spread(timing: &Timing) -> Measured {
    let steps = 200_000;
    let rounds = if timing.is_quick() { 5 } else { 60 };
    let mut samples = vec![];
    for _ in 0..rounds {
        let start = Instant::now();
        let mut state = black_box(1u64);
        for _ in 0..steps {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
        black_box(state);
        samples.push(start.elapsed().as_nanos() as f64);
    }
    let all = Measured::of(&samples);
    Measured::exact((all.high - all.low) / all.value.max(1.0))
}
