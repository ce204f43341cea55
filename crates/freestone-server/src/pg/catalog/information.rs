//! Columns, keys and rights in `information_schema`, in addition to those of the engine. These tables replace the
//! engine's when a client queries them; see [`super::rewrite`].

use freestone::SequenceRelation;

use super::cell::{Cell, Rows, TableOf, row};
use super::data::*;
use crate::pg::types::{self, ColumnType};
use crate::users::Role;

pub const TABLES: &[TableOf] = &[
    TableOf {
        name: "freestone_tables",
        columns: "table_catalog t, table_schema t, table_name t, table_type t, self_referencing_column_name t, \
                  reference_generation t, user_defined_type_catalog t, user_defined_type_schema t, \
                  user_defined_type_name t, is_insertable_into t, is_typed t, commit_action t",
        rows: tables,
    },
    TableOf {
        name: "freestone_views",
        columns: "table_catalog t, table_schema t, table_name t, view_definition t, check_option t, is_updatable t, \
                  is_insertable_into t, is_trigger_updatable t, is_trigger_deletable t, is_trigger_insertable_into t",
        rows: views,
    },
    TableOf {
        name: "freestone_schemata",
        columns: "catalog_name t, schema_name t, schema_owner t, default_character_set_catalog t, \
                  default_character_set_schema t, default_character_set_name t, sql_path t",
        rows: schemata,
    },
    TableOf {
        name: "freestone_key_columns",
        columns: "constraint_catalog t, constraint_schema t, constraint_name t, table_catalog t, table_schema t, \
                  table_name t, column_name t, ordinal_position i, position_in_unique_constraint i",
        rows: key_columns,
    },
    TableOf {
        name: "freestone_constraint_columns",
        columns: "table_catalog t, table_schema t, table_name t, column_name t, constraint_catalog t, \
                  constraint_schema t, constraint_name t",
        rows: constraint_columns,
    },
    TableOf {
        name: "freestone_columns",
        columns: "table_catalog t, table_schema t, table_name t, column_name t, ordinal_position i, column_default t, \
                  is_nullable t, data_type t, character_maximum_length i, character_octet_length i, numeric_precision i, \
                  numeric_precision_radix i, numeric_scale i, datetime_precision i, interval_type t, \
                  character_set_name t, collation_name t, domain_name t, udt_catalog t, udt_schema t, udt_name t, \
                  is_identity t, identity_generation t, is_generated t, generation_expression t, is_updatable t",
        rows: described_columns,
    },
    TableOf {
        name: "freestone_referential_constraints",
        columns: "constraint_catalog t, constraint_schema t, constraint_name t, unique_constraint_catalog t, \
                  unique_constraint_schema t, unique_constraint_name t, match_option t, update_rule t, delete_rule t",
        rows: references,
    },
    TableOf {
        name: "freestone_sequences",
        columns: "sequence_catalog t, sequence_schema t, sequence_name t, data_type t, numeric_precision i, \
                  numeric_precision_radix i, numeric_scale i, start_value t, minimum_value t, maximum_value t, \
                  increment t, cycle_option t",
        rows: sequences,
    },
    TableOf {
        name: "freestone_grants",
        columns: "grantor t, grantee t, table_catalog t, table_schema t, table_name t, privilege_type t, is_grantable t, \
                  with_hierarchy t",
        rows: grants,
    },
    TableOf {
        name: "freestone_table_constraints",
        columns: "constraint_catalog t, constraint_schema t, constraint_name t, table_catalog t, table_schema t, \
                  table_name t, constraint_type t, is_deferrable t, initially_deferred t, enforced t",
        rows: table_constraints,
    },
];

fn tables(data: &Data) -> Rows {
    let row = |table: &RelationOids| {
        let is_materialized = table.relation.materialized.is_some();
        let is_view = table.relation.view.is_some() || is_materialized;
        let kind = match (is_view, table.relation.is_temporary) {
            (true, _) if is_materialized => "MATERIALIZED VIEW",
            (true, _) => "VIEW",
            (false, true) => "LOCAL TEMPORARY",
            (false, false) => "BASE TABLE",
        };
        row![
            data.database.as_str(),
            table.schema().1,
            table.own_name(),
            kind,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            if is_view { "NO" } else { "YES" },
            "NO",
            Cell::Null,
        ]
    };
    data.relations.iter().map(row).collect()
}

