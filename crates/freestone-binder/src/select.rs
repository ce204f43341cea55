//! One SELECT: its items and clauses are bound over FROM, and then the plan is put together, each part once.

use std::sync::Arc;

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};
use freestone_sql::Span;
use freestone_sql::tree::{self, ExprKind, OrderBy, Select, SelectItem, SortKey};

use crate::aggregates::Groups;
use crate::binder::Binder;
use crate::chains::conjunction;
use crate::error::{At, BindError, ErrorKind, Result, invalid, too_complex};
use crate::headings;
use crate::names::named;
use crate::origins::{Known, Origin};
use crate::plans::{self, Rows};
use crate::queries::{is_constant, position, sorted};
use crate::scopes::{Relation, Scope};
use crate::tables::From;

/// The expressions that a SELECT may have at most: planning takes time in proportion to their square.
const ITEMS_MAX: usize = 10_000;

/// A column of the result.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub value: Expr,
    pub name: String,
}

/// Where calls of unnest stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In keys of GROUP BY: rows are made before they are grouped.
    Keys,
    /// In values of the result.
    Outputs,
}

/// A SELECT over FROM, whose expressions are bound and not yet in a plan.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub items: Vec<Item>,
    pub condition: Option<Expr>,
    pub groups: Option<Groups>,
    pub having: Option<Expr>,
    pub qualify: Option<Expr>,
    pub distinct: bool,
    pub distinct_on: Vec<Expr>,
    pub order: Vec<SortExpr>,
    /// The relations that have a primary key, which determines their other columns.
    pub keyed: Vec<Relation>,
}

impl Block {
    /// The expressions in which unnest makes rows at this place.
    pub fn of_place(&mut self, place: Place) -> Vec<&mut Expr> {
        match place {
            Place::Keys => self.groups.iter_mut().flat_map(|groups| groups.sets.iter_mut().flatten()).collect(),
            Place::Outputs => self.outputs().collect(),
        }
    }

    /// All expressions that are computed from groups.
    pub fn outputs(&mut self) -> impl Iterator<Item = &mut Expr> {
        let items = self.items.iter_mut().map(|item| &mut item.value);
        let order = self.order.iter_mut().map(|key| &mut key.expr);
        items.chain(&mut self.having).chain(&mut self.qualify).chain(&mut self.distinct_on).chain(order)
    }
}

