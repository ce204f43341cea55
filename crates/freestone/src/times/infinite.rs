//! Functions of infinite dates and timestamps. They have no place in a calendar, so nothing is computed with the integers
//! that stand for them.

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, StringArray, new_null_array};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;

use super::arrays::{exact_cast, finished, infinite, infinity, integers, is_text, may_be_infinite};
use super::convert::infinity_text;
use super::function::Call;

/// Runs a function of times with NULL in the place of infinite ones.
pub(crate) fn without_infinite(call: &Call, run: impl FnOnce(&Call) -> Result<ArrayRef>) -> Result<ArrayRef> {
    match Signs::of(call)? {
        None => run(call),
        Some(signs) => run(&signs.finite),
    }
}

/// The same. The result for an infinite time is infinite, too.
pub(crate) fn keeping_infinite(call: &Call, run: impl FnOnce(&Call) -> Result<ArrayRef>) -> Result<ArrayRef> {
    let Some(signs) = Signs::of(call)? else { return run(call) };
    let of_finite = run(&signs.finite)?;
    let is_infinite: BooleanArray = signs.positive.iter().map(|sign| Some(sign.is_some())).collect();
    Ok(zip(&is_infinite, &signs.infinities(&call.to)?, &of_finite)?)
}

/// Whether an argument of any row is infinite.
pub(crate) fn has_infinite(call: &Call) -> Result<bool> {
    Ok(Signs::of(call)?.is_some())
}

/// The rows of a call with infinite arguments.
struct Signs {
    /// Whether the first infinite argument of a row is positive. Nothing for a row with NULL.
    positive: Vec<Option<bool>>,
    /// The call with NULL for these arguments.
    finite: Call,
}

impl Signs {
    /// Nothing if no argument is infinite.
    fn of(call: &Call) -> Result<Option<Signs>> {
        let may_be = |at| call.array(at).and_then(|times| may_be_infinite(&times));
        if !(0..call.count()).try_fold(false, |any, at| Ok::<_, DataFusionError>(any || may_be(at)?))? {
            return Ok(None);
        }
        let mut positive = vec![None; call.rows()];
        let mut arguments = vec![];
        for at in 0..call.count() {
            let is_time = call.kind(at).is_some_and(|kind| matches!(kind, DataType::Date32 | DataType::Timestamp(..)));
            if !is_time {
                arguments.push(None);
                continue;
            }
            let times = call.array(at)?;
            let of = |value: Option<i64>| value.and_then(|value| infinite(value, times.data_type()));
            let mut any = false;
            for (sign, own) in positive.iter_mut().zip(integers(&times)?.iter().map(of)) {
                any |= own.is_some();
                *sign = sign.or(own);
            }
            arguments.push(any.then_some(times));
        }
        if positive.iter().all(Option::is_none) {
            return Ok(None);
        }
        let is_infinite: BooleanArray = positive.iter().map(|sign| Some(sign.is_some())).collect();
        for at in 0..call.count() {
            let nulls = call.array(at)?.logical_nulls();
            if let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) {
                positive
                    .iter_mut()
                    .enumerate()
                    .filter(|(row, _)| nulls.is_null(*row))
                    .for_each(|(_, sign)| *sign = None);
            }
        }
        let mut finite = call.clone();
        for (at, times) in arguments.into_iter().enumerate() {
            if let Some(times) = times {
                finite.set(at, ColumnarValue::Array(datafusion::arrow::compute::nullif(&times, &is_infinite)?));
            }
        }
        Ok(Some(Signs { positive, finite }))
    }

    /// The infinity of each row in a type; NULL in the other rows.
    fn infinities(&self, to: &DataType) -> Result<ArrayRef> {
        match to {
            DataType::Date32 | DataType::Timestamp(..) => {
                let values = self.positive.iter().map(|sign| sign.map(|positive| infinity(positive, to)));
                finished(values.collect::<Int64Array>(), to)
            }
            text if is_text(text) => {
                let texts: StringArray = self.positive.iter().map(|sign| sign.map(infinity_text)).collect();
                exact_cast(&(std::sync::Arc::new(texts) as ArrayRef), to)
            }
            other => Ok(new_null_array(other, self.positive.len())),
        }
    }
}
