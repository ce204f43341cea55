//! Evaluates expressions that can fail only for rows that their guard leaves: `y = 0 OR 6 / y < 3`, `y > 0 AND 6 / y >
//! 2`.
//!
//! DataFusion evaluates both sides of AND and OR over whole batches. It splits conjunctions, moves their parts into
//! scans and below joins, and reorders them; and its simplifier converts a CASE of booleans to ANDs and ORs. So an AND
//! or OR whose right side can fail becomes a CASE over its left side, which evaluates each branch for its own rows and
//! is never split: `CASE y > 0 WHEN true THEN 6 / y > 2 …`. The other conjuncts of a condition remain outside of the
//! CASE, so that they are pushed into scans and used for hash joins as before.

use std::collections::HashSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::exact::{Exact, integer_digits};
use crate::expressions::{balanced, size};
use crate::{scalars, times};

/// Functions that are an error for some arguments.
const FALLIBLE: [&str; 28] = [
    "abs",
    "arrow_cast",
    "chr",
    "date_bin",
    "date_trunc",
    "decode",
    "factorial",
    "from_unixtime",
    "gcd",
    "lcm",
    "make_date",
    "make_time",
    "make_timestamp",
    "make_timestamptz",
    "power",
    "regexp_count",
    "regexp_instr",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "timezone",
    "to_char",
    "to_date",
    "to_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_unixtime",
];
/// An operand of more nodes is not written twice.
const NODES_MAX: usize = 256;

/// Puts the guards in place once types are known.
#[derive(Debug)]
pub(crate) struct Guards;

