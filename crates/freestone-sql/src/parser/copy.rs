//! COPY.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{CopyFrom, CopySource, CopyTo, Expr, ExprKind, Literal, Name, OptionItem, StatementKind};

impl Parser<'_> {
    pub(super) fn copy(&mut self) -> Parsed<StatementKind> {
        if self.is_op(Op::LeftParen) {
            let source = CopySource::Query(Box::new(self.in_parens(Self::query)?));
            self.expect(K::TO)?;
            return self.copy_to(source);
        }
        let table = self.object_name("a table")?;
        let columns = self.optional_columns()?;
        match self.expect_any(&[K::FROM, K::TO])? {
            K::TO => self.copy_to(CopySource::Table(table, columns)),
            _ => {
                let path = self.copy_path(K::STDIN)?;
                let options = self.copy_options()?;
                Ok(StatementKind::CopyFrom(CopyFrom { table, columns, path, options }))
            }
        }
    }

    fn copy_to(&mut self, source: CopySource) -> Parsed<StatementKind> {
        let path = self.copy_path(K::STDOUT)?;
        let options = self.copy_options()?;
        Ok(StatementKind::CopyTo(CopyTo { source, path, options }))
    }

    /// The name of a file, or the word for the client.
    fn copy_path(&mut self, client: K) -> Parsed<Option<String>> {
        if self.accept(client) {
            return Ok(None);
        }
        if !self.is_text() {
            return Err(self.expected_any(&["a file in quotes", client.word()]));
        }
        Ok(Some(self.text("a file in quotes")?.value))
    }

    /// `[WITH] (options)`, or the options of earlier versions of PostgreSQL without parentheses.
    fn copy_options(&mut self) -> Parsed<Vec<OptionItem>> {
        let with = self.accept(K::WITH);
        if self.is_op(Op::LeftParen) {
            return self.options();
        }
        let mut options = vec![];
        while !self.is_at_end_of_statement() {
            options.push(self.old_copy_option()?);
        }
        match with && options.is_empty() {
            true => Err(self.expected("options in parentheses")),
            false => Ok(options),
        }
    }

    /// `CSV`, `BINARY`, `HEADER`, `FREEZE`, or `DELIMITER [AS] ';'` and the like.
    fn old_copy_option(&mut self) -> Parsed<OptionItem> {
        const WITH_TEXT: [K; 5] = [K::DELIMITER, K::NULL, K::QUOTE, K::ESCAPE, K::ENCODING];
        let start = self.span();
        let word = self.keyword(0);
        let name = self.label("an option of COPY")?;
        let format = |value: Literal| Some(Expr { kind: ExprKind::Literal(value), span: start });
        let (name, value) = match word {
            Some(K::CSV | K::BINARY) => {
                let option = Name { text: "format".to_owned(), quoted: false, span: start };
                (option, format(Literal::Text(name.text)))
            }
            Some(K::HEADER | K::FREEZE) => (name, None),
            Some(word) if WITH_TEXT.contains(&word) => {
                self.accept(K::AS);
                let text = self.text("a text")?;
                let value = Expr { kind: ExprKind::Literal(Literal::Text(text.value)), span: text.span };
                (name, Some(value))
            }
            _ => {
                self.at -= 1;
                return Err(self.expected("an option of COPY in parentheses"));
            }
        };
        Ok(OptionItem { name, value, span: self.since(start) })
    }
}
