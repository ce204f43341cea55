//! The choice of the copy that a query reads: the one for which the scan is expected to read the fewest bytes of pages.
//!
//! Copies have the rows of the table in designs of their own (fractured mirrors; materialized column groups, Holloway
//! and DeWitt 2008). So a key finds its row in one page of a row copy, and a sum reads one column of a column copy. The
//! estimate considers zones, dimensions that joins prune, the estimated rows of filters, and whether the rows have the
//! requested order. It uses the same rules as the scan itself.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::datasource::source::DataSource;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::pushdown_sort::PushdownSort;
use datafusion::physical_plan::ExecutionPlan;
use freestone_store::Table;

use super::paths::{PathPredicates, path_tests};
use super::source::{FreestoneSource, sources, with_source};
use crate::settings::FreestoneSettings;

/// A copy is read if it saves at least this share of the bytes.
const WORTH: f64 = 0.05;
/// The cost of sorting in bytes per row: each value is moved several times, with the key of its row.
const BYTES_SORTED: f64 = 32.0;

/// Lets scans read copies of their tables.
#[derive(Debug)]
pub struct ChooseCopies;

impl PhysicalOptimizerRule for ChooseCopies {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let is_off = options.extensions.get::<FreestoneSettings>().is_some_and(|own| !own.copies);
        let has_copies = |source: &FreestoneSource| current_copies(source).next().is_some();
        if is_off || !plan.exists(|node| Ok(FreestoneSource::of(node).is_some_and(has_copies)))? {
            return Ok(plan);
        }
        let scans = sources(&plan)?.len();
        (0..scans).try_fold(plan, |plan, scan| with_best(plan, scan, options))
    }

    fn name(&self) -> &str {
        "ChooseCopies"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn current_copies(source: &FreestoneSource) -> impl Iterator<Item = &Arc<Table>> {
    let copies = source.snapshot().into_iter().flat_map(|snapshot| snapshot.copies(source.table()));
    copies.filter(|copy| copy.is_current())
}

/// The plan with this scan reading the best copy.
fn with_best(plan: Arc<dyn ExecutionPlan>, scan: usize, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let source = &sources(&plan)?[scan];
    if current_copies(source).next().is_none() {
        return Ok(plan);
    }
    let joined: f64 = path_tests(&plan)[scan].iter().map(|path| path.test.selectivity).product();
    let selected = source.estimated_rows() as f64 * joined;
    let mut candidates = vec![Candidate::new(plan, scan, selected, options)?];
    candidates[0].bytes *= 1.0 - WORTH;
    for copy in current_copies(source) {
        let Some(source) = source.on_copy(copy)? else { continue };
        let plan = with_source(candidates[0].plan.clone(), scan, source)?;
        candidates.push(Candidate::new(plan, scan, selected, options)?);
    }
    if candidates.iter().any(|candidate| candidate.is_ordered) {
        let sorted = selected * source.projection().len() as f64 * BYTES_SORTED;
        candidates.iter_mut().filter(|c| !c.is_ordered).for_each(|candidate| candidate.bytes += sorted);
    }
    let best = candidates.into_iter().min_by(|a, b| a.bytes.total_cmp(&b.bytes));
    Ok(best.expect("the table itself is one").plan)
}

/// A plan whose scan reads the table or one of its copies.
struct Candidate {
    plan: Arc<dyn ExecutionPlan>,
    bytes: f64,
    /// Whether the rows have the requested order.
    is_ordered: bool,
}

impl Candidate {
    fn new(plan: Arc<dyn ExecutionPlan>, scan: usize, selected: f64, options: &ConfigOptions) -> Result<Self> {
        let planned = PushdownSort::new().optimize(plan.clone(), options)?;
        let planned = PathPredicates.optimize(planned, options)?;
        let source = &sources(&planned)?[scan];
        let (bytes, is_ordered) = (source.expected_bytes(selected)?, source.is_ordered());
        // Of rows in the requested order, only the first are read.
        let first = source.fetch().filter(|_| is_ordered).map_or(1.0, |fetch| fetch as f64 / selected.max(1.0));
        Ok(Candidate { plan, bytes: bytes * first.min(1.0), is_ordered })
    }
}
