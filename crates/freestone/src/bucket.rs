//! Databases in object storage: their URLs, and whether a store can hold one.

use std::path::Path;

use freestone_store::log::shared::{Probe, ProbeReport, probe};
use freestone_store::media::block_cache::BlockCache;
use freestone_store::{RETENTION, Store, StoreError, StoreOptions};

use crate::error::{Error, Result};
use crate::options::DiskCache;

/// The URL of a database in object storage, if its name is one.
pub(crate) fn url(name: &Path) -> Option<&str> {
    name.to_str().filter(|text| freestone_bucket::is_url(text))
}

/// Whether the name of a database is the URL of a place in object storage, such as `s3://bucket/path`, and no folder.
pub fn is_bucket(name: &str) -> bool {
    freestone_bucket::is_url(name)
}

/// Opens the database at a URL, and the cache of its pages on a disk of this machine.
pub(crate) fn open(url: &str, options: StoreOptions, cache: Option<&DiskCache>) -> Result<Store> {
    let opened = |cache: &DiskCache| BlockCache::open(&cache.folder, cache.bytes).map_err(StoreError::from);
    let options = StoreOptions { block_cache: cache.map(opened).transpose()?, ..options };
    let objects = freestone_bucket::open(url, !options.read_only).map_err(|error| Error::invalid(error.to_string()))?;
    Ok(Store::in_bucket(objects, options, RETENTION)?)
}

/// Tries at length whether a store can hold a database that several processes write: many attempts to create the same
/// object at the same time, of which one must succeed.
///
/// # Errors
///
/// The URL is not valid, the store cannot be written, or it is not fit, with the reason.
pub fn check_store(url: &str, rounds: Option<usize>) -> Result<ProbeReport> {
    let objects = freestone_bucket::open(url, true).map_err(|error| Error::invalid(error.to_string()))?;
    let long = Probe { rounds: rounds.unwrap_or(Probe::LONG.rounds), ..Probe::LONG };
    Ok(probe(objects.as_ref(), long).map_err(StoreError::from)?)
}
