//! Types whose values are texts of which only some are allowed: ENUM, which has an order of its own, and JSON.
//!
//! A column of such a type is a VARCHAR with a CHECK that calls a function here, from which the type is read again. The
//! fields of columns and casts to an ENUM have its labels as metadata ([`LABELS`]); a rule ([`enum_order::EnumOrder`])
//! finds them there, and compares and sorts by the places of the labels.

pub(crate) mod enum_extremes;
mod enum_functions;
pub(crate) mod enum_order;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use freestone_store::Snapshot;
use freestone_store::schema::{CheckConstraint, Column, TableSchema};

use crate::definitions;
use crate::sql::text_types::{CHECK, TextType, of_check, type_text};
use crate::type_names::type_name;

/// The metadata of a field with the labels of its ENUM, as a list in JSON.
pub(crate) const LABELS: &str = "freestone.enum";

/// Registers the functions in a session.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    enum_functions::all().into_iter().try_for_each(|function| state.register_udf(Arc::new(function)).map(drop))
}

/// The labels of a field's ENUM.
pub(crate) fn labels_of(field: &Field) -> Option<Vec<String>> {
    serde_json::from_str(field.metadata().get(LABELS)?).ok()
}

/// The metadata of a field with these labels.
fn metadata(labels: &[String]) -> HashMap<String, String> {
    serde_json::to_string(labels).map(|labels| HashMap::from([(LABELS.to_owned(), labels)])).unwrap_or_default()
}

/// A field as one of an ENUM.
fn with_labels(field: &Field, labels: &[String]) -> FieldRef {
    Arc::new(field.clone().with_metadata(metadata(labels)))
}

/// The types of a table's columns of such types.
pub(crate) fn of_table(schema: &TableSchema) -> HashMap<String, TextType> {
    schema.checks.iter().filter_map(of_check).collect()
}

/// Whether a table has a column of an ENUM, or a type may be one.
pub(crate) fn has_enums(snapshot: &Snapshot) -> bool {
    let is_enum = |check: &CheckConstraint| check.condition.starts_with(CHECK);
    definitions::has_types(snapshot) || snapshot.tables().any(|table| table.schema.checks.iter().any(is_enum))
}

/// The name of a column's type.
pub(crate) fn column_type(schema: &TableSchema, column: &Column) -> String {
    match of_table(schema).get(&column.name) {
        Some(kind) => kind.name(),
        None => type_name(&column.data_type),
    }
}

/// The name of a field's type.
pub(crate) fn field_type(field: &Field) -> String {
    labels_of(field).map_or_else(|| type_name(field.data_type()), |labels| type_text(&labels))
}

/// The Arrow schema of a table, or of some of its columns, with the labels of its ENUMs.
pub(crate) fn annotated(schema: SchemaRef, table: &TableSchema) -> SchemaRef {
    let kinds = of_table(table);
    if !kinds.values().any(|kind| matches!(kind, TextType::Enum(_))) {
        return schema;
    }
    let fields = schema.fields().iter().map(|field| match kinds.get(field.name()) {
        Some(TextType::Enum(labels)) => with_labels(field, labels),
        _ => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}
