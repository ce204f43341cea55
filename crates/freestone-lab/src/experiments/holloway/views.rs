//! Materialized views: groups of two or five columns compared with rows and columns, for queries that need columns of
//! one group more or less often.

use super::{Generated, Generator, QUERIES, ROWS, form, store, table_name};
use crate::Notify;
use crate::error::Result;
use crate::experiments::scanner::{Pick, Point, Query, ScanSettings, Scanner, ahead_up_to};
use crate::experiments::{Experiment, RunOptions};
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, milliseconds, significant};

pub const EXPERIMENT: Experiment = Experiment {
    name: "holloway-views",
    title: "Materialized views between rows and columns",
    shows: "Narrow-E in two groups of five columns and in five of two, as more queries want columns of one group.",
    source: "Holloway and DeWitt 2008, section 6.8, Figure 9",
    size: "--rows 1000000, --queries 10 a point",
    run,
};

const PLACE: &str = "Holloway and DeWitt 2008, 6.8, Figure 9";
const SELECTIVITY: f64 = 0.01;
const COLUMNS: usize = 10;
const COUNTS: [usize; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 10];
/// The percentage of queries that need columns of one group together. 0 is the paper's "none".
const CORRELATIONS: [u32; 4] = [100, 75, 50, 0];
const DESIGNS: [&str; 4] = ["row", "column", "halves", "pairs"];

/// A set of views, by width.
#[derive(Clone, Copy, PartialEq)]
enum Views {
    Halves,
    Pairs,
}

impl Views {
    fn width(self) -> usize {
        if self == Views::Halves { 5 } else { 2 }
    }

    fn design(self) -> &'static str {
        if self == Views::Halves { "halves" } else { "pairs" }
    }

    fn title(self) -> &'static str {
        if self == Views::Halves { "two views of five columns" } else { "five views of two columns" }
    }

    /// The option that stores them.
    fn groups(self) -> String {
        let group = |first: usize| {
            let names: Vec<String> = (first..first + self.width()).map(|number| format!("c{number}")).collect();
            format!("({})", names.join(", "))
        };
        let groups: Vec<String> = (1..=COLUMNS).step_by(self.width()).map(group).collect();
        format!("groups = '{}'", groups.join(", "))
    }
}

/// The measurements: by correlation, number of columns and design.
type Times = Vec<Vec<Vec<Point>>>;

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let queries = options.queries.unwrap_or(QUERIES);
    let workspace = options.workspace("holloway-views")?;
    let table = Generated::NarrowE;
    let forms = [
        ("row", form(table, "row")),
        ("column", form(table, "column")),
        ("halves", Views::Halves.groups()),
        ("pairs", Views::Pairs.groups()),
    ];
    store(&workspace, options, table, &forms, notify)?;
    let scanner = Scanner::open(&workspace.path("database"), ScanSettings::default())?;
    let bandwidth = scanner.bandwidth(&table_name(table, "row"))?;
    let rows = options.rows.unwrap_or(ROWS);
    let (mut charts, mut tables, mut checks) = (vec![], vec![], vec![]);
    for views in [Views::Halves, Views::Pairs] {
        let times = measure(&scanner, views, queries, notify)?;
        checks.extend(claims(views, &times, rows, bandwidth));
        for (correlation, of_correlation) in CORRELATIONS.iter().zip(&times) {
            charts.push(chart(views, *correlation, of_correlation));
        }
        tables.push(Part::Table(in_numbers(views, &times)));
    }
    let text = format!(
        "1 % of the rows, one predicate, one thread, averages of {queries} random queries a point; cold, from a disk that the \
         row store's file was read from at {bandwidth:.0} MB/s. At a correlation of 100 % a query's columns are of one group as \
         long as it has enough; at 0 % they are drawn independently."
    );
    Ok([Part::section("Views", text), Part::checks(checks)].into_iter().chain(charts).chain(tables).collect())
}

fn measure(scanner: &Scanner, views: Views, queries: usize, notify: Notify<'_>) -> Result<Times> {
    let tables = DESIGNS.map(|design| table_name(Generated::NarrowE, design));
    let tables = tables.each_ref().map(String::as_str);
    let mut times = vec![];
    for correlation in CORRELATIONS {
        notify(&format!("timing {}, correlation {correlation} %", views.title()));
        let mut of_correlation = vec![];
        for count in COUNTS {
            let mut generator = Generator::new(count as u64);
            let query = |_| Query {
                columns: columns(&mut generator, views, correlation, count),
                pick: Pick::Calls { predicates: 1, selectivity: SELECTIVITY },
            };
            let queries: Vec<Query> = (0..queries).map(query).collect();
            of_correlation.push(scanner.measure(&tables, &queries)?);
        }
        times.push(of_correlation);
    }
    Ok(times)
}

