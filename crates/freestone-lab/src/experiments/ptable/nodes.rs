//! Figure 3: point queries by the size of the tree's leaves.

use super::{NODE_BYTES, PAPER, ROWS, Sizes, Tuples, Where, build, setup, time_points};
use crate::Notify;
use crate::error::Result;
use crate::experiments::{Experiment, RunOptions};
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, significant, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ptable-nodes",
    title: "Persistent memory: the size of leaves",
    shows: "Point queries by key on a table in a pool, for leaves of 256 bytes to 16 KiB and three sizes of the table.",
    source: "Götze, Baumann and Sattler 2018, section V.B, Figure 3",
    size: "--rows 1000000, --queries 200000",
    run,
};

const NODES: [u64; 7] = [256, 512, 1024, 2048, 4096, 8192, 16_384];
const QUERIES: usize = 200_000;
const REPEATS: usize = 3;

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let queries = options.queries.unwrap_or(QUERIES);
    let workspace = options.workspace("ptable-nodes")?;
    let sizes: Vec<usize> = [100, 10, 1].iter().map(|part| (rows / part).max(1)).collect();
    let mut series = vec![];
    let mut first = None;
    for rows in &sizes {
        let tuples = Tuples::generate(*rows);
        let mut times = vec![];
        for node_bytes in NODES {
            notify(&format!("{rows} rows, leaves of {node_bytes} bytes"));
            let path = workspace.path(&format!("{rows}-{node_bytes}"));
            let table = build(options, Where::Pool, &path, &tuples, Sizes { node_bytes, ..Sizes::of(*rows) })?;
            let mut best = f64::INFINITY;
            for _ in 0..REPEATS {
                best = best.min(time_points(&table, &tuples, queries)?);
            }
            times.push(best);
            if first.is_none() {
                first = Some(setup(options, *sizes.last().unwrap_or(rows), Some(&table), "Best of three runs."));
            }
            drop(table);
            // The folder of the run is removed in any case.
            let _ = std::fs::remove_file(&path);
        }
        series.push(Series::new(format!("{} rows", thousands(*rows as i64)), times));
    }
    let mut parts: Vec<Part> = first.into_iter().collect();
    parts.push(Part::checks(claims(&series)));
    parts.push(Part::Lines(Lines {
        title: "Nanoseconds per point query".into(),
        x_label: "bytes of a leaf".into(),
        y_label: "ns".into(),
        x: NODES.map(|bytes| bytes as f64).to_vec(),
        series: series.clone(),
        mark: None,
    }));
    parts.push(Part::Table(table(&series)));
    Ok(parts)
}

fn table(series: &[Series]) -> Table {
    let header: Vec<String> = NODES.iter().map(|bytes| format!("{bytes} B")).collect();
    let header: Vec<&str> = ["table"].into_iter().chain(header.iter().map(String::as_str)).collect();
    let mut table = Table::new("Nanoseconds per point query, by the size of leaves", 1, &header);
    for line in series {
        let best = line.values.iter().copied().fold(f64::INFINITY, f64::min);
        let cell = |value: &f64| Cell { text: significant(*value), best: *value == best };
        table.push([Cell::from(line.label.clone())].into_iter().chain(line.values.iter().map(cell)));
    }
    table
}

fn claims(series: &[Series]) -> Vec<Check> {
    let place = format!("{PAPER}, V.B, Figure 3");
    let best = |line: &Series| {
        let at = line.values.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |best| best.0);
        NODES[at]
    };
    let bests: Vec<String> = series.iter().map(|line| format!("{}: {} B", line.label, best(line))).collect();
    let chosen = NODES.iter().position(|bytes| *bytes == NODE_BYTES).unwrap_or(0);
    let loss = |line: &Series| line.values[chosen] / line.values.iter().copied().fold(f64::INFINITY, f64::min);
    let worst = series.iter().map(loss).fold(0.0, f64::max);
    let why = "a lookup compares one fingerprint per slot, eight at a time, and then one key: larger leaves cost few \
               instructions more, and save levels of the directory in memory";
    vec![
        Check::new(
            "the best size of a leaf is between 256 and 1024 bytes",
            series.iter().all(|line| best(line) <= 1024),
            bests.join(", "),
        )
        .claimed(place.clone())
        .or_because(why),
        Check::new(
            "1 KiB is only marginally slower than the best size (within 5 %)",
            worst <= 1.05,
            format!("at most {:.0} % slower", (worst - 1.0) * 100.0),
        )
        .claimed(place)
        .or_because(why),
    ]
}
