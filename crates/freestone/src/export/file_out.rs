//! A file of any format, which is written batch by batch.

use std::io::BufWriter;

use ::parquet::errors::ParquetError;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use arrow::record_batch::RecordBatch;
use freestone_store::plain::Strings;

use super::parquet::{ParquetOut, check_types};
use super::target::{Complete, Target};
use super::text_out::{TextOut, bytes_of, into_target};
use super::{BatchText, Export, Form, TextFrame};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::with_uuid_names;

/// A file that is being written.
pub(super) struct FileOut {
    path: String,
    out: Out,
}

enum Out {
    Text { out: Box<TextOut>, frame: TextFrame, text: BatchText, is_begun: bool },
    Parquet(Box<ParquetOut>),
    Arrow(Box<FileWriter<BufWriter<Target>>>),
}

impl FileOut {
    pub fn new(export: &Export, schema: &SchemaRef) -> Result<FileOut> {
        let path = export.path.clone();
        if let Form::Parquet(_) = export.form {
            check_types(schema)?;
        }
        let text = export.text_form(schema)?;
        let target = export.target()?;
        let out = match (text, export.form.clone()) {
            (Some((frame, text)), _) => {
                let mut out = TextOut::new(target, export.packing)?;
                out.write(frame.head.as_bytes())?;
                Out::Text { out: Box::new(out), frame, text, is_begun: false }
            }
            (None, Form::Parquet(form)) => {
                let out = ParquetOut::new(target, &Strings::Plain.schema(schema), form);
                Out::Parquet(Box::new(out.map_err(|error| parquet_error(&path, &error))?))
            }
            (None, Form::Arrow(compression)) => {
                let schema = with_uuid_names(&Strings::Plain.schema(schema));
                let failed = |error: ArrowError| write_error(&path, error);
                let options = IpcWriteOptions::default().try_with_compression(compression).map_err(failed)?;
                let out = FileWriter::try_new_with_options(BufWriter::new(target), &schema, options);
                Out::Arrow(Box::new(out.map_err(failed)?))
            }
            (None, Form::Csv(_) | Form::Json { .. }) => {
                return Err(Error::new(ErrorKind::Internal, "internal error: a text file without a form"));
            }
        };
        Ok(FileOut { path, out })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.out {
            Out::Text { out, frame, text, is_begun } => {
                if batch.num_rows() == 0 {
                    return Ok(());
                }
                if std::mem::replace(is_begun, true) {
                    out.write(frame.between.as_bytes())?;
                }
                out.write(text(batch)?.as_bytes())
            }
            Out::Parquet(out) => {
                out.write(&Strings::Plain.batch(batch.clone())?).map_err(|error| parquet_error(&self.path, &error))
            }
            Out::Arrow(out) => {
                out.write(&Strings::Plain.batch(batch.clone())?).map_err(|error| write_error(&self.path, error))
            }
        }
    }

    /// The bytes of the file so far, about.
    pub fn bytes(&self) -> u64 {
        match &self.out {
            Out::Text { out, .. } => out.bytes(),
            Out::Parquet(out) => out.bytes(),
            Out::Arrow(out) => bytes_of(out.get_ref()),
        }
    }

    pub fn finish(self) -> Result<Complete> {
        let path = self.path;
        match self.out {
            Out::Text { mut out, frame, is_begun, .. } => {
                // Without rows, nothing ends.
                if is_begun || !frame.head.is_empty() {
                    out.write(frame.tail.as_bytes())?;
                }
                out.finish()
            }
            Out::Parquet(out) => out.finish().map_err(|error| parquet_error(&path, &error))?.complete(),
            Out::Arrow(mut out) => {
                out.finish().map_err(|error| write_error(&path, error))?;
                into_target(out.into_inner().map_err(|error| write_error(&path, error))?)?.complete()
            }
        }
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
