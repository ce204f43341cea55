//! The geometry of a table in a design: the pages of its groups, and how each column is stored on them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use freestone_codec::{ColumnPlan, Encoding, Transform};
use freestone_store::design::{Design, Group, MediumKind, PageFormat};
use freestone_store::format::pax;
use freestone_store::page::HEADER;
use freestone_store::segment::parallel;

use super::classify::{of_chunk, of_dense, of_slotted};
use super::{GRANULE, ZONE};
use crate::profile::{Family, Form};
use crate::statistics::{ChunkForm, DenseForm, Order, TableStatistics};

/// A table in a design.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The order of the rows.
    pub order: Order,
    /// The medium.
    pub medium: MediumKind,
    /// The page size in bytes.
    pub page_size: f64,
    /// The column groups.
    pub groups: Vec<GroupGeometry>,
    /// For each column of the table: its group, and how it is stored there.
    pub columns: Vec<StoredColumn>,
    /// The ordered indexes.
    pub indexes: Vec<IndexGeometry>,
    /// The bytes of all segments, including dictionaries and footers.
    pub bytes: f64,
}

/// The pages of one column group.
#[derive(Debug, Clone)]
pub struct GroupGeometry {
    /// The positions of the columns.
    pub columns: Vec<usize>,
    /// The form of the pages.
    pub form: Form,
    /// The mean number of rows per page.
    pub page_rows: f64,
    /// The bytes of a page, more than the page size if a row needs more.
    pub page_bytes: f64,
    /// The number of pages.
    pub pages: f64,
    /// The bytes of all its pages.
    pub bytes: f64,
    /// Whether tuples have a delta-coded prefix.
    pub has_prefix: bool,
}

impl GroupGeometry {
    /// The bytes of a row on its page.
    pub fn row_bytes(&self) -> f64 {
        self.page_bytes / self.page_rows
    }

    /// The pages of the group that overlap a granule. Most begin before it or end after it.
    pub fn pages_a_granule(&self) -> f64 {
        if self.pages <= 1.0 { 1.0 } else { GRANULE / self.page_rows + 0.9 }
    }
}

/// How a column is stored.
#[derive(Debug, Clone)]
pub struct StoredColumn {
    /// The position of its group.
    pub group: usize,
    /// The family of kernels that decode it.
    pub family: Family,
    /// The parameter that distinguishes kernels of the family.
    pub parameter: f64,
    /// The bytes of a stored value, without shared state.
    pub bytes: f64,
    /// The bytes of its dictionary or symbol table.
    pub shared_bytes: f64,
    /// The bytes of the dictionary of its page, if it has one.
    pub page_dictionary_bytes: f64,
    /// Its transform and encoding. `None` on slotted and dense pages.
    pub plan: Option<ColumnPlan>,
}

/// The number of pages with a dictionary per granule, when kernels were measured.
const DICTIONARY_VISITS: f64 = 1.4;
/// The share of a page that rows fill. Encoders whose size is known only after encoding stop at 96 % or slightly above.
const FILL: f64 = 0.975;

/// Groups that were laid out before, and the encodings of their columns, since a search evaluates the same ones
/// repeatedly.
#[derive(Debug, Default)]
pub struct KnownGroups {
    groups: Mutex<HashMap<GroupKey, Arc<KnownGroup>>>,
    ways: Mutex<HashSet<(GroupForm, Order)>>,
}

/// An index of a layout.
#[derive(Debug, Clone)]
pub struct IndexGeometry {
    /// The columns of its key.
    pub columns: Vec<usize>,
    /// The entries per page.
    pub page_rows: f64,
    /// The bytes of a page.
    pub page_bytes: f64,
    /// The bytes of the whole index.
    pub bytes: f64,
}

