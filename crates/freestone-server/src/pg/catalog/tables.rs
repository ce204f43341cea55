//! The schema `pg_catalog`. Its tables are computed from the database when a statement queries them.

use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, Int64Builder, ListBuilder, RecordBatch, StringArray,
    StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;

use super::cell::{Cell, Rows, TableOf};
use super::empty_tables::WITHOUT_ROWS;
use super::{Catalog, information, pg_tables};
use crate::pg::types::{self, ColumnType};

/// All tables with rows.
fn with_rows() -> impl Iterator<Item = &'static TableOf> {
    pg_tables::TABLES.iter().chain(information::TABLES)
}

/// The names of the tables of `pg_catalog`, without those of `information_schema`.
pub fn names() -> impl Iterator<Item = &'static str> {
    let without_rows = WITHOUT_ROWS.iter().map(|(name, _)| *name);
    with_rows().map(|table| table.name).chain(without_rows).filter(|name| name.starts_with("pg_"))
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
        let without_rows = WITHOUT_ROWS.iter().map(|(name, _)| *name);
        with_rows().map(|table| table.name).chain(without_rows).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let batch = match with_rows().find(|table| table.name == name) {
            Some(table) => batch(table.columns, (table.rows)(&self.catalog.data()))?,
            None => match WITHOUT_ROWS.iter().find(|(known, _)| *known == name) {
                Some((_, columns)) => batch(columns, vec![])?,
                None => return Ok(None),
            },
        };
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        with_rows().any(|table| table.name == name) || super::empty_tables::is_empty(name)
    }
}

/// Numbers that drivers look up for a type that they do not know, as OIDs of four bytes. The others are BIGINT.
const OIDS: [&str; 4] = ["typelem", "typbasetype", "typrelid", "rngsubtype"];

/// Lists that are written with blanks.
const INT2VECTORS: [&str; 2] = ["indkey", "indoption"];
const OIDVECTORS: [&str; 3] = ["indcollation", "indclass", "proargtypes"];

fn batch(columns: &str, rows: Rows) -> Result<RecordBatch, DataFusionError> {
    let (mut fields, mut arrays) = (vec![], vec![]);
    for (at, column) in columns.split(',').enumerate() {
        let (name, kind) = column.trim().rsplit_once(' ').unwrap_or((column, "t"));
        let array = array(kind, rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Null)));
        let field = Field::new(name.trim(), array.data_type().clone(), true);
        fields.push(match kind {
            "c" => ColumnType::plain(types::CHAR).note(field),
            "i" if OIDS.contains(&name.trim()) => ColumnType::plain(types::OID).note(field),
            "l" if INT2VECTORS.contains(&name.trim()) => ColumnType::plain(types::INT2VECTOR).note(field),
            "l" if OIDVECTORS.contains(&name.trim()) => ColumnType::plain(types::OIDVECTOR).note(field),
            _ => field,
        });
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
        "a" => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for cell in cells {
                match cell {
                    Cell::Texts(values) => lists.append_value(values.iter().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        "z" => {
            let micros =
                |time: &SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_micros().try_into().ok();
            let times = cells.map(|cell| if let Cell::Time(time) = cell { micros(time) } else { None });
            Arc::new(times.collect::<TimestampMicrosecondArray>().with_timezone("+00:00"))
        }
        _ => Arc::new(
            cells.map(|cell| if let Cell::Text(v) = cell { Some(v.as_str()) } else { None }).collect::<StringArray>(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::Data;
    use super::*;
    use crate::sessions::{Peers, Sessions};

    #[test]
    fn rows_have_as_many_values_as_columns() {
        use freestone::{Reference, Relation};

        use crate::users::Role;
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]));
        let relation = Relation {
            name: "t".into(),
            schema: Some(schema),
            rows: Some(3),
            primary_key: vec!["a".into()],
            primary_key_name: "t_pkey".into(),
            unique: vec![("t_a_key".into(), vec!["a".into()])],
            checks: vec![("t_a_check".into(), "a > 0".into())],
            defaults: vec![Some("1".into())],
            foreign_keys: vec![Reference {
                name: "t_a_fkey".into(),
                columns: vec!["a".into()],
                table: "t".into(),
                referenced: vec!["a".into()],
                enforced: true,
            }],
            indexes: vec![("t_by_a".into(), vec!["a".into()])],
            bytes: 10_000,
            ..Relation::default()
        };
        let view = Relation { name: "v".into(), view: Some("SELECT 1".into()), ..relation.clone() };
        let sequence = freestone::SequenceRelation {
            name: "s".into(),
            is_temporary: false,
            data_type: DataType::Int64,
            start: 1,
            increment: 1,
            min: 1,
            max: i64::MAX,
            cycle: false,
            last_value: None,
            owner: None,
        };
        let peers = Peers { sessions: Sessions::new(), own: 1, user: "ann".into(), is_admin: true };
        let data = Data::new(vec![relation, view], vec![sequence], vec![("ann".into(), Role::Admin)], peers);
        for table in with_rows() {
            let columns: Vec<&str> = table.columns.split(',').collect();
            let rows = (table.rows)(&data);
            assert!(!super::super::empty_tables::is_empty(table.name), "{}", table.name);
            for row in rows {
                assert_eq!(row.len(), columns.len(), "{}", table.name);
                for (cell, column) in row.iter().zip(&columns) {
                    let fits = matches!(
                        (cell, column.chars().last()),
                        (Cell::Null, _)
                            | (Cell::Int(_), Some('i'))
                            | (Cell::Text(_), Some('t' | 'c'))
                            | (Cell::Bool(_), Some('b'))
                            | (Cell::Float(_), Some('f'))
                            | (Cell::Ints(_), Some('l'))
                            | (Cell::Texts(_), Some('a'))
                            | (Cell::Time(_), Some('z'))
                    );
                    assert!(fits, "{}: {column} is {cell:?}", table.name);
                }
            }
        }
    }
}
