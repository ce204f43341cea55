//! The constraints and defaults that CREATE TABLE and ALTER TABLE declare.

use datafusion::arrow::datatypes::Schema;
use freestone_sql::tree::{
    ColumnConstraint, ColumnConstraintKind, ColumnDefinition, Enforced, Expr, Name, References, TableConstraint,
    TableConstraintKind,
};
use freestone_store::schema::{CheckConstraint, ForeignKey, Identity, TableSchema, UniqueKey, usual_constraint_name};
use freestone_store::{Snapshot, is_comparable};

use crate::error::{Error, Result};
use crate::exec::row_checks;
use crate::exec::sequences::{self, Generated};
use crate::internal_names::is_temporary;
use crate::sql::names::kept_name;
use crate::sql::text_types::{TextType, of_check};
use crate::text_types;

/// Constraints as they are declared, with the columns as the statement names them.
#[derive(Default)]
pub(crate) struct Constraints {
    primary: Option<Key>,
    unique: Vec<Key>,
    /// With what the statement says of their enforcement.
    foreign: Vec<(ForeignKey, Option<bool>)>,
    checks: Vec<Check>,
    /// Columns that are NOT NULL.
    required: Vec<String>,
    /// Columns and their defaults.
    defaults: Vec<(String, String)>,
    /// Columns and their declared types, and whether those limit the length of values.
    types: Vec<(String, (String, bool))>,
    /// Columns and their collations.
    collations: Vec<(String, String)>,
    /// Columns with values from a sequence.
    generated: Vec<Generated>,
}

/// A PRIMARY KEY or UNIQUE.
struct Key {
    name: Option<String>,
    columns: Vec<String>,
    is_enforced: bool,
}

/// A CHECK.
struct Check {
    name: Option<String>,
    condition: String,
    /// The columns that the condition may name.
    columns: Vec<String>,
}

impl Constraints {
    /// Adds a constraint of a table.
    ///
    /// # Errors
    /// It is a second PRIMARY KEY, or is not available.
    pub fn add(&mut self, constraint: &TableConstraint) -> Result<()> {
        let TableConstraint { name, kind, enforced, .. } = constraint;
        let name = name.as_ref().map(|name| name.text.clone());
        match kind {
            TableConstraintKind::PrimaryKey(columns) => self.set_primary(Key::new(name, texts(columns), *enforced)),
            TableConstraintKind::Unique(columns) => self.add_unique(Key::new(name, texts(columns), *enforced)),
            TableConstraintKind::ForeignKey(columns, references) => {
                self.foreign.push((foreign_key(name, texts(columns), references)?, *enforced));
                Ok(())
            }
            TableConstraintKind::Check(condition) => self.add_check(name, condition, *enforced),
        }
    }

    /// Adds the CHECKs of the columns of a query's result that are of an ENUM, of texts in a normal form, or have a
    /// collation.
    pub fn add_text_types(&mut self, fields: &Schema) {
        for field in fields.fields() {
            let labels = text_types::labels_of(field).map(TextType::Enum);
            let collated = || text_types::collation_of(field).map(|name| TextType::Collated(name.to_owned()));
            let normal = || text_types::normal_of(field).map(TextType::Normal);
            if let Some(kind) = labels.or_else(normal).or_else(collated) {
                self.add_text_type(field.name(), &kind);
            }
        }
    }

    /// Adds the CHECK of a column of texts of which only some are allowed.
    pub fn add_text_type(&mut self, column: &str, kind: &TextType) {
        let (condition, columns) = (kind.check(column), vec![column.to_owned()]);
        self.checks.push(Check { name: None, condition, columns });
    }

    /// Adds the declared type of a column, and whether it limits the length of values.
    pub fn add_type(&mut self, column: &str, declared: String, is_enforced: bool) {
        self.types.push((column.to_owned(), (declared, is_enforced)));
    }

    /// Adds a UNIQUE with a name.
    pub fn add_named_unique(&mut self, name: &str, columns: Vec<String>) -> Result<()> {
        self.add_unique(Key { name: Some(name.to_owned()), columns, is_enforced: true })
    }

    /// Adds the constraints and the default of one column.
    ///
    /// # Errors
    /// As for [`Constraints::add`].
    pub fn of_column(&mut self, column: &ColumnDefinition) -> Result<()> {
        self.generated.extend(sequences::serial(column));
        column.constraints.iter().try_for_each(|constraint| self.add_to_column(&column.name.text, constraint))
    }

