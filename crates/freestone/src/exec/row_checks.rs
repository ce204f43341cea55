//! CHECK constraints: conditions on single rows, which no row of a table makes false.
//!
//! The rows that a statement has added are tested together at its end, by a query that reads only these rows.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use freestone_sql::tree::{Expr, ExprKind, InSet, Quantity, each_part, each_part_mut};
use freestone_store::WriteTransaction;
use freestone_store::schema::{CheckConstraint, TableSchema};

use crate::catalog::{Scope, TARGET};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::write::WriteContext;
use crate::sql::statement::quote;
use crate::sql::{text_types, trees};

/// Refuses conditions that depend on other rows.
pub(crate) fn refuse_subqueries(condition: &Expr) -> Result<()> {
    let mut found = false;
    each_part(condition, &mut |part| {
        found |= match &part.kind {
            ExprKind::Subquery(_) | ExprKind::Exists(_) | ExprKind::ListOfQuery(_) => true,
            ExprKind::In { set, .. } => matches!(set, InSet::Query(_)),
            ExprKind::Quantified { values, .. } => matches!(values, Quantity::Query(_)),
            _ => false,
        };
    });
    match found {
        false => Ok(()),
        true => Err(Error::unsupported("a subquery in CHECK is not available").with_hint("CHECK sees one row only")),
    }
}

/// The columns that a condition names, or whose fields it names.
pub(crate) fn named(condition: &Expr) -> Vec<String> {
    let mut named = vec![];
    each_part(condition, &mut |part| {
        if let ExprKind::Column(name) = &part.kind {
            named.extend(name.parts.first().map(|name| name.text.clone()));
        }
    });
    named
}

/// A CHECK of a table that names a column.
///
/// # Errors
/// The text of a condition, which was read once, cannot be read.
pub(crate) fn naming<'a>(schema: &'a TableSchema, column: &str) -> Result<Option<&'a CheckConstraint>> {
    for check in &schema.checks {
        if named(&trees::parsed(&check.condition)?).iter().any(|name| name == column) {
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
    let mut parsed = trees::parsed(condition)?;
    each_part_mut(&mut parsed, &mut |part| {
        if let ExprKind::Column(name) = &mut part.kind
            && let Some(first) = name.parts.first_mut().filter(|first| first.text == column)
        {
            *first = trees::name(new, first.span);
        }
    });
    Ok(parsed.to_string())
}

/// Plans the conditions of a new table, so that what cannot be planned fails when it is declared. An integer is a condition,
/// too, which 0 makes false.
///
/// # Errors
/// A condition names a column that the table does not have, or is no condition.
pub(crate) fn validate(context: &WriteContext, scope: &Scope, schema: &TableSchema) -> Result<()> {
    let scope = scope.clone().with_target_columns(schema);
    for check in &schema.checks {
        let analyzed = |query: String| {
            let (state, plan) = context.plan_text(&scope, &query)?;
            Ok::<_, Error>(state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?)
        };
        let (table, condition) = (quote(TARGET), &check.condition);
        let at = |error: Error| error.at(&format!("CHECK ({condition})"));
        let values = analyzed(format!("SELECT ({condition}) FROM {table}")).map_err(at)?;
        if !values.schema().fields().iter().all(|value| value.data_type().is_integer()) {
            analyzed(format!("SELECT 1 FROM {table} WHERE ({condition})")).map_err(at)?;
        }
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
        // A collation takes any text.
        let may_fail = |check: &&CheckConstraint| !check.condition.starts_with(text_types::CHECK_COLLATION);
        for check in table.schema.checks.iter().filter(may_fail) {
            let name = quote(&name);
            let query = format!("SELECT * FROM {name} WHERE NOT CAST(({}) AS BOOLEAN) LIMIT 1", check.condition);
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
                    let error = Error::new(ErrorKind::Constraint, message);
                    return Err(error.concerning(|subject| {
                        subject.table = Some(table.name.clone());
                        subject.constraint = Some(check.clone());
                    }));
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
