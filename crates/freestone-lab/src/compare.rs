//! `freestone-lab compare`: two results of one experiment side by side, such as those of a physical and of a virtual
//! machine. Charts become curves of overhead in percent (Grund et al. 2010, Figures 1 and 2).

use std::fs;
use std::path::Path;

use freestone_report::findings::{Cell, Check, Findings, Lines, Part, Series, Table, significant};
use freestone_report::{Host, page};

use crate::error::{LabError, Result};

/// The comparison of two results' files. The second is compared with the first.
///
/// # Errors
/// A file cannot be read, is no result of this version, or the two cannot be compared.
pub fn findings(base: &Path, other: &Path, versions: &str) -> Result<Findings> {
    let read = |path: &Path| -> Result<Findings> {
        let json = fs::read(path).map_err(LabError::file(path))?;
        serde_json::from_slice(&json).map_err(|source| LabError::Result { path: path.to_owned(), source })
    };
    let (a, b) = (read(base)?, read(other)?);
    comparable(&a, &b)?;
    let parts = parts(&a, &b);
    Ok(Findings {
        name: format!("compare-{}", a.name),
        title: format!("{}: two results compared", a.title),
        question: "How the second result differs from the first, in percent of the first.".into(),
        source: a.source.clone(),
        command: format!("freestone-lab compare {} {}", base.display(), other.display()),
        host: Host::here(versions),
        seconds: a.seconds + b.seconds,
        parts,
    })
}

/// Writes a comparison as a page of its own.
///
/// # Errors
/// The file cannot be written.
pub fn write_page(found: &Findings, path: &Path) -> Result<()> {
    let html = page::html(&found.title, &found.question, std::slice::from_ref(found));
    fs::write(path, html).map_err(LabError::file(path))
}

/// # Errors
/// The two are of different experiments or sizes, or have nothing in common.
fn comparable(a: &Findings, b: &Findings) -> Result<()> {
    let refuse = |reason: String| Err(LabError::Compare(format!("these results cannot be compared: {reason}")));
    if a.name != b.name {
        return refuse(format!("one is of {}, the other of {}; run the same experiment twice", a.name, b.name));
    }
    if a.command != b.command {
        return refuse(format!(
            "one is of `{}`, the other of `{}`; run both with the same options",
            a.command, b.command
        ));
    }
    let common = lines(a).any(|chart| lines(b).any(|other| same_points(chart, other)))
        || tables(a).any(|table| tables(b).any(|other| same_rows(table, other)));
    if !common {
        return refuse("they have no chart and no table in common; run both with the same version".into());
    }
    Ok(())
}

fn lines(found: &Findings) -> impl Iterator<Item = &Lines> {
    found.parts.iter().filter_map(|part| match part {
        Part::Lines(lines) => Some(lines),
        _ => None,
    })
}

fn tables(found: &Findings) -> impl Iterator<Item = &Table> {
    found.parts.iter().filter_map(|part| match part {
        Part::Table(table) => Some(table),
        _ => None,
    })
}

fn same_points(a: &Lines, b: &Lines) -> bool {
    a.title == b.title && a.x == b.x && a.y_label == b.y_label
}

fn same_rows(a: &Table, b: &Table) -> bool {
    a.title == b.title && a.header == b.header && a.rows.iter().any(|row| twin(row, a.text_columns, b).is_some())
}

/// The row of `table` with the same text.
fn twin<'a>(row: &[Cell], text_columns: usize, table: &'a Table) -> Option<&'a Vec<Cell>> {
    let text = |row: &[Cell]| row.iter().take(text_columns).map(|cell| cell.text.clone()).collect::<Vec<_>>();
    table.rows.iter().find(|other| text(other) == text(row) && other.len() == row.len())
}

