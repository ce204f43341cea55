//! The numbers of a statement's parameters.

use std::collections::HashMap;

use crate::lexer::{Token, TokenKind, lex};
use crate::tree::Parameter;

/// The numbers of parameters `?` and `$name`, in the order in which they stand in a text.
#[derive(Debug, Clone, Default)]
pub struct ParameterNumbers {
    /// Those of `?`, by where they stand.
    marks: HashMap<u32, usize>,
    /// The names in the order of their numbers.
    names: Vec<String>,
    /// The largest number of `$1`, `$2`, ….
    largest: usize,
}

/// A statement has parameters of several kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MixedParameters;

impl ParameterNumbers {
    /// The numbers of these parameters, which are in the order of the text, each with where it stands.
    pub fn of<'p>(found: impl IntoIterator<Item = (u32, &'p Parameter)>) -> ParameterNumbers {
        let mut numbers = ParameterNumbers::default();
        for (place, parameter) in found {
            match parameter {
                Parameter::Next => {
                    numbers.marks.insert(place, numbers.marks.len() + 1);
                }
                Parameter::Name(name) if !numbers.names.contains(name) => numbers.names.push(name.clone()),
                Parameter::Number(number) => numbers.largest = numbers.largest.max(*number as usize),
                Parameter::Name(_) => {}
            }
        }
        numbers
    }

    /// The numbers of the parameters of a text.
    pub fn of_text(text: &str) -> ParameterNumbers {
        // Most statements have none, and need not be read for it.
        if !text.contains(['?', '$']) {
            return ParameterNumbers::default();
        }
        let lexed = lex(text);
        let tokens = lexed.tokens.iter().filter(|token| token.kind == TokenKind::Parameter);
        let parameter = |token: &Token| match token.span.of(text).strip_prefix('$') {
            Some(name) if is_number(name) => name.parse().ok().map(Parameter::Number),
            Some(name) => Some(Parameter::Name(name.to_owned())),
            None => Some(Parameter::Next),
        };
        let found = tokens.filter_map(|token| Some((token.span.start, parameter(token)?)));
        let found: Vec<(u32, Parameter)> = found.collect();
        ParameterNumbers::of(found.iter().map(|(place, parameter)| (*place, parameter)))
    }

    /// The names of the parameters, in the order of their numbers.
    ///
    /// # Errors
    /// There are parameters of several kinds.
    pub fn names(&self) -> Result<&[String], MixedParameters> {
        let kinds = [self.largest > 0, !self.marks.is_empty(), !self.names.is_empty()];
        if kinds.iter().filter(|kind| **kind).count() > 1 { Err(MixedParameters) } else { Ok(&self.names) }
    }

    /// How many values the statement needs.
    pub fn count(&self) -> usize {
        self.largest.max(self.marks.len()).max(self.names.len())
    }

    /// The number of a parameter that stands at this place, from 1.
    pub fn number(&self, parameter: &Parameter, place: u32) -> Option<usize> {
        match parameter {
            Parameter::Number(number) => Some(*number as usize),
            Parameter::Next => self.marks.get(&place).copied(),
            Parameter::Name(name) => self.names.iter().position(|known| known == name).map(|at| at + 1),
        }
    }
}

fn is_number(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_in_the_order_of_the_text() {
        let text = "SELECT '?', ?, a /* ? */ FROM t WHERE b = ?";
        let numbers = ParameterNumbers::of_text(text);
        let places: Vec<u32> = text.match_indices('?').map(|(at, _)| at as u32).collect();
        let number = |at: u32| numbers.number(&Parameter::Next, at);
        assert_eq!(places.into_iter().map(number).collect::<Vec<_>>(), [None, Some(1), None, Some(2)]);
        let numbers = ParameterNumbers::of_text("SELECT $b, $a, $b, $7");
        let number = |name: &str| numbers.number(&Parameter::Name(name.to_owned()), 0);
        assert_eq!((number("a"), number("b"), number("c")), (Some(2), Some(1), None));
        assert_eq!(numbers.number(&Parameter::Number(7), 0), Some(7));
        assert_eq!(numbers.count(), 7);
        assert_eq!(ParameterNumbers::of_text("SELECT ?, '?', ?").count(), 2);
    }
}