    fn add_to_column(&mut self, column: &str, constraint: &ColumnConstraint) -> Result<()> {
        use ColumnConstraintKind as Kind;
        let name = constraint.name.as_ref().map(|name| name.text.clone());
        let columns = || vec![column.to_owned()];
        match &constraint.kind {
            Kind::NotNull => self.required.push(column.to_owned()),
            Kind::Null => {}
            Kind::Default(value) => self.defaults.push((column.to_owned(), value.to_string())),
            Kind::Identity(identity) => self.generated.push(Generated {
                column: column.to_owned(),
                identity: Some(if identity.always { Identity::Always } else { Identity::ByDefault }),
                options: identity.options.clone(),
            }),
            Kind::PrimaryKey(enforced) => self.set_primary(Key::new(name, columns(), *enforced))?,
            Kind::Unique(enforced) => self.add_unique(Key::new(name, columns(), *enforced))?,
            Kind::Check(condition, enforced) => self.add_check(name, condition, *enforced)?,
            Kind::References(references, enforced) => {
                self.foreign.push((foreign_key(name, columns(), references)?, *enforced));
            }
            Kind::Collate(collation) => {
                let name = freestone_binder::collation_name(collation).ok_or_else(|| {
                    Error::unsupported(format!("collation {collation} is not available"))
                        .with_hint("collations are C, POSIX, BINARY, NOCASE, NOACCENT and NFC, and several such as NOCASE.NOACCENT")
                })?;
                self.collations.push((column.to_owned(), name));
            }
            Kind::Generated(_) => {
                return Err(Error::unsupported(format!("{constraint} is not available in this version")).with_hint(
                    "there are NOT NULL, DEFAULT, GENERATED AS IDENTITY, PRIMARY KEY, UNIQUE, CHECK, and REFERENCES",
                ));
            }
        }
        Ok(())
    }

    /// Adds the CHECKs that stand for the collations of columns.
    fn collate(&mut self, schema: &TableSchema) -> Result<()> {
        for (column, name) in std::mem::take(&mut self.collations) {
            let data_type = &schema.columns.get(schema.index_of(&column)?).map(|column| &column.data_type);
            let kind = TextType::Collated(name.clone());
            let has_type = self.checks.iter().any(|check| check.columns == [column.clone()] && is_of_type(check));
            if !data_type.is_some_and(|data_type| data_type.is_string()) || has_type {
                return Err(Error::invalid(format!("column {column}: only VARCHAR has a collation")));
            }
            if !name.is_empty() {
                self.add_text_type(&column, &kind);
            }
        }
        Ok(())
    }

    /// Takes the columns out whose values come from a sequence.
    pub fn take_generated(&mut self) -> Vec<Generated> {
        std::mem::take(&mut self.generated)
    }

    /// Takes the default out, if there is one.
    pub fn take_default(&mut self) -> Option<String> {
        self.defaults.pop().map(|(_, sql)| sql)
    }

    /// Whether a column is NOT NULL.
    pub fn requires(&self, column: &str) -> bool {
        self.required.iter().any(|name| name == column)
    }

    /// Adds the constraints to the schema of a table.
    ///
    /// # Errors
    /// A constraint names a column that the table does not have, two have the same name, or it is a second PRIMARY KEY.
    pub fn apply(mut self, table: &str, mut schema: TableSchema, base: &Snapshot) -> Result<TableSchema> {
        self.collate(&schema)?;
        let usual = |columns: &[String], suffix: &str| usual_constraint_name(table, columns, suffix);
        for (name, sql) in self.defaults {
            schema.set_default(schema.index_of(&name)?, Some(sql));
        }
        for (name, declared) in self.types {
            schema.declare_type(schema.index_of(&name)?, Some(declared));
        }
        for column in schema.columns.iter_mut().filter(|column| self.required.contains(&column.name)) {
            column.nullable = false;
        }
        if let Some(Key { name, columns, is_enforced }) = self.primary {
            if !schema.primary_key.is_empty() {
                return Err(second_primary_key());
            }
            for column in schema.columns.iter_mut().filter(|column| columns.contains(&column.name)) {
                column.nullable = false;
            }
            if is_enforced {
                let name = name.unwrap_or_else(|| schema.free_constraint_name(table, &usual(&[], "pkey")));
                schema.unique_keys.push(UniqueKey { name, columns: columns.clone() });
            }
            schema.primary_key = columns;
        }
        for Key { name, columns, .. } in self.unique {
            let name = name.unwrap_or_else(|| schema.free_constraint_name(table, &usual(&columns, "key")));
            schema.unique_keys.push(UniqueKey { name, columns });
        }
        for (mut key, wanted) in self.foreign {
            if is_temporary(&key.table) != is_temporary(table) {
                let kind = if is_temporary(table) { "temporary" } else { "permanent" };
                return Err(Error::invalid(format!("a FOREIGN KEY of a {kind} table refers to {kind} tables only")));
            }
            let referenced = match key.table == table {
                true => Some(&schema),
                false => base.table(&key.table).map(|table| &table.schema),
            };
            let found = referenced.and_then(|referenced| enforceable(&key, &schema, referenced));
            match (found, wanted) {
                (Some(columns), None | Some(true)) => (key.referenced, key.enforced) = (columns, true),
                (None, Some(true)) => {
                    let hint = "that needs an enforced PRIMARY KEY or UNIQUE of the same types in the other table";
                    let what = format!("FOREIGN KEY ({}) cannot be ENFORCED", key.columns.join(", "));
                    return Err(Error::invalid(what).with_hint(hint));
                }
                _ => {}
            }
            if key.name.is_empty() {
                key.name = schema.free_constraint_name(table, &usual(&key.columns, "fkey"));
            }
            schema.foreign_keys.push(key);
        }
        add_checks(&mut schema, table, self.checks);
        Ok(schema.validated()?)
    }

