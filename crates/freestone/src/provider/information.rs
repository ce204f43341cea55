//! `information_schema`: tables, columns, views, keys and functions in the form of the SQL standard, with the types' names in SQL.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableFunction, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::TableType;
use freestone_store::schema::{Constraint, ConstraintKind, ForeignKey};
use freestone_store::{Snapshot, Table};

use super::columns::{batch, texts};
use crate::definitions;
use crate::error::Result;
use crate::internal_names::{PG_TEMP, is_temporary};
use crate::sequences::{self, SequenceRelation};
use crate::sql::function_macros;
use crate::sql::names::{CATALOG, SCHEMA, name_in};
use crate::temp_schema::TempSchema;
use crate::text_types::field_type;
use crate::type_names::type_name;

/// The name of the schema.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

const TABLES: [&str; 11] = [
    "schemata",
    "tables",
    "columns",
    "views",
    "table_constraints",
    "key_column_usage",
    "referential_constraints",
    "check_constraints",
    "routines",
    "sequences",
    "character_sets",
];

/// The schema of one statement.
pub(crate) struct InformationSchema {
    /// The schemas that are listed. Views that cannot be planned must have no columns in it.
    pub catalog: Arc<dyn CatalogProvider>,
    pub snapshot: Arc<Snapshot>,
    /// The session's functions of rows, aggregates and windows.
    pub state: Arc<SessionState>,
    /// Which temporary tables are listed.
    pub temp: TempSchema,
    /// The functions in FROM.
    pub table_functions: Arc<HashMap<String, Arc<TableFunction>>>,
}

impl fmt::Debug for InformationSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformationSchema").finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        TABLES.map(str::to_owned).to_vec()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let rows = match name.to_ascii_lowercase().as_str() {
            "schemata" => self.schemata()?,
            "tables" => self.tables().await?,
            "columns" => self.columns().await?,
            "views" => self.views()?,
            "table_constraints" => self.table_constraints()?,
            "key_column_usage" => self.key_column_usage()?,
            "referential_constraints" => self.referential_constraints()?,
            "check_constraints" => self.check_constraints()?,
            "routines" => self.routines()?,
            "sequences" => self.sequences()?,
            "character_sets" => character_sets()?,
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?)))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        Ok(self.table_exist(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|table| table.eq_ignore_ascii_case(name))
    }
}

/// A constraint of a table.
struct OfTable<'a> {
    table: &'a Table,
    name: String,
    kind: ConstraintKind<'a>,
}

impl OfTable<'_> {
    fn reference(&self) -> Option<&ForeignKey> {
        match self.kind {
            ConstraintKind::Foreign(key) => Some(key),
            _ => None,
        }
    }
}

/// A column of one text that all rows have.
fn all(text: &str, rows: usize) -> ArrayRef {
    texts(std::iter::repeat_n(Some(text.to_owned()), rows))
}

fn column<T>(rows: &[T], text: impl Fn(&T) -> String) -> ArrayRef {
    texts(rows.iter().map(|row| Some(text(row))))
}

/// The one character set, as in PostgreSQL.
fn character_sets() -> Result<RecordBatch> {
    let none = || texts(std::iter::once(None));
    batch(vec![
        ("character_set_catalog", true, none()),
        ("character_set_schema", true, none()),
        ("character_set_name", false, all("UTF8", 1)),
        ("character_repertoire", false, all("UCS", 1)),
        ("form_of_use", false, all("UTF8", 1)),
        ("default_collate_catalog", true, none()),
        ("default_collate_schema", true, none()),
        ("default_collate_name", true, none()),
    ])
}

fn integers<T>(rows: &[T], number: impl Fn(&T) -> Option<i32>) -> ArrayRef {
    Arc::new(rows.iter().map(number).collect::<Int32Array>())
}

impl InformationSchema {
    fn schemas(&self) -> Vec<String> {
        let listed = self.catalog.schema_names().into_iter();
        listed.chain([INFORMATION_SCHEMA.to_owned()]).collect()
    }

    fn schemata(&self) -> Result<RecordBatch> {
        let schemas = self.schemas();
        batch(vec![
            ("catalog_name", false, all(CATALOG, schemas.len())),
            ("schema_name", false, column(&schemas, String::clone)),
            ("schema_owner", false, all(CATALOG, schemas.len())),
        ])
    }

    /// The names of all tables with their schemas, in order.
    fn names(&self) -> Vec<(String, String)> {
        let mut names: Vec<_> = TABLES.iter().map(|name| (INFORMATION_SCHEMA.to_owned(), (*name).to_owned())).collect();
        for schema in self.catalog.schema_names() {
            let tables = self.catalog.schema(&schema).map(|tables| tables.table_names()).unwrap_or_default();
            names.extend(tables.into_iter().map(|table| (schema.clone(), table)));
        }
        names.sort();
        names
    }

