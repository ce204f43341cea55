//! Address translation: the reach of translation buffers (TLB) and the cost of their misses, by times alone.

use std::hint::black_box;

use super::levels::{Edge, Latencies, REGION_FACTOR, agreed_edges, fastest};
use super::memory::{LARGE_PAGE, LINE, Mapped};
use super::timing::Timing;
use crate::profile::{Curve, Measured, Translation, TranslationLevel};

/// The region of small pages, which is four times what today's second-level buffers reach (some 3,000 pages).
const SMALL_PAGES_BYTES: usize = 64 << 20;

/// Walks that use one line of every page, each compared with a walk over the same number of lines next to one another.
/// Both miss the same caches, so their difference is translation alone, and no miss of a cache hides it.
pub fn measure(page: usize, largest: usize, timing: &Timing) -> Translation {
    let bytes = if page == LARGE_PAGE { largest } else { SMALL_PAGES_BYTES.min(largest) };
    let nothing = Translation { page_bytes: page as u64, levels: vec![], granted: false };
    let Some(mut memory) = Mapped::new(bytes, page) else { return nothing };
    if page == LARGE_PAGE && !memory.is_huge() {
        return nothing;
    }
    let walks: Vec<[Latencies; 2]> = (0..timing.sweeps()).map(|_| sweep(&mut memory, page, bytes, timing)).collect();
    // The fastest of all repetitions: a disturbed walk over few pages must not hide what many pages cost.
    let together = fastest(&walks.iter().map(|[_, together]| together.clone()).collect::<Vec<_>>());
    let sweeps: Vec<Latencies> = walks.iter().map(|[apart, _]| of_translation(apart, &together)).collect();
    let found = agreed_edges(&sweeps);
    let ends = found.iter().skip(1).map(|(reach, _)| reach.value).chain([bytes as f64]);
    let level = |((reach_bytes, edge), end): (&(Measured, Edge), f64)| TranslationLevel {
        reach_bytes: *reach_bytes,
        miss_ns: rise(&sweeps, *edge, (reach_bytes.value, end)),
    };
    Translation { levels: found.iter().zip(ends).map(level).collect(), granted: true, ..nothing }
}

/// What a miss of a level costs: the rise in the fastest times, and how much it differs between repetitions. A level ends at
/// `reach` bytes, and the next one at `end`.
fn rise(sweeps: &[Latencies], edge: Edge, (reach, end): (f64, f64)) -> Measured {
    // Well within the level, and between its end and that of the next one.
    let (near, far) = (reach / 2.0, (reach * end).sqrt().min(reach * REGION_FACTOR));
    let of_sweep = |sweep: &Latencies| {
        let curve = Curve::of(sweep);
        (curve.at(far) - curve.at(near)).max(0.0)
    };
    let repeated = Measured::of(&sweeps.iter().map(of_sweep).collect::<Vec<_>>());
    let value = edge.after - edge.before;
    Measured { value, low: repeated.low.min(value), high: repeated.high.max(value) }
}

/// Nanoseconds per load by bytes of the pages: of lines on pages of their own, and of as many next to one another.
fn sweep(memory: &mut Mapped, page: usize, bytes: usize, timing: &Timing) -> [Latencies; 2] {
    let steps = (4..=2 * (bytes / page).max(4).ilog2()).map(|k| (f64::from(k) / 2.0).exp2() as usize);
    let (mut apart, mut together) = (vec![], vec![]);
    for pages in steps {
        let size = (pages * page) as f64;
        apart.push((size, walk(memory, pages, page, timing)));
        together.push((size, walk(memory, pages, LINE, timing)));
    }
    [apart, together]
}

/// What translation adds, on top of a load from the nearest cache.
fn of_translation(apart: &[(f64, f64)], together: &[(f64, f64)]) -> Latencies {
    let near = together.first().map_or(0.0, |(_, ns)| *ns);
    let added =
        |((bytes, apart), (_, together)): (&(f64, f64), &(f64, f64))| (*bytes, near + (apart - together).max(0.0));
    apart.iter().zip(together).map(added).collect()
}

/// Nanoseconds per load of a random cycle with one line at every `stride` bytes.
fn walk(memory: &mut Mapped, lines: usize, stride: usize, timing: &Timing) -> f64 {
    memory.cycle(lines, stride);
    let loads = if timing.is_quick() { 2000 } else { 20_000 };
    let mut at = 0u64;
    timing.fastest(|| {
        let mut here = at;
        for _ in 0..loads {
            here = memory.slots()[here as usize];
        }
        at = black_box(here);
    }) / f64::from(loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_costs_what_repetitions_say_with_their_spread() {
        // 4 KiB pages: 64 entries, then 2,048.
        let sweep = |second: f64, third: f64| -> Latencies {
            let ns = |bytes: f64| match bytes {
                bytes if bytes <= 262_144.0 => 1.0,
                bytes if bytes <= 8_388_608.0 => second,
                _ => third,
            };
            (28..=52).map(|k| (f64::from(k) / 2.0).exp2()).map(|bytes| (bytes, ns(bytes))).collect()
        };
        let sweeps = [sweep(3.0, 20.0), sweep(3.2, 26.0), sweep(3.1, 22.0)];
        let found = agreed_edges(&sweeps);
        assert_eq!(found.len(), 2, "{found:?}");
        let ends = [found[1].0.value, 67_108_864.0];
        let [first, second] = [0, 1].map(|at| rise(&sweeps, found[at].1, (found[at].0.value, ends[at])));
        assert!((first.value - 2.0).abs() < 0.1 && first.low <= first.value && first.high > first.value, "{first:?}");
        assert!((second.value - 17.0).abs() < 0.5 && second.low <= 17.0 && second.high >= 20.0, "{second:?}");
    }
}
