//! The demo: one table of synthetic data under several designs, with sizes, times, equal answers and a report.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use freestone::{Advice, Options};

use freestone_data::queries::{TPCH_SCHEMA, tpch_queries};
use freestone_report::findings::*;
use freestone_report::{Host, page};

pub mod engine;
mod error;

use engine::{Answer, Engine, Repeat};
pub use error::{DemoError, Result};

/// Receives a short description of the current step.
pub type Notify<'a> = &'a dyn Fn(&str);

/// The options of the demo.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// The folder for data, database and report. It is created if missing. The files of an earlier demo are replaced.
    pub directory: PathBuf,
    /// TPC-H's scale factor: lineitem has 6 million rows at 1.
    pub scale: f64,
    /// The threads of the engine; 0 means one per core.
    pub threads: usize,
    /// The versions of the program and its libraries, for the report.
    pub versions: String,
}

impl Default for DemoOptions {
    fn default() -> Self {
        DemoOptions { directory: "freestone-demo".into(), scale: 0.1, threads: 0, versions: String::new() }
    }
}

/// The results of the demo, and its report.
#[derive(Debug)]
pub struct Demo {
    /// The results as data.
    pub findings: Findings,
    /// The HTML page.
    pub report: PathBuf,
}

/// A layout of lineitem: the name of its table, a description, and its options.
struct Form {
    name: &'static str,
    what: &'static str,
    options: &'static str,
}

const FORMS: [Form; 7] = [
    Form { name: "auto", what: "what the engine picks from statistics alone", options: "preset = 'auto'" },
    Form { name: "column", what: "each column on pages of its own", options: "preset = 'column'" },
    Form { name: "row", what: "bit-packed super tuples, all columns of a row together", options: "preset = 'row'" },
    Form { name: "slotted", what: "the classic row store: slots and tuple headers", options: "preset = 'slotted'" },
    Form { name: "pax", what: "blocks of rows, a mini page for each column", options: "preset = 'pax'" },
    Form {
        name: "groups",
        what: "three groups of columns: keys, amounts, the rest",
        options: "column_groups = '(l_orderkey, l_linenumber, l_partkey, l_suppkey), (l_quantity, l_extendedprice, l_discount, \
                  l_tax, l_returnflag, l_linestatus, l_shipdate), (l_commitdate, l_receiptdate, l_shipinstruct, \
                  l_shipmode, l_comment)'",
    },
    Form {
        name: "sorted",
        what: "columns, sorted by ship date, which is stored once a run",
        options: "preset = 'column', sort = 'l_shipdate', rle_levels = 1",
    },
];

/// A query over `lineitem`, which is replaced by the name of each layout's table.
struct Query {
    name: &'static str,
    what: String,
    sql: String,
}

const REPEAT: Repeat = Repeat { least: 3, most: 9, budget: Duration::from_millis(250) };

/// Runs the demo. `notify` receives each step.
///
/// # Errors
/// The folder cannot be used, a statement fails, or two designs give different answers.
pub fn run(options: &DemoOptions, notify: Notify<'_>) -> Result<Demo> {
    let began = Instant::now();
    if !(0.001..=100.0).contains(&options.scale) {
        return Err(DemoError::Usage(format!("the demo's scale {} is not between 0.001 and 100", options.scale)));
    }
    let (data, database) = (options.directory.join("data"), options.directory.join("database"));
    for folder in [&data, &database] {
        clear(folder)?;
    }
    notify(&format!("generating synthetic TPC-H data, scale factor {}", options.scale));
    freestone_data::tpch::write_parquet(&data, options.scale)?;
    let defaults = Options::default();
    let threads = if options.threads == 0 { defaults.threads } else { options.threads };
    let engine = Engine::open(&database, Options { threads, ..defaults })?;
    notify("loading eight tables from Parquet");
    let loaded = load(&engine, &data)?;
    let forms = store_forms(&engine, notify)?;
    let same = compare_forms(&engine, &data, notify)?;
    let queries = queries(options.scale);
    let times = time_queries(&engine, &queries, notify)?;
    let advice = ADVISED.iter().map(|form| advise(&engine, form, notify)).collect::<Result<_>>()?;
    notify("changing a table's design in place");
    let changes = change_design(&engine, same)?;
    drop(engine);
    // Opened again, so that the two scans read from disk.
    let pruning = pruning(&Engine::open(&database, Options { threads, read_only: true, ..Options::default() })?)?;
    let input = std::fs::metadata(data.join("lineitem.parquet")).map_err(DemoError::file(&data))?.len();
    let results =
        Results { scale: options.scale, loaded, forms, input, same, queries, times, advice, changes, pruning };
    let findings = Findings {
        name: "demo".into(),
        title: "One table, seven layouts".into(),
        question: lead(&results),
        source: "synthetic data by the rules of TPC-H; not a TPC-H result, and not comparable with one".into(),
        command: format!("freestone demo --output {} --scale {}", options.directory.display(), options.scale),
        host: Host::here(&options.versions),
        seconds: began.elapsed().as_secs_f64(),
        parts: results.parts(),
    };
    let report = options.directory.join("report.html");
    let html = page::html(&findings.title, &findings.question, std::slice::from_ref(&findings));
    std::fs::write(&report, html).map_err(DemoError::file(&report))?;
    Ok(Demo { findings, report })
}

