//! Statements that define things: tables with their constraints and designs, views, conversion, and VACUUM.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::sqlparser::ast;
use freestone_store::design::{Design, option_name};
use freestone_store::schema::{ForeignKey, TableSchema};
use freestone_store::{LockMode, Snapshot, Store, WriteTransaction};

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::definitions;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::constraints::Constraints;
use crate::exec::stored_values::{Places, check_count};
use crate::exec::write::WriteContext;
use crate::exec::{defaults, dml, generated_columns, row_checks, sequences};
use crate::internal_names::is_temporary;
use crate::settings;
use crate::sql::names::{self, identifier, object_name, schema_name};
use crate::sql::parameters::Parameters;
use crate::sql::statement::{AddCopy, Command, OptionList, parse_script};
use crate::sql::text_types;
use crate::sql::user_types;
use crate::temp_schema::OnCommit;

/// `CREATE TABLE`, with columns or `AS` a query.
pub(crate) fn create_table(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    mut create: ast::CreateTable,
    parameters: &Parameters,
) -> Result<Outcome> {
    let name = object_name(&create.name)?;
    let if_not_exists = std::mem::take(&mut create.if_not_exists);
    let or_replace = std::mem::take(&mut create.or_replace);
    transaction.lock_name(&name)?;
    if or_replace {
        transaction.lock(&name, LockMode::Exclusive)?;
    }
    let base = transaction.snapshot();
    let exists = base.table(&name).is_some();
    if exists && if_not_exists {
        return Ok(Outcome::Done { verb: "CREATE TABLE" });
    }
    if exists && !or_replace || base.views().contains_key(&name) {
        return Err(taken(&name));
    }
    crate::sequences::check_no_sequence(&base, &name)?;
    definitions::check_schema(&base, schema_name(&create.name).as_deref())?;
    let computed = generated_columns::take(&mut create)?;
    let types = |name: &str| definitions::type_text(&base, name);
    create.columns.iter_mut().try_for_each(|column| user_types::of_column(column, &types))?;
    let mut constraints = Constraints::take(&mut create)?;
    let generated = constraints.take_generated();
    let on_commit = take_on_commit(&mut create);
    let options = take_options(&mut create)?;
    // DataFusion checks a name against its own catalog; ours is checked above, against the transaction's snapshot.
    create.name = ast::ObjectName::from(vec![ast::Ident::with_quote('"', "freestone$new")]);
    let like = create.like.take();
    let query = create.query.take();
    let has_columns = !create.columns.is_empty();
    let scope = Scope::new(base);
    let query = query.map(|query| context.plan_written(&scope, ast::Statement::Query(query), parameters));
    let query = query.transpose()?;
    let alike = like.map(|like| columns_like(transaction, like)).transpose()?;
    let declared = declared(context, &scope, create)?;
    let columns = match (&query, alike) {
        (Some((state, plan)), _) if !has_columns => {
            columns_of_query(context.schema_of(state, plan)?, &mut constraints)?
        }
        (_, Some(alike)) => alike,
        _ => TableSchema::from_arrow(&declared)?,
    };
    let mut schema = constraints.apply(&name, columns, &scope.snapshot)?;
    if exists {
        check_unreferenced(&scope.snapshot, std::slice::from_ref(&name))?;
        drop_table(transaction, &scope.snapshot, &name)?;
    }
    sequences::generate(transaction, &name, &mut schema, generated)?;
    check_declared(transaction, context, &scope, &schema)?;
    let design = design(settings::default_design(context.planner().settings())?, &options, &schema)?;
    transaction.create_table(&name, schema.clone(), design)?;
    generated_columns::declare(transaction, context, &name, &schema, computed)?;
    if let Some(on_commit) = on_commit {
        context.planner().temp().note_on_commit(transaction, &name, on_commit)?;
    }
    let Some((state, plan)) = query else { return Ok(Outcome::Done { verb: "CREATE TABLE" }) };
    let places = Places::all(&schema);
    check_count(places.given(), plan.schema().fields().len())?;
    context.prepare_append(transaction, plan.max_rows())?;
    let batches = dml::run_in_order(context, state, &plan)?;
    let rows = dml::append(transaction, context, &name, &schema, places, batches)?;
    Ok(Outcome::Affected { verb: "CREATE TABLE", rows })
}

