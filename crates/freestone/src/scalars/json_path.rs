//! Paths into JSON: `$.a[0].b`, JSON pointers as `/a/0/b`, or one key.

use datafusion::error::Result;

use super::rows::invalid;
use crate::growth::Meter;
use crate::json_text::{Node, unescaped};

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    /// An item of an array; negative positions count from the end.
    Item(i64),
    /// A part of a JSON pointer: the key of an object, or the position in an array.
    Part(String),
    /// The place behind the last item of an array: `[#]`.
    End,
    AnyKey,
    AnyItem,
    /// The value itself and all values in it, at any depth: `..`.
    Anywhere,
}

/// Parses a path.
pub(super) fn path(text: &str) -> Result<Vec<Step>> {
    match text.chars().next() {
        Some('$') => json_path(&text[1..]).map_or_else(|| invalid(format!("'{text}' is no path of JSON")), Ok),
        Some('/') => {
            let step = |part: &str| Step::Part(part.replace("~1", "/").replace("~0", "~"));
            Ok(text[1..].split('/').map(step).collect())
        }
        Some(_) => Ok(vec![Step::Key(text.to_owned())]),
        None => Ok(vec![]),
    }
}

fn json_path(mut rest: &str) -> Option<Vec<Step>> {
    let mut steps = vec![];
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Anywhere);
            rest = after;
            if !rest.starts_with('[') {
                rest = key(rest, &mut steps)?;
            }
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = key(after, &mut steps)?;
        } else {
            let inside = rest.strip_prefix('[')?;
            let end = inside.find(']')?;
            steps.push(item(inside[..end].trim())?);
            rest = &inside[end + 1..];
        }
    }
    Some(steps)
}

/// Adds the step for the key at the start of a path, and returns the rest.
fn key<'t>(path: &'t str, steps: &mut Vec<Step>) -> Option<&'t str> {
    if let Some(quoted) = path.strip_prefix('"') {
        let mut is_escaped = false;
        let end = quoted.find(|c| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        })?;
        (end > 0).then_some(())?;
        steps.push(Step::Key(unescaped(&quoted[..end])));
        return Some(&quoted[end + 1..]);
    }
    let end = path.find(['.', '[']).unwrap_or(path.len());
    steps.push(match &path[..end] {
        "" => return None,
        "*" => Step::AnyKey,
        "**" => Step::Anywhere,
        name => Step::Key(name.to_owned()),
    });
    Some(&path[end..])
}

/// The step for what stands in brackets.
fn item(index: &str) -> Option<Step> {
    if index == "*" {
        return Some(Step::AnyItem);
    }
    if let Some(back) = index.strip_prefix('#') {
        return match back.strip_prefix('-') {
            None => back.is_empty().then_some(Step::End),
            Some(_) => match back.parse().ok()? {
                0 => Some(Step::End),
                at => Some(Step::Item(at)),
            },
        };
    }
    match index.strip_prefix(['"', '\'']).and_then(|name| name.strip_suffix(['"', '\''])) {
        Some(name) => Some(Step::Key(name.to_owned())),
        None if is_number(index) => Some(Step::Item(index.parse().unwrap_or(i64::MAX))),
        None => Some(Step::Item(index.strip_prefix('-').filter(|digits| is_number(digits)).and(index.parse().ok())?)),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The position in an array that a part of a JSON pointer names.
pub(super) fn position_of(part: &str) -> Option<i64> {
    (is_number(part) && (part == "0" || !part.starts_with('0'))).then(|| part.parse().unwrap_or(i64::MAX))
}

/// Whether a path can match several values.
pub(super) fn is_many(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step, Step::AnyKey | Step::AnyItem | Step::Anywhere))
}

/// The values that a path matches.
///
/// # Errors
/// They are too many: each `..` can match a value once for each one around it.
pub(super) fn found<'n, 'a>(node: &'n Node<'a>, steps: &[Step]) -> Result<Vec<&'n Node<'a>>> {
    let mut meter = Meter::new("the matches of a JSON path");
    let mut found = vec![node];
    for step in steps {
        let mut next = vec![];
        for node in found {
            match (step, node) {
                (Step::Item(at), _) => next.extend(node.item(*at)),
                (Step::Key(name), _) | (Step::Part(name), Node::Object(_)) => next.extend(node.key(name)),
                (Step::Part(part), _) => next.extend(position_of(part).and_then(|at| node.item(at))),
                (Step::AnyKey, Node::Object(entries)) => next.extend(entries.iter().map(|(_, value)| value)),
                (Step::AnyItem, Node::Array(items)) => next.extend(items),
                (Step::Anywhere, _) => within(node, &mut next, &mut meter)?,
                _ => {}
            }
            meter.step()?;
        }
        found = next;
    }
    Ok(found)
}

/// What a match takes together with what becomes of it.
const MATCH_BYTES: usize = 64;

/// Adds a value and all in it, in the order of the text.
fn within<'n, 'a>(node: &'n Node<'a>, all: &mut Vec<&'n Node<'a>>, meter: &mut Meter) -> Result<()> {
    meter.add(MATCH_BYTES)?;
    all.push(node);
    match node {
        Node::Array(items) => items.iter().try_for_each(|item| within(item, all, meter)),
        Node::Object(entries) => entries.iter().try_for_each(|(_, value)| within(value, all, meter)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_text::known;

    #[test]
    fn paths() {
        let text = r#" {"a": [1, -2.5e3, "x\n\u00e4\ud83d\ude00"], "b": {"c": null, "d": true}, "q\"": 5} "#;
        let node = known(text).expect("JSON");
        for (at, expected) in [
            ("$.a[0]", Some("1")),
            ("$.a[-1]", Some("\"x\\nä😀\"")),
            ("$.a[#-2]", Some("-2.5e3")),
            ("$.a[#]", None),
            ("$.a[99999999999999999999]", None),
            ("/b/d", Some("true")),
            ("/a/0", Some("1")),
            ("/a/00", None),
            ("b", Some("{\"c\":null,\"d\":true}")),
            ("$.\"b\".c", Some("null")),
            ("$['b']['c']", Some("null")),
            ("$.\"q\\\"\"", Some("5")),
            ("$..d", Some("true")),
            ("$.**.d", Some("true")),
            ("$.x", None),
            ("$", Some(node.text().as_str())),
            ("", Some(node.text().as_str())),
        ] {
            let steps = path(at).expect(at);
            assert_eq!(found(&node, &steps).expect(at).first().map(|node| node.text()).as_deref(), expected, "{at}");
        }
        assert_eq!(found(&node, &path("$.b.*").expect("a path")).expect("values").len(), 2);
        assert_eq!(found(&node, &path("$..[0]").expect("a path")).expect("values").len(), 1);
        for wrong in ["$.", "$[", "$a", "$.\"\"", "$[#-]", "$[#-18446744073709551617]", "$[1", "$[x]", "$.."] {
            assert!(path(wrong).is_err(), "{wrong}");
        }
    }
}
