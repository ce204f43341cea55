//! INTERVAL columns are read as their bytes, because the decoder would drop either their months or their days.

use std::sync::Arc;

use parquet::basic::ConvertedType;
use parquet::errors::Result;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

/// Whether a column, or a part of a nested one, is an INTERVAL.
pub(super) fn has_interval(column: &Type) -> bool {
    match column {
        Type::PrimitiveType { .. } => column.get_basic_info().converted_type() == ConvertedType::INTERVAL,
        Type::GroupType { fields, .. } => fields.iter().any(|field| has_interval(field)),
    }
}

/// The metadata with plain binaries in place of INTERVALs.
pub(super) fn as_bytes(metadata: ParquetMetaData) -> Result<ParquetMetaData> {
    let file = metadata.file_metadata();
    let root = file.schema_descr().root_schema();
    if !has_interval(root) {
        return Ok(metadata);
    }
    let schema = Arc::new(SchemaDescriptor::new(without_intervals(root)?));
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        schema,
        file.column_orders().cloned(),
    );
    Ok(ParquetMetaDataBuilder::new(file).set_row_groups(metadata.row_groups().to_vec()).build())
}

fn without_intervals(column: &Type) -> Result<TypePtr> {
    let info = column.get_basic_info();
    let id = info.has_id().then(|| info.id());
    let plain = match column {
        Type::PrimitiveType { physical_type, type_length, precision, scale, .. } => {
            let kind = if has_interval(column) { ConvertedType::NONE } else { info.converted_type() };
            Type::primitive_type_builder(info.name(), *physical_type)
                .with_repetition(info.repetition())
                .with_converted_type(kind)
                .with_logical_type(info.logical_type_ref().cloned())
                .with_length(*type_length)
                .with_precision(*precision)
                .with_scale(*scale)
                .with_id(id)
                .build()?
        }
        Type::GroupType { fields, .. } => {
            let fields = fields.iter().map(|field| without_intervals(field)).collect::<Result<Vec<_>>>()?;
            let mut group = Type::group_type_builder(info.name())
                .with_converted_type(info.converted_type())
                .with_logical_type(info.logical_type_ref().cloned())
                .with_fields(fields)
                .with_id(id);
            if info.has_repetition() {
                group = group.with_repetition(info.repetition());
            }
            group.build()?
        }
    };
    Ok(Arc::new(plain))
}
