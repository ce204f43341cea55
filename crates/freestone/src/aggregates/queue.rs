//! Aggregates of a window frame that moves on, without taking anything out of a sum: what leaves a frame leaves nothing behind,
//! be it infinite, not a number, or large beside the rest.
//!
//! A queue of two stacks (Tangwongsan, Hirzel and Schneider, "Low-latency sliding-window aggregation in worst-case constant
//! time", 2017, section 2): values come on one, each of the other holds the aggregate of all above it; each value is moved once.

use std::fmt::Debug;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;

/// What can be put together from parts, in order.
pub(super) trait Part: Copy + Debug + Send + Sync + 'static {
    fn with(self, later: Self) -> Self;
}

/// A queue that knows the aggregate of what is in it.
#[derive(Debug)]
pub(super) struct Queue<P> {
    /// Aggregates from a value to the last of this stack; the first value is on top.
    old: Vec<P>,
    /// Values that came since.
    new: Vec<P>,
    total_of_new: Option<P>,
}

impl<P> Default for Queue<P> {
    fn default() -> Self {
        Queue { old: vec![], new: vec![], total_of_new: None }
    }
}

impl<P: Part> Queue<P> {
    pub fn push(&mut self, value: P) {
        self.new.push(value);
        self.total_of_new = Some(self.total_of_new.map_or(value, |total| total.with(value)));
    }

    /// Drops the first value.
    pub fn pop(&mut self) {
        if self.old.is_empty() {
            self.total_of_new = None;
            while let Some(value) = self.new.pop() {
                let total = self.old.last().map_or(value, |later| value.with(*later));
                self.old.push(total);
            }
        }
        self.old.pop();
    }

    /// The aggregate of all values; nothing where there are none.
    pub fn total(&self) -> Option<P> {
        match (self.old.last(), self.total_of_new) {
            (Some(old), Some(new)) => Some(old.with(new)),
            (old, new) => old.copied().or(new),
        }
    }

    pub fn bytes(&self) -> usize {
        (self.old.capacity() + self.new.capacity()) * size_of::<P>()
    }
}

/// A sum of reals, and of how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct RealSum {
    pub sum: f64,
    pub count: u64,
}

impl Part for RealSum {
    fn with(self, later: Self) -> Self {
        RealSum { sum: self.sum + later.sum, count: self.count + later.count }
    }
}

/// The sum of reals: a running one until something is taken out.
#[derive(Debug, Default)]
pub(super) struct Sums {
    queue: Queue<RealSum>,
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|sum| self.queue.push(RealSum { sum, count: 1 }));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Float64Type>().iter().flatten().for_each(|_| self.queue.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.queue.total().map(|total| total.sum)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.queue.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Span(u32, u32);

    impl Part for Span {
        fn with(self, later: Self) -> Self {
            assert_eq!(self.1 + 1, later.0, "parts come in order");
            Span(self.0, later.1)
        }
    }

    #[test]
    fn a_queue_holds_what_is_in_it() {
        let mut queue = Queue::default();
        let (mut first, mut end) = (0, 0);
        for step in 0..1000u32 {
            if step % 7 < 4 || first == end {
                queue.push(Span(end, end));
                end += 1;
            } else {
                queue.pop();
                first += 1;
            }
            let expected = (first < end).then(|| Span(first, end - 1));
            assert_eq!(queue.total(), expected);
        }
    }
}
