//! Batches → files: `COPY … TO`. This is the inverse of [`crate::ingest`], which reads the files back unchanged.
//!
//! Several threads format text, which is written in the order of the rows. Columns of Parquet are encoded by several
//! threads. A file is renamed to its name when it is complete ([`target`]).

mod codec;
mod csv;
mod parquet;
mod partitions;
mod target;

use std::io::{BufWriter, Write};
use std::sync::Arc;

use ::parquet::errors::ParquetError;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use freestone_store::plain::Strings;
use futures::StreamExt;

use crate::display::{JsonValues, NonFinite, json_key};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{FileFormat, with_uuid_names};
use crate::provider::files::{boolean, byte, number, unknown_format};
use crate::sql::statement::OptionList;
use codec::{Codec, Packing};
use csv::CsvForm;
use parquet::{ParquetForm, ParquetOut};
pub(crate) use partitions::sorted;
pub(crate) use target::is_file;
use target::{Complete, NewFolders, Target, io_error};

const OPTIONS: &str = "FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, COMPRESSION, COMPRESSION_LEVEL, ROW_GROUP_SIZE, \
                       PARTITION_BY";

/// The number of rows that are encoded at once.
const SLAB_ROWS: usize = 64 << 10;

/// The format and options of a file to be written.
#[derive(Debug, Clone)]
pub(crate) struct Export {
    path: String,
    form: Form,
    packing: Packing,
    threads: usize,
    /// The extension of the files within folders.
    extension: String,
    /// The columns whose values name the folders; empty for a single file.
    partition_by: Vec<String>,
    folders: NewFolders,
}

#[derive(Debug, Clone)]
enum Form {
    Csv(CsvForm),
    /// One object per line.
    Json,
    Parquet(ParquetForm),
    Arrow(Option<CompressionType>),
}

