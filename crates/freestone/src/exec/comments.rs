//! `COMMENT ON TABLE | VIEW | COLUMN name IS 'text'`.

use freestone_sql::tree::{Comment, CommentOn, ObjectName};
use freestone_store::{LockMode, ObjectKind as Kind, WriteTransaction};

use crate::context::Outcome;
use crate::definitions;
use crate::error::{Error, Result};
use crate::exec::write::WriteContext;
use crate::exec::{dml, materialized};
use crate::sql::names::kept_name;

pub(crate) fn comment(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    comment: &Comment,
) -> Result<Outcome> {
    let (object, column) = match comment.on {
        CommentOn::Column => {
            let mut parts = comment.name.parts.clone();
            let column = parts.pop().map(|column| column.text).unwrap_or_default();
            if parts.is_empty() {
                return Err(Error::syntax("syntax error: the form is COMMENT ON COLUMN table.column IS 'text'"));
            }
            (kept_name(&ObjectName { parts, span: comment.name.span })?, Some(column))
        }
        CommentOn::Table | CommentOn::View | CommentOn::MaterializedView => (kept_name(&comment.name)?, None),
    };
    let text = comment.text.as_ref().map(|text| text.value.clone());
    let snapshot = transaction.snapshot();
    let object = context.planner().temp().resolved(&snapshot, &object);
    let is_view = snapshot.view(&object).is_some();
    if comment.on == CommentOn::MaterializedView {
        materialized::require(&snapshot, &object)?;
    }
    match (comment.on, is_view) {
        (CommentOn::View, true) => transaction.lock_name(&object)?,
        (CommentOn::View, false) => {
            return Err(definitions::missing(Kind::View, &object, &snapshot));
        }
        (CommentOn::Column, true) => {
            return Err(Error::unsupported(format!("{object} is a view: its columns have no comments"))
                .with_hint("COMMENT ON VIEW says what it is"));
        }
        _ => {
            let table = dml::find(transaction, &object, LockMode::Exclusive)?;
            let generated = definitions::generated(&snapshot, &object);
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
    definitions::set_comments(transaction, &object, comments)?;
    Ok(Outcome::Done { verb: "COMMENT" })
}
