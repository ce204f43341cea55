//! Texts in the columns of UNION, INTERSECT and EXCEPT, and texts that are looked for in a subquery.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{Cast, Distinct, Expr, Join, LogicalPlan, Projection, Union};

use super::{Operand, has_times, text, types};
use crate::optimizer::set_operations::is_set_operation;

/// `'1' IN (SELECT i …)` and `'1' = ANY (SELECT i …)`: the text has the type of the subquery's column.
pub(super) fn in_subquery(expression: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let (value, subquery) = match expression {
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => (expr, subquery),
        Expr::SetComparison(set) => (&mut set.expr, &mut set.subquery),
        _ => return Ok(false),
    };
    let [field] = subquery.subquery.schema().fields().as_ref() else { return Ok(false) };
    let operands = [Operand::of(value, schema), Operand { kind: field.data_type().clone(), text: None }];
    if operands[0].text.is_none() || has_times(&operands) {
        return Ok(false);
    }
    let Some(kind) = types(&operands)?.and_then(|mut types| types.swap_remove(0)) else { return Ok(false) };
    **value = Expr::Cast(Cast::new(Box::new(std::mem::take(&mut **value)), kind));
    Ok(true)
}

/// Gives the texts in the SELECTs of a set operation the types of the other queries' columns.
pub(super) fn in_set_operation(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => match aligned(union.inputs.clone())? {
            Some(inputs) => Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))),
            None => Ok(Transformed::no(LogicalPlan::Union(union))),
        },
        LogicalPlan::Join(join) if is_set_operation(&join) => {
            let Some(inputs) = aligned(vec![join.left.clone(), join.right.clone()])? else {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            };
            let mut inputs = inputs.into_iter();
            let (left, right) = (inputs.next().unwrap_or(join.left), inputs.next().unwrap_or(join.right));
            let (kind, how, nulls) = (join.join_type, join.join_constraint, join.null_equality);
            let join = Join::try_new(left, right, join.on, join.filter, kind, how, nulls, join.null_aware)?;
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The inputs with typed texts; nothing where there are none.
fn aligned(inputs: Vec<Arc<LogicalPlan>>) -> Result<Option<Vec<Arc<LogicalPlan>>>> {
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    if inputs.iter().any(|input| input.schema().fields().len() != width) {
        return Ok(None);
    }
    // By input, the types of its texts by column.
    let mut wanted: Vec<Vec<Option<DataType>>> = vec![vec![None; width]; inputs.len()];
    for at in 0..width {
        let operands: Vec<Operand> = inputs.iter().map(|input| column(input, at)).collect();
        if !operands.iter().any(|operand| operand.text.is_some()) {
            continue;
        }
        for (own, kind) in wanted.iter_mut().zip(types(&operands)?.unwrap_or_default()) {
            own[at] = kind;
        }
    }
    if wanted.iter().flatten().all(Option::is_none) {
        return Ok(None);
    }
    inputs.into_iter().zip(wanted).map(|(input, kinds)| with_types(input, &kinds)).collect::<Result<_>>().map(Some)
}

/// The SELECT list of an input, below DISTINCT.
fn select_list(input: &LogicalPlan) -> Option<&Projection> {
    match input {
        LogicalPlan::Projection(projection) => Some(projection),
        LogicalPlan::Distinct(Distinct::All(input)) => select_list(input),
        _ => None,
    }
}

fn column(input: &LogicalPlan, at: usize) -> Operand {
    let kind = input.schema().field(at).data_type().clone();
    let text = select_list(input).and_then(|list| text(list.expr.get(at)?)).map(str::to_owned);
    Operand { kind, text }
}

fn with_types(input: Arc<LogicalPlan>, kinds: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    if kinds.iter().all(Option::is_none) {
        return Ok(input);
    }
    Ok(Arc::new(match Arc::unwrap_or_clone(input) {
        LogicalPlan::Distinct(Distinct::All(input)) => LogicalPlan::Distinct(Distinct::All(with_types(input, kinds)?)),
        LogicalPlan::Projection(projection) => {
            let Projection { expr, input, schema, .. } = projection;
            let typed = expr.into_iter().zip(kinds).enumerate().map(|(at, (e, kind))| match kind {
                Some(kind) => {
                    let (qualifier, field) = schema.qualified_field(at);
                    let value = Expr::Cast(Cast::new(Box::new(e.unalias()), kind.clone()));
                    value.alias_qualified(qualifier.cloned(), field.name())
                }
                None => e,
            });
            LogicalPlan::Projection(Projection::try_new(typed.collect(), input)?)
        }
        other => other,
    }))
}
