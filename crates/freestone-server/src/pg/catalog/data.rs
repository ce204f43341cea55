//! The objects of the database with OIDs, as PostgreSQL has them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use freestone::{Relation, SequenceRelation};

use crate::advisory::AdvisoryLocks;
use crate::pg::connection::ChannelChanges;
use crate::pg::origins::{hash, object_oid};
use crate::pg::search_path::{self, PUBLIC};
use crate::pg::settings::Settings;
use crate::pg::types::ColumnType;
use crate::sessions::Peers;
use crate::users::Role;

pub const PG_CATALOG: &str = "pg_catalog";

pub const OID_PG_CATALOG: i64 = 11;
pub const OID_PUBLIC: i64 = 2200;
pub const OID_INFORMATION_SCHEMA: i64 = 13_000;
pub const OID_DATABASE: i64 = 16_384;
/// The schema of the session's temporary tables.
pub const OID_PG_TEMP: i64 = 13_001;
pub const PG_TEMP: &str = "pg_temp";
pub const OID_HEAP: i64 = 2;
pub const OID_BTREE: i64 = 403;
/// The first OID of tables of the catalog that have none of PostgreSQL.
const OID_CATALOG_FIRST: i64 = 3100;

/// The data from which the tables and functions of the catalog are computed.
#[derive(Debug)]
pub struct Data {
    pub relations: Vec<RelationOids>,
    pub sequences: Vec<SequenceOid>,
    /// The schemas that CREATE SCHEMA has made.
    pub schemas: Vec<String>,
    pub roles: Vec<(String, Role)>,
    pub user: String,
    pub peers: Peers,
    /// The types of labels, by name, with the labels.
    pub enums: Vec<(String, Vec<String>)>,
    /// The settings of the session.
    pub settings: Settings,
    /// To which `set_config` adds.
    pub assigned: Assignments,
    /// To which `pg_notify` adds.
    pub channel_changes: ChannelChanges,
    /// The locks of `pg_advisory_lock`, if the server has some.
    pub advisory_locks: Arc<AdvisoryLocks>,
    /// The name under which the client knows the database.
    pub database: String,
    pub prepared: Vec<PreparedRow>,
    pub cursors: Vec<CursorRow>,
}

/// A setting that `set_config` has assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    pub name: String,
    pub value: String,
    /// Whether the value holds until the end of the transaction only.
    pub local: bool,
}

/// Settings that wait for their statement's end.
#[derive(Debug, Clone, Default)]
pub struct Assignments(Arc<Mutex<Vec<Assigned>>>);

impl Assignments {
    pub fn add(&self, assigned: Assigned) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(assigned);
    }

    /// All of them, which are forgotten here.
    pub fn take(&self) -> Vec<Assigned> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A prepared statement of the session, with the names of types.
#[derive(Debug)]
pub struct PreparedRow {
    pub name: String,
    pub text: String,
    pub since: SystemTime,
    pub parameters: Vec<String>,
    /// `None` if it has no rows.
    pub results: Option<Vec<String>>,
    pub from_sql: bool,
}

/// An open cursor of the session.
#[derive(Debug)]
pub struct CursorRow {
    pub name: String,
    /// The statement that declared it.
    pub text: String,
    pub since: SystemTime,
    pub is_holdable: bool,
    pub is_binary: bool,
    pub is_scrollable: bool,
}

/// A table or view with its OID, and its indexes. The OID of the primary key is that of an index and of a constraint.
#[derive(Debug)]
pub struct RelationOids {
    pub oid: i64,
    pub key_oid: i64,
    pub indexes: Vec<Index>,
    pub relation: Relation,
    /// The schema that CREATE SCHEMA has made, if it is in one.
    pub in_schema: Option<String>,
}

/// An index of a table: of a key, or one that has a name.
#[derive(Debug)]
pub struct Index {
    pub oid: i64,
    pub name: String,
    pub columns: Vec<String>,
    pub is_unique: bool,
    pub is_primary: bool,
}

/// A sequence with its OID.
#[derive(Debug)]
pub struct SequenceOid {
    pub oid: i64,
    pub sequence: SequenceRelation,
    /// The schema that CREATE SCHEMA has made, if it is in one.
    pub in_schema: Option<String>,
}

