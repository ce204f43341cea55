//! The tables of `pg_catalog` with rows.

use std::time::SystemTime;

use freestone::SequenceRelation;

use super::cell::{Cell, Rows, TableOf, row};
use super::data::*;
use super::pg_type::all_types;
use crate::pg::types::ColumnType;
use crate::sessions::{Activity, Peer};
use crate::users::Role;

pub const TABLES: &[TableOf] = &[
    TableOf { name: "pg_namespace", columns: "oid i, nspname t, nspowner i, nspacl a", rows: namespaces },
    TableOf {
        name: "pg_class",
        columns: "oid i, relname t, relnamespace i, reltype i, reloftype i, relowner i, relam i, relfilenode i, \
                  reltablespace i, relpages i, reltuples f, relallvisible i, reltoastrelid i, relhasindex b, relisshared b, \
                  relpersistence t, relkind t, relnatts i, relchecks i, relhasrules b, relhastriggers b, relhassubclass b, \
                  relrowsecurity b, relforcerowsecurity b, relispopulated b, relreplident t, relispartition b, \
                  relrewrite i, relfrozenxid i, relminmxid i, relacl a, reloptions a, relpartbound t",
        rows: classes,
    },
    TableOf {
        name: "pg_attribute",
        columns: "attrelid i, attname t, atttypid i, attstattarget i, attlen i, attnum i, attndims i, attcacheoff i, \
                  atttypmod i, attbyval b, attalign t, attstorage t, attcompression t, attnotnull b, atthasdef b, \
                  atthasmissing b, attidentity t, attgenerated t, attisdropped b, attislocal b, attinhcount i, \
                  attcollation i, attacl a, attoptions a, attfdwoptions a, attmissingval t",
        rows: attributes,
    },
    TableOf {
        name: "pg_type",
        columns: "oid i, typname t, typnamespace i, typowner i, typlen i, typbyval b, typtype c, typcategory c, \
                  typispreferred b, typisdefined b, typdelim c, typrelid i, typsubscript t, typelem i, typarray i, \
                  typinput i, typoutput i, typreceive i, typsend i, typmodin i, typmodout i, typanalyze i, typalign c, \
                  typstorage c, typnotnull b, typbasetype i, typtypmod i, typndims i, typcollation i, typdefaultbin t, \
                  typdefault t, typacl a",
        rows: all_types,
    },
    TableOf {
        name: "pg_database",
        columns: "oid i, datname t, datdba i, encoding i, datlocprovider t, datistemplate b, datallowconn b, \
                  datconnlimit i, datfrozenxid i, datminmxid i, dattablespace i, datcollate t, datctype t, daticulocale t, \
                  daticurules t, datcollversion t, datacl a",
        rows: databases,
    },
    TableOf {
        name: "pg_roles",
        columns: "rolname t, rolsuper b, rolinherit b, rolcreaterole b, rolcreatedb b, rolcanlogin b, rolreplication b, \
                  rolconnlimit i, rolpassword t, rolvaliduntil t, rolbypassrls b, rolconfig a, oid i",
        rows: roles,
    },
    TableOf {
        name: "pg_stat_activity",
        columns: "datid i, datname t, pid i, usename t, application_name t, client_addr t, backend_start z, \
                  query_start z, state_change z, state t, query t, backend_type t",
        rows: activity,
    },
    TableOf { name: "pg_user", columns: "usename t, usesysid i, usecreatedb b, usesuper b", rows: users },
    TableOf {
        name: "pg_index",
        columns: "indexrelid i, indrelid i, indnatts i, indnkeyatts i, indisunique b, indnullsnotdistinct b, \
                  indisprimary b, indisexclusion b, indimmediate b, indisclustered b, indisvalid b, indcheckxmin b, \
                  indisready b, indislive b, indisreplident b, indkey l, indcollation l, indclass l, indoption l, \
                  indexprs t, indpred t",
        rows: indexes,
    },
    TableOf {
        name: "pg_constraint",
        columns: "oid i, conname t, connamespace i, contype t, condeferrable b, condeferred b, convalidated b, conrelid i, \
                  contypid i, conindid i, conparentid i, confrelid i, confupdtype t, confdeltype t, confmatchtype t, \
                  conislocal b, coninhcount i, connoinherit b, conkey l, confkey l, confdelsetcols l, conbin t",
        rows: constraints,
    },
    TableOf { name: "pg_attrdef", columns: "oid i, adrelid i, adnum i, adbin t", rows: column_defaults },
    TableOf {
        name: "pg_sequence",
        columns: "seqrelid i, seqtypid i, seqstart i, seqincrement i, seqmax i, seqmin i, seqcache i, seqcycle b",
        rows: sequences,
    },
    TableOf {
        name: "pg_sequences",
        columns: "schemaname t, sequencename t, sequenceowner t, data_type t, start_value i, min_value i, max_value i, \
                  increment_by i, cycle b, cache_size i, last_value i",
        rows: sequence_texts,
    },
    TableOf { name: "pg_am", columns: "oid i, amname t, amhandler t, amtype t", rows: access_methods },
    TableOf {
        name: "pg_tables",
        columns: "schemaname t, tablename t, tableowner t, tablespace t, hasindexes b, hasrules b, hastriggers b, \
                  rowsecurity b",
        rows: tables,
    },
    TableOf { name: "pg_views", columns: "schemaname t, viewname t, viewowner t, definition t", rows: views },
    TableOf {
        name: "pg_matviews",
        columns: "schemaname t, matviewname t, matviewowner t, tablespace t, hasindexes b, ispopulated b, definition t",
        rows: materialized_views,
    },
    TableOf {
        name: "pg_indexes",
        columns: "schemaname t, tablename t, indexname t, tablespace t, indexdef t",
        rows: index_texts,
    },
    TableOf {
        name: "pg_settings",
        columns: "name t, setting t, unit t, category t, short_desc t, context t, vartype t, source t, min_val t, \
                  max_val t, enumvals t, boot_val t, reset_val t, sourcefile t, sourceline i, pending_restart b",
        rows: settings,
    },
    TableOf {
        name: "pg_tablespace",
        columns: "oid i, spcname t, spcowner i, spcacl a, spcoptions a",
        rows: tablespaces,
    },
    TableOf {
        name: "pg_proc",
        columns: "oid i, proname t, pronamespace i, proowner i, prolang i, procost f, prorows f, provariadic i, \
                  prosupport t, prokind t, prosecdef b, proleakproof b, proisstrict b, proretset b, provolatile t, \
                  proparallel t, pronargs i, pronargdefaults i, prorettype i, proargtypes l, proallargtypes l, \
                  proargmodes t, proargnames t, proargdefaults t, prosrc t, probin t, proconfig a, proacl a",
        rows: procedures,
    },
    TableOf {
        name: "pg_enum",
        columns: "oid i, enumtypid i, enumsortorder f, enumlabel t",
        rows: super::pg_type::labels,
    },
    TableOf {
        name: "pg_prepared_statements",
        columns: "name t, statement t, prepare_time z, parameter_types a, result_types a, from_sql b, generic_plans i, \
                  custom_plans i",
        rows: prepared_statements,
    },
    TableOf {
        name: "pg_cursors",
        columns: "name t, statement t, is_holdable b, is_binary b, is_scrollable b, creation_time z",
        rows: cursors,
    },
    TableOf { name: "pg_description", columns: "objoid i, classoid i, objsubid i, description t", rows: comments },
    TableOf {
        name: "pg_stat_user_tables",
        columns: "relid i, schemaname t, relname t, n_live_tup i, n_dead_tup i",
        rows: live_rows,
    },
];

