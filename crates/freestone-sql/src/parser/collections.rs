//! Lists, structs, maps, comprehensions, lambdas and stars.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{Comprehension, Expr, ExprKind, LikeOperator, Name, ObjectName, Star, StarPattern, Text};

impl Parser<'_> {
    /// `[a, b]`, or `[a FOR x IN list IF b]`
    pub(super) fn brackets(&mut self) -> Parsed<ExprKind> {
        self.expect_op(Op::LeftBracket)?;
        let kind = self.nest(|parser| {
            if parser.is_op(Op::RightBracket) {
                return Ok(ExprKind::List(vec![]));
            }
            let items = parser.list(Self::expression)?;
            if !parser.is(K::FOR) {
                return Ok(ExprKind::List(items));
            }
            match <[Expr; 1]>::try_from(items) {
                Ok([value]) => parser.comprehension(value),
                Err(_) => Err(parser.expected("\"]\"")),
            }
        })?;
        self.expect_close(Op::RightBracket)?;
        Ok(kind)
    }

    fn comprehension(&mut self, value: Expr) -> Parsed<ExprKind> {
        self.expect(K::FOR)?;
        let mut names = vec![self.name("the name of an item")?];
        if self.accept_op(Op::Comma) {
            names.push(self.name("the name of a position")?);
        }
        self.expect(K::IN)?;
        let list = match self.is_op(Op::LeftParen) && self.is_op_at(1, Op::Star) && !self.unpacks(1) {
            true => self.in_parens(Self::star)?,
            false => self.star_or_expression()?,
        };
        let condition = if self.accept(K::IF) { Some(self.expression()?) } else { None };
        Ok(ExprKind::Comprehension(Box::new(Comprehension { value, names, list, condition })))
    }

    /// `{'a': 1, b: 2}`
    pub(super) fn struct_literal(&mut self) -> Parsed<ExprKind> {
        self.in_braces(|parser| {
            let name = match parser.is_text() {
                true => {
                    let text = parser.text("the name of a field")?;
                    Name { text: text.value, quoted: true, span: text.span }
                }
                false => parser.label("the name of a field")?,
            };
            parser.expect_op(Op::Colon)?;
            Ok((name, parser.expression()?))
        })
        .map(ExprKind::Struct)
    }

    /// `MAP {'a': 1}`
    pub(super) fn map_literal(&mut self) -> Parsed<ExprKind> {
        self.advance();
        self.in_braces(|parser| {
            let key = parser.expression()?;
            parser.expect_op(Op::Colon)?;
            Ok((key, parser.expression()?))
        })
        .map(ExprKind::Map)
    }

    fn in_braces<T>(&mut self, entry: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.expect_op(Op::LeftBrace)?;
        let entries = self.nest(|parser| if parser.is_op(Op::RightBrace) { Ok(vec![]) } else { parser.list(entry) })?;
        self.expect_close(Op::RightBrace)?;
        Ok(entries)
    }

    /// Whether the word LAMBDA begins `lambda x, y: …` or `lambda (x, y): …`.
    pub(super) fn begins_lambda(&self) -> bool {
        let parens = usize::from(self.is_op_at(1, Op::LeftParen));
        let mut ahead = 1 + parens;
        while self.is_name_at(ahead) && self.is_op_at(ahead + 1, Op::Comma) {
            ahead += 2;
        }
        self.is_name_at(ahead)
            && (parens == 0 || self.is_op_at(ahead + 1, Op::RightParen))
            && self.is_op_at(ahead + 1 + parens, Op::Colon)
    }

    pub(super) fn lambda(&mut self) -> Parsed<ExprKind> {
        self.advance();
        let parameters = match self.is_op(Op::LeftParen) {
            true => self.list_in_parens(|parser| parser.name("a parameter"))?,
            false => self.list(|parser| parser.name("a parameter"))?,
        };
        self.expect_op(Op::Colon)?;
        let body = Box::new(self.nest(Self::expression)?);
        Ok(ExprKind::Lambda { parameters, body })
    }

    /// Whether `x -> …`, `(x) -> …` or `(x, y) -> …` begins here.
    pub(super) fn begins_arrow(&self) -> bool {
        if !self.is_op(Op::LeftParen) {
            return self.is_name_at(0) && self.is_op_at(1, Op::Arrow);
        }
        let mut ahead = 1;
        while self.is_name_at(ahead) && self.is_op_at(ahead + 1, Op::Comma) {
            ahead += 2;
        }
        self.is_name_at(ahead) && self.is_op_at(ahead + 1, Op::RightParen) && self.is_op_at(ahead + 2, Op::Arrow)
    }

    pub(super) fn arrow(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let parameters = match self.is_op(Op::LeftParen) {
            true => self.list_in_parens(|parser| parser.name("a parameter"))?,
            false => vec![self.name("a parameter")?],
        };
        self.expect_op(Op::Arrow)?;
        // The body of a lambda of several parameters may be another one.
        let body = Box::new(self.nest(|parser| match parser.begins_arrow() {
            true => parser.arrow(),
            false => parser.expression(),
        })?);
        Ok(Expr { kind: ExprKind::Lambda { parameters, body }, span: self.since(start) })
    }

    /// `*` or `t.*` with what follows it.
    pub(super) fn star(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let mut parts = vec![];
        while !self.is_op(Op::Star) {
            parts.push(self.label("a table")?);
            self.expect_op(Op::Dot)?;
        }
        let qualifier = (!parts.is_empty()).then(|| ObjectName { parts, span: self.since(start) });
        self.advance();
        let mut star = Star { qualifier, ..Star::default() };
        if self.begins_exclude() {
            self.advance();
            star.exclude = self.star_list(Self::excluded)?;
        }
        if self.accept(K::REPLACE) {
            star.replace = self.star_list(|parser| {
                let value = parser.expression()?;
                parser.expect(K::AS)?;
                Ok((value, parser.label("a column")?))
            })?;
        }
        if self.accept(K::RENAME) {
            star.rename = self.star_list(|parser| {
                let column = parser.path()?;
                parser.expect(K::AS)?;
                Ok((column, parser.label("a column")?))
            })?;
        }
        star.like = self.star_pattern()?;
        Ok(Expr { kind: ExprKind::Star(Box::new(star)), span: self.since(start) })
    }

    /// One item, or several in parentheses.
    fn star_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        if self.is_op(Op::LeftParen) { self.list_in_parens(item) } else { Ok(vec![item(self)?]) }
    }

    /// Whether EXCLUDE, or EXCEPT in its place, begins here: behind EXCEPT stands no query.
    fn begins_exclude(&self) -> bool {
        let is_list = self.is_op_at(1, Op::LeftParen) && !self.begins_query(2) && !self.is_op_at(2, Op::LeftParen);
        let is_column = self.is_name_at(1) && !self.begins_query(1) && !self.is_at(1, K::DISTINCT);
        self.is(K::EXCLUDE) || self.is(K::EXCEPT) && (is_list || is_column)
    }

    /// A column that a star leaves out. Its name may stand in quotes of a text.
    fn excluded(&mut self) -> Parsed<ObjectName> {
        match self.is_text() {
            true => {
                let Text { value, span } = self.text("a column")?;
                // As a name without quotes, it is found in other cases, too.
                Ok(ObjectName { parts: vec![Name { text: value.to_lowercase(), quoted: false, span }], span })
            }
            false => self.path(),
        }
    }

    /// A column with the names of its table.
    fn path(&mut self) -> Parsed<ObjectName> {
        self.object_name("a column")
    }

    fn star_pattern(&mut self) -> Parsed<Option<StarPattern>> {
        let start = self.at;
        let negated = self.accept(K::NOT);
        let operator = match self.accept_any(&[K::LIKE, K::ILIKE, K::SIMILAR, K::GLOB]) {
            Some(K::LIKE) => LikeOperator::Like,
            Some(K::ILIKE) => LikeOperator::ILike,
            Some(K::SIMILAR) => self.expect(K::TO).map(|_| LikeOperator::SimilarTo)?,
            Some(_) => LikeOperator::Glob,
            None => {
                self.at = start;
                return Ok(None);
            }
        };
        let pattern = self.text("a pattern")?;
        let has_escape = matches!(operator, LikeOperator::Like | LikeOperator::ILike) && self.accept(K::ESCAPE);
        let escape = if has_escape { Some(self.text("a character in quotes")?) } else { None };
        Ok(Some(StarPattern { negated, operator, pattern, escape }))
    }

    /// `name:` before an expression or a table.
    pub(super) fn accept_name_before(&mut self) -> Parsed<Option<Name>> {
        if !(self.is_label_at(0) && self.is_op_at(1, Op::Colon)) {
            return Ok(None);
        }
        let name = self.label("a name")?;
        self.advance();
        Ok(Some(name))
    }
}
