//! Where latencies rise from one level of memory to the next, by times alone: nothing here knows what the system reports.

use crate::profile::Measured;

/// A flat part of a curve grows by less than this factor while the region doubles.
const FLAT: f64 = 1.15;
/// Flat parts of different levels differ by at least this factor.
const STEP: f64 = 1.35;
/// Shares of a rise. A cache that replaces the oldest line, of which random pages share the sets, misses half of the loads
/// in a region of its size; 10 %, 30 % and 60 % are missed in 0.58, 0.79 and 1.04 times its size. One that replaces
/// lines at random misses 1 - size / region: in 1.11, 1.43 and 2.5 times its size.
const RISE: [f64; 3] = [0.1, 0.3, 0.6];
/// The second half of a rise is longer than the first by this factor if lines are replaced at random: (2.5 / 1.43) /
/// (1.43 / 1.11) is 1.36, and 0.97 in the other case.
const RANDOM: f64 = 1.17;
/// A rise that takes longer is gradual, and has no end of a level: neighbours on the machine use a part of the cache.
const GRADUAL: f64 = 3.0;
/// The time of a level rises by this factor at the begin of its end, which is not far before the first share of the rise.
const BEGIN: f64 = 1.25;
const BEGIN_DISTANCE: f64 = 1.5;
/// A level is only found in regions of at least this many times its size, so that what lies behind it is seen, too.
pub const REGION_FACTOR: f64 = 4.0;
/// Repetitions of one measurement agree if they differ by less than this factor. Slower ones were disturbed.
const AGREE: f64 = 1.1;
/// Edges of different repetitions are the same one if they differ by less than this factor.
const SAME_EDGE: f64 = 1.5;

/// Latencies in nanoseconds by bytes of a region, ascending.
pub type Latencies = Vec<(f64, f64)>;

/// The end of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// The largest region in bytes that the level holds.
    pub bytes: f64,
    /// The latency within the level.
    pub before: f64,
    /// The latency behind it.
    pub after: f64,
}

/// A measurement without its disturbed repetitions: of the fastest that another one agrees with, and all that agree with
/// it. `None` if no two agree.
pub fn agreed(samples: &[f64]) -> Option<Measured> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let first = sorted.windows(2).position(|pair| pair[1] <= pair[0] * AGREE)?;
    let limit = sorted[first] * AGREE;
    Some(Measured::of(&sorted[first..sorted.partition_point(|sample| *sample <= limit)]))
}

/// The levels that most repetitions show: the bytes of each with the spread over the repetitions, and its edge in the
/// fastest times of all repetitions.
pub fn agreed_edges(sweeps: &[Latencies]) -> Vec<(Measured, Edge)> {
    let own: Vec<Vec<Edge>> = sweeps.iter().map(|sweep| edges(sweep)).collect();
    let near = |edge: &Edge, of: &[Edge]| {
        let distance = |other: &&Edge| (other.bytes / edge.bytes).ln().abs();
        let nearest = of.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        (distance(&nearest) < SAME_EDGE.ln()).then_some(nearest.bytes)
    };
    let found = edges(&fastest(sweeps)).into_iter().filter_map(|edge| {
        let sizes: Vec<f64> = own.iter().filter_map(|edges| near(&edge, edges)).collect();
        (2 * sizes.len() > sweeps.len()).then(|| (Measured::of(&sizes), edge))
    });
    found.collect()
}

/// The fastest time of every region over all repetitions, which all have the same regions.
pub fn fastest(sweeps: &[Latencies]) -> Latencies {
    let Some((first, rest)) = sweeps.split_first() else { return vec![] };
    let least = |(at, (bytes, ns)): (usize, &(f64, f64))| {
        (*bytes, rest.iter().filter_map(|sweep| sweep.get(at)).fold(*ns, |least, (_, ns)| least.min(*ns)))
    };
    first.iter().enumerate().map(least).collect()
}

/// The ends of levels: where a flat part is followed by a higher one, or by a rise to the end.
pub fn edges(latencies: &[(f64, f64)]) -> Vec<Edge> {
    let points = without_peaks(latencies);
    let Some((end, _)) = points.last().copied() else { return vec![] };
    let mut parts = flat_parts(&points);
    if parts.last().is_some_and(|part| part.1 + 1 < points.len()) {
        parts.push((points.len() - 1, points.len() - 1));
    }
    let mut found = vec![];
    let mut from = 0;
    for pair in parts.windows(2) {
        let (near, far) = (pair[0], pair[1]);
        let [before, after] = [near, far].map(|part| middle(&points[part.0..=part.1]));
        if after < before * STEP {
            continue;
        }
        let bytes = end_of_level(&points[from.max(near.0)..], before, after);
        from = far.0;
        if let Some(bytes) = bytes.filter(|bytes| bytes * REGION_FACTOR <= end) {
            found.push(Edge { bytes, before, after });
        }
    }
    found
}

