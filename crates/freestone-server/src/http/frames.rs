//! The frames of a result: a byte for the kind, the length of the payload as u32 in little-endian order, and the payload.
//!
//! | kind | payload |
//! |---|---|
//! | `S` | JSON: a statement begins |
//! | `A` | the next bytes of the statement's Arrow IPC stream |
//! | `P` | JSON: how far the statement has come |
//! | `N` | JSON: a notice |
//! | `D` | JSON: the statement is complete |
//! | `E` | JSON: the statement has failed. This is the last frame |

use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use axum::body::Bytes;

/// The type of an answer of frames.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.freestone.frames";

pub(crate) const STATEMENT: u8 = b'S';
pub(crate) const ARROW: u8 = b'A';
pub(crate) const PROGRESS: u8 = b'P';
pub(crate) const NOTICE: u8 = b'N';
pub(crate) const DONE: u8 = b'D';
pub(crate) const ERROR: u8 = b'E';

/// The bytes before the payload.
const HEAD: usize = 5;

/// A frame of JSON.
pub(crate) fn json(kind: u8, value: &serde_json::Value) -> Bytes {
    let mut bytes = vec![0; HEAD];
    // Neither a value without maps of other keys than texts, nor a vector, refuses to be written.
    let _ = serde_json::to_writer(&mut bytes, value);
    framed(kind, bytes).unwrap_or_default()
}

/// Fills in the head of a frame; `None` if its payload is too long for its length.
fn framed(kind: u8, mut bytes: Vec<u8>) -> Option<Bytes> {
    let length = u32::try_from(bytes.len().checked_sub(HEAD)?).ok()?;
    let (first, rest) = bytes.split_first_mut()?;
    *first = kind;
    rest.get_mut(..4)?.copy_from_slice(&length.to_le_bytes());
    Some(bytes.into())
}

/// The Arrow IPC stream of a statement, as frames.
pub(crate) struct ArrowFrames {
    writer: StreamWriter<Vec<u8>>,
}

impl ArrowFrames {
    /// Begins with the schema.
    ///
    /// # Errors
    /// A type cannot be written.
    pub fn begin(schema: &Schema) -> Result<(ArrowFrames, Bytes), ArrowError> {
        let mut frames = ArrowFrames { writer: StreamWriter::try_new(vec![0; HEAD], schema)? };
        let first = frames.take()?;
        Ok((frames, first))
    }

    /// The frame of some rows.
    ///
    /// # Errors
    /// A row has more bytes than a frame can have.
    pub fn rows(&mut self, batch: &RecordBatch) -> Result<Bytes, ArrowError> {
        self.writer.write(batch)?;
        self.take()
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// None that is expected.
    pub fn end(mut self) -> Result<Bytes, ArrowError> {
        self.writer.finish()?;
        self.take()
    }

    fn take(&mut self) -> Result<Bytes, ArrowError> {
        let written = std::mem::replace(self.writer.get_mut(), vec![0; HEAD]);
        let length = written.len();
        framed(ARROW, written).ok_or_else(|| {
            ArrowError::InvalidArgumentError(format!("a row has {length} bytes, more than a page can be sent"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field};
    use arrow::ipc::reader::StreamReader;

    use super::*;

    #[test]
    fn frames_have_kind_and_length() {
        let frame = json(PROGRESS, &serde_json::json!({ "ms": 1 }));
        assert_eq!(&frame[..], b"P\x08\0\0\0{\"ms\":1}");
    }

    #[test]
    fn arrow_frames_are_one_stream() {
        let fields = vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Utf8, true)];
        let schema = Arc::new(Schema::new(fields));
        let batch = |from: i64| {
            let columns: [arrow::array::ArrayRef; 2] = [
                Arc::new(Int64Array::from_iter_values(from..from + 3)),
                Arc::new(StringArray::from(vec![Some("x"), None, Some("<b>")])),
            ];
            RecordBatch::try_new(schema.clone(), columns.to_vec()).expect("a batch")
        };
        let (mut frames, first) = ArrowFrames::begin(&schema).expect("a schema");
        let mut all = vec![first, frames.rows(&batch(0)).expect("rows"), frames.rows(&batch(3)).expect("rows")];
        all.push(frames.end().expect("an end"));
        let mut stream = vec![];
        for frame in &all {
            assert_eq!(frame[0], ARROW);
            let length = u32::from_le_bytes(frame[1..5].try_into().expect("four bytes")) as usize;
            assert_eq!(frame.len(), HEAD + length);
            stream.extend_from_slice(&frame[HEAD..]);
        }
        let read: Vec<_> =
            StreamReader::try_new(&stream[..], None).expect("a stream").map(|b| b.expect("rows")).collect();
        assert_eq!(read, [batch(0), batch(3)]);
    }
}
