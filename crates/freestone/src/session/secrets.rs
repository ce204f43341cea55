//! CREATE SECRET and DROP SECRET: credentials of the session for files elsewhere. They are kept in memory, until it ends.

use freestone_bucket::Secret;

use super::Session;
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::sql::command::SecretRequest;

impl Session {
    /// `CREATE [OR REPLACE] SECRET [IF NOT EXISTS] [name] (options)`.
    pub(super) fn create_secret(&self, request: SecretRequest) -> Result<Outcome> {
        self.access().check_files()?;
        let secret = Secret::new(request.name.as_deref(), request.options).map_err(|error| {
            Error::invalid(error.to_string()).with_hint(
                "the form is CREATE SECRET name (TYPE s3, KEY_ID '…', SECRET '…', REGION '…', SCOPE 's3://…')",
            )
        })?;
        let planner = self.planner();
        let is_known = planner.stores().secrets().iter().any(|known| known.name == secret.name());
        match is_known && !request.or_replace {
            false => planner.stores().add_secret(secret),
            true if request.if_not_exists => {}
            true => {
                return Err(Error::new(ErrorKind::Exists, format!("a secret {} exists", secret.name()))
                    .with_hint("CREATE OR REPLACE SECRET replaces it"));
            }
        }
        Ok(Outcome::Done { verb: "CREATE SECRET" })
    }

    /// `DROP SECRET [IF EXISTS] name`.
    pub(super) fn drop_secret(&self, name: &str, if_exists: bool) -> Result<Outcome> {
        self.access().check_files()?;
        let planner = self.planner();
        if !planner.stores().drop_secret(name) && !if_exists {
            let known = planner.stores().secrets();
            return Err(Error::not_found("secret", name, known.iter().map(|secret| secret.name.as_str())));
        }
        Ok(Outcome::Done { verb: "DROP SECRET" })
    }
}
