//! The parts of a segment's file, with their bytes, and the encodings of its columns: what a picture of a table is made of.

use std::sync::Arc;

use super::bytes::ByteWriter;
use super::footer::ColumnDescription;
use super::reader::Segment;
use crate::design::{PageFormat, plan_name};
use crate::error::{Result, StoreError};
use crate::format::{Layout, whole_bytes};
use crate::page;

/// The kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// The pages of a column, or its share of the pages of its group.
    Column,
    /// The same of a column that the table has no more.
    Dropped,
    /// The dictionary or symbol table that the pages of a column share.
    Dictionary,
    /// An ordered index.
    Index,
    /// The zones: NULL counts, bounds and sums of all columns.
    Zones,
    /// The rest of the footer: the description, the page directory, dimensions, and the trailer.
    Footer,
}

/// A part of a segment's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentPart {
    /// What it is.
    pub kind: PartKind,
    /// The column group, of the pages of columns.
    pub group: Option<usize>,
    /// The columns by position in the table: that of pages or of a dictionary, or the key of an index.
    pub columns: Vec<usize>,
    /// The encoding of a column's pages.
    pub encoding: Option<String>,
    /// The bytes in the file.
    pub bytes: u64,
}

/// The maximum number of pages that are read at once for the encodings of columns.
const PAGES_AT_ONCE: usize = 64;

impl Segment {
    /// The parts of the segment's file, which has `file_bytes` bytes: those of the parts add up to them. Groups share their bytes
    /// among their columns. A segment in persistent memory has columns only.
    ///
    /// # Errors
    /// The page of a column cannot be read.
    pub fn parts(&self, file_bytes: u64) -> Result<Vec<SegmentPart>> {
        let stored = self.as_stored();
        let description = &stored.footer.description;
        let mut parts = self.column_parts()?;
        if self.blocks.is_some() {
            return Ok(parts);
        }
        let page_bytes = stored.page_size() as u64;
        let of_table = self.columns_by_place();
        let position = |column: usize| {
            let (group, place) = stored.place(column);
            of_table[group][place]
        };
        let part = |kind, columns, bytes| SegmentPart { kind, group: None, columns, encoding: None, bytes };
        let dictionaries = description.columns.iter().enumerate().filter_map(|(at, column)| Some((at, column.shared?)));
        parts.extend(dictionaries.map(|(at, blob)| {
            let columns = position(at).into_iter().collect();
            part(PartKind::Dictionary, columns, u64::from(blob.units) * page_bytes)
        }));
        parts.extend(description.indexes.iter().map(|index| {
            let columns = index.columns.iter().filter_map(|column| position(*column as usize)).collect();
            part(PartKind::Index, columns, index.bytes.next_multiple_of(page_bytes))
        }));
        let mut zones = ByteWriter::default();
        stored.footer.zones.iter().for_each(|map| map.write(&mut zones));
        parts.push(part(PartKind::Zones, vec![], zones.finish().len() as u64));
        let known: u64 = parts.iter().map(|part| part.bytes).sum();
        parts.push(part(PartKind::Footer, vec![], file_bytes.saturating_sub(known)));
        Ok(parts)
    }

    /// The pages of columns that are in the file.
    fn column_parts(&self) -> Result<Vec<SegmentPart>> {
        let stored = self.as_stored();
        let (encodings, of_table) = (self.encodings()?, self.columns_by_place());
        let described = &stored.footer.description;
        let mut parts = vec![];
        for (group, (of, columns)) in described.groups.iter().zip(&of_table).enumerate() {
            let weights: Vec<u64> = of.columns.iter().map(|at| described.columns[*at as usize].bytes).collect();
            let bytes = shares(stored.group_bytes(group) as u64, &weights);
            parts.extend(columns.iter().zip(bytes).map(|(column, bytes)| SegmentPart {
                kind: if column.is_some() { PartKind::Column } else { PartKind::Dropped },
                group: Some(group),
                columns: column.iter().copied().collect(),
                encoding: column.and_then(|at| encodings.get(at).cloned()),
                bytes,
            }));
        }
        Ok(parts)
    }

