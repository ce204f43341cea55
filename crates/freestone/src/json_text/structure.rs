//! The structure of JSON: a document in which each value is replaced by the name of its type, such as
//! `{"a": "UBIGINT", "b": ["VARCHAR"]}`.

use super::{Node, known, unescaped};
use crate::error::{Error, Result};

/// The type of the values at one place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// The name of a type.
    Value(String),
    List(Box<Shape>),
    Object(Vec<(String, Shape)>),
}

impl Shape {
    /// Parses a structure.
    ///
    /// # Errors
    /// The text is not JSON, or has anything but names of types, objects, and arrays with one item.
    pub fn parse(text: &str) -> Result<Shape> {
        of_node(&known(text)?)
    }
}

fn of_node(node: &Node) -> Result<Shape> {
    match node {
        Node::Text(name) => Ok(Shape::Value(unescaped(name))),
        Node::Array(items) => match items.as_slice() {
            [item] => Ok(Shape::List(Box::new(of_node(item)?))),
            _ => Err(Error::invalid(
                "an array in a structure of JSON has one item, the type of its items: [\"INTEGER\"]",
            )),
        },
        Node::Object(entries) => {
            let shapes = entries.iter().map(|(key, node)| Ok((unescaped(key), of_node(node)?)));
            Ok(Shape::Object(shapes.collect::<Result<_>>()?))
        }
        other => Err(Error::invalid(format!(
            "{} in a structure of JSON: expected the name of a type, such as \"INTEGER\"",
            other.text()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures() {
        let list = Shape::List(Box::new(Shape::Value("INT".to_owned())));
        assert_eq!(Shape::parse(r#"{"a":["INT"]}"#).ok(), Some(Shape::Object(vec![("a".to_owned(), list)])));
        for wrong in ["{", "1", "[]", r#"["INT","INT"]"#, r#"{"a":null}"#] {
            assert!(Shape::parse(wrong).is_err(), "{wrong}");
        }
    }
}
