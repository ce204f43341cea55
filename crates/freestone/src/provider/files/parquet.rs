//! Reads a row group of a Parquet file: page by page ([`super::pages`]), or by the decoder of the `parquet` crate: either
//! all needed columns together, or first the tested columns, and then the others for the rows that pass.

use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::error::ArrowError;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowFilter, RowSelection,
};

use super::assembly::Assembly;
use super::filters::Tests;
use super::forms;
use super::pages::{GroupPages, PageFilter, Wanted};
use super::pruning::with_page_index;
use super::scan::Scan;
use super::set::Contents;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{FileChunks, ParquetFile};

/// The share of passing rows below which the tested columns are read first.
const LATE_SHARE: f64 = 0.1;

/// Reads one row group.
pub(super) struct GroupReader {
    file: usize,
    chunks: FileChunks,
    decoder: Decoder,
}

/// What decodes the pages.
enum Decoder {
    Own(Box<GroupPages>),
    Crate(Box<ArrowRows>),
}

/// The rows that the `parquet` crate decodes.
struct ArrowRows {
    group: usize,
    reader: ParquetRecordBatchReader,
    assembly: Assembly,
    /// The rows have passed the tests, because the tested columns were read first.
    late: bool,
    /// The number in the file of the next row, if all rows are read.
    next_row: Option<u64>,
    rows_left: Option<u64>,
    failed: Failure,
}

/// The error of a test. The decoder that calls the test knows only its text.
type Failure = Arc<Mutex<Option<Error>>>;

impl GroupReader {
    /// Opens a row group; `None` if it has no rows that can pass.
    ///
    /// # Errors
    /// The row group cannot be read.
    pub fn open(
        scan: &Arc<Scan>,
        file: usize,
        group: usize,
        chunks: FileChunks,
        needed: &[usize],
        tests: Option<Tests>,
    ) -> Result<Option<Self>> {
        let set_file = &scan.set.files[file];
        let Contents::Parquet(parquet) = &set_file.contents else {
            return Err(Error::new(ErrorKind::Internal, "a row group of another kind of file"));
        };
        if !scan.pruning.keeps(set_file, parquet, &scan.set.schema, group, Some(&chunks)) {
            return Ok(None);
        }
        let indexed = indexed(scan, file, parquet, &chunks);
        let selection: Option<RowSelection> = indexed
            .and_then(|indexed| scan.pruning.pages(set_file, parquet, &scan.set.schema, indexed.metadata(), group));
        if let Some(selection) = &selection {
            scan.counters.pruned_rows.add(selection.skipped_row_count());
            if !selection.selects_any() {
                return Ok(None);
            }
        }
        let metadata = indexed.unwrap_or(parquet.metadata());
        let metadata = match Arc::ptr_eq(&scan.read, &scan.set.schema) {
            true => metadata.clone(),
            false => scan.formed[file]
                .get_or_init(|| forms::metadata(metadata, parquet, set_file, &scan.read))
                .clone()
                .ok_or_else(|| Error::new(ErrorKind::Internal, "a file is not read in the forms of its table"))?,
        };
        let wanted = Wanted { scan, file: set_file, parquet, metadata: &metadata, group };
        if let Some(pages) = GroupPages::open(&wanted, &chunks, selection.as_ref())? {
            return Ok(Some(Self { file, chunks, decoder: Decoder::Own(Box::new(pages)) }));
        }
        let rows = ArrowRows::open(&wanted, &chunks, selection, needed, tests)?;
        Ok(Some(Self { file, chunks, decoder: Decoder::Crate(Box::new(rows)) }))
    }

    pub fn file(&self) -> usize {
        self.file
    }

    pub fn into_chunks(self) -> FileChunks {
        self.chunks
    }

    /// The next rows, and whether they were tested.
    ///
    /// # Errors
    /// A page is damaged, or a test fails.
    pub fn next(&mut self, scan: &Scan, filter: Option<&mut PageFilter>) -> Result<Option<(RecordBatch, bool)>> {
        let Contents::Parquet(parquet) = &scan.set.files[self.file].contents else { return Ok(None) };
        match &mut self.decoder {
            Decoder::Own(pages) => {
                pages.next(parquet, filter)?.map(|batch| Ok((named(scan, &batch)?, true))).transpose()
            }
            Decoder::Crate(rows) => rows.next(scan, parquet),
        }
    }
}

/// The rows with the names of the plan, which may be others for the same fields.
fn named(scan: &Scan, batch: &RecordBatch) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(scan.schema.clone(), batch.columns().to_vec(), &options)?)
}

