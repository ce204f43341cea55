//! Joins, aggregations and top rows compared with models that are too simple to be wrong, with NULL, NaN, both zeros, texts of
//! all lengths, batches at the borders of vectors, and one or several threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::StringViewArray;
use arrow_schema::DataType;
use freestone_exec::accumulators::{Count, Extreme, ExtremeText, FloatSum, MakeAccumulator, RowCount, Sum, SumResult};
use freestone_exec::aggregate::{Aggregation, Call};
use freestone_exec::direct::KeyDomain;
use freestone_exec::error::{ExecError, Result};
use freestone_exec::first_rows::{self, FirstRows};
use freestone_exec::join::{Condition, Join, Kind, Pick, Plan};
use freestone_exec::pipeline::{Branch, Context, Feed, Inputs, Sink, Stage, Step, Unlimited};
use freestone_exec::program::{Node, Program};
use freestone_exec::quantiles::{Place, Quantile, quantiles};
use freestone_exec::rows::Field;
use freestone_exec::run::{Output, run};
use freestone_exec::sort::{SortKey, Top};
use freestone_exec::vector::{Batch, Dictionary, Form, Texts, Values, Vector};
use freestone_exec::windows::{self, Bound, Frame, Function, PartitionKey, Windows};
use parking_lot::Mutex;
use proptest::prelude::*;

/// A value of a row.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
enum Cell {
    Null,
    Int(i64),
    Float(f64),
    Text(String),
    Bit(bool),
}

impl Cell {
    /// A form in which equal keys are equal.
    fn key(&self) -> String {
        match self {
            Cell::Float(v) if v.is_nan() => "NaN".to_owned(),
            Cell::Float(v) => format!("{:?}", v + 0.0),
            other => format!("{other:?}"),
        }
    }
}

type Row = Vec<Cell>;

/// The rows of the first input through a sink, and its results.
fn through(sink: Arc<dyn Sink>, results: Branch) -> [Stage; 2] {
    [Stage { branches: vec![input(0, vec![])], sink: Some(sink) }, Stage { branches: vec![results], sink: None }]
}

fn form(kind: usize) -> Form {
    [Form::Int, Form::Float, Form::Text, Form::Bits][kind % 4]
}

fn data_type(form: Form) -> DataType {
    match form {
        Form::Int => DataType::Int64,
        Form::Float => DataType::Float64,
        Form::Text => DataType::Utf8View,
        Form::Bits => DataType::Boolean,
        _ => unreachable!("no other form"),
    }
}

fn cell(form: Form) -> BoxedStrategy<Cell> {
    let value = match form {
        Form::Int => prop_oneof![4 => 0i64..6, 1 => Just(i64::MIN), 1 => Just(i64::MAX)].prop_map(Cell::Int).boxed(),
        Form::Float => {
            prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(-f64::NAN), Just(f64::INFINITY), Just(1.5)]
                .prop_map(Cell::Float)
                .boxed()
        }
        Form::Text => {
            (0usize..5).prop_map(|at| Cell::Text("twelve bytes and more".repeat(at)[..at * 5].to_owned())).boxed()
        }
        _ => any::<bool>().prop_map(Cell::Bit).boxed(),
    };
    prop_oneof![5 => value, 1 => Just(Cell::Null)].boxed()
}

fn rows(forms: Vec<Form>, most: usize) -> BoxedStrategy<Vec<Row>> {
    let row: Vec<BoxedStrategy<Cell>> = forms.into_iter().map(cell).collect();
    proptest::collection::vec(row, 0..most).boxed()
}

/// The column of some rows; texts as codes of a dictionary where `coded`.
fn vector(rows: &[Row], column: usize, form: Form, coded: bool) -> Vector {
    let cells = || rows.iter().map(|row| &row[column]);
    let valid: Vec<bool> = cells().map(|cell| *cell != Cell::Null).collect();
    let values = match form {
        Form::Int => {
            Values::Int(cells().map(|c| if let Cell::Int(v) = c { *v } else { 77 }).collect::<Vec<_>>().into())
        }
        Form::Float => {
            Values::Float(cells().map(|c| if let Cell::Float(v) = c { *v } else { 7.7 }).collect::<Vec<_>>().into())
        }
        Form::Text => {
            let texts: Vec<&str> = cells().map(|c| if let Cell::Text(v) = c { v.as_str() } else { "" }).collect();
            if coded {
                let mut distinct = texts.clone();
                distinct.sort_unstable();
                distinct.dedup();
                let code = |text: &&str| distinct.binary_search(text).expect("it is one of them") as u32;
                let codes: Vec<u32> = texts.iter().map(code).collect();
                let dictionary = Dictionary::ascending(StringViewArray::from_iter_values(&distinct));
                Values::Codes(codes.into(), Arc::new(dictionary))
            } else {
                Values::Text(Texts::of(&StringViewArray::from_iter_values(texts)))
            }
        }
        _ => Values::Bits(cells().map(|c| *c == Cell::Bit(true)).collect::<Vec<_>>().into()),
    };
    Vector::with_nulls(values, Some(valid.into()))
}

fn cells(batch: &Batch) -> Vec<Row> {
    let cell = |column: &Vector, row: usize| match &column.values {
        _ if column.is_null(row) => Cell::Null,
        Values::Int(v) => Cell::Int(v[row]),
        Values::Wide(v) => Cell::Int(v[row] as i64),
        Values::Float(v) => Cell::Float(v[row]),
        Values::Bits(v) => Cell::Bit(v.value(row)),
        _ => Cell::Text(String::from_utf8(column.text(row).to_vec()).expect("text")),
    };
    (0..batch.rows).map(|row| batch.columns.iter().map(|column| cell(column, row)).collect()).collect()
}

