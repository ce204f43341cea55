//! Types, as they are written.

use super::{Name, ObjectName, Text};
use crate::span::Span;

/// The name of a type.
#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// What it is.
    pub kind: TypeKind,
    /// Where it stands.
    pub span: Span,
}

/// The forms of types.
#[derive(Debug, Clone, PartialEq)]
pub enum TypeKind {
    /// `INT`, `DECIMAL(10, 2)`, `s.mood`. Types of several words have their short names: `DOUBLE PRECISION` is `double`,
    /// `CHARACTER VARYING` is `varchar`, `TIMESTAMP WITH TIME ZONE` is `timestamptz`, and `INT UNSIGNED` is `uinteger`.
    Named {
        /// The name.
        name: ObjectName,
        /// The numbers in parentheses.
        modifiers: Vec<String>,
    },
    /// `T[]` or `LIST(T)`
    List(Box<Type>),
    /// `T[n]`
    Array(Box<Type>, String),
    /// `STRUCT(a T, …)` or `ROW(a T, …)`
    Struct(Vec<TypeField>),
    /// `MAP(K, V)`
    Map(Box<Type>, Box<Type>),
    /// `ENUM('a', …)`
    Enum(Vec<Text>),
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeField {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub data_type: Type,
}
