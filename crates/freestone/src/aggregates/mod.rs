//! Aggregate functions that replace those of DataFusion: `sum` and `avg`, which are exact or fail; `min` and `max` of
//! floats; variances and related functions; and the collection and sorting of rows for aggregates with an ORDER BY.
//! Also aggregates of DuckDB that need all values of a group: modes, quantiles, histograms.

mod average;
mod bitstrings;
mod choices;
mod claimed;
mod collected;
mod counts;
mod distinct;
mod extremes;
mod filter_clause;
mod hosted;
mod lttb;
mod moments;
mod order_by;
mod quantiles;
mod queue;
mod shapes;
mod sum;
mod totals;

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::AggregateUDF;

pub(crate) use collected::{in_descending_order, is_collected};
pub(crate) use counts::of_frequency;
pub(crate) use filter_clause::Filtered;
pub(crate) use hosted::{hosted, is_hosted};
pub(crate) use order_by::Ordered;
pub(crate) use quantiles::Selection;
pub(crate) use sum::settled;

/// Registers the functions, which replace those with the same names.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    functions().into_iter().try_for_each(|function| state.register_udaf(function).map(drop))?;
    claimed::register(state)
}

fn functions() -> Vec<Arc<AggregateUDF>> {
    let mut functions = vec![
        AggregateUDF::from(sum::Sum::new()),
        AggregateUDF::from(average::Average::new()),
        AggregateUDF::from(extremes::Extreme::least()),
        AggregateUDF::from(extremes::Extreme::greatest()),
        AggregateUDF::from(distinct::ByValue::bit_xor()),
    ];
    functions.extend(moments::functions().map(AggregateUDF::from));
    let collected = [
        bitstrings::functions(),
        choices::functions(),
        counts::functions(),
        lttb::functions(),
        quantiles::functions(),
        shapes::functions(),
    ];
    functions.extend(collected.into_iter().flatten().map(AggregateUDF::from));
    functions.into_iter().map(Arc::new).collect()
}
