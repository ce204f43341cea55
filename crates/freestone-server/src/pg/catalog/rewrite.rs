//! Rewrites queries on the catalog that PostgreSQL's clients send: casts to PostgreSQL's names of objects and to its own
//! types, tables of `information_schema`, and queries on tables that are always empty here.

use freestone_sql::Span;
use freestone_sql::tree::{
    Argument, BinaryOperator, Call, CastForm, Distinct, Expr, ExprKind, Join, JoinKind, Link, Literal, Name,
    ObjectName, Query, QueryBody, Select, SelectItem, Statement, StatementKind, Table, TableAlias, TableKind, Type,
    TypeKind, WalkMut, each_part,
};

use crate::pg::names::{keep_name, last, name_of, walk_named};

const CATALOG: &str = "pg_catalog";

/// Puts a query on the catalog in the engine's words.
pub fn rewrite(statement: &mut Statement) {
    if let StatementKind::LockRows(lock) = &mut statement.kind
        && is_of_catalog(&lock.query)
    {
        // Locks have no effect on reads.
        statement.kind = StatementKind::Query(lock.query.clone());
    }
    let query = match &mut statement.kind {
        StatementKind::Query(query) => query,
        StatementKind::LockRows(lock) => &mut lock.query,
        _ => return,
    };
    Rewriter.query(query);
    if let QueryBody::Select(select) = &mut query.body {
        show_objects(select);
    }
}

/// Shows the numbers of objects among the columns of a result as names.
fn show_objects(select: &mut Select) {
    for item in &mut select.items {
        let is_call = matches!(item.value.kind, ExprKind::Call(_));
        if let Some(shown) = text_of_object(&item.value).filter(|_| is_call) {
            let before = name_of(&item.value);
            item.value = shown;
            keep_name(item, &before);
        }
    }
}

struct Rewriter;

impl WalkMut for Rewriter {
    fn query(&mut self, query: &mut Query) {
        if gives_nothing(&query.body) {
            query.order_by = None;
        }
        query.walk_mut(self);
    }

    fn body(&mut self, body: &mut QueryBody) {
        match body {
            QueryBody::Table(name) => drop(replace_table(name)),
            QueryBody::Select(select) if gives_nothing_of(select) => empty(select),
            _ => body.walk_mut(self),
        }
    }

    fn select(&mut self, select: &mut Select) {
        walk_named(select, self);
    }

    fn table(&mut self, table: &mut Table) {
        let own = match &mut table.kind {
            TableKind::Named { name, version: None } => replace_table(name),
            TableKind::Call { call, .. } if last(&call.name) == "pg_get_keywords" => {
                let own = call.name.parts.last().cloned();
                table.kind = TableKind::Named { name: in_catalog("pg_keywords"), version: None };
                own
            }
            _ => None,
        };
        if let Some(name) = own
            && table.alias.is_none()
        {
            table.alias = Some(TableAlias { name, columns: vec![] });
        }
        table.walk_mut(self);
    }

    fn expr(&mut self, expr: &mut Expr) {
        // A scalar subquery on a table without rows is NULL, whatever it depends on.
        if matches!(&expr.kind, ExprKind::Subquery(query) if gives_nothing(&query.body)) {
            expr.kind = ExprKind::Literal(Literal::Null);
        }
        if let ExprKind::Case(case) = &mut expr.kind {
            case.branches.iter_mut().filter(|(condition, _)| is_other_kind(condition)).for_each(|(_, result)| {
                if let Some(null) = null_like(result) {
                    *result = null;
                }
            });
        }
        expr.walk_mut(self);
        if let Some(changed) = changed(expr) {
            *expr = changed;
        }
    }
}

/// Whether a condition is for kinds of types that this database does not have: domains, rows and ranges.
fn is_other_kind(condition: &Expr) -> bool {
    let ExprKind::Chain { first, rest } = &condition.kind else { return false };
    let [Link { operator: BinaryOperator::Eq, operand, .. }] = rest.as_slice() else { return false };
    let is_kind = matches!(&first.kind, ExprKind::Column(name) if last(name) == "typtype");
    is_kind
        && matches!(&operand.kind, ExprKind::Literal(Literal::Text(kind)) if ["c", "d", "m", "r"].contains(&kind.as_str()))
}

