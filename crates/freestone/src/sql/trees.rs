//! Small pieces of syntax trees, of which the engine makes queries. Each stands where the part of the statement stands that
//! it is made for.

use freestone_binder::all_of;
use freestone_sql::Span;
use freestone_sql::tree::{
    Argument, Assignment, BinaryOperator, Call, Case, Expr, ExprKind, IsTest, JoinCondition, Link, Literal, Merge,
    MergeAction, Name, ObjectName, OnConflict, Query, QueryBody, Select, SelectItem, Star, Table, TableAlias,
    TableKind, With, WithBody, WithPart, Write,
};

use crate::error::{Error, Result};

/// An expression that is kept as text, such as a DEFAULT.
///
/// # Errors
/// The text is no expression.
pub(crate) fn parsed(text: &str) -> Result<Expr> {
    freestone_sql::parse_expression(text).map_err(|error| Error::of_syntax(&error, text, 1, 1))
}

/// A name as it is in quotes.
pub(crate) fn name(text: &str, span: Span) -> Name {
    Name { text: text.to_owned(), quoted: true, span }
}

/// `first.second`
pub(crate) fn column(parts: &[&str], span: Span) -> Expr {
    Expr { kind: ExprKind::Column(object(parts, span)), span }
}

fn object(parts: &[&str], span: Span) -> ObjectName {
    ObjectName { parts: parts.iter().map(|part| name(part, span)).collect(), span }
}

/// A text, a number or NULL.
pub(crate) fn literal(literal: Literal, span: Span) -> Expr {
    Expr { kind: ExprKind::Literal(literal), span }
}

/// A number that is not negative.
pub(crate) fn number(value: usize, span: Span) -> Expr {
    literal(Literal::Number(value.to_string()), span)
}

/// A call of one of our functions.
pub(crate) fn call(function: &str, arguments: Vec<Expr>, span: Span) -> Expr {
    let arguments = arguments.into_iter().map(|value| Argument { name: None, value }).collect();
    let call = Call::of(object(&[function], span), arguments);
    Expr { kind: ExprKind::Call(Box::new(call)), span }
}

/// A conjunction; `None` of nothing.
pub(crate) fn conjunction(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    let mut conditions = conditions.into_iter();
    let first = conditions.next()?;
    let span = first.span;
    let rest: Vec<Link> = conditions.map(|operand| Link { operator: BinaryOperator::And, span, operand }).collect();
    if rest.is_empty() {
        return Some(first);
    }
    Some(Expr { kind: ExprKind::Chain { first: Box::new(first), rest }, span })
}

/// `left = right`
pub(crate) fn equal(left: Expr, right: Expr) -> Expr {
    let span = left.span;
    let rest = vec![Link { operator: BinaryOperator::Eq, span, operand: right }];
    Expr { kind: ExprKind::Chain { first: Box::new(left), rest }, span }
}

/// `value IS NULL`, or `value IS NOT NULL`.
pub(crate) fn is_null(value: Expr, negated: bool) -> Expr {
    let span = value.span;
    Expr { kind: ExprKind::Is { operand: Box::new(value), negated, test: IsTest::Null }, span }
}

/// `CASE WHEN condition THEN result … END`
pub(crate) fn case(branches: Vec<(Expr, Expr)>, span: Span) -> Expr {
    Expr { kind: ExprKind::Case(Box::new(Case { operand: None, branches, otherwise: None })), span }
}

/// A value under a name.
pub(crate) fn item(value: Expr, alias: &str) -> SelectItem {
    let alias = Some(name(alias, value.span));
    SelectItem { value, alias }
}

/// `*`
pub(crate) fn star(span: Span) -> SelectItem {
    SelectItem { value: Expr { kind: ExprKind::Star(Box::default()), span }, alias: None }
}

