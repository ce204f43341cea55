//! Statements with literals as statements with parameters: `… WHERE id = 5` as `… WHERE id = $1` with the value 5. So what is
//! known of one statement is known of all that differ only in such values.

use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Longer statements are left as they are.
const TOKENS_MAX: usize = 200;

/// The statement with parameters instead of its integers and texts, and these. `None` if it has none, has parameters
/// itself, or has a literal in another place than behind an operator, a comma or a parenthesis, where its meaning
/// is not that of a value.
pub(crate) fn lifted(tokens: &[TokenWithSpan]) -> Option<(String, Vec<ScalarValue>)> {
    if tokens.len() > TOKENS_MAX || !is_one_of_rows(&tokens.first()?.token) {
        return None;
    }
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let (mut text, mut values) = (String::new(), vec![]);
    for (at, TokenWithSpan { token: found, .. }) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).and_then(token);
        let is_sign =
            |at: usize| token(at) == Some(&Token::Minus) && at.checked_sub(1).and_then(token).is_some_and(opens);
        let value = match found {
            Token::Number(digits, false) => {
                let sign = if at.checked_sub(1).is_some_and(is_sign) { "-" } else { "" };
                let number = format!("{sign}{digits}").parse::<i64>().ok()?;
                Some(ScalarValue::Int64(Some(number)))
            }
            Token::SingleQuotedString(value) => Some(ScalarValue::Utf8(Some(value.clone()))),
            Token::Minus if is_sign(at) && matches!(token(at + 1), Some(Token::Number(_, false))) => continue,
            Token::Word(_)
            | Token::Comma
            | Token::Period
            | Token::LParen
            | Token::RParen
            | Token::Eq
            | Token::Plus
            | Token::Minus
            | Token::Mul => None,
            _ => return None,
        };
        if !text.is_empty() {
            text.push(' ');
        }
        match value {
            Some(_) if !before.is_some_and(|before| opens(before) || is_operator(before)) => return None,
            Some(value) => {
                values.push(value);
                text.push_str(&format!("${}", values.len()));
            }
            None => text.push_str(&found.to_string()),
        }
    }
    (!values.is_empty()).then_some((text, values))
}

/// Whether a statement begins like one that reads or changes rows.
fn is_one_of_rows(first: &Token) -> bool {
    let Token::Word(word) = first else { return false };
    let is = |keyword: &&str| word.value.eq_ignore_ascii_case(keyword);
    word.quote_style.is_none() && ["SELECT", "INSERT", "UPDATE", "DELETE"].iter().any(is)
}

/// Whether a value can follow, with a sign.
fn opens(token: &Token) -> bool {
    matches!(token, Token::Eq | Token::Comma | Token::LParen)
}

fn is_operator(token: &Token) -> bool {
    matches!(token, Token::Plus | Token::Minus | Token::Mul)
}

#[cfg(test)]
mod tests {
    use crate::sql::statement::parse_script;

    fn check(sql: &str, expected: Option<(&str, &str)>) {
        let found = parse_script(sql)[0].lifted();
        let found = found.map(|(text, values)| {
            let values = values.iter().map(ToString::to_string).collect::<Vec<_>>();
            (text, values.join("|"))
        });
        assert_eq!(found.as_ref().map(|(text, values)| (text.as_str(), values.as_str())), expected, "{sql}");
    }

    #[test]
    fn values_become_parameters() {
        check("SELECT * FROM t WHERE id = 5", Some(("SELECT * FROM t WHERE id = $1", "5")));
        check(
            "insert into \"T\" values (1, -2, 'it''s', NULL, true)",
            Some(("insert into \"T\" values ( $1 , $2 , $3 , NULL , true )", "1|-2|it's")),
        );
        check("UPDATE t SET a = a - 5 WHERE id = 7", Some(("UPDATE t SET a = a - $1 WHERE id = $2", "5|7")));
        check("UPDATE t SET a = a - -5 WHERE id = 7", Some(("UPDATE t SET a = a - - $1 WHERE id = $2", "5|7")));
        check("SELECT 1 FROM t WHERE id = 2", None);
        check("SELECT a FROM t WHERE id = 2 LIMIT 1", None);
        check("SELECT a FROM t WHERE id = 1.5", None);
        check("SELECT a FROM t WHERE id = 99999999999999999999", None);
        check("SELECT a FROM t WHERE d = DATE '2020-01-01'", None);
        check("SELECT a FROM t WHERE id = $1 AND a = 5", None);
        check("SELECT a FROM t WHERE id = '5'::int", None);
        check("SELECT a FROM t WHERE id > 5", None);
        check("SELECT a FROM t", None);
        check("VALUES (1)", None);
        check("SELECT a FROM t WHERE s = E'x'", None);
        check(
            "SELECT a FROM t WHERE id = -9223372036854775808",
            Some(("SELECT a FROM t WHERE id = $1", "-9223372036854775808")),
        );
    }
}
