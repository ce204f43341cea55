//! A tenant next to one neighbour, and the bytes that both move, compared with the bandwidth of memory.

use freestone_report::findings::{Bar, BarGroup, Bars, Cell, Check, Part, TIE, Table, significant};

use super::bench::{Bench, Case};
use super::databases::Encoding;
use super::options::{Burn, Isolation};
use super::paper;
use super::points::{Point, Spread, spread};
use super::probe::Calibrated;
use super::view::{PLACE, broken, correctness, figure, levels_table, percent, slots};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::RunOptions;

const NAME: &str = "tenants-interference";
const SECONDS: f64 = 5.0;
/// The tolerated relative change of a figure that should not change.
const SAME: f64 = 0.10;
/// The share of the bandwidth from which on the bus counts as the limit.
const SATURATED: f64 = 0.8;

/// What runs on the other half of the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbour {
    Nothing,
    Burn(Burn),
    Tenant,
}

impl Neighbour {
    fn name(self) -> &'static str {
        match self {
            Neighbour::Nothing => "nothing",
            Neighbour::Burn(burn) => burn.name(),
            Neighbour::Tenant => "another tenant",
        }
    }
}

pub fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let mut bench = Bench::prepare(NAME, options, SECONDS, notify)?;
    if bench.cpus.len() < 2 {
        return Err(LabError::Usage("a neighbour needs a core of its own, and this process has one core".into()));
    }
    let levels = bench.available()?;
    let mut neighbours = vec![Neighbour::Nothing];
    neighbours.extend(options.tenants.neighbours(&Burn::ALL).into_iter().map(Neighbour::Burn));
    neighbours.push(Neighbour::Tenant);
    let encodings = [Encoding::Compressed, Encoding::Plain];
    bench.learn(2, &encodings)?;
    let calibrated = bench.calibrated(Isolation::Process)?;
    let mut cases = vec![];
    for (level, encoding) in of_levels(&levels) {
        cases.extend(
            neighbours.iter().map(|neighbour| case(&bench, level, encoding, *neighbour, options.tenants.users)),
        );
    }
    bench.expect(&cases);
    bench.measure(&cases)?;
    let databases = bench.check_rows()?;
    let parts = parts(&bench, &levels, &neighbours, &calibrated, databases);
    bench.finish()?;
    Ok(parts)
}

/// Compressed columns at every level, and plain ones in processes.
fn of_levels(levels: &[Isolation]) -> Vec<(Isolation, Encoding)> {
    let compressed = levels.iter().map(|level| (*level, Encoding::Compressed));
    let plain = levels.contains(&Isolation::Process).then_some((Isolation::Process, Encoding::Plain));
    compressed.chain(plain).collect()
}

fn key(level: Isolation, encoding: Encoding, neighbour: Neighbour) -> String {
    format!("{level}, {}, next to {}", encoding.name(), neighbour.name())
}

fn case(bench: &Bench<'_>, level: Isolation, encoding: Encoding, neighbour: Neighbour, users: Option<usize>) -> Case {
    let half = (bench.cpus.len() / 2).max(1);
    let all = slots(&bench.cpus, half as f64, 2, bench.memory_of(1, encoding));
    let tenants = if neighbour == Neighbour::Tenant { 2 } else { 1 };
    let burn = match neighbour {
        Neighbour::Burn(burn) => vec![(burn, all[1].cpus.clone())],
        Neighbour::Nothing | Neighbour::Tenant => vec![],
    };
    let users = users.unwrap_or(half);
    Case { level, encoding, slots: all[..tenants].to_vec(), users, burn, name: key(level, encoding, neighbour) }
}

fn of(bench: &Bench<'_>, key: &str, figure: impl Fn(&Point) -> f64) -> Spread {
    spread(&bench.of(key), figure)
}

fn mean_ms(bench: &Bench<'_>, level: Isolation, encoding: Encoding, neighbour: Neighbour) -> f64 {
    of(bench, &key(level, encoding, neighbour), |point| point.mean_ms).median
}

