//! From tokens to a tree, by recursive descent.
//!
//! A file per subject; each method parses one rule of the grammar, at the parser's position. No rule goes back over more
//! than a few tokens, so time is linear in the text.

mod alter;
mod calls;
mod collections;
mod copy;
mod expressions;
mod from;
mod hints;
mod literals;
mod names;
mod objects;
mod own;
mod pivots;
mod primary;
mod queries;
mod select;
mod session;
mod statements;
mod tables;
#[cfg(test)]
mod tests;
mod transactions;
mod types;
mod writes;

use crate::error::{ErrorCode, SyntaxError};
use crate::keyword::Keyword;
use crate::lexer::{Lexed, Op, Token, TokenKind, lex, shown};
use crate::span::Span;
use crate::tree::{Expr, Statement, Type};
use crate::with_stack;

pub(crate) use expressions::Precedence;
pub(crate) use literals::{decoded, unquoted};
use queries::IntoTable;

/// The maximum depth of brackets, calls, CASEs, subqueries, and signs or NOTs before an operand.
pub const NESTED_MAX: u32 = 100;

/// The maximum depth of a tree, with its operators.
pub const LEVELS_MAX: u32 = 1000;

/// What a rule returns. The error is boxed because it is larger than most results.
type Parsed<T> = Result<T, Box<SyntaxError>>;

/// Parses the statements of a script.
///
/// # Errors
/// The first place at which the text is no statement of this dialect.
pub fn parse_statements(text: &str) -> Result<Vec<Statement>, SyntaxError> {
    parse(text, |parser| {
        let mut statements = vec![];
        loop {
            while parser.accept_op(Op::Semicolon) {}
            if parser.peek() == TokenKind::End {
                return Ok(statements);
            }
            statements.push(parser.statement()?);
            parser.expect_end_of_statement()?;
        }
    })
}

/// Parses one statement, behind which a semicolon may stand.
///
/// # Errors
/// The first place at which the text is no statement of this dialect.
pub fn parse_statement(text: &str) -> Result<Statement, SyntaxError> {
    parse(text, |parser| {
        let statement = parser.statement()?;
        parser.expect_end_of_statement()?;
        while parser.accept_op(Op::Semicolon) {}
        Ok(statement)
    })
}

/// Parses one expression, such as a default or a condition.
///
/// # Errors
/// The first place at which the text is no expression of this dialect.
pub fn parse_expression(text: &str) -> Result<Expr, SyntaxError> {
    parse(text, |parser| parser.expression())
}

/// Parses the name of a type.
///
/// # Errors
/// The first place at which the text is no type of this dialect.
pub fn parse_type(text: &str) -> Result<Type, SyntaxError> {
    parse(text, |parser| parser.data_type())
}

