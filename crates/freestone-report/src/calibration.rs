//! The results of calibration, as tables and plots.

use freestone_advisor::Profile;
use freestone_advisor::profile::{Curve, DiskPoint};

use crate::Host;
use crate::findings::{Cell, Findings, Lines, Part, Series, Table};

/// The profile of a machine as findings.
pub fn findings(profile: &Profile, versions: &str) -> Findings {
    Findings {
        name: "calibration".into(),
        title: "What this machine costs".into(),
        question: "Latencies, bandwidths and the costs of scans that predictions are made of.".into(),
        source: "Grund et al. 2010, section 3.2; Halverson et al. 2006, section 4".into(),
        command: "freestone calibrate".into(),
        host: Host::here(versions),
        seconds: profile.seconds,
        parts: parts(profile),
    }
}

/// The profile's table, and its plots.
pub fn parts(profile: &Profile) -> Vec<Part> {
    let plots = charts(profile).into_iter().map(Part::Lines);
    std::iter::once(Part::Table(table(profile))).chain(plots).collect()
}

fn table(profile: &Profile) -> Table {
    let mut table = Table::new("", 2, &["topic", "what", "value", "low", "high", "unit", "reported"]);
    for row in profile.rows() {
        let reported = row.reported.clone().unwrap_or_default();
        let figures = [row.value, row.low, row.high].map(figure);
        let [value, low, high] = figures;
        let cells = [row.topic.to_owned(), row.name.clone(), value, low, high, row.unit.to_owned(), reported];
        table.push(cells.map(Cell::from));
    }
    table
}

/// A number with three significant digits.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value == value.trunc() => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn charts(profile: &Profile) -> Vec<Lines> {
    let hardware = &profile.hardware;
    let mut charts = vec![
        lines(
            "A load from a random cycle",
            "kilobytes of the region",
            "ns",
            1.0 / 1024.0,
            &[("miss", &hardware.miss), ("replace", &hardware.replace)],
        ),
        lines("Chains of loads at once", "chains", "ns a load", 1.0, &[("load", &hardware.parallelism)]),
        lines("Reading memory in order", "threads", "GB/s", 1.0, &[("read", &hardware.bandwidth)]),
    ];
    if let Some(disk) = &hardware.disk {
        charts.extend([disk_lines("Disk, in order", &disk.sequential), disk_lines("Disk, at random", &disk.random)]);
    }
    charts.retain(|chart| chart.x.len() > 1);
    charts
}

/// Curves at the points of the first.
fn lines(title: &str, x_label: &str, y_label: &str, x_unit: f64, curves: &[(&str, &Curve)]) -> Lines {
    let at: Vec<f64> = curves.first().map_or(vec![], |(_, curve)| curve.points.iter().map(|(x, _)| *x).collect());
    let series = curves
        .iter()
        .map(|(label, curve)| Series { label: (*label).to_owned(), values: at.iter().map(|x| curve.at(*x)).collect() });
    Lines {
        title: title.into(),
        x_label: x_label.into(),
        y_label: y_label.into(),
        series: series.collect(),
        x: at.iter().map(|x| x * x_unit).collect(),
        mark: None,
    }
}

/// Megabytes per second by depth, with a line for each request size that was measured at all depths.
fn disk_lines(title: &str, points: &[DiskPoint]) -> Lines {
    let sorted = |of: fn(&DiskPoint) -> u64| {
        let mut all: Vec<u64> = points.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let (units, depths) = (sorted(|p| p.unit), sorted(|p| u64::from(p.depth)));
    let rate = |unit: u64, depth: u64| {
        let point = points.iter().find(|p| p.unit == unit && u64::from(p.depth) == depth)?;
        Some(unit as f64 / point.ns.value.max(f64::MIN_POSITIVE) * 1e3)
    };
    let series = units.iter().filter_map(|unit| {
        let values = depths.iter().map(|depth| rate(*unit, *depth)).collect::<Option<Vec<f64>>>()?;
        Some(Series { label: format!("{} KiB", unit >> 10), values })
    });
    Lines {
        title: title.into(),
        x_label: "reads in flight".into(),
        y_label: "MB/s".into(),
        series: series.collect(),
        x: depths.iter().map(|depth| *depth as f64).collect(),
        mark: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assumed_profile_has_a_table_and_says_that_it_is_assumed() {
        let found = findings(&Profile::assumed(), "test");
        let Some(Part::Table(table)) = found.parts.first() else { panic!("a table comes first") };
        assert!(table.rows.len() > 20);
        assert!(table.rows.iter().any(|row| row.iter().any(|cell| cell.text.contains("assumed"))));
    }
}