impl Binder<'_> {
    /// The rows of a SELECT, in the order of the query around it.
    pub fn select(&mut self, select: &Select, order_by: Option<&OrderBy>, span: Span) -> Result<Rows> {
        let is_noted = self.origins.take().is_some();
        let from = self.from(&select.from, span)?;
        let from = match &select.sample {
            None => from,
            Some(_) if select.from.is_empty() => return Err(invalid(span, "USING SAMPLE needs a FROM")),
            Some(sample) => self.sampled(from, sample, span)?,
        };
        let From { plan, relations, star } = from;
        let scope = Scope::new(relations, star, plan.schema().clone());
        let (block, scope) = self.within(scope, |binder| binder.block(select, order_by))?;
        self.origins = is_noted.then(|| origins_of(&select.items, &block.items, &scope));
        self.assembled(plan, block, span)
    }

    fn block(&mut self, select: &Select, order_by: Option<&OrderBy>) -> Result<Block> {
        self.define_windows(&select.windows)?;
        let mut block = Block { items: self.items(&select.items)?, ..Block::default() };
        if let (true, Some(first)) = (block.items.is_empty(), select.items.first()) {
            return Err(invalid(first.value.span, "SELECT has no column left")
                .with_hint("every column is excluded, or none has such a name"));
        }
        block.condition = self.clause(select.condition.as_ref())?;
        if let Some(condition) = &block.condition {
            without_aggregates(condition, "WHERE", select.condition.as_ref().map_or(select.span, |one| one.span))?;
        }
        block.groups = self.groups(&select.group_by, &block.items)?;
        if block.groups.is_some() {
            block.keyed = self.scope().relations.iter().filter(|one| !one.key.is_empty()).cloned().collect();
        }
        block.having = self.clause(select.having.as_ref())?;
        if let Some(condition) = &block.having
            && has_window(condition)
        {
            let span = select.having.as_ref().map_or(select.span, |one| one.span);
            return Err(not_allowed("window functions", "HAVING", span));
        }
        block.qualify = self.clause(select.qualify.as_ref())?;
        match &select.distinct {
            None => {}
            Some(tree::Distinct::Rows) => match self.keys_of_items(&block.items, select.span)? {
                Some(keys) => block.distinct_on = keys,
                None => block.distinct = true,
            },
            Some(tree::Distinct::On(keys)) => {
                for key in keys {
                    for value in self.output_key(key, &block.items)? {
                        block.distinct_on.push(self.own_key(value, key.span)?);
                    }
                }
            }
        }
        block.order = match order_by {
            None => vec![],
            Some(OrderBy::All(order)) => {
                let values: Vec<Expr> = block.items.iter().map(|item| item.value.clone()).collect();
                self.sorts_of_values(values, *order, select.span)?
            }
            Some(OrderBy::Keys(keys)) => self.output_order(keys, &block.items)?,
        };
        Ok(block)
    }

    /// The items, with stars and COLUMNS expanded. Each one may use the aliases of those before.
    fn items(&mut self, written: &[SelectItem]) -> Result<Vec<Item>> {
        if let Some(first) = written.get(ITEMS_MAX) {
            let count = written.len();
            let message =
                format!("the statement is too complex: a SELECT has {count} expressions (at most {ITEMS_MAX})");
            return Err(too_complex(first.value.span, message).with_hint("select lists, or in several statements"));
        }
        let mut items = vec![];
        for item in written {
            if let ExprKind::Star(star) = &item.value.kind {
                items.extend(self.star_item(star, item.alias.as_ref(), item.value.span)?);
                continue;
            }
            if let Some(copies) = self.copies(&item.value, item.alias.as_ref())? {
                items.extend(copies);
                continue;
            }
            if let Some(fields) = self.unnested_item(item)? {
                items.extend(fields);
                continue;
            }
            let (value, name) = (self.expression(&item.value)?, headings::name(item));
            let (value, name) = match self.position_name(&item.value) {
                Some(own) if item.alias.is_none() => (value, own),
                _ => (value, name),
            };
            if item.alias.is_some()
                && let Some(scope) = self.scopes.last_mut()
                && !scope.aliases.iter().any(|(known, _)| *known == name)
            {
                scope.aliases.push((name.clone(), value.clone()));
            }
            items.push(Item { value, name });
        }
        Ok(items)
    }

    /// The name of a column that is given by its position.
    fn position_name(&self, value: &tree::Expr) -> Option<String> {
        let ExprKind::Position(position) = value.kind else { return None };
        let at = (position as usize).checked_sub(1)?;
        self.scope().star.get(at).map(|entry| entry.name.clone())
    }

    /// A condition. One with COLUMNS holds for all of them.
    fn clause(&mut self, written: Option<&tree::Expr>) -> Result<Option<Expr>> {
        let Some(written) = written else { return Ok(None) };
        match self.copies(written, None)? {
            Some(copies) => Ok(conjunction(copies.into_iter().map(|copy| copy.value))),
            None => self.expression(written).map(Some),
        }
    }

    /// A key of DISTINCT ON, whose names are those of items first.
    fn output_key(&mut self, key: &tree::Expr, items: &[Item]) -> Result<Vec<Expr>> {
        if let Some(at) = position(key)? {
            return item_at(at, items, key.span, "DISTINCT ON").map(|item| vec![item.value.clone()]);
        }
        match named_item(key, items) {
            Ok(Some(item)) => return Ok(vec![item.value.clone()]),
            Ok(None) => {}
            // One of several items may be what the name means without them: `SELECT k, a.k … USING (k) ORDER BY k`.
            Err(error) => {
                let value = self.column_of_from(key).filter(|value| items.iter().any(|item| item.value == *value));
                return value.map(|value| vec![value]).ok_or(error);
            }
        }
        match self.copies(key, None)? {
            Some(copies) => Ok(copies.into_iter().map(|copy| copy.value).collect()),
            None => Ok(vec![self.expression(key)?]),
        }
    }

    /// Keys of ORDER BY, whose names are those of items first.
    fn output_order(&mut self, keys: &[SortKey], items: &[Item]) -> Result<Vec<SortExpr>> {
        let mut order = vec![];
        for key in keys {
            let written = match &key.value.kind {
                ExprKind::Collate { operand, .. } => operand,
                _ => &key.value,
            };
            if is_constant(written) {
                continue;
            }
            let values = match position(written)? {
                Some(at) => vec![item_at(at, items, written.span, "ORDER BY")?.value.clone()],
                None => self.output_key(written, items)?,
            };
            for value in values {
                let value = self.collated(&key.value, value)?;
                order.push(self.sort(value, key.order));
            }
        }
        Ok(order)
    }

    /// The plan of a SELECT over its FROM.
    pub fn assembled(&mut self, from: LogicalPlan, mut block: Block, span: Span) -> Result<Rows> {
        let mut plan = from;
        if let Some(condition) = block.condition.take() {
            plan = plans::filter(plan, condition).at(span)?;
        }
        plan = self.unnested(plan, &mut block, Place::Keys, span)?;
        plan = self.aggregated(plan, &mut block, span)?;
        if let Some(condition) = block.having.take() {
            plan = plans::filter(plan, condition).at(span)?;
        }
        plan = windowed(plan, &mut block, span)?;
        if let Some(condition) = block.qualify.take() {
            plan = plans::filter(plan, condition).at(span)?;
        }
        plan = self.unnested(plan, &mut block, Place::Outputs, span)?;
        projected(plan, block, span)
    }
}

