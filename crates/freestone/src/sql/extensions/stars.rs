//! Expansion of wildcards and `COLUMNS(…)`: `* RENAME`, `* REPLACE` and `* ILIKE`, and an expression for each of
//! several columns, as in `max(COLUMNS('price_.*'))`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectName, OneOrManyWithParens, OrderBy, OrderByKind, RenameSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, Value, VisitMut, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::aliases::OneColumn;
use super::unknown_columns;
use crate::error::{Error, Result};
use crate::sql::expressions::POSITION;
use crate::sql::fragments::{self, and, call, quoted, text};
use crate::sql::names::folded;
use crate::sql::visitor;
use crate::sql::visitor::each_own_expr;

/// Evaluates an expression without columns.
pub(crate) type Evaluate<'a> = dyn Fn(Expr) -> Result<ScalarValue> + 'a;

/// A column of an expanded wildcard.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Starred {
    pub table: Option<Ident>,
    pub name: String,
    /// Whether a join by USING or NATURAL has merged it with a column of another table.
    pub merged: bool,
}

impl Starred {
    pub fn expr(&self) -> Expr {
        match self.table.as_ref().filter(|_| !self.merged) {
            Some(table) => Expr::CompoundIdentifier(vec![table.clone(), quoted(&self.name)]),
            None => Expr::Identifier(quoted(&self.name)),
        }
    }

    /// The column with its table, even if a join has merged it.
    pub fn qualified(&self) -> Expr {
        Starred { merged: false, ..self.clone() }.expr()
    }

    pub fn is_of(&self, table: &str) -> bool {
        self.table.as_ref().is_some_and(|own| folded(own) == table)
    }
}

/// The columns of the FROM of one SELECT.
pub(crate) struct Sources<'a> {
    /// The columns of `*`; `None` if the columns of a table are not known.
    pub star: Option<Vec<Starred>>,
    /// All names by which a column can be referenced.
    pub names: Option<HashSet<String>>,
    /// The table functions with a single column.
    pub functions: Vec<OneColumn>,
    pub evaluate: &'a Evaluate<'a>,
}

/// Whether a SELECT has such a form.
pub(super) fn asks(select: &Select) -> bool {
    let starred = select.projection.iter().any(|item| match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => has_options(options),
        _ => false,
    });
    starred || has_columns(select)
}

fn has_columns(select: &Select) -> bool {
    let mut look = |expr: &Expr| match expr {
        Expr::Function(function) if is_columns(function) || position(function).is_some() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visitor::expressions(&select.projection, &mut look).is_break()
        || visitor::expressions(&select.distinct, &mut look).is_break()
        || visitor::expressions(&select.selection, &mut look).is_break()
        || visitor::expressions(&select.group_by, &mut look).is_break()
        || visitor::expressions(&select.having, &mut look).is_break()
        || visitor::expressions(&select.qualify, &mut look).is_break()
}

fn is_columns(function: &Function) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("columns"))
}

/// The number in a call that represents `#1`.
fn position(function: &Function) -> Option<String> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let name = function.name.0.last().and_then(|part| part.as_ident())?;
    (name.value == POSITION).then(|| list.args.first().map(ToString::to_string).unwrap_or_default())
}

/// Replaces `#1` by columns.
fn positions(part: &mut impl VisitMut, sources: &Sources, wrong: &mut Option<Error>) {
    each_own_expr(part, &mut |expr| {
        let Expr::Function(function) = &*expr else { return };
        let Some(number) = position(function) else { return };
        let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let Some(star) = &sources.star else {
            *wrong = Some(unknown_columns("#1"));
            return;
        };
        match at.and_then(|at| star.get(at)) {
            Some(column) => *expr = column.expr(),
            None => {
                let message = format!("#{number} is no column: FROM has {} columns", star.len());
                *wrong = Some(Error::invalid(message).with_hint("positions are numbered from 1"));
            }
        }
    });
}

fn has_options(options: &WildcardAdditionalOptions) -> bool {
    options.opt_exclude.is_some() || options.opt_except.is_some() || changes_names(options)
}

/// Whether a wildcard has options other than EXCLUDE of plain names, which DataFusion supports.
fn changes_names(options: &WildcardAdditionalOptions) -> bool {
    let is_qualified = |name: &ObjectName| name.0.len() > 1;
    let excludes_qualified = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => is_qualified(name),
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().any(is_qualified),
        None => false,
    };
    excludes_qualified || options.opt_rename.is_some() || options.opt_replace.is_some() || options.opt_ilike.is_some()
}

/// Expands the wildcards with options and the calls of COLUMNS of a SELECT.
pub(super) fn expand(select: &mut Select, sources: &Sources) -> Result<()> {
    expand_stars(select, sources, &|options| has_options(options) && (sources.star.is_some() || changes_names(options)))
}

