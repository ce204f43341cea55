//! Runs a file of SQL statements and prints the rows as CSV: the engine embedded in a program of one page.
//!
//! ```sh
//! cargo run --release -p freestone --example script -- DB -f FILE [--pmem emulated]
//! ```

use freestone::display::ValueTexts;
use freestone::{Database, Error, Options, Outcome};
use futures::StreamExt;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, _, file, ..] = arguments.as_slice() else {
        eprintln!("usage: script DB -f FILE");
        return std::process::ExitCode::from(2);
    };
    let pmem_emulated = (arguments[4..] == ["--pmem", "emulated"]).then(Default::default);
    match run(folder, file, Options { pmem_emulated, ..Options::default() }).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            std::process::ExitCode::FAILURE
        }
    }
}

async fn run(folder: &str, file: &str, options: Options) -> Result<(), Error> {
    let database = Database::open(std::path::Path::new(folder), options)?;
    let session = database.session();
    let script = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    for statement in session.parse(&script)? {
        let Outcome::Rows { mut stream, .. } = session.execute(&statement).await? else { continue };
        let names: Vec<String> = stream.schema().fields().iter().map(|field| quoted(field.name())).collect();
        println!("{}", names.join(","));
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let columns: Result<Vec<_>, _> =
                batch.columns().iter().map(|column| ValueTexts::new(column.as_ref())).collect();
            let columns = columns.expect("columns of a result can be printed");
            for row in 0..batch.num_rows() {
                let cell = |column: &ValueTexts<'_>| {
                    let mut text = String::new();
                    if !column.is_null(row) {
                        column.append(row, &mut text);
                    }
                    quoted(&text)
                };
                let cells: Vec<String> = columns.iter().map(cell).collect();
                println!("{}", cells.join(","));
            }
        }
    }
    Ok(())
}

/// A cell in the form of CSV.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
