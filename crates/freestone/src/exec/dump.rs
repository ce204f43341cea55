//! The definitions of a database as SQL, in an order in which they can be executed, for EXPORT DATABASE.
//!
//! `schema` is as portable as the definitions are: DuckDB executes it if it has their types, and tables have no design.
//! What only Freestone knows, or needs the rows, is in `after`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use freestone_store::design::Design;
use freestone_store::schema::ForeignKey;
use freestone_store::{Object, ObjectKind as Kind, Snapshot, Table};

use crate::definitions;
use crate::dependencies;
use crate::internal_names::is_temporary;
use crate::provider::metadata::{
    bare_or_quoted, create_materialized, create_without_design, foreign_key, list, sql_name,
};
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
    for object in permanent(snapshot, Kind::Type) {
        let text = definitions::text_of_type(object).unwrap_or_default();
        schema.add(format!("CREATE TYPE {} AS {text}", sql_name(&object.name, snapshot)));
    }
    free_sequences(snapshot).for_each(|name| schema.add(create_sequence(snapshot, name)));
    permanent(snapshot, Kind::Macro)
        .into_iter()
        .filter_map(|object| definitions::create_statement_of_macro(&sql_name(&object.name, snapshot), object))
        .for_each(|text| schema.add(text));
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
    // Those that read materialized views follow with these when the rows are there.
    let (first, later): (Vec<_>, Vec<_>) =
        views_in_order(snapshot).into_iter().partition(|view| !needs_rows(snapshot, view));
    for (views, script) in [(&first, &mut schema), (&later, &mut after)] {
        views.iter().for_each(|view| script.add(create_view(snapshot, view)));
    }
    definitions::materialized_views(snapshot).for_each(|(table, ..)| add_copies(table, snapshot, &mut after));
    add_indexes(snapshot, false, &mut schema);
    add_indexes(snapshot, true, &mut after);
    let of_tables = tables.iter().map(|table| ("TABLE", table.name.as_str()));
    add_comments(snapshot, of_tables.chain(named(snapshot, &first)), &mut schema);
    add_comments(snapshot, named(snapshot, &later), &mut after);
    add_positions(snapshot, &tables, &mut after);
    Dump { schema: schema.0, tables: dumped_tables(&tables, snapshot), after: after.0 }
}

/// The objects of a kind that outlive their session, each after those that it uses.
fn permanent(snapshot: &Snapshot, kind: Kind) -> Vec<&Arc<Object>> {
    let objects = snapshot.objects(kind).filter(|object| !is_temporary(&object.name));
    dependencies::in_order(snapshot, objects.collect())
}

/// All views that outlive their session, each after those that it reads.
fn views_in_order(snapshot: &Snapshot) -> Vec<&Arc<Object>> {
    let views = snapshot.objects(Kind::View).filter(|view| !is_temporary(&view.name));
    let all: Vec<&Arc<Object>> =
        views.chain(definitions::materialized_views(snapshot).map(|(_, object, _)| object)).collect();
    let places: HashMap<u64, usize> =
        all.iter().enumerate().map(|(place, view)| (view.owner.unwrap_or(view.id), place)).collect();
    let needs = |at: usize| {
        let read = snapshot.all_read(&all[at].uses);
        read.iter().filter_map(|id| places.get(id).copied()).filter(|place| *place != at).collect()
    };
    dependencies::order(all.len(), needs).into_iter().map(|at| all[at]).collect()
}

/// Whether a view is a materialized one, or reads one.
fn needs_rows(snapshot: &Snapshot, view: &Object) -> bool {
    let reads_one = |id: &u64| snapshot.materialized(*id).is_some();
    view.materialized().is_some() || snapshot.all_read(&view.uses).iter().any(reads_one)
}

