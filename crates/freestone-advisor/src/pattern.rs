//! The hierarchical memory pattern model (Manegold, Boncz and Kersten 2002: Generic database cost models for
//! hierarchical memory systems, VLDB; reference 5 of Grund et al. 2010): the misses of an access pattern on each level
//! of the memory, and their cost.
//!
//! A region has `items` items of `width` bytes, of which an access uses `used` adjacent ones. Misses are cache lines
//! for caches and pages for the TLB. A level has only a capacity, a line size, and two latencies.

/// A cache or TLB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Its size in bytes (of a TLB: the bytes that its entries cover).
    pub capacity: f64,
    /// The bytes that one miss loads.
    pub line: f64,
    /// Nanoseconds of a miss that continues a sequence.
    pub sequential_ns: f64,
    /// Nanoseconds of a miss that continues no sequence.
    pub random_ns: f64,
}

/// A region that is accessed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// The number of items.
    pub items: f64,
    /// Bytes from one item to the next.
    pub width: f64,
    /// The bytes of each item that are used, at most `width`.
    pub used: f64,
}

/// The access pattern of a region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// Each item once, in order.
    Sequential(Region),
    /// Each item once, in random order.
    Random(Region),
    /// `accesses` items drawn at random, with repetition.
    #[allow(missing_docs)]
    /// A number of accesses to random items.
    RepeatedRandom { region: Region, accesses: f64 },
    /// Items in order, each with this probability: a scan by a list of positions.
    #[allow(missing_docs)]
    /// Each item with a probability, in order.
    Selected { region: Region, share: f64 },
}

/// The expected misses of one level.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Misses {
    /// Misses at consecutive addresses.
    pub sequential: f64,
    /// Misses at random addresses.
    pub random: f64,
}

impl Region {
    /// A region whose bytes are all used.
    pub fn full(items: f64, width: f64) -> Self {
        Region { items, width, used: width }
    }

    /// ‖R‖: the bytes.
    pub fn bytes(&self) -> f64 {
        self.items * self.width
    }

    /// |R|: the lines.
    fn lines(&self, line: f64) -> f64 {
        (self.bytes() / line).ceil()
    }

    /// Whether each line has a used byte, so that a traversal loads all of them.
    fn dense(&self, line: f64) -> bool {
        self.width - self.used < line
    }

    /// The lines of one access, averaged over the alignment of items: ⌈u/B⌉ + ((u − 1) mod B)/B.
    fn lines_per_access(&self, line: f64) -> f64 {
        let used = self.used.max(1.0);
        (used / line).ceil() + ((used - 1.0) % line) / line
    }

    /// The lines of a traversal of all items.
    fn lines_walked(&self, line: f64) -> f64 {
        if self.dense(line) { self.lines(line) } else { self.items * self.lines_per_access(line) }
    }

    /// The lines of at least one of `accesses` random accesses, of which `distinct` go to different items.
    fn lines_drawn(&self, line: f64, accesses: f64, distinct: f64) -> f64 {
        if !self.dense(line) {
            return distinct * self.lines_per_access(line);
        }
        // The probability that an access uses a given line.
        let lines = self.lines(line);
        let chance = (self.lines_per_access(line) / lines).min(1.0);
        lines * (1.0 - (1.0 - chance).powf(accesses))
    }
}

impl Pattern {
    /// The expected misses, starting with a cold cache.
    pub fn misses(&self, level: &Level) -> Misses {
        let line = level.line;
        match self {
            Pattern::Sequential(region) => Misses { sequential: region.lines_walked(line), random: 0.0 },
            Pattern::Random(region) => Misses { sequential: 0.0, random: random_traversal(region, level) },
            Pattern::RepeatedRandom { region, accesses } => {
                Misses { sequential: 0.0, random: repeated_random(region, *accesses, level) }
            }
            Pattern::Selected { region, share } => selected(region, *share, level),
        }
    }

