//! Calls over windows.

use datafusion_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion_expr::planner::{PlannerResult, RawWindowExpr};
use datafusion_expr::{Expr, SortExpr, WindowFunctionDefinition};
use freestone_sql::Span;
use freestone_sql::tree::{ExprKind, FrameBound, FrameExclude, Name, NamedWindow, Over, SortKey, Window};

use crate::binder::Binder;
use crate::calls::{Plain, null_treatment, positional};
use crate::error::{At, Result, invalid, unknown};
use crate::expressions::text;

/// The function that stands for a key of an aggregate's own order among the keys of its window's partitions.
const ORDERED_BY: &str = "freestone_ordered_by";

/// Window functions that DuckDB computes in an order of their own: `rank(ORDER BY a) OVER (…)`, …
const RANKS: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];
/// … and those of which rows that are equal in it are told apart by the order of the window.
const PLACED: [&str; 4] = ["row_number", "ntile", "lead", "lag"];

/// Window functions whose values depend on the places of rows.
const NUMBERING: [&str; 6] = ["row_number", "lag", "lead", "first_value", "last_value", "nth_value"];

impl Binder<'_> {
    /// A call with OVER.
    pub fn window_call(&mut self, plain: &Plain) -> Result<Expr> {
        let (call, span) = (plain.call, plain.span);
        let Some(function) = self.window_function(&plain.name) else {
            let functions = self.world.functions;
            if functions.scalar(&plain.name).is_some() {
                return Err(invalid(span, format!("OVER does not go with {}", plain.name))
                    .with_hint("it is no window function and no aggregate"));
            }
            return Err(self.no_function(&plain.name, call.name.span));
        };
        if !call.within_group.is_empty() {
            return Err(invalid(span, "a call has either OVER or WITHIN GROUP"));
        }
        let window = match &call.over {
            Some(Over::Name(name)) => self.named_window(name)?,
            Some(Over::Window(window)) => self.extended(window)?,
            None => return Err(invalid(span, "a window function has OVER")),
        };
        let (window, own_order) = in_own_order(&function, window, &call.order_by, span)?;
        let arguments = self.aggregate_arguments(plain)?;
        let signature = match &function {
            WindowFunctionDefinition::AggregateUDF(function) => function.signature(),
            WindowFunctionDefinition::WindowUDF(function) => function.signature(),
        };
        let mut args = positional(arguments, signature.parameter_names.clone(), span)?;
        let given = if self.has_collations { args.clone() } else { vec![] };
        let function = match function {
            WindowFunctionDefinition::AggregateUDF(aggregate) => {
                let aggregate = self.collated_aggregate(aggregate, call.distinct, &mut args, span)?;
                WindowFunctionDefinition::AggregateUDF(aggregate)
            }
            other => other,
        };
        let mut partition_by = vec![];
        for key in window.partition_by.iter().filter(|key| !matches!(key.kind, ExprKind::Literal(_))) {
            let value = self.expression(key)?;
            partition_by.push(self.collated(key, value)?);
        }
        partition_by.extend(self.marks_of(&window, &own_order, span)?);
        let mut order_by = self.sorts(&window.order_by)?;
        let (window_frame, bounds) = self.frame_of(window.frame.as_ref(), &mut order_by, window.span)?;
        partition_by.extend(bounds);
        let filter = call.filter.as_ref().map(|condition| self.expression(condition)).transpose()?.map(Box::new);
        let null_treatment = call.ignore_nulls.map(null_treatment);
        let func_def = function;
        let distinct = call.distinct;
        let raw =
            RawWindowExpr { func_def, args, partition_by, order_by, window_frame, filter, null_treatment, distinct };
        let value = match self.world.functions.window_call(raw).at(span)? {
            PlannerResult::Planned(value) => value.unalias(),
            PlannerResult::Original(raw) => self.of_window(raw),
        };
        self.of_collated(value, &given, span)
    }

    /// An aggregate or a window function. Of those that are both, the window function.
    fn window_function(&self, name: &str) -> Option<WindowFunctionDefinition> {
        let functions = self.world.functions;
        let is_both = |name: &str| matches!(name, "first_value" | "last_value" | "nth_value");
        match functions.aggregate(name).filter(|function| !is_both(function.name())) {
            Some(aggregate) => Some(WindowFunctionDefinition::AggregateUDF(aggregate)),
            None => functions.window(name).map(WindowFunctionDefinition::WindowUDF),
        }
    }

    /// Constants among the keys of partitions that stand for EXCLUDE, and for an aggregate's own order.
    fn marks_of(&mut self, window: &Window, order_by: &[SortKey], span: Span) -> Result<Vec<Expr>> {
        let mut marks = vec![];
        let exclusion = match window.frame.as_ref().and_then(|frame| frame.exclude) {
            Some(FrameExclude::CurrentRow) => Some("freestone$exclude current row"),
            Some(FrameExclude::Group) => Some("freestone$exclude group"),
            Some(FrameExclude::Ties) => Some("freestone$exclude ties"),
            Some(FrameExclude::NoOthers) | None => None,
        };
        if let Some(mark) = exclusion {
            marks.push(self.scalar_call("lower", vec![text(mark)], span)?);
        }
        for key in order_by {
            let value = self.expression(&key.value)?;
            let value = self.collated(&key.value, value)?;
            let key = self.sort(value, key.order);
            let direction = if key.asc { "ASC" } else { "DESC" };
            let nulls = if key.nulls_first { "FIRST" } else { "LAST" };
            let arguments = vec![key.expr, text(direction), text(nulls)];
            marks.push(self.scalar_call(ORDERED_BY, arguments, span)?);
        }
        Ok(marks)
    }

    /// The window of a name.
    fn named_window(&self, name: &Name) -> Result<Window> {
        let windows = &self.scope().windows;
        let found = windows.iter().find(|(own, _)| *own == name.text);
        let known = windows.iter().map(|(own, _)| own.as_str());
        found.map(|(_, window)| window.clone()).ok_or_else(|| unknown(name.span, "window", &name.text, known))
    }

    /// A window with the clauses of the window that it extends.
    fn extended(&self, window: &Window) -> Result<Window> {
        let Some(name) = &window.base else { return Ok(window.clone()) };
        let base = self.named_window(name)?;
        let wrong = |message: String| Err(invalid(window.span, message));
        if !window.partition_by.is_empty() {
            return wrong(format!("window {} cannot be given another PARTITION BY", name.text));
        }
        if !window.order_by.is_empty() && !base.order_by.is_empty() {
            return wrong(format!("window {} has an ORDER BY, and cannot be given another", name.text));
        }
        if base.frame.is_some() {
            return wrong(format!("window {} has a frame, so it cannot be extended", name.text));
        }
        let order_by = if window.order_by.is_empty() { base.order_by } else { window.order_by.clone() };
        let frame = window.frame.clone();
        Ok(Window { base: None, partition_by: base.partition_by, order_by, frame, span: window.span })
    }

    /// Makes the windows of WINDOW known.
    pub fn define_windows(&mut self, windows: &[NamedWindow]) -> Result<()> {
        for NamedWindow { name, window } in windows {
            if self.scope().windows.iter().any(|(own, _)| *own == name.text) {
                return Err(invalid(name.span, format!("window {} is defined twice", name.text)));
            }
            let window = self.extended(window)?;
            if let Some(scope) = self.scopes.last_mut() {
                scope.windows.push((name.text.clone(), window));
            }
        }
        Ok(())
    }

    /// A call of a function over all rows in an order.
    pub fn over_all(&mut self, name: &str, args: Vec<Expr>, order_by: Vec<SortExpr>, span: Span) -> Result<Expr> {
        self.over(name, args, vec![], order_by, span)
    }

    /// A call of a function over partitions in an order.
    pub fn over(
        &mut self,
        name: &str,
        args: Vec<Expr>,
        partition_by: Vec<Expr>,
        mut order_by: Vec<SortExpr>,
        span: Span,
    ) -> Result<Expr> {
        let Some(func_def) = self.window_function(name) else { return Err(self.no_function(name, span)) };
        let window_frame = self.frame(None, &mut order_by, span)?;
        let (filter, null_treatment, distinct) = (None, None, false);
        Ok(self.of_window(RawWindowExpr {
            func_def,
            args,
            partition_by,
            order_by,
            window_frame,
            filter,
            null_treatment,
            distinct,
        }))
    }

    fn of_window(&mut self, raw: RawWindowExpr) -> Expr {
        let RawWindowExpr {
            func_def: fun,
            args,
            partition_by,
            order_by,
            window_frame,
            filter,
            null_treatment,
            distinct,
        } = raw;
        let is_unordered = partition_by.is_empty() && order_by.is_empty();
        self.depends_on_order |= is_unordered && NUMBERING.contains(&fun.name());
        let params =
            WindowFunctionParams { args, partition_by, order_by, window_frame, filter, null_treatment, distinct };
        Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
    }
}