fn clear(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(DemoError::file(folder)(error)),
        _ => std::fs::create_dir_all(folder).map_err(DemoError::file(folder)),
    }
}

struct Loaded {
    rows: u64,
    seconds: f64,
}

fn load(engine: &Engine, data: &Path) -> Result<Loaded> {
    engine.run_script(TPCH_SCHEMA)?;
    let (start, mut rows) = (Instant::now(), 0);
    for table in freestone_data::tables() {
        rows += engine.run(&format!("COPY {table} FROM '{}' (FORMAT parquet)", quoted(data, table)))?;
    }
    Ok(Loaded { rows, seconds: start.elapsed().as_secs_f64() })
}

/// The path of a table's file, between single quotes of SQL.
fn quoted(data: &Path, table: &str) -> String {
    data.join(format!("{table}.parquet")).display().to_string().replace('\'', "''")
}

/// The cost of storing lineitem in a layout.
struct Stored {
    bytes: u64,
    seconds: f64,
}

fn store_forms(engine: &Engine, notify: Notify<'_>) -> Result<Vec<Stored>> {
    let store = |form: &Form| {
        notify(&format!("storing lineitem as {}: {}", form.name, form.what));
        let start = Instant::now();
        engine.run(&format!("CREATE TABLE {} WITH ({}) AS SELECT * FROM lineitem", table(form), form.options))?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Stored { bytes: engine.table_bytes(&table(form))?, seconds })
    };
    FORMS.iter().map(store).collect()
}

fn table(form: &Form) -> String {
    format!("lineitem_{}", form.name)
}

/// The checksum of the rows of every layout, which must be that of the generated file.
fn compare_forms(engine: &Engine, data: &Path, notify: Notify<'_>) -> Result<Answer> {
    notify("comparing every row of every design with the file");
    let expected = engine.answer(&format!("SELECT * FROM '{}'", quoted(data, "lineitem")))?;
    for form in &FORMS {
        let answer = engine.answer(&format!("SELECT * FROM {}", table(form)))?;
        must_equal(&format!("the rows of lineitem as {}", form.name), answer, expected)?;
    }
    Ok(expected)
}

fn must_equal(what: &str, answer: Answer, expected: Answer) -> Result<()> {
    if answer == expected {
        return Ok(());
    }
    Err(DemoError::Answers(format!("{what} have checksum {answer}, not {expected}")))
}

fn queries(scale: f64) -> Vec<Query> {
    let tpch = |number: usize| tpch_queries()[number - 1].1.trim_end().trim_end_matches(';').to_owned();
    let suppliers = ((scale * 100.0).round() as u64).max(1);
    let order = ((scale * 3_000_000.0) as u64 / 32 * 32).max(1);
    let query = |name, what: &str, sql| Query { name, what: what.to_owned(), sql };
    vec![
        query("TPC-H Q1", "summary of almost all rows, 7 of 16 columns", tpch(1)),
        query("TPC-H Q6", "one year, one discount: 4 of 16 columns", tpch(6)),
        query(
            "narrow scan",
            "filters one column, sums another: 2 of 16 columns",
            "SELECT sum(l_extendedprice) FROM lineitem WHERE l_quantity < 2".into(),
        ),
        query("TPC-H Q3", "a join of three tables, grouped, top 10", tpch(3)),
        query(
            "whole rows",
            "all 16 columns of 1 % of the rows, scattered",
            format!("SELECT * FROM lineitem WHERE l_suppkey <= {suppliers}"),
        ),
        query("one order", "all 16 columns of one order", format!("SELECT * FROM lineitem WHERE l_orderkey = {order}")),
    ]
}

