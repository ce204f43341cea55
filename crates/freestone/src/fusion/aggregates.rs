//! Aggregates: which the executor computes itself, and DataFusion's as accumulators of it.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, UInt64Array, new_empty_array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use freestone_exec::accumulators::{
    Accumulator, Count, Extreme, ExtremeText, Finish, FloatSum, MakeAccumulator, RowCount, Sum, SumResult,
};
use freestone_exec::aggregate::Call;
use freestone_exec::bitwise::{BitOperation, Bitwise};
use freestone_exec::choices::{Choice, Chosen};
use freestone_exec::convert::{form_of, from_arrow, to_arrow};
use freestone_exec::direct::KeyDomain;
use freestone_exec::error::{ExecError, Result as ExecResult};
use freestone_exec::frequencies::{FinishFrequency, Frequencies, Frequency};
use freestone_exec::moments::Moments;
use freestone_exec::quantiles::{Quantile, quantiles};
use freestone_exec::vector::{Form, Values, Vector};

use crate::aggregates::{Selection, of_frequency};
use crate::text_types::enum_extremes;

use super::compiler::field;
use super::expressions::Known;
use super::foreign::external;

type Function = Arc<AggregateFunctionExpr>;

/// Whether the order of rows does not matter to a function.
pub(crate) fn is_known(function: &Function) -> bool {
    function.order_bys().is_empty()
        && !matches!(function.order_sensitivity(), AggregateOrderSensitivity::HardRequirement)
        && !ORDERED.contains(&function.fun().name())
}

/// The same for functions of which the executor knows what an order means.
pub(super) fn is_fusable(function: &Function) -> bool {
    is_known(function) || Selection::of(function).is_some() || by_place(function).is_some()
}

/// Which row's value is wanted, if its place among the others says so.
pub(super) fn by_place(function: &AggregateFunctionExpr) -> Option<Chosen> {
    let is_plain = function.order_bys().is_empty() && !function.is_distinct() && !function.ignore_nulls();
    match function.fun().name() {
        "first_value" if is_plain => Some(Chosen::First),
        "last_value" if is_plain => Some(Chosen::Last),
        _ => None,
    }
}

/// Whether a node aggregates with a function that [`collects`].
pub(super) fn has_collecting(node: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|aggregate| aggregate.aggr_expr().iter().any(|function| collects(function)))
}

/// Whether DataFusion's accumulators collect values of a function, of which the executor keeps less: quantiles, frequencies, and
/// values of extreme rows.
fn collects(function: &AggregateFunctionExpr) -> bool {
    let is_extreme = || matches!(function.fun().name(), "arg_min" | "arg_max") && function.expressions().len() == 2;
    Selection::of(function).is_some() || of_frequency(function).is_some() || is_extreme()
}

/// Functions whose results have the order of their rows.
const ORDERED: [&str; 11] = [
    "array_agg",
    "list",
    "string_agg",
    "group_concat",
    "listagg",
    "first",
    "last",
    "first_value",
    "last_value",
    "nth_value",
    "arbitrary",
];

/// The arguments that must be computed for a function: none for `count(*)`, and no constant fractions.
pub(super) fn arguments(function: &AggregateFunctionExpr) -> Vec<Arc<dyn PhysicalExpr>> {
    let mut arguments = function.expressions();
    if Selection::of(function).is_some() {
        arguments.truncate(1);
        return arguments;
    }
    let is_constant = |e: &Arc<dyn PhysicalExpr>| e.downcast_ref::<Literal>().is_some_and(|l| !l.value().is_null());
    if function.fun().name() == "count" && !function.is_distinct() && arguments.iter().all(is_constant) {
        return vec![];
    }
    arguments
}

/// The calls of an aggregation. Several aggregates may take their results from one call.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<Building>,
    /// Per aggregate: its call, and which of the call's results.
    results: Vec<(usize, usize)>,
    /// Whether DataFusion computes some.
    pub has_foreign: bool,
    /// Whether some would collect all values elsewhere.
    pub has_collecting: bool,
}

struct Building {
    inputs: Vec<usize>,
    filter: Option<usize>,
    kind: Shared,
    results: usize,
    is_ordered: bool,
}

