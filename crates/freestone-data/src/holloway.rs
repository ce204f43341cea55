//! The five tables of Holloway and DeWitt 2008, section 4.1.
//!
//! Values are drawn per column from `1..=range`. Then the table is sorted by all columns from the left, so that the
//! leading columns form runs. The paper has 60 million rows (Wide-E and Strings: 12 million). Here the number is an
//! argument, and the rows are sorted in memory, at 4 bytes per value (20 for Strings).

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, SchemaRef};

use super::random::{Random, Zipf};
use super::{BATCH_ROWS, Batches, integer_batch, numbered_schema};

const NARROW_COLUMNS: usize = 10;
const WIDE_COLUMNS: usize = 50;
const STRING_BYTES: usize = 20;

/// One of the paper's tables. Its columns are `c1`, `c2`, …: Int32, or Utf8 of 20 characters for `Strings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Ten columns, column i uniform in 1 to 2^(2.7 i).
    NarrowE,
    /// The ranges of Narrow-E, drawn by Zipf's law with exponent 2.
    NarrowS,
    /// Fifty columns, column i uniform in 1 to 2^(4 + 23 i / 50).
    WideE,
    /// Ten columns, each uniform in 1 to 100 million.
    NarrowU,
    /// Ten columns of 20 characters. The paper does not specify their content; here they are random lower-case letters.
    Strings,
}

impl Table {
    /// All five, in the paper's order.
    pub const ALL: [Self; 5] = [Self::NarrowE, Self::NarrowS, Self::WideE, Self::NarrowU, Self::Strings];

    /// The paper's name for the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::NarrowE => "Narrow-E",
            Self::NarrowS => "Narrow-S",
            Self::WideE => "Wide-E",
            Self::NarrowU => "Narrow-U",
            Self::Strings => "Strings",
        }
    }

    /// The largest value of each column; empty for `Strings`.
    pub fn ranges(self) -> Vec<u32> {
        let power = |exponent: f64| exponent.exp2() as u32;
        match self {
            Self::NarrowE | Self::NarrowS => (1..=NARROW_COLUMNS).map(|i| power(27.0 * i as f64 / 10.0)).collect(),
            Self::WideE => (1..=WIDE_COLUMNS).map(|i| power(4.0 + 23.0 * i as f64 / 50.0)).collect(),
            Self::NarrowU => vec![100_000_000; NARROW_COLUMNS],
            Self::Strings => Vec::new(),
        }
    }

    /// The Arrow schema.
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::WideE => numbered_schema("c", WIDE_COLUMNS, &DataType::Int32),
            Self::Strings => numbered_schema("c", NARROW_COLUMNS, &DataType::Utf8),
            Self::NarrowE | Self::NarrowS | Self::NarrowU => numbered_schema("c", NARROW_COLUMNS, &DataType::Int32),
        }
    }

    /// `rows` sorted rows. Generates and sorts all of them before it returns.
    pub fn batches(self, rows: usize, seed: u64) -> Batches {
        match self {
            Self::NarrowE | Self::NarrowU => integers::<NARROW_COLUMNS>(self, uniform(self.ranges()), rows, seed),
            Self::NarrowS => integers::<NARROW_COLUMNS>(self, zipf(self.ranges()), rows, seed),
            Self::WideE => integers::<WIDE_COLUMNS>(self, uniform(self.ranges()), rows, seed),
            Self::Strings => strings(self, rows, seed),
        }
    }
}

/// Draws a value of one column.
type Draw = Box<dyn Fn(&mut Random, usize) -> i32>;

fn uniform(ranges: Vec<u32>) -> Draw {
    Box::new(move |random, column| random.below(ranges[column]) as i32 + 1)
}

fn zipf(ranges: Vec<u32>) -> Draw {
    let columns: Vec<Zipf> = ranges.into_iter().map(Zipf::new).collect();
    Box::new(move |random, column| columns[column].draw(random))
}

fn integers<const COLUMNS: usize>(table: Table, draw: Draw, rows: usize, seed: u64) -> Batches {
    let rows = sorted_rows(rows, seed, |random| std::array::from_fn::<i32, COLUMNS, _>(|column| draw(random, column)));
    in_batches(table.schema(), rows, |schema, rows| integer_batch(schema, rows.len(), |row, column| rows[row][column]))
}