/// The columns of a query, drawn as in section 6.8.
fn columns(generator: &mut Generator, views: Views, correlation: u32, count: usize) -> Vec<usize> {
    let all: Vec<usize> = (0..COLUMNS).collect();
    let width = views.width();
    let group_of = |column: usize| (column / width * width..(column / width + 1) * width).collect::<Vec<_>>();
    if correlation == 0 {
        return generator.columns(&[], &all, count);
    }
    let mut chosen = generator.columns(&[], &all, 1);
    if views == Views::Halves {
        // With this probability, up to five columns come from one view. More columns need both views.
        if generator.0.below(100) < correlation {
            chosen = generator.columns(&chosen, &group_of(chosen[0]), count.min(width));
        }
        return generator.columns(&chosen, &all, count);
    }
    // With this probability, the first column of a view is followed by its second. Otherwise the second is used only
    // when no view is left.
    let mut refused = vec![];
    while chosen.len() < count {
        let last = chosen[chosen.len() - 1];
        let partner = last ^ 1;
        if !chosen.contains(&partner) && !refused.contains(&partner) {
            if generator.0.below(100) < correlation {
                chosen.push(partner);
                continue;
            }
            refused.push(partner);
        }
        let open: Vec<usize> = all.iter().copied().filter(|c| !chosen.contains(c) && !refused.contains(c)).collect();
        let open = if open.is_empty() { std::mem::take(&mut refused) } else { open };
        let next = generator.columns(&[], &open, 1);
        refused.retain(|column| !next.contains(column));
        chosen.extend(next);
    }
    chosen
}

fn line(of_correlation: &[Vec<Point>], design: &str) -> Vec<f64> {
    let at = DESIGNS.iter().position(|name| *name == design).unwrap_or(0);
    of_correlation.iter().map(|of_count| of_count[at].cold_ms).collect()
}

/// The standard deviations of a line.
fn spread(of_correlation: &[Vec<Point>], design: &str) -> Vec<f64> {
    let at = DESIGNS.iter().position(|name| *name == design).unwrap_or(0);
    of_correlation.iter().map(|of_count| of_count[at].cold_deviation).collect()
}

fn x() -> [f64; COUNTS.len()] {
    COUNTS.map(|count| count as f64)
}

fn claims(views: Views, times: &Times, rows: usize, bandwidth: f64) -> Vec<Check> {
    let (name, design) = (views.title(), views.design());
    let [full, .., none] = &times[..] else { return vec![] };
    let ahead = |times: &[Vec<Point>], other: &str| ahead_up_to(&x(), &line(times, design), &line(times, other));
    let published = if views == Views::Halves { 3.0 } else { 5.0 };
    let over_rows = ahead(none, "row");
    let why = why(none, design, rows, bandwidth);
    let mut checks = vec![
        Check::new(
            format!("{name}, columns drawn independently: faster than rows up to {published} columns (± 2)"),
            (over_rows - published).abs() <= 2.0,
            format!("cold, up to {over_rows:.1} columns"),
        )
        .claimed(PLACE)
        .or_because(why.clone()),
    ];
    let own = line(full, design);
    let columns = line(full, "column");
    let ratio = own.iter().zip(&columns).map(|(own, column)| own / column).fold(f64::INFINITY, f64::min);
    checks.push(
        Check::new(
            format!("{name}, columns always of one view: as fast as columns, now and then faster (10 % slack)"),
            ratio <= 1.1,
            format!("cold, at best {ratio:.2} times the columns' time"),
        )
        .claimed(PLACE)
        .or_because(why.clone()),
    );
    let (together, apart): (f64, f64) = (own[..5].iter().sum(), line(none, design)[..5].iter().sum());
    checks.push(
        Check::new(
            format!("{name}: correlation makes queries of up to five columns faster"),
            together < apart,
            format!("cold, {} against {} ms, five points together", significant(together), significant(apart)),
        )
        .claimed(PLACE)
        .or_because(why.clone()),
    );
    checks.push(between(views, none, &why));
    if views == Views::Halves {
        checks.push(all_columns(none, &why));
    }
    checks
}

/// Section 7: the performance of views is normally between that of rows and of columns.
fn between(views: Views, none: &[Vec<Point>], why: &str) -> Check {
    let (own, row, column) = (line(none, views.design()), line(none, "row"), line(none, "column"));
    let is_between = |at: &usize| {
        let (least, most) = (row[*at].min(column[*at]), row[*at].max(column[*at]));
        (least * 0.95..=most * 1.05).contains(&own[*at])
    };
    let count = (0..COUNTS.len()).filter(is_between).count();
    Check::new(
        format!("{}: normally between rows and columns (5 % slack)", views.title()),
        count * 2 > COUNTS.len(),
        format!("cold, columns drawn independently: at {count} of {} points", COUNTS.len()),
    )
    .claimed("Holloway and DeWitt 2008, 7")
    .or_because(why)
}

