//! Writing a segment: choosing encodings, filling pages, computing zones, writing the footer. The rows must be sorted
//! already.

use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use freestone_codec::{
    Choice, ChooseOptions, ColumnPlan, Encoding, Prepared, Shared, Transform, Values, f32_key, f64_key,
};

use super::clustering::SegmentClustering;
use super::footer::{
    self, BlobEntry, ColumnDescription, Description, Footer, GroupDescription, IndexDescription, PageEntry,
};
use super::index;
use super::zones::ZoneMap;
use crate::column::ColumnData;
use crate::design::{Design, Group, PAGE_SIZE_MIN, PageFormat, plan_name};
use crate::error::{Result, StoreError};
use crate::format::dense::{DenseColumn, DenseValues, DenseWriter};
use crate::format::pax;
use crate::format::slotted::SlottedSchema;
use crate::format::whole_bytes;
use crate::limits::ZONE_ROWS;
use crate::page::{self, HEADER, KIND_BLOB, PageHeader};
use crate::schema::TableSchema;

/// A group's pages, before their position in the file is known.
#[derive(Default)]
struct GroupPages {
    bytes: Vec<u8>,
    /// The first row and the units of each page.
    pages: Vec<(u32, u16)>,
}

/// A column, ready to be written.
struct PlannedColumn<'a> {
    choice: Choice,
    prepared: Prepared<'a>,
    zones: ZoneMap,
}

/// Encodes one segment, and returns the bytes of its file. `columns` are in schema order, of equal length, and in the
/// row order of the design. `clustering` describes the clustering of the rows.
///
/// # Errors
/// A plan that the user set cannot store its column, or a value is too large.
pub fn write_segment(
    schema: &TableSchema,
    design: &Design,
    columns: &[ColumnData],
    clustering: SegmentClustering,
    threads: usize,
) -> Result<Vec<u8>> {
    let rows = columns.first().map_or(0, ColumnData::len);
    let groups = design.groups(schema);
    let design = &with_fitting_pages(design, groups.len(), columns);
    let planned = plan_columns(schema, design, &groups, columns, threads)?;
    let page_size = design.page_size as usize;
    let jobs = page_jobs(&groups, rows, threads);
    let parts = parallel(&jobs, threads, |(group, start, len)| {
        write_pages(schema, design, &groups[*group], columns, &planned, (*start, *len), page_size)
    })?;
    let indexes = index::write(schema, design, columns, threads)?;
    let parts = jobs.iter().map(|j| j.0).zip(parts).collect();
    assemble(schema, design, &groups, &planned, parts, clustering, indexes)
}

/// Empty space in pages that is not worth smaller ones, in bytes.
const EMPTY_MAX: usize = 8 << 20;

/// The design with smaller pages, if few rows of many groups would leave most of its pages empty.
fn with_fitting_pages(design: &Design, groups: usize, columns: &[ColumnData]) -> Design {
    let mut fitting = design.clone();
    let bytes: usize = columns.iter().map(ColumnData::byte_size).sum();
    let group_bytes = bytes / groups.max(1) + HEADER;
    let is_empty = |page_size: u32| groups * page_size as usize > EMPTY_MAX && group_bytes * 2 <= page_size as usize;
    while fitting.page_size > PAGE_SIZE_MIN && is_empty(fitting.page_size) {
        fitting.page_size /= 2;
    }
    fitting
}

/// The parts that are written separately: (group, first row, rows). Groups of several columns are divided, so that
/// every thread has work.
fn page_jobs(groups: &[Group], rows: usize, threads: usize) -> Vec<(usize, usize, usize)> {
    let mut jobs = vec![];
    for (at, group) in groups.iter().enumerate() {
        let parts = if group.columns.len() > 1 && rows > 1 << 16 { threads.max(1) } else { 1 };
        let part = rows.div_ceil(parts).next_multiple_of(ZONE_ROWS);
        jobs.extend((0..rows).step_by(part.max(1)).map(|start| (at, start, part.min(rows - start))));
    }
    jobs
}

