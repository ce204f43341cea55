//! Reads the morsels of one partition: converts stored columns to the columns of the table, and drops rows that do not
//! pass.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::Schema;

use super::assembly::Assembly;
use super::filters::Tests;
use super::morsels::Morsel;
use super::pages::PageFilter;
use super::parquet::GroupReader;
use super::pruning::DynamicPruning;
use super::scan::Scan;
use super::set::{ColumnSource, Contents, FileSet, SetFile};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{BufferPool, FileChunks, FileFormat, IngestError, ParquetFile, Reason, TextParser};

/// Reads morsels.
pub(super) struct Reader {
    scan: Arc<Scan>,
    tests: Option<Tests>,
    /// The filters for pages of Parquet files. Whether a dynamic one is of use is known over several row groups.
    page_filter: Option<PageFilter>,
    dynamic: DynamicPruning,
    needed: Vec<usize>,
    /// The positions of the tested columns and of the output columns among the needed columns.
    tested_at: Vec<usize>,
    output_at: Vec<usize>,
    pool: BufferPool,
    open: Open,
}

/// The morsel that is being read.
enum Open {
    Nothing,
    Group(Box<GroupReader>),
    Arrow(ArrowBatches),
    Text(TextBatches),
}

struct ArrowBatches {
    file: usize,
    assembly: Assembly,
    reader: crate::ingest::ArrowReader,
    /// All batches of a stream are read in order.
    is_stream: bool,
    current: Option<RecordBatch>,
    next_row: Option<u64>,
    done: bool,
}

struct TextBatches {
    file: usize,
    assembly: Assembly,
    parser: TextParser,
    ready: VecDeque<RecordBatch>,
}

impl Reader {
    pub fn new(scan: Arc<Scan>, pool: BufferPool) -> Result<Self> {
        let needed = scan.needed();
        let places = |columns: &[usize]| -> Vec<usize> {
            columns.iter().map(|column| needed.partition_point(|other| other < column)).collect()
        };
        let (tested_at, output_at) = (places(&scan.tested), places(&scan.projection));
        let dynamic = DynamicPruning::new(&scan.filters.dynamic);
        let (tests, page_filter) = (scan.tests()?, PageFilter::of(&scan)?);
        Ok(Self { tests, page_filter, dynamic, needed, tested_at, output_at, pool, open: Open::Nothing, scan })
    }

    /// Adds the requests for files elsewhere to the counters of the scan.
    pub fn count_traffic(&self) {
        self.scan.ahead.count();
    }

    /// Starts a morsel.
    pub fn begin(&mut self, morsel: Morsel) -> Result<()> {
        let scan = self.scan.clone();
        let at = match &morsel {
            Morsel::Group { file, .. } | Morsel::Batch { file, .. } | Morsel::Block { file, .. } => *file,
        };
        let file = &scan.set.files[at];
        self.page_filter.iter_mut().for_each(PageFilter::begin_group);
        self.begin_unit(morsel, file).map_err(|error| file.renamed(error))
    }

