//! The paper's statements about its figures, compared with the measurements here.

use super::PAPER_DISK;
use super::scans::Measured;
use super::sweep::{Clock, Sweep};
use crate::experiments::published;
use freestone_report::findings::{Check, significant};

const PAPER: &str = "Holloway and DeWitt 2008";

/// The tolerated distance of a crossing from the paper's, as a share of the table's columns.
const TOLERANCE: f64 = 0.2;

/// Every claim of sections 6.2 to 6.7, and that of slotted pages.
pub fn claims(measured: &Measured) -> Vec<Check> {
    let mut checks = claims_of_dense_pages(measured);
    checks.extend(measured.narrow_e.as_ref().map(slotted_never_wins));
    checks
}

/// Every claim of sections 6.2 to 6.7.
pub fn claims_of_dense_pages(measured: &Measured) -> Vec<Check> {
    let mut checks = vec![];
    let Measured { narrow_e, narrow_s, wide_e, narrow_u, .. } = measured;
    if let Some(narrow_e) = narrow_e {
        checks.extend(crossings(narrow_e));
        checks.extend(rows_are_insensitive(narrow_e));
        checks.push(columns_need_more_processor(narrow_e));
        checks.push(best_leads(narrow_e, measured.is_vectorized));
    }
    checks.extend(narrow_s.iter().flat_map(crossings));
    checks.extend(wide_e.iter().flat_map(crossings));
    checks.extend(wide_e.as_ref().map(wide_rows_need_columns));
    checks.extend(narrow_u.iter().flat_map(crossings));
    checks.extend(predicates(measured));
    checks.extend(measured.strings.as_ref().map(strings_wait_for_the_disk));
    checks
}

/// Every crossing of a table that the paper states.
fn crossings(sweep: &Sweep) -> Vec<Check> {
    let Some(published) = published::crossings(sweep.plan.table) else { return vec![] };
    published.points.iter().map(|(percent, share)| crossing(sweep, *percent, *share, published.place)).collect()
}

/// Whether columns are faster up to the same share of the columns as in the paper.
fn crossing(sweep: &Sweep, percent: f64, share: f64, place: &str) -> Check {
    let of = sweep.columns() as f64;
    let [cold, hot, paper] = [Clock::Cold, Clock::Hot, Clock::PaperDisk].map(|clock| sweep.crossing(percent, clock));
    let name = sweep.plan.table.name();
    let published = match share {
        0.0 => "never".to_owned(),
        share => format!("up to {:.0} of {of} columns", share * of),
    };
    let within = |columns: f64| (columns - share * of).abs() <= TOLERANCE * of;
    let statement = format!(
        "{name}, {percent} % of the rows{}: columns are ahead {published} (± {:.0})",
        sweep.plan.note,
        TOLERANCE * of
    );
    let detail = format!(
        "up to {cold:.1} cold at {:.0} MB/s, {hot:.1} hot; {paper:.1} computed for {PAPER_DISK} MB/s",
        sweep.bandwidth
    );
    Check::new(statement, within(cold), detail).claimed(format!("{PAPER}, {place}")).or_because(why_elsewhere(
        sweep,
        percent,
        within(paper),
    ))
}

/// The reason why a crossing is elsewhere: the disk, if the paper's disk would move it to the right place, otherwise
/// the processor.
fn why_elsewhere(sweep: &Sweep, percent: f64, paper_disk_explains: bool) -> String {
    let faster = sweep.bandwidth / PAPER_DISK;
    if paper_disk_explains {
        return format!(
            "this disk is {faster:.0} times as fast as the paper's {PAPER_DISK} MB/s, with which it would hold; {}",
            costs(sweep, percent)
        );
    }
    let further = |design: &str| {
        let line = sweep.times(percent, design, Clock::Processor);
        let columns = (sweep.plan.counts.last().unwrap_or(&2) - 1).max(1) as f64;
        let rise = line.last().unwrap_or(&0.0) - line.first().unwrap_or(&0.0);
        significant(sweep.ns_a_tuple(rise) / columns)
    };
    format!(
        "a further column costs {} ns of processor a tuple from columns and {} ns from rows, where the paper's column store paid \
         several times what its row store did; {}",
        further("column"),
        further("row"),
        costs(sweep, percent)
    )
}