/// The size of a level with the latency `before`, from the shape of the rise behind it. `None` if the rise is gradual.
fn end_of_level(points: &[(f64, f64)], before: f64, after: f64) -> Option<f64> {
    let at = |share: f64| crossing(points, before + share * (after - before));
    let [first, second, third] = RISE.map(at);
    if third > first * GRADUAL || first > crossing(points, before * BEGIN) * BEGIN_DISTANCE {
        return None;
    }
    let is_random = third / second > second / first * RANDOM;
    Some(if is_random { first * (1.0 - RISE[0]) } else { at(0.5) })
}

/// The latencies without single slow ones: a larger region is never faster.
fn without_peaks(latencies: &[(f64, f64)]) -> Latencies {
    let mut points = latencies.to_vec();
    let mut least = f64::INFINITY;
    for (_, ns) in points.iter_mut().rev() {
        least = least.min(*ns);
        *ns = least;
    }
    points
}

/// First and last point of each flat part, which is at least one doubling of the region.
fn flat_parts(points: &[(f64, f64)]) -> Vec<(usize, usize)> {
    let mut parts: Vec<(usize, usize)> = vec![];
    for (at, (bytes, ns)) in points.iter().enumerate() {
        let doubled = points.partition_point(|(other, _)| *other < bytes * 1.999);
        if points.get(doubled).is_none_or(|(_, then)| *then > ns * FLAT) {
            continue;
        }
        match parts.last_mut() {
            Some(part) if part.1 >= at => part.1 = doubled,
            _ => parts.push((at, doubled)),
        }
    }
    parts
}

fn middle(points: &[(f64, f64)]) -> f64 {
    let mut ns: Vec<f64> = points.iter().map(|(_, ns)| *ns).collect();
    ns.sort_by(f64::total_cmp);
    ns.get(ns.len() / 2).copied().unwrap_or(0.0)
}

