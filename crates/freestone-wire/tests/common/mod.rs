//! A server with fixed tables in memory, and helpers of the tests.
#![allow(dead_code)]

use fastrand::Rng;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::*;
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use freestone_codec::{ChooseOptions, choose, fit, prepare};
use freestone_store::column::ColumnData;
use freestone_wire::auth::Verifier;
use freestone_wire::server::{Acceptor, Connection, Input, Limits, Reply, Request};
use freestone_wire::transport::{Stream, is_tls};
use freestone_wire::{
    Batch, ByteCodec, Column, Preference, SqlError, StoredColumn, StoredPiece, StoredShared, WireError, sqlstate,
};
use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};

/// Tables by name, and batches that count the returned rows.
#[derive(Default)]
pub struct Tables {
    pub tables: HashMap<String, Vec<Batch>>,
    pub schemas: HashMap<String, SchemaRef>,
    /// The number of rows that the server has passed to result senders.
    pub sent: AtomicU64,
    pub uploaded: std::sync::Mutex<Vec<RecordBatch>>,
}

impl Tables {
    pub fn add(&mut self, name: &str, schema: &SchemaRef, batches: Vec<Batch>) {
        self.schemas.insert(name.into(), schema.clone());
        self.tables.insert(name.into(), batches);
    }
}

pub fn users() -> Arc<dyn freestone_wire::auth::Authenticator> {
    let ann = Verifier::new("secret");
    Arc::new(move |user: &str| (user == "ann").then(|| ann.clone()))
}

pub fn acceptor(limits: Limits) -> Arc<Acceptor> {
    Acceptor::new(users(), limits)
}

/// Serves TCP, and TLS on the same port if there is a configuration for it. Returns `host:port`.
pub async fn serve_tcp(acceptor: Arc<Acceptor>, tables: Arc<Tables>, tls: Option<Arc<ServerConfig>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, tables, tls) = (acceptor.clone(), tables.clone(), tls.clone());
            tokio::spawn(async move {
                let stream = match tls {
                    Some(config) if is_tls(&socket).await? => Stream::tls_server(socket, config).await?,
                    _ => Stream::tcp(socket)?,
                };
                if let Some(connection) = acceptor.accept(stream).await? {
                    serve(connection, tables).await?;
                }
                Ok::<(), WireError>(())
            });
        }
    });
    address
}

pub async fn serve_unix(acceptor: Arc<Acceptor>, tables: Arc<Tables>, path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, tables) = (acceptor.clone(), tables.clone());
            tokio::spawn(async move {
                if let Ok(Some(connection)) = acceptor.accept(Stream::unix(socket)).await {
                    _ = serve(connection, tables).await;
                }
            });
        }
    });
}