fn views(data: &Data) -> Rows {
    let row = |table: &RelationOids| {
        let text = table.relation.view.as_deref()?;
        let (schema, name) = (table.schema().1, table.own_name());
        Some(row![data.database.as_str(), schema, name, text, "NONE", "NO", "NO", "NO", "NO", "NO"])
    };
    data.relations.iter().filter_map(row).collect()
}

fn schemata(data: &Data) -> Rows {
    let own = data.has_temporary().then_some(PG_TEMP);
    let made = data.schemas.iter().map(String::as_str);
    let names = [PG_CATALOG, "public", "information_schema"].into_iter().chain(own).chain(made);
    let null = || Cell::Null;
    let row = |name: &str| row![data.database.as_str(), name, data.user.as_str(), null(), null(), null(), null()];
    names.map(row).collect()
}

fn key_columns(data: &Data) -> Rows {
    let mut rows = vec![];
    for constraint in data.constraints() {
        for (at, column) in constraint.columns.iter().enumerate() {
            let place = at as i64 + 1;
            let unique = if constraint.referenced.is_some() { Cell::Int(place) } else { Cell::Null };
            let (table, schema) = (constraint.table.own_name(), constraint.table.schema().1);
            rows.push(row![
                data.database.as_str(),
                schema,
                constraint.name.as_str(),
                data.database.as_str(),
                schema,
                table,
                column.as_str(),
                place,
                unique,
            ]);
        }
    }
    rows
}

/// The columns of keys, and those to which foreign keys refer.
fn constraint_columns(data: &Data) -> Rows {
    let mut rows = vec![];
    for constraint in data.constraints() {
        let (table, columns) = match constraint.referenced {
            Some((name, columns)) => (data.named(name), columns),
            None => (Some(constraint.table), constraint.columns),
        };
        let Some(table) = table else { continue };
        for column in columns {
            rows.push(row![
                data.database.as_str(),
                table.schema().1,
                table.own_name(),
                column.as_str(),
                data.database.as_str(),
                constraint.table.schema().1,
                constraint.name.as_str(),
            ]);
        }
    }
    rows
}

fn table_constraints(data: &Data) -> Rows {
    let row = |constraint: Constraint| {
        let kind = match constraint.kind {
            "f" => "FOREIGN KEY",
            "u" => "UNIQUE",
            "c" => "CHECK",
            _ => "PRIMARY KEY",
        };
        let (table, schema) = (constraint.table.own_name(), constraint.table.schema().1);
        let enforced = if constraint.enforced { "YES" } else { "NO" };
        row![
            data.database.as_str(),
            schema,
            constraint.name,
            data.database.as_str(),
            schema,
            table,
            kind,
            "NO",
            "NO",
            enforced
        ]
    };
    data.constraints().into_iter().map(row).collect()
}

fn described_columns(data: &Data) -> Rows {
    let mut rows = vec![];
    for table in &data.relations {
        for (at, (name, kind, nullable)) in table.columns().enumerate() {
            let mut row = described_column(data, table, name, kind, nullable, at as i64 + 1);
            if let Some(default) = table.default_of(at).filter(|_| table.has_default(at)) {
                row[COLUMN_DEFAULT] = Cell::Text(default.to_owned());
            }
            if let Some(always) = table.relation.identities.get(at).copied().flatten() {
                row[IS_IDENTITY] = Cell::Text("YES".to_owned());
                row[IS_IDENTITY + 1] = Cell::Text(if always { "ALWAYS" } else { "BY DEFAULT" }.to_owned());
            }
            rows.push(row);
        }
    }
    rows
}

/// The place of `column_default` in a row of [`described_column`].
const COLUMN_DEFAULT: usize = 5;
/// The place of `is_identity`, which `identity_generation` follows.
const IS_IDENTITY: usize = 21;

