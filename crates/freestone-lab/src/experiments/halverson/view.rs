//! The view D4 and query Q7 (sections 2 and 3.2): the return flag and the price of every line item with its customer's
//! nation, sorted by flag and nation; and the revenue of returned items by nation.

use std::time::{Duration, Instant};

use freestone::Options;

use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::{RunOptions, Workspace, quoted};
use freestone_data::tpch;
use freestone_demo::engine::{Answer, Engine, Repeat, median};
use freestone_report::findings::{Cell, Part, Table, milliseconds, significant};

/// The scale factor of TPC-H.
const SCALE: f64 = 0.2;
const REPEAT: Repeat = Repeat { least: 5, most: 15, budget: Duration::from_millis(500) };
const COLD_RUNS: usize = 3;

/// The layouts of the view, and the join that it saves.
pub(super) const FORMS: [(&str, &str); 4] = [
    ("slotted", "design = 'slotted'"),
    ("super tuples", "design = 'row'"),
    (
        "super tuples, 2 levels",
        "design = 'row', levels = 2, encode = 'l_returnflag: dictionary, c_nationkey: dictionary'",
    ),
    (
        "columns",
        "design = 'column', encode = 'l_returnflag: dictionary_rle, c_nationkey: rle, l_extendedprice: bitpack'",
    ),
];

const SORT: &str = "sort = 'l_returnflag, c_nationkey'";
/// With the declared keys, levels imply the rest of the sort order (section 2.2).
const SORT_OF_LEVELS: &str = "sort = 'l_returnflag'";

/// The tables of the view, with their keys.
const KEYS: [(&str, &str); 3] = [
    ("customer", "PRIMARY KEY (c_custkey)"),
    ("orders", "PRIMARY KEY (o_orderkey), FOREIGN KEY (o_custkey) REFERENCES customer"),
    ("lineitem", "FOREIGN KEY (l_orderkey) REFERENCES orders"),
];

/// Q7 in the paper's introduction and in section 3.2.
const PUBLISHED: [(&str, &str, &str); 5] = [
    ("C-Store's prototype", "their hardware, 3.2", "4.67"),
    ("their own column store, the same plan", "their hardware, 3.2", "3.95"),
    ("C-Store", "C-Store's own paper, 1 and 3.2", "2.54"),
    ("a commercial row store with the view", "C-Store's own paper, 1", "18.47"),
    ("their row store", "their hardware, 1", "1.42"),
];

/// Milliseconds of Q7 by layout, and, as the last element, of the join of the tables. On one thread, as the paper's plan.
pub(super) struct D4 {
    pub bytes: Vec<u64>,
    pub hot: Vec<f64>,
    pub cold: Vec<f64>,
    /// The same in memory with all threads.
    hot_threads: Vec<f64>,
    scale: f64,
    rows: u64,
}

impl D4 {
    /// Milliseconds of the hot join that the view saves.
    pub fn join_ms(&self) -> f64 {
        self.hot[FORMS.len()]
    }
}

/// Queries read the tables or views that they name.
const WITHOUT_VIEWS: &str = "SET materialized_view_matching = off";

const VIEW: &str = "SELECT l_returnflag, c_nationkey, l_extendedprice FROM customer, orders, lineitem \
                    WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey";

fn q7(table: &str) -> String {
    format!("SELECT c_nationkey, sum(l_extendedprice) FROM {table} WHERE l_returnflag = 'R' GROUP BY c_nationkey")
}

