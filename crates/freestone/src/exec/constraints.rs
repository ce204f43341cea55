//! The constraints and defaults that CREATE TABLE and ALTER TABLE declare.

use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast;
use freestone_store::schema::{CheckConstraint, ForeignKey, Identity, TableSchema, UniqueKey, usual_constraint_name};
use freestone_store::{Snapshot, is_comparable};

use crate::error::{Error, Result};
use crate::exec::row_checks;
use crate::exec::sequences::{self, Generated};
use crate::internal_names::is_temporary;
use crate::sql::names::{identifier, object_name};
use crate::sql::text_types::TextType;
use crate::sql::types::text_of;
use crate::text_types;

/// Constraints as they are declared, with the columns as the statement names them.
#[derive(Default)]
pub(crate) struct Constraints {
    primary: Option<Key>,
    unique: Vec<Key>,
    /// With what the statement says of their enforcement.
    foreign: Vec<(ForeignKey, Option<bool>)>,
    /// Names and conditions.
    checks: Vec<(Option<String>, ast::Expr)>,
    /// Columns and their defaults.
    defaults: Vec<(String, String)>,
    /// Columns with values from a sequence.
    generated: Vec<Generated>,
}

/// A PRIMARY KEY or UNIQUE.
struct Key {
    name: Option<String>,
    columns: Vec<String>,
    is_enforced: bool,
}

impl Constraints {
    /// Takes the constraints out of the statement, which DataFusion would refuse, and refuses what is not available.
    pub fn take(create: &mut ast::CreateTable) -> Result<Constraints> {
        let mut found = Constraints::default();
        for constraint in std::mem::take(&mut create.constraints) {
            found.add(constraint)?;
        }
        for column in &mut create.columns {
            found.take_from(column)?;
        }
        Ok(found)
    }

    /// Adds a constraint of a table.
    ///
    /// # Errors
    /// Its kind is not available, or it is a second PRIMARY KEY.
    pub fn add(&mut self, constraint: ast::TableConstraint) -> Result<()> {
        match constraint {
            ast::TableConstraint::PrimaryKey(key) => {
                let columns = index_columns(&key.columns)?;
                self.set_primary(Key::new(key.name, columns, key.characteristics.as_ref()))
            }
            ast::TableConstraint::Unique(key) => {
                let columns = index_columns(&key.columns)?;
                self.add_unique(Key::new(key.name, columns, key.characteristics.as_ref()))
            }
            ast::TableConstraint::ForeignKey(key) => {
                self.foreign.push(foreign_key(key, None)?);
                Ok(())
            }
            ast::TableConstraint::Check(check) => self.add_check(check.name.clone(), &check),
            other => Err(no_constraint(&other.to_string())),
        }
    }

    /// Adds the CHECKs of the columns of a query's result that are of an ENUM or of texts in a normal form.
    pub fn add_text_types(&mut self, fields: &Schema) -> Result<()> {
        for field in fields.fields() {
            let labels = text_types::labels_of(field).map(TextType::Enum);
            if let Some(kind) = labels.or_else(|| text_types::normal_of(field).map(TextType::Normal)) {
                self.checks.push((None, kind.check(field.name())));
            }
        }
        Ok(())
    }

    /// Adds a UNIQUE with a name.
    pub fn add_named_unique(&mut self, name: &str, columns: Vec<String>) -> Result<()> {
        self.add_unique(Key { name: Some(name.to_owned()), columns, is_enforced: true })
    }

