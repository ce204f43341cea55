//! Rows of a column of codes whose code came before. Where only the distinct values are wanted, they are left out, so that each
//! entry of a dictionary is looked up once.

use std::sync::Arc;

use crate::vector::{Dictionary, Values, Vector};

/// The codes that came.
#[derive(Debug, Default)]
pub struct Repeats {
    seen: Vec<(Arc<Dictionary>, Vec<bool>)>,
    has_null: bool,
}

impl Repeats {
    /// The rows whose codes are new, and the first NULL; `None` if the column has no codes.
    pub fn first_rows(&mut self, column: &Vector) -> Option<Vec<u32>> {
        let Values::Codes(codes, dictionary) = &column.values else { return None };
        let at = self.seen.iter().rposition(|(of, _)| Arc::ptr_eq(of, dictionary)).unwrap_or_else(|| {
            self.seen.push((dictionary.clone(), vec![false; dictionary.texts.len()]));
            self.seen.len() - 1
        });
        let seen = &mut self.seen[at].1;
        let mut rows = vec![];
        for (row, code) in codes.iter().enumerate() {
            // NULL rows may have any code.
            let seen = if column.is_null(row) { &mut self.has_null } else { &mut seen[*code as usize] };
            if !*seen {
                *seen = true;
                rows.push(row as u32);
            }
        }
        Some(rows)
    }

    /// The bytes in memory, without dictionaries.
    pub fn bytes(&self) -> usize {
        self.seen.iter().map(|(_, seen)| seen.len()).sum()
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
        let rows = |repeats: &mut Repeats, column: Vector| repeats.first_rows(&column).expect("codes");
        assert_eq!(
            rows(&mut repeats, coded(&first, vec![1, 1, 9, 2, 9], vec![true, true, false, true, false])),
            [0, 2, 3]
        );
        assert_eq!(rows(&mut repeats, coded(&second, vec![1, 0], vec![true, true])), [0, 1]);
        assert_eq!(rows(&mut repeats, coded(&first, vec![1, 0, 7], vec![true, true, false])), [1]);
        assert_eq!(repeats.first_rows(&Vector::ints(vec![1])), None);
    }
}
