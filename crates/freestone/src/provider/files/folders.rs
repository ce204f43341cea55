//! The columns that the names of folders give, as in `year=2024/`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::scalar::ScalarValue;

use super::options::FileOptions;
use crate::error::{Error, Result};
use crate::ingest::{IngestError, Kinds, Location, TextForms, conform_columns};

/// A name, a type, and the value for each file.
pub(super) type PartitionColumn = (String, DataType, Vec<ScalarValue>);

/// The columns from folder names, with the value for each file.
///
/// # Errors
/// HIVE_TYPES names no such column, or a value does not have its type.
pub(super) fn partition_columns(
    files: &[Vec<(String, Option<String>)>],
    options: &FileOptions,
    source: &str,
) -> Result<Vec<PartitionColumn>> {
    let mut names: Vec<&String> = vec![];
    for (name, _) in files.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let declared = &options.hive_types.named;
    if let Some((wrong, _)) = declared.iter().find(|(name, _)| !names.contains(&name)) {
        let text = format!("HIVE_TYPES: no folders of {source} have names {wrong}=…");
        return Err(Error::invalid(text).with_hint("names are those of the folders, also in case"));
    }
    let column = |name: &String| -> Result<PartitionColumn> {
        let of = |file: &Vec<(String, Option<String>)>| {
            file.iter().rev().find(|(key, _)| key == name).and_then(|(_, value)| value.clone())
        };
        let values: Vec<Option<String>> = files.iter().map(of).collect();
        if let Some((_, data_type)) = declared.iter().find(|(declared, _)| declared == name) {
            return Ok((name.clone(), data_type.clone(), converted(&values, name, data_type, source)?));
        }
        let mut kinds = if options.infers_hive { Kinds::ANY } else { Kinds::TEXT };
        values.iter().flatten().for_each(|value| kinds.see_text(value, &TextForms::default()));
        let data_type = match kinds.data_type() {
            exact @ (DataType::Boolean
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond, None)) => exact,
            _ => DataType::Utf8View,
        };
        let typed = |data_type: &DataType| -> Option<Vec<ScalarValue>> {
            let scalar = |value: &Option<String>| match value {
                Some(text) => ScalarValue::try_from_string(text.clone(), data_type).ok(),
                None => ScalarValue::try_from(data_type).ok(),
            };
            values.iter().map(scalar).collect()
        };
        Ok(match typed(&data_type) {
            Some(scalars) => (name.clone(), data_type, scalars),
            None => {
                let texts = values.iter().map(|value| ScalarValue::Utf8View(value.clone())).collect();
                (name.clone(), DataType::Utf8View, texts)
            }
        })
    };
    names.into_iter().map(column).collect()
}

/// The values in a type that was declared.
fn converted(values: &[Option<String>], name: &str, data_type: &DataType, source: &str) -> Result<Vec<ScalarValue>> {
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter(values.iter().map(Option::as_deref)));
    let schema = Arc::new(Schema::new(vec![Field::new(name, data_type.clone(), true)]));
    let at = Location { source: source.to_owned(), first_row: 1 };
    let row = conform_columns(&[texts], values.len(), &schema, &at).map_err(IngestError::without_row)?;
    (0..values.len()).map(|at| Ok(ScalarValue::try_from_array(row.column(0), at)?)).collect()
}