    fn set_primary(&mut self, key: Key) -> Result<()> {
        if self.primary.replace(key).is_some() {
            return Err(second_primary_key());
        }
        Ok(())
    }

    fn add_check(&mut self, name: Option<String>, condition: &Expr, enforced: Enforced) -> Result<()> {
        if enforced == Some(false) {
            return Err(Error::unsupported("CHECK NOT ENFORCED is not available").with_hint("leave it out"));
        }
        row_checks::refuse_subqueries(condition)?;
        self.checks.push(Check { name, condition: condition.to_string(), columns: row_checks::named(condition) });
        Ok(())
    }

    fn add_unique(&mut self, key: Key) -> Result<()> {
        if !key.is_enforced {
            return Err(Error::unsupported("UNIQUE NOT ENFORCED is not available")
                .with_hint("a PRIMARY KEY can be NOT ENFORCED: then it is a promise to the planner"));
        }
        self.unique.push(key);
        Ok(())
    }
}

impl Key {
    fn new(name: Option<String>, columns: Vec<String>, enforced: Enforced) -> Key {
        Key { name, columns, is_enforced: enforced.unwrap_or(true) }
    }
}

fn texts(names: &[Name]) -> Vec<String> {
    names.iter().map(|name| name.text.clone()).collect()
}

/// The columns to which a foreign key refers, if it can be enforced: they are an enforced key, and of the same types.
fn enforceable(key: &ForeignKey, own: &TableSchema, other: &TableSchema) -> Option<Vec<String>> {
    let referenced = if key.referenced.is_empty() { &other.primary_key } else { &key.referenced };
    other.enforced_key(referenced)?;
    let data_type =
        |schema: &TableSchema, name: &String| Some(schema.columns[schema.index_of(name).ok()?].data_type.clone());
    let is_alike = |(from, to): (&String, &String)| {
        data_type(own, from).zip(data_type(other, to)).is_some_and(|(from, to)| is_comparable(&from, &to))
    };
    let is_whole = key.columns.len() == referenced.len() && key.columns.iter().zip(referenced).all(is_alike);
    is_whole.then(|| referenced.clone())
}

fn second_primary_key() -> Error {
    Error::invalid("a table has one PRIMARY KEY only")
}

/// Adds CHECKs to the schema of a table. One over a single column has the name of that column in its own.
fn add_checks(schema: &mut TableSchema, table: &str, checks: Vec<Check>) {
    for Check { name, condition, columns } in checks {
        let all = schema.columns.iter().map(|column| &column.name);
        let mut columns: Vec<String> = all.filter(|name| columns.contains(name)).cloned().collect();
        if columns.len() > 1 {
            columns.clear();
        }
        let usual = || schema.free_constraint_name(table, &usual_constraint_name(table, &columns, "check"));
        let name = name.unwrap_or_else(usual);
        schema.checks.push(CheckConstraint { name, condition });
    }
}

/// Whether a CHECK stands for the type of a column.
fn is_of_type(check: &Check) -> bool {
    let check = CheckConstraint { name: String::new(), condition: check.condition.clone() };
    of_check(&check).is_some()
}

fn foreign_key(name: Option<String>, columns: Vec<String>, references: &References) -> Result<ForeignKey> {
    let referenced = texts(&references.columns);
    if !referenced.is_empty() && referenced.len() != columns.len() {
        return Err(Error::invalid(format!(
            "FOREIGN KEY names {} columns and references {}",
            columns.len(),
            referenced.len()
        )));
    }
    let (name, table) = (name.unwrap_or_default(), kept_name(&references.table)?);
    Ok(ForeignKey { name, columns, table, referenced, enforced: false })
}
