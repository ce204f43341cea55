//! Operands without operators: literals, names, parentheses, and what follows them without a space.

use super::{Parsed, Parser};
use crate::keyword::{Class, Keyword as K};
use crate::lexer::{Op, TextForm, TokenKind};
use crate::span::Span;
use crate::tree::{
    Case, CastForm, Expr, ExprKind, IntervalUnit, Literal, Name, ObjectName, Parameter, Query, SessionValue, Slice,
    Unit,
};

/// What stands in parentheses.
pub(super) enum Parens {
    Query(Box<Query>),
    /// One or more.
    Values(Vec<Expr>),
}

impl Parser<'_> {
    /// An operand with what follows it: `a::INT`, `a[1]`, `(a).b`, `'a'.upper()`.
    pub(super) fn suffixed(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let operand = self.primary()?;
        self.suffixes(operand, start)
    }

    /// Whether something goes on with what stands before it.
    pub(super) fn begins_suffix(&self) -> bool {
        matches!(self.peek(), TokenKind::Op(Op::Casts | Op::LeftBracket | Op::Dot))
    }

    pub(super) fn suffixes(&mut self, mut operand: Expr, start: Span) -> Parsed<Expr> {
        loop {
            let kind = match self.peek() {
                TokenKind::Op(Op::Casts) => {
                    self.advance();
                    let data_type = Box::new(self.data_type()?);
                    ExprKind::Cast { operand: Box::new(operand), data_type, form: CastForm::Colons }
                }
                TokenKind::Op(Op::LeftBracket) => {
                    self.advance();
                    let kind = self.nest(|parser| parser.subscript(operand))?;
                    self.expect_op(Op::RightBracket)?;
                    kind
                }
                TokenKind::Op(Op::Dot) => {
                    self.advance();
                    let name = self.label("the name of a field or function")?;
                    match self.is_op(Op::LeftParen) {
                        true => {
                            let name = ObjectName { span: name.span, parts: vec![name] };
                            ExprKind::Call(Box::new(self.call(Some(operand), name)?))
                        }
                        false => ExprKind::Field { operand: Box::new(operand), name },
                    }
                }
                _ => return Ok(operand),
            };
            self.deepen()?;
            operand = Expr { kind, span: self.since(start) };
        }
    }

    /// What stands in brackets behind an operand.
    fn subscript(&mut self, operand: Expr) -> Parsed<ExprKind> {
        let low = if self.is_op(Op::Colon) { None } else { Some(self.expression()?) };
        if !self.accept_op(Op::Colon) {
            let Some(index) = low else { return Err(self.expected("a position or key")) };
            return Ok(ExprKind::Subscript { operand: Box::new(operand), index: Box::new(index) });
        }
        let ends = |parser: &Self| matches!(parser.peek(), TokenKind::Op(Op::Colon | Op::RightBracket));
        let is_last = self.is_op(Op::Minus) && matches!(self.peek_at(1), TokenKind::Op(Op::Colon | Op::RightBracket));
        let high = match is_last {
            // In `a[1:-:2]`, the sign is the end of the list.
            true => {
                self.advance();
                None
            }
            false if ends(self) => None,
            false => Some(self.expression()?),
        };
        let has_step = self.accept_op(Op::Colon);
        let step = if has_step && !ends(self) { Some(self.expression()?) } else { None };
        Ok(ExprKind::Slice(Box::new(Slice { operand, low, high, step })))
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let kind = match self.peek() {
            TokenKind::Number => {
                self.advance();
                ExprKind::Literal(Literal::Number(start.of(self.text).to_owned()))
            }
            TokenKind::Text(form) => ExprKind::Literal(self.text_literal(form)?),
            TokenKind::Parameter => ExprKind::Parameter(self.parameter()?),
            TokenKind::Op(Op::LeftParen) => return self.parenthesized(),
            TokenKind::Op(Op::LeftBracket) => self.brackets()?,
            TokenKind::Op(Op::LeftBrace) => self.struct_literal()?,
            TokenKind::Op(Op::Star) if self.unpacks(0) => {
                self.at += 2;
                ExprKind::Unpacked(Box::new(self.in_parens(Self::star_or_expression)?))
            }
            TokenKind::Op(Op::Hash) if self.peek_at(1) == TokenKind::Number => {
                self.advance();
                let position = self.count("the position of a column")?;
                ExprKind::Position(u32::try_from(position).map_err(|_| self.error("there are not so many columns"))?)
            }
            TokenKind::Word(Some(keyword)) => match self.word_form(keyword)? {
                Some(kind) => kind,
                None => self.named()?,
            },
            TokenKind::Word(None) | TokenKind::QuotedName | TokenKind::UnicodeName => self.named()?,
            TokenKind::Op(_) | TokenKind::End => return Err(self.expected("an expression")),
        };
        Ok(Expr { kind, span: self.since(start) })
    }

    fn text_literal(&mut self, form: TextForm) -> Parsed<Literal> {
        let mut value = self.decoded(self.span().of(self.text), form)?;
        self.advance();
        self.continue_text(&mut value, form)?;
        Ok(match form {
            TextForm::Hexadecimal => Literal::Hexadecimal(value),
            TextForm::Bits => Literal::Bits(value),
            _ => Literal::Text(value),
        })
    }

    fn parameter(&mut self) -> Parsed<Parameter> {
        let text = self.span().of(self.text);
        let parameter = match text.strip_prefix('$') {
            None => Parameter::Next,
            Some(digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => match digits.parse() {
                Ok(number) if number > 0 => Parameter::Number(number),
                _ => return Err(self.error("parameters have the numbers $1, $2, …")),
            },
            Some(name) => Parameter::Name(name.to_owned()),
        };
        self.advance();
        Ok(parameter)
    }

    /// What stands in parentheses: a query, or expressions.
    pub(super) fn parens(&mut self) -> Parsed<Parens> {
        self.in_parens(|parser| {
            if parser.begins_query(0) {
                return Ok(Parens::Query(Box::new(parser.query()?)));
            }
            let start = parser.span();
            let values = parser.list(Self::expression)?;
            // `((SELECT 1) UNION SELECT 2)` begins like an expression.
            match <[Expr; 1]>::try_from(values) {
                Ok([Expr { kind: ExprKind::Subquery(first), .. }]) => {
                    Ok(Parens::Query(Box::new(parser.query_from(*first, start)?)))
                }
                Ok([value]) => Ok(Parens::Values(vec![value])),
                Err(values) => Ok(Parens::Values(values)),
            }
        })
    }

    fn parenthesized(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let kind = match self.parens()? {
            Parens::Query(query) => ExprKind::Subquery(query),
            Parens::Values(mut values) if values.len() == 1 => match values.pop() {
                // The parentheses are no part of the tree.
                Some(value) => return Ok(Expr { kind: value.kind, span: self.since(start).in_parens(value.span) }),
                None => return Err(self.expected("an expression")),
            },
            Parens::Values(values) => ExprKind::Row(values),
        };
        Ok(Expr { kind, span: self.since(start) })
    }

    /// The forms that begin with a keyword. `None` if it is a name here.
    fn word_form(&mut self, keyword: K) -> Parsed<Option<ExprKind>> {
        let calls = self.is_op_at(1, Op::LeftParen);
        let kind = match keyword {
            K::NULL | K::TRUE | K::FALSE => {
                self.advance();
                ExprKind::Literal(match keyword {
                    K::NULL => Literal::Null,
                    _ => Literal::Boolean(keyword == K::TRUE),
                })
            }
            K::CASE => self.nest(Self::case)?,
            K::CAST | K::TRY_CAST if calls => self.cast(keyword)?,
            K::EXISTS if calls => {
                self.advance();
                ExprKind::Exists(Box::new(self.in_parens(Self::query)?))
            }
            K::ARRAY if calls => {
                self.advance();
                ExprKind::ListOfQuery(Box::new(self.in_parens(Self::query)?))
            }
            K::ARRAY if self.is_op_at(1, Op::LeftBracket) => {
                self.advance();
                self.brackets()?
            }
            K::ROW if calls => {
                self.advance();
                match self.is_op_at(1, Op::RightParen) {
                    true => {
                        self.at += 2;
                        ExprKind::Row(vec![])
                    }
                    false => ExprKind::Row(self.list_in_parens(Self::expression)?),
                }
            }
            K::MAP if self.is_op_at(1, Op::LeftBrace) => self.map_literal()?,
            K::COLUMNS if calls => {
                self.advance();
                ExprKind::Columns(Box::new(self.in_parens(Self::star_or_expression)?))
            }
            K::LAMBDA if self.begins_lambda() => self.lambda()?,
            K::INTERVAL => match self.interval()? {
                Some(kind) => kind,
                None => return Ok(None),
            },
            // A column of this name, where the word has no other meaning. It is printed in quotes.
            K::DISTINCT if !self.begins_operand(1) => {
                let name = Name { quoted: true, ..self.label("an expression")? };
                ExprKind::Column(ObjectName { span: name.span, parts: vec![name] })
            }
            K::EXTRACT | K::POSITION | K::SUBSTRING | K::TRIM | K::OVERLAY if calls => self.special(keyword)?,
            _ => return Ok(self.session_value(keyword, calls)),
        };
        Ok(Some(kind))
    }

    fn session_value(&mut self, keyword: K, calls: bool) -> Option<ExprKind> {
        let value = SessionValue::of(keyword)?;
        if calls {
            return None;
        }
        self.advance();
        Some(ExprKind::SessionValue(value))
    }

    /// Whether a type of several words or with numbers begins here, behind which a text may stand: `TIMESTAMP(3) '…'`,
    /// `DOUBLE PRECISION '…'`.
    fn begins_long_type(&self) -> bool {
        let of_words = [K::DOUBLE, K::CHARACTER, K::CHAR, K::TIMESTAMP, K::TIME].iter().any(|word| self.is(*word));
        if of_words && [K::PRECISION, K::VARYING, K::WITH, K::WITHOUT].iter().any(|word| self.is_at(1, *word)) {
            return true;
        }
        let numbers = match (self.peek_at(2), self.peek_at(3), self.peek_at(4)) {
            (TokenKind::Number, TokenKind::Op(Op::RightParen), _) => 1,
            (TokenKind::Number, TokenKind::Op(Op::Comma), TokenKind::Number) => 3,
            _ => return false,
        };
        let behind = self.peek_at(3 + numbers);
        self.is_op_at(1, Op::LeftParen)
            && (matches!(behind, TokenKind::Text(_)) || of_words && matches!(behind, TokenKind::Word(_)))
    }

    /// A type and a text; `None` if no text follows.
    fn typed_text(&mut self) -> Parsed<Option<ExprKind>> {
        let start = self.at;
        if let Ok(data_type) = self.data_type()
            && self.is_text()
        {
            let text = self.text("a text")?;
            return Ok(Some(ExprKind::TypedText { data_type: Box::new(data_type), text }));
        }
        self.at = start;
        Ok(None)
    }

    /// A column, a call, or a text behind the name of its type.
    fn named(&mut self) -> Parsed<ExprKind> {
        let is_function = self.is_function_name();
        let is_typed = matches!(self.peek_at(1), TokenKind::Text(_)) || self.begins_long_type();
        if is_function
            && is_typed
            && let Some(kind) = self.typed_text()?
        {
            return Ok(kind);
        }
        let calls = is_function && self.is_op_at(1, Op::LeftParen);
        let first = if calls { self.label("an expression")? } else { self.name("an expression")? };
        let start = first.span;
        let mut parts = vec![first];
        while self.is_op(Op::Dot) && self.is_label_at(1) {
            self.advance();
            parts.push(self.label("a name")?);
        }
        if self.is_op(Op::Dot) {
            self.advance();
            return Err(self.expected("a name"));
        }
        let name = ObjectName { parts, span: self.since(start) };
        match self.is_op(Op::LeftParen) {
            true => Ok(ExprKind::Call(Box::new(self.call(None, name)?))),
            false => Ok(ExprKind::Column(name)),
        }
    }

    fn is_function_name(&self) -> bool {
        self.keyword(0).is_none_or(|keyword| keyword.class() != Class::Reserved || SessionValue::of(keyword).is_some())
    }

    fn case(&mut self) -> Parsed<ExprKind> {
        self.advance();
        let operand = if self.is(K::WHEN) { None } else { Some(self.expression()?) };
        let mut branches = vec![];
        self.expect(K::WHEN)?;
        loop {
            let condition = self.expression()?;
            self.expect(K::THEN)?;
            branches.push((condition, self.expression()?));
            if !self.accept(K::WHEN) {
                break;
            }
        }
        let otherwise = if self.accept(K::ELSE) { Some(self.expression()?) } else { None };
        match self.accept(K::END) {
            true => Ok(ExprKind::Case(Box::new(Case { operand, branches, otherwise }))),
            false if otherwise.is_some() => Err(self.expected("END")),
            false => Err(self.expected_any(&["WHEN", "ELSE", "END"])),
        }
    }

    fn cast(&mut self, keyword: K) -> Parsed<ExprKind> {
        self.advance();
        let form = if keyword == K::CAST { CastForm::Cast } else { CastForm::TryCast };
        self.in_parens(|parser| {
            let operand = parser.boxed_expression()?;
            parser.expect(K::AS)?;
            let data_type = Box::new(parser.data_type()?);
            Ok(ExprKind::Cast { operand, data_type, form })
        })
    }

    /// `INTERVAL '1 day'`, `INTERVAL 3 DAY`, `INTERVAL (a) HOUR`; `None` if it is a name.
    fn interval(&mut self) -> Parsed<Option<ExprKind>> {
        let is_value = match self.peek_at(1) {
            TokenKind::Text(_) | TokenKind::Number | TokenKind::Parameter | TokenKind::Op(Op::LeftParen) => true,
            TokenKind::Op(Op::Minus) => self.peek_at(2) == TokenKind::Number && self.unit_at(3).is_some(),
            _ => self.is_name_at(1) && self.unit_at(2).is_some(),
        };
        if !is_value {
            return Ok(None);
        }
        self.advance();
        let needs_unit = !self.is_text();
        let value = match self.peek() {
            TokenKind::Op(Op::Minus) => self.signed_number()?,
            TokenKind::Word(_) | TokenKind::QuotedName | TokenKind::UnicodeName => {
                let name = self.name("a column")?;
                let name = ObjectName { span: name.span, parts: vec![name] };
                Expr { span: name.span, kind: ExprKind::Column(name) }
            }
            _ => self.primary()?,
        };
        let unit = match self.unit_at(0) {
            None if needs_unit => return Err(self.expected("a unit such as DAY")),
            None => None,
            Some(first) => {
                self.advance();
                let last = if self.is(K::TO) { self.unit_at(1) } else { None };
                if last.is_some() {
                    self.at += 2;
                }
                Some(IntervalUnit { first, last })
            }
        };
        Ok(Some(ExprKind::Interval { value: Box::new(value), unit }))
    }

    fn unit_at(&self, ahead: usize) -> Option<Unit> {
        match self.peek_at(ahead) {
            TokenKind::Word(_) => Unit::of(self.token(ahead).span.of(self.text)),
            _ => None,
        }
    }

    /// An expression, or a star where a list of columns can stand.
    pub(super) fn star_or_expression(&mut self) -> Parsed<Expr> {
        match self.star_ahead() {
            true => self.star(),
            false => self.expression(),
        }
    }

    /// Whether `*` or `t.*` stands here.
    fn star_ahead(&self) -> bool {
        let mut ahead = 0;
        while self.is_label_at(ahead) && self.is_op_at(ahead + 1, Op::Dot) {
            ahead += 2;
        }
        self.is_op_at(ahead, Op::Star) && !self.unpacks(ahead)
    }

    /// Whether `*COLUMNS(` stands at a distance.
    pub(super) fn unpacks(&self, ahead: usize) -> bool {
        self.is_op_at(ahead, Op::Star) && self.is_at(ahead + 1, K::COLUMNS) && self.is_op_at(ahead + 2, Op::LeftParen)
    }
}

impl SessionValue {
    /// The value of a word.
    pub(super) fn of(keyword: K) -> Option<SessionValue> {
        Some(match keyword {
            K::CURRENT_CATALOG => SessionValue::CurrentCatalog,
            K::CURRENT_DATE => SessionValue::CurrentDate,
            K::CURRENT_ROLE => SessionValue::CurrentRole,
            K::CURRENT_SCHEMA => SessionValue::CurrentSchema,
            K::CURRENT_TIME => SessionValue::CurrentTime,
            K::CURRENT_TIMESTAMP => SessionValue::CurrentTimestamp,
            K::CURRENT_USER => SessionValue::CurrentUser,
            K::LOCALTIME => SessionValue::LocalTime,
            K::LOCALTIMESTAMP => SessionValue::LocalTimestamp,
            K::SESSION_USER => SessionValue::SessionUser,
            K::USER => SessionValue::User,
            _ => return None,
        })
    }
}
