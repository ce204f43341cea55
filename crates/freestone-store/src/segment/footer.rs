//! The footer, which describes the segment, so that it can be decoded from its bytes alone.
//!
//! ```text
//! footer, the payload of one blob page
//!      4 length of the description n
//!      n description: JSON (rows, zone rows, page size, schema, design, columns, groups)
//!        per group, per page: 4 first row, 4 index of the page
//!        per column: its zones: NULL counts as varints; then per zone a tag and its bounds (`zones.rs`)
//!        per dimension by which the rows are clustered: its bins (`segment/bins.rs`), then its codes' zones
//! trailer, the last 4096 bytes of the file
//!      0    8 magic "FREESEG1"
//!      8    4 CRC-32C of everything after this field
//!     12    4 page size
//!     16    4 index of the footer's page, in page sizes
//!     20    4 units of the footer's page
//!     24    8 id of the segment, also in the file's name: detects exchanged files
//!     32      zeros
//! ```

use std::sync::Arc;

use freestone_codec::{ColumnPlan, Encoding, Kind, Transform};
use serde::{Deserialize, Serialize};

use super::bins::Bins;
use super::bytes::{ByteReader, ByteWriter};
use super::clustering::{DimensionDescription, SegmentDimension};
use super::zones::ZoneMap;
use crate::design::{Design, PageFormat};
use crate::limits::GRANULE_ROWS;
use crate::page;
use crate::schema::{TableSchema, kind};

/// The bytes of the trailer.
pub const TRAILER: usize = 4096;
const MAGIC: [u8; 8] = *b"FREESEG1";

/// The decoded footer of a segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Footer {
    /// What the segment contains.
    pub description: Description,
    /// Per group, per page.
    pub pages: Vec<Vec<PageEntry>>,
    /// Per column of the schema.
    pub zones: Vec<ZoneMap>,
    /// The dimensions by which the rows are clustered.
    pub dimensions: Vec<SegmentDimension>,
}

/// The content of a segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The number of rows.
    pub rows: u32,
    /// The rows per zone.
    pub zone_rows: u32,
    /// The page size in bytes.
    pub page_size: u32,
    /// The schema of the table.
    pub schema: TableSchema,
    /// The design of the table when the segment was written.
    pub design: Design,
    /// The columns in the order of the schema.
    pub columns: Vec<ColumnDescription>,
    /// The column groups.
    pub groups: Vec<GroupDescription>,
    /// The dimensions by which the rows are clustered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dimensions: Vec<DimensionDescription>,
    /// The smallest and largest clustering key of the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_keys: Option<(u64, u64)>,
    /// The ordered indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexDescription>,
}

/// An ordered index: a segment within the segment's file, of the key's columns and row numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDescription {
    /// The columns of the key, by position in the table.
    pub columns: Vec<u32>,
    /// The offset in the file, a multiple of the page size, and the length in bytes.
    pub offset: u64,
    /// The bytes of the index.
    pub bytes: u64,
}

/// The storage of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnDescription {
    /// The name of the transform.
    pub transform: String,
    /// The name of the encoding.
    pub encoding: String,
    /// Page index, units and length of the column's shared dictionary or symbol table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<BlobEntry>,
    /// The number of distinct values, estimated from a sample unless the column has a shared dictionary.
    pub distinct: u64,
    /// The bytes of this column's chunks; in groups of dense or slotted tuples, its share of their pages.
    pub bytes: u64,
    /// The candidate plans when the segment was written, best first: name, bytes per value and nanoseconds per value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub considered: Vec<(String, f32, f32)>,
}

/// Where a dictionary or another shared state is stored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlobEntry {
    /// The position in the file, in page sizes.
    pub index: u32,
    /// The length, in page sizes.
    pub units: u16,
    /// The bytes of the content.
    pub bytes: u32,
}

/// A column group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupDescription {
    /// The page format.
    pub format: PageFormat,
    /// The positions of the columns.
    pub columns: Vec<u32>,
    /// The number of pages.
    pub pages: u32,
    /// The end of the group's last page, in page sizes from the start of the file.
    pub end: u32,
}

