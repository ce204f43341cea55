//! Functions of one column with few possible integers: days, months, small numbers. They are computed once for each integer, and
//! looked up for each row. Texts become codes of a dictionary.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::StringViewArray;
use freestone_exec::error::Result as ExecResult;
use freestone_exec::program::Foreign;
use freestone_exec::vector::{Dictionary, Form, Values, Vector};

use super::expressions::Known;
use super::foreign::Expression;

/// An expression over one column of integers, with its results.
#[derive(Debug)]
pub(super) struct Tabulated {
    expression: Expression,
    /// The integer of the first result.
    low: i64,
    /// One result per integer, and that of NULL.
    results: Vector,
}

/// The most possible integers.
const INTEGERS_MAX: usize = 1 << 14;
/// The least number of rows for each of them.
const ROWS_PER_INTEGER: usize = 4;
/// The number of integers for which results are computed at once.
const CHUNK: usize = 1 << 10;
/// The most bytes of results, in which repetitions count.
const BYTES_MAX: usize = 4 << 20;

impl Tabulated {
    /// The expression with its results, and what is known of them; the expression alone if that would not be worth it, or if it
    /// fails for an integer that may not occur.
    pub fn of(expression: Expression, column: &Known, known: &Known) -> Result<(Tabulated, Known), Expression> {
        let integers = column.int_bounds().and_then(|(low, high)| {
            let count = usize::try_from(high.checked_sub(low)?).ok()?.checked_add(1)?;
            let are_few = count <= INTEGERS_MAX && known.form != Form::Arrow;
            let rows = column.rows.as_ref().filter(|_| are_few)?;
            (count <= **rows.as_ref() / ROWS_PER_INTEGER).then_some((low, count))
        });
        let Some((low, count)) = integers else { return Err(expression) };
        match results(&expression, low, count, column.nullable) {
            Some(results) => {
                let known = told(&results, known);
                Ok((Tabulated { expression, low, results }, known))
            }
            None => Err(expression),
        }
    }

    /// The places of integers among the results; `None` if there are others.
    fn places(&self, column: &Vector) -> Option<Vec<u32>> {
        let null = self.results.len() as u32 - 1;
        let place = |value: i64| value.wrapping_sub(self.low) as u64;
        let values = column.as_ints();
        let Some(valid) = &column.valid else {
            let is_known = values.iter().all(|value| place(*value) < u64::from(null));
            return is_known.then(|| values.iter().map(|value| place(*value) as u32).collect());
        };
        let place = |(row, value): (usize, &i64)| match valid.is_valid(row) {
            true => Some(place(*value)).filter(|place| *place < u64::from(null)).map(|place| place as u32),
            false => Some(null),
        };
        values.iter().enumerate().map(place).collect()
    }
}

impl Foreign for Tabulated {
    fn evaluate(&self, inputs: &[Vector], rows: usize) -> ExecResult<Vector> {
        match self.places(&inputs[0]) {
            Some(places) => Ok(self.results.take(&places)),
            None => self.expression.evaluate(inputs, rows),
        }
    }

    fn is_pure(&self) -> bool {
        true
    }
}

/// The results for these integers and NULL; `None` if one fails, or they are too large.
fn results(expression: &Expression, low: i64, count: usize, nullable: bool) -> Option<Vector> {
    let integers: Vec<i64> = (0..count as i64).map(|at| low + at).collect();
    let mut chunks = integers.chunks(CHUNK).map(|chunk| Vector::ints(chunk.to_vec())).collect::<Vec<_>>();
    // Without NULLs, the last result is any one.
    let null = || Vector::with_nulls(Values::Int(vec![low].into()), Some(vec![false].into()));
    chunks.push(if nullable { null() } else { Vector::ints(vec![low]) });
    let (mut parts, mut bytes) = (vec![], 0);
    for chunk in chunks {
        let part = expression.evaluate(std::slice::from_ref(&chunk), chunk.len()).ok()?;
        bytes += part.bytes();
        if bytes > BYTES_MAX {
            return None;
        }
        parts.push(part);
    }
    joined(&parts)
}

/// Vectors of one form, one after the other.
fn joined(parts: &[Vector]) -> Option<Vector> {
    fn all<T: Copy>(parts: &[Vector], of: impl Fn(&Vector) -> &[T]) -> Vec<T> {
        parts.iter().flat_map(|part| of(part).iter().copied()).collect()
    }
    let values = match &parts.first()?.values {
        Values::Bits(_) => Values::Bits(parts.iter().flat_map(|part| part.as_bits().iter()).collect()),
        Values::Int(_) => Values::Int(all(parts, Vector::as_ints).into()),
        Values::Wide(_) => Values::Wide(all(parts, Vector::as_wide).into()),
        Values::Float(_) => Values::Float(all(parts, Vector::as_floats).into()),
        Values::Text(_) | Values::Codes(..) => coded(parts)?,
        Values::Arrow(_) => return None,
    };
    let has_nulls = parts.iter().any(|part| part.valid.as_ref().is_some_and(|valid| valid.null_count() > 0));
    let is_valid = |part: &Vector| (0..part.len()).map(|row| !part.is_null(row)).collect::<Vec<_>>();
    let valid = has_nulls.then(|| parts.iter().flat_map(is_valid).collect::<Vec<_>>().into());
    Some(Vector::with_nulls(values, valid))
}

