//! The rows of `pg_type`.

use super::cell::{Cell, Rows, row};
use super::data::*;
use crate::pg::types::{TYPES, Type};

/// Types and their arrays.
pub fn all_types(data: &Data) -> Rows {
    let mut rows = vec![];
    for kind in TYPES {
        let category = kind.category.to_string();
        rows.push(one_type(data, kind.oid, kind.name, kind.width, &category, [0, kind.array], functions_of(kind)));
        if kind.array != 0 {
            let name = format!("_{}", kind.name);
            rows.push(one_type(data, kind.array, &name, -1, "A", [kind.oid, 0], "array_".to_owned()));
        }
    }
    rows
}

/// The prefix of the names of a type's functions, by which clients recognize types.
fn functions_of(kind: &Type) -> String {
    const APART: [&str; 9] =
        ["json", "date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid", "array"];
    if APART.contains(&kind.name) { format!("{}_", kind.name) } else { kind.name.to_owned() }
}

/// One row. `related` are the OIDs of its element type and of its array type.
fn one_type(
    data: &Data,
    oid: u32,
    name: &str,
    width: i16,
    category: &str,
    related: [u32; 2],
    functions: String,
) -> Vec<Cell> {
    let [element, array] = related.map(i64::from);
    row![
        i64::from(oid),
        name,
        OID_PG_CATALOG,
        data.owner(),
        i64::from(width),
        width > 0 && width <= 8,
        "b",
        category,
        false,
        true,
        ",",
        0,
        "-",
        element,
        array,
        format!("{functions}in"),
        format!("{functions}out"),
        format!("{functions}recv"),
        format!("{functions}send"),
        "-",
        "-",
        "-",
        "i",
        "p",
        false,
        0,
        -1,
        0,
        0,
        Cell::Null,
        Cell::Null,
        Cell::Null,
    ]
}
