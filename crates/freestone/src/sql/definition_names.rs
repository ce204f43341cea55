//! The names of temporary tables, views and sequences in definitions: those of what is created, changed or dropped, and of what
//! it refers to. The queries of definitions are left as they are, because the binder knows temporary tables itself.

use freestone_binder::{Named, each_expression, named_tables};
use freestone_sql::tree::{
    AlterKind, AlterTable, ColumnConstraintKind, ColumnDefinition, CreateMaterializedView, CreateTable, CreateView,
    Drop, Expr, ExprKind, Literal, Name, ObjectKind, ObjectName, Query, References, StatementKind, TableConstraint,
    TableConstraintKind, TableElement, each_part_mut,
};

use super::names::{CATALOG, name_in};
use super::statement::quote;
use super::temp_names::{TempNames, WriteTarget};
use crate::error::{Error, Result};

impl TempNames<'_> {
    /// Resolves the names of a definition, and returns what it changes.
    ///
    /// # Errors
    /// The definition names a temporary schema of another session, or creates a temporary table in another schema.
    pub fn definition(&self, definition: &mut StatementKind) -> Result<WriteTarget> {
        match definition {
            StatementKind::CreateTable(create) => self.create_table(create).map(of_objects),
            StatementKind::CreateView(create) => self.create_view(create).map(of_objects),
            StatementKind::CreateSequence(create) => {
                self.created(&mut create.name, create.temporary, "sequence").map(of_objects)
            }
            StatementKind::AlterTable(alter) => self.alter_table(alter).map(of_objects),
            StatementKind::RenameView(rename) => self.object(&mut rename.name).map(of_objects),
            StatementKind::CreateMaterializedView(create) => self.create_materialized_view(create),
            StatementKind::RefreshView(refresh) => self.object(&mut refresh.name).map(of_objects),
            StatementKind::Drop(Drop {
                kind: ObjectKind::Table | ObjectKind::View | ObjectKind::MaterializedView | ObjectKind::Sequence,
                names,
                ..
            }) => self.objects(names).map(of_objects),
            StatementKind::Truncate(truncate) => self.objects(&mut truncate.tables).map(of_objects),
            StatementKind::CreateIndex(create) => self.object(&mut create.table).map(|_| WriteTarget::Database),
            _ => Ok(WriteTarget::Database),
        }
    }

    fn create_table(&self, create: &mut CreateTable) -> Result<bool> {
        let own = create.name.parts.last().map(|name| name.text.clone()).unwrap_or_default();
        let is_temporary = self.created(&mut create.name, create.temporary, "table")?;
        if create.on_commit.is_some() && !is_temporary {
            return Err(Error::invalid("ON COMMIT is for temporary tables").with_hint("CREATE TEMP TABLE makes one"));
        }
        for element in &mut create.elements {
            match element {
                TableElement::Like(other) => drop(self.object(other)?),
                TableElement::Column(column) => self.column(column, Some((&own, &create.name)))?,
                TableElement::Constraint(constraint) => self.constraint(constraint, Some((&own, &create.name)))?,
            }
        }
        Ok(is_temporary)
    }

    /// A view that reads temporary tables ends with them.
    fn create_view(&self, create: &mut CreateView) -> Result<bool> {
        let reads = self.is_read(&create.query)?;
        self.created(&mut create.name, create.temporary || reads, "view")
    }

    fn create_materialized_view(&self, create: &mut CreateMaterializedView) -> Result<WriteTarget> {
        if self.is_read(&create.query)? || self.created(&mut create.name, false, "materialized view")? {
            return Err(Error::unsupported("a materialized view is not temporary and reads nothing temporary")
                .with_hint("CREATE TEMP TABLE … AS keeps rows until the end of the session"));
        }
        Ok(WriteTarget::Database)
    }

    fn alter_table(&self, alter: &mut AlterTable) -> Result<bool> {
        let is_temporary = self.object(&mut alter.table)?;
        for action in &mut alter.actions {
            match &mut action.kind {
                AlterKind::AddColumn { column, .. } => self.column(column, None)?,
                AlterKind::AddConstraint(constraint) => self.constraint(constraint, None)?,
                AlterKind::SetDefault { value, .. } | AlterKind::SetType { using: Some(value), .. } => {
                    self.sequences(value)?;
                }
                _ => {}
            }
        }
        Ok(is_temporary)
    }

    fn column(&self, column: &mut ColumnDefinition, new: Option<(&str, &ObjectName)>) -> Result<()> {
        use ColumnConstraintKind as Kind;
        column.constraints.iter_mut().try_for_each(|constraint| match &mut constraint.kind {
            Kind::References(references, _) => self.references(references, new),
            Kind::Default(value) | Kind::Generated(value) | Kind::Check(value, _) => self.sequences(value),
            _ => Ok(()),
        })
    }

    fn constraint(&self, constraint: &mut TableConstraint, new: Option<(&str, &ObjectName)>) -> Result<()> {
        match &mut constraint.kind {
            TableConstraintKind::ForeignKey(_, references) => self.references(references, new),
            TableConstraintKind::Check(condition) => self.sequences(condition),
            _ => Ok(()),
        }
    }

    /// The table to which a foreign key refers. A new table, given by its own name and its whole one, may refer to itself.
    fn references(&self, references: &mut References, new: Option<(&str, &ObjectName)>) -> Result<()> {
        if let Some((own, whole)) = new
            && matches!(references.table.parts.as_slice(), [table] if table.text == own)
        {
            references.table.clone_from(whole);
            return Ok(());
        }
        self.object(&mut references.table).map(drop)
    }

    /// The sequences that an expression names in calls.
    fn sequences(&self, expression: &mut Expr) -> Result<()> {
        let mut done = Ok(());
        each_part_mut(expression, &mut |part| {
            let Some(text) = name_of_sequence_mut(part) else { return };
            match self.sequence(text) {
                Ok(Some(full)) => *text = full,
                Ok(None) => {}
                Err(error) => done = Err(error),
            }
        });
        done
    }

    /// The full name of a temporary sequence that a text names.
    fn sequence(&self, text: &str) -> Result<Option<String>> {
        let mut name = text.to_lowercase();
        if text.contains('"') || !self.text(&mut name)? {
            return Ok(None);
        }
        Ok(name.split_once('.').map(|(schema, own)| name_in(&quote(schema), &quote(own))))
    }

    /// Whether a query reads temporary tables or takes numbers from temporary sequences.
    fn is_read(&self, query: &Query) -> Result<bool> {
        for named in named_tables(query) {
            if let Named::Table(mut name) | Named::Version(mut name, _) = named
                && self.object(&mut name)?
            {
                return Ok(true);
            }
        }
        let mut found = Ok(false);
        each_expression(query, &mut |part| {
            if let (Ok(false), Some(text)) = (&found, name_of_sequence(part)) {
                found = self.sequence(text).map(|full| full.is_some());
            }
        });
        found
    }

    /// The name of something that is created. Returns whether it is temporary.
    fn created(&self, name: &mut ObjectName, is_temporary: bool, what: &str) -> Result<bool> {
        // In one word, as programs write it that quote names as a whole.
        if let [whole] = name.parts.as_slice()
            && let Some((schema, own)) = whole.text.split_once('.')
            && (schema == self.schema_in_sql || schema == self.schema)
        {
            let part = |text: &str| Name { text: text.to_owned(), quoted: true, span: whole.span };
            name.parts = vec![part(schema), part(own)];
        }
        let schema = match name.parts.as_slice() {
            [.., schema, _] => Some(schema.text.as_str()),
            _ => None,
        };
        let own = match schema {
            Some(schema) => self.own_schema(schema)?,
            None => is_temporary,
        };
        if own {
            self.put_in_own_schema(name);
        } else if is_temporary {
            let schema = schema.unwrap_or_default();
            return Err(Error::invalid(format!("a temporary {what} cannot be in schema {schema}"))
                .with_hint("leave out the schema: temporary tables have one of their own"));
        }
        Ok(own)
    }

    /// Resolves names, and returns whether all of them are those of something temporary.
    fn objects(&self, names: &mut [ObjectName]) -> Result<bool> {
        let mut all = !names.is_empty();
        for name in names {
            all &= self.object(name)?;
        }
        Ok(all)
    }

    /// Resolves a name, and returns whether it is that of something temporary.
    fn object(&self, name: &mut ObjectName) -> Result<bool> {
        let is_temporary = match name.parts.as_slice() {
            [only] => self.text(&mut only.text.clone())?,
            [schema, _] => self.own_schema(&schema.text)?,
            [catalog, schema, _] => catalog.text == CATALOG && self.own_schema(&schema.text)?,
            _ => false,
        };
        if is_temporary {
            self.put_in_own_schema(name);
        }
        Ok(is_temporary)
    }

    /// The name within the schema of the session.
    fn put_in_own_schema(&self, name: &mut ObjectName) {
        let Some(mut own) = name.parts.pop() else { return };
        // Names of the catalog in one word have the schema in them.
        if let Some((schema, rest)) = own.text.split_once('.')
            && name.parts.is_empty()
            && self.own_schema(schema).unwrap_or(false)
        {
            own.text = rest.to_owned();
        }
        let schema = Name { text: self.schema.to_owned(), quoted: true, span: own.span };
        name.parts = vec![schema, own];
    }
}

fn of_objects(is_temporary: bool) -> WriteTarget {
    if is_temporary { WriteTarget::TemporaryObjects } else { WriteTarget::Database }
}

/// The functions whose first argument names a sequence.
const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

/// The text in a call that names a sequence, once to read and once to change it.
macro_rules! name_of_sequence {
    ($name:ident, $first:ident $(, $mut:tt)?) => {
        fn $name(expression: &$($mut)? Expr) -> Option<&$($mut)? String> {
            let ExprKind::Call(call) = &$($mut)? expression.kind else { return None };
            if !OF_SEQUENCES.contains(&call.name.parts.last()?.text.to_lowercase().as_str()) {
                return None;
            }
            let argument = call.arguments.$first().filter(|argument| argument.name.is_none())?;
            let kind = match &$($mut)? argument.value.kind {
                ExprKind::Cast { operand, .. } => &$($mut)? operand.kind,
                kind => kind,
            };
            match kind {
                ExprKind::Literal(Literal::Text(text)) => Some(text),
                _ => None,
            }
        }
    };
}

name_of_sequence!(name_of_sequence, first);
name_of_sequence!(name_of_sequence_mut, first_mut, mut);
