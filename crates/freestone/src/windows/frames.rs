//! The frame of each row of a partition: the rows that a window function uses for it.
//!
//! DataFusion's frames fail or are wrong if a frame ends before it begins, if a bound is outside the range of its type,
//! and for NULL, NaN and infinities under RANGE. Here these frames are empty. NULLs are only in the range of NULLs, and
//! NaNs only in that of NaNs, as in PostgreSQL.

use std::cmp::Ordering;
use std::ops::Range;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{self, SortOptions};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::scalar::ScalarValue;

use super::computed::{Bounds, Direction, OF_A_BOUND};
use crate::error::{Error, ErrorKind};

/// A frame in place of one that ends before it begins, which DataFusion refuses. In PostgreSQL and DuckDB it has no
/// rows, but under RANGE, NULLs, NaNs and infinities are still in the range of their equals.
pub(crate) fn nothing(units: WindowFrameUnits) -> WindowFrame {
    let far = || {
        WindowFrameBound::Following(match units {
            WindowFrameUnits::Range => behind_all(),
            _ => ScalarValue::UInt64(Some(u64::MAX)),
        })
    };
    WindowFrame::new_bounds(units, far(), far())
}

/// The offset that stands for a position after all rows.
fn behind_all() -> ScalarValue {
    ScalarValue::from("behind all rows")
}

/// The sort keys of the rows of a partition.
pub(super) struct Order<'a> {
    pub columns: &'a [ArrayRef],
    pub options: &'a [SortOptions],
}

/// The frame of each of `rows` rows. Bounds that are computed come in place of those of the frame.
pub(super) fn frames(
    frame: &WindowFrame,
    computed: Option<&Computed<'_>>,
    order: &Order<'_>,
    rows: usize,
) -> Result<Vec<Range<usize>>> {
    let mut frames = plain_frames(frame, order, rows)?;
    if let Some(computed) = computed {
        computed.apply(frame.units, order, &mut frames)?;
    }
    frames.iter_mut().for_each(|frame| frame.end = frame.end.max(frame.start));
    Ok(frames)
}

/// The frames of rows, which may end before they begin.
fn plain_frames(frame: &WindowFrame, order: &Order<'_>, rows: usize) -> Result<Vec<Range<usize>>> {
    let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
    if is_whole {
        return Ok(vec![0..rows; rows]);
    }
    let (starts, ends) = match frame.units {
        WindowFrameUnits::Rows => {
            let start = offset_rows(&frame.start_bound)?;
            let end = offset_rows(&frame.end_bound)?;
            let place = |row: usize, offset: Option<i128>, unbounded: usize, after: i128| {
                offset.map_or(unbounded, |offset| (row as i128 + offset + after).clamp(0, rows as i128) as usize)
            };
            let starts: Vec<usize> = (0..rows).map(|row| place(row, start, 0, 0)).collect();
            (starts, (0..rows).map(|row| place(row, end, rows, 1)).collect())
        }
        WindowFrameUnits::Groups => {
            let peers = Peers::new(order, rows)?;
            let (start, end) = (offset_rows(&frame.start_bound)?, offset_rows(&frame.end_bound)?);
            let group = |row: usize, offset: i128| peers.of_row[row] as i128 + offset;
            let starts = (0..rows).map(|row| start.map_or(0, |offset| peers.start(group(row, offset)))).collect();
            (starts, (0..rows).map(|row| end.map_or(rows, |offset| peers.start(group(row, offset) + 1))).collect())
        }
        WindowFrameUnits::Range => {
            let peers = Peers::new(order, rows)?;
            let starts = by_group(&peers, order, &frame.start_bound, Side::Start)?;
            (starts, by_group(&peers, order, &frame.end_bound, Side::End)?)
        }
    };
    Ok(starts.into_iter().zip::<Vec<usize>>(ends).map(|(start, end)| start..end).collect())
}

/// The bounds that each row computes.
pub(super) struct Computed<'a> {
    start: Option<Distances<'a>>,
    end: Option<Distances<'a>>,
}

/// The offsets of one bound, and for RANGE the values at them.
struct Distances<'a> {
    direction: Direction,
    offsets: &'a ArrayRef,
    targets: &'a ArrayRef,
}

impl<'a> Computed<'a> {
    /// The bounds in the last arguments of a function.
    pub fn new(bounds: Bounds, arguments: &'a [ArrayRef]) -> Result<Self> {
        let mut columns = arguments.chunks_exact(OF_A_BOUND);
        let mut next = |direction: Option<Direction>| match (direction, direction.and_then(|_| columns.next())) {
            (None, _) => Ok(None),
            (Some(direction), Some([offsets, targets])) => Ok(Some(Distances { direction, offsets, targets })),
            (Some(_), _) => Err(Error::new(ErrorKind::Internal, "internal error: a frame without its bounds")),
        };
        Ok(Computed { start: next(bounds.start)?, end: next(bounds.end)? })
    }