impl IndexGeometry {
    /// The index of a design with a key: entries are sorted by the key, each with its row's number.
    pub fn of(key: &[usize], design: &Design, statistics: &TableStatistics) -> IndexGeometry {
        let sort = key.iter().map(|c| statistics.columns[*c].name.clone()).collect();
        let order = Order::of(&Design { sort, cluster: vec![], levels: 0, ..design.clone() }, statistics);
        let page_bytes = f64::from(design.page_size);
        let forms: Vec<_> = key.iter().map(|c| statistics.chunk_form(*c, &order, false, None)).collect();
        let number = statistics.segment_rows().min(statistics.rows as f64).max(2.0).log2().ceil() / 8.0;
        let mut page_rows = 1024.0;
        for _ in 0..3 {
            let entry: f64 = number + forms.iter().map(|form| form.bytes(page_rows)).sum::<f64>();
            page_rows = (page_bytes / entry.max(0.01)).clamp(1.0, statistics.segment_rows());
        }
        let segments = (statistics.rows as f64 / statistics.segment_rows()).ceil().max(1.0);
        // Each index is a segment within a segment, with a footer and the shared state of its columns.
        let shared: f64 = forms.iter().map(|form| form.shared_bytes).sum();
        let bytes = statistics.rows as f64 / page_rows * page_bytes + segments * (shared + 3.0 * page_bytes);
        IndexGeometry { columns: key.to_vec(), page_rows, page_bytes, bytes }
    }
}

/// How the columns of a group are encoded: the page format, and whether the group has only one column.
type GroupForm = (PageFormat, bool);

/// Columns, page format, page size and order: they determine the layout of a group unless encodings are set or levels
/// abstracted.
type GroupKey = (Vec<usize>, u8, u32, Order);
type KnownGroup = (GroupGeometry, Vec<StoredColumn>);

impl KnownGroups {
    fn find(&self, key: &GroupKey) -> Option<Arc<KnownGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn keep(&self, key: GroupKey, known: KnownGroup) {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::new(known));
    }

    /// The ways of encoding the groups' columns that were not evaluated before in an order.
    fn new_ways(&self, groups: &[Group], order: &Order) -> Vec<GroupForm> {
        let ways: HashSet<GroupForm> = groups.iter().map(|group| (group.format, group.columns.len() == 1)).collect();
        let mut known = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        ways.into_iter().filter(|way| known.insert((*way, order.clone()))).collect()
    }
}

/// The groups of a design, without the fields of structs, of which statistics know nothing.
fn known_groups(design: &Design, statistics: &TableStatistics) -> Vec<Group> {
    let mut groups = design.groups(&statistics.schema);
    groups.iter_mut().for_each(|group| group.columns.retain(|column| *column < statistics.columns.len()));
    groups.retain(|group| !group.columns.is_empty());
    groups
}

impl Layout {
    /// The layout of a design. `threads`: the number of threads for encoding the sample, if that is necessary.
    pub fn of(design: &Design, statistics: &TableStatistics, known: &KnownGroups, threads: usize) -> Layout {
        let order = Order::of(design, statistics);
        let groups = known_groups(design, statistics);
        let unknown = StoredColumn {
            group: 0,
            family: Family::Plain,
            parameter: 64.0,
            bytes: 8.0,
            shared_bytes: 0.0,
            page_dictionary_bytes: 0.0,
            plan: None,
        };
        let mut layout = Layout {
            order,
            medium: design.medium,
            page_size: f64::from(design.page_size),
            groups: vec![],
            columns: vec![unknown; statistics.columns.len()],
            indexes: indexes(design, statistics),
            bytes: 0.0,
        };
        let is_plain = design.encode.is_empty() && design.levels == 0;
        let order = layout.order.clone();
        let forms = Forms::new(design, statistics, &order);
        if is_plain && threads > 1 {
            let ways = known.new_ways(&groups, &order);
            ways.into_iter().for_each(|way| forms.encode_ahead(way, threads));
        }
        for (at, group) in groups.iter().enumerate() {
            // The prefix of dense tuples depends on the sort columns, too, and not only on the order.
            let is_known = is_plain && (group.format != PageFormat::Dense || design.sort.is_empty());
            let key = (group.columns.clone(), group.format as u8, design.page_size, order.clone());
            if let Some(found) = known.find(&key).filter(|_| is_known) {
                for (column, stored) in group.columns.iter().zip(&found.1) {
                    layout.columns[*column] = StoredColumn { group: at, ..stored.clone() };
                }
                layout.groups.push(found.0.clone());
                continue;
            }
            let mut place = Place { design, statistics, group, at, forms: &forms, layout: &mut layout };
            let geometry = match group.format {
                PageFormat::Pax => place.pax(),
                PageFormat::Dense => place.dense(),
                PageFormat::Slotted => place.slotted(),
            };
            if is_known {
                let stored = group.columns.iter().map(|c| layout.columns[*c].clone()).collect();
                known.keep(key, (geometry.clone(), stored));
            }
            layout.groups.push(geometry);
        }
        let segments = (statistics.rows as f64 / statistics.segment_rows()).ceil().max(1.0);
        let shared: f64 = layout.columns.iter().map(|c| page_of(c.shared_bytes, layout.page_size)).sum();
        let zones = statistics.segment_rows() / ZONE * layout.columns.len() as f64 * 12.0;
        let pages: f64 = layout.groups.iter().map(|g| g.pages / segments * 8.0).sum();
        let footer = page_of(zones + pages + 200.0 * layout.columns.len() as f64 + 1000.0, layout.page_size) + 4096.0;
        let groups: f64 = layout.groups.iter().map(|g| g.bytes).sum();
        let data = groups + layout.indexes.iter().map(|index| index.bytes).sum::<f64>();
        layout.bytes = data + segments * (shared + footer);
        layout
    }

