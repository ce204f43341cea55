//! The queries of one table: from the log, which has no literals, or planned from SQL, with known predicates.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use freestone_advisor::{Query, QueryPredicate, TableStatistics, Workload};
use freestone_store::cluster::DimensionPath;
use freestone_store::design::Design;
use freestone_store::scan::{RowFilter, ScanRequest};
use freestone_store::{Snapshot, Table};

use super::literals;
use crate::error::{Error, Result};
use crate::sql::statement::{Statement, StatementKind, parse_script};
use crate::workload::{LoggedScan, TableReads};

/// The maximum number of attributes of other tables that are considered for one table.
const PATHS_MAX: usize = 32;

/// The queries of one table.
pub(crate) struct TableWork {
    pub table: Arc<Table>,
    pub scans: Vec<Scan>,
}

/// One query's scan of the table.
pub(crate) enum Scan {
    /// From a plan: the predicates are known, but not their selectivities.
    Planned { name: String, weight: f64, asked: Box<TableReads> },
    /// From the log: the selectivities are known, but not the predicates.
    Logged(Query),
}

impl TableWork {
    /// The workload in the form of the advisor.
    pub fn workload(&self, statistics: &TableStatistics) -> Result<Workload> {
        let queries = self.scans.iter().map(|scan| match scan {
            Scan::Logged(query) => Ok(query.clone()),
            Scan::Planned { name, weight, asked } => {
                let predicates = asked.predicates.iter().map(|p| statistics.selectivity(p.column, &p.predicate));
                let mut shares: Vec<f64> = predicates.collect();
                // Measured when the rows of a trial are available. Until then the usual guess of planners.
                shares.extend(asked.row_filters.iter().filter(|f| !f.columns().is_empty()).map(|_| 0.25));
                Ok(asked.query(name, *weight, &shares))
            }
        });
        Ok(Workload { queries: queries.collect::<Result<_>>()? })
    }

    /// The attributes of other tables by which the table may be clustered, without duplicates: the dimensions of
    /// designs, and the attributes in queries, by descending time.
    pub fn paths<'d>(&self, designs: impl Iterator<Item = &'d Design>) -> Vec<DimensionPath> {
        let mut paths: Vec<DimensionPath> = vec![];
        let mut add = |names: &[String]| {
            if names.len() > 1 && paths.len() < PATHS_MAX && !paths.iter().any(|path| path.names == names) {
                paths.push(DimensionPath { names: names.to_vec(), bits: None });
            }
        };
        designs.flat_map(|design| &design.cluster).for_each(|path| add(&path.names));
        for scan in &self.scans {
            match scan {
                Scan::Logged(query) => query.paths.iter().for_each(|test| add(&test.path)),
                Scan::Planned { asked, .. } => asked.paths.iter().for_each(|path| add(&path.test.path)),
            }
        }
        paths
    }

    /// The workload with the selectivities of row filters on the given rows.
    ///
    /// # Errors
    ///
    /// A filter fails.
    pub fn with_filters(&self, mut workload: Workload, rows: &RecordBatch) -> Result<Workload> {
        for (scan, query) in self.scans.iter().zip(&mut workload.queries) {
            let Scan::Planned { asked, .. } = scan else { continue };
            let filters = asked.row_filters.iter().filter(|f| !f.columns().is_empty());
            for (filter, predicate) in filters.zip(query.predicates.iter_mut().skip(asked.predicates.len())) {
                predicate.selectivity = passing(filter, rows)?;
            }
        }
        Ok(workload)
    }

    /// The scan of a query, for trials: with its own predicates, or with predicates of about the same selectivity on a
    /// sample.
    ///
    /// # Errors
    ///
    /// A predicate cannot be made.
    pub fn request(&self, at: usize, query: &Query, sample: &RecordBatch) -> Result<Option<ScanRequest>> {
        let request = ScanRequest::columns(query.columns.clone());
        Ok(Some(match &self.scans[at] {
            Scan::Planned { asked, .. } => ScanRequest {
                projection: asked.columns.clone(),
                predicates: asked.predicates.clone(),
                row_filters: asked.row_filters.clone(),
                ..request
            },
            Scan::Logged(_) => {
                let made = |p: &QueryPredicate| literals::predicate(p, sample.column(p.column));
                let predicates: Option<Vec<_>> = query.predicates.iter().map(made).collect::<Result<_>>()?;
                let Some(predicates) = predicates else { return Ok(None) };
                ScanRequest { predicates, ..request }
            }
        }))
    }
}

/// The share of the rows that satisfy a filter on decoded columns.
fn passing(filter: &Arc<dyn RowFilter>, rows: &RecordBatch) -> Result<f64> {
    let columns: Vec<_> = filter.columns().iter().map(|column| rows.column(*column).clone()).collect();
    let bits = filter.evaluate(&columns, rows.num_rows()).map_err(|error| Error::invalid(error.to_string()))?;
    let passed: u32 = bits.iter().map(|word| word.count_ones()).sum();
    Ok((f64::from(passed) / rows.num_rows().max(1) as f64).clamp(0.0, 1.0))
}

