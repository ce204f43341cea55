//! Casts in the names of aggregates. DataFusion ignores casts in names, so `sum(a)` and `sum(a::double)` have the same
//! name, as have `a` and `a::text` in GROUP BY, and the query is refused.
//!
//! In such queries, casts are written as arguments of [`AS_WRITTEN`], which includes the type in the name and returns
//! its argument. The optimizer removes it after the columns have their names.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr as PlannedExpr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderBy, Select, Value,
};

use crate::sql::visitor;

/// A function that returns its first argument.
const AS_WRITTEN: &str = "freestone$as_written";

/// Makes casts part of the names of expressions that differ only in casts.
pub(crate) fn tell_apart(select: &mut Select, order: Option<&mut OrderBy>) {
    let mut expressions: Vec<Expr> = vec![];
    let mut has_cast = false;
    visitor::expressions_mut(&mut select.projection, &mut |expr| {
        has_cast |= is_cast(expr);
        if let Expr::Function(_) = expr {
            expressions.push(expr.clone());
        }
    });
    if let GroupByExpr::Expressions(keys, _) = &select.group_by {
        expressions.extend(keys.iter().cloned());
        keys.iter().for_each(|key| has_cast |= is_cast(key));
    }
    if !has_cast || !differ_in_casts(expressions) {
        return;
    }
    let mut write = |expr: &mut Expr| {
        if is_cast(expr) {
            *expr = as_written(expr);
        }
    };
    visitor::expressions_mut(&mut select.projection, &mut write);
    visitor::expressions_mut(&mut select.group_by, &mut write);
    visitor::expressions_mut(&mut select.having, &mut write);
    visitor::expressions_mut(&mut select.qualify, &mut write);
    visitor::expressions_mut(&mut select.named_window, &mut write);
    visitor::expressions_mut(&mut select.distinct, &mut write);
    if let Some(order) = order {
        visitor::expressions_mut(order, &mut write);
    }
}

fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { .. } | Expr::TypedString(_))
}

/// Whether two of the expressions are equal except for casts.
fn differ_in_casts(expressions: Vec<Expr>) -> bool {
    let mut known: HashMap<String, String> = HashMap::new();
    expressions.into_iter().any(|mut expr| {
        let text = expr.to_string();
        visitor::expressions_mut(&mut expr, &mut |part| {
            let bare = match part {
                Expr::Cast { expr, .. } => (**expr).clone(),
                Expr::TypedString(typed) => Expr::Value(typed.value.clone()),
                Expr::Nested(inner) => (**inner).clone(),
                _ => return,
            };
            *part = bare;
        });
        *known.entry(expr.to_string()).or_insert_with(|| text.clone()) != text
    })
}

fn as_written(cast: &Expr) -> Expr {
    let kind = match cast {
        Expr::Cast { kind: ast::CastKind::TryCast | ast::CastKind::SafeCast, data_type, .. } => {
            format!("TRY {data_type}")
        }
        Expr::Cast { data_type, .. } => data_type.to_string(),
        Expr::TypedString(typed) => typed.data_type.to_string(),
        other => other.to_string(),
    };
    let kind = Expr::Value(Value::SingleQuotedString(kind).with_empty_span());
    let argument = |expr: Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    let args = vec![argument(cast.clone()), argument(kind)];
    Expr::Function(ast::Function {
        name: ObjectName::from(vec![Ident::with_quote('"', AS_WRITTEN)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// The function, for the state of a session.
pub(crate) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(AsWritten { signature }))
    });
    FUNCTION.clone()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AsWritten {
    signature: Signature,
}

impl ScalarUDFImpl for AsWritten {
    fn name(&self) -> &str {
        AS_WRITTEN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn simplify(&self, args: Vec<PlannedExpr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let mut args = args;
        if args.is_empty() {
            return Ok(ExprSimplifyResult::Original(args));
        }
        Ok(ExprSimplifyResult::Simplified(args.swap_remove(0)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let first = args.args.into_iter().next();
        Ok(first.unwrap_or(ColumnarValue::Scalar(datafusion::scalar::ScalarValue::Null)))
    }
}
