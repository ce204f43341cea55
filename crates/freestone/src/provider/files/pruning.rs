//! Pruning of row groups and pages: by bounds, by Bloom filters, and by the values in folder names.
//!
//! DataFusion's pruning predicate converts filters to predicates on bounds. It gets the bounds of [`super::bounds`].

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Column;
use datafusion::common::pruning::PruningStatistics;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::scalar::ScalarValue;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::basic::Type as PhysicalType;
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use super::bounds::{Bounds, End};
use super::set::{ColumnSource, SetFile};
use crate::ingest::{FileChunks, ParquetFile};

/// Filters as predicates on bounds. Filters that cannot be converted prune nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Pruning {
    predicates: Vec<Arc<PruningPredicate>>,
}

impl Pruning {
    /// The pruning for filters on the table's columns.
    pub fn new<'a>(filters: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>, schema: &SchemaRef) -> Self {
        let build = |filter: &Arc<dyn PhysicalExpr>| {
            let predicate =
                PruningPredicateBuilder::new().with_file_schema(schema.clone()).try_build(filter.clone()).ok()?;
            (!predicate.always_true()).then(|| Arc::new(predicate))
        };
        Self { predicates: filters.into_iter().filter_map(build).collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.predicates.is_empty()
    }

    /// Which parts may have rows that pass.
    fn kept(&self, statistics: &dyn PruningStatistics) -> Vec<bool> {
        let mut kept = vec![true; statistics.num_containers()];
        for predicate in &self.predicates {
            // A filter that fails on bounds prunes nothing. If it fails on rows, the scan reports that.
            if let Ok(one) = predicate.prune(statistics) {
                kept.iter_mut().zip(one).for_each(|(kept, one)| *kept &= one);
            }
        }
        kept
    }

    /// The row groups of a file that may have rows that pass, by their bounds.
    pub fn groups(&self, file: &SetFile, parquet: &ParquetFile, schema: &SchemaRef, groups: Vec<usize>) -> Vec<usize> {
        if self.is_empty() || groups.is_empty() {
            return groups;
        }
        let statistics = GroupStatistics { file, parquet, schema, groups: &groups, bloom: None };
        let kept = self.kept(&statistics);
        groups.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(group, _)| group).collect()
    }

    /// Whether a row group may have rows that pass, by its bounds and Bloom filters.
    pub fn keeps(
        &self,
        file: &SetFile,
        parquet: &ParquetFile,
        schema: &SchemaRef,
        group: usize,
        chunks: Option<&FileChunks>,
    ) -> bool {
        if self.is_empty() {
            return true;
        }
        let statistics = GroupStatistics { file, parquet, schema, groups: &[group], bloom: chunks };
        self.kept(&statistics).first().copied().unwrap_or(true)
    }

    /// Whether a file without bounds may have rows that pass, by the values in its folder names.
    pub fn keeps_file(&self, file: &SetFile, schema: &SchemaRef) -> bool {
        self.is_empty() || self.kept(&FolderStatistics { file, schema }).first().copied().unwrap_or(true)
    }

    /// The rows of a row group in pages that may have rows that pass; `None` if these are all rows.
    pub fn pages(
        &self,
        file: &SetFile,
        parquet: &ParquetFile,
        schema: &SchemaRef,
        indexed: &ParquetMetaData,
        group: usize,
    ) -> Option<RowSelection> {
        let rows = usize::try_from(indexed.row_group(group).num_rows()).ok()?;
        let mut selected: Option<RowSelection> = None;
        for predicate in &self.predicates {
            // Pages of different columns end at different rows, so each predicate must be on one column.
            let Some(column) = predicate.required_columns().single_column() else { continue };
            let Ok(at) = schema.index_of(column.name()) else { continue };
            let ColumnSource::Stored(place) = file.columns[at] else { continue };
            let Some(bounds) = Bounds::of(parquet, place, schema.field(at).data_type()) else { continue };
            let Some(row_counts) = parquet.leaf(place).and_then(|leaf| page_rows(indexed, group, leaf, rows)) else {
                continue;
            };
            let statistics = PageStatistics { bounds, indexed, group, row_counts: &row_counts };
            let Ok(kept) = predicate.prune(&statistics) else { continue };
            if kept.len() != row_counts.len() || kept.iter().all(|kept| *kept) {
                continue;
            }
            let selectors = row_counts.iter().zip(kept).map(|(rows, kept)| match kept {
                true => RowSelector::select(*rows),
                false => RowSelector::skip(*rows),
            });
            let one = RowSelection::from(selectors.collect::<Vec<_>>());
            selected = Some(match selected {
                Some(before) => before.intersection(&one),
                None => one,
            });
        }
        selected
    }
}

