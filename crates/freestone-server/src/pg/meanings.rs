//! What means something else in PostgreSQL than in the engine, whose functions are those of DuckDB: `array_remove` removes all
//! equal values, `regexp_matches` has a row per match, texts of BYTEA have octal escapes, and a text of an array says itself
//! how many dimensions it has.

use freestone::ingest::{ArrayItem, array_items};
use freestone::unescaped_bytes;
use freestone_sql::Span;
use freestone_sql::tree::{
    Argument, Call, CastForm, CopySource, Expr, ExprKind, Literal, Name, ObjectName, OnConflict, Select, SelectItem,
    Statement, StatementKind, Table, TableAlias, TableKind, Type, TypeKind, WalkMut, WithBody, WithPart, Write,
};

use super::names::{keep_name, last, mentions, name_of, walk_named};

/// The dimensions that an array has at most.
const DIMENSIONS_MAX: usize = 6;

const MATCHES: &str = "regexp_matches";

/// Functions of PostgreSQL, and those of the engine that do the same.
const FUNCTIONS: [(&str, &str); 3] = [
    ("array_remove", "freestone_array_remove"),
    ("array_replace", "freestone_array_replace"),
    ("chr", "freestone_chr"),
];

/// Whether a text may have something of that kind.
pub fn is_in(sql: &str) -> bool {
    const SIGNS: [&str; 9] = ["array_re", "array_fill", MATCHES, "chr", "bytea", "encode", "decode", "sha256", "[]"];
    mentions(sql, &SIGNS)
}

/// Puts a statement in the engine's words.
pub fn apply(statement: &mut Statement) {
    match &mut statement.kind {
        StatementKind::Query(query) => Meanings.query(query),
        StatementKind::LockRows(lock) => Meanings.query(&mut lock.query),
        StatementKind::Write(write) => Meanings.write(write),
        StatementKind::CreateTable(create) => create.query.iter_mut().for_each(|query| Meanings.query(query)),
        StatementKind::CreateView(create) => Meanings.query(&mut create.query),
        StatementKind::CreateMaterializedView(create) => Meanings.query(&mut create.query),
        StatementKind::CopyTo(copy) => {
            if let CopySource::Query(query) = &mut copy.source {
                Meanings.query(query);
            }
        }
        StatementKind::Explain(explain) => apply(&mut explain.statement),
        _ => {}
    }
}

struct Meanings;

impl Meanings {
    fn write(&mut self, write: &mut Write) {
        let (with, returning) = match write {
            Write::Insert(insert) => {
                insert.rows.iter_mut().for_each(|rows| self.query(rows));
                if let Some(OnConflict::Update { set, condition, .. }) = &mut insert.on_conflict {
                    set.iter_mut().for_each(|assignment| self.expr(&mut assignment.value));
                    condition.iter_mut().for_each(|condition| self.expr(condition));
                }
                (&mut insert.with, &mut insert.returning)
            }
            Write::Update(update) => {
                update.set.iter_mut().for_each(|assignment| self.expr(&mut assignment.value));
                update.from.iter_mut().for_each(|table| self.table(table));
                update.condition.iter_mut().for_each(|condition| self.expr(condition));
                (&mut update.with, &mut update.returning)
            }
            Write::Delete(delete) => {
                delete.using.iter_mut().for_each(|table| self.table(table));
                delete.condition.iter_mut().for_each(|condition| self.expr(condition));
                (&mut delete.with, &mut delete.returning)
            }
            Write::Merge(merge) => {
                self.table(&mut merge.source);
                (&mut merge.with, &mut merge.returning)
            }
        };
        returning.iter_mut().for_each(|item| self.item(item));
        let parts = with.iter_mut().flat_map(|with| &mut with.parts);
        parts.for_each(|part| self.with_part(part, false));
    }

    /// A column of a result, which keeps its name.
    fn item(&mut self, item: &mut SelectItem) {
        let before = name_of(&item.value);
        self.expr(&mut item.value);
        keep_name(item, &before);
    }
}

impl WalkMut for Meanings {
    fn with_part(&mut self, part: &mut WithPart, _: bool) {
        if let WithBody::Write(write) = &mut part.body {
            self.write(write);
        }
        part.walk_mut(self);
    }

    fn select(&mut self, select: &mut Select) {
        for item in &mut select.items {
            let before = name_of(&item.value);
            unnest_matches(&mut item.value);
            keep_name(item, &before);
        }
        walk_named(select, self);
    }

