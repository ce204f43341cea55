//! Column groups in memory: by the number of attributes and of tuples that are read, from rows, columns and groups; and
//! by the allocator of results.

mod allocators;
mod layouter;

pub use layouter::EXPERIMENT as LAYOUTER;

use freestone::Options;

use super::scanner::{Pick, Query, ScanSettings, Scanner};
use super::{Experiment, RunOptions, Workspace, quoted};
use crate::Notify;
use crate::error::Result;
use freestone_data::wide;
use freestone_demo::engine::Engine;
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, milliseconds, significant, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "memory-layouts",
    title: "Rows, columns and groups in memory",
    shows: "Projectivity: k of 100 attributes of every tuple. Selectivity: all 16 attributes of random tuples. Allocators.",
    source: "Grund et al. 2010, section 3.3, Figures 1 and 3",
    size: "--rows 500000 of 16 attributes, a fifth of 100 attributes; --queries 5 a point",
    run,
};

const PLACE: &str = "Grund et al. 2010, 3.3";
const ROWS: usize = 500_000;
const QUERIES: usize = 5;
const PROJECTED: usize = 100;
const SELECTED: usize = 16;
/// Containers of values of 4 bytes, as in the paper, and what the engine stores without being asked for that.
const DESIGNS: [&str; 6] = ["row", "column", "groups", "row packed", "column packed", "groups packed"];
pub(super) const COUNTS: [usize; 8] = [1, 2, 5, 10, 25, 50, 75, 100];
pub(super) const SHARES: [f64; 9] = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0];

/// Milliseconds: by the varied parameter, then by design in the order of [`DESIGNS`], or by allocator.
type Times = Vec<Vec<f64>>;

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let queries = options.queries.unwrap_or(QUERIES);
    let few = (rows / 5).max(1);
    let workspace = options.workspace("memory-layouts")?;
    store(&workspace, options, (PROJECTED, 10), &DESIGNS, few, notify)?;
    store(&workspace, options, (SELECTED, 4), &DESIGNS, rows, notify)?;
    let scanner = Scanner::open(&workspace.path("database"), ScanSettings::default())?;
    notify("timing projections");
    let projectivity = measure(&scanner, PROJECTED, &DESIGNS, projections(), queries)?;
    notify("timing selections");
    let selectivity = measure(&scanner, SELECTED, &DESIGNS, selections(), queries)?;
    let threads = options.engine_options().threads;
    let of_allocators = allocators::parts(&scanner, few, threads, queries, notify)?;
    Ok(parts(&projectivity, &selectivity, rows).into_iter().chain(of_allocators).collect())
}

/// Stores a table of `columns` random numbers in some designs, of which one has groups of `width` columns.
fn store(
    workspace: &Workspace,
    options: &RunOptions,
    (columns, width): (usize, usize),
    designs: &[&str],
    rows: usize,
    notify: Notify<'_>,
) -> Result<()> {
    let file = workspace.path("table.parquet");
    freestone_data::write_parquet(&file, wide::schema_of(columns), wide::table_of(columns, rows, 1))?;
    let engine = Engine::open(&workspace.path("database"), Options { ..options.engine_options() })?;
    let group = |first: usize| {
        let names: Vec<String> = (first..first + width).map(|number| format!("c{number}")).collect();
        format!("({})", names.join(", "))
    };
    let groups: Vec<String> = (1..=columns).step_by(width).map(group).collect();
    let plain: Vec<String> = (1..=columns).map(|number| format!("c{number}: plain")).collect();
    for design in designs {
        notify(&format!("storing {columns} attributes as {design}"));
        let (kind, is_packed) = design.strip_suffix(" packed").map_or((*design, false), |kind| (kind, true));
        let layout = match kind {
            "groups" => format!("groups = '{}'", groups.join(", ")),
            kind => format!("design = '{kind}'"),
        };
        let form = if is_packed { layout } else { format!("{layout}, encode = '{}'", plain.join(", ")) };
        let (name, file) = (table_name(columns, design), quoted(&file));
        engine.run(&format!("CREATE TABLE {name} WITH ({form}, medium = 'memory') AS SELECT * FROM '{file}'"))?;
    }
    Ok(())
}

/// The queries of Figure 1: more and more attributes of every tuple.
fn projections() -> [Query; COUNTS.len()] {
    COUNTS.map(|count| Query { columns: (0..count).collect(), pick: Pick::All })
}

/// The queries of Figure 2: all attributes of more and more tuples.
fn selections() -> [Query; SHARES.len()] {
    SHARES.map(|share| Query {
        columns: (0..SELECTED).collect(),
        pick: if share < 1.0 { Pick::Positions { share, seed: 7 } } else { Pick::All },
    })
}