fn strings(table: Table, rows: usize, seed: u64) -> Batches {
    let letter = |random: &mut Random| b'a' + random.below(26) as u8;
    let rows = sorted_rows(rows, seed, |random| {
        std::array::from_fn::<_, NARROW_COLUMNS, _>(|_| std::array::from_fn::<_, STRING_BYTES, _>(|_| letter(random)))
    });
    in_batches(table.schema(), rows, |schema, rows| {
        let text = |row: &[[u8; STRING_BYTES]; NARROW_COLUMNS], column: usize| {
            String::from_utf8(row[column].to_vec()).expect("lower-case letters are UTF-8")
        };
        let column =
            |column| Arc::new(StringArray::from_iter_values(rows.iter().map(|row| text(row, column)))) as ArrayRef;
        RecordBatch::try_new(schema.clone(), (0..NARROW_COLUMNS).map(column).collect())
            .expect("one string column of equal length per field")
    })
}

fn sorted_rows<R: Ord>(count: usize, seed: u64, row: impl Fn(&mut Random) -> R) -> Vec<R> {
    let mut random = Random::new(seed);
    let mut rows: Vec<R> = (0..count).map(|_| row(&mut random)).collect();
    rows.sort_unstable();
    rows
}

fn in_batches<R: Send + 'static>(
    schema: SchemaRef,
    rows: Vec<R>,
    batch: impl Fn(&SchemaRef, &[R]) -> RecordBatch + Send + 'static,
) -> Batches {
    let starts = (0..rows.len()).step_by(BATCH_ROWS);
    Box::new(starts.map(move |start| batch(&schema, &rows[start..rows.len().min(start + BATCH_ROWS)])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int32Array};
    use arrow::compute::concat_batches;
    use arrow::datatypes::Int32Type;

    fn whole(table: Table, rows: usize) -> RecordBatch {
        let batches: Vec<RecordBatch> = table.batches(rows, 1).collect();
        concat_batches(&table.schema(), &batches).expect("every batch has the table's schema")
    }

    fn column(batch: &RecordBatch, column: usize) -> &Int32Array {
        batch.column(column).as_primitive::<Int32Type>()
    }

    #[test]
    fn ranges_are_those_of_the_paper() {
        // The paper truncates 2^(2.7 i) to an integer, but rounds column 9, which it gives as 20,655,176.
        let narrow = [6, 42, 274, 1_782, 11_585, 75_281, 489_178, 3_178_688, 20_655_175, 134_217_728];
        assert_eq!(Table::NarrowE.ranges(), narrow);
        assert_eq!(Table::NarrowS.ranges(), narrow);
        let wide = Table::WideE.ranges();
        assert_eq!((wide.len(), wide[0], wide[24], wide[49]), (50, 22, 46_340, 1 << 27));
    }

    #[test]
    fn rows_are_sorted_deterministic_and_as_many_as_asked() {
        for table in Table::ALL {
            let batch = whole(table, 20_001);
            assert_eq!(batch.num_rows(), 20_001, "{table:?}");
            assert_eq!(batch, whole(table, 20_001), "{table:?}");
            if table == Table::Strings {
                let texts: Vec<&str> = batch.column(0).as_string::<i32>().iter().flatten().collect();
                assert!(texts.is_sorted() && texts.iter().all(|text| text.len() == STRING_BYTES));
                continue;
            }
            let row =
                |row: usize| -> Vec<i32> { (0..batch.num_columns()).map(|c| column(&batch, c).value(row)).collect() };
            assert!((1..batch.num_rows()).all(|next| row(next - 1) <= row(next)), "{table:?}");
        }
    }

    #[test]
    fn values_fill_their_ranges() {
        for table in [Table::NarrowE, Table::NarrowU, Table::WideE, Table::NarrowS] {
            let batch = whole(table, 20_000);
            for (index, range) in table.ranges().into_iter().enumerate() {
                let values: Vec<i32> = column(&batch, index).values().to_vec();
                let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / 20_000.0;
                assert!(values.iter().all(|value| (1..=range as i32).contains(value)), "{table:?} c{}", index + 1);
                let middle = f64::from(range) / 2.0 + 0.5;
                if table != Table::NarrowS {
                    assert!((mean / middle - 1.0).abs() < 0.05, "{table:?} c{}: mean {mean}", index + 1);
                } else if range > 1_000 {
                    assert!(mean < middle / 4.0, "{table:?} c{}: mean {mean}", index + 1);
                }
            }
        }
    }
}
