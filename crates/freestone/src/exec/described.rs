//! What a statement that changes rows is before it is executed: the query that finds its rows, the types of the parameters
//! that it assigns to columns, and what it returns.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use freestone_sql::ParameterNumbers;
use freestone_sql::tree::{
    Assignment, Expr, ExprKind, Insert, LockRows, MergeAction, OnConflict, Query, QueryBody, Write, each_part,
};
use freestone_store::schema::TableSchema;
use freestone_store::{Snapshot, Table};

use crate::catalog::{Planner, Scope};
use crate::error::Result;
use crate::exec::dml::no_table;
use crate::exec::insert::Source;
use crate::exec::lock_rows;
use crate::exec::merge::MergeQuery;
use crate::exec::returning::Returning;
use crate::exec::row_queries::{RowQuery, Target, position, positions};
use crate::sql::trees;
use crate::sql::written::Written;

/// A query, and what its target stands for.
pub(crate) type Scoped<Q> = (Scope, Q);

/// A statement that changes or locks rows, as it is planned against a snapshot.
pub(crate) struct DescribedWrite {
    /// The query that finds its rows.
    pub rows: Scoped<RowQuery>,
    /// The query of what it returns, over no rows.
    pub returned: Option<Scoped<Box<Query>>>,
    /// Parameters that it assigns to columns: their numbers, from 1, and the columns' types.
    pub assigned: Vec<(usize, DataType)>,
}

impl DescribedWrite {
    /// That of a statement.
    ///
    /// # Errors
    /// The statement cannot be executed on the tables of the snapshot.
    pub fn of(planner: &Planner, snapshot: &Arc<Snapshot>, written: &Written) -> Result<DescribedWrite> {
        let write = written.write()?;
        let target = Target::of(planner, snapshot, write)?;
        let table = found(snapshot, &target)?;
        let rows = rows_of(write, &target, snapshot, &table)?;
        let returned = returned(write, &target, snapshot, &table.schema)?;
        Ok(DescribedWrite { rows, returned, assigned: assigned(write, &table.schema, written.numbers()) })
    }

    /// That of a query that locks its rows.
    ///
    /// # Errors
    /// As for [`DescribedWrite::of`].
    pub fn of_lock(planner: &Planner, snapshot: &Arc<Snapshot>, lock: &LockRows) -> Result<DescribedWrite> {
        let (select, target, _) = lock_rows::parts(lock, planner, snapshot)?;
        let table = found(snapshot, &target)?;
        let rows = target.query_of_rows(select.condition.as_ref(), &[], None);
        let scope = Scope::new(snapshot.clone());
        let returning = Returning::of_items(&target, select.items.clone(), lock.query.order_by.clone());
        let returned = Some(returning.query(scope.clone(), &table.schema, vec![])?);
        let rows = (scope.with_target_rows(&target.name), RowQuery::plain(rows));
        Ok(DescribedWrite { rows, returned, assigned: vec![] })
    }
}

fn found(snapshot: &Arc<Snapshot>, target: &Target) -> Result<Arc<Table>> {
    snapshot.table(&target.name).cloned().ok_or_else(|| no_table(snapshot, &target.name))
}

/// The query of a write's RETURNING over no rows: what its columns are.
pub(crate) fn returned(
    write: &Write,
    target: &Target,
    snapshot: &Arc<Snapshot>,
    schema: &TableSchema,
) -> Result<Option<Scoped<Box<Query>>>> {
    let Some(returning) = Returning::of(target) else { return Ok(None) };
    let returning = if matches!(write, Write::Merge(_)) { returning.with_action("") } else { returning };
    returning.query(Scope::new(snapshot.clone()), schema, vec![]).map(Some)
}

/// The query that finds the rows of a write.
pub(crate) fn rows_of(
    write: &Write,
    target: &Target,
    snapshot: &Arc<Snapshot>,
    table: &Table,
) -> Result<Scoped<RowQuery>> {
    let scope = Scope::new(snapshot.clone());
    let query = match write {
        Write::Insert(insert) => {
            let query = match insert.rows.as_ref().filter(|_| insert.by_name) {
                Some(rows) => trees::behind(insert.with.clone(), rows.clone()),
                None => Source::of(insert, &table.schema, None)?.query,
            };
            return Ok((scope.with_target_columns(&table.schema), RowQuery::plain(query)));
        }
        Write::Update(update) => target.query_of_update(update, &table.schema)?,
        Write::Delete(delete) => RowQuery::plain(target.query_of_rows(delete.condition.as_ref(), &delete.using, None)),
        Write::Merge(merge) => MergeQuery::of(merge, target, &table.schema)?.rows,
    };
    Ok((scope.with_target_rows(&target.name), query))
}