impl ArrowRows {
    fn open(
        wanted: &Wanted<'_>,
        chunks: &FileChunks,
        selection: Option<RowSelection>,
        needed: &[usize],
        tests: Option<Tests>,
    ) -> Result<Self> {
        let Wanted { scan, file: set_file, parquet, metadata, group } = *wanted;
        let rows = parquet.metadata().metadata().row_group(group).num_rows().cast_unsigned();
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks.clone(), metadata.clone())
            .with_row_groups(vec![group])
            .with_batch_size(scan.batch_rows);
        let late = is_late(scan);
        let assembly = Assembly::new(&scan.read, set_file, if late { &scan.projection } else { needed });
        builder = builder.with_projection(parquet.mask(assembly.stored.iter().copied()));
        let is_whole = selection.is_none() && !late;
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        let failed = Failure::default();
        if let (true, Some(tests)) = (late, tests) {
            scan.counters.late_groups.add(1);
            let tested = Assembly::new(&scan.read, set_file, &scan.tested);
            builder = builder.with_row_filter(row_filter(parquet, tested, tests, failed.clone()));
        }
        let reader = builder.build().map_err(|error| {
            let of_test = failed.lock().take();
            of_test.unwrap_or_else(|| parquet.malformed(&error, group).into())
        })?;
        let before = &parquet.metadata().metadata().row_groups()[..group];
        let first_row = 1 + before.iter().map(|group| group.num_rows().cast_unsigned()).sum::<u64>();
        let (next_row, rows_left) = (is_whole.then_some(first_row), is_whole.then_some(rows));
        Ok(Self { group, reader, assembly, late, next_row, rows_left, failed })
    }

    fn next(&mut self, scan: &Scan, parquet: &ParquetFile) -> Result<Option<(RecordBatch, bool)>> {
        let Some(read) = self.reader.next() else {
            return match self.rows_left {
                Some(left @ 1..) => {
                    let text = format!("damaged: {left} rows are missing");
                    Err(parquet.malformed(&parquet::errors::ParquetError::General(text), self.group).into())
                }
                _ => Ok(None),
            };
        };
        let read = read.map_err(|error: ArrowError| {
            let of_test = self.failed.lock().take();
            of_test.unwrap_or_else(|| parquet.malformed(&error.into(), self.group).into())
        })?;
        let batch = self.assembly.assemble(&read, self.next_row)?;
        let rows = read.num_rows() as u64;
        self.next_row = self.next_row.map(|row| row + rows);
        self.rows_left = self.rows_left.map(|left| left.saturating_sub(rows));
        if !self.late {
            return Ok(Some((batch, false)));
        }
        Ok(Some((named(scan, &batch)?, true)))
    }
}

/// Whether to read the tested columns first: if few rows pass, and there are other columns.
fn is_late(scan: &Scan) -> bool {
    let has_others = scan.projection.iter().any(|column| !scan.tested.contains(column));
    has_others && !scan.tested.is_empty() && scan.measured.share().is_some_and(|share| share < LATE_SHARE)
}

fn row_filter(parquet: &ParquetFile, tested: Assembly, mut tests: Tests, failed: Failure) -> RowFilter {
    let mask = parquet.mask(tested.stored.iter().copied());
    let test = move |read: RecordBatch| {
        let rows = read.num_rows();
        let passing = tested.assemble(&read, None).and_then(|batch| Ok(tests.passing(&batch)?));
        match passing {
            Ok(mask) => Ok(mask.unwrap_or_else(|| BooleanArray::from(vec![true; rows]))),
            Err(error) => {
                let text = error.to_string();
                *failed.lock() = Some(error);
                Err(ArrowError::ComputeError(text))
            }
        }
    };
    RowFilter::new(vec![Box::new(ArrowPredicateFn::new(mask, test))])
}

/// The file's metadata with its page index, which is read once for all partitions, if filters can use it.
fn indexed<'a>(
    scan: &'a Scan,
    file: usize,
    parquet: &ParquetFile,
    chunks: &FileChunks,
) -> Option<&'a ArrowReaderMetadata> {
    if scan.pruning.is_empty() {
        return None;
    }
    let read = || {
        let metadata = with_page_index(parquet, chunks)?;
        let options = ArrowReaderOptions::new().with_schema(parquet.schema().clone());
        ArrowReaderMetadata::try_new(metadata, options).ok()
    };
    scan.indexed[file].get_or_init(read).as_ref()
}
