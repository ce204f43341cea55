//! Encodings: values to bytes and back.
//!
//! This crate does not depend on files, threads, clocks, randomness or Arrow. It encodes consecutive values of one
//! column as a **chunk**, a byte string that can be decoded separately, given the segment's [`Shared`] dictionary or
//! symbol table if the column has one. It decodes all values of a chunk, a range or a list of positions, and evaluates
//! [`Predicate`]s on the encoded data into a selection bitmap.
//!
//! Writing: [`choose()`] chooses a [`ColumnPlan`] from a sample. [`prepare`] applies the plan's segment-level
//! transform. [`fit`] finds how many rows fit a number of bytes. [`encode`] appends one chunk. Reading:
//! [`Chunk::parse`], then [`Chunk::ints`], [`Chunk::f64s`], [`Chunk::bytes`] or [`Chunk::filter`].

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]
#![deny(unsafe_code)]

mod bitpack;
pub mod bits;
mod choose;
mod chunk;
mod distinct;
mod encode;
mod encodings;
mod error;
mod fsst_table;
mod fuzz;
pub mod grouped;
pub mod hash;
pub mod hybrid;
mod key_set;
mod layout;
mod predicate;
mod rows;
mod select;
mod shared;
mod simd;
mod string_sink;
mod values;
mod views;

pub use choose::{Candidate, Choice, ChooseOptions, Stats, choose};
pub use chunk::{Chunk, Scratch};
pub use distinct::Distinct;
pub use encode::{Prepared, encode, fit, plans, prepare};
pub use error::CodecError;
#[doc(hidden)]
pub use fuzz::{exercise, fuzz_chunk};
pub use key_set::KeySet;
pub use predicate::{BytesBound, BytesPredicate, IntPredicate, IntTest, Predicate, f32_key, f64_key};
pub use rows::{IntTarget, Rows};
pub use shared::Shared;
pub use string_sink::{OffsetStrings, StringSink};
pub use values::{BytesSlice, ColumnPlan, Encoding, Kind, Transform, Values};
pub use views::Views;
