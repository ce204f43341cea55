//! What Figure 10 says, and the figure itself.

use super::{Case, DESIGNS, DUPLICATES, LEAST, MEMORY_PER_ROW, Measured, PAIRS, PAPER_ROWS, RUNS, Times};
use freestone_report::findings::{
    Cell, Check, Lines, Part, Series, Stack, StackGroup, Stacks, Table, megabytes, significant, thousands,
};

const PLACE: &str = "Holloway and DeWitt 2008, 6.9, Figure 10";
/// Design times that differ by at most this share are the same.
const EQUAL: f64 = 0.25;

/// The findings: `measured` has two columns first, then four, each in the order of [`PAIRS`]. `with_memory` has the first join again
/// with memory for a percentage of its inner table.
pub fn parts(measured: &[Measured], with_memory: &[(u32, Measured)], bandwidth: f64) -> Vec<Part> {
    let of = |columns: usize| measured.iter().filter(|one| one.case.columns == columns).collect::<Vec<_>>();
    let mut checks = vec![result_sizes(measured)];
    checks.extend(measured.iter().map(same_join));
    checks.push(scans_decide(measured));
    checks.extend([2, 4].map(|columns| results_decide(&of(columns))));
    checks.push(spilling_keeps_the_order(with_memory));
    let mut parts = vec![Part::section("Joins", text(measured, bandwidth)), Part::checks(checks)];
    for (columns, side) in [(2, "left"), (4, "right")] {
        let title = format!("Figure 10, {side}: tables of {columns} columns, by the percentages of rows that pass");
        parts.push(Part::Stacks(figure(title, &of(columns))));
    }
    parts.push(Part::Table(in_numbers(measured)));
    parts.push(Part::section(
        "Less memory",
        "The join of two columns at 100/100 again. The memory is that of the bucket pages and links of the inner table. What it does \
         not hold is written to files, of both tables, and joined when the second scan has ended.",
    ));
    parts.push(Part::Lines(memory_lines(with_memory)));
    parts.push(Part::Table(memory_table(with_memory)));
    parts
}

fn text(measured: &[Measured], bandwidth: f64) -> String {
    let Some(Measured { case, .. }) = measured.first() else { return String::new() };
    let [x, y] = LEAST;
    format!(
        "SELECT … FROM Narrow-E a, Narrow-E b WHERE a.c{key} = b.c{key} AND a.c2 >= {x} AND b.c5 >= {y}; where 100 % are wanted, all \
         rows pass the comparison. The paper does not print the values; these give its numbers of results. c{key} is the column \
         whose values have nearest to the {DUPLICATES} rows each that the paper's c9 has at 60 million rows. Hybrid hash join after \
         Shapiro with bucket pages of 32 KiB and {memory} of memory ({MEMORY_PER_ROW} bytes per row of the table): the inner table, \
         of which fewer rows pass, fits with two columns and does not with four at 100/100, where the paper shows no bar. One \
         thread, cold at {bandwidth:.0} MB/s, medians of {RUNS}. The scans alone are timed as well, and what is left is the join. \
         Results are compared with SQL's.",
        key = case.key + 1,
        memory = megabytes(case.memory as u64),
    )
}

/// The results per row of the table that the paper has.
fn published(case: &Case) -> f64 {
    PAIRS
        .iter()
        .find(|(percents, _)| *percents == case.percents)
        .map_or(f64::NAN, |(_, millions)| millions / PAPER_ROWS)
}

fn result_sizes(measured: &[Measured]) -> Check {
    let ratio = |one: &Measured| one.rows as f64 / one.case.rows as f64 / published(&one.case);
    let narrow = measured.iter().filter(|one| one.case.columns == 2);
    let list =
        narrow.map(|one| format!("{} at {}", significant(one.rows as f64 / one.case.rows as f64), one.case.title()));
    let rows_of_a_value = measured.first().map_or(0.0, |one| {
        let range = super::Generated::NarrowE.ranges().get(one.case.key).copied().unwrap_or(1);
        one.case.rows as f64 / f64::from(range)
    });
    Check::new(
        "results have the paper's numbers: 3.9 per row of the table at 100/100, 0.37 at 100/10, 0.47 at 10/100, 0.043 at 10/10 (within \
         5 %)",
        measured.iter().all(|one| (ratio(one) - 1.0).abs() <= 0.05),
        list.collect::<Vec<_>>().join(", "),
    )
    .claimed("Holloway and DeWitt 2008, 6.9")
    .or_because(format!(
        "a value of the join's column has {} rows here, and {DUPLICATES} in the paper; --rows 1421000 has as many",
        significant(rows_of_a_value)
    ))
}

fn same_join(one: &Measured) -> Check {
    let [row, column] = one.times.map(|times| times.join());
    let Measured { case, spilled_bytes, .. } = one;
    let check = Check::new(
        format!(
            "{} columns, {}: the join itself costs as much from rows as from columns (within a quarter)",
            case.columns,
            case.title()
        ),
        row.max(column) <= (1.0 + EQUAL) * row.min(column),
        format!("rows {} ms, columns {} ms", significant(row), significant(column)),
    );
    let [of_rows, of_columns] = one.times;
    let why = format!(
        "the join is what is left of the whole ({} and {} ms) without the scans ({} and {} ms): a difference of two times, and \
         scans that share a cache with a hash table find less of the cache",
        significant(of_rows.whole),
        significant(of_columns.whole),
        significant(of_rows.scans),
        significant(of_columns.scans)
    );
    // The paper has no bar for a join that does not fit.
    let is_published = *spilled_bytes == 0;
    if is_published { check.claimed(PLACE).or_because(why) } else { check.or_because(why) }
}

