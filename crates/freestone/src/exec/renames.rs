//! New names of tables and views: the views that read them go on.
//!
//! In the query of such a view, each reference to the table without an alias gets its old name as alias, so that columns
//! that are written with it stay right: `FROM t` becomes `FROM u AS t`.

use freestone_binder::{Reference, each_reference};
use freestone_sql::Span;
use freestone_sql::tree::{Name, ObjectName, Table, TableAlias, TableKind};
use freestone_store::{Object, Snapshot, User, WriteTransaction};

use crate::dependencies;
use crate::error::Result;
use crate::internal_names::{PG_TEMP, is_temporary};
use crate::provider::metadata::bare_or_quoted;
use crate::sequences::is_taken;
use crate::sql::names::{SCHEMA, kept_name, name_in};
use crate::sql::written::Written;

/// Rewrites the views that read a table or view, before it gets a new name in its schema.
pub(super) fn follow(transaction: &mut WriteTransaction, id: u64, old: &str, new: &str) -> Result<()> {
    let snapshot = transaction.snapshot();
    for user in snapshot.users(&[id]) {
        let User::Object(view) = user else { continue };
        let Some(query) = view.query() else { continue };
        let rename = Rename { snapshot: &snapshot, view, old, new };
        // A part of WITH may have the new name.
        let is_used = freestone_sql::names_in(query).any(|(name, _)| name.eq_ignore_ascii_case(new));
        // A query that cannot be read is not changed.
        if let Some(query) = rename.rewritten(query, is_used) {
            transaction.change_object(view.id, |view| view.set_query(query))?;
        }
    }
    Ok(())
}

/// Whether a column without a name of its own is called by the text of an expression, which has the new name of a table
/// now. `snapshot` and `view` are those from before.
pub(super) fn follows(
    snapshot: &Snapshot,
    view: &Object,
    (old, new): (&str, &str),
    (before, now): (&str, &str),
) -> bool {
    let rename = Rename { snapshot, view, old, new };
    let now = format!("SELECT {now}");
    let renamed = |is_used: bool| rename.rewritten(&format!("SELECT {before}"), is_used);
    [false, true].into_iter().any(|is_used| renamed(is_used).as_ref() == Some(&now))
}

/// Whether a view reads an earlier version of a table, in which that has its old name.
pub(super) fn reads_version(snapshot: &Snapshot, view: &Object, old: &str) -> bool {
    let rename = Rename { snapshot, view, old, new: old };
    let (written, mut found) = (Written::new(view.query().unwrap_or_default()), false);
    let Ok((tree, _)) = written.query() else { return false };
    each_reference(tree, &mut |reference| {
        if let Reference::Table(table) = reference
            && let TableKind::Named { name, version: Some(_) } = &table.kind
        {
            found |= rename.is_old(name);
        }
    });
    found
}

struct Rename<'a> {
    snapshot: &'a Snapshot,
    view: &'a Object,
    /// The name in the catalog.
    old: &'a str,
    /// The name within the schema.
    new: &'a str,
}

impl Rename<'_> {
    /// The query with the new name. `is_used`: whether it has that name already.
    fn rewritten(&self, query: &str, is_used: bool) -> Option<String> {
        let written = Written::new(query);
        let (tree, text) = written.query().ok()?;
        let mut edits: Vec<(Span, String)> = vec![];
        each_reference(tree, &mut |reference| match reference {
            Reference::Table(table) => edits.extend(self.renamed(table, is_used)),
            Reference::Body(name) if self.is_old(name) => {
                edits.push((name.span, self.new_name(name, is_used).to_string()));
            }
            Reference::Body(_) => {}
        });
        edits.sort_by_key(|(span, _)| span.start);
        let (mut rewritten, mut end) = (String::new(), 0);
        for (span, with) in edits {
            rewritten.push_str(text.get(end..span.start as usize)?);
            rewritten.push_str(&with);
            end = span.end as usize;
        }
        rewritten.push_str(text.get(end..)?);
        Some(rewritten)
    }

    /// Whether a name in the view means the object.
    fn is_old(&self, name: &ObjectName) -> bool {
        let parts: Vec<&str> = name.parts.iter().map(|part| part.text.as_str()).collect();
        match (parts.as_slice(), self.own_schema()) {
            ([PG_TEMP, table], Some(schema)) => name_in(schema, table) == self.old,
            ([table], Some(schema)) if self.means_temporary(table, &name_in(schema, table)) => {
                name_in(schema, table) == self.old
            }
            _ => kept_name(name).is_ok_and(|name| name == self.old),
        }
    }

    /// The schema of a temporary view.
    fn own_schema(&self) -> Option<&str> {
        let (schema, _) = self.view.name.split_once('.')?;
        is_temporary(&self.view.name).then_some(schema)
    }

    /// Whether a name alone means something temporary, whose full name this is.
    fn means_temporary(&self, name: &str, temporary: &str) -> bool {
        is_taken(self.snapshot, temporary)
            && !dependencies::means_permanent(self.snapshot, &self.view.uses, name, temporary)
    }

    /// A reference to the object under its new name: where it stands, and what stands there instead.
    fn renamed(&self, table: &Table, is_used: bool) -> Option<(Span, String)> {
        let mut renamed = table.clone();
        let TableKind::Named { name, .. } = &mut renamed.kind else { return None };
        if !self.is_old(name) {
            return None;
        }
        let (span, old) = (name.span, name.parts.last().cloned());
        *name = self.new_name(name, is_used);
        if renamed.alias.is_some() {
            return Some((span, name.to_string()));
        }
        renamed.alias = old.map(|name| TableAlias { name, columns: vec![] });
        Some((table.span, renamed.to_string()))
    }

    /// The new name with the schema of the old one, also if that was not written and the name alone would mean something else.
    fn new_name(&self, old: &ObjectName, is_used: bool) -> ObjectName {
        let mut parts = old.parts.clone();
        parts.pop();
        let is_hidden = !is_temporary(self.old)
            && self.own_schema().is_some_and(|schema| is_taken(self.snapshot, &name_in(schema, self.new)));
        if parts.is_empty() && (is_used || is_hidden) {
            let schema = if is_temporary(self.old) { PG_TEMP } else { SCHEMA };
            parts.push(Name { text: schema.to_owned(), quoted: false, span: old.span });
        }
        parts.push(part(self.new, old.span));
        ObjectName { parts, span: old.span }
    }
}

fn part(text: &str, span: Span) -> Name {
    Name { text: text.to_owned(), quoted: bare_or_quoted(text) != text, span }
}
