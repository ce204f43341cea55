//! Common functions of the tests of answers: running queries, and rows in the form of the answer files.

use std::fs;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use freestone::Session;

/// The rows of a statement that succeeds.
pub async fn run(session: &Session, sql: &str) -> Vec<Vec<String>> {
    let outcome = session.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    rows(&outcome.collect().await.unwrap_or_else(|e| panic!("{sql}: {e}")))
}

fn rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("");
    let mut rows = vec![];
    for batch in batches {
        let columns = batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap());
        let columns: Vec<_> = columns.collect();
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect()));
    }
    rows
}

/// DuckDB's answer to a query of a benchmark at scale factor 0.1: `crates/freestone-data/queries/{benchmark}/answers-sf0.1/{query}.tsv`.
pub fn answer(benchmark: &str, query: &str) -> Vec<Vec<String>> {
    let folder = Path::new("../freestone-data/queries").join(benchmark).join("answers-sf0.1");
    let text = fs::read_to_string(folder.join(format!("{query}.tsv"))).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}
