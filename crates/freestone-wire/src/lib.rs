//! Freestone wire: the protocol between a Freestone server and its clients, and the client. `docs/protocol.md` has its bytes.
//!
//! Results are sent as column chunks (Raasveldt and Mühleisen 2017). Each column of each chunk has the form with which it
//! reaches the client soonest; for stored columns this is usually their stored form. This crate handles frames, columns and
//! sockets. It knows no SQL and no engine: a server passes batches of rows to it.
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{Int64Array, RecordBatch};
//! use freestone_wire::auth::Verifier;
//! use freestone_wire::client::Client;
//! use freestone_wire::server::{Acceptor, Limits, Request};
//! use freestone_wire::transport::Stream;
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A server that answers every statement with the numbers 1, 2, 3.
//! let ann = Verifier::new("secret");
//! let users = Arc::new(move |user: &str| (user == "ann").then(|| ann.clone()));
//! let acceptor = Acceptor::new(users, Limits::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let address = format!("freestone://ann:secret@{}", listener.local_addr()?);
//! tokio::spawn(async move {
//!     while let Ok((socket, _)) = listener.accept().await {
//!         let Ok(Some(mut connection)) = acceptor.accept(Stream::tcp(socket)?).await else { continue };
//!         while let Ok(Some(Request::Query { reply, .. })) = connection.next().await {
//!             let numbers = Arc::new(Int64Array::from(vec![1, 2, 3]));
//!             let batch = RecordBatch::try_from_iter([("n", numbers as _)]).expect("one column");
//!             let mut rows = reply.rows(&batch.schema())?;
//!             rows.send(batch).await?;
//!             rows.finish("SELECT").await?;
//!         }
//!     }
//!     Ok::<(), freestone_wire::WireError>(())
//! });
//!
//! let client = Client::connect(&address).await?;
//! let mut result = client.query("SELECT n FROM numbers", None).await?;
//! let batch = result.next().await?.expect("one batch");
//! assert_eq!(batch.num_rows(), 3);
//! assert!(result.next().await?.is_none());
//! # Ok(()) }
//! ```

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

pub mod adapt;
pub mod address;
pub mod auth;
mod batch;
pub mod blocking;
mod chunk;
pub mod client;
mod column;
mod error;
pub mod frame;
#[doc(hidden)]
pub mod fuzz;
mod growth;
mod incoming;
mod limits;
mod memory;
pub mod message;
mod origin;
mod outgoing;
mod pool;
mod sample;
mod sender;
pub mod server;
mod threads;
pub mod transport;
mod trust;
mod types;

pub use batch::{Batch, Bytes, Column, StoredColumn, StoredPiece, StoredShared};
pub use column::{ByteCodec, Form, Nulls};
pub use error::{Result, SqlError, WireError, sqlstate};
pub use freestone_store::plain::Strings;
pub use limits::{DECODED_RATIO, ROWS_MAX};
pub use sender::Preference;
pub use threads::Threads;
pub use types::{wire_schema, wire_type};