/// Checks the conditions and defaults of a new table, and locks the tables to which it refers.
fn check_declared(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    scope: &Scope,
    schema: &TableSchema,
) -> Result<()> {
    row_checks::validate(context, scope, schema)?;
    defaults::check_all(context, &Scope::new(transaction.snapshot()), schema)?;
    lock_referenced(transaction, schema)
}

/// Locks the tables to which foreign keys refer, so that nobody drops them meanwhile.
fn lock_referenced(transaction: &mut WriteTransaction, schema: &TableSchema) -> Result<()> {
    let mut enforced = schema.foreign_keys.iter().filter(|key| key.enforced);
    enforced.try_for_each(|key| Ok(transaction.lock(&key.table, LockMode::Shared)?))
}

/// What becomes of a temporary table at the end of each transaction; `None` if it stays as it is.
fn take_on_commit(create: &mut ast::CreateTable) -> Option<OnCommit> {
    // The planner of declarations knows no temporary tables.
    (create.temporary, create.global) = (false, None);
    match create.on_commit.take()? {
        ast::OnCommit::Drop => Some(OnCommit::Drop),
        ast::OnCommit::DeleteRows => Some(OnCommit::DeleteRows),
        ast::OnCommit::PreserveRows => None,
    }
}

/// The columns of `LIKE table`, with NOT NULL and without keys, as in PostgreSQL.
fn columns_like(transaction: &mut WriteTransaction, like: ast::CreateTableLikeKind) -> Result<TableSchema> {
    let (ast::CreateTableLikeKind::Parenthesized(like) | ast::CreateTableLikeKind::Plain(like)) = like;
    let table = dml::find(transaction, &object_name(&like.name)?, LockMode::Shared)?;
    let columns = table.schema.columns.clone();
    let checks = table.schema.checks.iter().filter(|check| text_types::of_check(check).is_some()).cloned();
    Ok(TableSchema { columns, checks: checks.collect(), ..TableSchema::default() })
}

/// The columns of CREATE TABLE AS.
fn columns_of_query(columns: SchemaRef, constraints: &mut Constraints) -> Result<TableSchema> {
    let fields = names::shown(columns);
    names::check_distinct(fields.fields().iter().map(|field| field.name().as_str()))?;
    let mut columns = TableSchema::from_arrow(&fields)?;
    constraints.add_text_types(&fields)?;
    // Whether rows of a query happen to have no NULL says nothing of those to come.
    columns.columns.iter_mut().for_each(|column| column.nullable = true);
    Ok(columns)
}

/// The columns that the statement declares; what else it says is checked.
fn declared(context: &WriteContext, scope: &Scope, create: ast::CreateTable) -> Result<SchemaRef> {
    let (_, plan) = context.plan_written(scope, ast::Statement::CreateTable(create), &Parameters::default())?;
    let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(planned)) = plan else {
        return Err(Error::unsupported("this form of CREATE TABLE is not available"));
    };
    Ok(Arc::new(planned.input.schema().as_arrow().clone()))
}

/// Columns of these types, as CREATE TABLE would make them.
pub(crate) fn declared_types(
    context: &WriteContext,
    scope: &Scope,
    data_types: Vec<ast::DataType>,
) -> Result<SchemaRef> {
    let text = "CREATE TABLE \"freestone$new\" (\"1\" INT)";
    let create = parse_script(text).first().map(|statement| statement.command()).transpose()?;
    let Some(Command::Sql(create)) = create else { return Err(Error::unsupported("a column of this type")) };
    let ast::Statement::CreateTable(mut create) = *create else {
        return Err(Error::unsupported("a column of this type"));
    };
    create.columns = data_types
        .into_iter()
        .enumerate()
        .map(|(at, data_type)| ast::ColumnDef {
            name: ast::Ident::with_quote('"', (at + 1).to_string()),
            data_type,
            options: vec![],
        })
        .collect();
    declared(context, scope, create)
}

fn taken(name: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("a table or view {name} exists"))
        .with_hint("choose another name, or DROP it first, or say IF NOT EXISTS or OR REPLACE")
}