    fn table(&mut self, table: &mut Table) {
        if let TableKind::Call { call, ordinality: false, .. } = &mut table.kind
            && last(&call.name) == MATCHES
        {
            let own = call.name.parts.last().cloned();
            unnest_of(call);
            if table.alias.is_none() {
                table.alias = own.map(|name| TableAlias { name, columns: vec![] });
            }
            if let Some(alias) = &mut table.alias
                && alias.columns.is_empty()
            {
                alias.columns.push(alias.name.clone());
            }
        }
        table.walk_mut(self);
    }

    fn expr(&mut self, expr: &mut Expr) {
        expr.walk_mut(self);
        match &mut expr.kind {
            ExprKind::Cast { operand, data_type, .. } => cast(operand, data_type),
            ExprKind::TypedText { data_type, text } if is_bytea(data_type) => match bytes_of_text(&text.value) {
                Bytes::AsWritten => {}
                Bytes::Other(other) => text.value = other,
                Bytes::Wrong => expr.kind = cast_to_bytea(wrong("bytea", &text.value)),
            },
            ExprKind::Call(call) => {
                if let Some(changed) = of_bytes(call) {
                    expr.kind = changed;
                } else if let Some(arguments) = filled(call) {
                    expr.kind = call_of("freestone_array_fill", arguments).kind;
                } else if let Some((_, ours)) = FUNCTIONS.iter().find(|(name, _)| *name == last(&call.name)) {
                    call.name = named(ours);
                }
            }
            _ => {}
        }
    }
}

/// Unnests the matches of an expression. As a condition, the function is the engine's.
fn unnest_matches(expr: &mut Expr) {
    match &mut expr.kind {
        ExprKind::Call(call) if last(&call.name) == MATCHES => unnest_of(call),
        ExprKind::Call(call) if call.filter.is_some() || call.over.is_some() => {}
        ExprKind::Case(_) => {}
        _ => expr.parts_mut(&mut unnest_matches),
    }
}

/// Makes a call of `regexp_matches` one that unnests the matches.
fn unnest_of(call: &mut Call) {
    let arguments = std::mem::take(&mut call.arguments);
    let list = Call::of(named("freestone_regexp_matches"), arguments);
    call.name = named("unnest");
    call.arguments = vec![argument(Expr { kind: ExprKind::Call(Box::new(list)), span: Span::default() })];
}

/// The arguments of `array_fill(value, ARRAY[lengths])`, with each length as one of them; `None` for other calls.
fn filled(call: &mut Call) -> Option<Vec<Argument>> {
    if last(&call.name) != "array_fill" {
        return None;
    }
    let [value, Argument { value: Expr { kind: ExprKind::List(lengths), .. }, .. }] = call.arguments.as_mut_slice()
    else {
        return None;
    };
    if lengths.is_empty() {
        return None;
    }
    let lengths = std::mem::take(lengths).into_iter().map(argument);
    Some(std::iter::once(value.clone()).chain(lengths).collect())
}

/// Functions of bytes, whose texts in quotes are of BYTEA; `None` for other calls.
fn of_bytes(call: &mut Call) -> Option<ExprKind> {
    let name = last(&call.name).to_owned();
    if !matches!((name.as_str(), call.arguments.len()), ("encode" | "decode", 2) | ("sha256", 1)) {
        return None;
    }
    if name != "decode"
        && let Some(first) = call.arguments.first_mut()
        && matches!(first.value.kind, ExprKind::Literal(Literal::Text(_)))
    {
        let text = std::mem::replace(&mut first.value.kind, ExprKind::Literal(Literal::Null));
        first.value.kind = cast_to_bytea(text);
        if let ExprKind::Cast { operand, data_type, .. } = &mut first.value.kind {
            cast(operand, data_type);
        }
    }
    let is_escape = call.arguments.get(1).is_some_and(|format| {
        matches!(&format.value.kind, ExprKind::Literal(Literal::Text(text)) if text.eq_ignore_ascii_case("escape"))
    });
    let kind = match name.as_str() {
        "sha256" => Call::of(named("unhex"), vec![argument(call_of("sha256", std::mem::take(&mut call.arguments)))]),
        "encode" if is_escape => Call::of(named("freestone_escaped_bytes"), call.arguments.drain(..1).collect()),
        "decode" if is_escape => Call::of(named("freestone_unescaped_bytes"), call.arguments.drain(..1).collect()),
        _ => return None,
    };
    Some(ExprKind::Call(Box::new(kind)))
}

