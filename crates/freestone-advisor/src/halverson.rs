//! The cost of a sequential scan by Halverson et al. 2006, section 4: equations 1 to 15 as printed. Costs are in the
//! paper's unit, of which [`Constants::PAPER`] are multiples.
//!
//! The general model contains this one as a special case. It is separate here for the golden test and for the
//! laboratory.

/// The paper's measurements of its prototype (Table 5), or the figures of another system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// SEQIO: the cost of a single sequential I/O of a page.
    pub sequential_io: f64,
    /// RDMIO: the cost of a single random I/O.
    pub random_io: f64,
    /// FC: the cost of a function call, which takes one value or row.
    pub function_call: f64,
    /// IC: the cost of one iteration of the storage manager.
    pub iteration: f64,
    /// |BP|: the pages of the buffer pool, half of which is used to prefetch columns.
    pub buffer_pages: f64,
    /// PGSZ: the usable bytes of a page.
    pub page_bytes: f64,
    /// CSZ: the bytes of a value.
    pub value_bytes: f64,
    /// OH: the bytes per tuple on a slotted page in addition to its values.
    pub tuple_overhead_bytes: f64,
}

impl Constants {
    /// Table 5.
    pub const PAPER: Constants = Constants {
        sequential_io: 15_000.0,
        random_io: 450_000.0,
        function_call: 6.0,
        iteration: 80.0,
        buffer_pages: 16_384.0,
        page_bytes: 32_000.0,
        value_bytes: 4.0,
        tuple_overhead_bytes: 16.0,
    };
}

/// A table with its levels of abstraction, from the outermost to the leaf.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    levels: Vec<Level>,
}

/// C(i) and ‖L(i)‖.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The columns of the level.
    pub columns: f64,
    /// The tuples of the level per tuple of the level above.
    pub cardinality: f64,
}

impl Table {
    /// A table without abstraction.
    pub fn flat(rows: f64, columns: f64) -> Self {
        Table { levels: vec![Level { columns, cardinality: rows }] }
    }

    /// A table with levels from the outermost to the leaf. Without levels, an empty table.
    pub fn with_levels(levels: Vec<Level>) -> Self {
        Table { levels }
    }

    /// ‖R‖: the number of rows.
    pub fn rows(&self) -> f64 {
        self.tuples().last().copied().unwrap_or(0.0)
    }

    /// C: the number of columns.
    pub fn columns(&self) -> f64 {
        self.levels.iter().map(|l| l.columns).sum()
    }

    /// The tuples of each level: the products of ‖L(j)‖ for j = 1 to i.
    fn tuples(&self) -> Vec<f64> {
        self.levels
            .iter()
            .scan(1.0, |product, level| {
                *product *= level.cardinality;
                Some(*product)
            })
            .collect()
    }
}

/// The cost of a scan in its three parts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ScanCost {
    /// The time for reading pages.
    pub io: f64,
    /// The processor time for iterating over rows.
    pub iteration: f64,
    /// Local overhead per tuple, and per value if tuples are reconstructed.
    pub local: f64,
}

impl ScanCost {
    /// The sum of the three parts.
    pub fn total(&self) -> f64 {
        self.io + self.iteration + self.local
    }
}

/// Equations 1 to 3: a row store on slotted pages. `cold` is F, the share of pages that are read from the medium.
pub fn standard_row_scan(constants: &Constants, table: &Table, cold: f64) -> ScanCost {
    ScanCost {
        io: standard_pages(constants, table) * constants.sequential_io * cold,
        iteration: table.tuples().iter().sum::<f64>() * constants.iteration,
        local: table.rows() * constants.function_call,
    }
}

/// Equations 4 to 6: a row store of super tuples.
pub fn super_row_scan(constants: &Constants, table: &Table, cold: f64) -> ScanCost {
    let pages = super_pages(constants, table);
    ScanCost {
        io: pages * constants.sequential_io * cold,
        iteration: pages * constants.iteration,
        local: table.rows() * constants.function_call,
    }
}

/// Equations 10 to 12: a column store of super tuples that reads `read` columns (S).
pub fn super_column_scan(constants: &Constants, table: &Table, read: f64, cold: f64) -> ScanCost {
    let pages = scanned_pages(constants, table, read);
    let random = random_ios(constants, table, read);
    let values: f64 = table.levels.iter().zip(table.tuples()).map(|(level, tuples)| level.columns * tuples).sum();
    ScanCost {
        io: (random * constants.random_io + (pages - random) * constants.sequential_io) * cold,
        iteration: pages * constants.iteration,
        local: read / table.columns() * values * constants.function_call,
    }
}

/// Equation 7, |PS|: the pages of the columns that are read.
pub fn scanned_pages(constants: &Constants, table: &Table, read: f64) -> f64 {
    read / table.columns() * super_pages(constants, table)
}

