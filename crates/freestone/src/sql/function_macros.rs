//! Functions that are defined by expressions, and aliases of functions. Their calls are replaced in parsed SQL. So
//! `add(a, b)` has the types, errors and pruning of `a + b`.

/// The functions by which casts to JSON and BLOB and the operator `~` are computed.
pub(crate) const AS_JSON: &str = "freestone_json";
pub(crate) const AS_JSON_OR_NULL: &str = "freestone_json_or_null";
/// A text as JSON that is nested in other JSON.
pub(crate) const JSON_PART: &str = "freestone_json_part";
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
pub(crate) const RENAMED: [(&str, &str); 62] = [
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
    ("array_cosine_distance", "cosine_distance"),
    ("list_cosine_distance", "cosine_distance"),
    ("array_where", "list_where"),
    ("array_zip", "list_zip"),
    ("array_select", "list_select"),
    ("get_current_time", "current_time"),
    ("unpivot_list", "make_array"),
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

static DEFINITIONS: [Definition; 102] = [
    scalar("add", &["a", "b"], "a + b"),
    scalar("ago", &["a"], "now() - a"),
    scalar("array_avg", &["a"], "list_aggregate(a, 'avg')"),
    scalar("array_product", &["a"], "list_aggregate(a, 'product')"),
    scalar("array_sum", &["a"], "list_aggregate(a, 'sum')"),
    scalar("assert_true", &["a"], "CASE WHEN a THEN NULL ELSE error('assertion failed') END"),
    scalar("assert_true", &["a", "b"], "CASE WHEN a THEN NULL ELSE error(coalesce(b, 'assertion failed')) END"),
    scalar("array_push_front", &["a", "b"], "list_prepend(b, a)"),
    scalar("constant_or_null", &["a", "b"], "CASE WHEN b IS NOT NULL THEN a END"),
    scalar("constant_or_null", &["a", "b", "c"], "CASE WHEN b IS NOT NULL AND c IS NOT NULL THEN a END"),
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
    scalar("list_string_agg", &["a"], "list_aggregate(a, 'string_agg')"),
    scalar("generate_subscripts", &["a", "b"], "unnest(range(1, CASE WHEN b = 1 THEN len(a) + 1 ELSE 1 END))"),
    scalar("list_sem", &["a"], "list_aggregate(a, 'stddev_pop') / sqrt(list_aggregate(a, 'count'))"),
    scalar("list_kurtosis_pop", &["a"], "list_aggregate(a, 'kurtosis_pop')"),
    scalar("map_contains_entry", &["a", "b", "c"], "coalesce(freestone_map_value(a, b) = c, false)"),
    scalar("list_sum", &["a"], "list_aggregate(a, 'sum')"),
    scalar("list_var_pop", &["a"], "list_aggregate(a, 'var_pop')"),
    scalar("list_var_samp", &["a"], "list_aggregate(a, 'var_samp')"),
    scalar("mod", &["a", "b"], "a % b"),
    scalar("switch", &["a", "b"], "freestone_map_value(b, a)"),
    scalar("switch", &["a", "b", "c"], "CASE WHEN map_contains(b, a) THEN freestone_map_value(b, a) ELSE c END"),
    scalar("multiply", &["a", "b"], "a * b"),
    scalar("regexp_split_to_table", &["a", "b"], "unnest(string_split_regex(a, b))"),
    scalar("session_user", &[], "current_user()"),
    scalar("sha256", &["a"], "encode(sha256(a), 'hex')"),
    scalar("subtract", &["a", "b"], "a - b"),
    scalar("xor", &["a", "b"], "a # b"),
    scalar("to_jsonb", &["a"], "CAST(to_json(a) AS JSONB)"),
    scalar("json_array_elements", &["a"], "CAST(unnest(freestone_json_items(a)) AS JSON)"),
    scalar("json_array_elements_text", &["a"], "unnest(freestone_json_item_texts(a))"),
    scalar("json_object_keys", &["a"], "unnest(freestone_json_keys(a))"),
    scalar("jsonb_array_elements", &["a"], "CAST(unnest(freestone_jsonb_items(a)) AS JSONB)"),
    scalar("jsonb_array_elements_text", &["a"], "unnest(freestone_jsonb_item_texts(a))"),
    scalar("jsonb_object_keys", &["a"], "unnest(freestone_jsonb_keys(a))"),
    // DuckDB takes one path, PostgreSQL any number of keys.
    scalar("json_extract_path", &["a", "b", "c"], "freestone_json_at(a, b, c)"),
    scalar("json_extract_path", &["a", "b", "c", "d"], "freestone_json_at(a, b, c, d)"),
    scalar("json_extract_path", &["a", "b", "c", "d", "e"], "freestone_json_at(a, b, c, d, e)"),
    scalar("json_extract_path_text", &["a", "b", "c"], "freestone_json_text_at(a, b, c)"),
    scalar("json_extract_path_text", &["a", "b", "c", "d"], "freestone_json_text_at(a, b, c, d)"),
    scalar("json_extract_path_text", &["a", "b", "c", "d", "e"], "freestone_json_text_at(a, b, c, d, e)"),
    aggregate("arg_max_null", &["a", "b"], "get_field(arg_max(named_struct('v', a), b), 'v')", &["arg_max"]),
    aggregate("arg_min_null", &["a", "b"], "get_field(arg_min(named_struct('v', a), b), 'v')", &["arg_min"]),
    aggregate("arg_max_nulls_last", &["a", "b"], "first_value(a ORDER BY b DESC NULLS LAST)", &["first_value"]),
    aggregate("arg_min_nulls_last", &["a", "b"], "first_value(a ORDER BY b NULLS LAST)", &["first_value"]),
    aggregate(
        "arg_max_nulls_last",
        &["a", "b", "c"],
        "array_slice(array_agg(a ORDER BY b DESC NULLS LAST), 1, c)",
        &["array_agg"],
    ),
    aggregate(
        "arg_min_nulls_last",
        &["a", "b", "c"],
        "array_slice(array_agg(a ORDER BY b NULLS LAST), 1, c)",
        &["array_agg"],
    ),
    aggregate("reservoir_quantile", &["a", "b"], "quantile_disc(a, b)", &["quantile_disc"]),
    // Of all rows instead of a sample of `c` of them.
    aggregate("reservoir_quantile", &["a", "b", "c"], "quantile_disc(a, b)", &["quantile_disc"]),
    aggregate("count_if", &["a"], "count(CASE WHEN a THEN 1 END)", &["count"]),
    aggregate("group_concat", &["a"], "string_agg(a, ',')", &["string_agg"]),
    aggregate("json_group_array", &["a"], "to_json(array_agg(a))", &["array_agg"]),
    aggregate(
        "json_group_object",
        &["a", "b"],
        "freestone_json_of_entries(array_agg(named_struct('k', a, 'v', b)))",
        &["array_agg"],
    ),
    aggregate("json_agg", &["a"], "to_json(array_agg(a))", &["array_agg"]),
    aggregate("jsonb_agg", &["a"], "CAST(to_json(array_agg(a)) AS JSONB)", &["array_agg"]),
    aggregate(
        "json_object_agg",
        &["a", "b"],
        "freestone_json_of_entries(array_agg(named_struct('k', a, 'v', b)))",
        &["array_agg"],
    ),
    aggregate(
        "jsonb_object_agg",
        &["a", "b"],
        "CAST(freestone_json_of_entries(array_agg(named_struct('k', a, 'v', b))) AS JSONB)",
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
    aggregate("bitstring_agg", &["a", "b", "c"], "CAST(bitstring_agg(a, b, c) AS VARBIT)", &["bitstring_agg"]),
    aggregate(
        "histogram",
        &["a", "b"],
        "freestone_binned(histogram(a), any_value(b), false)",
        &["histogram", "any_value"],
    ),
    aggregate(
        "histogram_exact",
        &["a", "b"],
        "freestone_binned(histogram(a), any_value(b), true)",
        &["histogram", "any_value"],
    ),
    aggregate("geomean", &["a"], "exp(avg(ln(a)))", &["avg"]),
    aggregate("geometric_mean", &["a"], "exp(avg(ln(a)))", &["avg"]),
    aggregate(
        "wavg",
        &["a", "b"],
        "CAST(sum(a * b) AS DOUBLE) / CAST(sum(CASE WHEN a IS NOT NULL THEN b END) AS DOUBLE)",
        &["sum"],
    ),
    aggregate(
        "weighted_avg",
        &["a", "b"],
        "CAST(sum(a * b) AS DOUBLE) / CAST(sum(CASE WHEN a IS NOT NULL THEN b END) AS DOUBLE)",
        &["sum"],
    ),
];

/// The names of calls that are replaced and that are not functions of the session.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let special = ["alias", "invoke", "struct_pack"];
    RENAMED.iter().map(|(name, _)| *name).chain(DEFINITIONS.iter().map(|definition| definition.name)).chain(special)
}

/// The numbers of arguments that a function of this module accepts; empty if it has no such function.
pub(crate) fn argument_counts(name: &str) -> Vec<usize> {
    if name == "alias" {
        return vec![1];
    }
    DEFINITIONS.iter().filter(|known| known.name == name).map(|known| known.parameters.len()).collect()
}
