//! How deeply statements may nest.

/// The maximum depth of nested expressions, subqueries and set operations. DuckDB's limit for expressions is the same.
pub(crate) const LEVELS_MAX: usize = 1000;

/// The maximum depth of nested parentheses, CASEs, and signs or NOTs before them.
pub(crate) const NESTED_MAX: usize = 100;

/// The maximum depth of views that read views, each of which takes as much of the stack as a query.
pub(crate) const VIEWS_MAX: usize = 50;
