//! `first_value`, `last_value` and `nth_value` over window frames, with or without IGNORE NULLS.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{PartitionEvaluator, Signature, Volatility, WindowUDFImpl};
use datafusion::scalar::ScalarValue;

use super::Place;
use super::computed::{Bounds, any_arguments};
use crate::error::{Error, ErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    First,
    Last,
    Nth,
}

/// One of the three functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Nth {
    kind: Kind,
    /// The bounds of its frames that are its last arguments.
    bounds: Option<Bounds>,
    signature: Signature,
}

impl Nth {
    pub fn first() -> Self {
        Nth { kind: Kind::First, bounds: None, signature: Signature::any(1, Volatility::Immutable) }
    }

    pub fn last() -> Self {
        Nth { kind: Kind::Last, bounds: None, signature: Signature::any(1, Volatility::Immutable) }
    }

    pub fn counted() -> Self {
        Nth { kind: Kind::Nth, bounds: None, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// The function within frames whose bounds are its last arguments.
    pub fn within(&self, bounds: Bounds) -> Self {
        Nth { kind: self.kind, bounds: Some(bounds), signature: any_arguments() }
    }

    pub fn bounds(&self) -> Option<Bounds> {
        self.bounds
    }

    /// The place of the value, if it is the first or last one of a frame that is the same for all rows.
    pub fn place(&self) -> Option<Place> {
        match self.kind {
            _ if self.bounds.is_some() => None,
            Kind::First => Some(Place::First),
            Kind::Last => Some(Place::Last),
            Kind::Nth => None,
        }
    }
}

impl WindowUDFImpl for Nth {
    fn name(&self) -> &str {
        match self.kind {
            Kind::First => "first_value",
            Kind::Last => "last_value",
            Kind::Nth => "nth_value",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            arguments if self.bounds.is_some() => Ok(arguments.to_vec()),
            [value, place] if place.is_integer() || place.is_null() => Ok(vec![value.clone(), DataType::Int64]),
            _ => plan_err!("nth_value takes a value and an integer"),
        }
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        match args.input_fields().first() {
            Some(value) => Ok(Arc::new(value.as_ref().clone().with_name(args.name()).with_nullable(true))),
            None => plan_err!("{} takes a value", self.name()),
        }
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator { kind: self.kind, ignore_nulls: args.ignore_nulls(), valid: None, row: 0 }))
    }
}

/// Evaluates one of the functions over the frames of one partition, in order.
#[derive(Debug)]
struct Evaluator {
    kind: Kind,
    ignore_nulls: bool,
    /// With IGNORE NULLS, the rows of the partition that are not NULL.
    valid: Option<Vec<usize>>,
    /// The row of the next frame.
    row: usize,
}

impl PartitionEvaluator for Evaluator {
    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        let column = &values[0];
        if self.ignore_nulls && self.valid.is_none() {
            let nulls = compute::is_not_null(column)?;
            self.valid = Some((0..column.len()).filter(|row| nulls.value(*row)).collect());
        }
        let row = self.row;
        self.row += 1;
        let place = match self.kind {
            Kind::First => 1,
            Kind::Last => -1,
            Kind::Nth => match values.get(1).and_then(|places| place_at(places, row)) {
                Some(place) => place,
                None => return ScalarValue::try_from(column.data_type()),
            },
        };
        if self.kind == Kind::Nth {
            checked_place(place)?;
        }
        let row = match &self.valid {
            None => nth(frame.len(), place).map(|at| frame.start + at),
            Some(valid) => {
                let first = valid.partition_point(|row| *row < frame.start);
                let end = valid.partition_point(|row| *row < frame.end);
                nth(end.saturating_sub(first), place).map(|at| valid[first + at])
            }
        };
        match row {
            Some(row) => ScalarValue::try_from_array(column, row),
            None => ScalarValue::try_from(column.data_type()),
        }
    }

    fn uses_window_frame(&self) -> bool {
        true
    }
}

/// Refuses a place of `nth_value` that no row has.
pub(crate) fn checked_place(place: i64) -> Result<()> {
    if place > 0 {
        return Ok(());
    }
    let message = format!("the place of nth_value is {place}; places are counted from 1");
    Err(Error::new(ErrorKind::Invalid, message).into())
}

fn place_at(places: &ArrayRef, row: usize) -> Option<i64> {
    let places = places.as_primitive_opt::<Int64Type>()?;
    (row < places.len() && places.is_valid(row)).then(|| places.value(row))
}

/// The position of the n-th of `count` rows, counted from 1, or from the end if it is negative.
fn nth(count: usize, place: i64) -> Option<usize> {
    let distance = usize::try_from(place.unsigned_abs()).ok()?;
    let at = if place > 0 { distance - 1 } else { count.checked_sub(distance)? };
    (at < count).then_some(at)
}
