//! Arrow IPC files (and Feather version 2) and streams. Decoding is mostly copying, so one thread does it.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field as ColumnField, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::root_as_message;

use super::IngestOptions;
use super::arrow_file::{BlockReader, check_types};
use super::blocks::CHANGED;
use super::convert::{ColumnMatch, Location, conform, table_fields, table_type};
use super::error::{IngestError, Reason, arrow_text};
use super::fixed_bytes::{is_uuid, with_uuid_texts};
use super::parallel::{MorselEnd, MorselError, Ordered, Source, Worker, guarded};
use crate::durations::without_durations;

/// The maximum number of rows of a batch. Values of type Null take no bytes, so a damaged file could claim any number.
const BATCH_ROWS_MAX: usize = 1 << 31;

const STREAM_READ_BYTES: usize = 4 << 20;

/// The columns that the file declares, with the types that tables use for them.
pub(super) fn schema(path: &Path) -> Result<SchemaRef, IngestError> {
    let (schema, _) = open(path)?;
    let text = |field: &ColumnField| ColumnField::new(field.name(), DataType::Utf8View, field.is_nullable());
    let fields = schema.fields().iter().map(|field| if is_uuid(field) { Arc::new(text(field)) } else { field.clone() });
    Ok(Arc::new(Schema::new(table_fields(&path.display().to_string(), &fields.collect())?)))
}

