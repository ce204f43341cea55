//! The definitions of a database as SQL, in an order in which they can be executed, for EXPORT DATABASE.
//!
//! `schema` is as portable as the definitions are: DuckDB executes it if it has their types, and tables have no design.
//! What only Freestone knows, or needs the rows, is in `after`.

use std::collections::{BTreeSet, HashMap, HashSet};

use datafusion::arrow::datatypes::DataType;
use freestone_store::design::Design;
use freestone_store::schema::ForeignKey;
use freestone_store::{Snapshot, Table};

use crate::definitions;
use crate::internal_names::is_temporary;
use crate::provider::metadata::{bare_or_quoted, create_without_design, foreign_key, list, sql_name};
use crate::sequences;
use crate::sql::statement::{literal, quote};

/// A database as SQL, without its rows.
#[derive(Debug)]
pub(crate) struct Dump {
    /// The statements that create everything.
    pub schema: String,
    /// The tables in the order in which their rows are loaded.
    pub tables: Vec<DumpedTable>,
    /// The statements after the rows are loaded: copies, positions of sequences, and foreign keys in circles.
    pub after: String,
}

/// A table whose rows are exported.
#[derive(Debug)]
pub(crate) struct DumpedTable {
    /// The name in the catalog.
    pub name: String,
    /// The same in SQL.
    pub sql_name: String,
    /// The stored columns, without the generated ones.
    pub columns: Vec<(String, DataType)>,
    /// The name of its file, without the extension. No two tables have the same.
    pub file: String,
}

/// The definitions of a snapshot but what is temporary.
pub(crate) fn dump(snapshot: &Snapshot) -> Dump {
    let tables = tables_in_order(snapshot);
    let mut schema = Script::default();
    definitions::schemas(snapshot).for_each(|name| schema.add(format!("CREATE SCHEMA {}", bare_or_quoted(name))));
    for (name, text) in by_dependency(definitions::types(snapshot).collect(), &HashMap::new()) {
        schema.add(format!("CREATE TYPE {} AS {text}", sql_name(name, snapshot)));
    }
    free_sequences(snapshot).for_each(|name| schema.add(create_sequence(snapshot, name)));
    let macros: Vec<(&str, &str)> = definitions::macros(snapshot).collect();
    let words_of_macros = macros.iter().map(|(name, text)| (own_part(name).to_owned(), words(text))).collect();
    by_dependency(macros, &HashMap::new()).into_iter().for_each(|(_, text)| schema.add(text.to_owned()));
    let mut after = Script::default();
    for (at, table) in tables.iter().enumerate() {
        let known = &tables[..=at];
        let is_known = |key: &ForeignKey| known.iter().any(|table| table.name == key.table);
        let design = design_without_named_indexes(table, snapshot);
        let with = if design == "preset = 'auto'" { String::new() } else { format!(" WITH ({design})") };
        schema.add(format!("{}{with}", create_without_design(table, snapshot, &is_known)));
        for key in table.schema.foreign_keys.iter().filter(|key| !is_known(key)) {
            let name = sql_name(&table.name, snapshot);
            after.add(format!("ALTER TABLE {name} ADD {}", foreign_key(table, key, snapshot)));
        }
        add_copies(table, snapshot, &mut after);
    }
    let views = definitions::views(snapshot).map(|(name, text)| (name.as_str(), text));
    let views = views.filter(|(name, _)| !is_temporary(name)).collect();
    for (name, text) in by_dependency(views, &words_of_macros) {
        schema.add(format!("CREATE VIEW {} AS {text}", sql_name(name, snapshot)));
    }
    add_indexes(snapshot, &mut schema);
    add_comments(snapshot, &tables, &mut schema);
    add_positions(snapshot, &tables, &mut after);
    Dump { schema: schema.0, tables: dumped_tables(&tables, snapshot), after: after.0 }
}

#[derive(Default)]
struct Script(String);

impl Script {
    fn add(&mut self, statement: String) {
        self.0.push_str(&statement);
        self.0.push_str(";\n");
    }
}

/// Tables, each after those that its foreign keys reference, where they are not in a circle.
fn tables_in_order(snapshot: &Snapshot) -> Vec<&Table> {
    let mut tables: Vec<&Table> = snapshot.tables().map(AsRef::as_ref).collect();
    tables.retain(|table| !is_temporary(&table.name));
    tables.sort_by(|one, other| one.name.cmp(&other.name));
    let places: HashMap<&str, usize> =
        tables.iter().enumerate().map(|(place, table)| (table.name.as_str(), place)).collect();
    let needs = |at: usize| {
        let keys = tables[at].schema.foreign_keys.iter();
        keys.filter_map(|key| places.get(key.table.as_str()).copied()).collect()
    };
    in_order(tables.len(), needs).into_iter().map(|at| tables[at]).collect()
}

