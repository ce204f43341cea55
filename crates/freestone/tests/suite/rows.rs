//! Statements that must succeed.

use arrow::util::pretty::pretty_format_batches;
use freestone::Session;

/// Runs a statement, whatever it returns.
pub async fn run(session: &Session, sql: &str) {
    session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// The rows of a query, as a text table.
pub async fn answer(session: &Session, sql: &str) -> String {
    let rows = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = rows.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    pretty_format_batches(&rows).unwrap().to_string()
}
