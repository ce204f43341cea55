//! SQL of TPC-H: the 22 queries with the specification's validation parameters, and the schema with its keys.
//!
//! The text stays inside what DuckDB and DataFusion both accept, so that answers can be compared query by query. Q11
//! keeps the fraction of scale factor 1 at every scale; Q15 is the specification's WITH variant.

/// The `CREATE TABLE` statements of the eight tables, with primary and foreign keys and no design.
pub const TPCH_SCHEMA: &str = include_str!("../queries/tpch/schema.sql");

macro_rules! queries {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("../queries/tpch/", $name, ".sql")))),*]
    };
}

/// The 22 queries in order, each as (`"q01"` … `"q22"`, one SQL statement).
pub fn tpch_queries() -> [(&'static str, &'static str); 22] {
    queries!(
        "q01", "q02", "q03", "q04", "q05", "q06", "q07", "q08", "q09", "q10", "q11", "q12", "q13", "q14", "q15", "q16",
        "q17", "q18", "q19", "q20", "q21", "q22"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_is_one_statement_under_its_own_number() {
        for (index, (name, sql)) in tpch_queries().into_iter().enumerate() {
            assert_eq!(name, format!("q{:02}", index + 1));
            assert!(sql.starts_with(&format!("-- TPC-H Q{}: ", index + 1)), "{name} starts with another title");
            assert_eq!(sql.matches(';').count(), 1, "{name} is not one statement");
            assert!(sql.trim_end().ends_with(';'), "{name} does not end with its statement");
        }
    }

    #[test]
    fn the_schema_names_the_columns_of_the_generator_in_order() {
        for name in crate::generate::tables() {
            let start = format!("CREATE TABLE {name} (\n");
            let body = TPCH_SCHEMA.split(&start).nth(1).expect("every table is in the schema");
            let columns: Vec<&str> =
                body.lines().map_while(|line| line.trim().split_once(' ')).map(|(word, _)| word).collect();
            let schema = crate::generate::tpch_schema(name).expect("every table has a schema");
            let expected: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            assert_eq!(columns[..expected.len()], expected[..], "{name}");
            assert!(columns[expected.len()..].iter().all(|word| matches!(*word, "PRIMARY" | "FOREIGN")), "{name}");
        }
    }
}
