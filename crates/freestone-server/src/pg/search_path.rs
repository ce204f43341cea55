//! The schemas in which names without one are looked for, as PostgreSQL's `search_path` says: such names in a statement get
//! their schema before the engine, which knows only the default one, plans it.

use freestone_sql::Span;
use freestone_sql::tree::{
    AlterKind, ColumnConstraintKind, ColumnDefinition, Expr, Name, ObjectKind, ObjectName, OnConflict, Query,
    QueryBody, References, SelectItem, Statement, StatementKind, Table, TableConstraint, TableConstraintKind,
    TableElement, TableKind, WalkMut, With, WithBody, Write,
};

/// The schema that the engine has without being told.
pub const PUBLIC: &str = "public";
/// The schema of temporary tables, which comes first.
const TEMP: &str = "pg_temp";

/// The schemas of a setting, in their order. That of the user is none, because users have no schemas here.
pub fn schemas(setting: &str) -> Vec<String> {
    let own = setting.split(',').map(|name| name.trim().trim_matches('"'));
    own.filter(|name| !name.is_empty() && !["$user", "pg_catalog", TEMP].contains(name)).map(str::to_owned).collect()
}

/// Where names are looked for.
pub struct SearchPath<'a> {
    /// The schemas in their order.
    pub schemas: &'a [String],
    /// The name of the table, view or sequence that a name means, with its schema unless that is the default one.
    pub find: &'a dyn Fn(&ObjectName) -> Option<String>,
    /// Whether there is a schema of this name.
    pub has_schema: &'a dyn Fn(&str) -> bool,
}

impl SearchPath<'_> {
    /// Gives the names of a statement their schemas.
    pub fn apply(&self, statement: &mut Statement) {
        Qualify { path: self, parts: vec![] }.statement(statement);
    }

    /// The name with the schema in which it is found.
    pub fn found(&self, name: &ObjectName) -> Option<ObjectName> {
        let [own] = name.parts.as_slice() else { return None };
        let plain = (self.find)(name);
        if plain.as_ref().is_some_and(|found| found.split_once('.').is_some_and(|(schema, _)| schema == TEMP)) {
            return None;
        }
        for schema in self.schemas {
            match schema.as_str() {
                PUBLIC if plain.is_some() => return None,
                PUBLIC => {}
                schema => {
                    let full = with_schema(schema, own);
                    if (self.find)(&full).is_some() {
                        return Some(full);
                    }
                }
            }
        }
        // What is only in the default schema, which is not searched, is not found.
        plain.and(self.schemas.first()).map(|schema| with_schema(schema, own))
    }

    /// The name with the schema in which something new of this name is made.
    fn created(&self, name: &ObjectName) -> Option<ObjectName> {
        let [own] = name.parts.as_slice() else { return None };
        let exists = |schema: &&String| *schema == PUBLIC || (self.has_schema)(schema);
        let schema = self.schemas.iter().find(exists).or(self.schemas.first())?;
        (schema != PUBLIC).then(|| with_schema(schema, own))
    }
}

fn with_schema(schema: &str, own: &Name) -> ObjectName {
    let schema = Name { text: schema.to_owned(), quoted: true, span: Span::default() };
    ObjectName { parts: vec![schema, own.clone()], span: own.span }
}

/// The name of a table as it is written, and with its schema.
type Renamed<'n> = (&'n ObjectName, &'n ObjectName);

struct Qualify<'a> {
    path: &'a SearchPath<'a>,
    /// The names that WITH defines.
    parts: Vec<String>,
}

