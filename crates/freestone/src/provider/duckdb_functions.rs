//! DuckDB's table functions about the catalog, with those of their columns that mean something here:
//! `duckdb_tables()`, `duckdb_columns()`, `duckdb_views()`, `duckdb_schemas()`, `duckdb_databases()`,
//! `duckdb_constraints()`, `duckdb_indexes()`, `duckdb_sequences()`, `duckdb_settings()`, `duckdb_keywords()` and `sqlite_master`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, ListBuilder, StringViewBuilder};
use datafusion::arrow::record_batch::RecordBatch;
use freestone_sql::{Class, Keyword};
use freestone_store::Table;
use freestone_store::schema::{Column, Constraint, ConstraintKind};

use super::columns::{batch, booleans, numbers, texts};
use super::information::digits;
use super::metadata::{Known, Rows, create_statement, sql_name};
use crate::definitions;
use crate::error::Result;
use crate::internal_names::{PG_TEMP, is_temporary, own_name};
use crate::sequences;
use crate::settings;
use crate::sql::names::{CATALOG, MAIN};
use crate::text_types::column_type;

pub(super) const FUNCTIONS: [(&str, Rows); 11] = [
    ("duckdb_tables", |known, _| tables(known)),
    ("duckdb_columns", |known, _| columns(known)),
    ("duckdb_views", |known, _| views(known)),
    ("duckdb_schemas", |known, argument| schemas(known, argument.is_view())),
    ("duckdb_databases", |known, _| databases(known)),
    ("duckdb_constraints", |known, _| constraints(known)),
    ("duckdb_indexes", |known, _| indexes(known)),
    ("duckdb_sequences", |known, _| all_sequences(known)),
    ("duckdb_settings", |known, _| all_settings(known)),
    ("duckdb_keywords", |_, _| keywords()),
    ("sqlite_master", |known, _| master(known)),
];

/// A column of one text that all rows have.
fn all(text: &str, rows: usize) -> ArrayRef {
    texts(std::iter::repeat_n(Some(text.to_owned()), rows))
}

fn none(rows: usize) -> ArrayRef {
    texts(std::iter::repeat_n(None, rows))
}

fn never(rows: usize) -> ArrayRef {
    booleans(std::iter::repeat_n(false, rows))
}

fn count(numbers: impl Iterator<Item = usize>) -> ArrayRef {
    self::numbers(numbers.map(|number| Some(number as u64)))
}

/// The schema of an object as DuckDB calls it.
fn schema_of(known: &Known, name: &str) -> String {
    match definitions::schema_of(&known.snapshot, name) {
        Some(_) if is_temporary(name) => PG_TEMP.to_owned(),
        Some((schema, _)) => schema.to_owned(),
        None => MAIN.to_owned(),
    }
}

/// The name of an object within its schema.
fn name_of(known: &Known, name: &str) -> String {
    match definitions::schema_of(&known.snapshot, name) {
        Some((_, own)) => own.to_owned(),
        None => own_name(name).to_owned(),
    }
}

/// The comment of a table or view.
fn comment(known: &Known, name: &str) -> Option<String> {
    definitions::comments(&known.snapshot, name).own
}

fn all_tables(known: &Known) -> Vec<&Arc<Table>> {
    known.tables().collect()
}

fn tables(known: &Known) -> Result<RecordBatch> {
    let tables = all_tables(known);
    let indexes =
        |table: &Table| definitions::indexes_of(&known.snapshot, table).len() + table.schema.unique_keys.len();
    batch(vec![
        ("database_name", false, all(CATALOG, tables.len())),
        ("schema_name", false, texts(tables.iter().map(|table| Some(schema_of(known, &table.name))))),
        ("table_name", false, texts(tables.iter().map(|table| Some(name_of(known, &table.name))))),
        ("table_oid", false, numbers(tables.iter().map(|table| Some(table.id)))),
        ("comment", true, texts(tables.iter().map(|table| comment(known, &table.name)))),
        ("internal", false, never(tables.len())),
        ("temporary", false, booleans(tables.iter().map(|table| is_temporary(&table.name)))),
        ("has_primary_key", false, booleans(tables.iter().map(|table| !table.schema.primary_key.is_empty()))),
        ("estimated_size", false, numbers(tables.iter().map(|table| Some(table.rows())))),
        ("column_count", false, count(tables.iter().map(|table| table.schema.columns.len()))),
        ("index_count", false, count(tables.iter().map(|table| indexes(table)))),
        ("check_constraint_count", false, count(tables.iter().map(|table| table.schema.checks.len()))),
        ("sql", false, texts(tables.iter().map(|table| Some(create_statement(table, &known.snapshot))))),
    ])
}

