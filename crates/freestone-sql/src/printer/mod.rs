//! Trees as SQL, with the parentheses that were written around expressions, and others where they are needed.

mod expressions;
mod objects;
mod queries;
mod session;
mod tables;
mod types;
mod writes;

use std::fmt::{Display, Formatter, Result};

use crate::tree::{Name, ObjectName, OptionItem, Text};

/// Items with a separator between them.
struct Separated<'a, T>(&'a [T], &'static str);

impl<T: Display> Display for Separated<'_, T> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        for (at, item) in self.0.iter().enumerate() {
            let separator = if at > 0 { self.1 } else { "" };
            write!(f, "{separator}{item}")?;
        }
        Ok(())
    }
}

/// Items with commas between them.
fn commas<T>(items: &[T]) -> Separated<'_, T> {
    Separated(items, ", ")
}

/// Words, then items with commas between them; nothing without items.
struct Clause<'a, T>(&'static str, &'a [T]);

impl<T: Display> Display for Clause<'_, T> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self.1 {
            [] => Ok(()),
            items => write!(f, "{}{}", self.0, commas(items)),
        }
    }
}

/// Words, then items in parentheses; nothing without items.
struct Listed<'a, T>(&'static str, &'a [T]);

impl<T: Display> Display for Listed<'_, T> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self.1 {
            [] => Ok(()),
            items => write!(f, "{}({})", self.0, commas(items)),
        }
    }
}

/// Words, then a part; nothing without it.
struct Optional<'a, T>(&'static str, &'a Option<T>);

impl<T: Display> Display for Optional<'_, T> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self.1 {
            None => Ok(()),
            Some(part) => write!(f, "{}{part}", self.0),
        }
    }
}

/// The words if a condition holds.
fn when(holds: bool, words: &'static str) -> &'static str {
    if holds { words } else { "" }
}

/// A text in quotes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}

impl Display for Text {
    fn fmt(&self, f: &mut Formatter) -> Result {
        Quoted(&self.value).fmt(f)
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self.quoted {
            true => write!(f, "\"{}\"", self.text.replace('"', "\"\"")),
            false => f.write_str(&self.text),
        }
    }
}

impl Display for ObjectName {
    fn fmt(&self, f: &mut Formatter) -> Result {
        Separated(&self.parts, ".").fmt(f)
    }
}

impl Display for OptionItem {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{}{}", self.name, Optional(" = ", &self.value))
    }
}
