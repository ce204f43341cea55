//! The speed of results: `cargo bench -p freestone-wire [-- rows runs]`.
//!
//! A table with the columns of TPC-H's lineitem, from a seeded generator, is sent from a server in this process to a
//! client, in stored form and as Arrow arrays, in every form, over every local transport. Before that, a bare socket
//! gives the upper bound. Rates are bytes of the received Arrow columns per wall-clock time, the median of the runs,
//! once while batches are dropped as they arrive and once while they are kept. A hash over every row is checked.

use fastrand::Rng;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::*;
use arrow::datatypes::*;
use freestone_codec::{ChooseOptions, choose, encode, fit, prepare};
use freestone_store::column::ColumnData;
use freestone_wire::auth::Verifier;
use freestone_wire::client::Client;
use freestone_wire::server::{Acceptor, Connection, Limits, Request};
use freestone_wire::transport::Stream;
use freestone_wire::{Batch, ByteCodec, Column, Preference, StoredColumn, StoredPiece, StoredShared, WireError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The rows of a stored zone, and of a batch of arrays, as a query engine produces them.
const ZONE_ROWS: usize = 1 << 16;
const BATCH_ROWS: usize = 1 << 13;
const SEGMENT_ROWS: usize = 1 << 20;
const PAGE_BYTES: usize = 32 << 10;

/// `rows` rows starting with number `first`, in the order of the key.
fn lineitem(first: usize, rows: usize) -> RecordBatch {
    let mut random = Rng::with_seed(first as u64);
    let r = &mut random;
    fn integers(r: &mut Rng, rows: usize, n: u64) -> ArrayRef {
        Arc::new(Int32Array::from_iter_values((0..rows).map(|_| 1 + r.u64(..n) as i32)))
    }
    fn decimals(r: &mut Rng, rows: usize, n: u64) -> ArrayRef {
        let values = Decimal128Array::from_iter_values((0..rows).map(|_| i128::from(r.u64(..n))));
        Arc::new(values.with_data_type(DataType::Decimal128(12, 2)))
    }
    fn dates(r: &mut Rng, rows: usize) -> ArrayRef {
        Arc::new(Date32Array::from_iter_values((0..rows).map(|_| 8035 + r.u64(..2500) as i32)))
    }
    fn words(r: &mut Rng, rows: usize, words: &[&str]) -> ArrayRef {
        let values = (0..rows).map(|_| words[r.u64(..words.len() as u64) as usize]);
        Arc::new(StringViewArray::from_iter_values(values))
    }
    fn comments(r: &mut Rng, rows: usize) -> ArrayRef {
        const WORDS: [&str; 12] = [
            "furiously",
            "regular",
            "deposits",
            "sleep",
            "carefully",
            "pending",
            "requests",
            "quickly",
            "final",
            "ironic",
            "packages",
            "even",
        ];
        let comment = |r: &mut Rng| {
            let words: Vec<&str> = (0..2 + r.u64(..3)).map(|_| WORDS[r.u64(..12) as usize]).collect();
            words.join(" ")
        };
        Arc::new(StringViewArray::from_iter_values((0..rows).map(|_| comment(r))))
    }
    let key = Int64Array::from_iter_values((0..rows).map(|row| ((first + row) / 4) as i64));
    let columns: [(&str, ArrayRef); 16] = [
        ("l_orderkey", Arc::new(key)),
        ("l_partkey", integers(r, rows, 200_000)),
        ("l_suppkey", integers(r, rows, 10_000)),
        ("l_linenumber", integers(r, rows, 7)),
        ("l_quantity", decimals(r, rows, 5000)),
        ("l_extendedprice", decimals(r, rows, 10_000_000)),
        ("l_discount", decimals(r, rows, 11)),
        ("l_tax", decimals(r, rows, 9)),
        ("l_returnflag", words(r, rows, &["A", "N", "R"])),
        ("l_linestatus", words(r, rows, &["F", "O"])),
        ("l_shipdate", dates(r, rows)),
        ("l_commitdate", dates(r, rows)),
        ("l_receiptdate", dates(r, rows)),
        ("l_shipinstruct", words(r, rows, &["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"])),
        ("l_shipmode", words(r, rows, &["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"])),
        ("l_comment", comments(r, rows)),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of the same length")
}

/// The rows as in a segment: pages of encoded chunks, in the order of a scan.
fn stored(batch: &RecordBatch, key: u64) -> Outcome<Vec<Batch>> {
    let mut columns = vec![];
    for (at, array) in batch.columns().iter().enumerate() {
        let data = ColumnData::from_arrays([array], array.data_type());
        let options = ChooseOptions { chunk_bytes: PAGE_BYTES, bytes_per_ns: 0.5, allow_block: true, wanted: None };
        let choice = choose(&data.values(), None, &options)?;
        let column = prepare(data.values(), None, choice.plan, choice.shared.as_ref())?;
        let (mut pieces, mut from) = (vec![], 0);
        while from < batch.num_rows() {
            let rows = fit(&column, from, batch.num_rows() - from, PAGE_BYTES);
            let mut bytes = vec![];
            encode(&column, from, rows, &mut bytes)?;
            pieces.push((from, StoredPiece { range: 0..bytes.len(), owner: Arc::new(bytes), skip: 0, rows }));
            from += rows;
        }
        let shared = choice.shared.map(|shared| StoredShared { key: key << 8 | at as u64, shared });
        columns.push((array.data_type().clone(), shared, pieces));
    }
    let zone = |from: usize| {
        let to = (from + ZONE_ROWS).min(batch.num_rows());
        let columns = columns.iter().map(|(data_type, shared, pieces)| {
            let inside = pieces.iter().filter(|(at, piece)| *at < to && at + piece.rows > from).map(|(at, piece)| {
                let (start, end) = (from.max(*at), to.min(at + piece.rows));
                StoredPiece { skip: start - at, rows: end - start, ..piece.clone() }
            });
            let (data_type, shared, pieces) = (data_type.clone(), shared.clone(), inside.collect());
            Column::Stored(StoredColumn { data_type, shared, pieces })
        });
        Batch::new(to - from, columns.collect())
    };
    Ok((0..batch.num_rows()).step_by(ZONE_ROWS).map(zone).collect::<Result<_, _>>()?)
}

/// A hash of all rows and their order.
fn hash(batches: &[RecordBatch]) -> u64 {
    let mix = |hash: u64, value: u64| (hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    let mut columns = vec![0u64; batches.first().map_or(0, RecordBatch::num_columns)];
    for batch in batches {
        for (hash, column) in columns.iter_mut().zip(batch.columns()) {
            macro_rules! numbers {
                ($t:ty) => {
                    column.as_primitive::<$t>().values().iter().fold(*hash, |hash, value| mix(hash, *value as u64))
                };
            }
            *hash = match column.data_type() {
                DataType::Utf8View => column.as_string_view().iter().flatten().fold(*hash, |hash, text| {
                    text.bytes()
                        .fold(mix(hash, text.len() as u64), |hash, byte| hash * 31 % (1 << 50) + u64::from(byte))
                }),
                DataType::Decimal128(_, _) => numbers!(Decimal128Type),
                DataType::Int64 => numbers!(Int64Type),
                DataType::Int32 => numbers!(Int32Type),
                _ => numbers!(Date32Type),
            };
        }
    }
    columns.into_iter().fold(0, mix)
}

/// The bytes of arrays. Strings are counted once per row, even if several views share them.
fn arrow_bytes(batches: &[RecordBatch]) -> usize {
    let column = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => column.len() * 16 + column.as_string_view().total_buffer_bytes_used(),
        other => column.len() * other.primitive_width().unwrap_or(0),
    };
    batches.iter().flat_map(RecordBatch::columns).map(column).sum()
}

struct Tables {
    arrow: Vec<Batch>,
    stored: Vec<Batch>,
    schema: SchemaRef,
}

async fn serve(mut connection: Connection, tables: Arc<Tables>) -> Result<(), WireError> {
    while let Some(request) = connection.next().await? {
        let Request::Query { sql, reply, .. } = request else { continue };
        let (table, form) = sql.split_once(' ').unwrap_or((&sql, ""));
        let preference = match form {
            "plain" => Preference::Plain(ByteCodec::None),
            "lz4" => Preference::Plain(ByteCodec::Lz4),
            "zstd" => Preference::Plain(ByteCodec::Zstd),
            "snappy" => Preference::Plain(ByteCodec::Snappy),
            "encoded" => Preference::Encoded(ByteCodec::None),
            _ => Preference::Measured,
        };
        let mut rows = reply.rows_as(&tables.schema, preference)?;
        for batch in if table == "stored" { &tables.stored } else { &tables.arrow } {
            rows.send(batch.clone()).await?;
        }
        rows.finish("SELECT").await?;
    }
    Ok(())
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Seconds for reading a result to its end: while dropping batches, and while keeping them.
async fn measure(client: &Client, sql: &str, runs: usize, expected: u64) -> Outcome<(f64, f64)> {
    let (mut dropped, mut kept) = (vec![], vec![]);
    for _ in 0..runs {
        let start = Instant::now();
        let mut result = client.query(sql, None).await?;
        while let Some(batch) = result.next().await? {
            std::hint::black_box(batch.num_rows());
        }
        dropped.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let batches = client.query(sql, None).await?.collect().await?;
        kept.push(start.elapsed().as_secs_f64());
        let found = hash(&batches);
        if found != expected {
            return Err(format!("{sql}: hash {found:016x} is not {expected:016x}").into());
        }
    }
    Ok((median(dropped), median(kept)))
}

/// Bytes per second of a bare socket.
async fn bare(bytes: usize) -> Outcome<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await?;
        let chunk = vec![7u8; 1 << 20];
        for _ in 0..bytes >> 20 {
            socket.write_all(&chunk).await?;
        }
        Ok::<(), std::io::Error>(())
    });
    let mut socket = TcpStream::connect(address).await?;
    let (start, mut buffer, mut got) = (Instant::now(), vec![0; 1 << 20], 0);
    while let n @ 1.. = socket.read(&mut buffer).await? {
        got += n;
    }
    Ok(got as f64 / start.elapsed().as_secs_f64())
}

