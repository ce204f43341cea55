//! Dates, times, timestamps and intervals with the semantics of SQL: microseconds, years 1 to 9999 and beyond, the
//! session's time zone, and errors for values outside of the range. These functions and operators replace DataFusion's
//! with the same names.

mod abbreviations;
mod aggregates;
pub(crate) mod arrays;
pub mod calendar;
mod casts;
mod constructors;
mod convert;
mod current;
mod format;
mod format_parsing;
mod function;
mod infinite;
mod interval;
mod interval_text;
mod literals;
mod mixing;
mod operands;
mod operators;
mod output;
mod parts;
mod pattern;
mod postgres_fields;
mod postgres_parts;
mod postgres_texts;
mod rules;
pub(crate) mod series;
mod text;
mod truncation;
mod zone;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;

pub(crate) use aggregates::behind as behind_planned;
pub(crate) use arrays::{
    INTERVAL, TIMESTAMP, day_of, exact_cast, finished, finite, infinite, infinity, integers, interval_of, intervals,
    is_span, is_text, is_time_of_day, local_ticks, map, out_of_range, per_second, stored, timestamptz, to_instant, zip,
};
pub(crate) use casts::{TimeCasts, with_ours as with_own_casts};
pub(crate) use convert::argument as argument_of_cast;
pub use convert::value_of_text;
pub(crate) use convert::{is_zoned_by_name, moved, plain_literal, texts as texts_in_zone};
pub(crate) use format::{LocalTime, TimeFormat};
pub(crate) use format_parsing::Parsed;
pub(crate) use function::{Call, evaluate, evaluate_rows, wrong_types};
pub(crate) use infinite::{keeping_infinite, without_infinite};
pub(crate) use interval::{DAY_NS, Interval, SECOND_NS};
pub(crate) use literals::has_nanoseconds;
pub(crate) use mixing::check_types as check_times;
pub(crate) use operands::common_with_texts;
pub(crate) use operators::normal_interval;
pub(crate) use operators::stepped;
pub(crate) use output::{in_zone_of_session, is_shown_as_stored, shown_schema};
pub(crate) use parts::{Part, date_part, part_of_times, part_type, taken_by_parts, year_week};
pub(crate) use postgres_texts::is_relative;
pub use postgres_texts::{DateOrder, TextOf, plain_text};
pub(crate) use rules::{TimeComparisons, TimeOperands, TimePlanner};
pub(crate) use text::clock;
pub(crate) use text::{parse, push_offset, time_text};
pub use zone::Zone;
pub(crate) use zone::{UTC, missing as missing_zone};

/// The interval of a text.
pub(crate) fn interval_of_text(text: &str) -> Option<datafusion::arrow::datatypes::IntervalMonthDayNano> {
    interval_text::parse(text, None).map(stored)
}

/// The interval of a text, by the names of its units: the largest one, and the smallest.
pub(crate) fn interval_of_units(
    text: &str,
    units: Option<(&str, Option<&str>)>,
) -> Option<datafusion::arrow::datatypes::IntervalMonthDayNano> {
    let fields = match units {
        None => None,
        Some((first, last)) => {
            let first = interval_text::Unit::named(first)?;
            let last = last.map_or(Some(first), interval_text::Unit::named)?;
            Some(interval_text::Fields { first, last })
        }
    };
    interval_text::parse(text, fields).map(stored)
}

/// Registers the functions in a session.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let functions = constructors::functions().into_iter().chain([
        parts::date_part(),
        truncation::date_trunc(),
        truncation::date_bin(),
    ]);
    for function in functions.chain(postgres_parts::functions()) {
        state.register_udf(function.into_udf())?;
    }
    for function in current::functions() {
        state.register_udf(function.into())?;
    }
    if let Some(average) = state.aggregate_functions().get("avg").cloned() {
        state.register_udaf(aggregates::planned_average(average).into())?;
    }
    series::register(state);
    Ok(())
}
