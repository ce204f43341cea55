//! The SELECTs of all SQL tests, planned by the binder and from sqlparser's tree: both give the same rows.
//!
//! `cargo test … binder -- --nocapture` prints how many there are, which forms are not bound yet, and what differs.

use std::collections::BTreeMap;

use freestone::{Database, Options, Session, StatementKind};

#[path = "../../../freestone-sql/tests/slt/mod.rs"]
mod cases;

/// The forms that sqlparser's tree plans, each with the number of SELECTs of the tests that have it. They only get fewer.
const NOT_BOUND: [(&str, usize); 2] = [("a statement of another grammar", 1), ("a statement without a query", 3)];

/// The SELECTs whose rows differ. The number only falls.
const DIFFERING: usize = 0;

/// The SELECTs whose headings differ: those that sqlparser's tree calls by what it makes of a form, such as
/// `freestone_filter_at([1], (x) -> x > 1)`, and not as it is written. They only get fewer.
const OTHER_HEADINGS: usize = 41;

/// What became of the SELECTs.
#[derive(Default)]
struct Report {
    same: usize,
    both_fail: usize,
    /// Of which two runs of the same plan give other rows.
    not_repeatable: usize,
    differing: Vec<String>,
    other_headings: Vec<String>,
    forms: BTreeMap<String, usize>,
}

/// The headings of a query, and its rows in an order that does not depend on the plan, or its error.
async fn rows(session: &Session, sql: &str) -> Result<(Vec<String>, Vec<String>), String> {
    let outcome = session.sql(sql).await.map_err(|error| error.to_string())?;
    let freestone::Outcome::Rows { schema, .. } = &outcome else { return Err("there are no rows".to_owned()) };
    let headings = schema.fields().iter().map(|field| field.name().clone()).collect();
    let batches = outcome.collect().await.map_err(|error| error.to_string())?;
    let table = arrow::util::pretty::pretty_format_batches(&batches).map_err(|error| error.to_string())?.to_string();
    let lines = table.lines().filter(|line| !line.starts_with("+-")).skip(1);
    let mut lines: Vec<String> = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    Ok((headings, lines))
}

async fn compare(session: &Session, case: &cases::Case, report: &mut Report) {
    session.use_binder(false);
    let before = rows(session, &case.sql).await;
    let again = rows(session, &case.sql).await;
    session.use_binder(true);
    let counts = session.binder_counts();
    let bound = rows(session, &case.sql).await;
    for (form, count) in session.binder_counts() {
        if !form.is_empty() && counts.get(&form) != Some(&count) {
            println!("not bound: {form}: {}", case.sql);
        }
    }
    session.use_binder(false);
    let described = |before: &dyn std::fmt::Debug, bound: &dyn std::fmt::Debug| {
        let brief = |shown: String| shown.chars().take(400).collect::<String>();
        let (before, bound) = (brief(format!("{before:?}")), brief(format!("{bound:?}")));
        format!("{}\n{}\n  before: {before}\n  bound:  {bound}", case.place, case.sql)
    };
    match (before, bound) {
        (before, _) if before != again => report.not_repeatable += 1,
        (Err(_), Err(_)) => report.both_fail += 1,
        (Ok((headings, before)), Ok((others, bound))) if before == bound => {
            report.same += 1;
            if headings != others {
                report.other_headings.push(described(&headings, &others));
            }
        }
        (before, bound) => report.differing.push(described(&before, &bound)),
    }
}

/// Whether a statement is a SELECT.
fn is_select(session: &Session, sql: &str) -> bool {
    let first = sql.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    let is_other =
        matches!(first.as_str(), "EXPLAIN" | "DESCRIBE" | "DESC" | "SUMMARIZE" | "PRAGMA" | "EXECUTE" | "ADVISE");
    match session.parse(sql).unwrap_or_default().as_slice() {
        [only] => only.kind == StatementKind::Query && !is_other,
        _ => false,
    }
}

#[test]
fn the_binder_gives_the_rows_of_today() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut report = Report::default();
    let all = cases::cases();
    let file = |case: &cases::Case| case.place.rsplit_once(':').map(|(file, _)| file.to_owned()).unwrap_or_default();
    for of_file in all.chunk_by(|one, other| file(one) == file(other)) {
        runtime.block_on(async {
            let database = Database::in_memory(Options::default()).unwrap();
            let session = database.session();
            for case in of_file {
                match is_select(&session, &case.sql) {
                    true => compare(&session, case, &mut report).await,
                    // A statement that must fail may do so.
                    false => drop(session.sql(&case.sql).await),
                }
            }
            for (form, count) in session.binder_counts() {
                *report.forms.entry(form).or_default() += count;
            }
        });
    }
    let bound = report.forms.remove("").unwrap_or_default();
    println!("{bound} bound, {} same rows, {} fail in both ways", report.same, report.both_fail);
    println!("{} not repeatable, {} differ", report.not_repeatable, report.differing.len());
    println!("{} have other headings:\n{}", report.other_headings.len(), report.other_headings.join("\n"));
    println!("not bound: {:#?}", report.forms);
    let differing = report.differing.len();
    assert!(differing <= DIFFERING, "{differing} differ:\n{}", report.differing.join("\n"));
    assert!(report.same >= 1400, "only {} are compared", report.same);
    let others = report.other_headings.len();
    assert!(others <= OTHER_HEADINGS, "{others} have other headings");
    for (form, count) in &report.forms {
        let known = NOT_BOUND.iter().find(|(known, _)| known == form).map_or(0, |(_, count)| *count);
        assert!(*count <= known, "{count} are not bound: {form}");
    }
}

/// Prints how long plans take in both ways: `cargo test … how_long_plans_take -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "it prints times"]
async fn how_long_plans_take() {
    let data = tempfile::tempdir().unwrap();
    freestone_data::tpch::write_parquet(data.path(), 0.01).unwrap();
    let database = Database::in_memory(Options { threads: 1, ..Options::default() }).unwrap();
    let session = crate::tpch::load(&database, data.path(), ("design = 'column'", "design = 'column'")).await;
    for round in 0..2 {
        for is_on in [false, true] {
            session.use_binder(is_on);
            let began = std::time::Instant::now();
            for at in 0..300 {
                session.sql(&format!("SELECT {}", round * 1000 + at)).await.unwrap().collect().await.unwrap();
            }
            let short = began.elapsed() / 300;
            let began = std::time::Instant::now();
            for (_, sql) in freestone_data::queries::tpch_queries() {
                session.sql(&format!("EXPLAIN {sql}")).await.unwrap().collect().await.unwrap();
            }
            println!("binder {is_on}: SELECT {short:?}, the plans of TPC-H {:?}", began.elapsed());
        }
    }
}
