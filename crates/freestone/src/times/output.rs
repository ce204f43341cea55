//! Timestamps with a time zone in results: they are stored as instants and shown in the session's time zone.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::arrays::exact_cast;
use super::zone::Zone;

/// The schema with the session's zone in the types of its timestamps.
pub(crate) fn shown_schema(schema: SchemaRef, options: &ConfigOptions) -> SchemaRef {
    let zone = Zone::of_session(options);
    if is_shown_as_stored(&schema, options) {
        return schema;
    }
    let name: Arc<str> = zone.name().into();
    let shown = |field: &Arc<Field>| match field.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let shown = DataType::Timestamp(*unit, Some(name.clone()));
            Arc::new(field.as_ref().clone().with_data_type(shown))
        }
        _ => field.clone(),
    };
    let fields: Vec<_> = schema.fields().iter().map(shown).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Whether a result can be shown without changing time zones.
pub(crate) fn is_shown_as_stored(schema: &Schema, options: &ConfigOptions) -> bool {
    let zoned = |field: &Arc<Field>| matches!(field.data_type(), DataType::Timestamp(_, Some(_)));
    Zone::of_session(options).is_utc() || !schema.fields().iter().any(zoned)
}

/// The rows with timestamps in the session's time zone.
pub(crate) fn in_zone_of_session(
    stream: SendableRecordBatchStream,
    options: &ConfigOptions,
) -> SendableRecordBatchStream {
    let schema = shown_schema(stream.schema(), options);
    if Arc::ptr_eq(&schema, &stream.schema()) {
        return stream;
    }
    let target = schema.clone();
    let rows = stream.map(move |batch| moved(&batch?, &target));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn moved(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns: Vec<ArrayRef> =
        columns.map(|(column, field)| exact_cast(column, field.data_type())).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}