    async fn tables(&self) -> Result<RecordBatch, DataFusionError> {
        let mut rows = vec![];
        for (schema, name) in self.names() {
            let kind = match self.catalog.schema(&schema).filter(|_| schema != INFORMATION_SCHEMA) {
                Some(tables) => tables.table_type(&name).await?,
                None => Some(TableType::View),
            };
            let is_materialized =
                self.stored(&schema, &name).is_some_and(|table| self.snapshot.materialized(table.id).is_some());
            rows.push((schema, name, kind, is_materialized));
        }
        let kind = |kind: &Option<TableType>, is_materialized: bool| match kind {
            _ if is_materialized => "MATERIALIZED VIEW",
            Some(TableType::View) => "VIEW",
            Some(TableType::Temporary) => "LOCAL TEMPORARY",
            _ => "BASE TABLE",
        };
        Ok(batch(vec![
            ("table_catalog", false, all(CATALOG, rows.len())),
            ("table_schema", false, column(&rows, |row| row.0.clone())),
            ("table_name", false, column(&rows, |row| row.1.clone())),
            ("table_type", false, column(&rows, |row| kind(&row.2, row.3).to_owned())),
        ])?)
    }

    async fn columns(&self) -> Result<RecordBatch, DataFusionError> {
        let mut rows: Vec<(String, String, i32, Field)> = vec![];
        let mut defaults: Vec<Option<String>> = vec![];
        for (schema, name) in self.names() {
            let table = match self.catalog.schema(&schema).filter(|_| schema != INFORMATION_SCHEMA) {
                Some(tables) => tables.table(&name).await?,
                None => None,
            };
            let described = table.map(|table| table.schema());
            let stored = self.stored(&schema, &name);
            for (at, field) in described.iter().flat_map(|described| described.fields()).enumerate() {
                rows.push((schema.clone(), name.clone(), at as i32 + 1, field.as_ref().clone()));
                let default_of = |table: &Arc<Table>| {
                    let stored_at = table.schema.index_of(field.name()).ok()?;
                    table.schema.default_of(stored_at).map(str::to_owned)
                };
                defaults.push(stored.and_then(default_of));
            }
        }
        let nullable = |row: &(_, _, _, Field)| if row.3.is_nullable() { "YES" } else { "NO" }.to_owned();
        let of_type = |of: fn(&DataType) -> Option<i32>| integers(&rows, |row| of(row.3.data_type()));
        Ok(batch(vec![
            ("table_catalog", false, all(CATALOG, rows.len())),
            ("table_schema", false, column(&rows, |row| row.0.clone())),
            ("table_name", false, column(&rows, |row| row.1.clone())),
            ("column_name", false, column(&rows, |row| row.3.name().clone())),
            ("ordinal_position", false, integers(&rows, |row| Some(row.2))),
            ("column_default", true, texts(defaults.into_iter())),
            ("is_nullable", false, column(&rows, nullable)),
            ("data_type", false, column(&rows, |row| field_type(&row.3))),
            ("character_maximum_length", true, of_type(|_| None)),
            ("numeric_precision", true, of_type(|data_type| digits(data_type).map(|(precision, _, _)| precision))),
            ("numeric_precision_radix", true, of_type(|data_type| digits(data_type).map(|(_, radix, _)| radix))),
            ("numeric_scale", true, of_type(|data_type| digits(data_type).and_then(|(_, _, scale)| scale))),
            ("datetime_precision", true, of_type(fraction_digits)),
        ])?)
    }

    /// The table of the database with this name in a schema.
    fn stored(&self, schema: &str, name: &str) -> Option<&Arc<Table>> {
        match schema {
            SCHEMA => self.snapshot.table(name),
            PG_TEMP => self.snapshot.table(&name_in(self.temp.name(), name)),
            schema => self.snapshot.table(&name_in(schema, name)),
        }
    }

    fn views(&self) -> Result<RecordBatch> {
        let views: Vec<_> = self.temp.views(&self.snapshot).collect();
        batch(vec![
            ("table_catalog", false, all(CATALOG, views.len())),
            ("table_schema", false, column(&views, |(name, _)| self.split(name).0)),
            ("table_name", false, column(&views, |(name, _)| self.split(name).1)),
            ("view_definition", false, column(&views, |(_, query)| (*query).to_owned())),
        ])
    }

