//! Seeded generators of the tables for the experiments and the benchmarks.
//!
//! Every generator gives the same rows for the same arguments on every machine, as an iterator of Arrow record batches
//! of at most [`BATCH_ROWS`] rows. [`write_parquet`] streams any of them into a file.
//!
//! | module | tables | source |
//! |---|---|---|
//! | [`tpch`] | the eight tables of TPC-H | the TPC-H specification |
//! | [`ssb`] | the five tables of the Star Schema Benchmark | O'Neil, O'Neil and Chen, revision 3, 2009 |
//! | [`holloway`] | Narrow-E, Narrow-S, Wide-E, Narrow-U, Strings | Holloway and DeWitt 2008, section 4.1 |
//! | [`halverson`] | Gen_a_b_c | Halverson et al. 2006, section 3.1 |
//! | [`wide`] | fifty equal integer columns | for the crossover of rows and columns |
//! | [`acs`], [`ontime`] | tables as wide as census and flight records, most values small or missing | Raasveldt and Mühleisen 2017, section 3 |

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

pub mod acs;
pub mod halverson;
pub mod holloway;
pub mod ontime;
mod parallel;
pub mod queries;
mod random;
pub mod ssb;
mod synthetic;
pub mod tpch;
pub mod wide;

pub use random::Random;
pub use synthetic::Shaped;
pub use tpch::{tables, tpch_schema, tpch_table};

/// The number of rows of every batch but the last.
pub const BATCH_ROWS: usize = 8192;

/// The number of rows in a row group of the Parquet files, small enough that two threads share even one table's scan
/// evenly.
pub const ROW_GROUP_ROWS: usize = 122_880;

/// The batches of a generator.
pub type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

/// A generated file could not be written.
#[derive(Debug)]
pub struct WriteError {
    path: PathBuf,
    source: ParquetError,
}

impl fmt::Display for WriteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, source } = self;
        write!(formatter, "cannot write {}: {source}; check that the folder is writable and has room", path.display())
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Writes `batches` to one Parquet file, compressed with Snappy, in row groups of [`ROW_GROUP_ROWS`]. Returns the
/// number of rows.
///
/// # Errors
/// The file cannot be created or written.
pub fn write_parquet(
    path: &Path,
    schema: SchemaRef,
    batches: impl Iterator<Item = RecordBatch>,
) -> Result<u64, WriteError> {
    let failed = |source| WriteError { path: path.to_owned(), source };
    let file = File::create(path).map_err(|error| failed(error.into()))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).map_err(failed)?;
    let mut rows = 0;
    for batch in batches {
        rows += batch.num_rows() as u64;
        writer.write(&batch).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(rows)
}

/// The schema of `count` columns named `{prefix}1`, `{prefix}2`, …, none nullable.
fn numbered_schema(prefix: &str, count: usize, data_type: &DataType) -> SchemaRef {
    let field = |number| Field::new(format!("{prefix}{number}"), data_type.clone(), false);
    Arc::new(Schema::new((1..=count).map(field).collect::<Vec<_>>()))
}

/// A batch of `schema`'s Int32 columns, where `value(row, column)` gives each value.
fn integer_batch(schema: &SchemaRef, rows: usize, value: impl Fn(usize, usize) -> i32) -> RecordBatch {
    let column = |column| Arc::new(Int32Array::from_iter_values((0..rows).map(|row| value(row, column)))) as ArrayRef;
    RecordBatch::try_new(schema.clone(), (0..schema.fields().len()).map(column).collect())
        .expect("one Int32 column of equal length per field")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    #[test]
    fn a_written_file_holds_the_generated_rows() {
        let path = std::env::temp_dir().join(format!("freestone-lab-{}.parquet", std::process::id()));
        let rows = write_parquet(&path, wide::schema(), wide::table(200_000, 7)).expect("the folder is writable");
        let file = File::open(&path).expect("the file was written");
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("the file is Parquet");
        let group_rows: Vec<i64> = builder.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        let read: Vec<RecordBatch> = builder
            .with_batch_size(BATCH_ROWS)
            .build()
            .expect("the file has a reader")
            .map(|batch| batch.expect("the batch decodes"))
            .collect();
        std::fs::remove_file(&path).expect("the file is ours");
        assert_eq!(rows, 200_000);
        assert_eq!(group_rows, [122_880, 77_120]);
        let rejoin =
            |batches: &[RecordBatch]| arrow::compute::concat_batches(&wide::schema(), batches).expect("one schema");
        assert_eq!(rejoin(&read), rejoin(&wide::table(200_000, 7).collect::<Vec<_>>()));
    }

    #[test]
    fn an_unwritable_path_is_named() {
        let path = Path::new("/nowhere/at/all.parquet");
        let error = write_parquet(path, wide::schema(), wide::table(1, 0)).expect_err("there is no such folder");
        assert!(error.to_string().contains("/nowhere/at/all.parquet"), "{error}");
    }
}