/// Expands all wildcards and calls of COLUMNS of a SELECT.
pub(super) fn expand_all(select: &mut Select, sources: &Sources) -> Result<()> {
    expand_stars(select, sources, &|_| true)
}

fn expand_stars(
    select: &mut Select,
    sources: &Sources,
    is_written_out: &dyn Fn(&WildcardAdditionalOptions) -> bool,
) -> Result<()> {
    let mut wrong = None;
    // A column referenced by its position has the name of the column.
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { expr: Expr::Function(function), alias } = &*item
            && alias.span == Span::empty()
            && position(function).is_some()
        {
            *item = SelectItem::UnnamedExpr(Expr::Function(function.clone()));
        }
    }
    positions(&mut select.projection, sources, &mut wrong);
    positions(&mut select.selection, sources, &mut wrong);
    positions(&mut select.group_by, sources, &mut wrong);
    positions(&mut select.having, sources, &mut wrong);
    positions(&mut select.qualify, sources, &mut wrong);
    positions(&mut select.distinct, sources, &mut wrong);
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let mut items = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if is_written_out(&options) => {
                let star = sources.star.as_ref().ok_or_else(|| unknown_columns("* with RENAME, REPLACE or ILIKE"))?;
                items.extend(starred(star.clone(), &options, sources)?.into_iter().map(Into::into));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if is_written_out(&options) =>
            {
                let star = of_table(sources, &name)?;
                items.extend(starred(star, &options, sources)?.into_iter().map(Into::into));
            }
            SelectItem::UnnamedExpr(expr) => each_column(expr, None, sources, &mut items)?,
            SelectItem::ExprWithAlias { expr, alias } => each_column(expr, Some(alias), sources, &mut items)?,
            other => items.push(other),
        }
    }
    select.projection = items;
    for condition in [&mut select.selection, &mut select.having, &mut select.qualify] {
        if let Some(expr) = condition.take() {
            let all = copies(&expr, sources)?;
            let all = all.map(|all| all.into_iter().fold(None, |before, copy| Some(and(before, copy.expr))));
            *condition = all.unwrap_or(Some(expr));
        }
    }
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        *keys = each_key(std::mem::take(keys), sources)?;
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        *keys = each_key(std::mem::take(keys), sources)?;
    }
    Ok(())
}

/// Expands COLUMNS in keys.
fn each_key(keys: Vec<Expr>, sources: &Sources) -> Result<Vec<Expr>> {
    let mut written = Vec::with_capacity(keys.len());
    for key in keys {
        match copies(&key, sources)? {
            Some(all) => written.extend(all.into_iter().map(|copy| copy.expr)),
            None => written.push(key),
        }
    }
    Ok(written)
}

/// Expands COLUMNS in ORDER BY.
pub(crate) fn expand_order(order: &mut OrderBy, sources: &Sources) -> Result<()> {
    let mut wrong = None;
    positions(order, sources, &mut wrong);
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let OrderByKind::Expressions(keys) = &mut order.kind else { return Ok(()) };
    let mut written = Vec::with_capacity(keys.len());
    for key in std::mem::take(keys) {
        match copies(&key.expr, sources)? {
            Some(all) => {
                let options = key.options;
                written.extend(all.into_iter().map(|copy| {
                    let mut key = fragments::ascending(copy.expr);
                    key.options = options;
                    key
                }));
            }
            None => written.push(key),
        }
    }
    *keys = written;
    Ok(())
}

/// An expression with its name in the result.
struct Named {
    expr: Expr,
    name: String,
}

impl From<Named> for SelectItem {
    fn from(Named { expr, name }: Named) -> SelectItem {
        let keeps_name = match &expr {
            Expr::Identifier(own) => folded(own) == name,
            Expr::CompoundIdentifier(own) => own.last().is_some_and(|own| folded(own) == name),
            _ => false,
        };
        if keeps_name {
            return SelectItem::UnnamedExpr(expr);
        }
        SelectItem::ExprWithAlias { expr, alias: quoted(&name) }
    }
}

fn of_table(sources: &Sources, name: &ObjectName) -> Result<Vec<Starred>> {
    let table = name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
    let star = sources.star.as_ref().ok_or_else(|| unknown_columns("a star with options, or COLUMNS,"))?;
    let own: Vec<Starred> = star.iter().filter(|column| column.is_of(&table)).cloned().collect();
    if own.is_empty() {
        let tables = star.iter().filter_map(|column| column.table.as_ref()).map(|table| table.value.as_str());
        return Err(Error::not_found("table", &table, tables));
    }
    Ok(own)
}

