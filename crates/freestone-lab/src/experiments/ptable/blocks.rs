//! Figure 5(a): ranges of an attribute that is not the key, by the size of blocks.

use super::{Attribute, BLOCK_BYTES, PAPER, ROWS, Sizes, Tuples, Where, build, range, setup, time_scan};
use crate::Notify;
use crate::error::Result;
use crate::experiments::{Experiment, RunOptions};
use freestone_demo::engine::median;
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, significant};
use freestone_store::persistent::{Costs, IteratorKind};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ptable-blocks",
    title: "Persistent memory: the size of blocks",
    shows: "Range scans of an attribute that is not the key, by the block iterator, for blocks of 4 to 256 KiB.",
    source: "Götze, Baumann and Sattler 2018, section V.C, Figure 5(a)",
    size: "--rows 1000000, --queries 9 a point",
    run,
};

const BLOCKS: [u64; 7] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];
const SHARES: [f64; 4] = [0.001, 0.01, 0.1, 0.5];
const QUERIES: usize = 9;

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let queries = options.queries.unwrap_or(QUERIES).min(50);
    let workspace = options.workspace("ptable-blocks")?;
    let tuples = Tuples::generate(rows);
    let mut times = vec![vec![]; SHARES.len()];
    let mut first = None;
    for block_bytes in BLOCKS {
        notify(&format!("blocks of {} KiB", block_bytes >> 10));
        let path = workspace.path(&block_bytes.to_string());
        let table = build(options, Where::Pool, &path, &tuples, Sizes { block_bytes, ..Sizes::of(rows) })?;
        for (share, line) in SHARES.iter().zip(&mut times) {
            let mut found = vec![];
            for query in 0..queries {
                let predicate = range(Attribute::Double, rows, *share, query as f64 / queries as f64);
                found.push(time_scan(&table, &predicate, Some(IteratorKind::Block), &Costs::default())?.0);
            }
            line.push(median(found));
        }
        first = Some(setup(options, rows, Some(&table), "Median over ranges at different places."));
        drop(table);
        // The folder of the run is removed in any case.
        let _ = std::fs::remove_file(&path);
    }
    let label = |share: &f64| format!("{} % of the rows", share * 100.0);
    let series = |(share, values): (&f64, &Vec<f64>)| Series::new(label(share), values.clone());
    let series: Vec<Series> = SHARES.iter().zip(&times).map(series).collect();
    let mut parts: Vec<Part> = first.into_iter().collect();
    parts.push(Part::checks(claims(&times)));
    parts.push(Part::Lines(Lines {
        title: "Milliseconds per range scan of the fourth attribute".into(),
        x_label: "KiB of a block".into(),
        y_label: "ms".into(),
        x: BLOCKS.map(|bytes| bytes as f64 / 1024.0).to_vec(),
        series: series.clone(),
        mark: None,
    }));
    let header: Vec<String> = BLOCKS.iter().map(|bytes| format!("{} KiB", bytes >> 10)).collect();
    let header: Vec<&str> = ["range"].into_iter().chain(header.iter().map(String::as_str)).collect();
    let mut table = Table::new("Milliseconds per range scan, by the size of blocks", 1, &header);
    for line in &series {
        let best = line.values.iter().copied().fold(f64::INFINITY, f64::min);
        let cell = |value: &f64| Cell { text: significant(*value), best: *value == best };
        table.push([Cell::from(line.label.clone())].into_iter().chain(line.values.iter().map(cell)));
    }
    parts.push(Part::Table(table));
    Ok(parts)
}

fn claims(times: &[Vec<f64>]) -> Vec<Check> {
    let at = |bytes: u64| BLOCKS.iter().position(|size| *size == bytes).unwrap_or(0);
    let total =
        |size: usize| times.iter().map(|line| line[size] / line[at(BLOCK_BYTES)]).sum::<f64>() / times.len() as f64;
    let totals: Vec<f64> = (0..BLOCKS.len()).map(total).collect();
    let best = totals.iter().copied().fold(f64::INFINITY, f64::min);
    let of_pair = totals[at(16 << 10)].min(totals[at(32 << 10)]);
    let list: Vec<String> =
        BLOCKS.iter().zip(&totals).map(|(bytes, total)| format!("{} KiB {total:.2}", bytes >> 10)).collect();
    vec![
        Check::new(
            "scans perform best with blocks of 16 and 32 KiB (the better of them within 5 % of the best size)",
            of_pair <= best * 1.05,
            format!("mean time over the ranges, of 32 KiB = 1: {}", list.join(", ")),
        )
        .claimed(format!("{PAPER}, V.C, Figure 5(a)"))
        .or_because(
            "smaller blocks are ruled out more precisely, and larger ones cost fewer tests of keys: which effect is the \
             greater depends on the share of the rows and on the cost of a block's first line",
        ),
    ]
}
