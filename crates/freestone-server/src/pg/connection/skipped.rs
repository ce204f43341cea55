//! What PostgreSQL's notices say of statements that do nothing, because an object exists or does not: `DROP TABLE IF EXISTS`.

use freestone::Statement;
use freestone_sql::tree::{Drop, ObjectKind, ObjectName, StatementKind};

use super::Connection;
use crate::execution;
use crate::pg::error::PgError;
use crate::sqlstate;

/// An object that a statement may find or miss without an error.
#[derive(Debug, PartialEq, Eq)]
struct Conditional {
    kind: ObjectKind,
    name: String,
    /// Whether the statement would make it.
    makes: bool,
}

impl Connection {
    /// The notices of a statement that has not been executed yet.
    pub async fn skipped(&self, statement: &Statement) -> Vec<PgError> {
        let conditional = conditional(&statement.text);
        if conditional.is_empty() {
            return vec![];
        }
        let session = self.session.clone();
        let reading = async move {
            let relations = session.relations().await?.into_iter().map(|found| {
                let kind = match &found {
                    found if found.view.is_some() => ObjectKind::View,
                    found if found.materialized.is_some() => ObjectKind::MaterializedView,
                    _ => ObjectKind::Table,
                };
                (kind, if found.is_temporary { found.own_name().to_owned() } else { found.name.clone() })
            });
            let mut known: Vec<(ObjectKind, String)> = relations.collect();
            known.extend(session.schemas()?.into_iter().map(|name| (ObjectKind::Schema, name)));
            known.extend(session.enum_types()?.into_iter().map(|(name, _)| (ObjectKind::Type, name)));
            known.extend(session.sequence_relations()?.into_iter().map(|found| (ObjectKind::Sequence, found.name)));
            Ok::<_, freestone::Error>(known)
        };
        // Where the database cannot be read, the statement itself says so.
        let known = execution::on_workers(&self.shared, self.settings.statement_limit(), reading).await;
        let known = known.unwrap_or_default();
        let is_known = |of: &Conditional| {
            let is_relation =
                |kind: ObjectKind| matches!(kind, ObjectKind::Table | ObjectKind::View | ObjectKind::MaterializedView);
            let same = |kind: ObjectKind| kind == of.kind || of.makes && is_relation(kind) && is_relation(of.kind);
            known.iter().any(|(kind, name)| same(*kind) && *name == of.name)
        };
        conditional.iter().filter(|of| is_known(of) == of.makes).map(notice).collect()
    }
}

fn notice(of: &Conditional) -> PgError {
    let kind = match of.kind {
        ObjectKind::Table | ObjectKind::View | ObjectKind::MaterializedView | ObjectKind::Sequence if of.makes => {
            "relation"
        }
        ObjectKind::Table => "table",
        ObjectKind::View => "view",
        ObjectKind::MaterializedView => "materialized view",
        ObjectKind::Sequence => "sequence",
        ObjectKind::Schema => "schema",
        _ => "type",
    };
    let (name, state) = (&of.name, if of.makes { "already exists" } else { "does not exist" });
    let code = match (of.makes, of.kind) {
        (false, _) => sqlstate::SUCCESS,
        (true, ObjectKind::Schema) => sqlstate::DUPLICATE_SCHEMA,
        (true, ObjectKind::Type) => sqlstate::DUPLICATE_OBJECT,
        (true, _) => sqlstate::DUPLICATE_TABLE,
    };
    PgError { code, ..PgError::notice(format!("{kind} \"{name}\" {state}, skipping")) }
}

/// The objects of a statement with IF EXISTS or IF NOT EXISTS.
fn conditional(sql: &str) -> Vec<Conditional> {
    let starts = |word: &str| sql.trim_start().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if !(starts("create") || starts("drop")) || !sql.to_ascii_lowercase().contains("exists") {
        return vec![];
    }
    let Ok(parsed) = freestone_sql::parse_statement(sql) else { return vec![] };
    let made = |kind: ObjectKind, name: &ObjectName| vec![Conditional { kind, name: plain(name), makes: true }];
    match &parsed.kind {
        StatementKind::Drop(Drop { kind, if_exists: true, names, .. }) => {
            let kinds = [
                ObjectKind::Table,
                ObjectKind::View,
                ObjectKind::MaterializedView,
                ObjectKind::Sequence,
                ObjectKind::Schema,
                ObjectKind::Type,
            ];
            let of = |name: &ObjectName| Conditional { kind: *kind, name: plain(name), makes: false };
            if kinds.contains(kind) { names.iter().map(of).collect() } else { vec![] }
        }
        StatementKind::CreateTable(create) if create.if_not_exists => made(ObjectKind::Table, &create.name),
        StatementKind::CreateView(create) if create.if_not_exists => made(ObjectKind::View, &create.name),
        StatementKind::CreateMaterializedView(create) if create.if_not_exists => {
            made(ObjectKind::MaterializedView, &create.name)
        }
        StatementKind::CreateSequence(create) if create.if_not_exists => made(ObjectKind::Sequence, &create.name),
        StatementKind::CreateSchema(create) if create.if_not_exists => made(ObjectKind::Schema, &create.name),
        StatementKind::CreateType(create) if create.if_not_exists => made(ObjectKind::Type, &create.name),
        _ => vec![],
    }
}

/// A name as the engine lists it, without the schema that is searched.
fn plain(name: &ObjectName) -> String {
    let parts: Vec<&str> = name.parts.iter().map(|part| part.text.as_str()).collect();
    match parts.as_slice() {
        ["public" | "main" | "pg_temp", rest @ ..] if !rest.is_empty() => rest.join("."),
        parts => parts.join("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_with_conditions_are_found() {
        let names = |sql: &str| conditional(sql).into_iter().map(|of| (of.kind, of.name, of.makes)).collect::<Vec<_>>();
        assert_eq!(
            names("DROP TABLE IF EXISTS a, public.b"),
            [(ObjectKind::Table, "a".into(), false), (ObjectKind::Table, "b".into(), false)]
        );
        assert_eq!(names(" create schema if not exists s"), [(ObjectKind::Schema, "s".into(), true)]);
        for none in ["DROP TABLE a", "CREATE TABLE a (exists INT)", "SELECT 1 WHERE EXISTS (SELECT 1)", "DROP"] {
            assert!(names(none).is_empty(), "{none}");
        }
        let missing = Conditional { kind: ObjectKind::View, name: "v".into(), makes: false };
        assert_eq!(notice(&missing).message, "view \"v\" does not exist, skipping");
        let there = Conditional { kind: ObjectKind::Table, name: "t".into(), makes: true };
        assert_eq!(
            (notice(&there).code, notice(&there).message),
            ("42P07", "relation \"t\" already exists, skipping".into())
        );
    }
}
