//! INSERT of fewer values than the table has columns: in PostgreSQL they are for the first ones, and the others have their
//! defaults. In the engine, as in DuckDB, that is an error unless the columns are named.

use freestone::NamedRelation;
use freestone_sql::Span;
use freestone_sql::tree::{Insert, Name, Statement, StatementKind, Write};

use super::told::{Known, Scope, of_query};

/// Whether a text may be such a statement.
pub fn is_in(sql: &str) -> bool {
    sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("insert"))
}

/// Names the columns of an INSERT that does not, and has fewer values.
pub fn complete(statement: &mut Statement, known: &Known) {
    let StatementKind::Write(write) = &mut statement.kind else { return };
    if let Write::Insert(insert) = write.as_mut()
        && let Some(columns) = first_columns(insert, known)
    {
        insert.columns = columns;
    }
}

/// The first columns of the table, as many as there are values; `None` where that is all of them.
fn first_columns(insert: &Insert, known: &Known) -> Option<Vec<Name>> {
    let rows = insert.rows.as_ref().filter(|_| insert.columns.is_empty() && !insert.by_name)?;
    let count = of_query(rows, &Scope::new(known).within(insert.with.as_ref()))?.len();
    let NamedRelation::Table { schema, .. } = (known.relation)(&insert.table)? else { return None };
    let name = |name: &String| Name { text: name.clone(), quoted: true, span: Span::default() };
    let names = schema.fields().iter().take(count).map(|field| name(field.name()));
    (count < schema.fields().len()).then(|| names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_values_are_for_the_first_columns() {
        use arrow::datatypes::{DataType, Field, Schema};
        let schema = std::sync::Arc::new(Schema::new(
            ["a", "B", "c"].map(|name| Field::new(name, DataType::Int32, true)).to_vec(),
        ));
        let relation = |_: &freestone_sql::tree::ObjectName| {
            Some(NamedRelation::Table { name: "t".to_owned(), schema: schema.clone() })
        };
        let known = Known { is_enum: &|_| false, relation: &relation, declared: &[] };
        for (sql, expected) in [
            ("INSERT INTO t VALUES (1, 2)", "INSERT INTO t (\"a\", \"B\") VALUES (1, 2)"),
            ("INSERT INTO t SELECT 1", "INSERT INTO t (\"a\") SELECT 1"),
            ("INSERT INTO t VALUES (1, 2, 3)", "INSERT INTO t VALUES (1, 2, 3)"),
            ("INSERT INTO t VALUES (1, 2, 3, 4)", "INSERT INTO t VALUES (1, 2, 3, 4)"),
            ("INSERT INTO t (c) VALUES (1)", "INSERT INTO t (c) VALUES (1)"),
            ("INSERT INTO t SELECT f(*) FROM g()", "INSERT INTO t (\"a\") SELECT f(*) FROM g()"),
            ("INSERT INTO t SELECT * FROM g()", "INSERT INTO t SELECT * FROM g()"),
            ("INSERT INTO t DEFAULT VALUES", "INSERT INTO t DEFAULT VALUES"),
        ] {
            let mut statement = freestone_sql::parse_statement(sql).expect(sql);
            complete(&mut statement, &known);
            assert_eq!(statement.to_string(), expected);
        }
    }
}
