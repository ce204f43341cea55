//! The native half of the Python package `freestone`: connections, queries and their results, as Arrow and as rows.
//!
//! What users call is Python, in `python/freestone`. Here is what Python cannot do: wait for the engine with the
//! interpreter's lock released, hand over Arrow memory without a copy, and convert values.

mod backend;
mod capsule;
mod connection;
mod error;
mod inputs;
mod nested;
mod query;
mod remote;
mod results;
mod rows;
mod workers;

// Linked for the functions that it exports.
use freestone_adbc as _;
use pyo3::prelude::*;

/// Results are large and come again and again: what one leaves is there for the next, where the C library would give it
/// back to the system each time and fetch it page by page.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
