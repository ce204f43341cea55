//! Materialized views. The rows are those of a table, so that it has a design, copies and indexes as others do; the query is an
//! object that belongs to the table.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use freestone_sql::tree::{AlterAction, AlterKind, CreateMaterializedView, Name, RefreshView};
use freestone_store::design::option_name;
use freestone_store::{Definition, LockMode, MaterializedView, Object, Snapshot, Table, WriteTransaction};

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::definitions;
use crate::dependencies;
use crate::error::{Error, Result};
use crate::exec::stored_values::{Places, check_count};
use crate::exec::write::WriteContext;
use crate::exec::{create_table, ddl, dml};
use crate::optimizer::repeatable::is_repeatable;
use crate::provider::FreestoneTable;
use crate::shared;
use crate::sql::names::{self, kept_name};
use crate::sql::option_lists;
use crate::sql::parameters::Parameters;
use crate::sql::written::{REFRESH, table_of_view};

const CREATE: &str = "CREATE MATERIALIZED VIEW";

/// The error of a name that no materialized view has.
pub(crate) fn missing(snapshot: &Snapshot, name: &str) -> Error {
    match snapshot.relation_id(name) {
        Some(id) if snapshot.table_by_id(id).is_some() => Error::invalid(format!("{name} is a table")),
        Some(_) => Error::invalid(format!("{name} is a view that is not materialized")),
        None => Error::not_found(
            "materialized view",
            name,
            definitions::materialized_views(snapshot).map(|(table, ..)| table.name.as_str()),
        ),
    }
}

/// Refuses a name that no materialized view has.
pub(super) fn require(snapshot: &Snapshot, name: &str) -> Result<()> {
    if definitions::is_materialized(snapshot, name) { Ok(()) } else { Err(missing(snapshot, name)) }
}

/// `CREATE [OR REPLACE] MATERIALIZED VIEW`.
pub(super) fn create(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    create: &CreateMaterializedView,
    parameters: &Parameters,
) -> Result<Outcome> {
    let (name, text) = (kept_name(&create.name)?, parameters.written()?.text());
    transaction.lock_name(&name)?;
    let base = transaction.snapshot();
    let replaced = base.table(&name).filter(|_| definitions::is_materialized(&base, &name));
    if create.if_not_exists && replaced.is_some() {
        return Ok(Outcome::Done { verb: CREATE });
    }
    if base.relation_id(&name).is_some() && !(create.or_replace && replaced.is_some()) {
        return Err(ddl::taken(&name));
    }
    let on_commit = on_commit(create, text)?;
    let query = query_of(create, &name, text);
    let scope = Scope::new(base.clone()).with_view(&name);
    let (_, plan) = context.plan_text(&scope, &query)?;
    let shown = names::shown(Arc::new(plan.schema().as_arrow().clone()));
    names::check_distinct(shown.fields().iter().map(|field| field.name().as_str()))?;
    if scope.attached().is_used() {
        return Err(Error::unsupported(format!(
            "materialized view {name} reads an attached database, which other sessions do not have"
        ))
        .with_hint("CREATE TABLE … AS copies the rows"));
    }
    let mut uses = scope.uses();
    uses.extend(dependencies::sequences_of(&base, &create.query));
    if replaced.is_some_and(|old| base.all_read(&uses).contains(&old.id)) {
        return Err(Error::invalid(format!("materialized view {name} would read itself")));
    }
    let reads = tables_read(&plan)?;
    if on_commit && reads.is_none() {
        return Err(Error::invalid(format!(
            "materialized view {name} cannot be computed by commits: its query reads more than tables, or calls functions \
             whose results change"
        ))
        .with_hint("leave out refresh = 'on commit', and REFRESH it"));
    }
    create_table::make_table(transaction, context, &table_of_view(create), parameters)?;
    let definition = MaterializedView { query, on_commit, is_populated: !create.with_no_data };
    let owner = transaction.table(&name)?.id;
    let id = transaction.create_owned(owner, "", Definition::MaterializedView(definition))?;
    transaction.change_object(id, |object| object.uses = uses)?;
    if let Some(reads) = reads.filter(|_| !create.with_no_data) {
        transaction.set_current(&name, &reads)?;
    }
    Ok(Outcome::Done { verb: CREATE })
}

