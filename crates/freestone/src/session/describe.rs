//! Descriptions: the parameters and result columns of a statement, found without executing it; and the database's
//! tables, as data.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::definitions;
use crate::error::{Error, Result};
use crate::exec::described::DescribedWrite;
use crate::internal_names::{is_temporary, own_name, shown};
use crate::planning::analyzed_schema;
use crate::sequences::{self, SequenceRelation};
use crate::session::{Session, guarded};
use crate::sql::parameters::Parameters;
use crate::sql::statement::{Command, Statement, changes_rows, parse_query};
use crate::sql::written::Written;
use crate::sql::{names, statement, user_types};
use crate::text_types;
use freestone_store::schema::{Constraint, ConstraintKind, Identity};
use freestone_store::{Snapshot, Table};

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
        match self.command(statement).await? {
            Command::Sql(sql) => self.describe_sql(statement, *sql, types, Some(statement.written())).await,
            Command::LockRows(_) => {
                let (written, snapshot) = (statement.written(), self.snapshot()?);
                let described = DescribedWrite::of_lock(&self.planner(), &snapshot, written.lock()?)?;
                self.describe_write(described, types, written).await
            }
            Command::Show { .. } => self.describe_rows(statement).await,
            Command::Check(_) => {
                let schema = Some(crate::exec::check::rows(&[])?.schema());
                Ok(Description { parameters: vec![], schema })
            }
            _ => Ok(Description { parameters: vec![], schema: None }),
        }
    }

    /// A query of the dialect.
    async fn describe_query(&self, written: Arc<Written>, types: &[Option<DataType>]) -> Result<Description> {
        let (scope, types) = (self.scope()?, types.to_vec());
        self.plan_apart(move |planner, _| async move {
            let (query, _) = written.query().map_err(Error::unsupported)?;
            let state = planner.state(&scope);
            description(&state, planner.describe_made(&state, &scope, query, &written, &types).await?)
        })
        .await
    }

    async fn describe_sql(
        &self,
        statement: &Statement,
        sql: ast::Statement,
        types: &[Option<DataType>],
        written: Option<Arc<Written>>,
    ) -> Result<Description> {
        use ast::Statement as Sql;
        match &sql {
            Sql::Query(_) | Sql::ShowFunctions { .. } => {
                self.describe_query_of(self.scope()?, sql, types, written).await
            }
            Sql::Explain { statement: explained, .. } => {
                let mut parameters = vec![];
                if let (true, Some(written)) = (changes_rows(explained), &written) {
                    let described = DescribedWrite::of(&self.planner(), &self.snapshot()?, written)?;
                    parameters = self.describe_write(described, types, written.clone()).await?.parameters;
                }
                let (scope, sql, written) = self.explained(sql, written)?;
                let description = self.describe_query_of(scope, sql, types, written).await?;
                Ok(if parameters.is_empty() { description } else { Description { parameters, ..description } })
            }
            Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_) => {
                let written = written.ok_or_else(|| Error::unsupported("this statement is not described"))?;
                let described = DescribedWrite::of(&self.planner(), &self.snapshot()?, &written)?;
                self.describe_write(described, types, written).await
            }
            Sql::ShowCreate { .. } => self.describe_rows(statement).await,
            Sql::Execute { name: Some(name), .. } => {
                let (prepared, written) = self.prepared_statement(name)?;
                let description = Box::pin(self.describe_sql(statement, prepared, &[], written)).await?;
                Ok(Description { parameters: vec![], ..description })
            }
            _ => Ok(Description { parameters: vec![], schema: None }),
        }
    }

    async fn describe_query_of(
        &self,
        scope: Scope,
        sql: ast::Statement,
        types: &[Option<DataType>],
        written: Option<Arc<Written>>,
    ) -> Result<Description> {
        let types = types.to_vec();
        self.plan_apart(move |planner, _| async move {
            let (state, written) = (planner.state(&scope), written.as_deref());
            description(&state, planner.describe(&state, &scope, sql, &types, written).await?)
        })
        .await
    }

    /// A statement that changes or locks rows.
    async fn describe_write(
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

    /// EXPLAIN of a write plans the query that finds its rows.
    pub(crate) fn explained(
        &self,
        mut sql: ast::Statement,
        written: Option<Arc<Written>>,
    ) -> Result<(Scope, ast::Statement, Option<Arc<Written>>)> {
        let scope = self.scope()?;
        let ast::Statement::Explain { statement, .. } = &mut sql else { return Ok((scope, sql, written)) };
        if let ast::Statement::CreateTable(ast::CreateTable { query: Some(query), .. }) = &**statement {
            **statement = ast::Statement::Query(query.clone());
        }
        let Some(known) = written.as_ref().filter(|_| changes_rows(statement)) else {
            return Ok((scope, sql, written));
        };
        let (scope, rows) = DescribedWrite::of(&self.planner(), &scope.snapshot, known)?.rows;
        **statement = ast::Statement::Query(parse_query("SELECT 1")?);
        let written = Arc::new(known.with_query(rows.query));
        Ok((scope, sql, Some(written)))
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
            let (name, view) = (name.clone(), Some(text.to_string()));
            relations.push(Relation { name, schema, view, ..Relation::default() });
        }
        for relation in &mut relations {
            relation.is_temporary = is_temporary(&relation.name);
            relation.name = shown(&relation.name);
            relation.foreign_keys.iter_mut().for_each(|key| key.table = shown(&key.table));
            relation.indexes.iter_mut().for_each(|(name, _)| *name = own_name(name).to_owned());
        }
        Ok(relations)
    }

    /// The types that CREATE TYPE has made of labels, by name, with the labels.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn enum_types(&self) -> Result<Vec<(String, Vec<String>)>> {
        let snapshot = self.snapshot()?;
        let labels = |(name, text): (&str, &str)| Some((name.to_owned(), user_types::labels_of(text)?));
        Ok(definitions::types(&snapshot).filter_map(labels).collect())
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
        let query = parse_query(&format!("SELECT * FROM {name}"))?;
        let scope = scope.clone();
        self.plan_apart(move |planner, _| async move {
            let state = planner.state(&scope);
            let sql = ast::Statement::Query(query);
            let plan = planner.plan(&state, &scope, sql, &Parameters::default()).await?;
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
    let schema = &table.schema;
    let named = definitions::indexes(snapshot).filter(|(_, index)| index.table == table.name);
    let mut relation = Relation {
        name: table.name.clone(),
        schema: Some(text_types::stored_schema(schema)),
        rows: Some(table.rows()),
        bytes: table.bytes(),
        copy_bytes: snapshot.copies(table).map(|copy| copy.bytes()).sum(),
        indexes: named.map(|(name, index)| (name, index.columns)).collect(),
        primary_key: schema.primary_key.clone(),
        defaults: (0..schema.columns.len()).map(|at| schema.default_of(at).map(str::to_owned)).collect(),
        identities: (0..schema.columns.len()).map(|at| Some(schema.identity_of(at)? == Identity::Always)).collect(),
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