/// The numbers below `count`, each after those that it needs, where they are not in a circle.
fn in_order(count: usize, needs: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    let (mut order, mut visited) = (Vec::with_capacity(count), vec![false; count]);
    for first in 0..count {
        // A stack of its own, because chains may be long: the number, and what it still waits for.
        let mut stack = vec![];
        if !std::mem::replace(&mut visited[first], true) {
            stack.push((first, needs(first)));
        }
        while let Some((at, waiting)) = stack.last_mut() {
            match waiting.pop() {
                Some(needed) if visited[needed] => {}
                Some(needed) => {
                    visited[needed] = true;
                    stack.push((needed, needs(needed)));
                }
                None => {
                    order.push(*at);
                    stack.pop();
                }
            }
        }
    }
    order
}

/// Objects, each after those whose names are words of its text or of a macro that it names.
fn by_dependency<'a>(
    mut objects: Vec<(&'a str, &'a str)>,
    words_of_macros: &HashMap<String, HashSet<String>>,
) -> Vec<(&'a str, &'a str)> {
    objects.sort_unstable();
    let texts: Vec<HashSet<String>> =
        objects.iter().map(|(_, text)| with_macros(words(text), words_of_macros)).collect();
    let needs = |at: usize| {
        let is_needed = |other: &usize| *other != at && texts[at].contains(own_part(objects[*other].0));
        (0..objects.len()).filter(is_needed).collect()
    };
    in_order(objects.len(), needs).into_iter().map(|at| objects[at]).collect()
}

/// Words, and those of the macros among them.
fn with_macros(mut found: HashSet<String>, words_of_macros: &HashMap<String, HashSet<String>>) -> HashSet<String> {
    let mut waiting: Vec<String> = found.iter().cloned().collect();
    while let Some(word) = waiting.pop() {
        for inner in words_of_macros.get(&word).into_iter().flatten() {
            if found.insert(inner.clone()) {
                waiting.push(inner.clone());
            }
        }
    }
    found
}

/// The names and other words of a text, as the catalog has them.
fn words(text: &str) -> HashSet<String> {
    freestone_sql::names_in(text).map(|(name, _)| name).collect()
}

/// The last part of a name with a schema.
fn own_part(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, own)| own)
}

/// The sequences that belong to no column.
fn free_sequences(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    let owned: BTreeSet<&str> =
        snapshot.tables().flat_map(|table| owned_sequences(table).map(|(_, name)| name)).collect();
    sequences::names(snapshot).filter(move |name| !is_temporary(name) && !owned.contains(name))
}

/// The columns whose values come from a sequence of their own, with its name.
fn owned_sequences(table: &Table) -> impl Iterator<Item = (&str, &str)> {
    let columns = table.schema.columns.iter().enumerate();
    columns.filter_map(|(at, column)| Some((column.name.as_str(), table.schema.sequence_of(at)?)))
}

fn create_sequence(snapshot: &Snapshot, name: &str) -> String {
    let options = sequences::find(snapshot, name).map(|sequence| {
        let sequences::Sequence { id: _, start, increment, min, max, cycle } = sequence;
        let cycle = if cycle { "CYCLE" } else { "NO CYCLE" };
        format!(" INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START WITH {start} {cycle}")
    });
    format!("CREATE SEQUENCE {}{}", sql_name(name, snapshot), options.unwrap_or_default())
}

/// The design, as options. Indexes with a name follow as CREATE INDEX.
fn design_without_named_indexes(table: &Table, snapshot: &Snapshot) -> String {
    let named: Vec<Vec<String>> = definitions::indexes(snapshot)
        .filter(|(_, index)| index.table == table.name)
        .map(|(_, index)| index.columns)
        .collect();
    let mut design: Design = table.design.clone();
    design.index.retain(|columns| !named.contains(columns));
    design.to_string()
}

fn add_indexes(snapshot: &Snapshot, script: &mut Script) {
    for (name, index) in definitions::indexes(snapshot).filter(|(_, index)| !is_temporary(&index.table)) {
        let (table, columns) = (sql_name(&index.table, snapshot), list(&index.columns));
        script.add(format!("CREATE INDEX {} ON {table} ({columns})", bare_or_quoted(own_part_of(&name, snapshot))));
    }
}