    /// The groups that contain some columns, each once, ascending.
    pub fn groups_of(&self, columns: &[usize]) -> Vec<usize> {
        let mut groups: Vec<usize> = columns.iter().map(|c| self.columns[*c].group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

fn indexes(design: &Design, statistics: &TableStatistics) -> Vec<IndexGeometry> {
    let key = |names: &Vec<String>| names.iter().map(|name| statistics.schema.index_of(name).ok()).collect();
    let keys = design.index.iter().filter_map(key);
    keys.map(|key: Vec<usize>| IndexGeometry::of(&key, design, statistics)).collect()
}

fn page_of(bytes: f64, page_size: f64) -> f64 {
    if bytes <= 0.0 { 0.0 } else { ((bytes + HEADER as f64) / page_size).ceil() * page_size }
}

/// The number of columns for which another thread is worthwhile.
const COLUMNS_A_THREAD: usize = 4;

/// The encodings of columns in a design.
struct Forms<'a> {
    design: &'a Design,
    statistics: &'a TableStatistics,
    order: &'a Order,
    /// The columns that the design abstracts.
    levels: Vec<usize>,
}

impl<'a> Forms<'a> {
    fn new(design: &'a Design, statistics: &'a TableStatistics, order: &'a Order) -> Self {
        let sorted = design.sort_columns(&statistics.schema);
        Forms { design, statistics, order, levels: sorted.into_iter().take(design.levels as usize).collect() }
    }

    fn pinned(&self, column: usize) -> Option<ColumnPlan> {
        self.design.encode.get(&self.statistics.columns[column].name).map(|e| e.0)
    }

    fn chunk(&self, column: usize, alone: bool) -> Arc<ChunkForm> {
        let run_lengths = ColumnPlan { transform: Transform::None, encoding: Encoding::Rle };
        let level = self.levels.contains(&column) && !self.statistics.columns[column].is_text();
        let pinned = self.pinned(column).or(level.then_some(run_lengths));
        self.statistics.chunk_form(column, self.order, alone, pinned)
    }

    fn dense(&self, column: usize) -> Arc<DenseForm> {
        self.statistics.dense_form(column, self.order, self.pinned(column))
    }

    /// Encodes all columns of the table in one way, on several threads. A search that asks for some columns will ask
    /// for others, and the statistics cache the results.
    fn encode_ahead(&self, (format, alone): GroupForm, threads: usize) {
        let columns: Vec<usize> = (0..self.statistics.columns.len()).collect();
        let threads = threads.min(columns.len() / COLUMNS_A_THREAD);
        let [first, rest @ ..] = &columns[..] else { return };
        if threads < 2 {
            return;
        }
        let encode = |column: &usize| match format {
            PageFormat::Pax => drop(self.chunk(*column, alone)),
            PageFormat::Dense => drop(self.dense(*column)),
            PageFormat::Slotted => {}
        };
        // The first call computes the order for all.
        encode(first);
        parallel(rest, threads, |column| {
            encode(column);
            Ok(())
        })
        .expect("no column refuses");
    }
}

/// A group whose geometry is being computed.
struct Place<'a> {
    design: &'a Design,
    statistics: &'a TableStatistics,
    group: &'a Group,
    at: usize,
    forms: &'a Forms<'a>,
    layout: &'a mut Layout,
}

impl Place<'_> {
    fn room(&self) -> f64 {
        self.layout.page_size - HEADER as f64
    }

