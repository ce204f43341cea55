//! Changes of a table's columns and name. Segments are not rewritten, except where the stored form of values changes.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;

use super::commit::Operation;
use super::locks::Mode;
use super::write::WriteTransaction;
use crate::cluster::Route;
use crate::design::{Design, keys_of};
use crate::error::{Result, StoreError};
use crate::scan::{ScanRequest, for_each_batch};
use crate::schema::{Column, ForeignKey, StoredValue, TableSchema, widens_in_place};
use crate::table::Table;

/// What needs a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnUse {
    /// A unique key, the sort order or an index of its table: a new name or a wider type does no harm.
    Own,
    /// A foreign key of its table.
    Reference,
    /// A copy of its table.
    Copy,
    /// The clustering of its table.
    Cluster,
    /// A foreign key of another table.
    Referenced,
    /// The clustering of another table.
    OtherCluster,
}

impl WriteTransaction {
    /// What needs a column: each with a description for messages.
    ///
    /// # Errors
    /// The table or the column does not exist.
    pub fn column_uses(&self, table: &str, column: &str) -> Result<Vec<(ColumnUse, String)>> {
        let table = self.table(table)?;
        table.schema.index_of(column)?;
        let mut uses = own_uses(&table, column);
        let copies = self.copies(&table).into_iter().filter(|copy| copy.schema.index_of(column).is_ok());
        uses.extend(copies.map(|copy| (ColumnUse::Copy, format!("copy {}", copy.name))));
        for other in self.all_tables() {
            let keys = other.schema.foreign_keys.iter().filter(|key| key.table == table.name);
            let named = keys.filter(|key| referenced(&table, &key.referenced).iter().any(|name| name == column));
            let of_key = |columns: &[String]| format!("FOREIGN KEY ({}) of table {}", columns.join(", "), other.name);
            uses.extend(named.map(|key| (ColumnUse::Referenced, of_key(&key.columns))));
            if self.clusters_by(&other, &table, column) {
                uses.push((ColumnUse::OtherCluster, format!("the clustering of table {}", other.name)));
            }
        }
        Ok(uses)
    }

    /// Whether the clustering of `other`, or of one of its copies, follows foreign keys to a column of `table`.
    fn clusters_by(&self, other: &Table, table: &Table, column: &str) -> bool {
        let mut designs = self.copies(other).into_iter().map(|copy| copy.design.clone()).chain([other.design.clone()]);
        let leads_to = |names: &[String]| {
            if keys_of(names).is_empty() || !names[1..].iter().any(|name| name == column) {
                return false;
            }
            let path = crate::design::DimensionPath { names: names.to_vec(), bits: None };
            // A path that cannot be followed may be one that could again.
            Route::find(&|name| self.table(name).ok(), &other.schema, &path)
                .map_or(true, |route| route.hops.iter().any(|hop| hop.table.id == table.id))
        };
        designs.any(|design| design.cluster.iter().any(|path| leads_to(&path.names)))
    }

    /// Whether codes of other tables are computed from rows of this one.
    fn is_on_paths(&self, table: &Table) -> bool {
        let follows = |design: &Design| design.cluster.iter().any(|path| !keys_of(&path.names).is_empty());
        let mut others = self.tables().filter(|other| other.id != table.id);
        others.any(|other| follows(&other.design) || self.copies(other).iter().any(|copy| follows(&copy.design)))
            && self.tables().any(|other| other.schema.foreign_keys.iter().any(|key| key.table == table.name))
    }

    /// Gives a table other columns and, if names have changed, another design.
    fn set_schema(&mut self, table: &Table, schema: TableSchema, design: Design) -> Result<()> {
        let schema = schema.validated()?;
        let design = design.validated(&schema)?;
        self.lock_table(table, Mode::Exclusive)?;
        self.perform(&Operation::SetSchema { table: table.id, schema })?;
        if design != table.design {
            self.perform(&Operation::SetDesign { table: table.id, design })?;
        }
        Ok(())
    }

