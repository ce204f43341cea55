//! Figure 4: point queries of the table, of its tree alone, and of trees in memory.

use std::hint::black_box;
use std::time::Instant;

use super::{Leaves, PAPER, ROWS, Sizes, Tuples, Where, build, setup, time_leaves, time_points, time_tree};
use crate::Notify;
use crate::error::Result;
use crate::experiments::{Experiment, RunOptions};
use freestone_data::Random;
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, significant, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ptable-points",
    title: "Persistent memory: point queries",
    shows: "A row by its key: from the table, from its tree alone, and the same from memory.",
    source: "Götze, Baumann and Sattler 2018, section V.B, Figure 4",
    size: "--rows 1000000, --queries 200000",
    run,
};

const QUERIES: usize = 200_000;
const REPEATS: usize = 3;
const LABELS: [&str; 5] = [
    "table in the pool, whole row",
    "its tree alone, whole row",
    "its tree alone, place of the row",
    "table in memory, whole row",
    "B-tree of Rust's library, in memory",
];

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let queries = options.queries.unwrap_or(QUERIES);
    let workspace = options.workspace("ptable-points")?;
    let sizes: Vec<usize> = [100, 10, 1].iter().map(|part| (rows / part).max(1)).collect();
    let mut times = vec![vec![]; LABELS.len()];
    let mut first = None;
    for rows in &sizes {
        notify(&format!("{rows} rows"));
        let tuples = Tuples::generate(*rows);
        let path = workspace.path(&rows.to_string());
        let pool = build(options, Where::Pool, &path, &tuples, Sizes::of(*rows))?;
        let memory = build(options, Where::Memory, &path, &tuples, Sizes::of(*rows))?;
        let (reference, leaves) = (tuples.in_memory(), Leaves::of(&pool)?);
        let mut best = [f64::INFINITY; LABELS.len()];
        for _ in 0..REPEATS {
            let found = [
                time_points(&pool, &tuples, queries)?,
                time_leaves(&pool, &leaves, &tuples, queries)?,
                time_tree(&pool, &tuples, queries)?,
                time_points(&memory, &tuples, queries)?,
                time_reference(&reference, &tuples, queries),
            ];
            best.iter_mut().zip(found).for_each(|(best, time)| *best = best.min(time));
        }
        times.iter_mut().zip(best).for_each(|(line, time)| line.push(time));
        first = Some(setup(options, *rows, Some(&pool), "Best of three runs. Engines of other makers: ptable-peers."));
    }
    let series = |(label, values): (&str, &Vec<f64>)| Series::new(label.to_owned(), values.clone());
    let series: Vec<Series> = LABELS.into_iter().zip(&times).map(series).collect();
    let mut parts: Vec<Part> = first.into_iter().collect();
    parts.push(Part::checks(claims(&times)));
    parts.push(Part::Lines(Lines {
        title: "Nanoseconds per point query".into(),
        x_label: "rows".into(),
        y_label: "ns".into(),
        x: sizes.iter().map(|rows| *rows as f64).collect(),
        series: series.clone(),
        mark: None,
    }));
    let header: Vec<String> = sizes.iter().map(|rows| format!("{} rows", thousands(*rows as i64))).collect();
    let header: Vec<&str> = ["structure"].into_iter().chain(header.iter().map(String::as_str)).collect();
    let mut table = Table::new("Nanoseconds per point query", 1, &header);
    for line in &series {
        let values = line.values.iter().map(|value| Cell::from(significant(*value)));
        table.push([Cell::from(line.label.clone())].into_iter().chain(values));
    }
    parts.push(Part::Table(table));
    Ok(parts)
}

fn time_reference(tree: &std::collections::BTreeMap<i64, (i64, Vec<u8>, f64)>, tuples: &Tuples, queries: usize) -> f64 {
    let mut random = Random::new(3);
    let start = Instant::now();
    for _ in 0..queries {
        let row = random.below(tuples.rows() as u32) as usize;
        // The whole tuple is copied, as the table does.
        black_box(tree.get(&tuples.ints(0)[row]).cloned());
    }
    start.elapsed().as_nanos() as f64 / queries as f64
}

fn claims(times: &[Vec<f64>]) -> Vec<Check> {
    let ratios = |of: usize, to: usize| times[of].iter().zip(&times[to]).map(|(a, b)| a / b).collect::<Vec<f64>>();
    let list = |ratios: &[f64]| ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", ");
    let most = |ratios: &[f64]| ratios.iter().copied().fold(0.0, f64::max);
    let place = format!("{PAPER}, V.B, Figure 4");
    let (tree, memory) = (ratios(0, 1), ratios(0, 4));
    vec![
        Check::new(
            "the table performs like its tree alone (at most 1.3 times the time)",
            most(&tree) <= 1.3,
            format!("by size: {} times", list(&tree)),
        )
        .claimed(place.clone())
        .or_because(
            "a row of the table costs a cache miss for each of its columns, since mini pages are apart, and its string is copied; \
             the tuple in a leaf is one line of the cache, in memory that is not flushed",
        ),
        Check::new(
            "a tree in memory clearly outperforms the table (at least twice as fast)",
            memory.iter().all(|ratio| *ratio >= 2.0),
            format!("by size, the table takes {} times the time of Rust's B-tree", list(&memory)),
        )
        .claimed(place)
        .or_because("emulated memory is as fast as the memory of the other tree, and both miss the cache"),
    ]
}
