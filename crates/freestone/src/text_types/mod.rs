//! Types whose values are texts of which only some are allowed: ENUM, which has an order of its own, JSON, and those whose
//! texts have a normal form ([`NormalText`]).
//!
//! A column of such a type is a VARCHAR with a CHECK that calls a function here, from which the type is read again. The
//! fields of columns and casts to an ENUM have its labels as metadata ([`LABELS`]); a rule ([`enum_order::EnumOrder`])
//! finds them there, and compares and sorts by the places of the labels. A column with a collation is kept in the same way; the binder
//! compares by what its field says.

mod collations;
pub(crate) mod declared;
pub(crate) mod enum_extremes;
mod enum_functions;
pub(crate) mod enum_order;
pub(crate) mod made;
mod normal_functions;

pub use declared::declared_type;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use freestone_binder::{COLLATION, collation_metadata};
use freestone_store::Snapshot;
use freestone_store::schema::{CheckConstraint, Column, TableSchema};

use crate::definitions;
use crate::normal_texts::NormalText;
use crate::sql::text_types::{CHECK, CHECK_NORMAL, TextType, of_check, type_text};
use crate::times::{DateOrder, Zone};
use crate::type_names::type_name;

/// The metadata of a field with the labels of its ENUM, as a list in JSON.
pub(crate) const LABELS: &str = "freestone.enum";

/// The metadata of a field of JSON, which is for clients.
const JSON: &str = "freestone.json";
/// The metadata of a field of JSON that a function has made. Clients see a text.
const MADE_JSON: &str = "freestone.made_json";
/// The metadata of a field with the name of its [`NormalText`].
pub(crate) const NORMAL: &str = freestone_binder::NORMAL;

/// The collation of a field's texts.
pub(crate) fn collation_of(field: &Field) -> Option<&str> {
    field.metadata().get(COLLATION).map(String::as_str).filter(|name| !name.is_empty())
}

/// Registers the functions in a session.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let all = enum_functions::all().into_iter().chain(normal_functions::all()).chain(collations::all());
    all.into_iter().try_for_each(|function| state.register_udf(Arc::new(function)).map(drop))
}

/// The labels of a field's ENUM.
pub fn labels_of(field: &Field) -> Option<Vec<String>> {
    serde_json::from_str(field.metadata().get(LABELS)?).ok()
}

/// The type of a field's texts, if they have a normal form.
pub fn normal_of(field: &Field) -> Option<NormalText> {
    NormalText::of_name(field.metadata().get(NORMAL)?)
}

/// Whether a field's texts are JSON.
pub fn is_json(field: &Field) -> bool {
    field.metadata().contains_key(JSON)
}

/// Whether a field's texts are JSON or JSONB, of a column or of a function that makes it.
pub(crate) fn has_json(field: &Field) -> bool {
    is_json(field) || field.metadata().contains_key(MADE_JSON) || normal_of(field) == Some(NormalText::Jsonb)
}

/// The metadata of a field of JSON that a function has made.
pub(crate) fn made_json() -> HashMap<String, String> {
    HashMap::from([(MADE_JSON.to_owned(), String::new())])
}

/// The metadata of a field of JSONB that a function has made.
pub(crate) fn made_jsonb() -> HashMap<String, String> {
    normal_metadata(NormalText::Jsonb)
}

/// The metadata of a field of texts in a normal form.
fn normal_metadata(kind: NormalText) -> HashMap<String, String> {
    HashMap::from([(NORMAL.to_owned(), kind.name())])
}

/// Applies a function to values, or to the items of lists of them.
fn over_items(values: &ArrayRef, f: &dyn Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
    let Some(lists) = values.as_list_opt::<i32>() else { return f(values) };
    let items = over_items(lists.values(), f)?;
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(field, lists.offsets().clone(), items, lists.nulls().cloned())?))
}

/// Tests values, or all items of lists of them. NULL items pass.
fn all_items(values: &ArrayRef, test: &dyn Fn(&ArrayRef) -> Result<BooleanArray>) -> Result<BooleanArray> {
    let Some(lists) = values.as_list_opt::<i32>() else { return test(values) };
    let passed = |items: ArrayRef| Ok(all_items(&items, test)?.iter().all(|passed| passed != Some(false)));
    lists.iter().map(|items| items.map(passed).transpose()).collect()
}

