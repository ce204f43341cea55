//! Types and columns without a form of their own, as Arrow IPC streams of one column.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;

fn schema_of(data_type: &DataType) -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("", data_type.clone(), true)]))
}

/// A stream with a schema and no rows.
pub fn encode_type(data_type: &DataType) -> Result<Vec<u8>, String> {
    let mut writer = StreamWriter::try_new(vec![], &schema_of(data_type)).map_err(|e| e.to_string())?;
    writer.finish().map_err(|e| e.to_string())?;
    writer.into_inner().map_err(|e| e.to_string())
}

/// The type in a stream of [`encode_type`].
pub fn decode_type(bytes: &[u8]) -> Result<DataType, String> {
    guarded(|| {
        let mut decoder = StreamDecoder::new();
        decoder.decode(&mut Buffer::from(bytes)).map_err(|e| e.to_string())?;
        let schema = decoder.schema().ok_or("an Arrow stream without schema")?;
        let field = schema.fields().first().ok_or("an Arrow schema without field")?;
        Ok(field.data_type().clone())
    })
}

/// Appends a stream with all rows of a column.
pub fn encode(array: &ArrayRef, out: &mut Vec<u8>) -> Result<(), String> {
    let schema = schema_of(array.data_type());
    let batch = RecordBatch::try_new(schema.clone(), vec![array.clone()]).map_err(|e| e.to_string())?;
    let mut writer = StreamWriter::try_new(out, &schema).map_err(|e| e.to_string())?;
    writer.write(&batch).map_err(|e| e.to_string())?;
    writer.finish().map_err(|e| e.to_string())
}

/// The column in a stream of [`encode`].
pub fn decode(body: Buffer, data_type: &DataType, rows: usize) -> Result<ArrayRef, String> {
    guarded(|| {
        let (mut decoder, mut body) = (StreamDecoder::new(), body);
        while !body.is_empty() {
            let Some(batch) = decoder.decode(&mut body).map_err(|e| e.to_string())? else { continue };
            let [column] = batch.columns() else { return Err("an Arrow batch without its one column".into()) };
            if column.data_type() != data_type || column.len() != rows {
                return Err(format!("{} rows of {} for {rows} of {data_type}", column.len(), column.data_type()));
            }
            return Ok(column.clone());
        }
        Err("an Arrow stream without rows".into())
    })
}

/// The Arrow library checks what it reads, but its decoder of flat buffers is not designed for hostile bytes. A panic
/// of it becomes an error here.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("the Arrow stream is damaged".into()))
}
