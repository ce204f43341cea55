//! Statements, by their first word.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::span::Span;
use crate::tree::{CreateTable, LockRows, LockWait, Query, Statement, StatementKind, With};

impl Parser<'_> {
    /// A statement, up to its semicolon or the end.
    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        let start = self.span();
        let outer = self.into.take();
        let kind = self.statement_kind(start)?;
        self.into = outer;
        Ok(Statement { kind, span: self.since(start) })
    }

    fn statement_kind(&mut self, start: Span) -> Parsed<StatementKind> {
        if self.is(K::WITH) {
            let with = self.optional_with(true)?;
            return self.statement_behind(with, start);
        }
        if self.begins_query(0) || self.is_op(Op::LeftParen) || self.begins_write() {
            return self.statement_behind(None, start);
        }
        match self.keyword(0) {
            Some(K::DESCRIBE | K::DESC) => {
                self.advance();
                self.described().map(StatementKind::Describe)
            }
            Some(K::SUMMARIZE) => {
                self.advance();
                self.described().map(StatementKind::Summarize)
            }
            // Those that contain other statements.
            Some(K::EXPLAIN) => {
                self.advance();
                self.nest(Self::explain)
            }
            Some(K::PREPARE) => {
                self.advance();
                self.nest(Self::prepare)
            }
            _ => match self.object_statement()? {
                Some(kind) => Ok(kind),
                None => self.session_statement(),
            },
        }
    }

    /// A query, or a statement that writes, behind its WITH.
    fn statement_behind(&mut self, with: Option<With>, start: Span) -> Parsed<StatementKind> {
        if self.begins_write() {
            return Ok(StatementKind::Write(Box::new(self.write_behind(with)?)));
        }
        let query = Box::new(self.query_behind(with, start)?);
        if let Some(into) = self.into.take() {
            if query.with.as_ref().is_some_and(With::writes) {
                let hint = "write CREATE TABLE first, and INSERT INTO behind WITH";
                return Err(self.refused(into.span, "INTO of a query whose WITH writes", hint));
            }
            return Ok(StatementKind::CreateTable(Box::new(CreateTable {
                or_replace: false,
                temporary: into.temporary,
                if_not_exists: false,
                name: into.name,
                elements: vec![],
                options: vec![],
                on_commit: None,
                query: Some(query),
                with_no_data: false,
            })));
        }
        if self.is(K::FOR) { self.lock_rows(query) } else { Ok(StatementKind::Query(query)) }
    }

    /// FOR UPDATE behind a query that is the whole statement.
    fn lock_rows(&mut self, query: Box<Query>) -> Parsed<StatementKind> {
        self.advance();
        if self.is_any(&[K::SHARE, K::KEY, K::NO]) {
            return self.refused_here("FOR SHARE", "SELECT … FOR UPDATE locks rows");
        }
        self.expect(K::UPDATE)?;
        let of = if self.accept(K::OF) { self.list(|parser| parser.name("a table"))? } else { vec![] };
        let wait = match () {
            () if self.accept(K::NOWAIT) => LockWait::NoWait,
            () if self.accept_all(&[K::SKIP, K::LOCKED]) => LockWait::SkipLocked,
            () => LockWait::Wait,
        };
        Ok(StatementKind::LockRows(LockRows { query, of, wait }))
    }

    /// Statements about objects and rows.
    fn object_statement(&mut self) -> Parsed<Option<StatementKind>> {
        let words = [
            K::COPY,
            K::TRUNCATE,
            K::CREATE,
            K::ALTER,
            K::DROP,
            K::COMMENT,
            K::REFRESH,
            K::VACUUM,
            K::ANALYZE,
            K::ANALYSE,
            K::CHECK,
            K::CALIBRATE,
            K::ADVISE,
            K::WHATIF,
            K::ATTACH,
            K::DETACH,
            K::BACKUP,
            K::RESTORE,
            K::EXPORT,
            K::IMPORT,
        ];
        let Some(word) = self.accept_any(&words) else { return Ok(None) };
        Ok(Some(match word {
            K::COPY => self.copy()?,
            K::TRUNCATE => StatementKind::Truncate(self.truncate()?),
            K::CREATE => self.create()?,
            K::ALTER => self.alter()?,
            K::DROP => self.drop_objects()?,
            K::COMMENT => self.comment()?,
            K::REFRESH => StatementKind::RefreshView(self.refresh_view()?),
            K::VACUUM => self.vacuum()?,
            K::CHECK => StatementKind::Check(self.optional_table()?),
            K::CALIBRATE => StatementKind::Calibrate,
            K::ADVISE => self.advise()?,
            K::WHATIF => self.what_if()?,
            K::ATTACH => self.attach()?,
            K::DETACH => self.detach()?,
            K::BACKUP => StatementKind::BackupTo(self.folder(K::TO)?),
            K::RESTORE => StatementKind::RestoreFrom(self.folder(K::FROM)?),
            K::EXPORT => self.export()?,
            K::IMPORT => StatementKind::ImportDatabase(self.folder(K::DATABASE)?),
            _ => self.analyze()?,
        }))
    }

    /// Statements about the session and its transactions.
    fn session_statement(&mut self) -> Parsed<StatementKind> {
        let words = [
            K::BEGIN,
            K::START,
            K::COMMIT,
            K::END,
            K::ROLLBACK,
            K::ABORT,
            K::SAVEPOINT,
            K::RELEASE,
            K::SET,
            K::RESET,
            K::SHOW,
            K::USE,
            K::PRAGMA,
            K::DISCARD,
            K::EXECUTE,
            K::DEALLOCATE,
            K::DECLARE,
            K::FETCH,
            K::MOVE,
            K::CLOSE,
        ];
        let Some(word) = self.accept_any(&words) else {
            return match self.refused_statement() {
                Some((what, hint)) => self.refused_here(what, hint),
                None => Err(self.expected("a statement")),
            };
        };
        Ok(match word {
            K::BEGIN | K::START => self.begin(word)?,
            K::COMMIT | K::END => self.end_transaction(true)?,
            K::ROLLBACK | K::ABORT => self.end_transaction(false)?,
            K::SAVEPOINT => StatementKind::Savepoint(self.name("a savepoint")?),
            K::RELEASE => {
                self.accept(K::SAVEPOINT);
                StatementKind::Release(self.name("a savepoint")?)
            }
            K::SET => self.set()?,
            K::RESET => self.reset()?,
            K::SHOW => self.show()?,
            K::USE => StatementKind::Use(self.object_name("a schema")?),
            K::PRAGMA => self.pragma()?,
            K::DISCARD => self.discard()?,
            K::EXECUTE => self.execute()?,
            K::DEALLOCATE => {
                self.accept(K::PREPARE);
                StatementKind::Deallocate(self.name_or_all("a prepared statement")?)
            }
            K::DECLARE => self.declare_cursor()?,
            K::CLOSE => StatementKind::CloseCursor(self.name_or_all("a cursor")?),
            _ => self.fetch_cursor(word == K::MOVE)?,
        })
    }
}
