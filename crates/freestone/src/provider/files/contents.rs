//! `glob('pattern')`, `read_text('pattern')` and `read_blob('pattern')`: names of files, and whole files as values.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use datafusion::arrow::array::{ArrayRef, BinaryViewArray, Int64Array, StringViewArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionState;
use freestone_bucket::Stores;

use super::functions::texts;
use crate::access::Access;
use crate::context;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{FoundFile, IngestError, SpooledFile, find_files};

/// What a function returns of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    Names,
    Text,
    Bytes,
}

/// These functions by name.
pub(crate) const CONTENTS: [(&str, Contents); 3] =
    [("glob", Contents::Names), ("read_text", Contents::Text), ("read_blob", Contents::Bytes)];

/// One of these functions.
#[derive(Debug)]
pub(crate) struct ContentsFunction {
    pub name: &'static str,
    pub contents: Contents,
    pub access: Access,
    pub state: Arc<SessionState>,
    pub stores: Stores,
}

impl ContentsFunction {
    fn rows(&self, arguments: &TableFunctionArgs) -> Result<RecordBatch> {
        self.access.check_files()?;
        let names = match arguments.exprs() {
            [files] => texts(files),
            _ => None,
        };
        let Some(names) = names else {
            return Err(Error::invalid(format!(
                "{0} takes the name of a file or a pattern: {0}('dir/*.csv')",
                self.name
            )));
        };
        let mut files = vec![];
        for name in names {
            match (find_files(&name, &self.stores), self.contents) {
                (Ok(found), _) => files.extend(found),
                // A pattern without files has no rows.
                (Err(error), Contents::Names) if Error::from(error.clone()).kind() == ErrorKind::NotFound => {}
                (Err(error), _) => return Err(error.into()),
            }
        }
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        let names: StringViewArray = paths.iter().map(|path| Some(path.to_string_lossy())).collect();
        if self.contents == Contents::Names {
            let schema = Schema::new(vec![Field::new("file", DataType::Utf8View, false)]);
            return Ok(RecordBatch::try_new(Arc::new(schema), vec![Arc::new(names)])?);
        }
        let memory = MemoryConsumer::new("contents of files").register(&self.state.runtime_env().memory_pool);
        let mut read = vec![];
        for file in &files {
            read.push(File::read(file, &memory)?);
        }
        let (kind, contents): (DataType, ArrayRef) = match self.contents {
            Contents::Bytes => (
                DataType::BinaryView,
                Arc::new(BinaryViewArray::from_iter_values(read.iter().map(|file| file.bytes.as_slice()))),
            ),
            _ => (DataType::Utf8View, Arc::new(texts_of(&paths, &read)?)),
        };
        let schema = Schema::new(vec![
            Field::new("filename", DataType::Utf8View, false),
            Field::new("content", kind, false),
            Field::new("size", DataType::Int64, false),
            Field::new("last_modified", DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())), true),
        ]);
        let sizes: Int64Array = read.iter().map(|file| Some(file.bytes.len() as i64)).collect();
        let changed: TimestampMicrosecondArray = read.iter().map(|file| file.changed).collect();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(names), contents, Arc::new(sizes), Arc::new(changed.with_timezone("+00:00"))];
        Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
    }
}

/// A file that was read.
struct File {
    bytes: Vec<u8>,
    /// Microseconds since 1970.
    changed: Option<i64>,
}

impl File {
    fn read(found: &FoundFile, memory: &MemoryReservation) -> Result<File> {
        let spooled = found.downloaded()?;
        let path = spooled.as_ref().map_or(found.path.as_path(), SpooledFile::path);
        let failed = |error: std::io::Error| Error::from(IngestError::io(path, &error));
        let known = fs::metadata(path).map_err(failed)?;
        let since = known.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let changed = since.and_then(|since| i64::try_from(since.as_micros()).ok()).filter(|_| spooled.is_none());
        let mut file = fs::File::open(path).map_err(failed)?;
        let mut bytes = vec![];
        // What is no plain file has no size, and may have no end.
        loop {
            context::check()?;
            let read = file.by_ref().take(PART_BYTES).read_to_end(&mut bytes).map_err(failed)?;
            // The bytes, and their copy in an array.
            memory.try_grow(2 * read)?;
            if read == 0 {
                return Ok(File { bytes, changed });
            }
            if bytes.len() > VALUE_BYTES_MAX {
                let message =
                    format!("{} has more bytes than a value can have ({VALUE_BYTES_MAX})", found.path.display());
                return Err(Error::new(ErrorKind::Resource, message));
            }
        }
    }
}

/// The bytes that are read at once.
const PART_BYTES: u64 = 1 << 20;
/// The bytes of a value.
const VALUE_BYTES_MAX: usize = i32::MAX as usize;

fn texts_of(paths: &[PathBuf], files: &[File]) -> Result<StringViewArray> {
    let text = |(path, file): (&PathBuf, &File)| match std::str::from_utf8(&file.bytes) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Error::new(ErrorKind::Type, format!("{}: not a text in UTF-8", path.display()))
            .with_hint("read_blob reads any bytes")),
    };
    paths.iter().zip(files).map(text).collect()
}

impl TableFunctionImpl for ContentsFunction {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let rows = self.rows(&arguments)?;
        Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
    }
}
