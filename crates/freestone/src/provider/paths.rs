//! Predicates on referenced tables, converted when a query is planned to codes of the clustered tables that reference
//! them: `o_orderdate < '1995-01-01'` in the scan of `orders` prunes zones of `lineitem`, which is clustered by
//! `l_orderkey.o_orderdate`. Dynamic filters (see `keys`) prune more for small referenced tables, but nothing if the
//! referenced table is large, and nothing if the clustered table is the build side.
//!
//! Why rows may be dropped: a join that needs matches returns the same result without those rows of an input whose key
//! equals no key of the other input. Such a key is traced down to a scan through operators that treat rows with
//! different keys independently. Let V be a set of keys. For such an operator, keeping only the rows with keys in V
//! before it gives the same result as keeping only those after it. Filters, projections and exchanges process single
//! rows. Groups whose columns include the key do not mix keys. In joins, each row of the traced side finds its matches
//! independently. An outer join that loses a row of its optional side returns a row with NULL instead, which the join
//! above drops as well, because NULL equals nothing. Limits and windows are not such operators. So the scan may drop
//! any rows whose key is not in V, where V is the set of keys of the referenced rows that satisfy the predicates of
//! their own scan. Keys are unique (this is checked), and the referenced rows have not changed since the codes were
//! computed. So a row with its key in V has the code of a qualifying value. The code of NULL stands for unknown values
//! and is never dropped.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use freestone_advisor::PathTest;
use freestone_store::Table;
use freestone_store::cluster::{CodeFilter, Route, SegmentDimension};
use freestone_store::schema::ForeignKey;

use super::statistics::estimated_share;
use super::{FreestoneSource, with_sources};
use crate::workload::{self, AskedPath};

/// The maximum number of foreign keys on the path to an attribute.
const HOPS_MAX: usize = 3;

/// Gives scans of clustered tables the codes that satisfy predicates on referenced tables.
#[derive(Debug)]
pub struct PathPredicates;

impl PhysicalOptimizerRule for PathPredicates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.exists(|node| Ok(FreestoneSource::of(node).is_some_and(|source| follows_keys(source.table()))))? {
            return Ok(plan);
        }
        let mut joins = Joins::default();
        joins.trace(&plan);
        let found: Vec<_> = (0..joins.scans.len()).map(|scan| joins.path_filters(scan)).collect();
        with_filters(plan, found)
    }

    fn name(&self) -> &str {
        "PathPredicates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// For each scan of a plan, from left to right, the tests of the plan's joins on attributes to which declared foreign
/// keys lead. Clustering by these attributes would prune by the tests.
pub(crate) fn path_tests(plan: &Arc<dyn ExecutionPlan>) -> Vec<Vec<AskedPath>> {
    let mut joins = Joins::default();
    joins.trace(plan);
    let of_scan = |scan| {
        let mut found = vec![];
        joins.tests_behind(scan, &[], &mut found);
        found
    };
    (0..joins.scans.len()).map(of_scan).collect()
}

/// The codes of one dimension that a query's joins leave, and their text in EXPLAIN.
#[derive(Debug, Clone)]
pub struct PathFilter {
    pub codes: CodeFilter,
    pub words: String,
}

/// Whether a table has segments that are clustered by attributes of other tables.
fn follows_keys(table: &Table) -> bool {
    // The scan reports the error of a segment that cannot be opened.
    let following = (0..table.segments.len()).filter(|at| may_follow(table, *at));
    let mut segments = following.filter_map(|at| table.open_segment(at).ok());
    segments.any(|segment| segment.footer.dimensions.iter().any(is_path))
}

/// Whether the rows of a segment may be clustered by attributes of other tables, by what its commit says.
fn may_follow(table: &Table, segment: usize) -> bool {
    table.segments[segment].summary().is_none_or(|summary| summary.follows_keys)
}

fn is_path(dimension: &SegmentDimension) -> bool {
    dimension.description.path.names.len() > 1
}

/// The plan with filters for its scans, from left to right.
fn with_filters(plan: Arc<dyn ExecutionPlan>, filters: Vec<Vec<PathFilter>>) -> Result<Arc<dyn ExecutionPlan>> {
    if filters.iter().all(Vec::is_empty) {
        return Ok(plan);
    }
    let mut filters = filters.into_iter();
    with_sources(plan, |source| {
        let of_scan = filters.next().filter(|of_scan| !of_scan.is_empty())?;
        Some(source.with_path_filters(of_scan))
    })
}

/// A column of a scanned table. `scan` is the position of the scan among those of the plan, from left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin {
    scan: usize,
    column: usize,
}

/// The origins of the columns of an operator's output, if their rows can be traced.
type Origins = Vec<Option<Origin>>;

/// The scans of a plan, and the conditions of its joins on them.
#[derive(Debug, Default)]
struct Joins<'a> {
    scans: Vec<&'a FreestoneSource>,
    /// Rows whose value of the first column is not among those of the second do not affect the result.
    matches: Vec<(Origin, Origin)>,
}