/// The origins of the columns of a SELECT.
fn origins_of(written: &[SelectItem], items: &[Item], scope: &Scope) -> Vec<Origin> {
    let mut origins = vec![];
    for (at, item) in items.iter().enumerate() {
        let Expr::Column(column) = &item.value else { continue };
        for relation in &scope.relations {
            let of_column = relation.columns.iter().filter(|(_, own)| own == column);
            origins.extend(of_column.map(|(name, _)| {
                let path = relation.names.iter().chain([name]).cloned().collect();
                Origin { at, known: Known::Column(path) }
            }));
        }
    }
    let is_one = |item: &SelectItem| {
        let mut is_one = !matches!(item.value.kind, ExprKind::Star(_));
        tree::each_part(&item.value, &mut |part| is_one &= !matches!(part.kind, ExprKind::Columns(_)));
        is_one
    };
    // An item that stands for several columns moves those behind it.
    if written.len() == items.len() && written.iter().all(is_one) {
        let values = written.iter().enumerate();
        origins.extend(values.map(|(at, item)| Origin { at, known: Known::Value(item.value.clone()) }));
    }
    origins
}

/// The values of the items, in their order.
fn projected(plan: LogicalPlan, block: Block, span: Span) -> Result<Rows> {
    let Block { items, distinct, distinct_on, order, .. } = block;
    let names: Vec<String> = items.iter().map(|item| item.name.clone()).collect();
    let width = items.len();
    if !distinct_on.is_empty() {
        let plan = first_of_each(plan, &items, distinct_on, order).at(span)?;
        return Ok(Rows { plan, names });
    }
    // Where each key of the order is: a column of the result, or one behind them.
    let mut hidden: Vec<Expr> = vec![];
    let mut places = vec![];
    for key in &order {
        let place = items.iter().position(|item| item.value == key.expr);
        places.push(match place {
            Some(at) => at,
            None if distinct => {
                let message = "a query with DISTINCT is ordered by columns of its result";
                return Err(invalid(span, message).with_hint("add the value to SELECT, or order in a query around it"));
            }
            None => match hidden.iter().position(|value| *value == key.expr) {
                Some(at) => width + at,
                None => {
                    hidden.push(key.expr.clone());
                    width + hidden.len() - 1
                }
            },
        });
    }
    let values = items.iter().map(|item| (item.value.clone(), item.name.as_str()));
    let keys = hidden.iter().map(|value| (value.clone(), "__order"));
    let mut plan = plans::project(plan, named(values.chain(keys).collect())).at(span)?;
    if distinct {
        plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
    }
    let schema = plan.schema().clone();
    let keys = order.into_iter().zip(places);
    let keys = keys.map(|(key, at)| SortExpr { expr: Expr::Column(plans::column(&schema, at)), ..key });
    plan = sorted(plan, keys.collect()).at(span)?;
    if !hidden.is_empty() {
        let own = (0..width).map(|at| Expr::Column(plans::column(&schema, at))).collect();
        plan = plans::project(plan, own).at(span)?;
    }
    Ok(Rows { plan, names })
}

/// The first row for each key of DISTINCT ON, in the order of the query, which says what is first.
fn first_of_each(
    plan: LogicalPlan,
    items: &[Item],
    keys: Vec<Expr>,
    order: Vec<SortExpr>,
) -> datafusion_common::Result<LogicalPlan> {
    let values = items.iter().map(|item| (item.value.clone(), item.name.as_str()));
    let begins_with_keys = order.len() >= keys.len() && order.iter().zip(&keys).all(|(sort, key)| sort.expr == *key);
    if order.is_empty() || begins_with_keys {
        let order = (!order.is_empty()).then_some(order);
        return LogicalPlanBuilder::from(plan).distinct_on(keys, named(values.collect()), order)?.build();
    }
    // The rows of a key are in the order of the query, and the result is sorted again.
    let hidden = order.iter().map(|sort| (sort.expr.clone(), "__order"));
    let values = named(values.chain(hidden).collect());
    let mut by_key: Vec<SortExpr> = keys.iter().map(|key| key.clone().sort(true, false)).collect();
    for sort in &order {
        // A value that is sorted by already orders nothing more.
        if !by_key.iter().any(|known| known.expr == sort.expr) {
            by_key.push(sort.clone());
        }
    }
    let plan = LogicalPlanBuilder::from(plan).distinct_on(keys, values, Some(by_key))?.build()?;
    let schema = plan.schema().clone();
    let column = |at: usize| Expr::Column(plans::column(&schema, at));
    let order = order.into_iter().enumerate().map(|(at, sort)| SortExpr { expr: column(items.len() + at), ..sort });
    plans::project(sorted(plan, order.collect())?, (0..items.len()).map(column).collect())
}

