//! Fifty integer columns of equal width in random order: the table for the crossover of rows and columns.
//!
//! No column compresses better than another, so that differences between two layouts are due to the layouts alone:
//! reading all fifty columns of few rows favours rows, reading two of them favours columns.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};

use super::random::Random;
use super::{BATCH_ROWS, integer_batch, numbered_schema};

/// The number of columns.
pub const COLUMNS: usize = 50;

/// Values are uniform in `0..VALUES`, so `c1 < VALUES / 100` selects 1 % of the rows, scattered evenly.
pub const VALUES: u32 = 1_000_000;

/// The schema: Int32 columns `c1` to `c50`.
pub fn schema() -> SchemaRef {
    schema_of(COLUMNS)
}

/// `rows` rows in random order.
pub fn table(rows: usize, seed: u64) -> impl Iterator<Item = RecordBatch> + Send {
    table_of(COLUMNS, rows, seed)
}

/// As [`schema`], with another number of columns.
pub fn schema_of(columns: usize) -> SchemaRef {
    numbered_schema("c", columns, &DataType::Int32)
}

/// As [`table`], with another number of columns.
pub fn table_of(columns: usize, rows: usize, seed: u64) -> impl Iterator<Item = RecordBatch> + Send {
    let schema = schema_of(columns);
    let mut random = Random::new(seed);
    (0..rows).step_by(BATCH_ROWS).map(move |start| {
        let count = BATCH_ROWS.min(rows - start);
        let values: Vec<i32> = (0..count * columns).map(|_| random.below(VALUES) as i32).collect();
        integer_batch(&schema, count, |row, column| values[row * columns + column])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    #[test]
    fn one_percent_is_one_percent_in_every_column() {
        let rows = 100_000;
        let batches: Vec<RecordBatch> = table(rows, 11).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
        for column in 0..COLUMNS {
            let values = batches.iter().flat_map(|batch| batch.column(column).as_primitive::<Int32Type>().values());
            let selected = values.filter(|value| **value < VALUES as i32 / 100).count();
            assert!((850..1_150).contains(&selected), "c{}: {selected} of {rows}", column + 1);
        }
    }
}
