//! One table in several designs: its size, and the time of a query of few columns and of one that fetches whole rows.
//!
//! ```sh
//! cargo run --release -p freestone --example designs
//! ```

use std::error::Error;
use std::time::Instant;

use arrow::util::pretty::pretty_format_batches;
use freestone::{Database, Options};

const ROWS: usize = 300_000;

const DESIGNS: [&str; 5] = [
    "preset = 'column'",
    "preset = 'row'",
    "preset = 'slotted'",
    "preset = 'auto', column_groups = '(id, day, price), (a, b, c, d)'",
    "preset = 'column', sort = 'day', rle_levels = 1",
];

const QUERIES: [&str; 2] = [
    "SELECT day, sum(price) FROM t WHERE price < 500 GROUP BY day ORDER BY day",
    "SELECT * FROM t WHERE id % 1000 = 7",
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = Database::in_memory(Options::default())?;
    let session = database.session();
    session
        .sql(&format!(
            "CREATE TABLE t AS SELECT v AS id, v * 7919 % 365 AS day, v * 31 % 9973 AS price, v % 7 AS a, v % 11 AS b, \
             v % 13 AS c, v % 17 AS d FROM generate_series(1, {ROWS}) AS g(v)"
        ))
        .await?;
    let mut expected: Option<Vec<usize>> = None;
    for design in DESIGNS {
        // Rewrites the table. An option `preset` resets the options that are not named.
        session.sql(&format!("ALTER TABLE t SET DESIGN ({design})")).await?;
        let mut counts = vec![];
        print!("{design}:");
        for query in QUERIES {
            let begin = Instant::now();
            let batches = session.sql(query).await?.collect().await?;
            print!(" {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
            counts.push(batches.iter().map(|batch| batch.num_rows()).sum());
        }
        println!();
        let expected = expected.get_or_insert_with(|| counts.clone());
        assert_eq!(*expected, counts, "a design does not change results");
        let size = session.sql("SELECT bytes, design FROM freestone_tables()").await?.collect().await?;
        println!("{}", pretty_format_batches(&size)?);
    }
    Ok(())
}
