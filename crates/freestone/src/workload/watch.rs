//! A running statement: the parameters of its scans and, at its end, what they observed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::{ExecutionPlan, RecordBatchStream, SendableRecordBatchStream};
use freestone_advisor::{Output, PathTest, PredicateForm, Query, QueryPredicate};
use freestone_codec::{BytesPredicate, IntPredicate, Predicate};
use freestone_store::Table;
use freestone_store::scan::{ColumnPredicate, RowFilter, ScanMetrics};
use futures::{Stream, StreamExt};

use super::log::{LoggedPredicate, LoggedScan, WorkloadLog, seconds_since_1970};
use crate::internal_names::is_temporary;
use crate::provider::{FreestoneSource, ScanAggregateExec, estimated_share, path_tests};

/// What a plan reads of one native table.
#[derive(Debug, Clone)]
pub(crate) struct TableReads {
    pub table: Arc<Table>,
    /// The scanned table: the table or a copy of it.
    pub scanned: Arc<Table>,
    /// The columns of the scan's output, by position in the table.
    pub columns: Vec<usize>,
    pub predicates: Vec<ColumnPredicate>,
    pub row_filters: Vec<Arc<dyn RowFilter>>,
    /// Whether rows are left out for reasons other than these filters: a limit, or the result of a join.
    pub is_partial: bool,
    /// The tests of joins on attributes to which foreign keys lead.
    pub paths: Vec<AskedPath>,
    pub order: Vec<usize>,
    pub output: Output,
    pub metrics: Arc<ScanMetrics>,
}

/// A test of an attribute to which foreign keys lead.
#[derive(Debug, Clone)]
pub(crate) struct AskedPath {
    pub test: PathTest,
    /// The scan of the plan that makes the test, and the number of the predicate, whose observed selectivity is that of
    /// the test. `None`: the selectivity was found when the query was planned.
    pub asked_by: Option<(usize, usize)>,
}

impl AskedPath {
    pub fn known(test: PathTest) -> Self {
        AskedPath { test, asked_by: None }
    }
}

/// The assumed selectivity of a filter on decoded values.
const ROW_FILTER_SHARE: f64 = 0.25;

/// What a plan reads of native tables. No rows are read.
pub(crate) fn asked(plan: &Arc<dyn ExecutionPlan>) -> Vec<TableReads> {
    let mut all = vec![];
    collect(plan, Output::Columns, &mut all);
    if all.len() > 1 {
        all.iter_mut().zip(path_tests(plan)).for_each(|(asked, paths)| asked.paths.extend(paths));
    }
    all
}

fn collect(node: &Arc<dyn ExecutionPlan>, output: Output, all: &mut Vec<TableReads>) {
    if let Some(source) = FreestoneSource::of(node) {
        all.push(source.asked(output));
    }
    let output = node.downcast_ref::<ScanAggregateExec>().map_or(Output::Columns, ScanAggregateExec::output);
    for child in node.children() {
        collect(child, output, all);
    }
}

impl TableReads {
    /// The query in the form of the advisor. `selectivities` are those of the predicates, followed by those of the row
    /// filters.
    pub fn query(&self, name: &str, weight: f64, selectivities: &[f64]) -> Query {
        let tests = self.tests().into_iter().zip(selectivities);
        Query {
            name: name.to_owned(),
            weight,
            columns: self.output_columns(),
            predicates: tests
                .map(|((column, form), share)| QueryPredicate { column, selectivity: *share, form })
                .collect(),
            paths: merged(self.paths.iter().map(|path| path.test.clone())),
            output: self.output,
            order: self.order.clone(),
            statement_ms: None,
        }
    }

