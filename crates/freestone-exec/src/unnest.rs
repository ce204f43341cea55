//! Lists as rows: each element becomes a row, with what the other columns have in the row of its list.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

use crate::convert::from_arrow;
use crate::error::{ExecError, Result};
use crate::pipeline::{Step, StepWorker, Take};
use crate::vector::{Batch, Form, Values, Vector};

/// The rows of a batch of elements.
const OUTPUT_ROWS: usize = 8192;

/// Replaces lists by their elements. A shorter list of several has NULLs at its end.
pub struct Unnest {
    /// The columns that are lists.
    pub lists: Vec<usize>,
    /// Whether a NULL in place of a list becomes a row of NULL.
    pub keeps_null: bool,
    /// Whether an empty list does.
    pub keeps_empty: bool,
}

/// Whether lists of a type become rows here.
pub fn takes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

impl Step for Arc<Unnest> {
    fn worker(&self) -> Box<dyn StepWorker> {
        Box::new(Worker { of: self.clone(), parents: vec![], positions: vec![] })
    }
}

struct Worker {
    of: Arc<Unnest>,
    /// The rows of the lists of the next elements, and the positions of these in their lists.
    parents: Vec<u32>,
    positions: Vec<u32>,
}

/// The lists of a column.
struct Lists {
    values: ArrayRef,
    /// Where the elements of each row begin, and where they end. NULL has none.
    elements: Vec<(u64, u64)>,
    valid: Option<NullBuffer>,
}

impl Lists {
    fn of(column: &Vector) -> Result<Lists> {
        let Values::Arrow(array) = &column.values else { return Err(ExecError::foreign("a list has another form")) };
        let (values, mut elements): (_, Vec<(u64, u64)>) = match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                let offsets = lists.value_offsets().windows(2);
                (lists.values(), offsets.map(|pair| (pair[0] as u64, pair[1] as u64)).collect())
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                let offsets = lists.value_offsets().windows(2);
                (lists.values(), offsets.map(|pair| (pair[0] as u64, pair[1] as u64)).collect())
            }
            DataType::FixedSizeList(..) => {
                let lists = array.as_fixed_size_list();
                let len = lists.value_length() as u64;
                let first = |row| lists.value_offset(row) as u64;
                (lists.values(), (0..lists.len()).map(|row| (first(row), first(row) + len)).collect())
            }
            other => return Err(ExecError::foreign(format!("{other} is not a list"))),
        };
        if let Some(valid) = &column.valid {
            (!valid.inner()).set_indices().for_each(|row| elements[row] = (0, 0));
        }
        Ok(Lists { values: values.clone(), elements, valid: column.valid.clone() })
    }

    /// The rows that a row becomes.
    fn rows(&self, row: usize, of: &Unnest) -> u32 {
        let (from, to) = self.elements[row];
        let is_kept = match self.valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
            true => of.keeps_null,
            false => of.keeps_empty,
        };
        ((to - from) as u32).max(u32::from(is_kept))
    }

    /// The elements at positions of lists, and NULL behind the end of a list.
    fn elements(&self, parents: &[u32], positions: &[u32]) -> Result<Vector> {
        let place = |(parent, position): (&u32, &u32)| {
            let (from, to) = self.elements[*parent as usize];
            Some(from + u64::from(*position)).filter(|at| *at < to)
        };
        let places = || parents.iter().zip(positions).map(place);
        let first = places().next().flatten();
        if let Some(first) =
            first.filter(|first| places().enumerate().all(|(at, place)| place == Some(first + at as u64)))
        {
            return Ok(from_arrow(&self.values.slice(first as usize, parents.len())));
        }
        let places: UInt64Array = places().collect();
        let elements = arrow_select::take::take(&self.values, &places, None).map_err(ExecError::foreign)?;
        Ok(from_arrow(&elements))
    }
}

impl StepWorker for Worker {
    fn push(&mut self, batch: Batch, next: Take<'_>) -> Result<()> {
        let of = self.of.clone();
        let lists = of.lists.iter().map(|column| Lists::of(&batch.columns[*column])).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.rows {
            let rows = lists.iter().map(|lists| lists.rows(row, &of)).max().unwrap_or(0);
            let mut from = 0;
            while from < rows {
                let to = rows.min(from + (OUTPUT_ROWS - self.parents.len()) as u32);
                self.parents.extend(std::iter::repeat_n(row as u32, (to - from) as usize));
                self.positions.extend(from..to);
                from = to;
                if self.parents.len() == OUTPUT_ROWS {
                    self.pass(&batch, &lists, next)?;
                }
            }
        }
        if self.parents.is_empty() { Ok(()) } else { self.pass(&batch, &lists, next) }
    }
}

