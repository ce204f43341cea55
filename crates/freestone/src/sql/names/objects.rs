//! Names of tables, views and schemas.

use freestone_binder::Named;
use freestone_sql::tree;

use crate::error::{Error, ErrorKind, Result};

/// The name of the only catalog, and of the schema that every database has.
pub(crate) const CATALOG: &str = "freestone";
pub(crate) const SCHEMA: &str = "public";
/// DuckDB's name of that schema.
pub(crate) const MAIN: &str = "main";

/// Whether a name is that of the schema `public`.
pub(crate) fn is_ours(schema: &str) -> bool {
    matches!(schema, SCHEMA | MAIN)
}

/// The name of a schema's table in the catalog.
pub(crate) fn name_in(schema: &str, table: &str) -> String {
    format!("{schema}.{table}")
}

/// The tables that a query names without a schema or with ours, in the order of their names.
pub(crate) fn of_database(query: &tree::Query) -> Vec<String> {
    let mut all: Vec<String> = vec![];
    for named in freestone_binder::named_tables(query) {
        let (Named::Table(name) | Named::Version(name, _)) = &named else { continue };
        match name.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().as_slice() {
            [table] => all.push((*table).to_owned()),
            [schema, table] | [CATALOG, schema, table] if is_ours(schema) => all.push((*table).to_owned()),
            _ => {}
        }
    }
    all.sort();
    all.dedup();
    all
}

/// The schema before a name, unless it is ours.
pub(crate) fn kept_schema(name: &tree::ObjectName) -> Option<&str> {
    let [.., schema, _] = name.parts.as_slice() else { return None };
    (!is_ours(&schema.text) && schema.text != CATALOG).then_some(&schema.text)
}

/// The name by which a table, view or other object is kept: that of another schema than ours includes the schema.
///
/// # Errors
/// It has more parts than catalog, schema and name.
pub(crate) fn kept_name(name: &tree::ObjectName) -> Result<String> {
    match name.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().as_slice() {
        [table] => Ok((*table).to_owned()),
        [CATALOG, schema, table] | [schema, table] => Ok(match is_ours(schema) || *schema == CATALOG {
            true => (*table).to_owned(),
            false => name_in(schema, table),
        }),
        _ => Err(Error::new(ErrorKind::NotFound, format!("no schema for {name}"))
            .with_hint("the only catalog is freestone: schema.table is enough")),
    }
}
