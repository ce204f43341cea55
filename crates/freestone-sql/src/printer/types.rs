//! Types as SQL. The names of types that every database has are in upper case.

use std::fmt::{Display, Formatter, Result};

use super::commas;
use crate::tree::{Type, TypeField, TypeKind};

/// The names of types that every database has.
const KNOWN: [&str; 82] = [
    "bigint",
    "bigserial",
    "binary",
    "bit",
    "blob",
    "bool",
    "boolean",
    "bpchar",
    "bytea",
    "bytes",
    "char",
    "character",
    "date",
    "date32",
    "date64",
    "datetime",
    "dec",
    "decimal",
    "double",
    "float",
    "float32",
    "float4",
    "float64",
    "float8",
    "hugeint",
    "int",
    "int1",
    "int128",
    "int16",
    "int2",
    "int32",
    "int4",
    "int64",
    "int8",
    "integer",
    "interval",
    "json",
    "jsonb",
    "list",
    "logical",
    "long",
    "name",
    "nchar",
    "null",
    "numeric",
    "nvarchar",
    "oid",
    "real",
    "serial",
    "serial2",
    "serial4",
    "serial8",
    "short",
    "signed",
    "smallint",
    "smallserial",
    "string",
    "text",
    "time",
    "timestamp",
    "timestamp_ms",
    "timestamp_ns",
    "timestamp_s",
    "timestamp_us",
    "timestamptz",
    "timetz",
    "tinyint",
    "ubigint",
    "uhugeint",
    "uint",
    "uint128",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "uinteger",
    "usmallint",
    "utinyint",
    "uuid",
    "varbinary",
    "varbit",
    "varchar",
];

fn is_known(name: &str) -> bool {
    KNOWN.binary_search(&name).is_ok()
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match &self.kind {
            TypeKind::Named { name, modifiers } => {
                for (at, part) in name.parts.iter().enumerate() {
                    let point = if at > 0 { "." } else { "" };
                    match part.quoted {
                        true => write!(f, "{point}{part}")?,
                        false if name.parts.len() == 1 && !is_known(&part.text) => write!(f, "{part}")?,
                        false => write!(f, "{point}{}", part.text.to_ascii_uppercase())?,
                    }
                }
                match modifiers.as_slice() {
                    [] => Ok(()),
                    modifiers => write!(f, "({})", modifiers.join(",")),
                }
            }
            TypeKind::List(item) => write!(f, "{item}[]"),
            TypeKind::Array(item, size) => write!(f, "{item}[{size}]"),
            TypeKind::Struct(fields) => write!(f, "STRUCT({})", commas(fields)),
            TypeKind::Map(key, value) => write!(f, "MAP({key}, {value})"),
            TypeKind::Enum(labels) => write!(f, "ENUM({})", commas(labels)),
        }
    }
}

impl Display for TypeField {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{} {}", self.name, self.data_type)
    }
}
