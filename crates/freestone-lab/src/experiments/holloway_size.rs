//! Bytes per tuple of the papers' generated tables, as rows and as columns, sorted by all columns, with the encodings of the
//! paper's Table 1.

use super::holloway::{form, rows_of};
use super::{Experiment, RunOptions, published, quoted};
use crate::Notify;
use crate::error::{LabError, Result};
use freestone_data::holloway::Table as Generated;
use freestone_demo::engine::Engine;
use freestone_report::findings::{Bar, BarGroup, Bars, Cell, Check, Part, Table, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "holloway-size",
    title: "Compressed size of rows and columns",
    shows: "Sorted on all columns and compressed as Table 1 says, a row store is as small as a column store: bytes a tuple, whole files.",
    source: "Holloway and DeWitt 2008, sections 4.1 and 4.2, Tables 1 and 2 (60 million rows there)",
    size: "--rows 1000000 (Wide-E a fifth)",
    run,
};

const ROWS: usize = 1_000_000;

const PLACE: &str = "Holloway and DeWitt 2008, 6.1, Table 2";

/// The tolerated factor of a size to the paper's.
const TOLERANCE: f64 = 1.10;

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let workspace = options.workspace("holloway-size")?;
    let engine = Engine::open(&workspace.path("database"), options.engine_options())?;
    let mut table = Table::new(
        format!("Bytes a tuple, {} rows (Wide-E a fifth), sorted on all columns", thousands(rows as i64)),
        1,
        &["table", "Table 2", "row", "column", "difference, bits", "least possible"],
    );
    let mut checks = vec![];
    let printed = options.tables().into_iter().filter_map(|table| Some((table, published::tuple_sizes(table)?.2)));
    let mut groups = vec![];
    for (generated, target) in printed {
        let name = generated.name();
        notify(&format!("generating {name}"));
        let file = workspace.path("table.parquet");
        let own_rows = rows_of(generated, rows);
        freestone_data::write_parquet(&file, generated.schema(), generated.batches(own_rows, 1))?;
        let stored = |design: &str| {
            notify(&format!("storing {name} as {design}"));
            store(&engine, generated, design, &quoted(&file), own_rows)
        };
        let (row, column) = (stored("row")?, stored("column")?);
        let bars = vec![Bar::new("row", row), Bar::new("column", column), Bar::published("row", target)];
        groups.push(BarGroup { label: name.into(), note: String::new(), bars });
        let text = |bytes: f64| format!("{bytes:.2}");
        let floor = entropy(generated, own_rows).map_or("–".to_owned(), text);
        let difference = format!("{:.1}", (row - column) * 8.0);
        table.push([name.to_owned(), text(target), text(row), text(column), difference.clone(), floor].map(Cell::from));
        for (design, bytes) in [("row", row), ("column", column)] {
            let encodings = encodings(generated, design);
            let check = Check::new(
                format!("{name} as {design} is within 10 % of the paper's {target} bytes, or below"),
                bytes <= target * TOLERANCE,
                format!("{bytes:.2} bytes a tuple, {encodings}"),
            );
            let why = format!(
                "{} rows leave less to the order than the paper's (60 million, Wide-E 12 million): log2 of the rows, in bits a tuple, is what sorting saves",
                thousands(own_rows as i64)
            );
            checks.push(check.claimed(PLACE).or_because(why));
        }
        let check = Check::new(
            format!("{name}: rows and columns compress to within a few bits of each other (16)"),
            (row - column).abs() * 8.0 <= 16.0,
            format!("{difference} bits a tuple"),
        );
        let why =
            format!("rows {row:.2} bytes, columns {column:.2}, of which the ends of pages are up to 32 KiB a column");
        checks.push(check.claimed(PLACE).or_because(why));
    }
    let text = "Columns have the encodings of the paper's Table 1, whether or not others would be smaller; dense pages of rows have no \
                such option, and choose bit-packing, differences of the sorted prefix and dictionaries, which are Table 1's for \
                rows. Whole pages of whole files count, with headers, zones and footers. The least possible is the entropy of a \
                sorted table of independent uniform columns: the sum of log2(range), less log2(rows!) / rows for the order \
                that sorting makes free. Fewer rows than the paper's 60 million leave less to the order: log2(60) = 5.9 bits \
                a tuple at 1 million.";
    let title = "Table 2: compressed bytes per tuple".to_owned();
    let bars = Part::Bars(Bars { title, unit: "B".into(), tie: 0.0, groups });
    Ok(vec![Part::section("Sizes", text), bars, Part::Table(table), Part::checks(checks)])
}