/// Starts the thread that reads an Arrow file as batches of `schema`.
pub(super) fn read(path: &Path, schema: &SchemaRef, options: &IngestOptions) -> Result<Ordered, IngestError> {
    let (_, batches) = open(path)?;
    let worker = IpcWorker { schema: Arc::clone(schema), batch_rows: options.batch_rows.max(1) };
    Ordered::start(path.display().to_string(), WholeFile(Some((path.to_path_buf(), batches))), vec![worker])
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// An Arrow file whose schema was read.
#[derive(Debug)]
pub(crate) struct ArrowFile {
    path: PathBuf,
    schema: SchemaRef,
    /// Batches that can be read in any order; `None` in a stream.
    batches: Option<usize>,
}

impl ArrowFile {
    pub fn open(path: &Path) -> Result<Self, IngestError> {
        let (schema, batches) = match opened(path, None)? {
            Opened::File(reader) => (reader.schema(), Some(reader.batches())),
            Opened::Stream(schema, _) => (schema, None),
        };
        Ok(Self { path: path.to_path_buf(), schema, batches })
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The type of a column in a query, which may be one that tables cannot store.
    pub fn query_type(&self, column: usize) -> DataType {
        let field = self.schema.field(column);
        match field.data_type() {
            DataType::Null => DataType::Null,
            _ if is_uuid(field) => DataType::Utf8View,
            own => table_type(own).unwrap_or_else(|| without_durations(own)),
        }
    }

    pub fn batches(&self) -> Option<usize> {
        self.batches
    }

    /// A reader of some of the columns, in this order.
    pub fn reader(&self, columns: &[usize]) -> Result<ArrowReader, IngestError> {
        // The number of rows can only be checked if a column is read.
        let counted = || self.schema.fields().iter().position(|field| field.data_type() != &DataType::Null);
        let read = if columns.is_empty() { counted().into_iter().collect() } else { columns.to_vec() };
        let opened = opened(&self.path, Some(&read))?;
        let columns = columns.to_vec();
        let found = match &opened {
            Opened::File(reader) => reader.schema(),
            Opened::Stream(schema, _) => Arc::clone(schema),
        };
        if found.fields() != self.schema.fields() {
            return Err(IngestError::new(self.path.display().to_string(), Reason::Io(CHANGED.into())));
        }
        Ok(ArrowReader { path: self.path.clone(), opened, columns })
    }
}

/// A reader of an Arrow file's batches.
pub(crate) struct ArrowReader {
    path: PathBuf,
    opened: Opened,
    columns: Vec<usize>,
}

impl ArrowReader {
    /// Moves to a batch of a file; not for streams.
    pub fn seek(&mut self, batch: usize) -> Result<(), IngestError> {
        match &mut self.opened {
            Opened::File(reader) => reader.seek(batch).map_err(|error| malformed(&self.path, &arrow_text(&error))),
            Opened::Stream(..) => Ok(()),
        }
    }

    /// The next batch, with the requested columns.
    pub fn next(&mut self) -> Result<Option<RecordBatch>, IngestError> {
        let (path, opened, columns) = (&self.path, &mut self.opened, &self.columns);
        guarded(&path.display().to_string(), || {
            let next = match opened {
                Opened::File(reader) if columns.is_empty() => reader.next().map(|batch| batch?.project(&[])),
                Opened::File(reader) => reader.next(),
                Opened::Stream(_, batches) => batches.next().map(|batch| batch?.project(columns)),
            };
            let next = next.transpose().map_err(|error| malformed(path, &arrow_text(&error)))?;
            match next.as_ref().map(RecordBatch::num_rows) {
                Some(rows) if rows > BATCH_ROWS_MAX => Err(malformed(path, &format!("a batch claims {rows} rows"))),
                _ => Ok(next),
            }
        })
    }
}

fn malformed(path: &Path, text: &str) -> IngestError {
    IngestError::new(path.display().to_string(), Reason::Malformed(format!("not a readable Arrow file: {text}")))
}

enum Opened {
    File(Box<BlockReader>),
    Stream(SchemaRef, Batches),
}

fn open(path: &Path) -> Result<(SchemaRef, Batches), IngestError> {
    Ok(match opened(path, None)? {
        Opened::File(reader) => (reader.schema(), reader as Batches),
        Opened::Stream(schema, batches) => (schema, batches),
    })
}

/// Opens a file or a stream; a file's reader gives these columns only.
fn opened(path: &Path, columns: Option<&[usize]>) -> Result<Opened, IngestError> {
    let failed = |error: std::io::Error| IngestError::io(path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(IngestError::new(path.display().to_string(), Reason::Io("it is a folder".into())));
    }
    let length = metadata.len();
    let mut head = Vec::new();
    file.by_ref().take(8).read_to_end(&mut head).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let is_file = head.starts_with(b"ARROW1");
    if !is_file && !starts_a_stream(&head, length) {
        let old = "it is of Feather's version 1: convert it with pandas.read_feather('…').to_parquet('…')";
        let other = "it starts with neither an IPC file's mark nor a message";
        return Err(malformed(path, if head.starts_with(b"FEA1") { old } else { other }));
    }
    guarded(&path.display().to_string(), || {
        let opened = if is_file {
            BlockReader::open(file, length, columns).map(|reader| Opened::File(Box::new(reader)))
        } else {
            StreamBatches::open(file).map(|(schema, batches)| Opened::Stream(schema, batches))
        };
        opened.map_err(|error| malformed(path, &arrow_text(&error)))
    })
}

/// The batches of a stream. The decoder gets bytes as they are read, so a message that claims to be longer than the
/// rest of the file needs no additional memory.
struct StreamBatches {
    file: File,
    decoder: StreamDecoder,
    bytes: Buffer,
    ended: bool,
}

impl StreamBatches {
    fn open(file: File) -> Result<(SchemaRef, Batches), ArrowError> {
        let mut this =
            Self { file, decoder: StreamDecoder::new(), bytes: Buffer::from(Vec::<u8>::new()), ended: false };
        // The schema is a separate message, which is read before the first batch.
        this.fill()?;
        check_first_types(&this.bytes)?;
        while this.decoder.schema().is_none() {
            if !this.fill()? {
                return Err(ArrowError::ParseError("it ends before its schema".into()));
            }
            let mut head = this.bytes.slice_with_length(0, 1);
            this.bytes.advance(1);
            this.decoder.decode(&mut head)?;
        }
        let schema = this.decoder.schema().ok_or_else(|| ArrowError::ParseError("no schema".into()))?;
        Ok((schema, Box::new(this)))
    }

    /// Reads more bytes when all have been used. False at the end of the file.
    fn fill(&mut self) -> Result<bool, ArrowError> {
        if self.bytes.is_empty() {
            let mut bytes = Vec::with_capacity(STREAM_READ_BYTES);
            self.file.by_ref().take(STREAM_READ_BYTES as u64).read_to_end(&mut bytes)?;
            self.bytes = Buffer::from(bytes);
        }
        Ok(!self.bytes.is_empty())
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while self.fill()? {
            if let Some(batch) = self.decoder.decode(&mut self.bytes)? {
                return Ok(Some(batch));
            }
        }
        self.decoder.finish().map(|()| None)
    }
}

impl Iterator for StreamBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_batch().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Refuses types that the decoder does not know in the first message of a stream. A damaged message is not its concern.
fn check_first_types(stream: &[u8]) -> Result<(), ArrowError> {
    let message = match stream {
        [0xff, 0xff, 0xff, 0xff, _, _, _, _, message @ ..] | [_, _, _, _, message @ ..] => message,
        _ => return Ok(()),
    };
    match root_as_message(message).ok().and_then(|message| message.header_as_schema()) {
        Some(schema) => check_types(schema),
        None => Ok(()),
    }
}

/// Whether a file is a stream: it begins with the length of its first message, after four bytes 0xff since format
/// version 5.
fn starts_a_stream(head: &[u8], file_bytes: u64) -> bool {
    let length = match head {
        [0xff, 0xff, 0xff, 0xff, a, b, c, d] => i32::from_le_bytes([*a, *b, *c, *d]),
        [a, b, c, d, ..] => i32::from_le_bytes([*a, *b, *c, *d]),
        _ => return false,
    };
    u64::try_from(length).is_ok_and(|length| (1..=file_bytes).contains(&length))
}

struct WholeFile(Option<(PathBuf, Batches)>);

impl Source for WholeFile {
    type Morsel = (PathBuf, Batches);

    fn next_morsel(&mut self) -> Option<Self::Morsel> {
        self.0.take()
    }
}

struct IpcWorker {
    schema: SchemaRef,
    batch_rows: usize,
}

impl Worker<(PathBuf, Batches)> for IpcWorker {
    fn run(
        &mut self,
        (path, batches): (PathBuf, Batches),
        emit: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<MorselEnd, MorselError> {
        let failed = |error| MorselError { error, line: None, row: None };
        let mut location = Location { source: String::new(), first_row: 1 };
        for batch in batches {
            let batch = batch.map_err(|error| {
                let text = format!("not a readable Arrow file: {}", arrow_text(&error));
                failed(IngestError::new(path.display().to_string(), Reason::Malformed(text)))
            })?;
            // A writer may put everything into one batch.
            let batch = with_uuid_texts(batch, &self.schema, is_uuid);
            for offset in (0..batch.num_rows()).step_by(self.batch_rows) {
                let slice = batch.slice(offset, self.batch_rows.min(batch.num_rows() - offset));
                let converted = conform(&slice, &self.schema, ColumnMatch::Name, &location).map_err(failed)?;
                location.first_row += slice.num_rows() as u64;
                if !emit(converted) {
                    return Ok(MorselEnd::default());
                }
            }
        }
        Ok(MorselEnd { lines: 0, rows: location.first_row - 1, bytes: 0 })
    }
}
