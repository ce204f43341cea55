//! FROM: tables, joins and samples.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::{Op, TokenKind};
use crate::span::Span;
use crate::tree::{
    Expr, Join, JoinCondition, JoinKind, Listing, Query, QueryBody, Sample, Table, TableAlias, TableKind, Version,
};

/// The words that may begin a join.
const JOINS: [K; 12] = [
    K::JOIN,
    K::INNER,
    K::LEFT,
    K::RIGHT,
    K::FULL,
    K::CROSS,
    K::NATURAL,
    K::ASOF,
    K::POSITIONAL,
    K::SEMI,
    K::ANTI,
    K::OUTER,
];

impl Parser<'_> {
    /// The tables of FROM, with their joins.
    pub(super) fn tables(&mut self) -> Parsed<Vec<Table>> {
        self.list(Self::table)
    }

    /// A table with its joins.
    pub(super) fn table(&mut self) -> Parsed<Table> {
        self.with_own_depth(|parser| {
            let start = parser.span();
            let first = parser.table_without_joins()?;
            parser.joins(first, start)
        })
    }

    /// The joins behind a table.
    fn joins(&mut self, first: Table, start: Span) -> Parsed<Table> {
        if !self.begins_join() {
            return Ok(first);
        }
        // `(a JOIN b …) JOIN c …` is `a JOIN b … JOIN c …`.
        let (first, mut rest) = match first {
            Table { kind: TableKind::Join { first, rest }, alias: None, sample: None, .. } => (first, rest),
            first => (Box::new(first), vec![]),
        };
        while self.begins_join() {
            rest.push(self.join()?);
        }
        self.deepen()?;
        let kind = TableKind::Join { first, rest };
        Ok(Table { kind, alias: None, sample: None, span: self.since(start) })
    }

    fn begins_join(&self) -> bool {
        match self.keyword(0) {
            Some(K::NATURAL | K::ASOF | K::POSITIONAL | K::SEMI | K::ANTI) => {
                self.keyword(1).is_some_and(|next| JOINS.contains(&next))
            }
            Some(keyword) => JOINS.contains(&keyword) && keyword != K::OUTER,
            None => false,
        }
    }

    fn join(&mut self) -> Parsed<Join> {
        let start = self.span();
        let natural = self.accept(K::NATURAL);
        let asof = self.accept(K::ASOF);
        let kind = self.join_kind()?;
        let is_unmatched =
            matches!(kind, JoinKind::Cross | JoinKind::Positional | JoinKind::RightSemi | JoinKind::RightAnti);
        if asof && (natural || is_unmatched) {
            let hint = "ASOF stands before JOIN, LEFT, RIGHT, FULL, SEMI and ANTI JOIN, with ON or USING";
            return Err(self.refused(self.since(start), "an ASOF JOIN of this kind", hint));
        }
        if natural && matches!(kind, JoinKind::Cross | JoinKind::Positional) {
            return Err(self.refused(self.since(start), "a NATURAL JOIN of this kind", "leave out NATURAL"));
        }
        self.expect(K::JOIN)?;
        let right = self.span();
        let mut table = self.table_without_joins()?;
        let needs_condition = !natural && !matches!(kind, JoinKind::Cross | JoinKind::Positional);
        if needs_condition && self.begins_join() {
            // `a JOIN b JOIN c ON … ON …`
            table = self.nest(|parser| {
                let join = parser.join()?;
                let kind = TableKind::Join { first: Box::new(table), rest: vec![join] };
                let first = Table { kind, alias: None, sample: None, span: parser.since(right) };
                match parser.is_any(&[K::ON, K::USING]) {
                    true => Ok(first),
                    false => parser.joins(first, right),
                }
            })?;
        }
        let condition = match natural {
            true => JoinCondition::Natural,
            false => self.join_condition(needs_condition)?,
        };
        Ok(Join { kind, asof, table, condition, span: self.since(start) })
    }

    fn join_kind(&mut self) -> Parsed<JoinKind> {
        let kind = match self.keyword(0) {
            Some(K::INNER) => JoinKind::Inner,
            Some(K::LEFT) if self.is_at(1, K::SEMI) => JoinKind::Semi,
            Some(K::LEFT) if self.is_at(1, K::ANTI) => JoinKind::Anti,
            Some(K::RIGHT) if self.is_at(1, K::SEMI) => JoinKind::RightSemi,
            Some(K::RIGHT) if self.is_at(1, K::ANTI) => JoinKind::RightAnti,
            Some(K::LEFT) => JoinKind::Left,
            Some(K::RIGHT) => JoinKind::Right,
            Some(K::FULL) => JoinKind::Full,
            Some(K::SEMI) => JoinKind::Semi,
            Some(K::ANTI) => JoinKind::Anti,
            Some(K::CROSS) => JoinKind::Cross,
            Some(K::POSITIONAL) => JoinKind::Positional,
            _ => return Ok(JoinKind::Inner),
        };
        self.advance();
        match kind {
            JoinKind::Left | JoinKind::Right | JoinKind::Full => drop(self.accept(K::OUTER)),
            // Behind a side.
            JoinKind::Semi | JoinKind::Anti | JoinKind::RightSemi | JoinKind::RightAnti => {
                self.accept_any(&[K::SEMI, K::ANTI]);
            }
            _ => {}
        }
        Ok(kind)
    }

    fn join_condition(&mut self, is_needed: bool) -> Parsed<JoinCondition> {
        if self.is(K::USING) && !self.is_at(1, K::SAMPLE) && is_needed {
            self.advance();
            return Ok(JoinCondition::Using(self.columns()?));
        }
        if is_needed && self.accept(K::ON) {
            return Ok(JoinCondition::On(self.boxed_expression()?));
        }
        match is_needed {
            true => {
                let mut error = self.expected_any(&["ON", "USING"]);
                error.hint.get_or_insert_with(|| "write CROSS JOIN for all pairs of rows".to_owned());
                Err(error)
            }
            false => Ok(JoinCondition::None),
        }
    }

    /// A table with its alias, PIVOT and TABLESAMPLE.
    pub(super) fn table_without_joins(&mut self) -> Parsed<Table> {
        let start = self.span();
        let before = if self.is_name_at(0) { self.accept_name_before()? } else { None };
        let mut table = self.table_source()?;
        if let Some(name) = before {
            table.alias = Some(TableAlias { name, columns: vec![] });
        }
        self.behind_table(&mut table)?;
        loop {
            let is_clause = self.is_op_at(1, Op::LeftParen);
            let kind = match self.keyword(0) {
                Some(K::PIVOT) if is_clause => TableKind::Pivot(Box::new(self.pivot_clause(table)?)),
                Some(K::UNPIVOT) if is_clause || self.is_at(2, K::NULLS) => {
                    TableKind::Unpivot(Box::new(self.unpivot_clause(table)?))
                }
                _ => break,
            };
            self.deepen()?;
            table = Table { kind, alias: None, sample: None, span: self.since(start) };
            self.behind_table(&mut table)?;
        }
        table.span = self.since(start);
        Ok(table)
    }

    /// The alias and the sample behind a table, in either order.
    fn behind_table(&mut self, table: &mut Table) -> Parsed<()> {
        if table.sample.is_none() && self.accept(K::TABLESAMPLE) {
            table.sample = Some(self.sample()?);
        }
        if table.alias.is_none() {
            table.alias = self.optional_alias()?;
        }
        if table.sample.is_none() && self.accept(K::TABLESAMPLE) {
            table.sample = Some(self.sample()?);
        }
        Ok(())
    }

    pub(super) fn optional_alias(&mut self) -> Parsed<Option<TableAlias>> {
        let name = match self.accept(K::AS) {
            true => self.name_or_text("the name of a table")?,
            false if self.is_name_at(0) && !self.begins_table_clause() => self.name("the name of a table")?,
            false => return Ok(None),
        };
        let columns = self.optional_list_in_parens(|parser| {
            let column = parser.name_or_text("a column")?;
            match parser.is_label_at(0) {
                true => parser.refused_here("a type in a list of columns", "cast the columns in SELECT"),
                false => Ok(column),
            }
        })?;
        Ok(Some(TableAlias { name, columns }))
    }

    /// Whether a word that could be the name of a table begins a clause here.
    fn begins_table_clause(&self) -> bool {
        let calls = self.is_op_at(1, Op::LeftParen);
        match self.keyword(0) {
            Some(K::PIVOT) => calls,
            Some(K::UNPIVOT) => calls || self.is_at(2, K::NULLS),
            Some(K::AT) => calls,
            Some(K::INCLUDE | K::EXCLUDE) => self.is_at(1, K::NULLS),
            Some(K::SET | K::VALUES) => true,
            _ => self.begins_join() || self.begins_clause(),
        }
    }

    fn table_source(&mut self) -> Parsed<Table> {
        let start = self.span();
        let lateral = self.accept(K::LATERAL);
        let kind = match self.peek() {
            TokenKind::Op(Op::LeftParen) => match self.in_parens(Self::table_in_parens)? {
                Table { kind: TableKind::Query { query, .. }, alias: None, sample: None, .. } => {
                    TableKind::Query { query, lateral }
                }
                table if !lateral => return Ok(table),
                _ => return Err(self.expected("a query behind LATERAL")),
            },
            TokenKind::Text(_) if self.is_text() => {
                let path = self.text("a file")?.value;
                let options = if self.is_op(Op::LeftParen) { self.options()? } else { vec![] };
                TableKind::File { path, options }
            }
            TokenKind::Word(Some(K::VALUES)) if self.is_op_at(1, Op::LeftParen) => {
                TableKind::Query { query: Box::new(self.values_query()?), lateral }
            }
            _ => self.named_table(lateral)?,
        };
        Ok(Table { kind, alias: None, sample: None, span: self.since(start) })
    }

    /// VALUES in FROM, without parentheses.
    fn values_query(&mut self) -> Parsed<Query> {
        let start = self.advance();
        let rows = self.list(|parser| parser.list_in_parens(Self::expression))?;
        let body = QueryBody::Values(rows);
        Ok(Query::of(body, self.since(start)))
    }

    /// ONLY before a table: tables do not inherit, so it says nothing.
    pub(super) fn accept_only(&mut self) {
        if self.is(K::ONLY) && self.is_name_at(1) && !self.is_at(1, K::SET) {
            self.advance();
        }
    }

    /// A table or a function by its name.
    fn named_table(&mut self, lateral: bool) -> Parsed<TableKind> {
        self.accept_only();
        let is_name = self.is_name_at(0) || self.is_label_at(0) && self.is_op_at(1, Op::LeftParen);
        if !is_name {
            return Err(self.expected("a table"));
        }
        let name = match self.is_op_at(1, Op::LeftParen) {
            true => self.function_object_name("a table")?,
            false => self.object_name("a table")?,
        };
        if self.is_op(Op::LeftParen) {
            let call = Box::new(self.call(None, name)?);
            let ordinality = self.is(K::WITH) && self.is_at(1, K::ORDINALITY);
            if ordinality {
                self.at += 2;
            }
            return Ok(TableKind::Call { call, lateral, ordinality });
        }
        if lateral {
            return Err(self.expected("\"(\""));
        }
        let version = match self.is(K::AT) && self.is_op_at(1, Op::LeftParen) {
            true => Some(self.version()?),
            false => None,
        };
        Ok(TableKind::Named { name, version })
    }

    fn version(&mut self) -> Parsed<Version> {
        self.advance();
        self.in_parens(|parser| {
            let unit = parser.expect_any(&[K::VERSION, K::TIMESTAMP])?;
            parser.expect_op(Op::Names)?;
            let value = parser.expression()?;
            Ok(if unit == K::VERSION { Version::Number(value) } else { Version::Time(value) })
        })
    }

    /// What stands in parentheses in FROM: a query, or a table with joins.
    fn table_in_parens(&mut self) -> Parsed<Table> {
        let start = self.span();
        if let Some(listing) = self.listing()? {
            let kind = TableKind::Listing(Box::new(listing));
            return Ok(Table { kind, alias: None, sample: None, span: self.since(start) });
        }
        let query =
            match self.begins_query(0) {
                true => self.query()?,
                false => {
                    let table = self.table()?;
                    // `((SELECT 1) UNION SELECT 2)` begins like a table.
                    match table {
                        Table {
                            kind: TableKind::Query { query, lateral: false }, alias: None, sample: None, ..
                        } if self.continues_query() => self.query_from(*query, start)?,
                        table => return Ok(table),
                    }
                }
            };
        let kind = TableKind::Query { query: Box::new(query), lateral: false };
        Ok(Table { kind, alias: None, sample: None, span: self.since(start) })
    }

    /// DESCRIBE, SUMMARIZE or SHOW TABLES, whose first word could also be the name of a table.
    pub(super) fn listing(&mut self) -> Parsed<Option<Listing>> {
        let is_followed = self.is_name_at(1)
            || self.begins_query(1)
            || self.is_op_at(1, Op::LeftParen)
            || matches!(self.peek_at(1), TokenKind::Text(_));
        match self.keyword(0) {
            Some(K::DESCRIBE | K::DESC) if is_followed => {
                self.advance();
                Ok(Some(Listing::Describe(self.described()?)))
            }
            Some(K::SUMMARIZE) if is_followed => {
                self.advance();
                Ok(Some(Listing::Summarize(self.described()?)))
            }
            Some(K::SHOW) if self.is_at(1, K::TABLES) && self.is_op_at(2, Op::RightParen) => {
                self.at += 2;
                Ok(Some(Listing::Tables))
            }
            Some(K::SHOW) if self.is_at(1, K::ALL) && self.is_at(2, K::TABLES) => {
                self.at += 3;
                Ok(Some(Listing::AllTables))
            }
            _ => Ok(None),
        }
    }

    /// `10%`, `100 ROWS`, `10 PERCENT (bernoulli, 7)`, `reservoir(5 ROWS) REPEATABLE (7)`
    pub(super) fn sample(&mut self) -> Parsed<Sample> {
        let mut method = match self.is_name_at(0) && self.is_op_at(1, Op::LeftParen) {
            true => Some(self.name("the method of a sample")?),
            false => None,
        };
        let is_rows = method.as_ref().is_none_or(|method| method.text == "reservoir");
        let (count, percent) = match self.is_op(Op::LeftParen) {
            true => self.in_parens(|parser| parser.sample_size(is_rows))?,
            false => self.sample_size(is_rows)?,
        };
        let mut seed = None;
        if method.is_none() && self.is_op(Op::LeftParen) {
            (method, seed) = self.in_parens(|parser| {
                let method = parser.name("the method of a sample")?;
                let seed = if parser.accept_op(Op::Comma) { Some(parser.unsigned_number()?) } else { None };
                Ok((Some(method), seed))
            })?;
        }
        if seed.is_none() && self.accept(K::REPEATABLE) {
            seed = Some(self.in_parens(Self::unsigned_number)?);
        }
        Ok(Sample { count, percent, method, seed })
    }

    /// A number, and whether it is a percentage.
    fn sample_size(&mut self, is_rows: bool) -> Parsed<(Expr, bool)> {
        let count = self.unsigned_number()?;
        let percent = match () {
            () if self.accept_op(Op::Percent) || self.accept(K::PERCENT) => true,
            () if self.accept_any(&[K::ROWS, K::ROW]).is_some() => false,
            () => !is_rows,
        };
        Ok((count, percent))
    }
}
