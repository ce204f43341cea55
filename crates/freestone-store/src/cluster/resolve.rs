//! From the paths of a design to codes: the tables and rows that a path leads to, the levels of their attribute, and
//! the code of every key.
//!
//! The codes of referenced rows are not stored, because they follow from the referenced tables. A segment names these with
//! the last commit that changed their rows. While that commit is the last, codes are computed from the tables, once per
//! process; afterwards the dimension prunes nothing until VACUUM. Stored codes would stay valid for longer, but would be
//! one more file to keep true.

use std::collections::HashMap;
use std::sync::Arc;

use freestone_codec::Kind;

use super::integrity::is_unique;
use super::{BitOrder, Interleave, KEY_BITS};
use crate::column::ColumnData;
use crate::design::{Design, DimensionPath};
use crate::error::{Result, StoreError};
use crate::nested::is_flat;
use crate::scan::{ScanRequest, for_each_batch};
use crate::schema::{TableSchema, kind};
use crate::segment::bins::{Bins, MAX_DISTINCT, Value};
use crate::segment::clustering::{DimensionDescription, SegmentDimension};
use crate::segment::zones::{Bounds, IntBounds, ZoneMap};
use crate::sort::sort_order;
use crate::table::{KeyMap, Table};

/// Finds tables by name, in one snapshot or transaction.
pub type Tables<'a> = &'a dyn Fn(&str) -> Option<Arc<Table>>;

/// The maximum number of rows, evenly spread, from which a dimension's bins are computed.
const SAMPLE_ROWS: usize = 1 << 20;
/// The minimum number of rows per key, if their number is known: half a zone.
const GROUP_ROWS: u64 = 1024;
/// The bits of the key if the number of rows is unknown.
const DEFAULT_KEY_BITS: u32 = 14;

/// One step along a foreign key.
#[derive(Debug, Clone)]
pub struct Hop {
    /// The foreign-key column, in the previous table.
    pub column: usize,
    /// The referenced table.
    pub table: Arc<Table>,
    /// The referenced column.
    pub key: usize,
}

/// The resolved path of a dimension.
#[derive(Debug, Clone)]
pub struct Route {
    /// The foreign keys to follow, in order.
    pub hops: Vec<Hop>,
    /// The position of the attribute in the last table.
    pub attribute: usize,
}

impl Route {
    /// The route to the attribute of a segment's dimension. `None` if the path's tables have changed since, or no
    /// longer exist: their rows may have other codes now.
    pub fn of(tables: Tables<'_>, table: &Table, dimension: &SegmentDimension) -> Option<Route> {
        let description = &dimension.description;
        let mut route = Route::find(tables, &table.schema, &description.path).ok()?;
        let last = route.hops.last().map_or(&table.schema, |hop| &hop.table.schema);
        route.attribute = last.index_of(&description.attribute).ok()?;
        (route.tables() == description.tables).then_some(route)
    }

