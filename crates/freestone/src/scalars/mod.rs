//! Scalar functions of DuckDB and PostgreSQL that DataFusion does not have, or has with other results. There is one
//! file per subject. Each function is a [`function::Scalar`]: its names, the accepted arguments, and a kernel over
//! arrays.

mod about;
mod bins;
pub(crate) mod bits;
mod dates;
mod encoding;
mod formats;
mod function;
mod graphemes;
mod hashes;
mod hints;
mod histograms;
mod json;
mod json_edits;
mod json_entries;
mod json_path;
mod json_shapes;
pub(crate) mod jsonb;
mod jsonb_edits;
mod kinds;
mod list_aggregates;
mod list_lambdas;
mod list_members;
mod list_parts;
mod list_reduce;
mod lists;
mod numbers;
mod path_join;
mod patterns;
mod planner;
mod postgres;
mod postgres_arrays;
mod postgres_numbers;
mod regex;
mod results;
mod rows;
mod sequences;
mod series;
mod similarity;
mod sleeps;
pub(crate) mod spans;
mod strftime;
mod structs;
mod substrings;
mod text;
mod uuids;

pub use postgres::unescaped_bytes;

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, HigherOrderUDF, ScalarUDF};

use crate::hosted;
use crate::sql::text_types::CAST_NORMAL;

pub(crate) use hints::missing;
pub(crate) use json::makes_json;
pub(crate) use planner::{planner, unnamed as unnamed_operator};

/// Registers these functions in a session that has its aggregates.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let all = [
        about::all(),
        bins::all(),
        bits::all(),
        dates::all(),
        encoding::all(),
        formats::all(),
        graphemes::all(),
        hashes::all(),
        histograms::all(),
        json::all(),
        json_edits::all(),
        json_entries::all(),
        json_shapes::all(),
        jsonb::all(),
        jsonb_edits::all(),
        list_members::all(),
        list_parts::all(),
        lists::all(),
        numbers::all(),
        path_join::all(),
        postgres::all(),
        postgres_arrays::all(),
        postgres_numbers::all(),
        regex::all(),
        series::all(),
        similarity::all(),
        sleeps::all(),
        spans::all(),
        strftime::all(),
        structs::all(),
        substrings::all(),
        text::all(),
        uuids::all(),
        vec![list_aggregates::list_aggregate(state.aggregate_functions())],
    ];
    for scalar in all.into_iter().flatten() {
        state.register_udf(Arc::new(ScalarUDF::new_from_impl(scalar)))?;
    }
    state.register_higher_order_function(Arc::new(HigherOrderUDF::new_from_impl(list_reduce::ListReduce::new())))?;
    for function in list_lambdas::all() {
        state.register_higher_order_function(Arc::new(HigherOrderUDF::new_from_impl(function)))?;
    }
    Ok(())
}

/// -1, 0 or 1: the order of two values of one nested type, in which NULLs are the greatest.
pub(crate) fn order_of(a: Expr, b: Expr) -> Expr {
    ScalarUDF::new_from_impl(structs::order_function()).call(vec![a, b])
}

/// LIKE as a function, for patterns that take long to match.
pub(crate) fn like(folds: bool, negated: bool) -> ScalarUDF {
    ScalarUDF::new_from_impl(text::like(folds, negated))
}

/// Whether a function is one of these, a cast to texts in a normal form, or of the program around the engine, each of which can fail for some arguments.
pub(crate) fn can_fail(function: &ScalarUDF) -> bool {
    function.inner().is::<function::Scalar>() || function.name() == CAST_NORMAL || hosted::scalar::is_hosted(function)
}
