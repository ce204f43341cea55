//! Expressions of DuckDB and PostgreSQL that the parser does not support: `lambda x: x + 1`, `[x FOR x IN list IF …]`,
//! a name before an expression (`a: 42`), `#1` for the first column of FROM, `GLOB`, `IN` with a list without
//! parentheses, `BETWEEN SYMMETRIC`, and `**`.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens,
    Value,
};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Word};

use freestone_binder::patterns;

use super::dialect::SqlDialect;
use super::fragments::{self, call};

type Parsed<T> = Result<T, ParserError>;

/// The call that represents `#1`, the first column of FROM.
pub(crate) const POSITION: &str = "freestone$position";

/// Parses an expression of one of these forms at the parser's position; `None` if there is none.
pub(crate) fn prefix(parser: &mut Parser) -> Option<Parsed<Expr>> {
    match &parser.peek_token_ref().token {
        Token::LBracket if is_comprehension(parser) => Some(comprehension(parser)),
        Token::Sharp => {
            let Token::Number(position, _) = parser.peek_nth_token_ref(1).token.clone() else { return None };
            parser.advance_token();
            parser.advance_token();
            Some(Ok(call(POSITION, vec![Expr::value(Value::Number(position, false))])))
        }
        Token::Word(word) => {
            let next = &parser.peek_nth_token_ref(1).token;
            let is_lambda = is(word, "LAMBDA") && matches!(next, Token::Word(_) | Token::LParen);
            if is_lambda && ends_in_colon(parser) {
                return Some(lambda(parser));
            }
            if *next == Token::Colon && begins_item(parser) {
                return Some(named(parser));
            }
            None
        }
        _ => None,
    }
}

/// The precedence of the operator at the parser's position, if it is one of these.
pub(crate) fn precedence(parser: &Parser) -> Option<u8> {
    let [first, second] = parser.peek_tokens_ref();
    match (&first.token, &second.token) {
        (Token::Mul, Token::Mul) => Some(SqlDialect.prec_value(Precedence::Caret)),
        (Token::Word(word), _) if is(word, "GLOB") => Some(SqlDialect.prec_value(Precedence::Like)),
        (Token::Word(not), Token::Word(word)) if not.keyword == Keyword::NOT && is(word, "GLOB") => {
            Some(SqlDialect.prec_value(Precedence::Like))
        }
        _ => None,
    }
}

/// Parses the rest of an expression after `left`; `None` if one of the parser's own operators follows.
pub(crate) fn infix(parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Parsed<Expr>> {
    let [first, second, third] = parser.peek_tokens_ref();
    let negated = matches!(&first.token, Token::Word(word) if word.keyword == Keyword::NOT);
    let (operator, after) = if negated { (second, third) } else { (first, second) };
    match (&operator.token, &after.token) {
        (Token::Mul, Token::Mul) if !negated => {
            parser.advance_token();
            parser.advance_token();
            let right = parser.parse_subexpr(precedence);
            Some(right.map(|right| call("power", vec![left.clone(), right])))
        }
        (Token::Word(word), _) if is(word, "GLOB") => {
            skip(parser, negated, 1);
            Some(parser.parse_subexpr(precedence).map(|pattern| glob(left.clone(), pattern, negated)))
        }
        (Token::Word(word), Token::Word(next)) if word.keyword == Keyword::BETWEEN && is(next, "SYMMETRIC") => {
            skip(parser, negated, 2);
            Some(symmetric(parser, left, negated))
        }
        (Token::Word(word), next) if word.keyword == Keyword::IN => {
            let is_list = match next {
                Token::LParen => false,
                Token::Word(word) => word.keyword != Keyword::UNNEST,
                _ => true,
            };
            is_list.then(|| {
                skip(parser, negated, 1);
                parser.parse_subexpr(precedence).map(|list| in_list(left.clone(), list, negated))
            })
        }
        _ => None,
    }
}

fn skip(parser: &mut Parser, negated: bool, words: usize) {
    for _ in 0..words + usize::from(negated) {
        parser.advance_token();
    }
}

fn is(word: &Word, text: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text)
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// `NOT expr` for the negated form of an operator.
fn negation(expr: Expr, negated: bool) -> Expr {
    use datafusion::sql::sqlparser::ast::UnaryOperator::Not;
    if negated { nested(Expr::UnaryOp { op: Not, expr: Box::new(nested(expr)) }) } else { nested(expr) }
}

/// Converts `value IN list` to `value = ANY(list)`.
fn in_list(value: Expr, list: Expr, negated: bool) -> Expr {
    let (left, right) = (Box::new(value), Box::new(list));
    negation(Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: false }, negated)
}