impl AnalyzerRule for Guards {
    fn name(&self) -> &str {
        "guards"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

/// Guards what met its guard only when filters were pushed into one scan, or merged.
#[derive(Debug)]
pub(crate) struct GuardedScans;

impl OptimizerRule for GuardedScans {
    fn name(&self) -> &str {
        "guarded_scans"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::TableScan(mut scan) => {
                let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
                let filters = guarded(std::mem::take(&mut scan.filters), &schema);
                scan.filters = filters.data;
                Ok(Transformed::new_transformed(LogicalPlan::TableScan(scan), filters.transformed))
            }
            LogicalPlan::Filter(mut filter) => {
                let predicate = condition(std::mem::take(&mut filter.predicate), filter.input.schema());
                filter.predicate = predicate.data;
                Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), predicate.transformed))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // The order that a window asks for is not recognized in a CASE, and the plan would be refused.
    if matches!(plan, LogicalPlan::Window(_)) {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let is_condition = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    plan.map_expressions(|expression| {
        let name = names.save(&expression);
        if !is_condition {
            let changed = expression.transform_up(|e| Ok(in_value(e, &schema)))?;
            return Ok(changed.update_data(|e| name.restore(e)));
        }
        let mut changed = false;
        let mut conjuncts = vec![];
        for conjunct in split_conjunction_owned(expression) {
            let conjunct = conjunct.transform_up(|e| Ok(in_value(e, &schema)))?;
            changed |= conjunct.transformed;
            conjuncts.push(conjunct.data);
        }
        let guarded = guarded(conjuncts, &schema);
        changed |= guarded.transformed;
        let condition = balanced(guarded.data, Operator::And).unwrap_or_else(|| lit(true));
        Ok(Transformed::new_transformed(name.restore(condition), changed))
    })
}

fn condition(predicate: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let guarded = guarded(split_conjunction_owned(predicate), schema);
    guarded.update_data(|conjuncts| balanced(conjuncts, Operator::And).unwrap_or_else(|| lit(true)))
}

/// Conjuncts of a condition, of which only truth matters: those that can fail are guarded by all that cannot. A key of a join is
/// guarded by conditions on one of its sides alone, because all rows of a side have to have their keys before they find others.
fn guarded(conjuncts: Vec<Expr>, schema: &DFSchema) -> Transformed<Vec<Expr>> {
    let open = |e: &Expr| !is_guarded(e) && !is_bound(e) && can_fail(e, schema);
    if !conjuncts.iter().any(open) {
        return Transformed::no(conjuncts);
    }
    let is_guard = |e: &&Expr| !is_bound(e) && !e.is_volatile() && !can_fail(e, schema) && e.any_column_refs();
    let guards: Vec<Expr> = conjuncts.iter().filter(is_guard).cloned().collect();
    let mut changed = false;
    let guarded = |e: Expr| {
        let sides = if open(&e) { key_sides(&e) } else { return e };
        let is_of_side = |guard: &&Expr| {
            let of = relations(guard);
            sides.as_ref().is_none_or(|sides| sides.iter().any(|side| of.is_subset(side)))
        };
        match balanced(guards.iter().filter(is_of_side).cloned().collect(), Operator::And) {
            Some(guard) => {
                changed = true;
                case(guard, vec![(true, e)], lit(false))
            }
            None => e,
        }
    };
    let conjuncts = conjuncts.into_iter().map(guarded).collect();
    Transformed::new_transformed(conjuncts, changed)
}

/// The tables of both sides of an equality, if they have none in common: a key of a join.
fn key_sides(e: &Expr) -> Option<[HashSet<Option<TableReference>>; 2]> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = e else { return None };
    let sides = [relations(left), relations(right)];
    let are_known = sides.iter().all(|side| !side.is_empty() && !side.contains(&None));
    (are_known && sides[0].is_disjoint(&sides[1])).then_some(sides)
}

/// The tables of an expression's columns.
fn relations(e: &Expr) -> HashSet<Option<TableReference>> {
    e.column_refs().into_iter().map(|column| column.relation.clone()).collect()
}

/// Conditions with subqueries in them belong to the rules that make joins of those.
fn is_bound(expression: &Expr) -> bool {
    let bound = |e: &Expr| {
        matches!(
            e,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::ScalarSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        )
    };
    expression.exists(|e| Ok(bound(e))).unwrap_or(true)
}

fn is_guarded(expression: &Expr) -> bool {
    matches!(expression, Expr::Case(Case { expr: Some(_), .. }))
}

/// An AND, OR, CASE or COALESCE whose later operands can fail, as a CASE that nothing takes apart.
fn in_value(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right })
            if !is_bound(&left) && !is_bound(&right) && can_fail(&right, schema) && size(&right) <= NODES_MAX =>
        {
            // NULL AND x is false where x is, NULL OR x is true where x is.
            let unknown = Box::new(Expr::Literal(ScalarValue::Boolean(None), None));
            let otherwise = Expr::BinaryExpr(BinaryExpr::new(unknown, op, right.clone()));
            let closed = op == Operator::Or;
            Transformed::yes(case(*left, vec![(!closed, *right), (closed, lit(closed))], otherwise))
        }
        Expr::Case(Case { expr: None, when_then_expr, else_expr })
            if when_then_expr.iter().any(|(when, then)| can_fail(when, schema) || can_fail(then, schema))
                || else_expr.as_ref().is_some_and(|e| can_fail(e, schema)) =>
        {
            let is_boolean =
                when_then_expr.iter().any(|(_, then)| matches!(then.get_type(schema), Ok(DataType::Boolean)));
            let base = is_boolean.then(|| Box::new(lit(true)));
            Transformed::new_transformed(Expr::Case(Case::new(base, when_then_expr, else_expr)), is_boolean)
        }
        Expr::ScalarFunction(mut call)
            if call.func.name() == "coalesce"
                && call.args.len() > 1
                && call.args.iter().skip(1).any(|e| can_fail(e, schema)) =>
        {
            let Some(last) = call.args.pop() else { return Transformed::no(Expr::ScalarFunction(call)) };
            let branch = |e: Expr| (Box::new(e.clone().is_not_null()), Box::new(e));
            let branches = call.args.into_iter().map(branch).collect();
            Transformed::yes(Expr::Case(Case::new(Some(Box::new(lit(true))), branches, Some(Box::new(last)))))
        }
        other => Transformed::no(other),
    }
}

fn case(of: Expr, branches: Vec<(bool, Expr)>, otherwise: Expr) -> Expr {
    let branches = branches.into_iter().map(|(when, then)| (Box::new(lit(when)), Box::new(then))).collect();
    Expr::Case(Case::new(Some(Box::new(of)), branches, Some(Box::new(otherwise))))
}

