//! `COMMENT ON TABLE | VIEW | COLUMN name IS 'text'`.

use datafusion::sql::sqlparser::ast::{self, CommentObject};
use freestone_store::{LockMode, WriteTransaction};

use crate::context::Outcome;
use crate::definitions;
use crate::error::{Error, Result};
use crate::exec::dml;
use crate::exec::write::WriteContext;
use crate::sql::names::{identifier, object_name};

pub(crate) fn comment(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    kind: CommentObject,
    name: &ast::ObjectName,
    text: Option<String>,
) -> Result<Outcome> {
    let (object, column) = match kind {
        CommentObject::Column => {
            let mut parts = name.0.clone();
            let column = parts.pop().and_then(|part| part.as_ident().map(identifier)).unwrap_or_default();
            if parts.is_empty() {
                return Err(Error::syntax("syntax error: the form is COMMENT ON COLUMN table.column IS 'text'"));
            }
            (object_name(&ast::ObjectName(parts))?, Some(column))
        }
        _ => (object_name(name)?, None),
    };
    let snapshot = transaction.snapshot();
    let object = context.planner().temp().resolved(&snapshot, &object);
    let is_view = snapshot.views().contains_key(&object) && snapshot.table(&object).is_none();
    match (kind, is_view) {
        (CommentObject::View, true) => transaction.lock_name(&object)?,
        (CommentObject::View, false) => {
            let views = definitions::views(&snapshot).map(|(name, _)| name.as_str());
            return Err(Error::not_found("view", &object, views));
        }
        (CommentObject::Column, true) => {
            return Err(Error::unsupported(format!("{object} is a view: its columns have no comments"))
                .with_hint("COMMENT ON VIEW says what it is"));
        }
        _ => {
            let table = dml::find(transaction, &object, LockMode::Exclusive)?;
            let generated = definitions::generated(&snapshot, &object).unwrap_or_default();
            if let Some(column) = &column
                && !generated.iter().any(|known| known.name == *column)
            {
                table.schema.index_of(column)?;
            }
        }
    }
    let mut comments = definitions::comments(&transaction.snapshot(), &object);
    match (column, text) {
        (None, text) => comments.own = text,
        (Some(column), Some(text)) => drop(comments.columns.insert(column, text)),
        (Some(column), None) => drop(comments.columns.remove(&column)),
    }
    definitions::set_comments(transaction, &object, &comments)?;
    Ok(Outcome::Done { verb: "COMMENT" })
}