impl Worker {
    fn pass(&mut self, batch: &Batch, lists: &[Lists], next: Take<'_>) -> Result<()> {
        let column = |(column, values): (usize, &Vector)| match self.of.lists.iter().position(|list| *list == column) {
            Some(list) => lists[list].elements(&self.parents, &self.positions),
            None => Ok(values.take(&self.parents)),
        };
        let columns = batch.columns.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let rows = self.parents.len();
        self.parents.clear();
        self.positions.clear();
        next(Batch { rows, columns })
    }
}

/// Makes one column of several, row by row, in place of the first of them: the elements of lists that are written in a query.
pub struct Interleave {
    /// The columns that become one. Their values have one form, which [`Interleave::takes`].
    pub parts: Vec<usize>,
    /// The columns that stay, before and behind them, in the order of the results; `None` is the new one.
    pub columns: Vec<Option<usize>>,
}

impl Interleave {
    /// Whether values of a form are put together here.
    pub fn takes(form: Form) -> bool {
        matches!(form, Form::Int | Form::Float | Form::Wide | Form::Bits)
    }

    fn interleaved(&self, batch: &Batch) -> Vector {
        let parts: Vec<&Vector> = self.parts.iter().map(|part| &batch.columns[*part]).collect();
        fn all<T: Copy>(rows: usize, parts: &[&[T]]) -> Vec<T> {
            (0..rows).flat_map(|row| parts.iter().map(move |part| part[row])).collect()
        }
        fn bits(rows: usize, parts: usize, bit: impl Fn(usize, usize) -> bool) -> BooleanBuffer {
            BooleanBuffer::collect_bool(rows * parts, |at| bit(at % parts, at / parts))
        }
        let (rows, width) = (batch.rows, parts.len());
        let values = match &parts[0].values {
            Values::Int(_) => {
                Values::Int(all(rows, &parts.iter().map(|part| part.as_ints()).collect::<Vec<_>>()).into())
            }
            Values::Float(_) => {
                Values::Float(all(rows, &parts.iter().map(|part| part.as_floats()).collect::<Vec<_>>()).into())
            }
            Values::Wide(_) => {
                Values::Wide(all(rows, &parts.iter().map(|part| part.as_wide()).collect::<Vec<_>>()).into())
            }
            Values::Bits(_) => Values::Bits(bits(rows, width, |part, row| parts[part].as_bits().value(row))),
            other => unreachable!("plain values were compiled, not {other:?}"),
        };
        let has_nulls = parts.iter().any(|part| part.valid.is_some());
        let valid = has_nulls.then(|| NullBuffer::new(bits(rows, width, |part, row| !parts[part].is_null(row))));
        Vector::with_nulls(values, valid)
    }
}

impl Step for Arc<Interleave> {
    fn worker(&self) -> Box<dyn StepWorker> {
        Box::new(Interleaving(self.clone()))
    }
}

struct Interleaving(Arc<Interleave>);