fn columns(known: &Known) -> Result<RecordBatch> {
    let of_table = |table: &Arc<Table>| -> Vec<(Arc<Table>, usize)> {
        (0..table.schema.columns.len()).map(|at| (table.clone(), at)).collect()
    };
    let rows: Vec<(Arc<Table>, usize)> = known.tables().flat_map(of_table).collect();
    let column = |row: &(Arc<Table>, usize)| -> Column { row.0.schema.columns[row.1].clone() };
    let of_column = |row: &(Arc<Table>, usize)| {
        definitions::comments(&known.snapshot, &row.0.name).columns.get(&column(row).name).cloned()
    };
    let place = |of: &dyn Fn(&Column) -> Option<i32>| -> ArrayRef {
        Arc::new(rows.iter().map(|row| of(&column(row))).collect::<Int32Array>())
    };
    batch(vec![
        ("database_name", false, all(CATALOG, rows.len())),
        ("schema_name", false, texts(rows.iter().map(|row| Some(schema_of(known, &row.0.name))))),
        ("table_name", false, texts(rows.iter().map(|row| Some(name_of(known, &row.0.name))))),
        ("table_oid", false, numbers(rows.iter().map(|row| Some(row.0.id)))),
        ("column_name", false, texts(rows.iter().map(|row| Some(column(row).name)))),
        ("column_index", false, Arc::new(rows.iter().map(|row| Some(row.1 as i32 + 1)).collect::<Int32Array>())),
        ("comment", true, texts(rows.iter().map(of_column))),
        ("internal", false, never(rows.len())),
        ("column_default", true, texts(rows.iter().map(|row| row.0.schema.default_of(row.1).map(str::to_owned)))),
        ("is_nullable", false, booleans(rows.iter().map(|row| column(row).nullable))),
        ("data_type", false, texts(rows.iter().map(|row| Some(column_type(&row.0.schema, &column(row)))))),
        ("character_maximum_length", true, place(&|_| None)),
        ("numeric_precision", true, place(&|column| digits(&column.data_type).map(|(precision, _, _)| precision))),
        ("numeric_precision_radix", true, place(&|column| digits(&column.data_type).map(|(_, radix, _)| radix))),
        ("numeric_scale", true, place(&|column| digits(&column.data_type).and_then(|(_, _, scale)| scale))),
    ])
}

fn views(known: &Known) -> Result<RecordBatch> {
    let views: Vec<(&String, &str)> = known.temp.views(&known.snapshot).collect();
    let sql =
        |(name, query): &(&String, &str)| Some(format!("CREATE VIEW {} AS {query}", sql_name(name, &known.snapshot)));
    batch(vec![
        ("database_name", false, all(CATALOG, views.len())),
        ("schema_name", false, texts(views.iter().map(|(name, _)| Some(schema_of(known, name))))),
        ("view_name", false, texts(views.iter().map(|(name, _)| Some(name_of(known, name))))),
        ("comment", true, texts(views.iter().map(|(name, _)| comment(known, name)))),
        ("internal", false, never(views.len())),
        ("temporary", false, booleans(views.iter().map(|(name, _)| is_temporary(name)))),
        ("sql", false, texts(views.iter().map(sql))),
    ])
}

fn schemas(known: &Known, of_users: bool) -> Result<RecordBatch> {
    let mut schemas: Vec<String> = definitions::schemas(&known.snapshot).map(str::to_owned).collect();
    schemas.extend([MAIN, "information_schema"].map(str::to_owned));
    schemas.sort();
    let is_internal = |schema: &String| matches!(schema.as_str(), MAIN | "information_schema");
    schemas.retain(|schema| !(of_users && is_internal(schema)));
    batch(vec![
        ("database_name", false, all(CATALOG, schemas.len())),
        ("schema_name", false, texts(schemas.iter().map(|schema| Some(schema.clone())))),
        ("comment", true, none(schemas.len())),
        ("internal", false, booleans(schemas.iter().map(is_internal))),
        ("sql", true, none(schemas.len())),
    ])
}