    fn begin_unit(&mut self, morsel: Morsel, file: &SetFile) -> Result<()> {
        let scan = &self.scan;
        match (morsel, &file.contents) {
            (Morsel::Group { file: at, group }, Contents::Parquet(parquet)) => {
                let now = self.dynamic.current(&scan.set.schema)?;
                let tests = self.tests.clone();
                let chunks = match std::mem::replace(&mut self.open, Open::Nothing) {
                    Open::Group(open) if open.file() == at => open.into_chunks(),
                    _ => parquet.chunks()?,
                };
                if !now.keeps(file, parquet, &scan.set.schema, group, None) {
                    scan.ahead.forget(at, group);
                    scan.counters.pruned_groups.add(1);
                    return Ok(());
                }
                let chunks = fetched(scan, parquet, (at, group), chunks)?;
                match GroupReader::open(scan, at, group, chunks, &self.needed, tests)? {
                    Some(reader) => self.open = Open::Group(Box::new(reader)),
                    None => scan.counters.pruned_groups.add(1),
                }
                Ok(())
            }
            (Morsel::Batch { file: at, batch }, Contents::Arrow(arrow)) => {
                let same = matches!(&self.open, Open::Arrow(open) if open.file == at && !open.is_stream);
                if !same {
                    let assembly = Assembly::new(&scan.read, file, &self.needed);
                    let reader = arrow.reader(&assembly.stored)?;
                    let (is_stream, next_row) = (batch.is_none(), batch.is_none().then_some(1));
                    let open =
                        ArrowBatches { file: at, assembly, reader, is_stream, current: None, next_row, done: false };
                    self.open = Open::Arrow(open);
                }
                let Open::Arrow(open) = &mut self.open else { return Ok(()) };
                (open.current, open.done) = (None, false);
                if let Some(batch) = batch {
                    open.reader.seek(batch)?;
                }
                Ok(())
            }
            (Morsel::Block { file: at, block }, Contents::Text(text)) => {
                if !matches!(&self.open, Open::Text(open) if open.file == at) {
                    let (set, pool) = (&scan.set, self.pool.clone());
                    let stored = |column: &usize| matches!(file.columns[*column], ColumnSource::Stored(_));
                    // Parsers return columns in the requested order. Which records are left out must not depend on the
                    // columns that a query reads.
                    let all: Vec<usize> = (0..set.schema.fields().len()).collect();
                    let wanted = if set.options.ignore_errors { &all } else { &self.needed };
                    let parsed: Vec<usize> = wanted.iter().copied().filter(stored).collect();
                    let fields: Vec<_> = parsed.iter().map(|column| set.schema.fields()[*column].clone()).collect();
                    let sources = parsed.iter().map(|column| match file.columns[*column] {
                        ColumnSource::Stored(place) => Some(place),
                        _ => None,
                    });
                    let inferred: Vec<_> = parsed.iter().map(|column| set.inferred[*column].clone()).collect();
                    let schema = Arc::new(Schema::new(fields));
                    let mut options = set.options.clone();
                    options.batch_rows = scan.batch_rows;
                    options.rejects = scan.rejects.get(at).cloned();
                    let parser = text.parser(&file.path, &schema, sources.collect(), &inferred, &options, pool)?;
                    let assembly = Assembly::of_parsed(&scan.read, file, &self.needed, &parsed);
                    self.open = Open::Text(TextBatches { file: at, assembly, parser, ready: VecDeque::new() });
                }
                let Open::Text(open) = &mut self.open else { return Ok(()) };
                let parsed =
                    guarded(file, || open.parser.parse(*block).map_err(|error| with_way_out(error, &scan.set)))?;
                open.ready = parsed.into();
                Ok(())
            }
            _ => Err(Error::new(ErrorKind::Internal, "a morsel of another kind of file")),
        }
    }

