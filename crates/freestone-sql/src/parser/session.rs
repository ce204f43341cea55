//! Settings, prepared statements, cursors, and statements that describe others.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::{Op, TokenKind};
use crate::span::Span;
use crate::tree::{
    DeclareCursor, Described, Execute, Explain, Expr, ExprKind, FetchCursor, Listing, Name, ObjectName, Pragma,
    Prepare, Query, QueryBody, Select, SelectItem, Set, Show, Statement, StatementKind, Table, TableKind, With,
};

impl Parser<'_> {
    /// A statement behind SET.
    pub(super) fn set(&mut self) -> Parsed<StatementKind> {
        let local = self.is(K::LOCAL) && !self.is_assignment_at(1) && self.accept(K::LOCAL);
        if self.is(K::SESSION) && !self.is_assignment_at(1) {
            self.advance();
            if self.accept_all(&[K::CHARACTERISTICS, K::AS, K::TRANSACTION]) {
                return Ok(StatementKind::SetSessionModes(self.transaction_modes(true)?));
            }
        }
        let start = self.span();
        if self.accept(K::TRANSACTION) {
            return Ok(StatementKind::SetTransaction(self.transaction_modes(true)?));
        }
        if self.is(K::VARIABLE) && !self.is_assignment_at(1) {
            self.advance();
            let name = self.name("the name of a variable")?;
            self.expect_assignment()?;
            return Ok(StatementKind::SetVariable { name, value: self.expression()? });
        }
        if self.accept_all(&[K::TIME, K::ZONE]) {
            let _ = self.accept_op(Op::Eq) || self.accept(K::TO);
            let name = self.setting("time_zone", start);
            return self.set_values(local, name);
        }
        if self.is(K::NAMES) && !self.is_assignment_at(1) {
            self.advance();
            let name = self.setting("client_encoding", start);
            return self.set_values(local, name);
        }
        let name = self.function_object_name("the name of a setting")?;
        self.expect_assignment()?;
        self.set_values(local, name)
    }

    /// The name of a setting that is written in other words.
    fn setting(&self, name: &str, start: Span) -> ObjectName {
        let span = self.since(start);
        ObjectName { parts: vec![Name { text: name.to_owned(), quoted: false, span }], span }
    }

    fn is_assignment_at(&self, ahead: usize) -> bool {
        self.is_op_at(ahead, Op::Eq) || self.is_at(ahead, K::TO) || self.is_op_at(ahead, Op::Dot)
    }

    fn expect_assignment(&mut self) -> Parsed<()> {
        match self.accept_op(Op::Eq) || self.accept(K::TO) {
            true => Ok(()),
            false => Err(self.expected_any(&["=", "TO"])),
        }
    }

    fn set_values(&mut self, local: bool, name: ObjectName) -> Parsed<StatementKind> {
        let is_default = self.accept(K::DEFAULT) || self.is(K::LOCAL) && self.accept(K::LOCAL);
        let values = if is_default { vec![] } else { self.list(Self::setting_value)? };
        Ok(StatementKind::Set(Set { local, name, values }))
    }

    fn setting_value(&mut self) -> Parsed<Expr> {
        if self.is_at_end_of_statement() {
            return Err(self.expected("a value"));
        }
        let mut value = self.option_value()?;
        // `SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE` is the offset.
        if let ExprKind::Interval { value: text, unit: Some(_) } = value.kind {
            value = *text;
        }
        Ok(value)
    }

    /// A statement behind RESET.
    pub(super) fn reset(&mut self) -> Parsed<StatementKind> {
        if self.is(K::VARIABLE) && self.is_label_at(1) {
            self.advance();
            return Ok(StatementKind::ResetVariable(self.name("the name of a variable")?));
        }
        if self.accept(K::ALL) {
            return Ok(StatementKind::Reset(None));
        }
        self.setting_name().map(|name| StatementKind::Reset(Some(name)))
    }

    fn setting_name(&mut self) -> Parsed<ObjectName> {
        let start = self.span();
        if self.accept_all(&[K::TIME, K::ZONE]) {
            return Ok(self.setting("time_zone", start));
        }
        if self.accept_all(&[K::TRANSACTION, K::ISOLATION, K::LEVEL]) {
            return Ok(self.setting("transaction_isolation", start));
        }
        self.function_object_name("the name of a setting")
    }

    /// A statement behind SHOW.
    pub(super) fn show(&mut self) -> Parsed<StatementKind> {
        let ends = matches!(self.peek_at(1), TokenKind::End | TokenKind::Op(Op::Semicolon));
        if self.is_any(&[K::COLUMNS, K::FIELDS]) && (self.is_at(1, K::FROM) || self.is_at(1, K::IN)) {
            self.at += 2;
            return Ok(StatementKind::Describe(Described::Table(self.object_name("a table")?)));
        }
        let show = match self.keyword(0) {
            Some(K::ALL) if self.is_at(1, K::TABLES) => {
                self.at += 2;
                Show::AllTables
            }
            Some(word @ (K::ALL | K::TABLES | K::DATABASES | K::SCHEMAS | K::FUNCTIONS)) if ends => {
                self.advance();
                match word {
                    K::ALL => Show::All,
                    K::TABLES => Show::Tables,
                    K::DATABASES => Show::Databases,
                    K::SCHEMAS => Show::Schemas,
                    _ => Show::Functions,
                }
            }
            Some(K::CREATE) => {
                self.advance();
                let view = match self.accept_any(&[K::TABLE, K::VIEW]) {
                    Some(word) => word == K::VIEW,
                    None => return self.refused_here("SHOW CREATE of anything but TABLE and VIEW", "leave it out"),
                };
                Show::Create { view, name: self.object_name("a table")? }
            }
            _ => Show::Setting(self.setting_name()?),
        };
        Ok(StatementKind::Show(show))
    }

    /// What stands behind DESCRIBE and SUMMARIZE.
    pub(super) fn described(&mut self) -> Parsed<Described> {
        if self.is_text() {
            return Ok(Described::File(self.text("a file")?.value));
        }
        let is_table = self.is(K::TABLE) && self.is_name_at(1);
        if !is_table && (self.begins_query(0) || self.is_op(Op::LeftParen)) {
            return Ok(Described::Query(self.boxed_query()?));
        }
        self.accept(K::TABLE);
        Ok(Described::Table(self.object_name("a table, a file in quotes, or a query")?))
    }

    /// A statement behind EXPLAIN.
    pub(super) fn explain(&mut self) -> Parsed<StatementKind> {
        let (mut analyze, mut verbose, mut format) = (false, false, None);
        if self.is_op(Op::LeftParen) && self.is_label_at(1) && !self.begins_query(1) {
            self.in_parens(|parser| {
                parser.list(|parser| match parser.accept_any(&[K::ANALYZE, K::ANALYSE, K::VERBOSE, K::FORMAT]) {
                    Some(K::FORMAT) => {
                        format = Some(parser.label("a format")?);
                        Ok(())
                    }
                    Some(K::VERBOSE) => parser.switch().map(|on| verbose = on),
                    Some(_) => parser.switch().map(|on| analyze = on),
                    None if parser.accept_shown() => parser.switch().map(drop),
                    None => {
                        let hint = "the form is EXPLAIN [(ANALYZE, VERBOSE, FORMAT tree|json|traditional)] query";
                        parser.refused_here("this option of EXPLAIN", hint)
                    }
                })
            })?;
        }
        analyze |= self.accept_any(&[K::ANALYZE, K::ANALYSE]).is_some();
        verbose |= self.accept(K::VERBOSE);
        if self.is(K::FORMAT) && self.is_label_at(1) {
            self.advance();
            format = Some(self.label("a format")?);
        }
        let start = self.span();
        let statement = Box::new(self.statement()?);
        let is_shown = match &statement.kind {
            StatementKind::CreateTable(create) => create.query.is_some(),
            kind => is_plain(kind),
        };
        if !is_shown {
            let hint = "EXPLAIN takes queries, INSERT, UPDATE, DELETE and CREATE TABLE … AS";
            return Err(self.refused(self.since(start), "EXPLAIN of this statement", hint));
        }
        Ok(StatementKind::Explain(Explain { analyze, verbose, format, statement }))
    }

    /// An option of PostgreSQL for what is always, or never, shown here.
    fn accept_shown(&mut self) -> bool {
        const SHOWN: [&str; 6] = ["costs", "timing", "summary", "buffers", "settings", "wal"];
        let is_shown = SHOWN.iter().any(|word| self.span().of(self.text).eq_ignore_ascii_case(word));
        if is_shown {
            self.advance();
        }
        is_shown
    }

    /// TRUE, FALSE, ON, OFF, 1, 0, or nothing, which is on.
    fn switch(&mut self) -> Parsed<bool> {
        if self.accept_any(&[K::TRUE, K::ON]).is_some() {
            return Ok(true);
        }
        if self.accept_any(&[K::FALSE, K::OFF]).is_some() {
            return Ok(false);
        }
        match self.peek() {
            TokenKind::Number => Ok(self.count("1 or 0")? != 0),
            _ => Ok(true),
        }
    }

    /// A statement behind PREPARE.
    pub(super) fn prepare(&mut self) -> Parsed<StatementKind> {
        if self.is(K::TRANSACTION) && !self.is_at(1, K::AS) {
            return self.refused_here("a transaction in two phases", "each statement commits on its own");
        }
        let name = self.name("the name of a statement")?;
        let types = self.optional_list_in_parens(Self::data_type)?;
        self.expect(K::AS)?;
        let start = self.span();
        let statement = match self.listing_in_parens()? {
            Some(listing) => Statement { kind: shown(listing, self.since(start)), span: self.since(start) },
            None => self.statement()?,
        };
        let kind = match statement.kind {
            StatementKind::Describe(described) => shown(Listing::Describe(described), statement.span),
            StatementKind::Summarize(described) => shown(Listing::Summarize(described), statement.span),
            StatementKind::Show(Show::Tables) => shown(Listing::Tables, statement.span),
            StatementKind::Show(Show::AllTables) => shown(Listing::AllTables, statement.span),
            kind => kind,
        };
        if !is_plain(&kind) {
            let hint = "PREPARE takes SELECT, INSERT, UPDATE, DELETE, MERGE, DESCRIBE, SUMMARIZE and SHOW TABLES";
            return Err(self.refused(self.since(start), "PREPARE of this statement", hint));
        }
        let statement = Box::new(Statement { kind, span: statement.span });
        Ok(StatementKind::Prepare(Prepare { name, types, statement }))
    }

    /// `(DESCRIBE …)` and the like as a whole statement.
    fn listing_in_parens(&mut self) -> Parsed<Option<Listing>> {
        if !self.is_op(Op::LeftParen) {
            return Ok(None);
        }
        let start = self.at;
        self.advance();
        let listing = self.nest(Self::listing)?;
        match listing {
            Some(_) => drop(self.expect_close(Op::RightParen)?),
            None => self.at = start,
        }
        Ok(listing)
    }

    /// A statement behind EXECUTE.
    pub(super) fn execute(&mut self) -> Parsed<StatementKind> {
        let name = self.name("the name of a prepared statement")?;
        let is_empty = self.is_op(Op::LeftParen) && self.is_op_at(1, Op::RightParen);
        let arguments = match is_empty {
            true => {
                self.at += 2;
                vec![]
            }
            false => self.optional_list_in_parens(|parser| parser.argument(false))?,
        };
        if self.is_any(&[K::USING, K::INTO]) {
            return self.refused_here("EXECUTE … USING", "the form is EXECUTE name(value, …)");
        }
        Ok(StatementKind::Execute(Execute { name, arguments }))
    }

    /// A name, or ALL.
    pub(super) fn name_or_all(&mut self, what: &'static str) -> Parsed<Option<Name>> {
        if self.accept(K::ALL) { Ok(None) } else { self.name(what).map(Some) }
    }

    /// A statement behind PRAGMA.
    pub(super) fn pragma(&mut self) -> Parsed<StatementKind> {
        let name = self.name("the name of a pragma")?;
        if self.accept_op(Op::Eq) {
            let name = ObjectName { span: name.span, parts: vec![name] };
            return self.set_values(false, name);
        }
        let arguments = self.optional_list_in_parens(Self::expression)?;
        Ok(StatementKind::Pragma(Pragma { name, arguments }))
    }

    /// A statement behind DECLARE.
    pub(super) fn declare_cursor(&mut self) -> Parsed<StatementKind> {
        let name = self.name("the name of a cursor")?;
        loop {
            match self.keyword(0) {
                Some(K::INSENSITIVE | K::ASENSITIVE) => drop(self.advance()),
                Some(K::NO) => self.expect_all(&[K::NO, K::SCROLL])?,
                Some(K::BINARY | K::SCROLL) => {
                    return self.refused_here("this kind of cursor", "write DECLARE name CURSOR FOR query");
                }
                _ => break,
            }
        }
        self.expect(K::CURSOR)?;
        let hold = self.accept_all(&[K::WITH, K::HOLD]);
        if !hold {
            self.accept_all(&[K::WITHOUT, K::HOLD]);
        }
        self.expect(K::FOR)?;
        Ok(StatementKind::DeclareCursor(DeclareCursor { name, hold, query: self.boxed_query()? }))
    }

    /// A statement behind FETCH or MOVE.
    pub(super) fn fetch_cursor(&mut self, moves: bool) -> Parsed<StatementKind> {
        if self.is_any(&[K::PRIOR, K::FIRST, K::LAST, K::ABSOLUTE, K::RELATIVE, K::BACKWARD]) && !self.ends_after_word()
        {
            return self.refused_here("a cursor that goes back", "FETCH FORWARD count FROM name");
        }
        let mut count = Some(1);
        if !self.ends_after_word() && !self.accept(K::NEXT) {
            self.accept(K::FORWARD);
            match self.peek() {
                TokenKind::Number => count = Some(self.count("a number")?),
                _ if self.accept(K::ALL) => count = None,
                _ => {}
            }
        }
        self.accept_any(&[K::FROM, K::IN]);
        let name = self.name("the name of a cursor")?;
        Ok(StatementKind::FetchCursor(FetchCursor { name, count, moves }))
    }

    fn ends_after_word(&self) -> bool {
        matches!(self.peek_at(1), TokenKind::End | TokenKind::Op(Op::Semicolon))
    }

    /// A statement behind DISCARD.
    pub(super) fn discard(&mut self) -> Parsed<StatementKind> {
        Ok(match self.expect_any(&[K::ALL, K::TEMP, K::TEMPORARY, K::PLANS, K::SEQUENCES])? {
            K::ALL => StatementKind::DiscardAll,
            K::TEMP | K::TEMPORARY => StatementKind::DiscardTemporary,
            _ => {
                self.at -= 1;
                return self.refused_here("this form of DISCARD", "there are DISCARD ALL and DISCARD TEMP");
            }
        })
    }
}

/// A statement that shows something, as a query of its rows.
fn shown(listing: Listing, span: Span) -> StatementKind {
    let star = Expr { kind: ExprKind::Star(Box::default()), span };
    let table = Table { kind: TableKind::Listing(Box::new(listing)), alias: None, sample: None, span };
    let items = vec![SelectItem { value: star, alias: None }];
    let select = Select { from: vec![table], ..Select::of_items(items, span) };
    StatementKind::Query(Box::new(Query::of(QueryBody::Select(Box::new(select)), span)))
}

/// Whether a statement is a query or changes rows, and no part of its WITH writes.
fn is_plain(kind: &StatementKind) -> bool {
    match kind {
        StatementKind::Query(query) => !query.with.as_ref().is_some_and(With::writes),
        StatementKind::Write(write) => !write.with().is_some_and(With::writes),
        _ => false,
    }
}
