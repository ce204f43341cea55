//! Similarity of two strings, counted in characters.

use std::collections::HashSet;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::common::resources_err;
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Real, Text};
use super::kinds::{INT, REAL};
use super::rows::{invalid, of_pairs};
use crate::context::{self, claim};
use crate::growth::Growth;
use crate::times::Call;

/// The weight per character of a common prefix in the similarity of Jaro and Winkler.
const PREFIX_WEIGHT: f64 = 0.1;
/// The minimum similarity for which a common prefix counts.
const PREFIX_FROM: f64 = 0.7;
/// Characters that are compared before a statement is asked whether it goes on.
const STEP_CHARACTERS: usize = 1 << 20;
/// The largest table of distances.
const DISTANCES_MAX: usize = 1 << 25;

/// The memory of texts whose characters are counted: four bytes for each, and eight for a number.
const CHARACTERS: Growth = Growth::Share(12);

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["hamming", "mismatches"], &[&[Text, Text]], INT, |call| of_pairs::<Int64Type>(call, hamming)),
        Scalar::new(&["levenshtein"], &[&[Text, Text]], INT, |call| {
            of_pairs::<Int64Type>(call, |a, b| edits(a, b, false))
        })
        .slow()
        .growing(CHARACTERS),
        Scalar::new(&["damerau_levenshtein"], &[&[Text, Text]], INT, |call| {
            of_pairs::<Int64Type>(call, |a, b| edits(a, b, true))
        })
        .slow()
        .growing(CHARACTERS),
        Scalar::new(&["jaccard"], &[&[Text, Text]], REAL, |call| of_pairs::<Float64Type>(call, jaccard)),
        Scalar::new(&["jaro_similarity"], &[&[Text, Text], &[Text, Text, Real]], REAL, |call| cut(call, jaro))
            .slow()
            .growing(CHARACTERS),
        Scalar::new(&["jaro_winkler_similarity"], &[&[Text, Text], &[Text, Text, Real]], REAL, |call| {
            cut(call, jaro_winkler)
        })
        .slow()
        .growing(CHARACTERS),
    ]
}

fn hamming(a: &str, b: &str) -> Result<i64> {
    if a.chars().count() != b.chars().count() || a.is_empty() {
        return invalid("hamming compares texts of equal length that are not empty");
    }
    Ok(a.chars().zip(b.chars()).filter(|(a, b)| a != b).count() as i64)
}

/// The minimum number of insertions, deletions, substitutions and, optionally, swaps of adjacent characters that
/// convert one text to the other.
fn edits(a: &str, b: &str, swaps: bool) -> Result<i64> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    Ok(match swaps {
        true => edits_and_swaps(&a, &b)?,
        false => {
            let mut row: Vec<usize> = (0..=b.len()).collect();
            for (i, left) in a.iter().enumerate() {
                check_now_and_then(i, b.len())?;
                let mut diagonal = std::mem::replace(&mut row[0], i + 1);
                for (j, right) in b.iter().enumerate() {
                    let substituted = diagonal + usize::from(left != right);
                    diagonal = row[j + 1];
                    row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
                }
            }
            row[b.len()] as i64
        }
    })
}

/// Whether the statement goes on, asked after steps that look at about [`STEP_CHARACTERS`] characters together.
fn check_now_and_then(step: usize, characters: usize) -> Result<()> {
    let every = STEP_CHARACTERS / characters.max(1) + 1;
    if step.is_multiple_of(every) { Ok(context::check()?) } else { Ok(()) }
}

/// The unrestricted Damerau-Levenshtein distance, in which the characters of a swap may be edited, too (Lowrance and
/// Wagner, "An extension of the string-to-string correction problem", 1975).
fn edits_and_swaps(a: &[char], b: &[char]) -> Result<i64> {
    use std::collections::HashMap;
    let width = b.len() + 2;
    if (a.len() + 2).saturating_mul(width) > DISTANCES_MAX {
        return resources_err!(
            "damerau_levenshtein of texts of {} and {} characters takes too much memory: the product of their lengths is at \
             most {DISTANCES_MAX}",
            a.len(),
            b.len()
        );
    }
    let far = a.len() + b.len();
    let _claim = claim("damerau_levenshtein", ((a.len() + 2) * width * size_of::<usize>()) as u64)?;
    let mut distances = vec![0usize; (a.len() + 2) * width];
    let at = |i: usize, j: usize| i * width + j;
    for i in 0..=a.len() {
        (distances[at(i + 1, 0)], distances[at(i + 1, 1)]) = (far, i);
    }
    for j in 0..=b.len() {
        (distances[at(0, j + 1)], distances[at(1, j + 1)]) = (far, j);
    }
    distances[0] = far;
    // The last row in which a character was in `a`.
    let mut rows: HashMap<char, usize> = HashMap::new();
    for i in 1..=a.len() {
        check_now_and_then(i, b.len())?;
        let mut matched = 0;
        for j in 1..=b.len() {
            let (row, column) = (rows.get(&b[j - 1]).copied().unwrap_or(0), matched);
            let is_equal = a[i - 1] == b[j - 1];
            if is_equal {
                matched = j;
            }
            let swapped = distances[at(row, column)] + (i - row - 1) + 1 + (j - column - 1);
            let substituted = distances[at(i, j)] + usize::from(!is_equal);
            let least = substituted.min(distances[at(i + 1, j)] + 1).min(distances[at(i, j + 1)] + 1).min(swapped);
            distances[at(i + 1, j + 1)] = least;
        }
        rows.insert(a[i - 1], i);
    }
    Ok(distances[at(a.len() + 1, b.len() + 1)] as i64)
}

