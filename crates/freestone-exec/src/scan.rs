//! Scans of native tables as sources: stored values become vectors without Arrow arrays in between.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use freestone_store::StoreError;
use freestone_store::Table;
use freestone_store::column::{ColumnBuffer, Decoded, dictionary_texts};
use freestone_store::scan::{Cursor, Morsel, MorselQueue, Morsels, Pieces, ScanMetrics, ScanRequest, Sink};
use freestone_store::segment::Segment;
use parking_lot::Mutex;

use crate::convert::{form_of, from_arrow};
use crate::error::{ExecError, Result};
use crate::pipeline::{Progress, Source, SourceWorker, Take};
use crate::vector::{Batch, Dictionary, Form, Values, Vector};

/// A scan of a native table, whose units are morsels.
pub struct Scan {
    table: Arc<Table>,
    request: Arc<ScanRequest>,
    queue: Arc<MorselQueue>,
    metrics: Arc<ScanMetrics>,
    dictionaries: Arc<Dictionaries>,
}

/// By segment and column.
type Dictionaries = Mutex<HashMap<(usize, usize), Arc<Dictionary>>>;

/// The rows of a batch by which the size of pieces is bounded.
const PIECE_ROWS: usize = 8192;

impl Scan {
    /// A scan of the rows that a request selects, whose columns are not structs, among the morsels of a queue.
    pub fn new(
        table: Arc<Table>,
        request: Arc<ScanRequest>,
        queue: Arc<MorselQueue>,
        metrics: Arc<ScanMetrics>,
    ) -> Scan {
        Scan { table, request, queue, metrics, dictionaries: Arc::default() }
    }

    /// Whether the scan can return these columns of a table.
    pub fn has_all(table: &Table, columns: &[usize]) -> bool {
        let is_flat = |column: &usize| match table.schema.columns.get(*column) {
            Some(column) => !matches!(column.data_type, DataType::Struct(_)),
            None => false,
        };
        columns.iter().all(is_flat)
    }
}

impl Source for Scan {
    fn worker(&self) -> Box<dyn SourceWorker> {
        let is_long = |column: &usize| form_of(self.table.schema.stored_type(*column)) as u8 >= Form::Text as u8;
        let has_texts = self.request.projection.iter().any(is_long);
        Box::new(Worker {
            cursor: Cursor::new(self.table.clone(), self.request.clone(), self.metrics.clone()),
            pieces: Pieces::new(Morsels::new(self.queue.clone()), has_texts, PIECE_ROWS),
            has_texts,
            table: self.table.clone(),
            request: self.request.clone(),
            morsels: self.queue.morsels().iter().map(|morsel| (morsel.segment, morsel.rows.clone())).collect(),
            dictionaries: self.dictionaries.clone(),
            claimed: None,
        })
    }

    fn units(&self) -> usize {
        self.queue.morsels().len()
    }
}

struct Worker {
    table: Arc<Table>,
    request: Arc<ScanRequest>,
    cursor: Cursor,
    pieces: Pieces,
    has_texts: bool,
    morsels: Vec<(usize, Range<u32>)>,
    dictionaries: Arc<Dictionaries>,
    claimed: Option<(Morsel, Option<Morsel>)>,
}

impl SourceWorker for Worker {
    fn claim(&mut self) -> Option<Progress> {
        let cursor = &self.cursor;
        let (piece, next) = self.pieces.take(|morsel| cursor.zone_rows(morsel))?;
        let at = (piece.segment, piece.rows.start);
        let unit = self.morsels.partition_point(|(segment, rows)| (*segment, rows.start) <= at).saturating_sub(1);
        let is_done = piece.rows.end >= self.morsels[unit].1.end;
        self.claimed = Some((piece, next));
        Some(Progress { unit, is_done })
    }

    fn read(&mut self, take: Take<'_>) -> Result<()> {
        let Some((piece, next)) = self.claimed.take() else { return Ok(()) };
        let (mut failed, mut bytes) = (None, 0);
        let mut rows = Rows {
            table: &self.table,
            request: &self.request,
            dictionaries: &self.dictionaries,
            take,
            failed: &mut failed,
            bytes: &mut bytes,
        };
        let scanned = self.cursor.scan_into(&piece, next.as_ref(), &mut rows);
        // The error of what takes the rows comes first: the scan ended because of it.
        if let Some(error) = failed {
            return Err(error);
        }
        scanned?;
        if self.has_texts {
            self.pieces.gave(bytes);
        }
        Ok(())
    }
}

