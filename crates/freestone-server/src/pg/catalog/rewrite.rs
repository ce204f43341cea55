//! Rewrites SQL of PostgreSQL's clients that the engine does not support: casts to PostgreSQL's names of objects,
//! functions qualified with a schema, operators by their long names, arrays of subqueries. Only queries on the catalog
//! are changed.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, FunctionArguments, Ident, Join, JoinOperator, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor,
    TableWithJoins, Value, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::AGAIN;
use crate::pg::names;

const DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

/// A query on the catalog in SQL of the engine; `None` for any other query, and for text that cannot be parsed.
pub fn rewrite(sql: &str) -> Option<String> {
    if !super::is_asked_for(sql) {
        return None;
    }
    let mut statements = Parser::parse_sql(&DIALECT, sql).ok()?;
    let [statement @ Statement::Query(_)] = statements.as_mut_slice() else { return None };
    let before = outer_names(statement);
    let _ = statement.visit(&mut Rewriter);
    show_objects(statement, &before);
    Some(statement.to_string())
}

/// The SELECT of a query that is not a UNION.
fn outer_select(statement: &mut Statement) -> Option<&mut Select> {
    let Statement::Query(query) = statement else { return None };
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

/// The names of the columns as they are written.
fn outer_names(statement: &mut Statement) -> Vec<Option<String>> {
    let Some(select) = outer_select(statement) else { return vec![] };
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => names::of_expr(expr),
        _ => None,
    };
    select.projection.iter().map(name).collect()
}

/// Gives columns whose expression was changed the names that they had, and shows numbers of objects as names.
fn show_objects(statement: &mut Statement, before: &[Option<String>]) {
    let Some(select) = outer_select(statement) else { return };
    for (item, before) in select.projection.iter_mut().zip(before) {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && matches!(expr, Expr::Function(_))
            && let Some(shown) = text_of_object(expr)
        {
            *expr = shown;
        }
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(before) = before
            && names::of_expr(expr).as_ref() != Some(before)
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', before.clone()) };
        }
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(changed) = changed(expr) {
            *expr = changed;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Case { conditions, .. } = expr {
            conditions.iter_mut().filter(|when| is_other_kind(&when.condition)).for_each(|when| {
                if let Some(null) = null_like(&when.result) {
                    when.result = null;
                }
            });
        }
        // A scalar subquery on a table without rows is NULL, whatever it depends on.
        if let Expr::Subquery(query) = expr
            && let SetExpr::Select(select) = query.body.as_ref()
            && gives_nothing(select)
            && let Some(null) = parse("NULL")
        {
            *expr = null;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_mut()
            && gives_nothing(select)
        {
            empty(select);
            query.order_by = None;
        }
        simplify(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let Some(table) = constraints_table(relation) {
            *relation = ObjectName::from(vec![Ident::new("pg_catalog"), Ident::new(table)]);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args, .. } = factor else { return ControlFlow::Continue(()) };
        if args.is_some() && last(name) == "pg_get_keywords" {
            *args = None;
            *name = ObjectName::from(vec![Ident::new("pg_catalog"), Ident::new("pg_keywords")]);
        } else if args.is_some() && name.0.len() == 2 && part(&name.0[0]) == "pg_catalog" {
            *name = ObjectName::from(vec![Ident::new(last(name))]);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // Locks have no effect on reads.
        query.locks.clear();
        ControlFlow::Continue(())
    }
}

/// Whether a query first reads a table that is always empty here, and so returns no rows. Then its expressions, which
/// may not be supported by the engine, have no effect.
fn gives_nothing(select: &Select) -> bool {
    let Some(TableWithJoins { relation: TableFactor::Table { name, args: None, .. }, joins }) = select.from.first()
    else {
        return false;
    };
    let keeps = |join: &Join| !matches!(join.join_operator, JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_));
    let schema_is_ours = match name.0.as_slice() {
        [_] => true,
        [schema, _] => part(schema) == "pg_catalog",
        _ => false,
    };
    let mut aggregates = Aggregates::default();
    // The visitor stops at the first one.
    let has_aggregates = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            expr.visit(&mut aggregates).is_break()
        }
        _ => false,
    });
    schema_is_ours && super::empty_tables::is_empty(&last(name)) && joins.iter().all(keeps) && !has_aggregates
}

