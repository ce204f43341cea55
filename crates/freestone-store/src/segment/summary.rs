//! What a commit says of a segment: enough of its footer to rule the segment out, and to estimate a scan, before the footer is
//! read. In a bucket, a footer is a request.
//!
//! ```text
//! summary, an attachment of the commit that adds the segment
//!      varint rows per zone
//!      varint number of groups; per group: varint pages, varint bytes of the pages
//!      varint number of sort columns; per sort column: varint id. None if the rows are clustered
//!      1 whether the rows are clustered by attributes of other tables
//!      varint number of columns; per column of the table, without the fields of structs:
//!        varint id, varint group, varint distinct values, varint bytes, 1 kind (0 numbers, 1 strings)
//!        the column's zone map, as in a footer, with one zone that has all rows
//! ```

use freestone_codec::Predicate;

use super::bytes::{ByteReader, ByteWriter};
use super::footer::Footer;
use super::zones::{Bounds, Verdict, ZoneMap};

/// No segment has more bytes, or pages.
const BYTES_MAX: u64 = 1 << 48;

/// The summary of a segment.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentSummary {
    /// The rows per zone.
    pub zone_rows: u32,
    /// The column groups.
    pub groups: Vec<GroupSummary>,
    /// The ids of the columns by which the rows are sorted. None if they are clustered.
    pub sort: Vec<u32>,
    /// Whether the rows are clustered by attributes of other tables.
    pub follows_keys: bool,
    columns: Vec<ColumnSummary>,
}

/// The pages of a column group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSummary {
    /// The number of pages.
    pub pages: u64,
    /// The bytes of all pages.
    pub bytes: u64,
}

/// A column of a segment, as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSummary {
    id: u32,
    /// Its group, by position.
    pub group: u32,
    /// About how many distinct values there are.
    pub distinct: u64,
    /// The bytes, as in the footer.
    pub bytes: u64,
    zone: ZoneMap,
}

impl SegmentSummary {
    /// The summary of a segment with this footer.
    pub(super) fn of(footer: &Footer) -> SegmentSummary {
        let described = &footer.description;
        let (schema, design) = (&described.schema, &described.design);
        let group = |(group, pages): (&super::footer::GroupDescription, &Vec<super::footer::PageEntry>)| {
            let units = pages.first().map_or(0, |first| group.end.saturating_sub(first.index));
            GroupSummary { pages: pages.len() as u64, bytes: u64::from(units) * u64::from(described.page_size) }
        };
        let is_clustered = !design.cluster.is_empty() || !footer.dimensions.is_empty();
        let sort = if is_clustered { vec![] } else { design.sort_columns(schema) };
        let column = |at: usize| {
            let group = described.groups.iter().position(|group| group.columns.contains(&(at as u32)))?;
            let (of, zone) = (described.columns.get(at)?, footer.zones.get(at)?.joined());
            let distinct = footer.distinct(at);
            Some(ColumnSummary { id: schema.id(at), group: group as u32, distinct, bytes: of.bytes, zone })
        };
        SegmentSummary {
            zone_rows: described.zone_rows,
            groups: described.groups.iter().zip(&footer.pages).map(group).collect(),
            sort: sort.into_iter().map(|at| schema.id(at)).collect(),
            follows_keys: footer.dimensions.iter().any(|dimension| dimension.description.path.names.len() > 1),
            columns: (0..schema.columns.len()).filter_map(column).collect(),
        }
    }

    /// The column with an id; `None` if the segment was written before the column was added.
    pub fn column(&self, id: u32) -> Option<&ColumnSummary> {
        self.columns.iter().find(|column| column.id == id)
    }

    /// Pages and bytes of the groups that have some columns, by their ids; `None` if one of them is not known here.
    pub(crate) fn pages_of(&self, ids: impl Iterator<Item = u32>) -> Option<GroupSummary> {
        let groups = ids.map(|id| self.column(id).map(|column| column.group as usize));
        let mut groups = groups.collect::<Option<Vec<usize>>>()?;
        groups.sort_unstable();
        groups.dedup();
        let mut all = GroupSummary { pages: 0, bytes: 0 };
        for group in groups {
            let GroupSummary { pages, bytes } = self.groups.get(group)?;
            all = GroupSummary { pages: all.pages + pages, bytes: all.bytes + bytes };
        }
        Some(all)
    }

