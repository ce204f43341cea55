//! The generators' own random numbers. With a published sequence, generated tables do not change when a dependency
//! changes.

/// SplitMix64 (Steele, Lea and Flood 2014): 64 bits of state, full period, and every seed is suitable.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next random number.
    #[expect(clippy::should_implement_trait, reason = "a stream of numbers without an end is no iterator here")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Uniform in `0..bound`. The bias of multiply-and-shift is below `bound` / 2^64.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// Uniform in `[0, 1)`, in steps of 2^-53.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Zipf's distribution with exponent 2 over `1..=range`: value k has the weight 1 / k^2.
///
/// Exact and in constant time by rejection-inversion (Hörmann and Derflinger 1996): invert the integral of the density
/// at a uniform point, round, and reject if the rounded step is outside of the histogram. `integral(x)` is that of
/// x^-2.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    range: f64,
    lower: f64,
    upper: f64,
    always_accepted: f64,
}

impl Zipf {
    pub(super) fn new(range: u32) -> Self {
        let range = f64::from(range);
        Self {
            range,
            lower: integral(1.5) - 1.0,
            upper: integral(range + 0.5),
            always_accepted: 2.0 - inverse_integral(integral(2.5) - weight(2.0)),
        }
    }

    pub(super) fn draw(&self, random: &mut Random) -> i32 {
        loop {
            let point = self.upper + random.fraction() * (self.lower - self.upper);
            let position = inverse_integral(point);
            let value = position.round().clamp(1.0, self.range);
            if value - position <= self.always_accepted || point >= integral(value + 0.5) - weight(value) {
                return value as i32;
            }
        }
    }
}

fn weight(value: f64) -> f64 {
    1.0 / (value * value)
}

fn integral(position: f64) -> f64 {
    1.0 - 1.0 / position
}

fn inverse_integral(area: f64) -> f64 {
    1.0 / (1.0 - area)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The first outputs of SplitMix64 for seed 1234567, as other implementations list them.
        let mut random = Random::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn zipf_follows_its_weights() {
        for range in [1_u32, 6, 1_000] {
            let (zipf, mut random, draws) = (Zipf::new(range), Random::new(3), 200_000);
            let mut counts = vec![0_u32; range as usize + 1];
            for _ in 0..draws {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=range).map(|value| weight(f64::from(value))).sum();
            for value in 1..=range.min(20) {
                let share = f64::from(counts[value as usize]) / f64::from(draws);
                let expected = weight(f64::from(value)) / total;
                assert!((share - expected).abs() < 0.005, "range {range}, value {value}: {share} against {expected}");
            }
        }
    }
}
