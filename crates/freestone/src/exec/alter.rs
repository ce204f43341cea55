//! ALTER TABLE: columns, their types, defaults and NOT NULL, constraints, and names.
//!
//! A change that something else needs as it is, is refused: keys, indexes, copies and clusterings by what they name, views that
//! read the table by planning them before and after. They follow a new name of the table.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use freestone_sql::tree::{
    AlterAction, AlterKind, AlterTable, ColumnDefinition, Expr, Identity as DeclaredIdentity, Name, RenameView, Type,
};
use freestone_store::schema::{Column, ConstraintKind, Identity, StoredValue, TableSchema, widens_in_place};
use freestone_store::{
    ColumnUse, LockMode, Object, ObjectKind as Kind, Snapshot, StoreError, WriteTransaction, is_comparable,
};

use crate::catalog::{Scope, TARGET};
use crate::context::Outcome;
use crate::definitions::{self, GeneratedColumn};
use crate::dependencies;
use crate::display::texts_of;
use crate::error::{Error, ErrorKind, Result};
use crate::exact::integer_digits;
use crate::exec::constraints::Constraints;
use crate::exec::sequences::{self, Generated};
use crate::exec::struct_fields::{self, FieldChange};
use crate::exec::view_columns::Views;
use crate::exec::write::WriteContext;
use crate::exec::{column_types, ddl, defaults, dml, dropping, generated_columns, materialized, renames, row_checks};
use crate::ingest::stored_cell;
use crate::inputs::ArrowTable;
use crate::planning;
use crate::sql::names::{kept_name, name_in};
use crate::sql::option_lists::list_of;
use crate::sql::statement::quote;
use crate::sql::text_types::{self, TextType};
use crate::text_types::declared;

const VERB: &str = "ALTER TABLE";

/// `ALTER TABLE [IF EXISTS] table action, …`. `text` is that of the statement.
pub(crate) fn alter_table(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    alter: &AlterTable,
    text: &str,
) -> Result<Outcome> {
    let mut name = kept_name(&alter.table)?;
    if alter.if_exists && !exists(transaction, &name)? {
        return Ok(Outcome::Done { verb: VERB });
    }
    if transaction.snapshot().view(&name).is_some()
        && let [action] = alter.actions.as_slice()
        && let AlterKind::RenameTable { to } = &action.kind
    {
        return rename_view(transaction, context, &name, to);
    }
    let found = dml::find(transaction, &name, LockMode::Exclusive)?;
    materialized::check_alteration(&transaction.snapshot(), &found, &alter.actions)?;
    let may_break_views = !alter.actions.iter().all(|action| keeps_columns(&action.kind));
    let views = if may_break_views { Views::on(context, &transaction.snapshot(), found.id)? } else { Views::default() };
    for action in &alter.actions {
        Alteration { transaction: &mut *transaction, context, table: &mut name, views: &views, text }
            .apply(&action.kind)?;
    }
    record_uses(transaction, context, &name)?;
    let snapshot = transaction.snapshot();
    let own_name = definitions::schema_of(&snapshot, &name).map_or(name.as_str(), |(_, own)| own);
    views.check(context, &snapshot, &found.name, (found.name != name).then_some(own_name))?;
    Ok(Outcome::Done { verb: VERB })
}

/// Records on which objects the expressions of a table depend. The types of its columns were recorded when they were declared.
fn record_uses(transaction: &mut WriteTransaction, context: &WriteContext, table: &str) -> Result<()> {
    let (found, snapshot) = (transaction.table(table)?, transaction.snapshot());
    let mut uses = dependencies::of_table(&snapshot, &found)?;
    let types =
        found.uses.iter().filter_map(|id| snapshot.object_by_id(*id)).filter(|known| known.kind() == Kind::Type);
    uses.extend(types.filter(|known| may_have(context, &snapshot, &found.schema, known)).map(|known| known.id));
    dependencies::check_lasting(&snapshot, table, &uses)?;
    Ok(transaction.set_uses(table, uses)?)
}

/// Whether a column may be of a named type: its values are stored as those of the type, or have parts that are.
fn may_have(context: &WriteContext, snapshot: &Arc<Snapshot>, schema: &TableSchema, named: &Object) -> bool {
    let text = definitions::text_of_type(named).unwrap_or_default();
    let Ok(written) = freestone_sql::parse_type(text) else { return true };
    let known = context.planner().types(&Scope::new(snapshot.clone()), &[&written], text);
    let Some(known) = known.ok().and_then(|known| known.into_iter().next()) else { return true };
    if let Some(kind) = TextType::of(&known) {
        return schema.checks.iter().filter_map(text_types::of_check).any(|(_, own)| own == kind);
    }
    let stored = column_types::stored(&named.name, &written, &known);
    stored.map_or(true, |stored| schema.columns.iter().any(|column| has_type(&column.data_type, &stored)))
}