/// How a call computes its results.
enum Shared {
    Sums { magnitude: Option<u64>, nullable: bool, results: Vec<SumResult> },
    Quantiles { form: Form, wanted: Vec<Quantile> },
    Other(MakeAccumulator),
}

impl Calls {
    /// Adds an aggregate with its arguments in these columns. `false` if it is not known with its filter: DataFusion's
    /// accumulators take every group that they are told of for one that has rows.
    pub fn add(
        &mut self,
        function: &Function,
        inputs: Vec<usize>,
        known: &[Known],
        filter: Option<usize>,
    ) -> Result<bool> {
        self.has_collecting |= collects(function);
        if let Some(result) = sum(function, known)? {
            // A filter leaves groups without values.
            let (magnitude, nullable) = (magnitude(&known[0]), filter.is_some() || known[0].nullable);
            let is_same = |kind: &Shared| matches!(kind, Shared::Sums { .. });
            let none = || Shared::Sums { magnitude, nullable, results: vec![] };
            if let Shared::Sums { results, .. } = self.shared(inputs, filter, is_same, none) {
                results.push(result);
            }
            return Ok(true);
        }
        if let Some(quantile) = quantile(function, known) {
            let is_same = |kind: &Shared| matches!(kind, Shared::Quantiles { .. });
            let none = || Shared::Quantiles { form: known[0].form, wanted: vec![] };
            if let Shared::Quantiles { wanted, .. } = self.shared(inputs, filter, is_same, none) {
                wanted.push(quantile);
            }
            return Ok(true);
        }
        let make = match Native::of(function, known) {
            Some(native) => native.accumulators(known.first(), filter.is_some()),
            None if filter.is_some() || !is_known(function) => return Ok(false),
            None => {
                self.has_foreign = true;
                foreign(function, known)
            }
        };
        self.results.push((self.calls.len(), 0));
        let is_ordered = by_place(function).is_some();
        self.calls.push(Building { inputs, filter, kind: Shared::Other(make), results: 1, is_ordered });
        Ok(true)
    }

