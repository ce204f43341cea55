//! EXCLUDE of a window frame: rows around the current one that the frame leaves out.
//!
//! Neither the parser nor DataFusion has it. So it is written as a constant expression in PARTITION BY, by which no partition
//! changes (`sql/frame_exclusion.rs`), and found there in the plan.

use std::ops::Range;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::WindowExpr;

use super::frames::{Order, Peers};

/// The rows that a frame leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exclusion {
    CurrentRow,
    /// The current row and those that are equal to it in the order.
    Group,
    /// Those that are equal to the current row in the order, without itself.
    Ties,
}

impl Exclusion {
    pub const ALL: [Exclusion; 3] = [Exclusion::CurrentRow, Exclusion::Group, Exclusion::Ties];

    /// The constant that stands for it.
    pub fn mark(self) -> &'static str {
        match self {
            Exclusion::CurrentRow => "freestone$exclude current row",
            Exclusion::Group => "freestone$exclude group",
            Exclusion::Ties => "freestone$exclude ties",
        }
    }

    /// The exclusion that a constant stands for.
    pub fn of_mark(text: &str) -> Option<Exclusion> {
        Exclusion::ALL.into_iter().find(|exclusion| exclusion.mark() == text)
    }

    /// That of a window.
    pub(super) fn of(window: &dyn WindowExpr) -> Option<Exclusion> {
        window.partition_by().iter().find_map(Exclusion::in_key)
    }

    /// The constant is computed when the plan is optimized, or is there as it was written.
    fn in_key(key: &Arc<dyn PhysicalExpr>) -> Option<Exclusion> {
        match key.downcast_ref::<Literal>() {
            Some(constant) => constant.value().try_as_str().flatten().and_then(Exclusion::of_mark),
            None => key.children().into_iter().find_map(Exclusion::in_key),
        }
    }

    /// What each frame keeps: its parts, in order, of which none is empty.
    pub(super) fn parts(self, frames: &[Range<usize>], order: &Order<'_>) -> Result<Vec<Vec<Range<usize>>>> {
        let peers = Peers::new(order, frames.len())?;
        let parts = frames.iter().enumerate().map(|(row, frame)| {
            let current = row..row + 1;
            let left_out = if self == Exclusion::CurrentRow { current.clone() } else { peers.of(row) };
            let kept = if self == Exclusion::Ties && frame.contains(&row) { current } else { 0..0 };
            let before = frame.start..frame.end.min(left_out.start);
            let after = frame.start.max(left_out.end)..frame.end;
            [before, kept, after].into_iter().filter(|part| !part.is_empty()).collect()
        });
        Ok(parts.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::arrow::compute::SortOptions;

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn parts_leave_out_rows_around_the_current_one() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(2), None, None]));
        let options = [SortOptions { descending: false, nulls_first: false }];
        let columns = [column];
        let order = Order { columns: &columns, options: &options };
        let check = |exclusion: Exclusion, frames: &[Range<usize>], expected: &[&[Range<usize>]]| {
            let found = exclusion.parts(frames, &order).expect("parts");
            let found: Vec<&[Range<usize>]> = found.iter().map(Vec::as_slice).collect();
            assert_eq!(found, expected, "{exclusion:?}");
        };
        let all = vec![0..5; 5];
        check(Exclusion::CurrentRow, &all, &[&[1..5], &[0..1, 2..5], &[0..2, 3..5], &[0..3, 4..5], &[0..4]]);
        check(Exclusion::Group, &all, &[&[2..5], &[2..5], &[0..2, 3..5], &[0..3], &[0..3]]);
        let ties: [&[Range<usize>]; 5] =
            [&[0..1, 2..5], &[1..2, 2..5], &[0..2, 2..3, 3..5], &[0..3, 3..4], &[0..3, 4..5]];
        check(Exclusion::Ties, &all, &ties);
        let next = [1..2, 2..3, 3..4, 4..5, 5..5];
        check(Exclusion::Ties, &next, &[&[], &[2..3], &[3..4], &[], &[]]);
        check(Exclusion::CurrentRow, &next, &[&[1..2], &[2..3], &[3..4], &[4..5], &[]]);
        let unordered = Order { columns: &[], options: &[] };
        let parts = Exclusion::Group.parts(&[0..2, 0..2], &unordered).expect("parts");
        assert!(parts.iter().all(Vec::is_empty), "{parts:?}");
    }

    #[test]
    fn marks_are_found_again() {
        for exclusion in Exclusion::ALL {
            assert_eq!(Exclusion::of_mark(exclusion.mark()), Some(exclusion));
        }
        assert_eq!(Exclusion::of_mark("a"), None);
    }
}
