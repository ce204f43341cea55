//! Whether the rows satisfy declared keys: whether keys are unique, and whether each reference has its row. For keys
//! that nothing enforces, the rows are read once per state of the tables, and the result is cached.

use std::collections::HashSet;
use std::sync::Arc;

use super::resolve::{read_columns, value_at};
use crate::column::{ColumnData, Physical};
use crate::error::Result;
use crate::scan::{ScanRequest, for_each_batch};
use crate::table::{KeyMap, Table};

/// If the span of the values is at most this many times their number, they are marked in a bitmap (at most 8 bytes per
/// value). Otherwise they are sorted.
const SPARSE: i128 = 64;

/// Whether no value of a column, except NULL, occurs twice.
///
/// # Errors
/// The column cannot be read.
pub fn is_unique(table: &Arc<Table>, column: usize) -> Result<bool> {
    if table.schema.enforced_key(std::slice::from_ref(&table.schema.columns[column].name)).is_some() {
        return Ok(true);
    }
    table.answer(vec![table.column_state(column)], || Ok(no_value_twice(&read_columns(table, &[column])?[0])))
}

/// Whether every value of a column, except NULL, is in the other table's column, which must have the same type. Always
/// false for floats.
///
/// # Errors
/// One of the columns cannot be read.
pub fn references(table: &Arc<Table>, column: usize, to: &Arc<Table>, key: usize) -> Result<bool> {
    let (name, referenced) = (&table.schema.columns[column].name, &to.schema.columns[key].name);
    let is_enforced = table.schema.foreign_keys.iter().any(|foreign| {
        let is_of = foreign.columns.as_slice() == std::slice::from_ref(name);
        let is_to = foreign.table == to.name && foreign.referenced.as_slice() == std::slice::from_ref(referenced);
        foreign.enforced && is_of && is_to
    });
    if is_enforced {
        return Ok(true);
    }
    let types = (&table.schema.columns[column].data_type, &to.schema.columns[key].data_type);
    if types.0 != types.1 || types.0.is_floating() {
        return Ok(false);
    }
    table.answer(vec![table.column_state(column), to.column_state(key)], || {
        let keys = &read_columns(to, &[key])?[0];
        let known = KeyMap::new(keys, &vec![0; keys.len()]);
        let mut all = true;
        let request = Arc::new(ScanRequest::columns(vec![column]));
        let check = |batch: arrow_array::RecordBatch| {
            let values = ColumnData::from_arrays([batch.column(0)], types.0);
            all = all && (0..values.len()).all(|row| !values.is_valid(row) || known.of_row(&values, row).is_some());
            Ok(())
        };
        for_each_batch(table, request, |_| true, check)?;
        Ok(all)
    })
}

fn no_value_twice(column: &ColumnData) -> bool {
    let mut rows = (0..column.len()).filter(|row| column.is_valid(*row));
    let Physical::Int(values) = &column.values else {
        let mut seen = HashSet::new();
        return rows.all(|row| seen.insert(value_at(column, row)));
    };
    let (low, high) = rows.clone().fold((i64::MAX, i64::MIN), |(l, h), r| (l.min(values[r]), h.max(values[r])));
    let span = i128::from(high) - i128::from(low) + 1;
    if span > SPARSE * column.len() as i128 {
        let mut values: Vec<i64> = rows.map(|row| values[row]).collect();
        values.sort_unstable();
        return values.windows(2).all(|pair| pair[0] != pair[1]);
    }
    let mut seen = vec![0u64; span.max(0) as usize / 64 + 1];
    rows.all(|row| {
        let at = values[row].wrapping_sub(low) as usize;
        let (word, bit) = (&mut seen[at / 64], 1 << (at % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[Option<i64>]) -> ColumnData {
        let validity = values
            .chunks(64)
            .map(|word| word.iter().enumerate().fold(0, |bits, (at, value)| bits | u64::from(value.is_some()) << at));
        ColumnData {
            values: Physical::Int(values.iter().map(|v| v.unwrap_or(7)).collect()),
            validity: Some(validity.collect()),
        }
    }

    #[test]
    fn finds_values_that_come_twice() {
        let far = [i64::MIN, i64::MAX, 0, -1, 1];
        let close: Vec<Option<i64>> = (0..1000).map(|i| Some(i * 37 % 1000 - 500)).collect();
        for distinct in [vec![], vec![None, None], far.map(Some).to_vec(), close] {
            assert!(no_value_twice(&column(&distinct)), "{distinct:?}");
            for again in distinct.iter().flatten() {
                let mut doubled = distinct.clone();
                doubled.push(Some(*again));
                assert!(!no_value_twice(&column(&doubled)), "{again} twice");
            }
        }
    }
}
