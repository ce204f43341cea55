//! Statements that define things other than tables: views, schemas, macros and types; DROP; designs and copies; VACUUM.

use std::sync::Arc;

use freestone_sql::tree::{
    CreateMacro, CreateSchema, CreateType, CreateView, Drop, MacroBody, Name, ObjectKind, ObjectName, TypeKind,
};
use freestone_store::design::{Design, option_name};
use freestone_store::schema::{ForeignKey, TableSchema};
use freestone_store::{LockMode, Snapshot, Store, WriteTransaction};

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::definitions;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::write::WriteContext;
use crate::exec::{dml, indexes, sequences};
use crate::internal_names::is_temporary;
use crate::sql::command::OptionList;
use crate::sql::names::{self, kept_name, kept_schema};
use crate::sql::statement::{parse_script, quote};

/// The error of a name that a table or view has.
pub(crate) fn taken(name: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("a table or view {name} exists"))
        .with_hint("choose another name, or DROP it first, or say IF NOT EXISTS or OR REPLACE")
}

/// `CREATE [OR REPLACE] VIEW`. The view is kept as the text of its query, and planned anew by each statement. `text` is that of
/// the statement.
pub(crate) fn create_view(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    create: &CreateView,
    text: &str,
) -> Result<Outcome> {
    let name = kept_name(&create.name)?;
    transaction.lock_name(&name)?;
    let base = transaction.snapshot();
    let is_view = base.views().contains_key(&name);
    if is_view && create.if_not_exists {
        return Ok(Outcome::Done { verb: "CREATE VIEW" });
    }
    if base.table(&name).is_some() || is_view && !create.or_replace {
        return Err(taken(&name));
    }
    crate::sequences::check_no_sequence(&base, &name)?;
    definitions::check_schema(&base, kept_schema(&create.name))?;
    let mut sql = create.query.span.of(text).to_owned();
    if !create.columns.is_empty() {
        let columns: Vec<String> = create.columns.iter().map(Name::to_string).collect();
        sql = format!("SELECT * FROM ({sql}\n) AS {} ({})", quote(&name), columns.join(", "));
    }
    // Planned inside the view of its own name, so that one that refers to itself fails here.
    let scope = Scope::new(base).with_view(&name);
    let (_, plan) = context.plan_text(&scope, &sql)?;
    if scope.attached().is_used() && !is_temporary(&name) {
        return Err(Error::unsupported(format!(
            "view {name} reads an attached database, which other sessions do not have"
        ))
        .with_hint("CREATE TEMP VIEW makes one of this session, and CREATE TABLE … AS copies the rows"));
    }
    let fields = names::shown(Arc::new(plan.schema().as_arrow().clone()));
    names::check_distinct(fields.fields().iter().map(|field| field.name().as_str()))?;
    if is_view {
        transaction.drop_view(&name)?;
    }
    transaction.create_view(&name, &sql)?;
    Ok(Outcome::Done { verb: "CREATE VIEW" })
}

/// `CREATE SCHEMA [IF NOT EXISTS] schema`.
pub(crate) fn create_schema(transaction: &mut WriteTransaction, create: &CreateSchema) -> Result<Outcome> {
    definitions::create_schema(transaction, own_name(&create.name), create.if_not_exists)
}

/// The name of a schema, before which that of the catalog may stand.
fn own_name(schema: &ObjectName) -> &str {
    schema.parts.last().map(|name| name.text.as_str()).unwrap_or_default()
}

/// `CREATE [OR REPLACE] MACRO name(parameters) AS value`, or `AS TABLE query`. `text` is that of the statement.
pub(crate) fn create_macro(transaction: &mut WriteTransaction, create: &CreateMacro, text: &str) -> Result<Outcome> {
    let name = kept_name(&create.name)?;
    let parameters: Vec<&str> = create.parameters.iter().map(|parameter| parameter.name.text.as_str()).collect();
    if let Some(at) = (1..parameters.len()).find(|at| parameters[..*at].contains(&parameters[*at])) {
        return Err(Error::invalid(format!("macro {name} has two parameters {}", parameters[at])));
    }
    let body = match &create.body {
        MacroBody::Value(value) => value.span.of(text).to_owned(),
        MacroBody::Table(query) => format!("TABLE {}", query.span.of(text)),
    };
    let parameters = create.parameters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    definitions::create_macro(transaction, &name, &parameters, &body, create.or_replace)
}

/// `CREATE [OR REPLACE] TYPE [IF NOT EXISTS] name AS type`.
pub(crate) fn create_type(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    create: &CreateType,
    text: &str,
) -> Result<Outcome> {
    if matches!(create.data_type.kind, TypeKind::Enum(_)) {
        // No label twice.
        context.planner().types(&Scope::new(transaction.snapshot()), &[&create.data_type], text)?;
    }
    let flags = (create.or_replace, create.if_not_exists);
    definitions::create_type(transaction, &kept_name(&create.name)?, &create.data_type.to_string(), flags)
}