pub(super) fn measure(workspace: &Workspace, options: &RunOptions, notify: Notify<'_>) -> Result<D4> {
    let scale = options.scale.unwrap_or(SCALE);
    let (data, database) = (workspace.path("tpch"), workspace.path("d4"));
    notify("generating TPC-H for D4");
    tpch::write_parquet(&data, scale)?;
    let queries: Vec<String> =
        (0..FORMS.len()).map(|at| q7(&format!("d4_{at}"))).chain([q7(&format!("({VIEW}) AS d4"))]).collect();
    let (bytes, rows, expected, hot_threads) = {
        let engine = Engine::open(&database, options.engine_options())?;
        for (table, keys) in KEYS {
            let file = data.join(format!("{table}.parquet"));
            engine.run(&format!("CREATE TABLE {table} ({keys}) AS SELECT * FROM '{}'", quoted(&file)))?;
        }
        let mut bytes = vec![];
        for (at, (name, form)) in FORMS.iter().enumerate() {
            notify(&format!("storing D4 as {name}"));
            let sort = if form.contains("levels") { SORT_OF_LEVELS } else { SORT };
            engine.run(&format!("CREATE MATERIALIZED VIEW d4_{at} WITH ({form}, {sort}) AS {VIEW}"))?;
            bytes.push(engine.table_bytes(&format!("d4_{at}"))?);
        }
        let design = engine.text("SELECT design FROM freestone_tables() WHERE name = 'd4_2'")?;
        if !design.contains(SORT) {
            return Err(LabError::Answers(format!("the levels of D4 have the design {design}, not {SORT}")));
        }
        // The last query names no view, and is timed without one.
        let plan = engine.text(&format!("EXPLAIN {}", queries[FORMS.len()]))?;
        if !plan.contains("d4_") {
            return Err(LabError::Answers(format!("Q7 over the tables reads no view:\n{plan}")));
        }
        engine.run(WITHOUT_VIEWS)?;
        let rows = engine.text("SELECT count(*) FROM d4_0")?.trim().parse().unwrap_or(0);
        let expected = same_answers(&engine, &queries)?;
        (bytes, rows, expected, hot(&engine, &queries)?)
    };
    notify(&format!("timing Q7 on one thread, {expected}"));
    let single = Options { threads: 1, read_only: true, ..options.engine_options() };
    let engine = Engine::open(&database, single.clone())?;
    engine.run(WITHOUT_VIEWS)?;
    let hot = hot(&engine, &queries)?;
    let cold = cold(&database, &single, &queries)?;
    Ok(D4 { bytes, hot, cold, hot_threads, scale, rows })
}

fn hot(engine: &Engine, queries: &[String]) -> Result<Vec<f64>> {
    queries.iter().map(|sql| Ok(engine.median_ms(sql, REPEAT)?)).collect()
}

fn same_answers(engine: &Engine, queries: &[String]) -> Result<Answer> {
    let answers: Vec<Answer> = queries.iter().map(|sql| Ok(engine.answer(sql)?)).collect::<Result<_>>()?;
    match answers.iter().find(|answer| **answer != answers[0]) {
        Some(other) => Err(LabError::Answers(format!("Q7 gives rows {} and {other}", answers[0]))),
        None => Ok(answers[0]),
    }
}

/// Medians. Each run has a new engine with an empty cache, and designs alternate.
fn cold(database: &std::path::Path, options: &Options, queries: &[String]) -> Result<Vec<f64>> {
    let mut times = vec![vec![]; queries.len()];
    for _ in 0..COLD_RUNS {
        for (sql, times) in queries.iter().zip(&mut times) {
            let engine = Engine::open(database, options.clone())?;
            // The first statement of a process initializes the planner, which is not part of the measurement.
            engine.run(WITHOUT_VIEWS)?;
            engine.run("SELECT 1")?;
            let start = Instant::now();
            engine.run(sql)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(times.into_iter().map(median).collect())
}

pub(super) fn parts(d4: &D4) -> Vec<Part> {
    let title =
        format!("Q7 at scale factor {}, {} rows in the view", d4.scale, freestone_report::findings::thousands(d4.rows));
    let header = ["layout", "MB", "hot, ms", "cold, ms", "hot, all threads, ms"];
    let mut table = Table::new(title, 1, &header);
    let names = FORMS.iter().map(|(name, _)| *name).chain(["no view: a join of three tables"]);
    let sizes = d4.bytes.iter().map(|bytes| significant(*bytes as f64 / 1e6)).chain(["–".to_owned()]);
    let times = [&d4.hot, &d4.cold, &d4.hot_threads].map(|times| milliseconds(times).collect::<Vec<_>>());
    for (at, (name, size)) in names.zip(sizes).enumerate() {
        let times = times.iter().filter_map(|times| times.get(at).cloned());
        table.push([Cell::from(name), size.into()].into_iter().chain(times));
    }
    let mut published =
        Table::new("Seconds that the paper gives for Q7; its scale factor is not given", 2, &["system", "", "s"]);
    for (system, place, seconds) in PUBLISHED {
        published.push([system, place, seconds]);
    }
    let text = "By SQL, on one thread as in the paper's plan, and with all.";
    vec![Part::section("The view D4 and query Q7", text), Part::Table(table), Part::Table(published)]
}