/// The columns of a wildcard after its options are applied.
fn starred(mut star: Vec<Starred>, options: &WildcardAdditionalOptions, sources: &Sources) -> Result<Vec<Named>> {
    let excluded: Vec<ObjectName> = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![name.clone()],
        Some(ExcludeSelectItem::Multiple(names)) => names.clone(),
        None => vec![],
    };
    let except = options.opt_except.iter().flat_map(|except| {
        std::iter::once(&except.first_element)
            .chain(&except.additional_elements)
            .map(|name| ObjectName::from(vec![name.clone()]))
    });
    for name in excluded.into_iter().chain(except) {
        exclude(&mut star, &name)?;
    }
    if let Some(ilike) = &options.opt_ilike {
        let mut kept = vec![];
        for column in star {
            let matches = Expr::ILike {
                negated: false,
                any: false,
                expr: Box::new(text(&column.name)),
                pattern: Box::new(text(&ilike.pattern)),
                escape_char: None,
            };
            if is_true(matches, sources)? {
                kept.push(column);
            }
        }
        star = kept;
    }
    let mut columns: Vec<Named> =
        star.into_iter().map(|column| Named { expr: column.expr(), name: column.name }).collect();
    for item in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        let name = folded(&item.column_name);
        let column = columns.iter_mut().find(|column| column.name == name);
        let column = column.ok_or_else(|| Error::invalid(format!("REPLACE names {name}, which * does not have")))?;
        column.expr = item.expr.clone();
    }
    let renamed = match &options.opt_rename {
        Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
        Some(RenameSelectItem::Multiple(several)) => several.as_slice(),
        None => &[],
    };
    for renamed in renamed {
        let name = folded(&renamed.ident);
        let column = columns.iter_mut().find(|column| column.name == name);
        let column = column.ok_or_else(|| Error::invalid(format!("RENAME names {name}, which * does not have")))?;
        column.name = folded(&renamed.alias);
    }
    Ok(columns)
}

fn exclude(star: &mut Vec<Starred>, name: &ObjectName) -> Result<()> {
    let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident()).map(folded);
    let (column, table) = (parts.next().unwrap_or_default(), parts.next());
    let before = star.len();
    star.retain(|own| own.name != column || table.as_ref().is_some_and(|table| !own.is_of(table)));
    if name.0.len() > 2 && before - star.len() > 1 {
        return Err(Error::unsupported(format!("EXCLUDE ({name}): several tables of FROM are called so"))
            .with_hint("give each an alias, and write EXCLUDE (alias.column)"));
    }
    if star.len() == before {
        return Err(Error::not_found("column", &column, star.iter().map(|column| column.name.as_str()))
            .with_hint("EXCLUDE names columns of *"));
    }
    Ok(())
}

/// Adds an item of SELECT, once per column if it has a call of COLUMNS.
fn each_column(expr: Expr, alias: Option<Ident>, sources: &Sources, items: &mut Vec<SelectItem>) -> Result<()> {
    let Some(all) = copies(&expr, sources)? else {
        items.push(match alias {
            Some(alias) => SelectItem::ExprWithAlias { expr, alias },
            None => SelectItem::UnnamedExpr(expr),
        });
        return Ok(());
    };
    // A name that was derived from the expression's text, not given by the user.
    let alias = alias.filter(|alias| alias.span != Span::empty());
    for Named { expr: copy, name } in all {
        let name = match &alias {
            None => name,
            Some(alias) if !alias.value.contains('\\') => folded(alias),
            Some(alias) => by_pattern(&expr, alias, &name, sources)?,
        };
        items.push(Named { expr: copy, name }.into());
    }
    Ok(())
}

/// The alias of a column: `\0` is its name, and `\1` the first group of the pattern's match.
fn by_pattern(expr: &Expr, alias: &Ident, name: &str, sources: &Sources) -> Result<String> {
    let mut pattern = None;
    each_own_expr(&mut expr.clone(), &mut |part| {
        if let Some((_, FunctionArgExpr::Expr(Expr::Value(value)))) = columns_call(part) {
            pattern = value.value.clone().into_string();
        }
    });
    let replaced = call(
        "regexp_replace",
        vec![
            text(name),
            text(&format!("^.*?{}.*$", pattern.unwrap_or_else(|| ".*".to_owned()))),
            text(&alias.value.replace("\\0", name)),
        ],
    );
    Ok(text_of((sources.evaluate)(replaced)?).unwrap_or_else(|| name.to_owned()))
}

fn text_of(value: ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => text,
        _ => None,
    }
}

