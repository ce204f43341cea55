//! Reads a row group of a Parquet file page by page: first the tested columns, whose filters are computed once per value
//! of a dictionary, and then of the others only what belongs to rows that pass.
//!
//! It knows flat columns whose pages have plain values or codes of a dictionary. The decoder of the `parquet` crate reads
//! all others, and this one uses that crate's reader of pages.

mod column;
mod filter;
#[cfg(test)]
mod tests;
mod values;

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use parquet::basic::Encoding;
use parquet::errors::{ParquetError, Result as PageResult};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use column::{Column, Content, Piece};
pub(super) use filter::PageFilter;
use filter::kept;
use values::{Kind, Values};

use super::assembly::Assembly;
use super::filters::mask_of;
use super::scan::Scan;
use super::set::{ColumnSource, SetFile};
use crate::error::{Error, Result};
use crate::ingest::{FileChunks, ParquetFile};

/// Reads the rows of a row group that pass.
pub(super) struct GroupPages {
    columns: Vec<Stored>,
    tested: Assembly,
    output: Assembly,
    /// The column of the file that each tested column is, if it has the same type there.
    direct: Vec<Option<usize>>,
    /// The ranges of rows that may pass: how many to leave out, and how many to read after them.
    ranges: VecDeque<(usize, usize)>,
    /// The number in the file, counted from 1, of the row that is read next.
    next_row: u64,
    batch_rows: usize,
    group: usize,
}

/// A column that is read.
struct Stored {
    /// Its place among the columns of the file.
    place: usize,
    pages: Column,
    data_type: DataType,
    /// The dictionary as an array of texts, if the column is read as codes.
    texts: Option<ArrayRef>,
    /// The rows that were read last.
    piece: Option<Piece>,
}

/// The columns that a row group is read for.
pub(super) struct Wanted<'a> {
    pub scan: &'a Scan,
    pub file: &'a SetFile,
    pub parquet: &'a ParquetFile,
    pub metadata: &'a ArrowReaderMetadata,
    pub group: usize,
}

impl GroupPages {
    /// A reader of the rows of a row group that a selection has; `None` if it has columns that this decoder does not know.
    ///
    /// # Errors
    /// The pages cannot be read.
    pub fn open(wanted: &Wanted<'_>, chunks: &FileChunks, selection: Option<&RowSelection>) -> Result<Option<Self>> {
        let Wanted { scan, file, parquet, metadata, group } = *wanted;
        let tested = Assembly::new(&scan.read, file, &scan.tested);
        let output = Assembly::new(&scan.read, file, &scan.projection);
        let mut places: Vec<usize> = tested.stored.iter().chain(&output.stored).copied().collect();
        places.sort_unstable();
        places.dedup();
        let chunks = Arc::new(chunks.clone());
        let mut columns = vec![];
        for place in places {
            let read = || Stored::open(place, parquet, metadata, group, &chunks);
            match read().map_err(|error| Error::from(parquet.malformed(&error, group)))? {
                Some(column) => columns.push(column),
                None => return Ok(None),
            }
        }
        let groups = parquet.metadata().metadata().row_groups();
        let next_row = 1 + groups[..group].iter().map(|before| before.num_rows().cast_unsigned()).sum::<u64>();
        let rows = usize::try_from(groups[group].num_rows()).unwrap_or(0);
        let ranges = match selection {
            None => VecDeque::from([(0, rows)]),
            Some(selection) => ranges(selection),
        };
        let is_same = |place: usize, column: usize| {
            parquet.schema().field(place).data_type() == scan.set.schema.field(column).data_type()
        };
        let direct = scan.tested.iter().map(|column| match file.columns[*column] {
            ColumnSource::Stored(place) => Some(place).filter(|place| is_same(*place, *column)),
            _ => None,
        });
        let (direct, batch_rows) = (direct.collect(), scan.batch_rows.max(1));
        Ok(Some(Self { columns, tested, output, direct, ranges, next_row, batch_rows, group }))
    }

    /// The next rows that pass, with the output columns; `None` after the last ones.
    ///
    /// # Errors
    /// A page is damaged, or a filter fails.
    pub fn next(&mut self, parquet: &ParquetFile, mut filter: Option<&mut PageFilter>) -> Result<Option<RecordBatch>> {
        let group = self.group;
        let damaged = |error: Failed| match error {
            Failed::Page(error) => parquet.malformed(&error, group).into(),
            Failed::Test(error) => *error,
        };
        while let Some(rows) = self.advance() {
            let first_row = self.next_row;
            self.next_row += rows as u64;
            let left = self.test(rows, filter.as_deref_mut()).map_err(damaged)?;
            if left.as_ref().is_none_or(|left| !left.is_empty()) {
                let read = self.batch(&self.output.stored.clone(), rows, left.as_deref(), true).map_err(damaged)?;
                let batch = self.output.assemble(&read, left.is_none().then_some(first_row))?;
                self.forget(rows);
                return Ok(Some(batch));
            }
            self.forget(rows);
        }
        Ok(None)
    }