/// NULL of the type of a subquery, which is one of OIDs or of names. The engine cannot make a plan of all of them.
fn null_like(result: &Expr) -> Option<Expr> {
    let ExprKind::Subquery(query) = &result.kind else { return None };
    let QueryBody::Select(select) = &query.body else { return None };
    let value = &select.items.first()?.value;
    let (element, is_list) = match &value.kind {
        ExprKind::Call(call) if last(&call.name) == "array_agg" => (&call.arguments.first()?.value, true),
        _ => (value, false),
    };
    // Clients know arrays of texts, and would look up the type of an array of numbers by this very query.
    let data_type = named_type(match is_list {
        true => "text",
        false if name_of(element).ends_with("name") => "varchar",
        false => "bigint",
    });
    let data_type = match is_list {
        true => Type { kind: TypeKind::List(Box::new(data_type)), span: Span::default() },
        false => data_type,
    };
    Some(cast_to(null(), data_type))
}

/// An expression in the engine's words; `None` if it needs no change.
fn changed(expr: &mut Expr) -> Option<Expr> {
    match &mut expr.kind {
        ExprKind::Cast { operand, data_type, .. } => cast(operand, data_type),
        // A system column of every table in PostgreSQL: the table of the row.
        ExprKind::Column(name) if last(name) == "tableoid" => {
            Some(cast_to(literal(Literal::Number("0".to_owned())), named_type("bigint")))
        }
        // A row per value of a list, with its position.
        ExprKind::Call(call) if last(&call.name) == "_pg_expandarray" => {
            let list = &call.arguments.first()?.value;
            freestone_sql::parse_expression(&format!("unnest([{{x: x, n: n}} FOR x, n IN {list}])")).ok()
        }
        _ => None,
    }
}

/// A cast to one of PostgreSQL's own types.
fn cast(operand: &Expr, data_type: &mut Type) -> Option<Expr> {
    let data_type = match &mut data_type.kind {
        TypeKind::List(element) => element,
        _ => data_type,
    };
    let TypeKind::Named { name, modifiers } = &mut data_type.kind else { return None };
    let is_literal = matches!(operand.kind, ExprKind::Literal(_) | ExprKind::Parameter(_));
    let of_type = matches!(&operand.kind, ExprKind::Call(call) if last(&call.name) == "pg_typeof");
    let function = match last(name) {
        "text" | "varchar" if modifiers.is_empty() => return text_of_object(operand),
        "regclass" if is_literal => "pg_regclass",
        "regclass" => "pg_regclass_name",
        // The type of a value is a text.
        "oid" if of_type => return Some(cast_to(call("pg_regtype", vec![operand.clone()]), named_type("bigint"))),
        "regtype" if of_type || is_literal => "pg_regtype",
        "regtype" => return Some(type_name(operand)),
        "regproc" | "regprocedure" if is_literal => "to_regproc",
        "regproc" if is_function(operand) => "pg_regproc_name",
        "regnamespace" if is_literal => "to_regnamespace",
        "regproc" | "regprocedure" | "regnamespace" | "regrole" | "oidvector" | "int2vector" | "pg_node_tree" => {
            return Some(operand.clone());
        }
        "xid" | "cid" | "xid8" | "cardinal_number" => {
            *name = plain("bigint");
            return None;
        }
        "sql_identifier" | "character_data" | "yes_or_no" | "aclitem" | "unknown" | "citext" => {
            *name = plain("varchar");
            return None;
        }
        _ => return None,
    };
    Some(call(function, vec![operand.clone()]))
}

/// A number of an object as text is the object's name.
fn text_of_object(expr: &Expr) -> Option<Expr> {
    let function = match &expr.kind {
        ExprKind::Call(call) => match last(&call.name) {
            "pg_regclass" | "to_regclass" => "pg_regclass_name",
            "pg_regtype" | "to_regtype" => return Some(type_name(expr)),
            "to_regproc" => "pg_regproc_name",
            _ => return None,
        },
        _ if is_function(expr) => "pg_regproc_name",
        _ => return None,
    };
    Some(call(function, vec![expr.clone()]))
}

