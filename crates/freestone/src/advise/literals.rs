//! Predicates for conjuncts of which only column, form and selectivity are known. Their values are taken from a sample,
//! so that they select about as many rows.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::{SortOptions, sort};
use datafusion::logical_expr::Operator;
use datafusion::scalar::ScalarValue;
use freestone_advisor::{PredicateForm, QueryPredicate};
use freestone_codec::{BytesPredicate, IntPredicate, Predicate};
use freestone_store::scan::ColumnPredicate;

use crate::error::Result;
use crate::provider::comparison;

/// A predicate with about the selectivity of `wanted`, if the column has values for one.
///
/// # Errors
///
/// A value cannot be converted.
pub(crate) fn predicate(wanted: &QueryPredicate, values: &ArrayRef) -> Result<Option<ColumnPredicate>> {
    let on =
        |predicate: Option<Predicate>| predicate.map(|predicate| ColumnPredicate { column: wanted.column, predicate });
    let sorted = sort(values, Some(SortOptions { descending: false, nulls_first: false }))?;
    let present = sorted.slice(0, sorted.len() - sorted.null_count());
    if present.is_empty() {
        return Ok(on(Some(Predicate::IsNotNull)));
    }
    let rows = values.len() as f64 * wanted.selectivity.clamp(0.0, 1.0);
    let at = (rows.round() as usize).clamp(1, present.len()) - 1;
    let compare = |op, at| -> Result<Option<Predicate>> {
        Ok(comparison(op, &ScalarValue::try_from_array(&present, at)?, values.data_type()))
    };
    Ok(on(match wanted.form {
        // The end of the range is the value below which this number of rows lies.
        PredicateForm::Range | PredicateForm::Other => compare(Operator::LtEq, at)?,
        PredicateForm::Equal => compare(Operator::Eq, likeliest(&runs(&present)?, rows))?,
        PredicateForm::In => any_of(&present, rows, values)?,
    }))
}

/// Starts and lengths of the runs of equal values in a sorted array.
fn runs(sorted: &ArrayRef) -> Result<Vec<(usize, usize)>> {
    let ranges = datafusion::arrow::compute::partition(std::slice::from_ref(sorted))?.ranges();
    Ok(ranges.into_iter().map(|range| (range.start, range.len())).collect())
}

/// The start of the run with the length nearest to `rows`; among several, the middle one.
fn likeliest(runs: &[(usize, usize)], rows: f64) -> usize {
    let distance = |length: usize| (length as f64 / rows.max(0.5)).ln().abs();
    let best = runs.iter().map(|run| distance(run.1)).fold(f64::INFINITY, f64::min);
    let near: Vec<usize> = runs.iter().filter(|run| distance(run.1) <= best).map(|run| run.0).collect();
    near[near.len() / 2]
}

/// Values from the whole column that together have about `rows` rows.
fn any_of(sorted: &ArrayRef, rows: f64, values: &ArrayRef) -> Result<Option<Predicate>> {
    let runs = runs(sorted)?;
    // If all values were equally frequent, this would be the number of distinct values for the wanted rows.
    let step = (sorted.len() as f64 / rows.max(1.0)).max(1.0);
    let (mut ints, mut texts, mut found, mut at) = (vec![], vec![], 0, 0.0);
    while (at as usize) < runs.len() && (found as f64) < rows.max(1.0) {
        let (start, length) = runs[at as usize];
        match comparison(Operator::Eq, &ScalarValue::try_from_array(sorted, start)?, values.data_type()) {
            Some(Predicate::Int(IntPredicate::Range { low, .. })) => ints.push(low),
            Some(Predicate::Bytes(BytesPredicate::Range { low: Some(low), .. })) => texts.push(low.value),
            Some(Predicate::Bytes(BytesPredicate::In(mut list))) => texts.append(&mut list),
            _ => return Ok(None),
        }
        found += length;
        at += step;
    }
    ints.sort_unstable();
    texts.sort_unstable();
    Ok(match (ints.is_empty(), texts.is_empty()) {
        (false, _) => Some(Predicate::Int(IntPredicate::In(ints))),
        (_, false) => Some(Predicate::Bytes(BytesPredicate::In(texts))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn passes(predicate: &Predicate, value: i128) -> bool {
        match predicate {
            Predicate::Int(IntPredicate::Range { low, high }) => (*low..=*high).contains(&value),
            Predicate::Int(IntPredicate::In(list)) => list.contains(&value),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn predicates_leave_about_what_is_wanted() {
        // 1,000 values: each number below 100, ten times.
        let numbers: Vec<i64> = (0..1000).map(|at| (at * 37 % 100) as i64).collect();
        let values: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
        for (form, selectivity) in [
            (PredicateForm::Range, 0.25),
            (PredicateForm::Range, 1.0),
            (PredicateForm::Equal, 0.01),
            (PredicateForm::In, 0.1),
            (PredicateForm::In, 0.5),
        ] {
            let wanted = QueryPredicate { column: 3, selectivity, form };
            let found = predicate(&wanted, &values).expect("no error").expect("a predicate");
            let share = numbers.iter().filter(|n| passes(&found.predicate, i128::from(**n))).count() as f64 / 1000.0;
            assert!((share - selectivity).abs() <= 0.02, "{form:?} {selectivity}: {share}");
        }
    }

    #[test]
    fn texts_and_empty_columns_have_predicates_too() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "c", "d"]));
        let wanted = QueryPredicate { column: 0, selectivity: 0.5, form: PredicateForm::Range };
        assert!(matches!(
            predicate(&wanted, &texts).expect("no error").expect("a predicate").predicate,
            Predicate::Bytes(BytesPredicate::Range { .. })
        ));
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
        let found = predicate(&wanted, &nulls).expect("no error").expect("a predicate");
        assert_eq!(found.predicate, Predicate::IsNotNull);
    }
}
