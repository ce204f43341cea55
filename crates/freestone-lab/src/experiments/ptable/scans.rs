//! Figure 5(b) and (c): ranges by key and by another attribute, by the share of the rows, and the choice of the iterator.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use super::{Attribute, PAPER, ROWS, Sizes, Tuples, Where, build, range, setup, time_scan};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::{Experiment, RunOptions};
use freestone_data::Random;
use freestone_demo::engine::median;
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, significant, thousands};
use freestone_store::persistent::{Costs, IteratorKind, PTable, Request};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ptable-scans",
    title: "Persistent memory: range scans and the choice of the iterator",
    shows: "Ranges of 0.1 to 100 % of the rows, by key and by another attribute: by blocks, by the index, and as chosen.",
    source: "Götze, Baumann and Sattler 2018, section V.C, Figure 5(b) and (c)",
    size: "--rows 1000000, --queries 7 a point",
    run,
};

const SHARES: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
const QUERIES: usize = 7;
/// Random queries for the verdict on the choice.
const CHOICES: usize = 100;
/// A choice is good if it costs at most this number of times the better iterator's time.
const GOOD: f64 = 1.1;
const LABELS: [&str; 4] = ["block iterator", "index iterator", "as chosen", "B-tree of Rust's library, in memory"];

type Reference = BTreeMap<i64, (i64, Vec<u8>, f64)>;

/// The medians of one attribute: by label, by share.
struct Measured {
    attribute: Attribute,
    times: Vec<Vec<f64>>,
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let queries = options.queries.unwrap_or(QUERIES).min(20);
    let workspace = options.workspace("ptable-scans")?;
    let (mut choices, mut crossings) = (vec![], vec![]);
    let mut parts = vec![];
    for size in [rows / 100, rows / 10, rows].map(|size| size.max(100)) {
        notify(&format!("{size} rows"));
        let tuples = Tuples::generate(size);
        let table = build(options, Where::Pool, &workspace.path(&size.to_string()), &tuples, Sizes::of(size))?;
        let costs = calibrate(&table, size)?;
        choices.push((size, good_choices(&table, size, &costs)?));
        let reference = tuples.in_memory();
        let measured = [Attribute::Double, Attribute::Key]
            .map(|attribute| measure(&table, &reference, attribute, size, queries, &costs));
        let [other, key] = measured;
        let (other, key) = (other?, key?);
        crossings.push((size, crossing(&other)));
        if size == rows.max(100) {
            let text = format!(
                "Median over ranges at different places. Costs, calibrated here: {} ns to test a block's key, {} ns to open a \
                 block, {} ns per slot and predicate, {} ns per entry of the index.",
                significant(costs.key_test),
                significant(costs.block),
                significant(costs.slot),
                significant(costs.entry)
            );
            parts.push(setup(options, rows, Some(&table), &text));
            parts.push(Part::checks(claims(&other, &key, &choices, &crossings)));
            for measured in [&other, &key] {
                parts.push(Part::Lines(chart(measured)));
                parts.push(Part::Table(figures(measured)));
            }
        }
    }
    Ok(parts)
}

/// The costs of the steps on this machine, from scans that consist of one kind of step.
fn calibrate(table: &PTable, rows: usize) -> Result<Costs> {
    let best = |predicate: &_, iterator| -> Result<(f64, u64)> {
        let mut best = (f64::INFINITY, 0);
        for _ in 0..5 {
            let request =
                Request { columns: vec![], predicates: vec![Clone::clone(predicate)], iterator: Some(iterator) };
            let start = Instant::now();
            let report = table.scan(&request, &Costs::default(), |_, _| Ok(()))?;
            best = (best.0.min(start.elapsed().as_nanos() as f64), report.entries.max(report.blocks));
        }
        Ok(best)
    };
    let defaults = Costs::default();
    let (blocks, slots) = table.block_counts();
    // All blocks are read, and no row passes in the first part of them.
    let (all, read) = best(&range(Attribute::Double, rows, 1.0, 0.0), IteratorKind::Block)?;
    let slot = (all / read.max(1) as f64 - defaults.block).max(slots as f64 * 0.2) / slots as f64;
    let (time, entries) = best(&range(Attribute::Key, rows, 0.2, 0.3), IteratorKind::Index)?;
    let entry = time / entries.max(1) as f64;
    // A predicate that nothing passes tests keys only.
    let (keys, _) = best(&range(Attribute::Double, rows, 0.0, 0.5), IteratorKind::Block)?;
    let key_test = (keys / blocks.max(1) as f64).clamp(0.5, 50.0);
    Ok(Costs { slot, entry, key_test, ..defaults })
}