/// With more than five columns, two views are slower than the row store.
fn all_columns(none: &[Vec<Point>], why: &str) -> Check {
    let (own, row) = (line(none, "halves"), line(none, "row"));
    let (own, row): (f64, f64) = (own[5..].iter().sum(), row[5..].iter().sum());
    Check::new(
        "two views of five columns: for more than five columns rows are faster, as stitching costs",
        row < own,
        format!("cold, rows {} ms, views {} ms, four points together", significant(row), significant(own)),
    )
    .claimed(PLACE)
    .or_because(format!(
        "stitching is free here: all groups are decoded at the same list of positions into columns of the same block. {why}"
    ))
}

/// The cost of a tuple in each design, with one column and with all.
fn why(none: &[Vec<Point>], design: &str, rows: usize, bandwidth: f64) -> String {
    let part = |design: &str| {
        let at = DESIGNS.iter().position(|name| *name == design).unwrap_or(0);
        let [first, last] = [0, COUNTS.len() - 1].map(|count| none[count][at]);
        let ns = |ms: f64| significant(ms * 1e6 / rows as f64);
        let disk = |bytes: f64| significant(bytes / bandwidth / rows as f64 * 1e3);
        format!(
            "{design} {} to {} of processor and {} to {} of disk",
            ns(first.cpu_ms),
            ns(last.cpu_ms),
            disk(first.bytes),
            disk(last.bytes)
        )
    };
    format!("nanoseconds a tuple from one to all columns: {}, {}, {}", part("row"), part("column"), part(design))
}

fn chart(views: Views, correlation: u32, of_correlation: &[Vec<Point>]) -> Part {
    let series = ["row", "column", views.design()];
    Part::Lines(Lines {
        title: format!("{}, correlation {correlation} %, cold", views.title()),
        x_label: "columns fetched, of 10".into(),
        y_label: "ms".into(),
        x: x().to_vec(),
        series: series
            .map(|design| Series {
                spread: spread(of_correlation, design),
                ..Series::new(design, line(of_correlation, design))
            })
            .to_vec(),
        mark: None,
    })
}

fn in_numbers(views: Views, times: &Times) -> Table {
    let header: Vec<&str> = ["correlation", "columns"].into_iter().chain(DESIGNS).collect();
    let mut table = Table::new(format!("Queries as for {}: milliseconds, cold", views.title()), 2, &header);
    for (correlation, of_correlation) in CORRELATIONS.iter().zip(times) {
        for (count, of_count) in COUNTS.iter().zip(of_correlation) {
            let cold: Vec<f64> = of_count.iter().map(|point| point.cold_ms).collect();
            let cells = [Cell::from(format!("{correlation} %")), Cell::from(count.to_string())].into_iter();
            table.push(cells.chain(milliseconds(&cold)));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn correlated_columns_share_their_views() {
        let mut generator = Generator::new(1);
        for count in COUNTS {
            for views in [Views::Halves, Views::Pairs] {
                let views_of = |columns: &[usize]| {
                    let mut views: Vec<usize> = columns.iter().map(|column| column / views.width()).collect();
                    views.sort_unstable();
                    views.dedup();
                    views.len()
                };
                for correlation in CORRELATIONS {
                    let mut columns = columns(&mut generator, views, correlation, count);
                    if correlation == 100 {
                        assert_eq!(views_of(&columns), count.div_ceil(views.width()), "{columns:?}");
                    }
                    columns.sort_unstable();
                    columns.dedup();
                    assert_eq!(columns.len(), count, "distinct columns");
                }
            }
        }
        let apart: usize = (0..100).filter(|_| columns(&mut generator, Views::Pairs, 50, 2)[0] / 2 == 0).count();
        assert!(apart > 5, "{apart}");
    }

    #[test]
    fn a_tiny_run_judges_every_claim() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().to_owned();
        let options = experiments::RunOptions { rows: Some(20_000), queries: Some(1), output, ..Default::default() };
        let findings = experiments::run("holloway-views", &options, &|_| {}).expect("the run succeeds");
        let charts = findings.parts.iter().filter(|part| matches!(part, Part::Lines(_))).count();
        assert_eq!((charts, findings.checks().count()), (8, 9));
        let has_bars = |part: &Part| matches!(part, Part::Lines(chart) if chart.series.iter().all(|s| s.spread.len() == chart.x.len()));
        assert_eq!(findings.parts.iter().filter(|part| has_bars(part)).count(), 8);
    }
}