    /// Nanoseconds of the misses of all levels: Σ (M_seq · l_seq + M_rand · l_rand).
    pub fn latency_ns(&self, levels: &[Level]) -> f64 {
        let of = |level: &Level| {
            let misses = self.misses(level);
            misses.sequential * level.sequential_ns + misses.random * level.random_ns
        };
        levels.iter().map(of).sum()
    }
}

/// T = T_cpu + Σ (M_seq · l_seq + M_rand · l_rand) for patterns in sequence, in nanoseconds.
pub fn time_ns(cpu_ns: f64, patterns: &[Pattern], levels: &[Level]) -> f64 {
    cpu_ns + patterns.iter().map(|p| p.latency_ns(levels)).sum::<f64>()
}

/// The lines of the region once. If the region is larger than the cache, again for items whose line was evicted by
/// those in between: all but the items that fit, (n − C/w)(1 − C/‖R‖).
fn random_traversal(region: &Region, level: &Level) -> f64 {
    let first = region.lines_walked(level.line);
    if !region.dense(level.line) || region.bytes() <= level.capacity {
        return first;
    }
    let fitting = level.capacity / region.width;
    let again = (region.items - fitting) * (1.0 - level.capacity / region.bytes());
    // Only an item that shares its line with others can access a line again.
    let visits = region.items * region.lines_per_access(level.line);
    first.max((first + again).min(visits))
}

/// The accessed lines once each, and every later access with the probability that its line was evicted.
fn repeated_random(region: &Region, accesses: f64, level: &Level) -> f64 {
    if region.items < 1.0 || accesses <= 0.0 {
        return 0.0;
    }
    let distinct = region.items * (1.0 - (1.0 - 1.0 / region.items).powf(accesses));
    let touched = region.lines_drawn(level.line, accesses, distinct);
    let held = level.capacity / level.line;
    if touched <= held {
        return touched;
    }
    let visits = accesses * region.lines_per_access(level.line);
    touched + (visits - touched).max(0.0) * (1.0 - held / touched)
}

/// Each item with a probability: the lines with one of them, in order. A line directly after the previous one continues
/// a sequence.
fn selected(region: &Region, share: f64, level: &Level) -> Misses {
    let share = share.clamp(0.0, 1.0);
    if !region.dense(level.line) {
        let lines = region.items * share * region.lines_per_access(level.line);
        return split_runs(lines, share);
    }
    let lines = region.lines(level.line);
    // The items of a line: those that begin in it, and those that extend into it.
    let touching = (region.items * region.lines_per_access(level.line) / lines).max(f64::MIN_POSITIVE);
    let chance = 1.0 - (1.0 - share).powf(touching);
    split_runs(lines * chance, chance)
}

