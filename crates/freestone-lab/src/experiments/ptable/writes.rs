//! Durable changes of single rows, and what they flush.

use std::sync::Arc;
use std::time::Instant;

use super::{PAPER, ROWS, Sizes, TABLE, Tuples, Where, build, setup, table_options};
use crate::Notify;
use crate::error::Result;
use crate::experiments::{Experiment, RunOptions};
use freestone_data::Random;
use freestone_report::findings::{Cell, Check, Part, Table, significant, thousands};
use freestone_store::column::ColumnData;
use freestone_store::media::region::TrackedRegion;
use freestone_store::persistent::{PTable, Pool, PoolOptions};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ptable-writes",
    title: "Persistent memory: durable changes",
    shows: "Insertions, updates and removals of single rows per second, each durable, and the lines and fences of an insertion.",
    source: "Götze, Baumann and Sattler 2018, sections IV.F and IV.G (no figure)",
    size: "--rows 1000000, --queries 100000 changes of each kind",
    run,
};

const CHANGES: usize = 100_000;
/// Insertions whose flushes are counted.
const COUNTED: usize = 4000;

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let changes = options.queries.unwrap_or(CHANGES).min(rows);
    let workspace = options.workspace("ptable-writes")?;
    let tuples = Tuples::generate(rows + changes);
    let mut figures = vec![];
    let mut first = None;
    for (label, place) in [("pool", Where::Pool), ("memory, without flushes", Where::Memory)] {
        notify(&format!("changing rows in {label}"));
        let table = build(options, place, &workspace.path("pool"), &tuples, Sizes::of(rows))?;
        figures.push((label, measure(&table, &tuples, rows, changes)?));
        first.get_or_insert_with(|| setup(options, rows, Some(&table), "One row per transaction, one thread."));
    }
    notify("counting flushes");
    let (lines, fences) = count(&tuples)?;
    let mut parts: Vec<Part> = first.into_iter().collect();
    let check = Check::new(
        "an insertion flushes at most 10 lines and fences at most 3 times, in the median",
        lines <= 10 && fences <= 3,
        format!("{lines} lines and {fences} fences"),
    );
    parts.push(Part::checks(vec![check]));
    let mut table =
        Table::new("Durable changes of single rows per second", 1, &["table", "insert", "update", "remove"]);
    for (label, rates) in figures {
        let cells = rates.iter().map(|rate| Cell::from(thousands(rate.round() as i128)));
        table.push([Cell::from(label)].into_iter().chain(cells));
    }
    parts.push(Part::Table(table));
    let text = format!(
        "Counted on a tracked region over {COUNTED} insertions. The paper gives no figures of writes; its reasons ({PAPER}, IV.G) \
         are that rows within a block are not sorted and that no log is written. An insertion writes one line per column and \
         its string, the place, an entry of the tree, and two words of bitmaps: {} bytes in flushed lines.",
        significant(lines as f64 * 64.0)
    );
    parts.push(Part::section("What an insertion writes", text));
    Ok(parts)
}

/// Insertions, updates and removals per second.
pub(super) fn measure(table: &PTable, tuples: &Tuples, rows: usize, changes: usize) -> Result<[f64; 3]> {
    let per_second = |start: Instant| changes as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for row in rows..rows + changes {
        table.insert(&tuples.columns, row)?;
    }
    let inserts = per_second(start);
    let keys: [ColumnData; 1] = tuples.keys();
    let mut random = Random::new(5);
    let start = Instant::now();
    for _ in 0..changes {
        let row = random.below(rows as u32) as usize;
        let mut transaction = table.begin();
        for place in table.places(&keys, row)? {
            transaction.update(place, &tuples.columns, row)?;
        }
        transaction.commit()?;
    }
    let updates = per_second(start);
    let start = Instant::now();
    for row in rows..rows + changes {
        let mut transaction = table.begin();
        for place in table.places(&keys, row)? {
            transaction.delete(place)?;
        }
        transaction.commit()?;
    }
    Ok([inserts, updates, per_second(start)])
}

/// The lines and fences of an insertion, in the median.
fn count(tuples: &Tuples) -> Result<(u64, u64)> {
    let sizes = Sizes::of(tuples.rows());
    let len = 4096 * sizes.block_bytes / 8;
    let region = Arc::new(TrackedRegion::of_words(vec![0; len as usize / 64], len));
    let pool = Pool::create(region.clone(), PoolOptions { unit_bytes: sizes.block_bytes, database: 1 })?;
    let table = PTable::create(Arc::new(pool), TABLE, &table_options(tuples, sizes)?)?;
    let mut counts = vec![];
    for row in 0..COUNTED.min(tuples.rows()) {
        let before = region.counts();
        table.insert(&tuples.columns, row)?;
        let after = region.counts();
        counts.push((after.0 - before.0, after.1 - before.1));
    }
    counts.sort_unstable();
    Ok(counts.get(counts.len() / 2).copied().unwrap_or((0, 0)))
}
