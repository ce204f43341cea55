//! The advice before and after measurements.

mod common;

use common::{DiskModel, query, random_case, workload};
use freestone_advisor::advice::{Existing, MeasuredQuery, Measurement, Proposal};
use freestone_advisor::search::Pins;
use freestone_advisor::{Advice, CostModel, Options, PathTest, PredicateForm, Workload, advise, what_if};
use freestone_store::design::{Design, MediumKind, Preset};

fn preset(preset: Preset) -> Design {
    Design::preset(preset)
}

/// Reports over few columns with tests that no order helps, like most of TPC-H's queries on lineitem.
fn reports() -> (DiskModel, Workload) {
    let mut model = DiskModel::new(&[8.0, 8.0, 8.0, 4.0, 8.0, 8.0, 8.0, 8.0, 1.0, 1.0, 4.0, 4.0, 4.0, 12.0, 5.0, 27.0]);
    model.rows = 6e6;
    (model.seek_ms, model.buffer, model.group_ms) = (0.1, 6e6, 0.0);
    let sets: [&[usize]; 6] =
        [&[4, 5, 6, 7, 8, 9, 10], &[0, 5, 6, 10], &[4, 5, 6, 10], &[1, 4, 5, 6], &[0, 2, 5, 6], &[0, 14]];
    let queries = sets.iter().enumerate().map(|(n, set)| query(&format!("q{n}"), 1.0, set, &[])).collect();
    (model, workload(queries))
}

fn lookups() -> (DiskModel, Workload) {
    let all: Vec<usize> = (0..10).collect();
    let lookup = query("lookup", 100.0, &all, &[(0, 1e-6, PredicateForm::Equal)]);
    (DiskModel::new(&[8.0; 10]), workload(vec![lookup, query("scan", 1.0, &[3], &[])]))
}

#[test]
fn reports_keep_their_columns() {
    let (model, work) = reports();
    let advice = advise(&model, &work, &preset(Preset::Column), &Options::default()).unwrap();
    assert!(advice.keep && advice.recommended().is_none(), "{advice}");
    assert!(advice.reason.contains("columns are already best") || advice.reason.contains("error"), "{}", advice.reason);
    let advice = advise(&model, &work, &preset(Preset::Row), &Options::default()).unwrap();
    let best = advice.recommended().expect("rows are expensive here");
    assert!(best.design.groups.iter().all(|g| g.len() < 8) && best.design.preset != Preset::Row, "{advice}");
}

#[test]
fn lookups_are_converted_and_the_conversion_pays() {
    let (model, work) = lookups();
    let options = Options { table: "my \"table\"".into(), ..Options::default() };
    let advice = advise(&model, &work, &preset(Preset::Column), &options).unwrap();
    let best = advice.recommended().expect("lookups gain");
    assert_eq!((best.design.preset, best.design.sort.as_slice()), (Preset::Row, &["c0".to_owned()][..]), "{advice}");
    assert_eq!(best.apply, "ALTER TABLE \"my \"\"table\"\"\" SET DESIGN (preset = 'row', sort = 'c0');");
    assert_eq!(best.revert, "ALTER TABLE \"my \"\"table\"\"\" SET DESIGN (preset = 'column');");
    let saved = advice.current.total.ms - best.total.ms;
    assert!((best.break_even_runs.unwrap() - model.conversion(&best.design).ms / saved).abs() < 1e-9);
    // Winners and losers: the lookup wins, and the scan of one column loses.
    assert!(best.queries[0].ratio > 1.0 && best.queries[1].ratio < 1.0, "{advice}");
    assert!(advice.designs.is_sorted_by(|a, b| a.total.ms <= b.total.ms));
}

