//! The sizes of results, computed before they are made.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use super::weights::weight;

/// How the size of a result depends on the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Growth {
    /// At most as large as the arguments, this many times.
    Share(u8),
    /// A text, repeated a number of times.
    Repeated,
    /// A text that is padded to a number of characters.
    Padded,
    /// A text in which each occurrence of a second text is replaced by a third.
    Replaced,
    /// Texts or lists, one behind the other.
    Joined,
    /// The items of a list as one text, with another text between them, and a third one for NULL.
    Separated,
    /// A list of a number of equal values.
    Listed,
}

/// An argument as an array, which has one row if all rows have the same value.
struct Argument(ArrayRef);

impl Argument {
    fn of(value: &ColumnarValue) -> Result<Argument> {
        Ok(Argument(match value {
            ColumnarValue::Array(array) => array.clone(),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        }))
    }

    /// The position of a row's value; `None` if it is NULL.
    fn place(&self, row: usize) -> Option<usize> {
        let at = if self.0.len() == 1 { 0 } else { row };
        (at < self.0.len() && self.0.is_valid(at)).then_some(at)
    }

    fn text(&self, row: usize) -> Option<&str> {
        let at = self.place(row)?;
        Some(match self.0.data_type() {
            DataType::Utf8 => self.0.as_string::<i32>().value(at),
            DataType::LargeUtf8 => self.0.as_string::<i64>().value(at),
            DataType::Utf8View => self.0.as_string_view().value(at),
            _ => return None,
        })
    }

    fn number(&self, row: usize) -> Option<i64> {
        let at = self.place(row)?;
        self.0.as_primitive_opt::<Int64Type>().map(|numbers| numbers.value(at))
    }

    /// The items of a list, and the bytes of these together.
    fn items(&self, row: usize) -> Option<(u64, u64)> {
        let list = self.0.slice(self.place(row)?, 1);
        let items = match list.data_type() {
            DataType::List(_) => list.as_list::<i32>().value(0),
            DataType::LargeList(_) => list.as_list::<i64>().value(0),
            DataType::FixedSizeList(..) => list.as_fixed_size_list().value(0),
            _ => return None,
        };
        Some((items.len() as u64, weight(&items)))
    }

    /// The bytes of a value within lists.
    fn width(&self) -> u64 {
        (weight(&self.0) / self.0.len().max(1) as u64).max(8)
    }
}

impl Growth {
    /// The bytes of a result of arguments with this weight; 0 if they do not determine it.
    pub fn bytes(self, args: &[ColumnarValue], rows: usize, weight: u64) -> Result<u64> {
        match self {
            Growth::Share(times) => Ok(weight.saturating_mul(u64::from(times))),
            _ => Ok(self.counted(args, rows)?.unwrap_or(0)),
        }
    }

    fn counted(self, args: &[ColumnarValue], rows: usize) -> Result<Option<u64>> {
        let rows = if args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) { 1 } else { rows };
        let args = args.iter().map(Argument::of).collect::<Result<Vec<_>>>()?;
        let sum = |of_row: &dyn Fn(usize) -> Option<u64>| (0..rows).filter_map(of_row).fold(0u64, u64::saturating_add);
        Ok(match (self, args.as_slice()) {
            (Growth::Repeated, [text, count]) => Some(sum(&|row| {
                let count = u64::try_from(count.number(row)?).unwrap_or(0);
                Some((text.text(row)?.len() as u64).saturating_mul(count))
            })),
            (Growth::Padded, [_, count, fill @ ..]) => Some(sum(&|row| {
                let is_wide = fill.first().and_then(|fill| fill.text(row)).is_some_and(|fill| !fill.is_ascii());
                Some(u64::try_from(count.number(row)?).ok()?.saturating_mul(if is_wide { 4 } else { 1 }))
            })),
            (Growth::Replaced, [text, from, to]) => Some(sum(&|row| {
                let (text, from, to) = (text.text(row)?, from.text(row)?, to.text(row)?);
                let whole = text.len() as u64;
                if from.is_empty() || to.len() <= from.len() || whole.saturating_mul(to.len() as u64) < 1 << 20 {
                    return Some(whole);
                }
                Some(whole.saturating_add((text.matches(from).count() as u64).saturating_mul(to.len() as u64)))
            })),
            (Growth::Joined, args) => Some(args.iter().fold(0, |sum: u64, arg| {
                let times = if arg.0.len() == 1 { rows as u64 } else { 1 };
                sum.saturating_add(weight(&arg.0).saturating_mul(times))
            })),
            (Growth::Separated, [lists, between @ ..]) => Some(sum(&|row| {
                let (items, bytes) = lists.items(row)?;
                let between: u64 = between.iter().filter_map(|text| text.text(row)).map(|text| text.len() as u64).sum();
                // A number has at most 24 characters.
                Some(bytes.saturating_mul(3).saturating_add(items.saturating_mul(between)))
            })),
            (Growth::Listed, [value, count, ..]) => {
                let width = value.width();
                Some(sum(&|row| Some(u64::try_from(count.number(row)?).ok()?.saturating_mul(width))))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, ListArray, StringArray};
    use datafusion::scalar::ScalarValue;

    use super::*;

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(text))
    }

    fn number(number: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(number)))
    }

    #[test]
    fn sizes_are_known_before_results_are_made() {
        let check = |growth: Growth, args: &[ColumnarValue], expected: Option<u64>| {
            assert_eq!(growth.counted(args, 3).expect("sizes"), expected, "{growth:?}");
        };
        check(Growth::Repeated, &[text("ab"), number(i64::MAX)], Some(u64::MAX - 1));
        check(Growth::Repeated, &[text("ab"), number(-1)], Some(0));
        check(Growth::Repeated, &[text("ab"), ColumnarValue::Scalar(ScalarValue::Int64(None))], Some(0));
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(vec![Some("a"), None, Some("abc")])));
        check(Growth::Repeated, &[texts.clone(), number(10)], Some(40));
        let counts = ColumnarValue::Array(Arc::new(Int64Array::from(vec![Some(1), Some(2), None])));
        check(Growth::Padded, &[texts.clone(), counts.clone()], Some(3));
        check(Growth::Padded, &[texts, number(1 << 40), text("x")], Some(3 << 40));
        check(Growth::Replaced, &[text(&"a".repeat(2000)), text("a"), text(&"b".repeat(2000))], Some(2000 + 4_000_000));
        check(Growth::Replaced, &[text("aaa"), text(""), text("b")], Some(3));
        check(Growth::Listed, &[number(1), number(1 << 40)], Some(8 << 40));
        check(Growth::Joined, &[text("abc"), number(7), ColumnarValue::Scalar(ScalarValue::Utf8(None))], Some(3 + 8));
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(vec![Some("a"), None, Some("abc")])));
        check(Growth::Joined, &[text("xy"), texts], Some(10));
        let lists =
            ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1); 8]), None, Some(vec![None; 8])]);
        check(Growth::Joined, &[ColumnarValue::Array(Arc::new(lists.clone()))], Some(16 * 8 + 3 * 4));
        check(Growth::Joined, &[ColumnarValue::Array(Arc::new(lists.slice(0, 2)))], Some(8 * 8 + 2 * 4));
        let lists = ColumnarValue::Array(Arc::new(lists));
        check(Growth::Separated, &[lists, text(&"-".repeat(1000))], Some(2 * (8 * 8 * 3 + 8 * 1000)));
    }
}
