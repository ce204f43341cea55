//! The columns of the sample, encoded as in segments.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use freestone_codec::{
    Choice, ChooseOptions, ColumnPlan, Encoding, Kind, Prepared, Transform, Values, choose, encode, f32_key, f64_key,
    fit, prepare,
};
use freestone_store::column::ColumnData;
use freestone_store::format::dense::{DenseColumn, DenseValues, DenseWriter};
use freestone_store::format::whole_bytes;

use super::order::Order;
use super::{TableStatistics, lock};

/// A column as a chunk: on pages of its own, or as a PAX mini page.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkForm {
    /// The transform and the encoding.
    pub plan: ColumnPlan,
    /// Pairs of the rows of a chunk and the bytes per value, including its share of the chunk's header; ascending.
    pub sizes: Vec<(f64, f64)>,
    /// The bytes of the segment's dictionary or symbol table.
    pub shared_bytes: f64,
}

/// A column as a field of super tuples, by the number of rows of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseForm {
    /// The transform and the encoding.
    pub plan: ColumnPlan,
    /// The bytes of the dictionary or symbol table.
    pub shared_bytes: f64,
    /// Ascending by rows.
    pub pages: Vec<DensePage>,
}

/// A field on pages of one number of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DensePage {
    pub rows: f64,
    /// The bits of the field in a tuple.
    pub bits: f64,
    /// The bytes of its strings in the page's heap, per value.
    pub heap_bytes: f64,
    /// Its bytes per page: dictionary and directory.
    pub page_bytes: f64,
    /// Whether the page has a dictionary of the column.
    pub has_dictionary: bool,
}

/// A column as a field of slotted tuples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlottedForm {
    /// The bytes of a fixed-size value.
    pub fixed_bytes: f64,
    /// The mean bytes of a string.
    pub text_bytes: f64,
}

/// Cached results, by request.
#[derive(Debug, Default)]
pub struct Forms {
    choices: HashMap<FormKey, Arc<(Choice, f64)>>,
    chunks: HashMap<FormKey, Arc<ChunkForm>>,
    dense: HashMap<(usize, Order, Option<ColumnPlan>), Arc<DenseForm>>,
    prefixes: HashMap<(Order, Vec<usize>), Arc<Vec<PrefixPage>>>,
    /// For each column, an order that scatters its values.
    scattered: HashMap<usize, Order>,
}

/// The zones of a scattered column span nearly all of its values, and few adjacent values are equal.
const SCATTERED_SPAN: f64 = 0.95;
const SCATTERED_RUN: f64 = 1.1;

/// A column, its order, whether it is alone on its pages, and the plan that the user set.
type FormKey = (usize, Order, bool, Option<ColumnPlan>);
/// The rows of a page, the number of columns whose differences are stored, and the bits of all columns in a tuple.
type PrefixPage = (f64, usize, f64);

/// The page sizes in rows at which dense fields are encoded.
const DENSE_ROWS: [usize; 5] = [16, 64, 256, 1024, 4096];
/// The assumed part of a page for a column of a wider group, when its encoding is chosen.
const GROUP_PART: usize = 8;
const PAGE_BYTES: usize = 32 << 10;
/// The maximum number of values of a segment dictionary.
const DICTIONARY_ENTRIES_MAX: f64 = 65536.0;
/// The bytes that one nanosecond of decoding is worth, as in the store's writer.
const BYTES_PER_NS: f64 = 0.1;

impl TableStatistics {
    /// A column as chunks, alone on its pages or not, with the rows in `order`.
    pub fn chunk_form(&self, column: usize, order: &Order, alone: bool, pinned: Option<ColumnPlan>) -> Arc<ChunkForm> {
        let order = &self.distinguished(column, order);
        let key = (column, order.clone(), alone, pinned);
        if let Some(known) = lock(&self.forms).chunks.get(&key) {
            return known.clone();
        }
        let choice = self.choice(column, order, alone, pinned);
        let ordered = self.ordered(order);
        let data = ordered.column(column, self);
        let column_data = prepared(data, &choice.0, self.whole_bytes(column, pinned));
        let mut sizes = chunk_sizes(data, column_data, &self.parts(order, data), alone);
        if matches!(choice.0.plan.encoding, Encoding::Delta | Encoding::DeltaLz) && order.sort.contains(&column) {
            let excess = ordered.excess_delta_bits(self) / 8.0;
            sizes.iter_mut().for_each(|(_, bytes)| *bytes = (*bytes - excess).max(0.05));
        }
        let form = Arc::new(ChunkForm { plan: choice.0.plan, sizes, shared_bytes: choice.1 });
        lock(&self.forms).chunks.entry(key).or_insert(form).clone()
    }

