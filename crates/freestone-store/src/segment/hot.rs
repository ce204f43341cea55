//! Hot rows: the rows of small inserts, in memory. They are PAX pages like those of a segment, with aggregates for each
//! zone, so the one scan reads them, too. The commit log has their pages, and makes them durable.
//!
//! A run of hot rows only grows. Each commit makes a new version of it, which shares the full pages with the version
//! before. Small pages at the end are joined when they have as many rows as the one after them, so that each row is
//! copied a few times, and a run has few small pages.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_schema::DataType;
use freestone_codec::{ColumnPlan, Encoding, Prepared, Rows, Scratch, Transform};

use super::footer::{ColumnDescription, Description, Footer, GroupDescription, PageEntry};
use super::hot_keys::{Asked, HotKeys};
use super::reader::{CachedPage, Segment};
use super::zones::ZoneMap;
use crate::column::{ColumnBuffer, ColumnData, Physical};
use crate::design::{Design, PAGE_SIZE_MIN, PageFormat, Preset};
use crate::error::{Result, StoreError};
use crate::format::{GroupContext, Layout, pax};
use crate::limits::{HOT_PAGE_ROWS, HOT_RUN_ROWS};
use crate::page::{self, HEADER, PageHeader};
use crate::schema::{TableSchema, kind};

const PLAN: ColumnPlan = ColumnPlan { transform: Transform::None, encoding: Encoding::Plain };

/// On pages of fewer rows, distinct values are not counted.
const DISTINCT_ROWS: usize = 512;

/// Some rows in memory, all of which were written to a table with the same columns.
#[derive(Debug, Clone)]
pub struct HotRows {
    columns: Arc<HotColumns>,
    pages: Vec<HotPage>,
    /// One per column.
    zones: Vec<ZoneMap>,
    rows: u32,
    bytes: u64,
    keys: Arc<HotKeys>,
}

/// Columns whose pages are in memory. All versions of a run share them.
#[derive(Debug)]
pub(super) struct HotColumns {
    schema: TableSchema,
    design: Design,
    context: Arc<GroupContext>,
}

#[derive(Debug, Clone)]
struct HotPage {
    first_row: u32,
    page: Arc<CachedPage>,
    /// For each column, the number of distinct values; empty on pages of few rows.
    distinct: Arc<Vec<u32>>,
}

impl HotPage {
    fn rows(&self) -> u32 {
        self.page.header().rows
    }
}

impl HotRows {
    /// No rows, of a table with these columns.
    pub fn new(schema: &TableSchema) -> HotRows {
        let columns = Arc::new(HotColumns::new(schema));
        let types = columns.context.types.iter();
        let zones = types.map(|t| ZoneMap::of(&ColumnData::new(kind(t)), HOT_PAGE_ROWS)).collect();
        HotRows { columns, pages: vec![], zones, rows: 0, bytes: 0, keys: Arc::default() }
    }

    /// These rows, whose columns are in the order of the table.
    ///
    /// # Errors
    /// A value is too large.
    pub fn of(schema: &TableSchema, columns: &[ColumnData]) -> Result<HotRows> {
        let mut hot = HotRows::new(schema);
        let rows = columns.first().map_or(0, ColumnData::len);
        for start in (0..rows).step_by(HOT_PAGE_ROWS) {
            let len = HOT_PAGE_ROWS.min(rows - start);
            let page = hot.columns.encoded(columns, start, len).map_err(StoreError::Invalid)?;
            hot.push(page, distinct(columns, start..start + len));
        }
        for (zones, column) in hot.zones.iter_mut().zip(columns) {
            *zones = ZoneMap::of(column, HOT_PAGE_ROWS);
        }
        Ok(hot)
    }

    /// The columns of the table when the rows were written.
    pub fn schema(&self) -> &TableSchema {
        &self.columns.schema
    }

    /// The number of rows.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The bytes of the pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The pages as the log has them: the number of rows, and the payload.
    pub fn payloads(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.pages.iter().map(|page| (page.rows(), page.page.payload()))
    }

    /// Whether a run of these columns takes the rows of `more` when it has `from` rows.
    pub fn takes(&self, from: u32, more: &HotRows) -> bool {
        from.saturating_add(more.rows) as usize <= HOT_RUN_ROWS && more.schema().is_schema_of(self.schema())
    }

