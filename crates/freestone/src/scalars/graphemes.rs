//! Functions of texts that count grapheme clusters (Unicode Standard Annex 29): what a reader takes for one character.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringViewArray};
use datafusion::error::Result;
use unicode_segmentation::UnicodeSegmentation;

use super::function::Scalar;
use super::kinds::Kind::{Int, Text};
use super::kinds::{INT, TEXT};
use super::rows::{int_of_text, ints, text_of_text, texts};
use crate::times::Call;

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["reverse"], &[&[Text]], TEXT, |call| {
            text_of_text(call, |text| {
                Ok(if text.is_ascii() { text.chars().rev().collect() } else { text.graphemes(true).rev().collect() })
            })
        }),
        Scalar::new(&["length_grapheme"], &[&[Text]], INT, |call| {
            int_of_text(call, |text| text.graphemes(true).count() as i64)
        }),
        Scalar::new(&["left_grapheme"], &[&[Text, Int]], TEXT, |call| {
            parts(call, |count, length| (0, if length < 0 { count.saturating_add(length) } else { length }))
        }),
        Scalar::new(&["right_grapheme"], &[&[Text, Int]], TEXT, |call| {
            parts(call, |count, length| {
                (if length < 0 { length.saturating_neg() } else { count - length.min(count) }, count)
            })
        }),
        Scalar::new(&["substring_grapheme"], &[&[Text, Int], &[Text, Int, Int]], TEXT, substring),
    ]
}

/// The graphemes of each text in the range that its count and the second argument give.
fn parts(call: &Call, range: fn(i64, i64) -> (i64, i64)) -> Result<ArrayRef> {
    let (texts, lengths) = (texts(call, 0)?, ints(call, 1)?);
    let part = |(text, length): (Option<&str>, Option<i64>)| {
        let (text, length) = (text?, length?);
        let (from, to) = range(text.graphemes(true).count() as i64, length);
        Some(cut(text, from, to))
    };
    Ok(Arc::new(texts.iter().zip(lengths.iter()).map(part).collect::<StringViewArray>()))
}

fn cut(text: &str, from: i64, to: i64) -> String {
    let (from, to) = (from.max(0) as usize, to.max(0) as usize);
    text.graphemes(true).take(to).skip(from).collect()
}

/// As `substring`: a negative start counts from the end, and a negative length goes to the left.
fn substring(call: &Call) -> Result<ArrayRef> {
    let (texts, starts) = (texts(call, 0)?, ints(call, 1)?);
    let lengths = if call.count() > 2 { Some(ints(call, 2)?) } else { None };
    let part = |row: usize| {
        let is_null = texts.is_null(row) || starts.is_null(row) || lengths.as_ref().is_some_and(|all| all.is_null(row));
        if is_null {
            return None;
        }
        let text = texts.value(row);
        let start = match starts.value(row) {
            start if start < 0 => (text.graphemes(true).count() as i64).saturating_add(start),
            start => start - 1,
        };
        let end = start.saturating_add(lengths.as_ref().map_or(i64::MAX, |all| all.value(row)));
        Some(cut(text, start.min(end), start.max(end)))
    };
    Ok(Arc::new((0..call.rows()).map(part).collect::<StringViewArray>()))
}