    /// A column as a field of super tuples, with the rows in `order`.
    pub fn dense_form(&self, column: usize, order: &Order, pinned: Option<ColumnPlan>) -> Arc<DenseForm> {
        let order = &self.distinguished(column, order);
        let key = (column, order.clone(), pinned);
        if let Some(known) = lock(&self.forms).dense.get(&key) {
            return known.clone();
        }
        let choice = self.choice(column, order, false, pinned);
        let ordered = self.ordered(order);
        let data = ordered.column(column, self);
        let column_data = prepared(data, &choice.0, self.whole_bytes(column, pinned));
        let pages = dense_pages(data, column_data, &choice.0, self.segment_rows());
        let form = Arc::new(DenseForm { plan: choice.0.plan, shared_bytes: choice.1, pages });
        lock(&self.forms).dense.entry(key).or_insert(form).clone()
    }

    /// Leading sort columns as differences between tuples: by rows of a page, the number of such columns, and the bits
    /// of all `columns` in a tuple.
    pub fn dense_prefix(&self, order: &Order, columns: &[usize]) -> Arc<Vec<PrefixPage>> {
        let key = (order.clone(), columns.to_vec());
        if let Some(known) = lock(&self.forms).prefixes.get(&key) {
            return known.clone();
        }
        let ordered = self.ordered(order);
        let choices: Vec<_> = columns.iter().map(|c| self.choice(*c, order, false, None)).collect();
        let data: Vec<_> = columns.iter().map(|c| ordered.column(*c, self)).collect();
        let prepared: Option<Vec<Prepared<'_>>> =
            data.iter().zip(&choices).map(|(d, c)| prepared(d, &c.0, None)).collect();
        let excess = ordered.excess_delta_bits(self);
        let rows = self.segment_rows();
        let found = prepared.map_or_else(Vec::new, |prepared| prefix_pages(&prepared, &choices, excess, rows));
        let found = Arc::new(found);
        lock(&self.forms).prefixes.entry(key).or_insert(found).clone()
    }

    /// A column as a field of slotted tuples.
    pub fn slotted_form(&self, column: usize) -> SlottedForm {
        let column = &self.columns[column];
        let (fixed, text_bytes) = match column.kind {
            Kind::Bytes => (4.0, column.width),
            Kind::F32 => (4.0, 0.0),
            Kind::F64 => (8.0, 0.0),
            Kind::Wide => (16.0, 0.0),
            Kind::Int => (column.width.clamp(1.0, 8.0), 0.0),
        };
        SlottedForm { fixed_bytes: fixed, text_bytes }
    }

    /// The bytes of a value of a column, if the user wants it uncompressed.
    fn whole_bytes(&self, column: usize, pinned: Option<ColumnPlan>) -> Option<usize> {
        let is_plain = pinned == Some(ColumnPlan { transform: Transform::None, encoding: Encoding::Plain });
        is_plain.then(|| whole_bytes(self.schema.stored_type(column)))
    }

