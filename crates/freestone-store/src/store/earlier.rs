//! The catalog of format version 2, in which all that is no table was a view: schemas, macros, types, sequences and what
//! belongs to tables had names that begin with `freestone$`. They become objects when they are read.
//!
//! The ids of these objects follow those that the log has given, in the order of the entries. A log of version 2 is not written
//! any more, so they are the same whenever its last state is read. What they use is not known: see `upgrade.rs`.

use super::objects::{Comments, Definition, GeneratedColumn, Kind, Object, Objects, Position, Sequence};
use super::state::State;

/// The beginning of the names of entries that are no views. The kind, a colon and a name follow.
const PREFIX: &str = "freestone$";

/// The objects that the entries of a state stand for.
///
/// # Errors
/// An entry has no form that version 2 gave it.
pub fn objects(state: &State) -> Result<Objects, String> {
    let mut made = Made { state, objects: Objects::default(), last_id: state.last_id };
    // Comments belong to views, so views come first.
    let is_view = |name: &str| !name.starts_with(PREFIX);
    for (name, query) in state.entries.iter().filter(|(name, _)| is_view(name)) {
        made.add(name, None, Definition::View { query: query.clone() })?;
    }
    for (name, text) in state.entries.iter().filter(|(name, _)| !is_view(name)) {
        made.add_entry(name, text).map_err(|reason| format!("the entry {name} of format version 2: {reason}"))?;
    }
    Ok(made.objects)
}

struct Made<'s> {
    state: &'s State,
    objects: Objects,
    last_id: u64,
}

impl Made<'_> {
    fn add(&mut self, name: &str, owner: Option<u64>, definition: Definition) -> Result<(), String> {
        self.last_id += 1;
        let object = Object { id: self.last_id, name: name.to_owned(), owner, uses: Default::default(), definition };
        self.objects.insert(object)
    }

    fn add_entry(&mut self, entry: &str, text: &str) -> Result<(), String> {
        let parts = entry.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'));
        let (kind, name) = parts.ok_or("it has no kind")?;
        match kind {
            "schema" => self.add(name, None, Definition::Schema),
            "macro" => self.add(name, None, macro_of(text).ok_or("it is no CREATE MACRO")?),
            "type" => self.add(name, None, Definition::Type { text: text.to_owned() }),
            "sequence" => self.add_sequence(name, text),
            "index" => self.add_index(name, text),
            "generated" => {
                let columns: Vec<GeneratedColumn> = serde_json::from_str(text).map_err(|error| error.to_string())?;
                self.add_owned(name, Definition::GeneratedColumns { columns })
            }
            "comment" => {
                let comments: Comments = serde_json::from_str(text).map_err(|error| error.to_string())?;
                self.add_owned(name, Definition::Comments(comments))
            }
            // The first is read with its sequence. The second is of temporary tables, whose sessions have ended.
            "position" | "on_commit" => Ok(()),
            _ => Err("its kind is not known".into()),
        }
    }

    /// Adds what belongs to a table or view, if that is still there.
    fn add_owned(&mut self, owner: &str, definition: Definition) -> Result<(), String> {
        let table = self.state.tables.get(owner).map(|table| table.id);
        match table.or_else(|| self.objects.named(Kind::View, owner).map(|view| view.id)) {
            Some(owner) => self.add("", Some(owner), definition),
            None => Ok(()),
        }
    }

    /// Adds a sequence: its number, start, increment, lowest and highest number, and whether it begins again.
    fn add_sequence(&mut self, name: &str, text: &str) -> Result<(), String> {
        let parts: Vec<&str> = text.split(' ').collect();
        let [number, start, increment, min, max, cycle] = parts[..] else {
            return Err("a sequence has six parts".into());
        };
        let int = |text: &str| text.parse::<i64>().map_err(|_| format!("{text} is no number"));
        let position = match self.state.entries.get(&format!("{PREFIX}position:{number}")) {
            None => Position::Start,
            Some(next) => next.parse().map_or(Position::End, Position::Next),
        };
        let (start, increment, min, max) = (int(start)?, int(increment)?, int(min)?, int(max)?);
        let cycle = cycle.parse().map_err(|_| format!("{cycle} is neither true nor false"))?;
        if increment == 0 {
            return Err("its increment is 0".into());
        }
        let mut tables = self.state.tables.values();
        let owner = tables.find(|table| table.schema.sequences().iter().any(|own| own == name)).map(|table| table.id);
        self.add(name, owner, Definition::Sequence(Sequence { start, increment, min, max, cycle, position }))
    }

    /// Adds the name of an index: `CREATE INDEX "name" ON "table" ("column", …)`. It may be left of one that went with its table
    /// or its design.
    fn add_index(&mut self, name: &str, text: &str) -> Result<(), String> {
        let names = quoted_names(text);
        let [_, table, columns @ ..] = &names[..] else { return Err("it is no CREATE INDEX".into()) };
        let Some(table) =
            self.state.tables.get(table).filter(|table| table.design.index.iter().any(|own| own == columns))
        else {
            return Ok(());
        };
        let id = |column: &String| {
            table.schema.columns.iter().position(|own| own.name == *column).map(|at| table.schema.id(at))
        };
        let columns = columns.iter().map(id).collect::<Option<Vec<u32>>>().ok_or("a column does not exist")?;
        let owner = table.id;
        self.add(name, Some(owner), Definition::Index { columns })
    }
}

/// The names in quotes.
fn quoted_names(text: &str) -> Vec<String> {
    let (mut names, mut current) = (vec![], None::<String>);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (&mut current, character) {
            (None, '"') => current = Some(String::new()),
            (Some(name), '"') if characters.next_if_eq(&'"').is_some() => name.push('"'),
            (Some(_), '"') => names.extend(current.take()),
            (Some(name), other) => name.push(other),
            (None, _) => {}
        }
    }
    names
}