/// Milliseconds of rows and of columns at each point of Figure 1, from `rows` tuples of 100 attributes, and of Figure 2, from five
/// times as many of 16.
///
/// # Errors
/// The tables cannot be stored or read.
pub(super) fn rows_and_columns(options: &RunOptions, rows: usize) -> Result<[Vec<[f64; 2]>; 2]> {
    let workspace = options.workspace("layouts")?;
    let designs = &DESIGNS[..2];
    store(&workspace, options, (PROJECTED, 10), designs, rows, &|_| {})?;
    store(&workspace, options, (SELECTED, 4), designs, rows * 5, &|_| {})?;
    let scanner = Scanner::open(&workspace.path("database"), ScanSettings::default())?;
    let pairs = |times: Times| times.into_iter().map(|point| [point[0], point[1]]).collect();
    Ok([
        pairs(measure(&scanner, PROJECTED, designs, projections(), QUERIES)?),
        pairs(measure(&scanner, SELECTED, designs, selections(), QUERIES)?),
    ])
}

/// Milliseconds of all points of Figure 3 together by allocator (the system's, jemalloc, mimalloc): on one thread, and
/// on all.
///
/// # Errors
/// The table cannot be stored or read.
pub(super) fn allocator_totals(options: &RunOptions, rows: usize) -> Result<[[f64; 3]; 2]> {
    let workspace = options.workspace("allocators")?;
    store(&workspace, options, (PROJECTED, 10), &DESIGNS[..1], rows, &|_| {})?;
    let scanner = Scanner::open(&workspace.path("database"), ScanSettings::default())?;
    allocators::totals(&scanner, rows, options.engine_options().threads, QUERIES)
}

fn table_name(columns: usize, design: &str) -> String {
    format!("{}_of_{columns}", design.replace(' ', "_"))
}

fn measure<const N: usize>(
    scanner: &Scanner,
    columns: usize,
    designs: &[&str],
    of: [Query; N],
    queries: usize,
) -> Result<Times> {
    let tables: Vec<String> = designs.iter().map(|design| table_name(columns, design)).collect();
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    let hot_ms = |query| -> Result<Vec<f64>> {
        Ok(scanner.measure(&tables, &vec![query; queries])?.iter().map(|point| point.hot_ms).collect())
    };
    of.into_iter().map(hot_ms).collect()
}

fn line(times: &Times, at: usize) -> Vec<f64> {
    times.iter().map(|point| point[at]).collect()
}

fn parts(projectivity: &Times, selectivity: &Times, rows: usize) -> Vec<Part> {
    let text = format!(
        "{} tuples of 100 and {} of 16 attributes of 20 bits, medium = 'memory': segments stay in memory as a whole. One thread; \
         blocks of 100 un-encoded tuples that nobody keeps; averages of the better of two runs. Positions are random and known \
         before. Values have 4 bytes each, as in HYRISE: a tuple of 16 attributes takes a cache line of 64 bytes. Packed are \
         the same designs as the engine stores them unless told otherwise, with 20 bits a value. What virtualization changes \
         (Figures 1b, 1c and 2) is measured by tenants-overhead.",
        thousands((rows / 5) as i64),
        thousands(rows as i64)
    );
    let counts = COUNTS.map(|count| count as f64);
    let (names, shares) = (COUNTS.map(|count| count.to_string()), SHARES.map(|share| share.to_string()));
    vec![
        Part::section("Groups in memory", text),
        Part::checks(claims(projectivity, selectivity, rows)),
        lines("Projectivity: every tuple", "attributes read, of 100", &counts, &DESIGNS, projectivity),
        lines("Selectivity: all 16 attributes", "share of the tuples", &SHARES, &DESIGNS, selectivity),
        in_numbers("Projectivity: milliseconds", "attributes", &names, &DESIGNS, projectivity),
        in_numbers("Selectivity: milliseconds", "share", &shares, &DESIGNS, selectivity),
    ]
}

fn lines(title: &str, x_label: &str, x: &[f64], names: &[&str], times: &Times) -> Part {
    let series = names.iter().enumerate();
    let series = series.map(|(at, name)| Series::new(*name, line(times, at)));
    Part::Lines(Lines {
        title: title.into(),
        x_label: x_label.into(),
        y_label: "ms".into(),
        x: x.to_vec(),
        series: series.collect(),
        mark: None,
    })
}

