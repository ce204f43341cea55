//! `list_transform` and `list_filter` with a lambda of an item and its position: `(item, position) -> …`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, UInt64Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDFImpl,
    LambdaParametersProgress, ValueOrLambda, Volatility,
};

use super::kinds::{BOOL, list};
use super::rows::invalid;
use crate::context::claim;
use crate::growth::{spread, weight_of_value};
use crate::times::exact_cast;

/// The functions whose lambdas take the position of an item, too.
const TRANSFORM_AT: &str = "freestone_transform_at";
const FILTER_AT: &str = "freestone_filter_at";

/// One of both functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct WithPositions {
    filters: bool,
    signature: HigherOrderSignature,
}

pub(super) fn all() -> [WithPositions; 2] {
    let signature = HigherOrderSignature::user_defined(Volatility::Immutable);
    [false, true].map(|filters| WithPositions { filters, signature: signature.clone() })
}

impl WithPositions {
    fn wrong<T>(&self) -> Result<T> {
        let name = if self.filters { "list_filter" } else { "list_transform" };
        invalid(format!("{name} takes a list and a lambda of an item and, optionally, its position"))
    }

    fn item(&self, given: &[ValueOrLambda<FieldRef, impl Sized>]) -> Result<FieldRef> {
        match given {
            [ValueOrLambda::Value(values), ValueOrLambda::Lambda(_)] => {
                list(values.data_type()).map_or_else(|| self.wrong(), Ok)
            }
            _ => self.wrong(),
        }
    }
}

impl HigherOrderUDFImpl for WithPositions {
    fn name(&self) -> &'static str {
        if self.filters { FILTER_AT } else { TRANSFORM_AT }
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [values] => list(values).map_or_else(|| self.wrong(), |item| Ok(vec![DataType::List(item)])),
            _ => self.wrong(),
        }
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let position = Arc::new(Field::new("position", DataType::Int64, false));
        Ok(LambdaParametersProgress::Complete(vec![vec![self.item(fields)?, position]]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let item = self.item(args.arg_fields)?;
        let item = match args.arg_fields {
            [_, ValueOrLambda::Lambda(result)] if !self.filters => {
                Arc::new(Field::new_list_field(result.data_type().clone(), true))
            }
            _ => item,
        };
        Ok(Arc::new(Field::new("", DataType::List(item), true)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let [ValueOrLambda::Value(lists), ValueOrLambda::Lambda(lambda)] = args.args.as_slice() else {
            return self.wrong();
        };
        let lists = to_lists(self.name(), lists, args.number_rows)?;
        let lists = lists.as_list::<i32>();
        let items = Items::of(lists)?;
        let values = items.values.clone();
        let parameters: [&dyn Fn() -> Result<ArrayRef>; 2] = [&|| Ok(values.clone()), &|| Ok(items.positions())];
        let spread = |columns: &[ArrayRef]| spread(self.name(), columns, &items.rows());
        let result = lambda.evaluate(&parameters, spread)?;
        if let ColumnarValue::Scalar(value) = &result {
            // The same for all items, of which each gets a copy.
            drop(claim(self.name(), weight_of_value(value).saturating_mul(values.len() as u64))?);
        }
        let result = result.into_array(values.len())?;
        let (values, lengths) = match self.filters {
            false => (result, items.lengths),
            true => {
                let kept = exact_cast(&result, &BOOL)?;
                let kept = kept.as_boolean();
                let mut start = 0;
                let lengths = items.lengths.iter().map(|length| {
                    start += length;
                    let part = kept.slice(start - length, *length);
                    (0..part.len()).filter(|at| part.is_valid(*at) && part.value(*at)).count()
                });
                (filter(&values, kept)?, lengths.collect())
            }
        };
        let DataType::List(item) = args.return_field.data_type() else { return self.wrong() };
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(ColumnarValue::Array(Arc::new(ListArray::try_new(item.clone(), offsets, values, lists.nulls().cloned())?)))
    }
}

/// Lists as an array, which claims the copies of one that is the same for all rows.
pub(super) fn to_lists(function: &str, lists: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    if let ColumnarValue::Scalar(value) = lists {
        drop(claim(function, weight_of_value(value).saturating_mul(rows as u64))?);
    }
    lists.to_array(rows)
}

/// The items of all lists that are not NULL.
struct Items {
    /// Of each list; 0 for NULL.
    lengths: Vec<usize>,
    values: ArrayRef,
}

impl Items {
    fn of(lists: &ListArray) -> Result<Items> {
        let offsets = lists.value_offsets();
        let length = |row: usize| if lists.is_valid(row) { (offsets[row + 1] - offsets[row]) as usize } else { 0 };
        let lengths: Vec<usize> = (0..lists.len()).map(length).collect();
        let (start, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
        let values = if lengths.iter().sum::<usize>() == end - start {
            lists.values().slice(start, end - start)
        } else {
            let places = lengths.iter().zip(offsets).flat_map(|(length, start)| (*start as u64..).take(*length));
            take(lists.values(), &UInt64Array::from_iter_values(places), None)?
        };
        Ok(Items { lengths, values })
    }

    /// The position of each item in its list, from 1.
    fn positions(&self) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(self.lengths.iter().flat_map(|length| 1..=*length as i64)))
    }

    /// The row of each item's list.
    fn rows(&self) -> UInt64Array {
        let rows = self.lengths.iter().enumerate();
        UInt64Array::from_iter_values(rows.flat_map(|(row, length)| std::iter::repeat_n(row as u64, *length)))
    }
}
