//! A segment as its table's current columns: columns may have been added, dropped, renamed or widened since the segment
//! was written. The columns of an adapted segment are at the table's positions. A column that the segment does not have
//! is one page in memory, with one value for all rows. So scans, zones, indexes and aggregation need no special case.

use std::sync::{Arc, OnceLock};

use freestone_codec::{ColumnPlan, Encoding, Transform};

use super::clustering::SegmentDimension;
use super::footer::{ColumnDescription, Description, Footer, GroupDescription, PageEntry};
use super::reader::{CachedPage, Segment};
use super::zones::ZoneMap;
use crate::design::PageFormat;
use crate::format::{GroupContext, Layout, pax};
use crate::page::{self, HEADER, PageHeader};
use crate::schema::{Column, StoredValue, TableSchema, kind};

/// The maximum number of rows of a chunk.
const ROWS_MAX: usize = 1 << 24;
/// Where the header of a chunk has its number of rows.
const CHUNK_ROWS_AT: usize = 4;

impl Segment {
    /// The segment with the columns of its table.
    ///
    /// # Errors
    /// A reason why it is not a segment of the table.
    pub(crate) fn adapted(self: Arc<Segment>, table: &TableSchema) -> Result<Arc<Segment>, String> {
        let stored = &self.footer.description.schema;
        if table.is_schema_of(stored) {
            return Ok(self);
        }
        let places = table.places_in(stored)?;
        Adaptation { stored: &self, table, places }.segment().map(Arc::new)
    }
}

struct Adaptation<'a> {
    stored: &'a Arc<Segment>,
    table: &'a TableSchema,
    /// For each column of the table, its position in the segment.
    places: Vec<Option<usize>>,
}

impl Adaptation<'_> {
    fn segment(&self) -> Result<Segment, String> {
        let stored = self.stored;
        let of = &stored.footer.description;
        let mut groups = stored.groups.clone();
        let mut pages = stored.footer.pages.clone();
        let mut described: Vec<GroupDescription> = of.groups.iter().map(|group| self.group(group)).collect();
        let mut resident = stored.resident.clone();
        let (mut columns, mut zones, mut places) = (vec![], vec![], vec![]);
        for (at, column) in self.table.stored_columns().iter().enumerate() {
            if let Some(place) = self.places[at] {
                columns.push(of.columns[place].clone());
                zones.push(stored.footer.zones[place].clone());
                places.push(stored.places[place]);
                continue;
            }
            // A struct that was added is NULL in all earlier rows, with all of its fields.
            let added = self.table.columns.get(at).and_then(|_| self.table.value_before(self.table.id(at)));
            let value = added.unwrap_or(&StoredValue::Null);
            let constant = Constant::new(column, value, stored, groups.len())?;
            places.push((groups.len(), 0));
            columns.push(constant.described());
            zones.push(constant.zones);
            described.push(GroupDescription {
                format: PageFormat::Pax,
                columns: vec![at as u32],
                pages: constant.page.is_some().into(),
                end: if constant.page.is_some() { constant.index } else { 0 },
            });
            pages.push(constant.page.iter().map(|_| PageEntry { first_row: 0, index: constant.index }).collect());
            groups.push(Arc::new(constant.context));
            resident.push(constant.page.into_iter().collect());
        }
        let dimensions = self.dimensions();
        let indexes: Vec<_> = stored.indexes.iter().filter_map(|index| index.moved(|c| self.position(c))).collect();
        let description = Description {
            schema: self.schema(),
            design: of.design.with_names(&|name| self.name(name)),
            columns,
            groups: described,
            cluster_keys: of.cluster_keys.filter(|_| !dimensions.is_empty()),
            dimensions: dimensions.iter().map(|dimension| dimension.description.clone()).collect(),
            indexes: indexes.iter().map(|index| index.described()).collect(),
            ..of.clone()
        };
        Ok(Segment {
            id: stored.id,
            name: stored.name.clone(),
            file: stored.file.clone(),
            footer: Footer { description, pages, zones, dimensions },
            groups,
            texts: places.iter().map(|_| OnceLock::new()).collect(),
            places,
            encodings: OnceLock::new(),
            indexes,
            first_page: stored.first_page,
            resident,
            hot_keys: None,
            blocks: stored.blocks.clone(),
            stored: Some(stored.clone()),
        })
    }

    /// The position in the table of a column of the segment.
    fn position(&self, place: usize) -> Option<usize> {
        self.places.iter().position(|known| *known == Some(place))
    }

    /// The present name of a column of the segment.
    fn name(&self, old: &str) -> Option<String> {
        let place = self.stored.footer.description.schema.stored_index_of(old).ok()?;
        Some(self.table.stored_name(self.position(place)?))
    }

    /// The table's columns, with the keys that the segment's rows had when it was written: they may order the rows.
    fn schema(&self) -> TableSchema {
        let mut schema = self.table.of_segment();
        let names =
            |names: &[String]| names.iter().map(|name| self.name(name)).collect::<Option<Vec<_>>>().unwrap_or_default();
        let stored = &self.stored.footer.description.schema;
        schema.primary_key = names(&stored.primary_key);
        schema.foreign_keys = stored.foreign_keys.clone();
        schema.foreign_keys.iter_mut().for_each(|key| key.columns = names(&key.columns));
        schema
    }

    fn group(&self, group: &GroupDescription) -> GroupDescription {
        let columns = group.columns.iter().filter_map(|place| self.position(*place as usize));
        GroupDescription { columns: columns.map(|at| at as u32).collect(), ..group.clone() }
    }

    /// The dimensions of the segment, if their columns still have the same names. Otherwise the segment counts as one
    /// that is not clustered: a name may be that of another column now.
    fn dimensions(&self) -> Vec<SegmentDimension> {
        let is_kept = |name: &String| self.name(name).as_ref() == Some(name);
        let is_known = |dimension: &SegmentDimension| {
            let description = &dimension.description;
            match description.path.names.as_slice() {
                [attribute] => {
                    is_kept(attribute) && is_kept(&description.attribute) && description.levels.iter().all(is_kept)
                }
                [key, ..] => is_kept(key),
                [] => false,
            }
        };
        let dimensions = &self.stored.footer.dimensions;
        if dimensions.iter().all(is_known) { dimensions.clone() } else { vec![] }
    }
}