fn described_column(
    data: &Data,
    table: &RelationOids,
    name: &str,
    kind: ColumnType,
    nullable: bool,
    place: i64,
) -> Vec<Cell> {
    let element = kind.element;
    let (precision, scale) = precision(kind);
    let (length, bytes) = lengths(kind);
    let numeric = |value: Option<i64>| value.map_or(Cell::Null, Cell::Int);
    let radix = precision.map(|_| if element == types::NUMERIC { 10 } else { 2 });
    let is_time = [types::TIME, types::TIMESTAMP, types::TIMESTAMPTZ].contains(&element);
    let times = if is_time { Cell::Int(6) } else { Cell::Null };
    let udt = if kind.is_array { format!("_{}", element.name) } else { element.name.to_owned() };
    row![
        data.database.as_str(),
        table.schema().1,
        table.own_name(),
        name,
        place,
        Cell::Null,
        if nullable { "YES" } else { "NO" },
        if kind.is_array { "ARRAY" } else { element.sql },
        numeric(length),
        numeric(bytes),
        numeric(precision),
        numeric(radix),
        numeric(scale),
        times,
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Null,
        data.database.as_str(),
        PG_CATALOG,
        udt,
        "NO",
        Cell::Null,
        "NEVER",
        Cell::Null,
        "YES",
    ]
}

/// The characters and bytes that texts of a type have at most.
fn lengths(kind: ColumnType) -> (Option<i64>, Option<i64>) {
    /// The bytes of the longest text in PostgreSQL.
    const BYTES_MAX: i64 = 1 << 30;
    /// The bytes of the longest character.
    const CHARACTER_BYTES: i64 = 4;
    let is_text = [types::TEXT, types::VARCHAR, types::BPCHAR].contains(&kind.element) && !kind.is_array;
    let length = (is_text && kind.modifier > 4).then(|| i64::from(kind.modifier) - 4);
    (length, is_text.then(|| length.map_or(BYTES_MAX, |length| length * CHARACTER_BYTES)))
}

/// The digits of a number in its radix, and the digits of the fraction if the type is exact.
fn precision(kind: ColumnType) -> (Option<i64>, Option<i64>) {
    match kind.element {
        _ if kind.is_array => (None, None),
        types::INT2 => (Some(16), Some(0)),
        types::INT4 => (Some(32), Some(0)),
        types::INT8 => (Some(64), Some(0)),
        types::FLOAT4 => (Some(24), None),
        types::FLOAT8 => (Some(53), None),
        types::NUMERIC if kind.modifier >= 4 => {
            let modifier = i64::from(kind.modifier) - 4;
            (Some(modifier >> 16), Some(modifier & 0x7ff))
        }
        _ => (None, None),
    }
}

fn references(data: &Data) -> Rows {
    let row = |constraint: Constraint| {
        let (table, columns) = constraint.referenced?;
        let unique = data.named(table).and_then(|table| table.relation.key_name(columns));
        let unique = unique.map_or(Cell::Null, |name| Cell::Text(name.to_owned()));
        let schema = constraint.table.schema().1;
        Some(row![
            data.database.as_str(),
            schema,
            constraint.name,
            data.database.as_str(),
            schema,
            unique,
            "NONE",
            "NO ACTION",
            "NO ACTION"
        ])
    };
    data.constraints().into_iter().filter_map(row).collect()
}

fn sequences(data: &Data) -> Rows {
    let row = |of: &SequenceOid| {
        let SequenceRelation { start, increment, min, max, cycle, .. } = of.sequence;
        let ((_, schema, name), kind) = (of.names(), ColumnType::of(&of.sequence.data_type));
        let digits = precision(kind).0.map_or(Cell::Null, Cell::Int);
        let numbers = [start, min, max, increment].map(|number| number.to_string());
        let [start, min, max, increment] = numbers;
        let cycle = if cycle { "YES" } else { "NO" };
        row![data.database.as_str(), schema, name, of.of_type().1, digits, 2, 0, start, min, max, increment, cycle]
    };
    data.sequences.iter().map(row).collect()
}

fn grants(data: &Data) -> Rows {
    let mut rows = vec![];
    for table in &data.relations {
        for (user, role) in &data.roles {
            let writes: &[&str] = if *role == Role::Read { &[] } else { &["INSERT", "UPDATE", "DELETE", "TRUNCATE"] };
            for right in ["SELECT"].iter().chain(writes) {
                let (name, schema) = (table.own_name(), table.schema().1);
                rows.push(row![
                    data.user.as_str(),
                    user.as_str(),
                    data.database.as_str(),
                    schema,
                    name,
                    *right,
                    "NO",
                    "NO"
                ]);
            }
        }
    }
    rows
}