fn is_same_order(times: &[Times; 2]) -> bool {
    (times[0].scans < times[1].scans) == (times[0].whole < times[1].whole)
}

fn both(times: &[Times; 2]) -> String {
    let [row_scans, row, column_scans, column] =
        [times[0].scans, times[0].whole, times[1].scans, times[1].whole].map(significant);
    format!("{row_scans} of {row} ms from rows, {column_scans} of {column} ms from columns")
}

fn scans_decide(measured: &[Measured]) -> Check {
    let count = measured.iter().filter(|one| is_same_order(&one.times)).count();
    let others = measured.iter().filter(|one| !is_same_order(&one.times));
    let others = others.map(|one| format!("{} columns, {}: {}", one.case.columns, one.case.title(), both(&one.times)));
    Check::new(
        "the design with the faster scans has the faster join",
        count == measured.len(),
        format!("in {count} of {} cases", measured.len()),
    )
    .claimed(PLACE)
    .or_because(format!(
        "where they disagree, the scans are the lesser part of the join, and its own time varies by more than they differ: {}",
        others.collect::<Vec<_>>().join("; ")
    ))
}

/// The time of a join follows the number of its results.
fn results_decide(measured: &[&Measured]) -> Check {
    let mut by_rows = measured.to_vec();
    by_rows.sort_by_key(|one| one.rows);
    let holds = DESIGNS.iter().enumerate().all(|(design, _)| {
        let pairs = by_rows.windows(2);
        // Numbers of results that are near to each other decide nothing.
        let mut apart = pairs.filter(|pair| pair[1].rows as f64 > 2.0 * pair[0].rows as f64);
        apart.all(|pair| pair[0].times[design].join() < pair[1].times[design].join())
    });
    let list = by_rows.iter().map(|one| {
        let [row, column] = one.times.map(|times| significant(times.join()));
        format!("{} results {row} and {column} ms", thousands(one.rows))
    });
    let columns = measured.first().map_or(0, |one| one.case.columns);
    Check::new(
        format!("{columns} columns: the time of the join follows the number of results that are materialized"),
        holds,
        format!("rows and columns: {}", list.collect::<Vec<_>>().join("; ")),
    )
    .claimed("Holloway and DeWitt 2008, 6.9")
    .or_because("the scans vary by more than the joins differ")
}

fn spilling_keeps_the_order(with_memory: &[(u32, Measured)]) -> Check {
    let spilled: Vec<&Measured> = with_memory.iter().map(|(_, one)| one).filter(|one| one.spilled_bytes > 0).collect();
    let count = spilled.iter().filter(|one| is_same_order(&one.times)).count();
    let others = with_memory.iter().filter(|(_, one)| one.spilled_bytes > 0 && !is_same_order(&one.times));
    let others = others.map(|(percent, one)| format!("{percent} %: {}", both(&one.times)));
    Check::new(
        "also a join that does not fit the memory is faster from the design with the faster scans",
        count == spilled.len(),
        format!("in {count} of {} cases", spilled.len()),
    )
    .or_because(format!(
        "writing and reading files varies by more than the scans differ: {}",
        others.collect::<Vec<_>>().join("; ")
    ))
}

fn figure(title: String, measured: &[&Measured]) -> Stacks {
    let group = |one: &&Measured| StackGroup {
        label: one.case.title(),
        note: match one.spilled_bytes {
            0 => format!("{} results", thousands(one.rows)),
            bytes => format!("{} results, {} written; not in the paper", thousands(one.rows), megabytes(bytes)),
        },
        bars: DESIGNS
            .iter()
            .zip(&one.times)
            .map(|(design, times)| Stack {
                label: (*design).to_owned(),
                values: vec![times.scans, times.join().max(0.0)],
            })
            .collect(),
    };
    Stacks {
        title,
        unit: "ms".into(),
        parts: vec!["the two scans".into(), "the join".into()],
        groups: measured.iter().map(group).collect(),
    }
}

fn in_numbers(measured: &[Measured]) -> Table {
    let header = [
        "columns",
        "pass",
        "results",
        "paper's, for as many rows",
        "written",
        "row",
        "its scans",
        "its join",
        "column",
        "its scans",
        "its join",
    ];
    let mut table = Table::new("Milliseconds, cold", 2, &header);
    for one in measured {
        let mut cells = vec![one.case.columns.to_string(), one.case.title(), thousands(one.rows)];
        cells.push(thousands((published(&one.case) * one.case.rows as f64) as u64));
        cells.push(megabytes(one.spilled_bytes));
        cells.extend(one.times.iter().flat_map(|t| [t.whole, t.scans, t.join()].map(significant)));
        table.push(cells.into_iter().map(Cell::from));
    }
    table
}

fn memory_lines(with_memory: &[(u32, Measured)]) -> Lines {
    let line = |(design, name): (usize, &&'static str)| {
        Series::new(*name, with_memory.iter().map(|(_, one)| one.times[design].whole).collect())
    };
    Lines {
        title: "The join by its memory".into(),
        x_label: "memory, % of what the inner table needs".into(),
        y_label: "ms".into(),
        x: with_memory.iter().map(|(percent, _)| f64::from(*percent)).collect(),
        series: DESIGNS.iter().enumerate().map(line).collect(),
        mark: None,
    }
}

fn memory_table(with_memory: &[(u32, Measured)]) -> Table {
    let mut table = Table::new("Milliseconds by memory, cold", 1, &["memory", "bytes", "written", "row", "column"]);
    for (percent, one) in with_memory {
        let [row, column] = one.times.map(|times| significant(times.whole));
        let cells =
            [format!("{percent} %"), megabytes(one.case.memory as u64), megabytes(one.spilled_bytes), row, column];
        table.push(cells.map(Cell::from));
    }
    table
}