/// Texts as codes of a dictionary of the distinct ones.
fn coded(parts: &[Vector]) -> Option<Values> {
    let (mut texts, mut known, mut codes) = (vec![], HashMap::new(), vec![]);
    for part in parts {
        for row in 0..part.len() {
            let text = if part.is_null(row) { "" } else { std::str::from_utf8(part.text(row)).ok()? };
            let code = *known.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len() as u32 - 1
            });
            codes.push(code);
        }
    }
    Some(Values::Codes(codes.into(), Arc::new(Dictionary::new(StringViewArray::from_iter_values(texts)))))
}

/// What results tell, besides their type.
fn told(results: &Vector, known: &Known) -> Known {
    let nullable = results.valid.as_ref().is_some_and(|valid| valid.null_count() > 0);
    let rows = (0..results.len()).filter(|row| !results.is_null(*row));
    let bounds = match &results.values {
        Values::Int(values) => {
            let values = || rows.clone().map(|row| i128::from(values[row]));
            values().min().zip(values().max())
        }
        _ => None,
    };
    let texts = match &results.values {
        Values::Codes(_, dictionary) => Some(dictionary.texts.len()),
        _ => None,
    };
    Known { nullable, bounds, texts, ..known.clone() }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, lit};

    use super::super::expressions::EstimatedRows;
    use super::*;

    fn table(
        e: Arc<dyn PhysicalExpr>,
        bounds: (i128, i128),
        rows: usize,
        nullable: bool,
    ) -> Option<(Tabulated, Known)> {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, nullable)]));
        let expression = Expression::new(&e, &schema).expect("an expression");
        let rows: EstimatedRows = LazyLock::new(Box::new(move || rows));
        let rows = Some(Arc::new(rows));
        let column = Known { bounds: Some(bounds), rows, ..Known::of(&DataType::Int64, nullable) };
        let known = Known::of(expression.data_type(), true);
        Tabulated::of(expression, &column, &known).ok()
    }

    fn x() -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("x", 0))
    }

    fn remainder(by: i64) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(x(), Operator::Modulo, lit(by)))
    }

    #[test]
    fn integers_are_looked_up_and_others_computed() {
        let (of, known) = table(remainder(7), (10, 29), 100, true).expect("a table");
        assert_eq!((known.bounds, known.nullable), (Some((0, 6)), true));
        let column =
            Vector::with_nulls(Values::Int(vec![10, 29, 999, 13].into()), Some(vec![true, true, false, true].into()));
        let found = of.evaluate(&[column], 4).expect("found");
        assert_eq!((found.as_ints()[0], found.as_ints()[1], found.as_ints()[3]), (3, 1, 6));
        assert!(found.is_null(2) && !found.is_null(3));
        for other in [9, 30, i64::MIN, i64::MAX] {
            let found = of.evaluate(&[Vector::ints(vec![10, other])], 2).expect("computed");
            assert_eq!(found.as_ints(), [3, other % 7]);
        }
        let (_, known) = table(remainder(7), (10, 29), 100, false).expect("a table");
        assert!(!known.nullable);
    }

    #[test]
    fn texts_become_codes() {
        let text = Arc::new(CastExpr::new(remainder(2), DataType::Utf8View, None));
        let (of, known) = table(text, (0, 9), 100, false).expect("a table");
        assert_eq!(known.texts, Some(2));
        let found = of.evaluate(&[Vector::ints(vec![4, 5])], 2).expect("found");
        assert!(matches!(found.values, Values::Codes(..)));
        assert_eq!((found.text(0), found.text(1)), (&b"0"[..], &b"1"[..]));
    }

    #[test]
    fn nothing_is_tabulated_that_fails_or_is_too_large() {
        let quotient = Arc::new(BinaryExpr::new(lit(1i64), Operator::Divide, x()));
        assert!(table(quotient.clone(), (0, 9), 100, false).is_none(), "1 / 0");
        assert!(table(quotient, (1, 9), 100, false).is_some());
        assert!(table(remainder(7), (10, 29), 79, true).is_none(), "few rows");
        assert!(table(remainder(7), (0, 1 << 14), usize::MAX, true).is_none(), "many integers");
        assert!(table(remainder(7), (i64::MIN.into(), i64::MAX.into()), usize::MAX, true).is_none());
    }
}
