//! Rows of table functions: columns of their values, and batches of these.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringViewArray, UInt64Array};
use datafusion::arrow::datatypes::{Field, Schema};

use crate::error::Result;

/// A batch of columns, each with its name and whether it may be NULL.
///
/// # Errors
/// The columns do not have the same number of rows, or one has NULLs that it may not have.
pub(crate) fn batch(columns: Vec<(&str, bool, ArrayRef)>) -> Result<RecordBatch> {
    let field =
        |(name, nullable, values): &(&str, bool, ArrayRef)| Field::new(*name, values.data_type().clone(), *nullable);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    Ok(RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(.., values)| values).collect())?)
}

pub(crate) fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringViewArray>())
}

pub(crate) fn numbers(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.collect::<UInt64Array>())
}

pub(crate) fn booleans(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}
