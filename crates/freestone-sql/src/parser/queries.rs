//! Queries: WITH, set operations, ORDER BY and limits.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::{Op, TokenKind};
use crate::span::Span;
use crate::tree::{
    Expr, ExprKind, Limit, Literal, ObjectName, OrderBy, Query, QueryBody, SelectItem, SetLink, SetOperator, SortKey,
    SortOrder, With, WithBody, WithPart,
};

/// The INTO of a SELECT.
pub(super) struct IntoTable {
    pub name: ObjectName,
    pub temporary: bool,
    pub span: Span,
}

impl Parser<'_> {
    /// Whether a query begins at a distance, without parentheses.
    pub(super) fn begins_query(&self, ahead: usize) -> bool {
        match self.keyword(ahead) {
            Some(K::SELECT | K::WITH | K::FROM | K::TABLE) => true,
            Some(K::VALUES) => self.is_op_at(ahead + 1, Op::LeftParen),
            Some(K::PIVOT | K::UNPIVOT | K::PIVOT_WIDER | K::PIVOT_LONGER) => self.begins_pivot(ahead),
            _ => false,
        }
    }

    /// Whether PIVOT begins a query: the name of a table, a file, or a query in parentheses follows.
    fn begins_pivot(&self, ahead: usize) -> bool {
        match self.peek_at(ahead + 1) {
            TokenKind::Op(Op::LeftParen) => {
                let words = [K::SELECT, K::WITH, K::FROM, K::TABLE, K::VALUES, K::PIVOT, K::UNPIVOT];
                self.is_op_at(ahead + 2, Op::LeftParen) || words.iter().any(|word| self.is_at(ahead + 2, *word))
            }
            TokenKind::Text(_) => true,
            _ => self.is_name_at(ahead + 1),
        }
    }

    /// A query in another statement or expression.
    pub(super) fn query(&mut self) -> Parsed<Query> {
        let outer = self.into.take();
        let start = self.span();
        let with = self.optional_with(false)?;
        let query = self.query_behind(with, start)?;
        match std::mem::replace(&mut self.into, outer) {
            None => Ok(query),
            Some(into) => {
                Err(self.refused(into.span, "INTO in a part of a statement", "use CREATE TABLE … AS SELECT …"))
            }
        }
    }

    pub(super) fn boxed_query(&mut self) -> Parsed<Box<Query>> {
        self.query().map(Box::new)
    }

    /// A query behind its WITH. Its INTO is left in [`Parser::into`].
    pub(super) fn query_behind(&mut self, with: Option<With>, start: Span) -> Parsed<Query> {
        let body = self.set_operations(None, SetOperator::Union)?;
        self.query_of(with, body, start)
    }

    /// Whether a query goes on behind a part of it in parentheses.
    pub(super) fn continues_query(&self) -> bool {
        self.is_any(&[K::UNION, K::EXCEPT, K::INTERSECT, K::ORDER, K::LIMIT, K::OFFSET, K::FETCH])
    }

    /// A query whose first part, in parentheses, was parsed: that part, or what goes on behind it.
    pub(super) fn query_from(&mut self, first: Query, start: Span) -> Parsed<Query> {
        if !self.continues_query() {
            return Ok(first);
        }
        self.query_behind_body(first.into_operand(), start)
    }

    /// A query whose first operand was parsed.
    pub(super) fn query_behind_body(&mut self, first: QueryBody, start: Span) -> Parsed<Query> {
        let body = self.set_operations(Some(first), SetOperator::Union)?;
        self.query_of(None, body, start)
    }

    /// ORDER BY and limits behind a body.
    fn query_of(&mut self, with: Option<With>, body: QueryBody, start: Span) -> Parsed<Query> {
        let order_by = self.optional_order_by()?;
        let (mut limit, mut offset) = (None, None);
        loop {
            match self.keyword(0) {
                Some(K::LIMIT) if limit.is_none() => {
                    self.advance();
                    limit = Some(self.limit()?);
                }
                Some(K::FETCH) if limit.is_none() && (self.is_at(1, K::FIRST) || self.is_at(1, K::NEXT)) => {
                    limit = Some(Some(self.fetch()?));
                }
                Some(K::OFFSET) if offset.is_none() => {
                    self.advance();
                    offset = Some(self.expression()?);
                    self.accept_any(&[K::ROW, K::ROWS]);
                }
                _ => break,
            }
        }
        let query = Query { with, body, order_by, limit: limit.flatten(), offset, span: self.since(start) };
        Ok(query.without_parens())
    }

    /// UNION and EXCEPT, or INTERSECT, which binds more strongly, from left to right.
    fn set_operations(&mut self, first: Option<QueryBody>, weakest: SetOperator) -> Parsed<QueryBody> {
        self.with_own_depth(|parser| parser.set_operations_here(first, weakest))
    }

    fn set_operations_here(&mut self, first: Option<QueryBody>, weakest: SetOperator) -> Parsed<QueryBody> {
        let is_weak = weakest == SetOperator::Union;
        let first = match (first, is_weak) {
            (first, true) => self.set_operations(first, SetOperator::Intersect)?,
            (Some(first), false) => first,
            (None, false) => self.query_body()?,
        };
        let mut rest = vec![];
        loop {
            let span = self.span();
            let operator = match self.keyword(0) {
                Some(K::UNION) if is_weak => SetOperator::Union,
                Some(K::EXCEPT) if is_weak => SetOperator::Except,
                Some(K::INTERSECT) if !is_weak => SetOperator::Intersect,
                _ => break,
            };
            self.advance();
            let all = self.accept(K::ALL);
            if !all {
                self.accept(K::DISTINCT);
            }
            let by_name = operator == SetOperator::Union && self.accept_all(&[K::BY, K::NAME]);
            let span = self.since(span);
            let operand = if is_weak { self.set_operations(None, SetOperator::Intersect)? } else { self.query_body()? };
            rest.push(SetLink { operator, all, by_name, span, operand });
        }
        if rest.is_empty() {
            return Ok(first);
        }
        self.deepen()?;
        Ok(QueryBody::Chain { first: Box::new(first), rest })
    }

    fn query_body(&mut self) -> Parsed<QueryBody> {
        match self.keyword(0) {
            Some(K::SELECT | K::FROM) => Ok(QueryBody::Select(Box::new(self.select()?))),
            Some(K::VALUES) => {
                self.advance();
                Ok(QueryBody::Values(self.list(|parser| parser.list_in_parens(Self::expression))?))
            }
            Some(K::TABLE) => {
                self.advance();
                Ok(QueryBody::Table(self.object_name("a table")?))
            }
            Some(K::PIVOT | K::PIVOT_WIDER) => Ok(QueryBody::Pivot(Box::new(self.pivot_statement()?))),
            Some(K::UNPIVOT | K::PIVOT_LONGER) => Ok(QueryBody::Unpivot(Box::new(self.unpivot_statement()?))),
            _ if self.is_op(Op::LeftParen) => Ok(self.in_parens(Self::query)?.into_operand()),
            _ => Err(self.expected_any(&["SELECT", "FROM", "VALUES", "TABLE", "a query in parentheses"])),
        }
    }

    /// WITH, in which statements may write if it is that of a whole statement.
    pub(super) fn optional_with(&mut self, may_write: bool) -> Parsed<Option<With>> {
        if !self.accept(K::WITH) {
            return Ok(None);
        }
        let recursive = self.accept(K::RECURSIVE);
        let parts = self.list(|parser| parser.with_part(may_write))?;
        Ok(Some(With { recursive, parts }))
    }

    fn with_part(&mut self, may_write: bool) -> Parsed<WithPart> {
        let start = self.span();
        let name = self.name("the name of a query")?;
        let columns = self.optional_columns()?;
        let key = if self.accept_all(&[K::USING, K::KEY]) { self.key_items()? } else { vec![] };
        self.expect(K::AS)?;
        let materialized = match self.accept_all(&[K::NOT, K::MATERIALIZED]) {
            true => Some(false),
            false => self.accept(K::MATERIALIZED).then_some(true),
        };
        let body = self.in_parens(|parser| match parser.begins_write() {
            false => Ok(WithBody::Query(parser.boxed_query()?)),
            true if may_write => Ok(WithBody::Write(Box::new(parser.write()?))),
            true => {
                let hint = "write it in the WITH of a whole statement";
                parser.refused_here("a statement that writes within a query", hint)
            }
        })?;
        Ok(WithPart { name, columns, key, materialized, body, span: self.since(start) })
    }

    /// What stands behind USING KEY.
    fn key_items(&mut self) -> Parsed<Vec<SelectItem>> {
        self.list_in_parens(Self::select_item)
    }

    fn optional_order_by(&mut self) -> Parsed<Option<OrderBy>> {
        if !(self.is(K::ORDER) && self.is_at(1, K::BY)) {
            return Ok(None);
        }
        self.at += 2;
        let start = self.at;
        if self.is(K::ALL) || self.is_op(Op::Star) && !self.unpacks(0) {
            self.advance();
            let order = self.sort_order()?;
            if !self.is_op(Op::Comma) {
                return Ok(Some(OrderBy::All(order)));
            }
            self.at = start;
        }
        Ok(Some(OrderBy::Keys(self.list(Self::sort_key)?)))
    }

    /// ORDER BY with keys, or nothing.
    pub(super) fn optional_sort_keys(&mut self) -> Parsed<Vec<SortKey>> {
        match self.accept_all(&[K::ORDER, K::BY]) {
            true => self.list(Self::sort_key),
            false => Ok(vec![]),
        }
    }

    pub(super) fn sort_key(&mut self) -> Parsed<SortKey> {
        let value = match self.is_op(Op::Star) && !self.unpacks(0) {
            // All columns, among other keys.
            true => {
                let span = self.advance();
                let star = Expr { kind: ExprKind::Star(Box::default()), span };
                Expr { kind: ExprKind::Columns(Box::new(star)), span }
            }
            false => self.expression()?,
        };
        Ok(SortKey { value, order: self.sort_order()? })
    }

    pub(super) fn sort_order(&mut self) -> Parsed<SortOrder> {
        let by_operator = self.is(K::USING) && (self.is_op_at(1, Op::Lt) || self.is_op_at(1, Op::Gt));
        let descending = match by_operator {
            true => {
                self.advance();
                let operator = self.advance();
                Some(operator.of(self.text) == ">")
            }
            false => self.accept_any(&[K::ASC, K::DESC]).map(|word| word == K::DESC),
        };
        let nulls_first = match self.is(K::NULLS) && (self.is_at(1, K::FIRST) || self.is_at(1, K::LAST)) {
            true => {
                self.advance();
                Some(self.expect_any(&[K::FIRST, K::LAST])? == K::FIRST)
            }
            false => None,
        };
        Ok(SortOrder { descending, nulls_first })
    }

    /// What stands behind LIMIT; `None` for ALL.
    fn limit(&mut self) -> Parsed<Option<Limit>> {
        if self.accept(K::ALL) {
            return Ok(None);
        }
        let count = self.expression()?;
        let percent = self.accept_op(Op::Percent) || self.accept(K::PERCENT);
        if self.is_op(Op::Comma) {
            return self.refused_here("LIMIT offset, count", "write LIMIT count OFFSET offset");
        }
        Ok(Some(Limit { count, percent, with_ties: false }))
    }

    /// `FETCH FIRST n ROWS ONLY`
    fn fetch(&mut self) -> Parsed<Limit> {
        self.at += 2;
        let span = self.span();
        let one = Expr { kind: ExprKind::Literal(Literal::Number("1".to_owned())), span };
        let count = if self.is_any(&[K::ROW, K::ROWS]) { one } else { self.expression()? };
        let percent = self.accept_op(Op::Percent) || self.accept(K::PERCENT);
        self.expect_any(&[K::ROWS, K::ROW])?;
        let with_ties = self.accept_all(&[K::WITH, K::TIES]);
        if !with_ties && !self.accept(K::ONLY) {
            return Err(self.expected_any(&["ONLY", "WITH TIES"]));
        }
        Ok(Limit { count, percent, with_ties })
    }
}

impl Query {
    /// The query as an operand of others: in parentheses, unless it is a single SELECT and the like.
    fn into_operand(self) -> QueryBody {
        let has_clauses =
            self.with.is_some() || self.order_by.is_some() || self.limit.is_some() || self.offset.is_some();
        match has_clauses || matches!(self.body, QueryBody::Chain { .. }) {
            true => QueryBody::Nested(Box::new(self)),
            false => self.body,
        }
    }

    /// The query in the parentheses, if there is nothing else: `((SELECT 1))` is `(SELECT 1)`.
    fn without_parens(self) -> Query {
        let Query { with, body, order_by, limit, offset, span } = self;
        match body {
            QueryBody::Nested(inner) if with.is_none() && order_by.is_none() && limit.is_none() && offset.is_none() => {
                Query { span, ..*inner }
            }
            body => Query { with, body, order_by, limit, offset, span },
        }
    }
}
