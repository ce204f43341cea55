//! The analyzer rule that compares and sorts values of an ENUM by the places of their labels.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Sort, WindowFunctionDefinition};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::{LABELS, enum_extremes, enum_functions, labels_of};
use crate::expressions;
use crate::sql::text_types::{CAST, CAST_OR_NULL, TEXT, type_text};

/// It runs before other rules, which keep types and not what fields say beyond them.
#[derive(Debug)]
pub(crate) struct EnumOrder;

impl AnalyzerRule for EnumOrder {
    fn name(&self) -> &str {
        "enum_order"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut any = false;
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            // The fields of inputs may have changed as well.
            let plan = if any { plan.recompute_schema()? } else { plan };
            let changed = node(plan)?;
            any |= changed.transformed;
            if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
        })?;
        Ok(rewritten.data)
    }
}

fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let has_enums = |schema: &DFSchema| schema.fields().iter().any(|field| field.metadata().contains_key(LABELS));
    if !plan.inputs().iter().any(|input| has_enums(input.schema())) && !has_casts(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let changed = expressions::changed(plan, |mut expression, schema| {
        let changed = corrected(&mut expression, schema);
        if changed { Transformed::yes(expression) } else { Transformed::no(expression) }
    })?;
    let transformed = changed.transformed;
    let of_kind = match changed.data {
        LogicalPlan::Sort(mut sort) => {
            let schema = sort.input.schema().clone();
            let changed = sorted(&mut sort.expr, &schema);
            Transformed::new_transformed(LogicalPlan::Sort(sort), changed)
        }
        LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
            let schema = distinct.input.schema().clone();
            let changed = distinct.sort_expr.as_mut().is_some_and(|keys| sorted(keys, &schema));
            Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(distinct)), changed)
        }
        other => Transformed::no(other),
    };
    Ok(Transformed::new_transformed(of_kind.data, transformed | of_kind.transformed))
}

/// Whether an expression of a node is a cast to an ENUM.
fn has_casts(plan: &LogicalPlan) -> Result<bool> {
    let is_cast =
        |e: &Expr| matches!(e, Expr::ScalarFunction(call) if matches!(call.name(), CAST | CAST_OR_NULL | TEXT));
    let mut found = false;
    plan.apply_expressions(|expression| {
        found = expression.exists(|e| Ok(is_cast(e)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The labels of an expression's ENUM.
fn labels(expression: &Expr, schema: &DFSchema) -> Option<Vec<String>> {
    let (_, field) = expression.to_field(schema).ok()?;
    labels_of(&field)
}

/// A value as its place among labels.
fn place(value: Expr, labels: &[String]) -> Expr {
    let label = |label: &String| Expr::Literal(ScalarValue::Utf8View(Some(label.clone())), None);
    enum_functions::place().call(std::iter::once(value).chain(labels.iter().map(label)).collect())
}

fn sorted(keys: &mut [Sort], schema: &DFSchema) -> bool {
    let mut changed = false;
    for key in keys {
        if let Some(labels) = labels(&key.expr, schema) {
            key.expr = place(std::mem::take(&mut key.expr), &labels);
            changed = true;
        }
    }
    changed
}

/// Replaces values that are compared, where one is of an ENUM.
fn placed(operands: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let Some(labels) = operands.iter().find_map(|operand| labels(operand, schema)) else { return false };
    for operand in operands {
        *operand = place(std::mem::take(operand), &labels);
    }
    true
}

fn corrected(expression: &mut Expr, schema: &DFSchema) -> bool {
    match expression {
        Expr::ScalarFunction(call) if call.func.name() == TEXT => match call.args.as_mut_slice() {
            [value] if labels(value, schema).is_none() => {
                *expression = std::mem::take(value);
                true
            }
            _ => false,
        },
        Expr::BinaryExpr(binary)
            if matches!(binary.op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) =>
        {
            placed(vec![&mut binary.left, &mut binary.right], schema)
        }
        Expr::ScalarFunction(call) if call.func.name() == "typeof" => {
            let Some(labels) = call.args.first().and_then(|value| labels(value, schema)) else { return false };
            *expression = Expr::Literal(ScalarValue::Utf8View(Some(type_text(&labels))), None);
            true
        }
        Expr::Between(between) => placed(vec![&mut between.expr, &mut between.low, &mut between.high], schema),
        Expr::AggregateFunction(call) => {
            let function = extreme(call.func.name(), &mut call.params.args, schema);
            let ordered = sorted(&mut call.params.order_by, schema);
            let replaced = function.is_some();
            if let Some(Some(function)) = function {
                call.func = function;
            }
            replaced || ordered
        }
        Expr::WindowFunction(window) => {
            let function = match &window.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    let name = function.name().to_owned();
                    extreme(&name, &mut window.params.args, schema)
                }
                WindowFunctionDefinition::WindowUDF(_) => None,
            };
            let ordered = sorted(&mut window.params.order_by, schema);
            let replaced = function.is_some();
            if let Some(Some(function)) = function {
                window.fun = WindowFunctionDefinition::AggregateUDF(function);
            }
            replaced || ordered
        }
        _ => false,
    }
}

/// The aggregate in place of one that compares values; nothing in its place where only its arguments change.
fn extreme(
    name: &str,
    args: &mut [Expr],
    schema: &DFSchema,
) -> Option<Option<Arc<datafusion::logical_expr::AggregateUDF>>> {
    match (name, args) {
        ("min" | "max", [value]) => {
            let labels = labels(value, schema)?;
            Some(Some(Arc::new(enum_extremes::extreme(name == "max", labels))))
        }
        ("arg_min" | "arg_max", [_, by, ..]) => {
            let labels = labels(by, schema)?;
            *by = place(std::mem::take(by), &labels);
            Some(None)
        }
        _ => None,
    }
}
