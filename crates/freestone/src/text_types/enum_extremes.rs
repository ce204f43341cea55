//! `min` and `max` of an ENUM, by the places of its labels, and of texts in a normal form, by their keys.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::{metadata, normal_metadata};
use crate::normal_texts::NormalText;
use crate::times::exact_cast;

/// What orders values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Order {
    /// The places of labels.
    Labels(Vec<String>),
    /// The keys of texts in a normal form, or the texts themselves.
    Normal(NormalText),
}

impl Order {
    /// Whether it is not that of the texts.
    pub fn is_own(&self) -> bool {
        match self {
            Order::Labels(_) => true,
            Order::Normal(kind) => kind.has_keys(),
        }
    }

    /// Bytes in the order of the values; `None` for a text that is none of them.
    fn key(&self, text: &str) -> Option<Vec<u8>> {
        match self {
            Order::Labels(labels) => {
                let place = labels.iter().position(|label| label == text)?;
                Some((place as u64).to_be_bytes().to_vec())
            }
            Order::Normal(kind) if kind.has_keys() => kind.key(text),
            Order::Normal(_) => Some(text.as_bytes().to_vec()),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extreme {
    is_max: bool,
    order: Order,
    signature: Signature,
}

/// The aggregate, under the name of the one that it replaces.
pub(super) fn extreme(is_max: bool, order: Order) -> AggregateUDF {
    AggregateUDF::new_from_impl(Extreme { is_max, order, signature: Signature::any(1, Volatility::Immutable) })
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
        let metadata = match &self.order {
            Order::Labels(labels) => metadata(labels),
            Order::Normal(kind) => normal_metadata(*kind),
        };
        Ok(Arc::new(Field::new(self.name(), data_type, true).with_metadata(metadata)))
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Best { is_max: self.is_max, order: self.order.clone(), best: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(args.name, DataType::Utf8View, true))])
    }
}

#[derive(Debug)]
struct Best {
    is_max: bool,
    order: Order,
    /// The best value so far, behind its key.
    best: Option<(Vec<u8>, String)>,
}

impl Best {
    fn value(&self) -> ScalarValue {
        ScalarValue::Utf8View(self.best.as_ref().map(|(_, text)| text.clone()))
    }
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let texts = exact_cast(&values[0], &DataType::Utf8View)?;
        for text in texts.as_string_view().iter().flatten() {
            let Some(key) = self.order.key(text) else { continue };
            let is_better = match &self.best {
                Some((best, _)) if self.is_max => key > *best,
                Some((best, _)) => key < *best,
                None => true,
            };
            if is_better {
                self.best = Some((key, text.to_owned()));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value()])
    }

    fn size(&self) -> usize {
        let labels = match &self.order {
            Order::Labels(labels) => labels.iter().map(String::capacity).sum(),
            Order::Normal(_) => 0,
        };
        size_of_val(self) + labels + self.best.as_ref().map_or(0, |(key, text)| key.capacity() + text.capacity())
    }
}