/// A constraint of a table.
#[derive(Debug)]
pub struct Constraint<'a> {
    pub oid: i64,
    pub name: String,
    /// As in `pg_constraint`: p, u, f or c.
    pub kind: &'static str,
    pub table: &'a RelationOids,
    pub columns: &'a [String],
    /// Of a CHECK.
    pub condition: Option<&'a str>,
    /// The table and columns to which a foreign key refers.
    pub referenced: Option<(&'a str, &'a [String])>,
    pub enforced: bool,
}

impl Data {
    pub fn new(
        mut relations: Vec<Relation>,
        sequences: Vec<SequenceRelation>,
        roles: Vec<(String, Role)>,
        peers: Peers,
    ) -> Data {
        relations.sort_by(|a, b| a.name.cmp(&b.name));
        let mut taken = HashMap::new();
        let relations: Vec<_> = relations.into_iter().map(|relation| numbered(relation, &mut taken)).collect();
        let sequences = sequences.into_iter().map(|sequence| {
            let oid = number(&mut taken, &format!("{} sequence", sequence.name));
            SequenceOid { oid, sequence, in_schema: None }
        });
        Data {
            relations,
            sequences: sequences.collect(),
            schemas: vec![],
            roles,
            user: peers.user.clone(),
            peers,
            enums: vec![],
            settings: Settings::new("", false, None),
            assigned: Assignments::default(),
            channel_changes: ChannelChanges::default(),
            advisory_locks: Arc::default(),
            database: String::new(),
            prepared: vec![],
            cursors: vec![],
        }
    }

    /// The same with the schemas that CREATE SCHEMA has made, in which some of the objects are.
    pub fn with_schemas(mut self, schemas: Vec<String>) -> Data {
        let schema_of = |name: &str| Some(name.split_once('.')?.0.to_owned()).filter(|schema| schemas.contains(schema));
        for table in self.relations.iter_mut().filter(|table| !table.relation.is_temporary) {
            table.in_schema = schema_of(&table.relation.name);
            let Some(schema) = &table.in_schema else { continue };
            for index in &mut table.indexes {
                let own = index.name.strip_prefix(schema).and_then(|rest| rest.strip_prefix('.')).map(str::to_owned);
                index.name = own.unwrap_or_else(|| std::mem::take(&mut index.name));
            }
        }
        for of in self.sequences.iter_mut().filter(|of| !of.sequence.is_temporary) {
            of.in_schema = schema_of(&of.sequence.name);
        }
        Data { schemas, ..self }
    }

    pub fn relation(&self, oid: i64) -> Option<&RelationOids> {
        self.relations.iter().find(|known| known.oid == oid)
    }

    /// The table or view of a name, which is looked for in the schemas of the search path if it names none.
    pub fn named(&self, name: &str) -> Option<&RelationOids> {
        let is_own = |known: &&RelationOids| known.relation.is_temporary && known.relation.own_name() == name;
        let own = self.relations.iter().find(is_own);
        let whole = |name: &str| self.relations.iter().find(|known| known.relation.name == name);
        let within = |schema: &String| match schema == PUBLIC {
            true => whole(name).filter(|found| found.in_schema.is_none()),
            false => whole(&format!("{schema}.{name}")),
        };
        own.or_else(|| self.search_path().iter().find_map(within)).or_else(|| whole(name))
    }

    /// The schemas in which names are looked for.
    pub fn search_path(&self) -> Vec<String> {
        self.settings.show("search_path").map(|(_, setting)| search_path::schemas(setting)).unwrap_or_default()
    }

    /// The schemas of the search path that exist.
    pub fn searched_schemas(&self) -> Vec<String> {
        let exists = |schema: &String| schema == PUBLIC || self.schemas.contains(schema);
        self.search_path().into_iter().filter(exists).collect()
    }

    /// All indexes, with their tables.
    pub fn indexes(&self) -> impl Iterator<Item = (&RelationOids, &Index)> {
        self.relations.iter().flat_map(|table| table.indexes.iter().map(move |index| (table, index)))
    }

