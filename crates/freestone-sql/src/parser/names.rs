//! Names, texts, numbers and lists of options.

use super::{Parsed, Parser, literals};
use crate::keyword::{Class, Keyword as K};
use crate::lexer::{Op, TextForm, TokenKind};
use crate::span::Span;
use crate::tree::{Expr, ExprKind, Literal, Name, ObjectName, OptionItem, Text, UnaryOperator};

impl Parser<'_> {
    /// Whether the token at a distance can be the name of a column or table.
    pub(super) fn is_name_at(&self, ahead: usize) -> bool {
        match self.peek_at(ahead) {
            TokenKind::Word(keyword) => keyword.is_none_or(K::names_column),
            TokenKind::QuotedName | TokenKind::UnicodeName => true,
            _ => false,
        }
    }

    /// Whether the token at a distance is a word or a name in quotes.
    pub(super) fn is_label_at(&self, ahead: usize) -> bool {
        matches!(self.peek_at(ahead), TokenKind::Word(_) | TokenKind::QuotedName | TokenKind::UnicodeName)
    }

    /// Takes the next token as a name.
    fn take_name(&mut self) -> Parsed<Name> {
        let kind = self.peek();
        let span = self.span();
        let token = span.of(self.text);
        let (text, quoted) = match kind {
            TokenKind::QuotedName => (literals::unquoted(token, '"'), true),
            TokenKind::UnicodeName => (self.decoded(token, TextForm::Unicode)?, true),
            _ => (token.to_lowercase(), false),
        };
        self.advance();
        Ok(Name { text, quoted, span })
    }

    /// The name of a column, table or other object that is no function and no type.
    pub(super) fn name(&mut self, what: &'static str) -> Parsed<Name> {
        if self.is_name_at(0) { self.take_name() } else { Err(self.expected(what)) }
    }

    /// A name, which may be written as a text in quotes behind AS and in the columns of an alias.
    pub(super) fn name_or_text(&mut self, what: &'static str) -> Parsed<Name> {
        if self.is_text() { self.text_as_name(what) } else { self.name(what) }
    }

    /// A text in quotes as a name.
    pub(super) fn text_as_name(&mut self, what: &'static str) -> Parsed<Name> {
        let text = self.text(what)?;
        Ok(Name { text: text.value, quoted: true, span: text.span })
    }

    /// The name of a function or a type.
    pub(super) fn function_name(&mut self, what: &'static str) -> Parsed<Name> {
        let is_reserved = self.keyword(0).is_some_and(|keyword| keyword.class() == Class::Reserved);
        if self.is_label_at(0) && !is_reserved { self.take_name() } else { Err(self.expected(what)) }
    }

    /// A name where no keyword can stand, so that each is a name.
    pub(super) fn label(&mut self, what: &'static str) -> Parsed<Name> {
        if self.is_label_at(0) { self.take_name() } else { Err(self.expected(what)) }
    }

    /// `catalog.schema.name`
    pub(super) fn object_name(&mut self, what: &'static str) -> Parsed<ObjectName> {
        let first = self.name(what)?;
        self.rest_of_name(first, what)
    }

    /// The same for a function or a type.
    pub(super) fn function_object_name(&mut self, what: &'static str) -> Parsed<ObjectName> {
        let first = self.function_name(what)?;
        self.rest_of_name(first, what)
    }

    fn rest_of_name(&mut self, first: Name, what: &'static str) -> Parsed<ObjectName> {
        let start = first.span;
        let mut parts = vec![first];
        while self.accept_op(Op::Dot) {
            parts.push(self.label(what)?);
        }
        Ok(ObjectName { parts, span: self.since(start) })
    }

    /// `(a, b)` or nothing.
    pub(super) fn optional_columns(&mut self) -> Parsed<Vec<Name>> {
        self.optional_list_in_parens(|parser| parser.name("a column"))
    }

    /// `(a, b)`
    pub(super) fn columns(&mut self) -> Parsed<Vec<Name>> {
        self.list_in_parens(|parser| parser.name("a column"))
    }

    /// IF EXISTS, or nothing.
    pub(super) fn if_exists(&mut self) -> bool {
        self.accept_all(&[K::IF, K::EXISTS])
    }

    /// IF NOT EXISTS, or nothing.
    pub(super) fn if_not_exists(&mut self) -> bool {
        self.accept_all(&[K::IF, K::NOT, K::EXISTS])
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self.peek(), TokenKind::Text(form) if !matches!(form, TextForm::Hexadecimal | TextForm::Bits))
    }

    /// A text in quotes.
    pub(super) fn text(&mut self, what: &'static str) -> Parsed<Text> {
        match self.peek() {
            TokenKind::Text(form) if self.is_text() => {
                let start = self.span();
                let mut value = self.decoded(start.of(self.text), form)?;
                self.advance();
                self.continue_text(&mut value, form)?;
                Ok(Text { value, span: self.since(start) })
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Adds what goes on with a text behind the end of its line: `'a'` and, below it, `'b'` (SQL:2023, part 2, 5.3).
    pub(super) fn continue_text(&mut self, value: &mut String, form: TextForm) -> Parsed<()> {
        if !matches!(form, TextForm::Plain | TextForm::Escaped) {
            return Ok(());
        }
        while self.peek() == TokenKind::Text(TextForm::Plain) && self.is_on_next_line() {
            let token = self.span().of(self.text);
            // Behind an escape, a quote may not be the end, so that the token is another one.
            if form == TextForm::Escaped && token.contains('\\') {
                return Ok(());
            }
            value.push_str(&self.decoded(token, TextForm::Plain)?);
            self.advance();
        }
        Ok(())
    }

    /// Whether there are only spaces and the end of a line between the last token and the next one.
    fn is_on_next_line(&self) -> bool {
        let end = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |last| last.span.end);
        let between = self.text.get(end as usize..self.span().start as usize).unwrap_or_default();
        between.contains(['\n', '\r']) && between.chars().all(char::is_whitespace)
    }

    /// A count without a sign.
    pub(super) fn count(&mut self, what: &'static str) -> Parsed<u64> {
        let count = match self.peek() {
            TokenKind::Number => self.span().of(self.text).replace('_', "").parse().ok(),
            _ => None,
        };
        let count = count.ok_or_else(|| self.expected(what))?;
        self.advance();
        Ok(count)
    }

    /// A number, which may have a sign.
    pub(super) fn signed_number(&mut self) -> Parsed<Expr> {
        let start = self.span();
        if self.accept_op(Op::Minus) {
            let operand = Box::new(self.unsigned_number()?);
            let kind = ExprKind::Unary { operator: UnaryOperator::Minus, operand };
            return Ok(Expr { kind, span: self.since(start) });
        }
        self.accept_op(Op::Plus);
        self.unsigned_number()
    }

    pub(super) fn unsigned_number(&mut self) -> Parsed<Expr> {
        if self.peek() != TokenKind::Number {
            return Err(self.expected("a number"));
        }
        let span = self.advance();
        Ok(Expr { kind: ExprKind::Literal(Literal::Number(span.of(self.text).to_owned())), span })
    }

    /// `(name value, name = value, name)`, one option at least.
    pub(super) fn options(&mut self) -> Parsed<Vec<OptionItem>> {
        self.list_in_parens(Self::option)
    }

    pub(super) fn option(&mut self) -> Parsed<OptionItem> {
        let start = self.span();
        let name = self.label("the name of an option")?;
        self.option_of(name, start)
    }

    /// The value of an option, if it has one.
    pub(super) fn option_of(&mut self, name: Name, start: Span) -> Parsed<OptionItem> {
        self.accept_op(Op::Eq);
        let ends = matches!(self.peek(), TokenKind::Op(Op::Comma | Op::RightParen));
        let value = if ends { None } else { Some(self.option_value()?) };
        Ok(OptionItem { name, value, span: self.since(start) })
    }

    /// The value of an option or a setting: words are names, whatever their class, and everything else an expression.
    pub(super) fn option_value(&mut self) -> Parsed<Expr> {
        let is_word = matches!(self.peek(), TokenKind::Word(_));
        let is_constant = self.is_any(&[K::TRUE, K::FALSE, K::NULL]);
        let goes_on = matches!(self.peek_at(1), TokenKind::Op(Op::LeftParen | Op::Dot | Op::LeftBrace));
        let is_typed = matches!(self.peek_at(1), TokenKind::Text(_));
        if is_word && !is_constant && !goes_on && !is_typed {
            let name = self.take_name()?;
            let span = name.span;
            let kind = ExprKind::Column(ObjectName { parts: vec![name], span });
            return Ok(Expr { kind, span });
        }
        if self.is_op(Op::Star) {
            let span = self.advance();
            return Ok(Expr { kind: ExprKind::Star(Box::default()), span });
        }
        self.expression()
    }
}