/// Statements: `table [codec] [encoded]`, `error`, `none`, `notice`, `forever`, `echo`, `wait`, `cut table`, `silence`.
pub async fn serve(mut connection: Connection, tables: Arc<Tables>) -> Result<(), WireError> {
    let mut statements = HashMap::new();
    while let Some(request) = connection.next().await? {
        match request {
            Request::Query { sql, inputs, reply, .. } if !inputs.is_empty() => given(&sql, inputs, reply).await?,
            Request::Query { sql, parameters, reply, .. } => run(&sql, parameters, reply, &tables).await?,
            Request::Prepare { sql, reply, .. } => {
                let id = reply.id();
                if sql == "error" {
                    reply.fail(SqlError::new("42601", "syntax")).await?;
                    continue;
                }
                let columns = tables.schemas.get(&sql).cloned().unwrap_or_else(|| Arc::new(Schema::empty()));
                reply.prepared(&Schema::new(vec![Field::new("$1", DataType::Int64, true)]), &columns).await?;
                statements.insert(id, sql);
            }
            Request::Execute { statement, parameters, reply, .. } => match statements.get(&statement) {
                Some(sql) => run(sql, parameters, reply, &tables).await?,
                None => reply.fail(SqlError::new(sqlstate::INVALID_STATEMENT_NAME, "no such statement")).await?,
            },
            Request::Close { statement } => _ = statements.remove(&statement),
            Request::Upload { target, rows, reply, .. } if target == "full" => {
                drop(rows);
                reply.fail(SqlError::new("53100", "disk full")).await?;
            }
            Request::Upload { mut rows, reply, .. } => {
                let (mut batches, mut count) = (vec![], 0);
                let kept = loop {
                    match rows.next().await {
                        Ok(Some(batch)) => {
                            count += batch.num_rows();
                            batches.push(batch);
                        }
                        Ok(None) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                };
                match kept {
                    Ok(()) => {
                        tables.uploaded.lock().unwrap().extend(batches);
                        reply.complete(count as u64, "INSERT").await?;
                    }
                    Err(error) => reply.fail(error.to_sql()).await?,
                }
            }
        }
    }
    Ok(())
}

/// Answers with the rows of all inputs; `skip` reads only the first chunk of each, `drop` none.
async fn given(sql: &str, inputs: Vec<Input>, reply: Reply) -> Result<(), WireError> {
    let mut rows = 0;
    for mut input in inputs {
        if sql == "drop" {
            // Requests rows, and does not wait for them.
            _ = tokio::time::timeout(Duration::from_millis(50), input.rows.next()).await;
            continue;
        }
        loop {
            match input.rows.next().await {
                Ok(Some(batch)) => rows += batch.num_rows() as u64,
                Ok(None) => break,
                Err(error) => return reply.fail(error.to_sql()).await,
            }
            if sql == "skip" {
                break;
            }
        }
    }
    reply.complete(rows, "INSERT").await
}

fn preference(words: &[&str]) -> Preference {
    let codec = words.iter().find_map(|word| match *word {
        "raw" => Some(ByteCodec::None),
        "lz4" => Some(ByteCodec::Lz4),
        "zstd" => Some(ByteCodec::Zstd),
        "snappy" => Some(ByteCodec::Snappy),
        _ => None,
    });
    match codec {
        Some(codec) if words.contains(&"encoded") => Preference::Encoded(codec),
        Some(codec) if words.contains(&"sentinel") => Preference::Sentinel(codec),
        Some(codec) if words.contains(&"mask") => Preference::Mask(codec),
        Some(codec) => Preference::Plain(codec),
        None => Preference::Measured,
    }
}

async fn run(sql: &str, parameters: Option<RecordBatch>, reply: Reply, tables: &Tables) -> Result<(), WireError> {
    let words: Vec<&str> = sql.split(' ').collect();
    match words[0] {
        "error" => {
            let error = SqlError { position: Some(8), ..SqlError::new("42703", "no column x").with_hint("try y") };
            return reply.fail(error).await;
        }
        "none" => return reply.complete(7, "DELETE").await,
        "silence" => return Ok(()),
        "wait" => {
            reply.cancelled().await;
            return reply.fail(SqlError::new(sqlstate::QUERY_CANCELED, "cancelled")).await;
        }
        "cut" => {
            // The server knows only that nobody reads the rows, and not the reason.
            let schema = &tables.schemas[words[1]];
            let mut rows = reply.rows(schema)?;
            rows.send(tables.tables[words[1]][0].clone()).await?;
            rows.cancelled().await;
            return rows.fail(SqlError::new(sqlstate::QUERY_CANCELED, "cancelled")).await;
        }
        "echo" => {
            let row = parameters.unwrap();
            let mut rows = reply.rows(&row.schema())?;
            rows.send(row).await?;
            return rows.finish("SELECT").await;
        }
        "notice" => {
            reply.notice("careful").await?;
            reply.progress(1, 2).await?;
        }
        _ => {}
    }
    let Some(schema) = tables.schemas.get(words[0]) else {
        return reply.complete(0, "NOTHING").await;
    };
    let mut rows = reply.rows_as(schema, preference(&words))?;
    loop {
        for batch in &tables.tables[words[0]] {
            let count = batch.rows() as u64;
            if let Err(error) = rows.send(batch.clone()).await {
                return rows.fail(error.to_sql()).await;
            }
            tables.sent.fetch_add(count, Ordering::Relaxed);
        }
        if !words.contains(&"forever") {
            break;
        }
    }
    rows.finish("SELECT").await
}

/// Every type that can be sent, with NULLs and extremes. `null_every`: 0 for none.
pub fn every_type(rows: usize, null_every: usize, seed: u64) -> RecordBatch {
    let mut random = Rng::with_seed(seed);
    let mut columns: Vec<(String, ArrayRef)> = vec![];
    let nulls = |rows: usize| {
        (null_every > 0).then(|| NullBuffer::from_iter((0..rows).map(|row| row % null_every != null_every / 2)))
    };
    macro_rules! numbers {
        ($name:expr, $array:ty, $t:ty, $($type:expr)?) => {{
            let values: Vec<$t> = (0..rows).map(|row| match row % 7 {
                0 => <$t>::MIN,
                1 => <$t>::MAX,
                2 => <$t>::default(),
                _ => random.u64(..1 << 53) as i64 as $t,
            }).collect();
            let array = <$array>::new(ScalarBuffer::from(values), nulls(rows));
            $(let array = array.with_data_type($type);)?
            columns.push(($name.to_string(), Arc::new(array)));
        }};
    }
    numbers!("i8", Int8Array, i8,);
    numbers!("i16", Int16Array, i16,);
    numbers!("i32", Int32Array, i32,);
    numbers!("i64", Int64Array, i64,);
    numbers!("u8", UInt8Array, u8,);
    numbers!("u16", UInt16Array, u16,);
    numbers!("u32", UInt32Array, u32,);
    numbers!("u64", UInt64Array, u64,);
    numbers!("f32", Float32Array, f32,);
    numbers!("f64", Float64Array, f64,);
    numbers!("date", Date32Array, i32,);
    numbers!("time", Time64MicrosecondArray, i64,);
    numbers!("timestamp", TimestampMicrosecondArray, i64,);
    numbers!("zoned", TimestampMicrosecondArray, i64, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    numbers!("wide", Decimal128Array, i128, DataType::Decimal128(38, 4));
    let small: Vec<i128> = (0..rows).map(|_| i128::from(random.u64(..1 << 53) % 100_000)).collect();
    let small = Decimal128Array::new(small.into(), nulls(rows)).with_data_type(DataType::Decimal128(12, 2));
    columns.push(("decimal".into(), Arc::new(small)));
    let truth = BooleanArray::new(
        (0..rows).map(|_| random.u64(..1 << 53).is_multiple_of(2)).collect::<Vec<_>>().into(),
        nulls(rows),
    );
    columns.push(("boolean".into(), Arc::new(truth)));
    type Text = Box<dyn Fn(u64) -> String>;
    let texts: [(&str, Text); 6] = [
        ("letter", Box::new(|n| ["A", "N", "R"][n as usize % 3].into())),
        ("word", Box::new(|n| ["AIR", "TRUCK", "MAIL", "SHIP", "", "REG AIR AND MORE"][n as usize % 6].into())),
        ("comment", Box::new(|n| format!("the furiously final request {} sleeps {}", n % 1000, n % 77))),
        ("unicode", Box::new(|n| ["ä", "日本語のテキストです", "naïve", "😀"][n as usize % 4].into())),
        ("zeros", Box::new(|n| format!("a\0b{}", n % 10))),
        ("long", Box::new(|n| "x".repeat(n as usize % 300))),
    ];
    for (name, text) in texts {
        let nulls = nulls(rows);
        let values =
            (0..rows).map(|row| nulls.as_ref().is_none_or(|n| n.is_valid(row)).then(|| text(random.u64(..1 << 53))));
        columns.push((name.into(), Arc::new(StringViewArray::from_iter(values.collect::<Vec<_>>()))));
    }
    let binary = (0..rows)
        .map(|row| (null_every == 0 || !row.is_multiple_of(null_every)).then(|| random.u64(..1 << 53).to_le_bytes()));
    columns.push(("binary".into(), Arc::new(BinaryViewArray::from_iter(binary.collect::<Vec<_>>()))));
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Types without a form of their own.
pub fn other_types(rows: usize) -> RecordBatch {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..rows).map(|row| (!row.is_multiple_of(3)).then(|| (0..row as i32 % 5).map(Some).collect::<Vec<_>>())),
    );
    let interval =
        IntervalMonthDayNanoArray::from_iter_values((0..rows).map(|row| IntervalMonthDayNano::new(row as i32, 2, 3)));
    let dictionary: DictionaryArray<Int32Type> = (0..rows).map(|row| ["one", "two"].get(row % 3).copied()).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("null", Arc::new(NullArray::new(rows)) as ArrayRef, true),
        ("list", Arc::new(list), true),
        ("interval", Arc::new(interval), true),
        (
            "utf8",
            Arc::new(StringArray::from_iter(
                (0..rows).map(|row| (!row.is_multiple_of(4)).then(|| format!("text {row}"))),
            )),
            true,
        ),
        ("large", Arc::new(LargeStringArray::from_iter((0..rows).map(|row| Some(format!("large {row}"))))), true),
        ("bytes", Arc::new(BinaryArray::from_iter((0..rows).map(|row| Some([row as u8])))), true),
        ("dictionary", Arc::new(dictionary), true),
        ("date64", Arc::new(Date64Array::from_iter_values((0..rows).map(|row| row as i64 * 86_400_000))), true),
    ])
    .unwrap()
}

