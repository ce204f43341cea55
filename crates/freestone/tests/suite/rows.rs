//! Statements whose failure is the test's.

use arrow::util::pretty::pretty_format_batches;
use freestone::Session;

/// Runs a statement, whatever it gives.
pub async fn run(session: &Session, sql: &str) {
    session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A query's rows as a table of text.
pub async fn answer(session: &Session, sql: &str) -> String {
    let rows = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = rows.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    pretty_format_batches(&rows).unwrap().to_string()
}