/// Converts `value BETWEEN SYMMETRIC a AND b`, whose bounds may be in either order.
fn symmetric(parser: &mut Parser, value: &Expr, negated: bool) -> Parsed<Expr> {
    let precedence = SqlDialect.prec_value(Precedence::Between);
    let low = parser.parse_subexpr(precedence)?;
    parser.expect_keyword_is(Keyword::AND)?;
    let high = parser.parse_subexpr(precedence)?;
    let between = |low: &Expr, high: &Expr| Expr::Between {
        expr: Box::new(value.clone()),
        negated: false,
        low: Box::new(low.clone()),
        high: Box::new(high.clone()),
    };
    Ok(negation(binary(between(&low, &high), BinaryOperator::Or, between(&high, &low)), negated))
}

/// Converts `value GLOB pattern`. A literal pattern becomes a regular expression.
fn glob(value: Expr, pattern: Expr, negated: bool) -> Expr {
    let matches = match &pattern {
        Expr::Value(text) if matches!(text.value, Value::SingleQuotedString(_)) => {
            let Value::SingleQuotedString(text) = &text.value else { return pattern };
            let regex = Expr::value(Value::SingleQuotedString(patterns::glob(text)));
            binary(value, BinaryOperator::PGRegexMatch, regex)
        }
        _ => call("glob", vec![value, pattern]),
    };
    negation(matches, negated)
}

/// Whether only names are between LAMBDA and a colon.
fn ends_in_colon(parser: &Parser) -> bool {
    for at in 1.. {
        match &parser.peek_nth_token_ref(at).token {
            Token::Word(_) | Token::Comma | Token::LParen | Token::RParen => {}
            other => return *other == Token::Colon,
        }
    }
    false
}

/// `lambda x, y: body`.
fn lambda(parser: &mut Parser) -> Parsed<Expr> {
    parser.advance_token();
    let in_parentheses = parser.consume_token(&Token::LParen);
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    if in_parentheses {
        parser.expect_token(&Token::RParen)?;
    }
    parser.expect_token(&Token::Colon)?;
    Ok(lambda_of(names, parser.parse_expr()?))
}

pub(crate) fn lambda_of(names: Vec<Ident>, body: Expr) -> Expr {
    let parameter = |name| LambdaFunctionParameter { name, data_type: None };
    Expr::Lambda(LambdaFunction {
        params: OneOrManyWithParens::Many(names.into_iter().map(parameter).collect()),
        body: Box::new(body),
        syntax: LambdaSyntax::Arrow,
    })
}

/// Whether the bracket at the parser's position contains `expression FOR name`.
fn is_comprehension(parser: &Parser) -> bool {
    let mut depth = 0usize;
    for at in 0.. {
        match &parser.peek_nth_token_ref(at).token {
            Token::LBracket | Token::LParen | Token::LBrace => depth += 1,
            Token::RBracket | Token::RParen | Token::RBrace => depth -= 1,
            Token::Word(word) if depth == 1 && word.keyword == Keyword::FOR => return true,
            Token::EOF => return false,
            _ => {}
        }
        if depth == 0 {
            return false;
        }
    }
    false
}

/// Converts `[result FOR name[, position] IN list [IF condition]]` to a filter and a transformation of the list.
fn comprehension(parser: &mut Parser) -> Parsed<Expr> {
    parser.expect_token(&Token::LBracket)?;
    let result = parser.parse_expr()?;
    parser.expect_keyword_is(Keyword::FOR)?;
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    parser.expect_keyword_is(Keyword::IN)?;
    let mut list = parser.parse_expr()?;
    let condition = if parser.parse_keyword(Keyword::IF) { Some(parser.parse_expr()?) } else { None };
    parser.expect_token(&Token::RBracket)?;
    match condition {
        Some(condition) if names.len() > 1 => return Ok(with_positions(list, names, condition, result)),
        Some(condition) => list = call("list_filter", vec![list, lambda_of(names.clone(), condition)]),
        None => {}
    }
    Ok(call("list_transform", vec![list, lambda_of(names, result)]))
}