/// Median milliseconds, per query and layout. Also compares the answers of all layouts.
fn time_queries(engine: &Engine, queries: &[Query], notify: Notify<'_>) -> Result<Vec<Vec<f64>>> {
    let time = |query: &Query| {
        notify(&format!("timing {}: {}", query.name, query.what));
        let expected = engine.answer(&query.sql)?;
        let time = |form: &Form| {
            let sql = query.sql.replace("lineitem", &table(form));
            must_equal(&format!("the answers of {} on {}", query.name, form.name), engine.answer(&sql)?, expected)?;
            engine.median_ms(&sql, REPEAT)
        };
        FORMS.iter().map(time).collect()
    };
    queries.iter().map(time).collect()
}

/// The layouts for which the advisor is asked: a row store, and the engine's default.
const ADVISED: [&str; 2] = ["row", "auto"];

fn advise(engine: &Engine, form: &'static str, notify: Notify<'_>) -> Result<(&'static str, Advice)> {
    notify(&format!("advising on lineitem as {form}, by the queries that just ran"));
    Ok((form, engine.advice(&format!("lineitem_{form}"))?))
}

/// A conversion: the new options, and its seconds.
struct Change {
    options: &'static str,
    seconds: f64,
}

/// Converts lineitem itself from design to design. Its rows must not change.
fn change_design(engine: &Engine, expected: Answer) -> Result<Vec<Change>> {
    let change = |options: &'static str| {
        let start = Instant::now();
        engine.run(&format!("ALTER TABLE lineitem SET DESIGN ({options})"))?;
        let seconds = start.elapsed().as_secs_f64();
        must_equal(
            &format!("the rows after SET DESIGN ({options})"),
            engine.answer("SELECT * FROM lineitem")?,
            expected,
        )?;
        Ok(Change { options, seconds })
    };
    ["preset = 'row'", "preset = 'pax', sort = 'l_partkey'", "preset = 'auto', sort = 'l_orderkey'"]
        .into_iter()
        .map(change)
        .collect()
}

/// The work of a scan, from EXPLAIN ANALYZE: names and figures, and the scan's line of the plan.
struct Pruning {
    form: &'static str,
    figures: Vec<(String, String)>,
    line: String,
}

const PRUNED_FORMS: [&str; 2] = ["column", "sorted"];

fn pruning(engine: &Engine) -> Result<Vec<Pruning>> {
    let q6 = tpch_queries()[5].1;
    let explain = |form: &'static str| {
        let plan = engine.text(&format!(
            "EXPLAIN (ANALYZE, FORMAT traditional) {}",
            q6.replace("lineitem", &format!("lineitem_{form}"))
        ))?;
        let line = plan.lines().find(|line| line.contains("freestone table=")).unwrap_or_default().trim().to_owned();
        Ok(Pruning { form, figures: metrics(&line), line })
    };
    PRUNED_FORMS.into_iter().map(explain).collect()
}

/// The `name=value` pairs of a plan's line.
fn metrics(line: &str) -> Vec<(String, String)> {
    let list = line.split_once("metrics=[").map_or("", |(_, rest)| rest.trim_end_matches(']'));
    let pair = |text: &str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    list.split(", ").filter_map(pair).collect()
}

