//! Descriptions: the parameters and result columns of a statement, found without executing it; and the database's
//! tables, as data.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use freestone_sql::tree::ObjectName;

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::definitions;
use crate::error::Result;
use crate::exec::described::DescribedWrite;
use crate::internal_names::{is_temporary, own_name, shown};
use crate::planning::analyzed_schema;
use crate::sequences::{self, SequenceRelation};
use crate::session::{Session, copying, guarded};
use crate::sql::command::Command;
use crate::sql::statement::Statement;
use crate::sql::text_types::labels_of;
use crate::sql::written::Written;
use crate::sql::{names, statement};
use crate::text_types;
use freestone_store::schema::{Constraint, ConstraintKind, Identity};
use freestone_store::{MaterializedView, Snapshot, Table};

/// The parameters and result columns of a statement.
#[derive(Debug, Clone)]
pub struct Description {
    /// The types of `$1`, `$2`, …; VARCHAR if nothing determines a type.
    pub parameters: Vec<DataType>,
    /// The columns of its rows; `None` if it returns none.
    pub schema: Option<SchemaRef>,
}

/// A table or view of the database.
#[derive(Debug, Clone, Default)]
pub struct Relation {
    /// The name.
    pub name: String,
    /// Whether it ends with the session. Its name is in the schema `pg_temp` then.
    pub is_temporary: bool,
    /// The columns; empty for a view whose query fails.
    pub schema: Option<SchemaRef>,
    /// The number of rows. `None` for a view.
    pub rows: Option<u64>,
    /// The bytes of the rows and the indexes of a table.
    pub bytes: u64,
    /// The bytes of the copies of a table in other designs.
    pub copy_bytes: u64,
    /// A view's query.
    pub view: Option<String>,
    /// The query of a materialized view, whether it is populated, and whether commits compute it.
    pub materialized: Option<MaterializedView>,
    /// The columns of the primary key.
    pub primary_key: Vec<String>,
    /// The name of the primary key, if there is one.
    pub primary_key_name: String,
    /// Whether the primary key is enforced.
    pub primary_key_enforced: bool,
    /// The foreign keys.
    pub foreign_keys: Vec<Reference>,
    /// The names of UNIQUE constraints, and their columns.
    pub unique: Vec<(String, Vec<String>)>,
    /// The names that CREATE INDEX has given to indexes which are not unique, and their columns.
    pub indexes: Vec<(String, Vec<String>)>,
    /// The names of CHECK constraints, and their conditions.
    pub checks: Vec<(String, String)>,
    /// For each column, its DEFAULT.
    pub defaults: Vec<Option<String>>,
    /// For each column, whether it is GENERATED ALWAYS (true) or BY DEFAULT (false) AS IDENTITY.
    pub identities: Vec<Option<bool>>,
    /// The comment on it.
    pub comment: Option<String>,
    /// The comments on its columns, by their names.
    pub column_comments: BTreeMap<String, String>,
}

impl Relation {
    /// The name of the key that consists of these columns.
    pub fn key_name(&self, columns: &[String]) -> Option<&str> {
        let is_of = |key: &[String]| key.len() == columns.len() && key.iter().all(|column| columns.contains(column));
        if is_of(&self.primary_key) {
            return Some(&self.primary_key_name);
        }
        self.unique.iter().find(|(_, key)| is_of(key)).map(|(name, _)| name.as_str())
    }

    /// The name without the schema of temporary tables.
    pub fn own_name(&self) -> &str {
        let own = self.name.split_once('.').filter(|_| self.is_temporary);
        own.map_or(&self.name, |(_, own)| own)
    }
}

/// The table or view of a name.
#[derive(Debug, Clone)]
pub enum NamedRelation {
    /// A table.
    Table {
        /// The name, with the schema unless that is the default one.
        name: String,
        /// The stored columns.
        schema: SchemaRef,
    },
    /// A view.
    View {
        /// The name, as for a table.
        name: String,
        /// Its query.
        query: String,
    },
}

/// A foreign key.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The name of the constraint.
    pub name: String,
    /// The columns that reference.
    pub columns: Vec<String>,
    /// The referenced table.
    pub table: String,
    /// The referenced columns.
    pub referenced: Vec<String>,
    /// Whether it is enforced.
    pub enforced: bool,
}

impl Session {
    /// Plans a statement without executing it. `types` are the types of parameters that the caller has declared.
    ///
    /// # Errors
    /// The statement cannot be parsed or planned.
    pub async fn describe_statement(&self, statement: &Statement, types: &[Option<DataType>]) -> Result<Description> {
        let described = guarded(statement, self.described(statement, types)).await;
        self.fail_transaction_of(described)
    }

