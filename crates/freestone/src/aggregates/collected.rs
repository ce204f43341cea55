//! Aggregates that are computed from all rows of a group at once. Each is a function over the rows of all groups, in
//! which the rows of a group are adjacent and in the order of their arrival.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use datafusion::arrow::compute;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::order_by::{Finish, RowGroups, Rows, of_lists, row_fields};
use crate::error::{Error, ErrorKind};
use crate::type_names::type_name;

/// The number of collected rows at which rows without an effect are removed.
const REDUCED_FROM: usize = 1 << 16;

/// The rows of groups.
pub(super) struct Groups<'a> {
    /// One column per argument.
    pub columns: &'a [ArrayRef],
    /// The first row of each group, and the end of the last one.
    pub offsets: &'a [usize],
    /// The type of the result.
    pub to: &'a DataType,
    /// Whether WITHIN GROUP sorts in descending order.
    pub descending: bool,
}

impl Groups<'_> {
    /// The rows of each group in which the first `arguments` columns are not NULL.
    pub fn places(&self, arguments: usize) -> impl Iterator<Item = Vec<usize>> {
        let nulls: Vec<_> = self.columns[..arguments].iter().map(|column| column.logical_nulls()).collect();
        self.offsets.windows(2).map(move |pair| {
            let is_valid = |row: &usize| nulls.iter().flatten().all(|nulls| nulls.is_valid(*row));
            (pair[0]..pair[1]).filter(is_valid).collect()
        })
    }
}

/// Returns the positions of the rows that have an effect.
pub(super) type Reduce = fn(&Groups) -> Result<Vec<u32>>;

/// Compares rows of one group, as columns of arguments, with those that have an effect.
pub(super) type Beats = fn(rows: &[ArrayRef], left: &[ArrayRef], to: &DataType) -> Result<Option<BooleanArray>>;

/// An aggregate as data.
#[derive(Clone)]
pub(super) struct Collected {
    pub name: &'static str,
    pub aliases: Vec<String>,
    /// A description of the accepted arguments, for error messages.
    pub takes: &'static str,
    /// The types to which arguments are cast; `None` if they are not accepted.
    pub coercion: fn(&[DataType]) -> Option<Vec<DataType>>,
    pub result: fn(&[DataType]) -> DataType,
    pub finish: fn(&Groups) -> Result<ArrayRef>,
    /// Returns the rows that have an effect, if others need not be stored.
    pub reduce: Option<Reduce>,
    /// Returns which rows may still have an effect, as `reduce` has left others; `None` if that is not known.
    pub beats: Option<Beats>,
    pub within_group: bool,
    /// Whether its ORDER BY or WITHIN GROUP sorts in descending order.
    pub descending: bool,
    pub signature: Signature,
}

impl Collected {
    pub fn new(
        name: &'static str,
        takes: &'static str,
        coercion: fn(&[DataType]) -> Option<Vec<DataType>>,
        result: fn(&[DataType]) -> DataType,
        finish: fn(&Groups) -> Result<ArrayRef>,
    ) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        let (aliases, reduce, beats, within_group, descending) = (vec![], None, None, false, false);
        Collected { name, aliases, takes, coercion, result, finish, reduce, beats, within_group, descending, signature }
    }

    fn wrong<T>(&self, types: &[DataType]) -> Result<T> {
        let given: Vec<String> = types.iter().map(type_name).collect();
        let message = format!("{} takes {}, and was given ({})", self.name, self.takes, given.join(", "));
        Err(Error::new(ErrorKind::Type, message).into())
    }

    fn maker(&self, args: &AccumulatorArgs) -> Maker {
        Maker { function: self.clone(), to: args.return_field.data_type().clone() }
    }
}

/// An aggregate as one over values in descending order; `None` if it is not one of these.
pub(crate) fn in_descending_order(function: &AggregateUDF) -> Option<AggregateUDF> {
    let collected = function.inner().downcast_ref::<Collected>()?;
    Some(AggregateUDF::from(Collected { descending: true, ..collected.clone() }))
}

/// Whether an aggregate is one of these.
pub(crate) fn is_collected(function: &AggregateUDF) -> bool {
    let inner: &dyn std::any::Any = function.inner().as_ref();
    inner.is::<Collected>()
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collected").field(&self.name).finish()
    }
}

impl PartialEq for Collected {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.descending == other.descending
    }
}

impl Eq for Collected {}

impl Hash for Collected {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.descending).hash(state);
    }
}