    /// The number of rows that are read next. What is left out before them is skipped in all columns.
    fn advance(&mut self) -> Option<usize> {
        let (skipped, rows) = self.ranges.front_mut()?;
        let left_out = std::mem::take(skipped);
        let taken = self.batch_rows.min(*rows);
        *rows -= taken;
        if *rows == 0 {
            self.ranges.pop_front();
        }
        self.next_row += left_out as u64;
        if left_out > 0 {
            self.columns.iter_mut().for_each(|column| column.pages.skip(left_out));
        }
        Some(taken)
    }

    /// The rows are done: columns that did not read them skip them.
    fn forget(&mut self, rows: usize) {
        for column in &mut self.columns {
            if column.piece.take().is_none() {
                column.pages.skip(rows);
            }
        }
    }

    /// The rows that pass; `None` if all pass.
    fn test(&mut self, rows: usize, filter: Option<&mut PageFilter>) -> Result<Option<Vec<u32>>, Failed> {
        let Some(filter) = filter else { return Ok(None) };
        let left = self.filtered(filter, rows)?;
        filter.measured.add(rows, left.as_ref().map_or(rows, Vec::len));
        Ok(left)
    }

    fn filtered(&mut self, filter: &mut PageFilter, rows: usize) -> Result<Option<Vec<u32>>, Failed> {
        let mut left: Option<Vec<u32>> = None;
        let mut by_array = vec![];
        for (number, single) in filter.singles.iter_mut().enumerate() {
            if left.as_ref().is_some_and(Vec::is_empty) {
                return Ok(left);
            }
            let Some(place) = self.direct[single.column] else {
                by_array.push(number);
                continue;
            };
            let column = self.column(place)?;
            column.read(rows)?;
            let Some(piece) = &column.piece else { continue };
            match single.of_codes(piece, left.as_deref(), |data_type| column.dictionary_array(data_type))? {
                Some(kept) => left = Some(kept),
                None => by_array.push(number),
            }
        }
        let has_others = filter.others.is_some() || !filter.dynamic.is_empty();
        if by_array.is_empty() && !has_others || left.as_ref().is_some_and(Vec::is_empty) {
            return Ok(left);
        }
        for number in by_array {
            let single = &filter.singles[number];
            let array = match self.direct[single.column] {
                Some(place) => self.column(place)?.array(rows, left.as_deref(), false)?,
                None => self.tested_batch(rows, left.as_deref())?.column(single.column).clone(),
            };
            left = narrowed(left, rows, single.of_array(&array).map_err(Error::from)?);
        }
        if let Some(others) = &filter.others {
            let batch = self.tested_batch(rows, left.as_deref())?;
            left = narrowed(left, rows, mask_of(others, &batch).map_err(Error::from)?);
        }
        for test in &mut filter.dynamic {
            if left.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
            if test.rests() {
                continue;
            }
            let batch = self.tested_batch(rows, left.as_deref())?;
            left = narrowed(left, rows, test.passing(&batch, None).map_err(Error::from)?);
        }
        Ok(left.filter(|left| left.len() < rows))
    }

    fn tested_batch(&mut self, rows: usize, left: Option<&[u32]>) -> Result<RecordBatch, Failed> {
        let read = self.batch(&self.tested.stored.clone(), rows, left, false)?;
        Ok(self.tested.assemble(&read, None)?)
    }

    /// The rows that are left, with some columns of the file, which are not read again if these are the last.
    fn batch(
        &mut self,
        places: &[usize],
        rows: usize,
        left: Option<&[u32]>,
        are_last: bool,
    ) -> Result<RecordBatch, Failed> {
        let mut arrays = vec![];
        for place in places {
            arrays.push(self.column(*place)?.array(rows, left, are_last)?);
        }
        let fields: Vec<_> = places
            .iter()
            .zip(&arrays)
            .map(|(place, array)| Field::new(place.to_string(), array.data_type().clone(), true))
            .collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(left.map_or(rows, <[u32]>::len)));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options).map_err(Error::from)?)
    }

    fn column(&mut self, place: usize) -> Result<&mut Stored, Failed> {
        let found = self.columns.iter_mut().find(|column| column.place == place);
        found.ok_or_else(|| Failed::Page(ParquetError::General("a column that is not read".into())))
    }
}

/// Why rows could not be read.
enum Failed {
    Page(ParquetError),
    Test(Box<Error>),
}

