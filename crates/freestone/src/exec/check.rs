//! CHECK: damage that the store finds, and violations of declared keys.
//!
//! Keys are used in planning, whether they are enforced or not. CHECK shows whether the rows satisfy them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::display::array_value_to_string;
use freestone_store::schema::ForeignKey;
use freestone_store::{Snapshot, Store, Table};

use crate::error::Result;
use crate::exec::ddl;
use crate::sql::statement::quote;
use crate::temp_schema::TempSchema;

/// All damage in one table, or in all tables that a session sees.
///
/// # Errors
///
/// The table does not exist, or the store cannot be checked.
pub(crate) fn damage(store: &Store, temp: &TempSchema, table: Option<&str>) -> Result<Vec<String>> {
    ddl::require(store, table)?;
    let is_checked = |name: &str| table.map_or_else(|| temp.sees(name), |table| table == name);
    Ok(store.check_tables(&is_checked)?.problems)
}

/// The problems as the rows of CHECK.
///
/// # Errors
///
/// An array cannot be built.
pub(crate) fn rows(problems: &[String]) -> Result<RecordBatch> {
    let schema = Schema::new(vec![Field::new("problem", DataType::Utf8View, false)]);
    let problems: StringViewArray = problems.iter().map(|problem| Some(problem.as_str())).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), vec![Arc::new(problems) as ArrayRef])?)
}

/// A query whose first row, if there is one, violates a key.
pub(crate) struct Question {
    pub sql: String,
    violation: String,
}

impl Question {
    /// The problem that the result of the query shows.
    ///
    /// # Errors
    ///
    /// The result has an unexpected type.
    pub fn answer(&self, batches: &[RecordBatch]) -> Result<Option<String>> {
        let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(None) };
        let values = batch.columns().iter().map(|column| array_value_to_string(column, 0));
        let values = values.collect::<Result<Vec<_>, _>>()?.join(", ");
        Ok(Some(self.violation.replace("{}", &values)))
    }
}

/// The queries on the keys of one table, or of all tables that a session sees.
pub(crate) fn key_questions(snapshot: &Snapshot, temp: &TempSchema, table: Option<&str>) -> Vec<Question> {
    let mut questions = Vec::new();
    for checked in temp.tables(snapshot).filter(|checked| table.is_none_or(|name| checked.name == name)) {
        if !checked.schema.primary_key.is_empty() {
            questions.push(key_question(checked, "PRIMARY KEY", &checked.schema.primary_key));
        }
        let primary = checked.schema.enforced_primary_key();
        let unique = checked.schema.unique_keys.iter().filter(|key| Some(*key) != primary);
        questions.extend(unique.map(|key| key_question(checked, "UNIQUE", &key.columns)));
        let foreign = checked.schema.foreign_keys.iter();
        questions.extend(foreign.map(|key| foreign_question(snapshot, checked, key)));
    }
    questions
}

fn key_question(table: &Table, kind: &str, key: &[String]) -> Question {
    let columns = list("", key);
    let present = key.iter().map(|name| format!("{} IS NOT NULL", quote(name))).collect::<Vec<_>>().join(" AND ");
    Question {
        sql: format!(
            "SELECT {columns} FROM {} WHERE {present} GROUP BY {columns} HAVING count(*) > 1 ORDER BY {columns} LIMIT 1",
            quote(&table.name)
        ),
        violation: format!("table {}: {kind} ({}) has ({{}}) more than once", table.name, key.join(", ")),
    }
}

fn foreign_question(snapshot: &Snapshot, table: &Table, key: &ForeignKey) -> Question {
    let declared = format!("table {}: FOREIGN KEY ({}) REFERENCES {}", table.name, key.columns.join(", "), key.table);
    let referenced = match snapshot.table(&key.table) {
        Some(other) if key.referenced.is_empty() => other.schema.primary_key.clone(),
        Some(other) if key.referenced.iter().all(|name| other.schema.index_of(name).is_ok()) => key.referenced.clone(),
        _ => vec![],
    };
    if referenced.len() != key.columns.len() {
        let violation = format!("{declared} names a table or columns that do not exist");
        return Question { sql: "SELECT 1".into(), violation };
    }
    let pairs = key.columns.iter().zip(&referenced);
    let equal = pairs.map(|(own, other)| format!("f.{} = r.{}", quote(own), quote(other))).collect::<Vec<_>>();
    let present = key.columns.iter().map(|own| format!("f.{} IS NOT NULL", quote(own))).collect::<Vec<_>>();
    let columns = list("f.", &key.columns);
    Question {
        sql: format!(
            "SELECT {columns} FROM {} AS f LEFT ANTI JOIN {} AS r ON {} WHERE {} ORDER BY {columns} LIMIT 1",
            quote(&table.name),
            quote(&key.table),
            equal.join(" AND "),
            present.join(" AND ")
        ),
        violation: format!("{declared} does not hold for ({{}})"),
    }
}

fn list(qualifier: &str, columns: &[String]) -> String {
    columns.iter().map(|column| format!("{qualifier}{}", quote(column))).collect::<Vec<_>>().join(", ")
}
