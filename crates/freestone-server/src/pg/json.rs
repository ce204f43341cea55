//! Functions of JSON for which DuckDB and PostgreSQL have one name and two results. Clients of PostgreSQL get its own: `json_each`
//! in FROM has the columns `key` and `value`, and `json_object` takes texts and lists that are arrays.

use freestone_sql::Span;
use freestone_sql::tree::{
    Call, Expr, ExprKind, Literal, Name, Select, Statement, Table, TableAlias, TableKind, TypeKind, WalkMut,
};

use super::names::{last, mentions, walk_named};
use super::series::queries;

const EACH: &str = "json_each";
const OBJECT: &str = "json_object";

/// Whether a text may have such functions.
pub fn is_in(sql: &str) -> bool {
    mentions(sql, &[EACH, OBJECT])
}

/// Calls the functions that have PostgreSQL's results.
pub fn rename(statement: &mut Statement) {
    queries(statement).into_iter().for_each(|query| Renames.query(query));
}

struct Renames;

impl WalkMut for Renames {
    fn select(&mut self, select: &mut Select) {
        walk_named(select, self);
    }

    fn table(&mut self, table: &mut Table) {
        if let TableKind::Call { call, .. } = &mut table.kind
            && is_call(call, EACH)
            && call.arguments.len() == 1
        {
            name_call(call, "freestone_json_each");
            if table.alias.is_none() {
                let name = Name { text: EACH.to_owned(), quoted: false, span: Span::default() };
                table.alias = Some(TableAlias { name, columns: vec![] });
            }
        }
        table.walk_mut(self);
    }

    fn expr(&mut self, expr: &mut Expr) {
        if let ExprKind::Call(call) = &mut expr.kind
            && is_call(call, OBJECT)
            && matches!(call.arguments.len(), 1 | 2)
            && call.arguments.iter().all(|argument| argument.name.is_none() && is_array(&argument.value))
        {
            name_call(call, "freestone_json_object");
        }
        expr.walk_mut(self);
    }
}

fn is_call(call: &Call, name: &str) -> bool {
    let schema = call.name.parts.iter().rev().nth(1);
    last(&call.name) == name && call.receiver.is_none() && schema.is_none_or(|schema| schema.text == "pg_catalog")
}

fn name_call(call: &mut Call, name: &str) {
    call.name.parts.truncate(1);
    call.name.parts.iter_mut().for_each(|part| part.text = name.to_owned());
}

/// Whether a value is written as an array: as a list, as a text such as `{a,b}`, or with the type of one.
fn is_array(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Literal(Literal::Text(text)) => text.trim_start().starts_with('{'),
        ExprKind::List(_) => true,
        ExprKind::Cast { data_type, .. } => matches!(data_type.kind, TypeKind::List(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_postgresqls_results() {
        for (sql, expected) in [
            ("SELECT key FROM json_each('{}')", "SELECT key FROM freestone_json_each('{}') AS json_each"),
            ("SELECT e.key FROM t, json_each(t.j) AS e", "SELECT e.key FROM t, freestone_json_each(t.j) AS e"),
            ("SELECT key FROM json_each('{}', '$.a')", "="),
            ("SELECT json_object('{a,1}')", "SELECT freestone_json_object('{a,1}') AS \"json_object\""),
            ("SELECT json_object('{a}', '{1}') AS o", "SELECT freestone_json_object('{a}', '{1}') AS o"),
            ("SELECT json_object('a', '{1}')", "="),
            ("SELECT json_object('{a}', 1, 'b', 2)", "="),
        ] {
            let mut statement = freestone_sql::parse_statement(sql).expect(sql);
            let written = statement.to_string();
            rename(&mut statement);
            assert_eq!(statement.to_string(), if expected == "=" { &written } else { expected }, "{sql}");
        }
    }
}
