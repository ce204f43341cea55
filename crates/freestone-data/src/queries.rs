//! The SQL of TPC-H and of the Star Schema Benchmark: the queries with the specifications' parameters, and the schemas
//! with their keys.
//!
//! Both DuckDB and DataFusion accept the text, so that answers can be compared query by query. TPC-H's Q11 uses the
//! fraction of scale factor 1 at every scale, and Q15 is the specification's WITH variant.

/// The `CREATE TABLE` statements of the eight tables, with primary and foreign keys and without designs.
pub const TPCH_SCHEMA: &str = include_str!("../queries/tpch/schema.sql");

/// The `CREATE TABLE` statements of the Star Schema Benchmark's five tables, with keys and without designs.
pub const SSB_SCHEMA: &str = include_str!("../queries/ssb/schema.sql");

macro_rules! queries {
    ($folder:literal: $($name:literal),*) => {
        [$(($name, include_str!(concat!("../queries/", $folder, "/", $name, ".sql")))),*]
    };
}

/// The 22 queries in order, each as (`"q01"` … `"q22"`, one SQL statement).
pub fn tpch_queries() -> [(&'static str, &'static str); 22] {
    queries!(
        "tpch": "q01", "q02", "q03", "q04", "q05", "q06", "q07", "q08", "q09", "q10", "q11", "q12", "q13", "q14", "q15",
        "q16", "q17", "q18", "q19", "q20", "q21", "q22"
    )
}

/// The 13 queries of the Star Schema Benchmark in order, each as (`"q1.1"` … `"q4.3"`, one SQL statement).
pub fn ssb_queries() -> [(&'static str, &'static str); 13] {
    queries!(
        "ssb": "q1.1", "q1.2", "q1.3", "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1", "q4.2", "q4.3"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssb;
    use arrow::datatypes::SchemaRef;

    #[test]
    fn each_query_is_one_statement_under_its_own_number() {
        for (index, (name, _)) in tpch_queries().iter().enumerate() {
            assert_eq!(*name, format!("q{:02}", index + 1));
        }
        let tpch =
            tpch_queries().map(|(name, sql)| (name, sql, format!("-- TPC-H Q{}: ", name[1..].trim_start_matches('0'))));
        let ssb = ssb_queries().map(|(name, sql)| (name, sql, format!("-- SSB Q{}: ", &name[1..])));
        for (name, sql, title) in tpch.iter().chain(&ssb) {
            assert!(sql.starts_with(title), "{name} starts with another title");
            assert_eq!(sql.matches(';').count(), 1, "{name} is not one statement");
            assert!(sql.trim_end().ends_with(';'), "{name} does not end with its statement");
        }
    }

    #[test]
    fn the_schemas_name_the_columns_of_the_generators_in_order() {
        let check = |script: &str, name: &str, schema: Option<SchemaRef>| {
            let start = format!("CREATE TABLE {name} (\n");
            let body = script.split(&start).nth(1).expect("every table is in the schema");
            let columns: Vec<&str> =
                body.lines().map_while(|line| line.trim().split_once(' ')).map(|(word, _)| word).collect();
            let schema = schema.expect("every table has a schema");
            let expected: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            assert_eq!(columns[..expected.len()], expected[..], "{name}");
            assert!(columns[expected.len()..].iter().all(|word| matches!(*word, "PRIMARY" | "FOREIGN")), "{name}");
        };
        for name in crate::tables() {
            check(TPCH_SCHEMA, name, crate::tpch_schema(name));
        }
        for name in ssb::tables() {
            check(SSB_SCHEMA, name, ssb::schema(name));
        }
    }
}
