//! Writing a segment: choosing encodings, filling pages, computing zones, writing the footer. The rows must be sorted
//! already.

use std::borrow::Cow;
use std::cmp::Reverse;
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
use super::summary::SegmentSummary;
use super::zones::ZoneMap;
use crate::collected::CollectedColumn;
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

/// The largest part of a file that is allocated at once, in bytes.
const PART_BYTES: usize = 1 << 20;

/// The file of a segment in parts, so that pages stay where they were encoded.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pages: Vec<Vec<u8>>,
    /// Indexes, dictionaries, the footer and the trailer.
    tail: Vec<u8>,
    /// What the commit says of the segment.
    pub summary: SegmentSummary,
}

impl SegmentFile {
    /// The parts, in order.
    pub fn parts(&self) -> Vec<&[u8]> {
        self.pages.iter().chain([&self.tail]).map(|part| &part[..]).collect()
    }

    /// The length of the file in bytes.
    pub fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Sets the segment's id.
    pub fn stamp(&mut self, id: u64) {
        footer::stamp(&mut self.tail, id);
    }
}

/// A group's pages, before their position in the file is known.
#[derive(Default)]
struct GroupPages {
    /// Whole pages.
    parts: Vec<Vec<u8>>,
    /// The first row and the units of each page.
    pages: Vec<(u32, u16)>,
    bytes: usize,
}

impl GroupPages {
    /// The part with room for this number of bytes. The parts of a group become larger, up to a limit, as it gets more pages.
    fn part(&mut self, bytes: usize) -> &mut Vec<u8> {
        if self.parts.last().is_none_or(|part| part.capacity() - part.len() < bytes) {
            self.parts.push(Vec::with_capacity(self.bytes.min(PART_BYTES).max(bytes)));
        }
        self.bytes += bytes;
        self.parts.last_mut().expect("one was just added")
    }
}

/// A column, ready to be written.
struct PlannedColumn<'a> {
    choice: Choice,
    prepared: Prepared<'a>,
    zones: ZoneMap,
}

/// A column after its pages were written.
struct EncodedColumn {
    choice: Choice,
    zones: ZoneMap,
}

/// A group after its pages were written.
struct EncodedGroup {
    /// In the order of the group.
    columns: Vec<EncodedColumn>,
    pages: Vec<GroupPages>,
    /// The columns that indexes need, by their number.
    kept: Vec<(usize, ColumnData)>,
}

/// What a segment is made of.
struct Plan<'a> {
    schema: &'a TableSchema,
    design: &'a Design,
    rows: usize,
    /// The columns that indexes need.
    indexed: Vec<usize>,
}

/// Encodes one segment. `columns` are in schema order, of equal length, and in the row order of the design. `clustering`
/// describes the clustering of the rows.
///
/// A thread takes one column after another, and frees it when its pages are written, so few columns are in memory in
/// full width. Those of a group with several columns are encoded together.
///
/// # Errors
/// A plan that the user set cannot store its column, or a value is too large.
pub(crate) fn write_segment(
    schema: &TableSchema,
    design: &Design,
    columns: Vec<CollectedColumn>,
    clustering: SegmentClustering,
    threads: usize,
) -> Result<SegmentFile> {
    let rows = columns.first().map_or(0, CollectedColumn::len);
    let groups = design.groups(schema);
    let design = &with_fitting_pages(design, groups.len(), &columns);
    let plan = Plan { schema, design, rows, indexed: index::columns(schema, design, rows)? };
    let mut encoded = plan.encode_groups(&groups, columns, threads)?;
    let kept = encoded.iter_mut().flat_map(|group| std::mem::take(&mut group.kept)).collect();
    let indexes = index::write(schema, design, rows, &kept, threads)?;
    drop(kept);
    plan.assemble(&groups, encoded, clustering, indexes)
}

/// Empty space in pages that is not worth smaller ones, in bytes.
const EMPTY_MAX: usize = 8 << 20;

/// The design with smaller pages, if few rows of many groups would leave most of its pages empty.
fn with_fitting_pages(design: &Design, groups: usize, columns: &[CollectedColumn]) -> Design {
    let mut fitting = design.clone();
    let bytes: usize = columns.iter().map(CollectedColumn::byte_size).sum();
    let group_bytes = bytes / groups.max(1) + HEADER;
    let is_empty = |page_size: u32| groups * page_size as usize > EMPTY_MAX && group_bytes * 2 <= page_size as usize;
    while fitting.page_size > PAGE_SIZE_MIN && is_empty(fitting.page_size) {
        fitting.page_size /= 2;
    }
    fitting
}

