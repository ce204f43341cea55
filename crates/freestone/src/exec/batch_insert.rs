//! One INSERT for many sets of parameters: converts `INSERT … VALUES (…)` to an INSERT of the rows of a table with one
//! row per set.

use freestone_sql::tree::{ExprKind, Insert, Query, QueryBody, Select, SelectItem, Write, each_part_mut};

use crate::sql::statement::{Statement, parse_script};
use crate::sql::trees;

impl Statement {
    /// A statement that does in one commit what this one does for each row of a table whose columns are named `1`, `2`,
    /// …, like the parameters. `None` if this is not an INSERT of one row of values.
    pub fn for_each_row_of(&self, table: &str) -> Option<Statement> {
        let written = self.written();
        let Ok(Write::Insert(insert)) = written.write() else { return None };
        // Of rows with equal keys each is inserted, or updates, after the one before.
        if !insert.returning.is_empty() || insert.on_conflict.is_some() {
            return None;
        }
        let Query { with: None, body: QueryBody::Values(rows), order_by: None, limit: None, offset: None, span } =
            insert.rows.as_deref()?
        else {
            return None;
        };
        let [row] = rows.as_slice() else { return None };
        // The word DEFAULT has a meaning in VALUES only.
        if row.iter().any(|value| matches!(value.kind, ExprKind::Default)) {
            return None;
        }
        let numbers = written.numbers();
        let items = row.iter().cloned().map(|mut value| {
            each_part_mut(&mut value, &mut |part| {
                if let ExprKind::Parameter(parameter) = &part.kind
                    && let Some(number) = numbers.number(parameter, part.span.start)
                {
                    *part = trees::column(&[&number.to_string()], part.span);
                }
            });
            SelectItem { value, alias: None }
        });
        let select =
            Select { from: vec![trees::named_table(table, *span)], ..Select::of_items(items.collect(), *span) };
        let rows = Some(Box::new(trees::query_of(select)));
        let text = Write::Insert(Insert { rows, ..insert.clone() }).to_string();
        let [statement] = <[Statement; 1]>::try_from(parse_script(&text)).ok()?;
        // Subqueries may have parameters, too.
        statement.parameter_names().is_ok_and(|names| names.count() == 0).then_some(statement)
    }
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
            "insert into t values ((select ?))",
        ] {
            check(other, None);
        }
    }
}