    /// Codes that other tables derived from rows of this one may name its columns: they are computed anew.
    fn invalidate_codes(&mut self, table: &Table) -> Result<()> {
        if self.is_on_paths(table) { self.change_values(table) } else { Ok(()) }
    }

    /// Values changed of which no copy has a column.
    fn change_values(&mut self, table: &Table) -> Result<()> {
        let current: Vec<u64> =
            self.copies(table).iter().filter(|copy| copy.is_current()).map(|copy| copy.id).collect();
        self.perform(&Operation::Changed { table: table.id })?;
        current.into_iter().try_for_each(|copy| self.perform(&Operation::CopyIsCurrent { copy }))
    }

    /// Changes properties of columns that do not concern stored values: DEFAULT, NOT NULL.
    ///
    /// # Errors
    /// The table does not exist, or what `change` makes is not a schema.
    pub fn change_schema(&mut self, table: &str, change: impl FnOnce(&mut TableSchema)) -> Result<()> {
        let table = self.table(table)?;
        let mut schema = table.schema.clone();
        change(&mut schema);
        self.set_schema(&table, schema, table.design.clone())
    }

    /// Adds constraints, or changes them. [`WriteTransaction::check_keys`] and [`WriteTransaction::take_added_rows`]
    /// then also concern all rows that there are, for those that are new.
    ///
    /// # Errors
    /// The table does not exist, or what `change` makes is not a schema.
    pub fn change_constraints(&mut self, table: &str, change: impl FnOnce(&mut TableSchema)) -> Result<()> {
        let old = self.table(table)?;
        self.change_schema(table, change)?;
        let altered = self.table_by_id(old.id)?;
        self.check_all_rows(&altered, &old.schema);
        Ok(())
    }

    /// The enforced foreign key of a table that needs one of the unique keys of another.
    pub fn reference_to(&self, table: &str, columns: &[String]) -> Option<(String, Vec<String>)> {
        self.tables().find_map(|other| {
            let needs = |key: &&ForeignKey| {
                key.enforced
                    && key.table == table
                    && key.referenced.len() == columns.len()
                    && key.referenced.iter().all(|name| columns.contains(name))
            };
            other.schema.foreign_keys.iter().find(needs).map(|key| (other.name.clone(), key.columns.clone()))
        })
    }

    /// A table whose clustering, or that of a copy, leads along foreign keys that are not there.
    pub fn broken_clustering(&self) -> Option<String> {
        let is_broken = |table: &Arc<Table>, of: &Table| {
            let paths = of.design.cluster.iter();
            paths.into_iter().any(|path| Route::find(&|name| self.table(name).ok(), &table.schema, path).is_err())
        };
        let mut tables = self.all_tables().into_iter();
        let found = tables
            .find(|table| is_broken(table, table) || self.copies(table).iter().any(|copy| is_broken(table, copy)));
        found.map(|table| table.name.clone())
    }

    fn all_tables(&self) -> Vec<Arc<Table>> {
        self.tables().map(|table| self.with_resources(table)).collect()
    }

    /// Adds a column after the others. All rows that there are have `value` in it.
    ///
    /// # Errors
    /// The table does not exist, or it has a column of this name.
    pub fn add_column(
        &mut self,
        table: &str,
        column: Column,
        value: StoredValue,
        default: Option<String>,
    ) -> Result<()> {
        let table = self.table(table)?;
        table.schema.check_free(&column.name)?;
        let mut schema = table.schema.clone();
        schema.add_column(column, value);
        schema.set_default(schema.columns.len() - 1, default);
        self.set_schema(&table, schema, table.design.clone())
    }

