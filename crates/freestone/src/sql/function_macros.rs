//! Functions that are defined by expressions, and aliases of functions. Their calls are replaced in parsed SQL. So
//! `add(a, b)` has the types, errors and pruning of `a + b`.

use std::collections::HashMap;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    StructField, UnaryOperator, Value, VisitMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::dialect::SqlDialect;
use super::fragments::call;
use super::names::folded;
use super::visitor;

/// The functions by which casts to JSON and BLOB and the operator `~` are computed.
pub(crate) const AS_JSON: &str = "freestone_json";
pub(crate) const AS_JSON_OR_NULL: &str = "freestone_json_or_null";
pub(crate) const AS_BLOB: &str = "freestone_blob";
pub(crate) const AS_BLOB_OR_NULL: &str = "freestone_blob_or_null";
pub(crate) const BITS_NOT: &str = "freestone_bits_not";

/// A definition: its name, its parameters, its expression, and the aggregates in it.
pub(crate) type Parts = (&'static str, &'static [&'static str], &'static str, &'static [&'static str]);

/// All definitions.
pub(crate) fn definitions() -> impl Iterator<Item = Parts> {
    DEFINITIONS.iter().map(|one| (one.name, one.parameters, one.expression, one.aggregates))
}

/// Names in DuckDB and PostgreSQL, and the functions of which they are aliases.
pub(crate) const RENAMED: [(&str, &str); 60] = [
    ("aggregate", "list_aggregate"),
    ("apply", "array_transform"),
    ("approx_count_distinct", "approx_distinct"),
    ("arbitrary", "first_value"),
    ("approx_quantile", "approx_percentile_cont"),
    ("argmax", "arg_max"),
    ("argmin", "arg_min"),
    ("array_aggr", "list_aggregate"),
    ("array_aggregate", "list_aggregate"),
    ("array_apply", "array_transform"),
    ("array_extract_value", "array_element"),
    ("array_reverse_sort", "list_reverse_sort"),
    ("array_value", "make_array"),
    ("ceiling", "ceil"),
    ("countif", "count_if"),
    ("editdist3", "levenshtein"),
    ("every", "bool_and"),
    ("filter", "array_filter"),
    ("first", "first_value"),
    ("gen_random_uuid", "uuid"),
    ("get_current_timestamp", "now"),
    ("greatest_common_divisor", "gcd"),
    ("group_concat", "string_agg"),
    ("json_extract_path", "json_extract"),
    ("json_extract_path_text", "json_extract_string"),
    ("kahan_sum", "fsum"),
    ("last", "last_value"),
    ("lcase", "lower"),
    ("least_common_multiple", "lcm"),
    ("list", "array_agg"),
    ("list_aggr", "list_aggregate"),
    ("list_apply", "array_transform"),
    ("list_pack", "make_array"),
    ("list_value", "make_array"),
    ("listagg", "string_agg"),
    ("map_extract_value", "freestone_map_value"),
    ("max_by", "arg_max"),
    ("min_by", "arg_min"),
    ("prefix", "starts_with"),
    ("quantile", "quantile_disc"),
    ("split", "string_split"),
    ("str_split", "string_split"),
    ("struct_extract", "get_field"),
    ("suffix", "ends_with"),
    ("sum_no_overflow", "sum"),
    ("sumkahan", "fsum"),
    ("ucase", "upper"),
    ("uuidv4", "uuid"),
    ("array_inner_product", "list_inner_product"),
    ("array_dot_product", "list_inner_product"),
    ("list_dot_product", "list_inner_product"),
    ("list_negative_dot_product", "list_negative_inner_product"),
    ("array_negative_dot_product", "list_negative_inner_product"),
    ("array_negative_inner_product", "list_negative_inner_product"),
    ("array_cosine_similarity", "list_cosine_similarity"),
    ("array_cosine_distance", "list_cosine_distance"),
    ("list_cosine_distance", "cosine_distance"),
    ("array_where", "list_where"),
    ("array_zip", "list_zip"),
    ("array_select", "list_select"),
];

