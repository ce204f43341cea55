//! PostgreSQL's protocol, version 3: for psql, psycopg, JDBC and other clients of PostgreSQL.
//!
//! Frames are parsed by our own code, because bytes of unauthenticated clients must neither cause panics nor large
//! allocations.

mod array;
mod calendar;
mod catalog;
mod connection;
mod copy_binary;
mod declared;
mod encoding;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod insert_columns;
mod json;
mod login;
mod meanings;
mod names;
mod normal;
mod numerals;
mod numeric;
mod origins;
mod parameters;
mod reply;
mod search_path;
mod series;
mod settings;
mod times;
mod told;
mod type_names;
mod types;
mod utility;
mod values;
mod zones;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::protocol::{self, Protocol};
use crate::shared::{Shared, Visit};
pub(crate) use error::PgError;

/// A client's connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for T {}

/// PostgreSQL's protocol as one of the server's protocols.
pub(crate) struct Postgres;

#[async_trait]
impl Protocol for Postgres {
    fn scheme(&self) -> &'static str {
        "postgres"
    }

    async fn serve(&self, listener: TcpListener, shared: Arc<Shared>) {
        protocol::accept(listener, shared, handle).await;
    }
}

async fn handle(stream: TcpStream, mut visit: Visit, shared: Arc<Shared>) {
    let gives_way = visit.gives_way();
    let entered = tokio::select! {
        entered = tokio::time::timeout(shared.limits.startup, login::enter(stream, &shared, &mut visit)) => entered,
        () = gives_way => return tracing::info!("a connection gave way before it had logged in"),
        () = shared.stopping() => return,
    };
    match entered {
        Ok(Ok(Some(guest))) => connection::run(guest, visit, shared).await,
        // The client sent a request to cancel, or has disconnected.
        Ok(Ok(None)) => {}
        Ok(Err(error)) => tracing::info!(connection = visit.number, %error, "login failed"),
        Err(_) => tracing::info!(connection = visit.number, "login took too long"),
    }
}