/// Takes the rows of a granule from the scan.
struct Rows<'a, 'b> {
    table: &'a Arc<Table>,
    request: &'a ScanRequest,
    dictionaries: &'a Dictionaries,
    take: Take<'b>,
    failed: &'a mut Option<ExecError>,
    /// Of long values.
    bytes: &'a mut usize,
}

impl Rows<'_, '_> {
    fn vector(&self, ordinal: usize, column: usize, buffer: &mut ColumnBuffer) -> stored::Result<Vector> {
        let data_type = self.table.schema.stored_type(column);
        let is_plain = match &buffer.decoded {
            Decoded::I64(_) => !matches!(form_of(data_type), Form::Arrow),
            Decoded::I128(_) | Decoded::F64(_) => true,
            Decoded::Codes(_) => form_of(data_type) == Form::Text,
            _ => false,
        };
        if !is_plain {
            let taken = std::mem::replace(buffer, ColumnBuffer::new(data_type));
            let corrupt = |reason: String| StoreError::Corrupt { file: self.table.name.clone(), reason };
            return Ok(from_arrow(&taken.finish().map_err(corrupt)?));
        }
        let valid = buffer.take_nulls();
        let values = match &mut buffer.decoded {
            Decoded::I64(v) if *data_type == DataType::Boolean => {
                Values::Bits(BooleanBuffer::collect_bool(v.len(), |row| v[row] != 0))
            }
            Decoded::I64(v) => Values::Int(std::mem::take(v).into()),
            Decoded::I128(v) => Values::Wide(std::mem::take(v).into()),
            Decoded::F64(v) => Values::Float(std::mem::take(v).into()),
            Decoded::Codes(v) => {
                let codes = std::mem::take(v);
                Values::Codes(codes.into(), self.dictionary(ordinal, column)?)
            }
            other => unreachable!("{other:?} is not plain"),
        };
        Ok(Vector::with_nulls(values, valid))
    }

    fn dictionary(&self, ordinal: usize, column: usize) -> stored::Result<Arc<Dictionary>> {
        let mut known = self.dictionaries.lock();
        if let Some(dictionary) = known.get(&(ordinal, column)) {
            return Ok(dictionary.clone());
        }
        let segment = self.table.open_segment(ordinal)?;
        let corrupt = |reason: String| StoreError::Corrupt { file: segment.name().to_owned(), reason };
        let shared = segment.dictionary(column).ok_or_else(|| corrupt("codes without a dictionary".to_owned()))?;
        let texts = dictionary_texts(shared).map_err(corrupt)?;
        let dictionary = Arc::new(Dictionary::ascending(texts.as_string_view().clone()));
        known.insert((ordinal, column), dictionary.clone());
        Ok(dictionary)
    }
}

mod stored {
    pub type Result<T> = std::result::Result<T, freestone_store::StoreError>;
}

impl Sink for Rows<'_, '_> {
    fn take_zone(&mut self, _: &Segment, _: usize, _: usize) -> bool {
        false
    }

    fn would_take(&self, _: &Segment, _: usize, _: usize) -> bool {
        false
    }

    fn take_rows(
        &mut self,
        ordinal: usize,
        columns: &mut [ColumnBuffer],
        rows: usize,
        _: Option<&[u64]>,
    ) -> stored::Result<()> {
        let projection = &self.request.projection;
        let vectors = projection.iter().zip(columns).map(|(column, buffer)| self.vector(ordinal, *column, buffer));
        let columns = vectors.collect::<stored::Result<Vec<_>>>()?;
        *self.bytes += columns.iter().map(long_bytes).sum::<usize>();
        (self.take)(Batch { rows, columns }).map_err(|error| {
            *self.failed = Some(error);
            StoreError::Invalid(String::new())
        })
    }
}

/// The bytes of a vector's values, if they are long.
fn long_bytes(vector: &Vector) -> usize {
    match &vector.values {
        Values::Text(texts) => texts.views.iter().map(|view| 16 + *view as u32 as usize).sum(),
        Values::Arrow(array) => array.get_array_memory_size(),
        _ => vector.bytes(),
    }
}