    /// Whether every key on the route is unique. Keys are declared and not enforced. A row that was added later with an
    /// existing key may have another code than the row that was found first.
    ///
    /// # Errors
    /// A column of keys cannot be read.
    pub fn has_unique_keys(&self) -> Result<bool> {
        for hop in &self.hops {
            if !is_unique(&hop.table, hop.key)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn find(tables: Tables<'_>, schema: &TableSchema, path: &DimensionPath) -> Result<Route> {
        let invalid = |what: String| StoreError::invalid(format!("cluster = '{path}': {what}"));
        let mut hops: Vec<Hop> = vec![];
        let (attribute, keys) = path.names.split_last().ok_or_else(|| invalid("it names no column".into()))?;
        for name in keys {
            let from = hops.last().map_or(schema, |hop| &hop.table.schema);
            let column = from.index_of(name).map_err(|e| invalid(e.to_string()))?;
            let declared = from.foreign_keys.iter().find(|k| k.columns.len() == 1 && k.columns[0] == *name);
            let declared = declared.ok_or_else(|| {
                invalid(format!("column {name} has no foreign key; declare FOREIGN KEY ({name}) REFERENCES … (…)"))
            })?;
            let table = tables(&declared.table)
                .ok_or_else(|| invalid(format!("{name} references table {}, which does not exist", declared.table)))?;
            let referenced = declared.referenced.first().or(table.schema.primary_key.first());
            let referenced = referenced.ok_or_else(|| invalid(format!("table {} has no primary key", table.name)))?;
            let key = table.schema.index_of(referenced).map_err(|e| invalid(e.to_string()))?;
            hops.push(Hop { column, table, key });
        }
        let last = hops.last().map_or(schema, |hop| &hop.table.schema);
        let attribute = last.index_of(attribute).map_err(|e| invalid(e.to_string()))?;
        Ok(Route { hops, attribute })
    }

    fn tables(&self) -> Vec<(u64, u64)> {
        self.hops.iter().map(|hop| (hop.table.id, hop.table.changed)).collect()
    }

    /// The code of every key of the first referenced table.
    fn codes(&self, attribute: usize, bins: &Bins) -> Result<Option<KeyMap>> {
        let mut map: Option<KeyMap> = None;
        for (at, hop) in self.hops.iter().enumerate().rev() {
            let onward = self.hops.get(at + 1).map_or(attribute, |next| next.column);
            let columns = read_columns(&hop.table, &[hop.key, onward])?;
            let codes = match &map {
                None => codes_of_values(&columns[1], bins),
                Some(map) => map.codes(&columns[1], bins.null_code()),
            };
            map = Some(KeyMap::new(&columns[0], &codes));
        }
        Ok(map)
    }
}

/// The codes of keys for scans: of one dimension of one segment, while its codes are valid.
#[derive(Debug)]
pub struct DimensionCodes {
    /// The foreign-key column, or the attribute if it belongs to the table itself.
    pub column: usize,
    /// `None` if the column is the attribute.
    pub keys: Option<Arc<KeyMap>>,
}

impl DimensionCodes {
    /// `None` if keys have no unique code, because rows of the path's tables have changed or keys are not unique.
    ///
    /// # Errors
    /// A table on the path cannot be read.
    pub fn of(tables: Tables<'_>, table: &Table, dimension: &SegmentDimension) -> Result<Option<Self>> {
        let Some(route) = Route::of(tables, table, dimension) else { return Ok(None) };
        let Some(hop) = route.hops.first() else {
            return Ok(Some(DimensionCodes { column: route.attribute, keys: None }));
        };
        if !route.has_unique_keys()? {
            return Ok(None);
        }
        let keys =
            table.key_map(dimension.fingerprint, &route.hops.iter().map(|h| &h.table).collect::<Vec<_>>(), || {
                Ok(route.codes(route.attribute, &dimension.bins)?.unwrap_or(KeyMap::Ints(HashMap::new())))
            })?;
        Ok(Some(DimensionCodes { column: hop.column, keys: Some(keys) }))
    }
}

/// A dimension while rows are written.
#[derive(Debug)]
struct Dimension {
    description: DimensionDescription,
    /// The foreign-key column, or the attribute.
    column: usize,
    /// Codes of the referenced keys. `None` if the attribute belongs to the table itself.
    keys: Option<Arc<KeyMap>>,
    /// Known from the start, except for attributes of the table itself: the first rows determine their bins.
    bins: Option<Arc<Bins>>,
}

/// Computes the keys of rows, and the description in the footer.
#[derive(Debug)]
pub struct Clustering {
    dimensions: Vec<Dimension>,
    order: BitOrder,
    expected_rows: Option<u64>,
    allow_missing: bool,
}

impl Clustering {
    /// Follows the paths of a table's design. `rewritten`: the number of rows that are written again, or `None` for new
    /// rows. The numberings of the table's segments are reused, so that equal codes have the same meaning, unless all
    /// rows are written again. Rows that were clustered before may have lost the rows that they reference.
    ///
    /// # Errors
    /// A path is invalid, or a table on it cannot be read.
    pub fn new(tables: Tables<'_>, table: &Table, design: &Design, rewritten: Option<u64>) -> Result<Self> {
        let earlier = if rewritten == Some(table.rows()) { vec![] } else { earlier_dimensions(table)? };
        let was_clustered = design.cluster == table.design.cluster && !table.segments.is_empty();
        let allow_missing = design.cluster_missing || rewritten.is_some() && was_clustered;
        let dimensions = design.cluster.iter().map(|path| {
            let route = Route::find(tables, &table.schema, path)?;
            let known = earlier.iter().find(|d| d.description.path == *path && d.description.tables == route.tables());
            dimension(path, &route, known)
        });
        let (dimensions, order) = (dimensions.collect::<Result<_>>()?, design.interleave.clone());
        Ok(Clustering { dimensions, order, expected_rows: rewritten, allow_missing })
    }

    /// The keys of rows, whose columns are in the table's order. The first rows determine the bins that are still open.
    ///
    /// # Errors
    /// A foreign key has no referenced row and the design does not allow that.
    pub fn keys(&mut self, columns: &[ColumnData]) -> Result<Vec<i64>> {
        let codes = self.codes(columns)?;
        let interleave = self.interleave();
        let rows = columns.first().map_or(0, ColumnData::len);
        Ok((0..rows).map(|row| interleave.key(|dimension| codes[dimension][row]) as i64).collect())
    }

    /// The codes of rows in each dimension.
    fn codes(&mut self, columns: &[ColumnData]) -> Result<Vec<Vec<u32>>> {
        for dimension in self.dimensions.iter_mut().filter(|d| d.bins.is_none()) {
            let tuples = distinct_values(&columns[dimension.column]);
            dimension.bins = Some(Arc::new(Bins::of_tuples(&tuples, dimension.description.path.bits)));
        }
        self.dimensions.iter().map(|d| d.codes(columns, self.allow_missing)).collect()
    }

    fn interleave(&self) -> Interleave {
        let bits = self.expected_rows.map_or(DEFAULT_KEY_BITS, key_bits);
        let widths: Vec<u32> = self.dimensions.iter().map(|d| d.bins.as_ref().map_or(1, |b| b.width())).collect();
        // A design has no pattern of dimensions that it does not have.
        Interleave::ordered(&widths, bits, &self.order).unwrap_or_else(|_| Interleave::new(&widths, bits))
    }

    /// The smallest and largest of ascending keys, in a form that is comparable between key lengths.
    pub fn key_range(&self, keys: &[i64]) -> Option<(u64, u64)> {
        let shift = KEY_BITS - 1 - self.interleave().bits();
        Some(((*keys.first()? as u64) << shift, (*keys.last()? as u64) << shift | ((1u64 << shift) - 1)))
    }

    /// The dimensions of a segment whose rows have these ascending keys.
    pub fn describe(&self, keys: &[i64], zone_rows: usize) -> Vec<SegmentDimension> {
        let interleave = self.interleave();
        let zones_of = |dimension: usize| {
            let zone = |keys: &[i64]| {
                // The rows of a group have the same key.
                let groups = keys.chunk_by(|a, b| a == b);
                let codes = groups.map(|group| interleave.codes(group[0] as u64, dimension));
                let (min, max) = codes.fold((u32::MAX, 0), |(l, h), (low, high)| (l.min(low), h.max(high)));
                Some(IntBounds { min: min.into(), max: max.into(), sum: None })
            };
            let bounds: Vec<_> = keys.chunks(zone_rows).map(zone).collect();
            ZoneMap::new(vec![0; bounds.len()], Bounds::Int(bounds))
        };
        let described = self.dimensions.iter().enumerate().filter_map(|(at, dimension)| {
            let bins = dimension.bins.clone()?;
            Some(SegmentDimension::new(dimension.description.clone(), bins, zones_of(at)))
        });
        described.collect()
    }
}

impl Dimension {
    fn codes(&self, columns: &[ColumnData], allow_missing: bool) -> Result<Vec<u32>> {
        let column = &columns[self.column];
        let bins = self.bins.as_ref().expect("the first rows gave every dimension its bins");
        let Some(keys) = &self.keys else { return Ok(codes_of_values(column, bins)) };
        let missing = |row: usize| column.is_valid(row) && keys.of_row(column, row).is_none();
        if !allow_missing && let Some(row) = (0..column.len()).find(|row| missing(*row)) {
            let value = match column.int_at(row) {
                Some(number) => number.to_string(),
                None => String::from_utf8_lossy(column.bytes(row)).into_owned(),
            };
            let path = &self.description.path;
            return Err(StoreError::Constraint(format!(
                "{} = {value} has no row in the table that it references, so that '{path}' is not known; load that table \
                 first, or set cluster_missing = 'null' to take such rows",
                path.names[0]
            )));
        }
        Ok(keys.codes(column, bins.null_code()))
    }
}

/// The number of bits of the key for `rows` rows.
pub fn key_bits(rows: u64) -> u32 {
    // One bit of the word remains for the sign, because keys are sorted as integers.
    ((rows / GROUP_ROWS).max(1).ilog2() + 1).min(KEY_BITS - 1)
}

/// The codes of one dimension for rows of a table, whose columns are in the table's order, and the number of bits of a
/// code. Rows without a referenced row have the code of NULL.
///
/// # Errors
/// The path is invalid, or a table on it cannot be read.
pub fn codes_of_path(
    tables: Tables<'_>,
    table: &Table,
    path: &DimensionPath,
    columns: &[ColumnData],
) -> Result<(Vec<u32>, u32)> {
    let design = Design { cluster: vec![path.clone()], cluster_missing: true, ..table.design.clone() };
    let mut clustering = Clustering::new(tables, table, &design, None)?;
    let codes = clustering.codes(columns)?.pop().unwrap_or_default();
    let width = clustering.dimensions.first().and_then(|d| d.bins.as_ref()).map_or(1, |bins| bins.width());
    Ok((codes, width))
}

/// Whether the rows of a table are in the order of its design's dimensions, as one run with valid codes.
pub(crate) fn is_clustered(tables: Tables<'_>, table: &Table) -> Result<bool> {
    let mut last = None;
    for at in (0..table.segments.len()).filter(|at| !table.segments[*at].is_in_pool()) {
        let segment = table.open_segment(at)?;
        let dimensions = &segment.footer.dimensions;
        if !dimensions.iter().map(|d| &d.description.path).eq(&table.design.cluster) {
            return Ok(false);
        }
        for dimension in dimensions {
            // A path that no longer exists cannot be followed again. Its codes remain.
            let Ok(route) = Route::find(tables, &table.schema, &dimension.description.path) else { return Ok(true) };
            if route.tables() != dimension.description.tables {
                return Ok(false);
            }
        }
        let range = segment.footer.description.cluster_keys;
        if range.is_none() || range.map(|(first, _)| first) < last {
            return Ok(false);
        }
        last = range.map(|(_, last)| last);
    }
    Ok(true)
}

/// The dimensions of the table's last clustered segment.
fn earlier_dimensions(table: &Table) -> Result<Vec<SegmentDimension>> {
    for at in (0..table.segments.len()).rev() {
        let segment = table.open_segment(at)?;
        if !segment.footer.dimensions.is_empty() {
            return Ok(segment.footer.dimensions.clone());
        }
    }
    Ok(vec![])
}

fn dimension(path: &DimensionPath, route: &Route, known: Option<&SegmentDimension>) -> Result<Dimension> {
    let Some(first) = route.hops.first() else {
        let name = path.names.last().cloned().unwrap_or_default();
        let description =
            DimensionDescription { path: path.clone(), attribute: name.clone(), levels: vec![name], tables: vec![] };
        return Ok(Dimension { description, column: route.attribute, keys: None, bins: known.map(|k| k.bins.clone()) });
    };
    let last = route.hops.last().unwrap_or(first);
    let (levels, bins) = match known {
        Some(known) => (known.description.levels.clone(), known.bins.clone()),
        None => {
            let levels = levels(&last.table, route.attribute, last.key)?;
            let columns = read_columns(&last.table, &levels)?;
            let bins = Bins::of_tuples(&distinct_tuples(&columns), path.bits);
            let names = levels.iter().map(|c| last.table.schema.columns[*c].name.clone());
            (names.collect::<Vec<_>>(), Arc::new(bins))
        }
    };
    let finest = levels.last().cloned().unwrap_or_default();
    let attribute = last.table.schema.index_of(&finest)?;
    let keys = route.codes(attribute, &bins)?.map(Arc::new);
    let description = DimensionDescription { path: path.clone(), attribute: finest, levels, tables: route.tables() };
    Ok(Dimension { description, column: first.column, keys, bins: Some(bins) })
}

/// The hierarchy of an attribute, coarsest level first: the columns that it determines, and the columns that determine
/// it. So region, nation and city are found from the data, whichever of them the path names.
fn levels(table: &Arc<Table>, attribute: usize, key: usize) -> Result<Vec<usize>> {
    let schema = &table.schema;
    let few = |column: usize| -> Result<bool> {
        let known =
            (0..table.segments.len()).map(|at| Ok(table.open_segment(at)?.footer.description.columns[column].distinct));
        Ok(known.collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0) <= MAX_DISTINCT as u64)
    };
    let mut candidates = vec![attribute];
    for column in (0..schema.columns.len()).filter(|c| *c != attribute && *c != key) {
        let data_type = &schema.columns[column].data_type;
        let fits = matches!(kind(data_type), Kind::Int | Kind::Bytes) && is_flat(data_type);
        if fits && few(column)? {
            candidates.push(column);
        }
    }
    let data = read_columns(table, &candidates)?;
    let mut numbered: Vec<NumberedValues> =
        data.iter().zip(&candidates).map(|(d, column)| NumberedValues::of(d, *column)).collect();
    let own = numbered.swap_remove(0);
    if own.distinct > MAX_DISTINCT {
        return Ok(vec![attribute]);
    }
    // Of equivalent columns, numbers come first, because their order has a meaning.
    numbered.sort_by_key(|n| (n.distinct, kind(&schema.columns[n.column].data_type) == Kind::Bytes));
    let ordered = kind(&schema.columns[attribute].data_type) != Kind::Bytes;
    let mut coarser: Vec<&NumberedValues> = vec![];
    for n in numbered.iter().rev().filter(|n| n.distinct > 1 && !n.has_nulls) {
        let finer = coarser.last().copied().unwrap_or(&own);
        if n.distinct < finer.distinct && finer.determines(n) && (!ordered || n.is_monotone_in(&data[0])) {
            coarser.push(n);
        }
    }
    let rows = own.numbers.len();
    let mut levels: Vec<usize> = coarser.iter().rev().map(|n| n.column).chain([attribute]).collect();
    let mut finest = &own;
    for n in numbered.iter().filter(|n| !n.has_nulls && n.distinct * 2 <= rows) {
        if n.distinct > finest.distinct && n.determines(finest) {
            levels.push(n.column);
            finest = n;
        }
    }
    Ok(levels)
}

/// A column's values, numbered in order of first appearance.
struct NumberedValues {
    column: usize,
    numbers: Vec<u32>,
    distinct: usize,
    has_nulls: bool,
}

impl NumberedValues {
    fn of(data: &ColumnData, column: usize) -> Self {
        let mut known: HashMap<Option<Value>, u32> = HashMap::new();
        let mut numbers = Vec::with_capacity(data.len());
        for row in 0..data.len() {
            let next = known.len() as u32;
            numbers.push(*known.entry(value_at(data, row)).or_insert(next));
        }
        NumberedValues { column, numbers, distinct: known.len(), has_nulls: known.contains_key(&None) }
    }

