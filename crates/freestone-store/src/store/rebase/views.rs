//! Whether a materialized view that a transaction has computed has the rows of its query when the transaction commits.

use std::sync::Arc;

use super::{Commit, Kind, Operation, States, conflict};
use crate::error::Result;
use crate::table::{SegmentEntry, Table};

/// Notes the views that this transaction has computed, and whose tables are as it has seen them. Others keep the rows that
/// were computed, and are not current.
///
/// # Errors
/// Others have changed a table of a view that each commit computes anew.
pub(super) fn note_current(states: &States<'_>, commit: &mut Commit) -> Result<()> {
    for view in states.all_mine.tables.values() {
        let Some(of) = &view.computed_from else { continue };
        let before = states.base.get(&view.id);
        if before.is_some_and(|before| before.computed_from == view.computed_from && before.changed == view.changed) {
            continue;
        }
        let altered =
            of.keys().copied().find(|id| !is_as_seen(states, *id)).or_else(|| changed_definition(states, view));
        let is_on_commit = || {
            let object = states.all_mine.objects.materialized(view.id);
            object.and_then(|object| object.materialized()).is_some_and(|view| view.on_commit)
        };
        match altered {
            None => {
                commit.push(Operation::view_is_current(view.id, of));
            }
            Some(id) if is_on_commit() => {
                let what = states.all_mine.described(id);
                return Err(conflict(format!("{what}, which materialized view {} reads, was changed", view.name)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Whether a table has the columns and rows that it had when this transaction began, but for its own changes.
fn is_as_seen(states: &States<'_>, id: u64) -> bool {
    match (states.base.get(&id), states.now.get(&id)) {
        // It is a table that this transaction has made.
        (None, _) => states.mine.contains_key(&id),
        (Some(before), Some(now)) => {
            Arc::ptr_eq(before, now)
                || before.changed == now.changed && before.rows() == now.rows() && before.schema == now.schema
        }
        (Some(_), None) => false,
    }
}

/// A view that the query of a materialized one reads, or a macro or type, that others have changed since this transaction began.
fn changed_definition(states: &States<'_>, view: &Table) -> Option<u64> {
    let (base, now) = (&states.all_base.objects, &states.all_now.objects);
    if Arc::ptr_eq(base, now) {
        return None;
    }
    let is_other = |id: &u64| base.get(*id) != now.get(*id);
    let global = [Kind::Macro, Kind::Type].into_iter().flat_map(|kind| base.of_kind(kind).chain(now.of_kind(kind)));
    let mut used = states
        .all_mine
        .reads_of_view(view.id)
        .into_iter()
        .filter(|id| base.get(*id).or_else(|| now.get(*id)).is_some_and(|object| object.kind() == Kind::View));
    used.find(is_other).or_else(|| global.map(|object| object.id).find(is_other))
}

/// Whether all that a transaction has changed of a table is that it may not be current as a materialized view.
pub(super) fn differ_in_currency_alone(table: &Table, old: &Table) -> bool {
    let same = |(a, b): (&SegmentEntry, &SegmentEntry)| {
        a.version() == b.version() && a.deleted.as_deref() == b.deleted.as_deref()
    };
    table.computed_from.is_none()
        && old.computed_from.is_some()
        && (&table.name, &table.schema, &table.design, table.changed)
            == (&old.name, &old.schema, &old.design, old.changed)
        && (&table.uses, &table.pools) == (&old.uses, &old.pools)
        && table.segments.len() == old.segments.len()
        && table.segments.iter().zip(&old.segments).all(same)
}
