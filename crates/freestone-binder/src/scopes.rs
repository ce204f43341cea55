//! Scopes: the relations of one query block, with the names of their columns.

use std::cell::Cell;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, DFSchemaRef};
use datafusion_expr::{Cast, Expr};

use crate::world::{PLACES, ROW_ID};

/// A column by its name in a query.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its name as users see it.
    pub name: String,
    /// The column of the plan, or the columns that a join has merged.
    pub value: Expr,
    /// The place of its relation in the scope. `None` for columns that a join has merged.
    pub relation: Option<usize>,
}

/// A relation of FROM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Relation {
    /// Its names, from the outermost: `["s", "t"]` for `FROM s.t`, and `["a"]` for `FROM s.t AS a`. Empty for one that
    /// has no name.
    pub names: Vec<String>,
    /// Its columns with their names, those that a join has merged included.
    pub columns: Vec<(String, Column)>,
    /// Of a function of one column, which may be called like the relation, further names of that column.
    pub function_names: &'static [&'static str],
    /// The column that no star and no join by equal names means, and its name in statements: [`ROW_ID`] or [`FILE_NAME`].
    pub hidden: Option<(&'static str, Column)>,
    /// Whether it is VALUES without names of columns, which are also called `col0`, `col1`, …, as in DuckDB.
    pub is_values: bool,
    /// The columns of its primary key.
    pub key: Vec<Column>,
    /// Whether an outer join has rows without one of its own.
    pub is_optional: bool,
}

/// The relations of a query block.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// Its relations in the order of FROM.
    pub relations: Vec<Relation>,
    /// The columns of `*`, which are those that a name alone can mean.
    pub star: Vec<Entry>,
    /// The columns of the plan.
    pub schema: DFSchemaRef,
    /// The aliases of the items that are bound, with their values.
    pub aliases: Vec<(String, Expr)>,
    /// Windows by their names.
    pub windows: Vec<(String, freestone_sql::tree::Window)>,
    /// Whether something within used a column of this scope.
    pub is_used: Cell<bool>,
}

/// A parameter of a lambda or a macro.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Expr,
    /// The number of scopes where it was made.
    pub depth: usize,
}

/// What a name in a scope means.
pub(crate) enum Found {
    /// A column, and the number of the name's parts that it took. The others are fields.
    Column(Expr, usize),
    /// Several columns.
    Several(Vec<String>),
    /// A relation without such a column; the place of the relation.
    NotIn(usize),
    /// Nothing.
    Nothing,
}

impl Scope {
    /// A scope without relations.
    pub fn empty() -> Scope {
        Scope {
            relations: vec![],
            star: vec![],
            schema: Arc::new(DFSchema::empty()),
            aliases: vec![],
            windows: vec![],
            is_used: Cell::new(false),
        }
    }

    /// A scope of relations over a plan with these columns.
    pub fn new(relations: Vec<Relation>, star: Vec<Entry>, schema: DFSchemaRef) -> Scope {
        Scope { relations, star, schema, ..Scope::empty() }
    }

    /// A scope of the columns of a schema.
    pub fn of_schema(schema: &DFSchemaRef) -> Scope {
        let columns: Vec<(String, Column)> =
            schema.columns().into_iter().map(|column| (column.name.clone(), column)).collect();
        let entry = |(name, column): &(String, Column)| Entry {
            name: name.clone(),
            value: Expr::Column(column.clone()),
            relation: Some(0),
        };
        let star = columns.iter().map(entry).collect();
        let names = schema.iter().find_map(|(relation, _)| relation.map(|name| vec![name.table().to_owned()]));
        let relation = Relation { names: names.unwrap_or_default(), columns, ..Relation::default() };
        Scope::new(vec![relation], star, schema.clone())
    }

