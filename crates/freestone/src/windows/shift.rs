//! LEAD and LAG: the value of a row at an offset after or before the current one, or a default. Offset and default may
//! be different for each row, and an offset may be negative. If the offset is NULL, the result is NULL. With IGNORE
//! NULLS, only rows with a value are counted.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use datafusion::arrow::compute;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::scalar::ScalarValue;

/// The function `lead` or `lag`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Shift {
    is_lead: bool,
    signature: Signature,
}

impl Shift {
    pub fn lead() -> Self {
        Shift { is_lead: true, signature: Signature::user_defined(Volatility::Immutable) }
    }

    pub fn lag() -> Self {
        Shift { is_lead: false, ..Shift::lead() }
    }

    /// The offset in rows before the current one, if it is constant.
    pub fn constant_offset(&self, args: &[Arc<dyn PhysicalExpr>]) -> Option<i64> {
        let offset = match args.get(1).map(|offset| offset.downcast_ref::<Literal>().map(Literal::value)) {
            None => 1,
            Some(Some(ScalarValue::Int64(Some(offset)))) => *offset,
            Some(_) => return None,
        };
        if self.is_lead { offset.checked_neg() } else { Some(offset) }
    }
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        if self.is_lead { "lead" } else { "lag" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// A value and its default are converted to a common type.
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [value, others @ ..] = arguments else { return plan_err!("{} takes a value", self.name()) };
        if others.len() > 2 {
            return plan_err!("{} takes a value, an offset and a default", self.name());
        }
        if let Some(offset) = others.first().filter(|offset| !offset.is_integer() && !offset.is_null()) {
            return plan_err!("the offset of {} is an integer, not {offset}", self.name());
        }
        let result = match others.get(1) {
            None => value.clone(),
            Some(default) if value.is_null() => default.clone(),
            Some(default) if default.is_null() || default == value => value.clone(),
            // A decimal would change floats.
            Some(default) if value.is_floating() && default.is_numeric() => value.clone(),
            Some(default) => match type_union_resolution(&[value.clone(), default.clone()]) {
                Some(both) => both,
                None => return plan_err!("{} cannot have a value of {value} and a default of {default}", self.name()),
            },
        };
        let types = [result.clone(), DataType::Int64, result];
        Ok(types[..arguments.len()].to_vec())
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        args.input_exprs().to_vec()
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        match args.input_fields().first() {
            Some(value) => Ok(Arc::new(value.as_ref().clone().with_name(args.name()).with_nullable(true))),
            None => plan_err!("{} takes a value", self.name()),
        }
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let exprs = args.input_exprs();
        let has_constant_default = exprs.get(2).is_none_or(|default| default.downcast_ref::<Literal>().is_some());
        // DataFusion's function is correct here, and streams its rows.
        if !args.ignore_nulls()
            && has_constant_default
            && self.constant_offset(exprs).is_some_and(|back| back.abs() > 0)
        {
            let plain = if self.is_lead { lead_udwf() } else { lag_udwf() };
            return plain.inner().partition_evaluator(args);
        }
        Ok(Box::new(Evaluator { is_lead: self.is_lead, ignore_nulls: args.ignore_nulls() }))
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        // IGNORE NULLS is not known here.
        match self.constant_offset(args) {
            Some(back) if back >= 0 => LimitEffect::None,
            _ => LimitEffect::Unknown,
        }
    }
}

/// Evaluates the function over whole partitions.
#[derive(Debug)]
struct Evaluator {
    is_lead: bool,
    ignore_nulls: bool,
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let column = &values[0];
        let defaults = values.get(2).cloned().unwrap_or_else(|| new_null_array(column.data_type(), rows));
        let nulls = new_null_array(column.data_type(), 1);
        let offsets = values.get(1).and_then(|offsets| offsets.as_primitive_opt::<Int64Type>());
        let counted = Counted::new(column, self.ignore_nulls)?;
        let places = (0..rows).map(|row| {
            let offset = match offsets {
                None => Some(1),
                Some(offsets) => offsets.is_valid(row).then(|| offsets.value(row)),
            };
            let Some(offset) = offset else { return (2, 0) };
            let forward = if self.is_lead { i128::from(offset) } else { -i128::from(offset) };
            counted.from(row, forward).map_or((1, row), |place| (0, place))
        });
        let places: Vec<(usize, usize)> = places.collect();
        Ok(compute::interleave(&[column.as_ref(), defaults.as_ref(), nulls.as_ref()], &places)?)
    }
}

/// The rows that an offset counts.
struct Counted {
    rows: usize,
    /// With IGNORE NULLS, the rows that are not NULL.
    valid: Option<Vec<usize>>,
}

impl Counted {
    fn new(column: &ArrayRef, ignore_nulls: bool) -> Result<Counted> {
        let rows = column.len();
        if !ignore_nulls {
            return Ok(Counted { rows, valid: None });
        }
        let is_valid = compute::is_not_null(column)?;
        Ok(Counted { rows, valid: Some((0..rows).filter(|row| is_valid.value(*row)).collect()) })
    }

    /// The row at a distance after another, or before it.
    fn from(&self, row: usize, forward: i128) -> Option<usize> {
        let Some(valid) = &self.valid else {
            let place = usize::try_from(row as i128 + forward).ok()?;
            return (place < self.rows).then_some(place);
        };
        if forward == 0 {
            return Some(row);
        }
        // After a row, the first counted row has distance 1.
        let place = if forward > 0 {
            valid.partition_point(|other| *other <= row) as i128 + forward - 1
        } else {
            valid.partition_point(|other| *other < row) as i128 + forward
        };
        valid.get(usize::try_from(place).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int64Array;

    fn shifted(is_lead: bool, ignore_nulls: bool, offsets: Vec<Option<i64>>) -> Vec<Option<i64>> {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(10), None, Some(30), None, Some(50)]));
        let offsets: ArrayRef = Arc::new(Int64Array::from(offsets));
        let defaults: ArrayRef = Arc::new(Int64Array::from(vec![-1, -2, -3, -4, -5]));
        let mut evaluator = Evaluator { is_lead, ignore_nulls };
        let found = evaluator.evaluate_all(&[column, offsets, defaults], 5).expect("values");
        found.as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn offsets_count_rows() {
        assert_eq!(shifted(true, false, vec![Some(1); 5]), [None, Some(30), None, Some(50), Some(-5)]);
        assert_eq!(shifted(false, false, vec![Some(-1); 5]), [None, Some(30), None, Some(50), Some(-5)]);
        let offsets = vec![Some(0), None, Some(i64::MIN), Some(i64::MAX), Some(4)];
        assert_eq!(shifted(false, false, offsets), [Some(10), None, Some(-3), Some(-4), Some(10)]);
    }

    #[test]
    fn nulls_are_not_counted() {
        assert_eq!(shifted(true, true, vec![Some(1); 5]), [Some(30), Some(30), Some(50), Some(50), Some(-5)]);
        assert_eq!(shifted(false, true, vec![Some(1); 5]), [Some(-1), Some(10), Some(10), Some(30), Some(30)]);
        assert_eq!(shifted(true, true, vec![Some(2); 5]), [Some(50), Some(50), Some(-3), Some(-4), Some(-5)]);
    }
}
