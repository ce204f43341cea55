//! SELECT.

use super::queries::IntoTable;
use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::{Op, TokenKind};
use crate::tree::{Distinct, Expr, ExprKind, GroupBy, GroupKey, Name, NamedWindow, Select, SelectItem};

impl Parser<'_> {
    /// `SELECT … FROM …`, or FROM before SELECT or alone.
    pub(super) fn select(&mut self) -> Parsed<Select> {
        let start = self.span();
        let mut select = Select::of_items(vec![], start);
        let from_first = self.accept(K::FROM);
        if from_first {
            select.from = self.tables()?;
        }
        match from_first && !self.is(K::SELECT) {
            true => {
                let kind = ExprKind::Star(Box::default());
                select.items = vec![SelectItem { value: Expr { kind, span: start }, alias: None }];
            }
            false => {
                self.expect(K::SELECT)?;
                select.distinct = self.distinct()?;
                select.items = self.select_items()?;
                self.optional_into()?;
            }
        }
        if !from_first && self.accept(K::FROM) {
            select.from = self.tables()?;
        }
        self.clauses(&mut select)?;
        select.span = self.since(start);
        Ok(select)
    }

    /// The clauses behind FROM.
    fn clauses(&mut self, select: &mut Select) -> Parsed<()> {
        if self.is(K::USING) && self.is_at(1, K::SAMPLE) {
            self.at += 2;
            select.sample = Some(self.sample()?);
        }
        if self.accept(K::WHERE) {
            select.condition = Some(self.expression()?);
        }
        if self.accept_all(&[K::GROUP, K::BY]) {
            select.group_by = self.group_by()?;
        }
        if self.accept(K::HAVING) {
            select.having = Some(self.expression()?);
        }
        if self.accept(K::WINDOW) {
            select.windows = self.list(|parser| {
                let name = parser.name("the name of a window")?;
                parser.expect(K::AS)?;
                Ok(NamedWindow { name, window: parser.window()? })
            })?;
        }
        if self.begins_qualify() {
            self.advance();
            select.qualify = Some(self.expression()?);
        }
        if select.sample.is_none() && self.is(K::USING) && self.is_at(1, K::SAMPLE) {
            self.at += 2;
            select.sample = Some(self.sample()?);
        }
        Ok(())
    }

    fn distinct(&mut self) -> Parsed<Option<Distinct>> {
        if !self.accept(K::DISTINCT) {
            self.accept(K::ALL);
            return Ok(None);
        }
        Ok(Some(match self.accept(K::ON) {
            true => Distinct::On(self.list_in_parens(Self::star_or_expression)?),
            false => Distinct::Rows,
        }))
    }

    /// The columns of SELECT. A comma may stand before FROM.
    fn select_items(&mut self) -> Parsed<Vec<SelectItem>> {
        let mut items = vec![self.select_item()?];
        while self.accept_op(Op::Comma) {
            let ends = matches!(self.peek(), TokenKind::End | TokenKind::Op(Op::RightParen | Op::Semicolon));
            if ends || self.is_any(&[K::FROM, K::WHERE, K::GROUP, K::ORDER, K::LIMIT, K::INTO]) {
                break;
            }
            items.push(self.select_item()?);
        }
        Ok(items)
    }

    /// A value with a name before or behind it, or a star.
    pub(super) fn select_item(&mut self) -> Parsed<SelectItem> {
        if let Some(name) = self.accept_name_before()? {
            return Ok(SelectItem { value: self.expression()?, alias: Some(name) });
        }
        let value = self.star_or_expression()?;
        let alias = match &value.kind {
            // `* SIMILAR TO 'a(.*)' AS '\1'`: the names by the groups of the pattern.
            ExprKind::Star(star) if !(star.like.is_some() && self.is(K::AS)) => None,
            _ => self.optional_label()?,
        };
        Ok(SelectItem { value, alias })
    }

    /// `AS name`, or a name alone.
    pub(super) fn optional_label(&mut self) -> Parsed<Option<Name>> {
        if self.accept(K::AS) {
            return match self.is_text() {
                true => self.text_as_name("the name of a column").map(Some),
                false => self.label("the name of a column").map(Some),
            };
        }
        let is_label = match self.peek() {
            TokenKind::Word(keyword) => keyword.is_none_or(K::is_bare_label) && !self.begins_clause(),
            TokenKind::QuotedName | TokenKind::UnicodeName => true,
            _ => false,
        };
        if is_label { self.label("the name of a column").map(Some) } else { Ok(None) }
    }

    /// Whether a word that could be a name begins a clause here.
    pub(super) fn begins_clause(&self) -> bool {
        match self.keyword(0) {
            Some(K::QUALIFY) => self.begins_qualify(),
            Some(K::USING) => self.is_at(1, K::SAMPLE),
            _ => false,
        }
    }

    fn begins_qualify(&self) -> bool {
        self.is(K::QUALIFY) && self.begins_operand(1)
    }

    /// `INTO [TEMP | UNLOGGED] name`, which is kept for the statement.
    fn optional_into(&mut self) -> Parsed<()> {
        let start = self.span();
        if !self.accept(K::INTO) {
            return Ok(());
        }
        let temporary = self.accept_any(&[K::TEMP, K::TEMPORARY]).is_some();
        if self.is(K::UNLOGGED) && (self.is_at(1, K::TABLE) || self.is_name_at(1)) {
            // A crash takes no rows of any table.
            self.advance();
        }
        self.accept(K::TABLE);
        let name = self.object_name("a table")?;
        let into = IntoTable { name, temporary, span: self.since(start) };
        if self.into.is_some() || self.nested > 0 {
            return Err(self.refused(into.span, "INTO in a part of a query", "use CREATE TABLE … AS SELECT …"));
        }
        self.into = Some(into);
        Ok(())
    }

    fn group_by(&mut self) -> Parsed<GroupBy> {
        if self.is(K::ALL) || self.is_op(Op::Star) {
            self.advance();
            return Ok(GroupBy::All);
        }
        if self.is(K::DISTINCT) && self.begins_operand(1) {
            return self.refused_here("DISTINCT of grouping sets", "name each set once");
        }
        let keys = self.list(Self::group_key)?;
        if self.is(K::WITH) && (self.is_at(1, K::ROLLUP) || self.is_at(1, K::CUBE)) {
            return self.refused_here("WITH ROLLUP behind GROUP BY", "write GROUP BY ROLLUP (…) or CUBE (…)");
        }
        Ok(GroupBy::Keys(keys))
    }

    fn group_key(&mut self) -> Parsed<GroupKey> {
        let calls = self.is_op_at(1, Op::LeftParen);
        if self.is_op(Op::LeftParen) && self.is_op_at(1, Op::RightParen) {
            self.at += 2;
            return Ok(GroupKey::Empty);
        }
        Ok(match self.keyword(0) {
            Some(K::ROLLUP) if calls => {
                self.advance();
                GroupKey::Rollup(self.list_in_parens(Self::expression)?)
            }
            Some(K::CUBE) if calls => {
                self.advance();
                GroupKey::Cube(self.list_in_parens(Self::expression)?)
            }
            Some(K::GROUPING) if self.is_at(1, K::SETS) => {
                self.at += 2;
                GroupKey::Sets(self.list_in_parens(Self::group_key)?)
            }
            _ => GroupKey::Value(self.star_or_expression()?),
        })
    }
}
