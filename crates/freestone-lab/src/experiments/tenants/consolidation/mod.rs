//! Tenants that share the machine: Table 2 and Figure 5, at every level, with compressed and with plain columns.

mod verdicts;

use freestone_report::findings::{Cell, Lines, Part, Series, Table, significant, thousands};

use super::bench::{Bench, Case};
use super::databases::Encoding;
use super::options::{Burn, Isolation};
use super::paper;
use super::points::{Point, Spread, spread};
use super::probe::Calibrated;
use super::view::{broken, correctness, figure, levels_table, percent, slots};
use crate::Notify;
use crate::error::Result;
use crate::experiments::RunOptions;

const NAME: &str = "tenants-consolidation";
const SECONDS: f64 = 5.0;
const TENANTS: usize = 4;
/// The cores of a tenant, as far as the machine has them.
const CORES: [f64; 3] = [2.0, 1.0, 0.5];

/// A division of the machine into equal slots.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Division {
    cores: f64,
    slots: usize,
}

/// A row of Table 2: tenants, users of each, and burning slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    tenants: usize,
    load: Load,
    burning: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    Normal,
    High,
    Overload,
}

impl Load {
    const fn name(self) -> &'static str {
        match self {
            Load::Normal => "normal",
            Load::High => "high",
            Load::Overload => "overload",
        }
    }

    /// The users of a tenant: one per core, then half as many more and twice as many, as in the paper.
    fn users(self, cores: f64) -> usize {
        let normal = (cores.ceil() as usize).max(1);
        let step = normal.div_ceil(2);
        match self {
            Load::Normal => normal,
            Load::High => normal + step,
            Load::Overload => normal + 2 * step,
        }
    }
}

pub fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let mut bench = Bench::prepare(NAME, options, SECONDS, notify)?;
    let levels = bench.available()?;
    let tenants = options.tenants.tenants.unwrap_or(TENANTS);
    let divisions = divisions(bench.cpus.len(), tenants);
    let most = divisions.iter().map(|division| division.slots).max().unwrap_or(1);
    let burn = options.tenants.neighbours(&[Burn::Arithmetic]);
    bench.learn(most, &[Encoding::Compressed, Encoding::Plain])?;
    let calibrated = bench.calibrated(Isolation::Process)?;
    let cases = cases(&bench, &levels, &divisions, &burn, options.tenants.users);
    bench.expect(&cases);
    bench.measure(&cases)?;
    let databases = bench.check_rows()?;
    let parts = parts(&bench, &levels, &divisions, &burn, &calibrated, databases);
    bench.finish()?;
    Ok(parts)
}

/// The divisions of `cores` for at most `tenants`.
fn divisions(cores: usize, tenants: usize) -> Vec<Division> {
    let fits = |per_tenant: f64| {
        let slots = ((cores as f64 / per_tenant) as usize).min(tenants);
        (slots > 0).then_some(Division { cores: per_tenant, slots })
    };
    CORES.into_iter().filter_map(fits).collect()
}

/// The rows of Table 2 for a number of slots.
fn rows(slots: usize, burns: bool) -> Vec<Row> {
    let row = |tenants, load, burning| Row { tenants, load, burning };
    let mut rows = vec![row(1, Load::Normal, 0), row(1, Load::High, 0), row(1, Load::Overload, 0)];
    for tenants in 1..=slots {
        if tenants > 1 {
            rows.push(row(tenants, Load::Normal, 0));
        }
        // Burning slots next to a half, as in the paper.
        if burns && tenants == slots.div_ceil(2) {
            rows.extend((1..=slots - tenants).map(|burning| row(tenants, Load::Normal, burning)));
        }
    }
    if slots > 1 {
        rows.push(row(slots, Load::Overload, 0));
    }
    rows
}

impl Row {
    fn name(self) -> String {
        let tenants = if self.tenants == 1 { "tenant" } else { "tenants" };
        let burning = match self.burning {
            0 => String::new(),
            count => format!(" + {count} burning"),
        };
        format!("{} {tenants} {}{burning}", self.tenants, self.load.name())
    }
}