fn in_numbers(title: &str, what: &str, points: &[String], names: &[&str], times: &Times) -> Part {
    let header: Vec<&str> = std::iter::once(what).chain(names.iter().copied()).collect();
    let mut table = Table::new(title, 1, &header);
    for (point, ms) in points.iter().zip(times) {
        table.push(std::iter::once(Cell::from(point.clone())).chain(milliseconds(ms)));
    }
    Part::Table(table)
}

fn claims(projectivity: &Times, selectivity: &Times, rows: usize) -> Vec<Check> {
    let [row, column, groups] = [0, 1, 2].map(|design| line(projectivity, design));
    let last = COUNTS.len() - 1;
    let growth = |times: &[f64]| times[last] / times[0].max(1e-9);
    let few = rows / 5;
    let ns = |ms: f64, values: usize| significant(ms * 1e6 / values.max(1) as f64);
    let values = format!(
        "a value costs {} ns from rows and {} ns from columns when all are read",
        ns(row[last], few * PROJECTED),
        ns(column[last], few * PROJECTED)
    );
    let mut checks = vec![
        Check::new(
            "projectivity: columns cost more with every attribute, rows depend less on how many are read",
            growth(&column) > growth(&row),
            format!(
                "from 1 to 100 attributes columns take {:.0} times as long, rows {:.0} times",
                growth(&column),
                growth(&row)
            ),
        )
        .claimed(format!("{PLACE}.1, read from Figure 1a"))
        .or_because(values.clone()),
        Check::new(
            "projectivity: few attributes are read faster from columns",
            column[0] < row[0] && column[1] < row[1],
            format!(
                "1: {} against {} ms; 2: {} against {} ms",
                significant(column[0]),
                significant(row[0]),
                significant(column[1]),
                significant(row[1])
            ),
        )
        .claimed(format!("{PLACE}.1, read from Figure 1a"))
        .or_because(values.clone()),
        Check::new(
            "projectivity: whole tuples are read faster from rows",
            row[last] < column[last],
            format!("{} against {} ms", significant(row[last]), significant(column[last])),
        )
        .claimed(format!("{PLACE}.1, read from Figure 1a"))
        .or_because(format!("a row's values are copied one by one, a column's by vectors: {values}")),
    ];
    let between = |at: &usize| {
        let (least, most) = (row[*at].min(column[*at]), row[*at].max(column[*at]));
        (least * 0.95..=most * 1.05).contains(&groups[*at])
    };
    let count = (0..COUNTS.len()).filter(between).count();
    checks.push(
        Check::new(
            "projectivity: groups of ten lie between rows and columns (5 % slack)",
            count * 2 > COUNTS.len(),
            format!("at {count} of {} points", COUNTS.len()),
        )
        .claimed(PLACE)
        .or_because(values),
    );
    checks.extend(of_selectivity(selectivity, rows));
    checks
}

fn of_selectivity(selectivity: &Times, rows: usize) -> [Check; 2] {
    let [row, column] = [0, 1].map(|design| line(selectivity, design));
    let faster: Vec<bool> = row.iter().zip(&column).map(|(row, column)| row < column).collect();
    let ns = |ms: f64, share: f64| significant(ms * 1e6 / (rows as f64 * share).max(1.0));
    let tuple =
        |at: usize| format!("{} ns from rows, {} ns from columns", ns(row[at], SHARES[at]), ns(column[at], SHARES[at]));
    let few = faster[1] && faster[2];
    let last = SHARES.len() - 1;
    [
        Check::new(
            "selectivity: random tuples are read faster from one group of 16 than from 16 groups, as each column is a cache line",
            few,
            format!("a tuple at 1 %: {}; at 5 %: {}", tuple(1), tuple(2)),
        )
        .claimed(format!("{PLACE}.2, what Figure 2 explains"))
        .or_because(
            "a zone's chunk is 32 KiB a column, and columns are visited one after the other, so that a chunk stays in a near cache \
             for all its positions, where HYRISE fetches a line from memory for each value",
        ),
        Check::new(
            "selectivity: time grows with the share of tuples read, in rows and in columns",
            row[last] > row[0] * 2.0 && column[last] > column[0] * 2.0,
            format!("a tuple at 0.1 %: {}; all: {}", tuple(0), tuple(last)),
        )
        .claimed(format!("{PLACE}.2, what Figure 2 explains"))
        .or_because("finding positions costs more than reading them"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn a_tiny_run_has_all_charts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().to_owned();
        let options = experiments::RunOptions { rows: Some(5_000), queries: Some(1), output, ..Default::default() };
        let findings = experiments::run("memory-layouts", &options, &|_| {}).expect("the run succeeds");
        let charts = findings.parts.iter().filter(|part| matches!(part, Part::Lines(_))).count();
        assert_eq!((charts, findings.checks().count()), (4, 7));
    }
}
