//! Time travel: `t AT (VERSION => n)` and `t AT (TIMESTAMP => time)`, which are parsed as a call of this table function,
//! and `freestone_versions()`, which lists what there is to go back to.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use freestone_store::Snapshot;

use super::FreestoneTable;
use crate::error::{Error, Result};
use crate::temp_schema::TempSchema;

/// The table function that represents AT behind a table, with the table's name, a unit, and the value.
pub(crate) const AT: &str = "freestone$at";

/// The tables of earlier versions, as the reader of a snapshot sees them, in a session with this temporary schema.
pub(crate) struct AtVersion(pub Arc<Snapshot>, pub TempSchema);

impl std::fmt::Debug for AtVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(AT)
    }
}

impl TableFunctionImpl for AtVersion {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let [Expr::Literal(name, _), Expr::Literal(unit, _), Expr::Literal(value, _)] = arguments.exprs() else {
            return Err(Error::invalid("AT takes a constant").with_hint(FORMS).into());
        };
        let (Some(Some(name)), Some(Some(unit))) = (name.try_as_str(), unit.try_as_str()) else {
            return Err(Error::invalid("AT takes a constant").with_hint(FORMS).into());
        };
        let past = match unit {
            "version" => self.0.at_version(version(value)?).map_err(gone)?,
            _ => self.0.at_time(time(value)?, &value.to_string()).map_err(gone)?,
        };
        match FreestoneTable::new(past.clone(), name).filter(|_| self.1.sees(name)) {
            Some(table) => Ok(Arc::new(table.of_the_past())),
            None if past.view(name).is_some() && self.1.sees(name) => {
                Err(Error::unsupported(format!("{name} is a view; only tables have versions")).into())
            }
            None => Err(Error::not_found("table", name, past.tables().map(|table| table.name.as_str())).into()),
        }
    }
}

const FORMS: &str = "AT (VERSION => 12) or AT (TIMESTAMP => TIMESTAMP '2024-01-31 12:00:00')";

fn gone(error: freestone_store::StoreError) -> Error {
    Error::from(error).with_hint(
        "SET retention = 3600 keeps versions from then on, each for that many seconds; freestone_versions() lists them",
    )
}

fn version(value: &ScalarValue) -> Result<u64> {
    let number = value.data_type().is_integer().then(|| value.cast_to(&DataType::UInt64));
    match number {
        Some(Ok(ScalarValue::UInt64(Some(version)))) => Ok(version),
        _ => Err(Error::invalid(format!("{value} is not the number of a version")).with_hint(FORMS)),
    }
}

/// A time, which is one of UTC if it has no zone.
fn time(value: &ScalarValue) -> Result<SystemTime> {
    let is_time = matches!(
        value.data_type(),
        DataType::Timestamp(_, _) | DataType::Date32 | DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8
    );
    let wrong = || Error::invalid(format!("{value} is not a time")).with_hint(FORMS);
    let micros = match is_time.then(|| value.cast_to(&DataType::Timestamp(TimeUnit::Microsecond, None))) {
        Some(Ok(ScalarValue::TimestampMicrosecond(Some(micros), _))) => micros,
        _ => return Err(wrong()),
    };
    // No version is older than 1970.
    UNIX_EPOCH.checked_add(Duration::from_micros(u64::try_from(micros).unwrap_or(0))).ok_or_else(wrong)
}
