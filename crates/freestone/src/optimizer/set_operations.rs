//! INTERSECT ALL and EXCEPT ALL count equal rows: a row that occurs three times on the left and once on the right is
//! once in the intersection and twice in the difference. DataFusion plans a semi or anti join on all columns, which
//! does not count. Here equal rows are numbered on both sides, and the join includes the numbers.
//!
//! In every set operation, all NaNs are equal, and -0.0 equals 0.0.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality};
use datafusion::error::Result;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::logical_plan::{Distinct, Join};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition};
use datafusion::optimizer::AnalyzerRule;

use super::group_keys;

/// Columns that number equal rows.
const NUMBERS: [&str; 2] = ["left row number", "right row number"];

/// Plans set operations so that they count. Before types are coerced: the joins are of set operations only, as no other plan
/// has joins in which NULL equals NULL then.
#[derive(Debug)]
pub(crate) struct SetOperations;

impl AnalyzerRule for SetOperations {
    fn name(&self) -> &str {
        "set_operations"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if is_set_operation(&join) => Ok(Transformed::yes(counted(join)?)),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let (input, changed) = group_keys::normalized(input)?;
            let plan = LogicalPlan::Distinct(Distinct::All(input));
            Ok(if changed { Transformed::yes(plan) } else { Transformed::no(plan) })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether a join is INTERSECT or EXCEPT, before other rules make such joins.
pub(crate) fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
}

fn counted(join: Join) -> Result<LogicalPlan> {
    let Join { left, right, join_type, on, .. } = join;
    // Of a left side without equal rows each is wanted once, or not at all.
    let counts = !matches!(left.as_ref(), LogicalPlan::Distinct(_));
    let output: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
    let ((left, _), (right, _)) = (group_keys::normalized(left)?, group_keys::normalized(right)?);
    let mut keys: (Vec<Column>, Vec<Column>) = Default::default();
    for (a, b) in on {
        if let (Expr::Column(a), Expr::Column(b)) = (a, b) {
            keys.0.push(a);
            keys.1.push(b);
        }
    }
    let (mut left, mut right) = (LogicalPlanBuilder::from(left), LogicalPlanBuilder::from(right));
    if counts {
        (left, right) = (numbered(left, NUMBERS[0])?, numbered(right, NUMBERS[1])?);
        keys.0.push(Column::new_unqualified(NUMBERS[0]));
        keys.1.push(Column::new_unqualified(NUMBERS[1]));
    }
    let joined = left.join_detailed(right.build()?, join_type, keys, None, NullEquality::NullEqualsNull)?;
    if counts { joined.project(output)?.build() } else { joined.build() }
}

/// The rows, each with its number among those that are equal to it.
fn numbered(plan: LogicalPlanBuilder, name: &str) -> Result<LogicalPlanBuilder> {
    let mut number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![]);
    number.params.partition_by = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = Expr::WindowFunction(Box::new(number));
    let column = Expr::Column(Column::from_name(number.schema_name().to_string()));
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let plan = Arc::new(plan.window(vec![number])?.build()?);
    LogicalPlanBuilder::from(plan).project(columns.into_iter().chain([column.alias(name)]))
}