/// Whether a condition is for kinds of types that this database does not have: domains, rows and ranges.
fn is_other_kind(condition: &Expr) -> bool {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return false };
    let name = match left.as_ref() {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => match names.last() {
            Some(name) => name,
            None => return false,
        },
        _ => return false,
    };
    name.value == "typtype" && ["'c'", "'d'", "'m'", "'r'"].contains(&right.to_string().as_str())
}

/// NULL of the type that a subquery has, which is one of OIDs, of names or of an OID.
fn null_like(result: &Expr) -> Option<Expr> {
    let Expr::Subquery(query) = result else { return None };
    let text = query.to_string();
    parse(match (text.contains("array_agg("), text.contains("name")) {
        (true, true) => "CAST(NULL AS VARCHAR[])",
        (true, false) => "CAST(NULL AS BIGINT[])",
        (false, _) => "CAST(NULL AS BIGINT)",
    })
}

/// Searches for aggregates of a SELECT, which return a row for empty input. Aggregates of its subqueries do not count.
#[derive(Default)]
struct Aggregates {
    subqueries: usize,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = last(&function.name);
        let is_aggregate = ["count", "max", "min", "sum", "string_agg", "array_agg"].contains(&name.as_str());
        match self.subqueries == 0 && (is_aggregate || name.starts_with("bool_")) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Empties the parts of a UNION that return nothing, and gives each column of a part a name of its own.
fn simplify(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            if gives_nothing(select) {
                empty(select);
            }
            name_apart(select);
        }
        SetExpr::SetOperation { left, right, .. } => {
            simplify(left);
            simplify(right);
        }
        _ => {}
    }
}

/// PostgreSQL allows several columns with one name, and the engine does not. The names are made different by a mark
/// that clients do not see; see [`AGAIN`].
fn name_apart(select: &mut Select) {
    let all: Vec<String> = select.projection.iter().filter_map(wildcard).collect();
    let mut seen = vec![];
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (expr, name) = match &*item {
            SelectItem::UnnamedExpr(expr) => (expr, named(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.value.clone()),
            _ => continue,
        };
        // A column in addition to `t.*`, as in `SELECT t.oid, t.*`.
        let owner = match expr {
            Expr::CompoundIdentifier(names) => names.iter().rev().nth(1).map(|owner| owner.value.clone()),
            Expr::Identifier(_) => Some(String::new()),
            _ => None,
        };
        let is_twice =
            seen.contains(&name) || owner.is_some_and(|owner| all.contains(&owner) || all.contains(&String::new()));
        seen.push(name.clone());
        if is_twice {
            let alias = Ident::with_quote('"', format!("{}{AGAIN}{at}", name.replace('"', "")));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// The table of `t.*`; an empty name for `*`.
fn wildcard(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::Wildcard(_) => Some(String::new()),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            name.0.last().and_then(ObjectNamePart::as_ident).map(|ident| ident.value.clone())
        }
        _ => None,
    }
}

/// PostgreSQL's name for the column of an expression.
fn named(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()).unwrap_or_default(),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => named(expr),
        Expr::Function(call) => last(&call.name),
        _ => "?column?".to_owned(),
    }
}

/// Replaces the query by one with the same columns, without rows, and without the expressions.
fn empty(select: &mut Select) {
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item else { continue };
        let alias = match &*item {
            SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            _ => Ident::with_quote('"', named(expr).replace('"', "")),
        };
        if let Some(expr) = parse("CAST(NULL AS VARCHAR)") {
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    select.from.truncate(1);
    if let Some(from) = select.from.first_mut() {
        from.joins.clear();
    }
    select.selection = parse("false");
}

/// Our replacement of a table of `information_schema` that the engine does not have.
fn constraints_table(relation: &ObjectName) -> Option<&'static str> {
    let [.., schema, table] = relation.0.as_slice() else { return None };
    if part(schema) != "information_schema" {
        return None;
    }
    match part(table).as_str() {
        "key_column_usage" | "constraint_column_usage" => Some("freestone_key_columns"),
        "table_constraints" => Some("freestone_table_constraints"),
        "referential_constraints" => Some("freestone_referential_constraints"),
        "columns" => Some("freestone_columns"),
        "tables" => Some("freestone_tables"),
        "views" => Some("freestone_views"),
        "schemata" => Some("freestone_schemata"),
        "sequences" => Some("freestone_sequences"),
        "triggers" => Some("freestone_triggers"),
        "role_table_grants" | "table_privileges" => Some("freestone_grants"),
        _ => None,
    }
}

