//! Quantiles: the values at given places in the order of a group's values.
//!
//! Values are collected as they come, with the numbers of their groups. When a table of groups is put aside, the values of each
//! group are brought together, and its state is where they are. So tables can be divided and merged without moving values, until
//! a thread has all values of some groups, in which it selects those that are wanted: they are not sorted.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{Array, ArrowPrimitiveType, LargeListViewArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::Field;

use crate::accumulators::{Accumulator, Finish};
use crate::error::{ExecError, Result};
use crate::vector::{Form, Values, Vector};

/// A place among sorted values, as the fraction of them that come before it. A negative fraction counts from the greatest value.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// Between two values.
    Continuous(f64),
    /// The least value that at least this fraction of all values does not exceed.
    Discrete(f64),
}

impl Place {
    /// The indexes of the values between which it lies of `count` values, and its distance from the first.
    pub fn among(self, count: usize) -> (usize, usize, f64) {
        match self {
            Place::Continuous(fraction) => {
                let fraction = if fraction < 0.0 { 1.0 + fraction } else { fraction };
                let place = fraction * (count - 1) as f64;
                let (low, high) = (place.floor() as usize, place.ceil() as usize);
                (low.min(count - 1), high.min(count - 1), place - place.floor())
            }
            Place::Discrete(fraction) => {
                let place = ((fraction.abs() * count as f64).ceil() as usize).saturating_sub(1).min(count - 1);
                let place = if fraction.is_sign_negative() { count - 1 - place } else { place };
                (place, place, 0.0)
            }
        }
    }
}

/// What is wanted of the values of each group.
#[derive(Clone)]
pub struct Quantile {
    /// The places.
    pub places: Vec<Place>,
    /// Whether the greatest value is the first.
    pub descending: bool,
    /// Makes the results of all groups from the values between which their places lie, which are NULL for a group without values,
    /// and the distances from the first. There is a row for each place of the first group, then for those of the second one.
    pub finish: Finish,
}

/// Quantiles of the values of one column, in the form of its vectors.
///
/// # Panics
/// The form is not one of numbers: a bug of the compiler of queries.
pub fn quantiles(form: Form, wanted: Vec<Quantile>) -> Box<dyn Accumulator> {
    match form {
        Form::Int => Box::new(Collected::<Ints>::new(wanted)),
        Form::Wide => Box::new(Collected::<WideInts>::new(wanted)),
        Form::Float => Box::new(Collected::<Floats>::new(wanted)),
        other => unreachable!("numbers were compiled, not {other:?}"),
    }
}

/// Values that are collected, as integers of the same order.
trait Numbers: 'static {
    type Stored: ArrowPrimitiveType<Native: Ord>;
    fn stored(vector: &Vector) -> Cow<'_, [Number<Self>]>;
    fn values(stored: Vec<Number<Self>>) -> Values;
}

type Number<N> = <<N as Numbers>::Stored as ArrowPrimitiveType>::Native;

struct Ints;

impl Numbers for Ints {
    type Stored = Int64Type;

    fn stored(vector: &Vector) -> Cow<'_, [i64]> {
        vector.as_ints().into()
    }

    fn values(stored: Vec<i64>) -> Values {
        Values::Int(stored.into())
    }
}

struct WideInts;

impl Numbers for WideInts {
    type Stored = Decimal128Type;

    fn stored(vector: &Vector) -> Cow<'_, [i128]> {
        vector.as_wide().into()
    }

    fn values(stored: Vec<i128>) -> Values {
        Values::Wide(stored.into())
    }
}

struct Floats;

impl Numbers for Floats {
    type Stored = Int64Type;

    fn stored(vector: &Vector) -> Cow<'_, [i64]> {
        vector.as_floats().iter().map(|value| place_of(*value)).collect()
    }

    fn values(stored: Vec<i64>) -> Values {
        Values::Float(stored.into_iter().map(value_at).collect())
    }
}