    /// The bytes of the attachment.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.varint(self.zone_rows.into());
        out.varint(self.groups.len() as i128);
        for group in &self.groups {
            out.varint(group.pages.into());
            out.varint(group.bytes.into());
        }
        out.varint(self.sort.len() as i128);
        self.sort.iter().for_each(|id| out.varint(i128::from(*id)));
        out.u8(self.follows_keys.into());
        out.varint(self.columns.len() as i128);
        for column in &self.columns {
            out.varint(column.id.into());
            out.varint(column.group.into());
            out.varint(column.distinct.into());
            out.varint(column.bytes.into());
            out.u8(matches!(column.zone.bounds, Bounds::Bytes(_)).into());
            column.zone.write(&mut out);
        }
        out.finish()
    }

    /// Reads an attachment, of a segment with this number of rows.
    ///
    /// # Errors
    /// The reason why it is not valid.
    pub(crate) fn parse(bytes: &[u8], rows: u32) -> Result<SegmentSummary, String> {
        let input = &mut ByteReader::new(bytes);
        let zone_rows = number(input)?;
        let groups = (0..count(input)?).map(|_| Ok(GroupSummary { pages: number(input)?, bytes: number(input)? }));
        let groups = groups.collect::<Result<Vec<_>, String>>()?;
        let sort = (0..count(input)?).map(|_| number(input)).collect::<Result<Vec<u32>, String>>()?;
        let follows_keys = flag(input)?;
        let columns = (0..count(input)?).map(|_| ColumnSummary::read(input)).collect::<Result<Vec<_>, String>>()?;
        let fits = |column: &ColumnSummary| {
            let nulls = column.zone.nulls.first().is_some_and(|nulls| *nulls <= rows);
            nulls && (column.group as usize) < groups.len() && column.bytes <= BYTES_MAX
        };
        let has_sizes = groups.iter().all(|group: &GroupSummary| group.bytes.max(group.pages) <= BYTES_MAX);
        if !input.is_empty() || zone_rows == 0 || !has_sizes || !columns.iter().all(fits) {
            return Err("the summary of a segment does not fit the segment".to_owned());
        }
        Ok(SegmentSummary { zone_rows, groups, sort, follows_keys, columns })
    }
}

impl ColumnSummary {
    /// The number of NULLs.
    pub fn nulls(&self) -> u64 {
        self.zone.nulls.first().copied().unwrap_or(0).into()
    }

    /// The smallest and largest integer. `None` for strings, and if there are only NULLs.
    pub fn range(&self) -> Option<(i128, i128)> {
        self.zone.range()
    }

    /// Whether the values are numbers.
    pub fn has_numbers(&self) -> bool {
        matches!(self.zone.bounds, Bounds::Int(_))
    }

    /// Whether no row of the segment, which has this number of rows, satisfies a predicate.
    pub(crate) fn excludes(&self, rows: u32, predicate: &Predicate) -> bool {
        self.zone.verdict(0, rows as usize, predicate) == Verdict::None
    }

    fn read(input: &mut ByteReader<'_>) -> Result<ColumnSummary, String> {
        let (id, group) = (number(input)?, number(input)?);
        let (distinct, bytes) = (number(input)?, number(input)?);
        let is_text = flag(input)?;
        Ok(ColumnSummary { id, group, distinct, bytes, zone: ZoneMap::read(input, 1, is_text)? })
    }
}

fn number<T: TryFrom<i128>>(input: &mut ByteReader<'_>) -> Result<T, String> {
    T::try_from(input.varint()?).map_err(|_| "an impossible number in the summary of a segment".to_owned())
}

/// A number of items. Each takes a byte or more, so a greater one is read to the end of the bytes at most.
fn count(input: &mut ByteReader<'_>) -> Result<u32, String> {
    number(input)
}

