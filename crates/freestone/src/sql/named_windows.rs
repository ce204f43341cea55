//! Expands named windows and HAVING before a query is planned, and refuses window functions where there are no windows.
//! DataFusion resolves `OVER w` only in the SELECT list, and ignores the PARTITION BY of `w` in `OVER (w ORDER BY x)`. It refuses HAVING in a query without groups and
//! aggregates, for which SQL defines a single group.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, NamedWindowDefinition,
    NamedWindowExpr, Select, SelectItem, SetExpr, VisitMut, VisitorMut, WindowFrameBound, WindowSpec, WindowType,
};

use crate::error::{Error, Result};
use crate::sql::names::folded;
use crate::sql::visitor::each_own_expr;
use crate::sql::{fragments, frame_exclusion, visitor};
use crate::windows::ORDERED_BY;

/// Expands named windows and HAVING without groups, and refuses invalid windows.
pub(crate) fn rewrite(sql: &mut impl VisitMut) -> Result<()> {
    let mut rewrite = Rewrite(Ok(()));
    let _ = visitor::visit_mut(sql, &mut rewrite);
    visitor::expressions_mut(sql, &mut own_order);
    rewrite.0
}

/// Writes the ORDER BY of an aggregate over a window as calls in the PARTITION BY of the window, where
/// [`crate::windows::own_order`] finds them in the plan.
fn own_order(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    let (FunctionArguments::List(list), Some(WindowType::WindowSpec(window))) = (&mut call.args, &mut call.over) else {
        return;
    };
    list.clauses.retain(|clause| {
        let FunctionArgumentClause::OrderBy(keys) = clause else { return true };
        for key in keys {
            let direction = if key.options.asc == Some(false) { "DESC" } else { "ASC" };
            let nulls = match key.options.nulls_first {
                Some(true) => "FIRST",
                Some(false) => "LAST",
                None => "",
            };
            let key = vec![key.expr.clone(), fragments::text(direction), fragments::text(nulls)];
            window.partition_by.push(fragments::call(ORDERED_BY, key));
        }
        false
    });
}

/// The first error.
struct Rewrite(Result<()>);

impl Rewrite {
    fn go_on_if(&mut self, done: Result<()>) -> ControlFlow<()> {
        visitor::noted(&mut self.0, done)
    }
}

impl VisitorMut for Rewrite {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        // The ORDER BY of a query can refer to the windows of its SELECT.
        let done = windows_of(select).and_then(|windows| use_windows(&mut query.order_by, &windows));
        self.go_on_if(done)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let done = in_select(select);
        self.go_on_if(done)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let Some(WindowType::WindowSpec(window)) = &call.over else { return ControlFlow::Continue(()) };
        let done = check_frame(window);
        self.go_on_if(done)
    }
}

fn in_select(select: &mut Select) -> Result<()> {
    let windows = windows_of(select)?;
    select.named_window.clear();
    without_windows(&mut select.selection, "WHERE")?;
    without_windows(&mut select.group_by, "GROUP BY")?;
    without_windows(&mut select.having, "HAVING")?;
    for item in &mut select.projection {
        use_windows(item, &windows)?;
    }
    use_windows(&mut select.qualify, &windows)?;
    with_window(select);
    let has_groups = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if let Some(condition) = select.having.take() {
        select.having = Some(if has_groups { condition } else { of_one_group(condition) });
    }
    Ok(())
}

/// What is called for each expression.
type Each<'a> = &'a mut dyn FnMut(&Expr) -> ControlFlow<()>;