fn part(part: &ObjectNamePart) -> String {
    part.as_ident().map(|ident| ident.value.to_ascii_lowercase()).unwrap_or_default()
}

fn last(name: &ObjectName) -> String {
    name.0.last().map(part).unwrap_or_default()
}

/// An expression in SQL of the engine; `None` if it needs no change.
fn changed(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::Collate { expr, .. } => Some((**expr).clone()),
        Expr::Cast { expr, data_type, .. } => cast(expr, data_type),
        Expr::BinaryOp { op, .. } => {
            if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
                *op = operator(parts.last()?)?;
            }
            None
        }
        // A system column of every table in PostgreSQL: the table of the row.
        Expr::CompoundIdentifier(names) if names.last().is_some_and(|name| name.value == "tableoid") => {
            parse("CAST(0 AS BIGINT)")
        }
        // Lists of rights and options are NULL, with a string type.
        Expr::AnyOp { right, .. } if is_list_as_text(right) => parse("CAST(NULL AS BOOLEAN)"),
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            if let Some(list) = list_of_text(right) {
                **right = list;
            }
            None
        }
        Expr::Value(value) => {
            if let Value::EscapedStringLiteral(text) = &value.value {
                value.value = Value::SingleQuotedString(text.clone());
            }
            None
        }
        Expr::Function(_) => function(expr),
        Expr::Subquery(query) => {
            reduce_to_one(query);
            None
        }
        // `(f(x)).n` and `(result.keys).x`: the fields of the result of `_pg_expandarray`.
        Expr::CompoundFieldAccess { root, access_chain } if access_chain.len() == 1 => {
            field(root, &access_chain[0].to_string())
        }
        _ => None,
    }
}

fn parse(text: &str) -> Option<Expr> {
    Parser::new(&DIALECT).try_with_sql(text).ok()?.parse_expr().ok()
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "<=" => BinaryOperator::LtEq,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

/// A cast to one of PostgreSQL's own types.
fn cast(inner: &Expr, data_type: &mut DataType) -> Option<Expr> {
    let name = match data_type {
        DataType::Regclass => "regclass".to_owned(),
        DataType::Text | DataType::Varchar(None) => return text_of_object(inner),
        DataType::Custom(name, _) => last(name),
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            if let DataType::Custom(name, _) = element.as_ref() {
                **element = plain_type(&last(name))?;
            }
            return None;
        }
        _ => return None,
    };
    let is_literal = matches!(inner, Expr::Value(_));
    match name.as_str() {
        "regclass" if is_literal => parse(&format!("pg_regclass({inner})")),
        "regclass" => parse(&format!("pg_regclass_name({inner})")),
        // The type of a value is a text.
        "oid" if is_call(inner, "pg_typeof") => parse(&format!("CAST(pg_regtype({inner}) AS BIGINT)")),
        "regtype" if is_call(inner, "pg_typeof") => parse(&format!("pg_regtype({inner})")),
        "regtype" if is_literal => parse(&format!("pg_regtype({inner})")),
        "regtype" => parse(&format!("format_type({inner}, NULL)")),
        "regproc" | "regprocedure" if is_literal => parse(&format!("to_regproc({inner})")),
        "regproc" if is_function(inner) => parse(&format!("pg_regproc_name({inner})")),
        "regnamespace" if is_literal => parse(&format!("to_regnamespace({inner})")),
        "regproc" | "regprocedure" | "regnamespace" | "regrole" | "oidvector" | "int2vector" | "pg_node_tree" => {
            Some(inner.clone())
        }
        other => {
            *data_type = plain_type(other)?;
            None
        }
    }
}

