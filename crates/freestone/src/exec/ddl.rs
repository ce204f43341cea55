//! Statements that define things other than tables: views, schemas, macros and types; designs and copies; VACUUM.

use std::sync::Arc;

use freestone_sql::tree::{CreateMacro, CreateSchema, CreateType, CreateView, MacroBody, Name, ObjectName, TypeKind};
use freestone_store::design::{Design, option_name};
use freestone_store::schema::TableSchema;
use freestone_store::{Definition, LockMode, ObjectKind as Kind, Store, WriteTransaction};

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::dml;
use crate::exec::write::WriteContext;
use crate::internal_names::is_temporary;
use crate::sql::command::OptionList;
use crate::sql::names::{self, kept_name};
use crate::sql::statement::quote;
use crate::{definitions, dependencies};

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
    let is_view = base.view(&name).is_some();
    if is_view && create.if_not_exists {
        return Ok(Outcome::Done { verb: "CREATE VIEW" });
    }
    if base.table(&name).is_some() || is_view && !create.or_replace {
        return Err(taken(&name));
    }
    crate::sequences::check_no_sequence(&base, &name)?;
    definitions::check_new(&base, &create.name)?;
    let mut query = create.query.span.of(text).to_owned();
    if !create.columns.is_empty() {
        names::check_distinct(create.columns.iter().map(|column| column.text.as_str()))?;
        query = named_query(&query, &name, create.columns.iter().map(Name::to_string));
    }
    // Planned inside the view of its own name, so that one that refers to itself fails here.
    let scope = Scope::new(base.clone()).with_view(&name);
    let (_, plan) = context.plan_text(&scope, &query)?;
    if scope.attached().is_used() && !is_temporary(&name) {
        return Err(Error::unsupported(format!(
            "view {name} reads an attached database, which other sessions do not have"
        ))
        .with_hint("CREATE TEMP VIEW makes one of this session, and CREATE TABLE … AS copies the rows"));
    }
    let shown = names::shown(Arc::new(plan.schema().as_arrow().clone()));
    let distinct = names::distinct(shown.clone());
    if !Arc::ptr_eq(&shown, &distinct) {
        query = named_query(&query, &name, distinct.fields().iter().map(|field| quote(field.name())));
    }
    let mut uses = scope.uses();
    uses.extend(dependencies::sequences_of(&base, &create.query));
    definitions::put(transaction, &name, uses, Definition::View { query })?;
    Ok(Outcome::Done { verb: "CREATE VIEW" })
}

/// The text of a view's query, whose columns have other names.
pub(super) fn named_query(query: &str, view: &str, columns: impl Iterator<Item = String>) -> String {
    format!("SELECT * FROM ({query}\n) AS {} ({})", quote(view), columns.collect::<Vec<_>>().join(", "))
}

/// `CREATE SCHEMA [IF NOT EXISTS] schema`.
pub(crate) fn create_schema(transaction: &mut WriteTransaction, create: &CreateSchema) -> Result<Outcome> {
    definitions::create_schema(transaction, own_name(&create.name), create.if_not_exists)
}

/// The name of a schema, before which that of the catalog may stand.
pub(super) fn own_name(schema: &ObjectName) -> &str {
    schema.parts.last().map(|name| name.text.as_str()).unwrap_or_default()
}

/// `CREATE [OR REPLACE] MACRO name(parameters) AS value`, or `AS TABLE query`. `text` is that of the statement.
pub(crate) fn create_macro(transaction: &mut WriteTransaction, create: &CreateMacro, text: &str) -> Result<Outcome> {
    let name = kept_name(&create.name)?;
    let parameters: Vec<&str> = create.parameters.iter().map(|parameter| parameter.name.text.as_str()).collect();
    if let Some(at) = (1..parameters.len()).find(|at| parameters[..*at].contains(&parameters[*at])) {
        return Err(Error::invalid(format!("macro {name} has two parameters {}", parameters[at])));
    }
    let snapshot = transaction.snapshot();
    definitions::check_new(&snapshot, &create.name)?;
    if !create.or_replace && snapshot.object(Kind::Macro, &name).is_some() {
        return Err(Error::new(ErrorKind::Exists, format!("macro {name} exists"))
            .with_hint("choose another name, or say OR REPLACE"));
    }
    let (body, is_query, uses) = match &create.body {
        MacroBody::Value(value) => (value.span.of(text), false, dependencies::of_expression(&snapshot, value)),
        MacroBody::Table(query) => (query.span.of(text), true, dependencies::of_query(&snapshot, query)),
    };
    let parameters = create.parameters.iter().map(ToString::to_string).collect();
    let definition = Definition::Macro { parameters, body: body.to_owned(), is_query };
    definitions::put(transaction, &name, uses, definition)?;
    Ok(Outcome::Done { verb: "CREATE MACRO" })
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
    let (name, snapshot) = (kept_name(&create.name)?, transaction.snapshot());
    definitions::check_new(&snapshot, &create.name)?;
    if !create.or_replace && snapshot.object(Kind::Type, &name).is_some() {
        return match create.if_not_exists {
            true => Ok(Outcome::Done { verb: "CREATE TYPE" }),
            false => Err(Error::new(ErrorKind::Exists, format!("type {name} exists"))
                .with_hint("choose another name, or say OR REPLACE")),
        };
    }
    let (text, uses) = (create.data_type.to_string(), dependencies::of_type(&snapshot, &create.data_type));
    if let Some(old) = snapshot.object(Kind::Type, &name).filter(|old| dependencies::reaches(&snapshot, &uses, old.id))
    {
        return Err(Error::invalid(format!("type {} would be made of itself", old.name)).with_hint("name another type"));
    }
    definitions::put(transaction, &name, uses, Definition::Type { text })?;
    Ok(Outcome::Done { verb: "CREATE TYPE" })
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
