//! The numbers of a statement's parameters.

use std::collections::HashMap;

use crate::lexer::{TokenKind, lex};
use crate::tree::Parameter;

/// The numbers of parameters `?` and `$name`, in the order in which they stand in a text.
#[derive(Debug, Clone, Default)]
pub struct ParameterNumbers {
    /// Those of `?`, by where they stand.
    marks: HashMap<u32, usize>,
    /// The names in the order of their numbers.
    names: Vec<String>,
}

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
                Parameter::Name(_) | Parameter::Number(_) => {}
            }
        }
        numbers
    }

    /// The numbers of the parameters of a text.
    pub fn of_text(text: &str) -> ParameterNumbers {
        let lexed = lex(text);
        let tokens = lexed.tokens.iter().filter(|token| token.kind == TokenKind::Parameter);
        let found: Vec<(u32, Parameter)> = tokens
            .map(|token| match token.span.of(text).strip_prefix('$') {
                Some(name) => (token.span.start, Parameter::Name(name.to_owned())),
                None => (token.span.start, Parameter::Next),
            })
            .filter(|(_, parameter)| !matches!(parameter, Parameter::Name(name) if is_number(name)))
            .collect();
        ParameterNumbers::of(found.iter().map(|(place, parameter)| (*place, parameter)))
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
    }
}