/// Parses a whole text by a rule.
fn parse<T>(text: &str, rule: impl FnOnce(&mut Parser) -> Parsed<T>) -> Result<T, SyntaxError> {
    let Lexed { tokens, error: unreadable } = lex(text);
    let mut parser = Parser { text, tokens, at: 0, nested: 0, levels: 0, into: None };
    let parsed = rule(&mut parser).and_then(|parsed| match parser.peek() {
        TokenKind::End => Ok(parsed),
        _ => Err(parser.expected("the end of the text")),
    });
    match (parsed, unreadable) {
        (Ok(parsed), None) => Ok(parsed),
        // What cannot be read ends the tokens. An error before it comes first.
        (Err(error), Some(unreadable)) if error.span.start < unreadable.span.start => Err(*error),
        (_, Some(unreadable)) => Err(unreadable),
        (Err(error), None) => Err(*error),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    /// The position in the tokens, of which the last is the end.
    at: usize,
    /// The depth of what is being parsed.
    nested: u32,
    /// The depth of what was parsed last, within what is being parsed.
    levels: u32,
    /// The INTO of a query that is the whole statement.
    into: Option<IntoTable>,
}

impl Parser<'_> {
    fn token(&self, ahead: usize) -> Token {
        let end = Token { kind: TokenKind::End, span: Span::default() };
        self.tokens.get(self.at + ahead).or(self.tokens.last()).copied().unwrap_or(end)
    }

    fn peek(&self) -> TokenKind {
        self.token(0).kind
    }

    fn peek_at(&self, ahead: usize) -> TokenKind {
        self.token(ahead).kind
    }

    /// The place of the next token.
    fn span(&self) -> Span {
        self.token(0).span
    }

    /// The place from a token to the one before the next.
    fn since(&self, start: Span) -> Span {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or(start, |last| start.to(last.span))
    }

    /// Takes the next token.
    fn advance(&mut self) -> Span {
        let span = self.span();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        span
    }

    /// The keyword at a distance, if it is written without quotes.
    fn keyword(&self, ahead: usize) -> Option<Keyword> {
        match self.peek_at(ahead) {
            TokenKind::Word(keyword) => keyword,
            _ => None,
        }
    }

    fn is(&self, keyword: Keyword) -> bool {
        self.is_at(0, keyword)
    }

    fn is_at(&self, ahead: usize, keyword: Keyword) -> bool {
        self.keyword(ahead) == Some(keyword)
    }

    fn is_any(&self, keywords: &[Keyword]) -> bool {
        self.keyword(0).is_some_and(|keyword| keywords.contains(&keyword))
    }

    fn is_op(&self, op: Op) -> bool {
        self.is_op_at(0, op)
    }

    fn is_op_at(&self, ahead: usize, op: Op) -> bool {
        self.peek_at(ahead) == TokenKind::Op(op)
    }

    /// Takes a keyword if it is the next token.
    fn accept(&mut self, keyword: Keyword) -> bool {
        let found = self.is(keyword);
        if found {
            self.advance();
        }
        found
    }

    /// Takes keywords if they are the next tokens, all of them.
    fn accept_all(&mut self, keywords: &[Keyword]) -> bool {
        let found = keywords.iter().enumerate().all(|(ahead, keyword)| self.is_at(ahead, *keyword));
        if found {
            self.at += keywords.len();
        }
        found
    }

    /// Takes one of the keywords if it is the next token.
    fn accept_any(&mut self, keywords: &[Keyword]) -> Option<Keyword> {
        let found = self.keyword(0).filter(|keyword| keywords.contains(keyword));
        if found.is_some() {
            self.advance();
        }
        found
    }

    fn accept_op(&mut self, op: Op) -> bool {
        let found = self.is_op(op);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, keyword: Keyword) -> Parsed<Span> {
        if self.is(keyword) { Ok(self.advance()) } else { Err(self.expected(keyword.word())) }
    }

    fn expect_all(&mut self, keywords: &[Keyword]) -> Parsed<()> {
        keywords.iter().try_for_each(|keyword| self.expect(*keyword).map(drop))
    }

    fn expect_op(&mut self, op: Op) -> Parsed<Span> {
        if self.is_op(op) { Ok(self.advance()) } else { Err(self.expected(op.text())) }
    }

    /// Takes one of the keywords.
    fn expect_any(&mut self, keywords: &[Keyword]) -> Parsed<Keyword> {
        self.accept_any(keywords).ok_or_else(|| {
            let words: Vec<&'static str> = keywords.iter().map(|keyword| keyword.word()).collect();
            self.expected_any(&words)
        })
    }

    fn is_at_end_of_statement(&self) -> bool {
        matches!(self.peek(), TokenKind::End | TokenKind::Op(Op::Semicolon))
    }

    fn expect_end_of_statement(&self) -> Parsed<()> {
        if self.is_at_end_of_statement() { Ok(()) } else { Err(self.expected("the end of the statement")) }
    }

    /// One or more items with commas between them. A comma may stand behind the last one, before a bracket or the end.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_op(Op::Comma) {
            let ends = matches!(self.peek(), TokenKind::Op(Op::RightParen | Op::RightBracket | Op::RightBrace));
            if ends || self.is_at_end_of_statement() {
                break;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `(item, …)`
    fn list_in_parens<T>(&mut self, item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.in_parens(|parser| parser.list(item))
    }

    /// `(item, …)` or nothing.
    fn optional_list_in_parens<T>(&mut self, item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        if self.is_op(Op::LeftParen) { self.list_in_parens(item) } else { Ok(vec![]) }
    }

    /// What stands between parentheses.
    fn in_parens<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.expect_op(Op::LeftParen)?;
        let parsed = self.nest(rule)?;
        self.expect_close(Op::RightParen)?;
        Ok(parsed)
    }

    /// A closing bracket, behind what may be a list.
    fn expect_close(&mut self, op: Op) -> Parsed<Span> {
        if self.is_op(op) {
            return Ok(self.advance());
        }
        Err(self.expected_any(&[",", op.text()]))
    }

    /// A part that is nested in what is being parsed.
    fn nest<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nested == NESTED_MAX {
            return Err(self.too_deep());
        }
        self.nested += 1;
        let parsed = self.with_own_depth(|parser| {
            let parsed = with_stack(|| rule(parser))?;
            parser.deepen()?;
            Ok(parsed)
        });
        self.nested -= 1;
        parsed
    }

    /// A part whose depth is counted from its own beginning, because it does not stand within what was parsed before.
    fn with_own_depth<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let before = std::mem::take(&mut self.levels);
        let parsed = rule(self);
        self.levels = self.levels.max(before);
        parsed
    }

    /// Notes that what was parsed last becomes a part of another node.
    fn deepen(&mut self) -> Parsed<()> {
        self.levels += 1;
        if self.levels > LEVELS_MAX { Err(self.too_deep()) } else { Ok(()) }
    }

    fn too_deep(&self) -> Box<SyntaxError> {
        let message = format!(
            "the statement is too complex: it nests too deeply (at most {LEVELS_MAX} levels of operators, and {NESTED_MAX} \
             of parentheses, functions and subqueries)"
        );
        let hint = "write long chains of values as x IN (…), or as rows of a table that is joined";
        Box::new(SyntaxError::new(ErrorCode::TooComplex, self.span(), message).with_hint(hint))
    }

    /// The error that something else was expected here.
    fn expected(&self, what: &'static str) -> Box<SyntaxError> {
        self.expected_any(&[what])
    }

    fn expected_any(&self, what: &[&'static str]) -> Box<SyntaxError> {
        let found = match self.peek() {
            TokenKind::End => "the end of the text".to_owned(),
            _ => shown(self.span().of(self.text)),
        };
        let message = format!("expected {}, found {found}", hints::alternatives(what));
        let mut error = SyntaxError::new(ErrorCode::Syntax, self.span(), message);
        error.expected = what.to_vec();
        error.hint = self.near_keyword().map(|word| format!("did you mean {word}?"));
        Box::new(error)
    }

    /// The error that something is SQL and not available.
    fn refused(&self, span: Span, what: &str, hint: &str) -> Box<SyntaxError> {
        let error = SyntaxError::new(ErrorCode::Unsupported, span, format!("{what} is not available"));
        Box::new(error.with_hint(hint))
    }

    /// The same for the next token.
    fn refused_here<T>(&self, what: &str, hint: &str) -> Parsed<T> {
        Err(self.refused(self.span(), what, hint))
    }
}
