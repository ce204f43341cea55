//! Results of every type in every form, over every transport.

mod common;

use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::*;
use arrow::datatypes::*;
use common::*;
use freestone_wire::client::{Client, Input, Inputs};
use freestone_wire::server::Limits;
use freestone_wire::{Batch, Strings, WireError};

fn tables() -> Arc<Tables> {
    let mut tables = Tables::default();
    for (name, nulls) in [("dense", 0), ("some", 3), ("none_left", 1)] {
        let batches: Vec<RecordBatch> = (0..3).map(|seed| every_type(3000 + seed, nulls, seed as u64)).collect();
        let schema = batches[0].schema();
        tables.add(name, &schema, batches.iter().cloned().map(Batch::from).collect());
        let pages = batches.iter().enumerate().map(|(key, batch)| stored(batch, 4096, key as u64));
        tables.add(&format!("{name}_stored"), &schema, pages.collect());
    }
    let other = other_types(500);
    tables.add("other", &other.schema(), vec![other.into()]);
    let empty = every_type(0, 0, 0);
    tables.add("empty", &empty.schema(), vec![empty.into()]);
    let long =
        RecordBatch::try_from_iter([("s", Arc::new(StringViewArray::from(vec!["x".repeat(100_000)])) as ArrayRef)])
            .unwrap();
    tables.add("long", &long.schema(), vec![long.into()]);
    tables.add("growing", &growing().schema(), vec![growing().into()]);
    let number =
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(0..100_000)) as ArrayRef)]).unwrap();
    tables.add("numbers", &number.schema(), vec![number.into()]);
    let letter = StringViewArray::from_iter_values((0..50_000).map(|n| ["A", "N", "R"][n % 3]));
    let letter = RecordBatch::try_from_iter([("s", Arc::new(letter) as ArrayRef)]).unwrap();
    tables.add("letters", &letter.schema(), vec![letter.into()]);
    let pages = (0..3).map(|seed| stored(&wide(seed), 4096, 100 + seed));
    tables.add("wide_stored", &wide(0).schema(), pages.collect());
    Arc::new(tables)
}

/// Short rows, and rows of up to 300,000 bytes, each longer than those before.
fn growing() -> RecordBatch {
    let mut random = Rng::with_seed(3);
    let texts = (0..60usize).map(|row| match row % 5 {
        4 => (0..5000 * row).map(|_| random.alphanumeric()).collect(),
        _ => format!("row {row}"),
    });
    let texts = Arc::new(StringViewArray::from_iter_values(texts.collect::<Vec<String>>())) as ArrayRef;
    RecordBatch::try_from_iter([("s", texts)]).unwrap()
}