/// The parts of a group that are written separately: (first row, rows). Groups of several columns are divided, so that
/// every thread has work.
fn page_jobs(group: &Group, rows: usize, threads: usize) -> Vec<(usize, usize)> {
    let parts = if group.columns.len() > 1 && rows > 1 << 16 { threads.max(1) } else { 1 };
    let part = rows.div_ceil(parts).next_multiple_of(ZONE_ROWS);
    (0..rows).step_by(part.max(1)).map(|start| (start, part.min(rows - start))).collect()
}

impl Plan<'_> {
    /// Encodes all groups: those of several columns one after another on all threads, then the others, each on one thread.
    /// The largest come first, so that no thread has to wait for another one that began late with much work.
    fn encode_groups(
        &self,
        groups: &[Group],
        columns: Vec<CollectedColumn>,
        threads: usize,
    ) -> Result<Vec<EncodedGroup>> {
        let mut columns: Vec<Option<CollectedColumn>> = columns.into_iter().map(Some).collect();
        let mut jobs: Vec<(usize, Vec<CollectedColumn>)> = Vec::with_capacity(groups.len());
        for (at, group) in groups.iter().enumerate() {
            let own = group.columns.iter().map(|c| columns[*c].take().expect("every column is in one group"));
            jobs.push((at, own.collect()));
        }
        jobs.sort_by_key(|(_, columns)| Reverse(columns.iter().map(CollectedColumn::byte_size).sum::<usize>()));
        let (single, several): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(_, columns)| columns.len() == 1);
        let encode = |(at, columns), threads| Ok((at, self.encode_group(&groups[at], columns, threads)?));
        let mut encoded = several.into_iter().map(|job| encode(job, threads)).collect::<Result<Vec<_>>>()?;
        encoded.extend(each_taken(single, threads, |job| encode(job, 1))?);
        encoded.sort_by_key(|(at, _)| *at);
        Ok(encoded.into_iter().map(|(_, group)| group).collect())
    }

    fn encode_group(&self, group: &Group, columns: Vec<CollectedColumn>, threads: usize) -> Result<EncodedGroup> {
        let columns = each_taken(columns, threads, |column| Ok(column.into_data()))?;
        let planned = self.plan_columns(group, &columns, threads)?;
        let jobs = page_jobs(group, self.rows, threads);
        let pages = parallel(&jobs, threads, |rows| self.write_pages(group, &columns, &planned, *rows))?;
        let encoded = planned.into_iter().map(|planned| EncodedColumn { choice: planned.choice, zones: planned.zones });
        let encoded = encoded.collect();
        let kept = group.columns.iter().copied().zip(columns).filter(|(column, _)| self.indexed.contains(column));
        Ok(EncodedGroup { columns: encoded, pages, kept: kept.collect() })
    }

    /// The plans of the columns of a group, in its order.
    fn plan_columns<'c>(
        &self,
        group: &Group,
        columns: &'c [ColumnData],
        threads: usize,
    ) -> Result<Vec<PlannedColumn<'c>>> {
        let (schema, design) = (self.schema, self.design);
        let columns: Vec<(usize, &ColumnData)> = group.columns.iter().copied().zip(columns).collect();
        parallel(&columns, threads, |&(at, column)| {
            let name = schema.stored_name(at);
            let encode_error = |source| StoreError::Encode { column: name.clone(), source };
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
            let zones = zones(column, &choice, &prepared);
            Ok(PlannedColumn { choice, prepared, zones })
        })
    }

    /// The pages of a range of rows (first row, rows) of a group. `columns` and `planned` are in its order.
    fn write_pages(
        &self,
        group: &Group,
        columns: &[ColumnData],
        planned: &[PlannedColumn<'_>],
        (start, rows): (usize, usize),
    ) -> Result<GroupPages> {
        let (kind, page_size) = (page::kind_of(group.format), self.design.page_size as usize);
        let mut cutter = Cutter { page_size, kind, start, end: start + rows, out: GroupPages::default(), guess: 1024 };
        match group.format {
            PageFormat::Slotted => {
                let types = group.columns.iter().map(|c| self.schema.stored_type(*c));
                let slotted = SlottedSchema::new(types);
                let data: Vec<&ColumnData> = columns.iter().collect();
                cutter.cut(|first, count, out| {
                    slotted.encode(&data, first, count, out);
                    Ok(())
                })?;
            }
            PageFormat::Dense => {
                let writer = dense_writer(self.schema, self.design, group, planned);
                cutter.cut(|first, count, out| {
                    writer.encode(first, count, out);
                    Ok(())
                })?;
            }
            PageFormat::Pax => {
                let prepared: Vec<&Prepared<'_>> = planned.iter().map(|column| &column.prepared).collect();
                let name = || group.columns.iter().map(|c| self.schema.stored_name(*c)).collect::<Vec<_>>().join(", ");
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

    fn assemble(
        &self,
        groups: &[Group],
        encoded: Vec<EncodedGroup>,
        clustering: SegmentClustering,
        indexes: Vec<(Vec<u32>, SegmentFile)>,
    ) -> Result<SegmentFile> {
        let page_size = self.design.page_size as usize;
        let mut columns: Vec<Option<EncodedColumn>> = (0..self.schema.stored_count()).map(|_| None).collect();
        let mut file = FileParts { page_size, first: 0, pages: vec![], tail: vec![] };
        let (mut pages, mut ends) = (Vec::with_capacity(groups.len()), Vec::with_capacity(groups.len()));
        for (at, (group, encoded)) in groups.iter().zip(encoded).enumerate() {
            group.columns.iter().zip(encoded.columns).for_each(|(column, done)| columns[*column] = Some(done));
            pages.push(file.place_pages(at as u32, encoded.pages));
            ends.push(file.first);
        }
        let columns: Vec<EncodedColumn> = columns.into_iter().map(|c| c.expect("every column is in a group")).collect();
        let indexes = indexes.into_iter().map(|(columns, index)| {
            let (offset, bytes) = file.append(&index);
            IndexDescription { columns, offset, bytes }
        });
        let indexes = indexes.collect();
        let described = describe_columns(groups, &columns, &pages, &ends, &mut file);
        let group_descriptions = groups.iter().zip(&pages).zip(&ends).map(|((group, pages), end)| GroupDescription {
            format: group.format,
            columns: group.columns.iter().map(|c| *c as u32).collect(),
            pages: pages.len() as u32,
            end: *end,
        });
        let description = Description {
            rows: self.rows as u32,
            zone_rows: ZONE_ROWS as u32,
            page_size: self.design.page_size,
            schema: self.schema.of_segment(),
            design: self.design.clone(),
            columns: described,
            groups: group_descriptions.collect(),
            dimensions: clustering.dimensions.iter().map(|d| d.description.clone()).collect(),
            cluster_keys: clustering.keys,
            indexes,
        };
        let zones = columns.into_iter().map(|column| column.zones).collect();
        let footer = Footer { description, pages, zones, dimensions: clustering.dimensions };
        let entry = file.push_blob(&footer.to_bytes());
        file.tail.extend(footer::trailer(self.design.page_size, entry.index, u32::from(entry.units)));
        Ok(SegmentFile { pages: file.pages, tail: file.tail, summary: SegmentSummary::of(&footer) })
    }
}

fn zones(column: &ColumnData, choice: &Choice, prepared: &Prepared<'_>) -> ZoneMap {
    match (choice.shared.as_ref().and_then(Shared::dictionary_bytes), prepared.transformed()) {
        (Some(entries), Values::Int(codes)) => ZoneMap::of_codes(column, codes, entries, ZONE_ROWS),
        _ => ZoneMap::of(column, ZONE_ROWS),
    }
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

fn dense_writer<'a>(
    schema: &TableSchema,
    design: &Design,
    group: &Group,
    planned: &'a [PlannedColumn<'_>],
) -> DenseWriter<'a> {
    let mut columns: Vec<DenseColumn<'a>> = planned.iter().map(dense_column).collect();
    let sorted = design.sort_columns(schema);
    let in_group = |column: &usize| group.columns.iter().position(|c| c == column);
    let abstracted = design.levels as usize;
    // Leading sort columns can be abstracted or delta-coded only as far as they are all in this group.
    let leading: Vec<usize> = sorted.iter().map_while(in_group).collect();
    let levels = leading.iter().take(abstracted).copied().take_while(|c| can_abstract(&planned[*c]));
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
        let mut payload = Vec::with_capacity(self.page_size);
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
            payload.clear();
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
        let bytes = page::units_for(payload.len(), self.page_size) * self.page_size;
        let units = page::append(self.out.part(bytes), self.page_size, header, payload);
        self.out.pages.push((self.start as u32, units));
        self.start += count;
        Ok(())
    }
}

