//! What depends on tables and other objects of the catalog. It is recorded by ids when something is made: for a view by
//! the binder, for expressions and macros here, by their trees. What a macro uses is looked up again in each call, so it is
//! recorded for the order of definitions alone, and nothing is refused because of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use freestone_binder::{Named, each_expression, named_tables};
use freestone_sql::tree::{Expr, ExprKind, Query, Type, TypeKind, each_part};
use freestone_store::{Definition, MaterializedView, Object, ObjectKind as Kind, Snapshot, Table, User, Uses};

use crate::definitions;
use crate::error::{Error, Result};
use crate::internal_names::{is_temporary, shown};
use crate::sequences::{catalog_name, named_sequence};
use crate::sql::names::kept_name;
use crate::sql::trees;
use crate::sql::written::Written;

/// The ids of the macros, types and sequences that an expression names.
pub(crate) fn of_expression(snapshot: &Snapshot, expression: &Expr) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    each_part(expression, &mut |part| add_named(snapshot, part, &mut found));
    found
}

/// The ids of the sequences that a query names.
pub(crate) fn sequences_of(snapshot: &Snapshot, query: &Query) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    each_expression(query, &mut |part| found.extend(sequence_of(snapshot, part)));
    found
}

/// The ids of the tables, views and other objects that a query names, wherever it will be used.
pub(crate) fn of_query(snapshot: &Snapshot, query: &Query) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for named in named_tables(query) {
        if let Named::Table(name) | Named::Version(name, _) = named {
            found.extend(kept_name(&name).ok().and_then(|name| snapshot.relation_id(&name)));
        }
    }
    each_expression(query, &mut |part| add_named(snapshot, part, &mut found));
    found
}

/// What all tables and objects of a database name, which earlier format versions have not recorded. A text that cannot be read
/// names nothing: whoever uses the object is told.
pub(crate) fn of_all(snapshot: &Snapshot) -> Uses {
    let objects = snapshot.all_objects().map(|object| (object.id, of_definition(snapshot, &object.definition)));
    let tables = snapshot.tables().map(|table| (table.id, of_table(snapshot, table).unwrap_or_default()));
    objects.chain(tables).filter(|(_, uses)| !uses.is_empty()).collect()
}

fn of_definition(snapshot: &Snapshot, definition: &Definition) -> BTreeSet<u64> {
    match definition {
        Definition::View { query: text }
        | Definition::MaterializedView(MaterializedView { query: text, .. })
        | Definition::Macro { body: text, is_query: true, .. } => {
            Written::new(text).query().map(|(query, _)| of_query(snapshot, query)).unwrap_or_default()
        }
        Definition::Macro { body, is_query: false, .. } => {
            trees::parsed(body).map(|value| of_expression(snapshot, &value)).unwrap_or_default()
        }
        Definition::Type { text } => {
            freestone_sql::parse_type(text).map(|data_type| of_type(snapshot, &data_type)).unwrap_or_default()
        }
        _ => BTreeSet::new(),
    }
}

/// A part of a table that names objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'t> {
    /// The DEFAULT of the column at a position.
    Default(usize),
    /// A CHECK, by its name.
    Check(&'t str),
    /// A generated column, by its name.
    Generated(&'t str),
}

/// The defaults, conditions and generated columns of a table, each with the ids of the objects that it names.
///
/// # Errors
/// The text of an expression, which was read once, cannot be read.
fn parts_of<'t>(snapshot: &'t Snapshot, table: &'t Table) -> Result<Vec<(Part<'t>, BTreeSet<u64>)>> {
    let (schema, generated) = (&table.schema, definitions::generated(snapshot, &table.name));
    let defaults = (0..schema.columns.len()).filter_map(|at| Some((Part::Default(at), schema.default_of(at)?)));
    let checks = schema.checks.iter().map(|check| (Part::Check(&check.name), check.condition.as_str()));
    let values = generated.iter().map(|column| (Part::Generated(&column.name), column.declared.as_str()));
    let mut parts = vec![];
    for (part, text) in defaults.chain(checks).chain(values) {
        parts.push((part, of_expression(snapshot, &trees::parsed(text)?)));
    }
    for column in generated {
        let data_type = column.data_type.as_deref().and_then(|text| freestone_sql::parse_type(text).ok());
        parts.extend(data_type.map(|data_type| (Part::Generated(&column.name), of_type(snapshot, &data_type))));
    }
    Ok(parts)
}

