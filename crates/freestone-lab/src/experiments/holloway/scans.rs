//! Scans of the five tables from rows and columns: Figures 2 to 8.

use super::sweep::{Clock, Plan, Sweep};
use super::verdicts;
use super::{Generated, QUERIES, ROWS, form, store, table_name};
use crate::Notify;
use crate::error::Result;
use crate::experiments::scanner::{Query, Scanner};
use crate::experiments::{Experiment, RunOptions, published};
use freestone_report::findings::{Lines, Part, Series, Table, significant, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "holloway-scans",
    title: "Scans of read-optimized rows and columns",
    shows: "How many random columns a column store fetches faster than a row store, by table, selectivity and predicates.",
    source: "Holloway and DeWitt 2008, sections 4 and 6.2 to 6.7, Tables 1 and 2, Figures 2 to 8",
    size: "--rows 1000000 (the wide tables a fifth), --queries 10 a point",
    run,
};

/// All measurements, for the verdicts: `None` of tables that were not asked for.
pub(super) struct Measured {
    pub narrow_e: Option<Sweep>,
    pub three_left: Option<Sweep>,
    pub three_random: Option<Sweep>,
    pub narrow_s: Option<Sweep>,
    pub wide_e: Option<Sweep>,
    pub narrow_u: Option<Sweep>,
    pub strings: Option<Sweep>,
    /// Whether columns are decoded many values at a time, as the engine does.
    pub is_vectorized: bool,
}

impl Measured {
    /// The sweeps of each table, in the order of the table's plans.
    pub(super) fn of(sweeps: Vec<Sweep>, is_vectorized: bool) -> Measured {
        let mut sweeps: Vec<Option<Sweep>> = sweeps.into_iter().map(Some).collect();
        let mut next = |table: Generated| {
            let is_of = |sweep: &Option<Sweep>| sweep.as_ref().is_some_and(|sweep| sweep.plan.table == table);
            sweeps.iter_mut().find(|sweep| is_of(sweep)).and_then(Option::take)
        };
        Measured {
            narrow_e: next(Generated::NarrowE),
            three_left: next(Generated::NarrowE),
            three_random: next(Generated::NarrowE),
            narrow_s: next(Generated::NarrowS),
            wide_e: next(Generated::WideE),
            narrow_u: next(Generated::NarrowU),
            strings: next(Generated::Strings),
            is_vectorized,
        }
    }
}

const ALL: [&str; 4] = ["row", "column", "slotted", "pax"];
const NARROW: [usize; 7] = [1, 2, 3, 5, 7, 8, 10];