fn databases(known: &Known) -> Result<RecordBatch> {
    let names: Vec<&str> = [CATALOG].into_iter().chain(known.lists.attached.names()).collect();
    let count = names.len();
    batch(vec![
        ("database_name", false, texts(names.iter().map(|name| Some((*name).to_owned())))),
        ("comment", true, none(count)),
        ("internal", false, never(count)),
        ("type", false, all(CATALOG, count)),
        ("readonly", false, booleans(names.iter().map(|name| *name != CATALOG))),
    ])
}

/// A list of texts per row.
fn lists(rows: impl Iterator<Item = Vec<String>>) -> ArrayRef {
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    rows.for_each(|row| lists.append_value(row.into_iter().map(Some)));
    Arc::new(lists.finish())
}

fn constraints(known: &Known) -> Result<RecordBatch> {
    type Row<'a> = (&'a Arc<Table>, &'static str, String, Option<String>, Vec<String>, String);
    let mut rows: Vec<Row> = vec![];
    for table in known.tables() {
        for column in table.schema.columns.iter().filter(|column| !column.nullable) {
            let (name, kind) = (format!("{}_{}_not_null", own_name(&table.name), column.name), "NOT NULL");
            rows.push((table, kind, "NOT NULL".to_owned(), None, vec![column.name.clone()], name));
        }
        for Constraint { name, kind } in table.schema.constraints(&table.name) {
            let columns = kind.columns().to_vec();
            let list = columns.join(", ");
            let (word, text, expression) = match kind {
                ConstraintKind::Primary(..) => ("PRIMARY KEY", format!("PRIMARY KEY({list})"), None),
                ConstraintKind::Unique(_) => ("UNIQUE", format!("UNIQUE({list})"), None),
                ConstraintKind::Foreign(key) => {
                    let to = format!("{}({})", own_name(&key.table), key.referenced.join(", "));
                    ("FOREIGN KEY", format!("FOREIGN KEY ({list}) REFERENCES {to}"), None)
                }
                ConstraintKind::Check(check) => {
                    ("CHECK", format!("CHECK({})", check.condition), Some(check.condition.clone()))
                }
            };
            rows.push((table, word, text, expression, columns, name));
        }
    }
    batch(vec![
        ("database_name", false, all(CATALOG, rows.len())),
        ("schema_name", false, texts(rows.iter().map(|row| Some(schema_of(known, &row.0.name))))),
        ("table_name", false, texts(rows.iter().map(|row| Some(name_of(known, &row.0.name))))),
        ("constraint_type", false, texts(rows.iter().map(|row| Some(row.1.to_owned())))),
        ("constraint_text", false, texts(rows.iter().map(|row| Some(row.2.clone())))),
        ("expression", true, texts(rows.iter().map(|row| row.3.clone()))),
        ("constraint_column_names", false, lists(rows.iter().map(|row| row.4.clone()))),
        ("constraint_name", false, texts(rows.iter().map(|row| Some(row.5.clone())))),
    ])
}

fn indexes(known: &Known) -> Result<RecordBatch> {
    let mut rows: Vec<(String, String, bool, bool, Vec<String>)> = vec![];
    for table in known.tables() {
        for (name, columns) in definitions::indexes_of(&known.snapshot, table) {
            rows.push((name, table.name.clone(), false, false, columns));
        }
        for Constraint { name, kind } in table.schema.constraints(&table.name) {
            let (is_unique, is_primary) = match kind {
                ConstraintKind::Primary(_, is_enforced) => (is_enforced, is_enforced),
                ConstraintKind::Unique(_) => (true, false),
                ConstraintKind::Foreign(_) | ConstraintKind::Check(_) => continue,
            };
            rows.push((name, table.name.clone(), is_unique, is_primary, kind.columns().to_vec()));
        }
    }
    batch(vec![
        ("database_name", false, all(CATALOG, rows.len())),
        ("schema_name", false, texts(rows.iter().map(|row| Some(schema_of(known, &row.1))))),
        ("index_name", false, texts(rows.iter().map(|row| Some(name_of(known, &row.0))))),
        ("table_name", false, texts(rows.iter().map(|row| Some(name_of(known, &row.1))))),
        ("comment", true, none(rows.len())),
        ("is_unique", false, booleans(rows.iter().map(|row| row.2))),
        ("is_primary", false, booleans(rows.iter().map(|row| row.3))),
        ("expressions", false, texts(rows.iter().map(|row| Some(format!("[{}]", row.4.join(", ")))))),
    ])
}

