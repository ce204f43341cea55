//! What only the text of a query tells of the columns of its result: PostgreSQL's names for those without one, the types that
//! casts and declared columns have (`a::json`, TEXT), and the tables that columns come from.

mod scope;

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use freestone::NamedRelation;
use freestone_sql::tree::{
    Argument, BinaryOperator, Call, Expr, ExprKind, Link, Literal, ObjectName, Parameter, Query, QueryBody, Select,
    SelectItem, SpecialCall, Star, StatementKind, TypeKind, UnaryOperator, Write,
};

pub use self::scope::Scope;

use self::scope::Column;
use super::names::{last, name_of};
use super::origins::Origin;
use super::types::{self, ColumnType, Type};

/// What the text of a query tells about a column of its result.
pub struct Told {
    /// The name of a column that has none.
    pub name: Option<String>,
    /// The name that it has here; `None` if that is the engine's for an expression.
    pub own_name: Option<String>,
    pub of_type: Option<ColumnType>,
    pub origin: Option<Origin>,
    /// Whether it is computed: a number has no precision then.
    pub is_computed: bool,
}

/// What is known of the names and parameters of a query.
pub struct Known<'a> {
    /// Whether a name is that of a type of labels.
    pub is_enum: &'a dyn Fn(&str) -> bool,
    /// The table or view of a name.
    pub relation: &'a dyn Fn(&ObjectName) -> Option<NamedRelation>,
    /// The OIDs of the types of its parameters; 0 for those that the client does not declare.
    pub declared: &'a [u32],
}

