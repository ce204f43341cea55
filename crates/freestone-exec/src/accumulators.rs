//! Accumulators: the states of an aggregate for many groups.

use arrow_buffer::{BooleanBuffer, NullBuffer};
use freestone_codec::grouped::{add_by_group, count_by_group};

use crate::arithmetic::float_order;
use crate::error::Result;
use crate::vector::{Texts, Values, Vector};

/// The states of one aggregate, by group, or of several that share them.
pub trait Accumulator: Send {
    /// The rows that follow are of this unit. Numbers of units are in the order of rows.
    fn begin(&mut self, _unit: usize) {}

    /// Adds rows to their groups, of which there are `total`.
    ///
    /// # Errors
    /// The error of a foreign aggregate.
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()>;

    /// The states of all groups, one vector per part of a state. None are left.
    ///
    /// # Errors
    /// The error of a foreign aggregate.
    fn states(&mut self, total: usize) -> Result<Vec<Vector>>;

    /// Adds states to groups, of which there are `total`.
    ///
    /// # Errors
    /// The error of a foreign aggregate.
    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()>;

    /// The results of all groups, which have `rows` rows each. No states are left.
    ///
    /// # Errors
    /// The error of a foreign aggregate, or a result that does not fit its type.
    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>>;

    /// The bytes in memory.
    fn bytes(&self) -> usize;
}

/// Makes the states of an aggregate.
pub type MakeAccumulator = std::sync::Arc<dyn Fn() -> Result<Box<dyn Accumulator>> + Send + Sync>;

/// Results from states, where they are more than the states.
pub type Finish = std::sync::Arc<dyn Fn(&[Vector], usize) -> Result<Vector> + Send + Sync>;

/// The number of rows of each group, which is known without it.
#[derive(Debug, Default)]
pub struct RowCount;

impl Accumulator for RowCount {
    fn update(&mut self, _: &[Vector], _: &[u32], _: usize) -> Result<()> {
        Ok(())
    }

    fn states(&mut self, _: usize) -> Result<Vec<Vector>> {
        Ok(vec![])
    }

    fn merge(&mut self, _: &[Vector], _: &[u32], _: usize) -> Result<()> {
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        Ok(vec![Vector::ints(rows.to_vec())])
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// The number of rows in which a value is not NULL, or of those that are given.
#[derive(Debug, Default)]
pub struct Count {
    counts: Vec<i64>,
}

impl Accumulator for Count {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.counts.resize(total, 0);
        count_each(&mut self.counts, inputs.first().and_then(|input| input.valid.as_ref()), groups);
        Ok(())
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        self.counts.resize(total, 0);
        Ok(vec![Vector::ints(std::mem::take(&mut self.counts))])
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.counts.resize(total, 0);
        add_each(&mut self.counts, states[0].as_ints(), None, groups, |count, more| *count += more);
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        self.states(rows.len())
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * 8
    }
}

/// The sum of counts, none of which is NULL.
#[derive(Debug, Default)]
pub struct CountSum(Count);

impl Accumulator for CountSum {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.merge(inputs, groups, total)
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        self.0.states(total)
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.0.merge(states, groups, total)
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        self.0.results(rows)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// Which groups have a value.
#[derive(Debug, Default)]
struct Seen {
    seen: Vec<bool>,
}

impl Seen {
    #[inline]
    fn add(&mut self, valid: Option<&NullBuffer>, groups: &[u32], total: usize) {
        self.seen.resize(total, false);
        match valid {
            None => groups.iter().for_each(|group| self.seen[*group as usize] = true),
            Some(valid) => valid.valid_indices().for_each(|row| self.seen[groups[row] as usize] = true),
        }
    }

    fn take(&mut self, total: usize) -> NullBuffer {
        self.seen.resize(total, false);
        let seen = std::mem::take(&mut self.seen);
        NullBuffer::new(BooleanBuffer::collect_bool(total, |group| seen[group]))
    }
}

/// Integers of groups that values are combined with, and which groups have any.
#[derive(Debug)]
pub(crate) struct Combined {
    /// What a group begins with.
    first: i64,
    values: Vec<i64>,
    seen: Seen,
}

impl Combined {
    /// Groups begin with this integer, which changes no value that it is combined with.
    pub fn new(first: i64) -> Combined {
        Combined { first, values: vec![], seen: Seen::default() }
    }

    #[inline]
    pub fn add(
        &mut self,
        values: &[i64],
        valid: Option<&NullBuffer>,
        groups: &[u32],
        total: usize,
        combine: impl Fn(i64, i64) -> i64,
    ) {
        self.values.resize(total, self.first);
        add_each(&mut self.values, values, valid, groups, |known, value| *known = combine(*known, value));
        self.seen.add(valid, groups, total);
    }

