//! The objects of the catalog that are no tables: views, macros, types, sequences, and what belongs to tables.
//!
//! An object has an id, which no table and no other object has, and is found by it, by its kind and name, or by what it
//! belongs to. Names of different kinds do not clash, but those of tables and views do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An object of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// The id, from the same counter as those of tables.
    pub id: u64,
    /// The name; empty for an object of which its owner has one at most, such as its comments.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The id of the table or object to which it belongs, and with which it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u64>,
    /// The ids of the tables and objects on which it depends.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub uses: BTreeSet<u64>,
    /// What it is.
    pub definition: Definition,
}

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Definition {
    /// A schema. The names of what is in it begin with its own.
    Schema,
    /// A view.
    View {
        /// The text of its query.
        query: String,
    },
    /// A materialized view: its owner is the table that has its rows.
    MaterializedView(MaterializedView),
    /// A macro.
    Macro {
        /// The parameters with their defaults, each as it is written.
        parameters: Vec<String>,
        /// The text of what it stands for.
        body: String,
        /// Whether that is a query, not a value.
        is_query: bool,
    },
    /// A name of a type.
    Type {
        /// The text of the type.
        text: String,
    },
    /// A sequence.
    Sequence(Sequence),
    /// The name of an ordered index of a table's design.
    Index {
        /// The ids of the columns.
        columns: Vec<u32>,
    },
    /// The comments on a table or view.
    Comments(Comments),
    /// The columns of a table that are not stored.
    GeneratedColumns {
        /// In the order of their positions.
        columns: Vec<GeneratedColumn>,
    },
    /// What becomes of a temporary table at the end of each transaction.
    OnCommit {
        /// Whether the table is dropped. Otherwise its rows are deleted.
        drops: bool,
    },
}

/// What the rows of a materialized view are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaterializedView {
    /// The text of its query.
    pub query: String,
    /// Whether each commit that changes rows of its tables computes it anew.
    pub on_commit: bool,
    /// Whether its rows have been computed.
    pub is_populated: bool,
}

/// The numbers of a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// The first number.
    pub start: i64,
    /// The difference of two numbers, which is not 0.
    pub increment: i64,
    /// The lowest number.
    pub min: i64,
    /// The highest number.
    pub max: i64,
    /// Whether it begins again after the last number.
    pub cycle: bool,
    /// Where it goes on. It changes independently of transactions.
    pub position: Position,
}

/// Where a sequence goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// At its first number: it has given none.
    Start,
    /// At this number, up to which numbers may have been given.
    Next(i64),
    /// All numbers were given.
    End,
}

/// What is said of a table or view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comments {
    /// Of the table or view itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<String>,
    /// Of columns, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, String>,
}

/// A column that is computed from others of its row whenever it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedColumn {
    /// Its name.
    pub name: String,
    /// Its position among all columns of the table.
    pub at: usize,
    /// `None` for that of the expression.
    pub data_type: Option<String>,
    /// As it was declared; it may name other such columns.
    pub declared: String,
    /// The same over stored columns alone.
    pub expression: String,
}

/// The kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "they are those of definitions")]
pub enum Kind {
    Schema,
    View,
    MaterializedView,
    Macro,
    Type,
    Sequence,
    Index,
    Comments,
    GeneratedColumns,
    OnCommit,
}

impl Kind {
    /// The kind in a message.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Schema => "schema",
            Kind::View => "view",
            Kind::MaterializedView => "materialized view",
            Kind::Macro => "macro",
            Kind::Type => "type",
            Kind::Sequence => "sequence",
            Kind::Index => "index",
            Kind::Comments => "comment",
            Kind::GeneratedColumns => "generated column",
            Kind::OnCommit => "ON COMMIT",
        }
    }
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self.definition {
            Definition::Schema => Kind::Schema,
            Definition::View { .. } => Kind::View,
            Definition::MaterializedView(_) => Kind::MaterializedView,
            Definition::Macro { .. } => Kind::Macro,
            Definition::Type { .. } => Kind::Type,
            Definition::Sequence(_) => Kind::Sequence,
            Definition::Index { .. } => Kind::Index,
            Definition::Comments(_) => Kind::Comments,
            Definition::GeneratedColumns { .. } => Kind::GeneratedColumns,
            Definition::OnCommit { .. } => Kind::OnCommit,
        }
    }

    /// The query of a view, which may be a materialized one.
    pub fn query(&self) -> Option<&str> {
        match &self.definition {
            Definition::View { query } => Some(query),
            Definition::MaterializedView(view) => Some(&view.query),
            _ => None,
        }
    }

    /// Gives a view, which may be a materialized one, another query.
    pub fn set_query(&mut self, text: String) {
        match &mut self.definition {
            Definition::View { query } => *query = text,
            Definition::MaterializedView(view) => view.query = text,
            _ => {}
        }
    }

    /// What it is as a materialized view.
    pub fn materialized(&self) -> Option<&MaterializedView> {
        match &self.definition {
            Definition::MaterializedView(view) => Some(view),
            _ => None,
        }
    }

    /// Whether another object is the same, but for what it depends on.
    pub(super) fn is_same_but_uses(&self, other: &Object) -> bool {
        (self.id, &self.name, self.owner, &self.definition) == (other.id, &other.name, other.owner, &other.definition)
    }

    /// Whether another object is the same, but for the numbers that a sequence has given.
    pub(super) fn is_same_but_position(&self, other: &Object) -> bool {
        let mut moved = other.clone();
        if let (Definition::Sequence(own), Definition::Sequence(other)) = (&self.definition, &mut moved.definition) {
            other.position = own.position;
        }
        *self == moved
    }
}

