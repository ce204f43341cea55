//! Subqueries in expressions.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion_common::{ScalarValue, Spans};
use datafusion_expr::expr::{AggregateFunction, Exists, InList, InSubquery, SetComparison, SetQuantifier};
use datafusion_expr::{Aggregate, Cast, Expr, ExprSchemable, Limit, LogicalPlan, Operator, SortExpr, Subquery};
use freestone_sql::Span;
use freestone_sql::tree::{self, BinaryOperator, ExprKind, Literal, Quantity, Query};

use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::limits::with_keys;
use crate::plans::{self, Rows};
use crate::types::{SqlType, list_of};

/// The name of an item that is tested. No name of a query can be it.
const ITEM: &str = "\u{1}item";

impl Binder<'_> {
    /// `(SELECT …)` as a value.
    pub fn scalar_subquery(&mut self, query: &Query, span: Span) -> Result<Expr> {
        let rows = self.query(query)?;
        one_column(&rows, span)?;
        Ok(Expr::ScalarSubquery(subquery(rows.plan)))
    }

    /// `EXISTS (…)`.
    pub fn exists(&mut self, query: &Query, _: Span) -> Result<Expr> {
        let rows = self.query(query)?;
        Ok(Expr::Exists(Exists { subquery: subquery(rows.plan), negated: false }))
    }

    /// `a [NOT] IN (SELECT …)`.
    pub fn in_query(&mut self, operand: &tree::Expr, negated: bool, query: &Query, span: Span) -> Result<Expr> {
        let ExprKind::Row(values) = &operand.kind else {
            let (value, rows) = (self.expression(operand)?, self.query(query)?);
            one_column(&rows, span)?;
            let mut values = [value];
            let plan = self.collate_columns(&mut values, rows.plan, span)?;
            let [value] = values;
            return Ok(Expr::InSubquery(InSubquery { expr: Box::new(value), subquery: subquery(plan), negated }));
        };
        let mut values = self.expressions(values)?;
        let rows = self.query(query)?;
        let (found, columns) = (rows.plan.schema().fields().len(), values.len());
        if found != columns {
            return Err(invalid(span, format!("the subquery has {found} columns, and the row before IN {columns}")));
        }
        let plan = self.collate_columns(&mut values, rows.plan, span)?;
        let value = self.scalar_call("struct", values, span)?;
        let row = self.scalar_call("struct", plans::columns(plan.schema()), span)?.alias("row");
        let plan = plans::project(plan, vec![row]).at(span)?;
        Ok(Expr::InSubquery(InSubquery { expr: Box::new(value), subquery: subquery(plan), negated }))
    }

    /// `a = ANY (…)`, `a < ALL (…)`.
    pub fn quantified(
        &mut self,
        operand: &tree::Expr,
        operator: BinaryOperator,
        all: bool,
        values: &Quantity,
        span: Span,
    ) -> Result<Expr> {
        match values {
            Quantity::Query(query) => {
                if let ExprKind::Row(values) = &operand.kind {
                    return self.rows_quantified(values, operator, all, query, span);
                }
                let (value, rows) = (self.expression(operand)?, self.query(query)?);
                one_column(&rows, span)?;
                let quantifier = if all { SetQuantifier::All } else { SetQuantifier::Any };
                let op = comparison(operator, span)?;
                let mut values = [value];
                let plan = self.collate_columns(&mut values, rows.plan, span)?;
                let [value] = values;
                let (expr, subquery) = (Box::new(value), subquery(plan));
                Ok(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }))
            }
            Quantity::List(list) => self.with_list(operand, operator, all, list, span),
        }
    }

    fn with_list(
        &mut self,
        operand: &tree::Expr,
        operator: BinaryOperator,
        all: bool,
        list: &tree::Expr,
        span: Span,
    ) -> Result<Expr> {
        if comparison(operator, span).is_err() {
            return self.tests_of_items(operand, operator, all, list, span);
        }
        let value = self.expression(operand)?;
        if let (ExprKind::List(items), BinaryOperator::Eq, false) = (&list.kind, operator, all)
            && !items.is_empty()
        {
            let mut all = vec![value];
            all.extend(self.expressions(items)?);
            self.collate_operands(&mut all, span)?;
            let items = all.split_off(1);
            return Ok(Expr::InList(InList::new(Box::new(all.remove(0)), items, false)));
        }
        if self.collation_of(&value).is_some() {
            let error = invalid(operand.span, "COLLATE is not available before ANY and ALL of a list");
            return Err(error.with_hint("compare with the values of a subquery: = ANY (SELECT unnest(list))"));
        }
        let is_parameter = matches!(list.kind, ExprKind::Parameter(_));
        let list = match list.kind {
            ExprKind::Literal(Literal::Text(_)) => self.text_as_list(list, &value)?,
            _ => self.expression(list)?,
        };
        self.without_collated_parts(&list, span)?;
        if is_parameter && operator == BinaryOperator::Eq && !all {
            // Its items are tested on encoded data.
            let list = self.with_type_of(list, &value);
            return self.scalar_call("array_has", vec![list, value], span);
        }
        let functions = self.world.functions;
        if all {
            return functions.compare_all(value, operator, list).at(span);
        }
        // So that it is NULL, not false, if the list has a NULL and no such item.
        let opposite = opposite(operator, span)?;
        Ok(Expr::Not(Box::new(functions.compare_all(value, opposite, list).at(span)?)))
    }

    /// `a ~ ANY (list)`, `a !~ ALL (list)`: whether any or all of the tests of the list's items are true.
    fn tests_of_items(
        &mut self,
        operand: &tree::Expr,
        operator: BinaryOperator,
        all: bool,
        list: &tree::Expr,
        span: Span,
    ) -> Result<Expr> {
        let name = tree::Name { text: ITEM.to_owned(), quoted: true, span };
        let item = ExprKind::Column(tree::ObjectName { parts: vec![name.clone()], span });
        let link = tree::Link { operator, span, operand: tree::Expr { kind: item, span } };
        let test = ExprKind::Chain { first: Box::new(operand.clone()), rest: vec![link] };
        let value = tree::Expr { kind: test, span };
        let list = list.clone();
        let tests = tree::Comprehension { value, names: vec![name], list, condition: None };
        let tests = self.expression(&tree::Expr { kind: ExprKind::Comprehension(Box::new(tests)), span })?;
        // All are true if none is false.
        let decisive = Expr::Literal(ScalarValue::Boolean(Some(!all)), None);
        let none = self.world.functions.compare_all(decisive, BinaryOperator::NotEq, tests).at(span)?;
        Ok(if all { none } else { Expr::Not(Box::new(none)) })
    }

    /// A parameter without a type as a list of values of the operand's type.
    fn with_type_of(&self, list: Expr, operand: &Expr) -> Expr {
        let schema = self.schema();
        let is_open = list.get_type(&schema).is_ok_and(|list| list == list_of(DataType::Null));
        match operand.get_type(&schema) {
            Ok(item) if is_open && item != DataType::Null => Expr::Cast(Cast::new(Box::new(list), list_of(item))),
            _ => list,
        }
    }

    /// A text behind ANY and ALL, such as `'{a,b}'`: a list of values of the operand's type.
    fn text_as_list(&mut self, text: &tree::Expr, operand: &Expr) -> Result<Expr> {
        let item = match operand.get_type(&self.schema()) {
            Ok(DataType::Null) | Err(_) => DataType::Utf8View,
            Ok(item) => item,
        };
        let list = self.expression(text)?;
        self.cast_to(list, SqlType::Plain(list_of(item)), false, text.span)
    }

    /// `NOT (a = ANY (…))`.
    pub fn not_any(
        &mut self,
        operand: &tree::Expr,
        operator: BinaryOperator,
        values: &Quantity,
        span: Span,
    ) -> Result<Expr> {
        match values {
            Quantity::Query(_) => {
                let any = self.quantified(operand, operator, false, values, span)?;
                Ok(Expr::Not(Box::new(any)))
            }
            Quantity::List(_) => self.quantified(operand, opposite(operator, span)?, true, values, span),
        }
    }

    /// `ARRAY(SELECT …)`: the values of the only column, in the order of the query.
    pub fn list_of_query(&mut self, query: &Query, span: Span) -> Result<Expr> {
        let rows = self.query(query)?;
        one_column(&rows, span)?;
        let Some(function) = self.world.functions.aggregate("array_agg") else {
            return Err(self.no_function("array_agg", span));
        };
        let (plan, keys) = match query.order_by {
            None => (rows.plan, vec![]),
            Some(_) => in_order(rows).ok_or_else(|| invalid(span, "ARRAY(…) does not take a query of this order"))?,
        };
        let value = Expr::Column(plans::column(plan.schema(), 0));
        let call = AggregateFunction::new_udf(function, vec![value], false, None, keys, None);
        let aggregate = Aggregate::try_new(Arc::new(plan), vec![], vec![Expr::AggregateFunction(call)]).at(span)?;
        let plan = LogicalPlan::Aggregate(aggregate);
        let list = Expr::Column(plans::column(plan.schema(), 0));
        let empty = self.list_of_values(vec![], span)?;
        let value = self.scalar_call("coalesce", vec![list, empty], span)?.alias("list");
        let plan = plans::project(plan, vec![value]).at(span)?;
        Ok(Expr::ScalarSubquery(subquery(plan)))
    }
}