/// The parts of a file while they get their places.
struct FileParts {
    page_size: usize,
    /// The index of the first page of the tail.
    first: u32,
    pages: Vec<Vec<u8>>,
    tail: Vec<u8>,
}

impl FileParts {
    /// Gives the pages of the next group their places.
    fn place_pages(&mut self, group: u32, written: Vec<GroupPages>) -> Vec<PageEntry> {
        let mut entries = Vec::with_capacity(written.iter().map(|written| written.pages.len()).sum());
        for GroupPages { parts, pages, .. } in written {
            let mut pages = pages.into_iter();
            for mut part in parts {
                let mut rest = &mut part[..];
                while !rest.is_empty() {
                    let (first_row, units) = pages.next().expect("a part has whole pages");
                    let (page, behind) = rest.split_at_mut(units as usize * self.page_size);
                    page[28..32].copy_from_slice(&group.to_le_bytes());
                    page::relocate(page, self.first);
                    entries.push(PageEntry { first_row, index: self.first });
                    self.first += u32::from(units);
                    rest = behind;
                }
                self.pages.push(part);
            }
        }
        entries
    }

    /// Appends another file, and returns its offset and length.
    fn append(&mut self, file: &SegmentFile) -> (u64, u64) {
        let offset = u64::from(self.first) * self.page_size as u64 + self.tail.len() as u64;
        file.parts().into_iter().for_each(|part| self.tail.extend_from_slice(part));
        self.tail.resize(self.tail.len().next_multiple_of(self.page_size), 0);
        (offset, file.len() as u64)
    }

