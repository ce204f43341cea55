//! The types of parameters that a client does not declare, where the engine has only texts for them: `$1::jsonb`, and
//! values that are stored in columns of `inet` or of labels.

use freestone_sql::tree::{
    Assignment, Expr, ExprKind, Insert, Name, ObjectName, OnConflict, Parameter, Query, QueryBody, SelectItem,
    Statement, StatementKind, TypeKind, Update, Walk, Write,
};

use super::types::{self, ColumnType, Type};

/// The types to which a statement casts its parameters: the place of each, from 0, and the OID. Only those that the
/// engine does not find itself.
pub fn of_casts(statement: &Statement, is_enum: &dyn Fn(&str) -> bool) -> Vec<(usize, u32)> {
    Casts::of(statement, is_enum).found
}

/// The place of each parameter, from 0, once for each use.
pub fn used(statement: &Statement) -> Vec<usize> {
    Casts::of(statement, &|_| false).used
}

struct Casts<'a> {
    is_enum: &'a dyn Fn(&str) -> bool,
    found: Vec<(usize, u32)>,
    used: Vec<usize>,
}

impl<'a> Casts<'a> {
    fn of(statement: &Statement, is_enum: &'a dyn Fn(&str) -> bool) -> Casts<'a> {
        let mut casts = Casts { is_enum, found: vec![], used: vec![] };
        match &statement.kind {
            StatementKind::Query(query) => casts.query(query),
            StatementKind::LockRows(lock) => casts.query(&lock.query),
            StatementKind::Write(write) => casts.write(write),
            _ => {}
        }
        casts
    }

    fn write(&mut self, write: &Write) {
        let mut items: &[SelectItem] = &[];
        match write {
            Write::Insert(insert) => {
                insert.rows.iter().for_each(|rows| self.query(rows));
                if let Some(OnConflict::Update { set, condition, .. }) = &insert.on_conflict {
                    set.iter().for_each(|assignment| self.expr(&assignment.value));
                    condition.iter().for_each(|condition| self.expr(condition));
                }
                items = &insert.returning;
            }
            Write::Update(update) => {
                update.set.iter().for_each(|assignment| self.expr(&assignment.value));
                update.condition.iter().for_each(|condition| self.expr(condition));
                items = &update.returning;
            }
            Write::Delete(delete) => {
                delete.condition.iter().for_each(|condition| self.expr(condition));
                items = &delete.returning;
            }
            Write::Merge(_) => {}
        }
        items.iter().for_each(|item| self.expr(&item.value));
    }

    fn cast(&mut self, operand: &Expr, to: &freestone_sql::tree::Type) {
        let Some(place) = place(operand) else { return };
        let is_list = matches!(to.kind, TypeKind::List(_) | TypeKind::Array(..));
        let told = ColumnType::of_sql(to, self.is_enum).map(|of| of.oid());
        let oid = told.or_else(|| is_list.then(|| Type::by_sql(&to.to_string())).flatten());
        let is_ours = |oid: &u32| {
            types::is_of_enum(*oid) || ColumnType::of_oid(*oid).is_some_and(|of| is_text_of_its_own(of.element))
        };
        let is_common_list = |oid: &u32| is_list && Type::by_array(*oid).is_some_and(is_common);
        self.found.extend(oid.filter(|oid| is_ours(oid) || is_common_list(oid)).map(|oid| (place, oid)));
    }
}

impl Walk for Casts<'_> {
    fn expr(&mut self, expr: &Expr) {
        self.used.extend(place(expr));
        if let ExprKind::Cast { operand, data_type, .. } = &expr.kind {
            self.cast(operand, data_type);
        }
        expr.walk(self);
    }
}

/// Whether the engine has texts for values of a type.
fn is_text_of_its_own(element: Type) -> bool {
    matches!(
        element,
        types::JSON | types::JSONB | types::TIMETZ | types::INET | types::CIDR | types::BIT | types::VARBIT
    )
}

/// Whether lists of a type have the same values in the engine. It does not find their type as arguments of functions.
fn is_common(element: Type) -> bool {
    matches!(
        element,
        types::BOOL
            | types::INT2
            | types::INT4
            | types::INT8
            | types::FLOAT4
            | types::FLOAT8
            | types::TEXT
            | types::VARCHAR
            | types::OID
            | types::UUID
            | types::DATE
            | types::TIMESTAMP
            | types::TIMESTAMPTZ
            | types::BYTEA
    )
}

