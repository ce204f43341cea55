//! Fields of structs as columns of a scan, so that a query that reads `s.a` reads only this field, and prunes by it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use freestone_store::schema::TableSchema;

/// The fields of all structs of a table, which follow its columns. A struct in another one is not a column by itself.
pub(super) fn fields(schema: &TableSchema) -> Vec<Arc<Field>> {
    if schema.stored_count() == schema.columns.len() {
        return vec![];
    }
    let stored = schema.stored_columns().into_iter().skip(schema.columns.len());
    stored.map(|column| Arc::new(Field::new(column.name, column.data_type, true))).collect()
}

/// The stored column that an expression names: a column of the table, or a field of one that is no struct.
pub(super) fn stored_column(expression: &Arc<dyn PhysicalExpr>, schema: &TableSchema) -> Option<usize> {
    let (column, path) = path_of(expression)?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let at = schema.field_at(column, &path)?;
    (!matches!(schema.stored_type(at), DataType::Struct(_))).then_some(at)
}

/// The column of a chain of fields, and their names.
fn path_of(expression: &Arc<dyn PhysicalExpr>) -> Option<(usize, Vec<String>)> {
    let call = ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(expression.as_ref())?;
    let (of, names) = call.args().split_first()?;
    let (column, mut path) = match of.downcast_ref::<Column>() {
        Some(column) => (column.index(), vec![]),
        None => path_of(of)?,
    };
    for name in names {
        path.push(name.downcast_ref::<Literal>()?.value().try_as_str()??.to_owned());
    }
    Some((column, path))
}

/// The filter with stored columns in place of fields.
pub(super) fn with_fields(filter: &Arc<dyn PhysicalExpr>, schema: &TableSchema) -> Result<Arc<dyn PhysicalExpr>> {
    if schema.stored_count() == schema.columns.len() {
        return Ok(filter.clone());
    }
    let replaced = filter.clone().transform_down(|expression| {
        Ok(match stored_column(&expression, schema) {
            Some(at) => Transformed::yes(Arc::new(Column::new(&schema.stored_name(at), at)) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(expression),
        })
    })?;
    Ok(replaced.data)
}
