//! Opening: after an orderly end, after changes, and with a change under way.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::{PAPER, ROWS, Sizes, TABLE, Tuples, Where, build, mapped, setup};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::{Experiment, RunOptions, Workspace};
use freestone_demo::engine::median;
use freestone_report::findings::{Check, Lines, Part, Series, Table, significant, thousands};
use freestone_store::persistent::{PTable, Pool};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ptable-recovery",
    title: "Persistent memory: the first answer after opening",
    shows: "Opening a pool and one point query: after an orderly end, after changes, with a transaction cut off, and by rows.",
    source: "Götze, Baumann and Sattler 2018, section IV.E (no figure)",
    size: "--rows 1000000 (and a tenth and a hundredth of them), --queries 100000 changes",
    run,
};

const CHANGES: usize = 100_000;
const REPEATS: usize = 7;

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let changes = options.queries.unwrap_or(CHANGES).min(rows);
    let workspace = options.workspace("ptable-recovery")?;
    let path = workspace.path("pool");
    let tuples = Tuples::generate(rows);
    notify("inserting rows");
    let table = build(options, Where::Pool, &path, &tuples, Sizes::of(rows))?;
    let first = setup(
        options,
        rows,
        Some(&table),
        "Median of seven. The process does not end: the pool is closed without telling it, as when a process is killed, so its \
         bytes are in the system's cache.",
    );
    drop(table);
    let clean = time_opening(&path, &tuples)?;
    let by_rows = opening_by_rows(&workspace, options, rows, clean, notify)?;
    notify("changing rows");
    let keys = tuples.keys();
    {
        let table = open(&path)?;
        for row in 0..changes {
            let mut transaction = table.begin();
            for place in table.places(&keys, row)? {
                transaction.update(place, &tuples.columns, row)?;
            }
            transaction.commit()?;
        }
    }
    let changed = time_opening(&path, &tuples)?;
    {
        let table = open(&path)?;
        let mut transaction = table.begin();
        for row in 0..100.min(rows) {
            transaction.insert(&tuples.columns, row)?;
        }
    }
    let cut_off = time_opening(&path, &tuples)?;
    let cases =
        [("after an orderly end", clean), ("after the changes", changed), ("with a transaction cut off", cut_off)];
    let times = [clean, changed, cut_off];
    let spread = times.iter().copied().fold(0.0, f64::max) / times.iter().copied().fold(f64::INFINITY, f64::min);
    let check = Check::new(
        "no recovery is needed: the first answer takes as long in each case (within 1.2 times)",
        spread <= 1.2,
        cases.map(|(case, ms)| format!("{case} {} ms", significant(ms))).join(", "),
    )
    .claimed(format!("{PAPER}, IV.E and IV.G"))
    .or_because("opening reads one line of each unit and leaf; splits by the changes made more of them");
    let mut table = Table::new(
        format!("Milliseconds to the first answer, {} changes", thousands(changes as i64)),
        1,
        &["opening", "ms"],
    );
    cases.into_iter().for_each(|(case, ms)| table.push([case.to_owned(), significant(ms)]));
    let checks = vec![check, rebuilding(&by_rows)];
    let lines = lines(&by_rows);
    Ok(vec![first, Part::checks(checks), Part::Table(table), lines])
}

/// Milliseconds of opening with the first answer, by the number of rows. Of all rows it is known.
fn opening_by_rows(
    workspace: &Workspace,
    options: &RunOptions,
    rows: usize,
    whole: f64,
    notify: Notify<'_>,
) -> Result<Vec<(usize, f64)>> {
    let mut times = vec![];
    for part in [100, 10] {
        let few = (rows / part).max(1);
        notify(&format!("opening {few} rows"));
        let (path, tuples) = (workspace.path(&format!("pool-{few}")), Tuples::generate(few));
        drop(build(options, Where::Pool, &path, &tuples, Sizes::of(few))?);
        times.push((few, time_opening(&path, &tuples)?));
    }
    times.push((rows, whole));
    Ok(times)
}

/// The claim is that nothing has to be recovered. Here no log is replayed, but the tree's inner nodes are made again.
fn rebuilding(times: &[(usize, f64)]) -> Check {
    let ms = || times.iter().map(|(_, ms)| *ms);
    let growth = ms().fold(0.0, f64::max) / ms().fold(f64::INFINITY, f64::min).max(1e-9);
    let (rows, whole) = times.last().copied().unwrap_or((1, 0.0));
    let list = times.iter().map(|(rows, ms)| format!("{} rows {} ms", thousands(*rows as i64), significant(*ms)));
    Check::new(
        "no recovery is needed: opening takes as long whatever the number of rows (within twice)",
        growth <= 2.0,
        list.collect::<Vec<_>>().join(", "),
    )
    .claimed(format!("{PAPER}, IV.E and IV.G"))
    .or_because(format!(
        "no log is replayed, but the tree's inner nodes and the list of blocks are in memory, so that opening reads a line of each \
         leaf and block: {} ns a row",
        significant(whole * 1e6 / rows as f64)
    ))
}

fn lines(times: &[(usize, f64)]) -> Part {
    Part::Lines(Lines {
        title: "Opening and the first answer, by rows".into(),
        x_label: "rows".into(),
        y_label: "ms".into(),
        x: times.iter().map(|(rows, _)| *rows as f64).collect(),
        series: vec![Series::new("table in the pool", times.iter().map(|(_, ms)| *ms).collect())],
        mark: None,
    })
}

fn open(path: &Path) -> Result<PTable> {
    let pool = Arc::new(Pool::open(mapped(path, 0)?, None)?);
    Ok(PTable::open(pool, TABLE)?)
}

pub(super) fn time_opening(path: &Path, tuples: &Tuples) -> Result<f64> {
    let keys = tuples.keys();
    let mut times = vec![];
    for repeat in 0..REPEATS {
        let start = Instant::now();
        let table = open(path)?;
        let places = table.places(&keys, repeat % tuples.rows())?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        if places.len() != 1 || table.len() != tuples.rows() as u64 {
            return Err(LabError::Answers(format!("{} rows after opening, {} of a key", table.len(), places.len())));
        }
    }
    Ok(median(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_that_grows_with_the_rows_is_recovery() {
        assert!(rebuilding(&[(10_000, 1.0), (1_000_000, 1.5)]).holds);
        let grows = rebuilding(&[(10_000, 1.0), (1_000_000, 25.0)]);
        assert!(grows.is_refuted() && grows.why.contains("25.0 ns a row"), "{grows:?}");
    }
}