    /// What a name of several parts means. Parts that are not in quotes are found in other cases, too.
    pub fn find(&self, parts: &[(&str, bool)]) -> Found {
        let mut without = None;
        // A name of a relation comes before that of a column.
        for width in (1..parts.len().min(4)).rev() {
            let Some((names, rest)) = parts.split_at_checked(width) else { continue };
            let Some((column, _)) = rest.split_first() else { continue };
            // Relations of the same name are told apart by their columns.
            let mut columns = vec![];
            for at in self.relations_of(names) {
                match self.relations.get(at).map(|relation| relation.column(*column)) {
                    Some(Found::Nothing) | None => without = without.or(Some(at)),
                    Some(Found::Column(value, _)) => columns.push(value),
                    Some(other) => return other,
                }
            }
            match columns.as_slice() {
                [] => {}
                [only] => return Found::Column(only.clone(), width + 1),
                several => {
                    let shown = parts.iter().take(width + 1).map(|(part, _)| *part).collect::<Vec<_>>().join(".");
                    return Found::Several(vec![shown; several.len()]);
                }
            }
        }
        let Some(first) = parts.first() else { return Found::Nothing };
        match self.unqualified(*first) {
            Found::Nothing => without.map_or(Found::Nothing, Found::NotIn),
            found => found,
        }
    }

    /// The column of a name alone.
    fn unqualified(&self, name: (&str, bool)) -> Found {
        let places = matching(self.star.iter().map(|entry| entry.name.as_str()), name);
        let values: Vec<&Entry> = places.iter().filter_map(|at| self.star.get(*at)).collect();
        match values.as_slice() {
            [] => match self.function(name) {
                Found::Nothing => self.values(name),
                found => found,
            },
            [one] => Found::Column(one.value.clone(), 1),
            [first, rest @ ..] if rest.iter().all(|other| other.value == first.value) => {
                Found::Column(first.value.clone(), 1)
            }
            several => Found::Several(several.iter().map(|entry| self.full_name(entry)).collect()),
        }
    }

    /// A function of FROM with one column, by the name of the relation.
    fn function(&self, name: (&str, bool)) -> Found {
        let mut named = self.relations.iter().filter(|relation| {
            let own = matches!(relation.names.as_slice(), [only] if is_same(only, name));
            let mut others = relation.function_names.iter();
            !relation.function_names.is_empty() && (own || others.any(|other| is_same(other, name)))
        });
        match (named.next().and_then(|relation| relation.columns.first()), named.next()) {
            (Some((_, column)), None) => Found::Column(Expr::Column(column.clone()), 1),
            _ => Found::Nothing,
        }
    }

    /// A column of VALUES by DuckDB's name, or a hidden column.
    fn values(&self, name: (&str, bool)) -> Found {
        let value = |relation: &Relation| relation.value(name).or_else(|| relation.hidden(name));
        let found: Vec<Expr> = self.relations.iter().filter_map(value).collect();
        match found.as_slice() {
            [] => Found::Nothing,
            [only] => Found::Column(only.clone(), 1),
            several => Found::Several(vec![name.0.to_owned(); several.len()]),
        }
    }

    /// A column with its relation, for errors.
    fn full_name(&self, entry: &Entry) -> String {
        let relation = entry.relation.and_then(|at| self.relations.get(at));
        match relation.filter(|relation| !relation.names.is_empty()) {
            Some(relation) => format!("{}.{}", relation.names.join("."), entry.name),
            None => entry.name.clone(),
        }
    }

    /// The places of the relations with these names: all of their names, or the last ones. Those that
    /// have them as they are written come before those in other cases.
    pub fn relations_of(&self, names: &[(&str, bool)]) -> Vec<usize> {
        let places = |is_exact: bool| -> Vec<usize> {
            let is_own = |own: &String, name: &(&str, bool)| if is_exact { own == name.0 } else { is_same(own, *name) };
            let is_it = |relation: &Relation| {
                let start = relation.names.len().checked_sub(names.len());
                let own = start.and_then(|start| relation.names.get(start..));
                own.is_some_and(|own| own.iter().zip(names).all(|(own, name)| is_own(own, name)))
            };
            self.relations.iter().enumerate().filter(|(_, one)| is_it(one)).map(|(at, _)| at).collect()
        };
        let mut found = places(true);
        if found.is_empty() {
            found = places(false);
        }
        // The last parts of a longer name belong to a catalog and a schema that every relation is in.
        match names {
            [(schema, _), rest @ ..]
                if found.is_empty() && !rest.is_empty() && (is_default(schema) || is_temporary(schema)) =>
            {
                self.relations_of(rest)
            }
            _ => found,
        }
    }

    /// All names that stand for a column, for errors.
    pub fn known_names(&self) -> impl Iterator<Item = &str> {
        self.star.iter().map(|entry| entry.name.as_str()).chain(self.aliases.iter().map(|(name, _)| name.as_str()))
    }

