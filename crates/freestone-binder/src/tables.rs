//! Tables of FROM: by their names, as queries, and one behind the other.

use std::sync::Arc;

use datafusion_common::{Column, TableReference};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SubqueryAlias};
use freestone_sql::Span;
use freestone_sql::tree::{ObjectName, QueryBody, Star, Table, TableAlias, TableKind};

use crate::binder::Binder;
use crate::error::{At, Result, invalid, unknown};
use crate::names::named;
use crate::plans::{self, Rows};
use crate::reading::Named;
use crate::scopes::{Entry, Relation, Scope, is_default};
use crate::select::Item;
use crate::subqueries::subquery;
use crate::world::{FILE_NAME, FILE_NAMES, PLACES, ROW_ID};

/// A part of FROM: its plan, and what its columns are called.
#[derive(Debug, Clone)]
pub(crate) struct From {
    pub plan: LogicalPlan,
    pub relations: Vec<Relation>,
    pub star: Vec<Entry>,
}

impl From {
    /// A single row without columns.
    pub fn nothing() -> Result<From> {
        let plan = LogicalPlanBuilder::empty(true).build().at(Span::default())?;
        Ok(From { plan, relations: vec![], star: vec![] })
    }

    /// The column of a function in it by a name of the function, which has another one by its alias.
    pub fn of_function(&self, name: &str) -> Option<&Entry> {
        let is_named = |entry: &&Entry| {
            let relation = entry.relation.and_then(|at| self.relations.get(at));
            relation.is_some_and(|relation| relation.function_names.contains(&name))
        };
        let mut found = self.star.iter().filter(is_named);
        found.next().filter(|_| found.next().is_none())
    }

    /// Its columns as a scope.
    pub fn scope(&self) -> Scope {
        Scope::new(self.relations.clone(), self.star.clone(), self.plan.schema().clone())
    }
}

