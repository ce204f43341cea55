//! The engine's integration tests in one binary, because linking DataFusion takes longer than most tests.

mod access;
mod advice;
mod aggregate;
mod alter;
mod answers;
mod attached;
mod bad_input;
mod cluster;
mod copy_files;
mod copy_options;
mod csv_options;
mod depth;
mod elsewhere;
mod equal_names;
mod export_database;
mod files;
mod files_bad;
mod files_filters;
mod files_foreign;
mod folder;
mod functions;
mod fuzz;
mod histories;
mod hosted;
mod isolation;
mod joins;
mod keyed;
mod limits;
mod locking;
mod materialized_views;
mod order;
mod panics;
mod parameters;
mod planning;
mod points;
mod round_trips;
mod rows;
mod rules;
mod sequences;
mod session;
mod slt;
mod ssb;
mod temporary;
mod tpch;
mod workers;

/// The allocator that programs with this engine should use, so that planning counts as memory.
#[global_allocator]
static ALLOCATOR: freestone::Counting<std::alloc::System> = freestone::Counting(std::alloc::System);
