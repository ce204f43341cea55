//! PostgreSQL's names for unnamed columns: the name of the function that computes them, or `?column?`.

use freestone_sql::Span;
use freestone_sql::tree::{
    self, Expr, ExprKind, Name, Query, QueryBody, Select, SelectItem, SpecialCall, TrimSide, TypeKind, WalkMut,
};

use super::types::Type;

const UNKNOWN: &str = "?column?";

/// Whether a statement has one of these words, which are in lower case.
pub fn mentions(sql: &str, words: &[&str]) -> bool {
    let lower = sql.to_ascii_lowercase();
    words.iter().any(|word| lower.contains(word))
}

/// PostgreSQL's name for the column of an expression.
pub fn name_of(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Column(name) => last(name),
        ExprKind::Field { name, .. } => &name.text,
        ExprKind::Collate { operand, .. } | ExprKind::Subscript { operand, .. } => return name_of(operand),
        ExprKind::Cast { operand, data_type, .. } => {
            let name = name_of(operand);
            return if name == UNKNOWN { of_cast(data_type) } else { name };
        }
        ExprKind::TypedText { data_type, .. } => return of_cast(data_type),
        ExprKind::Interval { .. } => "interval",
        ExprKind::AtTimeZone { .. } => "timezone",
        ExprKind::Call(call) => match last(&call.name) {
            "trim" => "btrim",
            name => name,
        },
        ExprKind::Special(call) => of_special(call),
        ExprKind::SessionValue(_) => return expr.bare_text(),
        ExprKind::Case(_) => "case",
        ExprKind::Row(_) => "row",
        ExprKind::List(_) | ExprKind::ListOfQuery(_) => "array",
        ExprKind::Exists(_) => "exists",
        ExprKind::Subquery(query) => return of_subquery(query),
        _ => UNKNOWN,
    }
    .to_owned()
}

fn of_special(call: &SpecialCall) -> &'static str {
    match call {
        SpecialCall::Extract { .. } => "extract",
        SpecialCall::Position { .. } => "position",
        SpecialCall::Substring { .. } => "substring",
        SpecialCall::Trim { side: TrimSide::Both, .. } => "btrim",
        SpecialCall::Trim { side: TrimSide::Leading, .. } => "ltrim",
        SpecialCall::Trim { side: TrimSide::Trailing, .. } => "rtrim",
        SpecialCall::Overlay { .. } => "overlay",
    }
}

/// A cast of a value without a name has the name of the type.
fn of_cast(data_type: &tree::Type) -> String {
    match &data_type.kind {
        TypeKind::List(element) | TypeKind::Array(element, _) => of_cast(element),
        TypeKind::Named { name, .. } => {
            let is_quoted = name.parts.last().is_some_and(|part| part.quoted);
            let known = if is_quoted { None } else { Type::by_sql(last(name)).and_then(Type::by_oid) };
            known.map_or_else(|| last(name).to_owned(), |known| known.name.to_owned())
        }
        _ => UNKNOWN.to_owned(),
    }
}

/// The name of a subquery's column is the name of the value.
fn of_subquery(query: &Query) -> String {
    match &query.body {
        QueryBody::Select(select) => match select.items.as_slice() {
            [SelectItem { alias: Some(alias), .. }] => alias.text.clone(),
            [SelectItem { value, .. }] => name_of(value),
            _ => UNKNOWN.to_owned(),
        },
        _ => UNKNOWN.to_owned(),
    }
}

/// The last part of a name.
pub fn last(name: &tree::ObjectName) -> &str {
    name.parts.last().map_or("", |part| &part.text)
}

/// Walks through a SELECT, whose columns keep the names that they had before their values were changed.
pub fn walk_named(select: &mut Select, walk: &mut impl WalkMut) {
    let names: Vec<String> = select.items.iter().map(|item| name_of(&item.value)).collect();
    select.walk_mut(walk);
    select.items.iter_mut().zip(&names).for_each(|(item, name)| keep_name(item, name));
}

/// Gives a column without a name the one that it had before its value was changed.
pub fn keep_name(item: &mut SelectItem, before: &str) {
    if item.alias.is_none() && name_of(&item.value) != before {
        item.alias = Some(Name { text: before.to_owned(), quoted: true, span: Span::default() });
    }
}