    /// The rows of a page that the log has, after these rows.
    ///
    /// # Errors
    /// A reason why it is not such a page.
    pub fn appended(&self, payload: &[u8], rows: u32) -> Result<HotRows, String> {
        if rows == 0 || rows as usize > HOT_PAGE_ROWS || self.rows.checked_add(rows).is_none() {
            return Err(format!("{rows} hot rows are not those of one page"));
        }
        let page = self.columns.page(payload, rows)?;
        let added = self.columns.decoded(&page)?;
        let mut next = self.clone();
        for (zones, column) in next.zones.iter_mut().zip(&added) {
            zones.extend(self.rows as usize, column, HOT_PAGE_ROWS);
        }
        next.push(page, distinct(&added, 0..rows as usize));
        next.join_small_pages(added)?;
        Ok(next)
    }

    /// The rows of `other`, which must have the same columns, after these rows.
    ///
    /// # Errors
    /// As for [`HotRows::appended`].
    pub fn joined(&self, other: &HotRows) -> Result<HotRows, String> {
        other.payloads().try_fold(self.clone(), |joined, (rows, payload)| joined.appended(payload, rows))
    }

    /// The values of all rows.
    ///
    /// # Errors
    /// A reason why a page is damaged.
    pub fn values(&self) -> Result<Vec<ColumnData>, String> {
        let pages = self.pages.iter().map(|page| self.columns.decoded(&page.page)).collect::<Result<Vec<_>, _>>()?;
        Ok(concatenated(&self.columns, &pages))
    }

    fn push(&mut self, page: CachedPage, distinct: Vec<u32>) {
        self.bytes += page.payload().len() as u64;
        let first_row = self.rows;
        self.rows += page.header().rows;
        self.pages.push(HotPage { first_row, page: Arc::new(page), distinct: Arc::new(distinct) });
    }

    /// Joins the last page, which has the values `last`, with those before it that have as few rows.
    fn join_small_pages(&mut self, last: Vec<ColumnData>) -> Result<(), String> {
        let mut parts = vec![last];
        let mut rows = self.pages.last().map_or(0, HotPage::rows);
        let mut first = self.pages.len().saturating_sub(1);
        while first > 0 {
            let before = &self.pages[first - 1];
            if before.rows() > rows || (before.rows() + rows) as usize > HOT_PAGE_ROWS {
                break;
            }
            parts.push(self.columns.decoded(&before.page)?);
            rows += before.rows();
            first -= 1;
        }
        if parts.len() == 1 {
            return Ok(());
        }
        parts.reverse();
        let values = concatenated(&self.columns, &parts);
        for page in self.pages.drain(first..) {
            self.rows -= page.rows();
            self.bytes -= page.page.payload().len() as u64;
        }
        let page = self.columns.encoded(&values, 0, rows as usize)?;
        self.push(page, distinct(&values, 0..rows as usize));
        Ok(())
    }

    /// An estimate of a column's distinct values: those of one page, if they come several times there.
    fn distinct(&self, column: usize) -> u64 {
        let on_page = |page: &HotPage| Some((*page.distinct.get(column)?, page.rows()));
        match self.pages.iter().filter_map(on_page).max() {
            Some((distinct, rows)) if distinct <= rows / 2 => distinct.into(),
            _ => self.rows.into(),
        }
    }

    /// The rows as a segment with this id.
    pub(crate) fn segment(&self, id: u64) -> Segment {
        let (mut index, mut pages) = (0, Vec::with_capacity(self.pages.len()));
        for page in &self.pages {
            pages.push((page.first_row, index));
            index += page::units_for(page.page.payload().len(), PAGE_SIZE_MIN as usize) as u32;
        }
        let mut segment = self.columns.segment(Parts {
            id,
            name: format!("hot rows {id:x}"),
            rows: self.rows,
            zone_rows: HOT_PAGE_ROWS as u32,
            pages,
            end: index,
            zones: self.zones.clone(),
            distinct: (0..self.zones.len()).map(|column| self.distinct(column)).collect(),
            bytes: self.bytes,
        });
        segment.resident = vec![self.pages.iter().map(|page| page.page.clone()).collect()];
        segment.hot_keys = Some(self.keys.clone());
        segment
    }
}

/// A segment whose pages are in memory.
pub(super) struct Parts {
    pub id: u64,
    pub name: String,
    pub rows: u32,
    pub zone_rows: u32,
    /// The first row and the index of each page.
    pub pages: Vec<(u32, u32)>,
    /// The index behind the last page.
    pub end: u32,
    pub zones: Vec<ZoneMap>,
    /// For each column, an estimate of its distinct values.
    pub distinct: Vec<u64>,
    pub bytes: u64,
}