impl Qualify<'_> {
    fn statement(&mut self, statement: &mut Statement) {
        match &mut statement.kind {
            StatementKind::Query(query) => self.query(query),
            StatementKind::LockRows(lock) => self.query(&mut lock.query),
            StatementKind::Write(write) => self.write(write),
            StatementKind::Explain(explain) => self.statement(&mut explain.statement),
            StatementKind::CreateTable(create) => {
                let before = create.name.clone();
                self.create(&mut create.name, create.temporary);
                let new = (&before, &create.name);
                create.elements.iter_mut().for_each(|element| self.element(element, new));
                create.query.iter_mut().for_each(|query| self.query(query));
            }
            StatementKind::CreateView(create) => {
                self.query(&mut create.query);
                self.create(&mut create.name, create.temporary);
            }
            StatementKind::CreateSequence(create) => self.create(&mut create.name, create.temporary),
            StatementKind::AlterTable(alter) => {
                let before = alter.table.clone();
                self.name(&mut alter.table);
                let own = (&before, &alter.table);
                for action in &mut alter.actions {
                    match &mut action.kind {
                        AlterKind::AddColumn { column, .. } => self.column(column, own),
                        AlterKind::AddConstraint(constraint) => self.constraint(constraint, own),
                        _ => {}
                    }
                }
            }
            StatementKind::RenameView(rename) => self.name(&mut rename.name),
            StatementKind::CreateIndex(create) => self.name(&mut create.table),
            StatementKind::Truncate(truncate) => truncate.tables.iter_mut().for_each(|name| self.name(name)),
            StatementKind::Drop(drop) => {
                if matches!(drop.kind, ObjectKind::Table | ObjectKind::View | ObjectKind::Sequence) {
                    drop.names.iter_mut().for_each(|name| self.name(name));
                }
            }
            _ => {}
        }
    }

    fn name(&self, name: &mut ObjectName) {
        let is_part = matches!(name.parts.as_slice(), [own] if self.parts.contains(&own.text));
        if let Some(full) = self.path.found(name).filter(|_| !is_part) {
            *name = full;
        }
    }

    fn create(&self, name: &mut ObjectName, is_temporary: bool) {
        if let Some(full) = self.path.created(name).filter(|_| !is_temporary) {
            *name = full;
        }
    }

    fn element(&self, element: &mut TableElement, own: Renamed) {
        match element {
            TableElement::Like(other) => self.name(other),
            TableElement::Column(column) => self.column(column, own),
            TableElement::Constraint(constraint) => self.constraint(constraint, own),
        }
    }

    fn column(&self, column: &mut ColumnDefinition, own: Renamed) {
        for constraint in &mut column.constraints {
            if let ColumnConstraintKind::References(references, _) = &mut constraint.kind {
                self.references(references, own);
            }
        }
    }

    fn constraint(&self, constraint: &mut TableConstraint, own: Renamed) {
        if let TableConstraintKind::ForeignKey(_, references) = &mut constraint.kind {
            self.references(references, own);
        }
    }

    /// A table may refer to itself.
    fn references(&self, references: &mut References, (before, after): Renamed) {
        let is_own =
            |name: &ObjectName| name.parts.iter().map(|part| &part.text).eq(before.parts.iter().map(|p| &p.text));
        match is_own(&references.table) {
            true => references.table = after.clone(),
            false => self.name(&mut references.table),
        }
    }

    fn with(&mut self, with: Option<&mut With>) {
        for part in with.into_iter().flat_map(|with| &mut with.parts) {
            self.parts.push(part.name.text.clone());
            match &mut part.body {
                WithBody::Query(query) => self.query(query),
                WithBody::Write(write) => self.write(write),
            }
        }
    }

    fn write(&mut self, write: &mut Write) {
        match write {
            Write::Insert(insert) => {
                self.with(insert.with.as_mut());
                self.target(&mut insert.table, &mut insert.alias);
                insert.rows.iter_mut().for_each(|rows| self.query(rows));
                if let Some(OnConflict::Update { set, condition, .. }) = &mut insert.on_conflict {
                    set.iter_mut().for_each(|assignment| self.expr(&mut assignment.value));
                    condition.iter_mut().for_each(|condition| self.expr(condition));
                }
                self.items(&mut insert.returning);
            }
            Write::Update(update) => {
                self.with(update.with.as_mut());
                self.target(&mut update.table, &mut update.alias);
                update.set.iter_mut().for_each(|assignment| self.expr(&mut assignment.value));
                update.from.iter_mut().for_each(|table| self.table(table));
                update.condition.iter_mut().for_each(|condition| self.expr(condition));
                self.items(&mut update.returning);
            }
            Write::Delete(delete) => {
                self.with(delete.with.as_mut());
                self.target(&mut delete.table, &mut delete.alias);
                delete.using.iter_mut().for_each(|table| self.table(table));
                delete.condition.iter_mut().for_each(|condition| self.expr(condition));
                self.items(&mut delete.returning);
            }
            Write::Merge(merge) => {
                self.with(merge.with.as_mut());
                self.target(&mut merge.table, &mut merge.alias);
                self.table(&mut merge.source);
                self.items(&mut merge.returning);
            }
        }
    }

    /// A table that is changed, which keeps its name within the statement.
    fn target(&self, name: &mut ObjectName, alias: &mut Option<Name>) {
        let own = name.parts.last().cloned();
        let before = name.parts.len();
        self.name(name);
        if alias.is_none() && name.parts.len() != before {
            *alias = own;
        }
    }

    fn items(&mut self, items: &mut [SelectItem]) {
        items.iter_mut().for_each(|item| self.expr(&mut item.value));
    }
}

