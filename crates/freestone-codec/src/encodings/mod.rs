//! One file an encoding: its byte layout on top, encoder, sizer and decoder below.

pub(crate) mod alp;
pub(crate) mod block;
pub(crate) mod delta;
pub(crate) mod delta_lz;
pub(crate) mod dictionary;
pub(crate) mod ints;
pub(crate) mod rle;
pub(crate) mod strings;
