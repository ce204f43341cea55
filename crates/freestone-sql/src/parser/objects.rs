//! Views, indexes, sequences, macros, schemas, types and comments.

use super::tables::Created;
use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{
    Comment, CommentOn, CreateIndex, CreateMacro, CreateMaterializedView, CreateSchema, CreateSecret, CreateSequence,
    CreateType, CreateView, Drop, MacroBody, MacroParameter, ObjectKind, RefreshView, SequenceOption, StatementKind,
};

impl Parser<'_> {
    /// A statement behind CREATE.
    pub(super) fn create(&mut self) -> Parsed<StatementKind> {
        let mut created = Created { or_replace: self.accept_all(&[K::OR, K::REPLACE]), temporary: false };
        let start = self.span();
        self.accept_any(&[K::LOCAL, K::GLOBAL]);
        created.temporary = self.accept_any(&[K::TEMP, K::TEMPORARY]).is_some();
        if self.is(K::UNLOGGED) && self.is_at(1, K::TABLE) {
            // A crash takes no rows of any table.
            self.advance();
        }
        let Some(word) = self.keyword(0) else { return self.unknown_object() };
        let is_materialized = word == K::MATERIALIZED && self.is_at(1, K::VIEW);
        let allows_replace =
            is_materialized || matches!(word, K::TABLE | K::VIEW | K::MACRO | K::FUNCTION | K::TYPE | K::SECRET);
        let allows_temporary = matches!(word, K::TABLE | K::VIEW | K::SEQUENCE | K::SECRET);
        if created.or_replace && !allows_replace {
            return self.refused_here(&format!("CREATE OR REPLACE {}", word.word()), "DROP it first");
        }
        if created.temporary && !allows_temporary {
            let what = format!("a TEMPORARY {}", word.word().to_lowercase());
            return Err(self.refused(start, &what, "tables, views and sequences can be temporary"));
        }
        if word == K::UNIQUE && self.is_at(1, K::INDEX) {
            self.at += 2;
            return Ok(StatementKind::CreateIndex(self.create_index(true)?));
        }
        if is_materialized {
            self.at += 2;
            return Ok(StatementKind::CreateMaterializedView(self.create_materialized_view(created.or_replace)?));
        }
        self.advance();
        Ok(match word {
            K::TABLE => StatementKind::CreateTable(Box::new(self.create_table(created)?)),
            K::VIEW => StatementKind::CreateView(self.create_view(created)?),
            K::INDEX => StatementKind::CreateIndex(self.create_index(false)?),
            K::SEQUENCE => StatementKind::CreateSequence(self.create_sequence(created)?),
            K::MACRO | K::FUNCTION => StatementKind::CreateMacro(self.create_macro(created)?),
            K::SCHEMA => {
                let if_not_exists = self.if_not_exists();
                StatementKind::CreateSchema(CreateSchema { if_not_exists, name: self.object_name("a schema")? })
            }
            K::TYPE => StatementKind::CreateType(self.create_type(created)?),
            K::SECRET => StatementKind::CreateSecret(self.create_secret(created.or_replace)?),
            _ => {
                self.at -= 1;
                return self.unknown_object();
            }
        })
    }

    /// A secret, behind its word.
    fn create_secret(&mut self, or_replace: bool) -> Parsed<CreateSecret> {
        let if_not_exists = self.if_not_exists();
        let name = if self.is_op(Op::LeftParen) { None } else { Some(self.name("a name for the secret")?) };
        Ok(CreateSecret { or_replace, if_not_exists, name, options: self.options()? })
    }

    /// The error at an object that cannot be created.
    fn unknown_object<T>(&self) -> Parsed<T> {
        let (what, hint) = match self.keyword(0) {
            Some(K::RECURSIVE) => ("a RECURSIVE view", "write WITH RECURSIVE in the query of the view"),
            Some(K::EXTERNAL | K::FOREIGN) => {
                ("an EXTERNAL table", "files are read by their names: FROM 'file.parquet'")
            }
            Some(K::TRIGGER) => ("a TRIGGER", "constraints and defaults are available"),
            Some(K::USER | K::ROLE) => ("a USER", "users and their roles are settings of the server: docs/server.md"),
            Some(K::DATABASE) => ("a DATABASE", "a database is a folder: freestone FOLDER"),
            Some(K::EXTENSION) => ("an EXTENSION", "docs/functions.md lists the functions, which are always there"),
            Some(K::PERSISTENT) => ("a PERSISTENT SECRET", "CREATE SECRET keeps it until the end of the session"),
            _ => return Err(self.expected_any(&["TABLE", "VIEW", "INDEX", "SEQUENCE", "MACRO", "SCHEMA", "TYPE"])),
        };
        self.refused_here(what, hint)
    }

    fn create_view(&mut self, created: Created) -> Parsed<CreateView> {
        let if_not_exists = self.if_not_exists();
        let name = self.object_name("a view")?;
        let columns = self.optional_columns()?;
        if self.is(K::WITH) {
            return self.refused_here("WITH of a view", "leave it out");
        }
        self.expect(K::AS)?;
        let query = self.boxed_query()?;
        let Created { or_replace, temporary } = created;
        Ok(CreateView { or_replace, temporary, if_not_exists, name, columns, query })
    }

    /// MATERIALIZED, if it stands before VIEW.
    pub(super) fn accept_materialized(&mut self) -> bool {
        self.is_at(1, K::VIEW) && self.accept(K::MATERIALIZED)
    }

    /// Behind its words.
    fn create_materialized_view(&mut self, or_replace: bool) -> Parsed<CreateMaterializedView> {
        let if_not_exists = self.if_not_exists();
        let name = self.object_name("a view")?;
        let columns = self.optional_columns()?;
        let options = self.optional_with_options()?;
        self.expect(K::AS)?;
        let query = self.boxed_query()?;
        let with_no_data = self.without_data();
        Ok(CreateMaterializedView { or_replace, if_not_exists, name, columns, options, query, with_no_data })
    }

    /// Behind REFRESH.
    pub(super) fn refresh_view(&mut self) -> Parsed<RefreshView> {
        self.expect(K::MATERIALIZED)?;
        self.expect(K::VIEW)?;
        let concurrently = self.accept(K::CONCURRENTLY);
        let name = self.object_name("a view")?;
        Ok(RefreshView { concurrently, name, with_no_data: self.without_data() })
    }

    fn create_index(&mut self, unique: bool) -> Parsed<CreateIndex> {
        self.accept(K::CONCURRENTLY);
        let if_not_exists = self.if_not_exists();
        let name = if self.is(K::ON) { None } else { Some(self.object_name("an index")?) };
        self.expect(K::ON)?;
        self.accept_only();
        let table = self.object_name("a table")?;
        let method = if self.accept(K::USING) { Some(self.name("a kind of index")?) } else { None };
        let columns = self.list_in_parens(|parser| {
            let is_call = parser.is_op(Op::LeftParen) || parser.is_op_at(1, Op::LeftParen);
            if is_call {
                return parser.refused_here("an index of an expression", "store the expression in a column");
            }
            let column = parser.name("a column")?;
            parser.sort_order()?;
            Ok(column)
        })?;
        match self.keyword(0) {
            Some(K::INCLUDE) => return self.refused_here("INCLUDE of an index", "leave it out"),
            Some(K::WHERE) => return self.refused_here("WHERE of an index, which has all rows,", "leave it out"),
            Some(K::NULLS) if self.is_at(1, K::NOT) => {
                return self.refused_here("NULLS NOT DISTINCT", "a row with NULL in a key is equal to no other row");
            }
            _ => drop(self.optional_with_options()?),
        }
        Ok(CreateIndex { unique, if_not_exists, name, table, method, columns })
    }

    fn create_sequence(&mut self, created: Created) -> Parsed<CreateSequence> {
        let if_not_exists = self.if_not_exists();
        let name = self.object_name("a sequence")?;
        let options = self.sequence_options()?;
        Ok(CreateSequence { temporary: created.temporary, if_not_exists, name, options })
    }

    /// The options of a sequence, in any order.
    pub(super) fn sequence_options(&mut self) -> Parsed<Vec<SequenceOption>> {
        let mut options = vec![];
        let words = [K::AS, K::START, K::INCREMENT, K::MINVALUE, K::MAXVALUE, K::CYCLE, K::CACHE, K::NO, K::OWNED];
        while let Some(word) = self.accept_any(&words) {
            options.push(match word {
                K::AS => SequenceOption::As(self.data_type()?),
                K::START => {
                    self.accept(K::WITH);
                    SequenceOption::Start(self.signed_number()?)
                }
                K::INCREMENT => {
                    self.accept(K::BY);
                    SequenceOption::Increment(self.signed_number()?)
                }
                K::MINVALUE => SequenceOption::MinValue(Some(self.signed_number()?)),
                K::MAXVALUE => SequenceOption::MaxValue(Some(self.signed_number()?)),
                K::CYCLE => SequenceOption::Cycle(true),
                K::CACHE => SequenceOption::Cache(self.signed_number()?),
                K::NO => match self.expect_any(&[K::MINVALUE, K::MAXVALUE, K::CYCLE])? {
                    K::MINVALUE => SequenceOption::MinValue(None),
                    K::MAXVALUE => SequenceOption::MaxValue(None),
                    _ => SequenceOption::Cycle(false),
                },
                _ => {
                    self.expect(K::BY)?;
                    if self.accept(K::NONE) {
                        continue;
                    }
                    return self.refused_here("OWNED BY", "SERIAL makes such a sequence");
                }
            });
        }
        Ok(options)
    }

    fn create_macro(&mut self, created: Created) -> Parsed<CreateMacro> {
        if self.is(K::IF) {
            return self.refused_here("IF NOT EXISTS of a macro", "write CREATE OR REPLACE MACRO");
        }
        let name = self.function_object_name("a macro")?;
        let parameters = self.in_parens(|parser| match parser.is_op(Op::RightParen) {
            true => Ok(vec![]),
            false => parser.list(Self::macro_parameter),
        })?;
        if self.is_any(&[K::RETURNS, K::LANGUAGE]) {
            return self.refused_here("a function in another language", "write CREATE MACRO name(a, b) AS expression");
        }
        self.expect(K::AS)?;
        let body = match self.accept(K::TABLE) {
            true => MacroBody::Table(self.boxed_query()?),
            false => MacroBody::Value(self.boxed_expression()?),
        };
        if self.is_op(Op::Comma) {
            return self.refused_here("a macro of several forms", "give parameters defaults: b := 1");
        }
        Ok(CreateMacro { or_replace: created.or_replace, name, parameters, body })
    }

    fn macro_parameter(&mut self) -> Parsed<MacroParameter> {
        let name = self.name("a parameter")?;
        let has_default = self.accept_op(Op::Assigns) || self.accept_op(Op::Names);
        let default = if has_default { Some(self.expression()?) } else { None };
        Ok(MacroParameter { name, default })
    }

    fn create_type(&mut self, created: Created) -> Parsed<CreateType> {
        let if_not_exists = self.if_not_exists();
        let name = self.function_object_name("a type")?;
        self.expect(K::AS)?;
        let data_type = self.data_type()?;
        Ok(CreateType { or_replace: created.or_replace, if_not_exists, name, data_type })
    }

    /// A statement behind DROP.
    pub(super) fn drop_objects(&mut self) -> Parsed<StatementKind> {
        if self.is(K::SECRET) || self.is_any(&[K::TEMP, K::TEMPORARY]) && self.is_at(1, K::SECRET) {
            self.accept_any(&[K::TEMP, K::TEMPORARY]);
            self.advance();
            let if_exists = self.if_exists();
            return Ok(StatementKind::DropSecret { name: self.name("a secret")?, if_exists });
        }
        let words = [K::TABLE, K::VIEW, K::INDEX, K::SEQUENCE, K::SCHEMA, K::TYPE, K::MACRO, K::FUNCTION];
        if self.is_any(&[K::TEMP, K::TEMPORARY]) {
            return self.refused_here("DROP TEMPORARY", "DROP TABLE drops a temporary table of this name first");
        }
        let is_materialized = self.accept_materialized();
        let kind = match self.expect_any(&words)? {
            K::VIEW if is_materialized => ObjectKind::MaterializedView,
            K::TABLE => ObjectKind::Table,
            K::VIEW => ObjectKind::View,
            K::INDEX => {
                self.accept(K::CONCURRENTLY);
                ObjectKind::Index
            }
            K::SEQUENCE => ObjectKind::Sequence,
            K::SCHEMA => ObjectKind::Schema,
            K::TYPE => ObjectKind::Type,
            _ if self.accept(K::TABLE) => ObjectKind::TableMacro,
            _ => ObjectKind::Macro,
        };
        let if_exists = self.if_exists();
        let names = self.list(|parser| match kind {
            ObjectKind::Macro | ObjectKind::TableMacro | ObjectKind::Type => parser.function_object_name("a name"),
            _ => parser.object_name("a name"),
        })?;
        Ok(StatementKind::Drop(Drop { kind, if_exists, names, cascade: self.cascade() }))
    }

    /// A statement behind COMMENT.
    pub(super) fn comment(&mut self) -> Parsed<StatementKind> {
        self.expect(K::ON)?;
        let is_materialized = self.accept_materialized();
        let (on, name) = match self.accept_any(&[K::TABLE, K::VIEW, K::COLUMN]) {
            Some(K::VIEW) if is_materialized => (CommentOn::MaterializedView, self.object_name("a view")?),
            Some(K::TABLE) => (CommentOn::Table, self.object_name("a table")?),
            Some(K::VIEW) => (CommentOn::View, self.object_name("a view")?),
            Some(_) => (CommentOn::Column, self.object_name("a column")?),
            None => return self.refused_here("a comment on anything but TABLE, VIEW or COLUMN", "leave it out"),
        };
        self.expect(K::IS)?;
        let text = match self.accept(K::NULL) {
            true => None,
            false if self.is_text() => Some(self.text("a text")?),
            false => return Err(self.expected_any(&["a text in quotes", "NULL"])),
        };
        Ok(StatementKind::Comment(Comment { on, name, text }))
    }
}