/// A page in the directory. It ends where the next one of its group starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageEntry {
    /// The number of the first row.
    pub first_row: u32,
    /// The position in the file, in page sizes.
    pub index: u32,
}

impl Footer {
    /// The bytes of the footer.
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_vec(&self.description).expect("a description has only strings as keys");
        let mut out = ByteWriter::default();
        out.u32(json.len() as u32);
        let mut bytes = out.finish();
        bytes.extend_from_slice(&json);
        let mut out = ByteWriter::default();
        for page in self.pages.iter().flatten() {
            out.u32(page.first_row);
            out.u32(page.index);
        }
        self.zones.iter().for_each(|zones| zones.write(&mut out));
        for dimension in &self.dimensions {
            dimension.bins.write(&mut out);
            dimension.zones.write(&mut out);
        }
        bytes.extend(out.finish());
        bytes
    }

    /// Reads a footer and checks everything on which scans rely.
    ///
    /// # Errors
    /// The reason why the footer is not valid.
    pub fn parse(bytes: &[u8]) -> Result<Footer, String> {
        let mut input = ByteReader::new(bytes);
        let length = input.u32()? as usize;
        let description: Description =
            serde_json::from_slice(input.take(length)?).map_err(|e| format!("the footer's description: {e}"))?;
        let mut pages = Vec::with_capacity(description.groups.len());
        for group in &description.groups {
            let entries = (0..group.pages).map(|_| Ok(PageEntry { first_row: input.u32()?, index: input.u32()? }));
            pages.push(entries.collect::<Result<Vec<_>, String>>()?);
        }
        let zone_count = (description.rows as usize).div_ceil(description.zone_rows.max(1) as usize);
        let columns = description.schema.stored_columns();
        let zones = columns.iter().map(|c| ZoneMap::read(&mut input, zone_count, kind(&c.data_type) == Kind::Bytes));
        let zones = zones.collect::<Result<Vec<_>, String>>()?;
        let dimension = |description: &DimensionDescription| -> Result<SegmentDimension, String> {
            let bins = Arc::new(Bins::read(&mut input)?);
            let zones = ZoneMap::read(&mut input, zone_count, false)?;
            Ok(SegmentDimension::new(description.clone(), bins, zones))
        };
        let dimensions = description.dimensions.iter().map(dimension).collect::<Result<Vec<_>, _>>()?;
        if !input.is_empty() {
            return Err("bytes are left over behind the footer's zones".into());
        }
        let footer = Footer { description, pages, zones, dimensions };
        footer.check()?;
        Ok(footer)
    }

    fn check(&self) -> Result<(), String> {
        let d = &self.description;
        let columns = d.schema.stored_count();
        let mut seen: Vec<u32> = d.groups.iter().flat_map(|g| g.columns.iter().copied()).collect();
        seen.sort_unstable();
        if seen != (0..columns as u32).collect::<Vec<_>>() || d.columns.len() != columns {
            return Err("the groups do not hold each column once".into());
        }
        let has_zones =
            d.zone_rows.is_multiple_of(64) && d.zone_rows > 0 && GRANULE_ROWS.is_multiple_of(d.zone_rows as usize);
        if !d.page_size.is_power_of_two() || d.page_size < 4096 || !has_zones {
            return Err(format!("pages of {} bytes, zones of {} rows", d.page_size, d.zone_rows));
        }
        for (group, pages) in d.groups.iter().zip(&self.pages) {
            let ascending = pages.windows(2).all(|w| w[0].first_row < w[1].first_row && w[0].index < w[1].index);
            let starts = pages.first().map_or(d.rows == 0, |p| p.first_row == 0);
            let ends = pages.last().is_none_or(|p| p.first_row < d.rows && p.index < group.end);
            if !ascending || !starts || !ends {
                return Err("the page directory is not in order".into());
            }
        }
        for index in &d.indexes {
            let has_columns = !index.columns.is_empty() && index.columns.iter().all(|c| (*c as usize) < columns);
            if !has_columns || !index.offset.is_multiple_of(u64::from(d.page_size)) {
                return Err(format!("an index on columns {:?} at byte {}", index.columns, index.offset));
            }
        }
        Ok(())
    }
}

