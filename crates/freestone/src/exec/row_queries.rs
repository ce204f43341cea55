//! The queries of statements that change rows: which rows they meet, and the values that they give these.
//!
//! `SET (a, b) = (SELECT …)` gives several columns parts of one row. The query has the whole row as a struct, so that it is
//! evaluated once, and [`RowQuery::finished`] takes the parts out of it.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr as Value, LogicalPlan, Projection};
use freestone_sql::Span;
use freestone_sql::tree::{
    Assignment, Expr, ExprKind, Name, ObjectName, Query, Select, SelectItem, Table, Update, With, Write, each_part_mut,
};
use freestone_store::Snapshot;
use freestone_store::schema::TableSchema;

use crate::catalog::{Planner, TARGET};
use crate::error::{Error, Result};
use crate::exec::defaults;
use crate::internal_names::{NEW_VALUE, ROW_ID_COLUMN};
use crate::sql::trees;

/// The table that a statement changes.
pub(crate) struct Target<'w> {
    /// Its name in the catalog.
    pub name: String,
    /// The name by which the expressions of the statement know it.
    pub alias: &'w str,
    /// What the statement returns.
    pub returning: &'w [SelectItem],
    with: Option<&'w With>,
    /// The name with its schema, if that is how expressions can write it, too.
    written: &'w [Name],
    span: Span,
}

impl<'w> Target<'w> {
    /// That of a statement.
    ///
    /// # Errors
    /// It is a temporary table of another session.
    pub fn of(planner: &Planner, snapshot: &Arc<Snapshot>, write: &'w Write) -> Result<Target<'w>> {
        let (table, alias, with, returning) = match write {
            Write::Insert(insert) => (&insert.table, &insert.alias, &insert.with, &insert.returning),
            Write::Update(update) => (&update.table, &update.alias, &update.with, &update.returning),
            Write::Delete(delete) => (&delete.table, &delete.alias, &delete.with, &delete.returning),
            Write::Merge(merge) => (&merge.table, &merge.alias, &merge.with, &merge.returning),
        };
        let target = Target::named(planner, snapshot, table, alias.as_ref())?;
        Ok(Target { with: with.as_ref(), returning, ..target })
    }

    /// A table by its name, which may have another one.
    ///
    /// # Errors
    /// It is a temporary table of another session.
    pub fn named(
        planner: &Planner,
        snapshot: &Arc<Snapshot>,
        table: &'w ObjectName,
        alias: Option<&'w Name>,
    ) -> Result<Target<'w>> {
        let name = planner.table_name(snapshot, table)?;
        let written = if alias.is_none() && table.parts.len() > 1 { table.parts.as_slice() } else { &[] };
        let alias = alias.or(table.parts.last()).map_or("", |name| name.text.as_str());
        Ok(Target { name, alias, returning: &[], with: None, written, span: table.span })
    }

    /// A column of it.
    pub fn column(&self, name: &str) -> Expr {
        trees::column(&[self.alias, name], self.span)
    }

    /// Its rows, by the name that the statement gives it.
    pub fn table(&self) -> Table {
        trees::table(TARGET, self.alias, self.span)
    }

    /// A query that sees what the statement's WITH defines.
    pub fn query(&self, mut select: Select) -> Box<Query> {
        if !self.written.is_empty() {
            let values = select.items.iter_mut().map(|item| &mut item.value).chain(&mut select.condition);
            values.for_each(|value| each_part_mut(value, &mut |part| self.without_schema(part)));
        }
        Box::new(Query { with: self.with.cloned(), ..trees::query_of(select) })
    }

    /// `schema.table.column` as `table.column`, because the query knows the table by its alias.
    fn without_schema(&self, part: &mut Expr) {
        let ExprKind::Column(name) = &mut part.kind else { return };
        let Some((_, table)) = name.parts.split_last() else { return };
        let is_same = |(own, given): (&Name, &Name)| own.text.eq_ignore_ascii_case(&given.text);
        if table.len() == self.written.len() && table.iter().zip(self.written).all(is_same) {
            name.parts.drain(..table.len() - 1);
        }
    }

    /// `SELECT` without anything yet.
    pub fn select(&self) -> Select {
        Select::of_items(vec![], self.span)
    }

