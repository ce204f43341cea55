//! Strings with given pieces, one behind the other: `LIKE 'a%b%c'`.

use memchr::memmem::Finder;

/// A beginning, an end, and what is between them in this order. Pieces do not overlap.
#[derive(Debug, Clone)]
pub struct Pieces {
    first: Vec<u8>,
    between: Vec<Finder<'static>>,
    last: Vec<u8>,
}

impl PartialEq for Pieces {
    fn eq(&self, other: &Pieces) -> bool {
        let needles = |pieces: &Pieces| pieces.between.iter().map(|piece| piece.needle().to_vec()).collect::<Vec<_>>();
        self.first == other.first && self.last == other.last && needles(self) == needles(other)
    }
}

impl Pieces {
    /// The pieces between the `%` of a pattern that has no other wildcard; `None` if it has no `%`.
    pub fn of_pattern(pattern: &str) -> Option<Pieces> {
        let (first, rest) = pattern.split_once('%')?;
        let (between, last) = rest.rsplit_once('%').unwrap_or(("", rest));
        let between = between.split('%').filter(|piece| !piece.is_empty());
        Some(Pieces {
            first: first.into(),
            between: between.map(|piece| Finder::new(piece.as_bytes()).into_owned()).collect(),
            last: last.into(),
        })
    }

    /// Whether a string has the pieces. Each is looked for behind the one before: if any occurrence fits, the first does.
    pub fn are_in(&self, value: &[u8]) -> bool {
        let Some(rest) = value.strip_prefix(&self.first[..]) else { return false };
        let Some(mut rest) = rest.strip_suffix(&self.last[..]) else { return false };
        for piece in &self.between {
            let Some(at) = piece.find(rest) else { return false };
            rest = &rest[at + piece.needle().len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// LIKE by trying every length for each `%`.
    fn like(pattern: &[u8], value: &[u8]) -> bool {
        match (pattern.first(), value.first()) {
            (None, _) => value.is_empty(),
            (Some(b'%'), _) => (0..=value.len()).any(|from| like(&pattern[1..], &value[from..])),
            (Some(a), Some(b)) => a == b && like(&pattern[1..], &value[1..]),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn pieces_are_found_where_like_finds_them(pattern in "[ab%é]{0,8}", value in "[abé]{0,14}") {
            match Pieces::of_pattern(&pattern) {
                None => prop_assert!(!pattern.contains('%')),
                Some(pieces) => {
                    prop_assert_eq!(pieces.are_in(value.as_bytes()), like(pattern.as_bytes(), value.as_bytes()));
                }
            }
        }
    }
}
