//! Rows of a column of texts whose text came before. Where only the distinct values are wanted, they are left out, so that each
//! entry of a dictionary is looked up once, and short texts that come again and again, too.

use std::sync::Arc;

use freestone_codec::hash::hash_int;

use crate::vector::{Dictionary, INLINE_BYTES, Texts, Values, Vector};

/// The texts that came.
#[derive(Debug, Default)]
pub struct Repeats {
    codes: Vec<(Arc<Dictionary>, Vec<bool>)>,
    /// The views of short texts that came last, by their hashes. Equal ones are equal texts.
    short: Vec<u128>,
    has_null: bool,
}

/// The short texts that are remembered.
const SHORT: usize = 1 << 10;
/// A view of a text that is not short.
const NO_SHORT: u128 = u128::MAX;

impl Repeats {
    /// The rows of texts that may be new, and the first NULL; `None` if nearly all rows are.
    pub fn first_rows(&mut self, column: &Vector) -> Option<Vec<u32>> {
        let rows = match &column.values {
            Values::Codes(codes, dictionary) => self.first_codes(column, codes, dictionary),
            Values::Text(texts) => self.first_texts(column, texts),
            _ => return None,
        };
        (rows.len() < column.len() / 4 * 3).then_some(rows)
    }

    fn first_codes(&mut self, column: &Vector, codes: &[u32], dictionary: &Arc<Dictionary>) -> Vec<u32> {
        let at = self.codes.iter().rposition(|(of, _)| Arc::ptr_eq(of, dictionary)).unwrap_or_else(|| {
            self.codes.push((dictionary.clone(), vec![false; dictionary.texts.len()]));
            self.codes.len() - 1
        });
        let seen = &mut self.codes[at].1;
        let mut is_first = |row: usize| {
            // NULL rows may have any code.
            let seen = if column.is_null(row) { &mut self.has_null } else { &mut seen[codes[row] as usize] };
            !std::mem::replace(seen, true)
        };
        (0..codes.len()).filter(|row| is_first(*row)).map(|row| row as u32).collect()
    }

    fn first_texts(&mut self, column: &Vector, texts: &Texts) -> Vec<u32> {
        if self.short.is_empty() {
            self.short = vec![NO_SHORT; SHORT];
        }
        let (mut rows, mut last) = (vec![], NO_SHORT);
        for (row, view) in texts.views.iter().enumerate() {
            let is_first = if column.is_null(row) {
                !std::mem::replace(&mut self.has_null, true)
            } else if *view as u32 as usize > INLINE_BYTES {
                true
            } else {
                // The same text often comes several times in succession.
                std::mem::replace(&mut last, *view) != *view
                    && std::mem::replace(&mut self.short[hash_int(*view as i128) as usize % SHORT], *view) != *view
            };
            if is_first {
                rows.push(row as u32);
            }
        }
        rows
    }

    /// The bytes in memory, without dictionaries.
    pub fn bytes(&self) -> usize {
        self.short.len() * 16 + self.codes.iter().map(|(_, seen)| seen.len()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;

    use super::*;

    #[test]
    fn each_code_comes_once_per_dictionary() {
        let dictionary = || Arc::new(Dictionary::new(StringViewArray::from_iter_values(["a", "b", "a"])));
        let (first, second) = (dictionary(), dictionary());
        let coded = |dictionary: &Arc<Dictionary>, codes: Vec<u32>, valid: Vec<bool>| {
            Vector::with_nulls(Values::Codes(codes.into(), dictionary.clone()), Some(valid.into()))
        };
        let mut repeats = Repeats::default();
        let column =
            coded(&first, vec![1, 1, 9, 2, 9, 1, 1, 1], [true, true, false, true, false, true, true, true].into());
        assert_eq!(repeats.first_rows(&column), Some(vec![0, 2, 3]));
        assert_eq!(repeats.first_rows(&coded(&second, vec![1, 0], vec![true, true])), None, "all are new");
        let column = coded(&second, vec![1, 0, 2, 0], vec![true, true, true, false]);
        assert_eq!(repeats.first_rows(&column), Some(vec![2]));
        assert_eq!(repeats.first_rows(&coded(&first, vec![1, 0, 7, 1], vec![true, true, false, true])), Some(vec![1]));
        assert_eq!(repeats.first_rows(&Vector::ints(vec![1])), None);
    }

    fn texts_of(column: &Vector) -> &Texts {
        match &column.values {
            Values::Text(texts) => texts,
            _ => panic!("texts"),
        }
    }

    #[test]
    fn short_texts_come_once_and_long_ones_always() {
        let long = "a text of more than twelve bytes";
        let texts = ["", long, "", "a", long, "", "a", "", "", "a"];
        let empty = Values::Text(Texts::of(&StringViewArray::from_iter_values(["", "", ""])));
        let after_null = Vector::with_nulls(empty, Some(vec![false, true, true].into()));
        assert_eq!(Repeats::default().first_texts(&after_null, texts_of(&after_null)), [0, 1], "NULL is not empty");
        let column = |texts: &[&str]| {
            let valid = (0..texts.len()).map(|row| row % 7 != 2).collect::<Vec<_>>();
            Vector::with_nulls(Values::Text(Texts::of(&StringViewArray::from_iter_values(texts))), Some(valid.into()))
        };
        let mut repeats = Repeats::default();
        assert_eq!(repeats.first_rows(&column(&texts)), Some(vec![0, 1, 2, 3, 4]));
        assert_eq!(repeats.first_rows(&column(&texts)), Some(vec![1, 4]));
    }
}
