//! The database's tables, views, columns and keys in the hierarchy of ADBC.

use std::sync::Arc;

use adbc_core::error::Result;
use adbc_core::options::ObjectDepth;
use adbc_core::schemas::{GET_OBJECTS_SCHEMA, GET_TABLE_TYPES_SCHEMA};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use arrow::json::ReaderBuilder;
use freestone::quote;
use serde_json::{Value, json};

use crate::error::{engine, internal};
use crate::link::Link;
use crate::{CATALOG, SCHEMA};

const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";

/// The parameters of GetObjects. Names may be patterns.
pub struct ObjectFilter {
    pub depth: ObjectDepth,
    pub catalog: Option<String>,
    pub schema: Option<String>,
    pub table: Option<String>,
    pub types: Option<Vec<String>>,
    pub column: Option<String>,
}

/// The types of tables.
pub fn table_types() -> Result<RecordBatch> {
    let types: ArrayRef = Arc::new(StringArray::from(vec![TABLE, VIEW]));
    RecordBatch::try_new(GET_TABLE_TYPES_SCHEMA.clone(), vec![types]).map_err(engine)
}

/// The columns of a table or view.
///
/// # Errors
///
/// It does not exist, or the query of the view fails.
pub async fn table_schema(link: &Arc<Link>, table: &str) -> Result<SchemaRef> {
    let query = link.parse(&format!("SELECT * FROM {SCHEMA}.{}", quote(table)))?;
    let prepared = link.prepare(query).await?;
    let columns = prepared.description.as_ref().and_then(|description| description.columns.clone());
    columns.ok_or_else(|| internal("a table without columns"))
}

/// The hierarchy of matching objects, down to the requested depth.
///
/// # Errors
///
/// A query of the catalog fails.
pub async fn batch(link: Arc<Link>, wanted: ObjectFilter) -> Result<RecordBatch> {
    let mut catalogs = vec![];
    if matches(wanted.catalog.as_deref(), CATALOG) {
        let schemas = match wanted.depth {
            ObjectDepth::Catalogs => Value::Null,
            _ => schemas(&link, &wanted).await?,
        };
        catalogs.push(json!({"catalog_name": CATALOG, "catalog_db_schemas": schemas}));
    }
    let mut decoder = ReaderBuilder::new(GET_OBJECTS_SCHEMA.clone()).build_decoder().map_err(engine)?;
    decoder.serialize(&catalogs).map_err(engine)?;
    let batch = decoder.flush().map_err(engine)?;
    Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(GET_OBJECTS_SCHEMA.clone())))
}

async fn schemas(link: &Arc<Link>, wanted: &ObjectFilter) -> Result<Value> {
    if !matches(wanted.schema.as_deref(), SCHEMA) {
        return Ok(json!([]));
    }
    let tables = match wanted.depth {
        ObjectDepth::Schemas => Value::Null,
        _ => tables(link, wanted).await?,
    };
    Ok(json!([{"db_schema_name": SCHEMA, "db_schema_tables": tables}]))
}

async fn tables(link: &Arc<Link>, wanted: &ObjectFilter) -> Result<Value> {
    let deep = matches!(wanted.depth, ObjectDepth::All | ObjectDepth::Columns);
    let keys = if deep { keys(link).await? } else { vec![] };
    let mut tables = vec![];
    for (kind, source) in [(TABLE, "freestone_tables()"), (VIEW, "freestone_views()")] {
        if wanted.types.as_ref().is_some_and(|types| !types.iter().any(|wanted| wanted == kind)) {
            continue;
        }
        let names = link.records(&format!("SELECT name FROM {source} ORDER BY name")).await?;
        let names = names.into_iter().flatten().flatten();
        for name in names.filter(|name| matches(wanted.table.as_deref(), name)) {
            let (mut columns, mut constraints) = (Value::Null, Value::Null);
            if deep {
                columns = self::columns(link, &name, kind, wanted).await?;
                constraints = keys.iter().filter(|key| key.table == name).map(|key| key.to_json()).collect();
            }
            tables.push(json!({
                "table_name": name, "table_type": kind, "table_columns": columns, "table_constraints": constraints,
            }));
        }
    }
    Ok(Value::Array(tables))
}

/// The columns of a table or view. A view whose query fails has none.
async fn columns(link: &Arc<Link>, table: &str, kind: &str, wanted: &ObjectFilter) -> Result<Value> {
    let schema = match table_schema(link, table).await {
        Ok(schema) => schema,
        Err(_) if kind == VIEW => return Ok(json!([])),
        Err(error) => return Err(error),
    };
    let fields = schema.fields().iter().enumerate();
    let fields = fields.filter(|(_, field)| matches(wanted.column.as_deref(), field.name()));
    Ok(fields.map(|(at, field)| column(at, field)).collect())
}

fn column(at: usize, field: &Field) -> Value {
    let xdbc = xdbc_type(field.data_type());
    let is_nullable = if field.is_nullable() { "YES" } else { "NO" };
    json!({
        "column_name": field.name(),
        "ordinal_position": at + 1,
        "xdbc_data_type": xdbc.code,
        "xdbc_type_name": xdbc.name,
        "xdbc_column_size": xdbc.size,
        "xdbc_decimal_digits": xdbc.digits,
        "xdbc_num_prec_radix": xdbc.radix,
        "xdbc_nullable": i32::from(field.is_nullable()),
        "xdbc_sql_data_type": xdbc.code,
        "xdbc_is_nullable": is_nullable,
        "xdbc_is_autoincrement": false,
        "xdbc_is_generatedcolumn": false,
    })
}