    /// Takes the constraints and the default of one column.
    pub fn take_from(&mut self, column: &mut ast::ColumnDef) -> Result<()> {
        let name = identifier(&column.name);
        self.generated.extend(sequences::take_serial(column));
        let mut kept = Vec::with_capacity(column.options.len());
        for option in std::mem::take(&mut column.options) {
            let of_column = |own: Option<ast::Ident>, characteristics: Option<&ast::ConstraintCharacteristics>| {
                Key::new(option.name.clone().or(own), vec![name.clone()], characteristics)
            };
            match &option.option {
                ast::ColumnOption::PrimaryKey(key) => {
                    self.set_primary(of_column(key.name.clone(), key.characteristics.as_ref()))?;
                }
                ast::ColumnOption::Unique(key) => {
                    self.add_unique(of_column(key.name.clone(), key.characteristics.as_ref()))?;
                }
                ast::ColumnOption::ForeignKey(key) => {
                    let (mut key, wanted) = foreign_key(key.clone(), Some(&name))?;
                    key.name = option.name.as_ref().map_or(key.name, identifier);
                    self.foreign.push((key, wanted));
                }
                ast::ColumnOption::Generated {
                    generated_as: how @ (ast::GeneratedAs::Always | ast::GeneratedAs::ByDefault),
                    sequence_options,
                    generation_expr: None,
                    ..
                } => {
                    let always = matches!(how, ast::GeneratedAs::Always);
                    let identity = Some(if always { Identity::Always } else { Identity::ByDefault });
                    let options = sequence_options.clone().unwrap_or_default();
                    self.generated.push(Generated { column: name.clone(), identity, options });
                }
                ast::ColumnOption::Default(value) => self.defaults.push((name.clone(), text_of(value))),
                ast::ColumnOption::Check(check) => {
                    self.add_check(option.name.clone().or(check.name.clone()), check)?;
                }
                ast::ColumnOption::Null | ast::ColumnOption::NotNull => kept.push(option),
                other => return Err(no_constraint(&other.to_string())),
            }
        }
        column.options = kept;
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

    /// Adds the constraints to the schema of a table.
    ///
    /// # Errors
    /// A constraint names a column that the table does not have, two have the same name, or it is a second PRIMARY KEY.
    pub fn apply(self, table: &str, mut schema: TableSchema, base: &Snapshot) -> Result<TableSchema> {
        let usual = |columns: &[String], suffix: &str| usual_constraint_name(table, columns, suffix);
        for (name, sql) in self.defaults {
            schema.set_default(schema.index_of(&name)?, Some(sql));
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
        for (name, condition) in self.checks {
            let columns = row_checks::columns(&condition, &schema);
            let columns = if columns.len() == 1 { columns } else { vec![] };
            let name = name.unwrap_or_else(|| schema.free_constraint_name(table, &usual(&columns, "check")));
            schema.checks.push(CheckConstraint { name, condition: text_of(&condition) });
        }
        Ok(schema.validated()?)
    }

    fn set_primary(&mut self, key: Key) -> Result<()> {
        if self.primary.replace(key).is_some() {
            return Err(second_primary_key());
        }
        Ok(())
    }

    fn add_check(&mut self, name: Option<ast::Ident>, check: &ast::CheckConstraint) -> Result<()> {
        if check.enforced == Some(false) {
            return Err(Error::unsupported("CHECK NOT ENFORCED is not available").with_hint("leave it out"));
        }
        row_checks::refuse_subqueries(&check.expr)?;
        self.checks.push((name.as_ref().map(identifier), check.expr.as_ref().clone()));
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
    fn new(
        name: Option<ast::Ident>,
        columns: Vec<String>,
        characteristics: Option<&ast::ConstraintCharacteristics>,
    ) -> Key {
        let is_enforced = characteristics.and_then(|characteristics| characteristics.enforced).unwrap_or(true);
        Key { name: name.as_ref().map(identifier), columns, is_enforced }
    }
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

fn no_constraint(what: &str) -> Error {
    Error::unsupported(format!("{what} is not available in this version")).with_hint(
        "there are NOT NULL, DEFAULT, GENERATED AS IDENTITY, PRIMARY KEY, UNIQUE, CHECK, and REFERENCES or FOREIGN KEY",
    )
}

fn index_columns(columns: &[ast::IndexColumn]) -> Result<Vec<String>> {
    columns
        .iter()
        .map(|column| match &column.column.expr {
            ast::Expr::Identifier(name) => Ok(identifier(name)),
            other => Err(Error::invalid(format!("a key names columns; {other} is an expression"))),
        })
        .collect()
}

fn foreign_key(key: ast::ForeignKeyConstraint, column: Option<&str>) -> Result<(ForeignKey, Option<bool>)> {
    let columns = match column {
        Some(column) => vec![column.to_owned()],
        None => key.columns.iter().map(identifier).collect(),
    };
    let referenced: Vec<String> = key.referred_columns.iter().map(identifier).collect();
    if !referenced.is_empty() && referenced.len() != columns.len() {
        return Err(Error::invalid(format!(
            "FOREIGN KEY names {} columns and references {}",
            columns.len(),
            referenced.len()
        )));
    }
    let wanted = key.characteristics.and_then(|characteristics| characteristics.enforced);
    let name = key.name.as_ref().map(identifier).unwrap_or_default();
    Ok((ForeignKey { name, columns, table: object_name(&key.foreign_table)?, referenced, enforced: false }, wanted))
}
