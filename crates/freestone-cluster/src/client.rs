//! A connection to a worker or a coordinator. It is made when it is first needed, and again after it broke.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightData, Ticket};
use bytes::Bytes;
use freestone::cluster::{TaskError, TaskRows};
use futures::{StreamExt, TryStreamExt};
use rand::TryRng;
use rand::rngs::SysRng;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::address::{host, is_local};
use crate::error::{ClusterError, Result};
use crate::messages::{HELLO, Hello, answered, error_of};
use crate::metrics::TaskCounters;
use crate::token::{RIGHTS_HOLD, Rights, Token, now_ms};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A peer that does not answer within this time is not there.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection on which nothing comes is tried after the first time, and lost after the second.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
const WINDOW_BYTES: u32 = 4 << 20;

/// Whom a client trusts: certificates in a PEM file.
#[derive(Debug, Clone)]
pub(crate) struct Trust(Certificate);

impl Trust {
    pub fn load(path: &Path) -> Result<Trust> {
        let pem = std::fs::read(path).map_err(|error| ClusterError::file("certificates", path, error))?;
        if !pem.windows(BEGIN.len()).any(|part| part == BEGIN) {
            return Err(ClusterError::file("certificates", path, "the file has no certificate in PEM format"));
        }
        Ok(Trust(Certificate::from_pem(pem)))
    }
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// The bytes of a question, which are random, so that no answer fits two of them.
const QUESTION_BYTES: usize = 16;

/// Another process of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    client: FlightServiceClient<Channel>,
    token: Token,
    /// By how much its clock is ahead of the one here, in milliseconds, as of its last answer.
    ahead_ms: Arc<AtomicI64>,
}

impl Peer {
    /// `name`: whose certificate it has; the host of the address if there is none.
    ///
    /// # Errors
    /// The address is not valid, or is public while there is no TLS.
    pub fn new(address: &str, name: Option<&str>, token: &Token, trust: Option<&Trust>) -> Result<Peer> {
        if trust.is_none() && !is_local(address) {
            return Err(ClusterError::new(format!("{address} is not on this machine, and there is no TLS"))
                .with_hint("name the file of certificates to trust: --cluster-ca FILE"));
        }
        let scheme = if trust.is_some() { "https" } else { "http" };
        let wrong = |error: tonic::transport::Error| ClusterError::new(format!("{address} is no address: {error}"));
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(wrong)?;
        if let Some(Trust(certificate)) = trust {
            let name = name.unwrap_or_else(|| host(address));
            let tls = ClientTlsConfig::new().ca_certificate(certificate.clone()).domain_name(name);
            endpoint = endpoint
                .tls_config(tls)
                .map_err(|error| ClusterError::new(format!("the certificates to trust cannot be used: {error}")))?;
        }
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .tcp_nodelay(true)
            .connect_lazy();
        let client = FlightServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        Ok(Peer { client, token: token.clone(), ahead_ms: Arc::default() })
    }

    /// Asks a worker who it is. Its answer proves that it knows the secret.
    pub async fn hello(&self) -> Result<Hello, Status> {
        let mut question = vec![0; QUESTION_BYTES];
        SysRng.try_fill_bytes(&mut question).map_err(|_| Status::internal("the system has no random numbers"))?;
        let answer = self.action(HELLO, question.clone()).await?;
        let hello = answered(&self.token, &question, &answer)?;
        self.ahead_ms.store(hello.now_ms.wrapping_sub(now_ms()).cast_signed(), Ordering::Relaxed);
        Ok(hello)
    }

    /// Has an action done.
    pub async fn action(&self, kind: &str, body: Vec<u8>) -> Result<Bytes, Status> {
        let action = Action { r#type: kind.to_owned(), body: body.into() };
        let body = action.body.clone();
        let request = self.token.sign_action(Request::new(action), kind, &body);
        let mut client = self.client.clone();
        let asked = async {
            let mut answers = client.do_action(request).await?.into_inner();
            answers.message().await?.map(|answer| answer.body).ok_or_else(|| Status::internal("there is no answer"))
        };
        let timed_out = |_| Status::deadline_exceeded("it does not answer");
        tokio::time::timeout(ANSWER_TIMEOUT, asked).await.map_err(timed_out)?
    }

    /// Begins a task that reads a database. The bytes that come are counted.
    pub async fn task(
        &self,
        task: Vec<u8>,
        database: &str,
        counters: &Arc<TaskCounters>,
    ) -> Result<TaskRows, TaskError> {
        let rights = Rights { database: database.to_owned(), expires_ms: self.expiry_ms() };
        let ticket = Ticket { ticket: task.into() };
        let bytes = ticket.ticket.clone();
        let request = self.token.sign_task(Request::new(ticket), &rights, &bytes);
        let mut client = self.client.clone();
        let answer = client.do_get(request).await.map_err(|status| error_of(&status))?;
        let counters = counters.clone();
        let messages = answer.into_inner().map_err(|status| FlightError::Tonic(Box::new(status)));
        let messages = messages.inspect_ok(move |message| counters.add_bytes(size(message)));
        let rows = FlightRecordBatchStream::new_from_flight_data(messages);
        Ok(rows.map_err(flight_error).boxed())
    }

    /// Until when rights hold that are given now, by the peer's clock.
    fn expiry_ms(&self) -> u64 {
        let ahead = self.ahead_ms.load(Ordering::Relaxed);
        now_ms().saturating_add_signed(ahead).saturating_add(RIGHTS_HOLD.as_millis() as u64)
    }
}

/// The bytes of a message with rows.
pub(crate) fn size(message: &FlightData) -> usize {
    message.data_header.len() + message.data_body.len()
}

fn flight_error(error: FlightError) -> TaskError {
    match error {
        FlightError::Tonic(status) => error_of(&status),
        other => TaskError::Lost(format!("its rows cannot be read: {other}")),
    }
}