/// Whether a type is another, or has it as a part.
fn has_type(whole: &DataType, part: &DataType) -> bool {
    use DataType::*;
    whole == part
        || match whole {
            List(item) | FixedSizeList(item, _) | Map(item, _) => has_type(item.data_type(), part),
            Struct(fields) => fields.iter().any(|field| has_type(field.data_type(), part)),
            _ => false,
        }
}

/// Whether there is a table or view, which is locked.
fn exists(transaction: &mut WriteTransaction, name: &str) -> Result<bool> {
    transaction.lock(name, LockMode::Exclusive)?;
    Ok(transaction.snapshot().relation_id(name).is_some())
}

/// `ALTER VIEW [IF EXISTS] view RENAME TO new`.
pub(crate) fn alter_view(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    rename: &RenameView,
) -> Result<Outcome> {
    let name = kept_name(&rename.name)?;
    if rename.if_exists && !exists(transaction, &name)? {
        return Ok(Outcome::Done { verb: VERB });
    }
    if rename.materialized {
        materialized::require(&transaction.snapshot(), &name)?;
        let kind = AlterKind::RenameTable { to: rename.to.clone() };
        let actions = vec![AlterAction { kind, span: rename.name.span }];
        return alter_table(
            transaction,
            context,
            &AlterTable { if_exists: false, table: rename.name.clone(), actions },
            "",
        );
    }
    if transaction.snapshot().table(&name).is_some() {
        return Err(Error::invalid(format!("{name} is a table")).with_hint(format!("ALTER TABLE {name} RENAME TO …")));
    }
    rename_view(transaction, context, &name, &rename.to)
}

fn rename_view(transaction: &mut WriteTransaction, context: &WriteContext, name: &str, to: &Name) -> Result<Outcome> {
    let new = in_same_schema(&transaction.snapshot(), name, &to.text)?;
    transaction.lock_name(name)?;
    transaction.lock_name(&new)?;
    let base = transaction.snapshot();
    let Some(view) = base.view(name) else { return Err(definitions::missing(Kind::View, name, &base)) };
    crate::sequences::check_free(&base, &new)?;
    let others = Views::on(context, &base, view.id)?;
    renames::follow(transaction, view.id, name, &to.text)?;
    transaction.change_object(view.id, |view| view.name.clone_from(&new))?;
    others.check(context, &transaction.snapshot(), name, Some(&to.text))?;
    Ok(Outcome::Done { verb: VERB })
}

/// A new name in the schema of an object.
fn in_same_schema(snapshot: &Snapshot, object: &str, new: &str) -> Result<String> {
    match definitions::schema_of(snapshot, object) {
        Some((schema, _)) => Ok(name_in(schema, new)),
        None => {
            definitions::check_unambiguous(snapshot, new)?;
            Ok(new.to_owned())
        }
    }
}

/// Adds a UNIQUE constraint with a name to a table.
pub(crate) fn add_unique(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    table: &str,
    name: &str,
    columns: Vec<String>,
) -> Result<()> {
    let mut constraints = Constraints::default();
    constraints.add_named_unique(name, columns)?;
    on_table(transaction, context, table, |alteration| alteration.constrain(constraints))
}

/// Removes a constraint of a table.
pub(crate) fn drop_constraint(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    table: &str,
    name: &str,
) -> Result<()> {
    on_table(transaction, context, table, |alteration| alteration.drop_constraint(name, false))
}

fn on_table(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    table: &str,
    change: impl FnOnce(&mut Alteration) -> Result<()>,
) -> Result<()> {
    let found = dml::find(transaction, table, LockMode::Exclusive)?;
    let (mut name, views) = (found.name.clone(), Views::default());
    change(&mut Alteration { transaction, context, table: &mut name, views: &views, text: "" })
}

/// Whether the columns that there are keep their names and types.
fn keeps_columns(action: &AlterKind) -> bool {
    match action {
        AlterKind::DropColumn { .. }
        | AlterKind::RenameColumn { .. }
        | AlterKind::AddField { .. }
        | AlterKind::DropField { .. }
        | AlterKind::RenameField { .. }
        | AlterKind::RenameTable { .. }
        | AlterKind::SetType { .. } => false,
        AlterKind::AddColumn { .. }
        | AlterKind::SetDefault { .. }
        | AlterKind::DropDefault { .. }
        | AlterKind::SetNotNull { .. }
        | AlterKind::DropNotNull { .. }
        | AlterKind::AddIdentity { .. }
        | AlterKind::AddConstraint(_)
        | AlterKind::DropConstraint { .. }
        | AlterKind::RenameConstraint { .. }
        | AlterKind::SetDesign(_)
        | AlterKind::AddCopy { .. }
        | AlterKind::DropCopy { .. } => true,
    }
}

