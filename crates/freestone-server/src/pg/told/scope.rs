//! The columns that a query can name: their types as tables declare them, and the tables that they come from.

use std::sync::Arc;

use arrow::datatypes::Field;
use freestone::NamedRelation;
use freestone_sql::tree::{
    Join, JoinCondition, JoinKind, ObjectName, Query, StatementKind, Table, TableAlias, TableKind, With, WithBody,
};

use super::{Known, Told, of_query};
use crate::pg::names::last;
use crate::pg::origins::{Origin, object_oid};
use crate::pg::types::ColumnType;

/// The views and queries in one another that are looked into.
const DEPTH_MAX: usize = 16;

/// A column that a query can name. Without a name, it is only in stars.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub of_type: Option<ColumnType>,
    pub origin: Option<Origin>,
}

/// A table of FROM: its name here, and its columns if they are known.
#[derive(Debug, Clone)]
struct Source {
    name: Option<String>,
    columns: Option<Vec<Column>>,
}

/// What names mean in a query: parts of WITH, and the tables of FROM.
#[derive(Clone)]
pub struct Scope<'a> {
    pub known: &'a Known<'a>,
    parts: Vec<(String, Option<Vec<Column>>)>,
    sources: Vec<Source>,
    /// The columns of `*`, if they are known.
    star: Option<Vec<Column>>,
    depth: usize,
}