/// Parameters that a statement assigns to columns as they are, and those of ON CONFLICT, of which nothing else is planned
/// before it is executed.
fn assigned(write: &Write, schema: &TableSchema, numbers: &ParameterNumbers) -> Vec<(usize, DataType)> {
    let mut found = Assigned { schema, numbers, found: vec![] };
    match write {
        Write::Update(update) => update.set.iter().for_each(|one| found.assignment(one, false)),
        Write::Insert(insert) => found.insert(insert),
        Write::Merge(merge) => merge.clauses.iter().for_each(|clause| match &clause.action {
            MergeAction::Update(set) => set.iter().for_each(|one| found.assignment(one, false)),
            MergeAction::Insert { columns, values } => {
                let columns: Vec<String> = columns.iter().map(|name| name.text.clone()).collect();
                found.row(&columns, values.iter());
            }
            MergeAction::Delete
            | MergeAction::Nothing
            | MergeAction::Error(_)
            | MergeAction::UpdateAll(_)
            | MergeAction::InsertAll(_) => {}
        }),
        Write::Delete(_) => {}
    }
    found.found
}

struct Assigned<'a> {
    schema: &'a TableSchema,
    numbers: &'a ParameterNumbers,
    found: Vec<(usize, DataType)>,
}

impl Assigned<'_> {
    fn value(&mut self, column: usize, value: &Expr) {
        let ExprKind::Parameter(parameter) = &value.kind else { return };
        let known = self.numbers.number(parameter, value.span.start);
        if let (Some(number @ 1..), Some(column)) = (known, self.schema.columns.get(column)) {
            self.found.push((number, column.data_type.clone()));
        }
    }

    /// `with_parts`: parameters within a value are of its type, too.
    fn assignment(&mut self, assignment: &Assignment, with_parts: bool) {
        let Ok(columns) = positions(self.schema, assignment) else { return };
        let values = match &assignment.value.kind {
            ExprKind::Row(values) if assignment.is_row => values.as_slice(),
            _ => std::slice::from_ref(&assignment.value),
        };
        for (column, value) in columns.into_iter().zip(values) {
            match with_parts {
                true => each_part(value, &mut |part| self.value(column, part)),
                false => self.value(column, value),
            }
        }
    }

    /// The values of a row for columns; all of the table, if none are named.
    fn row<'e>(&mut self, columns: &[String], values: impl Iterator<Item = &'e Expr>) {
        for (at, value) in values.enumerate() {
            let column = match columns.get(at) {
                Some(name) => position(self.schema, name).ok(),
                None => columns.is_empty().then_some(at),
            };
            if let Some(column) = column {
                self.value(column, value);
            }
        }
    }

    fn insert(&mut self, insert: &Insert) {
        let columns: Vec<String> = insert.columns.iter().map(|name| name.text.clone()).collect();
        let mut body = insert.rows.as_ref().filter(|_| !insert.by_name).map(|query| &query.body);
        while let Some(QueryBody::Nested(query)) = body {
            body = Some(&query.body);
        }
        match body {
            Some(QueryBody::Values(rows)) => rows.iter().for_each(|row| self.row(&columns, row.iter())),
            Some(QueryBody::Select(select)) => {
                // What stands behind a star is for other columns.
                let values = select.items.iter().map(|item| &item.value);
                let is_one = |value: &&Expr| {
                    !matches!(value.kind, ExprKind::Star(_) | ExprKind::Columns(_) | ExprKind::Unpacked(_))
                };
                self.row(&columns, values.take_while(is_one));
            }
            _ => {}
        }
        if let Some(OnConflict::Update { set, .. }) = &insert.on_conflict {
            set.iter().for_each(|one| self.assignment(one, true));
        }
    }
}
