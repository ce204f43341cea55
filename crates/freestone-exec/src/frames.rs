//! Window functions over the sorted rows of whole partitions.

use std::collections::VecDeque;
use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

use crate::accumulators::{Accumulator, MakeAccumulator, SumResult};
use crate::convert::{from_arrow, to_arrow};
use crate::error::{ExecError, Result};
use crate::hash::{float_place, int_place};
use crate::rows::{Field, FrozenRows};
use crate::vector::{Values, Vector};

/// What is computed for each row.
#[derive(Clone)]
pub enum Function {
    /// The number of the row in its partition.
    RowNumber,
    /// One more than the rows before those that are equal in the order.
    Rank,
    /// The number of the row's value in the order.
    DenseRank,
    /// The share of the other rows that come before those that are equal in the order.
    PercentRank,
    /// The share of rows that do not come after those that are equal in the order.
    CumulativeShare,
    /// The number of the row's part, if the rows are divided into so many parts, the first ones of which have one row more.
    Tile(u64),
    /// The value of a row some rows before, or after if it is negative; outside of the partition, the default of
    /// the current row, or NULL.
    Shift {
        /// The column of the value.
        column: usize,
        /// The rows.
        back: i64,
        /// The column of the default.
        default: Option<usize>,
    },
    /// The value of the first row of the frame.
    First(usize),
    /// The value of the last row of the frame.
    Last(usize),
    /// The number of rows in the frame, or of those whose value is not NULL.
    Count(Option<usize>),
    /// A sum of integers, or what is made of it.
    Sum {
        /// The column of the values.
        column: usize,
        /// What is made of the sum.
        result: SumResult,
    },
    /// A sum of floats, or their average.
    FloatSum {
        /// The column of the values.
        column: usize,
        /// Whether it is the average.
        averages: bool,
    },
    /// The least or greatest integer or float.
    Extreme {
        /// The column of the values.
        column: usize,
        /// Whether it is the greatest.
        greatest: bool,
    },
    /// Any aggregate of all rows of the partition.
    Whole {
        /// The columns of its arguments.
        columns: Vec<usize>,
        /// Makes its states, which have one result.
        accumulator: MakeAccumulator,
    },
}

/// Where a frame begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// With the partition.
    Partition,
    /// With the rows that are equal to the current one in the order.
    Peers,
    /// With the row some rows behind the current one, or before it if it is negative.
    Row(i64),
    /// With the rows whose value of the order, an integer, is at most so much further on, or before it if it is negative. Where the
    /// value is NULL, with the rows that are equal.
    Value(i64),
}

impl Bound {
    fn needs_peers(self) -> bool {
        matches!(self, Bound::Peers | Bound::Value(_))
    }
}

/// The values of the order, of integers.
pub(crate) struct OrderValues {
    pub values: Vector,
    pub descending: bool,
}

impl OrderValues {
    /// The place of a row in the order; `None` if it is NULL.
    #[inline]
    fn place(&self, row: usize) -> Option<i128> {
        let place = i128::from(self.values.as_ints()[row]);
        (!self.values.is_null(row)).then_some(if self.descending { -place } else { place })
    }
}

/// An end of frames that never moves back within a partition.
#[derive(Default)]
struct Edge {
    partition: Range<usize>,
    at: usize,
}

impl Edge {
    /// The first row of the partition that is not `passed`, where the place of a row that is not NULL is compared with the one
    /// that is `offset` behind that of the current row; `None` if the latter is NULL.
    #[inline]
    fn moved(
        &mut self,
        order: &OrderValues,
        partition: &Range<usize>,
        row: usize,
        offset: i64,
        passed: impl Fn(i128, i128) -> bool,
    ) -> Option<usize> {
        if self.partition != *partition {
            (self.partition, self.at) = (partition.clone(), partition.start);
        }
        let target = order.place(row)? + i128::from(offset);
        // NULLs that come first are before all others, and those that come last are behind them.
        let is_passed = |at: usize| order.place(at).map_or(at < row, |place| passed(place, target));
        while self.at < partition.end && is_passed(self.at) {
            self.at += 1;
        }
        Some(self.at)
    }
}

/// The rows that a function uses for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Where it begins.
    pub start: Bound,
    /// Where it ends.
    pub end: Bound,
}

/// A window function.
#[derive(Clone)]
pub struct Call {
    /// What is computed.
    pub function: Function,
    /// The rows that it uses. Functions that only use the order ignore it.
    pub frame: Frame,
}

