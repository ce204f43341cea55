//! Distinct views of a column, so that computations that depend only on the string run once per distinct view.

/// The distinct views of a column, in order of first appearance. Equal views mean equal strings. Different views may
/// also mean equal strings, if the strings are too long to be inlined in a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distinct {
    /// The number of each row's view; NULL counts as one view.
    pub codes: Vec<u32>,
    /// The first row of each view.
    pub rows: Vec<u32>,
}

/// Marks a free slot of the hash table.
const FREE: u32 = u32::MAX;

impl Distinct {
    /// The distinct values among Arrow views. `None` if there are more than `limit`, which is found before many rows
    /// are read. `is_valid` says whether a row is not NULL.
    pub fn of(views: &[u128], is_valid: impl Fn(usize) -> bool, limit: usize) -> Option<Self> {
        let limit = limit.min(u32::MAX as usize >> 2);
        let slots = (4 * limit).next_power_of_two().max(16);
        let mut table = vec![FREE; slots];
        let (mut codes, mut rows, mut null) = (Vec::with_capacity(views.len()), Vec::<u32>::new(), None);
        for (row, view) in views.iter().enumerate() {
            let new = rows.len() as u32;
            let code = if is_valid(row) {
                let mut slot = hash(*view) as usize & (slots - 1);
                loop {
                    let code = table[slot];
                    if code == FREE {
                        table[slot] = new;
                        break new;
                    }
                    if views[rows[code as usize] as usize] == *view {
                        break code;
                    }
                    slot = (slot + 1) & (slots - 1);
                }
            } else {
                *null.get_or_insert(new)
            };
            if code == new {
                if rows.len() >= limit {
                    return None;
                }
                rows.push(row as u32);
            }
            codes.push(code);
        }
        Some(Self { codes, rows })
    }
}

/// A hash in whose low bits both halves of a view are mixed.
#[inline]
fn hash(view: u128) -> u64 {
    let mixed = (view as u64 ^ ((view >> 64) as u64).rotate_left(23)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Views;
    use proptest::prelude::*;

    #[test]
    fn a_null_is_one_of_them_wherever_its_view_leads() {
        let view = |text: &str| Views::view(text.as_bytes(), 0, 0);
        let views = [view("a"), view("a"), view("b"), view("b"), view("a")];
        let found = Distinct::of(&views, |row| row % 2 == 0, 3).unwrap();
        assert_eq!(found, Distinct { codes: vec![0, 1, 2, 1, 0], rows: vec![0, 1, 2] });
        assert_eq!(Distinct::of(&views, |row| row % 2 == 0, 2), None);
        assert_eq!(Distinct::of(&[], |_| true, 0), Some(Distinct { codes: vec![], rows: vec![] }));
    }

    proptest! {
        #[test]
        fn rows_of_a_code_have_its_view(numbers in prop::collection::vec(0u128..40, 0..300), limit in 0usize..50) {
            let views: Vec<u128> = numbers.iter().map(|n| n << 90 | n).collect();
            let different = numbers.iter().collect::<std::collections::HashSet<_>>().len();
            match Distinct::of(&views, |_| true, limit) {
                None => prop_assert!(different > limit),
                Some(found) => {
                    prop_assert_eq!(found.rows.len(), different);
                    prop_assert!(found.rows.is_sorted());
                    prop_assert_eq!(found.codes.len(), views.len());
                    for (row, code) in found.codes.iter().enumerate() {
                        prop_assert_eq!(views[found.rows[*code as usize] as usize], views[row]);
                    }
                }
            }
        }
    }
}
