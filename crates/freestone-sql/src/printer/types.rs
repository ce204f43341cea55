//! Types as SQL. Names are in upper case.

use std::fmt::{Display, Formatter, Result};

use super::{Listed, commas};
use crate::tree::{Type, TypeField, TypeKind};

impl Display for Type {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match &self.kind {
            TypeKind::Named { name, modifiers } => {
                for (at, part) in name.parts.iter().enumerate() {
                    let point = if at > 0 { "." } else { "" };
                    match part.quoted {
                        true => write!(f, "{point}{part}")?,
                        false => write!(f, "{point}{}", part.text.to_ascii_uppercase())?,
                    }
                }
                Listed("", modifiers).fmt(f)
            }
            TypeKind::List(item) => write!(f, "{item}[]"),
            TypeKind::Array(item, size) => write!(f, "{item}[{size}]"),
            TypeKind::Struct(fields) => write!(f, "STRUCT({})", commas(fields)),
            TypeKind::Map(key, value) => write!(f, "MAP({key}, {value})"),
            TypeKind::Enum(labels) => write!(f, "ENUM({})", commas(labels)),
        }
    }
}

impl Display for TypeField {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{} {}", self.name, self.data_type)
    }
}