/// The columns of a result with the names, types and tables that PostgreSQL gives them. Columns with a name keep it.
pub fn as_named(sql: &str, schema: SchemaRef, known: &Known) -> SchemaRef {
    let Some(told) = told(sql, known).filter(|told| told.len() == schema.fields().len()) else { return schema };
    let fields = schema.fields().iter().zip(told).map(|(field, told)| noted(field, told));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

fn noted(field: &Arc<Field>, told: Told) -> Arc<Field> {
    let Told { name, own_name, of_type, origin, is_computed } = told;
    let of_number = || {
        let of = ColumnType::of(field.data_type());
        (is_computed && of.element == types::NUMERIC && !of.is_array).then_some(ColumnType { modifier: -1, ..of })
    };
    let of_type = of_type.filter(|of| of.is_form_of(ColumnType::of(field.data_type()))).or_else(of_number);
    // A column that is called otherwise is not the one that was found.
    let is_other = own_name.is_some_and(|own| own != *field.name());
    if name.is_none() && (is_other || of_type.is_none() && origin.is_none()) {
        return field.clone();
    }
    let mut field = field.as_ref().clone();
    if let Some(name) = name {
        field = field.with_name(name);
    }
    field = of_type.map_or(field.clone(), |of_type| of_type.note(field));
    Arc::new(origin.map_or(field.clone(), |origin| origin.note(field)))
}

/// What is told about each column of a query; `None` if the number of columns is not known from the text.
fn told(sql: &str, known: &Known) -> Option<Vec<Told>> {
    let scope = Scope::new(known);
    match freestone_sql::parse_statement(sql).ok()?.kind {
        StatementKind::Query(query) => of_query(&query, &scope),
        StatementKind::LockRows(lock) => of_query(&lock.query, &scope),
        StatementKind::Write(write) => of_write(&write, &scope),
        _ => None,
    }
}

/// What RETURNING tells.
fn of_write(write: &Write, scope: &Scope) -> Option<Vec<Told>> {
    let alias = |name: &Option<freestone_sql::tree::Name>| name.as_ref().map(|name| name.text.clone());
    let (scope, items) = match write {
        Write::Insert(of) => {
            (scope.within(of.with.as_ref()).of_target(&of.table, alias(&of.alias).as_deref()), &of.returning)
        }
        Write::Update(of) => {
            let scope = scope.within(of.with.as_ref()).of_target(&of.table, alias(&of.alias).as_deref());
            (scope.from(&of.from), &of.returning)
        }
        Write::Delete(of) => {
            let scope = scope.within(of.with.as_ref()).of_target(&of.table, alias(&of.alias).as_deref());
            (scope.from(&of.using), &of.returning)
        }
        Write::Merge(_) => return None,
    };
    of_items(items, &scope)
}

/// What is told about each column of a query in a scope.
pub fn of_query(query: &Query, scope: &Scope) -> Option<Vec<Told>> {
    of_body(&query.body, &scope.within(query.with.as_ref()))
}

fn of_body(body: &QueryBody, scope: &Scope) -> Option<Vec<Told>> {
    match body {
        QueryBody::Select(select) => of_select(select, scope),
        QueryBody::Chain { first, rest } => {
            let others: Option<Vec<Vec<Told>>> =
                rest.iter().map(|link| of_body(&link.operand, scope).filter(|_| !link.by_name)).collect();
            // The others have a say in the types; of several types of strings the first counts.
            let of_type = |at: usize, own: ColumnType| {
                let types = others.iter().flatten().map(|told| told.get(at)?.of_type);
                let types: Vec<ColumnType> = others.is_some().then_some(types)?.collect::<Option<_>>()?;
                match types.iter().all(|other| *other == own) {
                    true => Some(own),
                    false => (is_string(own) && types.into_iter().all(is_string))
                        .then_some(ColumnType { modifier: -1, ..own }),
                }
            };
            let told = of_body(first, scope)?.into_iter().enumerate();
            let combined = |(at, told): (usize, Told)| Told {
                of_type: told.of_type.and_then(|own| of_type(at, own)),
                origin: None,
                ..told
            };
            Some(told.map(combined).collect())
        }
        QueryBody::Nested(query) => of_query(query, scope),
        QueryBody::Table(name) => {
            let table = scope.clone().of_target(name, None);
            Some(table.star(None)?.into_iter().map(of_column).collect())
        }
        QueryBody::Values(rows) => {
            // A larger number in another row has a say.
            let are_integers =
                |at: usize| rows.iter().all(|row| row.get(at).is_some_and(|value| is_integer(value, scope)));
            let of_value = |(at, value): (usize, &Expr)| {
                let of_type = type_of(value, scope).filter(|of| of.element != types::INT4 || are_integers(at));
                Told { name: None, own_name: None, of_type, origin: None, is_computed: true }
            };
            Some(rows.first()?.iter().enumerate().map(of_value).collect())
        }
        _ => None,
    }
}

fn of_select(select: &Select, scope: &Scope) -> Option<Vec<Told>> {
    of_items(&select.items, &scope.clone().from(&select.from))
}

fn of_items(items: &[SelectItem], scope: &Scope) -> Option<Vec<Told>> {
    let told: Option<Vec<Vec<Told>>> = items.iter().map(|item| of_item(item, scope)).collect();
    Some(told?.into_iter().flatten().collect())
}

/// `None` for columns whose number is not known.
fn of_item(item: &SelectItem, scope: &Scope) -> Option<Vec<Told>> {
    match &item.value.kind {
        ExprKind::Star(star) => return of_star(star, scope),
        ExprKind::Columns(_) => return None,
        _ => {}
    }
    let keeps_name = item.alias.is_some() || matches!(item.value.kind, ExprKind::Column(_));
    let name = || name_of(&item.value);
    let origin = match &item.value.kind {
        ExprKind::Column(name) => scope.column(name).and_then(|column| column.origin),
        _ => None,
    };
    Some(vec![Told {
        name: (!keeps_name).then(name),
        own_name: match (&item.alias, &item.value.kind) {
            (Some(alias), _) => Some(alias.text.clone()),
            (None, ExprKind::Column(name)) => Some(last(name).to_owned()),
            _ => None,
        },
        of_type: type_of(&item.value, scope),
        origin,
        is_computed: !matches!(item.value.kind, ExprKind::Column(_) | ExprKind::Cast { .. } | ExprKind::Subquery(_)),
    }])
}

fn of_star(star: &Star, scope: &Scope) -> Option<Vec<Told>> {
    if star.like.is_some() || !star.exclude.is_empty() || !star.replace.is_empty() || !star.rename.is_empty() {
        return None;
    }
    Some(scope.star(star.qualifier.as_ref())?.into_iter().map(of_column).collect())
}

fn of_column(column: Column) -> Told {
    let own_name = (!column.name.is_empty()).then_some(column.name);
    Told { name: None, own_name, of_type: column.of_type, origin: column.origin, is_computed: false }
}

/// The functions whose results are of type `text`.
const TEXTS: [&str; 37] = [
    "array_to_string",
    "encode",
    "format",
    "format_type",
    "md5",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "regexp_replace",
    "split_part",
    "version",
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
    "freestone_chr",
    "freestone_escaped_bytes",
    "regexp_substr",
    "array_dims",
];

/// Functions that count rows, for which the engine has unsigned integers.
const COUNTS: [&str; 3] = ["row_number", "rank", "dense_rank"];

/// Functions that count in integers of 32 bits.
const SHORT_COUNTS: [&str; 21] = [
    "ntile",
    "array_length",
    "array_ndims",
    "array_lower",
    "array_upper",
    "array_position",
    "cardinality",
    "length",
    "char_length",
    "character_length",
    "octet_length",
    "bit_length",
    "strpos",
    "json_array_length",
    "jsonb_array_length",
    "ascii",
    "num_nulls",
    "num_nonnulls",
    "scale",
    "min_scale",
    "width_bucket",
];

/// Functions whose results are names.
const NAMES: [&str; 6] =
    ["current_schema", "current_database", "current_catalog", "current_user", "session_user", "current_role"];

/// Functions without a result.
const VOID: [&str; 7] = [
    "pg_sleep",
    "pg_notify",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_advisory_unlock_all",
];

/// Functions whose results are of the type of their first argument.
const OF_FIRST: [&str; 8] = ["lag", "lead", "first_value", "last_value", "nth_value", "any_value", "nullif", "mode"];

/// The type of an expression by its form. What is a string is `text`, unless it is a column or a cast says otherwise.
pub fn type_of(expr: &Expr, scope: &Scope) -> Option<ColumnType> {
    let text = Some(ColumnType::plain(types::TEXT));
    match &expr.kind {
        ExprKind::Column(name) => scope.column(name)?.of_type,
        ExprKind::Collate { operand, .. } => type_of(operand, scope),
        ExprKind::Subscript { operand, .. } => type_of(operand, scope).filter(|of| of.is_array).map(|of| ColumnType {
            is_array: false,
            modifier: -1,
            ..of
        }),
        ExprKind::Cast { data_type, .. } | ExprKind::TypedText { data_type, .. } => {
            ColumnType::of_sql(data_type, scope.known.is_enum)
        }
        ExprKind::Parameter(parameter) => Some(of_parameter(parameter, scope)),
        _ if is_integer(expr, scope) => Some(ColumnType::plain(types::INT4)),
        // A part of a JSON value is one, too.
        ExprKind::Chain { first, rest }
            if matches!(rest.last()?.operator, BinaryOperator::Arrow | BinaryOperator::HashArrow) =>
        {
            type_of(first, scope).filter(|of| [types::JSON, types::JSONB].contains(&of.element))
        }
        ExprKind::Literal(_) | ExprKind::Chain { .. } => text,
        ExprKind::Subquery(query) => of_query(query, scope)?.into_iter().next()?.of_type,
        ExprKind::Case(case) => {
            let values = case.otherwise.iter().chain(case.branches.iter().map(|(_, value)| value));
            let of = common(values, scope)?;
            // Without ELSE the other value is NULL.
            Some(if case.otherwise.is_some() { of } else { ColumnType { modifier: -1, ..of } })
        }
        ExprKind::List(values) => {
            let is_null = |value: &&Expr| matches!(value.kind, ExprKind::Literal(Literal::Null));
            let element = values.iter().filter(|value| !is_null(value)).find_map(|value| type_of(value, scope))?;
            Some(ColumnType { is_array: true, ..element })
        }
        ExprKind::Special(call) => match call.as_ref() {
            SpecialCall::Trim { .. } | SpecialCall::Substring { .. } | SpecialCall::Overlay { .. } => text,
            SpecialCall::Extract { .. } | SpecialCall::Position { .. } => None,
        },
        ExprKind::Call(call) => of_call(call, scope),
        _ => None,
    }
}

fn of_call(call: &Call, scope: &Scope) -> Option<ColumnType> {
    let arguments = || call.arguments.iter().map(|Argument { value, .. }| value);
    let first = || type_of(&call.arguments.first()?.value, scope);
    match last(&call.name) {
        "coalesce" | "ifnull" | "greatest" | "least" => common(arguments(), scope),
        "min" | "max" => first().map(|of| match of.element {
            types::VARCHAR | types::NAME if !of.is_array => ColumnType::plain(types::TEXT),
            _ => ColumnType { modifier: -1, ..of },
        }),
        "array_agg" => first().filter(|of| !of.is_array).map(|of| ColumnType { is_array: true, modifier: -1, ..of }),
        name if COUNTS.contains(&name) => Some(ColumnType::plain(types::INT8)),
        name if SHORT_COUNTS.contains(&name) => Some(ColumnType::plain(types::INT4)),
        name if NAMES.contains(&name) => Some(ColumnType::plain(types::NAME)),
        name if VOID.contains(&name) => Some(ColumnType::plain(types::VOID)),
        name if OF_FIRST.contains(&name) => first().map(|of| ColumnType { modifier: -1, ..of }),
        name => Some(ColumnType::plain(types::TEXT)).filter(|_| TEXTS.contains(&name)),
    }
}

/// The type that values have in common. Texts in quotes and NULL take the type of the others; of several types of strings
/// the first counts.
fn common<'e>(values: impl Iterator<Item = &'e Expr>, scope: &Scope) -> Option<ColumnType> {
    let (open, typed): (Vec<&Expr>, Vec<&Expr>) = values.partition(|value| is_unknown(value, scope));
    let all = typed.into_iter().map(|value| type_of(value, scope)).collect::<Option<Vec<_>>>()?;
    let Some(first) = all.first().copied() else { return Some(ColumnType::plain(types::TEXT)) };
    if open.is_empty() && all.iter().all(|other| *other == first) {
        return Some(first);
    }
    let is_alike = |other: &ColumnType| {
        (other.element, other.is_array) == (first.element, first.is_array) || is_string(*other) && is_string(first)
    };
    all.iter().all(is_alike).then_some(ColumnType { modifier: -1, ..first })
}

