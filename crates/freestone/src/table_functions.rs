//! Functions in FROM.
//!
//! A call with constants is a scan, whose name contains the values of its arguments: DataFusion compares scans by name,
//! so that two subqueries over `range(3)` and `range(8)` would otherwise be the same and be evaluated once.
//!
//! `generate_series` and `range` of other values, and `unnest`, are lists that become rows: `generate_series(1, t.n)`
//! reads a column of a table to its left, as a LATERAL subquery does. WITH ORDINALITY numbers the rows.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue, TableReference, UnnestOptions};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, ObjectName, TableAlias, TableFactor};

use crate::error::{Error, ErrorKind};
use crate::exact;
use crate::sql::laterals::SERIES;
use crate::sql::names::folded;
use crate::times;
use crate::type_names::type_name;

/// The column of WITH ORDINALITY.
const ORDINALITY: &str = "ordinality";
const UNNEST: &str = "unnest";

/// Plans functions in FROM.
#[derive(Debug)]
pub(crate) struct TableFunctions;

/// A call in FROM.
struct Call {
    name: String,
    args: Vec<FunctionArg>,
    has_ordinality: bool,
    alias: Option<TableAlias>,
}

impl Call {
    /// The call, or the relation if it is none.
    fn of(relation: TableFactor) -> std::result::Result<Call, Box<TableFactor>> {
        let unnamed = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
        match relation {
            TableFactor::Table { name, args: Some(args), with_ordinality, alias, .. } => {
                Ok(Call { name: last(&name), args: args.args, has_ordinality: with_ordinality, alias })
            }
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                Ok(Call { name: last(&name), args, has_ordinality: with_ordinality, alias })
            }
            TableFactor::UNNEST { array_exprs, with_ordinality, alias, .. } => {
                let args = array_exprs.into_iter().map(unnamed).collect();
                Ok(Call { name: UNNEST.to_owned(), args, has_ordinality: with_ordinality, alias })
            }
            other => Err(Box::new(other)),
        }
    }

    /// The arguments as expressions over the tables to the left and around.
    fn arguments(&mut self, context: &mut dyn RelationPlannerContext) -> Result<Vec<Expr>> {
        let schema = DFSchema::empty();
        let is_of_values = self.is_of_values();
        let argument = |argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_of_values => context.sql_to_expr(expr, &schema),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => context.sql_expr_to_logical_expr(expr, &schema),
            other => Err(Error::invalid(format!("{} takes no argument {other}", self.name)).into()),
        };
        std::mem::take(&mut self.args).into_iter().map(argument).collect()
    }

    /// Whether its rows are those of lists of values.
    fn is_of_values(&self) -> bool {
        self.name == UNNEST || SERIES.contains(&self.name.as_str())
    }
}

fn last(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default()
}

impl RelationPlanner for TableFunctions {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let mut call = match Call::of(relation) {
            Ok(call) => call,
            Err(relation) => return Ok(RelationPlanning::Original(relation)),
        };
        let options = Arc::new(context.context_provider().options().clone());
        let arguments = call.arguments(context)?.into_iter().map(|argument| evaluated(argument, &options, None));
        let arguments = arguments.collect::<Result<Vec<Expr>>>()?;
        let is_constant = arguments.iter().all(|argument| matches!(argument, Expr::Literal(..)));
        let plan = match call.is_of_values() && (call.name == UNNEST || !is_constant) {
            true => of_lists(&call, arguments, context)?,
            false => scan(&call, arguments, context)?,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, call.alias))))
    }
}