/// A function that is defined by an expression. Clauses of a call (OVER, FILTER, DISTINCT, ORDER BY) apply to the
/// aggregates in it.
struct Definition {
    name: &'static str,
    parameters: &'static [&'static str],
    expression: &'static str,
    aggregates: &'static [&'static str],
}

const fn scalar(name: &'static str, parameters: &'static [&'static str], expression: &'static str) -> Definition {
    Definition { name, parameters, expression, aggregates: &[] }
}

const fn aggregate(
    name: &'static str,
    parameters: &'static [&'static str],
    expression: &'static str,
    aggregates: &'static [&'static str],
) -> Definition {
    Definition { name, parameters, expression, aggregates }
}

static DEFINITIONS: [Definition; 68] = [
    scalar("add", &["a", "b"], "a + b"),
    scalar("ago", &["a"], "now() - a"),
    scalar("array_avg", &["a"], "list_aggregate(a, 'avg')"),
    scalar("array_product", &["a"], "list_aggregate(a, 'product')"),
    scalar("array_sum", &["a"], "list_aggregate(a, 'sum')"),
    scalar("constant_or_null", &["a", "b"], "CASE WHEN b IS NOT NULL THEN a END"),
    scalar("current_catalog", &[], "current_database()"),
    scalar("current_role", &[], "current_user()"),
    scalar("date_add", &["a", "b"], "a + b"),
    scalar("days_in_month", &["a"], "day(last_day(a))"),
    scalar("decode", &["a"], "CAST(a AS VARCHAR)"),
    scalar("divide", &["a", "b"], "a // b"),
    scalar("encode", &["a"], "CAST(a AS BLOB)"),
    scalar("fdiv", &["a", "b"], "floor(CAST(a AS DOUBLE) / CAST(b AS DOUBLE))"),
    scalar("fmod", &["a", "b"], "CAST(a AS DOUBLE) - CAST(b AS DOUBLE) * floor(CAST(a AS DOUBLE) / CAST(b AS DOUBLE))"),
    scalar("if", &["a", "b", "c"], "CASE WHEN a THEN b ELSE c END"),
    scalar("iif", &["a", "b", "c"], "CASE WHEN a THEN b ELSE c END"),
    scalar("list_approx_count_distinct", &["a"], "list_aggregate(a, 'approx_distinct')"),
    scalar("list_avg", &["a"], "list_aggregate(a, 'avg')"),
    scalar("list_bit_and", &["a"], "list_aggregate(a, 'bit_and')"),
    scalar("list_bit_or", &["a"], "list_aggregate(a, 'bit_or')"),
    scalar("list_bit_xor", &["a"], "list_aggregate(a, 'bit_xor')"),
    scalar("list_bool_and", &["a"], "list_aggregate(a, 'bool_and')"),
    scalar("list_bool_or", &["a"], "list_aggregate(a, 'bool_or')"),
    scalar("list_count", &["a"], "list_aggregate(a, 'count')"),
    scalar("list_entropy", &["a"], "list_aggregate(a, 'entropy')"),
    scalar("list_first", &["a"], "array_element(a, 1)"),
    scalar("list_histogram", &["a"], "list_aggregate(a, 'histogram')"),
    scalar("list_kurtosis", &["a"], "list_aggregate(a, 'kurtosis')"),
    scalar("list_last", &["a"], "array_element(a, -1)"),
    scalar("list_mad", &["a"], "list_aggregate(a, 'mad')"),
    scalar("list_max", &["a"], "list_aggregate(a, 'max')"),
    scalar("list_median", &["a"], "list_aggregate(a, 'median')"),
    scalar("list_min", &["a"], "list_aggregate(a, 'min')"),
    scalar("list_mode", &["a"], "list_aggregate(a, 'mode')"),
    scalar("list_product", &["a"], "list_aggregate(a, 'product')"),
    scalar("list_skewness", &["a"], "list_aggregate(a, 'skewness')"),
    scalar("list_stddev_pop", &["a"], "list_aggregate(a, 'stddev_pop')"),
    scalar("list_stddev_samp", &["a"], "list_aggregate(a, 'stddev_samp')"),
    scalar("list_string_agg", &["a"], "array_to_string(a, ',')"),
    scalar("generate_subscripts", &["a", "b"], "unnest(range(1, CASE WHEN b = 1 THEN len(a) + 1 ELSE 1 END))"),
    scalar("list_sem", &["a"], "list_aggregate(a, 'stddev_pop') / sqrt(list_aggregate(a, 'count'))"),
    scalar("list_kurtosis_pop", &["a"], "list_aggregate(a, 'kurtosis_pop')"),
    scalar("map_contains_entry", &["a", "b", "c"], "coalesce(freestone_map_value(a, b) = c, false)"),
    scalar("list_sum", &["a"], "list_aggregate(a, 'sum')"),
    scalar("list_var_pop", &["a"], "list_aggregate(a, 'var_pop')"),
    scalar("list_var_samp", &["a"], "list_aggregate(a, 'var_samp')"),
    scalar("mod", &["a", "b"], "a % b"),
    scalar("multiply", &["a", "b"], "a * b"),
    scalar("regexp_split_to_table", &["a", "b"], "unnest(string_split_regex(a, b))"),
    scalar("session_user", &[], "current_user()"),
    scalar("sha256", &["a"], "encode(sha256(a), 'hex')"),
    scalar("subtract", &["a", "b"], "a - b"),
    scalar("xor", &["a", "b"], "a # b"),
    aggregate("count_if", &["a"], "count(CASE WHEN a THEN 1 END)", &["count"]),
    aggregate("group_concat", &["a"], "string_agg(a, ',')", &["string_agg"]),
    aggregate("json_group_array", &["a"], "to_json(array_agg(a))", &["array_agg"]),
    aggregate(
        "json_group_object",
        &["a", "b"],
        "freestone_json_of_entries(array_agg(named_struct('k', a, 'v', b)))",
        &["array_agg"],
    ),
    aggregate(
        "json_group_structure",
        &["a"],
        "freestone_json_group_structure('[' || string_agg(CAST(a AS VARCHAR), ',') || ']')",
        &["string_agg"],
    ),
    aggregate("listagg", &["a"], "string_agg(a, ',')", &["string_agg"]),
    aggregate("max", &["a", "b"], "freestone_greatest(a, b)", &["freestone_greatest"]),
    aggregate("min", &["a", "b"], "freestone_least(a, b)", &["freestone_least"]),
    aggregate("sem", &["a"], "stddev_pop(a) / sqrt(count(a))", &["stddev_pop", "count"]),
    aggregate("string_agg", &["a"], "string_agg(a, ',')", &["string_agg"]),
    aggregate("geomean", &["a"], "exp(avg(ln(a)))", &["avg"]),
    aggregate("geometric_mean", &["a"], "exp(avg(ln(a)))", &["avg"]),
    aggregate(
        "wavg",
        &["a", "b"],
        "CAST(sum(a * b) AS DOUBLE) / nullif(sum(CASE WHEN a IS NOT NULL THEN b END), 0)",
        &["sum"],
    ),
    aggregate(
        "weighted_avg",
        &["a", "b"],
        "CAST(sum(a * b) AS DOUBLE) / nullif(sum(CASE WHEN a IS NOT NULL THEN b END), 0)",
        &["sum"],
    ),
];