fn plan_columns<'a>(
    schema: &TableSchema,
    design: &Design,
    groups: &[Group],
    columns: &'a [ColumnData],
    threads: usize,
) -> Result<Vec<PlannedColumn<'a>>> {
    let indexes: Vec<usize> = (0..columns.len()).collect();
    parallel(&indexes, threads, |&at| {
        let name = schema.stored_name(at);
        let group = groups.iter().find(|g| g.columns.contains(&at)).expect("every column is in a group");
        let encode_error = |source| StoreError::Encode { column: name.clone(), source };
        let column = &columns[at];
        let (values, validity) = (column.values(), column.validity.as_deref());
        let options = choose_options(schema, design, group, at);
        let choice = match group.format {
            PageFormat::Slotted => plain_choice(),
            _ => freestone_codec::choose(&values, validity, &options).map_err(encode_error)?,
        };
        let prepared = freestone_codec::prepare(values, validity, choice.plan, choice.shared.as_ref());
        let prepared = prepared.map_err(encode_error)?;
        let is_plain = design.encode.get(&name).is_some_and(|pinned| pinned.0 == PLAIN);
        let prepared = if is_plain { prepared.uncompressed(whole_bytes(schema.stored_type(at))) } else { prepared };
        Ok(PlannedColumn { choice, prepared, zones: ZoneMap::of(column, ZONE_ROWS) })
    })
}

const PLAIN: ColumnPlan = ColumnPlan { transform: Transform::None, encoding: Encoding::Plain };

fn plain_choice() -> Choice {
    Choice { plan: PLAIN, shared: None, stats: Default::default(), considered: vec![] }
}

/// How the writer chooses the plan of a column on the pages of a group.
pub(super) fn choose_options(schema: &TableSchema, design: &Design, group: &Group, column: usize) -> ChooseOptions {
    let name = &schema.stored_name(column);
    let payload = design.page_size as usize - HEADER;
    let abstracted = design.sort_columns(schema).iter().take(design.levels as usize).any(|c| *c == column);
    let run_lengths = ColumnPlan { transform: Transform::None, encoding: Encoding::Rle };
    let pinned = design.encode.get(name).map(|e| e.0);
    ChooseOptions {
        chunk_bytes: payload / group.columns.len(),
        bytes_per_ns: 0.1,
        // Reading one row decodes its whole block, and rows of a table with a key are also read one at a time.
        allow_block: group.columns.len() == 1 && schema.unique_keys.is_empty(),
        // A level of a column design, whose value is stored once per run.
        wanted: pinned
            .or((abstracted && group.format == PageFormat::Pax && !is_bytes(schema, column)).then_some(run_lengths)),
    }
}

fn is_bytes(schema: &TableSchema, column: usize) -> bool {
    crate::schema::kind(schema.stored_type(column)) == freestone_codec::Kind::Bytes
}