/// The values of a query's only row as one struct.
pub(crate) fn row_of(query: Box<Query>, span: Span) -> Expr {
    let all = Expr { kind: ExprKind::Star(Box::<Star>::default()), span };
    let values = vec![Expr { kind: ExprKind::Unpacked(Box::new(all)), span }];
    let row = SelectItem { value: Expr { kind: ExprKind::Row(values), span }, alias: None };
    let select = Select { from: vec![derived(query, "__assigned", span)], ..Select::of_items(vec![row], span) };
    Expr { kind: ExprKind::Subquery(Box::new(query_of(select))), span }
}

/// `"table"`
pub(crate) fn named_table(table: &str, span: Span) -> Table {
    let kind = TableKind::Named { name: object(&[table], span), version: None };
    Table { kind, alias: None, sample: None, span }
}

/// `"table" AS "alias"`
pub(crate) fn table(table: &str, alias: &str, span: Span) -> Table {
    Table { alias: Some(named(alias, span)), ..named_table(table, span) }
}

/// `(query) AS "alias"`
pub(crate) fn derived(query: Box<Query>, alias: &str, span: Span) -> Table {
    Table { kind: TableKind::Query { query, lateral: false }, alias: Some(named(alias, span)), sample: None, span }
}

fn named(alias: &str, span: Span) -> TableAlias {
    TableAlias { name: name(alias, span), columns: vec![] }
}

/// A query that is a SELECT.
pub(crate) fn query_of(select: Select) -> Query {
    let span = select.span;
    Query::of(QueryBody::Select(Box::new(select)), span)
}

/// A query that also sees the queries with names before its statement.
pub(crate) fn behind(before: Option<With>, mut query: Box<Query>) -> Box<Query> {
    if before.is_none() || query.with.is_none() {
        query.with = before.or(query.with);
        return query;
    }
    let span = query.span;
    Box::new(Query { with: before, ..Query::of(QueryBody::Nested(query), span) })
}

/// The rows of the source of a MERGE.
pub(crate) fn rows_of_source(merge: &Merge) -> Query {
    Query { with: merge.with.clone(), ..all_of(merge.source.clone()) }
}

/// A query of all that a statement which changes rows reads, without the table that it changes.
pub(crate) fn parts_of_write(write: &Write, span: Span) -> Query {
    let (mut from, mut values) = (vec![], vec![]);
    let set = |set: &[Assignment]| set.iter().map(|one| one.value.clone()).collect::<Vec<_>>();
    let returning = match write {
        Write::Insert(insert) => {
            from.extend(insert.rows.clone().map(|rows| derived(rows, "__rows", span)));
            if let Some(OnConflict::Update { set: changes, condition, .. }) = &insert.on_conflict {
                values.extend(set(changes).into_iter().chain(condition.clone()));
            }
            &insert.returning
        }
        Write::Update(update) => {
            from.clone_from(&update.from);
            values.extend(set(&update.set).into_iter().chain(update.condition.clone()));
            &update.returning
        }
        Write::Delete(delete) => {
            from.clone_from(&delete.using);
            values.extend(delete.condition.clone());
            &delete.returning
        }
        Write::Merge(merge) => {
            from.push(merge.source.clone());
            if let JoinCondition::On(condition) = &merge.condition {
                values.push((**condition).clone());
            }
            for clause in &merge.clauses {
                values.extend(clause.condition.clone());
                match &clause.action {
                    MergeAction::Update(changes) => values.extend(set(changes)),
                    MergeAction::Insert { values: given, .. } => values.extend(given.iter().cloned()),
                    _ => {}
                }
            }
            &merge.returning
        }
    };
    let items = values.into_iter().map(|value| SelectItem { value, alias: None }).chain(returning.iter().cloned());
    let select = Select { from, ..Select::of_items(items.collect(), span) };
    Query { with: write.with().cloned(), ..query_of(select) }
}

/// A part of WITH that has the rows of a table.
pub(crate) fn part_of_table(part: &WithPart, rows: &str) -> WithPart {
    let body = WithBody::Query(Box::new(all_of(table(rows, rows, part.span))));
    WithPart { body, materialized: None, key: vec![], ..part.clone() }
}