/// The logged scans on existing tables, one entry per table. Scans with columns that no longer exist are left out.
pub(crate) fn logged_work(scans: &[LoggedScan], snapshot: &Snapshot, only: Option<&str>) -> Vec<TableWork> {
    let mut works: Vec<TableWork> = vec![];
    for scan in scans.iter().filter(|scan| only.is_none_or(|only| scan.table == only)) {
        let Some(table) = snapshot.table(&scan.table) else { continue };
        let Some(mut query) = logged_query(scan, table) else { continue };
        // Times in an earlier design of the table are not valid for the current one.
        let mut designs = std::iter::once(table).chain(snapshot.copies(table)).map(|of| of.design.to_string());
        let is_known = scan.design_ms > 0.0 && designs.any(|design| design == scan.design);
        query.statement_ms = is_known.then(|| scan.design_ms / scan.design_runs.max(1) as f64);
        of_table(&mut works, table).push(Scan::Logged(query));
    }
    works
}

/// The scans of one table among those of all tables.
pub(crate) fn of_table<'a>(works: &'a mut Vec<TableWork>, table: &Arc<Table>) -> &'a mut Vec<Scan> {
    let at = works.iter().position(|work| work.table.name == table.name).unwrap_or_else(|| {
        works.push(TableWork { table: table.clone(), scans: vec![] });
        works.len() - 1
    });
    &mut works[at].scans
}

fn logged_query(scan: &LoggedScan, table: &Table) -> Option<Query> {
    let position = |name: &String| table.schema.columns.iter().position(|column| column.name == *name);
    let positions = |names: &[String]| names.iter().map(position).collect::<Option<Vec<usize>>>();
    let predicate = |p: &crate::workload::LoggedPredicate| {
        let column = position(&p.column)?;
        Some(QueryPredicate { column, selectivity: p.selectivity.clamp(0.0, 1.0), form: p.form })
    };
    let mut columns = positions(&scan.columns)?;
    columns.sort_unstable();
    Some(Query {
        name: shortened(&scan.statement),
        weight: (scan.runs as f64).max(1.0),
        columns,
        predicates: scan.predicates.iter().map(predicate).collect::<Option<_>>()?,
        paths: scan.paths.clone(),
        output: scan.output,
        order: positions(&scan.order)?,
        statement_ms: None,
    })
}

/// A statement as a name: in one line, with its middle left out if it is long.
pub(crate) fn shortened(statement: &str) -> String {
    const LONG: usize = 80;
    let words: Vec<char> = statement.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    if words.len() <= LONG {
        return words.into_iter().collect();
    }
    let (first, last) = (&words[..LONG / 2], &words[words.len() - LONG / 2..]);
    format!("{} … {}", first.iter().collect::<String>().trim_end(), last.iter().collect::<String>().trim_start())
}

/// The queries of a script with their weights. A weight is the last `-- weight: 10` between a query and the one before
/// it, and otherwise 1.
///
/// # Errors
///
/// A statement is not a query, a weight is not a positive number, or there is no query.
pub(crate) fn weighted_statements(script: &str) -> Result<Vec<(Statement, f64)>> {
    let lines: Vec<&str> = script.lines().collect();
    let mut weighted = vec![];
    let mut behind = 0;
    for statement in parse_script(script) {
        if statement.kind != StatementKind::Query {
            return Err(Error::invalid(format!("line {} of the workload is no query", statement.line)).with_hint(
                "a workload is queries, each with a comment `-- weight: 10` before it if it runs more often",
            ));
        }
        let before = lines.get(behind..statement.line - 1).unwrap_or_default();
        let mut weight = 1.0;
        for line in before {
            if let Some(said) = line.trim().strip_prefix("--").and_then(|rest| rest.trim().strip_prefix("weight:")) {
                weight = said.trim().parse().ok().filter(|w: &f64| w.is_finite() && *w > 0.0).ok_or_else(|| {
                    Error::invalid(format!("weight `{}` of the workload is not a positive number", said.trim()))
                })?;
            }
        }
        behind = statement.line - 1 + statement.text.lines().count();
        weighted.push((statement, weight));
    }
    if weighted.is_empty() {
        return Err(Error::invalid("the workload has no query"));
    }
    Ok(weighted)
}

/// The scans of one planned query.
pub(crate) fn planned_scans(name: &str, weight: f64, all: Vec<TableReads>) -> impl Iterator<Item = (Arc<Table>, Scan)> {
    all.into_iter().map(move |asked| {
        let table = asked.table.clone();
        (table, Scan::Planned { name: name.to_owned(), weight, asked: Box::new(asked) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_from_comments() {
        let script = "-- a dashboard\n-- weight: 10\nSELECT 1;\nSELECT 2\n;\n-- weight: 0.5\nSELECT\n 3";
        let weights: Vec<f64> = weighted_statements(script).expect("it reads").into_iter().map(|(_, w)| w).collect();
        assert_eq!(weights, [10.0, 1.0, 0.5]);
        for (script, expected) in [
            ("SELECT 1; DELETE FROM t", "line 1 of the workload is no query"),
            ("-- weight: many\nSELECT 1", "weight `many`"),
            ("-- nothing", "no query"),
        ] {
            let error = weighted_statements(script).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn long_statements_keep_their_ends() {
        let name = shortened(&format!("SELECT a\n FROM t WHERE {} = 1", "x".repeat(200)));
        assert!(name.starts_with("SELECT a FROM t WHERE") && name.ends_with("= 1") && name.chars().count() < 90);
    }
}
