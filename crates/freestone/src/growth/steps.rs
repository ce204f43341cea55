//! Functions that take long for one row, called for a few rows at a time: between them their statement can end.

use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use crate::context;

/// The rows of the first call.
const FIRST_ROWS: usize = 64;
/// A call that takes less time is followed by a larger one, and one that takes more by a smaller one.
const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_millis(20);

/// Calls a function for parts of its rows, which become fewer where a call takes long.
pub(crate) fn in_steps(
    args: ScalarFunctionArgs,
    call: &dyn Fn(ScalarFunctionArgs) -> Result<ColumnarValue>,
) -> Result<ColumnarValue> {
    context::check()?;
    let rows = args.number_rows;
    if rows <= FIRST_ROWS || !args.args.iter().any(|arg| matches!(arg, ColumnarValue::Array(_))) {
        return call(args);
    }
    let (mut parts, mut at, mut step) = (Vec::<ArrayRef>::new(), 0, FIRST_ROWS);
    while at < rows {
        context::check()?;
        let began = Instant::now();
        let count = step.min(rows - at);
        parts.push(call(part_of(&args, at, count))?.into_array(count)?);
        at += count;
        step = match began.elapsed() {
            short if short < SHORT => step * 4,
            long if long > LONG => (step / 2).max(1),
            _ => step,
        };
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(ColumnarValue::Array(concat(&parts)?))
}

fn part_of(args: &ScalarFunctionArgs, at: usize, count: usize) -> ScalarFunctionArgs {
    let part = |arg: &ColumnarValue| match arg {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(at, count)),
        ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.clone()),
    };
    ScalarFunctionArgs { args: args.args.iter().map(part).collect(), number_rows: count, ..args.clone() }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use datafusion::arrow::array::{AsArray, Int64Array};
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
    use datafusion::common::ScalarValue;
    use datafusion::common::config::ConfigOptions;

    use super::*;
    use crate::context::Canceller;

    fn args(rows: usize) -> ScalarFunctionArgs {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(values), ColumnarValue::Scalar(ScalarValue::Int64(Some(7)))],
            arg_fields: vec![],
            number_rows: rows,
            return_field: Arc::new(Field::new("a", DataType::Int64, true)),
            config_options: Arc::new(ConfigOptions::default()),
        }
    }

    fn first(args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.into_iter().next().expect("an argument"))
    }

    #[test]
    fn parts_are_the_whole() {
        for rows in [0, 1, FIRST_ROWS, FIRST_ROWS + 1, 8192] {
            let calls = RefCell::new(0);
            let made = in_steps(args(rows), &|args| {
                *calls.borrow_mut() += 1;
                first(args)
            });
            let made = made.expect("values").into_array(rows).expect("an array");
            assert_eq!(made.as_primitive::<Int64Type>(), &Int64Array::from_iter_values(0..rows as i64));
            assert!(*calls.borrow() <= 5, "{rows} rows: {} calls", calls.borrow());
        }
        // Slow ones get fewer rows.
        let counts = RefCell::new(vec![]);
        let made = in_steps(args(100), &|args| {
            counts.borrow_mut().push(args.number_rows);
            std::thread::sleep(LONG + Duration::from_millis(1));
            first(args)
        });
        assert!(made.is_ok());
        assert_eq!(counts.into_inner(), [64, 32, 4]);
    }

    #[test]
    fn a_statement_ends_between_parts() {
        let canceller = Canceller::new();
        let made = context::within(Some(canceller.statement()), || {
            in_steps(args(8192), &|args| {
                canceller.handle().cancel();
                first(args)
            })
        });
        assert!(made.is_err());
    }
}