/// The number of distinct characters in both texts, divided by the number in either.
fn jaccard(a: &str, b: &str) -> Result<f64> {
    if a.is_empty() || b.is_empty() {
        return invalid("jaccard compares texts that are not empty");
    }
    let (a, b): (HashSet<char>, HashSet<char>) = (a.chars().collect(), b.chars().collect());
    let common = a.intersection(&b).count();
    Ok(common as f64 / (a.len() + b.len() - common) as f64)
}

/// A similarity, or 0 if it is less than the third argument.
fn cut(call: &Call, similarity: fn(&[char], &[char]) -> Result<f64>) -> Result<ArrayRef> {
    use std::sync::Arc;

    use datafusion::arrow::array::{Array, Float64Array};
    let cutoffs = if call.count() == 3 { Some(super::rows::reals(call, 2)?) } else { None };
    let (a, b) = (super::rows::texts(call, 0)?, super::rows::texts(call, 1)?);
    let rows = a.iter().zip(b.iter()).enumerate().map(|(row, pair)| {
        let (Some(a), Some(b)) = pair else { return Ok(None) };
        let cutoff = match &cutoffs {
            Some(cutoffs) if cutoffs.is_null(row) => return Ok(None),
            Some(cutoffs) => cutoffs.value(row),
            None => 0.0,
        };
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        let found = similarity(&a, &b)?;
        Ok(Some(if found < cutoff { 0.0 } else { found }))
    });
    Ok(Arc::new(rows.collect::<Result<Float64Array>>()?))
}

/// The Jaro similarity: from the numbers of common characters that are near each other, and of those in another order.
fn jaro(a: &[char], b: &[char]) -> Result<f64> {
    if a.is_empty() || b.is_empty() {
        return Ok(f64::from(u8::from(a.is_empty() && b.is_empty())));
    }
    let window = (a.len().max(b.len()) / 2).saturating_sub(1);
    let mut taken = vec![false; b.len()];
    let mut common = vec![];
    for (i, c) in a.iter().enumerate() {
        check_now_and_then(i, window)?;
        let near = i.saturating_sub(window)..(i + window + 1).min(b.len());
        let found = near.into_iter().find(|j| !taken[*j] && b[*j] == *c);
        if let Some(j) = found {
            taken[j] = true;
            common.push(*c);
        }
    }
    if common.is_empty() {
        return Ok(0.0);
    }
    let others = b.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(c, _)| c);
    let moved = common.iter().zip(others).filter(|(a, b)| a != b).count() / 2;
    let count = common.len() as f64;
    Ok((count / a.len() as f64 + count / b.len() as f64 + (count - moved as f64) / count) / 3.0)
}

fn jaro_winkler(a: &[char], b: &[char]) -> Result<f64> {
    let similarity = jaro(a, b)?;
    let common = a.iter().zip(b).take(4).take_while(|(a, b)| a == b).count() as f64;
    let added = if similarity > PREFIX_FROM { common * PREFIX_WEIGHT * (1.0 - similarity) } else { 0.0 };
    Ok(similarity + added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, plain, swaps) in [
            ("", "", 0, 0),
            ("kitten", "sitting", 3, 3),
            ("ab", "ba", 2, 1),
            ("ca", "abc", 3, 2),
            ("ä", "a", 1, 1),
            ("abc", "", 3, 3),
        ] {
            let found = [false, true].map(|swaps| edits(a, b, swaps).expect("a distance"));
            assert_eq!(found, [plain, swaps], "{a} {b}");
        }
        let long = "a".repeat(20_000);
        assert!(edits(&long, &long, true).is_err() && edits(&long, &long, false).ok() == Some(0));
        assert_eq!(hamming("abc", "abd").ok(), Some(1));
        assert_eq!(jaccard("ab", "abc").ok(), Some(2.0 / 3.0));
        let characters = |text: &str| text.chars().collect::<Vec<_>>();
        let of = |similarity: fn(&[char], &[char]) -> Result<f64>, a: &str, b: &str| {
            similarity(&characters(a), &characters(b)).expect("a similarity")
        };
        assert!((of(jaro, "martha", "marhta") - 0.944_444).abs() < 1e-5);
        assert!((of(jaro_winkler, "martha", "marhta") - 0.961_111).abs() < 1e-5);
        assert_eq!(of(jaro, "a", "b"), 0.0);
    }
}