/// A type in the terms of ODBC and JDBC.
struct Xdbc {
    code: i16,
    name: &'static str,
    size: Option<i32>,
    digits: Option<i16>,
    radix: Option<i16>,
}

fn xdbc_type(data_type: &DataType) -> Xdbc {
    let plain = |code, name, size| Xdbc { code, name, size, digits: None, radix: None };
    let number = |code, name, size, radix| Xdbc { code, name, size: Some(size), digits: None, radix: Some(radix) };
    let time = |code, name, unit: &TimeUnit| {
        let digits = match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        };
        Xdbc { code, name, size: None, digits: Some(digits), radix: None }
    };
    match data_type {
        DataType::Boolean => plain(-7, "BOOLEAN", Some(1)),
        DataType::Int8 => number(-6, "TINYINT", 3, 10),
        DataType::Int16 => number(5, "SMALLINT", 5, 10),
        DataType::Int32 => number(4, "INTEGER", 10, 10),
        DataType::Int64 => number(-5, "BIGINT", 19, 10),
        DataType::UInt8 => number(-6, "UTINYINT", 3, 10),
        DataType::UInt16 => number(5, "USMALLINT", 5, 10),
        DataType::UInt32 => number(4, "UINTEGER", 10, 10),
        DataType::UInt64 => number(-5, "UBIGINT", 20, 10),
        DataType::Float32 => number(7, "FLOAT", 24, 2),
        DataType::Float64 => number(8, "DOUBLE", 53, 2),
        DataType::Decimal128(precision, scale) => Xdbc {
            code: 3,
            name: "DECIMAL",
            size: Some(i32::from(*precision)),
            digits: Some(i16::from(*scale)),
            radix: Some(10),
        },
        DataType::Date32 => plain(91, "DATE", Some(10)),
        DataType::Time32(unit) | DataType::Time64(unit) => time(92, "TIME", unit),
        DataType::Timestamp(unit, None) => time(93, "TIMESTAMP", unit),
        DataType::Timestamp(unit, Some(_)) => time(93, "TIMESTAMP WITH TIME ZONE", unit),
        DataType::BinaryView | DataType::Binary | DataType::LargeBinary => plain(-3, "BLOB", None),
        DataType::Interval(_) | DataType::Duration(_) => plain(10, "INTERVAL", None),
        // Other types occur only in views.
        _ => plain(12, "VARCHAR", None),
    }
}

/// A declared key.
struct Key {
    table: String,
    kind: String,
    name: String,
    number: String,
    columns: Vec<String>,
    /// The table and columns that a foreign key refers to.
    usage: Vec<(String, String)>,
}

impl Key {
    fn to_json(&self) -> Value {
        let usage = self.usage.iter().map(|(table, column)| {
            json!({"fk_catalog": CATALOG, "fk_db_schema": SCHEMA, "fk_table": table, "fk_column_name": column})
        });
        json!({
            "constraint_name": self.name,
            "constraint_type": self.kind,
            "constraint_column_names": self.columns,
            "constraint_column_usage": if self.usage.is_empty() { Value::Null } else { usage.collect() },
        })
    }
}

async fn keys(link: &Arc<Link>) -> Result<Vec<Key>> {
    let columns = r#""table", kind, key, "column", referenced_table, referenced_column, name"#;
    let query = format!(r#"SELECT {columns} FROM freestone_keys() ORDER BY "table", key, position"#);
    let mut keys: Vec<Key> = vec![];
    for record in link.records(&query).await? {
        let [table, kind, number, column, referenced, referenced_column, name] =
            <[Option<String>; 7]>::try_from(record).map_err(|_| internal("the keys have other columns"))?;
        let (table, number) = (table.unwrap_or_default(), number.unwrap_or_default());
        if !keys.last().is_some_and(|key| key.table == table && key.number == number) {
            let (kind, name) = (kind.unwrap_or_default(), name.unwrap_or_default());
            keys.push(Key { table, kind, name, number, columns: vec![], usage: vec![] });
        }
        if let Some(key) = keys.last_mut() {
            key.columns.extend(column);
            key.usage.extend(referenced.map(|table| (table, referenced_column.unwrap_or_default())));
        }
    }
    Ok(keys)
}

/// Whether a name matches a pattern of `%` (any characters) and `_` (any character). An empty pattern matches only an
/// empty name.
pub fn matches(pattern: Option<&str>, name: &str) -> bool {
    let Some(pattern) = pattern else { return true };
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // After a `%`: where to continue if the rest does not match, one character later.
    let (mut p, mut n, mut retry) = (0, 0, None);
    while n < name.len() {
        if pattern.get(p) == Some(&'%') {
            retry = Some((p, n));
            p += 1;
        } else if pattern.get(p).is_some_and(|c| *c == '_' || *c == name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, from)) = retry {
            retry = Some((at, from + 1));
            (p, n) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '%')
}
