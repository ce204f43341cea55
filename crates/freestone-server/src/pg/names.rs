//! PostgreSQL's names for unnamed columns: the name of the function that computes them, or `?column?`; and the types of
//! columns that only the text of the query tells, such as that of `a::json`.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use freestone_sql::Span;
use freestone_sql::tree::{
    self, BinaryOperator, Expr, ExprKind, Link, Literal, Name, Parameter, Query, QueryBody, Select, SelectItem,
    SpecialCall, StatementKind, Table, TableKind, TrimSide, TypeKind, UnaryOperator,
};

use super::types::{self, ColumnType, Type};

const UNKNOWN: &str = "?column?";

/// What the text of a query tells about a column of its result.
struct Told {
    /// The name of a column that has none.
    name: Option<String>,
    of_type: Option<ColumnType>,
}

/// What is known of the names and parameters of a query.
pub struct Known<'a> {
    /// Whether a name is that of a type of labels.
    pub is_enum: &'a dyn Fn(&str) -> bool,
    /// The OIDs of the types of its parameters; 0 for those that the client does not declare.
    pub declared: &'a [u32],
}

/// The columns of a result with the names and types that PostgreSQL gives them. Columns with a name keep it.
pub fn as_named(sql: &str, schema: SchemaRef, known: &Known) -> SchemaRef {
    let Some(told) = told(sql, known).filter(|told| told.len() == schema.fields().len()) else { return schema };
    if told.iter().all(|told| told.name.is_none() && told.of_type.is_none()) {
        return schema;
    }
    let fields = schema.fields().iter().zip(told).map(|(field, told)| {
        let mut field = field.as_ref().clone();
        if let Some(name) = told.name {
            field = field.with_name(name);
        }
        Arc::new(told.of_type.map_or(field.clone(), |of_type| of_type.note(field)))
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// What is told about each column of a query; `None` if the number of columns is not known from the text.
fn told(sql: &str, known: &Known) -> Option<Vec<Told>> {
    match freestone_sql::parse_statement(sql).ok()?.kind {
        StatementKind::Query(query) => of_body(&query.body, known),
        StatementKind::LockRows(lock) => of_body(&lock.query.body, known),
        _ => None,
    }
}

fn of_body(body: &QueryBody, known: &Known) -> Option<Vec<Told>> {
    match body {
        QueryBody::Select(select) => match all_of_query(select) {
            // Its columns may have other names.
            Some(query) => {
                Some(of_body(&query.body, known)?.into_iter().map(|told| Told { name: None, ..told }).collect())
            }
            None => select.items.iter().map(|item| of_item(item, known)).collect(),
        },
        QueryBody::Chain { first, .. } => {
            // The others have a say in the types.
            Some(of_body(first, known)?.into_iter().map(|told| Told { of_type: None, ..told }).collect())
        }
        QueryBody::Nested(query) => of_body(&query.body, known),
        QueryBody::Values(rows) => {
            // A larger number in another row has a say.
            let are_integers =
                |at: usize| rows.iter().all(|row| row.get(at).is_some_and(|value| is_integer(value, known)));
            let of_value = |(at, value): (usize, &Expr)| {
                let of_type = type_of(value, known).filter(|of| of.element != types::INT4 || are_integers(at));
                Told { name: None, of_type }
            };
            Some(rows.first()?.iter().enumerate().map(of_value).collect())
        }
        _ => None,
    }
}

/// The query of which a SELECT has all columns, as `SELECT * FROM (SELECT …) AS q`.
fn all_of_query(select: &Select) -> Option<&Query> {
    let ([item], [Table { kind: TableKind::Query { query, .. }, .. }]) = (&select.items[..], &select.from[..]) else {
        return None;
    };
    let ExprKind::Star(star) = &item.value.kind else { return None };
    let changes = !star.exclude.is_empty() || !star.replace.is_empty() || star.like.is_some();
    (!changes).then_some(query)
}

/// `None` for what may be several columns.
fn of_item(item: &SelectItem, known: &Known) -> Option<Told> {
    let of_type = match item.value.kind {
        ExprKind::Star(_) | ExprKind::Columns(_) => return None,
        _ => type_of(&item.value, known),
    };
    let keeps_name = item.alias.is_some() || matches!(item.value.kind, ExprKind::Column(_));
    Some(Told { name: (!keeps_name).then(|| name_of(&item.value)), of_type })
}

/// The functions whose results are of type `text`.
const TEXTS: [&str; 22] = [
    "concat",
    "concat_ws",
    "upper",
    "lower",
    "initcap",
    "trim",
    "btrim",
    "ltrim",
    "rtrim",
    "replace",
    "substr",
    "substring",
    "overlay",
    "left",
    "right",
    "lpad",
    "rpad",
    "repeat",
    "reverse",
    "to_char",
    "string_agg",
    "chr",
];

/// The type of an expression by its form. What is a string is `text`, unless it is a column or a cast says otherwise.
fn type_of(expr: &Expr, known: &Known) -> Option<ColumnType> {
    let text = Some(ColumnType::plain(types::TEXT));
    match &expr.kind {
        ExprKind::Collate { operand, .. } => type_of(operand, known),
        ExprKind::Cast { data_type, .. } | ExprKind::TypedText { data_type, .. } => {
            ColumnType::of_sql(data_type, known.is_enum)
        }
        ExprKind::Parameter(parameter) => Some(of_parameter(parameter, known)),
        _ if is_integer(expr, known) => Some(ColumnType::plain(types::INT4)),
        ExprKind::Literal(_) | ExprKind::Chain { .. } => text,
        ExprKind::List(values) => {
            let is_null = |value: &&Expr| matches!(value.kind, ExprKind::Literal(Literal::Null));
            let element = values.iter().filter(|value| !is_null(value)).find_map(|value| type_of(value, known))?;
            Some(ColumnType { is_array: true, ..element })
        }
        ExprKind::Special(call) => match call.as_ref() {
            SpecialCall::Trim { .. } | SpecialCall::Substring { .. } | SpecialCall::Overlay { .. } => text,
            SpecialCall::Extract { .. } | SpecialCall::Position { .. } => None,
        },
        ExprKind::Call(call) => text.filter(|_| TEXTS.contains(&last(&call.name))),
        _ => None,
    }
}

/// Whether an expression of literals, parameters and casts is of type `integer`. The engine computes it with more bits.
fn is_integer(expr: &Expr, known: &Known) -> bool {
    match &expr.kind {
        ExprKind::Literal(Literal::Number(digits)) => digits.parse::<i32>().is_ok(),
        ExprKind::Parameter(parameter) => of_parameter(parameter, known) == ColumnType::plain(types::INT4),
        ExprKind::Unary { operator: UnaryOperator::Minus | UnaryOperator::Plus, operand } => is_integer(operand, known),
        ExprKind::Cast { data_type, .. } => match &data_type.kind {
            TypeKind::Named { name, .. } => Type::by_sql(last(name)) == Some(types::INT4.oid),
            _ => false,
        },
        ExprKind::Chain { first, rest } => {
            let computes = |link: &Link| {
                matches!(link.operator, BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply)
                    && is_integer(&link.operand, known)
            };
            is_integer(first, known) && rest.iter().all(computes)
        }
        _ => false,
    }
}

/// The type that the client declares for a parameter; otherwise it is a text.
fn of_parameter(parameter: &Parameter, known: &Known) -> ColumnType {
    let declared = match parameter {
        Parameter::Number(number) => known.declared.get(*number as usize - 1),
        _ => None,
    };
    declared.and_then(|oid| ColumnType::of_oid(*oid)).unwrap_or(ColumnType::plain(types::TEXT))
}

/// PostgreSQL's name for the column of an expression.
pub fn name_of(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Column(name) => last(name),
        ExprKind::Field { name, .. } => &name.text,
        ExprKind::Collate { operand, .. } | ExprKind::Subscript { operand, .. } => return name_of(operand),
        ExprKind::Cast { operand, data_type, .. } => {
            let name = name_of(operand);
            return if name == UNKNOWN { of_cast(data_type) } else { name };
        }
        ExprKind::TypedText { data_type, .. } => return of_cast(data_type),
        ExprKind::Interval { .. } => "interval",
        ExprKind::AtTimeZone { .. } => "timezone",
        ExprKind::Call(call) => match last(&call.name) {
            "trim" => "btrim",
            name => name,
        },
        ExprKind::Special(call) => of_special(call),
        ExprKind::SessionValue(_) => return expr.bare_text(),
        ExprKind::Case(_) => "case",
        ExprKind::Row(_) => "row",
        ExprKind::List(_) | ExprKind::ListOfQuery(_) => "array",
        ExprKind::Exists(_) => "exists",
        ExprKind::Subquery(query) => return of_subquery(query),
        _ => UNKNOWN,
    }
    .to_owned()
}

fn of_special(call: &SpecialCall) -> &'static str {
    match call {
        SpecialCall::Extract { .. } => "extract",
        SpecialCall::Position { .. } => "position",
        SpecialCall::Substring { .. } => "substring",
        SpecialCall::Trim { side: TrimSide::Both, .. } => "btrim",
        SpecialCall::Trim { side: TrimSide::Leading, .. } => "ltrim",
        SpecialCall::Trim { side: TrimSide::Trailing, .. } => "rtrim",
        SpecialCall::Overlay { .. } => "overlay",
    }
}

/// A cast of a value without a name has the name of the type.
fn of_cast(data_type: &tree::Type) -> String {
    match &data_type.kind {
        TypeKind::List(element) | TypeKind::Array(element, _) => of_cast(element),
        TypeKind::Named { name, .. } => {
            let is_quoted = name.parts.last().is_some_and(|part| part.quoted);
            let known = if is_quoted { None } else { Type::by_sql(last(name)).and_then(Type::by_oid) };
            known.map_or_else(|| last(name).to_owned(), |known| known.name.to_owned())
        }
        _ => UNKNOWN.to_owned(),
    }
}

/// The name of a subquery's column is the name of the value.
fn of_subquery(query: &Query) -> String {
    match &query.body {
        QueryBody::Select(select) => match select.items.as_slice() {
            [SelectItem { alias: Some(alias), .. }] => alias.text.clone(),
            [SelectItem { value, .. }] => name_of(value),
            _ => UNKNOWN.to_owned(),
        },
        _ => UNKNOWN.to_owned(),
    }
}

/// The last part of a name.
pub fn last(name: &tree::ObjectName) -> &str {
    name.parts.last().map_or("", |part| &part.text)
}

/// Gives a column without a name the one that it had before its value was changed.
pub fn keep_name(item: &mut SelectItem, before: &str) {
    if item.alias.is_none() && name_of(&item.value) != before {
        item.alias = Some(Name { text: before.to_owned(), quoted: true, span: Span::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_tell_types() {
        use arrow::datatypes::{DataType, Field};
        let of = |sql: &str, data_type: DataType| {
            let schema = Arc::new(Schema::new(vec![Field::new("a", data_type, true)]));
            let of_type = ColumnType::of_field(
                as_named(sql, schema, &Known { is_enum: &|name| name == "mood", declared: &[23, 0, 3802] }).field(0),
            );
            (of_type.oid(), of_type.modifier)
        };
        for (sql, expected) in [
            ("SELECT a FROM t", (1043, -1)),
            ("SELECT '{}'::json", (114, -1)),
            ("SELECT CAST(a AS JSONB) AS b FROM t", (3802, -1)),
            ("SELECT 'x'", (25, -1)),
            ("SELECT * FROM (SELECT 'x') AS q", (25, -1)),
            ("SELECT * FROM (SELECT * FROM (VALUES ('x')) AS v) AS q", (25, -1)),
            ("SELECT * EXCLUDE (b) FROM (SELECT 'x' AS a, 2 AS b) AS q", (1043, -1)),
            ("SELECT * FROM (SELECT 'x') AS q, t", (1043, -1)),
            ("SELECT a || 'x' FROM t", (25, -1)),
            ("SELECT a::varchar(10) FROM t", (1043, 14)),
            ("SELECT a::char(3) FROM t", (1042, 7)),
            ("SELECT a::name FROM t", (19, -1)),
            ("SELECT upper(a) FROM t", (25, -1)),
            ("SELECT a::Mood FROM t", (types::enum_oid("mood"), -1)),
            ("SELECT a::\"Mood\" FROM t", (1043, -1)),
            ("SELECT a::timetz(2)", (1266, 2)),
            ("SELECT a::inet", (869, -1)),
            ("SELECT a::pg_catalog.text", (25, -1)),
            ("SELECT substring(a FROM 2)", (25, -1)),
            ("SELECT a::bpchar(3)", (1042, 7)),
            ("SELECT a::timestamp(3)", (1043, -1)),
            ("SELECT a::bit(5)", (1560, 5)),
            ("SELECT a::bit", (1562, -1)),
            ("SELECT a::varbit", (1562, -1)),
            ("SELECT $2", (25, -1)),
            ("SELECT $3", (3802, -1)),
            ("SELECT $1", (1043, -1)),
        ] {
            assert_eq!(of(sql, DataType::Utf8View), expected, "{sql}");
        }
        assert_eq!(of("SELECT 1::oid", DataType::Int64), (26, -1));
        for (sql, expected) in [
            ("SELECT 1", 23),
            ("SELECT -1 + $1 * 2::int", 23),
            ("VALUES (1), (2)", 23),
            ("SELECT 3000000000", 20),
            ("SELECT 1 + a FROM t", 20),
            ("SELECT 1 + $2", 20),
            ("SELECT 1::bigint", 20),
        ] {
            assert_eq!(of(sql, DataType::Int64), (expected, -1), "{sql}");
        }
        assert_eq!(of("SELECT 7 - 5", DataType::Decimal128(5, 2)).0, 1700, "what the engine computes has a say");
        let list = DataType::new_list(DataType::Utf8View, true);
        assert_eq!(of("SELECT ARRAY[NULL, a::inet]", list), (1041, -1));
        assert_eq!(of("SELECT a::json", DataType::Int64), (20, -1));
    }

    #[test]
    fn columns_are_called_as_in_postgresql() {
        for (sql, expected) in [
            ("SELECT 1, a, t.a, a AS b, a + 1 FROM t", "?column? - - - ?column?"),
            ("SELECT COUNT(*), sum(a)::INT, CAST(\"A\" AS INT) FROM t", "count sum A"),
            (
                "SELECT CASE WHEN a THEN 1 END, (SELECT max(a) FROM t), EXTRACT(year FROM a), ((a)) FROM t",
                "case max extract -",
            ),
            (
                "SELECT 1::INT, '1'::text, (1 + 1)::varchar(3), '{}'::int[], date '2024-01-01'",
                "int4 text varchar int4 date",
            ),
            (
                "SELECT CAST('1' AS timestamp with time zone), 'x'::regclass, interval '1 day'",
                "timestamptz regclass interval",
            ),
            ("WITH x AS (SELECT 1) (SELECT 1 FROM x) UNION SELECT 2 AS b", "?column?"),
            ("SELECT trim(a), trim(LEADING FROM a), a COLLATE \"C\", a[1], (f(a)).n FROM t", "btrim ltrim a a n"),
            (
                "SELECT current_date, user, a AT TIME ZONE 'UTC', ARRAY(SELECT 1), (1, 2)",
                "current_date user timezone array row",
            ),
            (
                "SELECT 1::bigint, 'x'::\"char\", '1'::double precision, 1::mood FROM t FOR UPDATE",
                "int8 char float8 mood",
            ),
        ] {
            let found: Vec<String> = told(sql, &Known { is_enum: &|_| false, declared: &[] })
                .expect(sql)
                .into_iter()
                .map(|told| told.name.unwrap_or("-".to_owned()))
                .collect();
            assert_eq!(found.join(" "), expected, "{sql}");
        }
        for sql in ["SELECT *, 1 FROM t", "SELECT COLUMNS(*) FROM t", "INSERT INTO t VALUES (1)", "nothing that reads"]
        {
            assert!(told(sql, &Known { is_enum: &|_| false, declared: &[] }).is_none(), "{sql}");
        }
    }
}
