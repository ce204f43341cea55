//! Arguments and results of the functions of `pg_catalog`.

/// An argument or a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Bool(bool),
    TextArray(Vec<String>),
    /// There is no object of this name: a kind and a name.
    Missing(&'static str, String),
    /// The call is an error.
    Refused(String),
    /// The statement has ended while the function waited.
    Interrupted,
}

impl Value {
    /// The number, if it is an integer or the text of one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}