    fn geometry(&self, form: Form, row_bytes: f64, page_bytes: f64, fill: f64) -> GroupGeometry {
        let rows = self.statistics.rows as f64;
        let room = self.room() - page_bytes;
        let page_rows = (room * fill / row_bytes.max(1e-4)).max(1.0);
        let page_rows = if page_rows < 64.0 { page_rows.floor().max(1.0) } else { page_rows };
        let page_rows = page_rows.min(self.statistics.segment_rows());
        let units = ((page_rows * row_bytes + page_bytes + HEADER as f64) / self.layout.page_size).ceil().max(1.0);
        let page_bytes = self.layout.page_size * units;
        let segments = (rows / self.statistics.segment_rows()).max(1.0);
        let pages = (self.statistics.segment_rows() / page_rows).ceil() * segments;
        GroupGeometry {
            columns: self.group.columns.clone(),
            form,
            page_rows,
            page_bytes,
            pages,
            bytes: pages * page_bytes,
            has_prefix: false,
        }
    }

    fn pax(&mut self) -> GroupGeometry {
        let columns = self.group.columns.clone();
        let alone = columns.len() == 1;
        let forms: Vec<_> = columns.iter().map(|column| self.forms.chunk(*column, alone)).collect();
        let header = pax::header_bytes(columns.len()) as f64;
        let fill = if alone { 0.995 } else { FILL };
        let mut page_rows = 512.0;
        let mut geometry = None;
        for _ in 0..4 {
            let row_bytes = forms.iter().map(|form| form.bytes(page_rows)).sum();
            let found = self.geometry(Form::Chunk, row_bytes, header, fill);
            page_rows = found.page_rows;
            geometry = Some(found);
        }
        for (column, form) in columns.iter().zip(&forms) {
            let bytes = form.bytes(page_rows);
            let family = of_chunk(self.statistics.columns[*column].kind, form.plan, bytes);
            self.layout.columns[*column] = StoredColumn {
                group: self.at,
                family,
                parameter: self.parameter(*column, family, bytes, page_rows),
                bytes,
                shared_bytes: form.shared_bytes,
                page_dictionary_bytes: 0.0,
                plan: Some(form.plan),
            };
        }
        geometry.unwrap_or_else(|| self.geometry(Form::Chunk, 8.0, header, fill))
    }

    /// The parameter by which kernels of the family were measured.
    fn parameter(&self, column: usize, family: Family, bytes: f64, page_rows: f64) -> f64 {
        use Family::*;
        let statistics = &self.statistics.columns[column];
        match family {
            Text | Fsst | Block | TextDictionary | TextDictionaryRle => statistics.width,
            // Entries of the page's dictionary per granule, whose rows share their cost.
            PageDictionary | TextPageDictionary => {
                let (distinct, runs) = (statistics.distinct, self.statistics.run_rows(column, &self.layout.order));
                let draws = page_rows / runs.max(1.0);
                let entries = distinct * (1.0 - (1.0 - 1.0 / distinct.max(1.0)).powf(draws));
                entries * (GRANULE / page_rows + 1.0) / DICTIONARY_VISITS
            }
            Rle | DictionaryRle => self.statistics.run_rows(column, &self.layout.order),
            _ => bytes * 8.0,
        }
    }

