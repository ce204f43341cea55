//! Names of columns: those of unnamed columns, and several columns with the same name.
//!
//! SQL allows `SELECT 1, 1` and `SELECT a, a`, also in subqueries. DataFusion requires different names. So repeated
//! names are changed while the query is planned, and changed back in the schema of the result.

mod objects;

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

pub(crate) use objects::{CATALOG, MAIN, SCHEMA, is_ours, kept_name, kept_schema, name_in, of_database};

use crate::distinct_names::numbered_names;
use crate::error::{Error, Result};
use crate::internal_names::MARK;

/// Refuses repeated names of columns.
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

/// The schema with distinct names, which the columns of a table, a view or a file must have. One that comes again gets a
/// number, as in DuckDB: `a` and `a` are `a` and `a_1`.
pub(crate) fn distinct(schema: SchemaRef) -> SchemaRef {
    let names = numbered_names(schema.fields().iter().map(|field| field.name().as_str()));
    if schema.fields().iter().zip(&names).all(|(field, name)| field.name() == name) {
        return schema;
    }
    let fields = schema.fields().iter().zip(names).map(|(field, name)| field.as_ref().clone().with_name(name));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
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
    named_rows(shown, stream)
}

/// The rows with the names for users, or others where those are repeated.
pub(crate) fn distinct_rows(stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    named_rows(|schema| distinct(shown(schema)), stream)
}

fn named_rows(named: impl Fn(SchemaRef) -> SchemaRef, stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = named(stream.schema());
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
    use super::*;
    use crate::internal_names::without_marks;

    #[test]
    fn repeated_names_get_numbers() {
        use datafusion::arrow::datatypes::{DataType, Field};
        let names = |names: &[&str]| {
            let fields: Vec<_> = names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect();
            let schema = distinct(Arc::new(Schema::new(fields)));
            schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&["a", "b", "A"]), ["a", "b", "A"]);
        assert_eq!(names(&["i", "i", "i_1", "i"]), ["i", "i_1", "i_1_1", "i_2"]);
        assert_eq!(names(&["i_1", "i", "i", "i"]), ["i_1", "i", "i_2", "i_3"]);
        assert_eq!(names(&["i", "i", "i", "i_1", "i"]), ["i", "i_1", "i_2", "i_1_1", "i_3"]);
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