/// The name of a type by its number.
fn type_name(number: &Expr) -> Expr {
    call("format_type", vec![number.clone(), null()])
}

/// A column that contains the OID of a function of a type.
fn is_function(expr: &Expr) -> bool {
    const OF_TYPES: [&str; 7] =
        ["typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze"];
    matches!(&expr.kind, ExprKind::Column(name) if OF_TYPES.contains(&last(name)))
}

/// Replaces a table of `information_schema` by ours, and returns its own name.
fn replace_table(name: &mut ObjectName) -> Option<Name> {
    let [.., schema, table] = name.parts.as_slice() else { return None };
    if schema.text != "information_schema" {
        return None;
    }
    let ours = match table.text.as_str() {
        "key_column_usage" => "freestone_key_columns",
        "constraint_column_usage" => "freestone_constraint_columns",
        "table_constraints" => "freestone_table_constraints",
        "referential_constraints" => "freestone_referential_constraints",
        "columns" => "freestone_columns",
        "tables" => "freestone_tables",
        "views" => "freestone_views",
        "schemata" => "freestone_schemata",
        "sequences" => "freestone_sequences",
        "triggers" => "freestone_triggers",
        "role_table_grants" | "table_privileges" => "freestone_grants",
        _ => return None,
    };
    let own = table.clone();
    *name = in_catalog(ours);
    Some(own)
}

/// Whether a query first reads a table of the catalog.
fn is_of_catalog(query: &Query) -> bool {
    let QueryBody::Select(select) = &query.body else { return false };
    first_table(select).is_some_and(|name| match name.parts.as_slice() {
        [schema, _] => [CATALOG, "information_schema"].contains(&schema.text.as_str()),
        _ => last(name).starts_with("pg_"),
    })
}

/// The first table of FROM, if it is one with a name.
fn first_table(select: &Select) -> Option<&ObjectName> {
    let first = match &select.from.first()?.kind {
        TableKind::Join { first, .. } => &first.kind,
        kind => kind,
    };
    match first {
        TableKind::Named { name, version: None } => Some(name),
        _ => None,
    }
}

fn gives_nothing(body: &QueryBody) -> bool {
    matches!(body, QueryBody::Select(select) if gives_nothing_of(select))
}

/// Whether a SELECT first reads a table that is always empty here, and so returns no rows. Then its expressions, which may
/// name what this database does not have, have no effect.
fn gives_nothing_of(select: &Select) -> bool {
    let Some(name) = first_table(select) else { return false };
    let is_ours = match name.parts.as_slice() {
        [_] => true,
        [schema, _] => schema.text == CATALOG,
        _ => false,
    };
    let adds =
        |join: &Join| matches!(join.kind, JoinKind::Right | JoinKind::Full | JoinKind::RightSemi | JoinKind::RightAnti);
    let is_kept = match select.from.first().map(|table| &table.kind) {
        Some(TableKind::Join { rest, .. }) => !rest.iter().any(adds),
        _ => true,
    };
    is_ours
        && super::empty_tables::is_empty(last(name))
        && is_kept
        && select.having.is_none()
        && !select.items.iter().any(|item| has_aggregates(&item.value))
}

/// Whether an expression has aggregates, which return a row for empty input. Those of its subqueries do not count.
fn has_aggregates(expr: &Expr) -> bool {
    const AGGREGATES: [&str; 12] = [
        "array_agg",
        "avg",
        "bool_and",
        "bool_or",
        "count",
        "every",
        "json_agg",
        "jsonb_agg",
        "max",
        "min",
        "string_agg",
        "sum",
    ];
    let mut found = false;
    each_part(expr, &mut |part| {
        found |= matches!(&part.kind, ExprKind::Call(call) if AGGREGATES.contains(&last(&call.name)));
    });
    found
}