/// A column with one value in all rows of a segment.
struct Constant {
    context: GroupContext,
    /// `None` if the segment has no rows.
    page: Option<Arc<CachedPage>>,
    /// The index of the page, at which no page of a file can be.
    index: u32,
    zones: ZoneMap,
}

const PLAN: ColumnPlan = ColumnPlan { transform: Transform::None, encoding: Encoding::Constant };

impl Constant {
    fn new(column: &Column, value: &StoredValue, segment: &Segment, group: usize) -> Result<Constant, String> {
        let wrong = || format!("the value of column {} is not of type {}", column.name, column.data_type);
        let one = value.column(kind(&column.data_type)).ok_or_else(wrong)?;
        let zones = ZoneMap::repeated(&ZoneMap::of(&one, 1), segment.rows(), segment.zone_rows());
        let context = GroupContext::new(PageFormat::Pax, vec![column.data_type.clone()], vec![None]);
        let index = u32::MAX - group as u32;
        let rows = segment.rows();
        if rows == 0 {
            return Ok(Constant { context, page: None, index, zones });
        }
        if rows > ROWS_MAX {
            return Err(format!("{rows} rows are more than a column can have"));
        }
        let validity = one.validity.as_deref();
        let prepared = freestone_codec::prepare(one.values(), validity, PLAN, None).map_err(|e| e.to_string())?;
        let mut payload = vec![];
        pax::encode(&[&prepared], 0, 1, &mut payload).map_err(|e| e.to_string())?;
        // The chunk of one value is also that of many, but for their number.
        let at = pax::header_bytes(1) + CHUNK_ROWS_AT;
        payload[at..at + 4].copy_from_slice(&(rows as u32).to_le_bytes());
        let layout = Layout::parse(&payload, rows, &context)?;
        let header = PageHeader {
            index,
            units: 0,
            kind: page::kind_of(PageFormat::Pax),
            first_row: 0,
            rows: rows as u32,
            payload: payload.len() as u32,
            group: group as u32,
        };
        let bytes = [vec![0; HEADER], payload].concat();
        let page = Some(Arc::new(CachedPage::new(bytes.into(), header, layout)));
        Ok(Constant { context, page, index, zones })
    }

