//! ALTER TABLE of a field of a struct: `ADD COLUMN s.k INT`, `DROP COLUMN s.i` and `RENAME s.i TO v`. In a list, the path goes on with
//! `element`. The values of the column are computed anew by an expression over the old ones.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};

use crate::error::{Error, ErrorKind, Result};
use crate::sql::statement::quote;
use crate::type_names::type_name;

/// The part of a path that stands for the items of a list.
const ELEMENT: &str = "element";

/// What happens to the field at the end of a path.
pub(super) enum FieldChange<'a> {
    Add { data_type: DataType, if_not_exists: bool },
    Drop { if_exists: bool },
    Rename(&'a str),
}

/// The type of a value whose field at a path is changed, and the expression that computes it of the old `value`; nothing where
/// IF EXISTS or IF NOT EXISTS leaves all as it is.
///
/// # Errors
/// The path leads to no such field, or a name is taken.
pub(super) fn changed(
    old: &DataType,
    value: &str,
    path: &[&str],
    change: &FieldChange,
) -> Result<Option<(DataType, String)>> {
    let [name, rest @ ..] = path else { return Err(Error::invalid("a field has a name")) };
    match old {
        DataType::List(item) if *name == ELEMENT && !rest.is_empty() => {
            let variable = format!("__element{}", rest.len());
            let inner = changed(item.data_type(), &variable, rest, change)?;
            Ok(inner.map(|(to, each)| {
                let list = DataType::List(Arc::new(item.as_ref().clone().with_data_type(to)));
                (list, format!("list_transform({value}, lambda {variable}: {each})"))
            }))
        }
        DataType::Struct(fields) => {
            let part = |field: &FieldRef| (field.clone(), format!("({value}).{}", quote(field.name())));
            let mut parts: Vec<(FieldRef, String)> = fields.iter().map(part).collect();
            let at = parts.iter().position(|(field, _)| field.name() == name);
            let is_changed = match at {
                Some(at) if !rest.is_empty() => within(&mut parts, at, rest, change)?,
                _ => at_end(&mut parts, at, (*name, rest), change)?,
            };
            let fields: Vec<FieldRef> = parts.iter().map(|(field, _)| field.clone()).collect();
            let parts = parts.iter().map(|(field, part)| format!("{} := {part}", quote(field.name())));
            let whole = parts.collect::<Vec<_>>().join(", ");
            let whole = format!("CASE WHEN ({value}) IS NOT NULL THEN struct_pack({whole}) END");
            Ok(is_changed.then(|| (DataType::Struct(fields.into()), whole)))
        }
        other => Err(Error::invalid(format!("{name} is no field: the value around it is {}", type_name(other)))),
    }
}

/// Changes a field further down.
fn within(parts: &mut [(FieldRef, String)], at: usize, rest: &[&str], change: &FieldChange) -> Result<bool> {
    let (field, value) = &parts[at];
    let Some((to, value)) = changed(field.data_type(), value, rest, change)? else { return Ok(false) };
    parts[at] = (Arc::new(field.as_ref().clone().with_data_type(to)), value);
    Ok(true)
}

/// Changes one of these fields.
fn at_end(
    parts: &mut Vec<(FieldRef, String)>,
    at: Option<usize>,
    (name, rest): (&str, &[&str]),
    change: &FieldChange,
) -> Result<bool> {
    let known: Vec<String> = parts.iter().map(|(field, _)| field.name().clone()).collect();
    let is_taken = |name: &str| Error::new(ErrorKind::Exists, format!("the struct has a field {name}"));
    match (change, at) {
        (FieldChange::Add { data_type, .. }, None) if rest.is_empty() => {
            let value = format!("CAST(NULL AS {})", type_name(data_type));
            parts.push((Arc::new(Field::new(name, data_type.clone(), true)), value));
            Ok(true)
        }
        (FieldChange::Add { if_not_exists: true, .. }, Some(_)) => Ok(false),
        (FieldChange::Add { .. }, Some(_)) => Err(is_taken(name)),
        (FieldChange::Drop { .. }, Some(_)) if parts.len() == 1 => {
            Err(Error::invalid(format!("{name} is the only field of its struct")).with_hint("drop the column"))
        }
        (FieldChange::Drop { .. }, Some(at)) => {
            parts.remove(at);
            Ok(true)
        }
        (FieldChange::Rename(new), Some(_)) if known.iter().any(|known| known == new) => Err(is_taken(new)),
        (FieldChange::Rename(new), Some(at)) => {
            parts[at].0 = Arc::new(parts[at].0.as_ref().clone().with_name(*new));
            Ok(true)
        }
        (FieldChange::Drop { if_exists: true }, None) => Ok(false),
        (_, None) => Err(Error::not_found("field", name, known.iter().map(String::as_str))),
    }
}