/// The sweeps over one table, which share its stored layouts.
fn plans(table: Generated) -> Vec<Plan> {
    let plan = |designs: &[&'static str], percents: &[f64], counts: &[usize]| Plan {
        table,
        designs: designs.to_vec(),
        percents: percents.to_vec(),
        counts: counts.to_vec(),
        predicates: 1,
        first: vec![],
        note: "",
    };
    let two = &ALL[..2];
    match table {
        Generated::NarrowE => vec![
            plan(&ALL, &[0.1, 1.0, 10.0, 25.0, 50.0], &NARROW),
            Plan {
                predicates: 3,
                first: vec![0, 1, 2],
                note: ", three predicates on the left columns",
                ..plan(two, &[0.1, 10.0], &NARROW)
            },
            Plan { predicates: 3, note: ", three predicates on random columns", ..plan(two, &[0.1, 10.0], &NARROW) },
        ],
        Generated::NarrowS => vec![plan(two, &[0.1, 1.0, 10.0, 50.0], &NARROW)],
        Generated::WideE => vec![plan(&ALL, &[0.1, 1.0, 10.0, 50.0], &[1, 6, 12, 18, 25, 33, 42, 50])],
        Generated::NarrowU => vec![plan(two, &[0.1, 10.0, 50.0], &NARROW)],
        Generated::Strings => vec![plan(two, &[0.1, 10.0, 50.0], &[1, 3, 5, 10])],
    }
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let (rows, queries) = (options.rows.unwrap_or(ROWS), options.queries.unwrap_or(QUERIES));
    let workspace = options.workspace("holloway-scans")?;
    let mut sizes = Table::new(
        "Megabytes of the files, and the rate at which the row store's is read",
        1,
        &["table", "rows", "row", "column", "slotted", "pax", "MB/s"],
    );
    let mut sweeps = vec![];
    for table in options.tables() {
        let plans = plans(table);
        let designs = plans[0].designs.clone();
        let forms: Vec<(&str, String)> = designs.iter().map(|design| (*design, form(table, design))).collect();
        store(&workspace, options, table, &forms, notify)?;
        let scanner = Scanner::open(&workspace.path("database"), options.scan)?;
        let bandwidth = scanner.bandwidth(&table_name(table, "row"))?;
        let megabytes = |design: &&str| match designs.contains(design) {
            true => Ok(significant(scanner.bytes(&table_name(table, design))? as f64 / 1e6)),
            false => Ok("–".to_owned()),
        };
        let bytes: Result<Vec<String>> = ALL.iter().map(megabytes).collect();
        let name = [table.name().to_owned(), thousands(super::rows_of(table, rows) as i64)];
        sizes.push(name.into_iter().chain(bytes?).chain([format!("{bandwidth:.0}")]));
        for plan in plans {
            let mut measure = |designs: &[&'static str], queries: &[Query]| {
                let tables: Vec<String> = designs.iter().map(|design| table_name(table, design)).collect();
                scanner.measure(&tables.iter().map(String::as_str).collect::<Vec<_>>(), queries)
            };
            sweeps.push(Sweep::measure(&mut measure, plan, rows, queries, bandwidth, notify)?);
        }
    }
    Ok(parts(&Measured::of(sweeps, true), sizes))
}

fn parts(measured: &Measured, sizes: Table) -> Vec<Part> {
    let mut parts = vec![
        Part::section("Tables", "Sorted on all columns from the left, compressed as the paper's Table 1 says."),
        Part::Table(sizes),
        Part::section(
            "Verdicts",
            "A crossing is the number of columns up to which the column store is ahead. One thread scans; output is blocks of \
             100 un-encoded tuples that nobody keeps; predicates pass every k-th call, and columns are random, as in the paper. \
             Cold: direct I/O in units of 128 KiB, up to 48 at a time, with nothing read before. Hot: all pages in memory. \
             Computed: the larger of the hot scan's processor time and of what its bytes would take at the paper's 70 MB/s; its \
             scanners read ahead as these do, so that the slower of the two decides.",
        ),
        Part::checks(verdicts::claims(measured)),
    ];
    parts.extend(figures(measured));
    parts
}

/// Figures 2 to 8; the first ones are those of Narrow-E with one predicate.
pub(super) fn figures(measured: &Measured) -> Vec<Part> {
    let mut parts = vec![];
    if let Some(narrow) = &measured.narrow_e {
        let text = "Error bars: one standard deviation over the queries of a point.";
        parts.push(Part::section("Narrow-E, one predicate (Figures 2 and 3)", text));
        for clock in [Clock::Cold, Clock::Hot] {
            parts.extend(narrow.plan.percents.iter().map(|percent| narrow.chart(*percent, clock)));
        }
        parts.push(figure_3(narrow));
        parts.extend(crossings(narrow));
        parts.push(narrow.table());
    }
    for (title, sweep) in [
        ("Narrow-S: skewed values (Figure 4)", &measured.narrow_s),
        ("Wide-E: fifty columns (Figure 5)", &measured.wide_e),
        ("Narrow-U: wide values (Figure 6)", &measured.narrow_u),
        ("Three predicates on the left columns (Figure 7)", &measured.three_left),
        ("Three predicates on random columns (Figure 7)", &measured.three_random),
        ("Strings (Figure 8)", &measured.strings),
    ] {
        let Some(sweep) = sweep else { continue };
        parts.push(Part::section(title, ""));
        let of_one = measured.narrow_e.as_ref().filter(|_| sweep.plan.predicates > 1);
        parts.extend(sweep.plan.percents.iter().map(|percent| with_one_predicate(sweep, of_one, *percent)));
        parts.extend(crossings(sweep));
        parts.push(sweep.table());
    }
    parts
}

