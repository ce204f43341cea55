//! Conditions: IS, LIKE, BETWEEN, IN with a list, and CASE.

use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::expr::InList;
use datafusion_expr::{Between, Case, Cast, Expr, ExprSchemable, Like};
use freestone_sql::Span;
use freestone_sql::tree::{self, BinaryOperator, ExprKind, InSet, IsTest, LikeOperator, Quantity};

use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::expressions::text;
use crate::patterns;
use crate::scopes::Scope;
use crate::types::{SqlType, is_quoted, is_text};

impl Binder<'_> {
    /// `a IS [NOT] NULL`, and the tests of truth.
    pub fn is_test(&mut self, operand: &tree::Expr, negated: bool, test: IsTest) -> Result<Expr> {
        let value = self.expression(operand)?;
        let is_number = value.get_type(&self.schema()).is_ok_and(|kind| kind.is_numeric());
        let value = match test {
            // A number that is not 0 is true.
            IsTest::True | IsTest::False | IsTest::Unknown if is_number => {
                self.cast_to(value, SqlType::Plain(DataType::Boolean), false, operand.span)?
            }
            _ => value,
        };
        let value = Box::new(value);
        Ok(match (test, negated) {
            (IsTest::Null, false) => Expr::IsNull(value),
            (IsTest::Null, true) => Expr::IsNotNull(value),
            (IsTest::True, false) => Expr::IsTrue(value),
            (IsTest::True, true) => Expr::IsNotTrue(value),
            (IsTest::False, false) => Expr::IsFalse(value),
            (IsTest::False, true) => Expr::IsNotFalse(value),
            (IsTest::Unknown, false) => Expr::IsUnknown(value),
            (IsTest::Unknown, true) => Expr::IsNotUnknown(value),
        })
    }

    /// `a [NOT] LIKE b [ESCAPE c]`, ILIKE, SIMILAR TO and GLOB.
    pub fn like(
        &mut self,
        operand: &tree::Expr,
        negated: bool,
        operator: LikeOperator,
        pattern: &tree::Expr,
        escape: Option<&tree::Expr>,
        span: Span,
    ) -> Result<Expr> {
        let escape = match escape {
            None => None,
            Some(escape) => match self.escape_character(escape)? {
                None => return Ok(Expr::Literal(ScalarValue::Boolean(None), None)),
                known => known,
            },
        };
        let mut operands = [self.expression(operand)?, self.expression(pattern)?];
        if operator != LikeOperator::SimilarTo {
            self.collate_operands(&mut operands, span)?;
        }
        let [value, pattern] = operands;
        let written = match &pattern {
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text.clone()),
            _ => None,
        };
        let like = |value: Expr, pattern: Expr, case_insensitive: bool| {
            let (expr, pattern) = (Box::new(value), Box::new(pattern));
            Like { negated, expr, pattern, escape_char: None, case_insensitive }
        };
        match operator {
            LikeOperator::Like | LikeOperator::ILike => {
                let pattern = match (escape, written) {
                    (None, _) => pattern,
                    (Some(escape), Some(written)) => text(&patterns::with_backslashes(&written, escape)),
                    (Some(escape), None) => self.with_backslashes(pattern, escape, span)?,
                };
                Ok(Expr::Like(like(value, pattern, operator == LikeOperator::ILike)))
            }
            LikeOperator::SimilarTo => {
                let escape = escape.unwrap_or(Some('\\'));
                let pattern = match written {
                    Some(written) => text(&patterns::similar(&written, escape)),
                    None => {
                        let escape = text(&escape.map(String::from).unwrap_or_default());
                        self.scalar_call("freestone_similar", vec![pattern, escape], span)?
                    }
                };
                Ok(Expr::SimilarTo(like(value, pattern, false)))
            }
            LikeOperator::Glob => {
                let matches = match written {
                    Some(written) => {
                        let (schema, pattern) = (self.schema(), text(&patterns::glob(&written)));
                        self.world.functions.binary(BinaryOperator::Match, value, pattern, &schema).at(span)?
                    }
                    None => {
                        let error = invalid(span, "GLOB takes a pattern in quotes, without COLLATE");
                        return Err(error.with_hint("write LIKE, whose patterns may be columns"));
                    }
                };
                Ok(if negated { Expr::Not(Box::new(matches)) } else { matches })
            }
        }
    }

    /// A pattern that is not known yet, with backslashes in place of its escape character.
    fn with_backslashes(&mut self, pattern: Expr, escape: Option<char>, span: Span) -> Result<Expr> {
        if escape == Some('\\') {
            return Ok(pattern);
        }
        let doubled = self.scalar_call("replace", vec![pattern, text(r"\"), text(r"\\")], span)?;
        match escape {
            None => Ok(doubled),
            Some(escape) => {
                // In a character class, every character but ^ stands for itself.
                let escape = if escape == '^' { r"\^".to_owned() } else { escape.to_string() };
                let found = text(&format!("[{escape}](.)"));
                self.scalar_call("regexp_replace", vec![doubled, found, text(r"\\\1"), text("gs")], span)
            }
        }
    }

    /// The escape character of a pattern, `Some(None)` for an empty text, which is none; `None` for NULL.
    fn escape_character(&mut self, written: &tree::Expr) -> Result<Option<Option<char>>> {
        if let ExprKind::Literal(tree::Literal::Text(text)) = &written.kind {
            return one_character(text, written.span).map(Some);
        }
        let (value, _) = self.within(Scope::empty(), |binder| binder.expression(written))?;
        let value = self.world.functions.constant(value).at(written.span)?;
        match value.try_as_str().flatten() {
            Some(text) => one_character(text, written.span).map(Some),
            None if value.is_null() => Ok(None),
            None => Err(invalid(written.span, "an escape is a text of one character")),
        }
    }

    /// `a [NOT] BETWEEN [SYMMETRIC] b AND c`.
    pub fn between(
        &mut self,
        operand: &tree::Expr,
        negated: bool,
        symmetric: bool,
        [low, high]: [&tree::Expr; 2],
    ) -> Result<Expr> {
        let mut values = [self.expression(operand)?, self.expression(low)?, self.expression(high)?];
        self.collate_operands(&mut values, operand.span)?;
        self.with_numbers_for_booleans(&mut values);
        let [value, low, high] = values;
        let within = |low: &Expr, high: &Expr, negated| {
            let (low, high) = (Box::new(low.clone()), Box::new(high.clone()));
            Expr::Between(Between::new(Box::new(value.clone()), negated, low, high))
        };
        if !symmetric {
            return Ok(within(&low, &high, negated));
        }
        let either = within(&low, &high, false).or(within(&high, &low, false));
        Ok(if negated { Expr::Not(Box::new(either)) } else { either })
    }

    /// `a [NOT] IN …`.
    pub fn in_set(&mut self, operand: &tree::Expr, negated: bool, set: &InSet, span: Span) -> Result<Expr> {
        match set {
            InSet::Query(query) => self.in_query(operand, negated, query, span),
            InSet::List(list) => {
                let found = self.quantified(operand, BinaryOperator::Eq, false, &Quantity::List(list.clone()), span)?;
                Ok(if negated { Expr::Not(Box::new(found)) } else { found })
            }
            InSet::Values(values) => {
                let mut all = vec![self.expression(operand)?];
                all.extend(self.expressions(values)?);
                self.collate_operands(&mut all, span)?;
                self.with_numbers_for_booleans(&mut all);
                let mut all = all.into_iter();
                let value = Box::new(all.next().unwrap_or_default());
                Ok(Expr::InList(InList::new(value, all.collect(), negated)))
            }
        }
    }

    /// `CASE … END`.
    pub fn case(&mut self, case: &tree::Case) -> Result<Expr> {
        let written: Vec<&tree::Expr> = case.operand.iter().chain(case.branches.iter().map(|(when, _)| when)).collect();
        let mut compared = written.iter().map(|one| self.expression(one)).collect::<Result<Vec<_>>>()?;
        if case.operand.is_some() {
            let span = case.operand.as_ref().map_or_else(Span::default, |operand| operand.span);
            self.collate_operands(&mut compared, span)?;
        }
        let mut compared = compared.into_iter();
        let operand = case.operand.as_ref().and_then(|_| compared.next());
        let mut branches = vec![];
        for (condition, (_, result)) in compared.zip(&case.branches) {
            branches.push((Box::new(condition), Box::new(self.expression(result)?)));
        }
        let otherwise = case.otherwise.as_ref().map(|result| self.expression(result)).transpose()?;
        if operand.is_none()
            && let Some(other) = telling_result(&branches, otherwise.as_ref())
        {
            branches.insert(0, (Box::new(Expr::Literal(ScalarValue::Boolean(Some(false)), None)), Box::new(other)));
        }
        let results = branches.iter().map(|(_, result)| result.as_ref()).chain(&otherwise);
        let results: Vec<Expr> = if self.has_collations { results.cloned().collect() } else { vec![] };
        let span = written.first().map_or_else(Span::default, |first| first.span);
        let value = Expr::Case(Case::new(operand.map(Box::new), branches, otherwise.map(Box::new)));
        self.of_collated(value, &results, span)
    }

    /// Values that are compared: booleans among numbers are 0 and 1, and texts of columns among booleans are read as such, as in
    /// DuckDB.
    pub fn with_numbers_for_booleans(&self, values: &mut [Expr]) {
        let schema = self.schema();
        let types: Vec<Option<DataType>> = values.iter().map(|value| value.get_type(&schema).ok()).collect();
        if !types.contains(&Some(DataType::Boolean)) {
            return;
        }
        let has_numbers = types.iter().flatten().any(DataType::is_numeric);
        for (value, kind) in values.iter_mut().zip(types) {
            let to = match kind {
                Some(DataType::Boolean) if has_numbers => DataType::Int64,
                Some(text) if is_text(&text) && !has_numbers && !is_quoted(value) => DataType::Boolean,
                _ => continue,
            };
            *value = Expr::Cast(Cast::new(Box::new(std::mem::take(value)), to));
        }
    }
}

/// The character of a text; `None` for an empty text, which is none.
fn one_character(text: &str, span: Span) -> Result<Option<char>> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (escape, None) => Ok(escape),
        _ => Err(invalid(span, "an escape is one character")),
    }
}

/// Another result than the first one, if that is a text in quotes: DataFusion takes the type of the first.
fn telling_result(branches: &[(Box<Expr>, Box<Expr>)], otherwise: Option<&Expr>) -> Option<Expr> {
    let results = || branches.iter().map(|(_, result)| result.as_ref()).chain(otherwise);
    let is_null = |value: &Expr| matches!(value, Expr::Literal(ScalarValue::Null, _));
    let is_text = |value: &Expr| matches!(value, Expr::Literal(ScalarValue::Utf8(_), _));
    if !results().find(|result| !is_null(result)).is_some_and(is_text) {
        return None;
    }
    let other = results().find(|result| !is_null(result) && !is_text(result))?;
    let is_small = matches!(other, Expr::Column(_) | Expr::Literal(..) | Expr::Cast(_) | Expr::BinaryExpr(_));
    is_small.then(|| other.clone())
}