/// The expressions of definitions, by name and number of parameters.
type Expressions = HashMap<(&'static str, usize), (&'static Definition, Expr)>;

static EXPRESSIONS: LazyLock<Expressions> = LazyLock::new(|| {
    let parsed = |definition: &'static Definition| {
        let mut parser = Parser::new(&SqlDialect).try_with_sql(definition.expression).ok()?;
        Some(((definition.name, definition.parameters.len()), (definition, parser.parse_expr().ok()?)))
    };
    DEFINITIONS.iter().filter_map(parsed).collect()
});

static NAMES: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| RENAMED.into_iter().collect());

/// The names of calls that are replaced and that are not functions of the session.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let special = ["alias", "struct_pack"];
    RENAMED.iter().map(|(name, _)| *name).chain(DEFINITIONS.iter().map(|definition| definition.name)).chain(special)
}

/// The numbers of arguments that a function of this module accepts; empty if it has no such function.
pub(crate) fn argument_counts(name: &str) -> Vec<usize> {
    if name == "alias" {
        return vec![1];
    }
    DEFINITIONS.iter().filter(|known| known.name == name).map(|known| known.parameters.len()).collect()
}

/// Replaces all such calls.
pub(crate) fn rewrite(sql: &mut impl VisitMut) {
    visitor::expressions_mut(sql, &mut rewrite_one);
}

