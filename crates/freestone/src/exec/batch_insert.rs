//! One INSERT for many sets of parameters: converts `INSERT … VALUES (…)` to an INSERT of the rows of a table with one
//! row per set.

use datafusion::sql::sqlparser::ast;

use crate::exec::defaults;
use crate::sql::statement::{Command, Statement, parse_query, parse_script, quote};
use crate::sql::{names, visitor};

impl Statement {
    /// A statement that does in one commit what this one does for each row of a table whose columns are named `1`, `2`,
    /// …, like the parameters. `None` if this is not an INSERT of one row of values.
    pub fn for_each_row_of(&self, table: &str) -> Option<Statement> {
        let Ok(Command::Sql(sql)) = self.command() else { return None };
        let ast::Statement::Insert(mut insert) = *sql else { return None };
        // Of rows with equal keys each is inserted, or updates, after the one before.
        if insert.returning.is_some() || insert.on.is_some() || insert.or.is_some() {
            return None;
        }
        let source = insert.source.take()?;
        let ast::SetExpr::Values(values) = *source.body else { return None };
        let [row] = &values.rows[..] else { return None };
        if source.with.is_some() || source.order_by.is_some() || source.limit_clause.is_some() {
            return None;
        }
        // The word DEFAULT has a meaning in VALUES only.
        if row.iter().any(defaults::is_default) {
            return None;
        }
        let mut expressions = row.to_vec();
        expressions.iter_mut().for_each(name_columns);
        let list = expressions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mut query = parse_query(&format!("SELECT {list} FROM {}", quote(table))).ok()?;
        names::take_back(&mut query);
        insert.source = Some(query);
        let text = ast::Statement::Insert(insert).to_string();
        <[Statement; 1]>::try_from(parse_script(&text)).ok().map(|[statement]| statement)
    }
}

/// Replaces parameters by columns.
fn name_columns(expression: &mut ast::Expr) {
    visitor::expressions_mut(expression, &mut |part| {
        if let ast::Expr::Value(value) = part
            && let ast::Value::Placeholder(name) = &value.value
        {
            *part = ast::Expr::Identifier(ast::Ident::with_quote('"', name.trim_start_matches('$')));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let many = parse_script(text)[0].for_each_row_of("rows").map(|statement| statement.text);
        assert_eq!(many.as_deref(), expected, "{text}");
    }

    #[test]
    fn inserts_of_one_row_become_inserts_of_many() {
        check("insert into t values (?, ?)", Some("INSERT INTO t SELECT \"1\", \"2\" FROM \"rows\""));
        check(
            "insert into \"T\" (b, a) values ($2 + 1, upper($1) || 'it''s?')",
            Some("INSERT INTO \"T\" (b, a) SELECT \"2\" + 1, upper(\"1\") || 'it''s?' FROM \"rows\""),
        );
        for other in [
            "insert into t values (?), (?)",
            "insert into t select ?",
            "update t set a = ?",
            "select ?",
            "insert into t values (?) returning a",
            "insert into t values (?) on conflict do nothing",
            "insert or replace into t values (?)",
            "insert into t values (?",
            "insert into t values (?, default)",
        ] {
            check(other, None);
        }
    }
}
