//! Table functions over the layout of a table: its segments, pages, columns and zones, and why columns have their encodings.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use freestone_store::Table;
use freestone_store::column::display_int;
use freestone_store::design::PageFormat;
use freestone_store::nested::is_flat;
use freestone_store::segment::zones::{Bounds, ZoneMap};
use freestone_store::segment::{PartKind, Segment, SegmentPart, WeighedPlan};

use super::columns::{batch, booleans, numbers, texts};
use crate::error::{Error, Result};
use crate::type_names::type_name;

fn open_segments(table: &Arc<Table>) -> Result<Vec<Arc<Segment>>> {
    (0..table.segments.len()).map(|at| Ok(table.open_segment(at)?)).collect()
}

/// A segment, or all, with their positions.
fn chosen_segments(table: &Arc<Table>, segment: Option<u64>) -> Result<Vec<(usize, Arc<Segment>)>> {
    let chosen = match segment {
        Some(number) => {
            let at = position(table, number)?;
            at..at + 1
        }
        None => 0..table.segments.len(),
    };
    chosen.map(|at| Ok((at, table.open_segment(at)?))).collect()
}

/// `freestone_segments('t')`: one row per segment, in the order of scans.
pub(super) fn segments(table: &Arc<Table>) -> Result<RecordBatch> {
    let entries = &table.segments;
    let opened = open_segments(table)?;
    let pages = |segment: &Segment| (0..segment.group_count()).map(|group| segment.page_count(group) as u64).sum();
    batch(vec![
        ("segment", false, numbers((0..entries.len() as u64).map(Some))),
        ("id", false, numbers(entries.iter().map(|entry| Some(entry.id)))),
        ("rows", false, numbers(entries.iter().map(|entry| Some(u64::from(entry.rows))))),
        ("deleted", false, numbers(entries.iter().map(|entry| Some(u64::from(entry.rows) - entry.live_rows())))),
        ("bytes", false, numbers(entries.iter().map(|entry| Some(entry.bytes)))),
        ("pages", false, numbers(opened.iter().map(|segment| Some(pages(segment))))),
        ("hot", false, booleans(entries.iter().map(|entry| entry.is_hot()))),
        ("in_pool", false, booleans(entries.iter().map(|entry| entry.is_in_pool()))),
        ("groups", false, texts(opened.iter().map(|segment| Some(groups(segment))))),
        ("design", false, texts(opened.iter().map(|segment| Some(segment.footer.description.design.to_string())))),
    ])
}

/// `freestone_hot('t')`: one row per run of hot rows, in the order of scans.
pub(super) fn hot(table: &Arc<Table>) -> Result<RecordBatch> {
    let runs: Vec<usize> = (0..table.segments.len()).filter(|at| table.segments[*at].is_hot()).collect();
    let opened = runs.iter().map(|at| Ok(table.open_segment(*at)?)).collect::<Result<Vec<_>>>()?;
    let entries = || runs.iter().map(|at| &table.segments[*at]);
    batch(vec![
        ("segment", false, numbers(runs.iter().map(|at| Some(*at as u64)))),
        ("id", false, numbers(entries().map(|entry| Some(entry.id)))),
        ("rows", false, numbers(entries().map(|entry| Some(u64::from(entry.rows))))),
        ("deleted", false, numbers(entries().map(|entry| Some(u64::from(entry.rows) - entry.live_rows())))),
        ("bytes", false, numbers(entries().map(|entry| Some(entry.bytes)))),
        ("pages", false, numbers(opened.iter().map(|segment| Some(segment.page_count(0) as u64)))),
    ])
}

