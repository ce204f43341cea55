//! Expressions: which rule binds which form.

use datafusion_common::ScalarValue;
use datafusion_expr::expr::Placeholder;
use datafusion_expr::{Expr, ExprSchemable};
use freestone_sql::Span;
use freestone_sql::tree::{self, ExprKind, SessionValue, UnaryOperator};

use crate::binder::{Binder, Parameter};
use crate::error::{At, Result, invalid};
use crate::literals;
use crate::types::{SqlType, is_text};

impl Binder<'_> {
    /// The value of an expression.
    pub fn expression(&mut self, written: &tree::Expr) -> Result<Expr> {
        self.deeper(written.span, |binder| binder.of_kind(written))
    }

    /// The values of expressions, of which `*COLUMNS(…)` has several.
    pub fn expressions(&mut self, written: &[tree::Expr]) -> Result<Vec<Expr>> {
        let mut values = vec![];
        for one in written {
            match &one.kind {
                ExprKind::Unpacked(columns) => {
                    values.extend(self.selected(columns)?.into_iter().map(|item| item.value));
                }
                _ => values.push(self.expression(one)?),
            }
        }
        Ok(values)
    }

    fn of_kind(&mut self, written: &tree::Expr) -> Result<Expr> {
        let span = written.span;
        match &written.kind {
            ExprKind::Literal(tree::Literal::Bits(digits)) => self.bits(digits, span),
            ExprKind::Literal(literal) => literals::value(literal, false, span),
            ExprKind::Parameter(parameter) => self.parameter(parameter, span),
            ExprKind::Column(name) => self.column(name),
            ExprKind::Position(position) => self.position(*position, span),
            ExprKind::Star(_) => Err(invalid(span, "a star stands for columns of SELECT, not for a value")),
            ExprKind::Unpacked(_) => {
                Err(invalid(span, "*COLUMNS stands for several values").with_hint("write it among arguments or items"))
            }
            ExprKind::Columns(_) => self.column_of_copies().ok_or_else(|| {
                invalid(span, "COLUMNS stands for several values, which is not possible here")
                    .with_hint("write it in SELECT, WHERE, GROUP BY or ORDER BY")
            }),
            ExprKind::Default => Err(invalid(span, "DEFAULT stands for a value that is assigned")),
            ExprKind::SessionValue(value) => self.session_value(*value, span),
            ExprKind::Unary { operator, operand } => self.unary(*operator, operand, span),
            ExprKind::Chain { first, rest } => self.chain(first, rest),
            ExprKind::Is { operand, negated, test } => self.is_test(operand, *negated, *test),
            ExprKind::Like { operand, negated, operator, pattern, escape } => {
                self.like(operand, *negated, *operator, pattern, escape.as_deref(), span)
            }
            ExprKind::Between { operand, negated, symmetric, low, high } => {
                self.between(operand, *negated, *symmetric, [low, high])
            }
            ExprKind::In { operand, negated, set } => self.in_set(operand, *negated, set, span),
            ExprKind::Quantified { operand, operator, all, values } => {
                self.quantified(operand, *operator, *all, values, span)
            }
            ExprKind::Exists(query) => self.exists(query, span),
            ExprKind::Subquery(query) => self.scalar_subquery(query, span),
            ExprKind::ListOfQuery(query) => self.list_of_query(query, span),
            ExprKind::Cast { operand, data_type, form } => self.cast(operand, data_type, *form, span),
            ExprKind::TypedText { data_type, text } => self.typed_text(data_type, text, span),
            ExprKind::Interval { value, unit } => self.interval(value, *unit, false, span),
            ExprKind::AtTimeZone { operand, zone } => {
                let arguments = vec![self.expression(zone)?, self.expression(operand)?];
                self.scalar_call("timezone", arguments, span)
            }
            ExprKind::Collate { operand, collation } => self.collate(operand, collation, span),
            ExprKind::Case(case) => self.case(case),
            ExprKind::Call(call) => self.call(call, span),
            ExprKind::Special(call) => self.special(call, span),
            ExprKind::Row(values) => self.row(values, span),
            ExprKind::List(items) => self.list(items, span),
            ExprKind::Struct(fields) => self.structure(fields, span),
            ExprKind::Map(entries) => self.map(entries, span),
            ExprKind::Lambda { .. } => Err(invalid(span, "a lambda stands for an argument of a function of lists")),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension, span),
            ExprKind::Field { operand, name } => {
                let value = self.expression(operand)?;
                self.field(value, name)
            }
            ExprKind::Subscript { operand, index } => self.subscript(operand, index, span),
            ExprKind::Slice(slice) => self.slice(slice, span),
        }
    }

    fn parameter(&mut self, parameter: &tree::Parameter, span: Span) -> Result<Expr> {
        let number = self.parameter_number(parameter, span)?;
        let field = match self.options.parameters.get(number - 1) {
            Some(Parameter::Value(value)) => return Ok(Expr::Literal(value.clone(), None)),
            Some(Parameter::Typed(field)) => Some(field.clone()),
            Some(Parameter::Unknown) | None => None,
        };
        Ok(Expr::Placeholder(Placeholder { id: format!("${number}"), field }))
    }

    /// `B'101'`.
    fn bits(&mut self, digits: &str, span: Span) -> Result<Expr> {
        let name = match digits.len() {
            0 => "VARBIT".to_owned(),
            count => format!("BIT({count})"),
        };
        self.cast_to(text(digits), SqlType::Normal(name), false, span)
    }

    /// A column of FROM by its position.
    fn position(&mut self, position: u32, span: Span) -> Result<Expr> {
        let star = &self.scope().star;
        let entry = (position as usize).checked_sub(1).and_then(|at| star.get(at));
        entry.map(|entry| entry.value.clone()).ok_or_else(|| {
            let message = format!("#{position} is no column: FROM has {} columns", star.len());
            invalid(span, message).with_hint("positions are numbered from 1")
        })
    }

    fn session_value(&mut self, value: SessionValue, span: Span) -> Result<Expr> {
        let function = match value {
            SessionValue::CurrentCatalog => "current_database",
            SessionValue::CurrentDate => "current_date",
            SessionValue::CurrentSchema => "current_schema",
            SessionValue::CurrentRole | SessionValue::CurrentUser | SessionValue::SessionUser | SessionValue::User => {
                "current_user"
            }
            SessionValue::CurrentTime => "current_time",
            SessionValue::LocalTime => "localtime",
            SessionValue::CurrentTimestamp => "current_timestamp",
            SessionValue::LocalTimestamp => "localtimestamp",
        };
        self.scalar_call(function, vec![], span)
    }

    fn unary(&mut self, operator: UnaryOperator, operand: &tree::Expr, span: Span) -> Result<Expr> {
        if operator == UnaryOperator::Minus {
            match &operand.kind {
                ExprKind::Literal(literal @ tree::Literal::Number(_)) => return literals::value(literal, true, span),
                ExprKind::Interval { value, unit } => return self.interval(value, *unit, true, span),
                _ => {}
            }
        }
        let value = match (operator, &operand.kind) {
            // NOT (x = ANY (list)) tells NULL from false.
            (UnaryOperator::Not, ExprKind::Quantified { operand, operator, all: false, values }) => {
                return self.not_any(operand, *operator, values, span);
            }
            _ => self.expression(operand)?,
        };
        let schema = self.schema();
        match operator {
            UnaryOperator::Not => Ok(Expr::Not(Box::new(value))),
            UnaryOperator::Plus => Ok(value),
            UnaryOperator::BitNot => {
                let opposite = self.scalar_call("freestone_bits_not", vec![value], span)?;
                match is_text(&opposite.get_type(&schema).at(span)?) {
                    true => self.cast_to(opposite, SqlType::Normal("VARBIT".to_owned()), false, span),
                    false => Ok(opposite),
                }
            }
            UnaryOperator::Minus => {
                let kind = value.get_type(&schema).at(span)?;
                let has_sign = kind.is_numeric() || kind.is_null() || kind.is_temporal();
                if !has_sign && !matches!(kind, arrow_schema::DataType::Interval(_)) && !is_placeholder(&value) {
                    return Err(invalid(operand.span, format!("there is no - of a value of type {kind}")));
                }
                Ok(Expr::Negative(Box::new(value)))
            }
        }
    }
}

fn is_placeholder(value: &Expr) -> bool {
    matches!(value, Expr::Placeholder(_))
}

/// A text as a value.
pub(crate) fn text(text: &str) -> Expr {
    Expr::Literal(ScalarValue::Utf8(Some(text.to_owned())), None)
}

/// An integer as a value.
pub(crate) fn integer(number: i64) -> Expr {
    Expr::Literal(ScalarValue::Int64(Some(number)), None)
}
