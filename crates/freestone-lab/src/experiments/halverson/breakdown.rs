//! Figures 9 to 12: where the time of a scan goes, measured next to predicted.

use freestone_report::findings::{Part, Stack, StackGroup, Stacks, thousands};

use super::model::Predicted;
use super::{Case, Measured};

pub(super) const TEXT: &str = "Measured: the disk is what a cold scan takes longer than a hot one. Hot times are split by the columns scanned: what each further \
     column adds is local work, and what is left without any column is iteration (least squares over the figure's points). \
     Predicted: the model's three parts.";

/// Milliseconds of iteration and of local work per column scanned: the line through hot times by number of columns.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Split {
    iteration: f64,
    per_column: f64,
}

impl Split {
    fn of(points: &[(f64, f64)]) -> Split {
        let count = points.len().max(1) as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let (across, along) = points.iter().fold((0.0, 0.0), |(across, along), point| {
            (across + (point.0 - x) * (point.1 - y), along + (point.0 - x).powi(2))
        });
        let per_column = if along > 0.0 { (across / along).max(0.0) } else { 0.0 };
        Split { iteration: (y - per_column * x).max(0.0), per_column }
    }
}

/// A group per scan of Figures 9 to 12: two bars for each layout.
pub(super) fn stacks(measured: &Measured, predicted: &[Predicted<'_>]) -> Part {
    let Measured { narrow, wide, sixteen, .. } = measured;
    let figures = [(sixteen, 0), (sixteen, sixteen.len() - 1), (narrow, narrow.len() - 1), (wide, wide.len() - 1)];
    let groups = figures.into_iter().map(|(cases, at)| group(cases, at, predicted)).collect();
    Part::Stacks(Stacks {
        title: "Disk, iteration and local work, measured and predicted".into(),
        unit: "ms".into(),
        parts: ["disk", "iteration", "local"].map(str::to_owned).into(),
        groups,
    })
}

fn group(cases: &[Vec<Case>], at: usize, predicted: &[Predicted<'_>]) -> StackGroup {
    let bars = cases[at].iter().enumerate().flat_map(|(layout, case)| {
        let points: Vec<(f64, f64)> =
            cases.iter().map(|of| (of[layout].scanned as f64, of[layout].measured.hot_ms)).collect();
        let split = Split::of(&points);
        // The fit divides the hot time; its error belongs to neither part.
        let local = (split.per_column * case.scanned as f64).min(case.measured.hot_ms);
        let measured = vec![case.disk_ms(), case.measured.hot_ms - local, local];
        let model = predicted.iter().find(|p| p.is_of(case)).map_or(vec![], |p| p.parts_ms().to_vec());
        let design = case.stored.design;
        [(format!("{design}, measured"), measured), (format!("{design}, predicted"), model)]
    });
    let case = &cases[at][0];
    StackGroup {
        label: format!("{} of {} columns", case.scanned, case.stored.columns),
        note: format!("{} rows, cold", thousands(case.stored.rows() as i64)),
        bars: bars.map(|(label, values)| Stack { label, values }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_times_are_divided_by_what_each_column_adds() {
        let split = Split::of(&[(1.0, 7.0), (2.0, 9.0), (4.0, 13.0)]);
        assert!((split.iteration - 5.0).abs() < 1e-9 && (split.per_column - 2.0).abs() < 1e-9, "{split:?}");
        assert_eq!(Split::of(&[(4.0, 3.0)]), Split { iteration: 3.0, per_column: 0.0 });
        assert_eq!(Split::of(&[(1.0, 3.0), (2.0, 1.0)]).per_column, 0.0, "noise is no negative work");
    }
}
