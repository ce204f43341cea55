//! The rows of `pg_type`.

use super::cell::{Cell, Rows, row};
use super::data::*;
use super::procedures;
use crate::pg::types::{self, TYPES, Type};

/// Types and their arrays.
pub fn all_types(data: &Data) -> Rows {
    let mut rows = vec![];
    for kind in TYPES {
        let category = kind.category.to_string();
        let element = match *kind {
            types::INT2VECTOR => types::INT2.oid,
            types::OIDVECTOR => types::OID.oid,
            _ => 0,
        };
        let related = [element, kind.array];
        let mut row = one_type(data, kind.oid, kind.name, kind.width, &category, related, functions_of(kind));
        if [types::UNKNOWN, types::VOID].contains(kind) {
            row[KIND] = Cell::from("p");
        }
        rows.push(row);
        if kind.array != 0 {
            let name = format!("_{}", kind.name);
            rows.push(one_type(data, kind.array, &name, -1, "A", [kind.oid, 0], "array_".to_owned()));
        }
    }
    for (name, _) in &data.enums {
        let oid = types::enum_oid(name);
        let mut row = one_type(data, oid, name, 4, "E", [0, oid + 1], "enum_".to_owned());
        (row[NAMESPACE], row[KIND]) = (Cell::Int(OID_PUBLIC), Cell::from("e"));
        rows.push(row);
        let mut array = one_type(data, oid + 1, &format!("_{name}"), -1, "A", [oid, 0], "array_".to_owned());
        array[NAMESPACE] = Cell::Int(OID_PUBLIC);
        rows.push(array);
    }
    rows
}

/// The places of `typnamespace` and `typtype` in a row of [`one_type`].
const NAMESPACE: usize = 2;
const KIND: usize = 6;

/// The labels of types.
pub fn labels(data: &Data) -> Rows {
    let mut rows = vec![];
    for (name, labels) in &data.enums {
        let of = i64::from(types::enum_oid(name));
        for (at, label) in (1u32..).zip(labels) {
            rows.push(row![OID_LABEL_FIRST + rows.len() as i64, of, Cell::Float(f64::from(at)), label.as_str()]);
        }
    }
    rows
}

/// The first OID of labels, above those of types.
const OID_LABEL_FIRST: i64 = 1_900_000_000;

/// The prefix of the names of a type's functions, by which clients recognize types.
fn functions_of(kind: &Type) -> String {
    const APART: [&str; 15] = [
        "json",
        "jsonb",
        "date",
        "time",
        "timetz",
        "timestamp",
        "timestamptz",
        "interval",
        "numeric",
        "uuid",
        "inet",
        "cidr",
        "bit",
        "varbit",
        "void",
    ];
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
        procedures::oid(&format!("{functions}in")),
        procedures::oid(&format!("{functions}out")),
        procedures::oid(&format!("{functions}recv")),
        procedures::oid(&format!("{functions}send")),
        0,
        0,
        0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_functions() {
        for kind in TYPES {
            for end in ["in", "out", "recv", "send"] {
                assert_ne!(procedures::oid(&format!("{}{end}", functions_of(kind))), 0, "{} {end}", kind.name);
            }
        }
        assert_eq!((procedures::oid("array_recv"), procedures::name(2400)), (2400, Some("array_recv")));
    }
}
