//! Samples: a percentage selects each row with this probability; a number selects that many rows, all with the same
//! probability. With a seed, the sample is the same for the same rows in the same order.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, Limit, LogicalPlan, LogicalPlanBuilder, Operator};
use freestone_sql::Span;
use freestone_sql::tree::{self, BinaryOperator, ExprKind, Literal, Sample, SortOrder};

use crate::binder::Binder;
use crate::chains::plain;
use crate::error::{At, Result, invalid};
use crate::expressions::{integer, text};
use crate::plans;
use crate::queries::sorted;
use crate::scopes::Scope;
use crate::tables::From;

/// The beginning of the text that is hashed for each row of a sample with a seed.
const SEED: &str = "freestone$seed:";

impl Binder<'_> {
    /// The rows of a sample.
    pub fn sampled(&mut self, from: From, sample: &Sample, span: Span) -> Result<From> {
        let amount = self.constant_number(&sample.count)?;
        let seed = sample.seed.as_ref().map(|seed| self.constant_number(seed)).transpose()?;
        let From { plan, relations, star } = from;
        let columns = plans::columns(plan.schema());
        let (plan, chance) = match &seed {
            None => (plan, self.scalar_call("random", vec![], span)?),
            Some(seed) => self.hashed(plan, seed, span)?,
        };
        self.is_volatile |= seed.is_none();
        let plan = match sample.percent {
            true => plans::filter(plan, self.below(chance, &amount, seed.is_some(), sample.count.span)?).at(span)?,
            false => {
                let rows = amount.parse::<i64>().map_err(|_| invalid(span, "a number of rows is whole"))?;
                let key = self.sort(chance, SortOrder { descending: Some(false), nulls_first: Some(false) });
                let plan = sorted(plan, vec![key]).at(span)?;
                let fetch = Some(Box::new(integer(rows)));
                LogicalPlan::Limit(Limit { skip: None, fetch, input: Arc::new(plan) })
            }
        };
        let plan = if seed.is_some() { plans::project(plan, columns).at(span)? } else { plan };
        Ok(From { plan, relations, star })
    }

    /// The digits of a number that is known.
    fn constant_number(&mut self, written: &tree::Expr) -> Result<String> {
        if let ExprKind::Literal(Literal::Number(digits)) = &written.kind {
            return Ok(digits.clone());
        }
        let (value, _) = self.within(Scope::empty(), |binder| binder.expression(written))?;
        let value = self.world.functions.constant(value).at(written.span)?;
        match value.data_type().is_numeric() && !value.is_null() {
            true => Ok(value.to_string()),
            false => Err(invalid(written.span, "the size and the seed of a sample are numbers")),
        }
    }

    /// Numbered rows, and a text of hexadecimal digits for each of them.
    fn hashed(&mut self, plan: LogicalPlan, seed: &str, span: Span) -> Result<(LogicalPlan, Expr)> {
        let scope = Scope::of_schema(plan.schema());
        let (number, _) = self.within(scope, |binder| binder.over("row_number", vec![], vec![], vec![], span))?;
        let place = plan.schema().fields().len();
        let plan = LogicalPlanBuilder::window_plan(plan, vec![number]).at(span)?;
        let number = Expr::Column(plans::column(plan.schema(), place));
        let schema = plan.schema().clone();
        let begin = text(&format!("{SEED}{seed}:"));
        let row = self.world.functions.binary(BinaryOperator::Concat, begin, number, &schema).at(span)?;
        let chance = self.scalar_call("md5", vec![row], span)?;
        Ok((plan, chance))
    }

    /// The condition of the rows of a percentage.
    fn below(&mut self, chance: Expr, amount: &str, is_hashed: bool, span: Span) -> Result<Expr> {
        let percent: f64 = amount.parse().map_err(|_| invalid(span, "a sample takes a number"))?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(invalid(span, format!("a sample of {percent} % is not between 0 and 100")));
        }
        let bound = match is_hashed {
            false => Expr::Literal(ScalarValue::Float64(Some(percent / 100.0)), None),
            // All digits are less than g.
            true if percent == 100.0 => text("g"),
            true => text(&format!("{:08x}", (percent / 100.0 * f64::from(u32::MAX)) as u32)),
        };
        Ok(plain(Operator::Lt, chance, bound))
    }
}
