//! The tables of `pg_catalog`. What this database does not have is an empty table, so that asking for it is no error.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, Int64Builder, ListBuilder, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;

use super::Catalog;
use super::data::*;
use crate::pg::settings::Settings;
use crate::pg::types::{self, ColumnType, TYPES};
use crate::users::Role;

/// A value of a table.
#[derive(Debug, Clone)]
pub enum Cell {
    Null,
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Ints(Vec<i64>),
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Cell::Int(value)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Cell::Bool(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Cell::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Cell::Text(value)
    }
}

impl From<Vec<i64>> for Cell {
    fn from(value: Vec<i64>) -> Self {
        Cell::Ints(value)
    }
}

type Rows = Vec<Vec<Cell>>;

macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$(Cell::from($value)),*] };
}

/// A table: its columns as `name type`, where `i` is an integer, `t` text, `b` a truth value, `f` a number and `l` a list
/// of integers; and its rows.
struct TableOf {
    name: &'static str,
    columns: &'static str,
    rows: fn(&Data) -> Rows,
}

fn nothing(_: &Data) -> Rows {
    vec![]
}

/// Tables of what this database does not have.
const WITHOUT_ROWS: [&str; 47] = [
    "pg_description",
    "pg_shdescription",
    "pg_attrdef",
    "pg_inherits",
    "pg_trigger",
    "pg_rewrite",
    "pg_collation",
    "pg_policy",
    "pg_publication",
    "pg_publication_rel",
    "pg_publication_namespace",
    "pg_statistic_ext",
    "pg_sequence",
    "pg_sequences",
    "pg_matviews",
    "pg_enum",
    "pg_range",
    "pg_depend",
    "pg_extension",
    "pg_language",
    "pg_foreign_table",
    "pg_foreign_server",
    "pg_foreign_data_wrapper",
    "pg_event_trigger",
    "pg_partitioned_table",
    "pg_auth_members",
    "pg_default_acl",
    "pg_db_role_setting",
    "pg_subscription",
    "pg_user_mappings",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_opfamily",
    "pg_amop",
    "pg_amproc",
    "pg_largeobject_metadata",
    "pg_shdepend",
    "pg_statistic_ext_data",
    "pg_group",
    "pg_prepared_xacts",
    "pg_cursors",
    "pg_operator",
    "pg_cast",
    "pg_conversion",
    "pg_ts_config",
    "pg_aggregate",
];

/// Whether a table of the catalog never has a row.
pub fn is_empty(name: &str) -> bool {
    WITHOUT_ROWS.contains(&name)
}

