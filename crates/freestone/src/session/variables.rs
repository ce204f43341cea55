//! SET VARIABLE and RESET VARIABLE.

use datafusion::scalar::ScalarValue;

use super::Session;
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::sql::parameters::Parameters;

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

    /// `RESET VARIABLE name`.
    pub(super) fn reset_variable(&self, name: &str) -> Outcome {
        self.variables.reset(name);
        self.forget_plans();
        Outcome::Done { verb: "RESET" }
    }
}