fn namespaces(data: &Data) -> Rows {
    let named = [(OID_PG_CATALOG, PG_CATALOG), (OID_PUBLIC, "public"), (OID_INFORMATION_SCHEMA, "information_schema")];
    let own = data.has_temporary().then_some((OID_PG_TEMP, PG_TEMP));
    let made = data.schemas.iter().map(|name| (schema_oid(name), name.as_str()));
    named.into_iter().chain(own).chain(made).map(|(oid, name)| row![oid, name, data.owner(), Cell::Null]).collect()
}

fn classes(data: &Data) -> Rows {
    let mut rows = vec![];
    for table in &data.relations {
        let kind = match &table.relation {
            of if of.view.is_some() => "v",
            of if of.materialized.is_some() => "m",
            _ => "r",
        };
        let natts = table.columns().count() as i64;
        rows.push(class(data, table, (table.oid, table.own_name()), kind, natts));
        for index in &table.indexes {
            rows.push(class(data, table, (index.oid, &index.name), "i", index.columns.len() as i64));
        }
    }
    rows.extend(super::tables::names().map(|name| catalog_class(data, name)));
    for found in &data.sequences {
        let (schema, _, name) = found.names();
        rows.push(sequence_class(data, found, schema, name));
    }
    rows
}

/// The bytes of a page, as which clients compute sizes.
const PAGE: u64 = 8192;