    /// The integers of all groups, which are NULL for those without values. None are left.
    pub fn take(&mut self, total: usize) -> Vector {
        self.values.resize(total, self.first);
        let values = Values::Int(std::mem::take(&mut self.values).into());
        Vector::with_nulls(values, Some(self.seen.take(total)))
    }

    pub fn bytes(&self) -> usize {
        self.values.capacity() * 8 + self.seen.seen.capacity()
    }
}

/// What a sum of integers is for.
#[derive(Clone)]
pub struct SumResult {
    /// Whether the number of values is asked for, before their sum.
    pub counts: bool,
    /// Makes the result of sums, or of counts and sums.
    pub finish: Finish,
}

/// Sums of integers in 128 bits, from which several aggregates take their results.
pub struct Sum {
    sums: Vec<i128>,
    /// The number of values, unless none is NULL.
    counts: Option<Vec<i64>>,
    /// Partial sums of a batch, which fit 64 bits.
    partial: Vec<i64>,
    /// The largest magnitude of a value, if it is known.
    magnitude: Option<u64>,
    results: Vec<SumResult>,
}

/// Above so many groups, partial sums of a batch cost more than they save.
pub(crate) const PARTIAL_GROUPS: usize = 512;

impl Sum {
    /// Sums of values of at most this magnitude, of which some may be NULL.
    pub fn new(magnitude: Option<u64>, nullable: bool, results: Vec<SumResult>) -> Sum {
        Sum { sums: vec![], counts: nullable.then(Vec::new), partial: vec![], magnitude, results }
    }

    fn add(&mut self, values: &[i64], valid: Option<&NullBuffer>, groups: &[u32], total: usize) {
        let fits = |most: u64| most.checked_mul(values.len() as u64).is_some_and(|sum| sum >> 63 == 0);
        if self.magnitude.is_some_and(fits) && total <= PARTIAL_GROUPS {
            self.partial.clear();
            self.partial.resize(total, 0);
            match valid {
                None => add_by_group(values, groups, &mut self.partial),
                Some(valid) => valid.valid_indices().for_each(|row| self.partial[groups[row] as usize] += values[row]),
            }
            self.sums.iter_mut().zip(&self.partial).for_each(|(sum, more)| *sum += i128::from(*more));
        } else {
            add_each(&mut self.sums, values, valid, groups, |sum, value| *sum += i128::from(value));
        }
    }
}

/// Adds the values that are not NULL to the states of their groups.
#[inline]
pub(crate) fn add_each<S, T: Copy>(
    states: &mut [S],
    values: &[T],
    valid: Option<&NullBuffer>,
    groups: &[u32],
    add: impl Fn(&mut S, T),
) {
    match valid {
        None => groups.iter().zip(values).for_each(|(group, value)| add(&mut states[*group as usize], *value)),
        Some(valid) => valid.valid_indices().for_each(|row| add(&mut states[groups[row] as usize], values[row])),
    }
}

/// Sums as states, with the number of values of each if there may be NULLs.
fn with_counts(sums: Vector, counts: &mut Option<Vec<i64>>, total: usize) -> Vec<Vector> {
    match counts {
        None => vec![sums],
        Some(counts) => {
            counts.resize(total, 0);
            vec![sums, Vector::ints(std::mem::take(counts))]
        }
    }
}

/// Adds the numbers of values of other states, which follow their sums.
fn merge_counts(counts: &mut Option<Vec<i64>>, states: &[Vector], groups: &[u32], total: usize) {
    if let (Some(counts), Some(more)) = (counts, states.get(1)) {
        counts.resize(total, 0);
        add_each(counts, more.as_ints(), None, groups, |count, more| *count += more);
    }
}

/// Counts the rows of each group that are not NULL.
#[inline]
pub(crate) fn count_each(counts: &mut [i64], valid: Option<&NullBuffer>, groups: &[u32]) {
    if let [count] = counts {
        *count += valid.map_or(groups.len(), |valid| valid.len() - valid.null_count()) as i64;
        return;
    }
    match valid {
        None => count_by_group(groups, counts),
        Some(valid) => valid.valid_indices().for_each(|row| counts[groups[row] as usize] += 1),
    }
}

impl Accumulator for Sum {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.sums.resize(total, 0);
        let valid = inputs[0].valid.as_ref();
        assert!(valid.is_none() || self.counts.is_some(), "a column that has NULLs may have them");
        match &inputs[0].values {
            Values::Wide(values) => add_each(&mut self.sums, values, valid, groups, |sum, value| *sum += value),
            _ => self.add(inputs[0].as_ints(), valid, groups, total),
        }
        if let Some(counts) = &mut self.counts {
            counts.resize(total, 0);
            count_each(counts, valid, groups);
        }
        Ok(())
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        self.sums.resize(total, 0);
        let sums = Vector::new(Values::Wide(std::mem::take(&mut self.sums).into()));
        Ok(with_counts(sums, &mut self.counts, total))
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.sums.resize(total, 0);
        add_each(&mut self.sums, states[0].as_wide(), None, groups, |sum, value| *sum += value);
        merge_counts(&mut self.counts, states, groups, total);
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        let states = self.states(rows.len())?;
        let counts = states.get(1).cloned().unwrap_or_else(|| Vector::ints(rows.to_vec()));
        let has_values = BooleanBuffer::collect_bool(rows.len(), |group| counts.as_ints()[group] > 0);
        let sums = Vector::with_nulls(states[0].values.clone(), Some(NullBuffer::new(has_values)));
        let both = [counts, sums];
        let result = |result: &SumResult| (result.finish)(&both[usize::from(!result.counts)..], rows.len());
        self.results.iter().map(result).collect()
    }

