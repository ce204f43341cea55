//! Files as tables: one reader for all formats, for SELECT and for all that is built of it.
//!
//! [`set`] finds the files of a name, looks at each, and unites their columns. [`source`] is the scan as DataFusion sees it:
//! it takes projections, filters, limits and dynamic filters. A scan is a queue of [`units`] (row groups, batches, blocks of
//! text), which its partitions share; each partition takes units with a [`reader`] of its own. Bounds in Parquet files leave
//! out row groups and pages ([`pruning`]): they are bounds, never values.

mod bounds;
mod filters;
mod functions;
mod options;
mod order;
mod parquet;
mod pruning;
mod reader;
mod set;
mod source;
mod statistics;
mod stream;
mod table;
mod types;
mod units;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use parking_lot::Mutex;

pub(crate) use functions::{FUNCTIONS, FilesFunction};
pub(crate) use options::{FileOptions, boolean, byte, number, unknown_format};
pub(crate) use order::KeepFileOrder;
use set::FileSet;
use table::FilesTable;

use crate::error::Result;

/// The files that a statement has opened: it sees each once, however often it is planned, and a pipe can be read only once.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenFiles(Arc<Mutex<HashMap<String, Arc<FileSet>>>>);

impl OpenFiles {
    /// A table over the files that names, folders or patterns stand for.
    pub fn table(&self, names: &[String], options: &FileOptions) -> Result<Arc<dyn TableProvider>> {
        let key = format!("{names:?} {options:?}");
        let known = self.0.lock().get(&key).cloned();
        let set = match known {
            Some(set) => set,
            None => {
                let set = Arc::new(FileSet::open(names, options)?);
                self.0.lock().insert(key, set.clone());
                set
            }
        };
        Ok(Arc::new(FilesTable::new(set)))
    }
}
