//! The engine embedded in a program: a table, a query with a parameter, and a query that also reads rows of the program.
//!
//! ```sh
//! cargo run --release -p freestone --example embed
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use arrow::util::pretty::pretty_format_batches;
use freestone::{ArrowTable, Database, Inputs, Options, ScalarValue};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // `Database::open("shop", …)` stores the database in a folder instead.
    let database = Database::in_memory(Options::default())?;
    let session = database.session();
    session.sql("CREATE TABLE sales (city VARCHAR, amount DECIMAL(10, 2))").await?;
    session.sql("INSERT INTO sales VALUES ('Oslo', 12.50), ('Bergen', 7.25), ('Oslo', 3.00)").await?;

    // A statement is parsed once and executed with values for its parameters.
    let query =
        session.parse("SELECT city, sum(amount) AS total FROM sales WHERE amount > $1 GROUP BY city ORDER BY city")?;
    for least in [0, 5] {
        let rows = session.execute_with(&query[0], vec![ScalarValue::Int32(Some(least))]).await?.collect().await?;
        println!("amount > {least}\n{}", pretty_format_batches(&rows)?);
    }

    // Rows of the program are a table for one statement, without a copy.
    let city: ArrayRef = Arc::new(StringViewArray::from_iter_values(["Bergen", "Oslo"]));
    let people: ArrayRef = Arc::new(Int32Array::from(vec![291_940, 717_710]));
    let cities = RecordBatch::try_from_iter([("city", city), ("people", people)])?;
    let table = ArrowTable::of_batches(&cities.schema(), [cities])?;
    let inputs = Inputs { tables: Arc::new(HashMap::from([("cities".to_owned(), table)])), ..Inputs::default() };
    let query = session
        .parse("SELECT city, people, count(*) AS sales FROM cities JOIN sales USING (city) GROUP BY city, people ORDER BY city")?;
    let rows = session.execute_with_inputs(&query[0], inputs).await?.collect().await?;
    println!("{}", pretty_format_batches(&rows)?);
    Ok(())
}
