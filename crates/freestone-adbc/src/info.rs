//! Information about the driver and the database (`AdbcConnectionGetInfo`).

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::error::Result;
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray, new_empty_array,
};
use arrow::datatypes::DataType;

use crate::error::{engine, internal};
use crate::link::Link;

/// The positions of the members in the union of values.
const STRING: i8 = 0;
const BOOL: i8 = 1;
const INT64: i8 = 2;

enum Value {
    Text(String),
    Truth(bool),
    Number(i64),
}

/// The requested information, or all of it.
///
/// # Errors
///
/// An array cannot be built.
pub fn batch(link: &Link, codes: Option<HashSet<InfoCode>>) -> Result<RecordBatch> {
    let version = env!("CARGO_PKG_VERSION");
    let text = |text: &str| Value::Text(text.to_owned());
    // A server describes itself as "name version".
    let server = link.server().and_then(|server| server.rsplit_once(' ').map(|(_, version)| version.to_owned()));
    let vendor_version = Value::Text(server.unwrap_or_else(|| version.to_owned()));
    let all = [
        (InfoCode::VendorName, text("Freestone")),
        (InfoCode::VendorVersion, vendor_version),
        (InfoCode::VendorArrowVersion, text(arrow::ARROW_VERSION)),
        (InfoCode::VendorSql, Value::Truth(true)),
        (InfoCode::VendorSubstrait, Value::Truth(false)),
        (InfoCode::DriverName, text("ADBC Freestone Driver")),
        (InfoCode::DriverVersion, text(version)),
        (InfoCode::DriverArrowVersion, text(arrow::ARROW_VERSION)),
        (InfoCode::DriverAdbcVersion, Value::Number(i64::from(ADBC_VERSION_1_1_0))),
    ];
    let wanted = all.into_iter().filter(|(code, _)| codes.as_ref().is_none_or(|codes| codes.contains(code)));
    table(wanted.collect())
}

fn table(rows: Vec<(InfoCode, Value)>) -> Result<RecordBatch> {
    let (mut texts, mut truths, mut numbers) = (vec![], vec![], vec![]);
    let (mut codes, mut members, mut offsets) = (vec![], vec![], vec![]);
    for (code, value) in rows {
        codes.push(u32::from(&code));
        let (member, at) = match value {
            Value::Text(text) => (STRING, push(&mut texts, text)),
            Value::Truth(truth) => (BOOL, push(&mut truths, truth)),
            Value::Number(number) => (INT64, push(&mut numbers, number)),
        };
        members.push(member);
        offsets.push(at);
    }
    let schema = GET_INFO_SCHEMA.clone();
    let DataType::Union(fields, _) = schema.field(1).data_type() else {
        return Err(internal("the schema of GetInfo has changed"));
    };
    let children = fields.iter().map(|(id, field)| match id {
        STRING => Arc::new(StringArray::from(std::mem::take(&mut texts))) as ArrayRef,
        BOOL => Arc::new(BooleanArray::from(std::mem::take(&mut truths))),
        INT64 => Arc::new(Int64Array::from(std::mem::take(&mut numbers))),
        _ => new_empty_array(field.data_type()),
    });
    let children = children.collect();
    let values = UnionArray::try_new(fields.clone(), members.into(), Some(offsets.into()), children);
    let values = values.map_err(engine)?;
    let columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(codes)), Arc::new(values)];
    RecordBatch::try_new(schema, columns).map_err(engine)
}

/// Appends a value to a member and returns its position there.
fn push<T>(values: &mut Vec<T>, value: T) -> i32 {
    values.push(value);
    values.len() as i32 - 1
}
