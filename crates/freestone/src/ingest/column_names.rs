//! Names of columns: from headers, distinct, and as identifiers.

use std::collections::HashMap;

use arrow::datatypes::Schema;
use unicode_normalization::UnicodeNormalization;

use crate::distinct_names::different_names;

/// Distinct names for the columns of a file. `normalizes`: names of the header become identifiers.
pub(super) fn column_names(first: &[Option<String>], header: bool, normalizes: bool) -> Vec<String> {
    // As in DuckDB, with as many digits as the last one has: `column00` to `column11`.
    let digits = first.len().saturating_sub(1).to_string().len();
    let given = |(index, name): (usize, &Option<String>)| {
        let given = name.as_deref().map(str::trim).filter(|name| header && !name.is_empty());
        match given {
            Some(name) if normalizes => identifier(name),
            Some(name) => name.to_string(),
            None => format!("column{index:0digits$}"),
        }
    };
    different_names(first.iter().enumerate().map(given))
}

/// The index of a column: by exact name, or otherwise the only one that differs in case.
pub(super) fn column_index(schema: &Schema, name: &str) -> Option<usize> {
    let name = name.trim();
    schema.fields().iter().position(|field| field.name() == name).or_else(|| {
        let mut found =
            (0..schema.fields().len()).filter(|index| schema.field(*index).name().eq_ignore_ascii_case(name));
        found.next().filter(|_| found.next().is_none())
    })
}

/// The field from which each column is read, by the names of the header. `None` if no name is known and their number is
/// that of the columns, which are then matched by position.
pub(super) fn match_names(names: &[String], schema: &Schema) -> Result<Option<Vec<Option<usize>>>, String> {
    // Most names are exact, and there may be thousands.
    let fields = schema.fields().iter().enumerate();
    let exact: HashMap<&str, usize> = fields.map(|(at, field)| (field.name().as_str(), at)).collect();
    let index = |name: &String| exact.get(name.trim()).copied().or_else(|| column_index(schema, name));
    let found: Vec<Option<usize>> = names.iter().map(index).collect();
    let columns = || schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
    if found.iter().all(Option::is_none) && names.len() == schema.fields().len() {
        return Ok(None);
    }
    let mut sources = vec![None; schema.fields().len()];
    for (index, (name, column)) in names.iter().zip(found).enumerate() {
        let Some(column) = column else {
            return Err(format!("the header names '{name}', which is no column of the table ({})", columns()));
        };
        if sources[column].replace(index).is_some() {
            return Err(format!("the header names column '{name}' twice"));
        }
    }
    match (0..sources.len()).find(|column| sources[*column].is_none() && !schema.field(*column).is_nullable()) {
        Some(column) => Err(format!("the header lacks column '{}', which is NOT NULL", schema.field(column).name())),
        None => Ok(Some(sources)),
    }
}

/// A name that needs no quotes, as DuckDB's `normalize_names` makes it: lower-case ASCII letters without accents, digits
/// and `_`, which blanks become. A name that begins with a digit, or is a keyword, begins with `_`.
pub(super) fn identifier(name: &str) -> String {
    let plain = name.nfkd().filter_map(|c| match c {
        '_' => Some('_'),
        c if c.is_ascii_alphanumeric() => Some(c.to_ascii_lowercase()),
        c if c.is_ascii_whitespace() => Some(' '),
        _ => None,
    });
    let plain: String = plain.collect();
    let plain = plain.split_ascii_whitespace().collect::<Vec<_>>().join("_");
    let needs_more = plain.is_empty() || plain.starts_with(|c: char| c.is_ascii_digit());
    if needs_more || KEYWORDS.binary_search(&plain.as_str()).is_ok() { format!("_{plain}") } else { plain }
}

