//! Values of one row of each group: any, the first, the last, or that of the row with the least or greatest of other values.

use std::sync::Arc;

use crate::accumulators::Accumulator;
use crate::arithmetic::float_order;
use crate::error::Result;
use crate::rows::{Field, Layout, Rows};
use crate::vector::{Form, Values, Vector};

/// The row of a group whose value is wanted. Of several ones it is the first, in the order of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// One whose value is not NULL.
    Any,
    /// The first.
    First,
    /// The last.
    Last,
    /// The one with the least second value, where neither is NULL.
    Least,
    /// The one with the greatest second value, where neither is NULL.
    Greatest,
}

/// Chosen values, of which one thread has seen some rows.
pub struct Choice {
    chosen: Chosen,
    field: Field,
    /// The number of the unit whose rows come.
    unit: i64,
    values: Rows,
    states: Vec<State>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// The order of the row's second value; zero without one.
    key: i64,
    /// The number of the row's unit.
    unit: i64,
    /// The number of the value plus one; zero: there is none.
    place: u32,
}

/// The place of a row of the batch that is looked at. Its lower bits are the row's number.
const OF_BATCH: u32 = 1 << 31;
/// The least number of values from which those that are no longer wanted are removed.
const REMOVED_FROM: usize = 1 << 14;

impl Choice {
    /// Values of a field.
    pub fn new(chosen: Chosen, field: Field) -> Choice {
        Choice { chosen, values: no_values(&field), field, unit: 0, states: vec![] }
    }

    /// Whether values can be compared to choose rows.
    pub fn compares(form: Form) -> bool {
        matches!(form, Form::Int | Form::Float | Form::Bits)
    }

    fn is_better(&self, key: i64, unit: i64, state: State) -> bool {
        state.place == 0
            || match self.chosen {
                Chosen::Last => unit >= state.unit,
                Chosen::Greatest if key != state.key => key > state.key,
                _ => (key, unit) < (state.key, state.unit),
            }
    }

    /// Chooses among rows with these keys and units; `None`: a row does not take part.
    fn choose(&mut self, column: &Vector, groups: &[u32], total: usize, key: impl Fn(usize) -> Option<(i64, i64)>) {
        self.states.resize(total, State::default());
        let mut changed = vec![];
        for (row, group) in groups.iter().enumerate() {
            let Some((key, unit)) = key(row) else { continue };
            let state = self.states[*group as usize];
            if self.is_better(key, unit, state) {
                if state.place & OF_BATCH == 0 {
                    changed.push(*group);
                }
                self.states[*group as usize] = State { key, unit, place: OF_BATCH | row as u32 };
            }
        }
        let mut rows = Vec::with_capacity(changed.len());
        for (at, group) in changed.iter().enumerate() {
            let place = &mut self.states[*group as usize].place;
            rows.push(*place & !OF_BATCH);
            *place = (self.values.len() + at) as u32 + 1;
        }
        if !rows.is_empty() {
            self.values.append(&[column.take(&rows)], rows.len());
        }
        if self.values.len() > REMOVED_FROM.max(2 * total) && self.chosen != Chosen::Any {
            self.remove_others();
        }
    }

    /// Removes values that are not wanted.
    fn remove_others(&mut self) {
        let with_values = self.states.iter_mut().filter(|state| state.place > 0);
        let kept: Vec<u32> =
            with_values.zip(1..).map(|(state, place)| std::mem::replace(&mut state.place, place) - 1).collect();
        self.values.retain(kept.into_iter());
    }
}

fn no_values(field: &Field) -> Rows {
    Rows::new(Arc::new(Layout::new(&[Field { nullable: true, is_key: false, ..field.clone() }], 0)))
}

/// The order of a value that is not NULL.
fn order(column: &Vector, row: usize) -> Option<i64> {
    if column.is_null(row) {
        return None;
    }
    Some(match &column.values {
        Values::Int(values) => values[row],
        Values::Float(values) => float_order(values[row]),
        Values::Bits(values) => values.value(row).into(),
        other => unreachable!("comparable values were compiled, not {other:?}"),
    })
}

