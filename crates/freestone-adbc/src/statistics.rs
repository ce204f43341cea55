//! Statistics of tables, from metadata only: no rows are read.

use std::sync::Arc;

use adbc_core::error::Result;
use adbc_core::options::Statistics;
use adbc_core::schemas::{GET_STATISTIC_NAMES_SCHEMA, GET_STATISTICS_SCHEMA};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int16Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, UInt64Array, UnionArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};

use crate::error::{engine, internal};
use crate::link::{Link, literal};
use crate::objects::{matches, table_schema};
use crate::{CATALOG, SCHEMA};

/// The driver's own statistic: bytes on disk.
const STORED_BYTES: &str = "freestone.statistic.stored_bytes";
const STORED_BYTES_KEY: i16 = 1024;

/// The names of the statistics that ADBC does not define.
///
/// # Errors
///
/// An array cannot be built.
pub fn names() -> Result<RecordBatch> {
    let names: ArrayRef = Arc::new(StringArray::from(vec![STORED_BYTES]));
    let keys: ArrayRef = Arc::new(Int16Array::from(vec![STORED_BYTES_KEY]));
    RecordBatch::try_new(GET_STATISTIC_NAMES_SCHEMA.clone(), vec![names, keys]).map_err(engine)
}

enum Value {
    Int(i64),
    UInt(u64),
    Float(f64),
    Text(String),
}

/// One statistic of a table, or of one of its columns.
struct Statistic {
    table: String,
    column: Option<String>,
    key: i16,
    value: Value,
    approximate: bool,
}

pub fn none() -> Result<RecordBatch> {
    Ok(RecordBatch::new_empty(GET_STATISTICS_SCHEMA.clone()))
}

/// The statistics of matching tables: the exact ones, and with `approximate` the approximate ones, too.
///
/// # Errors
///
/// A query of the catalog fails, or an array cannot be built.
pub async fn batch(link: Arc<Link>, table: Option<String>, approximate: bool) -> Result<RecordBatch> {
    let mut all = vec![];
    for record in link.records("SELECT name, rows, bytes FROM freestone_tables() ORDER BY name").await? {
        let [Some(name), rows, bytes] = cells::<3>(record)? else { return Err(internal("a table without a name")) };
        if !matches(table.as_deref(), &name) {
            continue;
        }
        let (rows, bytes) = (integer(rows)?, integer(bytes)?);
        for (key, value) in [(i16::from(Statistics::RowCount), rows), (STORED_BYTES_KEY, bytes)] {
            all.push(Statistic {
                table: name.clone(),
                column: None,
                key,
                value: Value::Int(value),
                approximate: false,
            });
        }
        of_columns(&link, &name, rows, &mut all).await?;
    }
    all.retain(|statistic| approximate || !statistic.approximate);
    nested(all)
}

async fn of_columns(link: &Arc<Link>, table: &str, rows: i64, all: &mut Vec<Statistic>) -> Result<()> {
    let name = literal(table);
    let deleted = format!("SELECT coalesce(sum(deleted), 0) FROM freestone_segments({name})");
    let deleted = link.records(&deleted).await?;
    let deleted = integer(deleted.into_iter().flatten().next().flatten())?;
    let columns = format!(r#"SELECT "column", bytes, "distinct", nulls, min, max FROM freestone_columns({name})"#);
    let schema = table_schema(link, table).await?;
    for record in link.records(&columns).await? {
        let [Some(column), bytes, distinct, nulls, min, max] = cells::<6>(record)? else {
            return Err(internal("a column without a name"));
        };
        let data_type = schema.field_with_name(&column).map_err(engine)?.data_type();
        let is_text = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
        let mut add = |key: i16, value: Value, approximate: bool| {
            let (table, column) = (table.to_owned(), Some(column.clone()));
            all.push(Statistic { table, column, key, value, approximate });
        };
        // Zone bounds also cover rows that were deleted later.
        let stale = deleted > 0;
        let (bytes, nulls) = (integer(bytes)?, integer(nulls)?);
        add(STORED_BYTES_KEY, Value::Int(bytes), false);
        add(Statistics::NullCount.into(), if stale { Value::Float(nulls as f64) } else { Value::Int(nulls) }, stale);
        if rows > 0 {
            add(Statistics::AverageByteWidth.into(), Value::Float(bytes as f64 / rows as f64), true);
        }
        if let Some(distinct) = distinct {
            add(Statistics::DistinctCount.into(), Value::Float(integer(Some(distinct))? as f64), true);
        }
        for (key, bound) in [(Statistics::MinValue, min), (Statistics::MaxValue, max)] {
            // Bounds of strings may be truncated.
            if let Some(bound) = bound {
                add(key.into(), bound_value(data_type, bound), stale || is_text);
            }
        }
    }
    Ok(())
}

/// A bound in the union member of its type, or as text if there is none.
fn bound_value(data_type: &DataType, text: String) -> Value {
    let value = match data_type {
        DataType::UInt64 => text.parse().ok().map(Value::UInt),
        DataType::Float32 | DataType::Float64 => text.parse().ok().map(Value::Float),
        other if other.is_integer() => text.parse().ok().map(Value::Int),
        _ => None,
    };
    value.unwrap_or(Value::Text(text))
}

fn cells<const N: usize>(record: Vec<Option<String>>) -> Result<[Option<String>; N]> {
    record.try_into().map_err(|_| internal("the metadata have other columns"))
}

fn integer(text: Option<String>) -> Result<i64> {
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| internal("a number of the metadata is not one"))
}

