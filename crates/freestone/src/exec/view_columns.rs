//! Views that a change of a table would break: those that read it, or read others that do. Whether they depend on what
//! changes is found out by planning them before and after.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use freestone_store::{Object, ObjectKind as Kind, Snapshot};

use crate::catalog::Scope;
use crate::dependencies;
use crate::error::{Error, Result};
use crate::exec::renames;
use crate::exec::write::WriteContext;
use crate::sql::names;
use crate::sql::statement::parse_script;

/// The columns of views, by which it shows whether a change of a table changes them.
#[derive(Default)]
pub(super) struct Views {
    views: Vec<View>,
    /// From before the change.
    snapshot: Option<Arc<Snapshot>>,
}

struct View {
    view: Arc<Object>,
    name: String,
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
            let name = dependencies::name_of_view(snapshot, view).to_owned();
            views.push(View { view: view.clone(), name, is_direct, columns });
        }
        views.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Views { views, snapshot: Some(snapshot.clone()) })
    }

    /// A view that reads the table and names a column: its kind and name.
    pub fn naming(&self, column: &str) -> Option<String> {
        let names = |view: &&View| {
            let query = view.view.query().unwrap_or_default();
            view.is_direct && parse_script(query).first().is_some_and(|query| query.names(column))
        };
        self.views.iter().find(names).map(|view| format!("{} {}", view.view.kind().word(), view.name))
    }

    /// Refuses the change if a view that could be planned before has other columns now, or cannot be planned. If the table
    /// has a new name within its schema, columns whose names are the texts of their expressions may have it in them.
    pub fn check(&self, context: &WriteContext, now: &Arc<Snapshot>, table: &str, new: Option<&str>) -> Result<()> {
        let Some(base) = &self.snapshot else { return Ok(()) };
        for View { view, name, columns, .. } in &self.views {
            let kind = view.kind();
            context.check_cancelled()?;
            let (Some(before), Some(changed)) = (columns, now.object_by_id(view.id)) else { continue };
            let may_be = |before: &str, now: &str| {
                new.is_some_and(|new| renames::follows(base, view, (table, new), (before, now)))
            };
            match columns_of(context, now, changed) {
                Ok(columns) if are_same(before, &columns, &may_be) => {}
                Ok(_) => return Err(broken((kind, name), table, "")),
                Err(_) if new.is_some() && renames::reads_version(base, view, table) => {
                    let reason = format!(": it reads an earlier version, in which the name is {table}");
                    return Err(broken((kind, name), table, &reason));
                }
                Err(error) => return Err(broken((kind, name), table, &format!(": {error}"))),
            }
        }
        Ok(())
    }
}

fn broken((kind, view): (Kind, &str), table: &str, reason: &str) -> Error {
    let kind = kind.word();
    Error::invalid(format!("{kind} {view} depends on table {table} as it is{reason}"))
        .with_hint(format!("DROP {} {view} first, and create it again afterwards", kind.to_uppercase()))
}

/// Whether columns have the types and names that they had, or names that may have become of those.
fn are_same(before: &[Arc<Field>], now: &[Arc<Field>], may_be: &dyn Fn(&str, &str) -> bool) -> bool {
    let is_same = |(before, now): (&Arc<Field>, &Arc<Field>)| {
        before == now || before.as_ref().clone().with_name(now.name()) == **now && may_be(before.name(), now.name())
    };
    before.len() == now.len() && before.iter().zip(now).all(is_same)
}

fn columns_of(context: &WriteContext, snapshot: &Arc<Snapshot>, view: &Object) -> Result<Vec<Arc<Field>>> {
    let scope = Scope::new(snapshot.clone()).with_kept_view(dependencies::name_of_view(snapshot, view));
    let (state, plan) = context.plan_text(&scope, view.query().unwrap_or_default())?;
    let fields = names::shown(context.schema_of(&state, &plan)?);
    // Whether a column can have NULL is nothing on which a view depends.
    Ok(fields.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect())
}