/// A batch with every column stored in pages of `page_bytes`, as in a segment.
pub fn stored(batch: &RecordBatch, page_bytes: usize, key: u64) -> Batch {
    let columns = batch.columns().iter().enumerate().map(|(at, array)| {
        let data = ColumnData::from_arrays([array], array.data_type());
        let options = ChooseOptions { chunk_bytes: page_bytes, bytes_per_ns: 0.1, allow_block: true, wanted: None };
        let choice = choose(&data.values(), data.validity.as_deref(), &options).unwrap();
        let prepared = prepare(data.values(), data.validity.as_deref(), choice.plan, choice.shared.as_ref()).unwrap();
        let (mut pieces, mut from) = (vec![], 0);
        while from < batch.num_rows() {
            let rows = fit(&prepared, from, batch.num_rows() - from, page_bytes).max(1);
            let mut bytes = vec![0; 8];
            freestone_codec::encode(&prepared, from, rows, &mut bytes).unwrap();
            let range = 8..bytes.len();
            pieces.push(StoredPiece { owner: Arc::new(bytes), range, skip: 0, rows });
            from += rows;
        }
        let shared = choice.shared.map(|shared| StoredShared { key: key << 16 | at as u64, shared });
        Column::Stored(StoredColumn { data_type: array.data_type().clone(), shared, pieces })
    });
    Batch::new(batch.num_rows(), columns.collect()).unwrap()
}

/// The batches as one, with strings in the received layout.
pub fn whole(batches: &[RecordBatch], schema: &SchemaRef) -> RecordBatch {
    concat_batches(schema, batches).unwrap()
}

/// The rows of a batch in the received layout.
pub fn as_sent(batch: &RecordBatch) -> RecordBatch {
    let schema = freestone_wire::wire_schema(&batch.schema());
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| arrow::compute::cast(array, field.data_type()).unwrap());
    RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
}