/// The text of the query, whose columns have the names that the statement gives them.
fn query_of(create: &CreateMaterializedView, name: &str, text: &str) -> String {
    let query = create.query.span.of(text);
    match create.columns.as_slice() {
        [] => query.to_owned(),
        columns => ddl::named_query(query, name, columns.iter().map(Name::to_string)),
    }
}

/// Whether commits compute the view.
fn on_commit(create: &CreateMaterializedView, text: &str) -> Result<bool> {
    let options = option_lists::list_of(&create.options, text);
    let Some((_, value)) = options.iter().find(|(name, _)| option_name(name) == REFRESH) else { return Ok(false) };
    match value.to_lowercase().replace('_', " ").as_str() {
        "manual" => Ok(false),
        "on commit" => Ok(true),
        other => {
            Err(Error::invalid(format!("refresh = '{other}' is not available"))
                .with_hint("it is 'manual' or 'on commit'"))
        }
    }
}

/// The tables on which the rows of a query depend, if they depend on nothing else.
fn tables_read(plan: &LogicalPlan) -> Result<Option<BTreeSet<u64>>> {
    if !is_repeatable(plan)? {
        return Ok(None);
    }
    let mut tables = BTreeSet::new();
    shared::apply(plan, &mut |node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = source_as_provider(&scan.source)?.downcast_ref::<FreestoneTable>()
        {
            tables.insert(table.table().id);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(Some(tables))
}

/// `REFRESH MATERIALIZED VIEW`.
pub(super) fn refresh(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    refresh: &RefreshView,
) -> Result<Outcome> {
    let name = kept_name(&refresh.name)?;
    transaction.lock(&name, LockMode::Exclusive)?;
    require(&transaction.snapshot(), &name)?;
    match (refresh.with_no_data, refresh.concurrently) {
        (true, true) => return Err(Error::invalid("REFRESH … CONCURRENTLY cannot be WITH NO DATA")),
        (true, false) => {
            transaction.rewrite_view(&name, |_| Ok::<_, Error>(()))?;
            set_populated(transaction, &name, false)?;
        }
        (false, _) => compute(transaction, context, &name)?,
    }
    Ok(Outcome::Done { verb: "REFRESH MATERIALIZED VIEW" })
}

/// Computes the rows of a materialized view.
pub(crate) fn compute(transaction: &mut WriteTransaction, context: &WriteContext, name: &str) -> Result<()> {
    let snapshot = transaction.snapshot();
    let table = transaction.table(name)?;
    let query = snapshot.materialized(table.id).and_then(|object| object.query()).unwrap_or_default();
    let scope = Scope::new(snapshot.clone()).with_kept_view(name);
    let (state, plan) = context.plan_text(&scope, query)?;
    let reads = tables_read(&plan)?;
    transaction.rewrite_view(name, |transaction| fill(transaction, context, &table, (state, plan)))?;
    set_populated(transaction, name, true)?;
    note_uses(transaction, table.id, &scope.uses())?;
    match reads {
        Some(reads) => Ok(transaction.set_current(name, &reads)?),
        None => Ok(()),
    }
}

/// Computes the views that commits compute and whose tables the transaction has changed, as a part of it. Whoever does so waits for
/// others that do, and then sees what they have committed.
///
/// # Errors
/// A query fails, or others have changed the same.
pub(crate) fn compute_changed(transaction: &mut WriteTransaction, context: &WriteContext) -> Result<()> {
    if !transaction.is_changed() || !transaction.has_materialized_views() {
        return Ok(());
    }
    let views = computed_by_commits(&transaction.snapshot());
    if !views.iter().any(|(id, _)| is_due(transaction, *id)) {
        return Ok(());
    }
    // All of them, so that two transactions lock them in the same order.
    views.iter().try_for_each(|(_, name)| transaction.lock(name, LockMode::Exclusive))?;
    transaction.refresh()?;
    for (id, name) in computed_by_commits(&transaction.snapshot()) {
        if !is_due(transaction, id) {
            continue;
        }
        compute(transaction, context, &name).map_err(|error| {
            let translated = Error::new(error.kind(), format!("materialized view {name} cannot be computed: {error}"));
            match error.hint() {
                Some(hint) => translated.with_hint(hint),
                None => translated,
            }
        })?;
    }
    Ok(())
}

/// The views that commits compute, each after those that it reads.
fn computed_by_commits(snapshot: &Snapshot) -> Vec<(u64, String)> {
    let views: Vec<_> = definitions::materialized_views(snapshot)
        .filter(|(.., view)| view.on_commit && view.is_populated)
        .map(|(table, object, _)| (table, snapshot.all_read(&object.uses)))
        .collect();
    let needs = |at: usize| {
        let reads = |other: &usize| *other != at && views[at].1.contains(&views[*other].0.id);
        (0..views.len()).filter(reads).collect()
    };
    let order = dependencies::order(views.len(), needs);
    order.into_iter().map(|at| (views[at].0.id, views[at].0.name.clone())).collect()
}

/// Whether a transaction has changed what a view reads, so that it has other rows than its query.
fn is_due(transaction: &mut WriteTransaction, view: u64) -> bool {
    let snapshot = transaction.snapshot();
    let (Some(table), Some(object)) = (snapshot.table_by_id(view), snapshot.materialized(view)) else { return false };
    if snapshot.has_rows_of_its_query(table) {
        return false;
    }
    let base = transaction.base();
    if base.table_by_id(view).is_some_and(|table| base.has_rows_of_its_query(table)) {
        return true;
    }
    let is_changed = |id: &u64| match (base.table_by_id(*id), snapshot.table_by_id(*id)) {
        (Some(before), Some(now)) => !Arc::ptr_eq(before, now),
        (before, now) => before.is_some() || now.is_some(),
    };
    snapshot.all_read(&object.uses).iter().any(is_changed)
}

fn fill(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    table: &Table,
    (state, plan): (SessionState, LogicalPlan),
) -> Result<()> {
    let places = Places::all(&table.schema);
    check_count(places.given(), plan.schema().fields().len())?;
    context.prepare_append(transaction, plan.max_rows())?;
    let batches = dml::run_in_order(context, state, &plan)?;
    dml::append(transaction, context, &table.name, &table.schema, places, batches).map(drop)
}

fn set_populated(transaction: &mut WriteTransaction, name: &str, is_populated: bool) -> Result<()> {
    let (snapshot, table) = (transaction.snapshot(), transaction.table(name)?);
    let Some(object) = snapshot.materialized(table.id) else { return Ok(()) };
    let change = |object: &mut Object| {
        if let Definition::MaterializedView(view) = &mut object.definition {
            view.is_populated = is_populated;
        }
    };
    Ok(transaction.change_object(object.id, change)?)
}

/// Notes what the query uses now: a macro may mean something else than before.
fn note_uses(transaction: &mut WriteTransaction, view: u64, uses: &BTreeSet<u64>) -> Result<()> {
    let snapshot = transaction.snapshot();
    match snapshot.materialized(view) {
        Some(object) if !uses.is_subset(&object.uses) => {
            Ok(transaction.change_object(object.id, |object| object.uses.extend(uses))?)
        }
        _ => Ok(()),
    }
}

/// Refuses changes of the columns of a materialized view: they are those of its query.
pub(super) fn check_alteration(snapshot: &Snapshot, table: &Table, actions: &[AlterAction]) -> Result<()> {
    if snapshot.materialized(table.id).is_none() {
        return Ok(());
    }
    let is_right = |action: &AlterAction| {
        matches!(
            action.kind,
            AlterKind::RenameTable { .. }
                | AlterKind::SetDesign(_)
                | AlterKind::AddCopy { .. }
                | AlterKind::DropCopy { .. }
        )
    };
    match actions.iter().all(is_right) {
        true => Ok(()),
        false => {
            Err(Error::invalid(format!("{} is a materialized view, whose columns come from its query", table.name))
                .with_hint("CREATE OR REPLACE MATERIALIZED VIEW gives it another query"))
        }
    }
}
