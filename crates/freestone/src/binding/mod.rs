//! Queries as plans: text to a tree by `freestone-sql`, and the tree to a plan by `freestone-binder`, whose world is implemented
//! here: [`catalog`] the tables of a statement's snapshot, [`functions`] the functions and operators of its session.
//!
//! A form that the binder does not make is an error with its name.

mod catalog;
mod functions;
mod json_parts;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;
use freestone_binder::{BindError, Bound, ErrorKind as Kind, Options, Parameter, SqlType, World, named_tables};
use freestone_sql::tree;
use parking_lot::Mutex;

pub(crate) use catalog::stored_name;

use crate::catalog::{Planner, Scope, texts_of};
use crate::error::{Error, ErrorKind, Result};
use crate::planning;
use crate::sql::parameters::{self, Parameters};
use crate::sql::written::Written;
use crate::table_functions::evaluated;

/// The plan of a statement's query as it was written.
///
/// # Errors
/// The statement has no query; or the query is wrong, or has a form that is not bound.
pub(crate) async fn plan(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    written: &Written,
    parameters: &Parameters,
) -> Result<Bound> {
    bound(planner, state, scope, written.query()?, &of_values(parameters)?).await
}

/// The plan of a query that is made of a statement.
///
/// # Errors
/// The query is wrong, or has a form that is not bound.
pub(crate) async fn plan_made(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    (query, written): (&tree::Query, &Written),
    parameters: &Parameters,
) -> Result<Bound> {
    let options = Options { numbers: Some(written.numbers().clone()), ..of_values(parameters)? };
    bound(planner, state, scope, (query, written.text()), &options).await
}

/// The plan of a query that is made of a statement, whose parameters have types and no values.
///
/// # Errors
/// The query is wrong, or has a form that is not bound.
pub(crate) async fn described_made(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    (query, written): (&tree::Query, &Written),
    types: &[DataType],
) -> Result<LogicalPlan> {
    let options = Options { numbers: Some(written.numbers().clone()), ..of_types(types) };
    Ok(bound(planner, state, scope, (query, written.text()), &options).await?.plan)
}

/// A query that is bound. What binding asks for is looked up, and it begins again.
async fn bound(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    (query, text): (&tree::Query, &str),
    options: &Options,
) -> Result<Bound> {
    let mut catalog = catalog::Tables::new(planner, state, scope, (named_tables(query), text)).await;
    let mut answers = Answers::default();
    loop {
        planning::check()?;
        let error = {
            let functions = functions::Registry::new(state, scope, planner.temp(), &answers);
            let settings = functions.settings();
            let world = World { catalog: &catalog, functions: &functions, settings: &settings };
            match freestone_binder::bind(query, world, options) {
                Ok(bound) => return Ok(bound),
                Err(error) => error,
            }
        };
        if catalog.look_up_wanted(planner, state).await || answers.answer(state).await? {
            continue;
        }
        return Err(match error.kind {
            Kind::Unsupported { form } => Error::unsupported(format!("{form} is not available here")),
            _ => explained(*error, text),
        });
    }
}

/// The value of an expression of a statement that reads no rows.
///
/// # Errors
/// It is no constant.
pub(crate) fn constant_value(planner: &Planner, scope: &Scope, written: &tree::Expr) -> Result<ScalarValue> {
    match constant(planner, &planner.state(scope), scope, written)? {
        Expr::Literal(value, _) => Ok(value),
        _ => Err(Error::invalid(format!("{written} is not a constant"))),
    }
}

/// The value of an expression without columns.
fn constant(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    written: &tree::Expr,
) -> datafusion::error::Result<Expr> {
    let nothing = Arc::new(DFSchema::empty());
    let value = without_tables(planner, state, scope, |world| {
        freestone_binder::bind_expression(written, &nothing, world).map_err(|error| explained(*error, ""))
    })?;
    evaluated(value, state.config_options(), state.execution_props().query_execution_start_time)
}

/// The types of names in a text.
///
/// # Errors
/// There is no such type.
pub(crate) fn types(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    (written, text): (&[&tree::Type], &str),
) -> Result<Vec<SqlType>> {
    without_tables(planner, state, scope, |world| {
        let known = |written: &&tree::Type| freestone_binder::bind_type(written, world);
        written.iter().map(|written| known(written).map_err(|error| explained(*error, text))).collect()
    })
}

/// Binds what names no tables.
fn without_tables<T>(
    planner: &Planner,
    state: &SessionState,
    scope: &Scope,
    bind: impl FnOnce(World) -> Result<T>,
) -> Result<T> {
    let (catalog, answers) = (catalog::Tables::none(planner, scope), Answers::default());
    let functions = functions::Registry::new(state, scope, planner.temp(), &answers);
    let settings = functions.settings();
    bind(World { catalog: &catalog, functions: &functions, settings: &settings })
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
    let error = if text.is_empty() { error } else { error.in_part(span, text) };
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
