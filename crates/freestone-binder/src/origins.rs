//! What the columns of set operations are in their queries, by which ORDER BY behind them may mean them, too: another name, a column of
//! a table, or the expression of an item.

use freestone_sql::tree::{self, ExprKind, ObjectName};

/// What a column is in one of the queries.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The place of the column.
    pub at: usize,
    /// What it is there.
    pub known: Known,
}

/// What a column is in a query.
#[derive(Debug)]
pub(crate) enum Known {
    /// A name.
    Name(String),
    /// A column of a table, with the names of the table before its own.
    Column(Vec<String>),
    /// The value of an item.
    Value(tree::Expr),
}

/// The place of the column that a key of ORDER BY means by its origin.
pub(crate) fn place(key: &tree::Expr, names: &[String], origins: &[Origin]) -> Option<usize> {
    let found = origins.iter().find(|origin| match (&origin.known, &key.kind) {
        (Known::Column(path), ExprKind::Column(name)) => !is_field(name, names) && ends_with(path, name),
        (Known::Value(_), ExprKind::Column(_)) => false,
        (Known::Value(value), _) => value == key,
        _ => false,
    });
    found.map(|origin| origin.at).filter(|at| *at < names.len())
}

/// Whether a name can be a column of the result, or a field of one.
fn is_field(name: &ObjectName, names: &[String]) -> bool {
    let first = name.parts.first();
    name.parts.len() < 2 || first.is_some_and(|first| names.contains(&first.text))
}

fn ends_with(path: &[String], name: &ObjectName) -> bool {
    let is_same =
        |(own, part): (&String, &tree::Name)| *own == part.text || !part.quoted && own.to_lowercase() == part.text;
    path.len() >= name.parts.len() && path.iter().rev().zip(name.parts.iter().rev()).all(is_same)
}