impl AggregateUDFImpl for Collected {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.coercion)(types) {
            Some(types) => Ok(types),
            None => self.wrong(types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.coercion)(types) {
            Some(types) => Ok((self.result)(&types)),
            None => self.wrong(types),
        }
    }

    fn supports_within_group_clause(&self) -> bool {
        self.within_group
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let rows = Field::new_list_field(DataType::Struct(row_fields(args.input_fields)), false);
        Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "rows"), rows, false))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (maker, rows) = (self.maker(&args), Rows::new(args.expr_fields));
        Ok(Box::new(CollectedAccumulator { maker, rows, count: 0, reduced: 0, left: None }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let (maker, rows) = (self.maker(&args), Rows::new(args.expr_fields));
        Ok(Box::new(RowGroups::new(Box::new(maker), rows)))
    }
}

#[derive(Debug, Clone)]
struct Maker {
    function: Collected,
    to: DataType,
}

impl Finish for Maker {
    fn finish(&self, columns: &[ArrayRef], groups: Vec<u32>, count: usize) -> Result<ArrayRef> {
        if count == 1 {
            return (self.function.finish)(&self.groups(columns, &[0, groups.len()]));
        }
        let (places, offsets) = by_group(&groups, count);
        let columns = taken(columns, places)?;
        (self.function.finish)(&self.groups(&columns, &offsets))
    }

    fn reduced(&self, columns: &[ArrayRef], groups: &[u32], count: usize) -> Result<Option<Vec<u32>>> {
        let Some(reduce) = self.function.reduce else { return Ok(None) };
        if count == 1 {
            return Ok(Some(reduce(&self.groups(columns, &[0, groups.len()]))?));
        }
        let (places, offsets) = by_group(groups, count);
        let columns = taken(columns, places.clone())?;
        let kept = reduce(&self.groups(&columns, &offsets))?;
        Ok(Some(kept.into_iter().map(|place| places[place as usize]).collect()))
    }
}

impl Maker {
    fn groups<'a>(&'a self, columns: &'a [ArrayRef], offsets: &'a [usize]) -> Groups<'a> {
        Groups { columns, offsets, to: &self.to, descending: self.function.descending }
    }
}

/// The rows sorted by group, each group in the order of arrival, and the offsets of the groups.
pub(super) fn by_group(groups: &[u32], count: usize) -> (Vec<u32>, Vec<usize>) {
    let mut offsets = vec![0usize; count + 1];
    groups.iter().for_each(|group| offsets[*group as usize + 1] += 1);
    for group in 0..count {
        offsets[group + 1] += offsets[group];
    }
    let mut next = offsets.clone();
    let mut places = vec![0u32; groups.len()];
    for (row, group) in groups.iter().enumerate() {
        let at = &mut next[*group as usize];
        places[*at] = row as u32;
        *at += 1;
    }
    (places, offsets)
}

/// The rows at these places.
pub(super) fn taken(columns: &[ArrayRef], places: Vec<u32>) -> Result<Vec<ArrayRef>> {
    let places = UInt32Array::from(places);
    Ok(columns.iter().map(|column| compute::take(column, &places, None)).collect::<Result<_, _>>()?)
}

#[derive(Debug)]
struct CollectedAccumulator {
    maker: Maker,
    rows: Rows,
    count: usize,
    /// The number of rows that remained after the last reduction.
    reduced: usize,
    /// These rows.
    left: Option<Vec<ArrayRef>>,
}

impl CollectedAccumulator {
    fn push(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let columns = self.beating(columns)?;
        self.count += columns.first().map_or(0, |column| column.len());
        self.rows.push(columns);
        if self.count < REDUCED_FROM || self.count < 2 * self.reduced {
            return Ok(());
        }
        let columns = self.rows.columns()?;
        if let Some(kept) = self.maker.reduced(&columns, &vec![0; self.count], 1)? {
            (self.count, self.reduced) = (kept.len(), kept.len());
            self.rows.take();
            let left = taken(&columns, kept)?;
            self.left = Some(left.clone());
            self.rows.push(left);
        } else {
            // All rows have an effect, and are not put together again until the end.
            self.reduced = usize::MAX / 2;
        }
        Ok(())
    }

    /// The rows that may have an effect.
    fn beating(&self, columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let (Some(beats), Some(left)) = (self.maker.function.beats, &self.left) else { return Ok(columns) };
        match beats(&columns, left, &self.maker.to)? {
            Some(which) => {
                Ok(columns.iter().map(|column| compute::filter(column, &which)).collect::<Result<_, _>>()?)
            }
            None => Ok(columns),
        }
    }
}

impl Accumulator for CollectedAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.push(values.to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.push(of_lists(states)?.0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.rows.columns()?;
        let rows = self.rows.take();
        let places = UInt32Array::from_iter_values(0..u32::try_from(self.count).unwrap_or(u32::MAX));
        Ok(vec![ScalarValue::List(Arc::new(rows.lists(&columns, &places, vec![self.count])?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = self.maker.finish(&self.rows.columns()?, vec![0; self.count], 1)?;
        ScalarValue::try_from_array(&result, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.bytes
    }
}
