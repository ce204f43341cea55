//! The engine's integration tests, in one program: each that links DataFusion costs more than it runs.

mod access;
mod aggregate;
mod alter;
mod answers;
mod cluster;
mod depth;
mod equal_names;
mod files;
mod files_bad;
mod functions;
mod fuzz;
mod histories;
mod isolation;
mod joins;
mod panics;
mod parameters;
mod planning;
mod round_trips;
mod rows;
mod rules;
mod session;
mod slt;
mod ssb;
mod tpch;

/// As programs of this project have it: planning counts as memory.
#[global_allocator]
static ALLOCATOR: freestone::Counting<std::alloc::System> = freestone::Counting(std::alloc::System);
