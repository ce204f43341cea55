//! Batches → files: `COPY … TO`. This is the inverse of [`crate::ingest`], which reads the files back unchanged.
//!
//! Several threads format text, which is written in the order of the rows. Columns of Parquet are encoded by several
//! threads. A file is renamed to its name when it is complete ([`target`]).

mod codec;
mod csv;
mod options;
mod parquet;
mod partitions;
mod target;
mod times;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use ::parquet::errors::ParquetError;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use freestone_bucket::{Object, Place, Stores, has_scheme};
use freestone_store::plain::Strings;
use futures::StreamExt;

use crate::display::{JsonValues, NonFinite, json_key};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::with_uuid_names;
use codec::Packing;
use csv::CsvForm;
pub(crate) use parquet::is_foreign;
use parquet::{ParquetForm, ParquetOut};
use partitions::Folders;
pub(crate) use partitions::sorted;
pub(crate) use target::is_file;
use target::{Complete, NewFolders, Target, io_error};
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
    /// The file, if it is elsewhere.
    object: Option<Object>,
}

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
            return Err(Error::unsupported(format!("{}: PARTITION_BY writes folders of this machine", place.shown()))
                .with_hint("write one file per statement: COPY (SELECT … WHERE …) TO 's3://bucket/file.parquet'"));
        }
        if place.path().is_empty() || place.path().ends_with('/') {
            return Err(Error::invalid(format!("{} is a folder: COPY … TO writes one file", place.shown()))
                .with_hint("name a file in it"));
        }
        let object = stores.file(&place).map_err(|error| io_error(Path::new(&self.path), &error))?;
        Ok(Export { object: Some(object), ..self })
    }

    /// The columns whose values name the folders. The rows to be written must be sorted by them.
    pub fn partition_by(&self) -> &[String] {
        self.folders.as_ref().map_or(&[], |folders| &folders.columns)
    }

    /// Writes all rows of a query, and returns their number.
    ///
    /// # Errors
    /// The query fails, or the file cannot be written.
    pub async fn write(self, rows: SendableRecordBatchStream) -> Result<u64> {
        if let Some(folders) = self.folders.clone() {
            return partitions::write(self, folders, rows).await;
        }
        let (file, count) = self.write_file(rows).await?;
        blocking(move || file.publish()).await?;
        Ok(count)
    }

    /// Writes all rows to one file that does not have its final name yet.
    async fn write_file(self, rows: SendableRecordBatchStream) -> Result<(Complete, u64)> {
        if let Form::Parquet(_) = self.form {
            parquet::check_types(&rows.schema())?;
        }
        let target = match &self.object {
            Some(object) => Target::upload(object),
            None => Target::create(&self.path, &self.new_folders)?,
        };
        match self.form.clone() {
            Form::Csv(form) => {
                let schema = rows.schema();
                let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                let forced = form.forced(&schema)?;
                let frame = TextFrame { head: form.head(&names, &forced), ..TextFrame::default() };
                self.write_text(target, rows, frame, move |batch| form.lines(batch, &forced)).await
            }
            Form::Json { array, times } => {
                let keys: Vec<String> = rows.schema().fields().iter().map(|field| json_key(field.name())).collect();
                let frame = match array {
                    true => TextFrame { head: "[\n".into(), between: ",\n", tail: "\n]\n" },
                    false => TextFrame { between: "\n", tail: "\n", ..TextFrame::default() },
                };
                let between = frame.between;
                self.write_text(target, rows, frame, move |batch| json_objects(&keys, &times.as_texts(batch)?, between))
                    .await
            }
            Form::Parquet(form) => {
                let failed = |error: ParquetError| parquet_error(&self.path, &error);
                let out = ParquetOut::new(target, &Strings::Plain.schema(&rows.schema()), form).map_err(failed)?;
                let (out, count) = in_slabs(rows, out, move |mut out, slab| {
                    let slab =
                        slab.into_iter().map(|batch| Strings::Plain.batch(batch)).collect::<Result<Vec<_>, _>>()?;
                    out.write(&slab)?;
                    Ok(out)
                })
                .await
                .map_err(|error| error.into_error(&self.path))?;
                let path = self.path.clone();
                let target = blocking(move || out.finish().map_err(|error| parquet_error(&path, &error))).await?;
                Ok((blocking(move || target.complete()).await?, count))
            }
            Form::Arrow(compression) => {
                let schema = with_uuid_names(&Strings::Plain.schema(&rows.schema()));
                let failed = |error: ArrowError| write_error(&self.path, error);
                let options = IpcWriteOptions::default().try_with_compression(compression).map_err(failed)?;
                let out = FileWriter::try_new_with_options(BufWriter::new(target), &schema, options).map_err(failed)?;
                let (out, count) = in_slabs(rows, out, move |mut out, slab| {
                    for batch in slab {
                        out.write(&Strings::Plain.batch(batch)?)?;
                    }
                    Ok(out)
                })
                .await
                .map_err(|error| error.into_error(&self.path))?;
                let path = self.path.clone();
                let file = blocking(move || {
                    let mut out = out;
                    out.finish().map_err(|error| write_error(&path, error))?;
                    let written = out.into_inner().map_err(|error| write_error(&path, error))?;
                    into_target(written)?.complete()
                });
                Ok((file.await?, count))
            }
        }
    }

    /// Writes the text that threads make from batches.
    async fn write_text(
        &self,
        target: Target,
        rows: SendableRecordBatchStream,
        frame: TextFrame,
        text: impl Fn(&RecordBatch) -> Result<String, ArrowError> + Send + Sync + 'static,
    ) -> Result<(Complete, u64)> {
        let text = Arc::new(text);
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

/// A text file, compressed or not.
enum TextOut {
    Plain(BufWriter<Target>),
    Gzip(flate2::write::GzEncoder<BufWriter<Target>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<Target>>),
    Bzip2(bzip2::write::BzEncoder<BufWriter<Target>>),
}

impl TextOut {
    fn new(target: Target, packing: Packing) -> Result<Self> {
        let out = BufWriter::with_capacity(1 << 20, target);
        Ok(match packing {
            Packing::None => TextOut::Plain(out),
            Packing::Gzip(level) => TextOut::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::new(level))),
            Packing::Zstd(level) => match zstd::stream::write::Encoder::new(out, level) {
                Ok(out) => TextOut::Zstd(out),
                Err(error) => return Err(Error::new(ErrorKind::Io, error.to_string())),
            },
            Packing::Bzip2(level) => TextOut::Bzip2(bzip2::write::BzEncoder::new(out, bzip2::Compression::new(level))),
        })
    }

    fn target(&self) -> &Target {
        match self {
            TextOut::Plain(out) => out.get_ref(),
            TextOut::Gzip(out) => out.get_ref().get_ref(),
            TextOut::Zstd(out) => out.get_ref().get_ref(),
            TextOut::Bzip2(out) => out.get_ref().get_ref(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match self {
            TextOut::Plain(out) => out.write_all(bytes),
            TextOut::Gzip(out) => out.write_all(bytes),
            TextOut::Zstd(out) => out.write_all(bytes),
            TextOut::Bzip2(out) => out.write_all(bytes),
        };
        written.map_err(|error| self.target().failed(&error))
    }

    fn finish(self) -> Result<Complete> {
        let path = self.target().path().to_path_buf();
        let failed = |error: std::io::Error| io_error(&path, &error);
        let out = match self {
            TextOut::Plain(out) => out,
            TextOut::Gzip(out) => out.finish().map_err(failed)?,
            TextOut::Zstd(out) => out.finish().map_err(failed)?,
            TextOut::Bzip2(out) => out.finish().map_err(failed)?,
        };
        into_target(out)?.complete()
    }
}

fn into_target(out: BufWriter<Target>) -> Result<Target> {
    out.into_inner().map_err(|error| {
        let (error, out) = error.into_parts();
        out.get_ref().failed(&error)
    })
}

/// The errors of writing slabs: of the query, or of the file.
enum SlabError {
    Query(Error),
    Parquet(ParquetError),
    Arrow(ArrowError),
}

impl From<ParquetError> for SlabError {
    fn from(error: ParquetError) -> Self {
        SlabError::Parquet(error)
    }
}

impl From<ArrowError> for SlabError {
    fn from(error: ArrowError) -> Self {
        SlabError::Arrow(error)
    }
}

impl SlabError {
    fn into_error(self, path: &str) -> Error {
        match self {
            SlabError::Query(error) => error,
            SlabError::Parquet(error) => parquet_error(path, &error),
            SlabError::Arrow(error) => write_error(path, error),
        }
    }
}

/// Collects rows and writes them slab by slab on a thread for blocking calls, while the next slab is collected.
async fn in_slabs<O: Send + 'static>(
    mut rows: SendableRecordBatchStream,
    out: O,
    write: impl Fn(O, Vec<RecordBatch>) -> std::result::Result<O, SlabError> + Clone + Send + 'static,
) -> std::result::Result<(O, u64), SlabError> {
    let mut count = 0;
    let mut writing = tokio::task::spawn_blocking(move || Ok::<O, SlabError>(out));
    let joined = |error: tokio::task::JoinError| {
        SlabError::Query(Error::new(ErrorKind::Internal, format!("internal error: {error}")))
    };
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
                    return Err(SlabError::Query(error.into()));
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

fn parquet_error(path: &str, error: &ParquetError) -> Error {
    let text = error.to_string();
    let text = text.strip_prefix("External: ").unwrap_or(&text);
    let kind = if matches!(error, ParquetError::NYI(_)) { ErrorKind::Unsupported } else { ErrorKind::Io };
    Error::new(kind, format!("cannot write {path}: {text}"))
}

fn write_error(path: &str, error: ArrowError) -> Error {
    let error = Error::from(error);
    Error::new(error.kind(), format!("cannot write {path}: {error}"))
}
