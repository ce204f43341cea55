//! Options in parentheses as names and texts.

use freestone_sql::tree::{Argument, Expr, ExprKind, Literal, OptionItem, UnaryOperator};

use super::command::OptionList;

/// The options of a statement, whose text is given, with their values as texts. One without a value has the value `true`.
pub(crate) fn list_of(options: &[OptionItem], text: &str) -> OptionList {
    let value =
        |value: &Option<Expr>| value.as_ref().map_or_else(|| "true".to_owned(), |value| written_in(text, value));
    options.iter().map(|option| (option.name.text.clone(), value(&option.value))).collect()
}

/// A value as a plain text: a text or a name without its quotes, and anything else as it stands in the statement.
pub(crate) fn written_in(text: &str, value: &Expr) -> String {
    match &value.kind {
        ExprKind::Column(_) if !value.span.of(text).starts_with('"') => value.span.of(text).trim().to_owned(),
        ExprKind::Literal(_) | ExprKind::Column(_) => text_of(value),
        ExprKind::Unary { operator: UnaryOperator::Minus, operand } => format!("-{}", written_in(text, operand)),
        _ => value.span.of(text).trim().to_owned(),
    }
}

/// The text of an option's value: a text without its quotes, or what was written.
pub(crate) fn text_of(value: &Expr) -> String {
    match &value.kind {
        ExprKind::Literal(Literal::Text(text)) => text.clone(),
        ExprKind::Literal(Literal::Boolean(value)) => value.to_string(),
        ExprKind::Column(name) => name.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("."),
        _ => packed(value).unwrap_or_else(|| value.to_string()),
    }
}

/// `struct_pack(a := 1)` as the text of `{'a': 1}`.
fn packed(value: &Expr) -> Option<String> {
    let ExprKind::Call(call) = &value.kind else { return None };
    if !matches!(call.name.parts.as_slice(), [only] if only.text == "struct_pack") {
        return None;
    }
    let field = |argument: &Argument| Some((argument.name.clone()?, argument.value.clone()));
    let fields = call.arguments.iter().map(field).collect::<Option<Vec<_>>>()?;
    Some(Expr { kind: ExprKind::Struct(fields), span: value.span }.to_string())
}