fn is_call(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Function(call) if last(&call.name) == name)
}

/// A number of an object as text is the object's name.
fn text_of_object(inner: &Expr) -> Option<Expr> {
    match inner {
        Expr::Nested(inner) => text_of_object(inner),
        Expr::Function(call) => match last(&call.name).as_str() {
            "pg_regclass" | "to_regclass" => parse(&format!("pg_regclass_name({inner})")),
            "pg_regtype" | "to_regtype" => parse(&format!("format_type({inner}, NULL)")),
            "to_regproc" => parse(&format!("pg_regproc_name({inner})")),
            _ => None,
        },
        inner if is_function(inner) => parse(&format!("pg_regproc_name({inner})")),
        _ => None,
    }
}

fn plain_type(name: &str) -> Option<DataType> {
    match name {
        // The engine has these, too.
        "oid" | "name" => Some(DataType::Custom(ObjectName::from(vec![Ident::new(name)]), vec![])),
        "xid" | "cid" | "xid8" | "cardinal_number" => Some(DataType::BigInt(None)),
        "char" | "bpchar" | "sql_identifier" | "character_data" | "yes_or_no" | "aclitem" | "unknown" | "citext"
        | "text" | "varchar" => Some(DataType::Varchar(None)),
        "int2" | "int4" => Some(DataType::Int(None)),
        "int8" => Some(DataType::BigInt(None)),
        "bool" => Some(DataType::Boolean),
        _ => None,
    }
}

/// Converts `'{a,b}'` to `ARRAY['a', 'b']`.
fn list_of_text(expr: &Expr) -> Option<Expr> {
    let inner = match expr {
        Expr::Nested(inner) => return list_of_text(inner),
        Expr::Cast { expr, data_type: DataType::Array(_), .. } => expr.as_ref(),
        other => other,
    };
    let Expr::Value(value) = inner else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let items = text.strip_prefix('{')?.strip_suffix('}')?;
    let items = items.split(',').map(|item| format!("'{}'", item.trim().trim_matches('"').replace('\'', "''")));
    parse(&format!("ARRAY[{}]", items.collect::<Vec<_>>().join(", ")))
}

fn function(expr: &mut Expr) -> Option<Expr> {
    let Expr::Function(call) = expr else { return None };
    let name = last(&call.name);
    if call.name.0.len() == 2 && matches!(part(&call.name.0[0]).as_str(), "pg_catalog" | "information_schema") {
        call.name = ObjectName::from(vec![Ident::new(name.clone())]);
    }
    match (name.as_str(), &mut call.args) {
        ("current_user" | "session_user" | "user" | "current_role", FunctionArguments::None) => {
            parse("pg_current_user()")
        }
        ("current_catalog", FunctionArguments::None) => parse("current_database()"),
        ("current_schema", FunctionArguments::None) => parse("current_schema()"),
        ("array", FunctionArguments::Subquery(query)) => {
            aggregate(query, "array_agg");
            Some(Expr::Subquery(query.clone()))
        }
        ("generate_subscripts", FunctionArguments::List(list)) => {
            parse(&format!("unnest(pg_subscripts({}))", list.args.first()?))
        }
        // Lists of rights and options are NULL, with a string type.
        ("array_to_string", FunctionArguments::List(list)) => {
            let list = parse(&list.args.first()?.to_string())?;
            let list = match list {
                // In `reloptions || array(…)`, the left side is NULL, and so is the result.
                Expr::BinaryOp { left, op: BinaryOperator::StringConcat, .. } => *left,
                other => other,
            };
            is_list_as_text(&list).then_some(list)
        }
        ("array_remove", FunctionArguments::List(list)) => {
            let list = parse(&list.args.first()?.to_string())?;
            is_list_as_text(&list).then_some(list)
        }
        // There are two schemas: that of the catalog and that of the tables. Bounds of `generate_series` must be
        // literals.
        ("array_upper", FunctionArguments::List(list)) => {
            let first = list.args.first()?.to_string().to_ascii_lowercase().replace("pg_catalog.", "");
            match first.as_str() {
                "current_schemas(true)" => parse("2"),
                "current_schemas(false)" => parse("1"),
                _ => None,
            }
        }
        ("_pg_expandarray", FunctionArguments::List(list)) => parse(&format!("unnest({})", list.args.first()?)),
        _ => None,
    }
}

