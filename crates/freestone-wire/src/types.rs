//! Conversion of column names and types between Arrow and messages.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use freestone_store::nested::is_flat;
use freestone_store::schema::{normalize, parse_type, type_name};

use crate::column::ipc;
use crate::error::{Result, WireError};
use crate::frame::Blob;
use crate::message::ColumnDescription;

/// The type in which values of a type are sent and received: strings as `Utf8View`, binaries as `BinaryView`,
/// dictionaries of either as their values, all others unchanged.
pub fn wire_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, value) => wire_type(value),
        other => other.clone(),
    }
}

/// Whether the codecs can encode a type, so that its columns have other forms than an Arrow IPC stream.
pub(crate) fn is_native(data_type: &DataType) -> bool {
    is_flat(data_type) && normalize(data_type).is_ok_and(|stored| stored == *data_type)
}

/// The schema with the received types of all columns.
pub fn wire_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| Field::new(f.name(), wire_type(f.data_type()), f.is_nullable()));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A schema in the form of messages.
pub(crate) fn describe(schema: &Schema) -> Result<Vec<ColumnDescription>> {
    schema.fields().iter().map(|field| describe_field(field)).collect()
}

fn describe_field(field: &Field) -> Result<ColumnDescription> {
    let data_type = wire_type(field.data_type());
    let (name, nullable) = (field.name().clone(), field.is_nullable());
    if is_native(&data_type) {
        return Ok(ColumnDescription { name, nullable, data_type: type_name(&data_type), arrow: None });
    }
    let bytes = ipc::encode_type(&data_type).map_err(|reason| WireError::Encode { column: name.clone(), reason })?;
    Ok(ColumnDescription { name, nullable, data_type: String::new(), arrow: Some(Blob(bytes)) })
}

/// Whether values are strings, in the received layout.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// The schema of column descriptions.
pub(crate) fn schema_of(columns: &[ColumnDescription]) -> Result<SchemaRef> {
    let fields = columns.iter().map(|column| {
        let unknown =
            || WireError::malformed("column", format!("{} has unknown type {}", column.name, column.data_type));
        let data_type = match &column.arrow {
            None => parse_type(&column.data_type).filter(is_native).ok_or_else(unknown)?,
            Some(bytes) => ipc::decode_type(&bytes.0).map_err(|e| WireError::malformed("column", e))?,
        };
        Ok(Field::new(&column.name, data_type, column.nullable))
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
}
