//! Several files in one folder, each of which ends when it is large enough: `ROW_GROUPS_PER_FILE` and `FILE_SIZE_BYTES`.

use std::path::Path;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;

use super::file_out::FileOut;
use super::partitions::FileNames;
use super::target::Complete;
use super::{Export, blocking, in_slabs};
use crate::error::Result;

/// The rows after which the size of a file is looked at.
const STEP_ROWS: usize = 2048;

/// When a file ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    /// The number of its rows.
    pub rows: Option<usize>,
    /// The bytes that it has at least.
    pub bytes: Option<u64>,
}

/// A file that does not have its final name yet.
pub(super) struct NewFile {
    pub name: String,
    pub file: Complete,
}

/// The files of a folder.
pub(super) struct Series {
    /// How they are written; its path is that of the folder.
    pub export: Export,
    pub names: FileNames,
    /// The number of the next one.
    pub number: usize,
    pub limits: Limits,
}

impl Series {
    fn next(&mut self) -> Export {
        let path = Path::new(&self.export.path).join(self.names.name(self.number)).display().to_string();
        self.number += 1;
        Export { path, folders: None, ..self.export.clone() }
    }

    /// Writes all rows, to one file at least, and returns the files and the number of rows.
    pub async fn write(mut self, rows: SendableRecordBatchStream) -> Result<(Vec<NewFile>, u64)> {
        if self.limits.rows.is_none() && self.limits.bytes.is_none() {
            let export = self.next();
            let (file, count) = export.write_file(rows).await?;
            return Ok((vec![NewFile { name: export.path, file }], count));
        }
        let writer = Writer { schema: rows.schema(), series: self, open: None, complete: vec![] };
        let write = |mut writer: Writer, slab: Vec<RecordBatch>| {
            slab.iter().try_for_each(|batch| writer.write(batch))?;
            Ok(writer)
        };
        let (writer, count) = in_slabs(rows, writer, write).await?;
        Ok((blocking(move || writer.finish()).await?, count))
    }
}

struct Writer {
    series: Series,
    schema: SchemaRef,
    open: Option<OpenFile>,
    complete: Vec<NewFile>,
}

struct OpenFile {
    name: String,
    out: FileOut,
    rows: usize,
}

impl Writer {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut from = 0;
        while from < batch.num_rows() {
            let Limits { rows, bytes } = self.series.limits;
            let mut open = match self.open.take() {
                Some(open) => open,
                None => self.begun()?,
            };
            let room = rows.map_or(usize::MAX, |rows| rows.saturating_sub(open.rows)).max(1);
            let taken = (batch.num_rows() - from).min(room).min(STEP_ROWS);
            open.out.write(&batch.slice(from, taken))?;
            from += taken;
            open.rows += taken;
            let is_full = rows.is_some_and(|rows| open.rows >= rows);
            match is_full || bytes.is_some_and(|bytes| open.out.bytes() >= bytes) {
                true => self.end(open)?,
                false => self.open = Some(open),
            }
        }
        Ok(())
    }

    fn begun(&mut self) -> Result<OpenFile> {
        let export = self.series.next();
        let out = FileOut::new(&export, &self.schema)?;
        Ok(OpenFile { name: export.path, out, rows: 0 })
    }

    fn end(&mut self, open: OpenFile) -> Result<()> {
        self.complete.push(NewFile { name: open.name, file: open.out.finish()? });
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<NewFile>> {
        if self.open.is_none() && self.complete.is_empty() {
            self.open = Some(self.begun()?);
        }
        if let Some(open) = self.open.take() {
            self.end(open)?;
        }
        Ok(self.complete)
    }
}