const TABLES: &[TableOf] = &[
    TableOf { name: "pg_namespace", columns: "oid i, nspname t, nspowner i, nspacl t", rows: namespaces },
    TableOf {
        name: "pg_class",
        columns: "oid i, relname t, relnamespace i, reltype i, reloftype i, relowner i, relam i, relfilenode i, \
                  reltablespace i, relpages i, reltuples f, relallvisible i, reltoastrelid i, relhasindex b, relisshared b, \
                  relpersistence t, relkind t, relnatts i, relchecks i, relhasrules b, relhastriggers b, relhassubclass b, \
                  relrowsecurity b, relforcerowsecurity b, relispopulated b, relreplident t, relispartition b, \
                  relrewrite i, relfrozenxid i, relminmxid i, relacl t, reloptions t, relpartbound t",
        rows: classes,
    },
    TableOf {
        name: "pg_attribute",
        columns: "attrelid i, attname t, atttypid i, attstattarget i, attlen i, attnum i, attndims i, attcacheoff i, \
                  atttypmod i, attbyval b, attalign t, attstorage t, attcompression t, attnotnull b, atthasdef b, \
                  atthasmissing b, attidentity t, attgenerated t, attisdropped b, attislocal b, attinhcount i, \
                  attcollation i, attacl t, attoptions t, attfdwoptions t, attmissingval t",
        rows: attributes,
    },
    TableOf {
        name: "pg_type",
        columns: "oid i, typname t, typnamespace i, typowner i, typlen i, typbyval b, typtype t, typcategory t, \
                  typispreferred b, typisdefined b, typdelim t, typrelid i, typsubscript t, typelem i, typarray i, \
                  typinput t, typoutput t, typreceive t, typsend t, typmodin t, typmodout t, typanalyze t, typalign t, \
                  typstorage t, typnotnull b, typbasetype i, typtypmod i, typndims i, typcollation i, typdefaultbin t, \
                  typdefault t, typacl t",
        rows: all_types,
    },
    TableOf {
        name: "pg_database",
        columns: "oid i, datname t, datdba i, encoding i, datlocprovider t, datistemplate b, datallowconn b, \
                  datconnlimit i, datfrozenxid i, datminmxid i, dattablespace i, datcollate t, datctype t, daticulocale t, \
                  daticurules t, datcollversion t, datacl t",
        rows: databases,
    },
    TableOf {
        name: "pg_roles",
        columns: "rolname t, rolsuper b, rolinherit b, rolcreaterole b, rolcreatedb b, rolcanlogin b, rolreplication b, \
                  rolconnlimit i, rolpassword t, rolvaliduntil t, rolbypassrls b, rolconfig t, oid i",
        rows: roles,
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
    TableOf { name: "pg_am", columns: "oid i, amname t, amhandler t, amtype t", rows: access_methods },
    TableOf {
        name: "pg_tables",
        columns: "schemaname t, tablename t, tableowner t, tablespace t, hasindexes b, hasrules b, hastriggers b, \
                  rowsecurity b",
        rows: tables,
    },
    TableOf { name: "pg_views", columns: "schemaname t, viewname t, viewowner t, definition t", rows: views },
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
        columns: "oid i, spcname t, spcowner i, spcacl t, spcoptions t",
        rows: tablespaces,
    },
    TableOf {
        name: "pg_proc",
        columns: "oid i, proname t, pronamespace i, proowner i, prolang i, procost f, prorows f, provariadic i, \
                  prosupport t, prokind t, prosecdef b, proleakproof b, proisstrict b, proretset b, provolatile t, \
                  proparallel t, pronargs i, pronargdefaults i, prorettype i, proargtypes l, proallargtypes l, \
                  proargmodes t, proargnames t, proargdefaults t, prosrc t, probin t, proconfig t, proacl t",
        rows: procedures,
    },
    TableOf {
        name: "freestone_key_columns",
        columns: "constraint_catalog t, constraint_schema t, constraint_name t, table_catalog t, table_schema t, \
                  table_name t, column_name t, ordinal_position i, position_in_unique_constraint i",
        rows: key_columns,
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
    TableOf { name: "pg_description", columns: "objoid i, classoid i, objsubid i, description t", rows: nothing },
    TableOf { name: "pg_shdescription", columns: "objoid i, classoid i, description t", rows: nothing },
    TableOf { name: "pg_attrdef", columns: "oid i, adrelid i, adnum i, adbin t", rows: nothing },
    TableOf { name: "pg_inherits", columns: "inhrelid i, inhparent i, inhseqno i, inhdetachpending b", rows: nothing },
    TableOf {
        name: "pg_trigger",
        columns: "oid i, tgrelid i, tgparentid i, tgname t, tgfoid i, tgtype i, tgenabled t, tgisinternal b, \
                  tgconstrrelid i, tgconstrindid i, tgconstraint i, tgdeferrable b, tginitdeferred b",
        rows: nothing,
    },
    TableOf {
        name: "pg_rewrite",
        columns: "oid i, rulename t, ev_class i, ev_type t, ev_enabled t, is_instead b",
        rows: nothing,
    },
    TableOf {
        name: "pg_collation",
        columns: "oid i, collname t, collnamespace i, collowner i, collprovider t, collisdeterministic b, collcollate t",
        rows: nothing,
    },
    TableOf {
        name: "pg_policy",
        columns: "oid i, polname t, polrelid i, polcmd t, polpermissive b, polroles l, polqual t, polwithcheck t",
        rows: nothing,
    },
    TableOf {
        name: "pg_publication",
        columns: "oid i, pubname t, pubowner i, puballtables b, pubinsert b, pubupdate b, pubdelete b, pubtruncate b",
        rows: nothing,
    },
    TableOf { name: "pg_publication_rel", columns: "oid i, prpubid i, prrelid i, prqual t, prattrs l", rows: nothing },
    TableOf { name: "pg_publication_namespace", columns: "oid i, pnpubid i, pnnspid i", rows: nothing },
    TableOf {
        name: "pg_statistic_ext",
        columns: "oid i, stxrelid i, stxname t, stxnamespace i, stxowner i, stxstattarget i, stxkeys l, stxkind t",
        rows: nothing,
    },
    TableOf {
        name: "pg_sequence",
        columns: "seqrelid i, seqtypid i, seqstart i, seqincrement i, seqmax i, seqmin i, seqcache i, seqcycle b",
        rows: nothing,
    },
    TableOf {
        name: "pg_sequences",
        columns: "schemaname t, sequencename t, sequenceowner t, last_value i",
        rows: nothing,
    },
    TableOf {
        name: "pg_matviews",
        columns: "schemaname t, matviewname t, matviewowner t, definition t",
        rows: nothing,
    },
    TableOf { name: "pg_enum", columns: "oid i, enumtypid i, enumsortorder f, enumlabel t", rows: nothing },
    TableOf { name: "pg_range", columns: "rngtypid i, rngsubtype i, rngmultitypid i, rngcollation i", rows: nothing },
    TableOf {
        name: "pg_depend",
        columns: "classid i, objid i, objsubid i, refclassid i, refobjid i, refobjsubid i, deptype t",
        rows: nothing,
    },
    TableOf {
        name: "pg_extension",
        columns: "oid i, extname t, extowner i, extnamespace i, extrelocatable b, extversion t",
        rows: nothing,
    },
    TableOf { name: "pg_language", columns: "oid i, lanname t, lanowner i, lanispl b, lanpltrusted b", rows: nothing },
    TableOf { name: "pg_foreign_table", columns: "ftrelid i, ftserver i, ftoptions t", rows: nothing },
    TableOf { name: "pg_foreign_server", columns: "oid i, srvname t, srvowner i, srvfdw i, srvtype t", rows: nothing },
    TableOf { name: "pg_foreign_data_wrapper", columns: "oid i, fdwname t, fdwowner i", rows: nothing },
    TableOf {
        name: "pg_event_trigger",
        columns: "oid i, evtname t, evtevent t, evtowner i, evtenabled t",
        rows: nothing,
    },
    TableOf {
        name: "pg_partitioned_table",
        columns: "partrelid i, partstrat t, partnatts i, partattrs l",
        rows: nothing,
    },
    TableOf { name: "pg_opclass", columns: "oid i, opcmethod i, opcname t, opcnamespace i", rows: nothing },
    TableOf { name: "pg_operator", columns: "oid i, oprname t, oprnamespace i, oprleft i, oprright i", rows: nothing },
    TableOf { name: "pg_aggregate", columns: "aggfnoid i, aggkind t, aggnumdirectargs i", rows: nothing },
    TableOf { name: "pg_cast", columns: "oid i, castsource i, casttarget i, castfunc i, castcontext t", rows: nothing },
    TableOf { name: "pg_auth_members", columns: "oid i, roleid i, member i, grantor i, admin_option b", rows: nothing },
    TableOf { name: "pg_conversion", columns: "oid i, conname t, connamespace i", rows: nothing },
    TableOf { name: "pg_ts_config", columns: "oid i, cfgname t, cfgnamespace i", rows: nothing },
    TableOf {
        name: "pg_default_acl",
        columns: "oid i, defaclrole i, defaclnamespace i, defaclobjtype t, defaclacl t",
        rows: nothing,
    },
    TableOf { name: "pg_db_role_setting", columns: "setdatabase i, setrole i, setconfig t", rows: nothing },
    TableOf {
        name: "pg_subscription",
        columns: "oid i, subdbid i, subname t, subowner i, subenabled b, subbinary b, substream t, subtwophasestate t, subdisableonerr b, subpasswordrequired b, subrunasowner b, suborigin t, subpublications t, subsynccommit t, subconninfo t, subskiplsn t",
        rows: nothing,
    },
    TableOf {
        name: "pg_user_mappings",
        columns: "umid i, srvid i, srvname t, umuser i, usename t, umoptions t",
        rows: nothing,
    },
    TableOf {
        name: "pg_ts_dict",
        columns: "oid i, dictname t, dictnamespace i, dictowner i, dicttemplate i, dictinitoption t",
        rows: nothing,
    },
    TableOf { name: "pg_ts_parser", columns: "oid i, prsname t, prsnamespace i", rows: nothing },
    TableOf { name: "pg_ts_template", columns: "oid i, tmplname t, tmplnamespace i", rows: nothing },
    TableOf {
        name: "pg_opfamily",
        columns: "oid i, opfmethod i, opfname t, opfnamespace i, opfowner i",
        rows: nothing,
    },
    TableOf {
        name: "pg_amop",
        columns: "oid i, amopfamily i, amoplefttype i, amoprighttype i, amopstrategy i, amoppurpose t, amopopr i, amopmethod i",
        rows: nothing,
    },
    TableOf {
        name: "pg_amproc",
        columns: "oid i, amprocfamily i, amproclefttype i, amprocrighttype i, amprocnum i, amproc i",
        rows: nothing,
    },
    TableOf { name: "pg_largeobject_metadata", columns: "oid i, lomowner i, lomacl t", rows: nothing },
    TableOf {
        name: "pg_shdepend",
        columns: "dbid i, classid i, objid i, objsubid i, refclassid i, refobjid i, deptype t",
        rows: nothing,
    },
    TableOf { name: "pg_statistic_ext_data", columns: "stxoid i, stxdinherit b", rows: nothing },
    TableOf { name: "pg_group", columns: "groname t, grosysid i, grolist l", rows: nothing },
    TableOf {
        name: "pg_prepared_xacts",
        columns: "transaction i, gid t, prepared t, owner t, database t",
        rows: nothing,
    },
    TableOf {
        name: "pg_cursors",
        columns: "name t, statement t, is_holdable b, is_binary b, is_scrollable b",
        rows: nothing,
    },
    TableOf {
        name: "freestone_sequences",
        columns: "sequence_catalog t, sequence_schema t, sequence_name t, data_type t, start_value t, minimum_value t, maximum_value t, increment t, cycle_option t",
        rows: nothing,
    },
    TableOf {
        name: "freestone_triggers",
        columns: "trigger_catalog t, trigger_schema t, trigger_name t, event_manipulation t, event_object_table t, action_statement t, action_timing t",
        rows: nothing,
    },
    TableOf { name: "pg_keywords", columns: "word t, catcode t, barelabel b, catdesc t, baredesc t", rows: nothing },
    TableOf {
        name: "pg_locks",
        columns: "locktype t, database i, relation i, pid i, mode t, granted b",
        rows: nothing,
    },
    TableOf {
        name: "pg_stat_activity",
        columns: "datid i, datname t, pid i, usename t, application_name t, client_addr t, state t, query t",
        rows: nothing,
    },
    TableOf {
        name: "pg_stat_user_tables",
        columns: "relid i, schemaname t, relname t, n_live_tup i, n_dead_tup i",
        rows: live_rows,
    },
];

fn namespaces(data: &Data) -> Rows {
    let named = [(OID_PG_CATALOG, PG_CATALOG), (OID_PUBLIC, "public"), (OID_INFORMATION_SCHEMA, "information_schema")];
    named.iter().map(|(oid, name)| row![*oid, *name, data.owner(), Cell::Null]).collect()
}

fn classes(data: &Data) -> Rows {
    let mut rows = vec![];
    for table in &data.relations {
        let kind = if table.relation.view.is_some() { "v" } else { "r" };
        let has_key = !table.relation.primary_key.is_empty();
        let natts = table.columns().count() as i64;
        rows.push(class(data, table.oid, &table.relation.name, kind, natts, has_key, table.relation.rows));
        if has_key {
            let (name, natts) = (format!("{}_pkey", table.relation.name), table.relation.primary_key.len() as i64);
            rows.push(class(data, table.key_oid, &name, "i", natts, false, Some(0)));
        }
    }
    rows
}

fn class(data: &Data, oid: i64, name: &str, kind: &str, natts: i64, has_key: bool, live: Option<u64>) -> Vec<Cell> {
    let am = match kind {
        "r" => OID_HEAP,
        "i" => OID_BTREE,
        _ => 0,
    };
    let tuples = Cell::Float(live.map_or(-1.0, |rows| rows as f64));
    row![
        oid,
        name,
        OID_PUBLIC,
        0,
        0,
        data.owner(),
        am,
        oid,
        0,
        0,
        tuples,
        0,
        0,
        has_key,
        false,
        "p",
        kind,
        natts,
        0,
        kind == "v",
        false,
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

fn attributes(data: &Data) -> Rows {
    let mut rows = vec![];
    for table in &data.relations {
        for (at, (name, kind, nullable)) in table.columns().enumerate() {
            rows.push(attribute(table.oid, name, kind, at as i64 + 1, !nullable));
        }
        for (at, name) in table.relation.primary_key.iter().enumerate() {
            if let Some((name, kind, _)) = table.columns().find(|(known, ..)| known == name) {
                rows.push(attribute(table.key_oid, name, kind, at as i64 + 1, false));
            }
        }
    }
    rows
}

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

fn all_types(data: &Data) -> Rows {
    let mut rows = vec![];
    for kind in TYPES {
        let (oid, array, width) = (i64::from(kind.oid), i64::from(kind.array), i64::from(kind.width));
        let category = kind.category.to_string();
        rows.push(one_type(data, oid, kind.name, width, &category, 0, array, &format!("{}in", kind.name)));
        if kind.array != 0 {
            rows.push(one_type(data, array, &format!("_{}", kind.name), -1, "A", oid, 0, "array_in"));
        }
    }
    rows
}

#[expect(clippy::too_many_arguments, reason = "the fields that differ between rows of one table")]
fn one_type(
    data: &Data,
    oid: i64,
    name: &str,
    width: i64,
    category: &str,
    element: i64,
    array: i64,
    input: &str,
) -> Vec<Cell> {
    row![
        oid,
        name,
        OID_PG_CATALOG,
        data.owner(),
        width,
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
        input,
        "-",
        "-",
        "-",
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

fn databases(data: &Data) -> Rows {
    vec![row![
        OID_DATABASE,
        DATABASE,
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

fn users(data: &Data) -> Rows {
    let row = |(name, role): &(String, Role)| {
        row![name.as_str(), data.role_oid(name), *role == Role::Admin, *role == Role::Admin]
    };
    data.roles.iter().map(row).collect()
}

fn indexes(data: &Data) -> Rows {
    let keyed = data.relations.iter().filter(|table| !table.relation.primary_key.is_empty());
    let row = |table: &Numbered| {
        let places = table.places(&table.relation.primary_key);
        let (count, zeros) = (places.len() as i64, vec![0; places.len()]);
        row![
            table.key_oid,
            table.oid,
            count,
            count,
            true,
            false,
            true,
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
    keyed.map(row).collect()
}

fn constraints(data: &Data) -> Rows {
    let row = |constraint: Constraint| {
        let places = Cell::Ints(constraint.table.places(constraint.columns));
        let other = constraint.referenced.and_then(|(name, columns)| Some((data.named(name)?, columns)));
        // A foreign key depends on the index of what it refers to.
        let (kind, index) = match (&constraint.referenced, other) {
            (None, _) => ("p", constraint.table.key_oid),
            (Some(_), Some((table, _))) if !table.relation.primary_key.is_empty() => ("f", table.key_oid),
            (Some(_), _) => ("f", 0),
        };
        let (other_oid, other_places) = match other {
            Some((table, columns)) => (table.oid, Cell::Ints(table.places(columns))),
            None => (0, Cell::Null),
        };
        let action = if kind == "f" { "a" } else { " " };
        let matching = if kind == "f" { "s" } else { " " };
        row![
            constraint.oid,
            constraint.name,
            OID_PUBLIC,
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
    let tables = data.relations.iter().filter(|table| table.relation.view.is_none());
    let row = |table: &Numbered| {
        let has_key = !table.relation.primary_key.is_empty();
        let name = table.relation.name.as_str();
        row!["public", name, data.user.as_str(), Cell::Null, has_key, false, false, false]
    };
    tables.map(row).collect()
}

fn views(data: &Data) -> Rows {
    let row = |table: &Numbered| {
        let text = table.relation.view.as_deref()?;
        Some(row!["public", table.relation.name.as_str(), data.user.as_str(), text])
    };
    data.relations.iter().filter_map(row).collect()
}

fn index_texts(data: &Data) -> Rows {
    let keyed = data.relations.iter().filter(|table| !table.relation.primary_key.is_empty());
    let row = |table: &Numbered| {
        let name = table.relation.name.as_str();
        row!["public", name, format!("{name}_pkey"), Cell::Null, super::functions::index_text(table)]
    };
    keyed.map(row).collect()
}

fn settings(data: &Data) -> Rows {
    let settings = Settings::new(&data.user, false, None);
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
    settings.all().map(row).collect()
}

fn tablespaces(data: &Data) -> Rows {
    vec![row![1663, "pg_default", data.owner(), Cell::Null, Cell::Null]]
}

fn procedures(data: &Data) -> Rows {
    let functions = ["tables", "design", "segments", "columns", "zones"];
    let row = |(at, name): (usize, &&str)| {
        let arguments = if *name == "tables" { vec![] } else { vec![25] };
        row![
            15_000 + at as i64,
            format!("freestone_{name}"),
            OID_PUBLIC,
            data.owner(),
            12,
            Cell::Float(1.0),
            Cell::Float(1.0),
            0,
            "-",
            "f",
            false,
            false,
            true,
            true,
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
            *name,
            Cell::Null,
            Cell::Null,
            Cell::Null,
        ]
    };
    functions.iter().enumerate().map(row).collect()
}

fn key_columns(data: &Data) -> Rows {
    let mut rows = vec![];
    for constraint in data.constraints() {
        for (at, column) in constraint.columns.iter().enumerate() {
            let place = at as i64 + 1;
            let unique = if constraint.referenced.is_some() { Cell::Int(place) } else { Cell::Null };
            let table = constraint.table.relation.name.as_str();
            rows.push(row![
                DATABASE,
                "public",
                constraint.name.as_str(),
                DATABASE,
                "public",
                table,
                column.as_str(),
                place,
                unique,
            ]);
        }
    }
    rows
}

fn table_constraints(data: &Data) -> Rows {
    let row = |constraint: Constraint| {
        let kind = if constraint.referenced.is_some() { "FOREIGN KEY" } else { "PRIMARY KEY" };
        let table = constraint.table.relation.name.as_str();
        row![DATABASE, "public", constraint.name, DATABASE, "public", table, kind, "NO", "NO", "NO"]
    };
    data.constraints().into_iter().map(row).collect()
}

fn described_columns(data: &Data) -> Rows {
    let mut rows = vec![];
    for table in &data.relations {
        for (at, (name, kind, nullable)) in table.columns().enumerate() {
            rows.push(described_column(&table.relation.name, name, kind, nullable, at as i64 + 1));
        }
    }
    rows
}

fn described_column(table: &str, name: &str, kind: ColumnType, nullable: bool, place: i64) -> Vec<Cell> {
    let element = kind.element;
    let (precision, scale) = precision(kind);
    let numeric = |value: Option<i64>| value.map_or(Cell::Null, Cell::Int);
    let radix = precision.map(|_| if element == types::NUMERIC { 10 } else { 2 });
    let is_time = [types::TIME, types::TIMESTAMP, types::TIMESTAMPTZ].contains(&element);
    let times = if is_time { Cell::Int(6) } else { Cell::Null };
    let udt = if kind.is_array { format!("_{}", element.name) } else { element.name.to_owned() };
    row![
        DATABASE,
        "public",
        table,
        name,
        place,
        Cell::Null,
        if nullable { "YES" } else { "NO" },
        if kind.is_array { "ARRAY" } else { element.sql },
        Cell::Null,
        Cell::Null,
        numeric(precision),
        numeric(radix),
        numeric(scale),
        times,
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Null,
        DATABASE,
        PG_CATALOG,
        udt,
        "NO",
        Cell::Null,
        "NEVER",
        Cell::Null,
        "YES",
    ]
}

/// Digits of a number in its radix, and those behind the point where they are exact.
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
        let (table, _) = constraint.referenced?;
        let unique = data.named(table).filter(|table| !table.relation.primary_key.is_empty());
        let unique = unique.map_or(Cell::Null, |_| Cell::Text(format!("{table}_pkey")));
        Some(row![DATABASE, "public", constraint.name, DATABASE, "public", unique, "NONE", "NO ACTION", "NO ACTION"])
    };
    data.constraints().into_iter().filter_map(row).collect()
}

fn grants(data: &Data) -> Rows {
    let mut rows = vec![];
    for table in &data.relations {
        for (user, role) in &data.roles {
            let writes: &[&str] = if *role == Role::Read { &[] } else { &["INSERT", "UPDATE", "DELETE", "TRUNCATE"] };
            for right in ["SELECT"].iter().chain(writes) {
                let name = table.relation.name.as_str();
                rows.push(row![data.user.as_str(), user.as_str(), DATABASE, "public", name, *right, "NO", "NO"]);
            }
        }
    }
    rows
}

fn live_rows(data: &Data) -> Rows {
    let tables = data.relations.iter().filter(|table| table.relation.view.is_none());
    let row = |table: &Numbered| {
        let rows = table.relation.rows.unwrap_or(0) as i64;
        row![table.oid, "public", table.relation.name.as_str(), rows, 0]
    };
    tables.map(row).collect()
}

/// The schema `pg_catalog` of one session.
#[derive(Debug)]
pub struct CatalogSchema {
    catalog: Catalog,
}

impl CatalogSchema {
    pub fn new(catalog: Catalog) -> Self {
        CatalogSchema { catalog }
    }
}

#[async_trait]
impl SchemaProvider for CatalogSchema {
    fn table_names(&self) -> Vec<String> {
        TABLES.iter().map(|table| table.name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let Some(table) = TABLES.iter().find(|table| table.name == name) else { return Ok(None) };
        let batch = batch(table.columns, (table.rows)(&self.catalog.data()))?;
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|table| table.name == name)
    }
}

fn batch(columns: &str, rows: Rows) -> Result<RecordBatch, DataFusionError> {
    let (mut fields, mut arrays) = (vec![], vec![]);
    for (at, column) in columns.split(',').enumerate() {
        let (name, kind) = column.trim().rsplit_once(' ').unwrap_or((column, "t"));
        let array = array(kind, rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Null)));
        fields.push(Field::new(name.trim(), array.data_type().clone(), true));
        arrays.push(array);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn array<'a>(kind: &str, cells: impl Iterator<Item = &'a Cell>) -> ArrayRef {
    match kind {
        "i" => {
            Arc::new(cells.map(|cell| if let Cell::Int(v) = cell { Some(*v) } else { None }).collect::<Int64Array>())
        }
        "f" => Arc::new(
            cells.map(|cell| if let Cell::Float(v) = cell { Some(*v) } else { None }).collect::<Float64Array>(),
        ),
        "b" => {
            Arc::new(cells.map(|cell| if let Cell::Bool(v) = cell { Some(*v) } else { None }).collect::<BooleanArray>())
        }
        "l" => {
            let field = Field::new("item", DataType::Int64, true);
            let mut lists = ListBuilder::new(Int64Builder::new()).with_field(field);
            for cell in cells {
                match cell {
                    Cell::Ints(values) => lists.append_value(values.iter().copied().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        _ => Arc::new(
            cells.map(|cell| if let Cell::Text(v) = cell { Some(v.as_str()) } else { None }).collect::<StringArray>(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_as_many_values_as_columns() {
        use freestone::{Reference, Relation};
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]));
        let relation = Relation {
            name: "t".into(),
            schema: Some(schema),
            rows: Some(3),
            view: None,
            primary_key: vec!["a".into()],
            foreign_keys: vec![Reference {
                columns: vec!["a".into()],
                table: "t".into(),
                referenced: vec!["a".into()],
            }],
        };
        let view = Relation { name: "v".into(), view: Some("SELECT 1".into()), ..relation.clone() };
        let data = Data::new(vec![relation, view], vec![("ann".into(), Role::Admin)], "ann".into());
        for table in TABLES {
            let columns: Vec<&str> = table.columns.split(',').collect();
            let rows = (table.rows)(&data);
            assert!(rows.is_empty() || !is_empty(table.name), "{}", table.name);
            for row in rows {
                assert_eq!(row.len(), columns.len(), "{}", table.name);
                for (cell, column) in row.iter().zip(&columns) {
                    let fits = matches!(
                        (cell, column.chars().last()),
                        (Cell::Null, _)
                            | (Cell::Int(_), Some('i'))
                            | (Cell::Text(_), Some('t'))
                            | (Cell::Bool(_), Some('b'))
                            | (Cell::Float(_), Some('f'))
                            | (Cell::Ints(_), Some('l'))
                    );
                    assert!(fits, "{}: {column} is {cell:?}", table.name);
                }
            }
        }
    }
}
