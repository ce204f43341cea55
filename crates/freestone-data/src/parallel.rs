//! Writing one Parquet file with several threads. Each generates and encodes whole row groups, which are appended to
//! the file in order. At most one row group per thread is in memory.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};

use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use super::{Batches, WriteError};

/// The parameters of a parallel write.
pub(super) struct Shape<'a> {
    pub schema: SchemaRef,
    /// Key-value metadata of the file.
    pub labels: &'a [(&'static str, String)],
    /// Row groups, of one part each.
    pub parts: usize,
    pub threads: usize,
}

/// The file and the number of the next row group.
struct Output {
    writer: SerializedFileWriter<BufWriter<File>>,
    next: usize,
    rows: u64,
    has_failed: bool,
}

/// A row group ready to be appended.
struct Encoded {
    columns: Vec<ArrowColumnChunk>,
    rows: u64,
}

/// Writes part 0, 1, … as row groups of one Parquet file, compressed with Snappy. Returns the number of rows.
pub(super) fn write_parquet(
    path: &Path,
    shape: &Shape<'_>,
    part: impl Fn(usize) -> Batches + Sync,
) -> Result<u64, WriteError> {
    write(path, shape, part).map_err(|source| WriteError { path: path.to_owned(), source })
}

fn write(path: &Path, shape: &Shape<'_>, part: impl Fn(usize) -> Batches + Sync) -> Result<u64, ParquetError> {
    let labels = shape.labels.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(None)
        .set_key_value_metadata(Some(labels))
        .build();
    let file = BufWriter::new(File::create(path)?);
    let writer = ArrowWriter::try_new(file, Arc::clone(&shape.schema), Some(properties))?;
    let (writer, factory) = writer.into_serialized_writer()?;
    let output = Mutex::new(Output { writer, next: 0, rows: 0, has_failed: false });
    let (turn, taken) = (Condvar::new(), AtomicUsize::new(0));
    let work = || -> Result<(), ParquetError> {
        loop {
            let number = taken.fetch_add(1, Relaxed);
            if number >= shape.parts {
                return Ok(());
            }
            let encoded = encode(&factory, number, &shape.schema, part(number));
            let output = output.lock().expect("no thread panics while it appends");
            let mut output = turn
                .wait_while(output, |output| output.next != number && !output.has_failed)
                .expect("no thread panics while it appends");
            if output.has_failed {
                return Ok(());
            }
            let appended = encoded.and_then(|group| output.append(group));
            output.has_failed = appended.is_err();
            output.next += 1;
            turn.notify_all();
            appended?;
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..shape.threads.max(1)).map(|_| scope.spawn(work)).collect();
        let mine = work();
        others.into_iter().fold(mine, |result, other| result.and(other.join().expect("a generator does not panic")))
    })?;
    let output = output.into_inner().expect("no thread panicked while it appended");
    output.writer.close()?;
    Ok(output.rows)
}

impl Output {
    fn append(&mut self, group: Encoded) -> Result<(), ParquetError> {
        let mut row_group = self.writer.next_row_group()?;
        for column in group.columns {
            column.append_to_row_group(&mut row_group)?;
        }
        row_group.close()?;
        self.rows += group.rows;
        Ok(())
    }
}

fn encode(
    factory: &ArrowRowGroupWriterFactory,
    number: usize,
    schema: &SchemaRef,
    batches: Batches,
) -> Result<Encoded, ParquetError> {
    let mut writers = factory.create_column_writers(number)?;
    let mut rows = 0;
    for batch in batches {
        rows += batch.num_rows() as u64;
        let leaves = schema.fields().iter().zip(batch.columns()).map(|(field, column)| compute_leaves(field, column));
        let leaves: Vec<_> = leaves.collect::<Result<_, _>>()?;
        for (writer, leaf) in writers.iter_mut().zip(leaves.iter().flatten()) {
            writer.write(leaf)?;
        }
    }
    let columns: Result<_, _> = writers.into_iter().map(|writer| writer.close()).collect();
    Ok(Encoded { columns: columns?, rows })
}
