//! Operators and subscripts that are implemented by functions: `json -> 'path'`, `json #> '{a,b}'`, `text ^@ 'start'`, `text[2:3]`.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, Operator, ScalarUDF};
use freestone_sql::tree::BinaryOperator;

use super::{json, list_members, list_parts, lists, postgres, structs, text};
use crate::times::is_text;

static EXTRACT: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(json::extract()));
static EXTRACT_STRING: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(json::extract_string()));
static POINTER: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(postgres::pointer()));
static MAP_VALUE: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(structs::map_value_function()));
static LIST_HAS_ANY: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(list_members::list_has_any()));
static LIST_HAS_ALL: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(list_members::list_has_all()));
static LIST_CONCAT: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(list_parts::list_concat()));
static LIST_ITEM: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(lists::list_extract()));
static LIST_SLICE: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(list_parts::list_slice()));
static CUT: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(text::cut_function()));

/// Plans these operators.
#[derive(Debug)]
pub(super) struct Operators;

fn is_null(value: &Expr, schema: &DFSchema) -> bool {
    value.get_type(schema).is_ok_and(|kind| kind.is_null())
}

/// An operator that DataFusion has no name for.
pub(crate) fn unnamed(operator: BinaryOperator, left: &Expr, right: &Expr) -> Option<Expr> {
    let operands = || vec![left.clone(), right.clone()];
    match operator {
        BinaryOperator::StartsWith => Some(datafusion::functions::string::starts_with().call(operands())),
        BinaryOperator::Overlaps => Some(LIST_HAS_ANY.call(operands())),
        _ => None,
    }
}

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, binary: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = binary;
        Ok(PlannerResult::Planned(match op {
            Operator::Arrow => EXTRACT.call(vec![left, right]),
            Operator::LongArrow => EXTRACT_STRING.call(vec![left, right]),
            Operator::HashArrow => EXTRACT.call(vec![left, POINTER.call(vec![right])]),
            Operator::HashLongArrow => EXTRACT_STRING.call(vec![left, POINTER.call(vec![right])]),
            Operator::AtArrow if is_list(&left, schema) => LIST_HAS_ALL.call(vec![left, right]),
            Operator::ArrowAt if is_list(&right, schema) => LIST_HAS_ALL.call(vec![right, left]),
            Operator::AtArrow | Operator::ArrowAt if is_text_value(&left, schema) && is_text_value(&right, schema) => {
                return plan_err!("@> and <@ take lists or JSONB: write a::JSONB @> b::JSONB");
            }
            // Lists are joined, as by ||.
            Operator::Plus if is_list(&left, schema) && is_list(&right, schema) => LIST_CONCAT.call(vec![left, right]),
            // NULL is no list here, as in PostgreSQL, and no item.
            Operator::StringConcat
                if is_list(&left, schema) && is_null(&right, schema)
                    || is_null(&left, schema) && is_list(&right, schema) =>
            {
                LIST_CONCAT.call(vec![left, right])
            }
            op => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        }))
    }

    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let of_text = access.expr.get_type(schema).is_ok_and(|kind| is_text(&kind));
        let of_map = access.expr.get_type(schema).is_ok_and(|kind| matches!(kind, DataType::Map(..)));
        let RawFieldAccessExpr { expr, field_access } = access;
        let field_access = match field_access {
            GetFieldAccess::NamedStructField { name } if of_map => {
                return Ok(PlannerResult::Planned(MAP_VALUE.call(vec![expr, Expr::Literal(name, None)])));
            }
            GetFieldAccess::ListIndex { key } if of_map => {
                return Ok(PlannerResult::Planned(MAP_VALUE.call(vec![expr, *key])));
            }
            other => other,
        };
        let of_bytes = || expr.get_type(schema).is_ok_and(|kind| kind.is_binary());
        let field_access = match field_access {
            GetFieldAccess::ListIndex { key } if is_list(&expr, schema) => {
                return Ok(PlannerResult::Planned(LIST_ITEM.call(vec![expr, *key])));
            }
            GetFieldAccess::ListRange { start, stop, stride } if of_bytes() || is_list(&expr, schema) => {
                return Ok(PlannerResult::Planned(LIST_SLICE.call(vec![expr, *start, *stop, *stride])));
            }
            other => other,
        };
        let (start, end): (Expr, Expr) = match (field_access, of_text) {
            (GetFieldAccess::ListIndex { key }, true) => (*key.clone(), *key),
            (GetFieldAccess::ListRange { start, stop, stride }, true) => {
                if !matches!(*stride, Expr::Literal(ScalarValue::Int64(Some(1)), _)) {
                    return plan_err!("a part of a text has no step: write text[from:to]");
                }
                (*start, *stop)
            }
            (field_access, _) => return Ok(PlannerResult::Original(RawFieldAccessExpr { expr, field_access })),
        };
        Ok(PlannerResult::Planned(CUT.call(vec![expr, start, end])))
    }
}

fn is_list(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|kind| kind.is_list())
}

fn is_text_value(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|kind| is_text(&kind))
}

/// The planner, which must precede those that would interpret such operands as lists.
pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(Operators)
}