    /// Whether each of these values occurs with only one value of the other column.
    fn determines(&self, other: &NumberedValues) -> bool {
        let mut seen = vec![u32::MAX; self.distinct];
        self.numbers.iter().zip(&other.numbers).all(|(own, theirs)| {
            let first = &mut seen[*own as usize];
            if *first == u32::MAX {
                *first = *theirs;
            }
            first == theirs
        })
    }

    /// Whether each value covers one contiguous range of the other column's order.
    fn is_monotone_in(&self, data: &ColumnData) -> bool {
        let order = sort_order(&[data]);
        let changes = order.windows(2).filter(|w| self.numbers[w[0] as usize] != self.numbers[w[1] as usize]).count();
        changes < self.distinct
    }
}

/// The distinct tuples of columns, ascending, with the number of their rows. Rows with NULLs are omitted. The last
/// column determines the tuple.
fn distinct_tuples(columns: &[ColumnData]) -> Vec<(Vec<Value>, u64)> {
    let Some(finest) = columns.last() else { return vec![] };
    let mut found: HashMap<Value, (usize, u64)> = HashMap::new();
    for row in 0..finest.len() {
        if let Some(value) = value_at(finest, row) {
            found.entry(value).or_insert((row, 0)).1 += 1;
        }
    }
    let tuple = |row: usize| columns.iter().map(|c| value_at(c, row)).collect::<Option<Vec<_>>>();
    let mut tuples: Vec<_> = found.values().filter_map(|(row, count)| Some((tuple(*row)?, *count))).collect();
    tuples.sort();
    tuples
}

/// The distinct values of a column of the table itself, from a sample if there are many rows.
fn distinct_values(column: &ColumnData) -> Vec<(Vec<Value>, u64)> {
    let step = column.len().div_ceil(SAMPLE_ROWS).max(1);
    if step == 1 {
        return distinct_tuples(std::slice::from_ref(column));
    }
    let sample: Vec<u32> = (0..column.len() as u32).step_by(step).collect();
    distinct_tuples(&[column.permute(&sample)])
}

fn codes_of_values(column: &ColumnData, bins: &Bins) -> Vec<u32> {
    let code = |row: usize| match column.int_at(row) {
        _ if !column.is_valid(row) => bins.null_code(),
        Some(number) => bins.code_of_int(number),
        None => bins.code_of_bytes(column.bytes(row)),
    };
    (0..column.len()).map(code).collect()
}

pub(crate) fn value_at(column: &ColumnData, row: usize) -> Option<Value> {
    if !column.is_valid(row) {
        return None;
    }
    Some(column.int_at(row).map_or_else(|| Value::Bytes(column.bytes(row).to_vec()), Value::Int))
}

/// All rows of some columns of a table, except deleted rows.
pub(super) fn read_columns(table: &Arc<Table>, columns: &[usize]) -> Result<Vec<ColumnData>> {
    // A scan gives each column once.
    let mut wanted = columns.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    let request = Arc::new(ScanRequest::columns(wanted.clone()));
    let mut batches = vec![];
    for_each_batch(
        table,
        request,
        |_| true,
        |batch| {
            batches.push(batch);
            Ok(())
        },
    )?;
    let column = |column: &usize| {
        let at = wanted.binary_search(column).expect("every column asked for was read");
        ColumnData::from_arrays(batches.iter().map(|b| b.column(at)), &table.schema.columns[*column].data_type)
    };
    Ok(columns.iter().map(column).collect())
}