fn measure(
    table: &PTable,
    reference: &Reference,
    attribute: Attribute,
    rows: usize,
    queries: usize,
    costs: &Costs,
) -> Result<Measured> {
    let mut times = vec![vec![]; LABELS.len()];
    for share in SHARES {
        let mut found = vec![vec![]; LABELS.len()];
        for query in 0..queries {
            let from = query as f64 / queries as f64;
            let predicate = range(attribute, rows, share, from);
            let iterators = [Some(IteratorKind::Block), Some(IteratorKind::Index), None];
            let mut answers = vec![];
            for (iterator, found) in iterators.into_iter().zip(&mut found) {
                let (time, rows) = time_scan(table, &predicate, iterator, costs)?;
                found.push(time);
                answers.push(rows);
            }
            let (time, rows) = time_reference(reference, attribute, rows, share, from);
            found[3].push(time);
            answers.push(rows);
            if answers.iter().any(|rows| *rows != answers[0]) {
                return Err(LabError::Answers(format!("{answers:?} rows of one range")));
            }
        }
        times.iter_mut().zip(found).for_each(|(line, found)| line.push(median(found)));
    }
    Ok(Measured { attribute, times })
}

/// A range of the key, or a scan of everything for the other attribute, on the tree in memory.
fn time_reference(reference: &Reference, attribute: Attribute, rows: usize, share: f64, from: f64) -> (f64, u64) {
    let low = (rows as f64 * from * (1.0 - share)) as i64;
    let high = low + ((rows as f64 * share) as i64 - 1).max(0);
    let start = Instant::now();
    let copy = |(_, tuple): (&i64, &(i64, Vec<u8>, f64))| drop(black_box(tuple.clone()));
    let count = match attribute {
        Attribute::Key => reference.range(low..=high).map(copy).count(),
        Attribute::Double => {
            let (low, high) = (low as f64 / 2.0, high as f64 / 2.0);
            reference.iter().filter(|(_, tuple)| low <= tuple.2 && tuple.2 <= high).map(copy).count()
        }
    };
    (start.elapsed().as_secs_f64() * 1e3, count as u64)
}

/// How many of the random queries have an iterator chosen that takes at most 1.1 times the better one's time.
fn good_choices(table: &PTable, rows: usize, costs: &Costs) -> Result<usize> {
    let mut random = Random::new(11);
    let mut good = 0;
    for _ in 0..CHOICES {
        let attribute = if random.below(2) == 0 { Attribute::Key } else { Attribute::Double };
        let uniform = |random: &mut Random| f64::from(random.below(1 << 20)) / f64::from(1 << 20);
        // From 0.01 % to 100 %, evenly by magnitude.
        let share = 10f64.powf(-4.0 * uniform(&mut random));
        let predicate = range(attribute, rows, share, uniform(&mut random));
        let request = Request { columns: vec![0, 1, 2, 3], predicates: vec![predicate.clone()], iterator: None };
        let chosen = table.plan(&request, costs)?.chosen;
        let mut times = [f64::INFINITY; 2];
        for _ in 0..5 {
            for (time, iterator) in times.iter_mut().zip([IteratorKind::Block, IteratorKind::Index]) {
                *time = time.min(time_scan(table, &predicate, Some(iterator), costs)?.0);
            }
        }
        let of_chosen = times[usize::from(chosen == IteratorKind::Index)];
        good += usize::from(of_chosen <= GOOD * times[0].min(times[1]));
    }
    Ok(good)
}

/// The share of the rows from which on the index iterator is faster than the block iterator; 1 if it never is.
fn crossing(measured: &Measured) -> f64 {
    let [blocks, index] = [&measured.times[0], &measured.times[1]];
    let at = (0..SHARES.len()).find(|at| index[*at] < blocks[*at]);
    at.map_or(f64::INFINITY, |at| SHARES[at])
}

fn title(attribute: Attribute) -> &'static str {
    match attribute {
        Attribute::Key => "ranges of the key",
        Attribute::Double => "ranges of the fourth attribute",
    }
}