    /// The query of what the statement returns, over rows that [`TARGET`] stands for.
    pub fn query_of_returning(&self, items: Vec<SelectItem>) -> Box<Query> {
        self.query(Select { items, from: vec![self.table()], ..self.select() })
    }

    /// The query of its rows that meet a condition, by their ids, over other tables as well. `returned`: their columns are
    /// asked for, too.
    pub fn query_of_rows(
        &self,
        condition: Option<&Expr>,
        others: &[Table],
        returned: Option<&TableSchema>,
    ) -> Box<Query> {
        let from = [self.table()].into_iter().chain(others.iter().cloned()).collect();
        let items = self.items(returned);
        self.query(Select { items, from, condition: condition.cloned(), ..self.select() })
    }

    /// The row ids, and the columns of a schema.
    fn items(&self, returned: Option<&TableSchema>) -> Vec<SelectItem> {
        let columns = returned.iter().flat_map(|schema| &schema.columns);
        let returned = columns.map(|column| trees::item(self.column(&column.name), &new(&column.name)));
        [trees::item(self.column(ROW_ID_COLUMN), ROW_ID_COLUMN)].into_iter().chain(returned).collect()
    }

    /// The query of the rows that an UPDATE meets, with the values of all columns.
    ///
    /// # Errors
    /// It assigns to columns that the table does not have, or other values than it can.
    pub fn query_of_update(&self, update: &Update, schema: &TableSchema) -> Result<RowQuery> {
        let values = self.values_of_set(schema, &update.set)?;
        let from = [self.table()].into_iter().chain(update.from.iter().cloned()).collect();
        let select = Select { from, condition: update.condition.clone(), ..self.select() };
        let row = (NewValue::Value(self.column(ROW_ID_COLUMN)), ROW_ID_COLUMN.to_owned());
        Ok(RowQuery::of(self, select, [row].into_iter().chain(values)))
    }

    /// The values of all columns of a row after `SET column = expression, …`, under their names. Columns that are not
    /// assigned keep theirs.
    ///
    /// # Errors
    /// As for [`Target::query_of_update`].
    pub fn values_of_set(&self, schema: &TableSchema, set: &[Assignment]) -> Result<Vec<(NewValue, String)>> {
        let mut values: Vec<Option<NewValue>> = schema.columns.iter().map(|_| None).collect();
        for assignment in set {
            for (column, value) in assigned(schema, assignment)? {
                if values[column].replace(value).is_some() {
                    let name = &schema.columns[column].name;
                    return Err(Error::invalid(format!("column {name} is assigned twice")));
                }
            }
        }
        let named = schema.columns.iter().zip(values);
        let value = |(column, value): (&freestone_store::schema::Column, Option<NewValue>)| {
            (value.unwrap_or_else(|| NewValue::Value(self.column(&column.name))), new(&column.name))
        };
        Ok(named.map(value).collect())
    }
}

/// The name of a new value in a query.
fn new(column: &str) -> String {
    format!("{NEW_VALUE}{column}")
}

/// The column of this name.
///
/// # Errors
/// The table has none.
pub(crate) fn position(schema: &TableSchema, name: &str) -> Result<usize> {
    let names = schema.columns.iter().map(|column| column.name.as_str());
    schema.columns.iter().position(|column| column.name == name).ok_or_else(|| Error::not_found("column", name, names))
}

/// The columns to which an assignment gives values.
///
/// # Errors
/// The table does not have one of them.
pub(crate) fn positions(schema: &TableSchema, assignment: &Assignment) -> Result<Vec<usize>> {
    assignment.columns.iter().map(|name| position(schema, &name.text)).collect()
}

/// The value that a statement gives a column.
#[derive(Debug, Clone)]
pub(crate) enum NewValue {
    /// An expression.
    Value(Expr),
    /// A column of the only row of a query.
    Part {
        /// The row as a struct.
        row: Expr,
        /// Where the query stands, which tells it from others.
        place: u32,
        /// The number of the column.
        at: usize,
        /// How many columns the row must have.
        count: usize,
    },
}

impl NewValue {
    /// The value within another one, such as a CASE; of a part of a row, the row is within it.
    pub fn within(self, outer: impl FnOnce(Expr) -> Expr) -> NewValue {
        match self {
            NewValue::Value(value) => NewValue::Value(outer(value)),
            NewValue::Part { row, place, at, count } => NewValue::Part { row: outer(row), place, at, count },
        }
    }
}