fn is_string(of: ColumnType) -> bool {
    !of.is_array && [types::TEXT, types::VARCHAR, types::BPCHAR, types::NAME].contains(&of.element)
}

/// Whether a value takes its type from where it stands.
fn is_unknown(value: &Expr, scope: &Scope) -> bool {
    match &value.kind {
        ExprKind::Literal(Literal::Text(_) | Literal::Null) => true,
        ExprKind::Parameter(parameter) => declared(parameter, scope).is_none(),
        _ => false,
    }
}

/// Whether an expression of literals, parameters, columns and casts is of type `integer`. The engine computes it with more bits.
fn is_integer(expr: &Expr, scope: &Scope) -> bool {
    width_of(expr, scope) == Some(types::INT4.width)
}

/// The bytes of an integer that PostgreSQL computes.
fn width_of(expr: &Expr, scope: &Scope) -> Option<i16> {
    let of_type = |of: ColumnType| {
        let is_one = [types::INT2, types::INT4, types::INT8].contains(&of.element) && !of.is_array;
        is_one.then_some(of.element.width)
    };
    match &expr.kind {
        ExprKind::Literal(Literal::Number(digits)) => match digits.parse::<i64>() {
            Ok(number) if i32::try_from(number).is_ok() => Some(types::INT4.width),
            Ok(_) => Some(types::INT8.width),
            Err(_) => None,
        },
        ExprKind::Parameter(parameter) => of_type(of_parameter(parameter, scope)),
        ExprKind::Column(name) => of_type(scope.column(name)?.of_type?),
        ExprKind::Unary { operator: UnaryOperator::Minus | UnaryOperator::Plus, operand } => width_of(operand, scope),
        ExprKind::Cast { data_type, .. } => match &data_type.kind {
            TypeKind::Named { name, .. } => of_type(ColumnType::of_oid(Type::by_sql(last(name))?)?),
            _ => None,
        },
        ExprKind::Chain { first, rest } => {
            let days = |expr: &Expr| matches!(type_of(expr, scope), Some(of) if of == ColumnType::plain(types::DATE));
            if let [Link { operator: BinaryOperator::Minus, operand, .. }] = rest.as_slice()
                && days(first)
                && days(operand)
            {
                return Some(types::INT4.width);
            }
            rest.iter().try_fold(width_of(first, scope)?, |width, link| match link.operator {
                BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply => {
                    Some(width.max(width_of(&link.operand, scope)?))
                }
                _ => None,
            })
        }
        _ => None,
    }
}