/// A row of `pg_class`, of a table or view, or of one of its indexes.
fn class(data: &Data, of: &RelationOids, (oid, name): (i64, &str), kind: &str, natts: i64) -> Vec<Cell> {
    let table = Some(of).filter(|_| kind != "i");
    let am = match kind {
        "r" => OID_HEAP,
        "i" => OID_BTREE,
        _ => 0,
    };
    let live = table.map_or(Some(0), |table| table.relation.rows);
    let tuples = Cell::Float(live.map_or(-1.0, |rows| rows as f64));
    row![
        oid,
        name,
        of.schema().0,
        0,
        0,
        data.owner(),
        am,
        oid,
        0,
        table.map_or(0, |table| table.relation.bytes.div_ceil(PAGE) as i64),
        tuples,
        0,
        0,
        table.is_some_and(|table| !table.indexes.is_empty()),
        false,
        if of.relation.is_temporary { "t" } else { "p" },
        kind,
        natts,
        0,
        kind == "v",
        table.is_some_and(|table| data.has_references(table)),
        false,
        false,
        false,
        true,
        "d",
        false,
        0,
        0,
        0,
        Cell::Null,
        Cell::Null,
        Cell::Null,
    ]
}

/// A row of `pg_class` of a table of the catalog.
fn catalog_class(data: &Data, name: &str) -> Vec<Cell> {
    let kind = if VIEWS.contains(&name) { "v" } else { "r" };
    row![
        catalog_oid(name),
        name,
        OID_PG_CATALOG,
        0,
        0,
        data.owner(),
        if kind == "r" { OID_HEAP } else { 0 },
        0,
        0,
        0,
        Cell::Float(-1.0),
        0,
        0,
        false,
        false,
        "p",
        kind,
        0,
        0,
        kind == "v",
        false,
        false,
        false,
        false,
        true,
        "n",
        false,
        0,
        0,
        0,
        Cell::Null,
        Cell::Null,
        Cell::Null,
    ]
}

/// The tables of the catalog that are views in PostgreSQL.
const VIEWS: [&str; 18] = [
    "pg_cursors",
    "pg_group",
    "pg_indexes",
    "pg_locks",
    "pg_matviews",
    "pg_prepared_statements",
    "pg_prepared_xacts",
    "pg_roles",
    "pg_sequences",
    "pg_settings",
    "pg_stat_activity",
    "pg_stat_user_tables",
    "pg_tables",
    "pg_user",
    "pg_user_mappings",
    "pg_views",
    "pg_timezone_names",
    "pg_rules",
];

/// A row of `pg_class` of a sequence.
fn sequence_class(data: &Data, of: &SequenceOid, schema: i64, name: &str) -> Vec<Cell> {
    let persistence = if of.sequence.is_temporary { "t" } else { "p" };
    row![
        of.oid,
        name,
        schema,
        0,
        0,
        data.owner(),
        0,
        of.oid,
        0,
        1,
        Cell::Float(1.0),
        0,
        0,
        false,
        false,
        persistence,
        "S",
        3,
        0,
        false,
        false,
        false,
        false,
        false,
        true,
        "n",
        false,
        0,
        0,
        0,
        Cell::Null,
        Cell::Null,
        Cell::Null,
    ]
}