fn key(level: Isolation, encoding: Encoding, division: Division, row: Row, burn: Option<Burn>) -> String {
    let burn = burn.map_or(String::new(), |burn| format!(" ({burn})"));
    format!("{level}, {}, {} cores each, {}{burn}", encoding.name(), division.cores, row.name())
}

/// The cases of a level. Plain columns are measured in processes: what they add is bytes, at any level.
fn cases(
    bench: &Bench<'_>,
    levels: &[Isolation],
    divisions: &[Division],
    burn: &[Burn],
    users_most: Option<usize>,
) -> Vec<Case> {
    let mut cases = vec![];
    let compressed = levels.iter().map(|level| (*level, Encoding::Compressed));
    let plain = levels.contains(&Isolation::Process).then_some((Isolation::Process, Encoding::Plain));
    for (level, encoding) in compressed.chain(plain) {
        for division in divisions {
            for row in rows(division.slots, encoding == Encoding::Compressed) {
                let all = slots(&bench.cpus, division.cores, division.slots, bench.memory_of(1, encoding));
                let kinds: Vec<Option<Burn>> =
                    if row.burning == 0 { vec![None] } else { burn.iter().copied().map(Some).collect() };
                for kind in kinds {
                    let burning = all.iter().skip(row.tenants).take(row.burning);
                    let users = row.load.users(division.cores).min(users_most.unwrap_or(usize::MAX));
                    cases.push(Case {
                        level,
                        encoding,
                        slots: all[..row.tenants].to_vec(),
                        users,
                        burn: kind
                            .iter()
                            .flat_map(|kind| burning.clone().map(|slot| (*kind, slot.cpus.clone())))
                            .collect(),
                        name: key(level, encoding, *division, row, kind),
                    });
                }
            }
        }
    }
    cases
}

fn of(bench: &Bench<'_>, key: &str, figure: impl Fn(&Point) -> f64) -> Spread {
    spread(&bench.of(key), figure)
}

const fn plain_row(tenants: usize, load: Load) -> Row {
    Row { tenants, load, burning: 0 }
}

fn parts(
    bench: &Bench<'_>,
    levels: &[Isolation],
    divisions: &[Division],
    burn: &[Burn],
    calibrated: &Calibrated,
    databases: usize,
) -> Vec<Part> {
    let text = format!(
        "SSB at scale {} in memory for each tenant, each with rows of its own seed; {} s per measurement after a warm-up, {} \
         repetitions, cases in turn. Normal load is one user per core of the tenant, high and overload are more. Half a core is a \
         quota of control groups, which processes without groups do not have. Users run on the same cores. {}",
        bench.scale,
        bench.seconds,
        bench.options.repetitions(),
        correctness(bench, databases)
    );
    let mut parts = vec![
        Part::section("Tenants at each level", text),
        levels_table(bench, &Isolation::ALL),
        Part::checks(verdicts::claims(bench, levels, divisions, burn, calibrated)),
        paper_table(),
    ];
    for division in divisions {
        parts.extend(figure_5(bench, levels, *division));
    }
    parts.extend(shared_against_processes(bench, divisions));
    parts.extend(encodings(bench, divisions, calibrated));
    for level in levels {
        parts.extend(divisions.iter().map(|division| table_2(bench, *level, Encoding::Compressed, *division, burn)));
    }
    parts.extend(broken(bench));
    parts
}

fn paper_table() -> Part {
    let header = ["configuration", "machines", "users of each", "mean, ms", "queries/s"];
    let mut table = Table::new("Table 2 as printed: Xen on an Intel Xeon E5450, 8 cores, 2 per machine", 1, &header);
    for (name, machines, users, ms, rate) in paper::TABLE_2 {
        table.push([name.to_owned(), machines.to_string(), users.to_string(), significant(ms), significant(rate)]);
    }
    Part::Table(table)
}