/// All measurements.
struct Results {
    scale: f64,
    loaded: Loaded,
    forms: Vec<Stored>,
    /// The bytes of lineitem's Parquet file.
    input: u64,
    same: Answer,
    queries: Vec<Query>,
    times: Vec<Vec<f64>>,
    /// The advice for a layout, by name.
    advice: Vec<(&'static str, Advice)>,
    changes: Vec<Change>,
    pruning: Vec<Pruning>,
}

fn lead(results: &Results) -> String {
    format!(
        "The same {} rows of synthetic order lines, stored in {} designs by one engine: what each costs in bytes, what it \
         costs in time, and proof that every query answers the same on all of them.",
        thousands(results.same.rows),
        FORMS.len()
    )
}

impl Results {
    fn parts(&self) -> Vec<Part> {
        let mut parts = vec![self.tiles()];
        parts.push(Part::section("The designs", "Each is one option of CREATE TABLE. The rows are the same."));
        parts.push(self.form_table());
        parts.push(Part::section(
            "Which design fits which query",
            format!("{} These are measurements on this machine and this data.", self.verdict()),
        ));
        parts.push(self.time_bars());
        parts.push(self.time_table());
        parts.push(Part::section(
            "What the advisor says",
            "Queries are logged. From the log, a sample and the machine's profile the advisor predicts what other designs \
             would cost, stores the best of them as a sample, times the queries' scans on it, and only then recommends.",
        ));
        self.advice.iter().for_each(|(form, advice)| parts.extend(advised(form, advice)));
        parts
            .push(Part::section("What each design takes on disk", "Whole files: pages, headers, zones, dictionaries."));
        parts.push(self.size_bars());
        parts.push(Part::section(
            "What a sorted table need not read",
            "Q6 asks for one year of ship dates. A zone is a run of rows with its least and greatest values: where a table \
             is sorted by ship date, most zones are ruled out before any page of theirs is read. Both scans start cold.",
        ));
        parts.push(self.pruning_table());
        let line = |pruning: &Pruning| format!("{}:\n{}", pruning.form, wrapped(&pruning.line));
        let lines: Vec<String> = self.pruning.iter().map(line).collect();
        parts.push(Part::code("The scans' lines of EXPLAIN ANALYZE", lines.join("\n\n")));
        parts.push(Part::section(
            "A design is a value",
            "ALTER TABLE … SET DESIGN converts a table; queries and rows stay the same.",
        ));
        parts.push(self.change_table());
        parts.push(Part::checks(self.checks()));
        parts.push(Part::section("Run it on your own data", ""));
        parts.push(Part::code(
            "Any CSV, Parquet, JSON or Arrow file is a table; WITH (…) says how to store it",
            "freestone sales -c \"CREATE TABLE sales WITH (sort = 'day', levels = 1) AS SELECT * FROM 'sales.csv'\"\n\
             freestone sales -c \"EXPLAIN ANALYZE SELECT sum(amount) FROM sales WHERE day >= DATE '2026-01-01'\"",
        ));
        parts
    }

    fn tiles(&self) -> Part {
        let rate = self.loaded.rows as f64 / self.loaded.seconds / 1e6;
        let smallest = self.forms.iter().map(|form| form.bytes).min().unwrap_or(0);
        let tiles = [
            (thousands(self.same.rows), format!("rows of 16 columns, synthetic, scale factor {}", self.scale)),
            (
                format!("{} M rows/s", significant(rate)),
                "loaded from Parquet, eight tables, encoded and committed".into(),
            ),
            (megabytes(smallest), format!("the smallest design; the Parquet file has {}", megabytes(self.input))),
            (
                format!("{:016x}", self.same.checksum)[..8].to_owned(),
                "one checksum of all rows, the same in every design".into(),
            ),
        ];
        Part::Tiles(Tiles { tiles: tiles.into() })
    }

    /// One sentence from the measured times: which design was fastest for which queries. Differences below a tenth are
    /// within the variation of repeated runs, and are ignored.
    fn verdict(&self) -> String {
        let mut winners: Vec<(String, Vec<&str>)> = vec![];
        for (query, times) in self.queries.iter().zip(&self.times) {
            let most = times[least(times)] * 1.1;
            let names = FORMS.iter().zip(times).filter(|(_, time)| **time <= most).map(|(form, _)| form.name);
            let names: Vec<&str> = names.collect();
            let names = if names.len() > 3 { "most of them alike".to_owned() } else { names.join(" and ") };
            match winners.iter_mut().find(|(known, _)| *known == names) {
                Some((_, queries)) => queries.push(query.name),
                None => winners.push((names, vec![query.name])),
            }
        }
        let fastest = winners.iter().map(|(names, queries)| format!("{names} for {}", queries.join(", ")));
        let smallest = FORMS[least(&self.forms.iter().map(|f| f.bytes as f64).collect::<Vec<_>>())].name;
        format!("Fastest here: {}; {smallest} takes least room.", fastest.collect::<Vec<_>>().join("; "))
    }

