//! PIVOT and UNPIVOT, as statements and in FROM. All forms are first converted to a SELECT that begins with a call of
//! [`PIVOT`] or [`UNPIVOT`]; see [`super::super::spellings`]. When the columns of its FROM are known, it becomes an
//! ordinary SELECT: for PIVOT, an aggregate with FILTER for each value; for UNPIVOT, lists that UNNEST turns into rows.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    NullInclusion, PivotValueSource, Query, Select, SelectItem, SetExpr, TableFactor, Value,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::stars::{Sources, Starred};
use super::unknown_columns;
use crate::error::{Error, Result};
use crate::sql::fragments::{self, alias, and, bare_query, call, derived, number, quoted, select_query, star, text};
use crate::sql::names::folded;
use crate::sql::spellings::{INCLUDE_NULLS, PIVOT, UNPIVOT};
use crate::sql::visitor::each_own_expr;

/// The maximum number of columns of a PIVOT.
pub(crate) const COLUMNS_MAX: usize = 10_000;

/// The values of dynamic pivots, by the query that returns them.
pub(crate) type PivotValues = HashMap<String, Vec<String>>;

/// Rewrites PIVOT and UNPIVOT after a table as a subquery.
pub(super) fn factor(factor: &mut TableFactor) -> Result<()> {
    let (query, name) = match factor {
        TableFactor::Pivot { table, aggregate_functions, value_column, value_source, default_on_null, alias } => {
            if default_on_null.is_some() {
                return Err(Error::unsupported("DEFAULT ON NULL in PIVOT is not available")
                    .with_hint("write coalesce(…) around the columns of the result"));
            }
            let on = on_of(value_column, value_source)?;
            let mut items = vec![SelectItem::UnnamedExpr(call(PIVOT, vec![on]))];
            items.extend(aggregate_functions.iter().map(|ExprWithAlias { expr, alias }| match alias {
                Some(alias) => SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() },
                None => SelectItem::UnnamedExpr(expr.clone()),
            }));
            (select_query(items, (**table).clone())?, alias.take())
        }
        TableFactor::Unpivot { table, value, null_inclusion, name, columns, alias } => {
            let mut into = vec![Expr::Identifier(name.clone())];
            match value {
                Expr::Tuple(values) => into.extend(values.iter().cloned()),
                Expr::Nested(value) => into.push((**value).clone()),
                value => into.push(value.clone()),
            }
            if matches!(null_inclusion, Some(NullInclusion::IncludeNulls)) {
                into.push(Expr::Identifier(quoted(INCLUDE_NULLS)));
            }
            let mut items = vec![SelectItem::UnnamedExpr(call(UNPIVOT, into))];
            items.extend(columns.iter().map(|ExprWithAlias { expr, alias }| match alias {
                Some(alias) => SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() },
                None => SelectItem::UnnamedExpr(expr.clone()),
            }));
            (select_query(items, (**table).clone())?, alias.take())
        }
        _ => return Ok(()),
    };
    *factor = derived(query, name);
    Ok(())
}

fn on_of(columns: &[Expr], source: &PivotValueSource) -> Result<Expr> {
    let column = match columns {
        [one] => one.clone(),
        several => Expr::Tuple(several.to_vec()),
    };
    Ok(match source {
        PivotValueSource::List(values) => {
            let list = values.iter().map(|ExprWithAlias { expr, alias }| match alias {
                Some(alias) => Expr::Named { expr: Box::new(expr.clone()), name: alias.clone() },
                None => expr.clone(),
            });
            Expr::InList { expr: Box::new(column), list: list.collect(), negated: false }
        }
        PivotValueSource::Any(_) => column,
        PivotValueSource::Subquery(query) => {
            Expr::InSubquery { expr: Box::new(column), subquery: query.clone(), negated: false }
        }
    })
}

/// The arguments of the call that represents PIVOT or UNPIVOT.
fn marker(select: &Select, name: &str) -> Option<Vec<Expr>> {
    let (SelectItem::UnnamedExpr(Expr::Function(function))
    | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. }) = select.projection.first()?
    else {
        return None;
    };
    let Function { name: own, args: FunctionArguments::List(list), .. } = function else { return None };
    if own.0.last()?.as_ident()?.value != name {
        return None;
    }
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(argument).collect()
}

/// Whether a SELECT represents PIVOT or UNPIVOT.
pub(crate) fn asks(select: &Select) -> bool {
    marker(select, PIVOT).is_some() || marker(select, UNPIVOT).is_some()
}

