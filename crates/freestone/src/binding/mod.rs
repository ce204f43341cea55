//! The front end that is to come: text to a tree by `freestone-sql`, and the tree to a plan by `freestone-binder`, whose world
//! is implemented here: [`catalog`] the tables of a statement's snapshot, [`functions`] the functions and operators of its
//! session.
//!
//! It plans the SELECTs of a session whose [`Switch`] is on. A form that the binder does not make yet is planned from
//! sqlparser's tree, as all other statements are, and counted by its name.

mod catalog;
mod functions;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use freestone_binder::{BindError, ErrorKind as Kind, Options, World, named_tables};
use freestone_sql::tree::StatementKind;
use parking_lot::Mutex;

use crate::catalog::{Planner, Scope};
use crate::error::{Error, ErrorKind, Result};

/// The variable of the environment that turns the switch of new sessions on.
const VARIABLE: &str = "FREESTONE_BINDER";

/// Whether a session plans its SELECTs by the binder, and what it has planned so.
#[derive(Debug)]
pub(crate) struct Switch {
    is_on: AtomicBool,
    /// How many SELECTs were planned, by the form for which the binder left them: empty if it planned them.
    counts: Mutex<BTreeMap<String, usize>>,
}

impl Switch {
    /// The switch of a new session.
    pub fn of_environment() -> Switch {
        let is_on = std::env::var_os(VARIABLE).is_some_and(|value| value == "1");
        Switch { is_on: AtomicBool::new(is_on), counts: Mutex::default() }
    }

    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// How many SELECTs were planned, by form.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.counts.lock().clone()
    }

    /// The plan of a query, or `None` if its form is not bound yet.
    ///
    /// # Errors
    /// The query is wrong.
    pub async fn plan(
        &self,
        planner: &Planner,
        state: &SessionState,
        scope: &Scope,
        text: &str,
    ) -> Result<Option<LogicalPlan>> {
        let planned = planned(planner, state, scope, text).await?;
        let form = planned.as_ref().err().copied().unwrap_or_default();
        *self.counts.lock().entry(form.to_owned()).or_default() += 1;
        Ok(planned.ok())
    }
}

/// The plan of a query, or the form for which it has none.
async fn planned(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    text: &str,
) -> Result<std::result::Result<LogicalPlan, &'static str>> {
    let Ok(statement) = freestone_sql::parse_statement(text) else { return Ok(Err("a statement of another grammar")) };
    let StatementKind::Query(query) = statement.kind else { return Ok(Err("a statement that is no query")) };
    let catalog = catalog::Tables::new(planner, state, scope, &named_tables(&query)).await;
    let functions = functions::Registry::new(state);
    let world = World { catalog: &catalog, functions: &functions, settings: &functions.with_enums(&scope.snapshot) };
    match freestone_binder::bind(&query, world, &Options::default()) {
        Ok(bound) => Ok(Ok(bound.plan)),
        Err(error) => match error.kind {
            Kind::Unsupported { form } => Ok(Err(form)),
            _ => Err(explained(*error, text)),
        },
    }
}

/// An error of the binder as one of the engine.
fn explained(error: BindError, text: &str) -> Error {
    let BindError { kind, span, message, hint, cause } = error;
    if let Some(cause) = cause {
        return Error::from(cause);
    }
    let place = span.location(text);
    let kind = match kind {
        Kind::UnknownName => ErrorKind::NotFound,
        Kind::TooComplex => ErrorKind::Resource,
        Kind::Unsupported { .. } => ErrorKind::Unsupported,
        Kind::Ambiguous | Kind::Invalid | Kind::Planning => ErrorKind::Invalid,
    };
    let error = Error::new(kind, format!("{message} (line {}, column {})", place.line, place.column));
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
