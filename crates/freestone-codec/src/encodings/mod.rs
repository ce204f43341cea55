//! One file per encoding: its byte layout first, then encoder, sizer and decoder.

pub(crate) mod alp;
pub(crate) mod block;
pub(crate) mod delta;
pub(crate) mod delta_lz;
pub(crate) mod dictionary;
pub(crate) mod ints;
pub(crate) mod packed;
pub(crate) mod rle;
pub(crate) mod strings;
