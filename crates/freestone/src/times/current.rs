//! The time at which the statement began, in the session's time zone: `now()`, CURRENT_DATE and similar functions.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arrays::{TIMESTAMP, internal, timestamptz};
use super::zone::{UTC, Zone};

const DAY_US: i64 = 86_400_000_000;

/// All functions of this module.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    let functions: [(&'static str, Kind, &[&str]); 4] = [
        (
            "now",
            Kind::Instant,
            &["current_timestamp", "transaction_timestamp", "statement_timestamp", "get_current_timestamp"],
        ),
        ("localtimestamp", Kind::Local, &["current_localtimestamp"]),
        ("current_date", Kind::Date, &["today"]),
        ("current_time", Kind::Time, &["localtime", "current_localtime"]),
    ];
    let function = |(name, kind, aliases): (&'static str, Kind, &[&str])| {
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        ScalarUDF::new_from_impl(Current { name, aliases, kind, signature: Signature::nullary(Volatility::Stable) })
    };
    functions.into_iter().map(function).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Instant,
    Local,
    Date,
    Time,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Current {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Current {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Instant => timestamptz(),
            Kind::Local => TIMESTAMP,
            Kind::Date => DataType::Date32,
            Kind::Time => DataType::Time64(TimeUnit::Microsecond),
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(internal(&format!("{} is known before a statement runs", self.name)))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(start) = info.query_execution_start_time() else { return Ok(ExprSimplifyResult::Original(args)) };
        let us = start.timestamp_micros();
        let zone = Zone::of_session(info.config_options());
        let local = us + zone.offset_at(us.div_euclid(1_000_000)).unwrap_or(0) * 1_000_000;
        let value = match self.kind {
            Kind::Instant => ScalarValue::TimestampMicrosecond(Some(us), Some(UTC.into())),
            Kind::Local => ScalarValue::TimestampMicrosecond(Some(local), None),
            Kind::Date => ScalarValue::Date32(i32::try_from(local.div_euclid(DAY_US)).ok()),
            Kind::Time => ScalarValue::Time64Microsecond(Some(local.rem_euclid(DAY_US))),
        };
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(value, None)))
    }
}