/// The parts of a scan's time here, from the figures at the two ends of the lines.
fn costs(sweep: &Sweep, percent: f64) -> String {
    let ends = |design: &str| {
        let line = sweep.line(percent, design);
        let [first, last] = [line.first(), line.last()].map(|point| point.copied().unwrap_or_default());
        let ns = |ms: f64| significant(sweep.ns_a_tuple(ms));
        let disk = |bytes: f64| significant(bytes / sweep.bandwidth / sweep.rows as f64 * 1e3);
        let (cpu_one, cpu_all) = (ns(first.cpu_ms), ns(last.cpu_ms));
        format!("{cpu_one} to {cpu_all} ns of processor and {} to {} ns of disk", disk(first.bytes), disk(last.bytes))
    };
    format!("from one to all columns, a tuple costs rows {}, columns {}", ends("row"), ends("column"))
}

/// The maximum divided by the minimum.
fn spread(values: &[f64]) -> f64 {
    let greatest = values.iter().copied().fold(0.0, f64::max);
    greatest / values.iter().copied().fold(f64::INFINITY, f64::min).max(1e-9)
}

fn rows_are_insensitive(sweep: &Sweep) -> [Check; 2] {
    let rows = |percents: &[f64]| -> Vec<f64> {
        percents.iter().flat_map(|percent| sweep.times(*percent, "row", Clock::Cold)).collect()
    };
    let columns: Vec<f64> =
        [0.1, 1.0].iter().map(|percent| sweep.times(*percent, "column", Clock::Cold).iter().sum()).collect();
    let few = rows(&[0.1, 1.0, 10.0]);
    let why = costs(sweep, 10.0);
    let place = format!("{PAPER}, 6.2, Figure 2");
    [
        Check::new(
            "Narrow-E, up to 10 % of the rows: the row store's time depends little on columns and selectivity (within a quarter)",
            spread(&few) <= 1.25,
            format!("cold, the slowest takes {:.2} times the fastest", spread(&few)),
        )
        .claimed(place.clone())
        .or_because(format!("the disk does not hide the processor's work here: {why}")),
        Check::new(
            "Narrow-E: the column store takes as long for 0.1 % of the rows as for 1 % (within 15 %)",
            spread(&columns) <= 1.15,
            format!("cold, all points together: {:.2} times as long", columns[1] / columns[0].max(1e-9)),
        )
        .claimed(place)
        .or_because(why),
    ]
}

fn columns_need_more_processor(sweep: &Sweep) -> Check {
    let cpu = |design: &str| sweep.times(10.0, design, Clock::ColdProcessor);
    let growth = |times: &[f64]| times.last().unwrap_or(&0.0) / times.first().unwrap_or(&0.0).max(1e-9);
    let (row, column) = (growth(&cpu("row")), growth(&cpu("column")));
    Check::new(
        "Narrow-E, 10 % of the rows: from one to ten columns the column store's processor time grows more than the row store's",
        column > row,
        format!("columns {column:.1} times, rows {row:.1} times"),
    )
    .claimed(format!("{PAPER}, 6.2, Figure 3"))
    .or_because("both decode only the columns of the query, and the row store has as many values to decode")
}

fn best_leads(sweep: &Sweep, is_vectorized: bool) -> Check {
    let ratios = sweep.plan.percents.iter().flat_map(|percent| {
        let times = |design: &str| sweep.times(*percent, design, Clock::Cold);
        times("row").into_iter().zip(times("column")).map(|(row, column)| row / column.max(1e-9)).collect::<Vec<_>>()
    });
    let ratios: Vec<f64> = ratios.collect();
    let best = ratios.iter().copied().fold(0.0, f64::max);
    let worst = 1.0 / ratios.iter().copied().fold(f64::INFINITY, f64::min).max(1e-9);
    Check::new(
        "Narrow-E: the row store's greatest lead (about 5 times) exceeds the column store's (about 2 times)",
        worst > best,
        format!("cold, rows lead by up to {worst:.1} times, columns by up to {best:.1} times"),
    )
    .claimed(format!("{PAPER}, 6.2, Figure 2"))
    .or_because(match is_vectorized {
        true => format!(
            "columns are decoded many values at a time here, values of a row one by one: {}",
            costs(sweep, 50.0)
        ),
        false => costs(sweep, 50.0),
    })
}