fn write_pages(
    schema: &TableSchema,
    design: &Design,
    group: &Group,
    columns: &[ColumnData],
    planned: &[PlannedColumn<'_>],
    (start, rows): (usize, usize),
    page_size: usize,
) -> Result<GroupPages> {
    let end = start + rows;
    let mut cutter =
        Cutter { page_size, kind: page::kind_of(group.format), start, end, out: GroupPages::default(), guess: 1024 };
    match group.format {
        PageFormat::Slotted => {
            let types = group.columns.iter().map(|c| schema.stored_type(*c));
            let slotted = SlottedSchema::new(types);
            let data: Vec<&ColumnData> = group.columns.iter().map(|c| &columns[*c]).collect();
            cutter.cut(|first, count, out| {
                slotted.encode(&data, first, count, out);
                Ok(())
            })?;
        }
        PageFormat::Dense => {
            let writer = dense_writer(schema, design, group, planned);
            cutter.cut(|first, count, out| {
                writer.encode(first, count, out);
                Ok(())
            })?;
        }
        PageFormat::Pax => {
            let prepared: Vec<&Prepared<'_>> = group.columns.iter().map(|c| &planned[*c].prepared).collect();
            let name = || group.columns.iter().map(|c| schema.stored_name(*c)).collect::<Vec<_>>().join(", ");
            let error = |source| StoreError::Encode { column: name(), source };
            if let [column] = prepared[..] {
                let header = pax::header_bytes(1);
                cutter.cut_known(
                    |first, most, budget| freestone_codec::fit(column, first, most, budget - header),
                    |first, count, out| pax::encode(&prepared, first, count, out).map_err(error),
                )?;
            } else {
                cutter.cut(|first, count, out| pax::encode(&prepared, first, count, out).map_err(error))?;
            }
        }
    }
    Ok(cutter.out)
}

fn dense_writer<'a>(
    schema: &TableSchema,
    design: &Design,
    group: &Group,
    planned: &'a [PlannedColumn<'_>],
) -> DenseWriter<'a> {
    let mut columns: Vec<DenseColumn<'a>> = group.columns.iter().map(|c| dense_column(&planned[*c])).collect();
    let sorted = design.sort_columns(schema);
    let in_group = |column: &usize| group.columns.iter().position(|c| c == column);
    let abstracted = design.levels as usize;
    // Leading sort columns can be abstracted or delta-coded only as far as they are all in this group.
    let leading: Vec<usize> = sorted.iter().map_while(in_group).collect();
    let levels = leading.iter().take(abstracted).copied().take_while(|c| can_abstract(&planned[group.columns[*c]]));
    // The directory has five bits for the position of a level or prefix column.
    let levels: Vec<usize> = levels.take(32).collect();
    // A run stores its value relative to the page's reference, not as a position in a dictionary of the page.
    levels.iter().for_each(|level| columns[*level].page_dictionary = false);
    let prefix = leading[levels.len()..].iter().take(32).copied().collect();
    DenseWriter { columns, levels, prefix }
}

/// Runs contain integer codes, so NULLs and strings without a dictionary stay in the tuples.
fn can_abstract(column: &PlannedColumn<'_>) -> bool {
    matches!(column.prepared.transformed(), Values::Int(_)) && column.prepared.validity().is_none()
}

fn dense_column<'a>(planned: &'a PlannedColumn<'_>) -> DenseColumn<'a> {
    let values = match planned.prepared.transformed() {
        Values::Int(v) => DenseValues::Int(Cow::Borrowed(v)),
        Values::Wide(v) => DenseValues::Wide(v),
        Values::F64(v) => DenseValues::Int(v.iter().map(|x| f64_key(*x)).collect()),
        Values::F32(v) => DenseValues::Int(v.iter().map(|x| f32_key(*x)).collect()),
        Values::Bytes(v) => DenseValues::Bytes(v),
    };
    let stats = &planned.choice.stats;
    // Searching for a page dictionary sorts the page's values. With few repeated values in the sample, it cannot be
    // worthwhile.
    let whole_bits = planned.prepared.whole_bytes().map(|bytes| 8 * bytes as u32);
    let is_repeated = stats.distinct * 3 < stats.rows && planned.choice.plan.transform == Transform::None;
    let page_dictionary = is_repeated && whole_bits.is_none();
    DenseColumn { values, validity: planned.prepared.validity(), page_dictionary, whole_bits }
}

/// Divides rows into pages.
struct Cutter {
    page_size: usize,
    kind: u8,
    start: usize,
    end: usize,
    out: GroupPages,
    guess: usize,
}

