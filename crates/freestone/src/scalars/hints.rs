//! Suggestions for a function that does not exist.

use datafusion::execution::session_state::SessionState;

use crate::error::{Error, ErrorKind};
use crate::sql::function_macros;

/// Function names of other systems, and their equivalents.
const SYNONYMS: [(&str, &str); 67] = [
    ("add_months", "date + INTERVAL '1 month'"),
    ("any", "any_value(x)"),
    ("array_size", "len(list)"),
    ("arrayjoin", "unnest(list)"),
    ("arraysize", "len(list)"),
    ("bitand", "x & y"),
    ("char", "chr(code)"),
    ("charindex", "position('part' IN text)"),
    ("collect_list", "list(x)"),
    ("collect_set", "list(DISTINCT x)"),
    ("convert", "CAST(x AS type)"),
    ("count_distinct", "count(DISTINCT x)"),
    ("countdistinct", "count(DISTINCT x)"),
    ("curdate", "current_date"),
    ("curtime", "current_time"),
    ("date_from_parts", "make_date(year, month, day)"),
    ("dateadd", "date + INTERVAL '1 day'"),
    ("datefromparts", "make_date(year, month, day)"),
    ("datename", "dayname(date) or monthname(date)"),
    ("explode", "unnest(list)"),
    ("format_date", "strftime(date, '%Y-%m-%d')"),
    ("format_timestamp", "strftime(timestamp, '%Y-%m-%d %H:%M:%S')"),
    ("formatdatetime", "strftime(timestamp, '%Y-%m-%d')"),
    ("getdate", "now()"),
    ("getutcdate", "now()"),
    ("group_array", "list(x)"),
    ("groupuniqarray", "list(DISTINCT x)"),
    ("isnull", "x IS NULL, or coalesce(x, y)"),
    ("last_insert_id", "INSERT … RETURNING id"),
    ("listagg_distinct", "string_agg(DISTINCT x, ',')"),
    ("locate", "position('part' IN text)"),
    ("mid", "substring(text, start, length)"),
    ("months_between", "date_diff('month', from, to)"),
    ("newid", "uuid()"),
    ("newuuid", "uuid()"),
    ("object_construct", "{'key': value}"),
    ("object_keys", "json_keys(json)"),
    ("parse_date", "strptime(text, '%Y-%m-%d')"),
    ("parse_json", "text::JSON"),
    ("parse_timestamp", "strptime(text, '%Y-%m-%d %H:%M:%S')"),
    ("patindex", "regexp_matches(text, pattern)"),
    ("percentile", "quantile_cont(x, 0.5)"),
    ("regexp_substr", "regexp_extract(text, pattern)"),
    ("replicate", "repeat(text, count)"),
    ("rlike", "regexp_matches(text, pattern)"),
    ("safe_cast", "TRY_CAST(x AS type)"),
    ("sha2", "sha256(text)"),
    ("size", "len(list)"),
    ("space", "repeat(' ', count)"),
    ("squareroot", "sqrt(x)"),
    ("std", "stddev(x)"),
    ("stdev", "stddev(x)"),
    ("str_to_date", "strptime(text, '%Y-%m-%d')"),
    ("stuff", "overlay(text PLACING new FROM start FOR count)"),
    ("sysdate", "now()"),
    ("sysdatetime", "now()"),
    ("timestamp_diff", "date_diff('day', from, to)"),
    ("timestampdiff", "date_diff('day', from, to)"),
    ("to_number", "CAST(text AS DECIMAL(18, 3))"),
    ("to_varchar", "CAST(x AS VARCHAR)"),
    ("todate", "CAST(x AS DATE)"),
    ("tostring", "x::VARCHAR"),
    ("try_to_number", "TRY_CAST(text AS DOUBLE)"),
    ("uniq", "approx_count_distinct(x)"),
    ("uniqexact", "count(DISTINCT x)"),
    ("unix_timestamp", "epoch(timestamp)"),
    ("zeroifnull", "coalesce(x, 0)"),
];

/// The error for a name that is not a function of the session: with the equivalent, a similar name, or no hint.
pub(crate) fn missing(name: &str, state: &SessionState) -> Error {
    if let Some((_, instead)) = SYNONYMS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)) {
        let error = Error::new(ErrorKind::NotFound, format!("no function {name}"));
        return error.with_hint(format!("write {instead}"));
    }
    let counts = function_macros::argument_counts(&name.to_lowercase());
    if !counts.is_empty() {
        let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
        let message = format!("{name} takes {} arguments, and no clauses of aggregates", counts.join(" or "));
        return Error::new(ErrorKind::Type, message);
    }
    if state.window_functions().contains_key(&name.to_lowercase()) {
        return Error::invalid(format!("{name} is a window function")).with_hint(format!("write {name}(…) OVER (…)"));
    }
    let mut all: Vec<&str> = function_macros::names().collect();
    all.extend(state.scalar_functions().keys().map(String::as_str));
    all.extend(state.aggregate_functions().keys().map(String::as_str));
    all.extend(state.window_functions().keys().map(String::as_str));
    Error::not_found("function", name, all.into_iter().filter(|name| !name.starts_with("freestone")))
}
