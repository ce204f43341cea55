//! How often each value occurs in each group.
//!
//! Pairs of a group and a value are groups of a table of their own, of which the rows are counted. So memory is that of the distinct
//! values, and values are hashed and compared as keys are.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, LargeListViewArray, StructArray};
use arrow_schema::{DataType, Field as ArrowField};

use crate::accumulators::{Accumulator, count_each};
use crate::convert::{from_arrow, to_arrow};
use crate::direct::KeyDomain;
use crate::error::{ExecError, Result};
use crate::groups::{GroupTable, HASH};
use crate::rows::{Field, FrozenRows, Layout};
use crate::vector::{Form, Values, Vector};

/// The distinct values of all groups, one group after the other. Those of a group are in the order of their first rows.
pub struct Frequency {
    /// The values.
    pub values: Vector,
    /// How often each occurs.
    pub counts: Vec<i64>,
    /// Where the values of each group begin, and the end of the last ones.
    pub starts: Vec<usize>,
}

/// Makes the results of all groups.
pub type FinishFrequency = Arc<dyn Fn(&Frequency) -> Result<Vector> + Send + Sync>;

/// The frequencies of the values of one column. NULL does not count.
pub struct Frequencies {
    value: KeyDomain,
    pairs: GroupTable,
    counts: Vec<i64>,
    /// By pair: the number of the unit that it came in first, and its own number there.
    firsts: Vec<i64>,
    unit: i64,
    finish: FinishFrequency,
}

/// Values of the first so many groups are found by position, if there are few of them.
const DIRECT_GROUPS: i64 = 16;

impl Frequencies {
    /// Frequencies of values of which `value` is known, without those of NULL.
    pub fn new(value: KeyDomain, finish: FinishFrequency) -> Frequencies {
        Frequencies { pairs: table(&value), value, counts: vec![], firsts: vec![], unit: 0, finish }
    }

    /// The pairs of groups and values.
    fn find(&mut self, values: Vector, groups: Vec<i64>) -> Vec<u32> {
        let mut pairs = vec![];
        let rows = groups.len();
        self.pairs.find_keys(&[Vector::ints(groups), Vector::new(values.values)], rows, &mut pairs);
        pairs
    }

    fn add(&mut self, values: Vector, groups: Vec<i64>) {
        let pairs = self.find(values, groups);
        let unit = self.unit << u32::BITS;
        let known = self.firsts.len();
        self.firsts.extend((known..self.pairs.len()).map(|pair| unit | pair as i64));
        self.counts.resize(self.pairs.len(), 0);
        count_each(&mut self.counts, None, &pairs);
    }

    /// The frequencies by group, and where each value came first. None are left.
    fn take(&mut self, total: usize) -> (Frequency, Vec<i64>) {
        let pairs = std::mem::replace(&mut self.pairs, table(&self.value)).into_rows().freeze();
        let groups = group_of(&pairs);
        let mut starts = vec![0; total + 1];
        groups.iter().for_each(|group| starts[*group as usize + 1] += 1);
        (0..total).for_each(|group| starts[group + 1] += starts[group]);
        let (counts, firsts) = (std::mem::take(&mut self.counts), std::mem::take(&mut self.firsts));
        let mut order: Vec<u32> = (0..groups.len() as u32).collect();
        order.sort_unstable_by_key(|pair| (groups[*pair as usize], firsts[*pair as usize]));
        let in_order = |values: Vec<i64>| order.iter().map(|pair| values[*pair as usize]).collect();
        let (counts, firsts) = (in_order(counts), in_order(firsts));
        (Frequency { values: pairs.vector(1, &order), counts, starts }, firsts)
    }
}

/// A table of no pairs.
fn table(value: &KeyDomain) -> GroupTable {
    let group = Field { form: Form::Int, data_type: DataType::Int64, nullable: false, is_key: true };
    let value_field = Field { nullable: false, ..value.field.clone() };
    let layout = Arc::new(Layout::new(&[group.clone(), value_field], HASH + 1));
    let group = KeyDomain { field: group, bounds: Some((0, DIRECT_GROUPS - 1)) };
    GroupTable::with_domains(layout, &[group, value.clone()])
}

fn group_of(pairs: &FrozenRows) -> Vec<i64> {
    let all: Vec<u32> = (0..pairs.len() as u32).collect();
    pairs.vector(0, &all).as_ints().to_vec()
}

impl Accumulator for Frequencies {
    fn begin(&mut self, unit: usize) {
        self.unit = unit as i64;
    }