/// The macro of a `CREATE MACRO name(parameter, …) AS value`, or `AS TABLE query`.
fn macro_of(text: &str) -> Option<Definition> {
    let (mut parameters, mut start, mut depth, mut quote) = (vec![], None, 0u32, None);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) => quote = (character != open).then_some(open),
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[') => {
                depth += 1;
                start = start.or(Some(at + 1));
            }
            (None, ')' | ']' | ',') => {
                let from = start?;
                if depth == 1 {
                    parameters.push(text[from..at].trim().to_owned());
                    start = Some(at + 1);
                }
                depth -= u32::from(character != ',');
                if depth == 0 {
                    parameters.retain(|parameter| !parameter.is_empty());
                    let body = text[at + 1..].strip_prefix(" AS ")?;
                    let query = body.strip_prefix("TABLE ");
                    let is_query = query.is_some();
                    return Some(Definition::Macro { parameters, body: query.unwrap_or(body).to_owned(), is_query });
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow_schema::DataType;

    use super::*;
    use crate::design::Design;
    use crate::schema::{Column, TableSchema};
    use crate::table::Table;

    /// A state with table 4 and these entries.
    fn state(entries: &[(&str, &str)]) -> State {
        let column = |name: &str| Column { name: name.into(), data_type: DataType::Int64, nullable: true };
        let schema = TableSchema { columns: vec![column("a"), column("b \" c")], ..TableSchema::default() };
        let design = Design { index: vec![vec!["b \" c".into(), "a".into()]], ..Design::default() };
        let table = Arc::new(Table::new(4, "t".into(), schema, design));
        let entries: BTreeMap<String, String> =
            entries.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        State { last_id: 9, tables: [("t".to_owned(), table)].into(), entries: entries.into(), ..State::default() }
    }

    fn one(entry: &str, text: &str) -> Object {
        let found = objects(&state(&[(entry, text)])).expect("an entry of version 2");
        let all: Vec<_> = found.all().collect();
        assert_eq!(all.len(), 1, "{entry}");
        assert_eq!(all[0].id, 10);
        all[0].as_ref().clone()
    }

    #[test]
    fn macros_have_their_parameters() {
        for (text, parameters, body, is_query) in [
            ("CREATE MACRO \"m\"() AS 1", vec![], "1", false),
            ("CREATE MACRO m(a, b := 2) AS a + (b)", vec!["a", "b := 2"], "a + (b)", false),
            (
                "CREATE MACRO \"m(\"(a := f('x,)', [1, 2]), \"b,\") AS TABLE SELECT 1",
                vec!["a := f('x,)', [1, 2])", "\"b,\""],
                "SELECT 1",
                true,
            ),
        ] {
            let parameters = parameters.into_iter().map(str::to_owned).collect();
            let wanted = Definition::Macro { parameters, body: body.into(), is_query };
            assert_eq!(one("freestone$macro:m", text).definition, wanted, "{text}");
        }
        for text in ["", "CREATE MACRO m", "CREATE MACRO m(a", "CREATE MACRO m(a) IS 1", "CREATE MACRO m) AS 1"] {
            assert!(objects(&state(&[("freestone$macro:m", text)])).is_err(), "{text}");
        }
    }

    #[test]
    fn sequences_go_on_where_they_were() {
        let text = "77 1 2 1 100 true";
        for (position, wanted) in
            [(None, Position::Start), (Some("5"), Position::Next(5)), (Some("end"), Position::End)]
        {
            let mut entries = vec![("freestone$sequence:s", text)];
            entries.extend(position.map(|position| ("freestone$position:77", position)));
            let found = objects(&state(&entries)).expect("a sequence");
            let sequence = Sequence { start: 1, increment: 2, min: 1, max: 100, cycle: true, position: wanted };
            assert_eq!(found.named(Kind::Sequence, "s").expect("there").definition, Definition::Sequence(sequence));
        }
        for text in ["", "1 2 3", "1 1 0 1 9 true", "1 x 1 1 9 true", "1 1 1 1 9 yes"] {
            assert!(objects(&state(&[("freestone$sequence:s", text)])).is_err(), "{text}");
        }
    }

    #[test]
    fn what_belongs_to_tables_has_their_ids() {
        let index = one("freestone$index:i", r#"CREATE INDEX "i" ON "t" ("b "" c", "a")"#);
        assert_eq!((index.owner, index.definition), (Some(4), Definition::Index { columns: vec![1, 0] }));
        let comment = one("freestone$comment:t", r#"{"own":"said","columns":{"a":"of a"}}"#);
        assert_eq!((comment.owner, comment.kind()), (Some(4), Kind::Comments));
        let generated = r#"[{"name":"g","at":2,"data_type":null,"declared":"a + 1","expression":"a + 1"}]"#;
        assert_eq!(one("freestone$generated:t", generated).owner, Some(4));
        // What is gone has left its entries.
        for (entry, text) in [
            ("freestone$index:i", r#"CREATE INDEX "i" ON "t" ("a")"#),
            ("freestone$comment:u", "{\"own\":null,\"columns\":{}}"),
        ] {
            assert_eq!(objects(&state(&[(entry, text)])).expect("left").all().count(), 0, "{entry}");
        }
    }

    #[test]
    fn entries_of_no_kind_are_errors() {
        for entry in ["freestone$", "freestone$nothing:x"] {
            assert!(objects(&state(&[(entry, "")])).unwrap_err().contains(entry), "{entry}");
        }
        assert!(objects(&state(&[("freestone$comment:t", "{")])).is_err());
    }
}
