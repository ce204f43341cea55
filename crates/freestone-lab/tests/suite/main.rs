//! Benchmarks' queries give the answers of another engine, in one program: each that links DataFusion costs more than it
//! runs.

mod answers;
mod ssb;
mod tpch;