/// The DEFAULTs of columns. Those of identity columns have none here, as in PostgreSQL.
fn column_defaults(data: &Data) -> Rows {
    let mut rows = vec![];
    for table in &data.relations {
        for (at, _) in table.columns().enumerate().filter(|(at, _)| table.has_default(*at)) {
            let place = at as i64 + 1;
            let text = table.default_of(at).unwrap_or_default();
            rows.push(row![table.oid + 3_000_000_000 + place, table.oid, place, text]);
        }
    }
    rows
}

fn sequences(data: &Data) -> Rows {
    let row = |of: &SequenceOid| {
        let SequenceRelation { start, increment, min, max, cycle, .. } = of.sequence;
        row![of.oid, of.of_type().0, start, increment, max, min, 1, cycle]
    };
    data.sequences.iter().map(row).collect()
}

fn sequence_texts(data: &Data) -> Rows {
    let row = |of: &SequenceOid| {
        let SequenceRelation { start, increment, min, max, cycle, last_value, .. } = of.sequence;
        let (_, schema, name) = of.names();
        let last = last_value.map_or(Cell::Null, Cell::Int);
        row![schema, name, data.user.as_str(), of.of_type().1, start, min, max, increment, cycle, 1, last]
    };
    data.sequences.iter().map(row).collect()
}

fn attributes(data: &Data) -> Rows {
    let mut rows = vec![];
    for table in &data.relations {
        for (at, (name, kind, nullable)) in table.columns().enumerate() {
            let mut row = attribute(table.oid, name, kind, at as i64 + 1, !nullable);
            row[HAS_DEFAULT] = Cell::Bool(table.has_default(at));
            if let Some(always) = table.relation.identities.get(at).copied().flatten() {
                row[IDENTITY] = Cell::Text(if always { "a" } else { "d" }.to_owned());
            }
            rows.push(row);
        }
        for index in &table.indexes {
            for (at, name) in index.columns.iter().enumerate() {
                if let Some((name, kind, _)) = table.columns().find(|(known, ..)| known == name) {
                    rows.push(attribute(index.oid, name, kind, at as i64 + 1, false));
                }
            }
        }
    }
    rows
}

/// The places of `atthasdef` and `attidentity` in a row of [`attribute`].
const HAS_DEFAULT: usize = 14;
const IDENTITY: usize = 16;

fn attribute(table: i64, name: &str, kind: ColumnType, place: i64, not_null: bool) -> Vec<Cell> {
    let (width, modifier) = (i64::from(kind.width()), i64::from(kind.modifier));
    row![
        table,
        name,
        i64::from(kind.oid()),
        -1,
        width,
        place,
        0,
        -1,
        modifier,
        width > 0 && width <= 8,
        "i",
        "p",
        "",
        not_null,
        false,
        false,
        "",
        "",
        false,
        true,
        0,
        0,
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Null,
    ]
}

fn databases(data: &Data) -> Rows {
    vec![row![
        OID_DATABASE,
        data.database.as_str(),
        data.owner(),
        6,
        "c",
        false,
        true,
        -1,
        0,
        0,
        1663,
        "C",
        "C",
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Null,
    ]]
}

fn roles(data: &Data) -> Rows {
    let row = |(name, role): &(String, Role)| {
        let admin = *role == Role::Admin;
        row![
            name.as_str(),
            admin,
            true,
            admin,
            admin,
            true,
            false,
            -1,
            "********",
            Cell::Null,
            admin,
            Cell::Null,
            data.role_oid(name),
        ]
    };
    data.roles.iter().map(row).collect()
}

