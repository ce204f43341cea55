//! Generated columns: `c INT GENERATED ALWAYS AS (a + b)`. They are not stored; each is computed from its row whenever it
//! is read. What a table has of them is kept among the definitions of the database.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use freestone_sql::tree::{ColumnDefinition, Expr, ExprKind, each_part_mut};
use freestone_store::WriteTransaction;
use freestone_store::schema::TableSchema;

use crate::catalog::{STORED, Scope};
use crate::definitions::{self, GeneratedColumn, value_of};
use crate::error::{Error, Result};
use crate::exec::row_checks;
use crate::exec::write::WriteContext;
use crate::sql::room::Room;
use crate::sql::statement::quote;
use crate::sql::trees;

/// A generated column at a position among all columns of its table.
pub(crate) fn of(column: &ColumnDefinition, value: &Expr, at: usize) -> Result<GeneratedColumn> {
    let name = column.name.text.clone();
    if column.constraints.len() > 1 {
        return Err(Error::unsupported(format!("generated column {name} takes no constraint and no DEFAULT"))
            .with_hint("CHECK (…) of the table says what holds for the columns from which it is computed"));
    }
    let (declared, data_type) = (value.to_string(), column.data_type.as_ref().map(ToString::to_string));
    Ok(GeneratedColumn { name, at, data_type, expression: declared.clone(), declared })
}

/// Replaces the names of generated columns in the expressions of others.
pub(crate) fn expand(columns: &mut [GeneratedColumn]) -> Result<()> {
    let room = Room::new();
    // A chain without a circle ends after as many steps as there are columns.
    for _ in 0..=columns.len() {
        let known: Vec<GeneratedColumn> = columns.to_vec();
        let mut changed = false;
        for column in columns.iter_mut() {
            let mut value = trees::parsed(&column.expression)?;
            let (mut replaced, mut fits) = (false, Ok(()));
            each_part_mut(&mut value, &mut |part| {
                let ExprKind::Column(name) = &part.kind else { return };
                let [name] = name.parts.as_slice() else { return };
                let Some(other) = known.iter().find(|other| other.name == name.text) else { return };
                if fits.is_ok()
                    && let Ok(inner) = trees::parsed(&value_of(other))
                {
                    fits = room.take_expression(&inner);
                    *part = inner;
                    replaced = true;
                }
            });
            fits?;
            if replaced {
                column.expression = value.to_string();
                changed = true;
            }
        }
        if !changed {
            return Ok(());
        }
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    Err(Error::invalid(format!("the generated columns {} are computed from each other in a circle", names.join(", ")))
        .with_hint("compute one of them from stored columns"))
}

/// Keeps the generated columns of a new table, after checking them.
pub(crate) fn declare(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    table: &str,
    schema: &TableSchema,
    columns: Vec<GeneratedColumn>,
) -> Result<()> {
    if columns.is_empty() {
        return Ok(());
    }
    for (at, column) in columns.iter().enumerate() {
        schema.check_free(&column.name)?;
        if columns[..at].iter().any(|other| other.name == column.name) {
            return Err(Error::invalid(format!("column {} appears twice", column.name)));
        }
    }
    definitions::set_generated(transaction, table, columns.clone())?;
    let scope = Scope::new(transaction.snapshot());
    for column in &columns {
        check(context, &scope, table, column)
            .map_err(|error| error.at(&format!("generated column {}", column.name)))?;
    }
    Ok(())
}

/// Checks that a column is an expression of its row.
fn check(context: &WriteContext, scope: &Scope, table: &str, column: &GeneratedColumn) -> Result<()> {
    // Over the stored table itself: a view over it could be read once for several references.
    let query = format!("SELECT {} FROM {}", value_of(column), quote(&format!("{STORED}{table}")));
    let (_, plan) = context.plan_text(scope, &query)?;
    let (mut is_plain, mut is_volatile) = (true, false);
    plan.apply_with_subqueries(|node| {
        use LogicalPlan::{Projection, SubqueryAlias, TableScan};
        is_plain &= matches!(node, Projection(_) | SubqueryAlias(_) | TableScan(_));
        node.apply_expressions(|expression| {
            is_volatile |= expression.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match (is_plain, is_volatile) {
        (true, false) => Ok(()),
        (false, _) => Err(Error::invalid(format!("{} is more than a value of one row", column.declared))
            .with_hint("it consists of columns, constants, operators and functions")),
        (_, true) => Err(Error::invalid(format!("{} has another value each time it is read", column.declared))
            .with_hint("a DEFAULT is computed once")),
    }
}

/// Whether a generated column is computed from a stored one.
pub(crate) fn uses(column: &GeneratedColumn, name: &str) -> Result<bool> {
    Ok(row_checks::named(&trees::parsed(&column.expression)?).iter().any(|own| own == name))
}

/// Follows a new name of a column.
pub(crate) fn renamed(column: &mut GeneratedColumn, old: &str, new: &str) -> Result<()> {
    if column.name == old {
        new.clone_into(&mut column.name);
    }
    column.declared = row_checks::renamed(&column.declared, old, new)?;
    column.expression = row_checks::renamed(&column.expression, old, new)?;
    Ok(())
}
