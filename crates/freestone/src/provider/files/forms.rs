//! The forms in which the executor takes columns of Parquet files: decimals of at most 18 digits as 64-bit integers, and
//! texts of few values as codes of dictionaries, as the files have them.
//!
//! DataFusion's operators take decimals of 128 bits, and views of texts. So only a scan whose rows the executor takes is
//! read like this: the types of its plan stay, and its arrays are `Decimal64` and `Dictionary`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::scalar::ScalarValue;
use freestone_exec::convert::form_of;
use freestone_exec::vector::Form;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use super::counts::few_values;
use super::filters::is_comparison;
use super::set::{ColumnSource, Contents, FileSet, SetFile};
use crate::expressions::dictionary::PerString;
use crate::expressions::partial::is_dynamic;
use crate::ingest::ParquetFile;

/// The columns of the table with the types of these forms, where all files store them with the table's type.
pub(super) fn executed(set: &FileSet) -> SchemaRef {
    let field = |(column, field): (usize, &FieldRef)| {
        let form = taken(field.data_type()).filter(|form| {
            let is_few = !is_dictionary(form) || few_values(set, column).is_some();
            is_few && set.files.iter().all(|file| is_stored(file, column, field.data_type()))
        });
        form.map_or_else(|| field.clone(), |form| Arc::new(field.as_ref().clone().with_data_type(form)))
    };
    let schema = Schema::new(set.schema.fields().iter().enumerate().map(field).collect::<Vec<_>>());
    let can_read = |file: &SetFile| match &file.contents {
        Contents::Parquet(parquet) => metadata(parquet.metadata(), parquet, file, &schema).is_some(),
        _ => false,
    };
    let has_forms = schema.fields() != set.schema.fields();
    if has_forms && set.files.iter().all(can_read) { Arc::new(schema) } else { set.schema.clone() }
}

/// The type of arrays that have the executor's form of a type, if it is another one.
fn taken(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Decimal128(digits, scale) if form_of(data_type) == Form::Int => {
            Some(DataType::Decimal64(*digits, *scale))
        }
        DataType::Utf8View => Some(DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))),
        _ => None,
    }
}

fn is_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
}

fn is_stored(file: &SetFile, column: usize, data_type: &DataType) -> bool {
    match (&file.contents, &file.columns[column]) {
        (Contents::Parquet(parquet), ColumnSource::Stored(place)) => {
            parquet.schema().field(*place).data_type() == data_type
        }
        _ => false,
    }
}

/// The metadata with which a reader gives the columns of `read` in its types; `None` if it cannot.
pub(super) fn metadata(
    metadata: &ArrowReaderMetadata,
    parquet: &ParquetFile,
    file: &SetFile,
    read: &Schema,
) -> Option<ArrowReaderMetadata> {
    let mut fields: Vec<FieldRef> = parquet.schema().fields().to_vec();
    for (source, field) in file.columns.iter().zip(read.fields()) {
        if let (ColumnSource::Stored(place), true) = (source, is_form(field.data_type())) {
            let stored = fields[*place].as_ref().clone();
            fields[*place] = Arc::new(stored.with_data_type(field.data_type().clone()));
        }
    }
    let schema = Schema::new_with_metadata(fields, parquet.schema().metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options).ok()
}

fn is_form(data_type: &DataType) -> bool {
    is_dictionary(data_type) || matches!(data_type, DataType::Decimal64(..))
}

/// A filter on columns of the types `planned`, for columns of the types `read`.
///
/// # Errors
/// The filter cannot be rebuilt.
pub(super) fn over_forms(
    filter: Arc<dyn PhysicalExpr>,
    planned: &Schema,
    read: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    if let Some(column) = filter.downcast_ref::<Column>() {
        let (planned, read) = (planned.field(column.index()), read.field(column.index()));
        return Ok(match planned.data_type() == read.data_type() {
            true => filter,
            false => Arc::new(CastExpr::new(filter, planned.data_type().clone(), None)),
        });
    }
    if let Some(narrow) = narrow_comparison(&filter, read) {
        return Ok(narrow);
    }
    if is_of_codes(&filter, read)? {
        return PerString::of_column(&filter, planned);
    }
    let children = filter.children().into_iter().cloned();
    let children = children.map(|child| over_forms(child, planned, read)).collect::<Result<Vec<_>>>()?;
    if children.iter().zip(filter.children()).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(filter);
    }
    filter.with_new_children(children)
}

/// A comparison of a decimal column with a constant, both of 64 bits.
fn narrow_comparison(filter: &Arc<dyn PhysicalExpr>, read: &Schema) -> Option<Arc<dyn PhysicalExpr>> {
    let binary = filter.downcast_ref::<BinaryExpr>().filter(|_| is_comparison(filter))?;
    let column: &Field = read.field(binary.left().downcast_ref::<Column>()?.index());
    let DataType::Decimal64(digits, scale) = column.data_type() else { return None };
    let literal = binary.right().downcast_ref::<Literal>()?;
    let ScalarValue::Decimal128(Some(value), _, of_value) = literal.value() else { return None };
    let value = i64::try_from(*value).ok().filter(|_| of_value == scale)?;
    let value = Literal::new(ScalarValue::Decimal64(Some(value), *digits, *scale));
    Some(Arc::new(BinaryExpr::new(binary.left().clone(), *binary.op(), Arc::new(value))))
}

/// Whether an expression depends on one column of codes and nothing else.
fn is_of_codes(e: &Arc<dyn PhysicalExpr>, read: &Schema) -> Result<bool> {
    let mut columns = collect_columns(e).into_iter();
    let (Some(column), None) = (columns.next(), columns.next()) else { return Ok(false) };
    let changes = is_dynamic(e) || is_volatile(e);
    Ok(is_dictionary(read.field(column.index()).data_type()) && !changes)
}