    /// Drops a column, which nothing may need ([`WriteTransaction::column_uses`]).
    ///
    /// # Errors
    /// The table or the column does not exist, or it is the table's only column.
    pub fn drop_column(&mut self, table: &str, column: &str) -> Result<()> {
        let table = self.table(table)?;
        let mut schema = table.schema.clone();
        schema.drop_column(schema.index_of(column)?);
        let at = table.schema.index_of(column)?;
        let is_gone =
            |name: &str| table.schema.stored_index_of(name).is_ok_and(|stored| table.schema.column_of(stored) == at);
        let design = table.design.with_names(&|name| (!is_gone(name)).then(|| name.to_owned()));
        self.set_schema(&table, schema, design)?;
        self.invalidate_codes(&table)
    }

    /// Renames a column, also in keys, designs, copies, and in the foreign keys of other tables.
    ///
    /// # Errors
    /// The table or the column does not exist, or the table has a column of the new name.
    pub fn rename_column(&mut self, table: &str, column: &str, new: &str) -> Result<()> {
        let table = self.table(table)?;
        let mut schema = table.schema.clone();
        schema.check_free(new)?;
        schema.rename_column(schema.index_of(column)?, new);
        if schema.foreign_keys.iter().any(|key| key.table == table.name) {
            schema.rename_referenced(&table.name, column, new);
        }
        // Fields of the column have other names, too.
        let stored = |of: &TableSchema, name: &str| of.stored_index_of(name).ok();
        let names = schema.clone();
        let renamed = |name: &str| match stored(&table.schema, name) {
            Some(at) => Some(names.stored_name(at)),
            None => Some(name.to_owned()),
        };
        let copies: Vec<(u64, Design)> = self
            .copies(&table)
            .iter()
            .filter(|copy| copy.schema.index_of(column).is_ok())
            .map(|copy| (copy.id, copy.design.with_names(&renamed)))
            .collect();
        self.set_schema(&table, schema, table.design.with_names(&renamed))?;
        self.invalidate_codes(&table)?;
        for (copy, design) in copies {
            self.perform(&Operation::SetDesign { table: copy, design })?;
        }
        self.change_others(&table, |schema| schema.rename_referenced(&table.name, column, new))
    }

    /// Renames a table, also in the foreign keys of other tables.
    ///
    /// # Errors
    /// The table does not exist, or the name is taken.
    pub fn rename_table(&mut self, table: &str, new: &str) -> Result<()> {
        let table = self.table(table)?;
        self.check_free(new)?;
        self.lock_table(&table, Mode::Exclusive)?;
        let mut schema = table.schema.clone();
        if schema.rename_referenced_table(&table.name, new) {
            self.perform(&Operation::SetSchema { table: table.id, schema })?;
        }
        self.perform(&Operation::RenameTables { names: vec![(table.id, new.to_owned())] })?;
        self.change_others(&table, |schema| schema.rename_referenced_table(&table.name, new))
    }

    /// Changes the schemas of other tables, where `change` returns true.
    fn change_others(&mut self, table: &Table, change: impl Fn(&mut TableSchema) -> bool) -> Result<()> {
        for other in self.all_tables().into_iter().filter(|other| other.id != table.id) {
            let mut schema = other.schema.clone();
            if change(&mut schema) {
                self.lock_table(&other, Mode::Exclusive)?;
                self.perform(&Operation::SetSchema { table: other.id, schema })?;
            }
        }
        Ok(())
    }

    /// Changes the type of a column. If the stored form of its values changes, the table is rewritten, with each array
    /// of the column passed through `convert`. Copies with the column are only possible otherwise.
    ///
    /// # Errors
    /// The table or the column does not exist, or the error of `convert`.
    pub fn change_type(
        &mut self,
        table: &str,
        column: &str,
        data_type: DataType,
        convert: impl Fn(&ArrayRef) -> Result<ArrayRef>,
    ) -> Result<()> {
        let table = self.table(table)?;
        let from = &table.schema.columns[table.schema.index_of(column)?].data_type;
        if *from == data_type || widens_in_place(from, &data_type) {
            return self.declare_type(&table, column, data_type, true).map(drop);
        }
        self.compute_in(&table, column, data_type, convert)
    }

