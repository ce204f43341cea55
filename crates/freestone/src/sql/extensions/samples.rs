//! Samples: `TABLESAMPLE` of a table, and `USING SAMPLE` of the result of FROM. A percentage selects each row with this
//! probability. A number selects that number of rows, all with the same probability. With a seed, the sample is
//! reproducible for the same input rows.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, OrderBy,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableSample, TableSampleKind, TableSampleUnit,
    WildcardAdditionalOptions,
};

use crate::error::{Error, Result};
use crate::sql::fragments::{
    alias, and, ascending, binary, call, derived, number, quoted, select_query, star, text, window,
};
use crate::sql::spellings::SAMPLE;
use crate::sql::using::table_name;

/// The prefix of the text that is hashed for each row in a seeded sample.
const SEED: &str = "freestone$seed:";

/// The column with the number of each row in a seeded sample.
const NUMBER: &str = "freestone$number";

/// The size and the seed of a sample.
struct Amount {
    percent: bool,
    amount: Expr,
    seed: Option<String>,
}

impl Amount {
    /// A random number between 0 and 1 for each row; with a seed, a text of hexadecimal digits.
    fn chance(&self) -> Expr {
        match &self.seed {
            None => call("random", vec![]),
            Some(seed) => {
                let number = Expr::Identifier(quoted(NUMBER));
                let row = binary(text(&format!("{SEED}{seed}:")), BinaryOperator::StringConcat, number);
                call("md5", vec![row])
            }
        }
    }

    /// The condition for rows of a percentage sample.
    fn condition(&self) -> Result<Expr> {
        let percent: f64 = self.amount.to_string().parse().map_err(|_| not_a_number(&self.amount))?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(Error::invalid(format!("a sample of {percent} % is not between 0 and 100")));
        }
        let bound = match &self.seed {
            None => number(format!("{:?}", percent / 100.0)),
            // All hashes are less than a bound that begins with g.
            Some(_) if percent == 100.0 => text("g"),
            Some(_) => text(&format!("{:08x}", (percent / 100.0 * f64::from(u32::MAX)) as u32)),
        };
        Ok(binary(self.chance(), BinaryOperator::Lt, bound))
    }
}

fn not_a_number(amount: &Expr) -> Error {
    Error::invalid(format!("a sample takes a number, not {amount}")).with_hint("10 PERCENT, 10 % or 10 ROWS")
}

/// Whether an expression belongs to a seeded sample.
pub(super) fn is_seeded(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value,
        datafusion::sql::sqlparser::ast::Value::SingleQuotedString(text) if text.starts_with(SEED)))
}

/// Rewrites `t TABLESAMPLE …` as a subquery.
pub(super) fn of_factor(factor: &mut TableFactor) -> Result<()> {
    let sample = match factor {
        TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } => sample.take(),
        _ => None,
    };
    let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample else {
        return Ok(());
    };
    let TableSample { quantity, seed, bucket, offset, .. } = *sample;
    let Some(quantity) = quantity.filter(|_| bucket.is_none() && offset.is_none()) else {
        return Err(Error::unsupported("BUCKET and OFFSET of a sample are not available")
            .with_hint("write TABLESAMPLE BERNOULLI (10) or TABLESAMPLE (100 ROWS)"));
    };
    let amount = Amount {
        percent: !matches!(quantity.unit, Some(TableSampleUnit::Rows)),
        amount: quantity.value,
        seed: seed.map(|seed| seed.value.to_string()),
    };
    *factor = sampled(factor.clone(), &amount)?;
    Ok(())
}

/// A subquery with a sample of a table, under the name of the table.
fn sampled(factor: TableFactor, amount: &Amount) -> Result<TableFactor> {
    let name = table_name(&factor).map(alias);
    let mut query = match &amount.seed {
        None => select_query(vec![star()], factor)?,
        Some(_) => {
            let number = window("row_number", vec![], vec![], vec![]);
            let number = SelectItem::ExprWithAlias { expr: number, alias: quoted(NUMBER) };
            let numbered = derived(select_query(vec![star(), number], factor)?, name.clone());
            let opt_exclude = Some(ExcludeSelectItem::Single(vec![quoted(NUMBER)].into()));
            let options = WildcardAdditionalOptions { opt_exclude, ..Default::default() };
            select_query(vec![SelectItem::Wildcard(options)], numbered)?
        }
    };
    if !amount.percent {
        let kind = OrderByKind::Expressions(vec![ascending(amount.chance())]);
        query.order_by = Some(OrderBy { kind, interpolate: None });
        query.limit_clause =
            Some(LimitClause::LimitOffset { limit: Some(amount.amount.clone()), offset: None, limit_by: vec![] });
    } else if let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = Some(amount.condition()?);
    }
    Ok(derived(query, name))
}

/// Rewrites USING SAMPLE, which was parsed in QUALIFY, in the SELECTs of a query.
pub(super) fn of_query(query: &mut Query) -> Result<()> {
    of_body(&mut query.body)
}

fn of_body(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) => sample_of_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            of_body(left)?;
            of_body(right)
        }
        _ => Ok(()),
    }
}

fn sample_of_select(select: &mut Select) -> Result<()> {
    let Some(condition) = select.qualify.take() else { return Ok(()) };
    let (amount, rest) = without_sample(condition);
    select.qualify = rest;
    let Some(amount) = amount else { return Ok(()) };
    match select.from.as_mut_slice() {
        [] => Err(Error::invalid("USING SAMPLE needs a FROM")),
        [tables] if tables.joins.is_empty() => {
            tables.relation = sampled(tables.relation.clone(), &amount)?;
            Ok(())
        }
        _ if amount.percent && amount.seed.is_none() => {
            select.selection = Some(and(select.selection.take(), amount.condition()?));
            Ok(())
        }
        _ => Err(Error::unsupported("USING SAMPLE of several tables by rows or with a seed is not available")
            .with_hint("put the join in a subquery: FROM (SELECT … FROM a JOIN b …) USING SAMPLE …")),
    }
}

/// Removes the sample from the conditions of QUALIFY. Returns both.
fn without_sample(condition: Expr) -> (Option<Amount>, Option<Expr>) {
    match condition {
        Expr::Function(function)
            if function.name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value == SAMPLE) =>
        {
            let FunctionArguments::List(list) = &function.args else { return (None, None) };
            let mut arguments = list.args.iter().filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            });
            let percent = arguments.next().is_some_and(|unit| unit.to_string() == "'percent'");
            let amount = arguments.next().unwrap_or_else(|| number(0));
            let seed = arguments.next().map(|seed| seed.to_string());
            (Some(Amount { percent, amount, seed }), None)
        }
        Expr::BinaryOp { left, op, right } => {
            let (amount, rest) = without_sample(*right);
            let whole = match rest {
                Some(rest) => binary(*left, op, rest),
                None => *left,
            };
            (amount, Some(whole))
        }
        other => (None, Some(other)),
    }
}
