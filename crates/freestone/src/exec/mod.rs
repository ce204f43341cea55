//! The execution of statements: one file per kind. Nothing here knows a session.

pub(crate) mod alter;
pub(crate) mod backup;
pub(crate) mod batch_insert;
pub(crate) mod check;
mod column_types;
pub(crate) mod comments;
pub(crate) mod constraints;
pub(crate) mod copy;
mod create_table;
pub(crate) mod ddl;
pub(crate) mod defaults;
pub(crate) mod described;
pub(crate) mod dml;
mod dropping;
mod drops;
pub(crate) mod dump;
pub(crate) mod generated_columns;
mod implied_sort;
pub(crate) mod indexes;
pub(crate) mod insert;
pub(crate) mod lock_rows;
pub(crate) mod materialized;
pub(crate) mod merge;
pub(crate) mod on_commit;
mod renames;
pub(crate) mod returning;
pub(crate) mod row_checks;
pub(crate) mod row_queries;
pub(crate) mod sequences;
pub(crate) mod stored;
pub(crate) mod stored_values;
mod struct_fields;
pub(crate) mod upsert;
mod view_columns;
pub(crate) mod with_writes;
pub(crate) mod write;

use freestone_sql::tree::{StatementKind, Write};
use freestone_store::WriteTransaction;

use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::row_queries::Target;
use crate::sql::parameters::Parameters;
use write::WriteContext;

/// Performs a statement that creates, changes, drops or describes something, or empties a table. Names of temporary tables in it
/// are those of the catalog.
pub(crate) fn define(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    definition: &StatementKind,
    parameters: &Parameters,
) -> Result<Outcome> {
    use StatementKind as Kind;
    let text = parameters.written()?.text();
    match definition {
        Kind::CreateTable(create) => create_table::create_table(transaction, context, create, parameters),
        Kind::AlterTable(alter) => alter::alter_table(transaction, context, alter, text),
        Kind::CreateView(create) => ddl::create_view(transaction, context, create, text),
        Kind::RenameView(rename) => alter::alter_view(transaction, context, rename),
        Kind::CreateMaterializedView(create) => materialized::create(transaction, context, create, parameters),
        Kind::RefreshView(refresh) => materialized::refresh(transaction, context, refresh),
        Kind::CreateIndex(create) => indexes::create(transaction, context, create),
        Kind::CreateSequence(create) => sequences::create(transaction, create),
        Kind::CreateMacro(create) => ddl::create_macro(transaction, create, text),
        Kind::CreateSchema(create) => ddl::create_schema(transaction, create),
        Kind::CreateType(create) => ddl::create_type(transaction, context, create, text),
        Kind::Drop(drop) => drops::drop(transaction, context, drop),
        Kind::Comment(comment) => comments::comment(transaction, context, comment),
        Kind::Truncate(truncate) => dml::truncate(transaction, truncate),
        _ => Err(Error::new(ErrorKind::Internal, "internal error: the statement is no definition")),
    }
}

/// Performs a statement that changes rows.
pub(crate) fn perform_write(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    parameters: &Parameters,
) -> Result<Outcome> {
    let write = parameters.written()?.write()?;
    let performed = match write {
        Write::Insert(own) => insert::insert(transaction, context, (write, own), parameters),
        Write::Delete(own) => dml::delete(transaction, context, (write, own), parameters),
        Write::Update(own) => dml::update(transaction, context, (write, own), parameters),
        Write::Merge(own) => merge::merge(transaction, context, (write, own), parameters),
    };
    performed.map_err(|error| match Target::of(context.planner(), &transaction.snapshot(), write) {
        Ok(target) => error.in_table(&target.name),
        Err(_) => error,
    })
}
