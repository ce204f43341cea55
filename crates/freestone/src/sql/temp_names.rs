//! The names of temporary tables in parsed SQL. A session's temporary table comes before a table of the database of the
//! same name, so its name gets the schema of the session. Names that WITH defines come before both.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, ObjectName, ObjectNamePart, Query, Statement, TableFactor, VisitorMut,
};

use crate::error::{Error, ErrorKind, Result};
use crate::sql::names::{self, CATALOG, identifier, name_in};
use crate::sql::spellings::AT;
use crate::sql::statement::{AddCopy, AdviseRequest, Command, CopyFrom, quote};
use crate::sql::visitor;

/// DuckDB's name of the schema.
const TEMP: &str = "temp";

/// What is known of temporary names.
pub(crate) struct TempNames<'a> {
    /// The schema of the session in the catalog, and its name in SQL.
    pub schema: &'a str,
    pub schema_in_sql: &'a str,
    /// Whether a schema is that of a session.
    pub is_temporary: &'a dyn Fn(&str) -> bool,
    /// Whether the session has a temporary table, view or sequence of this name.
    pub has: &'a dyn Fn(&str) -> bool,
    /// Whether the database has a schema of this name.
    pub has_schema: &'a dyn Fn(&str) -> bool,
    /// Whether the statement names the database's own schema. Where names are texts, they are without it.
    pub names_public: bool,
}

/// What a statement changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WriteTarget {
    /// The database.
    #[default]
    Database,
    /// Rows of a temporary table. Transactions that only read allow it, too.
    TemporaryRows,
    /// Temporary tables, views and sequences themselves.
    TemporaryObjects,
}

impl WriteTarget {
    /// That of a change of rows.
    pub fn of_rows(is_temporary: bool) -> WriteTarget {
        if is_temporary { WriteTarget::TemporaryRows } else { WriteTarget::Database }
    }
}