/// The rows of each page of a column, if the page index agrees with the row group.
fn page_rows(indexed: &ParquetMetaData, group: usize, leaf: usize, rows: usize) -> Option<Vec<usize>> {
    let locations = indexed.offset_index()?.get(group)?.get(leaf)?.page_locations();
    let starts: Vec<usize> =
        locations.iter().map(|page| usize::try_from(page.first_row_index).ok()).collect::<Option<_>>()?;
    let is_ordered = starts.first() == Some(&0) && starts.windows(2).all(|pair| pair[0] < pair[1]);
    if !is_ordered || starts.last().is_none_or(|last| *last >= rows) {
        return None;
    }
    let ends = starts[1..].iter().copied().chain([rows]);
    Some(starts.iter().zip(ends).map(|(start, end)| end - start).collect())
}

/// A file's metadata with its page index; `None` if it has none that can be read.
pub(super) fn with_page_index(parquet: &ParquetFile, chunks: &FileChunks) -> Option<Arc<ParquetMetaData>> {
    let plain = parquet.metadata().metadata();
    let has_index = |group: &parquet::file::metadata::RowGroupMetaData| {
        group.columns().iter().any(|column| column.column_index_offset().is_some())
    };
    if !plain.row_groups().iter().any(has_index) {
        return None;
    }
    let read = || {
        let reader = ParquetMetaDataReader::new_with_metadata(plain.as_ref().clone());
        let mut reader = reader.with_page_index_policy(PageIndexPolicy::Optional);
        reader.read_page_indexes(chunks).ok()?;
        reader.finish().ok()
    };
    // The index is optional. If the file is damaged, reading its rows reports that.
    let indexed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).ok().flatten()?;
    Some(Arc::new(indexed))
}

/// The values in folder names, as bounds: one value for `parts` parts.
fn named(value: &ScalarValue, parts: usize) -> Option<ArrayRef> {
    if value.is_null() { None } else { value.to_array_of_size(parts).ok() }
}

fn nulls_of(value: &ScalarValue, rows: &[u64]) -> ArrayRef {
    let nulls = rows.iter().map(|rows| if value.is_null() { *rows } else { 0 });
    Arc::new(nulls.collect::<UInt64Array>())
}

struct GroupStatistics<'a> {
    file: &'a SetFile,
    parquet: &'a ParquetFile,
    schema: &'a SchemaRef,
    groups: &'a [usize],
    /// The chunks from which Bloom filters are read.
    bloom: Option<&'a FileChunks>,
}

impl GroupStatistics<'_> {
    fn source(&self, column: &Column) -> Option<(&ColumnSource, &DataType)> {
        let at = self.schema.index_of(&column.name).ok()?;
        Some((&self.file.columns[at], self.schema.field(at).data_type()))
    }

    fn ends(&self, column: &Column, end: End) -> Option<ArrayRef> {
        let (source, table_type) = self.source(column)?;
        match source {
            ColumnSource::Stored(place) => Bounds::of(self.parquet, *place, table_type)?.of_groups(self.groups, end),
            ColumnSource::Value(value) => named(value, self.groups.len()),
            ColumnSource::Missing => None,
        }
    }

    fn rows(&self) -> Vec<u64> {
        let metadata = self.parquet.metadata().metadata();
        self.groups.iter().map(|group| u64::try_from(metadata.row_group(*group).num_rows()).unwrap_or(0)).collect()
    }
}

impl PruningStatistics for GroupStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.ends(column, End::Least)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.ends(column, End::Greatest)
    }

    fn num_containers(&self) -> usize {
        self.groups.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let (source, table_type) = self.source(column)?;
        match source {
            ColumnSource::Stored(place) => Bounds::of(self.parquet, *place, table_type)?.nulls_of_groups(self.groups),
            ColumnSource::Value(value) => Some(nulls_of(value, &self.rows())),
            ColumnSource::Missing => Some(Arc::new(UInt64Array::from(self.rows()))),
        }
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(self.rows())))
    }

    #[allow(clippy::mutable_key_type)]
    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let chunks = self.bloom?;
        let (ColumnSource::Stored(place), table_type) = self.source(column)? else { return None };
        if self.parquet.schema().field(*place).data_type() != table_type {
            return None;
        }
        let leaf = self.parquet.bounded_leaf(*place)?;
        let metadata = self.parquet.metadata().metadata();
        let may_hold = |group: &usize| {
            let column = metadata.row_group(*group).column(leaf);
            column.bloom_filter_offset()?;
            let read = || Sbbf::read_from_column_chunk(column, chunks).ok().flatten();
            let filter = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).ok().flatten()?;
            if filter.num_blocks() == 0 {
                return None;
            }
            // A value that cannot be looked up may be present.
            let held = values.iter().map(|value| holds(&filter, column.column_type(), table_type, value));
            held.collect::<Option<Vec<bool>>>().map(|held| held.contains(&true))
        };
        // A Bloom filter proves only the absence of a value.
        Some(self.groups.iter().map(|group| may_hold(group).filter(|may| !may)).collect())
    }
}

