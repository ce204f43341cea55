//! Aggregates that collect what they are given: texts that are put together, lists. Operators account for their states after
//! each batch, which can be too late: one batch can hold gigabytes of text, and a result is a copy of the state. So these
//! aggregates claim memory before they take a heavy batch, and before they give a result.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion::scalar::ScalarValue;

use crate::context::{self, Claimed, claim_rows};
use crate::growth::weight;

/// Aggregates of DataFusion that collect.
const COLLECTING: [&str; 2] = ["array_agg", "string_agg"];

/// Puts aggregates that claim in the place of those that collect.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for name in COLLECTING {
        if let Some(inner) = state.aggregate_functions().get(name).cloned() {
            state.register_udaf(Arc::new(AggregateUDF::from(Claiming(inner))))?;
        }
    }
    Ok(())
}

/// An aggregate that claims what it collects.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Claiming(Arc<AggregateUDF>);

impl AggregateUDFImpl for Claiming {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.0.inner().schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.0.inner().human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.0.inner().window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.0.inner().display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.0.inner().window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.inner().return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.0.inner().return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.0.inner().is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let name = self.name().to_owned();
        Ok(Box::new(OfAll { name, inner: self.0.inner().accumulator(args)? }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.inner().state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.0.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let name = self.name().to_owned();
        Ok(Box::new(OfGroups { name, inner: self.0.inner().create_groups_accumulator(args)? }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let name = self.name().to_owned();
        Ok(Box::new(OfAll { name, inner: self.0.inner().create_sliding_accumulator(args)? }))
    }

    fn with_beneficial_ordering(self: Arc<Self>, is_ordered: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered = self.0.as_ref().clone().with_beneficial_ordering(is_ordered)?;
        Ok(ordered.map(|ordered| Arc::new(Claiming(Arc::new(ordered))) as _))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.inner().order_sensitivity()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.0.inner().simplify()
    }

    fn simplify_expr_op_literal(
        &self,
        call: &AggregateFunction,
        argument: &Expr,
        op: Operator,
        literal: &Expr,
        is_left: bool,
    ) -> Result<Option<Expr>> {
        self.0.inner().simplify_expr_op_literal(call, argument, op, literal, is_left)
    }

    fn is_descending(&self) -> Option<bool> {
        self.0.inner().is_descending()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs) -> Option<ScalarValue> {
        self.0.inner().value_from_stats(statistics)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.0.inner().set_monotonicity(data_type)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.0.inner().reverse_expr() {
            ReversedUDAF::Reversed(reversed) => {
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(Claiming(reversed))))
            }
            other => other,
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.inner().coerce_types(types)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.0.inner().default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.0.inner().supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.0.inner().supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.inner().documentation()
    }
}

/// The aggregate that copies the texts it is given, with a separator, which is one of its arguments. Lists refer to the arrays
/// that they are given.
const STRING_AGG: &str = "string_agg";

/// Claims what an aggregate copies of what it is given.
fn taken(name: &str, values: &[ArrayRef]) -> Result<Option<Claimed>> {
    context::check()?;
    if name != STRING_AGG {
        return Ok(None);
    }
    claim_rows(name, values.iter().map(|column| weight(column)).fold(0, u64::saturating_add).saturating_mul(2))
}

#[derive(Debug)]
struct OfAll {
    name: String,
    inner: Box<dyn Accumulator>,
}

impl Accumulator for OfAll {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let _claimed = taken(&self.name, values)?;
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let _claimed = claim_rows(&self.name, self.inner.size() as u64)?;
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let _claimed = claim_rows(&self.name, self.inner.size() as u64)?;
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let _claimed = taken(&self.name, states)?;
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

struct OfGroups {
    name: String,
    inner: Box<dyn GroupsAccumulator>,
}

impl GroupsAccumulator for OfGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let _claimed = taken(&self.name, values)?;
        self.inner.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let _claimed = claim_rows(&self.name, self.inner.size() as u64)?;
        self.inner.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        let _claimed = taken(&self.name, states)?;
        self.inner.merge_batch(states, groups, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let _claimed = taken(&self.name, values)?;
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
