//! Parameters of statements: their names, and rows of values in their order.

use std::sync::Arc;

use adbc_core::error::Result;
use arrow::array::RecordBatchIterator;
use arrow::datatypes::{Field, Schema};
use freestone::ParameterNames;

use crate::error::{engine, invalid};
use crate::link::{Prepared, Reader};

/// The parameters in the text of a statement.
fn names(query: &Prepared) -> Result<ParameterNames> {
    match &query.statements[..] {
        [statement] => statement.parameter_names().map_err(engine),
        _ => Err(invalid("parameters can be given to one statement at a time, not to a script")),
    }
}

/// The parameters with their names, or `$1`, `$2`, …, and their types.
///
/// # Errors
///
/// The text of the statement is wrong.
pub fn schema(query: &Prepared, types: &Schema) -> Result<Schema> {
    let names = match names(query)? {
        ParameterNames::Names(names) => names,
        ParameterNames::Numbers(_) => vec![],
    };
    let named = types.fields().iter().enumerate().map(|(at, field)| {
        let name = names.get(at).unwrap_or(field.name());
        Field::new(name, field.data_type().clone(), true)
    });
    Ok(Schema::new(named.collect::<Vec<_>>()))
}

/// Rows of values in the order of the parameters. Columns are matched by name if that was requested, or if the
/// statement's parameters have names and all of them are columns.
///
/// # Errors
///
/// A parameter has no column, or the numbers of parameters and columns differ.
pub fn arranged(query: &Prepared, reader: Reader, by_name: bool) -> Result<Reader> {
    let given = reader.schema();
    let parameters = names(query)?;
    let expected = parameters.count();
    let order = match parameters {
        ParameterNames::Names(names) => {
            let places: Vec<_> = names.iter().map(|name| given.index_of(name).ok()).collect();
            match places.iter().position(Option::is_none) {
                None => Some(places.into_iter().flatten().collect::<Vec<_>>()),
                Some(at) if by_name => return Err(invalid(format!("parameter ${} has no value", names[at]))),
                Some(_) => None,
            }
        }
        ParameterNames::Numbers(_) if by_name && expected > 0 => {
            return Err(invalid("values are bound by name, and the statement's parameters have none; write $name"));
        }
        ParameterNames::Numbers(_) => None,
    };
    let given_count = given.fields().len();
    if order.is_none() && given_count != expected {
        return Err(invalid(format!("the statement takes {expected} parameters and was given {given_count} columns")));
    }
    let Some(order) = order else { return Ok(reader) };
    let schema = Arc::new(given.project(&order).map_err(engine)?);
    let batches = reader.map(move |batch| batch.and_then(|batch| batch.project(&order)));
    Ok(Box::new(RecordBatchIterator::new(batches, schema)))
}