    /// Gives a column another type, which may be the one that it has, and values that are computed from its own.
    ///
    /// # Errors
    /// The table or the column does not exist, or the error of `compute`.
    pub fn compute_column(
        &mut self,
        table: &str,
        column: &str,
        data_type: DataType,
        compute: impl Fn(&ArrayRef) -> Result<ArrayRef>,
    ) -> Result<()> {
        let table = self.table(table)?;
        self.compute_in(&table, column, data_type, compute)?;
        self.change_values(&table)
    }

    /// Changes the declared type of a column; returns its position. `in_place`: the stored values are those of the new type.
    fn declare_type(&mut self, table: &Table, column: &str, data_type: DataType, in_place: bool) -> Result<usize> {
        let position = table.schema.index_of(column)?;
        let mut schema = table.schema.clone();
        schema.columns[position].data_type = data_type;
        if !in_place {
            schema.forget_value_before(position);
        }
        self.set_schema(table, schema, table.design.clone())?;
        self.invalidate_codes(table)?;
        Ok(position)
    }

    fn compute_in(
        &mut self,
        table: &Arc<Table>,
        column: &str,
        data_type: DataType,
        compute: impl Fn(&ArrayRef) -> Result<ArrayRef>,
    ) -> Result<()> {
        let position = self.declare_type(table, column, data_type, false)?;
        let altered = self.table_by_id(table.id)?;
        let mut appender = self.appender_of(&altered, altered.design.clone(), Some(table.rows()))?;
        let (request, arrow) =
            (ScanRequest::columns((0..altered.schema.columns.len()).collect()), altered.schema.to_arrow());
        for_each_batch(
            table,
            Arc::new(request),
            |_| true,
            |batch| {
                let mut columns = batch.columns().to_vec();
                columns[position] = compute(&columns[position])?;
                let converted = RecordBatch::try_new(arrow.clone(), columns);
                appender.push(&converted.map_err(|error| StoreError::invalid(error.to_string()))?)
            },
        )?;
        self.replace(&altered, appender.finish()?)
    }
}

/// The columns that a foreign key references.
fn referenced<'a>(table: &'a Table, named: &'a [String]) -> &'a [String] {
    if named.is_empty() { &table.schema.primary_key } else { named }
}

/// The keys and options of a table that name a column.
fn own_uses(table: &Table, column: &str) -> Vec<(ColumnUse, String)> {
    let names = |names: &[String]| names.iter().any(|name| name == column);
    let (schema, design) = (&table.schema, &table.design);
    let mut uses = vec![];
    if names(&schema.primary_key) {
        uses.push((ColumnUse::Own, format!("PRIMARY KEY ({})", schema.primary_key.join(", "))));
    }
    let unique = schema.unique_keys.iter().filter(|key| names(&key.columns) && key.columns != schema.primary_key);
    uses.extend(unique.map(|key| (ColumnUse::Own, format!("UNIQUE ({})", key.columns.join(", ")))));
    let keys = schema.foreign_keys.iter().map(|key| &key.columns).filter(|columns| names(columns));
    uses.extend(keys.map(|columns| (ColumnUse::Reference, format!("FOREIGN KEY ({})", columns.join(", ")))));
    if names(&design.sort) {
        uses.push((ColumnUse::Own, format!("the sort order ({})", design.sort.join(", "))));
    }
    let indexes = design.index.iter().filter(|key| names(key));
    uses.extend(indexes.map(|key| (ColumnUse::Own, format!("the index on ({})", key.join(", ")))));
    if let Some(path) = design.cluster.iter().find(|path| path.names.first().is_some_and(|first| first == column)) {
        uses.push((ColumnUse::Cluster, format!("the clustering by {path}")));
    }
    uses
}
