//! Refuses conditions that grow exponentially when they are pushed down.
//!
//! DataFusion pushes a condition below a projection by replacing columns by the projection's expressions. If each of
//! many projections uses the columns of the one below twice, the condition doubles at each of them, within a single
//! call of a rule, which cannot be cancelled. So its final size is computed first.

use std::collections::HashMap;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::error::{Error, ErrorKind};

/// The maximum number of nodes of an expression, which can be planned in about a second.
const NODES_MAX: u64 = 250_000;
/// The growth of a condition that is always allowed.
const GROWTH_MAX: u64 = 4;

/// The check, as the last of the analyzer's rules.
#[derive(Debug)]
pub(crate) struct Expansion;

impl AnalyzerRule for Expansion {
    fn name(&self) -> &str {
        "expansion"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut projections = 0;
        let mut conditions = 0;
        plan.apply_with_subqueries(|node| {
            projections += usize::from(matches!(node, LogicalPlan::Projection(_)));
            conditions += usize::from(matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_)));
            Ok(TreeNodeRecursion::Continue)
        })?;
        // Fewer projections cannot double a condition often enough.
        if projections > 8 && conditions > 0 {
            sizes(&plan)?;
        }
        Ok(plan)
    }
}

/// For each column of a plan, the number of nodes of its expression after all projections below are substituted.
fn sizes(plan: &LogicalPlan) -> Result<Vec<u64>> {
    let inputs = plan.inputs();
    let below = inputs.iter().map(|input| sizes(input)).collect::<Result<Vec<_>>>()?;
    let columns = plan.schema().fields().len();
    let mut of_columns = match plan {
        LogicalPlan::Projection(projection) => {
            let known = ColumnSizes::of(inputs[0].schema(), &below[0]);
            projection.expr.iter().map(|e| known.size(e)).collect::<Result<Vec<_>>>()?
        }
        LogicalPlan::Aggregate(aggregate) => {
            let known = ColumnSizes::of(inputs[0].schema(), &below[0]);
            aggregate.group_expr.iter().map(|e| known.size(e)).collect::<Result<Vec<_>>>()?
        }
        LogicalPlan::Filter(filter) => {
            ColumnSizes::of(inputs[0].schema(), &below[0]).check(&filter.predicate)?;
            below.into_iter().next().unwrap_or_default()
        }
        LogicalPlan::Join(join) => {
            let both: Vec<u64> = below.concat();
            let schema = join.left.schema().join(join.right.schema());
            if let (Ok(schema), Some(filter)) = (schema, &join.filter) {
                ColumnSizes::of(&schema, &both).check(filter)?;
            }
            both
        }
        LogicalPlan::Union(_) => {
            let most = |at: usize| below.iter().filter_map(|sizes| sizes.get(at)).max().copied().unwrap_or(1);
            (0..columns).map(most).collect()
        }
        LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Window(_) => below.into_iter().next().unwrap_or_default(),
        _ => vec![],
    };
    of_columns.resize(columns, 1);
    Ok(of_columns)
}

/// The sizes of columns by their names.
struct ColumnSizes<'a>(HashMap<(Option<&'a TableReference>, &'a str), u64>);

impl<'a> ColumnSizes<'a> {
    fn of(schema: &'a DFSchema, sizes: &[u64]) -> Self {
        let names = schema.iter().map(|(qualifier, field)| (qualifier, field.name().as_str()));
        ColumnSizes(names.zip(sizes.iter().copied()).collect())
    }

    fn size(&self, expression: &Expr) -> Result<u64> {
        let mut size = 0u64;
        expression.apply(|e| {
            let own = match e {
                Expr::Column(c) => self.0.get(&(c.relation.as_ref(), c.name.as_str())).copied().unwrap_or(1),
                _ => 1,
            };
            size = size.saturating_add(own);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(size)
    }

    fn check(&self, condition: &Expr) -> Result<()> {
        let grown = self.size(condition)?;
        if grown <= NODES_MAX || grown <= ColumnSizes(HashMap::new()).size(condition)?.saturating_mul(GROWTH_MAX) {
            return Ok(());
        }
        let message = format!(
            "the statement is too complex: written out, a condition has {grown} parts (at most {NODES_MAX}), because it is on \
             columns that are computed of others in many steps"
        );
        let hint = "compute the columns in a common table expression that is MATERIALIZED, or in a table";
        Err(Error::new(ErrorKind::Resource, message).with_hint(hint).into())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit, table_scan};

    use super::*;

    /// A plan of `steps` projections, each of which uses the columns below twice, and a condition above them.
    fn steps(steps: usize) -> LogicalPlan {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]);
        let mut plan = table_scan(Some("t"), &schema, None).expect("a scan");
        for _ in 0..steps {
            let made = [(col("a") + col("b")).alias("a"), (col("a") - col("b")).alias("b")];
            plan = LogicalPlanBuilder::from(plan.project(made).expect("columns").build().expect("a plan"));
        }
        plan.filter(col("a").gt(lit(0_i64))).expect("a condition").build().expect("a plan")
    }

    #[test]
    fn conditions_that_double_often_are_refused() {
        let config = ConfigOptions::default();
        assert!(Expansion.analyze(steps(10), &config).is_ok());
        for too_many in [20, 60, 90] {
            let error = Error::from(Expansion.analyze(steps(too_many), &config).expect_err("too complex"));
            assert_eq!(error.sqlstate(), "54001", "{error}");
        }
    }
}
