//! PIVOT and UNPIVOT, as queries and behind tables.

use super::expressions::Precedence;
use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{Expr, ExprKind, Pivot, PivotColumn, PivotValues, SelectItem, Table, Unpivot, UnpivotNames};

impl Parser<'_> {
    /// `PIVOT source [ON columns] [USING aggregates] [GROUP BY keys]`
    pub(super) fn pivot_statement(&mut self) -> Parsed<Pivot> {
        self.advance();
        let source = self.table()?;
        let columns = if self.accept(K::ON) { self.list(Self::pivot_column)? } else { vec![] };
        let aggregates = if self.accept(K::USING) { self.list(Self::select_item)? } else { vec![] };
        if columns.is_empty() && aggregates.is_empty() {
            return Err(self.expected_any(&["ON", "USING"]));
        }
        let group_by = self.pivot_groups()?;
        Ok(Pivot { source, columns, aggregates, group_by })
    }

    fn pivot_groups(&mut self) -> Parsed<Vec<Expr>> {
        match self.accept_all(&[K::GROUP, K::BY]) {
            true => self.list(Self::expression),
            false => Ok(vec![]),
        }
    }

    /// `value [IN (…)]`
    fn pivot_column(&mut self) -> Parsed<PivotColumn> {
        // IN is the keyword of the clause, so the value binds more strongly.
        let value = self.operators(Precedence::Other)?;
        let values = if self.accept(K::IN) { Some(self.pivot_values()?) } else { None };
        Ok(PivotColumn { value, values })
    }

    fn pivot_values(&mut self) -> Parsed<PivotValues> {
        self.in_parens(|parser| {
            if parser.begins_query(0) {
                return Ok(PivotValues::Query(parser.boxed_query()?));
            }
            let start = parser.span();
            let mut values = parser.list(Self::select_item)?;
            if let [SelectItem { value: Expr { kind: ExprKind::Subquery(_), .. }, alias: None }] = values.as_slice()
                && let Some(ExprKind::Subquery(first)) = values.pop().map(|item| item.value.kind)
            {
                return Ok(PivotValues::Query(Box::new(parser.query_from(*first, start)?)));
            }
            Ok(PivotValues::List(values))
        })
    }

    /// `PIVOT (aggregates FOR column IN (…) … [GROUP BY keys])` behind a table.
    pub(super) fn pivot_clause(&mut self, source: Table) -> Parsed<Pivot> {
        self.advance();
        self.in_parens(|parser| {
            let aggregates = parser.list(Self::select_item)?;
            parser.expect(K::FOR)?;
            let mut columns = vec![];
            loop {
                let value = parser.operators(Precedence::Other)?;
                parser.expect(K::IN)?;
                columns.push(PivotColumn { value, values: Some(parser.pivot_values()?) });
                if parser.is_op(Op::RightParen) || parser.is(K::GROUP) {
                    break;
                }
            }
            let group_by = parser.pivot_groups()?;
            Ok(Pivot { source, columns, aggregates, group_by })
        })
    }

    /// `UNPIVOT source [INCLUDE NULLS] ON columns [INTO NAME name VALUE values]`
    pub(super) fn unpivot_statement(&mut self) -> Parsed<Unpivot> {
        self.advance();
        let before = self.include_nulls();
        let source = self.table()?;
        let include_nulls = before.or_else(|| self.include_nulls()).unwrap_or(false);
        self.expect(K::ON)?;
        let columns = self.unpivot_columns()?;
        let into = match self.accept(K::INTO) {
            false => None,
            true => {
                self.expect(K::NAME)?;
                let name = self.name("the name of a column")?;
                self.expect(K::VALUE)?;
                Some(UnpivotNames { name, values: self.list(|parser| parser.name("the name of a column"))? })
            }
        };
        Ok(Unpivot { source, include_nulls, columns, into })
    }

    /// The columns of UNPIVOT. Parentheses around all of them are a list if INTO follows or nothing.
    fn unpivot_columns(&mut self) -> Parsed<Vec<SelectItem>> {
        let mut columns = self.list(Self::select_item)?;
        if let [SelectItem { value, alias: None }] = columns.as_mut_slice()
            && let ExprKind::Row(items) = &mut value.kind
        {
            let items = std::mem::take(items);
            columns = items.into_iter().map(|value| SelectItem { value, alias: None }).collect();
        }
        Ok(columns)
    }

    /// INCLUDE NULLS or EXCLUDE NULLS.
    fn include_nulls(&mut self) -> Option<bool> {
        match () {
            () if self.accept_all(&[K::INCLUDE, K::NULLS]) => Some(true),
            () if self.accept_all(&[K::EXCLUDE, K::NULLS]) => Some(false),
            () => None,
        }
    }

    /// `UNPIVOT [INCLUDE NULLS] (values FOR name IN (columns))` behind a table.
    pub(super) fn unpivot_clause(&mut self, source: Table) -> Parsed<Unpivot> {
        self.advance();
        let include_nulls = self.include_nulls().unwrap_or(false);
        self.in_parens(|parser| {
            let values = match parser.is_op(Op::LeftParen) {
                true => parser.columns()?,
                false => vec![parser.name("the name of a column")?],
            };
            parser.expect(K::FOR)?;
            let name = parser.name("the name of a column")?;
            parser.expect(K::IN)?;
            let columns = parser.list_in_parens(Self::select_item)?;
            Ok(Unpivot { source, include_nulls, columns, into: Some(UnpivotNames { name, values }) })
        })
    }
}