/// One action of the statement.
struct Alteration<'a> {
    transaction: &'a mut WriteTransaction,
    context: &'a WriteContext,
    /// The name of the table, which the action may change.
    table: &'a mut String,
    views: &'a Views,
    /// The text of the statement.
    text: &'a str,
}

impl Alteration<'_> {
    fn apply(mut self, action: &AlterKind) -> Result<()> {
        match action {
            AlterKind::AddColumn { if_not_exists, column } => self.add(column, *if_not_exists),
            AlterKind::DropColumn { if_exists, name, cascade } => self.drop(&name.text, *if_exists, *cascade),
            AlterKind::RenameColumn { name, to } => self.rename(&name.text, &to.text),
            AlterKind::AddField { if_not_exists, path, data_type } => {
                let scope = Scope::new(self.transaction.snapshot());
                let data_type = column_types::changed(self.context, &scope, ("the field", data_type), self.text)?;
                self.change_field(path, &FieldChange::Add { data_type, if_not_exists: *if_not_exists })
            }
            AlterKind::DropField { if_exists, path } => {
                self.change_field(path, &FieldChange::Drop { if_exists: *if_exists })
            }
            AlterKind::RenameField { path, to } => self.change_field(path, &FieldChange::Rename(&to.text)),
            AlterKind::RenameTable { to } => self.rename_table(&to.text),
            AlterKind::SetType { column, data_type, using } => self.set_type(&column.text, data_type, using.as_deref()),
            AlterKind::SetDefault { column, value } => self.set_default(&column.text, value),
            AlterKind::DropDefault { column } => self.drop_default(&column.text),
            AlterKind::SetNotNull { column } => {
                let at = self.position(&self.schema()?, &column.text)?;
                self.set_not_null(at, &column.text)
            }
            AlterKind::DropNotNull { column } => self.drop_not_null(&column.text),
            AlterKind::AddIdentity { column, identity } => self.add_identity(&column.text, identity),
            AlterKind::AddConstraint(constraint) => {
                let mut constraints = Constraints::default();
                constraints.add(constraint)?;
                self.constrain(constraints)
            }
            AlterKind::DropConstraint { if_exists, name, cascade: _ } => self.drop_constraint(&name.text, *if_exists),
            AlterKind::RenameConstraint { name, to } => self.rename_constraint(&name.text, &to.text),
            AlterKind::SetDesign(options) => {
                ddl::set_design(self.transaction, self.context, self.table, &list_of(options, self.text))
            }
            AlterKind::AddCopy { name, columns, options } => {
                let options = &list_of(options, self.text);
                ddl::add_copy(self.transaction, self.context, (self.table, &name.text), columns, options)
            }
            AlterKind::DropCopy { if_exists, name } => {
                ddl::drop_copy(self.transaction, self.table, &name.text, *if_exists)
            }
        }
    }

    fn schema(&self) -> Result<TableSchema> {
        Ok(self.transaction.table(self.table)?.schema.clone())
    }

    fn generated(&mut self) -> Vec<GeneratedColumn> {
        definitions::generated(&self.transaction.snapshot(), self.table).to_vec()
    }

    /// The comment of a column follows its new name, or goes with it.
    fn comment_column(&mut self, column: &str, new: Option<&str>) -> Result<()> {
        let mut comments = definitions::comments(&self.transaction.snapshot(), self.table);
        let Some(text) = comments.columns.remove(column) else { return Ok(()) };
        if let Some(new) = new {
            comments.columns.insert(new.to_owned(), text);
        }
        definitions::set_comments(self.transaction, self.table, comments)
    }

    /// Records the types that the type of a column names.
    fn use_types(&mut self, data_type: Option<&Type>) -> Result<()> {
        let Some(data_type) = data_type else { return Ok(()) };
        let mut uses = dependencies::of_type(&self.transaction.snapshot(), data_type);
        uses.extend(&self.transaction.table(self.table)?.uses);
        Ok(self.transaction.set_uses(self.table, uses)?)
    }

    /// Refuses a name that a column of the table has.
    fn check_free(&mut self, schema: &TableSchema, name: &str) -> Result<()> {
        schema.check_free(name)?;
        match self.generated().iter().any(|column| column.name == name) {
            true => Err(Error::new(ErrorKind::Exists, format!("table {} has a generated column {name}", self.table))),
            false => Ok(()),
        }
    }

    /// The position of a column.
    fn position(&self, schema: &TableSchema, column: &str) -> Result<usize> {
        let found = schema.columns.iter().position(|known| known.name == column);
        let names = schema.columns.iter().map(|known| known.name.as_str());
        found.ok_or_else(|| Error::not_found("column", column, names))
    }

    fn add(&mut self, definition: &ColumnDefinition, if_not_exists: bool) -> Result<()> {
        let (name, schema) = (definition.name.text.clone(), self.schema()?);
        if if_not_exists && schema.columns.iter().any(|column| column.name == name) {
            return Ok(());
        }
        self.check_free(&schema, &name)?;
        let mut constraints = Constraints::default();
        constraints.of_column(definition)?;
        let generated = constraints.take_generated();
        let default = constraints.take_default();
        let nullable = !constraints.requires(&name);
        let scope = Scope::new(self.transaction.snapshot());
        let declared: Vec<(&str, &Type)> =
            definition.data_type.iter().map(|data_type| (name.as_str(), data_type)).collect();
        let fields = column_types::declared(self.context, &scope, &declared, self.text, &mut constraints)?;
        self.use_types(definition.data_type.as_ref())?;
        let columns = TableSchema::from_arrow(&Schema::new(fields))?.columns;
        let untyped = || Error::invalid(format!("column {name} has no type"));
        let data_type = columns.into_iter().next().ok_or_else(untyped)?.data_type;
        let value = match &default {
            Some(sql) => {
                let scope = Scope::new(self.transaction.snapshot());
                defaults::check(self.context, &scope, &name, &data_type, sql)?
            }
            None if generated.is_empty() => Some(StoredValue::Null),
            None => None,
        };
        // The fields of a struct are columns of their own, with values of their own.
        let is_struct = matches!(data_type, DataType::Struct(_));
        let value = value.filter(|value| *value == StoredValue::Null || !is_struct);
        let Some(value) = value else {
            self.add_computed(Column { name, data_type, nullable }, default, generated)?;
            return self.constrain(constraints);
        };
        if !nullable && value == StoredValue::Null && self.transaction.table(self.table)?.rows() > 0 {
            let table = &self.table;
            let message = format!("column {name} is NOT NULL, and the rows of table {table} would have NULL in it");
            return Err(Error::new(ErrorKind::Constraint, message).with_hint("give it a DEFAULT"));
        }
        self.transaction.add_column(self.table, Column { name, data_type, nullable }, value, default)?;
        self.constrain(constraints)
    }

    /// Adds a column of which each row has another value: rows that exist get theirs by an UPDATE.
    fn add_computed(&mut self, column: Column, default: Option<String>, generated: Vec<Generated>) -> Result<()> {
        let name = column.name.clone();
        let added = Column { nullable: true, ..column.clone() };
        self.transaction.add_column(self.table, added, StoredValue::Null, default)?;
        let mut changed = self.schema()?;
        let at = self.position(&changed, &name)?;
        if !generated.is_empty() {
            sequences::generate(self.transaction, self.table, &mut changed, generated)?;
            changed.columns[at].nullable = true;
            let with_default = changed.clone();
            self.transaction.change_schema(self.table, |schema| *schema = with_default)?;
            crate::sequences::own(self.transaction, self.table)?;
        }
        let is_required = !column.nullable || changed.sequence_of(at).is_some();
        let sql = format!("UPDATE {} SET {} = DEFAULT", quote(self.table), quote(&name));
        dml::update_by_text(self.transaction, self.context, &sql)?;
        if is_required {
            self.set_not_null(at, &name)?;
        }
        Ok(())
    }

    /// Adds constraints, which all rows must satisfy at the end of the statement.
    fn constrain(&mut self, constraints: Constraints) -> Result<()> {
        let (old, snapshot) = (self.schema()?, self.transaction.snapshot());
        let schema = constraints.apply(self.table, old.clone(), &snapshot)?;
        if schema == old {
            return Ok(());
        }
        for (at, column) in schema.columns.iter().enumerate() {
            if old.columns[at].nullable && !column.nullable {
                self.check_not_null(&column.name)?;
            }
        }
        row_checks::validate(self.context, &Scope::new(snapshot), &schema)?;
        for key in schema.foreign_keys.iter().filter(|key| key.enforced && !old.foreign_keys.contains(key)) {
            // Nobody drops it meanwhile.
            self.transaction.lock(&key.table, LockMode::Shared)?;
        }
        Ok(self.transaction.change_constraints(self.table, |changed| *changed = schema)?)
    }

    fn drop_constraint(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let mut schema = self.schema()?;
        let all = schema.constraints(self.table);
        let Some(found) = all.iter().find(|constraint| constraint.name == name) else {
            if if_exists {
                return Ok(());
            }
            return Err(Error::not_found("constraint", name, all.iter().map(|constraint| constraint.name.as_str())));
        };
        let key = match found.kind {
            ConstraintKind::Primary(columns, _) | ConstraintKind::Unique(columns) => columns.to_vec(),
            ConstraintKind::Foreign(_) | ConstraintKind::Check(_) => vec![],
        };
        schema.drop_constraint(self.table, name);
        if !key.is_empty()
            && schema.enforced_key(&key).is_none()
            && let Some((other, columns)) = self.transaction.reference_to(self.table, &key)
        {
            let what = format!("FOREIGN KEY ({}) of table {other}", columns.join(", "));
            return Err(Error::invalid(format!("{what} depends on constraint {name} of table {}", self.table))
                .with_hint("drop the FOREIGN KEY first"));
        }
        let was_broken = self.transaction.broken_clustering();
        self.transaction.change_schema(self.table, |changed| *changed = schema)?;
        match self.transaction.broken_clustering().filter(|_| was_broken.is_none()) {
            Some(table) => Err(Error::invalid(format!(
                "the clustering of table {table} depends on constraint {name} of table {}",
                self.table
            ))
            .with_hint("change the design first: ALTER TABLE … SET DESIGN (…)")),
            None => Ok(()),
        }
    }

    fn rename_constraint(&mut self, name: &str, new: &str) -> Result<()> {
        let mut schema = self.schema()?;
        let all = schema.constraints(self.table);
        if all.iter().any(|constraint| constraint.name == new) {
            return Err(Error::new(ErrorKind::Exists, format!("table {} has a constraint {new}", self.table)));
        }
        if !all.iter().any(|constraint| constraint.name == name) {
            return Err(Error::not_found("constraint", name, all.iter().map(|constraint| constraint.name.as_str())));
        }
        if !schema.rename_constraint(self.table, name, new) {
            return Err(Error::unsupported(format!("constraint {name} is not enforced, and has no name of its own")));
        }
        Ok(self.transaction.change_schema(self.table, |changed| *changed = schema)?)
    }

    fn drop(&mut self, column: &str, if_exists: bool, cascade: bool) -> Result<()> {
        let mut schema = self.schema()?;
        if if_exists && !schema.columns.iter().any(|known| known.name == column) {
            return Ok(());
        }
        let mut generated = self.generated();
        if let Some(place) = generated.iter().position(|known| known.name == column) {
            let gone = generated.remove(place);
            for other in &mut generated {
                other.at -= usize::from(other.at > gone.at);
                // It may have been declared with the column that goes.
                other.declared.clone_from(&other.expression);
            }
            self.comment_column(column, None)?;
            return definitions::set_generated(self.transaction, self.table, generated);
        }
        let at = self.position(&schema, column)?;
        for other in &generated {
            if generated_columns::uses(other, column)? {
                return Err(needed(self.table, column, &format!("generated column {}", other.name)));
            }
        }
        let all = definitions::all_columns(schema.columns.len(), &generated);
        let place = all.take_while(|known| *known != Ok(at)).count();
        generated.iter_mut().for_each(|other| other.at -= usize::from(other.at > place));
        let uses = self.transaction.column_uses(self.table, column)?;
        let is_of_type = |check: &freestone_store::schema::CheckConstraint| {
            text_types::of_check(check).is_some_and(|(name, _)| name == column)
        };
        if schema.checks.iter().any(is_of_type) {
            let checks: Vec<_> = schema.checks.iter().filter(|check| !is_of_type(check)).cloned().collect();
            schema.checks.clone_from(&checks);
            self.transaction.change_schema(self.table, |schema| schema.checks = checks)?;
        }
        let check = row_checks::naming(&schema, column)?.map(|check| format!("CHECK {}", check.name));
        let view = self.views.naming(column);
        if let Some(what) = uses.into_iter().map(|(_, what)| what).next().or(check).or(view) {
            if cascade {
                return Err(Error::unsupported(format!("CASCADE: {what} depends on column {column}"))
                    .with_hint("drop or change it first, and leave out CASCADE"));
            }
            return Err(needed(self.table, column, &what));
        }
        let owned = schema.sequence_of(at).map(str::to_owned);
        self.comment_column(column, None)?;
        definitions::set_generated(self.transaction, self.table, generated)?;
        self.transaction.drop_column(self.table, column)?;
        self.drop_sequence(owned)
    }

    fn rename(&mut self, column: &str, new: &str) -> Result<()> {
        let schema = self.schema()?;
        self.check_free(&schema, new)?;
        let mut generated = self.generated();
        let is_generated = generated.iter().any(|known| known.name == column);
        if !is_generated {
            self.position(&schema, column)?;
        }
        generated.iter_mut().try_for_each(|other| generated_columns::renamed(other, column, new))?;
        self.comment_column(column, Some(new))?;
        definitions::set_generated(self.transaction, self.table, generated)?;
        if is_generated {
            return Ok(());
        }
        self.refuse_uses(column, &[ColumnUse::OtherCluster])?;
        if let Some(view) = self.views.naming(column) {
            return Err(needed(self.table, column, &view));
        }
        self.transaction.rename_column(self.table, column, new)?;
        let mut checks = schema.checks;
        for check in &mut checks {
            check.condition = row_checks::renamed(&check.condition, column, new)?;
        }
        if !checks.is_empty() {
            self.transaction.change_schema(self.table, |schema| schema.checks = checks)?;
            row_checks::validate(self.context, &Scope::new(self.transaction.snapshot()), &self.schema()?)?;
        }
        Ok(())
    }

    fn rename_table(&mut self, to: &str) -> Result<()> {
        let new = in_same_schema(&self.transaction.snapshot(), self.table, to)?;
        self.transaction.lock_name(&new)?;
        let snapshot = self.transaction.snapshot();
        crate::sequences::check_free(&snapshot, &new)?;
        let id = self.transaction.table(self.table)?.id;
        renames::follow(self.transaction, id, self.table, to)?;
        self.transaction.rename_table(self.table, &new)?;
        *self.table = new;
        Ok(())
    }

    fn drop_not_null(&mut self, column: &str) -> Result<()> {
        let schema = self.schema()?;
        let at = self.position(&schema, column)?;
        if schema.identity_of(at).is_some() {
            return Err(Error::invalid(format!("column {column} is an identity column, which has no NULL")));
        }
        if schema.primary_key.iter().any(|name| name == column) {
            let key = format!("PRIMARY KEY ({})", schema.primary_key.join(", "));
            return Err(Error::invalid(format!("column {column} is in the {key}, which has no NULL")));
        }
        Ok(self.transaction.change_schema(self.table, |schema| schema.columns[at].nullable = true)?)
    }

    fn set_default(&mut self, column: &str, value: &Expr) -> Result<()> {
        let schema = self.schema()?;
        let (at, sql) = (self.position(&schema, column)?, value.to_string());
        let scope = Scope::new(self.transaction.snapshot());
        if schema.sequence_of(at).is_some() {
            return Err(Error::invalid(format!("the values of column {column} come from a sequence"))
                .with_hint("ALTER COLUMN … DROP DEFAULT first, which drops the sequence"));
        }
        defaults::check(self.context, &scope, column, &schema.columns[at].data_type, &sql)?;
        Ok(self.transaction.change_schema(self.table, |schema| schema.set_default(at, Some(sql)))?)
    }

    fn drop_default(&mut self, column: &str) -> Result<()> {
        let schema = self.schema()?;
        let at = self.position(&schema, column)?;
        let owned = schema.sequence_of(at).map(str::to_owned);
        self.transaction.change_schema(self.table, |schema| schema.set_default(at, None))?;
        self.drop_sequence(owned)
    }

    /// The sequence of a column goes with the column, or with its DEFAULT.
    fn drop_sequence(&mut self, name: Option<String>) -> Result<()> {
        let temp = self.context.planner().temp();
        name.map_or(Ok(()), |name| dropping::drop_sequence(self.transaction, temp, &name))
    }

    fn add_identity(&mut self, column: &str, declared: &DeclaredIdentity) -> Result<()> {
        let mut schema = self.schema()?;
        let at = self.position(&schema, column)?;
        if schema.columns[at].nullable {
            return Err(Error::invalid(format!("column {column} must be NOT NULL to be an identity column"))
                .with_hint("ALTER COLUMN … SET NOT NULL first"));
        }
        let identity = if declared.always { Identity::Always } else { Identity::ByDefault };
        let (column, options) = (column.to_owned(), declared.options.clone());
        let generated = vec![Generated { column, identity: Some(identity), options }];
        sequences::generate(self.transaction, &self.table.clone(), &mut schema, generated)?;
        self.transaction.change_schema(self.table, |changed| *changed = schema)?;
        crate::sequences::own(self.transaction, self.table)
    }

    fn set_type(&mut self, column: &str, data_type: &Type, using: Option<&Expr>) -> Result<()> {
        let schema = self.schema()?;
        let at = self.position(&schema, column)?;
        let scope = Scope::new(self.transaction.snapshot());
        let to = column_types::changed(self.context, &scope, (column, data_type), self.text)?;
        self.use_types(Some(data_type))?;
        match using {
            None => self.change_type(column, &schema.columns[at].data_type, to)?,
            Some(value) => {
                let sql = format!("SELECT CAST(({value}) AS {data_type}) FROM {}", quote(TARGET));
                self.compute(column, &schema.columns[at], to, &sql)?;
            }
        }
        self.declare_type(column, data_type)
    }

    /// Notes the declared type of a column, whose texts must not be longer than it allows.
    fn declare_type(&mut self, column: &str, data_type: &Type) -> Result<()> {
        let schema = self.schema()?;
        let at = self.position(&schema, column)?;
        let declared = column_types::kept(self.context, data_type);
        let is_enforced = declared.as_ref().is_some_and(|(_, is_enforced)| *is_enforced);
        if let Some(length) = declared::length(data_type).filter(|_| is_enforced) {
            let scope = Scope::new(self.transaction.snapshot()).with_target_rows(self.table);
            let name = quote(column);
            let sql = format!("SELECT {name} FROM {} WHERE length({name}) > {length} LIMIT 1", quote(TARGET));
            let (state, plan) = self.context.plan_text(&scope, &sql)?;
            for batch in self.context.run(&state, &plan)? {
                let texts = texts_of(batch?.column(0))?;
                if let Some(text) = texts.iter().flatten().next() {
                    return Err(declared::too_long(column, text, length));
                }
            }
        }
        Ok(self.transaction.change_schema(self.table, |schema| schema.declare_type(at, declared))?)
    }

    /// Changes a field of a struct. The path begins with the column.
    fn change_field(&mut self, path: &[Name], change: &FieldChange) -> Result<()> {
        let [column, fields @ ..] = path else { return Err(Error::invalid("a field is in a column")) };
        let (schema, column) = (self.schema()?, column.text.as_str());
        let at = self.position(&schema, column)?;
        let fields: Vec<&str> = fields.iter().map(|name| name.text.as_str()).collect();
        let old = &schema.columns[at];
        let changed = struct_fields::changed(&old.data_type, &quote(column), &fields, change)?;
        let Some((to, value)) = changed else { return Ok(()) };
        if schema.default_of(at).is_some() {
            let message = format!("the DEFAULT of column {column} is a struct with its present fields");
            return Err(Error::invalid(message).with_hint(format!("ALTER COLUMN {column} DROP DEFAULT first")));
        }
        self.compute(column, old, to, &format!("SELECT {value} FROM {}", quote(TARGET)))
    }

    fn set_not_null(&mut self, at: usize, column: &str) -> Result<()> {
        self.check_not_null(column)?;
        Ok(self.transaction.change_schema(self.table, |schema| schema.columns[at].nullable = false)?)
    }

    fn check_not_null(&mut self, column: &str) -> Result<()> {
        let scope = Scope::new(self.transaction.snapshot()).with_target_rows(self.table);
        let sql = format!("SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1", quote(TARGET), quote(column));
        let (state, plan) = self.context.plan_text(&scope, &sql)?;
        for batch in self.context.run(&state, &plan)? {
            if batch?.num_rows() > 0 {
                let message =
                    format!("column {column} of table {} cannot be NOT NULL: a row has NULL in it", self.table);
                let error = Error::new(ErrorKind::Constraint, message).with_hint("UPDATE these rows first");
                let error = error.concerning(|subject| subject.column = Some(column.to_owned()));
                return Err(error.in_table(self.table));
            }
        }
        Ok(())
    }

    fn change_type(&mut self, column: &str, from: &DataType, to: DataType) -> Result<()> {
        if *from == to {
            return Ok(());
        }
        let in_place = widens_in_place(from, &to);
        if !in_place && !widens(from, &to) {
            // Values that the new type does not have are errors, which name them.
            self.refuse_uses_of_values(column)?;
        }
        let refused: &[ColumnUse] = match in_place {
            true => &[ColumnUse::Cluster, ColumnUse::OtherCluster],
            false => &[ColumnUse::Copy, ColumnUse::Cluster, ColumnUse::OtherCluster],
        };
        self.refuse_uses(column, refused)?;
        if !is_comparable(from, &to) {
            self.refuse_uses(column, &[ColumnUse::Reference, ColumnUse::Referenced])?;
        }
        self.check_default(column, &to)?;
        let rows = self.transaction.table(self.table)?.rows();
        self.context.prepare_append(self.transaction, usize::try_from(rows).ok())?;
        let field = Arc::new(Field::new(column, to.clone(), true));
        let convert = |array: &ArrayRef| -> std::result::Result<ArrayRef, StoreError> {
            let failed = |error: Error| StoreError::Filter(Box::new(error));
            self.context.check_cancelled().map_err(failed)?;
            stored_cell(array, &field, 1).map_err(failed)
        };
        self.transaction.change_type(self.table, column, to.clone(), convert)?;
        row_checks::validate(self.context, &Scope::new(self.transaction.snapshot()), &self.schema()?)
    }

    /// `TYPE type USING value`: the values are computed from the column by a query.
    fn compute(&mut self, column: &str, old: &Column, to: DataType, sql: &str) -> Result<()> {
        self.refuse_uses_of_values(column)?;
        self.check_default(column, &to)?;
        let rows = self.transaction.table(self.table)?.rows();
        self.context.prepare_append(self.transaction, usize::try_from(rows).ok())?;
        let (context, snapshot) = (self.context, self.transaction.snapshot());
        let alone = TableSchema { columns: vec![Column { nullable: true, ..old.clone() }], ..TableSchema::default() };
        let field = Arc::new(Field::new(column, to.clone(), true));
        let convert = |array: &ArrayRef| -> std::result::Result<ArrayRef, StoreError> {
            let failed = |error: Error| StoreError::Filter(Box::new(error));
            let computed = computed(context, &snapshot, &alone, array, sql).map_err(failed)?;
            stored_cell(&computed, &field, 1).map_err(failed)
        };
        self.transaction.compute_column(self.table, column, to, convert)?;
        if !old.nullable {
            self.check_not_null(column)?;
        }
        row_checks::validate(self.context, &Scope::new(self.transaction.snapshot()), &self.schema()?)
    }

    /// Refuses to change the values of a column on which keys and other objects depend.
    fn refuse_uses_of_values(&self, column: &str) -> Result<()> {
        let uses = self.transaction.column_uses(self.table, column)?;
        let schema = self.schema()?;
        let key = schema.constraints(self.table).into_iter().find_map(|constraint| match constraint.kind {
            ConstraintKind::Primary(columns, _) | ConstraintKind::Unique(columns)
                if columns.iter().any(|name| name == column) =>
            {
                Some(format!("constraint {}", constraint.name))
            }
            _ => None,
        });
        let others = uses.into_iter().find(|(kind, _)| *kind != ColumnUse::Own).map(|(_, what)| what);
        match key.or(others) {
            Some(what) => Err(needed(self.table, column, &what)),
            None => Ok(()),
        }
    }

    /// A default must have a value of the new type.
    fn check_default(&mut self, column: &str, to: &DataType) -> Result<()> {
        let schema = self.schema()?;
        let at = self.position(&schema, column)?;
        if let Some(sql) = schema.default_of(at) {
            let scope = Scope::new(self.transaction.snapshot());
            defaults::check(self.context, &scope, column, to, sql)?;
        }
        Ok(())
    }

    fn refuse_uses(&self, column: &str, refused: &[ColumnUse]) -> Result<()> {
        let uses = self.transaction.column_uses(self.table, column)?;
        match uses.into_iter().find(|(kind, _)| refused.contains(kind)) {
            Some((_, what)) => Err(needed(self.table, column, &what)),
            None => Ok(()),
        }
    }
}