    /// The columns of the scan's output, ascending and without duplicates, and all columns of row filters except the
    /// first of each.
    fn output_columns(&self) -> Vec<usize> {
        let needed = self.row_filters.iter().flat_map(|filter| filter.columns().iter().skip(1));
        let mut columns: Vec<usize> = self.columns.iter().chain(needed).copied().collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The column and form of each conjunct: the predicates, followed by the row filters.
    fn tests(&self) -> Vec<(usize, PredicateForm)> {
        let predicates = self.predicates.iter().map(|p| (p.column, form(&p.predicate)));
        let filters = self.row_filters.iter().filter_map(|f| Some((*f.columns().first()?, PredicateForm::Other)));
        predicates.chain(filters).collect()
    }

    /// The selectivities of the conjuncts: the estimates, adjusted so that their product is the observed one.
    fn selectivities(&self) -> Vec<f64> {
        let filters = self.row_filters.iter().filter(|f| !f.columns().is_empty()).map(|_| ROW_FILTER_SHARE);
        let rows = self.table.rows();
        let predicates = self.predicates.iter().map(|p| estimated_share(&self.table, p, rows));
        let estimates: Vec<f64> = predicates.chain(filters).map(|share| share.clamp(1e-9, 1.0)).collect();
        if self.is_partial || rows == 0 {
            return estimates;
        }
        let observed = (self.metrics.totals().rows_selected as f64 / rows as f64).clamp(0.1 / rows as f64, 1.0);
        fitted(&estimates, observed)
    }

    /// `shares` are the observed selectivities of the conjuncts of each scan.
    fn logged(&self, statement: &str, ms: f64, shares: &[Vec<f64>]) -> LoggedScan {
        let name = |column: &usize| self.table.schema.columns[*column].name.clone();
        let tests = self.tests().into_iter().zip(self.selectivities());
        let observed = |path: &AskedPath| {
            let share = path.asked_by.and_then(|(scan, predicate)| shares.get(scan)?.get(predicate).copied());
            PathTest { selectivity: share.unwrap_or(path.test.selectivity), ..path.test.clone() }
        };
        LoggedScan {
            table: self.table.name.clone(),
            statement: statement.to_owned(),
            columns: self.output_columns().iter().map(name).collect(),
            predicates: tests
                .map(|((column, form), selectivity)| LoggedPredicate { column: name(&column), form, selectivity })
                .collect(),
            paths: merged(self.paths.iter().map(observed)),
            output: self.output,
            order: self.order.iter().map(name).collect(),
            runs: 1,
            total_ms: ms,
            design: self.scanned.design.to_string(),
            design_runs: 1,
            design_ms: ms,
            last_run: seconds_since_1970(),
        }
    }
}

/// One test per attribute: of two, such as the ends of a range, their conjunction. Tests by which no order prunes are
/// left out.
fn merged(tests: impl Iterator<Item = PathTest>) -> Vec<PathTest> {
    let mut all: Vec<PathTest> = vec![];
    for test in tests.filter(|test| test.form != PredicateForm::Other) {
        match all.iter_mut().find(|known| known.path == test.path) {
            Some(known) => known.selectivity *= test.selectivity,
            None => all.push(test),
        }
    }
    all
}

/// Selectivities whose product is `observed`: the estimates, raised to a common power.
pub(crate) fn fitted(estimates: &[f64], observed: f64) -> Vec<f64> {
    let product: f64 = estimates.iter().product();
    if product >= 1.0 - 1e-9 {
        // By the estimates no conjunct selects, so all get the same selectivity.
        return estimates.iter().map(|_| observed.powf(1.0 / estimates.len() as f64)).collect();
    }
    let power = observed.ln() / product.ln();
    estimates.iter().map(|share| share.powf(power).min(1.0)).collect()
}

/// The form of a predicate.
pub(crate) fn form(predicate: &Predicate) -> PredicateForm {
    match predicate {
        Predicate::IsNull => PredicateForm::Equal,
        Predicate::Int(IntPredicate::In(list)) if list.len() == 1 => PredicateForm::Equal,
        Predicate::Bytes(BytesPredicate::In(list)) if list.len() == 1 => PredicateForm::Equal,
        Predicate::Int(IntPredicate::Range { low, high }) if low == high => PredicateForm::Equal,
        Predicate::Int(IntPredicate::Range { .. }) => PredicateForm::Range,
        Predicate::Int(IntPredicate::In(_) | IntPredicate::Keys(_)) => PredicateForm::In,
        Predicate::Bytes(BytesPredicate::Range { low: Some(low), high: Some(high) }) if low.value == high.value => {
            PredicateForm::Equal
        }
        Predicate::Bytes(BytesPredicate::Range { .. } | BytesPredicate::Prefix(_)) => PredicateForm::Range,
        Predicate::Bytes(BytesPredicate::In(_)) => PredicateForm::In,
        _ => PredicateForm::Other,
    }
}

/// A statement that is logged when it is complete.
pub(crate) struct Watch {
    log: Arc<WorkloadLog>,
    statement: Arc<str>,
    asked: Vec<TableReads>,
    start: Instant,
}

impl Watch {
    /// `None` if the statement does not read native tables.
    pub fn begin(log: &Arc<WorkloadLog>, statement: &Arc<str>, asked: Vec<TableReads>) -> Option<Watch> {
        let log = log.clone();
        (!asked.is_empty()).then(|| Watch { log, statement: statement.clone(), asked, start: Instant::now() })
    }

    /// The statement has returned its last row.
    pub fn end(self) {
        let ms = self.start.elapsed().as_secs_f64() * 1e3;
        let shares: Vec<Vec<f64>> = self.asked.iter().map(TableReads::selectivities).collect();
        // The log is that of the database, whose other sessions know nothing of a temporary table.
        for asked in self.asked.iter().filter(|asked| !is_temporary(&asked.table.name)) {
            self.log.add(asked.logged(&self.statement, ms, &shares));
        }
    }
}

/// The rows of a watched statement.
pub(crate) struct Watched {
    pub inner: SendableRecordBatchStream,
    pub watch: Option<Watch>,
}

impl Stream for Watched {
    type Item = Result<RecordBatch, DataFusionError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.inner.poll_next_unpin(context);
        match &polled {
            Poll::Ready(None) => {
                if let Some(watch) = self.watch.take() {
                    watch.end();
                }
            }
            Poll::Ready(Some(Err(_))) => self.watch = None,
            _ => {}
        }
        polled
    }
}

impl RecordBatchStream for Watched {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_one_attribute_are_one() {
        let test = |name: &str, selectivity| PathTest {
            path: vec!["k".into(), name.into()],
            selectivity,
            form: PredicateForm::Range,
        };
        let other = PathTest { form: PredicateForm::Other, ..test("a", 0.1) };
        let found = merged([other, test("a", 0.5), test("b", 0.25), test("a", 0.5)].into_iter());
        assert_eq!(found, [test("a", 0.25), test("b", 0.25)]);
    }

    #[test]
    fn shares_are_moved_to_what_was_observed() {
        let product = |shares: &[f64]| shares.iter().product::<f64>();
        let shares = fitted(&[0.1, 0.5], 0.01);
        assert!((product(&shares) - 0.01).abs() < 1e-12 && shares[0] < shares[1]);
        let unknown = fitted(&[1.0, 1.0], 0.25);
        assert_eq!(unknown, [0.5, 0.5]);
        assert!(fitted(&[], 0.5).is_empty());
    }
}
