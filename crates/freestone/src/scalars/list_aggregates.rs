//! `list_aggregate(list, 'name', …)`: an aggregate over the values of each list.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{AggregateUDF, EmitTo};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::PhysicalExpr;

use super::function::Scalar;
use super::kinds::Kind::{List, Rest, Text};
use super::kinds::list;
use super::rows::{invalid, lists};
use crate::aggregates::settled;
use crate::display::texts_of;
use crate::error::Error;
use crate::sql::function_macros::RENAMED;
use crate::times::{Call, behind_planned, exact_cast, is_text};

type Functions = Arc<HashMap<String, Arc<AggregateUDF>>>;

/// The function, with the aggregates of a session.
pub(super) fn list_aggregate(functions: &HashMap<String, Arc<AggregateUDF>>) -> Scalar {
    let functions: Functions = Arc::new(functions.clone());
    let known = functions.clone();
    Scalar::typed(
        &["list_aggregate"],
        &[&[List, Text, Rest]],
        move |types, constants| {
            let Some(values) = types.first().and_then(list) else { return invalid("list_aggregate takes a list") };
            let name = constants.get(1).copied().flatten().and_then(|name| name.try_as_str().flatten());
            let Some(name) = name else { return invalid("the name of the aggregate has to be a constant text") };
            let separator = separator(name, types.len() - 2).map(|text| text.data_type());
            let others: Vec<DataType> = types[2..].iter().cloned().chain(separator).collect();
            Ok(Prepared::new(&known, name, values.data_type(), &others)?.result.data_type().clone())
        },
        move |call| aggregated(call, &functions),
    )
}

/// An aggregate and the types of its arguments.
struct Prepared {
    function: Arc<AggregateUDF>,
    fields: Vec<FieldRef>,
    result: FieldRef,
}

impl Prepared {
    fn new(functions: &Functions, name: &str, values: &DataType, others: &[DataType]) -> Result<Prepared> {
        let lower = name.to_lowercase();
        let renamed =
            RENAMED.iter().find(|(known, _)| *known == lower).map_or(lower.as_str(), |(_, function)| function);
        let Some(function) = functions.get(renamed) else {
            return Err(Error::not_found("aggregate", name, functions.keys().map(String::as_str)).into());
        };
        let values = typed(renamed, values);
        let field = |(at, kind): (usize, &DataType)| Arc::new(Field::new(format!("c{at}"), kind.clone(), true));
        let given: Vec<FieldRef> = std::iter::once(&values).chain(others).enumerate().map(field).collect();
        let fields = fields_with_udf(&given, function.as_ref())?;
        let function = behind_planned(function).unwrap_or_else(|| function.clone());
        let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let function = match settled(function.inner().as_ref(), &types)? {
            Some(settled) => Arc::new(AggregateUDF::new_from_shared_impl(settled)),
            None => function,
        };
        let result = function.return_field(&fields)?;
        Ok(Prepared { function, fields, result })
    }
}

/// The type of an aggregate's values: NULLs of no type are those that it takes, and `string_agg` is of texts.
fn typed(function: &str, values: &DataType) -> DataType {
    match function {
        "string_agg" => DataType::Utf8View,
        "bit_and" | "bit_or" | "bit_xor" if values.is_null() => DataType::Int32,
        _ => values.clone(),
    }
}

/// What stands between texts if a call does not say.
fn separator(name: &str, given: usize) -> Option<ScalarValue> {
    let is_joined = matches!(name.to_lowercase().as_str(), "string_agg" | "group_concat" | "listagg");
    (is_joined && given == 0).then(|| ScalarValue::Utf8View(Some(",".to_owned())))
}

fn aggregated(call: &Call, functions: &Functions) -> Result<ArrayRef> {
    let lists = lists(call, 0)?;
    let Some(name) = call.text(1, "the name of the aggregate")? else { return Ok(call.nulls()) };
    let mut others = (2..call.count()).map(|at| call.array(at)).collect::<Result<Vec<_>>>()?;
    let separator = separator(&name, others.len());
    if let Some(separator) = &separator {
        others.push(separator.to_array_of_size(lists.len())?);
    }
    let types: Vec<DataType> = others.iter().map(|array| array.data_type().clone()).collect();
    let prepared = Prepared::new(functions, &name, lists.values().data_type(), &types)?;

    let offsets = lists.value_offsets();
    let (first, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
    let owners: Vec<usize> = offsets
        .windows(2)
        .enumerate()
        .flat_map(|(row, pair)| std::iter::repeat_n(row, (pair[1] - pair[0]) as usize))
        .collect();
    let rows: Vec<u32> = owners.iter().map(|row| *row as u32).collect();
    let rows = datafusion::arrow::array::UInt32Array::from(rows);
    let mut columns = vec![as_values(&lists.values().slice(first, end - first), prepared.fields[0].data_type())?];
    for (other, field) in others.iter().zip(&prepared.fields[1..]) {
        columns.push(take(&exact_cast(other, field.data_type())?, &rows, None)?);
    }
    let constants = (2..call.count()).map(|at| call.constant(at).cloned()).chain(separator.map(Some)).collect();
    let mut groups = Maker::new(&prepared, constants)?.groups()?;
    let all = BooleanArray::from(vec![true; owners.len()]);
    groups.update_batch(&columns, &owners, Some(&all), lists.len())?;
    let result = exact_cast(&groups.evaluate(EmitTo::All)?, &call.to)?;
    // The result for a NULL list is NULL, even if the aggregate of no values is not.
    match lists.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            let is_null = BooleanArray::new(!nulls.inner(), None);
            Ok(datafusion::arrow::compute::nullif(&result, &is_null)?)
        }
        _ => Ok(result),
    }
}

/// Values of a type; as texts, they are those that a cast shows.
fn as_values(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    match is_text(to) && !is_text(values.data_type()) && !values.data_type().is_null() {
        true => exact_cast(&(Arc::new(texts_of(values)?) as ArrayRef), to),
        false => exact_cast(values, to),
    }
}

/// Creates accumulators.
#[derive(Clone)]
struct Maker {
    function: Arc<AggregateUDF>,
    result: FieldRef,
    schema: SchemaRef,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<FieldRef>,
}

impl Maker {
    /// Arguments after the first are passed to the aggregate as constants, if they are known.
    fn new(prepared: &Prepared, constants: Vec<Option<ScalarValue>>) -> Result<Maker> {
        let schema =
            Arc::new(Schema::new(prepared.fields.iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>()));
        let mut expressions: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(Column::new("c0", 0))];
        for (at, constant) in constants.into_iter().enumerate() {
            expressions.push(match constant {
                Some(value) => Arc::new(Literal::new(value.cast_to(prepared.fields[at + 1].data_type())?)),
                None => Arc::new(Column::new(&format!("c{}", at + 1), at + 1)),
            });
        }
        let (function, result) = (prepared.function.clone(), prepared.result.clone());
        Ok(Maker { function, result, schema, expressions, fields: prepared.fields.clone() })
    }

    fn args(&self) -> AccumulatorArgs<'_> {
        AccumulatorArgs {
            return_field: self.result.clone(),
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: self.function.name(),
            is_distinct: false,
            exprs: &self.expressions,
            expr_fields: &self.fields,
        }
    }

    fn groups(&self) -> Result<Box<dyn datafusion::logical_expr::GroupsAccumulator>> {
        if self.function.groups_accumulator_supported(self.args()) {
            return self.function.create_groups_accumulator(self.args());
        }
        let maker = self.clone();
        Ok(Box::new(GroupsAccumulatorAdapter::new(move || maker.function.accumulator(maker.args()))))
    }
}