/// Equation 8, |PC|: the pages of a column that are prefetched at once.
pub fn prefetch_pages(constants: &Constants, read: f64) -> f64 {
    constants.buffer_pages / 2.0 / read
}

/// Equation 9, |RP|: the number of random I/Os, one per sequence of prefetched pages.
pub fn random_ios(constants: &Constants, table: &Table, read: f64) -> f64 {
    scanned_pages(constants, table, read) / prefetch_pages(constants, read)
}

/// Equation 13, ABSAV: the bytes that abstraction saves; 0 for a table of one level.
pub fn abstraction_savings(constants: &Constants, table: &Table) -> f64 {
    let above_leaf = table.levels.len().saturating_sub(1);
    let saved = table.levels.iter().zip(table.tuples()).take(above_leaf);
    saved.map(|(level, tuples)| level.columns * constants.value_bytes * (table.rows() - tuples)).sum()
}

/// Equation 14, |R|: the pages of a row store on slotted pages.
pub fn standard_pages(constants: &Constants, table: &Table) -> f64 {
    let row = constants.tuple_overhead_bytes + table.columns() * constants.value_bytes;
    (table.rows() * row - abstraction_savings(constants, table)) / constants.page_bytes
}

/// Equation 15, |P|: the pages of super tuples.
pub fn super_pages(constants: &Constants, table: &Table) -> f64 {
    let bytes = table.rows() * table.columns() * constants.value_bytes;
    (bytes - abstraction_savings(constants, table)) / constants.page_bytes
}