/// Replaces a SELECT by one with the same columns, without rows, and without the expressions.
fn empty(select: &mut Select) {
    for item in &mut select.items {
        if !matches!(item.value.kind, ExprKind::Star(_) | ExprKind::Columns(_)) {
            let own = Name { text: name_of(&item.value), quoted: true, span: item.value.span };
            let value = cast_to(null(), named_type("varchar"));
            *item = SelectItem { value, alias: item.alias.take().or(Some(own)) };
        }
    }
    let first = select.from.drain(..).next().map(|table| match table.kind {
        TableKind::Join { first, .. } => *first,
        _ => table,
    });
    let items = std::mem::take(&mut select.items);
    *select = Select {
        distinct: select.distinct.take().filter(|distinct| *distinct == Distinct::Rows),
        from: first.into_iter().collect(),
        condition: Some(literal(Literal::Boolean(false))),
        ..Select::of_items(items, select.span)
    };
}

/// A name of one part.
fn plain(name: &str) -> ObjectName {
    let span = Span::default();
    ObjectName { parts: vec![Name { text: name.to_owned(), quoted: false, span }], span }
}

/// A table of the catalog.
fn in_catalog(table: &str) -> ObjectName {
    let mut name = plain(CATALOG);
    name.parts.extend(plain(table).parts);
    name
}

fn named_type(name: &str) -> Type {
    Type { kind: TypeKind::Named { name: plain(name), modifiers: vec![] }, span: Span::default() }
}

fn literal(literal: Literal) -> Expr {
    Expr { kind: ExprKind::Literal(literal), span: Span::default() }
}

fn null() -> Expr {
    literal(Literal::Null)
}

fn cast_to(value: Expr, data_type: Type) -> Expr {
    let (operand, data_type) = (Box::new(value), Box::new(data_type));
    Expr { kind: ExprKind::Cast { operand, data_type, form: CastForm::Cast }, span: Span::default() }
}

