//! Holloway and DeWitt 2008: their tables, sorted and compressed as in their Table 1, their generator of queries, and
//! their measurements.

mod joins;
mod pages;
mod scans;
mod sweep;
mod verdicts;
mod views;

use freestone::Options;

pub use joins::EXPERIMENT as JOINS;
pub use pages::EXPERIMENT as PAGES;
pub use scans::EXPERIMENT as SCANS;
pub use views::EXPERIMENT as VIEWS;

use super::scanner::{Pick, Query};
use super::{RunOptions, Workspace, quoted};
use crate::Notify;
use crate::error::Result;
use freestone_data::Random;
use freestone_data::holloway::Table as Generated;
use freestone_demo::engine::Engine;

/// The rows of the narrow tables. Wide-E and Strings have a fifth, as in the paper.
const ROWS: usize = 1_000_000;
/// The number of queries per point.
const QUERIES: usize = 10;
/// Megabytes per second of the paper's disk (section 5.4).
const PAPER_DISK: f64 = 70.0;

/// The name of a table in SQL.
fn table_name(generated: Generated, design: &str) -> String {
    format!("{}_{design}", generated.name().to_lowercase().replace('-', "_"))
}

/// The rows of a table if the narrow ones have `rows`.
pub(super) fn rows_of(generated: Generated, rows: usize) -> usize {
    if matches!(generated, Generated::WideE | Generated::Strings) { (rows / 5).max(1) } else { rows }
}

/// Stores the table once per design, which is a name and its options.
fn store(
    workspace: &Workspace,
    options: &RunOptions,
    generated: Generated,
    designs: &[(&str, String)],
    notify: Notify<'_>,
) -> Result<()> {
    let rows = rows_of(generated, options.rows.unwrap_or(ROWS));
    notify(&format!("generating {}", generated.name()));
    let file = workspace.path("table.parquet");
    freestone_data::write_parquet(&file, generated.schema(), generated.batches(rows, 1))?;
    let memory = Options { ..options.engine_options() };
    let engine = Engine::open(&workspace.path("database"), memory)?;
    let columns: Vec<String> = generated.schema().fields().iter().map(|field| field.name().clone()).collect();
    for (design, form) in designs {
        notify(&format!("storing {} as {design}", generated.name()));
        let (name, sort, file) = (table_name(generated, design), columns.join(", "), quoted(&file));
        engine.run(&format!("CREATE TABLE {name} WITH ({form}, sort = '{sort}') AS SELECT * FROM '{file}'"))?;
    }
    Ok(())
}

/// The options of a design by its name, compressed as in Table 1. Dense pages choose bit-packing, differences of the
/// sorted prefix and dictionaries without an option; these are the table's encodings for rows.
pub(super) fn form(generated: Generated, design: &str) -> String {
    let columns = generated.schema().fields().len();
    let pinned = |encoding: &dyn Fn(usize) -> &'static str| {
        let list: Vec<String> = (1..=columns).map(|number| format!("c{number}: {}", encoding(number))).collect();
        format!(", encode = '{}'", list.join(", "))
    };
    let runs_before = |first: usize, then: &'static str| pinned(&|number| if number < first { "rle" } else { then });
    let encode = match (generated, design) {
        (_, "slotted") => String::new(),
        (Generated::Strings, _) => pinned(&|_| "plain"),
        (_, "row") => String::new(),
        (Generated::NarrowE, _) => runs_before(4, "bitpack"),
        (Generated::NarrowS, _) => runs_before(7, "page_dictionary"),
        (Generated::WideE, _) => runs_before(5, "bitpack"),
        (Generated::NarrowU, _) => pinned(&|_| "bitpack"),
    };
    format!("design = '{design}'{encode}")
}

/// The paper's generator of queries (section 4.4): random columns, of which the first have predicates.
struct Generator(Random);

impl Generator {
    fn new(seed: u64) -> Generator {
        Generator(Random::new(seed))
    }

    /// Some of `all` in random order, without those in `first`, which come before them.
    fn columns(&mut self, first: &[usize], all: &[usize], count: usize) -> Vec<usize> {
        let mut columns: Vec<usize> = first.iter().copied().take(count).collect();
        let mut left: Vec<usize> = all.iter().copied().filter(|column| !columns.contains(column)).collect();
        while columns.len() < count && !left.is_empty() {
            columns.push(left.swap_remove(self.0.below(left.len() as u32) as usize));
        }
        columns
    }

    /// A query for `count` of a table's `of` columns, beginning with the columns in `first`.
    fn query(&mut self, first: &[usize], of: usize, count: usize, predicates: usize, selectivity: f64) -> Query {
        let all: Vec<usize> = (0..of).collect();
        let columns = self.columns(first, &all, count);
        let predicates = predicates.min(columns.len());
        Query { columns, pick: Pick::Calls { predicates, selectivity } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_have_distinct_columns_with_the_wanted_ones_first() {
        let mut generator = Generator::new(1);
        let mut seen = [0; 10];
        for _ in 0..200 {
            let query = generator.query(&[0, 1, 2], 10, 5, 3, 0.1);
            let mut columns = query.columns.clone();
            assert_eq!(columns[..3], [0, 1, 2]);
            columns.sort_unstable();
            columns.dedup();
            assert_eq!(columns.len(), 5);
            columns.iter().for_each(|column| seen[*column] += 1);
        }
        assert!(seen[3..].iter().all(|count| *count > 20), "{seen:?}");
        let Pick::Calls { predicates, .. } = generator.query(&[], 10, 1, 3, 0.1).pick else { panic!("by calls") };
        assert_eq!(predicates, 1, "one column has one predicate");
    }

    #[test]
    fn columns_are_compressed_as_table_1_says() {
        let narrow = form(Generated::NarrowE, "column");
        assert!(narrow.contains("c3: rle, c4: bitpack") && narrow.contains("c10: bitpack"), "{narrow}");
        assert!(form(Generated::NarrowS, "column").contains("c6: rle, c7: page_dictionary"));
        assert_eq!(form(Generated::WideE, "row"), "design = 'row'");
    }
}
