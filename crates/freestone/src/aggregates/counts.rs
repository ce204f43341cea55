//! Frequencies of values: `mode`, `histogram`, `entropy` and `approx_top_k`.

use std::cmp::{Ordering, Reverse};
use std::hash::Hash;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, MapArray, StringViewArray, StructArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::HashMap;
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use freestone_exec::frequencies::Frequency;

use super::choices::{comparator, lists};
use super::collected::{Collected, Groups};
use crate::error::Error;
use crate::times::integers;

pub(super) fn functions() -> Vec<Collected> {
    let one = |types: &[DataType]| (types.len() == 1).then(|| types.to_vec());
    let value_and_count: fn(&[DataType]) -> Option<Vec<DataType>> = |types| match types {
        [value, count] if count.is_integer() => Some(vec![value.clone(), DataType::Int64]),
        _ => None,
    };
    let list_of = |types: &[DataType]| DataType::List(Arc::new(Field::new_list_field(types[0].clone(), true)));
    vec![
        Collected::new(
            "mode",
            "a value",
            one,
            |types| types[0].clone(),
            |groups| mode(&groups.columns[0], runs(groups)?),
        ),
        Collected::new(
            "histogram",
            "a value",
            one,
            |types| counts_of(&types[0]),
            |groups| histogram(&groups.columns[0], runs(groups)?, groups.to),
        ),
        Collected::new("entropy", "a value", one, |_| DataType::Float64, |groups| Ok(entropy(runs(groups)?))),
        Collected::new("approx_top_k", "a value and how many are wanted", value_and_count, list_of, top),
    ]
}

/// A map from values to their frequencies.
fn counts_of(value: &DataType) -> DataType {
    let key = Field::new("key", value.clone(), false);
    let count = Field::new("value", DataType::UInt64, true);
    let entries = Field::new("entries", DataType::Struct(vec![key, count].into()), false);
    DataType::Map(Arc::new(entries), false)
}

/// A value of a group: the row of its first occurrence, and its frequency.
struct Run {
    first: usize,
    count: u64,
}

/// Values of which equal ones have equal bytes. Other ones are only compared: zeros of two signs are equal, and so are 30 days and
/// a month.
enum Keys {
    Words(Vec<i64>),
    Texts(StringViewArray),
}

impl Keys {
    fn of(column: &ArrayRef) -> Option<Keys> {
        let data_type = column.data_type();
        let is_time = matches!(data_type, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_));
        Some(match data_type {
            // Beyond the largest BIGINT, two numbers must not become one.
            DataType::UInt64 => return None,
            _ if is_time || data_type.is_integer() => Keys::Words(integers(column).ok()?.values().to_vec()),
            DataType::Utf8View => Keys::Texts(column.as_string_view().clone()),
            _ => return None,
        })
    }

    /// The distinct values at these places, in the order of their first ones.
    fn counted(&self, places: Vec<usize>) -> Vec<Run> {
        match self {
            Keys::Words(words) => counted(places, |place| words[place]),
            Keys::Texts(texts) => counted(places, |place| texts.value(place)),
        }
    }
}

fn counted<K: Hash + Eq>(places: Vec<usize>, key: impl Fn(usize) -> K) -> Vec<Run> {
    let (mut known, mut runs) = (HashMap::<K, usize>::new(), Vec::<Run>::new());
    for place in places {
        let at = *known.entry(key(place)).or_insert(runs.len());
        match runs.get_mut(at) {
            Some(run) => run.count += 1,
            None => runs.push(Run { first: place, count: 1 }),
        }
    }
    runs
}

/// The distinct values of each group in sorted order.
fn runs(groups: &Groups) -> Result<Vec<Vec<Run>>> {
    let compare = comparator(&groups.columns[0], false)?;
    let keys = Keys::of(&groups.columns[0]);
    let of_group = |mut places: Vec<usize>| {
        if let Some(keys) = &keys {
            let mut runs = keys.counted(places);
            runs.sort_by(|a, b| compare(a.first, b.first));
            return runs;
        }
        places.sort_by(|a, b| compare(*a, *b));
        let mut runs: Vec<Run> = vec![];
        for place in places {
            match runs.last_mut().filter(|run| compare(run.first, place) == Ordering::Equal) {
                Some(run) => run.count += 1,
                None => runs.push(Run { first: place, count: 1 }),
            }
        }
        runs
    };
    Ok(groups.places(1).map(of_group).collect())
}

