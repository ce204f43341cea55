//! The results of calibration, as tables and plots.

use freestone_advisor::Profile;
use freestone_advisor::profile::{CacheLevel, Curve, DiskPoint, Family, Form, Kernel, Operation};

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

/// What a profile says in five lines: caches, memory, disk, decoding, and how far to trust it.
pub fn conclusions(profile: &Profile) -> [String; 5] {
    [caches(profile), memory(profile), disk(profile), decoding(profile), trust(profile)]
}

fn caches(profile: &Profile) -> String {
    let caches = &profile.hardware.caches;
    if caches.is_empty() {
        return "caches     none was found".into();
    }
    let size = |bytes: f64| match bytes {
        bytes if bytes >= 1048576.0 => format!("{} MiB", figure(bytes / 1048576.0)),
        bytes => format!("{} KiB", figure(bytes / 1024.0)),
    };
    let level = |cache: &CacheLevel| match (cache.bytes, cache.reported_bytes) {
        (Some(bytes), _) => format!("L{} {}", cache.level, size(bytes.value)),
        (None, Some(reported)) => format!("L{} {} (as reported)", cache.level, size(reported as f64)),
        (None, None) => format!("L{} of unknown size", cache.level),
    };
    let levels: Vec<String> = caches.iter().map(level).collect();
    let memory = match profile.hardware.parallelism.points.first() {
        Some((_, load)) => format!("a load from memory takes {} ns", figure(load.value)),
        None => "loads from memory were not measured".into(),
    };
    format!("caches     {}; {memory}", levels.join(", "))
}

fn memory(profile: &Profile) -> String {
    let bandwidth = &profile.hardware.bandwidth;
    let one = bandwidth.at(1.0);
    match bandwidth.last() {
        Some((threads, all)) if threads > 1.0 => {
            format!("memory     {} GB/s with one thread, {} GB/s with {threads:.0}", figure(one), figure(all.value))
        }
        Some(_) => format!("memory     {} GB/s", figure(one)),
        None => "memory     not measured".into(),
    }
}

fn disk(profile: &Profile) -> String {
    let Some(disk) = &profile.hardware.disk else { return "disk       not measured".into() };
    let megabytes = |point: &DiskPoint| point.unit as f64 / point.ns.value * 1e3;
    let in_order = disk.sequential.iter().map(megabytes).fold(0.0, f64::max);
    let at_random = disk.random.iter().map(|point| 1e9 / point.ns.value).fold(0.0, f64::max);
    let direct = if disk.direct { "" } else { "; through the system's cache, because the folder allows nothing else" };
    format!(
        "disk       reads {} MB/s in order, {} times a second at random; writes {} MB/s durably{direct}",
        figure(in_order),
        figure(at_random),
        figure(1e3 / disk.write.value.max(f64::MIN_POSITIVE))
    )
}

fn decoding(profile: &Profile) -> String {
    let rate = |form: Form, family: Family, operation: Operation| {
        let kernels = profile.engine.kernels.iter();
        let of_kind = |k: &&Kernel| (k.form, k.family, k.operation) == (form, family, operation);
        let fastest = kernels.filter(of_kind).map(|k| k.ns.at(1.0)).filter(|ns| *ns > 0.0).reduce(f64::min);
        fastest.map_or("an unknown number".into(), |ns| figure(1e3 / ns))
    };
    format!(
        "scans      one thread decodes {} million packed integers a second and tests {} million; in tuples it decodes {} million",
        rate(Form::Chunk, Family::BitPack, Operation::Decode),
        rate(Form::Chunk, Family::BitPack, Operation::Filter),
        rate(Form::Dense, Family::BitPack, Operation::Decode)
    )
}

fn trust(profile: &Profile) -> String {
    let spread = profile.hardware.spread.value * 100.0;
    let verdict = match spread {
        spread if spread < 5.0 => "the machine was quiet",
        spread if spread < 20.0 => "usable; other work or neighbours changed the figures",
        _ => "the machine was busy: calibrate again when it is idle",
    };
    format!("trust      the same scan varied by {} %: {verdict}", figure(spread))
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
        let figures = row.measured.map(|found| [found.value, found.low, found.high].map(figure));
        let [value, low, high] = figures.unwrap_or_default();
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
    let series =
        curves.iter().map(|(label, curve)| Series::new((*label).to_owned(), at.iter().map(|x| curve.at(*x)).collect()));
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
        Some(Series::new(format!("{} KiB", unit >> 10), values))
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
