//! The regret of the search compared with the best designs, and its cost: `cargo bench -p freestone-advisor`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use common::{random_case, random_design, total};
use freestone_advisor::search::{
    Base, Evaluator, Layout, Limits, Names, ScoredLayout, SearchOptions, Steps, climb, exhaustive, grouped, search,
};
use freestone_advisor::{CostModel, Options, Profile, ScanModel, Setting, TableStatistics, Workload, advise};
use freestone_store::design::{Design, Preset};
use rand::prelude::*;
use rand::rngs::StdRng;

fn main() {
    small_tables();
    wide_tables();
    for seed in 0..3 {
        let (model, work) = random_case(4000 + seed, 50, 100);
        timing("small model", &model, &work);
    }
    let (model, work) = (scan_model(50), random_case(4000, 50, 100).1);
    timing("scan model", &model, &work);
}

/// The regret of each way to climb compared with all partitions, over 100 random workloads on 3 to 8 columns.
fn small_tables() {
    let limits = Limits { exhaustive_columns: 0, exhaustive_atoms: 0, ..Limits::default() };
    let mut regrets = [vec![], vec![], vec![], vec![]];
    for seed in 0..100 {
        let columns = 3 + (seed % 6) as usize;
        let (model, work) = random_case(seed, columns, 2 + (seed % 11) as usize);
        let mut evaluator = Evaluator::new(&model, &work, Names::new(&model, Default::default()), None);
        let base = Base::default();
        let (apart, together) = (Layout::apart(columns, base.clone()), Layout::together(columns, base.clone()));
        let yardstick = exhaustive(&mut evaluator, apart.groups(), &apart).score.ms;
        let found = [
            climb(&mut evaluator, apart.clone(), Steps::MERGE, usize::MAX),
            climb(&mut evaluator, together, Steps::SPLIT, usize::MAX),
            grouped(&mut evaluator, &base, usize::MAX, &limits)
                .into_iter()
                .reduce(ScoredLayout::better)
                .expect("three climbs"),
            climb(&mut evaluator, apart, Steps::ALL, usize::MAX),
        ];
        for (list, found) in regrets.iter_mut().zip(found) {
            list.push(found.score.ms / yardstick - 1.0);
        }
    }
    println!("regret against all partitions, 100 workloads, 3 to 8 columns");
    let names = ["merging", "splitting", "both ends and atoms", "merge, split, shift"];
    for (name, list) in names.into_iter().zip(&mut regrets) {
        list.sort_by(f64::total_cmp);
        let within = list.iter().filter(|r| **r <= 0.1).count();
        let (median, p95, worst) = (list[50] * 100.0, list[94] * 100.0, list[99] * 100.0);
        println!("  {name:20} median {median:.2} %  95th {p95:.2} %  worst {worst:.2} %  within 10 %: {within}");
    }
}

/// The advised design compared with the best of the presets and of 200 random designs.
fn wide_tables() {
    println!("wide tables: the best preset and the best of 200 random designs, by the advised");
    for (seed, columns) in [(1, 12), (2, 20), (3, 30), (4, 50), (5, 100)] {
        let (model, work) = random_case(3000 + seed, columns, 60);
        let mut evaluator = Evaluator::new(&model, &work, Names::new(&model, Default::default()), None);
        let found = search(&mut evaluator, &Design::default(), &SearchOptions::default())[0].score.ms;
        let mut rng = StdRng::seed_from_u64(seed);
        let of = |design: &Design| total(&model, &work, design) / found;
        let presets = [Preset::Row, Preset::Column, Preset::Pax].map(|p| of(&Design::preset(p)));
        let random = (0..200).map(|_| of(&random_design(&mut rng, columns))).fold(f64::INFINITY, f64::min);
        let preset = presets.into_iter().fold(f64::INFINITY, f64::min);
        println!("  {columns} columns: preset {preset:.3}, random {random:.3}, {} calls", evaluator.calls());
    }
}

fn timing(name: &str, model: &dyn CostModel, work: &Workload) {
    let options = Options { max_copies: 3, ..Options::default() };
    let start = Instant::now();
    let advice = advise(model, work, &Design::preset(Preset::Column), &options).expect("the workload makes sense");
    let seconds = start.elapsed().as_secs_f64();
    println!("50 columns, 100 queries, {name}: {seconds:.2} s, {} model calls; {}", advice.model_calls, advice.reason);
}

/// The advisor's own model on a table of numbers, from a sample of 24 blocks, with the assumed profile.
fn scan_model(columns: usize) -> ScanModel {
    let mut rng = StdRng::seed_from_u64(9);
    let batches: Vec<RecordBatch> = (0..24i64)
        .map(|block| {
            let column = |c: usize| -> ArrayRef {
                let values = (0..8192i64).map(|row| match c % 3 {
                    0 => (block * 8192 + row) * 100 + rng.random_range(0..1000),
                    1 => rng.random_range(0..10),
                    _ => rng.random_range(0..1_000_000),
                });
                Arc::new(Int64Array::from(values.collect::<Vec<_>>()))
            };
            let arrays: Vec<(String, ArrayRef)> =
                (0..columns).map(column).enumerate().map(|(c, a)| (format!("c{c}"), a)).collect();
            RecordBatch::try_from_iter(arrays).expect("columns of the same length")
        })
        .collect();
    let now = Design::preset(Preset::Column);
    let statistics = TableStatistics::new(common::schema(columns), 20_000_000, now, &batches).expect("rows are there");
    ScanModel::new(Arc::new(statistics), Arc::new(Profile::assumed()), Setting::cold(2))
}
