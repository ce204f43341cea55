//! `pg_sleep(seconds)` and `sleep_ms(n)`: NULL after a while. A statement that is cancelled sleeps no longer.

use std::thread;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, new_null_array};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::Volatility;

use super::function::Scalar;
use super::kinds::Kind::{Int, Real};
use super::rows::{ints, reals};
use crate::context;
use crate::times::Call;

/// How long a thread sleeps before it looks whether it still should.
const STEP: Duration = Duration::from_millis(10);

pub(super) fn all() -> Vec<Scalar> {
    let sleeping = |name, seconds| match seconds {
        true => Scalar::new(&[name], &[&[Real]], DataType::Int32, by_seconds),
        false => Scalar::new(&[name], &[&[Int]], DataType::Int32, by_milliseconds),
    };
    let all = [sleeping("pg_sleep", true), sleeping("sleep_ms", false)];
    all.map(|one| one.of_volatility(Volatility::Volatile)).into()
}

fn by_seconds(call: &Call) -> Result<ArrayRef> {
    // A time that no clock has never ends.
    let whole = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    reals(call, 0)?.iter().flatten().filter(|seconds| *seconds > 0.0).map(whole).try_for_each(sleep)?;
    Ok(new_null_array(&call.to, call.rows()))
}

fn by_milliseconds(call: &Call) -> Result<ArrayRef> {
    let milliseconds = ints(call, 0)?;
    let whole = |count: i64| Duration::from_millis(u64::try_from(count).unwrap_or(0));
    milliseconds.iter().flatten().map(whole).try_for_each(sleep)?;
    Ok(new_null_array(&call.to, milliseconds.len()))
}

fn sleep(time: Duration) -> Result<()> {
    let began = Instant::now();
    loop {
        context::check()?;
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(STEP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Budget, Canceller};

    #[test]
    fn cancelled_statements_sleep_no_longer() {
        let canceller = Canceller::new(Budget::default());
        let began = Instant::now();
        let slept = context::within(Some(canceller.statement()), || {
            canceller.handle().cancel();
            sleep(Duration::MAX)
        });
        assert!(slept.is_err() && began.elapsed() < Duration::from_secs(60));
        assert!(sleep(Duration::from_millis(1)).is_ok());
    }
}