    async fn described(&self, statement: &Statement, types: &[Option<DataType>]) -> Result<Description> {
        self.check_transaction(statement.ends_transaction())?;
        if statement.is_whole_query() {
            return self.describe_query(statement.written(), types).await;
        }
        let (written, nothing) = (statement.written(), Description { parameters: vec![], schema: None });
        match self.command(statement).await? {
            Command::Query => self.describe_query(written, types).await,
            Command::Write => self.describe_write(written, types).await,
            Command::LockRows => {
                let described = DescribedWrite::of_lock(&self.planner(), &self.snapshot()?, written.lock()?)?;
                self.describe_rows_of(described, types, written).await
            }
            Command::Explain(explanation) => {
                let explained = self.describe_prepared(written, types).await?;
                Ok(Description { parameters: explained.parameters, schema: Some(explanation.schema()) })
            }
            Command::Execute(execute) => {
                let written = self.prepared_statement(&execute.name.text)?;
                let description = self.describe_prepared(written, &[]).await?;
                Ok(Description { parameters: vec![], ..description })
            }
            Command::Show { .. } | Command::ShowCreate { .. } => self.describe_rows(statement).await,
            Command::CopyTo(copy) if copying::returns_files(&copy.options) => {
                Ok(Description { schema: Some(copying::files_schema()), ..nothing })
            }
            Command::Check(_) => Ok(Description { schema: Some(crate::exec::check::rows(&[])?.schema()), ..nothing }),
            _ => Ok(nothing),
        }
    }

    /// A query, or a statement that changes rows, that another one prepares or explains.
    async fn describe_prepared(&self, written: Arc<Written>, types: &[Option<DataType>]) -> Result<Description> {
        match written.write() {
            Ok(_) => self.describe_write(written, types).await,
            Err(_) => self.describe_query(written, types).await,
        }
    }

    /// A query of the dialect.
    async fn describe_query(&self, written: Arc<Written>, types: &[Option<DataType>]) -> Result<Description> {
        let (scope, types) = (self.scope()?, types.to_vec());
        self.plan_apart(move |planner, _| async move {
            let (query, _) = written.query()?;
            let state = planner.state(&scope);
            description(&state, planner.describe_made(&state, &scope, query, &written, &types).await?)
        })
        .await
    }

    async fn describe_write(&self, written: Arc<Written>, types: &[Option<DataType>]) -> Result<Description> {
        let described = DescribedWrite::of(&self.planner(), &self.snapshot()?, &written)?;
        self.describe_rows_of(described, types, written).await
    }

    /// A statement that changes or locks rows.
    async fn describe_rows_of(
        &self,
        described: DescribedWrite,
        types: &[Option<DataType>],
        written: Arc<Written>,
    ) -> Result<Description> {
        let DescribedWrite { rows: (scope, rows), returned, assigned } = described;
        let types = with_assigned(types, assigned);
        self.plan_apart(move |planner, _| async move {
            let state = planner.state(&scope);
            let (parameters, plan) = planner.describe_made(&state, &scope, &rows.query, &written, &types).await?;
            rows.finished(plan)?;
            let Some((scope, query)) = returned else { return Ok(Description { parameters, schema: None }) };
            let state = planner.state(&scope);
            let known: Vec<_> = parameters.into_iter().map(Some).collect();
            description(&state, planner.describe_made(&state, &scope, &query, &written, &known).await?)
        })
        .await
    }

    /// Executes a statement that takes no time, because its result determines its columns.
    async fn describe_rows(&self, statement: &Statement) -> Result<Description> {
        let schema = match self.execute(statement).await? {
            Outcome::Rows { schema, .. } => Some(schema),
            _ => None,
        };
        Ok(Description { parameters: vec![], schema })
    }

