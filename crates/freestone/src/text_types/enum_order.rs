//! The analyzer rule that compares and sorts values of an ENUM by the places of their labels, and texts in a normal form by
//! their keys.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::expr_fn::octet_length;
use datafusion::logical_expr::expr::{Sort, WindowFunctionDefinition};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, binary_expr, lit};
use datafusion::optimizer::AnalyzerRule;

use super::enum_extremes::{self, Order};
use super::made::makes_jsonb;
use super::{LABELS, NORMAL, enum_functions, labels_of, normal_functions, normal_of};
use crate::expressions;
use crate::normal_texts::NormalText;
use crate::sql::text_types::{CAST, CAST_NORMAL, CAST_NORMAL_OR_NULL, CAST_OR_NULL, TEXT, type_text};

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
    let is_own = |field: &FieldRef| [LABELS, NORMAL].iter().any(|own| field.metadata().contains_key(*own));
    let has_own = |schema: &DFSchema| schema.fields().iter().any(is_own);
    if !plan.inputs().iter().any(|input| has_own(input.schema())) && !has_casts(&plan)? {
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
            let mut changed = distinct.sort_expr.as_mut().is_some_and(|keys| sorted(keys, &schema));
            // They are the first of the sort keys.
            for value in &mut distinct.on_expr {
                if let Some(order) = order(value, &schema).filter(Order::is_own) {
                    *value = place(std::mem::take(value), &order);
                    changed = true;
                }
            }
            Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(distinct)), changed)
        }
        other => Transformed::no(other),
    };
    Ok(Transformed::new_transformed(of_kind.data, transformed | of_kind.transformed))
}