    fn apply(&self, units: WindowFrameUnits, order: &Order<'_>, frames: &mut [Range<usize>]) -> Result<()> {
        if let Some(start) = &self.start {
            let starts = start.places(units, Side::Start, order, frames.len())?;
            frames.iter_mut().zip(starts).for_each(|(frame, start)| frame.start = start);
        }
        if let Some(end) = &self.end {
            let ends = end.places(units, Side::End, order, frames.len())?;
            frames.iter_mut().zip(ends).for_each(|(frame, end)| frame.end = end);
        }
        Ok(())
    }
}

impl Distances<'_> {
    /// The starts or ends of the frames.
    fn places(&self, units: WindowFrameUnits, side: Side, order: &Order<'_>, rows: usize) -> Result<Vec<usize>> {
        match units {
            WindowFrameUnits::Rows => {
                let after = if side == Side::Start { 0 } else { 1 };
                let place = |row: usize| -> Result<usize> {
                    let place = row as i128 + self.steps(row, "ROWS")? + after;
                    Ok(usize::try_from(place.clamp(0, rows as i128)).unwrap_or(rows))
                };
                (0..rows).map(place).collect()
            }
            WindowFrameUnits::Groups => {
                let peers = Peers::new(order, rows)?;
                let after = if side == Side::Start { 0 } else { 1 };
                let place = |row: usize| -> Result<usize> {
                    let group = peers.of_row[row] as i128 + self.steps(row, "GROUPS")?;
                    Ok(peers.start(group + after))
                };
                (0..rows).map(place).collect()
            }
            WindowFrameUnits::Range => self.in_range(side, order, rows),
        }
    }

    /// The signed number of rows or groups.
    fn steps(&self, row: usize, units: &str) -> Result<i128> {
        let offsets = self.offsets.as_primitive_opt::<Int64Type>();
        let Some(offsets) = offsets.filter(|offsets| offsets.is_valid(row)) else {
            return Err(invalid(format!("an offset of {units} is NULL; it must be a number of rows or groups")));
        };
        let steps = i128::from(offsets.value(row));
        match self.direction {
            _ if steps < 0 => Err(negative(steps)),
            Direction::Preceding => Ok(-steps),
            Direction::Following => Ok(steps),
        }
    }

    /// The starts or ends for RANGE. Without an offset, and for NULL and NaN, they are those of the equals of a row.
    fn in_range(&self, side: Side, order: &Order<'_>, rows: usize) -> Result<Vec<usize>> {
        let (Some(column), Some(options)) = (order.columns.first(), order.options.first()) else {
            return Err(invalid("RANGE with an offset needs one ORDER BY column".to_owned()));
        };
        let peers = Peers::new(order, rows)?;
        let keys = compute::cast(column, self.targets.data_type())?;
        let key = |group: &Range<usize>| ScalarValue::try_from_array(&keys, group.start);
        let keys = peers.groups.iter().map(key).collect::<Result<Vec<_>>>()?;
        let up = (self.direction == Direction::Preceding) == options.descending;
        let place_of = |row: usize| -> Result<usize> {
            let group = peers.of_row[row];
            let own = || if side == Side::Start { peers.groups[group].start } else { peers.groups[group].end };
            let offset = ScalarValue::try_from_array(self.offsets, row)?;
            if offset.is_null() || keys[group].is_null() || is_nan(&keys[group]) {
                return Ok(own());
            }
            check_offset(&offset)?;
            let target = match ScalarValue::try_from_array(self.targets, row)? {
                // Infinity minus infinity.
                target if is_nan(&target) && up => Target::Above,
                target if is_nan(&target) => Target::Below,
                target => Target::At(target),
            };
            let first = keys.partition_point(|other| {
                let order = place(other, &target, *options);
                if side == Side::Start { order == Ordering::Less } else { order != Ordering::Greater }
            });
            Ok(peers.start(first as i128))
        };
        (0..rows).map(place_of).collect()
    }
}

/// The distance of a bound from the current row, in rows or groups; `None` if it is unbounded.
fn offset_rows(bound: &WindowFrameBound) -> Result<Option<i128>> {
    let count = |value: &ScalarValue| match value {
        ScalarValue::UInt64(count) => Ok(count.map(i128::from)),
        other => Err(invalid(format!("a frame of rows or groups cannot be bounded by {other}"))),
    };
    match bound {
        WindowFrameBound::Preceding(value) => Ok(count(value)?.map(|count| -count)),
        WindowFrameBound::CurrentRow => Ok(Some(0)),
        WindowFrameBound::Following(value) => count(value),
    }
}