fn slotted_never_wins(sweep: &Sweep) -> Check {
    let points = sweep.plan.percents.iter().flat_map(|percent| {
        let times = |design: &str| sweep.times(*percent, design, Clock::Cold);
        times("slotted").into_iter().zip(times("column")).map(|(slotted, column)| slotted < column).collect::<Vec<_>>()
    });
    let wins: Vec<bool> = points.collect();
    let count = wins.iter().filter(|wins| **wins).count();
    Check::new(
        "Narrow-E: rows on slotted pages never beat columns",
        count == 0,
        format!("cold, they do at {count} of {} points", wins.len()),
    )
    .claimed(format!("{PAPER}, 7"))
    .or_because(format!(
        "slotted values lie at their natural width and need no decoding, and the disk has {:.0} MB/s: many columns of many rows \
         cost less to copy than to decode",
        sweep.bandwidth
    ))
}

fn wide_rows_need_columns(sweep: &Sweep) -> Check {
    let least = sweep.plan.percents.iter().map(|percent| sweep.crossing(*percent, Clock::Cold));
    let least = least.fold(f64::INFINITY, f64::min);
    Check::new(
        "Wide-E: for fewer than twelve of fifty columns the row store is always slower",
        least >= 12.0,
        format!("cold, the least crossing is at {least:.1} columns"),
    )
    .claimed(format!("{PAPER}, 6.4, Figure 5"))
    .or_because(costs(sweep, 50.0))
}

fn predicates(measured: &Measured) -> Vec<Check> {
    let Measured { narrow_e: Some(narrow_e), three_left: Some(three_left), three_random: Some(three_random), .. } =
        measured
    else {
        return vec![];
    };
    let place = || format!("{PAPER}, 6.6, Figure 7");
    let mut checks = vec![];
    for (percent, share) in [(0.1, 0.7), (10.0, 0.2)] {
        checks.push(crossing(three_random, percent, share, "6.6, Figure 7"));
        let (one, three) = (narrow_e.crossing(percent, Clock::Cold), three_random.crossing(percent, Clock::Cold));
        let check = Check::new(
            format!(
                "Narrow-E, {percent} % of the rows: three predicates move the crossing to fewer columns than one does"
            ),
            three < one,
            format!("cold, from {one:.1} to {three:.1} columns"),
        );
        checks.push(check.claimed(place()).or_because(format!(
            "rows decode the columns of further predicates as well: {}",
            costs(three_random, percent)
        )));
    }
    let total = |sweep: &Sweep| -> f64 {
        sweep.plan.percents.iter().flat_map(|percent| sweep.times(*percent, "column", Clock::Cold)).sum()
    };
    let (left, random) = (total(three_left), total(three_random));
    let check = Check::new(
        "Narrow-E: three predicates cost the column store less on the left columns, which are sorted, than on random ones",
        left < random,
        format!("cold, all points together: {} against {} ms", significant(left), significant(random)),
    );
    checks.push(check.claimed(place()).or_because(
        "the left columns are shorter to read, but runs must be found for each passing row, where packed values lie at known bits",
    ));
    checks
}

fn strings_wait_for_the_disk(sweep: &Sweep) -> Check {
    let time = |percent: f64| sweep.times(percent, "column", Clock::Cold).iter().sum::<f64>();
    let ratio = time(50.0) / time(0.1).max(1e-9);
    Check::new(
        "Strings: the column store's time depends only slightly on selectivity (within a half)",
        ratio <= 1.5,
        format!("cold, 50 % of the rows take {ratio:.2} times as long as 0.1 %"),
    )
    .claimed(format!("{PAPER}, 6.7, Figure 8"))
    .or_because(format!(
        "at {:.0} MB/s the disk brings a string in about {:.0} ns, less than copying it into a tuple takes: {}",
        sweep.bandwidth,
        20e3 / sweep.bandwidth,
        costs(sweep, 50.0)
    ))
}