/// Computes window functions, and replaces their calls by columns.
fn windowed(plan: LogicalPlan, block: &mut Block, span: Span) -> Result<LogicalPlan> {
    let mut calls: Vec<Expr> = vec![];
    for value in block.outputs() {
        collect(value, &mut calls, &|part| matches!(part, Expr::WindowFunction(_)));
    }
    if calls.is_empty() {
        return Ok(plan);
    }
    let names: Vec<String> = calls.iter().map(|call| call.schema_name().to_string()).collect();
    let is_repeated = |at: usize| names.iter().take(at).any(|name| names.get(at) == Some(name));
    let twice = (0..names.len()).find(|at| is_repeated(*at));
    let taken = names.iter().any(|name| plan.schema().has_column_with_unqualified_name(name));
    if twice.is_some() || taken {
        return crate::aggregates::windows_with_names(plan, block, calls, span);
    }
    let plan = LogicalPlanBuilder::window_plan(plan, calls.clone()).at(span)?;
    let columns = names.into_iter().map(|name| Expr::Column(datafusion_common::Column::from_name(name)));
    let known = calls.into_iter().zip(columns).collect();
    for value in block.outputs() {
        crate::aggregates::replace(value, &known).at(span)?;
    }
    Ok(plan)
}

/// Adds the outermost parts of a kind that are not among them yet.
pub(crate) fn collect(value: &Expr, found: &mut Vec<Expr>, is_it: &dyn Fn(&Expr) -> bool) {
    // The closure does not fail.
    let _ = value.apply(|part| {
        if !is_it(part) {
            return Ok(TreeNodeRecursion::Continue);
        }
        if !found.contains(part) {
            found.push(part.clone());
        }
        Ok(TreeNodeRecursion::Jump)
    });
}

/// The item at a position.
pub(crate) fn item_at<'a>(at: usize, items: &'a [Item], span: Span, clause: &str) -> Result<&'a Item> {
    at.checked_sub(1).and_then(|at| items.get(at)).ok_or_else(|| {
        let message = format!("{clause} {at} is no column: the query has {}", items.len());
        invalid(span, message).with_hint("positions are numbered from 1")
    })
}

/// The item that a name alone means.
fn named_item<'a>(key: &tree::Expr, items: &'a [Item]) -> Result<Option<&'a Item>> {
    let ExprKind::Column(name) = &key.kind else { return Ok(None) };
    let [only] = name.parts.as_slice() else { return Ok(None) };
    let mut found = items.iter().filter(|item| item.name == only.text);
    let Some(first) = found.next() else { return Ok(None) };
    match found.all(|other| other.value == first.value) {
        true => Ok(Some(first)),
        false => {
            let message = format!("column {} is ambiguous: several columns have this name", only.text);
            Err(BindError::new(ErrorKind::Ambiguous, key.span, message)
                .with_hint("give each a name of its own with AS"))
        }
    }
}

/// Refuses aggregates and window functions in a clause that comes before them.
pub(crate) fn without_aggregates(value: &Expr, clause: &str, span: Span) -> Result<()> {
    if has_window(value) {
        return Err(not_allowed("window functions", clause, span));
    }
    if has_aggregate(value) {
        return Err(not_allowed("aggregates", clause, span));
    }
    Ok(())
}

fn not_allowed(what: &str, clause: &str, span: Span) -> Box<crate::BindError> {
    let hint = match what {
        "aggregates" => "write the condition in HAVING, or compute the aggregate in a subquery of FROM",
        _ => "write the condition in QUALIFY, or compute the function in a subquery of FROM",
    };
    invalid(span, format!("{what} are not allowed in {clause}")).with_hint(hint)
}

/// Whether a window function is called in a value.
pub(crate) fn has_window(value: &Expr) -> bool {
    value.exists(|part| Ok(matches!(part, Expr::WindowFunction(_)))).unwrap_or(false)
}

/// Whether an aggregate over groups is called in a value.
pub(crate) fn has_aggregate(value: &Expr) -> bool {
    value.exists(|part| Ok(matches!(part, Expr::AggregateFunction(_)))).unwrap_or(false)
}