fn flag(input: &mut ByteReader<'_>) -> Result<bool, String> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(format!("the summary of a segment has {other} where 0 or 1 is expected")),
    }
}

#[cfg(test)]
mod tests {
    use freestone_codec::{BytesPredicate, IntPredicate};

    use super::super::zones::{BytesBounds, IntBounds};
    use super::*;

    fn summary() -> SegmentSummary {
        let ints = |min, max, sum| Some(IntBounds { min, max, sum });
        let texts = |min: &str, max: Option<&str>| {
            Some(BytesBounds { min: min.into(), max: max.map(|max| max.as_bytes().to_vec()), exact: max.is_some() })
        };
        let column =
            |id, group, zone: ZoneMap| ColumnSummary { id, group, distinct: 7, bytes: 4096, zone: zone.joined() };
        let numbers = Bounds::Int(vec![ints(-5, 9, Some(4)), None, ints(20, 30, Some(50))]);
        let words = Bounds::Bytes(vec![texts("b", Some("c")), texts("d", Some("f"))]);
        let open = Bounds::Bytes(vec![texts("b", Some("c")), texts("a", None)]);
        SegmentSummary {
            zone_rows: 2048,
            groups: vec![GroupSummary { pages: 3, bytes: 98_304 }, GroupSummary { pages: 1, bytes: 32_768 }],
            sort: vec![4],
            follows_keys: false,
            columns: vec![
                column(4, 0, ZoneMap::new(vec![0, 2048, 1], numbers)),
                column(9, 1, ZoneMap::new(vec![0, 0], words)),
                column(2, 1, ZoneMap::new(vec![0, 0], open)),
                column(3, 1, ZoneMap::new(vec![2048, 2048, 5], Bounds::Int(vec![None; 3]))),
            ],
        }
    }

    #[test]
    fn bounds_of_all_zones_exclude() {
        let (summary, rows) = (summary(), 2 * 2048 + 5);
        let excludes = |id, predicate: &Predicate| summary.column(id).expect("a column").excludes(rows, predicate);
        let equal = |value: i128| Predicate::Int(IntPredicate::Range { low: value, high: value });
        for (value, expected) in [(-6, true), (-5, false), (15, false), (30, false), (31, true)] {
            assert_eq!(excludes(4, &equal(value)), expected, "{value}");
        }
        let text = |value: &str| Predicate::Bytes(BytesPredicate::In(vec![value.as_bytes().to_vec()]));
        for (value, expected) in [("a", true), ("b", false), ("cc", false), ("g", true)] {
            assert_eq!(excludes(9, &text(value)), expected, "{value}");
        }
        assert!(!excludes(2, &text("zzz")), "one zone has no upper bound");
        assert!(excludes(9, &Predicate::IsNull) && !excludes(4, &Predicate::IsNull));
        assert!(excludes(3, &equal(0)) && !excludes(3, &Predicate::IsNull), "only NULLs");
        assert!(summary.column(5).is_none());
        assert_eq!(summary.pages_of([9, 2].into_iter()), Some(summary.groups[1]));
        assert_eq!(summary.pages_of([9, 4].into_iter()), Some(GroupSummary { pages: 4, bytes: 131_072 }));
        assert_eq!(summary.pages_of([9, 5].into_iter()), None);
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_not() {
        let bytes = summary().to_bytes();
        assert_eq!(SegmentSummary::parse(&bytes, 4101), Ok(summary()));
        assert!(SegmentSummary::parse(&bytes, 4100).is_err(), "more NULLs than rows");
        for end in 0..bytes.len() {
            assert!(SegmentSummary::parse(&bytes[..end], 4101).is_err(), "{end} bytes");
        }
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert!(SegmentSummary::parse(&longer, 4101).is_err());
        for at in 0..bytes.len() {
            // A changed byte may give another summary; it must not panic or take much memory.
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = SegmentSummary::parse(&changed, 4101);
            }
        }
    }
}
