//! PostgreSQL's names for unnamed columns: the name of the function that computes them, or `?column?`.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{Expr, ObjectNamePart, Query, SelectItem, SetExpr, Statement};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

const UNKNOWN: &str = "?column?";

/// The columns of a result with the names that PostgreSQL gives them. Columns with a name keep it.
pub fn as_named(sql: &str, schema: SchemaRef) -> SchemaRef {
    let Some(names) = names(sql).filter(|names| names.len() == schema.fields().len()) else { return schema };
    if names.iter().all(Option::is_none) {
        return schema;
    }
    let fields = schema.fields().iter().zip(names).map(|(field, name)| match name {
        Some(name) => Arc::new(field.as_ref().clone().with_name(name)),
        None => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// A name for each unnamed column of a query; `None` if the number of columns is not known from the text.
fn names(sql: &str) -> Option<Vec<Option<String>>> {
    let mut statements = Parser::parse_sql(&GenericDialect {}, sql).ok()?;
    match statements.pop()? {
        Statement::Query(query) if statements.is_empty() => of_query(&query),
        _ => None,
    }
}

fn of_query(query: &Query) -> Option<Vec<Option<String>>> {
    of_body(&query.body)
}

fn of_body(body: &SetExpr) -> Option<Vec<Option<String>>> {
    match body {
        SetExpr::Select(select) => select.projection.iter().map(of_item).collect(),
        SetExpr::SetOperation { left, .. } => of_body(left),
        SetExpr::Query(query) => of_query(query),
        _ => None,
    }
}

/// `None` for a wildcard.
fn of_item(item: &SelectItem) -> Option<Option<String>> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(of_expr(expr)),
        SelectItem::ExprWithAlias { .. } => Some(None),
        _ => None,
    }
}

/// `None` for a column, which keeps its name.
fn of_expr(expr: &Expr) -> Option<String> {
    let name = match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => return None,
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return of_expr(inner),
        Expr::Cast { expr: inner, .. } => match inner.as_ref() {
            Expr::Identifier(name) => folded(name),
            Expr::CompoundIdentifier(names) => names.last().map(folded)?,
            inner => return of_expr(inner),
        },
        Expr::Function(call) => call.name.0.last().and_then(ObjectNamePart::as_ident).map(folded)?,
        Expr::Case { .. } => "case".to_owned(),
        Expr::Extract { .. } => "extract".to_owned(),
        Expr::Ceil { .. } => "ceil".to_owned(),
        Expr::Floor { .. } => "floor".to_owned(),
        Expr::Substring { .. } => "substring".to_owned(),
        Expr::Trim { .. } => "btrim".to_owned(),
        Expr::Position { .. } => "position".to_owned(),
        Expr::Overlay { .. } => "overlay".to_owned(),
        Expr::Array(_) => "array".to_owned(),
        Expr::Exists { .. } => "exists".to_owned(),
        Expr::Subquery(query) => return of_subquery(query),
        _ => UNKNOWN.to_owned(),
    };
    Some(name)
}

/// The name of a subquery's column is the name of the value.
fn of_subquery(query: &Query) -> Option<String> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Some(UNKNOWN.to_owned()) };
    match select.projection.as_slice() {
        [SelectItem::ExprWithAlias { alias, .. }] => Some(folded(alias)),
        [SelectItem::UnnamedExpr(Expr::Identifier(name))] => Some(folded(name)),
        [SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names))] => names.last().map(folded),
        [SelectItem::UnnamedExpr(expr)] => of_expr(expr),
        _ => Some(UNKNOWN.to_owned()),
    }
}

fn folded(name: &datafusion::sql::sqlparser::ast::Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_called_as_in_postgresql() {
        for (sql, expected) in [
            ("SELECT 1, a, t.a, a AS b, a + 1 FROM t", "?column? - - - ?column?"),
            ("SELECT COUNT(*), sum(a)::INT, CAST(\"A\" AS INT) FROM t", "count sum A"),
            (
                "SELECT CASE WHEN a THEN 1 END, (SELECT max(a) FROM t), EXTRACT(year FROM a), ((a)) FROM t",
                "case max extract -",
            ),
            ("WITH x AS (SELECT 1) (SELECT 1 FROM x) UNION SELECT 2 AS b", "?column?"),
        ] {
            let found: Vec<String> =
                names(sql).expect(sql).into_iter().map(|name| name.unwrap_or("-".to_owned())).collect();
            assert_eq!(found.join(" "), expected, "{sql}");
        }
        for sql in ["SELECT *, 1 FROM t", "INSERT INTO t VALUES (1)", "VALUES (1)", "nothing that reads"] {
            assert_eq!(names(sql), None, "{sql}");
        }
    }
}
