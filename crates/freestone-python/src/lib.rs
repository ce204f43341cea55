//! The native half of the Python package `freestone`: connections, queries and their results, as Arrow and as rows.
//!
//! The public interface is Python, in `python/freestone`. This crate does what Python cannot: it waits for the engine
//! without the GIL, passes Arrow memory without a copy, and converts values.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod backend;
mod calls;
mod capsule;
mod closed;
mod connection;
mod error;
mod frames;
mod functions;
mod inputs;
mod nested;
mod numpy_times;
mod query;
mod remote;
mod results;
mod rows;
mod workers;

// Linked for the functions that it exports.
use freestone_adbc as _;
use pyo3::prelude::*;

/// Results are large and frequent. This allocator reuses the memory of earlier results, where the C library would
/// return it to the system each time and get it back page by page.
#[global_allocator]
static ALLOCATOR: freestone::Counting<mimalloc::MiMalloc> = freestone::Counting(mimalloc::MiMalloc);

#[pymodule]
mod _freestone {
    #[pymodule_export]
    use crate::connection::Connection;
    #[pymodule_export]
    use crate::query::Query;
    #[pymodule_export]
    use crate::results::{Batch, Batches};
    #[pymodule_export]
    use crate::rows::Rows;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
