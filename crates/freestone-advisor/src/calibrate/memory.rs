//! The memory hierarchy, measured by loads whose addresses the processor cannot predict: a random cycle through the
//! region (Sattolo 1986). The first Calibrator used a fixed stride, which today's processors prefetch.

use std::hint::black_box;
use std::time::Instant;

use super::host::{ReportedCache, reported_caches};
use super::levels::{Edge, Latencies, REGION_FACTOR, agreed, agreed_edges, fastest};
use super::tables::Random;
use super::timing::Timing;
use super::{CalibrateOptions, Effort, translation};
use crate::profile::{CacheLevel, Curve, Hardware, Measured};

pub const LINE: usize = 64;
const SMALL_PAGE: usize = 4096;
pub const LARGE_PAGE: usize = 2 << 20;
/// The region of quick measurements. What ends beyond a quarter of it is not measured.
const QUICK_BYTES: usize = 16 << 20;
/// Sizes that differ by more are of different levels, unless as many are found as reported.
const SAME_SIZE: f64 = 2.0;
/// An edge that is nearer to the reach of translation buffers is not told from it.
const NEAR_REACH: f64 = 1.5;
/// The smallest region otherwise.
const REGION_BYTES_MIN: usize = 128 << 20;

/// Measures caches, TLB, latency and bandwidth. What the region is too small for is left out, with a warning.
pub fn measure(hardware: &mut Hardware, options: &CalibrateOptions, timing: &Timing, warnings: &mut Vec<String>) {
    let reported = reported_caches();
    let largest_cache = reported.iter().map(|cache| cache.bytes).max().unwrap_or(0);
    let bytes = region_bytes(largest_cache);
    let Some(mut region) = Mapped::new(bytes, LARGE_PAGE) else {
        warnings.push(format!("memory was not measured: the system gives no region of {} MiB", bytes >> 20));
        return;
    };
    let walked = if options.effort == Effort::Quick { QUICK_BYTES.min(bytes) } else { bytes };
    hardware.translation = [SMALL_PAGE, LARGE_PAGE].map(|page| translation::measure(page, walked, timing)).to_vec();
    let walks = Walks::measure(&mut region, walked, timing);
    hardware.replace = curve(&walks.replace);
    hardware.miss = curve(&walks.miss);
    let (found, hidden) = without_translation(agreed_edges(&walks.replace), hardware, region.is_huge());
    warnings.extend(hidden.iter().map(|bytes| {
        format!(
            "a jump of the latency at {} KiB may be one of address translation, as the system gives no large pages: no level is \
             taken from it",
            *bytes as usize >> 10
        )
    }));
    hardware.caches = caches(&walks, (&found, &hidden), &reported, &mut region, timing);
    hardware.stream = stream(&region, walked, timing);
    let found = hardware.caches.iter().filter_map(|cache| cache.bytes).map(|bytes| bytes.value as u64).max();
    let largest_cache = largest_cache.max(found.unwrap_or(0));
    if (bytes as f64) < REGION_FACTOR * largest_cache as f64 {
        warnings.push(format!(
            "memory is not told from caches: a region of {} MiB is not four times the largest cache of {} MiB",
            bytes >> 20,
            largest_cache >> 20
        ));
        return;
    }
    hardware.parallelism = parallelism(&mut region, bytes, timing);
    hardware.bandwidth = bandwidth(&region, options.threads, timing);
}

/// Four times the largest cache, if that is a quarter of this process's memory at most. The reported size decides only how
/// much is measured.
fn region_bytes(largest_cache: u64) -> usize {
    let wanted = REGION_BYTES_MIN.max(REGION_FACTOR as usize * largest_cache as usize);
    let limit = freestone_store::memory::limit().map_or(REGION_BYTES_MIN, |bytes| bytes / 4);
    wanted.min(limit).max(QUICK_BYTES) / LARGE_PAGE * LARGE_PAGE
}

/// Dependent additions between loads, so that the miss is measured and not its overlap with others.
const WORK: usize = 60;

/// Repeated walks over regions of growing size.
struct Walks {
    /// Without work between the loads, repetition by repetition.
    replace: Vec<Latencies>,
    /// With work between them, whose time is subtracted.
    miss: Vec<Latencies>,
}

