//! Comparisons with the rows of a subquery: IN, ANY and ALL, in three-valued logic.
//!
//! `x op ANY S` is true if it is true for a row, otherwise unknown if it is unknown for a row, otherwise false. `x op
//! ALL S` is `NOT (x inverse op ANY S)`. For an uncorrelated subquery, a single value says whether it has rows, and
//! whether one is NULL.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr, cast, lit, not, when,
};

use super::attach::{Over, no_column};
use super::expressions::{count_rows, equal, filter, plain, project, three_valued};
use super::lifted::Lifted;
use super::scopes::is_open;

/// `value operator ANY (subquery)`. The value is an expression over the lifted plan.
pub(super) struct Comparison {
    pub value: Expr,
    pub operator: Operator,
    pub subquery: Lifted,
}

/// The results of `emptiness`: no rows; rows without NULL; rows with NULL.
const EMPTY: i64 = 0;
const WITHOUT_NULL: i64 = 1;
const WITH_NULL: i64 = 2;

impl Comparison {
    pub fn of_in(over: &mut Over<'_>, node: InSubquery) -> Result<(Comparison, bool)> {
        let value = over.expression(*node.expr)?;
        let subquery = over.sub(node.subquery, true)?;
        Ok((Comparison { value, operator: Operator::Eq, subquery }, node.negated))
    }

    pub fn of_quantified(over: &mut Over<'_>, node: SetComparison) -> Result<(Comparison, bool)> {
        let value = over.expression(*node.expr)?;
        let negated = node.quantifier == SetQuantifier::All;
        let operator = Comparison::operator(node.op, negated)?;
        let subquery = over.sub(node.subquery, true)?;
        Ok((Comparison { value, operator, subquery }, negated))
    }

    /// The operator for ANY. `op ALL` is the negation of ANY with the inverse operator.
    pub fn operator(operator: Operator, is_all: bool) -> Result<Operator> {
        let found = if is_all { operator.negate() } else { Some(operator) };
        found.ok_or_else(|| DataFusionError::NotImplemented(format!("{operator} ALL (subquery) is not available")))
    }

    fn with(&self, element: &Expr) -> Expr {
        compared(&self.value, self.operator, element)
    }

    fn element(&self) -> Result<Expr> {
        let element = self.subquery.output.first().cloned();
        element.ok_or_else(no_column)
    }

    /// Whether the subquery has exactly one row, so that ANY is a single comparison; or is a SELECT without FROM.
    fn is_one(&self) -> bool {
        self.subquery.empty.is_some() || self.subquery.is_one_row()
    }

    /// The condition under which a row makes the comparison unknown; `None` if this cannot happen.
    fn unknown(&self, over: &Over<'_>, element: &Expr) -> Result<Option<Expr>> {
        if row(&self.value).is_some() {
            return Ok(Some(self.with(element).is_null()));
        }
        let schema = over.lifted.plan.schema().join(self.subquery.plan.schema())?;
        let mut sides = vec![];
        for side in [&self.value, element] {
            if side.nullable(&schema)? {
                sides.push(side.clone().is_null());
            }
        }
        Ok(sides.into_iter().reduce(Expr::or))
    }

    /// The same subquery with other column names, for a second join.
    fn again(&self, over: &Over<'_>) -> Result<Comparison> {
        let subquery = self.subquery.clone().renamed(over.unnester, over.lifted.plan.schema())?;
        Ok(Comparison { value: self.value.clone(), operator: self.operator, subquery })
    }
}

