//! Frames of windows.

use datafusion_common::{DFSchema, Dependency, ScalarValue};
use datafusion_expr::{Expr, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use freestone_sql::Span;
use freestone_sql::tree::{self, ExprKind, Frame, FrameBound, FrameUnit, Literal};

use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::scopes::Scope;
use crate::table_calls::reads_columns;

impl Binder<'_> {
    /// The frame of a window, or the one that it has if none is written.
    pub fn frame(&mut self, written: Option<&Frame>, order_by: &mut Vec<SortExpr>, span: Span) -> Result<WindowFrame> {
        let Some(written) = written else {
            let is_strict = order_by.first().map(|first| is_unique(&first.expr, &self.schema()));
            return Ok(WindowFrame::new(is_strict));
        };
        let units = match written.unit {
            FrameUnit::Rows => WindowFrameUnits::Rows,
            FrameUnit::Range => WindowFrameUnits::Range,
            FrameUnit::Groups => WindowFrameUnits::Groups,
        };
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
