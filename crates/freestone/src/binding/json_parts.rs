//! JSON among the arguments of functions that make JSON. It is nested there, while other texts become strings. Texts of JSON
//! have no type of their own, so calls say here which of their values are JSON.

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, ScalarUDF};

use crate::normal_texts::NormalText;
use crate::scalars;
use crate::sql::function_macros::{AS_JSON, AS_JSON_OR_NULL};
use crate::text_types;

/// The functions that make JSON of their arguments.
const MAKING: [&str; 6] =
    ["to_json", "json_array", "json_object", "jsonb_build_array", "jsonb_build_object", "freestone_json_of_entries"];

/// Those that take texts as JSON anyway, and make it of structs and lists.
const TAKING: [&str; 8] = [
    AS_JSON,
    AS_JSON_OR_NULL,
    "json_set",
    "json_insert",
    "json_replace",
    "json_merge_patch",
    "json_deep_merge",
    "json_merge_patch_diff",
];

/// The arguments of a call, in which JSON is marked by a function if it is nested in JSON.
pub(super) fn nested(function: &str, arguments: Vec<Expr>, schema: &DFSchema, part: &ScalarUDF) -> Vec<Expr> {
    let (makes, takes) = (MAKING.contains(&function), TAKING.contains(&function));
    if !makes && !takes {
        return arguments;
    }
    let has_keys = matches!(function, "json_object" | "jsonb_build_object");
    let marked = |(at, value): (usize, Expr)| match () {
        () if has_keys && at % 2 == 0 || takes && is_json_value(&value, schema) => value,
        () => marked(value, schema, part),
    };
    arguments.into_iter().enumerate().map(marked).collect()
}

/// A value whose JSON is marked: the value itself, or parts of a list, struct or map that is made of values.
fn marked(value: Expr, schema: &DFSchema, part: &ScalarUDF) -> Expr {
    if is_json_value(&value, schema) {
        return part.call(vec![value]);
    }
    let mark = |value: Expr| marked(value, schema, part);
    match value {
        Expr::Alias(alias) => mark(*alias.expr),
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let args = match func.name() {
                "struct" => args.into_iter().map(mark).collect(),
                "named_struct" => {
                    let mark = |(at, value)| if at % 2 == 1 { mark(value) } else { value };
                    args.into_iter().enumerate().map(mark).collect()
                }
                // Items have one type.
                "make_array" if args.iter().all(|item| is_null(item) || is_json_value(item, schema)) => {
                    args.into_iter().map(|item| part.call(vec![item])).collect()
                }
                "make_array" if !args.iter().any(|item| is_json_value(item, schema)) => {
                    args.into_iter().map(mark).collect()
                }
                "map" => {
                    let mark = |(at, value)| if at == 1 { mark(value) } else { value };
                    args.into_iter().enumerate().map(mark).collect()
                }
                _ => args,
            };
            Expr::ScalarFunction(ScalarFunction { func, args })
        }
        Expr::AggregateFunction(mut call) if call.func.name() == "array_agg" => {
            call.params.args = call.params.args.into_iter().map(mark).collect();
            Expr::AggregateFunction(call)
        }
        Expr::WindowFunction(mut call) if call.fun.name() == "array_agg" => {
            call.params.args = call.params.args.into_iter().map(mark).collect();
            Expr::WindowFunction(call)
        }
        other => other,
    }
}

/// Whether a value is known to be JSON: of a column that was declared so, or of a function that makes it.
pub(super) fn is_json_value(value: &Expr, schema: &DFSchema) -> bool {
    let is_json = |value: &Expr| is_json_value(value, schema);
    match value {
        Expr::Alias(alias) => is_json(&alias.expr),
        Expr::ScalarFunction(call) if scalars::makes_json(call.name()) => {
            value.get_type(schema).is_ok_and(|kind| kind.is_string())
        }
        Expr::ScalarFunction(call) if call.name() == "coalesce" => are_json(call.args.iter(), schema),
        Expr::ScalarFunction(call) if call.name() == "nullif" => call.args.first().is_some_and(is_json),
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter().map(|(_, result)| result.as_ref());
            are_json(results.chain(else_expr.as_deref()), schema)
        }
        Expr::AggregateFunction(call) if matches!(call.func.name(), "min" | "max" | "first_value" | "last_value") => {
            call.params.args.first().is_some_and(is_json)
        }
        value => value.to_field(schema).is_ok_and(|(_, field)| text_types::has_json(&field)),
    }
}

/// Whether a value is known to be JSONB.
pub(super) fn is_jsonb(value: &Expr, schema: &DFSchema) -> bool {
    match value {
        Expr::Alias(alias) => is_jsonb(&alias.expr, schema),
        Expr::ScalarFunction(call) if call.name() == "coalesce" => are_jsonb(call.args.iter(), schema),
        Expr::ScalarFunction(call) if call.name() == "nullif" => {
            call.args.first().is_some_and(|first| is_jsonb(first, schema))
        }
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter().map(|(_, result)| result.as_ref());
            are_jsonb(results.chain(else_expr.as_deref()), schema)
        }
        value => {
            let kind = value.to_field(schema).ok().and_then(|(_, field)| text_types::normal_of(&field));
            kind == Some(NormalText::Jsonb)
        }
    }
}

/// Whether values are JSONB, or take that type from those which are.
fn are_jsonb<'a>(values: impl Iterator<Item = &'a Expr> + Clone, schema: &DFSchema) -> bool {
    values.clone().all(|value| is_untyped(value) || is_jsonb(value, schema))
        && values.clone().any(|value| is_jsonb(value, schema))
}

/// Whether a value takes its type from where it stands: a text in quotes, a parameter, or NULL.
pub(super) fn is_untyped(value: &Expr) -> bool {
    is_null(value) || matches!(value, Expr::Literal(ScalarValue::Utf8(_), _) | Expr::Placeholder(_))
}

/// Whether values are JSON, or NULL of which there are not only such.
fn are_json<'a>(values: impl Iterator<Item = &'a Expr> + Clone, schema: &DFSchema) -> bool {
    values.clone().all(|value| is_null(value) || is_json_value(value, schema))
        && values.clone().any(|value| is_json_value(value, schema))
}

/// Whether a value is written as NULL.
fn is_null(value: &Expr) -> bool {
    match value {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Literal(ScalarValue::Null, _)),
        _ => false,
    }
}