/// The sessions that this one may end, and what they execute.
fn activity(data: &Data) -> Rows {
    let row = |peer: Peer| {
        let Peer { number, user, since, activity } = peer;
        let known = activity.is_some();
        let Activity { state, query, begun, changed } = activity.unwrap_or_default();
        let text = |text: String| if known { Cell::Text(text) } else { Cell::Null };
        let time = |time: Option<SystemTime>| time.map_or(Cell::Null, Cell::Time);
        row![
            OID_DATABASE,
            data.database.as_str(),
            number as i64,
            user,
            Cell::Null,
            Cell::Null,
            since,
            time(begun),
            time(changed),
            text(state.to_owned()),
            text(query),
            "client backend",
        ]
    };
    data.peers.shown().into_iter().map(row).collect()
}

fn cursors(data: &Data) -> Rows {
    let row = |cursor: &CursorRow| {
        let CursorRow { name, text, since, is_holdable, is_binary, is_scrollable } = cursor;
        row![name.as_str(), text.as_str(), *is_holdable, *is_binary, *is_scrollable, *since]
    };
    data.cursors.iter().map(row).collect()
}

fn comments(data: &Data) -> Rows {
    let of_class = catalog_oid("pg_class");
    data.comments().map(|(oid, place, text)| row![oid, of_class, place, text]).collect()
}

fn users(data: &Data) -> Rows {
    let row = |(name, role): &(String, Role)| {
        row![name.as_str(), data.role_oid(name), *role == Role::Admin, *role == Role::Admin]
    };
    data.roles.iter().map(row).collect()
}

fn indexes(data: &Data) -> Rows {
    let row = |(table, index): (&RelationOids, &Index)| {
        let places = table.places(&index.columns);
        let (count, zeros) = (places.len() as i64, vec![0; places.len()]);
        row![
            index.oid,
            table.oid,
            count,
            count,
            index.is_unique,
            false,
            index.is_primary,
            false,
            true,
            false,
            true,
            false,
            true,
            true,
            false,
            places,
            zeros.clone(),
            zeros.clone(),
            zeros,
            Cell::Null,
            Cell::Null,
        ]
    };
    data.indexes().map(row).collect()
}

fn constraints(data: &Data) -> Rows {
    let row = |constraint: Constraint| {
        let places = Cell::Ints(constraint.table.places(constraint.columns));
        let other = constraint.referenced.and_then(|(name, columns)| Some((data.named(name)?, columns)));
        // A foreign key depends on the index of the referenced columns.
        let own = || constraint.table.indexes.iter().find(|index| index.name == constraint.name);
        let (kind, index) = match (constraint.kind, other) {
            ("f", Some((table, columns))) => ("f", table.key_index(columns)),
            ("f", None) => ("f", None),
            ("c", _) => ("c", None),
            (kind, _) => (kind, own()),
        };
        let index = index.map_or(0, |index| index.oid);
        let (other_oid, other_places) = match other {
            Some((table, columns)) => (table.oid, Cell::Ints(table.places(columns))),
            None => (0, Cell::Null),
        };
        let action = if kind == "f" { "a" } else { " " };
        let matching = if kind == "f" { "s" } else { " " };
        row![
            constraint.oid,
            constraint.name,
            constraint.table.schema().0,
            kind,
            false,
            false,
            true,
            constraint.table.oid,
            0,
            index,
            0,
            other_oid,
            action,
            action,
            matching,
            true,
            0,
            true,
            places,
            other_places,
            Cell::Null,
            Cell::Null,
        ]
    };
    data.constraints().into_iter().map(row).collect()
}

fn access_methods(_: &Data) -> Rows {
    vec![row![OID_HEAP, "heap", "heap_tableam_handler", "t"], row![OID_BTREE, "btree", "bthandler", "i"]]
}

fn tables(data: &Data) -> Rows {
    let is_table = |of: &&RelationOids| of.relation.view.is_none() && of.relation.materialized.is_none();
    let tables = data.relations.iter().filter(is_table);
    let row = |table: &RelationOids| {
        let has_index = !table.indexes.is_empty();
        row![table.schema().1, table.own_name(), data.user.as_str(), Cell::Null, has_index, false, false, false]
    };
    tables.map(row).collect()
}