    /// The call of this kind with the same inputs, or a new one, to which a result is added.
    fn shared(
        &mut self,
        inputs: Vec<usize>,
        filter: Option<usize>,
        is_same: impl Fn(&Shared) -> bool,
        new: impl FnOnce() -> Shared,
    ) -> &mut Shared {
        let same = |call: &Building| is_same(&call.kind) && call.inputs == inputs && call.filter == filter;
        let at = self.calls.iter().position(same).unwrap_or_else(|| {
            self.calls.push(Building { inputs, filter, kind: new(), results: 0, is_ordered: false });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        self.results.push((at, call.results));
        call.results += 1;
        &mut call.kind
    }

    /// The calls, and the place of each aggregate among their results.
    pub fn finish(self) -> (Vec<Call>, Vec<usize>) {
        let firsts = self.calls.iter().scan(0, |before, call| {
            let first = *before;
            *before += call.results;
            Some(first)
        });
        let firsts: Vec<usize> = firsts.collect();
        let places = self.results.iter().map(|(call, result)| firsts[*call] + result).collect();
        let call = |call: Building| {
            let accumulator: MakeAccumulator = match call.kind {
                Shared::Other(make) => make,
                Shared::Sums { magnitude, nullable, results } => {
                    Arc::new(move || Ok(Box::new(Sum::new(magnitude, nullable, results.clone()))))
                }
                Shared::Quantiles { form, wanted } => Arc::new(move || Ok(quantiles(form, wanted.clone()))),
            };
            Call { inputs: call.inputs, filter: call.filter, accumulator, is_ordered: call.is_ordered }
        };
        (self.calls.into_iter().map(call).collect(), places)
    }
}

/// What an exact sum is for, if the function is one or an average.
pub(super) fn sum(function: &AggregateFunctionExpr, known: &[Known]) -> Result<Option<SumResult>> {
    let [argument] = known else { return Ok(None) };
    let is_plain = !function.is_distinct() && !function.ignore_nulls();
    let is_sum = matches!(function.fun().name(), "sum" | "avg") && is_plain && is_summed(argument);
    if !is_sum || !(argument.form == Form::Int || is_safely_wide(argument)) {
        return Ok(None);
    }
    let counts = function.fun().name() == "avg";
    Ok(Some(SumResult { counts, finish: finish(function, counts)? }))
}

/// Which values are selected, if the function is a quantile.
fn quantile(function: &AggregateFunctionExpr, known: &[Known]) -> Option<Quantile> {
    let selection = Selection::of(function)?;
    let value = known.first()?.data_type.clone();
    let (places, descending) = (selection.places.clone(), selection.descending);
    let finish = move |found: &[Vector], _: usize| {
        let (lows, highs) = (to_arrow(&found[0], &value)?, to_arrow(&found[1], &value)?);
        let results = selection.results(&lows, &highs, found[2].as_floats());
        Ok(from_arrow(&results.map_err(ExecError::foreign)?))
    };
    Some(Quantile { places, descending, finish: Arc::new(finish) })
}

/// A function that the executor computes itself, if it is no exact sum and no quantile.
pub(super) enum Native {
    Count,
    FloatSum { averages: bool },
    Extreme { greatest: bool, floats: bool },
    ExtremeText { greatest: bool },
    Moments(Finish),
    Bitwise(BitOperation),
    Choice(Chosen),
    Frequencies(FinishFrequency),
}

impl Native {
    /// What a function is; `None` if only DataFusion knows it.
    pub fn of(function: &AggregateFunctionExpr, known: &[Known]) -> Option<Native> {
        let is_of_enum = function.fun().inner().is::<enum_extremes::Extreme>();
        if function.is_distinct() || function.ignore_nulls() || is_of_enum {
            return None;
        }
        if let Some(chosen) = chosen(function, known) {
            return Some(Native::Choice(chosen));
        }
        if known.len() > 1 {
            return None;
        }
        let name = function.fun().name();
        let result = function.field().data_type().clone();
        let argument = known.first();
        let is_own_type = argument.map(|known| &known.data_type) == Some(&result);
        match (name, argument.map(|known| known.form)) {
            ("count", _) if result == DataType::Int64 => Some(Native::Count),
            ("sum" | "avg", Some(Form::Float)) if result == DataType::Float64 => {
                Some(Native::FloatSum { averages: name == "avg" })
            }
            ("min" | "max", Some(form @ (Form::Int | Form::Float))) if is_own_type => {
                Some(Native::Extreme { greatest: name == "max", floats: form == Form::Float })
            }
            ("min" | "max", Some(Form::Text)) if is_own_type => Some(Native::ExtremeText { greatest: name == "max" }),
            // Integers of 64 bits without a sign are stored as others.
            ("bit_and" | "bit_or" | "bit_xor", Some(Form::Int)) if is_own_type && result != DataType::UInt64 => {
                bit_operation(name).map(Native::Bitwise)
            }
            ("bool_and" | "bool_or" | "min" | "max", Some(Form::Bits)) if is_own_type => {
                bit_operation(name).map(Native::Bitwise)
            }
            ("var" | "var_pop" | "stddev" | "stddev_pop", Some(Form::Float)) if result == DataType::Float64 => {
                finish(function, true).ok().map(Native::Moments)
            }
            (_, Some(form)) if form != Form::Arrow => frequency(function, argument?).map(Native::Frequencies),
            _ => None,
        }
    }

    /// Makes its states. `argument`: what is known of it; `is_filtered`: not all rows count.
    fn accumulators(self, argument: Option<&Known>, is_filtered: bool) -> MakeAccumulator {
        let nullable = is_filtered || argument.is_some_and(|known| known.nullable);
        match self {
            Native::Count if nullable => Arc::new(|| Ok(Box::<Count>::default())),
            Native::Count => Arc::new(|| Ok(Box::new(RowCount))),
            Native::FloatSum { averages } => Arc::new(move || Ok(Box::new(FloatSum::new(averages, nullable)))),
            Native::Extreme { greatest, floats } => Arc::new(move || Ok(Box::new(Extreme::new(greatest, floats)))),
            Native::ExtremeText { greatest } => Arc::new(move || Ok(Box::new(ExtremeText::new(greatest)))),
            Native::Moments(finish) => Arc::new(move || Ok(Box::new(Moments::new(finish.clone())))),
            Native::Bitwise(operation) => {
                let are_booleans = argument.is_some_and(|argument| argument.form == Form::Bits);
                Arc::new(move || Ok(Box::new(Bitwise::new(operation, are_booleans))))
            }
            Native::Choice(chosen) => {
                let field = field(argument.expect("a value"), false);
                Arc::new(move || Ok(Box::new(Choice::new(chosen, field.clone()))))
            }
            Native::Frequencies(finish) => {
                let argument = argument.expect("a value");
                // Zeros of two signs are two values, until results are made.
                let value = KeyDomain { field: field(argument, false), bounds: argument.int_bounds() };
                Arc::new(move || Ok(Box::new(Frequencies::new(value.clone(), finish.clone()))))
            }
        }
    }
}

fn bit_operation(function: &str) -> Option<BitOperation> {
    match function {
        "bit_and" | "bool_and" | "min" => Some(BitOperation::And),
        "bit_or" | "bool_or" | "max" => Some(BitOperation::Or),
        "bit_xor" => Some(BitOperation::Xor),
        _ => None,
    }
}

/// Which row's value is wanted, if the executor chooses it.
fn chosen(function: &AggregateFunctionExpr, known: &[Known]) -> Option<Chosen> {
    let value = known.first().filter(|value| value.data_type == *function.field().data_type())?;
    match (function.fun().name(), known) {
        ("any_value", [_]) => Some(Chosen::Any),
        // Arrays that hold values that were replaced would stay.
        _ if value.form == Form::Arrow => None,
        ("arg_min", [_, by]) if Choice::compares(by.form) => Some(Chosen::Least),
        ("arg_max", [_, by]) if Choice::compares(by.form) => Some(Chosen::Greatest),
        (_, [_]) => by_place(function),
        _ => None,
    }
}

/// Results from the frequencies of values, if the function needs no more.
fn frequency(function: &AggregateFunctionExpr, value: &Known) -> Option<FinishFrequency> {
    let (results, value) = (of_frequency(function)?, value.data_type.clone());
    let finish = move |of: &Frequency| {
        let values = to_arrow(&of.values, &value)?;
        Ok(from_arrow(&results(&values, of).map_err(ExecError::foreign)?))
    };
    Some(Arc::new(finish))
}

/// Whether 2^63 values of 128 bits have a sum of 128 bits.
fn is_safely_wide(known: &Known) -> bool {
    let fits = |value: i128| value.unsigned_abs() < 1 << 63;
    known.form == Form::Wide && known.bounds.is_some_and(|(low, high)| fits(low) && fits(high))
}

fn magnitude(known: &Known) -> Option<u64> {
    let (low, high) = known.bounds?;
    u64::try_from(low.unsigned_abs().max(high.unsigned_abs())).ok()
}

/// Whether sums of a type are exact sums of its integers.
fn is_summed(known: &Known) -> bool {
    match &known.data_type {
        DataType::UInt64 => false,
        DataType::Decimal128(..) => true,
        other => other.is_integer(),
    }
}

/// Results from states, as the function computes them. `counts`: whether the first state is the number of values.
fn finish(function: &AggregateFunctionExpr, counts: bool) -> Result<Finish> {
    let fields = function.state_fields()?;
    let result = function.field().data_type().clone();
    let function = function.clone();
    let finish = move |states: &[Vector], groups: usize| {
        if !counts && let Some(sums) = direct(&states[0], &result) {
            return Ok(sums);
        }
        let computed = || -> Result<ArrayRef> {
            let mut arrays: Vec<ArrayRef> = vec![];
            let mut states = states.iter();
            for field in &fields {
                arrays.push(match (field.data_type(), states.next()) {
                    (DataType::UInt64, Some(numbers)) if counts => {
                        Arc::new(UInt64Array::from_iter_values(numbers.as_ints().iter().map(|number| *number as u64)))
                    }
                    (DataType::Int64, None) => Arc::new(Int64Array::from(vec![0; groups])),
                    (data_type, Some(sums)) => to_arrow(sums, data_type).map_err(external)?,
                    (data_type, None) => return internal_err!("a state of type {data_type}"),
                });
            }
            let mut accumulator = function.create_groups_accumulator()?;
            accumulator.merge_batch(&arrays, &(0..groups).collect::<Vec<_>>(), groups)?;
            accumulator.evaluate(EmitTo::All)
        };
        Ok(from_arrow(&computed().map_err(ExecError::foreign)?))
    };
    Ok(Arc::new(finish))
}

/// The sums themselves, if all fit their type.
fn direct(sums: &Vector, result: &DataType) -> Option<Vector> {
    let (low, high) = match result {
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::Decimal128(precision, _) => {
            let most = 10i128.checked_pow(u32::from(*precision))? - 1;
            (-most, most)
        }
        _ => return None,
    };
    let values = sums.as_wide();
    if !values.iter().all(|sum| (low..=high).contains(sum)) {
        return None;
    }
    match form_of(result) {
        Form::Wide => Some(sums.clone()),
        _ => {
            let narrow: Vec<i64> = values.iter().map(|sum| *sum as i64).collect();
            Some(Vector::with_nulls(Values::Int(narrow.into()), sums.valid.clone()))
        }
    }
}

fn foreign(function: &Function, known: &[Known]) -> MakeAccumulator {
    let function = function.clone();
    let types: Vec<DataType> = known.iter().map(|known| known.data_type.clone()).collect();
    Arc::new(move || {
        let inner = groups_accumulator(&function).map_err(ExecError::foreign)?;
        Ok(Box::new(ForeignAccumulator { function: function.clone(), inner, is_empty: true, types: types.clone() }))
    })
}

fn groups_accumulator(function: &Function) -> Result<Box<dyn GroupsAccumulator>> {
    if function.groups_accumulator_supported() {
        return function.create_groups_accumulator();
    }
    let function = function.clone();
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || function.create_accumulator())))
}

