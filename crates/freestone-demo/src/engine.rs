//! The engine for experiments: blocking calls, times, and checksums of answers.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::row::{RowConverter, SortField};
use arrow::util::display::array_value_to_string;
use freestone::{Advice, AdviseOptions, Database, Options, Outcome, Session};
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};

use crate::error::{DemoError, Result};

/// An open database with one session.
pub struct Engine {
    runtime: Runtime,
    database: Arc<Database>,
    session: Session,
}

/// The rows of an answer as a multiset: two answers are equal if their rows are, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The number of rows.
    pub rows: u64,
    /// The sum, modulo 2^64, of a hash of each row.
    pub checksum: u64,
}

impl std::fmt::Display for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x} ({} rows)", self.checksum, self.rows)
    }
}

/// The repetitions of a query: until `budget` is spent, between `least` and `most` times, after one warm-up run.
#[derive(Debug, Clone, Copy)]
pub struct Repeat {
    /// The minimum number of repetitions.
    pub least: usize,
    /// The maximum number of repetitions.
    pub most: usize,
    /// The time after which no further repetition starts.
    pub budget: Duration,
}

impl Engine {
    /// Opens the database folder at `path`.
    ///
    /// # Errors
    /// The engine cannot open it.
    pub fn open(path: &Path, options: Options) -> Result<Engine> {
        let threads = options.threads.max(1);
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime = runtime.map_err(DemoError::file(path))?;
        let database = {
            let _entered = runtime.enter();
            Database::open(path, options)?
        };
        let session = database.session();
        Ok(Engine { runtime, database, session })
    }

    /// Runs one statement and reads all rows. Returns the number of rows that it returned, wrote or removed.
    ///
    /// # Errors
    /// The statement fails.
    pub fn run(&self, sql: &str) -> Result<u64> {
        let mut rows = 0;
        match self.runtime.block_on(self.session.sql(sql))? {
            Outcome::Affected { rows, .. } => Ok(rows),
            Outcome::Done { .. } => Ok(0),
            outcome => {
                self.drain(outcome, |batch| {
                    rows += batch.num_rows() as u64;
                    Ok(())
                })?;
                Ok(rows)
            }
        }
    }

    /// Runs every statement of a script.
    ///
    /// # Errors
    /// A statement fails.
    pub fn run_script(&self, script: &str) -> Result<()> {
        for statement in self.session.parse(script)? {
            let outcome = self.runtime.block_on(self.session.execute(&statement))?;
            self.drain(outcome, |_| Ok(()))?;
        }
        Ok(())
    }

    /// The multiset checksum of a query's rows.
    ///
    /// # Errors
    /// The query fails.
    pub fn answer(&self, sql: &str) -> Result<Answer> {
        let outcome = self.runtime.block_on(self.session.sql(sql))?;
        let mut answer = Answer { rows: 0, checksum: 0 };
        let mut converter = None;
        self.drain(outcome, |batch| {
            if converter.is_none() {
                let fields = batch.schema().fields().iter().map(|f| SortField::new(f.data_type().clone())).collect();
                converter = Some(RowConverter::new(fields).map_err(wrong)?);
            }
            let Some(converter) = &mut converter else { return Ok(()) };
            let rows = converter.convert_columns(batch.columns()).map_err(wrong)?;
            answer.rows += rows.num_rows() as u64;
            let hashes = rows.iter().map(|row| hash(row.as_ref()));
            answer.checksum = hashes.fold(answer.checksum, u64::wrapping_add);
            Ok(())
        })?;
        Ok(answer)
    }

    /// The median time of a query from its text to its last batch, in milliseconds.
    ///
    /// # Errors
    /// The query fails.
    pub fn median_ms(&self, sql: &str, repeat: Repeat) -> Result<f64> {
        self.run(sql)?;
        let (mut times, began) = (vec![], Instant::now());
        while times.len() < repeat.least || (times.len() < repeat.most && began.elapsed() < repeat.budget) {
            let start = Instant::now();
            self.run(sql)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(times))
    }

