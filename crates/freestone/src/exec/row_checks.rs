//! CHECK constraints: conditions on single rows, which no row of a table makes false.
//!
//! The rows that a statement has added are tested together at its end, by a query that reads only these rows.

use std::ops::ControlFlow;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::sql::sqlparser::ast;
use freestone_store::WriteTransaction;
use freestone_store::schema::{CheckConstraint, TableSchema};

use crate::catalog::{Scope, TARGET};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::write::WriteContext;
use crate::sql::names::identifier;
use crate::sql::statement::{parse_expression, quote};
use crate::sql::text_types;
use crate::sql::types::text_of;
use crate::sql::visitor;

/// Refuses conditions that depend on other rows.
pub(crate) fn refuse_subqueries(condition: &ast::Expr) -> Result<()> {
    let refused = visitor::expressions(condition, &mut |part| match part {
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    match refused {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            Err(Error::unsupported("a subquery in CHECK is not available").with_hint("CHECK sees one row only"))
        }
    }
}

/// The columns of a table that a condition names, in the order of the table.
pub(crate) fn columns(condition: &ast::Expr, schema: &TableSchema) -> Vec<String> {
    let mut named = vec![];
    let _ = visitor::expressions(condition, &mut |part| {
        match part {
            ast::Expr::Identifier(name) => named.push(identifier(name)),
            ast::Expr::CompoundIdentifier(names) => named.extend(names.last().map(identifier)),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    schema.columns.iter().map(|column| &column.name).filter(|name| named.contains(name)).cloned().collect()
}

/// A CHECK of a table that names a column.
///
/// # Errors
/// The text of a condition, which was read once, cannot be read.
pub(crate) fn naming<'a>(schema: &'a TableSchema, column: &str) -> Result<Option<&'a CheckConstraint>> {
    for check in &schema.checks {
        if columns(&parse_expression(&check.condition)?, schema).iter().any(|name| name == column) {
            return Ok(Some(check));
        }
    }
    Ok(None)
}

/// A condition with another name of a column.
///
/// # Errors
/// The text of the condition, which was read once, cannot be read.
pub(crate) fn renamed(condition: &str, column: &str, new: &str) -> Result<String> {
    let mut parsed = parse_expression(condition)?;
    visitor::expressions_mut(&mut parsed, &mut |part| {
        let name = match part {
            ast::Expr::Identifier(name) => Some(name),
            ast::Expr::CompoundIdentifier(names) => names.last_mut(),
            _ => None,
        };
        if let Some(name) = name.filter(|name| identifier(name) == column) {
            *name = ast::Ident::with_quote('"', new);
        }
    });
    Ok(text_of(&parsed))
}

/// Plans the conditions of a new table, so that what cannot be planned fails when it is declared.
///
/// # Errors
/// A condition names a column that the table does not have, or is no condition.
pub(crate) fn validate(context: &WriteContext, scope: &Scope, schema: &TableSchema) -> Result<()> {
    let scope = scope.clone().with_target_columns(schema);
    for check in &schema.checks {
        let planned =
            context.plan_text(&scope, &format!("SELECT 1 FROM {} WHERE ({})", quote(TARGET), check.condition));
        let analyzed = planned.and_then(|(state, plan)| {
            Ok(state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?)
        });
        analyzed.map_err(|error| error.at(&format!("CHECK ({})", check.condition)))?;
    }
    Ok(())
}

/// Tests the rows that were added since the last call.
///
/// # Errors
/// A row makes a condition false, or a condition cannot be computed for it.
pub(crate) fn check(transaction: &mut WriteTransaction, context: &WriteContext) -> Result<()> {
    for (name, added) in transaction.take_added_rows() {
        let Some(table) = added.table(&name).cloned() else { continue };
        for check in &table.schema.checks {
            let name = quote(&name);
            let query = format!("SELECT * FROM {name} WHERE NOT ({}) LIMIT 1", check.condition);
            let (state, plan) = context.plan_text(&Scope::new(added.clone()), &query)?;
            for batch in context.run(&state, &plan)? {
                let batch = batch?;
                if batch.num_rows() > 0 {
                    if let Some((column, kind)) = text_types::of_check(check) {
                        return Err(kind.refused(&column, &value(&batch, &column)?));
                    }
                    let (check, condition) = (&check.name, &check.condition);
                    let message = format!(
                        "a row violates CHECK {check} ({condition}) of table {}: {}",
                        table.name,
                        shown(&batch)?
                    );
                    return Err(Error::new(ErrorKind::Constraint, message));
                }
            }
        }
    }
    Ok(())
}

/// The value of a column in the first row.
fn value(batch: &RecordBatch, column: &str) -> Result<String> {
    let options = FormatOptions::default().with_null("NULL");
    match batch.column_by_name(column) {
        Some(values) => Ok(ArrayFormatter::try_new(values, &options)?.value(0).to_string()),
        None => Ok(String::new()),
    }
}

/// The values of the first row: `a = 1, b = x`.
fn shown(batch: &RecordBatch) -> Result<String> {
    let options = FormatOptions::default().with_null("NULL");
    let schema = batch.schema();
    let value = |(field, column): (&std::sync::Arc<datafusion::arrow::datatypes::Field>, _)| {
        let formatter = ArrayFormatter::try_new(column, &options)?;
        Ok::<_, Error>(format!("{} = {}", field.name(), formatter.value(0)))
    };
    let columns = batch.columns().iter().map(AsRef::as_ref);
    Ok(schema.fields().iter().zip(columns).map(value).collect::<Result<Vec<_>>>()?.join(", "))
}
