//! Results that stay in memory that client and server share.

mod common;

use fastrand::Rng;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::*;
use common::*;
use freestone_wire::client::{Client, Inputs};
use freestone_wire::server::Limits;
use freestone_wire::{Batch, Strings, WireError};

const TABLES: [&str; 4] = ["numbers", "numbers_stored", "texts", "texts_stored"];

/// Numbers without a pattern; and strings of a dictionary of which most entries are short, but most rows have a long
/// one, so that the rows have far more bytes than the entries suggest.
fn batch(name: &str) -> RecordBatch {
    let mut random = Rng::with_seed(7);
    let array: ArrayRef = match name.trim_end_matches("_stored") {
        "numbers" => Arc::new(Int64Array::from_iter_values((0..100_000).map(|_| random.u64(..1 << 53) as i64))),
        "texts" => {
            let words: Vec<String> =
                (0..1000).map(|at| format!("{at} ").repeat(if at < 20 { 500 } else { 1 })).collect();
            let of = |row: usize| if row.is_multiple_of(10) { 1000 } else { 20 };
            let word = |row| &words[(random.u64(..1 << 53) >> 40) as usize % of(row)];
            Arc::new(StringViewArray::from_iter_values((0..70_000).map(word)))
        }
        _ => Arc::new(StringViewArray::from(vec!["x".repeat(100_000)])),
    };
    RecordBatch::try_from_iter([("v", array)]).unwrap()
}

async fn serve(limits: Limits) -> String {
    let mut tables = Tables::default();
    for (key, name) in TABLES.into_iter().chain(["long"]).enumerate() {
        let rows = batch(name);
        let given = if name.ends_with("_stored") { stored(&rows, 8192, key as u64) } else { Batch::from(rows.clone()) };
        tables.add(name, &rows.schema(), vec![given]);
    }
    let address = serve_tcp(acceptor(limits), Arc::new(tables), None).await;
    format!("freestone://ann:secret@{address}")
}

async fn collect(client: &Client, table: &str, strings: Strings) -> Vec<RecordBatch> {
    let mut result = client.query_with_inputs(table, Inputs { strings, ..Inputs::default() }).await.unwrap();
    result.collect().await.unwrap_or_else(|error| panic!("{table}: {error}"))
}

fn check(found: &[RecordBatch], table: &str, strings: Strings) {
    let expected = strings.batch(batch(table)).unwrap();
    assert!(whole(found, &expected.schema()) == expected, "{table} is another");
}

/// Whether values are in a mapping that a server has created and this process can only read.
fn is_placed(batch: &RecordBatch) -> bool {
    let data = batch.column(0).to_data();
    let address = data.buffers().last().unwrap().as_ptr() as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("memfd:freestone") && line.contains(" r--s ")).any(|line| {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(from)..number(to)).contains(&address)
    })
}

/// Numbers are written some thousand rows at a time, unless one of them is NULL.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_type_and_a_late_null_are_laid_out_whole() {
    const ROWS: usize = 40_000;
    let late = |at: usize| Int64Array::from_iter((0..ROWS).map(|row| (row != at).then_some(row as i64 * 3)));
    let late: Vec<(&str, ArrayRef)> = vec![("last", Arc::new(late(ROWS - 1))), ("none", Arc::new(late(ROWS)))];
    let rows = [every_type(ROWS, 0, 1), every_type(ROWS, 7, 2), RecordBatch::try_from_iter(late).unwrap()];
    let mut tables = Tables::default();
    for (at, rows) in rows.iter().enumerate() {
        tables.add(&at.to_string(), &rows.schema(), vec![stored(rows, 8192, at as u64)]);
    }
    let address = serve_tcp(acceptor(Limits::default()), Arc::new(tables), None).await;
    let client = Client::connect(&format!("freestone://ann:secret@{address}")).await.unwrap();
    for (at, rows) in rows.iter().enumerate() {
        let found = collect(&client, &at.to_string(), Strings::Views).await;
        assert!(whole(&found, &rows.schema()) == *rows, "table {at} is another");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_are_where_the_server_laid_them_out_and_stay_as_long_as_they_are_held() {
    let address = serve(Limits::default()).await;
    let (first, second) = (Client::connect(&address).await.unwrap(), Client::connect(&address).await.unwrap());
    let mut kept = vec![];
    for table in TABLES {
        for strings in [Strings::Views, Strings::Plain] {
            let found = collect(&first, table, strings).await;
            assert!(found.iter().all(is_placed), "{table}");
            kept.push((table, strings, found));
        }
    }
    drop(first);
    for table in TABLES {
        drop(collect(&second, table, Strings::Plain).await);
    }
    for (table, strings, found) in &kept {
        check(found, table, *strings);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_was_given_back_serves_the_next_result() {
    let limits = Limits { placed_bytes_max: 4 << 20, ..Limits::default() };
    let client = Client::connect(&serve(limits).await).await.unwrap();
    for table in ["numbers", "numbers_stored"].into_iter().cycle().take(40) {
        let found = collect(&client, table, Strings::Plain).await;
        assert!(found.iter().all(is_placed), "{table}");
        check(&found, table, Strings::Plain);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_room_results_are_copied() {
    for bytes in [0, 64 << 10, 1 << 20, 20 << 20] {
        let client =
            Client::connect(&serve(Limits { placed_bytes_max: bytes, ..Limits::default() }).await).await.unwrap();
        assert!(client.has_shared_memory());
        let mut kept = vec![];
        for table in TABLES {
            for strings in [Strings::Views, Strings::Plain] {
                let found = collect(&client, table, strings).await;
                check(&found, table, strings);
                kept.extend(found);
            }
        }
        assert!(!kept.iter().all(is_placed), "{bytes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_get_everything_and_others_need_not_take_it() {
    let address = serve(Limits::default()).await;
    let client = Client::connect(&address).await.unwrap();
    for table in TABLES {
        let mut result = client.query(table, None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut found = vec![];
        while let Some(batch) = result.next().await.unwrap() {
            found.push(batch);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        check(&found, table, Strings::Views);
        let mut result = client.query(table, None).await.unwrap();
        _ = result.next().await.unwrap();
        drop(result);
        check(&collect(&client, table, Strings::Views).await, table, Strings::Views);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_chunks_and_large_rows_are_as_over_a_socket() {
    let address = serve(Limits::default()).await;
    let client = Client::connect(&format!("{address}?chunk_size=16384")).await.unwrap();
    for table in TABLES {
        check(&collect(&client, table, Strings::Plain).await, table, Strings::Plain);
    }
    // The second time, the client has agreed to the row's size.
    for _ in 0..2 {
        check(&collect(&client, "long", Strings::Plain).await, "long", Strings::Plain);
    }
    let client = Client::connect(&format!("{address}?chunk_size=16384&row_size=16384")).await.unwrap();
    let error = client.query("long", None).await.unwrap().collect().await.unwrap_err();
    let WireError::Sql(error) = error else { panic!("{error}") };
    assert_eq!(error.sqlstate, "54000");
    let needed: usize = error.message.rsplit_once('=').unwrap().1.parse().unwrap();
    let client = Client::connect(&format!("{address}?chunk_size={needed}")).await.unwrap();
    check(&collect(&client, "long", Strings::Plain).await, "long", Strings::Plain);
}