    fn time_bars(&self) -> Part {
        let group = |(query, times): (&Query, &Vec<f64>)| {
            let bars = FORMS.iter().zip(times);
            let bars = bars.map(|(form, time)| Bar::new(form.name, *time));
            BarGroup { label: query.what.clone(), note: query.name.into(), bars: bars.collect() }
        };
        let groups = self.queries.iter().zip(&self.times).map(group).collect();
        Part::Bars(Bars {
            title: "Median time, data in memory; less is better".into(),
            unit: "ms".into(),
            tie: TIE,
            groups,
        })
    }

    fn time_table(&self) -> Part {
        let mut header = vec!["query"];
        header.extend(FORMS.iter().map(|form| form.name));
        let mut table = Table::new("Milliseconds, median, hot", 1, &header);
        for (query, times) in self.queries.iter().zip(&self.times) {
            let name = format!("{} ({})", query.what, query.name);
            table.push(std::iter::once(Cell::from(name)).chain(milliseconds(times)));
        }
        Part::Table(table)
    }

    fn size_bars(&self) -> Part {
        let bar = |label: &str, bytes: u64, is_reference| Bar { is_reference, ..Bar::new(label, bytes as f64 / 1e6) };
        let mut bars: Vec<Bar> =
            FORMS.iter().zip(&self.forms).map(|(form, s)| bar(form.name, s.bytes, false)).collect();
        bars.push(bar("Parquet, Snappy", self.input, true));
        let group = BarGroup { label: "lineitem".into(), note: String::new(), bars };
        Part::Bars(Bars { title: "Megabytes; less is better".into(), unit: "MB".into(), tie: 0.0, groups: vec![group] })
    }

    fn form_table(&self) -> Part {
        let mut table = Table::new("", 2, &["table", "what it is", "MB", "bytes a row", "stored in, s"]);
        for (form, stored) in FORMS.iter().zip(&self.forms) {
            table.push([
                form.name.to_owned(),
                form.what.to_owned(),
                significant(stored.bytes as f64 / 1e6),
                significant(stored.bytes as f64 / self.same.rows.max(1) as f64),
                format!("{:.2}", stored.seconds),
            ]);
        }
        Part::Table(table)
    }

    fn pruning_table(&self) -> Part {
        let mut header = vec!["of the scan of Q6"];
        header.extend(self.pruning.iter().map(|pruning| pruning.form));
        let mut table = Table::new("", 1, &header);
        let names = [
            "zones",
            "zones_pruned",
            "pages_used",
            "pages_read",
            "bytes_read",
            "rows_scanned",
            "rows_selected",
            "values_decoded",
        ];
        for name in names {
            let figure = |pruning: &Pruning| {
                let found = pruning.figures.iter().find(|(known, _)| known == name);
                found.map_or("–".to_owned(), |(_, value)| value.clone())
            };
            let cells = std::iter::once(name.replace('_', " ")).chain(self.pruning.iter().map(figure));
            table.push(cells);
        }
        Part::Table(table)
    }

    fn change_table(&self) -> Part {
        let mut table = Table::new("", 1, &["ALTER TABLE lineitem SET DESIGN", "s", "rows' checksum"]);
        for change in &self.changes {
            let checksum = format!("{:016x}", self.same.checksum);
            table.push([format!("({})", change.options), format!("{:.2}", change.seconds), checksum]);
        }
        Part::Table(table)
    }