fn rewrite_one(expr: &mut Expr) {
    match expr {
        Expr::Function(function) => {
            if let Some(name) = plain_name(&function.name) {
                match name.as_str() {
                    "approx_quantile" => match quantiles(function) {
                        Some(list) => *expr = list,
                        None => expand(expr, &name),
                    },
                    "alias" | "struct_pack" | "struct_insert" | "struct_update" | "date_part" | "datepart"
                    | "regexp_extract" | "make_interval" | "struct_extract" => match special(&name, function) {
                        Some(written) => *expr = written,
                        None => expand(expr, &name),
                    },
                    _ => expand(expr, &name),
                }
            }
        }
        Expr::Cast { kind, expr: inner, data_type: DataType::Struct(fields, _), .. } => {
            if let Some(named) = row_as_struct(kind, inner, fields) {
                *expr = named;
            }
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
            *expr = call(BITS_NOT, vec![taken(inner)]);
        }
        Expr::Cast { kind, expr: inner, data_type: DataType::JSON | DataType::JSONB, .. } => {
            let name = if *kind == CastKind::TryCast { AS_JSON_OR_NULL } else { AS_JSON };
            *expr = call(name, vec![taken(inner)]);
        }
        Expr::Cast { kind, expr: inner, data_type, .. } if is_blob(data_type) => {
            let name = if *kind == CastKind::TryCast { AS_BLOB_OR_NULL } else { AS_BLOB };
            *expr = call(name, vec![taken(inner)]);
        }
        Expr::TypedString(typed) if is_blob(&typed.data_type) => {
            *expr = call(AS_BLOB, vec![Expr::Value(typed.value.clone())]);
        }
        Expr::TypedString(typed) if matches!(typed.data_type, DataType::JSON | DataType::JSONB) => {
            *expr = call(AS_JSON, vec![Expr::Value(typed.value.clone())]);
        }
        _ => {}
    }
}

fn is_blob(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Binary(_) | Varbinary(_) | Blob(_) | Bytes(_) | Bytea)
}

fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

/// The lower-case name of a function without a schema and quotes.
fn plain_name(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().filter(|ident| ident.quote_style.is_none()).map(|ident| ident.value.to_lowercase()),
        _ => None,
    }
}

fn expand(expr: &mut Expr, name: &str) {
    let Expr::Function(function) = expr else { return };
    let name = match NAMES.get(name) {
        Some(other) => {
            function.name = ObjectName::from(vec![Ident::new(*other)]);
            // A definition is found by the written name.
            if argument_counts(name).is_empty() { other } else { name }
        }
        None => name,
    };
    let arguments = arguments(function);
    let count = arguments.as_ref().map(Vec::len);
    let found = count
        .and_then(|count| EXPRESSIONS.get(&(name, count)))
        .filter(|(definition, _)| !definition.aggregates.is_empty() || !has_clauses(function));
    let Some((definition, expression)) = found else { return };
    let mut written = expression.clone();
    let call = function.clone();
    visitor::expressions_mut(&mut written, &mut |part| match part {
        Expr::Identifier(ident) => {
            let at = definition.parameters.iter().position(|parameter| *parameter == ident.value);
            if let Some(argument) = at.and_then(|at| arguments.as_ref()?.get(at)) {
                *part = Expr::Nested(Box::new(argument.clone()));
            }
        }
        Expr::Function(inner)
            if plain_name(&inner.name).is_some_and(|name| definition.aggregates.contains(&name.as_str())) =>
        {
            take_clauses(inner, &call);
        }
        _ => {}
    });
    *expr = Expr::Nested(Box::new(written));
}