fn invalid(message: String) -> DataFusionError {
    Error::new(ErrorKind::Invalid, message).into()
}

/// Runs of rows with equal sort keys.
pub(super) struct Peers {
    groups: Vec<Range<usize>>,
    of_row: Vec<usize>,
    rows: usize,
}

impl Peers {
    pub fn new(order: &Order<'_>, rows: usize) -> Result<Peers> {
        let groups = match order.columns {
            [] => std::iter::once(0..rows).collect(),
            columns => compute::partition(columns)?.ranges(),
        };
        let of_row = groups.iter().enumerate().flat_map(|(at, group)| std::iter::repeat_n(at, group.len())).collect();
        Ok(Peers { groups, of_row, rows })
    }

    /// The rows that are equal to a row, with itself.
    pub fn of(&self, row: usize) -> Range<usize> {
        self.groups[self.of_row[row]].clone()
    }

    /// The first row of a group, the first of all rows, or the end.
    fn start(&self, group: i128) -> usize {
        match usize::try_from(group) {
            Ok(group) => self.groups.get(group).map_or(self.rows, |group| group.start),
            Err(_) if group < 0 => 0,
            Err(_) => self.rows,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

/// The starts or ends of the frames for RANGE. They are the same for all rows of a group.
fn by_group(peers: &Peers, order: &Order<'_>, bound: &WindowFrameBound, side: Side) -> Result<Vec<usize>> {
    let offset = match bound {
        WindowFrameBound::CurrentRow => None,
        WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) if value.is_null() => {
            return Ok(vec![if side == Side::Start { 0 } else { peers.rows }; peers.rows]);
        }
        WindowFrameBound::Preceding(value) => Some((value, true)),
        WindowFrameBound::Following(value) => Some((value, false)),
    };
    let edge = |group: &Range<usize>| if side == Side::Start { group.start } else { group.end };
    let Some((offset, is_preceding)) = offset else {
        return Ok(peers.of_row.iter().map(|group| edge(&peers.groups[*group])).collect());
    };
    let (Some(column), Some(options)) = (order.columns.first(), order.options.first()) else {
        return Err(invalid("RANGE with an offset needs one ORDER BY column".to_owned()));
    };
    let is_nothing = *offset == behind_all();
    if !is_nothing {
        check_offset(offset)?;
    }
    let value = |group: &Range<usize>| ScalarValue::try_from_array(column, group.start);
    let values = peers.groups.iter().map(value).collect::<Result<Vec<_>>>()?;
    let mut edges = Vec::with_capacity(peers.groups.len());
    for (group, value) in peers.groups.iter().zip(&values) {
        // In descending order, preceding values are greater.
        let target = match value.is_null() || is_nan(value) || is_nothing && is_infinite(value) {
            true => None,
            false if is_nothing => Some(Target::Above),
            false => Some(shifted(value, offset, is_preceding == options.descending)),
        };
        edges.push(match target {
            None => edge(group),
            Some(_) if is_nothing => peers.rows,
            Some(target) => {
                let first = values.partition_point(|other| {
                    let order = place(other, &target, *options);
                    if side == Side::Start { order == Ordering::Less } else { order != Ordering::Greater }
                });
                peers.start(first as i128)
            }
        });
    }
    Ok(peers.of_row.iter().map(|group| edges[*group]).collect())
}

/// The value of a bound, or a position outside the range of its type.
enum Target {
    At(ScalarValue),
    Below,
    Above,
}

fn shifted(value: &ScalarValue, offset: &ScalarValue, up: bool) -> Target {
    let beyond = || if up { Target::Above } else { Target::Below };
    if let (ScalarValue::UInt8(_) | ScalarValue::UInt16(_) | ScalarValue::UInt32(_) | ScalarValue::UInt64(_), false) =
        (value, up)
        && value < offset
    {
        return Target::Below;
    }
    let moved = if up { value.add_checked(offset) } else { value.sub_checked(offset) };
    match moved {
        // Infinity minus infinity.
        Ok(moved) if is_nan(&moved) => beyond(),
        Ok(moved) => Target::At(moved),
        Err(_) => beyond(),
    }
}

/// The position of a value relative to a target in the order of the partition. NULL and NaN are outside of every range.
fn place(value: &ScalarValue, target: &Target, options: SortOptions) -> Ordering {
    if value.is_null() {
        return if options.nulls_first { Ordering::Less } else { Ordering::Greater };
    }
    let ascending = match target {
        _ if is_nan(value) => Ordering::Greater,
        Target::At(target) => value.partial_cmp(target).unwrap_or(Ordering::Equal),
        Target::Below => Ordering::Greater,
        Target::Above => Ordering::Less,
    };
    if options.descending { ascending.reverse() } else { ascending }
}

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(v)) => v.is_nan(),
        ScalarValue::Float32(Some(v)) => v.is_nan(),
        ScalarValue::Float64(Some(v)) => v.is_nan(),
        _ => false,
    }
}