impl WalkMut for Qualify<'_> {
    fn query(&mut self, query: &mut Query) {
        // A part of WITH is known within its query only.
        let known = self.parts.len();
        let parts = query.with.iter().flat_map(|with| &with.parts);
        self.parts.extend(parts.map(|part| part.name.text.clone()));
        query.walk_mut(self);
        self.parts.truncate(known);
    }

    fn body(&mut self, body: &mut QueryBody) {
        if let QueryBody::Table(name) = body {
            self.name(name);
        }
        body.walk_mut(self);
    }

    fn table(&mut self, table: &mut Table) {
        if let TableKind::Named { name, .. } = &mut table.kind {
            self.name(name);
        }
        table.walk_mut(self);
    }

    fn expr(&mut self, expr: &mut Expr) {
        expr.walk_mut(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_the_schemas_in_which_they_are_found() {
        let exist = ["s.t", "s.u", "u", "p", "pg_temp.x", "s.x", "r.t"];
        let find = |name: &ObjectName| {
            let name = name.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(".");
            let temporary = format!("pg_temp.{name}");
            exist
                .iter()
                .find(|known| **known == temporary)
                .or(exist.iter().find(|known| **known == name))
                .map(|name| (*name).to_owned())
        };
        let check = |path: &str, sql: &str, expected: &str| {
            let mut statement = freestone_sql::parse_statement(sql).expect(sql);
            let path =
                SearchPath { schemas: &schemas(path), find: &find, has_schema: &|name| ["s", "r"].contains(&name) };
            path.apply(&mut statement);
            assert_eq!(statement.to_string().replace('"', ""), expected, "{sql}");
        };
        let both = "s, public";
        check(both, "SELECT * FROM t, u, p, x, q", "SELECT * FROM s.t, s.u, p, x, q");
        check("public, s", "SELECT * FROM t, u", "SELECT * FROM s.t, u");
        check("r, s", "SELECT t.a FROM t", "SELECT t.a FROM r.t");
        check("s", "SELECT * FROM p", "SELECT * FROM s.p");
        check("", "SELECT * FROM t, p", "SELECT * FROM t, p");
        check("\"$user\", \"s\"", "TABLE t", "TABLE s.t");
        check(
            both,
            "SELECT * FROM r.t WHERE a IN (SELECT a FROM t)",
            "SELECT * FROM r.t WHERE a IN (SELECT a FROM s.t)",
        );
        check(both, "WITH t AS (SELECT 1) SELECT * FROM t", "WITH t AS (SELECT 1) SELECT * FROM t");
        check(both, "INSERT INTO t SELECT * FROM u", "INSERT INTO s.t AS t SELECT * FROM s.u");
        check(both, "UPDATE t SET a = 1 WHERE t.b = 2", "UPDATE s.t AS t SET a = 1 WHERE t.b = 2");
        check(both, "DELETE FROM t USING u", "DELETE FROM s.t AS t USING s.u");
        check(
            both,
            "CREATE TABLE n (a INT REFERENCES n, b INT REFERENCES t)",
            "CREATE TABLE s.n (a INT REFERENCES s.n, b INT REFERENCES s.t)",
        );
        check(both, "CREATE TEMP TABLE n (a INT)", "CREATE TEMP TABLE n (a INT)");
        check("missing, public", "CREATE TABLE n (a INT)", "CREATE TABLE n (a INT)");
        check(both, "CREATE VIEW v AS SELECT * FROM t", "CREATE VIEW s.v AS SELECT * FROM s.t");
        check(both, "ALTER TABLE t ADD COLUMN b INT", "ALTER TABLE s.t ADD COLUMN b INT");
        check(both, "DROP TABLE t, p", "DROP TABLE s.t, p");
        check(both, "TRUNCATE t", "TRUNCATE s.t");
        check(both, "CREATE INDEX i ON t (a)", "CREATE INDEX i ON s.t (a)");
    }
}