impl TempNames<'_> {
    /// Resolves the names of a command, and returns what it changes, if it changes anything.
    ///
    /// # Errors
    /// The command names a temporary schema of another session, or creates a temporary table in another schema.
    pub fn resolve(&self, command: &mut Command) -> Result<WriteTarget> {
        match command {
            Command::Sql(sql) => self.statement(sql),
            Command::LockRows(query) => self.name(&mut query.table).map(WriteTarget::of_rows),
            Command::WithWrites(with) => {
                let parts = with.parts.iter_mut().map(|part| &mut part.statement);
                let targets = parts.map(|part| self.statement(part)).collect::<Result<Vec<_>>>()?;
                let main = self.statement(&mut with.main)?;
                let reads = matches!(with.main, Statement::Query(_));
                let mut targets = targets.into_iter().chain((!reads).then_some(main));
                let is_temporary = targets.all(|target| target == WriteTarget::TemporaryRows);
                Ok(WriteTarget::of_rows(is_temporary))
            }
            Command::SetVariable { value, .. } => self.statement(value),
            Command::CopyFrom(CopyFrom { table, .. }) => self.named(table).map(WriteTarget::of_rows),
            Command::SetDesign { table, .. }
            | Command::AddCopy(AddCopy { table, .. })
            | Command::DropCopy { table, .. } => self.named(table).map(of_objects),
            Command::CopyTo(request) => self.visit(&mut request.query).map(|_| WriteTarget::Database),
            Command::WhatIf(request) => {
                self.named(&mut request.table)?;
                self.statement(&mut request.query)
            }
            Command::Vacuum(Some(table))
            | Command::Analyze(Some(table))
            | Command::Check(Some(table))
            | Command::Advise(AdviseRequest { table: Some(table), .. }) => {
                self.named(table).map(|_| WriteTarget::Database)
            }
            _ => Ok(WriteTarget::Database),
        }
    }

    /// The same for a statement.
    ///
    /// # Errors
    /// As for [`TempNames::resolve`].
    pub fn statement(&self, sql: &mut Statement) -> Result<WriteTarget> {
        match sql {
            Statement::Explain { statement, .. } | Statement::Prepare { statement, .. } => self.statement(statement),
            Statement::CreateMacro { .. } => Ok(WriteTarget::Database),
            Statement::CreateTable(create) => self.create_table(create).map(of_objects),
            Statement::CreateView(create) => {
                // It reads temporary tables, so it ends with them.
                let reads = self.visit(&mut create.query)?;
                let is_temporary = self.created(&mut create.name, create.temporary || reads, "view")?;
                Ok(of_objects(is_temporary))
            }
            Statement::CreateSequence { name, temporary, .. } => {
                self.created(name, *temporary, "sequence").map(of_objects)
            }
            Statement::Drop {
                object_type: ast::ObjectType::Table | ast::ObjectType::View | ast::ObjectType::Sequence,
                names,
                ..
            } => {
                let resolved = names.iter_mut().map(|name| self.name(name)).collect::<Result<Vec<_>>>()?;
                Ok(of_objects(!resolved.is_empty() && resolved.iter().all(|is_temporary| *is_temporary)))
            }
            Statement::AlterTable(alter) => {
                let is_temporary = self.name(&mut alter.name)?;
                for operation in &mut alter.operations {
                    self.operation(operation)?;
                }
                self.visit(alter)?;
                Ok(of_objects(is_temporary))
            }
            Statement::Truncate(truncate) => {
                let names = truncate.table_names.iter_mut().map(|target| self.name(&mut target.name));
                let resolved = names.collect::<Result<Vec<_>>>()?;
                Ok(of_objects(resolved.iter().all(|is_temporary| *is_temporary)))
            }
            Statement::ShowCreate { obj_name, .. } => self.name(obj_name).map(|_| WriteTarget::Database),
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
                let is_temporary = self.target(sql)?;
                self.visit(sql)?;
                Ok(WriteTarget::of_rows(is_temporary))
            }
            _ => self.visit(sql).map(|_| WriteTarget::Database),
        }
    }

    /// The same for a query. Returns whether it reads a temporary table.
    ///
    /// # Errors
    /// As for [`TempNames::resolve`].
    pub fn query(&self, query: &mut Box<Query>) -> Result<bool> {
        self.visit(query)
    }

    fn create_table(&self, create: &mut ast::CreateTable) -> Result<bool> {
        let placeholder = ObjectName::from(vec![Ident::with_quote('"', "freestone$new")]);
        let mut name = std::mem::replace(&mut create.name, placeholder);
        let visited = self.visit(create);
        let own = name.0.last().and_then(|part| part.as_ident()).map(identifier).unwrap_or_default();
        let is_temporary = self.created(&mut name, create.temporary, "table");
        create.name = name;
        visited?;
        let is_temporary = is_temporary?;
        create.temporary = is_temporary;
        if let Some(ast::CreateTableLikeKind::Parenthesized(like) | ast::CreateTableLikeKind::Plain(like)) =
            &mut create.like
        {
            self.name(&mut like.name)?;
        }
        if create.on_commit.is_some() && !is_temporary {
            return Err(Error::invalid("ON COMMIT is for temporary tables").with_hint("CREATE TEMP TABLE makes one"));
        }
        let of_columns = create.columns.iter_mut().flat_map(|column| &mut column.options);
        for key in of_columns.filter_map(reference).chain(create.constraints.iter_mut().filter_map(foreign_key)) {
            match key.foreign_table.0.as_slice() {
                // The table refers to itself.
                [ObjectNamePart::Identifier(table)] if identifier(table) == own => {
                    key.foreign_table = create.name.clone();
                }
                _ => drop(self.name(&mut key.foreign_table)?),
            }
        }
        Ok(is_temporary)
    }

    fn operation(&self, operation: &mut ast::AlterTableOperation) -> Result<()> {
        let key = match operation {
            ast::AlterTableOperation::AddConstraint { constraint, .. } => foreign_key(constraint),
            ast::AlterTableOperation::AddColumn { column_def, .. } => column_def.options.iter_mut().find_map(reference),
            _ => None,
        };
        key.map_or(Ok(()), |key| self.name(&mut key.foreign_table).map(|_| ()))
    }

    /// The name of something that is created. Returns whether it is temporary.
    fn created(&self, name: &mut ObjectName, is_temporary: bool, what: &str) -> Result<bool> {
        // In one word, as programs write it that quote names as a whole.
        if let [ObjectNamePart::Identifier(whole)] = name.0.as_slice()
            && let Some((schema, own)) = whole.value.split_once('.')
            && (schema == self.schema_in_sql || schema == self.schema)
        {
            *name = ObjectName::from([schema, own].map(|part| Ident::with_quote('"', part)).to_vec());
        }
        let schema = match name.0.as_slice() {
            [.., ObjectNamePart::Identifier(schema), _] => Some(identifier(schema)),
            _ => None,
        };
        let own = match &schema {
            Some(schema) => self.own_schema(schema)?,
            None => is_temporary,
        };
        if own {
            let last = name.0.pop();
            *name = ObjectName([Some(self.schema_part()), last].into_iter().flatten().collect());
        } else if is_temporary {
            let schema = schema.unwrap_or_default();
            return Err(Error::invalid(format!("a temporary {what} cannot be in schema {schema}"))
                .with_hint("leave out the schema: temporary tables have one of their own"));
        }
        Ok(own)
    }

    fn schema_part(&self) -> ObjectNamePart {
        ObjectNamePart::Identifier(Ident::with_quote('"', self.schema))
    }

    /// Whether a schema that is named is that of the session.
    ///
    /// # Errors
    /// It is that of another session.
    pub fn own_schema(&self, schema: &str) -> Result<bool> {
        if schema == self.schema_in_sql || schema == self.schema {
            return Ok(true);
        }
        if (self.is_temporary)(schema) {
            return Err(Error::new(ErrorKind::NotFound, format!("no schema {schema}"))
                .with_hint("each session sees only its own temporary tables, in the schema pg_temp"));
        }
        Ok(schema == TEMP && !(self.has_schema)(schema))
    }

    /// Resolves a name, and returns whether it is that of something temporary.
    fn name(&self, name: &mut ObjectName) -> Result<bool> {
        let is_temporary = match name.0.as_slice() {
            [ObjectNamePart::Identifier(table)] => {
                let mut full = identifier(table);
                if !self.text(&mut full)? {
                    return Ok(false);
                }
                let own = full.split_once('.').map_or(full.as_str(), |(_, own)| own);
                name.0 = vec![ObjectNamePart::Identifier(Ident::with_quote('"', own))];
                true
            }
            [ObjectNamePart::Identifier(schema), _] => self.own_schema(&identifier(schema))?,
            [ObjectNamePart::Identifier(catalog), ObjectNamePart::Identifier(schema), _] => {
                identifier(catalog) == CATALOG && self.own_schema(&identifier(schema))?
            }
            _ => false,
        };
        if is_temporary {
            let last = name.0.pop();
            *name = ObjectName([Some(self.schema_part()), last].into_iter().flatten().collect());
        }
        Ok(is_temporary)
    }

    /// The same for the name of a command that is no SQL of the parser.
    fn named(&self, name: &mut String) -> Result<bool> {
        if self.names_public { Ok(false) } else { self.text(name) }
    }

    /// The same for a name in the form of the catalog.
    ///
    /// # Errors
    /// As for [`TempNames::own_schema`].
    pub fn text(&self, name: &mut String) -> Result<bool> {
        let own = match name.split_once('.') {
            None if (self.has)(name) => Some(name.as_str()),
            // A name with a point may be that of a file.
            Some((schema, own)) if self.own_schema(schema)? && (schema != TEMP || (self.has)(own)) => Some(own),
            _ => None,
        };
        let full = own.map(|own| name_in(self.schema, own));
        if let Some(full) = &full {
            name.clone_from(full);
        }
        Ok(full.is_some())
    }

    /// Resolves the table that a statement changes, which WITH cannot define.
    fn target(&self, sql: &mut Statement) -> Result<bool> {
        let relation = match sql {
            Statement::Insert(insert) => match &mut insert.table {
                ast::TableObject::TableName(name) => return self.name(name),
                _ => return Ok(false),
            },
            Statement::Update(update) => &mut update.table.relation,
            Statement::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &mut delete.from;
                match from.first_mut() {
                    Some(table) => &mut table.relation,
                    None => return Ok(false),
                }
            }
            Statement::Merge(merge) => &mut merge.table,
            _ => return Ok(false),
        };
        self.factor(relation)
    }

    /// Resolves a table in FROM, which keeps its name as an alias.
    fn factor(&self, factor: &mut TableFactor) -> Result<bool> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return Ok(false) };
        let is_temporary = self.name(name)?;
        if let Some(ObjectNamePart::Identifier(own)) = name.0.last().filter(|_| is_temporary) {
            let name = own.clone();
            alias.get_or_insert(ast::TableAlias { explicit: true, name, columns: vec![], at: None });
        }
        Ok(is_temporary)
    }

    fn visit(&self, node: &mut impl ast::VisitMut) -> Result<bool> {
        let mut names =
            Names { known: self, defined: vec![], withs: vec![], is_call: false, failed: None, found: false };
        let _ = visitor::visit_mut(node, &mut names);
        match names.failed {
            Some(error) => Err(error),
            None => Ok(names.found),
        }
    }
}

