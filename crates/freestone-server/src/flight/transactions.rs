//! The transactions of a login. Each statement names its transaction, so several can be open at the same time, and each
//! has a session of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use freestone::{Inputs, Session, quote};
use tonic::Status;

use super::statements::status;
use crate::execution::{self, Clock};
use crate::scram;
use crate::sessions::Registered;
use crate::shared::Shared;

/// The maximum number of open transactions of a login.
const TRANSACTIONS_MAX: usize = 100;

/// The open transactions, by their handles.
#[derive(Default)]
pub struct Transactions {
    open: Mutex<HashMap<Vec<u8>, Open>>,
}

struct Open {
    session: Arc<Session>,
    _registered: Registered,
    /// The handles of savepoints, which are their names.
    savepoints: Vec<String>,
}

impl Transactions {
    fn open(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of a transaction.
    pub fn session(&self, id: &[u8]) -> Result<Arc<Session>, Status> {
        self.open().get(id).map(|open| open.session.clone()).ok_or_else(none)
    }

    /// Cancels the running statements of the transactions.
    pub fn cancel(&self) {
        self.open().values().for_each(|open| open.session.cancel_handle().cancel());
    }

    pub async fn begin(
        &self,
        shared: &Arc<Shared>,
        (session, registered): (Arc<Session>, Registered),
    ) -> Result<Vec<u8>, Status> {
        execute(shared, &session, "BEGIN").await?;
        let mut open = self.open();
        if open.len() >= TRANSACTIONS_MAX {
            return Err(Status::resource_exhausted(format!("{TRANSACTIONS_MAX} transactions are open; end some")));
        }
        let id = scram::random_text().into_bytes();
        open.insert(id.clone(), Open { session, _registered: registered, savepoints: vec![] });
        Ok(id)
    }

    pub async fn end(&self, shared: &Arc<Shared>, id: &[u8], commits: bool) -> Result<(), Status> {
        let ended = self.open().remove(id).ok_or_else(none)?;
        execute(shared, &ended.session, if commits { "COMMIT" } else { "ROLLBACK" }).await
    }

    pub async fn begin_savepoint(&self, shared: &Arc<Shared>, id: &[u8]) -> Result<Vec<u8>, Status> {
        let (session, name) = (self.session(id)?, scram::random_text());
        execute(shared, &session, &format!("SAVEPOINT {}", quote(&name))).await?;
        self.open().get_mut(id).ok_or_else(none)?.savepoints.push(name.clone());
        Ok(name.into_bytes())
    }

    pub async fn end_savepoint(&self, shared: &Arc<Shared>, handle: &[u8], releases: bool) -> Result<(), Status> {
        let name = String::from_utf8_lossy(handle).into_owned();
        let of = self.open().values().find(|open| open.savepoints.contains(&name)).map(|open| open.session.clone());
        let session = of.ok_or_else(|| Status::not_found("there is no such savepoint in an open transaction"))?;
        let statement = if releases { "RELEASE" } else { "ROLLBACK TO" };
        execute(shared, &session, &format!("{statement} {}", quote(&name))).await
    }
}

async fn execute(shared: &Arc<Shared>, session: &Arc<Session>, sql: &str) -> Result<(), Status> {
    for statement in session.parse(sql).map_err(status)? {
        execution::execute(shared, session, &statement, Inputs::default(), Clock::start(None)).await.map_err(status)?;
    }
    Ok(())
}

fn none() -> Status {
    Status::not_found("there is no such transaction in this session: it has ended")
}