    fn bytes(&self) -> usize {
        self.sums.capacity() * 16 + self.counts.as_ref().map_or(0, |counts| counts.capacity() * 8)
    }
}

/// The sums of floats, or their averages.
pub struct FloatSum {
    sums: Vec<f64>,
    /// The number of values, unless none is NULL.
    counts: Option<Vec<i64>>,
    averages: bool,
}

impl FloatSum {
    /// Sums, or averages, of values of which some may be NULL.
    pub fn new(averages: bool, nullable: bool) -> FloatSum {
        FloatSum { sums: vec![], counts: nullable.then(Vec::new), averages }
    }
}

/// The sum of some values, of which several are added up side by side: an addition waits for the one before it.
fn sum_in_lanes(values: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane += value);
    }
    lanes.iter().chain(rest).sum()
}

impl Accumulator for FloatSum {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.sums.resize(total, 0.0);
        let (values, valid) = (inputs[0].as_floats(), inputs[0].valid.as_ref());
        assert!(valid.is_none() || self.counts.is_some(), "a column that has NULLs may have them");
        match (self.sums.as_mut_slice(), valid) {
            ([sum], None) => *sum += sum_in_lanes(values),
            (sums, valid) => add_each(sums, values, valid, groups, |sum, value| *sum += value),
        }
        if let Some(counts) = &mut self.counts {
            counts.resize(total, 0);
            count_each(counts, valid, groups);
        }
        Ok(())
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        self.sums.resize(total, 0.0);
        let sums = Vector::new(Values::Float(std::mem::take(&mut self.sums).into()));
        Ok(with_counts(sums, &mut self.counts, total))
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.sums.resize(total, 0.0);
        add_each(&mut self.sums, states[0].as_floats(), None, groups, |sum, more| *sum += more);
        merge_counts(&mut self.counts, states, groups, total);
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        let total = rows.len();
        let states = self.states(total)?;
        let (sums, counts) = (states[0].as_floats(), states.get(1).map_or(rows, Vector::as_ints));
        let one_nan = |value: f64| if value.is_nan() { f64::NAN } else { value };
        let result = |(sum, count): (&f64, &i64)| one_nan(if self.averages { sum / *count as f64 } else { *sum });
        let values: Vec<f64> = sums.iter().zip(counts).map(result).collect();
        let valid = NullBuffer::new(BooleanBuffer::collect_bool(total, |group| counts[group] > 0));
        Ok(vec![Vector::with_nulls(Values::Float(values.into()), Some(valid))])
    }

    fn bytes(&self) -> usize {
        (self.sums.capacity() + self.counts.as_ref().map_or(0, Vec::capacity)) * 8
    }
}

/// The least or greatest integers, or floats by their order.
pub struct Extreme {
    best: Combined,
    greatest: bool,
    floats: bool,
}

impl Extreme {
    /// The greatest or least values; those of floats.
    pub fn new(greatest: bool, floats: bool) -> Extreme {
        Extreme { best: Combined::new(if greatest { i64::MIN } else { i64::MAX }), greatest, floats }
    }

    fn add(&mut self, values: &[i64], valid: Option<&NullBuffer>, groups: &[u32], total: usize) {
        match self.greatest {
            true => self.best.add(values, valid, groups, total, i64::max),
            false => self.best.add(values, valid, groups, total, i64::min),
        }
    }
}