/// The sorted rows of some partitions.
pub(crate) struct Sorted<'a> {
    pub rows: &'a FrozenRows,
    pub fields: &'a [Field],
    /// The numbers of the rows, partition by partition.
    pub numbers: &'a [u32],
    /// Where the partitions begin, and the end of the last one.
    pub starts: &'a [u32],
    /// Where the rows begin that are equal in the order, in all partitions, and the end; empty if nobody needs them.
    pub peers: &'a [u32],
    /// The values of the order, if frames are bounded by them.
    pub order: Option<OrderValues>,
}

/// The order of unsigned integers is that of signed ones.
fn unsigned(values: impl Iterator<Item = u64>) -> Vector {
    Vector::ints(values.map(|value| (value ^ 1 << 63) as i64).collect())
}

impl Call {
    /// Whether it needs to know which rows are equal in the order.
    pub(crate) fn needs_peers(&self) -> bool {
        use Function::*;
        match self.function {
            Rank | DenseRank | PercentRank | CumulativeShare => true,
            RowNumber | Tile(_) | Shift { .. } | Whole { .. } => false,
            _ => self.frame.start.needs_peers() || self.frame.end.needs_peers(),
        }
    }

    /// Whether it needs the values of the order.
    pub(crate) fn needs_order(&self) -> bool {
        let is_value = |bound: Bound| matches!(bound, Bound::Value(_));
        is_value(self.frame.start) || is_value(self.frame.end)
    }

    /// The results for all rows.
    pub(crate) fn evaluate(&self, sorted: &Sorted<'_>) -> Result<Vector> {
        Ok(match &self.function {
            Function::RowNumber => unsigned(sorted.partitions().flat_map(|rows| 1..=rows.len() as u64)),
            Function::Tile(parts) => unsigned(sorted.partitions().flat_map(|rows| tiles(rows.len() as u64, *parts))),
            Function::Rank => unsigned(sorted.of_peers(|rows, peers, _| (peers.start - rows.start) as u64 + 1)),
            Function::DenseRank => unsigned(sorted.of_peers(|_, _, before| before as u64 + 1)),
            Function::PercentRank => sorted.shares(|rows, peers| {
                let others = rows.len().saturating_sub(1).max(1);
                (peers.start - rows.start) as f64 / others as f64
            }),
            Function::CumulativeShare => {
                sorted.shares(|rows, peers| (peers.end - rows.start) as f64 / rows.len() as f64)
            }
            Function::Shift { column, back, default } => sorted.shifted(*column, *back, *default)?,
            Function::First(column) => sorted.picked(*column, self.of_frames(sorted, |frame| frame.start)),
            Function::Last(column) => sorted.picked(*column, self.of_frames(sorted, |frame| frame.end - 1)),
            Function::Count(None) => Vector::ints(sorted.frames(self.frame).map(|frame| frame.len() as i64).collect()),
            Function::Count(Some(column)) => Vector::ints(sorted.counts(self.frame, &sorted.column(*column))),
            Function::Sum { column, result } => sorted.sums(self.frame, &sorted.column(*column), result)?,
            Function::FloatSum { column, averages } => {
                sorted.float_sums(self.frame, &sorted.column(*column), *averages)
            }
            Function::Extreme { column, greatest } => {
                let values = sorted.column(*column);
                sorted.picked(*column, sorted.extremes(self.frame, &values, *greatest))
            }
            Function::Whole { columns, accumulator } => sorted.wholes(columns, accumulator()?)?,
        })
    }

    /// A row of each frame; `None` for those without rows.
    fn of_frames(&self, sorted: &Sorted<'_>, row: impl Fn(Range<usize>) -> usize) -> Vec<Option<usize>> {
        sorted.frames(self.frame).map(|frame| (!frame.is_empty()).then(|| row(frame))).collect()
    }
}

