//! The search compared with the optimum, with a model small enough to try everything.

mod common;

use std::time::Instant;

use common::{DiskModel, query, random_case, random_design, total, workload};
use freestone_advisor::search::{
    Base, Evaluator, Layout, Limits, Names, Pins, ScoredLayout, SearchOptions, Steps, climb, exhaustive, grouped,
    search,
};
use freestone_advisor::{CostModel, PredicateForm, Workload};
use freestone_store::design::{Design, PAGE_SIZE_DEFAULT, PageFormat, Preset};
use proptest::prelude::*;
use rand::prelude::*;
use rand::rngs::StdRng;

fn evaluator<'a>(model: &'a DiskModel, workload: &'a Workload, budget: Option<f64>) -> Evaluator<'a> {
    Evaluator::new(model, workload, Names::new(model, Default::default()), budget)
}

/// No exhaustive search, so that climbing alone is compared.
fn climbing() -> Limits {
    Limits { exhaustive_columns: 0, exhaustive_atoms: 0, ..Limits::default() }
}

fn singles(columns: usize) -> Vec<Vec<usize>> {
    (0..columns).map(|c| vec![c]).collect()
}

fn best(found: Vec<ScoredLayout>) -> ScoredLayout {
    found.into_iter().reduce(ScoredLayout::better).expect("something is found")
}

fn print_distribution(what: &str, regrets: &mut [f64]) {
    regrets.sort_by(f64::total_cmp);
    let at = |share: f64| regrets[((regrets.len() - 1) as f64 * share).round() as usize] * 100.0;
    let none = regrets.iter().filter(|r| **r <= 1e-9).count();
    println!(
        "{what}: regret of {} workloads: none in {none}, median {:.2} %, 90 % {:.2} %, 95 % {:.2} %, worst {:.2} %",
        regrets.len(),
        at(0.5),
        at(0.9),
        at(0.95),
        at(1.0)
    );
}

#[test]
fn climbing_regrets_little_against_all_partitions() {
    let mut regrets = vec![];
    for seed in 0..100 {
        let columns = 3 + (seed % 6) as usize;
        let (model, work) = random_case(seed, columns, 2 + (seed % 11) as usize);
        let mut evaluator = evaluator(&model, &work, None);
        let base = Base::default();
        let climbed = best(grouped(&mut evaluator, &base, usize::MAX, &climbing()));
        let start = Layout::apart(columns, base);
        let yardstick = exhaustive(&mut evaluator, &singles(columns), &start);
        assert!(!climbed.score.beats(&yardstick.score), "seed {seed}: all partitions are never worse");
        regrets.push(climbed.score.ms / yardstick.score.ms - 1.0);
    }
    print_distribution("groups alone", &mut regrets);
    assert!(regrets[94] <= 0.1, "95 of 100 within 10 %");
}

/// All partitions in both page formats, in every order of at most two tested or requested columns.
fn best_of_all(evaluator: &mut Evaluator<'_>, work: &Workload, columns: usize) -> ScoredLayout {
    let tested = work.queries.iter().flat_map(|q| q.predicates.iter().map(|p| p.column).chain(q.order.iter().copied()));
    let mut tested: Vec<usize> = tested.collect();
    tested.sort_unstable();
    tested.dedup();
    let mut sorts = vec![vec![]];
    for &a in &tested {
        sorts.push(vec![a]);
        sorts.extend(tested.iter().filter(|b| **b != a).map(|&b| vec![a, b]));
    }
    let bases = sorts.into_iter().flat_map(|sort| {
        [PageFormat::Dense, PageFormat::Pax].map(|page| Base { page, sort: sort.clone(), ..Base::default() })
    });
    let found = bases.map(|base| exhaustive(evaluator, &singles(columns), &Layout::apart(columns, base)));
    found.reduce(ScoredLayout::better).expect("there is a base")
}