fn split_runs(lines: f64, chance_before: f64) -> Misses {
    Misses { sequential: lines * chance_before, random: lines * (1.0 - chance_before) }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use rand::prelude::*;
    use rand::rngs::StdRng;

    use super::*;

    const LEVEL: Level = Level { capacity: 64.0 * 256.0, line: 64.0, sequential_ns: 2.0, random_ns: 80.0 };

    /// The misses of a fully associative cache with least-recently-used replacement, averaged over the alignment of the
    /// region.
    fn simulate(region: &Region, accesses: &[usize]) -> f64 {
        let misses: usize = (0..8).map(|i| simulate_at(region, accesses, i * 9)).sum();
        misses as f64 / 8.0
    }

    fn simulate_at(region: &Region, accesses: &[usize], offset: usize) -> usize {
        let held = (LEVEL.capacity / LEVEL.line) as usize;
        let (mut clock, mut misses) = (0u64, 0);
        let mut last: HashMap<usize, u64> = HashMap::new();
        let mut order: BTreeMap<u64, usize> = BTreeMap::new();
        for item in accesses {
            let start = item * region.width as usize + offset;
            for line in start / 64..=(start + region.used as usize - 1) / 64 {
                clock += 1;
                match last.insert(line, clock) {
                    Some(before) => drop(order.remove(&before)),
                    None => misses += 1,
                }
                order.insert(clock, line);
                if order.len() > held {
                    let (_, oldest) = order.pop_first().expect("it holds more than none");
                    last.remove(&oldest);
                }
            }
        }
        misses
    }

    fn check(name: &str, predicted: f64, simulated: f64, tolerance: f64) {
        let error = (predicted / simulated - 1.0).abs();
        assert!(error <= tolerance, "{name}: predicted {predicted}, simulated {simulated}");
    }

    #[test]
    fn sequential_traversals_are_exact() {
        let of = |items, width, used| Pattern::Sequential(Region { items, width, used }).misses(&LEVEL);
        assert_eq!(of(1000.0, 4.0, 4.0), Misses { sequential: 63.0, random: 0.0 });
        assert_eq!(of(1000.0, 64.0, 4.0).sequential, 1000.0, "each line holds a used byte");
        // One byte of 200: one line per item. 64 bytes of 200: 1 line at one of 64 alignments, otherwise 2.
        assert_eq!(of(1000.0, 200.0, 1.0).sequential, 1000.0);
        assert_eq!(of(1000.0, 200.0, 64.0).sequential, 1000.0 * (1.0 + 63.0 / 64.0));
        let region = Region { items: 4096.0, width: 200.0, used: 24.0 };
        check("24 of 200", of(4096.0, 200.0, 24.0).sequential, simulate(&region, &(0..4096).collect::<Vec<_>>()), 0.05);
    }

    #[test]
    fn random_patterns_are_near_a_simulated_cache() {
        let mut rng = StdRng::seed_from_u64(5);
        for (items, width, used) in [(1000, 8, 8), (20_000, 8, 8), (5_000, 64, 64), (4_000, 256, 16), (60_000, 4, 4)] {
            let region = Region { items: f64::from(items), width: f64::from(width), used: f64::from(used) };
            let mut order: Vec<usize> = (0..items as usize).collect();
            order.shuffle(&mut rng);
            let predicted = Pattern::Random(region).misses(&LEVEL).random;
            check(&format!("traversal of {items} × {width}"), predicted, simulate(&region, &order), 0.25);
            for accesses in [500, 5_000, 50_000] {
                let drawn: Vec<usize> = (0..accesses).map(|_| rng.random_range(0..items as usize)).collect();
                let pattern = Pattern::RepeatedRandom { region, accesses: f64::from(accesses) };
                let name = format!("{accesses} of {items} × {width}");
                check(&name, pattern.misses(&LEVEL).random, simulate(&region, &drawn), 0.2);
            }
        }
    }

    #[test]
    fn a_selection_lies_between_nothing_and_a_walk() {
        let region = Region::full(200_000.0, 4.0);
        let lines = |share| {
            let misses = Pattern::Selected { region, share }.misses(&LEVEL);
            misses.sequential + misses.random
        };
        assert_eq!(lines(0.0), 0.0);
        assert_eq!(lines(1.0), Pattern::Sequential(region).misses(&LEVEL).sequential);
        let mut rng = StdRng::seed_from_u64(6);
        for share in [0.001, 0.01, 0.1, 0.5] {
            let chosen: Vec<usize> = (0..200_000).filter(|_| rng.random_bool(share)).collect();
            check(&format!("{share}"), lines(share), simulate(&region, &chosen), 0.2);
        }
    }

    #[test]
    fn time_adds_the_processor_and_every_level() {
        let pattern = Pattern::Sequential(Region::full(16.0, 64.0));
        let random = Pattern::RepeatedRandom { region: Region { items: 1e9, width: 64.0, used: 1.0 }, accesses: 10.0 };
        assert_eq!(time_ns(100.0, &[pattern], &[LEVEL, LEVEL]), 100.0 + 2.0 * 16.0 * 2.0);
        let ns = random.latency_ns(&[LEVEL]);
        assert!((ns - 800.0).abs() < 1.0, "ten far accesses miss ten times: {ns}");
    }
}