/// The values that an assignment gives columns.
fn assigned(schema: &TableSchema, assignment: &Assignment) -> Result<Vec<(usize, NewValue)>> {
    let columns = positions(schema, assignment)?;
    let (value, span, count) = (&assignment.value, assignment.value.span, columns.len());
    let values = match &value.kind {
        ExprKind::Subquery(query) if assignment.is_row && count > 1 => {
            let row = trees::row_of(query.clone(), span);
            let part = |at| NewValue::Part { row: row.clone(), place: span.start, at, count };
            return Ok(columns.into_iter().enumerate().map(|(at, column)| (column, part(at))).collect());
        }
        ExprKind::Row(values) if assignment.is_row => values.as_slice(),
        _ if count == 1 => std::slice::from_ref(value),
        _ => {
            return Err(Error::syntax(format!("{value} is no row of values"))
                .with_hint("the forms are SET (a, b) = (x, y) and SET (a, b) = (SELECT x, y …)"));
        }
    };
    if values.len() != count {
        return Err(other_count(values.len(), count));
    }
    let given = |(column, value): (usize, &Expr)| {
        defaults::check_given(schema, [(column, Some(value))].into_iter())?;
        let value = match value.kind {
            ExprKind::Default => defaults::expression(schema, column, value.span)?,
            _ => value.clone(),
        };
        Ok((column, NewValue::Value(value)))
    };
    columns.into_iter().zip(values).map(given).collect()
}

fn other_count(values: usize, columns: usize) -> Error {
    Error::syntax(format!("SET assigns {values} values to {columns} columns"))
}

/// A query whose columns are values that a statement gives, or have rows of which these are parts.
#[derive(Debug)]
pub(crate) struct RowQuery {
    pub query: Box<Query>,
    outputs: Vec<Output>,
}

/// A value that a statement gives, in the columns of a query.
#[derive(Debug)]
enum Output {
    Column(usize),
    Part { column: usize, at: usize, count: usize, name: String },
}

impl RowQuery {
    /// The query of these values, with their names, over the FROM and the condition of a SELECT.
    pub fn of(target: &Target, select: Select, values: impl IntoIterator<Item = (NewValue, String)>) -> RowQuery {
        let (mut items, mut outputs, mut rows) = (vec![], vec![], HashMap::new());
        for (value, name) in values {
            let column = items.len();
            match value {
                NewValue::Value(value) => {
                    items.push(trees::item(value, &name));
                    outputs.push(Output::Column(column));
                }
                NewValue::Part { row, place, at, count } => {
                    let column = *rows.entry(place).or_insert(column);
                    if column == items.len() {
                        items.push(trees::item(row, &format!("__assigned {column}")));
                    }
                    outputs.push(Output::Part { column, at, count, name });
                }
            }
        }
        RowQuery { query: target.query(Select { items, ..select }), outputs }
    }

    /// A query whose columns are its values.
    pub fn plain(query: Box<Query>) -> RowQuery {
        RowQuery { query, outputs: vec![] }
    }

    /// The plan of the query with one column for each value.
    ///
    /// # Errors
    /// A row has another number of columns than are assigned.
    pub fn finished(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if self.outputs.iter().all(|output| matches!(output, Output::Column(_))) {
            return Ok(plan);
        }
        let schema = plan.schema().clone();
        let column = |at: usize| Value::Column(Column::from(schema.qualified_field(at)));
        let value = |output: &Output| match output {
            Output::Column(at) => Ok(column(*at)),
            Output::Part { column: row, at, count, name } => match schema.field(*row).data_type() {
                DataType::Struct(fields) if fields.len() == *count => {
                    Ok(get_field(column(*row), fields[*at].name().as_str()).alias(name))
                }
                DataType::Struct(fields) => Err(other_count(fields.len(), *count)),
                _ => Err(other_count(1, *count)),
            },
        };
        let values = self.outputs.iter().map(value).collect::<Result<Vec<_>>>()?;
        Ok(LogicalPlan::Projection(Projection::try_new(values, Arc::new(plan))?))
    }
}
