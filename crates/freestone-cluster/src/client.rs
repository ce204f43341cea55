//! A connection to a worker or a coordinator. It is made when it is first needed, and again after it broke.

use std::path::Path;
use std::time::Duration;

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, Ticket};
use bytes::Bytes;
use freestone::cluster::{TaskError, TaskRows};
use futures::{StreamExt, TryStreamExt};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::address::{host, is_local};
use crate::error::{ClusterError, Result};
use crate::messages::{HELLO, Hello, error_of};
use crate::token::Token;

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

/// Another process of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    client: FlightServiceClient<Channel>,
    token: Token,
}

impl Peer {
    /// # Errors
    /// The address is not valid, or is public while there is no TLS.
    pub fn new(address: &str, token: &Token, trust: Option<&Trust>) -> Result<Peer> {
        if trust.is_none() && !is_local(address) {
            return Err(ClusterError::new(format!("{address} is not on this machine, and there is no TLS"))
                .with_hint("name the file of certificates to trust: --cluster-ca FILE"));
        }
        let scheme = if trust.is_some() { "https" } else { "http" };
        let wrong = |error: tonic::transport::Error| ClusterError::new(format!("{address} is no address: {error}"));
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(wrong)?;
        if let Some(Trust(certificate)) = trust {
            let tls = ClientTlsConfig::new().ca_certificate(certificate.clone()).domain_name(host(address));
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
        Ok(Peer { client, token: token.clone() })
    }

    /// Asks a worker who it is.
    pub async fn hello(&self) -> Result<Hello, Status> {
        let answer = self.action(HELLO, vec![]).await?;
        serde_json::from_slice(&answer)
            .map_err(|_| Status::unimplemented("it is no worker of Freestone, or an old one"))
    }

    /// Has an action done.
    pub async fn action(&self, kind: &str, body: Vec<u8>) -> Result<Bytes, Status> {
        let action = Action { r#type: kind.to_owned(), body: body.into() };
        let mut client = self.client.clone();
        let asked = async {
            let mut answers = client.do_action(self.token.give(Request::new(action))).await?.into_inner();
            answers.message().await?.map(|answer| answer.body).ok_or_else(|| Status::internal("there is no answer"))
        };
        let timed_out = |_| Status::deadline_exceeded("it does not answer");
        tokio::time::timeout(ANSWER_TIMEOUT, asked).await.map_err(timed_out)?
    }

    /// Begins a task.
    pub async fn task(&self, task: Vec<u8>) -> Result<TaskRows, TaskError> {
        let ticket = Ticket { ticket: task.into() };
        let mut client = self.client.clone();
        let answer = client.do_get(self.token.give(Request::new(ticket))).await.map_err(|status| error_of(&status))?;
        let messages = answer.into_inner().map_err(|status| FlightError::Tonic(Box::new(status)));
        let rows = FlightRecordBatchStream::new_from_flight_data(messages);
        Ok(rows.map_err(flight_error).boxed())
    }
}

fn flight_error(error: FlightError) -> TaskError {
    match error {
        FlightError::Tonic(status) => error_of(&status),
        other => TaskError::Lost(format!("its rows cannot be read: {other}")),
    }
}