/// Adds a window function of the SELECT list to a QUALIFY without one, as a condition that is always true. DataFusion does
/// not see those of the list.
fn with_window(select: &mut Select) {
    let find = |part: &dyn Fn(Each)| {
        let mut found = None;
        part(&mut |expr: &Expr| match expr {
            Expr::Function(call) if call.over.is_some() => {
                found = Some(expr.clone());
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        found
    };
    let own = |each: Each| {
        let _ = visitor::expressions(&select.qualify, each);
    };
    let of_list = |each: &mut dyn FnMut(&Expr) -> ControlFlow<()>| {
        let _ = visitor::expressions(&select.projection, each);
    };
    if select.qualify.is_none() || find(&own).is_some() {
        return;
    }
    let Some(window) = find(&of_list).map(Box::new) else { return };
    let is_any = fragments::binary(Expr::IsNull(window.clone()), BinaryOperator::Or, Expr::IsNotNull(window));
    let qualify = select.qualify.take();
    select.qualify = Some(fragments::and(qualify, Expr::Nested(Box::new(is_any))));
}

/// Refuses window functions in a clause that is evaluated before them.
fn without_windows(clause: &mut impl VisitMut, name: &str) -> Result<()> {
    let mut found = false;
    each_own_expr(clause, &mut |expr| found |= matches!(expr, Expr::Function(call) if call.over.is_some()));
    if !found {
        return Ok(());
    }
    Err(Error::invalid(format!("window functions are not allowed in {name}"))
        .with_hint("write the condition behind QUALIFY, or compute the function in a subquery of FROM"))
}

/// The condition AND an aggregate that is always true, so that all rows are one group.
fn of_one_group(condition: Expr) -> Expr {
    let Ok(query) = fragments::parsed_query("SELECT count(*) >= 0") else { return condition };
    let SetExpr::Select(mut select) = *query.body else { return condition };
    let Some(SelectItem::UnnamedExpr(count) | SelectItem::ExprWithAlias { expr: count, .. }) = select.projection.pop()
    else {
        return condition;
    };
    let condition = Expr::Nested(Box::new(condition));
    Expr::BinaryOp { left: Box::new(condition), op: BinaryOperator::And, right: Box::new(count) }
}

/// The windows of a SELECT by name, each expanded.
fn windows_of(select: &Select) -> Result<Vec<(String, WindowSpec)>> {
    let mut windows: Vec<(String, WindowSpec)> = vec![];
    for NamedWindowDefinition(name, window) in &select.named_window {
        let folded_name = folded(name);
        if windows.iter().any(|(other, _)| *other == folded_name) {
            return Err(Error::invalid(format!("window {name} is defined twice")));
        }
        let window = match window {
            NamedWindowExpr::NamedWindow(other) => find(&windows, other)?.clone(),
            NamedWindowExpr::WindowSpec(window) => extended(window, &windows)?,
        };
        check_frame(&window)?;
        windows.push((folded_name, window));
    }
    Ok(windows)
}

fn find<'a>(windows: &'a [(String, WindowSpec)], name: &Ident) -> Result<&'a WindowSpec> {
    let names = windows.iter().map(|(name, _)| name.as_str());
    let window = windows.iter().find(|(other, _)| *other == folded(name));
    window.map(|(_, window)| window).ok_or_else(|| Error::not_found("window", &name.value, names))
}

/// A window with the clauses of the window that it refers to.
fn extended(window: &WindowSpec, windows: &[(String, WindowSpec)]) -> Result<WindowSpec> {
    let Some(name) = &window.window_name else { return Ok(window.clone()) };
    let base = find(windows, name)?;
    if !window.partition_by.iter().all(frame_exclusion::is_mark) {
        return Err(Error::invalid(format!("window {name} cannot be given another PARTITION BY")));
    }
    if !window.order_by.is_empty() && !base.order_by.is_empty() {
        return Err(Error::invalid(format!("window {name} has an ORDER BY, and cannot be given another")));
    }
    if base.window_frame.is_some() {
        return Err(Error::invalid(format!("window {name} has a frame, so it cannot be extended"))
            .with_hint(format!("write OVER {name} without parentheses, or define the window without a frame")));
    }
    let order_by = if window.order_by.is_empty() { &base.order_by } else { &window.order_by };
    Ok(WindowSpec {
        window_name: None,
        partition_by: window.partition_by.iter().chain(&base.partition_by).cloned().collect(),
        order_by: order_by.clone(),
        window_frame: window.window_frame.clone(),
    })
}

/// Replaces references to windows in a part of a query by the windows. Its subqueries have their own windows.
fn use_windows(part: &mut impl VisitMut, windows: &[(String, WindowSpec)]) -> Result<()> {
    let mut using = Using { windows, depth: 0, done: Ok(()) };
    let _ = visitor::visit_mut(part, &mut using);
    using.done
}

struct Using<'a> {
    windows: &'a [(String, WindowSpec)],
    depth: usize,
    done: Result<()>,
}

impl VisitorMut for Using<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let window = match &call.over {
            Some(WindowType::NamedWindow(name)) => find(self.windows, name).cloned(),
            Some(WindowType::WindowSpec(window)) if window.window_name.is_some() => extended(window, self.windows),
            _ => return ControlFlow::Continue(()),
        };
        match window {
            Ok(window) => {
                call.over = Some(WindowType::WindowSpec(window));
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.done = Err(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Refuses frames that are always empty, whatever their offsets.
fn check_frame(window: &WindowSpec) -> Result<()> {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let Some(frame) = &window.window_frame else { return Ok(()) };
    let end = frame.end_bound.as_ref().unwrap_or(&CurrentRow);
    let problem = match (&frame.start_bound, end) {
        (Following(None), _) => "a window frame cannot begin with UNBOUNDED FOLLOWING",
        (_, Preceding(None)) => "a window frame cannot end with UNBOUNDED PRECEDING",
        (CurrentRow, Preceding(_)) => "a window frame that begins with the current row cannot end before it",
        (Following(_), Preceding(_)) => "a window frame that begins after the current row cannot end before it",
        (Following(_), CurrentRow) => "a window frame that begins after the current row cannot end with it",
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("{problem}: {} BETWEEN {} AND {end}", frame.units, frame.start_bound)))
}
