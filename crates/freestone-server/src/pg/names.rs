//! PostgreSQL's names for unnamed columns: the name of the function that computes them, or `?column?`; and the types of
//! columns that only the text of the query tells, such as that of `a::json`.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, ObjectNamePart, Query, SelectItem, SetExpr, Statement, TypedString, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::series;
use super::types::{self, ColumnType, Type};

const UNKNOWN: &str = "?column?";
const UNNESTED: &str = "unnest(generate_series(";

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
    let mut statements = Parser::parse_sql(&GenericDialect {}, sql).ok()?;
    match statements.pop()? {
        Statement::Query(query) if statements.is_empty() => of_query(&query, known),
        _ => None,
    }
}

fn of_query(query: &Query, known: &Known) -> Option<Vec<Told>> {
    of_body(&query.body, known)
}

fn of_body(body: &SetExpr, known: &Known) -> Option<Vec<Told>> {
    match body {
        SetExpr::Select(select) => select.projection.iter().map(|item| of_item(item, known)).collect(),
        SetExpr::SetOperation { left, .. } => {
            // The other side has a say in the types.
            Some(of_body(left, known)?.into_iter().map(|told| Told { of_type: None, ..told }).collect())
        }
        SetExpr::Query(query) => of_query(query, known),
        _ => None,
    }
}

/// `None` for a wildcard.
fn of_item(item: &SelectItem, known: &Known) -> Option<Told> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(Told { name: of_expr(expr), of_type: type_of(expr, known) }),
        SelectItem::ExprWithAlias { expr, .. } => Some(Told { name: None, of_type: type_of(expr, known) }),
        _ => None,
    }
}

/// The type of an expression by its form. What is a string is `text`, unless it is a column or a cast says otherwise.
fn type_of(expr: &Expr, known: &Known) -> Option<ColumnType> {
    match expr {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => type_of(inner, known),
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            ColumnType::of_sql(data_type, known.is_enum)
        }
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => Some(of_parameter(name, known)),
            _ => Some(ColumnType::plain(types::TEXT)),
        },
        Expr::BinaryOp { .. } => Some(ColumnType::plain(types::TEXT)),
        Expr::Array(array) => {
            let element = array.elem.iter().find_map(|element| type_of(element, known))?;
            Some(ColumnType { is_array: true, ..element })
        }
        Expr::Trim { .. } | Expr::Substring { .. } | Expr::Overlay { .. } => Some(ColumnType::plain(types::TEXT)),
        Expr::Function(call) => {
            let name = call.name.0.last().and_then(ObjectNamePart::as_ident).map(folded)?;
            const TEXTS: [&str; 20] = [
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
            TEXTS.contains(&name.as_str()).then(|| ColumnType::plain(types::TEXT))
        }
        _ => None,
    }
}

/// The type that the client declares for a parameter; otherwise it is a text.
fn of_parameter(name: &str, known: &Known) -> ColumnType {
    let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
    let oid = number.and_then(|number| known.declared.get(number.checked_sub(1)?)).copied().unwrap_or(0);
    ColumnType::of_oid(oid).unwrap_or(ColumnType::plain(types::TEXT))
}

/// `None` for a column, which keeps its name.
pub fn of_expr(expr: &Expr) -> Option<String> {
    let name = match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => return None,
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return of_expr(inner),
        Expr::Cast { expr: inner, data_type, .. } => match inner.as_ref() {
            Expr::Identifier(name) => folded(name),
            Expr::CompoundIdentifier(names) => names.last().map(folded)?,
            inner => match of_expr(inner) {
                Some(name) if name == UNKNOWN => of_cast(data_type),
                name => return name,
            },
        },
        Expr::TypedString(typed) => of_cast(&typed.data_type),
        Expr::Interval(_) => "interval".to_owned(),
        Expr::Function(call) => {
            let name = call.name.0.last().and_then(ObjectNamePart::as_ident).map(folded)?;
            // A series whose list was unnested, so that it has a row per value.
            let is_series = name == "unnest" && call.to_string().to_lowercase().starts_with(UNNESTED);
            if is_series { series::SERIES.to_owned() } else { name }
        }
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

/// A cast of a value without a name has the name of the type.
fn of_cast(data_type: &DataType) -> String {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => of_cast(element),
        DataType::Custom(name, _) => {
            name.0.last().and_then(ObjectNamePart::as_ident).map_or_else(|| UNKNOWN.to_owned(), folded)
        }
        other => {
            let known = Type::by_sql(&other.to_string()).and_then(Type::by_oid);
            known.map_or_else(|| UNKNOWN.to_owned(), |known| known.name.to_owned())
        }
    }
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
            ("SELECT a || 'x' FROM t", (25, -1)),
            ("SELECT a::varchar(10) FROM t", (1043, 14)),
            ("SELECT a::char(3) FROM t", (1042, 7)),
            ("SELECT a::name FROM t", (19, -1)),
            ("SELECT upper(a) FROM t", (25, -1)),
            ("SELECT a::Mood FROM t", (types::enum_oid("mood"), -1)),
            ("SELECT a::\"Mood\" FROM t", (1043, -1)),
            ("SELECT a::timetz(2)", (1266, 2)),
            ("SELECT a::inet", (869, -1)),
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
        ] {
            let found: Vec<String> = told(sql, &Known { is_enum: &|_| false, declared: &[] })
                .expect(sql)
                .into_iter()
                .map(|told| told.name.unwrap_or("-".to_owned()))
                .collect();
            assert_eq!(found.join(" "), expected, "{sql}");
        }
        for sql in ["SELECT *, 1 FROM t", "INSERT INTO t VALUES (1)", "VALUES (1)", "nothing that reads"] {
            assert!(told(sql, &Known { is_enum: &|_| false, declared: &[] }).is_none(), "{sql}");
        }
    }
}