#[test]
fn advice_is_json_and_text() {
    let (model, work) = lookups();
    let options = Options { max_copies: 2, ..Options::default() };
    let advice = advise(&model, &work, &preset(Preset::Column), &options).unwrap();
    let json = serde_json::to_string_pretty(&advice).unwrap();
    let again: Advice = serde_json::from_str(&json).unwrap();
    // Numbers are equal except for their last digit.
    assert_eq!(again.to_string(), advice.to_string());
    assert!(again.designs.iter().map(|p| &p.design).eq(advice.designs.iter().map(|p| &p.design)));
    let text = advice.to_string();
    for part in
        ["table t: convert", "now", "paid after", "ratio", "lookup", "ALTER TABLE \"t\" SET DESIGN", "to go back"]
    {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(text.contains("1 win, 1 lose"), "{text}");
}

#[test]
fn pins_and_considered_designs_are_kept() {
    let (model, work) = lookups();
    let pins = Pins { sort: Some(vec![]), groups: Some(vec![vec!["c1".into(), "c2".into()]]), ..Pins::default() };
    let consider = vec![preset(Preset::Slotted)];
    let options = Options { pins, consider, ..Options::default() };
    let advice = advise(&model, &work, &preset(Preset::Column), &options).unwrap();
    assert!(advice.designs.iter().any(|p| p.design == preset(Preset::Slotted)));
    for proposal in advice.designs.iter().filter(|p| p.design.preset != Preset::Slotted) {
        assert!(proposal.design.sort.is_empty() && proposal.design.groups == [["c1", "c2"]], "{}", proposal.design);
    }
    let wrong = Options { pins: Pins { sort: Some(vec!["z".into()]), ..Pins::default() }, ..Options::default() };
    assert!(advise(&model, &work, &preset(Preset::Column), &wrong).unwrap_err().to_string().contains("no column z"));
}

#[test]
fn memory_is_advised_only_where_it_is_allowed() {
    let (model, work) = lookups();
    let medium = |memory| {
        let options = Options { memory, ..Options::default() };
        let advice = advise(&model, &work, &preset(Preset::Column), &options).unwrap();
        advice.designs[0].design.medium
    };
    assert_eq!(medium(None), MediumKind::Disk);
    assert_eq!(medium(Some(1e6)), MediumKind::Disk, "80 MB do not fit into 1");
    assert_eq!(medium(Some(1e9)), MediumKind::Memory);
}

#[test]
fn a_budget_is_never_exceeded() {
    let (model, work) = lookups();
    let bytes = model.bytes(&preset(Preset::Column));
    for (factor, copies) in [(0.5, 1), (1.0, 1), (1.2, 3), (2.5, 3)] {
        let budget = Some(bytes * factor);
        let options =
            Options { budget, max_copies: copies, consider: vec![preset(Preset::Slotted)], ..Options::default() };
        let advice = advise(&model, &work, &preset(Preset::Slotted), &options).unwrap();
        assert!(advice.designs.iter().all(|p| p.bytes <= bytes * factor));
        assert!(advice.copies.iter().all(|set| set.bytes <= bytes * factor && set.copies.len() <= copies));
        // Slotted pages need three times the bytes of these columns' values, so they exceed the smaller budgets.
        if advice.current.bytes > bytes * factor {
            assert_eq!(advice.keep, advice.designs.is_empty(), "{advice}");
            assert!(advice.reason.contains("budget"), "{}", advice.reason);
        }
    }
}

#[test]
fn copies_serve_what_no_single_design_does() {
    let mut model = DiskModel::new(&[8.0; 12]);
    model.rows = 2e6;
    let all: Vec<usize> = (0..12).collect();
    let queries = vec![
        query("lookup by key", 200.0, &all, &[(0, 1e-6, PredicateForm::Equal)]),
        query("lookup by customer", 200.0, &all, &[(1, 1e-6, PredicateForm::Equal)]),
        query("report", 2.0, &[4, 5], &[]),
    ];
    let work = workload(queries);
    let pins = Pins { cluster: Some(vec![]), sort: None, ..Pins::default() };
    let of = |copies| {
        let options = Options { max_copies: copies, pins: pins.clone(), ..Options::default() };
        advise(&model, &work, &preset(Preset::Column), &options).unwrap()
    };
    assert!(of(1).copies.is_none());
    let (two, three) = (of(2), of(3));
    let (two_set, three_set) = (two.copies.expect("two orders"), three.copies.expect("three copies"));
    assert!(two_set.ms < two.designs[0].total.ms && three_set.ms < two_set.ms);
    let served: Vec<&String> = three_set.copies.iter().flat_map(|c| &c.queries).collect();
    assert_eq!(served.len(), 3, "each query has one copy: {served:?}");
    let narrow = three_set.copies.iter().find(|c| !c.columns.is_empty()).expect("a report needs two columns only");
    assert_eq!(narrow.columns, ["c4", "c5"]);
    let apply = narrow.apply.as_deref().expect("it is not there yet");
    assert!(
        apply.starts_with("ALTER TABLE \"t\" ADD COPY \"copy_") && apply.contains(" (\"c4\", \"c5\") WITH ("),
        "{apply}"
    );
}

#[test]
fn copies_that_are_there_are_counted_kept_and_dropped() {
    let mut model = DiskModel::new(&[8.0; 12]);
    model.rows = 2e6;
    let all: Vec<usize> = (0..12).collect();
    let queries =
        vec![query("lookup", 200.0, &all, &[(0, 1e-6, PredicateForm::Equal)]), query("report", 2.0, &[4, 5], &[])];
    let (work, pins) = (workload(queries), Pins { cluster: Some(vec![]), ..Pins::default() });
    let now = preset(Preset::Column);
    let names: Vec<&str> = all.iter().map(|column| model.column_name(*column)).collect();
    let existing = |name: &str, columns: &[usize], sort: &[&str]| {
        let sort = sort.iter().map(|name| (*name).to_owned()).collect();
        let design = Design { sort, ..preset(Preset::Row) };
        Existing { bytes: 1e6, ..Existing::new(name.into(), design, columns.to_vec(), &names) }
    };
    let with = |existing: Vec<Existing>| {
        let options = Options { max_copies: 2, existing, pins: pins.clone(), ..Options::default() };
        advise(&model, &work, &now, &options).unwrap()
    };
    let before = with(vec![]);
    let sorted = existing("sorted", &all, &["c0"]);
    let useless = existing("copy_1", &[7], &[]);
    let after = with(vec![sorted.clone(), useless]);
    // An existing copy improves the current cost, and is no longer a gain.
    assert!(after.current.total.ms * 2.0 < before.current.total.ms);
    // A copy that is not read saves nothing, but has its name and takes its space.
    let stale = Existing { is_current: false, ..existing("copy_1", &all, &["c0"]) };
    let with_stale = with(vec![stale.clone()]);
    assert_eq!(with_stale.current.total, before.current.total);
    let changes = with_stale.changes();
    assert!(
        changes[0].0.contains("DROP COPY \"copy_1\"") && changes.iter().any(|c| c.0.contains("ADD COPY \"copy_2\""))
    );
    let options = Options { existing: vec![stale], budget: Some(1e6), ..Options::default() };
    assert!(advise(&model, &work, &now, &options).unwrap().reason.contains("budget"));
    let [(drop, add)] = &after.unused[..] else { panic!("one copy is unused: {:?}", after.unused) };
    assert_eq!(drop, "ALTER TABLE \"t\" DROP COPY \"copy_1\";");
    assert!(add.starts_with("ALTER TABLE \"t\" ADD COPY \"copy_1\" (\"c7\") WITH ("), "{add}");
    let advised = before.copies.expect("a sorted copy pays");
    let made = advised.copies.iter().enumerate().skip(1).map(|(at, copy)| {
        let columns = match copy.columns.is_empty() {
            true => all.clone(),
            false => copy.columns.iter().map(|name| name[1..].parse().unwrap()).collect(),
        };
        Existing { bytes: copy.bytes, ..Existing::new(format!("copy_{at}"), copy.design.clone(), columns, &names) }
    });
    let options = Options { max_copies: 2, existing: made.collect(), pins: pins.clone(), ..Options::default() };
    let again = advise(&model, &work, &advised.copies[0].design, &options).unwrap();
    assert!(again.keep && again.changes().is_empty(), "{again}");
}

#[test]
fn what_if_is_the_same_as_advice() {
    let (model, work) = lookups();
    let (now, options) = (preset(Preset::Column), Options::default());
    let advice = advise(&model, &work, &now, &options).unwrap();
    let best = &advice.designs[0];
    assert_eq!(&what_if(&model, &work, &now, &best.design, &options).unwrap(), best);
    assert_eq!(what_if(&model, &work, &now, &now, &options).unwrap().break_even_runs, None);
}

fn measured(advice: &Advice, design: &Design, factor: f64, noise_ms: f64) -> Measurement {
    let proposals = [&advice.current].into_iter().chain(&advice.designs);
    let proposal = proposals.into_iter().find(|p| p.design == *design).unwrap();
    let one = |ms: f64| Some(MeasuredQuery { ms: ms * factor, noise_ms, predicted_ms: Some(ms) });
    Measurement { design: design.clone(), queries: proposal.queries.iter().map(|q| one(q.cost.ms)).collect() }
}

#[test]
fn measuring_ranks_anew_and_turns_to_keep_within_the_noise() {
    let (model, work) = lookups();
    let advice = advise(&model, &work, &preset(Preset::Column), &Options::default()).unwrap();
    let now = advice.current.design.clone();
    let (first, second) = (advice.designs[0].design.clone(), advice.designs[1].design.clone());
    let confirmed = |factors: [f64; 3], noise_ms| {
        let mut advice = advice.clone();
        let designs = [&now, &first, &second].into_iter().zip(factors);
        let all: Vec<_> = designs.map(|(design, factor)| measured(&advice, design, factor, noise_ms)).collect();
        advice.confirm(&all).unwrap();
        advice
    };
    let good = confirmed([1.0, 1.1, 1.1], 0.0);
    assert!(!good.keep && good.designs[0].design == first, "{good}");
    assert!((good.confirmed.unwrap().model_error.unwrap() - (1.0 - 1.0 / 1.1)).abs() < 1e-9);
    let swapped = confirmed([1.0, 1000.0, 1.0], 0.0);
    assert_eq!(swapped.designs[0].design, second);
    let slower = confirmed([1e-3, 1.0, 1.0], 0.0);
    assert!(slower.keep && slower.reason.contains("no other design is faster"), "{}", slower.reason);
    let noisy = confirmed([1.0, 1.0, 1.0], 1e6);
    assert!(noisy.keep && noisy.reason.contains("noise"), "{}", noisy.reason);
    let text = good.to_string();
    assert!(text.contains("3 designs measured on a sample; the model's error: 9 %"), "{text}");

    let mut advice = advice.clone();
    let alone = [measured(&advice, &first, 1.0, 0.0)];
    assert!(advice.confirm(&alone).unwrap_err().to_string().contains("current design"));
}

#[test]
fn a_design_in_which_a_query_loses_is_not_advised() {
    let (model, work) = lookups();
    let advice = advise(&model, &work, &preset(Preset::Column), &Options::default()).unwrap();
    let now = advice.current.design.clone();
    let (first, second) = (advice.designs[0].design.clone(), advice.designs[1].design.clone());
    // The times of the lookups and of the scan in the three designs. There are a hundred lookups for each scan.
    let confirmed = |lookups: [f64; 3], scans: [f64; 3]| {
        let mut advice = advice.clone();
        let measured = |(design, (lookup, scan)): (&Design, (f64, f64))| {
            let one = |ms: f64| Some(MeasuredQuery { ms, noise_ms: 0.01, predicted_ms: None });
            Measurement { design: design.clone(), queries: vec![one(lookup), one(scan)] }
        };
        let times = lookups.into_iter().zip(scans);
        let all: Vec<_> = [&now, &first, &second].into_iter().zip(times).map(measured).collect();
        advice.confirm(&all).unwrap();
        advice
    };
    // The other design gains less, and no query loses in it.
    let other = confirmed([10.0, 1.0, 5.0], [500.0, 600.0, 450.0]);
    assert!(!other.keep && other.designs[0].design == second, "{other}");
    let none = confirmed([10.0, 1.0, 10.5], [500.0, 600.0, 500.0]);
    assert!(none.keep && none.reason.contains("`scan` loses: 600 ms instead of 500"), "{none}");
    let little = confirmed([10.0, 9.5, 10.5], [500.0, 480.0, 500.0]);
    assert!(little.keep && little.reason.contains("10 %"), "{little}");
    // What takes hardly any time may lose, and is named.
    let won = confirmed([10.0, 1.0, 5.0], [5.0, 8.0, 5.0]);
    assert!(!won.keep && won.designs[0].design == first && won.reason.contains("`scan` loses"), "{won}");
    assert_eq!(won.designs[0].queries[0].ratio, 10.0);
}

#[test]
fn what_statements_do_above_their_scans_stays() {
    let (model, mut work) = lookups();
    let advised = |work: &Workload| advise(&model, work, &preset(Preset::Column), &Options::default()).unwrap();
    assert!(advised(&work).designs[0].statements.is_none(), "no time is known");
    // Half of the first statement is its scan. For the second, the prediction exceeds the whole time, and only planning
    // is excluded.
    const PLANNING_MS: f64 = 0.5;
    let scans: Vec<f64> = advised(&work).current.queries.iter().map(|q| q.cost.ms).collect();
    work.queries[0].statement_ms = Some(scans[0] * 2.0);
    work.queries[1].statement_ms = Some(scans[1] / 2.0);
    let mut advice = advised(&work);
    let expected = |then: [f64; 2]| {
        let [first, second] = [&work.queries[0], &work.queries[1]].map(|q| q.weight);
        let rest = scans[1] / 2.0 - PLANNING_MS;
        first * scans[0] * (1.0 + then[0]) + second * (PLANNING_MS + rest * then[1])
    };
    let check = |best: &Proposal, then: [f64; 2]| {
        let found = best.statements.unwrap().then_ms;
        assert!((found / expected(then) - 1.0).abs() < 1e-9, "{found} ms, not {}", expected(then));
    };
    let best = advice.designs[0].clone();
    check(&best, [best.queries[0].cost.ms / scans[0], best.queries[1].cost.ms / scans[1]]);
    // A measurement on the sample has precedence over a prediction.
    let now = advice.current.design.clone();
    let all = [measured(&advice, &now, 1.0, 0.0), measured(&advice, &best.design, 0.5, 0.0)];
    advice.confirm(&all).unwrap();
    check(&advice.designs[0], [best.queries[0].cost.ms / scans[0] / 2.0, best.queries[1].cost.ms / scans[1] / 2.0]);
    assert!(advice.to_string().contains("whole statements in design 1: predicted"), "{advice}");
}

#[test]
fn joins_take_less_where_a_design_leaves_them_fewer_rows() {
    let (model, mut work) = lookups();
    let path = vec!["c0".into(), "name".into()];
    work.queries[0].paths = vec![PathTest { path, selectivity: 1e-6, form: PredicateForm::Equal }];
    let advised = |work: &Workload| advise(&model, work, &preset(Preset::Column), &Options::default()).unwrap();
    let scan = advised(&work).current.queries[0].cost.ms;
    work.queries[0].statement_ms = Some(scan + 20.5);
    let best = advised(&work).designs[0].clone();
    let query = &best.queries[0];
    assert!(query.joined < 1e-3, "{}", query.joined);
    let expected = 0.5 + 20.0 * query.joined + query.cost.ms;
    let found = best.statements.unwrap().then_ms / work.queries[0].weight;
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} ms, not {expected}");
}

#[test]
fn workloads_that_make_no_sense_are_refused_by_name() {
    let (model, mut work) = random_case(1, 4, 3);
    let check = |work: &Workload, part: &str| {
        let error = advise(&model, work, &Design::default(), &Options::default()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    check(&Workload::default(), "no query on t");
    work.queries[1].weight = -1.0;
    check(&work, "query q1: weight -1");
    work.queries[1].weight = 1.0;
    work.queries[2].columns = vec![9];
    check(&work, "query q2: column 9");
}