/// `DROP …`.
pub(crate) fn drop(transaction: &mut WriteTransaction, context: &WriteContext, drop: &Drop) -> Result<Outcome> {
    let Drop { kind, if_exists, names, cascade } = drop;
    match kind {
        ObjectKind::Table | ObjectKind::View => drop_relations(transaction, drop),
        ObjectKind::Index => indexes::drop_all(transaction, context, *if_exists, names),
        ObjectKind::Sequence => {
            lock_names(transaction, names, *cascade)?;
            sequences::drop(transaction, names, *if_exists)
        }
        ObjectKind::Schema => {
            lock_names(transaction, names, false)?;
            for name in names {
                drop_schema(transaction, own_name(name), *if_exists, *cascade)?;
            }
            Ok(Outcome::Done { verb: "DROP SCHEMA" })
        }
        ObjectKind::Type => {
            lock_names(transaction, names, false)?;
            for name in names {
                definitions::drop_type(transaction, &kept_name(name)?, *if_exists)?;
            }
            Ok(Outcome::Done { verb: "DROP TYPE" })
        }
        ObjectKind::Macro | ObjectKind::TableMacro => {
            for name in names {
                definitions::drop_macro(transaction, &kept_name(name)?, *if_exists)?;
            }
            Ok(Outcome::Done { verb: "DROP MACRO" })
        }
    }
}

/// Locks what is to be dropped, and refuses CASCADE where something depends on it. Returns the names.
fn lock_names(transaction: &mut WriteTransaction, names: &[ObjectName], cascade: bool) -> Result<Vec<String>> {
    let names = names.iter().map(kept_name).collect::<Result<Vec<_>>>()?;
    for name in &names {
        transaction.lock_name(name)?;
        transaction.lock(name, LockMode::Exclusive)?;
    }
    if cascade {
        check_dependents(&transaction.snapshot(), &names)?;
    }
    Ok(names)
}

fn drop_schema(transaction: &mut WriteTransaction, schema: &str, if_exists: bool, cascade: bool) -> Result<()> {
    let base = transaction.snapshot();
    let within = |name: &str| name.split_once('.').is_some_and(|(own, _)| own == schema);
    let tables = base.tables().map(|table| table.name.clone()).filter(|name| within(name));
    check_unreferenced(&base, &tables.collect::<Vec<_>>())?;
    definitions::drop_schema(transaction, schema, if_exists, cascade)
}

/// `DROP TABLE` and `DROP VIEW`.
fn drop_relations(transaction: &mut WriteTransaction, drop: &Drop) -> Result<Outcome> {
    let names = lock_names(transaction, &drop.names, drop.cascade)?;
    let base = transaction.snapshot();
    let is_of_tables = drop.kind == ObjectKind::Table;
    if is_of_tables {
        check_unreferenced(&base, &names)?;
    }
    for name in &names {
        let (is_table, is_view) = (base.table(name).is_some(), base.views().contains_key(name));
        match is_of_tables {
            true if is_table => drop_table(transaction, &base, name)?,
            false if is_view => {
                definitions::forget(transaction, name)?;
                transaction.drop_view(name)?;
            }
            true if is_view => {
                return Err(Error::invalid(format!("{name} is a view")).with_hint(format!("DROP VIEW {name}")));
            }
            false if is_table => {
                return Err(Error::invalid(format!("{name} is a table")).with_hint(format!("DROP TABLE {name}")));
            }
            _ if drop.if_exists => {}
            true => return Err(Error::not_found("table", name, base.tables().map(|table| table.name.as_str()))),
            false => {
                let views = definitions::views(&base).map(|(name, _)| name.as_str());
                return Err(Error::not_found("view", name, views));
            }
        }
    }
    Ok(Outcome::Done { verb: if is_of_tables { "DROP TABLE" } else { "DROP VIEW" } })
}

/// Drops a table with the sequences of its columns.
pub(crate) fn drop_table(transaction: &mut WriteTransaction, base: &Snapshot, name: &str) -> Result<()> {
    let owned = base.table(name).map(|table| table.schema.sequences()).unwrap_or_default();
    definitions::forget(transaction, name)?;
    transaction.drop_table(name)?;
    sequences::drop_owned(transaction, owned)
}

/// Refuses to drop a table to which rows of another one refer.
pub(crate) fn check_unreferenced(base: &Snapshot, dropped: &[String]) -> Result<()> {
    for table in base.tables().filter(|table| !dropped.contains(&table.name)) {
        let refers = |key: &&ForeignKey| key.enforced && dropped.contains(&key.table);
        if let Some(key) = table.schema.foreign_keys.iter().find(refers) {
            let (from, columns) = (&table.name, key.columns.join(", "));
            let hint = format!("drop table {from} as well");
            return Err(Error::invalid(format!(
                "FOREIGN KEY ({columns}) of table {from} depends on table {}",
                key.table
            ))
            .with_hint(hint));
        }
    }
    Ok(())
}