    /// The tables and views of the database, with their columns and keys.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn relations(&self) -> Result<Vec<Relation>> {
        let scope = self.scope()?;
        let tables = self.temp.tables(&scope.snapshot);
        let mut relations: Vec<Relation> = tables.map(|table| table_relation(table, &scope.snapshot)).collect();
        for (name, text) in self.temp.views(&scope.snapshot) {
            let schema = self.view_schema(&scope, name).await.ok();
            let comment = definitions::comments(&scope.snapshot, name).own;
            let (name, view) = (name.clone(), Some(text.to_string()));
            relations.push(Relation { name, schema, view, comment, ..Relation::default() });
        }
        for relation in &mut relations {
            relation.is_temporary = is_temporary(&relation.name);
            relation.name = shown(&relation.name);
            relation.foreign_keys.iter_mut().for_each(|key| key.table = shown(&key.table));
            relation.indexes.iter_mut().for_each(|(name, _)| *name = own_name(name).to_owned());
        }
        Ok(relations)
    }

    /// The table or view of the database that a name means in a statement. `None` if there is none, or it has generated columns.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn named_relation(&self, name: &ObjectName) -> Result<Option<NamedRelation>> {
        let snapshot = self.snapshot()?;
        let stored = self.planner().table_name(&snapshot, name)?;
        if let Some(table) = snapshot.table(&stored) {
            let has_others = !definitions::generated(&snapshot, &stored).is_empty();
            let schema = text_types::stored_schema(&table.schema);
            return Ok((!has_others).then(|| NamedRelation::Table { name: shown(&stored), schema }));
        }
        let query = definitions::view_text(&snapshot, &stored);
        Ok(query.map(|query| NamedRelation::View { name: shown(&stored), query: query.to_owned() }))
    }

    /// The full name of the table, view or sequence that a name means: with its schema, unless that is the default one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn find_relation(&self, name: &ObjectName) -> Result<Option<String>> {
        let snapshot = self.snapshot()?;
        let stored = self.planner().table_name(&snapshot, name)?;
        let is_there = snapshot.relation_id(&stored).is_some() || sequences::find(&snapshot, &stored).is_some();
        Ok(is_there.then(|| shown(&stored)))
    }

    /// The types that CREATE TYPE has made of labels, by name, with the labels.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn enum_types(&self) -> Result<Vec<(String, Vec<String>)>> {
        let snapshot = self.snapshot()?;
        let labels = |(name, text): (&str, &str)| Some((name.to_owned(), labels_of(text)?));
        Ok(definitions::types(&snapshot).filter_map(labels).collect())
    }

    /// The names of the schemas that CREATE SCHEMA has made.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn schemas(&self) -> Result<Vec<String>> {
        let snapshot = self.snapshot()?;
        Ok(definitions::schemas(&snapshot).map(str::to_owned).collect())
    }

    /// The sequences of the database.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn sequence_relations(&self) -> Result<Vec<SequenceRelation>> {
        Ok(sequences::relations(&*self.snapshot()?, &|name| self.temp.sees(name)))
    }

    async fn view_schema(&self, scope: &Scope, name: &str) -> Result<SchemaRef> {
        let name = match definitions::schema_of(&scope.snapshot, name) {
            Some((schema, own)) => names::name_in(&statement::quote(schema), &statement::quote(own)),
            None => statement::quote(name),
        };
        let (scope, text) = (scope.clone(), format!("SELECT * FROM {name}"));
        self.plan_apart(move |planner, _| async move {
            let (state, plan) = planner.plan_text(&scope, &text).await?;
            analyzed_schema(&state, plan)
        })
        .await
    }
}

/// What is known of a query: the types of its parameters, and the columns of its plan.
fn description(state: &SessionState, (parameters, plan): (Vec<DataType>, LogicalPlan)) -> Result<Description> {
    let schema = names::shown(analyzed_schema(state, plan)?);
    Ok(Description { parameters, schema: Some(schema) })
}

/// The types of parameters. Those without a declared type have the type of the column to which they are assigned.
fn with_assigned(types: &[Option<DataType>], assigned: Vec<(usize, DataType)>) -> Vec<Option<DataType>> {
    let mut types = types.to_vec();
    for (number, data_type) in assigned {
        let at = number - 1;
        if types.len() <= at {
            types.resize(at + 1, None);
        }
        types[at].get_or_insert(data_type);
    }
    types
}

fn table_relation(table: &Table, snapshot: &Snapshot) -> Relation {
    let (schema, comments) = (&table.schema, definitions::comments(snapshot, &table.name));
    let mut relation = Relation {
        name: table.name.clone(),
        schema: Some(text_types::stored_schema(schema)),
        rows: Some(table.rows()),
        bytes: table.bytes(),
        copy_bytes: snapshot.copies(table).map(|copy| copy.bytes()).sum(),
        materialized: snapshot.materialized(table.id).and_then(|object| object.materialized()).cloned(),
        indexes: definitions::indexes_of(snapshot, table),
        primary_key: schema.primary_key.clone(),
        defaults: (0..schema.columns.len()).map(|at| schema.default_of(at).map(str::to_owned)).collect(),
        identities: (0..schema.columns.len()).map(|at| Some(schema.identity_of(at)? == Identity::Always)).collect(),
        comment: comments.own,
        column_comments: comments.columns,
        ..Relation::default()
    };
    for Constraint { name, kind } in schema.constraints(&table.name) {
        match kind {
            ConstraintKind::Primary(_, is_enforced) => {
                (relation.primary_key_name, relation.primary_key_enforced) = (name, is_enforced);
            }
            ConstraintKind::Unique(columns) => relation.unique.push((name, columns.to_vec())),
            ConstraintKind::Check(check) => relation.checks.push((name, check.condition.clone())),
            ConstraintKind::Foreign(key) => relation.foreign_keys.push(Reference {
                name,
                columns: key.columns.clone(),
                table: key.table.clone(),
                referenced: key.referenced.clone(),
                enforced: key.enforced,
            }),
        }
    }
    relation
}