/// The value of an argument that reads no column, and the argument otherwise. `now`: the time of the statement, where its result is
/// not kept.
pub(crate) fn evaluated(argument: Expr, options: &Arc<ConfigOptions>, now: Option<DateTime<Utc>>) -> Result<Expr> {
    let reads = |e: &Expr| {
        use Expr::{Column, Exists, InSubquery, OuterReferenceColumn, Placeholder, ScalarSubquery, SetComparison};
        let is_open = matches!(
            e,
            Column(_)
                | OuterReferenceColumn(..)
                | Placeholder(_)
                | ScalarSubquery(_)
                | Exists(_)
                | InSubquery(_)
                | SetComparison(_)
        );
        Ok(is_open)
    };
    if matches!(argument, Expr::Literal(..)) || argument.is_volatile() || argument.exists(reads)? {
        return Ok(argument);
    }
    let schema = Arc::new(DFSchema::empty());
    let context = SimplifyContext::builder().with_schema(schema.clone()).with_config_options(options.clone());
    let simplifier = ExprSimplifier::new(context.with_query_execution_start_time(now).build());
    let coerced = simplifier.coerce(argument, &schema)?;
    simplifier.simplify(exact::exact(times::with_own_casts(coerced, &schema)?, &schema)?)
}

/// A scan of the table that a function returns for constants.
fn scan(call: &Call, arguments: Vec<Expr>, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let texts: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let name = format!("{}({})", call.name, texts.join(", "));
    let source = context.context_provider().get_table_function_source(&call.name, arguments)?;
    let scan = LogicalPlanBuilder::scan(TableReference::bare(name), source, None)?;
    let scan = match call.has_ordinality {
        true => {
            let columns: Vec<Expr> = scan.schema().columns().into_iter().map(Expr::Column).collect();
            let number = row_number().alias(ORDINALITY);
            let numbered = scan.window(vec![number])?;
            let number = datafusion::common::Column::new_unqualified(ORDINALITY);
            let number = Expr::Column(number).cast_to(&DataType::Int64, numbered.schema())?.alias(ORDINALITY);
            numbered.project(columns.into_iter().chain([number]))?
        }
        false => scan,
    };
    scan.alias(TableReference::bare(call.name.as_str()))?.build()
}

/// The rows of lists, which are beside each other.
fn of_lists(call: &Call, arguments: Vec<Expr>, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let lists = match call.name.as_str() {
        UNNEST => arguments,
        series => vec![function(series, arguments, context)?],
    };
    if lists.is_empty() {
        return Err(Error::invalid("unnest takes a list").into());
    }
    let lists = lists.into_iter().map(with_rows).collect::<Result<Vec<Expr>>>()?;
    let name = |at: usize| if at == 0 { call.name.clone() } else { format!("{}_{at}", call.name) };
    let mut names: Vec<String> = (0..lists.len()).map(name).collect();
    let named = lists.into_iter().zip(&names).map(|(list, name)| list.alias(name));
    let mut plan = LogicalPlanBuilder::empty(true).project(named)?;
    if call.has_ordinality {
        let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let lengths = columns.iter().map(|list| function("len", vec![list.clone()], context));
        let mut lengths = lengths.collect::<Result<Vec<Expr>>>()?;
        let length = match lengths.len() {
            1 => lengths.remove(0),
            _ => function("greatest", lengths, context)?,
        };
        let numbers = function("generate_series", vec![lit(1i64), length], context)?.alias(ORDINALITY);
        plan = plan.project(columns.into_iter().chain([numbers]))?;
        names.push(ORDINALITY.to_owned());
    }
    let columns = names.iter().map(datafusion::common::Column::new_unqualified).collect();
    let options = UnnestOptions::new().with_preserve_nulls(false);
    plan.unnest_columns_with_options(columns, options)?.build()
}

/// A call of one of the session's functions.
fn function(name: &str, args: Vec<Expr>, context: &mut dyn RelationPlannerContext) -> Result<Expr> {
    match context.context_provider().get_function_meta(name) {
        Some(function) => Ok(function.call(args)),
        None => Err(Error::new(ErrorKind::Internal, format!("internal error: no function {name}")).into()),
    }
}

/// What unnest makes rows of: a list, or a struct, whose fields are columns.
fn with_rows(argument: Expr) -> Result<Expr> {
    match argument.get_type(&DFSchema::empty())? {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Struct(_) => Ok(argument),
        DataType::Null => Ok(lit(ScalarValue::new_null_list(DataType::Int64, true, 1))),
        other => {
            let error =
                Error::new(ErrorKind::Type, format!("unnest takes a list, and was given {}", type_name(&other)));
            Err(error.with_hint("write a list as [1, 2] or ARRAY[1, 2]").into())
        }
    }
}
