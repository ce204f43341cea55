//! The values, rows and description of a catalog table.

use std::time::SystemTime;

use super::data::Data;

/// A value of a table.
#[derive(Debug, Clone)]
pub enum Cell {
    Null,
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Ints(Vec<i64>),
    Texts(Vec<String>),
    Time(SystemTime),
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Cell::Int(value)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Cell::Bool(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Cell::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Cell::Text(value)
    }
}

impl From<Vec<i64>> for Cell {
    fn from(value: Vec<i64>) -> Self {
        Cell::Ints(value)
    }
}

impl From<Vec<String>> for Cell {
    fn from(value: Vec<String>) -> Self {
        Cell::Texts(value)
    }
}

impl From<SystemTime> for Cell {
    fn from(value: SystemTime) -> Self {
        Cell::Time(value)
    }
}

pub type Rows = Vec<Vec<Cell>>;

macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$($crate::pg::catalog::cell::Cell::from($value)),*] };
}
pub(super) use row;

/// A table: its columns as `name type`, where the type is `i` for an integer, `t` for a string, `b` for a boolean, `f`
/// for a float, `l` for a list of integers, `a` for a list of strings, `c` for one character of one byte and `z` for a time with time zone; and its rows.
pub struct TableOf {
    pub name: &'static str,
    pub columns: &'static str,
    pub rows: fn(&Data) -> Rows,
}