/// A column that is a list in PostgreSQL, and here NULL with a string type.
fn is_list_as_text(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Nested(inner) => return is_list_as_text(inner),
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    };
    let name = name.map(|name| name.value.to_ascii_lowercase()).unwrap_or_default();
    ["acl", "options", "config"].iter().any(|end| name.ends_with(end))
}

/// A column that contains the OID of a function of a type.
fn is_function(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => match names.last() {
            Some(name) => name,
            None => return false,
        },
        _ => return false,
    };
    let of_types = ["typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze"];
    of_types.contains(&name.value.to_ascii_lowercase().as_str())
}

/// Field `n` of an expanded array is the position of the element, and `x` is the element.
fn field(root: &Expr, access: &str) -> Option<Expr> {
    let root = match root {
        Expr::Nested(inner) => inner.as_ref(),
        other => other,
    };
    match (access.trim_start_matches('.'), root) {
        ("n", Expr::Function(call)) if last(&call.name) == "unnest" => {
            let FunctionArguments::List(list) = &call.args else { return None };
            parse(&format!("unnest(pg_subscripts({}))", list.args.first()?))
        }
        ("x", _) => Some(root.clone()),
        _ => None,
    }
}

/// A scalar subquery has at most one row by PostgreSQL's keys, but the engine needs a syntactic proof of that.
fn reduce_to_one(query: &mut Query) {
    const AGGREGATES: [&str; 9] =
        ["max(", "min(", "count(", "sum(", "array_agg(", "string_agg(", "bool_or(", "bool_and(", "array_to_string("];
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let text = select.projection.iter().map(ToString::to_string).collect::<String>().to_ascii_lowercase();
    if select.projection.len() == 1 && !select.from.is_empty() && !AGGREGATES.iter().any(|name| text.contains(name)) {
        aggregate(query, "max");
    }
}

