//! Aggregation inside the scan: COUNT, SUM, AVG, MIN and MAX of numbers directly above a native table, grouped by a few
//! keys or not at all. Zones that qualify as a whole are answered from their aggregates, if these suffice. From other
//! zones the scan passes stored integers and dictionary codes, which are aggregated in arrays by group, without Arrow
//! arrays in between.
//!
//! A rule replaces a partial aggregation, and the projections below it, by [`ScanAggregateExec`]. It returns the same
//! states, so the plan above remains unchanged.

mod exec;
mod expression;
mod groups;
mod states;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

pub use self::exec::ScanAggregateExec;
use self::expression::{Compiled, InputColumns, IntExpression};
use self::groups::Groups;
use self::states::state_bytes;
use super::FreestoneSource;

/// The number of groups for which an array is always worthwhile.
const GROUPS_MIN: usize = 1 << 12;
/// The maximum bytes of a partition's arrays if memory is plentiful, and their share of a memory limit.
const BYTES_MAX: usize = 64 << 20;
const LIMIT_SHARE: usize = 32;

/// The computed aggregates, over the columns of a scan by their positions in its projection.
#[derive(Debug)]
struct Aggregation {
    groups: Groups,
    /// The distinct arguments.
    values: Vec<Value>,
    functions: Vec<Function>,
}

/// An aggregate, with the position of its argument among the values.
#[derive(Debug)]
enum Function {
    CountRows,
    Count(usize),
    /// Whether the state has a column for the carry beyond 128 bits, which is always 0 here.
    Sum {
        value: usize,
        carries: bool,
    },
    Average {
        value: usize,
        carries: bool,
    },
    Min(usize),
    Max(usize),
}

/// An argument, and the state that is needed for it.
#[derive(Debug)]
struct Value {
    /// `None` if only the presence of a value counts.
    expression: Option<IntExpression>,
    /// The positions of the columns that must not be NULL.
    places: Vec<usize>,
    /// The column of the table, if the argument is a plain column: then the aggregates of zones can be used.
    column: Option<usize>,
    /// The maximum magnitude of the values.
    magnitude: u64,
    is_nullable: bool,
    sums: bool,
    extremes: bool,
}

/// The rule that moves aggregations into scans.
#[derive(Debug)]
pub struct AggregateInScan {
    /// The memory limit of the database, in bytes.
    pub memory_limit: Option<usize>,
}

impl PhysicalOptimizerRule for AggregateInScan {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match node.downcast_ref::<AggregateExec>() {
            Some(aggregate) => match self.replacement(aggregate)? {
                Some(replacement) => Ok(Transformed::yes(replacement)),
                None => Ok(Transformed::no(node)),
            },
            None => Ok(Transformed::no(node)),
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "AggregateInScan"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl AggregateInScan {
    fn replacement(&self, aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let is_plain = !aggregate.group_expr().has_grouping_set()
            && aggregate.limit_options().is_none()
            && aggregate.filter_expr().iter().all(Option::is_none);
        if !is_plain || !matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single) {
            return Ok(None);
        }
        let (scan, projections) = below(aggregate.input());
        let Some(source) = FreestoneSource::of(&scan).filter(|source| source.is_plain()) else { return Ok(None) };
        let inputs = InputColumns {
            table: source.table(),
            scanned: source.projection(),
            projections,
            schema: aggregate.input().schema(),
        };
        // One pass computes the states, whichever operator takes them.
        let partial = match aggregate.mode() {
            AggregateMode::Partial => None,
            _ => Some(AggregateExec::try_new(
                AggregateMode::Partial,
                aggregate.group_expr().clone(),
                aggregate.aggr_expr().to_vec(),
                aggregate.filter_expr().to_vec(),
                aggregate.input().clone(),
                aggregate.input_schema(),
            )?),
        };
        let replaced = partial.as_ref().unwrap_or(aggregate);
        let (schema, equal) = (replaced.schema(), replaced.properties().eq_properties.clone());
        let Some(aggregation) = self.aggregation(aggregate, &inputs, source, &schema) else { return Ok(None) };
        let states = Arc::new(ScanAggregateExec::new(Arc::new(aggregation), scan, equal));
        if partial.is_none() {
            return Ok(Some(states));
        }
        let whole = AggregateExec::try_new(
            AggregateMode::Final,
            aggregate.group_expr().as_final(),
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            states,
            aggregate.input_schema(),
        )?;
        Ok((whole.schema() == aggregate.schema()).then(|| Arc::new(whole) as Arc<dyn ExecutionPlan>))
    }

    fn aggregation(
        &self,
        aggregate: &AggregateExec,
        inputs: &InputColumns<'_>,
        source: &FreestoneSource,
        schema: &Schema,
    ) -> Option<Aggregation> {
        let keys: Option<Vec<(usize, usize)>> = aggregate
            .group_expr()
            .expr()
            .iter()
            .map(|(key, _)| inputs.place(key.as_ref(), 0).and_then(|place| Some((place, *inputs.scanned.get(place)?))))
            .collect();
        let groups = Groups::new(inputs.table, &keys?, source.estimated_rows().max(GROUPS_MIN))?;
        let mut aggregation = Aggregation { groups, values: vec![], functions: vec![] };
        let mut field = aggregate.group_expr().expr().len();
        for function in aggregate.aggr_expr() {
            let function = aggregation.function(function, inputs, schema, &mut field)?;
            aggregation.functions.push(function);
        }
        let most = self.memory_limit.map_or(BYTES_MAX, |limit| (limit / LIMIT_SHARE).min(BYTES_MAX));
        (aggregation.groups.is_one() || state_bytes(&aggregation) <= most).then_some(aggregation)
    }
}

impl Aggregation {
    /// Whether the aggregates of any zone suffice, regardless of the order of rows: all rows are one group, and values
    /// are plain columns. Sums that a zone does not know because they are too large, and zones with a single group, are
    /// detected by the scan.
    fn is_of_zones(&self) -> bool {
        self.groups.is_one() && self.values.iter().all(|value| value.column.is_some())
    }