impl HotColumns {
    pub fn new(schema: &TableSchema) -> HotColumns {
        let schema = schema.of_segment();
        let types: Vec<_> = schema.stored_columns().into_iter().map(|column| column.data_type).collect();
        let shared = vec![None; types.len()];
        let context = Arc::new(GroupContext::new(PageFormat::Pax, types, shared));
        let mut design = Design::preset(Preset::Pax);
        design.page_size = PAGE_SIZE_MIN;
        design.page = Some(PageFormat::Pax);
        HotColumns { schema, design, context }
    }

    /// The columns of the rows.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Rows that count as deleted.
    pub fn empty(&self, rows: usize) -> Vec<ColumnData> {
        let column = |data_type| {
            let mut column = ColumnData::new(kind(data_type));
            match &mut column.values {
                Physical::Int(values) => values.resize(rows, 0),
                Physical::Wide(values) => values.resize(rows, 0),
                Physical::F64(values) => values.resize(rows, 0.0),
                Physical::F32(values) => values.resize(rows, 0.0),
                Physical::Bytes { offsets, .. } => offsets.resize(rows + 1, 0),
            }
            column
        };
        self.context.types.iter().map(column).collect()
    }

    /// A segment without its pages.
    pub fn segment(&self, parts: Parts) -> Segment {
        let HotColumns { schema, design, context } = self;
        let entries: Vec<PageEntry> =
            parts.pages.iter().map(|(first_row, index)| PageEntry { first_row: *first_row, index: *index }).collect();
        let count = schema.stored_count();
        let described = |column: usize| ColumnDescription {
            distinct: parts.distinct[column],
            bytes: parts.bytes / count.max(1) as u64,
            ..ColumnDescription::of(PLAN)
        };
        let group = GroupDescription {
            format: PageFormat::Pax,
            columns: (0..count as u32).collect(),
            pages: entries.len() as u32,
            end: parts.end,
        };
        let description = Description {
            rows: parts.rows,
            zone_rows: parts.zone_rows,
            page_size: PAGE_SIZE_MIN,
            schema: schema.clone(),
            design: design.clone(),
            columns: (0..count).map(described).collect(),
            groups: vec![group],
            dimensions: vec![],
            cluster_keys: None,
            indexes: vec![],
        };
        let footer = Footer { description, pages: vec![entries], zones: parts.zones, dimensions: vec![] };
        Segment {
            id: parts.id,
            name: parts.name,
            file: Arc::new(super::reader::NoFile),
            footer,
            groups: vec![context.clone()],
            places: (0..count).map(|column| (0, column)).collect(),
            texts: (0..count).map(|_| OnceLock::new()).collect(),
            encodings: OnceLock::new(),
            indexes: vec![],
            first_page: 0,
            resident: vec![],
            hot_keys: None,
            blocks: None,
            stored: None,
        }
    }
}

impl Segment {
    /// The hot rows that may have one of these keys, ascending. A key has a value for each of the columns.
    ///
    /// # Errors
    /// A reason why a page is damaged.
    pub(crate) fn hot_rows(
        &self,
        hot_keys: &HotKeys,
        columns: &[usize],
        keys: &[Vec<Asked<'_>>],
    ) -> Result<Vec<u32>, String> {
        hot_keys.rows(self.rows(), columns, keys, |from| self.hot_values(columns, from))
    }

    /// The values of some columns in the hot rows from a number on.
    fn hot_values(&self, columns: &[usize], from: usize) -> Result<Vec<ColumnData>, String> {
        let data_type = |column: &usize| self.footer.description.schema.stored_type(*column);
        let mut buffers: Vec<ColumnBuffer> =
            columns.iter().map(|column| ColumnBuffer::new(data_type(column))).collect();
        let places: Vec<(usize, usize)> =
            columns.iter().enumerate().map(|(at, column)| (at, self.place(*column).1)).collect();
        let run = self.pages_of(0, from..self.rows());
        for at in run.first..=run.last {
            let on_page = self.page_rows(0, at);
            let first = from.max(on_page.start);
            let page = self.resident(0, at).ok_or("a page of hot rows is not in memory")?;
            let rows = Rows::Range { start: first - on_page.start, len: on_page.end - first };
            self.view(0, page).decode(&places, rows, &mut buffers, &mut Scratch::default())?;
        }
        finished(buffers, columns.iter().map(data_type))
    }
}

impl HotColumns {
    /// A page of some rows of `columns`.
    pub fn encoded(&self, columns: &[ColumnData], start: usize, rows: usize) -> Result<CachedPage, String> {
        let prepared = columns
            .iter()
            .map(|column| freestone_codec::prepare(column.values(), column.validity.as_deref(), PLAN, None))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| e.to_string())?;
        let mut payload = vec![];
        let borrowed: Vec<&Prepared<'_>> = prepared.iter().collect();
        pax::encode(&borrowed, start, rows, &mut payload).map_err(|e| e.to_string())?;
        self.page(&payload, rows as u32)
    }

