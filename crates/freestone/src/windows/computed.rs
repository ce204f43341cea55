//! Frames with bounds that each row computes: `sum(x) OVER (ORDER BY k ROWS BETWEEN before PRECEDING AND after FOLLOWING)`, which
//! DataFusion does not plan. The binder writes the bounds as a call in PARTITION BY. The analyzer takes it out ([`bounds_of`]),
//! before anything is partitioned, and gives the function the values of the bounds as its last arguments ([`with_bounds`]), so
//! that they are evaluated with the others.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, WindowFunctionDefinition, WindowUDF,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::scalar::ScalarValue;

use super::nth::Nth;

/// The function that stands for the bounds: for the start and the end the side, the offset and the value at the offset.
const FRAME_BOUNDS: &str = "freestone_frame_bounds";

/// The arguments of a bound: its offset, and the value at the offset.
pub(super) const OF_A_BOUND: usize = 2;

/// The side of the current row on which a computed bound is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Preceding,
    Following,
}

/// The bounds of a frame that are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    pub(super) start: Option<Direction>,
    pub(super) end: Option<Direction>,
}

impl Bounds {
    /// The number of arguments of a function that are bounds.
    pub fn arguments(self) -> usize {
        OF_A_BOUND * (usize::from(self.start.is_some()) + usize::from(self.end.is_some()))
    }
}

/// The function as the binder writes it.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(FrameBounds { signature: Signature::any(6, Volatility::Immutable) })
}

/// Takes the bounds of a call out of the PARTITION BY of its window, with their values.
pub(crate) fn bounds_of(partition_by: &mut Vec<Expr>) -> Option<(Bounds, Vec<Expr>)> {
    let place = partition_by.iter().position(|key| read(key).is_some())?;
    read(&partition_by.remove(place))
}

fn read(key: &Expr) -> Option<(Bounds, Vec<Expr>)> {
    let Expr::ScalarFunction(call) = key else { return None };
    if call.func.name() != FRAME_BOUNDS {
        return None;
    }
    let [start_side, start, start_value, end_side, end, end_value] = call.args.as_slice() else { return None };
    let mut values = vec![];
    let mut bound = |side: &Expr, of_bound: [&Expr; OF_A_BOUND]| {
        let Expr::Literal(side, _) = side else { return None };
        let direction = match side.try_as_str()?? {
            "preceding" => Direction::Preceding,
            "following" => Direction::Following,
            _ => return None,
        };
        values.extend(of_bound.into_iter().cloned());
        Some(direction)
    };
    let bounds = Bounds { start: bound(start_side, [start, start_value]), end: bound(end_side, [end, end_value]) };
    Some((bounds, values))
}

/// Gives a call its bounds as last arguments. Functions without frames need none.
///
/// # Errors
/// The function has frames, and they cannot be computed.
pub(crate) fn with_bounds(call: &mut WindowFunction, bounds: Bounds, values: Vec<Expr>) -> Result<()> {
    call.fun = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(plain) => {
            let bounded = Bounded { plain: plain.clone(), bounds, signature: any_arguments() };
            WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::from(bounded)))
        }
        WindowFunctionDefinition::WindowUDF(function) => {
            let inner: &dyn Any = function.inner().as_ref();
            match inner.downcast_ref::<Nth>() {
                Some(nth) => WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::from(nth.within(bounds)))),
                None => return Ok(()),
            }
        }
    };
    call.params.args.extend(values);
    Ok(())
}

/// A signature for arguments whose types are checked already.
pub(super) fn any_arguments() -> Signature {
    Signature::user_defined(Volatility::Immutable)
}

/// The computed bounds of an aggregate over a window.
pub(crate) fn bounds_of_aggregate(aggregate: &AggregateFunctionExpr) -> Option<Bounds> {
    let inner: &dyn Any = aggregate.fun().inner().as_ref();
    inner.downcast_ref::<Bounded>().map(|bounded| bounded.bounds)
}

/// An aggregate whose last arguments are the bounds of its frames, which are not given to its accumulators.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    plain: Arc<AggregateUDF>,
    bounds: Bounds,
    signature: Signature,
}

impl Bounded {
    /// The arguments of the aggregate.
    fn own<'a, T>(&self, arguments: &'a [T]) -> &'a [T] {
        let own = arguments.len().saturating_sub(self.bounds.arguments());
        arguments.get(..own).unwrap_or_default()
    }

    fn own_arguments<'a>(&self, args: AccumulatorArgs<'a>) -> AccumulatorArgs<'a> {
        AccumulatorArgs { exprs: self.own(args.exprs), expr_fields: self.own(args.expr_fields), ..args }
    }
}

impl AggregateUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.plain.return_type(self.own(arguments))
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.plain.return_field(self.own(arguments))
    }

    fn is_nullable(&self) -> bool {
        self.plain.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.plain.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.plain.supports_null_handling_clause()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.plain.order_sensitivity()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(StateFieldsArgs { input_fields: self.own(args.input_fields), ..args })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(self.own_arguments(args))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.plain.create_sliding_accumulator(self.own_arguments(args))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FrameBounds {
    signature: Signature,
}

impl ScalarUDFImpl for FrameBounds {
    fn name(&self) -> &str {
        FRAME_BOUNDS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("bounds of a window frame that are computed for each row are not available in this call")
    }
}
