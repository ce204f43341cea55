//! VALUES with texts in quotes among values of other types: `(VALUES (1), ('2'))` has integers. Decimals among floats
//! become floats.
//!
//! DataFusion plans VALUES at once, so the types are given while SQL is planned, where VALUES is a table of FROM. VALUES in
//! other places is written so by [`crate::sql::values`].

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, TableFactor, Values};

use super::{OneType, typed};
use crate::optimizer::{common_of_mixed, converted};
use crate::sql::values::is_mixed;

/// Plans VALUES of several types as a table.
#[derive(Debug)]
pub(crate) struct TypedValues;

impl RelationPlanner for TypedValues {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (values, alias) = match relation {
            TableFactor::Derived { lateral, subquery, alias, sample } => match only_values(*subquery) {
                Ok(values) => (values, alias),
                Err(subquery) => {
                    let relation = TableFactor::Derived { lateral, subquery, alias, sample };
                    return Ok(RelationPlanning::Original(Box::new(relation)));
                }
            },
            relation => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        let schema = DFSchema::empty();
        let planned = values.rows.into_iter().map(|row| {
            let values = row.content.into_iter().map(|value| context.sql_to_expr(value, &schema));
            values.collect::<Result<Vec<Expr>>>()
        });
        let mut rows = planned.collect::<Result<Vec<_>>>()?;
        for at in 0..rows.first().map_or(0, Vec::len) {
            let operands = rows.iter_mut().filter_map(|row| row.get_mut(at)).collect();
            typed(OneType { operands, compared: false }, &schema);
            as_floats(rows.iter_mut().filter_map(|row| row.get_mut(at)).collect(), &schema);
        }
        let plan = LogicalPlanBuilder::values(rows)?.build()?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// Gives the values of a column one type, if there are floats and decimals among them.
fn as_floats(values: Vec<&mut Expr>, schema: &DFSchema) {
    let types: Vec<DataType> = values.iter().map(|value| value.get_type(schema).unwrap_or(DataType::Null)).collect();
    let Some(common) = common_of_mixed(&types) else { return };
    for (value, own) in values.into_iter().zip(types) {
        if own != common && own != DataType::Null {
            *value = converted(std::mem::take(value), &common);
        }
    }
}

/// The values of a query that is nothing but VALUES of several types, or the query.
fn only_values(query: Query) -> std::result::Result<Values, Box<Query>> {
    let is_plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    match *query.body {
        SetExpr::Values(values) if is_plain && query.fetch.is_none() && is_mixed(&values) => Ok(values),
        body => Err(Box::new(Query { body: Box::new(body), ..query })),
    }
}