/// A sweep from disk. One of several predicates has the lines of one predicate, too, as in Figure 7.
fn with_one_predicate(sweep: &Sweep, of_one: Option<&Sweep>, percent: f64) -> Part {
    let chart = sweep.chart(percent, Clock::Cold);
    let Part::Lines(mut chart) = chart else { return chart };
    if let Some(of_one) = of_one.filter(|of_one| sweep.plan.counts == of_one.plan.counts) {
        let line = |design: &str| Series {
            spread: of_one.deviations(percent, design),
            ..Series::new(format!("{design}, one predicate"), of_one.times(percent, design, Clock::Cold))
        };
        chart.series.extend(["row", "column"].map(line));
    }
    Part::Lines(chart)
}

/// The number of columns up to which columns are ahead, by selectivity, beside what the paper says. Only of one predicate.
fn crossings(sweep: &Sweep) -> Option<Part> {
    let published = published::crossings(sweep.plan.table).filter(|_| sweep.plan.predicates == 1)?;
    let of = sweep.columns() as f64;
    let percents: Vec<f64> = published.points.iter().map(|(percent, _)| *percent).collect();
    let line = |label: &str, clock: Clock| {
        Series::new(label, percents.iter().map(|percent| sweep.crossing(*percent, clock)).collect())
    };
    let stated = published.points.iter().map(|(_, share)| share * of).collect();
    Some(Part::Lines(Lines {
        title: format!("{}: columns up to which columns are ahead ({})", sweep.plan.table.name(), published.place),
        x_label: "% of the rows".into(),
        y_label: "columns".into(),
        x: percents.clone(),
        series: vec![
            line("for 70 MB/s", Clock::PaperDisk),
            line("cold", Clock::Cold),
            line("hot", Clock::Hot),
            Series::published("for 70 MB/s", stated),
        ],
        mark: None,
    }))
}

/// Elapsed and processor time at 10 %, both of runs from disk.
fn figure_3(sweep: &Sweep) -> Part {
    let line = |label: &str, design: &str, clock: Clock| Series {
        spread: if clock == Clock::Cold { sweep.deviations(10.0, design) } else { vec![] },
        ..Series::new(label, sweep.times(10.0, design, clock))
    };
    Part::Lines(Lines {
        title: "Narrow-E, 10 % of the rows: elapsed and processor time".into(),
        x_label: sweep.x_label(),
        y_label: "ms".into(),
        x: sweep.x_bytes(),
        series: vec![
            line("row", "row", Clock::Cold),
            line("column", "column", Clock::Cold),
            line("row cpu", "row", Clock::ColdProcessor),
            line("column cpu", "column", Clock::ColdProcessor),
        ],
        mark: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn a_tiny_run_judges_every_claim() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().to_owned();
        let options = experiments::RunOptions { rows: Some(20_000), queries: Some(1), output, ..Default::default() };
        let findings = experiments::run("holloway-scans", &options, &|_| {}).expect("the run succeeds");
        let charts = findings.parts.iter().filter(|part| matches!(part, Part::Lines(_))).count();
        assert_eq!(charts, 10 + 1 + 4 + 4 + 3 + 2 + 2 + 3 + 4);
        let of_one = findings.parts.iter().filter_map(|part| match part {
            Part::Lines(chart) => chart.series.iter().find(|line| line.label == "row, one predicate"),
            _ => None,
        });
        let spreads: Vec<usize> = of_one.map(|line| line.spread.len()).collect();
        assert_eq!(spreads, [NARROW.len(); 4], "Figure 7 has four charts, and each of its points an error bar");
        assert!(findings.checks().count() >= 20);
        assert!(findings.checks().all(|check| !check.place.is_empty() && check.holds == check.why.is_empty()));
    }
}
