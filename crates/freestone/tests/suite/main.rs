//! The engine's integration tests, in one program: each that links DataFusion costs more than it runs.

mod access;
mod aggregate;
mod answers;
mod cluster;
mod depth;
mod equal_names;
mod files;
mod fuzz;
mod joins;
mod panics;
mod parameters;
mod round_trips;
mod rows;
mod rules;
mod session;
mod slt;
mod ssb;
mod tpch;