    /// The plan that the store would choose, and the bytes of its shared state in a segment of the table.
    fn choice(&self, column: usize, order: &Order, alone: bool, pinned: Option<ColumnPlan>) -> Arc<(Choice, f64)> {
        let key = (column, order.clone(), alone, pinned);
        if let Some(known) = lock(&self.forms).choices.get(&key) {
            return known.clone();
        }
        let ordered = self.ordered(order);
        let data = ordered.column(column, self);
        let chunk_bytes = if alone { PAGE_BYTES - 40 } else { PAGE_BYTES / GROUP_PART };
        let options = ChooseOptions { chunk_bytes, bytes_per_ns: BYTES_PER_NS, allow_block: alone, wanted: pinned };
        let (values, validity) = (data.values(), data.validity.as_deref());
        let plain = || Choice {
            plan: ColumnPlan { transform: Transform::None, encoding: Encoding::Plain },
            shared: None,
            stats: Default::default(),
            considered: vec![],
        };
        // If the sample cannot have the plan that the user set, perhaps the table cannot either. It then counts as
        // plain.
        let mut choice = choose(&values, validity, &options).unwrap_or_else(|_| plain());
        if pinned.is_none()
            && let Some(better) = self.rechosen(column, &choice)
        {
            let wanted = ChooseOptions { wanted: Some(better), ..options };
            choice = choose(&values, validity, &wanted).unwrap_or(choice);
        }
        let shared_bytes = choice.shared.as_ref().map_or(0.0, |shared| match shared.transform() {
            Transform::Dictionary => self.dictionary_bytes(column),
            _ => shared.to_bytes().len() as f64,
        });
        let found = Arc::new((choice, shared_bytes));
        lock(&self.forms).choices.entry(key).or_insert(found).clone()
    }

    /// An order in which adjacent values of the column are as similar as in `order`: the current one, or the first that
    /// scatters the column, too. A search requests many orders, most of which scatter most columns, and encoding these
    /// again would give the same result.
    fn distinguished(&self, column: usize, order: &Order) -> Order {
        if order.is_current() || order.sort.contains(&column) || order.cluster.iter().any(|(c, _)| *c == column) {
            return order.clone();
        }
        let current = Order::default();
        let (now, then) = (self.ordered(&current), self.ordered(order));
        let spans = (now.zone_span(column, self), then.zone_span(column, self));
        let runs = (now.run_rows(column, self), then.run_rows(column, self));
        if (spans.0 - spans.1).abs() < 0.03 && (runs.0 / runs.1.max(1.0) - 1.0).abs() < 0.03 {
            return current;
        }
        if spans.1 > SCATTERED_SPAN && runs.1 < SCATTERED_RUN {
            return lock(&self.forms).scattered.entry(column).or_insert_with(|| order.clone()).clone();
        }
        order.clone()
    }

    /// The bytes of a dictionary of a whole segment.
    fn dictionary_bytes(&self, column: usize) -> f64 {
        let distinct = self.sample.distinct(column, self.segment_rows() as u64);
        let entry = if self.columns[column].kind == Kind::Bytes { self.columns[column].width + 4.0 } else { 8.0 };
        distinct * entry
    }

    /// Another plan than the sample chose, if a dictionary is better or worse in a segment: more values may be too
    /// many, and more rows share its bytes.
    fn rechosen(&self, column: usize, choice: &Choice) -> Option<ColumnPlan> {
        let first = choice.considered.first()?;
        if first.plan.encoding == Encoding::Block {
            return None;
        }
        let segment_distinct = self.sample.distinct(column, self.segment_rows() as u64);
        let entry = if self.columns[column].kind == Kind::Bytes { self.columns[column].width + 4.0 } else { 8.0 };
        let in_sample = choice.stats.distinct as f64 * entry / self.sample.rows().max(1) as f64;
        let in_segment = segment_distinct * entry / self.segment_rows();
        let score = |c: &freestone_codec::Candidate| {
            let own = if c.plan.transform == Transform::Dictionary { in_segment - in_sample } else { 0.0 };
            c.bytes_per_value + own + c.decode_ns_per_value * BYTES_PER_NS
        };
        let possible = |c: &&freestone_codec::Candidate| {
            c.plan.encoding != Encoding::Block
                && (c.plan.transform != Transform::Dictionary || segment_distinct <= DICTIONARY_ENTRIES_MAX)
        };
        let best = choice.considered.iter().filter(possible).min_by(|a, b| score(a).total_cmp(&score(b)))?;
        (best.plan != first.plan).then_some(best.plan)
    }