/// DuckDB's keywords.
#[rustfmt::skip]
const KEYWORDS: [&str; 453] = [
    "abort", "absolute", "access", "action", "add", "admin", "after", "aggregate", "all", "also", "alter", "always",
    "analyse", "analyze", "and", "anti", "any", "approx", "array", "as", "asc", "asof", "assertion", "assignment",
    "asymmetric", "at", "attach", "attribute", "authorization", "backward", "before", "begin", "binary", "both",
    "by", "cache", "call", "called", "cascade", "cascaded", "case", "cast", "catalog", "centuries", "century",
    "chain", "characteristics", "check", "checkpoint", "class", "close", "cluster", "collate", "collation", "column",
    "columns", "comment", "comments", "commit", "committed", "compression", "concurrently", "configuration",
    "conflict", "connect", "connection", "constraint", "constraints", "content", "continue", "conversion", "copy",
    "cost", "create", "cross", "csv", "cube", "current", "cursor", "cycle", "data", "database", "day", "days",
    "deallocate", "decade", "decades", "declare", "default", "defaults", "deferrable", "deferred", "definer",
    "delete", "delimiter", "delimiters", "depends", "desc", "describe", "destroy", "detach", "dictionary", "disable",
    "discard", "disconnect", "distance", "distinct", "do", "document", "domain", "double", "drop", "each", "else",
    "enable", "encoding", "encrypted", "end", "enum", "error", "escape", "event", "exact", "except", "exclude",
    "excluding", "exclusive", "execute", "explain", "export", "export_state", "extension", "extensions", "external",
    "false", "family", "fetch", "filter", "first", "following", "for", "force", "foreign", "forward", "freeze",
    "from", "full", "function", "functions", "generated", "glob", "global", "grant", "granted", "group", "groups",
    "handler", "having", "header", "hold", "hour", "hours", "identity", "if", "ignore", "ilike", "immediate",
    "immutable", "implicit", "import", "in", "include", "including", "increment", "index", "indexes", "inherit",
    "inherits", "initially", "inline", "inner", "input", "insensitive", "insert", "install", "instead", "intersect",
    "into", "invoker", "is", "isnull", "isolation", "join", "json", "key", "label", "lambda", "language", "large",
    "last", "lateral", "leading", "leakproof", "left", "level", "like", "limit", "listen", "load", "local",
    "location", "lock", "locked", "logged", "macro", "map", "mapping", "match", "matched", "materialized",
    "maxvalue", "merge", "method", "microsecond", "microseconds", "millennia", "millennium", "millisecond",
    "milliseconds", "minute", "minutes", "minvalue", "mode", "month", "months", "move", "name", "names", "natural",
    "nearest", "new", "next", "no", "not", "nothing", "notify", "notnull", "nowait", "null", "nulls", "object", "of",
    "off", "offset", "oids", "old", "on", "only", "operator", "option", "options", "or", "order", "ordinality",
    "others", "outer", "over", "overlaps", "overriding", "owned", "owner", "parallel", "parser", "partial",
    "partition", "partitioned", "passing", "password", "percent", "persistent", "pivot", "pivot_longer",
    "pivot_wider", "placing", "plans", "policy", "positional", "pragma", "preceding", "prepare", "prepared",
    "preserve", "primary", "prior", "privileges", "procedural", "procedure", "program", "publication", "qualify",
    "quarter", "quarters", "quote", "range", "read", "reassign", "recheck", "recursive", "ref", "references",
    "referencing", "refresh", "register", "reindex", "relative", "release", "rename", "repeatable", "replace",
    "replica", "reset", "resource", "resources", "respect", "restart", "restrict", "returning", "returns", "revoke",
    "right", "role", "rollback", "rollup", "rows", "rule", "sample", "savepoint", "schema", "schemas", "scope",
    "scroll", "search", "second", "seconds", "secret", "secure", "security", "select", "semi", "sequence",
    "sequences", "serializable", "server", "session", "set", "sets", "share", "show", "similar", "similarity",
    "simple", "skip", "snapshot", "some", "sorted", "source", "sql", "stable", "standalone", "start", "statement",
    "statistics", "stdin", "stdout", "storage", "stored", "strict", "strip", "struct", "subscription", "summarize",
    "symmetric", "sysid", "system", "table", "tables", "tablesample", "tablespace", "target", "temp", "template",
    "temporary", "text", "then", "ties", "to", "trailing", "transaction", "transform", "trigger", "true", "truncate",
    "trusted", "try_cast", "tuple", "type", "types", "unbounded", "uncommitted", "unencrypted", "union", "unique",
    "unknown", "unlisten", "unlogged", "unpack", "unpivot", "until", "update", "use", "user", "using", "vacuum",
    "valid", "validate", "validator", "value", "variable", "variadic", "varying", "verbose", "version", "view",
    "views", "virtual", "volatile", "week", "weeks", "when", "where", "whitespace", "window", "with", "within",
    "without", "work", "wrapper", "write", "xml", "year", "years", "yes", "zone",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, expected) in [
            ("Order ID", "order_id"),
            ("Über Größe", "uber_groe"),
            ("2nd", "_2nd"),
            ("select", "_select"),
            ("a-b", "ab"),
            ("x__y", "x__y"),
            ("_z", "_z"),
            ("a \t b", "a_b"),
            ("%", "_"),
            ("ﬁn", "fin"),
        ] {
            assert_eq!(identifier(name), expected, "{name}");
        }
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn equal_names_are_numbered() {
        let names = |given: &[&str]| different_names(given.iter().map(|name| name.to_string()));
        assert_eq!(names(&["a", "a", "a_1", "b", "a"]), ["a", "a_2", "a_1", "b", "a_3"]);
        let header = [Some("A b".to_string()), None, Some("a B".to_string())];
        assert_eq!(column_names(&header, true, true), ["a_b", "column1", "a_b_1"]);
        assert_eq!(column_names(&header, false, true), ["column0", "column1", "column2"]);
    }
}
