//! What every engine does.

use std::error::Error;
use std::path::Path;

use crate::tuples::Tuples;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The rows of a range: how many, and the sum of their doubles.
pub type Found = (u64, f64);

/// A table of the tuples. Each change is durable when it returns.
pub trait Engine {
    /// Adds rows, before anything is measured.
    fn load(&mut self, tuples: &Tuples, rows: usize) -> Result<()>;
    /// Reads whole rows by their keys, and returns the sum of their doubles.
    fn points(&mut self, tuples: &Tuples, rows: &[usize]) -> Result<f64>;
    fn insert(&mut self, tuples: &Tuples, row: usize) -> Result<()>;
    /// Writes a row again that is there.
    fn update(&mut self, tuples: &Tuples, row: usize) -> Result<()>;
    fn delete(&mut self, tuples: &Tuples, row: usize) -> Result<()>;
    /// Reads whole rows whose keys are from `low` to `high`.
    fn by_key(&mut self, low: i64, high: i64) -> Result<Found>;
    /// Reads whole rows whose doubles are from `low` to `high`.
    fn by_double(&mut self, low: f64, high: f64) -> Result<Found>;
}

/// The engines of this build, by name.
pub const ENGINES: &[&str] = &[
    #[cfg(feature = "freestone")]
    "Freestone",
    "LMDB",
    "redb",
    #[cfg(feature = "pmdk")]
    "PMDK ctree",
    #[cfg(feature = "pmdk")]
    "PMDK btree",
    #[cfg(feature = "rocksdb")]
    "RocksDB",
    "SQLite",
];

/// Creates or opens an engine's table in a folder.
pub fn open(name: &str, folder: &Path, tuples: &Tuples) -> Result<Box<dyn Engine>> {
    std::fs::create_dir_all(folder)?;
    Ok(match name {
        #[cfg(feature = "freestone")]
        "Freestone" => Box::new(crate::freestone::Table::open(folder, tuples)?),
        "LMDB" => Box::new(crate::lmdb::Lmdb::open(folder)?),
        "redb" => Box::new(crate::redb::Redb::open(folder)?),
        #[cfg(feature = "pmdk")]
        "PMDK ctree" => Box::new(crate::pmdk::Pmdk::open(folder, crate::pmdk::Tree::Critical, tuples.len())?),
        #[cfg(feature = "pmdk")]
        "PMDK btree" => Box::new(crate::pmdk::Pmdk::open(folder, crate::pmdk::Tree::B, tuples.len())?),
        #[cfg(feature = "rocksdb")]
        "RocksDB" => Box::new(crate::rocksdb::RocksDb::open(folder)?),
        "SQLite" => Box::new(crate::sqlite::Sqlite::open(folder)?),
        other => return Err(format!("no engine {other}").into()),
    })
}