impl From<ParquetError> for Failed {
    fn from(error: ParquetError) -> Self {
        Failed::Page(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Test(Box::new(error))
    }
}

impl From<datafusion::error::DataFusionError> for Failed {
    fn from(error: datafusion::error::DataFusionError) -> Self {
        Failed::Test(Box::new(error.into()))
    }
}

impl Stored {
    /// The pages of a column; `None` if this decoder does not know them.
    fn open(
        place: usize,
        parquet: &ParquetFile,
        metadata: &ArrowReaderMetadata,
        group: usize,
        chunks: &Arc<FileChunks>,
    ) -> PageResult<Option<Stored>> {
        let Some(leaf) = parquet.bounded_leaf(place) else { return Ok(None) };
        let data_type = metadata.schema().field(place).data_type().clone();
        let (group_data, descriptor) = (metadata.metadata().row_group(group), metadata.parquet_schema().column(leaf));
        let chunk = group_data.column(leaf);
        let is_flat = descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1;
        let Some(kind) = Kind::of(&descriptor, &data_type).filter(|_| is_flat && has_known_encodings(chunk)) else {
            return Ok(None);
        };
        let rows = usize::try_from(group_data.num_rows()).unwrap_or(0);
        let locations = metadata.metadata().offset_index().and_then(|index| {
            let locations = index.get(group)?.get(leaf)?.page_locations();
            (!locations.is_empty()).then(|| locations.clone())
        });
        let pages = SerializedPageReader::new(chunks.clone(), chunk, rows, locations)?;
        let pages = Column::new(Box::new(pages), kind, descriptor.max_def_level() == 1);
        Ok(Some(Stored { place, pages, data_type, texts: None, piece: None }))
    }

    /// Reads the next rows, unless they were read.
    fn read(&mut self, rows: usize) -> PageResult<()> {
        if self.piece.is_none() {
            self.piece = Some(self.pages.read(rows)?);
        }
        Ok(())
    }

    /// The values of the dictionary, in a type of tables.
    fn dictionary_array(&self, data_type: &DataType) -> Result<ArrayRef, Failed> {
        Ok(self.pages.dictionary()?.as_ref().clone().into_array(None, data_type)?)
    }

    /// The array of the rows that are left. With `is_last`, they are not read again.
    fn array(&mut self, rows: usize, left: Option<&[u32]>, is_last: bool) -> PageResult<ArrayRef> {
        self.read(rows)?;
        let Some(piece) = &mut self.piece else { return Err(values::missing()) };
        let nulls = piece.valid.as_ref().map(|valid| match left {
            Some(left) => left.iter().map(|row| valid[*row as usize]).collect::<NullBuffer>(),
            None => NullBuffer::from(valid.as_slice()),
        });
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let taken = match (&mut piece.content, left) {
            (Content::Values(values), None) if is_last => std::mem::replace(values, Values::Bits(vec![])),
            (Content::Values(values), None) => values.clone(),
            (Content::Values(values), Some(left)) => values.at(left, None),
            (Content::Codes(codes), left) if matches!(self.data_type, DataType::Dictionary(..)) => {
                let taken = match left {
                    Some(left) => left.iter().map(|row| codes[*row as usize]).collect(),
                    None => codes.clone(),
                };
                return self.coded(taken, nulls);
            }
            (Content::Codes(codes), left) => self.pages.dictionary()?.at(codes, left),
        };
        taken.into_array(nulls, &self.data_type)
    }

    /// Codes of the dictionary as such.
    fn coded(&mut self, codes: Vec<u32>, nulls: Option<NullBuffer>) -> PageResult<ArrayRef> {
        let texts = match &self.texts {
            Some(texts) => texts.clone(),
            None => {
                let Values::Views(views, pages) = self.pages.dictionary()?.as_ref().clone() else {
                    return Err(ParquetError::General("texts that are none".into()));
                };
                let texts: ArrayRef = Arc::new(values::dictionary_texts(views, pages));
                self.texts = Some(texts.clone());
                texts
            }
        };
        let codes = UInt32Array::new(codes.into(), nulls);
        Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(codes, texts)?))
    }
}

/// Whether all pages of a column chunk are encoded as this decoder knows.
fn has_known_encodings(chunk: &ColumnChunkMetaData) -> bool {
    #[expect(deprecated, reason = "old files have it")]
    let known = |encoding: Encoding| {
        use Encoding::*;
        matches!(encoding, PLAIN | RLE | RLE_DICTIONARY | PLAIN_DICTIONARY | BIT_PACKED)
    };
    chunk.encodings().all(known)
}

/// The ranges of a selection: how many rows to leave out, and how many to read after them.
fn ranges(selection: &RowSelection) -> VecDeque<(usize, usize)> {
    let (mut ranges, mut skipped) = (VecDeque::new(), 0);
    for part in selection.iter() {
        if part.skip {
            skipped += part.row_count;
        } else if part.row_count > 0 {
            ranges.push_back((std::mem::take(&mut skipped), part.row_count));
        }
    }
    ranges
}

/// The rows of `left` that a mask over them has. `None` of a mask has all.
fn narrowed(left: Option<Vec<u32>>, rows: usize, mask: Option<BooleanArray>) -> Option<Vec<u32>> {
    let Some(mask) = mask else { return left };
    Some(match left {
        None => kept(None, rows, |row| mask.value(row)),
        Some(left) => left.iter().enumerate().filter(|(at, _)| mask.value(*at)).map(|(_, row)| *row).collect(),
    })
}
