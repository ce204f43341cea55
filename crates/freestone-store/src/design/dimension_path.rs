//! The text form of a dimension: `fk.attribute`, `fk.fk2.attribute:3`, or `attribute`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{find_unquoted, quote, unquote};
use crate::error::{Result, StoreError};

/// The path to a dimension's attribute: foreign-key columns to follow, then the attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DimensionPath {
    /// At least one name. All but the last are columns with a foreign key.
    pub names: Vec<String>,
    /// The bits of the code, if the user chose them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<u32>,
}

/// The maximum number of bits of one dimension.
const MAX_BITS: u32 = 24;

/// The foreign keys that lead to an attribute.
pub fn keys_of(path: &[String]) -> &[String] {
    &path[..path.len().saturating_sub(1)]
}

impl DimensionPath {
    /// Parses one dimension of `cluster = '…'`.
    ///
    /// # Errors
    /// `Invalid` with the expected form.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            let text = text.trim();
            StoreError::invalid(format!(
                "cluster: '{text}' {what}; a dimension is a column, or foreign keys and an attribute, such as \
                 'a, fk.attribute, fk.fk2.attribute:3' (:3 = bits)"
            ))
        };
        let (mut rest, bits) = match find_unquoted(text, ':') {
            None => (text, None),
            Some(at) => {
                let bits = text[at + 1..].trim().parse().ok().filter(|b| (1..=MAX_BITS).contains(b));
                (
                    &text[..at],
                    Some(bits.ok_or_else(|| wrong(&format!("has no number from 1 to {MAX_BITS} behind ':'")))?),
                )
            }
        };
        let mut names = vec![];
        loop {
            let end = find_unquoted(rest, '.');
            let name = rest[..end.unwrap_or(rest.len())].trim();
            if name.is_empty() {
                return Err(wrong("lacks a name"));
            }
            names.push(unquote(name));
            match end {
                Some(end) => rest = &rest[end + 1..],
                None => return Ok(DimensionPath { names, bits }),
            }
        }
    }
}

impl fmt::Display for DimensionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names.iter().map(|n| quote(n)).collect();
        f.write_str(&names.join("."))?;
        match self.bits {
            Some(bits) => write!(f, ":{bits}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_and_read_back() {
        for (text, names, bits) in [
            ("a", vec!["a"], None),
            ("lo_custkey . c_region", vec!["lo_custkey", "c_region"], None),
            ("a.b.\"C. d\":3", vec!["a", "b", "C. d"], Some(3)),
        ] {
            let path = DimensionPath::parse(text).unwrap();
            assert_eq!((path.names.iter().map(String::as_str).collect::<Vec<_>>(), path.bits), (names, bits));
            assert_eq!(DimensionPath::parse(&path.to_string()).unwrap(), path);
        }
        for wrong in ["a:0", "a:25", "a:x", "a..b", ".a", "a.", ":3"] {
            assert!(DimensionPath::parse(wrong).unwrap_err().to_string().contains("such as"), "{wrong}");
        }
    }
}
