//! Queries as plans: text to a tree by `freestone-sql`, and the tree to a plan by `freestone-binder`, whose world is implemented
//! here: [`catalog`] the tables of a statement's snapshot, [`functions`] the functions and operators of its session.
//!
//! A form that the binder does not make yet is planned from sqlparser's tree and counted by its name. An error of another kind
//! is the error of the statement.

mod catalog;
mod functions;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;
use freestone_binder::{BindError, Bound, ErrorKind as Kind, Options, Parameter, World, named_tables};
use freestone_sql::tree;
use parking_lot::Mutex;

pub(crate) use catalog::stored_name;

use crate::catalog::{Planner, Scope, texts_of};
use crate::error::{Error, ErrorKind, Result};
use crate::planning;
use crate::sql::parameters::{self, Parameters};
use crate::sql::written::Written;
use crate::table_functions::evaluated;

/// What the binder has planned in a session.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    /// How many queries were planned, by the form for which the binder left them: empty if it planned them.
    counts: Mutex<BTreeMap<String, usize>>,
}

impl Bindings {
    /// How many queries were planned, by form.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.counts.lock().clone()
    }

    /// A query that is bound, or `None` if its form is not bound yet.
    ///
    /// # Errors
    /// The query is wrong.
    pub async fn plan(
        &self,
        planner: &Planner,
        state: &SessionState,
        scope: &Scope,
        written: &Written,
        parameters: &Parameters,
    ) -> Result<Option<Bound>> {
        self.bound(planner, state, scope, written, &of_values(parameters)?).await
    }

    /// A query that is made of a statement.
    ///
    /// # Errors
    /// The query is wrong, or has a form that is not bound.
    pub async fn plan_made(
        &self,
        planner: &Planner,
        state: &SessionState,
        scope: &Scope,
        (query, written): (&tree::Query, &Written),
        parameters: &Parameters,
    ) -> Result<Bound> {
        let options = Options { numbers: Some(written.numbers().clone()), ..of_values(parameters)? };
        let bound = bound(planner, state, scope, (query, written.text()), &options).await?;
        self.count(bound.as_ref().err().copied());
        bound.map_err(unavailable)
    }

    /// The plan of a query that is made of a statement, whose parameters have types and no values.
    ///
    /// # Errors
    /// The query is wrong, or has a form that is not bound.
    pub async fn described_made(
        &self,
        planner: &Planner,
        state: &SessionState,
        scope: &Scope,
        (query, written): (&tree::Query, &Written),
        types: &[DataType],
    ) -> Result<LogicalPlan> {
        let options = Options { numbers: Some(written.numbers().clone()), ..of_types(types) };
        let bound = bound(planner, state, scope, (query, written.text()), &options).await?;
        Ok(bound.map_err(unavailable)?.plan)
    }

    async fn bound(
        &self,
        planner: &Planner,
        state: &SessionState,
        scope: &Scope,
        written: &Written,
        options: &Options,
    ) -> Result<Option<Bound>> {
        let bound = match written.query() {
            Ok(query) => bound(planner, state, scope, query, options).await?,
            Err(form) => Err(form),
        };
        self.count(bound.as_ref().err().copied());
        Ok(bound.ok())
    }

    /// Counts a query, with the form for which it was not bound.
    fn count(&self, form: Option<&'static str>) {
        *self.counts.lock().entry(form.unwrap_or_default().to_owned()).or_default() += 1;
    }
}

fn unavailable(form: &'static str) -> Error {
    Error::unsupported(format!("{form} is not available here"))
}

/// A query that is bound, or the form that is not. What binding asks for is looked up, and it begins again.
async fn bound(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    (query, text): (&tree::Query, &str),
    options: &Options,
) -> Result<std::result::Result<Bound, &'static str>> {
    let mut catalog = catalog::Tables::new(planner, state, scope, named_tables(query)).await;
    let mut answers = Answers::default();
    loop {
        planning::check()?;
        let error = {
            let functions = functions::Registry::new(state, scope, planner.temp(), &answers);
            let settings = functions.settings();
            let world = World { catalog: &catalog, functions: &functions, settings: &settings };
            match freestone_binder::bind(query, world, options) {
                Ok(bound) => return Ok(Ok(bound)),
                Err(error) => error,
            }
        };
        if catalog.look_up_wanted(planner, state).await || answers.answer(state).await? {
            continue;
        }
        return match error.kind {
            Kind::Unsupported { form } => Ok(Err(form)),
            _ => Err(explained(*error, text)),
        };
    }
}

/// The value of an expression without columns.
fn constant(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    written: &tree::Expr,
) -> datafusion::error::Result<Expr> {
    let (catalog, answers) = (catalog::Tables::none(planner, scope), Answers::default());
    let functions = functions::Registry::new(state, scope, planner.temp(), &answers);
    let settings = functions.settings();
    let world = World { catalog: &catalog, functions: &functions, settings: &settings };
    let value = freestone_binder::bind_expression(written, &Arc::new(DFSchema::empty()), world);
    let value = value.map_err(|error| explained(*error, ""))?;
    evaluated(value, state.config_options(), state.execution_props().query_execution_start_time)
}

/// The texts that queries return, which become the columns of PIVOT, in the order in which binding asks for them.
#[derive(Default)]
struct Answers {
    known: Vec<Vec<String>>,
    wanted: Mutex<Option<LogicalPlan>>,
}

impl Answers {
    /// Runs the query that was asked for. Returns whether there was one.
    async fn answer(&mut self, state: &SessionState) -> Result<bool> {
        let Some(plan) = self.wanted.lock().take() else { return Ok(false) };
        self.known.push(texts_of(state, &plan).await?);
        Ok(true)
    }
}

/// What is known of a statement's parameters. Texts and NULL without a declared type are as if they stood in the statement.
fn of_values(parameters: &Parameters) -> Result<Options> {
    let values = parameters::converted(&parameters.values, &parameters.types)?;
    let given = values.into_iter().enumerate().map(|(at, value)| {
        let is_declared = matches!(parameters.types.get(at), Some(Some(_)));
        let text = value.try_as_str().map(|text| text.map(str::to_owned));
        Parameter::Value(match text {
            Some(None) if !is_declared => ScalarValue::Null,
            Some(text) if is_declared => ScalarValue::Utf8View(text),
            Some(text) => ScalarValue::Utf8(text),
            None => value,
        })
    });
    Ok(Options { parameters: given.collect(), for_run: true, numbers: None })
}

/// Parameters whose types alone are known.
fn of_types(types: &[DataType]) -> Options {
    let field = |data_type: &DataType| {
        let data_type = match data_type {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            other => other.clone(),
        };
        Parameter::Typed(Arc::new(Field::new("", data_type, true)))
    };
    Options { parameters: types.iter().map(field).collect(), for_run: false, numbers: None }
}

/// An error of the binder as one of the engine.
fn explained(error: BindError, text: &str) -> Error {
    let BindError { kind, span, message, hint, cause } = error;
    if let Some(cause) = cause {
        return Error::from(cause);
    }
    let kind = match kind {
        Kind::UnknownName => ErrorKind::NotFound,
        Kind::TooComplex => ErrorKind::Resource,
        Kind::Unsupported { .. } => ErrorKind::Unsupported,
        Kind::Ambiguous | Kind::Invalid | Kind::Planning => ErrorKind::Invalid,
    };
    let error = Error::new(kind, message);
    let error = if text.is_empty() { error } else { error.with_excerpt(span.excerpt(text)) };
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
