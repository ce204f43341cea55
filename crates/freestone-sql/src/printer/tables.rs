//! CREATE TABLE and ALTER TABLE as SQL.

use std::fmt::{Display, Formatter, Result};

use super::{Listed, Optional, Separated, commas, when};
use crate::tree::*;

impl Display for CreateTable {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let (replace, temporary) = (when(self.or_replace, "OR REPLACE "), when(self.temporary, "TEMP "));
        let if_not_exists = when(self.if_not_exists, "IF NOT EXISTS ");
        write!(f, "CREATE {replace}{temporary}TABLE {if_not_exists}{}", self.name)?;
        write!(f, "{}{}", Listed(" ", &self.elements), Listed(" WITH ", &self.options))?;
        f.write_str(match self.on_commit {
            None => "",
            Some(OnCommit::Drop) => " ON COMMIT DROP",
            Some(OnCommit::DeleteRows) => " ON COMMIT DELETE ROWS",
            Some(OnCommit::PreserveRows) => " ON COMMIT PRESERVE ROWS",
        })?;
        write!(f, "{}{}", Optional(" AS ", &self.query), when(self.with_no_data, " WITH NO DATA"))
    }
}

impl Display for TableElement {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            TableElement::Column(column) => column.fmt(f),
            TableElement::Constraint(constraint) => constraint.fmt(f),
            TableElement::Like(other) => write!(f, "LIKE {other}"),
        }
    }
}

impl Display for ColumnDefinition {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{}{}", self.name, Optional(" ", &self.data_type))?;
        self.constraints.iter().try_for_each(|constraint| write!(f, " {constraint}"))
    }
}

/// `CONSTRAINT name` before a constraint.
fn named(f: &mut Formatter, name: &Option<Name>) -> Result {
    name.as_ref().map_or(Ok(()), |name| write!(f, "CONSTRAINT {name} "))
}

/// ENFORCED or NOT ENFORCED behind a constraint.
fn enforced(enforced: Enforced) -> &'static str {
    match enforced {
        None => "",
        Some(true) => " ENFORCED",
        Some(false) => " NOT ENFORCED",
    }
}

impl Display for ColumnConstraint {
    fn fmt(&self, f: &mut Formatter) -> Result {
        use ColumnConstraintKind as Kind;
        named(f, &self.name)?;
        match &self.kind {
            Kind::NotNull => f.write_str("NOT NULL"),
            Kind::Null => f.write_str("NULL"),
            Kind::Default(value) => write!(f, "DEFAULT {value}"),
            Kind::Generated(value) => write!(f, "GENERATED ALWAYS AS ({value})"),
            Kind::Identity(identity) => write!(f, "GENERATED {identity}"),
            Kind::PrimaryKey(is_enforced) => write!(f, "PRIMARY KEY{}", enforced(*is_enforced)),
            Kind::Unique(is_enforced) => write!(f, "UNIQUE{}", enforced(*is_enforced)),
            Kind::Check(condition, is_enforced) => write!(f, "CHECK ({condition}){}", enforced(*is_enforced)),
            Kind::References(references, is_enforced) => write!(f, "{references}{}", enforced(*is_enforced)),
            Kind::Collate(collation) => write!(f, "COLLATE {collation}"),
        }
    }
}

impl Display for Identity {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.write_str(if self.always { "ALWAYS AS IDENTITY" } else { "BY DEFAULT AS IDENTITY" })?;
        match self.options.as_slice() {
            [] => Ok(()),
            options => write!(f, " ({})", Separated(options, " ")),
        }
    }
}

impl Display for References {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "REFERENCES {}{}", self.table, Listed(" ", &self.columns))
    }
}

impl Display for TableConstraint {
    fn fmt(&self, f: &mut Formatter) -> Result {
        use TableConstraintKind as Kind;
        named(f, &self.name)?;
        match &self.kind {
            Kind::PrimaryKey(columns) => write!(f, "PRIMARY KEY ({})", commas(columns))?,
            Kind::Unique(columns) => write!(f, "UNIQUE ({})", commas(columns))?,
            Kind::Check(condition) => write!(f, "CHECK ({condition})")?,
            Kind::ForeignKey(columns, references) => write!(f, "FOREIGN KEY ({}) {references}", commas(columns))?,
        }
        f.write_str(enforced(self.enforced))
    }
}

impl Display for AlterTable {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "ALTER TABLE {}{} {}", when(self.if_exists, "IF EXISTS "), self.table, commas(&self.actions))
    }
}

/// The names of a column and of the fields in it.
struct Path<'a>(&'a [Name]);

impl Display for Path<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        self.0.iter().enumerate().try_for_each(|(at, name)| write!(f, "{}{name}", when(at > 0, ".")))
    }
}

impl Display for AlterAction {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let if_exists = |if_exists: bool| when(if_exists, "IF EXISTS ");
        let cascade = |cascade: bool| when(cascade, " CASCADE");
        match &self.kind {
            AlterKind::AddColumn { if_not_exists, column } => {
                write!(f, "ADD COLUMN {}{column}", when(*if_not_exists, "IF NOT EXISTS "))
            }
            AlterKind::DropColumn { if_exists: is, name, cascade: all } => {
                write!(f, "DROP COLUMN {}{name}{}", if_exists(*is), cascade(*all))
            }
            AlterKind::AddField { if_not_exists, path, data_type } => {
                write!(f, "ADD COLUMN {}{} {data_type}", when(*if_not_exists, "IF NOT EXISTS "), Path(path))
            }
            AlterKind::DropField { if_exists: is, path } => write!(f, "DROP COLUMN {}{}", if_exists(*is), Path(path)),
            AlterKind::RenameField { path, to } => write!(f, "RENAME COLUMN {} TO {to}", Path(path)),
            AlterKind::RenameColumn { name, to } => write!(f, "RENAME COLUMN {name} TO {to}"),
            AlterKind::RenameTable { to } => write!(f, "RENAME TO {to}"),
            AlterKind::SetType { column, data_type, using } => {
                write!(f, "ALTER COLUMN {column} TYPE {data_type}{}", Optional(" USING ", using))
            }
            AlterKind::SetDefault { column, value } => write!(f, "ALTER COLUMN {column} SET DEFAULT {value}"),
            AlterKind::DropDefault { column } => write!(f, "ALTER COLUMN {column} DROP DEFAULT"),
            AlterKind::SetNotNull { column } => write!(f, "ALTER COLUMN {column} SET NOT NULL"),
            AlterKind::DropNotNull { column } => write!(f, "ALTER COLUMN {column} DROP NOT NULL"),
            AlterKind::AddIdentity { column, identity } => write!(f, "ALTER COLUMN {column} ADD GENERATED {identity}"),
            AlterKind::AddConstraint(constraint) => write!(f, "ADD {constraint}"),
            AlterKind::DropConstraint { if_exists: is, name, cascade: all } => {
                write!(f, "DROP CONSTRAINT {}{name}{}", if_exists(*is), cascade(*all))
            }
            AlterKind::RenameConstraint { name, to } => write!(f, "RENAME CONSTRAINT {name} TO {to}"),
            AlterKind::SetDesign(options) => write!(f, "SET DESIGN ({})", commas(options)),
            AlterKind::AddCopy { name, columns, options } => {
                write!(f, "ADD COPY {name}{}{}", Listed(" ", columns), Listed(" WITH ", options))
            }
            AlterKind::DropCopy { if_exists: is, name } => write!(f, "DROP COPY {}{name}", if_exists(*is)),
        }
    }
}