/// Whether an expression is an error for some rows.
fn can_fail(expression: &Expr, schema: &DFSchema) -> bool {
    expression.exists(|e| Ok(node_can_fail(e, schema))).unwrap_or(true)
}

fn node_can_fail(node: &Expr, schema: &DFSchema) -> bool {
    match node {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => {
            let is_float = right.get_type(schema).is_ok_and(|t| t.is_floating());
            !is_float && !is_not_zero(right)
        }
        // Decimals of fewer digits have room for what becomes of them.
        Expr::BinaryExpr(BinaryExpr { op: Operator::Plus | Operator::Minus | Operator::Multiply, .. }) => {
            matches!(node.get_type(schema), Ok(DataType::Decimal128(38, _) | DataType::Decimal256(76, _)))
        }
        Expr::Cast(cast) if cast.expr.any_column_refs() => {
            cast.expr.get_type(schema).map_or(true, |from| cast_can_fail(&from, cast.field.data_type()))
        }
        Expr::ScalarFunction(call) if call.func.inner().is::<Exact>() => {
            call.func.inner().downcast_ref::<Exact>().is_some_and(|exact| exact_can_fail(exact, &call.args, schema))
        }
        Expr::ScalarFunction(call) => {
            let fails = match (times::argument_of_cast(node), node.get_type(schema)) {
                (Some(argument), Ok(to)) => argument.get_type(schema).map_or(true, |from| cast_can_fail(&from, &to)),
                _ => FALLIBLE.contains(&call.func.name()) || scalars::can_fail(&call.func),
            };
            fails && node.any_column_refs()
        }
        _ => false,
    }
}

/// What is checked for overflow is an error for some rows; types whose bounds rule that out have no check. Of literals, what
/// can be computed is a literal already.
fn exact_can_fail(exact: &Exact, operands: &[Expr], schema: &DFSchema) -> bool {
    match (exact.cast_to(), operands) {
        (Some((_, true)), _) => false,
        (_, operands) if operands.iter().all(|operand| matches!(operand, Expr::Literal(..))) => true,
        (Some((to, false)), [operand]) => {
            operand.any_column_refs() && operand.get_type(schema).map_or(true, |from| cast_can_fail(&from, to))
        }
        (_, [_, divisor]) if exact.is_quotient() => !is_not_zero(divisor),
        _ => operands.iter().any(Expr::any_column_refs),
    }
}

/// A literal divisor other than zero, also below a cast.
fn is_not_zero(divisor: &Expr) -> bool {
    match divisor {
        Expr::Literal(value, _) => {
            value.is_null() || ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero != *value)
        }
        Expr::Cast(cast) => is_not_zero(&cast.expr),
        Expr::Negative(inner) => is_not_zero(inner),
        _ => false,
    }
}

fn cast_can_fail(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Boolean, LargeBinary, LargeUtf8, Null, Utf8, Utf8View};
    let digits = |t: &DataType| match t {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            Some(i16::from(*precision) - i16::from(*scale))
        }
        integer => integer_digits(integer),
    };
    let is_string = |t: &DataType| matches!(t, Utf8 | Utf8View | LargeUtf8);
    if from == to || *from == Null || is_string(to) || to.is_floating() && (from.is_numeric() || *from == Boolean) {
        return false;
    }
    if let (DataType::Dictionary(_, from), _) = (from, to) {
        return cast_can_fail(from, to);
    }
    if from.is_integer() && to.is_integer() {
        let bits = |t: &DataType| t.primitive_width().unwrap_or(0);
        let widens = bits(from) < bits(to) && (to.is_signed_integer() || from.is_unsigned_integer());
        return !widens;
    }
    match (digits(from), digits(to)) {
        (Some(from), Some(to)) => from > to,
        // Between dates and times.
        _ if from.is_temporal() && to.is_temporal() => false,
        (Some(_), None) => *to != Boolean,
        _ => !(matches!(from, Binary | BinaryView | LargeBinary) && matches!(to, Binary | BinaryView | LargeBinary)),
    }
}