    fn push_blob(&mut self, bytes: &[u8]) -> BlobEntry {
        let index = self.first + (self.tail.len() / self.page_size) as u32;
        let header = PageHeader { index, units: 0, kind: KIND_BLOB, first_row: 0, rows: 0, payload: 0, group: 0 };
        let units = page::append(&mut self.tail, self.page_size, header, bytes);
        BlobEntry { index, units, bytes: bytes.len() as u32 }
    }
}

fn describe_columns(
    groups: &[Group],
    columns: &[EncodedColumn],
    pages: &[Vec<PageEntry>],
    ends: &[u32],
    file: &mut FileParts,
) -> Vec<ColumnDescription> {
    let mut descriptions = Vec::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        let mut description = ColumnDescription::of(column.choice.plan);
        let group = groups.iter().position(|g| g.columns.contains(&at)).expect("every column is in a group");
        let units = pages[group].first().map_or(0, |first| ends[group] - first.index);
        description.bytes = u64::from(units) * file.page_size as u64 / groups[group].columns.len() as u64;
        description.distinct = match &column.choice.shared {
            Some(shared) if shared.transform() == Transform::Dictionary => shared.dictionary_len() as u64,
            _ => column.choice.stats.distinct as u64,
        };
        description.shared = column.choice.shared.as_ref().map(|shared| file.push_blob(&shared.to_bytes()));
        let weighed = column.choice.considered.iter();
        description.considered =
            weighed.map(|c| (plan_name(c.plan), c.bytes_per_value as f32, c.decode_ns_per_value as f32)).collect();
        descriptions.push(description);
    }
    descriptions
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

/// As [`parallel`], with items that are given away, so that each is freed when `f` is done with it.
pub(crate) fn each_taken<T: Send, R: Send>(
    items: Vec<T>,
    threads: usize,
    f: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let items: Vec<Mutex<Option<T>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let take = |item: &Mutex<Option<T>>| item.lock().expect("no job panics while it takes an item").take();
    parallel(&items, threads, |item| f(take(item).expect("every item is taken once")))
}