/// A cast of a text to BYTEA, or to an array of several dimensions.
fn cast(operand: &mut Expr, data_type: &mut Type) {
    if is_bytea(data_type) {
        let ExprKind::Literal(Literal::Text(text)) = &mut operand.kind else { return };
        match bytes_of_text(text) {
            Bytes::AsWritten => {}
            Bytes::Other(other) => *text = other,
            Bytes::Wrong => operand.kind = wrong("bytea", text),
        }
        return;
    }
    if levels(data_type) != 1 {
        return;
    }
    let dimensions = match &operand.kind {
        ExprKind::Literal(Literal::Text(text)) => match dimensions_of_text(text) {
            Some(dimensions) => dimensions,
            None => {
                operand.kind = wrong("array", text);
                return;
            }
        },
        _ => levels_of(operand),
    };
    for _ in 1..dimensions {
        let inner = std::mem::replace(&mut data_type.kind, TypeKind::List(Box::new(named_type("int"))));
        if let TypeKind::List(outer) = &mut data_type.kind {
            outer.kind = inner;
        }
    }
}

/// How many lists are around the values of a type.
fn levels(data_type: &Type) -> usize {
    match &data_type.kind {
        TypeKind::List(item) => 1 + levels(item),
        _ => 0,
    }
}

/// How many lists are around the values of an expression, as far as it shows them.
fn levels_of(expr: &Expr) -> usize {
    match &expr.kind {
        ExprKind::List(values) => 1 + values.first().map_or(0, levels_of),
        ExprKind::Cast { data_type, .. } => levels(data_type),
        _ => 0,
    }
}

/// The dimensions of the text of an array; 1 if it is none, which the engine says. `None` if parts differ in their lengths.
fn dimensions_of_text(text: &str) -> Option<usize> {
    match array_items(text) {
        Some(items) if items.iter().any(|item| matches!(item, ArrayItem::Array(_))) => {
            lengths(text, DIMENSIONS_MAX).map(|lengths| lengths.len())
        }
        _ => Some(1),
    }
}

/// The lengths of the dimensions of an array.
fn lengths(text: &str, most: usize) -> Option<Vec<usize>> {
    let items = array_items(text)?;
    let mut inner: Option<Vec<usize>> = None;
    for (at, item) in items.iter().enumerate() {
        let own = match item {
            ArrayItem::Array(text) if most > 1 => Some(lengths(text, most - 1)?),
            ArrayItem::Array(_) => return None,
            ArrayItem::Value(_) | ArrayItem::Null => None,
        };
        if at > 0 && own != inner || own.as_ref().is_some_and(|lengths| lengths.contains(&0)) {
            return None;
        }
        inner = own;
    }
    Some(std::iter::once(items.len()).chain(inner.into_iter().flatten()).collect())
}

/// The bytes of a text of BYTEA.
#[derive(Debug, PartialEq)]
enum Bytes {
    /// The engine reads the same.
    AsWritten,
    /// The same as hexadecimal digits.
    Other(String),
    /// They are none.
    Wrong,
}

/// Reads `\x1F`, or characters of which `\\` is a backslash and `\101` a byte.
fn bytes_of_text(text: &str) -> Bytes {
    let hexadecimal = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Bytes::Other(format!("\\x{digits}"))
    };
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: String = digits.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let is_whole = digits.len().is_multiple_of(2) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        return match is_whole {
            true if digits.is_empty() => Bytes::Other(digits),
            true => Bytes::Other(format!("\\x{digits}")),
            false => Bytes::Wrong,
        };
    }
    if text.is_ascii() && !text.contains('\\') {
        return Bytes::AsWritten;
    }
    unescaped_bytes(text.as_bytes()).map_or(Bytes::Wrong, |bytes| hexadecimal(&bytes))
}

/// A value that is an error, because a text is none of its type.
fn wrong(of_type: &str, text: &str) -> ExprKind {
    let message = match of_type {
        "array" => format!("malformed array literal: \"{text}\""),
        _ => format!("invalid input syntax for type {of_type}: \"{text}\""),
    };
    let message = Expr { kind: ExprKind::Literal(Literal::Text(message)), span: Span::default() };
    call_of("error", vec![argument(message)]).kind
}

fn is_bytea(data_type: &Type) -> bool {
    matches!(&data_type.kind, TypeKind::Named { name, .. } if last(name) == "bytea")
}

fn cast_to_bytea(operand: ExprKind) -> ExprKind {
    let operand = Box::new(Expr { kind: operand, span: Span::default() });
    ExprKind::Cast { operand, data_type: Box::new(named_type("bytea")), form: CastForm::Cast }
}

fn named_type(name: &str) -> Type {
    Type { kind: TypeKind::Named { name: named(name), modifiers: vec![] }, span: Span::default() }
}