#[test]
fn the_whole_search_regrets_little_against_all_partitions_in_all_orders() {
    let mut regrets = vec![];
    for seed in 1000..1040 {
        let columns = 3 + (seed % 4) as usize;
        let (model, work) = random_case(seed, columns, 2 + (seed % 7) as usize);
        let mut evaluator = evaluator(&model, &work, None);
        // Options that the exhaustive comparison does not vary are fixed.
        let pins = Pins { page_size: Some(PAGE_SIZE_DEFAULT), cluster: Some(vec![]), ..Pins::default() };
        let options = SearchOptions { pins, limits: climbing(), ..SearchOptions::default() };
        let found = search(&mut evaluator, &Design::default(), &options);
        let yardstick = best_of_all(&mut evaluator, &work, columns);
        regrets.push(found[0].score.ms / yardstick.score.ms - 1.0);
    }
    print_distribution("groups and orders", &mut regrets);
    assert!(regrets[37] <= 0.1, "95 % within 10 %");
}

#[test]
fn wide_tables_are_never_worse_than_rows_columns_and_200_random_designs() {
    for seed in 0..6 {
        let columns = [12, 20, 30, 50][seed as usize % 4];
        let (model, work) = random_case(2000 + seed, columns, 40);
        let mut evaluator = evaluator(&model, &work, None);
        let found = &search(&mut evaluator, &Design::default(), &SearchOptions::default())[0];
        let advised = total(&model, &work, &evaluator.names.design(&found.layout));
        assert!((advised / found.score.ms - 1.0).abs() < 1e-9, "what is kept of the model is what it says");
        let mut rng = StdRng::seed_from_u64(seed);
        let random = (0..200).map(|_| random_design(&mut rng, columns));
        let presets = [Preset::Row, Preset::Column, Preset::Pax, Preset::Slotted].map(Design::preset);
        for design in presets.into_iter().chain(random.collect::<Vec<_>>()) {
            let ms = total(&model, &work, &design);
            assert!(advised <= ms * (1.0 + 1e-9), "seed {seed}: {advised} ms, but {design} takes {ms} ms");
        }
    }
}

#[test]
fn fifty_columns_and_a_hundred_queries_need_a_bounded_number_of_calls() {
    let (model, work) = random_case(77, 50, 100);
    let start = Instant::now();
    let mut evaluator = evaluator(&model, &work, None);
    let options = SearchOptions::default();
    let found = search(&mut evaluator, &Design::default(), &options);
    println!("50 columns, 100 queries: {} model calls, {:.2} s", evaluator.calls(), start.elapsed().as_secs_f64());
    assert_eq!(model.calls.get(), evaluator.calls(), "every call is counted");
    assert!(evaluator.calls() < 2 * options.limits.calls, "{} calls", evaluator.calls());
    assert!(found.len() > 1);
}

fn advised(model: &DiskModel, work: &Workload) -> Layout {
    let mut evaluator = evaluator(model, work, None);
    search(&mut evaluator, &Design::default(), &SearchOptions::default())[0].layout.clone()
}

#[test]
fn full_row_lookups_want_rows() {
    let model = DiskModel::new(&[8.0; 10]);
    let all: Vec<usize> = (0..10).collect();
    let lookup = query("lookup", 1.0, &all, &[(0, 1e-6, PredicateForm::Equal)]);
    let layout = advised(&model, &workload(vec![lookup]));
    assert_eq!(layout.groups(), [all]);
    assert_eq!(layout.base.sort, [0]);
}

#[test]
fn narrow_scans_want_columns() {
    let mut model = DiskModel::new(&[8.0; 10]);
    (model.seek_ms, model.group_ms) = (0.01, 0.0);
    let queries = (0..10).map(|c| query(&format!("q{c}"), 1.0, &[c, (c + 1) % 10], &[])).collect();
    let layout = advised(&model, &workload(queries));
    assert_eq!(layout.groups(), singles(10));
}

#[test]
fn two_hot_sets_make_two_groups() {
    let model = DiskModel::new(&[8.0; 8]);
    let queries = vec![query("left", 10.0, &[0, 1, 2], &[]), query("right", 10.0, &[4, 5, 6], &[])];
    let layout = advised(&model, &workload(queries));
    assert!(layout.groups().contains(&vec![0, 1, 2]) && layout.groups().contains(&vec![4, 5, 6]), "{layout:?}");
}

