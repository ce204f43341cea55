//! What the parts of one run of a scan share.

use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_plan::metrics::Count;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::ahead::Ahead;
use super::filters::{Filters, Measured, Tests};
use super::progress::ReadProgress;
use super::pruning::Pruning;
use super::set::FileSet;
use crate::error::Result;
use crate::ingest::RejectSink;

/// The parameters of one run of a scan, which its partitions share.
#[derive(Debug)]
pub(super) struct Scan {
    pub set: Arc<FileSet>,
    pub progress: Arc<ReadProgress>,
    pub filters: Filters,
    pub pruning: Pruning,
    /// The output columns of the table, in the order of the plan.
    pub projection: Vec<usize>,
    pub schema: SchemaRef,
    /// The columns of the table with the types in which they are read.
    pub read: SchemaRef,
    /// The columns of the table that filters test.
    pub tested: Vec<usize>,
    pub batch_rows: usize,
    pub measured: Arc<Measured>,
    pub counters: Counters,
    /// Row groups of files elsewhere that are fetched.
    pub ahead: Ahead,
    /// The metadata with the page index, per file, if there is one.
    pub indexed: Vec<OnceLock<Option<ArrowReaderMetadata>>>,
    /// The same with the types in which columns are read, per file, if these are not those of the file.
    pub formed: Vec<OnceLock<Option<ArrowReaderMetadata>>>,
    /// What receives the records of each file that are left out; empty if they are not kept.
    pub rejects: Vec<RejectSink>,
}

/// The counters of pruned parts, for EXPLAIN ANALYZE.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    pub pruned_groups: Count,
    pub pruned_rows: Count,
    pub late_groups: Count,
}

impl Scan {
    /// The columns of the table to read if rows are tested after all of them were read.
    pub fn needed(&self) -> Vec<usize> {
        let mut needed: Vec<usize> = self.projection.iter().chain(&self.tested).copied().collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    pub fn tests(&self) -> Result<Option<Tests>> {
        let is_none = self.filters.is_empty();
        Ok((!is_none)
            .then(|| Tests::new(&self.filters, &self.tested, &self.set.schema, &self.read, self.measured.clone()))
            .transpose()?)
    }
}