impl Binder<'_> {
    /// All tables of a FROM.
    pub fn from(&mut self, tables: &[Table], span: Span) -> Result<From> {
        let Some((first, rest)) = tables.split_first() else { return From::nothing() };
        let mut left = self.table(first)?;
        for table in rest {
            let (right, _) = self.right_of(&left, table)?;
            left = self.crossed(left, right, span)?;
        }
        Ok(left)
    }

    /// A table that may use the columns of those to its left, and whether it does.
    pub fn right_of(&mut self, left: &From, table: &Table) -> Result<(From, bool)> {
        let (mut right, scope) = self.within(left.scope(), |binder| binder.table(table))?;
        let is_used = scope.is_used.get();
        if is_used {
            right.plan = lateral(right.plan).at(table.span)?;
        }
        Ok((right, is_used))
    }

    /// A table.
    pub fn table(&mut self, table: &Table) -> Result<From> {
        self.deeper(table.span, |binder| {
            let from = binder.of_table(table)?;
            binder.note_collations(from.plan.schema());
            match &table.sample {
                Some(sample) => binder.sampled(from, sample, table.span),
                None => Ok(from),
            }
        })
    }

    fn of_table(&mut self, table: &Table) -> Result<From> {
        let (span, alias) = (table.span, table.alias.as_ref());
        match &table.kind {
            TableKind::Named { name, .. } => self.named_table(table, name),
            TableKind::File { path, .. } => {
                let rows = self.read(table, path, span)?;
                let mut from = self.relation(rows, alias, vec![path.clone()], span)?;
                hide_file_names(&mut from);
                Ok(from)
            }
            TableKind::Query { query, .. } => {
                let rows = self.query(query)?;
                let mut from = self.relation(rows, alias, vec![], span)?;
                let is_named = alias.is_some_and(|alias| !alias.columns.is_empty());
                if let (QueryBody::Values(_), false, Some(relation)) =
                    (&query.body, is_named, from.relations.first_mut())
                {
                    relation.is_values = true;
                }
                Ok(from)
            }
            TableKind::Join { first, rest } => {
                let from = self.joins(first, rest)?;
                match alias {
                    None => Ok(from),
                    Some(alias) => {
                        let rows = self.all_of(from, span)?;
                        self.relation(rows, Some(alias), vec![], span)
                    }
                }
            }
            TableKind::Call { call, ordinality, .. } => self.table_call(call, *ordinality, alias, span),
            TableKind::Pivot(pivot) => {
                let rows = self.pivot(pivot, span)?;
                self.relation(rows, alias, vec![], span)
            }
            TableKind::Unpivot(unpivot) => {
                let rows = self.unpivot(unpivot, span)?;
                self.relation(rows, alias, vec![], span)
            }
            TableKind::Listing(listing) => {
                let rows = self.listing(listing, span)?;
                self.relation(rows, alias, vec![], span)
            }
        }
    }

    /// `TABLE t`.
    pub fn table_of_name(&mut self, name: &ObjectName) -> Result<Rows> {
        let table = Table {
            kind: TableKind::Named { name: name.clone(), version: None },
            alias: None,
            sample: None,
            span: name.span,
        };
        let from = self.table(&table)?;
        self.all_of(from, name.span)
    }

    /// All columns of a part of FROM as rows.
    pub fn all_of(&mut self, from: From, span: Span) -> Result<Rows> {
        let (items, _) = self.within(from.scope(), |binder| binder.star(&Star::default(), span))?;
        rows_of(from.plan, items).at(span)
    }

    fn named_table(&mut self, table: &Table, name: &ObjectName) -> Result<From> {
        let (span, alias) = (table.span, table.alias.as_ref());
        let names: Vec<String> = name.parts.iter().map(|part| part.text.clone()).collect();
        if let Some(rows) = self.part_of_with(name) {
            // In DuckDB, the row of each key is read as a table of the same name.
            return self.relation(rows, alias, names, span);
        }
        let rows = self.read(table, &crate::reading::shown(name), span)?;
        let key = Named::of(table).map(|named| self.world.catalog.primary_key(&named)).unwrap_or_default();
        // The catalog and the schema that all names are in are no part of the table's own name.
        let own = match names.as_slice() {
            [first, rest @ ..] if !rest.is_empty() && is_default(first) => rest.to_vec(),
            _ => names,
        };
        let places: Vec<usize> =
            key.iter().filter_map(|column| rows.names.iter().position(|name| name == column)).collect();
        let has_places = rows.names.last().is_some_and(|last| last == PLACES)
            && Named::of(table).is_some_and(|named| self.world.catalog.has_places(&named));
        let mut from = self.relation(rows, alias, own, span)?;
        if has_places {
            hide_last(&mut from, ROW_ID);
        }
        hide_file_names(&mut from);
        if let Some(relation) = from.relations.first_mut() {
            let column = |at: &usize| relation.columns.get(*at).map(|(_, column)| column.clone());
            relation.key = places.iter().filter_map(column).collect();
        }
        Ok(from)
    }

    /// The rows of a table, view or file.
    fn read(&mut self, table: &Table, name: &str, span: Span) -> Result<Rows> {
        let Some(named) = Named::of(table) else { return Err(invalid(span, "this is no table by name")) };
        let Some(source) = self.world.catalog.table(&named).at(span)? else {
            let known = self.world.catalog.table_names();
            let parts = self.ctes.iter().map(|cte| cte.name.as_str());
            let mut error =
                unknown(span, "table or view", without_signature(name), known.iter().map(String::as_str).chain(parts));
            if let Some(hint) = self.world.catalog.hint_for(name) {
                error.hint = Some(hint);
            }
            return Err(error);
        };
        self.note_table(name);
        let names = source.schema().fields().iter().map(|field| field.name().clone()).collect();
        let scanned = TableReference::bare(without_signature(name));
        let plan = LogicalPlanBuilder::scan(scanned, source, None).at(span)?.build().at(span)?;
        Ok(Rows { plan, names })
    }

    /// Rows as a relation, under an alias or their own name.
    pub fn relation(&mut self, rows: Rows, alias: Option<&TableAlias>, names: Vec<String>, span: Span) -> Result<From> {
        self.count(1, span)?;
        let names = alias.map_or(names, |alias| vec![alias.name.text.clone()]);
        let names: Vec<String> = names.iter().map(|name| without_signature(name).to_owned()).collect();
        let qualifier = self.qualifiers.next(names.last().map_or("", String::as_str));
        let Rows { plan, names: mut columns } = rows;
        let copies = copies(&plan, &columns);
        if let Some(alias) = alias {
            if alias.columns.len() > columns.len() {
                let message = format!(
                    "{} has {} columns, and is given {} names",
                    alias.name.text,
                    columns.len(),
                    alias.columns.len()
                );
                return Err(invalid(alias.name.span, message));
            }
            for (column, name) in columns.iter_mut().zip(&alias.columns) {
                column.clone_from(&name.text);
            }
        }
        let plan = under_name(plan, &qualifier).at(span)?;
        let schema = plan.schema();
        let own = |(at, name): (usize, String)| (name, plans::column(schema, at));
        let mut columns: Vec<(String, Column)> = columns.into_iter().enumerate().map(own).collect();
        for (at, first) in copies {
            if let (Some((_, first)), true) = (columns.get(first).cloned(), at < columns.len())
                && let Some((_, column)) = columns.get_mut(at)
            {
                *column = first;
            }
        }
        let entry = |(name, column): &(String, Column)| Entry {
            name: name.clone(),
            value: Expr::Column(column.clone()),
            relation: Some(0),
        };
        let star = columns.iter().map(entry).collect();
        Ok(From { plan, relations: vec![Relation { names, columns, ..Relation::default() }], star })
    }
}

