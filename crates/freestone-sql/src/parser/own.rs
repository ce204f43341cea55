//! Freestone's own statements: maintenance, backups, export and advice.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::{Op, TokenKind};
use crate::tree::{Advise, Attach, ObjectName, StatementKind, Text, WhatIf};

/// The options of VACUUM, which change nothing.
const VACUUM_OPTIONS: [K; 5] = [K::FULL, K::FREEZE, K::VERBOSE, K::ANALYZE, K::ANALYSE];

impl Parser<'_> {
    /// A table, or nothing for all.
    pub(super) fn optional_table(&mut self) -> Parsed<Option<ObjectName>> {
        self.accept(K::TABLE);
        if self.is_at_end_of_statement() { Ok(None) } else { self.object_name("a table").map(Some) }
    }

    /// A statement behind VACUUM.
    pub(super) fn vacuum(&mut self) -> Parsed<StatementKind> {
        if self.is_op(Op::LeftParen) {
            for option in self.options()? {
                if !VACUUM_OPTIONS.iter().any(|known| known.word().eq_ignore_ascii_case(&option.name.text)) {
                    let what = format!("the option {} of VACUUM", option.name.text);
                    let hint = "there are FULL, FREEZE, VERBOSE and ANALYZE, which change nothing";
                    return Err(self.refused(option.span, &what, hint));
                }
            }
        }
        while self.accept_any(&VACUUM_OPTIONS).is_some() {}
        Ok(StatementKind::Vacuum(self.optional_table()?))
    }

    /// A statement behind ANALYZE.
    pub(super) fn analyze(&mut self) -> Parsed<StatementKind> {
        self.accept(K::VERBOSE);
        let Some(table) = self.optional_table()? else { return Ok(StatementKind::Analyze(None)) };
        let columns = self.optional_columns()?;
        Ok(StatementKind::Analyze(Some((table, columns))))
    }

    /// A statement behind ADVISE.
    pub(super) fn advise(&mut self) -> Parsed<StatementKind> {
        self.accept(K::TABLE);
        // A table may be named like a clause.
        let is_clause = self.is_any(&[K::COPIES, K::BUDGET]) && self.peek_at(1) != TokenKind::End;
        let table = if self.is_at_end_of_statement() || is_clause { None } else { Some(self.object_name("a table")?) };
        let copies = if self.accept(K::COPIES) { Some(self.count("a number of copies")?) } else { None };
        let budget = if self.accept(K::BUDGET) { Some(self.text("a size in quotes, such as '2GB'")?) } else { None };
        Ok(StatementKind::Advise(Advise { table, copies, budget }))
    }

    /// A statement behind WHATIF.
    pub(super) fn what_if(&mut self) -> Parsed<StatementKind> {
        self.accept(K::TABLE);
        let table = self.object_name("a table")?;
        self.expect(K::DESIGN)?;
        let options = self.options()?;
        self.expect(K::FOR)?;
        Ok(StatementKind::WhatIf(WhatIf { table, options, query: self.boxed_query()? }))
    }

    /// A word and the name of a folder.
    pub(super) fn folder(&mut self, word: K) -> Parsed<Text> {
        self.expect(word)?;
        self.text("a folder in quotes")
    }

    /// A statement behind ATTACH.
    pub(super) fn attach(&mut self) -> Parsed<StatementKind> {
        self.accept(K::DATABASE);
        let if_not_exists = self.accept(K::IF);
        if if_not_exists {
            self.expect(K::NOT)?;
            self.expect(K::EXISTS)?;
        }
        let folder = self.text("a folder in quotes")?;
        let name = if self.accept(K::AS) { Some(self.name("a name for the database")?) } else { None };
        let options = if self.is_op(Op::LeftParen) { self.options()? } else { vec![] };
        Ok(StatementKind::Attach(Attach { folder, name, if_not_exists, options }))
    }

    /// A statement behind DETACH.
    pub(super) fn detach(&mut self) -> Parsed<StatementKind> {
        self.accept(K::DATABASE);
        let if_exists = self.accept(K::IF);
        if if_exists {
            self.expect(K::EXISTS)?;
        }
        Ok(StatementKind::Detach { name: self.name("a database")?, if_exists })
    }

    /// A statement behind EXPORT.
    pub(super) fn export(&mut self) -> Parsed<StatementKind> {
        let folder = self.folder(K::DATABASE)?;
        self.accept(K::WITH);
        let options = if self.is_op(Op::LeftParen) { self.options()? } else { vec![] };
        Ok(StatementKind::ExportDatabase { folder, options })
    }
}
