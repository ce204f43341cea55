//! Advice on the design of a table, for a workload that the program gives, and the comparison of a query in two designs.
//!
//! ```sh
//! cargo run --release -p freestone --example advise
//! ```

use std::error::Error;

use arrow::util::pretty::pretty_format_batches;
use freestone::{AdviseOptions, Database, Options};

/// Most statements fetch whole rows by their key. Few sum up one column.
const WORKLOAD: &str = "
-- weight: 1000
SELECT * FROM t WHERE id = 4711;
-- weight: 1
SELECT day, sum(price) FROM t GROUP BY day;
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = Database::in_memory(Options::default())?;
    let session = database.session();
    session
        .sql(
            "CREATE TABLE t AS SELECT v AS id, v % 365 AS day, v * 31 % 9973 AS price, v % 7 AS a, v % 11 AS b, v % 13 AS c \
             FROM generate_series(1, 200000) AS g(v)",
        )
        .await?;
    // Without `verify`, the model decides alone. With it, the best designs are stored as samples and measured.
    let options = AdviseOptions { workload: Some(WORKLOAD.into()), verify: false, ..AdviseOptions::default() };
    for advice in session.advise(options).await? {
        println!("{advice}");
        if let Some(best) = advice.recommended() {
            println!("to convert: {}\nto go back: {}", best.apply, best.revert);
            session.sql(&best.apply).await?;
        }
    }
    let compared =
        session.sql("WHATIF t DESIGN (preset = 'row') FOR SELECT day, sum(price) FROM t GROUP BY day").await?;
    println!("{}", pretty_format_batches(&compared.collect().await?)?);
    Ok(())
}