fn chart(measured: &Measured) -> Lines {
    let series = |(label, values): (&str, &Vec<f64>)| Series::new(label.to_owned(), values.clone());
    Lines {
        title: format!("Milliseconds, {}", title(measured.attribute)),
        x_label: "% of the rows".into(),
        y_label: "ms".into(),
        x: SHARES.map(|share| share * 100.0).to_vec(),
        series: LABELS.into_iter().zip(&measured.times).map(series).collect(),
        mark: None,
    }
}

fn figures(measured: &Measured) -> Table {
    let header: Vec<String> = SHARES.iter().map(|share| format!("{} %", share * 100.0)).collect();
    let header: Vec<&str> = ["scan"].into_iter().chain(header.iter().map(String::as_str)).collect();
    let mut table = Table::new(format!("Milliseconds, {}", title(measured.attribute)), 1, &header);
    for (label, values) in LABELS.iter().zip(&measured.times) {
        let values = values.iter().map(|value| Cell::from(significant(*value)));
        table.push([Cell::from(*label)].into_iter().chain(values));
    }
    table
}

fn claims(other: &Measured, key: &Measured, choices: &[(usize, usize)], crossings: &[(usize, f64)]) -> Vec<Check> {
    let ratio = |measured: &Measured, of: usize, to: usize, at: usize| measured.times[of][at] / measured.times[to][at];
    let last = SHARES.len() - 1;
    let blocks = &other.times[0];
    let speedup = ratio(other, 3, 0, 0);
    let full = ratio(other, 1, 0, last);
    let index = &other.times[1];
    let growth = index[last] / index[0];
    let percent = |share: f64| if share.is_finite() { format!("{} %", share * 100.0) } else { "never".into() };
    let list: Vec<String> = crossings
        .iter()
        .map(|(rows, share)| format!("{} rows: {}", thousands(*rows as i64), percent(*share)))
        .collect();
    let moves = crossings.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    let good: Vec<String> =
        choices.iter().map(|(rows, good)| format!("{good} at {} rows", thousands(*rows as i64))).collect();
    let by_key = (0..SHARES.len()).map(|at| ratio(key, 2, 3, at)).fold(0.0, f64::max);
    let place = || format!("{PAPER}, V.C, Figure 5(c)");
    vec![
        Check::new(
            "0.1 % by the fourth attribute: the block iterator is faster than a tree in memory, which scans everything (10 times)",
            speedup >= 10.0,
            format!("{speedup:.1} times"),
        )
        .claimed(place())
        .or_because("few blocks are ruled out: the table is small, or its dimensions have few bins"),
        Check::new(
            "the block iterator's time rises with the share of the rows, since fewer blocks are ruled out",
            blocks[last] > blocks[0] * 4.0,
            format!("from {} to {} ms", significant(blocks[0]), significant(blocks[last])),
        )
        .claimed(place()),
        Check::new(
            "by the fourth attribute, the index iterator's time depends little on the share (within 3 times)",
            growth <= 3.0,
            format!("from {} to {} ms", significant(index[0]), significant(index[last])),
        )
        .claimed(place())
        .or_because("a row that passes is copied, which costs more than to find that one does not"),
        Check::new(
            "for large shares by the fourth attribute, the index iterator gets faster than the block iterator",
            full < 1.0,
            format!("of all rows, the index takes {full:.2} times the time of the blocks"),
        )
        .claimed(place())
        .or_because(
            "a block's mini pages are read in their order, one predicate at a time over 64 values, where the index follows each \
             entry to another place: reading all blocks costs less than all entries",
        ),
        Check::new(
            "with a larger table, the share moves up at which the index iterator gets faster",
            moves,
            list.join(", "),
        )
        .claimed(format!("{PAPER}, V.C (an expectation)")),
        Check::new(
            "by key, the table performs similarly to a tree in memory (at most twice the time at each share)",
            by_key <= 2.0,
            format!("at most {by_key:.2} times"),
        )
        .claimed(format!("{PAPER}, V.C, Figure 5(b)"))
        .or_because("the tree in memory has whole tuples in the order of the key; the table's rows are apart in their blocks"),
        Check::new(
            "the chosen iterator is within 10 % of the better one in 95 of 100 random queries",
            choices.iter().all(|(_, good)| good * 100 >= CHOICES * 95),
            good.join(", "),
        ),
    ]
}
