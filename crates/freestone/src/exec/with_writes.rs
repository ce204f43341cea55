//! Statements that write within the WITH of another one: `WITH gone AS (DELETE … RETURNING *) INSERT INTO archive …`.
//!
//! They are executed in order, and the rows that they return are tables of the statements that follow. As in DuckDB, a
//! part sees what the parts before it have changed; in PostgreSQL, all parts see the rows as they were before.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::sql::sqlparser::ast::{self, ObjectName, Statement};
use freestone_store::WriteTransaction;

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::error::{Error, Result};
use crate::exec::returning;
use crate::exec::write::WriteContext;
use crate::inputs::ArrowTable;
use crate::sql::names::object_name;
use crate::sql::parameters::Parameters;
use crate::sql::visitor;
use crate::sql::with_writes::{Part, ROWS, WithWrites};

/// Performs all parts. The outcome is that of the statement behind WITH.
pub(crate) fn perform(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    with: &WithWrites,
    parameters: &Parameters,
) -> Result<Outcome> {
    // Names of rows have no prefix for users.
    performed(transaction, context, with, parameters).map_err(|error| error.replacing(ROWS, ""))
}

fn performed(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    with: &WithWrites,
    parameters: &Parameters,
) -> Result<Outcome> {
    let (parts, main) = parameters.written()?.parts_of_with()?;
    let mut parameters = parameters.clone();
    for (part, written) in with.parts.iter().zip(parts) {
        check_queries(part)?;
        let outcome = super::perform_write(transaction, context, &parameters.of_part(written))?;
        let Some(rows) = rows(context, part, outcome)? else { continue };
        let mut tables: HashMap<String, ArrowTable> = (*parameters.tables).clone();
        tables.insert(part.rows.clone(), rows);
        parameters.tables = Arc::new(tables);
    }
    if !matches!(with.main, Statement::Query(_)) {
        return super::perform_write(transaction, context, &parameters.of_part(main));
    }
    let parameters = parameters.of_part(main);
    let (query, _) = parameters.written()?.query().map_err(Error::unsupported)?;
    let (state, plan) = context.plan_made(&Scope::new(transaction.snapshot()), query, &parameters)?;
    let schema = context.schema_of(&state, &plan)?;
    let batches = context.run(&state, &plan)?.collect::<Result<Vec<_>>>()?;
    context.hold(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
    let schema = batches.first().map_or(schema, RecordBatch::schema);
    Ok(returning::outcome(context, schema, batches))
}

/// The rows that a part returns, if it has RETURNING.
fn rows(context: &WriteContext, part: &Part, outcome: Outcome) -> Result<Option<ArrowTable>> {
    let Outcome::Rows { schema, .. } = &outcome else { return Ok(None) };
    if part.columns.len() > schema.fields().len() {
        let (given, has) = (part.columns.len(), schema.fields().len());
        return Err(Error::invalid(format!("WITH names {given} columns of a statement that returns {has}")));
    }
    let named = schema.fields().iter().enumerate().map(|(at, field)| match part.columns.get(at) {
        Some(name) => field.as_ref().clone().with_name(name),
        None => field.as_ref().clone(),
    });
    let schema = Arc::new(Schema::new(named.collect::<Vec<Field>>()));
    let batches = context.runtime.block_on(outcome.collect())?;
    context.hold(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
    let renamed = batches.into_iter().map(|batch| RecordBatch::try_new(schema.clone(), batch.columns().to_vec()));
    Ok(Some(ArrowTable::of_batches(&schema, renamed.collect::<std::result::Result<Vec<_>, _>>()?)?))
}

/// The table that a statement changes.
fn target(statement: &Statement) -> Result<Option<String>> {
    let of_factor = |factor: &ast::TableFactor| match factor {
        ast::TableFactor::Table { name, .. } => object_name(name).map(Some),
        _ => Ok(None),
    };
    match statement {
        Statement::Insert(insert) => match &insert.table {
            ast::TableObject::TableName(name) => object_name(name).map(Some),
            _ => Ok(None),
        },
        Statement::Update(update) => of_factor(&update.table.relation),
        Statement::Delete(delete) => {
            let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) = &delete.from;
            tables.first().map_or(Ok(None), |table| of_factor(&table.relation))
        }
        Statement::Merge(merge) => of_factor(&merge.table),
        _ => Ok(None),
    }
}

/// Refuses queries of WITH that read a table which a later part changes: whether they see the change would depend on
/// where they are used.
fn check_queries(part: &Part) -> Result<()> {
    struct Names<'a>(&'a str);
    impl ast::Visitor for Names<'_> {
        type Break = ();
        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            match object_name(name).is_ok_and(|name| name == self.0) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    let Some(table) = target(&part.statement)? else { return Ok(()) };
    let Some(query) = part.before.iter().find(|query| visitor::visit(*query, &mut Names(&table)).is_break()) else {
        return Ok(());
    };
    let name = &query.alias.name;
    Err(Error::unsupported(format!("query {name} of WITH reads table {table}, which a later part of WITH changes"))
        .with_hint("write it behind that part, or in a statement of its own"))
}
