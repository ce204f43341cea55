//! Names of types.

use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::{Op, TokenKind};
use crate::tree::{Name, ObjectName, Type, TypeField, TypeKind};

impl Parser<'_> {
    /// A type with the brackets behind it.
    pub(super) fn data_type(&mut self) -> Parsed<Type> {
        self.with_own_depth(Self::data_type_here)
    }

    fn data_type_here(&mut self) -> Parsed<Type> {
        let start = self.span();
        let mut kind = self.simple_type()?;
        while self.is_op(Op::LeftBracket) || self.is(K::ARRAY) {
            let is_word = self.accept(K::ARRAY);
            let mut size = None;
            if !is_word || self.is_op(Op::LeftBracket) {
                self.expect_op(Op::LeftBracket)?;
                size = if self.is_op(Op::RightBracket) { None } else { Some(self.digits("the number of items")?) };
                self.expect_op(Op::RightBracket)?;
            }
            self.deepen()?;
            let item = Box::new(Type { kind, span: self.since(start) });
            kind = match size {
                Some(size) => TypeKind::Array(item, size),
                None => TypeKind::List(item),
            };
        }
        Ok(Type { kind, span: self.since(start) })
    }

    fn simple_type(&mut self) -> Parsed<TypeKind> {
        let calls = self.is_op_at(1, Op::LeftParen);
        match self.keyword(0) {
            Some(K::STRUCT | K::ROW) if calls => {
                self.advance();
                self.list_in_parens(|parser| {
                    let name = parser.label("the name of a field")?;
                    Ok(TypeField { name, data_type: parser.data_type()? })
                })
                .map(TypeKind::Struct)
            }
            Some(K::MAP) if calls => {
                self.advance();
                self.in_parens(|parser| {
                    let key = Box::new(parser.data_type()?);
                    parser.expect_op(Op::Comma)?;
                    Ok(TypeKind::Map(key, Box::new(parser.data_type()?)))
                })
            }
            Some(K::LIST) if calls => {
                self.advance();
                self.in_parens(|parser| Ok(TypeKind::List(Box::new(parser.data_type()?))))
            }
            Some(K::ENUM) if calls => {
                self.advance();
                if self.begins_query(1) {
                    let hint = "list the labels: CREATE TYPE name AS ENUM ('a', 'b')";
                    return self.refused_here("an ENUM of the rows of a query", hint);
                }
                self.list_in_parens(|parser| parser.text("a label in quotes")).map(TypeKind::Enum)
            }
            Some(K::UNION) if calls => self.refused_here("type UNION", "a STRUCT with a field per type"),
            _ => self.named_type(),
        }
    }

    /// A type of one word, or of several that mean one.
    fn named_type(&mut self) -> Parsed<TypeKind> {
        let start = self.span();
        let keyword = self.keyword(0);
        let mut name = self.function_object_name("a type")?;
        let mut modifiers = vec![];
        let short = match keyword {
            Some(K::DOUBLE) if self.accept(K::PRECISION) => Some("double"),
            Some(K::CHARACTER | K::CHAR | K::NCHAR) if self.accept(K::VARYING) => Some("varchar"),
            Some(K::BIT) if self.accept(K::VARYING) => Some("varbit"),
            Some(K::NATIONAL) => {
                self.expect_any(&[K::CHARACTER, K::CHAR])?;
                self.accept(K::VARYING);
                Some("varchar")
            }
            _ => None,
        };
        if self.begins_no_modifiers(&name) {
            self.at += 2;
        } else if self.is_op(Op::LeftParen) {
            modifiers = self.list_in_parens(|parser| parser.digits("a number"))?;
        }
        let short = short.or(match keyword {
            Some(word @ (K::TIMESTAMP | K::TIME)) => self.with_time_zone(word)?,
            _ => self.unsigned(&name),
        });
        if let Some(short) = short {
            let span = self.since(start);
            let part = Name { text: short.to_owned(), quoted: false, span };
            name = ObjectName { parts: vec![part], span };
        }
        Ok(TypeKind::Named { name, modifiers })
    }

    /// Whether empty parentheses follow one of the types that may have them.
    fn begins_no_modifiers(&self, name: &ObjectName) -> bool {
        const TYPES: [&str; 4] = ["numeric", "decimal", "dec", "varchar"];
        let is_one = matches!(name.parts.as_slice(), [part] if TYPES.contains(&part.text.as_str()));
        is_one && self.is_op(Op::LeftParen) && self.is_op_at(1, Op::RightParen)
    }

    /// WITH TIME ZONE or WITHOUT TIME ZONE behind TIMESTAMP and TIME.
    fn with_time_zone(&mut self, word: K) -> Parsed<Option<&'static str>> {
        let zone = self.is_at(1, K::TIME) && self.is_at(2, K::ZONE);
        Ok(match self.keyword(0) {
            Some(K::WITH) if zone => {
                self.at += 3;
                Some(if word == K::TIMESTAMP { "timestamptz" } else { "timetz" })
            }
            Some(K::WITHOUT) if zone => {
                self.at += 3;
                None
            }
            _ => None,
        })
    }

    /// UNSIGNED behind an integer type.
    fn unsigned(&mut self, name: &ObjectName) -> Option<&'static str> {
        let [part] = name.parts.as_slice() else { return None };
        let short = match part.text.as_str() {
            "tinyint" | "int1" => "utinyint",
            "smallint" | "int2" => "usmallint",
            "int" | "integer" | "int4" => "uinteger",
            "bigint" | "int8" => "ubigint",
            _ => return None,
        };
        self.accept(K::UNSIGNED).then_some(short)
    }

    /// A number without a sign and a point, as it is written.
    fn digits(&mut self, what: &'static str) -> Parsed<String> {
        let is_number = self.peek() == TokenKind::Number;
        let text = self.span().of(self.text);
        if !is_number || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.expected(what));
        }
        let span = self.advance();
        Ok(span.of(self.text).to_owned())
    }
}