/// `freestone_pages('t')`, `freestone_pages('t', segment => n)`: one row per page of a group of a segment, in the order of scans. Hot
/// rows have no pages.
pub(super) fn pages(table: &Arc<Table>, segment: Option<u64>) -> Result<RecordBatch> {
    let opened = chosen_segments(table, segment)?;
    let of_segment = |(index, (at, segment)): (usize, &(usize, Arc<Segment>))| {
        let pages = |group: usize| (0..segment.page_count(group)).map(move |page| (index, group, page));
        let groups = if table.segments[*at].is_hot() { 0 } else { segment.group_count() };
        (0..groups).flat_map(pages).collect::<Vec<_>>()
    };
    let all: Vec<(usize, usize, usize)> = opened.iter().enumerate().flat_map(of_segment).collect();
    let segment = |index: usize| &opened[index].1;
    let group = |index: usize, group: usize| &segment(index).footer.description.groups[group];
    let names = |index: usize, number: usize| {
        let schema = &segment(index).footer.description.schema;
        let names = group(index, number).columns.iter().map(|column| schema.stored_name(*column as usize));
        names.collect::<Vec<_>>().join(", ")
    };
    let rows = |(index, group, page): (usize, usize, usize)| segment(index).page_rows(group, page);
    let number = |of: &dyn Fn((usize, usize, usize)) -> usize| {
        numbers(all.iter().map(|page| Some(of(*page) as u64)).collect::<Vec<_>>().into_iter())
    };
    batch(vec![
        ("segment", false, number(&|(index, ..)| opened[index].0)),
        ("group", false, number(&|(_, group, _)| group)),
        ("columns", false, texts(all.iter().map(|(index, group, _)| Some(names(*index, *group))))),
        (
            "format",
            false,
            texts(all.iter().map(|(index, number, _)| Some(format_name(group(*index, *number).format).to_owned()))),
        ),
        ("page", false, number(&|(.., page)| page)),
        ("first_row", false, number(&|page| rows(page).start)),
        ("rows", false, number(&|page| rows(page).len())),
        ("bytes", false, number(&|(index, group, page)| segment(index).page_bytes(group, page))),
    ])
}

fn format_name(format: PageFormat) -> &'static str {
    match format {
        PageFormat::Slotted => "slotted",
        PageFormat::Dense => "dense",
        PageFormat::Pax => "pax",
    }
}

