//! PIVOT: an aggregate for each value of a column.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion_expr::{Cast, Distinct, Expr, LogicalPlan};
use freestone_sql::Span;
use freestone_sql::tree::{
    self, BinaryOperator, CastForm, ExprKind, GroupBy, Link, Literal, Name, ObjectName, Pivot, PivotColumn,
    PivotValues, SelectItem, SortOrder, Star, Type, TypeKind,
};

use crate::aggregates::Groups;
use crate::binder::Binder;
use crate::error::{At, Result, invalid, unsupported};
use crate::headings;
use crate::lambdas::tree_call;
use crate::plans::{self, Rows};
use crate::queries::sorted;
use crate::scopes::Scope;
use crate::select::{Block, Item};
use crate::tables::From;

/// The columns that a PIVOT may make at most.
const COLUMNS_MAX: usize = 10_000;

/// Values of the columns of a PIVOT: the condition of their rows, and their text in names.
#[derive(Debug, Clone)]
struct OnValue {
    condition: Option<tree::Expr>,
    text: String,
}

impl Binder<'_> {
    /// The rows of a PIVOT.
    pub fn pivot(&mut self, pivot: &Pivot, span: Span) -> Result<Rows> {
        let From { plan, relations, star } = self.table(&pivot.source)?;
        let scope = Scope::new(relations, star, plan.schema().clone());
        let (block, _) = self.within(scope, |binder| binder.pivoted(pivot, &plan, span))?;
        self.assembled(plan, block, span)
    }

    fn pivoted(&mut self, pivot: &Pivot, rows: &LogicalPlan, span: Span) -> Result<Block> {
        let mut aggregates = pivot.aggregates.clone();
        if aggregates.is_empty() {
            let star = tree::Expr { kind: ExprKind::Star(Box::default()), span };
            aggregates.push(SelectItem { value: tree_call("count", vec![star], span), alias: None });
        }
        let mut combinations = vec![OnValue { condition: None, text: String::new() }];
        for column in &pivot.columns {
            let values = self.values_of_pivot(column, rows)?;
            combinations = product(&combinations, &values);
            if combinations.len().saturating_mul(aggregates.len()) > COLUMNS_MAX {
                return Err(invalid(span, format!("PIVOT makes more than {COLUMNS_MAX} columns"))
                    .with_hint("write the values: PIVOT t ON column IN (value, …)"));
            }
        }
        let groups = self.pivot_groups(pivot, &aggregates, span)?;
        let keys = self.groups(&GroupBy::All, &groups)?;
        let mut items = groups;
        for value in &combinations {
            for aggregate in &aggregates {
                items.push(self.pivot_column(aggregate, value, aggregates.len())?);
            }
        }
        Ok(Block { items, groups: keys.or_else(|| Some(Groups::default())), ..Block::default() })
    }

    /// The values of a column that get columns of their own: those that the PIVOT lists, or all there are.
    fn values_of_pivot(&mut self, column: &PivotColumn, rows: &LogicalPlan) -> Result<Vec<OnValue>> {
        let span = column.value.span;
        let query = match &column.values {
            Some(PivotValues::List(items)) => {
                return items.iter().map(|item| of_list(&column.value, item)).collect();
            }
            Some(PivotValues::Query(query)) => {
                let (rows, _) = self.within(Scope::empty(), |binder| binder.query(query))?;
                rows.plan
            }
            None => self.distinct_values(&column.value, rows)?,
        };
        let Some(texts) = self.world.functions.texts(&query).at(span)? else {
            return Err(unsupported(span, "PIVOT whose values are not known"));
        };
        let to = TypeKind::Named { name: name_of("varchar", span), modifiers: vec![] };
        let data_type = Box::new(Type { kind: to, span });
        let operand = Box::new(column.value.clone());
        let cast = tree::Expr { kind: ExprKind::Cast { operand, data_type, form: CastForm::Cast }, span };
        let value = |text: String| OnValue {
            condition: Some(chain(cast.clone(), BinaryOperator::Eq, literal(&text, span))),
            text,
        };
        Ok(texts.into_iter().map(value).collect())
    }

    /// The query for all values of a column, each once and in their order.
    fn distinct_values(&mut self, column: &tree::Expr, rows: &LogicalPlan) -> Result<LogicalPlan> {
        let (span, value) = (column.span, self.expression(column)?);
        if self.collation_of(&value).is_some() {
            return Err(invalid(span, "PIVOT of texts with a collation is not available")
                .with_hint("pivot a subquery that selects the texts COLLATE C"));
        }
        let plan = plans::filter(rows.clone(), Expr::IsNotNull(Box::new(value.clone()))).at(span)?;
        let plan = plans::project(plan, vec![value.alias("value")]).at(span)?;
        let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
        let value = Expr::Column(plans::column(plan.schema(), 0));
        let order = SortOrder { descending: Some(false), nulls_first: Some(false) };
        let key = self.sort(value.clone(), order);
        let plan = sorted(plan, vec![key]).at(span)?;
        let text = Expr::Cast(Cast::new(Box::new(value), DataType::Utf8View));
        plans::project(plan, vec![text.alias("text")]).at(span)
    }

    /// The columns by which rows are grouped: those of GROUP BY, or all that PIVOT does not name.
    fn pivot_groups(&mut self, pivot: &Pivot, aggregates: &[SelectItem], span: Span) -> Result<Vec<Item>> {
        if !pivot.group_by.is_empty() || pivot.columns.is_empty() {
            let mut items = vec![];
            for key in &pivot.group_by {
                items.push(Item { value: self.expression(key)?, name: headings::last_name(key) });
            }
            return Ok(items);
        }
        let mut used: Vec<String> = vec![];
        let mut note = |part: &tree::Expr| {
            if let ExprKind::Column(name) = &part.kind {
                used.extend(name.parts.last().map(|last| last.text.clone()));
            }
        };
        pivot.columns.iter().for_each(|column| tree::each_part(&column.value, &mut note));
        aggregates.iter().for_each(|item| tree::each_part(&item.value, &mut note));
        let all = self.star(&Star::default(), span)?;
        Ok(all.into_iter().filter(|item| !used.contains(&item.name)).collect())
    }

    /// An aggregate of the rows with one value.
    fn pivot_column(&mut self, aggregate: &SelectItem, value: &OnValue, count: usize) -> Result<Item> {
        let own = match &aggregate.alias {
            Some(alias) => Some(alias.text.clone()),
            None => (count > 1).then(|| headings::last_name(&aggregate.value)),
        };
        let mut written = aggregate.value.clone();
        if let Some(condition) = &value.condition {
            let mut calls = 0;
            tree::each_part_mut(&mut written, &mut |part| {
                if let ExprKind::Call(call) = &mut part.kind
                    && calls == 0
                {
                    calls += 1;
                    call.filter = Some(match call.filter.take() {
                        Some(filter) => both(filter, condition.clone()),
                        None => condition.clone(),
                    });
                }
            });
            if calls == 0 {
                return Err(invalid(aggregate.value.span, "PIVOT takes aggregates").with_hint("USING sum(amount)"));
            }
        }
        let name = match (&value.condition, own) {
            (None, _) => headings::name(aggregate),
            (Some(_), None) => value.text.clone(),
            (Some(_), Some(own)) => format!("{}_{own}", value.text),
        };
        Ok(Item { value: self.expression(&written)?, name })
    }
}