fn has_clauses(call: &Function) -> bool {
    let in_list = match &call.args {
        FunctionArguments::List(list) => list.duplicate_treatment.is_some() || !list.clauses.is_empty(),
        _ => false,
    };
    in_list || call.filter.is_some() || call.over.is_some() || call.null_treatment.is_some()
}

fn take_clauses(inner: &mut Function, call: &Function) {
    inner.filter = call.filter.clone();
    inner.over = call.over.clone();
    inner.null_treatment = call.null_treatment;
    if let (FunctionArguments::List(inner), FunctionArguments::List(outer)) = (&mut inner.args, &call.args) {
        inner.duplicate_treatment = outer.duplicate_treatment;
        inner.clauses = outer.clauses.clone();
    }
}

/// The arguments of a call, if they are plain expressions.
fn arguments(call: &Function) -> Option<Vec<Expr>> {
    match &call.args {
        FunctionArguments::None => Some(vec![]),
        FunctionArguments::List(list) => list.args.iter().map(argument).collect(),
        FunctionArguments::Subquery(_) => None,
    }
}

fn argument(argument: &FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e.clone()),
        _ => None,
    }
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

/// Calls whose arguments have a special syntax.
fn special(name: &str, function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    if has_clauses(function) {
        return None;
    }
    match name {
        "alias" => match list.args.as_slice() {
            [only] => Some(text(&last_name(&argument(only)?))),
            _ => None,
        },
        "struct_pack" => {
            let fields = list.args.iter().map(field).collect::<Option<Vec<_>>>()?;
            Some(call("named_struct", fields.into_iter().flatten().collect()))
        }
        "struct_insert" | "struct_update" => {
            let (first, fields) = list.args.split_first()?;
            let fields = fields.iter().map(field).collect::<Option<Vec<_>>>()?;
            Some(call(name, std::iter::once(argument(first)?).chain(fields.into_iter().flatten()).collect()))
        }
        "make_interval" => units_by_name(&list.args),
        "struct_extract" => match list.args.as_slice() {
            // By its place, from 1.
            [value, place] => match argument(place)? {
                Expr::Value(number) if matches!(number.value, Value::Number(..)) => {
                    Some(call("struct_extract_at", vec![argument(value)?, Expr::Value(number)]))
                }
                _ => None,
            },
            _ => None,
        },
        "regexp_extract" => groups(list.args.iter().map(argument).collect::<Option<Vec<_>>>()?),
        // `date_part(['year', 'month'], x)` becomes a struct with a field per part.
        _ => match list.args.as_slice() {
            [parts, time] => {
                let (Expr::Array(parts), time) = (argument(parts)?, argument(time)?) else { return None };
                let field = |part: Expr| [part.clone(), call("date_part", vec![part, time.clone()])];
                Some(call("named_struct", parts.elem.into_iter().flat_map(field).collect()))
            }
            _ => None,
        },
    }
}

/// A cast of `ROW(1, 'x')` to a struct, whose fields have the names of the type. Nothing for another value, or another
/// number of fields.
fn row_as_struct(kind: &CastKind, row: &Expr, fields: &[StructField]) -> Option<Expr> {
    let Expr::Function(function) = row else { return None };
    let values = arguments(function).filter(|values| values.len() == fields.len())?;
    if plain_name(&function.name)? != "row" || has_clauses(function) {
        return None;
    }
    let mut named = vec![];
    for (field, value) in fields.iter().zip(values) {
        named.push(text(&folded(field.field_name.as_ref()?)));
        named.push(Expr::Cast {
            kind: kind.clone(),
            expr: Box::new(value),
            data_type: field.field_type.clone(),
            array: false,
            format: None,
        });
    }
    Some(call("named_struct", named))
}