    /// A value of this scope as a reference from a query within.
    pub fn outer(&self, value: Expr) -> datafusion_common::Result<Expr> {
        let outer = value.transform(|part| match part {
            Expr::Column(column) => {
                let (_, field) = self.schema.qualified_field_from_column(&column)?;
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field.clone(), column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        if outer.transformed {
            self.is_used.set(true);
        }
        Ok(outer.data)
    }
}

impl Relation {
    /// The same behind a join, which may have rows without one of its own.
    pub fn behind(self, is_optional: bool) -> Relation {
        Relation { is_optional: self.is_optional || is_optional, ..self }
    }

    /// Whether its only column may be called so.
    fn is_named(&self, name: (&str, bool)) -> bool {
        let own = self.names.last().map(String::as_str);
        own.into_iter().chain(self.function_names.iter().copied()).any(|own| is_same(own, name))
    }

    /// Whether two of its columns have the same values.
    fn is_copy(&self, at: usize, of: usize) -> bool {
        matches!((self.columns.get(at), self.columns.get(of)), (Some((_, one)), Some((_, other))) if one == other)
    }

    /// The places of its rows or the names of their files, if a name means them.
    fn hidden(&self, name: (&str, bool)) -> Option<Expr> {
        let of_target = || self.columns.iter().find(|(own, _)| own == PLACES).map(|(_, column)| (ROW_ID, column));
        let hidden = self.hidden.as_ref().map(|(own, column)| (*own, column));
        let (own, column) = hidden.or_else(of_target).filter(|(own, _)| is_same(own, name))?;
        let value = Expr::Column(column.clone());
        Some(if own == ROW_ID { Expr::Cast(Cast::new(Box::new(value), DataType::Int64)) } else { value })
    }

    /// The column of VALUES with the name `col0`, `col1`, ….
    fn value(&self, (name, _): (&str, bool)) -> Option<Expr> {
        let at = name.strip_prefix("col").filter(|_| self.is_values)?.parse::<usize>().ok()?;
        self.columns.get(at).map(|(_, column)| Expr::Column(column.clone()))
    }

    /// The column of a name.
    fn column(&self, name: (&str, bool)) -> Found {
        let places = matching(self.columns.iter().map(|(own, _)| own.as_str()), name);
        match places.as_slice() {
            [] if !self.function_names.is_empty() && self.is_named(name) => {
                self.columns.first().map_or(Found::Nothing, |(_, column)| Found::Column(column.clone().into(), 1))
            }
            [] => match self.value(name).or_else(|| self.hidden(name)) {
                Some(value) => Found::Column(value, 1),
                None => Found::Nothing,
            },
            [only] => match self.columns.get(*only) {
                Some((_, column)) => Found::Column(Expr::Column(column.clone()), 1),
                None => Found::Nothing,
            },
            [first, rest @ ..] if rest.iter().all(|at| self.is_copy(*at, *first)) => match self.columns.get(*first) {
                Some((_, column)) => Found::Column(Expr::Column(column.clone()), 1),
                None => Found::Nothing,
            },
            several => {
                let named = |at: &usize| self.columns.get(*at).map(|(own, _)| own.clone());
                Found::Several(several.iter().filter_map(named).collect())
            }
        }
    }
}

/// The schemas and the catalog that every name may begin with.
pub(crate) fn is_default(name: &str) -> bool {
    matches!(name, "public" | "main" | "freestone")
}

/// The schemas of a session's temporary tables.
fn is_temporary(name: &str) -> bool {
    matches!(name, "pg_temp" | "temp")
}

/// Whether a name means another one.
fn is_same(own: &str, (name, quoted): (&str, bool)) -> bool {
    own == name || !quoted && own.to_lowercase() == name
}

/// The places of a name among others: those that are equal, or otherwise those that differ in case.
pub(crate) fn matching<'a>(names: impl Iterator<Item = &'a str> + Clone, (name, quoted): (&str, bool)) -> Vec<usize> {
    let places = |is_it: &dyn Fn(&str) -> bool| {
        names.clone().enumerate().filter(|(_, own)| is_it(own)).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let equal = places(&|own| own == name);
    if !equal.is_empty() || quoted {
        return equal;
    }
    places(&|own| own.to_lowercase() == name)
}