/// Batches as an input, of so many rows each.
struct Batches {
    inputs: Vec<Mutex<(usize, std::vec::IntoIter<Batch>)>>,
}

fn batches(rows: &[Row], forms: &[Form], each: usize) -> Vec<Batch> {
    let batch = |(at, rows): (usize, &[Row])| Batch {
        rows: rows.len(),
        columns: forms.iter().enumerate().map(|(column, form)| vector(rows, column, *form, at % 2 == 0)).collect(),
    };
    rows.chunks(each.max(1)).enumerate().map(batch).collect()
}

impl Inputs for Batches {
    fn next(&self, input: usize) -> Result<Option<(usize, Batch)>> {
        let mut input = self.inputs[input].lock();
        input.0 += 1;
        Ok(input.1.next().map(|batch| (input.0 - 1, batch)))
    }
}

#[derive(Default)]
struct Collected(Mutex<Vec<Row>>);

impl Output for Collected {
    fn begin(&self) {}
    fn push(&self, _: usize, batch: Batch) -> Result<()> {
        self.0.lock().extend(cells(&batch));
        Ok(())
    }
    fn end(&self, _: usize) -> Result<()> {
        Ok(())
    }
    fn stop(&self) {}
}

fn input(number: usize, steps: Vec<Arc<dyn Step>>) -> Branch {
    Branch { feed: Feed::Input(number), steps }
}

fn executed(stages: &[Stage], inputs: Vec<Vec<Batch>>, context: &Arc<dyn Context>) -> Vec<Row> {
    let inputs = Batches { inputs: inputs.into_iter().map(|batches| Mutex::new((0, batches.into_iter()))).collect() };
    let output = Arc::new(Collected::default());
    let shared: Arc<dyn Output> = output.clone();
    let inputs: Arc<dyn Inputs> = Arc::new(inputs);
    run(stages, &inputs, context, &shared).expect("it runs");
    std::mem::take(&mut *output.0.lock())
}

/// The rows of a join of two inputs: the build side and the probe side.
fn executed_join(plan: Plan, inputs: Vec<Vec<Batch>>, context: &Arc<dyn Context>) -> Vec<Row> {
    let returns_build = plan.kind.returns_build();
    let join = Join::new(plan, context.clone());
    let mut last = vec![input(1, vec![Arc::new(join.clone())])];
    if returns_build {
        last.push(Branch { feed: Feed::Source(join.rest()), steps: vec![] });
    }
    let sink: Arc<dyn Sink> = Arc::new(join);
    let build = Stage { branches: vec![input(0, vec![])], sink: Some(sink) };
    executed(&[build, Stage { branches: last, sink: None }], inputs, context)
}

fn sorted(mut rows: Vec<Row>) -> Vec<String> {
    let mut shown: Vec<String> =
        rows.drain(..).map(|row| row.iter().map(Cell::key).collect::<Vec<_>>().join("|")).collect();
    shown.sort_unstable();
    shown
}

fn fields(forms: &[Form], keys: usize) -> Vec<Field> {
    let field = |(at, form): (usize, &Form)| Field {
        form: *form,
        data_type: data_type(*form),
        nullable: true,
        is_key: at < keys,
    };
    forms.iter().enumerate().map(field).collect()
}

const KINDS: [Kind; 10] = [
    Kind::Inner,
    Kind::BuildOuter,
    Kind::ProbeOuter,
    Kind::Full,
    Kind::BuildSemi,
    Kind::BuildAnti,
    Kind::BuildMark,
    Kind::ProbeSemi,
    Kind::ProbeAnti,
    Kind::ProbeMark,
];

fn joined(kind: Kind, build: &[Row], probe: &[Row], keys: usize, nulls: bool, condition: bool) -> Vec<Row> {
    let is_pair = |a: &Row, b: &Row| {
        let equal = (0..keys).all(|key| a[key].key() == b[key].key() && (nulls || a[key] != Cell::Null));
        let passes = match (&a[keys], &b[keys]) {
            (Cell::Int(x), Cell::Int(y)) => x < y,
            _ => false,
        };
        equal && (!condition || passes)
    };
    paired(kind, build, probe, keys + 1, is_pair)
}

/// What a join of rows with so many columns returns.
fn paired(kind: Kind, build: &[Row], probe: &[Row], width: usize, is_pair: impl Fn(&Row, &Row) -> bool) -> Vec<Row> {
    let none = |of: &[Row], width: usize| vec![Cell::Null; of.first().map_or(width, Vec::len)];
    let mut result = vec![];
    let pairs = |a: &Row, b: &Row| [b.clone(), a.clone()].concat();
    for b in probe {
        let found: Vec<&Row> = build.iter().filter(|a| is_pair(a, b)).collect();
        match kind {
            Kind::Inner | Kind::BuildOuter => result.extend(found.iter().map(|a| pairs(a, b))),
            Kind::ProbeOuter | Kind::Full => {
                result.extend(found.iter().map(|a| pairs(a, b)));
                if found.is_empty() {
                    result.push([b.clone(), none(build, width)].concat());
                }
            }
            Kind::ProbeSemi if !found.is_empty() => result.push(b.clone()),
            Kind::ProbeAnti if found.is_empty() => result.push(b.clone()),
            Kind::ProbeMark => result.push([b.clone(), vec![Cell::Bit(!found.is_empty())]].concat()),
            _ => {}
        }
    }
    for a in build {
        let has_pair = probe.iter().any(|b| is_pair(a, b));
        match kind {
            Kind::BuildOuter | Kind::Full if !has_pair => result.push([none(probe, width), a.clone()].concat()),
            Kind::BuildSemi if has_pair => result.push(a.clone()),
            Kind::BuildAnti if !has_pair => result.push(a.clone()),
            Kind::BuildMark => result.push([a.clone(), vec![Cell::Bit(has_pair)]].concat()),
            _ => {}
        }
    }
    result
}