/// The type of a parameter: the declared one; otherwise it is a text.
fn of_parameter(parameter: &Parameter, scope: &Scope) -> ColumnType {
    declared(parameter, scope).unwrap_or(ColumnType::plain(types::TEXT))
}

/// The type that the client declares for a parameter.
fn declared(parameter: &Parameter, scope: &Scope) -> Option<ColumnType> {
    let Parameter::Number(number) = parameter else { return None };
    let oid = scope.known.declared.get((*number as usize).checked_sub(1)?)?;
    ColumnType::of_oid(*oid)
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
                as_named(
                    sql,
                    schema,
                    &Known { is_enum: &|name| name == "mood", relation: &|_| None, declared: &[23, 0, 3802] },
                )
                .field(0),
            );
            (of_type.oid(), of_type.modifier)
        };
        for (sql, expected) in [
            ("SELECT a FROM t", (1043, -1)),
            ("SELECT '{}'::json", (114, -1)),
            ("SELECT CAST(a AS JSONB) AS a FROM t", (3802, -1)),
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
            let found: Vec<String> = told(sql, &Known { is_enum: &|_| false, relation: &|_| None, declared: &[] })
                .expect(sql)
                .into_iter()
                .map(|told| told.name.unwrap_or("-".to_owned()))
                .collect();
            assert_eq!(found.join(" "), expected, "{sql}");
        }
        for sql in ["SELECT *, 1 FROM t", "SELECT COLUMNS(*) FROM t", "nothing that reads"] {
            assert!(told(sql, &Known { is_enum: &|_| false, relation: &|_| None, declared: &[] }).is_none(), "{sql}");
        }
    }
}
