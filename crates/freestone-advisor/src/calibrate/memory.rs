//! The memory hierarchy, measured by loads whose addresses the processor cannot predict: a random cycle through the
//! region (Sattolo 1986). The first Calibrator used a fixed stride, which today's processors prefetch.

use std::hint::black_box;
use std::time::Instant;

use super::host::reported_caches;
use super::tables::Random;
use super::timing::Timing;
use super::{CalibrateOptions, Effort};
use crate::profile::{CacheLevel, Curve, Hardware, Measured, Translation};

const LINE: usize = 64;
const SMALL_PAGE: usize = 4096;
const LARGE_PAGE: usize = 2 << 20;
/// A latency that is larger than the previous one by this factor belongs to another level.
const LEVEL_STEP: f64 = 1.35;

/// Measures caches, TLB, latency and bandwidth.
pub fn measure(hardware: &mut Hardware, options: &CalibrateOptions, timing: &Timing) {
    let largest: usize = if options.effort == Effort::Quick { 16 << 20 } else { 256 << 20 };
    let mut region = Region::new(largest);
    let sizes: Vec<usize> = (13..=largest.ilog2()).flat_map(|k| [3 << (k - 2), 1 << k]).collect();
    let (mut replace, mut miss) = (vec![], vec![]);
    for bytes in &sizes {
        region.cycle(*bytes, LINE);
        replace.push((*bytes as f64, region.chase(timing, 0)));
        miss.push((*bytes as f64, region.chase(timing, WORK)));
    }
    let work = miss.first().map_or(0.0, |(_, m)| m.value) - replace.first().map_or(0.0, |(_, m)| m.value);
    let miss = miss.into_iter().map(|(x, m)| (x, m.minus(Measured::exact(work)))).collect();
    hardware.replace = Curve::new(replace);
    hardware.miss = Curve::new(miss);
    hardware.parallelism = parallelism(&mut region, largest, timing);
    hardware.caches = caches(&hardware.miss, &hardware.replace, &mut region, timing);
    hardware.translation = vec![translation(SMALL_PAGE, largest, timing), translation(LARGE_PAGE, largest, timing)];
    hardware.stream = stream(&region, largest, timing);
    hardware.bandwidth = bandwidth(&region, options.threads, timing);
    drop(region);
}

/// Dependent additions between loads, so that the miss is measured and not its overlap with others.
const WORK: usize = 60;

/// The memory of the walk. Each slot contains the number of the next one.
struct Region {
    slots: Vec<u64>,
}

impl Region {
    fn new(bytes: usize) -> Region {
        Region { slots: vec![1; bytes / 8] }
    }

    /// Links the slots at every `stride` bytes of the first `bytes` into one random cycle.
    fn cycle(&mut self, bytes: usize, stride: usize) {
        let (count, step) = (bytes / stride, stride / 8);
        // The slot varies within a stride, so that the slots of a cycle do not all fall into the same cache sets.
        let place = |i: usize| (i * step + if stride > LINE { (i * 8) % step } else { 0 }) as u64;
        let mut order: Vec<u32> = (0..count as u32).collect();
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        for i in (1..count).rev() {
            order.swap(i, random.below(i as u64) as usize);
        }
        for pair in order.windows(2) {
            self.slots[place(pair[0] as usize) as usize] = place(pair[1] as usize);
        }
        if let (Some(first), Some(last)) = (order.first(), order.last()) {
            self.slots[place(*last as usize) as usize] = place(*first as usize);
        }
    }

    fn start(&self, bytes: usize, part: usize, parts: usize) -> u64 {
        // Any slot of the cycle is a valid start, and all cycles contain the multiples of the line.
        (bytes / 8 / parts * part / 8 * 8) as u64
    }

    /// Nanoseconds per load, with `work` dependent operations between loads.
    fn chase(&self, timing: &Timing, work: usize) -> Measured {
        let loads = if timing.is_quick() { 2000 } else { 40_000 };
        let mut at = 0u64;
        let run = timing.measure(|| {
            let mut here = at;
            for _ in 0..loads {
                here = self.slots[here as usize];
                if work > 0 {
                    here = busy(here, work);
                }
            }
            at = black_box(here);
        });
        run.scaled(1.0 / loads as f64)
    }

    /// Nanoseconds per load of `chains` simultaneous walks.
    fn chase_many(&self, timing: &Timing, bytes: usize, chains: usize) -> Measured {
        let steps = if timing.is_quick() { 500 } else { 20_000 };
        let mut heads: Vec<u64> = (0..chains).map(|c| self.start(bytes, c, chains)).collect();
        let run = timing.measure(|| {
            for _ in 0..steps {
                for head in &mut heads {
                    *head = self.slots[*head as usize];
                }
            }
            black_box(&heads);
        });
        run.scaled(1.0 / (steps * chains) as f64)
    }
}