/// A float as an integer of the same order, in which `-0.0` comes before `0.0`, and NaN last.
#[inline]
fn place_of(value: f64) -> i64 {
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() } as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// The float of such an integer.
fn value_at(place: i64) -> f64 {
    f64::from_bits((place ^ ((place >> 63) as u64 >> 1) as i64) as u64)
}

/// The values of groups.
struct Collected<N: Numbers> {
    wanted: Vec<Quantile>,
    /// Values as they came. More are added to the last chunk.
    chunks: Vec<Chunk<Number<N>>>,
    /// Groups and the values of other states, by group.
    lists: Vec<(Vec<u32>, LargeListViewArray)>,
    /// The number of all values.
    count: usize,
}

/// Values, and the group of each.
struct Chunk<V> {
    groups: Vec<u32>,
    values: Vec<V>,
}

/// The most values of a chunk, unless more come at once.
const CHUNK_VALUES: usize = 1 << 14;

impl<V: Copy> Chunk<V> {
    fn with_capacity(values: usize) -> Self {
        Chunk { groups: Vec::with_capacity(values), values: Vec::with_capacity(values) }
    }

    fn add(&mut self, values: &[V], valid: Option<&NullBuffer>, groups: &[u32]) {
        match valid {
            None => {
                self.groups.extend_from_slice(groups);
                self.values.extend_from_slice(values);
            }
            Some(valid) => {
                self.groups.extend(valid.valid_indices().map(|row| groups[row]));
                self.values.extend(valid.valid_indices().map(|row| values[row]));
            }
        }
    }
}

impl<N: Numbers> Collected<N> {
    fn new(wanted: Vec<Quantile>) -> Self {
        Collected { wanted, chunks: vec![], lists: vec![], count: 0 }
    }

    /// The chunk to which some values can be added. The first one grows: there may be few values.
    fn chunk(&mut self, more: usize) -> &mut Chunk<Number<N>> {
        match self.chunks.last() {
            Some(last) if last.values.len() + more <= CHUNK_VALUES => {}
            Some(_) => self.chunks.push(Chunk::with_capacity(CHUNK_VALUES)),
            None => self.chunks.push(Chunk::with_capacity(0)),
        }
        let last = self.chunks.len() - 1;
        &mut self.chunks[last]
    }

    /// The values of one group after the other, and where those of each begin; the last ones end at the end. None are left.
    fn by_group(&mut self, total: usize) -> (Vec<Number<N>>, Vec<usize>) {
        let mut starts = vec![0; total + 1];
        for chunk in &self.chunks {
            chunk.groups.iter().for_each(|group| starts[*group as usize + 1] += 1);
        }
        for (groups, lists) in &self.lists {
            groups.iter().zip(lists.sizes()).for_each(|(group, size)| starts[*group as usize + 1] += *size as usize);
        }
        (0..total).for_each(|group| starts[group + 1] += starts[group]);
        let mut next = starts.clone();
        let mut all = vec![Number::<N>::default(); std::mem::take(&mut self.count)];
        for chunk in std::mem::take(&mut self.chunks) {
            for (group, value) in chunk.groups.iter().zip(chunk.values) {
                let at = &mut next[*group as usize];
                all[*at] = value;
                *at += 1;
            }
        }
        for (groups, lists) in std::mem::take(&mut self.lists) {
            let values = lists.values().as_primitive::<N::Stored>().values();
            for ((group, start), size) in groups.iter().zip(lists.offsets()).zip(lists.sizes()) {
                let (at, start, size) = (&mut next[*group as usize], *start as usize, *size as usize);
                all[*at..*at + size].copy_from_slice(&values[start..start + size]);
                *at += size;
            }
        }
        (all, starts)
    }
}

