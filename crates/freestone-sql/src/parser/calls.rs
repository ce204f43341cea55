//! Calls of functions, and windows.

use super::expressions::Precedence;
use super::{Parsed, Parser};
use crate::keyword::Keyword as K;
use crate::lexer::Op;
use crate::tree::{
    Argument, Call, Expr, ExprKind, Frame, FrameBound, FrameExclude, FrameUnit, Literal, Name, ObjectName, Over,
    SpecialCall, TrimSide, Window,
};

/// The functions whose arguments `x -> …` are lambdas. Elsewhere, the arrow is the operator of JSON.
const WITH_LAMBDAS: [&str; 16] = [
    "any_match",
    "apply",
    "array_any_match",
    "array_apply",
    "array_filter",
    "array_reduce",
    "array_transform",
    "filter",
    "list_any_match",
    "list_apply",
    "list_filter",
    "list_reduce",
    "list_transform",
    "map_filter",
    "map_transform",
    "reduce",
];

impl Parser<'_> {
    /// A call from its opening parenthesis on.
    pub(super) fn call(&mut self, receiver: Option<Expr>, name: ObjectName) -> Parsed<Call> {
        let mut call = Call { receiver, ..Call::of(name, vec![]) };
        let takes_lambdas = call.takes_lambdas();
        self.expect_op(Op::LeftParen)?;
        self.nest(|parser| parser.call_arguments(&mut call, takes_lambdas))?;
        self.expect_close(Op::RightParen)?;
        self.call_clauses(&mut call)?;
        Ok(call)
    }

    fn call_arguments(&mut self, call: &mut Call, takes_lambdas: bool) -> Parsed<()> {
        if self.is_op(Op::RightParen) {
            return Ok(());
        }
        call.distinct = self.accept(K::DISTINCT);
        if !call.distinct {
            self.accept(K::ALL);
        }
        if self.begins_query(0) && !self.is(K::VALUES) && !self.is_name_at(0) {
            return self.refused_here("a query as an argument", "put the query in parentheses of its own");
        }
        if !(self.is(K::ORDER) && self.is_at(1, K::BY)) {
            let mut is_spread = false;
            call.arguments = self.list(|parser| {
                if is_spread {
                    return Err(parser.error("VARIADIC stands before the last argument"));
                }
                is_spread = parser.accept(K::VARIADIC);
                parser.argument(takes_lambdas)
            })?;
            if is_spread {
                self.spread(call)?;
            }
        }
        call.order_by = self.optional_sort_keys()?;
        call.ignore_nulls = self.null_treatment();
        if self.is_any(&[K::SEPARATOR, K::LIMIT, K::HAVING]) || self.is(K::ON) && self.is_at(1, K::OVERFLOW) {
            return self.refused_here("this clause of a function", "string_agg(value, ', ') takes the separator");
        }
        Ok(())
    }

    /// Makes a call with `VARIADIC list` one of the function that takes the values as a list.
    fn spread(&self, call: &mut Call) -> Parsed<()> {
        let function = call.name.parts.last_mut();
        let Some(Name { text: function, .. }) = function else { return Ok(()) };
        let empty = Expr { kind: ExprKind::Literal(Literal::Text(String::new())), span: call.name.span };
        *function = match (function.as_str(), call.arguments.len()) {
            ("concat", 1) => {
                call.arguments.push(Argument { name: None, value: empty });
                "array_to_string"
            }
            ("concat_ws", 2) => {
                call.arguments.reverse();
                "array_to_string"
            }
            ("num_nulls", 1) => "freestone_nulls_of_list",
            ("num_nonnulls", 1) => "freestone_values_of_list",
            _ => return Err(self.error(format!("VARIADIC in a call of {function} is not available"))),
        }
        .to_owned();
        Ok(())
    }

    /// `value`, `name => value`, `name := value`, or a star.
    pub(super) fn argument(&mut self, takes_lambdas: bool) -> Parsed<Argument> {
        let is_named = self.is_label_at(0) && (self.is_op_at(1, Op::Names) || self.is_op_at(1, Op::Assigns));
        let name = match is_named {
            true => {
                let name = self.label("the name of an argument")?;
                self.advance();
                Some(name)
            }
            false => None,
        };
        let value = match takes_lambdas && self.begins_arrow() {
            true => self.arrow()?,
            false => self.star_or_expression()?,
        };
        Ok(Argument { name, value })
    }

    /// What follows the parentheses of a call.
    fn call_clauses(&mut self, call: &mut Call) -> Parsed<()> {
        if self.accept_all(&[K::WITHIN, K::GROUP]) {
            call.within_group = self.in_parens(|parser| {
                parser.expect_all(&[K::ORDER, K::BY])?;
                parser.list(Self::sort_key)
            })?;
        }
        if self.is(K::FILTER) && self.is_op_at(1, Op::LeftParen) {
            self.advance();
            call.filter = Some(self.in_parens(|parser| {
                parser.accept(K::WHERE);
                parser.expression()
            })?);
        }
        if call.ignore_nulls.is_none() {
            call.ignore_nulls = self.null_treatment();
        }
        if self.is(K::OVER) && (self.is_op_at(1, Op::LeftParen) || self.is_name_at(1)) {
            self.advance();
            call.over = Some(match self.is_op(Op::LeftParen) {
                true => Over::Window(self.window()?),
                false => Over::Name(self.name("a window")?),
            });
        }
        Ok(())
    }

    fn null_treatment(&mut self) -> Option<bool> {
        match () {
            () if self.accept_all(&[K::IGNORE, K::NULLS]) => Some(true),
            () if self.accept_all(&[K::RESPECT, K::NULLS]) => Some(false),
            () => None,
        }
    }

    /// A window in parentheses.
    pub(super) fn window(&mut self) -> Parsed<Window> {
        let start = self.span();
        self.in_parens(|parser| {
            let is_clause = parser.is_any(&[K::PARTITION, K::ORDER])
                || parser.is_any(&[K::ROWS, K::RANGE, K::GROUPS]) && !parser.is_op_at(1, Op::RightParen);
            let base = if !is_clause && parser.is_name_at(0) { Some(parser.name("a window")?) } else { None };
            let partition_by = match parser.accept_all(&[K::PARTITION, K::BY]) {
                true => parser.list(Self::expression)?,
                false => vec![],
            };
            let order_by = parser.optional_sort_keys()?;
            let frame = parser.frame()?;
            Ok(Window { base, partition_by, order_by, frame, span: start })
        })
        .map(|window| Window { span: self.since(start), ..window })
    }

    fn frame(&mut self) -> Parsed<Option<Frame>> {
        let unit = match self.accept_any(&[K::ROWS, K::RANGE, K::GROUPS]) {
            Some(K::ROWS) => FrameUnit::Rows,
            Some(K::RANGE) => FrameUnit::Range,
            Some(_) => FrameUnit::Groups,
            None => return Ok(None),
        };
        let (start, end) = match self.accept(K::BETWEEN) {
            true => {
                let start = self.frame_bound()?;
                self.expect(K::AND)?;
                (start, Some(self.frame_bound()?))
            }
            false => (self.frame_bound()?, None),
        };
        let exclude = match self.accept(K::EXCLUDE) {
            false => None,
            true => Some(match self.expect_any(&[K::CURRENT, K::GROUP, K::TIES, K::NO])? {
                K::CURRENT => self.expect(K::ROW).map(|_| FrameExclude::CurrentRow)?,
                K::GROUP => FrameExclude::Group,
                K::TIES => FrameExclude::Ties,
                _ => self.expect(K::OTHERS).map(|_| FrameExclude::NoOthers)?,
            }),
        };
        Ok(Some(Frame { unit, start, end, exclude }))
    }

    fn frame_bound(&mut self) -> Parsed<FrameBound> {
        let is_side = self.is_at(1, K::PRECEDING) || self.is_at(1, K::FOLLOWING);
        if self.is(K::UNBOUNDED) && is_side {
            self.advance();
            return Ok(match self.expect_any(&[K::PRECEDING, K::FOLLOWING])? {
                K::PRECEDING => FrameBound::UnboundedPreceding,
                _ => FrameBound::UnboundedFollowing,
            });
        }
        if self.accept_all(&[K::CURRENT, K::ROW]) {
            return Ok(FrameBound::CurrentRow);
        }
        let offset = self.boxed_expression()?;
        Ok(match self.expect_any(&[K::PRECEDING, K::FOLLOWING])? {
            K::PRECEDING => FrameBound::Preceding(offset),
            _ => FrameBound::Following(offset),
        })
    }

    /// `extract(…)` and the other functions that may have keywords between their arguments.
    pub(super) fn special(&mut self, keyword: K) -> Parsed<ExprKind> {
        let name = self.label("a function")?;
        let mut call = Call::of(ObjectName { span: name.span, parts: vec![name] }, vec![]);
        self.expect_op(Op::LeftParen)?;
        let special = self.nest(|parser| match keyword {
            _ if parser.is_op(Op::RightParen) => Ok(None),
            K::EXTRACT if parser.is_at(1, K::FROM) => parser.extract().map(Some),
            K::TRIM if parser.is_any(&[K::BOTH, K::LEADING, K::TRAILING]) => parser.trim().map(Some),
            _ => parser.special_or_arguments(keyword, &mut call.arguments),
        })?;
        self.expect_close(Op::RightParen)?;
        match special {
            Some(special) => Ok(ExprKind::Special(Box::new(special))),
            None => {
                self.call_clauses(&mut call)?;
                Ok(ExprKind::Call(Box::new(call)))
            }
        }
    }

    /// `part FROM value`
    fn extract(&mut self) -> Parsed<SpecialCall> {
        let part = match self.is_text() {
            true => self.text("a part of a time")?.value.to_lowercase(),
            false => self.label("a part of a time")?.text,
        };
        self.expect(K::FROM)?;
        Ok(SpecialCall::Extract { part, value: self.expression()? })
    }

    /// `side [characters] FROM value`, `side value`, `side value, characters`
    fn trim(&mut self) -> Parsed<SpecialCall> {
        let side = match self.expect_any(&[K::BOTH, K::LEADING, K::TRAILING])? {
            K::BOTH => TrimSide::Both,
            K::LEADING => TrimSide::Leading,
            _ => TrimSide::Trailing,
        };
        if self.accept(K::FROM) {
            return Ok(SpecialCall::Trim { side, characters: None, value: self.expression()? });
        }
        let first = self.expression()?;
        Ok(match (self.accept(K::FROM), self.accept_op(Op::Comma)) {
            (true, _) => SpecialCall::Trim { side, characters: Some(first), value: self.expression()? },
            (_, true) => SpecialCall::Trim { side, characters: Some(self.expression()?), value: first },
            _ => SpecialCall::Trim { side, characters: None, value: first },
        })
    }

    /// The call that its first keyword shows, or its arguments if there is none.
    fn special_or_arguments(&mut self, keyword: K, arguments: &mut Vec<Argument>) -> Parsed<Option<SpecialCall>> {
        // IN is the keyword of `position`, so its operands bind more strongly.
        let value = match keyword {
            K::POSITION => self.operators(Precedence::Other)?,
            _ => self.expression()?,
        };
        let special = match keyword {
            K::POSITION if self.accept(K::IN) => SpecialCall::Position { needle: value, value: self.expression()? },
            K::TRIM if self.accept(K::FROM) => {
                SpecialCall::Trim { side: TrimSide::Both, characters: Some(value), value: self.expression()? }
            }
            K::SUBSTRING if self.accept(K::SIMILAR) => {
                // The function of three texts is the same.
                let pattern = self.expression()?;
                self.expect(K::ESCAPE)?;
                let escape = self.expression()?;
                let values = [value, pattern, escape];
                arguments.extend(values.map(|value| Argument { name: None, value }));
                return Ok(None);
            }
            K::SUBSTRING if self.is_any(&[K::FROM, K::FOR]) => {
                let start = if self.accept(K::FROM) { Some(self.expression()?) } else { None };
                let length = if self.accept(K::FOR) { Some(self.expression()?) } else { None };
                SpecialCall::Substring { value, start, length }
            }
            K::OVERLAY if self.accept(K::PLACING) => {
                let other = self.expression()?;
                self.expect(K::FROM)?;
                let start = self.expression()?;
                let length = if self.accept(K::FOR) { Some(self.expression()?) } else { None };
                SpecialCall::Overlay { value, other, start, length }
            }
            _ => {
                arguments.push(Argument { name: None, value });
                while self.accept_op(Op::Comma) {
                    arguments.push(self.argument(false)?);
                }
                return Ok(None);
            }
        };
        Ok(Some(special))
    }
}

impl Call {
    /// Whether `x -> …` is a lambda as an argument.
    pub(crate) fn takes_lambdas(&self) -> bool {
        self.name.parts.last().is_some_and(|name| WITH_LAMBDAS.contains(&name.text.as_str()))
    }
}
