//! DEFAULT: what columns hold that an INSERT does not name, and what the word DEFAULT stands for.
//!
//! A default is kept as SQL text and planned by each statement. One that is the same for all rows is computed once per
//! statement; others, such as `random()`, once per row.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array, new_null_array};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use freestone_sql::Span;
use freestone_sql::tree::{Expr, ExprKind, Literal, each_part_mut};
use freestone_store::schema::{Identity, StoredValue, TableSchema};

use crate::catalog::Scope;
use crate::error::{Error, Result};
use crate::exec::sequences;
use crate::exec::stored_values::Places;
use crate::exec::write::WriteContext;
use crate::ingest::stored_cell;
use crate::planning;
use crate::sequences::{catalog_name, named_by};
use crate::sql::trees;

/// The values of the columns that a statement does not give, for each of its batches.
pub(crate) struct Defaults<'a> {
    context: &'a WriteContext,
    scope: Scope,
    /// By the positions of the columns.
    values: Vec<(usize, Value)>,
}

enum Value {
    /// The same in all rows: one value.
    Same(ArrayRef),
    /// Computed for each row: an SQL expression.
    Each(String),
    /// The next numbers of a sequence.
    Next(String),
}

impl<'a> Defaults<'a> {
    /// Of the columns of a table for which `places` has none.
    pub fn of(context: &'a WriteContext, scope: &Scope, schema: &TableSchema, places: &Places) -> Result<Defaults<'a>> {
        let missing = places.missing().filter_map(|at| Some((at, schema.default_of(at)?)));
        let value = |(at, sql): (usize, &str)| Ok((at, value(context, scope, sql)?));
        let values = missing.map(value).collect::<Result<_>>()?;
        Ok(Defaults { context, scope: scope.clone(), values })
    }

    /// The values of `rows` rows, by the columns' positions.
    pub fn values(&self, rows: usize) -> Result<Vec<(usize, ArrayRef)>> {
        let values = |(at, value): &(usize, Value)| {
            let array = match value {
                Value::Same(one) => repeated(one, rows)?,
                Value::Each(sql) => each(self.context, &self.scope, sql, rows)?,
                Value::Next(sequence) => {
                    let numbers = self.context.planner().sequences().next(&self.scope.snapshot, sequence, rows)?;
                    Arc::new(Int64Array::from(numbers))
                }
            };
            Ok((*at, array))
        };
        self.values.iter().map(values).collect()
    }
}

fn repeated(one: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    Ok(take(one, &UInt32Array::from(vec![0; rows]), None)?)
}

fn value(context: &WriteContext, scope: &Scope, sql: &str) -> Result<Value> {
    if let Some(sequence) = named_by(&trees::parsed(sql)?) {
        return Ok(Value::Next(catalog_name(&sequence)?));
    }
    let (state, plan) = context.plan_text(scope, &format!("SELECT ({sql})"))?;
    if is_volatile(&plan) {
        return Ok(Value::Each(sql.to_owned()));
    }
    let batches = context.run(&state, &plan)?.collect::<Result<Vec<_>>>()?;
    Ok(Value::Same(first_column(&batches)?))
}

/// The values of an expression that differ from row to row.
fn each(context: &WriteContext, scope: &Scope, sql: &str, rows: usize) -> Result<ArrayRef> {
    let (mut state, plan) = context.plan_text(scope, &format!("SELECT ({sql}) FROM generate_series(1, {rows})"))?;
    planning::keep_order_of_rows(&mut state);
    let batches = context.run(&state, &plan)?.collect::<Result<Vec<_>>>()?;
    first_column(&batches)
}

fn first_column(batches: &[RecordBatch]) -> Result<ArrayRef> {
    let columns = batches.iter().filter_map(|batch| batch.columns().first());
    let columns: Vec<&dyn Array> = columns.map(AsRef::as_ref).collect();
    Ok(if columns.is_empty() { new_null_array(&DataType::Null, 0) } else { concat(&columns)? })
}

fn is_volatile(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            found |= expression.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found
}

/// Checks a default for a column: an expression of constants and functions, whose value has the column's type. Returns
/// its value, unless each row has another.
///
/// # Errors
/// Names the column.
pub(crate) fn check(
    context: &WriteContext,
    scope: &Scope,
    name: &str,
    data_type: &DataType,
    sql: &str,
) -> Result<Option<StoredValue>> {
    let of_column = |error: Error| error.at(&format!("DEFAULT of column {name}"));
    sequences::check_named(&scope.snapshot, sql).map_err(of_column)?;
    let (_, planned) = context.plan_text(scope, &format!("SELECT ({sql})")).map_err(of_column)?;
    let mut is_plain = true;
    let _ = planned.apply_with_subqueries(|node| {
        is_plain &= matches!(node, LogicalPlan::Projection(_) | LogicalPlan::EmptyRelation(_));
        Ok(TreeNodeRecursion::Continue)
    });
    if !is_plain {
        return Err(Error::invalid(format!("DEFAULT of column {name}: {sql} is more than a value"))
            .with_hint("a default consists of constants, operators and functions, without queries and aggregates"));
    }
    let one = match value(context, scope, sql).map_err(of_column)? {
        Value::Same(one) => one,
        Value::Each(_) | Value::Next(_) => return Ok(None),
    };
    let field = Arc::new(context.assignment().exact().noted_field(Field::new(name, data_type.clone(), true)));
    let stored = stored_cell(&one, &field, 1).map_err(of_column)?;
    Ok(Some(StoredValue::first_of(&stored, data_type)))
}

/// Checks the defaults of a new table.
///
/// # Errors
/// Names the column.
pub(crate) fn check_all(context: &WriteContext, scope: &Scope, schema: &TableSchema) -> Result<()> {
    for (at, column) in schema.columns.iter().enumerate() {
        if let Some(sql) = schema.default_of(at) {
            check(context, scope, &column.name, &column.data_type, sql)?;
        }
    }
    Ok(())
}

/// The expression that the word DEFAULT stands for in a column. It stands where the word does.
///
/// # Errors
/// The text of the default, which was read once, cannot be read.
pub(crate) fn expression(schema: &TableSchema, column: usize, span: Span) -> Result<Expr> {
    let Some(sql) = schema.default_of(column) else { return Ok(trees::literal(Literal::Null, span)) };
    let mut value = trees::parsed(sql)?;
    each_part_mut(&mut value, &mut |part| {
        part.span = span;
        match &mut part.kind {
            ExprKind::Column(name) => name.span = span,
            ExprKind::Call(call) => call.name.span = span,
            _ => {}
        }
    });
    Ok(value)
}

/// One row of values with the defaults of the columns that are not given.
///
/// # Errors
/// As for [`expression`].
pub(crate) fn completed(
    mut places: Places,
    values: &[Expr],
    schema: &TableSchema,
    span: Span,
) -> Result<(Places, Vec<Expr>)> {
    let mut completed = vec![];
    for (value, column) in values.iter().zip(places.targets()) {
        completed.push(match value.kind {
            ExprKind::Default => expression(schema, column, value.span)?,
            _ => value.clone(),
        });
    }
    let missing: Vec<usize> = places.missing().filter(|at| schema.default_of(*at).is_some()).collect();
    for column in missing {
        completed.push(expression(schema, column, span)?);
        places.give(column);
    }
    Ok((places, completed))
}

/// Refuses values that a statement gives for columns that are GENERATED ALWAYS: `given` with what it gives, if that is one
/// expression.
pub(crate) fn check_given<'a>(
    schema: &TableSchema,
    given: impl Iterator<Item = (usize, Option<&'a Expr>)>,
) -> Result<()> {
    for (column, value) in given {
        let is_default = value.is_some_and(|value| matches!(value.kind, ExprKind::Default));
        if schema.identity_of(column) == Some(Identity::Always) && !is_default {
            let name = &schema.columns[column].name;
            return Err(Error::invalid(format!(
                "column {name} is GENERATED ALWAYS: it takes no other value than DEFAULT"
            ))
            .with_hint("leave the column out, write DEFAULT, or declare it GENERATED BY DEFAULT AS IDENTITY"));
        }
    }
    Ok(())
}

/// Puts defaults in the place of the word DEFAULT in `VALUES`.
///
/// # Errors
/// As for [`expression`].
pub(crate) fn fill(rows: &mut [Vec<Expr>], places: &Places, schema: &TableSchema) -> Result<()> {
    let targets = places.targets();
    for row in rows {
        for (cell, column) in row.iter_mut().zip(&targets) {
            if matches!(cell.kind, ExprKind::Default) {
                *cell = expression(schema, *column, cell.span)?;
            }
        }
    }
    Ok(())
}