    fn update(&mut self, inputs: &[Vector], groups: &[u32], _: usize) -> Result<()> {
        let group = |row: usize| i64::from(groups[row]);
        match &inputs[0].valid {
            Some(valid) if valid.null_count() > 0 => {
                let rows: Vec<u32> = valid.valid_indices().map(|row| row as u32).collect();
                let groups = rows.iter().map(|row| group(*row as usize)).collect();
                self.add(inputs[0].take(&rows), groups);
            }
            _ => self.add(inputs[0].clone(), (0..groups.len()).map(group).collect()),
        }
        Ok(())
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        let (Frequency { values, counts, starts }, firsts) = self.take(total);
        let sizes: Vec<i64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as i64).collect();
        let starts: Vec<i64> = starts[..total].iter().map(|start| *start as i64).collect();
        let values = to_arrow(&values, &self.value.field.data_type)?;
        let (counts, firsts) = (Int64Array::from(counts), Int64Array::from(firsts));
        let (counts, firsts): (ArrayRef, ArrayRef) = (Arc::new(counts), Arc::new(firsts));
        let field = |name: &str, array: &ArrayRef| Arc::new(ArrowField::new(name, array.data_type().clone(), true));
        let columns = [("value", values), ("count", counts), ("first", firsts)];
        let columns: Vec<_> = columns.into_iter().map(|(name, array)| (field(name, &array), array)).collect();
        let pairs = StructArray::from(columns);
        let field = Arc::new(ArrowField::new_list_field(pairs.data_type().clone(), false));
        let lists = LargeListViewArray::try_new(field, starts.into(), sizes.into(), Arc::new(pairs), None);
        Ok(vec![Vector::new(Values::Arrow(Arc::new(lists.map_err(ExecError::foreign)?)))])
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], _: usize) -> Result<()> {
        let Values::Arrow(array) = &states[0].values else { unreachable!("states are arrays") };
        let lists = array.as_list_view::<i64>();
        let (mut rows, mut of) = (vec![], vec![]);
        for ((group, start), size) in groups.iter().zip(lists.offsets()).zip(lists.sizes()) {
            rows.extend((*start..start + size).map(|row| row as u32));
            of.extend(std::iter::repeat_n(i64::from(*group), *size as usize));
        }
        let pairs = lists.values().as_struct();
        // Only these values are converted: a state may be a part of many.
        let Values::Arrow(values) = Vector::new(Values::Arrow(pairs.column(0).clone())).take(&rows).values else {
            unreachable!("arrays are taken from arrays")
        };
        let found = self.find(from_arrow(&values), of);
        self.counts.resize(self.pairs.len(), 0);
        self.firsts.resize(self.pairs.len(), i64::MAX);
        let [counts, firsts] = [1, 2].map(|column| pairs.column(column).as_primitive::<Int64Type>().values());
        for (pair, row) in found.into_iter().map(|pair| pair as usize).zip(rows) {
            self.counts[pair] += counts[row as usize];
            self.firsts[pair] = self.firsts[pair].min(firsts[row as usize]);
        }
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        let (frequency, _) = self.take(rows.len());
        Ok(vec![(self.finish)(&frequency)?])
    }

    fn bytes(&self) -> usize {
        self.pairs.bytes() + (self.counts.capacity() + self.firsts.capacity()) * 8
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;

    use super::*;

    fn known(form: Form, data_type: DataType, bounds: Option<(i64, i64)>) -> KeyDomain {
        KeyDomain { field: Field { form, data_type, nullable: true, is_key: true }, bounds }
    }

    /// Writes value × count of each group.
    fn written(data_type: DataType) -> FinishFrequency {
        Arc::new(move |of| {
            let values = to_arrow(&of.values, &data_type)?;
            let value = |at: usize| match &data_type {
                DataType::Utf8View => values.as_string_view().value(at).to_owned(),
                _ => values.as_primitive::<Int64Type>().value(at).to_string(),
            };
            let group = |pair: &[usize]| {
                let one = |at: usize| format!("{}×{}", value(at), of.counts[at]);
                (pair[0]..pair[1]).map(one).collect::<Vec<_>>().join(" ")
            };
            Ok(from_arrow(
                &(Arc::new(of.starts.windows(2).map(|pair| Some(group(pair))).collect::<StringViewArray>()) as _),
            ))
        })
    }

    fn texts(vector: &Vector) -> Vec<String> {
        (0..vector.len()).map(|row| String::from_utf8_lossy(vector.text(row)).into_owned()).collect()
    }

    #[test]
    fn values_are_counted_by_group_and_merged() {
        // Bounds that hold, none, and bounds that are too narrow.
        for bounds in [Some((1, 9)), None, Some((1, 2))] {
            let new = || Frequencies::new(known(Form::Int, DataType::Int64, bounds), written(DataType::Int64));
            let (mut one, mut two) = (new(), new());
            let valid = vec![true, true, true, false, true, true];
            let column = Vector::with_nulls(Values::Int(vec![1, 2, 1, 7, 9, 1].into()), Some(valid.into()));
            one.begin(5);
            one.update(&[column], &[0, 0, 0, 0, 40, 40], 41).expect("counted");
            two.begin(2);
            two.update(&[Vector::ints(vec![2, 9, 2])], &[1, 1, 0], 2).expect("counted");
            assert!(one.bytes() > 0);
            let states = two.states(2).expect("states").remove(0);
            // The second group of the other thread is this one's last, and the first one alike.
            one.merge(&[states.slice(1, 1)], &[40], 41).expect("merged");
            one.merge(&[states.slice(0, 1)], &[0], 41).expect("merged");
            let found = texts(&one.results(&[0; 41]).expect("results")[0]);
            assert_eq!((found[0].as_str(), found[1].as_str(), found[40].as_str()), ("2×2 1×2", "", "2×1 9×2 1×1"));
            assert_eq!(texts(&one.results(&[0]).expect("results")[0]), [""], "none are left");
        }
    }

    #[test]
    fn texts_are_counted() {
        let mut of = Frequencies::new(known(Form::Text, DataType::Utf8View, None), written(DataType::Utf8View));
        let long = "a text of more than twelve bytes";
        let column: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b"), Some(long), None, Some(long), Some("")]));
        of.update(&[from_arrow(&column)], &[0, 0, 0, 0, 0], 1).expect("counted");
        let states = of.states(1).expect("states");
        of.merge(&states, &[2], 3).expect("merged");
        assert_eq!(texts(&of.results(&[0; 3]).expect("results")[0]), ["", "", &format!("b×1 {long}×2 ×1")]);
    }
}