/// A window in which a function counts in its own order, and the keys that are left for other functions. The frame of such a
/// function must be the whole partition, of which it then is the order.
fn in_own_order(
    function: &WindowFunctionDefinition,
    window: Window,
    keys: &[SortKey],
    span: Span,
) -> Result<(Window, Vec<SortKey>)> {
    let name = match function {
        WindowFunctionDefinition::WindowUDF(function) => function.name(),
        WindowFunctionDefinition::AggregateUDF(_) => return Ok((window, keys.to_vec())),
    };
    let is_placed = PLACED.contains(&name);
    if keys.is_empty() || !is_placed && !RANKS.contains(&name) {
        return Ok((window, keys.to_vec()));
    }
    let is_whole = match &window.frame {
        None => window.order_by.is_empty(),
        Some(frame) => {
            matches!(frame.start, FrameBound::UnboundedPreceding)
                && matches!(frame.end, Some(FrameBound::UnboundedFollowing))
                && matches!(frame.exclude, None | Some(FrameExclude::NoOthers))
        }
    };
    if !is_whole {
        let message = format!("ORDER BY within {name}(…) is not available over a part of a partition");
        return Err(invalid(span, message).with_hint(
            "leave ORDER BY of the window out, or write ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        ));
    }
    let behind = if is_placed { window.order_by } else { vec![] };
    let order_by = keys.iter().cloned().chain(behind).collect();
    Ok((Window { order_by, frame: None, ..window }, vec![]))
}
