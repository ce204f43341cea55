//! `duckdb_secrets()`: the secrets of the session, with the columns that DuckDB gives them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, ListArray, RecordBatch, StringViewArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field};
use freestone_bucket::ShownSecret;

use super::columns::{batch, texts};
use crate::error::Result;

/// One row per secret.
pub(super) fn rows(secrets: &[ShownSecret]) -> Result<RecordBatch> {
    let text = |of: &dyn Fn(&ShownSecret) -> String| texts(secrets.iter().map(|secret| Some(of(secret))));
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    let lengths = OffsetBuffer::from_lengths(secrets.iter().map(|secret| secret.scopes.len()));
    let scopes: ArrayRef =
        Arc::new(StringViewArray::from_iter_values(secrets.iter().flat_map(|secret| &secret.scopes)));
    batch(vec![
        ("name", false, text(&|secret| secret.name.clone())),
        ("type", false, text(&|secret| secret.kind.to_owned())),
        ("provider", false, text(&|secret| secret.provider.to_owned())),
        ("persistent", false, Arc::new(BooleanArray::from(vec![false; secrets.len()]))),
        ("storage", false, text(&|_| "memory".to_owned())),
        ("scope", false, Arc::new(ListArray::try_new(item, lengths, scopes, None)?)),
        ("secret_string", false, text(&|secret| secret.text.clone())),
    ])
}