/// The statistics in the form of ADBC: a list in a struct in a list.
fn nested(all: Vec<Statistic>) -> Result<RecordBatch> {
    let schema = GET_STATISTICS_SCHEMA.clone();
    let (schemas_item, schemas_fields) = list_of(schema.field(1).data_type())?;
    let (item, fields) = list_of(schemas_fields[1].data_type())?;
    let count = all.len();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(all.iter().map(|statistic| Some(statistic.table.as_str())).collect::<StringArray>()),
        Arc::new(all.iter().map(|statistic| statistic.column.as_deref()).collect::<StringArray>()),
        Arc::new(all.iter().map(|statistic| statistic.key).collect::<Int16Array>()),
        Arc::new(values(fields[3].data_type(), &all)?),
        Arc::new(all.iter().map(|statistic| Some(statistic.approximate)).collect::<BooleanArray>()),
    ];
    let statistics: ArrayRef = Arc::new(StructArray::try_new(fields, columns, None).map_err(engine)?);
    let statistics = one_list(item, statistics, count)?;
    let name = |name: &str| Arc::new(StringArray::from(vec![name])) as ArrayRef;
    let schemas = StructArray::try_new(schemas_fields, vec![name(SCHEMA), statistics], None).map_err(engine)?;
    let schemas = one_list(schemas_item, Arc::new(schemas), 1)?;
    RecordBatch::try_new(schema, vec![name(CATALOG), schemas]).map_err(engine)
}

fn values(data_type: &DataType, all: &[Statistic]) -> Result<UnionArray> {
    let DataType::Union(fields, _) = data_type else { return Err(shape()) };
    let (mut ints, mut uints, mut floats, mut texts) = (vec![], vec![], vec![], vec![]);
    let (mut members, mut offsets) = (vec![], vec![]);
    for statistic in all {
        let (member, length) = match &statistic.value {
            Value::Int(value) => {
                ints.push(*value);
                (0, ints.len())
            }
            Value::UInt(value) => {
                uints.push(*value);
                (1, uints.len())
            }
            Value::Float(value) => {
                floats.push(*value);
                (2, floats.len())
            }
            Value::Text(value) => {
                texts.push(value.as_bytes());
                (3, texts.len())
            }
        };
        members.push(member);
        offsets.push(length as i32 - 1);
    }
    let children: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ints)),
        Arc::new(UInt64Array::from(uints)),
        Arc::new(Float64Array::from(floats)),
        Arc::new(BinaryArray::from(texts)),
    ];
    UnionArray::try_new(fields.clone(), members.into(), Some(offsets.into()), children).map_err(engine)
}

/// The item field of a list of structs, and the fields of the structs.
fn list_of(data_type: &DataType) -> Result<(Arc<Field>, Fields)> {
    let DataType::List(item) = data_type else { return Err(shape()) };
    let DataType::Struct(fields) = item.data_type() else { return Err(shape()) };
    Ok((item.clone(), fields.clone()))
}

/// A list array with one list of all items.
fn one_list(item: Arc<Field>, items: ArrayRef, count: usize) -> Result<ArrayRef> {
    let list = ListArray::try_new(item, OffsetBuffer::from_lengths([count]), items, None);
    Ok(Arc::new(list.map_err(engine)?))
}

fn shape() -> adbc_core::error::Error {
    internal("the schema of GetStatistics has changed")
}
