//! INSERT, UPDATE, DELETE, MERGE and TRUNCATE.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{
    Assignment, ConflictKey, Delete, Expr, ExprKind, Insert, JoinCondition, Matched, Merge, MergeAction, MergeClause,
    MergeColumns, Name, ObjectName, OnConflict, Query, QueryBody, SelectItem, Truncate, Update, With, Write,
};

impl Parser<'_> {
    /// Whether a statement that writes begins here, without WITH.
    pub(super) fn begins_write(&self) -> bool {
        self.is_any(&[K::INSERT, K::UPDATE, K::DELETE, K::MERGE])
    }

    /// A statement that writes, in WITH.
    pub(super) fn write(&mut self) -> Parsed<Write> {
        self.write_behind(None)
    }

    /// A statement that writes behind its WITH.
    pub(super) fn write_behind(&mut self, with: Option<With>) -> Parsed<Write> {
        Ok(match self.expect_any(&[K::INSERT, K::UPDATE, K::DELETE, K::MERGE])? {
            K::INSERT => Write::Insert(self.insert(with)?),
            K::UPDATE => Write::Update(self.update(with)?),
            K::DELETE => Write::Delete(self.delete(with)?),
            _ => Write::Merge(self.merge(with)?),
        })
    }

    fn insert(&mut self, with: Option<With>) -> Parsed<Insert> {
        let or = match self.accept(K::OR) {
            false => None,
            true => match self.accept_any(&[K::IGNORE, K::REPLACE]) {
                Some(K::IGNORE) => Some(OnConflict::Ignore),
                Some(_) => Some(OnConflict::Replace),
                None => {
                    let hint = "write INSERT OR IGNORE, INSERT OR REPLACE, or ON CONFLICT";
                    return self.refused_here("INSERT OR …", hint);
                }
            },
        };
        self.expect(K::INTO)?;
        let table = self.object_name("a table")?;
        let alias = if self.accept(K::AS) { Some(self.name("the name of a table")?) } else { None };
        let is_list = self.is_op(Op::LeftParen) && !self.begins_query(1) && !self.is_op_at(1, Op::LeftParen);
        let columns = if is_list { self.columns()? } else { vec![] };
        let overriding_system = match self.accept(K::OVERRIDING) {
            false => None,
            true => {
                let is_system = self.expect_any(&[K::SYSTEM, K::USER])? == K::SYSTEM;
                self.expect(K::VALUE)?;
                Some(is_system)
            }
        };
        let by_name = self.accept_all(&[K::BY, K::NAME]);
        if !by_name {
            self.accept_all(&[K::BY, K::POSITION]);
        }
        let rows = match self.accept_all(&[K::DEFAULT, K::VALUES]) {
            true => None,
            false => Some(Box::new(self.insert_rows()?)),
        };
        let on_conflict = match self.is(K::ON) {
            true if or.is_some() => return self.refused_here("INSERT OR … with ON CONFLICT", "leave out one of them"),
            true => Some(self.on_conflict()?),
            false => or,
        };
        let returning = self.optional_returning()?;
        Ok(Insert { with, table, alias, columns, by_name, overriding_system, rows, on_conflict, returning })
    }

    /// The rows of an INSERT. DEFAULT is a value in VALUES.
    fn insert_rows(&mut self) -> Parsed<Query> {
        if self.is_op(Op::LeftParen) && self.is_at(1, K::VALUES) {
            let start = self.span();
            let query = self.in_parens(Self::insert_rows)?;
            return self.query_from(query, start);
        }
        if !self.is(K::VALUES) {
            let is_query = self.begins_query(0) || self.is_op(Op::LeftParen);
            return if is_query {
                self.query()
            } else {
                Err(self.expected_any(&["VALUES", "SELECT", "DEFAULT VALUES"]))
            };
        }
        let start = self.advance();
        let rows = self.list(|parser| parser.list_in_parens(Self::value_or_default))?;
        self.query_behind_body(QueryBody::Values(rows), start)
    }

    fn value_or_default(&mut self) -> Parsed<Expr> {
        match self.is(K::DEFAULT) {
            true => Ok(Expr { kind: ExprKind::Default, span: self.advance() }),
            false => self.expression(),
        }
    }

    fn on_conflict(&mut self) -> Parsed<OnConflict> {
        self.advance();
        if self.is(K::DUPLICATE) {
            return self.refused_here("ON DUPLICATE KEY", "write ON CONFLICT DO UPDATE SET …");
        }
        self.expect(K::CONFLICT)?;
        let key = match () {
            () if self.is_op(Op::LeftParen) => Some(ConflictKey::Columns(self.columns()?)),
            () if self.accept_all(&[K::ON, K::CONSTRAINT]) => Some(ConflictKey::Constraint(self.name("a constraint")?)),
            () => None,
        };
        self.expect(K::DO)?;
        if self.accept(K::NOTHING) {
            return Ok(OnConflict::Nothing(key));
        }
        if !self.accept(K::UPDATE) {
            return Err(self.expected_any(&["NOTHING", "UPDATE"]));
        }
        let set = self.assignments()?;
        let condition = self.optional_where()?;
        Ok(OnConflict::Update { key, set, condition })
    }

    pub(super) fn optional_where(&mut self) -> Parsed<Option<Expr>> {
        if self.accept(K::WHERE) { self.expression().map(Some) } else { Ok(None) }
    }

    fn optional_returning(&mut self) -> Parsed<Vec<SelectItem>> {
        if self.accept(K::RETURNING) { self.list(Self::select_item) } else { Ok(vec![]) }
    }

    /// `SET a = 1, (b, c) = (2, DEFAULT)`
    fn assignments(&mut self) -> Parsed<Vec<Assignment>> {
        self.expect(K::SET)?;
        self.list(|parser| {
            let is_row = parser.is_op(Op::LeftParen);
            let columns = if is_row { parser.columns()? } else { vec![parser.assigned_column()?] };
            if !parser.accept_op(Op::Eq) {
                return Err(parser.expected("="));
            }
            if is_row && parser.is(K::ROW) && parser.is_op_at(1, Op::LeftParen) {
                parser.advance();
            }
            let value = match is_row && parser.is_op(Op::LeftParen) && !parser.begins_query(1) {
                true => parser.assigned_row()?,
                false => parser.value_or_default()?,
            };
            Ok(Assignment { columns, is_row, value })
        })
    }

    /// The column that is assigned. The name of the table may stand before it.
    fn assigned_column(&mut self) -> Parsed<Name> {
        let mut name = self.object_name("a column")?;
        name.parts.pop().ok_or_else(|| self.expected("a column"))
    }

    /// `(2, DEFAULT)`, or a query in several parentheses.
    fn assigned_row(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let kind = self.in_parens(|parser| {
            let inner = parser.span();
            let values = parser.list(Self::value_or_default)?;
            match <[Expr; 1]>::try_from(values) {
                Ok([Expr { kind: ExprKind::Subquery(first), .. }]) => {
                    Ok(ExprKind::Subquery(Box::new(parser.query_from(*first, inner)?)))
                }
                Ok([value]) => Ok(value.kind),
                Err(values) => Ok(ExprKind::Row(values)),
            }
        })?;
        Ok(Expr { kind, span: self.since(start) })
    }

    /// The table that a statement changes, with its alias.
    fn target(&mut self) -> Parsed<(ObjectName, Option<Name>)> {
        self.accept_only();
        let table = self.object_name("a table")?;
        let alias = self.optional_alias()?;
        match alias {
            Some(alias) if !alias.columns.is_empty() => Err(self.expected("the rest of the statement")),
            alias => Ok((table, alias.map(|alias| alias.name))),
        }
    }

    fn update(&mut self, with: Option<With>) -> Parsed<Update> {
        let (table, alias) = self.target()?;
        let set = self.assignments()?;
        let from = if self.accept(K::FROM) { self.tables()? } else { vec![] };
        let condition = self.optional_where()?;
        self.refuse_order("UPDATE")?;
        let returning = self.optional_returning()?;
        Ok(Update { with, table, alias, set, from, condition, returning })
    }

    fn delete(&mut self, with: Option<With>) -> Parsed<Delete> {
        self.expect(K::FROM)?;
        let (table, alias) = self.target()?;
        let using = if self.accept(K::USING) { self.tables()? } else { vec![] };
        let condition = self.optional_where()?;
        self.refuse_order("DELETE")?;
        let returning = self.optional_returning()?;
        Ok(Delete { with, table, alias, using, condition, returning })
    }

    fn refuse_order(&self, statement: &str) -> Parsed<()> {
        if !self.is_any(&[K::ORDER, K::LIMIT]) {
            return Ok(());
        }
        let hint = "choose the rows by a subquery in WHERE";
        self.refused_here(&format!("ORDER BY and LIMIT in {statement}"), hint)
    }

    fn merge(&mut self, with: Option<With>) -> Parsed<Merge> {
        self.expect(K::INTO)?;
        let (table, alias) = self.target()?;
        self.expect(K::USING)?;
        let source = self.table()?;
        let condition = match self.expect_any(&[K::ON, K::USING])? {
            K::ON => JoinCondition::On(self.boxed_expression()?),
            _ => JoinCondition::Using(self.columns()?),
        };
        let mut clauses = vec![];
        self.expect(K::WHEN)?;
        loop {
            clauses.push(self.merge_clause()?);
            if !self.accept(K::WHEN) {
                break;
            }
        }
        let returning = self.optional_returning()?;
        Ok(Merge { with, table, alias, source, condition, clauses, returning })
    }

    fn merge_clause(&mut self) -> Parsed<MergeClause> {
        let negated = self.accept(K::NOT);
        self.expect(K::MATCHED)?;
        let matched = match (negated, negated && self.accept(K::BY)) {
            (false, _) => Matched::Matched,
            (true, false) => Matched::NotByTarget,
            (true, true) => match self.expect_any(&[K::TARGET, K::SOURCE])? {
                K::TARGET => Matched::NotByTarget,
                _ => Matched::NotBySource,
            },
        };
        let condition = if self.accept(K::AND) { Some(self.expression()?) } else { None };
        self.expect(K::THEN)?;
        let actions: &[K] = match matched {
            Matched::NotByTarget => &[K::INSERT, K::DO, K::ERROR],
            Matched::Matched | Matched::NotBySource => &[K::UPDATE, K::DELETE, K::DO, K::ERROR],
        };
        let action = match self.expect_any(actions)? {
            K::UPDATE => self.merge_update()?,
            K::ERROR if self.is(K::WHEN) || self.is(K::RETURNING) || self.is_at_end_of_part() => {
                MergeAction::Error(None)
            }
            K::ERROR => MergeAction::Error(Some(self.expression()?)),
            K::DELETE => MergeAction::Delete,
            K::INSERT => self.merge_insert()?,
            _ => self.expect(K::NOTHING).map(|_| MergeAction::Nothing)?,
        };
        if self.is(K::WHERE) {
            return self.refused_here("WHERE in a clause of MERGE", "write WHEN MATCHED AND condition");
        }
        Ok(MergeClause { matched, condition, action })
    }

    /// What stands behind UPDATE: changes, or how all columns of the source belong to those of the table.
    fn merge_update(&mut self) -> Parsed<MergeAction> {
        if self.accept_all(&[K::BY, K::NAME]) {
            return Ok(MergeAction::UpdateAll(MergeColumns::ByName));
        }
        if !self.is(K::SET) {
            return Ok(MergeAction::UpdateAll(MergeColumns::ByPosition));
        }
        if self.is_op_at(1, Op::Star) {
            self.at += 2;
            return Ok(MergeAction::UpdateAll(MergeColumns::ByPosition));
        }
        self.assignments().map(MergeAction::Update)
    }

    /// Whether nothing more of a statement follows, which may stand in the parentheses of a WITH.
    fn is_at_end_of_part(&self) -> bool {
        self.is_op(Op::RightParen) || self.is_at_end_of_statement()
    }

    fn merge_insert(&mut self) -> Parsed<MergeAction> {
        if self.accept_all(&[K::BY, K::NAME]) {
            return Ok(MergeAction::InsertAll(MergeColumns::ByName));
        }
        let gives_values = self.is_op(Op::LeftParen) || self.is(K::VALUES) || self.is(K::DEFAULT);
        if self.accept_op(Op::Star) || !gives_values {
            return Ok(MergeAction::InsertAll(MergeColumns::ByPosition));
        }
        let columns = self.optional_columns()?;
        if columns.is_empty() && self.accept_all(&[K::DEFAULT, K::VALUES]) {
            return Ok(MergeAction::Insert { columns, values: vec![] });
        }
        self.expect(K::VALUES)?;
        let values = self.list_in_parens(Self::value_or_default)?;
        Ok(MergeAction::Insert { columns, values })
    }

    pub(super) fn truncate(&mut self) -> Parsed<Truncate> {
        self.accept(K::TABLE);
        let if_exists = self.if_exists();
        if self.is(K::ONLY) && self.is_name_at(1) {
            return self.refused_here("TRUNCATE ONLY", "tables do not inherit");
        }
        let tables = self.list(|parser| parser.object_name("a table"))?;
        if self.is(K::PARTITION) {
            return self.refused_here("TRUNCATE of a PARTITION", "tables have none");
        }
        let restart_identity = self.accept_all(&[K::RESTART, K::IDENTITY]);
        if !restart_identity {
            self.accept_all(&[K::CONTINUE, K::IDENTITY]);
        }
        if self.is(K::CASCADE) {
            return self.refused_here("CASCADE of TRUNCATE", "keys do not empty other tables");
        }
        self.accept(K::RESTRICT);
        Ok(Truncate { if_exists, tables, restart_identity })
    }
}
