//! Batches → files: `COPY … TO`. This is the inverse of [`crate::ingest`], which reads the files back unchanged.
//!
//! Several threads format text, which is written in the order of the rows. Columns of Parquet are encoded by several
//! threads. A file is renamed to its name when it is complete ([`target`]).

mod codec;
mod csv;
mod file_out;
mod options;
mod parquet;
mod partitions;
mod series;
mod target;
mod text_out;
mod times;

use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ARROW_SCHEMA_META_KEY;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use freestone_bucket::{Object, Place, Stores, has_scheme};
use futures::StreamExt;

use crate::display::{JsonValues, NonFinite, json_key};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::SECONDS_KEY;
use codec::Packing;
use csv::CsvForm;
use file_out::FileOut;
use parquet::ParquetForm;
pub(crate) use parquet::is_foreign;
use partitions::Folders;
pub(crate) use partitions::sorted;
pub(crate) use target::is_file;
use target::{Complete, NewFolders, Target, io_error};
use text_out::TextOut;
use times::TimeFormats;

/// The number of rows that are encoded at once.
const SLAB_ROWS: usize = 64 << 10;

/// The format and options of a file to be written.
#[derive(Debug, Clone)]
pub(crate) struct Export {
    path: String,
    form: Form,
    packing: Packing,
    threads: usize,
    /// How files are divided among folders; `None` for a single file.
    folders: Option<Folders>,
    new_folders: NewFolders,
    /// Whether a file is written if there are no rows.
    writes_empty: bool,
    /// Whether the statement returns the names of the files.
    returns_files: bool,
    /// The file, if it is elsewhere.
    object: Option<Object>,
}

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub rows: u64,
    /// The names of the files.
    pub files: Vec<String>,
}

/// Makes text from a batch.
type BatchText = Arc<dyn Fn(&RecordBatch) -> Result<String, ArrowError> + Send + Sync>;

#[derive(Debug, Clone)]
enum Form {
    Csv(CsvForm),
    /// One object per line, or all in one array.
    Json {
        array: bool,
        times: TimeFormats,
    },
    Parquet(ParquetForm),
    Arrow(Option<CompressionType>),
}

/// What a text file has around the texts of batches.
#[derive(Debug, Default)]
struct TextFrame {
    head: String,
    /// Between two texts.
    between: &'static str,
    tail: &'static str,
}

impl Export {
    /// The same for a file that may be elsewhere.
    ///
    /// # Errors
    /// Files cannot be written there, or not as several files.
    pub fn in_stores(self, stores: &Stores) -> Result<Export> {
        if !has_scheme(&self.path) {
            return Ok(self);
        }
        let place = Place::parse(&self.path).map_err(|error| Error::invalid(error.to_string()))?;
        if !place.is_listed() {
            let text = format!("cannot write {}: files are written to s3://, gs:// and az://", place.shown());
            return Err(Error::unsupported(text));
        }
        if self.folders.is_some() {
            return Err(Error::unsupported(format!(
                "{}: several files are written to folders of this machine",
                place.shown()
            ))
            .with_hint("write one file per statement: COPY (SELECT … WHERE …) TO 's3://bucket/file.parquet'"));
        }
        if place.path().is_empty() || place.path().ends_with('/') {
            return Err(Error::invalid(format!("{} is a folder: COPY … TO writes one file", place.shown()))
                .with_hint("name a file in it"));
        }
        let object = stores.file(&place).map_err(|error| io_error(Path::new(&self.path), &error))?;
        Ok(Export { object: Some(object), ..self })
    }

    /// The same with texts under keys in the file.
    ///
    /// # Errors
    /// Files of the format do not have them.
    pub fn with_metadata(self, metadata: Vec<(String, String)>) -> Result<Export> {
        let Form::Parquet(form) = self.form else {
            return Err(Error::invalid("KV_METADATA is an option of Parquet files"));
        };
        if let Some((key, _)) =
            metadata.iter().find(|(key, _)| [ARROW_SCHEMA_META_KEY, SECONDS_KEY].contains(&key.as_str()))
        {
            return Err(Error::invalid(format!("KV_METADATA: files have their types under the key {key}")));
        }
        Ok(Export { form: Form::Parquet(ParquetForm { metadata, ..form }), ..self })
    }

    pub fn returns_files(&self) -> bool {
        self.returns_files
    }

    /// Whether the last column of the rows is the place of each among those of its folder.
    pub fn has_places(&self) -> bool {
        self.folders.as_ref().is_some_and(|folders| folders.has_places)
    }

    /// The columns whose values name the folders. The rows to be written must be sorted by them.
    pub fn partition_by(&self) -> &[String] {
        self.folders.as_ref().map_or(&[], |folders| &folders.columns)
    }

    /// Writes all rows of a query.
    ///
    /// # Errors
    /// The query fails, or a file cannot be written.
    pub async fn write(self, rows: SendableRecordBatchStream) -> Result<Written> {
        if let Some(folders) = self.folders.clone() {
            return partitions::write(self, folders, rows).await;
        }
        let rows = match self.writes_empty {
            true => rows,
            false => match begun(rows).await? {
                Some(rows) => rows,
                None => return Ok(Written::default()),
            },
        };
        let (file, count) = self.write_file(rows).await?;
        blocking(move || file.publish()).await?;
        Ok(Written { rows: count, files: vec![self.path] })
    }

