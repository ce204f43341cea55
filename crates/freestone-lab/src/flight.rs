//! A minimal Arrow Flight server with the crate `arrow-flight`, over record batches in memory: a peer in
//! `bench/export.py`. It supports only `DoGet`.
//!
//! A ticket is JSON: `form` names the table, and the other fields say how to send it; see [`TicketFields`].

use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::CompressionType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::error::{LabError, Result};

/// String columns with at most this many distinct values in a batch are sent as dictionaries, if a ticket requests
/// that.
const FEW: usize = 100;

/// The fields of a ticket.
#[derive(Debug, Clone, Default, Deserialize)]
struct TicketFields {
    /// The table's name.
    form: String,
    /// The maximum number of rows.
    #[serde(default)]
    limit: Option<usize>,
    /// The rows per batch; 0 leaves batches unchanged.
    #[serde(default)]
    rows: usize,
    /// The bytes per message. The encoder's own default is 2 MiB.
    #[serde(default)]
    message: Option<usize>,
    /// Strings with few distinct values as dictionaries, which are sent again with each batch.
    #[serde(default)]
    dictionaries: bool,
    /// `lz4` or `zstd`.
    #[serde(default)]
    codec: Option<String>,
    /// The number of messages that are encoded ahead on another thread.
    #[serde(default)]
    ahead: usize,
}

/// Serves Arrow stream files under their names until the process ends. `ready` receives the address.
///
/// # Errors
/// A file cannot be read, or the address cannot be listened on.
pub fn serve(listen: &str, files: &[(String, PathBuf)], ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let mut tables = HashMap::new();
    for (name, path) in files {
        tables.insert(name.clone(), read(path)?);
    }
    let service = Service { tables, encoded: Mutex::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let network =
        |error: &dyn std::fmt::Display| LabError::Network(format!("cannot serve Flight on {listen}: {error}"));
    runtime.map_err(|error| network(&error))?.block_on(async {
        let listener = tokio::net::TcpListener::bind(listen).await.map_err(|error| network(&error))?;
        ready(listener.local_addr().map_err(|error| network(&error))?);
        let service = FlightServiceServer::new(service).max_encoding_message_size(usize::MAX);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let served = Server::builder().add_service(service).serve_with_incoming(incoming).await;
        served.map_err(|error| network(&error))
    })
}

fn read(path: &Path) -> Result<Vec<RecordBatch>> {
    let file = File::open(path).map_err(LabError::file(path))?;
    let batches = StreamReader::try_new_buffered(file, None).and_then(Iterator::collect);
    batches.map_err(|error| LabError::Usage(format!("{} is no Arrow stream: {error}", path.display())))
}

struct Service {
    tables: HashMap<String, Vec<RecordBatch>>,
    /// Tables with dictionaries, created at the first request.
    encoded: Mutex<HashMap<String, Vec<RecordBatch>>>,
}

impl Service {
    fn batches(&self, asked: &TicketFields) -> std::result::Result<Vec<RecordBatch>, Status> {
        let known = self.tables.get(&asked.form);
        let plain = known.ok_or_else(|| Status::not_found(format!("there is no table {}", asked.form)))?;
        let table = if asked.dictionaries {
            let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
            encoded.entry(asked.form.clone()).or_insert_with(|| with_dictionaries(plain)).clone()
        } else {
            plain.clone()
        };
        Ok(cut(&table, asked.rows, asked.limit))
    }
}

/// Batches of at most `rows` rows, and at most `limit` rows in total; slices without a copy.
fn cut(table: &[RecordBatch], rows: usize, limit: Option<usize>) -> Vec<RecordBatch> {
    let mut left = limit.unwrap_or(usize::MAX);
    let mut out = vec![];
    for batch in table {
        let step = if rows == 0 { batch.num_rows().max(1) } else { rows };
        for start in (0..batch.num_rows().min(left)).step_by(step) {
            out.push(batch.slice(start, step.min(batch.num_rows() - start).min(left - start)));
        }
        left -= batch.num_rows().min(left);
    }
    out
}

/// Strings with few distinct values as dictionaries. The first batch decides which columns.
fn with_dictionaries(table: &[RecordBatch]) -> Vec<RecordBatch> {
    let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let cast = |column: &ArrayRef| cast_with_options(column, &kind, &CastOptions::default());
    let Some(first) = table.first() else { return vec![] };
    let few: Vec<bool> = first
        .columns()
        .iter()
        .map(|column| {
            let made = (column.data_type() == &DataType::Utf8).then(|| cast(column));
            made.and_then(std::result::Result::ok)
                .is_some_and(|column| column.as_any_dictionary().values().len() <= FEW)
        })
        .collect();
    let plain = first.schema();
    let fields = plain.fields().iter().zip(&few).map(|(field, few)| match few {
        true => Field::new(field.name(), kind.clone(), field.is_nullable()),
        false => field.as_ref().clone(),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let encoded = table.iter().map(|batch| {
        let columns = batch.columns().iter().zip(&few);
        let columns = columns.map(|(column, few)| if *few { cast(column) } else { Ok(Arc::clone(column)) });
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>().expect("texts cast to dictionaries of texts");
        RecordBatch::try_new(schema.clone(), columns).expect("the columns are those of the schema")
    });
    encoded.collect()
}

/// The messages of an answer.
fn messages(batches: Vec<RecordBatch>, asked: &TicketFields) -> std::result::Result<Answer<FlightData>, Status> {
    let codec = match asked.codec.as_deref() {
        None => None,
        Some("lz4") => Some(CompressionType::LZ4_FRAME),
        Some("zstd") => Some(CompressionType::ZSTD),
        Some(other) => return Err(Status::invalid_argument(format!("unknown codec {other}; there are lz4, zstd"))),
    };
    let options = IpcWriteOptions::default().try_with_compression(codec);
    let options = options.map_err(|error| Status::internal(error.to_string()))?;
    let mut encoder = FlightDataEncoderBuilder::new().with_options(options);
    if asked.dictionaries {
        encoder = encoder.with_dictionary_handling(arrow_flight::encode::DictionaryHandling::Resend);
    }
    if let Some(bytes) = asked.message {
        encoder = encoder.with_max_flight_data_size(bytes);
    }
    if let Some(first) = batches.first() {
        encoder = encoder.with_schema(first.schema());
    }
    let stream = encoder.build(stream::iter(batches.into_iter().map(Ok::<_, FlightError>)));
    let stream = stream.map_err(|error| Status::internal(error.to_string()));
    let answer: Answer<FlightData> = if asked.ahead == 0 { Box::pin(stream) } else { ahead(stream, asked.ahead) };
    Ok(answer)
}

/// The same messages, encoded on another thread.
fn ahead(
    mut stream: impl Stream<Item = std::result::Result<FlightData, Status>> + Send + Unpin + 'static,
    messages: usize,
) -> Answer<FlightData> {
    let (sender, receiver) = tokio::sync::mpsc::channel(messages);
    tokio::spawn(async move {
        while let Some(message) = stream.next().await {
            if sender.send(message).await.is_err() {
                return;
            }
        }
    });
    Box::pin(stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) }))
}