    /// The next rows of the morsel; `None` at its end.
    ///
    /// # Errors
    /// The file is damaged, a value cannot be converted, or a test fails.
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let scan = self.scan.clone();
            let batch = match &mut self.open {
                Open::Nothing => return Ok(None),
                Open::Group(open) => {
                    let file = &scan.set.files[open.file()];
                    let filter = self.page_filter.as_mut();
                    let next = guarded(file, || open.next(&scan, filter)).map_err(|error| file.renamed(error))?;
                    match next {
                        // These rows were already tested.
                        Some((batch, true)) => return Ok(Some(batch)),
                        Some((batch, false)) => batch,
                        None => return Ok(None),
                    }
                }
                Open::Arrow(open) => {
                    let file = &scan.set.files[open.file];
                    let next = guarded(file, || open.next(scan.batch_rows)).map_err(|error| file.renamed(error))?;
                    match next {
                        Some(batch) => batch,
                        None => return Ok(None),
                    }
                }
                Open::Text(open) => match open.ready.pop_front() {
                    Some(parsed) => {
                        let file = &scan.set.files[open.file];
                        open.assembly.assemble(&parsed, None).map_err(|error| file.renamed(error))?
                    }
                    None => return Ok(None),
                },
            };
            if let Some(batch) = self.passing(batch)? {
                return Ok(Some(batch));
            }
        }
    }

    /// The rows of a batch of needed columns that pass, with the output columns; `None` if none passes.
    fn passing(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let mask = match &mut self.tests {
            Some(tests) => tests.passing(&batch.project(&self.tested_at)?)?,
            None => None,
        };
        let columns = self.output_at.iter().map(|at| batch.column(*at).clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let output = RecordBatch::try_new_with_options(self.scan.schema.clone(), columns, &options)?;
        let output = match mask {
            Some(mask) => filter_record_batch(&output, &mask)?,
            None => output,
        };
        Ok((output.num_rows() > 0).then_some(output))
    }
}

/// The bytes of a row group: those of its file, or of a file elsewhere what was fetched of it.
fn fetched(scan: &Scan, parquet: &ParquetFile, place: (usize, usize), chunks: FileChunks) -> Result<FileChunks> {
    if parquet.elsewhere().is_none() {
        return Ok(chunks);
    }
    // The bytes of the row group before are given back first.
    drop(chunks);
    Ok(scan.ahead.take(place).map_or_else(|| parquet.chunks(), Ok)?)
}

impl ArrowBatches {
    /// The next rows of the morsel. They are split, because a writer may have put all rows in one batch.
    fn next(&mut self, batch_rows: usize) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(current) = self.current.take().filter(|current| current.num_rows() > 0) {
                let taken = current.num_rows().min(batch_rows);
                let rest = current.slice(taken, current.num_rows() - taken);
                self.current = Some(rest);
                let first_row = self.next_row;
                self.next_row = first_row.map(|row| row + taken as u64);
                return Ok(Some(self.assembly.assemble(&current.slice(0, taken), first_row)?));
            }
            if self.done {
                return Ok(None);
            }
            self.current = self.reader.next()?;
            self.done = !self.is_stream || self.current.is_none();
        }
    }
}

/// Runs a decoder that may panic on damaged bytes, and converts a panic to an error.
fn guarded<T>(file: &SetFile, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::new(ErrorKind::Io, format!("{}: damaged data, the decoder stopped: {text}", file.name))
            .with_hint("check the file's format and that it was written completely"))
    })
}

/// The error of a value. If the type was inferred, the hint says how to specify it in the query.
fn with_way_out(error: IngestError, set: &FileSet) -> Error {
    let details = error.details();
    let name = set.name.replace('\'', "''");
    if set.format == FileFormat::Json && matches!(details.reason, Reason::ColumnMismatch(_)) {
        set.note_outgrown();
        let plain = Error::from(error);
        return Error::new(plain.kind(), plain.to_string()).with_hint(format!(
            "the columns are those of the file's first rows; to find those of all rows: FROM '{name}' (SAMPLE_ROWS -1)"
        ));
    }
    let inferred = details.column.as_ref().and_then(|column| set.schema.index_of(column).ok());
    let is_inferred = inferred.is_some_and(|at| set.inferred[at].is_some());
    let column = details.column.clone().unwrap_or_default().replace('\'', "''");
    let is_value = matches!(details.reason, Reason::Value { .. });
    let plain = Error::from(error);
    if !is_inferred || !is_value {
        return plain;
    }
    set.note_outgrown();
    let kind = plain.kind();
    Error::new(kind, plain.to_string()).with_hint(format!(
        "the type was found in the file's first rows; declare it: FROM '{name}' (TYPES '\"{column}\" VARCHAR'), or let all \
         rows decide: FROM '{name}' (SAMPLE_ROWS -1)"
    ))
}
