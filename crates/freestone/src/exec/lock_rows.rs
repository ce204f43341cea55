//! `SELECT … FROM table [WHERE …] FOR UPDATE`: like a DELETE that returns its rows, which are locked, and stay.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::BooleanArray;
use datafusion::arrow::compute::filter_record_batch;
use freestone_sql::tree::{LockRows, LockWait, QueryBody, Select, TableKind};
use freestone_store::{LockMode, Snapshot, StoreError, Waiting, WriteTransaction};

use crate::catalog::{Planner, Scope};
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::dml::{find, meet, row_id_column};
use crate::exec::returning::Returning;
use crate::exec::row_queries::Target;
use crate::exec::write::WriteContext;
use crate::sql::locking;
use crate::sql::parameters::Parameters;

/// The SELECT of such a query, and its only table, and how many rows are locked at most.
///
/// # Errors
/// It has another form than one that can lock rows.
pub(crate) fn parts<'l>(
    lock: &'l LockRows,
    planner: &Planner,
    snapshot: &Arc<Snapshot>,
) -> Result<(&'l Select, Target<'l>, Option<u64>)> {
    let limit = locking::limit_of(lock)?;
    let unexpected =
        || Error::new(ErrorKind::Internal, "internal error: FOR UPDATE of another query than of one table");
    let QueryBody::Select(select) = &lock.query.body else { return Err(unexpected()) };
    let [table] = select.from.as_slice() else { return Err(unexpected()) };
    let TableKind::Named { name, .. } = &table.kind else { return Err(unexpected()) };
    let alias = table.alias.as_ref().map(|alias| &alias.name);
    Ok((select, Target::named(planner, snapshot, name, alias)?, limit))
}

/// Locks the rows of a query, and returns them.
pub(crate) fn lock_rows(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    parameters: &Parameters,
) -> Result<Outcome> {
    let lock = parameters.written()?.lock()?;
    let (select, target, limit) = parts(lock, context.planner(), &transaction.snapshot())?;
    let returning = Returning::of_items(&target, select.items.clone(), lock.query.order_by.clone());
    let skips_locked = lock.wait == LockWait::SkipLocked;
    // They do not wait for rows, so they must not wait for the whole table because of some.
    let is_immediate = lock.wait != LockWait::Wait;
    let table = find(transaction, &target.name, if is_immediate { LockMode::Shared } else { context.row_lock })?;
    if is_immediate {
        transaction.set_waiting(Waiting { timeout: Some(Duration::ZERO), ..context.waiting.clone() });
    }
    let snapshot = transaction.snapshot();
    let mut query = target.query_of_rows(select.condition.as_ref(), &[], Some(&table.schema));
    if !skips_locked && limit.is_none() {
        let (row_ids, rows) = meet(context, &snapshot, &query, &target.name, true, parameters)?;
        transaction.lock_row_ids(&target.name, row_ids)?;
        return returning.rows(context, snapshot, parameters, &table.schema, rows);
    }
    query.order_by = lock.query.order_by.clone().filter(|_| limit.is_some());
    let scope = Scope::new(snapshot.clone()).with_target_rows(&target.name);
    let (state, plan) = context.plan_made(&scope, &query, parameters)?;
    let (mut left, mut rows) = (limit.unwrap_or(u64::MAX), vec![]);
    for batch in context.run(&state, &plan)? {
        let batch = batch?;
        let mut locks = |id: &u64| -> Result<bool> {
            let is_locked = left > 0 && locks_row(transaction, &target.name, *id, skips_locked)?;
            left -= u64::from(is_locked);
            Ok(is_locked)
        };
        let ids = row_id_column(&batch)?.values();
        let locked: BooleanArray = ids.iter().map(|id| locks(id).map(Some)).collect::<Result<Vec<_>>>()?.into();
        let columns: Vec<usize> = (1..batch.num_columns()).collect();
        rows.push(filter_record_batch(&batch.project(&columns)?, &locked)?);
        if left == 0 {
            break;
        }
    }
    returning.rows(context, snapshot, parameters, &table.schema, rows)
}

/// Locks a row; `false` if another transaction has locked it, and such rows are left out.
fn locks_row(transaction: &mut WriteTransaction, table: &str, row: u64, skips_locked: bool) -> Result<bool> {
    match transaction.lock_row_ids(table, [row]) {
        Err(StoreError::LockTimeout(_)) if skips_locked => Ok(false),
        locked => Ok(locked.map(|()| true)?),
    }
}