/// A plan of ordered rows and their keys, which may stand behind their own column.
fn in_order(rows: Rows) -> Option<(LogicalPlan, Vec<SortExpr>)> {
    let Rows { plan, names } = with_keys(rows);
    match plan {
        LogicalPlan::Sort(sort) => {
            let keys = sort.expr.clone();
            Some((LogicalPlan::Sort(sort), keys))
        }
        LogicalPlan::Limit(limit) => {
            let (input, keys) = in_order(Rows { plan: Arc::unwrap_or_clone(limit.input), names })?;
            Some((LogicalPlan::Limit(Limit { input: Arc::new(input), ..limit }), keys))
        }
        _ => None,
    }
}

/// A plan as a part of an expression, or as a table that reads others.
pub(crate) fn subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

fn one_column(rows: &Rows, span: Span) -> Result<()> {
    match rows.plan.schema().fields().len() {
        1 => Ok(()),
        several => Err(invalid(span, format!("a subquery here has one column, not {several}"))),
    }
}

fn comparison(operator: BinaryOperator, span: Span) -> Result<Operator> {
    Ok(match operator {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => {
            let message = "ANY and ALL of a query stand behind a comparison";
            return Err(invalid(span, message).with_hint("write EXISTS with the test in WHERE, or ANY of a list"));
        }
    })
}

/// The comparison that is true where the other is false.
fn opposite(operator: BinaryOperator, span: Span) -> Result<BinaryOperator> {
    Ok(match operator {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return Err(invalid(span, "ANY and ALL stand behind a comparison")),
    })
}
