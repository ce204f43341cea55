//! Names of columns: those of unnamed columns, and several columns with the same name.
//!
//! SQL allows `SELECT 1, 1` and `SELECT a, a`, also in subqueries. DataFusion requires different names. So repeated
//! names are changed while the query is planned, and changed back in the schema of the result.

mod casts;
mod cte_names;
mod headings;
mod result_columns;
mod subquery_columns;

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::Ident;
use futures::StreamExt;

pub(crate) use casts::function as as_written;
pub(crate) use cte_names::rename_shadowing;
pub(crate) use headings::{give, take_back};
pub(crate) use subquery_columns::{Columns, Factored, Known, asks_for_columns, call_text, resolve};

use crate::error::{Error, Result};

/// Begins the suffix that makes a name different. A number follows. In the columns of a statement's result, it is the
/// position of the column, followed by a second mark and the position of the column with the same name. If that
/// position is not known, the name is the text before the mark.
pub(crate) const MARK: char = '\u{1}';

pub(crate) fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// The error of a reference to a name that several columns have.
pub(crate) fn ambiguous(name: &str) -> Error {
    Error::invalid(format!("column {name} is ambiguous: several columns have this name"))
        .with_hint("give each a name of its own with AS")
}

/// A text with marked names, as users know the names.
pub(crate) fn without_marks(text: &str) -> String {
    let mut parts = text.split(MARK);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| shown.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit())));
    shown
}

/// Refuses a table or view with repeated column names.
///
/// # Errors
/// The repeated name.
pub(crate) fn check_distinct<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Error::invalid(format!("column {name} appears twice"))
                .with_hint("name one of them differently with AS"));
        }
    }
    Ok(())
}

/// The schema of a result with the names for users.
pub(crate) fn shown(schema: SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| field.name().contains(MARK)) {
        return schema;
    }
    let fields = schema.fields();
    let shown = fields.iter().enumerate().map(|(at, field)| match shown_name(at, fields) {
        name if name == field.name() => field.clone(),
        name => Arc::new(field.as_ref().clone().with_name(name)),
    });
    Arc::new(Schema::new_with_metadata(shown.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The name for users of the column at a position.
fn shown_name(at: usize, fields: &Fields) -> &str {
    let name = fields[at].name().as_str();
    match name.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK)) {
        // Only positions to the left are followed, so that this ends with any alias of a user.
        Some((_, same)) => match same.parse() {
            Ok(same) if same < at => shown_name(same, fields),
            _ => name,
        },
        None => name.split_once(MARK).map_or(name, |(name, _)| name),
    }
}

/// The rows with the names for users.
pub(crate) fn shown_rows(stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = shown(stream.schema());
    if Arc::ptr_eq(&schema, &stream.schema()) {
        return stream;
    }
    let target = schema.clone();
    let rows = stream.map(move |batch| Ok(renamed(batch?, &target)?));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn renamed(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use super::*;
    use crate::sql::statement::parse_query;

    /// Resolves names where nothing but tables is known.
    pub(super) fn resolve_with(
        statement: &mut Statement,
        tables: &dyn Fn(&datafusion::sql::sqlparser::ast::ObjectName) -> Columns,
    ) -> Result<()> {
        let known = Known {
            tables,
            calls: &|_| None,
            is_volatile: &|name| name == "random",
            evaluate: &|expr| Err(Error::invalid(format!("{expr} is not evaluated"))),
            key: &|_| None,
            is_aggregate: &|name| name == "sum",
            pivots: &std::collections::HashMap::new(),
        };
        resolve(statement, &known).map(drop)
    }

    #[test]
    fn what_repeats_a_name_gets_another() {
        for (sql, expected) in [
            ("SELECT a, A, \"A\" FROM t", "SELECT a, A AS \"|1|0\", \"A\" FROM t"),
            ("SELECT 1, 1, 2", "SELECT 1 AS \"1\", 1 AS \"|1|0\", 2 AS \"2\""),
            ("SELECT t.a, u.a FROM t, u", "SELECT t.a, u.a FROM t, u"),
            ("SELECT t.a, t.a, a FROM t", "SELECT t.a, t.a AS \"|1|0\", a AS \"|2|0\" FROM t"),
            ("SELECT a, b AS a FROM t", "SELECT a, b AS \"|1|0\" FROM t"),
            ("SELECT *, a FROM t", "SELECT *, a AS \"a|1\" FROM t"),
            ("SELECT a, * FROM t", "SELECT a AS \"a|0\", * FROM t"),
            ("SELECT *, a + 1 AS b FROM t", "SELECT *, a + 1 AS b FROM t"),
            ("SELECT t.*, t.a, u.a, b FROM t, u", "SELECT t.*, t.a AS \"a|1\", u.a, b FROM t, u"),
            ("SELECT COUNT(*), count(*) FROM t", "SELECT COUNT(*) AS \"count(*)\", count(*) AS \"|1|0\" FROM t"),
            ("SELECT a, a::text FROM t", "SELECT a, a::TEXT AS \"a::TEXT\" FROM t"),
        ] {
            let mut statement = Statement::Query(parse_query(sql).expect(sql));
            resolve_with(&mut statement, &|_| None).expect(sql);
            assert_eq!(statement.to_string().replace(MARK, "|"), expected, "{sql}");
        }
    }

    #[test]
    fn the_result_has_the_names_that_were_written() {
        use datafusion::arrow::datatypes::Field;
        let field = |name: &str| Field::new(name, datafusion::arrow::datatypes::DataType::Int64, true);
        let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let schema = Schema::new(vec![field("1"), field("\u{1}1\u{1}0"), field("a"), field("a\u{1}3")]);
        assert_eq!(names(&shown(Arc::new(schema))), ["1", "1", "a", "a"]);
        let schema = Schema::new(vec![field("a\u{1}0"), field("\u{1}1\u{1}0"), field("\u{1}2\u{1}1"), field("a")]);
        assert_eq!(names(&shown(Arc::new(schema))), ["a", "a", "a", "a"]);
        assert_eq!(without_marks("there are: a\u{1}0, b, a\u{1}12\u{1}3"), "there are: a, b, a");
    }
}