impl<'a> Joins<'a> {
    /// Collects the scans and joins of a plan, and returns the origins of its columns.
    fn trace(&mut self, node: &'a Arc<dyn ExecutionPlan>) -> Origins {
        let unknown = vec![None; node.schema().fields().len()];
        let inputs: Vec<Origins> = node.children().into_iter().map(|child| self.trace(child)).collect();
        let origins = if let Some(source) = FreestoneSource::of(node) {
            self.scans.push(source);
            let scan = self.scans.len() - 1;
            let columns = source.table().schema.columns.len();
            let origin = |column: &usize| (*column < columns).then_some(Origin { scan, column: *column });
            Some(source.projection().iter().map(origin).collect())
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            self.collect_matches(join, &inputs);
            of_join(join.join_type, &inputs).map(|all| project(all, join.projection.as_deref()))
        } else {
            of_output(node, &inputs)
        };
        // An operator that stops early depends on all rows before it.
        origins.filter(|origins| node.fetch().is_none() && origins.len() == unknown.len()).unwrap_or(unknown)
    }

    fn collect_matches(&mut self, join: &HashJoinExec, inputs: &[Origins]) {
        let [left, right] = inputs else { return };
        // NOT IN depends on whether there is any row, and on whether one is NULL.
        if join.null_aware || join.null_equality != NullEquality::NullEqualsNothing {
            return;
        }
        let (left_needs, right_needs) = needs_match(join.join_type);
        for (l, r) in &join.on {
            let (Some(l), Some(r)) = (origin(l, left), origin(r, right)) else { continue };
            self.matches.extend(left_needs.then_some((l, r)));
            self.matches.extend(right_needs.then_some((r, l)));
        }
    }

    /// The codes that the joins leave in the dimensions of a scan's segments, by predicates on the referenced tables.
    fn path_filters(&self, scan: usize) -> Vec<PathFilter> {
        let (table, mut known, mut filters) = (self.scans[scan].table(), vec![], vec![]);
        for at in (0..table.segments.len()).filter(|at| may_follow(table, *at)) {
            let Ok(segment) = table.open_segment(at) else { continue };
            for dimension in segment.footer.dimensions.iter().filter(|d| is_path(d)) {
                if !known.contains(&dimension.fingerprint) {
                    known.push(dimension.fingerprint);
                    filters.extend(self.path_filter(scan, dimension));
                }
            }
        }
        filters
    }

    fn path_filter(&self, scan: usize, dimension: &SegmentDimension) -> Option<PathFilter> {
        let snapshot = self.scans[scan].snapshot()?;
        let route = Route::of(&|name| snapshot.table(name).cloned(), self.scans[scan].table(), dimension)?;
        let ends = self.follow(scan, &route);
        let predicates = ends.iter().flat_map(|end| {
            let source = self.scans[*end];
            source.predicates().iter().filter(|p| source.named_column(p.column) == route.attribute)
        });
        let said = predicates.filter_map(|p| dimension.bins.codes_of(&p.predicate));
        let codes = said.reduce(|mut all, one| {
            all.retain(|code| one.binary_search(code).is_ok());
            all
        })?;
        let count = dimension.bins.count();
        // The uniqueness of keys is checked last, because it may have to be computed.
        if codes.len() >= count || !route.has_unique_keys().unwrap_or(false) {
            return None;
        }
        let words = format!("{}: {} of {count} codes", dimension.description.path, codes.len());
        Some(PathFilter { codes: CodeFilter::new(dimension, codes), words })
    }

    /// Adds the tests on the tables to which the foreign keys of a scan's table lead, directly or over several tables.
    fn tests_behind(&self, scan: usize, keys: &[String], found: &mut Vec<AskedPath>) {
        if keys.len() >= HOPS_MAX {
            return;
        }
        let single = |key: &&ForeignKey| key.columns.len() == 1;
        for key in self.scans[scan].table().schema.foreign_keys.iter().filter(single) {
            let names: Vec<String> = keys.iter().chain(&key.columns).cloned().collect();
            for end in self.referenced(scan, key) {
                let table = self.scans[end].table();
                let predicates = self.scans[end].predicates().iter().enumerate();
                found.extend(predicates.map(|(at, predicate)| AskedPath {
                    test: PathTest {
                        path: [names.as_slice(), &[table.schema.stored_name(predicate.column)]].concat(),
                        selectivity: estimated_share(table, predicate, table.rows()).clamp(1e-9, 1.0),
                        form: workload::form(&predicate.predicate),
                    },
                    asked_by: Some((end, at)),
                }));
                self.tests_behind(end, &names, found);
            }
        }
    }