    fn constraints(&self) -> Vec<OfTable<'_>> {
        let mut constraints = vec![];
        for table in self.temp.tables(&self.snapshot) {
            let all = table.schema.constraints(&table.name).into_iter();
            constraints.extend(all.map(|Constraint { name, kind }| OfTable { table, name, kind }));
        }
        constraints
    }

    fn table_constraints(&self) -> Result<RecordBatch> {
        let rows = self.constraints();
        let kind = |row: &OfTable| {
            let kind = match row.kind {
                ConstraintKind::Primary(..) => "PRIMARY KEY",
                ConstraintKind::Unique(_) => "UNIQUE",
                ConstraintKind::Foreign(_) => "FOREIGN KEY",
                ConstraintKind::Check(_) => "CHECK",
            };
            kind.to_owned()
        };
        let enforced = |row: &OfTable| {
            let is_enforced = match row.kind {
                ConstraintKind::Primary(_, is_enforced) => is_enforced,
                ConstraintKind::Foreign(key) => key.enforced,
                ConstraintKind::Unique(_) | ConstraintKind::Check(_) => true,
            };
            if is_enforced { "YES" } else { "NO" }.to_owned()
        };
        batch(vec![
            ("constraint_catalog", false, all(CATALOG, rows.len())),
            ("constraint_schema", false, column(&rows, |row| self.split(&row.table.name).0)),
            ("constraint_name", false, column(&rows, |row| row.name.clone())),
            ("table_catalog", false, all(CATALOG, rows.len())),
            ("table_schema", false, column(&rows, |row| self.split(&row.table.name).0)),
            ("table_name", false, column(&rows, |row| self.split(&row.table.name).1)),
            ("constraint_type", false, column(&rows, kind)),
            ("is_deferrable", false, all("NO", rows.len())),
            ("initially_deferred", false, all("NO", rows.len())),
            ("enforced", false, column(&rows, enforced)),
        ])
    }

    fn key_column_usage(&self) -> Result<RecordBatch> {
        let constraints = self.constraints();
        let mut rows = vec![];
        for constraint in &constraints {
            rows.extend(constraint.kind.columns().iter().zip(1..).map(|(name, place)| (constraint, name, place)));
        }
        let unique = |(constraint, _, place): &(&OfTable, _, i32)| constraint.reference().map(|_| *place);
        batch(vec![
            ("constraint_catalog", false, all(CATALOG, rows.len())),
            ("constraint_schema", false, column(&rows, |row| self.split(&row.0.table.name).0)),
            ("constraint_name", false, column(&rows, |row| row.0.name.clone())),
            ("table_catalog", false, all(CATALOG, rows.len())),
            ("table_schema", false, column(&rows, |row| self.split(&row.0.table.name).0)),
            ("table_name", false, column(&rows, |row| self.split(&row.0.table.name).1)),
            ("column_name", false, column(&rows, |row| row.1.clone())),
            ("ordinal_position", false, integers(&rows, |row| Some(row.2))),
            ("position_in_unique_constraint", true, integers(&rows, unique)),
        ])
    }

    fn referential_constraints(&self) -> Result<RecordBatch> {
        let mut rows = self.constraints();
        rows.retain(|row| row.reference().is_some());
        let unique = |row: &OfTable| key_name(self.snapshot.table(&row.reference()?.table)?, row.reference()?);
        let to = |row: &OfTable| row.reference().map(|key| self.split(&key.table).0);
        batch(vec![
            ("constraint_catalog", false, all(CATALOG, rows.len())),
            ("constraint_schema", false, column(&rows, |row| self.split(&row.table.name).0)),
            ("constraint_name", false, column(&rows, |row| row.name.clone())),
            ("unique_constraint_catalog", false, all(CATALOG, rows.len())),
            ("unique_constraint_schema", true, texts(rows.iter().map(to))),
            ("unique_constraint_name", true, texts(rows.iter().map(unique))),
            ("match_option", false, all("NONE", rows.len())),
            ("update_rule", false, all("NO ACTION", rows.len())),
            ("delete_rule", false, all("NO ACTION", rows.len())),
        ])
    }

    fn check_constraints(&self) -> Result<RecordBatch> {
        let mut rows = vec![];
        for row in self.constraints() {
            if let ConstraintKind::Check(check) = row.kind {
                rows.push((self.split(&row.table.name).0, row.name, check.condition.clone()));
            }
        }
        batch(vec![
            ("constraint_catalog", false, all(CATALOG, rows.len())),
            ("constraint_schema", false, column(&rows, |row| row.0.clone())),
            ("constraint_name", false, column(&rows, |row| row.1.clone())),
            ("check_clause", false, column(&rows, |row| row.2.clone())),
        ])
    }

    /// A table's schema and its name within it.
    fn split(&self, table: &str) -> (String, String) {
        match definitions::schema_of(&self.snapshot, table) {
            Some((_, name)) if is_temporary(table) => (PG_TEMP.to_owned(), name.to_owned()),
            Some((schema, name)) => (schema.to_owned(), name.to_owned()),
            None => (SCHEMA.to_owned(), table.to_owned()),
        }
    }

    /// The functions with their kinds, without those that only the engine calls.
    fn functions(&self) -> Vec<(String, &'static str)> {
        let state = &self.state;
        let scalar = state.scalar_functions().keys().filter(|name| !name.starts_with("freestone_"));
        let scalar = scalar.map(|name| (name.clone(), "SCALAR"));
        let aggregate = state.aggregate_functions().keys().map(|name| (name.clone(), "AGGREGATE"));
        let window = state.window_functions().keys().map(|name| (name.clone(), "WINDOW"));
        let table = self.table_functions.keys().map(|name| (name.clone(), "TABLE"));
        let macros = function_macros::names().map(|name| (name.to_owned(), "SCALAR"));
        let all = scalar.chain(aggregate).chain(window).chain(table).chain(macros);
        let mut names: Vec<_> = all.filter(|(name, _)| !name.contains('$') && !name.starts_with('_')).collect();
        names.sort();
        names.dedup();
        names
    }

    fn sequences(&self) -> Result<RecordBatch> {
        let rows = sequences::relations(&self.snapshot, &|name| self.temp.sees(name));
        let schema = |row: &SequenceRelation| match row.is_temporary {
            true => PG_TEMP.to_owned(),
            false => self.split(&row.name).0,
        };
        let name = |row: &SequenceRelation| match row.is_temporary {
            true => row.name.split_once('.').map_or(&*row.name, |(_, own)| own).to_owned(),
            false => self.split(&row.name).1,
        };
        let of = |number: fn(&SequenceRelation) -> i64| column(&rows, |row| number(row).to_string());
        batch(vec![
            ("sequence_catalog", false, all(CATALOG, rows.len())),
            ("sequence_schema", false, column(&rows, schema)),
            ("sequence_name", false, column(&rows, name)),
            ("data_type", false, column(&rows, |row| type_name(&row.data_type))),
            ("numeric_precision", true, integers(&rows, |row| digits(&row.data_type).map(|(digits, ..)| digits))),
            ("numeric_precision_radix", true, integers(&rows, |_| Some(2))),
            ("numeric_scale", true, integers(&rows, |_| Some(0))),
            ("start_value", false, of(|row| row.start)),
            ("minimum_value", false, of(|row| row.min)),
            ("maximum_value", false, of(|row| row.max)),
            ("increment", false, of(|row| row.increment)),
            ("cycle_option", false, column(&rows, |row| if row.cycle { "YES" } else { "NO" }.to_owned())),
        ])
    }

    fn routines(&self) -> Result<RecordBatch> {
        let functions = &self.functions();
        batch(vec![
            ("routine_catalog", false, all(CATALOG, functions.len())),
            ("routine_schema", false, all(SCHEMA, functions.len())),
            ("routine_name", false, column(functions, |(name, _)| name.clone())),
            ("routine_type", false, all("FUNCTION", functions.len())),
            ("function_type", false, column(functions, |(_, kind)| (*kind).to_owned())),
        ])
    }
}