    /// The bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.relations.iter().map(|table| table.relation.bytes + table.relation.copy_bytes).sum()
    }

    /// Whether the session has temporary tables.
    pub fn has_temporary(&self) -> bool {
        self.relations.iter().any(|known| known.relation.is_temporary)
    }

    pub fn role_oid(&self, name: &str) -> i64 {
        10 + self.roles.iter().position(|(known, _)| known == name).unwrap_or(0) as i64
    }

    /// Whether the table has a foreign key, or one refers to it. PostgreSQL enforces foreign keys by triggers on both
    /// tables.
    pub fn has_references(&self, table: &RelationOids) -> bool {
        let refers =
            |other: &RelationOids| other.relation.foreign_keys.iter().any(|key| key.table == table.relation.name);
        !table.relation.foreign_keys.is_empty() || self.relations.iter().any(refers)
    }

    /// The comments: the OID of the table or view, the number of the column or 0, and the text.
    pub fn comments(&self) -> impl Iterator<Item = (i64, i64, &str)> {
        self.relations.iter().flat_map(|table| {
            let own = table.relation.comment.as_deref().map(|text| (table.oid, 0, text));
            let of_column = |(at, (name, ..)): (usize, (&str, ColumnType, bool))| {
                Some((table.oid, at as i64 + 1, table.relation.column_comments.get(name)?.as_str()))
            };
            own.into_iter().chain(table.columns().enumerate().filter_map(of_column))
        })
    }

    /// The OID of the owner of all objects.
    pub fn owner(&self) -> i64 {
        self.role_oid(&self.user)
    }

    /// Keys and conditions.
    pub fn constraints(&self) -> Vec<Constraint<'_>> {
        let mut all = vec![];
        for table in &self.relations {
            let relation = &table.relation;
            if !relation.primary_key.is_empty() {
                all.push(Constraint {
                    oid: table.key_oid,
                    name: relation.primary_key_name.clone(),
                    kind: "p",
                    condition: None,
                    table,
                    columns: &relation.primary_key,
                    referenced: None,
                    enforced: relation.primary_key_enforced,
                });
            }
            for (at, key) in relation.foreign_keys.iter().enumerate() {
                all.push(Constraint {
                    oid: table.key_oid + 1_000_000_000 + at as i64,
                    name: key.name.clone(),
                    kind: "f",
                    condition: None,
                    table,
                    columns: &key.columns,
                    referenced: Some((&key.table, &key.referenced)),
                    enforced: key.enforced,
                });
            }
            let unique = relation.unique.iter().map(|(name, columns)| (name, "u", columns.as_slice(), None));
            let checks = relation.checks.iter().map(|(name, text)| (name, "c", &[][..], Some(text.as_str())));
            for ((name, kind, columns, condition), at) in unique.chain(checks).zip(1..) {
                let oid = table.key_oid + 2_000_000_000 + at;
                let (name, referenced, enforced) = (name.clone(), None, true);
                all.push(Constraint { oid, name, kind, table, columns, condition, referenced, enforced });
            }
        }
        all
    }
}

impl SequenceOid {
    /// The OID of its schema, the schema's name, and its name within.
    pub fn names(&self) -> (i64, &str, &str) {
        let name = self.sequence.name.as_str();
        match (&self.in_schema, name.split_once('.')) {
            (Some(schema), Some((_, own))) => (schema_oid(schema), schema, own),
            (None, Some((_, own))) if self.sequence.is_temporary => (OID_PG_TEMP, PG_TEMP, own),
            _ => (OID_PUBLIC, "public", name),
        }
    }

    /// The OID of the type of its numbers, and the type's name.
    pub fn of_type(&self) -> (i64, &'static str) {
        let kind = ColumnType::of(&self.sequence.data_type);
        (i64::from(kind.oid()), kind.element.sql)
    }
}

/// The beginnings of conditions that are the types of their columns: JSON, INET and labels.
const TYPE_CHECKS: [&str; 3] = ["freestone_is_json(", "freestone_is_normal(", "freestone_enum("];