    /// The scans in which rows of a scan need the match of a foreign key.
    fn referenced(&self, scan: usize, key: &ForeignKey) -> Vec<usize> {
        let Ok(column) = self.scans[scan].table().schema.index_of(&key.columns[0]) else { return vec![] };
        let is_key = |at: &Origin| {
            let (source, table) = (self.scans[at.scan], self.scans[at.scan].named_table());
            let referenced = key.referenced.first().or(table.schema.primary_key.first());
            let column = &table.schema.columns[source.named_column(at.column)].name;
            at.scan != scan && table.name == key.table && referenced == Some(column)
        };
        let mut scans: Vec<usize> =
            self.reachable(Origin { scan, column }).iter().filter(|at| is_key(at)).map(|at| at.scan).collect();
        scans.dedup();
        scans
    }

    /// The scans of the last table of a route in which rows of a scan need matches, step by step.
    fn follow(&self, scan: usize, route: &Route) -> Vec<usize> {
        let mut scans = vec![scan];
        for (at, hop) in route.hops.iter().enumerate() {
            let is_float = hop.table.schema.columns[hop.key].data_type.is_floating();
            let is_key = |at: &Origin| {
                let source = self.scans[at.scan];
                source.named_column(at.column) == hop.key && Arc::ptr_eq(source.named_table(), &hop.table)
            };
            let start = scans.iter().filter_map(|scan| {
                // The first step begins in the scanned table, later ones in tables as queries name them.
                let column = if at == 0 { Some(hop.column) } else { self.scans[*scan].scanned_column(hop.column) };
                Some(Origin { scan: *scan, column: column? })
            });
            let reached = start.flat_map(|from| self.reachable(from)).filter(|at| !is_float && is_key(at));
            scans = reached.map(|at| at.scan).collect();
            scans.sort_unstable();
            scans.dedup();
        }
        scans
    }

    /// The columns whose values include the value of a column: also those of joins with columns that are joined with
    /// it.
    fn reachable(&self, from: Origin) -> Vec<Origin> {
        let mut reached = vec![from];
        let mut at = 0;
        while let Some(origin) = reached.get(at).copied() {
            for (_, other) in self.matches.iter().filter(|(one, _)| *one == origin) {
                if !reached.contains(other) {
                    reached.push(*other);
                }
            }
            at += 1;
        }
        reached
    }
}

/// Whether a join needs matches for the rows of its left input, and of its right input. Rows without a match are not
/// returned and do not change the result.
fn needs_match(join_type: JoinType) -> (bool, bool) {
    match join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Right | JoinType::RightAnti => (true, false),
        JoinType::Left | JoinType::LeftAnti => (false, true),
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => (false, false),
    }
}

/// The origins of a join's columns before its projection.
fn of_join(join_type: JoinType, inputs: &[Origins]) -> Option<Origins> {
    let [left, right] = inputs else { return None };
    Some(match join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => left.clone(),
        JoinType::RightSemi | JoinType::RightAnti => right.clone(),
        JoinType::LeftMark => [left.as_slice(), &[None]].concat(),
        JoinType::RightMark => [right.as_slice(), &[None]].concat(),
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => [left.as_slice(), right].concat(),
    })
}

/// The origins of the columns of operators that treat rows with different keys independently; `None` for all others.
fn of_output(node: &Arc<dyn ExecutionPlan>, inputs: &[Origins]) -> Option<Origins> {
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        return of_join(*join.join_type(), inputs).map(|all| project(all, join.projection().as_deref()));
    }
    if node.downcast_ref::<CrossJoinExec>().is_some() {
        return of_join(JoinType::Inner, inputs);
    }
    let [input] = inputs else { return None };
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return Some(project(input.clone(), filter.projection().as_deref()));
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return Some(projection.expr().iter().map(|p| origin(&p.expr, input)).collect());
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return of_groups(aggregate, input);
    }
    passes_rows_on(node).then(|| input.clone())
}

/// The origins of the columns of an aggregation. The grouping columns are the first.
fn of_groups(aggregate: &AggregateExec, input: &Origins) -> Option<Origins> {
    let groups = aggregate.group_expr();
    if groups.has_grouping_set() || aggregate.limit_options().is_some() {
        return None;
    }
    let mut origins: Origins = groups.expr().iter().map(|(e, _)| origin(e, input)).collect();
    origins.resize(aggregate.schema().fields().len(), None);
    Some(origins)
}

/// Whether an operator returns the rows of its input, in any order.
fn passes_rows_on(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<RepartitionExec>().is_some()
        || node.downcast_ref::<CoalescePartitionsExec>().is_some()
        || node.downcast_ref::<SortExec>().is_some()
        || node.downcast_ref::<SortPreservingMergeExec>().is_some()
        || node.downcast_ref::<CooperativeExec>().is_some()
        || node.downcast_ref::<BufferExec>().is_some()
}

fn project(origins: Origins, projection: Option<&[usize]>) -> Origins {
    match projection {
        Some(columns) => columns.iter().map(|column| origins.get(*column).copied().flatten()).collect(),
        None => origins,
    }
}

/// The origin of an expression that is a plain column.
fn origin(e: &Arc<dyn PhysicalExpr>, input: &Origins) -> Option<Origin> {
    input.get(e.downcast_ref::<Column>()?.index()).copied().flatten()
}