/// Rows as they are stored: texts of a type with a normal form in it, others within their length, and fields without metadata
/// of types.
///
/// `reading` says how the texts of a field read: the order of dates, if as in PostgreSQL, and the zone of times without one.
///
/// # Errors
/// A text is no value of its column's type.
pub(crate) fn in_normal_form(
    batch: RecordBatch,
    reading: fn(&Field) -> (Option<DateOrder>, Zone),
) -> Result<RecordBatch, crate::error::Error> {
    let schema = batch.schema();
    if schema.fields().iter().all(|field| field.metadata().is_empty()) {
        return Ok(batch);
    }
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| match normal_of(field) {
        Some(kind) => normal_functions::stored(column, kind, field.name(), reading(field)),
        None => declared::fitted(column, field.metadata(), field.name()),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let plain = schema.fields().iter().map(|field| field.as_ref().clone().with_metadata(HashMap::new()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let plain = Arc::new(Schema::new(plain.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new_with_options(plain, columns, &options)?)
}

/// The schema of a table whose fields say which of them are of types of texts, or lists of them, and what was declared.
pub(crate) fn stored_schema(table: &TableSchema) -> SchemaRef {
    with_metadata(with_types(table.to_arrow(), table, true), |at| declared::metadata(table, at))
}

/// The schema with more metadata of the fields at some positions.
fn with_metadata(schema: SchemaRef, more: impl Fn(usize) -> Option<(String, String)>) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(at, field)| match more(at) {
        Some(entry) => {
            let metadata = field.metadata().clone().into_iter().chain([entry]).collect();
            Arc::new(field.as_ref().clone().with_metadata(metadata))
        }
        None => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The schema by which rows are brought into the form in which a table stores them: [`in_normal_form`] asks for no other types.
pub(crate) fn written_schema(table: &TableSchema) -> SchemaRef {
    let has_normal = table.checks.iter().any(|check| check.condition.starts_with(CHECK_NORMAL));
    let schema = if has_normal { with_types(table.to_arrow(), table, true) } else { table.to_arrow() };
    if declared::has_lengths(table) { with_metadata(schema, |at| declared::length_metadata(table, at)) } else { schema }
}

/// The metadata of a field with these labels.
fn metadata(labels: &[String]) -> HashMap<String, String> {
    serde_json::to_string(labels).map(|labels| HashMap::from([(LABELS.to_owned(), labels)])).unwrap_or_default()
}

/// The types of a table's columns of such types.
pub(crate) fn of_table(schema: &TableSchema) -> HashMap<String, TextType> {
    schema.checks.iter().filter_map(of_check).collect()
}

/// Whether a table has a column of an ENUM, or a type may be one.
pub(crate) fn has_enums(snapshot: &Snapshot) -> bool {
    let is_enum = |check: &CheckConstraint| [CHECK, CHECK_NORMAL].iter().any(|own| check.condition.starts_with(own));
    definitions::has_types(snapshot) || snapshot.tables().any(|table| table.schema.checks.iter().any(is_enum))
}

/// The name of a column's type.
pub(crate) fn column_type(schema: &TableSchema, column: &Column) -> String {
    match of_table(schema).get(&column.name) {
        Some(kind) => format!("{}{}", kind.name(), "[]".repeat(dimensions(&column.data_type))),
        None => type_name(&column.data_type),
    }
}

/// The collation that was declared for a column.
pub(crate) fn column_collation(schema: &TableSchema, column: &str) -> Option<String> {
    schema.checks.iter().filter_map(of_check).find_map(|(name, kind)| match kind {
        TextType::Collated(collation) if name == column => Some(collation),
        _ => None,
    })
}

/// The number of lists in one another.
fn dimensions(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) => 1 + dimensions(item.data_type()),
        _ => 0,
    }
}

/// The name of a field's type.
pub(crate) fn field_type(field: &Field) -> String {
    let dimensions = dimensions(field.data_type());
    let own = labels_of(field).map(|labels| type_text(&labels)).or_else(|| normal_of(field).map(NormalText::name));
    own.map_or_else(|| type_name(field.data_type()), |own| format!("{own}{}", "[]".repeat(dimensions)))
}

/// The Arrow schema of a table, or of some of its columns, with the labels of its ENUMs and the types of its texts in a
/// normal form. Lists have none of that, which is for comparisons.
pub(crate) fn annotated(schema: SchemaRef, table: &TableSchema) -> SchemaRef {
    with_types(schema, table, false)
}

/// The schema with the types of texts, also of lists of them if `has_lists`.
fn with_types(schema: SchemaRef, table: &TableSchema, has_lists: bool) -> SchemaRef {
    let kinds = of_table(table);
    if kinds.is_empty() {
        return schema;
    }
    let typed = |field: &FieldRef| {
        let kind = kinds.get(field.name()).filter(|_| has_lists || !field.data_type().is_nested())?;
        Some(match kind {
            TextType::Enum(labels) => metadata(labels),
            TextType::Normal(kind) => normal_metadata(*kind),
            TextType::Json => HashMap::from([(JSON.to_owned(), String::new())]),
            // The type of the column may have changed.
            TextType::Collated(name) if field.data_type().is_string() => collation_metadata(name),
            TextType::Collated(_) => return None,
        })
    };
    let fields = schema.fields().iter().map(|field| match typed(field) {
        Some(metadata) => Arc::new(field.as_ref().clone().with_metadata(metadata)),
        None => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}
