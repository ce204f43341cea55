//! What the paper claims of tenants that share a machine, next to what was measured.

use freestone_report::findings::{Check, significant};

use super::super::bench::Bench;
use super::super::databases::Encoding;
use super::super::options::{Burn, Isolation};
use super::super::paper;
use super::super::points::Point;
use super::super::probe::Calibrated;
use super::super::view::{PLACE, percent};
use super::{Division, Load, Row, growth, key, of, plain_row};

/// The tolerated relative change of a figure that should not change.
const SAME: f64 = 0.10;
/// The tolerated difference of two levels' response times.
const ALIKE: f64 = 0.20;

/// The paper's claims, and one of this project, with the figures of a run.
pub fn claims(
    bench: &Bench<'_>,
    levels: &[Isolation],
    divisions: &[Division],
    burn: &[Burn],
    calibrated: &Calibrated,
) -> Vec<Check> {
    let mut checks = vec![];
    for level in levels {
        checks.extend(of_load(bench, *level, divisions));
        checks.extend(of_burning(bench, *level, divisions, burn));
        checks.extend(of_growth(bench, *level, divisions, calibrated));
    }
    checks.extend(of_bytes(bench, divisions, calibrated));
    checks.push(of_levels(bench, levels, divisions));
    checks.extend(divisions.iter().filter_map(|division| of_sharing(bench, *division)));
    checks
}

/// One process for all against a process each, with the reason from what both used.
fn of_sharing(bench: &Bench<'_>, division: Division) -> Option<Check> {
    let of = |level: Isolation, figure: fn(&Point) -> f64| {
        let key = key(level, Encoding::Compressed, division, plain_row(division.slots, Load::Normal), None);
        of(bench, &key, figure).median
    };
    let both = |figure: fn(&Point) -> f64| [of(Isolation::Shared, figure), of(Isolation::Process, figure)];
    let [shared, each] = both(|point| point.throughput);
    if shared <= 0.0 || each <= 0.0 {
        return None;
    }
    let text = |figure: fn(&Point) -> f64| both(figure).map(significant).join(" against ");
    let switches = text(|point| point.switches as f64 / point.queries.max(1) as f64);
    let tenants = if division.slots == 1 { "1 tenant".to_owned() } else { format!("{} tenants", division.slots) };
    Some(
        Check::new(
            format!("{tenants}: one process answers as many queries per second as a process each"),
            shared >= each * (1.0 - SAME / 2.0),
            format!(
                "{} per second; p95 {} ms; memory {} MB",
                text(|point| point.throughput),
                text(|point| point.p95_ms),
                text(|point| point.resident_bytes as f64 / 1e6)
            ),
        )
        .or_because(format!(
            "a query takes {} ms of processor time, {} % of all in the kernel, and {switches} changes of threads",
            text(Point::cpu_ms),
            text(|point| point.kernel_share() * 100.0)
        )),
    )
}

fn of_load(bench: &Bench<'_>, level: Isolation, divisions: &[Division]) -> Option<Check> {
    let division = *divisions.first()?;
    let at = |load: Load, figure: fn(&Point) -> f64| {
        of(bench, &key(level, Encoding::Compressed, division, plain_row(1, load), None), figure).median
    };
    let loads = [Load::Normal, Load::High, Load::Overload];
    let rates = loads.map(|load| at(load, |point| point.throughput));
    let times = loads.map(|load| at(load, |point| point.mean_ms));
    if rates.iter().any(|rate| *rate <= 0.0) {
        return None;
    }
    let users = loads.map(|load| load.users(division.cores) as f64);
    let is_same = (rates[2] / rates[0] - 1.0).abs() <= SAME;
    let grows = times[2] / times[0] >= users[2] / users[0] * 0.8;
    let text = (0..3)
        .map(|at| format!("{} users: {} queries/s, {} ms", users[at], significant(rates[at]), significant(times[at])));
    Some(
        Check::new(
            format!("{level}: more users than cores change the response time and not the throughput (2.46, 2.57, 2.56 per second)"),
            is_same && grows,
            text.collect::<Vec<_>>().join("; "),
        )
        .claimed(format!("{PLACE}, 3.4.3, Table 2"))
        .or_because(
            "with one user per core, a core is idle while its client reads an answer and sends the next query; further users fill these \
             gaps",
        ),
    )
}

fn of_burning(bench: &Bench<'_>, level: Isolation, divisions: &[Division], burn: &[Burn]) -> Option<Check> {
    let division = *divisions.iter().find(|division| division.slots > 1 && division.cores >= 1.0)?;
    let tenants = division.slots.div_ceil(2);
    let idle =
        of(bench, &key(level, Encoding::Compressed, division, plain_row(tenants, Load::Normal), None), |point| {
            point.mean_ms
        });
    let mut text = vec![format!("idle {} ms", significant(idle.median))];
    if idle.median <= 0.0 {
        return None;
    }
    let mut is_same = true;
    let mut last = String::new();
    for kind in burn {
        for burning in 1..=division.slots - tenants {
            let row = Row { tenants, load: Load::Normal, burning };
            last = key(level, Encoding::Compressed, division, row, Some(*kind));
            let ms = of(bench, &last, |point| point.mean_ms).median;
            if ms <= 0.0 {
                // Broken, as the table says.
                continue;
            }
            is_same &= (ms / idle.median - 1.0).abs() <= SAME;
            text.push(format!("{burning} × {kind} {} ms", significant(ms)));
        }
    }
    (text.len() > 1).then(|| {
        Check::new(
            format!("{level}: neighbours that burn cycles change nothing (917, 909 and 916 ms)"),
            is_same,
            format!("{tenants} of {} slots of {} cores: {}", division.slots, division.cores, text.join(", ")),
        )
        .claimed(format!("{PLACE}, 3.4.3, Table 2"))
        .or_because(load_of(bench, &last))
    })
}

