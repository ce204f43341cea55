//! COPY.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{
    CopyFrom, CopySource, CopyTarget, CopyTo, Expr, ExprKind, Literal, Name, OptionItem, SortKey, StatementKind,
};

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
                let options = self.copy_options(Self::option)?;
                Ok(StatementKind::CopyFrom(CopyFrom { table, columns, path, options }))
            }
        }
    }

    fn copy_to(&mut self, source: CopySource) -> Parsed<StatementKind> {
        let target = match self.is_op(Op::LeftParen) {
            true => CopyTarget::Computed(Box::new(self.in_parens(Self::expression)?)),
            false => self.copy_path(K::STDOUT)?.map_or(CopyTarget::Client, CopyTarget::File),
        };
        let mut order = vec![];
        let options = self.copy_options(|parser| parser.copy_to_option(&mut order))?;
        let options = options.into_iter().flatten().collect();
        Ok(StatementKind::CopyTo(CopyTo { source, target, options, order }))
    }

    /// An option of COPY … TO. That of the order is none of the list.
    fn copy_to_option(&mut self, order: &mut Vec<SortKey>) -> Parsed<Option<OptionItem>> {
        let start = self.span();
        let is_order = self.is_written("order_by") || self.is(K::ORDER) && self.is_at(1, K::BY);
        if is_order && order.is_empty() {
            self.at += if self.is(K::ORDER) { 2 } else { 1 };
            self.accept_op(Op::Eq);
            *order = match self.is_op(Op::LeftParen) {
                true => self.list_in_parens(Self::sort_key)?,
                false => vec![self.sort_key()?],
            };
            return Ok(None);
        }
        if is_order {
            return Err(self.expected("another option: ORDER_BY is given twice"));
        }
        if (self.is(K::PARTITION) || self.is_written("partitioned")) && self.is_at(1, K::BY) {
            self.at += 2;
            let name = Name { text: "partition_by".to_owned(), quoted: false, span: start };
            return Ok(Some(self.option_of(name, start)?));
        }
        self.option().map(Some)
    }

    /// Whether the next token is this word, in any case.
    fn is_written(&self, word: &str) -> bool {
        self.span().of(self.text).eq_ignore_ascii_case(word)
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
    fn copy_options<T: From<OptionItem>>(&mut self, option: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let with = self.accept(K::WITH);
        if self.is_op(Op::LeftParen) {
            return self.list_in_parens(option);
        }
        let mut options = vec![];
        while !self.is_at_end_of_statement() {
            options.push(self.old_copy_option()?.into());
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
