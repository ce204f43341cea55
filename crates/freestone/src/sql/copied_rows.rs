//! The query whose rows COPY … TO writes.

use freestone_sql::tree::{CopySource, CopyTo, Query, StatementKind};

/// The rows in the order of the query, or in that of ORDER_BY. With PARTITION_BY, which orders them by folder, the place in
/// that order is one more column, behind the others.
///
/// The text is that of the query if it is no part of the statement's.
pub(super) fn query_of(copy: CopyTo) -> Option<(Box<Query>, Option<String>)> {
    let rows = match copy.source {
        CopySource::Query(query) if copy.order.is_empty() => return Some((query, None)),
        CopySource::Query(query) => query.to_string(),
        CopySource::Table(table, columns) => {
            let columns = columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("SELECT {} FROM {table}", if columns.is_empty() { "*" } else { &columns })
        }
    };
    let keys = copy.order.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let is_partitioned = copy.options.iter().any(|option| option.name.text.eq_ignore_ascii_case("partition_by"));
    // The query comes first, so that its parameters have the numbers that they have in the statement.
    let text = match (keys.is_empty(), is_partitioned) {
        (true, _) => rows,
        (false, false) => format!("WITH __copied AS ({rows}) SELECT * FROM __copied ORDER BY {keys}"),
        (false, true) => {
            format!("WITH __copied AS ({rows}) SELECT *, row_number() OVER (ORDER BY {keys}) FROM __copied")
        }
    };
    match freestone_sql::parse_statement(&text).map(|statement| statement.kind) {
        Ok(StatementKind::Query(query)) => Some((query, Some(text))),
        _ => None,
    }
}