/// Makes the results of all groups from their frequencies.
pub(crate) type OfFrequency = Box<dyn Fn(&ArrayRef, &Frequency) -> Result<ArrayRef> + Send + Sync>;

/// How a function computes its results from the distinct values of each group, if frequencies are all that it needs.
pub(crate) fn of_frequency(function: &AggregateFunctionExpr) -> Option<OfFrequency> {
    let to = function.field().data_type().clone();
    Some(match function.fun().inner().downcast_ref::<Collected>()?.name {
        "mode" => Box::new(|values, of| mode(values, sorted(values, of)?)),
        "histogram" => Box::new(move |values, of| histogram(values, sorted(values, of)?, &to)),
        "entropy" => Box::new(|values, of| Ok(entropy(sorted(values, of)?))),
        _ => return None,
    })
}

/// The distinct values of each group in sorted order. Zeros of two signs become one.
fn sorted(values: &ArrayRef, of: &Frequency) -> Result<Vec<Vec<Run>>> {
    let compare = comparator(values, false)?;
    let of_group = |pair: &[usize]| {
        let run = |first: usize| Run { first, count: of.counts[first] as u64 };
        let mut runs: Vec<Run> = (pair[0]..pair[1]).map(run).collect();
        runs.sort_by(|a, b| compare(a.first, b.first));
        runs.dedup_by(|again, run| {
            let is_equal = compare(run.first, again.first) == Ordering::Equal;
            run.count += if is_equal { again.count } else { 0 };
            is_equal
        });
        runs
    };
    Ok(of.starts.windows(2).map(of_group).collect())
}

/// The most frequent value; of equally frequent ones, the first to occur.
fn mode(values: &ArrayRef, runs: Vec<Vec<Run>>) -> Result<ArrayRef> {
    let most =
        |runs: Vec<Run>| runs.into_iter().min_by_key(|run| (Reverse(run.count), run.first)).map(|run| run.first as u32);
    let places: UInt32Array = runs.into_iter().map(most).collect();
    Ok(take(values, &places, None)?)
}

fn histogram(values: &ArrayRef, runs: Vec<Vec<Run>>, to: &DataType) -> Result<ArrayRef> {
    let lengths: Vec<usize> = runs.iter().map(Vec::len).collect();
    let nulls = NullBuffer::from(lengths.iter().map(|length| *length > 0).collect::<Vec<_>>());
    let all = || runs.iter().flatten();
    let keys = take(values, &UInt32Array::from_iter_values(all().map(|run| run.first as u32)), None)?;
    let counts: ArrayRef = Arc::new(UInt64Array::from_iter_values(all().map(|run| run.count)));
    let DataType::Map(entries, _) = to else {
        return Err(Error::invalid("the result of histogram is no map").into());
    };
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(Error::invalid("the entries of a map are no structs").into());
    };
    let columns = StructArray::try_new(fields.clone(), vec![keys, counts], None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(MapArray::try_new(entries.clone(), offsets, columns, Some(nulls), false)?))
}

/// The entropy of the frequencies in bits; 0 without values.
fn entropy(runs: Vec<Vec<Run>>) -> ArrayRef {
    let of_group = |runs: &Vec<Run>| {
        let total = runs.iter().map(|run| run.count).sum::<u64>() as f64;
        let share = |run: &Run| run.count as f64 / total;
        runs.iter().map(|run| -share(run) * share(run).log2()).sum::<f64>() + 0.0
    };
    Arc::new(Float64Array::from_iter_values(runs.iter().map(of_group)))
}

/// The most frequent values, in descending order of frequency.
fn top(groups: &Groups) -> Result<ArrayRef> {
    let wanted = groups.columns[1].as_primitive::<Int64Type>();
    let of_group = |mut runs: Vec<Run>| -> Result<Vec<u32>> {
        let Some(first) = runs.first() else { return Ok(vec![]) };
        let count = if wanted.is_valid(first.first) { wanted.value(first.first) } else { 0 };
        if !(1..=1_000_000).contains(&count) {
            return Err(Error::invalid(format!("approx_top_k gives 1 to 1000000 values, not {count}")).into());
        }
        runs.sort_by_key(|run| (Reverse(run.count), run.first));
        Ok(runs.into_iter().take(count as usize).map(|run| run.first as u32).collect())
    };
    let places = runs(groups)?.into_iter().map(of_group).collect::<Result<Vec<_>>>()?;
    lists(groups, &groups.columns[0], places)
}