/// A comprehension with a position, which is that in the whole list: results and conditions are computed together, and
/// then filtered.
fn with_positions(list: Expr, names: Vec<Ident>, condition: Expr, result: Expr) -> Expr {
    let (kept, value) = (fragments::text("kept"), fragments::text("value"));
    let branch = CaseWhen { condition: condition.clone(), result };
    let result = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![branch],
        else_result: None,
    };
    let both = call("named_struct", vec![kept.clone(), condition, value.clone(), result]);
    let entries = call("list_transform", vec![list, lambda_of(names, both)]);
    let entry = || Ident::new("__entry");
    let field = |name: Expr| lambda_of(vec![entry()], call("get_field", vec![Expr::Identifier(entry()), name]));
    call("list_transform", vec![call("list_filter", vec![entries, field(kept)]), field(value)])
}

/// Whether the `name:` at the parser's position begins an item of SELECT: it follows SELECT, DISTINCT, or a comma
/// between items.
fn begins_item(parser: &Parser) -> bool {
    let mut depth = 0usize;
    let mut is_first = true;
    for at in (0..parser.index()).rev() {
        let is_boundary = match &parser.token_at(at).token {
            Token::Whitespace(_) => continue,
            Token::RParen | Token::RBracket | Token::RBrace => {
                depth += 1;
                false
            }
            Token::LParen | Token::LBracket | Token::LBrace => {
                if depth == 0 {
                    return false;
                }
                depth -= 1;
                false
            }
            Token::Word(word) if depth == 0 => match word.keyword {
                Keyword::SELECT => return true,
                Keyword::FROM | Keyword::WHERE | Keyword::GROUP | Keyword::ORDER | Keyword::SET => return false,
                Keyword::DISTINCT | Keyword::ALL => true,
                _ => false,
            },
            Token::Comma => true,
            _ => false,
        };
        if is_first && !is_boundary {
            return false;
        }
        is_first = false;
    }
    false
}

/// Parses `name: expression`, which means `expression AS name`.
fn named(parser: &mut Parser) -> Parsed<Expr> {
    let name = parser.parse_identifier()?;
    parser.expect_token(&Token::Colon)?;
    Ok(Expr::Named { expr: Box::new(parser.parse_expr()?), name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expected: &str) {
        let mut parser = Parser::new(&SqlDialect).try_with_sql(sql).expect(sql);
        assert_eq!(parser.parse_expr().expect(sql).to_string(), expected, "{sql}");
        assert_eq!(parser.peek_token().token, Token::EOF, "{sql}");
    }

    #[test]
    fn forms_are_written_in_the_parsers_own() {
        for (sql, expected) in [
            ("f(lambda x: x + 1)", "f((x) -> x + 1)"),
            ("f(a, lambda x, i: x > i)", "f(a, (x, i) -> x > i)"),
            ("[x + 1 FOR x IN [1, 2]]", "list_transform([1, 2], (x) -> x + 1)"),
            ("[x FOR x IN l IF x > 1]", "list_transform(list_filter(l, (x) -> x > 1), (x) -> x)"),
            ("a GLOB 'x*[!b]?.'", "(a ~ '(?s)^x.*[^b].\\.$')"),
            ("a NOT GLOB b || c", "(NOT (glob(a, b || c)))"),
            ("a IN [1, 2] AND b", "(a = ANY([1, 2])) AND b"),
            ("a NOT IN l", "(NOT (a = ANY(l)))"),
            ("a IN (1, 2)", "a IN (1, 2)"),
            ("a BETWEEN SYMMETRIC 3 AND 1 AND b", "(a BETWEEN 3 AND 1 OR a BETWEEN 1 AND 3) AND b"),
            ("2 ** 3 * 4", "power(2, 3) * 4"),
            ("{'a': 1, 'b': 2}", "{'a': 1, 'b': 2}"),
            ("a[1:2]", "a[1:2]"),
            ("#1 + a # 2", "freestone$position(1) + a # 2"),
        ] {
            check(sql, expected);
        }
    }
}