/// The name of the key to which a foreign key refers.
fn key_name(table: &Table, reference: &ForeignKey) -> Option<String> {
    let columns = match reference.referenced.as_slice() {
        [] => &table.schema.primary_key,
        columns => columns,
    };
    let all = table.schema.constraints(&table.name).into_iter();
    let mut keys = all.filter(|key| matches!(key.kind, ConstraintKind::Primary(..) | ConstraintKind::Unique(_)));
    let is_of = |key: &Constraint| {
        let of = key.kind.columns();
        of.len() == columns.len() && of.iter().all(|name| columns.contains(name))
    };
    keys.find(is_of).map(|key| key.name)
}

/// Of numbers: the digits, their radix, and the digits after the point of exact numbers.
pub(super) fn digits(data_type: &DataType) -> Option<(i32, i32, Option<i32>)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (8, 2, Some(0)),
        DataType::Int16 | DataType::UInt16 => (16, 2, Some(0)),
        DataType::Int32 | DataType::UInt32 => (32, 2, Some(0)),
        DataType::Int64 | DataType::UInt64 => (64, 2, Some(0)),
        DataType::Float32 => (24, 2, None),
        DataType::Float64 => (53, 2, None),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (i32::from(*precision), 10, Some(i32::from(*scale)))
        }
        _ => return None,
    })
}

/// The digits of a fraction of a second.
fn fraction_digits(data_type: &DataType) -> Option<i32> {
    let (DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit)) = data_type else {
        return None;
    };
    Some(match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    })
}
