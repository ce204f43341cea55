//! The execution of statements: one file per kind. Nothing here knows a session.

pub(crate) mod alter;
pub(crate) mod backup;
pub(crate) mod batch_insert;
pub(crate) mod check;
pub(crate) mod comments;
pub(crate) mod constraints;
pub(crate) mod copy;
pub(crate) mod ddl;
pub(crate) mod defaults;
pub(crate) mod described;
pub(crate) mod dml;
pub(crate) mod dump;
pub(crate) mod generated_columns;
pub(crate) mod indexes;
pub(crate) mod insert;
pub(crate) mod lock_rows;
pub(crate) mod merge;
pub(crate) mod returning;
pub(crate) mod row_checks;
pub(crate) mod row_queries;
pub(crate) mod sequences;
pub(crate) mod stored;
pub(crate) mod stored_values;
pub(crate) mod upsert;
mod view_columns;
pub(crate) mod with_writes;
pub(crate) mod write;

use datafusion::sql::sqlparser::ast;
use freestone_sql::tree::Write;
use freestone_store::WriteTransaction;

use crate::context::Outcome;
use crate::definitions;
use crate::error::{Error, Result};
use crate::sql::macros;
use crate::sql::names::{identifier, object_name};
use crate::sql::parameters::Parameters;
use write::WriteContext;

/// Performs a statement that changes the database. `text` is that of a view's query, as it was written.
pub(crate) fn perform(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    sql: ast::Statement,
    parameters: &Parameters,
    text: Option<String>,
) -> Result<Outcome> {
    use ast::Statement as Sql;
    match sql {
        Sql::Insert(_) | Sql::Delete(_) | Sql::Update(_) | Sql::Merge(_) => {
            perform_write(transaction, context, parameters)
        }
        Sql::Truncate(truncate) => dml::truncate(transaction, &truncate),
        Sql::CreateTable(create) => ddl::create_table(transaction, context, create, parameters),
        Sql::AlterTable(alter) => alter::alter_table(transaction, context, alter),
        Sql::CreateView(create) => ddl::create_view(transaction, context, create, text),
        Sql::CreateSchema { schema_name: ast::SchemaName::Simple(name), if_not_exists, .. } => {
            let schema = name.0.last().and_then(|part| part.as_ident()).map(identifier).unwrap_or_default();
            definitions::create_schema(transaction, &schema, if_not_exists)
        }
        Sql::CreateSequence { if_not_exists, name, data_type, sequence_options, .. } => {
            sequences::create(transaction, &name, data_type.as_ref(), &sequence_options, if_not_exists)
        }
        Sql::CreateMacro { or_replace, temporary, name, args, definition } => {
            if temporary {
                return Err(Error::unsupported("a TEMPORARY macro is not available").with_hint("DROP MACRO drops one"));
            }
            let text = text.unwrap_or_else(|| definition.to_string());
            let parameters = macros::parameters(args.as_deref());
            definitions::create_macro(transaction, &object_name(&name)?, &parameters, &text, or_replace)
        }
        Sql::Comment { object_type, object_name, comment, if_exists: _ } => {
            comments::comment(transaction, context, object_type, &object_name, comment)
        }
        Sql::CreateIndex(create) => indexes::create(transaction, context, create),
        Sql::Drop { object_type: ast::ObjectType::Index, if_exists, names, .. } => {
            indexes::drop_all(transaction, context, if_exists, &names)
        }
        Sql::Drop { object_type, if_exists, names, cascade, .. } => {
            ddl::drop(transaction, object_type, if_exists, cascade, &names)
        }
        other => Err(Error::unsupported(format!("{other} is not a statement that writes"))),
    }
}

/// Performs a statement that changes rows.
pub(crate) fn perform_write(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    parameters: &Parameters,
) -> Result<Outcome> {
    let write = parameters.written()?.write()?;
    match write {
        Write::Insert(own) => insert::insert(transaction, context, (write, own), parameters),
        Write::Delete(own) => dml::delete(transaction, context, (write, own), parameters),
        Write::Update(own) => dml::update(transaction, context, (write, own), parameters),
        Write::Merge(own) => merge::merge(transaction, context, (write, own), parameters),
    }
}
