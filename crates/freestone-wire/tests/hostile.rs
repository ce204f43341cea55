//! Things that must cause no harm: slow, disconnected or faulty clients, and damaged bytes.

mod common;

use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow::array::*;
use common::*;
use freestone_wire::auth::Verifier;
use freestone_wire::client::{Client, Input, Inputs};
use freestone_wire::frame::{Blob, HEADER_BYTES, frame};
use freestone_wire::message::{self, MAGIC, Purpose, VERSION};
use freestone_wire::server::Limits;
use freestone_wire::{Batch, WireError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn tables() -> Arc<Tables> {
    let mut tables = Tables::default();
    let batch = every_type(5000, 3, 1);
    tables.add("types", &batch.schema(), vec![batch.clone().into()]);
    tables.add("stored", &batch.schema(), vec![stored(&batch, 4096, 0)]);
    let numbers = Arc::new(Int64Array::from_iter_values(0..1 << 16)) as ArrayRef;
    let numbers = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    tables.add("numbers", &numbers.schema(), vec![numbers.into(); 16]);
    Arc::new(tables)
}

async fn server(limits: Limits) -> (String, Arc<Tables>) {
    let tables = tables();
    (serve_tcp(acceptor(limits), tables.clone(), None).await, tables)
}

async fn connect(address: &str, options: &str) -> Client {
    Client::connect(&format!("freestone://ann:secret@{address}?shared_memory=false&{options}")).await.unwrap()
}

/// The number of rows that the server has sent, once it sends no more.
async fn settled(tables: &Tables) -> u64 {
    let end = Instant::now() + Duration::from_secs(20);
    let mut sent = tables.sent.load(Ordering::Relaxed);
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = tables.sent.load(Ordering::Relaxed);
        if now == sent {
            return sent;
        }
        sent = now;
        assert!(Instant::now() < end, "the server goes on: {sent} rows");
    }
}