    fn checks(&self) -> Vec<Check> {
        let answers = format!("{} queries on {} designs", self.queries.len(), FORMS.len());
        vec![
            Check::new("every design holds the rows of the generated file", true, format!("checksum {}", self.same)),
            Check::new("every query answers the same on every design", true, answers),
            Check::new("conversions in place change no row", true, format!("{} conversions", self.changes.len())),
        ]
    }
}

/// The advice for a layout: a sentence, a table of the designs that were tried, and the statement that applies it.
fn advised(form: &str, advice: &Advice) -> Vec<Part> {
    let verdict = if advice.keep { "keep this design" } else { "convert" };
    let statements = advice.designs.first().and_then(|best| best.statements).map(|statements| {
        let (now, then) = (significant(statements.now_ms), significant(statements.then_ms));
        format!("the statements that read it would take {then} ms instead of {now} ms; ")
    });
    let start = advised_sentence(form);
    let sentence = format!("{start}{verdict}: {}{}.", statements.unwrap_or_default(), advice.reason);
    let header = ["design", "what it is", "scans, ms (predicted)", "on a sample, ms", "MB", "pays after"];
    let mut table = Table::new("", 2, &header);
    let others = advice.designs.iter().enumerate().map(|(at, design)| ((at + 1).to_string(), design));
    let others = others.filter(|(_, proposal)| proposal.measured_ms.is_some());
    for (name, proposal) in [("now".to_owned(), &advice.current)].into_iter().chain(others) {
        let measured = proposal.measured_ms.map_or("–".into(), significant);
        let paid = match proposal.break_even_runs {
            _ if name == "now" => "–".into(),
            Some(runs) => format!("{} runs", thousands(runs.ceil() as i128)),
            None => "never".into(),
        };
        let size = significant(proposal.bytes / 1e6);
        table.push([
            name,
            short_design(&proposal.design.to_string()),
            significant(proposal.total.ms),
            measured,
            size,
            paid,
        ]);
    }
    let mut parts = vec![Part::section("", sentence), Part::Table(table)];
    if let Some(best) = advice.recommended() {
        parts.push(Part::code("To convert", best.apply.clone()));
    }
    parts
}

/// A design's options, with the number of column groups instead of their columns.
fn short_design(options: &str) -> String {
    const GROUPS: &str = "column_groups = '";
    let Some((before, rest)) = options.split_once(GROUPS) else { return options.to_owned() };
    let (groups, after) = rest.split_once('\'').unwrap_or((rest, ""));
    format!("{before}{} column groups{after}", groups.matches('(').count())
}

fn advised_sentence(form: &str) -> String {
    format!("Lineitem as {form}: ")
}

fn least(values: &[f64]) -> usize {
    let order = (0..values.len()).min_by(|a, b| values[*a].total_cmp(&values[*b]));
    order.unwrap_or(0)
}

/// A plan's line, broken at its lists so that it is readable without scrolling.
fn wrapped(line: &str) -> String {
    line.replace(", filter=", ",\n    filter=").replace(", metrics=", ",\n    metrics=")
}

/// The summary for the terminal: sizes, times, the sentence, and the path of the report.
pub fn summary(demo: &Demo) -> String {
    let mut out = String::new();
    for part in &demo.findings.parts {
        if matches!(part, Part::Tiles(_) | Part::Table(_) | Part::Checks(_)) {
            out.push_str(&freestone_report::terminal::part_text(part));
        }
        if let Part::Section(section) = part
            && section.title.starts_with("Which design")
        {
            out.push_str(&format!("\n{}\n", section.text));
        }
        if let Part::Section(section) = part
            && ADVISED.iter().any(|form| section.text.starts_with(&advised_sentence(form)))
        {
            out.push_str(&format!("\n{}\n", section.text));
        }
    }
    out.push_str(&format!("\nreport: {} ({:.0} s)\n", demo.report.display(), demo.findings.seconds));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_demo_writes_its_report() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options =
            DemoOptions { directory: folder.path().to_owned(), scale: 0.003, threads: 2, versions: "test".into() };
        let demo = run(&options, &|_| {}).expect("the demo runs");
        let page = std::fs::read_to_string(&demo.report).expect("the report was written");
        for form in &FORMS {
            assert!(page.contains(form.what), "{} is not in the report", form.name);
        }
        assert!(page.contains("synthetic") && demo.findings.checks().all(|check| check.holds));
        // A second demo replaces the first.
        run(&options, &|_| {}).expect("the demo runs again");
    }

    #[test]
    fn column_groups_are_counted() {
        let design = "preset = 'auto', column_groups = '(a, b), (c)', sort = 'a'";
        assert_eq!(short_design(design), "preset = 'auto', 2 column groups, sort = 'a'");
        assert_eq!(short_design("preset = 'row'"), "preset = 'row'");
    }

    #[test]
    fn metrics_are_pairs() {
        let pairs = metrics("DataSourceExec: x, metrics=[zones=74, bytes_read=589.8 K]");
        assert_eq!(pairs, [("zones".into(), "74".into()), ("bytes_read".into(), "589.8 K".into())]);
    }
}