/// The objects of a state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    by_id: BTreeMap<u64, Arc<Object>>,
    by_name: BTreeMap<Kind, BTreeMap<String, Arc<Object>>>,
    /// Owner, kind and id.
    by_owner: BTreeSet<(u64, Kind, u64)>,
    /// The tables that are materialized views.
    materialized: BTreeSet<u64>,
}

impl Objects {
    pub fn get(&self, id: u64) -> Option<&Arc<Object>> {
        self.by_id.get(&id)
    }

    /// All of them, in the order of their ids.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.by_id.values()
    }

    pub fn named(&self, kind: Kind, name: &str) -> Option<&Arc<Object>> {
        self.by_name.get(&kind)?.get(name)
    }

    /// Those of a kind that has names, in the order of these.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Arc<Object>> {
        self.by_name.get(&kind).into_iter().flat_map(BTreeMap::values)
    }

    /// Those of a kind that belong to a table or object.
    pub fn owned(&self, owner: u64, kind: Kind) -> impl Iterator<Item = &Arc<Object>> {
        let ids = self.by_owner.range((owner, kind, 0)..=(owner, kind, u64::MAX));
        ids.filter_map(|(_, _, id)| self.get(*id))
    }

    /// The ids of the tables that are materialized views.
    pub fn materialized_views(&self) -> &BTreeSet<u64> {
        &self.materialized
    }

    /// What a table is as a materialized view.
    pub fn materialized(&self, table: u64) -> Option<&Arc<Object>> {
        self.owned(table, Kind::MaterializedView).next()
    }

    /// The ids of what some tables and views are, and of what they read over others.
    pub fn all_read(&self, some: &BTreeSet<u64>) -> BTreeSet<u64> {
        let (mut known, mut waiting) = (some.clone(), some.iter().copied().collect::<Vec<_>>());
        while let Some(next) = waiting.pop() {
            let object = self.get(next).or_else(|| self.materialized(next));
            waiting.extend(object.iter().flat_map(|object| &object.uses).filter(|id| known.insert(**id)));
        }
        known
    }

    /// The columns of a table that are not stored.
    pub fn generated_columns(&self, table: u64) -> &[GeneratedColumn] {
        match self.owned(table, Kind::GeneratedColumns).next().map(|object| &object.definition) {
            Some(Definition::GeneratedColumns { columns }) => columns,
            _ => &[],
        }
    }

    /// Adds an object.
    ///
    /// # Errors
    /// There is one with its id or its name.
    pub fn insert(&mut self, object: Object) -> Result<(), String> {
        let kind = object.kind();
        if self.by_id.contains_key(&object.id) {
            return Err(format!("object number {} is made twice", object.id));
        }
        if !object.name.is_empty() && self.named(kind, &object.name).is_some() {
            return Err(format!("{} {} is made twice", kind.word(), object.name));
        }
        let object = Arc::new(object);
        if !object.name.is_empty() {
            self.by_name.entry(kind).or_default().insert(object.name.clone(), object.clone());
        }
        self.by_owner.extend(object.owner.map(|owner| (owner, kind, object.id)));
        self.materialized.extend(object.owner.filter(|_| kind == Kind::MaterializedView));
        self.by_id.insert(object.id, object);
        Ok(())
    }

    /// Replaces objects by others with their ids, which may have each other's names.
    ///
    /// # Errors
    /// One does not exist, or a name is taken.
    pub fn replace(&mut self, objects: &[Object]) -> Result<(), String> {
        objects.iter().try_for_each(|object| self.take(object.id).map(drop))?;
        objects.iter().try_for_each(|object| self.insert(object.clone()))
    }

    /// Removes an object with all that belongs to it.
    ///
    /// # Errors
    /// It does not exist.
    pub fn remove(&mut self, id: u64) -> Result<(), String> {
        self.take(id)?;
        self.remove_owned(id);
        Ok(())
    }

    /// Whether anything belongs to a table or object.
    pub fn has_owned(&self, owner: u64) -> bool {
        self.first_owned(owner).is_some()
    }

    /// Removes what belongs to a table or object.
    pub fn remove_owned(&mut self, owner: u64) {
        while let Some(id) = self.first_owned(owner) {
            // It is there, because it was found.
            let _ = self.remove(id);
        }
    }

    fn first_owned(&self, owner: u64) -> Option<u64> {
        let first = self.by_owner.range((owner, Kind::Schema, 0)..).next();
        first.filter(|(own, _, _)| *own == owner).map(|(_, _, id)| *id)
    }

    fn take(&mut self, id: u64) -> Result<Arc<Object>, String> {
        let object = self.by_id.remove(&id).ok_or_else(|| format!("object number {id} does not exist"))?;
        let kind = object.kind();
        if let Some(names) = self.by_name.get_mut(&kind).filter(|_| !object.name.is_empty()) {
            names.remove(&object.name);
        }
        if let Some(owner) = object.owner {
            self.by_owner.remove(&(owner, kind, id));
            if kind == Kind::MaterializedView {
                self.materialized.remove(&owner);
            }
        }
        Ok(object)
    }

    /// Keeps some of them.
    pub fn retain(&mut self, is_kept: impl Fn(&Object) -> bool) {
        let gone: Vec<u64> = self.all().filter(|object| !is_kept(object)).map(|object| object.id).collect();
        // One may have gone with another.
        gone.into_iter().for_each(|id| drop(self.remove(id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: u64, name: &str, owner: Option<u64>, definition: Definition) -> Object {
        Object { id, name: name.into(), owner, uses: BTreeSet::new(), definition }
    }

    fn view(id: u64, name: &str) -> Object {
        object(id, name, None, Definition::View { query: "SELECT 1".into() })
    }

    #[test]
    fn names_of_different_kinds_do_not_clash() {
        let mut objects = Objects::default();
        objects.insert(view(1, "a")).unwrap();
        objects.insert(object(2, "a", None, Definition::Type { text: "INT".into() })).unwrap();
        assert_eq!(objects.insert(view(3, "a")).unwrap_err(), "view a is made twice");
        assert_eq!(objects.insert(view(2, "b")).unwrap_err(), "object number 2 is made twice");
        assert_eq!(objects.named(Kind::View, "a").map(|object| object.id), Some(1));
        assert_eq!(objects.named(Kind::Type, "a").map(|object| object.id), Some(2));
        assert!(objects.named(Kind::Macro, "a").is_none() && objects.get(3).is_none());
    }

    #[test]
    fn objects_exchange_their_names() {
        let mut objects = Objects::default();
        objects.insert(view(1, "a")).unwrap();
        objects.insert(view(2, "b")).unwrap();
        objects.replace(&[view(1, "b"), view(2, "a")]).unwrap();
        assert_eq!(objects.of_kind(Kind::View).map(|object| object.id).collect::<Vec<_>>(), [2, 1]);
        assert!(objects.clone().replace(&[view(1, "a")]).is_err());
        assert_eq!(objects.replace(&[view(7, "c")]).unwrap_err(), "object number 7 does not exist");
    }

    #[test]
    fn what_belongs_to_something_goes_with_it() {
        let mut objects = Objects::default();
        objects.insert(view(1, "v")).unwrap();
        objects.insert(object(2, "", Some(1), Definition::Comments(Comments::default()))).unwrap();
        objects.insert(object(3, "i", Some(9), Definition::Index { columns: vec![0] })).unwrap();
        objects.insert(object(4, "", Some(9), Definition::OnCommit { drops: true })).unwrap();
        objects.insert(object(5, "j", Some(10), Definition::Index { columns: vec![0] })).unwrap();
        assert_eq!(objects.owned(9, Kind::Index).count(), 1);
        objects.remove_owned(9);
        objects.remove(1).unwrap();
        assert_eq!(objects.all().map(|object| object.id).collect::<Vec<_>>(), [5]);
        assert!(objects.by_owner.len() == 1 && objects.named(Kind::Index, "i").is_none());
    }

    #[test]
    fn objects_are_read_as_they_were_written() {
        let numbers = Sequence {
            start: 1,
            increment: -3,
            min: i64::MIN,
            max: i64::MAX,
            cycle: true,
            position: Position::Next(i64::MIN),
        };
        let comments = Comments { own: None, columns: BTreeMap::from([("a".into(), "b".into())]) };
        for definition in [
            Definition::Schema,
            Definition::Macro { parameters: vec!["a".into()], body: "a + 1".into(), is_query: false },
            Definition::MaterializedView(MaterializedView {
                query: "SELECT 1".into(),
                on_commit: true,
                is_populated: false,
            }),
            Definition::Sequence(numbers),
            Definition::Comments(comments),
            Definition::OnCommit { drops: false },
        ] {
            let written = Object { uses: BTreeSet::from([3, 4]), ..object(7, "x", Some(2), definition) };
            let text = serde_json::to_string(&written).unwrap();
            assert_eq!(serde_json::from_str::<Object>(&text).unwrap(), written, "{text}");
        }
    }
}