/// `approx_quantile(a, [0.1, 0.9])` becomes a list of the quantiles.
fn quantiles(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(parts)))] = list.args.as_slice() else {
        return None;
    };
    let quantile = |part: &Expr| {
        let mut one = function.clone();
        one.name = ObjectName::from(vec![Ident::new("approx_percentile_cont")]);
        if let FunctionArguments::List(list) = &mut one.args {
            list.args.truncate(1);
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(part.clone())));
        }
        Expr::Function(one)
    };
    Some(call("make_array", parts.elem.iter().map(quantile).collect()))
}

/// `make_interval(days => 3)` becomes a call with all units in their order; nothing where none has a name.
fn units_by_name(arguments: &[FunctionArg]) -> Option<Expr> {
    const UNITS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
    let mut units: [Option<Expr>; 7] = Default::default();
    let mut has_names = false;
    for (at, argument) in arguments.iter().enumerate() {
        let (at, value) = match argument {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                has_names = true;
                (UNITS.iter().position(|unit| name.value.eq_ignore_ascii_case(unit))?, value)
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if !has_names => (at, value),
            _ => return None,
        };
        // A unit that is given twice is an error of the function.
        if units.get_mut(at)?.replace(value.clone()).is_some() {
            return None;
        }
    }
    let zero = || Expr::value(Value::Number("0".to_owned(), false));
    has_names.then(|| call("make_interval", units.into_iter().map(|unit| unit.unwrap_or_else(zero)).collect()))
}

/// `regexp_extract(text, pattern, ['a', 'b'])` becomes a struct with a field per group.
fn groups(mut arguments: Vec<Expr>) -> Option<Expr> {
    let Some(Expr::Array(names)) = arguments.get(2).cloned() else { return None };
    let mut fields = vec![];
    for (at, name) in names.elem.into_iter().enumerate() {
        arguments[2] = Expr::value(Value::Number((at + 1).to_string(), false));
        fields.extend([name, call("regexp_extract", arguments.clone())]);
    }
    Some(call("named_struct", fields))
}

/// Converts `a := 1` to the arguments `'a', 1`. A column without `:=` keeps its name.
fn field(argument: &FunctionArg) -> Option<[Expr; 2]> {
    match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => Some([text(&name.value), value.clone()]),
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
            Some([text(&name.value), value.clone()])
        }
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)))) => {
            Some([text(&last_name(value)), value.clone()])
        }
        _ => None,
    }
}

/// The name of a column, or the text of another expression.
fn last_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map(|ident| ident.value.clone()).unwrap_or_default(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_put_in_other_words() {
        for (sql, expected) in [
            ("SELECT if(a > 1, b, 2)", "SELECT (CASE WHEN (a > 1) THEN (b) ELSE (2) END)"),
            ("SELECT geomean(a) FILTER (WHERE b)", "SELECT (exp(avg(ln((a))) FILTER (WHERE b)))"),
            ("SELECT list(DISTINCT a ORDER BY a)", "SELECT array_agg(DISTINCT a ORDER BY a)"),
            ("SELECT struct_pack(a := 1, t.b)", "SELECT named_struct('a', 1, 'b', t.b)"),
            ("SELECT date_part(['year'], d)", "SELECT named_struct('year', date_part('year', d))"),
            ("SELECT add(add(1, 2), 3)", "SELECT ((((1) + (2))) + (3))"),
            ("SELECT \"if\"(1, 2, 3)", "SELECT \"if\"(1, 2, 3)"),
            ("SELECT count_if(a, b)", "SELECT count_if(a, b)"),
        ] {
            let mut statements = Parser::parse_sql(&SqlDialect, sql).expect(sql);
            rewrite(&mut statements);
            assert_eq!(statements[0].to_string(), expected);
        }
    }

    #[test]
    fn definitions_are_expressions() {
        assert_eq!(EXPRESSIONS.len(), DEFINITIONS.len());
    }
}
