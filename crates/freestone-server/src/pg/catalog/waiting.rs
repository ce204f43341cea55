//! Functions of `pg_catalog` that wait: advisory locks and `pg_sleep`. A statement that is cancelled waits no longer.

use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::data::Data;
use super::values::Value;
use crate::advisory::{Key, Mode, Refusal};

pub const SESSION: Mode = Mode { is_shared: false, of_transaction: false };
pub const SESSION_SHARED: Mode = Mode { is_shared: true, of_transaction: false };
pub const TRANSACTION: Mode = Mode { is_shared: false, of_transaction: true };
pub const TRANSACTION_SHARED: Mode = Mode { is_shared: true, of_transaction: true };

/// How long `pg_sleep` sleeps before it looks whether it still should.
const NAP: Duration = Duration::from_millis(10);
/// PostgreSQL's functions without a result give an empty text.
const DONE: Value = Value::Text(String::new());

/// Lets other tasks of a worker go on while this one waits.
fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

fn goes_on() -> bool {
    freestone::check_statement().is_ok()
}

/// `pg_sleep(seconds)`
pub fn sleep(arguments: &[Value]) -> Value {
    let seconds = match arguments {
        [Value::Int(seconds)] => *seconds as f64,
        [Value::Real(seconds)] => *seconds,
        // A parameter without a declared type.
        [Value::Text(seconds)] if seconds.trim().parse::<f64>().is_ok() => seconds.trim().parse().unwrap_or_default(),
        [Value::Null] => return Value::Null,
        _ => return Value::Refused("pg_sleep takes a number of seconds".to_owned()),
    };
    // More than a year is for ever.
    let time = Duration::from_secs_f64(if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, 4e7) });
    let start = Instant::now();
    waiting(|| {
        while start.elapsed() < time {
            if !goes_on() {
                return Value::Interrupted;
            }
            std::thread::sleep(NAP.min(time.saturating_sub(start.elapsed())));
        }
        DONE
    })
}

/// The key of one number, or of two.
fn key(arguments: &[Value]) -> Result<Key, Value> {
    let wrong = || Value::Refused("an advisory lock is of one BIGINT or two INTEGERs".to_owned());
    let small = |number: &i64| i32::try_from(*number).map_err(|_| wrong());
    // A parameter without a declared type is a text.
    let number = |value: &Value| match value {
        Value::Int(number) => Ok(*number),
        Value::Text(digits) => digits.trim().parse::<i64>().map_err(|_| wrong()),
        _ => Err(wrong()),
    };
    match arguments {
        [Value::Null] | [Value::Null, _] | [_, Value::Null] => Err(Value::Null),
        [one] => Ok(Key::One(number(one)?)),
        [first, second] => Ok(Key::Two(small(&number(first)?)?, small(&number(second)?)?)),
        _ => Err(wrong()),
    }
}

/// `pg_advisory_lock` and its relatives.
pub fn lock(data: &Data, arguments: &[Value], mode: Mode) -> Value {
    let key = match key(arguments) {
        Ok(key) => key,
        Err(value) => return value,
    };
    let limit = data.settings.lock_limit();
    let start = Instant::now();
    let in_time = || limit.is_none_or(|limit| start.elapsed() < limit);
    let locked = waiting(|| data.advisory_locks.lock(data.peers.own, key, mode, || goes_on() && in_time()));
    match locked {
        Ok(()) => DONE,
        Err(Refusal::Deadlock) => {
            Value::Refused("deadlock: the session that has this advisory lock waits for one of this session".to_owned())
        }
        Err(_) if !in_time() && goes_on() => {
            Value::Refused("another session has this advisory lock for longer than lock_timeout".to_owned())
        }
        Err(_) => Value::Interrupted,
    }
}

/// `pg_try_advisory_lock` and its relatives.
pub fn try_lock(data: &Data, arguments: &[Value], mode: Mode) -> Value {
    match key(arguments) {
        Ok(key) => Value::Bool(data.advisory_locks.try_lock(data.peers.own, key, mode).is_ok()),
        Err(value) => value,
    }
}

/// `pg_advisory_unlock`
pub fn unlock(data: &Data, arguments: &[Value], is_shared: bool) -> Value {
    match key(arguments) {
        Ok(key) => Value::Bool(data.advisory_locks.unlock(data.peers.own, key, is_shared)),
        Err(value) => value,
    }
}
