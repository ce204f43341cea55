//! Files as tables: one reader for all formats, for SELECT and all statements that contain a query.
//!
//! [`set`] finds the files of a name, reads their schemas, and computes common columns. [`source`] is the scan as a
//! DataFusion source: it supports projections, filters, limits and dynamic filters. A scan is a queue of [`morsels`] (row
//! groups, batches, blocks of text), which its partitions share. Each partition reads morsels with its own [`reader`].
//! Bounds in Parquet files prune row groups and pages ([`pruning`]); they are never used as values.

mod ahead;
mod assembly;
mod bounds;
mod contents;
mod counts;
mod filters;
mod folders;
mod forms;
mod functions;
mod inference;
mod inspection;
mod layout;
mod morsels;
pub(crate) mod naming;
mod option_values;
mod options;
mod order;
mod pages;
mod parquet;
mod progress;
mod pruning;
mod reader;
mod rejects;
mod scan;
mod selectivity;
mod set;
mod sniff;
mod source;
mod statistics;
mod stream;
mod table;
mod types;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::catalog::TableProvider;
use freestone_binder::FILE_NAMES;
use freestone_bucket::Stores;
use parking_lot::Mutex;

pub(crate) use contents::{CONTENTS, ContentsFunction};
pub(crate) use functions::{FILE_FUNCTIONS, FilesFunction, NamedTypes, SNIFF};
pub(crate) use inference::Inference;
pub(crate) use inspection::{FUNCTIONS as INSPECTIONS, InspectionFunction};
pub(crate) use layout::{Layout, arguments};
pub(crate) use option_values::{Delimiter, boolean, byte, delimiter, line_end, names, number};
pub(crate) use options::{FileOptions, RejectNames, unknown_format};
pub(crate) use order::KeepFileOrder;
use progress::ReadProgress;
pub(crate) use rejects::RejectTables;
use set::FileSet;
pub(crate) use sniff::SniffFunction;
pub(crate) use source::FilesSource;
use table::FilesTable;

use crate::context::Progress;
use crate::error::Result;

/// The files that a statement has opened. Each is opened once, however often the statement is planned, because a pipe
/// can be read only once.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenFiles {
    sets: Arc<Mutex<HashMap<String, Arc<FileSet>>>>,
    progress: Arc<ReadProgress>,
    inference: Inference,
    rejects: RejectTables,
    stores: Stores,
    /// Whether tables have the names of the files as a hidden column.
    with_names: Arc<AtomicBool>,
}

impl OpenFiles {
    /// The same files, with types that are inferred like this.
    pub fn with_inference(self, inference: Inference) -> Self {
        Self { inference, ..self }
    }

    /// The same files, whose scans report their progress.
    pub fn with_progress(self, told: Option<Arc<dyn Progress>>) -> Self {
        Self { progress: Arc::new(ReadProgress::new(told)), ..self }
    }

    /// The same files, whose records that are left out are kept in tables of the session.
    pub fn with_rejects(self, rejects: &RejectTables) -> Self {
        Self { rejects: rejects.clone(), ..self }
    }

    /// The same files, where those elsewhere are in the stores of the session.
    pub fn with_stores(self, stores: &Stores) -> Self {
        Self { stores: stores.clone(), ..self }
    }

    /// From now on, tables have the names of the files as their last column, which is hidden.
    pub fn name_files(&self) {
        self.with_names.store(true, Ordering::Relaxed);
    }

    /// A table over the files that match names, folders or patterns.
    ///
    /// # Errors
    /// There is no such file, or a file cannot be read.
    pub fn table(&self, names: &[String], options: &FileOptions) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(FilesTable::new(self.set(names, options)?, self.progress.clone())))
    }

    /// The files that match names, folders or patterns.
    fn set(&self, names: &[String], options: &FileOptions) -> Result<Arc<FileSet>> {
        let mut options = self.inference.applied(options);
        if self.with_names.load(Ordering::Relaxed) {
            options.filename.get_or_insert_with(|| FILE_NAMES.to_owned());
        }
        let options = &options;
        let key = format!("{names:?} {options:?}");
        let known = self.sets.lock().get(&key).cloned();
        let set = match known {
            Some(set) => set,
            None => {
                let set = Arc::new(FileSet::open(names, options, &self.inference, &self.rejects, &self.stores)?);
                self.sets.lock().insert(key, set.clone());
                set
            }
        };
        Ok(set)
    }
}