/// The ids of the objects that the defaults, conditions and generated columns of a table name.
///
/// # Errors
/// The text of an expression, which was read once, cannot be read.
pub(crate) fn of_table(snapshot: &Snapshot, table: &Table) -> Result<BTreeSet<u64>> {
    Ok(parts_of(snapshot, table)?.into_iter().flat_map(|(_, ids)| ids).collect())
}

/// The parts of a table that name an object.
///
/// # Errors
/// As for [`of_table`].
pub(crate) fn parts_naming<'t>(snapshot: &'t Snapshot, table: &'t Table, id: u64) -> Result<Vec<Part<'t>>> {
    let parts = parts_of(snapshot, table)?;
    Ok(parts.into_iter().filter(|(_, ids)| ids.contains(&id)).map(|(part, _)| part).collect())
}

/// The ids of the types that a type names.
pub(crate) fn of_type(snapshot: &Snapshot, data_type: &Type) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    add_types(snapshot, data_type, &mut found);
    found
}

fn add_named(snapshot: &Snapshot, part: &Expr, found: &mut BTreeSet<u64>) {
    match &part.kind {
        ExprKind::Call(call) => {
            let own = call.name.parts.last().map(|name| name.text.clone());
            let known = kept_name(&call.name).ok().into_iter().chain(own);
            found.extend(known.filter_map(|name| Some(snapshot.object(Kind::Macro, &name)?.id)).next());
            found.extend(sequence_of(snapshot, part));
        }
        ExprKind::Cast { data_type, .. } => add_types(snapshot, data_type, found),
        _ => {}
    }
}

fn sequence_of(snapshot: &Snapshot, part: &Expr) -> Option<u64> {
    let name = catalog_name(&named_sequence(part)?).ok()?;
    snapshot.object(Kind::Sequence, &name).map(|object| object.id)
}

fn add_types(snapshot: &Snapshot, data_type: &Type, found: &mut BTreeSet<u64>) {
    match &data_type.kind {
        TypeKind::Named { name, .. } => {
            let Ok(name) = kept_name(name) else { return };
            let known =
                snapshot.object(Kind::Type, &name).or_else(|| snapshot.object(Kind::Type, &name.to_lowercase()));
            found.extend(known.map(|object| object.id));
        }
        TypeKind::List(item) | TypeKind::Array(item, _) => add_types(snapshot, item, found),
        TypeKind::Struct(fields) => fields.iter().for_each(|field| add_types(snapshot, &field.data_type, found)),
        TypeKind::Map(key, value) => [key, value].into_iter().for_each(|part| add_types(snapshot, part, found)),
        TypeKind::Enum(_) => {}
    }
}

/// Refuses a table that outlives its session, but not what it uses.
pub(crate) fn check_lasting(snapshot: &Snapshot, table: &str, uses: &BTreeSet<u64>) -> Result<()> {
    let mut used = uses.iter().filter_map(|id| snapshot.object_by_id(*id));
    match used.find(|used| is_temporary(&used.name) && !is_temporary(table)) {
        Some(used) => {
            let (kind, used) = (used.kind().word(), shown(&used.name));
            Err(Error::invalid(format!(
                "{kind} {used}, which table {table} uses, is temporary and ends with the session"
            ))
            .with_hint(format!("make {table} temporary as well, or the {kind} a permanent one")))
        }
        None => Ok(()),
    }
}