/// Our Table 2 of one level and division, with the paper's growth next to ours where it has the row.
fn table_2(bench: &Bench<'_>, level: Isolation, encoding: Encoding, division: Division, burn: &[Burn]) -> Part {
    let title =
        format!("Table 2: {level}, {} columns, {} slots of {} cores", encoding.name(), division.slots, division.cores);
    let header = [
        "configuration",
        "users of each",
        "mean, ms",
        "p95, ms",
        "queries/s",
        "against 1 normal",
        "paper",
        "memory, MB",
    ];
    let mut table = Table::new(title, 1, &header);
    let base =
        of(bench, &key(level, encoding, division, plain_row(1, Load::Normal), None), |point| point.mean_ms).median;
    for row in rows(division.slots, true) {
        let kinds: Vec<Option<Burn>> =
            if row.burning == 0 { vec![None] } else { burn.iter().copied().map(Some).collect() };
        for kind in kinds {
            let key = key(level, encoding, division, row, kind);
            let mean = of(bench, &key, |point| point.mean_ms);
            let growth = mean.median / base;
            let name = kind.map_or(row.name(), |kind| format!("{} ({kind})", row.name()));
            table.push([
                Cell::from(name),
                Cell::from(row.load.users(division.cores).to_string()),
                figure(mean),
                figure(of(bench, &key, |point| point.p95_ms)),
                figure(of(bench, &key, |point| point.throughput)),
                Cell::from(if growth.is_finite() { format!("{growth:.2}") } else { "-".into() }),
                Cell::from(paper_growth(row).map_or("-".into(), |growth| format!("{growth:.2}"))),
                Cell::from(thousands((of(bench, &key, |point| point.resident_bytes as f64).median / 1e6) as i64)),
            ]);
        }
    }
    Part::Table(table)
}

/// The paper's response time of a row, relative to one machine at normal load.
fn paper_growth(row: Row) -> Option<f64> {
    let burn = match row.burning {
        0 => String::new(),
        1 => " + 1 VM burn".into(),
        count => format!(" + {count} VMs burn"),
    };
    let machines = if row.tenants == 1 { "VM" } else { "VMs" };
    let name = format!("{} {machines} {}{burn}", row.tenants, row.load.name());
    let found = paper::TABLE_2.iter().find(|of| of.0 == name)?;
    Some(found.3 / paper::TABLE_2[0].3)
}

