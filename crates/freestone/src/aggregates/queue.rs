//! Aggregates of a sliding window frame without subtraction. So values that leave the frame have no further effect,
//! even if they are infinite, NaN, or much larger than the others.
//!
//! The structure is a queue of two stacks (Tangwongsan, Hirzel and Schneider, "Low-latency sliding-window aggregation
//! in worst-case constant time", 2017, section 2). Values are pushed on one stack. Each element of the other stack has
//! the aggregate of the elements up to the end of that stack. Each value is moved once.

use std::fmt::Debug;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;

/// A partial aggregate that can be merged with the next one, in order.
pub(super) trait Part: Copy + Debug + Send + Sync + 'static {
    fn with(self, later: Self) -> Self;
}

/// A queue with the aggregate of its values.
#[derive(Debug)]
pub(super) struct Queue<P> {
    /// The aggregates from a value to the last one of this stack. The first value is on top.
    old: Vec<P>,
    /// The values that were added later.
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

    /// Removes the first value.
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

    /// The aggregate of all values; `None` without values.
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

/// A sum of floats, and their number.
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

/// The sum of floats: a running sum until a value is removed.
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
