//! Rules of ours, one file per rule, where DataFusion's alone can answer wrong.

mod guards;
mod in_lists;
mod intervals;

pub(crate) use guards::{GuardedScans, Guards};
pub(crate) use in_lists::InLists;
pub(crate) use intervals::Intervals;
