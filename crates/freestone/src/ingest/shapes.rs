//! The types of JSON values with arrays and objects, inferred from a sample.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ColumnField};

use super::kinds::Kinds;
use super::nested::{Item, Items};

/// Values of more arrays and objects inside each other than this stay text.
const DEPTH_MAX: usize = 16;
/// An object with more members than this is not a struct: its keys are data.
const FIELDS_MAX: usize = 1000;

/// What the values of a member or column have in common.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    kinds: Kinds,
    /// There are values other than arrays and objects.
    is_flat: bool,
    /// The items of all arrays.
    items: Option<Box<Shape>>,
    /// The members of all objects.
    members: Option<Vec<(String, Shape)>>,
    /// There are values whose parts are not looked at.
    is_text: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { kinds: Kinds::ANY, is_flat: false, items: None, members: None, is_text: false }
    }
}

impl From<Kinds> for Shape {
    fn from(kinds: Kinds) -> Self {
        Shape { kinds, is_flat: kinds.is_seen(), ..Shape::default() }
    }
}

impl Shape {
    /// Sees a string.
    pub fn see_string(&mut self, text: &str) {
        self.is_flat = true;
        self.kinds.see_json_string(text);
    }

    /// Sees a number, `true` or `false`.
    pub fn see_literal(&mut self, text: &str) {
        self.is_flat = true;
        self.kinds.see_json_literal(text);
    }

    /// Sees an array or object.
    pub fn see_nested(&mut self, text: &str) {
        if depth(text) > DEPTH_MAX {
            self.is_text = true;
            return;
        }
        self.see_inside(text);
    }

    fn see_inside(&mut self, text: &str) {
        let seen = self.see_parts(text);
        self.is_text |= seen.is_none();
    }

    fn see_item(&mut self, item: &Item<'_>) {
        match item {
            Item::Null => {}
            Item::Quoted(text) => self.see_string(text),
            Item::Raw(text) if text.starts_with(['[', '{']) => self.see_inside(text),
            Item::Raw(text) => self.see_literal(text),
        }
    }

    /// `None` if the text is no array or object, or has too many members.
    fn see_parts(&mut self, text: &str) -> Option<()> {
        if let Some(mut list) = Items::of(text, b'[') {
            let items = self.items.get_or_insert_default();
            while list.next(b']').ok()? {
                items.see_item(&list.item(b",]").ok()?);
            }
            return Some(());
        }
        let mut object = Items::of(text, b'{')?;
        let members = self.members.get_or_insert_default();
        let mut next = 0;
        while object.next(b'}').ok()? {
            let Item::Quoted(key) = object.item(b":").ok()? else { return None };
            object.expect(b":").ok()?;
            let place = match members.get(next) {
                Some((name, _)) if *name == key => next,
                _ => members.iter().position(|(name, _)| *name == key).unwrap_or_else(|| {
                    members.push((key.to_string(), Shape::default()));
                    members.len() - 1
                }),
            };
            next = place + 1;
            members[place].1.see_item(&object.item(b",}").ok()?);
            if members.len() > FIELDS_MAX {
                return None;
            }
        }
        Some(())
    }

    /// What the values of both have in common: those of a column in two files.
    pub fn and(&self, other: &Shape) -> Shape {
        let items = match (&self.items, &other.items) {
            (Some(a), Some(b)) => Some(Box::new(a.and(b))),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let members = match (&self.members, &other.members) {
            (Some(a), Some(b)) => Some(united(a, b)),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        Shape {
            kinds: self.kinds.and(other.kinds),
            is_flat: self.is_flat || other.is_flat,
            items,
            members,
            is_text: self.is_text || other.is_text,
        }
    }

    /// Whether values are the text of JSON: arrays or objects without a common type.
    pub fn is_json_text(&self) -> bool {
        let is_nested = self.is_text || self.items.is_some() || self.members.is_some();
        is_nested && !self.data_type().is_nested()
    }

    /// The type of the values; VARCHAR for those without a common type.
    pub fn data_type(&self) -> DataType {
        if self.is_text {
            return DataType::Utf8View;
        }
        match (self.is_flat, &self.items, &self.members) {
            (_, None, None) => self.kinds.data_type(),
            (false, Some(items), None) => DataType::List(Arc::new(ColumnField::new("item", items.data_type(), true))),
            (false, None, Some(members)) if !members.is_empty() && members.len() <= FIELDS_MAX => {
                let field = |(name, shape): &(String, Shape)| ColumnField::new(name, shape.data_type(), true);
                DataType::Struct(members.iter().map(field).collect::<Vec<_>>().into())
            }
            _ => DataType::Utf8View,
        }
    }
}

/// The number of arrays and objects inside each other in a text of JSON.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut is_escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn united(a: &[(String, Shape)], b: &[(String, Shape)]) -> Vec<(String, Shape)> {
    let mut members = a.to_vec();
    for (name, shape) in b {
        match members.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = known.and(shape),
            None => members.push((name.clone(), shape.clone())),
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_names::type_name;

    fn check(texts: &[&str], expected: &str) {
        let mut shape = Shape::default();
        texts.iter().for_each(|text| shape.see_nested(text));
        assert_eq!(type_name(&shape.data_type()), expected, "{texts:?}");
        let each = texts.iter().map(|text| {
            let mut shape = Shape::default();
            shape.see_nested(text);
            shape
        });
        let all = each.reduce(|a, b| a.and(&b)).expect("a text");
        assert_eq!(type_name(&all.data_type()), expected, "{texts:?}");
    }

    #[test]
    fn types_are_those_of_all_values() {
        check(&["[1, 2]", "[null]", "[]"], "BIGINT[]");
        check(&["[1, 2.5]"], "DOUBLE[]");
        check(&["[]"], "VARCHAR[]");
        check(&[r#"["2020-01-01"]"#, r#"["2020-02-02"]"#], "DATE[]");
        check(&[r#"{"a": 1}"#, r#"{"b": [{"c": "x"}], "a": null}"#], "STRUCT(a BIGINT, b STRUCT(c VARCHAR)[])");
        check(&[r#"{"a": 1}"#, "[1]"], "VARCHAR");
        check(&["[1, [2]]"], "VARCHAR[]");
        check(&["{}"], "VARCHAR");
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        check(&[&deep], "VARCHAR");
        check(&[&format!("[{}1]", "1,".repeat(100_000))], "BIGINT[]");
        check(&[r#"["[[[[[[[[[[[[[[[[[[[[\""]"#], "VARCHAR[]");
    }
}
