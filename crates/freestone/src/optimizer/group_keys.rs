//! Group keys in their normal form: in groups, DISTINCT, partitions and the orders of windows and aggregates, all NaNs are
//! equal, and -0.0 equals 0.0, also within lists and structs. DataFusion compares their bits.
//!
//! A volatile group key (`GROUP BY random() < 0.5`) is computed once, below the aggregation. DataFusion would compute
//! it again where a filter on the key is pushed down.
//!
//! Keys that are constants, of which the rows are one group, are computed once, above the aggregation.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Alias, GroupingSet};
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Projection};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::exact;
use crate::exact::normal_form::has_normal_form;

/// The rule. It runs after type coercion.
#[derive(Debug)]
pub(crate) struct GroupKeys;

impl AnalyzerRule for GroupKeys {
    fn name(&self) -> &str {
        "group_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(aggregate) if has_constant_keys(&aggregate) => constants_above(aggregate),
        LogicalPlan::Aggregate(aggregate) => {
            let mut keys = Keys { schema: aggregate.input.schema().clone(), columns: vec![], others: vec![] };
            let group_expr = aggregate.group_expr.iter().map(|e| keys.below(e.clone())).collect::<Result<Vec<_>>>()?;
            if keys.columns.is_empty() && keys.others.is_empty() {
                return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
            }
            let input = Arc::new(keys.projection(aggregate.input)?);
            Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, aggregate.aggr_expr)?)))
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            // The sort columns of DISTINCT ON are found among these columns by name.
            let mut keys = Keys { schema: on.input.schema().clone(), columns: vec![], others: vec![] };
            for key in on.on_expr.iter().filter(|key| matches!(key, Expr::Column(_))) {
                keys.below(key.clone())?;
            }
            if keys.columns.is_empty() {
                return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
            }
            on.input = Arc::new(keys.projection(on.input)?);
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether all keys are constants, and one is a text or a list, of which operators would have a copy for each row.
fn has_constant_keys(aggregate: &Aggregate) -> bool {
    let is_wide = |key: &Expr| key.get_type(aggregate.input.schema()).is_ok_and(|kind| !kind.is_primitive());
    let is_constant = |key: &Expr| {
        let depends = |part: &Expr| {
            Ok(matches!(
                part,
                Expr::GroupingSet(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::SetComparison(_)
                    | Expr::ScalarSubquery(_)
                    | Expr::Placeholder(_)
            ))
        };
        key.column_refs().is_empty() && !key.is_volatile() && !key.exists(depends).unwrap_or(true)
    };
    aggregate.group_expr.iter().all(is_constant) && aggregate.group_expr.iter().any(is_wide)
}

fn constants_above(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let keys = aggregate.group_expr;
    let one = vec![Expr::Literal(ScalarValue::Boolean(Some(true)), None).alias("one group")];
    let grouped = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, one, aggregate.aggr_expr)?);
    let calls = grouped.schema().columns().into_iter().skip(1).map(Expr::Column);
    let all = keys.into_iter().chain(calls).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(all, Arc::new(grouped))?)))
}

/// Group keys that are computed below the aggregation.
struct Keys {
    schema: Arc<DFSchema>,
    /// Columns that are replaced by their normal forms.
    columns: Vec<Column>,
    /// Expressions, which are added under the names of the group columns.
    others: Vec<Expr>,
}

impl Keys {
    /// The group key in place of `key`, which is computed below the aggregation if necessary.
    fn below(&mut self, key: Expr) -> Result<Expr> {
        let mut all = |keys: Vec<Expr>| keys.into_iter().map(|key| self.below(key)).collect::<Result<Vec<_>>>();
        match key {
            Expr::GroupingSet(GroupingSet::Rollup(keys)) => Ok(Expr::GroupingSet(GroupingSet::Rollup(all(keys)?))),
            Expr::GroupingSet(GroupingSet::Cube(keys)) => Ok(Expr::GroupingSet(GroupingSet::Cube(all(keys)?))),
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
                let sets = sets.into_iter().map(all).collect::<Result<Vec<_>>>()?;
                Ok(Expr::GroupingSet(GroupingSet::GroupingSets(sets)))
            }
            key => self.one_below(key),
        }
    }

    fn one_below(&mut self, key: Expr) -> Result<Expr> {
        let has_form = is_compared_in_normal_form(&key.get_type(&self.schema)?);
        if let (Expr::Column(column), true) = (&key, has_form) {
            if !self.columns.contains(column) {
                self.columns.push(column.clone());
            }
            return Ok(key);
        }
        if !has_form && !key.is_volatile() {
            return Ok(key);
        }
        let (relation, name, inner) = match key {
            Expr::Alias(Alias { expr, relation, name, .. }) => (relation, name, *expr),
            other => {
                let name = other.schema_name().to_string();
                (None, name, other)
            }
        };
        let computed = if has_form { exact::key(inner) } else { inner };
        let column = Column::new(relation.clone(), name.clone());
        let named = computed.alias_qualified(relation, name);
        if !self.others.contains(&named) {
            self.others.push(named);
        }
        Ok(Expr::Column(column))
    }

    /// The input with the computed keys.
    fn projection(self, input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
        let column = |column: Column| match self.columns.contains(&column) {
            true => exact::key(Expr::Column(column.clone())).alias_qualified(column.relation, column.name),
            false => Expr::Column(column),
        };
        let columns = self.schema.columns().into_iter().map(column);
        let expressions = columns.chain(self.others.iter().cloned()).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(expressions, input)?))
    }
}

/// The rows in their normal forms, and whether these differ.
pub(super) fn normalized(plan: Arc<LogicalPlan>) -> Result<(Arc<LogicalPlan>, bool)> {
    let columns = plan.schema().columns();
    let forms = columns.iter().map(|column| has_form(&plan, column)).collect::<Result<Vec<_>>>()?;
    if !forms.contains(&true) {
        return Ok((plan, false));
    }
    let expressions = columns.into_iter().zip(forms).map(|(column, has_form)| match has_form {
        true => exact::key(Expr::Column(column.clone())).alias_qualified(column.relation, column.name),
        false => Expr::Column(column),
    });
    Ok((Arc::new(LogicalPlan::Projection(Projection::try_new(expressions.collect(), plan)?)), true))
}

fn has_form(plan: &LogicalPlan, column: &Column) -> Result<bool> {
    Ok(is_compared_in_normal_form(plan.schema().field_from_column(column)?.data_type()))
}

/// Gives an expression its normal form if it has one, and returns whether it has.
pub(super) fn wrap(key: &mut Expr, schema: &DFSchema) -> bool {
    let has_form =
        key.get_type(schema).is_ok_and(|data_type| is_compared_in_normal_form(&data_type)) && !exact::is_key(key);
    if has_form {
        *key = exact::key(std::mem::take(key));
    }
    has_form
}

/// Whether keys of a type need their normal form. Intervals have their lengths as keys.
fn is_compared_in_normal_form(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Interval(_)) && has_normal_form(data_type)
}