fn parts(a: &Findings, b: &Findings) -> Vec<Part> {
    let mut machines = Table::new("", 3, &["", "the first", "the second"]);
    for (what, first, second) in [
        ("hardware", &a.host.hardware, &b.host.hardware),
        ("versions", &a.host.versions, &b.host.versions),
        ("day", &a.host.date, &b.host.date),
    ] {
        machines.push([what.to_owned(), first.clone(), second.clone()]);
    }
    let same = if a.host.hardware == b.host.hardware { " Both are of the same hardware." } else { "" };
    let text = format!(
        "{} on two machines or with two builds. Overheads are (second ÷ first − 1) × 100; below 0, the second value is smaller.{same}",
        a.command
    );
    let mut parts = vec![Part::section("Two results", text), Part::Table(machines)];
    parts.extend(checks(a, b));
    for chart in lines(a) {
        if let Some(other) = lines(b).find(|other| same_points(chart, other)) {
            parts.extend(overhead(chart, other).map(Part::Lines));
            parts.extend(both(chart, other).map(Part::Lines));
        }
    }
    for table in tables(a) {
        if let Some(other) = tables(b).find(|other| same_rows(table, other)) {
            parts.extend(side_by_side(table, other).map(Part::Table));
        }
    }
    parts
}

/// The verdicts of both.
fn checks(a: &Findings, b: &Findings) -> Option<Part> {
    let word = |check: &Check| match check {
        check if check.holds => "holds",
        check if check.is_unmeasured => "not measured",
        _ => "does not",
    };
    let mut table = Table::new(
        "Verdicts",
        5,
        &["claim", "the first", "the second", "figures of the first", "figures of the second"],
    );
    for check in a.checks() {
        let Some(other) = b.checks().find(|other| other.statement == check.statement) else { continue };
        table.push([
            check.statement.clone(),
            word(check).to_owned(),
            word(other).to_owned(),
            check.detail.clone(),
            other.detail.clone(),
        ]);
    }
    (!table.rows.is_empty()).then_some(Part::Table(table))
}

/// By how many percent each line of the second result lies above the first's. Lines without a twin, or with zeros, are
/// left out.
fn overhead(a: &Lines, b: &Lines) -> Option<Lines> {
    let of_series = |series: &Series| {
        let other = b.series.iter().find(|other| other.label == series.label)?;
        let pairs = series.values.iter().zip(&other.values);
        let values: Vec<f64> = pairs.map(|(first, second)| (second / first - 1.0) * 100.0).collect();
        values.iter().all(|value| value.is_finite()).then(|| Series::new(series.label.clone(), values))
    };
    let series: Vec<Series> = a.series.iter().filter_map(of_series).collect();
    (!series.is_empty()).then(|| Lines {
        title: format!("Overhead: {}", a.title),
        y_label: "% of the first".into(),
        series,
        mark: None,
        ..a.clone()
    })
}

/// The lines of both results in one chart.
fn both(a: &Lines, b: &Lines) -> Option<Lines> {
    let named = |series: &Series, place: &str| Series { label: format!("{} {place}", series.label), ..series.clone() };
    let series: Vec<Series> = a
        .series
        .iter()
        .filter_map(|first| Some((first, b.series.iter().find(|second| second.label == first.label)?)))
        .flat_map(|(first, second)| [named(first, "1"), named(second, "2")])
        .collect();
    (!series.is_empty()).then(|| Lines { title: format!("First and second: {}", a.title), series, ..a.clone() })
}