/// Refuses CASCADE where something depends on what is dropped: nothing is dropped that the statement does not name.
fn check_dependents(base: &Snapshot, dropped: &[String]) -> Result<()> {
    let stays = |name: &str| !dropped.iter().any(|other| other == name);
    let refused = |what: String, name: &str| {
        let hint = format!("drop {name} as well, or leave out CASCADE");
        Err(Error::unsupported(format!("CASCADE: {what}")).with_hint(hint))
    };
    for (view, text) in definitions::views(base).filter(|(view, _)| stays(view)) {
        // A view that does not read as a query depends on nothing that could be found.
        let read = parse_script(text).first().and_then(|query| query.named_tables().ok()).unwrap_or_default();
        if let Some(name) = read.iter().find(|name| !stays(name)) {
            return refused(format!("view {view} reads {name}"), view);
        }
    }
    for table in base.tables().filter(|table| stays(&table.name)) {
        if let Some(key) = table.schema.foreign_keys.iter().find(|key| !stays(&key.table)) {
            return refused(format!("a FOREIGN KEY of {} references {}", table.name, key.table), &table.name);
        }
    }
    Ok(())
}

/// `ALTER TABLE … SET DESIGN`: rewrites the table's segments. What the options do not name stays as it is, but for a
/// new preset, which starts afresh.
pub(crate) fn set_design(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    table: &str,
    options: &OptionList,
) -> Result<()> {
    let found = dml::find(transaction, table, LockMode::Exclusive)?;
    let start = if options.iter().any(|(name, _)| option_name(name) == "preset") {
        Design::default()
    } else {
        found.design.clone()
    };
    let design = design(start, options, &found.schema)?;
    context.prepare_append(transaction, usize::try_from(found.rows()).ok())?;
    Ok(transaction.convert(table, design)?)
}

/// `ALTER TABLE … ADD COPY`: the table's rows, in another design. Without a list of columns, it has all.
pub(crate) fn add_copy(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    (table, name): (&str, &str),
    columns: &[Name],
    options: &OptionList,
) -> Result<()> {
    let found = dml::find(transaction, table, LockMode::Exclusive)?;
    if transaction.copies(&found).iter().any(|known| known.name == name) {
        let hint = format!("choose another name, or ALTER TABLE {table} DROP COPY it first");
        return Err(Error::new(ErrorKind::Exists, format!("table {table} has a copy {name}")).with_hint(hint));
    }
    let mut columns: Vec<usize> = match columns {
        [] => (0..found.schema.columns.len()).collect(),
        names => names.iter().map(|name| found.schema.index_of(&name.text)).collect::<Result<_, _>>()?,
    };
    columns.sort_unstable();
    if let Some(twice) = columns.windows(2).find(|two| two[0] == two[1]) {
        let name = &found.schema.columns[twice[0]].name;
        return Err(Error::invalid(format!("column {name} is named twice")));
    }
    let design = design(Design::default(), options, &found.schema.of_columns(&columns))?;
    context.prepare_append(transaction, usize::try_from(found.rows()).ok())?;
    Ok(transaction.create_copy(table, name, columns, design)?)
}

/// `ALTER TABLE … DROP COPY`.
pub(crate) fn drop_copy(transaction: &mut WriteTransaction, table: &str, name: &str, if_exists: bool) -> Result<()> {
    let found = dml::find(transaction, table, LockMode::Exclusive)?;
    let copies = transaction.copies(&found);
    if copies.iter().any(|copy| copy.name == name) {
        transaction.drop_copy(table, name)?;
    } else if !if_exists {
        return Err(Error::not_found("copy", name, copies.iter().map(|copy| copy.name.as_str())));
    }
    Ok(())
}

/// `VACUUM [table]`.
pub(crate) fn vacuum(store: &Store, table: Option<&str>) -> Result<Outcome> {
    require(store, table)?;
    store.vacuum(table)?;
    Ok(Outcome::Done { verb: "VACUUM" })
}

pub(crate) fn require(store: &Store, table: Option<&str>) -> Result<()> {
    let snapshot = store.snapshot()?;
    match table {
        Some(name) if snapshot.table(name).is_none() => {
            Err(Error::not_found("table", name, snapshot.tables().map(|table| table.name.as_str())))
        }
        _ => Ok(()),
    }
}

/// A design with some of its options changed.
pub(crate) fn design(start: Design, options: &OptionList, schema: &TableSchema) -> Result<Design> {
    let design = start.with_options(options.iter().map(|(name, value)| (name.as_str(), value.as_str())), schema)?;
    design.check_order(schema)?;
    Ok(design)
}
