//! FILTER of an aggregate over window frames, as a last argument, so that it is evaluated with the other arguments.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

/// An aggregate whose last argument selects its rows.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Filtered {
    plain: Arc<AggregateUDF>,
    signature: Signature,
}

impl Filtered {
    pub fn new(plain: Arc<AggregateUDF>) -> Self {
        Filtered { plain, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn accumulator_of(
        args: AccumulatorArgs,
        make: impl FnOnce(AccumulatorArgs) -> Result<Box<dyn Accumulator>>,
    ) -> Result<Box<dyn Accumulator>> {
        let arguments = args.exprs.len().saturating_sub(1);
        let args =
            AccumulatorArgs { exprs: &args.exprs[..arguments], expr_fields: &args.expr_fields[..arguments], ..args };
        Ok(Box::new(FilteredAccumulator(make(args)?)))
    }
}

impl AggregateUDFImpl for Filtered {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.plain.return_type(&arguments[..arguments.len().saturating_sub(1)])
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.plain.return_field(&arguments[..arguments.len().saturating_sub(1)])
    }

    fn is_nullable(&self) -> bool {
        self.plain.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.plain.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.plain.supports_null_handling_clause()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.plain.order_sensitivity()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let arguments = args.input_fields.len().saturating_sub(1);
        self.plain.state_fields(StateFieldsArgs { input_fields: &args.input_fields[..arguments], ..args })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Self::accumulator_of(args, |args| self.plain.accumulator(args))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Self::accumulator_of(args, |args| self.plain.create_sliding_accumulator(args))
    }
}

#[derive(Debug)]
struct FilteredAccumulator(Box<dyn Accumulator>);

fn passed(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let Some((filter, values)) = values.split_last() else {
        return internal_err!("a filter is not among the arguments");
    };
    Ok(values.iter().map(|column| compute::filter(column, filter.as_boolean())).collect::<Result<_, _>>()?)
}

impl Accumulator for FilteredAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&passed(values)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(&passed(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