/// Where ascending latencies cross a limit, on a logarithmic scale of bytes.
fn crossing(points: &[(f64, f64)], limit: f64) -> f64 {
    let behind = points.partition_point(|(_, ns)| *ns <= limit);
    match (behind.checked_sub(1).and_then(|at| points.get(at)), points.get(behind)) {
        (Some((left, low)), Some((right, high))) => left * (right / left).powf((limit - low) / (high - low)),
        (Some((only, _)), None) | (None, Some((only, _))) => *only,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(largest: u32) -> impl Iterator<Item = f64> {
        (4 * 12..=4 * largest).map(|k| (f64::from(k) / 4.0).exp2())
    }

    /// Latencies of caches of these sizes and times. `random`: whether they replace lines at random.
    fn latencies(caches: &[(f64, f64)], memory: f64, largest: u32, random: bool) -> Latencies {
        let ns = |bytes: f64| {
            caches.iter().rev().fold(memory, |behind, (size, ns)| {
                let hits = match bytes <= *size {
                    true => 1.0,
                    false => f64::from(u8::from(random)) * size / bytes,
                };
                hits * ns + (1.0 - hits) * behind
            })
        };
        sizes(largest).map(|bytes| (bytes, ns(bytes))).collect()
    }

    fn check(caches: &[(f64, f64)], random: bool, largest: u32) {
        let found = edges(&latencies(caches, 100.0, largest, random));
        assert_eq!(found.len(), caches.len(), "{found:?}");
        for (edge, (bytes, _)) in found.iter().zip(caches) {
            assert!((edge.bytes / bytes).max(bytes / edge.bytes) < 1.2, "{edge:?} is not {bytes}");
        }
    }

    #[test]
    fn levels_are_found_where_latency_jumps() {
        check(&[(32768.0, 1.0), (1048576.0, 5.0)], false, 26);
        check(&[(49152.0, 1.2), (1310720.0, 4.0), (31457280.0, 20.0)], false, 27);
        check(&[(32768.0, 1.0), (1048576.0, 5.0), (33554432.0, 15.0)], true, 28);
        assert_eq!(edges(&latencies(&[], 100.0, 20, false)), []);
        assert_eq!(edges(&[]), []);
    }

    #[test]
    fn a_region_that_is_too_small_shows_no_level() {
        let caches = [(32768.0, 1.0), (1048576.0, 5.0), (33554432.0, 15.0)];
        let found = edges(&latencies(&caches, 100.0, 25, false));
        assert_eq!(found.len(), 2, "the third level ends at the end of the region: {found:?}");
        let found = edges(&latencies(&caches, 100.0, 26, false));
        assert_eq!(found.len(), 2, "a region of twice the level: {found:?}");
    }

    #[test]
    fn a_cache_of_which_neighbours_use_a_part_is_not_found() {
        // Measured while other programs ran: the second cache leaks from half its size on, and the third shows nowhere.
        let ns = [
            (12.0, 1.35),
            (13.0, 1.35),
            (14.0, 1.35),
            (15.0, 1.47),
            (16.0, 4.07),
            (17.0, 4.07),
            (18.0, 4.07),
            (19.0, 5.14),
            (20.0, 9.0),
            (21.0, 16.0),
            (22.0, 73.0),
            (23.0, 122.0),
            (24.0, 146.0),
            (25.0, 158.0),
            (26.0, 160.0),
            (27.0, 161.0),
        ];
        let found = edges(&ns.map(|(bytes, ns): (f64, f64)| (bytes.exp2(), ns)));
        assert_eq!(found.len(), 1, "only the first: {found:?}");
        assert!((found[0].bytes / 32768.0 - 1.0).abs() < 0.5, "as near as the points are: {found:?}");
    }

    #[test]
    fn a_cache_whose_pages_share_sets_is_found() {
        // The shares that miss in 0.5, 0.75, 1 and 1.25 times the size: Poisson, 8 pages per set.
        let shares = [(0.25, 0.0), (0.5, 0.05), (0.75, 0.256), (1.0, 0.547), (1.25, 0.78), (1.5, 0.91), (2.0, 0.99)];
        let inside = (12..=18).map(|k| (f64::from(k).exp2(), 4.0));
        let rise = shares.map(|(size, share)| (size * 1048576.0, 4.0 + 11.0 * share));
        let behind = (22..=24).map(|k| (f64::from(k).exp2(), 15.0));
        let latencies: Latencies = inside.chain(rise.into_iter().skip(1)).chain(behind).collect();
        let found = edges(&latencies);
        assert!(found.len() == 1 && (found[0].bytes / 1048576.0 - 1.0).abs() < 0.15, "{found:?}");
    }

    #[test]
    fn a_rise_without_a_flat_part_is_no_level() {
        let rising: Latencies = sizes(24).map(|bytes| (bytes, bytes.powf(0.4))).collect();
        assert_eq!(edges(&rising), []);
    }

    #[test]
    fn repetitions_have_to_agree() {
        assert_eq!(agreed(&[1.0, 1.05, 9.0]).map(|found| (found.value, found.high)), Some((1.05, 1.05)));
        assert_eq!(
            agreed(&[0.5, 1.0, 1.05]).map(|found| found.low),
            Some(1.0),
            "one fast time is as odd as a slow one"
        );
        assert_eq!(agreed(&[1.0, 2.0, 4.0]), None);
        assert_eq!(agreed(&[]), None);
        let caches = [(32768.0, 1.0), (1048576.0, 5.0)];
        let (good, other) = (latencies(&caches, 80.0, 25, false), latencies(&caches[..1], 5.0, 25, false));
        let found = agreed_edges(&[good.clone(), good.clone(), other.clone()]);
        assert_eq!(found.len(), 1, "of the second level, the fastest times show nothing: {found:?}");
        let disturbed: Latencies = good.iter().map(|(bytes, ns)| (*bytes, ns * 3.0)).collect();
        assert_eq!(agreed_edges(&[good.clone(), disturbed, good]).len(), 2);
    }

    proptest! {
        #[test]
        fn slow_repetitions_move_no_edge(
            l1 in 14u32..17, l2 in 19u32..22, peaks in prop::collection::vec((0usize..60, 1.5f64..20.0), 0..12)
        ) {
            let caches = [(f64::from(1u32 << l1), 1.0), (f64::from(1u32 << l2), 4.5)];
            let good = latencies(&caches, 90.0, 25, true);
            let mut noisy = good.clone();
            for (at, factor) in peaks {
                // Not at the end, which nothing larger corrects.
                let at = at.min(noisy.len() - 8);
                if let Some((_, ns)) = noisy.get_mut(at) {
                    *ns *= factor;
                }
            }
            let found = agreed_edges(&[noisy, good.clone(), good.clone()]);
            let expected = edges(&good);
            prop_assert_eq!(found.iter().map(|(_, edge)| *edge).collect::<Vec<_>>(), expected);
        }
    }
}