impl Cutter {
    /// For encoders whose size is known only after encoding: estimate the rows, encode, and correct, at most a few
    /// times per page.
    fn cut(&mut self, mut encode: impl FnMut(usize, usize, &mut Vec<u8>) -> Result<()>) -> Result<()> {
        let budget = self.page_size - HEADER;
        while self.start < self.end {
            let left = self.end - self.start;
            let (mut count, mut too_many, mut best) = (self.guess.clamp(1, left), left + 1, None::<(usize, Vec<u8>)>);
            for attempt in 0.. {
                let mut payload = Vec::with_capacity(self.page_size);
                encode(self.start, count, &mut payload)?;
                let size = payload.len();
                if size <= budget {
                    let full = size * 100 >= budget * 96;
                    best = Some((count, payload));
                    if full || count + 1 >= too_many || attempt >= 6 {
                        break;
                    }
                    let more = (count as f64 * budget as f64 / size.max(1) as f64 * 0.985) as usize;
                    count = more.clamp(count + 1, (too_many - 1).min(count * 16)).min(left);
                } else if count == 1 {
                    best = Some((1, payload));
                    break;
                } else {
                    too_many = count;
                    let least = best.as_ref().map_or(1, |(n, _)| n + 1);
                    if least >= too_many || (attempt >= 6 && best.is_some()) {
                        break;
                    }
                    let fewer = (count as f64 * budget as f64 / size as f64 * 0.985) as usize;
                    count = fewer.clamp(least, too_many - 1);
                }
            }
            let (count, payload) = best.expect("a page of one row is always taken");
            self.guess = count;
            self.push(count, &payload)?;
        }
        Ok(())
    }

