//! The Gen tables of Halverson et al. 2006, section 3.1.
//!
//! Gen_a_b_c has three levels: `a` values at the first, for each of them `b` at the second, and for each of those `c`
//! rows. A column counts 1, 2, 3, … within its level and starts again when a level to the left takes its next value. So
//! the table is sorted by its leading levels, which column abstraction stores once per run.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};

use super::{BATCH_ROWS, integer_batch, numbered_schema};

/// The schema of a Gen table: Int32 columns `a1`, `a2`, … as in the paper's Table 3.
pub fn schema(columns: usize) -> SchemaRef {
    numbered_schema("a", columns, &DataType::Int32)
}

/// The rows of Gen_{levels}, for example `&[200_000, 10, 4]` with 4 columns for the paper's Gen_200000_10_4.
///
/// Every level but the last has one column. The last has the other columns, which are equal. The paper uses 4, 8, 16
/// and 32 columns.
///
/// # Panics
/// If a level has no values, or there are fewer columns than levels.
pub fn table(levels: &[u32], columns: usize) -> impl Iterator<Item = RecordBatch> + Send + use<> {
    assert!(
        levels.iter().all(|values| (1..=i32::MAX as u32).contains(values)),
        "levels {levels:?}: each needs 1 to 2^31 - 1"
    );
    assert!((1..=columns).contains(&levels.len()), "{columns} columns cannot hold {} levels", levels.len());
    let schema = schema(columns);
    let periods = periods(levels, columns);
    let rows: usize = levels.iter().map(|values| *values as usize).product();
    (0..rows).step_by(BATCH_ROWS).map(move |start| {
        integer_batch(&schema, BATCH_ROWS.min(rows - start), |row, column| {
            let (rows_per_value, values) = periods[column];
            ((start + row) / rows_per_value % values) as i32 + 1
        })
    })
}

/// For each column: the number of rows of a value, and the number of values before it starts again.
fn periods(levels: &[u32], columns: usize) -> Vec<(usize, usize)> {
    let rows_below = |level: usize| levels[level + 1..].iter().map(|values| *values as usize).product();
    (0..columns)
        .map(|column| column.min(levels.len() - 1))
        .map(|level| (rows_below(level), levels[level] as usize))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::compute::concat_batches;
    use arrow::datatypes::Int32Type;

    fn check(levels: &[u32], columns: usize, rows: usize, sample: &[(usize, &[i32])]) {
        let batches: Vec<RecordBatch> = table(levels, columns).collect();
        let whole = concat_batches(&schema(columns), &batches).expect("one schema");
        assert_eq!(whole.num_rows(), rows);
        for (row, expected) in sample {
            let actual: Vec<i32> =
                whole.columns().iter().map(|column| column.as_primitive::<Int32Type>().value(*row)).collect();
            assert_eq!(actual, *expected, "row {row} of {levels:?}");
        }
    }

    #[test]
    fn the_papers_table_3() {
        let sample: [(usize, &[i32]); 6] = [
            (0, &[1, 1, 1, 1]),
            (2, &[1, 1, 3, 3]),
            (3, &[1, 2, 1, 1]),
            (11, &[1, 4, 3, 3]),
            (12, &[2, 1, 1, 1]),
            (23, &[2, 4, 3, 3]),
        ];
        check(&[2, 4, 3], 4, 24, &sample);
    }

    #[test]
    fn one_level_is_a_plain_sequence() {
        check(&[20_000], 4, 20_000, &[(0, &[1; 4]), (19_999, &[20_000; 4])]);
    }

    #[test]
    fn levels_run_on_across_batches() {
        check(&[5_000, 10, 4], 4, 200_000, &[(8_192, &[205, 9, 1, 1]), (199_999, &[5_000, 10, 4, 4])]);
    }
}
