//! `min` and `max` of an ENUM, by the places of its labels.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::metadata;
use crate::times::exact_cast;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extreme {
    is_max: bool,
    labels: Vec<String>,
    signature: Signature,
}

/// The aggregate, under the name of the one that it replaces.
pub(super) fn extreme(is_max: bool, labels: Vec<String>) -> AggregateUDF {
    AggregateUDF::new_from_impl(Extreme { is_max, labels, signature: Signature::any(1, Volatility::Immutable) })
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &'static str {
        if self.is_max { "max" } else { "min" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Utf8View))
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let data_type = fields.first().map_or(DataType::Utf8View, |field| field.data_type().clone());
        Ok(Arc::new(Field::new(self.name(), data_type, true).with_metadata(metadata(&self.labels))))
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Best { is_max: self.is_max, labels: self.labels.clone(), place: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(args.name, DataType::Utf8View, true))])
    }
}

#[derive(Debug)]
struct Best {
    is_max: bool,
    labels: Vec<String>,
    /// That of the best label so far.
    place: Option<usize>,
}

impl Best {
    fn label(&self) -> Option<String> {
        self.place.map(|place| self.labels[place].clone())
    }
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let texts = exact_cast(&values[0], &DataType::Utf8View)?;
        for text in texts.as_string_view().iter().flatten() {
            let Some(place) = self.labels.iter().position(|label| label == text) else { continue };
            let is_better = match self.place {
                Some(best) if self.is_max => place > best,
                Some(best) => place < best,
                None => true,
            };
            if is_better {
                self.place = Some(place);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Utf8View(self.label()))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Utf8View(self.label())])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.labels.iter().map(String::capacity).sum::<usize>()
    }
}
