//! RocksDB through its interface in C (`rocksdb/c.h`). Each change is synced to its log.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::null_mut;

use crate::engine::{Engine, Found, Result};
use crate::tuples::{Tuples, double_of};

type Handle = *mut c_void;
type Failure = *mut c_char;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_set_create_if_missing(options: Handle, value: c_uchar);
    fn rocksdb_options_optimize_for_point_lookup(options: Handle, cache_mb: u64);
    fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    fn rocksdb_open(options: Handle, path: *const c_char, failure: *mut Failure) -> Handle;
    fn rocksdb_close(database: Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_set_sync(options: Handle, value: c_uchar);
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_put(
        db: Handle,
        with: Handle,
        key: *const c_char,
        len: usize,
        value: *const c_char,
        bytes: usize,
        failure: *mut Failure,
    );
    fn rocksdb_delete(db: Handle, with: Handle, key: *const c_char, len: usize, failure: *mut Failure);
    fn rocksdb_get(
        db: Handle,
        with: Handle,
        key: *const c_char,
        len: usize,
        bytes: *mut usize,
        failure: *mut Failure,
    ) -> *mut c_char;
    fn rocksdb_free(value: *mut c_void);
    fn rocksdb_create_iterator(db: Handle, with: Handle) -> Handle;
    fn rocksdb_iter_destroy(iterator: Handle);
    fn rocksdb_iter_seek(iterator: Handle, key: *const c_char, len: usize);
    fn rocksdb_iter_valid(iterator: Handle) -> c_uchar;
    fn rocksdb_iter_next(iterator: Handle);
    fn rocksdb_iter_key(iterator: Handle, len: *mut usize) -> *const c_char;
    fn rocksdb_iter_value(iterator: Handle, len: *mut usize) -> *const c_char;
}

const CACHE_MB: u64 = 1024;

pub struct RocksDb {
    database: Handle,
    synced: Handle,
    unsynced: Handle,
    read: Handle,
}

/// The error that a call left, if it failed.
fn checked(failure: Failure) -> Result<()> {
    if failure.is_null() {
        return Ok(());
    }
    // SAFETY: the library left a text with an end, which the caller frees.
    let message = unsafe { CStr::from_ptr(failure) }.to_string_lossy().into_owned();
    // SAFETY: as above; nothing refers to it any more.
    unsafe { rocksdb_free(failure.cast()) };
    Err(message.into())
}

impl RocksDb {
    pub fn open(folder: &Path) -> Result<RocksDb> {
        let path = CString::new(folder.join("rocksdb").to_string_lossy().as_bytes())?;
        let mut failure = null_mut();
        // SAFETY: handles are used as the library's header says; the path outlives the call.
        let (database, synced, unsynced, read) = unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_optimize_for_point_lookup(options, CACHE_MB);
            rocksdb_options_set_compression(options, 0);
            let synced = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(synced, 1);
            let database = rocksdb_open(options, path.as_ptr(), &mut failure);
            (database, synced, rocksdb_writeoptions_create(), rocksdb_readoptions_create())
        };
        checked(failure)?;
        Ok(RocksDb { database, synced, unsynced, read })
    }

    fn put(&mut self, with: Handle, key: i64, value: &[u8]) -> Result<()> {
        let (key, mut failure) = ((key as u64).to_be_bytes(), null_mut());
        // SAFETY: the slices outlive the call, which copies them.
        unsafe {
            let (at, bytes) = (key.as_ptr().cast(), value.as_ptr().cast());
            rocksdb_put(self.database, with, at, key.len(), bytes, value.len(), &mut failure);
        }
        checked(failure)
    }

    /// Visits rows from a key until `visit` returns false.
    fn scan(&mut self, from: i64, mut visit: impl FnMut(i64, &[u8]) -> bool) {
        let from = (from as u64).to_be_bytes();
        // SAFETY: keys and values are valid until the iterator moves, and are not kept.
        unsafe {
            let iterator = rocksdb_create_iterator(self.database, self.read);
            rocksdb_iter_seek(iterator, from.as_ptr().cast(), from.len());
            while rocksdb_iter_valid(iterator) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = rocksdb_iter_key(iterator, &mut key_len);
                let value = rocksdb_iter_value(iterator, &mut value_len);
                let key = std::slice::from_raw_parts(key.cast::<u8>(), key_len);
                let key = key.try_into().map_or(i64::MAX, |bytes| u64::from_be_bytes(bytes) as i64);
                if !visit(key, std::slice::from_raw_parts(value.cast::<u8>(), value_len)) {
                    break;
                }
                rocksdb_iter_next(iterator);
            }
            rocksdb_iter_destroy(iterator);
        }
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: nothing uses the database any more.
        unsafe { rocksdb_close(self.database) };
    }
}

impl Engine for RocksDb {
    fn load(&mut self, tuples: &Tuples, rows: usize) -> Result<()> {
        let with = self.unsynced;
        (0..rows).try_for_each(|row| self.put(with, tuples.key(row), &tuples.value(row)))
    }

    fn points(&mut self, tuples: &Tuples, rows: &[usize]) -> Result<f64> {
        let mut sum = 0.0;
        for row in rows {
            let (key, mut len, mut failure) = ((tuples.key(*row) as u64).to_be_bytes(), 0, null_mut());
            // SAFETY: the key outlives the call; the value is ours until it is freed.
            unsafe {
                let at = key.as_ptr().cast();
                let value = rocksdb_get(self.database, self.read, at, key.len(), &mut len, &mut failure);
                checked(failure)?;
                sum +=
                    if value.is_null() { f64::NAN } else { double_of(std::slice::from_raw_parts(value.cast(), len)) };
                rocksdb_free(value.cast());
            }
        }
        Ok(sum)
    }

    fn insert(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        let with = self.synced;
        self.put(with, tuples.key(row), &tuples.value(row))
    }

    fn update(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        self.insert(tuples, row)
    }

    fn delete(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        let (key, mut failure) = ((tuples.key(row) as u64).to_be_bytes(), null_mut());
        // SAFETY: the key outlives the call.
        unsafe { rocksdb_delete(self.database, self.synced, key.as_ptr().cast(), key.len(), &mut failure) };
        checked(failure)
    }

    fn by_key(&mut self, low: i64, high: i64) -> Result<Found> {
        let mut found = (0, 0.0);
        self.scan(low, |key, value| {
            if key > high {
                return false;
            }
            found.0 += 1;
            found.1 += double_of(&std::hint::black_box(value.to_vec()));
            true
        });
        Ok(found)
    }

    fn by_double(&mut self, low: f64, high: f64) -> Result<Found> {
        let mut found = (0, 0.0);
        self.scan(0, |_, value| {
            let double = double_of(value);
            if (low..=high).contains(&double) {
                std::hint::black_box(value.to_vec());
                found.0 += 1;
                found.1 += double;
            }
            true
        });
        Ok(found)
    }
}
