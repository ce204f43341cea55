//! The SELECTs of all SQL tests, planned by the binder and from sqlparser's tree: both give the same rows.
//!
//! `cargo test … binder -- --nocapture` prints how many there are, which forms are not bound yet, and what differs.

use std::collections::BTreeMap;

use freestone::{Database, Options, Session, StatementKind};

#[path = "../../../freestone-sql/tests/slt/mod.rs"]
mod cases;

/// What became of the SELECTs.
#[derive(Default)]
struct Report {
    same: usize,
    both_fail: usize,
    /// Of which two runs of the same plan give other rows.
    not_repeatable: usize,
    differing: Vec<String>,
    forms: BTreeMap<String, usize>,
}

/// The rows of a query in an order that does not depend on the plan, or its error.
async fn rows(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    let outcome = session.sql(sql).await.map_err(|error| error.to_string())?;
    let batches = outcome.collect().await.map_err(|error| error.to_string())?;
    let table = arrow::util::pretty::pretty_format_batches(&batches).map_err(|error| error.to_string())?.to_string();
    let mut lines: Vec<String> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.retain(|line| !line.starts_with("+-"));
    // The first line has the headings.
    lines.sort();
    Ok(lines)
}

async fn compare(session: &Session, case: &cases::Case, report: &mut Report) {
    session.use_binder(false);
    let before = rows(session, &case.sql).await;
    let again = rows(session, &case.sql).await;
    session.use_binder(true);
    let bound = rows(session, &case.sql).await;
    session.use_binder(false);
    match (before, bound) {
        (before, _) if before != again => report.not_repeatable += 1,
        (Ok(before), Ok(bound)) if before == bound => report.same += 1,
        (Err(_), Err(_)) => report.both_fail += 1,
        (before, bound) => {
            let brief = |rows: Result<Vec<String>, String>| match rows {
                Ok(rows) => format!("{} rows: {}", rows.len(), rows.join(" ⏎ ").chars().take(300).collect::<String>()),
                Err(error) => format!("error: {}", error.chars().take(300).collect::<String>()),
            };
            let (before, bound) = (brief(before), brief(bound));
            report.differing.push(format!("{}\n{}\n  before: {before}\n  bound:  {bound}", case.place, case.sql));
        }
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
    println!("not bound: {:#?}", report.forms);
    println!("{}", report.differing.join("\n"));
    let compared = report.same + report.differing.len();
    // Most of those that differ do so in the spelling of headings. These limits only get narrower.
    assert!(report.same >= 1330 && report.differing.len() <= 92, "{} of {compared} differ", report.differing.len());
}