/// Whether some objects are this one, or use it over others.
pub(crate) fn reaches(snapshot: &Snapshot, some: &BTreeSet<u64>, id: u64) -> bool {
    let (mut known, mut waiting) = (some.clone(), some.iter().copied().collect::<Vec<_>>());
    while let Some(next) = waiting.pop() {
        let used = snapshot.object_by_id(next).into_iter().flat_map(|object| object.uses.iter().copied());
        waiting.extend(used.filter(|id| known.insert(*id)));
    }
    known.contains(&id)
}

/// The name of a view, which is that of its table if it is a materialized one.
pub(crate) fn name_of_view<'s>(snapshot: &'s Snapshot, view: &'s Object) -> &'s str {
    let table = view.owner.and_then(|owner| snapshot.table_by_id(owner));
    table.map_or(&view.name, |table| &table.name)
}

/// The views that read a table or view, and those that read them.
pub(crate) fn views_on(snapshot: &Snapshot, id: u64) -> Vec<&Arc<Object>> {
    let (mut found, mut known, mut waiting) = (vec![], HashSet::from([id]), vec![id]);
    while let Some(used) = waiting.pop() {
        for user in snapshot.users(&[used]) {
            if let User::Object(view) = user
                && view.query().is_some()
                && known.insert(view.id)
            {
                // A materialized view is read as its table.
                waiting.push(view.owner.unwrap_or(view.id));
                found.push(view);
            }
        }
    }
    found
}

/// Whether a name alone in a temporary view means a permanent table or view, although something temporary has the name,
/// too, whose full name is given: it means what it meant when the view was made, which is among what the view uses.
pub(crate) fn means_permanent(snapshot: &Snapshot, uses: &BTreeSet<u64>, name: &str, temporary: &str) -> bool {
    let is_used = |name: &str| snapshot.relation_id(name).is_some_and(|id| uses.contains(&id));
    is_used(name) && !is_used(temporary)
}

/// The objects of a kind, each after those that it uses, also by the macros that it calls, where they are not in a circle.
pub(crate) fn in_order<'s>(snapshot: &'s Snapshot, objects: Vec<&'s Arc<Object>>) -> Vec<&'s Arc<Object>> {
    let places: HashMap<u64, usize> = objects.iter().enumerate().map(|(place, object)| (object.id, place)).collect();
    let needs = |at: usize| {
        let (mut needed, mut known) = (vec![], HashSet::from([objects[at].id]));
        let mut waiting: Vec<u64> = objects[at].uses.iter().copied().collect();
        while let Some(id) = waiting.pop() {
            if !known.insert(id) {
                continue;
            }
            needed.extend(places.get(&id).copied());
            let used = snapshot.object_by_id(id).filter(|object| object.kind() == Kind::Macro);
            waiting.extend(used.iter().flat_map(|object| object.uses.iter().copied()));
        }
        needed
    };
    order(objects.len(), needs).into_iter().map(|at| objects[at]).collect()
}

/// The numbers below `count`, each after those that it needs, where they are not in a circle.
pub(crate) fn order(count: usize, needs: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    let (mut order, mut visited) = (Vec::with_capacity(count), vec![false; count]);
    for first in 0..count {
        // A stack of its own, because chains may be long: the number, and what it still waits for.
        let mut stack = vec![];
        if !std::mem::replace(&mut visited[first], true) {
            stack.push((first, needs(first)));
        }
        while let Some((at, waiting)) = stack.last_mut() {
            match waiting.pop() {
                Some(needed) if visited[needed] => {}
                Some(needed) => {
                    visited[needed] = true;
                    stack.push((needed, needs(needed)));
                }
                None => {
                    order.push(*at);
                    stack.pop();
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn each_follows_what_it_needs() {
        let needs = |at: usize| [vec![2, 1], vec![3], vec![3], vec![]][at].clone();
        assert_eq!(order(4, needs), [3, 1, 2, 0]);
        assert_eq!(order(2, |at| vec![1 - at]).len(), 2, "a circle");
    }
}