impl Walks {
    /// Each repetition walks all regions, so that a disturbance affects neighbouring regions of one repetition.
    fn measure(region: &mut Mapped, largest: usize, timing: &Timing) -> Walks {
        let (mut replace, mut miss) = (vec![], vec![]);
        for _ in 0..timing.sweeps() {
            let (mut without, mut with): (Latencies, Latencies) = (vec![], vec![]);
            for bytes in sizes(largest) {
                region.cycle(bytes / LINE, LINE);
                without.push((bytes as f64, region.chase(timing, 0)));
                with.push((bytes as f64, region.chase(timing, WORK)));
            }
            let work = with.first().map_or(0.0, |(_, ns)| *ns) - without.first().map_or(0.0, |(_, ns)| *ns);
            with.iter_mut().for_each(|(_, ns)| *ns = (*ns - work).max(0.0));
            replace.push(without);
            miss.push(with);
        }
        Walks { replace, miss }
    }

    /// The difference of two regions in each repetition, of those that agree.
    fn rise(sweeps: &[Latencies], near: f64, far: f64) -> Option<Measured> {
        let at = |bytes: f64| {
            let samples: Vec<f64> = sweeps.iter().map(|sweep| Curve::of(sweep).at(bytes)).collect();
            agreed(&samples)
        };
        Some(at(far)?.minus(at(near)?))
    }
}

/// Sizes of regions from 4 KiB on, four per doubling, at multiples of the line.
fn sizes(largest: usize) -> impl Iterator<Item = usize> {
    let steps = (4 * 12..=4 * largest.ilog2()).map(|k| (f64::from(k) / 4.0).exp2() as usize / LINE * LINE);
    steps.chain((!largest.is_power_of_two()).then_some(largest))
}

/// The points about which repetitions agree.
fn curve(sweeps: &[Latencies]) -> Curve {
    let points = fastest(sweeps).into_iter().enumerate().filter_map(|(at, (bytes, _))| {
        let samples: Vec<f64> = sweeps.iter().filter_map(|sweep| sweep.get(at)).map(|(_, ns)| *ns).collect();
        Some((bytes, agreed(&samples)?))
    });
    Curve::new(points.collect())
}

impl Mapped {
    fn start_of(bytes: usize, part: usize, parts: usize) -> u64 {
        // Any slot of the cycle is a valid start, and all cycles of lines contain the multiples of the line.
        (bytes / 8 / parts * part / 8 * 8) as u64
    }

    /// Nanoseconds per load, with `work` dependent operations between loads.
    fn chase(&self, timing: &Timing, work: usize) -> f64 {
        let loads = if timing.is_quick() { 2000 } else { 20_000 };
        let mut at = 0u64;
        let slots = self.slots();
        timing.fastest(|| {
            let mut here = at;
            for _ in 0..loads {
                here = slots[here as usize];
                if work > 0 {
                    here = busy(here, work);
                }
            }
            at = black_box(here);
        }) / f64::from(loads)
    }

