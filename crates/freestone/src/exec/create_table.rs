//! CREATE TABLE, with columns or AS a query.

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use freestone_sql::tree::{ColumnDefinition, CreateTable, ObjectName, OnCommit, TableElement};
use freestone_store::schema::{Column, TableSchema};
use freestone_store::{LockMode, WriteTransaction};

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::definitions::{self, GeneratedColumn};
use crate::dependencies;
use crate::error::Result;
use crate::exec::constraints::Constraints;
use crate::exec::stored_values::{Places, check_count};
use crate::exec::write::WriteContext;
use crate::exec::{column_types, ddl, defaults, dml, dropping, generated_columns, implied_sort, row_checks, sequences};
use crate::settings;
use crate::sql::command::OptionList;
use crate::sql::names::{self, kept_name};
use crate::sql::option_lists;
use crate::sql::parameters::Parameters;
use crate::sql::text_types;
use crate::temp_schema;

const VERB: &str = "CREATE TABLE";

/// `CREATE TABLE`, with columns or `AS` a query.
pub(crate) fn create_table(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    create: &CreateTable,
    parameters: &Parameters,
) -> Result<Outcome> {
    let name = kept_name(&create.name)?;
    transaction.lock_name(&name)?;
    if definitions::is_materialized(&transaction.snapshot(), &name) {
        return Err(ddl::taken(&name));
    }
    make_table(transaction, context, create, parameters)
}

/// The same for a table that may replace a materialized view, as one.
pub(super) fn make_table(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    create: &CreateTable,
    parameters: &Parameters,
) -> Result<Outcome> {
    let name = kept_name(&create.name)?;
    transaction.lock_name(&name)?;
    if create.or_replace {
        transaction.lock(&name, LockMode::Exclusive)?;
    }
    let base = transaction.snapshot();
    let exists = base.table(&name).is_some();
    if exists && create.if_not_exists {
        return Ok(Outcome::Done { verb: VERB });
    }
    if exists && !create.or_replace || base.view(&name).is_some() {
        return Err(ddl::taken(&name));
    }
    crate::sequences::check_no_sequence(&base, &name)?;
    definitions::check_new(&base, &create.name)?;
    let scope = Scope::new(base);
    let mut declared = Declared::of(transaction, create)?;
    let rows = create.query.as_ref().map(|_| planned_rows(context, &scope, parameters)).transpose()?;
    let columns = declared.columns(context, &scope, parameters.written()?.text(), rows.as_ref())?;
    let generated = declared.constraints.take_generated();
    let mut schema = declared.constraints.apply(&name, columns, &scope.snapshot)?;
    if exists {
        dropping::check_unreferenced(&scope.snapshot, &name)?;
        transaction.drop_table(&name)?;
    }
    sequences::generate(transaction, &name, &mut schema, generated)?;
    check_declared(transaction, context, &scope, &schema)?;
    let mut options = design_options(create, parameters.written()?.text());
    if let Some((_, plan)) = &rows {
        implied_sort::complete(&mut options, plan, &schema);
    }
    let design = ddl::design(settings::default_design(context.planner().settings())?, &options, &schema)?;
    transaction.create_table(&name, schema.clone(), design)?;
    crate::sequences::own(transaction, &name)?;
    generated_columns::declare(transaction, context, &name, &schema, declared.generated)?;
    record_uses(transaction, &name, create)?;
    if let Some(replaced) = scope.snapshot.table(&name) {
        let ids = (replaced.id, transaction.table(&name)?.id);
        dropping::replace(transaction, context.planner().temp(), &scope.snapshot, ids)?;
    }
    if let Some(on_commit) = create.on_commit.and_then(at_commit) {
        context.planner().temp().note_on_commit(transaction, &name, on_commit)?;
    }
    match rows {
        Some(rows) => fill(transaction, context, (&name, &schema), rows),
        None => Ok(Outcome::Done { verb: VERB }),
    }
}

/// Records on which objects a new table depends.
fn record_uses(transaction: &mut WriteTransaction, name: &str, create: &CreateTable) -> Result<()> {
    let (table, snapshot) = (transaction.table(name)?, transaction.snapshot());
    let mut uses = dependencies::of_table(&snapshot, &table)?;
    for element in &create.elements {
        match element {
            TableElement::Column(column) => {
                uses.extend(column.data_type.iter().flat_map(|declared| dependencies::of_type(&snapshot, declared)));
            }
            TableElement::Like(_) | TableElement::Constraint(_) => {}
        }
    }
    dependencies::check_lasting(&snapshot, name, &uses)?;
    Ok(transaction.set_uses(name, uses)?)
}

/// The query of CREATE TABLE AS.
fn planned_rows(context: &WriteContext, scope: &Scope, parameters: &Parameters) -> Result<(SessionState, LogicalPlan)> {
    let written = parameters.written()?.query();
    let (query, _) = written.map_err(|error| error.with_hint("give all columns a type, or none"))?;
    context.plan_made(scope, query, parameters)
}

/// Appends the rows of the query.
fn fill(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    (name, schema): (&str, &TableSchema),
    (state, plan): (SessionState, LogicalPlan),
) -> Result<Outcome> {
    let places = Places::all(schema);
    check_count(places.given(), plan.schema().fields().len())?;
    context.prepare_append(transaction, plan.max_rows())?;
    let remote = context.remote.as_ref().map(|remote| remote.write(transaction, context, name)).transpose()?.flatten();
    let rows = match remote {
        Some(rows) => rows,
        None => {
            let batches = dml::run_in_order(context, state, &plan)?;
            dml::append(transaction, context, name, schema, places, batches)?
        }
    };
    Ok(Outcome::Affected { verb: VERB, rows })
}