/// Whether an expression of a node is a cast to one of these types, or a function that makes JSONB.
fn has_casts(plan: &LogicalPlan) -> Result<bool> {
    const CASTS: [&str; 5] = [CAST, CAST_OR_NULL, CAST_NORMAL, CAST_NORMAL_OR_NULL, TEXT];
    let is_one = |name: &str| CASTS.contains(&name) || makes_jsonb(name);
    let is_cast = |e: &Expr| matches!(e, Expr::ScalarFunction(call) if is_one(call.name()));
    let mut found = false;
    plan.apply_expressions(|expression| {
        found = expression.exists(|e| Ok(is_cast(e)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// What orders the values of an expression, if it is of one of these types.
fn order(expression: &Expr, schema: &DFSchema) -> Option<Order> {
    let (_, field) = expression.to_field(schema).ok()?;
    labels_of(&field).map(Order::Labels).or_else(|| normal_of(&field).map(Order::Normal))
}

fn text(value: &str) -> Expr {
    Expr::Literal(ScalarValue::Utf8View(Some(value.to_owned())), None)
}

/// A value as what it is ordered by.
fn place(value: Expr, order: &Order) -> Expr {
    match order {
        Order::Labels(labels) => with_labels(&enum_functions::place(), value, labels),
        Order::Normal(kind) if kind.has_keys() => normal_functions::key().call(vec![value, text(&kind.name())]),
        Order::Normal(_) => value,
    }
}

/// A call of a function of a value and the labels of its ENUM.
fn with_labels(function: &ScalarUDF, value: Expr, labels: &[String]) -> Expr {
    function.call(std::iter::once(value).chain(labels.iter().map(|label| text(label))).collect())
}

/// The labels of the ENUM that a value has.
fn own_labels(value: &Expr, schema: &DFSchema) -> Option<Vec<String>> {
    match order(value, schema)? {
        Order::Labels(labels) => Some(labels),
        Order::Normal(_) => None,
    }
}

fn sorted(keys: &mut [Sort], schema: &DFSchema) -> bool {
    let mut changed = false;
    for key in keys {
        if let Some(order) = order(&key.expr, schema).filter(Order::is_own) {
            key.expr = place(std::mem::take(&mut key.expr), &order);
            changed = true;
        }
    }
    changed
}

/// Brings values that are compared with one of a normal form into it.
fn normal(operands: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let kind = |operand: &Expr| match order(operand, schema) {
        Some(Order::Normal(kind)) => Some(kind),
        _ => None,
    };
    let Some(to) = operands.iter().find_map(|operand| kind(operand)) else { return false };
    let mut changed = false;
    for operand in operands {
        if is_text(operand, schema) && kind(operand).is_none() {
            *operand = cast(std::mem::take(operand), to);
            changed = true;
        }
    }
    changed
}

/// Whether an expression is a text.
fn is_text(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|data_type| data_type.is_string())
}

fn cast(value: Expr, to: NormalText) -> Expr {
    normal_functions::cast().call(vec![value, text(&to.name())])
}

/// Replaces values that are compared, where one is of such a type.
fn placed(operands: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let Some(order) = operands.iter().find_map(|operand| order(operand, schema)).filter(Order::is_own) else {
        return false;
    };
    if matches!(order, Order::Labels(_)) && operands.iter().any(|operand| is_computed_text(operand, schema)) {
        return false;
    }
    for operand in operands {
        *operand = place(std::mem::take(operand), &order);
    }
    true
}

/// Whether an expression is a text that need not be a label of the ENUM with which it is compared. They are compared as texts.
fn is_computed_text(expression: &Expr, schema: &DFSchema) -> bool {
    let is_written = matches!(expression, Expr::Literal(..) | Expr::Placeholder(_));
    !is_written && is_text(expression, schema) && order(expression, schema).is_none()
}

fn is_equality(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

fn corrected(expression: &mut Expr, schema: &DFSchema) -> bool {
    match expression {
        Expr::ScalarFunction(_) => call_corrected(expression, schema),
        Expr::BinaryExpr(binary)
            if matches!(binary.op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) =>
        {
            placed(vec![&mut binary.left, &mut binary.right], schema)
        }
        Expr::BinaryExpr(binary) if is_equality(binary.op) => normal(vec![&mut binary.left, &mut binary.right], schema),
        Expr::InList(list) => normal(std::iter::once(list.expr.as_mut()).chain(&mut list.list).collect(), schema),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, result)| result.as_ref());
            let results: Vec<&Expr> = results.chain(case.else_expr.as_deref()).collect();
            typed_as(expression_labels(&results, schema), expression)
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

/// The functions of values whose calls are corrected.
const CORRECTED: [&str; 8] =
    [TEXT, "bit_length", "octet_length", "typeof", "pg_typeof", "greatest", "least", "coalesce"];

/// Corrects a call of a function of values.
fn call_corrected(expression: &mut Expr, schema: &DFSchema) -> bool {
    let Expr::ScalarFunction(call) = expression else { return false };
    // Types of arguments take their time, so that names come first.
    if !CORRECTED.contains(&call.func.name()) {
        return false;
    }
    let first = |args: &[Expr]| args.first().and_then(|value| order(value, schema));
    *expression = match (call.func.name(), first(&call.args)) {
        (TEXT, None) if call.args.len() == 1 => std::mem::take(&mut call.args[0]),
        (name @ ("bit_length" | "octet_length"), Some(Order::Normal(NormalText::Bit(_) | NormalText::VarBit(_)))) => {
            let is_in_bits = name == "bit_length";
            // Each digit is a bit.
            let bits = octet_length(std::mem::take(&mut call.args[0]));
            match is_in_bits {
                true => bits,
                false => binary_expr(bits + lit(7i32), Operator::BitwiseShiftRight, lit(3i32)),
            }
        }
        ("typeof", Some(Order::Labels(labels))) => text(&type_text(&labels)),
        ("typeof", Some(Order::Normal(kind))) => text(&kind.name()),
        ("pg_typeof", Some(Order::Normal(kind))) => text(kind.postgres_name()),
        ("greatest" | "least", _) => return greatest_label(expression, schema),
        ("coalesce", _) => {
            let values: Vec<&Expr> = call.args.iter().collect();
            return typed_as(expression_labels(&values, schema), expression);
        }
        _ => return false,
    };
    true
}

/// The greatest or least of several values, if they are of an ENUM: the label at the greatest or least place.
fn greatest_label(expression: &mut Expr, schema: &DFSchema) -> bool {
    let Expr::ScalarFunction(call) = expression else { return false };
    let Some(labels) = call.args.iter().find_map(|value| own_labels(value, schema)) else { return false };
    if !placed(call.args.iter_mut().collect(), schema) {
        return false;
    }
    *expression = with_labels(&enum_functions::label(), std::mem::take(expression), &labels);
    true
}

/// The labels of the ENUM that all values have, but for NULL.
fn expression_labels(values: &[&Expr], schema: &DFSchema) -> Option<Vec<String>> {
    let is_null = |value: &&&Expr| matches!(value, Expr::Literal(value, _) if value.is_null());
    let mut labels = values.iter().filter(|value| !is_null(value)).map(|value| own_labels(value, schema));
    let first = labels.next()??;
    labels.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Gives an expression that is one of several values their type.
fn typed_as(labels: Option<Vec<String>>, expression: &mut Expr) -> bool {
    let Some(labels) = labels else { return false };
    *expression = with_labels(&enum_functions::cast(), std::mem::take(expression), &labels);
    true
}

/// The aggregate in place of one that compares values; nothing in its place where only its arguments change.
fn extreme(
    name: &str,
    args: &mut [Expr],
    schema: &DFSchema,
) -> Option<Option<Arc<datafusion::logical_expr::AggregateUDF>>> {
    match (name, args) {
        ("min" | "max", [value]) => {
            let order = order(value, schema)?;
            Some(Some(Arc::new(enum_extremes::extreme(name == "max", order))))
        }
        ("arg_min" | "arg_max", [_, by, ..]) => {
            let order = order(by, schema).filter(Order::is_own)?;
            *by = place(std::mem::take(by), &order);
            Some(None)
        }
        _ => None,
    }
}
