//! The crossover of rows and columns: k of 50 equal integer columns, few rows, from each layout.

use std::path::Path;
use std::time::{Duration, Instant};

use freestone::Options;

use super::{Experiment, RunOptions, quoted};
use crate::Notify;
use crate::error::{LabError, Result};
use freestone_data::wide;
use freestone_demo::engine::{Answer, Engine, Repeat, median};
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, megabytes, milliseconds, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "crossover",
    title: "Where rows and columns cross over",
    shows: "Fetching k of 50 integer columns from few rows: columns win while k is small, rows when it is large.",
    source: "Halverson et al. 2006, section 4, and Holloway and DeWitt 2008, section 5, on a table of this project's",
    size: "--rows 1000000",
    run,
};

const ROWS: usize = 1_000_000;
/// `groups` has the filtered column on pages of its own, and the others together as rows.
const DESIGNS: [&str; 4] = ["row", "column", "pax", "groups"];
const FETCHED: [usize; 8] = [1, 2, 5, 10, 20, 30, 40, 50];
const REPEAT: Repeat = Repeat { least: 3, most: 7, budget: Duration::from_millis(400) };
const COLD_RUNS: usize = 3;

/// The positions of the wanted rows in the table.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    /// In arrival order, so that a filter selects them everywhere.
    Scattered,
    /// Sorted by the filtered column, so that they are adjacent, and zone pruning removes the others.
    Range,
}

/// One chart: the kind and number of wanted rows, and the source of the pages.
struct Case {
    access: Access,
    percent: usize,
    is_cold: bool,
}

impl Case {
    fn all() -> impl Iterator<Item = Case> {
        let accesses = [Access::Scattered, Access::Range].into_iter();
        let percents = move |access| [1, 10].map(|percent| (access, percent));
        let cases = accesses.flat_map(percents);
        cases.flat_map(|(access, percent)| [false, true].map(|is_cold| Case { access, percent, is_cold }))
    }

    fn title(&self) -> String {
        let access = if self.access == Access::Scattered { "scattered" } else { "neighbours by the sort" };
        let from = if self.is_cold { "cold, from disk" } else { "hot" };
        format!("{} % of the rows, {access}, {from}", self.percent)
    }

    fn table(&self, design: &str) -> String {
        format!("{design}_{}", if self.access == Access::Scattered { "arrival" } else { "sorted" })
    }

    fn sql(&self, design: &str, columns: usize) -> String {
        let list: Vec<String> = (1..=columns).map(|number| format!("c{number}")).collect();
        let limit = u64::from(wide::VALUES) * self.percent as u64 / 100;
        format!("SELECT {} FROM {} WHERE c1 < {limit}", list.join(", "), self.table(design))
    }
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let workspace = options.workspace("crossover")?;
    let database = workspace.path("database");
    let mut parts = vec![];
    {
        let engine = Engine::open(&database, options.engine_options())?;
        let file = workspace.path("wide.parquet");
        notify("generating the table");
        freestone_data::write_parquet(&file, wide::schema(), wide::table(rows, 1))?;
        parts.push(sizes(&engine, &quoted(&file), rows, notify)?);
    }
    let (mut charts, mut tables, mut checks) = (vec![], vec![], vec![]);
    for case in Case::all() {
        notify(&format!("timing {}", case.title()));
        let times = measure(&database, &case, options)?;
        checks.extend(claims(&case, &times));
        charts.push(Part::Lines(chart(&case, &times)));
        tables.push(Part::Table(table(&case, &times)));
    }
    parts.push(Part::section(
        "Times",
        "SELECT c1, …, ck FROM t WHERE c1 < x, from the text of the query to its last Arrow batch. Hot: median of up to seven \
         runs after a first. Cold: median of three, each from a database that was just opened and has read nothing, with \
         direct I/O past the operating system's cache; opening is not counted. The groups are c1 alone, and c2 to c50 \
         together as rows: the filter reads one column, the fetch whole tuples.",
    ));
    parts.push(Part::checks(checks));
    parts.extend(charts);
    parts.extend(tables);
    Ok(parts)
}

/// Stores the table in every design, in order of arrival and sorted. The answers must be equal.
fn sizes(engine: &Engine, file: &str, rows: usize, notify: Notify<'_>) -> Result<Part> {
    let mut table =
        Table::new(format!("{} rows of 50 columns", thousands(rows as i64)), 1, &["table", "size", "bytes a row"]);
    let mut expected: Option<Answer> = None;
    for (order, sort) in [("arrival", ""), ("sorted", ", sort = 'c1'")] {
        for design in DESIGNS {
            let name = format!("{design}_{order}");
            notify(&format!("storing {name}"));
            let form = form(design);
            engine.run(&format!("CREATE TABLE {name} WITH ({form}{sort}) AS SELECT * FROM '{file}'"))?;
            let answer = engine.answer(&format!("SELECT * FROM {name} WHERE c1 < {}", wide::VALUES / 10))?;
            if *expected.get_or_insert(answer) != answer {
                return Err(LabError::Answers(format!(
                    "{name} answers with rows {answer}, unlike the tables before it"
                )));
            }
            let bytes = engine.table_bytes(&name)?;
            table.push([name, megabytes(bytes), format!("{:.1}", bytes as f64 / rows as f64)].map(Cell::from));
        }
    }
    Ok(Part::Table(table))
}

