//! Functions, called for a few rows at a time where their rows are heavy or take long: between the calls their statement can
//! end, and what each makes is claimed before it is made.

use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::sizes::Growth;
use super::weights::{weight, weight_of};
use crate::context::{self, Claimed, claim};

/// The rows of the first call of a function that takes long.
const FIRST_ROWS: usize = 64;
/// A call that takes less time is followed by a larger one, and one that takes more by a smaller one.
const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_millis(20);
/// The bytes of the arguments of a call, unless one row has more.
const LIGHT_BYTES: u64 = 4 << 20;

/// What is known of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function<'a> {
    pub name: &'a str,
    pub growth: Growth,
    /// Whether one row can take long.
    pub is_slow: bool,
}

impl Function<'_> {
    /// Claims the memory for a result of these arguments, together with what was made already.
    fn claimed(&self, args: &ScalarFunctionArgs, bytes: u64, made: u64) -> Result<Option<Claimed>> {
        claim(self.name, self.growth.bytes(&args.args, args.number_rows, bytes)?.saturating_add(made))
    }
}

/// Calls a function for parts of its rows, which become fewer where a call takes long or its arguments are heavy.
pub(crate) fn in_steps(
    args: ScalarFunctionArgs,
    function: &Function,
    call: &dyn Fn(ScalarFunctionArgs) -> Result<ColumnarValue>,
) -> Result<ColumnarValue> {
    context::check()?;
    let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if is_constant { args.number_rows.min(1) } else { args.number_rows };
    let heavy = weight_of_all(&args, rows);
    let is_short = heavy <= LIGHT_BYTES && (!function.is_slow || rows <= FIRST_ROWS);
    if rows <= 1 || is_short {
        let _claimed = function.claimed(&args, heavy, 0)?;
        return call(args);
    }
    let (mut parts, mut at, mut made) = (Vec::<ArrayRef>::new(), 0, 0);
    let mut step = if function.is_slow { FIRST_ROWS } else { rows };
    while at < rows {
        context::check()?;
        let (part, bytes) = light_part(&args, at, step.min(rows - at));
        let (began, count) = (Instant::now(), part.number_rows);
        let _claimed = function.claimed(&part, bytes, made)?;
        parts.push(call(part)?.into_array(count)?);
        made += parts.last().map_or(0, |part| weight(part));
        at += count;
        step = match began.elapsed() {
            short if short < SHORT => count * 4,
            long if long > LONG => (count / 2).max(1),
            _ => count,
        };
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(ColumnarValue::Array(concat(&parts)?))
}

fn weight_of_all(args: &ScalarFunctionArgs, rows: usize) -> u64 {
    args.args.iter().map(|arg| weight_of(arg, rows)).fold(0, u64::saturating_add)
}

/// Rows from a place on, at most `count` of them, and fewer where they are heavy; and what they weigh.
fn light_part(args: &ScalarFunctionArgs, at: usize, count: usize) -> (ScalarFunctionArgs, u64) {
    let mut part = part_of(args, at, count);
    loop {
        let bytes = weight_of_all(&part, part.number_rows);
        if bytes <= LIGHT_BYTES || part.number_rows == 1 {
            return (part, bytes);
        }
        let fitting = (part.number_rows as u64).saturating_mul(LIGHT_BYTES) / bytes;
        let fewer = usize::try_from(fitting).unwrap_or(1).clamp(1, part.number_rows - 1);
        part = part_of(args, at, fewer);
    }
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

    use datafusion::arrow::array::{AsArray, Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
    use datafusion::common::ScalarValue;
    use datafusion::common::config::ConfigOptions;

    use super::*;
    use crate::context::{Budget, Canceller};

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

    const SLOW: Function = Function { name: "slow", growth: Growth::Share(0), is_slow: true };

    #[test]
    fn heavy_rows_come_one_by_one() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(3 << 20); 5]));
        let given = ScalarFunctionArgs { args: vec![ColumnarValue::Array(texts)], ..args(5) };
        let counts = RefCell::new(vec![]);
        let growing = Function { name: "f", growth: Growth::Share(1), is_slow: false };
        let made = in_steps(given.clone(), &growing, &|args| {
            counts.borrow_mut().push(args.number_rows);
            first(args)
        });
        assert_eq!(made.expect("values").into_array(5).expect("an array").len(), 5);
        assert_eq!(counts.into_inner(), [1; 5]);
        // They are too many for the budget together.
        let canceller = Canceller::new(Budget::new(Budget::unlimited_pool(), Some(1)));
        let twelve: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(3 << 20); 12]));
        let given = ScalarFunctionArgs { args: vec![ColumnarValue::Array(twelve)], ..args(12) };
        let made = context::within(Some(canceller.statement()), || in_steps(given, &growing, &first));
        assert!(made.expect_err("too much").to_string().contains("f would make"));
    }

    #[test]
    fn parts_are_the_whole() {
        for rows in [0, 1, FIRST_ROWS, FIRST_ROWS + 1, 8192] {
            let calls = RefCell::new(0);
            let made = in_steps(args(rows), &SLOW, &|args| {
                *calls.borrow_mut() += 1;
                first(args)
            });
            let made = made.expect("values").into_array(rows).expect("an array");
            assert_eq!(made.as_primitive::<Int64Type>(), &Int64Array::from_iter_values(0..rows as i64));
            assert!(*calls.borrow() <= 5, "{rows} rows: {} calls", calls.borrow());
        }
        // Slow ones get fewer rows.
        let counts = RefCell::new(vec![]);
        let made = in_steps(args(100), &SLOW, &|args| {
            counts.borrow_mut().push(args.number_rows);
            std::thread::sleep(LONG + Duration::from_millis(1));
            first(args)
        });
        assert!(made.is_ok());
        assert_eq!(counts.into_inner(), [64, 32, 4]);
    }

    #[test]
    fn a_statement_ends_between_parts() {
        let canceller = Canceller::new(Budget::default());
        let made = context::within(Some(canceller.statement()), || {
            in_steps(args(8192), &SLOW, &|args| {
                canceller.handle().cancel();
                first(args)
            })
        });
        assert!(made.is_err());
    }
}
