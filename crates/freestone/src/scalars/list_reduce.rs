//! `list_reduce(list, (result, item) -> …)`: folds the items of each list, step by step for all rows together.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, UInt64Array, new_empty_array};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDFImpl,
    LambdaArgument, LambdaParametersProgress, ValueOrLambda, Volatility,
};

use super::kinds::list;
use super::list_lambdas::to_lists;
use super::rows::invalid;
use crate::context;
use crate::error::Error;
use crate::growth::spread;
use crate::times::exact_cast;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ListReduce {
    signature: HigherOrderSignature,
    aliases: Vec<String>,
}

impl ListReduce {
    pub fn new() -> ListReduce {
        let aliases = vec!["array_reduce".to_owned(), "reduce".to_owned()];
        ListReduce { signature: HigherOrderSignature::user_defined(Volatility::Immutable), aliases }
    }
}

fn wrong<T>() -> Result<T> {
    invalid("list_reduce takes a list, a lambda such as (result, item) -> result + item, and optionally a first result")
}

/// The type of the items, and of the results: that of the first one together with the items, and with what the lambda
/// gives, if that is a wider number.
fn types(values: &[&DataType], given: Option<&DataType>) -> Result<(DataType, DataType)> {
    let (Some(item), true) = (values.first().and_then(|given| list(given)), values.len() <= 2) else { return wrong() };
    let item = item.data_type().clone();
    let result = match values.get(1) {
        None => item.clone(),
        Some(first) => comparison_coercion(first, &item).unwrap_or_else(|| (*first).clone()),
    };
    let result = match (result, given) {
        (DataType::Null, Some(given)) => given.clone(),
        (DataType::Decimal128(_, scale), given) => of_decimals(scale, given)?,
        (result, Some(given)) if result.is_integer() && (given.is_integer() || given.is_floating()) => {
            comparison_coercion(&result, given).unwrap_or(result)
        }
        (result, _) => result,
    };
    Ok((item, result))
}

/// Results of as many digits as possible, which cannot have more of them after the point than the items: each step would
/// add some.
fn of_decimals(scale: i8, given: Option<&DataType>) -> Result<DataType> {
    match given {
        Some(DataType::Decimal128(_, wanted) | DataType::Decimal256(_, wanted)) if *wanted > scale => {
            let message = format!("the lambda of list_reduce gives decimals with {wanted} digits after the point");
            let hint = format!(
                "the items have {scale}: cast the items or what the lambda gives, as in (a * x)::DECIMAL(38,{scale})"
            );
            Err(Error::invalid(message).with_hint(hint).into())
        }
        Some(given) if given.is_floating() => Ok(given.clone()),
        _ => Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale)),
    }
}

/// The types of the values among the arguments, and what the lambda gives, where it is known.
fn parts<'a, L>(
    fields: &'a [ValueOrLambda<FieldRef, L>],
    of_lambda: impl Fn(&'a L) -> Option<&'a DataType>,
) -> Result<(Vec<&'a DataType>, Option<&'a DataType>)> {
    match fields {
        [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)] => Ok((vec![list.data_type()], of_lambda(lambda))),
        [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda), ValueOrLambda::Value(first)] => {
            Ok((vec![list.data_type(), first.data_type()], of_lambda(lambda)))
        }
        _ => wrong(),
    }
}

impl HigherOrderUDFImpl for ListReduce {
    fn name(&self) -> &'static str {
        "list_reduce"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let (_, result) = types(&given.iter().collect::<Vec<_>>(), None)?;
        let Some(field) = given.first().and_then(list) else { return wrong() };
        Ok([DataType::List(field), result].into_iter().take(given.len()).collect())
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let (values, given) = parts(fields, |lambda| lambda.as_ref().map(|field| field.data_type()))?;
        let (item, result) = types(&values, given)?;
        let parameter = |name: &str, data_type: DataType| Arc::new(Field::new(name, data_type, true));
        let parameters =
            vec![parameter("result", result), parameter("item", item), parameter("position", DataType::Int64)];
        // The first step finds the type that the lambda gives.
        Ok(match given {
            None => LambdaParametersProgress::Partial(vec![Some(parameters)]),
            Some(_) => LambdaParametersProgress::Complete(vec![parameters]),
        })
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let (values, given) = parts(args.arg_fields, |lambda| Some(lambda.data_type()))?;
        Ok(Arc::new(Field::new("", types(&values, given)?.1, true)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let [ValueOrLambda::Value(lists), ValueOrLambda::Lambda(lambda), first @ ..] = args.args.as_slice() else {
            return wrong();
        };
        let lists = to_lists("list_reduce", lists, args.number_rows)?;
        let first = match first {
            [ValueOrLambda::Value(first)] => Some(first.to_array(args.number_rows)?),
            _ => None,
        };
        reduced(lists.as_list(), lambda, first, args.return_field.data_type()).map(ColumnarValue::Array)
    }
}

/// Folds all lists. Rows are in the order of their lengths, the longest first, so that those that still have items are
/// at the start of each step's arrays.
fn reduced(lists: &ListArray, lambda: &LambdaArgument, first: Option<ArrayRef>, to: &DataType) -> Result<ArrayRef> {
    let offsets = lists.value_offsets();
    let length = |row: usize| (offsets[row + 1] - offsets[row]) as usize;
    let mut rows: Vec<usize> = (0..lists.len()).filter(|row| lists.is_valid(*row)).collect();
    if first.is_none() && rows.iter().any(|row| length(*row) == 0) {
        return invalid("list_reduce of an empty list needs a first result as its third argument");
    }
    rows.sort_by_key(|row| std::cmp::Reverse(length(*row)));
    let items_at = |active: usize, step: usize| -> Result<ArrayRef> {
        let places: UInt64Array = rows[..active].iter().map(|row| offsets[*row] as u64 + step as u64).collect();
        Ok(take(lists.values(), &places, None)?)
    };
    let of_rows = |active: usize| rows[..active].iter().map(|row| *row as u64).collect::<UInt64Array>();
    let (mut result, start) = match &first {
        Some(first) => (exact_cast(&take(first, &of_rows(rows.len()), None)?, to)?, 0),
        None => (exact_cast(&items_at(rows.len(), 0)?, to)?, 1),
    };
    // The results of the rows whose lists have ended, the longest last.
    let mut ended: Vec<ArrayRef> = vec![];
    for step in start.. {
        context::check()?;
        let active = rows.partition_point(|row| length(*row) > step);
        if active < result.len() {
            ended.push(result.slice(active, result.len() - active));
        }
        if active == 0 {
            break;
        }
        let (before, items) = (result.slice(0, active), items_at(active, step)?);
        let positions: ArrayRef = Arc::new(Int64Array::from_value(step as i64 + 1, active));
        let parameters: [&dyn Fn() -> Result<ArrayRef>; 3] =
            [&|| Ok(before.clone()), &|| Ok(items.clone()), &|| Ok(positions.clone())];
        let spread = |columns: &[ArrayRef]| spread("list_reduce", columns, &of_rows(active));
        result = exact_cast(&lambda.evaluate(&parameters, spread)?.into_array(active)?, to)?;
    }
    let mut places: Vec<Option<u64>> = vec![None; lists.len()];
    rows.iter().enumerate().for_each(|(place, row)| places[*row] = Some(place as u64));
    let parts: Vec<&dyn Array> = ended.iter().rev().map(AsRef::as_ref).collect();
    let in_order = if parts.is_empty() { new_empty_array(to) } else { concat(&parts)? };
    Ok(take(&in_order, &UInt64Array::from(places), None)?)
}