/// Wraps the only expression of a query in an aggregate function.
fn aggregate(query: &mut Query, function: &str) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let [item] = select.projection.as_mut_slice() else { return };
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return };
    if let Some(changed) = parse(&format!("{function}({expr})")) {
        *expr = changed;
        select.distinct = None;
        query.order_by = None;
        query.limit_clause = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalog_queries_are_put_in_the_engines_words() {
        for (sql, expected) in [
            ("SELECT a FROM t WHERE b = 'pg'", None),
            ("INSERT INTO t VALUES ('pg_x')", None),
            ("SELECT 'pg_class'::regclass", Some("SELECT pg_regclass_name(pg_regclass('pg_class')) AS \"regclass\"")),
            (
                "SELECT 1 FROM pg_class WHERE oid = 't'::regclass",
                Some("SELECT 1 FROM pg_class WHERE oid = pg_regclass('t')"),
            ),
            ("SELECT 't'::regclass::text AS a", Some("SELECT pg_regclass_name(pg_regclass('t')) AS a")),
            ("SELECT 'int4'::regtype::text AS a", Some("SELECT format_type(pg_regtype('int4'), NULL) AS a")),
            (
                "SELECT typinput::regproc, typsend::text FROM pg_type WHERE typreceive <> 0",
                Some(
                    "SELECT pg_regproc_name(typinput) AS \"typinput\", pg_regproc_name(typsend) AS \"typsend\" FROM pg_type \
                     WHERE typreceive <> 0",
                ),
            ),
            (
                "SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c",
                Some("SELECT pg_regclass_name(c.oid) AS \"oid\" FROM pg_catalog.pg_class c"),
            ),
            (
                "SELECT 1 FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default",
                Some("SELECT 1 FROM pg_class WHERE relname ~ '^(t)$'"),
            ),
            ("SELECT pg_catalog.format_type(1, 2)", Some("SELECT format_type(1, 2)")),
            ("SELECT current_user", Some("SELECT pg_current_user() AS \"current_user\"")),
            (
                "SELECT relkind = ANY('{r,v}') FROM pg_class",
                Some("SELECT relkind = ANY(ARRAY['r', 'v']) FROM pg_class"),
            ),
            (
                "SELECT pg_catalog.array_to_string(c.relacl, E'x'), 1::pg_catalog.text FROM pg_class c",
                Some("SELECT c.relacl AS \"array_to_string\", 1::VARCHAR AS \"text\" FROM pg_class c"),
            ),
            (
                "SELECT CASE WHEN t.typtype = 'd' THEN (SELECT 1 FROM pg_type b WHERE b.oid = t.typbasetype) END AS a FROM pg_type t",
                Some("SELECT CASE WHEN t.typtype = 'd' THEN CAST(NULL AS BIGINT) END AS a FROM pg_type t"),
            ),
            ("SELECT oid::oid, 'x'::name FROM pg_class", Some("SELECT oid::oid, 'x'::name FROM pg_class")),
            (
                "SELECT (SELECT n.nspname FROM pg_namespace n WHERE n.oid = c.relnamespace) FROM pg_class c",
                Some(
                    "SELECT (SELECT max(n.nspname) FROM pg_namespace n WHERE n.oid = c.relnamespace) AS \"nspname\" FROM pg_class c",
                ),
            ),
            (
                "SELECT polroles = '{0}' AS r FROM pg_catalog.pg_policy pol WHERE polrelid = 1 ORDER BY polname",
                Some("SELECT CAST(NULL AS VARCHAR) AS r FROM pg_catalog.pg_policy pol WHERE false"),
            ),
            ("SELECT c.oid, c.* FROM pg_class c", Some("SELECT c.oid AS \"oid\u{1}0\", c.* FROM pg_class c")),
            (
                "SELECT NULL, NULL FROM pg_class UNION SELECT polname, polqual FROM pg_policy",
                Some(
                    "SELECT NULL, NULL AS \"?column?\u{1}1\" FROM pg_class UNION SELECT CAST(NULL AS VARCHAR) AS \"polname\", \
                     CAST(NULL AS VARCHAR) AS \"polqual\" FROM pg_policy WHERE false",
                ),
            ),
            (
                "SELECT array_to_string(c.reloptions || array(SELECT 'x' || x FROM pg_catalog.unnest(c.reloptions) x), ', '), \
                 'a' = ANY (c.reloptions) FROM pg_class c",
                Some(
                    "SELECT c.reloptions AS \"array_to_string\", CAST(NULL AS BOOLEAN) AS \"?column?\" FROM pg_class c",
                ),
            ),
            (
                "SELECT n FROM pg_catalog.generate_series(1, array_upper(current_schemas(false), 1)) AS s(n)",
                Some("SELECT n FROM generate_series(1, 1) AS s (n)"),
            ),
            (
                "SELECT p.pubname, (SELECT string_agg(attname, ', ') FROM pg_catalog.generate_series(0, \
                 pg_catalog.array_upper(pr.prattrs::pg_catalog.int2[], 1)) s, pg_catalog.pg_attribute WHERE attnum = prattrs[s]) AS a \
                 FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_rel pr ON p.oid = pr.prpubid",
                Some(
                    "SELECT CAST(NULL AS VARCHAR) AS \"pubname\", CAST(NULL AS VARCHAR) AS a \
                     FROM pg_catalog.pg_publication p WHERE false",
                ),
            ),
            (
                "SELECT (SELECT d.adbin FROM pg_attrdef d WHERE d.adrelid = a.attrelid) FROM pg_attribute a",
                Some(
                    "SELECT (SELECT max(d.adbin) FROM pg_attrdef d WHERE d.adrelid = a.attrelid) AS \"adbin\" FROM pg_attribute a",
                ),
            ),
        ] {
            assert_eq!(rewrite(sql).as_deref(), expected, "{sql}");
        }
    }
}
