//! Ordered indexes, which find the rows of a segment by the values of a key.
//!
//! An index of a segment is a segment itself, within the same file. Its rows are the entries, sorted by the key: the
//! columns of the key and the row number. So it is encoded, checked and cached like every segment, and its zones lead
//! to the entries of a value as an inner node of a tree would. It is read from the medium when it is first used.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow_schema::DataType;

use super::Segment;
use super::clustering::SegmentClustering;
use super::footer::IndexDescription;
use super::writer::{SegmentFile, parallel, write_segment};
use crate::collected::CollectedColumn;
use crate::column::{ColumnData, Physical};
use crate::design::{Design, Preset};
use crate::error::{Result, StoreError};
use crate::limits::{GRANULE_ROWS, ZONE_ROWS};
use crate::media::{self, Buffer, Pending, ReadFile, ReadRequest};
use crate::schema::{Column, TableSchema};
use crate::sort::sort_order;

/// The number of zones that a search for a key may test, on average. With more, the key has an index.
const ZONES_PER_SEARCH: usize = 4;

/// The columns that [`write`] may need for a segment of this number of rows.
pub(super) fn columns(schema: &TableSchema, design: &Design, rows: usize) -> Result<Vec<usize>> {
    if rows <= GRANULE_ROWS {
        return Ok(vec![]);
    }
    let unique = schema.unique_keys.iter().map(|key| &key.columns);
    let keys = design.index.iter().chain(unique).map(|names| schema.positions(names)).collect::<Result<Vec<_>>>()?;
    Ok(keys.concat())
}

/// The key columns and the file of each index: those of the design, and of the enforced keys that zone pruning does
/// not find. Segments of at most one granule have no indexes, because a scan is as fast. `columns` are those of
/// [`columns`], by their number.
pub(super) fn write(
    schema: &TableSchema,
    design: &Design,
    rows: usize,
    columns: &HashMap<usize, ColumnData>,
    threads: usize,
) -> Result<Vec<(Vec<u32>, SegmentFile)>> {
    if rows <= GRANULE_ROWS {
        return Ok(vec![]);
    }
    let keys = keys(schema, design, columns)?;
    parallel(&keys, threads, |key| {
        let order = sort_order(&key.iter().map(|c| &columns[c]).collect::<Vec<_>>());
        let mut entries: Vec<ColumnData> = key.iter().map(|c| columns[c].permute(&order)).collect();
        let rows = order.into_iter().map(i64::from).collect();
        entries.push(ColumnData { values: Physical::Int(rows), validity: None });
        let entries = entries.into_iter().map(CollectedColumn::from).collect();
        let sort = key.iter().map(|c| schema.columns[*c].name.clone()).collect();
        let entry_design = Design { page_size: design.page_size, sort, ..Design::preset(Preset::Pax) };
        let schema = entry_schema(schema, key);
        let file = write_segment(&schema, &entry_design, entries, SegmentClustering::default(), 1)?;
        Ok((key.iter().map(|c| *c as u32).collect(), file))
    })
}

/// The columns of each index that a segment of these rows has.
fn keys(schema: &TableSchema, design: &Design, columns: &HashMap<usize, ColumnData>) -> Result<Vec<Vec<usize>>> {
    let mut keys = design.index.iter().map(|names| schema.positions(names)).collect::<Result<Vec<_>>>()?;
    let unique = schema.unique_keys.iter().map(|key| schema.positions(&key.columns));
    let unique = unique.collect::<Result<Vec<_>>>()?;
    for key in &unique {
        // An index whose first columns are all of a key's: of this key, or of one that is a part of it.
        let begins_with = |index: &[usize], key: &[usize]| {
            index.len() >= key.len() && index[..key.len()].iter().all(|column| key.contains(column))
        };
        let is_part = |index: &[usize]| {
            unique.iter().any(|part| part.iter().all(|c| key.contains(c)) && begins_with(index, part))
        };
        let is_served =
            keys.iter().any(|index| is_part(index)) || key.iter().any(|column| zones_find(&columns[column]));
        if !is_served {
            keys.push(key.clone());
        }
    }
    Ok(keys)
}

/// Whether the zones lead to a value of a column: few of them overlap.
fn zones_find(column: &ColumnData) -> bool {
    let rows: Vec<usize> = (0..column.len()).collect();
    let range = |rows: &[usize]| {
        let values = rows.iter().filter(|row| column.is_valid(**row)).map(|row| column.order_prefix(*row));
        values.fold((u64::MAX, 0), |(low, high), value| (low.min(value), high.max(value)))
    };
    let zones: Vec<(u64, u64)> = rows.chunks(ZONE_ROWS).map(range).collect();
    let overlaps = |(low, high): &(u64, u64)| zones.iter().filter(|other| other.0 <= *high && *low <= other.1).count();
    zones.iter().map(overlaps).sum::<usize>() <= ZONES_PER_SEARCH * zones.len()
}

/// The columns of an index: those of the key, then the row's number.
fn entry_schema(schema: &TableSchema, key: &[usize]) -> TableSchema {
    let row = Column { name: "row".into(), data_type: DataType::UInt32, nullable: false };
    let columns = key.iter().map(|c| schema.columns[*c].clone()).chain([row]).collect();
    TableSchema { columns, ..TableSchema::default() }
}

/// An index of a segment, opened when it is first used.
#[derive(Debug)]
pub struct SegmentIndex {
    description: IndexDescription,
    columns: Vec<usize>,
    opened: OnceLock<Arc<Segment>>,
}