impl StepWorker for Interleaving {
    fn push(&mut self, batch: Batch, next: Take<'_>) -> Result<()> {
        let width = self.0.parts.len();
        let parents: Vec<u32> = (0..batch.rows as u32).flat_map(|row| std::iter::repeat_n(row, width)).collect();
        let column = |column: &Option<usize>| match column {
            Some(column) => batch.columns[*column].take(&parents),
            None => self.0.interleaved(&batch),
        };
        let columns = self.0.columns.iter().map(column).collect();
        next(Batch { rows: parents.len(), columns })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::ListArray;
    use arrow_array::builder::{FixedSizeListBuilder, Int64Builder};
    use arrow_array::types::Int64Type;
    use proptest::prelude::*;

    use super::*;

    fn passed(worker: &mut dyn StepWorker, batch: Batch) -> Vec<Batch> {
        let mut passed = vec![];
        let mut take = |batch: Batch| {
            passed.push(batch);
            Ok(())
        };
        worker.push(batch, &mut take).expect("lists of integers");
        passed
    }

    fn values(column: &Vector) -> Vec<Option<i64>> {
        column.as_ints().iter().enumerate().map(|(row, x)| (!column.is_null(row)).then_some(*x)).collect()
    }

    type List = Option<Vec<Option<i64>>>;

    /// The numbers of rows with their elements, as they are defined.
    fn expected(lists: &[(List, List)], keeps_null: bool, keeps_empty: bool) -> Vec<[Option<i64>; 3]> {
        let mut all = vec![];
        for (row, (a, b)) in lists.iter().enumerate() {
            let len = |list: &List| match list {
                None => usize::from(keeps_null),
                Some(list) => list.len().max(usize::from(keeps_empty)),
            };
            let element = |list: &List, at: usize| list.as_ref().and_then(|list| list.get(at).copied().flatten());
            all.extend((0..len(a).max(len(b))).map(|at| [Some(row as i64), element(a, at), element(b, at)]));
        }
        all
    }

    proptest! {
        #[test]
        fn each_element_is_a_row(
            lists in prop::collection::vec((list(), list()), 0..40),
            from in 0usize..5,
            keeps_null in any::<bool>(),
            keeps_empty in any::<bool>(),
        ) {
            let array = |of: fn(&(List, List)) -> List| -> ArrayRef {
                let array = ListArray::from_iter_primitive::<Int64Type, _, _>(lists.iter().map(of));
                let from = from.min(lists.len());
                Arc::new(array.slice(from, lists.len() - from))
            };
            let lists_left = &lists[from.min(lists.len())..];
            let rows = lists_left.len();
            let columns = vec![
                Vector::ints((0..rows as i64).collect()),
                from_arrow(&array(|pair| pair.0.clone())),
                from_arrow(&array(|pair| pair.1.clone())),
            ];
            let unnest = Arc::new(Unnest { lists: vec![1, 2], keeps_null, keeps_empty });
            let mut worker = unnest.worker();
            let mut found = vec![];
            for batch in passed(worker.as_mut(), Batch { rows, columns }) {
                let columns: Vec<_> = batch.columns.iter().map(values).collect();
                found.extend((0..batch.rows).map(|row| [columns[0][row], columns[1][row], columns[2][row]]));
            }
            prop_assert_eq!(found, expected(lists_left, keeps_null, keeps_empty));
        }
    }

    fn list() -> impl Strategy<Value = List> {
        prop::option::weighted(0.8, prop::collection::vec(prop::option::weighted(0.8, any::<i64>()), 0..5))
    }

    #[test]
    fn a_long_list_becomes_several_batches() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some((0..20_000).map(Some)), None]);
        let column = from_arrow(&(Arc::new(list) as ArrayRef));
        let mut worker = Arc::new(Unnest { lists: vec![0], keeps_null: true, keeps_empty: false }).worker();
        let batches = passed(worker.as_mut(), Batch { rows: 2, columns: vec![column] });
        assert!(batches.iter().all(|batch| batch.rows <= OUTPUT_ROWS));
        let all: Vec<_> = batches.iter().flat_map(|batch| values(&batch.columns[0])).collect();
        assert!(all.into_iter().eq((0..20_000).map(Some).chain([None])));
    }

    #[test]
    fn lists_of_one_length_become_rows() {
        let mut builder = FixedSizeListBuilder::new(Int64Builder::new(), 2);
        for pair in [[Some(1), None], [Some(3), Some(4)]] {
            pair.iter().for_each(|value| builder.values().append_option(*value));
            builder.append(true);
        }
        let column = from_arrow(&(Arc::new(builder.finish()) as ArrayRef));
        let mut worker = Arc::new(Unnest { lists: vec![0], keeps_null: false, keeps_empty: false }).worker();
        let batches = passed(worker.as_mut(), Batch { rows: 2, columns: vec![column] });
        assert_eq!(values(&batches[0].columns[0]), [Some(1), None, Some(3), Some(4)]);
    }

    #[test]
    fn columns_are_put_together() {
        let nulls = Vector::with_nulls(Values::Int(vec![7, 8, 9].into()), Some(vec![true, false, true].into()));
        let batch = Batch { rows: 3, columns: vec![Vector::ints(vec![0, 1, 2]), Vector::ints(vec![4, 5, 6]), nulls] };
        let step = Arc::new(Interleave { parts: vec![1, 2], columns: vec![None, Some(0)] });
        let batches = passed(step.worker().as_mut(), batch);
        assert_eq!(values(&batches[0].columns[0]), [Some(4), Some(7), Some(5), None, Some(6), Some(9)]);
        assert_eq!(values(&batches[0].columns[1]), [0, 0, 1, 1, 2, 2].map(Some));
    }
}
