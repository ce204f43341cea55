//! The tests of the server over sockets, in one binary, because linking takes most of their build time.

mod cancel;
mod flight;
mod fuzz;
mod hostile;
mod http;
mod http_hostile;
mod postgres;
mod postgres_catalog;
mod postgres_claims;
mod postgres_copy;
mod postgres_drivers;
mod postgres_types;
mod server;
mod snapshots;
mod sqlstates;
mod traces;
mod wire;
mod withdrawn;