/// A table whose stored chunks of one row range do not fit one frame of 8 KiB, and all of them do not fit 32 frames.
fn wide(seed: u64) -> RecordBatch {
    let mut random = Rng::with_seed(seed + 1);
    let columns = (0..60).map(|at| {
        let bits = at % 12 + 1;
        let values = (0..9000).map(|_| {
            (!random.u64(..1 << 53).is_multiple_of(7)).then(|| (random.u64(..1 << 53) >> 20) as i64 % (1 << bits))
        });
        (format!("c{at}"), Arc::new(Int64Array::from_iter(values)) as ArrayRef, true)
    });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_chunks_of_many_columns_come_beside_each_other_in_several_frames() {
    let batches: Vec<RecordBatch> = (0..3).map(wide).collect();
    let expected = whole(&batches, &batches[0].schema());
    // Each pair of options and size with one of the three forms. All are tested if FREESTONE_TEST_ALL is set, because
    // each query takes a second.
    let all = std::env::var_os("FREESTONE_TEST_ALL").is_some();
    let settings = ["shared_memory=false", "", "streams=3", "threads=1&streams=2&ordered=true"];
    for (setting, options) in settings.into_iter().enumerate() {
        for (place, size) in [4096, 8192, 1 << 20].into_iter().enumerate() {
            let client = connect(&format!("chunk_size={size}&{options}"), Limits::default()).await;
            let forms = ["", " lz4", " raw encoded"].into_iter().enumerate();
            for (_, how) in forms.filter(|(form, _)| all || (setting + place + form) % 3 == 0) {
                let mut result = client.query(&format!("wide_stored{how}"), None).await.unwrap();
                let found = result.collect().await.unwrap_or_else(|error| panic!("{options}, {size}{how}: {error}"));
                assert_eq!(whole(&found, &expected.schema()), expected, "{options}, {size}{how}");
            }
        }
    }
}

/// The rows that a table of [`tables`] has.
fn expected(name: &str) -> RecordBatch {
    let nulls = match name {
        "dense" => 0,
        "some" => 3,
        _ => 1,
    };
    let batches: Vec<RecordBatch> = (0..3).map(|seed| every_type(3000 + seed, nulls, seed as u64)).collect();
    whole(&batches, &batches[0].schema())
}

async fn check_all(client: &Client) {
    for (name, strings) in
        ["dense", "some", "none_left"].into_iter().flat_map(|name| [(name, Strings::Views), (name, Strings::Plain)])
    {
        let expected = strings.batch(expected(name)).unwrap();
        for form in ["", "_stored"] {
            for how in [
                "",
                " raw",
                " lz4",
                " zstd",
                " snappy",
                " raw encoded",
                " zstd encoded",
                " raw sentinel",
                " snappy sentinel",
                " raw mask",
                " snappy mask",
            ] {
                let sql = format!("{name}{form}{how}");
                let mut result = client.query_with_inputs(&sql, Inputs { strings, ..Inputs::default() }).await.unwrap();
                let batches = result.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
                assert_eq!(result.summary().unwrap().rows, 9003, "{sql}");
                let found = whole(&batches, &result.schema().await.unwrap());
                for (at, field) in expected.schema().fields().iter().enumerate() {
                    assert_eq!(found.column(at), expected.column(at), "{sql}: {}", field.name());
                }
            }
        }
    }
}

async fn connect(options: &str, limits: Limits) -> Client {
    let address = serve_tcp(acceptor(limits), tables(), None).await;
    Client::connect(&format!("freestone://ann:secret@{address}?{options}")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_and_form_over_tcp() {
    check_all(&connect("shared_memory=false", Limits::default()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_and_form_through_shared_memory() {
    let client = connect("", Limits::default()).await;
    assert!(client.has_shared_memory());
    check_all(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_and_form_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.sock");
    serve_unix(acceptor(Limits::default()), tables(), &path).await;
    let address = format!("freestone+unix://ann:secret@{}?shared_memory=false", path.display());
    check_all(&Client::connect(&address).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tiny_chunks_carry_everything() {
    let client = connect("chunk_size=4096&shared_memory=false", Limits::default()).await;
    check_all(&client).await;
    assert_eq!(client.query("long", None).await.unwrap().collect().await.unwrap()[0].num_rows(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_larger_than_a_chunk_grow_the_clients_buffer() {
    for options in ["shared_memory=false", "", "streams=3", "streams=3&ordered=false&threads=1"] {
        let client = connect(&format!("chunk_size=4096&{options}"), Limits::default()).await;
        for how in ["", " raw", " lz4", " zstd encoded"] {
            // Short rows between long ones, each of which is longer than those before.
            let found = client.query(&format!("growing{how}"), None).await.unwrap().collect().await.unwrap();
            let found = whole(&found, &growing().schema());
            let is_unordered = options.contains("ordered=false");
            let sorted = |batch: &RecordBatch| {
                let mut texts: Vec<String> =
                    batch.column(0).as_string_view().iter().map(|text| text.unwrap().into()).collect();
                texts.sort_unstable();
                texts
            };
            match is_unordered {
                true => assert_eq!(sorted(&found), sorted(&growing()), "{options}{how}"),
                false => assert_eq!(found, growing(), "{options}{how}"),
            }
        }
        let numbers = client.query("numbers", None).await.unwrap().collect().await.unwrap();
        assert_eq!(numbers.iter().map(RecordBatch::num_rows).sum::<usize>(), 100_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_agrees_up_to_its_own_limit() {
    for options in ["shared_memory=false", "", "streams=3"] {
        let tables = tables();
        let address = serve_tcp(acceptor(Limits::default()), tables, None).await;
        let address = format!("freestone://ann:secret@{address}?chunk_size=4096&{options}");
        let client = Client::connect(&format!("{address}&row_size=50000")).await.unwrap();
        // The connection continues.
        let mut needed = 0usize;
        for sql in ["long", "long raw", "growing"] {
            let error = client.query(sql, None).await.unwrap().collect().await.unwrap_err();
            let WireError::Sql(error) = error else { panic!("{error}") };
            assert_eq!(error.sqlstate, "54000");
            assert!(error.message.contains("the client takes 50000; connect with row_size="), "{}", error.message);
            let named: usize = error.message.rsplit_once('=').unwrap().1.parse().unwrap();
            needed = if needed == 0 { named } else { needed };
        }
        // With the size that the message names, it works.
        let client = Client::connect(&format!("{address}&row_size={needed}")).await.unwrap();
        assert_eq!(client.query("long", None).await.unwrap().collect().await.unwrap()[0].num_rows(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_too_large_is_the_reason_that_is_told() {
    let client = connect("chunk_size=4096&row_size=4096&shared_memory=false", Limits::default()).await;
    // The connection continues.
    for _ in 0..2 {
        let error = client.query("cut long", None).await.unwrap().collect().await.unwrap_err();
        assert!(error.to_string().contains("connect with row_size="), "{error}");
    }
    // A row above the server's limit is refused whatever the client requests.
    let limits = Limits { chunk_bytes_max: 8192, ..Limits::default() };
    let client = connect("shared_memory=false", limits).await;
    let error = client.query("long", None).await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("the server's limit is 8192"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_above_the_size_of_chunks_are_uploaded_up_to_the_servers_limit() {
    let tables = tables();
    let limits = Limits { request_bytes_max: 4 << 20, ..Limits::default() };
    let address = serve_tcp(acceptor(limits), tables.clone(), None).await;
    let client = Client::connect(&format!("freestone://ann:secret@{address}")).await.unwrap();
    let text = |bytes: usize| {
        let mut random = Rng::with_seed(1);
        let text: String = (0..bytes).map(|_| char::from(b'a' + (random.u64(..1 << 53) % 26) as u8)).collect();
        let values = Arc::new(StringViewArray::from(vec!["short", &text, "short"])) as ArrayRef;
        RecordBatch::try_from_iter([("s", values)]).unwrap()
    };
    let large = text(3 << 20);
    let mut upload = client.upload("t", &large.schema()).await.unwrap();
    upload.send(large.clone()).await.unwrap();
    assert_eq!(upload.finish().await.unwrap().rows, 3);
    assert_eq!(whole(&tables.uploaded.lock().unwrap(), &large.schema()), large);
    let mut upload = client.upload("t", &large.schema()).await.unwrap();
    let sent = upload.send(text(5 << 20)).await;
    let error = match sent {
        Ok(()) => upload.finish().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("the server's limit is 4194304"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_streams_ordered_and_not() {
    let client = connect("streams=3&chunk_size=4096", Limits::default()).await;
    check_all(&client).await;
    let client = connect("streams=4&chunk_size=4096&ordered=false", Limits::default()).await;
    for table in ["numbers raw", "letters zstd encoded", "some_stored"] {
        let mut result = client.query(table, None).await.unwrap();
        let batches = result.collect().await.unwrap();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows as u64, result.summary().unwrap().rows);
    }
    let batches = client.query("numbers", None).await.unwrap().collect().await.unwrap();
    let mut numbers: Vec<i64> =
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..100_000));
}

/// As `openssl req -x509` creates it: an authority's certificate.
#[tokio::test(flavor = "multi_thread")]
async fn a_self_signed_certificate_of_an_authority_is_the_servers_own_for_those_who_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let make = |name: &str, years: [i32; 2]| {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters.not_before = rcgen::date_time_ymd(years[0], 1, 1);
        parameters.not_after = rcgen::date_time_ymd(years[1], 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(file(name), parameters.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(file("key.pem"), key.serialize_pem()).unwrap();
        freestone_wire::transport::tls_server_config(&file(name), &file("key.pem")).unwrap()
    };
    let connect = async |host: &str, address: &str, ca: &str| {
        let port = address.rsplit_once(':').unwrap().1;
        let ca = folder.path().join(ca);
        Client::connect(&format!("freestone://ann:secret@{host}:{port}?tls=require&tls_ca={}", ca.display())).await
    };
    let own = serve_tcp(acceptor(Limits::default()), tables(), Some(make("own.pem", [2020, 4000]))).await;
    connect("localhost", &own, "own.pem").await.expect("it is the one that was given");
    let error = connect("127.0.0.1", &own, "own.pem").await.expect_err("another name").to_string();
    assert!(error.contains("127.0.0.1"), "{error}");
    make("other.pem", [2020, 4000]);
    connect("localhost", &own, "other.pem").await.expect_err("another certificate");
    let old = serve_tcp(acceptor(Limits::default()), tables(), Some(make("old.pem", [2000, 2001]))).await;
    let error = connect("localhost", &old, "old.pem").await.expect_err("expired").to_string();
    assert!(error.contains("expired"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_and_never_silently_without() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let config = freestone_wire::transport::tls_server_config(&certificate, &key).unwrap();
    let address = serve_tcp(acceptor(Limits::default()), tables(), Some(config)).await;
    let port = address.rsplit_once(':').unwrap().1;
    let ca = certificate.display();
    let secure = format!("freestone://ann:secret@localhost:{port}?tls=require&tls_ca={ca}");
    check_all(&Client::connect(&secure).await.unwrap()).await;
    // A certificate for another name, or one that nobody trusts.
    let other = format!("freestone://ann:secret@127.0.0.1:{port}?tls=require&tls_ca={ca}");
    assert!(Client::connect(&other).await.unwrap_err().to_string().contains("TLS"));
    let untrusted = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(&certificate, untrusted.cert.pem()).unwrap();
    assert!(Client::connect(&secure).await.is_err());
    // The same port accepts plain connections of this machine.
    assert!(Client::connect(&format!("freestone://ann:secret@{address}")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_types_arrive_as_they_are() {
    let client = connect("", Limits::default()).await;
    let mut result = client.query("other zstd", None).await.unwrap();
    let batches = result.collect().await.unwrap();
    let schema = result.schema().await.unwrap();
    assert_eq!(whole(&batches, &schema), as_sent(&other_types(500)));
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_results_have_their_columns() {
    let client = connect("", Limits::default()).await;
    let mut result = client.query("empty", None).await.unwrap();
    assert_eq!(result.schema().await.unwrap(), every_type(0, 0, 0).schema());
    assert!(result.next().await.unwrap().is_none());
    assert!(result.next().await.unwrap().is_none());
    assert_eq!(result.summary().unwrap().rows, 0);
    let mut result = client.query("none", None).await.unwrap();
    assert!(result.next().await.unwrap().is_none());
    assert_eq!((result.summary().unwrap().rows, result.summary().unwrap().tag.as_str()), (7, "DELETE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_arrive_or_leave_nothing() {
    let tables = tables();
    let address = serve_tcp(acceptor(Limits::default()), tables.clone(), None).await;
    let client = Client::connect(&format!("freestone://ann:secret@{address}")).await.unwrap();
    let batch = every_type(20_000, 5, 1);
    let mut upload = client.upload("t", &batch.schema()).await.unwrap();
    for _ in 0..3 {
        upload.send(batch.clone()).await.unwrap();
    }
    assert_eq!(upload.finish().await.unwrap().rows, 60_000);
    let kept = std::mem::take(&mut *tables.uploaded.lock().unwrap());
    assert_eq!(whole(&kept, &batch.schema()), whole(&[batch.clone(), batch.clone(), batch.clone()], &batch.schema()));
    // Dropped in the middle.
    let mut upload = client.upload("t", &batch.schema()).await.unwrap();
    upload.send(batch.clone()).await.unwrap();
    drop(upload);
    // Refused by the server.
    let mut upload = client.upload("full", &batch.schema()).await.unwrap();
    let error = loop {
        if let Err(error) = upload.send(batch.clone()).await {
            break error;
        }
    };
    assert_eq!(error.to_string(), "disk full");
    drop(upload);
    assert_eq!(client.query("numbers", None).await.unwrap().collect().await.unwrap().len(), 2);
    assert!(tables.uploaded.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_go_along_with_statements() {
    let client = connect("", Limits::default()).await;
    let batch = every_type(20_000, 3, 1);
    let input = |name: &str, batches: Vec<Result<RecordBatch, WireError>>| Input {
        name: name.into(),
        schema: batch.schema(),
        whole: false,
        batches: Box::new(batches.into_iter()),
    };
    let many = || (0..20).map(|_| Ok(batch.clone())).collect::<Vec<_>>();
    let run = async |sql: &str, inputs| {
        let mut result = client.query_with_inputs(sql, Inputs { tables: inputs, ..Inputs::default() }).await?;
        while result.next().await?.is_some() {}
        Ok::<u64, WireError>(result.summary().unwrap().rows)
    };
    assert_eq!(run("all", vec![input("a", many()), input("b", vec![]), input("c", many())]).await.unwrap(), 800_000);
    assert!(run("skip", vec![input("a", many()), input("b", many())]).await.unwrap() < 800_000);
    let failing = vec![Ok(batch.clone()), Err(WireError::Source("the tap is dry".into())), Ok(batch.clone())];
    let error = run("all", vec![input("a", many()), input("b", failing)]).await.unwrap_err();
    assert_eq!(error.to_string(), "the tap is dry");
    // A statement that ends while it waits for the rows of an input.
    let row = batch.clone();
    let rows = std::iter::repeat_with(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        Ok(row.clone())
    });
    let slow = Input { batches: Box::new(rows), ..input("a", vec![]) };
    assert_eq!(run("drop", vec![slow]).await.unwrap(), 0);
    let prepared =
        client.prepare_with_inputs("numbers", Inputs { tables: vec![input("a", many())], ..Inputs::default() });
    assert_eq!(prepared.await.unwrap().columns().field(0).name(), "n");
    assert_eq!(run("all", vec![input("a", vec![Ok(batch.clone())])]).await.unwrap(), 20_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_prepared_with_typed_parameters() {
    let client = connect("", Limits::default()).await;
    let parameters = every_type(1, 0, 9);
    let echo = client.query("echo", Some(&parameters)).await.unwrap().collect().await.unwrap();
    assert_eq!(echo[0], parameters);
    let statement = client.prepare("echo").await.unwrap();
    assert_eq!(statement.parameters().field(0).data_type(), &DataType::Int64);
    for _ in 0..3 {
        let echo = client.execute(&statement, Some(&parameters)).await.unwrap().collect().await.unwrap();
        assert_eq!(echo[0], parameters);
    }
    assert_eq!(client.prepare("error").await.unwrap_err().to_string(), "syntax");
    let numbers = client.prepare("numbers").await.unwrap();
    assert_eq!(numbers.columns().field(0).name(), "n");
}

#[test]
fn the_blocking_client_does_the_same() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let tables = tables();
    let address = runtime.block_on(serve_tcp(acceptor(Limits::default()), tables.clone(), None));
    let client = freestone_wire::blocking::Client::connect(&format!("freestone://ann:secret@{address}")).unwrap();
    let mut result = client.query("numbers", None).unwrap();
    assert_eq!(result.schema().unwrap().field(0).name(), "n");
    let rows: usize = result.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 100_000);
    drop(client.query("numbers forever", None).unwrap());
    let batch = every_type(10, 0, 0);
    let summary = client.upload("t", &batch.schema(), [Ok(batch.clone())]).unwrap();
    assert_eq!((summary.rows, summary.tag.as_str()), (10, "INSERT"));
    assert!(tables.sent.load(Ordering::Relaxed) >= 100_000);
}