/// What the parentheses of CREATE TABLE declare.
struct Declared<'c> {
    /// Its stored columns and those of other tables, in order.
    parts: Vec<Part<'c>>,
    generated: Vec<GeneratedColumn>,
    constraints: Constraints,
}

enum Part<'c> {
    Column(&'c ColumnDefinition),
    /// The columns of `LIKE table`, and the CHECKs that stand for their types.
    Like(Box<TableSchema>),
}

impl<'c> Declared<'c> {
    fn of(transaction: &mut WriteTransaction, create: &'c CreateTable) -> Result<Declared<'c>> {
        let mut declared = Declared { parts: vec![], generated: vec![], constraints: Constraints::default() };
        for element in &create.elements {
            if let TableElement::Constraint(constraint) = element {
                declared.constraints.add(constraint)?;
            }
        }
        // Of the next column among all of them.
        let mut at = 0;
        for element in &create.elements {
            match element {
                TableElement::Constraint(_) => {}
                TableElement::Like(other) => {
                    let like = columns_like(transaction, other)?;
                    at += like.columns.len();
                    declared.parts.push(Part::Like(Box::new(like)));
                }
                TableElement::Column(column) => {
                    match column.generated() {
                        Some(value) => declared.generated.push(generated_columns::of(column, value, at)?),
                        None => {
                            declared.constraints.of_column(column)?;
                            declared.parts.push(Part::Column(column));
                        }
                    }
                    at += 1;
                }
            }
        }
        generated_columns::expand(&mut declared.generated)?;
        Ok(declared)
    }

    /// The columns of the table: those that are declared with a type, or those of the query.
    fn columns(
        &mut self,
        context: &WriteContext,
        scope: &Scope,
        text: &str,
        rows: Option<&(SessionState, LogicalPlan)>,
    ) -> Result<TableSchema> {
        let named = self.parts.iter().filter_map(|part| match part {
            Part::Column(column) => column.data_type.as_ref().map(|data_type| (column.name.text.as_str(), data_type)),
            Part::Like(_) => None,
        });
        let named: Vec<_> = named.collect();
        let has_others = self.parts.iter().any(|part| matches!(part, Part::Like(_)));
        if let Some((state, plan)) = rows
            && named.is_empty()
            && !has_others
        {
            // Names that are written are not changed.
            names::check_distinct(self.parts.iter().filter_map(|part| match part {
                Part::Column(column) => Some(column.name.text.as_str()),
                Part::Like(_) => None,
            }))?;
            return columns_of_query(context.schema_of(state, plan)?, &mut self.constraints);
        }
        let mut fields = column_types::declared(context, scope, &named, text, &mut self.constraints)?.into_iter();
        let (mut columns, mut checks): (Vec<Column>, _) = (vec![], vec![]);
        for part in std::mem::take(&mut self.parts) {
            match part {
                Part::Like(like) => {
                    for (at, column) in like.columns.iter().enumerate() {
                        if let Some((declared, is_enforced)) = like.declared_type(at) {
                            self.constraints.add_type(&column.name, declared.to_owned(), is_enforced);
                        }
                    }
                    let TableSchema { columns: more, checks: of_types, .. } = *like;
                    columns.extend(more);
                    checks.extend(of_types);
                }
                Part::Column(_) => {
                    let field: Schema = Schema::new(fields.next().into_iter().collect::<Vec<_>>());
                    columns.extend(TableSchema::from_arrow(&field)?.columns);
                }
            }
        }
        Ok(TableSchema { columns, checks, ..TableSchema::default() }.validated()?)
    }
}

/// The columns of `LIKE table`, with NOT NULL and without keys, as in PostgreSQL.
fn columns_like(transaction: &mut WriteTransaction, other: &ObjectName) -> Result<TableSchema> {
    let table = dml::find(transaction, &kept_name(other)?, LockMode::Shared)?;
    let columns = table.schema.columns.clone();
    let checks = table.schema.checks.iter().filter(|check| text_types::of_check(check).is_some()).cloned();
    let mut like = TableSchema { columns, checks: checks.collect(), ..TableSchema::default() };
    for at in 0..like.columns.len() {
        let declared = table.schema.declared_type(at);
        like.declare_type(at, declared.map(|(declared, is_enforced)| (declared.to_owned(), is_enforced)));
    }
    Ok(like)
}

/// The columns of CREATE TABLE AS.
fn columns_of_query(columns: SchemaRef, constraints: &mut Constraints) -> Result<TableSchema> {
    let fields = names::distinct(names::shown(columns));
    let mut columns = TableSchema::from_arrow(&fields)?;
    constraints.add_text_types(&fields);
    // Whether rows of a query happen to have no NULL says nothing of those to come.
    columns.columns.iter_mut().for_each(|column| column.nullable = true);
    Ok(columns)
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
fn at_commit(on_commit: OnCommit) -> Option<temp_schema::OnCommit> {
    match on_commit {
        OnCommit::Drop => Some(temp_schema::OnCommit::Drop),
        OnCommit::DeleteRows => Some(temp_schema::OnCommit::DeleteRows),
        OnCommit::PreserveRows => None,
    }
}

/// The options of `WITH (…)` that mean something.
fn design_options(create: &CreateTable, text: &str) -> OptionList {
    option_lists::list_of(&create.options, text).into_iter().filter(|(name, _)| !has_no_effect(name)).collect()
}

/// Whether an option is one of PostgreSQL's about the room in its pages and its background work, which means nothing here.
fn has_no_effect(option: &str) -> bool {
    let name = option.strip_prefix("toast.").unwrap_or(option);
    matches!(name, "fillfactor" | "toast_tuple_target" | "parallel_workers") || name.starts_with("autovacuum_")
}
