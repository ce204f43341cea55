//! What the places of parameters in a query say of their types.

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use freestone_binder::{Place, PlacedParameter, placed_parameters};
use freestone_sql::{ParameterNumbers, tree};

use super::{Described, NUMBER_MAX, is_known};
use crate::error::{Error, Result};

/// The types of the parameters of a query whose values are not known yet. `known` are those that the caller has declared.
///
/// # Errors
/// A number of a parameter is invalid.
pub(crate) fn of_query(
    query: &tree::Query,
    numbers: &ParameterNumbers,
    known: &[Option<DataType>],
) -> Result<Described> {
    let placed = placed_parameters(query);
    let mut types: Vec<DataType> = known.iter().map(|known| known.clone().unwrap_or(DataType::Null)).collect();
    for found in &placed {
        let Some(number) = number_of(found, numbers) else { continue };
        if !(1..=NUMBER_MAX).contains(&number) {
            return Err(Error::invalid(format!("there is no parameter ${number}"))
                .with_hint(format!("parameters have numbers from 1 to {NUMBER_MAX}")));
        }
        if types.len() < number {
            types.resize(number, DataType::Null);
        }
        let wanted = match found.place {
            Place::List => DataType::new_list(DataType::Null, true),
            Place::Count | Place::Argument => DataType::Int64,
            Place::Value | Place::Summand => continue,
        };
        if let Some(open) = types.get_mut(number - 1).filter(|open| **open == DataType::Null) {
            *open = wanted;
        }
    }
    let complete = types.iter().all(is_known);
    Ok(Described { types, complete })
}

/// The types, with INTERVAL for every unknown parameter that is added to something. If a plan fails with NULL there,
/// the other operand may be a date or time.
pub(crate) fn with_intervals(query: &tree::Query, numbers: &ParameterNumbers, types: &[DataType]) -> Vec<DataType> {
    let mut types = types.to_vec();
    for found in placed_parameters(query).iter().filter(|found| found.place == Place::Summand) {
        let at = number_of(found, numbers).and_then(|number| number.checked_sub(1));
        if let Some(open) = at.and_then(|at| types.get_mut(at)).filter(|open| **open == DataType::Null) {
            *open = DataType::Interval(IntervalUnit::MonthDayNano);
        }
    }
    types
}

fn number_of(found: &PlacedParameter, numbers: &ParameterNumbers) -> Option<usize> {
    numbers.number(&found.parameter, found.offset)
}