    /// The advice for a table, from the queries that ran on it.
    ///
    /// # Errors
    /// The advisor fails.
    pub fn advice(&self, table: &str) -> Result<Advice> {
        let options = AdviseOptions { table: Some(table.to_owned()), ..AdviseOptions::default() };
        let mut all = self.runtime.block_on(self.session.advise(options))?;
        all.pop().ok_or_else(|| DemoError::Answers(format!("there is no advice on {table}")))
    }

    /// The text of an answer's last column, one line per row.
    ///
    /// # Errors
    /// The query fails.
    pub fn text(&self, sql: &str) -> Result<String> {
        let outcome = self.runtime.block_on(self.session.sql(sql))?;
        let mut text = String::new();
        self.drain(outcome, |batch| {
            let Some(column) = batch.columns().last() else { return Ok(()) };
            for row in 0..batch.num_rows() {
                text.push_str(&array_value_to_string(column, row).map_err(wrong)?);
                text.push('\n');
            }
            Ok(())
        })?;
        Ok(text)
    }

    /// The bytes of a table on disk: whole pages, headers, zones and footers.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn table_bytes(&self, table: &str) -> Result<u64> {
        let snapshot = self.database.store().snapshot().map_err(freestone::Error::from)?;
        Ok(snapshot.table(table).map_or(0, |table| table.bytes()))
    }

    fn drain(&self, outcome: Outcome, mut each: impl FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        let Outcome::Rows { mut stream, .. } = outcome else { return Ok(()) };
        self.runtime.block_on(async {
            while let Some(batch) = stream.next().await {
                each(&batch.map_err(freestone::Error::from)?)?;
            }
            Ok(())
        })
    }
}

fn wrong(error: arrow::error::ArrowError) -> DemoError {
    DemoError::Answers(format!("an answer's rows cannot be compared: {error}"))
}

/// The median; 0 without values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

/// A hash of a row's bytes: multiply and rotate by words, then SplitMix64's finalizer, so that the hashes of similar
/// rows do not cancel in a sum.
pub fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    let mixed = words.fold(bytes.len() as u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR));
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> (tempfile::TempDir, Engine) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let engine = Engine::open(folder.path(), Options { threads: 2, ..Options::default() }).expect("a new database");
        (folder, engine)
    }

    #[test]
    fn answers_are_equal_in_any_order_and_differ_by_any_value() {
        let (_folder, engine) = engine();
        let answer = |sql: &str| engine.answer(sql).expect("valid SQL");
        let rows = answer("VALUES (1, 'a'), (2, 'b'), (2, 'b')");
        assert_eq!(rows, answer("VALUES (2, 'b'), (2, 'b'), (1, 'a')"));
        for other in ["(1, 'a'), (2, 'b')", "(1, 'a'), (1, 'a'), (2, 'b')", "(2, 'a'), (1, 'b'), (2, 'b')"] {
            assert_ne!(rows, answer(&format!("VALUES {other}")));
        }
    }

    #[test]
    fn tables_have_bytes_and_queries_have_times() {
        let (_folder, engine) = engine();
        engine.run("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 1000)").expect("valid SQL");
        assert!(engine.table_bytes("t").expect("a snapshot") > 0);
        let repeat = Repeat { least: 2, most: 2, budget: Duration::ZERO };
        assert!(engine.median_ms("SELECT sum(a) FROM t", repeat).expect("valid SQL") > 0.0);
        assert_eq!(engine.text("SELECT count(*) FROM t").expect("valid SQL"), "1000\n");
    }

    #[test]
    fn the_median_is_the_middle() {
        for (values, expected) in [(vec![], 0.0), (vec![3.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 3.0], 2.5)] {
            assert_eq!(median(values), expected);
        }
    }
}