/// The float of a number of [`float_order`].
fn float_of_order(order: i64) -> f64 {
    f64::from_bits((order ^ ((order >> 63) as u64 >> 1) as i64) as u64)
}

impl Accumulator for Extreme {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        let valid = inputs[0].valid.as_ref();
        if self.floats {
            let orders: Vec<i64> = inputs[0].as_floats().iter().map(|value| float_order(*value)).collect();
            self.add(&orders, valid, groups, total);
        } else {
            self.add(inputs[0].as_ints(), valid, groups, total);
        }
        Ok(())
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        Ok(vec![self.best.take(total)])
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.add(states[0].as_ints(), states[0].valid.as_ref(), groups, total);
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        let orders = self.states(rows.len())?;
        if !self.floats {
            return Ok(orders);
        }
        let floats: Vec<f64> = orders[0].as_ints().iter().map(|order| float_of_order(*order)).collect();
        Ok(vec![Vector::with_nulls(Values::Float(floats.into()), orders[0].valid.clone())])
    }

    fn bytes(&self) -> usize {
        self.best.bytes()
    }
}

/// The least or greatest texts.
pub struct ExtremeText {
    texts: Vec<Option<Vec<u8>>>,
    greatest: bool,
    bytes: usize,
}

impl ExtremeText {
    /// The greatest or least values.
    pub fn new(greatest: bool) -> ExtremeText {
        ExtremeText { texts: vec![], greatest, bytes: 0 }
    }

    fn add(&mut self, text: &[u8], group: u32) {
        let best = &mut self.texts[group as usize];
        match best {
            None => {
                self.bytes += text.len();
                *best = Some(text.to_vec());
            }
            Some(before) if if self.greatest { text > &before[..] } else { text < &before[..] } => {
                before.clear();
                before.extend_from_slice(text);
            }
            Some(_) => {}
        }
    }
}

impl Accumulator for ExtremeText {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.texts.resize(total, None);
        let texts = &inputs[0];
        // The best codes of a batch are compared first: entries of a segment's dictionary ascend.
        if let Values::Codes(codes, dictionary) = &texts.values
            && dictionary.ascends()
            && total <= PARTIAL_GROUPS
        {
            let none = if self.greatest { 0 } else { u32::MAX };
            let mut best = vec![(none, false); total];
            let greatest = self.greatest;
            add_each(&mut best, codes, texts.valid.as_ref(), groups, |(best, any), code| {
                *best = if greatest { code.max(*best) } else { code.min(*best) };
                *any = true;
            });
            for (group, (code, any)) in best.into_iter().enumerate().filter(|(_, (_, any))| *any) {
                debug_assert!(any);
                self.add(dictionary.texts.get(code as usize), group as u32);
            }
            return Ok(());
        }
        for (row, group) in groups.iter().enumerate().filter(|(row, _)| !texts.is_null(*row)) {
            self.add(texts.text(row), *group);
        }
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        self.states(rows.len())
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        self.update(states, groups, total)
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        self.texts.resize(total, None);
        let mut builder = arrow_array::builder::StringViewBuilder::with_capacity(total);
        for text in std::mem::take(&mut self.texts) {
            builder.append_option(text.map(|text| String::from_utf8_lossy(&text).into_owned()));
        }
        self.bytes = 0;
        let array = builder.finish();
        let valid = arrow_array::Array::nulls(&array).cloned();
        Ok(vec![Vector::with_nulls(Values::Text(Texts::of(&array)), valid)])
    }

    fn bytes(&self) -> usize {
        self.texts.capacity() * 24 + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_group_of_floats_is_summed_as_several_are() {
        for rows in [0usize, 1, 7, 8, 9, 1000] {
            let values: Vec<f64> = (0..rows).map(|row| row as f64 * 0.25 - 3.0).collect();
            let groups = vec![0u32; rows];
            for averages in [false, true] {
                let (mut one, mut two) = (FloatSum::new(averages, false), FloatSum::new(averages, true));
                let input = [Vector::new(Values::Float(values.clone().into()))];
                one.update(&input, &groups, 1).expect("summed");
                two.update(&input, &groups, 2).expect("summed");
                let result = |sum: &mut FloatSum, counts: &[i64]| sum.results(counts).expect("a result").remove(0);
                let (a, b) = (result(&mut one, &[rows as i64]), result(&mut two, &[rows as i64, 0]));
                assert_eq!(!a.is_null(0), rows > 0);
                assert!(rows == 0 || a.as_floats()[0] == b.as_floats()[0], "{rows} rows, averages: {averages}");
                assert!(b.is_null(1), "a group without rows");
            }
        }
    }
}