/// Bytes per tuple of a table stored in `design`. Its rows must be unchanged.
fn store(engine: &Engine, generated: Generated, design: &str, file: &str, rows: usize) -> Result<f64> {
    let columns: Vec<String> = generated.schema().fields().iter().map(|field| field.name().clone()).collect();
    let (form, sort) = (form(generated, design), columns.join(", "));
    engine.run(&format!("CREATE TABLE t WITH ({form}, sort = '{sort}') AS SELECT * FROM '{file}'"))?;
    let (stored, expected) = (engine.answer("SELECT * FROM t")?, engine.answer(&format!("SELECT * FROM '{file}'"))?);
    if stored != expected {
        return Err(LabError::Answers(format!("{} as {design} has rows {stored}, not {expected}", generated.name())));
    }
    let bytes = engine.table_bytes("t")?;
    engine.run("DROP TABLE t")?;
    Ok(bytes as f64 / rows as f64)
}

/// The encodings with which a table is stored, in words.
fn encodings(generated: Generated, design: &str) -> String {
    let form = form(generated, design);
    let Some((_, pinned)) = form.split_once("encode = ") else {
        return "with the encodings that dense pages choose".to_owned();
    };
    // The first and the last column of neighbours with the same encoding.
    let mut groups: Vec<(&str, &str, &str)> = vec![];
    for (column, encoding) in pinned.trim_matches('\'').split(", ").filter_map(|one| one.split_once(": ")) {
        match groups.last_mut() {
            Some((_, last, own)) if *own == encoding => *last = column,
            _ => groups.push((column, column, encoding)),
        }
    }
    let texts = groups.iter().map(|(first, last, encoding)| format!("{first} to {last} {encoding}"));
    format!("with Table 1's encodings: {}", texts.collect::<Vec<_>>().join(", "))
}

/// The entropy of a tuple of a sorted table in bytes, for tables of independent uniform columns only.
fn entropy(generated: Generated, rows: usize) -> Option<f64> {
    if generated == Generated::NarrowS {
        return None;
    }
    let values: f64 = generated.ranges().iter().map(|range| f64::from(*range).log2()).sum();
    // Stirling: log2(n!) / n = log2(n) - log2(e), with a small remainder that does not matter here.
    let order = (rows as f64).log2() - std::f64::consts::LOG2_E;
    Some((values - order) / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    /// With twenty thousand rows, the order saves less and the ends of pages cost more: bounds for any size.
    #[test]
    fn sizes_stay_near_the_entropy() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let rows = 20_000;
        let engine = Engine::open(&folder.path().join("db"), freestone::Options::default()).expect("a new database");
        let file = folder.path().join("t.parquet");
        for generated in [Generated::NarrowE, Generated::WideE, Generated::NarrowU] {
            freestone_data::write_parquet(&file, generated.schema(), generated.batches(rows, 1)).expect("writable");
            let least = entropy(generated, rows).expect("uniform");
            for design in ["row", "column"] {
                let bytes = store(&engine, generated, design, &quoted(&file), rows).expect("it stores");
                assert!(bytes > least, "{generated:?} {design}: {bytes} beats the entropy {least}");
                // At this size the last page of each column is mostly empty: up to 32 KiB per column.
                let page_ends = 32768.0 * generated.schema().fields().len() as f64 / rows as f64;
                let most = least * 1.12 + 5.0 + if design == "column" { page_ends } else { 2.0 };
                assert!(bytes < most, "{generated:?} {design}: {bytes} bytes a tuple, {least} least, {most} most");
            }
        }
    }

    #[test]
    fn columns_have_the_encodings_of_table_1() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let engine = Engine::open(&folder.path().join("db"), freestone::Options::default()).expect("a new database");
        let file = folder.path().join("t.parquet");
        for generated in [Generated::NarrowE, Generated::NarrowS, Generated::WideE, Generated::NarrowU] {
            freestone_data::write_parquet(&file, generated.schema(), generated.batches(5_000, 1)).expect("writable");
            store(&engine, generated, "column", &quoted(&file), 5_000).expect("pinned encodings fit the columns");
        }
        let pinned = "with Table 1's encodings: c1 to c3 rle, c4 to c10 bitpack";
        assert_eq!(encodings(Generated::NarrowE, "column"), pinned);
        assert_eq!(encodings(Generated::NarrowE, "row"), "with the encodings that dense pages choose");
    }

    #[test]
    fn the_run_has_three_checks_a_table() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options =
            experiments::RunOptions { rows: Some(20_000), output: folder.path().to_owned(), ..Default::default() };
        let findings = experiments::run("holloway-size", &options, &|_| {}).expect("the run succeeds");
        assert_eq!(findings.checks().count(), 12);
        assert!(!folder.path().join("holloway-size.tmp").exists(), "the workspace is removed");
    }
}