impl<N: Numbers> Accumulator for Collected<N> {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], _: usize) -> Result<()> {
        let valid = inputs[0].valid.as_ref();
        let more = groups.len() - valid.map_or(0, NullBuffer::null_count);
        self.chunk(more).add(&N::stored(&inputs[0]), valid, groups);
        self.count += more;
        Ok(())
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        let (values, starts) = self.by_group(total);
        let sizes: Vec<i64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as i64).collect();
        let starts: Vec<i64> = starts[..total].iter().map(|start| *start as i64).collect();
        let values = PrimitiveArray::<N::Stored>::new(values.into(), None);
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), false));
        let lists = LargeListViewArray::try_new(field, starts.into(), sizes.into(), Arc::new(values), None);
        Ok(vec![Vector::new(Values::Arrow(Arc::new(lists.map_err(ExecError::foreign)?)))])
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], _: usize) -> Result<()> {
        let Values::Arrow(array) = &states[0].values else { unreachable!("states are arrays") };
        let lists = array.as_list_view::<i64>().clone();
        self.count += lists.sizes().iter().sum::<i64>() as usize;
        self.lists.push((groups.to_vec(), lists));
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        let (mut values, starts) = self.by_group(rows.len());
        let mut found: Vec<Found<Number<N>>> = self.wanted.iter().map(|_| Found::default()).collect();
        let mut indexes = vec![];
        for group in starts.windows(2) {
            let values = &mut values[group[0]..group[1]];
            indexes.clear();
            self.wanted.iter().for_each(|quantile| quantile.add_indexes(values.len(), &mut indexes));
            indexes.sort_unstable();
            indexes.dedup();
            select(values, 0, &indexes);
            self.wanted.iter().zip(&mut found).for_each(|(quantile, found)| found.add(quantile, values));
        }
        let finished = self.wanted.iter().zip(found);
        finished.map(|(quantile, found)| (quantile.finish)(&found.vectors::<N>(), rows.len())).collect()
    }

    /// With the place where values are brought together.
    fn bytes(&self) -> usize {
        let first = self.chunks.first().map_or(0, |chunk| chunk.values.capacity());
        let collected = first + self.chunks.len().saturating_sub(1) * CHUNK_VALUES;
        collected * size_of::<(u32, Number<N>)>() + self.count * size_of::<Number<N>>()
    }
}

impl Quantile {
    /// The indexes of the values between which a place lies of `count` sorted values, and its distance from the first.
    fn among(&self, place: Place, count: usize) -> (usize, usize, f64) {
        let (low, high, share) = place.among(count);
        if self.descending { (count - 1 - low, count - 1 - high, share) } else { (low, high, share) }
    }

    fn add_indexes(&self, count: usize, indexes: &mut Vec<usize>) {
        if count > 0 {
            indexes.extend(
                self.places.iter().map(|place| self.among(*place, count)).flat_map(|(low, high, _)| [low, high]),
            );
        }
    }
}

/// Moves the values of these indexes, which ascend, to where they would be if all were sorted. The first value has the index `first`.
fn select<V: Ord>(values: &mut [V], first: usize, indexes: &[usize]) {
    let (before, [index, after @ ..]) = indexes.split_at(indexes.len() / 2) else { return };
    let (below, _, above) = values.select_nth_unstable(index - first);
    select(below, first, before);
    select(above, index + 1, after);
}

/// The values between which places lie, and their distances from the first.
#[derive(Default)]
struct Found<V> {
    lows: Vec<V>,
    highs: Vec<V>,
    shares: Vec<f64>,
    valid: Vec<bool>,
}

impl<V: Copy + Default> Found<V> {
    /// Adds those of a group whose wanted values are where they would be if all were sorted.
    fn add(&mut self, quantile: &Quantile, values: &[V]) {
        for place in &quantile.places {
            let is_valid = !values.is_empty();
            let (low, high, share) = match is_valid {
                true => {
                    let (low, high, share) = quantile.among(*place, values.len());
                    (values[low], values[high], share)
                }
                false => Default::default(),
            };
            self.lows.push(low);
            self.highs.push(high);
            self.shares.push(share);
            self.valid.push(is_valid);
        }
    }