    /// Writes all rows to one file that does not have its final name yet.
    async fn write_file(&self, rows: SendableRecordBatchStream) -> Result<(Complete, u64)> {
        let schema = rows.schema();
        if let Some((frame, text)) = self.text_form(&schema)? {
            return self.write_text(self.target()?, rows, frame, text).await;
        }
        let out = FileOut::new(self, &schema)?;
        let write = |mut out: FileOut, slab: Vec<RecordBatch>| {
            slab.iter().try_for_each(|batch| out.write(batch))?;
            Ok(out)
        };
        let (out, count) = in_slabs(rows, out, write).await?;
        Ok((blocking(move || out.finish()).await?, count))
    }

    fn target(&self) -> Result<Target> {
        match &self.object {
            Some(object) => Ok(Target::upload(object)),
            None => Target::create(&self.path, &self.new_folders),
        }
    }

    /// How batches become text; `None` if the file is binary.
    fn text_form(&self, schema: &SchemaRef) -> Result<Option<(TextFrame, BatchText)>> {
        Ok(Some(match self.form.clone() {
            Form::Csv(form) => {
                let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                let forced = form.forced(schema)?;
                let frame = TextFrame { head: form.head(&names, &forced), ..TextFrame::default() };
                (frame, Arc::new(move |batch: &RecordBatch| form.lines(batch, &forced)))
            }
            Form::Json { array, times } => {
                let keys: Vec<String> = schema.fields().iter().map(|field| json_key(field.name())).collect();
                let frame = match array {
                    true => TextFrame { head: "[\n".into(), between: ",\n", tail: "\n]\n" },
                    false => TextFrame { between: "\n", tail: "\n", ..TextFrame::default() },
                };
                let between = frame.between;
                (frame, Arc::new(move |batch: &RecordBatch| json_objects(&keys, &times.as_texts(batch)?, between)))
            }
            Form::Parquet(_) | Form::Arrow(_) => return Ok(None),
        }))
    }

    /// Writes the text that threads make from batches.
    async fn write_text(
        &self,
        target: Target,
        rows: SendableRecordBatchStream,
        frame: TextFrame,
        text: BatchText,
    ) -> Result<(Complete, u64)> {
        let made = rows.map(move |batch| {
            let text = text.clone();
            async move {
                let batch = batch?;
                let rows = batch.num_rows() as u64;
                Ok::<_, Error>((blocking(move || Ok(text(&batch)?)).await?, rows))
            }
        });
        let mut made = made.buffered(self.threads);
        let mut out = TextOut::new(target, self.packing)?;
        out.write(frame.head.as_bytes())?;
        let mut count = 0;
        while let Some(lines) = made.next().await {
            let (lines, rows) = lines?;
            if rows > 0 {
                let between = if count > 0 { frame.between } else { "" };
                count += rows;
                out = blocking(move || {
                    out.write(between.as_bytes())?;
                    out.write(lines.as_bytes()).map(|()| out)
                })
                .await?;
            }
        }
        // Without rows, nothing ends.
        if count > 0 || !frame.head.is_empty() {
            out.write(frame.tail.as_bytes())?;
        }
        Ok((blocking(move || out.finish()).await?, count))
    }
}

/// The rows, of which there is one at least; `None` if there are none.
async fn begun(mut rows: SendableRecordBatchStream) -> Result<Option<SendableRecordBatchStream>> {
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            let schema = rows.schema();
            let all = futures::stream::iter([Ok(batch)]).chain(rows);
            return Ok(Some(Box::pin(RecordBatchStreamAdapter::new(schema, all))));
        }
    }
    Ok(None)
}

fn json_objects(keys: &[String], batch: &RecordBatch, between: &str) -> Result<String, ArrowError> {
    let columns = batch.columns().iter().map(|array| JsonValues::new(array.as_ref(), NonFinite::Named));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let mut objects = String::with_capacity(batch.num_rows() * keys.len() * 16);
    for row in 0..batch.num_rows() {
        if row > 0 {
            objects.push_str(between);
        }
        JsonValues::append_object(keys, &columns, row, &mut objects);
    }
    Ok(objects)
}

/// Collects rows and writes them slab by slab on a thread for blocking calls, while the next slab is collected.
async fn in_slabs<O: Send + 'static>(
    mut rows: SendableRecordBatchStream,
    out: O,
    write: impl Fn(O, Vec<RecordBatch>) -> Result<O> + Clone + Send + 'static,
) -> Result<(O, u64)> {
    let mut count = 0;
    let mut writing = tokio::task::spawn_blocking(move || Ok::<O, Error>(out));
    let joined = |error: tokio::task::JoinError| Error::new(ErrorKind::Internal, format!("internal error: {error}"));
    let mut is_done = false;
    while !is_done {
        let (mut slab, mut slab_rows) = (vec![], 0);
        while slab_rows < SLAB_ROWS {
            match rows.next().await {
                Some(Ok(batch)) => {
                    slab_rows += batch.num_rows();
                    slab.push(batch);
                }
                Some(Err(error)) => {
                    // The running write ends before the statement fails.
                    drop(writing.await);
                    return Err(error.into());
                }
                None => {
                    is_done = true;
                    break;
                }
            }
        }
        count += slab_rows as u64;
        let out = writing.await.map_err(joined)??;
        let write = write.clone();
        writing = tokio::task::spawn_blocking(move || write(out, slab));
    }
    let out = writing.await.map_err(joined)??;
    Ok((out, count))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_cancelled() => Err(Error::cancelled()),
        Err(error) => Err(Error::new(ErrorKind::Internal, format!("internal error: {error}"))),
    }
}