type Answer<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;

fn not_here<T>() -> std::result::Result<T, Status> {
    Err(Status::unimplemented("this server answers DoGet alone"))
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = Answer<HandshakeResponse>;
    type ListFlightsStream = Answer<FlightInfo>;
    type DoGetStream = Answer<FlightData>;
    type DoPutStream = Answer<PutResult>;
    type DoExchangeStream = Answer<FlightData>;
    type DoActionStream = Answer<arrow_flight::Result>;
    type ListActionsStream = Answer<ActionType>;

    async fn do_get(&self, request: Request<Ticket>) -> std::result::Result<Response<Self::DoGetStream>, Status> {
        let asked: TicketFields = serde_json::from_slice(&request.into_inner().ticket)
            .map_err(|error| Status::invalid_argument(format!("the ticket is not understood: {error}")))?;
        Ok(Response::new(messages(self.batches(&asked)?, &asked)?))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> std::result::Result<Response<Self::HandshakeStream>, Status> {
        not_here()
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> std::result::Result<Response<Self::ListFlightsStream>, Status> {
        not_here()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> std::result::Result<Response<FlightInfo>, Status> {
        not_here()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> std::result::Result<Response<PollInfo>, Status> {
        not_here()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> std::result::Result<Response<SchemaResult>, Status> {
        not_here()
    }

    async fn do_put(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> std::result::Result<Response<Self::DoPutStream>, Status> {
        not_here()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> std::result::Result<Response<Self::DoExchangeStream>, Status> {
        not_here()
    }

    async fn do_action(&self, _: Request<Action>) -> std::result::Result<Response<Self::DoActionStream>, Status> {
        not_here()
    }

    async fn list_actions(&self, _: Request<Empty>) -> std::result::Result<Response<Self::ListActionsStream>, Status> {
        not_here()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringArray};
    use arrow_flight::decode::FlightRecordBatchStream;

    fn table() -> Vec<RecordBatch> {
        let batch = |from: i32| {
            let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(from..from + 1000));
            let words: ArrayRef =
                Arc::new(StringArray::from_iter_values((0..1000).map(|at| format!("word {}", at % 7))));
            RecordBatch::try_from_iter([("n", numbers), ("w", words)]).expect("columns of one length")
        };
        vec![batch(0), batch(1000)]
    }

    async fn received(asked: TicketFields) -> Vec<RecordBatch> {
        let service = Service { tables: HashMap::from([("t".into(), table())]), encoded: Mutex::default() };
        let batches = service.batches(&asked).expect("the table exists");
        let messages = messages(batches, &asked).expect("the ticket makes sense");
        let messages = messages.map_err(|status| FlightError::Tonic(Box::new(status)));
        FlightRecordBatchStream::new_from_flight_data(messages).try_collect().await.expect("the messages decode")
    }

    #[tokio::test]
    async fn every_way_of_sending_gives_the_same_rows() {
        let numbers = |batches: &[RecordBatch]| -> Vec<i32> {
            let columns = batches.iter().map(|batch| batch.column(0).as_primitive::<arrow::datatypes::Int32Type>());
            columns.flat_map(|column| column.values().to_vec()).collect()
        };
        let plain = TicketFields { form: "t".into(), ..Default::default() };
        let ways = [
            plain.clone(),
            TicketFields { rows: 64, ..plain.clone() },
            TicketFields { message: Some(1 << 10), ahead: 4, ..plain.clone() },
            TicketFields { codec: Some("lz4".into()), ..plain.clone() },
            TicketFields { codec: Some("zstd".into()), dictionaries: true, ..plain.clone() },
        ];
        for asked in ways {
            assert_eq!(numbers(&received(asked.clone()).await), (0..2000).collect::<Vec<_>>(), "{asked:?}");
        }
        let few = received(TicketFields { limit: Some(1100), rows: 300, dictionaries: true, ..plain }).await;
        assert_eq!(numbers(&few), (0..1100).collect::<Vec<_>>());
        assert!(matches!(few[0].column(1).data_type(), DataType::Dictionary(..)), "{:?}", few[0].schema());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let service = Service { tables: HashMap::new(), encoded: Mutex::default() };
        assert!(service.batches(&TicketFields::default()).is_err());
        assert!(messages(table(), &TicketFields { codec: Some("gzip".into()), ..Default::default() }).is_err());
    }
}