/// An accumulator of DataFusion.
struct ForeignAccumulator {
    function: Function,
    inner: Box<dyn GroupsAccumulator>,
    /// Whether it has seen no rows.
    is_empty: bool,
    types: Vec<DataType>,
}

fn indices(groups: &[u32]) -> Vec<usize> {
    groups.iter().map(|group| *group as usize).collect()
}

impl Accumulator for ForeignAccumulator {
    fn update(&mut self, inputs: &[Vector], groups: &[u32], total: usize) -> ExecResult<()> {
        let arrays = inputs.iter().zip(&self.types).map(|(input, data_type)| to_arrow(input, data_type));
        let arrays = arrays.collect::<ExecResult<Vec<_>>>()?;
        self.is_empty = false;
        self.inner.update_batch(&arrays, &indices(groups), None, total).map_err(ExecError::foreign)
    }

    fn states(&mut self, _: usize) -> ExecResult<Vec<Vector>> {
        let states = self.inner.state(EmitTo::All).map_err(ExecError::foreign)?;
        Ok(states.into_iter().map(|state| Vector::new(Values::Arrow(state))).collect())
    }

    fn merge(&mut self, states: &[Vector], groups: &[u32], total: usize) -> ExecResult<()> {
        let arrays: Vec<ArrayRef> = states
            .iter()
            .map(|state| match &state.values {
                Values::Arrow(array) => array.clone(),
                other => unreachable!("states are arrays, not {other:?}"),
            })
            .collect();
        self.is_empty = false;
        self.inner.merge_batch(&arrays, &indices(groups), total).map_err(ExecError::foreign)
    }

    fn results(&mut self, rows: &[i64]) -> ExecResult<Vec<Vector>> {
        if rows.is_empty() {
            // Some accumulators have no values of no groups.
            return Ok(vec![from_arrow(&new_empty_array(self.function.field().data_type()))]);
        }
        if self.is_empty {
            // The group of no rows: there is one, and no row has begun it.
            let none = self.function.create_accumulator().and_then(|mut none| none.evaluate());
            let array = none.and_then(|value| value.to_array_of_size(rows.len()));
            return Ok(vec![from_arrow(&array.map_err(ExecError::foreign)?)]);
        }
        Ok(vec![from_arrow(&self.inner.evaluate(EmitTo::All).map_err(ExecError::foreign)?)])
    }

    fn bytes(&self) -> usize {
        self.inner.size()
    }
}