fn output(kind: Kind, width: usize) -> Vec<Pick> {
    let (build, probe) = ((0..width).map(Pick::Build), (0..width).map(Pick::Probe));
    match kind {
        Kind::BuildSemi | Kind::BuildAnti => build.collect(),
        Kind::ProbeSemi | Kind::ProbeAnti => probe.collect(),
        Kind::BuildMark => build.chain([Pick::Mark]).collect(),
        Kind::ProbeMark => probe.chain([Pick::Mark]).collect(),
        _ => probe.chain(build).collect(),
    }
}

fn less_than(left: usize, right: usize) -> Condition {
    let mut program = Program::default();
    let (a, b) = (program.add(Node::Column(0)), program.add(Node::Column(1)));
    let less = program.add(Node::Compare(freestone_exec::arithmetic::Comparison::Less, a, b));
    program.output(less, Form::Bits);
    Condition { columns: vec![Pick::Build(left), Pick::Probe(right)], program: Arc::new(program) }
}

/// The first key of the build side is at most that of the probe side, and the second one at least; or the other way around.
fn between(keys: usize, is_below: bool, strict: bool) -> Condition {
    use freestone_exec::arithmetic::Comparison::{Less, LessOrEqual};
    let mut program = Program::default();
    let mut all = None;
    for key in 0..keys {
        let (a, b) = (program.add(Node::Column(2 * key)), program.add(Node::Column(2 * key + 1)));
        let (a, b) = if is_below == (key == 0) { (a, b) } else { (b, a) };
        let passes = program.add(Node::Compare(if strict { Less } else { LessOrEqual }, a, b));
        all = Some(all.map_or(passes, |all| program.add(Node::And(all, passes))));
    }
    program.output(all.expect("a key"), Form::Bits);
    let columns = (0..keys).flat_map(|key| [Pick::Build(key), Pick::Probe(key)]).collect();
    Condition { columns, program: Arc::new(program) }
}

#[derive(Debug, Clone)]
struct JoinCase {
    kind: Kind,
    forms: Vec<Form>,
    build: Vec<Row>,
    probe: Vec<Row>,
    nulls: bool,
    condition: bool,
    each: usize,
    threads: usize,
}

