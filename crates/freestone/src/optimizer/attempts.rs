//! `TRY(expression)`: the expression's value, or NULL for rows for which it is an error.
//!
//! The arguments of a function are computed before it is called, so the call becomes one of a function that has the
//! expression within itself and takes only the columns in it.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use crate::error::{Error, ErrorKind};
use crate::expressions;

/// The function as it is written, which this rule replaces.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Try { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Try {
    signature: Signature,
}

impl ScalarUDFImpl for Try {
    fn name(&self) -> &str {
        "try"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    /// Nothing in it is computed elsewhere.
    fn short_circuits(&self) -> bool {
        true
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let data_type = args.arg_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        Ok(Arc::new(Field::new("try", data_type, true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("TRY is not available here")
    }
}

#[derive(Debug)]
pub(crate) struct Attempts;

impl AnalyzerRule for Attempts {
    fn name(&self) -> &str {
        "attempts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let (mut found, mut wrong) = (false, None);
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expression| {
                expression.apply(|part| {
                    if let Some(inner) = attempted(part) {
                        found = true;
                        wrong = wrong.take().or_else(|| not_of_row(inner));
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        match (found, wrong) {
            (_, Some(what)) => Err(Error::unsupported(format!("TRY of {what} is not available")).into()),
            (false, None) => Ok(plan),
            (true, None) => Ok(plan.transform_up_with_subqueries(|node| expressions::changed(node, replaced))?.data),
        }
    }
}

/// The expression in a call of TRY.
fn attempted(expression: &Expr) -> Option<&Expr> {
    match expression {
        Expr::ScalarFunction(call) if call.func.inner().is::<Try>() => call.args.first(),
        _ => None,
    }
}

/// What an expression has that is not computed from its row alone.
fn not_of_row(expression: &Expr) -> Option<&'static str> {
    let mut found = None;
    let _ = expression.apply(|part| {
        found = match part {
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
                Some("a subquery")
            }
            Expr::AggregateFunction(_) => Some("an aggregate"),
            Expr::WindowFunction(_) => Some("a window function"),
            Expr::OuterReferenceColumn(..) => Some("a column of an outer query"),
            Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => {
                Some("a function that has another value each time")
            }
            _ => None,
        };
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

fn replaced(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match attempted(&expression).and_then(|inner| attempt(inner, schema).ok()) {
        Some(call) => Transformed::yes(call),
        None => Transformed::no(expression),
    }
}

/// The call of a function that has the expression within itself.
fn attempt(inner: &Expr, schema: &DFSchema) -> Result<Expr> {
    let mut columns: Vec<Column> = inner.column_refs().into_iter().cloned().collect();
    columns.sort();
    let own = |at: usize| Column::new_unqualified(format!("c{at}"));
    let mut fields = Vec::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        fields.push(Field::new(own(at).name, Expr::Column(column.clone()).get_type(schema)?, true));
    }
    let data_type = inner.get_type(schema)?;
    let expression = inner.clone().transform(|part| match &part {
        Expr::Column(column) => match columns.iter().position(|known| known == column) {
            Some(at) => Ok(Transformed::yes(Expr::Column(own(at)))),
            None => Ok(Transformed::no(part)),
        },
        _ => Ok(Transformed::no(part)),
    })?;
    let attempt = Attempt {
        expression: expression.data,
        schema: Arc::new(DFSchema::try_from(Schema::new(fields))?),
        data_type,
        physical: OnceLock::new(),
        signature: match columns.len() {
            0 => Signature::nullary(Volatility::Immutable),
            count => Signature::any(count, Volatility::Immutable),
        },
    };
    Ok(ScalarUDF::new_from_impl(attempt).call(columns.into_iter().map(Expr::Column).collect()))
}

/// The function for one expression, whose arguments are its columns.
#[derive(Debug)]
struct Attempt {
    expression: Expr,
    schema: DFSchemaRef,
    data_type: DataType,
    physical: OnceLock<Arc<dyn PhysicalExpr>>,
    signature: Signature,
}

impl PartialEq for Attempt {
    fn eq(&self, other: &Attempt) -> bool {
        self.expression == other.expression && self.schema == other.schema
    }
}

impl Eq for Attempt {}

impl Hash for Attempt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expression.hash(state);
    }
}

impl Attempt {
    fn values(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let physical = match self.physical.get() {
            Some(physical) => physical,
            None => {
                let made = create_physical_expr(
                    &self.expression,
                    &self.schema,
                    &ExecutionProps::new(),
                    &PhysicalPlanningContext::default(),
                )?;
                self.physical.get_or_init(|| made)
            }
        };
        physical.evaluate(batch)?.into_array(batch.num_rows())
    }

    /// The values of rows: of all together, or of each alone if one of them is an error.
    fn attempted(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        match self.values(batch) {
            Err(error) if is_of_values(&error) && batch.num_rows() > 1 => {
                let half = batch.num_rows() / 2;
                let first = self.attempted(&batch.slice(0, half))?;
                let second = self.attempted(&batch.slice(half, batch.num_rows() - half))?;
                Ok(concat(&[first.as_ref() as &dyn Array, second.as_ref()])?)
            }
            Err(error) if is_of_values(&error) => Ok(new_null_array(&self.data_type, batch.num_rows())),
            values => values,
        }
    }
}

/// Whether an error is one of the values of a row.
fn is_of_values(error: &DataFusionError) -> bool {
    use ErrorKind::{Cancelled, Internal, Resource};
    let kind = Error::of(error).kind();
    !matches!(kind, Cancelled | Internal | Resource)
}

impl ScalarUDFImpl for Attempt {
    fn name(&self) -> &str {
        "try"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new("try", self.data_type.clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.inner().clone(), columns, &options)?;
        Ok(ColumnarValue::Array(self.attempted(&batch)?))
    }
}