/// A relation with numbers for it and its indexes.
fn numbered(mut relation: Relation, taken: &mut HashMap<i64, ()>) -> RelationOids {
    relation.checks.retain(|(_, condition)| !TYPE_CHECKS.iter().any(|own| condition.starts_with(own)));
    let oid = number(taken, &relation.name);
    let key_oid = number(taken, &format!("{} pkey", relation.name));
    let mut indexes = vec![];
    if !relation.primary_key.is_empty() {
        let (name, columns) = (relation.primary_key_name.clone(), relation.primary_key.clone());
        indexes.push(Index { oid: key_oid, name, columns, is_unique: true, is_primary: true });
    }
    let unique = relation.unique.iter().map(|named| (named, true));
    for ((name, columns), is_unique) in unique.chain(relation.indexes.iter().map(|named| (named, false))) {
        if indexes.iter().all(|known| known.name != *name) {
            let oid = number(taken, &format!("{} {name} index", relation.name));
            let (name, columns) = (name.clone(), columns.clone());
            indexes.push(Index { oid, name, columns, is_unique, is_primary: false });
        }
    }
    RelationOids { oid, key_oid, indexes, relation, in_schema: None }
}

impl RelationOids {
    /// The index of the key that consists of these columns.
    pub fn key_index(&self, columns: &[String]) -> Option<&Index> {
        let name = self.relation.key_name(columns)?;
        self.indexes.iter().find(|index| index.name == name)
    }

    /// The OID of its schema, and the schema's name.
    pub fn schema(&self) -> (i64, &str) {
        match &self.in_schema {
            Some(schema) => (schema_oid(schema), schema),
            None if self.relation.is_temporary => (OID_PG_TEMP, PG_TEMP),
            None => (OID_PUBLIC, "public"),
        }
    }

    /// The name within its schema.
    pub fn own_name(&self) -> &str {
        let own = self.in_schema.as_ref().and_then(|_| self.relation.name.split_once('.'));
        own.map_or(self.relation.own_name(), |(_, own)| own)
    }

    /// The name of one of its indexes with the schema that is not searched.
    pub fn index_name(&self, index: &Index) -> String {
        let schema = self.in_schema.as_deref();
        schema.map_or_else(|| index.name.clone(), |schema| format!("{schema}.{}", index.name))
    }

    /// Its name as a client has to write it: with a schema that is not searched.
    pub fn written_name(&self) -> String {
        let own = ident(self.own_name());
        self.in_schema.as_deref().map_or(own.clone(), |schema| format!("{}.{own}", ident(schema)))
    }

    /// The columns: name, type, and whether NULL is allowed.
    pub fn columns(&self) -> impl Iterator<Item = (&str, ColumnType, bool)> {
        let fields = self.relation.schema.iter().flat_map(|schema| schema.fields());
        fields.map(|field| (field.name().as_str(), ColumnType::of_field(field), field.is_nullable()))
    }

    /// The DEFAULT of a column.
    pub fn default_of(&self, column: usize) -> Option<&str> {
        self.relation.defaults.get(column)?.as_deref()
    }

    /// Whether a column has a DEFAULT of its own, and is no identity column.
    pub fn has_default(&self, column: usize) -> bool {
        let is_identity = self.relation.identities.get(column).is_some_and(Option::is_some);
        !is_identity && self.default_of(column).is_some()
    }

    /// The numbers of columns, counted from 1.
    pub fn places(&self, names: &[String]) -> Vec<i64> {
        let place = |name: &String| self.columns().position(|(known, ..)| known == name);
        names.iter().filter_map(place).map(|at| at as i64 + 1).collect()
    }
}

/// The OID of a schema that CREATE SCHEMA has made.
pub fn schema_oid(name: &str) -> i64 {
    object_oid(name)
}

/// The OID of a table of the catalog. Those to which other tables refer are PostgreSQL's.
pub fn catalog_oid(name: &str) -> i64 {
    match name {
        "pg_type" => 1247,
        "pg_attribute" => 1249,
        "pg_proc" => 1255,
        "pg_class" => 1259,
        "pg_database" => 1262,
        "pg_constraint" => 2606,
        "pg_namespace" => 2615,
        "pg_extension" => 3079,
        other => OID_CATALOG_FIRST + hash(other) % 6000,
    }
}

/// The OID of a name. It is the same in every session, so clients may store it.
fn number(taken: &mut HashMap<i64, ()>, name: &str) -> i64 {
    let mut oid = object_oid(name);
    while taken.insert(oid, ()).is_some() {
        oid += 1;
    }
    oid
}

/// A name as SQL reads it: in quotes where it needs them.
pub fn ident(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts && name.chars().all(is_plain) { name.to_owned() } else { freestone::quote(name) }
}
