//! PMDK's example trees, the ctree (a tree of critical bits) and the btree, in a pool of libpmemobj. Each change is a transaction of
//! that library. Neither tree can begin a scan at a key, so that every range visits the tree from its first key.
//!
//! The pool is an ordinary file. The environment variable `PMEM_IS_PMEM_FORCE=1` makes the library flush lines of the cache, as on
//! persistent memory, and not pages of the file: `bench/pmem.py` and the laboratory set it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

use crate::engine::{Engine, Found, Result};
use crate::tuples::{Tuples, double_of};

/// The bytes of the pool for each tuple: the value, a node of the tree, and their headers.
const TUPLE_BYTES: usize = 320;
const LEAST_BYTES: usize = 64 << 20;

#[repr(C)]
struct Handle {
    _private: [u8; 0],
}

type Visitor = extern "C" fn(u64, *const u8, usize, *mut c_void) -> c_int;

unsafe extern "C" {
    fn table_open(path: *const c_char, size: usize, is_btree: c_int) -> *mut Handle;
    fn table_close(table: *mut Handle);
    fn table_put(table: *mut Handle, key: u64, bytes: *const u8, len: usize) -> c_int;
    fn table_remove(table: *mut Handle, key: u64) -> c_int;
    fn table_get(table: *mut Handle, key: u64, len: *mut usize) -> *const u8;
    fn table_scan(table: *mut Handle, visitor: Visitor, context: *mut c_void);
    fn pmemobj_errormsg() -> *const c_char;
}

/// The trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tree {
    Critical,
    B,
}

pub struct Pmdk(*mut Handle);

fn failure() -> Box<dyn std::error::Error> {
    // SAFETY: the library returns a text with an end, or null, which stays until its next call of this thread.
    let message = unsafe {
        let text = pmemobj_errormsg();
        if text.is_null() { "no reason".into() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    };
    format!("libpmemobj: {message}").into()
}

/// The ctree takes key 0 for an empty place.
fn stored(key: i64) -> u64 {
    key as u64 + 1
}

/// What a range looks for, and what it has found.
struct Range {
    matches: fn(i64, f64, [f64; 2]) -> bool,
    bounds: [f64; 2],
    last_key: i64,
    found: Found,
}

extern "C" fn visit(key: u64, bytes: *const u8, len: usize, context: *mut c_void) -> c_int {
    // SAFETY: the context is the range of the caller of `table_scan`, and the bytes are those of a value in the pool.
    let (range, value) = unsafe { (&mut *context.cast::<Range>(), std::slice::from_raw_parts(bytes, len)) };
    let key = key as i64 - 1;
    if key > range.last_key {
        return 1;
    }
    let double = double_of(value);
    if (range.matches)(key, double, range.bounds) {
        std::hint::black_box(value.to_vec());
        range.found.0 += 1;
        range.found.1 += double;
    }
    0
}

impl Pmdk {
    pub fn open(folder: &Path, tree: Tree, tuples: usize) -> Result<Pmdk> {
        let path = CString::new(folder.join("pool").to_string_lossy().as_bytes())?;
        let size = LEAST_BYTES + tuples * TUPLE_BYTES;
        // SAFETY: the path outlives the call.
        let table = unsafe { table_open(path.as_ptr(), size, c_int::from(tree == Tree::B)) };
        if table.is_null() { Err(failure()) } else { Ok(Pmdk(table)) }
    }

    fn scan(&mut self, mut range: Range) -> Found {
        // SAFETY: the range outlives the call, and the visitor has its type.
        unsafe { table_scan(self.0, visit, (&raw mut range).cast()) };
        range.found
    }
}

impl Drop for Pmdk {
    fn drop(&mut self) {
        // SAFETY: nothing uses the table any more.
        unsafe { table_close(self.0) };
    }
}

impl Engine for Pmdk {
    fn load(&mut self, tuples: &Tuples, rows: usize) -> Result<()> {
        (0..rows).try_for_each(|row| self.insert(tuples, row))
    }

    fn points(&mut self, tuples: &Tuples, rows: &[usize]) -> Result<f64> {
        let mut sum = 0.0;
        for row in rows {
            let mut len = 0;
            // SAFETY: the value stays in the pool while nothing changes it.
            sum += unsafe {
                let value = table_get(self.0, stored(tuples.key(*row)), &mut len);
                match value.is_null() {
                    true => f64::NAN,
                    false => double_of(&std::hint::black_box(std::slice::from_raw_parts(value, len).to_vec())),
                }
            };
        }
        Ok(sum)
    }

    fn insert(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        let value = tuples.value(row);
        // SAFETY: the value outlives the call, which copies it.
        match unsafe { table_put(self.0, stored(tuples.key(row)), value.as_ptr(), value.len()) } {
            0 => Ok(()),
            _ => Err(failure()),
        }
    }

    fn update(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        self.insert(tuples, row)
    }

    fn delete(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        // SAFETY: the table is open.
        match unsafe { table_remove(self.0, stored(tuples.key(row))) } {
            0 => Ok(()),
            _ => Err(failure()),
        }
    }

    fn by_key(&mut self, low: i64, high: i64) -> Result<Found> {
        let matches = |key: i64, _: f64, [low, _]: [f64; 2]| key as f64 >= low;
        Ok(self.scan(Range { matches, bounds: [low as f64, high as f64], last_key: high, found: (0, 0.0) }))
    }

    fn by_double(&mut self, low: f64, high: f64) -> Result<Found> {
        let matches = |_: i64, double: f64, [low, high]: [f64; 2]| (low..=high).contains(&double);
        Ok(self.scan(Range { matches, bounds: [low, high], last_key: i64::MAX, found: (0, 0.0) }))
    }
}