impl Sorted<'_> {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn partitions(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.starts.windows(2).map(|pair| pair[0] as usize..pair[1] as usize)
    }

    /// For each row what a function makes of its partition, its peers, and the number of other peers before them.
    fn of_peers<'b, T>(
        &'b self,
        function: impl Fn(&Range<usize>, &Range<usize>, usize) -> T + 'b,
    ) -> impl Iterator<Item = T> + 'b
    where
        T: Copy + 'b,
    {
        let mut partitions = self.partitions();
        let mut partition = 0..0;
        let mut before = 0;
        self.peers.windows(2).flat_map(move |pair| {
            let peers = pair[0] as usize..pair[1] as usize;
            while peers.start >= partition.end {
                partition = partitions.next().unwrap_or(peers.clone());
                before = 0;
            }
            let value = function(&partition, &peers, before);
            before += 1;
            std::iter::repeat_n(value, peers.len())
        })
    }

    fn shares(&self, share: impl Fn(&Range<usize>, &Range<usize>) -> f64) -> Vector {
        let shares: Vec<f64> = self.of_peers(|rows, peers, _| share(rows, peers)).collect();
        Vector::new(Values::Float(shares.into()))
    }

    /// The frame of each row. Neither end moves back within a partition.
    fn frames(&self, frame: Frame) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut peers = self.peers.windows(2).map(|pair| pair[0] as usize..pair[1] as usize);
        let mut equal = 0..0;
        let (mut start_edge, mut end_edge) = (Edge::default(), Edge::default());
        self.partitions().flat_map(|rows| rows.clone().map(move |row| (rows.clone(), row))).map(move |(rows, row)| {
            while row >= equal.end {
                equal = peers.next().unwrap_or(row..row + 1);
            }
            let at = |offset: i64| {
                let place = i128::from(offset) + row as i128;
                place.clamp(rows.start as i128, rows.end as i128) as usize
            };
            let start = match frame.start {
                Bound::Partition => rows.start,
                Bound::Peers => equal.start,
                Bound::Row(offset) => at(offset),
                Bound::Value(offset) => {
                    let before = |order| start_edge.moved(order, &rows, row, offset, |place, target| place < target);
                    self.order.as_ref().and_then(before).unwrap_or(equal.start)
                }
            };
            let end = match frame.end {
                Bound::Partition => rows.end,
                Bound::Peers => equal.end,
                Bound::Row(offset) => at(offset.saturating_add(1)),
                Bound::Value(offset) => {
                    let within = |order| end_edge.moved(order, &rows, row, offset, |place, target| place <= target);
                    self.order.as_ref().and_then(within).unwrap_or(equal.end)
                }
            };
            start..end.max(start)
        })
    }

    /// A column of the rows.
    pub fn column(&self, column: usize) -> Vector {
        self.rows.vector(column, self.numbers)
    }

    /// The values of a column at rows; NULL where there is none.
    fn picked(&self, column: usize, rows: impl IntoIterator<Item = Option<usize>>) -> Vector {
        let mut valid = Vec::with_capacity(self.len());
        let numbers = rows.into_iter().map(|row| {
            valid.push(row.is_some());
            self.numbers[row.unwrap_or(0)]
        });
        let numbers: Vec<u32> = numbers.collect();
        let values = self.rows.vector(column, &numbers);
        let valid = NullBuffer::from(valid);
        let valid = NullBuffer::union(Some(&valid), values.valid.as_ref());
        Vector::with_nulls(values.values, valid)
    }

    fn shifted(&self, column: usize, back: i64, default: Option<usize>) -> Result<Vector> {
        let rows = self.partitions().flat_map(|rows| {
            rows.clone().map(move |row| {
                let at = usize::try_from(row as i128 - i128::from(back)).ok()?;
                rows.contains(&at).then_some(at)
            })
        });
        let Some(default) = default else { return Ok(self.picked(column, rows)) };
        let data_type = &self.fields[column].data_type;
        let places: Vec<(usize, usize)> =
            rows.enumerate().map(|(at, row)| row.map_or((1, at), |row| (0, row))).collect();
        interleaved([&self.column(column), &self.column(default)], data_type, &places)
    }

    fn counts(&self, frame: Frame, values: &Vector) -> Vec<i64> {
        let Some(valid) = &values.valid else {
            return self.frames(frame).map(|frame| frame.len() as i64).collect();
        };
        let mut before = Vec::with_capacity(self.len() + 1);
        before.push(0i64);
        valid.iter().for_each(|is_valid| before.push(before[before.len() - 1] + i64::from(is_valid)));
        self.frames(frame).map(|frame| before[frame.end] - before[frame.start]).collect()
    }

    /// Sums of frames as differences of the sums of all rows before their ends, which wrap around without harm.
    fn sums(&self, frame: Frame, values: &Vector, result: &SumResult) -> Result<Vector> {
        let mut before = Vec::with_capacity(self.len() + 1);
        let mut sum = 0i128;
        before.push(sum);
        let mut add = |row: usize, value: i128| {
            if !values.is_null(row) {
                sum = sum.wrapping_add(value);
            }
            before.push(sum);
        };
        match &values.values {
            Values::Wide(wide) => wide.iter().enumerate().for_each(|(row, value)| add(row, *value)),
            _ => values.as_ints().iter().enumerate().for_each(|(row, value)| add(row, i128::from(*value))),
        }
        let sums: Vec<i128> =
            self.frames(frame).map(|frame| before[frame.end].wrapping_sub(before[frame.start])).collect();
        let counts = Vector::ints(self.counts(frame, values));
        let has_values = BooleanBuffer::collect_bool(self.len(), |row| counts.as_ints()[row] > 0);
        let sums = Vector::with_nulls(Values::Wide(sums.into()), Some(NullBuffer::new(has_values)));
        (result.finish)(&[counts, sums][usize::from(!result.counts)..], self.len())
    }

    /// Sums of floats, which are only added: what was added cannot be taken away again without an error. A frame is a
    /// part whose sums from each of its rows on are known, and what came later.
    fn float_sums(&self, frame: Frame, values: &Vector, averages: bool) -> Vector {
        let floats = values.as_floats();
        let value = |row: usize| if values.is_null(row) { 0.0 } else { floats[row] };
        let counts = self.counts(frame, values);
        // The sums of rows up to `known`, from each row on; and the sum of those from there up to `end`.
        let mut from_row = vec![0.0; self.len() + 1];
        let (mut known, mut end, mut later) = (0, 0, 0.0);
        let sums = self.frames(frame).zip(&counts).map(|(frame, count)| {
            if frame.start >= known && !frame.is_empty() {
                (known, end, later) = (frame.end, frame.end, 0.0);
                from_row[known] = 0.0;
                frame.clone().rev().for_each(|row| from_row[row] = from_row[row + 1] + value(row));
            }
            while end < frame.end {
                later += value(end);
                end += 1;
            }
            let sum = from_row[frame.start] + later;
            if averages { sum / (*count).max(1) as f64 } else { sum }
        });
        let sums: Vec<f64> = sums.collect();
        let valid = NullBuffer::from_iter(counts.iter().map(|count| *count > 0));
        Vector::with_nulls(Values::Float(sums.into()), Some(valid))
    }

    /// The result of each row's partition.
    fn wholes(&self, columns: &[usize], mut accumulator: Box<dyn Accumulator>) -> Result<Vector> {
        let lengths: Vec<i64> = self.partitions().map(|rows| rows.len() as i64).collect();
        let groups = self.partitions().enumerate().flat_map(|(at, rows)| std::iter::repeat_n(at as u32, rows.len()));
        let groups: Vec<u32> = groups.collect();
        let inputs: Vec<Vector> = columns.iter().map(|column| self.column(*column)).collect();
        accumulator.update(&inputs, &groups, lengths.len())?;
        let results = accumulator.results(&lengths)?;
        Ok(results.first().map_or_else(|| Vector::ints(vec![]), |result| result.take(&groups)))
    }

    /// The row of the best value of each frame. Rows that a later one beats are forgotten, so the first one that is left
    /// is the best.
    fn extremes(&self, frame: Frame, values: &Vector, greatest: bool) -> Vec<Option<usize>> {
        let flip = if greatest { u64::MAX } else { 0 };
        let place = |row: usize| match &values.values {
            Values::Float(floats) => float_place(floats[row]) ^ flip,
            _ => int_place(values.as_ints()[row]) ^ flip,
        };
        let mut best: VecDeque<(usize, u64)> = VecDeque::new();
        let mut end = 0;
        let rows = self.frames(frame).map(|frame| {
            while best.front().is_some_and(|(row, _)| *row < frame.start) {
                best.pop_front();
            }
            end = end.max(frame.start);
            while end < frame.end {
                if !values.is_null(end) {
                    let place = place(end);
                    while best.back().is_some_and(|(_, other)| *other > place) {
                        best.pop_back();
                    }
                    best.push_back((end, place));
                }
                end += 1;
            }
            best.front().filter(|_| !frame.is_empty()).map(|(row, _)| *row)
        });
        rows.collect()
    }
}

/// The part of each of `rows`, from 1.
fn tiles(rows: u64, parts: u64) -> impl Iterator<Item = u64> {
    let (size, larger) = (rows / parts, rows % parts);
    let in_larger = larger * (size + 1);
    (0..rows).map(move |row| match row < in_larger {
        true => row / (size + 1) + 1,
        false => larger + (row - in_larger) / size.max(1) + 1,
    })
}

/// Values of two vectors, by vector and row.
fn interleaved(vectors: [&Vector; 2], data_type: &DataType, places: &[(usize, usize)]) -> Result<Vector> {
    let arrays: Vec<ArrayRef> = vectors.iter().map(|vector| to_arrow(vector, data_type)).collect::<Result<_>>()?;
    let both: Vec<&dyn arrow_array::Array> = arrays.iter().map(AsRef::as_ref).collect();
    let merged = arrow_select::interleave::interleave(&both, places).map_err(ExecError::foreign)?;
    Ok(from_arrow(&merged))
}