/// The groups of a segment as it is stored: `dense (a, b), pax (c)`.
fn groups(segment: &Segment) -> String {
    let description = &segment.footer.description;
    let name = |column: &u32| description.schema.stored_name(*column as usize);
    let group = |group: &freestone_store::segment::footer::GroupDescription| {
        let format = format_name(group.format);
        format!("{format} ({})", group.columns.iter().map(name).collect::<Vec<_>>().join(", "))
    };
    description.groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

/// `freestone_columns('t')`: one row per column, over all segments. The minimum and maximum of strings are prefixes.
pub(super) fn columns(table: &Arc<Table>) -> Result<RecordBatch> {
    let opened = open_segments(table)?;
    let described = table.schema.stored_columns();
    let of_segments = opened.iter().map(|segment| Ok(segment.encodings()?)).collect::<Result<Vec<_>>>()?;
    let encodings = |at: usize| {
        let names: BTreeSet<&str> = of_segments.iter().map(|names| names[at].as_str()).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let bytes = |at: usize| opened.iter().map(|segment| segment.footer.description.columns[at].bytes).sum();
    let distinct = |at: usize| opened.iter().map(|segment| segment.footer.description.columns[at].distinct).max();
    let zones = |at: usize| opened.iter().map(move |segment| &segment.footer.zones[at]);
    let nulls = |at: usize| zones(at).flat_map(|map| map.nulls.iter()).map(|nulls| u64::from(*nulls)).sum();
    let bound = |at: usize, end: End| {
        let all = zones(at).filter_map(|map| Extreme::of_all(map, end));
        let extreme = all.reduce(|a, b| a.further(b, end))?;
        extreme.text(&described[at].data_type)
    };
    let all = || 0..described.len();
    batch(vec![
        ("column", false, texts(described.iter().map(|column| Some(column.name.clone())))),
        ("type", false, texts(described.iter().map(|column| Some(type_name(&column.data_type))))),
        ("encoding", false, texts(all().map(|at| Some(encodings(at))))),
        ("bytes", false, numbers(all().map(|at| Some(bytes(at))))),
        ("distinct", true, numbers(all().map(distinct))),
        ("nulls", false, numbers(all().map(|at| Some(nulls(at))))),
        ("min", true, texts(all().map(|at| bound(at, End::Min)))),
        ("max", true, texts(all().map(|at| bound(at, End::Max)))),
    ])
}

/// `freestone_parts('t')`, `freestone_parts('t', segment => n)`: one row per part of a segment's file, in the order of scans. Hot rows
/// have no file.
pub(super) fn parts(table: &Arc<Table>, segment: Option<u64>) -> Result<RecordBatch> {
    let mut all: Vec<(u64, SegmentPart)> = vec![];
    for (at, segment) in chosen_segments(table, segment)? {
        let entry = &table.segments[at];
        if !entry.is_hot() {
            all.extend(segment.parts(entry.bytes)?.into_iter().map(|part| (at as u64, part)));
        }
    }
    let names = |columns: &[usize]| {
        let names: Vec<String> = columns.iter().map(|column| table.schema.stored_name(*column)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    batch(vec![
        ("segment", false, numbers(all.iter().map(|(segment, _)| Some(*segment)))),
        ("part", false, texts(all.iter().map(|(_, part)| Some(part_name(part.kind).to_owned())))),
        ("group", true, numbers(all.iter().map(|(_, part)| part.group.map(|group| group as u64)))),
        ("columns", true, texts(all.iter().map(|(_, part)| names(&part.columns)))),
        ("encoding", true, texts(all.iter().map(|(_, part)| part.encoding.clone()))),
        ("bytes", false, numbers(all.iter().map(|(_, part)| Some(part.bytes)))),
    ])
}

fn part_name(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Column => "column",
        PartKind::Dropped => "dropped",
        PartKind::Dictionary => "dictionary",
        PartKind::Index => "index",
        PartKind::Zones => "zones",
        PartKind::Footer => "footer",
    }
}

/// `freestone_zones('t')`: one row per zone of a column of a segment. `segment => n` and `column => 'c'` choose some of them.
pub(super) fn zones(table: &Arc<Table>, segment: Option<u64>, column: Option<&str>) -> Result<RecordBatch> {
    let opened = chosen_segments(table, segment)?;
    let described = table.schema.stored_columns();
    let missing = |name: &str| Error::not_found("column", name, described.iter().map(|column| column.name.as_str()));
    let place = |name: &str| described.iter().position(|column| column.name == name).ok_or_else(|| missing(name));
    let chosen = column.map(place).transpose()?;
    let mut at: Vec<(u64, u64, usize, u64)> = vec![];
    let mut maps: Vec<(&ZoneMap, usize)> = vec![];
    for (position, segment) in &opened {
        let columns = segment.footer.zones.iter().enumerate();
        for (column, map) in columns.filter(|(column, _)| chosen.is_none_or(|chosen| chosen == *column)) {
            for zone in 0..map.len() {
                let first = zone * segment.zone_rows();
                let rows = segment.zone_rows().min(segment.rows() - first);
                at.push((*position as u64, zone as u64, column, rows as u64));
                maps.push((map, zone));
            }
        }
    }
    let bound = |index: usize, end: End| {
        let (map, zone) = maps[index];
        Extreme::of_zone(map, zone, end)?.text(&described[at[index].2].data_type)
    };
    let sum = |index: usize| {
        let (map, zone) = maps[index];
        let Bounds::Int(bounds) = &map.bounds else { return None };
        let sum = bounds[zone].as_ref()?.sum?;
        match &described[at[index].2].data_type {
            data_type @ (DataType::Decimal128(..)
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64) => Some(display_int(sum, data_type)),
            _ => None,
        }
    };
    batch(vec![
        ("segment", false, numbers(at.iter().map(|(segment, ..)| Some(*segment)))),
        ("zone", false, numbers(at.iter().map(|(_, zone, ..)| Some(*zone)))),
        ("column", false, texts(at.iter().map(|(_, _, column, _)| Some(described[*column].name.clone())))),
        ("rows", false, numbers(at.iter().map(|(.., rows)| Some(*rows)))),
        ("nulls", false, numbers(maps.iter().map(|(map, zone)| Some(u64::from(map.nulls[*zone]))))),
        ("min", true, texts((0..at.len()).map(|index| bound(index, End::Min)))),
        ("max", true, texts((0..at.len()).map(|index| bound(index, End::Max)))),
        ("sum", true, texts((0..at.len()).map(sum))),
    ])
}

/// `freestone_encodings('t')`, `freestone_encodings('t', segment)`: for each column of a segment, the plans that the writer
/// weighs for it, best first. Without a segment, the first one that has pages.
pub(super) fn encodings(table: &Arc<Table>, segment: Option<u64>) -> Result<RecordBatch> {
    let has_pages = |at: usize| !table.segments[at].is_hot() && !table.segments[at].is_in_pool();
    let segment = match segment {
        Some(number) => Some(wanted_segment(table, number, has_pages)?),
        None => (0..table.segments.len()).find(|at| has_pages(*at)),
    };
    let plans = segment.map_or_else(|| Ok(vec![]), |at| table.weighed_plans(at))?;
    let names = table.schema.stored_columns();
    let rank = |at: usize| plans[..at].iter().rev().take_while(|plan| plan.column == plans[at].column).count() + 1;
    let ranks = (0..plans.len()).map(|at| plans[at].score.map(|_| rank(at) as u64));
    let floats =
        |of: fn(&WeighedPlan) -> Option<f64>| Arc::new(plans.iter().map(of).collect::<Float64Array>()) as ArrayRef;
    batch(vec![
        ("segment", false, numbers(plans.iter().map(|_| segment.map(|at| at as u64)))),
        ("column", false, texts(plans.iter().map(|plan| Some(names[plan.column].name.clone())))),
        ("rank", true, numbers(ranks)),
        ("plan", false, texts(plans.iter().map(|plan| Some(plan.plan.clone())))),
        ("chosen", false, booleans(plans.iter().map(|plan| plan.chosen))),
        ("bytes_per_value", false, floats(|plan| Some(plan.bytes_per_value))),
        ("decode_ns_per_value", true, floats(|plan| plan.decode_ns_per_value)),
        ("score", true, floats(|plan| plan.score)),
    ])
}

/// The position of a segment.
fn position(table: &Table, number: u64) -> Result<usize> {
    usize::try_from(number).ok().filter(|at| *at < table.segments.len()).ok_or_else(|| {
        Error::invalid(format!("segment {number}: {} has {} segments, from 0", table.name, table.segments.len()))
    })
}

fn wanted_segment(table: &Table, number: u64, has_pages: impl Fn(usize) -> bool) -> Result<usize> {
    let at = position(table, number)?;
    match has_pages(at) {
        true => Ok(at),
        false => Err(Error::invalid(format!(
            "segment {number} of {} has no encoded pages: its rows are in the log or in persistent memory",
            table.name
        ))),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Min,
    Max,
}

/// The least or the greatest of some values, as zones keep it.
enum Extreme {
    Int(i128),
    Bytes(Vec<u8>),
}

impl Extreme {
    fn of_zone(map: &ZoneMap, zone: usize, end: End) -> Option<Extreme> {
        match &map.bounds {
            Bounds::Int(bounds) => {
                let bounds = bounds[zone].as_ref()?;
                Some(Extreme::Int(if end == End::Min { bounds.min } else { bounds.max }))
            }
            Bounds::Bytes(bounds) => {
                let bounds = bounds[zone].as_ref()?;
                let bytes = if end == End::Min { Some(bounds.min.clone()) } else { bounds.max.clone() };
                bytes.map(Extreme::Bytes)
            }
        }
    }

    fn of_all(map: &ZoneMap, end: End) -> Option<Extreme> {
        let zones = (0..map.len()).filter_map(|zone| Extreme::of_zone(map, zone, end));
        zones.reduce(|a, b| a.further(b, end))
    }

    /// The one of two that lies further at this end.
    fn further(self, other: Extreme, end: End) -> Extreme {
        let less = match (&self, &other) {
            (Extreme::Int(a), Extreme::Int(b)) => a < b,
            (Extreme::Bytes(a), Extreme::Bytes(b)) => a < b,
            // A column's bounds are all of one kind.
            _ => true,
        };
        if less == (end == End::Min) { self } else { other }
    }

    fn text(&self, data_type: &DataType) -> Option<String> {
        if !is_flat(data_type) {
            // The bounds are those of the stored bytes, and mean nothing to the reader.
            return None;
        }
        Some(match (self, data_type) {
            (Extreme::Int(key), DataType::Float64) => {
                let key = i64::try_from(*key).ok()?;
                f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64).to_string()
            }
            (Extreme::Int(key), DataType::Float32) => {
                let key = i32::try_from(*key).ok()?;
                f32::from_bits((key ^ (((key >> 31) as u32) >> 1) as i32) as u32).to_string()
            }
            (Extreme::Int(value), data_type) => display_int(*value, data_type),
            (Extreme::Bytes(bytes), DataType::BinaryView) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            (Extreme::Bytes(bytes), _) => String::from_utf8_lossy(bytes).trim_end_matches('\u{fffd}').to_owned(),
        })
    }
}
