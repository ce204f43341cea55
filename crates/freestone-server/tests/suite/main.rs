//! The server's tests over sockets, in one binary: linking it is most of their time.

mod flight;
mod fuzz;
mod hostile;
mod postgres;
mod postgres_claims;
mod server;
mod wire;
