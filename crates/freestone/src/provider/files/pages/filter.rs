//! The filters of a scan over the pages of a row group: what depends on one column is computed once per value of its
//! dictionary, and everything else for the rows that are left.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::Result;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;

use super::super::filters::{DynamicTest, Measured, mask_of};
use super::super::forms::over_forms;
use super::super::scan::Scan;
use super::column::{Content, Piece};
use crate::expressions::dictionary::per_string;
use crate::expressions::physical::remap;
use crate::expressions::pieces::searched;

/// The filters of a scan, for rows of the tested columns.
#[derive(Debug)]
pub(in super::super) struct PageFilter {
    /// By tested column.
    pub(super) singles: Vec<Single>,
    /// What depends on several columns.
    pub(super) others: Option<Arc<dyn PhysicalExpr>>,
    pub(super) dynamic: Vec<DynamicTest>,
    pub(super) measured: Arc<Measured>,
}

/// The filters of one column.
#[derive(Debug)]
pub(super) struct Single {
    /// Its place among the tested columns.
    pub column: usize,
    /// Over values of the table's type, as the only column.
    by_value: Arc<dyn PhysicalExpr>,
    value_type: DataType,
    /// Over arrays in which the column is read.
    by_array: Arc<dyn PhysicalExpr>,
    field: Field,
    known: Known,
}

/// What the values of the dictionary make of a filter.
#[derive(Debug)]
enum Known {
    NotYet,
    Passing(Passing),
    /// It fails for a value, which may be in no row that is left.
    Fails,
}

/// For each value whether rows with it pass, and whether NULL passes.
#[derive(Debug)]
struct Passing {
    values: Vec<bool>,
    null: bool,
}

impl PageFilter {
    /// The filters of a scan for batches of its tested columns, if there are any.
    ///
    /// # Errors
    /// A filter cannot be rebuilt.
    pub fn of(scan: &Scan) -> Result<Option<Self>> {
        let (filters, tested) = (&scan.filters, scan.tested.as_slice());
        if filters.is_empty() {
            return Ok(None);
        }
        let (table, read, measured) = (&scan.set.schema, &scan.read, scan.measured.clone());
        let place = |column: usize| tested.iter().position(|tested| *tested == column).unwrap_or(usize::MAX);
        let (planned, read) = (table.project(tested)?, read.project(tested)?);
        let (mut by_column, mut others) = (vec![vec![]; tested.len()], vec![]);
        for filter in &filters.own {
            let filter = remap(filter, place)?;
            let mut columns = collect_columns(&filter).into_iter().map(|column| column.index());
            match (columns.next(), columns.next()) {
                (Some(column), None) if !is_volatile(&filter) => by_column[column].push(filter),
                _ => others.push(per_string(over_forms(filter, &planned, &read)?, &read)?),
            }
        }
        let mut singles = vec![];
        for (column, filters) in by_column.into_iter().enumerate() {
            if filters.is_empty() {
                continue;
            }
            let (filter, field) = (remap(&conjunction(filters), |_| 0)?, read.field(column).clone());
            let (from, to) = (Schema::new(vec![planned.field(column).clone()]), Schema::new(vec![field.clone()]));
            let by_array = per_string(over_forms(filter.clone(), &from, &to)?, &to)?;
            let by_value = searched(filter)?;
            let value_type = planned.field(column).data_type().clone();
            singles.push(Single { column, by_value, value_type, by_array, field, known: Known::NotYet });
        }
        let others = (!others.is_empty()).then(|| conjunction(others));
        let dynamic = filters.dynamic.iter().map(|filter| DynamicTest::new(filter, tested, &planned, &read));
        Ok(Some(PageFilter { singles, others, dynamic: dynamic.collect::<Result<_>>()?, measured }))
    }

    /// Another row group begins, which has dictionaries of its own.
    pub fn begin_group(&mut self) {
        self.singles.iter_mut().for_each(|single| single.known = Known::NotYet);
    }
}

impl Single {
    /// The rows of `left` that pass, of a piece with codes. `values` makes the array of the dictionary's values, in the
    /// table's type. `None` if the piece has none, or the filter fails for a value.
    ///
    /// # Errors
    /// There is no dictionary.
    pub fn of_codes<E>(
        &mut self,
        piece: &Piece,
        left: Option<&[u32]>,
        values: impl FnOnce(&DataType) -> std::result::Result<ArrayRef, E>,
    ) -> std::result::Result<Option<Vec<u32>>, E> {
        let Content::Codes(codes) = &piece.content else { return Ok(None) };
        if let Known::NotYet = self.known {
            self.known = self.passing(&values(&self.value_type)?).map_or(Known::Fails, Known::Passing);
        }
        let Known::Passing(known) = &self.known else { return Ok(None) };
        let passes = |row: usize| known.values[codes[row] as usize];
        Ok(Some(match &piece.valid {
            None => kept(left, codes.len(), passes),
            Some(valid) => kept(left, codes.len(), |row| if valid[row] { passes(row) } else { known.null }),
        }))
    }

    /// What an array of the column's values makes of the filter; `None` if all pass.
    ///
    /// # Errors
    /// The filter fails for a value.
    pub fn of_array(&self, array: &ArrayRef) -> Result<Option<BooleanArray>> {
        mask_of(&self.by_array, &column_alone(array, &self.field)?)
    }

    fn passing(&self, values: &ArrayRef) -> Result<Passing> {
        let field = Field::new(self.field.name(), self.value_type.clone(), true);
        let mask = |array: &ArrayRef| -> Result<Vec<bool>> {
            let mask = mask_of(&self.by_value, &column_alone(array, &field)?)?;
            Ok((0..array.len()).map(|row| mask.as_ref().is_none_or(|mask| mask.value(row))).collect())
        };
        let null = mask(&new_null_array(&self.value_type, 1))?;
        Ok(Passing { values: mask(values)?, null: null.first() == Some(&true) })
    }
}

fn column_alone(array: &ArrayRef, field: &Field) -> Result<RecordBatch> {
    let field = field.clone().with_data_type(array.data_type().clone()).with_nullable(true);
    Ok(RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array.clone()])?)
}

/// The rows that pass, of those of `left` or of all.
pub(super) fn kept(left: Option<&[u32]>, rows: usize, passes: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut kept = vec![0; left.map_or(rows, <[u32]>::len)];
    let mut count = 0;
    match left {
        Some(left) => {
            for row in left {
                kept[count] = *row;
                count += usize::from(passes(*row as usize));
            }
        }
        None => {
            for row in 0..rows {
                kept[count] = row as u32;
                count += usize::from(passes(row));
            }
        }
    }
    kept.truncate(count);
    kept
}
