//! Frames of windows.

use datafusion_common::{DFSchema, Dependency, ScalarValue};
use datafusion_expr::{Expr, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use freestone_sql::Span;
use freestone_sql::tree::{self, ExprKind, Frame, FrameBound, FrameUnit, Literal};

use crate::error::{At, Result, invalid, unsupported};

/// The frame of a window, or the one that it has if none is written.
pub(crate) fn frame(
    written: Option<&Frame>,
    order_by: &mut Vec<SortExpr>,
    schema: &DFSchema,
    span: Span,
) -> Result<WindowFrame> {
    let Some(written) = written else {
        let is_strict = order_by.first().map(|first| is_unique(&first.expr, schema));
        return Ok(WindowFrame::new(is_strict));
    };
    let units = match written.unit {
        FrameUnit::Rows => WindowFrameUnits::Rows,
        FrameUnit::Range => WindowFrameUnits::Range,
        FrameUnit::Groups => WindowFrameUnits::Groups,
    };
    let end = written.end.as_ref().unwrap_or(&FrameBound::CurrentRow);
    check(&written.start, end, span)?;
    let frame = WindowFrame::new_bounds(units, bound(&written.start, units)?, bound(end, units)?);
    frame.regularize_order_bys(order_by).at(span)?;
    Ok(frame)
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

fn bound(written: &FrameBound, units: WindowFrameUnits) -> Result<WindowFrameBound> {
    Ok(match written {
        FrameBound::UnboundedPreceding => WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        FrameBound::UnboundedFollowing => WindowFrameBound::Following(ScalarValue::UInt64(None)),
        FrameBound::CurrentRow => WindowFrameBound::CurrentRow,
        FrameBound::Preceding(offset) => WindowFrameBound::Preceding(self::offset(offset, units)?),
        FrameBound::Following(offset) => WindowFrameBound::Following(self::offset(offset, units)?),
    })
}

/// The offset of a bound: a number of rows or groups, or the text of a distance, which takes the type of the order's key.
fn offset(written: &tree::Expr, units: WindowFrameUnits) -> Result<ScalarValue> {
    if units != WindowFrameUnits::Range {
        return match &written.kind {
            ExprKind::Literal(Literal::Number(digits)) => match digits.parse::<u64>() {
                Ok(rows) => Ok(ScalarValue::UInt64(Some(rows))),
                Err(_) => Err(invalid(written.span, "an offset of ROWS and GROUPS is a whole number")),
            },
            ExprKind::Unary { .. } => Err(invalid(written.span, "an offset of a frame is not negative")),
            _ => Err(unsupported(written.span, "an offset of a frame that is computed")),
        };
    }
    match &written.kind {
        ExprKind::Literal(Literal::Number(digits)) => Ok(ScalarValue::Utf8(Some(digits.clone()))),
        ExprKind::Interval { value, unit } => {
            let ExprKind::Literal(Literal::Text(amount) | Literal::Number(amount)) = &value.kind else {
                return Err(unsupported(written.span, "an offset of a frame that is computed"));
            };
            let unit = match unit {
                None => String::new(),
                Some(unit) if unit.last.is_none() => format!(" {}", format!("{:?}", unit.first).to_uppercase()),
                Some(_) => return Err(unsupported(written.span, "an offset of a frame with several units")),
            };
            Ok(ScalarValue::Utf8(Some(format!("{amount}{unit}"))))
        }
        _ => Err(unsupported(written.span, "an offset of a frame that is computed")),
    }
}