    /// Nanoseconds per load of `chains` simultaneous walks.
    fn chase_many(&self, timing: &Timing, bytes: usize, chains: usize) -> Measured {
        let steps = if timing.is_quick() { 500 } else { 20_000 };
        let slots = self.slots();
        let mut heads: Vec<u64> = (0..chains).map(|c| Self::start_of(bytes, c, chains)).collect();
        let run = timing.measure(|| {
            for _ in 0..steps {
                for head in &mut heads {
                    *head = slots[*head as usize];
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

fn parallelism(region: &mut Mapped, largest: usize, timing: &Timing) -> Curve {
    region.cycle(largest / LINE, LINE);
    Curve::new([1, 2, 4, 8, 16].map(|chains| (chains as f64, region.chase_many(timing, largest, chains))).to_vec())
}

/// The edges of caches, and the bytes of those that may be of address translation: without large pages, the walks also miss
/// translation buffers, at the sizes that these reach.
fn without_translation(
    edges: Vec<(Measured, Edge)>,
    hardware: &Hardware,
    has_large_pages: bool,
) -> (Vec<(Measured, Edge)>, Vec<f64>) {
    let small = hardware.translation.iter().filter(|translation| translation.page_bytes == SMALL_PAGE as u64);
    let reaches: Vec<f64> =
        small.flat_map(|translation| &translation.levels).map(|level| level.reach_bytes.value).collect();
    let is_translation =
        |bytes: f64| !has_large_pages && reaches.iter().any(|reach| (reach / bytes).max(bytes / reach) < NEAR_REACH);
    let (hidden, found): (Vec<_>, Vec<_>) = edges.into_iter().partition(|(bytes, _)| is_translation(bytes.value));
    (found, hidden.into_iter().map(|(bytes, _)| bytes.value).collect())
}

/// Why times do not show a level of `reported` bytes, in walks of `walked` bytes.
fn reason_missing(reported: f64, walked: f64, hidden: &[f64]) -> String {
    if reported * REGION_FACTOR > walked {
        return format!("not measured: a region of {} MiB cannot show it", walked as usize >> 20);
    }
    match hidden.iter().find(|bytes| (reported / **bytes).max(**bytes / reported) < SAME_SIZE) {
        Some(bytes) => format!(
            "hidden by TLB: the jump at {} KiB may be one of address translation, as the system gives no large pages",
            *bytes as usize >> 10
        ),
        None => "not found: no jump of the latency".into(),
    }
}

/// The levels that times show, and those that the system reports and times do not show, with the reason. `found` are edges of
/// caches, and `hidden` those that may be of address translation.
fn caches(
    walks: &Walks,
    (found, hidden): (&[(Measured, Edge)], &[f64]),
    reported: &[ReportedCache],
    region: &mut Mapped,
    timing: &Timing,
) -> Vec<CacheLevel> {
    let walked = walks.replace.first().and_then(|sweep| sweep.last()).map_or(0.0, |(bytes, _)| *bytes);
    let ends: Vec<f64> = found.iter().skip(1).map(|(bytes, _)| bytes.value).chain([walked]).collect();
    let mut levels = with_reported(found, reported);
    for level in &mut levels {
        let Some(at) = level.bytes.and_then(|own| found.iter().position(|(bytes, _)| *bytes == own)) else {
            level.missing = reason_missing(level.reported_bytes.unwrap_or(0) as f64, walked, hidden);
            continue;
        };
        let (bytes, edge) = found[at];
        // Well within the level, and between its end and that of the next one.
        let (near, far) = (bytes.value / 2.0, (bytes.value * ends[at]).sqrt().min(bytes.value * REGION_FACTOR));
        level.replace_ns = Walks::rise(&walks.replace, near, far);
        level.miss_ns = Walks::rise(&walks.miss, near, far);
        level.line_bytes = line_bytes(region, edge, walked, timing);
    }
    levels
}

/// Found levels in order of size, each next to the reported one of nearly its size, and reported ones that were not found.
fn with_reported(found: &[(Measured, Edge)], reported: &[ReportedCache]) -> Vec<CacheLevel> {
    let is_whole = found.len() == reported.len();
    let mut left: Vec<&ReportedCache> = reported.iter().collect();
    let mut levels: Vec<(f64, CacheLevel)> = vec![];
    for (at, (bytes, _)) in found.iter().enumerate() {
        let factor = |cache: &ReportedCache| (cache.bytes as f64 / bytes.value).max(bytes.value / cache.bytes as f64);
        let partner = match is_whole {
            true => reported.get(at),
            false => {
                left.iter().copied().filter(|c| factor(c) < SAME_SIZE).min_by(|a, b| factor(a).total_cmp(&factor(b)))
            }
        };
        left.retain(|cache| partner.is_none_or(|partner| partner.level != cache.level));
        levels.push((bytes.value, CacheLevel::new(Some(*bytes), partner)));
    }
    levels.extend(left.into_iter().map(|cache| (cache.bytes as f64, CacheLevel::new(None, Some(cache)))));
    levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let numbered = levels.into_iter().zip(1..).map(|((_, level), number)| CacheLevel { level: number, ..level });
    numbered.collect()
}

impl CacheLevel {
    fn new(bytes: Option<Measured>, reported: Option<&ReportedCache>) -> Self {
        CacheLevel {
            level: 0,
            bytes,
            line_bytes: None,
            miss_ns: None,
            replace_ns: None,
            reported_bytes: reported.map(|cache| cache.bytes),
            reported_line: reported.map(|cache| cache.line_bytes),
            missing: String::new(),
        }
    }
}

/// The bytes of the level's line, by times alone: a second load near one that missed the level is fast as long as it
/// falls into the same line. `None` if repetitions differ, or no distance is slow.
fn line_bytes(region: &mut Mapped, level: Edge, largest: f64, timing: &Timing) -> Option<Measured> {
    /// The bytes from one first load to another.
    const BLOCK: usize = 256;
    let bytes = (level.bytes * REGION_FACTOR).min(largest) as usize / BLOCK * BLOCK;
    let distances = [8, 16, 32, 64, 128];
    let sweep = |region: &mut Mapped| {
        let times = distances.map(|distance| region.pairs(bytes, BLOCK, distance, timing));
        let (least, most) = (times[0], times[distances.len() - 1]);
        let limit = (least + most) / 2.0;
        let first = distances.iter().zip(times).find(|(_, ns)| *ns > limit).map(|(distance, _)| *distance);
        first.filter(|_| most - least > 0.25 * (level.after - level.before))
    };
    let found: Vec<usize> = (0..timing.sweeps()).filter_map(|_| sweep(region)).collect();
    let agree = |line: &usize| 2 * found.iter().filter(|other| *other == line).count() > timing.sweeps();
    found.iter().find(|line| agree(line))?;
    Some(Measured::of(&found.iter().map(|line| *line as f64).collect::<Vec<_>>()))
}

/// Memory in pages of one size, as far as the system provides them.
pub struct Mapped {
    start: *mut u64,
    bytes: usize,
    mapped: (*mut libc::c_void, usize),
}

impl Mapped {
    pub fn new(bytes: usize, page: usize) -> Option<Mapped> {
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

    pub fn slots(&self) -> &[u64] {
        // SAFETY: `start` is aligned to 2 MiB, `bytes` were written when the mapping was created, and it lives as long
        // as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes / 8) }
    }

    fn slots_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `slots`, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes / 8) }
    }

    /// Links one line at every `stride` bytes, `lines` of them, into a random cycle.
    pub fn cycle(&mut self, lines: usize, stride: usize) {
        // The line varies within a stride, so that the lines of a cycle do not all fall into the same cache sets.
        let place = |i: u32| (i as usize * stride + (i as usize * LINE) % stride.min(SMALL_PAGE)) / 8;
        let order = shuffled(lines);
        let slots = self.slots_mut();
        // The walk begins at slot 0, which belongs to the first line.
        for (at, line) in order.iter().enumerate() {
            let next = order.get(at + 1).or(order.first()).copied().unwrap_or(0);
            slots[place(*line)] = place(next) as u64;
        }
    }

    /// Nanoseconds of two loads, of which the second is `distance` bytes behind the first. One pair is in every `block`
    /// bytes, in random order, and each load depends on the one before it.
    fn pairs(&mut self, bytes: usize, block: usize, distance: usize, timing: &Timing) -> f64 {
        let order = shuffled(bytes / block);
        let slots = self.slots_mut();
        let place = |i: u32| i as usize * block / 8;
        for (at, line) in order.iter().enumerate() {
            let next = order.get(at + 1).or(order.first()).copied().unwrap_or(0);
            slots[place(*line)] = (place(*line) + distance / 8) as u64;
            slots[place(*line) + distance / 8] = place(next) as u64;
        }
        let loads = if timing.is_quick() { 2000 } else { 20_000 };
        let (mut at, slots) = (0u64, self.slots());
        timing.fastest(|| {
            let mut here = at;
            for _ in 0..2 * loads {
                here = slots[here as usize];
            }
            at = black_box(here);
        }) / f64::from(loads)
    }

    /// Whether the kernel provided large pages for most of it.
    pub fn is_huge(&self) -> bool {
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

/// The numbers below `count` in random order, always the same.
fn shuffled(count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    (1..count).rev().for_each(|i| order.swap(i, random.below(i as u64) as usize));
    order
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
fn stream(region: &Mapped, largest: usize, timing: &Timing) -> Curve {
    let sizes = (14..=largest.ilog2()).step_by(2).map(|k| 1usize << k);
    let points = sizes.map(|bytes| {
        let slots = &region.slots()[..bytes / 8];
        let rounds = ((1 << 20) / bytes).max(1);
        let run = timing.measure(|| (0..rounds).for_each(|_| _ = black_box(sum(black_box(slots)))));
        (bytes as f64, run.scaled(1.0 / (rounds * bytes) as f64))
    });
    Curve::new(points.collect())
}

/// Bytes per nanosecond that several threads read together.
fn bandwidth(region: &Mapped, threads: usize, timing: &Timing) -> Curve {
    let slots = region.slots();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Translation, TranslationLevel};

    #[test]
    fn edges_near_the_reach_of_translation_are_named_and_not_dropped() {
        let edge = |bytes: f64| (Measured::exact(bytes), Edge { bytes, before: 1.0, after: 5.0 });
        let level = TranslationLevel { reach_bytes: Measured::exact(8.0e6), miss_ns: Measured::exact(9.0) };
        let mut hardware = crate::profile::Profile::assumed().hardware;
        hardware.translation = vec![Translation { page_bytes: 4096, levels: vec![level], granted: true }];
        let edges = vec![edge(32_768.0), edge(1.0e6), edge(7.0e6)];
        let (found, hidden) = without_translation(edges.clone(), &hardware, false);
        assert_eq!((found.len(), hidden.as_slice()), (2, &[7.0e6][..]));
        assert_eq!(without_translation(edges, &hardware, true).1, Vec::<f64>::new(), "large pages have another reach");
        assert!(reason_missing(8.0e6, 1.0e9, &hidden).starts_with("hidden by TLB: the jump at 6835 KiB"));
        assert!(reason_missing(64.0e6, 1.0e9, &hidden).starts_with("not found"));
        assert!(reason_missing(512.0e6, 1.0e9, &hidden).starts_with("not measured"));
    }
}
