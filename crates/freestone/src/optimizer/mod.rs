//! Our own rules over logical plans, in place of those of DataFusion whose answers are wrong.

pub(crate) mod unnesting;