#[test]
fn several_tests_make_clusters_where_no_sort_serves_all() {
    let model = DiskModel::new(&[8.0; 6]);
    let range = |c| (c, 0.02, PredicateForm::Range);
    let queries = (0..3).map(|c| query(&format!("q{c}"), 1.0, &[3, 4], &[range(c)])).collect();
    let layout = advised(&model, &workload(queries));
    assert_eq!(layout.base.cluster.len(), 3, "{layout:?}");
}

#[test]
fn no_design_beyond_the_budget_beats_one_within() {
    let model = DiskModel::new(&[8.0; 6]);
    let work = workload(vec![query("scan", 1.0, &[0, 1], &[])]);
    let slotted = model.bytes(&Design::preset(Preset::Slotted));
    let column = model.bytes(&Design::preset(Preset::Column));
    let mut evaluator = evaluator(&model, &work, Some((slotted + column) / 2.0));
    let found = search(&mut evaluator, &Design::preset(Preset::Slotted), &SearchOptions::default());
    assert!(found[0].score.excess == 0.0 && evaluator.bytes(&found[0].layout) <= (slotted + column) / 2.0);
    let first_over = found.iter().position(|f| f.score.excess > 0.0).unwrap_or(found.len());
    assert!(found[first_over..].iter().all(|f| f.score.excess > 0.0), "those beyond it are last");
}

/// Two tables that differ only in the order of their columns get the same advice.
#[test]
fn columns_order_does_not_matter() {
    for seed in 0..20 {
        let columns = 3 + seed as usize % 5;
        let (model, work) = random_case(seed, columns, 6);
        let mirror = |c: usize| columns - 1 - c;
        let mut other = random_case(seed, columns, 6).0;
        other.widths.reverse();
        let mut mirrored = work.clone();
        for query in &mut mirrored.queries {
            query.columns = query.columns.iter().rev().map(|c| mirror(*c)).collect();
            query.order.iter_mut().for_each(|c| *c = mirror(*c));
            query.predicates.iter_mut().for_each(|p| p.column = mirror(p.column));
        }
        let of = |model: &DiskModel, work: &Workload| {
            let mut evaluator = evaluator(model, work, None);
            let start = Layout::apart(columns, Base::default());
            exhaustive(&mut evaluator, &singles(columns), &start).score.ms
        };
        assert!((of(&model, &work) / of(&other, &mirrored) - 1.0).abs() < 1e-9);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_design_found_holds_each_column_once(seed in 0u64..1_000_000, columns in 1usize..12, queries in 1usize..6) {
        let (model, work) = random_case(seed, columns, queries);
        let mut evaluator = evaluator(&model, &work, None);
        for found in search(&mut evaluator, &Design::default(), &SearchOptions::default()) {
            let mut all: Vec<usize> = found.layout.groups().iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..columns).collect::<Vec<_>>());
            let design = evaluator.names.design(&found.layout);
            let options = design.to_options();
            let read = Design::default().with_options(options.iter().map(|(n, v)| (*n, v.as_str())), &model.schema);
            prop_assert_eq!(read.expect("what is advised is valid SQL"), design.clone());
            let kept = evaluator.names.layout(&design);
            prop_assert_eq!(kept.groups(), found.layout.groups());
            let exact = total(&model, &work, &design);
            prop_assert!((exact - found.score.ms).abs() <= 1e-9 * exact, "{} {}", exact, found.score.ms);
        }
    }

    #[test]
    fn all_partitions_are_never_worse_than_a_climb(seed in 0u64..1_000_000, columns in 2usize..7) {
        let (model, work) = random_case(seed, columns, 4);
        let mut evaluator = evaluator(&model, &work, None);
        let start = Layout::apart(columns, Base::default());
        let yardstick = exhaustive(&mut evaluator, &singles(columns), &start);
        for steps in [Steps::MERGE, Steps::SPLIT, Steps::ALL] {
            let climbed = climb(&mut evaluator, start.clone(), steps, usize::MAX);
            prop_assert!(!climbed.score.beats(&yardstick.score));
        }
    }
}
