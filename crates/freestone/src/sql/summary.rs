//! `SUMMARIZE`: a query for statistics of each column of another query, which reads it once.

use datafusion::arrow::datatypes::Schema;
use freestone_binder::SUMMARIZED;
use freestone_sql::tree;

use super::statement::{literal, quote};
use crate::error::{Error, ErrorKind, Result};
use crate::type_names::type_name;

/// The name of the aggregates of the summarized rows, one row.
const TOTALS: &str = "freestone$totals";

/// The query for the statistics of the rows called [`SUMMARIZED`], which have these columns.
///
/// # Errors
/// The query has no columns.
pub(crate) fn of(schema: &Schema) -> Result<tree::Query> {
    if schema.fields().is_empty() {
        return Err(Error::invalid("SUMMARIZE needs a table or query with columns"));
    }
    let mut totals = vec!["count(*) AS rows".to_owned()];
    let mut lines = vec![];
    for (at, field) in schema.fields().iter().enumerate() {
        let column = column_of(at);
        let (is_number, is_nested) = (field.data_type().is_numeric(), field.data_type().is_nested());
        let mut total = |name: &str, expression: Option<String>| match expression {
            Some(expression) => {
                totals.push(format!("{expression} AS {name}{at}"));
                format!("CAST({name}{at} AS VARCHAR)")
            }
            None => "CAST(NULL AS VARCHAR)".to_owned(),
        };
        let of_scalar = |function: &str| (!is_nested).then(|| format!("{function}({column})"));
        let of_number = |function: &str| is_number.then(|| format!("{function}({column})"));
        let quantile = |part: &str| is_number.then(|| format!("approx_percentile_cont({column}, {part})"));
        let fields = [
            ("column_name", literal(field.name())),
            ("column_type", literal(&type_name(field.data_type()))),
            ("min", total("min", of_scalar("min"))),
            ("max", total("max", of_scalar("max"))),
            (
                "approx_unique",
                format!(
                    "CAST({} AS BIGINT)",
                    total("unique", (!is_nested).then(|| format!("approx_distinct(CAST({column} AS VARCHAR))")))
                ),
            ),
            ("avg", total("avg", of_number("avg"))),
            ("std", total("std", of_number("stddev"))),
            ("q25", total("q25_", quantile("0.25"))),
            ("q50", total("q50_", quantile("0.5"))),
            ("q75", total("q75_", quantile("0.75"))),
            ("count", "rows".to_owned()),
            (
                "null_percentage",
                format!(
                    "CAST(CASE WHEN rows = 0 THEN 0 ELSE 100.0 * (rows - CAST({} AS BIGINT)) / rows END AS DECIMAL(9, 2))",
                    total("values", Some(format!("count({column})")))
                ),
            ),
        ];
        let fields = fields.map(|(name, value)| format!("'{name}': {value}"));
        lines.push(format!("{{{}}}", fields.join(", ")));
    }
    let text = format!(
        "WITH {all} AS (SELECT {totals} FROM {SUMMARIZED} AS s ({given})) \
         SELECT unnest([{lines}], recursive := true) FROM {all}",
        // Names may repeat in the query.
        given = (0..schema.fields().len()).map(column_of).collect::<Vec<_>>().join(", "),
        all = quote(TOTALS),
        totals = totals.join(", "),
        lines = lines.join(", "),
    );
    match freestone_sql::parse_statement(&text).map(|statement| statement.kind) {
        Ok(tree::StatementKind::Query(query)) => Ok(*query),
        _ => Err(Error::new(ErrorKind::Internal, "internal error: a summary is no query")),
    }
}

/// The name of a column of the summarized query.
fn column_of(at: usize) -> String {
    format!("c{at}")
}
