//! `json_structure`: the structure of JSON, which `json_transform` takes.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewArray};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::Text;
use super::kinds::TEXT;
use super::rows::{text_of_text, texts};
use crate::json_text::structure::Shape;
use crate::json_text::{Node, append_json_string, known, unescaped};
use crate::times::Call;

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["json_structure"], &[&[Text]], TEXT, |call| {
            text_of_text(call, |text| Ok(written(&shape_of(&known(text)?))))
        }),
        Scalar::new(&["freestone_json_group_structure"], &[&[Text]], TEXT, group_structure),
    ]
}

/// The structure that fits all items of an array.
fn group_structure(call: &Call) -> Result<ArrayRef> {
    let row = |text: &str| -> Result<String> {
        match shape_of(&known(text)?) {
            Shape::List(item) => Ok(written(&item)),
            other => Ok(written(&other)),
        }
    };
    let rows = texts(call, 0)?.iter().map(|text| text.map(row).transpose()).collect::<Result<StringViewArray>>()?;
    Ok(Arc::new(rows))
}

fn value(name: &str) -> Shape {
    Shape::Value(name.to_owned())
}

fn shape_of(node: &Node) -> Shape {
    match node {
        Node::Array(items) => Shape::List(Box::new(items.iter().map(shape_of).fold(value("NULL"), common))),
        Node::Object(entries) => {
            let mut shapes = vec![];
            entries.iter().for_each(|(key, node)| add(&mut shapes, unescaped(key), shape_of(node)));
            Shape::Object(shapes)
        }
        // Whole numbers of more than 64 bits.
        node => value(if node.kind() == "HUGEINT" { "DOUBLE" } else { node.kind() }),
    }
}

fn add(shapes: &mut Vec<(String, Shape)>, key: String, shape: Shape) {
    match shapes.iter_mut().find(|(known, _)| *known == key) {
        Some((_, known)) => *known = common(std::mem::replace(known, value("NULL")), shape),
        None => shapes.push((key, shape)),
    }
}

/// The type that values of both have.
fn common(a: Shape, b: Shape) -> Shape {
    match (a, b) {
        (Shape::Value(null), other) | (other, Shape::Value(null)) if null == "NULL" => other,
        (Shape::Value(a), Shape::Value(b)) => {
            let is_number = |name: &str| matches!(name, "UBIGINT" | "BIGINT" | "HUGEINT" | "DOUBLE");
            match (a.as_str(), b.as_str()) {
                (a, b) if a == b => value(a),
                (a, b) if !is_number(a) || !is_number(b) => value("JSON"),
                ("DOUBLE", _) | (_, "DOUBLE") => value("DOUBLE"),
                _ => value("HUGEINT"),
            }
        }
        (Shape::List(a), Shape::List(b)) => Shape::List(Box::new(common(*a, *b))),
        (Shape::Object(mut a), Shape::Object(b)) => {
            b.into_iter().for_each(|(key, shape)| add(&mut a, key, shape));
            Shape::Object(a)
        }
        _ => value("JSON"),
    }
}

fn written(shape: &Shape) -> String {
    let mut text = String::new();
    write(shape, &mut text);
    text
}

fn write(shape: &Shape, out: &mut String) {
    match shape {
        Shape::Value(name) => append_json_string(name, out),
        Shape::List(item) => {
            out.push('[');
            write(item, out);
            out.push(']');
        }
        // An object without keys has no columns.
        Shape::Object(entries) if entries.is_empty() => out.push_str("\"JSON\""),
        Shape::Object(entries) => {
            out.push('{');
            for (at, (key, shape)) in entries.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                append_json_string(key, out);
                out.push(':');
                write(shape, out);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures() {
        for (text, expected) in [
            (
                r#"{"a":1,"b":[1,2.5],"c":"x","d":null,"e":{"f":true},"g":[],"h":-1}"#,
                r#"{"a":"UBIGINT","b":["DOUBLE"],"c":"VARCHAR","d":"NULL","e":{"f":"BOOLEAN"},"g":["NULL"],"h":"BIGINT"}"#,
            ),
            (r#"[{"a":1},{"b":"x"},{"a":-1}]"#, r#"[{"a":"HUGEINT","b":"VARCHAR"}]"#),
            (r#"[null,{}]"#, r#"["JSON"]"#),
            (r#"[{},{"a":1}]"#, r#"[{"a":"UBIGINT"}]"#),
            (r#"[1,"a"]"#, r#"["JSON"]"#),
            (r#"[true,1]"#, r#"["JSON"]"#),
            (r#"{"a":1,"a":"x"}"#, r#"{"a":"JSON"}"#),
            ("123456789012345678901234567890", "\"DOUBLE\""),
        ] {
            assert_eq!(written(&shape_of(&known(text).expect(text))), expected, "{text}");
        }
    }
}