/// The argument of a call of COLUMNS, and the qualifying table.
fn columns_call(expr: &Expr) -> Option<(Option<ObjectName>, FunctionArgExpr)> {
    let Expr::Function(function) = expr else { return None };
    let Function { name, args: FunctionArguments::List(list), over: None, .. } = function else { return None };
    let before = name.0.split_last().map(|(_, before)| before).filter(|_| is_columns(function))?;
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return None };
    Some(((!before.is_empty()).then(|| ObjectName(before.to_vec())), argument.clone()))
}

/// The copies of an expression, one per column of its COLUMNS; `None` without COLUMNS.
fn copies(expr: &Expr, sources: &Sources) -> Result<Option<Vec<Named>>> {
    let mut found: Vec<(Option<ObjectName>, FunctionArgExpr)> = vec![];
    each_own_expr(&mut expr.clone(), &mut |part| {
        if let Some(call) = columns_call(part)
            && !found.contains(&call)
        {
            found.push(call);
        }
    });
    let (table, argument) = match found.as_slice() {
        [] => return Ok(None),
        [(table, argument)] => (table, argument),
        _ => return Err(Error::invalid("an expression has several COLUMNS that differ: they must be the same")),
    };
    let star = match table {
        Some(table) => of_table(sources, table)?,
        None => sources.star.clone().ok_or_else(|| unknown_columns("COLUMNS"))?,
    };
    let columns = selected(star, argument, sources)?;
    let copies = columns.into_iter().map(|Named { expr: column, name }| {
        let mut copy = expr.clone();
        each_own_expr(&mut copy, &mut |part| {
            if columns_call(part).is_some() {
                *part = column.clone();
            }
        });
        Named { expr: copy, name }
    });
    Ok(Some(copies.collect()))
}

/// The columns that the argument of COLUMNS selects.
fn selected(star: Vec<Starred>, argument: &FunctionArgExpr, sources: &Sources) -> Result<Vec<Named>> {
    let named = |column: Starred| Named { expr: column.expr(), name: column.name };
    let condition: Box<dyn Fn(&str) -> Expr> = match argument {
        FunctionArgExpr::Wildcard => return Ok(star.into_iter().map(named).collect()),
        FunctionArgExpr::QualifiedWildcard(table) => {
            return Ok(of_table(sources, table)?.into_iter().map(named).collect());
        }
        FunctionArgExpr::WildcardWithOptions(options) => return starred(star, options, sources),
        FunctionArgExpr::Expr(Expr::Array(list)) => {
            let names = list.elem.iter().map(|name| match name {
                Expr::Value(value) => value.value.clone().into_string(),
                _ => None,
            });
            let names: Option<Vec<String>> = names.collect();
            let names = names.ok_or_else(|| Error::invalid("COLUMNS takes a list of names in quotes"))?;
            let of_name = |name: &String| {
                let column = star.iter().find(|column| column.name.eq_ignore_ascii_case(name)).cloned();
                let known = star.iter().map(|column| column.name.as_str());
                column.map(named).ok_or_else(|| Error::not_found("column", name, known))
            };
            return names.iter().map(of_name).collect();
        }
        FunctionArgExpr::Expr(Expr::Lambda(lambda)) => {
            let parameter = match &lambda.params {
                OneOrManyWithParens::One(one) => one.name.clone(),
                OneOrManyWithParens::Many(several) => match several.as_slice() {
                    [one] => one.name.clone(),
                    _ => return Err(Error::invalid("the lambda of COLUMNS takes one name")),
                },
            };
            let body = (*lambda.body).clone();
            Box::new(move |name| {
                let mut condition = body.clone();
                each_own_expr(&mut condition, &mut |part| {
                    if matches!(part, Expr::Identifier(own) if folded(own) == folded(&parameter)) {
                        *part = text(name);
                    }
                });
                condition
            })
        }
        FunctionArgExpr::Expr(Expr::Value(value)) if matches!(value.value, Value::SingleQuotedString(_)) => {
            let pattern = Expr::Value(value.clone());
            Box::new(move |name| fragments::binary(text(name), BinaryOperator::PGRegexMatch, pattern.clone()))
        }
        FunctionArgExpr::Expr(other) => {
            return Err(Error::invalid(format!("COLUMNS does not take {other}"))
                .with_hint("COLUMNS(*), COLUMNS('pattern'), COLUMNS(['a', 'b']) or COLUMNS(lambda name: …)"));
        }
    };
    let mut columns = vec![];
    for column in star {
        if is_true(condition(&column.name), sources)? {
            columns.push(named(column));
        }
    }
    if columns.is_empty() {
        return Err(Error::invalid("COLUMNS selects no column"));
    }
    Ok(columns)
}

fn is_true(condition: Expr, sources: &Sources) -> Result<bool> {
    Ok(matches!((sources.evaluate)(condition)?, ScalarValue::Boolean(Some(true))))
}
