//! SET VARIABLE and RESET VARIABLE.

use datafusion::scalar::ScalarValue;

use super::Session;
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::sql::parameters::{Parameters, count};
use crate::sql::written::Written;

impl Session {
    /// `SET VARIABLE name = value`: the only value of a query's only row, or NULL if it has no row.
    pub(super) async fn set_variable(&self, name: &str, parameters: &Parameters) -> Result<Outcome> {
        let batches = self.query_in(self.scope()?, parameters).await?.collect().await?;
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        if rows > 1 {
            let message = format!("the value of variable {name} has {rows} rows");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let value = match batches.iter().find(|batch| batch.num_rows() == 1) {
            Some(batch) => ScalarValue::try_from_array(batch.column(0), 0)?,
            None => ScalarValue::Null,
        };
        self.variables.set(name, value);
        self.forget_plans();
        Ok(Outcome::Done { verb: "SET" })
    }

    /// The number of a statement's parameters whose names can be those of variables; 0 if the session has no variables.
    pub(super) fn known_by_name(&self, written: &Written) -> usize {
        if self.variables.is_empty() { 0 } else { written.numbers().names().map_or(0, <[String]>::len) }
    }

    /// The values of a statement's parameters. Those without a value are the variables of their names, as `$name` in DuckDB.
    ///
    /// # Errors
    /// A parameter has neither.
    pub(super) fn or_variables(&self, values: Vec<Option<ScalarValue>>, written: &Written) -> Result<Vec<ScalarValue>> {
        let names = written.numbers().names().unwrap_or_default();
        let (given, expected) = (values.iter().flatten().count(), values.len());
        let value = |(at, value): (usize, Option<ScalarValue>)| {
            let of_name = || names.get(at).and_then(|name| self.variables.known(name));
            value.or_else(of_name).ok_or_else(|| count(expected, given))
        };
        values.into_iter().enumerate().map(value).collect()
    }

    /// What a statement is given. Parameters with names that were not given are variables of the session, if all are set.
    pub(super) fn with_variables(&self, parameters: Parameters) -> Parameters {
        let known = parameters.written.as_ref().map_or(0, |written| self.known_by_name(written));
        let Some(written) = parameters.written.clone().filter(|_| known > parameters.values.len()) else {
            return parameters;
        };
        let mut values: Vec<Option<ScalarValue>> = parameters.values.iter().cloned().map(Some).collect();
        values.resize(known, None);
        match self.or_variables(values, &written) {
            Ok(values) => Parameters { values, ..parameters },
            // A statement that prepares another one needs no values; the others say which they need.
            Err(_) => parameters,
        }
    }

    /// `RESET VARIABLE name`.
    pub(super) fn reset_variable(&self, name: &str) -> Outcome {
        self.variables.reset(name);
        self.forget_plans();
        Outcome::Done { verb: "RESET" }
    }
}