impl SegmentIndex {
    /// `end` is the maximum end of the index in the file.
    pub(super) fn new(description: IndexDescription, end: u64) -> Result<Self, String> {
        let (offset, bytes) = (description.offset, description.bytes);
        if offset.checked_add(bytes).is_none_or(|index_end| index_end > end) {
            return Err(format!("an index of {bytes} bytes at byte {offset} lies behind the end of the file"));
        }
        let columns = description.columns.iter().map(|c| *c as usize).collect();
        Ok(SegmentIndex { description, columns, opened: OnceLock::new() })
    }

    /// The index of a segment whose columns are elsewhere in its table now. `None` if one of the key is gone.
    pub(super) fn moved(&self, position: impl Fn(usize) -> Option<usize>) -> Option<Self> {
        let columns = self.columns.iter().map(|column| position(*column)).collect::<Option<_>>()?;
        Some(SegmentIndex { description: self.description.clone(), columns, opened: OnceLock::new() })
    }

    /// The description of the index with the columns of the table.
    pub(super) fn described(&self) -> IndexDescription {
        IndexDescription { columns: self.columns.iter().map(|c| *c as u32).collect(), ..self.description.clone() }
    }

    /// The columns of the key, by position in the table.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The bytes of the index in the segment's file.
    pub fn bytes(&self) -> u64 {
        self.description.bytes
    }

    /// Checks that zeros fill the rest of the file's page after the index. No checksum covers these bytes.
    ///
    /// # Errors
    /// A byte is not zero, or the page cannot be read.
    pub(crate) fn check_padding(&self, segment: &Segment) -> Result<()> {
        let end = self.description.offset + self.description.bytes;
        let mut padding = vec![0; (end.next_multiple_of(segment.page_size() as u64) - end) as usize];
        segment.file().read_at(end, &mut padding)?;
        match padding.iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(at) => {
                let reason = format!("at byte {}: not a zero, behind an index", end + at as u64);
                Err(StoreError::Corrupt { file: segment.name().to_owned(), reason })
            }
        }
    }

    /// The entries of `segment`'s rows: the columns of the key, sorted, and the row of each entry.
    ///
    /// # Errors
    /// The index cannot be read or is damaged.
    pub fn entries(&self, segment: &Segment) -> Result<Arc<Segment>> {
        if let Some(known) = self.opened.get() {
            return Ok(known.clone());
        }
        let (offset, len) = (self.description.offset, self.description.bytes);
        let part = Part { file: segment.file().clone(), offset, len };
        let first_page = (offset / segment.page_size() as u64) as u32;
        let entries = Segment::open_at(segment.id, segment.name(), Arc::new(part), first_page)?;
        let (found, of) = (&entries.footer.description, &segment.as_stored().footer.description);
        let key: Vec<usize> = self.description.columns.iter().map(|c| *c as usize).collect();
        if found.rows != of.rows
            || found.page_size != of.page_size
            || found.schema != entry_schema(&of.schema, &key)
            || entries.group_count() != 1
            || !entries.indexes().is_empty()
        {
            let reason = format!("the index at byte {offset} is not one of this segment's rows");
            return Err(StoreError::Corrupt { file: segment.name().to_owned(), reason });
        }
        Ok(self.opened.get_or_init(|| Arc::new(entries)).clone())
    }
}

/// A part of a file that is read as a file of its own.
#[derive(Debug)]
struct Part {
    file: Arc<dyn ReadFile>,
    offset: u64,
    len: u64,
}

impl ReadFile for Part {
    fn len(&self) -> media::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> media::Result<()> {
        self.file.read_at(self.offset + offset, into)
    }

    fn start(&self, requests: &[ReadRequest]) -> Pending {
        let moved: Vec<_> = requests.iter().map(|r| ReadRequest { offset: self.offset + r.offset, ..*r }).collect();
        self.file.start(&moved)
    }

    fn keep(&self, offset: u64, bytes: &[u8]) {
        self.file.keep(self.offset + offset, bytes);
    }

    fn read_again(&self, request: ReadRequest) -> Option<media::Result<Buffer>> {
        self.file.read_again(ReadRequest { offset: self.offset + request.offset, ..request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::UniqueKey;

    fn ints(values: impl Iterator<Item = i64>) -> ColumnData {
        ColumnData { values: Physical::Int(values.collect()), validity: None }
    }

    #[test]
    fn keys_that_zones_do_not_find_have_an_index() {
        let rows = 20 * ZONE_ROWS as i64;
        let scattered = || ints((0..rows).map(|row| row * 7919 % rows));
        let ascending = || ints(0..rows);
        let nearly = || ints((0..rows).map(|row| row ^ 1023));
        assert!(zones_find(&ascending()) && zones_find(&nearly()) && !zones_find(&scattered()));
        let column = |name: &str| Column { name: name.into(), data_type: DataType::Int64, nullable: true };
        let key = |names: &[&str]| UniqueKey {
            name: names.concat(),
            columns: names.iter().map(ToString::to_string).collect(),
        };
        let schema = TableSchema {
            columns: vec![column("a"), column("b"), column("c")],
            unique_keys: vec![key(&["a"]), key(&["b"]), key(&["c", "a"]), key(&["c", "b"])],
            ..TableSchema::default()
        };
        let columns = HashMap::from([(0, scattered()), (1, ascending()), (2, scattered())]);
        let of = |index: &[&str]| {
            let index = index.iter().map(|name| vec![name.to_string()]).collect();
            keys(&schema, &Design { index, ..Design::default() }, &columns).unwrap()
        };
        // The second key and the last are found by b, and the third by the index of the first.
        assert_eq!(of(&[]), [vec![0]]);
        assert_eq!(of(&["c"]), [vec![2], vec![0]]);
    }
}