/// The growth of the mean response time from one tenant to `tenants` at normal load. `None` without figures.
fn growth(bench: &Bench<'_>, level: Isolation, encoding: Encoding, division: Division, tenants: usize) -> Option<f64> {
    let ms = |tenants| {
        of(bench, &key(level, encoding, division, plain_row(tenants, Load::Normal), None), |point| point.mean_ms).median
    };
    let ratio = ms(tenants) / ms(1);
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

fn figure_5(bench: &Bench<'_>, levels: &[Isolation], division: Division) -> Option<Part> {
    if division.slots < 2 {
        return None;
    }
    let of_level = |level: &Isolation, encoding: Encoding, label: String| {
        let values: Option<Vec<f64>> =
            (1..=division.slots).map(|tenants| growth(bench, *level, encoding, division, tenants)).collect();
        values.map(|values| Series::new(label, values))
    };
    let mut series: Vec<Series> =
        levels.iter().filter_map(|level| of_level(level, Encoding::Compressed, level.name().into())).collect();
    let paper: Option<Vec<f64>> = (1..=division.slots).map(paper::growth).collect();
    series.extend(paper.map(|values| Series::new("E5450", values)));
    // The text gives only the bound.
    let bound = (1..=division.slots).map(|tenants| if tenants == 1 { 1.0 } else { paper::X5650_GROWTH });
    series.push(Series::new("X5650 at most", bound.collect()));
    Some(Part::Lines(Lines {
        title: format!("Figure 5: response time with {} cores per tenant", division.cores),
        x_label: "tenants at normal load".into(),
        y_label: "times that of one tenant".into(),
        x: (1..=division.slots).map(|tenants| tenants as f64).collect(),
        series,
        mark: None,
    }))
}

/// One process for all against a process each, with as many tenants as fill the machine.
fn shared_against_processes(bench: &Bench<'_>, divisions: &[Division]) -> Option<Part> {
    let header = [
        "tenants",
        "as",
        "queries/s",
        "mean, ms",
        "p95, ms",
        "memory, MB",
        "CPU, ms/query",
        "kernel",
        "switches/query",
    ];
    let mut table =
        Table::new("One process for all tenants against a process each, normal load on all cores", 2, &header);
    for division in divisions {
        for level in [Isolation::Shared, Isolation::Process] {
            let key = key(level, Encoding::Compressed, *division, plain_row(division.slots, Load::Normal), None);
            if bench.of(&key).is_empty() {
                continue;
            }
            let of = |figure: fn(&Point) -> f64| of(bench, &key, figure);
            table.push([
                Cell::from(division.slots.to_string()),
                Cell::from(level.name()),
                figure(of(|point| point.throughput)),
                figure(of(|point| point.mean_ms)),
                figure(of(|point| point.p95_ms)),
                Cell::from(thousands((of(|point| point.resident_bytes as f64).median / 1e6) as i64)),
                figure(of(Point::cpu_ms)),
                Cell::from(percent(of(Point::kernel_share).median)),
                figure(of(|point| point.switches as f64 / point.queries.max(1) as f64)),
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(Part::Table(table))
}

/// Compressed against plain columns: bytes that queries use, and the growth of response times.
fn encodings(bench: &Bench<'_>, divisions: &[Division], calibrated: &Calibrated) -> Option<Part> {
    let header =
        ["columns", "cores each", "tenants", "mean, ms", "queries/s", "MB/query", "GB/s", "of the bandwidth", "growth"];
    let mut table =
        Table::new("Bytes that queries use, by the engine's counters, a process each at normal load", 1, &header);
    for encoding in [Encoding::Compressed, Encoding::Plain] {
        for division in divisions {
            for tenants in [1, division.slots] {
                let key = key(Isolation::Process, encoding, *division, plain_row(tenants, Load::Normal), None);
                if bench.of(&key).is_empty() || (tenants == 1 && division.slots == 1 && tenants != division.slots) {
                    continue;
                }
                let moved = of(bench, &key, |point| point.moved).median;
                let grown = growth(bench, Isolation::Process, encoding, *division, tenants);
                table.push([
                    Cell::from(encoding.name()),
                    Cell::from(division.cores.to_string()),
                    Cell::from(tenants.to_string()),
                    figure(of(bench, &key, |point| point.mean_ms)),
                    figure(of(bench, &key, |point| point.throughput)),
                    Cell::from(significant(bench.bytes_per_query(encoding) / 1e6)),
                    Cell::from(significant(moved / 1e9)),
                    Cell::from(percent(moved / calibrated.most().max(1.0))),
                    Cell::from(grown.map_or("-".into(), |grown| format!("{grown:.2}"))),
                ]);
                if division.slots == 1 {
                    break;
                }
            }
        }
    }
    (!table.rows.is_empty()).then_some(Part::Table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_divided_as_far_as_it_goes() {
        let of = |cores, tenants| {
            divisions(cores, tenants).iter().map(|division| (division.cores, division.slots)).collect::<Vec<_>>()
        };
        assert_eq!(of(2, 4), [(2.0, 1), (1.0, 2), (0.5, 4)]);
        assert_eq!(of(8, 4), [(2.0, 4), (1.0, 4), (0.5, 4)]);
        assert_eq!(of(1, 4), [(1.0, 1), (0.5, 2)]);
    }

    #[test]
    fn four_slots_have_the_papers_rows() {
        let found: Vec<(usize, &str, usize)> =
            rows(4, true).iter().map(|row| (row.tenants, row.load.name(), row.burning)).collect();
        let expected = [
            (1, "normal", 0),
            (1, "high", 0),
            (1, "overload", 0),
            (2, "normal", 0),
            (2, "normal", 1),
            (2, "normal", 2),
            (3, "normal", 0),
            (4, "normal", 0),
            (4, "overload", 0),
        ];
        assert_eq!(found, expected);
        assert_eq!(rows(1, true).len(), 3);
        assert!(rows(4, true).iter().all(|row| paper_growth(*row).is_some()));
        let users =
            [Load::Normal, Load::High, Load::Overload].map(|load| [2.0, 1.0, 0.5].map(|cores| load.users(cores)));
        assert_eq!(users, [[2, 1, 1], [3, 2, 2], [4, 3, 3]]);
    }
}