impl Export {
    /// A file at `path`, with the options of COPY and the format of its extension. Row groups have at most
    /// `row_group_rows` rows.
    ///
    /// # Errors
    /// An option is unknown or invalid, or the format is not known.
    pub fn new(path: &str, options: &OptionList, threads: usize, row_group_rows: usize) -> Result<Export> {
        let given =
            |name: &str| options.iter().rev().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, v)| v);
        let extension = FileFormat::extension_of(path.as_ref());
        let named = given("format").map(|format| format.to_ascii_lowercase());
        let Some(kind) = named.or(extension) else {
            return Err(Error::invalid(format!("cannot tell the format of {path} from its name"))
                .with_hint("say it: (FORMAT csv | json | parquet | arrow)"));
        };
        let format = FileFormat::of_path(format!("x.{kind}").as_ref()).ok_or_else(|| unknown_format(&kind))?;
        let mut csv = CsvForm { header: true, delimiter: b',', quote: b'"', escape: b'"', null: String::new() };
        match kind.as_str() {
            "tsv" => csv.delimiter = b'\t',
            "tbl" => csv.delimiter = b'|',
            _ => {}
        }
        let mut rows = row_group_rows;
        let mut escape = None;
        for (name, value) in options {
            match (format, name.to_ascii_lowercase().as_str()) {
                (_, "format" | "compression" | "codec" | "compression_level" | "partition_by") => {}
                (FileFormat::Csv, "header") => csv.header = boolean(name, value)?,
                (FileFormat::Csv, "delimiter" | "delim" | "sep") => csv.delimiter = byte(name, value)?,
                (FileFormat::Csv, "quote") => csv.quote = byte(name, value)?,
                (FileFormat::Csv, "escape") => escape = Some(byte(name, value)?),
                (FileFormat::Csv, "null" | "nullstr") => csv.null = value.clone(),
                // They say how a file is written, and not what it has.
                (_, "use_tmp_file" | "preserve_order") => drop(boolean(name, value)?),
                (
                    FileFormat::Parquet,
                    "parquet_version"
                    | "dictionary_size_limit"
                    | "string_dictionary_page_size_limit"
                    | "write_bloom_filter"
                    | "bloom_filter_false_positive_ratio"
                    | "row_group_size_bytes",
                ) => {}
                (FileFormat::Parquet, "row_group_size") => rows = number(name, value)?.max(1),
                _ => {
                    return Err(Error::invalid(format!("unknown option {name} for COPY TO {kind}"))
                        .with_hint(format!("the options are {OPTIONS}, each where its format has it")));
                }
            }
        }
        csv.escape = escape.unwrap_or(csv.quote);
        check(&csv)?;
        let codec = Codec::read(given("compression").or_else(|| given("codec")), given("compression_level"))?;
        let (form, packing) = match format {
            FileFormat::Csv => (Form::Csv(csv), codec.packing(path)?),
            FileFormat::Json => (Form::Json, codec.packing(path)?),
            FileFormat::Parquet => {
                let compression = codec.parquet()?;
                (Form::Parquet(ParquetForm { compression, row_group_rows: rows, threads }), Packing::None)
            }
            FileFormat::Arrow => (Form::Arrow(codec.arrow()?), Packing::None),
            FileFormat::Excel => {
                let error = Error::unsupported("spreadsheets are read, not written");
                return Err(error.with_hint("write CSV, which spreadsheets open: COPY … TO 'file.csv'"));
            }
        };
        let partition_by = given("partition_by").map_or_else(Vec::new, |columns| columns_of(columns));
        let extension = match packing {
            Packing::None => kind,
            Packing::Gzip(_) => format!("{kind}.gz"),
            Packing::Zstd(_) => format!("{kind}.zst"),
            Packing::Bzip2(_) => format!("{kind}.bz2"),
        };
        let (path, threads, folders) = (path.to_owned(), threads.max(1), NewFolders::default());
        Ok(Export { path, form, packing, threads, extension, partition_by, folders })
    }

    /// The columns whose values name the folders. The rows to be written must be sorted by them.
    pub fn partition_by(&self) -> &[String] {
        &self.partition_by
    }

    /// Writes all rows of a query, and returns their number.
    ///
    /// # Errors
    /// The query fails, or the file cannot be written.
    pub async fn write(self, rows: SendableRecordBatchStream) -> Result<u64> {
        if !self.partition_by.is_empty() {
            return partitions::write(self, rows).await;
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
        let target = Target::create(&self.path, &self.folders)?;
        match self.form.clone() {
            Form::Csv(form) => {
                let schema = rows.schema();
                let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                let head = form.head(&names);
                self.write_text(target, rows, head, move |batch| form.lines(batch)).await
            }
            Form::Json => {
                let keys: Vec<String> = rows.schema().fields().iter().map(|field| json_key(field.name())).collect();
                self.write_text(target, rows, String::new(), move |batch| json_lines(&keys, batch)).await
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
        head: String,
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
        out.write(head.as_bytes())?;
        let mut count = 0;
        while let Some(lines) = made.next().await {
            let (lines, rows) = lines?;
            count += rows;
            out = blocking(move || out.write(lines.as_bytes()).map(|()| out)).await?;
        }
        Ok((blocking(move || out.finish()).await?, count))
    }
}

/// The names of a list of columns, `(a, "b c")`, or of one column.
fn columns_of(text: &str) -> Vec<String> {
    let inner = text.trim();
    let inner = inner.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(inner);
    let mut names = vec![];
    let mut rest = inner.trim_start();
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
            Some((name, after)) => (name, after.trim_start().strip_prefix(',').unwrap_or("")),
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        names.push(name.trim().to_owned());
        rest = after.trim_start();
    }
    names
}

fn check(csv: &CsvForm) -> Result<()> {
    let usable = |byte: u8| byte.is_ascii() && !matches!(byte, 0 | b'\n' | b'\r');
    if !usable(csv.delimiter) || !usable(csv.quote) || !usable(csv.escape) {
        return Err(Error::invalid("DELIMITER, QUOTE and ESCAPE must be single ASCII characters and no line ends"));
    }
    if csv.delimiter == csv.quote || csv.delimiter == csv.escape {
        return Err(Error::invalid("DELIMITER must differ from QUOTE and ESCAPE"));
    }
    let structure = |byte: u8| byte == csv.delimiter || byte == csv.quote || matches!(byte, b'\n' | b'\r');
    if csv.null.bytes().any(structure) {
        return Err(Error::invalid("NULL must hold no DELIMITER, QUOTE or line end"));
    }
    Ok(())
}

fn json_lines(keys: &[String], batch: &RecordBatch) -> Result<String, ArrowError> {
    let columns = batch.columns().iter().map(|array| JsonValues::new(array.as_ref(), NonFinite::Named));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let mut lines = String::with_capacity(batch.num_rows() * keys.len() * 16);
    for row in 0..batch.num_rows() {
        JsonValues::append_object(keys, &columns, row, &mut lines);
        lines.push('\n');
    }
    Ok(lines)
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