    /// The ranges of adjacent rows of the sample.
    fn parts(&self, order: &Order, data: &ColumnData) -> Vec<Range<usize>> {
        if order.is_current() {
            return self.sample.blocks.clone();
        }
        let step = (data.len() / 10).max(1);
        (0..data.len()).step_by(step).map(|start| start..(start + step).min(data.len())).collect()
    }
}

/// A column to be encoded. `whole_bytes`: those of a value, if it is not to be compressed.
fn prepared<'a>(data: &'a ColumnData, choice: &'a Choice, whole_bytes: Option<usize>) -> Option<Prepared<'a>> {
    let prepared = prepare(data.values(), data.validity.as_deref(), choice.plan, choice.shared.as_ref()).ok()?;
    Some(if let Some(bytes) = whole_bytes { prepared.uncompressed(bytes) } else { prepared })
}

/// The numbers of rows of the chunks that are encoded. Chunks of a column alone on its pages are as long as a page
/// allows.
const CHUNK_ROWS: [usize; 5] = [16, 64, 256, 1024, 4096];

fn chunk_sizes(
    data: &ColumnData,
    column: Option<Prepared<'_>>,
    parts: &[Range<usize>],
    alone: bool,
) -> Vec<(f64, f64)> {
    let raw = data.byte_size() as f64 / data.len().max(1) as f64;
    let Some(column) = column else { return vec![(1.0, raw)] };
    let size = |rows: usize, budget: usize| {
        let (mut taken, mut bytes, mut chunk) = (0, 0, vec![]);
        for part in parts {
            let most = rows.min(part.len());
            let count = if budget < usize::MAX { fit(&column, part.start, most, budget) } else { most };
            chunk.clear();
            if count > 0 && encode(&column, part.start, count, &mut chunk).is_ok() {
                taken += count;
                bytes += if alone { chunk.len() } else { chunk.len().next_multiple_of(8) };
            }
        }
        (taken > 0).then(|| ((taken / parts.len().max(1)) as f64, bytes as f64 / taken as f64))
    };
    let tried = if alone {
        vec![size(usize::MAX, PAGE_BYTES - 40)]
    } else {
        CHUNK_ROWS.iter().map(|rows| size(*rows, usize::MAX)).collect()
    };
    let mut sizes: Vec<(f64, f64)> = tried.into_iter().flatten().collect();
    sizes.dedup_by(|a, b| a.0 <= b.0);
    if sizes.is_empty() { vec![(1.0, raw)] } else { sizes }
}

impl ChunkForm {
    /// The bytes per value in chunks of `rows` rows, interpolated linearly in bytes per chunk.
    pub fn bytes(&self, rows: f64) -> f64 {
        let right = self.sizes.partition_point(|(tried, _)| *tried < rows);
        match (right.checked_sub(1).and_then(|at| self.sizes.get(at)), self.sizes.get(right)) {
            (None, None) => 8.0,
            (Some((_, only)), None) | (None, Some((_, only))) => *only,
            (Some((from, a)), Some((to, b))) => {
                let share = (rows - from) / (to - from);
                (a * from + (b * to - a * from) * share) / rows
            }
        }
    }
}

fn dense_column<'a>(column: &'a Prepared<'_>, choice: &Choice, segment_rows: f64) -> DenseColumn<'a> {
    let values = match column.transformed() {
        Values::Int(v) => DenseValues::Int(Cow::Borrowed(v)),
        Values::Wide(v) => DenseValues::Wide(v),
        Values::F64(v) => DenseValues::Int(v.iter().map(|x| f64_key(*x)).collect()),
        Values::F32(v) => DenseValues::Int(v.iter().map(|x| f32_key(*x)).collect()),
        Values::Bytes(v) => DenseValues::Bytes(v),
    };
    let whole_bits = column.whole_bytes().map(|bytes| 8 * bytes as u32);
    let is_repeated = ((choice.stats.distinct * 3) as f64) < segment_rows && choice.plan.transform == Transform::None;
    let page_dictionary = is_repeated && whole_bits.is_none();
    DenseColumn { values, validity: column.validity(), page_dictionary, whole_bits }
}

