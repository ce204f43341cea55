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
use freestone_store::{Snapshot, Table};

use super::metadata::{batch, texts};
use crate::definitions;
use crate::error::Result;
use crate::sql::function_macros;
use crate::sql::names::{CATALOG, SCHEMA};
use crate::sql::type_names::type_name;

/// The name of the schema.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

const TABLES: [&str; 8] = [
    "schemata",
    "tables",
    "columns",
    "views",
    "table_constraints",
    "key_column_usage",
    "referential_constraints",
    "routines",
];

/// The schema of one statement.
pub(crate) struct InformationSchema {
    /// The schemas that are listed. Views that cannot be planned must have no columns in it.
    pub catalog: Arc<dyn CatalogProvider>,
    pub snapshot: Arc<Snapshot>,
    /// The session's functions of rows, aggregates and windows.
    pub state: Arc<SessionState>,
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
            "routines" => self.routines()?,
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

/// A key of a table.
struct Constraint<'a> {
    name: String,
    table: &'a Table,
    columns: &'a [String],
    /// The referenced table of a foreign key.
    referenced: Option<&'a str>,
}

/// A column of one text that all rows have.
fn all(text: &str, rows: usize) -> ArrayRef {
    texts(std::iter::repeat_n(Some(text.to_owned()), rows))
}

fn column<T>(rows: &[T], text: impl Fn(&T) -> String) -> ArrayRef {
    texts(rows.iter().map(|row| Some(text(row))))
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
            rows.push((schema, name, kind));
        }
        let kind = |kind: &Option<TableType>| match kind {
            Some(TableType::View) => "VIEW",
            Some(TableType::Temporary) => "LOCAL TEMPORARY",
            _ => "BASE TABLE",
        };
        Ok(batch(vec![
            ("table_catalog", false, all(CATALOG, rows.len())),
            ("table_schema", false, column(&rows, |row| row.0.clone())),
            ("table_name", false, column(&rows, |row| row.1.clone())),
            ("table_type", false, column(&rows, |row| kind(&row.2).to_owned())),
        ])?)
    }

    async fn columns(&self) -> Result<RecordBatch, DataFusionError> {
        let mut rows: Vec<(String, String, i32, Field)> = vec![];
        for (schema, name) in self.names() {
            let table = match self.catalog.schema(&schema).filter(|_| schema != INFORMATION_SCHEMA) {
                Some(tables) => tables.table(&name).await?,
                None => None,
            };
            let described = table.map(|table| table.schema());
            for (at, field) in described.iter().flat_map(|described| described.fields()).enumerate() {
                rows.push((schema.clone(), name.clone(), at as i32 + 1, field.as_ref().clone()));
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
            ("column_default", true, texts(rows.iter().map(|_| None))),
            ("is_nullable", false, column(&rows, nullable)),
            ("data_type", false, column(&rows, |row| type_name(row.3.data_type()))),
            ("character_maximum_length", true, of_type(|_| None)),
            ("numeric_precision", true, of_type(|data_type| digits(data_type).map(|(precision, _, _)| precision))),
            ("numeric_precision_radix", true, of_type(|data_type| digits(data_type).map(|(_, radix, _)| radix))),
            ("numeric_scale", true, of_type(|data_type| digits(data_type).and_then(|(_, _, scale)| scale))),
            ("datetime_precision", true, of_type(fraction_digits)),
        ])?)
    }

    fn views(&self) -> Result<RecordBatch> {
        let views: Vec<_> = definitions::views(&self.snapshot).collect();
        batch(vec![
            ("table_catalog", false, all(CATALOG, views.len())),
            ("table_schema", false, column(&views, |(name, _)| self.split(name).0)),
            ("table_name", false, column(&views, |(name, _)| self.split(name).1)),
            ("view_definition", false, column(&views, |(_, query)| (*query).to_owned())),
        ])
    }

    fn constraints(&self) -> Vec<Constraint<'_>> {
        let mut constraints = vec![];
        for table in self.snapshot.tables() {
            let schema = &table.schema;
            if !schema.primary_key.is_empty() {
                let name = primary_key_name(table);
                constraints.push(Constraint { name, table, columns: &schema.primary_key, referenced: None });
            }
            for key in &schema.foreign_keys {
                let name = format!("{}_{}_fkey", table.name, key.columns.join("_"));
                constraints.push(Constraint { name, table, columns: &key.columns, referenced: Some(&key.table) });
            }
        }
        constraints
    }

    fn table_constraints(&self) -> Result<RecordBatch> {
        let rows = self.constraints();
        let kind = |row: &Constraint| if row.referenced.is_some() { "FOREIGN KEY" } else { "PRIMARY KEY" }.to_owned();
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
        ])
    }

    fn key_column_usage(&self) -> Result<RecordBatch> {
        let constraints = self.constraints();
        let mut rows = vec![];
        for constraint in &constraints {
            rows.extend(constraint.columns.iter().zip(1..).map(|(name, place)| (constraint, name, place)));
        }
        let unique = |(constraint, _, place): &(&Constraint, _, i32)| constraint.referenced.map(|_| *place);
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
        rows.retain(|row| row.referenced.is_some());
        let unique = |row: &Constraint| Some(primary_key_name(self.snapshot.table(row.referenced?)?));
        batch(vec![
            ("constraint_catalog", false, all(CATALOG, rows.len())),
            ("constraint_schema", false, column(&rows, |row| self.split(&row.table.name).0)),
            ("constraint_name", false, column(&rows, |row| row.name.clone())),
            ("unique_constraint_catalog", false, all(CATALOG, rows.len())),
            ("unique_constraint_schema", true, texts(rows.iter().map(|row| row.referenced.map(|to| self.split(to).0)))),
            ("unique_constraint_name", true, texts(rows.iter().map(unique))),
            ("match_option", false, all("NONE", rows.len())),
            ("update_rule", false, all("NO ACTION", rows.len())),
            ("delete_rule", false, all("NO ACTION", rows.len())),
        ])
    }

    /// A table's schema and its name within it.
    fn split(&self, table: &str) -> (String, String) {
        match definitions::schema_of(&self.snapshot, table) {
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

/// The name of the constraint; of a key that is not enforced, which has none, that of PostgreSQL.
fn primary_key_name(table: &Table) -> String {
    table.schema.enforced_primary_key().map_or_else(|| format!("{}_pkey", table.name), |key| key.name.clone())
}

/// Of numbers: the digits, their radix, and the digits after the point of exact numbers.
fn digits(data_type: &DataType) -> Option<(i32, i32, Option<i32>)> {
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