/// Rewrites a SELECT that represents PIVOT or UNPIVOT as an ordinary one. If the values of a PIVOT are not known yet,
/// returns the query for them.
pub(crate) fn rewrite(
    select: &mut Select,
    sources: &Sources,
    values: &PivotValues,
    with: &dyn Fn(Box<Query>) -> Box<Query>,
) -> Result<Option<Box<Query>>> {
    if let Some(on) = marker(select, PIVOT) {
        return pivot(select, on, sources, values, with);
    }
    if let Some(into) = marker(select, UNPIVOT) {
        unpivot(select, into, sources)?;
    }
    Ok(None)
}

/// A value of ON: the condition for its rows, and its text in column names.
struct OnValue {
    condition: Expr,
    text: String,
}

fn pivot(
    select: &mut Select,
    on: Vec<Expr>,
    sources: &Sources,
    values: &PivotValues,
    with: &dyn Fn(Box<Query>) -> Box<Query>,
) -> Result<Option<Box<Query>>> {
    let mut items: Vec<SelectItem> = select.projection.drain(..).skip(1).collect();
    if items.is_empty() {
        let all = call("count", vec![number(1)]);
        items.push(SelectItem::ExprWithAlias {
            expr: all,
            alias: Ident { value: "count(*)".into(), quote_style: Some('"'), span: Span::empty() },
        });
    }
    // Without ON, PIVOT is a plain aggregation; without GROUP BY too, it aggregates all rows.
    let groups = match (&select.group_by, on.is_empty()) {
        (GroupByExpr::Expressions(keys, _), true) => keys.clone(),
        _ => groups(select, &on, &items, sources)?,
    };
    let mut combinations = vec![OnValue { condition: Expr::value(Value::Boolean(true)), text: String::new() }];
    for expr in on {
        let found = match values_of(&expr, select, values, with)? {
            Ok(found) => found,
            Err(query) => return Ok(Some(query)),
        };
        combinations = product(combinations, &found);
        if combinations.len() > COLUMNS_MAX {
            return Err(Error::invalid(format!("PIVOT makes more than {COLUMNS_MAX} columns"))
                .with_hint("write the values: PIVOT t ON column IN (value, …)"));
        }
    }
    select.projection = groups.iter().map(|group| SelectItem::UnnamedExpr(group.clone())).collect();
    for OnValue { condition, text } in &combinations {
        for item in &items {
            select.projection.push(aggregate(item, condition, text, items.len())?);
        }
    }
    select.group_by = GroupByExpr::Expressions(groups, vec![]);
    Ok(None)
}

fn product(left: Vec<OnValue>, right: &[OnValue]) -> Vec<OnValue> {
    let pair = |a: &OnValue, b: &OnValue| OnValue {
        condition: match &a.condition {
            Expr::Value(_) => b.condition.clone(),
            condition => and(Some(condition.clone()), b.condition.clone()),
        },
        text: if a.text.is_empty() { b.text.clone() } else { format!("{}_{}", a.text, b.text) },
    };
    left.iter().flat_map(|a| right.iter().map(|b| pair(a, b)).collect::<Vec<_>>()).collect()
}

/// The columns by which rows are grouped: those of GROUP BY, or all that PIVOT does not name.
fn groups(select: &Select, on: &[Expr], items: &[SelectItem], sources: &Sources) -> Result<Vec<Expr>> {
    if let GroupByExpr::Expressions(keys, _) = &select.group_by
        && !keys.is_empty()
    {
        return Ok(keys.clone());
    }
    let star = sources.star.as_ref().ok_or_else(|| unknown_columns("PIVOT without GROUP BY"))?;
    let mut used: Vec<String> = vec![];
    let mut note = |expr: &mut Expr| match expr {
        Expr::Identifier(name) => used.push(folded(name)),
        Expr::CompoundIdentifier(names) => used.extend(names.last().map(folded)),
        _ => {}
    };
    each_own_expr(&mut on.to_vec(), &mut note);
    each_own_expr(&mut items.to_vec(), &mut note);
    Ok(star.iter().filter(|column| !used.contains(&column.name)).map(Starred::expr).collect())
}

