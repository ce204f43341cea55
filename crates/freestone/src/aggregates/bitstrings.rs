//! `bitstring_agg(n, min, max)`: a bit for each integer between two of them, which is 1 if a row has it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::error::Result;

use super::collected::{Collected, Groups};
use crate::context::claim_rows;
use crate::error::Error;

/// The most bits of a type, as in PostgreSQL.
const BITS_MAX: i128 = 83_886_080;
/// All integers have a place in it.
const INTEGER: DataType = DataType::Decimal128(38, 0);
const NAME: &str = "bitstring_agg";

pub(super) fn functions() -> Vec<Collected> {
    let takes = "an integer, and the least and the greatest one of all";
    vec![Collected::new(NAME, takes, arguments, |_| DataType::Utf8View, bits)]
}

fn arguments(types: &[DataType]) -> Option<Vec<DataType>> {
    let is_integer = |kind: &DataType| kind.is_integer() || kind.is_null() || *kind == INTEGER;
    (types.len() == 3 && types.iter().all(is_integer)).then(|| vec![INTEGER; 3])
}

fn bits(groups: &Groups) -> Result<ArrayRef> {
    let columns: Vec<_> = groups.columns.iter().map(|column| column.as_primitive::<Decimal128Type>()).collect();
    let [values, least, greatest] = columns.as_slice() else {
        return Err(Error::invalid("bitstring_agg has other arguments").into());
    };
    let mut all = StringViewBuilder::new();
    for places in groups.places(1) {
        let Some(first) = places.first() else {
            all.append_null();
            continue;
        };
        if least.is_null(*first) || greatest.is_null(*first) {
            return Err(Error::invalid("the least or the greatest integer of bitstring_agg is NULL").into());
        }
        let (low, high) = (least.value(*first), greatest.value(*first));
        let count = high.saturating_sub(low).saturating_add(1);
        if !(1..=BITS_MAX).contains(&count) {
            let message = format!("bitstring_agg from {low} to {high}: the number of bits is from 1 to {BITS_MAX}");
            return Err(Error::invalid(message).into());
        }
        let _claimed = claim_rows(NAME, count as u64)?;
        let mut bits = vec![b'0'; count as usize];
        for value in places.into_iter().map(|place| values.value(place)) {
            let place = value.checked_sub(low).and_then(|place| usize::try_from(place).ok());
            match place.and_then(|place| bits.get_mut(place)) {
                Some(bit) => *bit = b'1',
                None => {
                    let message = format!("{value} is not between {low} and {high}, as bitstring_agg says");
                    return Err(Error::invalid(message).into());
                }
            }
        }
        all.append_value(bits.into_iter().map(char::from).collect::<String>());
    }
    Ok(Arc::new(all.finish()))
}