/// The options of a design by name.
fn form(design: &str) -> String {
    if design != "groups" {
        return format!("design = '{design}'");
    }
    let others: Vec<String> = (2..=wide::COLUMNS).map(|number| format!("c{number}")).collect();
    format!("groups = '({})'", others.join(", "))
}

/// Milliseconds by design and number of columns.
fn measure(database: &Path, case: &Case, options: &RunOptions) -> Result<Vec<Vec<f64>>> {
    let engine_options = Options { read_only: true, ..options.engine_options() };
    let hot = Engine::open(database, engine_options.clone())?;
    let one = |design: &str, columns: usize| {
        let sql = case.sql(design, columns);
        if !case.is_cold {
            return Ok::<f64, LabError>(hot.median_ms(&sql, REPEAT)?);
        }
        let times: Result<Vec<f64>> = (0..COLD_RUNS).map(|_| cold_ms(database, &engine_options, &sql)).collect();
        Ok(median(times?))
    };
    // Designs alternate, so that other load on the machine affects all alike.
    let mut times = vec![vec![]; DESIGNS.len()];
    for columns in FETCHED {
        for (design, of_design) in DESIGNS.iter().zip(&mut times) {
            of_design.push(one(design, columns)?);
        }
    }
    Ok(times)
}

fn cold_ms(database: &Path, options: &Options, sql: &str) -> Result<f64> {
    let engine = Engine::open(database, options.clone())?;
    // The first statement of a process initializes the planner, which is not part of the measurement.
    engine.run("SELECT 1")?;
    let start = Instant::now();
    engine.run(sql)?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// The smallest number of columns from which on rows are at least as fast as columns.
fn crossover(times: &[Vec<f64>]) -> Option<usize> {
    let wins = |at: &usize| times[0][*at] <= times[1][*at];
    let from = (0..FETCHED.len()).rev().take_while(|at| wins(at)).last()?;
    Some(FETCHED[from])
}

fn claims(case: &Case, times: &[Vec<f64>]) -> [Check; 3] {
    let detail = |at: usize| format!("row {:.2} ms, column {:.2} ms", times[0][at], times[1][at]);
    let (two, all) = (1, FETCHED.len() - 1);
    let title = case.title();
    [
        Check::new(format!("{title}: 2 of 50 are faster from columns"), times[1][two] < times[0][two], detail(two)),
        Check::new(format!("{title}: all 50 are faster from rows"), times[0][all] < times[1][all], detail(all)),
        Check::new(
            format!("{title}: all 50 are faster from c1 apart and the others as rows than from columns"),
            times[3][all] < times[1][all],
            format!("groups {:.2} ms, column {:.2} ms", times[3][all], times[1][all]),
        ),
    ]
}

fn chart(case: &Case, times: &[Vec<f64>]) -> Lines {
    let series = DESIGNS.iter().zip(times);
    let series = series.map(|(design, values)| Series::new(*design, values.clone()));
    Lines {
        title: case.title(),
        x_label: "columns fetched, of 50".into(),
        y_label: "ms".into(),
        x: FETCHED.map(|columns| columns as f64).to_vec(),
        series: series.collect(),
        mark: crossover(times).map(|columns| (columns as f64, format!("rows from {columns}"))),
    }
}

fn table(case: &Case, times: &[Vec<f64>]) -> Table {
    let crossing =
        crossover(times).map_or("columns throughout".to_owned(), |columns| format!("rows from {columns} on"));
    let header: Vec<&str> = std::iter::once("columns").chain(DESIGNS).collect();
    let mut table = Table::new(format!("{}: milliseconds ({crossing})", case.title()), 1, &header);
    for (at, columns) in FETCHED.iter().enumerate() {
        let values: Vec<f64> = times.iter().map(|of_design| of_design[at]).collect();
        table.push(std::iter::once(Cell::from(columns.to_string())).chain(milliseconds(&values)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn rows_win_from_the_last_crossing_on() {
        let column = vec![2.0; 8];
        for (row, expected) in [
            ([1.0; 8], Some(1)),
            ([3.0; 8], None),
            ([1.0, 3.0, 3.0, 3.0, 3.0, 2.0, 1.0, 1.0], Some(30)),
            ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0], None),
        ] {
            assert_eq!(crossover(&[row.to_vec(), column.clone()]), expected);
        }
    }

    #[test]
    fn a_tiny_run_has_every_case() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options =
            experiments::RunOptions { rows: Some(20_000), output: folder.path().to_owned(), ..Default::default() };
        let findings = experiments::run("crossover", &options, &|_| {}).expect("the run succeeds");
        let charts = findings.parts.iter().filter(|part| matches!(part, Part::Lines(_))).count();
        assert_eq!((charts, findings.checks().count()), (8, 24));
        // 20 bits per value: 125 bytes per row, and unused ends of pages.
        let Some(Part::Table(sizes)) = findings.parts.first() else { panic!("the first part is the table of sizes") };
        let row: f64 = sizes.rows[0][2].text.parse().expect("a number");
        assert!((125.0..135.0).contains(&row), "{row} bytes a row");
    }
}