/// The values of an expression over one column.
fn computed(
    context: &WriteContext,
    snapshot: &Arc<Snapshot>,
    schema: &TableSchema,
    array: &ArrayRef,
    sql: &str,
) -> Result<ArrayRef> {
    context.check_cancelled()?;
    let column = &schema.columns[0];
    let field = Field::new(&column.name, array.data_type().clone(), true);
    let fields = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(fields.clone(), vec![array.clone()])?;
    let rows = ArrowTable::of_batches(&fields, vec![batch])?;
    // The value is computed from its column alone, which no table has.
    let scope = Scope::new(snapshot.clone()).with_target_written(rows, "");
    let (mut state, plan) = context.plan_text(&scope, sql)?;
    planning::keep_order_of_rows(&mut state);
    let batches = context.run(&state, &plan)?.collect::<Result<Vec<_>>>()?;
    let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
    match arrays.is_empty() {
        true => Ok(new_empty_array(plan.schema().field(0).data_type())),
        false => Ok(concat(&arrays)?),
    }
}

/// The error for a column that something needs.
fn needed(table: &str, column: &str, what: &str) -> Error {
    Error::invalid(format!("{what} depends on column {column} of table {table}"))
        .with_hint(format!("drop or change {what} first"))
}

/// Whether every value of one type is also one of another, except for timestamps far from 1970, which are refused one
/// by one.
fn widens(from: &DataType, to: &DataType) -> bool {
    let holds = |from: &DataType, to: &DataType| from == to || widens_in_place(from, to) || widens(from, to);
    use DataType::*;
    let fineness = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    match (from, to) {
        (Decimal128(p, s), Decimal128(q, t)) => {
            s <= t && i16::from(*p) - i16::from(*s) <= i16::from(*q) - i16::from(*t)
        }
        (integer, Decimal128(q, t)) => {
            integer_digits(integer).is_some_and(|digits| digits <= i16::from(*q) - i16::from(*t))
        }
        (UInt8 | UInt16 | UInt32, UInt64) | (Float32, Float64) => true,
        (Int8 | Int16 | UInt8 | UInt16, Float32) => true,
        (Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32, Float64) => true,
        (Date32, Timestamp(_, None)) => true,
        (Timestamp(a, zone), Timestamp(b, other)) => zone == other && fineness(a) <= fineness(b),
        (List(from), List(to)) => holds(from.data_type(), to.data_type()),
        (FixedSizeList(from, length), FixedSizeList(to, same)) => {
            length == same && holds(from.data_type(), to.data_type())
        }
        (Map(from, _), Map(to, _)) => holds(from.data_type(), to.data_type()),
        // Fields may be added: they are NULL.
        (Struct(from), Struct(to)) => from
            .iter()
            .all(|field| to.iter().any(|new| new.name() == field.name() && holds(field.data_type(), new.data_type()))),
        _ => false,
    }
}