/// `work` dependent operations that leave the value unchanged.
#[inline]
fn busy(value: u64, work: usize) -> u64 {
    let mut state = value;
    for _ in 0..work {
        state = black_box(state ^ 1);
    }
    // An even number of flips.
    state
}

fn parallelism(region: &mut Region, largest: usize, timing: &Timing) -> Curve {
    region.cycle(largest, LINE);
    Curve::new([1, 2, 4, 8, 16].map(|chains| (chains as f64, region.chase_many(timing, largest, chains))).to_vec())
}

/// Levels where the latency jumps. The system's figures are added, and decide where a jump is gradual.
fn caches(miss: &Curve, replace: &Curve, region: &mut Region, timing: &Timing) -> Vec<CacheLevel> {
    let reported = reported_caches();
    let jumps = jumps(replace);
    let count = jumps.len().max(reported.len()).min(4);
    let mut levels = vec![];
    for at in 0..count {
        let level = at as u32 + 1;
        let said = reported.iter().find(|(l, ..)| *l == level);
        // The jump of the level: the one nearest to the reported size, or the next in order.
        let near =
            said.and_then(|(_, bytes, _)| jumps.iter().copied().find(|j| (j / *bytes as f64).log2().abs() <= 1.1));
        let Some(bytes) =
            near.or_else(|| if said.is_none() { jumps.get(at).copied() } else { None }).or(said.map(|s| s.1 as f64))
        else {
            continue;
        };
        let next = levels_above(bytes);
        let line = line_bytes(region, bytes as usize, timing);
        levels.push(CacheLevel {
            level,
            bytes: Measured { value: bytes, low: bytes * 0.75, high: bytes * 1.5 },
            line_bytes: line,
            miss_ns: miss.measured(next).minus(miss.measured(bytes / 2.0)),
            replace_ns: replace.measured(next).minus(replace.measured(bytes / 2.0)),
            reported_bytes: said.map(|s| s.1),
            reported_line: said.map(|s| s.2),
        });
    }
    levels
}

/// A region well above the size of a level.
fn levels_above(bytes: f64) -> f64 {
    bytes * 4.0
}

/// The sizes after which the latency rises: the largest size of the flat part before each rise.
pub(super) fn jumps(curve: &Curve) -> Vec<f64> {
    let mut found = vec![];
    let mut base = curve.points.first().map_or(1.0, |(_, m)| m.value);
    let mut last = curve.points.first().map_or(1.0, |p| p.0);
    let mut rising = false;
    for pair in curve.points.windows(2) {
        let (before, now) = (pair[0].1.value.max(0.1), pair[1].1.value.max(0.1));
        if now > base * LEVEL_STEP && !rising {
            found.push(last);
            rising = true;
        }
        if rising && now < before * 1.08 {
            rising = false;
            base = now;
        }
        if !rising {
            last = pair[1].0;
        }
    }
    found
}

/// The stride from which a walk over twice the level's size misses at every step. With smaller strides the line is
/// often present.
fn line_bytes(region: &mut Region, level: usize, timing: &Timing) -> Measured {
    let bytes = (level * 2).min(region.slots.len() * 8) / 4096 * 4096;
    let cost = |stride: usize| {
        let steps = bytes / stride;
        let slots = &region.slots;
        timing.measure(|| {
            // Backwards in order, with each address derived from the previous one.
            let mut sum = 0u64;
            for step in (0..steps).rev() {
                sum = sum.wrapping_add(slots[step * stride / 8]);
            }
            black_box(sum);
        })
    };
    let ns: Vec<(usize, f64)> = [16, 32, 64, 128].map(|s| (s, cost(s).value / (bytes / s) as f64)).to_vec();
    // The processor prefetches, so the cost of a step grows with the number of new lines, until each step needs one.
    let at = ns.windows(2).filter(|pair| pair[1].1 > pair[0].1 * 1.3).map(|pair| pair[1].0).next_back();
    let value = at.unwrap_or(LINE).min(128) as f64;
    Measured { value: if value > 64.0 { 64.0 } else { value }, low: 32.0, high: 128.0 }
}

/// Reach and miss cost of the TLB: one line of every page, so that the lines fit a near cache and the pages exceed the
/// TLB.
fn translation(page: usize, largest: usize, timing: &Timing) -> Translation {
    let bytes = if page == LARGE_PAGE { largest } else { largest.min(64 << 20) };
    let memory = Mapped::new(bytes, page);
    let Some(mut memory) = memory else {
        let zero = Measured::default();
        return Translation { page_bytes: page as u64, reach_bytes: zero, miss_ns: zero, granted: false };
    };
    let loads = if timing.is_quick() { 2000 } else { 40_000 };
    let mut points = vec![];
    let mut pages = 4;
    while pages * page <= bytes {
        memory.cycle(pages, page);
        let mut at = 0u64;
        let run = timing.measure(|| {
            let mut here = at;
            for _ in 0..loads {
                here = memory.slots()[here as usize];
            }
            at = black_box(here);
        });
        points.push(((pages * page) as f64, run.scaled(1.0 / loads as f64)));
        pages *= 2;
    }
    let curve = Curve::new(points);
    let base = curve.points.first().map_or(Measured::default(), |p| p.1);
    let end = curve.points.last().map_or(base, |p| p.1);
    let reach = jumps(&curve).first().copied().unwrap_or(curve.points.last().map_or(0.0, |p| p.0));
    Translation {
        page_bytes: page as u64,
        reach_bytes: Measured { value: reach, low: reach / 2.0, high: reach * 2.0 },
        miss_ns: end.minus(base),
        granted: page == SMALL_PAGE || memory.is_huge(),
    }
}