/// Whether a Bloom filter may contain a value; `None` if it cannot be tested.
fn holds(filter: &Sbbf, stored: PhysicalType, table_type: &DataType, value: &ScalarValue) -> Option<bool> {
    if value.is_null() {
        return Some(false);
    }
    let is_text = matches!(table_type, DataType::Utf8View);
    if !is_text && value.data_type() != *table_type {
        return None;
    }
    let int32 = |value: i32| (stored == PhysicalType::INT32).then(|| filter.check(&value));
    let int64 = |value: i64| (stored == PhysicalType::INT64).then(|| filter.check(&value));
    match value {
        ScalarValue::Int8(Some(v)) => int32(i32::from(*v)),
        ScalarValue::Int16(Some(v)) => int32(i32::from(*v)),
        ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) => int32(*v),
        ScalarValue::UInt8(Some(v)) => int32(i32::from(*v)),
        ScalarValue::UInt16(Some(v)) => int32(i32::from(*v)),
        ScalarValue::UInt32(Some(v)) => int32(v.cast_signed()),
        ScalarValue::Int64(Some(v)) => int64(*v),
        ScalarValue::UInt64(Some(v)) => int64(v.cast_signed()),
        ScalarValue::TimestampMillisecond(Some(v), _)
        | ScalarValue::TimestampMicrosecond(Some(v), _)
        | ScalarValue::TimestampNanosecond(Some(v), _) => int64(*v),
        // Zero has two signs, and NaN has many bit patterns.
        ScalarValue::Float32(Some(v)) if stored == PhysicalType::FLOAT && !v.is_nan() => {
            Some(filter.check(v) || *v == 0.0 && (filter.check(&0f32) || filter.check(&-0f32)))
        }
        ScalarValue::Float64(Some(v)) if stored == PhysicalType::DOUBLE && !v.is_nan() => {
            Some(filter.check(v) || *v == 0.0 && (filter.check(&0f64) || filter.check(&-0f64)))
        }
        ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)) => {
            (stored == PhysicalType::BYTE_ARRAY).then(|| filter.check(v.as_str()))
        }
        ScalarValue::Binary(Some(v)) | ScalarValue::BinaryView(Some(v)) | ScalarValue::LargeBinary(Some(v)) => {
            (stored == PhysicalType::BYTE_ARRAY).then(|| filter.check(v.as_slice()))
        }
        _ => None,
    }
}

struct PageStatistics<'a> {
    bounds: Bounds<'a>,
    indexed: &'a ParquetMetaData,
    group: usize,
    row_counts: &'a [usize],
}

impl PruningStatistics for PageStatistics<'_> {
    fn min_values(&self, _: &Column) -> Option<ArrayRef> {
        self.bounds.of_pages(self.indexed, self.group, End::Least)
    }

    fn max_values(&self, _: &Column) -> Option<ArrayRef> {
        self.bounds.of_pages(self.indexed, self.group, End::Greatest)
    }

    fn num_containers(&self) -> usize {
        self.row_counts.len()
    }

    fn null_counts(&self, _: &Column) -> Option<ArrayRef> {
        self.bounds.nulls_of_pages(self.indexed, self.group).filter(|counts| counts.len() == self.row_counts.len())
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.row_counts.iter().map(|rows| *rows as u64).collect::<UInt64Array>()))
    }

    #[allow(clippy::mutable_key_type)]
    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// A file of which only the values in its folder names are known.
struct FolderStatistics<'a> {
    file: &'a SetFile,
    schema: &'a SchemaRef,
}

impl FolderStatistics<'_> {
    fn value(&self, column: &Column) -> Option<&ScalarValue> {
        match &self.file.columns[self.schema.index_of(&column.name).ok()?] {
            ColumnSource::Value(value) => Some(value),
            _ => None,
        }
    }
}

impl PruningStatistics for FolderStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        named(self.value(column)?, 1)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        named(self.value(column)?, 1)
    }

    fn num_containers(&self) -> usize {
        1
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(nulls_of(self.value(column)?, &[1]))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(vec![1])))
    }

    #[allow(clippy::mutable_key_type)]
    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// The pruning of filters that change while the scan runs. It is recomputed after they have changed.
#[derive(Debug, Clone)]
pub(super) struct DynamicPruning {
    filters: Vec<Arc<dyn PhysicalExpr>>,
    generation: u64,
    current: Pruning,
}

impl DynamicPruning {
    pub fn new(filters: &[Arc<dyn PhysicalExpr>]) -> Self {
        Self { filters: filters.to_vec(), generation: u64::MAX, current: Pruning::default() }
    }

    /// The pruning for the current filters.
    pub fn current(&mut self, schema: &SchemaRef) -> Result<&Pruning> {
        let generation = self.filters.iter().fold(0u64, |sum, filter| sum.wrapping_add(snapshot_generation(filter)));
        if generation != self.generation {
            self.generation = generation;
            let now: Vec<_> = self.filters.iter().cloned().map(snapshot_physical_expr).collect::<Result<_>>()?;
            let conjuncts: Vec<_> =
                now.iter().flat_map(datafusion::physical_expr::split_conjunction).cloned().collect();
            self.current = Pruning::new(&conjuncts, schema);
        }
        Ok(&self.current)
    }
}
