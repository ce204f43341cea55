//! `substring(text, start, length)` with a length that may be negative. Others are DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewArray};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Int, Text};
use super::kinds::TEXT;
use super::rows::{any_null, ints, texts};
use crate::times::Call;

pub(super) fn all() -> Vec<Scalar> {
    vec![Scalar::new(&["freestone_substring"], &[&[Text, Int, Int]], TEXT, substring)]
}

fn substring(call: &Call) -> Result<ArrayRef> {
    let (texts, starts, lengths) = (texts(call, 0)?, ints(call, 1)?, ints(call, 2)?);
    let row = |row: usize| {
        let is_null = any_null(&[&texts, &starts, &lengths], row);
        (!is_null).then(|| part(texts.value(row), starts.value(row), lengths.value(row)))
    };
    Ok(Arc::new((0..call.rows()).map(row).collect::<StringViewArray>()))
}

/// As in PostgreSQL, the characters at the positions from `start` on, of which those before the text are none. As in DuckDB, a
/// negative length means those before `start`, which counts from the end if it is negative.
fn part(text: &str, start: i64, length: i64) -> String {
    let first = match start {
        start if length < 0 && start < 0 => (text.chars().count() as i64).saturating_add(start),
        start => start.saturating_sub(1),
    };
    let end = first.saturating_add(length);
    let (from, to) = (first.min(end).max(0) as usize, first.max(end).max(0) as usize);
    text.chars().take(to).skip(from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_texts() {
        for (start, length, expected) in [
            (2, 3, "ell"),
            (0, 2, "h"),
            (-2, 4, "h"),
            (3, -2, "he"),
            (5, -3, "ell"),
            (-1, -2, "ll"),
            (0, -2, ""),
            (9, -5, "lo"),
            (3, i64::MIN, "he"),
            (i64::MIN, -1, ""),
            (i64::MIN, i64::MAX, ""),
            (1, i64::MAX, "hello"),
            (i64::MAX, 1, ""),
        ] {
            assert_eq!(part("hello", start, length), expected, "{start} {length}");
        }
    }
}