fn is_infinite(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float32(Some(v)) => v.is_infinite(),
        ScalarValue::Float64(Some(v)) => v.is_infinite(),
        _ => false,
    }
}

/// Checks that an offset has a type that can be added, and is not negative.
fn check_offset(offset: &ScalarValue) -> Result<()> {
    if !offset.data_type().is_numeric() && !matches!(offset.data_type(), DataType::Interval(_)) {
        return Err(invalid("RANGE with an offset needs an ORDER BY of numbers or times".to_owned()));
    }
    let is_negative = match offset {
        ScalarValue::IntervalMonthDayNano(Some(v)) => v.months < 0 || v.days < 0 || v.nanoseconds < 0,
        ScalarValue::IntervalDayTime(Some(v)) => v.days < 0 || v.milliseconds < 0,
        other => ScalarValue::new_zero(&other.data_type()).is_ok_and(|zero| *other < zero),
    };
    if is_negative || is_nan(offset) {
        return Err(negative(offset));
    }
    Ok(())
}

fn negative(offset: impl std::fmt::Display) -> DataFusionError {
    invalid(format!("the offset of a window frame is {offset}; it must not be negative"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use datafusion::arrow::array::{Float64Array, Int64Array};

    fn check(frame: &WindowFrame, column: ArrayRef, descending: bool, expected: &[Range<usize>]) {
        let options = [SortOptions { descending, nulls_first: false }];
        let rows = column.len();
        let found = frames(frame, None, &Order { columns: &[column], options: &options }, rows).expect("frames");
        assert_eq!(found, expected, "{frame}");
    }

    fn frame(units: WindowFrameUnits, start: WindowFrameBound, end: WindowFrameBound) -> WindowFrame {
        WindowFrame::new_bounds(units, start, end)
    }

    #[test]
    fn frames_that_hold_nothing_are_empty() {
        use WindowFrameBound::{Following, Preceding};
        let rows = |n: u64| ScalarValue::UInt64(Some(n));
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2]));
        let inverted = frame(WindowFrameUnits::Rows, Preceding(rows(1)), Preceding(rows(2)));
        check(&inverted, column.clone(), false, &[0..0, 0..0, 1..1]);
        let far = frame(WindowFrameUnits::Rows, Following(rows(u64::MAX)), Following(rows(u64::MAX)));
        check(&far, column.clone(), false, &[3..3, 3..3, 3..3]);
        let groups = frame(WindowFrameUnits::Groups, Following(rows(1)), Following(rows(1)));
        check(&groups, column, false, &[2..3, 2..3, 3..3]);
    }

    #[test]
    fn ranges_end_with_their_type() {
        use WindowFrameBound::{Following, Preceding};
        let by = |n: i64| ScalarValue::Int64(Some(n));
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(0), Some(i64::MAX), None]));
        let wide = frame(WindowFrameUnits::Range, Preceding(by(i64::MAX)), Following(by(i64::MAX)));
        check(&wide, column, false, &[0..1, 1..3, 1..3, 3..4]);
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), Some(4), Some(2), None]));
        let near = frame(WindowFrameUnits::Range, Preceding(by(1)), Following(by(0)));
        check(&near, column, true, &[0..1, 0..2, 2..3, 3..4]);
    }

    #[test]
    fn infinities_and_nan_are_in_range_of_themselves() {
        use WindowFrameBound::{Following, Preceding};
        let by = |n: f64| ScalarValue::Float64(Some(n));
        let values = vec![f64::NEG_INFINITY, 1.0, 2.0, f64::INFINITY, f64::NAN];
        let column: ArrayRef = Arc::new(Float64Array::from(values));
        let near = frame(WindowFrameUnits::Range, Preceding(by(1.0)), Following(by(0.0)));
        check(&near, column.clone(), false, &[0..1, 1..2, 1..3, 3..4, 4..5]);
        let endless = frame(WindowFrameUnits::Range, Preceding(by(f64::INFINITY)), Following(by(f64::INFINITY)));
        check(&endless, column, false, &[0..4, 0..4, 0..4, 0..4, 4..5]);
    }
}