fn create_view(snapshot: &Snapshot, view: &Object) -> String {
    match view.owner.and_then(|owner| snapshot.table_by_id(owner)) {
        Some(table) => {
            let mut design = table.design.clone();
            forget_named_indexes(&mut design, table, snapshot);
            create_materialized(snapshot, table, &design).unwrap_or_default()
        }
        None => format!("CREATE VIEW {} AS {}", sql_name(&view.name, snapshot), view.query().unwrap_or_default()),
    }
}

#[derive(Default)]
struct Script(String);

impl Script {
    fn add(&mut self, statement: String) {
        self.0.push_str(&statement);
        self.0.push_str(";\n");
    }
}

/// Tables, each after those that its foreign keys and defaults need, where they are not in a circle.
fn tables_in_order(snapshot: &Snapshot) -> Vec<&Table> {
    let mut tables: Vec<&Table> = snapshot.tables().map(AsRef::as_ref).collect();
    tables.retain(|table| !is_temporary(&table.name) && snapshot.materialized(table.id).is_none());
    tables.sort_by(|one, other| one.name.cmp(&other.name));
    let places: HashMap<&str, usize> =
        tables.iter().enumerate().map(|(place, table)| (table.name.as_str(), place)).collect();
    let by_id: HashMap<u64, usize> = tables.iter().enumerate().map(|(place, table)| (table.id, place)).collect();
    let needs = |at: usize| {
        let keys = tables[at].schema.foreign_keys.iter();
        let of_keys = keys.filter_map(|key| places.get(key.table.as_str()).copied());
        // A default may take numbers from the sequence of another table's column.
        let used = tables[at].uses.iter().filter_map(|id| snapshot.object_by_id(*id)?.owner);
        of_keys.chain(used.filter_map(|owner| by_id.get(&owner).copied()).filter(|place| *place != at)).collect()
    };
    dependencies::order(tables.len(), needs).into_iter().map(|at| tables[at]).collect()
}

/// The sequences that belong to no column.
fn free_sequences(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    let free = snapshot.objects(Kind::Sequence).filter(|sequence| sequence.owner.is_none());
    free.map(|sequence| sequence.name.as_str()).filter(|name| !is_temporary(name))
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
    let mut design: Design = table.design.clone();
    forget_named_indexes(&mut design, table, snapshot);
    design.to_string()
}

fn forget_named_indexes(design: &mut Design, table: &Table, snapshot: &Snapshot) {
    let named: Vec<Vec<String>> =
        definitions::indexes_of(snapshot, table).into_iter().map(|(_, columns)| columns).collect();
    design.index.retain(|columns| !named.contains(columns));
}

/// The indexes of tables, or those of materialized views.
fn add_indexes(snapshot: &Snapshot, of_views: bool, script: &mut Script) {
    let is_wanted = |table: &str| !is_temporary(table) && definitions::is_materialized(snapshot, table) == of_views;
    for (name, index) in definitions::indexes(snapshot).filter(|(_, index)| is_wanted(&index.table)) {
        let (table, columns) = (sql_name(&index.table, snapshot), list(&index.columns));
        script.add(format!("CREATE INDEX {} ON {table} ({columns})", bare_or_quoted(own_part_of(name, snapshot))));
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

/// The kinds and names of views.
fn named<'s>(snapshot: &'s Snapshot, views: &[&'s Arc<Object>]) -> impl Iterator<Item = (&'static str, &'s str)> {
    views.iter().map(|view| {
        let kind = if view.kind() == Kind::MaterializedView { "MATERIALIZED VIEW" } else { "VIEW" };
        (kind, dependencies::name_of_view(snapshot, view))
    })
}

fn add_comments<'s>(
    snapshot: &Snapshot,
    described: impl Iterator<Item = (&'static str, &'s str)>,
    script: &mut Script,
) {
    for (kind, name) in described {
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
    fn files_have_different_plain_names() {
        let mut taken = HashSet::new();
        let names = ["s.t", "s_t", "S T", "é\"/.."].map(|name| free_file_name(name, &mut taken));
        assert_eq!(names, ["s_t", "s_t_1", "s_t_2", "_____"]);
    }
}