/// The smallest number of columns for which a scan of the column store costs more than one of the super-tuple row
/// store.
pub fn crossover(constants: &Constants, table: &Table, cold: f64) -> Option<u32> {
    let row = super_row_scan(constants, table, cold).total();
    let columns = table.columns() as u32;
    (1..=columns).find(|read| super_column_scan(constants, table, f64::from(*read), cold).total() > row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Constants = Constants::PAPER;

    fn table(levels: &[(f64, f64)]) -> Table {
        Table::with_levels(levels.iter().map(|&(columns, cardinality)| Level { columns, cardinality }).collect())
    }

    fn all_columns(table: &Table) -> f64 {
        super_column_scan(&PAPER, table, table.columns(), 1.0).total()
    }

    #[test]
    fn columns_become_dearer_than_rows_where_the_paper_says() {
        for (columns, expected) in [(4.0, 2), (8.0, 3), (16.0, 5), (32.0, 9)] {
            let table = Table::flat(8e6, columns);
            assert_eq!(crossover(&PAPER, &table, 1.0), Some(expected), "cold, {columns} columns");
            assert_eq!(crossover(&PAPER, &table, 0.0), Some(2), "hot, {columns} columns");
        }
    }

    /// Computed by hand for Figures 9 and 10: 8 M rows of 16 columns are 16,000 super-tuple and 20,000 slotted pages.
    #[test]
    fn parts_of_a_scan_of_16_columns() {
        let table = Table::flat(8e6, 16.0);
        assert_eq!(super_pages(&PAPER, &table), 16_000.0);
        assert_eq!(standard_pages(&PAPER, &table), 20_000.0);
        let standard = standard_row_scan(&PAPER, &table, 1.0);
        assert_eq!(standard, ScanCost { io: 300e6, iteration: 640e6, local: 48e6 });
        let rows = super_row_scan(&PAPER, &table, 1.0);
        assert_eq!(rows, ScanCost { io: 240e6, iteration: 1.28e6, local: 48e6 });
        // 4 columns: 4,000 pages, prefetched 2,048 at a time, give 1.953125 random I/Os.
        assert_eq!(random_ios(&PAPER, &table, 4.0), 1.953125);
        let four = super_column_scan(&PAPER, &table, 4.0, 1.0);
        assert_eq!(four, ScanCost { io: 1.953125 * 435_000.0 + 60e6, iteration: 320e3, local: 192e6 });
        for cost in [rows, four, super_column_scan(&PAPER, &table, 16.0, 1.0)] {
            assert!(cost.iteration < 0.01 * cost.total(), "less than 1 % of the time is iteration (section 4.2)");
        }
    }

    /// Section 4.3.1: iterating over 1000 tuples of a page takes 5 times as long as reading it.
    #[test]
    fn iterating_a_page_takes_five_times_as_long_as_reading_it() {
        let ratio = 1000.0 * PAPER.iteration / PAPER.sequential_io;
        assert!((5.0..5.5).contains(&ratio), "{ratio}");
    }

    /// Figure 2 (a): the standard row store takes more than twice the time of the others. (b): of 32 columns, the column
    /// store has an edge at 8.
    #[test]
    fn columns_scanned() {
        let narrow = Table::flat(8e6, 4.0);
        let standard = standard_row_scan(&PAPER, &narrow, 1.0).total();
        assert!(standard > 2.0 * super_row_scan(&PAPER, &narrow, 1.0).total());
        assert!(standard > 2.0 * all_columns(&narrow));
        let wide = Table::flat(8e6, 32.0);
        let eight = super_column_scan(&PAPER, &wide, 8.0, 1.0).total();
        assert!(
            eight < super_row_scan(&PAPER, &wide, 1.0).total() && eight < standard_row_scan(&PAPER, &wide, 1.0).total()
        );
    }

    /// Figure 3 (a): with 8 times the data, the standard row store's time less than doubles (13 s to 21.6 s measured).
    /// (b): with 32 M fields, it becomes slower than the column store just below 16 columns. The others' times hardly
    /// depend on the width.
    #[test]
    fn super_tuple_effects() {
        let standard = |rows, columns| standard_row_scan(&PAPER, &Table::flat(rows, columns), 1.0).total();
        let growth = standard(8e6, 32.0) / standard(8e6, 4.0);
        assert!((1.3..2.0).contains(&growth), "{growth}");
        let crossover = (4..=32u32).find(|c| {
            let table = Table::flat(32e6 / f64::from(*c), f64::from(*c));
            standard_row_scan(&PAPER, &table, 1.0).total() < all_columns(&table)
        });
        assert!(matches!(crossover, Some(13..=16)), "{crossover:?}");
        let columns: Vec<f64> = [4.0, 8.0, 16.0, 32.0].map(|c| all_columns(&Table::flat(32e6 / c, c))).to_vec();
        assert!(columns.iter().all(|cost| (cost / columns[0] - 1.0).abs() < 0.06), "{columns:?}");
    }

    /// Figure 4 (a): abstraction makes the super-tuple stores cheaper with each level. The standard row store becomes
    /// more expensive at Gen_200000_10_4, because it has more tuples.
    #[test]
    fn abstraction_effects() {
        let flat = Table::flat(8e6, 4.0);
        let customers = table(&[(1.0, 200_000.0), (1.0, 10.0), (2.0, 4.0)]);
        let flags = table(&[(1.0, 10.0), (1.0, 4.0), (2.0, 200_000.0)]);
        assert_eq!([flat.rows(), customers.rows(), flags.rows()], [8e6; 3]);
        assert_eq!(abstraction_savings(&PAPER, &flat), 0.0);
        assert_eq!(abstraction_savings(&PAPER, &customers), 4.0 * (7.8e6 + 6e6));
        let steps = [&flat, &customers, &flags];
        let rows = steps.map(|t| super_row_scan(&PAPER, t, 1.0).total());
        let columns = steps.map(all_columns);
        assert!(rows.is_sorted_by(|a, b| a > b) && columns.is_sorted_by(|a, b| a > b), "{rows:?} {columns:?}");
        let standard = steps.map(|t| standard_row_scan(&PAPER, t, 1.0).total());
        assert!(standard[1] > standard[0] && standard[2] < standard[1], "{standard:?}");
    }

    /// Figure 12: for 1 M rows of 32 columns, I/O is roughly the same for all stores. Figure 11: for 8 M rows of 4
    /// columns, slotted pages double it.
    #[test]
    fn constant_fields() {
        let io = |table: &Table| {
            let columns = super_column_scan(&PAPER, table, table.columns(), 1.0);
            [standard_row_scan(&PAPER, table, 1.0).io, super_row_scan(&PAPER, table, 1.0).io, columns.io]
        };
        let [standard, rows, columns] = io(&Table::flat(1e6, 32.0));
        assert!(standard / rows < 1.15 && columns / rows < 1.15, "{standard} {rows} {columns}");
        let [standard, rows, columns] = io(&Table::flat(8e6, 4.0));
        assert!(standard / rows == 2.0 && columns / rows < 1.02, "{standard} {rows} {columns}");
    }

    /// Figure 13: with a tenth of the iteration cost, the standard row store beats the column store on all 4 columns, and
    /// super tuples still beat both.
    #[test]
    fn forecast_of_a_light_iterator() {
        let (table, light) = (Table::flat(8e6, 4.0), Constants { iteration: 8.0, ..PAPER });
        let standard = standard_row_scan(&light, &table, 1.0).total();
        assert!(standard < super_column_scan(&light, &table, 4.0, 1.0).total());
        assert!(standard_row_scan(&PAPER, &table, 1.0).total() > all_columns(&table));
        assert!(super_row_scan(&light, &table, 1.0).total() < standard);
    }

    /// Figure 14: when a quarter of the columns is read, the column store becomes slower than plain rows between 256
    /// and 512 columns.
    #[test]
    fn forecast_of_wide_tuples() {
        let column_wins = |columns: f64| {
            let table = Table::flat(8e6, columns);
            let quarter = super_column_scan(&PAPER, &table, columns / 4.0, 1.0).total();
            quarter < standard_row_scan(&PAPER, &table, 1.0).total()
        };
        assert_eq!([64.0, 128.0, 256.0, 512.0].map(column_wins), [true, true, true, false]);
    }
}