impl Over<'_> {
    /// `value operator ANY (subquery)`: true, false or unknown.
    pub fn any(&mut self, comparison: Comparison) -> Result<Expr> {
        if comparison.is_one() {
            return self.any_of_one(comparison);
        }
        let element = comparison.element()?;
        if comparison.subquery.is_closed() && row(&comparison.value).is_none() {
            return self.any_of_closed(&comparison, &element);
        }
        let unknown = comparison.unknown(self, &element)?;
        let again = comparison.again(self)?;
        let mut on = comparison.subquery.conditions.clone();
        on.push(comparison.with(&element));
        let is_true = self.mark(comparison.subquery.plan, on)?;
        if unknown.is_none() {
            return Ok(is_true);
        }
        let element = again.element()?;
        let mut on = again.subquery.conditions.clone();
        on.extend(again.unknown(self, &element)?);
        let is_unknown = self.mark(again.subquery.plan, on)?;
        three_valued(is_true, Some(is_unknown))
    }

    /// ANY over a subquery with one row.
    fn any_of_one(&mut self, comparison: Comparison) -> Result<Expr> {
        let Comparison { value, operator, mut subquery } = comparison;
        if subquery.empty.is_some() {
            let element = self.joined_value(subquery)?;
            return Ok(compared(&value, operator, &element));
        }
        subquery.output.truncate(1);
        let mut all = std::mem::take(&mut subquery.output);
        all.append(&mut subquery.conditions);
        self.place(&mut all)?;
        let mut all = all.into_iter();
        let element = all.next().ok_or_else(no_column)?;
        let compared = compared(&value, operator, &element);
        match all.reduce(Expr::and) {
            Some(condition) => when(condition, compared).otherwise(lit(false)),
            None => Ok(compared),
        }
    }

    /// ANY over an uncorrelated subquery.
    fn any_of_closed(&mut self, comparison: &Comparison, element: &Expr) -> Result<Expr> {
        let unknown = comparison.unknown(self, element)?;
        let is_true = self.any_true_of_closed(comparison, element)?;
        if unknown.is_none() {
            return Ok(is_true);
        }
        let emptiness = self.emptiness(&comparison.subquery, element)?;
        let with_null = equal(emptiness.clone(), lit(WITH_NULL));
        let some = equal(emptiness, lit(WITHOUT_NULL)).and(comparison.value.clone().is_null());
        three_valued(is_true, Some(with_null.or(some)))
    }

    fn any_true_of_closed(&mut self, comparison: &Comparison, element: &Expr) -> Result<Expr> {
        let plan = &comparison.subquery.plan;
        let data_type = element.get_type(plan.schema())?;
        let mut extreme = |greatest: bool| -> Result<Expr> {
            let extreme = if greatest { max(element.clone()) } else { min(element.clone()) };
            Ok(comparison.with(&self.aggregated(plan.clone(), extreme)?).is_true())
        };
        if !comparison.value.any_column_refs() && !is_open(&comparison.value) {
            let matches = filter(plan.clone(), vec![comparison.with(element)])?;
            return Ok(self.aggregated(matches, count_rows())?.gt(lit(0i64)));
        }
        match comparison.operator {
            Operator::Lt | Operator::LtEq if is_ordered(&data_type) => extreme(true),
            Operator::Gt | Operator::GtEq if is_ordered(&data_type) => extreme(false),
            Operator::NotEq if is_ordered(&data_type) => Ok(extreme(false)?.or(extreme(true)?)),
            _ => self.mark(plan.clone(), vec![comparison.with(element)]),
        }
    }

    /// Keeps the rows for which a comparison is true, or with `negated`, those for which it is false.
    pub fn keep_compared(&mut self, comparison: Comparison, negated: bool) -> Result<Option<Expr>> {
        let is_closed = comparison.subquery.is_closed();
        let by_value = comparison.operator != Operator::Eq || !comparison.value.any_column_refs();
        let by_value = by_value && row(&comparison.value).is_none();
        if comparison.is_one() || is_closed && by_value {
            let value = self.any(comparison)?;
            return Ok(Some(if negated { not(value) } else { value }));
        }
        let element = comparison.element()?;
        if negated && comparison.unknown(self, &element)?.is_some() {
            if is_closed && row(&comparison.value).is_none() {
                let emptiness = self.emptiness(&comparison.subquery, &element)?;
                let some = equal(emptiness.clone(), lit(WITHOUT_NULL)).and(comparison.value.clone().is_not_null());
                self.lifted.keep(vec![equal(emptiness, lit(EMPTY)).or(some)])?;
            } else {
                let again = comparison.again(self)?;
                let element = again.element()?;
                let mut on = again.subquery.conditions.clone();
                on.extend(again.unknown(self, &element)?);
                self.semi(again.subquery.plan, on, true)?;
            }
        }
        let mut on = comparison.subquery.conditions.clone();
        on.push(comparison.with(&element));
        self.semi(comparison.subquery.plan, on, negated)?;
        Ok(None)
    }

    /// One value that says whether an uncorrelated subquery has rows, and whether one is NULL.
    fn emptiness(&mut self, subquery: &Lifted, element: &Expr) -> Result<Expr> {
        let counts = vec![count_rows().alias("__rows"), count(element.clone()).alias("__values")];
        let counted = Aggregate::try_new(Arc::new(subquery.plan.clone()), vec![], counts)?;
        let (rows, values) = (plain("__rows"), plain("__values"));
        let state = when(equal(rows.clone(), lit(0i64)), lit(EMPTY))
            .when(equal(rows, values), lit(WITHOUT_NULL))
            .otherwise(lit(WITH_NULL))?;
        self.once(project(LogicalPlan::Aggregate(counted), vec![state.alias("__state")])?)
    }
}

/// The comparison of two values. Rows of values are compared value by value.
fn compared(value: &Expr, operator: Operator, element: &Expr) -> Expr {
    let equal_at = |(value, name): (Expr, String)| binary_expr(value, operator, get_field(element.clone(), name));
    let whole = || binary_expr(value.clone(), operator, element.clone());
    row(value).and_then(|row| row.into_iter().map(equal_at).reduce(Expr::and)).unwrap_or_else(whole)
}

/// The parts of a row `(a, b)`, with the names of its fields; `None` for a single value.
fn row(value: &Expr) -> Option<Vec<(Expr, String)>> {
    match value {
        Expr::Alias(alias) => row(&alias.expr),
        Expr::Cast(node) => {
            let DataType::Struct(fields) = node.field.data_type() else { return None };
            let values = row(&node.expr)?.into_iter().zip(fields);
            Some(values.map(|((e, _), field)| (cast(e, field.data_type().clone()), field.name().clone())).collect())
        }
        Expr::ScalarFunction(call) if call.func.name() == "struct" => {
            Some(call.args.iter().enumerate().map(|(at, e)| (e.clone(), format!("c{at}"))).collect())
        }
        _ => None,
    }
}

/// Whether `x < ANY (…)` is equal to `x < max(…)` for the type, and likewise for the other comparisons.
fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_decimal()
        || data_type.is_temporal() && !matches!(data_type, DataType::Interval(_))
        || matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}