fn join_case() -> impl Strategy<Value = JoinCase> {
    let forms = proptest::collection::vec(0usize..4, 1..3);
    (forms, 0usize..10, any::<bool>(), any::<bool>(), 1usize..70, 1usize..4).prop_flat_map(
        |(kinds, kind, nulls, condition, each, threads)| {
            let mut forms: Vec<Form> = kinds.into_iter().map(form).collect();
            forms.push(Form::Int);
            (rows(forms.clone(), 60), rows(forms.clone(), 60)).prop_map(move |(build, probe)| JoinCase {
                kind: KINDS[kind],
                forms: forms.clone(),
                build,
                probe,
                nulls,
                condition,
                each,
                threads,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("FREESTONE_FUZZ").is_some() { 20_000 } else { 600 }))]

    #[test]
    fn joins_give_the_pairs_of_nested_loops(case in join_case()) {
        let JoinCase { kind, forms, build, probe, nulls, condition, each, threads } = case;
        let keys = forms.len() - 1;
        let context: Arc<dyn Context> = Arc::new(Unlimited(threads));
        let plan = Plan {
            kind,
            build: fields(&forms, keys),
            probe: fields(&forms, keys),
            keys,
            by_range: None,
            null_equals_null: nulls,
            condition: condition.then(|| less_than(keys, keys)),
            output: output(kind, forms.len()),
            on_built: None,
        };
        let found = executed_join(plan, vec![batches(&build, &forms, each), batches(&probe, &forms, each)], &context);
        prop_assert_eq!(sorted(found), sorted(joined(kind, &build, &probe, keys, nulls, condition)));
    }

    #[test]
    fn range_joins_give_the_pairs_of_nested_loops(
        (kind, keys, float, is_below, strict) in (0usize..10, 1usize..3, any::<bool>(), any::<bool>(), any::<bool>()),
        (build, probe) in (rows(vec![Form::Int, Form::Int, Form::Float, Form::Float], 60), rows(vec![Form::Int, Form::Int, Form::Float, Form::Float], 60)),
        (each, threads) in (1usize..70, 1usize..4),
    ) {
        let (kind, form) = (KINDS[kind], if float { Form::Float } else { Form::Int });
        let chosen = |rows: Vec<Row>| rows.into_iter().map(|row| {
            let from = if float { 2 } else { 0 };
            row[from..from + keys].iter().cloned().chain([row[1].clone()]).collect::<Row>()
        }).collect::<Vec<Row>>();
        let (build, probe) = (chosen(build), chosen(probe));
        let forms: Vec<Form> = std::iter::repeat_n(form, keys).chain([Form::Int]).collect();
        let plan = Plan {
            kind,
            build: fields(&forms, keys),
            probe: fields(&forms, keys),
            keys,
            by_range: Some(is_below),
            null_equals_null: false,
            condition: Some(between(keys, is_below, strict)),
            output: output(kind, forms.len()),
            on_built: None,
        };
        let context: Arc<dyn Context> = Arc::new(Unlimited(threads));
        let found = executed_join(plan, vec![batches(&build, &forms, each), batches(&probe, &forms, each)], &context);
        let is_pair = |a: &Row, b: &Row| (0..keys).all(|key| {
            let order = (a[key] != Cell::Null && b[key] != Cell::Null).then(|| compared(&a[key], &b[key], false, true));
            let order = if is_below == (key == 0) { order } else { order.map(std::cmp::Ordering::reverse) };
            order.is_some_and(|order| if strict { order.is_lt() } else { order.is_le() })
        });
        prop_assert_eq!(sorted(found), sorted(paired(kind, &build, &probe, keys + 1, is_pair)));
    }

    #[test]
    fn aggregations_give_what_a_map_of_groups_gives(
        (kinds, each, threads) in (proptest::collection::vec(0usize..4, 0..3), 1usize..70, 1usize..4),
        (seed, bounded, run_groups) in (any::<u64>(), any::<bool>(), prop_oneof![Just(1usize), 2usize..20, Just(1 << 17)]),
        // Without aggregates of texts, many groups are divided before they are looked up.
        has_texts in any::<bool>(),
    ) {
        let mut forms: Vec<Form> = kinds.into_iter().map(form).collect();
        let keys = forms.len();
        forms.extend([Form::Int, Form::Float, Form::Text, Form::Bits]);
        let mut runner = proptest::test_runner::TestRunner::new_with_rng(
            ProptestConfig::default(),
            proptest::test_runner::TestRng::from_seed(
                proptest::test_runner::RngAlgorithm::ChaCha,
                &[seed.to_le_bytes(); 4].concat(),
            ),
        );
        let all = rows(forms.clone(), 200).new_tree(&mut runner).expect("rows").current();
        let context: Arc<dyn Context> = Arc::new(Unlimited(threads));
        let bounds = bounded.then_some((0, 5));
        let domains = fields(&forms, keys).into_iter().take(keys).map(|field| KeyDomain { field, bounds });
        let mut calls = calls(keys);
        calls.truncate(if has_texts { calls.len() } else { calls.len() - 1 });
        let width = keys + if has_texts { 13 } else { 12 };
        let aggregation = Aggregation::with_runs(domains.collect(), calls, context.clone(), run_groups);
        let results = Branch { feed: Feed::Source(aggregation.results()), steps: vec![] };
        let sink: Arc<dyn Sink> = Arc::new(aggregation);
        let stages = through(sink, results);
        let found = executed(&stages, vec![batches(&all, &forms, each)], &context);
        let mut expected = grouped(&all, keys);
        expected.iter_mut().for_each(|row| row.truncate(width));
        prop_assert_eq!(sorted(found), sorted(expected));
    }

    /// Keys that climb over a wide range, and some that jump, so that groups are divided by stretches as long as that pays.
    #[test]
    fn groups_of_keys_that_come_nearly_in_order_are_those_of_a_map(
        all in rows(vec![Form::Int, Form::Int, Form::Float, Form::Text, Form::Bits], 300),
        (step, from, each, threads) in (prop_oneof![Just(1i64 << 15), Just(1 << 18), Just(1 << 24)], any::<i64>(), 1usize..70, 1usize..4),
        (jumps, ties) in (prop_oneof![Just(0usize), Just(7)], 1usize..9),
    ) {
        let forms = [Form::Int, Form::Int, Form::Float, Form::Text, Form::Bits];
        let key = |at: usize| match jumps > 0 && at % 40 == jumps {
            true => from.saturating_add((at as i64 * 7919) % 300 * step),
            false => from.saturating_add((at / ties) as i64 * step),
        };
        let climbing = |(at, mut row): (usize, Row)| {
            row[0] = if row[0] == Cell::Null { Cell::Null } else { Cell::Int(key(at)) };
            row
        };
        let all: Vec<Row> = all.into_iter().enumerate().map(climbing).collect();
        let context: Arc<dyn Context> = Arc::new(Unlimited(threads));
        let bounds = Some((from, from.saturating_add(300 * step)));
        let domains = fields(&forms, 1).into_iter().take(1).map(|field| KeyDomain { field, bounds });
        let aggregation = Aggregation::new(domains.collect(), calls(1), context.clone());
        let results = Branch { feed: Feed::Source(aggregation.results()), steps: vec![] };
        let sink: Arc<dyn Sink> = Arc::new(aggregation);
        let found = executed(&through(sink, results), vec![batches(&all, &forms, each)], &context);
        prop_assert_eq!(sorted(found), sorted(grouped(&all, 1)));
    }

    #[test]
    fn top_rows_are_the_first_of_all_sorted(
        (all, most, each, threads) in (rows(vec![Form::Int, Form::Text], 150), 0usize..40, 1usize..70, 1usize..4),
        (descending, nulls_first, more, first) in (any::<bool>(), any::<bool>(), 0usize..50, 0usize..2),
    ) {
        let forms = [Form::Int, Form::Text];
        let context: Arc<dyn Context> = Arc::new(Unlimited(threads));
        let key = |column| SortKey { column, descending, nulls_first };
        let keys = vec![key(first), key(1 - first)];
        let top = Top::with_more(keys, fields(&forms, 0), most, more, context.clone()).expect("sorted types");
        let results = Branch { feed: Feed::Source(top.results()), steps: vec![] };
        let sink: Arc<dyn Sink> = Arc::new(top);
        let stages = through(sink, results);
        let found = executed(&stages, vec![batches(&all, &forms, each)], &context);
        let mut expected = all;
        expected.sort_by(|a, b| {
            let order = |a: &Cell, b: &Cell| match (a == &Cell::Null, b == &Cell::Null) {
                (true, true) => std::cmp::Ordering::Equal,
                (true, false) => if nulls_first { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater },
                (false, true) => if nulls_first { std::cmp::Ordering::Greater } else { std::cmp::Ordering::Less },
                _ if descending => b.partial_cmp(a).expect("no NaN"),
                _ => a.partial_cmp(b).expect("no NaN"),
            };
            order(&a[first], &b[first]).then(order(&a[1 - first], &b[1 - first]))
        });
        expected.truncate(most);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn first_rows_of_groups_are_those_of_sorted_groups(
        (kind, most, each, threads) in (0usize..4, 1usize..5, 1usize..70, 1usize..4),
        (all, descending, nulls_first) in
            (rows(vec![Form::Text, Form::Int, Form::Float, Form::Bits], 150), any::<bool>(), any::<bool>()),
    ) {
        // The key, two columns of the order, and the number of the row, which makes it total.
        let forms = [form(kind), Form::Float, Form::Bits, Form::Int];
        let key = [1, 2, 0, 3][kind];
        let cells = |(at, row): (usize, Row)| vec![row[key].clone(), row[2].clone(), row[3].clone(), Cell::Int(at as i64)];
        let all: Vec<Row> = all.into_iter().enumerate().map(cells).collect();
        let order = |column, descending| SortKey { column, descending, nulls_first };
        let context: Arc<dyn Context> = Arc::new(Unlimited(threads));
        let domain = KeyDomain { field: fields(&forms, 1).remove(0), bounds: None };
        let plan = first_rows::Plan {
            keys: vec![(0, domain)],
            order: vec![order(1, descending), order(2, !descending), order(3, descending)],
            fields: fields(&forms, 0),
            returned: 4,
            rows: most,
        };
        let first = FirstRows::new(plan, context.clone());
        let results = Branch { feed: Feed::Source(first.results()), steps: vec![] };
        let stages = through(Arc::new(first), results);
        let found = executed(&stages, vec![batches(&all, &forms, each)], &context);
        let mut groups: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        all.into_iter().for_each(|row| groups.entry(row[0].key()).or_default().push(row));
        let mut expected = vec![];
        for mut rows in groups.into_values() {
            rows.sort_by(|a, b| {
                let compare = |at: usize, descending| compared(&a[at], &b[at], descending, nulls_first);
                compare(1, descending).then(compare(2, !descending)).then(compare(3, descending))
            });
            for (at, mut row) in rows.into_iter().take(most).enumerate() {
                row.push(Cell::Int(i64::MIN + at as i64 + 1));
                expected.push(row);
            }
        }
        prop_assert_eq!(sorted(found), sorted(expected));
    }
}

/// The order of two cells, in which NaN is greater than all numbers and both zeros are equal.
fn compared(a: &Cell, b: &Cell, descending: bool, nulls_first: bool) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let ascending = |a: &Cell, b: &Cell| match (a, b) {
        (Cell::Float(a), Cell::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        _ => a.partial_cmp(b).expect("cells of one form"),
    };
    match (a == &Cell::Null, b == &Cell::Null) {
        (true, true) => Equal,
        (true, false) => {
            if nulls_first {
                Less
            } else {
                Greater
            }
        }
        (false, true) => {
            if nulls_first {
                Greater
            } else {
                Less
            }
        }
        _ if descending => ascending(b, a),
        _ => ascending(a, b),
    }
}

/// A window's frame in the model: the first row and the one behind the last, of which each may be the other's.
fn frame_of(frame: Frame, rows: usize, row: usize, peers: (usize, usize)) -> std::ops::Range<usize> {
    let at = |offset: i64| (row as i128 + i128::from(offset)).clamp(0, rows as i128) as usize;
    let start = match frame.start {
        Bound::Partition => 0,
        Bound::Peers => peers.0,
        Bound::Row(offset) => at(offset),
        Bound::Value(_) => unreachable!("the order is not one of integers"),
    };
    let end = match frame.end {
        Bound::Partition => rows,
        Bound::Peers => peers.1,
        Bound::Row(offset) => at(offset.saturating_add(1)),
        Bound::Value(_) => unreachable!("the order is not one of integers"),
    };
    start..end.max(start)
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![
        Just(Bound::Partition),
        Just(Bound::Peers),
        (-3i64..4).prop_map(Bound::Row),
        Just(Bound::Row(i64::MIN)),
        Just(Bound::Row(i64::MAX)),
    ]
}

/// The functions over the columns of rows: key, text, float, integer, boolean, and the row's number.
fn window_functions() -> Vec<Function> {
    let finish = |states: &[Vector], _: usize| Ok(states[0].clone());
    let result = SumResult { counts: false, finish: Arc::new(finish) };
    vec![
        Function::RowNumber,
        Function::Tile(1),
        Function::Tile(4),
        Function::Tile(1000),
        Function::Whole { columns: vec![4], accumulator: Arc::new(|| Ok(Box::<Count>::default())) },
        Function::Rank,
        Function::DenseRank,
        Function::PercentRank,
        Function::CumulativeShare,
        Function::Shift { column: 1, back: 2, default: None },
        Function::Shift { column: 3, back: -1, default: Some(5) },
        Function::First(1),
        Function::Last(3),
        Function::Count(None),
        Function::Count(Some(4)),
        Function::Sum { column: 3, result },
        Function::Extreme { column: 3, greatest: true },
        Function::Extreme { column: 2, greatest: false },
        Function::FloatSum { column: 6, averages: false },
        Function::FloatSum { column: 6, averages: true },
    ]
}

fn best<'a>(cells: impl Iterator<Item = &'a Cell>, greatest: bool) -> Cell {
    let values = cells.filter(|cell| **cell != Cell::Null);
    let best = values.reduce(|a, b| if compared(b, a, greatest, false).is_lt() { b } else { a });
    best.cloned().unwrap_or(Cell::Null)
}

/// What a function is for a row of sorted rows.
fn window_result(
    function: &Function,
    frame: Frame,
    rows: &[Row],
    row: usize,
    peers: (usize, usize),
    before: usize,
) -> Cell {
    let unsigned = |value: usize| Cell::Int(i64::MIN + value as i64);
    let of_frame = frame_of(frame, rows.len(), row, peers);
    let used = &rows[of_frame];
    let ints =
        |column: usize| used.iter().filter_map(move |row| if let Cell::Int(v) = row[column] { Some(v) } else { None });
    let floats = |column: usize| {
        used.iter().filter_map(move |row| if let Cell::Float(v) = row[column] { Some(v) } else { None })
    };
    match function {
        Function::RowNumber => unsigned(row + 1),
        Function::Tile(parts) => {
            let parts = *parts as usize;
            let sizes = (0..parts).map(|part| rows.len() / parts + usize::from(part < rows.len() % parts));
            let tiles: Vec<usize> = sizes.enumerate().flat_map(|(part, size)| vec![part + 1; size]).collect();
            unsigned(tiles[row])
        }
        Function::Whole { columns, .. } => {
            Cell::Int(rows.iter().filter(|row| row[columns[0]] != Cell::Null).count() as i64)
        }
        Function::Rank => unsigned(peers.0 + 1),
        Function::DenseRank => unsigned(before + 1),
        Function::PercentRank => Cell::Float(peers.0 as f64 / (rows.len() - 1).max(1) as f64),
        Function::CumulativeShare => Cell::Float(peers.1 as f64 / rows.len() as f64),
        Function::Shift { column, back, default } => {
            let at = usize::try_from(row as i64 - back).ok().and_then(|at| rows.get(at));
            at.map_or(default.map_or(Cell::Null, |default| rows[row][default].clone()), |other| other[*column].clone())
        }
        Function::First(column) => used.first().map_or(Cell::Null, |row| row[*column].clone()),
        Function::Last(column) => used.last().map_or(Cell::Null, |row| row[*column].clone()),
        Function::Count(None) => Cell::Int(used.len() as i64),
        Function::Count(Some(column)) => Cell::Int(used.iter().filter(|row| row[*column] != Cell::Null).count() as i64),
        Function::Sum { column, .. } => match ints(*column).count() {
            0 => Cell::Null,
            _ => Cell::Int(ints(*column).map(i128::from).sum::<i128>() as i64),
        },
        Function::FloatSum { column, averages } => match floats(*column).count() {
            0 => Cell::Null,
            count => Cell::Float(floats(*column).sum::<f64>() / if *averages { count as f64 } else { 1.0 }),
        },
        Function::Extreme { column, greatest } => best(used.iter().map(|row| &row[*column]), *greatest),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn window_functions_are_those_of_sorted_partitions(
        all in rows(vec![Form::Int, Form::Text, Form::Float, Form::Int, Form::Bits], 90),
        (start, end) in (bound(), bound()),
        (keys, by_text) in (0usize..2, any::<bool>()),
        (each, threads, descending, nulls_first) in (1usize..40, 1usize..4, any::<bool>(), any::<bool>()),
    ) {
        let context: Arc<dyn Context> = Arc::new(Unlimited(threads));
        // Each row has its number, and a float whose sums are exact.
        let numbered = |(at, row): (usize, Row)| {
            let float = if at % 5 == 0 { Cell::Null } else { Cell::Float(at as f64 / 4.0) };
            [row, vec![Cell::Int(at as i64), float]].concat()
        };
        let all: Vec<Row> = all.into_iter().enumerate().map(numbered).collect();
        let forms = [Form::Int, Form::Text, Form::Float, Form::Int, Form::Bits, Form::Int, Form::Float];
        let frame = Frame { start, end };
        let calls = window_functions().into_iter().map(|function| windows::Call { function, frame });
        let calls: Vec<windows::Call> = calls.collect();
        let order = |column: usize, descending: bool| SortKey { column, descending, nulls_first };
        let by = if by_text { 1 } else { 2 };
        let domain = KeyDomain { field: fields(&forms, 1)[0].clone(), bounds: None };
        let plan = windows::Plan {
            keys: (0..keys).map(|column| PartitionKey { column, domain: domain.clone(), order: order(0, descending) }).collect(),
            order: vec![order(by, descending), order(4, !descending), order(5, descending)],
            equal_by: 2,
            fields: fields(&forms, 0),
            returned: 7,
            calls: calls.clone(),
        };
        let windows = Windows::new(plan, context.clone());
        let results = Branch { feed: Feed::Source(windows.results()), steps: vec![] };
        let stages = through(Arc::new(windows), results);
        let found = executed(&stages, vec![batches(&all, &forms, each)], &context);
        let mut groups: Vec<Vec<Row>> = vec![];
        for row in all {
            match groups.iter_mut().find(|group| keys == 0 || group[0][0].key() == row[0].key()) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        groups.sort_by(|a, b| compared(&a[0][0], &b[0][0], descending, nulls_first));
        let mut expected = vec![];
        for mut rows in groups {
            let places = |a: &Row, b: &Row| {
                let of = |at: usize, descending| compared(&a[at], &b[at], descending, nulls_first);
                of(by, descending).then(of(4, !descending))
            };
            rows.sort_by(|a, b| places(a, b).then(compared(&a[5], &b[5], descending, nulls_first)));
            let (mut peers, mut before) = ((0, 0), 0);
            for row in 0..rows.len() {
                if row >= peers.1 {
                    before += usize::from(row > 0);
                    let end = (row..rows.len()).find(|at| places(&rows[*at], &rows[row]).is_ne());
                    peers = (row, end.unwrap_or(rows.len()));
                }
                let result = |call: &windows::Call| window_result(&call.function, call.frame, &rows, row, peers, before);
                expected.push([rows[row].clone(), calls.iter().map(result).collect()].concat());
            }
        }
        let shown = |rows: &[Row]| -> Vec<String> {
            rows.iter().map(|row| row.iter().map(Cell::key).collect::<Vec<_>>().join("|")).collect()
        };
        // Partitions come in the order of their keys. Several threads pass them on as they are done.
        match threads {
            1 => prop_assert_eq!(shown(&found), shown(&expected)),
            _ => prop_assert_eq!(sorted(found), sorted(expected)),
        }
    }
}

/// Whether a value is between bounds around another one, both NULL or neither.
fn is_within(value: &Cell, of: &Cell, (start, end): (Bound, Bound), descending: bool) -> bool {
    let (value, of) = match (value, of) {
        (Cell::Int(value), Cell::Int(of)) => (i128::from(*value), i128::from(*of)),
        _ => return value == of,
    };
    let passed = if descending { of - value } else { value - of };
    let reaches = |bound: Bound, is_start: bool| match bound {
        Bound::Value(by) if is_start => passed >= i128::from(by),
        Bound::Value(by) => passed <= i128::from(by),
        Bound::Peers if is_start => passed >= 0,
        Bound::Peers => passed <= 0,
        _ => true,
    };
    reaches(start, true) && reaches(end, false)
}

fn value_bound() -> impl Strategy<Value = Bound> {
    prop_oneof![
        Just(Bound::Peers),
        (-4i64..5).prop_map(Bound::Value),
        Just(Bound::Value(i64::MAX)),
        Just(Bound::Value(i64::MIN)),
    ]
}

proptest! {
    #[test]
    fn frames_of_values_are_those_of_comparisons(
        all in prop::collection::vec(
            (0i64..3, prop::option::weighted(0.8, prop_oneof![-6i64..6, Just(i64::MAX), Just(i64::MIN)])), 0..80),
        (start, end) in (value_bound(), value_bound()),
        (each, threads, descending, nulls_first) in (1usize..40, 1usize..4, any::<bool>(), any::<bool>()),
    ) {
        let context: Arc<dyn Context> = Arc::new(Unlimited(threads));
        let row = |(key, value): &(i64, Option<i64>)| vec![Cell::Int(*key), value.map_or(Cell::Null, Cell::Int)];
        let all: Vec<Row> = all.iter().map(row).collect();
        let forms = [Form::Int, Form::Int];
        let order = |column: usize| SortKey { column, descending, nulls_first };
        let domain = KeyDomain { field: fields(&forms, 1)[0].clone(), bounds: None };
        let calls = vec![windows::Call { function: Function::Count(None), frame: Frame { start, end } }];
        let plan = windows::Plan {
            keys: vec![PartitionKey { column: 0, domain, order: order(0) }],
            order: vec![order(1)],
            equal_by: 1,
            fields: fields(&forms, 0),
            returned: 2,
            calls,
        };
        let windows = Windows::new(plan, context.clone());
        let results = Branch { feed: Feed::Source(windows.results()), steps: vec![] };
        let stages = through(Arc::new(windows), results);
        let found = executed(&stages, vec![batches(&all, &forms, each)], &context);
        let counted = |row: &Row| {
            let of = all.iter().filter(|other| other[0] == row[0]);
            let count = of.filter(|other| is_within(&other[1], &row[1], (start, end), descending)).count();
            [row.clone(), vec![Cell::Int(count as i64)]].concat()
        };
        prop_assert_eq!(sorted(found), sorted(all.iter().map(counted).collect()));
    }
}

/// count(*), count and sum of the integer where the boolean is true, the sum of floats, the least integer and float, quantiles of
/// the same integers and of floats, and the greatest text.
fn calls(keys: usize) -> Vec<Call> {
    let call = |inputs: Vec<usize>, filter: Option<usize>, accumulator: MakeAccumulator| Call {
        inputs,
        filter,
        accumulator,
        is_ordered: false,
    };
    let finish = |states: &[Vector], _: usize| Ok(states[0].clone());
    let sum = SumResult { counts: false, finish: Arc::new(finish) };
    let sums: MakeAccumulator = Arc::new(move || Ok(Box::new(Sum::new(None, true, vec![sum.clone()]))));
    vec![
        call(vec![], None, Arc::new(|| Ok(Box::new(RowCount)))),
        call(vec![keys], Some(keys + 3), Arc::new(|| Ok(Box::<Count>::default()))),
        call(vec![keys], Some(keys + 3), sums),
        call(vec![keys + 1], None, Arc::new(|| Ok(Box::new(FloatSum::new(false, true))))),
        call(vec![keys], None, Arc::new(|| Ok(Box::new(Extreme::new(false, false))))),
        call(vec![keys + 1], None, Arc::new(|| Ok(Box::new(Extreme::new(false, true))))),
        call(vec![keys], Some(keys + 3), Arc::new(|| Ok(quantiles(Form::Int, wanted_quantiles())))),
        call(vec![keys + 1], None, Arc::new(|| Ok(quantiles(Form::Float, wanted_quantiles())))),
        call(vec![keys + 2], None, Arc::new(|| Ok(Box::new(ExtremeText::new(true))))),
    ]
}

/// The two values between which three tenths lie, and the least value that three quarters of all values do not exceed.
fn wanted_quantiles() -> Vec<Quantile> {
    let quantile = |place: Place, descending: bool, result: usize| Quantile {
        places: vec![place],
        descending,
        finish: Arc::new(move |found, _| Ok(found[result].clone())),
    };
    let three_tenths = Place::Continuous(0.3);
    vec![quantile(three_tenths, false, 0), quantile(three_tenths, false, 1), quantile(Place::Discrete(-0.75), true, 0)]
}

/// The same of these values.
fn quantiles_of(mut values: Vec<Cell>) -> Vec<Cell> {
    values.sort_by(|a, b| compared(a, b, false, false));
    let Some(last) = values.len().checked_sub(1) else { return vec![Cell::Null; 3] };
    let place = 0.3 * last as f64;
    let is_enough = |index: &usize| (index + 1) * 4 >= values.len() * 3;
    let three_quarters = (0..values.len()).find(is_enough).expect("all are enough");
    [place.floor() as usize, place.ceil() as usize, three_quarters].map(|index| values[index].clone()).to_vec()
}

fn grouped(all: &[Row], keys: usize) -> Vec<Row> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    if keys == 0 {
        groups.insert(String::new(), vec![]);
    }
    for row in all {
        let key = row[..keys].iter().map(Cell::key).collect::<Vec<_>>().join("|");
        groups.entry(key).or_default().push(row);
    }
    let least = |values: Vec<Cell>| {
        let mut best = Cell::Null;
        for value in values.into_iter().filter(|value| *value != Cell::Null) {
            // NaN is the greatest float.
            let is_less = match (&value, &best) {
                (_, Cell::Null) => true,
                (Cell::Float(a), Cell::Float(b)) => a < b || (b.is_nan() && !a.is_nan()),
                (a, b) => a < b,
            };
            best = if is_less { value } else { best };
        }
        best
    };
    let of_group = |rows: &Vec<&Row>| {
        let column = |at: usize| rows.iter().map(|row| row[keys + at].clone()).collect::<Vec<Cell>>();
        let filtered = rows.iter().filter(|row| row[keys + 3] == Cell::Bit(true)).map(|row| row[keys].clone());
        let filtered: Vec<Cell> = filtered.filter(|cell| *cell != Cell::Null).collect();
        let sum =
            filtered.iter().fold(0i128, |sum, cell| if let Cell::Int(v) = cell { sum + i128::from(*v) } else { sum });
        let floats: Vec<Cell> = column(1).into_iter().filter(|cell| *cell != Cell::Null).collect();
        let total: f64 = floats.iter().map(|cell| if let Cell::Float(v) = cell { *v } else { 0.0 }).sum();
        let texts = column(2).into_iter().filter(|cell| *cell != Cell::Null);
        let greatest = texts.fold(Cell::Null, |best, text| if best == Cell::Null || text > best { text } else { best });
        let numbers = vec![
            Cell::Int(rows.len() as i64),
            Cell::Int(filtered.len() as i64),
            if filtered.is_empty() { Cell::Null } else { Cell::Int(sum as i64) },
            if floats.is_empty() { Cell::Null } else { Cell::Float(total) },
            least(column(0)),
            least(column(1)),
        ];
        [numbers, quantiles_of(filtered), quantiles_of(floats), vec![greatest]].concat()
    };
    let key = |rows: &Vec<&Row>| rows.first().map_or(vec![], |row| row[..keys].to_vec());
    groups.values().map(|rows| [key(rows), of_group(rows)].concat()).collect()
}

#[test]
fn errors_end_all_threads() {
    struct Failing;
    impl Inputs for Failing {
        fn next(&self, _: usize) -> Result<Option<(usize, Batch)>> {
            Err(ExecError::foreign("no rows"))
        }
    }
    let context: Arc<dyn Context> = Arc::new(Unlimited(3));
    let stages = [Stage { branches: vec![input(0, vec![])], sink: None }];
    let (inputs, output): (Arc<dyn Inputs>, Arc<dyn Output>) = (Arc::new(Failing), Arc::new(Collected::default()));
    let failed = run(&stages, &inputs, &context, &output).expect_err("it fails");
    assert_eq!(failed.to_string(), "no rows");
}

/// Keys that are a small part of a wide range, some of them twice, in any order.
#[test]
fn sparse_keys_are_joined_by_rank() {
    let forms = [Form::Int, Form::Int];
    let count = 90_000i64;
    let row = |key: i64, at: i64| vec![if at % 1000 == 999 { Cell::Null } else { Cell::Int(key) }, Cell::Int(at)];
    let build: Vec<Row> = (0..count).map(|at| row((at * 7919 % count) / 9 * 9 * 50 - 1000, at)).collect();
    let probe: Vec<Row> = (0..4000).map(|at| row(at * 977 % 4_600_000 / 25 * 25 - 2000, at)).collect();
    for kind in [Kind::Inner, Kind::ProbeOuter, Kind::ProbeSemi, Kind::ProbeAnti, Kind::BuildSemi] {
        let context: Arc<dyn Context> = Arc::new(Unlimited(2));
        let plan = Plan {
            kind,
            build: fields(&forms, 1),
            probe: fields(&forms, 1),
            keys: 1,
            by_range: None,
            null_equals_null: false,
            condition: None,
            output: output(kind, forms.len()),
            on_built: None,
        };
        let found = executed_join(plan, vec![batches(&build, &forms, 5000), batches(&probe, &forms, 900)], &context);
        let mut of_key: std::collections::HashMap<String, Vec<&Row>> = std::collections::HashMap::new();
        build
            .iter()
            .filter(|row| row[0] != Cell::Null)
            .for_each(|row| of_key.entry(row[0].key()).or_default().push(row));
        let keys: std::collections::HashSet<String> =
            probe.iter().filter(|row| row[0] != Cell::Null).map(|row| row[0].key()).collect();
        let pairs = |row: &Row| if row[0] == Cell::Null { None } else { of_key.get(&row[0].key()) };
        let joined = |probe: &Row, build: &Row| probe.iter().chain(build).cloned().collect::<Row>();
        let nulls = vec![Cell::Null; 2];
        let expected: Vec<Row> = match kind {
            Kind::BuildSemi => {
                build.iter().filter(|row| row[0] != Cell::Null && keys.contains(&row[0].key())).cloned().collect()
            }
            Kind::ProbeSemi => probe.iter().filter(|row| pairs(row).is_some()).cloned().collect(),
            Kind::ProbeAnti => probe.iter().filter(|row| pairs(row).is_none()).cloned().collect(),
            _ => probe
                .iter()
                .flat_map(|row| match pairs(row) {
                    Some(found) => found.iter().map(|build| joined(row, build)).collect(),
                    None if kind == Kind::ProbeOuter => vec![joined(row, &nulls)],
                    None => vec![],
                })
                .collect(),
        };
        assert!(!expected.is_empty());
        assert_eq!(sorted(found), sorted(expected), "{kind:?}");
    }
}