    /// The page with this payload.
    fn page(&self, payload: &[u8], rows: u32) -> Result<CachedPage, String> {
        let layout = Layout::parse(payload, rows as usize, &self.context)?;
        let length = u32::try_from(payload.len()).map_err(|_| "a page of hot rows is too long")?;
        let kind = page::kind_of(PageFormat::Pax);
        let header = PageHeader { index: 0, units: 0, kind, first_row: 0, rows, payload: length, group: 0 };
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.resize(HEADER, 0);
        bytes.extend_from_slice(payload);
        Ok(CachedPage::new(bytes.into(), header, layout))
    }

    /// The values of a page.
    fn decoded(&self, page: &CachedPage) -> Result<Vec<ColumnData>, String> {
        let types = &self.context.types;
        let mut buffers: Vec<ColumnBuffer> = types.iter().map(ColumnBuffer::new).collect();
        let columns: Vec<(usize, usize)> = (0..types.len()).map(|column| (column, column)).collect();
        let rows = Rows::Range { start: 0, len: page.header().rows as usize };
        page.view(&self.context, 0).decode(&columns, rows, &mut buffers, &mut Scratch::default())?;
        finished(buffers, types)
    }
}

/// The values of decoded columns.
fn finished<'a>(
    buffers: Vec<ColumnBuffer>,
    types: impl IntoIterator<Item = &'a DataType>,
) -> Result<Vec<ColumnData>, String> {
    let data =
        |(buffer, data_type): (ColumnBuffer, &DataType)| Ok(ColumnData::from_arrays([&buffer.finish()?], data_type));
    buffers.into_iter().zip(types).map(data).collect()
}

/// The number of distinct values of each column in some rows; nothing if these are few.
fn distinct(columns: &[ColumnData], rows: Range<usize>) -> Vec<u32> {
    if rows.len() < DISTINCT_ROWS {
        return vec![];
    }
    let of_column = |column: &ColumnData| {
        let part = column.permute(&(rows.start as u32..rows.end as u32).collect::<Vec<_>>());
        let mut hashers = vec![DefaultHasher::new(); rows.len()];
        part.hash_rows(&mut hashers);
        hashers.iter().map(Hasher::finish).collect::<HashSet<_>>().len() as u32
    };
    columns.iter().map(of_column).collect()
}

/// The columns of the first part, then those of the second, and so on.
fn concatenated(columns: &HotColumns, parts: &[Vec<ColumnData>]) -> Vec<ColumnData> {
    let column = |at: usize| {
        let sources: Vec<&ColumnData> = parts.iter().map(|part| &part[at]).collect();
        let rows = sources
            .iter()
            .enumerate()
            .flat_map(|(source, column)| (0..column.len() as u32).map(move |row| (source as u32, row)));
        let mut whole = ColumnData::new(kind(&columns.context.types[at]));
        whole.gather(&sources, &rows.collect::<Vec<_>>());
        whole
    };
    (0..columns.context.types.len()).map(column).collect()
}

#[cfg(test)]
mod tests {
    use freestone_codec::{BytesPredicate, IntPredicate, Predicate};
    use proptest::prelude::*;

    use super::*;
    use crate::bitmap;
    use crate::schema::Column;
    use crate::segment::asked;
    use crate::segment::zones::Verdict;

    type Row = (Option<i64>, Option<String>);

    fn schema() -> TableSchema {
        let column = |name: &str, data_type| Column { name: name.into(), data_type, nullable: true };
        let columns = vec![column("a", DataType::Int64), column("b", DataType::Utf8View)];
        TableSchema { columns, ..TableSchema::default() }
    }

    fn columns(rows: &[Row]) -> Vec<ColumnData> {
        let validity = |is_valid: &dyn Fn(&Row) -> bool| {
            let mut words = vec![0; bitmap::words(rows.len())];
            rows.iter().enumerate().filter(|(_, row)| is_valid(row)).for_each(|(at, _)| bitmap::set(&mut words, at));
            Some(words)
        };
        let ints = Physical::Int(rows.iter().map(|(a, _)| a.unwrap_or(0)).collect());
        let (mut offsets, mut data) = (vec![0], vec![]);
        for (_, text) in rows {
            data.extend_from_slice(text.as_deref().unwrap_or("").as_bytes());
            offsets.push(data.len() as u32);
        }
        vec![
            ColumnData { values: ints, validity: validity(&|(a, _)| a.is_some()) },
            ColumnData { values: Physical::Bytes { offsets, data }, validity: validity(&|(_, b)| b.is_some()) },
        ]
    }