async fn still_works(client: &Client) {
    let batches = client.query("types", None).await.unwrap().collect().await.unwrap();
    assert_eq!(whole(&batches, &batches[0].schema()), every_type(5000, 3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_where_and_what_next() {
    let (address, _) = server(Limits::default()).await;
    let client = connect(&address, "").await;
    let WireError::Sql(error) = client.query("error", None).await.unwrap().next().await.unwrap_err() else { panic!() };
    assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("42703", "no column x"));
    assert_eq!((error.hint.as_deref(), error.position), (Some("try y"), Some(8)));
    let silence = client.query("silence", None).await.unwrap().next().await.unwrap_err();
    assert!(silence.to_string().contains("without an answer"));
    still_works(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_and_progress_are_heard() {
    let (address, _) = server(Limits::default()).await;
    let client = connect(&address, "").await;
    let heard = Arc::new(std::sync::Mutex::new(vec![]));
    let (notices, progress) = (heard.clone(), heard.clone());
    client.on_notice(move |text| notices.lock().unwrap().push(text.to_owned()));
    client.on_progress(move |done, total| progress.lock().unwrap().push(format!("{done}/{total}")));
    client.query("notice", None).await.unwrap().collect().await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["careful", "1/2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_users_with_their_password_come_in() {
    let (address, _) = server(Limits::default()).await;
    for login in ["ann:wrong", "bob:secret", "ann", ":"] {
        let error = Client::connect(&format!("freestone://{login}@{address}")).await.unwrap_err();
        let WireError::Sql(error) = error else { panic!("{login}: {error}") };
        assert_eq!(error.sqlstate, "28P01", "{login}");
    }
    still_works(&connect(&address, "").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_in_three_ways() {
    let (address, _) = server(Limits::default()).await;
    let client = connect(&address, "").await;
    // In band, in the middle of a result.
    let mut result = client.query("numbers forever", None).await.unwrap();
    assert!(result.next().await.unwrap().is_some());
    result.cancel().await.unwrap();
    let error = result.collect().await.unwrap_err();
    assert!(matches!(&error, WireError::Sql(e) if e.sqlstate == "57014"), "{error}");
    // Out of band, before the first row.
    let handle = client.cancel_handle();
    let mut result = client.query("wait", None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    handle.cancel().await.unwrap();
    assert!(matches!(result.next().await.unwrap_err(), WireError::Sql(e) if e.sqlstate == "57014"));
    drop(result);
    // By dropping the result, also on several streams.
    for options in ["", "streams=3", "chunk_size=4096"] {
        let client = connect(&address, options).await;
        for _ in 0..3 {
            let mut result = client.query("numbers forever", None).await.unwrap();
            assert!(result.next().await.unwrap().is_some());
        }
        still_works(&client).await;
    }
    let open = client.query("numbers forever", None).await.unwrap();
    assert!(matches!(client.query("numbers forever", None).await.unwrap_err(), WireError::Busy));
    drop(open);
    still_works(&client).await;
    // A statement that takes long, or is on its way, ends without the caller.
    let handle = client.cancel_handle();
    let mut first = client.query("wait", None).await.unwrap();
    let mut second = tokio::spawn(async move { (client.query("types", None).await.unwrap().collect().await, client) });
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut second).await.is_err());
    handle.cancel().await.unwrap();
    assert!(second.await.unwrap().0.is_ok());
    assert!(matches!(first.next().await.unwrap_err(), WireError::Sql(e) if e.sqlstate == "57014"));
    let client = connect(&address, "").await;
    for _ in 0..20 {
        let mut first = client.query("types", None).await.unwrap();
        let mut second = client.query("types", None).await.unwrap();
        assert_eq!(first.collect().await.unwrap(), second.collect().await.unwrap());
    }
    // All statements that wait for a result that waits for them get an error.
    let (first, second) = tokio::join!(client.query("numbers forever", None), client.query("numbers forever", None));
    assert!(matches!((first, second), (Ok(_), Err(WireError::Busy)) | (Err(WireError::Busy), Ok(_))));
    still_works(&client).await;
}

/// The source of rows may use this connection to produce them. Waiting for such a statement would never end.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_does_not_wait_for_one_that_waits_for_rows() {
    let (address, _) = server(Limits::default()).await;
    let client = connect(&address, "").await;
    let is_busy = async || {
        let begun = tokio::time::timeout(Duration::from_secs(20), client.query("types", None)).await;
        assert!(matches!(begun.expect("an answer"), Err(WireError::Busy)));
    };
    let schema = every_type(1, 0, 1).schema();
    let upload = client.upload("t", &schema).await.unwrap();
    is_busy().await;
    drop(upload);
    still_works(&client).await;
    let (more, batches) = std::sync::mpsc::channel();
    let input = Input { name: "a".into(), schema, whole: false, batches: Box::new(batches.into_iter()) };
    let inputs = Inputs { tables: vec![input], ..Inputs::default() };
    let mut result = client.query_with_inputs("all", inputs).await.unwrap();
    is_busy().await;
    more.send(Ok(every_type(10, 0, 1))).unwrap();
    drop(more);
    assert!(result.next().await.unwrap().is_none());
    assert_eq!(result.summary().unwrap().rows, 10);
    drop(result);
    still_works(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_needs_the_key() {
    let (address, _) = server(Limits::default()).await;
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let hello = hello(Purpose::Cancel { session: 1, key: [0; 32] });
    socket.write_all(&frame(0, &hello)).await.unwrap();
    let mut answer = vec![];
    socket.read_to_end(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("28P01"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_holds_the_server_up_but_costs_it_nothing() {
    let (address, tables) = server(Limits { threads: 2, ..Limits::default() }).await;
    let client = connect(&address, "chunk_size=65536&threads=1").await;
    let mut result = client.query("numbers forever", None).await.unwrap();
    result.next().await.unwrap();
    // Batches of 512 KiB: a few chunks with credit and in progress, and no more while nobody reads.
    let sent = settled(&tables).await;
    assert!(sent <= 4 << 16, "{sent} rows were taken");
    for _ in 0..100 {
        result.next().await.unwrap();
    }
    assert!(tables.sent.load(Ordering::Relaxed) > sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disappears_ends_its_statement() {
    let (address, tables) = server(Limits::default()).await;
    for sql in ["numbers forever", "wait"] {
        let client = connect(&address, "chunk_size=65536").await;
        let result = client.query(sql, None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::mem::forget(result);
        drop(client);
    }
    // The leaked results keep their links open. A closed socket is what a killed process leaves.
    let mut socket = TcpStream::connect(&address).await.unwrap();
    socket.write_all(&frame(0, &hello(Purpose::Session { client_first: "n,,n=ann,r=x".into() }))).await.unwrap();
    drop(socket);
    settled(&tables).await;
    still_works(&connect(&address, "").await).await;
}

fn hello(purpose: Purpose) -> message::Hello {
    message::Hello {
        magic: MAGIC,
        version_min: VERSION,
        version_max: VERSION,
        chunk_bytes_max: 1 << 20,
        capabilities: 0,
        client: "test".into(),
        purpose,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handshake_is_short_and_small() {
    let (address, _) = server(Limits { handshake: Duration::from_millis(200), ..Limits::default() }).await;
    // Byte by byte, for ever.
    let (start, mut socket) = (Instant::now(), TcpStream::connect(&address).await.unwrap());
    let good = frame(0, &hello(Purpose::Session { client_first: "n,,n=ann,r=x".into() }));
    let mut sent = 0;
    while sent < good.len() && socket.write_all(&good[sent..=sent]).await.is_ok() && start.elapsed().as_secs() < 5 {
        sent += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut answer = vec![];
    _ = socket.read_to_end(&mut answer).await;
    assert!(start.elapsed() < Duration::from_secs(4) && sent < good.len());
    // Too large, of another protocol, of another version, and out of order.
    let large =
        message::Hello { client: "x".repeat(1 << 20), ..hello(Purpose::Session { client_first: String::new() }) };
    let version =
        message::Hello { version_min: 9, version_max: 9, ..hello(Purpose::Session { client_first: String::new() }) };
    let wrong = [
        frame(0, &large),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        frame(0, &version),
        frame(0, &message::Prepare { text: "x".into(), parameter_columns: vec![], parameters: Blob(vec![]) }),
        vec![0; 64],
    ];
    for bytes in wrong {
        let mut socket = TcpStream::connect(&address).await.unwrap();
        _ = socket.write_all(&bytes).await;
        let mut answer = vec![];
        _ = socket.read_to_end(&mut answer).await;
        assert!(answer.is_empty() || String::from_utf8_lossy(&answer).contains("08P01"));
    }
}

/// Forwards bytes between a client and a server, and changes those that the server sends.
async fn meddler(server: String, change: impl Fn(usize, &mut [u8]) -> bool + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let change = Arc::new(change);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, change) = (TcpStream::connect(&server).await.unwrap(), change.clone());
            tokio::spawn(async move {
                let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                    (client.into_split(), server.into_split());
                let forward = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                let (mut at, mut buffer) = (0, vec![0; 4096]);
                while let Ok(n) = from_server.read(&mut buffer).await
                    && n > 0
                {
                    let goes_on = change(at, &mut buffer[..n]);
                    at += n;
                    if !goes_on || to_client.write_all(&buffer[..n]).await.is_err() {
                        break;
                    }
                }
                forward.abort();
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_on_the_way_is_an_error() {
    let (address, _) = server(Limits::default()).await;
    let mut random = Rng::with_seed(5);
    for round in 0..60 {
        let place = random.u64(..1 << 53) as usize % 300_000;
        let place = if round % 3 == 0 { place % 1500 } else { place };
        let cuts = round % 2 == 0;
        let between = meddler(address.clone(), move |at, bytes| {
            if (at..at + bytes.len()).contains(&place) {
                bytes[place - at] ^= 1 << (place % 8);
                return !cuts;
            }
            true
        });
        let between = between.await;
        let work = async {
            let client = Client::connect(&format!("freestone://ann:secret@{between}?shared_memory=false")).await?;
            client.query("types raw", None).await?.collect().await
        };
        let result = tokio::time::timeout(Duration::from_secs(20), work).await.expect("an end");
        if let Ok(batches) = result {
            assert_eq!(whole(&batches, &batches[0].schema()), every_type(5000, 3, 1), "byte {place} was not noticed");
        }
    }
    still_works(&connect(&address, "").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_requests_end_only_their_own_connection() {
    let (address, _) = server(Limits::default()).await;
    let good = connect(&address, "").await;
    let mut random = Rng::with_seed(11);
    for _ in 0..200 {
        let mut socket = TcpStream::connect(&address).await.unwrap();
        let mut bytes = frame(0, &hello(Purpose::Session { client_first: "n,,n=ann,r=x".into() }));
        let at = random.u64(..1 << 53) as usize % bytes.len();
        bytes[at] ^= 1 << (random.u64(..1 << 53) % 8);
        bytes.truncate(HEADER_BYTES + random.u64(..1 << 53) as usize % bytes.len());
        _ = socket.write_all(&bytes).await;
    }
    still_works(&good).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_at_once() {
    let (address, _) = server(Limits::default()).await;
    let clients = (0..100).map(|_| {
        let address = address.clone();
        tokio::spawn(async move {
            let address = format!("freestone://ann:secret@{address}?connect_timeout=60&shared_memory=false");
            let client = Client::connect(&address).await.unwrap();
            let batches = client.query("stored", None).await.unwrap().collect().await.unwrap();
            batches.iter().map(RecordBatch::num_rows).sum::<usize>()
        })
    });
    for client in clients.collect::<Vec<_>>() {
        assert_eq!(client.await.unwrap(), 5000);
    }
}

#[test]
fn secrets_are_not_printed() {
    let verifier = Verifier::new("secret");
    let text = format!("{verifier:?}");
    assert!(!text.contains("stored") && !text.contains(&verifier.to_string()));
    let batch: Batch = every_type(1, 0, 0).into();
    assert_eq!(batch.rows(), 1);
}