/// Memory in pages of one size, as far as the system provides them.
struct Mapped {
    start: *mut u64,
    bytes: usize,
    mapped: (*mut libc::c_void, usize),
}

impl Mapped {
    fn new(bytes: usize, page: usize) -> Option<Mapped> {
        let length = bytes + LARGE_PAGE;
        // SAFETY: an anonymous mapping of fresh memory, at an address that the kernel chooses.
        let mapped = unsafe {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0)
        };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let aligned = mapped.addr().next_multiple_of(LARGE_PAGE) - mapped.addr();
        let start = mapped.wrapping_byte_add(aligned);
        #[cfg(target_os = "linux")]
        {
            let advice = if page == LARGE_PAGE { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
            // SAFETY: the range is within the mapping created above, and advice changes no byte.
            unsafe { libc::madvise(start, bytes, advice) };
        }
        // SAFETY: the range is within the mapping, to which nobody else has access. Writing makes the system allocate
        // its pages.
        unsafe { std::ptr::write_bytes(start.cast::<u8>(), 0, bytes) };
        Some(Mapped { start: start.cast(), bytes, mapped: (mapped, length) })
    }

    fn slots(&self) -> &[u64] {
        // SAFETY: `start` is aligned to 2 MiB, `bytes` were written when the mapping was created, and it lives as long
        // as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes / 8) }
    }

    /// Links one line in each of the first pages into a random cycle.
    fn cycle(&mut self, pages: usize, page: usize) {
        // SAFETY: as in `slots`, and `self` is borrowed for writing.
        let slots = unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes / 8) };
        let place = |i: usize| (i * page + (i * LINE) % 4096) / 8;
        let mut order: Vec<usize> = (0..pages).collect();
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        (1..pages).rev().for_each(|i| order.swap(i, random.below(i as u64) as usize));
        // The walk begins at slot 0, which belongs to the first page.
        for at in 0..pages {
            slots[place(order[at])] = place(order[(at + 1) % pages]) as u64;
        }
    }

    /// Whether the kernel provided large pages for most of it.
    fn is_huge(&self) -> bool {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let huge = text
            .lines()
            .find_map(|l| l.strip_prefix("AnonHugePages:")?.trim().split(' ').next()?.parse::<usize>().ok());
        huge.is_some_and(|kib| kib << 10 >= self.bytes / 2)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped, and no slice of it outlives `self`.
        unsafe { libc::munmap(self.mapped.0, self.mapped.1) };
    }
}

fn sum(slots: &[u64]) -> u64 {
    let mut lanes = [0u64; 16];
    let (chunks, _) = slots.as_chunks::<16>();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane = lane.wrapping_add(*value));
    }
    lanes.iter().fold(0, |a, b| a.wrapping_add(*b))
}

/// Nanoseconds per byte of a sequential read by one thread.
fn stream(region: &Region, largest: usize, timing: &Timing) -> Curve {
    let sizes = (14..=largest.ilog2()).step_by(2).map(|k| 1usize << k);
    let points = sizes.map(|bytes| {
        let slots = &region.slots[..bytes / 8];
        let rounds = ((1 << 20) / bytes).max(1);
        let run = timing.measure(|| (0..rounds).for_each(|_| _ = black_box(sum(black_box(slots)))));
        (bytes as f64, run.scaled(1.0 / (rounds * bytes) as f64))
    });
    Curve::new(points.collect())
}

/// Bytes per nanosecond that several threads read together.
fn bandwidth(region: &Region, threads: usize, timing: &Timing) -> Curve {
    let slots = &region.slots[..];
    let rounds = if timing.is_quick() { 2 } else { 7 };
    let mut points = vec![];
    for count in 1..=threads.max(1) {
        let part = slots.len() / count;
        let samples: Vec<f64> = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                std::thread::scope(|scope| {
                    for own in slots.chunks_exact(part).take(count) {
                        scope.spawn(move || black_box(sum(black_box(own))));
                    }
                });
                (part * count * 8) as f64 / start.elapsed().as_nanos().max(1) as f64
            })
            .collect();
        points.push((count as f64, Measured::of(&samples)));
    }
    Curve::new(points)
}
