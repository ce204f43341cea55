//! Rows and columns in memory at each level of isolation: Figures 1 and 2 of Grund et al. 2010.

use super::options::Isolation;
use super::probe::LaidOut;
use crate::experiments::memory_layouts::{COUNTS, SHARES};
use freestone_report::findings::{Check, Lines, Part, Series, significant};

const PLACE: &str = "Grund et al. 2010, 3.3.2";
/// The layouts, in the order of the figures.
const LAYOUTS: [&str; 2] = ["row", "column"];
/// What a level may take longer before it counts as an overhead, in percent: repetitions differ by as much.
const TOLERANCE_PERCENT: f64 = 10.0;

/// The figures of a level.
pub type OfLevel<'a> = (Isolation, &'a LaidOut);

/// Figure 1a at each level, and what the levels take longer than the bare process (Figures 1b, 1c and 2).
pub fn parts(levels: &[OfLevel<'_>]) -> Vec<Part> {
    let counts = COUNTS.map(|count| count as f64);
    let mut parts = vec![chart(
        "Figure 1a: projectivity at each level",
        ("attributes read, of 100", "ms"),
        &counts,
        levels.iter().flat_map(|(level, found)| named(*level, |layout| line(&found.projectivity, layout))),
    )];
    let Some((_, bare)) = levels.iter().find(|(level, _)| *level == Isolation::Process) else { return parts };
    let others = || levels.iter().filter(|(level, _)| *level != Isolation::Process);
    if others().next().is_none() {
        return parts;
    }
    parts.push(chart(
        "Figures 1b and 1c: overhead of projectivity against the bare process",
        ("attributes read, of 100", "%"),
        &counts,
        others().flat_map(|(level, found)| named(*level, |at| overhead(&bare.projectivity, &found.projectivity, at))),
    ));
    parts.push(chart(
        "Figure 2: overhead of selectivity against the bare process",
        ("share of the tuples", "%"),
        &SHARES,
        others().flat_map(|(level, found)| named(*level, |at| overhead(&bare.selectivity, &found.selectivity, at))),
    ));
    parts
}

/// Whether a level reads memory as fast as the bare process.
pub fn claims(levels: &[OfLevel<'_>]) -> Vec<Check> {
    let Some((_, bare)) = levels.iter().find(|(level, _)| *level == Isolation::Process) else { return vec![] };
    let claim = |(level, found): &OfLevel<'_>| {
        let mean = |before: &[[f64; 2]], after: &[[f64; 2]]| {
            let of: Vec<f64> = (0..LAYOUTS.len()).flat_map(|layout| overhead(before, after, layout)).collect();
            of.iter().sum::<f64>() / of.len().max(1) as f64
        };
        let [projected, selected] =
            [mean(&bare.projectivity, &found.projectivity), mean(&bare.selectivity, &found.selectivity)];
        Check::new(
            format!("{level}: projections and selections behave as on the bare process (within {TOLERANCE_PERCENT} %)"),
            projected.abs() <= TOLERANCE_PERCENT && selected.abs() <= TOLERANCE_PERCENT,
            format!("projections take {} % longer, selections {} %", significant(projected), significant(selected)),
        )
        .claimed(format!("{PLACE}, Figures 1 and 2"))
        .or_because("the levels are measured one after the other, and other load on the machine changes meanwhile")
    };
    levels.iter().filter(|(level, _)| *level != Isolation::Process).map(claim).collect()
}

fn line(times: &[[f64; 2]], layout: usize) -> Vec<f64> {
    times.iter().map(|of_point| of_point[layout]).collect()
}

/// Percent that a layout takes longer, by point.
fn overhead(before: &[[f64; 2]], after: &[[f64; 2]], layout: usize) -> Vec<f64> {
    let percent = |(before, after): (&[f64; 2], &[f64; 2])| 100.0 * (after[layout] / before[layout].max(1e-9) - 1.0);
    before.iter().zip(after).map(percent).collect()
}

fn named(level: Isolation, of: impl Fn(usize) -> Vec<f64>) -> Vec<Series> {
    LAYOUTS.iter().enumerate().map(|(at, layout)| Series::new(format!("{layout}, {level}"), of(at))).collect()
}

fn chart(title: &str, (x_label, y_label): (&str, &str), x: &[f64], series: impl Iterator<Item = Series>) -> Part {
    Part::Lines(Lines {
        title: title.into(),
        x_label: x_label.into(),
        y_label: y_label.into(),
        x: x.to_vec(),
        series: series.collect(),
        mark: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_compared_with_the_bare_process() {
        let found = |factor: f64| LaidOut {
            projectivity: COUNTS.map(|count| [factor * 10.0, factor * count as f64]).to_vec(),
            selectivity: SHARES.map(|share| [factor * share, factor * 2.0 * share]).to_vec(),
        };
        let (bare, alike, slow) = (found(1.0), found(1.05), found(1.5));
        let levels = [(Isolation::Process, &bare), (Isolation::Cgroup, &alike), (Isolation::Container, &slow)];
        let holds: Vec<bool> = claims(&levels).iter().map(|check| check.holds).collect();
        assert_eq!(holds, [true, false]);
        let parts = parts(&levels);
        let charts: Vec<&Lines> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Lines(chart) => Some(chart),
                _ => None,
            })
            .collect();
        assert_eq!(charts.iter().map(|chart| chart.series.len()).collect::<Vec<_>>(), [6, 4, 4]);
        assert!(
            charts[1].series[2].values.iter().all(|percent| (percent - 50.0).abs() < 1e-6),
            "{:?}",
            charts[1].series[2]
        );
        assert!(charts.iter().all(|chart| chart.series.iter().all(|series| series.values.len() == chart.x.len())));
        assert_eq!(super::parts(&levels[..1]).len(), 1, "one level has no overhead");
    }
}