/// The trailer of a segment file.
pub fn trailer(page_size: u32, index: u32, units: u32) -> Vec<u8> {
    let mut bytes = vec![0; TRAILER];
    bytes[..8].copy_from_slice(&MAGIC);
    for (at, field) in [page_size, index, units].into_iter().enumerate() {
        bytes[12 + at * 4..16 + at * 4].copy_from_slice(&field.to_le_bytes());
    }
    let crc = page::checksum(&bytes[12..]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Writes the id of a finished segment into its trailer. The id is known when the file is created.
pub fn stamp(segment: &mut [u8], id: u64) {
    let at = segment.len() - TRAILER;
    let bytes = &mut segment[at..];
    bytes[24..32].copy_from_slice(&id.to_le_bytes());
    let crc = page::checksum(&bytes[12..]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// The content of a trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// The page size in bytes.
    pub page_size: u32,
    /// Index and units of the footer's page.
    pub index: u32,
    /// The length of the footer, in page sizes.
    pub units: u32,
    /// The segment's id; 0 in segments without one.
    pub id: u64,
}

/// Reads a trailer.
///
/// # Errors
/// The reason why the trailer is not valid.
pub fn parse_trailer(bytes: &[u8]) -> Result<Trailer, String> {
    let field = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if bytes.len() != TRAILER || bytes[..8] != MAGIC {
        return Err("it does not end as a segment does".into());
    }
    if field(8) != page::checksum(&bytes[12..]) {
        return Err("the trailer's checksum does not match".into());
    }
    let (page_size, index, units) = (field(12), field(16), field(20));
    if !page_size.is_power_of_two() || page_size < 4096 || units == 0 {
        return Err("the trailer's page size is not valid".into());
    }
    let id = u64::from(field(24)) | u64::from(field(28)) << 32;
    Ok(Trailer { page_size, index, units, id })
}

const TRANSFORMS: [(&str, Transform); 4] = [
    ("none", Transform::None),
    ("dictionary", Transform::Dictionary),
    ("fsst", Transform::Fsst),
    ("block_dictionary", Transform::BlockDictionary),
];
const ENCODINGS: [(&str, Encoding); 9] = [
    ("plain", Encoding::Plain),
    ("constant", Encoding::Constant),
    ("bitpack", Encoding::BitPack),
    ("page_dictionary", Encoding::Dictionary),
    ("delta", Encoding::Delta),
    ("delta_lz", Encoding::DeltaLz),
    ("rle", Encoding::Rle),
    ("alp", Encoding::Alp),
    ("block", Encoding::Block),
];

impl ColumnDescription {
    /// The description of a column with this plan. The caller sets the sizes.
    pub fn of(plan: ColumnPlan) -> Self {
        let transform = TRANSFORMS.iter().find(|(_, t)| *t == plan.transform).expect("every transform has a name").0;
        let encoding = ENCODINGS.iter().find(|(_, e)| *e == plan.encoding).expect("every encoding has a name").0;
        ColumnDescription {
            transform: transform.into(),
            encoding: encoding.into(),
            shared: None,
            distinct: 0,
            bytes: 0,
            considered: vec![],
        }
    }

    /// The plan of the column.
    ///
    /// # Errors
    /// The description names an unknown transform or encoding.
    pub fn plan(&self) -> Result<ColumnPlan, String> {
        let transform = TRANSFORMS.iter().find(|(n, _)| *n == self.transform);
        let encoding = ENCODINGS.iter().find(|(n, _)| *n == self.encoding);
        match (transform, encoding) {
            (Some((_, transform)), Some((_, encoding))) => {
                Ok(ColumnPlan { transform: *transform, encoding: *encoding })
            }
            _ => Err(format!("{} of {} is not a known encoding", self.encoding, self.transform)),
        }
    }
}
