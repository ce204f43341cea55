//! Address translation: the reach of translation buffers (TLB) and the cost of their misses, by times alone.

use std::hint::black_box;

use super::levels::{Edge, Latencies, agreed_edges, fastest};
use super::memory::{LARGE_PAGE, LINE, Mapped};
use super::timing::Timing;
use crate::profile::{Measured, Translation, TranslationLevel};

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
    let levels = agreed_edges(&sweeps);
    let level = |(reach_bytes, edge): (_, Edge)| TranslationLevel {
        reach_bytes,
        miss_ns: Measured::exact(edge.after - edge.before),
    };
    Translation { levels: levels.into_iter().map(level).collect(), granted: true, ..nothing }
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