    fn vectors<N: Numbers<Stored: ArrowPrimitiveType<Native = V>>>(self) -> [Vector; 3] {
        let valid = Some(NullBuffer::new(BooleanBuffer::from(self.valid)));
        let with_nulls = |values| Vector::with_nulls(values, valid.clone());
        [
            with_nulls(N::values(self.lows)),
            with_nulls(N::values(self.highs)),
            with_nulls(Values::Float(self.shares.into())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_of_fractions() {
        let among = |place: fn(f64) -> Place, fraction, count| place(fraction).among(count);
        let discrete = |fraction| among(Place::Discrete, fraction, 4).0;
        assert_eq!([0.0, 0.25, 0.26, 0.5, 1.0].map(discrete), [0, 0, 1, 1, 3]);
        assert_eq!([-0.0, -0.25, -0.5, -1.0].map(discrete), [3, 3, 2, 0]);
        assert_eq!(among(Place::Continuous, 0.5, 4), (1, 2, 0.5));
        assert_eq!(among(Place::Continuous, 1.0, 4), (3, 3, 0.0));
        assert_eq!(among(Place::Continuous, -0.25, 5), (3, 3, 0.0));
        assert_eq!(among(Place::Continuous, 0.3, 1), (0, 0, 0.0));
    }

    #[test]
    fn floats_are_integers_of_the_same_order() {
        let infinite = f64::INFINITY;
        let values = [-infinite, -f64::MAX, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, f64::MAX, infinite, f64::NAN];
        assert!(values.is_sorted_by(|a, b| place_of(*a) < place_of(*b)));
        assert!(values.iter().all(|value| value_at(place_of(*value)).to_bits() == value.to_bits()));
        assert!(value_at(place_of(-f64::NAN)).is_nan());
    }

    proptest! {
        #[test]
        fn selected_values_are_those_of_sorted_ones(
            mut values in prop::collection::vec(prop_oneof![0i64..9, any::<i64>()], 1..300),
            indexes in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
        ) {
            let mut indexes: Vec<usize> = indexes.iter().map(|index| index.index(values.len())).collect();
            indexes.sort_unstable();
            indexes.dedup();
            let mut sorted = values.clone();
            sorted.sort_unstable();
            select(&mut values, 0, &indexes);
            prop_assert!(indexes.iter().all(|index| values[*index] == sorted[*index]));
        }
    }

    /// What four threads saw of values that come in chunks, some NULL, merged.
    #[test]
    fn groups_of_several_chunks_and_states_are_complete() {
        let finish: Finish = Arc::new(|found, _| Ok(found[0].clone()));
        let places = vec![Place::Discrete(0.0), Place::Discrete(0.5), Place::Discrete(1.0)];
        let wanted = vec![Quantile { places, descending: false, finish }];
        let (total, rows) = (3usize, CHUNK_VALUES as i64 + 77);
        let mut merged = quantiles(Form::Wide, wanted.clone());
        for thread in 0..4i64 {
            let mut one = quantiles(Form::Wide, wanted.clone());
            for batch in 0..3 {
                let first = (thread * 3 + batch) * rows;
                let values: Vec<i128> = (first..first + rows).map(i128::from).collect();
                let groups: Vec<u32> = (first..first + rows).map(|value| (value % 2) as u32).collect();
                let valid: Vec<bool> = (first..first + rows).map(|value| value % 3 > 0).collect();
                let vector = Vector::with_nulls(Values::Wide(values.into()), Some(valid.into()));
                one.update(&[vector], &groups, total).expect("there is memory");
            }
            assert!(one.bytes() >= 2 * rows as usize * 32);
            let states = one.states(total).expect("there is memory");
            assert_eq!(one.bytes(), 0);
            merged.merge(&states, &[0, 1, 2], total).expect("there is memory");
        }
        let found = merged.results(&[0; 3]).expect("there is memory").remove(0);
        let all = 12 * rows;
        for group in 0..2i64 {
            let values: Vec<i64> = (0..all).filter(|value| value % 2 == group && value % 3 > 0).collect();
            let expected = [values[0], values[values.len().div_ceil(2) - 1], values[values.len() - 1]];
            let at = group as usize * 3;
            assert_eq!(found.as_wide()[at..at + 3], expected.map(i128::from));
        }
        assert!((6..9).all(|row| found.is_null(row)));
    }
}