/// `CREATE [OR REPLACE] VIEW`. The view is kept as the text of its query, and planned anew by each statement.
pub(crate) fn create_view(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    create: ast::CreateView,
    text: Option<String>,
) -> Result<Outcome> {
    let name = object_name(&create.name)?;
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
    definitions::check_schema(&base, schema_name(&create.name).as_deref())?;
    let mut sql = text.unwrap_or_else(|| create.query.to_string());
    if !create.columns.is_empty() {
        let columns: Vec<String> = create.columns.iter().map(|column| column.name.to_string()).collect();
        sql = format!("SELECT * FROM ({sql}\n) AS \"{}\" ({})", name.replace('"', "\"\""), columns.join(", "));
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

/// `DROP TABLE` and `DROP VIEW`.
pub(crate) fn drop(
    transaction: &mut WriteTransaction,
    object_type: ast::ObjectType,
    if_exists: bool,
    cascade: bool,
    names: &[ast::ObjectName],
) -> Result<Outcome> {
    for name in names.iter().map(object_name) {
        let name = name?;
        transaction.lock_name(&name)?;
        transaction.lock(&name, LockMode::Exclusive)?;
    }
    let base = transaction.snapshot();
    if cascade && object_type != ast::ObjectType::Schema {
        check_dependents(&base, names)?;
    }
    if object_type == ast::ObjectType::Table {
        check_unreferenced(&base, &names.iter().map(object_name).collect::<Result<Vec<_>>>()?)?;
    }
    let (what, verb) = match object_type {
        ast::ObjectType::Table => ("table", "DROP TABLE"),
        ast::ObjectType::View => ("view", "DROP VIEW"),
        ast::ObjectType::Sequence => return sequences::drop(transaction, names, if_exists),
        ast::ObjectType::Schema => {
            for name in names {
                let schema = name.0.last().and_then(|part| part.as_ident()).map(identifier).unwrap_or_default();
                let within = |name: &str| name.split_once('.').is_some_and(|(own, _)| own == schema);
                let tables = base.tables().map(|table| table.name.clone()).filter(|name| within(name));
                check_unreferenced(&base, &tables.collect::<Vec<_>>())?;
                definitions::drop_schema(transaction, &schema, if_exists, cascade)?;
            }
            return Ok(Outcome::Done { verb: "DROP SCHEMA" });
        }
        ast::ObjectType::Type => {
            for name in names {
                definitions::drop_type(transaction, &object_name(name)?, if_exists)?;
            }
            return Ok(Outcome::Done { verb: "DROP TYPE" });
        }
        other => return Err(Error::unsupported(format!("DROP {other} is not available"))),
    };
    for name in names {
        let name = object_name(name)?;
        let (is_table, is_view) = (base.table(&name).is_some(), base.views().contains_key(&name));
        match what {
            "table" if is_table => drop_table(transaction, &base, &name)?,
            "view" if is_view => {
                definitions::forget(transaction, &name)?;
                transaction.drop_view(&name)?;
            }
            "table" if is_view => {
                return Err(Error::invalid(format!("{name} is a view")).with_hint(format!("DROP VIEW {name}")));
            }
            "view" if is_table => {
                return Err(Error::invalid(format!("{name} is a table")).with_hint(format!("DROP TABLE {name}")));
            }
            _ if if_exists => {}
            "table" => return Err(Error::not_found("table", &name, base.tables().map(|table| table.name.as_str()))),
            _ => {
                let views = definitions::views(&base).map(|(name, _)| name.as_str());
                return Err(Error::not_found("view", &name, views));
            }
        }
    }
    Ok(Outcome::Done { verb })
}

/// Drops a table with the sequences of its columns.
fn drop_table(transaction: &mut WriteTransaction, base: &Snapshot, name: &str) -> Result<()> {
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
fn check_dependents(base: &Snapshot, names: &[ast::ObjectName]) -> Result<()> {
    let dropped = names.iter().map(object_name).collect::<Result<Vec<_>>>()?;
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
) -> Result<Outcome> {
    let found = dml::find(transaction, table, LockMode::Exclusive)?;
    let start = if options.iter().any(|(name, _)| option_name(name) == "preset") {
        Design::default()
    } else {
        found.design.clone()
    };
    let design = design(start, options, &found.schema)?;
    context.prepare_append(transaction, usize::try_from(found.rows()).ok())?;
    transaction.convert(table, design)?;
    Ok(Outcome::Done { verb: "ALTER TABLE" })
}

/// `ALTER TABLE … ADD COPY`: the table's rows, in another design.
pub(crate) fn add_copy(transaction: &mut WriteTransaction, context: &WriteContext, copy: &AddCopy) -> Result<Outcome> {
    let table = dml::find(transaction, &copy.table, LockMode::Exclusive)?;
    if transaction.copies(&table).iter().any(|known| known.name == copy.name) {
        let hint = format!("choose another name, or ALTER TABLE {} DROP COPY it first", copy.table);
        return Err(
            Error::new(ErrorKind::Exists, format!("table {} has a copy {}", copy.table, copy.name)).with_hint(hint)
        );
    }
    let mut columns: Vec<usize> = match copy.columns.as_slice() {
        [] => (0..table.schema.columns.len()).collect(),
        names => names.iter().map(|name| table.schema.index_of(name)).collect::<Result<_, _>>()?,
    };
    columns.sort_unstable();
    if let Some(twice) = columns.windows(2).find(|two| two[0] == two[1]) {
        let name = &table.schema.columns[twice[0]].name;
        return Err(Error::invalid(format!("column {name} is named twice")));
    }
    let design = design(Design::default(), &copy.options, &table.schema.of_columns(&columns))?;
    context.prepare_append(transaction, usize::try_from(table.rows()).ok())?;
    transaction.create_copy(&copy.table, &copy.name, columns, design)?;
    Ok(Outcome::Done { verb: "ALTER TABLE" })
}

/// `ALTER TABLE … DROP COPY`.
pub(crate) fn drop_copy(
    transaction: &mut WriteTransaction,
    table: &str,
    name: &str,
    if_exists: bool,
) -> Result<Outcome> {
    let found = dml::find(transaction, table, LockMode::Exclusive)?;
    let copies = transaction.copies(&found);
    if copies.iter().any(|copy| copy.name == name) {
        transaction.drop_copy(table, name)?;
    } else if !if_exists {
        return Err(Error::not_found("copy", name, copies.iter().map(|copy| copy.name.as_str())));
    }
    Ok(Outcome::Done { verb: "ALTER TABLE" })
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

fn design(start: Design, options: &OptionList, schema: &TableSchema) -> Result<Design> {
    let design = start.with_options(options.iter().map(|(name, value)| (name.as_str(), value.as_str())), schema)?;
    design.check_order(schema)?;
    Ok(design)
}

/// The options of `WITH (…)`, taken out of the statement.
fn take_options(create: &mut ast::CreateTable) -> Result<OptionList> {
    let options = match std::mem::take(&mut create.table_options) {
        ast::CreateTableOptions::None => return Ok(vec![]),
        ast::CreateTableOptions::With(options) => options,
        other => return Err(Error::syntax(format!("syntax error: expected WITH (option = value, …), found: {other}"))),
    };
    let options = options.into_iter().map(option).collect::<Result<OptionList>>()?;
    Ok(options.into_iter().filter(|(name, _)| !has_no_effect(name)).collect())
}

/// Whether an option is one of PostgreSQL's about the room in its pages and its background work, which means nothing here.
fn has_no_effect(option: &str) -> bool {
    let name = option.strip_prefix("toast.").unwrap_or(option);
    matches!(name, "fillfactor" | "toast_tuple_target" | "parallel_workers") || name.starts_with("autovacuum_")
}

fn option(option: ast::SqlOption) -> Result<(String, String)> {
    match option {
        ast::SqlOption::KeyValue { key, value } => Ok((identifier(&key), option_value(value))),
        other => Err(Error::syntax(format!("syntax error: expected option = value, found: {other}"))),
    }
}

fn option_value(value: ast::Expr) -> String {
    match value {
        ast::Expr::Value(value) => match value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => text,
            ast::Value::DollarQuotedString(text) => text.value,
            other => other.to_string(),
        },
        ast::Expr::Identifier(name) => name.value,
        other => other.to_string(),
    }
}
