//! Views that a change of a table would break: those that read it, or read others that do. Whether they depend on what
//! changes is found out by planning them before and after.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use freestone_store::{Object, Snapshot};

use crate::catalog::Scope;
use crate::dependencies;
use crate::error::{Error, Result};
use crate::exec::write::WriteContext;
use crate::sql::names;
use crate::sql::statement::parse_script;

/// The columns of views, by which it shows whether a change of a table changes them.
#[derive(Default)]
pub(super) struct Views(Vec<View>);

struct View {
    view: Arc<Object>,
    /// Whether it names the table itself.
    is_direct: bool,
    /// `None` if it could not be planned.
    columns: Option<Vec<Arc<Field>>>,
}

impl Views {
    /// The views on a table or view.
    pub fn on(context: &WriteContext, snapshot: &Arc<Snapshot>, id: u64) -> Result<Views> {
        let mut views = vec![];
        for view in dependencies::views_on(snapshot, id) {
            context.check_cancelled()?;
            let (columns, is_direct) = (columns_of(context, snapshot, view).ok(), view.uses.contains(&id));
            views.push(View { view: view.clone(), is_direct, columns });
        }
        views.sort_by(|one, other| one.view.name.cmp(&other.view.name));
        Ok(Views(views))
    }

    /// A view that reads the table and names a column.
    pub fn naming(&self, column: &str) -> Option<&String> {
        let names = |view: &&View| {
            let query = view.view.query().unwrap_or_default();
            view.is_direct && parse_script(query).first().is_some_and(|query| query.names(column))
        };
        self.0.iter().find(names).map(|view| &view.view.name)
    }

    /// Refuses the change if a view that could be planned before has other columns now, or cannot be planned.
    pub fn check(&self, context: &WriteContext, snapshot: &Arc<Snapshot>, table: &str) -> Result<()> {
        for View { view, columns, .. } in &self.0 {
            let (Some(before), Some(now)) = (columns, snapshot.object_by_id(view.id)) else { continue };
            if columns_of(context, snapshot, now).ok().as_ref() != Some(before) {
                let name = &view.name;
                return Err(Error::invalid(format!("view {name} depends on table {table} as it is"))
                    .with_hint(format!("DROP VIEW {name} first, and create it again afterwards")));
            }
        }
        Ok(())
    }
}

fn columns_of(context: &WriteContext, snapshot: &Arc<Snapshot>, view: &Object) -> Result<Vec<Arc<Field>>> {
    let scope = Scope::new(snapshot.clone()).with_view(&view.name);
    let (state, plan) = context.plan_text(&scope, view.query().unwrap_or_default())?;
    let fields = names::shown(context.schema_of(&state, &plan)?);
    // Whether a column can have NULL is nothing on which a view depends.
    Ok(fields.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect())
}