/// What else needed the processors in a case.
fn load_of(bench: &Bench<'_>, key: &str) -> String {
    let clients = of(bench, key, |point| point.client_seconds / point.seconds.max(f64::MIN_POSITIVE)).median;
    let other = of(bench, key, |point| point.other_share).median;
    format!(
        "clients needed {} of a core meanwhile, and other programs {} of the machine",
        percent(clients),
        percent(other)
    )
}

fn of_growth(bench: &Bench<'_>, level: Isolation, divisions: &[Division], calibrated: &Calibrated) -> Option<Check> {
    let division = *divisions.iter().find(|division| division.slots > 1 && division.cores >= 1.0)?;
    let grown = growth(bench, level, Encoding::Compressed, division, division.slots)?;
    let key = key(level, Encoding::Compressed, division, plain_row(division.slots, Load::Normal), None);
    let moved = of(bench, &key, |point| point.moved).median;
    let share = moved / calibrated.most().max(1.0);
    let saturation =
        if share < 0.5 { "; the cores of this machine cannot saturate its memory with these queries" } else { "" };
    let old = paper::growth(4).unwrap_or(1.6);
    Some(
        Check::new(
            format!(
                "{level}: with all slots busy, response times grow by little on a processor with memory controllers of its own (to {:.2} \
                 times at most, after {old:.2} times on the one before)",
                paper::X5650_GROWTH
            ),
            grown <= paper::X5650_GROWTH + 0.04,
            format!(
                "{grown:.2} times with {} tenants of {} cores; queries use {} GB/s, {} of the bandwidth{saturation}",
                division.slots,
                division.cores,
                significant(moved / 1e9),
                percent(share)
            ),
        )
        .claimed(format!("{PLACE}, 3.4.3, Figure 5"))
        .or_because(if share < 0.5 {
            format!("the bus is not the limit, as its share shows: {}", load_of(bench, &key))
        } else {
            "the bus is the limit".into()
        }),
    )
}

fn of_bytes(bench: &Bench<'_>, divisions: &[Division], calibrated: &Calibrated) -> Option<Check> {
    let division = *divisions.iter().find(|division| division.slots > 1 && division.cores >= 1.0)?;
    let grown = |encoding| growth(bench, Isolation::Process, encoding, division, division.slots);
    let (compressed, plain) = (grown(Encoding::Compressed)?, grown(Encoding::Plain)?);
    let row = plain_row(division.slots, Load::Normal);
    let moved =
        |encoding| of(bench, &key(Isolation::Process, encoding, division, row, None), |point| point.moved).median;
    let shares = [Encoding::Compressed, Encoding::Plain].map(|encoding| moved(encoding) / calibrated.most().max(1.0));
    let bytes = [Encoding::Compressed, Encoding::Plain].map(|encoding| bench.bytes_per_query(encoding));
    Some(
        Check::new(
            "response times of more tenants grow with the bytes that their queries move",
            plain > compressed,
            format!(
                "with {} tenants {compressed:.2} times at {} MB per query, {} of the bandwidth; {plain:.2} times at {} MB, {}",
                division.slots,
                significant(bytes[0] / 1e6),
                percent(shares[0]),
                significant(bytes[1] / 1e6),
                percent(shares[1])
            ),
        )
        .claimed(format!("{PLACE}, 3.4.3"))
        .or_because("neither moves enough bytes for the memory of this machine to be the limit"),
    )
}

/// Claimed in the paper and not measured there: the bus sees no difference between the levels.
fn of_levels(bench: &Bench<'_>, levels: &[Isolation], divisions: &[Division]) -> Check {
    let statement = "a process each, a virtual machine each and one process for all are alike for the memory bus";
    let place = format!("{PLACE}, 3.4.3 (claimed, not measured)");
    let division = divisions.iter().find(|division| division.slots > 1 && division.cores >= 1.0);
    let found: Vec<(Isolation, f64)> = levels
        .iter()
        .filter_map(|level| Some((*level, growth(bench, *level, Encoding::Compressed, *division?, division?.slots)?)))
        .collect();
    let missing: Vec<String> = Isolation::ALL
        .into_iter()
        .filter(|level| levels.iter().all(|found| found != level))
        .filter_map(|level| Some(format!("{level} not measured: {}", bench.levels.missing(level)?)))
        .collect();
    if found.len() < 2 {
        return Check::unmeasured(statement, missing.join("; ")).claimed(place);
    }
    let least = found.iter().map(|(_, grown)| *grown).fold(f64::INFINITY, f64::min);
    let most = found.iter().map(|(_, grown)| *grown).fold(0.0, f64::max);
    let text: Vec<String> = found.iter().map(|(level, grown)| format!("{level} {grown:.2}")).chain(missing).collect();
    Check::new(
        statement,
        most / least <= 1.0 + ALIKE,
        format!("growth of the response time with all slots busy: {}", text.join(", ")),
    )
    .claimed(place)
    .or_because("in one process, a lone tenant's queries have the threads of all slots")
}
