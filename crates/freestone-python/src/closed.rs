//! Whether a connection was closed, for its queries and their rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::error::interface;

/// A flag that a connection shares with everything that reads from it.
#[derive(Clone, Default)]
pub struct Closed(Arc<AtomicBool>);

impl Closed {
    /// Closes the connection.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Raises an error if the connection was closed.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.0.load(Ordering::Acquire) {
            return Err(interface(py, "the connection is closed", "open another one with freestone.connect()"));
        }
        Ok(())
    }
}