/// The place of a parameter with a number, from 0.
fn place(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Parameter(Parameter::Number(number)) => (*number as usize).checked_sub(1),
        _ => None,
    }
}

/// The table to whose rows a statement gives parameters as they are, and the columns of these parameters.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored {
    pub table: ObjectName,
    /// The place of each parameter, from 0, and its column.
    pub columns: Vec<(usize, StoredIn)>,
}

/// A column by its name, or by its place.
#[derive(Debug, PartialEq, Eq)]
pub enum StoredIn {
    Named(String),
    At(usize),
}

/// The parameters that INSERT and UPDATE store.
pub fn stored(statement: &Statement) -> Option<Stored> {
    let StatementKind::Write(write) = &statement.kind else { return None };
    let stored = match write.as_ref() {
        Write::Insert(insert) => inserted(insert)?,
        Write::Update(update) => updated(update),
        Write::Delete(_) | Write::Merge(_) => return None,
    };
    (!stored.columns.is_empty()).then_some(stored)
}

fn inserted(insert: &Insert) -> Option<Stored> {
    let column = |at: usize| match insert.columns.get(at) {
        Some(name) => StoredIn::Named(name.text.clone()),
        None => StoredIn::At(at),
    };
    let rows = rows_of(insert.rows.as_deref()?)?;
    let columns = rows.iter().flat_map(|row| row.iter().enumerate());
    let columns = columns.filter_map(|(at, value)| Some((place(value)?, column(at)))).collect();
    Some(Stored { table: insert.table.clone(), columns })
}

fn rows_of(query: &Query) -> Option<&[Vec<Expr>]> {
    match &query.body {
        QueryBody::Values(rows) => Some(rows),
        QueryBody::Nested(query) => rows_of(query),
        _ => None,
    }
}

fn updated(update: &Update) -> Stored {
    let column = |assignment: &Assignment| match assignment.columns.as_slice() {
        [Name { text, .. }] if !assignment.is_row => Some((place(&assignment.value)?, StoredIn::Named(text.clone()))),
        _ => None,
    };
    Stored { table: update.table.clone(), columns: update.set.iter().filter_map(column).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Statement {
        freestone_sql::parse_statement(sql).expect(sql)
    }

    #[test]
    fn casts_tell_what_the_engine_does_not_know() {
        let mood = types::enum_oid("mood");
        for (sql, expected) in [
            ("SELECT $1::jsonb, $2::inet", vec![(0, 3802), (1, 869)]),
            ("SELECT * FROM t WHERE a = $1::timetz", vec![(0, 1266)]),
            ("SELECT CAST($2 AS mood), $1::mood[]", vec![(1, mood), (0, mood + 1)]),
            ("SELECT a FROM t WHERE a = ANY($1::oid[]) AND b = ANY($2::integer[])", vec![(0, 1028), (1, 1007)]),
            ("INSERT INTO t VALUES ($1::json) RETURNING $2::cidr", vec![(0, 114), (1, 650)]),
            ("UPDATE t SET a = $1::jsonb WHERE b = $2::bit(3)", vec![(0, 3802), (1, 1560)]),
            ("SELECT $1::integer, $2::text, $3::regclass, a::jsonb, ($4 || 'x')::jsonb FROM t", vec![]),
            ("SELECT $1::integer[][]", vec![]),
        ] {
            assert_eq!(of_casts(&parsed(sql), &|name| name == "mood"), expected, "{sql}");
        }
    }

    #[test]
    fn stored_parameters_have_columns() {
        let named = |name: &str| StoredIn::Named(name.to_owned());
        let check = |sql: &str, columns: Vec<(usize, StoredIn)>| {
            assert_eq!(stored(&parsed(sql)).map(|stored| stored.columns).unwrap_or_default(), columns, "{sql}");
        };
        check("INSERT INTO t VALUES ($1, 5, $2)", vec![(0, StoredIn::At(0)), (1, StoredIn::At(2))]);
        check(
            "INSERT INTO s.t (b, a) VALUES ($1, $2), ($3, 'x')",
            vec![(0, named("b")), (1, named("a")), (2, named("b"))],
        );
        check("UPDATE t SET a = $2, b = $1 || 'x' WHERE c = $3", vec![(1, named("a"))]);
        check("INSERT INTO t SELECT $1", vec![]);
        check("DELETE FROM t WHERE a = $1", vec![]);
        assert_eq!(stored(&parsed("INSERT INTO s.\"T\" VALUES ($1)")).expect("stored").table.to_string(), "s.\"T\"");
    }
}
