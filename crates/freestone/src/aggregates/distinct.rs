//! DISTINCT for an aggregate of one argument: collects the distinct values and passes them to the aggregate.
//! DataFusion's `bit_xor(DISTINCT x)` fails with GROUP BY, so it is implemented here as well.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::functions_aggregate::bit_and_or_xor::bit_xor_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature};
use datafusion::scalar::ScalarValue;

/// The state of a partial aggregation: its distinct values.
pub(super) fn state_field(name: &str, argument: &DataType) -> FieldRef {
    let values = Field::new_list_field(argument.clone(), true);
    Arc::new(Field::new_list(format_state_name(name, "distinct"), values, false))
}

/// An aggregate of DataFusion with our DISTINCT.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ByValue {
    plain: Arc<AggregateUDF>,
}

impl ByValue {
    pub fn bit_xor() -> Self {
        ByValue { plain: bit_xor_udaf() }
    }
}

impl AggregateUDFImpl for ByValue {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn aliases(&self) -> &[String] {
        self.plain.aliases()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.plain.return_type(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match args.is_distinct {
            true => Ok(vec![state_field(args.name, args.input_fields[0].data_type())]),
            false => self.plain.state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (argument, is_distinct) = (args.expr_fields[0].data_type().clone(), args.is_distinct);
        let plain = self.plain.accumulator(AccumulatorArgs { is_distinct: false, ..args })?;
        Ok(if is_distinct { Box::new(Distinct::new(argument, plain)) } else { plain })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.plain.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Passes each distinct value to an accumulator once.
#[derive(Debug)]
pub(super) struct Distinct {
    argument: DataType,
    values: HashSet<ScalarValue>,
    bytes: usize,
    /// The values that the accumulator has received are in `values`.
    plain: Box<dyn Accumulator>,
}

impl Distinct {
    pub fn new(argument: DataType, plain: Box<dyn Accumulator>) -> Self {
        Distinct { argument, values: HashSet::new(), bytes: 0, plain }
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = &values[0];
        let mut new = vec![];
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            let value = ScalarValue::try_from_array(array, row)?;
            if !self.values.contains(&value) {
                self.bytes += value.size();
                self.values.insert(value.clone());
                new.push(value);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let new = ScalarValue::iter_to_array(new)?;
        self.plain.update_batch(&[new])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = std::mem::take(&mut self.values).into_iter().collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.argument))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.plain.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + self.plain.size()
    }
}
