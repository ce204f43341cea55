//! Results of a slow function for texts that came before: columns of texts mostly have the same ones again and again.

use datafusion::error::Result;
use freestone_codec::hash::hash_bytes;

/// Results by their texts. A new one takes the place of another whose text has the same last bits of its hash.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// The other arguments of the function.
    others: (String, usize),
    known: Vec<Option<(Box<str>, Box<str>)>>,
    /// The texts that were looked for, and those that were found.
    sought: usize,
    found: usize,
}

/// The results that are kept at most.
const KEPT: usize = 1 << 14;
/// The bytes of a text and its result that are kept.
const BYTES_MAX: usize = 128;
/// After so many texts, no more are looked for if few were found: fewer than one of eight.
const TRIED: usize = 1 << 12;
/// After so many texts, it is tried again.
const TRIED_AGAIN: usize = 1 << 20;

impl Results {
    /// The same for other arguments, if they are others.
    pub fn of(&mut self, text: &str, number: usize) -> &mut Results {
        if self.others.0 != text || self.others.1 != number {
            *self = Results { others: (text.to_owned(), number), ..Results::default() };
        }
        self
    }

    /// Puts the result for a text into `out`, which is empty. If it is not known, `compute` does.
    ///
    /// # Errors
    /// Those of `compute`.
    pub fn put(&mut self, text: &str, out: &mut String, compute: impl FnOnce(&mut String) -> Result<()>) -> Result<()> {
        self.sought += 1;
        if self.sought > TRIED_AGAIN {
            (self.sought, self.found) = (0, 0);
        }
        let is_rare = self.sought > TRIED && self.found < self.sought / 8;
        if text.len() > BYTES_MAX || is_rare {
            return compute(out);
        }
        let slot = hash_bytes(text.as_bytes()) as usize % KEPT;
        if let Some(Some((known, result))) = self.known.get(slot)
            && **known == *text
        {
            self.found += 1;
            out.push_str(result);
            return Ok(());
        }
        compute(out)?;
        if text.len() + out.len() <= BYTES_MAX {
            self.known.resize(KEPT, None);
            self.known[slot] = Some((text.into(), out.as_str().into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn each_text_gets_its_own_result() {
        let (mut results, computed) = (Results::default(), Cell::new(0));
        let mut result = |function: &str, text: &str| {
            let mut out = String::new();
            let compute = |out: &mut String| {
                computed.set(computed.get() + 1);
                out.push_str(function);
                out.push_str(text);
                Ok(())
            };
            results.of(function, 1).put(text, &mut out, compute).expect("a result");
            assert_eq!(out, format!("{function}{text}"));
        };
        let long = "x".repeat(BYTES_MAX + 1);
        for round in 0..3 {
            (0..100).for_each(|number| result("f", &format!("text {number}")));
            ["", &long, "é"].into_iter().for_each(|text| result("f", text));
            if round == 1 {
                result("g", "text 1");
            }
        }
        assert!((2 * 102 + 3..3 * 103).contains(&computed.get()), "{computed:?}");
        // Texts that never come again are soon not looked for any more.
        (0..2 * TRIED).for_each(|number| result("h", &number.to_string()));
        assert!(results.sought == 2 * TRIED && results.found == 0);
    }
}
