//! Tables with a published shape and synthetic content, written in parallel: every batch has random numbers of its own.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::random::Random;
use super::{BATCH_ROWS, ROW_GROUP_ROWS, WriteError, parallel};

/// A table with a published shape: its name, its content, and how its rows are generated.
pub struct Shaped {
    pub(super) name: &'static str,
    /// The description of the content in the file.
    pub(super) content: &'static str,
    pub(super) schema: SchemaRef,
    /// The columns of a number of rows, starting with a given one, with random numbers for them.
    pub(super) columns: fn(Random, u64, usize) -> Vec<ArrayRef>,
}

impl Shaped {
    /// The schema.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// `rows` rows.
    pub fn batches(&'static self, rows: u64, seed: u64) -> impl Iterator<Item = RecordBatch> + Send {
        (0..rows.div_ceil(BATCH_ROWS as u64)).map(move |number| self.batch(number, rows, seed))
    }

    /// Batch `number` of `rows` rows in all.
    fn batch(&self, number: u64, rows: u64, seed: u64) -> RecordBatch {
        let start = number * BATCH_ROWS as u64;
        let count = (rows - start).min(BATCH_ROWS as u64) as usize;
        // One step of the sequence per batch: SplitMix64 gives unrelated sequences for any two states.
        let random = Random::new(seed.wrapping_add(number.wrapping_mul(0xD134_2543_DE82_EF95)));
        RecordBatch::try_new(self.schema.clone(), (self.columns)(random, start, count))
            .expect("the generator's columns are those of its schema")
    }

    /// Writes `{folder}/{name}.parquet`, a million rows at scale factor 1, on all cores. An existing file is complete.
    ///
    /// # Errors
    /// The folder or the file cannot be created or written.
    pub fn write_parquet(&'static self, folder: &Path, scale_factor: f64, seed: u64) -> Result<(), WriteError> {
        let rows = rows(scale_factor);
        let failed = |source: std::io::Error| WriteError { path: folder.to_owned(), source: source.into() };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let labels = [
            ("generator", format!("freestone-lab {}", env!("CARGO_PKG_VERSION"))),
            ("content", self.content.to_owned()),
            ("rows", rows.to_string()),
            ("seed", seed.to_string()),
        ];
        let group = ROW_GROUP_ROWS as u64;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let parts = rows.div_ceil(group).max(1) as usize;
        let shape = parallel::Shape { schema: self.schema.clone(), labels: &labels, parts, threads };
        let unfinished = folder.join(format!("{}.parquet.unfinished", self.name));
        parallel::write_parquet(&unfinished, &shape, |part| {
            let batches = |row: u64| row / BATCH_ROWS as u64;
            let (from, to) = (part as u64 * group, ((part as u64 + 1) * group).min(rows));
            Box::new((batches(from)..to.div_ceil(BATCH_ROWS as u64)).map(move |number| self.batch(number, rows, seed)))
        })?;
        std::fs::rename(&unfinished, folder.join(format!("{}.parquet", self.name))).map_err(failed)
    }
}

/// A schema of columns by name, type and whether they are nullable.
pub(super) fn schema<'a>(columns: impl IntoIterator<Item = (&'a str, DataType, bool)>) -> SchemaRef {
    let fields = columns.into_iter().map(|(name, kind, nullable)| Field::new(name, kind, nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The number of rows at a scale factor: a million at 1.
fn rows(scale: f64) -> u64 {
    (1e6 * scale).round().max(1.0) as u64
}

const _: () = assert!(ROW_GROUP_ROWS.is_multiple_of(BATCH_ROWS), "a row group is whole batches");