fn product(left: &[OnValue], right: &[OnValue]) -> Vec<OnValue> {
    let pair = |one: &OnValue, other: &OnValue| OnValue {
        condition: match (&one.condition, &other.condition) {
            (Some(one), Some(other)) => Some(both(one.clone(), other.clone())),
            (one, other) => one.clone().or_else(|| other.clone()),
        },
        text: if one.text.is_empty() { other.text.clone() } else { format!("{}_{}", one.text, other.text) },
    };
    left.iter().flat_map(|one| right.iter().map(move |other| pair(one, other))).collect()
}

/// A value that the statement lists, with its name.
fn of_list(column: &tree::Expr, item: &SelectItem) -> Result<OnValue> {
    let columns = match &column.kind {
        ExprKind::Row(columns) => columns.clone(),
        _ => vec![column.clone()],
    };
    let values = match (&item.value.kind, columns.len()) {
        (ExprKind::Row(values), width) if width > 1 => values.clone(),
        _ => vec![item.value.clone()],
    };
    if columns.len() != values.len() {
        return Err(invalid(item.value.span, "this is not one value for each column of PIVOT"));
    }
    let mut condition: Option<tree::Expr> = None;
    let mut texts = vec![];
    for (column, value) in columns.into_iter().zip(values) {
        // A name in a list is its text.
        let value = match &value.kind {
            ExprKind::Column(_) => literal(&headings::last_name(&value), value.span),
            _ => value,
        };
        texts.push(match &value.kind {
            ExprKind::Literal(Literal::Text(text)) => text.clone(),
            _ => value.to_string(),
        });
        let equal = chain(column, BinaryOperator::IsNotDistinctFrom, value);
        condition = Some(match condition {
            Some(before) => both(before, equal),
            None => equal,
        });
    }
    let text = item.alias.as_ref().map_or_else(|| texts.join("_"), |alias| alias.text.clone());
    Ok(OnValue { condition, text })
}

fn literal(text: &str, span: Span) -> tree::Expr {
    tree::Expr { kind: ExprKind::Literal(Literal::Text(text.to_owned())), span }
}

fn name_of(name: &str, span: Span) -> ObjectName {
    ObjectName { parts: vec![Name { text: name.to_owned(), quoted: false, span }], span }
}

fn both(one: tree::Expr, other: tree::Expr) -> tree::Expr {
    chain(one, BinaryOperator::And, other)
}

fn chain(first: tree::Expr, operator: BinaryOperator, operand: tree::Expr) -> tree::Expr {
    let span = first.span;
    tree::Expr { kind: ExprKind::Chain { first: Box::new(first), rest: vec![Link { operator, span, operand }] }, span }
}