    /// Adds the values that a function needs. `field` is the position of its first state in the schema, and is moved
    /// past its last.
    fn function(
        &mut self,
        function: &AggregateFunctionExpr,
        inputs: &InputColumns<'_>,
        schema: &Schema,
        field: &mut usize,
    ) -> Option<Function> {
        let arguments = function.expressions();
        let [argument] = arguments.as_slice() else { return None };
        if function.is_distinct() || function.ignore_nulls() || !function.order_bys().is_empty() {
            return None;
        }
        let first = schema.fields().get(*field)?.data_type().clone();
        let states = function.state_fields().ok()?.len();
        let second = schema.fields().get(*field + 1).filter(|_| states > 1).map(|field| field.data_type().clone());
        *field += states;
        if function.fun().name() == "count" {
            let is_value = argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null());
            return if is_value {
                Some(Function::CountRows)
            } else {
                self.presence(inputs.place(argument.as_ref(), 0)?, inputs)
            };
        }
        let is_sum = matches!(function.fun().name(), "sum" | "avg");
        // Sums of integers as floats are exact before they are rounded once.
        let as_float =
            argument.downcast_ref::<CastExpr>().filter(|cast| cast.target_field().data_type() == &DataType::Float64);
        let compiled = match as_float.filter(|_| is_sum) {
            Some(cast) => inputs.compile(cast.expr().as_ref(), 0).filter(|inner| inner.data_type.is_integer())?,
            None => inputs.compile(argument.as_ref(), 0)?,
        };
        match function.fun().name() {
            "sum" if is_sum_type(&first, &compiled, as_float.is_some()) => {
                Some(Function::Sum { value: self.value(compiled, inputs, true), carries: states > 1 })
            }
            "avg" if first == DataType::UInt64 && is_sum_type(&second?, &compiled, as_float.is_some()) => {
                Some(Function::Average { value: self.value(compiled, inputs, true), carries: states > 2 })
            }
            "min" if first == compiled.data_type => Some(Function::Min(self.value(compiled, inputs, false))),
            "max" if first == compiled.data_type => Some(Function::Max(self.value(compiled, inputs, false))),
            _ => None,
        }
    }

    /// COUNT of a column.
    fn presence(&mut self, place: usize, inputs: &InputColumns<'_>) -> Option<Function> {
        let column = *inputs.scanned.get(place)?;
        if !inputs.has_nulls(column) {
            return Some(Function::CountRows);
        }
        let known = self.values.iter().position(|v| v.places == [place] && v.column.is_some());
        Some(Function::Count(known.unwrap_or_else(|| {
            self.values.push(Value { is_nullable: true, ..Value::new(None, vec![place], Some(column), 0) });
            self.values.len() - 1
        })))
    }

    fn value(&mut self, compiled: Compiled, inputs: &InputColumns<'_>, sums: bool) -> usize {
        let magnitude = compiled.magnitude();
        let known = self.values.iter().position(|v| v.expression.as_ref() == Some(&compiled.expression));
        let at = known.unwrap_or_else(|| {
            let mut places = vec![];
            compiled.expression.places(&mut places);
            places.sort_unstable();
            places.dedup();
            let column = |place: usize| inputs.scanned[place];
            let is_nullable = places.iter().any(|place| inputs.has_nulls(column(*place)));
            let plain = match compiled.expression {
                IntExpression::Column(place) => Some(column(place)),
                _ => None,
            };
            self.values.push(Value { is_nullable, ..Value::new(Some(compiled.expression), places, plain, magnitude) });
            self.values.len() - 1
        });
        self.values[at].sums |= sums;
        self.values[at].extremes |= !sums;
        at
    }
}

/// Whether partial sums of a value have this type: the scale is the same, and no digits are lost.
fn is_sum_type(sum: &DataType, value: &Compiled, as_float: bool) -> bool {
    match (sum, &value.data_type) {
        (DataType::Float64, other) => as_float && other.is_integer(),
        (DataType::Decimal128(_, sum), DataType::Decimal128(_, scale)) => sum == scale,
        (DataType::Decimal128(_, 0), other) => other.is_integer(),
        _ => false,
    }
}

type Projections =
    Vec<(Vec<Arc<dyn datafusion::physical_expr::PhysicalExpr>>, datafusion::arrow::datatypes::SchemaRef)>;

/// The input of the projections, and their expressions with the schema of their input, outermost first. Round-robin
/// repartitioning is skipped.
fn below(input: &Arc<dyn ExecutionPlan>) -> (Arc<dyn ExecutionPlan>, Projections) {
    let (mut node, mut projections) = (input.clone(), vec![]);
    loop {
        node = if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let expressions = projection.expr().iter().map(|e| e.expr.clone()).collect();
            projections.push((expressions, projection.input().schema()));
            projection.input().clone()
        } else if let Some(exchange) = node.downcast_ref::<RepartitionExec>()
            && matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_))
        {
            exchange.input().clone()
        } else {
            return (node, projections);
        }
    }
}