/// A name without its schema, which is that of its table.
fn own_part_of<'a>(name: &'a str, snapshot: &Snapshot) -> &'a str {
    definitions::schema_of(snapshot, name).map_or(name, |(_, own)| own)
}

fn add_copies(table: &Table, snapshot: &Snapshot, script: &mut Script) {
    for copy in snapshot.copies(table) {
        let columns: Vec<String> = copy.schema.columns.iter().map(|column| column.name.clone()).collect();
        let (table, name) = (sql_name(&table.name, snapshot), bare_or_quoted(&copy.name));
        script.add(format!("ALTER TABLE {table} ADD COPY {name} ({}) WITH ({})", list(&columns), copy.design));
    }
}

fn add_comments(snapshot: &Snapshot, tables: &[&Table], script: &mut Script) {
    let views = definitions::views(snapshot).map(|(name, _)| name.as_str());
    let views = views.filter(|name| !is_temporary(name)).map(|name| ("VIEW", name));
    for (kind, name) in tables.iter().map(|table| ("TABLE", table.name.as_str())).chain(views) {
        let (comments, name) = (definitions::comments(snapshot, name), sql_name(name, snapshot));
        if let Some(own) = comments.own {
            script.add(format!("COMMENT ON {kind} {name} IS {}", literal(&own)));
        }
        for (column, text) in comments.columns {
            script.add(format!("COMMENT ON COLUMN {name}.{} IS {}", bare_or_quoted(&column), literal(&text)));
        }
    }
}

/// Lets the sequences that have given numbers go on after them.
fn add_positions(snapshot: &Snapshot, tables: &[&Table], script: &mut Script) {
    // A column's sequence gets the usual name when its table is created.
    let owned = tables.iter().flat_map(|table| {
        owned_sequences(table).map(|(column, name)| (name.to_owned(), format!("{}_{column}_seq", table.name)))
    });
    let free = free_sequences(snapshot).map(|name| (name.to_owned(), name.to_owned()));
    for (name, usual) in owned.chain(free) {
        let position = sequences::find(snapshot, &name).and_then(|found| sequences::setval_arguments(snapshot, &found));
        if let Some((value, is_given)) = position {
            let name = literal(&sequence_text(&usual, snapshot));
            script.add(format!("SELECT setval({name}, {value}, {is_given})"));
        }
    }
}

/// A name of a sequence as `setval` takes it.
fn sequence_text(name: &str, snapshot: &Snapshot) -> String {
    match definitions::schema_of(snapshot, name) {
        Some((schema, own)) => format!("{}.{}", quote(schema), quote(own)),
        None => quote(name),
    }
}

fn dumped_tables(tables: &[&Table], snapshot: &Snapshot) -> Vec<DumpedTable> {
    let mut taken = HashSet::new();
    let dumped = |table: &&Table| DumpedTable {
        name: table.name.clone(),
        sql_name: sql_name(&table.name, snapshot),
        columns: table.schema.columns.iter().map(|column| (column.name.clone(), column.data_type.clone())).collect(),
        file: free_file_name(&table.name, &mut taken),
    };
    tables.iter().map(dumped).collect()
}

/// A file name from the letters and digits of a table's name, with a number if another table has it.
fn free_file_name(table: &str, taken: &mut HashSet<String>) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    let name: String = table.chars().map(plain).take(100).collect();
    let numbered = (1..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| taken.insert(name.clone())).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_follow_what_they_need() {
        let views =
            vec![("a", "SELECT * FROM s.b"), ("b", "SELECT m(1)"), ("s.b", "SELECT * FROM \"C\""), ("C", "SELECT 1")];
        let macros = HashMap::from([("m".to_owned(), words("CREATE MACRO m(x) AS (SELECT x FROM \"C\")"))]);
        let order: Vec<&str> = by_dependency(views, &macros).into_iter().map(|(name, _)| name).collect();
        assert_eq!(order, ["C", "s.b", "b", "a"]);
        let circle = vec![("a", "SELECT b"), ("b", "SELECT a")];
        assert_eq!(by_dependency(circle, &HashMap::new()).len(), 2);
    }

    #[test]
    fn files_have_different_plain_names() {
        let mut taken = HashSet::new();
        let names = ["s.t", "s_t", "S T", "é\"/.."].map(|name| free_file_name(name, &mut taken));
        assert_eq!(names, ["s_t", "s_t_1", "s_t_2", "_____"]);
    }
}