/// SQLite's list of tables, views and indexes.
fn master(known: &Known) -> Result<RecordBatch> {
    let mut rows: Vec<(&str, String, String, Option<String>)> = vec![];
    for table in all_tables(known) {
        let name = name_of(known, &table.name);
        rows.push(("table", name.clone(), name, Some(create_statement(table, &known.snapshot))));
    }
    for (name, query) in known.temp.views(&known.snapshot) {
        let own = name_of(known, name);
        let sql = format!("CREATE VIEW {} AS {query}", sql_name(name, &known.snapshot));
        rows.push(("view", own.clone(), own, Some(sql)));
    }
    for table in known.tables() {
        for (name, _) in definitions::indexes_of(&known.snapshot, table) {
            rows.push(("index", name_of(known, &name), name_of(known, &table.name), None));
        }
    }
    batch(vec![
        ("type", false, texts(rows.iter().map(|row| Some(row.0.to_owned())))),
        ("name", false, texts(rows.iter().map(|row| Some(row.1.clone())))),
        ("tbl_name", false, texts(rows.iter().map(|row| Some(row.2.clone())))),
        ("rootpage", false, Arc::new(rows.iter().map(|_| Some(0)).collect::<Int32Array>())),
        ("sql", true, texts(rows.iter().map(|row| row.3.clone()))),
    ])
}

fn all_sequences(known: &Known) -> Result<RecordBatch> {
    let names: Vec<String> =
        sequences::names(&known.snapshot).filter(|name| known.temp.sees(name)).map(str::to_owned).collect();
    let found: Vec<_> = names.iter().filter_map(|name| Some((name, sequences::find(&known.snapshot, name)?))).collect();
    let number = |of: &dyn Fn(&sequences::Sequence) -> i64| -> ArrayRef {
        let values = found.iter().map(|(_, sequence)| Some(of(sequence)));
        Arc::new(values.collect::<datafusion::arrow::array::Int64Array>())
    };
    batch(vec![
        ("database_name", false, all(CATALOG, found.len())),
        ("schema_name", false, texts(found.iter().map(|(name, _)| Some(schema_of(known, name))))),
        ("sequence_name", false, texts(found.iter().map(|(name, _)| Some(name_of(known, name))))),
        ("comment", true, none(found.len())),
        ("temporary", false, booleans(found.iter().map(|(name, _)| is_temporary(name)))),
        ("start_value", false, number(&|sequence| sequence.start)),
        ("min_value", false, number(&|sequence| sequence.min)),
        ("max_value", false, number(&|sequence| sequence.max)),
        ("increment_by", false, number(&|sequence| sequence.increment)),
        ("cycle", false, booleans(found.iter().map(|(_, sequence)| sequence.cycle))),
    ])
}

fn all_settings(known: &Known) -> Result<RecordBatch> {
    let settings = settings::settable(&known.config);
    batch(vec![
        ("name", false, texts(settings.iter().map(|(name, _)| Some(name.clone())))),
        ("value", true, texts(settings.iter().map(|(_, value)| value.clone()))),
    ])
}

fn keywords() -> Result<RecordBatch> {
    let category = |keyword: Keyword| match keyword.class() {
        Class::Unreserved => "unreserved",
        Class::ColumnName => "column_name",
        Class::FunctionName => "type_function",
        Class::Reserved => "reserved",
    };
    batch(vec![
        ("keyword_name", false, texts(Keyword::all().map(|(word, _)| Some(word.to_lowercase())))),
        ("keyword_category", false, texts(Keyword::all().map(|(_, keyword)| Some(category(keyword).to_owned())))),
    ])
}