impl<'a> Scope<'a> {
    pub fn new(known: &'a Known<'a>) -> Scope<'a> {
        Scope { known, parts: vec![], sources: vec![], star: Some(vec![]), depth: 0 }
    }

    /// The scope of a query, with the parts of its WITH.
    pub fn within(&self, with: Option<&With>) -> Scope<'a> {
        let mut scope =
            Scope { sources: vec![], star: Some(vec![]), parts: self.parts.clone(), depth: self.depth + 1, ..*self };
        for part in with.iter().flat_map(|with| &with.parts) {
            let is_recursive = with.is_some_and(|with| with.recursive);
            let columns = match &part.body {
                WithBody::Query(query) if !is_recursive => scope.columns_of(query),
                _ => None,
            };
            scope.parts.push((part.name.text.clone(), columns.map(|columns| renamed(columns, &part.columns))));
        }
        scope
    }

    /// The scope with the tables of FROM.
    pub fn from(mut self, tables: &[Table]) -> Scope<'a> {
        tables.iter().for_each(|table| self.add_table(table));
        self
    }

    /// The scope with a table that a statement changes.
    pub fn of_target(mut self, name: &ObjectName, alias: Option<&str>) -> Scope<'a> {
        let columns = self.relation(name);
        self.add(Some(alias.unwrap_or(last(name)).to_owned()), columns);
        self
    }

    /// The columns of `*`, or of the star of a table.
    pub fn star(&self, qualifier: Option<&ObjectName>) -> Option<Vec<Column>> {
        match qualifier {
            None => self.star.clone(),
            Some(name) => self.source(last(name))?.columns.clone(),
        }
    }

    /// The column of a name. `None` if it is not known, or could be several.
    pub fn column(&self, name: &ObjectName) -> Option<Column> {
        let parts: Vec<&str> = name.parts.iter().map(|part| part.text.as_str()).collect();
        let among = |columns: &[Column], name: &str| {
            let mut named = columns.iter().filter(|column| column.name == name);
            named.next().cloned().filter(|_| named.next().is_none())
        };
        match parts.as_slice() {
            [column] => among(self.star.as_deref()?, column),
            [.., table, column] => among(self.source(table)?.columns.as_deref()?, column),
            [] => None,
        }
    }

    fn source(&self, name: &str) -> Option<&Source> {
        let mut named = self.sources.iter().filter(|source| source.name.as_deref() == Some(name));
        named.next().filter(|_| named.next().is_none())
    }

    fn add(&mut self, name: Option<String>, columns: Option<Vec<Column>>) {
        self.star = self.star.take().zip(columns.clone()).map(|(mut all, own)| {
            all.extend(own);
            all
        });
        self.sources.push(Source { name, columns });
    }

    fn add_table(&mut self, table: &Table) {
        if let TableKind::Join { first, rest } = &table.kind {
            let before = self.star.replace(vec![]);
            self.add_table(first);
            rest.iter().for_each(|join| self.add_join(join));
            let joined = self.star.take();
            self.star = before.zip(joined).map(|(before, joined)| [before, joined].concat());
            return;
        }
        let alias = table.alias.as_ref();
        let (name, columns) = match &table.kind {
            TableKind::Named { name, version: None } => (Some(last(name).to_owned()), self.relation(name)),
            TableKind::Named { name, .. } => (Some(last(name).to_owned()), None),
            TableKind::Query { query, .. } => (None, self.columns_of(query)),
            _ => (None, None),
        };
        let renamed_by = |alias: &TableAlias| columns.clone().map(|columns| renamed(columns, &alias.columns));
        let columns = alias.map_or(columns.clone(), renamed_by);
        self.add(alias.map(|alias| alias.name.text.clone()).or(name), columns);
    }

    fn add_join(&mut self, join: &Join) {
        let left = self.star.replace(vec![]);
        self.add_table(&join.table);
        let right = self.star.take();
        let (Some(left), Some(right)) = (left, right) else { return };
        let shared: Vec<String> = match &join.condition {
            JoinCondition::Using(names) => names.iter().map(|name| name.text.clone()).collect(),
            JoinCondition::Natural => {
                let is_shared = |column: &&Column| right.iter().any(|other| other.name == column.name);
                left.iter().filter(is_shared).map(|column| column.name.clone()).collect()
            }
            JoinCondition::None | JoinCondition::On(_) => vec![],
        };
        self.star = match join.kind {
            JoinKind::Semi | JoinKind::Anti => Some(left),
            JoinKind::RightSemi | JoinKind::RightAnti => Some(right),
            kind => merged(left, right, &shared, kind),
        };
    }

    /// The columns of a table or view by its name.
    fn relation(&self, name: &ObjectName) -> Option<Vec<Column>> {
        let part = self.parts.iter().rev().find(|(own, _)| name.parts.len() == 1 && own == last(name));
        if let Some((_, columns)) = part {
            return columns.clone();
        }
        let (name, columns) = match (self.known.relation)(name)? {
            NamedRelation::Table { name, schema } => {
                let column = |field: &Arc<Field>| Column {
                    name: field.name().clone(),
                    // Types of labels are found by their labels.
                    of_type: freestone::labels_of(field).is_none().then(|| ColumnType::of_field(field)),
                    origin: None,
                };
                (name, schema.fields().iter().map(column).collect())
            }
            NamedRelation::View { name, query } => {
                let StatementKind::Query(query) = freestone_sql::parse_statement(&query).ok()?.kind else {
                    return None;
                };
                // A view does not see the parts of WITH around it.
                let around = Scope { depth: self.depth + 1, ..Scope::new(self.known) };
                (name, around.columns_of(&query)?)
            }
        };
        let table = u32::try_from(object_oid(&name)).ok()?;
        let numbered = |(column, at): (Column, i16)| Column { origin: Some(Origin { table, column: at }), ..column };
        Some(columns.into_iter().zip(1..).map(numbered).collect())
    }

    /// The columns of a query.
    fn columns_of(&self, query: &Query) -> Option<Vec<Column>> {
        if self.depth > DEPTH_MAX {
            return None;
        }
        let column =
            |told: Told| Column { name: told.own_name.unwrap_or_default(), of_type: told.of_type, origin: told.origin };
        Some(of_query(query, self)?.into_iter().map(column).collect())
    }
}

/// The columns with other names, as far as there are some.
fn renamed(mut columns: Vec<Column>, names: &[freestone_sql::tree::Name]) -> Vec<Column> {
    for (column, name) in columns.iter_mut().zip(names) {
        column.name.clone_from(&name.text);
    }
    columns
}

/// The columns of a join: those that both sides share come first, and once.
fn merged(left: Vec<Column>, right: Vec<Column>, shared: &[String], kind: JoinKind) -> Option<Vec<Column>> {
    let find = |side: &[Column], name: &String| side.iter().find(|column| column.name == *name).cloned();
    let mut all = vec![];
    for name in shared {
        let (left, right) = (find(&left, name)?, find(&right, name)?);
        all.push(match kind {
            JoinKind::Right => right,
            JoinKind::Full => Column { origin: None, ..left },
            _ => left,
        });
    }
    let others = left.into_iter().chain(right).filter(|column| !shared.contains(&column.name));
    all.extend(others);
    Some(all)
}