fn views(data: &Data) -> Rows {
    let row = |table: &RelationOids| {
        let text = table.relation.view.as_deref()?;
        Some(row![table.schema().1, table.own_name(), data.user.as_str(), text])
    };
    data.relations.iter().filter_map(row).collect()
}

fn materialized_views(data: &Data) -> Rows {
    let row = |table: &RelationOids| {
        let view = table.relation.materialized.as_ref()?;
        let has_index = !table.indexes.is_empty();
        let (schema, name, user) = (table.schema().1, table.own_name(), data.user.as_str());
        Some(row![schema, name, user, Cell::Null, has_index, view.is_populated, view.query.as_str()])
    };
    data.relations.iter().filter_map(row).collect()
}

fn index_texts(data: &Data) -> Rows {
    let row = |(table, index): (&RelationOids, &Index)| {
        let (schema, name) = (table.schema().1, table.own_name());
        row![schema, name, index.name.as_str(), Cell::Null, super::functions::index_text(table, index)]
    };
    data.indexes().map(row).collect()
}

fn settings(data: &Data) -> Rows {
    let row = |(name, value): (&str, &str)| {
        row![
            name,
            value,
            Cell::Null,
            "Freestone",
            "",
            "user",
            "string",
            "default",
            Cell::Null,
            Cell::Null,
            Cell::Null,
            value,
            value,
            Cell::Null,
            Cell::Null,
            false,
        ]
    };
    data.settings.all().map(row).collect()
}

fn tablespaces(data: &Data) -> Rows {
    vec![row![1663, "pg_default", data.owner(), Cell::Null, Cell::Null]]
}

fn procedures(data: &Data) -> Rows {
    let own = ["tables", "design", "segments", "columns", "zones"].into_iter().enumerate().map(|(at, name)| {
        let arguments = if name == "tables" { vec![] } else { vec![25] };
        procedure(data, 15_000 + at as i64, (&format!("freestone_{name}"), OID_PUBLIC), arguments, true)
    });
    let of_types = super::procedures::OF_TYPES.iter().map(|(oid, name)| {
        // Types that are read from text take a C string, those from bytes take what PostgreSQL calls internal.
        let argument = if name.ends_with("in") { 2275 } else { 2281 };
        procedure(data, *oid, (name, OID_PG_CATALOG), vec![argument], false)
    });
    own.chain(of_types).collect()
}

fn procedure(data: &Data, oid: i64, (name, schema): (&str, i64), arguments: Vec<i64>, returns_rows: bool) -> Vec<Cell> {
    row![
        oid,
        name,
        schema,
        data.owner(),
        12,
        Cell::Float(1.0),
        Cell::Float(f64::from(u8::from(returns_rows))),
        0,
        "-",
        "f",
        false,
        false,
        true,
        returns_rows,
        "s",
        "s",
        arguments.len() as i64,
        0,
        2249,
        arguments,
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Null,
        name,
        Cell::Null,
        Cell::Null,
        Cell::Null,
    ]
}

fn live_rows(data: &Data) -> Rows {
    let tables = data.relations.iter().filter(|table| table.relation.view.is_none());
    let row = |table: &RelationOids| {
        let rows = table.relation.rows.unwrap_or(0) as i64;
        row![table.oid, table.schema().1, table.own_name(), rows, 0]
    };
    tables.map(row).collect()
}

fn prepared_statements(data: &Data) -> Rows {
    let row = |prepared: &PreparedRow| {
        let PreparedRow { name, text, since, parameters, results, from_sql } = prepared;
        let results = results.clone().map_or(Cell::Null, Cell::Texts);
        row![name.as_str(), text.as_str(), *since, parameters.clone(), results, *from_sql, 0, 0]
    };
    data.prepared.iter().filter(|prepared| !prepared.name.is_empty()).map(row).collect()
}