async fn accept(acceptor: Arc<Acceptor>, stream: Stream, tables: Arc<Tables>) -> Result<(), WireError> {
    match acceptor.accept(stream).await? {
        Some(connection) => serve(connection, tables).await,
        None => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let number = |at: usize, default: usize| arguments.get(at).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (rows, runs) = (number(0, 2_000_000), number(1, 5));
    let only = arguments.get(2).cloned();
    let (mut arrow, mut zones) = (vec![], vec![]);
    for from in (0..rows).step_by(SEGMENT_ROWS) {
        let segment = lineitem(from, (rows - from).min(SEGMENT_ROWS));
        zones.extend(stored(&segment, from as u64)?);
        for at in (0..segment.num_rows()).step_by(BATCH_ROWS) {
            // Batches with strings of their own, as operators produce them.
            let slice = segment.slice(at, (segment.num_rows() - at).min(BATCH_ROWS));
            let order = UInt32Array::from_iter_values(0..slice.num_rows() as u32);
            let own = arrow::compute::take_record_batch(&slice, &order)?;
            let columns = own.columns().iter().map(|column| match column.data_type() {
                DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
                _ => column.clone(),
            });
            arrow.push(RecordBatch::try_new(own.schema(), columns.collect())?);
        }
    }
    let (schema, expected, bytes) = (arrow[0].schema(), hash(&arrow), arrow_bytes(&arrow));
    println!("{rows} rows, {} MB as Arrow, hash {expected:016x}", bytes / 1_000_000);
    let arrow = arrow.into_iter().map(Batch::from).collect();
    let tables = Arc::new(Tables { arrow, stored: zones, schema });
    println!("bare TCP socket: {:.2} GB/s", bare(2 << 30).await? / 1e9);

    let verifier = Verifier::new("secret");
    let acceptor = Acceptor::new(Arc::new(move |_: &str| Some(verifier.clone())), Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let tcp = listener.local_addr()?;
    let (acceptors, served) = (acceptor.clone(), tables.clone());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(accept(acceptors.clone(), Stream::tcp(socket)?, served.clone()));
        }
        Ok::<(), WireError>(())
    });
    let path = std::env::temp_dir().join(format!("freestone-transfer-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path)?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(accept(acceptor.clone(), Stream::unix(socket), tables.clone()));
        }
    });
    println!("{:<16}{:<20}{:>12}{:>12}", "transport", "form", "GB/s", "GB/s kept");
    let unix = format!("freestone+unix://a:secret@{}", path.display());
    for (name, address) in [
        ("tcp", format!("freestone://a:secret@{tcp}?shared_memory=false")),
        ("unix", format!("{unix}?shared_memory=false")),
        ("shared memory", format!("{unix}?shared_memory=true")),
    ] {
        let client = Client::connect(&address).await?;
        for sql in ["stored", "arrow", "arrow plain", "arrow encoded", "arrow lz4", "arrow snappy", "arrow zstd"] {
            if only.as_ref().is_some_and(|only| only != sql) {
                continue;
            }
            let (dropped, kept) = measure(&client, sql, runs, expected).await?;
            let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
            println!("{name:<16}{sql:<20}{:>12.2}{:>12.2}", rate(dropped), rate(kept));
        }
    }
    std::fs::remove_file(&path)?;
    Ok(())
}
