//! Statements that write within the WITH of another one: `WITH gone AS (DELETE … RETURNING *) INSERT INTO archive …`.
//!
//! They are executed in order, and the rows that they return are tables of the statements that follow. As in DuckDB, a
//! part sees what the parts before it have changed; in PostgreSQL, all parts see the rows as they were before.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema};
use freestone_sql::tree::Name;
use freestone_store::WriteTransaction;

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::error::{Error, Result};
use crate::exec::returning;
use crate::exec::write::WriteContext;
use crate::inputs::ArrowTable;
use crate::sql::parameters::Parameters;
use crate::sql::written::{PartOfWith, ROWS};

/// Performs all parts. The outcome is that of the statement behind WITH.
pub(crate) fn perform(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    parameters: &Parameters,
) -> Result<Outcome> {
    // Names of rows have no prefix for users.
    performed(transaction, context, parameters).map_err(|error| error.replacing(ROWS, ""))
}

fn performed(transaction: &mut WriteTransaction, context: &WriteContext, parameters: &Parameters) -> Result<Outcome> {
    let written = parameters.written()?.clone();
    let (parts, main) = written.parts_of_with()?;
    let mut parameters = parameters.clone();
    for PartOfWith { name, columns, written } in parts {
        let outcome = super::perform_write(transaction, context, &parameters.of_part(written))?;
        let Some(rows) = rows(context, columns, outcome)? else { continue };
        let mut tables: HashMap<String, ArrowTable> = (*parameters.tables).clone();
        tables.insert(format!("{ROWS}{name}"), rows);
        parameters.tables = Arc::new(tables);
    }
    if main.write().is_ok() {
        return super::perform_write(transaction, context, &parameters.of_part(main));
    }
    let parameters = parameters.of_part(main);
    let (query, _) = parameters.written()?.query()?;
    let (state, plan) = context.plan_made(&Scope::new(transaction.snapshot()), query, &parameters)?;
    let schema = context.schema_of(&state, &plan)?;
    let batches = context.run(&state, &plan)?.collect::<Result<Vec<_>>>()?;
    context.hold(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
    let schema = batches.first().map_or(schema, RecordBatch::schema);
    Ok(returning::outcome(context, schema, batches))
}

/// The rows that a part returns, if it has RETURNING.
fn rows(context: &WriteContext, columns: &[Name], outcome: Outcome) -> Result<Option<ArrowTable>> {
    let Outcome::Rows { schema, .. } = &outcome else { return Ok(None) };
    if columns.len() > schema.fields().len() {
        let (given, has) = (columns.len(), schema.fields().len());
        return Err(Error::invalid(format!("WITH names {given} columns of a statement that returns {has}")));
    }
    let named = schema.fields().iter().enumerate().map(|(at, field)| match columns.get(at) {
        Some(name) => field.as_ref().clone().with_name(&name.text),
        None => field.as_ref().clone(),
    });
    let schema = Arc::new(Schema::new(named.collect::<Vec<Field>>()));
    let batches = context.runtime.block_on(outcome.collect())?;
    context.hold(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
    let renamed = batches.into_iter().map(|batch| RecordBatch::try_new(schema.clone(), batch.columns().to_vec()));
    Ok(Some(ArrowTable::of_batches(&schema, renamed.collect::<std::result::Result<Vec<_>, _>>()?)?))
}