impl Accumulator for Choice {
    fn begin(&mut self, unit: usize) {
        self.unit = unit as i64;
    }

    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        let (column, unit) = (&inputs[0], self.unit);
        let has_value = |row: usize| !column.is_null(row);
        match (self.chosen, inputs) {
            (Chosen::First | Chosen::Last, _) => self.choose(column, groups, total, |_| Some((0, unit))),
            (Chosen::Least | Chosen::Greatest, [_, by]) => {
                let key = |row: usize| if has_value(row) { Some((order(by, row)?, unit)) } else { None };
                self.choose(column, groups, total, key);
            }
            _ => self.choose(column, groups, total, |row| has_value(row).then_some((0, unit))),
        }
        Ok(())
    }

    fn states(&mut self, total: usize) -> Result<Vec<Vector>> {
        self.states.resize(total, State::default());
        let states = std::mem::take(&mut self.states);
        let values = std::mem::replace(&mut self.values, no_values(&self.field)).freeze();
        let has_value: Vec<bool> = states.iter().map(|state| state.place > 0).collect();
        let of_states = |part: fn(&State) -> i64| {
            let parts = states.iter().map(part).collect::<Vec<_>>().into();
            Vector::with_nulls(Values::Int(parts), Some(has_value.clone().into()))
        };
        let (keys, units) = (of_states(|state| state.key), of_states(|state| state.unit));
        if values.is_empty() {
            return Ok(vec![Vector::nulls(self.field.form, total, &self.field.data_type), keys, units]);
        }
        // A group without a value takes the first one, which is NULL there.
        let numbers: Vec<u32> = states.iter().map(|state| state.place.saturating_sub(1)).collect();
        let chosen = values.vector(0, &numbers);
        let valid: Vec<bool> = (0..total).map(|group| has_value[group] && !chosen.is_null(group)).collect();
        Ok(vec![Vector::with_nulls(chosen.values, Some(valid.into())), keys, units])
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> Result<()> {
        let [values, keys, units] = states else { unreachable!("a value, a key and a unit") };
        let (has_none, keys, units) = (|row: usize| keys.is_null(row), keys.as_ints(), units.as_ints());
        self.choose(values, groups, total, |row| (!has_none(row)).then(|| (keys[row], units[row])));
        Ok(())
    }

    fn results(&mut self, rows: &[i64]) -> Result<Vec<Vector>> {
        let mut states = self.states(rows.len())?;
        states.truncate(1);
        Ok(states)
    }

    fn bytes(&self) -> usize {
        self.values.bytes() + self.states.capacity() * size_of::<State>()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, StringViewArray};
    use arrow_schema::DataType;
    use proptest::prelude::*;

    use super::*;
    use crate::convert::from_arrow;

    fn texts(texts: &[Option<&str>]) -> Vector {
        from_arrow(&(Arc::new(StringViewArray::from(texts.to_vec())) as ArrayRef))
    }

    fn choice(chosen: Chosen) -> Choice {
        let field = Field { form: Form::Text, data_type: DataType::Utf8View, nullable: true, is_key: false };
        Choice::new(chosen, field)
    }

    fn found(of: &mut Choice, groups: usize) -> Vec<Option<String>> {
        let found = of.results(&vec![1; groups]).expect("results").remove(0);
        let text = |row: usize| String::from_utf8_lossy(found.text(row)).into_owned();
        (0..groups).map(|row| (!found.is_null(row)).then(|| text(row))).collect()
    }

    #[test]
    fn rows_are_chosen_by_units() {
        let long = "a text of more than twelve bytes";
        for (chosen, expected) in [
            (Chosen::Any, [Some(long), Some("d"), None]),
            (Chosen::First, [Some(long), None, None]),
            (Chosen::Last, [Some("b"), Some("d"), None]),
        ] {
            let (mut one, mut two) = (choice(chosen), choice(chosen));
            one.begin(3);
            one.update(&[texts(&[None, Some("a"), Some("b"), None])], &[0, 0, 0, 2], 4).expect("chosen");
            two.begin(1);
            two.update(&[texts(&[Some(long), None, Some("c")])], &[0, 1, 0], 2).expect("chosen");
            two.begin(2);
            two.update(&[texts(&[Some("d")])], &[1], 2).expect("chosen");
            assert!(one.bytes() > 0);
            one.merge(&two.states(2).expect("states"), &[0, 1], 4).expect("merged");
            let expected = [expected[0], expected[1], expected[2], None].map(|text| text.map(str::to_owned));
            assert_eq!(found(&mut one, 4), expected, "{chosen:?}");
            assert_eq!(found(&mut one, 2), [None, None], "none are left");
        }
    }

    #[test]
    fn nulls_are_not_compared_and_the_first_of_equal_ones_stays() {
        let by =
            |values: Vec<f64>, valid: Vec<bool>| Vector::with_nulls(Values::Float(values.into()), Some(valid.into()));
        for (chosen, expected) in [(Chosen::Greatest, "nan"), (Chosen::Least, "zero")] {
            let mut of = choice(chosen);
            let values = [Some("zero"), None, Some("skipped"), Some("other zero"), Some("nan"), Some("one")];
            let comparable = by(vec![0.0, -9.0, -8.0, -0.0, f64::NAN, 1.0], vec![true, true, false, true, true, true]);
            of.update(&[texts(&values), comparable.clone()], &[0; 6], 1).expect("chosen");
            assert_eq!(found(&mut of, 1), [Some(expected.to_owned())]);
            // An equal row of a unit before is better, and one of a later unit is not.
            for unit in [7, 5, 6] {
                let mut other = choice(chosen);
                other.begin(unit);
                let by = Vector::new(Values::Float(vec![0.0, f64::NAN].into()));
                other
                    .update(&[texts(&[Some(&format!("zero {unit}")), Some(&format!("nan {unit}"))]), by], &[0, 0], 1)
                    .expect("chosen");
                let mut merged = choice(chosen);
                merged.begin(6);
                let values = values.to_vec();
                merged.update(&[texts(&values), comparable.clone()], &[0; 6], 1).expect("chosen");
                merged.merge(&other.states(1).expect("states"), &[0], 1).expect("merged");
                let expected = if unit == 5 { format!("{expected} 5") } else { expected.to_owned() };
                assert_eq!(found(&mut merged, 1), [Some(expected)]);
            }
        }
    }

    proptest! {
        #[test]
        fn values_that_were_replaced_are_removed(keys in prop::collection::vec(0i64..1000, 1..40), batches in 1usize..400) {
            let mut of = choice(Chosen::Last);
            for batch in 0..batches {
                of.begin(batch);
                let names: Vec<String> = keys.iter().map(|key| format!("{batch} {key}")).collect();
                let column = texts(&names.iter().map(|name| Some(name.as_str())).collect::<Vec<_>>());
                let groups: Vec<u32> = (0..keys.len() as u32).collect();
                of.update(&[column], &groups, keys.len()).expect("chosen");
                if batch % 7 == 0 {
                    of.remove_others();
                }
            }
            let last: Vec<_> = keys.iter().map(|key| Some(format!("{} {key}", batches - 1))).collect();
            prop_assert_eq!(found(&mut of, keys.len()), last);
        }
    }
}