fn of_objects(is_temporary: bool) -> WriteTarget {
    if is_temporary { WriteTarget::TemporaryObjects } else { WriteTarget::Database }
}

fn reference(option: &mut ast::ColumnOptionDef) -> Option<&mut ast::ForeignKeyConstraint> {
    match &mut option.option {
        ast::ColumnOption::ForeignKey(key) => Some(key),
        _ => None,
    }
}

fn foreign_key(constraint: &mut ast::TableConstraint) -> Option<&mut ast::ForeignKeyConstraint> {
    match constraint {
        ast::TableConstraint::ForeignKey(key) => Some(key),
        _ => None,
    }
}

/// Resolves the names of a part of a statement.
struct Names<'n> {
    known: &'n TempNames<'n>,
    /// The names that WITH defines where the visit is.
    defined: Vec<String>,
    /// The WITH clauses of the queries around, which were visited before the queries, and how many names were defined
    /// outside.
    withs: Vec<(Option<ast::With>, usize)>,
    /// Whether the next name is that of a table function.
    is_call: bool,
    failed: Option<Error>,
    found: bool,
}

impl Names<'_> {
    fn note(&mut self, resolved: Result<bool>) -> ControlFlow<()> {
        match resolved {
            Ok(found) => {
                self.found |= found;
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn is_defined(&self, name: &ObjectName) -> bool {
        match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => self.defined.contains(&names::folded(name)),
            _ => false,
        }
    }

    /// The text in a call that names a table or a sequence.
    fn named_text(&mut self, expression: &mut Expr, is_folded: bool) -> ControlFlow<()> {
        let expression = match expression {
            Expr::Cast { expr, .. } => expr,
            other => other,
        };
        let Expr::Value(value) = expression else { return ControlFlow::Continue(()) };
        let ast::Value::SingleQuotedString(text) = &mut value.value else { return ControlFlow::Continue(()) };
        if text.contains('"') {
            return ControlFlow::Continue(());
        }
        let mut name = if is_folded { text.to_lowercase() } else { text.clone() };
        let resolved = self.known.text(&mut name);
        if matches!(resolved, Ok(true)) {
            *text = match name.split_once('.') {
                Some((schema, own)) if is_folded => name_in(&quote(schema), &quote(own)),
                _ => name,
            };
        }
        self.note(resolved)
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let outside = self.defined.len();
        let mut with = query.with.take();
        if let Some(with) = &mut with {
            let is_recursive = with.recursive;
            if is_recursive {
                self.defined.extend(with.cte_tables.iter().map(|cte| names::folded(&cte.alias.name)));
            }
            for cte in &mut with.cte_tables {
                visitor::visit_mut(&mut cte.query, self)?;
                if !is_recursive {
                    self.defined.push(names::folded(&cte.alias.name));
                }
            }
        }
        self.withs.push((with, outside));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some((with, outside)) = self.withs.pop() {
            query.with = with;
            self.defined.truncate(outside);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        let resolved = self.known.target(statement);
        self.note(resolved)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args, .. } = factor else { return ControlFlow::Continue(()) };
        if let Some(call) = args {
            self.is_call = true;
            let is_version = name.0.first().and_then(|part| part.as_ident()).is_some_and(|part| part.value == AT);
            let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(table))) = call.args.first_mut() else {
                return ControlFlow::Continue(());
            };
            return if is_version && !self.known.names_public {
                self.named_text(table, false)
            } else {
                ControlFlow::Continue(())
            };
        }
        if self.is_defined(name) {
            return ControlFlow::Continue(());
        }
        let resolved = self.known.factor(factor);
        self.note(resolved)
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        if std::mem::take(&mut self.is_call) || self.is_defined(name) {
            return ControlFlow::Continue(());
        }
        let resolved = self.known.name(name);
        self.note(resolved)
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            // Tables are known by their names without a schema.
            Expr::CompoundIdentifier(parts) if parts.len() > 2 => {
                let schema = identifier(&parts[parts.len() - 3]);
                if schema == self.known.schema_in_sql || schema == self.known.schema {
                    parts.drain(..parts.len() - 2);
                }
                ControlFlow::Continue(())
            }
            Expr::Function(call) => {
                let name = call.name.0.last().and_then(|part| part.as_ident()).map(identifier).unwrap_or_default();
                let ast::FunctionArguments::List(list) = &mut call.args else { return ControlFlow::Continue(()) };
                match list.args.first_mut() {
                    Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(sequence)))
                        if matches!(name.as_str(), "nextval" | "currval" | "setval") =>
                    {
                        self.named_text(sequence, true)
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