/// A row per row and number that both have: the first, the second, and the overhead.
fn side_by_side(a: &Table, b: &Table) -> Option<Table> {
    let mut table = Table::new(a.title.clone(), 2, &["row", "column", "the first", "the second", "overhead, %"]);
    for row in &a.rows {
        let Some(other) = twin(row, a.text_columns, b) else { continue };
        let name: Vec<&str> = row.iter().take(a.text_columns).map(|cell| cell.text.as_str()).collect();
        for column in a.text_columns..row.len() {
            let (Some(first), Some(second)) = (number(&row[column].text), number(&other[column].text)) else {
                continue;
            };
            let percent = (second / first - 1.0) * 100.0;
            let percent = if percent.is_finite() { significant(percent) } else { "-".into() };
            table.push([
                name.join(", "),
                a.header[column].clone(),
                row[column].text.clone(),
                other[column].text.clone(),
                percent,
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The number at the start of a cell, such as `1,234 MB` or `1.5 (1.2–1.8)`.
fn number(text: &str) -> Option<f64> {
    text.split([' ', '%']).next()?.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, command: &str, values: &[f64]) -> Findings {
        let mut table = Table::new("times", 1, &["attributes", "row"]);
        table.push(["1".to_owned(), format!("{} (1.0–9.9)", significant(values[0]))]);
        table.push([format!("only of {}", values[0]), "7".into()]);
        let lines = Lines {
            title: "Projectivity".into(),
            x_label: "attributes".into(),
            y_label: "ms".into(),
            x: vec![1.0, 2.0],
            series: vec![Series::new("row", values.to_vec())],
            mark: None,
        };
        Findings {
            name: name.into(),
            title: "T".into(),
            question: "Q".into(),
            source: "S".into(),
            command: command.into(),
            host: Host { hardware: format!("machine {}", values[0]), ..Host::default() },
            seconds: 1.0,
            parts: vec![
                Part::checks(vec![Check::new("rows win", values[0] > 1.5, "x")]),
                Part::Lines(lines),
                Part::Table(table),
            ],
        }
    }

    fn written(folder: &Path, file: &str, found: &Findings) -> std::path::PathBuf {
        let path = folder.join(file);
        fs::write(&path, serde_json::to_vec(found).expect("JSON")).expect("written");
        path
    }

    #[test]
    fn overheads_are_percentages_of_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let a = written(folder.path(), "a.json", &run("x", "run x", &[1.0, 2.0]));
        let b = written(folder.path(), "b.json", &run("x", "run x", &[2.0, 3.0]));
        let found = findings(&a, &b, "v").expect("comparable");
        let charts: Vec<&Lines> = lines(&found).collect();
        assert_eq!(charts[0].series[0].values, [100.0, 50.0]);
        assert_eq!((charts[0].title.as_str(), charts[1].series.len()), ("Overhead: Projectivity", 2));
        let text = freestone_report::terminal::text(&found);
        assert!(text.contains("machine 1") && text.contains("machine 2"), "{text}");
        let times = tables(&found).find(|table| table.title == "times").expect("the table");
        assert_eq!((times.rows.len(), times.rows[0][4].text.as_str()), (1, "100"));
        let verdicts = tables(&found).find(|table| table.title == "Verdicts").expect("verdicts");
        assert_eq!([&verdicts.rows[0][1].text, &verdicts.rows[0][2].text], ["does not", "holds"]);
        write_page(&found, &folder.path().join("c.html")).expect("a page");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let a = written(folder.path(), "a.json", &run("x", "run x", &[1.0, 2.0]));
        let refused = |other: &Findings| {
            let b = written(folder.path(), "b.json", other);
            findings(&a, &b, "v").expect_err("refused").to_string()
        };
        assert!(refused(&run("y", "run y", &[1.0, 2.0])).contains("one is of x, the other of y"));
        assert!(refused(&run("x", "run x --rows 5", &[1.0, 2.0])).contains("run both with the same options"));
        assert!(
            refused(&Findings { parts: vec![], ..run("x", "run x", &[1.0, 2.0]) }).contains("no chart and no table")
        );
        fs::write(folder.path().join("b.json"), "{\"name\": 7}").expect("written");
        let error = findings(&a, &folder.path().join("b.json"), "v").expect_err("no result").to_string();
        assert!(error.contains("no result of this version"), "{error}");
        assert!(findings(&a, &folder.path().join("missing.json"), "v").is_err());
    }
}