/// How many times as long as alone. `None` without figures.
fn slowdown(bench: &Bench<'_>, level: Isolation, encoding: Encoding, neighbour: Neighbour) -> Option<f64> {
    let ratio = mean_ms(bench, level, encoding, neighbour) / mean_ms(bench, level, encoding, Neighbour::Nothing);
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

fn parts(
    bench: &Bench<'_>,
    levels: &[Isolation],
    neighbours: &[Neighbour],
    calibrated: &Calibrated,
    databases: usize,
) -> Vec<Part> {
    let half = (bench.cpus.len() / 2).max(1);
    let text = format!(
        "SSB at scale {} in memory; the tenant has {half} of {} cores and as many users, the neighbour has the others; {} s per \
         measurement, {} repetitions. Bytes are those that the queries use by the engine's counters (bytes per query × rate, the \
         paper's estimate), and those that the neighbour itself counts. The calibrator reads {} GB/s with one thread and {} GB/s \
         with all. {}",
        bench.scale,
        bench.cpus.len(),
        bench.seconds,
        bench.options.repetitions(),
        significant(calibrated.one() / 1e9),
        significant(calibrated.most() / 1e9),
        correctness(bench, databases)
    );
    let mut parts = vec![
        Part::section("A tenant and its neighbour", text),
        levels_table(bench, &Isolation::ALL),
        Part::checks(claims(bench, levels, neighbours, calibrated)),
        bars(bench, levels, neighbours),
        bytes(bench, calibrated),
    ];
    parts.extend(
        of_levels(levels).into_iter().map(|(level, encoding)| table(bench, level, encoding, neighbours, calibrated)),
    );
    parts.extend(broken(bench));
    parts
}

fn bars(bench: &Bench<'_>, levels: &[Isolation], neighbours: &[Neighbour]) -> Part {
    let group = |(level, encoding): (Isolation, Encoding)| BarGroup {
        label: format!("{level}, {} columns", encoding.name()),
        note: "mean response time of the tenant, or of both tenants".into(),
        bars: neighbours
            .iter()
            .map(|neighbour| Bar {
                is_reference: *neighbour == Neighbour::Nothing,
                ..Bar::new(neighbour.name(), mean_ms(bench, level, encoding, *neighbour))
            })
            .collect(),
    };
    let groups = of_levels(levels).into_iter().map(group).collect();
    Part::Bars(Bars { title: "Response time next to each neighbour".into(), unit: "ms".into(), tie: TIE, groups })
}

fn table(
    bench: &Bench<'_>,
    level: Isolation,
    encoding: Encoding,
    neighbours: &[Neighbour],
    calibrated: &Calibrated,
) -> Part {
    let header = [
        "next to",
        "mean, ms",
        "p95, ms",
        "queries/s",
        "slowdown",
        "queries, GB/s",
        "neighbour, GB/s",
        "of the bandwidth",
    ];
    let mut table = Table::new(format!("{level}, {} columns", encoding.name()), 1, &header);
    for neighbour in neighbours {
        let key = key(level, encoding, *neighbour);
        let moved = of(bench, &key, |point| point.moved).median;
        let others = of(bench, &key, |point| point.neighbour_moved).median;
        let slower = slowdown(bench, level, encoding, *neighbour);
        table.push([
            Cell::from(neighbour.name()),
            figure(of(bench, &key, |point| point.mean_ms)),
            figure(of(bench, &key, |point| point.p95_ms)),
            figure(of(bench, &key, |point| point.throughput)),
            Cell::from(slower.map_or("-".into(), |slower| format!("{slower:.2}"))),
            Cell::from(significant(moved / 1e9)),
            Cell::from(significant(others / 1e9)),
            Cell::from(percent((moved + others) / calibrated.most().max(1.0))),
        ]);
    }
    Part::Table(table)
}

/// The paper's estimate next to ours.
fn bytes(bench: &Bench<'_>, calibrated: &Calibrated) -> Part {
    let header = ["of", "MB/query", "one tenant, GB/s", "bandwidth, GB/s", "tenants that fill it"];
    let mut table = Table::new("The bus: bytes per query × rate", 1, &header);
    for encoding in [Encoding::Compressed, Encoding::Plain] {
        let moved = of(bench, &key(Isolation::Process, encoding, Neighbour::Nothing), |point| point.moved).median;
        if moved > 0.0 {
            table.push([
                format!("here, {} columns", encoding.name()),
                significant(bench.bytes_per_query(encoding) / 1e6),
                significant(moved / 1e9),
                significant(calibrated.most() / 1e9),
                significant(calibrated.most() / moved),
            ]);
        }
    }
    let [bus, machine] = paper::BUS;
    let figures = [machine / 1e9, bus / 1e9, bus / machine].map(significant);
    let [machine, bus, filled] = figures;
    table.push(["paper, Intel Xeon E5450".to_owned(), "-".into(), machine, bus, filled]);
    Part::Table(table)
}

fn claims(bench: &Bench<'_>, levels: &[Isolation], neighbours: &[Neighbour], calibrated: &Calibrated) -> Vec<Check> {
    let mut checks = vec![];
    for level in levels {
        if neighbours.contains(&Neighbour::Burn(Burn::Arithmetic)) {
            checks.extend(of_arithmetic(bench, *level));
        }
        checks.extend(of_memory(bench, *level, neighbours, calibrated));
    }
    checks.extend(of_bus(bench, calibrated));
    checks
}

fn of_arithmetic(bench: &Bench<'_>, level: Isolation) -> Option<Check> {
    let slower = slowdown(bench, level, Encoding::Compressed, Neighbour::Burn(Burn::Arithmetic))?;
    Some(
        Check::new(
            format!("{level}: a neighbour that only computes changes nothing"),
            (slower - 1.0).abs() <= SAME,
            format!("{slower:.2} times the response time"),
        )
        .claimed(format!("{PLACE}, 3.4.3, Table 2"))
        .or_because(
            "the clients run on the neighbour's core when it is idle, and share the tenant's core when it is not",
        ),
    )
}

fn of_memory(bench: &Bench<'_>, level: Isolation, neighbours: &[Neighbour], calibrated: &Calibrated) -> Option<Check> {
    let base = slowdown(bench, level, Encoding::Compressed, Neighbour::Burn(Burn::Arithmetic)).unwrap_or(1.0);
    let kinds = neighbours
        .iter()
        .filter(|neighbour| !matches!(neighbour, Neighbour::Nothing | Neighbour::Burn(Burn::Arithmetic)));
    let mut text = vec![];
    let mut found: Vec<(f64, f64)> = vec![];
    for kind in kinds {
        let slower = slowdown(bench, level, Encoding::Compressed, *kind)?;
        let key = key(level, Encoding::Compressed, *kind);
        let all = of(bench, &key, |point| point.moved + point.neighbour_moved).median;
        if *kind != Neighbour::Tenant {
            found.push((all, slower / base));
        }
        text.push(format!(
            "{} {slower:.2} times at {} of the bandwidth",
            kind.name(),
            percent(all / calibrated.most().max(1.0))
        ));
    }
    let most = found.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let saturated = most.0 / calibrated.most().max(1.0) >= SATURATED;
    let note = if saturated { "" } else { "; no neighbour saturates the memory of this machine" };
    Some(
        Check::new(
            format!("{level}: neighbours that move bytes through the memory bus slow a tenant down, more than ones that compute"),
            most.1 > 1.0 + SAME / 2.0,
            format!("{}{note}; computing {base:.2} times", text.join(", ")),
        )
        .claimed(format!("{PLACE}, 3.4.3"))
        .or_because("compressed columns need little of the bandwidth, and the memory serves both"),
    )
}

fn of_bus(bench: &Bench<'_>, calibrated: &Calibrated) -> Option<Check> {
    let moved =
        |encoding, neighbour| of(bench, &key(Isolation::Process, encoding, neighbour), |point| point.moved).median;
    let two = moved(Encoding::Compressed, Neighbour::Tenant);
    let two_plain = moved(Encoding::Plain, Neighbour::Tenant);
    (two > 0.0).then(|| {
        let share = two.max(two_plain) / calibrated.most().max(1.0);
        Check::new(
            "when all slots run queries, the bandwidth of memory is the limit (8 GB/s, of which a machine needs 2)",
            share >= SATURATED,
            format!(
                "two tenants use {} GB/s compressed and {} GB/s plain, at most {} of {} GB/s",
                significant(two / 1e9),
                significant(two_plain / 1e9),
                percent(share),
                significant(calibrated.most() / 1e9)
            ),
        )
        .claimed(format!("{PLACE}, 3.4.3"))
        .or_because(
            "pruned zones and packed values leave few bytes to read, and the cores of this machine cannot saturate its memory with them",
        )
    })
}
