//! The conversion of JSON to a value of a structure's type, as an expression of SQL.

use freestone_binder::JSON;
use freestone_sql::tree::TypeKind;

use crate::error::{Error, Result};
use crate::json_text::structure::Shape;
use crate::sql::statement::{literal, quote};

/// The text of an expression that makes a value of a structure's type of the JSON called [`JSON`].
///
/// # Errors
/// It is no structure.
pub(crate) fn conversion(structure: &str, is_strict: bool) -> Result<String> {
    converted(&Shape::parse(structure)?, JSON, is_strict, 0)
}

/// The text of an expression that converts `json`. `depth` is the number of lists around it.
fn converted(shape: &Shape, json: &str, is_strict: bool, depth: usize) -> Result<String> {
    let cast = if is_strict { "CAST" } else { "TRY_CAST" };
    let of_kind = |kind: &str, value: String| match is_strict {
        true => {
            let other = format!("error('expected an {kind} of JSON, found ' || {json})");
            format!("CASE json_type({json}) WHEN '{kind}' THEN {value} WHEN 'NULL' THEN NULL ELSE {other} END")
        }
        // Of anything but an object, all fields are NULL.
        false if kind == "OBJECT" => format!("CASE WHEN json_type({json}) <> 'NULL' THEN {value} END"),
        false => format!("CASE WHEN json_type({json}) = '{kind}' THEN {value} END"),
    };
    Ok(match shape {
        Shape::Value(name) if name.eq_ignore_ascii_case("JSON") => json.to_owned(),
        // Of which no value is known.
        Shape::Value(name) if name.eq_ignore_ascii_case("NULL") => "CAST(NULL AS VARCHAR)".to_owned(),
        Shape::Value(name) => {
            let (data_type, kind) = known_type(name)?;
            let text = format!("json_extract_string({json}, '$')");
            let plain = format!("{cast}({text} AS {data_type})");
            let bit = format!("WHEN 'BOOLEAN' THEN CAST(CAST({text} = 'true' AS INT) AS {data_type})");
            match kind {
                // Numbers with a fraction are rounded.
                Some(Number::Whole) => format!(
                    "CASE json_type({json}) {bit} WHEN 'DOUBLE' THEN {cast}(CAST({text} AS DOUBLE) AS {data_type}) \
                     ELSE {plain} END"
                ),
                Some(Number::Real) => format!("CASE json_type({json}) {bit} ELSE {plain} END"),
                None => plain,
            }
        }
        Shape::List(item) => {
            let element = format!("__item{depth}");
            let value = converted(item, &element, is_strict, depth + 1)?;
            of_kind("ARRAY", format!("list_transform(json_extract({json}, '$[*]'), {element} -> {value})"))
        }
        Shape::Object(entries) => {
            let entry = |(key, shape): &(String, Shape)| {
                let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                let value = format!("json_extract({json}, {})", literal(&pointer));
                Ok(format!("{} := {}", quote(key), converted(shape, &value, is_strict, depth)?))
            };
            let entries = entries.iter().map(entry).collect::<Result<Vec<_>>>()?;
            of_kind("OBJECT", format!("struct_pack({})", entries.join(", ")))
        }
    })
}

/// The numbers of a type.
enum Number {
    Whole,
    Real,
}

/// The name of a type in SQL, and the numbers that it has.
fn known_type(name: &str) -> Result<(String, Option<Number>)> {
    let unknown = |_| Error::invalid(format!("'{name}' in a structure of JSON is no type"));
    let known = freestone_sql::parse_type(name).map_err(unknown)?;
    let number = match &known.kind {
        TypeKind::Named { name, .. } => name.parts.last().and_then(|name| number(&name.text)),
        _ => None,
    };
    Ok((known.to_string(), number))
}

fn number(name: &str) -> Option<Number> {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "double" | "real" | "float" | "float4" | "float8" | "decimal" | "numeric" | "dec" => Some(Number::Real),
        _ => is_integer(&lower).then_some(Number::Whole),
    }
}

fn is_integer(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("int") && name != "interval" || matches!(name.as_str(), "short" | "long" | "signed")
}