/// The values of an expression of ON; or the query for them, if they are not known yet.
fn values_of(
    on: &Expr,
    select: &Select,
    values: &PivotValues,
    with: &dyn Fn(Box<Query>) -> Box<Query>,
) -> Result<std::result::Result<Vec<OnValue>, Box<Query>>> {
    let by_text = |expr: &Expr, texts: &[String]| -> Vec<OnValue> {
        let cast = as_text(expr);
        let value = |value: &String| OnValue {
            condition: fragments::binary(cast.clone(), BinaryOperator::Eq, text(value)),
            text: value.clone(),
        };
        texts.iter().map(value).collect()
    };
    let (expr, query) = match on {
        Expr::InList { expr, list, negated: false } => {
            return Ok(Ok(list.iter().map(|value| of_list(expr, value)).collect::<Result<_>>()?));
        }
        Expr::InSubquery { expr, subquery, negated: false } => ((**expr).clone(), subquery.clone()),
        expr => (expr.clone(), distinct_values(expr, select)?),
    };
    let query = with(query);
    Ok(match values.get(&query.to_string()) {
        Some(texts) => Ok(by_text(&expr, texts)),
        None => Err(query),
    })
}

fn as_text(expr: &Expr) -> Expr {
    Expr::Cast {
        kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
        expr: Box::new(expr.clone()),
        data_type: datafusion::sql::sqlparser::ast::DataType::Varchar(None),
        array: false,
        format: None,
    }
}

/// A value that the statement lists, with its name.
fn of_list(expr: &Expr, value: &Expr) -> Result<OnValue> {
    let (value, name) = match value {
        Expr::Named { expr, name } => ((**expr).clone(), Some(name.value.clone())),
        // A name in a list represents its text.
        Expr::Identifier(name) => (text(&name.value), None),
        other => (other.clone(), None),
    };
    let (exprs, values) = match (expr, &value) {
        (Expr::Tuple(exprs), Expr::Tuple(values)) if exprs.len() == values.len() => (exprs.clone(), values.clone()),
        (Expr::Tuple(_), _) => {
            return Err(Error::invalid(format!("{value} is not one value for each column of PIVOT")));
        }
        (Expr::Nested(expr), _) => (vec![(**expr).clone()], vec![value.clone()]),
        _ => (vec![expr.clone()], vec![value.clone()]),
    };
    let mut condition = None;
    for (expr, value) in exprs.into_iter().zip(&values) {
        condition = Some(and(condition, Expr::IsNotDistinctFrom(Box::new(expr), Box::new(value.clone()))));
    }
    let shown = |value: &Expr| match value {
        Expr::Value(value) => value.value.clone().into_string().unwrap_or_else(|| value.value.to_string()),
        other => other.to_string(),
    };
    let text = name.unwrap_or_else(|| values.iter().map(shown).collect::<Vec<_>>().join("_"));
    Ok(OnValue { condition: condition.unwrap_or(Expr::value(Value::Boolean(true))), text })
}

/// The query for all distinct values of an expression, as texts in ascending order.
fn distinct_values(expr: &Expr, select: &Select) -> Result<Box<Query>> {
    let mut query = bare_query()?;
    let SetExpr::Select(inner) = query.body.as_mut() else { return Ok(query) };
    inner.from = select.from.clone();
    inner.selection = Some(Expr::IsNotNull(Box::new(expr.clone())));
    inner.projection = vec![SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted("value") }];
    inner.group_by = GroupByExpr::Expressions(vec![expr.clone()], vec![]);
    let value = as_text(&Expr::Identifier(quoted("value")));
    let mut texts = select_query(
        vec![SelectItem::ExprWithAlias { expr: value, alias: quoted("text") }],
        derived(query, Some(alias(quoted("__values")))),
    )?;
    // Only the order of the outermost query is preserved.
    texts.order_by = Some(datafusion::sql::sqlparser::ast::OrderBy {
        kind: datafusion::sql::sqlparser::ast::OrderByKind::Expressions(vec![fragments::ascending(Expr::Identifier(
            quoted("value"),
        ))]),
        interpolate: None,
    });
    Ok(texts)
}

/// An aggregate of the rows with one value.
fn aggregate(item: &SelectItem, condition: &Expr, value: &str, aggregates: usize) -> Result<SelectItem> {
    let (expr, name) = match item {
        SelectItem::ExprWithAlias { expr, alias } if alias.span == Span::empty() && aggregates == 1 => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value.clone())),
        SelectItem::UnnamedExpr(expr) if aggregates == 1 => (expr, None),
        SelectItem::UnnamedExpr(expr) => (expr, Some(expr.to_string())),
        other => return Err(Error::invalid(format!("PIVOT takes aggregates, not {other}"))),
    };
    if value.is_empty() && matches!(condition, Expr::Value(_)) {
        return Ok(item.clone());
    }
    let mut filtered = expr.clone();
    let mut calls = 0;
    each_own_expr(&mut filtered, &mut |part| {
        if let Expr::Function(function) = part
            && calls == 0
        {
            calls += 1;
            function.filter = Some(Box::new(and(function.filter.take().map(|filter| *filter), condition.clone())));
        }
    });
    if calls == 0 {
        return Err(Error::invalid(format!("PIVOT takes aggregates, not {expr}")).with_hint("USING sum(amount)"));
    }
    let name = name.map_or_else(|| value.to_owned(), |name| format!("{value}_{name}"));
    Ok(SelectItem::ExprWithAlias { expr: filtered, alias: quoted(&name) })
}

