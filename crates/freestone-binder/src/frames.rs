//! Frames of windows.

use arrow_schema::DataType;
use datafusion_common::tree_node::TreeNode;
use datafusion_common::{DFSchema, Dependency, ScalarValue};
use datafusion_expr::{Cast, Expr, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use freestone_sql::Span;
use freestone_sql::tree::{self, BinaryOperator, ExprKind, Frame, FrameBound, FrameUnit, Literal};

use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::expressions::text;
use crate::scopes::Scope;
use crate::table_calls::reads_columns;

/// The function that stands for the bounds of a frame that each row computes, among the keys of its window's partitions.
const FRAME_BOUNDS: &str = "freestone_frame_bounds";

/// What one computed bound is among the arguments of [`FRAME_BOUNDS`].
struct ComputedBound {
    /// `preceding` or `following`, or nothing for a bound that is not computed.
    side: &'static str,
    /// The number of rows, of groups, or the distance.
    offset: Expr,
    /// The value at the distance from the key of the order, for RANGE.
    target: Expr,
}

impl Binder<'_> {
    /// The frame of a window, and the call that stands for its bounds if each row computes them.
    pub fn frame_of(
        &mut self,
        written: Option<&Frame>,
        order_by: &mut Vec<SortExpr>,
        span: Span,
    ) -> Result<(WindowFrame, Option<Expr>)> {
        let Some(computed) = written.filter(|frame| frame.offsets().any(|offset| self.is_of_rows(offset))) else {
            return Ok((self.frame(written, order_by, span)?, None));
        };
        let end = computed.end.as_ref().unwrap_or(&FrameBound::CurrentRow);
        check(&computed.start, end, span)?;
        let units = units(computed.unit);
        if units == WindowFrameUnits::Range && order_by.len() != 1 {
            return Err(invalid(span, "RANGE with an offset has one key of ORDER BY"));
        }
        let (start_bound, start) = self.computed_bound(&computed.start, units, order_by)?;
        let (end_bound, end) = self.computed_bound(end, units, order_by)?;
        // The frame itself has no end where each row computes one.
        let open = || ScalarValue::UInt64(None);
        let start_bound = start_bound.unwrap_or_else(|| WindowFrameBound::Preceding(open()));
        let end_bound = end_bound.unwrap_or_else(|| WindowFrameBound::Following(open()));
        let frame = WindowFrame::new_bounds(units, start_bound, end_bound);
        frame.regularize_order_bys(order_by).at(span)?;
        let arguments = [start, end].into_iter().flat_map(|bound| [text(bound.side), bound.offset, bound.target]);
        let call = self.scalar_call(FRAME_BOUNDS, arguments.collect(), span)?;
        Ok((frame, Some(call)))
    }

    /// Whether an offset has a value for each row.
    fn is_of_rows(&mut self, offset: &tree::Expr) -> bool {
        // What cannot be bound is said when it is.
        self.expression(offset).is_ok_and(|value| {
            let aggregates = value.exists(|part| Ok(matches!(part, Expr::AggregateFunction(_))));
            reads_columns(&value) || aggregates.unwrap_or(false)
        })
    }

    /// A bound in a frame of which one is computed, and what the frame has in its place if this one is not.
    fn computed_bound(
        &mut self,
        written: &FrameBound,
        units: WindowFrameUnits,
        order_by: &[SortExpr],
    ) -> Result<(Option<WindowFrameBound>, ComputedBound)> {
        let nothing = || Expr::Literal(ScalarValue::Null, None);
        let (offset, is_preceding) = match written {
            FrameBound::Preceding(offset) => (offset, true),
            FrameBound::Following(offset) => (offset, false),
            FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing | FrameBound::CurrentRow => {
                let bound = self.frame_bound(written, units)?;
                return Ok((Some(bound), ComputedBound { side: "", offset: nothing(), target: nothing() }));
            }
        };
        let value = self.expression(offset)?;
        let (offset, target) = match (units, order_by) {
            (WindowFrameUnits::Range, [key]) => {
                // In descending order, what precedes a value is greater.
                let operator = if is_preceding == key.asc { BinaryOperator::Minus } else { BinaryOperator::Plus };
                let (functions, schema) = (self.world.functions, self.schema());
                let target = functions.binary(operator, key.expr.clone(), value.clone(), &schema).at(offset.span)?;
                (value, target)
            }
            _ => (Expr::Cast(Cast::new(Box::new(value), DataType::Int64)), nothing()),
        };
        let side = if is_preceding { "preceding" } else { "following" };
        Ok((None, ComputedBound { side, offset, target }))
    }

    /// The frame of a window, or the one that it has if none is written.
    pub fn frame(&mut self, written: Option<&Frame>, order_by: &mut Vec<SortExpr>, span: Span) -> Result<WindowFrame> {
        let Some(written) = written else {
            let is_strict = order_by.first().map(|first| is_unique(&first.expr, &self.schema()));
            return Ok(WindowFrame::new(is_strict));
        };
        let units = units(written.unit);
        let end = written.end.as_ref().unwrap_or(&FrameBound::CurrentRow);
        check(&written.start, end, span)?;
        let (start, end) = (self.frame_bound(&written.start, units)?, self.frame_bound(end, units)?);
        let frame = WindowFrame::new_bounds(units, start, end);
        frame.regularize_order_bys(order_by).at(span)?;
        Ok(frame)
    }

    fn frame_bound(&mut self, written: &FrameBound, units: WindowFrameUnits) -> Result<WindowFrameBound> {
        Ok(match written {
            FrameBound::UnboundedPreceding => WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
            FrameBound::UnboundedFollowing => WindowFrameBound::Following(ScalarValue::UInt64(None)),
            FrameBound::CurrentRow => WindowFrameBound::CurrentRow,
            FrameBound::Preceding(offset) => WindowFrameBound::Preceding(self.offset(offset, units)?),
            FrameBound::Following(offset) => WindowFrameBound::Following(self.offset(offset, units)?),
        })
    }

    /// The offset of a bound: a number of rows or groups, or the text of a distance, which takes the type of the order's key.
    fn offset(&mut self, written: &tree::Expr, units: WindowFrameUnits) -> Result<ScalarValue> {
        if units == WindowFrameUnits::Range
            && let Some(distance) = self.distance(written)
        {
            return Ok(ScalarValue::Utf8(Some(distance)));
        }
        let (value, _) = self.within(Scope::empty(), |binder| binder.expression(written))?;
        let wrong = |message: &str| invalid(written.span, message);
        if reads_columns(&value) {
            return Err(wrong("an offset of a window frame is a constant, and no value of each row"));
        }
        let value = self.world.functions.constant(value).at(written.span)?;
        if value.is_null() {
            return Err(wrong("an offset of a frame is a non negative number, and not NULL"));
        }
        let number = value.data_type().is_numeric();
        if number && value.to_string().starts_with('-') {
            return Err(wrong("an offset of a frame is a non negative number"));
        }
        if units == WindowFrameUnits::Range {
            return match value.try_as_str() {
                Some(text) => Ok(ScalarValue::Utf8(text.map(str::to_owned))),
                None if number => Ok(ScalarValue::Utf8(Some(value.to_string()))),
                None => match interval_text(&value) {
                    Some(distance) => Ok(ScalarValue::Utf8(Some(distance))),
                    None => Err(wrong("an offset of RANGE is a number or an interval")),
                },
            };
        }
        match value.to_string().parse::<u64>() {
            Ok(rows) if number => Ok(ScalarValue::UInt64(Some(rows))),
            _ => Err(wrong("an offset of ROWS and GROUPS is a whole number")),
        }
    }

    /// The text of a distance that is written as an interval of a text or number.
    fn distance(&self, written: &tree::Expr) -> Option<String> {
        let ExprKind::Interval { value, unit } = &written.kind else { return None };
        let ExprKind::Literal(Literal::Text(amount) | Literal::Number(amount)) = &value.kind else { return None };
        match unit {
            None => Some(amount.clone()),
            Some(unit) if unit.last.is_none() => Some(format!("{amount} {}", unit.first.word())),
            Some(unit) => interval_text(&self.world.functions.interval(amount, Some(*unit))?),
        }
    }
}

