//! Files by name: `FROM 'x.parquet'`, `'x.csv'`, `'dir/*.json'`, `'x.arrow'`.
//!
//! Parquet and Arrow files are scanned by DataFusion, which reads the columns and row groups that a query needs. CSV and
//! JSON files are read by [`crate::ingest`], whose types, order and errors are those of `COPY … FROM`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;

use crate::error::{Error, Result};
use crate::ingest::{self, FileFormat, IngestOptions};

/// Whether a table name means a file: no table's name has a path's separator, a glob, or one of our extensions. A folder
/// without any of these is meant if it holds data files.
pub(crate) fn is_file_name(name: &str) -> bool {
    is_path(name) || is_folder(name) && ingest::expand_paths(name).is_ok()
}

/// Whether a name can mean nothing but files, whatever is there.
pub(crate) fn is_path(name: &str) -> bool {
    name.contains(['/', '*', '?']) || format(name).is_some()
}

/// Whether there is a folder of this name.
pub(crate) fn is_folder(name: &str) -> bool {
    Path::new(name).is_dir()
}

/// Whether files with this ending are read.
pub(crate) fn is_format(extension: &str) -> bool {
    format(&format!("x.{extension}")).is_some()
}

fn format(name: &str) -> Option<FileFormat> {
    FileFormat::of_path(name.as_ref())
}

/// A table over the files that a name, folder or pattern stands for now.
pub(crate) async fn table(state: &SessionState, name: &str) -> Result<Arc<dyn TableProvider>> {
    let paths = ingest::expand_paths(name)?;
    let Some(format) = paths.first().and_then(|path| FileFormat::of_path(path)) else {
        return Err(Error::invalid(format!("cannot tell the format of {name} from its ending"))
            .with_hint("files are read by their endings: .csv, .tsv, .tbl, .json, .ndjson, .parquet, .arrow"));
    };
    if paths.iter().any(|path| FileFormat::of_path(path) != Some(format)) {
        return Err(Error::invalid(format!("{name} stands for files of several formats"))
            .with_hint("say which, as in 'folder/*.parquet'"));
    }
    match format {
        FileFormat::Csv | FileFormat::Json => text_files(state, paths),
        FileFormat::Parquet | FileFormat::Arrow => columnar_files(state, paths, format).await,
    }
}

async fn columnar_files(
    state: &SessionState,
    paths: Vec<PathBuf>,
    format: FileFormat,
) -> Result<Arc<dyn TableProvider>> {
    let url = |path: &PathBuf| ListingTableUrl::parse(literal(&path.to_string_lossy())).map_err(Error::from);
    let urls = paths.iter().map(url).collect::<Result<Vec<_>>>()?;
    let options = match format {
        FileFormat::Arrow => ListingOptions::new(Arc::new(ArrowFormat)),
        _ => {
            let options = state.default_table_options().parquet;
            ListingOptions::new(Arc::new(ParquetFormat::default().with_options(options)))
        }
    };
    // The files are named one by one: no ending filters them.
    let options = options.with_file_extension("");
    let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
    Ok(Arc::new(ListingTable::try_new(config.infer_schema(state).await?)?))
}

/// A path with nothing in it that could be taken for a pattern.
fn literal(path: &str) -> String {
    path.chars().fold(String::with_capacity(path.len()), |mut text, character| {
        match character {
            '*' | '?' | '[' | ']' => text.extend(['[', character, ']']),
            _ => text.push(character),
        }
        text
    })
}

fn text_files(state: &SessionState, paths: Vec<PathBuf>) -> Result<Arc<dyn TableProvider>> {
    let options = IngestOptions { threads: state.config().target_partitions(), ..IngestOptions::default() };
    let schema = ingest::infer_schema(&paths[0], &options)?;
    let files = TextFiles { paths, schema: schema.clone(), options };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(files)])?))
}

/// The rows of text files, one file after the other, parsed by several threads.
#[derive(Debug)]
struct TextFiles {
    paths: Vec<PathBuf>,
    schema: SchemaRef,
    options: IngestOptions,
}

impl PartitionStream for TextFiles {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (paths, schema, options) = (self.paths.clone(), self.schema.clone(), self.options.clone());
        let mut builder = RecordBatchReceiverStream::builder(schema.clone(), 2);
        let sender = builder.tx();
        builder.spawn_blocking(move || {
            for path in &paths {
                let reader = ingest::read_file(path, schema.clone(), &options).map_err(Error::from)?;
                for batch in reader {
                    let batch = batch.map_err(Error::from)?;
                    if sender.blocking_send(Ok(batch)).is_err() {
                        // Nobody reads on: a LIMIT was reached, or the statement was cancelled.
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        builder.build()
    }
}