    fn rows_of(hot: &HotRows) -> Vec<Row> {
        let values = hot.values().unwrap();
        let text = |row| String::from_utf8(values[1].bytes(row).to_vec()).unwrap();
        let int = |row| values[0].int_at(row).map(|v| v as i64);
        (0..hot.rows() as usize)
            .map(|row| (int(row).filter(|_| values[0].is_valid(row)), values[1].is_valid(row).then(|| text(row))))
            .collect()
    }

    fn of(rows: &[Row]) -> HotRows {
        HotRows::of(&schema(), &columns(rows)).unwrap()
    }

    fn row() -> impl Strategy<Value = Row> {
        (prop::option::weighted(0.9, -9i64..9), prop::option::weighted(0.9, "(aaaaaaaaaaaaaaaa)?[ab]{0,2}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn versions_have_the_rows_that_were_added(
            parts in prop::collection::vec(prop::collection::vec(row(), 1..40), 1..60),
            many in prop::option::of(1000usize..2100),
            a in -9i64..9, b in "(aaaaaaaaaaaaaaaa)?[ab]{0,2}",
        ) {
            let mut parts = parts;
            if let Some(many) = many {
                parts[0] = parts[0].iter().cloned().cycle().take(many).collect();
            }
            let (mut hot, mut all, mut versions) = (HotRows::new(&schema()), vec![], vec![]);
            for part in &parts {
                hot = hot.joined(&of(part)).unwrap();
                all.extend(part.iter().cloned());
                versions.push((hot.clone(), all.len()));
            }
            let tests = [
                Predicate::Int(IntPredicate::Range { low: a.into(), high: a.into() }),
                Predicate::Bytes(BytesPredicate::In(vec![b.clone().into_bytes()])),
            ];
            for (hot, rows) in versions.iter().rev() {
                prop_assert_eq!(rows_of(hot), &all[..*rows]);
                let segment = hot.segment(7);
                for (column, test) in tests.iter().enumerate() {
                    let passes = |(int, text): &Row| {
                        if column == 0 { *int == Some(a) } else { text.as_ref() == Some(&b) }
                    };
                    for (zone, part) in all[..*rows].chunks(HOT_PAGE_ROWS).enumerate() {
                        let passing = part.iter().filter(|row| passes(row)).count();
                        match segment.verdict(zone, column, test) {
                            Verdict::None => prop_assert_eq!(passing, 0),
                            Verdict::All => prop_assert_eq!(passing, part.len()),
                            Verdict::Some => {}
                        }
                    }
                    let key: Vec<Asked<'_>> = asked(test).unwrap();
                    let found = segment.hot_rows(segment.hot_keys().unwrap(), &[column], &[key]).unwrap();
                    let expected: Vec<u32> = (0..*rows as u32).filter(|row| passes(&all[*row as usize])).collect();
                    prop_assert_eq!(found, expected);
                }
            }
            prop_assert!(hot.pages.len() <= all.len() / HOT_PAGE_ROWS * 2 + 12, "{} pages", hot.pages.len());
        }
    }

    #[test]
    fn damaged_pages_are_errors() {
        let hot = of(&[(Some(1), Some("a".into())), (None, None)]);
        let (rows, payload) = hot.payloads().next().unwrap();
        for len in 0..payload.len() {
            if let Ok(cut) = HotRows::new(&schema()).appended(&payload[..len], rows) {
                assert_eq!(cut.rows(), rows, "{len} of {} bytes", payload.len());
            }
        }
        for wrong in [0, 1, 3, u32::MAX] {
            assert!(HotRows::new(&schema()).appended(payload, wrong).is_err(), "{wrong} rows");
        }
        assert!(HotRows::new(&schema()).appended(payload, rows).is_ok());
    }

    #[test]
    fn rows_of_other_columns_need_a_run_of_their_own() {
        let (hot, mut other) = (of(&[(Some(1), None)]), schema());
        other.columns[1].nullable = false;
        assert!(hot.takes(1, &hot) && hot.takes(HOT_RUN_ROWS as u32 - 1, &hot));
        assert!(!hot.takes(HOT_RUN_ROWS as u32, &hot) && !hot.takes(1, &HotRows::new(&other)));
    }
}