    fn dense(&mut self) -> GroupGeometry {
        let columns = self.group.columns.clone();
        let order = self.forms.order;
        let forms: Vec<_> = columns.iter().map(|column| self.forms.dense(*column)).collect();
        let sorted = self.design.sort_columns(&self.statistics.schema);
        let leading: Vec<usize> = sorted.into_iter().take_while(|c| columns.contains(c)).collect();
        let level_count =
            leading.iter().take(self.design.levels as usize).take_while(|c| self.can_abstract(**c)).count();
        let (levels, behind) = leading.split_at(level_count);
        let is_whole = |c: &usize| self.forms.pinned(*c).is_some_and(|plan| plan.encoding == Encoding::Plain);
        let in_prefix = |c: &usize| self.can_abstract(*c) && !is_whole(c);
        let prefix_columns: Vec<usize> = behind.iter().copied().take_while(in_prefix).take(8).collect();
        let prefix = match prefix_columns.is_empty() {
            true => Arc::default(),
            false => self.statistics.dense_prefix(order, &prefix_columns),
        };
        // The number of rows of a page determines the width of its fields, and this the number of rows.
        let mut page_rows = 512.0;
        let mut found = None;
        for _ in 0..4 {
            let (mut bits, mut page_bytes) = (0.0, 20.0);
            let own = prefix.iter().min_by(|a, b| (a.0 - page_rows).abs().total_cmp(&(b.0 - page_rows).abs()));
            let in_prefix = |c: &usize| own.is_some_and(|(_, used, _)| *used > 0) && prefix_columns.contains(c);
            bits += own.filter(|(_, used, _)| *used > 0).map_or(0.0, |(.., bits)| *bits);
            for (column, form) in columns.iter().zip(&forms) {
                let page = form.page(page_rows);
                if levels.contains(column) {
                    let runs = (page_rows / self.statistics.run_rows(*column, order)).max(1.0);
                    page_bytes += 5.0 + 3.0 + runs * (page.bits + 8.0) / 8.0;
                } else if !in_prefix(column) {
                    bits += page.bits + page.heap_bytes * 8.0;
                    page_bytes += page.page_bytes;
                }
            }
            let geometry = self.geometry(Form::Dense, (bits / 8.0).max(0.05), page_bytes, FILL);
            page_rows = geometry.page_rows;
            found = Some((geometry, own.map_or(0, |(_, used, _)| *used)));
        }
        let (mut geometry, used) = found.unwrap_or_else(|| (self.geometry(Form::Dense, 8.0, 20.0, FILL), 0));
        geometry.has_prefix = used > 0;
        for (column, form) in columns.iter().zip(&forms) {
            let page = form.page(geometry.page_rows);
            let statistics = &self.statistics.columns[*column];
            let is_general =
                levels.contains(column) || page.has_dictionary || (used > 0 && prefix_columns.contains(column));
            let family = of_dense(statistics.kind, form.plan, page.bits, is_general);
            let bytes = page.bits / 8.0 + page.heap_bytes;
            self.layout.columns[*column] = StoredColumn {
                group: self.at,
                family,
                parameter: if statistics.is_text() { statistics.width } else { page.bits },
                bytes,
                shared_bytes: form.shared_bytes,
                page_dictionary_bytes: if page.has_dictionary { page.page_bytes } else { 0.0 },
                plan: Some(form.plan),
            };
        }
        geometry
    }

    /// Runs and prefixes contain integer codes of columns without NULLs.
    fn can_abstract(&self, column: usize) -> bool {
        let form = self.forms.dense(column);
        let statistics = &self.statistics.columns[column];
        let codes = form.plan.transform == Transform::Dictionary;
        statistics.nulls == 0.0 && (statistics.kind == freestone_codec::Kind::Int || codes)
    }

    fn slotted(&mut self) -> GroupGeometry {
        let columns = self.group.columns.clone();
        let mut row_bytes = 16.0 + 4.0 + columns.len().div_ceil(8) as f64;
        for column in &columns {
            let form = self.statistics.slotted_form(*column);
            let statistics = &self.statistics.columns[*column];
            row_bytes += form.fixed_bytes + form.text_bytes;
            self.layout.columns[*column] = StoredColumn {
                group: self.at,
                family: of_slotted(statistics.kind),
                parameter: if statistics.is_text() { statistics.width } else { form.fixed_bytes * 8.0 },
                bytes: form.fixed_bytes + form.text_bytes,
                shared_bytes: 0.0,
                page_dictionary_bytes: 0.0,
                plan: None,
            };
        }
        self.geometry(Form::Slotted, row_bytes, 4.0, FILL)
    }
}
