//! Bounds of the values of row groups and pages, as far as they are reliable.
//!
//! Writers ignore NaN in bounds, and may write either zero for the other. So the maximum of floats is unknown, and a
//! minimum of zero is taken as negative zero. Old Parquet files, from before each type had its own order, have bounds
//! in the order of signed bytes, which is correct only for signed numbers. A missing or unreliable bound is NULL, which
//! prunes nothing.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, new_null_array,
};
use datafusion::arrow::compute::{cast, nullif};
use datafusion::arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, Type as PhysicalType};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::ingest::ParquetFile;

/// The minimum or the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Least,
    Greatest,
}

/// The bounds of a column of one file, in the type of the table's column.
pub(super) struct Bounds<'a> {
    file: &'a ParquetFile,
    leaf: usize,
    field: &'a Field,
    table_type: &'a DataType,
}

impl<'a> Bounds<'a> {
    /// The bounds of the column at this position in the file; `None` if they are not valid for the table's values.
    pub fn of(file: &'a ParquetFile, column: usize, table_type: &'a DataType) -> Option<Self> {
        let field = file.schema().field(column);
        let widens = field.data_type() == table_type || keeps_order(field.data_type(), table_type);
        Some(Self { file, leaf: file.bounded_leaf(column).filter(|_| widens)?, field, table_type })
    }

    fn metadata(&self) -> &'a ParquetMetaData {
        self.file.metadata().metadata()
    }

    fn converter(&self) -> Option<StatisticsConverter<'a>> {
        let converter =
            StatisticsConverter::from_column_index(self.leaf, self.field, self.file.metadata().parquet_schema());
        Some(converter.ok()?.with_missing_null_counts_as_zero(false))
    }

    fn groups(&self, groups: &[usize]) -> impl Iterator<Item = &'a RowGroupMetaData> {
        let metadata = self.metadata();
        groups.iter().map(|group| metadata.row_group(*group)).collect::<Vec<_>>().into_iter()
    }

    /// The bounds of row groups.
    pub fn of_groups(&self, groups: &[usize], end: End) -> Option<ArrayRef> {
        let converter = self.converter()?;
        let found = match end {
            End::Least => converter.row_group_mins(self.groups(groups)),
            End::Greatest => converter.row_group_maxes(self.groups(groups)),
        };
        let doubtful: Vec<bool> = self.groups(groups).map(|group| !self.is_ordered(group)).collect();
        let found = found.ok()?;
        let found = if doubtful.contains(&true) { nullif(&found, &BooleanArray::from(doubtful)).ok()? } else { found };
        self.believed(found, end)
    }

    /// The NULL counts of row groups.
    pub fn nulls_of_groups(&self, groups: &[usize]) -> Option<ArrayRef> {
        let counts = self.converter()?.row_group_null_counts(self.groups(groups)).ok()?;
        Some(Arc::new(counts))
    }

    /// The bounds of the pages of a row group. `metadata` includes the file's page index.
    pub fn of_pages(&self, metadata: &ParquetMetaData, group: usize, end: End) -> Option<ArrayRef> {
        let (index, offsets) = (metadata.column_index()?, metadata.offset_index()?);
        let converter = self.converter()?;
        let found = match end {
            End::Least => converter.data_page_mins(index, offsets, [&group]),
            End::Greatest => converter.data_page_maxes(index, offsets, [&group]),
        };
        self.believed(found.ok()?, end)
    }

    /// The NULL counts of the pages of a row group.
    pub fn nulls_of_pages(&self, metadata: &ParquetMetaData, group: usize) -> Option<ArrayRef> {
        let (index, offsets) = (metadata.column_index()?, metadata.offset_index()?);
        let counts = self.converter()?.data_page_null_counts(index, offsets, [&group]).ok()?;
        Some(Arc::new(counts))
    }

    /// Whether the bounds of a row group use the order of the column's type.
    fn is_ordered(&self, group: &RowGroupMetaData) -> bool {
        let column = group.column(self.leaf);
        let Some(statistics) = column.statistics() else { return true };
        if matches!(column.column_type(), PhysicalType::INT96) {
            return false;
        }
        let is_signed = !self.field.data_type().is_unsigned_integer()
            && matches!(
                column.column_type(),
                PhysicalType::INT32 | PhysicalType::INT64 | PhysicalType::FLOAT | PhysicalType::DOUBLE
            );
        let has_order = || {
            let order = self.metadata().file_metadata().column_order(self.leaf);
            matches!(order, ColumnOrder::TYPE_DEFINED_ORDER(_))
        };
        is_signed || column.column_type() == PhysicalType::BOOLEAN || !statistics.is_min_max_deprecated() && has_order()
    }

    /// The reliable bounds, in the table's type.
    fn believed(&self, found: ArrayRef, end: End) -> Option<ArrayRef> {
        let found = match self.field.data_type() {
            DataType::Float16 => return None,
            float if float.is_floating() && end == End::Greatest => new_null_array(float, found.len()),
            DataType::Float32 => least_of_floats::<Float32Type>(&found, f32::is_nan, -0.0),
            DataType::Float64 => least_of_floats::<Float64Type>(&found, f64::is_nan, -0.0),
            _ => found,
        };
        if found.data_type() == self.table_type { Some(found) } else { cast(&found, self.table_type).ok() }
    }
}

fn least_of_floats<T: ArrowPrimitiveType>(
    found: &ArrayRef,
    is_nan: impl Fn(T::Native) -> bool,
    negative_zero: T::Native,
) -> ArrayRef
where
    T::Native: PartialEq,
{
    let least = found.as_primitive::<T>().iter().map(|value| {
        let value = value.filter(|value| !is_nan(*value))?;
        Some(if value == negative_zero { negative_zero } else { value })
    });
    Arc::new(least.collect::<PrimitiveArray<T>>())
}

/// Whether the cast preserves the order and distinctness of values.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_binary = |kind: &DataType| matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    match (from, to) {
        (DataType::Float32, DataType::Float64) => true,
        (DataType::Date32, DataType::Timestamp(..)) => true,
        (DataType::Timestamp(_, a), DataType::Timestamp(_, b)) => a.is_some() == b.is_some(),
        (_, DataType::Decimal128(..)) => from.is_integer() || matches!(from, DataType::Decimal128(..)),
        _ => {
            let integers = from.is_integer() && to.is_integer() && from.primitive_width() <= to.primitive_width();
            integers || is_text(from) && is_text(to) || is_binary(from) && is_binary(to)
        }
    }
}
