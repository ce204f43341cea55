//! What is known of the columns of the tables in FROM.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ObjectName, TableFunctionArgs};

/// The columns of a table or query; `None` if they are known only after planning.
pub(crate) type Columns = Option<Arc<[String]>>;

/// What is known of a table of FROM: its columns, and the tables of a join in parentheses.
pub(crate) struct Factored {
    pub columns: Columns,
    pub within: Vec<Factored>,
}

/// The call of a table function as text.
pub(crate) fn call_text(name: &ObjectName, args: &TableFunctionArgs) -> String {
    let args: Vec<String> = args.args.iter().map(ToString::to_string).collect();
    format!("{name}({})", args.join(", "))
}