fn call(function: &str, arguments: Vec<Expr>) -> Expr {
    let arguments = arguments.into_iter().map(|value| Argument { name: None, value }).collect();
    let call = Call::of(plain(function), arguments);
    Expr { kind: ExprKind::Call(Box::new(call)), span: Span::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalog_queries_are_put_in_the_engines_words() {
        for (sql, expected) in [
            ("SELECT a FROM t WHERE b = 'pg'", "="),
            ("INSERT INTO t VALUES ('pg_x')", "="),
            ("SELECT current_user, pg_catalog.format_type(1, 2), 'x'::name, oid::oid FROM pg_class", "="),
            ("SELECT relkind = ANY('{r,v}') FROM pg_class WHERE relname OPERATOR(pg_catalog.~) 't' COLLATE \"C\"", "="),
            (
                "SELECT c.oid, c.*, (SELECT n.nspname FROM pg_namespace AS n WHERE n.oid = c.relnamespace) FROM pg_class AS c",
                "=",
            ),
            ("SELECT 'pg_class'::regclass", "SELECT pg_regclass_name(pg_regclass('pg_class')) AS \"regclass\""),
            ("SELECT 1 FROM pg_class WHERE oid = 't'::regclass", "SELECT 1 FROM pg_class WHERE oid = pg_regclass('t')"),
            ("SELECT 't'::regclass::text AS a", "SELECT pg_regclass_name(pg_regclass('t')) AS a"),
            ("SELECT to_regclass('t')", "SELECT pg_regclass_name(to_regclass('t')) AS \"to_regclass\""),
            ("SELECT 'int4'::regtype::text AS a", "SELECT format_type(pg_regtype('int4'), NULL) AS a"),
            ("SELECT pg_typeof(1)::oid", "SELECT CAST(pg_regtype(pg_typeof(1)) AS BIGINT) AS \"pg_typeof\""),
            (
                "SELECT typinput::regproc, typsend::text FROM pg_type WHERE typreceive <> 0",
                "SELECT pg_regproc_name(typinput) AS \"typinput\", pg_regproc_name(typsend) AS \"typsend\" FROM pg_type \
                 WHERE typreceive <> 0",
            ),
            (
                "SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c",
                "SELECT pg_regclass_name(c.oid) AS \"oid\" FROM pg_catalog.pg_class AS c",
            ),
            (
                "SELECT 1 FROM (SELECT oid::regclass, tableoid FROM pg_class) c WHERE c.oid = 't'",
                "SELECT 1 FROM (SELECT pg_regclass_name(oid) AS \"oid\", CAST(0 AS BIGINT) AS \"tableoid\" FROM pg_class) \
                 AS c WHERE c.oid = 't'",
            ),
            (
                "SELECT backend_xmin::xid, relname::information_schema.sql_identifier, '{}'::aclitem[] FROM pg_class",
                "SELECT backend_xmin::BIGINT, relname::VARCHAR, '{}'::VARCHAR[] AS \"aclitem\" FROM pg_class",
            ),
            (
                "SELECT (information_schema._pg_expandarray(i.indkey)).n FROM pg_index i",
                "SELECT unnest([{x: x, n: n} FOR x, n IN i.indkey]).n FROM pg_index AS i",
            ),
            (
                "SELECT tables.table_name FROM information_schema.tables",
                "SELECT tables.table_name FROM pg_catalog.freestone_tables AS tables",
            ),
            (
                "SELECT word FROM pg_catalog.pg_get_keywords()",
                "SELECT word FROM pg_catalog.pg_keywords AS pg_get_keywords",
            ),
            ("SELECT oid FROM pg_class WHERE relname = 't' FOR UPDATE", "SELECT oid FROM pg_class WHERE relname = 't'"),
            ("SELECT a FROM t WHERE b = 'pg_x' FOR UPDATE", "="),
            (
                "SELECT polroles = '{0}' AS r FROM pg_catalog.pg_policy pol WHERE polrelid = 1 ORDER BY polname",
                "SELECT CAST(NULL AS VARCHAR) AS r FROM pg_catalog.pg_policy AS pol WHERE false",
            ),
            ("SELECT count(*) FROM pg_policy", "="),
            (
                "SELECT CASE WHEN t.typtype = 'd' THEN (SELECT b.oid FROM pg_type b WHERE b.oid = t.typbasetype) WHEN t.typtype = 'c' \
                 THEN (SELECT array_agg(a.attname::text) FROM pg_attribute a) END FROM pg_type t",
                "SELECT CASE WHEN t.typtype = 'd' THEN CAST(NULL AS BIGINT) WHEN t.typtype = 'c' THEN CAST(NULL AS TEXT[]) END \
                 FROM pg_type AS t",
            ),
            (
                "SELECT NULL, NULL FROM pg_class UNION SELECT polname, polqual FROM pg_policy",
                "SELECT NULL, NULL FROM pg_class UNION SELECT CAST(NULL AS VARCHAR) AS \"polname\", \
                 CAST(NULL AS VARCHAR) AS \"polqual\" FROM pg_policy WHERE false",
            ),
            (
                "SELECT (SELECT d.description FROM pg_shdescription d WHERE d.objoid = c.oid) FROM pg_class c",
                "SELECT NULL AS \"description\" FROM pg_class AS c",
            ),
            (
                "SELECT p.pubname, (SELECT string_agg(attname, ', ') FROM pg_catalog.generate_series(0, \
                 pg_catalog.array_upper(pr.prattrs::pg_catalog.int2[], 1)) s, pg_catalog.pg_attribute WHERE attnum = prattrs[s]) AS a \
                 FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_rel pr ON p.oid = pr.prpubid",
                "SELECT CAST(NULL AS VARCHAR) AS \"pubname\", CAST(NULL AS VARCHAR) AS a \
                 FROM pg_catalog.pg_publication AS p WHERE false",
            ),
        ] {
            let mut statement = freestone_sql::parse_statement(sql).expect(sql);
            let written = statement.to_string();
            rewrite(&mut statement);
            assert_eq!(statement.to_string(), if expected == "=" { &written } else { expected }, "{sql}");
        }
    }
}