/// The name of a file elsewhere without the parameters of its URL, one of which may be a signature: plans show the name.
fn without_signature(name: &str) -> &str {
    match name.split_once('?') {
        Some((url, _)) if url.starts_with("http://") || url.starts_with("https://") => url,
        _ => name,
    }
}

/// The columns whose name and values another one before them has, with that one.
fn copies(plan: &LogicalPlan, names: &[String]) -> Vec<(usize, usize)> {
    let repeated: Vec<(usize, usize)> = names
        .iter()
        .enumerate()
        .filter_map(|(at, name)| names.iter().take(at).position(|other| other == name).map(|first| (at, first)))
        .collect();
    if repeated.is_empty() {
        return repeated;
    }
    let mut inner = plan;
    loop {
        inner = match inner {
            LogicalPlan::Sort(sort) => sort.input.as_ref(),
            LogicalPlan::Limit(limit) => limit.input.as_ref(),
            _ => break,
        };
    }
    let LogicalPlan::Projection(projection) = inner else { return vec![] };
    let value = |at: usize| projection.expr.get(at).cloned().map(Expr::unalias);
    let is_copy = |(at, first): &(usize, usize)| {
        value(*at) == value(*first) && value(*at).is_some_and(|value| !value.is_volatile())
    };
    repeated.into_iter().filter(is_copy).collect()
}

/// The plan under a name that no other relation has. A scan that has it already stays as it is.
fn under_name(plan: LogicalPlan, qualifier: &str) -> datafusion_common::Result<LogicalPlan> {
    if let LogicalPlan::TableScan(scan) = &plan
        && scan.table_name == TableReference::bare(qualifier)
    {
        return Ok(plan);
    }
    plans::qualified(plan, qualifier)
}

/// A plan that uses columns of the tables to its left.
pub(crate) fn lateral(plan: LogicalPlan) -> datafusion_common::Result<LogicalPlan> {
    match plan {
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let inner = LogicalPlan::Subquery(subquery(Arc::unwrap_or_clone(input)));
            SubqueryAlias::try_new(Arc::new(inner), alias).map(LogicalPlan::SubqueryAlias)
        }
        plan => Ok(LogicalPlan::Subquery(subquery(plan))),
    }
}

/// The values of items as rows.
pub(crate) fn rows_of(plan: LogicalPlan, items: Vec<Item>) -> datafusion_common::Result<Rows> {
    let names: Vec<String> = items.iter().map(|item| item.name.clone()).collect();
    let values = items.into_iter().map(|item| item.value).zip(names.iter().map(String::as_str)).collect();
    Ok(Rows { plan: plans::project(plan, named(values))?, names })
}

/// Hides the names of files that a table has as its last column.
pub(crate) fn hide_file_names(from: &mut From) {
    if from.star.last().is_some_and(|last| last.name == FILE_NAMES) {
        hide_last(from, FILE_NAME);
    }
}

/// Hides the last column of a table, which statements read by this name.
fn hide_last(from: &mut From, name: &'static str) {
    if let Some(relation) = from.relations.first_mut() {
        relation.hidden = relation.columns.pop().map(|(_, column)| (name, column));
        from.star.pop();
    }
}