    fn described(&self) -> ColumnDescription {
        let has_value = self.zones.nulls.first().is_some_and(|nulls| *nulls == 0);
        ColumnDescription { distinct: has_value.into(), ..ColumnDescription::of(PLAN) }
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;
    use freestone_codec::{IntPredicate, Predicate, Rows, Scratch};

    use super::*;
    use crate::bitmap;
    use crate::column::{ColumnBuffer, ColumnData, Physical};
    use crate::design::{Design, Preset};
    use crate::media::{Medium, Memory};
    use crate::segment::clustering::SegmentClustering;
    use crate::segment::write_segment;
    use crate::segment::zones::Verdict;

    fn stored(preset: Preset, rows: i64) -> (TableSchema, Arc<Segment>) {
        let column = |name: &str| Column { name: name.into(), data_type: DataType::Int32, nullable: true };
        let schema = TableSchema { columns: ["a", "b"].map(column).to_vec(), ..TableSchema::default() };
        let ints = |times| ColumnData { values: Physical::Int((0..rows).map(|v| v * times).collect()), validity: None };
        let design = Design { sort: vec!["a".into()], ..Design::preset(preset) };
        let columns = vec![ints(1).into(), ints(10).into()];
        let file = write_segment(&schema, &design, columns, SegmentClustering::default(), 1).unwrap();
        let medium = Memory::new();
        medium.write_whole("s", &file.parts()).unwrap();
        (schema, Arc::new(Segment::open(0, "s", medium.open("s").unwrap()).unwrap()))
    }

    fn values(segment: &Segment, column: usize, data_type: &DataType) -> Vec<Option<i64>> {
        let (group, place) = segment.place(column);
        let mut buffers = [ColumnBuffer::new(data_type)];
        for page in 0..segment.page_count(group) {
            let cached = match segment.resident(group, page) {
                Some(constant) => constant.clone(),
                None => {
                    let bytes = segment.start(&[(group, page)]).wait().pop().unwrap().unwrap();
                    segment.admit(&crate::cache::PageCache::new(1 << 20), (group, page), bytes).unwrap()
                }
            };
            let rows = Rows::Range { start: 0, len: segment.page_rows(group, page).len() };
            segment.view(group, &cached).decode(&[(0, place)], rows, &mut buffers, &mut Scratch::default()).unwrap();
        }
        let [buffer] = buffers;
        let data = ColumnData::from_arrays([&buffer.finish().unwrap()], data_type);
        (0..data.len()).map(|row| data.int_at(row).filter(|_| data.is_valid(row)).map(|v| v as i64)).collect()
    }

    #[test]
    fn columns_are_where_the_table_has_them() {
        for preset in [Preset::Row, Preset::Column, Preset::Slotted, Preset::Pax] {
            let (mut table, segment) = stored(preset, 5000);
            table.add_column(
                Column { name: "c".into(), data_type: DataType::Int64, nullable: true },
                StoredValue::Int(7),
            );
            table.add_column(
                Column { name: "d".into(), data_type: DataType::Utf8View, nullable: true },
                StoredValue::Null,
            );
            table.columns[1].data_type = DataType::Int64;
            table.rename_column(1, "e");
            let adapted = segment.clone().adapted(&table).unwrap();
            assert_eq!(values(&adapted, 1, &DataType::Int64), (0..5000).map(|v| Some(v * 10)).collect::<Vec<_>>());
            assert_eq!(values(&adapted, 2, &DataType::Int64), vec![Some(7); 5000]);
            assert_eq!(adapted.footer.description.columns[3].distinct, 0);
            let is_seven = Predicate::Int(IntPredicate::Range { low: 7, high: 7 });
            assert_eq!(adapted.verdict(2, 2, &is_seven), Verdict::All);
            assert_eq!(adapted.verdict(1, 2, &Predicate::Int(IntPredicate::NotEqual(7))), Verdict::None);
            assert_eq!(adapted.verdict(0, 3, &Predicate::IsNull), Verdict::All);
            let mut selection = bitmap::ones(100);
            let (group, place) = adapted.place(2);
            let page = adapted.resident(group, 0).unwrap().clone();
            let view = adapted.view(group, &page);
            view.filter(place, &is_seven, 4000, 100, &mut selection, &mut Scratch::default()).unwrap();
            assert_eq!(bitmap::count(&selection), 100);
            table.drop_column(0);
            let adapted = segment.adapted(&table).unwrap();
            assert_eq!(values(&adapted, 0, &DataType::Int64)[4999], Some(49_990));
            assert_eq!(adapted.footer.description.design.sort, [""; 0]);
        }
    }

    #[test]
    fn a_segment_of_another_table_is_refused() {
        let (mut table, segment) = stored(Preset::Auto, 10);
        table.columns[1].data_type = DataType::Utf8View;
        assert!(segment.clone().adapted(&table).unwrap_err().contains("of type"));
        table.columns.pop();
        assert!(segment.adapted(&table).unwrap_err().contains("never had"));
    }

    #[test]
    fn sums_of_zones_are_those_of_all_rows() {
        let (mut table, segment) = stored(Preset::Auto, 3000);
        table.add_column(Column { name: "c".into(), data_type: DataType::Int64, nullable: true }, StoredValue::Int(-3));
        let adapted = segment.adapted(&table).unwrap();
        let column = ColumnData { values: Physical::Int(vec![-3; 3000]), validity: None };
        assert_eq!(adapted.footer.zones[2], ZoneMap::of(&column, adapted.zone_rows()));
    }
}
