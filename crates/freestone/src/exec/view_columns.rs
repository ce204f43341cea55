//! Views that a change of a table would break.
//!
//! A view is kept as text. Whether it depends on what changes is found out by planning it before and after.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use freestone_store::Snapshot;

use crate::catalog::Scope;
use crate::definitions;
use crate::error::{Error, Result};
use crate::exec::write::WriteContext;
use crate::sql::names;
use crate::sql::statement::parse_script;

/// The columns of views, by which it shows whether a change of a table changes them.
#[derive(Default)]
pub(super) struct Views(BTreeMap<String, View>);

struct View {
    text: String,
    /// `None` if it could not be planned.
    columns: Option<Vec<Arc<Field>>>,
}

impl Views {
    pub fn of(context: &WriteContext, snapshot: &Arc<Snapshot>) -> Result<Views> {
        let mut views = BTreeMap::new();
        for (name, text) in definitions::views(snapshot) {
            context.check_cancelled()?;
            let columns = columns_of(context, snapshot, name, text).ok();
            views.insert(name.clone(), View { text: text.to_owned(), columns });
        }
        Ok(Views(views))
    }

    /// The others than this one.
    pub fn without(mut self, name: &str) -> Views {
        self.0.remove(name);
        self
    }

    /// A view that reads a table and names a column.
    pub fn naming(&self, table: &str, column: &str) -> Option<&String> {
        let names = |view: &View| {
            parse_script(&view.text).first().is_some_and(|query| {
                query.names(column) && query.named_tables().is_ok_and(|tables| tables.iter().any(|name| name == table))
            })
        };
        self.0.iter().find(|(_, view)| names(view)).map(|(name, _)| name)
    }

    /// Refuses the change if a view that could be planned before has other columns now, or cannot be planned.
    pub fn check(&self, context: &WriteContext, snapshot: &Arc<Snapshot>, table: &str) -> Result<()> {
        for (name, View { text, columns }) in &self.0 {
            let Some(before) = columns else { continue };
            if columns_of(context, snapshot, name, text).ok().as_ref() != Some(before) {
                return Err(Error::invalid(format!("view {name} depends on table {table} as it is"))
                    .with_hint(format!("DROP VIEW {name} first, and create it again afterwards")));
            }
        }
        Ok(())
    }
}

fn columns_of(context: &WriteContext, snapshot: &Arc<Snapshot>, name: &str, text: &str) -> Result<Vec<Arc<Field>>> {
    let scope = Scope::new(snapshot.clone()).with_view(name);
    let (state, plan) = context.plan_text(&scope, text)?;
    let fields = names::shown(context.schema_of(&state, &plan)?);
    // Whether a column can have NULL is nothing on which a view depends.
    Ok(fields.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect())
}
