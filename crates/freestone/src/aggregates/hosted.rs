//! Aggregates that the program around the engine computes, from all rows of a group at once.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use datafusion::arrow::compute::{concat, filter};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::collected::{by_group, taken};
use super::order_by::{Finish, RowGroups, Rows, of_lists, row_fields};
use crate::hosted::HostFunction;

/// The aggregate of SQL.
pub(crate) fn hosted(function: HostFunction) -> AggregateUDF {
    let volatility = if function.is_volatile { Volatility::Volatile } else { Volatility::Immutable };
    AggregateUDF::from(Hosted { function, signature: Signature::user_defined(volatility) })
}

/// Whether an aggregate is one of these.
pub(crate) fn is_hosted(function: &AggregateUDF) -> bool {
    function.inner().downcast_ref::<Hosted>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Hosted {
    function: HostFunction,
    signature: Signature,
}

impl AggregateUDFImpl for Hosted {
    fn name(&self) -> &str {
        &self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerced(types).map_or_else(|| self.function.wrong(types), Ok)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.coerce_types(types).map(|_| self.function.result.clone())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let rows = Field::new_list_field(DataType::Struct(row_fields(args.input_fields)), false);
        Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "rows"), rows, false))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (maker, rows) = (Maker(self.function.clone()), Rows::new(args.expr_fields));
        Ok(Box::new(OfAll { maker, rows, count: 0 }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let rows = Rows::new(args.expr_fields);
        Ok(Box::new(RowGroups::new(Box::new(Maker(self.function.clone())), rows)))
    }
}

/// Calls the function for each group.
#[derive(Debug)]
struct Maker(HostFunction);

impl Maker {
    fn of_group(&self, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
        let rows = columns.first().map_or(0, |column| column.len());
        let nulls: Vec<_> = columns.iter().filter_map(|column| column.logical_nulls()).collect();
        let (columns, rows) = match self.0.takes_nulls || nulls.is_empty() {
            true => (columns, rows),
            false => {
                let is_given = |row| Some(nulls.iter().all(|nulls| nulls.is_valid(row)));
                let given: BooleanArray = (0..rows).map(is_given).collect();
                let passed = columns.iter().map(|column| filter(column, &given)).collect::<Result<Vec<_>, _>>()?;
                (passed, given.true_count())
            }
        };
        if rows == 0 && !self.0.takes_nulls {
            return Ok(new_null_array(&self.0.result, 1));
        }
        Ok(self.0.call(columns, rows, 1)?)
    }
}

impl Finish for Maker {
    fn finish(&self, columns: &[ArrayRef], groups: Vec<u32>, count: usize) -> Result<ArrayRef> {
        let (places, offsets) = by_group(&groups, count);
        let columns = taken(columns, places)?;
        let of_group = |pair: &[usize]| {
            self.of_group(columns.iter().map(|column| column.slice(pair[0], pair[1] - pair[0])).collect())
        };
        let results = offsets.windows(2).map(of_group).collect::<Result<Vec<_>>>()?;
        if results.is_empty() {
            return Ok(new_null_array(&self.0.result, 0));
        }
        Ok(concat(&results.iter().map(|result| result.as_ref()).collect::<Vec<_>>())?)
    }
}

/// All rows as one group.
#[derive(Debug)]
struct OfAll {
    maker: Maker,
    rows: Rows,
    count: usize,
}

impl OfAll {
    fn push(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        self.count += columns.first().map_or(0, |column| column.len());
        self.rows.push(columns);
        Ok(())
    }
}

impl Accumulator for OfAll {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.push(values.to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.push(of_lists(states)?.0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.rows.columns()?;
        let places = UInt32Array::from_iter_values(0..u32::try_from(self.count).unwrap_or(u32::MAX));
        Ok(vec![ScalarValue::List(Arc::new(self.rows.take().lists(&columns, &places, vec![self.count])?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.maker.of_group(self.rows.columns()?)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.bytes
    }
}