/// The offset at `at` of a dense page's payload.
fn offset(payload: &[u8], at: usize) -> usize {
    payload.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
}

/// Pages of one field, encoded at a few places.
fn dense_pages(data: &ColumnData, column: Option<Prepared<'_>>, choice: &Choice, segment_rows: f64) -> Vec<DensePage> {
    const PLACES: usize = 5;
    let Some(column) = column else { return vec![] };
    let writer =
        DenseWriter { columns: vec![dense_column(&column, choice, segment_rows)], levels: vec![], prefix: vec![] };
    let mut pages = vec![];
    for rows in DENSE_ROWS.into_iter().map(|rows| rows.min(data.len())).filter(|rows| *rows > 0) {
        let mut page = DensePage { rows: rows as f64, ..DensePage::default() };
        let (mut payload, mut dictionaries) = (vec![], 0);
        for place in 0..PLACES {
            payload.clear();
            writer.encode((data.len() - rows) / PLACES * place, rows, &mut payload);
            let [tuples, levels, heap, dictionary] = [4, 8, 12, 16].map(|at| offset(&payload, at));
            page.bits += (levels - tuples) as f64 * 8.0 / (rows * PLACES) as f64;
            page.heap_bytes += (dictionary - heap) as f64 / (rows * PLACES) as f64;
            page.page_bytes += (payload.len() - dictionary + tuples - 20) as f64 / PLACES as f64;
            dictionaries += usize::from(payload.len() > dictionary);
        }
        page.has_dictionary = dictionaries * 2 > PLACES;
        pages.push(page);
    }
    pages
}

fn prefix_pages(
    columns: &[Prepared<'_>],
    choices: &[Arc<(Choice, f64)>],
    excess: f64,
    segment_rows: f64,
) -> Vec<PrefixPage> {
    const PLACES: usize = 5;
    let len = columns.first().map_or(0, Prepared::len);
    let fields = columns.iter().zip(choices).map(|(column, choice)| dense_column(column, &choice.0, segment_rows));
    let fields = fields.collect();
    let writer = DenseWriter { columns: fields, levels: vec![], prefix: (0..columns.len()).collect() };
    let mut pages = vec![];
    for rows in DENSE_ROWS.into_iter().map(|rows| rows.min(len)).filter(|rows| *rows > 1) {
        let (mut bits, mut used) = (0.0, 0);
        let mut payload = vec![];
        for place in 0..PLACES {
            payload.clear();
            writer.encode((len - rows) / PLACES * place, rows, &mut payload);
            let taken = usize::from(payload.get(3).copied().unwrap_or(0));
            let own = (offset(&payload, 8) - offset(&payload, 4)) as f64 * 8.0 / rows as f64;
            // Adjacent rows of a sorted sample differ more than those of the table.
            bits += if taken > 0 { (own - excess).max(3.0) } else { own } / PLACES as f64;
            used += taken;
        }
        pages.push((rows as f64, used.div_ceil(PLACES), bits));
    }
    pages
}

impl DenseForm {
    /// The field on pages of `rows` rows, interpolated.
    pub fn page(&self, rows: f64) -> DensePage {
        let behind = self.pages.partition_point(|page| page.rows <= rows);
        match (behind.checked_sub(1).and_then(|at| self.pages.get(at)), self.pages.get(behind)) {
            (None, None) => DensePage { rows, bits: 64.0, ..DensePage::default() },
            (Some(only), None) | (None, Some(only)) => *only,
            (Some(a), Some(b)) => {
                let share = (rows / a.rows).ln() / (b.rows / a.rows).ln();
                let mix = |a: f64, b: f64| a + (b - a) * share;
                DensePage {
                    rows,
                    bits: mix(a.bits, b.bits),
                    heap_bytes: mix(a.heap_bytes, b.heap_bytes),
                    page_bytes: mix(a.page_bytes, b.page_bytes),
                    has_dictionary: if share < 0.5 { a.has_dictionary } else { b.has_dictionary },
                }
            }
        }
    }
}
