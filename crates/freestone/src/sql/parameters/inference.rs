//! The types of undeclared parameters, inferred from the context by the rules of PostgreSQL. A parameter has the type
//! to which it is cast, else the type of the other operand, of the value that is compared with an IN list or ANY, of
//! its column, or of its function's argument. The first use decides. If nothing determines the type, it is VARCHAR.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Like, LogicalPlan, Operator, TryCast,
};

use super::is_known;

/// Functions whose arguments all have the same type, which is that of the result, too.
const OF_ONE_TYPE: [&str; 7] = ["coalesce", "nullif", "greatest", "least", "ifnull", "nvl", "nvl2"];

/// The types of a plan's parameters. Those that are not known in `types` are inferred.
///
/// # Errors
/// The plan cannot be visited.
pub(crate) fn inferred(plan: &LogicalPlan, types: &[DataType]) -> Result<Vec<DataType>> {
    let mut found = Found { types: types.to_vec() };
    plan.apply_with_subqueries(|node| {
        let schema = schema_of(node);
        if let LogicalPlan::Filter(filter) = node {
            found.note(&filter.predicate, &DataType::Boolean);
        }
        if let LogicalPlan::Values(values) = node {
            for row in &values.values {
                row.iter().zip(values.schema.fields()).for_each(|(value, field)| found.note(value, field.data_type()));
            }
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                found.look_at(part, &schema);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    let text = |known: DataType| if is_known(&known) { known } else { as_text(&known) };
    Ok(found.types.into_iter().map(text).collect())
}

fn as_text(open: &DataType) -> DataType {
    match open {
        DataType::List(_) => DataType::new_list(DataType::Utf8View, true),
        _ => DataType::Utf8View,
    }
}

/// The schema for the expressions of a node.
fn schema_of(node: &LogicalPlan) -> DFSchema {
    let inputs = node.inputs();
    if inputs.is_empty() { node.schema().as_ref().clone() } else { merge_schema(&inputs) }
}

struct Found {
    /// By number; that of `$1` is at index 0.
    types: Vec<DataType>,
}

impl Found {
    /// The index of an expression that is a parameter of unknown type; `None` for any other.
    fn open(&self, expr: &Expr) -> Option<usize> {
        let Expr::Placeholder(placeholder) = expr else { return None };
        let at = placeholder.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
        self.types.get(at).is_some_and(|known| !is_known(known)).then_some(at)
    }

    fn note(&mut self, expr: &Expr, data_type: &DataType) {
        if let Some(at) = self.open(expr)
            && is_known(data_type)
        {
            self.types[at] = plain(data_type);
        }
    }

    /// The type of an expression, if it is known.
    fn type_of(&self, expr: &Expr, schema: &DFSchema) -> Option<DataType> {
        if let Expr::Placeholder(_) = expr
            && let Some(at) = number(expr)
        {
            return self.types.get(at).filter(|known| is_known(known)).cloned();
        }
        expr.get_type(schema).ok().filter(is_known)
    }

    fn look_at(&mut self, expr: &Expr, schema: &DFSchema) {
        match expr {
            // The type that DataFusion has inferred from an assigned column.
            Expr::Placeholder(placeholder) => {
                if let Some(field) = &placeholder.field {
                    self.note(expr, &field.data_type().clone());
                }
            }
            Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
                self.note(expr, field.data_type());
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                if let Some(known) = self.type_of(right, schema) {
                    self.note(left, &operand_type(&known, *op, Side::Left));
                }
                if let Some(known) = self.type_of(left, schema) {
                    self.note(right, &operand_type(&known, *op, Side::Right));
                }
            }
            Expr::Like(Like { expr, pattern, .. }) | Expr::SimilarTo(Like { expr, pattern, .. }) => {
                self.note(expr, &DataType::Utf8View);
                self.note(pattern, &DataType::Utf8View);
            }
            Expr::Between(Between { expr, low, high, .. }) => self.alike(&[expr, low, high], schema),
            Expr::InList(InList { expr, list, .. }) => {
                let all: Vec<&Expr> = std::iter::once(expr.as_ref()).chain(list).collect();
                self.alike(&all, schema);
            }
            Expr::InSubquery(InSubquery { expr, subquery, .. })
            | Expr::SetComparison(SetComparison { expr, subquery, .. }) => {
                if let [field] = subquery.subquery.schema().fields().as_ref() {
                    self.note(expr, &field.data_type().clone());
                }
            }
            Expr::Case(Case { expr, when_then_expr, else_expr }) => {
                let (whens, mut thens): (Vec<&Expr>, Vec<&Expr>) =
                    when_then_expr.iter().map(|(when, then)| (when.as_ref(), then.as_ref())).unzip();
                match expr {
                    Some(base) => self.alike(&std::iter::once(base.as_ref()).chain(whens).collect::<Vec<_>>(), schema),
                    None => whens.into_iter().for_each(|when| self.note(when, &DataType::Boolean)),
                }
                thens.extend(else_expr.as_deref());
                self.alike(&thens, schema);
            }
            Expr::Not(inner) | Expr::IsTrue(inner) | Expr::IsFalse(inner) | Expr::IsUnknown(inner) => {
                self.note(inner, &DataType::Boolean);
            }
            Expr::ScalarFunction(call) => self.look_at_call(call, schema),
            _ => {}
        }
    }

    /// Expressions of the same type: the first known type is that of the others.
    fn alike(&mut self, exprs: &[&Expr], schema: &DFSchema) {
        if let Some(known) = exprs.iter().find_map(|expr| self.type_of(expr, schema)) {
            exprs.iter().for_each(|expr| self.note(expr, &known));
        }
    }

    fn look_at_call(&mut self, call: &ScalarFunction, schema: &DFSchema) {
        let arguments: Vec<&Expr> = call.args.iter().collect();
        match (call.func.name(), arguments.as_slice()) {
            ("array_has", [list, element]) => {
                if let Some(known) = self.type_of(element, schema) {
                    self.note(list, &DataType::new_list(plain(&known), true));
                }
                if let Some(DataType::List(field)) = self.type_of(list, schema) {
                    self.note(element, field.data_type());
                }
            }
            (name, all) if OF_ONE_TYPE.contains(&name) => self.alike(all, schema),
            (_, all) => {
                let type_of = |expr: &&Expr| self.type_of(expr, schema).unwrap_or(DataType::Null);
                let fields: Vec<FieldRef> =
                    all.iter().map(|expr| Arc::new(Field::new("", type_of(expr), true))).collect();
                if let Ok(taken) = fields_with_udf(&fields, call.func.as_ref()) {
                    all.iter().zip(taken).for_each(|(expr, taken)| self.note(expr, taken.data_type()));
                }
            }
        }
    }
}

fn number(expr: &Expr) -> Option<usize> {
    let Expr::Placeholder(placeholder) = expr else { return None };
    placeholder.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// All string types become VARCHAR.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Dictionary(_, values) => plain(values),
        other => other.clone(),
    }
}

/// The side of an operator on which a parameter is.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

/// The type of a parameter from the known type of the other operand. In most cases they are equal.
fn operand_type(known: &DataType, op: Operator, side: Side) -> DataType {
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    match (op, known) {
        (Operator::And | Operator::Or, _) => DataType::Boolean,
        (Operator::StringConcat, known) if !matches!(known, DataType::List(_)) => DataType::Utf8View,
        (Operator::Plus, known) if known.is_temporal() => interval,
        (Operator::Multiply | Operator::Divide, DataType::Interval(_)) if side == Side::Right => DataType::Float64,
        (Operator::Multiply, DataType::Interval(_)) => DataType::Float64,
        (_, known) => plain(known),
    }
}