/// The columns that UNPIVOT converts to one row, and the name of the row.
struct Unpivoted {
    columns: Vec<Expr>,
    name: String,
}

fn unpivot(select: &mut Select, into: Vec<Expr>, sources: &Sources) -> Result<()> {
    let mut names = into.into_iter().filter_map(|name| match name {
        Expr::Identifier(name) => Some(name),
        _ => None,
    });
    let name = names.next().unwrap_or_else(|| quoted("name"));
    let mut values: Vec<Ident> = names.collect();
    let includes_nulls = values.pop_if(|last| last.value == INCLUDE_NULLS).is_some();
    let items: Vec<SelectItem> = select.projection.drain(..).skip(1).collect();
    let star_of_from = sources.star.as_ref().ok_or_else(|| unknown_columns("UNPIVOT"))?;
    let mut expanded = select.clone();
    expanded.projection = items;
    super::stars::expand_all(&mut expanded, sources)?;
    let entries = expanded.projection.into_iter().map(entry).collect::<Result<Vec<_>>>()?;
    if let Some(wrong) = entries.iter().find(|entry| entry.columns.len() != values.len()) {
        return Err(Error::invalid(format!(
            "UNPIVOT has {} names for values and {} columns for {}",
            values.len(),
            wrong.columns.len(),
            wrong.name
        )));
    }
    let used: Vec<String> = entries.iter().flat_map(|entry| &entry.columns).filter_map(column_name).collect();
    let list =
        |elements: Vec<Expr>| Expr::Array(datafusion::sql::sqlparser::ast::Array { elem: elements, named: false });
    let unnested = |elements: Vec<Expr>, alias: &Ident| SelectItem::ExprWithAlias {
        expr: call("unnest", vec![list(elements)]),
        alias: alias.clone(),
    };
    let others = star_of_from.iter().filter(|column| !used.contains(&column.name));
    select.projection = others.map(|column| SelectItem::UnnamedExpr(column.expr())).collect();
    select.projection.push(unnested(entries.iter().map(|entry| text(&entry.name)).collect(), &name));
    for (at, value) in values.iter().enumerate() {
        let column = |entry: &Unpivoted| entry.columns.get(at).cloned().unwrap_or(Expr::value(Value::Null));
        select.projection.push(unnested(entries.iter().map(column).collect(), value));
    }
    if !includes_nulls {
        let known = |value: &Ident| Expr::IsNotNull(Box::new(Expr::Identifier(value.clone())));
        let all = values.iter().fold(None, |before, value| Some(and(before, known(value))));
        let mut inner = bare_query()?;
        *inner.body = SetExpr::Select(Box::new(select.clone()));
        let name = Some(alias(quoted("__unpivoted")));
        let mut outer = select_query(vec![star()], derived(inner, name))?;
        let SetExpr::Select(outer) = outer.body.as_mut() else { return Ok(()) };
        outer.selection = all;
        *select = (**outer).clone();
    }
    Ok(())
}

fn entry(item: SelectItem) -> Result<Unpivoted> {
    let (expr, name) = match item {
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => {
            let given = alias.span != Span::empty() && column_name(&expr).as_ref() != Some(&folded(&alias));
            (expr, given.then_some(alias.value))
        }
        other => return Err(Error::invalid(format!("UNPIVOT takes columns, not {other}"))),
    };
    let columns = match expr {
        Expr::Tuple(columns) => columns,
        Expr::Nested(column) => vec![*column],
        column => vec![column],
    };
    let names: Vec<String> =
        columns.iter().map(|column| column_name(column).unwrap_or_else(|| column.to_string())).collect();
    Ok(Unpivoted { columns, name: name.unwrap_or_else(|| names.join("_")) })
}

fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(names) => names.last().map(folded),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => column_name(expr),
        _ => None,
    }
}