/// A name of one part.
fn named(name: &str) -> ObjectName {
    let span = Span::default();
    ObjectName { parts: vec![Name { text: name.to_owned(), quoted: false, span }], span }
}

fn argument(value: Expr) -> Argument {
    Argument { name: None, value }
}

fn call_of(function: &str, arguments: Vec<Argument>) -> Expr {
    Expr { kind: ExprKind::Call(Box::new(Call::of(named(function), arguments))), span: Span::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_put_in_the_engines_words() {
        for (sql, expected) in [
            ("SELECT array_length(a, 1) FROM t", "="),
            ("SELECT array_remove(a, 1) FROM t", "SELECT freestone_array_remove(a, 1) AS \"array_remove\" FROM t"),
            ("UPDATE t SET a = array_replace(a, 1, 2)", "UPDATE t SET a = freestone_array_replace(a, 1, 2)"),
            (
                "SELECT (regexp_matches(a, 'b'))[1] FROM t WHERE regexp_matches(a, 'c')",
                "SELECT (unnest(freestone_regexp_matches(a, 'b')))[1] AS \"regexp_matches\" FROM t WHERE regexp_matches(a, 'c')",
            ),
            (
                "SELECT m[1] FROM regexp_matches('a', 'b', 'g') AS m",
                "SELECT m[1] FROM unnest(freestone_regexp_matches('a', 'b', 'g')) AS m(m)",
            ),
            (
                "SELECT array_fill(a, ARRAY[2, 3]) FROM t",
                "SELECT freestone_array_fill(a, 2, 3) AS \"array_fill\" FROM t",
            ),
            ("SELECT 'a\\\\b\\101'::bytea", "SELECT '\\x615c6241'::BYTEA"),
            ("INSERT INTO t VALUES ('\\xDE ad'::bytea)", "INSERT INTO t VALUES ('\\xDEad'::BYTEA)"),
            (
                "SELECT bytea 'a\\'",
                "SELECT CAST(error('invalid input syntax for type bytea: \"a\\\"') AS BYTEA) AS \"bytea\"",
            ),
            ("SELECT encode('\\x12', 'hex')", "SELECT encode(CAST('\\x12' AS BYTEA), 'hex')"),
            ("SELECT encode(a, 'escape') FROM t", "SELECT freestone_escaped_bytes(a) AS \"encode\" FROM t"),
            ("SELECT sha256(a) FROM t", "SELECT unhex(sha256(a)) AS \"sha256\" FROM t"),
            ("SELECT '{{1,2},{3,4}}'::int[]", "SELECT '{{1,2},{3,4}}'::INT[][]"),
            ("SELECT '{1,2}'::int[], '{{1},{2}}'::int[][]", "="),
            ("SELECT [['a']]::text[]::varchar[]", "SELECT [['a']]::TEXT[][]::VARCHAR[][]"),
            (
                "SELECT '{{1},{2,3}}'::text[]",
                "SELECT error('malformed array literal: \"{{1},{2,3}}\"')::TEXT[] AS \"text\"",
            ),
        ] {
            let mut statement = freestone_sql::parse_statement(sql).expect(sql);
            let written = statement.to_string();
            apply(&mut statement);
            let expected = if expected == "=" { written.as_str() } else { expected };
            assert_eq!(statement.to_string().to_lowercase(), expected.to_lowercase(), "{sql}");
        }
    }

    #[test]
    fn texts_of_arrays_have_dimensions() {
        for (text, expected) in [
            ("{1,2}", Some(1)),
            ("a", Some(1)),
            ("{}", Some(1)),
            ("{{1,NULL},{3,4}}", Some(2)),
            (" { { \",\" } , { 3 } }", Some(2)),
            ("{{{a},{b}}}", Some(3)),
            ("{{1},2}", None),
            ("{{1},{2,3}}", None),
            ("{{},{}}", None),
            ("{{{{{{{1}}}}}}}", None),
        ] {
            assert_eq!(dimensions_of_text(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_of_bytes_have_escapes() {
        let other = |digits: &str| Bytes::Other(digits.to_owned());
        for (text, expected) in [
            ("abc", Bytes::AsWritten),
            ("De\\123dBeEf", other("\\x4465536442654566")),
            ("De\\678dBeEf", Bytes::Wrong),
            ("\\\\", other("\\x5c")),
            ("\\12", Bytes::Wrong),
            ("\\xDeAd", other("\\xDeAd")),
            ("\\xDeAdx", Bytes::Wrong),
            ("\u{fc}", other("\\xc3bc")),
        ] {
            assert_eq!(bytes_of_text(text), expected, "{text}");
        }
    }
}