    /// For encoders that know how many rows fit. The number is rounded down to whole vectors if that costs little.
    fn cut_known(
        &mut self,
        fit: impl Fn(usize, usize, usize) -> usize,
        mut encode: impl FnMut(usize, usize, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        while self.start < self.end {
            let left = self.end - self.start;
            let mut count = fit(self.start, left, self.page_size - HEADER).max(1);
            if count < left {
                // Whole vectors decode fastest, and whole words are filtered without shifts. Neither is worth much
                // space.
                let vectors = count / 1024 * 1024;
                count = match count {
                    _ if vectors * 100 >= count * 99 => vectors,
                    512.. => count / 64 * 64,
                    _ => count,
                };
            }
            let mut payload = Vec::with_capacity(self.page_size);
            encode(self.start, count, &mut payload)?;
            self.push(count, &payload)?;
        }
        Ok(())
    }

    fn push(&mut self, count: usize, payload: &[u8]) -> Result<()> {
        if page::units_for(payload.len(), self.page_size) > u16::MAX as usize {
            let (bytes, most) = (payload.len(), u16::MAX as usize * self.page_size);
            let message =
                format!("row {} takes {bytes} bytes; with this page_size a row may take {most}", self.start + 1);
            return Err(StoreError::Constraint(message));
        }
        let header = PageHeader {
            index: 0,
            units: 0,
            kind: self.kind,
            first_row: self.start as u32,
            rows: count as u32,
            payload: 0,
            group: 0,
        };
        let units = page::append(&mut self.out.bytes, self.page_size, header, payload);
        self.out.pages.push((self.start as u32, units));
        self.start += count;
        Ok(())
    }
}

fn assemble(
    schema: &TableSchema,
    design: &Design,
    groups: &[Group],
    planned: &[PlannedColumn<'_>],
    parts: Vec<(usize, GroupPages)>,
    clustering: SegmentClustering,
    indexes: Vec<(Vec<u32>, Vec<u8>)>,
) -> Result<Vec<u8>> {
    let page_size = design.page_size as usize;
    let total: usize = parts.iter().map(|(_, p)| p.bytes.len()).sum();
    let mut file = Vec::with_capacity(total + (1 << 20));
    let mut pages: Vec<Vec<PageEntry>> = groups.iter().map(|_| vec![]).collect();
    let mut ends = vec![0u32; groups.len()];
    for (group, part) in parts {
        let mut at = file.len();
        file.extend_from_slice(&part.bytes);
        for (first_row, units) in part.pages {
            let index = (at / page_size) as u32;
            let end = at + units as usize * page_size;
            let page = &mut file[at..end];
            page[28..32].copy_from_slice(&(group as u32).to_le_bytes());
            page::relocate(page, index);
            pages[group].push(PageEntry { first_row, index });
            at = end;
        }
        ends[group] = (file.len() / page_size) as u32;
    }
    let indexes = indexes.into_iter().map(|(columns, bytes)| {
        let described = IndexDescription { columns, offset: file.len() as u64, bytes: bytes.len() as u64 };
        file.extend(bytes);
        file.resize(file.len().next_multiple_of(page_size), 0);
        described
    });
    let indexes = indexes.collect();
    let columns = describe_columns(groups, planned, &pages, &ends, page_size, &mut file);
    let group_descriptions = groups.iter().zip(&pages).zip(&ends).map(|((group, pages), end)| GroupDescription {
        format: group.format,
        columns: group.columns.iter().map(|c| *c as u32).collect(),
        pages: pages.len() as u32,
        end: *end,
    });
    let description = Description {
        rows: planned.first().map_or(0, |column| column.prepared.len()) as u32,
        zone_rows: ZONE_ROWS as u32,
        page_size: design.page_size,
        schema: schema.of_segment(),
        design: design.clone(),
        columns,
        groups: group_descriptions.collect(),
        dimensions: clustering.dimensions.iter().map(|d| d.description.clone()).collect(),
        cluster_keys: clustering.keys,
        indexes,
    };
    let zones = planned.iter().map(|p| p.zones.clone()).collect();
    let footer = Footer { description, pages, zones, dimensions: clustering.dimensions };
    let entry = push_blob(&mut file, page_size, &footer.to_bytes());
    file.extend(footer::trailer(design.page_size, entry.index, u32::from(entry.units)));
    Ok(file)
}

fn describe_columns(
    groups: &[Group],
    planned: &[PlannedColumn<'_>],
    pages: &[Vec<PageEntry>],
    ends: &[u32],
    page_size: usize,
    file: &mut Vec<u8>,
) -> Vec<ColumnDescription> {
    let mut descriptions = Vec::with_capacity(planned.len());
    for (at, column) in planned.iter().enumerate() {
        let mut description = ColumnDescription::of(column.choice.plan);
        let group = groups.iter().position(|g| g.columns.contains(&at)).expect("every column is in a group");
        let units = pages[group].first().map_or(0, |first| ends[group] - first.index);
        description.bytes = u64::from(units) * page_size as u64 / groups[group].columns.len() as u64;
        description.distinct = match &column.choice.shared {
            Some(shared) if shared.transform() == Transform::Dictionary => shared.dictionary_len() as u64,
            _ => column.choice.stats.distinct as u64,
        };
        description.shared = column.choice.shared.as_ref().map(|s| push_blob(file, page_size, &Shared::to_bytes(s)));
        let weighed = column.choice.considered.iter();
        description.considered =
            weighed.map(|c| (plan_name(c.plan), c.bytes_per_value as f32, c.decode_ns_per_value as f32)).collect();
        descriptions.push(description);
    }
    descriptions
}

fn push_blob(file: &mut Vec<u8>, page_size: usize, bytes: &[u8]) -> BlobEntry {
    let index = (file.len() / page_size) as u32;
    let header = PageHeader { index, units: 0, kind: KIND_BLOB, first_row: 0, rows: 0, payload: 0, group: 0 };
    let units = page::append(file, page_size, header, bytes);
    BlobEntry { index, units, bytes: bytes.len() as u32 }
}

/// Applies `f` to every item, on up to `threads` threads, with the results in order.
///
/// # Errors
/// The first error of `f`, which ends the work.
pub fn parallel<T: Sync, R: Send>(items: &[T], threads: usize, f: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let threads = threads.clamp(1, items.len().max(1));
    if threads == 1 {
        return items.iter().map(f).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<R>>>> = Mutex::new(items.iter().map(|_| None).collect());
    let work = || {
        while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < items.len()) {
            let result = f(&items[at]);
            results.lock().expect("no job panics while it holds the results")[at] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without more threads, this one does all of it.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let results = results.into_inner().expect("no job panics while it holds the results");
    results.into_iter().map(|r| r.expect("every item was done")).collect()
}