/// The text of an interval.
fn interval_text(value: &ScalarValue) -> Option<String> {
    let ScalarValue::IntervalMonthDayNano(Some(interval)) = value else { return None };
    let (months, days, nanoseconds) = (interval.months, interval.days, interval.nanoseconds);
    Some(format!("{months} months {days} days {nanoseconds} nanoseconds"))
}

fn units(written: FrameUnit) -> WindowFrameUnits {
    match written {
        FrameUnit::Rows => WindowFrameUnits::Rows,
        FrameUnit::Range => WindowFrameUnits::Range,
        FrameUnit::Groups => WindowFrameUnits::Groups,
    }
}

/// Whether no two rows have the same value of a key.
fn is_unique(key: &Expr, schema: &DFSchema) -> bool {
    let Expr::Column(column) = key else { return false };
    let Some(at) = schema.maybe_index_of_column(column) else { return false };
    let decides = |dependency: &datafusion_common::FunctionalDependence| {
        dependency.source_indices == [at] && dependency.mode == Dependency::Single
    };
    schema.functional_dependencies().iter().any(decides)
}

/// Refuses frames that are always empty.
fn check(start: &FrameBound, end: &FrameBound, span: Span) -> Result<()> {
    use FrameBound::{CurrentRow, Following, Preceding, UnboundedFollowing, UnboundedPreceding};
    let problem = match (start, end) {
        (UnboundedFollowing, _) => "a window frame cannot begin with UNBOUNDED FOLLOWING",
        (_, UnboundedPreceding) => "a window frame cannot end with UNBOUNDED PRECEDING",
        (CurrentRow, Preceding(_)) => "a window frame that begins with the current row cannot end before it",
        (Following(_), Preceding(_)) => "a window frame that begins after the current row cannot end before it",
        (Following(_), CurrentRow) => "a window frame that begins after the current row cannot end with it",
        _ => return Ok(()),
    };
    Err(invalid(span, problem))
}
