//! Findings as plain text: tables, checks and figures. Charts are only on the page.

use std::fmt::Write;

use crate::findings::{Check, Findings, Part, Table};

/// All findings of a run.
pub fn text(findings: &Findings) -> String {
    let mut out = format!("{}: {}\n{}\n", findings.name, findings.title, findings.question);
    for part in &findings.parts {
        out.push_str(&part_text(part));
    }
    let _ = writeln!(out, "\n{}\n{}", findings.host.hardware, findings.host.versions);
    out
}

/// One part. A chart is empty text if a table has the same figures.
pub fn part_text(part: &Part) -> String {
    match part {
        Part::Section(section) if section.title.is_empty() => format!("{}\n", section.text),
        Part::Section(section) => format!("\n{}\n", section.title),
        Part::Tiles(tiles) => tiles.tiles.iter().map(|(value, what)| format!("  {value}  {what}\n")).collect(),
        Part::Table(table) => format!("\n{}", table_text(table)),
        Part::Bars(_) | Part::Stacks(_) | Part::Lines(_) => String::new(),
        Part::Checks(checks) => checks.checks.iter().map(check_text).collect(),
        Part::Code(code) => format!("\n{}\n{}\n", code.caption, code.text.trim_end()),
    }
}

fn check_text(check: &Check) -> String {
    let mark = match check {
        check if check.holds => "  yes ",
        check if check.is_unmeasured => "  not measured: ",
        _ => "  NO  ",
    };
    let why = if check.why.is_empty() { String::new() } else { format!("      why: {}\n", check.why) };
    format!("{mark}{}: {}\n{why}", check.statement, check.detail)
}

/// A table with aligned columns. The best cells are marked by a star.
pub fn table_text(table: &Table) -> String {
    let header = table.header.iter().map(|name| name.to_owned()).collect();
    let marked = table.rows.iter().map(|row| {
        row.iter().map(|cell| if cell.best { format!("{}*", cell.text) } else { cell.text.clone() }).collect()
    });
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(marked).collect();
    let columns = table.header.len();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = if table.title.is_empty() { String::new() } else { format!("{}\n", table.title) };
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column < table.text_columns { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Cell;

    #[test]
    fn columns_align_and_the_best_is_starred() {
        let mut table = Table::new("Times", 1, &["query", "row"]);
        table.push([Cell::from("a"), Cell { text: "1.5".into(), best: true }]);
        table.push([Cell::from("long name"), Cell::from("12")]);
        assert_eq!(table_text(&table), "Times\n  query       row\n  a          1.5*\n  long name    12\n");
    }
}
