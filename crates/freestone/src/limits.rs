//! How deeply statements may nest.

/// The maximum depth of views that read views, each of which takes as much of the stack as a query.
pub(crate) const VIEWS_MAX: usize = 50;
