//! Halverson et al. 2006: slotted pages, super tuples, columns and column abstraction, on the Gen tables and on the
//! view D4.
//!
//! [`Case`] has the parameters of the paper's cost model for a scan, and its measurement. [`model`] compares them, and
//! [`breakdown`] part by part. [`slotted`] is the standard row store with levels.

mod breakdown;
mod model;
mod prefetch;
mod scans;
mod slotted;
mod verdicts;
mod view;

pub use scans::EXPERIMENT as SCANS;

use super::scanner::{Pick, Point, Query, Scanner};
use super::{RunOptions, Workspace, quoted};
use crate::error::Result;
use freestone_data::halverson;
use freestone_demo::engine::Engine;

const PAPER: &str = "Halverson et al. 2006";

/// The paper's layouts, by the names of their designs: the standard row store, super tuples, and C-Store.
const DESIGNS: [&str; 3] = ["slotted", "row", "column"];

/// A Gen table in one layout.
#[derive(Debug, Clone, PartialEq)]
struct Stored {
    /// The number of values at each level, as in the table's name.
    levels: Vec<u32>,
    columns: usize,
    design: &'static str,
    /// The number of leading columns that are stored once per run: `levels` of super tuples, run-length encoding of
    /// columns.
    abstracted: usize,
}

impl Stored {
    fn rows(&self) -> usize {
        self.levels.iter().map(|values| *values as usize).product()
    }

    /// The paper's name of the table.
    fn gen_name(&self) -> String {
        let levels: Vec<String> = self.levels.iter().map(u32::to_string).collect();
        format!("Gen_{}", levels.join("_"))
    }

    /// The name in SQL.
    fn name(&self) -> String {
        format!("{}_of_{}_{}_{}", self.gen_name().to_lowercase(), self.columns, self.design, self.abstracted)
    }

    fn form(&self) -> String {
        let first = |count: usize| (1..=count).map(|number| format!("a{number}")).collect::<Vec<_>>().join(", ");
        let sort = if self.abstracted > 0 { format!(", sort = '{}'", first(self.abstracted)) } else { String::new() };
        // Values of 4 bytes, as in the paper; runs are the abstraction of columns.
        let encoding = |number: usize| match (self.design, number <= self.abstracted) {
            ("column", true) => "rle",
            _ => "plain",
        };
        let encodings = || (1..=self.columns).map(|number| format!("a{number}: {}", encoding(number)));
        let own = match self.design {
            "slotted" => String::new(),
            _ => format!(", encode = '{}'", encodings().collect::<Vec<_>>().join(", ")),
        };
        let own = match (self.design, self.abstracted) {
            ("row", levels @ 1..) => format!(", levels = {levels}{own}"),
            _ => own,
        };
        format!("design = '{}'{own}{sort}", self.design)
    }
}

/// Stores the table in all layouts, which have the same rows.
fn store(workspace: &Workspace, options: &RunOptions, layouts: &[Stored]) -> Result<()> {
    let Some(first) = layouts.first() else { return Ok(()) };
    let file = workspace.path("gen.parquet");
    let schema = halverson::schema(first.columns);
    freestone_data::write_parquet(&file, schema, halverson::table(&first.levels, first.columns))?;
    let engine = Engine::open(&workspace.path("database"), options.engine_options())?;
    for stored in layouts {
        let (name, form) = (stored.name(), stored.form());
        // Two figures may need the same table.
        engine.run(&format!("CREATE TABLE IF NOT EXISTS {name} WITH ({form}) AS SELECT * FROM '{}'", quoted(&file)))?;
    }
    Ok(())
}

/// A scan of some columns of all rows, with the parameters of the paper's model and its measurement.
#[derive(Debug, Clone)]
struct Case {
    stored: Stored,
    /// The number of columns that are read.
    scanned: usize,
    /// Bytes of the file.
    bytes: u64,
    /// The bytes of a value in this layout without abstraction.
    value_bytes: f64,
    measured: Point,
}

impl Case {
    /// The additional time of waiting for the disk: the model's disk I/O.
    fn disk_ms(&self) -> f64 {
        (self.measured.cold_ms - self.measured.hot_ms).max(0.0)
    }
}

/// All measurements on the Gen tables: by the varied parameter, then by layout in the order of [`DESIGNS`].
struct Measured {
    /// Figure 2a: 1 to 4 of 4 columns.
    narrow: Vec<Vec<Case>>,
    /// Figure 2b: 1 to 32 of 32 columns.
    wide: Vec<Vec<Case>>,
    /// Figures 9 and 10: 4 and 16 of 16 columns.
    sixteen: Vec<Vec<Case>>,
    /// Figure 3a: all columns of a constant number of rows, by width.
    same_rows: Vec<Vec<Case>>,
    /// Figure 3b: all columns of a constant number of fields, by width.
    same_fields: Vec<Vec<Case>>,
    /// Figure 4: by table, then super tuples with 0, 1 and 2 levels and columns with 0 and 2.
    abstractions: Vec<Vec<Case>>,
    /// Figure 14: a quarter of the columns, by width.
    forecast: Vec<Vec<Case>>,
}

/// Measurements with one read in flight.
struct Single {
    /// Nanoseconds of a page: one behind the other, and at random places.
    reads_ns: [f64; 2],
    /// 1 to 4 of 4 columns.
    cases: Vec<Vec<Case>>,
}

impl Measured {
    fn figures(&self) -> impl Iterator<Item = &Vec<Case>> {
        let Measured { narrow, wide, sixteen, same_rows, same_fields, abstractions, forecast } = self;
        [narrow, wide, sixteen, same_rows, same_fields, abstractions, forecast].into_iter().flatten()
    }

    /// Every scan.
    fn all(&self) -> impl Iterator<Item = &Case> {
        self.figures().flatten()
    }
}

/// Times scans of the first `scanned` columns of the same rows in several layouts.
fn measure(scanner: &Scanner, layouts: &[Stored], scanned: usize) -> Result<Vec<Case>> {
    let names: Vec<String> = layouts.iter().map(Stored::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let query = Query { columns: (0..scanned).collect(), pick: Pick::All };
    // The paper's averages are over five runs.
    let points = scanner.measure(&names, &vec![query; RUNS])?;
    let cases = layouts.iter().zip(&names).zip(points).map(|((stored, name), measured)| {
        let plain = Stored { abstracted: 0, ..stored.clone() };
        let value_bytes = scanner.bytes(&plain.name())? as f64 / (plain.rows() * plain.columns).max(1) as f64;
        Ok(Case { stored: stored.clone(), scanned, bytes: scanner.bytes(name)?, value_bytes, measured })
    });
    cases.collect()
}

const RUNS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_what_the_paper_names() {
        let stored = |design, abstracted| Stored { levels: vec![20, 10, 4], columns: 4, design, abstracted };
        assert_eq!(
            stored("row", 2).form(),
            "design = 'row', levels = 2, encode = 'a1: plain, a2: plain, a3: plain, a4: plain', sort = 'a1, a2'"
        );
        assert!(stored("column", 2).form().contains("a2: rle, a3: plain"));
        assert_eq!(stored("slotted", 0).form(), "design = 'slotted'");
        assert_eq!((stored("row", 0).rows(), stored("row", 0).gen_name()), (800, "Gen_20_10_4".to_owned()));
    }
}