    /// For each group in the file, the columns by position in the table; `None` for those that the table has no more.
    fn columns_by_place(&self) -> Vec<Vec<Option<usize>>> {
        let groups = &self.as_stored().footer.description.groups;
        let mut found: Vec<Vec<Option<usize>>> = groups.iter().map(|group| vec![None; group.columns.len()]).collect();
        for (column, (group, place)) in self.places.iter().enumerate() {
            if let Some(known) = found.get_mut(*group).and_then(|columns| columns.get_mut(*place)) {
                *known = Some(column);
            }
        }
        found
    }

    /// The encoding of each column: its plan, or what the first of its pages has, if pages choose for themselves.
    ///
    /// # Errors
    /// A page cannot be read.
    pub fn encodings(&self) -> Result<Arc<[String]>> {
        if let Some(known) = self.encodings.get() {
            return Ok(known.clone());
        }
        let found: Arc<[String]> = self.found_encodings()?.into();
        Ok(self.encodings.get_or_init(|| found).clone())
    }

    fn found_encodings(&self) -> Result<Vec<String>> {
        let description = &self.footer.description;
        let planned = |column: &ColumnDescription| column.plan().map_or_else(|_| column.encoding.clone(), plan_name);
        let mut names: Vec<String> = description.columns.iter().map(planned).collect();
        let open: Vec<usize> = (0..names.len()).filter(|column| self.is_encoded_by_pages(*column)).collect();
        for groups in self.groups_of(&open).chunks(PAGES_AT_ONCE) {
            self.each_first_page(groups, |group, layout| {
                let Layout::Dense(layout) = layout else { return };
                let columns = description.groups[group].columns.iter().map(|column| *column as usize);
                for column in columns.filter(|column| self.is_encoded_by_pages(*column)) {
                    let place = self.place(column).1;
                    let whole_bits = 8 * whole_bytes(&self.groups[group].types[place]) as u32;
                    layout.encoding(place, whole_bits).clone_into(&mut names[column]);
                }
            })?;
        }
        Ok(names)
    }

    /// Whether the pages of a column choose its encoding: they are dense, and the column has no transform.
    fn is_encoded_by_pages(&self, column: usize) -> bool {
        let (group, place) = self.place(column);
        let context = &self.groups[group];
        context.format == PageFormat::Dense && self.page_count(group) > 0 && context.shared[place].is_none()
    }

    /// Calls `look` with the layout of the first page of each of some groups. They are not put into the cache, from which they would
    /// displace others.
    fn each_first_page(&self, groups: &[usize], mut look: impl FnMut(usize, &Layout)) -> Result<()> {
        let mut missing = vec![];
        for group in groups {
            match self.in_memory(*group, 0) {
                Some(page) => look(*group, page.layout()),
                None => missing.push((*group, 0)),
            }
        }
        for ((group, page), bytes) in missing.iter().zip(self.start(&missing).wait()) {
            let bytes = bytes?;
            let index = self.first_page_index(*group);
            let wrong = |reason: String| StoreError::page(&self.name, self.file_page(index).into(), reason);
            let header = page::verify(&bytes, index).map_err(wrong)?;
            let layout = Layout::parse(page::payload(&bytes, &header), header.rows as usize, &self.groups[*group]);
            look(*group, &layout.map_err(|reason| self.page_error(*group, *page, reason))?);
        }
        Ok(())
    }
}

/// A number of bytes, divided in proportion to `weights`; evenly if they have none.
fn shares(bytes: u64, weights: &[u64]) -> Vec<u64> {
    let all: u64 = weights.iter().sum();
    let weight = |weight: &u64| if all == 0 { 1 } else { u128::from(*weight) };
    let total = weights.iter().map(weight).sum::<u128>().max(1);
    let mut before = 0;
    let upto = |sum: u128| (u128::from(bytes) * sum / total) as u64;
    let part = |one: &u64| {
        let from = upto(before);
        before += weight(one);
        upto(before) - from
    };
    weights.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        assert_eq!(shares(10, &[1, 1, 1]), [3, 3, 4]);
        assert_eq!(shares(7, &[0, 0]), [3, 4]);
        assert_eq!(shares(u64::MAX, &[u64::MAX / 4, u64::MAX / 4]).iter().sum::<u64>(), u64::MAX);
        assert!(shares(5, &[]).is_empty());
    }
}
